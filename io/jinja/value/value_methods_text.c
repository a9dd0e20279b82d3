/* value_methods_text.c - methods of str as in Python 3.11, and of Markup if they differ. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

#include <string.h>

enum { UNLIMITED = -1 };

static tri_status m_strip(tri_jarena *a, const tri_jcalled *c, bool left, bool right, tri_jvalue *out) {
  tri_jvalue chars = c->self;
  bool       given = c->arg[0] && c->arg[0]->kind != TRI_J_NONE;

  if (given && !tri_jis_text(*c->arg[0])) TRI_FAIL(TRI_EINPUT, "%s arg must be None or str", c->name);
  if (given) TRI_TRY(tri_jarg_text(a, c, 0, chars, &chars));
  return tri_jtext_strip(a, c->self, given ? &chars : NULL, left, right, out);
}

static tri_status strip(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return m_strip(a, c, true, true, out);
}
static tri_status lstrip(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return m_strip(a, c, true, false, out);
}
static tri_status rstrip(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return m_strip(a, c, false, true, out);
}

static tri_status m_split(tri_jarena *a, const tri_jcalled *c, bool from_right, tri_jvalue *out) {
  tri_jvalue sep = c->self;
  bool       given = c->arg[0] && c->arg[0]->kind != TRI_J_NONE;
  int64_t    most = UNLIMITED;

  if (given) TRI_TRY(tri_jarg_text(a, c, 0, sep, &sep));
  TRI_TRY(tri_jarg_whole(c, 1, UNLIMITED, &most));
  return tri_jtext_split(a, c->self, given ? &sep : NULL, most, from_right, out);
}

static tri_status split(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return m_split(a, c, false, out);
}
static tri_status rsplit(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return m_split(a, c, true, out);
}

static tri_status splitlines(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return tri_jtext_lines(a, c->self, tri_jarg_truth(c, 0, false), out);
}

static tri_status replace(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jvalue old, by;
  int64_t    count = UNLIMITED;

  TRI_TRY(tri_jarg_text(a, c, 0, c->self, &old));
  if (c->self.note == TRI_J_MARKUP) { /* escape() takes anything */
    if (tri_jis_text(*c->arg[1]))
      by = tri_jas_text(*c->arg[1]);
    else
      TRI_TRY(tri_jstr(a, *c->arg[1], &by));
    TRI_TRY(tri_jtext_escape(a, by, &by));
  } else
    TRI_TRY(tri_jarg_text(a, c, 1, c->self, &by));
  TRI_TRY(tri_jarg_whole(c, 2, UNLIMITED, &count));
  return tri_jtext_replace(a, c->self, old, by, count, out);
}

/* Returns the part of self between arguments 1 and 2, counted in code points. *past: it begins after the
 * end. */
static tri_status window(tri_jarena *a, const tri_jcalled *c, int64_t *begin, tri_jvalue *out, bool *past) {
  int64_t n = tri_jpoints(c->self.as.text.s, c->self.as.text.n), end = n;

  *begin = 0;
  TRI_TRY(tri_jarena_step(a, (int64_t)(c->self.as.text.n / 64)));
  if (c->arg[1] && c->arg[1]->kind != TRI_J_NONE) TRI_TRY(tri_jarg_whole(c, 1, 0, begin));
  if (c->arg[2] && c->arg[2]->kind != TRI_J_NONE) TRI_TRY(tri_jarg_whole(c, 2, n, &end));
  tri_jrange_clip(n, begin, &end);
  *past = *begin > n || *begin > end;
  if (*past)
    *out = tri_jtext("", 0);
  else
    TRI_TRY(tri_jtext_pick(a, tri_jmarkup(c->self, false), *begin, end, 1, out));
  return TRI_OK;
}

static tri_status m_find(tri_jarena *a, const tri_jcalled *c, bool last, int64_t *out) {
  tri_jvalue  needle, part;
  int64_t     begin = 0;
  bool        past = false;
  const char *hit = NULL;

  *out = -1;
  TRI_TRY(tri_jarg_text(a, c, 0, c->self, &needle));
  TRI_TRY(window(a, c, &begin, &part, &past));
  if (past) return TRI_OK;
  if (last)
    TRI_TRY(tri_jfind_last(a, part.as.text.s, part.as.text.n, needle, &hit));
  else
    TRI_TRY(tri_jfind(a, part.as.text.s, part.as.text.n, needle, &hit));
  if (hit) *out = begin + tri_jpoints(part.as.text.s, (size_t)(hit - part.as.text.s));
  return TRI_OK;
}

