/* tokenizer_pre.c - the pre-tokenizers. Each splits the pieces that are not added tokens. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "tokenizer_impl.h"

#include <string.h>
#include <utf8proc.h>

/* ---- matches to pieces ---- */

static tri_status push_range(tri_tok_piece p, size_t from, size_t to, tri_tok_pieces *out) {
  return tri_tok_push(out, (tri_tok_piece){p.at + from, to - from, p.zero > from ? p.zero - from : 0, -1});
}

/* tokenizers, normalizer.rs, split: a match stands alone, is dropped, or joins a neighbour. */
static tri_status push_matches(const tri_tok_op *op, tri_tok_piece p, const tri_tok_work *w,
                               tri_tok_pieces *out) {
  const tri_tok_match *m = w->match;
  int64_t              i, end;

  for (i = 0; i < w->n_match; i = end) {
    bool hit = m[i].hit != op->invert;
    end = i + 1;
    switch (op->behavior) {
    case TRI_TOK_REMOVED:
      if (hit) continue;
      break;
    case TRI_TOK_ISOLATED:
      break;
    case TRI_TOK_PREVIOUS:
      if (!hit && end < w->n_match && m[end].hit != op->invert) end++;
      break;
    case TRI_TOK_NEXT:
      if (hit && end < w->n_match && m[end].hit == op->invert) end++;
      break;
    case TRI_TOK_CONTIGUOUS:
      while (end < w->n_match && m[end].hit == m[i].hit) end++;
      break;
    }
    TRI_TRY(push_range(p, m[i].from, m[end - 1].to, out));
  }
  return TRI_OK;
}

/* ---- hits by character ---- */

/* unicode_categories, is_punctuation, and the ASCII symbols. */
static bool is_punctuation(int32_t c) {
  utf8proc_category_t k = utf8proc_category(c);

  if (c < 0x80)
    return (c > 0x20 && c < 0x30) || (c > 0x39 && c < 0x41) || (c > 0x5a && c < 0x61) ||
           (c > 0x7a && c < 0x7f);
  return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

static bool is_hit(const tri_tok_op *op, int32_t c) {
  const char *category;

  if (op->kind == TRI_TOK_WHITESPACE_SPLIT) return tri_tok_is_space(c);
  if (op->kind == TRI_TOK_PUNCTUATION) return is_punctuation(c);
  category = tri_tok_newer_category(c);
  return (category ? category : utf8proc_category_string(c))[0] == 'N';
}

/* Makes every matching character a match of its own. */
static tri_status find_chars(const tri_tok_op *op, const char *s, size_t n, tri_tok_work *w) {
  size_t  prev = 0, step;
  int32_t c;

  w->n_match = 0;
  for (size_t i = 0; i < n; i += step) {
    step = (size_t)tri_tok_char(s + i, n - i, &c);
    if (!is_hit(op, c)) continue;
    if (prev < i) TRI_TRY(tri_tok_add_match(w, prev, i, false));
    TRI_TRY(tri_tok_add_match(w, i, i + step, true));
    prev = i + step;
  }
  return prev < n ? tri_tok_add_match(w, prev, n, false) : TRI_OK;
}

/* ---- steps that change the text ---- */

static tri_status prefix_space(const char *s, tri_tok_piece p, tri_tok_work *w) {
  tri_tok_piece fresh = {(size_t)w->b.text_n, p.n, p.zero, -1};

  if (s[0] != ' ') {
    TRI_TRY(tri_tok_put(&w->b, " ", 1));
    fresh.n++;
    if (p.zero) fresh.zero++;
  }
  TRI_TRY(tri_tok_put(&w->b, s, p.n));
  return tri_tok_push(&w->b, fresh);
}

/* tokenizers, pre_tokenizers/metaspace.rs: spaces become the replacement character, one may be put before the
 * text, and a piece begins at each. */
static tri_status metaspace(const tri_tok_op *op, const char *s, tri_tok_piece p, tri_tok_work *w) {
  const char   *rep = op->text;
  size_t        size = op->text_n, from = 0;
  bool          begins = s[0] == ' ' || (p.n >= size && !memcmp(s, rep, size));
  tri_tok_piece whole = {(size_t)w->b.text_n, 0, p.zero, -1};

  if (!begins && (op->scheme == TRI_TOK_ALWAYS || (op->scheme == TRI_TOK_FIRST && p.zero))) {
    TRI_TRY(tri_tok_put(&w->b, rep, size));
    if (p.zero) whole.zero += size;
  }
  if (p.zero && s[0] == ' ') whole.zero += size - 1;
  for (size_t i = 0; i < p.n; i = from) {
    for (from = i; from < p.n && s[from] != ' ';) from++;
    TRI_TRY(tri_tok_put(&w->b, s + i, from - i));
    if (from == p.n) break;
    TRI_TRY(tri_tok_put(&w->b, rep, size));
    from++;
  }
  whole.n = (size_t)w->b.text_n - whole.at;
  if (!op->split) return tri_tok_push(&w->b, whole);
  s = w->b.text + whole.at;
  from = 0;
  for (size_t i = 0; i + size <= whole.n; i++) {
    if (memcmp(s + i, rep, size)) continue;
    TRI_TRY(push_range(whole, from, i, &w->b));
    from = i;
    i += size - 1;
  }
  return push_range(whole, from, whole.n, &w->b);
}

/* ---- */

static tri_status pre_tokenize_piece(const tri_tok_op *op, const char *s, tri_tok_piece p, tri_tok_work *w) {
  switch (op->kind) {
  case TRI_TOK_SPLIT:
    TRI_TRY(tri_tok_regex_find(&op->pattern, s, p.n, w));
    return push_matches(op, p, w, &w->b);
  case TRI_TOK_DIGITS:
  case TRI_TOK_PUNCTUATION:
  case TRI_TOK_WHITESPACE_SPLIT:
    TRI_TRY(find_chars(op, s, p.n, w));
    return push_matches(op, p, w, &w->b);
  case TRI_TOK_PREFIX_SPACE:
    return prefix_space(s, p, w);
  case TRI_TOK_BYTES:
    return tri_tok_spell_bytes(s, p, w);
  case TRI_TOK_METASPACE:
    return metaspace(op, s, p, w);
  default:
    TRI_FAIL(TRI_EINTERNAL, "step %d is no pre-tokenizer", (int)op->kind);
  }
}

tri_status tri_tok_pre_tokenize(const tri_tok_ops *ops, tri_tok_work *w) {
  tri_tok_pieces t;

  for (int64_t k = 0; k < ops->n; k++) {
    TRI_TRY(tri_tok_each(ops->op + k, w, pre_tokenize_piece));
    if (tri_tok_keeps_text(ops->op + k)) tri_tok_take_text(&w->b, &w->a);
    t = w->a, w->a = w->b, w->b = t;
  }
  return TRI_OK;
}
