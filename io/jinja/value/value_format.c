/* value_format.c - the two ways to format a Python str: `%` and format(). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  PRECISION_MOST = 1000,
  ZEROS_MOST = 1000
}; /* chosen. ZEROS_MOST limits a width filled with grouped zeros */
/* 309 digits, a point, the precision, and 102 separators. */
enum { NUMBER_BYTES = 1400, GROUPED_BYTES = 1600 };

/* A format specification, without the type. */
typedef struct spec {
  bool    left, plus, space, alternate, zero, has_width, has_precision;
  bool    has_sign;     /* format(): one of + - space */
  bool    no_minus;     /* format(): 'z', a result of 0 has no minus */
  char    align, group; /* format(): '<', '>', '^', '=' or 0, and ',', '_' or 0 */
  char    type;
  char    fill[4];
  size_t  fill_bytes;
  int64_t width, precision;
} spec;

static tri_jvalue fill_of(const spec *s) {
  return tri_jtext(s->fill_bytes ? s->fill : " ", s->fill_bytes ? s->fill_bytes : 1);
}

/* Writes sign and prefix, then digits (both ASCII), with zeros between them or aligned as a whole. */
static tri_status put_number(tri_jbuf *b, const spec *s, const char *sign, const char *digits) {
  int64_t    n = (int64_t)(strlen(sign) + strlen(digits)), space = s->has_width ? s->width - n : 0;
  char       whole[GROUPED_BYTES + 8];
  tri_jvalue v, zero = TRI_J_LITERAL("0");

  if (space > 0 && ((s->zero && !s->left && !s->align) || s->align == '=')) {
    tri_jvalue fill = s->fill_bytes ? fill_of(s) : s->zero ? zero : fill_of(s);
    TRI_TRY(tri_jbuf_text(b, sign));
    TRI_TRY(tri_jtext_repeat(b->a, fill, space, &v));
    TRI_TRY(tri_jbuf_put(b, v.as.text.s, v.as.text.n));
    return tri_jbuf_text(b, digits);
  }
  snprintf(whole, sizeof whole, "%s%s", sign, digits);
  TRI_TRY(tri_jtext_align(b->a, tri_jtext(whole, strlen(whole)),
                          s->left    ? '<'
                          : s->align ? s->align
                                     : '>',
                          s->has_width ? s->width : 0,
                          s->zero && !s->fill_bytes && s->align ? zero : fill_of(s), &v));
  return tri_jbuf_put(b, v.as.text.s, v.as.text.n);
}

static const char *sign_of(bool negative, const spec *s) {
  return negative ? "-" : s->plus ? "+" : s->space ? " " : "";
}

/* Says if zeros fill the space after the sign. */
static bool has_zeros(const spec *s) {
  bool fills = s->fill_bytes == 1 && s->fill[0] == '0';

  return s->align == '=' ? fills || (s->zero && !s->fill_bytes) : s->zero && !s->align;
}

/* Puts a separator every third digit (',', '_'), or every fourth for other bases, up to the first character
 * that is not a digit. With zero padding, the zeros are grouped too. */
static tri_status group_digits(const spec *s, size_t sign_bytes, const char *digits,
                               char out[GROUPED_BYTES + 8]) {
  size_t n = strspn(digits, s->type == 'x' || s->type == 'X' ? "0123456789abcdefABCDEF" : "0123456789"),
         least = n, k = 0;
  size_t every = s->type == 'x' || s->type == 'X' || s->type == 'o' || s->type == 'b' ? 4 : 3;
  size_t tail = strlen(digits + n), width = s->has_width && has_zeros(s) ? (size_t)s->width : 0;

  if (width > ZEROS_MOST)
    TRI_FAIL(TRI_EINPUT, "a width above %d with zeros and separators is not supported", ZEROS_MOST);
  while (least + (least - 1) / every + tail + sign_bytes < width) least++;
  for (size_t i = 0; i < least; i++) {
    if (i && (least - i) % every == 0) out[k++] = s->group;
    out[k++] = i < least - n ? '0' : digits[i - (least - n)];
  }
  TRI_ASSERT(k + tail < GROUPED_BYTES);
  memcpy(out + k, digits + n, tail + 1);
  return TRI_OK;
}

