/* test_meet.c - ranks that meet beside MPI: two in one process, strangers between them. Judge: what rank 0
 * knows afterwards; that bytes of others are dropped; who is named where one does not go on. */
#include "doctor/meet/meet.h"
#include "doctor/meet/meet_impl.h"
#include "doctor/meet/talk.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { PORT = 20937 };
static const double patience_s = 1;

static tri_launch launch_of(int task) {
  return (tri_launch){.task = task,
                      .tasks = 2,
                      .local = task,
                      .locals = 2,
                      .slurm_task = -1,
                      .kind = "mpirun",
                      .hub = "127.0.0.1",
                      .port = PORT,
                      .key = 42};
}

static tri_facts facts_of(int task) {
  tri_facts f = {.seat = {.task = task, .tasks = 2, .local = task, .locals = 2, .slurm_task = -2},
                 .cores = {.online = 2, .mine = 1},
                 .n_net = 1};

  snprintf(f.seat.host, sizeof f.seat.host, "node%d", task);
  f.net[0] = (tri_facts_net){.name = "lo", .address = "127.0.0.1"};
  return f;
}

/* ---- the other rank, in a thread ---- */

typedef struct other {
  tri_launch l;
  tri_facts  f;
  bool       go, hangs;
  tri_status st;
  int        wait; /* a pipe's end: it goes on when that closes */
} other;

static void *be_other(void *arg) {
  other    *o = arg;
  tri_meet *m = NULL;
  char      byte;

  o->st = tri_meet_open(&o->l, &o->f, patience_s, &m);
  if (o->st == TRI_OK) o->st = tri_meet_serve(m, &o->go);
  if (o->go) tri_meet_stage(m, "first");
  if (o->go && !o->hangs) tri_meet_fail(m, "the reason");
  if (read(o->wait, &byte, 1) < 0) o->st = TRI_EINTERNAL;
  tri_meet_close(&m);
  return NULL;
}

typedef struct pair {
  tri_launch l;
  tri_facts  f, all[2];
  tri_meet  *m;
  other      o;
  pthread_t  thread;
  int        end[2];
  int        named, n; /* the first rank that is named; how many */
  bool       failed;
  char       stage[32], reason[64];
} pair;

static void on_hang(void *ctx, const tri_meet_hang *h) {
  pair *p = ctx;

  p->named = h->task[0];
  p->failed = h->failed;
  snprintf(p->stage, sizeof p->stage, "%s", h->stage);
  snprintf(p->reason, sizeof p->reason, "%s", h->reason ? h->reason : "");
  __atomic_store_n(&p->n, h->n, __ATOMIC_RELEASE);
}

static void begin(pair *p, bool hangs) {
  *p = (pair){.l = launch_of(0),
              .f = facts_of(0),
              .o = {.l = launch_of(1), .f = facts_of(1), .hangs = hangs},
              .named = -1};
  assert_int_equal(pipe(p->end), 0);
  p->o.wait = p->end[0];
  assert_int_equal(tri_meet_open(&p->l, &p->f, patience_s, &p->m), TRI_OK);
  assert_true(p->f.seat.port >= PORT);
  p->l.port = p->o.l.port = p->f.seat.port; /* another program may have the first */
}

static void end(pair *p) {
  close(p->end[1]);
  pthread_join(p->thread, NULL);
  close(p->end[0]);
  tri_meet_close(&p->m);
}

/* A connection to rank 0 by somebody else. */
static int stranger(const pair *p) {
  struct sockaddr_in to = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)p->l.port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  int fd = socket(AF_INET, SOCK_STREAM, 0);

  assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
  return fd;
}

/* What a stranger sends, and that rank 0 hangs up on it. */
static void is_dropped(const pair *p, const void *bytes, size_t n) {
  int  fd = stranger(p);
  char byte;

  assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
  assert_true(recv(fd, &byte, 1, 0) <= 0);
  close(fd);
}

static void strangers_are_dropped(const pair *p) {
  tri_facts     f = facts_of(1);
  tri_talk_head h = {.key = 41, .kind = TRI_TALK_HELLO, .task = 1, .bytes = sizeof f};
  char          hello[sizeof h + sizeof f];

  is_dropped(p, "GET / HTTP/1.1\r\nHost: node0\r\n\r\n", 31);
  is_dropped(p, &h, sizeof h); /* another launch's key */
  h.key = 42;
  h.bytes = TRI_TALK_MOST_BYTES + 1;
  is_dropped(p, &h, sizeof h);
  h.bytes = 0;
  h.kind = TRI_TALK_STAGE; /* of no member */
  is_dropped(p, &h, sizeof h);
  h = (tri_talk_head){.key = 42, .kind = TRI_TALK_HELLO, .task = 2, .bytes = sizeof f}; /* no such rank */
  memcpy(hello, &h, sizeof h);
  memcpy(hello + sizeof h, &f, sizeof f);
  is_dropped(p, hello, sizeof hello);
  h.task = 1;
  f.n_net = 1000;
  memcpy(hello, &h, sizeof h);
  memcpy(hello + sizeof h, &f, sizeof f);
  is_dropped(p, hello, sizeof hello);
}

