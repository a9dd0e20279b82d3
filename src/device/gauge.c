/* gauge.c - reads a GPU's utilization, power, energy, clock and throttling through NVML. NVML's declarations
 * are written here as NVIDIA documents them (NVML API Reference, 13.0), so programs built without its header
 * can call it too. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "gauge.h"

#include "base/host_memory.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SM_CLOCK = 1, LIMIT_POWER = 0, LIMIT_HEAT = 1 }; /* nvmlClockType_t, nvmlPerfPolicyType_t */
enum { UUID_BYTES = 16, UUID_TEXT_BYTES = 48 };

typedef struct percents { /* nvmlUtilization_t */
  unsigned gpu, memory;
} percents;

typedef struct limited { /* nvmlViolationTime_t */
  unsigned long long at_us, limited_ns;
} limited;

typedef void *handle; /* nvmlDevice_t */

struct tri_gauge {
  void  *library;
  handle gpu;
  int (*shutdown)(void);
  /* NULL if this NVML lacks the function. All return 0 for success. */
  int (*use)(handle, percents *);
  int (*power)(handle, unsigned *);            /* mW */
  int (*energy)(handle, unsigned long long *); /* mJ */
  int (*clock)(handle, int, unsigned *);       /* MHz */
  int (*held_back)(handle, int, limited *);
};

/* Finds a function of the library, or NULL. ISO C has no cast from an object pointer to a function
 * pointer. */
static void find(void *library, const char *name, void *function) {
  void *found = dlsym(library, name);

  memcpy(function, &found, sizeof found);
}

/* "GPU-8a3f0c1e-0123-4567-89ab-0123456789ab" */
static void print_uuid(const unsigned char *u, char out[UUID_TEXT_BYTES]) {
  int n = snprintf(out, UUID_TEXT_BYTES, "GPU");

  for (int i = 0; i < UUID_BYTES; i++)
    n += snprintf(out + n, (size_t)(UUID_TEXT_BYTES - n), "%s%02x",
                  i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u[i]);
}

/* Starts NVML and finds the GPU and the functions. Returns false if one of the required ones is missing. */
static bool begin(tri_gauge *g, const unsigned char *uuid) {
  int (*init)(void), (*by_uuid)(const char *, handle *);
  char text[UUID_TEXT_BYTES];

  find(g->library, "nvmlInit_v2", &init);
  find(g->library, "nvmlShutdown", &g->shutdown);
  find(g->library, "nvmlDeviceGetHandleByUUID", &by_uuid);
  if (!init || !g->shutdown || !by_uuid || init()) return false;
  print_uuid(uuid, text);
  if (by_uuid(text, &g->gpu)) {
    g->shutdown();
    return false;
  }
  find(g->library, "nvmlDeviceGetUtilizationRates", &g->use);
  find(g->library, "nvmlDeviceGetPowerUsage", &g->power);
  find(g->library, "nvmlDeviceGetTotalEnergyConsumption", &g->energy);
  find(g->library, "nvmlDeviceGetClockInfo", &g->clock);
  find(g->library, "nvmlDeviceGetViolationStatus", &g->held_back);
  return true;
}

tri_status tri_gauge_open(const unsigned char *uuid, tri_gauge **out) {
  void      *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  tri_status st;

  *out = NULL;
  if (!library) return TRI_OK;
  st = TRI_ALLOC(*out, 1);
  if (st == TRI_OK) {
    (*out)->library = library;
    if (begin(*out, uuid)) return TRI_OK;
  }
  dlclose(library);
  TRI_FREE(*out);
  return st;
}

void tri_gauge_close(tri_gauge **g) {
  if (!*g) return;
  (*g)->shutdown();
  dlclose((*g)->library);
  TRI_FREE(*g);
}

/* Returns for how many seconds this limit has held the GPU back, or NaN if not reported. */
static double held_back_s(const tri_gauge *g, int limit) {
  limited x = {0};

  return g->held_back && !g->held_back(g->gpu, limit, &x) ? (double)x.limited_ns * 1e-9 : NAN;
}

tri_gauge_reading tri_gauge_read(const tri_gauge *g) {
  tri_gauge_reading  r = {NAN, NAN, NAN, NAN, NAN};
  percents           use = {0};
  unsigned           mw = 0, mhz = 0;
  unsigned long long mj = 0;

  if (!g) return r;
  if (g->use && !g->use(g->gpu, &use)) r.busy_ratio = use.gpu / 100.0;
  if (g->power && !g->power(g->gpu, &mw)) r.power_w = mw * 1e-3;
  if (g->energy && !g->energy(g->gpu, &mj)) r.energy_j = (double)mj * 1e-3;
  if (g->clock && !g->clock(g->gpu, SM_CLOCK, &mhz)) r.clock_hz = mhz * 1e6;
  r.slowed_s = held_back_s(g, LIMIT_POWER) + held_back_s(g, LIMIT_HEAT);
  return r;
}
