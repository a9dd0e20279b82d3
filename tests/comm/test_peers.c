/* test_peers.c - the monitor over the ranks without its thread: verdicts from heartbeats with given times,
 * their descriptions, datagrams byte by byte, the status page, the member table. Judge: exact values. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/peers/ask.h"
#include "comm/peers/rank_status.h"
#include "comm/peers/detector.h"
#include "comm/peers/net.h"
#include "comm/peers/node.h"
#include "comm/peers/proc_state.h"
#include "comm/peers/members.h"
#include "comm/peers/wire.h"

enum { N = 4 };
enum { OVERDUE_S = 3 };
static const tri_limits limit = {.silent_s = 20, .late_s = 600, .dead_s = 0.2};
static tri_rank_info    infos[N];
static tri_seen         seen[N];

/* Two nodes, n0 and n1, with two ranks each in MPI's numbering. All compute. */
static int set_up(void **state) {
  (void)state;
  for (int r = 0; r < N; r++) {
    infos[r] = (tri_rank_info){.rank = r,
                               .task = TRI_RANK_INFO_NOTHING,
                               .which = {0, r / 2, r % 2},
                               .group = r / 2 * 2,
                               .pid = 1000 + r};
    snprintf(infos[r].host, sizeof infos[r].host, "n%d", r / 2);
    snprintf(infos[r].device, sizeof infos[r].device, "cpu");
    seen[r] = (tri_seen){.heartbeat = {.rank = r, .scope = TRI_RANK_STATUS_NOWHERE, .phase = "learn"},
                         .news_s = 100,
                         .came_s = 100,
                         .dead_s = -1,
                         .known = true};
  }
  return 0;
}

static void come(int r, int scope, uint64_t number) {
  assert_true(tri_come_put(&seen[r].heartbeat.come, scope, number));
}

/* The rank has come to collective `number` and waits there. */
static void wait_in(int r, int scope, uint64_t number, double waited_s) {
  seen[r].heartbeat.scope = scope;
  seen[r].heartbeat.number = number;
  come(r, scope, number);
  seen[r].heartbeat.waited_s = waited_s;
  snprintf(seen[r].heartbeat.label, sizeof seen[r].heartbeat.label, "all_gather policy layer 3 weights");
}

static tri_verdict detect_at(double now_s) { return tri_peers_detect(infos, seen, N, &limit, now_s); }

static void expect(tri_verdict v, tri_verdict_kind kind, int culprit, int waiter) {
  assert_int_equal(v.kind, kind);
  if (kind == TRI_VERDICT_NOTHING) return;
  assert_int_equal(v.culprit, culprit);
  assert_int_equal(v.waiter, waiter);
}

static void test_silent(void **state) {
  (void)state;
  expect(detect_at(1000), TRI_VERDICT_NOTHING, 0, 0); /* all silent, and nobody waits */
  for (int r = 0; r < N; r++) seen[r].news_s = r == 3 ? 100 : 121;
  expect(detect_at(121), TRI_VERDICT_NOTHING, 0, 0); /* one is silent, and nobody waits for it */
  wait_in(0, TRI_RANK_STATUS_WORLD, 7, 19.9);
  expect(detect_at(121), TRI_VERDICT_NOTHING, 0, 0); /* not long enough */
  wait_in(0, 1, 7, 25);
  expect(detect_at(121), TRI_VERDICT_NOTHING, 0, 0); /* in a collective of the other node */
  wait_in(0, TRI_RANK_STATUS_WORLD, 7, 20);
  expect(detect_at(121), TRI_VERDICT_SILENT, 3, 0);
  expect(detect_at(119.9), TRI_VERDICT_NOTHING, 0, 0); /* silent for 19.9 s */
  wait_in(2, 1, 5, 30);
  expect(detect_at(121), TRI_VERDICT_SILENT, 3, 2); /* the rank that waits longest for it */
}

static void hear(int r, double now_s) {
  const tri_heartbeat b = seen[r].heartbeat;

  tri_peers_hear(&seen[r], &b, now_s);
  seen[r].news_s = now_s;
}

/* No wait is recorded: the others may wait for the silent ranks inside a library. */
static void test_stopped(void **state) {
  tri_heartbeat   b;
  tri_verdict     v;
  const tri_seen *s = &seen[0];

  (void)state;
  seen[3].news_s = 680;
  hear(0, 699);
  hear(1, 699);
  expect(detect_at(699.9), TRI_VERDICT_NOTHING, 0, 0);
  v = detect_at(700);
  expect(v, TRI_VERDICT_SILENT, 2, TRI_RANK_INFO_NOTHING);
  assert_true(v.since_s == 600);
  assert_true(tri_peers_means(infos, seen, &limit, 700, &v, 2));
  assert_false(tri_peers_means(infos, seen, &limit, 700, &v, 3)); /* silent, but not for that long */
  seen[2].mute = true;
  expect(detect_at(700), TRI_VERDICT_NOTHING, 0, 0);
  seen[2].mute = false;
  seen[0].mute = seen[1].mute = true; /* no rank is known to live */
  expect(detect_at(700), TRI_VERDICT_NOTHING, 0, 0);
  seen[0].mute = seen[1].mute = false;
  /* Another rank still comes to collectives, so the run goes on, and only heartbeats are lost. */
  b = s->heartbeat;
  assert_true(tri_come_put(&b.come, TRI_RANK_STATUS_WORLD + TRI_RANK_STATUS_ROUNDS, 1));
  tri_peers_hear(&seen[0], &b, 650);
  assert_true(s->came_s == 650);
  tri_peers_hear(&seen[0], &b, 690);
  assert_true(s->came_s == 650);
  expect(detect_at(700), TRI_VERDICT_NOTHING, 0, 0);
  hear(0, 1249);
  hear(1, 1249);
  expect(detect_at(1249.9), TRI_VERDICT_NOTHING, 0, 0);
  expect(detect_at(1250), TRI_VERDICT_SILENT, 2, TRI_RANK_INFO_NOTHING);
}

