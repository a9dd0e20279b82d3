/* value_filters_text.c - filters of one text or number, as in jinja2/filters.py of Jinja2 3.1.6. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* soft_str: a text stays as it is (Markup too), anything else becomes str(). */
static tri_status soft(tri_jarena *a, tri_jvalue v, tri_jvalue *out) {
  if (!tri_jis_text(v)) return tri_jstr(a, v, out);
  *out = tri_jas_text(v);
  return TRI_OK;
}

tri_status tri_jf_capitalize(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jvalue s;

  TRI_TRY(soft(a, c->self, &s));
  return tri_jtext_capitalize(a, s, out);
}

tri_status tri_jf_upper(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jvalue s;

  TRI_TRY(soft(a, c->self, &s));
  return tri_jtext_case(a, s, TRI_JCASE_UPPER, out);
}

tri_status tri_jf_lower(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jvalue s;

  TRI_TRY(soft(a, c->self, &s));
  return tri_jtext_case(a, s, TRI_JCASE_LOWER, out);
}

tri_status tri_jf_string(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return soft(a, c->self, out);
}

tri_status tri_jf_safe(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  TRI_TRY(tri_jstr(a, c->self, out));
  out->note = TRI_J_MARKUP;
  return TRI_OK;
}

tri_status tri_jf_escape(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jvalue s;

  TRI_TRY(soft(a, c->self, &s));
  return tri_jtext_escape(a, s, out);
}

tri_status tri_jf_forceescape(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jvalue s;

  TRI_TRY(tri_jstr(a, c->self, &s));
  return tri_jtext_escape(a, s, out);
}

tri_status tri_jf_center(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jvalue s;
  int64_t    width = 80;

  TRI_TRY(soft(a, c->self, &s));
  TRI_TRY(tri_jarg_whole(c, 0, 80, &width));
  return tri_jtext_align(a, s, 'c', width, TRI_J_LITERAL(" "), out);
}

tri_status tri_jf_trim(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jvalue s, chars;
  bool       given = c->arg[0] && c->arg[0]->kind != TRI_J_NONE;

  TRI_TRY(soft(a, c->self, &s));
  if (given && !tri_jis_text(*c->arg[0])) TRI_FAIL(TRI_EINPUT, "strip arg must be None or str");
  if (given) chars = tri_jas_text(*c->arg[0]);
  return tri_jtext_strip(a, s, given ? &chars : NULL, true, true, out);
}

tri_status tri_jf_replace(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jvalue s, old, by;
  int64_t    count = -1;

  TRI_TRY(tri_jstr(a, c->self, &s));
  TRI_TRY(tri_jstr(a, *c->arg[0], &old));
  TRI_TRY(tri_jstr(a, *c->arg[1], &by));
  if (c->arg[2] && c->arg[2]->kind != TRI_J_NONE) TRI_TRY(tri_jarg_whole(c, 2, -1, &count));
  return tri_jtext_replace(a, s, old, by, count, out);
}

tri_status tri_jf_format(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jvalue s, args;

  if (c->all->n_pos && c->all->n_named)
    TRI_FAIL(TRI_EINPUT, "can't handle positional and keyword arguments at the same time");
  TRI_TRY(soft(a, c->self, &s));
  if (c->all->n_named) {
    TRI_TRY(tri_jmap_make(a, &args));
    for (int64_t i = 0; i < c->all->n_named; i++)
      TRI_TRY(tri_jmap_put(a, args, c->all->key[i], c->all->named[i]));
  } else
    TRI_TRY(tri_jlist_make(a, TRI_J_TUPLE, c->all->pos, c->all->n_pos, &args));
  return tri_jpercent(a, s, args, out);
}

/* Says if a character separates words for the filter title: [-\s({\[<]. */
static bool is_separator(int32_t x) {
  return x == '-' || x == '(' || x == '{' || x == '[' || x == '<' || tri_jchar_is(x, TRI_JC_SPACE);
}

tri_status tri_jf_title(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jbuf    b = {.a = a};
  tri_jvalue  s, head, tail;
  const char *p, *end;

  TRI_TRY(soft(a, c->self, &s));
  TRI_TRY(tri_jarena_step(a, (int64_t)(s.as.text.n / 16)));
  for (p = s.as.text.s, end = p + s.as.text.n; p < end;) {
    size_t      bytes, first = tri_jpoint_bytes(p);
    const char *from = p;
    bool        separator = is_separator(tri_jpoint_read(p, &bytes));
    while (p < end && is_separator(tri_jpoint_read(p, &bytes)) == separator) p += bytes;
    TRI_TRY(tri_jtext_case(a, tri_jtext(from, first), TRI_JCASE_UPPER, &head));
    TRI_TRY(tri_jtext_case(a, tri_jtext(from + first, (size_t)(p - from) - first), TRI_JCASE_LOWER, &tail));
    TRI_TRY(tri_jbuf_put(&b, head.as.text.s, head.as.text.n));
    TRI_TRY(tri_jbuf_put(&b, tail.as.text.s, tail.as.text.n));
  }
  *out = tri_jbuf_value(&b, 0);
  return TRI_OK;
}

