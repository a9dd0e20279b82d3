/* json_walk.h - JSON checked and walked through where it stands, without a tree: in no memory of its own. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JSON_WALK_H
#define TRI_JSON_WALK_H

#include "base/text_buffer.h"

/* A value as the text spells it, without space around it; borrowed. Zeroed: none. */
typedef struct tri_json_slice {
  const char *at;
  size_t      n;
} tri_json_slice;

/* On the way through the members of an object or the entries of a list. */
typedef struct tri_json_walk {
  const char *at, *end;
  char        close; /* '}' or ']' */
  bool        begun, over, bad;
} tri_json_walk;

/* Pure, all that follow. Whether the text [n], space around it aside, begins an object or a list; what it
 * holds is checked on the way. */
bool tri_json_walk_begin(const char *text, size_t n, tri_json_walk *out);
/* The next member, its key a string of JSON (of a list NULL is possible), or entry. False: there is none, or
 * w->bad: the text is not JSON (RFC 8259) in UTF-8, is nested deeper than 2048, or goes on behind its end. */
bool tri_json_walk_next(tri_json_walk *w, tri_json_slice *key, tri_json_slice *value);
/* Whether a key, of a walk, is `name`, which holds no backslash; one that spells it with escapes is not. */
bool tri_json_is_key(const tri_json_slice *key, const char *name);
/* Whether a value of a walk is a string. */
bool tri_json_is_string(const tri_json_slice *value);
/* A value of a walk as a finite number; NaN where it is none. As a whole number; false where it is none that
 * fits. */
double tri_json_number(const tri_json_slice *value);
bool   tri_json_integer(const tri_json_slice *value, int64_t *out);

/* Behind the number that begins at p, before `end`; NULL: none does. Pure. */
const char *tri_json_skip_number(const char *p, const char *end);

/* Not collective. Appends what a string of a walk says, UTF-8 that may hold NUL; half of a surrogate pair is
 * U+FFFD. */
TRI_CHECKED tri_status tri_json_put_said(const tri_json_slice *string, tri_text *out);

#endif