/* A machine that was never heard is not monitored. */
static void test_unheard(void **state) {
  (void)state;
  seen[2].known = seen[3].known = false;
  seen[0].news_s = seen[1].news_s = 500;
  wait_in(0, TRI_RANK_STATUS_WORLD, 7, 300);
  expect(detect_at(500), TRI_VERDICT_NOTHING, 0, 0);
  wait_in(0, TRI_RANK_STATUS_WORLD, 7, 600);
  expect(detect_at(500), TRI_VERDICT_LATE, 1,
         0); /* its number is lower than that of the other working rank */
  wait_in(1, TRI_RANK_STATUS_WORLD, 7, 600);
  expect(detect_at(500), TRI_VERDICT_LATE, 2, 0);
}

/* Heartbeats are lost, and the run goes on. A rank that takes part in collectives is not silent. */
static void test_meet(void **state) {
  (void)state;
  seen[0].news_s = seen[1].news_s = seen[2].news_s = 200;
  come(3, TRI_RANK_STATUS_WORLD, 41);
  seen[0].heartbeat.met = 41;
  tri_peers_meet(seen, N, 200);
  assert_true(seen[3].news_s == 100); /* its own heartbeat said so */
  seen[0].heartbeat.met = 42;
  tri_peers_meet(seen, N, 200);
  assert_true(seen[3].news_s == 200 && tri_come_get(&seen[3].heartbeat.come, TRI_RANK_STATUS_WORLD) == 42);
  tri_peers_meet(seen, N, 210);
  assert_true(seen[3].news_s == 200); /* the same collective is no news again */
  wait_in(0, TRI_RANK_STATUS_WORLD, 43, 20);
  seen[0].news_s = 219;
  expect(detect_at(219), TRI_VERDICT_NOTHING, 0, 0);
  expect(detect_at(220), TRI_VERDICT_SILENT, 1, 0);
}

static void test_dead(void **state) {
  (void)state;
  seen[2].dead_s = 100;
  expect(detect_at(100.1), TRI_VERDICT_NOTHING, 0, 0);
  expect(detect_at(100.2), TRI_VERDICT_DEAD, 2, TRI_RANK_INFO_NOTHING);
  wait_in(1, TRI_RANK_STATUS_WORLD, 3, 0.1);
  expect(detect_at(100.2), TRI_VERDICT_DEAD, 2, 1);
  seen[2].heartbeat.life = TRI_LIFE_ENDS; /* it had announced its end */
  expect(detect_at(200), TRI_VERDICT_NOTHING, 0, 0);
}

/* A rank with heartbeats is ended by run.timeout_s alone. Among several late ranks, the culprit is one that
 * waits for nobody. */
static void test_late(void **state) {
  (void)state;
  for (int r = 0; r < N; r++) seen[r].news_s = 1000;
  wait_in(0, TRI_RANK_STATUS_WORLD, 9, 599);
  wait_in(1, 1, 9, 500);
  expect(detect_at(1000), TRI_VERDICT_NOTHING, 0, 0);
  wait_in(0, TRI_RANK_STATUS_WORLD, 9, 600);
  expect(detect_at(1000), TRI_VERDICT_LATE, 2, 0);
  for (int r = 1; r < N; r++) wait_in(r, TRI_RANK_STATUS_WORLD, 9, 1);
  expect(detect_at(1000), TRI_VERDICT_LATE, TRI_RANK_INFO_NOTHING, 0); /* all have come */
  come(3, TRI_RANK_STATUS_WORLD, 8);
  expect(detect_at(1000), TRI_VERDICT_LATE, 3, 0);
  wait_in(3, 1, 4, 1); /* it waits for rank 2, which waits for it, and the circle ends */
  wait_in(2, TRI_RANK_STATUS_WORLD, 9, 1);
  come(2, 1, 3);
  come(3, TRI_RANK_STATUS_WORLD, 8);
  assert_int_equal(detect_at(1000).kind, TRI_VERDICT_LATE);
  seen[2].heartbeat.scope = TRI_RANK_STATUS_NOWHERE;
  expect(detect_at(1000), TRI_VERDICT_LATE, 2, 3);
  seen[3].heartbeat.scope = TRI_RANK_STATUS_NOWHERE;
  seen[3].news_s = 985; /* both limits at once */
  expect(detect_at(1000), TRI_VERDICT_SILENT, 3, 0);
  for (int r = 0; r < N; r++) wait_in(r, TRI_RANK_STATUS_WORLD, 9, 600); /* it was stopped in a collective */
  expect(detect_at(1000), TRI_VERDICT_SILENT, 3, 0);
}

static void test_scopes(void **state) {
  (void)state;
  assert_true(tri_peers_share(infos, TRI_RANK_STATUS_WORLD, 0, 3));
  assert_true(tri_peers_share(infos, 1, 2, 3) && !tri_peers_share(infos, 1, 1, 2));
  assert_true(tri_peers_share(infos, 2, 0, 2) && !tri_peers_share(infos, 2, 0, 3));
}

