/* test_hash.c - XXH64, SHA-256 and HMAC. Judges: the reference implementation (xxHash 0.8.2 through the
 * Python package xxhash 4.1.0), Python's hashlib and hmac. The tables hold their results for the bytes (131 i
 * + 17) mod 256. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/hash.h"
#include "comm/peers/mac.h"

static void matches_the_reference(void **state) {
  static const struct {
    size_t   n;
    uint64_t seed, hash;
  } row[] = {
      {0, 0x0u, 0xef46db3751d8e999u},
      {0, 0x1u, 0xd5afba1336a3be4bu},
      {1, 0x0u, 0xad10cd9780ac4ff7u},
      {3, 0x7u, 0xed4b45897e5a341du},
      {4, 0x0u, 0x882207c122c76e23u},
      {7, 0x0u, 0xcfc90033aa9dac4fu},
      {8, 0x0u, 0x90fda2f089fa86deu},
      {12, 0x3u, 0xaa0bef46c9cd056fu},
      {31, 0x0u, 0x44cc9efe5d2d0233u},
      {32, 0x0u, 0x0e1aab1d173cf196u},
      {33, 0x5u, 0x83aaa145cc70bfd2u},
      {63, 0x0u, 0x1153d36cade87066u},
      {64, 0x9u, 0xe9d5a8f06b014932u},
      {100, 0x0u, 0x7f8375f3e09d8123u},
      {1000, 0x9e3779b97f4a7c15u, 0xedcbda5346dc4c3cu},
  };
  unsigned char bytes[1001];

  (void)state;
  for (int aligned = 0; aligned < 2; aligned++) {
    unsigned char *p = bytes + aligned;
    for (int i = 0; i < 1000; i++) p[i] = (unsigned char)(131 * i + 17);
    for (size_t k = 0; k < sizeof row / sizeof *row; k++)
      assert_true(tri_hash64(p, row[k].n, row[k].seed) == row[k].hash);
  }
}

static void is_text(const unsigned char hash[TRI_SHA256_BYTES], const char *text) {
  char hex[2 * TRI_SHA256_BYTES + 1];

  for (int i = 0; i < TRI_SHA256_BYTES; i++) snprintf(hex + 2 * i, 3, "%02x", hash[i]);
  assert_string_equal(hex, text);
}

/* Hashes in one piece, and in pieces of seven bytes. */
static void codes_match_python(void **state) {
  static const struct {
    size_t      n;
    const char *hash, *code;
  } row[] = {
      {0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
       "61441727616675ef1218d04f4db2af842446a742020936d8529aa18818205abc"},
      {1, "4a64a107f0cb32536e5bce6c98c393db21cca7f4ea187ba8c4dca8b51d4ea80a",
       "cf2af32794ab08846bd8c10b6a79275c5302d9f806e177bb3dd8852b7867bb18"},
      {3, "abf0f7ab4223b86bbafb06e42d0caf0e889d27619b946d440a128bb405b7c5a3",
       "c41ef7608b165800dce89abad4fa52705e6362eb462d367955d76696e27afa04"},
      {55, "59aaae80b8e7958f5757b4ac9274f1fd57ec0dc7aa8349319102316781b92006",
       "c518c83f4489be14cd27f248cf9e04cc89bcd45e6d037fc63bd841ebbcb9b7c8"},
      {56, "dca902d31487ffab357ce36cc5abc6947fbb69127ec04c468ba5687268c4bf7c",
       "60f4804fbf252c4417c6f60a4af45ea4356cf0201241c6d3f17162070c2b04ea"},
      {63, "b8e655e9e7ad413b96f0a371eb1d6db71dcca27f4eee35892517cbe4bfaa6f9a",
       "f77b972d46bbe26d392f4a344cefbdd2f49e91cb06a845cead286659372d415b"},
      {64, "e5146be62accc56709594cb45c651b361df94f622cbb09b91ea3ca7a2060bd53",
       "cc2bdf11424df15b41277bae055406e2bc715e4f4c3f9319b062d2524dc88183"},
      {65, "4b6c6774f0cbcd776a90e187b9494e04ca880c0afe3ea1c5cad51c8bbcb41f74",
       "4c8121800c8698d7d44dc99ebac3498dab1f5d82850bce4a39be22fcc5fd9046"},
      {119, "3244509f8746f6fb511ca8a72a292a4d7d12e456cce283c03f169dbbcb0d512e",
       "7cf357523b2cfc0c13772641a0dbd5ec61224a527a33ea4cd25728d46d18e91a"},
      {120, "c5236e50172da3b69c903dcd3b3bb8ce855182f79364d1b59ed36367aa25e468",
       "213fc94eb17cfbd1bce77df8356353861bef4dad6e61111d6a25ba862e7aa520"},
      {1000, "9b1f933854c88e4433633db24196b7ba6282b9553cdee714193554db462d3169",
       "bfca11e29a024f19c1c69108941e95144f4cc9f371051effc27f4fb14c330e67"},
  };
  unsigned char bytes[1000], key[TRI_KEY_BYTES], out[TRI_SHA256_BYTES];

  (void)state;
  for (int i = 0; i < 1000; i++) bytes[i] = (unsigned char)(131 * i + 17);
  for (int i = 0; i < TRI_KEY_BYTES; i++) key[i] = (unsigned char)(7 * i + 1);
  for (size_t k = 0; k < sizeof row / sizeof *row; k++)
    for (size_t part = 7; part <= 1000; part += 993) {
      tri_sha256 s;
      tri_mac    m;
      tri_sha256_begin(&s);
      tri_mac_begin(&m, key);
      for (size_t at = 0; at < row[k].n; at += part) {
        size_t n = row[k].n - at < part ? row[k].n - at : part;
        tri_sha256_put(&s, bytes + at, n);
        tri_mac_put(&m, bytes + at, n);
      }
      tri_sha256_end(&s, out);
      is_text(out, row[k].hash);
      tri_mac_end(&m, out);
      is_text(out, row[k].code);
    }
}

static void random_and_equal(void **state) {
  unsigned char a[64] = {0}, b[64] = {0};

  (void)state;
  assert_int_equal(tri_random_bytes(a, sizeof a), TRI_OK);
  assert_int_equal(tri_random_bytes(b, sizeof b), TRI_OK);
  assert_memory_not_equal(a, b, sizeof a);
  memcpy(b, a, sizeof a);
  assert_true(tri_mac_is_equal(a, b, sizeof a));
  for (size_t i = 0; i < sizeof a; i++) {
    b[i] ^= 0x80;
    assert_false(tri_mac_is_equal(a, b, sizeof a));
    b[i] ^= 0x80;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(matches_the_reference),
                                     cmocka_unit_test(codes_match_python),
                                     cmocka_unit_test(random_and_equal)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