static tri_status put_whole(tri_jbuf *b, const spec *s, int64_t x) {
  char     digits[NUMBER_BYTES + 8] = "", grouped[GROUPED_BYTES + 8], sign[4];
  uint64_t u = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
  size_t   n = 0, least = s->has_precision ? (size_t)s->precision : 1;
  char     reversed[80];
  int      base = s->type == 'o' ? 8 : s->type == 'x' || s->type == 'X' ? 16 : s->type == 'b' ? 2 : 10, k = 0;
  const char *prefix = base == 8 ? "0o" : base == 2 ? "0b" : s->type == 'X' ? "0X" : "0x";

  do reversed[k++] = (s->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[u % (unsigned)base];
  while (u /= (unsigned)base);
  for (size_t i = (size_t)k; i < least; i++) digits[n++] = '0';
  while (k) digits[n++] = reversed[--k];
  digits[n] = 0;
  snprintf(sign, sizeof sign, "%s%s", sign_of(x < 0, s), s->alternate && base != 10 ? prefix : "");
  if (s->group) TRI_TRY(group_digits(s, strlen(sign), digits, grouped));
  return put_number(b, s, sign, s->group ? grouped : digits);
}

/* Drops zeros after the point, and the point, before an exponent or the end. */
static void drop_zeros(char *text) {
  char *e = strchr(text, 'e'), *end = e ? e : text + strlen(text), *p = end;

  if (!memchr(text, '.', (size_t)(end - text))) return;
  while (p[-1] == '0') p--;
  if (p[-1] == '.') p--;
  memmove(p, end, strlen(end) + 1);
}

/* format() without a type: like 'g', but with a digit after the point, and an exponent one place earlier. */
static void general_text(double x, int precision, char *out) {
  char *e;
  int   exponent;

  if (precision == 0) precision = 1;
  snprintf(out, NUMBER_BYTES, "%.*e", precision - 1, x);
  if (!(e = strchr(out, 'e'))) return; /* inf, nan */
  exponent = atoi(e + 1);
  if (exponent < -4 || exponent >= precision - 1) {
    if (exponent == 0) { /* a single digit */
      drop_zeros(out);
      if ((e = strchr(out, 'e'))) *e = 0;
      if (precision > 1)
        strcat(out, ".0");
      else
        strcat(out, "e+00");
      return;
    }
    drop_zeros(out);
    return;
  }
  snprintf(out, NUMBER_BYTES, "%.*f", precision - 1 - exponent, x);
  drop_zeros(out);
  if (!strchr(out, '.')) strcat(out, ".0");
}

/* Writes %#g through its two forms. Some C libraries lose zeros if rounding adds a digit (999999.5). */
static void alternate_general(double x, int precision, char type, char *out) {
  char *e, fmt[8];

  if (precision == 0) precision = 1;
  snprintf(fmt, sizeof fmt, "%%#.*%c", type == 'g' ? 'e' : 'E');
  snprintf(out, NUMBER_BYTES, fmt, precision - 1, x);
  e = strchr(out, type == 'g' ? 'e' : 'E');
  if (!e) return; /* inf, nan */
  if (atoi(e + 1) >= -4 && atoi(e + 1) < precision)
    snprintf(out, NUMBER_BYTES, "%#.*f", precision - 1 - atoi(e + 1), x);
}

static tri_status put_real(tri_jbuf *b, const spec *s, double x) {
  char digits[NUMBER_BYTES + 8], grouped[GROUPED_BYTES + 8], fmt[16];
  int  precision = s->has_precision ? (int)s->precision : 6;
  bool negative = signbit(x) && !isnan(x);
  char type = s->type == '%' ? 'f' : s->type == 'n' ? 'g' : s->type;

  x = s->type == '%' ? fabs(x) * 100 : fabs(x);
  if (!type && !s->has_precision)
    tri_jreal_text(x, digits);
  else if (!type)
    general_text(x, precision, digits);
  else if (s->alternate && (type == 'g' || type == 'G') && isfinite(x))
    alternate_general(x, precision, type, digits);
  else {
    snprintf(fmt, sizeof fmt, "%%%s.*%c", s->alternate ? "#" : "", type);
    snprintf(digits, NUMBER_BYTES, fmt, precision, x);
  }
  if (s->no_minus && !strpbrk(digits, "123456789in")) negative = false;
  if (s->type == '%') strcat(digits, "%");
  if (s->group) TRI_TRY(group_digits(s, negative || s->plus || s->space, digits, grouped));
  return put_number(b, s, sign_of(negative, s), s->group ? grouped : digits);
}

static tri_status put_text(tri_jbuf *b, const spec *s, tri_jvalue v) {
  if (s->has_precision) TRI_TRY(tri_jtext_pick(b->a, v, 0, s->precision, 1, &v));
  TRI_TRY(tri_jtext_align(b->a, v,
                          s->left    ? '<'
                          : s->align ? s->align
                                     : '>',
                          s->has_width ? s->width : 0, fill_of(s), &v));
  return tri_jbuf_put(b, v.as.text.s, v.as.text.n);
}

/* ascii(): a repr with escapes for characters beyond ASCII. */
static tri_status to_ascii(tri_jarena *a, tri_jvalue s, tri_jvalue *out) {
  tri_jbuf b = {.a = a};

  TRI_TRY(tri_jarena_step(a, (int64_t)(s.as.text.n / 16)));
  for (size_t i = 0, bytes; i < s.as.text.n; i += bytes) {
    int32_t c = tri_jpoint_read(s.as.text.s + i, &bytes);
    if (c < 128)
      TRI_TRY(tri_jbuf_put(&b, s.as.text.s + i, 1));
    else
      TRI_TRY(tri_jbuf_printf(&b, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)c));
  }
  *out = tri_jbuf_value(&b, 0);
  return TRI_OK;
}

