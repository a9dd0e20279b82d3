/* gemm_agree.c - algorithms that all give a row the same bits, chosen by trial and checked with the
 * weights.
 *
 * The bits are those of one algorithm for many rows. It is the first in the library's order with an agreeing
 * algorithm in every bucket (or in the most buckets). So the bits follow from the shape, the library and the
 * GPU, never from a measured time, and all ranks and runs have the same. Among the algorithms shown to give
 * these bits, the quickest serves the bucket. The bits of a part (tri_linear_spec.whole) are the columns of
 * the whole instead.
 *
 * An algorithm may divide its work, and so a sum, by the number of tiles and multiprocessors (stream-K), and
 * not say so. So a trial has as many rows as training, and also numbers of rows that fill other numbers of
 * tiles. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "gemm_impl.h"

#include <stdio.h>
#include <string.h>

/* Chosen. A shape then takes 0.1 s on an H100 for a model of 1.5 billion parameters, 0.3 s for 8 billion, and
 * an output matrix [128256,4096] 1.2 s. These times are computed from the speed of memory and tensor cores,
 * not measured. */
enum { CLASSES = 4, MEMBERS = 8, MEMBERS_MANY = 4 };

/* A trial has at most a training step's rows. With few multiprocessors, fewer rows make as many waves of
 * tiles. Its results have at most 4 GiB on an H100, which writes them in 2 ms, and at most the bytes of
 * logits at once, for which there is space. */
enum { TRIAL_ROWS = 4096, TRIAL_ROWS_PER_SM = 64, TRIAL_BYTES_PER_SM = 32 << 20 };

/* Rows above a trial's with workspace planned too. Chosen above a head's chunk. */
enum { ABOVE_MANY = 8192 };

static int64_t trial_rows(const tri_linear *l) {
  const int64_t most = (int64_t)TRIAL_ROWS_PER_SM * l->device->n_sm;
  const size_t  bytes = (size_t)TRIAL_BYTES_PER_SM * (size_t)l->device->n_sm,
               logits = l->device->advice.logit_bytes;

  return tri_gpu_trial_rows(l->n_whole ? l->n_whole : l->n_out, bytes < logits ? bytes : logits,
                            most < TRIAL_ROWS ? most : TRIAL_ROWS);
}

/* *same &= the reference bits, among this many of the last, the first or the middle rows. */
static tri_status agree_at(const tri_linear *l, const tri_lt *p, cublasLtMatmulHeuristicResult_t *c,
                           const tri_lt_workspace *r, int64_t rows, int place, bool *same) {
  const int64_t left = r->rows - rows;

  return tri_lt_agree(l, p, c, r, place == 0 ? left : place == 1 ? 0 : left / 2, rows, same);
}

/* Sets *same if the algorithm gives the reference bits for every number of rows tried in the bucket. The
 * bucket for many rows also tries fewer, as in a step's last micro-batch. */
static tri_status agree_in(const tri_linear *l, const tri_lt *p, cublasLtMatmulHeuristicResult_t *c,
                           const tri_lt_workspace *r, int bucket, bool *same) {
  const int64_t many[] = {1, 17, 129, 300, 1111, r->rows - 1, 3000, r->rows};
  const int64_t least = tri_lt_least(bucket),
                most = tri_lt_rows[bucket] < r->rows ? tri_lt_rows[bucket] : r->rows;
  enum { N_MANY = sizeof many / sizeof *many, N_FEW = 6 };
  size_t need;

  *same = true;
  for (int i = 0; *same && i < (bucket == TRI_LT_MANY ? N_MANY : N_FEW); i++) {
    int64_t rows = least + (most - least) * i / (N_FEW - 1);
    if (i < N_FEW - 1) rows -= i % 2; /* so that not all are even */
    if (bucket == TRI_LT_MANY) rows = many[i];
    if (rows >= 1 && rows <= r->rows) TRI_TRY(agree_at(l, p, c, r, rows, i % 3, same));
  }
  if (*same && bucket == TRI_LT_MANY && tri_lt_fits(l, p, ABOVE_MANY, &c->algo, &need) &&
      need > c->workspaceSize)
    c->workspaceSize = need;
  return TRI_OK;
}

