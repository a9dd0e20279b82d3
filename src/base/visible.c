/* visible.c - makes foreign text safe for a terminal or a log. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "visible.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Decodes the character at s [n] and returns its bytes. 0: they are not UTF-8 (RFC 3629: no surrogates, no
 * overlong forms). */
static size_t decode(const unsigned char *s, size_t n, uint32_t *c) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t bytes = s[0] < 0x80 ? 1 : s[0] < 0xC0 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF8 ? 4 : 0;

  if (!bytes || bytes > n) return 0;
  *c = bytes == 1 ? s[0] : s[0] & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; i++) {
    if ((s[i] & 0xC0) != 0x80) return 0;
    *c = *c << 6 | (s[i] & 0x3F);
  }
  return *c < least[bytes] || *c > 0x10FFFF || (*c >= 0xD800 && *c < 0xE000) ? 0 : bytes;
}

size_t tri_character(const char *text, size_t n) {
  uint32_t c;

  return n ? decode((const unsigned char *)text, n, &c) : 0;
}

/* True for C0, DEL and C1, line and paragraph separators, and marks, embeddings, overrides and isolates of
 * writing direction. */
static bool is_hidden(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x061C || c == 0x200E || c == 0x200F ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

static size_t escape(uint32_t c, char out[TRI_VISIBLE_MOST]) {
  if (c == '\n') return (size_t)snprintf(out, TRI_VISIBLE_MOST, "\\n");
  if (c == '\t') return (size_t)snprintf(out, TRI_VISIBLE_MOST, "\\t");
  if (c == '\r') return (size_t)snprintf(out, TRI_VISIBLE_MOST, "\\r");
  return (size_t)snprintf(out, TRI_VISIBLE_MOST, c < 0x80 ? "\\x%02X" : "\\u%04X", (unsigned)c);
}

size_t tri_visible(const char *text, size_t n, const char *keep, char *out, size_t cap) {
  size_t have = 0, bytes, put;

  for (size_t at = 0; at < n; at += bytes) {
    char        escaped[TRI_VISIBLE_MOST];
    const char *from = escaped;
    uint32_t    c = 0;
    bytes = decode((const unsigned char *)text + at, n - at, &c);
    if (!bytes) {
      put = (size_t)snprintf(escaped, sizeof escaped, "\\x%02X", (unsigned)(unsigned char)text[at]);
      bytes = 1;
    } else if (is_hidden(c) && !(c && c < 0x80 && strchr(keep, (int)c))) {
      put = escape(c, escaped);
    } else {
      put = bytes;
      from = text + at;
    }
    if (have + put + 1 > cap) break;
    memcpy(out + have, from, put);
    have += put;
  }
  if (cap) out[have] = 0;
  return have;
}

void tri_visible_format(char out[TRI_MESSAGE_BYTES], const char *fmt, va_list ap) {
  char   text[2][TRI_MESSAGE_BYTES], own[TRI_MESSAGE_BYTES];
  size_t have = 0, from = 0, at = 0;

  for (int k = 0; k < 2; k++) {
    va_list again;
    snprintf(own, sizeof own, "%s", fmt);
    for (char *p = own; (p = strchr(p, '\n')) != NULL; p++) *p = (char)(1 + k);
    va_copy(again, ap);
    vsnprintf(text[k], TRI_MESSAGE_BYTES, own, again);
    va_end(again);
  }
  do {
    while (text[0][at] && text[0][at] == text[1][at]) at++;
    have += tri_visible(text[0] + from, at - from, "", out + have, TRI_MESSAGE_BYTES - have);
    if (!text[0][at] || have + 1 >= TRI_MESSAGE_BYTES) break;
    out[have++] = '\n';
    out[have] = 0;
    from = ++at;
  } while (true);
}
