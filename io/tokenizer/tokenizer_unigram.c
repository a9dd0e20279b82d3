/* tokenizer_unigram.c - the Unigram model of SentencePiece: tokens with log-probabilities, and the likeliest
 * split of a piece. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "tokenizer_impl.h"

#include "io/text/json_walk.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Chosen: eight times the longest token in use, and four times the prefixes in the largest vocabulary. */
enum { MOST_TOKEN_BYTES = 1024, MOST_NODES = 1 << 23 };

/* ---- the beginnings of all tokens ---- */

static uint64_t slot_of(const tri_tok_prefixes *x, int32_t parent, uint8_t byte) {
  return tri_tok_pair_slot((uint64_t)(uint32_t)parent << 8 | byte, x->key, x->shift);
}

/* Returns the node of a prefix that is one byte longer, or 0. */
static int32_t find_node(const tri_tok_prefixes *x, int32_t parent, uint8_t byte) {
  uint64_t i = slot_of(x, parent, byte);

  for (; x->slot[i]; i = (i + 1) & x->mask)
    if (x->node[x->slot[i]].parent == parent && x->node[x->slot[i]].byte == byte) break;
  return x->slot[i];
}

static void put_slot(tri_tok_prefixes *x, int32_t node) {
  uint64_t i = slot_of(x, x->node[node].parent, x->node[node].byte);

  while (x->slot[i]) i = (i + 1) & x->mask;
  x->slot[i] = node;
}

static tri_status grow_slots(tri_tok_prefixes *x) {
  uint64_t n = 2 * (x->mask + 1);

  TRI_FREE(x->slot);
  TRI_TRY(TRI_ALLOC(x->slot, n));
  x->mask = n - 1;
  x->shift--;
  for (int64_t i = 1; i < x->n; i++) put_slot(x, (int32_t)i);
  return TRI_OK;
}

static tri_status prefixes_open(tri_tok_prefixes *x, tri_tok_key key) {
  enum { START_BITS = 10 };

  x->key = key;
  x->mask = (1 << START_BITS) - 1;
  x->shift = 64 - START_BITS;
  TRI_TRY(TRI_ALLOC(x->slot, x->mask + 1));
  TRI_TRY(TRI_GROW(x->node, x->cap, 1));
  x->node[x->n++] = (tri_tok_prefix){0, -1, 0};
  return TRI_OK;
}

static tri_status prefixes_put(tri_tokenizer *t, const tri_tok_row *row, int32_t id) {
  tri_tok_prefixes *x = &t->unigram.prefixes;
  int32_t           at = 0, next;

  for (size_t i = 0; i < row->n; i++, at = next) {
    uint8_t byte = (uint8_t)row->s[i];
    if ((next = find_node(x, at, byte)) > 0) continue;
    if (x->n == MOST_NODES)
      TRI_FAIL(TRI_EINPUT, "%s: model.vocab has tokens of more than %d different beginnings", t->name,
               MOST_NODES);
    if (2 * (uint64_t)x->n >= x->mask) TRI_TRY(grow_slots(x));
    TRI_TRY(TRI_GROW(x->node, x->cap, x->n + 1));
    next = (int32_t)x->n++;
    x->node[next] = (tri_tok_prefix){at, -1, byte};
    put_slot(x, next);
  }
  x->node[at].id = id; /* among equal tokens the last one counts */
  return TRI_OK;
}

/* ---- scores: serde_json, de.rs, without its feature float_roundtrip, rounds as it goes ---- */

/* Returns 10^n as the exact or nearest double. */
static double power10(int n) {
  char text[16];

  snprintf(text, sizeof text, "1e%d", n);
  return strtod(text, NULL);
}

static double scaled(uint64_t digits, int exponent) {
  double f = (double)digits;

  while (exponent < -308 && f != 0) f /= 1e308, exponent += 308;
  if (f == 0) return 0;
  return exponent >= 0 ? f * power10(exponent) : f / power10(-exponent);
}

/* Reads a JSON number, already checked to fit in a double. */
double tri_tok_score(const char *s, size_t n) {
  const char *end = s + n;
  bool        negative = s < end && *s == '-', fraction = false, full = false;
  uint64_t    digits = 0;
  int         exponent = 0, written = 0;
  double      f;

  for (s += negative; s < end && ((*s >= '0' && *s <= '9') || *s == '.'); s++) {
    unsigned d = (unsigned)(*s - '0');
    if (*s == '.') {
      fraction = true;
      full = false;
    } else if (full || digits > (UINT64_MAX - d) / 10) { /* more digits only move the decimal point */
      full = true;
      exponent += !fraction;
    } else {
      digits = digits * 10 + d;
      exponent -= fraction;
    }
  }
  if (s < end) {
    bool down = s + 1 < end && s[1] == '-';
    for (s++; s < end; s++)
      if (*s >= '0' && *s <= '9' && written < 100000) written = written * 10 + (*s - '0');
    exponent += down ? -written : written;
  }
  f = scaled(digits, exponent);
  return negative ? -f : f;
}

