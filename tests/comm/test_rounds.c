/* test_rounds.c - a chain of rounds: the order of words, who waits for whom, ranks that fail, die or
 * stop. Run with 1 to 4 ranks. Judges: exact words, and exit code 76 of a run with a dead or stopped rank. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/host_memory.h"
#include "comm/halt.h"
#include "comm/rounds.h"
#include "comm/session.h"
#include "dead_case.h"
#include "device_case.h"
#include "generate/deal.h"
#include "ranks_case.h"
#include "refusal_case.h"

#include <mpi.h>
#include <signal.h>
#include <sys/prctl.h>

enum { WORDS = 3 };

static bool is_last(void) { return world->rank == world->size - 1; }

static tri_rounds *open_rounds(int words) {
  tri_rounds *r = NULL;

  OK(tri_rounds_open(world, words, &r));
  return r;
}

static void tell(tri_rounds *r, int64_t n) {
  int64_t word[WORDS] = {world->rank, n, 1000 * n + world->rank};

  OK(tri_rounds_tell(r, word, TRI_OK));
  memset(word, 0xff, sizeof word); /* the words were copied */
}

static void hear(tri_rounds *r, int64_t n) {
  const int64_t *all = NULL;

  OK(tri_rounds_hear(r, &all));
  for (int q = 0; q < world->size; q++)
    CHECK(all[WORDS * q] == q && all[WORDS * q + 1] == n && all[WORDS * q + 2] == 1000 * n + q,
          "round %lld, rank %d", (long long)n, q);
}

/* Work of a fixed amount, so that a rank is slow without a clock. */
static void work(int64_t n) {
  volatile uint64_t x = 1;

  for (int64_t i = 0; i < n * 1000; i++) x = x * 6364136223846793005u + 1;
}

/* Ranks of different speeds, with other collectives between, and some ranks move the words while they
 * work. */
static void test_order(void **state) {
  enum { ROUNDS = 60 };
  tri_rounds *r = open_rounds(WORDS);

  (void)state;
  for (int64_t n = 1; n <= ROUNDS; n++) {
    tell(r, n);
    work(is_last() ? 200 : 1);
    if (world->rank % 2) OK(tri_rounds_progress(r, NULL));
    if (n > 1) hear(r, n - 1);
    if (n % 20 == 0) OK(tri_host_barrier(world));
  }
  hear(r, ROUNDS);
  tri_rounds_close(&r);
  CHECK(r == NULL);
}

/* Rank 0 tells two rounds before any other rank tells one. The last rank tells its second round only once the
 * others have heard the first. Each wait would last for ever. */
static void test_unheard(void **state) {
  tri_rounds *r = open_rounds(WORDS);
  bool        heard = false;

  (void)state;
  if (world->rank > 0) OK(tri_host_barrier(world));
  tell(r, 1), tell(r, 2);
  if (world->rank == 0) OK(tri_host_barrier(world));
  hear(r, 1), hear(r, 2);

  tell(r, 3);
  OK(tri_rounds_progress(r, &heard)); /* moves it */
  OK(tri_host_barrier(world));
  while (!heard) OK(tri_rounds_progress(r, &heard));
  if (is_last() && world->size > 1) OK(tri_host_barrier(world));
  tell(r, 4);
  hear(r, 3);
  if (!is_last()) OK(tri_rounds_progress(r, &heard));
  CHECK(is_last() || !heard); /* the last rank has not told it */
  if (!is_last()) OK(tri_host_barrier(world));
  hear(r, 4);
  tri_rounds_close(&r);
}

static bool meet(void *ctx) {
  int *met = ctx;

  if (!(*met)++) OK(tri_host_barrier(world));
  return false;
}

/* The others tell only after they have met rank 0, which waits for their words already. */
static void test_look(void **state) {
  tri_rounds *r = open_rounds(WORDS);
  int         met = 0;

  (void)state;
  if (world->rank == 0) tri_rounds_look(r, meet, &met);
  if (world->rank > 0) OK(tri_host_barrier(world));
  tell(r, 1), hear(r, 1);
  CHECK((met > 0) == (world->rank == 0 && world->size > 1));
  tri_rounds_close(&r);
}

