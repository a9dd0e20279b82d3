/* math_field.c - exact arithmetic to compare answers, with residues modulo two large primes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "math_field.h"

#include <math.h>

typedef unsigned __int128 wide;

/* Found by a search downwards from 2^61 for the properties in math_field.h. `turn` is cos and sin of half
 * a degree. It is the root of unity of order 720 with cos 45 = sqrt(2) / 2, cos 30 = sqrt(3) / 2, sin 90 =
 * 1. */
static const struct {
  uint64_t    p;
  tri_residue turn;
} field[TRI_FIELDS] = {{2305843007387610239u, {651520010827509149u, 1218508896433073138u}},
                       {2305843005449725199u, {1501233666828272453u, 1376742412463532601u}}};

static uint64_t add(int k, uint64_t a, uint64_t b) {
  uint64_t sum = a + b; /* below 2^62 */

  return sum >= field[k].p ? sum - field[k].p : sum;
}

static uint64_t negate(int k, uint64_t a) { return a ? field[k].p - a : 0; }

static uint64_t multiply_by(uint64_t a, uint64_t b, uint64_t modulus) {
  return (uint64_t)((wide)a * b % modulus);
}

static uint64_t multiply(int k, uint64_t a, uint64_t b) { return multiply_by(a, b, field[k].p); }

static uint64_t power_by(uint64_t a, uint64_t n, uint64_t modulus) {
  uint64_t x = 1;

  for (; n; n >>= 1, a = multiply_by(a, a, modulus))
    if (n & 1) x = multiply_by(x, a, modulus);
  return x;
}

static uint64_t power(int k, uint64_t a, uint64_t n) { return power_by(a, n, field[k].p); }

uint64_t tri_field_prime(int k) { return field[k].p; }

tri_residue tri_field_integer(int k, int64_t x) {
  uint64_t size = x < 0 ? 0 - (uint64_t)x : (uint64_t)x, rest = size % field[k].p;

  return (tri_residue){x < 0 ? negate(k, rest) : rest, 0};
}

tri_residue tri_field_add(int k, tri_residue a, tri_residue b) {
  return (tri_residue){add(k, a.re, b.re), add(k, a.im, b.im)};
}

tri_residue tri_field_negate(int k, tri_residue a) { return (tri_residue){negate(k, a.re), negate(k, a.im)}; }

tri_residue tri_field_multiply(int k, tri_residue a, tri_residue b) {
  if (!a.im && !b.im) return (tri_residue){multiply(k, a.re, b.re), 0};
  return (tri_residue){add(k, multiply(k, a.re, b.re), negate(k, multiply(k, a.im, b.im))),
                       add(k, multiply(k, a.re, b.im), multiply(k, a.im, b.re))};
}

bool tri_field_invert(int k, tri_residue a, tri_residue *out) {
  uint64_t norm = add(k, multiply(k, a.re, a.re), multiply(k, a.im, a.im)), inverse;

  if (!norm) return false;
  inverse = power(k, norm, field[k].p - 2);
  *out = (tri_residue){multiply(k, a.re, inverse), multiply(k, negate(k, a.im), inverse)};
  return true;
}

tri_residue tri_field_power(int k, tri_residue a, uint64_t n) {
  tri_residue x = {1, 0};

  if (!a.im) return (tri_residue){power(k, a.re, n), 0};
  for (; n; n >>= 1, a = tri_field_multiply(k, a, a))
    if (n & 1) x = tri_field_multiply(k, x, a);
  return x;
}

bool tri_field_equal(tri_residue a, tri_residue b) { return a.re == b.re && a.im == b.im; }

bool tri_field_positive(int k, uint64_t a) { return power(k, a, (field[k].p - 1) / 2) == 1; }

tri_residue tri_field_root(int k, uint64_t a) {
  if (!a) return (tri_residue){0, 0};
  if (tri_field_positive(k, a)) return (tri_residue){power(k, a, (field[k].p + 1) / 4), 0};
  return (tri_residue){0, power(k, negate(k, a), (field[k].p + 1) / 4)};
}

