/* test_rendezvous.c - tests ranks connected beside MPI. Two are in one process, with strangers between them
 * and in rank 0's place. Judge: the knowledge of rank 0 afterwards. Bytes of others are dropped and get no
 * answer. The right rank is named if one hangs. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* cpu_set_t */
#include "base/clock.h"
#include "base/host_memory.h"
#include "tools/doctor/rendezvous/rendezvous.h"
#include "tools/doctor/rendezvous/rendezvous_impl.h"
#include "tools/doctor/rendezvous/channel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { PORT = 20937 };
static const double patience_s = 1;
static char         folder[] = "/tmp/test_meet.XXXXXX"; /* folder of the secret */

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
  double     patience_s;
  tri_status st;
  int        wait; /* a pipe's end. It goes on when this closes */
} other;

static void *be_other(void *arg) {
  other          *o = arg;
  tri_rendezvous *m = NULL;
  char            byte;

  o->st = tri_rendezvous_open(&o->l, folder, &o->f, o->patience_s, &m);
  if (o->st == TRI_OK) o->st = tri_rendezvous_serve(m, &o->go);
  if (o->go) tri_rendezvous_stage(m, "first");
  if (o->go && !o->hangs) tri_rendezvous_fail(m, "the reason");
  if (read(o->wait, &byte, 1) < 0) o->st = TRI_EINTERNAL;
  tri_rendezvous_close(&m);
  return NULL;
}

typedef struct pair {
  tri_launch      l;
  tri_facts       f, all[2];
  tri_rendezvous *m;
  other           o;
  pthread_t       thread;
  int             end[2];
  int             named, n; /* the first rank named, and their number */
  bool            failed;
  char            stage[32], reason[64];
} pair;

static void on_hang(void *ctx, const tri_rendezvous_hang *h) {
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
              .o = {.l = launch_of(1), .f = facts_of(1), .hangs = hangs, .patience_s = 20},
              .named = -1};
  assert_int_equal(pipe(p->end), 0);
  p->o.wait = p->end[0];
  assert_int_equal(tri_rendezvous_open(&p->l, folder, &p->f, patience_s, &p->m), TRI_OK);
  assert_true(p->f.seat.port >= PORT);
  p->l.port = p->o.l.port = p->f.seat.port; /* another program may have the first */
}

static void end(pair *p) {
  close(p->end[1]);
  pthread_join(p->thread, NULL);
  close(p->end[0]);
  tri_rendezvous_close(&p->m);
}

/* Opens a connection to rank 0 by somebody else. */
static int stranger(const pair *p) {
  struct sockaddr_in to = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)p->l.port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  int fd = socket(AF_INET, SOCK_STREAM, 0);

  assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
  return fd;
}

/* Sends bytes as a stranger and asserts that rank 0 closes the connection. */
static void is_dropped(const pair *p, const void *bytes, size_t n) {
  int  fd = stranger(p);
  char byte;

  assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
  assert_true(recv(fd, &byte, 1, 0) <= 0);
  close(fd);
}

/* Opens a connection as rank 1 does, with this secret. Returns false if rank 0 did not accept it. */
static bool come_as(const pair *p, const unsigned char *secret, int task, int *fd, tri_channel *t) {
  double until_s = tri_now_s() + 5;

  *fd = stranger(p);
  return tri_channel_open(*fd, secret, TRI_CHANNEL_MEMBER, task, t, until_s) &&
         tri_channel_greet(t, until_s) == 0;
}

/* Says hello with these bytes. Returns whether rank 0 sends its welcome. */
static bool is_welcome(tri_channel *t, const void *hello, size_t n) {
  tri_channel_in in = {0};
  bool           welcome;

  welcome = tri_channel_send(t, TRI_CHANNEL_HELLO, hello, n, tri_now_s() + 5) &&
            tri_channel_wait(t, &in, tri_now_s() + 5) == TRI_CHANNEL_WHOLE &&
            in.head.kind == TRI_CHANNEL_WELCOME;
  tri_channel_drop(&in);
  return welcome;
}