/* Prompts by need: every rank hears the same wants and deals alike. The last rank needs five rounds a prompt,
 * the others one. All prompts are answered once, and the slow rank answers the fewest. */
static void test_needs(void **state) {
  enum { PROMPTS = 97, SLOW = 5 };
  tri_rounds    *r = open_rounds(1);
  int64_t        left = PROMPTS, want[4] = {0}, give[4], mine = 0, queued = 0, busy = 0;
  const int64_t *all;
  double         sum[4] = {0};

  (void)state;
  CHECK(world->size <= 4);
  for (int64_t n = 1; left > 0; n++) {
    if (!busy && queued) queued--, mine++, busy = is_last() ? SLOW : 1;
    if (busy) work(is_last() ? 200 : 1), busy--;
    OK(tri_rounds_tell(r, (const int64_t[]){queued ? 0 : 1}, TRI_OK));
    OK(tri_rounds_hear(r, &all));
    memcpy(want, all, (size_t)world->size * sizeof *want);
    tri_deal(want, world->size, n, left, give);
    for (int q = 0; q < world->size; q++) left -= give[q];
    queued += give[world->rank];
  }
  sum[world->rank] = (double)(mine + queued);
  OK(tri_host_sum(world, sum, 4));
  CHECK(left == 0 && sum[0] + sum[1] + sum[2] + sum[3] == PROMPTS);
  for (int q = 0; q + 1 < world->size; q++) CHECK(3 * sum[world->size - 1] < sum[q]);
  tri_rounds_close(&r);
}

/* The last rank fails during round 5 and tells it in round 6. It goes on without work. All ranks return its
 * error from the same round, although one more round was told already. */
static void test_failure(void **state) {
  const int64_t  before = tri_host_bytes();
  tri_rounds    *r = open_rounds(WORDS);
  tri_status     st = TRI_OK, heard = TRI_OK;
  const int64_t *all;
  int64_t        n = 0;

  (void)state;
  while (heard == TRI_OK && n < 20) {
    int64_t word[WORDS] = {0};
    n++;
    OK(tri_rounds_tell(r, st == TRI_OK ? word : NULL, st));
    if (n == 5 && is_last()) st = tri_fail(__FILE__, __LINE__, __func__, TRI_ENUMERIC, "nan %d", 17);
    if (n > 1) heard = tri_rounds_hear(r, &all);
  }
  CHECK(heard == TRI_ENUMERIC && n == 7 && refusal_is("test_failure() nan 17"));
  tri_error_clear();
  tri_rounds_close(&r);
  CHECK(tri_host_bytes() == before); /* no round is left pending */
}

/* Ranks that fail in one round, and in the round after it, agree on the lowest one's error. */
static void test_failures(void **state) {
  tri_rounds    *r = open_rounds(WORDS);
  tri_status     st = TRI_OK;
  const int64_t *all;

  (void)state;
  if (!is_last() || world->size == 1)
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT, "failed %d", world->rank);
  OK(tri_rounds_tell(r, (const int64_t[WORDS]){0}, st));
  if (st == TRI_OK) st = tri_fail(__FILE__, __LINE__, __func__, TRI_ENUMERIC, "failed %d", world->rank);
  OK(tri_rounds_tell(r, NULL, st));
  CHECK(tri_rounds_hear(r, &all) == TRI_EINPUT && refusal_is("test_failures() failed 0"));
  tri_error_clear();
  tri_rounds_close(&r);
}

/* A rank that ends may leave a round that the others join later. MPI writes into it then. */
static void test_close_unheard(void **state) {
  tri_rounds *r = open_rounds(WORDS);

  (void)state;
  CHECK(world->rank == 0 || tri_host_barrier(world) == TRI_OK);
  tell(r, 1);
  tri_rounds_close(&r);
  CHECK(r == NULL);
  CHECK(world->rank > 0 || tri_host_barrier(world) == TRI_OK);
  OK(tri_host_barrier(world));
}

/* ---- a rank that dies or stops ---- */

enum { VICTIM = 1 };

