/* test_schedule.c - tests who starts and who gives its pages up. The expected seats are worked out by hand.
 * Then 100,000 answers of random length arrive at simulated caches, which check every page and every
 * decision. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "generate/schedule.h"

#define Q TRI_REQUEST_QUEUED
#define R TRI_REQUEST_RUNS
#define P TRI_REQUEST_PARKED
#define D TRI_REQUEST_DONE

/* ---- by hand ---- */

static void the_oldest_starts_first(void **state) {
  static const struct {
    tri_seat seat[4];
    int      n, rows_free;
    int64_t  pages_free, reserve;
    int      want;
  } cases[] = {
      {{{0}}, 0, 4, 10, 0, -1},
      {{{7, 3, Q}}, 1, 1, 3, 0, 0},
      {{{7, 3, Q}}, 1, 0, 3, 0, -1}, /* no row */
      {{{7, 3, Q}}, 1, 1, 2, 0, -1}, /* no pages */
      {{{7, 3, Q}}, 1, 1, 4, 2, -1}, /* two pages stay for those that run */
      {{{7, 3, Q}}, 1, 1, 5, 2, 0},
      {{{9, 1, Q}, {4, 1, Q}, {6, 1, Q}}, 3, 1, 1, 0, 1},
      {{{9, 1, Q}, {4, 5, Q}, {6, 1, Q}}, 3, 2, 4, 0, -1}, /* a younger one does not overtake */
      {{{1, 1, R}, {2, 1, P}, {3, 1, D}, {4, 2, Q}}, 4, 1, 2, 0, 3},
      {{{1, 1, R}, {2, 1, P}, {3, 1, D}}, 3, 4, 10, 0, -1}, /* none waits */
      {{{7, 0, Q}}, 1, 1, 0, 0, 0},
  };

  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_int_equal(tri_schedule_next(cases[i].seat, cases[i].n, cases[i].rows_free, cases[i].pages_free,
                                       cases[i].reserve),
                     cases[i].want);
}

static void the_youngest_gives_up(void **state) {
  static const struct {
    tri_seat seat[4];
    int      n, want;
  } cases[] = {
      {{{0}}, 0, -1},
      {{{3, 5, R}}, 1, -1}, /* the oldest never does */
      {{{3, 5, P}}, 1, -1},
      {{{3, 5, R}, {8, 2, R}, {5, 2, R}}, 3, 1},
      {{{8, 5, R}, {3, 2, R}, {5, 2, R}}, 3, 0},
      {{{3, 5, R}, {4, 1, P}, {9, 2, R}}, 3, 1},            /* parked before all that run */
      {{{3, 5, R}, {4, 1, P}, {6, 1, P}, {9, 2, R}}, 4, 2}, /* the youngest of those parked */
      {{{3, 5, R}, {4, 1, P}, {6, 0, P}, {9, 2, R}}, 4, 1}, /* that one would give nothing */
      {{{3, 5, R}, {6, 0, P}, {9, 0, R}}, 3, 2},            /* it holds none alone, but wants none any more */
      {{{3, 5, P}, {9, 2, R}}, 2, 1},                       /* the oldest stays, parked or not */
      {{{3, 5, P}, {6, 1, P}}, 2, 1},
      {{{1, 9, Q}, {3, 5, P}, {6, 1, P}}, 3, 2},
      {{{1, 9, Q}, {3, 5, P}}, 2, 1}, /* the oldest waits, so what is parked makes way */
      {{{1, 9, D}, {3, 5, R}}, 2, -1},
      {{{1, 9, Q}, {2, 9, Q}}, 2, -1},
  };

  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_int_equal(tri_schedule_victim(cases[i].seat, cases[i].n), cases[i].want);
}

/* ---- simulated caches ---- */

enum { PAGE = 4, MOST_PAGES = 48, MOST_OPEN = 40, MOST_KEPT = 3, FREE = 0 };

