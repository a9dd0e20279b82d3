/* wire.c - writes heartbeats as datagrams, and reads them with a check of every byte. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire.h"

#include <math.h>
#include <string.h>

/* Offsets in bytes, all numbers little-endian.
 * Head:       0 magic  4 version  5 kind  6 heartbeats (u16)  8 code [16]  24 sequence (u64)  32 sender (i32)
 *             36 to (i32)
 * Heartbeat:  0 rank (i32)  4 life  5 scope + 1  6 come.n  7 zero  8 number (u64)  16 met (u64)  24 waited_ms
 *             28 silent_ms  32 work_ms  36 window (u32 each)  40 phase [16]  56 label [48]
 *             104 come, in pairs of 9 bytes: scope + 1, number (u64). Zeros after the last pair */
static const unsigned char magic[4] = {'T', 'R', 'I', 'B'};
/* The code is HMAC-SHA-256 of all bytes, with zeros in place of the code, cut to half its length (RFC 2104,
 * 5). */
enum { COME_AT = 104, PAIR_BYTES = 9 };
enum { VERSION = 3, CODE_AT = 8, CODE_BYTES = 16 };

static void put(unsigned char *at, uint64_t value, int n) {
  for (int i = 0; i < n; i++) at[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t get(const unsigned char *at, int n) {
  uint64_t value = 0;

  for (int i = 0; i < n; i++) value |= (uint64_t)at[i] << 8 * i;
  return value;
}

static uint64_t to_ms(double s) {
  return s > 4e6 ? (uint64_t)4000000000U : s > 0 ? (uint64_t)lround(s * 1e3) : 0;
}

static void write_come(const tri_come *c, unsigned char *at) {
  for (int i = 0; i < c->n; i++, at += PAIR_BYTES) {
    at[0] = (unsigned char)(c->scope[i] + 1);
    put(at + 1, c->number[i], 8);
  }
}

static void write_heartbeat(const tri_heartbeat *b, unsigned char *at) {
  memset(at, 0, TRI_WIRE_HEARTBEAT_BYTES);
  put(at, (uint32_t)b->rank, 4);
  at[4] = (unsigned char)b->life;
  at[5] = (unsigned char)(b->scope + 1);
  at[6] = (unsigned char)b->come.n;
  put(at + 8, b->number, 8);
  put(at + 16, b->met, 8);
  put(at + 24, to_ms(b->waited_s), 4);
  put(at + 28, to_ms(b->silent_s), 4);
  put(at + 32, to_ms(b->work_s), 4);
  put(at + 36, b->window, 4);
  memcpy(at + 40, b->phase, strnlen(b->phase, sizeof b->phase - 1));
  memcpy(at + 56, b->label, strnlen(b->label, sizeof b->label - 1));
  write_come(&b->come, at + COME_AT);
}

static void make_code(const unsigned char *bytes, size_t n, const unsigned char key[TRI_KEY_BYTES],
                      unsigned char out[TRI_SHA256_BYTES]) {
  static const unsigned char none[CODE_BYTES];
  tri_mac                    m;

  tri_mac_begin(&m, key);
  tri_mac_put(&m, bytes, CODE_AT);
  tri_mac_put(&m, none, sizeof none);
  tri_mac_put(&m, bytes + CODE_AT + CODE_BYTES, n - CODE_AT - CODE_BYTES);
  tri_mac_end(&m, out);
}

size_t tri_wire_write(const tri_wire *w, const unsigned char key[TRI_KEY_BYTES],
                      unsigned char out[TRI_WIRE_BYTES]) {
  size_t        n = TRI_WIRE_HEAD_BYTES + (size_t)w->n * TRI_WIRE_HEARTBEAT_BYTES;
  unsigned char code[TRI_SHA256_BYTES];

  memset(out, 0, TRI_WIRE_HEAD_BYTES);
  memcpy(out, magic, sizeof magic);
  out[4] = VERSION;
  out[5] = (unsigned char)w->kind;
  put(out + 6, (uint64_t)w->n, 2);
  put(out + 24, w->sequence, 8);
  put(out + 32, (uint32_t)w->sender, 4);
  put(out + 36, (uint32_t)w->to, 4);
  for (int i = 0; i < w->n; i++)
    write_heartbeat(&w->heartbeat[i], out + TRI_WIRE_HEAD_BYTES + i * TRI_WIRE_HEARTBEAT_BYTES);
  make_code(out, n, key, code);
  memcpy(out + CODE_AT, code, CODE_BYTES);
  return n;
}

size_t tri_wire_bytes(const unsigned char head[TRI_WIRE_HEAD_BYTES]) {
  size_t n = (size_t)get(head + 6, 2);

  return n > TRI_WIRE_HEARTBEATS ? 0 : TRI_WIRE_HEAD_BYTES + n * TRI_WIRE_HEARTBEAT_BYTES;
}

/* Reads printable ASCII followed by NULs to the end. */
static bool read_text(const unsigned char *at, size_t n, char *out) {
  size_t length = strnlen((const char *)at, n);

  if (length == n) return false;
  for (size_t i = 0; i < n; i++)
    if (i < length ? at[i] < ' ' || at[i] > '~' : at[i] != 0) return false;
  memcpy(out, at, n);
  return true;
}

static bool is_scope(int scope) { return tri_rank_status_scope(scope) != NULL; }

/* Reads n pairs, each of another scope, followed by zeros to the end. */
static bool read_come(const unsigned char *at, int n, tri_come *out) {
  if (n > TRI_RANK_STATUS_MOST) return false;
  for (int i = 0; i < TRI_RANK_STATUS_MOST; i++, at += PAIR_BYTES) {
    int      scope = (int)at[0] - 1;
    uint64_t number = get(at + 1, 8);
    if (i >= n && (at[0] || number)) return false;
    if (i < n && (!is_scope(scope) || !tri_come_put(out, scope, number) || out->n != i + 1)) return false;
  }
  return true;
}

static bool read_heartbeat(const unsigned char *at, int n_ranks, tri_heartbeat *b) {
  uint64_t rank = get(at, 4);

  if (rank >= (uint64_t)n_ranks || at[4] >= TRI_LIFE_COUNT || (at[5] && !is_scope((int)at[5] - 1)) || at[7])
    return false;
  *b = (tri_heartbeat){
      .rank = (int32_t)rank, .life = (tri_life)at[4], .scope = (int)at[5] - 1, .number = get(at + 8, 8)};
  b->met = get(at + 16, 8);
  b->waited_s = 1e-3 * (double)get(at + 24, 4);
  b->silent_s = 1e-3 * (double)get(at + 28, 4);
  b->work_s = 1e-3 * (double)get(at + 32, 4);
  b->window = (uint32_t)get(at + 36, 4);
  return read_text(at + 40, sizeof b->phase, b->phase) && read_text(at + 56, sizeof b->label, b->label) &&
         read_come(at + COME_AT, at[6], &b->come);
}

/* Tests for a valid head of a datagram with n bytes. */
static bool is_head(const unsigned char *bytes, size_t n, int n_ranks) {
  return n >= TRI_WIRE_HEAD_BYTES && !memcmp(bytes, magic, sizeof magic) && bytes[4] == VERSION &&
         bytes[5] < TRI_WIRE_KINDS && tri_wire_bytes(bytes) == n && get(bytes + 32, 4) < (uint64_t)n_ranks &&
         get(bytes + 36, 4) < (uint64_t)n_ranks;
}

bool tri_wire_read(const unsigned char *bytes, size_t n, const unsigned char key[TRI_KEY_BYTES], int n_ranks,
                   tri_wire *out) {
  unsigned char code[TRI_SHA256_BYTES];

  if (!is_head(bytes, n, n_ranks)) return false;
  make_code(bytes, n, key, code);
  if (!tri_mac_is_equal(code, bytes + CODE_AT, CODE_BYTES)) return false;
  *out = (tri_wire){.kind = (tri_wire_kind)bytes[5],
                    .sender = (int32_t)get(bytes + 32, 4),
                    .to = (int32_t)get(bytes + 36, 4),
                    .sequence = get(bytes + 24, 8),
                    .n = (int)get(bytes + 6, 2)};
  for (int i = 0; i < out->n; i++)
    if (!read_heartbeat(bytes + TRI_WIRE_HEAD_BYTES + i * TRI_WIRE_HEARTBEAT_BYTES, n_ranks,
                        &out->heartbeat[i]))
      return false;
  return true;
}
