/* test_rollout.c - a step's arrays, their exchange between ranks, and rollouts as files. Run with 1 to 4
 * ranks. Judges: the whole step made by every rank from a pure function of the indices, bit for bit. For
 * files the written content and a line spelt out by hand. For broken lines the rule that each is refused with
 * its place. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"
#include "base/host_memory.h"
#include "base/rng.h"
#include "ranks_case.h"

#include "rollout_case.h"
#include "rollout/select.h"
#include "refusal_case.h"

#include <math.h>
#include <sys/resource.h>
#include <unistd.h>

enum { GROUP = 3, N_REWARD = 2, MOST_SEQ = 64 };

static char folder[64]; /* this rank's own */

static const char *const    REWARD_NAME[] = {"exact", "regex"};
static const tri_replay_opt REPLAY = {
    .group = GROUP, .vocab = 1000, .n_reward = N_REWARD, .reward_name = REWARD_NAME};

/* Makes prompt p's answers, the same on every rank. Lengths differ, some answers are empty, and some numbers
 * are NaN. */
static int64_t length_of(int p, int a) { return 2 + (p * 5 + a * 3) % 7; }

/* Makes answer a to prompt p, with its tokens, as sequence q. */
static void make_answer(tri_rollout *r, int q, int p, int a, bool answers) {
  r->start[q + 1] = r->start[q] + length_of(p, a);
  r->prompt_id[q] = p + ((int64_t)1 << 40);
  r->place[q] = p;
  r->sample[q] = a;
  r->prompt_len[q] = answers ? 1 + a % 2 * (int)(length_of(p, a) - 2) : 1 + p % 2;
  r->stop[q] = (p + a) % 3;
  r->reward[q] = (float)p / 3 - (float)a;
  if (!answers && (p + a) % 5 == 0) r->reward[q] = NAN;
  for (int i = 0; i < N_REWARD; i++) r->part[q * N_REWARD + i] = (float)(p * 10 + a + i) / 7;
  for (int64_t i = r->start[q]; i < r->start[q + 1]; i++) {
    r->token[i] = (int32_t)(p * 100 + a * 10 + (i - r->start[q])) % 1000;
    r->adv[i] = i < r->start[q] + r->prompt_len[q] ? 0.0f : (float)a - (float)p / 9;
    if (i >= r->start[q] + r->prompt_len[q]) r->old_logp[i] = -(float)(1 + r->token[i]) / 3e5f;
  }
  if (!answers) r->baseline[q] = (float)(p - a) / 3;
}

/* Makes n answers with these numbers, prompt * GROUP + answer. With `answers` none is empty, and log-probs
 * and rewards are known. */
static void make_answers(tri_rollout *r, const int *number, int n, bool answers) {
  int64_t n_tok = 0;

  for (int q = 0; q < n; q++) n_tok += length_of(number[q] / GROUP, number[q] % GROUP);
  CHECK(tri_rollout_make(n, n_tok, GROUP, N_REWARD, r) == TRI_OK);
  r->has_logp = r->has_reward = true;
  for (int q = 0; q < n; q++) make_answer(r, q, number[q] / GROUP, number[q] % GROUP, answers);
}

/* Makes the prompts first, first + step and so on of n_prompt in the same way. */
static void make_part(tri_rollout *r, int n_prompt, int first, int step, bool answers) {
  int number[MOST_SEQ], n = 0;

  for (int p = first; p < n_prompt; p += step)
    for (int a = 0; a < GROUP; a++) number[n++] = p * GROUP + a;
  make_answers(r, number, n, answers);
}

static uint32_t random_below(uint64_t a, uint64_t b, uint32_t below) {
  uint32_t bits[4];

  tri_rng_bits(tri_rng_make_key(5, TRI_RNG_TEST), a, b, bits);
  return bits[0] % below;
}

/* Bit for bit, NaN with NaN. */
static void check_same(const tri_rollout *a, const tri_rollout *b) {
  size_t n_seq = (size_t)b->n_seq, n_tok = (size_t)b->n_tok;

  CHECK(a->n_seq == b->n_seq && a->n_tok == b->n_tok && a->group == b->group && a->n_reward == b->n_reward);
  CHECK(a->has_logp == b->has_logp && a->has_reward == b->has_reward);
  CHECK(!memcmp(a->start, b->start, (n_seq + 1) * sizeof *a->start));
  CHECK(!memcmp(a->prompt_id, b->prompt_id, n_seq * sizeof *a->prompt_id));
  CHECK(!memcmp(a->place, b->place, n_seq * sizeof *a->place));
  CHECK(!memcmp(a->sample, b->sample, n_seq * sizeof *a->sample));
  CHECK(!memcmp(a->prompt_len, b->prompt_len, n_seq * sizeof *a->prompt_len));
  CHECK(!memcmp(a->stop, b->stop, n_seq * sizeof *a->stop));
  CHECK(!memcmp(a->reward, b->reward, n_seq * sizeof *a->reward));
  CHECK(!memcmp(a->part, b->part, n_seq * N_REWARD * sizeof *a->part));
  CHECK(!memcmp(a->token, b->token, n_tok * sizeof *a->token));
  CHECK(!memcmp(a->old_logp, b->old_logp, n_tok * sizeof *a->old_logp));
  CHECK(!memcmp(a->baseline, b->baseline, n_seq * sizeof *a->baseline));
  /* arrays made from the whole step are not exchanged */
  for (size_t i = 0; i < n_tok; i++) CHECK(a->adv[i] == 0 && isnan(a->ref_logp[i]));
  for (size_t q = 0; q < n_seq; q++) CHECK(!a->masked[q]);
}

