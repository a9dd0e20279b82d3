/* value_operators.c - the operators of expressions, by Python's rules. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

#include <math.h>

__extension__ typedef unsigned __int128 wide;

static const char *const symbol[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

static tri_status unsupported(tri_jop op, tri_jvalue x, tri_jvalue y) {
  TRI_FAIL(TRI_EINPUT, "unsupported operand type(s) for %s: '%s' and '%s'", symbol[op], tri_jtype(x),
           tri_jtype(y));
}

static tri_status overflow(const char *what) {
  TRI_FAIL(TRI_EINPUT, "integers beyond 64 bits are not supported: the result of %s", what);
}

static uint64_t magnitude(int64_t x) { return x < 0 ? 0 - (uint64_t)x : (uint64_t)x; }

/* Returns x / y rounded once, as Python divides integers. The dividend is shifted up to its 127th bit, so
 * the quotient has at least 64 bits. The bits beyond the 53 of a double, and any remainder, decide the
 * rounding. */
static double divide_whole(int64_t x, int64_t y) {
  wide n = magnitude(x), d = magnitude(y), q, cut;
  bool rest, up;
  int  moved = 0, shift = 0;

  if (x == 0) return y < 0 ? -0.0 : 0.0;
  while (!(n >> 126)) n <<= 1, moved++;
  q = n / d;
  rest = n % d != 0;
  while (q >> shift >> 53) shift++;
  cut = q & (((wide)1 << shift) - 1);
  up = cut > (wide)1 << (shift - 1) || (cut == (wide)1 << (shift - 1) && (rest || (q >> shift & 1)));
  return ldexp((double)((uint64_t)(q >> shift) + up), shift - moved) * ((x < 0) != (y < 0) ? -1 : 1);
}

static tri_status power_whole(int64_t x, int64_t y, int64_t *out) {
  int64_t result = 1;

  for (; y > 0; y >>= 1) {
    if (y & 1 && __builtin_mul_overflow(result, x, &result)) return overflow("**");
    if (y > 1 && __builtin_mul_overflow(x, x, &x)) return overflow("**");
  }
  *out = result;
  return TRI_OK;
}

/* float_pow of CPython's floatobject.c. */
static tri_status power_real(double x, double y, tri_jvalue *out) {
  double z;

  if (x == 0 && y < 0) TRI_FAIL(TRI_EINPUT, "0.0 cannot be raised to a negative power");
  if (x < 0 && isfinite(x) && isfinite(y) && y != floor(y))
    TRI_FAIL(TRI_EINPUT, "complex numbers are not supported (a negative number to a fractional power)");
  z = pow(x, y);
  if (isinf(z) && isfinite(x) && isfinite(y)) TRI_FAIL(TRI_EINPUT, "Numerical result out of range");
  *out = tri_jfloat(z);
  return TRI_OK;
}

static tri_status whole(tri_jop op, int64_t x, int64_t y, tri_jvalue *out) {
  int64_t z = 0;

  switch (op) {
  case TRI_JOP_ADD:
    if (__builtin_add_overflow(x, y, &z)) return overflow("+");
    break;
  case TRI_JOP_SUB:
    if (__builtin_sub_overflow(x, y, &z)) return overflow("-");
    break;
  case TRI_JOP_MUL:
    if (__builtin_mul_overflow(x, y, &z)) return overflow("*");
    break;
  case TRI_JOP_DIV:
    if (!y) TRI_FAIL(TRI_EINPUT, "division by zero");
    *out = tri_jfloat(divide_whole(x, y));
    return TRI_OK;
  case TRI_JOP_POW:
    if (y < 0) return power_real((double)x, (double)y, out);
    TRI_TRY(power_whole(x, y, &z));
    break;
  default: /* FLOORDIV, MOD: towards minus infinity. The remainder has the divisor's sign */
    if (!y) TRI_FAIL(TRI_EINPUT, "integer %s by zero", op == TRI_JOP_MOD ? "modulo" : "division or modulo");
    if (y == -1 && op == TRI_JOP_FLOORDIV && x == INT64_MIN) return overflow("//");
    if (y == -1)
      z = op == TRI_JOP_MOD ? 0 : -x;
    else {
      bool down = x % y != 0 && (x % y < 0) != (y < 0);
      z = op == TRI_JOP_MOD ? x % y + (down ? y : 0) : x / y - down;
    }
  }
  *out = tri_jint(z);
  return TRI_OK;
}

