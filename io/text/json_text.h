/* json_text.h - writes JSON strings and numbers, and bounds the memory of JSON text before it is parsed. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JSON_TEXT_H
#define TRI_JSON_TEXT_H

#include "base/text_buffer.h"

/* Appends s [n] as a JSON string in quotes, with escapes. The n bytes are UTF-8 and may contain NUL.
 * TRI_EINTERNAL: they are not UTF-8. */
TRI_CHECKED tri_status tri_json_put_string(tri_text *t, const char *s, size_t n);
/* Append the shortest text that reads back as the same double (same float), as in number.h. NaN and infinite
 * values become null. */
TRI_CHECKED tri_status tri_json_put_double(tri_text *t, double x);
TRI_CHECKED tri_status tri_json_put_float(tri_text *t, float x);

/* jansson takes up to 230 bytes for an object or list, even for the two bytes of "{}", and some 50 for
 * another value. tri_json_fits allows at most most_nested objects and lists, and TRI_JSON_VALUES_OF_NESTED
 * times as many commas. The text may be invalid JSON. Call it before parsing any foreign file. Pure. */
enum { TRI_JSON_VALUES_OF_NESTED = 4 }; /* chosen, files in use have up to three */
bool tri_json_fits(const char *s, size_t n, int64_t most_nested);
/* The message for a text beyond the limit. Its argument is most_nested, an int. */
#define TRI_JSON_TOO_LARGE "has more than %d objects and lists, or four times as many values"

/* Says if two JSON texts, or none (NULL), have the same value. The order of members does not matter. Only for
 * texts written by this program. Pure. */
bool tri_json_same(const char *a, const char *b);

/* Counts the objects and lists in the text. Pure. */
int64_t tri_json_count_nested(const char *s, size_t n);
/* p points to an opening quote. Returns the place after the closing quote, or `end`. Pure. */
const char *tri_json_skip_string(const char *p, const char *end);

#endif