/* Rounds are counted apart from the other collectives of their scope. The pairs of ranks have any order. */
static void test_rounds(void **state) {
  const int rounds = TRI_RANK_STATUS_WORLD + TRI_RANK_STATUS_ROUNDS;

  (void)state;
  assert_true(tri_peers_share(infos, rounds, 0, 3));
  assert_true(tri_peers_share(infos, rounds + 1, 2, 3) && !tri_peers_share(infos, rounds + 1, 1, 2));
  for (int r = 0; r < N; r++) {
    seen[r].news_s = 1000;
    come(r, r % 2 ? rounds : TRI_RANK_STATUS_WORLD, r % 2 ? 5 : 90);
    come(r, r % 2 ? TRI_RANK_STATUS_WORLD : rounds, r % 2 ? 90 : 5);
  }
  come(2, rounds, 4);
  wait_in(0, rounds, 5, 600);
  expect(detect_at(1000), TRI_VERDICT_LATE, 2, 0);
  come(2, rounds, 5);
  expect(detect_at(1000), TRI_VERDICT_LATE, TRI_RANK_INFO_NOTHING, 0); /* all have come */
}

static void test_come(void **state) {
  tri_come c = {0};

  (void)state;
  assert_int_equal(tri_come_get(&c, 0), 0);
  for (int i = 0; i < TRI_RANK_STATUS_MOST; i++) assert_true(tri_come_put(&c, 15 - i, 100 + (uint64_t)i));
  assert_false(tri_come_put(&c, 15 - TRI_RANK_STATUS_MOST, 7)); /* no place is left */
  assert_true(tri_come_put(&c, 15, 9) && c.n == TRI_RANK_STATUS_MOST);
  assert_true(tri_come_get(&c, 15) == 9 && tri_come_get(&c, 14) == 101 && tri_come_get(&c, 0) == 0);
}

/* Checks that the description of a verdict holds these facts in this order. NULL ends them. */
static void expect_words(tri_verdict v, double now_s, const char *cause, const char *const *fact) {
  tri_text    t = {0};
  const char *at;

  assert_string_equal(tri_peers_cause(infos, seen, N, &limit, now_s, &v), cause);
  assert_int_equal(tri_peers_words(infos, seen, N, &limit, now_s, &v, &t), TRI_OK);
  at = t.data;
  for (; *fact; fact++) {
    at = strstr(at, *fact);
    if (!at) fail_msg("no \"%s\" in its place in: %s", *fact, t.data);
    at += strlen(*fact);
  }
  assert_non_null(strstr(at, "76"));
  assert_non_null(strstr(at, "run.resume"));
  tri_text_free(&t);
}
#define EXPECT_WORDS(now_s, cause, ...)                                                                      \
  expect_words(detect_at(now_s), (now_s), (cause), (const char *const[]){__VA_ARGS__, NULL})

static void test_words(void **state) {
  (void)state;
  for (int r = 0; r < 2; r++) seen[r].news_s = 121, wait_in(r, TRI_RANK_STATUS_WORLD, 412, 21);
  infos[2].task = 1, infos[3].task = 3;
  come(2, TRI_RANK_STATUS_WORLD, 411);
  EXPECT_WORDS(121, "silent", "rank 2 (task 1) on n1, cpu; rank 3 on n1, cpu: ", "21 s\n", "learn", "rank 0 ",
               "learn", "all_gather policy layer 3 weights", "412", "world", "0-1", "2-3\n");
  wait_in(0, 2, 9, 3), wait_in(1, 2, 9, 21); /* nobody waits long enough for the lowest silent rank */
  EXPECT_WORDS(121, "silent", "rank 2 (task 1) on n1, cpu; rank 3 on n1, cpu: ", "21 s\n", "learn", "rank 1 ",
               "learn", "all_gather policy layer 3 weights", "9", "cross", ": 1.", ": 3\n");
  for (int r = 0; r < 2; r++) wait_in(r, TRI_RANK_STATUS_WORLD, 412, 21);
  seen[1].dead_s = 120;
  EXPECT_WORDS(121, "died", "rank 1 on n0, cpu: ", "died", "1001)\n", "learn",
               "all_gather policy layer 3 weights\n", "rank 0 ", "learn", "all_gather policy layer 3 weights",
               "412", "world", "0-1", "2-3\n");
  seen[1].starved = true;
  infos[1].memory_limit_bytes = (uint64_t)402 << 20;
  EXPECT_WORDS(121, "out_of_memory", "rank 1 on n0, cpu: ", "died", "1001)", "out of memory", "402.0 MiB\n",
               "--mem", "--mem-per-cpu", "train.max_tokens_per_gpu", "rollout.max_cached_tokens\n", "learn",
               "all_gather policy layer 3 weights\n", "rank 0 ", "412", "world", "0-1", "2-3\n");
  set_up(NULL);
  for (int r = 0; r < 3; r++) wait_in(r, TRI_RANK_STATUS_WORLD, 5, 600);
  EXPECT_WORDS(101, "late", "rank 3 on n1, cpu: ", "late", "600 s (run.timeout_s)\n", "learn", "rank 0 ",
               "all_gather policy layer 3 weights", "5", "world", "0-2", ": 3\n");
  wait_in(3, TRI_RANK_STATUS_WORLD, 5, 1);
  EXPECT_WORDS(101, "hangs", "600 s (run.timeout_s)", "rank 0 ", "all_gather policy layer 3 weights", "5",
               "world", "0-3", "none\n");
}

static bool is_odd(const void *ctx, int rank) {
  (void)ctx;
  return rank % 2 == 1;
}

static void test_ranges(void **state) {
  tri_text t = {0};

  (void)state;
  assert_int_equal(tri_peers_ranks(40, is_odd, NULL, &t), TRI_OK);
  assert_string_equal(t.data, "1, 3, 5, 7, 9, 11, 13, 15 and 12 more");
  tri_text_free(&t);
}

