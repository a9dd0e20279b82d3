/* bench_case.h - ends a bench program with the error if a call fails. Test code. */
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
