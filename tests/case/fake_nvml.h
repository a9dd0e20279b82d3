/* fake_nvml.h - what the NVML of tests says of its one GPU. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAKE_NVML_H
#define FAKE_NVML_H

#include <stdbool.h>

/* The UUID of its GPU. */
#define FAKE_NVML_UUID "GPU-00112233-4455-6677-8899-aabbccddeeff"

typedef struct fake_nvml {
  bool               fails;  /* every question is answered by NVML_ERROR_NOT_SUPPORTED */
  int                opened; /* inits less shutdowns */
  unsigned           percent, milliwatts, megahertz;
  unsigned long long millijoules, power_ns, heat_ns;
} fake_nvml;

#endif