uint64_t tri_field_odd_root(int k, uint64_t a, uint64_t n) {
  uint64_t half = tri_exponent_prime(k), inverse = power_by(n % half, half - 2, half);

  /* The inverse of n modulo p - 1 = 2 half is odd, and is the inverse modulo half. */
  return power(k, a, inverse & 1 ? inverse : inverse + half);
}

tri_residue tri_field_turn(int k, int64_t n) {
  n %= 720;
  return tri_field_power(k, field[k].turn, (uint64_t)(n < 0 ? n + 720 : n));
}

/* Hashes both words with the finaliser of splitmix64 (Steele, Lea, Flood 2014). */
uint64_t tri_field_hash(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15u + b + 0xD1B54A32D192ED03u;

  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

tri_residue tri_field_stand_in(int k, uint64_t tag, uint64_t a, uint64_t b) {
  return (tri_residue){tri_field_hash(tri_field_hash(tag, a), tri_field_hash(b, (uint64_t)k)) % field[k].p,
                       0};
}

/* ---- exponents ---- */

uint64_t tri_exponent_prime(int k) { return (field[k].p - 1) / 2; }

uint64_t tri_exponent_multiply(int k, uint64_t a, uint64_t b) {
  return multiply_by(a, b, tri_exponent_prime(k));
}

uint64_t tri_exponent_invert(int k, uint64_t a) {
  return power_by(a, tri_exponent_prime(k) - 2, tri_exponent_prime(k));
}

/* ---- decimal numbers ---- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Reads the power of ten in "e-3" at s. It stops growing beyond a million, and such numbers then differ by
 * their digits only. */
static int64_t read_power(const char *s, const char *end) {
  bool    negative = false;
  int64_t x = 0;

  for (; s < end; s++)
    if (*s == '-')
      negative = true;
    else if (is_digit(*s) && x < 1000000)
      x = 10 * x + (*s - '0');
  return negative ? -x : x;
}

/* Reads all digits as one integer. *exponent is the power of ten of the last digit. */
static uint64_t read_digits(int k, tri_part t, int64_t *exponent, bool *point) {
  const char *end = t.at + t.n;
  uint64_t    x = 0;

  *exponent = 0;
  *point = false;
  for (const char *s = t.at; s < end; s++) {
    if (*s == 'e' || *s == 'E') {
      *exponent += read_power(s + 1, end);
      break;
    }
    if (*s == '.') *point = true;
    if (!is_digit(*s)) continue;
    x = add(k, multiply(k, x, 10), (uint64_t)(*s - '0'));
    *exponent -= *point;
  }
  return x;
}

static uint64_t power_of_ten(int k, int64_t n) {
  uint64_t x = power(k, 10, (uint64_t)(n < 0 ? -n : n));

  return n < 0 ? power(k, x, field[k].p - 2) : x;
}

tri_residue tri_field_decimal(int k, tri_part digits, tri_part repeat) {
  int64_t  exponent, ignored;
  bool     point;
  uint64_t x = read_digits(k, digits, &exponent, &point);

  if (repeat.n) { /* x.rrr... is x + r / (10^n - 1) in units of the last digit */
    uint64_t r = read_digits(k, repeat, &ignored, &point),
             nines = add(k, power_of_ten(k, (int64_t)repeat.n), field[k].p - 1);
    x = add(k, x, multiply(k, r, power(k, nines, field[k].p - 2)));
  }
  return (tri_residue){multiply(k, x, power_of_ten(k, exponent)), 0};
}

double tri_float_decimal(tri_part digits, tri_part repeat) {
  const char *end = digits.at + digits.n;
  double      x = 0, unit = 1;
  int64_t     exponent = 0;
  bool        point = false;

  for (const char *s = digits.at; s < end; s++) {
    if (*s == 'e' || *s == 'E') {
      exponent = read_power(s + 1, end);
      break;
    }
    if (*s == '.') point = true;
    if (!is_digit(*s)) continue;
    if (point) {
      unit /= 10;
      x += unit * (*s - '0');
    } else {
      x = 10 * x + (*s - '0');
    }
  }
  for (size_t i = 0; repeat.n && i < 20 * repeat.n && unit > 0; i++) {
    unit /= 10;
    x += unit * (repeat.at[i % repeat.n] - '0');
  }
  return exponent ? x * pow(10, (double)exponent) : x;
}
