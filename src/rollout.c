/* rollout.c - arrays of one step's data, and their exchange between ranks. */
#include "rollout.h"

#include <math.h>
#include <string.h>

/* Every array but start: where its pointer lies, bytes per element, elements per what. */
typedef enum { PER_SEQ, PER_PART, PER_TOKEN } row_kind;
typedef struct array_row {
  size_t   member, bytes;
  row_kind per;
} array_row;
#define ROW(name, per)                                                                                       \
  { offsetof(tri_rollout, name), sizeof *((tri_rollout *)0)->name, per }
static const array_row array[] = {ROW(prompt_id, PER_SEQ), ROW(sample, PER_SEQ),     ROW(prompt_len, PER_SEQ),
                                  ROW(stop, PER_SEQ),      ROW(reward, PER_SEQ),     ROW(part, PER_PART),
                                  ROW(token, PER_TOKEN),   ROW(old_logp, PER_TOKEN), ROW(ref_logp, PER_TOKEN),
                                  ROW(adv, PER_TOKEN)};
enum { N_ARRAY = sizeof array / sizeof *array };

/* What a rank sends: this, lengths [n_seq] i64, then each array, padded to 8 bytes. */
typedef struct pack_head {
  int64_t n_seq, n_tok, group, n_reward, has_logp, has_reward;
} pack_head;

static void *array_get(const tri_rollout *r, int k) {
  void *p;
  memcpy(&p, (const char *)r + array[k].member, sizeof p);
  return p;
}

static size_t array_width(int k, int64_t n_reward) {
  return array[k].bytes * (array[k].per == PER_PART ? (size_t)n_reward : 1);
}

/* Bytes of array k in a message. */
static size_t packed_bytes(int k, const pack_head *h) {
  size_t rows = (size_t)(array[k].per == PER_TOKEN ? h->n_tok : h->n_seq);
  return (rows * array_width(k, h->n_reward) + 7) / 8 * 8;
}

tri_status tri_rollout_make(int n_seq, int64_t n_tok, int group, int n_reward, tri_rollout *out) {
  tri_status st = TRI_OK;

  *out = (tri_rollout){.n_seq = n_seq, .group = group, .n_reward = n_reward, .n_tok = n_tok};
  if (n_seq < 0 || n_tok < 0 || group < 0 || n_reward < 0 || n_reward > TRI_REWARDS_MAX)
    TRI_FAIL_DONE(TRI_EARG, "a rollout of %d sequences, %lld tokens, groups of %d, %d rewards cannot be",
                  n_seq, (long long)n_tok, group, n_reward);
  TRI_TRY_DONE(TRI_ALLOC(out->start, (size_t)n_seq + 1));
  for (int k = 0; k < N_ARRAY; k++) {
    void *p;
    TRI_TRY_DONE(
        tri_host_alloc((size_t)(array[k].per == PER_TOKEN ? n_tok : n_seq), array_width(k, n_reward), &p));
    memcpy((char *)out + array[k].member, &p, sizeof p);
  }
  for (int q = 0; q < n_seq; q++) out->reward[q] = NAN;
  for (int64_t i = 0; i < n_tok; i++) out->old_logp[i] = out->ref_logp[i] = NAN;
done:
  if (st != TRI_OK) tri_rollout_free(out);
  return st;
}

void tri_rollout_free(tri_rollout *r) {
  TRI_FREE(r->start);
  for (int k = 0; k < N_ARRAY; k++) {
    void *p = array_get(r, k);
    tri_host_free(&p);
  }
  *r = (tri_rollout){0};
}

static tri_status pack(const tri_rollout *r, char **out, size_t *n_bytes) {
  pack_head h = {r->n_seq, r->n_tok, r->group, r->n_reward, r->has_logp, r->has_reward};
  size_t    at = sizeof h + (size_t)r->n_seq * sizeof(int64_t);

  *n_bytes = at;
  for (int k = 0; k < N_ARRAY; k++) *n_bytes += packed_bytes(k, &h);
  TRI_TRY(tri_host_alloc(*n_bytes, 1, (void **)out));
  memcpy(*out, &h, sizeof h);
  for (int q = 0; q < r->n_seq; q++) {
    int64_t n = r->start[q + 1] - r->start[q];
    memcpy(*out + sizeof h + (size_t)q * sizeof n, &n, sizeof n);
  }
  for (int k = 0; k < N_ARRAY; k++) {
    size_t rows = (size_t)(array[k].per == PER_TOKEN ? r->n_tok : r->n_seq),
           n = rows * array_width(k, r->n_reward);
    if (n) memcpy(*out + at, array_get(r, k), n);
    at += packed_bytes(k, &h);
  }
  return TRI_OK;
}

/* Reading position in one rank's message. */
typedef struct cursor {
  pack_head   h;
  const char *length, *array[N_ARRAY]; /* of the next sequence, borrowed */
} cursor;