/* Runs in each rank of the launch below. The victim dies between two rounds. It has sent a heartbeat by then,
 * since one is due every 0.25 s. */
static int run_until_dead(void) {
  tri_session    se;
  tri_rounds    *r = NULL;
  tri_status     st;
  const int64_t *all;
  double         began_s;

  st = tri_session_open(&(tri_session_opt){.device = "cpu", .threads = 1, .timeout_s = 10}, &se);
  if (st != TRI_OK || tri_rounds_open(se.comm[TRI_WORLD], 1, &r) != TRI_OK) return 3;
  began_s = tri_now_s();
  for (int64_t n = 1; st == TRI_OK; n++) {
    if (se.rt.world_rank == VICTIM && tri_now_s() - began_s > 1) raise(SIGKILL);
    st = tri_rounds_tell(r, &n, TRI_OK);
    if (st == TRI_OK && n > 1) st = tri_rounds_hear(r, &all);
  }
  return 4;
}

/* The call of MPI in which the others wait for the victim. That of "library" records no wait. */
static tri_status wait_in(const char *where, tri_comm *c) {
  tri_rounds *r;
  tri_halt   *h;

  if (!strcmp(where, "rounds")) return tri_rounds_open(c, 1, &r);
  if (!strcmp(where, "stop")) return tri_halt_open(c, &(tri_halt_opt){.file = "no file"}, &h);
  return MPI_Barrier(*(MPI_Comm *)c->mpi) == MPI_SUCCESS ? TRI_OK : TRI_ECOMM;
}

/* Runs in each rank of a launch. The victim stops before that call. It has sent a heartbeat by then. It ends
 * with its shell. */
static int run_until_stopped(const char *where) {
  tri_session se;
  double      began_s;

  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return 3;
  if (tri_session_open(&(tri_session_opt){.device = "cpu", .threads = 1, .timeout_s = 5}, &se) != TRI_OK)
    return 3;
  began_s = tri_now_s();
  while (se.rt.world_rank == VICTIM && tri_now_s() - began_s < 1) work(1);
  if (se.rt.world_rank == VICTIM) {
    /* tri_rounds_open begins with it */
    if (!strcmp(where, "rounds") && tri_agree(se.comm[TRI_WORLD], TRI_OK) != TRI_OK) return 3;
    raise(SIGSTOP);
  }
  return wait_in(where, se.comm[TRI_WORLD]) == TRI_OK ? 4 : 3;
}

/* The launches last 5 s each, so brief runs leave them out. */
static void fail_unless_named(void) {
  const char *const rounds[] = {"trireme: rank 1 on ", "no sign of life", "of rounds", "Missing: 1\n", NULL};
  const char *const stop[] = {"trireme: rank 1 on ", "no sign of life", "of stop requests", "Missing: 1\n",
                              NULL};
  const char *const library[] = {"trireme: rank 1 on ", "no sign of life", "library", NULL};

  fail_unless_76(TRI_MPIEXEC, "stopped", "rounds", rounds);
  fail_unless_76(TRI_MPIEXEC, "stopped", "stop", stop);
  fail_unless_76(TRI_MPIEXEC, "stopped", "library", library);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_order),         cmocka_unit_test(test_unheard), cmocka_unit_test(test_needs),
      cmocka_unit_test(test_look),          cmocka_unit_test(test_failure), cmocka_unit_test(test_failures),
      cmocka_unit_test(test_close_unheard),
  };
  int ranks, machine_ranks;

  if (argc > 1 && !strcmp(argv[1], "dead")) return run_until_dead();
  if (argc > 2 && !strcmp(argv[1], "stopped")) return run_until_stopped(argv[2]);
  tri_runtime_env_ranks(&ranks, &machine_ranks);
  if (ranks == 1)
    fail_unless_76(TRI_MPIEXEC, "dead", "",
                   (const char *const[]){"trireme: rank 1 on ", "Missing: 1\n", NULL});
  if (ranks == 1 && test_step(2) == 1) fail_unless_named();
  return cmocka_run_group_tests(tests, ranks_open, ranks_close);
}
