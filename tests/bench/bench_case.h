/* bench_case.h - the errors, arguments and prompts of the bench programs. Test code. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_CASE_H
#define TRI_BENCH_CASE_H

#include "base/error.h"
#include "base/rng.h"
#include "generate/request.h"

#include <stdio.h>
#include <stdlib.h>

#define OK(call)                                                                                             \
  do {                                                                                                       \
    if ((call) != TRI_OK) {                                                                                  \
      fprintf(stderr, "%s\n", tri_error_trace());                                                            \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)

/* Returns the number that an argument gives. Ends the program if it is none, or is below 1. */
static inline int64_t bench_positive(const char *program, const char *text) {
  char         *end;
  const int64_t n = strtoll(text, &end, 10);

  if (*end || n < 1) {
    fprintf(stderr, "%s: %s: must be a whole number >= 1\n", program, text);
    exit(64);
  }
  return n;
}

/* Makes n prompts of `length` random tokens below V. The caller must free *token and *prompt. */
static inline void bench_prompts(int64_t n, int64_t length, int V, int32_t **token, tri_prompt **prompt) {
  *token = calloc((size_t)(n * length), sizeof **token);
  *prompt = calloc((size_t)n, sizeof **prompt);
  if (!*token || !*prompt) exit(69);
  for (int64_t i = 0; i < n * length; i++) (*token)[i] = (int32_t)(tri_rng_mix((uint64_t)i) % (uint64_t)V);
  for (int64_t i = 0; i < n; i++) (*prompt)[i] = (tri_prompt){i, *token + i * length, (int)length};
}

#endif