static void test_make(void **state) {
  tri_rollout r = {0};

  (void)state;
  tri_rollout_free(&r); /* zeroed is legal */
  CHECK(tri_rollout_make(2, 5, 2, 0, &r) == TRI_OK);
  for (int q = 0; q < 2; q++) CHECK(isnan(r.reward[q]) && r.prompt_id[q] == 0);
  for (int i = 0; i < 5; i++)
    CHECK(isnan(r.old_logp[i]) && isnan(r.ref_logp[i]) && r.adv[i] == 0 && r.token[i] == 0);
  CHECK(!r.has_logp && !r.has_reward);
  tri_rollout_free(&r);
  CHECK(!r.start && !r.token && r.n_seq == 0);
  CHECK(tri_rollout_make(1, 1, 1, TRI_REWARDS_MAX + 1, &r) == TRI_EARG && !r.start);
  CHECK(tri_rollout_make(-1, 1, 1, 1, &r) == TRI_EARG);
  tri_error_clear();
}

/* A store lends its memory again and again, zeroed each time, to one rollout at a time, and never more of
 * it. */
static void test_store(void **state) {
  tri_rollout_store store = {0};
  tri_rollout_size  most = {4, 2, 1, 20, TRI_COLUMN_SEEN};
  tri_rollout       r = {.store = &store}, other = {.store = &store};
  tri_ledger       *l = NULL;

  (void)state;
  CHECK(tri_ledger_open(&l) == TRI_OK);
  CHECK(tri_rollout_make(0, 0, 1, 0, &r) == TRI_EINTERNAL); /* not planned, even for nothing */
  tri_error_clear();
  CHECK(tri_rollout_store_plan(l, TRI_PHASE_ALWAYS, "test", &most, true, &store) == TRI_OK);
  CHECK(tri_ledger_take(l, cpu) == TRI_OK);
  int64_t held = tri_host_bytes();
  for (int round = 0; round < 3; round++) {
    CHECK(tri_rollout_make(4 - round, 20 - round, 2, 0, &r) == TRI_OK);
    CHECK(tri_rollout_set_rewards(&r, 2) == TRI_OK);
    for (int64_t i = 0; i < r.n_tok; i++) CHECK(r.token[i] == 0 && r.adv[i] == 0 && isnan(r.old_logp[i]));
    for (int i = 0; i < 2 * r.n_seq; i++) CHECK(r.part[i] == 0);
    CHECK(r.seen && !r.critic.value && !r.critic.ret && !r.roll_logp); /* the planned columns */
    memset(r.token, 1, (size_t)r.n_tok * 4);
    memset(r.adv, 1, (size_t)r.n_tok * 4);
    memset(r.part, 1, (size_t)r.n_seq * 8);
    CHECK(tri_rollout_make(1, 1, 1, 0, &other) == TRI_EINTERNAL); /* one at a time */
    tri_rollout_clear(&other);
    CHECK(tri_rollout_make(1, 1, 1, 0, &other) == TRI_EINTERNAL);
    tri_rollout_clear(&r);
    CHECK(r.n_seq == 0 && r.n_tok == 0 && !r.token && r.store == &store);
    CHECK(tri_rollout_make(1, 1, 1, 0, &other) == TRI_OK);
    tri_rollout_clear(&other);
  }
  CHECK(tri_host_bytes() == held);
  CHECK(tri_rollout_make(5, 5, 1, 0, &r) == TRI_EINTERNAL);
  CHECK(tri_rollout_make(4, 21, 1, 0, &r) == TRI_EINTERNAL);
  CHECK(tri_rollout_make(4, 20, 1, 3, &r) == TRI_EINTERNAL);
  tri_error_clear();
  tri_rollout_free(&r);
  CHECK(!r.store && !store.lent);
  tri_ledger_close(&l);
}

static void check_copy(const tri_rollout *r, int at, const tri_rollout *from, int q) {
  size_t n = (size_t)(from->start[q + 1] - from->start[q]), width = N_REWARD * sizeof *r->part;

  CHECK(r->start[at + 1] - r->start[at] == (int64_t)n && r->prompt_id[at] == from->prompt_id[q]);
  CHECK(!memcmp(r->token + r->start[at], from->token + from->start[q], n * sizeof *r->token));
  CHECK(!memcmp(r->old_logp + r->start[at], from->old_logp + from->start[q], n * sizeof *r->old_logp));
  CHECK(!memcmp(r->part + at * N_REWARD, from->part + q * N_REWARD, width));
  CHECK(r->reward[at] == from->reward[q] && r->baseline[at] == from->baseline[q]);
  CHECK(r->place[at] == at / GROUP);
  CHECK(r->sample[at] == from->sample[q] && r->prompt_len[at] == from->prompt_len[q]);
  CHECK(r->stop[at] == from->stop[q] && r->failed[at] == from->failed[q]);
}

/* Six groups, and 1, 3 and 4 have different rewards. They are asked for twice. A step of four takes 1, 3, 4,
 * 1. A step of eight takes all of these, then 0 and 2. Judge: worked by hand. */
