/* mac.h - SHA-256, HMAC and random keys, to authenticate messages between processes of one user. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MAC_H
#define TRI_MAC_H

#include "base/error.h"

enum { TRI_SHA256_BYTES = 32, TRI_SHA256_BLOCK = 64, TRI_KEY_BYTES = 32 };

/* Not collective, all that follow. SHA-256 by FIPS 180-4. */
typedef struct tri_sha256 {
  uint32_t      state[8];
  uint64_t      n; /* bytes so far */
  unsigned char block[TRI_SHA256_BLOCK];
} tri_sha256;
void tri_sha256_begin(tri_sha256 *s);
void tri_sha256_put(tri_sha256 *s, const void *bytes, size_t n);
void tri_sha256_end(tri_sha256 *s, unsigned char out[TRI_SHA256_BYTES]);

/* HMAC-SHA-256 by RFC 2104, with a key of TRI_KEY_BYTES. */
typedef struct tri_mac {
  tri_sha256    inner;
  unsigned char key[TRI_KEY_BYTES];
} tri_mac;
void tri_mac_begin(tri_mac *m, const unsigned char key[TRI_KEY_BYTES]);
void tri_mac_put(tri_mac *m, const void *bytes, size_t n);
void tri_mac_end(tri_mac *m, unsigned char out[TRI_SHA256_BYTES]);
/* Compares in constant time. */
bool tri_mac_is_equal(const unsigned char *a, const unsigned char *b, size_t n);

/* Gets unpredictable bytes from the kernel. TRI_EDEVICE: it gives none. */
TRI_CHECKED tri_status tri_random_bytes(void *out, size_t n);

#endif
