/* tokenizer_text.c - small tools of the tokenizer: lists, a bool field, the hash table, characters, pieces of
 * text. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "tokenizer_impl.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <utf8proc.h>

tri_status tri_tokens_put(tri_tokens *list, const int32_t *id, int64_t n) {
  TRI_TRY(TRI_GROW(list->id, list->cap, list->n + n));
  if (n) memcpy(list->id + list->n, id, (size_t)n * sizeof *id);
  list->n += n;
  return TRI_OK;
}

void tri_tokens_free(tri_tokens *list) {
  TRI_FREE(list->id);
  *list = (tri_tokens){0};
}

tri_status tri_tok_bool(const tri_tokenizer *t, const char *where, const json_t *o, const char *key,
                        int fallback, bool *out) {
  const json_t *v = json_object_get(o, key);

  if ((!v || json_is_null(v)) && (fallback == 0 || fallback == 1)) {
    *out = fallback == 1;
    return TRI_OK;
  }
  if (!v) TRI_FAIL(TRI_EINPUT, "%s: %s has no '%s'", t->name, where, key);
  if (!json_is_boolean(v)) TRI_FAIL(TRI_EINPUT, "%s: %s.%s must be true or false", t->name, where, key);
  *out = json_is_true(v);
  return TRI_OK;
}

void tri_token_places_free(tri_token_places *list) {
  TRI_FREE(list->at);
  *list = (tri_token_places){0};
}

/* ---- hash table ---- */

tri_status tri_tok_draw_key(tri_tok_key *key) {
  if (getrandom(key, sizeof *key, 0) != (ssize_t)sizeof *key)
    TRI_FAIL(TRI_EABSENT, "the system returned no random bytes for a hash key: %s", strerror(errno));
  return TRI_OK;
}

static void sip_round(uint64_t v[4]) {
  v[0] += v[1], v[1] = v[1] << 13 | v[1] >> 51, v[1] ^= v[0], v[0] = v[0] << 32 | v[0] >> 32;
  v[2] += v[3], v[3] = v[3] << 16 | v[3] >> 48, v[3] ^= v[2];
  v[0] += v[3], v[3] = v[3] << 21 | v[3] >> 43, v[3] ^= v[0];
  v[2] += v[1], v[1] = v[1] << 17 | v[1] >> 47, v[1] ^= v[2], v[2] = v[2] << 32 | v[2] >> 32;
}

static void sip_word(uint64_t v[4], uint64_t word) {
  v[3] ^= word;
  sip_round(v);
  v[0] ^= word;
}

/* SipHash-1-3 (J.-P. Aumasson, D. J. Bernstein, SipHash: a fast short-input PRF, 2012), as in Rust and
 * Python. */