/* Another user of the machine knows the protocol and the launcher's variables, but not the secret. */
static void strangers_are_dropped(const pair *p) {
  unsigned char        guess[TRI_KEY_BYTES] = {42}, opening[TRI_CHANNEL_OPENING_BYTES] = {0}, again[256];
  tri_rendezvous_hello hello;
  tri_channel_head     h = {.kind = TRI_CHANNEL_HELLO, .task = 1, .bytes = sizeof hello};
  tri_channel          t;
  int                  fd;

  is_dropped(p, "GET / HTTP/1.1\r\nHost: node0\r\n\r\n", 31);
  is_dropped(p, opening, sizeof opening);
  is_dropped(p, &h, sizeof h);                 /* a message before any proof */
  assert_false(come_as(p, guess, 1, &fd, &t)); /* rank 0 proves itself to nobody else */
  close(fd);
  /* The proof is missing or wrong. The bytes behind it are not read. */
  memcpy(opening, "TRIDOC2", 8);
  opening[8] = TRI_CHANNEL_MEMBER, opening[12] = 1;
  memcpy(again, opening, sizeof opening);
  memset(again + sizeof opening, 7, sizeof again - sizeof opening);
  fd = stranger(p);
  assert_int_equal(send(fd, again, sizeof again, MSG_NOSIGNAL), sizeof again);
  assert_int_equal(recv(fd, again, TRI_CHANNEL_ANSWER_BYTES, MSG_WAITALL), TRI_CHANNEL_ANSWER_BYTES);
  assert_true(recv(fd, again, sizeof again, 0) <= 0);
  close(fd);
}

/* A process of this user, with the secret, but no rank. */
static void bad_ranks_are_dropped(const pair *p) {
  const unsigned char *secret = p->m->trust.secret.key;
  tri_rendezvous_hello hello;
  tri_channel          t;
  int                  fd;

  memset(&hello, 0, sizeof hello);
  hello.facts = facts_of(1);
  assert_true(come_as(p, secret, 2, &fd, &t)); /* no such rank */
  assert_false(is_welcome(&t, &hello, sizeof hello));
  close(fd);
  assert_true(come_as(p, secret, 1, &fd, &t));
  hello.facts.n_net = 1000;
  assert_false(is_welcome(&t, &hello, sizeof hello));
  close(fd);
  assert_true(come_as(p, secret, 1, &fd, &t));
  assert_true(tri_channel_send(&t, TRI_CHANNEL_STAGE, "\1\0\0\0x", 5, tri_now_s() + 5)); /* from no member */
  assert_true(recv(fd, &hello, 1, 0) <= 0);
  close(fd);
}

/* A message overheard on another connection, or sent twice on its own, is refused. */
static void copies_are_dropped(const pair *p) {
  unsigned char  bytes[sizeof(tri_channel_head)];
  tri_channel    t, second;
  tri_channel_in in = {0};
  int            fd, fd_second;

  assert_true(come_as(p, p->m->trust.secret.key, 1, &fd, &t));
  assert_true(tri_channel_send(&t, TRI_CHANNEL_PROBE, NULL, 0, tri_now_s() + 5));
  assert_int_equal(tri_channel_wait(&t, &in, tri_now_s() + 5), TRI_CHANNEL_WHOLE);
  memcpy(bytes, &in.head, sizeof bytes); /* rank 0's own message, sent back to it */
  tri_channel_drop(&in);
  assert_true(tri_channel_send_raw(fd, bytes, sizeof bytes, tri_now_s() + 5));
  assert_true(recv(fd, bytes, 1, 0) <= 0);
  close(fd);
  assert_true(come_as(p, p->m->trust.secret.key, 1, &fd, &t));
  assert_true(come_as(p, p->m->trust.secret.key, 1, &fd_second, &second));
  second = t, second.fd = fd_second; /* under the key of another connection */
  assert_true(tri_channel_send(&second, TRI_CHANNEL_PROBE, NULL, 0, tri_now_s() + 5));
  assert_true(recv(fd_second, bytes, 1, 0) <= 0);
  close(fd);
  close(fd_second);
}