static tri_status put_found(tri_jarena *a, const tri_jcalled *c, bool last, bool must, tri_jvalue *out) {
  int64_t at = 0;

  TRI_TRY(m_find(a, c, last, &at));
  if (must && at < 0) TRI_FAIL(TRI_EINPUT, "substring not found");
  *out = tri_jint(at);
  return TRI_OK;
}

static tri_status find(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return put_found(a, c, false, false, out);
}
static tri_status rfind(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return put_found(a, c, true, false, out);
}
static tri_status index_of(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return put_found(a, c, false, true, out);
}
static tri_status rindex_of(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return put_found(a, c, true, true, out);
}

static tri_status count(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jvalue  needle, part;
  int64_t     begin = 0, n = 0;
  bool        past = false;
  const char *at, *end, *hit = NULL;

  TRI_TRY(tri_jarg_text(a, c, 0, c->self, &needle));
  TRI_TRY(window(a, c, &begin, &part, &past));
  at = part.as.text.s, end = at + part.as.text.n;
  if (past)
    n = 0;
  else if (!needle.as.text.n)
    n = tri_jpoints(at, part.as.text.n) + 1;
  else
    for (;; n++, at = hit + needle.as.text.n) {
      TRI_TRY(tri_jarena_step(a, 1));
      TRI_TRY(tri_jfind(a, at, (size_t)(end - at), needle, &hit));
      if (!hit) break;
    }
  *out = tri_jint(n);
  return TRI_OK;
}

static bool has_affix(tri_jvalue s, tri_jvalue affix, bool at_end) {
  size_t n = s.as.text.n, m = affix.as.text.n;

  return m <= n && !memcmp(at_end ? s.as.text.s + n - m : s.as.text.s, affix.as.text.s, m);
}

static tri_status m_affix(tri_jarena *a, const tri_jcalled *c, bool at_end, tri_jvalue *out) {
  int64_t    begin = 0;
  bool       past = false, has = false;
  tri_jvalue part, v = *c->arg[0];

  TRI_TRY(window(a, c, &begin, &part, &past));
  if (v.kind == TRI_J_TUPLE) {
    for (int64_t i = 0; i < v.as.list->n && !has; i++) {
      tri_jvalue one = v.as.list->item[i];
      TRI_TRY(tri_jarena_step(a, 1));
      if (!tri_jis_text(one))
        TRI_FAIL(TRI_EINPUT, "tuple for %s must only contain str, not %s", c->name, tri_jtype(one));
      has = !past && has_affix(part, tri_jas_text(one), at_end);
    }
  } else if (!tri_jis_text(v))
    TRI_FAIL(TRI_EINPUT, "%s first arg must be str or a tuple of str, not %s", c->name, tri_jtype(v));
  else
    has = !past && has_affix(part, tri_jas_text(v), at_end);
  *out = tri_jbool(has);
  return TRI_OK;
}

static tri_status startswith(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return m_affix(a, c, false, out);
}
static tri_status endswith(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return m_affix(a, c, true, out);
}

static tri_status m_remove(tri_jarena *a, const tri_jcalled *c, bool at_end, tri_jvalue *out) {
  tri_jvalue affix;

  TRI_TRY(tri_jarg_text(a, c, 0, c->self, &affix));
  *out = c->self;
  if (!has_affix(c->self, affix, at_end)) return TRI_OK;
  out->as.text.n -= affix.as.text.n;
  if (!at_end) out->as.text.s += affix.as.text.n;
  return TRI_OK;
}

static tri_status removeprefix(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return m_remove(a, c, false, out);
}
static tri_status removesuffix(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return m_remove(a, c, true, out);
}

