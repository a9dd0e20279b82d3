/* test_links.c - traffic of communicators beside the plan. Judge: exact, by numbers worked out by hand. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "comm/comm_maker.h"
#include "report/links.h"

#include <math.h>
#include <string.h>

/* An artificial machine, so that each term shows. 1 s a hop and 100 bytes/s in a node, 10 s and 10 bytes/s
 * between nodes. */
static const tri_machine machine = {.name = "paper", .node = {1, 100}, .cross = {10, 10}};

static tri_coll coll(tri_coll_kind kind, int64_t count, tri_dtype t) {
  static tri_comm_span span[64];
  static int           n;

  span[n] = (tri_comm_span){.per_rank = count};
  return (tri_coll){.kind = kind, .span = &span[n++], .n_span = 1, .dtype = t};
}

/* ---- counts of one communicator ---- */

static void bytes_are_those_of_rings(void **state) {
  tri_comm c = {.size = 4};
  tri_coll k = coll(TRI_ALL_GATHER, 100, TRI_BF16);

  (void)state;
  tri_coll_timed(&c, &k, 2); /* 4 pieces of 200 bytes, and each rank passes on 3 */
  assert_true(c.traffic.best.bytes == 600 && c.traffic.best.s == 2 && c.traffic.best.rings == 1);
  k = coll(TRI_REDUCE_SCATTER, 100, TRI_F32);
  tri_coll_timed(&c, &k, 2);
  assert_true(c.traffic.best.bytes == 1200 && c.traffic.most == 1200);
  k = coll(TRI_ALL_REDUCE, 1000, TRI_F32); /* 4000 bytes, 3/4 of it twice */
  tri_coll_timed(&c, &k, 2);
  assert_true(c.traffic.best.bytes == 6000 && c.traffic.best.rings == 2);
  assert_true(c.traffic.bytes == 0); /* counted on submission (test_comm.c) */
}

static void the_fastest_of_the_large_counts(void **state) {
  tri_comm c = {.size = 2};
  tri_coll small = coll(TRI_ALL_GATHER, 49, TRI_U8), half = coll(TRI_ALL_GATHER, 50, TRI_U8),
           large = coll(TRI_ALL_GATHER, 100, TRI_U8);

  (void)state;
  tri_coll_timed(&c, &small, 0.01);
  assert_true(c.traffic.best.bytes == 49); /* nothing larger is known */
  tri_coll_timed(&c, &large, 10);
  assert_true(c.traffic.best.bytes == 100); /* slower, but replaces it, as 49 is less than half */
  tri_coll_timed(&c, &small, 0.01);
  assert_true(c.traffic.best.bytes == 100);
  tri_coll_timed(&c, &half, 6); /* slower than 10 bytes/s */
  assert_true(c.traffic.best.bytes == 100);
  tri_coll_timed(&c, &half, 4);
  assert_true(c.traffic.best.bytes == 50 && c.traffic.best.s == 4);
  tri_coll_timed(&c, &large, 20); /* a rank was late */
  assert_true(c.traffic.best.s == 4);
}

static void a_step_has_its_own(void **state) {
  tri_comm     c[TRI_SCOPE_COUNT] = {{.scope = TRI_WORLD, .size = 4},
                                     {.scope = TRI_NODE, .size = 4},
                                     {.scope = TRI_CROSS, .size = 1},
                                     {.scope = TRI_TENSOR, .size = 2},
                                     {.scope = TRI_MATES, .size = 2}};
  tri_comm    *comm[] = {&c[0], &c[1], &c[2], &c[3], &c[4]};
  tri_coll     k = coll(TRI_ALL_GATHER, 100, TRI_F32);
  tri_metrics *m;

  (void)state;
  c[TRI_NODE].traffic.bytes = c[TRI_NODE].traffic.step_bytes = 1200;
  c[TRI_MATES].traffic.bytes = c[TRI_MATES].traffic.step_bytes = 600;
  tri_coll_timed(&c[TRI_NODE], &k, 3);
  assert_int_equal(tri_metrics_open(NULL, -1, 0, &m), TRI_OK);
  tri_links_report(comm, m);
  assert_true(tri_metric_get(m, "mem_moved_node_bytes") == 1200);
  assert_true(tri_metric_get(m, "comm_node_bytes_per_s") == 400);
  assert_true(tri_metric_get(m, "mem_moved_mates_bytes") == 600);
  assert_false(tri_metric_has(m, "mem_moved_world_bytes")); /* carried nothing */
  assert_false(tri_metric_has(m, "mem_moved_tensor_bytes"));
  assert_false(tri_metric_has(m, "mem_moved_cross_bytes")); /* has one rank */
  tri_metrics_close(&m);
  tri_links_begin(comm);
  assert_true(c[TRI_NODE].traffic.bytes == 1200 && c[TRI_NODE].traffic.best.bytes == 1200);
  assert_int_equal(tri_metrics_open(NULL, -1, 0, &m), TRI_OK);
  tri_links_report(comm, m);
  assert_true(tri_metric_get(m, "mem_moved_node_bytes") == 0);
  assert_true(isnan(tri_metric_get(m, "comm_node_bytes_per_s")));
  tri_metrics_close(&m);
}

