/* json_walk.c - checks and walks JSON text in place. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "json_walk.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/visible.h"

/* The depth limit is jansson's. The number limit is chosen, more digits than a double can tell apart. */
enum { MOST_DEPTH = 2048, NUMBER_BYTES = 64 };

static const char *skip_space(const char *p, const char *end) {
  while (p < end && (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n')) p++;
  return p;
}

/* Each skip function below returns the place after the item at p. NULL: there is no such item. */

static const char *skip_escape(const char *p, const char *end) {
  if (end - p < 2) return NULL;
  if (p[1] != 'u') return p[1] && strchr("\"\\/bfnrt", p[1]) ? p + 2 : NULL;
  if (end - p < 6) return NULL;
  for (int i = 2; i < 6; i++)
    if (!p[i] || !strchr("0123456789abcdefABCDEF", p[i])) return NULL;
  return p + 6;
}

static const char *skip_string(const char *p, const char *end) {
  for (p++; p && p < end && *p != '"';) {
    size_t bytes = (unsigned char)*p < 0x80 ? 1 : tri_character(p, (size_t)(end - p));
    if (!bytes || (unsigned char)*p < 0x20) return NULL;
    p = *p == '\\' ? skip_escape(p, end) : p + bytes;
  }
  return p && p < end ? p + 1 : NULL;
}

static const char *skip_digits(const char *p, const char *end) {
  const char *from = p;

  while (p < end && *p >= '0' && *p <= '9') p++;
  return p > from ? p : NULL;
}

const char *tri_json_skip_number(const char *p, const char *end) {
  if (p < end && *p == '-') p++;
  if (p < end && *p == '0')
    p++;
  else if (!(p = skip_digits(p, end)))
    return NULL;
  if (p < end && *p == '.' && !(p = skip_digits(p + 1, end))) return NULL;
  if (p >= end || (*p != 'e' && *p != 'E')) return p;
  p++;
  if (p < end && (*p == '+' || *p == '-')) p++;
  return skip_digits(p, end);
}

static const char *skip_word(const char *p, const char *end) {
  static const char *const word[] = {"true", "false", "null"};

  for (int i = 0; i < 3; i++) {
    size_t n = strlen(word[i]);
    if ((size_t)(end - p) >= n && !memcmp(p, word[i], n)) return p + n;
  }
  return NULL;
}

/* Skips a key and its colon. */
static const char *skip_key(const char *p, const char *end) {
  p = skip_space(p, end);
  if (p >= end || *p != '"' || !(p = skip_string(p, end))) return NULL;
  p = skip_space(p, end);
  return p < end && *p == ':' ? p + 1 : NULL;
}

/* Skips a whole scalar or string, or only the opening bracket of an object or list. Then its closing bracket
 * is pushed on `close`. */
static const char *skip_begin(const char *p, const char *end, char *close, int *depth) {
  if (*p == '"') return skip_string(p, end);
  if (*p == '-' || (*p >= '0' && *p <= '9')) return tri_json_skip_number(p, end);
  if (*p != '{' && *p != '[') return skip_word(p, end);
  if (*depth == MOST_DEPTH) return NULL;
  close[(*depth)++] = *p == '{' ? '}' : ']';
  return p + 1;
}

static const char *skip_value(const char *p, const char *end) {
  char close[MOST_DEPTH];
  int  depth = 0, before;

  do {
    p = skip_space(p, end);
    if (p >= end) return NULL;
    before = depth;
    if (!(p = skip_begin(p, end, close, &depth))) return NULL;
    if (depth > before) { /* an empty one, or its first member */
      p = skip_space(p, end);
      if (p >= end || *p != close[depth - 1]) {
        if (close[depth - 1] == '}' && !(p = skip_key(p, end))) return NULL;
        continue;
      }
    }
    for (p = skip_space(p, end); depth && p < end && *p == close[depth - 1]; p = skip_space(p, end))
      p++, depth--;
    if (!depth) break;
    if (p >= end || *p++ != ',') return NULL;
    if (close[depth - 1] == '}' && !(p = skip_key(p, end))) return NULL;
  } while (true);
  return p;
}

static bool fail(tri_json_walk *w) {
  w->over = w->bad = true;
  return false;
}

bool tri_json_walk_begin(const char *text, size_t n, tri_json_walk *out) {
  const char *at = skip_space(text, text + n);

  *out = (tri_json_walk){.at = at, .end = text + n};
  if (at == out->end || (*at != '{' && *at != '[')) return fail(out);
  out->close = *at == '{' ? '}' : ']';
  out->at++;
  return true;
}

/* Skips the separator before a member. NULL: end of the walk, or the separator is missing. */
static const char *skip_between(tri_json_walk *w) {
  const char *p = skip_space(w->at, w->end);

  if (p < w->end && *p == w->close) {
    w->over = true;
    w->bad = skip_space(p + 1, w->end) != w->end;
    return NULL;
  }
  if (w->begun && (p >= w->end || *p++ != ',')) w->over = w->bad = true;
  w->begun = true;
  return w->bad ? NULL : p;
}

bool tri_json_walk_next(tri_json_walk *w, tri_json_slice *key, tri_json_slice *value) {
  const char *p = w->over ? NULL : skip_between(w), *behind;

  if (!p) return false;
  if (w->close == '}') {
    const char *name = skip_space(p, w->end);
    if (!(p = skip_key(name, w->end))) return fail(w);
    *key = (tri_json_slice){name, (size_t)(skip_string(name, w->end) - name)};
  }
  p = skip_space(p, w->end);
  if (!(behind = skip_value(p, w->end))) return fail(w);
  w->at = behind;
  while (behind > p && strchr(" \t\r\n", behind[-1])) behind--;
  *value = (tri_json_slice){p, (size_t)(behind - p)};
  return true;
}

bool tri_json_is_key(const tri_json_slice *key, const char *name) {
  return key->n == strlen(name) + 2 && !memcmp(key->at + 1, name, key->n - 2);
}

bool tri_json_is_string(const tri_json_slice *value) { return value->at && *value->at == '"'; }

/* Copies the digits with a NUL after them. false: it is no number, or an absurdly long one. */
static bool copy_number(const tri_json_slice *value, char out[NUMBER_BYTES]) {
  if (!value->at || !strchr("-0123456789", *value->at) || value->n >= NUMBER_BYTES) return false;
  memcpy(out, value->at, value->n);
  out[value->n] = 0;
  return true;
}

double tri_json_number(const tri_json_slice *value) {
  char   text[NUMBER_BYTES];
  double x = copy_number(value, text) ? strtod(text, NULL) : NAN;

  return isfinite(x) ? x : NAN;
}

bool tri_json_integer(const tri_json_slice *value, int64_t *out) {
  char      text[NUMBER_BYTES], *end;
  long long x;

  if (!copy_number(value, text)) return false;
  errno = 0;
  x = strtoll(text, &end, 10);
  if (errno || *end) return false;
  *out = x;
  return true;
}

/* ---- decoding of strings ---- */

static uint32_t hex(const char *p) {
  char digits[5] = {p[0], p[1], p[2], p[3], 0};

  return (uint32_t)strtoul(digits, NULL, 16);
}

static tri_status put_character(uint32_t c, tri_text *out) {
  char   utf8[4];
  size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

  for (size_t i = n; i-- > 1; c >>= 6) utf8[i] = (char)(0x80 | (c & 0x3F));
  utf8[0] = (char)(n == 1 ? c : (0xF00u >> n & 0xFF) | c);
  return tri_text_put(out, utf8, n);
}

/* Appends the character of the escape at p. *n: the bytes of the escape. */
static tri_status put_escape(const char *p, const char *end, size_t *n, tri_text *out) {
  static const char letter[] = "bfnrt", means[] = "\b\f\n\r\t";
  const char       *at = strchr(letter, p[1]);
  uint32_t          c;

  *n = 2;
  if (p[1] != 'u') return tri_text_put(out, at ? means + (at - letter) : p + 1, 1);
  *n = 6;
  c = hex(p + 2);
  if (c >= 0xD800 && c < 0xDC00 && end - p >= 12 && p[6] == '\\' && p[7] == 'u') {
    uint32_t low = hex(p + 8);
    if (low >= 0xDC00 && low < 0xE000) {
      *n = 12;
      return put_character(0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00), out);
    }
  }
  return put_character(c >= 0xD800 && c < 0xE000 ? 0xFFFD : c, out);
}

tri_status tri_json_put_said(const tri_json_slice *string, tri_text *out) {
  const char *p = string->at + 1, *end = string->at + string->n - 1;

  while (p < end) {
    const char *escape = memchr(p, '\\', (size_t)(end - p));
    size_t      n = (size_t)((escape ? escape : end) - p);
    if (n) TRI_TRY(tri_text_put(out, p, n));
    p += n;
    if (!escape) break;
    TRI_TRY(put_escape(p, end, &n, out));
    p += n;
  }
  return TRI_OK;
}