static tri_status m_partition(tri_jarena *a, const tri_jcalled *c, bool last, tri_jvalue *out) {
  tri_jvalue  sep, part[3] = {c->self, c->self, c->self};
  const char *s = c->self.as.text.s, *end = s + c->self.as.text.n, *hit = NULL;

  TRI_TRY(tri_jarg_text(a, c, 0, c->self, &sep));
  if (!sep.as.text.n) TRI_FAIL(TRI_EINPUT, "empty separator");
  TRI_TRY(tri_jarena_step(a, (int64_t)(c->self.as.text.n / 64)));
  if (last)
    TRI_TRY(tri_jfind_last(a, s, c->self.as.text.n, sep, &hit));
  else
    TRI_TRY(tri_jfind(a, s, c->self.as.text.n, sep, &hit));
  if (hit) {
    part[0].as.text.n = (size_t)(hit - s);
    part[1] = sep;
    part[1].note = c->self.note;
    part[2].as.text.s = hit + sep.as.text.n;
    part[2].as.text.n = (size_t)(end - part[2].as.text.s);
  } else
    part[1].as.text.n = part[last ? 0 : 2].as.text.n = 0;
  return tri_jlist_make(a, TRI_J_TUPLE, part, 3, out);
}

static tri_status partition(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return m_partition(a, c, false, out);
}
static tri_status rpartition(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return m_partition(a, c, true, out);
}

static tri_status upper(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return tri_jtext_case(a, c->self, TRI_JCASE_UPPER, out);
}
static tri_status lower(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return tri_jtext_case(a, c->self, TRI_JCASE_LOWER, out);
}
static tri_status title(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return tri_jtext_case(a, c->self, TRI_JCASE_TITLE, out);
}
static tri_status casefold(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return tri_jtext_case(a, c->self, TRI_JCASE_FOLD, out);
}
static tri_status capitalize(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return tri_jtext_capitalize(a, c->self, out);
}
static tri_status swapcase(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return tri_jtext_swapcase(a, c->self, out);
}

static tri_status m_align(tri_jarena *a, const tri_jcalled *c, char side, tri_jvalue *out) {
  int64_t    width = 0;
  tri_jvalue fill;

  TRI_TRY(tri_jarg_whole(c, 0, 0, &width));
  TRI_TRY(tri_jarg_text(a, c, 1, TRI_J_LITERAL(" "), &fill));
  if (c->self.note == TRI_J_MARKUP) TRI_TRY(tri_jtext_escape(a, fill, &fill));
  if (tri_jpoints(fill.as.text.s, fill.as.text.n) != 1)
    TRI_FAIL(TRI_EINPUT, "The fill character must be exactly one character long");
  return tri_jtext_align(a, c->self, side, width, fill, out);
}

static tri_status center(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return m_align(a, c, 'c', out);
}
static tri_status ljust(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return m_align(a, c, '<', out);
}
static tri_status rjust(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return m_align(a, c, '>', out);
}

static tri_status zfill(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  int64_t    width = 0;
  bool       sign = c->self.as.text.n && (*c->self.as.text.s == '-' || *c->self.as.text.s == '+');
  tri_jvalue rest = c->self, filled;
  tri_jbuf   b = {.a = a};

  TRI_TRY(tri_jarg_whole(c, 0, 0, &width));
  if (sign) rest.as.text.s++, rest.as.text.n--;
  if (width > 0) width -= sign;
  TRI_TRY(tri_jtext_align(a, rest, '>', width, TRI_J_LITERAL("0"), &filled));
  TRI_TRY(tri_jbuf_put(&b, c->self.as.text.s, sign));
  TRI_TRY(tri_jbuf_put(&b, filled.as.text.s, filled.as.text.n));
  *out = tri_jbuf_value(&b, c->self.note);
  return TRI_OK;
}

