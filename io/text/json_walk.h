/* json_walk.h - checks and walks JSON text in place. It builds no tree and allocates nothing. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JSON_WALK_H
#define TRI_JSON_WALK_H

#include "base/text_buffer.h"

/* A value as spelled in the text, without space around it. Borrowed. A zeroed slice is no value. */
typedef struct tri_json_slice {
  const char *at;
  size_t      n;
} tri_json_slice;

/* The state of a walk through the members of an object or the entries of a list. */
typedef struct tri_json_walk {
  const char *at, *end;
  char        close; /* '}' or ']' */
  bool        begun, over, bad;
} tri_json_walk;

/* Pure, all that follow. Starts a walk. false: text [n] does not begin with an object or a list, apart from
 * space. The content is checked by each step of the walk. */
bool tri_json_walk_begin(const char *text, size_t n, tri_json_walk *out);
/* Returns the next member or entry. `key` is a JSON string and may be NULL for a list. false: there is none.
 * Then w->bad says if the text is not JSON (RFC 8259) in UTF-8, is nested deeper than 2048, or has more text
 * after its end. */
bool tri_json_walk_next(tri_json_walk *w, tri_json_slice *key, tri_json_slice *value);
/* Says if a key of a walk is `name`. A name has no backslash, and a key spelled with escapes never
 * matches. */
bool tri_json_is_key(const tri_json_slice *key, const char *name);
/* Says if a value of a walk is a string. */
bool tri_json_is_string(const tri_json_slice *value);
/* Return a value of a walk as a finite number, NaN if it is none, or as an integer, false if it is none or
 * does not fit. */
double tri_json_number(const tri_json_slice *value);
bool   tri_json_integer(const tri_json_slice *value, int64_t *out);

/* Returns the place after the number that begins at p, before `end`. NULL: no number begins there. Pure. */
const char *tri_json_skip_number(const char *p, const char *end);

/* Not collective. Appends the decoded text of a JSON string from a walk. The result is UTF-8 and may contain
 * NUL. Half of a surrogate pair becomes U+FFFD. */
TRI_CHECKED tri_status tri_json_put_said(const tri_json_slice *string, tri_text *out);

#endif