static void rendezvous(void **state) {
  pair            p;
  tri_facts_clock clock[2] = {{0}};
  tri_reach      *reach = NULL;
  int             n = 0, half, nodes;
  bool            even;

  (void)state;
  begin(&p, false);
  half = stranger(&p); /* a silent connection blocks nobody */
  strangers_are_dropped(&p);
  bad_ranks_are_dropped(&p);
  copies_are_dropped(&p);
  assert_int_equal(pthread_create(&p.thread, NULL, be_other, &p.o), 0);
  tri_rendezvous_gather(p.m, p.all);
  assert_string_equal(p.all[0].seat.host, "node0");
  assert_string_equal(p.all[1].seat.host, "node1");
  assert_int_equal(tri_facts_number(p.all, 2, 0, &even, &nodes), TRI_OK);
  const tri_case c = {.launch = &p.l, .facts = p.all, .tasks = 2, .nodes = nodes};
  p.all[1].seat.local = 0; /* the first of its node */
  tri_rendezvous_clocks(p.m, &c, clock);
  assert_true(clock[1].known);
  assert_true(clock[1].ahead_s >= -clock[1].within_s && clock[1].ahead_s <= clock[1].within_s);
  strcpy(p.all[0].net[0].address, "127.0.0.2"); /* an address of rank 0 different from rank 1's own */
  strcpy(p.all[1].net[0].address, "127.0.0.3");
  p.all[1].seat.port = 1; /* nobody listens there */
  assert_int_equal(tri_rendezvous_reach(p.m, &c, &reach, &n), TRI_OK);
  assert_int_equal(n, 2);
  assert_int_equal(reach[0].error, ECONNREFUSED); /* from node 0 to 1, without a listener */
  assert_int_equal(reach[1].error, 0);
  TRI_FREE(reach);
  tri_rendezvous_decide(p.m, true);
  tri_rendezvous_stage(p.m, "first");
  tri_rendezvous_monitor(p.m, on_hang, &p);
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
  tri_rendezvous_gather(p.m, p.all);
  tri_rendezvous_decide(p.m, true);
  tri_rendezvous_stage(p.m, "first");
  tri_rendezvous_stage(p.m, "second");
  tri_rendezvous_monitor(p.m, on_hang, &p);
  while (!__atomic_load_n(&p.n, __ATOMIC_ACQUIRE)) usleep(1000);
  assert_int_equal(p.named, 1);
  assert_int_equal(p.n, 1);
  assert_string_equal(p.stage, "first");
  assert_string_equal(p.reason, ""); /* it answers, so it runs */
  end(&p);
}

static void alone(void **state) {
  tri_launch      l = launch_of(0);
  tri_facts       f = facts_of(0), all[2];
  tri_rendezvous *m;
  double          from_s = tri_now_s();

  (void)state;
  assert_int_equal(tri_rendezvous_open(&l, folder, &f, patience_s, &m), TRI_OK);
  tri_rendezvous_gather(m, all);
  assert_string_equal(all[1].seat.host, "");
  assert_true(tri_now_s() - from_s >= patience_s);
  tri_rendezvous_close(&m);
  assert_null(m);
}

static bool is_full(pair *p) {
  bool full;

  pthread_mutex_lock(&p->m->lock);
  full = p->m->files.full;
  pthread_mutex_unlock(&p->m->lock);
  return full;
}

/* Rank 0 cannot open another file while somebody probes. It warns, and accepts the connection when it can
 * open files again. */
static void no_more_files(void **state) {
  pair          p;
  struct rlimit before, few;
  char          byte;
  int           fd, spare;

  (void)state;
  begin(&p, false);
  fd = socket(AF_INET, SOCK_STREAM, 0);
  spare = dup(fd); /* the next file gets the lowest free number */
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
  assert_true(recv(fd, &byte, 1, 0) <= 0); /* received, and dropped */
  assert_false(is_full(&p));
  close(fd);
  tri_rendezvous_close(&p.m);
  close(p.end[0]);
  close(p.end[1]);
}

/* ---- who has the secret ---- */

/* Two processes of this user claim to be task 1. The error is reported once, and the first process stays. */
static void twice(void **state) {
  pair                 p;
  tri_rendezvous_hello hello;
  tri_findings         found = {0};
  tri_channel          t[2];
  int                  fd[2];

  (void)state;
  begin(&p, false);
  memset(&hello, 0, sizeof hello);
  hello.facts = facts_of(1);
  for (int i = 0; i < 2; i++) {
    hello.process[0] = (unsigned char)(i + 1);
    assert_true(come_as(&p, p.m->trust.secret.key, 1, &fd[i], &t[i]));
    assert_int_equal(is_welcome(&t[i], &hello, sizeof hello), !i);
  }
  close(fd[0]);
  hello.process[0] = 1; /* the first again, after its answer was lost */
  assert_true(come_as(&p, p.m->trust.secret.key, 1, &fd[0], &t[0]));
  assert_true(is_welcome(&t[0], &hello, sizeof hello));
  tri_rendezvous_gather(p.m, p.all);
  assert_int_equal(tri_rendezvous_check(p.m, &found), TRI_OK);
  assert_true(found.n == 1 && found.errors == 1 && found.blocks && tri_rendezvous_can(p.m));
  assert_string_equal(found.item[0].where, "task 1");
  assert_non_null(strstr(found.item[0].what, "two processes came as this task"));
  tri_findings_free(&found);
  for (int i = 0; i < 2; i++) close(fd[i]), close(p.end[i]);
  tri_rendezvous_close(&p.m);
}

