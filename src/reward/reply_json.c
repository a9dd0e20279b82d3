/* reply_json.c - parses JSON replies of programs and servers, including numbers that JSON does not have. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "reply_json.h"

#include "base/host_memory.h"
#include "io/text/json_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Length of the word at s for a number that is not finite, or 0. Such words come from Python's json, from C's
 * printf, or are numbers beyond a double. s ends with a NUL. */
static size_t odd_number_at(const char *s, size_t n) {
  static const char *const word[] = {"NaN", "Infinity", "-Infinity", "nan", "-nan", "inf", "-inf"};

  for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
    size_t k = strlen(word[i]);
    if (k <= n && !memcmp(s, word[i], k)) return k;
  }
  if (*s == '-' || (*s >= '0' && *s <= '9')) {
    char *end;
    if (isinf(strtod(s, &end))) return (size_t)(end - s);
  }
  return 0;
}

/* Length of the number at s, or 0. */
static size_t number_bytes(const char *s) { return strspn(s, "0123456789+-.eE"); }

/* Replaces each such word by a text of the same length, since JSON has no such words. The text is not a
 * number either, and the caller recognises it. */
static void blank_odd_numbers(char *s, size_t n) {
  const char *end = s + n;

  for (size_t k; s < end; s += k) {
    k = *s == '"' ? (size_t)(tri_json_skip_string(s, end) - s) : odd_number_at(s, (size_t)(end - s));
    if (k && *s != '"') memcpy(memset(s, ' ', k), "\"" TRI_REPLY_ODD "\"", 3);
    if (!k) k = number_bytes(s);
    if (!k) k = 1;
  }
}

json_t *tri_reply_parse(const char *reply, size_t n, size_t nested, size_t flags) {
  json_t *object;
  char   *copy = NULL;

  if (!tri_json_fits(reply, n, nested)) return NULL;
  object = json_loadb(reply, n, flags, NULL);
  if (object) return object;
  if (TRI_ALLOC(copy, (int64_t)n + 1) != TRI_OK) {
    tri_error_clear();
    return NULL;
  }
  memcpy(copy, reply, n);
  blank_odd_numbers(copy, n);
  object = json_loadb(copy, n, flags | JSON_DECODE_INT_AS_REAL, NULL); /* integers may exceed 64 bits */
  TRI_FREE(copy);
  return object;
}

int64_t tri_reply_scan_id(const char *s, size_t n) {
  const char *end = s + n, *next;
  int64_t     id = -1;

  for (int depth = 0; s < end; s = next) {
    next = *s == '"' ? tri_json_skip_string(s, end) : s + 1;
    if (*s == '{' || *s == '[') depth++;
    if (*s == '}' || *s == ']') depth--;
    if (depth != 1 || next - s != 4 || memcmp(s, "\"id\"", 4) != 0) continue;
    while (next < end && strchr(" \t:", *next)) next++;
    int64_t one = 0;
    int     digits = 0;
    for (; next < end && *next >= '0' && *next <= '9' && digits < 18; next++, digits++)
      one = one * 10 + (*next - '0');
    if (!digits || (id >= 0 && id != one)) return -1;
    id = one;
  }
  return id;
}