static tri_status expandtabs(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  int64_t     size = 8, column = 0;
  const char *p = c->self.as.text.s, *end = p + c->self.as.text.n;
  tri_jbuf    b = {.a = a};

  TRI_TRY(tri_jarg_whole(c, 0, 8, &size));
  if (size > TRI_JINJA_BYTES) TRI_FAIL(TRI_EINPUT, "new string is too long");
  TRI_TRY(tri_jarena_step(a, (int64_t)(c->self.as.text.n / 16)));
  for (size_t bytes; p < end; p += bytes) {
    bytes = tri_jpoint_bytes(p);
    if (*p == '\t') {
      int64_t n = size > 0 ? size - column % size : 0;
      TRI_TRY(tri_jbuf_fill(&b, ' ', n));
      column += n;
      continue;
    }
    TRI_TRY(tri_jbuf_put(&b, p, bytes));
    column = *p == '\n' || *p == '\r' ? 0 : column + 1;
  }
  *out = tri_jbuf_value(&b, c->self.note);
  return TRI_OK;
}

static tri_status join(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  const tri_jlist *list = NULL;
  tri_jbuf         b = {.a = a};
  bool             markup = c->self.note == TRI_J_MARKUP;

  if (c->arg[0]->kind != TRI_J_STRING && tri_jis_text(*c->arg[0])) /* joined texts: their characters */
    TRI_TRY(tri_jiterate(a, tri_jas_text(*c->arg[0]), &list));
  else
    TRI_TRY(tri_jiterate(a, *c->arg[0], &list));
  for (int64_t i = 0; i < list->n; i++) {
    tri_jvalue v = list->item[i];
    if (markup && !tri_jis_text(v)) TRI_TRY(tri_jstr(a, v, &v));
    if (!tri_jis_text(v))
      TRI_FAIL(TRI_EINPUT, "sequence item %lld: expected str instance, %s found", (long long)i, tri_jtype(v));
    v = tri_jas_text(v);
    if (markup) TRI_TRY(tri_jtext_escape(a, v, &v));
    if (i) TRI_TRY(tri_jbuf_put(&b, c->self.as.text.s, c->self.as.text.n));
    TRI_TRY(tri_jarena_step(a, 1));
    TRI_TRY(tri_jbuf_put(&b, v.as.text.s, v.as.text.n));
  }
  *out = tri_jbuf_value(&b, c->self.note);
  return TRI_OK;
}

static tri_status format(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return tri_jformat(a, c->self, c->all, out);
}

/* Says if there are characters and all have this class, or its alternative. */
static tri_status all_are(tri_jarena *a, const tri_jcalled *c, tri_jclass class, tri_jclass or_class,
                          bool empty, tri_jvalue *out) {
  const char *p = c->self.as.text.s, *end = p + c->self.as.text.n;
  bool        all = p < end || empty;

  TRI_TRY(tri_jarena_step(a, (int64_t)(c->self.as.text.n / 16)));
  for (size_t bytes; p < end && all; p += bytes) {
    int32_t x = tri_jpoint_read(p, &bytes);
    all = tri_jchar_is(x, class) || (or_class != class && tri_jchar_is(x, or_class));
  }
  *out = tri_jbool(all);
  return TRI_OK;
}

static tri_status isalpha_(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return all_are(a, c, TRI_JC_ALPHA, TRI_JC_ALPHA, false, out);
}
static tri_status isalnum_(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return all_are(a, c, TRI_JC_ALPHA, TRI_JC_NUMERIC, false, out);
}
static tri_status isdecimal_(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return all_are(a, c, TRI_JC_DECIMAL, TRI_JC_DECIMAL, false, out);
}
static tri_status isdigit_(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return all_are(a, c, TRI_JC_DIGIT, TRI_JC_DIGIT, false, out);
}
static tri_status isnumeric_(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return all_are(a, c, TRI_JC_NUMERIC, TRI_JC_NUMERIC, false, out);
}
static tri_status isspace_(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return all_are(a, c, TRI_JC_SPACE, TRI_JC_SPACE, false, out);
}
static tri_status isprintable_(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return all_are(a, c, TRI_JC_PRINTABLE, TRI_JC_PRINTABLE, true, out);
}

static tri_status isascii_(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  bool all = true;

  TRI_TRY(tri_jarena_step(a, (int64_t)(c->self.as.text.n / 64)));
  for (size_t i = 0; i < c->self.as.text.n && all; i++) all = (unsigned char)c->self.as.text.s[i] < 128;
  *out = tri_jbool(all);
  return TRI_OK;
}