static void test_slow(void **state) {
  double times = 0;

  (void)state;
  assert_int_equal(tri_peers_slow(seen, N, &times), TRI_RANK_INFO_NOTHING); /* no window has ended */
  for (int r = 0; r < N; r++) seen[r].heartbeat.window = 1, seen[r].heartbeat.work_s = r == 2 ? 4.9 : 2;
  assert_int_equal(tri_peers_slow(seen, N, &times), 2);
  assert_true(times == 4.9 / 2);
  assert_int_equal(tri_peers_slow(seen, N, &times), TRI_RANK_INFO_NOTHING); /* the same windows */
  for (int r = 0; r < N; r++) seen[r].heartbeat.window = 2, seen[r].heartbeat.work_s = r == 2 ? 4 : 2;
  assert_int_equal(tri_peers_slow(seen, N, &times), TRI_RANK_INFO_NOTHING); /* not more than twice */
  for (int r = 0; r < N; r++) seen[r].heartbeat.window = 3, seen[r].heartbeat.work_s = r == 2 ? 2.4 : 1;
  assert_int_equal(tri_peers_slow(seen, N, &times), TRI_RANK_INFO_NOTHING); /* all waited most of the time */
  for (int r = 0; r < 2; r++) seen[r].heartbeat.window = 4, seen[r].heartbeat.work_s = r == 1 ? 5 : 2;
  assert_int_equal(tri_peers_slow(seen, 2, &times), 1); /* with two ranks */
}

/* ---- the status page ---- */

static void test_rank_status(void **state) {
  tri_rank_status b;
  uint64_t        turn, first;

  (void)state;
  tri_rank_status_read(&b);
  first = tri_come_get(&b.come, 1);
  tri_rank_status_carry("policy", "layer 3", "weights");
  assert_int_equal(tri_rank_status_come(1, "all_gather"), first + 1);
  tri_rank_status_read(&b);
  assert_true(b.scope == TRI_RANK_STATUS_NOWHERE && tri_come_get(&b.come, 1) == first + 1 && !b.label[0]);
  tri_rank_status_enter(1, "sum");
  tri_rank_status_read(&b);
  assert_true(b.scope == 1 && b.number == first + 2 && !strcmp(b.label, "sum"));
  turn = b.turn;
  tri_rank_status_wait(0, 5); /* a nested wait counts as the outer one */
  tri_rank_status_leave(true);
  tri_rank_status_read(&b);
  assert_true(b.scope == 1 && b.turn == turn && b.met == 0);
  tri_rank_status_leave(true);
  tri_rank_status_wait(1, first + 1);
  tri_rank_status_read(&b);
  assert_string_equal(b.label, "all_gather policy layer 3 weights");
  tri_rank_status_leave(false);
  tri_rank_status_enter(TRI_RANK_STATUS_WORLD, "a label of more letters than fit, by a word or by two");
  tri_rank_status_read(&b);
  assert_int_equal(strlen(b.label), TRI_RANK_STATUS_LABEL_BYTES - 1);
  tri_rank_status_leave(true);
  tri_rank_status_read(&b);
  assert_true(b.met == tri_come_get(&b.come, TRI_RANK_STATUS_WORLD) && b.turn != turn && b.waited_s >= 0);
  assert_string_equal(tri_rank_status_phase("learn"), "start");
  tri_rank_status_read(&b);
  assert_string_equal(b.phase, "learn");
  tri_rank_status_device_waits(2, 8);
  tri_rank_status_read(&b);
  assert_true(b.scope == 2 && b.number == 8);
  tri_rank_status_device_waits(TRI_RANK_STATUS_NOWHERE, 0);
  turn = tri_come_get(&b.come, TRI_RANK_STATUS_WORLD);
  tri_rank_status_enter(TRI_RANK_STATUS_ROUNDS, "words"); /* the world's rounds are counted apart */
  tri_rank_status_leave(true);
  tri_rank_status_read(&b);
  assert_true(tri_come_get(&b.come, TRI_RANK_STATUS_ROUNDS) == 1 && b.met == turn);
  assert_true(tri_come_get(&b.come, TRI_RANK_STATUS_WORLD) == turn);
}

/* ---- the member table ---- */

static tri_members *open_members(int rank) {
  tri_members *r = NULL;
  tri_node    *node = NULL;

  assert_int_equal(tri_node_make(2, NULL, &node), TRI_OK);
  assert_int_equal(tri_members_open(infos, N, rank, node, rank % 2, &r), TRI_OK);
  tri_members_begin(r, 0);
  return r;
}

static void test_node(void **state) {
  tri_node     *made = NULL, *opened = NULL, *none = NULL;
  char          name[TRI_NODE_NAME_BYTES];
  tri_heartbeat in = {.rank = 1, .scope = 2, .phase = "save"}, out;

  (void)state;
  assert_int_equal(tri_node_make(2, name, &made), TRI_OK);
  assert_int_equal(tri_node_open(name, 2, &opened), TRI_OK);
  tri_node_unname(name);
  assert_int_not_equal(tri_node_open(name, 2, &none), TRI_OK);
  tri_error_clear();
  assert_int_equal(tri_node_get(opened, 1, &out), 0);
  tri_node_put(opened, 1, &in);
  assert_int_equal(tri_node_get(opened, 1, &out), 2);
  assert_memory_equal(&in, &out, sizeof in);
  tri_node_end(opened, 1);
  tri_node_get(opened, 1, &out);
  assert_int_equal(out.life, TRI_LIFE_ENDS);
  assert_true(!tri_node_is_claimed(opened) && tri_node_claim(opened) && !tri_node_claim(opened));
  tri_node_close(&opened);
  tri_node_close(&made);
}