/* ---- the class of algorithms with the same bits ---- */

typedef struct row_class {
  int          many;                   /* its algorithm in the list for many rows */
  int          n;                      /* buckets with an agreeing algorithm */
  int          member[TRI_LT_BUCKETS]; /* the first in each list, -1 for none */
  tri_lt_found few[TRI_LT_MANY];       /* the lists, with relatives of `many` */
} row_class;

typedef struct search {
  tri_lt_found      listed[TRI_LT_FWDS][TRI_LT_BUCKETS], parts;
  row_class         now, best;
  const tri_linear *whole; /* for a part, with the workspace of its trial; else NULL */
  tri_lt_workspace  rw;
} search;

/* Returns true if the trial had too few rows to judge this bucket. */
static bool untried(const tri_lt_workspace *r, int bucket) { return tri_lt_least(bucket) > r->rows; }

/* Finds the first algorithm of each bucket with the reference bits. */
static tri_status find_members(const tri_linear *l, const tri_lt *p, const tri_lt_found *listed,
                               const tri_lt_workspace *r, row_class *c) {
  c->n = 0;
  for (int b = 0; b < TRI_LT_MANY; b++) {
    bool same = untried(r, b);
    c->member[b] = -1;
    c->few[b] = listed[b];
    if (!same)
      TRI_TRY(tri_lt_relatives(l, p, tri_lt_rows[b], &listed[TRI_LT_MANY].at[c->many].algo, &c->few[b]));
    for (int i = 0; i < c->few[b].n && !same; i++) {
      TRI_TRY(agree_in(l, p, &c->few[b].at[i], r, b, &same));
      if (same) c->member[b] = i;
    }
    c->n += same;
  }
  return TRI_OK;
}

/* Takes the reference bits from an algorithm for many rows. *steady says whether it agrees with itself. */
static tri_status judge_by(const tri_linear *l, const tri_lt *p, cublasLtMatmulHeuristicResult_t *c,
                           tri_lt_workspace *r, bool *steady) {
  size_t need;

  *steady = tri_lt_fits(l, p, r->rows, &c->algo, &need) && need <= r->lt_bytes;
  if (*steady && tri_lt_judge(l, p, &c->algo, r) != TRI_OK) {
    tri_error_clear(); /* as in tri_lt_agree */
    *steady = false;
  }
  if (!*steady) return TRI_OK;
  return agree_in(l, p, c, r, TRI_LT_MANY, steady);
}

/* Finds s->best and takes the reference bits from its algorithm for many rows. best.n < 0 means that no
 * algorithm agrees with itself. */
static tri_status find_class(const tri_linear *l, const tri_lt *p, tri_lt_found *listed, tri_lt_workspace *r,
                             search *s) {
  tri_lt_found *many = &listed[TRI_LT_MANY];
  int           judge = -1;

  s->best.n = -1;
  for (int i = 0, tried = 0; i < many->n && tried < CLASSES && s->best.n < TRI_LT_MANY; i++) {
    bool steady;
    judge = s->now.many = i;
    TRI_TRY(judge_by(l, p, &many->at[i], r, &steady));
    if (!steady) continue;
    tried++;
    TRI_TRY(find_members(l, p, listed, r, &s->now));
    if (s->now.n > s->best.n) s->best = s->now;
  }
  if (s->best.n < 0 || judge == s->best.many) return TRI_OK;
  return tri_lt_judge(l, p, &many->at[s->best.many].algo, r);
}

/* Finds the class of a part, by the first algorithm for many rows with the whole's columns. */
static tri_status find_class_of_whole(const tri_linear *l, const tri_lt *p, tri_lt_found *listed,
                                      tri_lt_workspace *r, search *s) {
  tri_lt_found *many = &listed[TRI_LT_MANY];
  bool          same = false;

  s->best.n = -1;
  TRI_TRY(tri_lt_part_judge(l, p, s->whole, r, &s->rw));
  for (int i = 0; i < many->n && !same; i++) {
    s->best.many = i;
    TRI_TRY(agree_in(l, p, &many->at[i], r, TRI_LT_MANY, &same));
  }
  return same ? find_members(l, p, listed, r, &s->best) : TRI_OK;
}