/* ---- % ---- */

typedef struct percent {
  tri_jbuf          b;
  tri_jvalue        args; /* as given */
  const tri_jvalue *item; /* by position, [n] */
  int64_t           n, at;
  bool              markup, is_map;
  const char       *p, *end;
} percent;

static tri_status next_argument(percent *f, tri_jvalue *out) {
  if (f->at >= f->n) TRI_FAIL(TRI_EINPUT, "not enough arguments for format string");
  *out = f->item[f->at++];
  return TRI_OK;
}

/* Reads a number of the format. `*` takes the next argument. */
static tri_status read_number(percent *f, const char *what, int64_t most, int64_t *out) {
  tri_jvalue v;

  *out = 0;
  if (f->p < f->end && *f->p == '*') {
    f->p++;
    TRI_TRY(next_argument(f, &v));
    if (f->markup || !tri_jis_whole(v)) TRI_FAIL(TRI_EINPUT, "* wants int");
    *out = tri_jwhole(v);
  } else
    for (; f->p < f->end && *f->p >= '0' && *f->p <= '9'; f->p++)
      if (*out <= most) *out = 10 * *out + (*f->p - '0');
  if (*out > most || *out < -most)
    TRI_FAIL(TRI_EINPUT, "a %s above %lld in a format is not supported", what, (long long)most);
  return TRI_OK;
}

/* Reads %(name)s. The value of the name becomes the only argument. */
static tri_status read_name(percent *f, tri_jvalue *slot) {
  const char *from = ++f->p;
  int         depth = 1;
  bool        found = false;

  if (!f->is_map) TRI_FAIL(TRI_EINPUT, "format requires a mapping");
  for (; f->p < f->end; f->p++) {
    depth += (*f->p == '(') - (*f->p == ')');
    if (!depth) break;
  }
  if (f->p == f->end) TRI_FAIL(TRI_EINPUT, "incomplete format key");
  if (f->args.kind != TRI_J_MAP)
    TRI_FAIL(TRI_EINPUT, "%s indices must be integers or slices, not str", tri_jtype(f->args));
  TRI_TRY(tri_jmap_get(f->b.a, f->args, tri_jtext(from, (size_t)(f->p - from)), slot, &found));
  if (!found) TRI_FAIL(TRI_EINPUT, "KeyError: '%.*s'", (int)(f->p - from > 100 ? 100 : f->p - from), from);
  f->p++;
  f->item = slot;
  f->n = 1;
  f->at = 0;
  return TRI_OK;
}