static void test_members(void **state) {
  tri_members  *root = open_members(0), *other = open_members(3);
  tri_wire      w = {.kind = TRI_WIRE_REPORT, .sender = 3, .sequence = 5};
  tri_heartbeat b = {.rank = 3, .scope = TRI_RANK_STATUS_NOWHERE, .phase = "learn", .come = {1, {0}, {9}}};
  tri_net_end   from = {{1}, 2};
  int           next = 0;

  (void)state;
  assert_int_equal(root->n_groups, 2);
  assert_true(root->mine == 0 && other->mine == 1 && other->place == 1);
  tri_node_put(other->node, 1, &b);
  assert_false(tri_members_look(other, 1, OVERDUE_S));
  assert_true(tri_members_speaks(other, 1, 5)); /* rank 2 never moved */
  tri_members_fill(other, &next, &w);
  assert_true(next == 2 && w.n == 1 && w.heartbeat[0].rank == 3);
  assert_true(tri_members_take(root, &w, &from, 7));
  assert_true(root->seen[3].known && root->seen[3].news_s == 7 &&
              tri_come_get(&root->seen[3].heartbeat.come, 0) == 9);
  assert_false(root->seen[2].known);
  assert_true(root->group[1].heard && tri_members_find(root, &from) == 1);
  assert_false(tri_members_take(root, &w, &from, 8)); /* replayed */
  w.sequence = 6, w.heartbeat[0].rank = 1;
  assert_false(tri_members_take(root, &w, &from, 8)); /* about a rank of another machine */
  w.heartbeat[0].rank = 3, w.heartbeat[0].silent_s = 3;
  assert_true(tri_members_take(root, &w, &from, 9) && root->seen[3].news_s == 7);
  w.sequence = 7, w.heartbeat[0].life = TRI_LIFE_DEAD;
  assert_true(tri_members_take(root, &w, &from, 10) && root->seen[3].dead_s == 10);
  assert_true(root->seen[3].heartbeat.life == TRI_LIFE_WORKS && !root->seen[3].starved);
  w.sequence = 8, w.heartbeat[0].life = TRI_LIFE_STARVED;
  assert_true(tri_members_take(root, &w, &from, 11) && root->seen[3].dead_s == 10 && root->seen[3].starved);
  assert_true(root->seen[3].heartbeat.life == TRI_LIFE_WORKS);
  other->seen[3].dead_s = 1, other->seen[3].starved = true, next = 0; /* so its own machine reports it */
  tri_members_fill(other, &next, &w);
  assert_true(w.n == 1 && w.heartbeat[0].life == TRI_LIFE_STARVED);
  w = (tri_wire){.kind = TRI_WIRE_HEARD, .sender = 3, .sequence = 9};
  assert_false(tri_members_take(root, &w, &from, 11)); /* nobody answers the root */
  w.sender = 1;
  assert_true(tri_members_take(other, &w, &from, 11) && other->seen[0].news_s == 11);
  tri_members_close(&root);
  tri_members_close(&other);
}

/* Rank 2's process is a child that has died. */
static void test_gone(void **state) {
  tri_members  *r;
  tri_heartbeat b = {.rank = 2, .scope = TRI_RANK_STATUS_NOWHERE};
  pid_t         child = fork();

  (void)state;
  if (child == 0) _exit(0);
  assert_true(child > 0);
  for (int q = 0; q < N; q++) infos[q].pid_space = 1, infos[q].pid = (int32_t)getpid();
  infos[2].pid = (int32_t)child;
  r = open_members(3);
  tri_node_put(r->node, 0, &b);
  assert_false(tri_members_look(r, 1, OVERDUE_S)); /* until it is reaped the number is its own */
  assert_false(tri_members_speaks(r, 1, 5));
  assert_int_equal(waitpid(child, NULL, 0), child);
  assert_true(tri_members_look(r, 2, OVERDUE_S) && r->seen[2].dead_s == 2);
  assert_false(tri_members_look(r, 3, OVERDUE_S)); /* once */
  assert_true(tri_members_speaks(r, 3, 50));
  tri_members_close(&r);
}

static tri_verdict judge_members(tri_members *r, double now_s) {
  r->seen[3].known = true;
  r->seen[3].news_s = now_s;
  r->seen[3].heartbeat.scope = TRI_RANK_STATUS_WORLD;
  r->seen[3].heartbeat.number = 9;
  r->seen[3].heartbeat.come = (tri_come){1, {0}, {9}};
  r->seen[3].heartbeat.waited_s = now_s;
  return tri_peers_detect(r->info, r->seen, N, &limit, now_s);
}

/* Rank 2 is a child process without heartbeats. While it can run, it is slow. Stopped by a signal, it is
 * silent. As a zombie, or with its number given to another process, it is dead. Judge: the given clock. */
