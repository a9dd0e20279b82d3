/* tokenizer_bpe.c - byte pair encoding: the merge loop, and a cache of the pieces seen in a call. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "tokenizer_impl.h"

#include <string.h>

/* A piece seen before in this call: its text, and the place of its ids in the output. */
struct tri_tok_seen {
  uint64_t hash;
  size_t   at, n; /* bytes of the text; n = 0: the slot is empty */
  int64_t  out, n_out;
};

/* Longer pieces are not cached, because they hardly ever repeat (chosen, the library caches up to 256). */
enum { MAX_SEEN_BYTES = 256, MIN_SEEN = 256 };

/* ---- priority queue: smallest rank, then leftmost; four children a node keep it shallow ---- */

static void heap_down(uint64_t *heap, int64_t n, int64_t i, uint64_t value) {
  for (;;) {
    int64_t child = 4 * i + 1, last = child + 4 < n ? child + 4 : n, best = child, k;

    if (child >= n) break;
    for (k = child + 1; k < last; k++)
      if (heap[k] < heap[best]) best = k;
    if (heap[best] >= value) break;
    heap[i] = heap[best];
    i = best;
  }
  heap[i] = value;
}

static void heap_push(tri_tok_work *w, uint64_t value) {
  int64_t i = w->n_heap++;

  for (; i > 0 && w->heap[(i - 1) / 4] > value; i = (i - 1) / 4) w->heap[i] = w->heap[(i - 1) / 4];
  w->heap[i] = value;
}

static uint64_t heap_pop(tri_tok_work *w) {
  uint64_t top = w->heap[0], last = w->heap[--w->n_heap];

  if (w->n_heap) heap_down(w->heap, w->n_heap, 0, last);
  return top;
}

static int32_t find_rank(const tri_tokenizer *t, int32_t left, int32_t right) {
  uint64_t pair = (uint64_t)left << 32 | (uint32_t)right, i;

  for (i = tri_tok_pair_slot(pair, t->key, t->bpe.shift); t->bpe.merge[i].rank >= 0;
       i = (i + 1) & t->bpe.mask)
    if (t->bpe.merge[i].pair == pair) return t->bpe.merge[i].rank;
  return -1;
}

/* tokenizers, models/bpe/word.rs, merge_all. A queue entry whose pair has changed still counts if the new
 * pair gives the same token. */
static void merge_all(const tri_tokenizer *t, tri_tok_work *w, int64_t n) {
  int32_t *c = w->symbol, *bytes = w->bytes, *prev = w->prev, *next = w->next, rank;

  w->n_heap = 0;
  for (int64_t i = 0; i < n; i++) {
    prev[i] = (int32_t)i - 1;
    next[i] = i + 1 < n ? (int32_t)i + 1 : -1;
    if (i + 1 < n && (rank = find_rank(t, c[i], c[i + 1])) >= 0)
      w->heap[w->n_heap++] = (uint64_t)rank << 32 | (uint32_t)i;
  }
  for (int64_t i = (w->n_heap - 2) / 4; i >= 0 && w->n_heap > 1; i--)
    heap_down(w->heap, w->n_heap, i, w->heap[i]);

  while (w->n_heap) {
    uint64_t top = heap_pop(w);
    int32_t  at = (int32_t)(top & 0xffffffffu), id = t->bpe.id[top >> 32], right = next[at];

    if (c[at] < 0 || right < 0) continue;
    rank = find_rank(t, c[at], c[right]);
    if (rank < 0 || t->bpe.id[rank] != id) continue;
    c[at] = id;
    c[right] = -1;
    bytes[at] += bytes[right];
    next[at] = next[right];
    if (next[at] >= 0) prev[next[at]] = at;
    if (prev[at] >= 0 && (rank = find_rank(t, c[prev[at]], id)) >= 0)
      heap_push(w, (uint64_t)rank << 32 | (uint32_t)prev[at]);
    if (next[at] >= 0 && (rank = find_rank(t, id, c[next[at]])) >= 0)
      heap_push(w, (uint64_t)rank << 32 | (uint32_t)at);
  }
}

static int32_t find_char(const tri_tokenizer *t, const char *s, int n) {
  int32_t c;

  tri_tok_char(s, (size_t)n, &c);
  return c < 1024 ? t->bpe.char_id[c] : tri_tok_map_find(&t->model, s, (size_t)n);
}

static bool has_bytes(const tri_tokenizer *t, const char *s, int n) {
  for (int i = 0; i < n; i++)
    if (t->bpe.byte_id[(uint8_t)s[i]] < 0) return false;
  return true;
}

/* Turns the characters of a piece into symbols (tokenizers, models/bpe/model.rs, merge_word). An unknown
 * character is written only before the next known one, even if bytes of byte_fallback come between. */
static tri_status fill_symbols(const tri_tokenizer *t, const char *s, size_t n, int32_t *symbol,
                               int32_t *bytes, int64_t *n_symbol) {
  bool    waiting = false;
  int64_t k = 0;
  int32_t waiting_bytes = 0;
  int     step;

  for (size_t i = 0; i < n; i += (size_t)step) {
    int32_t c, id;
    step = tri_tok_char(s + i, n - i, &c);
    id = find_char(t, s + i, step);
    if (id >= 0) {
      if (waiting) bytes[k] = waiting_bytes, symbol[k++] = t->bpe.unk_id;
      waiting = false;
      bytes[k] = step, symbol[k++] = id;
    } else if (t->bpe.byte_fallback && has_bytes(t, s + i, step)) {
      for (int j = 0; j < step; j++) bytes[k] = 1, symbol[k++] = t->bpe.byte_id[(uint8_t)s[i + (size_t)j]];
    } else if (t->bpe.unk) {
      if (t->bpe.unk_id < 0)
        TRI_FAIL(TRI_EINPUT, "%s: the text has U+%04X, but the vocabulary has neither it nor unk_token '%s'",
                 t->name, (unsigned)c, t->bpe.unk);
      if (waiting && !t->bpe.fuse_unk) bytes[k] = waiting_bytes, symbol[k++] = t->bpe.unk_id;
      waiting_bytes = step + (waiting && t->bpe.fuse_unk ? waiting_bytes : 0);
      waiting = true;
    }
  }
  if (waiting) bytes[k] = waiting_bytes, symbol[k++] = t->bpe.unk_id;
  *n_symbol = k;
  return TRI_OK;
}

