/* mac.c - SHA-256, HMAC and random keys. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "mac.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* FIPS 180-4, 4.2.2 and 5.3.3. */
static const uint32_t round_key[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
static const uint32_t first_state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

static inline uint32_t rotate(uint32_t x, int bits) { return x >> bits | x << (32 - bits); }

static inline uint32_t load_big(const unsigned char *at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* FIPS 180-4, 6.2.2. */
static void take_block(tri_sha256 *s, const unsigned char *block) {
  uint32_t w[64], v[8];

  for (int i = 0; i < 16; i++) w[i] = load_big(block + 4 * i);
  for (int i = 16; i < 64; i++) {
    uint32_t low = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
    uint32_t high = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + low + w[i - 7] + high;
  }
  memcpy(v, s->state, sizeof v);
  for (int i = 0; i < 64; i++) {
    uint32_t e = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
    uint32_t a = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
    uint32_t one = v[7] + e + ((v[4] & v[5]) ^ (~v[4] & v[6])) + round_key[i] + w[i];
    uint32_t two = a + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
    memmove(v + 1, v, 7 * sizeof *v);
    v[4] += one;
    v[0] = one + two;
  }
  for (int i = 0; i < 8; i++) s->state[i] += v[i];
}

void tri_sha256_begin(tri_sha256 *s) {
  memcpy(s->state, first_state, sizeof s->state);
  s->n = 0;
}

void tri_sha256_put(tri_sha256 *s, const void *bytes, size_t n) {
  const unsigned char *at = bytes;

  while (n) {
    size_t have = s->n % TRI_SHA256_BLOCK, part = n < TRI_SHA256_BLOCK - have ? n : TRI_SHA256_BLOCK - have;
    memcpy(s->block + have, at, part);
    s->n += part;
    at += part;
    n -= part;
    if (s->n % TRI_SHA256_BLOCK == 0) take_block(s, s->block);
  }
}

void tri_sha256_end(tri_sha256 *s, unsigned char out[TRI_SHA256_BYTES]) {
  static const unsigned char end[TRI_SHA256_BLOCK] = {0x80};
  uint64_t                   bits = 8 * s->n;
  unsigned char              length[8];

  for (int i = 0; i < 8; i++) length[i] = (unsigned char)(bits >> (56 - 8 * i));
  tri_sha256_put(s, end, 1 + (TRI_SHA256_BLOCK + 55 - s->n % TRI_SHA256_BLOCK) % TRI_SHA256_BLOCK);
  tri_sha256_put(s, length, sizeof length);
  for (int i = 0; i < TRI_SHA256_BYTES; i++) out[i] = (unsigned char)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}

/* RFC 2104, 2. Hashes the key padded with zeros to a block, each byte XOR `with`. */
static void put_padded(tri_sha256 *s, const unsigned char *key, unsigned char with) {
  unsigned char pad[TRI_SHA256_BLOCK];

  for (int i = 0; i < TRI_SHA256_BLOCK; i++)
    pad[i] = (unsigned char)((i < TRI_KEY_BYTES ? key[i] : 0) ^ with);
  tri_sha256_begin(s);
  tri_sha256_put(s, pad, sizeof pad);
}

void tri_mac_begin(tri_mac *m, const unsigned char key[TRI_KEY_BYTES]) {
  memcpy(m->key, key, TRI_KEY_BYTES);
  put_padded(&m->inner, key, 0x36);
}

void tri_mac_put(tri_mac *m, const void *bytes, size_t n) { tri_sha256_put(&m->inner, bytes, n); }

void tri_mac_end(tri_mac *m, unsigned char out[TRI_SHA256_BYTES]) {
  tri_sha256    outer;
  unsigned char hash[TRI_SHA256_BYTES];

  tri_sha256_end(&m->inner, hash);
  put_padded(&outer, m->key, 0x5c);
  tri_sha256_put(&outer, hash, sizeof hash);
  tri_sha256_end(&outer, out);
}

bool tri_mac_is_equal(const unsigned char *a, const unsigned char *b, size_t n) {
  volatile unsigned char differs = 0; /* volatile: the compiler must not end the loop early */

  for (size_t i = 0; i < n; i++) differs = (unsigned char)(differs | (a[i] ^ b[i]));
  return !differs;
}

/* For kernels without getrandom. */
static bool read_device(unsigned char *at, size_t n) {
  int     fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  ssize_t got = 0;

  while (fd >= 0 && n) {
    got = read(fd, at, n);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    at += got;
    n -= (size_t)got;
  }
  if (fd >= 0) close(fd);
  return n == 0;
}

tri_status tri_random_bytes(void *out, size_t n) {
  unsigned char *at = out;

  while (n) {
    ssize_t got = getrandom(at, n, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    at += got;
    n -= (size_t)got;
  }
  if (n && !read_device(at, n))
    TRI_FAIL(TRI_EDEVICE, "the kernel gives no random bytes: %s", strerror(errno));
  return TRI_OK;
}
