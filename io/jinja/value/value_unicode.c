/* value_unicode.c - classes of characters and case mappings, from the tables of Unicode 14. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_unicode.h"
#include "value_impl.h"

bool tri_jchar_is(int32_t c, tri_jclass class) {
  const tri_junicode_ranges *r = &tri_junicode_class[class];
  int64_t                    low = 0, high = r->n;

  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (c < r->at[2 * middle])
      high = middle;
    else if (c > r->at[2 * middle + 1])
      low = middle + 1;
    else
      return true;
  }
  return false;
}

int tri_jdecimal_value(int32_t c) {
  const tri_junicode_ranges *r = &tri_junicode_class[TRI_JC_DECIMAL];

  if (c < 128) return c >= '0' && c <= '9' ? c - '0' : -1;
  for (int64_t i = 0; i < r->n; i++) /* each range begins with a zero and holds whole tens */
    if (c >= r->at[2 * i] && c <= r->at[2 * i + 1]) return (c - r->at[2 * i]) % 10;
  return -1;
}

/* Looks c up in one table. 0: it is not there. */
static int look_up(const tri_junicode_mapping *m, int32_t c, int32_t out[3]) {
  int64_t low = 0, high = m->n_longer;

  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (c < m->longer[middle].c)
      high = middle;
    else if (c > m->longer[middle].c)
      low = middle + 1;
    else {
      for (int i = 0; i < 3; i++) out[i] = m->longer[middle].to[i];
      return out[2] ? 3 : 2;
    }
  }
  low = 0, high = m->n_rule;
  while (low < high) {
    int64_t                  middle = (low + high) / 2;
    const tri_junicode_rule *rule = &m->rule[middle];
    if (c < rule->first)
      high = middle;
    else if (c > rule->last)
      low = middle + 1;
    else {
      if ((c - rule->first) % rule->step) return 0;
      out[0] = c + rule->delta;
      return 1;
    }
  }
  return 0;
}

int tri_jcase_map(tri_jcase to, int32_t c, int32_t out[3]) {
  int n;

  out[0] = c;
  if (c < 128) {
    if (to == TRI_JCASE_LOWER || to == TRI_JCASE_FOLD)
      out[0] = c >= 'A' && c <= 'Z' ? c + 32 : c;
    else
      out[0] = c >= 'a' && c <= 'z' ? c - 32 : c;
    return 1;
  }
  if ((to == TRI_JCASE_TITLE || to == TRI_JCASE_FOLD) && (n = look_up(&tri_junicode_case[to], c, out)))
    return n;
  n = look_up(
      &tri_junicode_case[to == TRI_JCASE_UPPER || to == TRI_JCASE_TITLE ? TRI_JCASE_UPPER : TRI_JCASE_LOWER],
      c, out);
  return n ? n : (out[0] = c, 1);
}

static bool is_cased(int32_t c) {
  return tri_jchar_is(c, TRI_JC_UPPER) || tri_jchar_is(c, TRI_JC_LOWER) || tri_jchar_is(c, TRI_JC_TITLE);
}

/* Says if the sigma at place `at` ends a word: a cased character before it and none after it
 * (handle_capital_sigma of CPython's unicodeobject.c). */
static bool is_final_sigma(tri_jvalue s, size_t at) {
  const char *text = s.as.text.s;
  size_t      bytes, i = at;
  int32_t     c = 0;
  bool        before = false;

  while (i > 0 && !before) {
    do i--;
    while (i > 0 && ((unsigned char)text[i] & 0xc0) == 0x80);
    c = tri_jpoint_read(text + i, &bytes);
    if (tri_jchar_is(c, TRI_JC_IGNORABLE)) continue;
    before = is_cased(c);
    if (!before) return false;
  }
  if (!before) return false;
  tri_jpoint_read(text + at, &bytes);
  for (i = at + bytes; i < s.as.text.n; i += bytes) {
    c = tri_jpoint_read(text + i, &bytes);
    if (!tri_jchar_is(c, TRI_JC_IGNORABLE)) return !is_cased(c);
  }
  return true;
}

enum { CAPITAL_SIGMA = 0x3a3, SIGMA = 0x3c3, FINAL_SIGMA = 0x3c2 };

static tri_status put_case(tri_jbuf *b, tri_jvalue s, size_t at, tri_jcase to, int32_t c) {
  int32_t image[3];
  int     n = tri_jcase_map(to, c, image);
  char    bytes[4];

  if (c == CAPITAL_SIGMA && to == TRI_JCASE_LOWER) {
    TRI_TRY(tri_jarena_step(b->a, 1));
    image[0] = is_final_sigma(s, at) ? FINAL_SIGMA : SIGMA;
  }
  for (int i = 0; i < n; i++) TRI_TRY(tri_jbuf_put(b, bytes, tri_jpoint_write(image[i], bytes)));
  return TRI_OK;
}

tri_status tri_jtext_case(tri_jarena *a, tri_jvalue s, tri_jcase to, tri_jvalue *out) {
  tri_jbuf b = {.a = a};
  bool     in_word = false;

  TRI_TRY(tri_jarena_step(a, (int64_t)(s.as.text.n / 16)));
  for (size_t i = 0, bytes; i < s.as.text.n; i += bytes) {
    int32_t c = tri_jpoint_read(s.as.text.s + i, &bytes);
    TRI_TRY(put_case(&b, s, i, to == TRI_JCASE_TITLE && in_word ? TRI_JCASE_LOWER : to, c));
    in_word = to == TRI_JCASE_TITLE && is_cased(c);
  }
  *out = tri_jbuf_value(&b, s.note);
  return TRI_OK;
}

tri_status tri_jtext_capitalize(tri_jarena *a, tri_jvalue s, tri_jvalue *out) {
  tri_jbuf b = {.a = a};

  TRI_TRY(tri_jarena_step(a, (int64_t)(s.as.text.n / 16)));
  for (size_t i = 0, bytes; i < s.as.text.n; i += bytes) {
    int32_t c = tri_jpoint_read(s.as.text.s + i, &bytes);
    TRI_TRY(put_case(&b, s, i, i ? TRI_JCASE_LOWER : TRI_JCASE_TITLE, c));
  }
  *out = tri_jbuf_value(&b, s.note);
  return TRI_OK;
}

tri_status tri_jtext_swapcase(tri_jarena *a, tri_jvalue s, tri_jvalue *out) {
  tri_jbuf b = {.a = a};

  TRI_TRY(tri_jarena_step(a, (int64_t)(s.as.text.n / 16)));
  for (size_t i = 0, bytes; i < s.as.text.n; i += bytes) {
    int32_t c = tri_jpoint_read(s.as.text.s + i, &bytes);
    char    same[4];
    if (tri_jchar_is(c, TRI_JC_UPPER))
      TRI_TRY(put_case(&b, s, i, TRI_JCASE_LOWER, c));
    else if (tri_jchar_is(c, TRI_JC_LOWER))
      TRI_TRY(put_case(&b, s, i, TRI_JCASE_UPPER, c));
    else
      TRI_TRY(tri_jbuf_put(&b, same, tri_jpoint_write(c, same)));
  }
  *out = tri_jbuf_value(&b, s.note);
  return TRI_OK;
}
