/* shapes_case.h - runs a kernel test's case in every type and shape, on every back end with one thread and
 * two. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_SHAPES_CASE_H
#define TRI_TESTS_SHAPES_CASE_H

#include "kernel_case.h"

/* Rows and columns. These are 1, primes, and multiples of the vector widths with their neighbours. The last
 * ones are large enough for two threads. */
static const int64_t shapes[][2] = {{1, 1},  {3, 7},   {2, 31},    {5, 32},   {33, 33},
                                    {4, 64}, {1, 257}, {37, 1031}, {201, 35}, {0, 8}};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static uint64_t seen[1024]; /* hashes of the run with one thread */
static int      n_seen, at_seen;

/* Checks that two threads give the bits of one. Every case calls this equally often. */
static inline void same_for_threads(bench *b, const tri_tensor *t) {
  uint64_t h = hash_of(b, t);
  if (b->device->threads == 1) {
    assert_true(n_seen < (int)(sizeof seen / sizeof seen[0]));
    seen[n_seen++] = h;
  } else if (seen[at_seen++] != h) {
    fail_msg("two threads give other bits than one (array %d of the case)", at_seen - 1);
  }
}

static void (*current)(bench *, tri_dtype, int64_t, int64_t);
static inline void run_shapes(bench *b) {
  if (b->device->threads == 1) n_seen = 0;
  at_seen = 0;
  for (int t = TRI_F32; t <= TRI_F16; t++)
    for (int i = 0; i < N_SHAPES; i++) {
      current(b, (tri_dtype)t, shapes[i][0], shapes[i][1]);
      drop_arrays(b, 0);
    }
}
static inline void all_shapes(void (*run)(bench *, tri_dtype, int64_t, int64_t)) {
  current = run;
  for_each_device(run_shapes);
}

#endif
