/* gemm_backward.c - algorithms of the gradients' products: the library's first for so many rows, sums in
 * parts allowed.
 *
 * A gradient's bits may depend on the number of rows, not on the run: so the choice follows from the shape,
 * the library and the GPU, and parts of a sum are added in a fixed order (gemm_find.c). The number of rows is
 * the length of bwd_w's sums, and versions 12 and 13 of the library have dropped the end of a sum in parts
 * whose length is not a multiple of a tile (Triton's pull request 2767 of facebookexperimental). So an
 * algorithm with parts is used only once it has given, of small whole numbers, whose sums are exact in any
 * order, what a whole sum gives. */
#include "gemm_impl.h"

#include <stdio.h>

/* A head's chunk: rows above those the library was asked for. Chosen; odd. */
enum { ABOVE_MANY = 7001 };
/* As of gemm_agree.c: beside few multiprocessors fewer rows show as much. */
enum { ROWS_PER_SM = 64 };
enum { COUNTS = 6 }; /* numbers of rows tried of a bucket */

/* Parts pay where the result has few tiles and the sum is long: bwd_w's with many rows; bwd_x's with few, and
 * there the parts' room grows with the rows, which the last bucket does not bound. f32 is not for speed. */
static bool may_have_parts(const tri_linear *l, const tri_lt *p, int bucket) {
  if (l->dtype == TRI_F32) return false;
  return p->dir == TRI_LT_BWD_W ? tri_lt_least(bucket) > 256 : bucket < TRI_LT_MANY;
}

static int64_t most_rows(const tri_linear *l, int bucket) {
  const int64_t least = tri_lt_least(bucket), most = bucket == TRI_LT_MANY ? ABOVE_MANY : tri_lt_rows[bucket],
                worth = (int64_t)ROWS_PER_SM * l->device->n_sm;

  return most <= worth ? most : least > worth ? least : worth;
}

/* Operands of small whole numbers, and room for two results. */
typedef struct exact {
  tri_stream *s;
  char       *a, *b, *whole, *parts, *lt;
  size_t      a_bytes, b_bytes, d_bytes, lt_bytes;
} exact;

static void exact_sizes(const tri_linear *l, const tri_lt *p, int64_t rows, exact *e) {
  const size_t  A = tri_dtype_bytes(l->dtype), out = tri_dtype_bytes(p->out);
  const int64_t w = l->n_out * l->n_in;

  e->a_bytes = tri_lt_round((size_t)(p->dir == TRI_LT_BWD_W ? rows * l->n_in : w) * A);
  e->b_bytes = tri_lt_round((size_t)(rows * l->n_out) * A);
  e->d_bytes = tri_lt_round((size_t)(p->dir == TRI_LT_BWD_W ? w : rows * l->n_in) * out);
}

/* Both operands run along the sum slowest in a, so its thirds tell where a sum begins and ends. */
static tri_status exact_fill(const exact *e) {
  /* 16 bits of two equal bytes: 0x4040 is 3 in bf16, 0xc0c0 -6; in f16 17/8 and -19/8 */
  const size_t third = e->a_bytes / 3 & ~(size_t)1;

  TRI_TRY(e->s->device->ops->fill(e->s, e->a, 0x40, e->a_bytes));
  TRI_TRY(e->s->device->ops->fill(e->s, e->a + third, 0xc0, third));
  return e->s->device->ops->fill(e->s, e->b, 0x40, e->b_bytes);
}

/* *same &= with so many rows both algorithms can do it and give the same. */
static tri_status compare(const tri_linear *l, const tri_lt *p, const exact *e, int64_t rows,
                          const cublasLtMatmulAlgo_t *whole, const cublasLtMatmulAlgo_t *parts, bool *same) {
  const size_t n = (size_t)((p->dir == TRI_LT_BWD_W ? l->n_out : rows) * l->n_in) * tri_dtype_bytes(p->out);
  tri_lt_call  c = {
       .a = e->a, .b = e->b, .d = e->whole, .rows = rows, .workspace = e->lt, .bytes = e->lt_bytes};
  int32_t *flag = tri_cuda_scratch(e->s), differ = 0;
  size_t   need;

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
  TRI_TRY(tri_cuda_differ(e->s, flag, e->whole, e->parts, n));
  TRI_TRY(e->s->device->ops->copy(e->s, &differ, flag, sizeof differ));
  TRI_TRY(e->s->device->ops->stream_sync(e->s));
  *same = !differ;
  return TRI_OK;
}

