/* gemm_free.c - the library's free choice: its first algorithm for a number of rows, with sums in parts
 * allowed. It serves the products of gradients, and products that need no equal bits of rows.
 *
 * Bits may then depend on the number of rows, but not on the run. So the choice follows from the shape, the
 * library and the GPU, and parts of a sum are added in a fixed order (gemm_find.c). Versions 12 and 13 of the
 * library have dropped the end of a sum in parts if its length is not a multiple of a tile (pull request 2767
 * of facebookexperimental/triton). For bwd_w the length of a sum is the number of rows. So an algorithm with
 * parts must first pass a trial. On small whole numbers, with sums exact in any order, it must give the
 * result of a whole sum. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "gemm_impl.h"

#include <stdio.h>

/* Rows of a head's chunk, above those the library is asked for. Chosen, and odd. */
enum { ABOVE_MANY = 7001 };
/* The longest sum asked of bwd_w in one product. Chosen above the tokens of a pass. */
enum { LONGEST_SUM = 1 << 18 };
/* As in gemm_agree.c. With few multiprocessors fewer rows show as much. */
enum { ROWS_PER_SM = 64 };
enum { COUNTS = 6 }; /* numbers of rows tried in a bucket */

/* Parts pay off if the result has few tiles and the sum is long. For bwd_w this means many rows. For the
 * others it means few rows, where the workspace of the parts grows with the rows, and the last bucket has no
 * bound on rows. f32 is not meant for speed. */
static bool may_have_parts(const tri_linear *l, const tri_lt *p, int bucket) {
  if (l->dtype == TRI_F32) return false;
  return p->dir == TRI_LT_BWD_W ? tri_lt_least(bucket) > 256 : bucket < TRI_LT_MANY;
}

static int64_t most_rows(const tri_linear *l, int bucket) {
  const int64_t least = tri_lt_least(bucket), most = bucket == TRI_LT_MANY ? ABOVE_MANY : tri_lt_rows[bucket],
                worth = (int64_t)ROWS_PER_SM * l->device->n_sm;

  return most <= worth ? most : least > worth ? least : worth;
}

/* Operands of small whole numbers, and space for two results. */
typedef struct exact {
  tri_stream *s;
  char       *a, *b, *bias, *whole, *parts, *lt;
  size_t      a_bytes, b_bytes, d_bytes, lt_bytes;
} exact;

/* Columns of b and of the result. These are x and y in fwd, dy and dx in bwd_x, dy and dw in bwd_w. */
static int64_t b_cols(const tri_linear *l, const tri_lt *p) {
  return p->dir == TRI_LT_FWD ? l->n_in : l->n_out;
}
static int64_t d_cols(const tri_linear *l, const tri_lt *p) {
  return p->dir == TRI_LT_FWD ? l->n_out : l->n_in;
}
static int64_t d_rows(const tri_linear *l, const tri_lt *p, int64_t rows) {
  return p->dir == TRI_LT_BWD_W ? l->n_out : rows;
}

static void exact_sizes(const tri_linear *l, const tri_lt *p, int64_t rows, exact *e) {
  const size_t  A = tri_dtype_bytes(l->dtype), out = tri_dtype_bytes(p->out);
  const int64_t w = l->n_out * l->n_in;

  e->a_bytes = tri_lt_round((size_t)(p->dir == TRI_LT_BWD_W ? rows * l->n_in : w) * A);
  e->b_bytes = tri_lt_round((size_t)(rows * b_cols(l, p)) * A);
  e->d_bytes = tri_lt_round((size_t)(d_rows(l, p, rows) * d_cols(l, p)) * out);
}

/* Fills the middle third of n bytes differently. So a sum over all is about 0, and a loss at its end shows in
 * few digits. The bytes of an element are equal. 0x4040 is 3 in bf16, 0xc0c0 is -6. In f16 they are 17/8 and
 * -19/8. */
static tri_status fill_thirds(tri_stream *s, char *at, size_t n) {
  const size_t third = n / 3 & ~(size_t)1;

  TRI_TRY(s->device->ops->fill(s, at, 0x40, n));
  return s->device->ops->fill(s, at + third, 0xc0, third);
}

