/* gemm_agree.c - algorithms of which each gives a row the bits the others give it: chosen by trial, checked with the weights.
 *
 * A bf16 result hides what f32 sums differ in. So such a product is compared with -y of its judge added: what is left
 * of a sum when its upper 8 bits are taken away. */
#include "gpu/gemm_impl.h"

#include <string.h>

enum { ROOM_BYTES = 64 << 20 }; /* of results in one comparison; chosen: the logits the head makes at once */
enum { CHECK_ROWS = 512, TRIAL_ROWS = 1024 }; /* rows of a comparison at most; chosen: above every bucket */

/* Noise to multiply, and room for results. */
typedef struct room {
  tri_stream *s;
  int64_t     rows;
  const void *w;
  char       *x, *bias, *judge, *y, *base, *lt; /* base: bf16, what is added */
  size_t      lt_bytes;
} room;

static int64_t room_rows(const tri_linear *l, int64_t most) {
  int64_t rows = ROOM_BYTES / (4 * l->n_out);

  return rows > most ? most : rows < tri_lt_rows[0] ? tri_lt_rows[0] : rows;
}

static size_t x_bytes(const tri_linear *l, int64_t rows) {
  return tri_lt_round((size_t)(rows * l->n_in) * tri_dtype_bytes(l->dtype));
}
static size_t y_bytes(const tri_linear *l, int64_t rows, tri_dtype t) {
  return tri_lt_round((size_t)(rows * l->n_out) * tri_dtype_bytes(t));
}

static size_t room_bytes(const tri_linear *l, int64_t rows) {
  return x_bytes(l, rows) + tri_lt_round((size_t)l->n_out * 4) + 2 * y_bytes(l, rows, TRI_F32);
}

size_t tri_lt_check_bytes(const tri_linear *l) { return room_bytes(l, room_rows(l, CHECK_ROWS)); }

static tri_status room_fill(const tri_linear *l, room *r, char *at) {
  tri_tensor x = tri_view2(at, l->dtype, r->rows, l->n_in), bias;

  r->x = at;
  r->bias = r->x + x_bytes(l, r->rows);
  r->judge = r->bias + tri_lt_round((size_t)l->n_out * 4);
  bias = tri_view1(r->bias, l->dtype, l->n_out);
  TRI_TRY(tri_cuda_noise(r->s, &x, 1));
  return tri_cuda_noise(r->s, &bias, 2);
}

/* The last `rows` rows, by this algorithm. */
static tri_status run_last(const tri_linear *l, const tri_lt *p, const cublasLtMatmulAlgo_t *algo,
                           const room *r, int64_t rows, char *to, bool add) {
  const size_t      skip = (size_t)(r->rows - rows), y = (size_t)l->n_out * tri_dtype_bytes(p->out);
  const tri_lt_call c = {.a = r->w,
                         .b = r->x + skip * (size_t)l->n_in * tri_dtype_bytes(l->dtype),
                         .bias = p->bias ? r->bias : NULL,
                         .d = to,
                         .base = add ? r->base + skip * y : NULL,
                         .rows = rows,
                         .workspace = r->lt,
                         .bytes = r->lt_bytes};

  return tri_lt_run(l, p, algo, r->s, &c);
}

/* All rows by this algorithm: what others are compared with. */
static tri_status judge_by(const tri_linear *l, const tri_lt *p, const cublasLtMatmulAlgo_t *algo, room *r) {
  tri_tensor base;

  r->y = r->judge + y_bytes(l, r->rows, p->out);
  r->base = r->y + y_bytes(l, r->rows, p->out);
  if (p->out == TRI_F32) return run_last(l, p, algo, r, r->rows, r->judge, false);
  TRI_TRY(run_last(l, p, algo, r, r->rows, r->base, false));
  base = tri_view2(r->base, p->out, r->rows, l->n_out);
  TRI_TRY(tri_cuda_negate(r->s, &base));
  return run_last(l, p, algo, r, r->rows, r->judge, true);
}

