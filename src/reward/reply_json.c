/* reply_json.c - the JSON that programs and servers reply, also where a number in it is none of JSON's. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "reply_json.h"

#include "base/host_memory.h"
#include "io/text/json_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How long the word is that stands at s, which ends with a NUL, for what is no finite number, as Python's
 * json writes it, or C's printf, or a number beyond a double; 0: none does. */
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

/* How many bytes a number takes that stands at s; 0: none does. */
static size_t number_bytes(const char *s) { return strspn(s, "0123456789+-.eE"); }

/* JSON has no such words: each becomes a text of its length, which is no number either and by which it is
 * known. */
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
  object = json_loadb(copy, n, flags | JSON_DECODE_INT_AS_REAL, NULL); /* an integer may be beyond 64 bits */
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
