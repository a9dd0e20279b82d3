/* bench_case.h - what the bench programs share: a call that must succeed, or the program ends with its error.
 * Test code. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_CASE_H
#define TRI_BENCH_CASE_H

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

#define OK(call)                                                                                             \
  do {                                                                                                       \
    if ((call) != TRI_OK) {                                                                                  \
      fprintf(stderr, "%s\n", tri_error_trace());                                                            \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)

#endif