/* _float_div_mod of CPython's floatobject.c. */
static void divide_real(double x, double y, double *floored, double *rest) {
  double mod = fmod(x, y), div = (x - mod) / y;

  if (mod != 0) {
    if ((y < 0) != (mod < 0)) mod += y, div -= 1;
  } else
    mod = copysign(0, y);
  *rest = mod;
  if (div != 0) {
    *floored = floor(div);
    if (div - *floored > 0.5) *floored += 1;
  } else
    *floored = copysign(0, x / y);
}

static tri_status real(tri_jop op, double x, double y, tri_jvalue *out) {
  double z = 0, rest = 0;

  switch (op) {
  case TRI_JOP_ADD:
    z = x + y;
    break;
  case TRI_JOP_SUB:
    z = x - y;
    break;
  case TRI_JOP_MUL:
    z = x * y;
    break;
  case TRI_JOP_POW:
    return power_real(x, y, out);
  case TRI_JOP_DIV:
    if (y == 0) TRI_FAIL(TRI_EINPUT, "float division by zero");
    z = x / y;
    break;
  default:
    if (y == 0) TRI_FAIL(TRI_EINPUT, op == TRI_JOP_MOD ? "float modulo" : "float floor division by zero");
    divide_real(x, y, &z, &rest);
    if (op == TRI_JOP_MOD) z = rest;
  }
  *out = tri_jfloat(z);
  return TRI_OK;
}

static bool   is_number(tri_jvalue v) { return tri_jis_whole(v) || v.kind == TRI_J_FLOAT; }
static double real_of(tri_jvalue v) { return v.kind == TRI_J_FLOAT ? v.as.real : (double)tri_jwhole(v); }

/* Adds texts. Markup escapes the other text. */
static tri_status add_texts(tri_jarena *a, tri_jvalue x, tri_jvalue y, tri_jvalue *out) {
  tri_jbuf b = {.a = a};
  bool     markup = x.note == TRI_J_MARKUP || y.note == TRI_J_MARKUP;

  if (markup) {
    TRI_TRY(tri_jtext_escape(a, x, &x));
    TRI_TRY(tri_jtext_escape(a, y, &y));
  } else {
    return tri_jtext_join(a, (tri_jvalue[]){x, y}, 2, out);
  }
  TRI_TRY(tri_jbuf_put(&b, x.as.text.s, x.as.text.n));
  TRI_TRY(tri_jbuf_put(&b, y.as.text.s, y.as.text.n));
  *out = tri_jbuf_value(&b, TRI_J_MARKUP);
  return TRI_OK;
}

static bool is_list(tri_jvalue v) { return v.kind == TRI_J_LIST || v.kind == TRI_J_TUPLE; }

static tri_status add(tri_jarena *a, tri_jvalue x, tri_jvalue y, tri_jvalue *out) {
  if (tri_jis_text(x) && tri_jis_text(y) && !(x.kind == TRI_J_LIST && y.kind == TRI_J_LIST))
    return add_texts(a, tri_jas_text(x), tri_jas_text(y), out);
  if (x.kind == y.kind && is_list(x)) return tri_jlist_join(a, x, y, out);
  if (x.kind == TRI_J_STRING || is_list(x))
    TRI_FAIL(TRI_EINPUT, "can only concatenate %s (not \"%s\") to %s",
             x.kind == TRI_J_STRING ? "str" : tri_jtype(x), tri_jtype(y),
             x.kind == TRI_J_STRING ? "str" : tri_jtype(x));
  return unsupported(TRI_JOP_ADD, x, y);
}