static bool find_member(const tri_json_slice *object, const char *name, tri_json_slice *out) {
  tri_json_walk  w;
  tri_json_slice key;

  if (!tri_json_walk_begin(object->at, object->n, &w)) return false;
  while (tri_json_walk_next(&w, &key, out))
    if (key.n && tri_json_is_key(&key, name)) return true;
  return false;
}

/* Reads the scores from the file's text. */
static tri_status read_scores(tri_tokenizer *t, const tri_tokenizer_file *file) {
  tri_json_slice whole = {file->bytes, file->n}, model, vocab, key, entry, value;
  tri_json_walk  list, pair;
  int32_t        id = 0;

  if (whole.n >= 3 && !memcmp(whole.at, "\xef\xbb\xbf", 3)) whole.at += 3, whole.n -= 3;
  if (!find_member(&whole, "model", &model) || !find_member(&model, "vocab", &vocab) ||
      !tri_json_walk_begin(vocab.at, vocab.n, &list))
    TRI_FAIL(TRI_EINPUT, "%s: model.vocab was not found, because its key is written with escapes", t->name);
  for (; tri_json_walk_next(&list, &key, &entry) && id < t->n_model; id++) {
    bool both = tri_json_walk_begin(entry.at, entry.n, &pair) && tri_json_walk_next(&pair, &key, &value) &&
                tri_json_walk_next(&pair, &key, &value);
    TRI_ASSERT(both); /* checked by read_vocab */
    t->unigram.score[id] = tri_tok_score(value.at, value.n);
    if (!isfinite(t->unigram.score[id]))
      TRI_FAIL(TRI_EINPUT, "%s: model.vocab[%d] has too large a score", t->name, id);
  }
  TRI_ASSERT(id == t->n_model);
  return TRI_OK;
}

/* ---- vocabulary ---- */

static tri_status check_vocab(const tri_tokenizer *t, const json_t *vocab, size_t *n_bytes) {
  const json_t *pair;
  size_t        i;

  *n_bytes = 0;
  if (!json_is_array(vocab) || !json_array_size(vocab))
    TRI_FAIL(TRI_EINPUT, "%s: model.vocab must be a list of one [token, score] or more", t->name);
  if (json_array_size(vocab) >= TRI_TOK_MAX_ID)
    TRI_FAIL(TRI_EINPUT, "%s: model.vocab has %zu entries, too many", t->name, json_array_size(vocab));
  json_array_foreach(vocab, i, pair) {
    const json_t *token = json_array_get(pair, 0);
    if (json_array_size(pair) != 2 || !json_is_string(token) || !json_is_number(json_array_get(pair, 1)))
      TRI_FAIL(TRI_EINPUT, "%s: model.vocab[%zu] must be [token, score]", t->name, i);
    if (json_string_length(token) > MOST_TOKEN_BYTES)
      TRI_FAIL(TRI_EINPUT, "%s: model.vocab[%zu] has %zu bytes, but at most %d are accepted", t->name, i,
               json_string_length(token), MOST_TOKEN_BYTES);
    *n_bytes += json_string_length(token) + 1;
  }
  return TRI_OK;
}

static tri_status read_vocab(tri_tokenizer *t, const json_t *vocab) {
  const json_t *pair;
  size_t        n_bytes, i;
  char         *at;

  TRI_TRY(check_vocab(t, vocab, &n_bytes));
  t->n_row = t->n_model = (int32_t)json_array_size(vocab);
  TRI_TRY(TRI_ALLOC(t->row, t->n_row));
  TRI_TRY(TRI_ALLOC(t->arena, n_bytes));
  TRI_TRY(TRI_ALLOC(t->unigram.score, t->n_row));
  TRI_TRY(tri_tok_map_open(&t->model, t->key, t->row, t->n_row));
  TRI_TRY(prefixes_open(&t->unigram.prefixes, t->key));
  at = t->arena;
  json_array_foreach(vocab, i, pair) {
    const json_t *token = json_array_get(pair, 0);
    tri_tok_row  *row = t->row + i;
    *row = (tri_tok_row){at, json_string_length(token)};
    memcpy(at, json_string_value(token), row->n + 1);
    at += row->n + 1;
    tri_tok_map_set(&t->model, (int32_t)i);
    TRI_TRY(prefixes_put(t, row, (int32_t)i));
  }
  return TRI_OK;
}

static tri_status read_unk(tri_tokenizer *t, const json_t *unk) {
  t->unigram.unk_id = -1;
  if (!unk || json_is_null(unk)) return TRI_OK;
  if (!json_is_integer(unk) || json_integer_value(unk) < 0 || json_integer_value(unk) >= t->n_model)
    TRI_FAIL(TRI_EINPUT, "%s: model.unk_id must be null or the index of a token in model.vocab, 0 ... %d",
             t->name, t->n_model - 1);
  t->unigram.unk_id = (int32_t)json_integer_value(unk);
  return TRI_OK;
}