/* str.isupper, str.islower: there is a character of this case, and none of the other case or of title
 * case. */
static tri_status m_is_case(tri_jarena *a, const tri_jcalled *c, bool is_upper, tri_jvalue *out) {
  const char *p = c->self.as.text.s, *end = p + c->self.as.text.n;
  bool        any = false, other = false;

  TRI_TRY(tri_jarena_step(a, (int64_t)(c->self.as.text.n / 16)));
  for (size_t bytes; p < end && !other; p += bytes) {
    int32_t x = tri_jpoint_read(p, &bytes);
    any = any || tri_jchar_is(x, is_upper ? TRI_JC_UPPER : TRI_JC_LOWER);
    other = tri_jchar_is(x, is_upper ? TRI_JC_LOWER : TRI_JC_UPPER) || tri_jchar_is(x, TRI_JC_TITLE);
  }
  *out = tri_jbool(any && !other);
  return TRI_OK;
}

static tri_status isupper_(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return m_is_case(a, c, true, out);
}
static tri_status islower_(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return m_is_case(a, c, false, out);
}

static tri_status istitle_(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  const char *p = c->self.as.text.s, *end = p + c->self.as.text.n;
  bool        any = false, ok = true, in_word = false;

  TRI_TRY(tri_jarena_step(a, (int64_t)(c->self.as.text.n / 16)));
  for (size_t bytes; p < end && ok; p += bytes) {
    int32_t x = tri_jpoint_read(p, &bytes);
    if (tri_jchar_is(x, TRI_JC_UPPER) || tri_jchar_is(x, TRI_JC_TITLE))
      ok = !in_word, in_word = any = true;
    else if (tri_jchar_is(x, TRI_JC_LOWER))
      ok = in_word, any = true;
    else
      in_word = false;
  }
  *out = tri_jbool(any && ok);
  return TRI_OK;
}

/* clang-format off */
static const tri_jrow methods[] = {
  {"capitalize", "/", capitalize}, {"casefold", "/", casefold}, {"center", "/width,fillchar=", center},
  {"count", "/sub,start=,end=", count}, {"endswith", "/suffix,start=,end=", endswith},
  {"expandtabs", "tabsize=", expandtabs}, {"find", "/sub,start=,end=", find}, {"format", "*", format},
  {"index", "/sub,start=,end=", index_of}, {"isalnum", "/", isalnum_}, {"isalpha", "/", isalpha_},
  {"isascii", "/", isascii_}, {"isdecimal", "/", isdecimal_}, {"isdigit", "/", isdigit_},
  {"islower", "/", islower_}, {"isnumeric", "/", isnumeric_}, {"isprintable", "/", isprintable_},
  {"isspace", "/", isspace_}, {"istitle", "/", istitle_}, {"isupper", "/", isupper_}, {"join", "/iterable", join},
  {"ljust", "/width,fillchar=", ljust}, {"lower", "/", lower}, {"lstrip", "/chars=", lstrip},
  {"partition", "/sep", partition}, {"removeprefix", "/prefix", removeprefix}, {"removesuffix", "/suffix", removesuffix},
  {"replace", "/old,new,count=", replace}, {"rfind", "/sub,start=,end=", rfind}, {"rindex", "/sub,start=,end=", rindex_of},
  {"rjust", "/width,fillchar=", rjust}, {"rpartition", "/sep", rpartition}, {"rsplit", "sep=,maxsplit=", rsplit},
  {"rstrip", "/chars=", rstrip}, {"split", "sep=,maxsplit=", split}, {"splitlines", "keepends=", splitlines},
  {"startswith", "/prefix,start=,end=", startswith}, {"strip", "/chars=", strip}, {"swapcase", "/", swapcase},
  {"title", "/", title}, {"upper", "/", upper}, {"zfill", "/width", zfill},
  /* known but refused, because they need bytes, tables or other mappings */
  {"encode", "", NULL}, {"translate", "", NULL}, {"maketrans", "", NULL}, {"format_map", "", NULL},
  {"isidentifier", "", NULL},
};
/* clang-format on */

const tri_jrow *tri_jmethods_text(int64_t *n) {
  *n = sizeof methods / sizeof *methods;
  return methods;
}
