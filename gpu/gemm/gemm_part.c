/* gemm_part.c - the reference bits of a part of a weight: columns of the whole weight's products.
 *
 * Both multiply noise. The part has rows from the begin, the middle and the end of the whole, so that most
 * columns lie elsewhere in a tile, and the last ones in a last tile of either. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "gemm_impl.h"

enum { RUNS = 3 };

/* Rows [at, at + n) of the part are rows [from, from + n) of the whole. */
typedef struct run {
  int64_t at, from, n;
} run;

static void runs_of(int64_t n, int64_t whole, run out[RUNS]) {
  const int64_t third = n / 3, middle = n - 2 * third, further = whole - n;

  out[0] = (run){0, 0, third};
  out[1] = (run){third, third + (further > 1 ? further / 2 | 1 : 0), middle};
  out[2] = (run){n - third, whole - third, third};
}

tri_status tri_lt_part_fill(const tri_linear *l, const tri_linear *whole, const tri_lt_workspace *r,
                            const tri_lt_workspace *rw, char *w) {
  const tri_device_ops *ops = r->s->device->ops;
  const size_t          size = tri_dtype_bytes(l->dtype), row = (size_t)l->n_in * size;
  run                   runs[RUNS];

  runs_of(l->n_out, whole->n_out, runs);
  for (int i = 0; i < RUNS; i++) {
    const size_t at = (size_t)runs[i].at, from = (size_t)runs[i].from, n = (size_t)runs[i].n;
    if (!n) continue;
    TRI_TRY(ops->copy(r->s, w + at * row, (const char *)rw->w + from * row, n * row));
    TRI_TRY(ops->copy(r->s, r->bias + at * size, rw->bias + from * size, n * size));
  }
  return TRI_OK;
}

tri_status tri_lt_part_judge(const tri_linear *l, const tri_lt *p, const tri_linear *whole,
                             tri_lt_workspace *r, tri_lt_workspace *rw) {
  const tri_lt *of = &whole->fwd[p - l->fwd];
  run           runs[RUNS];

  TRI_TRY(tri_lt_judge(whole, of, &of->algo[TRI_LT_MANY], rw));
  tri_lt_place(l, p, r);
  runs_of(l->n_out, whole->n_out, runs);
  for (int i = 0; i < 2 * RUNS; i++) {
    const run *c = &runs[i / 2];
    tri_tensor y = tri_view2(i % 2 ? r->judge : r->base, p->out, r->rows, l->n_out),
               x = tri_view2(i % 2 ? rw->judge : rw->base, p->out, r->rows, whole->n_out);
    TRI_TRY(tri_cuda_columns(r->s, &y, c->at, &x, c->from, c->n));
  }
  return TRI_OK;
}
