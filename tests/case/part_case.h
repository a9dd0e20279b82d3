/* part_case.h - opens parts of a linear layer and compares their results with the whole layer's columns. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_PART_CASE_H
#define TRI_TESTS_PART_CASE_H

#include "linear_case.h"

/* Returns the row of the whole weight [n,..] that is row j of part i of t. A part has a run of each half, as
 * of heads of q and of k. */
static inline int64_t row_of(int64_t n, int t, int i, int64_t j) {
  const int64_t part = n / t, half = part / 2;
  if (part % 2) return i * part + j;
  return j < half ? i * half + j : n / 2 + i * half + j - half;
}

/* Gives a the rows of part i of t of the whole. */
static inline void part_load(layer *a, const layer *whole, int t, int i) {
  const size_t row = (size_t)a->n_in * tri_dtype_bytes(a->dtype);
  for (int64_t j = 0; j < a->n_out; j++)
    memcpy(a->w.data + (size_t)j * row, whole->w.data + (size_t)row_of(whole->n_out, t, i, j) * row, row);
  fence_put(&a->w);
  layer_pack(a);
}

/* Opens one of t parts. */
static inline layer part_open(const layer *whole, int t, int threads) {
  whole_of = whole->l;
  layer a = layer_open(whole->n_out / t, whole->n_in, whole->dtype, false, threads);
  whole_of = NULL;
  return a;
}

/* The types of y and bias (TRI_DTYPE_COUNT for none) of a product, and whether a base is added. */
typedef struct kind {
  tri_dtype y, bias;
  bool      add;
} kind;

/* Returns rows [first, first + rows) of y, for part i of t or for the whole, which is one part. x, bias and
 * base are those of `all` rows of the whole. */
static inline fence part_fwd(const layer *a, const fence *x, int64_t all, kind how, int t, int i,
                             int64_t first, int64_t rows) {
  const int64_t n = a->n_out, N = n * t;
  const size_t  y_size = tri_dtype_bytes(how.y);
  const bool    has_bias = how.bias != TRI_DTYPE_COUNT;
  const size_t  b_size = has_bias ? tri_dtype_bytes(how.bias) : 4;
  fence      bias = fence_noise(N, has_bias ? how.bias : TRI_F32, 4), part = fence_open((size_t)n * b_size);
  fence      y = fence_open((size_t)(rows * n) * y_size), base = fence_noise(how.add ? all * N : 1, how.y, 5);
  tri_tensor xt = tri_view2(x->device, a->dtype, all, a->n_in), xs = tri_rows(&xt, first, rows);
  tri_tensor yt = tri_view2(y.device, how.y, rows, n), bt = tri_view1(part.device, how.bias, n);
  for (int64_t j = 0; j < n; j++) {
    const int64_t at = row_of(N, t, i, j);
    memcpy(part.data + (size_t)j * b_size, bias.data + (size_t)at * b_size, b_size);
    for (int64_t r = 0; how.add && r < rows; r++)
      memcpy(y.data + (size_t)(r * n + j) * y_size, base.data + (size_t)((first + r) * N + at) * y_size,
             y_size);
  }
  fence_put(&part);
  fence_put(&y);
  OK(a->k->linear_fwd(a->s, a->l, a->fwd, &yt, &xs, has_bias ? &bt : NULL, how.add ? &yt : NULL));
  fence_get(&y, a->s);
  fence_close(&bias);
  fence_close(&part);
  fence_close(&base);
  return y;
}

/* Compares rows of a part with the whole's columns in `judge`, y of all rows. */
static inline void same_columns(const layer *a, const fence *judge, const fence *x, int64_t all, kind how,
                                int t, int i, int64_t first, int64_t rows) {
  const size_t size = tri_dtype_bytes(how.y);
  fence        y = part_fwd(a, x, all, how, t, i, first, rows);
  int64_t      differ = 0;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t j = 0; j < a->n_out; j++)
      differ +=
          memcmp(y.data + (size_t)(r * a->n_out + j) * size,
                 judge->data + (size_t)((first + r) * a->n_out * t + row_of(a->n_out * t, t, i, j)) * size,
                 size) != 0;
  if (differ)
    fail_msg("[%d,%d] %s, part %d of %d, rows %d to %d, y %s%s%s: %d of %d results differ", (int)a->n_out * t,
             (int)a->n_in, tri_dtype_word(a->dtype), i, t, (int)first, (int)(first + rows),
             tri_dtype_word(how.y), how.bias == TRI_DTYPE_COUNT ? "" : ", bias", how.add ? ", base" : "",
             (int)differ, (int)(rows * a->n_out));
  fence_close(&y);
}

#endif
