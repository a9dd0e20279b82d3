/* batch.c - divides sequences among ranks, and copies rollout rows to device micro-batches and results
 * back. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "batch.h"

#include "base/host_memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- division among ranks ---- */

/* `together` neighbouring sequences, from sequence seq on. */
typedef struct item {
  int64_t tokens;
  int     seq, rank;
} item;

static int longest_first(const void *a, const void *b) {
  const item *x = a, *y = b;
  if (x->tokens != y->tokens) return x->tokens < y->tokens ? 1 : -1;
  return x->seq - y->seq;
}

static int in_order(const void *a, const void *b) { return ((const item *)a)->seq - ((const item *)b)->seq; }

/* Deals the n items to ranks, longest first, in alternating direction. Every rank gets an equal number of
 * items and nearly as many tokens. */
static void deal(item *it, int n, int size) {
  qsort(it, (size_t)n, sizeof *it, longest_first);
  for (int j = 0; j < n; j++) {
    int turn = j / size, place = j % size;
    it[j].rank = turn % 2 ? size - 1 - place : place;
  }
  qsort(it, (size_t)n, sizeof *it, in_order);
}

/* Returns the number of neighbours that stay on one rank. It is a whole group if every rank can get equally
 * many groups. If micro-batches are packed by tokens, it is enough that every rank gets at least one group.
 * Otherwise it is `together`. */
static int block_of(const tri_rollout *r, const tri_split_opt *o) {
  int groups = o->n / r->group;

  return groups >= o->size && (!o->micro_batch_size || groups % o->size == 0) ? r->group : o->together;
}

/* Gives whole blocks of `block` sequences to ranks, as evenly as possible. The last block may be smaller. */
static void give_blocks(item *it, int n, const tri_split_opt *o, int block) {
  int blocks = (o->n + block - 1) / block;

  for (int j = 0; j < n; j++)
    it[j].rank = (int)((int64_t)((it[j].seq - o->begin) / block) * o->size / blocks);
}

/* Cuts one rank's sequences, in order, into micro-batches, and returns their number. first and seq are NULL
 * to count only. */
static int cut(const item *it, int n, const tri_split_opt *o, int rank, int *first, int *seq) {
  int64_t tokens = 0;
  int     n_micro = 0, in_micro = 0, at = 0, micro = o->micro_batch_size;

  for (int j = 0; j < n; j++) {
    if (it[j].rank != rank) continue;
    bool full = micro > 0 ? in_micro == micro : in_micro > 0 && tokens + it[j].tokens > o->max_tokens;
    if (!in_micro || full) {
      if (first) first[n_micro] = at;
      n_micro++;
      in_micro = 0;
      tokens = 0;
    }
    for (int k = 0; k < o->together; k++, at++)
      if (seq) seq[at] = it[j].seq + k;
    in_micro += o->together;
    tokens += it[j].tokens;
  }
  if (first) first[n_micro] = at;
  return n_micro;
}

static tri_status check_fits(const tri_split_opt *o, const item *it) {
  if (o->micro_batch_size > 0 || it->tokens <= o->max_tokens) return TRI_OK;
  if (o->together > 1)
    TRI_FAIL(
        TRI_EINPUT,
        "%d sequences of one sample have %lld tokens together, more than train.max_tokens_per_gpu = %lld",
        o->together, (long long)it->tokens, (long long)o->max_tokens);
  TRI_FAIL(TRI_EINPUT, "a sequence has %lld tokens, more than train.max_tokens_per_gpu = %lld",
           (long long)it->tokens, (long long)o->max_tokens);
}