/* *right: for all numbers of rows tried, least and most among them. */
static tri_status try_parts(const tri_linear *l, const tri_lt *p, int bucket,
                            const cublasLtMatmulAlgo_t *whole, const cublasLtMatmulHeuristicResult_t *parts,
                            bool *right) {
  tri_device           *d = &l->device->base;
  const tri_device_ops *ops = d->ops;
  const int64_t         least = tri_lt_least(bucket), most = most_rows(l, bucket);
  tri_status            st = TRI_OK;
  exact                 e = {.lt_bytes = l->lt_bytes};
  void                 *memory = NULL;

  *right = true;
  tri_lt_enlarge(&e.lt_bytes, parts->workspaceSize);
  exact_sizes(l, p, most, &e);
  TRI_TRY_DONE(ops->stream_open(d, "gradients' products", &e.s));
  TRI_TRY_DONE(ops->alloc(d, TRI_MEM_DEVICE, e.lt_bytes + e.a_bytes + e.b_bytes + 2 * e.d_bytes, &memory));
  e.lt = memory;
  e.a = e.lt + e.lt_bytes;
  e.b = e.a + e.a_bytes;
  e.whole = e.b + e.b_bytes;
  e.parts = e.whole + e.d_bytes;
  TRI_TRY_DONE(exact_fill(&e));
  for (int i = 0; i < COUNTS && *right && (i == 0 || most > least); i++)
    TRI_TRY_DONE(compare(l, p, &e, least + (most - least) * i / (COUNTS - 1), whole, &parts->algo, right));
done:
  if (e.s) ops->stream_close(&e.s);
  ops->free(d, TRI_MEM_DEVICE, &memory);
  return st;
}

/* The library's first that can do the fewest rows and the most, and does it right. If none can, the one that
 * serves stays. */
static tri_status settle_bucket(tri_linear *l, tri_lt *p, int bucket) {
  const cublasLtMatmulAlgo_t whole = p->algo[bucket];
  tri_lt_found               f;

  TRI_TRY(tri_lt_look_up(l, p, tri_lt_rows[bucket], may_have_parts(l, p, bucket), &f));
  for (int i = 0; i < f.n; i++) {
    size_t need[2] = {0, 0};
    bool   right =
        tri_lt_fits(l, p, tri_lt_least(bucket), &f.at[i].algo, &need[0]) &&
        tri_lt_fits(l, p, bucket == TRI_LT_MANY ? ABOVE_MANY : tri_lt_rows[bucket], &f.at[i].algo, &need[1]);
    char why[64];
    if (right && !tri_lt_is_whole(&f.at[i].algo)) TRI_TRY(try_parts(l, p, bucket, &whole, &f.at[i], &right));
    if (!right) continue;
    p->algo[bucket] = f.at[i].algo;
    tri_lt_enlarge(&l->lt_bytes, f.at[i].workspaceSize);
    tri_lt_enlarge(&l->lt_bytes, need[0] > need[1] ? need[0] : need[1]);
    snprintf(why, sizeof why, "number %d of %d in the library's order", i + 1, f.n);
    tri_lt_log(l, p, bucket, why, -1);
    return TRI_OK;
  }
  return TRI_OK;
}

tri_status tri_lt_settle_backward(tri_linear *l) {
  tri_lt *const all[] = {&l->bwd_x[0], &l->bwd_x[1], &l->bwd_w};

  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    for (int b = 0; all[i]->desc && b < TRI_LT_BUCKETS; b++) TRI_TRY(settle_bucket(l, all[i], b));
  return TRI_OK;
}