static tri_status encode_piece(const tri_tokenizer *t, tri_tok_work *w, const char *s, size_t n,
                               tri_tokens *out) {
  int64_t need = (int64_t)n + 1, n_symbol = 0, k = 0;
  int32_t id;

  if (t->bpe.ignore_merges && (id = tri_tok_map_find(&t->model, s, n)) >= 0) {
    TRI_TRY(tri_tok_took(w, n));
    return tri_tokens_put(out, &id, 1);
  }
  if (need > INT32_MAX)
    TRI_FAIL(TRI_EINPUT, "%s: a piece of text of %zu bytes is too long to encode", t->name, n);
  TRI_TRY(TRI_GROW(w->symbol, w->cap_symbol, need));
  TRI_TRY(TRI_GROW(w->bytes, w->cap_bytes, need));
  TRI_TRY(TRI_GROW(w->prev, w->cap_prev, need));
  TRI_TRY(TRI_GROW(w->next, w->cap_next, need));
  /* each merge removes one symbol and adds at most two entries to the n - 1 at the start */
  TRI_TRY(TRI_GROW(w->heap, w->cap_heap, 2 * need));
  TRI_TRY(fill_symbols(t, s, n, w->symbol, w->bytes, &n_symbol));
  merge_all(t, w, n_symbol);
  for (int64_t i = 0; w->origin.places && i < n_symbol; i++)
    if (w->symbol[i] >= 0) TRI_TRY(tri_tok_took(w, (size_t)w->bytes[i]));
  for (int64_t i = 0; i < n_symbol; i++)
    if (w->symbol[i] >= 0) w->symbol[k++] = w->symbol[i];
  return tri_tokens_put(out, w->symbol, k);
}

static struct tri_tok_seen *find_seen(tri_tok_work *w, uint64_t hash, const char *s, size_t n) {
  uint64_t mask = (uint64_t)w->cap_seen - 1, i = hash & mask;

  for (; w->seen[i].n; i = (i + 1) & mask)
    if (w->seen[i].hash == hash && w->seen[i].n == n && !memcmp(w->a.text + w->seen[i].at, s, n)) break;
  return w->seen + i;
}

static tri_status grow_seen(tri_tok_work *w) {
  struct tri_tok_seen *old = w->seen, *fresh;
  int64_t              n_old = w->cap_seen, n = n_old ? 4 * n_old : MIN_SEEN;

  TRI_TRY(TRI_ALLOC(fresh, n));
  w->seen = fresh;
  w->cap_seen = n;
  for (int64_t i = 0; i < n_old; i++)
    if (old[i].n) *find_seen(w, old[i].hash, w->a.text + old[i].at, old[i].n) = old[i];
  TRI_FREE(old);
  return TRI_OK;
}

/* Appends the ids of a piece that is not an added token. */
static tri_status put_piece(const tri_tokenizer *t, tri_tok_work *w, tri_tok_piece p, tri_tokens *out) {
  const char          *s = w->a.text + p.at;
  struct tri_tok_seen *seen = NULL;
  int64_t              before = out->n, n;
  uint64_t             hash = 0;

  if (p.n < MAX_SEEN_BYTES) {
    if (2 * w->n_seen >= w->cap_seen) TRI_TRY(grow_seen(w));
    hash = tri_tok_hash(t->key, s, p.n);
    seen = find_seen(w, hash, s, p.n);
    if (seen->n) {
      n = seen->n_out;
      for (int64_t i = 0; w->origin.places && i < n; i++)
        TRI_TRY(tri_tok_took(w, (size_t)w->origin.took.id[seen->out - w->origin.out_before + i]));
      TRI_TRY(TRI_GROW(out->id, out->cap, out->n + n));
      if (n) memcpy(out->id + out->n, out->id + seen->out, (size_t)n * sizeof *out->id);
      out->n += n;
      return TRI_OK;
    }
  }
  TRI_TRY(t->unigram.on ? tri_tok_unigram_piece(t, w, s, p.n, out) : encode_piece(t, w, s, p.n, out));
  if (!seen) return TRI_OK;
  *seen = (struct tri_tok_seen){hash, p.at, p.n, before, out->n - before};
  w->n_seen++;
  return TRI_OK;
}

tri_status tri_tok_bpe(const tri_tokenizer *t, tri_tok_work *w, tri_tokens *out) {
  w->origin.out_before = out->n;
  for (int64_t i = 0; i < w->a.n; i++) {
    tri_tok_piece p = w->a.piece[i];
    int64_t       first = out->n;
    if (p.id >= 0) {
      TRI_TRY(tri_tok_took(w, p.n));
      TRI_TRY(tri_tokens_put(out, &p.id, 1));
    } else {
      TRI_TRY(put_piece(t, w, p, out));
    }
    if (w->origin.places) TRI_TRY(tri_tok_place_tokens(t, w, p, out, first));
  }
  return TRI_OK;
}