/* *same &= the last `rows` rows have the judge's bits. The host waits. */
static tri_status agree(const tri_linear *l, const tri_lt *p, const cublasLtMatmulAlgo_t *algo, const room *r,
                        int64_t rows, bool *same) {
  const size_t y = (size_t)l->n_out * tri_dtype_bytes(p->out);
  int32_t     *flag = tri_cuda_scratch(r->s), differ = 0;

  TRI_TRY(run_last(l, p, algo, r, rows, r->y, p->out != TRI_F32));
  TRI_TRY(tri_cuda_differ(r->s, flag, r->y, r->judge + (size_t)(r->rows - rows) * y, (size_t)rows * y));
  TRI_TRY(r->s->device->ops->copy(r->s, &differ, flag, sizeof differ));
  TRI_TRY(r->s->device->ops->stream_sync(r->s));
  *same = *same && !differ;
  return TRI_OK;
}

typedef struct candidates {
  tri_lt_found of[TRI_LT_FWDS][TRI_LT_BUCKETS];
} candidates;

/* The algorithm for many rows: the first that agrees with itself. If none does, linear_check will say so. */
static tri_status settle_many(tri_linear *l, tri_lt *p, const tri_lt_found *f, room *r, bool *settled) {
  *settled = false;
  for (int i = 0; i < f->n && !*settled; i++) {
    *settled = true;
    TRI_TRY(judge_by(l, p, &f->at[i].algo, r));
    TRI_TRY(agree(l, p, &f->at[i].algo, r, 1, settled));
    TRI_TRY(agree(l, p, &f->at[i].algo, r, r->rows / 3, settled));
    TRI_TRY(agree(l, p, &f->at[i].algo, r, r->rows - 1, settled));
    if (!*settled) continue;
    for (int b = 0; b < TRI_LT_BUCKETS; b++) p->algo[b] = f->at[i].algo;
    tri_lt_enlarge(&l->lt_bytes, f->at[i].workspaceSize);
  }
  return TRI_OK;
}

/* One for fewer rows: the first that agrees with the one for many, at both ends of its bucket and between. */
static tri_status settle_few(tri_linear *l, tri_lt *p, const tri_lt_found *f, const room *r, int bucket) {
  int64_t least = bucket ? tri_lt_rows[bucket - 1] + 1 : 1, most = tri_lt_rows[bucket];

  if (most > r->rows) most = r->rows;
  if (least >= most) return TRI_OK;
  for (int i = 0; i < f->n; i++) {
    bool same = true;
    TRI_TRY(agree(l, p, &f->at[i].algo, r, least, &same));
    TRI_TRY(agree(l, p, &f->at[i].algo, r, (least + most) / 2, &same));
    TRI_TRY(agree(l, p, &f->at[i].algo, r, most, &same));
    if (!same) continue;
    p->algo[bucket] = f->at[i].algo;
    tri_lt_enlarge(&l->lt_bytes, f->at[i].workspaceSize);
    return TRI_OK;
  }
  return TRI_OK;
}

static tri_status settle_with(tri_linear *l, const candidates *c, room *r) {
  for (int i = 0; i < TRI_LT_FWDS; i++) {
    bool settled;
    if (!l->fwd[i].desc) continue;
    TRI_TRY(settle_many(l, &l->fwd[i], &c->of[i][TRI_LT_MANY], r, &settled));
    for (int b = 0; settled && b < TRI_LT_MANY; b++) TRI_TRY(settle_few(l, &l->fwd[i], &c->of[i][b], r, b));
  }
  return TRI_OK;
}

