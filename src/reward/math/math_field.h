/* math_field.h - exact arithmetic for comparing answers: residues modulo two large primes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MATH_FIELD_H
#define TRI_MATH_FIELD_H

#include "decimal.h"

#include <stdint.h>

/* Two expressions of integers, fractions and roots are equal if they are equal modulo both primes (their
 * product is near 2^122). A residue re + im i lies in the field of p^2 elements.
 *
 * Each prime p is chosen (by search) so that roots behave as they do for positive reals:
 *   - (p - 1) / 2 is prime, so every odd root is unique, and exponents can be divided.
 *   - -1 is no square. A square has one root that is a square itself, and that root is multiplicative.
 *   - 2, 3, 5, ..., 59 are squares, so sqrt(2) sqrt(3) = sqrt(6) holds.
 *   - 720 divides p + 1, so cosines and sines of half degrees exist. */
enum { TRI_FIELDS = 2 };

typedef struct tri_residue {
  uint64_t re, im;
} tri_residue;

/* All functions are pure. k: the field, below TRI_FIELDS. Parts of residues are below p. */
uint64_t tri_field_prime(int k);
/* The residue of an integer. */
tri_residue tri_field_integer(int k, int64_t x);
tri_residue tri_field_add(int k, tri_residue a, tri_residue b);
tri_residue tri_field_negate(int k, tri_residue a);
tri_residue tri_field_multiply(int k, tri_residue a, tri_residue b);
/* Returns false, and leaves *out, where a is 0. */
bool        tri_field_invert(int k, tri_residue a, tri_residue *out);
tri_residue tri_field_power(int k, tri_residue a, uint64_t n);
bool        tri_field_equal(tri_residue a, tri_residue b);
/* Whether a real residue is a square, as positive numbers are. */
bool tri_field_positive(int k, uint64_t a);
/* The square root of a real residue: real where a is a square, else imaginary. */
tri_residue tri_field_root(int k, uint64_t a);
/* The root of odd order n > 0, n below the prime. */
uint64_t tri_field_odd_root(int k, uint64_t a, uint64_t n);
/* cos(x) + i sin(x) for x = n half degrees. */
tri_residue tri_field_turn(int k, int64_t n);
/* A residue with real part alone that depends on these words; it stands for a letter or an unknown value. */
tri_residue tri_field_stand_in(int k, uint64_t tag, uint64_t a, uint64_t b);
uint64_t    tri_field_hash(uint64_t a, uint64_t b);

/* Exponents: the integers modulo (p - 1) / 2. */
uint64_t tri_exponent_prime(int k);
uint64_t tri_exponent_multiply(int k, uint64_t a, uint64_t b);
uint64_t tri_exponent_invert(int k, uint64_t a); /* 0 of 0 */

/* The value of a decimal number such as "1,234.5e-3". Bytes between its digits other than '.', 'e', 'E' and
 * signs behind them are grouping, and are skipped. `repeat`: digits that repeat without end, perhaps none. */
tri_residue tri_field_decimal(int k, tri_part digits, tri_part repeat);
double      tri_float_decimal(tri_part digits, tri_part repeat);

#endif
