/* tokenizer_places.c - runs a step on all pieces and tracks the place of each token in the text. Every byte
 * that a step writes has a place in the input. Steps know nothing of places. They are found afterwards, by
 * going through a piece again. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "tokenizer_impl.h"

#include <string.h>

bool tri_tok_keeps_text(const tri_tok_op *op) {
  return op->kind == TRI_TOK_SPLIT || op->kind == TRI_TOK_DIGITS || op->kind == TRI_TOK_PUNCTUATION ||
         op->kind == TRI_TOK_WHITESPACE_SPLIT;
}

tri_status tri_tok_place_input(tri_tok_work *w, const char *text, size_t n) {
  w->origin.input = text;
  w->origin.lost = n > UINT32_MAX || (size_t)w->a.text_n != n || memcmp(w->a.text, text, n) != 0;
  if (w->origin.lost) {
    w->origin.places = NULL;
    return TRI_OK;
  }
  TRI_TRY(TRI_GROW(w->a.place, w->a.place_cap, (int64_t)n));
  for (size_t i = 0; i < n; i++) w->a.place[i] = (tri_text_place){(uint32_t)i, (uint32_t)i + 1};
  return TRI_OK;
}

/* ---- steps ---- */

/* The writer of the places of a piece's bytes. */
typedef struct walk {
  const tri_text_place *from; /* places of the piece's input bytes */
  tri_text_place       *to;
  size_t                n, most; /* n: written so far. At most `most` are written */
} walk;

/* Writes the place of n_bytes output bytes that stand for bytes begin .. end - 1 of the piece. */
static void put(walk *x, size_t n_bytes, size_t begin, size_t end) {
  tri_text_place place = {x->from[begin].begin, x->from[end - 1].end};

  for (; n_bytes > 0; n_bytes--, x->n++)
    if (x->n < x->most) x->to[x->n] = place;
}

static void put_same(walk *x, size_t begin, size_t n_bytes) {
  for (size_t i = begin; i < begin + n_bytes; i++) put(x, 1, i, i + 1);
}

/* tokenizers, normalizer.rs, replace: inserted text stands for the last character it replaces. */
static void place_replaced(const tri_tok_op *op, const char *s, const tri_tok_work *w, walk *x) {
  int32_t c;

  for (int64_t i = 0; i < w->n_match; i++) {
    tri_tok_match m = w->match[i];
    if (!m.hit)
      put_same(x, m.from, m.to - m.from);
    else if (m.to)
      put(x, op->text_n, m.to - (size_t)tri_tok_char_before(s, m.to, &c), m.to);
    else
      put(x, op->text_n, 0, 1);
  }
}

static size_t count_spaces(const char *s, size_t n) {
  size_t k = 0;

  for (size_t i = 0; i < n; i++) k += s[i] == ' ';
  return k;
}

/* Returns the bytes that a step puts before a piece. They stand for its first character (normalizer.rs,
 * prepend). */
static size_t bytes_before(const tri_tok_op *op, const char *s, size_t n, size_t n_out) {
  size_t same = n;

  if (op->kind == TRI_TOK_PREPEND) return op->text_n;
  if (op->kind == TRI_TOK_METASPACE) same += count_spaces(s, n) * (op->text_n - 1);
  return (op->kind == TRI_TOK_METASPACE || op->kind == TRI_TOK_PREFIX_SPACE) && n_out > same ? n_out - same
                                                                                             : 0;
}

static size_t one_char(const char *s, size_t n) {
  int32_t c;

  return (size_t)tri_tok_char(s, n, &c);
}

/* Returns the length of an ASCII character and the other characters after it, which may combine with it. CR
 * and LF together are one. */
static size_t one_run(const char *s, size_t n) {
  size_t i = 1;

  if (n > 1 && s[0] == '\r' && s[1] == '\n') return 2;
  while (i < n && (uint8_t)s[i] >= 0x80) i++;
  return i;
}

/* A part of a piece, run through a step alone. If its characters give the same output one by one, each has
 * its own place. Otherwise all output stands for the whole part. */
