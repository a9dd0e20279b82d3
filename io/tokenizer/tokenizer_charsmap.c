/* tokenizer_charsmap.c - the normalizer Precompiled, compiled by SentencePiece into its models. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "tokenizer_impl.h"

#include <string.h>
#include <utf8proc.h>

/* ---- the map: a count of bytes, a double array (darts-clone) of 32-bit units, NUL-terminated texts ---- */

struct tri_tok_charsmap {
  uint32_t *unit; /* [n_unit] */
  size_t    n_unit, n_text;
  char     *text; /* [n_text], UTF-8 */
};

static int base64_digit(char c) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const char       *at = c ? strchr(digits, c) : NULL;

  return at ? (int)(at - digits) : -1;
}

/* Decodes base64 into out [3 * (n_in / 4)], *n bytes. false: it is not base64. */
static bool decode_base64(const char *in, size_t n_in, uint8_t *out, size_t *n) {
  *n = 0;
  if (n_in % 4) return false;
  for (size_t i = 0; i < n_in; i += 4) {
    int      pad = i + 4 == n_in ? (in[i + 3] == '=') + (in[i + 3] == '=' && in[i + 2] == '=') : 0;
    uint32_t bits = 0;
    for (int k = 0; k < 4; k++) {
      int digit = k >= 4 - pad ? 0 : base64_digit(in[i + (size_t)k]);
      if (digit < 0) return false;
      bits = bits << 6 | (uint32_t)digit;
    }
    for (int k = 0; k < 3 - pad; k++) out[(*n)++] = (uint8_t)(bits >> (16 - 8 * k));
  }
  return true;
}

static bool is_utf8(const char *s, size_t n) {
  for (size_t i = 0; i < n;) {
    utf8proc_int32_t c;
    utf8proc_ssize_t step = utf8proc_iterate((const utf8proc_uint8_t *)s + i, (utf8proc_ssize_t)(n - i), &c);
    if (step <= 0) return false;
    i += (size_t)step;
  }
  return true;
}

static uint32_t word_at(const uint8_t *b) {
  return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static tri_status take_bytes(tri_tok_charsmap *m, const char *where, const uint8_t *b, size_t n) {
  size_t n_unit = n >= 4 ? word_at(b) / 4 : 0;

  if (!n_unit || n_unit > (n - 4) / 4)
    TRI_FAIL(TRI_EINPUT, "%s.precompiled_charsmap is cut short, or no map of SentencePiece's", where);
  m->n_unit = n_unit;
  m->n_text = n - 4 - 4 * n_unit;
  TRI_TRY(TRI_ALLOC(m->unit, n_unit));
  TRI_TRY(TRI_ALLOC(m->text, m->n_text + 1));
  for (size_t i = 0; i < n_unit; i++) m->unit[i] = word_at(b + 4 + 4 * i);
  memcpy(m->text, b + 4 + 4 * n_unit, m->n_text);
  if (!is_utf8(m->text, m->n_text))
    TRI_FAIL(TRI_EINPUT, "%s.precompiled_charsmap holds texts that are not UTF-8", where);
  return TRI_OK;
}

tri_status tri_tok_charsmap_open(const char *where, const char *base64, size_t n, tri_tok_charsmap **out) {
  uint8_t   *bytes = NULL;
  size_t     n_bytes;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(*out, 1));
  TRI_TRY_DONE(TRI_ALLOC(bytes, n / 4 * 3 + 1));
  if (!decode_base64(base64, n, bytes, &n_bytes))
    TRI_FAIL_DONE(TRI_EINPUT, "%s.precompiled_charsmap is not base64", where);
  TRI_TRY_DONE(take_bytes(*out, where, bytes, n_bytes));
done:
  TRI_FREE(bytes);
  return st;
}

void tri_tok_charsmap_close(tri_tok_charsmap **m) {
  if (!*m) return;
  TRI_FREE((*m)->unit);
  TRI_FREE((*m)->text);
  TRI_FREE(*m);
}

