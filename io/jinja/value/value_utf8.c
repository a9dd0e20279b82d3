/* value_utf8.c - code points of texts in valid UTF-8. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

static bool is_head(char c) { return ((unsigned char)c & 0xc0) != 0x80; }

int64_t tri_jpoints(const char *s, size_t n) {
  int64_t count = 0;

  for (size_t i = 0; i < n; i++) count += is_head(s[i]);
  return count;
}

size_t tri_jpoint_bytes(const char *s) {
  unsigned char c = (unsigned char)*s;

  return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

const char *tri_jpoint_at(const char *s, size_t n, int64_t i) {
  const char *end = s + n;

  while (i-- > 0 && s < end) s += tri_jpoint_bytes(s);
  return s < end ? s : end;
}

int32_t tri_jpoint_read(const char *s, size_t *bytes) {
  const unsigned char *p = (const unsigned char *)s;

  *bytes = tri_jpoint_bytes(s);
  switch (*bytes) {
  case 1:
    return p[0];
  case 2:
    return (p[0] & 0x1f) << 6 | (p[1] & 0x3f);
  case 3:
    return (p[0] & 0x0f) << 12 | (p[1] & 0x3f) << 6 | (p[2] & 0x3f);
  default:
    return (p[0] & 0x07) << 18 | (p[1] & 0x3f) << 12 | (p[2] & 0x3f) << 6 | (p[3] & 0x3f);
  }
}

size_t tri_jpoint_write(int32_t c, char out[4]) {
  if (c < 0x80) return out[0] = (char)c, 1;
  if (c < 0x800) return out[0] = (char)(0xc0 | c >> 6), out[1] = (char)(0x80 | (c & 0x3f)), 2;
  if (c < 0x10000)
    return out[0] = (char)(0xe0 | c >> 12), out[1] = (char)(0x80 | (c >> 6 & 0x3f)),
           out[2] = (char)(0x80 | (c & 0x3f)), 3;
  out[0] = (char)(0xf0 | c >> 18), out[1] = (char)(0x80 | (c >> 12 & 0x3f));
  out[2] = (char)(0x80 | (c >> 6 & 0x3f)), out[3] = (char)(0x80 | (c & 0x3f));
  return 4;
}
