/* tokenizer_decode.c - turns ids back to text: runs the decoders in order. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "tokenizer_impl.h"

#include <ctype.h>
#include <string.h>

/* ---- decoders: each makes w->b of the tokens in w->a ---- */

/* Begins a token. It may be empty, but the text has at least one byte to point to. */
static tri_status begin_token(tri_tok_pieces *out) {
  TRI_TRY(tri_tok_reserve(out, 1));
  TRI_TRY(TRI_GROW(out->piece, out->cap, out->n + 1));
  out->piece[out->n++] = (tri_tok_piece){(size_t)out->text_n, 0, 0, -1};
  return TRI_OK;
}

static tri_status put_token(tri_tok_pieces *out, const char *s, size_t n) {
  TRI_TRY(begin_token(out));
  out->piece[out->n - 1].n = n;
  return tri_tok_put(out, s, n);
}

static void end_token(tri_tok_pieces *out) {
  tri_tok_piece *p = out->piece + out->n - 1;
  p->n = (size_t)out->text_n - p->at;
}

/* tokenizers, pre_tokenizers/byte_level.rs, decode_chain: a token with a character that stands for no byte is
 * taken literally. */
static tri_status decode_bytes(tri_tok_work *w) {
  tri_tok_pieces joined = {0};
  tri_status     st = TRI_OK;

  for (int64_t i = 0; i < w->a.n; i++) {
    const char *s = w->a.text + w->a.piece[i].at;
    size_t      n = w->a.piece[i].n;
    int64_t     before = joined.text_n;
    int         step, byte = 0;
    TRI_TRY_DONE(tri_tok_reserve(&joined, n));
    for (size_t k = 0; k < n && byte >= 0; k += (size_t)step) {
      int32_t c;
      step = tri_tok_char(s + k, n - k, &c);
      byte = tri_tok_char_byte(c);
      if (byte >= 0) joined.text[joined.text_n++] = (char)byte;
    }
    if (byte >= 0) continue;
    joined.text_n = before;
    TRI_TRY_DONE(tri_tok_put(&joined, s, n));
  }
  TRI_TRY_DONE(begin_token(&w->b));
  TRI_TRY_DONE(tri_tok_put_lossy(&w->b, joined.text, (size_t)joined.text_n));
  end_token(&w->b);
done:
  tri_tok_pieces_free(&joined);
  return st;
}