static tri_status cursor_open(const char *message, size_t n_bytes, int rank, cursor *c) {
  size_t at = sizeof c->h;

  memcpy(&c->h, message, sizeof c->h);
  c->length = message + at;
  at += (size_t)c->h.n_seq * sizeof(int64_t);
  for (int k = 0; k < N_ARRAY; k++) {
    c->array[k] = message + at;
    at += packed_bytes(k, &c->h);
  }
  if (at != n_bytes) TRI_FAIL(TRI_EINTERNAL, "rank %d's part of the rollout has a wrong size", rank);
  return TRI_OK;
}

/* Move one sequence from a message to the end of out, as sequence q. */
static void cursor_take(cursor *c, tri_rollout *out, int q) {
  int64_t n;

  memcpy(&n, c->length, sizeof n);
  c->length += sizeof n;
  out->start[q + 1] = out->start[q] + n;
  for (int k = 0; k < N_ARRAY; k++) {
    size_t width = array_width(k, c->h.n_reward);
    size_t bytes = width * (array[k].per == PER_TOKEN ? (size_t)n : 1);
    size_t row = (size_t)(array[k].per == PER_TOKEN ? out->start[q] : q);
    if (bytes) memcpy((char *)array_get(out, k) + row * width, c->array[k], bytes);
    c->array[k] += bytes;
  }
}

/* The sizes of the whole step; every rank's part must fit the others'. */
static tri_status total_head(const cursor *c, int n_rank, pack_head *sum) {
  int64_t n_prompt;

  *sum = (pack_head){.has_logp = 1, .has_reward = 1};
  for (int k = 0; k < n_rank; k++) {
    const pack_head *h = &c[k].h;
    if (!h->n_seq) continue;
    if (sum->n_seq && (h->group != sum->group || h->n_reward != sum->n_reward))
      TRI_FAIL(TRI_EINTERNAL,
               "rank %d has groups of %lld answers with %lld rewards, a rank before it %lld with %lld", k,
               (long long)h->group, (long long)h->n_reward, (long long)sum->group, (long long)sum->n_reward);
    sum->group = h->group;
    sum->n_reward = h->n_reward;
    sum->n_seq += h->n_seq;
    sum->n_tok += h->n_tok;
    sum->has_logp = sum->has_logp && h->has_logp;
    sum->has_reward = sum->has_reward && h->has_reward;
  }
  if (!sum->n_seq) {
    *sum = c[0].h;
    return TRI_OK;
  }
  if (sum->n_seq > INT32_MAX || sum->group <= 0 || sum->n_seq % sum->group)
    TRI_FAIL(TRI_EINTERNAL, "%lld sequences do not make whole groups of %lld", (long long)sum->n_seq,
             (long long)sum->group);
  n_prompt = sum->n_seq / sum->group;
  for (int k = 0; k < n_rank; k++) {
    int64_t want = (n_prompt - k + n_rank - 1) / n_rank * sum->group;
    if (c[k].h.n_seq != want)
      TRI_FAIL(TRI_EINTERNAL, "rank %d brings %lld of the step's %lld sequences, not %lld", k,
               (long long)c[k].h.n_seq, (long long)sum->n_seq, (long long)want);
  }
  return TRI_OK;
}

tri_status tri_rollout_exchange(const tri_rollout *mine, tri_comm *world, tri_rollout *out) {
  tri_status st = TRI_OK;
  char      *send = NULL, *recv = NULL;
  size_t    *counts = NULL, n_bytes, at = 0;
  cursor    *c = NULL;
  pack_head  sum;

  *out = (tri_rollout){0};
  TRI_TRY_DONE(TRI_ALLOC(counts, world->size));
  TRI_TRY_DONE(TRI_ALLOC(c, world->size));
  TRI_TRY_DONE(pack(mine, &send, &n_bytes));
  TRI_TRY_DONE(tri_host_gather_all(world, send, n_bytes, (void **)&recv, counts));
  for (int k = 0; k < world->size; at += counts[k++])
    TRI_TRY_DONE(cursor_open(recv + at, counts[k], k, &c[k]));
  TRI_TRY_DONE(total_head(c, world->size, &sum));
  TRI_TRY_DONE(tri_rollout_make((int)sum.n_seq, sum.n_tok, (int)sum.group, (int)sum.n_reward, out));
  out->has_logp = sum.has_logp != 0;
  out->has_reward = sum.has_reward != 0;
  for (int q = 0; q < out->n_seq; q++) cursor_take(&c[q / out->group % world->size], out, q);
done:
  TRI_FREE(send);
  TRI_FREE(recv);
  TRI_FREE(counts);
  TRI_FREE(c);
  if (st != TRI_OK) tri_rollout_free(out);
  return st;
}