tri_status tri_split_make(const tri_rollout *r, const tri_split_opt *o, tri_split *out) {
  tri_status st = TRI_OK;
  item      *it = NULL;
  int        n;

  *out = (tri_split){0};
  TRI_ASSERT(o->together > 0 && (!o->whole_groups || (r->group > 0 && r->group % o->together == 0)));
  TRI_ASSERT(o->n % o->together == 0 && o->micro_batch_size % o->together == 0);
  n = o->n / o->together;
  TRI_TRY(TRI_ALLOC(it, n));
  for (int j = 0; j < n; j++) {
    int q = o->begin + j * o->together;
    it[j] = (item){r->start[q + o->together] - r->start[q], q, 0};
    TRI_TRY_DONE(check_fits(o, &it[j]));
  }
  if (o->whole_groups)
    give_blocks(it, n, o, block_of(r, o));
  else
    deal(it, n, o->size);
  for (int k = 0; k < o->size; k++) {
    int micros = cut(it, n, o, k, NULL, NULL);
    if (micros > out->n_micro) out->n_micro = micros;
  }
  TRI_TRY_DONE(TRI_ALLOC(out->first, out->n_micro + 1));
  TRI_TRY_DONE(TRI_ALLOC(out->seq, o->n));
  int mine = cut(it, n, o, o->rank, out->first, out->seq);
  /* The remaining micro-batches are empty. */
  for (int k = mine + 1; k <= out->n_micro; k++) out->first[k] = out->first[mine];
done:
  TRI_FREE(it);
  if (st != TRI_OK) tri_split_free(out);
  return st;
}

void tri_split_free(tri_split *s) {
  TRI_FREE(s->first);
  TRI_FREE(s->seq);
  *s = (tri_split){0};
}

/* ---- staging ---- */

/* Device results and the derivatives by them, in the order of tri_rows_out. */
enum { LOGP, ENT, VALUE, N_RESULT };

struct tri_staging {
  tri_device        *device; /* borrowed */
  tri_staging_opt    opt;
  const tri_rollout *rollout; /* borrowed, the rollout of the loaded rows */
  const int         *seq;     /* [n_seq] borrowed, its loaded sequences */
  int                n_seq;
  int64_t            n_rows;
  struct {
    int32_t *token, *pos, *cu, *row, *target;
  } device_rows, host_rows;                           /* [N], [N], [S+1], [K], [K], the host's are pinned */
  float *derivative[N_RESULT];                        /* device [K] */
  float *host_result[N_RESULT], *host_grad[N_RESULT]; /* [K], pinned */
  struct {
    float *old_logp, *ref_logp, *adv, *old_value, *ret, *roll_logp;
  } column;                /* rows of the rollout's arrays, host [K] each, pinned, or NULL if not needed */
  int64_t *start, *origin; /* host [S+1], [K] */
  double  *weight;         /* host [S] */
  float   *score;          /* host [S], or NULL if not needed */
};

/* Returns the number of results that rows may have here. */
static int result_count(const tri_staging *f) { return f->opt.reads & TRI_LOSS_VALUE ? N_RESULT : VALUE; }

static tri_status plan(const tri_staging *f, tri_ledger *l, tri_mem kind, size_t bytes, void *where) {
  return tri_ledger_add(l, kind, f->opt.phase, false, "batch staging", bytes, where);
}

