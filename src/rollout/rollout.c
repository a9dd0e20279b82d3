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

/* Returns the bytes of array k in a message, 0 if it is not sent. */
static size_t packed_bytes(int k, const pack_head *h) {
  size_t rows = tri_array[k].sent ? tri_array_rows(k, h->n_seq, h->n_tok) : 0;
  return (rows * tri_array_width(k, h->n_reward) + 7) / 8 * 8;
}

tri_status tri_rollout_store_plan(tri_ledger *l, tri_phase phase, const char *name,
                                  const tri_rollout_size *most, bool exchange, tri_rollout_store *out) {
  pack_head h = {.n_seq = most->n_seq, .n_tok = most->n_tok, .n_reward = most->n_reward};
  size_t    start_bytes = ((size_t)most->n_seq + 1) * sizeof *out->arrays.start,
         wire = (size_t)most->n_part * sizeof h + start_bytes;

  TRI_TRY(tri_ledger_add(l, TRI_MEM_HOST, phase, false, name, start_bytes, (void **)&out->arrays.start));
  for (int k = 0; k < TRI_ARRAYS; k++) {
    size_t bytes = tri_array_rows(k, h.n_seq, h.n_tok) * tri_array_width(k, h.n_reward);
    if (tri_array[k].column && !(tri_array[k].column & most->columns)) continue;
    TRI_TRY(tri_ledger_add(l, TRI_MEM_HOST, phase, false, name, bytes,
                           (void **)(void *)((char *)&out->arrays + tri_array[k].member)));
    if (tri_array[k].sent) wire += packed_bytes(k, &h) + (size_t)most->n_part * 8;
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
  for (int k = 0; k < TRI_ARRAYS; k++) *n_bytes += packed_bytes(k, &h);
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
  for (int k = 0; k < TRI_ARRAYS; k++) {
    size_t n = tri_array_rows(k, r->n_seq, r->n_tok) * tri_array_width(k, r->n_reward);
    if (tri_array[k].sent && n) memcpy(*out + at, tri_array_get(r, k), n);
    at += packed_bytes(k, &h);
  }
  return TRI_OK;
}

/* One rank's message as received. */
typedef struct message {
  pack_head   h;
  const char *length, *array[TRI_ARRAYS]; /* borrowed, NULL if not sent */
  const char *place, *sample;             /* two of these arrays */
} message;

static tri_status message_open(const char *bytes, size_t n_bytes, int rank, message *m) {
  size_t at = sizeof m->h;

  memcpy(&m->h, bytes, sizeof m->h);
  m->length = bytes + at;
  at += (size_t)m->h.n_seq * sizeof(int64_t);
  for (int k = 0; k < TRI_ARRAYS; k++) {
    m->array[k] = tri_array[k].sent ? bytes + at : NULL;
    if (tri_array[k].member == offsetof(tri_rollout, place)) m->place = m->array[k];
    if (tri_array[k].member == offsetof(tri_rollout, sample)) m->sample = m->array[k];
    at += packed_bytes(k, &m->h);
  }
  if (at != n_bytes) TRI_FAIL(TRI_EINTERNAL, "the part of rank %d in the rollout has a wrong size", rank);
  return TRI_OK;
}

/* Returns the number of tokens of sequence q. */
static int64_t message_length(const message *m, int64_t q) {
  int64_t n;

  memcpy(&n, m->length + (size_t)q * sizeof n, sizeof n);
  return n;
}

/* Returns element q of an array of i32. */
static int64_t element(const char *array, int64_t q) {
  int32_t x;

  memcpy(&x, array + (size_t)q * sizeof x, sizeof x);
  return x;
}

/* Computes the sizes of the whole step. The parts of all ranks must fit together. */
static tri_status total_head(const message *m, int n_rank, pack_head *sum) {
  *sum = (pack_head){.has_logp = 1, .has_reward = 1};
  for (int k = 0; k < n_rank; k++) {
    const pack_head *h = &m[k].h;
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
    *sum = m[0].h;
    return TRI_OK;
  }
  if (sum->n_seq > INT32_MAX || sum->group <= 0)
    TRI_FAIL(TRI_EINTERNAL, "%lld sequences cannot be divided into groups of %lld", (long long)sum->n_seq,
             (long long)sum->group);
  return TRI_OK;
}

/* A sequence in the ranks' messages. */
typedef struct found {
  const message *m;      /* NULL if it is missing */
  int64_t        q, row; /* its number, and its first token in the message */
} found;

/* Checks that each place of the step has a whole group. Answers to places behind the last one are missing at
 * another. */
static tri_status check_places(const message *m, int n_rank, const pack_head *sum) {
  int64_t    n_place = (sum->n_seq + sum->group - 1) / sum->group, *count = NULL;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(count, n_place));
  for (int k = 0; k < n_rank; k++)
    for (int64_t q = 0; q < m[k].h.n_seq; q++) {
      int64_t place = element(m[k].place, q);
      if (place >= 0 && place < n_place) count[place]++;
    }
  for (int64_t place = 0; place < n_place; place++)
    if (count[place] != sum->group)
      TRI_FAIL_DONE(TRI_EINTERNAL, "place %lld of a step of %lld prompts has %lld answers instead of %lld",
                    (long long)place, (long long)n_place, (long long)count[place], (long long)sum->group);
done:
  TRI_FREE(count);
  return st;
}