tri_status tri_tok_load_unigram(tri_tokenizer *t, json_t *model, const tri_tokenizer_file *file) {
  tri_tok_unigram *u = &t->unigram;
  char             text[8];

  u->on = true;
  TRI_TRY(tri_tok_bool(t, "model", model, "byte_fallback", 0, &u->byte_fallback));
  TRI_TRY(read_vocab(t, json_object_get(model, "vocab")));
  TRI_TRY(read_unk(t, json_object_get(model, "unk_id")));
  TRI_TRY(read_scores(t, file));
  u->unk_score = INFINITY;
  for (int32_t i = 0; i < t->n_model; i++)
    if (u->score[i] < u->unk_score) u->unk_score = u->score[i];
  u->unk_score -= 10; /* K_UNK_PENALTY */
  for (int b = 0; b < 256; b++) {
    snprintf(text, sizeof text, "<0x%02X>", b);
    u->byte_id[b] = tri_tok_map_find(&t->model, text, 6);
  }
  return TRI_OK;
}

void tri_tok_unigram_free(tri_tok_unigram *u) {
  TRI_FREE(u->score);
  TRI_FREE(u->prefixes.node);
  TRI_FREE(u->prefixes.slot);
}

/* ---- the best path: tokenizers, models/unigram/model.rs, encode_optimized ---- */

static void take(tri_tok_best *to, double score, size_t from, int32_t id) {
  if (to->id >= 0 && !(score > to->score)) return;
  *to = (tri_tok_best){score, (int32_t)from, id};
}

/* Fills best [n + 1]: for each end, the best token that ends there and its begin. */
static tri_status find_best(const tri_tokenizer *t, const char *s, size_t n, tri_tok_best *best) {
  const tri_tok_unigram *u = &t->unigram;
  size_t                 step;

  for (size_t i = 0; i <= n; i++) best[i] = (tri_tok_best){0, 0, -1};
  for (size_t i = 0; i < n; i += step) {
    bool    single = false;
    int32_t c, node = 0;
    step = (size_t)tri_tok_char(s + i, n - i, &c);
    for (size_t k = i; k < n && (node = find_node(&u->prefixes, node, (uint8_t)s[k])) > 0; k++) {
      int32_t id = u->prefixes.node[node].id;
      if (id < 0) continue;
      take(best + k + 1, u->score[id] + best[i].score, i, id);
      single |= k + 1 - i == step;
    }
    if (single) continue;
    if (u->unk_id < 0)
      TRI_FAIL(TRI_EINPUT, "%s: the text has U+%04X, but the vocabulary lacks it and model.unk_id is null",
               t->name, (unsigned)c);
    take(best + i + step, u->unk_score + best[i].score, i, u->unk_id);
  }
  return TRI_OK;
}

/* Appends the ids of the text between two cuts: a token, or unknown text as bytes or as one id. */
static tri_status put_part(const tri_tokenizer *t, tri_tok_work *w, const char *s, size_t n,
                           tri_tokens *out) {
  const tri_tok_unigram *u = &t->unigram;
  int32_t                id = tri_tok_map_find(&t->model, s, n);
  bool                   bytes = id < 0 && u->byte_fallback;

  for (size_t i = 0; bytes && i < n; i++) bytes = u->byte_id[(uint8_t)s[i]] >= 0;
  if (!bytes) {
    if (id < 0) id = u->unk_id;
    TRI_TRY(tri_tok_took(w, n));
    return tri_tokens_put(out, &id, 1);
  }
  for (size_t i = 0; i < n; i++) {
    TRI_TRY(tri_tok_took(w, i ? 0 : n)); /* the first takes all bytes, the others share its place */
    TRI_TRY(tri_tokens_put(out, u->byte_id + (uint8_t)s[i], 1));
  }
  return TRI_OK;
}

tri_status tri_tok_unigram_piece(const tri_tokenizer *t, tri_tok_work *w, const char *s, size_t n,
                                 tri_tokens *out) {
  const tri_tok_unigram *u = &t->unigram;
  int64_t                k = 0;
  size_t                 from = 0;
  bool                   behind = false;

  if (n >= INT32_MAX)
    TRI_FAIL(TRI_EINPUT, "%s: a piece of text of %zu bytes is too long to encode", t->name, n);
  TRI_TRY(TRI_GROW(w->best, w->cap_best, (int64_t)n + 1));
  TRI_TRY(TRI_GROW(w->symbol, w->cap_symbol, (int64_t)n + 1));
  TRI_TRY(find_best(t, s, n, w->best));
  /* The ends of the parts, from the last one on. Neighbouring unknown parts become one part. */
  for (size_t end = n; end > 0; end = (size_t)w->best[end].from) {
    bool unknown = w->best[end].id == u->unk_id;
    if (!unknown || !behind) w->symbol[k++] = (int32_t)end;
    behind = unknown;
  }
  while (k-- > 0) {
    TRI_TRY(put_part(t, w, s + from, (size_t)w->symbol[k] - from, out));
    from = (size_t)w->symbol[k];
  }
  return TRI_OK;
}
