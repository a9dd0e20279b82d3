/* fold.c - wraps untrusted text to a width and makes control characters visible. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "fold.h"

#include <string.h>

#include "base/columns.h"
#include "base/visible.h"

enum { MARGIN = 2, TAB = 8 };

/* The line under construction. */
typedef struct fold {
  tri_pager  *p;
  tri_text    line;          /* a line of the screen without its margin */
  int         columns, most; /* columns so far, and the limit */
  size_t      gap;           /* bytes up to the end of the last space behind ink, 0 without one */
  bool        inked;         /* the line has more than spaces */
  const char *margin;        /* margin of this line */
} fold;

static tri_status put_line(fold *f, size_t n) {
  TRI_TRY(tri_pager_put(f->p, f->margin, MARGIN));
  if (n) TRI_TRY(tri_pager_put(f->p, f->line.data, n));
  return tri_pager_put(f->p, "\n", 1);
}

/* Ends a full line behind its last space, or here if it has none. The rest begins the next line. */
static tri_status wrap(fold *f) {
  size_t n = f->gap ? f->gap : f->line.len, rest = f->line.len - n, seen = n;

  while (f->gap && seen && f->line.data[seen - 1] == ' ') seen--;
  TRI_TRY(put_line(f, seen));
  memmove(f->line.data, f->line.data + n, rest);
  f->line.len = rest;
  f->columns = tri_text_columns(f->line.data, rest);
  f->gap = 0;
  f->inked = rest > 0;
  f->margin = "  ";
  return TRI_OK;
}

/* Appends one character, made visible. */
static tri_status put(fold *f, const char *shown, size_t n) {
  int columns = tri_text_columns(shown, n);

  if (f->columns + columns > f->most && f->line.len) TRI_TRY(wrap(f));
  if (f->columns + columns > f->most && f->line.len) TRI_TRY(wrap(f)); /* a word may fill the whole line */
  TRI_TRY(tri_text_put(&f->line, shown, n));
  f->columns += columns;
  if (*shown == ' ' && f->inked) f->gap = f->line.len;
  f->inked = f->inked || *shown != ' ';
  return TRI_OK;
}

static tri_status put_tab(fold *f) {
  for (int n = TAB - f->columns % TAB; n > 0; n--) TRI_TRY(put(f, " ", 1));
  return TRI_OK;
}

static tri_status end_line(fold *f) {
  TRI_TRY(put_line(f, f->line.len));
  f->line.len = f->gap = 0;
  f->columns = 0;
  f->inked = false;
  f->margin = "| ";
  return TRI_OK;
}

tri_status tri_fold_text(tri_pager *p, const char *text, size_t n) {
  fold       f = {.p = p, .most = p->columns - MARGIN, .margin = "| "};
  tri_status st = TRI_OK;
  char       shown[TRI_VISIBLE_MOST + 1];

  if (!n) return tri_fold_words(p, "  (empty)", "2");
  for (size_t at = 0, bytes; at < n && !p->gone; at += bytes) {
    bytes = tri_character(text + at, n - at);
    if (!bytes) bytes = 1;
    if (text[at] == '\n') {
      TRI_TRY_DONE(end_line(&f));
    } else if (text[at] == '\t') {
      TRI_TRY_DONE(put_tab(&f));
    } else {
      TRI_TRY_DONE(put(&f, shown, tri_visible(text + at, bytes, "", shown, sizeof shown)));
    }
  }
  if (f.line.len || text[n - 1] != '\n') TRI_TRY_DONE(end_line(&f));
done:
  tri_text_free(&f.line);
  return st;
}

tri_status tri_fold_words(tri_pager *p, const char *text, const char *colour) {
  bool       tint = p->colour && *colour;
  tri_text   wrapped = {0}, out = {0};
  tri_status st = TRI_OK;

  TRI_TRY_DONE(tri_text_wrap(text, p->columns, &wrapped));
  for (const char *at = wrapped.data ? wrapped.data : ""; *at;) {
    size_t n = strcspn(at, "\n");
    if (tint && n) TRI_TRY_DONE(tri_text_printf(&out, "\033[%sm", colour));
    TRI_TRY_DONE(tri_text_put(&out, at, n));
    TRI_TRY_DONE(tri_text_printf(&out, tint && n ? "\033[0m\n" : "\n"));
    at += n + (at[n] == '\n');
  }
  TRI_TRY_DONE(tri_pager_put(p, out.data ? out.data : "", out.len));
done:
  tri_text_free(&wrapped);
  tri_text_free(&out);
  return st;
}