/* A sum runs along a's slowest index, so thirds of a are thirds of each sum. In fwd it runs along each row of
 * b, so all rows of b equal the first. */
static tri_status exact_fill(const tri_linear *l, const tri_lt *p, int64_t rows, const exact *e) {
  const tri_device_ops *ops = e->s->device->ops;
  const size_t          row = (size_t)l->n_in * tri_dtype_bytes(l->dtype);

  TRI_TRY(ops->fill(e->s, e->bias, 0, (size_t)l->n_out * sizeof(float)));
  if (p->dir != TRI_LT_FWD) {
    TRI_TRY(fill_thirds(e->s, e->a, e->a_bytes));
    return ops->fill(e->s, e->b, 0x40, e->b_bytes);
  }
  TRI_TRY(ops->fill(e->s, e->a, 0x40, e->a_bytes));
  TRI_TRY(fill_thirds(e->s, e->b, row));
  for (int64_t n = 1; n < rows; n *= 2)
    TRI_TRY(ops->copy(e->s, e->b + (size_t)n * row, e->b, (size_t)(rows - n < n ? rows - n : n) * row));
  return TRI_OK;
}

/* *same &= both algorithms can do this many rows and give the same result. */
static tri_status compare(const tri_linear *l, const tri_lt *p, const exact *e, int64_t rows,
                          const cublasLtMatmulAlgo_t *whole, const cublasLtMatmulAlgo_t *parts, bool *same) {
  const size_t n = (size_t)(d_rows(l, p, rows) * d_cols(l, p)) * tri_dtype_bytes(p->out);
  tri_lt_call  c = {.a = e->a,
                    .b = e->b,
                    .bias = p->bias ? e->bias : NULL,
                    .d = e->whole,
                    .rows = rows,
                    .workspace = e->lt,
                    .bytes = e->lt_bytes};
  int32_t     *flag = tri_cuda_scratch(e->s), differ = 0;
  size_t       need;

  *same = *same && tri_lt_fits(l, p, rows, whole, &need) && need <= e->lt_bytes &&
          tri_lt_fits(l, p, rows, parts, &need) && need <= e->lt_bytes;
  if (!*same) return TRI_OK;
  TRI_TRY(tri_lt_run(l, p, whole, e->s, &c));
  c.d = e->parts;
  if (tri_lt_run(l, p, parts, e->s, &c) != TRI_OK) {
    tri_error_clear(); /* as in tri_lt_agree */
    *same = false;
    return TRI_OK;
  }
  TRI_TRY(tri_cuda_differ(e->s, flag, e->whole, e->parts, n, p->out, false));
  TRI_TRY(e->s->device->ops->copy(e->s, &differ, flag, sizeof differ));
  TRI_TRY(e->s->device->ops->stream_sync(e->s));
  *same = !differ;
  return TRI_OK;
}

/* Sets *right if the results agree for all numbers of rows tried, including the least and the most. */
static tri_status try_parts(const tri_linear *l, const tri_lt *p, int bucket,
                            const cublasLtMatmulAlgo_t *whole, const cublasLtMatmulHeuristicResult_t *parts,
                            bool *right) {
  tri_device           *d = &l->device->base;
  const tri_device_ops *ops = d->ops;
  const int64_t         least = tri_lt_least(bucket), most = most_rows(l, bucket);
  const size_t          bias = tri_lt_round((size_t)l->n_out * sizeof(float));
  tri_status            st = TRI_OK;
  exact                 e = {.lt_bytes = l->lt_bytes};
  void                 *memory = NULL;

  *right = true;
  tri_lt_enlarge(&e.lt_bytes, parts->workspaceSize);
  exact_sizes(l, p, most, &e);
  TRI_TRY_DONE(ops->stream_open(d, "gradients' products", &e.s));
  TRI_TRY_DONE(
      ops->alloc(d, TRI_MEM_DEVICE, e.lt_bytes + e.a_bytes + e.b_bytes + bias + 2 * e.d_bytes, &memory));
  e.lt = memory;
  e.a = e.lt + e.lt_bytes;
  e.b = e.a + e.a_bytes;
  e.bias = e.b + e.b_bytes;
  e.whole = e.bias + bias;
  e.parts = e.whole + e.d_bytes;
  TRI_TRY_DONE(exact_fill(l, p, most, &e));
  for (int i = 0; i < COUNTS && *right && (i == 0 || most > least); i++)
    TRI_TRY_DONE(compare(l, p, &e, least + (most - least) * i / (COUNTS - 1), whole, &parts->algo, right));
done:
  if (e.s) ops->stream_close(&e.s);
  ops->free(d, TRI_MEM_DEVICE, &memory);
  return st;
}