tri_status tri_jf_wordcount(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jvalue s;
  int64_t    n = 0;
  bool       in_word = false;

  TRI_TRY(soft(a, c->self, &s));
  TRI_TRY(tri_jarena_step(a, (int64_t)(s.as.text.n / 16)));
  for (size_t i = 0, bytes; i < s.as.text.n; i += bytes) {
    int32_t x = tri_jpoint_read(s.as.text.s + i, &bytes);
    bool    word = x == '_' || tri_jchar_is(x, TRI_JC_ALPHA) || tri_jchar_is(x, TRI_JC_NUMERIC);
    n += word && !in_word;
    in_word = word;
  }
  *out = tri_jint(n);
  return TRI_OK;
}

tri_status tri_jf_indent(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jbuf   b = {.a = a};
  tri_jvalue s = c->self, by, lines;
  int64_t    width = 4;
  bool       first = tri_jarg_truth(c, 1, false), blank = tri_jarg_truth(c, 2, false);

  if (s.kind == TRI_J_UNDEFINED) return tri_jundefined_fail(s);
  if (!tri_jis_text(s))
    TRI_FAIL(TRI_EINPUT, "unsupported operand type(s) for +=: '%s' and 'str'", tri_jtype(s));
  s = tri_jas_text(s);
  if (c->arg[0] && tri_jis_text(*c->arg[0]))
    by = tri_jas_text(*c->arg[0]);
  else {
    TRI_TRY(tri_jarg_whole(c, 0, 4, &width));
    TRI_TRY(tri_jtext_repeat(a, TRI_J_LITERAL(" "), width, &by));
  }
  TRI_TRY(tri_jbuf_put(&b, s.as.text.s, s.as.text.n));
  TRI_TRY(tri_jbuf_text(&b, "\n")); /* so that a last empty line counts too */
  TRI_TRY(tri_jtext_lines(a, tri_jbuf_value(&b, 0), false, &lines));
  b = (tri_jbuf){.a = a};
  if (first) TRI_TRY(tri_jbuf_put(&b, by.as.text.s, by.as.text.n));
  for (int64_t i = 0; i < lines.as.list->n; i++) {
    tri_jvalue line = lines.as.list->item[i];
    if (i) TRI_TRY(tri_jbuf_text(&b, "\n"));
    if (i && (blank || line.as.text.n)) TRI_TRY(tri_jbuf_put(&b, by.as.text.s, by.as.text.n));
    TRI_TRY(tri_jbuf_put(&b, line.as.text.s, line.as.text.n));
  }
  *out = tri_jbuf_value(&b, s.note);
  return TRI_OK;
}

tri_status tri_jf_truncate(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  int64_t    length = 255, leeway = 5, n = 0, n_end;
  tri_jvalue s = c->self, end, cut, words;

  TRI_TRY(tri_jarg_whole(c, 0, 255, &length));
  TRI_TRY(tri_jarg_text(a, c, 2, TRI_J_LITERAL("..."), &end));
  if (c->arg[3] && c->arg[3]->kind != TRI_J_NONE) TRI_TRY(tri_jarg_whole(c, 3, 5, &leeway));
  n_end = tri_jpoints(end.as.text.s, end.as.text.n);
  if (length < n_end)
    TRI_FAIL(TRI_EINPUT, "expected length >= %lld, got %lld", (long long)n_end, (long long)length);
  if (leeway < 0) TRI_FAIL(TRI_EINPUT, "expected leeway >= 0, got %lld", (long long)leeway);
  *out = c->self;
  if (s.kind == TRI_J_UNDEFINED) return TRI_OK;
  if (tri_jis_text(s)) s = tri_jas_text(s);
  TRI_TRY(tri_jlength(a, s, &n));
  if (n <= leeway || n - leeway <= length) return TRI_OK;
  if (s.kind != TRI_J_STRING) TRI_FAIL(TRI_EINPUT, "truncate: a text is wanted, not %s", tri_jtype(s));
  TRI_TRY(tri_jtext_pick(a, s, 0, length - n_end, 1, &cut));
  if (!tri_jarg_truth(c, 1, false)) {
    tri_jvalue space = TRI_J_LITERAL(" ");
    TRI_TRY(tri_jtext_split(a, cut, &space, 1, true, &words));
    cut = words.as.list->item[0];
  }
  return tri_jbinary(a, TRI_JOP_ADD, cut, end, out);
}