typedef struct part {
  const tri_tok_op *op;
  tri_tok_step     *step;
  tri_tok_piece     piece;
  size_t            at, n; /* bytes of the piece */
} part;

/* Runs the step on a part alone. Its output stays after w->b.text_n. *wrote: the bytes of the output. */
static tri_status write_part(const part *x, size_t at, size_t n, tri_tok_work *w, size_t *wrote) {
  int64_t from = w->b.text_n, n_piece = w->b.n;

  at += x->piece.at;
  TRI_TRY(x->step(x->op, w->a.text + at, (tri_tok_piece){at, n, 0, -1}, w));
  *wrote = (size_t)(w->b.text_n - from);
  w->b.text_n = from;
  w->b.n = n_piece;
  return TRI_OK;
}

static tri_status place_part(const part *x, tri_tok_work *w, walk *out) {
  const char *s = w->a.text + x->piece.at + x->at;
  size_t      all = 0, sum = 0, wrote = 0, n, before = out->n;

  TRI_TRY(write_part(x, x->at, x->n, w, &all));
  w->b.text_n += (int64_t)all; /* kept while its characters are written after it */
  for (size_t i = 0; i < x->n; i += n, sum += wrote) {
    n = one_char(s + i, x->n - i);
    TRI_TRY(write_part(x, x->at + i, n, w, &wrote));
    if (sum + wrote > all ||
        memcmp(w->b.text + w->b.text_n, w->b.text + w->b.text_n - (int64_t)(all - sum), wrote) != 0)
      break;
    put(out, wrote, x->at + i, x->at + i + n);
  }
  w->b.text_n -= (int64_t)all;
  if (sum == all) return TRI_OK;
  out->n = before;
  put(out, all, x->at, x->at + x->n);
  return TRI_OK;
}

/* Finds the places of the output of a step on one piece. The output is w->b.text from `from` on. */
static tri_status place_step(const tri_tok_op *op, tri_tok_step *step, tri_tok_piece p, int64_t from,
                             tri_tok_work *w) {
  size_t      n_out = (size_t)(w->b.text_n - from), before;
  const char *s = w->a.text + p.at;
  walk        x;

  /* The step left nothing. There is no place, and perhaps no memory for one. */
  if (!n_out) return TRI_OK;
  TRI_TRY(TRI_GROW(w->b.place, w->b.place_cap, w->b.text_n));
  x = (walk){w->a.place + p.at, w->b.place + from, 0, n_out};
  before = bytes_before(op, s, p.n, n_out);
  if (n_out == p.n && !memcmp(w->b.text + from, s, n_out)) {
    put_same(&x, 0, p.n);
  } else if (op->kind == TRI_TOK_REPLACE) {
    place_replaced(op, s, w, &x);
  } else if (op->kind == TRI_TOK_STRIP) {
    size_t  skip = 0;
    int32_t c;
    while (op->left && skip < p.n && tri_tok_char(s + skip, p.n - skip, &c) && tri_tok_is_space(c))
      skip += (size_t)tri_tok_char(s + skip, p.n - skip, &c);
    put_same(&x, skip, n_out);
  } else if (op->kind == TRI_TOK_BYTES) {
    for (size_t i = 0; i < p.n; i++) {
      char text[4];
      put(&x, (size_t)tri_tok_put_char(tri_tok_byte_char((uint8_t)s[i]), text), i, i + 1);
    }
  } else if (before || op->kind == TRI_TOK_METASPACE) {
    put(&x, before, 0, one_char(s, p.n));
    for (size_t i = 0; i < p.n; i++)
      put(&x, op->kind == TRI_TOK_METASPACE && s[i] == ' ' ? op->text_n : 1, i, i + 1);
  } else {
    for (size_t i = 0, n; i < p.n; i += n) {
      n = one_run(s + i, p.n - i);
      TRI_TRY(place_part(&(part){op, step, p, i, n}, w, &x));
    }
  }
  w->origin.lost |= x.n != n_out;
  for (; x.n < n_out; x.n++) x.to[x.n] = (tri_text_place){0, 0};
  return TRI_OK;
}