tri_status tri_lt_free_choice(const tri_linear *l, const tri_lt *p, int bucket,
                              cublasLtMatmulHeuristicResult_t *io, int *n) {
  const int64_t most = bucket == TRI_LT_MANY ? ABOVE_MANY : tri_lt_rows[bucket];
  tri_lt_found  f;

  *n = 0;
  TRI_TRY(tri_lt_look_up(l, p, tri_lt_rows[bucket], may_have_parts(l, p, bucket), &f));
  for (int i = 0; i < f.n; i++) {
    cublasLtMatmulHeuristicResult_t *c = &f.at[i];
    size_t                           need[2] = {0, 0};
    bool                             right = tri_lt_fits(l, p, tri_lt_least(bucket), &c->algo, &need[0]) &&
                 tri_lt_fits(l, p, most, &c->algo, &need[1]);
    if (right && !tri_lt_is_whole(&c->algo)) TRI_TRY(try_parts(l, p, bucket, &io->algo, c, &right));
    if (!right) continue;
    *io = *c;
    for (int k = 0; k < 2; k++)
      if (need[k] > io->workspaceSize) io->workspaceSize = need[k];
    *n = i + 1;
    return TRI_OK;
  }
  return TRI_OK;
}

/* If no algorithm of the library qualifies, the serving one stays. */
static tri_status settle_bucket(tri_linear *l, tri_lt *p, int bucket) {
  cublasLtMatmulHeuristicResult_t c = {.algo = p->algo[bucket]};
  int                             n;
  char                            why[64];

  TRI_TRY(tri_lt_free_choice(l, p, bucket, &c, &n));
  if (!n) return TRI_OK;
  p->algo[bucket] = c.algo;
  tri_lt_enlarge(&l->lt_bytes, c.workspaceSize);
  snprintf(why, sizeof why, "number %d in the library's order", n);
  tri_lt_log(l, p, bucket, why, -1);
  return TRI_OK;
}

/* Returns the rows of one bwd_w: all of a pass, if its algorithm can do that in the workspace there is. */
static int64_t find_sum_rows(const tri_linear *l) {
  int64_t rows = LONGEST_SUM;
  size_t  need;

  while (rows > tri_lt_rows[TRI_LT_MANY] &&
         !(tri_lt_fits(l, &l->bwd_w, rows, &l->bwd_w.algo[TRI_LT_MANY], &need) && need <= l->lt_bytes))
    rows /= 2;
  return rows;
}

tri_status tri_lt_settle_backward(tri_linear *l) {
  tri_lt *const all[] = {&l->bwd_x[0], &l->bwd_x[1], &l->bwd_w};

  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    for (int b = 0; all[i]->desc && b < TRI_LT_BUCKETS; b++) TRI_TRY(settle_bucket(l, all[i], b));
  if (l->backward) l->sum_rows = find_sum_rows(l);
  return TRI_OK;
}

tri_status tri_lt_settle_free(tri_linear *l) {
  for (int i = 0; i < TRI_LT_FWDS; i++)
    for (int b = 0; l->fwd[i].desc && b < TRI_LT_BUCKETS; b++) TRI_TRY(settle_bucket(l, &l->fwd[i], b));
  l->fwd_rows = tri_lt_rows[TRI_LT_MANY];
  return TRI_OK;
}
