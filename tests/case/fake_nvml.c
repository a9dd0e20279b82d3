/* fake_nvml.c - a fake NVML with one GPU. The test chooses its values (fake_nvml.h). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_nvml.h"

#include <string.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6 }; /* nvmlReturn_t */

fake_nvml fake_nvml_state;

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **gpu);
int nvmlDeviceGetUtilizationRates(void *gpu, unsigned *two);
int nvmlDeviceGetPowerUsage(void *gpu, unsigned *mw);
int nvmlDeviceGetTotalEnergyConsumption(void *gpu, unsigned long long *mj);
int nvmlDeviceGetClockInfo(void *gpu, int clock, unsigned *mhz);
int nvmlDeviceGetViolationStatus(void *gpu, int limit, unsigned long long *two);

static int answer(const void *gpu) {
  return gpu != &fake_nvml_state || fake_nvml_state.fails ? NOT_SUPPORTED : SUCCESS;
}

int nvmlInit_v2(void) { return fake_nvml_state.opened++, SUCCESS; }
int nvmlShutdown(void) { return fake_nvml_state.opened--, SUCCESS; }

int nvmlDeviceGetHandleByUUID(const char *uuid, void **gpu) {
  *gpu = &fake_nvml_state;
  return strcmp(uuid, FAKE_NVML_UUID) ? NOT_FOUND : SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *gpu, unsigned *two) {
  two[0] = fake_nvml_state.percent;
  two[1] = 100 - fake_nvml_state.percent;
  return answer(gpu);
}

int nvmlDeviceGetPowerUsage(void *gpu, unsigned *mw) { return *mw = fake_nvml_state.milliwatts, answer(gpu); }

int nvmlDeviceGetTotalEnergyConsumption(void *gpu, unsigned long long *mj) {
  return *mj = fake_nvml_state.millijoules, answer(gpu);
}

int nvmlDeviceGetClockInfo(void *gpu, int clock, unsigned *mhz) {
  *mhz = clock == 1 ? fake_nvml_state.megahertz : 1; /* NVML_CLOCK_SM */
  return answer(gpu);
}

int nvmlDeviceGetViolationStatus(void *gpu, int limit, unsigned long long *two) {
  two[0] = 1;
  two[1] = limit == 0 ? fake_nvml_state.power_ns : limit == 1 ? fake_nvml_state.heat_ns : 0;
  return answer(gpu);
}