static void meet(void **state) {
  pair            p;
  tri_facts_clock clock[2] = {{0}};
  tri_reach      *reach = NULL;
  int             n = 0, half, nodes;
  bool            even;

  (void)state;
  begin(&p, false);
  half = stranger(&p); /* who says nothing is in nobody's way */
  strangers_are_dropped(&p);
  assert_int_equal(pthread_create(&p.thread, NULL, be_other, &p.o), 0);
  tri_meet_gather(p.m, p.all);
  assert_string_equal(p.all[0].seat.host, "node0");
  assert_string_equal(p.all[1].seat.host, "node1");
  assert_int_equal(tri_facts_number(p.all, 2, 0, &even, &nodes), TRI_OK);
  const tri_case c = {.launch = &p.l, .facts = p.all, .tasks = 2, .nodes = nodes};
  p.all[1].seat.local = 0; /* the first of its node */
  tri_meet_clocks(p.m, &c, clock);
  assert_true(clock[1].known);
  assert_true(clock[1].ahead_s >= -clock[1].within_s && clock[1].ahead_s <= clock[1].within_s);
  strcpy(p.all[0].net[0].address, "127.0.0.2"); /* an address of rank 0 that is not rank 1's own */
  strcpy(p.all[1].net[0].address, "127.0.0.3");
  p.all[1].seat.port = 1; /* nobody listens there */
  assert_int_equal(tri_meet_reach(p.m, &c, &reach, &n), TRI_OK);
  assert_int_equal(n, 2);
  assert_int_equal(reach[0].error, ECONNREFUSED); /* from node 0 to 1, where nobody listens */
  assert_int_equal(reach[1].error, 0);
  TRI_FREE(reach);
  tri_meet_decide(p.m, true);
  tri_meet_stage(p.m, "first");
  tri_meet_watch(p.m, on_hang, &p);
  while (!__atomic_load_n(&p.n, __ATOMIC_ACQUIRE)) usleep(1000); /* it fails */
  assert_int_equal(p.named, 1);
  assert_true(p.failed);
  assert_string_equal(p.reason, "the reason");
  close(half);
  end(&p);
  assert_int_equal(p.o.st, TRI_OK);
  assert_true(p.o.go);
}

static void hang(void **state) {
  pair p;

  (void)state;
  begin(&p, true);
  assert_int_equal(pthread_create(&p.thread, NULL, be_other, &p.o), 0);
  tri_meet_gather(p.m, p.all);
  tri_meet_decide(p.m, true);
  tri_meet_stage(p.m, "first");
  tri_meet_stage(p.m, "second");
  tri_meet_watch(p.m, on_hang, &p);
  while (!__atomic_load_n(&p.n, __ATOMIC_ACQUIRE)) usleep(1000);
  assert_int_equal(p.named, 1);
  assert_int_equal(p.n, 1);
  assert_string_equal(p.stage, "first");
  assert_string_equal(p.reason, ""); /* it answers: it runs */
  end(&p);
}

static void alone(void **state) {
  tri_launch l = launch_of(0);
  tri_facts  f = facts_of(0), all[2];
  tri_meet  *m;
  double     from_s = tri_now_s();

  (void)state;
  assert_int_equal(tri_meet_open(&l, &f, patience_s, &m), TRI_OK);
  tri_meet_gather(m, all);
  assert_string_equal(all[1].seat.host, "");
  assert_true(tri_now_s() - from_s >= patience_s);
  tri_meet_close(&m);
  assert_null(m);
}

static bool is_full(pair *p) {
  bool full;

  pthread_mutex_lock(&p->m->lock);
  full = p->m->full;
  pthread_mutex_unlock(&p->m->lock);
  return full;
}

/* Rank 0 may open no file more while somebody knocks: it says so, and hears him when it may again. */
static void no_more_files(void **state) {
  pair          p;
  struct rlimit before, few;
  char          byte;
  int           fd, spare;

  (void)state;
  begin(&p, false);
  fd = socket(AF_INET, SOCK_STREAM, 0);
  spare = dup(fd); /* the lowest number that is free is the next */
  assert_true(fd >= 0 && spare >= 0);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  few = (struct rlimit){(rlim_t)spare, before.rlim_max};
  close(spare);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
  struct sockaddr_in to = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)p.l.port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
  while (!is_full(&p)) usleep(1000);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  assert_int_equal(send(fd, "GET / HTTP/1.1\r\nHost: node0\r\n\r\n", 31, MSG_NOSIGNAL), 31);
  assert_true(recv(fd, &byte, 1, 0) <= 0); /* heard, and dropped */
  assert_false(is_full(&p));
  close(fd);
  tri_meet_close(&p.m);
  close(p.end[0]);
  close(p.end[1]);
}

int main(void) {
  const struct CMUnitTest test[] = {cmocka_unit_test(meet), cmocka_unit_test(hang), cmocka_unit_test(alone),
                                    cmocka_unit_test(no_more_files)};

  return cmocka_run_group_tests(test, NULL, NULL);
}
