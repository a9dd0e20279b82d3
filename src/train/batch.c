/* batch.c - rollout rows to device micro-batches and back; which rank trains on which sequence. */
#include "batch.h"

#include <stdlib.h>
#include <string.h>

/* ---- who trains on what ---- */

typedef struct item {
  int64_t tokens;
  int     seq, rank;
} item;

static int longest_first(const void *a, const void *b) {
  const item *x = a, *y = b;
  if (x->tokens != y->tokens) return x->tokens < y->tokens ? 1 : -1;
  return x->seq - y->seq;
}

/* Give the n items, longest first, to ranks: by turns there and back, so that counts are equal and tokens
 * nearly. */
static void deal(item *it, int n, int size) {
  for (int j = 0; j < n; j++) {
    int turn = j / size, place = j % size;
    it[j].rank = turn % 2 ? size - 1 - place : place;
  }
}

/* Micro-batches of one rank, in the order of sequences. first and seq may be NULL to count only. */
static int cut(const item *it, const tri_split_opt *o, int rank, int *first, int *seq) {
  int64_t tokens = 0;
  int     n_micro = 0, in_micro = 0, at = 0, micro = o->micro_batch_size;

  for (int j = 0; j < o->n; j++) {
    if (it[j].rank != rank) continue;
    bool full = micro > 0 ? in_micro == micro : in_micro > 0 && tokens + it[j].tokens > o->max_tokens;
    if (!in_micro || full) {
      if (first) first[n_micro] = at;
      n_micro++;
      in_micro = 0;
      tokens = 0;
    }
    if (seq) seq[at] = it[j].seq;
    at++;
    in_micro++;
    tokens += it[j].tokens;
  }
  if (first) first[n_micro] = at;
  return n_micro;
}

static int in_order(const void *a, const void *b) { return ((const item *)a)->seq - ((const item *)b)->seq; }