/* An answer, or pages kept for an answer that waits. */
typedef struct holder {
  int64_t           order; /* also its name on its pages */
  int               known, length, n_page;
  int               page[MOST_PAGES];
  tri_request_state state;
} holder;

typedef struct cache {
  int     pages, rows, longest;
  int64_t owner[MOST_PAGES]; /* order of the holder, or FREE */
  holder  open[MOST_OPEN];   /* answers that have not ended, the oldest first */
  holder  kept[MOST_KEPT];
  int     n_open, n_kept;
  int64_t n_arrived, n_ended, n_given_up, n_kept_given_up, steps, most_steps;
} cache;

static uint64_t dice = 88172645463325252u; /* xorshift64 */

static int roll(int n) {
  dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
  return (int)(dice % (uint64_t)n);
}

static int pages_for(int tokens) { return (tokens + PAGE - 1) / PAGE; }

static int count_free(const cache *c) {
  int n = 0;

  for (int i = 0; i < c->pages; i++) n += c->owner[i] == FREE;
  return n;
}

static void take(cache *c, holder *h) {
  int page = roll(c->pages);

  while (c->owner[page] != FREE) page = (page + 1) % c->pages;
  c->owner[page] = h->order;
  h->page[h->n_page++] = page;
}

static void give_back(cache *c, holder *h) {
  for (int i = 0; i < h->n_page; i++) {
    assert_int_equal(c->owner[h->page[i]], h->order); /* no other holder was given this page */
    c->owner[h->page[i]] = FREE;
  }
  h->n_page = 0;
}

static int count_running(const cache *c) {
  int n = 0;

  for (int i = 0; i < c->n_open; i++) n += c->open[i].state == R;
  return n;
}

static bool wants_page(const holder *h) { return h->state == R && pages_for(h->known) > h->n_page; }

/* Pages for the next token of each answer that runs. */
static int count_wanted(const cache *c) {
  int n = 0;

  for (int i = 0; i < c->n_open; i++) n += wants_page(&c->open[i]);
  return n;
}

static int list_seats(const cache *c, tri_seat *seat) {
  int n = 0;

  for (int i = 0; i < c->n_open; i++, n++) {
    const holder *h = &c->open[i];
    seat[n] = (tri_seat){h->order, h->state == Q ? pages_for(h->known) : h->n_page, h->state};
  }
  for (int i = 0; i < c->n_kept; i++, n++) seat[n] = (tri_seat){c->kept[i].order, c->kept[i].n_page, P};
  return n;
}

/* The victim is checked against the rule in other words: kept pages go from the youngest to the oldest, then
 * answers from the youngest on, but never the oldest. */
static void one_gives_up(cache *c) {
  tri_seat seat[MOST_OPEN + MOST_KEPT];
  int      n = list_seats(c, seat), victim = tri_schedule_victim(seat, n);

  assert_in_range(victim, 0, n - 1);
  for (int i = 0; i < n; i++) {
    if (seat[i].state == P) assert_true(seat[victim].state == P && seat[i].order <= seat[victim].order);
    if (seat[i].state == R && seat[victim].state == R) assert_true(seat[i].order <= seat[victim].order);
  }
  assert_true(seat[victim].order > c->open[0].order);
  if (victim < c->n_open) {
    assert_int_equal(c->open[victim].state, R);
    give_back(c, &c->open[victim]);
    c->open[victim].state = Q;
    c->n_given_up++;
  } else {
    give_back(c, &c->kept[victim - c->n_open]);
    c->kept[victim - c->n_open] = c->kept[--c->n_kept];
    c->n_kept_given_up++;
  }
}

/* Drops the pages kept for the answer that starts. */
static void use_kept(cache *c, const holder *h) {
  for (int i = 0; i < c->n_kept; i++)
    if (c->kept[i].order == h->order + 1) {
      give_back(c, &c->kept[i]);
      c->kept[i] = c->kept[--c->n_kept];
      return;
    }
}