static void test_select(void **state) {
  static const int  four[] = {1, 3, 4, 1}, eight[] = {1, 3, 4, 1, 3, 4, 0, 2};
  tri_rollout_store store = {0};
  tri_rollout_size  most = {8 * GROUP, N_REWARD, 1, 8 * GROUP * 9, TRI_COLUMN_SEEN};
  tri_rollout       r = {.store = &store}, from = {0};
  tri_ledger       *l = NULL;

  (void)state;
  CHECK(tri_ledger_open(&l) == TRI_OK);
  CHECK(tri_rollout_store_plan(l, TRI_PHASE_ALWAYS, "test", &most, false, &store) == TRI_OK);
  CHECK(tri_ledger_take(l, cpu) == TRI_OK);
  make_part(&from, 6, 0, 1, false);
  for (int q = 0; q < from.n_seq; q++) {
    int g = q / GROUP;
    from.reward[q] = (g == 1 || g == 3 || g == 4) && q % GROUP == 1 ? 1 : 0.5F;
  }
  for (int round = 0; round < 3; round++) {
    int           n = round ? 8 : 4;
    tri_selection s = {.step = &r, .lacks = n};
    CHECK(tri_select_take(&s, &from) == TRI_OK && s.lacks == n - 3 && s.dropped == 3 && r.has_logp);
    from.has_logp = round != 2;
    CHECK(tri_select_take(&s, &from) == TRI_OK && s.lacks == (n == 8 ? 2 : 0) && s.dropped == 6);
    CHECK(tri_select_fill(&s, &from) == TRI_OK && !s.lacks && r.n_seq == n * GROUP);
    CHECK(tri_rollout_counted(&r) == (n == 8 ? 6 : 4) * GROUP);
    CHECK(r.has_reward && r.has_logp == from.has_logp && r.group == GROUP && r.n_reward == N_REWARD);
    for (int at = 0; at < r.n_seq; at++) {
      check_copy(&r, at, &from, (n == 8 ? eight : four)[at / GROUP] * GROUP + at % GROUP);
      CHECK(r.masked[at] == (at < 6 * GROUP ? 0 : TRI_FILLER));
    }
    for (int64_t i = 0; i < r.n_tok; i++) CHECK(r.adv[i] == 0 && isnan(r.ref_logp[i]) && r.seen[i] == 0);
    memset(r.adv, 1, (size_t)r.n_tok * sizeof *r.adv); /* gone in the next round */
    memset(r.masked, 1, (size_t)r.n_seq * sizeof *r.masked);
    if (round == 2) {
      s.lacks = 1;
      CHECK(tri_select_take(&s, &from) == TRI_EINTERNAL); /* no space */
      tri_error_clear();
    }
    tri_rollout_clear(&r);
  }
  tri_rollout_free(&r);
  tri_rollout_free(&from);
  tri_ledger_close(&l);
}

/* Worked by hand. Groups with no, one, two and three rewards, some without a baseline, and a filler. */
static void test_drop(void **state) {
  static const int alone[] = {0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1};    /* none is too few */
  static const int pairs[] = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1};    /* two at least */
  static const int compared[] = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1}; /* the third's baseline is unknown */
  static const int *const want[] = {alone, pairs, compared};
  tri_rollout             r = {0};

  (void)state;
  for (int k = 0; k < 3; k++) {
    make_part(&r, 5, 0, 1, true);
    for (int q = 0; q < r.n_seq; q++) r.reward[q] = 1;
    r.reward[5] = r.reward[7] = r.reward[8] = r.reward[9] = r.reward[10] = r.reward[11] = r.reward[12] = NAN;
    for (int q = 12; q < 15; q++) r.masked[q] = TRI_FILLER;
    if (k == 2) r.baseline[6] = r.baseline[7] = r.baseline[8] = NAN;
    tri_rollout_drop(&r, k == 1 ? 2 : 1, k == 2);
    for (int q = 0; q < 12; q++)
      CHECK(r.masked[q] == (want[k][q] ? TRI_DROPPED : 0), "case %d, sequence %d", k, q);
    for (int q = 12; q < 15; q++) CHECK(r.masked[q] == TRI_FILLER && !tri_rollout_counts(&r, q));
    tri_rollout_free(&r);
  }
}

/* A group teaches by its remaining rewards. */
static void test_select_dropped(void **state) {
  tri_rollout_store store = {0};
  tri_rollout_size  most = {3 * GROUP, N_REWARD, 1, 3 * GROUP * 9, 0};
  tri_rollout       r = {.store = &store}, from = {0};
  tri_selection     s = {.step = &r, .lacks = 3};
  tri_ledger       *l = NULL;

  (void)state;
  CHECK(tri_ledger_open(&l) == TRI_OK);
  CHECK(tri_rollout_store_plan(l, TRI_PHASE_ALWAYS, "test", &most, false, &store) == TRI_OK);
  CHECK(tri_ledger_take(l, cpu) == TRI_OK);
  make_part(&from, 3, 0, 1, true);
  for (int q = 0; q < from.n_seq; q++) from.reward[q] = q % GROUP == 2 ? 1 : 0;
  from.reward[0] = NAN; /* 0 and 1 are left, all equal, none */
  from.reward[5] = NAN;
  from.reward[6] = from.reward[7] = from.reward[8] = NAN;
  CHECK(tri_select_take(&s, &from) == TRI_OK && s.lacks == 2 && s.dropped == 2);
  CHECK(tri_select_fill(&s, &from) == TRI_OK && !s.lacks);
  tri_rollout_free(&r);
  tri_rollout_free(&from);
  tri_ledger_close(&l);
}

/* From fewer prompts than ranks to several each. */
static void test_exchange(void **state) {
  (void)state;
  for (int n_prompt = 1; n_prompt < 9; n_prompt++) {
    tri_rollout mine = {0}, whole = {0}, got = {0};
    make_part(&mine, n_prompt, world->rank, world->size, false);
    make_part(&whole, n_prompt, 0, 1, false);
    CHECK(tri_rollout_exchange(&mine, world, &got) == TRI_OK);
    check_same(&got, &whole);
    tri_rollout_free(&got);
    tri_rollout_free(&mine);
    tri_rollout_free(&whole);
  }
}