/* spm_precompiled, lib.rs: the units of darts-clone. */
static size_t unit_offset(uint32_t u) { return (size_t)(u >> 10) << ((u & 1u << 9) >> 6); }
static bool   unit_has_leaf(uint32_t u) { return u >> 8 & 1; }
static size_t unit_label(uint32_t u) { return u & (1u << 31 | 0xff); }
static size_t unit_value(uint32_t u) { return u & ((1u << 31) - 1); }

/* Returns the text at a value of the map. NULL: there is none, so the map is damaged. */
static const char *text_at(const tri_tok_charsmap *m, size_t at, size_t *n) {
  size_t begin = at < m->n_unit ? unit_value(m->unit[at]) : SIZE_MAX;

  if (begin > m->n_text || ((uint8_t)m->text[begin] & 0xc0) == 0x80) return NULL;
  *n = strlen(m->text + begin);
  return m->text + begin;
}

/* Returns the text for the shortest prefix of s [n] in the map. NULL: there is none. The library looks for no
 * longer prefix and replaces all of s. */
static const char *find(const tri_tok_charsmap *m, const char *s, size_t n, size_t *n_out, bool *damaged) {
  size_t      at = unit_offset(m->unit[0]);
  const char *text;

  for (size_t i = 0; i < n && s[i]; i++) {
    uint32_t u;
    at ^= (uint8_t)s[i];
    if (at >= m->n_unit) {
      *damaged = true;
      return NULL;
    }
    u = m->unit[at];
    if (unit_label(u) != (uint8_t)s[i]) return NULL;
    at ^= unit_offset(u);
    if (!unit_has_leaf(u)) continue;
    text = text_at(m, at, n_out);
    *damaged |= !text;
    return text;
  }
  return NULL;
}

/* ---- one piece: tokenizers, normalizers/precompiled.rs ---- */

/* A written character, and how many input characters it takes, less one. 1: it takes none, it is
 * additional. */
typedef struct change {
  int32_t c, takes;
} change;

typedef struct changes {
  change     *item;
  int64_t     n, cap, most; /* most: as w->b.most_text */
  const char *maker;        /* for messages */
} changes;

static tri_status put_change(changes *to, int32_t c, int32_t takes) {
  if (to->n >= to->most)
    TRI_FAIL(TRI_EINPUT, "%s: produces more than %lld bytes from a text, far more than a tokenizer needs",
             to->maker, (long long)to->most);
  TRI_TRY(TRI_GROW(to->item, to->cap, to->n + 1));
  to->item[to->n++] = (change){c, takes};
  return TRI_OK;
}

static int64_t count_chars(const char *s, size_t n) {
  int64_t count = 0;

  for (size_t i = 0; i < n; i++) count += ((uint8_t)s[i] & 0xc0) != 0x80;
  return count;
}

/* Replaces characters. If nothing is inserted, the previous output character takes the place, as the library
 * counts. */
static tri_status replace(changes *to, const char *old, size_t n_old, const char *fresh, size_t n_fresh) {
  int64_t more = count_chars(fresh, n_fresh) - count_chars(old, n_old);
  int32_t c;

  for (size_t i = 0; i < n_fresh;) {
    i += (size_t)tri_tok_char(fresh + i, n_fresh - i, &c);
    TRI_TRY(put_change(to, c, 0));
  }
  for (int64_t i = 0; i < more; i++) to->item[to->n - 1 - i].takes = 1;
  if (more < 0 && to->n) to->item[to->n - 1].takes += (int32_t)more;
  return TRI_OK;
}

