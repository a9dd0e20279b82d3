/* test_wire.c - the bytes of heartbeats, and a node's network neighbours. Judges: written datagrams are read
 * back, each changed bit and another key are refused, and the kernel's tables are spelled out. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

#include "comm/peers/stuck.h"
#include "comm/peers/wire.h"
#include "refusal_case.h"

enum { N = 4 };

static const unsigned char key_99[TRI_KEY_BYTES] = {99}, key_98[TRI_KEY_BYTES] = {[31] = 98};

static tri_wire make_wire(void) {
  tri_wire in = {.kind = TRI_WIRE_REPORT, .sender = 2, .sequence = 77, .n = 2};

  in.heartbeat[0] = (tri_heartbeat){.rank = 2,
                                    .life = TRI_LIFE_DEAD,
                                    .scope = 2,
                                    .number = 1ull << 40,
                                    .come = {3, {2, 0, 8}, {1ull << 40, 5, 6}},
                                    .met = 4,
                                    .waited_s = 1.5,
                                    .silent_s = 0.25,
                                    .work_s = 5,
                                    .window = 9,
                                    .phase = "rollout",
                                    .label = "sum"};
  in.heartbeat[1] = (tri_heartbeat){.rank = 3, .scope = TRI_RANK_STATUS_NOWHERE};
  return in;
}

static void test_wire(void **state) {
  tri_wire      in = make_wire(), out;
  unsigned char bytes[TRI_WIRE_BYTES];
  size_t        n = tri_wire_write(&in, key_99, bytes);

  (void)state;
  assert_int_equal(n, TRI_WIRE_HEAD_BYTES + 2 * TRI_WIRE_HEARTBEAT_BYTES);
  assert_true(tri_wire_read(bytes, n, key_99, N, &out));
  assert_memory_equal(&in, &out, sizeof in);
}

static void expect_refused(const tri_heartbeat *b) {
  tri_wire      in = make_wire(), out;
  unsigned char bytes[TRI_WIRE_BYTES];

  in.heartbeat[1] = *b;
  assert_false(tri_wire_read(bytes, tri_wire_write(&in, key_99, bytes), key_99, N, &out));
}

/* As many pairs as there are scopes and rounds, and pairs that no rank of this program sends. */
static void test_wire_scopes(void **state) {
  tri_heartbeat b = {.rank = 1, .come = {6, {10, 2, 9, 1, 8, 0}, {1, 2, 3, 4, 5, UINT64_MAX}}};
  tri_wire      in = make_wire(), out;
  unsigned char bytes[TRI_WIRE_BYTES];

  (void)state;
  in.heartbeat[1] = b;
  assert_true(tri_wire_read(bytes, tri_wire_write(&in, key_99, bytes), key_99, N, &out));
  assert_int_equal(out.heartbeat[1].come.n, 6);
  for (int i = 0; i < 6; i++) {
    assert_int_equal(out.heartbeat[1].come.scope[i], b.come.scope[i]);
    assert_true(out.heartbeat[1].come.number[i] == b.come.number[i]);
  }
  b.come.scope[3] = 9; /* twice */
  expect_refused(&b);
  b.come.scope[3] = 7; /* no such scope */
  expect_refused(&b);
  b.come.scope[3] = 15; /* rounds over no such scope */
  expect_refused(&b);
  b.come.scope[3] = 17;
  expect_refused(&b);
  b.come.n = 3; /* these pairs are right */
  b.scope = 7;
  expect_refused(&b);
}

/* Flips each bit of every byte, and each datagram must be refused. Datagrams of another run, and shorter or
 * longer ones, are refused too. */
static void test_wire_damage(void **state) {
  tri_wire      in = make_wire(), out;
  unsigned char bytes[TRI_WIRE_BYTES];
  size_t        n = tri_wire_write(&in, key_99, bytes);

  (void)state;
  assert_false(tri_wire_read(bytes, n, key_98, N, &out));
  assert_false(tri_wire_read(bytes, n, key_99, 2, &out)); /* no such rank in this run */
  for (size_t k = 0; k < n; k++) assert_false(tri_wire_read(bytes, k, key_99, N, &out));
  assert_false(tri_wire_read(bytes, n + 1, key_99, N, &out));
  for (size_t k = 0; k + TRI_KEY_BYTES <= n; k++)
    assert_memory_not_equal(bytes + k, key_99, TRI_KEY_BYTES); /* the key itself is never sent */
  for (size_t k = 0; k < n; k++)
    for (int bit = 0; bit < 8; bit++) {
      bytes[k] ^= (unsigned char)(1 << bit);
      assert_false(tri_wire_read(bytes, n, key_99, N, &out));
      bytes[k] ^= (unsigned char)(1 << bit);
    }
  bytes[6] = TRI_WIRE_HEARTBEATS + 1;
  assert_false(tri_wire_read(bytes, TRI_WIRE_BYTES, key_99, N, &out));
}

/* ---- the start ---- */

/* A neighbour table in the kernel's format, with two silent neighbours on two networks. */
static void test_stuck(void **state) {
  static const char table[] =
      "IP address       HW type     Flags       HW address            Mask     Device\n"
      "10.80.0.12       0x1         0x2         5e:5d:2c:11:22:33     *        eth0\n"
      "10.99.0.12       0x1         0x0         00:00:00:00:00:00     *        ib0\n"
      "10.99.0.13       0x1         0x0         00:00:00:00:00:00     *        ib0\n"
      "172.17.0.2       0x1         0x0         00:00:00:00:00:00     *        docker0\n"
      "10.1.0.2         0x1         0x0         00:00:00:00:00:00     *        a\x1b[2J\n"
      "garbage\n\n10.1.0.3 0x1\n";
  char      path[] = "/tmp/test_peers.XXXXXX";
  int       fd = mkstemp(path);
  tri_stuck found[TRI_STUCK_MOST];
  tri_text  text = {0};

  (void)state;
  assert_true(fd >= 0 && write(fd, table, sizeof table - 1) == sizeof table - 1);
  close(fd);
  assert_int_equal(tri_stuck_find(path, found), 2);
  unlink(path);
  assert_string_equal(found[0].net, "ib0");
  assert_string_equal(found[0].address, "10.99.0.12");
  assert_string_equal(found[1].net, "docker0");
  unsetenv("OMPI_MCA_btl_tcp_if_exclude");
  assert_int_equal(tri_stuck_words(found, 1, &text), TRI_OK);
  assert_true(tells(text.data, "10.99.0.12 ib0"));
  assert_non_null(strstr(text.data, "export OMPI_MCA_btl_tcp_if_exclude=lo,docker0,ib0, "));
  text.len = 0;
  setenv("OMPI_MCA_btl_tcp_if_exclude", "lo,eth7", 1);
  assert_int_equal(tri_stuck_words(found, 1, &text), TRI_OK);
  assert_non_null(strstr(text.data, "if_exclude=lo,eth7,ib0, "));
  unsetenv("OMPI_MCA_btl_tcp_if_exclude");
  text.len = 0;
  assert_int_equal(tri_stuck_find("/dev/null/none", found), 0);
  assert_int_equal(tri_stuck_words(found, 0, &text), TRI_OK);
  assert_non_null(strstr(text.data, "trireme doctor"));
  assert_null(strstr(text.data, "OMPI_MCA_btl_tcp_if_exclude"));
  tri_text_free(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_wire), cmocka_unit_test(test_wire_scopes),
                                     cmocka_unit_test(test_wire_damage), cmocka_unit_test(test_stuck)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