static void shuffle(uint64_t seed, int *x, int n) {
  for (int i = n - 1; i > 0; i--) {
    int k = (int)random_below(seed, (uint64_t)i, (uint32_t)i + 1), other = x[k];
    x[k] = x[i];
    x[i] = other;
  }
}

/* Makes this rank's answers of a random deal of n_prompt prompts. Answers to a prompt stay together in even
 * deals only. Some deals leave out rank 0, and some give all to the last rank. Every rank's answers are
 * shuffled. */
static int make_deal(uint64_t seed, int n_prompt, int *number) {
  int n = 0, first = seed % 3 == 1 && world->size > 1 ? 1 : seed % 3 == 2 ? world->size - 1 : 0;

  for (int k = 0; k < n_prompt * GROUP; k++) {
    int to = first + (int)random_below(seed, 1000 + (uint64_t)(seed % 2 ? k : k / GROUP),
                                       (uint32_t)(world->size - first));
    if (to == world->rank) number[n++] = k;
  }
  shuffle(seed, number, n);
  return n;
}

/* The step does not depend on the deal, in allocated and in planned memory. */
static void test_exchange_deals(void **state) {
  tri_rollout_store store = {0};
  tri_rollout_size  most = {8 * GROUP, N_REWARD, world->size, 8 * GROUP * 9, 0};
  tri_ledger       *l = NULL;

  (void)state;
  CHECK(tri_ledger_open(&l) == TRI_OK);
  CHECK(tri_rollout_store_plan(l, TRI_PHASE_ALWAYS, "test", &most, true, &store) == TRI_OK);
  CHECK(tri_ledger_take(l, cpu) == TRI_OK);
  for (uint64_t seed = 0; seed < 48; seed++) {
    int         n_prompt = 1 + (int)(seed % 8), number[MOST_SEQ], n = make_deal(seed, n_prompt, number);
    tri_rollout mine = {0}, whole = {0}, got = {.store = seed % 5 ? NULL : &store};
    if (n) make_answers(&mine, number, n, false);
    make_part(&whole, n_prompt, 0, 1, false);
    CHECK(tri_rollout_exchange(&mine, world, &got) == TRI_OK);
    check_same(&got, &whole);
    tri_rollout_free(&got);
    tri_rollout_free(&mine);
    tri_rollout_free(&whole);
  }
  tri_ledger_close(&l);
}

/* A rank without sequences may give a zeroed rollout, and then has no influence on has_logp. A rank with
 * sequences has. */
static void test_exchange_empty(void **state) {
  tri_rollout mine = {0}, got = {0};

  (void)state;
  CHECK(tri_rollout_exchange(&mine, world, &got) == TRI_OK && got.n_seq == 0 && got.n_tok == 0);
  tri_rollout_free(&got);
  if (world->rank == 0) make_part(&mine, 1, 0, 1, false);
  CHECK(tri_rollout_exchange(&mine, world, &got) == TRI_OK && got.n_seq == GROUP && got.has_logp &&
        got.has_reward);
  tri_rollout_free(&got);
  mine.has_logp = false;
  CHECK(tri_rollout_exchange(&mine, world, &got) == TRI_OK && !got.has_logp && got.has_reward == true);
  tri_rollout_free(&got);
  tri_rollout_free(&mine);
}

/* Exchanges this rank's answers, which do not fit those of the others. */
static void check_refused(tri_rollout *mine, const char *want) {
  tri_rollout got = {0};

  CHECK(tri_rollout_exchange(mine, world, &got) == TRI_EINTERNAL && !got.start);
  CHECK(refusal_is(want), "%s", want);
  tri_error_clear();
  tri_rollout_free(mine);
}

/* The last rank's message does not fit its planned memory. Every rank gets its error. */
static void test_exchange_of_a_failure(void **state) {
  tri_rollout_store little = {.wire_bytes = 8};
  tri_rollout       mine = {0}, got = {0};

  (void)state;
  make_part(&mine, 2 * world->size, world->rank, world->size, false);
  if (world->rank == world->size - 1) mine.store = &little;
  CHECK(tri_rollout_exchange(&mine, world, &got) == TRI_EINTERNAL && !got.start && refusal_is("pack() 8"));
  tri_error_clear();
  mine.store = NULL;
  CHECK(tri_rollout_exchange(&mine, world, &got) == TRI_OK && got.n_seq == 2 * world->size * GROUP);
  tri_rollout_free(&got);
  tri_rollout_free(&mine);
}

/* If parts do not fit together, every rank gets the same error. The last rank brings what is wrong. */
static void test_exchange_refused(void **state) {
  tri_rollout mine = {0};
  int         n = 2 * world->size, end = n - 1; /* prompts, and the last rank's last place */
  bool        last = world->rank == world->size - 1;
  char        want[128];

  (void)state;
  for (int wrong = 0; wrong < 7; wrong++) {
    make_part(&mine, n, world->rank, world->size, false);
    int32_t *place = mine.place + GROUP, *sample = mine.sample + GROUP; /* the last prompt's */
    snprintf(want, sizeof want, "check_places() %d %d %d %d", end, n, wrong == 3 ? 2 : 0, GROUP);
    for (int a = 0; last && a < GROUP; a++) {
      if (wrong == 0) place[a] = end + 1; /* a place is missing */
      if (wrong == 1) place[a] = INT32_MAX;
      if (wrong == 2) place[a] = 0; /* twice */
    }
    if (wrong == 2) snprintf(want, sizeof want, "check_places() 0 %d %d %d", n, 2 * GROUP, GROUP);
    if (wrong == 3 && last) mine.n_seq--, mine.n_tok = mine.start[mine.n_seq];
    if (wrong == 4 && last) place[1] = -1;
    if (wrong == 4) snprintf(want, sizeof want, "check_places() %d %d 2 %d", end, n, GROUP);
    if (wrong == 5 && last) sample[1] = 2; /* twice */
    if (wrong == 6 && last) sample[1] = GROUP;
    if (wrong > 4) snprintf(want, sizeof want, "find_sequences() %d %d 1", end, GROUP);
    check_refused(&mine, want);
  }
  if (world->size == 1) return;
  make_part(&mine, world->size, world->rank, world->size, false);
  if (world->rank == 1) mine.group = 1;
  snprintf(want, sizeof want, "total_head() 1 %d %d", GROUP, N_REWARD);
  check_refused(&mine, want);
}