static tri_status read_spec(percent *f, spec *s) {
  for (bool flag = true; flag && f->p < f->end; f->p += flag) switch (*f->p) {
    case '-':
      s->left = true;
      break;
    case '+':
      s->plus = true;
      break;
    case ' ':
      s->space = true;
      break;
    case '#':
      s->alternate = true;
      break;
    case '0':
      s->zero = true;
      break;
    default:
      flag = false;
    }
  TRI_TRY(read_number(f, "width", TRI_JINJA_BYTES, &s->width));
  if (s->width < 0) s->left = true, s->width = -s->width;
  s->has_width = s->width > 0;
  if (f->p < f->end && *f->p == '.') {
    f->p++;
    TRI_TRY(read_number(f, "precision", TRI_JINJA_BYTES, &s->precision));
    if (s->precision < 0) s->precision = 0;
    s->has_precision = true;
  }
  if (f->p < f->end && strchr("hlL", *f->p)) f->p++;
  if (f->p == f->end) TRI_FAIL(TRI_EINPUT, "incomplete format");
  s->type = *f->p++;
  if (s->precision > PRECISION_MOST && !strchr("srac", s->type))
    TRI_FAIL(TRI_EINPUT, "a precision above %d in a format is not supported", PRECISION_MOST);
  return TRI_OK;
}

static tri_status put_percent_text(percent *f, const spec *s, tri_jvalue v) {
  tri_jbuf   b = {.a = f->b.a};
  tri_jvalue text;

  if (s->type == 's')
    TRI_TRY(tri_jwrite_str(&b, v));
  else
    TRI_TRY(tri_jwrite_repr(&b, v));
  text = tri_jbuf_value(&b, 0);
  if (s->type == 'a') TRI_TRY(to_ascii(f->b.a, text, &text));
  if (f->markup && s->type == 's' && v.kind == TRI_J_STRING) text.note = v.note;
  if (f->markup) TRI_TRY(tri_jtext_escape(f->b.a, text, &text));
  return put_text(&f->b, s, text);
}

/* Refused, because markupsafe wraps the arguments of a safe text and hides their type. */
static tri_status refuse_wrapped(const spec *s) {
  TRI_FAIL(TRI_EINPUT, "%%%c takes no argument if the format is marked as safe", s->type);
}

