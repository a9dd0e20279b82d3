/* fake_nvml.h - the values reported by the fake NVML for its one GPU. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAKE_NVML_H
#define FAKE_NVML_H

#include <stdbool.h>

/* The UUID of its GPU. */
#define FAKE_NVML_UUID "GPU-00112233-4455-6677-8899-aabbccddeeff"

typedef struct fake_nvml {
  bool               fails;  /* every query fails with NVML_ERROR_NOT_SUPPORTED */
  int                opened; /* inits minus shutdowns */
  unsigned           percent, milliwatts, megahertz;
  unsigned long long millijoules, power_ns, heat_ns;
} fake_nvml;

#endif