/* ---- numbers ---- */

tri_status tri_jf_abs(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jvalue v = c->self;

  if (v.kind == TRI_J_UNDEFINED) return tri_jundefined_fail(v);
  if (v.kind == TRI_J_FLOAT)
    *out = tri_jfloat(fabs(v.as.real));
  else if (!tri_jis_whole(v))
    TRI_FAIL(TRI_EINPUT, "bad operand type for abs(): '%s'", tri_jtype(v));
  else
    return tri_jnegate(a, tri_jint(tri_jwhole(v)), tri_jwhole(v) >= 0, out);
  return TRI_OK;
}

static tri_status whole_or(double x, bool infinity_fails, tri_jvalue otherwise, tri_jvalue *out) {
  int64_t whole = 0;

  *out = otherwise;
  if (isnan(x) || (isinf(x) && !infinity_fails)) return TRI_OK;
  TRI_TRY(tri_jwhole_of_real(x, &whole));
  *out = tri_jint(whole);
  return TRI_OK;
}

tri_status tri_jf_int(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jvalue v = c->self, otherwise = c->arg[0] ? *c->arg[0] : tri_jint(0);
  int64_t    base = 10, whole = 0;
  bool       found = false;
  double     x = 0;

  if (v.kind == TRI_J_UNDEFINED) return tri_jundefined_fail(v);
  if (c->arg[1] && !tri_jis_whole(*c->arg[1]))
    base = -1; /* Python catches a TypeError and reads a decimal number */
  else
    TRI_TRY(tri_jarg_whole(c, 1, 10, &base));
  *out = otherwise;
  if (tri_jis_whole(v))
    *out = tri_jint(tri_jwhole(v));
  else if (v.kind == TRI_J_FLOAT)
    return whole_or(v.as.real, true, otherwise, out);
  else if (tri_jis_text(v)) {
    v = tri_jas_text(v);
    TRI_TRY(tri_jarena_step(a, (int64_t)(v.as.text.n / 16)));
    if (base == 0 || (base >= 2 && base <= 36)) TRI_TRY(tri_jparse_whole(v, base, &whole, &found));
    if (found)
      *out = tri_jint(whole);
    else if (tri_jparse_real(v, &x))
      return whole_or(x, false, otherwise, out);
  }
  return TRI_OK;
}

tri_status tri_jf_float(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jvalue v = c->self;
  double     x = 0;

  if (v.kind == TRI_J_UNDEFINED) return tri_jundefined_fail(v);
  *out = c->arg[0] ? *c->arg[0] : tri_jfloat(0);
  if (v.kind == TRI_J_FLOAT)
    *out = v;
  else if (tri_jis_whole(v))
    *out = tri_jfloat((double)tri_jwhole(v));
  else if (tri_jis_text(v)) {
    v = tri_jas_text(v);
    TRI_TRY(tri_jarena_step(a, (int64_t)(v.as.text.n / 16)));
    if (tri_jparse_real(v, &x)) *out = tri_jfloat(x);
  }
  return TRI_OK;
}

/* round(x, digits) of a double: rounds the digits of its exact value half to even. */
static double round_real(double x, int64_t digits) {
  char text[400];
  int  exponent, kept;

  if (!isfinite(x) || x == 0 || digits > 323) return x;
  if (digits < -308) return copysign(0, x);
  if (digits >= 0) {
    if (fabs(x) >= 0x1p53) return x;
    snprintf(text, sizeof text, "%.*f", (int)digits, x);
    return strtod(text, NULL);
  }
  snprintf(text, sizeof text, "%.17e", x);
  exponent = atoi(strchr(text, 'e') + 1);
  kept = exponent + 1 + (int)digits;
  if (kept < 0) return copysign(0, x);
  if (kept == 0) return fabs(x) > 5 * pow(10, exponent) ? copysign(pow(10, exponent + 1), x) : copysign(0, x);
  snprintf(text, sizeof text, "%.*e", kept - 1, x);
  return strtod(text, NULL);
}