static void what_is_not_timed_has_no_rate(void **state) {
  tri_comm  c = {.scope = TRI_WORLD, .size = 2, .traffic = {.bytes = 8, .step_bytes = 8}}, one = {.size = 1};
  tri_comm *comm[] = {&c, &one, &one, &one, &one};
  tri_metrics *m;

  (void)state;
  assert_int_equal(tri_metrics_open(NULL, -1, 0, &m), TRI_OK);
  tri_links_report(comm, m);
  assert_true(tri_metric_get(m, "mem_moved_world_bytes") == 8);
  assert_false(tri_metric_has(m, "comm_world_bytes_per_s"));
  tri_metrics_close(&m);
}

/* ---- the run ---- */

/* 2 nodes of 3 ranks: world rank = local rank * 2 + node. */
enum { RANKS = 6, NODES = 2 };

static void see(tri_link_seen all[RANKS * TRI_SCOPE_COUNT], tri_scope scope, double bytes, int rings,
                const double s[RANKS]) {
  for (int r = 0; r < RANKS; r++) {
    tri_link_seen *x = &all[r * TRI_SCOPE_COUNT + scope];
    x->bytes = 10 * bytes;
    x->best = (tri_flow){bytes, s[r], rings};
  }
}

static void rows_have_the_slowest_communicator(void **state) {
  tri_link_seen all[RANKS * TRI_SCOPE_COUNT] = {{0}};
  tri_link_row  row[TRI_SCOPE_COUNT];
  const double  node[] = {8, 30, 9, 20, 10, 40}, cross[] = {500, 600, 400, 900, 700, 800};

  (void)state;
  see(all, TRI_NODE, 6000, 1, node);
  see(all, TRI_CROSS, 6000, 2, cross);
  assert_int_equal(tri_links_rows(all, RANKS, NODES, 1, &machine, row), 2);
  assert_true(row[0].scope == TRI_NODE && row[0].ranks == 3 && row[0].bytes == 60000);
  /* node 0: ranks 0, 2, 4, the fastest 8 s; node 1: ranks 1, 3, 5, the fastest 20 s */
  assert_true(row[0].which == 1 && row[0].rate == 300);
  /* 9000 bytes in all: 2 hops, 6000 bytes at 100 a second: 62 s */
  assert_true(fabs(row[0].planned - 6000.0 / 62) < 1e-9 && row[0].large);
  assert_true(row[1].scope == TRI_CROSS && row[1].ranks == 2);
  /* local ranks 0, 1, 2: the fastest 500, 400, 700 s */
  assert_true(row[1].which == 2 && fabs(row[1].rate - 6000.0 / 700) < 1e-9);
  /* two rings, each 1 hop between nodes of 10 s, and 3000 bytes at 10 a second: 620 s */
  assert_true(fabs(row[1].planned - 6000.0 / 620) < 1e-9 && row[1].large);
  assert_null(tri_links_slow(row, 2));
}

static void the_world_goes_at_the_rate_between_nodes(void **state) {
  tri_link_seen all[RANKS * TRI_SCOPE_COUNT] = {{0}};
  tri_link_row  row[TRI_SCOPE_COUNT];
  const double  s[] = {1, 1, 1, 1, 1, 1};

  (void)state;
  see(all, TRI_WORLD, 50, 1, s);
  assert_int_equal(tri_links_rows(all, RANKS, NODES, 1, &machine, row), 1);
  /* 5 hops, 2 of them between nodes: 23 s; 50 bytes at 10 a second: 5 s: mostly latency */
  assert_true(row[0].which == 0 && row[0].rate == 50 && fabs(row[0].planned - 50.0 / 28) < 1e-9);
  assert_false(row[0].large);
}

