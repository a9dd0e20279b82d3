/* nonfinite.c - finds the first NaN or Inf of a forward pass. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "decoder.h"

#include <math.h>

enum { PIECE_ELEMENTS = 1 << 18 }; /* chosen, 1 MiB of host memory at a time */

/* Sets *at to the first of n f32 in device memory that is NaN or Inf, or to -1. buf [PIECE_ELEMENTS] is
 * scratch. */
static tri_status find_first(tri_model *m, const void *from, int64_t n, float *buf, tri_stream *s,
                             int64_t *at) {
  *at = -1;
  for (int64_t done = 0; done < n && *at < 0; done += PIECE_ELEMENTS) {
    int64_t count = n - done < PIECE_ELEMENTS ? n - done : PIECE_ELEMENTS;
    TRI_TRY(m->device->ops->copy(s, buf, (const float *)from + done, (size_t)count * sizeof *buf));
    TRI_TRY(m->device->ops->stream_sync(s));
    for (int64_t k = 0; k < count && *at < 0; k++)
      if (!isfinite(buf[k])) *at = done + k;
  }
  return TRI_OK;
}

/* Returns the output of a unit before the head, f32 [N,C]. */
static const void *output_of(const tri_model *m, int unit) {
  return unit < m->shape.L ? m->acts[unit].x : m->x;
}

static tri_status find_row(tri_model *m, const tri_batch *b, float *buf, tri_stream *s, int *unit,
                           int64_t *row) {
  int64_t at = -1, C = m->shape.C;

  for (*unit = 0; *unit < tri_unit_of_head(m); ++*unit) {
    TRI_TRY(find_first(m, output_of(m, *unit), b->token.dim[0] * C, buf, s, &at));
    if (at < 0) continue;
    *row = at / C;
    return TRI_OK;
  }
  TRI_TRY(find_first(m, m->head.ops == &tri_head_scalar ? m->head.value : m->head.logp, b->row.dim[0], buf, s,
                     &at));
  if (at >= 0) {
    int32_t of;
    TRI_TRY(m->device->ops->copy(s, &of, (const int32_t *)b->row.data + at, sizeof of));
    TRI_TRY(m->device->ops->stream_sync(s));
    at = of;
  }
  *row = at;
  return TRI_OK;
}

/* Finds the sequence of a row. */
static tri_status find_sequence(tri_model *m, const tri_batch *b, tri_stream *s, tri_model_nonfinite *out) {
  int64_t    n = b->cu.dim[0];
  int32_t   *cu = NULL;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(cu, n));
  TRI_TRY_DONE(m->device->ops->copy(s, cu, b->cu.data, (size_t)n * sizeof *cu));
  TRI_TRY_DONE(m->device->ops->stream_sync(s));
  while (out->seq + 2 < n && cu[out->seq + 1] <= out->token) out->seq++;
  out->token -= cu[out->seq];
done:
  TRI_FREE(cu);
  return st;
}

tri_status tri_model_find_nonfinite(tri_model *m, const tri_batch *b, tri_stream *s,
                                    tri_model_nonfinite *out) {
  tri_status st = TRI_OK;
  float     *buf = NULL;
  int        unit;

  TRI_ASSERT(m->opt.train);
  *out = (tri_model_nonfinite){0};
  TRI_TRY_DONE(TRI_ALLOC(buf, PIECE_ELEMENTS));
  TRI_TRY_DONE(find_row(m, b, buf, s, &unit, &out->token));
  if (out->token < 0) goto done;
  TRI_TRY_DONE(find_sequence(m, b, s, out));
  out->unit = m->unit[unit].name;
done:
  TRI_FREE(buf);
  return st;
}