/* ---- the quickest member of the class ---- */

/* Gives the bucket the quickest of the class: `many`, and those in f from `member` on. Workspace is planned
 * for all of them, so the ledger does not depend on a time. */
static tri_status settle_bucket(tri_linear *l, tri_lt *p, tri_lt_found *f, const tri_lt_workspace *r,
                                int bucket, const cublasLtMatmulHeuristicResult_t *many, int member,
                                double *best) {
  const int64_t rows = tri_lt_rows[bucket] < r->rows ? tri_lt_rows[bucket] : r->rows;
  int           members = 1, tried = 0;
  double        ms;
  char          why[80];

  p->algo[bucket] = many->algo;
  TRI_TRY(tri_lt_time(l, p, &many->algo, r, rows, best));
  for (int i = member; i >= 0 && i < f->n && members < (bucket == TRI_LT_MANY ? MEMBERS_MANY : MEMBERS);
       i++) {
    bool same = bucket != TRI_LT_MANY && i == member; /* found before */
    if (!memcmp(&f->at[i].algo, &many->algo, sizeof many->algo)) continue;
    tried++;
    if (!same) TRI_TRY(agree_in(l, p, &f->at[i], r, bucket, &same));
    if (!same) continue;
    members++;
    tri_lt_enlarge(&l->lt_bytes, f->at[i].workspaceSize);
    TRI_TRY(tri_lt_time(l, p, &f->at[i].algo, r, rows, &ms));
    if (ms >= *best) continue;
    *best = ms;
    p->algo[bucket] = f->at[i].algo;
  }
  snprintf(why, sizeof why, "quickest of %d with the same bits, tried %d of %d others", members, tried, f->n);
  tri_lt_log(l, p, bucket, why, *best);
  return TRI_OK;
}

/* If no algorithm agrees with itself, nothing is chosen and linear_check will report it. */
static tri_status settle_product(tri_linear *l, tri_lt *p, tri_lt_found *listed, tri_lt_workspace *r,
                                 search *s, tri_lt_cost *cost) {
  cublasLtMatmulHeuristicResult_t *many;

  TRI_TRY(s->whole ? find_class_of_whole(l, p, listed, r, s) : find_class(l, p, listed, r, s));
  p->unlike = s->whole && s->best.n < 0;
  if (s->best.n < 0) return TRI_OK;
  many = &listed[TRI_LT_MANY].at[s->best.many];
  tri_lt_enlarge(&l->lt_bytes, many->workspaceSize);
  for (int b = 0; b < TRI_LT_BUCKETS; b++) {
    const bool last = b == TRI_LT_MANY;
    p->algo[b] = many->algo;
    if (untried(r, b) && !last) continue;
    TRI_TRY(settle_bucket(l, p, last ? &listed[b] : &s->best.few[b], r, b, many, last ? 0 : s->best.member[b],
                          &cost->ms[b]));
    TRI_TRY(tri_lt_compare(l, p, r, b, cost));
  }
  return TRI_OK;
}

/* Puts the whole's algorithm for many rows and its relatives into the part's list, and enlarges the workspace
 * for the whole's product. */
static tri_status add_whole(const tri_linear *l, int product, const search *s, tri_lt_found *f,
                            size_t *lt_bytes) {
  const tri_lt               *p = &l->fwd[product], *of = &s->whole->fwd[product];
  const cublasLtMatmulAlgo_t *algo = &of->algo[TRI_LT_MANY];
  size_t                      need;

  tri_lt_put_first(l, p, tri_lt_rows[TRI_LT_MANY], algo, f);
  TRI_TRY(tri_lt_relatives(l, p, tri_lt_rows[TRI_LT_MANY], algo, f));
  if (tri_lt_fits(s->whole, of, trial_rows(l), algo, &need)) tri_lt_enlarge(lt_bytes, need);
  return TRI_OK;
}

