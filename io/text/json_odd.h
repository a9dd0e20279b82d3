/* json_odd.h - finds JSON values that Python's json writes but jansson cannot hold. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JSON_ODD_H
#define TRI_JSON_ODD_H

#include "base/error.h"

/* The place of such a value in its text, in bytes. */
typedef struct tri_json_odd {
  size_t at, n;
} tri_json_odd;

/* A growable list. Zero-initialise. */
typedef struct tri_json_odds {
  tri_json_odd *odd; /* [n] ascending, owned */
  int64_t       n, cap;
} tri_json_odds;

/* Not collective. Finds NaN, Infinity, -Infinity, integers beyond 64 bits, numbers beyond a double, and
 * strings with half of a surrogate pair. Overwrites each with an empty object of the same length, so all
 * other bytes keep their places. Keys with such halves or U+0000 are found too. There the bad escapes become
 * U+FFFD. text [n] needs a NUL after it, and it may be invalid JSON. *found is overwritten. *changed: the
 * text changed. */
TRI_CHECKED tri_status tri_json_replace_odd(char *text, size_t n, tri_json_odds *found, bool *changed);
/* Returns the reason why the value spelled value [n] cannot be read, and the cure. It follows the value in a
 * message. Pure. */
const char *tri_json_odd_cure(const char *value, size_t n);

#endif