uint64_t tri_tok_hash(tri_tok_key key, const char *s, size_t n) {
  uint64_t v[4] = {key.a ^ 0x736f6d6570736575u, key.b ^ 0x646f72616e646f6du, key.a ^ 0x6c7967656e657261u,
                   key.b ^ 0x7465646279746573u};
  uint64_t last = (uint64_t)n << 56, word;

  for (; n >= 8; s += 8, n -= 8) {
    memcpy(&word, s, 8);
    sip_word(v, word);
  }
  word = 0;
  memcpy(&word, s, n);
  sip_word(v, last | word);
  v[2] ^= 0xff;
  for (int i = 0; i < 3; i++) sip_round(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

tri_status tri_tok_map_open(tri_tok_map *map, tri_tok_key key, const tri_tok_row *row, int64_t n_keys) {
  uint64_t n_slot = 16;

  while (n_slot < 2 * (uint64_t)n_keys) n_slot *= 2;
  TRI_TRY(TRI_ALLOC(map->slot, n_slot));
  map->key = key;
  map->row = row;
  map->mask = n_slot - 1;
  map->n_key = 0;
  return TRI_OK;
}

tri_status tri_tok_map_add(tri_tok_map *map, int32_t index) {
  tri_tok_map wider = {0};
  int32_t    *slot = map->slot;

  if (2 * (map->n_key + 1) > map->mask + 1) {
    TRI_TRY(tri_tok_map_open(&wider, map->key, map->row, 2 * (int64_t)(map->n_key + 1)));
    for (uint64_t i = 0; i <= map->mask; i++)
      if (slot[i]) tri_tok_map_put(&wider, slot[i] - 1);
    *map = wider;
    TRI_FREE(slot);
  }
  tri_tok_map_put(map, index);
  return TRI_OK;
}

int32_t tri_tok_map_find(const tri_tok_map *map, const char *s, size_t n) {
  uint64_t i;

  if (!map->slot) return -1;
  for (i = tri_tok_hash(map->key, s, n) & map->mask; map->slot[i]; i = (i + 1) & map->mask) {
    const tri_tok_row *row = map->row + map->slot[i] - 1;
    if (row->n == n && !memcmp(row->s, s, n)) return map->slot[i] - 1;
  }
  return -1;
}

void tri_tok_map_put(tri_tok_map *map, int32_t index) {
  uint64_t i = tri_tok_hash(map->key, map->row[index].s, map->row[index].n) & map->mask;

  while (map->slot[i]) i = (i + 1) & map->mask;
  map->slot[i] = index + 1;
  map->n_key++;
}

void tri_tok_map_set(tri_tok_map *map, int32_t index) {
  const tri_tok_row *key = map->row + index, *row;
  uint64_t           i = tri_tok_hash(map->key, key->s, key->n) & map->mask;

  for (; map->slot[i]; i = (i + 1) & map->mask) {
    row = map->row + map->slot[i] - 1;
    if (row->n == key->n && !memcmp(row->s, key->s, key->n)) break;
  }
  map->n_key += !map->slot[i];
  map->slot[i] = index + 1;
}

/* ---- characters ---- */

bool tri_tok_is_space(int32_t c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

int tri_tok_char(const char *s, size_t n, int32_t *c) {
  const uint8_t *u = (const uint8_t *)s;

  if (u[0] < 0x80 || n < 2) {
    *c = u[0];
    return 1;
  }
  if (u[0] < 0xe0 || n < 3) {
    *c = (u[0] & 31) << 6 | (u[1] & 63);
    return 2;
  }
  if (u[0] < 0xf0 || n < 4) {
    *c = (u[0] & 15) << 12 | (u[1] & 63) << 6 | (u[2] & 63);
    return 3;
  }
  *c = (u[0] & 7) << 18 | (u[1] & 63) << 12 | (u[2] & 63) << 6 | (u[3] & 63);
  return 4;
}

int tri_tok_char_before(const char *s, size_t n, int32_t *c) {
  size_t i = n - 1;

  while (i > 0 && ((uint8_t)s[i] & 0xc0) == 0x80) i--;
  return tri_tok_char(s + i, n - i, c);
}

int tri_tok_put_char(int32_t c, char *out) { return (int)utf8proc_encode_char(c, (utf8proc_uint8_t *)out); }

/* GPT-2, encoder.py, bytes_to_unicode: printable Latin-1 stays, and the 68 others start at U+0100. */
int32_t tri_tok_byte_char(uint8_t byte) {
  if (byte <= 0x20) return 0x100 + byte;
  if (byte < 0x7f) return byte;
  if (byte <= 0xa0) return 0x121 + (byte - 0x7f);
  return byte == 0xad ? 0x143 : byte;
}

int tri_tok_char_byte(int32_t c) {
  if (c >= 0x100 && c <= 0x120) return c - 0x100;
  if (c >= 0x121 && c <= 0x142) return c - 0x121 + 0x7f;
  if (c == 0x143) return 0xad;
  return (c > 0x20 && c < 0x7f) || (c > 0xa0 && c <= 0xff && c != 0xad) ? c : -1;
}

/* ---- text cut into pieces ---- */

tri_status tri_tok_reserve(tri_tok_pieces *p, size_t n_bytes) {
  if (p->maker && (int64_t)n_bytes > p->most_text - p->text_n)
    TRI_FAIL(TRI_EINPUT, "%s: produces more than %lld bytes from a text, far more than a tokenizer needs",
             p->maker, (long long)p->most_text);
  return TRI_GROW(p->text, p->text_cap, p->text_n + (int64_t)n_bytes);
}

tri_status tri_tok_put(tri_tok_pieces *p, const char *s, size_t n) {
  TRI_TRY(tri_tok_reserve(p, n));
  if (n) memcpy(p->text + p->text_n, s, n);
  p->text_n += (int64_t)n;
  return TRI_OK;
}

tri_status tri_tok_push(tri_tok_pieces *p, tri_tok_piece piece) {
  if (!piece.n) return TRI_OK;
  TRI_TRY(TRI_GROW(p->piece, p->cap, p->n + 1));
  p->piece[p->n++] = piece;
  return TRI_OK;
}

void tri_tok_reset(tri_tok_pieces *p) {
  p->n = p->text_n = 0;
  p->maker = NULL;
}

void tri_tok_pieces_free(tri_tok_pieces *p) {
  TRI_FREE(p->text);
  TRI_FREE(p->piece);
  TRI_FREE(p->place);
  *p = (tri_tok_pieces){0};
}

void tri_tok_take_text(tri_tok_pieces *out, tri_tok_pieces *in) {
  tri_tok_pieces t = *out;

  out->text = in->text, out->text_n = in->text_n, out->text_cap = in->text_cap;
  in->text = t.text, in->text_n = t.text_n, in->text_cap = t.text_cap;
  out->place = in->place, out->place_cap = in->place_cap;
  in->place = t.place, in->place_cap = t.place_cap;
}

/* Returns the bytes at s, at most n, of one valid character (*ok), or of one invalid part. from_utf8_lossy
 * replaces such a part by one U+FFFD. Unicode 15, table 3-7 (well-formed UTF-8) and section 3.9, "U+FFFD
 * substitution of maximal subparts". */
static size_t next_char(const uint8_t *s, size_t n, bool *ok) {
  uint8_t low = 0x80, high = 0xbf;
  size_t  need, i;

  *ok = s[0] < 0x80;
  if (s[0] < 0xc2 || s[0] > 0xf4) return 1;
  need = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
  if (s[0] == 0xe0) low = 0xa0;
  if (s[0] == 0xed) high = 0x9f;
  if (s[0] == 0xf0) low = 0x90;
  if (s[0] == 0xf4) high = 0x8f;
  for (i = 1; i < need; i++, low = 0x80, high = 0xbf)
    if (i >= n || s[i] < low || s[i] > high) return i;
  *ok = true;
  return need;
}

tri_status tri_tok_put_lossy(tri_tok_pieces *p, const char *s, size_t n) {
  size_t from = 0, i, step;
  bool   ok;

  if (!n) return TRI_OK;
  for (i = 0; i < n; i += step) {
    step = next_char((const uint8_t *)s + i, n - i, &ok);
    if (ok) continue;
    TRI_TRY(tri_tok_put(p, s + from, i - from));
    TRI_TRY(tri_tok_put(p, "\xef\xbf\xbd", 3));
    from = i + step;
  }
  return tri_tok_put(p, s + from, n - from);
}

/* ---- scratch of one call ---- */

tri_status tri_tok_add_match(tri_tok_work *w, size_t from, size_t to, bool hit) {
  TRI_TRY(TRI_GROW(w->match, w->cap_match, w->n_match + 1));
  w->match[w->n_match++] = (tri_tok_match){from, to, hit};
  return TRI_OK;
}

void tri_tok_work_free(tri_tok_work *w) {
  tri_tok_pieces_free(&w->a);
  tri_tok_pieces_free(&w->b);
  TRI_FREE(w->match);
  TRI_FREE(w->code);
  TRI_FREE(w->symbol);
  TRI_FREE(w->prev);
  TRI_FREE(w->next);
  TRI_FREE(w->heap);
  TRI_FREE(w->best);
  TRI_FREE(w->seen);
  TRI_FREE(w->bytes);
  tri_tokens_free(&w->origin.took);
  pcre2_match_data_free(w->data);
  pcre2_match_context_free(w->context);
  pcre2_jit_stack_free(w->stack);
  *w = (tri_tok_work){0};
}
