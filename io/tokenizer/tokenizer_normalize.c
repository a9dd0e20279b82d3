/* tokenizer_normalize.c - the normalizers. Each rewrites the text of every piece that is not an added
 * token. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "tokenizer_impl.h"

#include <string.h>
#include <utf8proc.h>

/* Makes a piece of the text from `from` on. */
static tri_status finish(tri_tok_pieces *out, int64_t from, size_t zero) {
  return tri_tok_push(out, (tri_tok_piece){(size_t)from, (size_t)(out->text_n - from), zero, -1});
}

/* ---- Unicode forms ---- */

static int combining(int32_t c) { return utf8proc_get_property(c)->combining_class; }

/* Canonical ordering (Unicode 15, section 3.11, D109). Counting sort is stable and linear for a run of any
 * length. `temp` is as long as the run. */
static void order_run(int32_t *code, int64_t n, int32_t *temp) {
  int64_t place[257] = {0}, i;

  for (i = 1; i < n && combining(code[i - 1]) <= combining(code[i]);) i++;
  if (i >= n) return;
  for (i = 0; i < n; i++) place[combining(code[i]) + 1]++;
  for (i = 1; i < 257; i++) place[i] += place[i - 1];
  for (i = 0; i < n; i++) temp[place[combining(code[i])]++] = code[i];
  memcpy(code, temp, (size_t)n * sizeof *code);
}

static tri_status decompose(const char *s, size_t n, utf8proc_option_t options, tri_tok_work *w,
                            int64_t *n_code) {
  int32_t          c;
  int              step, class = 0;
  utf8proc_ssize_t more;

  *n_code = 0;
  for (size_t i = 0; i < n; i += (size_t)step) {
    step = tri_tok_char(s + i, n - i, &c);
    /* one character becomes at most 18 (U+FDFA). Twice that for the ordering */
    TRI_TRY(TRI_GROW(w->code, w->cap_code, 2 * (*n_code + 32)));
    more = utf8proc_decompose_char(c, w->code + *n_code, 32, options, &class);
    if (more < 0 || more > 32)
      TRI_FAIL(TRI_EINTERNAL, "U+%04X cannot be decomposed: %s", (unsigned)c, utf8proc_errmsg(more));
    *n_code += more;
  }
  return TRI_OK;
}

/* Returns the bytes of the normal form of the first character alone. */
static tri_status form_bytes(const char *s, utf8proc_option_t options, tri_tok_work *w, size_t *n_bytes) {
  char    utf8[4];
  int32_t c;
  int64_t n;

  *n_bytes = 0;
  TRI_TRY(decompose(s, (size_t)tri_tok_char(s, 4, &c), options, w, &n));
  n = utf8proc_normalize_utf32(w->code, n, options);
  for (int64_t i = 0; i < n; i++) *n_bytes += (size_t)tri_tok_put_char(w->code[i], utf8);
  return TRI_OK;
}

static tri_status normalize_form(tri_tok_kind kind, const char *s, tri_tok_piece p, tri_tok_work *w) {
  bool              compose = kind == TRI_TOK_NFC || kind == TRI_TOK_NFKC;
  bool              compat = kind == TRI_TOK_NFKC || kind == TRI_TOK_NFKD;
  utf8proc_option_t options = UTF8PROC_STABLE | (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE);
  int64_t           from = w->b.text_n, n, i, end;
  size_t            ascii = 0, zero = 0;
  utf8proc_ssize_t  m;

  if (compat) options |= UTF8PROC_COMPAT;
  while (ascii < p.n && (uint8_t)s[ascii] < 0x80) ascii++;
  if (ascii == p.n) {
    TRI_TRY(tri_tok_put(&w->b, s, p.n));
    return finish(&w->b, from, p.zero);
  }
  if (p.zero) TRI_TRY(form_bytes(s, options, w, &zero));
  TRI_TRY(decompose(s, p.n, options, w, &n));
  for (i = 0; i < n; i = end) {
    for (end = i; end < n && combining(w->code[end]);) end++;
    if (end > i + 1) order_run(w->code + i, end - i, w->code + n);
    if (end == i) end++;
  }
  m = utf8proc_normalize_utf32(w->code, n, options);
  if (m < 0) TRI_FAIL(TRI_EINTERNAL, "a text cannot be normalized: %s", utf8proc_errmsg(m));
  TRI_TRY(tri_tok_reserve(&w->b, 4 * (size_t)m));
  for (i = 0; i < m; i++) w->b.text_n += tri_tok_put_char(w->code[i], w->b.text + w->b.text_n);
  return finish(&w->b, from, zero);
}

/* Lowercases each character without context. Only U+0130 becomes two characters (Unicode,
 * SpecialCasing.txt). */
static tri_status normalize_lowercase(const char *s, tri_tok_piece p, tri_tok_work *w) {
  int64_t from = w->b.text_n;
  size_t  step, zero = 0;
  int32_t c;

  TRI_TRY(tri_tok_reserve(&w->b, 4 * p.n));
  for (size_t i = 0; i < p.n; i += step) {
    step = (size_t)tri_tok_char(s + i, p.n - i, &c);
    w->b.text_n += tri_tok_put_char(utf8proc_tolower(c), w->b.text + w->b.text_n);
    if (c == 0x130) w->b.text_n += tri_tok_put_char(0x307, w->b.text + w->b.text_n);
    if (i < p.zero) zero = (size_t)(w->b.text_n - from);
  }
  return finish(&w->b, from, zero);
}

/* ---- the others ---- */

