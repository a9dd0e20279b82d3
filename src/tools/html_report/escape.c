/* escape.c - writes foreign text into an HTML report, visible and without a meaning to HTML. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "escape.h"

#include <string.h>

#include "base/visible.h"

enum {
  PIECE_BYTES = 512,  /* made visible at once, chosen */
  CHARACTER_BYTES = 4 /* longest character, specified by UTF-8 */
};

/* Returns the HTML reference for a byte, or NULL if the byte stays. */
static const char *reference(char c) {
  switch (c) {
  case '&':
    return "&amp;";
  case '<':
    return "&lt;";
  case '>':
    return "&gt;";
  case '"':
    return "&quot;";
  case '\'':
    return "&#39;";
  default:
    return NULL;
  }
}

/* U+FFFE and U+FFFF are valid UTF-8 but not permitted in XML (https://www.w3.org/TR/xml/#charsets). */
static const char *no_character(const char *s, size_t n) {
  if (n < 3 || (unsigned char)s[0] != 0xEF || (unsigned char)s[1] != 0xBF) return NULL;
  return (unsigned char)s[2] == 0xBE ? "\\uFFFE" : (unsigned char)s[2] == 0xBF ? "\\uFFFF" : NULL;
}

/* Writes text [n], which is already visible. */
static tri_status put_visible(tri_text *out, const char *s, size_t n) {
  size_t plain = 0;

  for (size_t i = 0; i < n;) {
    const char *is = reference(s[i]);
    size_t      bytes = 1;
    if (!is && (is = no_character(s + i, n - i)) != NULL) bytes = 3;
    if (is) {
      TRI_TRY(tri_text_put(out, s + plain, i - plain));
      TRI_TRY(tri_text_put(out, is, strlen(is)));
      plain = i + bytes;
    }
    i += bytes;
  }
  return tri_text_put(out, s + plain, n - plain);
}

size_t tri_html_cut(const char *text, size_t n, size_t most) {
  size_t cut = n < most ? n : most, least = cut > CHARACTER_BYTES ? cut - CHARACTER_BYTES : 0;

  if (cut == n) return n;
  while (cut > least && (text[cut] & 0xC0) == 0x80) cut--;
  return cut;
}

tri_status tri_html_put_bytes(tri_text *out, const char *text, size_t n, bool lines) {
  char shown[PIECE_BYTES * TRI_VISIBLE_MOST + 1];

  while (n) {
    size_t piece = tri_html_cut(text, n, PIECE_BYTES);
    TRI_TRY(put_visible(out, shown, tri_visible(text, piece, lines ? "\n\t" : "", shown, sizeof shown)));
    text += piece;
    n -= piece;
  }
  return TRI_OK;
}

tri_status tri_html_put(tri_text *out, const char *text) {
  return tri_html_put_bytes(out, text, strlen(text), false);
}
