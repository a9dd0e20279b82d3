/* value_text.c - text operations by code points: find, replace, strip, split, align, escape, slices. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

#include <string.h>

static bool is_head(char c) { return ((unsigned char)c & 0xc0) != 0x80; }

tri_status tri_jfind(tri_jarena *a, const char *s, size_t n, tri_jvalue needle, const char **out) {
  const char *w = needle.as.text.s, *at = s;
  size_t      m = needle.as.text.n;

  *out = m ? NULL : s;
  if (m == 0 || n < m) return TRI_OK;
  for (; (at = memchr(at, *w, n - m + 1 - (size_t)(at - s))); at++) {
    TRI_TRY(tri_jarena_step(a, 1)); /* each byte of "aaaa" may begin "ab" */
    if (at[m - 1] == w[m - 1]) {
      TRI_TRY(tri_jarena_step(a, (int64_t)(m / 16)));
      if (!memcmp(at, w, m)) {
        *out = at;
        return TRI_OK;
      }
    }
    if ((size_t)(at - s) == n - m) return TRI_OK;
  }
  return TRI_OK;
}

tri_status tri_jfind_last(tri_jarena *a, const char *s, size_t n, tri_jvalue needle, const char **out) {
  const char *w = needle.as.text.s;
  size_t      m = needle.as.text.n;

  *out = m ? NULL : s + n;
  if (m == 0 || n < m) return TRI_OK;
  for (const char *at = s + n - m; at >= s; at--) {
    if (*at != *w || at[m - 1] != w[m - 1]) continue;
    TRI_TRY(tri_jarena_step(a, (int64_t)(m / 16)));
    if (!memcmp(at, w, m)) {
      *out = at;
      return TRI_OK;
    }
  }
  return TRI_OK;
}

void tri_jrange_clip(int64_t n, int64_t *begin, int64_t *end) {
  if (*end > n) *end = n;
  if (*end < 0 && (*end += n) < 0) *end = 0;
  if (*begin < 0 && (*begin += n) < 0) *begin = 0;
}

static tri_jvalue piece(tri_jvalue s, const char *from, const char *to) {
  tri_jvalue v = tri_jtext(from, (size_t)(to - from));

  v.note = s.note;
  return v;
}

tri_status tri_jtext_replace(tri_jarena *a, tri_jvalue s, tri_jvalue old, tri_jvalue by, int64_t count,
                             tri_jvalue *out) {
  const char *at = s.as.text.s, *end = at + s.as.text.n, *hit;
  tri_jbuf    b = {.a = a};

  TRI_TRY(tri_jarena_step(a, (int64_t)(s.as.text.n / 64)));
  if (count < 0) count = INT64_MAX;
  for (; count > 0; count--) {
    TRI_TRY(tri_jarena_step(a, 1));
    if (!old.as.text.n) { /* before each code point, and at the end */
      size_t bytes = at < end ? tri_jpoint_bytes(at) : 0;
      TRI_TRY(tri_jbuf_put(&b, by.as.text.s, by.as.text.n));
      TRI_TRY(tri_jbuf_put(&b, at, bytes));
      at += bytes;
      if (!bytes) break;
      continue;
    }
    TRI_TRY(tri_jfind(a, at, (size_t)(end - at), old, &hit));
    if (!hit) break;
    TRI_TRY(tri_jbuf_put(&b, at, (size_t)(hit - at)));
    TRI_TRY(tri_jbuf_put(&b, by.as.text.s, by.as.text.n));
    at = hit + old.as.text.n;
  }
  if (at == s.as.text.s && !b.n) {
    *out = s;
    return TRI_OK;
  }
  TRI_TRY(tri_jbuf_put(&b, at, (size_t)(end - at)));
  *out = tri_jbuf_value(&b, s.note);
  return TRI_OK;
}

/* Says if the code point at p [bytes] is stripped. */
static bool is_stripped(const tri_jvalue *chars, const char *p, size_t bytes) {
  if (!chars) return tri_jchar_is(tri_jpoint_read(p, &bytes), TRI_JC_SPACE);
  for (size_t i = 0; i + bytes <= chars->as.text.n; i++)
    if (!memcmp(chars->as.text.s + i, p, bytes)) return true;
  return false;
}

tri_status tri_jtext_strip(tri_jarena *a, tri_jvalue s, const tri_jvalue *chars, bool left, bool right,
                           tri_jvalue *out) {
  const char *begin = s.as.text.s, *end = begin + s.as.text.n;
  int64_t     cost = chars ? 1 + (int64_t)(chars->as.text.n / 64) : 1;
  size_t      bytes;

  for (; left && begin < end; begin += bytes) {
    bytes = tri_jpoint_bytes(begin);
    TRI_TRY(tri_jarena_step(a, chars ? cost : 0));
    if (!is_stripped(chars, begin, bytes)) break;
  }
  while (right && begin < end) {
    const char *p = end - 1;
    while (!is_head(*p)) p--;
    TRI_TRY(tri_jarena_step(a, chars ? cost : 0));
    if (!is_stripped(chars, p, (size_t)(end - p))) break;
    end = p;
  }
  TRI_TRY(tri_jarena_step(a, (int64_t)(s.as.text.n - (size_t)(end - begin)) / 16));
  *out = piece(s, begin, end);
  return TRI_OK;
}