/* Returns the byte of <0xNN>, or -1. Rust's from_str_radix accepts a plus sign. */
static int fallback_byte(const char *s, size_t n) {
  int value = 0;

  if (n != 6 || memcmp(s, "<0x", 3) || s[5] != '>') return -1;
  for (int i = 3; i < 5; i++) {
    unsigned char c = (unsigned char)s[i];
    if (i == 3 && c == '+') continue;
    if (!isxdigit(c)) return -1;
    value = value * 16 + (isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
  }
  return value;
}

/* Writes the gathered bytes as one token. If they are not UTF-8, it writes one U+FFFD for each byte. */
static tri_status flush_bytes(tri_tok_pieces *bytes, tri_tok_pieces *out) {
  size_t n = (size_t)bytes->text_n;

  if (!n) return TRI_OK;
  TRI_TRY(begin_token(out));
  TRI_TRY(tri_tok_put_lossy(out, bytes->text, n));
  end_token(out);
  if (out->piece[out->n - 1].n != n || memcmp(out->text + out->piece[out->n - 1].at, bytes->text, n)) {
    out->text_n = (int64_t)out->piece[--out->n].at;
    for (size_t i = 0; i < n; i++) TRI_TRY(put_token(out, "\xef\xbf\xbd", 3));
  }
  bytes->text_n = 0;
  return TRI_OK;
}

static tri_status decode_fallback(tri_tok_work *w) {
  tri_tok_pieces bytes = {0};
  tri_status     st = TRI_OK;

  for (int64_t i = 0; i < w->a.n; i++) {
    const char *s = w->a.text + w->a.piece[i].at;
    size_t      n = w->a.piece[i].n;
    int         byte = fallback_byte(s, n);
    char        one = (char)byte;
    if (byte >= 0) {
      TRI_TRY_DONE(tri_tok_put(&bytes, &one, 1));
      continue;
    }
    TRI_TRY_DONE(flush_bytes(&bytes, &w->b));
    TRI_TRY_DONE(put_token(&w->b, s, n));
  }
  TRI_TRY_DONE(flush_bytes(&bytes, &w->b));
done:
  tri_tok_pieces_free(&bytes);
  return st;
}

static tri_status decode_fuse(tri_tok_work *w) {
  TRI_TRY(begin_token(&w->b));
  for (int64_t i = 0; i < w->a.n; i++)
    TRI_TRY(tri_tok_put(&w->b, w->a.text + w->a.piece[i].at, w->a.piece[i].n));
  end_token(&w->b);
  return TRI_OK;
}

/* In the first token the replacement characters are dropped, in the others they become spaces. */
static tri_status decode_metaspace(const tri_tok_op *op, tri_tok_work *w) {
  for (int64_t i = 0; i < w->a.n; i++) {
    const char *s = w->a.text + w->a.piece[i].at;
    size_t      n = w->a.piece[i].n, step;
    int32_t     c;
    TRI_TRY(begin_token(&w->b));
    for (size_t k = 0; k < n; k += step) {
      step = (size_t)tri_tok_char(s + k, n - k, &c);
      if (step != op->text_n || memcmp(s + k, op->text, step))
        TRI_TRY(tri_tok_put(&w->b, s + k, step));
      else if (i > 0 || op->scheme == TRI_TOK_NEVER)
        TRI_TRY(tri_tok_put(&w->b, " ", 1));
    }
    end_token(&w->b);
  }
  return TRI_OK;
}

static tri_status decode_replace(const tri_tok_op *op, tri_tok_work *w) {
  for (int64_t i = 0; i < w->a.n; i++) {
    const char *s = w->a.text + w->a.piece[i].at;
    TRI_TRY(begin_token(&w->b));
    if (w->a.piece[i].n) {
      TRI_TRY(tri_tok_regex_find(&op->pattern, s, w->a.piece[i].n, w));
      for (int64_t k = 0; k < w->n_match; k++) {
        tri_tok_match m = w->match[k];
        TRI_TRY(m.hit ? tri_tok_put(&w->b, op->text, op->text_n)
                      : tri_tok_put(&w->b, s + m.from, m.to - m.from));
      }
    }
    end_token(&w->b);
  }
  return TRI_OK;
}

/* Cuts up to `left` and `right` characters op->text from the ends of every token. */
static tri_status decode_strip(const tri_tok_op *op, tri_tok_work *w) {
  size_t size = op->text_n;

  for (int64_t i = 0; i < w->a.n; i++) {
    const char *s = w->a.text + w->a.piece[i].at;
    size_t      n = w->a.piece[i].n;
    for (int64_t k = 0; k < op->left && n >= size && !memcmp(s, op->text, size); k++) s += size, n -= size;
    for (int64_t k = 0; k < op->right && n >= size && !memcmp(s + n - size, op->text, size); k++) n -= size;
    TRI_TRY(put_token(&w->b, s, n));
  }
  return TRI_OK;
}

static tri_status run_decoder(const tri_tok_op *op, tri_tok_work *w) {
  tri_tok_pieces t;

  tri_tok_begin(op, w);
  switch (op->kind) {
  case TRI_TOK_BYTES:
    TRI_TRY(decode_bytes(w));
    break;
  case TRI_TOK_BYTE_FALLBACK:
    TRI_TRY(decode_fallback(w));
    break;
  case TRI_TOK_FUSE:
    TRI_TRY(decode_fuse(w));
    break;
  case TRI_TOK_METASPACE:
    TRI_TRY(decode_metaspace(op, w));
    break;
  case TRI_TOK_REPLACE:
    TRI_TRY(decode_replace(op, w));
    break;
  case TRI_TOK_STRIP:
    TRI_TRY(decode_strip(op, w));
    break;
  default:
    TRI_FAIL(TRI_EINTERNAL, "step %d is no decoder", (int)op->kind);
  }
  t = w->a, w->a = w->b, w->b = t;
  return TRI_OK;
}

/* ---- tokens of the ids ---- */

/* For decoding, the library keeps the normalized form of an added token and skips tokens by that text. */
static tri_status token_text(const tri_tokenizer *t, int32_t id, tri_tok_row *text, bool *special) {
  int32_t k, of;

  if (id < 0 || id >= t->n_row || (!t->row[id].s && !t->added_of[id]))
    TRI_FAIL(TRI_EINPUT, "%s: id %d names no token. The vocabulary has ids 0 ... %d", t->name, id,
             t->n_row - 1);
  of = t->added_of[id];
  *text = of ? tri_tok_shown(t, of - 1) : t->row[id];
  k = tri_tok_map_find(&t->added_map, text->s, text->n);
  *special = k >= 0 && t->added[k].skipped;
  return TRI_OK;
}

static tri_status gather_tokens(const tri_tokenizer *t, const int32_t *id, int64_t n, bool skip_special,
                                tri_tok_pieces *out) {
  tri_tok_row text = {0};
  bool        special = false;

  for (int64_t i = 0; i < n; i++) {
    TRI_TRY(token_text(t, id[i], &text, &special));
    if (!skip_special || !special) TRI_TRY(put_token(out, text.s, text.n));
  }
  return TRI_OK;
}

tri_status tri_tokenizer_decode(const tri_tokenizer *t, const int32_t *id, int64_t n, bool skip_special,
                                tri_text *out) {
  tri_tok_work w = {0};
  tri_status   st = TRI_OK;

  TRI_TRY_DONE(gather_tokens(t, id, n, skip_special, &w.a));
  w.most_text = TRI_TOK_MOST_TIMES * w.a.text_n + TRI_TOK_MORE_BYTES;
  for (int64_t i = 0; i < t->decoder.n; i++) TRI_TRY_DONE(run_decoder(t->decoder.op + i, &w));
  TRI_TRY_DONE(tri_text_put(out, "", 0));
  for (int64_t i = 0; i < w.a.n; i++) {
    if (i && !t->has_decoder) TRI_TRY_DONE(tri_text_put(out, " ", 1));
    TRI_TRY_DONE(tri_text_put(out, w.a.text + w.a.piece[i].at, w.a.piece[i].n));
  }
done:
  tri_tok_work_free(&w);
  return st;
}
