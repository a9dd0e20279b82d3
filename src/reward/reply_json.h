/* reply_json.h - parses JSON replies of programs and servers, including numbers that JSON does not have. Not
 * collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_REPLY_JSON_H
#define TRI_REPLY_JSON_H

#include <jansson.h>
#include <stdint.h>

/* The text that replaces NaN, Infinity, 1e999 and the like in a parsed reply. */
#define TRI_REPLY_ODD "\x7F"

/* Parses a reply [n] of at most `nested` objects and lists. `flags` are jansson's. Free it with json_decref.
 * Returns NULL if it is not JSON or too large. */
json_t *tri_reply_parse(const char *reply, size_t n, size_t nested, size_t flags);

/* Finds the "id" of an object [n] that cannot be parsed, at its outer level. Returns -1 if it has none or
 * two. */
int64_t tri_reply_scan_id(const char *s, size_t n);

#endif