/* Copies an added token to the output. */
static tri_status carry(tri_tok_work *w, tri_tok_piece *p) {
  int64_t at = w->b.text_n;

  TRI_TRY(tri_tok_put(&w->b, w->a.text + p->at, p->n));
  TRI_TRY(TRI_GROW(w->b.place, w->b.place_cap, w->b.text_n));
  memcpy(w->b.place + at, w->a.place + p->at, p->n * sizeof *w->b.place);
  p->at = (size_t)at;
  return TRI_OK;
}

void tri_tok_begin(const tri_tok_op *op, tri_tok_work *w) {
  tri_tok_reset(&w->b);
  w->b.maker = op->name;
  w->b.most_text = w->most_text;
}

tri_status tri_tok_each(const tri_tok_op *op, tri_tok_work *w, tri_tok_step *step) {
  bool places = w->origin.places && !tri_tok_keeps_text(op);

  tri_tok_begin(op, w);
  for (int64_t i = 0; i < w->a.n; i++) {
    tri_tok_piece p = w->a.piece[i];
    int64_t       from = w->b.text_n;
    if (p.id >= 0) { /* from here on only its id and place count */
      if (places) TRI_TRY(carry(w, &p));
      TRI_TRY(tri_tok_push(&w->b, p));
    } else {
      TRI_TRY(step(op, w->a.text + p.at, p, w));
      if (places) TRI_TRY(place_step(op, step, p, from, w));
    }
  }
  return TRI_OK;
}

/* ---- tokens ---- */

/* Returns the number of spaces at the begin or end of a token. */
static int64_t spaces_of(const char *s, size_t n, bool end) {
  enum { SPELLED = 0x120 }; /* spelling of a space by tri_tok_byte_char */
  int64_t count = 0;
  int32_t c;
  size_t  step;

  for (; n; n -= step, s += end ? 0 : step) {
    step = (size_t)(end ? tri_tok_char_before(s, n, &c) : tri_tok_char(s, n, &c));
    if (c != SPELLED && !tri_tok_is_space(c)) break;
    count++;
  }
  return count;
}

/* tokenizers, pre_tokenizers/byte_level.rs, process_offsets. */
static void trim(const tri_tokenizer *t, const char *text, int32_t id, bool first, tri_text_place *x) {
  tri_tok_row r = t->added_of[id] ? t->added_row[t->added_of[id] - 1] : t->row[id];
  int64_t     front = spaces_of(r.s, r.n, false), back = spaces_of(r.s, r.n, true);
  int32_t     c;

  if (front && (first || !x->begin) && t->post.keeps_first) front--;
  for (; front > 0 && x->begin < x->end; front--)
    x->begin += (uint32_t)tri_tok_char(text + x->begin, x->end - x->begin, &c);
  for (; back > 0 && x->end > x->begin; back--)
    x->end -= (uint32_t)tri_tok_char_before(text + x->begin, x->end - x->begin, &c);
}

tri_status tri_tok_place_tokens(const tri_tokenizer *t, tri_tok_work *w, tri_tok_piece p,
                                const tri_tokens *out, int64_t first) {
  tri_token_places *to = w->origin.places;
  size_t            at = 0;

  TRI_TRY(TRI_GROW(to->at, to->cap, to->n + out->n - first));
  for (int64_t i = first; i < out->n; i++) {
    size_t          n = (size_t)w->origin.took.id[i - w->origin.out_before];
    tri_text_place *x = to->at + to->n++;
    if (!n && i > first) { /* one of several bytes with the same place */
      *x = x[-1];
      continue;
    }
    if (!n || n > p.n - at) {
      w->origin.lost = true;
      *x = (tri_text_place){0, 0};
      continue;
    }
    *x = (tri_text_place){w->a.place[p.at + at].begin, w->a.place[p.at + at + n - 1].end};
    at += n;
    if (t->post.trims) trim(t, w->origin.input, out->id[i], to->n == 1, x);
  }
  w->origin.lost |= at != p.n;
  return TRI_OK;
}