tri_status tri_staging_open(tri_device *d, tri_ledger *ledger, const tri_staging_opt *opt,
                            tri_staging **out) {
  size_t       n = (size_t)opt->max_tokens + 1, k = (size_t)opt->max_rows;
  tri_staging *f;

  TRI_TRY(TRI_ALLOC(*out, 1));
  f = *out;
  f->device = d;
  f->opt = *opt;
  struct {
    int32_t **device, **host;
    size_t    bytes;
  } row[] = {{&f->device_rows.token, &f->host_rows.token, n * 4},
             {&f->device_rows.pos, &f->host_rows.pos, n * 4},
             {&f->device_rows.cu, &f->host_rows.cu, n * 4},
             {&f->device_rows.row, &f->host_rows.row, k * 4},
             {&f->device_rows.target, &f->host_rows.target, k * 4}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    TRI_TRY(plan(f, ledger, TRI_MEM_DEVICE, row[i].bytes, row[i].device));
    TRI_TRY(plan(f, ledger, TRI_MEM_PINNED, row[i].bytes, row[i].host));
  }
  for (int i = 0; i < result_count(f); i++) {
    TRI_TRY(plan(f, ledger, TRI_MEM_DEVICE, k * 4, &f->derivative[i]));
    TRI_TRY(plan(f, ledger, TRI_MEM_PINNED, k * 4, &f->host_result[i]));
    TRI_TRY(plan(f, ledger, TRI_MEM_PINNED, k * 4, &f->host_grad[i]));
  }
  struct {
    unsigned want;
    float  **where;
  } column[] = {{TRI_LOSS_OLD_LOGP, &f->column.old_logp}, {TRI_LOSS_REFERENCE, &f->column.ref_logp},
                {TRI_LOSS_ADV, &f->column.adv},           {TRI_LOSS_RETURN, &f->column.old_value},
                {TRI_LOSS_RETURN, &f->column.ret},        {TRI_LOSS_ROLL_LOGP, &f->column.roll_logp}};
  for (size_t i = 0; i < sizeof column / sizeof *column; i++)
    if (opt->reads & column[i].want) TRI_TRY(plan(f, ledger, TRI_MEM_PINNED, k * 4, column[i].where));
  TRI_TRY(plan(f, ledger, TRI_MEM_PINNED, n * 8, &f->start));
  TRI_TRY(plan(f, ledger, TRI_MEM_PINNED, k * 8, &f->origin));
  if (opt->reads & TRI_LOSS_SCORE) TRI_TRY(plan(f, ledger, TRI_MEM_PINNED, n * 4, &f->score));
  return plan(f, ledger, TRI_MEM_PINNED, n * 8, &f->weight);
}

void tri_staging_close(tri_staging **f) {
  if (!*f) return;
  TRI_FREE(*f);
}

/* Adds a chosen row for token i of the rollout. The row before the token predicts it, or the row is its
 * own. */
static void choose(tri_staging *f, const tri_rollout *r, int64_t row, int64_t i) {
  f->host_rows.row[f->n_rows] = (int32_t)row;
  f->host_rows.target[f->n_rows] = r->token[i];
  f->origin[f->n_rows++] = i;
}

/* Appends the rows of one sequence. */
static void put_sequence(tri_staging *f, const tri_rollout *r, int q, int64_t *n_tok) {
  int64_t begin = r->start[q], len = r->start[q + 1] - begin;

  for (int64_t i = 0; i < len; i++) {
    f->host_rows.token[*n_tok + i] = r->token[begin + i];
    f->host_rows.pos[*n_tok + i] = (int32_t)i;
  }
  if (f->opt.reads & TRI_LOSS_LAST)
    choose(f, r, *n_tok + len - 1, begin + len - 1);
  else
    for (int64_t i = tri_rollout_first_row(r, q) - begin; !r->masked[q] && i < len; i++)
      if (tri_rollout_has_loss(r, begin + i)) choose(f, r, *n_tok + i - 1, begin + i);
  *n_tok += len;
}

tri_status tri_batch_load(tri_staging *f, const tri_rollout *r, const int *seq, int n, tri_stream *s,
                          tri_batch *out) {
  const tri_device_ops *ops = f->device->ops;
  int64_t               n_tok = 0, longest = 0;

  f->rollout = r;
  f->seq = seq;
  f->n_rows = 0;
  f->n_seq = n;
  f->host_rows.cu[0] = 0;
  f->start[0] = 0;
  for (int k = 0; k < n; k++) {
    TRI_ASSERT(n_tok + r->start[seq[k] + 1] - r->start[seq[k]] <= f->opt.max_tokens);
    put_sequence(f, r, seq[k], &n_tok);
    f->host_rows.cu[k + 1] = (int32_t)n_tok;
    if (n_tok - f->host_rows.cu[k] > longest) longest = n_tok - f->host_rows.cu[k];
    f->start[k + 1] = f->n_rows;
  }
  TRI_ASSERT(f->n_rows <= f->opt.max_rows);
  TRI_TRY(ops->copy(s, f->device_rows.token, f->host_rows.token, (size_t)n_tok * 4));
  TRI_TRY(ops->copy(s, f->device_rows.pos, f->host_rows.pos, (size_t)n_tok * 4));
  TRI_TRY(ops->copy(s, f->device_rows.cu, f->host_rows.cu, (size_t)(n + 1) * 4));
  TRI_TRY(ops->copy(s, f->device_rows.row, f->host_rows.row, (size_t)f->n_rows * 4));
  TRI_TRY(ops->copy(s, f->device_rows.target, f->host_rows.target, (size_t)f->n_rows * 4));
  *out = (tri_batch){.token = tri_view1(f->device_rows.token, TRI_I32, n_tok),
                     .pos = tri_view1(f->device_rows.pos, TRI_I32, n_tok),
                     .cu = tri_view1(f->device_rows.cu, TRI_I32, n + 1),
                     .longest = longest,
                     .row = tri_view1(f->device_rows.row, TRI_I32, f->n_rows),
                     .target = tri_view1(f->device_rows.target, TRI_I32, f->n_rows)};
  return TRI_OK;
}

