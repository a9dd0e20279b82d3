/* ranks_case.h - helpers for tests that may run under mpirun. MPI runs for the whole program, and a failed
 * check ends all ranks.
 *
 * ranks_open and ranks_close are the setup and teardown of a program's group of tests. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_RANKS_CASE_H
#define TRI_TESTS_RANKS_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "comm/comm.h"
#include "comm/runtime.h"

/* A failing rank must not leave the others waiting. A format and its arguments may follow. */
#define CHECK(x, ...)                                                                                        \
  do {                                                                                                       \
    if (!(x)) {                                                                                              \
      fprintf(stderr, "rank %d, %s:%d: %s;", tri_runtime_env_rank(), __FILE__, __LINE__, #x);                \
      fprintf(stderr, " " __VA_ARGS__);                                                                      \
      fprintf(stderr, "\n%s", tri_error_trace());                                                            \
      tri_runtime_abort(1);                                                                                  \
    }                                                                                                        \
  } while (0)
#define OK(call) CHECK((call) == TRI_OK)

static tri_runtime rt; /* with the real nodes */
static tri_device *cpu;
static tri_comm   *world;

static inline int ranks_open(void **state) {
  (void)state;
  OK(tri_runtime_open(0, &rt));
  OK(tri_device_open("cpu", rt.local_rank, 1, &cpu));
  OK(tri_comm_open(&rt, TRI_WORLD, cpu, &world));
  return 0;
}

static inline int ranks_close(void **state) {
  (void)state;
  tri_comm_close(&world);
  tri_device_close(&cpu);
  tri_runtime_close(&rt);
  return 0;
}

#endif