/* A growable list. */
typedef struct pieces {
  tri_jvalue *item;
  int64_t     n, cap;
} pieces;

static tri_status add(tri_jarena *a, pieces *p, tri_jvalue v) {
  TRI_TRY(tri_jarena_step(a, 1));
  TRI_TRY(TRI_JGROW(a, p->item, p->cap, p->n, p->n + 1));
  p->item[p->n++] = v;
  return TRI_OK;
}

static tri_status finish(tri_jarena *a, pieces *p, bool reversed, tri_jvalue *out) {
  if (reversed)
    for (int64_t i = 0; i < p->n / 2; i++) {
      tri_jvalue v = p->item[i];
      p->item[i] = p->item[p->n - 1 - i];
      p->item[p->n - 1 - i] = v;
    }
  return tri_jlist_make(a, TRI_J_LIST, p->item, p->n, out);
}

static bool space_at(const char *p, size_t *bytes) {
  if ((unsigned char)*p > ' ' && (unsigned char)*p < 0x7f) return *bytes = 1, false;
  return tri_jchar_is(tri_jpoint_read(p, bytes), TRI_JC_SPACE);
}

static tri_status split_words(tri_jarena *a, tri_jvalue s, int64_t most, pieces *p) {
  const char *at = s.as.text.s, *end = at + s.as.text.n, *begin;
  size_t      bytes;

  for (;; most--) {
    while (at < end && space_at(at, &bytes)) at += bytes;
    if (at == end) return TRI_OK;
    begin = at;
    if (most == 0) return add(a, p, piece(s, begin, end)); /* keeps the white space at its end */
    while (at < end && !space_at(at, &bytes)) at += bytes;
    TRI_TRY(add(a, p, piece(s, begin, at)));
  }
}

static const char *point_before(const char *end) {
  do end--;
  while (!is_head(*end));
  return end;
}

static tri_status split_words_right(tri_jarena *a, tri_jvalue s, int64_t most, pieces *p) {
  const char *begin = s.as.text.s, *end = begin + s.as.text.n, *at;
  size_t      bytes;

  for (;; most--) {
    while (end > begin && space_at(point_before(end), &bytes)) end = point_before(end);
    if (end == begin) return TRI_OK;
    at = end;
    if (most == 0) return add(a, p, piece(s, begin, end));
    while (at > begin && !space_at(point_before(at), &bytes)) at = point_before(at);
    TRI_TRY(add(a, p, piece(s, at, end)));
    end = at;
  }
}

tri_status tri_jtext_split(tri_jarena *a, tri_jvalue s, const tri_jvalue *sep, int64_t most, bool from_right,
                           tri_jvalue *out) {
  const char *at = s.as.text.s, *end = at + s.as.text.n, *hit;
  pieces      p = {0};

  TRI_TRY(tri_jarena_step(a, (int64_t)(s.as.text.n / 64)));
  if (most < 0) most = INT64_MAX;
  if (!sep) {
    if (from_right)
      TRI_TRY(split_words_right(a, s, most, &p));
    else
      TRI_TRY(split_words(a, s, most, &p));
    return finish(a, &p, from_right, out);
  }
  if (!sep->as.text.n) TRI_FAIL(TRI_EINPUT, "empty separator");
  for (; most > 0; most--) {
    size_t n = (size_t)(end - at);
    if (from_right)
      TRI_TRY(tri_jfind_last(a, at, n, *sep, &hit));
    else
      TRI_TRY(tri_jfind(a, at, n, *sep, &hit));
    if (!hit) break;
    TRI_TRY(add(a, &p, from_right ? piece(s, hit + sep->as.text.n, end) : piece(s, at, hit)));
    if (from_right)
      end = hit;
    else
      at = hit + sep->as.text.n;
  }
  TRI_TRY(add(a, &p, piece(s, at, end)));
  return finish(a, &p, from_right, out);
}

