/* rng.h - counter-based random numbers: key and counter give bits, without a state. Philox4x32-10: Salmon,
 * Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_RNG_H
#define TRI_RNG_H

#include "inline.h"

#include <stdint.h>

typedef struct tri_rng_key {
  uint32_t k[2];
} tri_rng_key;

/* The use of a stream of random numbers. It is part of the key, so no two uses share numbers. */
typedef enum {
  TRI_RNG_SAMPLE = 1,
  TRI_RNG_SHUFFLE = 2,
  TRI_RNG_INIT = 3,
  TRI_RNG_TEST = 4,
  TRI_RNG_MIX = 5
} tri_rng_use;

TRI_INLINE uint64_t tri_rng_mix(uint64_t x) { /* splitmix64's finaliser (Steele, Lea, Flood 2014) */
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

TRI_INLINE tri_rng_key tri_rng_make_key(uint64_t seed, tri_rng_use use) {
  uint64_t    h = tri_rng_mix(tri_rng_mix(seed) + (uint64_t)use);
  tri_rng_key key = {{(uint32_t)h, (uint32_t)(h >> 32)}};
  return key;
}

/* 128 random bits for (key, hi, lo). */
TRI_INLINE void tri_rng_bits(tri_rng_key key, uint64_t hi, uint64_t lo, uint32_t out[4]) {
  uint32_t c0 = (uint32_t)lo, c1 = (uint32_t)(lo >> 32), c2 = (uint32_t)hi, c3 = (uint32_t)(hi >> 32);
  uint32_t k0 = key.k[0], k1 = key.k[1];

  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

/* Uniform in (0, 1). The value has 23 bits and a half step and is exact in f32, so it is never 0 or 1. */
TRI_INLINE float tri_rng_unit(uint32_t bits) { return ((float)(bits >> 9) + 0.5f) * 0x1p-23f; }

/* Returns the number that draws a token, uniform in (0, 1), with 53 bits. key: prompt, answer, position. */
TRI_INLINE double tri_rng_draw(uint64_t seed, const int64_t key[3]) {
  uint32_t bits[4];
  uint64_t lo = (uint64_t)key[1] << 32 | (uint32_t)key[2];
  tri_rng_bits(tri_rng_make_key(seed, TRI_RNG_SAMPLE), (uint64_t)key[0], lo, bits);
  return ((double)((uint64_t)bits[0] << 21 | bits[1] >> 11) + 0.5) * 0x1p-53;
}

#endif
