/* clock.c - the monotonic clock and the time since 1970. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "clock.h"

#include <time.h>

double tri_unix_s(void) {
  struct timespec t;

  clock_gettime(CLOCK_REALTIME, &t);
  return (double)(t.tv_sec * 1000 + t.tv_nsec / 1000000) / 1000;
}

double tri_now_s(void) {
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