static void test_overdue(void **state) {
  tri_members  *r;
  tri_heartbeat b = {.rank = 2, .scope = TRI_RANK_STATUS_NOWHERE};
  siginfo_t     info;
  pid_t         child = fork();
  int           status;

  (void)state;
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* if this test fails */
    for (volatile long i = 0;;) i++;
  }
  assert_true(child > 0);
  for (int q = 0; q < N; q++) infos[q].pid_space = 1, infos[q].pid = (int32_t)getpid();
  infos[2].pid = (int32_t)child;
  infos[2].start = tri_proc_start(child);
  assert_true(infos[2].start > 0 && tri_proc_start(getpid()) <= infos[2].start);
  r = open_members(3);
  tri_node_put(r->node, 0, &b);
  for (double now_s = 0; now_s <= 100; now_s += 0.25) {
    assert_false(tri_members_look(r, now_s, OVERDUE_S));
    expect(judge_members(r, now_s), TRI_VERDICT_NOTHING, 0, 0);
    assert_int_equal(tri_members_overdue(r, now_s, 15), now_s < 15 ? TRI_RANK_INFO_NOTHING : 2);
  }
  assert_false(kill(child, SIGSTOP));
  assert_true(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
  assert_int_equal(tri_proc_look(child, infos[2].start), TRI_PROC_STOPPED);
  assert_true(r->seen[2].news_s == 99); /* its process is checked every third second */
  for (double now_s = 100.25; now_s < 99 + limit.silent_s; now_s += 0.25) {
    assert_false(tri_members_look(r, now_s, OVERDUE_S));
    expect(judge_members(r, now_s), TRI_VERDICT_NOTHING, 0, 0);
  }
  assert_int_equal(tri_members_overdue(r, 118, 15), TRI_RANK_INFO_NOTHING);
  expect(judge_members(r, 99 + limit.silent_s), TRI_VERDICT_SILENT, 2, 3);
  assert_int_equal(tri_proc_look(child, infos[2].start + 1), TRI_PROC_GONE);
  assert_false(kill(child, SIGKILL));
  assert_false(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT));
  assert_true(tri_members_look(r, 121, OVERDUE_S) && r->seen[2].dead_s == 121);
  assert_int_equal(waitpid(child, &status, 0), child);
  tri_members_close(&r);
}

static void test_proc_state(void **state) {
  const char *const line = "7 (a (b) c) R 1 7 7 0 -1 4194304 100 0 0 0 5 6 0 0 20 0 2 0 123456 1000 200 1\n";
  char              letter = 0;
  uint64_t          start = 0;

  (void)state;
  assert_true(tri_proc_read(line, &letter, &start) && letter == 'R' && start == 123456);
  assert_false(tri_proc_read("7 (a) R 1 7 7 0 -1 4194304 100 0 0 0 5 6 0 0 20 0 2 0", &letter, &start));
  assert_false(tri_proc_read("7 (a) R 1 7 7 0 -1 4194304 100 0 0 0 5 6 0 0 20 0 2 0 123", &letter, &start));
  assert_false(tri_proc_read("7 (a) R 1 7 7 0 -1 4194304 100 0 0 0 5 6 0 0 20 0 2 0 x ", &letter, &start));
  assert_false(tri_proc_read("7 (a)", &letter, &start) || tri_proc_read("", &letter, &start));
  assert_int_equal(tri_proc_look(getpid(), tri_proc_start(getpid())), TRI_PROC_RUNS);
  assert_int_equal(tri_proc_start(0), 0);
}

/* Heartbeats and answers are lost while collectives go on. From the third collective on, the machine is
 * known to live, and its silence ends nothing. Its next heartbeat makes it monitored again. Judge: the
 * given clock. */
static void test_lost(void **state) {
  tri_members *root = open_members(0);
  tri_wire     w = {.kind = TRI_WIRE_REPORT, .sender = 2, .sequence = 1, .n = 2};
  tri_net_end  from = {{1}, 2};

  (void)state;
  for (int i = 0; i < 2; i++)
    w.heartbeat[i] = (tri_heartbeat){.rank = 2 + i, .scope = TRI_RANK_STATUS_NOWHERE, .come = {1, {0}, {5}}};
  assert_true(tri_members_take(root, &w, &from, 0));
  for (int r = 0; r < 2; r++) root->seen[r].known = true;
  root->group[1].unanswered = 4; /* nor by TCP */
  for (int i = 0; i < 3; i++) {
    tri_verdict v;
    root->seen[0].heartbeat.met = 10 + (uint64_t)i;
    tri_members_meet(root, 12 + i, 10);
    tri_members_meet(root, 12.5 + i, 10);                  /* the same collective counts once */
    root->seen[0].heartbeat.scope = TRI_RANK_STATUS_WORLD; /* rank 2 computes 30 s longer than the others */
    root->seen[0].heartbeat.number = 99;
    root->seen[0].heartbeat.come = (tri_come){1, {0}, {99}};
    root->seen[0].heartbeat.waited_s = 30;
    root->seen[0].news_s = root->seen[1].news_s = 42 + i;
    tri_members_mute(root, 42 + i, 8);
    v = tri_peers_detect(root->info, root->seen, N, &limit, 42 + i);
    assert_int_equal(v.kind, i < 2 ? TRI_VERDICT_SILENT : TRI_VERDICT_NOTHING);
    root->seen[0].heartbeat.scope = TRI_RANK_STATUS_NOWHERE;
  }
  assert_true(root->group[1].lost && root->seen[2].mute && root->seen[3].mute && !root->seen[0].mute);
  w.sequence = 2;
  assert_true(tri_members_take(root, &w, &from, 50));
  tri_members_mute(root, 50, 8);
  assert_true(!root->group[1].lost && !root->seen[2].mute);
  tri_members_meet(root, 100, 10);
  assert_int_equal(root->group[1].meets, 0); /* no heartbeat since */
  tri_members_close(&root);
}

/* A rank of another machine stands still while its neighbour reports for both. The report includes its
 * silence. */