/* Another user listens on rank 0's port before it does. Rank 1 tells him nothing, and connects to rank 0. */
static void *be_false_hub(void *arg) {
  int   fd = accept(*(int *)arg, NULL, NULL);
  char *got = calloc(1, 1 << 16);

  if (fd >= 0 && got) { /* he answers anything */
    got[0] = (char)(recv(fd, got + 1, TRI_CHANNEL_OPENING_BYTES, MSG_WAITALL) == TRI_CHANNEL_OPENING_BYTES);
    send(fd, got + 8, TRI_CHANNEL_ANSWER_BYTES, MSG_NOSIGNAL);
    if (recv(fd, got + 1, (1 << 16) - 1, MSG_WAITALL) > 0) got[0] = 2; /* it told him more */
  }
  if (fd >= 0) close(fd);
  return got;
}

static void false_hub(void **state) {
  pair      p;
  int       port, squat = tri_channel_listen(0, &port), real;
  pthread_t thread;
  void     *got;

  (void)state;
  assert_true(squat >= 0);
  fcntl(squat, F_SETFL, 0);
  assert_int_equal(pthread_create(&thread, NULL, be_false_hub, &squat), 0);
  begin(&p, false);
  real = p.m->trust.secret.port;
  tri_secret_remove(&p.m->trust.secret);
  p.o.l.key = p.l.key;
  assert_int_equal(tri_secret_make(&p.m->trust.secret, port), TRI_OK); /* as if he had rank 0's port now */
  assert_int_equal(pthread_create(&p.thread, NULL, be_other, &p.o), 0);
  pthread_join(thread, &got);
  assert_int_equal(*(char *)got, 1);
  free(got);
  close(squat);
  assert_int_equal(tri_secret_make(&p.m->trust.secret, real), TRI_OK);
  tri_rendezvous_gather(p.m, p.all);
  assert_string_equal(p.all[1].seat.host, "node1");
  tri_rendezvous_decide(p.m, true);
  end(&p);
  assert_true(p.o.go);
}

/* The file of the secret is read only if it is whole and private to this user. */
static void secret_files(void **state) {
  tri_launch  l = launch_of(0);
  tri_secret  s, reader;
  char        target[TRI_SECRET_PATH_BYTES + 8];
  struct stat sb;

  (void)state;
  l.locals = 1; /* no folder of temporary files */
  setenv("XDG_CACHE_HOME", "/dev/null/cache", 1);
  tri_secret_begin(&l, folder, &s);
  tri_secret_begin(&l, folder, &reader);
  assert_int_equal(s.n, 2);
  assert_false(tri_secret_find(&reader));
  assert_int_equal(tri_secret_make(&s, 1234), TRI_OK);
  assert_true(s.written[0] && !stat(s.path[0], &sb));
  assert_int_equal(sb.st_mode & 07777, 0600);
  assert_true(tri_secret_find(&reader) && reader.port == 1234);
  assert_memory_equal(reader.key, s.key, TRI_KEY_BYTES);
  for (int i = 0; i < 5; i++) {
    tri_secret_begin(&l, folder, &reader);
    snprintf(target, sizeof target, "%s.2", s.path[0]);
    if (i == 0) assert_int_equal(chmod(s.path[0], 0640), 0); /* a group may read it */
    if (i == 1) assert_int_equal(chmod(s.path[0], 0600) | link(s.path[0], target), 0);
    if (i == 2) assert_int_equal(unlink(s.path[0]) | symlink(target, s.path[0]), 0);
    if (i == 3) assert_int_equal(unlink(s.path[0]) | rename(target, s.path[0]) | truncate(s.path[0], 70), 0);
    if (i == 4) assert_int_equal(unlink(s.path[0]) | mkfifo(s.path[0], 0600), 0);
    assert_false(tri_secret_find(&reader));
  }
  if (!geteuid()) { /* another user's */
    assert_int_equal(unlink(s.path[0]) | tri_secret_make(&s, 1234) | chown(s.path[0], 65534, 65534), 0);
    assert_false(tri_secret_find(&reader));
  }
  tri_secret_remove(&s);
  assert_int_equal(access(s.path[0], F_OK), -1);
  unsetenv("XDG_CACHE_HOME");
}

/* Without a place for the file and without munge, rank 1 reports this and goes on, and rank 0 warns of its
 * missing knowledge. */