/* Finds each sequence of the step, in the order of places, then samples. */
static tri_status find_sequences(const message *m, int n_rank, const pack_head *sum, found *at) {
  for (int k = 0; k < n_rank; k++)
    for (int64_t q = 0, row = 0; q < m[k].h.n_seq; row += message_length(&m[k], q++)) {
      int64_t place = element(m[k].place, q), sample = element(m[k].sample, q);
      if (sample >= 0 && sample < sum->group) at[place * sum->group + sample] = (found){&m[k], q, row};
    }
  for (int64_t i = 0; i < sum->n_seq; i++)
    if (!at[i].m)
      TRI_FAIL(TRI_EINTERNAL, "place %lld of a step has %lld answers, but answer %lld is missing",
               (long long)(i / sum->group), (long long)sum->group, (long long)(i % sum->group));
  return TRI_OK;
}

/* Copies a sequence to the end of out, as sequence q. */
static void take_sequence(const found *from, tri_rollout *out, int q) {
  int64_t n = message_length(from->m, from->q);

  out->start[q + 1] = out->start[q] + n;
  for (int k = 0; k < TRI_ARRAYS; k++) {
    bool   tokens = tri_array[k].per == TRI_PER_TOKEN;
    size_t width = tri_array_width(k, out->n_reward), bytes = width * (tokens ? (size_t)n : 1);
    if (tri_array[k].sent && bytes)
      memcpy((char *)tri_array_get(out, k) + (size_t)(tokens ? out->start[q] : q) * width,
             from->m->array[k] + (size_t)(tokens ? from->row : from->q) * width, bytes);
  }
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

/* The messages of all ranks, and the step's sequences in them. Allocated outside the plan, because they take
 * some 30 bytes a sequence and 240 bytes a rank. */
typedef struct exchange {
  char    *send;
  size_t   n_send;
  size_t  *counts; /* [ranks] */
  message *m;      /* [ranks] */
  found   *from;   /* [n_seq] */
} exchange;

static tri_status open_exchange(const tri_rollout *mine, int ranks, exchange *x) {
  TRI_TRY(TRI_ALLOC(x->counts, ranks));
  TRI_TRY(TRI_ALLOC(x->m, ranks));
  return pack(mine, &x->send, &x->n_send);
}

/* Not collective. Makes the step from the messages of all ranks. */
static tri_status unpack(exchange *x, const char *recv, int ranks, tri_rollout *out) {
  size_t    at = 0;
  pack_head sum;

  for (int k = 0; k < ranks; at += x->counts[k++])
    TRI_TRY(message_open(recv + at, x->counts[k], k, &x->m[k]));
  TRI_TRY(total_head(x->m, ranks, &sum));
  if (sum.n_seq) TRI_TRY(check_places(x->m, ranks, &sum));
  TRI_TRY(TRI_ALLOC(x->from, sum.n_seq));
  TRI_TRY(find_sequences(x->m, ranks, &sum, x->from));
  TRI_TRY(tri_rollout_make((int)sum.n_seq, sum.n_tok, (int)sum.group, (int)sum.n_reward, out));
  out->has_logp = sum.has_logp != 0;
  out->has_reward = sum.has_reward != 0;
  for (int q = 0; q < out->n_seq; q++) take_sequence(&x->from[q], out, q);
  return TRI_OK;
}

tri_status tri_rollout_exchange(const tri_rollout *mine, tri_comm *world, tri_rollout *out) {
  tri_status st = TRI_OK;
  exchange   x = {.send = NULL};
  char      *recv = NULL;

  TRI_TRY_DONE(tri_agree(world, open_exchange(mine, world->size, &x)));
  TRI_TRY_DONE(gather(world, x.send, x.n_send, out, x.counts, &recv));
  TRI_TRY_DONE(tri_agree(world, unpack(&x, recv, world->size, out)));
done:
  if (!wire_of(mine)) TRI_FREE(x.send);
  if (!wire_of(out)) TRI_FREE(recv);
  TRI_FREE(x.counts);
  TRI_FREE(x.m);
  TRI_FREE(x.from);
  if (st != TRI_OK) tri_rollout_clear(out);
  return st;
}
