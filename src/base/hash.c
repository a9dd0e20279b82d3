/* hash.c - XXH64 for checkpoint bytes, data sets, and names that key random numbers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "hash.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "checkpoints are hashed as they stand in memory");

/* Specified: section "XXH64 algorithm description" of the format's document. */
static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
                      P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;

static inline uint64_t rotate(uint64_t x, int bits) { return (x << bits) | (x >> (64 - bits)); }
static inline uint64_t mix(uint64_t lane, uint64_t word) { return rotate(lane + word * P2, 31) * P1; }

static inline uint64_t load64(const unsigned char *p) {
  uint64_t x;

  memcpy(&x, p, sizeof x);
  return x;
}

static inline uint32_t load32(const unsigned char *p) {
  uint32_t x;

  memcpy(&x, p, sizeof x);
  return x;
}

uint64_t tri_hash64(const void *bytes, size_t n, uint64_t seed) {
  const unsigned char *p = bytes;
  size_t               left = n;
  uint64_t             h = seed + P5;

  if (n >= 32) {
    uint64_t lane[4] = {seed + P1 + P2, seed + P2, seed, seed - P1};
    for (; left >= 32; p += 32, left -= 32)
      for (int i = 0; i < 4; i++) lane[i] = mix(lane[i], load64(p + 8 * i));
    h = rotate(lane[0], 1) + rotate(lane[1], 7) + rotate(lane[2], 12) + rotate(lane[3], 18);
    for (int i = 0; i < 4; i++) h = (h ^ mix(0, lane[i])) * P1 + P4;
  }
  h += n;
  for (; left >= 8; p += 8, left -= 8) h = rotate(h ^ mix(0, load64(p)), 27) * P1 + P4;
  if (left >= 4) {
    h = rotate(h ^ (load32(p) * P1), 23) * P2 + P3;
    p += 4;
    left -= 4;
  }
  for (; left > 0; p++, left--) h = rotate(h ^ (*p * P5), 11) * P1;
  h = (h ^ (h >> 33)) * P2;
  h = (h ^ (h >> 29)) * P3;
  return h ^ (h >> 32);
}