static void start_waiting(cache *c) {
  for (;;) {
    tri_seat seat[MOST_OPEN + MOST_KEPT];
    int      running = count_running(c), n = list_seats(c, seat);
    int      next = tri_schedule_next(seat, n, c->rows - running, count_free(c), running);
    if (next < 0 && (running || !c->n_open)) return;
    if (next < 0) { /* only kept pages are in the way */
      one_gives_up(c);
      continue;
    }
    for (int i = 0; i < next; i++) assert_int_equal(c->open[i].state, R);
    use_kept(c, &c->open[next]);
    while (c->open[next].n_page < pages_for(c->open[next].known)) take(c, &c->open[next]);
    c->open[next].state = R;
  }
}

static void step(cache *c) {
  int left = 0;

  while (count_wanted(c) > count_free(c)) one_gives_up(c);
  for (int i = 0; i < c->n_open; i++) {
    if (wants_page(&c->open[i])) take(c, &c->open[i]);
    c->open[i].known += c->open[i].state == R;
  }
  for (int i = 0; i < c->n_open; i++) {
    if (c->open[i].known < c->open[i].length) {
      c->open[left++] = c->open[i];
      continue;
    }
    give_back(c, &c->open[i]);
    c->n_ended++;
  }
  c->n_open = left;
  c->steps++;
}

static void arrive(cache *c) {
  int prompt = 1 + roll(c->longest / 2), more = 1 + roll(c->longest - prompt);

  c->open[c->n_open++] =
      (holder){.order = 2 * ++c->n_arrived, .known = prompt, .length = prompt + more, .state = Q};
  c->most_steps += more;
}

/* Keeps pages for an answer that waits, as a prompt's pages are kept. */
static void keep(cache *c) {
  const holder *w = &c->open[roll(c->n_open)];
  holder       *h = &c->kept[c->n_kept];

  for (int i = 0; i < c->n_kept; i++)
    if (c->kept[i].order == w->order + 1) return;
  if (w->state != Q) return;
  *h = (holder){.order = w->order + 1};
  c->n_kept++;
  for (int i = roll(3); i >= 0; i--) take(c, h);
}

static void simulate(cache *c, int64_t arrivals) {
  while (c->n_ended < arrivals) {
    for (int i = roll(4); i > 0 && c->n_arrived < arrivals && c->n_open < MOST_OPEN; i--) arrive(c);
    start_waiting(c);
    if (!c->n_open) continue;
    assert_int_equal(c->open[0].state, R); /* the oldest always runs */
    if (c->n_kept < MOST_KEPT && count_free(c) > 3 && roll(4) == 0) keep(c);
    step(c);
    assert_true(c->steps <= c->most_steps); /* each step brought the oldest a token */
  }
}

/* From a cache of just one answer to one that is never short. */
static void no_answer_waits_forever(void **state) {
  static cache c;
  int64_t      given_up = 0, kept_given_up = 0, calm = 0;

  (void)state;
  for (int k = 0; k < 50; k++) {
    int longest = 8 + roll(40), least = pages_for(longest);
    memset(&c, 0, sizeof c);
    c.longest = longest;
    c.rows = 1 + k % 8;
    c.pages = k % 5 == 0 ? least : least + roll(MOST_PAGES - least + 1);
    simulate(&c, 2000);
    given_up += c.n_given_up;
    kept_given_up += c.n_kept_given_up;
    calm += c.n_given_up == 0;
    while (c.n_kept) give_back(&c, &c.kept[--c.n_kept]);
    assert_int_equal(count_free(&c), c.pages); /* no page is lost */
    assert_int_equal(c.n_arrived, 2000);
  }
  assert_true(given_up > 10000 && kept_given_up > 1000 && calm > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_oldest_starts_first),
                                     cmocka_unit_test(the_youngest_gives_up),
                                     cmocka_unit_test(no_answer_waits_forever)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
