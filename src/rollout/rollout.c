/* rollout.c - exchanges the answers of one step between ranks, and plans memory for them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "arrays.h"
#include "base/host_memory.h"

#include <string.h>

/* A rank's message. This head comes first, then lengths [n_seq] i64, then each exchanged array, padded to 8
 * bytes. */
typedef struct pack_head {
  int64_t n_seq, n_tok, group, n_reward, has_logp, has_reward;
} pack_head;

/* Returns the bytes of array k in a message. */
static size_t packed_bytes(int k, const pack_head *h) {
  size_t rows = (size_t)(tri_array[k].per == TRI_PER_TOKEN ? h->n_tok : h->n_seq);
  return (rows * tri_array_width(k, h->n_reward) + 7) / 8 * 8;
}

tri_status tri_rollout_store_plan(tri_ledger *l, tri_phase phase, const char *name,
                                  const tri_rollout_size *most, bool exchange, tri_rollout_store *out) {
  pack_head h = {.n_seq = most->n_seq, .n_tok = most->n_tok, .n_reward = most->n_reward};
  size_t    start_bytes = ((size_t)most->n_seq + 1) * sizeof *out->arrays.start,
         wire = (size_t)most->n_part * (sizeof h + TRI_ARRAYS_SENT * 8) + start_bytes;

  TRI_TRY(tri_ledger_add(l, TRI_MEM_HOST, phase, false, name, start_bytes, (void **)&out->arrays.start));
  for (int k = 0; k < TRI_ARRAYS; k++) {
    size_t bytes = tri_array_rows(k, h.n_seq, h.n_tok) * tri_array_width(k, h.n_reward);
    if (tri_array[k].column && !(tri_array[k].column & most->columns)) continue;
    TRI_TRY(tri_ledger_add(l, TRI_MEM_HOST, phase, false, name, bytes,
                           (void **)(void *)((char *)&out->arrays + tri_array[k].member)));
    wire += k < TRI_ARRAYS_SENT ? packed_bytes(k, &h) : 0;
  }
  out->most = *most;
  out->wire_bytes = exchange ? wire : 0;
  return tri_ledger_add(l, TRI_MEM_HOST, TRI_PHASE_ROLLOUT, false, "exchange of answers", out->wire_bytes,
                        (void **)&out->wire);
}

/* Returns the store with the rollout's planned memory for an exchange, or NULL if that memory is
 * allocated. */
static const tri_rollout_store *wire_of(const tri_rollout *r) {
  return r->store && r->store->wire_bytes ? r->store : NULL;
}

/* Writes this rank's message to planned memory, or to allocated memory, which the caller frees. */
static tri_status pack(const tri_rollout *r, char **out, size_t *n_bytes) {
  pack_head                h = {r->n_seq, r->n_tok, r->group, r->n_reward, r->has_logp, r->has_reward};
  size_t                   at = sizeof h + (size_t)r->n_seq * sizeof(int64_t);
  const tri_rollout_store *store = wire_of(r);

  *n_bytes = at;
  for (int k = 0; k < TRI_ARRAYS_SENT; k++) *n_bytes += packed_bytes(k, &h);
  if (store && *n_bytes > store->wire_bytes)
    TRI_FAIL(TRI_EINTERNAL, "the message of a rollout has %zu bytes, but memory was planned for %zu",
             *n_bytes, store->wire_bytes);
  if (store)
    *out = store->wire;
  else
    TRI_TRY(tri_host_alloc(*n_bytes, 1, (void **)out));
  memcpy(*out, &h, sizeof h);
  for (int q = 0; q < r->n_seq; q++) {
    int64_t n = r->start[q + 1] - r->start[q];
    memcpy(*out + sizeof h + (size_t)q * sizeof n, &n, sizeof n);
  }
  for (int k = 0; k < TRI_ARRAYS_SENT; k++) {
    size_t rows = (size_t)(tri_array[k].per == TRI_PER_TOKEN ? r->n_tok : r->n_seq),
           n = rows * tri_array_width(k, r->n_reward);
    if (n) memcpy(*out + at, tri_array_get(r, k), n);
    at += packed_bytes(k, &h);
  }
  return TRI_OK;
}

/* Reading position in one rank's message. */
typedef struct cursor {
  pack_head   h;
  const char *length, *array[TRI_ARRAYS_SENT]; /* borrowed, at the next sequence */
} cursor;

static tri_status cursor_open(const char *message, size_t n_bytes, int rank, cursor *c) {
  size_t at = sizeof c->h;

  memcpy(&c->h, message, sizeof c->h);
  c->length = message + at;
  at += (size_t)c->h.n_seq * sizeof(int64_t);
  for (int k = 0; k < TRI_ARRAYS_SENT; k++) {
    c->array[k] = message + at;
    at += packed_bytes(k, &c->h);
  }
  if (at != n_bytes) TRI_FAIL(TRI_EINTERNAL, "the part of rank %d in the rollout has a wrong size", rank);
  return TRI_OK;
}