static void test_neighbour(void **state) {
  tri_members  *root = open_members(0), *other = open_members(3);
  tri_wire      w = {.kind = TRI_WIRE_REPORT, .sender = 3, .sequence = 1};
  tri_heartbeat b = {.rank = 2, .scope = TRI_RANK_STATUS_NOWHERE};
  tri_net_end   from = {{1}, 2};
  int           next = 0;

  (void)state;
  tri_node_put(other->node, 0, &b);
  tri_members_look(other, 5, OVERDUE_S);
  tri_members_look(other, 12, OVERDUE_S);
  tri_members_fill(other, &next, &w);
  assert_true(w.n == 1 && w.heartbeat[0].rank == 2 && w.heartbeat[0].silent_s == 7);
  assert_true(tri_members_take(root, &w, &from, 12) && root->seen[2].news_s == 5);
  tri_members_close(&root);
  tri_members_close(&other);
}

/* ---- the network ---- */

static tri_net_end own_end(bool six, uint32_t port) {
  tri_net_end end = {.port = port};

  if (six)
    end.address[15] = 1;
  else
    memcpy(end.address, (const uint8_t[]){0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}, 16);
  return end;
}

/* True if this machine has ::1. */
static bool has_six(void) {
  FILE *f = fopen("/proc/net/if_inet6", "r");
  char  line[128];
  bool  found = false;

  while (f && fgets(line, sizeof line, f))
    found = found || !strncmp(line, "00000000000000000000000000000001 ", 33);
  if (f) fclose(f);
  return found;
}

/* Two sockets of this machine exchange datagrams, and a closed one refuses. */
static void speak(bool six) {
  uint32_t      port[2];
  int           fd[2], listen[2];
  tri_net_end   from = {.port = 0}, to;
  char          got[64];
  struct pollfd at;

  for (int i = 0; i < 2; i++) assert_int_equal(tri_net_open(&fd[i], &listen[i], &port[i]), TRI_OK);
  assert_true(listen[0] >= 0 && listen[1] >= 0);
  to = own_end(six, port[1]);
  assert_int_equal(tri_net_receive(fd[1], got, sizeof got, &from), 0);
  tri_net_send(fd[0], &to, "beat", 4);
  at = (struct pollfd){.fd = fd[1], .events = POLLIN};
  assert_int_equal(poll(&at, 1, 60000), 1);
  assert_int_equal(tri_net_receive(fd[1], got, sizeof got, &from), 4);
  assert_memory_equal(got, "beat", 4);
  assert_int_equal(from.port, port[0]);
  assert_memory_equal(from.address, to.address, sizeof to.address);
  close(fd[1]);
  tri_net_send(fd[0], &to, "beat", 4);
  at = (struct pollfd){.fd = fd[0], .events = POLLIN};
  assert_int_equal(poll(&at, 1, 60000), 1);
  assert_true(tri_net_refused(fd[0], &from));
  assert_true(from.port == to.port && !memcmp(from.address, to.address, sizeof to.address));
  close(fd[0]);
  for (int i = 0; i < 2; i++) close(listen[i]);
}

static void test_net(void **state) {
  uint8_t address[TRI_RANK_INFO_ADDRESSES][TRI_RANK_INFO_ADDRESS_BYTES];

  (void)state;
  tri_net_addresses(address);
  assert_true(tri_net_is_address(address[0]));
  speak(false);
}

static void test_net_six(void **state) {
  (void)state;
  if (!has_six()) {
    print_message("skipped: this machine has no ::1\n");
    skip();
  }
  speak(true);
}

/* Two machines, simulated by sockets of this one, lose their UDP heartbeats. Rank 0 asks, and rank 3 answers
 * for itself and for the live rank 2, and later no more. Judge: the given clock, which stands still while
 * bytes are in transit. */
typedef struct two {
  tri_members *root, *other;
  tri_ask     *asks, *answers;
  uint64_t     sequence[2];
  int          fd[2], listen[2];
} two;

static const unsigned char key_7[TRI_KEY_BYTES] = {7}, key_8[TRI_KEY_BYTES] = {8};

static void open_two(two *t, bool six, const unsigned char *other_key) {
  uint32_t port[2];

  *t = (two){.sequence = {1, 1}};
  for (int i = 0; i < 2; i++) assert_int_equal(tri_net_open(&t->fd[i], &t->listen[i], &port[i]), TRI_OK);
  for (int r = 0; r < N; r++) infos[r].port = port[r / 2];
  t->root = open_members(0), t->other = open_members(3);
  for (int r = 2; r < N; r++) {
    tri_heartbeat b = {.rank = r, .scope = TRI_RANK_STATUS_NOWHERE, .phase = "learn"};
    tri_node_put(t->other->node, r - 2, &b);
    t->root->seen[r].known = true;
  }
  t->root->group[1].heard = true;
  t->root->group[1].turn = 1; /* rank 3 is asked first */
  t->root->group[1].at = own_end(six, port[1]);
  tri_members_look(t->other, 0, OVERDUE_S);
  assert_int_equal(
      tri_ask_open(&(tri_ask_opt){t->root, key_7, &t->sequence[0], t->listen[0], 6, 3}, &t->asks), 0);
  assert_int_equal(
      tri_ask_open(&(tri_ask_opt){t->other, other_key, &t->sequence[1], t->listen[1], 6, 3}, &t->answers), 0);
}

static void close_two(two *t) {
  tri_ask_close(&t->asks);
  tri_ask_close(&t->answers);
  tri_members_close(&t->root);
  tri_members_close(&t->other);
  for (int i = 0; i < 2; i++) close(t->fd[i]), close(t->listen[i]);
}