/* Says if str.splitlines ends a line here: \n \v \f \r, the separators 1c to 1e, U+0085, U+2028, U+2029. */
static bool is_line_end(int32_t c) {
  return (c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

tri_status tri_jtext_lines(tri_jarena *a, tri_jvalue s, bool keep_ends, tri_jvalue *out) {
  const char *at = s.as.text.s, *end = at + s.as.text.n, *begin = at;
  pieces      p = {0};
  size_t      bytes;

  TRI_TRY(tri_jarena_step(a, (int64_t)(s.as.text.n / 64)));
  while (at < end) {
    int32_t     c = tri_jpoint_read(at, &bytes);
    const char *line_end = at;
    at += bytes;
    if (!is_line_end(c)) continue;
    if (c == '\r' && at < end && *at == '\n') at++;
    TRI_TRY(add(a, &p, piece(s, begin, keep_ends ? at : line_end)));
    begin = at;
  }
  if (begin < end) TRI_TRY(add(a, &p, piece(s, begin, end)));
  return finish(a, &p, false, out);
}

tri_status tri_jtext_repeat(tri_jarena *a, tri_jvalue s, int64_t times, tri_jvalue *out) {
  tri_jbuf b = {.a = a};

  if (times > TRI_JINJA_BYTES && s.as.text.n)
    TRI_FAIL(TRI_EINPUT, "the template takes more than %d MiB of memory", TRI_JINJA_BYTES >> 20);
  if (s.as.text.n == 1)
    TRI_TRY(tri_jbuf_fill(&b, s.as.text.s[0], times));
  else if (s.as.text.n)
    for (int64_t i = 0; i < times; i++) {
      TRI_TRY(tri_jarena_step(a, 1));
      TRI_TRY(tri_jbuf_put(&b, s.as.text.s, s.as.text.n));
    }
  *out = tri_jbuf_value(&b, s.note);
  return TRI_OK;
}

static tri_status fill_with(tri_jbuf *b, tri_jvalue fill, int64_t n) {
  if (fill.as.text.n == 1) return tri_jbuf_fill(b, fill.as.text.s[0], n);
  for (int64_t i = 0; i < n; i++) {
    TRI_TRY(tri_jarena_step(b->a, 1));
    TRI_TRY(tri_jbuf_put(b, fill.as.text.s, fill.as.text.n));
  }
  return TRI_OK;
}

tri_status tri_jtext_align(tri_jarena *a, tri_jvalue s, char side, int64_t width, tri_jvalue fill,
                           tri_jvalue *out) {
  int64_t  n = tri_jpoints(s.as.text.s, s.as.text.n), space = width > n ? width - n : 0, left;
  tri_jbuf b = {.a = a};

  TRI_TRY(tri_jarena_step(a, (int64_t)(s.as.text.n / 64)));
  if (space <= 0) {
    *out = s;
    return TRI_OK;
  }
  if (space > TRI_JINJA_BYTES)
    TRI_FAIL(TRI_EINPUT, "the template takes more than %d MiB of memory", TRI_JINJA_BYTES >> 20);
  left = side == '<' ? 0 : side == '>' ? space : space / 2 + (side == 'c' ? space & width & 1 : 0);
  TRI_TRY(fill_with(&b, fill, left));
  TRI_TRY(tri_jbuf_put(&b, s.as.text.s, s.as.text.n));
  TRI_TRY(fill_with(&b, fill, space - left));
  *out = tri_jbuf_value(&b, s.note);
  return TRI_OK;
}

tri_status tri_jtext_escape(tri_jarena *a, tri_jvalue s, tri_jvalue *out) {
  static const char *const entity[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  static const char        special[] = "&<>'\"";
  tri_jbuf                 b = {.a = a};
  const char              *at = s.as.text.s, *end = at + s.as.text.n, *from = at;

  if (s.note == TRI_J_MARKUP) {
    *out = s;
    return TRI_OK;
  }
  TRI_TRY(tri_jarena_step(a, (int64_t)(s.as.text.n / 64)));
  for (; at < end; at++) {
    const char *p = *at ? strchr(special, *at) : NULL;
    if (!p) continue;
    TRI_TRY(tri_jbuf_put(&b, from, (size_t)(at - from)));
    TRI_TRY(tri_jbuf_text(&b, entity[p - special]));
    from = at + 1;
  }
  if (from == s.as.text.s) {
    *out = tri_jmarkup(s, true);
    return TRI_OK;
  }
  TRI_TRY(tri_jbuf_put(&b, from, (size_t)(end - from)));
  *out = tri_jbuf_value(&b, TRI_J_MARKUP);
  return TRI_OK;
}

tri_status tri_jtext_pick(tri_jarena *a, tri_jvalue s, int64_t begin, int64_t end, int64_t step,
                          tri_jvalue *out) {
  tri_jbuf    b = {.a = a};
  const char *p = s.as.text.s, *stop = p + s.as.text.n;

  TRI_TRY(tri_jarena_step(a, (int64_t)(s.as.text.n / 64)));
  if (step == 1) {
    p = tri_jpoint_at(p, s.as.text.n, begin);
    *out = piece(s, p, end > begin ? tri_jpoint_at(p, (size_t)(stop - p), end - begin) : p);
    return TRI_OK;
  }
  if (step > 0) {
    for (p = tri_jpoint_at(p, s.as.text.n, begin); begin < end && p < stop; begin += step) {
      TRI_TRY(tri_jbuf_put(&b, p, tri_jpoint_bytes(p)));
      if (end - begin <= step) break;
      p = tri_jpoint_at(p, (size_t)(stop - p), step);
    }
  } else {
    p = tri_jpoint_at(p, s.as.text.n, begin);
    for (; begin > end; begin += step) {
      TRI_TRY(tri_jbuf_put(&b, p, tri_jpoint_bytes(p)));
      if (begin - end <= -step) break;
      for (int64_t i = step; i < 0; i++) p = point_before(p);
    }
  }
  *out = tri_jbuf_value(&b, s.note);
  return TRI_OK;
}
