/* test_hash.c - XXH64. Judge: the reference implementation (xxHash 0.8.2 through the Python package xxhash
 * 4.1.0), whose answers for bytes (131 i + 17) mod 256 stand in the table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/hash.h"

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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(matches_the_reference)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
