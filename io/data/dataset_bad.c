/* dataset_bad.c - groups bad lines of a file into messages, one for each kind of mistake. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "dataset_bad.h"

#include "base/host_memory.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LISTED = 8 }; /* chosen: their numbers fit a line of a screen */

/* Returns the message behind its place, "FILE:LINE: ". *line is that number, or 0 without a place. */
static const char *behind_place(const char *message, const char *path, int64_t *line) {
  size_t n = strlen(path);
  char  *end;

  *line = 0;
  if (strncmp(message, path, n) != 0 || message[n] != ':' || !isdigit((unsigned char)message[n + 1]))
    return message;
  int64_t number = strtoll(message + n + 1, &end, 10);
  if (strncmp(end, ": ", 2) != 0) return message;
  *line = number;
  return end + 2;
}

tri_status tri_bad_lines_put(tri_bad_lines *b, const char *path) {
  int64_t       line;
  const char   *what = behind_place(tri_error_message(), path, &line);
  tri_bad_line *k = b->kind;
  tri_status    st = TRI_OK;

  b->n++;
  while (k < b->kind + b->n_kind && (!line || !k->line || strcmp(k->what, what) != 0)) k++;
  if (k == b->kind + TRI_BAD_KINDS) {
    b->n_more++;
  } else if (k == b->kind + b->n_kind) {
    k->line = line;
    st = tri_copy_text(what, &k->what);
    if (st == TRI_OK) b->n_kind++;
  } else if (++k->n_others <= MOST_LISTED) {
    st = tri_text_printf(&k->others, "%s%lld", k->others.len ? ", " : "", (long long)line);
  }
  if (st == TRI_OK) tri_error_clear();
  return st;
}

/* Appends "the same of lines 3, 5 and 17 more" below a message. */
static tri_status put_others(const tri_bad_line *k, tri_text *out) {
  if (!k->n_others) return TRI_OK;
  TRI_TRY(tri_text_printf(out, "\n  the same of line%s %s", k->n_others == 1 ? "" : "s", k->others.data));
  if (k->n_others <= MOST_LISTED) return TRI_OK;
  return tri_text_printf(out, " and %lld more", (long long)(k->n_others - MOST_LISTED));
}

tri_status tri_bad_lines_tell(tri_bad_lines *b, const char *path, tri_errors *errors) {
  tri_status st = TRI_OK;

  for (tri_bad_line *k = b->kind; k < b->kind + b->n_kind && st == TRI_OK; k++) {
    tri_text said = {0};
    if (k->line) st = tri_text_printf(&said, "%s:%lld: ", path, (long long)k->line);
    if (st == TRI_OK) st = tri_text_printf(&said, "%s", k->what);
    if (st == TRI_OK) st = put_others(k, &said);
    if (st == TRI_OK) {
      tri_error_set(TRI_EINPUT, said.data);
      st = tri_error_note(TRI_EINPUT, errors);
    }
    errors->n += k->n_others;
    tri_text_free(&said);
  }
  if (st == TRI_OK && b->n_more) {
    errors->n += b->n_more - 1;
    st = tri_error_note(tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT,
                                 "%s: %lld more bad line%s, %lld in all", path, (long long)b->n_more,
                                 b->n_more == 1 ? "" : "s", (long long)b->n),
                        errors);
  }
  tri_bad_lines_forget(b);
  return st;
}

void tri_bad_lines_forget(tri_bad_lines *b) {
  for (int i = 0; i < b->n_kind; i++) {
    TRI_FREE(b->kind[i].what);
    tri_text_free(&b->kind[i].others);
  }
  *b = (tri_bad_lines){.n = 0};
}
