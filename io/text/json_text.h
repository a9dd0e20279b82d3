/* json_text.h - JSON strings and numbers written into a text, and what JSON text would take in memory. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JSON_TEXT_H
#define TRI_JSON_TEXT_H

#include "base/text_buffer.h"

/* "..." with what JSON wants escaped; n bytes of UTF-8, which may hold NUL. TRI_EINTERNAL if they are not
 * UTF-8. */
TRI_CHECKED tri_status tri_json_put_string(tri_text *t, const char *s, size_t n);
/* As number.h writes it: the shortest text that reads back as the same double (same float). Not finite:
 * null. */
TRI_CHECKED tri_status tri_json_put_double(tri_text *t, double x);
TRI_CHECKED tri_status tri_json_put_float(tri_text *t, float x);

/* jansson takes up to 230 bytes for an object or list, even for the two of "{}", and some 50 for another
 * value. Whether the text opens at most so many objects and lists, and has at most TRI_JSON_VALUES_OF_NESTED
 * times as many commas, whether or not it is JSON. Every foreign file is asked before it is parsed. Pure. */
enum { TRI_JSON_VALUES_OF_NESTED = 4 }; /* chosen: the files read have up to three */
bool tri_json_fits(const char *s, size_t n, int64_t most_nested);
/* How messages put it; takes most_nested, an int. */
#define TRI_JSON_TOO_LARGE "has more than %d objects and lists, or four times as many values"

/* Whether two texts of JSON, or none (NULL), are the same value: members of objects in any order. Texts that
 * this program wrote. Pure. */
bool tri_json_same(const char *a, const char *b);

/* Objects and lists that open in the text. Pure. */
int64_t tri_json_count_nested(const char *s, size_t n);
/* p is at the opening quote; behind the closing one, or `end`. Pure. */
const char *tri_json_skip_string(const char *p, const char *end);

#endif