static tri_status repeat(tri_jarena *a, tri_jvalue v, int64_t times, tri_jvalue *out) {
  tri_jvalue *item = NULL;
  int64_t     n = v.kind == TRI_J_STRING ? 0 : v.as.list->n;

  if (times < 0) times = 0;
  if (v.kind == TRI_J_STRING) return tri_jtext_repeat(a, v, times, out);
  if (n && times > TRI_JINJA_BYTES / n)
    TRI_FAIL(TRI_EINPUT, "the template takes more than %d MiB of memory", TRI_JINJA_BYTES >> 20);
  TRI_TRY(tri_jlist_reserve(a, v.kind, n * times, &item, out));
  for (int64_t i = 0; i < n * times; i++) item[i] = v.as.list->item[i % n];
  return TRI_OK;
}

static tri_status multiply(tri_jarena *a, tri_jvalue x, tri_jvalue y, tri_jvalue *out) {
  if ((x.kind == TRI_J_STRING || is_list(x)) && tri_jis_whole(y)) return repeat(a, x, tri_jwhole(y), out);
  if ((y.kind == TRI_J_STRING || is_list(y)) && tri_jis_whole(x)) return repeat(a, y, tri_jwhole(x), out);
  if (x.kind == TRI_J_STRING || is_list(x))
    TRI_FAIL(TRI_EINPUT, "can't multiply sequence by non-int of type '%s'", tri_jtype(y));
  if (y.kind == TRI_J_STRING || is_list(y))
    TRI_FAIL(TRI_EINPUT, "can't multiply sequence by non-int of type '%s'", tri_jtype(x));
  return unsupported(TRI_JOP_MUL, x, y);
}

static tri_status arithmetic(tri_jarena *a, tri_jop op, tri_jvalue x, tri_jvalue y, tri_jvalue *out) {
  if (op == TRI_JOP_MOD && tri_jis_text(x)) return tri_jpercent(a, tri_jas_text(x), y, out);
  if (x.kind == TRI_J_UNDEFINED) return tri_jundefined_fail(x);
  if (y.kind == TRI_J_UNDEFINED) return tri_jundefined_fail(y);
  if (tri_jis_whole(x) && tri_jis_whole(y)) return whole(op, tri_jwhole(x), tri_jwhole(y), out);
  if (is_number(x) && is_number(y)) return real(op, real_of(x), real_of(y), out);
  if (op == TRI_JOP_ADD) return add(a, x, y, out);
  if (op == TRI_JOP_MUL) return multiply(a, x, y, out);
  return unsupported(op, x, y);
}

tri_status tri_jbinary(tri_jarena *a, tri_jop op, tri_jvalue left, tri_jvalue right, tri_jvalue *out) {
  bool truth = false;

  TRI_TRY(tri_jarena_step(a, 1));
  switch (op) {
  case TRI_JOP_EQ:
  case TRI_JOP_NE:
    TRI_TRY(tri_jequal(a, left, right, &truth));
    break;
  case TRI_JOP_LT:
  case TRI_JOP_LE:
  case TRI_JOP_GT:
  case TRI_JOP_GE:
    TRI_TRY(tri_jorder(a, op, left, right, &truth));
    break;
  case TRI_JOP_IN:
  case TRI_JOP_NOT_IN:
    TRI_TRY(tri_jcontains(a, right, left, &truth));
    break;
  default:
    return arithmetic(a, op, left, right, out);
  }
  *out = tri_jbool(truth != (op == TRI_JOP_NE || op == TRI_JOP_NOT_IN));
  return TRI_OK;
}

tri_status tri_jnegate(tri_jarena *a, tri_jvalue v, bool plus, tri_jvalue *out) {
  TRI_TRY(tri_jarena_step(a, 1));
  if (v.kind == TRI_J_UNDEFINED) return tri_jundefined_fail(v);
  if (v.kind == TRI_J_FLOAT)
    *out = tri_jfloat(plus ? v.as.real : -v.as.real);
  else if (!tri_jis_whole(v))
    TRI_FAIL(TRI_EINPUT, "bad operand type for unary %s: '%s'", plus ? "+" : "-", tri_jtype(v));
  else if (!plus && tri_jwhole(v) == INT64_MIN)
    return overflow("-");
  else
    *out = tri_jint(plus ? tri_jwhole(v) : -tri_jwhole(v));
  return TRI_OK;
}

tri_status tri_jconcat(tri_jarena *a, const tri_jvalue *v, int64_t n, tri_jvalue *out) {
  return tri_jtext_join(a, v, n, out);
}