/* Runs until the request is over. */
static void ask_until_over(two *t, double now_s) {
  tri_ask_look(t->asks, now_s, true);
  assert_true(t->root->group[1].is_asked);
  while (t->root->group[1].is_asked) {
    tri_ask_look(t->answers, now_s, false);
    tri_ask_look(t->asks, now_s, false);
    poll(NULL, 0, 1);
  }
}

static void ask(bool six) {
  two t;

  open_two(&t, six, key_7);
  tri_ask_look(t.asks, 5.9, true);
  assert_false(t.root->group[1].is_asked); /* not long enough */
  tri_members_mute(t.root, 6, 6);
  assert_true(t.root->seen[2].mute); /* it must be asked before it counts as silent */
  ask_until_over(&t, 6);
  assert_true(t.root->group[1].by_tcp && t.root->group[1].unanswered == 0);
  assert_true(t.root->group[1].heard_s == 6 && t.root->seen[2].news_s == 6 && t.root->seen[3].news_s == 6);
  assert_string_equal(t.root->seen[3].heartbeat.phase, "learn");
  tri_ask_look(t.asks, 11.9, true);
  assert_false(t.root->group[1].is_asked); /* it was heard */
  tri_ask_look(t.asks, 12, true);          /* all of it is stopped, so its kernel accepts connections and
                                            * nobody answers */
  assert_true(t.root->group[1].is_asked);
  tri_ask_look(t.asks, 15.1, false);
  assert_true(!t.root->group[1].is_asked && t.root->group[1].unanswered == 1);
  tri_members_mute(t.root, 26, 6);
  assert_false(t.root->seen[2].mute);
  for (int r = 0; r < 2; r++) t.root->seen[r].known = true, t.root->seen[r].news_s = 26;
  t.root->seen[1].heartbeat.scope = TRI_RANK_STATUS_WORLD;
  t.root->seen[1].heartbeat.number = 1;
  t.root->seen[1].heartbeat.come = (tri_come){1, {0}, {1}};
  t.root->seen[1].heartbeat.waited_s = 20;
  expect(tri_peers_detect(infos, t.root->seen, N, &limit, 26), TRI_VERDICT_SILENT, 2, 1);
  close_two(&t);
}

static void test_ask(void **state) {
  (void)state;
  ask(false);
}

static void test_ask_six(void **state) {
  (void)state;
  if (!has_six()) {
    print_message("skipped: this machine has no ::1\n");
    skip();
  }
  ask(true);
}

/* A sender without the run's key gets no answer. */
static void test_ask_stranger(void **state) {
  two t;

  (void)state;
  open_two(&t, false, key_8);
  ask_until_over(&t, 6);
  assert_true(t.root->group[1].unanswered == 1 && !t.root->group[1].by_tcp);
  assert_int_equal(t.sequence[1], 1);
  close_two(&t);
}

/* Sends bytes to rank 3 by TCP and returns the number of bytes of the answer. */
static ssize_t say_to_other(two *t, const tri_wire *w) {
  unsigned char bytes[TRI_WIRE_BYTES], got[TRI_WIRE_BYTES];
  int           fd = tri_net_connect(&t->root->group[1].at);
  size_t        n = tri_wire_write(w, key_7, bytes);
  ssize_t       have = -1;

  assert_true(fd >= 0);
  while (send(fd, bytes, n, MSG_NOSIGNAL) < 0) poll(NULL, 0, 1); /* until the connection is up */
  while (have < 0) {
    tri_ask_look(t->answers, 6, false);
    have = recv(fd, got, sizeof got, MSG_DONTWAIT);
  }
  close(fd);
  return have;
}

/* A replayed request gets no second answer, from this rank or another. */
static void test_ask_again(void **state) {
  two      t;
  tri_wire w = {.kind = TRI_WIRE_ASK, .sender = 0, .to = 3, .sequence = 5};

  (void)state;
  open_two(&t, false, key_7);
  assert_true(say_to_other(&t, &w) > 0);
  assert_int_equal(say_to_other(&t, &w), 0);
  w.sequence = 6, w.to = 2;
  assert_int_equal(say_to_other(&t, &w), 0);
  w.to = 3;
  assert_true(say_to_other(&t, &w) > 0);
  close_two(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_silent, set_up),
                                     cmocka_unit_test_setup(test_stopped, set_up),
                                     cmocka_unit_test_setup(test_unheard, set_up),
                                     cmocka_unit_test_setup(test_meet, set_up),
                                     cmocka_unit_test_setup(test_dead, set_up),
                                     cmocka_unit_test_setup(test_late, set_up),
                                     cmocka_unit_test_setup(test_scopes, set_up),
                                     cmocka_unit_test_setup(test_rounds, set_up),
                                     cmocka_unit_test(test_come),
                                     cmocka_unit_test_setup(test_words, set_up),
                                     cmocka_unit_test(test_ranges),
                                     cmocka_unit_test_setup(test_slow, set_up),
                                     cmocka_unit_test(test_rank_status),
                                     cmocka_unit_test(test_node),
                                     cmocka_unit_test_setup(test_members, set_up),
                                     cmocka_unit_test_setup(test_gone, set_up),
                                     cmocka_unit_test_setup(test_overdue, set_up),
                                     cmocka_unit_test(test_proc_state),
                                     cmocka_unit_test_setup(test_lost, set_up),
                                     cmocka_unit_test_setup(test_neighbour, set_up),
                                     cmocka_unit_test(test_net),
                                     cmocka_unit_test(test_net_six),
                                     cmocka_unit_test_setup(test_ask, set_up),
                                     cmocka_unit_test_setup(test_ask_six, set_up),
                                     cmocka_unit_test_setup(test_ask_stranger, set_up),
                                     cmocka_unit_test_setup(test_ask_again, set_up)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