static void without(void **state) {
  pair         p;
  tri_findings found = {0};
  char        *path = strdup(getenv("PATH"));

  (void)state;
  setenv("PATH", "/dev/null", 1); /* no munge, even if this machine has it */
  begin(&p, false);
  tri_secret_remove(&p.m->trust.secret);
  p.o.patience_s = 1;
  p.m->patience_s = 60;
  assert_int_equal(pthread_create(&p.thread, NULL, be_other, &p.o), 0);
  tri_rendezvous_gather(p.m, p.all);
  assert_int_equal(tri_rendezvous_check(p.m, &found), TRI_OK);
  assert_true(found.n == 1 && !found.errors && !found.blocks && !tri_rendezvous_can(p.m));
  assert_non_null(strstr(found.item[0].what, "have no secret in common"));
  tri_rendezvous_decide(p.m, true);
  end(&p);
  assert_true(p.o.st == TRI_OK && p.o.go);
  tri_findings_free(&found);
  setenv("PATH", path, 1);
  free(path);
}

/* ---- munge ---- */

/* Puts a program of this name in the place of the installed one. "$0.count" gets a line for each of its
 * starts. */
static void be_munge(const char *script) {
  char  path[64], all[4096];
  FILE *f;

  snprintf(path, sizeof path, "%s/munge", folder);
  f = fopen(path, "w");
  assert_non_null(f);
  fprintf(f, "#!/bin/sh\n%s\n", script);
  fclose(f);
  assert_int_equal(chmod(path, 0700), 0);
  snprintf(all, sizeof all, "%s:/usr/bin:/bin", folder);
  setenv("PATH", all, 1);
}

static int count_starts(void) {
  char  path[64];
  FILE *f;
  int   n = 0;

  snprintf(path, sizeof path, "%s/munge.count", folder);
  f = fopen(path, "r");
  for (int c; f && (c = getc(f)) != EOF;) n += c == '\n';
  if (f) fclose(f);
  return n;
}

static void end_munge(const char *path) {
  char name[64];

  snprintf(name, sizeof name, "%s/munge", folder);
  unlink(name);
  snprintf(name, sizeof name, "%s/munge.count", folder);
  unlink(name);
  setenv("PATH", path, 1);
}

/* A stranger asks for the sealed secret again and again and breaks off. This keeps rank 0 busy only a limited
 * number of times. */
static void a_stranger_is_sealed_for_a_few_times(void **state) {
  enum { TRIES = 12, MOST = 8 }; /* four for each of two ranks */
  static const struct linger at_once = {.l_onoff = 1};
  unsigned char              opening[TRI_CHANNEL_OPENING_BYTES] = "TRIDOC2";
  char                      *path = strdup(getenv("PATH")), byte;
  pair                       p;

  (void)state;
  begin(&p, false);
  be_munge("echo >> \"$0.count\"; sleep 0.1; echo sealed");
  opening[8] = TRI_CHANNEL_ASKER, opening[12] = 1;
  for (int i = 0; i < TRIES; i++) {
    int fd = stranger(&p), before = count_starts();
    assert_int_equal(send(fd, opening, sizeof opening, MSG_NOSIGNAL), sizeof opening);
    while (count_starts() == before && recv(fd, &byte, 1, MSG_DONTWAIT) < 0) usleep(1000);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once); /* rank 0's send fails */
    close(fd);
  }
  tri_rendezvous_close(&p.m);
  assert_in_range(count_starts(), 1, MOST);
  for (int i = 0; i < 2; i++) close(p.end[i]);
  end_munge(path);
  free(path);
}

/* If munge ends before it reads, it only counts as failed. This process goes on. */
static void a_broken_munge_is_none(void **state) {
  char       sealed[TRI_CHANNEL_SEALED_BYTES], *path = strdup(getenv("PATH"));
  tri_secret s = {.port = 1};
  cpu_set_t  all, one;

  (void)state;
  be_munge("exit 1");
  assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one); /* on one core the two take turns */
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  for (int i = 0; i < 200; i++) assert_false(tri_secret_seal(&s, sealed, sizeof sealed));
  assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
  end_munge(path);
  free(path);
}

int main(void) {
  const struct CMUnitTest test[] = {cmocka_unit_test(twice),
                                    cmocka_unit_test(false_hub),
                                    cmocka_unit_test(secret_files),
                                    cmocka_unit_test(without),
                                    cmocka_unit_test(rendezvous),
                                    cmocka_unit_test(hang),
                                    cmocka_unit_test(alone),
                                    cmocka_unit_test(no_more_files),
                                    cmocka_unit_test(a_stranger_is_sealed_for_a_few_times),
                                    cmocka_unit_test(a_broken_munge_is_none)};

  int failed;

  if (!mkdtemp(folder)) return 1;
  failed = cmocka_run_group_tests(test, NULL, NULL);
  return rmdir(folder) ? 1 : failed; /* no file is left in it */
}