/* Copies the loaded rows of one array of the rollout to to [K], or returns NULL if the array is not
 * needed. */
static const float *take(const tri_staging *f, float *to, const float *from) {
  for (int64_t k = 0; to && k < f->n_rows; k++) to[k] = from[f->origin[k]];
  return to;
}

void tri_batch_refresh(tri_staging *f, tri_loss_in *in) {
  const tri_rollout *r = f->rollout;

  in->old_logp = take(f, f->column.old_logp, r->old_logp);
  in->ref_logp = take(f, f->column.ref_logp, r->ref_logp);
  in->adv = take(f, f->column.adv, r->adv);
  in->old_value = take(f, f->column.old_value, r->critic.value);
  in->ret = take(f, f->column.ret, r->critic.ret);
  in->roll_logp = take(f, f->column.roll_logp, r->roll_logp);
}

tri_status tri_batch_fetch(tri_staging *f, const tri_rows_out *from, const double *weight, tri_stream *s,
                           tri_loss_in *in, tri_loss_out *out) {
  const tri_tensor *result[N_RESULT] = {&from->logp, &from->ent, &from->value};
  float            *got[N_RESULT] = {NULL}, *grad[N_RESULT] = {NULL};

  for (int i = 0; i < N_RESULT; i++) {
    if (!result[i]->data) continue;
    TRI_ASSERT(i < result_count(f) && result[i]->dim[0] == f->n_rows);
    TRI_TRY(f->device->ops->copy(s, f->host_result[i], result[i]->data, (size_t)f->n_rows * 4));
    got[i] = f->host_result[i];
    grad[i] = f->host_grad[i];
  }
  for (int k = 0; weight && k < f->n_seq; k++) f->weight[k] = weight[f->seq[k]];
  for (int k = 0; f->score && k < f->n_seq; k++) f->score[k] = f->rollout->reward[f->seq[k]];
  *in = (tri_loss_in){.n = f->n_rows,
                      .n_seq = f->n_seq,
                      .start = f->start,
                      .origin = f->origin,
                      .logp = got[LOGP],
                      .ent = got[ENT],
                      .value = got[VALUE],
                      .score = f->score,
                      .weight = weight ? f->weight : NULL};
  tri_batch_refresh(f, in);
  *out = (tri_loss_out){.dlogp = grad[LOGP], .dent = grad[ENT], .dvalue = grad[VALUE]};
  return f->device->ops->stream_sync(s);
}

tri_status tri_batch_send(tri_staging *f, const tri_loss_out *out, double scale, tri_stream *s,
                          tri_rows_out *d) {
  float      *grad[N_RESULT] = {out->dlogp, out->dent, out->dvalue};
  tri_tensor *to[N_RESULT] = {&d->logp, &d->ent, &d->value};

  *d = (tri_rows_out){.logp = {.data = NULL}};
  for (int i = 0; i < N_RESULT; i++) {
    if (!grad[i]) continue;
    for (int64_t k = 0; scale != 1 && k < f->n_rows; k++) grad[i][k] *= (float)scale;
    TRI_TRY(f->device->ops->copy(s, f->derivative[i], grad[i], (size_t)f->n_rows * 4));
    *to[i] = tri_view1(f->derivative[i], TRI_F32, f->n_rows);
  }
  return TRI_OK;
}