static tri_status put_percent(percent *f, spec *s, tri_jvalue v, int64_t place) {
  char    bytes[4];
  int64_t c = 0;

  switch (s->type) {
  case 's':
  case 'r':
  case 'a':
    return put_percent_text(f, s, v);
  case 'c':
    s->has_precision = false;
    if (f->markup) return refuse_wrapped(s);
    if (tri_jis_text(v) && tri_jpoints(tri_jas_text(v).as.text.s, tri_jas_text(v).as.text.n) == 1)
      return put_text(&f->b, s, tri_jas_text(v));
    if (!tri_jis_whole(v)) TRI_FAIL(TRI_EINPUT, "%%c requires int or char");
    c = tri_jwhole(v);
    if (c < 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
      TRI_FAIL(TRI_EINPUT, "%%c arg not in range(0x110000)");
    return put_text(&f->b, s, tri_jtext(bytes, tri_jpoint_write((int32_t)c, bytes)));
  case 'd':
  case 'i':
  case 'u':
    if (v.kind == TRI_J_FLOAT)
      TRI_TRY(tri_jwhole_of_real(v.as.real, &c));
    else if (!tri_jis_whole(v))
      TRI_FAIL(TRI_EINPUT, "%%%c format: a real number is required, not %s", s->type, tri_jtype(v));
    else
      c = tri_jwhole(v);
    return put_whole(&f->b, s, c);
  case 'o':
  case 'x':
  case 'X':
    if (f->markup) return refuse_wrapped(s);
    if (!tri_jis_whole(v))
      TRI_FAIL(TRI_EINPUT, "%%%c format: an integer is required, not %s", s->type, tri_jtype(v));
    return put_whole(&f->b, s, tri_jwhole(v));
  case 'e':
  case 'E':
  case 'f':
  case 'F':
  case 'g':
  case 'G':
    if (v.kind != TRI_J_FLOAT && !tri_jis_whole(v))
      TRI_FAIL(TRI_EINPUT, "must be real number, not %s", tri_jtype(v));
    return put_real(&f->b, s, v.kind == TRI_J_FLOAT ? v.as.real : (double)tri_jwhole(v));
  default:
    TRI_FAIL(TRI_EINPUT, "unsupported format character '%c' (0x%x) at index %lld", s->type,
             (unsigned char)s->type, (long long)place);
  }
}

tri_status tri_jpercent(tri_jarena *a, tri_jvalue format, tri_jvalue args, tri_jvalue *out) {
  percent    f = {.b = {.a = a},
                  .args = args,
                  .p = format.as.text.s,
                  .end = format.as.text.s + format.as.text.n,
                  .markup = format.note == TRI_J_MARKUP};
  tri_jvalue slot, v;

  /* Anything with __getitem__ counts as a mapping. It may leave arguments unused. */
  f.is_map = args.kind == TRI_J_MAP || args.kind == TRI_J_LIST || args.kind == TRI_J_RANGE ||
             args.kind == TRI_J_UNDEFINED;
  f.item = args.kind == TRI_J_TUPLE ? args.as.list->item : &args;
  f.n = args.kind == TRI_J_TUPLE ? args.as.list->n : 1;
  while (f.p < f.end) {
    const char *from = f.p, *mark = memchr(from, '%', (size_t)(f.end - from));
    spec        s = {0};
    TRI_TRY(tri_jbuf_put(&f.b, from, (size_t)((mark ? mark : f.end) - from)));
    if (!mark) break;
    TRI_TRY(tri_jarena_step(a, 1));
    f.p = mark + 1;
    if (f.p < f.end && *f.p == '%') { /* with anything between, '%' is an unknown type */
      f.p++;
      TRI_TRY(tri_jbuf_text(&f.b, "%"));
      continue;
    }
    if (f.p < f.end && *f.p == '(') TRI_TRY(read_name(&f, &slot));
    TRI_TRY(read_spec(&f, &s));
    TRI_TRY(next_argument(&f, &v));
    TRI_TRY(put_percent(&f, &s, v, f.p - 1 - format.as.text.s));
  }
  if (f.at < f.n && !f.is_map) TRI_FAIL(TRI_EINPUT, "not all arguments converted during string formatting");
  *out = tri_jbuf_value(&f.b, format.note);
  return TRI_OK;
}

/* ---- format() ---- */

static bool is_align(const char *p, const char *end) { return p < end && strchr("<>^=", *p) != NULL; }

static tri_status read_digits(const char **p, const char *end, int64_t most, const char *what, int64_t *out) {
  *out = 0;
  for (; *p < end && **p >= '0' && **p <= '9'; ++*p)
    if (*out <= most) *out = 10 * *out + (**p - '0');
  if (*out > most)
    TRI_FAIL(TRI_EINPUT, "a %s above %lld in a format is not supported", what, (long long)most);
  return TRI_OK;
}

/* [[fill]align][sign][#][0][width][group][.precision][type] */
static tri_status read_format_spec(const char *p, const char *end, spec *s) {
  size_t fill = p < end ? tri_jpoint_bytes(p) : 0;

  if (fill && is_align(p + fill, end)) {
    memcpy(s->fill, p, fill);
    s->fill_bytes = fill;
    p += fill;
  }
  if (is_align(p, end)) s->align = *p++;
  if (p < end && strchr("+- ", *p)) s->has_sign = true, s->plus = *p == '+', s->space = *p == ' ', p++;
  if (p < end && *p == 'z') s->no_minus = true, p++;
  if (p < end && *p == '#') s->alternate = true, p++;
  if (p < end && *p == '0') s->zero = true, p++;
  s->has_width = p < end && *p >= '0' && *p <= '9';
  TRI_TRY(read_digits(&p, end, TRI_JINJA_BYTES, "width", &s->width));
  if (p < end && (*p == ',' || *p == '_')) s->group = *p++;
  if (p < end && *p == '.') {
    p++;
    s->has_precision = p < end && *p >= '0' && *p <= '9';
    if (!s->has_precision) TRI_FAIL(TRI_EINPUT, "Format specifier missing precision");
    TRI_TRY(read_digits(&p, end, PRECISION_MOST, "precision", &s->precision));
  }
  if (p < end) s->type = *p++;
  if (p < end) TRI_FAIL(TRI_EINPUT, "Invalid format specifier");
  return TRI_OK;
}

static tri_status unknown_code(const spec *s, tri_jvalue v) {
  TRI_FAIL(TRI_EINPUT, "Unknown format code '%c' for object of type '%s'", s->type, tri_jtype(v));
}

static tri_status put_field(tri_jbuf *b, spec *s, tri_jvalue v) {
  if (tri_jis_text(v)) {
    if (s->type && s->type != 's') return unknown_code(s, v);
    if (s->has_sign || s->no_minus || s->alternate || s->align == '=' || s->group)
      TRI_FAIL(TRI_EINPUT, "this format specifier is not allowed for a str");
    if (s->zero && !s->fill_bytes) s->fill[0] = '0', s->fill_bytes = 1;
    if (!s->align) s->align = '<';
    return put_text(b, s, tri_jas_text(v));
  }
  if (tri_jis_whole(v) && (!s->type || strchr("dxXobn", s->type))) {
    if (s->no_minus)
      TRI_FAIL(TRI_EINPUT, "Negative zero coercion (z) not allowed in format specifier with integer");
    if (s->has_precision) TRI_FAIL(TRI_EINPUT, "Precision not allowed in integer format specifier");
    if (s->group && s->type && strchr(s->group == ',' ? "xXobn" : "n", s->type))
      TRI_FAIL(TRI_EINPUT, "Cannot specify '%c' with '%c'.", s->group, s->type);
    return put_whole(b, s, tri_jwhole(v));
  }
  if (v.kind == TRI_J_FLOAT && s->alternate && !s->type)
    TRI_FAIL(TRI_EINPUT, "format(): # without a type is not supported for a float");
  if (s->group && s->type == 'n') TRI_FAIL(TRI_EINPUT, "Cannot specify '%c' with 'n'.", s->group);
  if ((tri_jis_whole(v) || v.kind == TRI_J_FLOAT) && (!s->type || strchr("eEfFgGn%", s->type)))
    return put_real(b, s, v.kind == TRI_J_FLOAT ? v.as.real : (double)tri_jwhole(v));
  if (tri_jis_whole(v) && s->type == 'c') TRI_FAIL(TRI_EINPUT, "format code 'c' is not supported");
  if (tri_jis_whole(v) || v.kind == TRI_J_FLOAT) return unknown_code(s, v);
  TRI_FAIL(TRI_EINPUT, "unsupported format string passed to %s.__format__", tri_jtype(v));
}

typedef struct fields {
  const tri_jargs *args;
  int64_t          next;
  bool             numbered, automatic;
} fields;

static tri_status field_value(fields *f, const char *name, size_t n, tri_jvalue *out) {
  int64_t i = 0;
  size_t  digits = 0;

  if (n && (memchr(name, '.', n) || memchr(name, '[', n)))
    TRI_FAIL(TRI_EINPUT, "format(): attributes and elements in a field are not supported: {%.*s}",
             (int)(n < 100 ? n : 100), name);
  while (digits < n && name[digits] >= '0' && name[digits] <= '9' && digits < 9)
    i = 10 * i + (name[digits++] - '0');
  if (digits < n) {
    for (i = 0; i < f->args->n_named; i++)
      if (f->args->key[i].as.text.n == n && !memcmp(f->args->key[i].as.text.s, name, n)) {
        *out = f->args->named[i];
        return TRI_OK;
      }
    TRI_FAIL(TRI_EINPUT, "KeyError: '%.*s'", (int)(n < 100 ? n : 100), name);
  }
  if (n)
    f->numbered = true;
  else
    f->automatic = true, i = f->next++;
  if (f->numbered && f->automatic)
    TRI_FAIL(TRI_EINPUT, "cannot switch from manual field specification to automatic field numbering");
  if (i >= f->args->n_pos)
    TRI_FAIL(TRI_EINPUT, "Replacement index %lld out of range for positional args tuple", (long long)i);
  *out = f->args->pos[i];
  return TRI_OK;
}

/* Writes the field between { and }: name, !conversion, :spec. */
static tri_status put_replacement(tri_jbuf *b, fields *f, const char *p, const char *end, bool markup) {
  const char *name_end = p, *from;
  tri_jvalue  v, text;
  spec        s = {0};
  tri_jbuf    piece = {.a = b->a};
  char        conversion = 0;

  while (name_end < end && *name_end != '!' && *name_end != ':') name_end++;
  TRI_TRY(field_value(f, p, (size_t)(name_end - p), &v));
  from = name_end;
  if (from < end && *from == '!') {
    if (from + 1 < end) conversion = from[1];
    from += 2;
    if (!conversion || !strchr("sra", conversion) || (from < end && *from != ':'))
      TRI_FAIL(TRI_EINPUT, "format(): this conversion is not supported: !%c", conversion ? conversion : ' ');
    if (conversion == 's')
      TRI_TRY(tri_jstr(b->a, v, &v));
    else {
      TRI_TRY(tri_jwrite_repr(&piece, v));
      v = tri_jbuf_value(&piece, 0);
      if (conversion == 'a') TRI_TRY(to_ascii(b->a, v, &v));
      piece = (tri_jbuf){.a = b->a};
    }
  }
  if (from < end) from++;
  if (memchr(from, '{', (size_t)(end - from)))
    TRI_FAIL(TRI_EINPUT, "format(): fields in a format specifier are not supported");
  if (from == end)
    TRI_TRY(tri_jwrite_str(&piece, v));
  else {
    TRI_TRY(read_format_spec(from, end, &s));
    TRI_TRY(put_field(&piece, &s, v));
  }
  text = tri_jbuf_value(&piece, v.kind == TRI_J_STRING ? v.note : 0);
  if (markup) TRI_TRY(tri_jtext_escape(b->a, text, &text));
  return tri_jbuf_put(b, text.as.text.s, text.as.text.n);
}

tri_status tri_jformat(tri_jarena *a, tri_jvalue format, const tri_jargs *args, tri_jvalue *out) {
  const char *p = format.as.text.s, *end = p + format.as.text.n, *close;
  tri_jbuf    b = {.a = a};
  fields      f = {.args = args};

  while (p < end) {
    const char *from = p;
    int         depth = 1;
    while (p < end && *p != '{' && *p != '}') p++;
    TRI_TRY(tri_jbuf_put(&b, from, (size_t)(p - from)));
    if (p == end) break;
    TRI_TRY(tri_jarena_step(a, 1));
    if (p + 1 < end && p[1] == *p) {
      TRI_TRY(tri_jbuf_put(&b, p, 1));
      p += 2;
      continue;
    }
    if (*p == '}') TRI_FAIL(TRI_EINPUT, "Single '}' encountered in format string");
    for (close = ++p; close < end; close++) {
      depth += (*close == '{') - (*close == '}');
      if (!depth) break;
    }
    if (close == end) TRI_FAIL(TRI_EINPUT, "expected '}' before end of string");
    TRI_TRY(put_replacement(&b, &f, p, close, format.note == TRI_J_MARKUP));
    p = close + 1;
  }
  *out = tri_jbuf_value(&b, format.note);
  return TRI_OK;
}