/* round(x, -n) of an integer: rounds half to even. */
static tri_status round_whole(int64_t x, int64_t digits, tri_jvalue *out) {
  int64_t unit = 1, rest, down;

  *out = tri_jint(x);
  if (digits >= 0) return TRI_OK;
  for (int64_t i = digits; i < 0; i++)
    if (unit > INT64_MAX / 10) {
      /* 10^19 and above is more than twice any 64-bit integer except those above 5 * 10^18. */
      *out = tri_jint(0);
      if (i == -1 && (x > 5000000000000000000 || x < -5000000000000000000))
        TRI_FAIL(TRI_EINPUT, "integers beyond 64 bits are not supported: the result of round");
      return TRI_OK;
    } else
      unit *= 10;
  rest = x % unit < 0 ? x % unit + unit : x % unit;
  if (rest > unit - rest || (rest == unit - rest && ((x / unit - (x < 0 && x % unit)) & 1)))
    down = rest - unit;
  else
    down = rest;
  if (__builtin_sub_overflow(x, down, &x))
    TRI_FAIL(TRI_EINPUT, "integers beyond 64 bits are not supported: the result of round");
  *out = tri_jint(x);
  return TRI_OK;
}

tri_status tri_jf_round(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jvalue v = c->self, method;
  int64_t    digits = 0;
  double     x, scale;
  bool       up, down, to_whole = c->arg[0] && c->arg[0]->kind == TRI_J_NONE;

  TRI_TRY(tri_jarg_text(a, c, 1, TRI_J_LITERAL("common"), &method));
  up = method.as.text.n == 4 && !memcmp(method.as.text.s, "ceil", 4);
  down = method.as.text.n == 5 && !memcmp(method.as.text.s, "floor", 5);
  if (!up && !down && (method.as.text.n != 6 || memcmp(method.as.text.s, "common", 6)))
    TRI_FAIL(TRI_EINPUT, "method must be common, ceil or floor");
  if (v.kind == TRI_J_UNDEFINED) return tri_jundefined_fail(v);
  if (v.kind != TRI_J_FLOAT && !tri_jis_whole(v))
    TRI_FAIL(TRI_EINPUT, "type %s doesn't define __round__ method", tri_jtype(v));
  if (!to_whole || up || down) TRI_TRY(tri_jarg_whole(c, 0, 0, &digits));
  x = v.kind == TRI_J_FLOAT ? v.as.real : (double)tri_jwhole(v);
  if (!up && !down) {
    if (tri_jis_whole(v)) return round_whole(tri_jwhole(v), digits, out);
    if (!to_whole) {
      *out = tri_jfloat(round_real(x, digits));
      if (isinf(out->as.real) && isfinite(x)) TRI_FAIL(TRI_EINPUT, "rounded value too large to represent");
      return TRI_OK;
    }
    x = nearbyint(x);
    TRI_TRY(tri_jwhole_of_real(x, &digits));
    *out = tri_jint(digits);
    return TRI_OK;
  }
  if (digits > 300 || digits < -300)
    TRI_FAIL(TRI_EINPUT, "round: a precision of %lld is not supported", (long long)digits);
  scale = digits >= 0 ? strtod("1", NULL) * pow(10, (double)digits) : pow(10, (double)digits);
  x *= scale;
  if (!isfinite(x)) TRI_FAIL(TRI_EINPUT, "cannot convert float %s to integer", isnan(x) ? "NaN" : "infinity");
  x = (up ? ceil(x) : floor(x)) / scale;
  *out = tri_jfloat(x == 0 ? 0.0 : x); /* the integer 0 has no sign */
  return TRI_OK;
}