static tri_status normalize_prepend(const tri_tok_op *op, const char *s, tri_tok_piece p, tri_tok_work *w) {
  int64_t from = w->b.text_n;

  TRI_TRY(tri_tok_put(&w->b, op->text, op->text_n));
  TRI_TRY(tri_tok_put(&w->b, s, p.n));
  return finish(&w->b, from, p.zero ? p.zero + op->text_n : 0);
}

/* Inserted text stands for the last character it replaces (tokenizers, normalizer.rs, replace). */
static tri_status normalize_replace(const tri_tok_op *op, const char *s, tri_tok_piece p, tri_tok_work *w) {
  int64_t from = w->b.text_n, before;
  size_t  zero = 0;

  TRI_TRY(tri_tok_regex_find(&op->pattern, s, p.n, w));
  for (int64_t i = 0; i < w->n_match; i++) {
    tri_tok_match m = w->match[i];
    before = w->b.text_n;
    TRI_TRY(m.hit ? tri_tok_put(&w->b, op->text, op->text_n) : tri_tok_put(&w->b, s + m.from, m.to - m.from));
    if (m.hit && (!m.to || m.to <= p.zero))
      zero += (size_t)(w->b.text_n - before);
    else if (!m.hit && m.from < p.zero)
      zero += (m.to < p.zero ? m.to : p.zero) - m.from;
  }
  return finish(&w->b, from, p.zero ? zero : 0);
}

static tri_status normalize_strip(const tri_tok_op *op, const char *s, tri_tok_piece p, tri_tok_work *w) {
  int64_t at = w->b.text_n;
  size_t  from = 0, to = p.n;
  int32_t c;
  int     step;

  for (; op->left && from < to; from += (size_t)step) {
    step = tri_tok_char(s + from, to - from, &c);
    if (!tri_tok_is_space(c)) break;
  }
  for (; op->right && to > from; to -= (size_t)step) {
    step = tri_tok_char_before(s, to, &c);
    if (!tri_tok_is_space(c)) break;
  }
  TRI_TRY(tri_tok_put(&w->b, s + from, to - from));
  return finish(&w->b, at, p.zero > from ? p.zero - from : 0);
}

/* Maps each character with `keep`. -1: the character is dropped. Output characters stand for their own input
 * character. */
static tri_status map_chars(const char *s, tri_tok_piece p, int32_t (*keep)(int32_t c), tri_tok_work *w) {
  int64_t from = w->b.text_n;
  size_t  step, zero = 0;
  int32_t c;

  TRI_TRY(tri_tok_reserve(&w->b, p.n));
  for (size_t i = 0; i < p.n; i += step) {
    step = (size_t)tri_tok_char(s + i, p.n - i, &c);
    c = keep(c);
    if (c >= 0) w->b.text_n += tri_tok_put_char(c, w->b.text + w->b.text_n);
    if (i < p.zero) zero = (size_t)(w->b.text_n - from);
  }
  return finish(&w->b, from, zero);
}

/* tokenizers, normalizers/unicode.rs, do_nmt. The output never has more bytes. */
static int32_t nmt(int32_t c) {
  if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f)
    return -1;
  if (c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
      c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd)
    return ' ';
  return c;
}

/* tokenizers, normalizers/strip.rs, StripAccents. */
static int32_t without_marks(int32_t c) { return tri_tok_is_old_mark(c) ? -1 : c; }

tri_status tri_tok_spell_bytes(const char *s, tri_tok_piece p, tri_tok_work *w) {
  int64_t from = w->b.text_n;
  size_t  zero = 0;

  TRI_TRY(tri_tok_reserve(&w->b, 2 * p.n));
  for (size_t i = 0; i < p.n; i++) {
    int n = tri_tok_put_char(tri_tok_byte_char((uint8_t)s[i]), w->b.text + w->b.text_n);
    w->b.text_n += n;
    if (i < p.zero) zero += (size_t)n;
  }
  return finish(&w->b, from, zero);
}

static tri_status normalize_piece(const tri_tok_op *op, const char *s, tri_tok_piece p, tri_tok_work *w) {
  switch (op->kind) {
  case TRI_TOK_NFC:
  case TRI_TOK_NFD:
  case TRI_TOK_NFKC:
  case TRI_TOK_NFKD:
    return normalize_form(op->kind, s, p, w);
  case TRI_TOK_LOWERCASE:
    return normalize_lowercase(s, p, w);
  case TRI_TOK_PREPEND:
    return normalize_prepend(op, s, p, w);
  case TRI_TOK_REPLACE:
    return normalize_replace(op, s, p, w);
  case TRI_TOK_STRIP:
    return normalize_strip(op, s, p, w);
  case TRI_TOK_BYTES:
    return tri_tok_spell_bytes(s, p, w);
  case TRI_TOK_NMT:
    return map_chars(s, p, nmt, w);
  case TRI_TOK_STRIP_ACCENTS:
    return map_chars(s, p, without_marks, w);
  case TRI_TOK_CHARSMAP:
    return tri_tok_charsmap_run(op, s, p, w);
  default:
    TRI_FAIL(TRI_EINTERNAL, "step %d is no normalizer", (int)op->kind);
  }
}

tri_status tri_tok_normalize(const tri_tok_ops *ops, tri_tok_work *w) {
  tri_tok_pieces t;

  for (int64_t k = 0; k < ops->n; k++) {
    TRI_TRY(tri_tok_each(ops->op + k, w, normalize_piece));
    t = w->a, w->a = w->b, w->b = t;
  }
  return TRI_OK;
}