static const char *file_path(int step) {
  static char path[128];
  snprintf(path, sizeof path, "%s/r/step-%08d.jsonl", folder, step);
  return path;
}

static const char *file_folder(void) {
  static char path[128];
  snprintf(path, sizeof path, "%s/r", folder);
  return path;
}

static int setup_files(void **state) {
  (void)state;
  tri_error_clear();
  snprintf(folder, sizeof folder, "/tmp/tri_rollout_XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static int teardown_files(void **state) {
  (void)state;
  tri_error_clear();
  unlink(file_path(3));
  rmdir(file_folder());
  return rmdir(folder);
}

/* The step is written, read by every rank for itself, and exchanged. It is the same step at any rank
 * count. */
static void test_file_round_trip(void **state) {
  tri_rollout whole = {0}, mine = {0}, got = {0};

  (void)state;
  for (int n_prompt = 1; n_prompt < 6; n_prompt++) {
    make_part(&whole, n_prompt, 0, 1, true);
    CHECK(case_write_rollout(file_folder(), 3, &whole, REWARD_NAME, NULL) == TRI_OK);
    CHECK(tri_rollout_file_read(file_folder(), 3, &REPLAY, world->rank, world->size, &mine) == TRI_OK);
    CHECK(tri_rollout_exchange(&mine, world, &got) == TRI_OK);
    check_same(&got, &whole);
    tri_rollout_free(&got);
    tri_rollout_free(&mine);
    tri_rollout_free(&whole);
  }
}

/* A set of prompts, with a number as the right answer, without advantage. */
static void check_line_of_set(const tri_rollout *r) {
  const tri_rollout_form form = {REWARD_NAME, false, "easy"};
  const tri_rollout_text text = {.answer = "4.20", .answer_bytes = 4, .answer_is_json = true};
  tri_text               line = {0};

  assert_int_equal(tri_rollout_file_line(r, 0, &form, &text, &line), TRI_OK);
  assert_string_equal(line.data,
                      "{\"set\": \"easy\", \"sample\": 2, \"answer\": 4.20, \"tokens\": [5, 0, 6, 999], "
                      "\"prompt_tokens\": 2, \"reward\": null, \"rewards\": {\"exact\": 1, \"regex\": null}, "
                      "\"stop\": \"length\"}");
  tri_text_free(&line);
}

/* One line, spelt out. 0.1f is 0.100000001490116..., and 0.1 reads back as it. */
static void test_file_line(void **state) {
  static const char want[] =
      "{\"prompt_id\": 7, \"sample\": 2, \"prompt\": \"a\\\"\\\\\\u0000\\n\\u0001\", \"response\": "
      "\"Zo\xc3\xab \xef\xbf\xbd\", \"answer\": \"4\\\"2\", \"tokens\": [5, 0, 6, 999], "
      "\"prompt_tokens\": 2, \"logprobs\": [-1, "
      "-0.1], \"reward\": 0.5, \"rewards\": {\"exact\": 1, \"regex\": null}, \"advantage\": -1.25, "
      "\"stop\": \"length\"}\n";
  static const char dropped[] =
      "{\"sample\": 2, \"tokens\": [5, 0, 6, 999], \"prompt_tokens\": 2, \"reward\": null, "
      "\"rewards\": {\"exact\": 1, \"regex\": null}, \"stop\": \"length\"}\n";
  static const char bare[] =
      "{\"sample\": 2, \"tokens\": [5, 0, 6, 999], \"prompt_tokens\": 2, \"advantage\": -1.25, "
      "\"stop\": \"length\"}\n";
  tri_rollout_text text = {.prompt = "a\"\\\0\n\x01",
                           .response = "Zo\xc3\xab \xef\xbf\xbd",
                           .answer = "4\"2",
                           .prompt_bytes = 6,
                           .response_bytes = 8,
                           .answer_bytes = 3};
  tri_rollout      r = {0};
  char            *got;
  size_t           n;

  (void)state;
  assert_int_equal(tri_rollout_make(1, 4, 1, 2, &r), TRI_OK);
  r.start[1] = 4;
  r.prompt_id[0] = 7;
  r.sample[0] = r.prompt_len[0] = 2;
  r.stop[0] = TRI_STOP_LENGTH;
  r.reward[0] = 0.5f;
  r.part[0] = 1;
  r.part[1] = NAN;
  memcpy(r.token, (int32_t[]){5, 0, 6, 999}, 4 * sizeof *r.token);
  r.old_logp[2] = -1;
  r.old_logp[3] = -0.1f;
  r.adv[2] = r.adv[3] = -1.25f;
  assert_int_equal(case_write_rollout(file_folder(), 3, &r, REWARD_NAME, &text), TRI_OK);
  assert_int_equal(tri_file_read(file_path(3), 10000, &got, &n), TRI_OK);
  assert_string_equal(got, want);
  tri_host_free((void **)&got);
  r.prompt_id[0] = -1;
  r.reward[0] = r.old_logp[3] = NAN;
  assert_int_equal(case_write_rollout(file_folder(), 3, &r, REWARD_NAME, NULL), TRI_OK);
  assert_int_equal(tri_file_read(file_path(3), 10000, &got, &n), TRI_OK);
  assert_string_equal(got, bare);
  tri_host_free((void **)&got);
  r.failed[0] = 2; /* the second reward failed */
  r.masked[0] = TRI_DROPPED;
  assert_int_equal(case_write_rollout(file_folder(), 3, &r, REWARD_NAME, NULL), TRI_OK);
  assert_int_equal(tri_file_read(file_path(3), 10000, &got, &n), TRI_OK);
  assert_string_equal(got, dropped);
  tri_host_free((void **)&got);
  check_line_of_set(&r);
  text.response = "\xff"; /* never from the decoder */
  text.response_bytes = 1;
  assert_int_equal(case_write_rollout(file_folder(), 3, &r, REWARD_NAME, &text), TRI_EINTERNAL);
  tri_error_clear();
  assert_int_equal(case_write_rollout(TRI_PROGRAM "/none", 3, &r, REWARD_NAME, NULL), TRI_EFILE);
  tri_rollout_free(&r);
}

static void put_file(const char *text, size_t n) {
  FILE *f;

  if (access(file_folder(), F_OK)) { /* made by writing an empty step */
    tri_rollout none = {0};
    assert_int_equal(tri_rollout_make(0, 0, 1, 0, &none), TRI_OK);
    assert_int_equal(case_write_rollout(file_folder(), 3, &none, NULL, NULL), TRI_OK);
    tri_rollout_free(&none);
  }
  f = fopen(file_path(3), "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(text, 1, n, f), n);
  assert_int_equal(fclose(f), 0);
}

/* A byte order mark, CR LF, blank lines, no newline at the end, unknown keys, everything but tokens left
 * out. */
static void test_file_foreign(void **state) {
  static const char text[] =
      "\xEF\xBB\xBF{\"tokens\": [1, 2]}\r\n\n  \t\r\n"
      "{\"tokens\": [3, 4, 5], \"x\": {\"y\": []}, \"logprobs\": null, \"reward\": 2, \"stop\": \"stop\"}\r\n"
      "{\"tokens\": [6, 7], \"prompt\": \"\\u0000\", \"rewards\": {\"regex\": 0.25, \"z\": \"?\"}}";
  tri_rollout r = {0};

  (void)state;
  put_file(text, sizeof text - 1);
  assert_int_equal(tri_rollout_file_read(file_folder(), 3, &REPLAY, 0, 1, &r), TRI_OK);
  assert_true(r.n_seq == 3 && r.n_tok == 7 && r.group == GROUP && !r.has_logp && !r.has_reward);
  for (int q = 0; q < 3; q++) assert_true(r.prompt_id[q] == -1 && r.sample[q] == q && r.prompt_len[q] == 1);
  assert_true(r.start[1] == 2 && r.start[2] == 5 && r.start[3] == 7 && r.token[4] == 5);
  assert_true(r.stop[0] == TRI_STOP_EOS && r.stop[1] == TRI_STOP_STRING);
  assert_true(isnan(r.reward[0]) && r.reward[1] == 2 && isnan(r.part[0]) &&
              r.part[2 * N_REWARD + 1] == 0.25f);
  for (int i = 0; i < 7; i++) assert_true(isnan(r.old_logp[i]));
  tri_rollout_free(&r);
  assert_int_equal(tri_rollout_file_read(file_folder(), 3, &REPLAY, 1, 2, &r),
                   TRI_OK); /* no group for rank 1 */
  assert_true(r.n_seq == 0 && !r.has_logp && !r.has_reward);
  tri_rollout_free(&r);
}

/* The same prompt twice in a row is two groups. */
static void test_file_repeated_prompt(void **state) {
  tri_text    t = {0};
  tri_rollout r = {0};

  (void)state;
  for (int i = 0; i < 6; i++)
    assert_int_equal(tri_text_printf(&t, "{\"prompt_id\": 4, \"tokens\": [%d, 1]}\n", i), TRI_OK);
  put_file(t.data, t.len);
  assert_int_equal(tri_rollout_file_read(file_folder(), 3, &REPLAY, 1, 2, &r), TRI_OK);
  assert_true(r.n_seq == 3 && r.token[0] == 3 && r.prompt_id[0] == 4);
  tri_rollout_free(&r);
  tri_text_free(&t);
}

/* Whole groups of fillers are read as fillers, and written so again. Nothing else follows them. */
static void test_file_fillers(void **state) {
  static const char line[] = "{\"tokens\": [1, 2], \"filler\": %s}\n";
  tri_text          t = {0};
  tri_rollout       r = {0};

  (void)state;
  for (int i = 0; i < 3 * GROUP; i++)
    assert_int_equal(tri_text_printf(&t, line,
                                     i < GROUP       ? "null"
                                     : i < 2 * GROUP ? "false"
                                                     : "true"),
                     TRI_OK);
  for (int again = 0; again < 2; again++) {
    if (!again) put_file(t.data, t.len);
    assert_int_equal(tri_rollout_file_read(file_folder(), 3, &REPLAY, 0, 1, &r), TRI_OK);
    for (int q = 0; q < 3 * GROUP; q++) assert_int_equal(r.masked[q], q < 2 * GROUP ? 0 : TRI_FILLER);
    assert_int_equal(case_write_rollout(file_folder(), 3, &r, REWARD_NAME, NULL), TRI_OK);
    tri_rollout_free(&r);
  }
  assert_int_equal(tri_text_printf(&t, line, "false"), TRI_OK);
  put_file(t.data, t.len);
  assert_int_equal(tri_rollout_file_read(file_folder(), 3, &REPLAY, 0, 1, &r), TRI_EINPUT);
  expect_refusal("check_filler() step-00000003.jsonl:10 filler");
  tri_error_clear();
  tri_text_free(&t);
}

/* Each broken third line, after two good ones, is refused on every rank with its place and its key. */
static void test_file_refused(void **state) {
  static const struct {
    const char *line, *word;
  } c[] = {
      {"{\"tokens\": [1, 2]", "tri_jsonl_next() step-00000003.jsonl:3 !{...}"},
      {"[1]", "tri_jsonl_next() step-00000003.jsonl:3"},
      {"{\"tokens\": [1, 2]} x", "tri_jsonl_next() step-00000003.jsonl:3 !{...}"},
      {"{\"tokens\": [1, 2], \"tokens\": [1, 2]}", "tri_jsonl_next() step-00000003.jsonl:3 !{...}"},
      {"{\"tokens\": [1, 2], \"prompt\": \"\xff\"}", "tri_jsonl_next() step-00000003.jsonl:3 !{...}"},
      {"{\"ids\": [1]}", "get_tokens() step-00000003.jsonl:3 tokens ids"},
      {"{\"tokens\": []}", "get_tokens() step-00000003.jsonl:3 tokens"},
      {"{\"tokens\": \"12\"}", "get_tokens() step-00000003.jsonl:3 tokens"},
      {"{\"tokens\": [1, 1000]}", "get_tokens() step-00000003.jsonl:3 tokens 1"},
      {"{\"tokens\": [-1, 1]}", "get_tokens() step-00000003.jsonl:3 tokens 0"},
      {"{\"tokens\": [1.0, 1]}", "get_tokens() step-00000003.jsonl:3 tokens 0"},
      {"{\"tokens\": [99999999999999999999, 1]}",
       "tri_jsonl_refuse_odd() step-00000003.jsonl:3 tokens 99999999999999999999"},
      {"{\"tokens\": [4294967297, 1]}", "get_tokens() step-00000003.jsonl:3 tokens 0"},
      {"{\"tokens\": [1]}", "step-00000003.jsonl:3 prompt_tokens"},
      {"{\"tokens\": [1, 2], \"prompt_tokens\": 2}", "step-00000003.jsonl:3 prompt_tokens"},
      {"{\"tokens\": [1, 2], \"prompt_tokens\": 3}", "step-00000003.jsonl:3 prompt_tokens"},
      {"{\"tokens\": [1, 2], \"prompt_tokens\": 0}", "step-00000003.jsonl:3 prompt_tokens"},
      {"{\"tokens\": [1, 2], \"prompt_tokens\": 1.5}", "step-00000003.jsonl:3 prompt_tokens"},
      {"{\"tokens\": [1, 2], \"prompt_id\": -1}", "get_integer() step-00000003.jsonl:3 prompt_id -1"},
      {"{\"tokens\": [1, 2], \"prompt_id\": 5}", "take_line() prompt_id 5 3"},
      {"{\"tokens\": [1, 2], \"sample\": 4294967296}",
       "get_integer() step-00000003.jsonl:3 sample 4294967296"},
      {"{\"tokens\": [1, 2], \"logprobs\": []}", "get_logprobs() step-00000003.jsonl:3 logprobs 1"},
      {"{\"tokens\": [1, 2], \"logprobs\": [-1, -1]}", "get_logprobs() step-00000003.jsonl:3 logprobs 1"},
      {"{\"tokens\": [1, 2], \"logprobs\": -1}", "get_logprobs() step-00000003.jsonl:3 logprobs 1"},
      {"{\"tokens\": [1, 2], \"logprobs\": [null]}", "get_logprobs() step-00000003.jsonl:3 logprobs 0"},
      {"{\"tokens\": [1, 2], \"logprobs\": [0.5]}", "get_logprobs() step-00000003.jsonl:3 logprobs 0"},
      {"{\"tokens\": [1, 2], \"logprobs\": [-1e39]}", "get_logprobs() step-00000003.jsonl:3 logprobs 0"},
      {"{\"tokens\": [1, 2], \"logprobs\": [-701]}", "get_logprobs() step-00000003.jsonl:3 logprobs 0"},
      {"{\"tokens\": [1, 2], \"reward\": \"1\"}", "get_float() step-00000003.jsonl:3 reward f32"},
      {"{\"tokens\": [1, 2], \"reward\": 1e39}", "get_float() step-00000003.jsonl:3 reward f32"},
      {"{\"tokens\": [1, 2], \"rewards\": [1]}", "get_rewards() step-00000003.jsonl:3 rewards"},
      {"{\"tokens\": [1, 2], \"rewards\": {\"exact\": true}}", "get_float() step-00000003.jsonl:3 exact f32"},
      {"{\"tokens\": [1, 2], \"stop\": \"end\"}", "get_stop() step-00000003.jsonl:3 stop"},
      {"{\"tokens\": [1, 2], \"stop\": 1}", "get_stop() step-00000003.jsonl:3 stop"},
      {"{\"tokens\": [1, 2], \"filler\": 1}", "get_filler() step-00000003.jsonl:3 filler"},
      {"{\"tokens\": [1, 2], \"filler\": true}", "check_filler() step-00000003.jsonl:3 filler"},
      {"{\"tokens\": [1, 2, 3, 4, 5], \"prompt_tokens\": 4}",
       "get_lengths() step-00000003.jsonl:3 4 3 data.max_prompt_length"},
      {"{\"tokens\": [1, 2, 3, 4, 5], \"prompt_tokens\": 1}",
       "get_lengths() step-00000003.jsonl:3 4 3 rollout.max_response_length"},
      {"", "take_file() step-00000003.jsonl 2 algo.num_generations"},
      {"{\"tokens\": [1, 2]}\n{\"tokens\": [1, 2]}",
       "take_file() step-00000003.jsonl 4 algo.num_generations"},
  };
  tri_replay_opt o = REPLAY;

  (void)state;
  o.max_prompt = 3;
  o.max_response = 3;
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    for (int rank = 0; rank < 2; rank++) {
      tri_text    t = {0};
      tri_rollout r = {0};
      assert_int_equal(tri_text_printf(&t, "{\"tokens\": [1, 2]}\n{\"tokens\": [1, 2]}\n%s\n", c[i].line),
                       TRI_OK);
      put_file(t.data, t.len);
      tri_text_free(&t);
      assert_int_equal(tri_rollout_file_read(file_folder(), 3, &o, rank, 2, &r), TRI_EINPUT);
      if (!refusal_is(c[i].word) || !refusal_is(file_path(3)))
        fail_msg("'%s' is not in: %s", c[i].word, tri_error_message());
      assert_null(r.start);
      tri_error_clear();
    }
  }
}

/* No file, an empty one, and every beginning of a good one. There is never a crash, and an error unless whole
 * groups are left. */
static void test_file_cut(void **state) {
  static const char text[] =
      "{\"tokens\": [1, 2], \"logprobs\": [-0.5]}\n{\"tokens\": [1, 2]}\n{\"tokens\": [12, 3]}\n";
  tri_rollout r = {0};

  (void)state;
  assert_int_equal(tri_rollout_file_read(file_folder(), 3, &REPLAY, 0, 1, &r), TRI_EINPUT);
  tri_error_clear();
  for (size_t n = 0; n < sizeof text; n++) {
    put_file(text, n);
    tri_status st = tri_rollout_file_read(file_folder(), 3, &REPLAY, 0, 1, &r);
    assert_int_equal(st, n >= sizeof text - 2 ? TRI_OK : TRI_EINPUT);
    tri_rollout_free(&r);
    tri_error_clear();
  }
}

/* A blank line costs nothing, and no more answers are taken than a step can hold. */
static void test_file_bounded(void **state) {
  enum { BLANKS = 20000000, MOST = 100 << 20 };
  static const char line[] = "{\"tokens\": [1, 2]}\n";
  enum { LINE = sizeof line - 1 };
  char          *text;
  tri_rollout    r = {0};
  tri_replay_opt o = REPLAY;
  struct rusage  before, after;

  (void)state;
  assert_int_equal(TRI_ALLOC(text, BLANKS + 6 * LINE), TRI_OK);
  memset(text, '\n', BLANKS);
  for (int i = 0; i < 6; i++) memcpy(text + BLANKS + i * LINE, line, LINE);
  put_file(text, BLANKS + 6 * LINE);
  TRI_FREE(text);
  assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
  assert_int_equal(tri_rollout_file_read(file_folder(), 3, &o, 0, 1, &r), TRI_OK);
  assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
  assert_int_equal(r.n_seq, 6);
  assert_true((after.ru_maxrss - before.ru_maxrss) * 1024 < MOST);
  tri_rollout_free(&r);
  o.max_answers = 6;
  assert_int_equal(tri_rollout_file_read(file_folder(), 3, &o, 0, 1, &r), TRI_OK);
  tri_rollout_free(&r);
  o.max_answers = 5;
  assert_int_equal(tri_rollout_file_read(file_folder(), 3, &o, 0, 1, &r), TRI_EINPUT);
  expect_refusal("take_line() step-00000003.jsonl:20000006 5 rollout.rollout_batch_size");
  tri_error_clear();
  o.max_line_bytes = 10;
  assert_int_equal(tri_rollout_file_read(file_folder(), 3, &o, 0, 1, &r), TRI_EINPUT);
  expect_refusal("take_line() step-00000003.jsonl:20000001 18 10");
  tri_error_clear();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_make),
      cmocka_unit_test(test_store),
      cmocka_unit_test(test_select),
      cmocka_unit_test(test_drop),
      cmocka_unit_test(test_select_dropped),
      cmocka_unit_test(test_exchange),
      cmocka_unit_test(test_exchange_deals),
      cmocka_unit_test(test_exchange_empty),
      cmocka_unit_test(test_exchange_of_a_failure),
      cmocka_unit_test(test_exchange_refused),
      cmocka_unit_test_setup_teardown(test_file_round_trip, setup_files, teardown_files),
      cmocka_unit_test_setup_teardown(test_file_line, setup_files, teardown_files),
      cmocka_unit_test_setup_teardown(test_file_foreign, setup_files, teardown_files),
      cmocka_unit_test_setup_teardown(test_file_repeated_prompt, setup_files, teardown_files),
      cmocka_unit_test_setup_teardown(test_file_fillers, setup_files, teardown_files),
      cmocka_unit_test_setup_teardown(test_file_refused, setup_files, teardown_files),
      cmocka_unit_test_setup_teardown(test_file_cut, setup_files, teardown_files),
      cmocka_unit_test_setup_teardown(test_file_bounded, setup_files, teardown_files),
  };

  return cmocka_run_group_tests(tests, ranks_open, ranks_close);
}