/* Says if c is a mark of Unicode 15 to 17, perhaps unknown to utf8proc. */
static bool is_young_mark(int32_t c) {
  static const int32_t of_17[][2] = {{0x1acf, 0x1add},   {0x1ae0, 0x1aeb},   {0x10efa, 0x10efb},
                                     {0x11b60, 0x11b67}, {0x1e6e3, 0x1e6e3}, {0x1e6e6, 0x1e6e6},
                                     {0x1e6ee, 0x1e6ef}, {0x1e6f5, 0x1e6f5}};
  const char          *newer = tri_tok_newer_category(c);

  for (size_t i = 0; i < sizeof of_17 / sizeof *of_17; i++)
    if (c >= of_17[i][0] && c <= of_17[i][1]) return true;
  return newer && newer[0] == 'M';
}

/* Returns the bytes of the first grapheme (Unicode Standard Annex 29). Younger marks join like old ones. */
static size_t grapheme(const char *s, size_t n) {
  enum { OLD_MARK = 0x300 };
  utf8proc_int32_t state = 0;
  int32_t          c, next;
  size_t           end = (size_t)tri_tok_char(s, n, &c), step;

  for (; end < n; end += step, c = next) {
    step = (size_t)tri_tok_char(s + end, n - end, &next);
    if (c < 0x80 && next < 0x80 && (c != '\r' || next != '\n')) break;
    if (next >= 0x80 && is_young_mark(next)) next = OLD_MARK;
    if (utf8proc_grapheme_break_stateful(c, next, &state)) break;
  }
  return end;
}

static tri_status change_grapheme(const tri_tok_charsmap *m, const char *s, size_t n, changes *to,
                                  bool *damaged) {
  size_t      n_fresh = 0, step;
  const char *fresh = n < 6 ? find(m, s, n, &n_fresh, damaged) : NULL;
  int32_t     c;

  if (fresh) return replace(to, s, n, fresh, n_fresh);
  for (size_t i = 0; i < n; i += step) {
    step = (size_t)tri_tok_char(s + i, n - i, &c);
    fresh = find(m, s + i, step, &n_fresh, damaged);
    TRI_TRY(fresh ? replace(to, s + i, step, fresh, n_fresh) : put_change(to, c, 0));
  }
  return TRI_OK;
}

/* Writes the characters, and counts the bytes that stand for the first input character (normalizer.rs,
 * transform). */
static tri_status write_changes(const changes *from, const char *s, tri_tok_piece p, tri_tok_work *w) {
  size_t  at = 0, zero = 0;
  int64_t begin = w->b.text_n;
  int32_t c;

  for (int64_t i = 0; i < from->n; i++) {
    char   text[4];
    size_t n = (size_t)tri_tok_put_char(from->item[i].c, text);
    bool   one_more = from->item[i].takes > 0;
    if (one_more ? !at || at - 1 < p.zero : at < p.zero) zero += n;
    TRI_TRY(tri_tok_put(&w->b, text, n));
    for (int32_t k = one_more ? 1 : from->item[i].takes; k <= 0 && at < p.n; k++)
      at += (size_t)tri_tok_char(s + at, p.n - at, &c);
  }
  return tri_tok_push(&w->b,
                      (tri_tok_piece){(size_t)begin, (size_t)(w->b.text_n - begin), p.zero ? zero : 0, -1});
}

tri_status tri_tok_charsmap_run(const tri_tok_op *op, const char *s, tri_tok_piece p, tri_tok_work *w) {
  changes    to = {.most = w->b.most_text, .maker = op->name};
  bool       damaged = false;
  size_t     step;
  tri_status st = TRI_OK;

  for (size_t i = 0; i < p.n; i += step) {
    step = grapheme(s + i, p.n - i);
    TRI_TRY_DONE(change_grapheme(op->charsmap, s + i, step, &to, &damaged));
  }
  if (damaged)
    TRI_FAIL_DONE(TRI_EINPUT, "%s: precompiled_charsmap is damaged (an offset points outside)", op->name);
  TRI_TRY_DONE(write_changes(&to, s, p, w));
done:
  TRI_FREE(to.item);
  return st;
}