tri_status tri_split_make(const tri_rollout *r, const tri_split_opt *o, tri_split *out) {
  tri_status st = TRI_OK;
  item      *it = NULL;
  int unit = r->group > 0 && o->n / r->group >= o->size && o->n / r->group % o->size == 0 ? r->group : 1;

  *out = (tri_split){0};
  if (o->micro_batch_size <= 0 && r->group > 0 && o->n / r->group >= o->size) unit = r->group;
  TRI_TRY(TRI_ALLOC(it, o->n));
  for (int j = 0; j < o->n; j++) {
    int q = o->begin + j;
    it[j] = (item){r->start[q + 1] - r->start[q], q,
                   (int)((int64_t)(j / unit) * o->size / ((o->n + unit - 1) / unit))};
    if (o->micro_batch_size <= 0 && it[j].tokens > o->max_tokens)
      TRI_FAIL_DONE(TRI_EINPUT, "a sequence of %lld tokens does not fit train.max_tokens_per_gpu = %lld",
                    (long long)it[j].tokens, (long long)o->max_tokens);
  }
  if (!o->in_blocks) {
    qsort(it, (size_t)o->n, sizeof *it, longest_first);
    deal(it, o->n, o->size);
    qsort(it, (size_t)o->n, sizeof *it, in_order);
  }
  for (int k = 0; k < o->size; k++) {
    int micros = cut(it, o, k, NULL, NULL);
    if (micros > out->n_micro) out->n_micro = micros;
  }
  TRI_TRY_DONE(TRI_ALLOC(out->first, out->n_micro + 1));
  TRI_TRY_DONE(TRI_ALLOC(out->seq, o->n));
  int mine = cut(it, o, o->rank, out->first, out->seq);
  for (int k = mine + 1; k <= out->n_micro; k++) out->first[k] = out->first[mine]; /* empty ones */
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

struct tri_feed {
  tri_device *device; /* borrowed */
  int64_t     max_tokens, max_rows, n_rows;
  int         n_seq;
  int32_t    *token, *pos, *cu, *row, *target;                  /* device */
  int32_t    *h_token, *h_pos, *h_cu, *h_row, *h_target;        /* host, pinned */
  float      *dlogp, *dent, *h_logp, *h_ent, *h_dlogp, *h_dent; /* device, then host [max_rows] */
  int64_t    *h_start, *h_origin;                               /* host */
  float      *old_logp, *ref_logp, *adv;                        /* host [max_rows] */
  double     *weight;                                           /* host */
};

tri_status tri_feed_open(tri_device *d, tri_ledger *ledger, int64_t max_tokens, int64_t max_rows,
                         tri_feed **out) {
  tri_feed *f;

  TRI_TRY(TRI_ALLOC(*out, 1));
  f = *out;
  f->device = d;
  f->max_tokens = max_tokens;
  f->max_rows = max_rows;
  size_t n = (size_t)max_tokens + 1, k = (size_t)max_rows;
  struct {
    void   *where;
    tri_mem kind;
    size_t  bytes;
  } r[] = {{&f->token, TRI_MEM_DEVICE, n * 4},    {&f->pos, TRI_MEM_DEVICE, n * 4},
           {&f->cu, TRI_MEM_DEVICE, n * 4},       {&f->row, TRI_MEM_DEVICE, k * 4},
           {&f->target, TRI_MEM_DEVICE, k * 4},   {&f->dlogp, TRI_MEM_DEVICE, k * 4},
           {&f->dent, TRI_MEM_DEVICE, k * 4},     {&f->h_token, TRI_MEM_PINNED, n * 4},
           {&f->h_pos, TRI_MEM_PINNED, n * 4},    {&f->h_cu, TRI_MEM_PINNED, n * 4},
           {&f->h_row, TRI_MEM_PINNED, k * 4},    {&f->h_target, TRI_MEM_PINNED, k * 4},
           {&f->h_logp, TRI_MEM_PINNED, k * 4},   {&f->h_ent, TRI_MEM_PINNED, k * 4},
           {&f->h_dlogp, TRI_MEM_PINNED, k * 4},  {&f->h_dent, TRI_MEM_PINNED, k * 4},
           {&f->h_start, TRI_MEM_PINNED, n * 8},  {&f->h_origin, TRI_MEM_PINNED, k * 8},
           {&f->old_logp, TRI_MEM_PINNED, k * 4}, {&f->ref_logp, TRI_MEM_PINNED, k * 4},
           {&f->adv, TRI_MEM_PINNED, k * 4},      {&f->weight, TRI_MEM_PINNED, n * 8}};
  for (size_t i = 0; i < sizeof r / sizeof *r; i++)
    TRI_TRY(
        tri_ledger_add(ledger, r[i].kind, TRI_PHASE_LEARN, false, "batch staging", r[i].bytes, r[i].where));
  return TRI_OK;
}

void tri_feed_close(tri_feed **f) {
  if (!*f) return;
  TRI_FREE(*f);
}

/* Rows of one sequence behind what is there already. */
static void put_sequence(tri_feed *f, const tri_rollout *r, int q, int64_t *n_tok) {
  int64_t begin = r->start[q], len = r->start[q + 1] - begin, first = tri_rollout_first_row(r, q) - begin;

  for (int64_t i = 0; i < len; i++) {
    f->h_token[*n_tok + i] = r->token[begin + i];
    f->h_pos[*n_tok + i] = (int32_t)i;
  }
  for (int64_t i = first; i < len; i++) {
    f->h_row[f->n_rows] = (int32_t)(*n_tok + i - 1);
    f->h_target[f->n_rows] = r->token[begin + i];
    f->h_origin[f->n_rows++] = begin + i;
  }
  *n_tok += len;
}

tri_status tri_batch_load(tri_feed *f, const tri_rollout *r, const int *seq, int n, tri_stream *s,
                          tri_batch *out) {
  const tri_device_ops *ops = f->device->ops;
  int64_t               n_tok = 0;

  f->n_rows = 0;
  f->n_seq = n;
  f->h_cu[0] = 0;
  f->h_start[0] = 0;
  for (int k = 0; k < n; k++) {
    TRI_ASSERT(n_tok + r->start[seq[k] + 1] - r->start[seq[k]] <= f->max_tokens);
    put_sequence(f, r, seq[k], &n_tok);
    f->h_cu[k + 1] = (int32_t)n_tok;
    f->h_start[k + 1] = f->n_rows;
  }
  TRI_ASSERT(f->n_rows <= f->max_rows);
  TRI_TRY(ops->copy(s, f->token, f->h_token, (size_t)n_tok * 4));
  TRI_TRY(ops->copy(s, f->pos, f->h_pos, (size_t)n_tok * 4));
  TRI_TRY(ops->copy(s, f->cu, f->h_cu, (size_t)(n + 1) * 4));
  TRI_TRY(ops->copy(s, f->row, f->h_row, (size_t)f->n_rows * 4));
  TRI_TRY(ops->copy(s, f->target, f->h_target, (size_t)f->n_rows * 4));
  *out = (tri_batch){.token = tri_view1(f->token, TRI_I32, n_tok),
                     .pos = tri_view1(f->pos, TRI_I32, n_tok),
                     .cu = tri_view1(f->cu, TRI_I32, n + 1),
                     .row = tri_view1(f->row, TRI_I32, f->n_rows),
                     .target = tri_view1(f->target, TRI_I32, f->n_rows)};
  return TRI_OK;
}

tri_status tri_batch_fetch(tri_feed *f, const tri_rows_out *from, tri_stream *s, tri_feed_rows *out) {
  TRI_ASSERT(from->logp.dim[0] == f->n_rows);
  TRI_TRY(f->device->ops->copy(s, f->h_logp, from->logp.data, (size_t)f->n_rows * 4));
  TRI_TRY(f->device->ops->copy(s, f->h_ent, from->ent.data, (size_t)f->n_rows * 4));
  TRI_TRY(f->device->ops->stream_sync(s));
  *out = (tri_feed_rows){f->n_seq,   f->n_rows, f->h_start,  f->h_origin, f->h_logp, f->h_ent,
                         f->h_dlogp, f->h_dent, f->old_logp, f->ref_logp, f->adv,    f->weight};
  return TRI_OK;
}

tri_status tri_batch_send(tri_feed *f, tri_stream *s, tri_rows_out *d) {
  TRI_TRY(f->device->ops->copy(s, f->dlogp, f->h_dlogp, (size_t)f->n_rows * 4));
  TRI_TRY(f->device->ops->copy(s, f->dent, f->h_dent, (size_t)f->n_rows * 4));
  *d = (tri_rows_out){.logp = tri_view1(f->dlogp, TRI_F32, f->n_rows),
                      .ent = tri_view1(f->dent, TRI_F32, f->n_rows)};
  return TRI_OK;
}