/* Fetches the library's lists, and the largest workspace in them and in the lists with sums in parts. */
static tri_status look_up_all(const tri_linear *l, search *s, size_t *lt_bytes) {
  for (int i = 0; i < TRI_LT_FWDS; i++)
    for (int b = 0; l->fwd[i].desc && b < TRI_LT_BUCKETS; b++) {
      tri_lt_found *f = &s->listed[i][b];
      TRI_TRY(tri_lt_look_up(l, &l->fwd[i], tri_lt_rows[b], false, f));
      if (s->whole && b == TRI_LT_MANY) TRI_TRY(add_whole(l, i, s, f, lt_bytes));
      for (int k = 0; k < f->n; k++) tri_lt_enlarge(lt_bytes, f->at[k].workspaceSize);
      TRI_TRY(tri_lt_look_up(l, &l->fwd[i], tri_lt_rows[b], true, &s->parts));
      for (int k = 0; k < s->parts.n; k++) tri_lt_enlarge(lt_bytes, s->parts.at[k].workspaceSize);
    }
  return TRI_OK;
}

/* Returns the bytes of a trial's weights, then its workspace. */
static size_t noise_bytes(const tri_linear *l, int64_t rows) {
  return tri_lt_round((size_t)(l->n_out * l->n_in) * tri_dtype_bytes(l->dtype)) +
         tri_lt_workspace_bytes(l, rows);
}

/* Makes the weights of a trial at `at` and fills the workspace behind them. */
static tri_status fill_noise(const tri_linear *l, tri_lt_workspace *r, char *at) {
  tri_tensor w = tri_view2(at, l->dtype, l->n_out, l->n_in);

  r->w = at;
  TRI_TRY(tri_cuda_noise(r->s, &w, 3));
  return tri_lt_workspace_fill(l, r, at + noise_bytes(l, r->rows) - tri_lt_workspace_bytes(l, r->rows));
}

tri_status tri_lt_settle(tri_linear *l, const tri_linear *whole) {
  tri_device           *d = &l->device->base;
  const tri_device_ops *ops = d->ops;
  tri_status            st = TRI_OK;
  tri_lt_workspace      r = {.rows = trial_rows(l), .lt_bytes = l->lt_bytes};
  const size_t          own = noise_bytes(l, r.rows), evict = tri_lt_round(tri_lt_evict_bytes(l));
  search               *s = NULL;
  void                 *memory = NULL;
  char                 *at;
  tri_lt_cost           cost[TRI_LT_FWDS];

  for (int i = 0; i < TRI_LT_FWDS; i++)
    for (int b = 0; b < TRI_LT_BUCKETS; b++) cost[i].ms[b] = cost[i].free_ms[b] = -1;
  TRI_TRY_DONE(TRI_ALLOC(s, 1));
  s->whole = whole;
  TRI_TRY_DONE(look_up_all(l, s, &r.lt_bytes));
  TRI_TRY_DONE(ops->stream_open(d, "products", &r.s));
  TRI_TRY_DONE(ops->alloc(d, TRI_MEM_DEVICE,
                          r.lt_bytes + evict + own + (whole ? noise_bytes(whole, r.rows) : 0), &memory));
  r.lt = memory;
  r.evict = r.lt + r.lt_bytes;
  at = r.lt + r.lt_bytes + evict;
  TRI_TRY_DONE(fill_noise(l, &r, at));
  if (whole) {
    s->rw = (tri_lt_workspace){.s = r.s, .rows = r.rows, .lt = r.lt, .lt_bytes = r.lt_bytes};
    TRI_TRY_DONE(fill_noise(whole, &s->rw, at + own));
    TRI_TRY_DONE(tri_lt_part_fill(l, whole, &r, &s->rw, at));
  }
  for (int i = 0; i < TRI_LT_FWDS; i++)
    if (l->fwd[i].desc) TRI_TRY_DONE(settle_product(l, &l->fwd[i], s->listed[i], &r, s, &cost[i]));
  l->fwd_rows = r.rows < tri_lt_rows[TRI_LT_MANY] ? r.rows : tri_lt_rows[TRI_LT_MANY];
  tri_lt_report(l, cost);
done:
  if (r.s) ops->stream_close(&r.s);
  ops->free(d, TRI_MEM_DEVICE, &memory);
  TRI_FREE(s);
  return st;
}