/* Moves one sequence from a message to the end of out, as sequence q. */
static void cursor_take(cursor *c, tri_rollout *out, int q) {
  int64_t n;

  memcpy(&n, c->length, sizeof n);
  c->length += sizeof n;
  out->start[q + 1] = out->start[q] + n;
  for (int k = 0; k < TRI_ARRAYS_SENT; k++) {
    size_t width = tri_array_width(k, c->h.n_reward);
    size_t bytes = width * (tri_array[k].per == TRI_PER_TOKEN ? (size_t)n : 1);
    size_t row = (size_t)(tri_array[k].per == TRI_PER_TOKEN ? out->start[q] : q);
    if (bytes) memcpy((char *)tri_array_get(out, k) + row * width, c->array[k], bytes);
    c->array[k] += bytes;
  }
}

/* Computes the sizes of the whole step. The parts of all ranks must fit together. */
static tri_status total_head(const cursor *c, int n_rank, pack_head *sum) {
  int64_t n_prompt;

  *sum = (pack_head){.has_logp = 1, .has_reward = 1};
  for (int k = 0; k < n_rank; k++) {
    const pack_head *h = &c[k].h;
    if (!h->n_seq) continue;
    if (sum->n_seq && (h->group != sum->group || h->n_reward != sum->n_reward))
      TRI_FAIL(TRI_EINTERNAL,
               "rank %d has groups of %lld answers with %lld rewards, but an earlier rank has %lld with %lld",
               k, (long long)h->group, (long long)h->n_reward, (long long)sum->group,
               (long long)sum->n_reward);
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
    TRI_FAIL(TRI_EINTERNAL, "%lld sequences cannot be divided into groups of %lld", (long long)sum->n_seq,
             (long long)sum->group);
  n_prompt = sum->n_seq / sum->group;
  for (int k = 0; k < n_rank; k++) {
    int64_t want = (n_prompt - k + n_rank - 1) / n_rank * sum->group;
    if (c[k].h.n_seq != want)
      TRI_FAIL(TRI_EINTERNAL, "rank %d has %lld of the step's %lld sequences instead of %lld", k,
               (long long)c[k].h.n_seq, (long long)sum->n_seq, (long long)want);
  }
  return TRI_OK;
}

/* Collective over world. Gathers every rank's message on every rank, in out's planned memory, or in allocated
 * memory, which the caller frees. */
static tri_status gather(tri_comm *world, const char *mine, size_t n_bytes, const tri_rollout *out,
                         size_t *counts, char **recv) {
  const tri_rollout_store *store = wire_of(out);
  size_t                   total = 0;
  tri_status               st = TRI_OK;

  if (!store) return tri_host_gather_all(world, mine, n_bytes, (void **)recv, counts);
  TRI_TRY(tri_host_gather_sizes(world, n_bytes, counts));
  for (int k = 0; k < world->size; k++) total += counts[k];
  if (total > store->wire_bytes)
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_EINTERNAL,
                  "the messages of all ranks' rollouts have %zu bytes, but memory was planned for %zu", total,
                  store->wire_bytes);
  TRI_TRY(tri_agree(world, st));
  *recv = store->wire;
  return tri_host_gather_into(world, mine, counts, *recv);
}

tri_status tri_rollout_exchange(const tri_rollout *mine, tri_comm *world, tri_rollout *out) {
  tri_status st = TRI_OK;
  char      *send = NULL, *recv = NULL;
  size_t    *counts = NULL, n_bytes, at = 0;
  cursor    *c = NULL;
  pack_head  sum;

  TRI_TRY_DONE(TRI_ALLOC(counts, world->size));
  TRI_TRY_DONE(TRI_ALLOC(c, world->size));
  TRI_TRY_DONE(pack(mine, &send, &n_bytes));
  TRI_TRY_DONE(gather(world, send, n_bytes, out, counts, &recv));
  for (int k = 0; k < world->size; at += counts[k++])
    TRI_TRY_DONE(cursor_open(recv + at, counts[k], k, &c[k]));
  TRI_TRY_DONE(total_head(c, world->size, &sum));
  TRI_TRY_DONE(tri_rollout_make((int)sum.n_seq, sum.n_tok, (int)sum.group, (int)sum.n_reward, out));
  out->has_logp = sum.has_logp != 0;
  out->has_reward = sum.has_reward != 0;
  for (int q = 0; q < out->n_seq; q++) cursor_take(&c[q / out->group % world->size], out, q);
done:
  if (!wire_of(mine)) TRI_FREE(send);
  if (!wire_of(out)) TRI_FREE(recv);
  TRI_FREE(counts);
  TRI_FREE(c);
  if (st != TRI_OK) tri_rollout_clear(out);
  return st;
}