/* 1 node of 4 ranks. Ranks 0 and 2 hold one model, 1 and 3 the other. Mates are 0 and 1, 2 and 3. */
static void a_divided_node_has_its_groups(void **state) {
  tri_link_seen all[RANKS * TRI_SCOPE_COUNT] = {{0}};
  tri_link_row  row[TRI_SCOPE_COUNT];
  const double  tensor[RANKS] = {8, 30, 9, 20}, mates[RANKS] = {8, 30, 9, 20};

  (void)state;
  see(all, TRI_TENSOR, 6000, 1, tensor);
  see(all, TRI_MATES, 6000, 1, mates);
  assert_int_equal(tri_links_rows(all, 4, 1, 2, &machine, row), 2);
  assert_true(row[0].scope == TRI_TENSOR && row[0].ranks == 2 && row[0].which == 1 && row[0].rate == 300);
  assert_true(row[1].scope == TRI_MATES && row[1].ranks == 2 && row[1].which == 1);
  assert_true(fabs(row[1].rate - 6000.0 / 9) < 1e-9);
}

static void a_run_of_one_rank_has_no_rows(void **state) {
  tri_link_seen all[TRI_SCOPE_COUNT] = {{0}};
  tri_link_row  row[TRI_SCOPE_COUNT];

  (void)state;
  assert_int_equal(tri_links_rows(all, 1, 1, 1, &machine, row), 0);
}

static void the_slowest_is_warned_of(void **state) {
  tri_link_row row[] = {{TRI_NODE, 8, 3, 2e9, 1e9, 3e9, true},     /* just a third */
                        {TRI_CROSS, 4, 7, 2e9, 0.9e9, 3e9, true},  /* less */
                        {TRI_WORLD, 32, 0, 2e9, 1e6, 3e9, false}}; /* by its latency */
  tri_text     text = {0};

  (void)state;
  assert_ptr_equal(tri_links_slow(row, 3), &row[1]);
  row[1].rate = NAN;
  assert_null(tri_links_slow(row, 3));
  row[0].rate = 0.5e9;
  assert_ptr_equal(tri_links_slow(row, 3), &row[0]);
  assert_int_equal(tri_links_warning(&row[0], true, &text), TRI_OK);
  assert_non_null(strstr(text.data, "node communicator of node 3 "));
  assert_non_null(strstr(text.data, " 0.5 GB/s"));
  assert_non_null(strstr(text.data, " 3 "));
  assert_non_null(strstr(text.data, "doctor's figures"));
  tri_text_free(&text);
}

static void a_table_has_a_row_for_each(void **state) {
  const tri_link_row row[] = {{TRI_NODE, 8, 0, 1234.5e9, 200.4e9, 351e9, true},
                              {TRI_CROSS, 2, 0, 2e9, 0.9e9, 3e9, true},
                              {TRI_WORLD, 16384, 0, 5.4321e6, NAN, 12.3e9, true},
                              {TRI_WORLD, 4, 0, 50, 1, 4, false}};
  tri_text           text = {0};

  (void)state;
  assert_int_equal(tri_links_words(row, 4, false, &text), TRI_OK);
  assert_string_equal(text.data,
                      "communicator ranks  GB moved measured GB/s planned GB/s  link\n"
                      "               node             8      1234           200          351    ok\n"
                      "               cross            2         2           0.9            3  slow\n"
                      "               world        16384   0.00543             -         12.3     -\n"
                      "               world            4     5e-08         1e-09        4e-09     -\n"
                      "               moved: sent by each rank. planned: by the table of machines\n"
                      "               measured: speed of the fastest collective\n"
                      "               link: slow below a third of planned, - if too small to tell");
  tri_text_free(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_are_those_of_rings),
      cmocka_unit_test(the_fastest_of_the_large_counts),
      cmocka_unit_test(a_step_has_its_own),
      cmocka_unit_test(what_is_not_timed_has_no_rate),
      cmocka_unit_test(rows_have_the_slowest_communicator),
      cmocka_unit_test(the_world_goes_at_the_rate_between_nodes),
      cmocka_unit_test(a_divided_node_has_its_groups),
      cmocka_unit_test(a_run_of_one_rank_has_no_rows),
      cmocka_unit_test(the_slowest_is_warned_of),
      cmocka_unit_test(a_table_has_a_row_for_each),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