/* ---- with the weights ---- */

static tri_status fail_check(const tri_linear *l, const tri_lt *p, int64_t rows, int64_t of) {
  TRI_FAIL(
      TRI_EDEVICE,
      "cuBLASLt %zu on %s gives a row times the [%lld,%lld] weight (%s, result %s%s) other bits among %lld "
      "rows than among %lld. Sampling and training would differ. Use another version of the library, or "
      "set run.sampler: rescore",
      cublasLtGetVersion(), l->device->base.model, (long long)l->n_out, (long long)l->n_in,
      tri_lt_type_name(l->dtype), tri_lt_type_name(p->out), p->bias ? " with bias" : "", (long long)rows,
      (long long)of);
}

static tri_status fail_part(const tri_linear *l, const tri_lt *p) {
  TRI_FAIL(
      TRI_EDEVICE,
      "cuBLASLt %zu on %s has no algorithm that gives the columns of a [%lld,%lld] weight (%s, result %s%s) "
      "the bits they have in the [%lld,%lld] weight they are part of. Divided sampling and training would "
      "differ. Use another version of the library, or set run.sampler: rescore",
      cublasLtGetVersion(), l->device->base.model, (long long)l->n_out, (long long)l->n_in,
      tri_lt_type_name(l->dtype), tri_lt_type_name(p->out), p->bias ? " with bias" : "",
      (long long)l->n_whole, (long long)l->n_in);
}

/* Checks every bucket's algorithm for the rows it serves, and the algorithm for many rows for all of them.
 * The latter gives the reference bits. It replaces an algorithm for few rows that fails. */
static tri_status check_product(tri_linear *l, tri_lt *p, tri_lt_workspace *r) {
  static const int64_t  rows[] = {1,  2,  3,   7,   8,   15,  16,  17,  31,  33,  63, 64,
                                  65, 97, 127, 128, 129, 200, 255, 256, 257, 384, 511};
  const int             n = sizeof rows / sizeof *rows;
  cublasLtMatmulAlgo_t *many = &p->algo[TRI_LT_MANY];

  TRI_TRY(tri_lt_judge(l, p, many, r));
  for (int i = 0; i < 2 * n; i++) {
    const int64_t                   m = rows[i % n];
    cublasLtMatmulAlgo_t           *algo = i < n ? many : &p->algo[tri_lt_bucket(m)];
    cublasLtMatmulHeuristicResult_t c = {.algo = *algo};
    bool                            same = true;
    if (m >= r->rows || (i >= n && !memcmp(algo, many, sizeof *many))) continue;
    TRI_TRY(agree_at(l, p, &c, r, m, i % 3, &same));
    if (same) continue;
    if (i < n) return fail_check(l, p, m, r->rows);
    *algo = *many;
  }
  return TRI_OK;
}

tri_status tri_cuda_linear_check(tri_stream *s, tri_linear *l, const void *packed_fwd) {
  tri_lt_workspace r = {.s = s,
                        .rows = tri_gpu_check_rows(l->n_out) < l->fwd_rows ? tri_gpu_check_rows(l->n_out)
                                                                           : l->fwd_rows,
                        .w = packed_fwd,
                        .lt = l->workspace,
                        .lt_bytes = l->lt_bytes};

  TRI_ASSERT(l->workspace && !l->any_order);
  for (int i = 0; i < TRI_LT_FWDS; i++)
    if (l->fwd[i].unlike) return fail_part(l, &l->fwd[i]);
  TRI_TRY(tri_lt_workspace_fill(l, &r, l->workspace + l->lt_bytes));
  for (int i = 0; i < TRI_LT_FWDS; i++)
    if (l->fwd[i].desc) TRI_TRY(check_product(l, &l->fwd[i], &r));
  return TRI_OK;
}
