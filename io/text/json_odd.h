/* json_odd.h - values that Python's json writes and that jansson cannot hold. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JSON_ODD_H
#define TRI_JSON_ODD_H

#include "base/error.h"

/* Where such a value stands in its text, in bytes. */
typedef struct tri_json_odd {
  size_t at, n;
} tri_json_odd;

/* Growable list. Zero-initialise. */
typedef struct tri_json_odds {
  tri_json_odd *odd; /* [n], ascending; owned */
  int64_t       n, cap;
} tri_json_odds;

/* Not collective. Finds NaN, Infinity, -Infinity, whole numbers beyond 64 bits, numbers beyond a double and
 * strings that hold half of a surrogate pair. Writes an empty object of as many bytes over each, so that all
 * other bytes keep their places. Keys with such halves or U+0000 are found too; there they become U+FFFD.
 * text [n], a NUL behind it, need not be JSON. *found begins anew; *changed: whether the text did. */
TRI_CHECKED tri_status tri_json_replace_odd(char *text, size_t n, tri_json_odds *found, bool *changed);
/* The reason why such a value, spelled so [n], cannot be read, and the cure, for a message behind the value.
 * Pure. */
const char *tri_json_odd_cure(const char *value, size_t n);

#endif