tri_status tri_lt_settle(tri_linear *l) {
  tri_device           *d = &l->device->base;
  const tri_device_ops *ops = d->ops;
  tri_status            st = TRI_OK;
  room                  r = {.rows = room_rows(l, TRIAL_ROWS), .lt_bytes = l->lt_bytes};
  size_t                w_bytes = tri_lt_round((size_t)(l->n_out * l->n_in) * tri_dtype_bytes(l->dtype));
  candidates           *c = NULL;
  void                 *memory = NULL;
  tri_tensor            w;

  TRI_TRY_DONE(TRI_ALLOC(c, 1));
  for (int i = 0; i < TRI_LT_FWDS; i++)
    for (int b = 0; l->fwd[i].desc && b < TRI_LT_BUCKETS; b++) {
      TRI_TRY_DONE(tri_lt_look_up(l, &l->fwd[i], tri_lt_rows[b], &c->of[i][b]));
      for (int k = 0; k < c->of[i][b].n; k++) tri_lt_enlarge(&r.lt_bytes, c->of[i][b].at[k].workspaceSize);
    }
  TRI_TRY_DONE(ops->stream_open(d, "products", &r.s));
  TRI_TRY_DONE(ops->alloc(d, TRI_MEM_DEVICE, r.lt_bytes + w_bytes + room_bytes(l, r.rows), &memory));
  r.lt = memory;
  r.w = r.lt + r.lt_bytes;
  w = tri_view2(r.lt + r.lt_bytes, l->dtype, l->n_out, l->n_in);
  TRI_TRY_DONE(tri_cuda_noise(r.s, &w, 3));
  TRI_TRY_DONE(room_fill(l, &r, r.lt + r.lt_bytes + w_bytes));
  TRI_TRY_DONE(settle_with(l, c, &r));
done:
  if (r.s) ops->stream_close(&r.s);
  ops->free(d, TRI_MEM_DEVICE, &memory);
  TRI_FREE(c);
  return st;
}

/* With the weights. An algorithm for few rows that fails now gives way to the one for many. */
static tri_status check_product(tri_linear *l, tri_lt *p, room *r) {
  static const int64_t rows[] = {1,  2,  3,   7,   8,   15,  16,  17,  31,  33,  63, 64,
                                 65, 97, 127, 128, 129, 200, 255, 256, 257, 384, 511};
  const int            n = sizeof rows / sizeof *rows;

  TRI_TRY(judge_by(l, p, &p->algo[TRI_LT_MANY], r));
  for (int i = 0; i < n && rows[i] < r->rows; i++) {
    cublasLtMatmulAlgo_t *algo = &p->algo[tri_lt_bucket(rows[i])];
    bool                  same = true;
    TRI_TRY(agree(l, p, algo, r, rows[i], &same));
    if (same) continue;
    if (!memcmp(algo, &p->algo[TRI_LT_MANY], sizeof *algo))
      TRI_FAIL(TRI_EDEVICE,
               "cuBLASLt %zu on %s: a row times the [%lld,%lld] weight (%s, result %s%s) has other bits "
               "among %lld "
               "rows than among %lld, so sampling and training would differ; use another version of the "
               "library, or "
               "set run.sampler: rescore",
               cublasLtGetVersion(), l->device->name, (long long)l->n_out, (long long)l->n_in,
               tri_lt_type_name(l->dtype), tri_lt_type_name(p->out), p->bias ? " with bias" : "",
               (long long)rows[i], (long long)r->rows);
    *algo = p->algo[TRI_LT_MANY];
    i = -1;
  }
  return TRI_OK;
}

tri_status tri_cuda_linear_check(tri_stream *s, tri_linear *l, void *packed_fwd) {
  room r = {
      .s = s, .rows = room_rows(l, CHECK_ROWS), .w = packed_fwd, .lt = l->workspace, .lt_bytes = l->lt_bytes};

  TRI_ASSERT(l->workspace);
  TRI_TRY(room_fill(l, &r, l->workspace + l->lt_bytes));
  for (int i = 0; i < TRI_LT_FWDS; i++)
    if (l->fwd[i].desc) TRI_TRY(check_product(l, &l->fwd[i], &r));
  return TRI_OK;
}
