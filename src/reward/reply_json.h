/* reply_json.h - the JSON that programs and servers reply, also where a number in it is none of JSON's. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_REPLY_JSON_H
#define TRI_REPLY_JSON_H

#include <jansson.h>
#include <stdint.h>

/* The text that stands in a parsed reply for what is no finite number: NaN, Infinity, 1e999. */
#define TRI_REPLY_ODD "\x7F"

/* Not collective. A reply [n] of at most `nested` objects and lists, by json_decref. NULL: it is no JSON, or
 * too large. flags: of jansson. */
json_t *tri_reply_parse(const char *reply, size_t n, size_t nested, size_t flags);

/* Not collective. The "id" of an object [n] that cannot be parsed: behind its first brace, in no inner one.
 * -1: it has none, or two. */
int64_t tri_reply_scan_id(const char *s, size_t n);

#endif