tri_status tri_jf_filesizeformat(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  static const char *const prefix[2][8] = {{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"},
                                           {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}};
  bool                     binary = tri_jarg_truth(c, 0, false);
  double                   base = binary ? 1024 : 1000, unit = base, x = 0;
  tri_jbuf                 b = {.a = a};
  tri_jvalue               v = c->self;
  int                      i = 0;

  if (v.kind == TRI_J_UNDEFINED) return tri_jundefined_fail(v);
  if (v.kind == TRI_J_FLOAT || tri_jis_whole(v))
    x = v.kind == TRI_J_FLOAT ? v.as.real : (double)tri_jwhole(v);
  else if (!tri_jis_text(v) || !tri_jparse_real(tri_jas_text(v), &x))
    TRI_FAIL(TRI_EINPUT, "could not convert %s to float", tri_jtype(v));
  if (x == 1)
    TRI_TRY(tri_jbuf_text(&b, "1 Byte"));
  else if (x < base) {
    int64_t whole = 0;
    TRI_TRY(tri_jwhole_of_real(x, &whole));
    TRI_TRY(tri_jbuf_printf(&b, "%lld Bytes", (long long)whole));
  } else {
    for (unit *= base; i < 7 && !(x < unit); i++) unit *= base;
    TRI_TRY(tri_jbuf_printf(&b, "%.1f %s", base * x / unit, prefix[binary][i]));
  }
  *out = tri_jbuf_value(&b, 0);
  return TRI_OK;
}

/* ---- URLs and attributes ---- */

static tri_status quote(tri_jbuf *b, tri_jvalue v, bool in_query) {
  tri_jvalue s;

  TRI_TRY(tri_jstr(b->a, v, &s));
  TRI_TRY(tri_jarena_step(b->a, (int64_t)(s.as.text.n / 16)));
  for (size_t i = 0; i < s.as.text.n; i++) {
    char x = s.as.text.s[i];
    bool plain = (x >= '0' && x <= '9') || ((x | 32) >= 'a' && (x | 32) <= 'z') || (x && strchr("_.-~", x));
    if (plain || (x == '/' && !in_query))
      TRI_TRY(tri_jbuf_put(b, &x, 1));
    else if (x == ' ' && in_query)
      TRI_TRY(tri_jbuf_text(b, "+"));
    else
      TRI_TRY(tri_jbuf_printf(b, "%%%02X", (unsigned char)x));
  }
  return TRI_OK;
}

tri_status tri_jf_urlencode(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jbuf         b = {.a = a};
  tri_jvalue       v = c->self;
  const tri_jlist *list = NULL, *pair = NULL;
  bool             walks = v.kind == TRI_J_UNDEFINED || v.kind == TRI_J_LIST || v.kind == TRI_J_TUPLE ||
               v.kind == TRI_J_MAP || v.kind == TRI_J_RANGE || v.kind == TRI_J_VIEW || v.kind == TRI_J_STREAM;

  if (tri_jis_text(v) || !walks)
    TRI_TRY(quote(&b, v, false));
  else {
    if (v.kind == TRI_J_MAP) TRI_TRY(tri_jview_make(a, v, TRI_J_ITEMS, &v));
    TRI_TRY(tri_jiterate(a, v, &list));
    for (int64_t i = 0; i < list->n; i++) {
      TRI_TRY(tri_jiterate(a, list->item[i], &pair));
      if (pair->n != 2) TRI_FAIL(TRI_EINPUT, "urlencode: pairs are wanted");
      if (i) TRI_TRY(tri_jbuf_text(&b, "&"));
      TRI_TRY(quote(&b, pair->item[0], true));
      TRI_TRY(tri_jbuf_text(&b, "="));
      TRI_TRY(quote(&b, pair->item[1], true));
    }
  }
  *out = tri_jbuf_value(&b, 0);
  return TRI_OK;
}

tri_status tri_jf_xmlattr(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jbuf   b = {.a = a};
  tri_jvalue key, value;

  if (c->self.kind == TRI_J_UNDEFINED) return tri_jundefined_fail(c->self);
  if (c->self.kind != TRI_J_MAP)
    TRI_FAIL(TRI_EINPUT, "'%s' object has no attribute 'items'", tri_jtype(c->self));
  for (int64_t i = 0; i < tri_jmap_count(c->self); i++) {
    tri_jmap_at(c->self, i, &key, &value);
    if (value.kind == TRI_J_NONE || value.kind == TRI_J_UNDEFINED) continue;
    if (key.kind != TRI_J_STRING)
      TRI_FAIL(TRI_EINPUT, "expected string or bytes-like object, got '%s'", tri_jtype(key));
    for (size_t k = 0; k < key.as.text.n; k++)
      if (key.as.text.s[k] && strchr(" \t\n\r\f\v/>=", key.as.text.s[k]))
        TRI_FAIL(TRI_EINPUT, "Invalid character in attribute name: '%.*s'",
                 (int)(key.as.text.n < 100 ? key.as.text.n : 100), key.as.text.s);
    TRI_TRY(tri_jtext_escape(a, key, &key));
    TRI_TRY(soft(a, value, &value));
    TRI_TRY(tri_jtext_escape(a, value, &value));
    if (b.n || tri_jarg_truth(c, 0, true)) TRI_TRY(tri_jbuf_text(&b, " "));
    TRI_TRY(tri_jbuf_put(&b, key.as.text.s, key.as.text.n));
    TRI_TRY(tri_jbuf_text(&b, "=\""));
    TRI_TRY(tri_jbuf_put(&b, value.as.text.s, value.as.text.n));
    TRI_TRY(tri_jbuf_text(&b, "\""));
  }
  *out = tri_jbuf_value(&b, 0);
  return TRI_OK;
}
