/* hash.h - XXH64 for checkpoint bytes, data sets, and names that key random numbers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HASH_H
#define TRI_HASH_H

#include <stddef.h>
#include <stdint.h>

/* XXH64 (Collet, "xxHash fast digest algorithm", format 0.1.1) of n bytes. It detects accidents, not
 * forgeries. For data in parts, pass the hash of one part as the seed of the next. Not collective. */
uint64_t tri_hash64(const void *bytes, size_t n, uint64_t seed);

#endif
