/* peers.c - the monitor's thread: its clock, its heartbeats, incoming heartbeats, and the end of the run. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "peers.h"
#include "ask.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory_group.h"
#include "base/notice.h"
#include "proc_state.h"
#include "members.h"
#include "stuck.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* Chosen. A rank without a sign of life for 15 s counts as stopped. The message then appears in under 30 s,
 * even on a busy machine. */
static const double silent_most_s = 15, tick_most_s = 0.25, tick_least_s = 0.01;
static const double root_dead_s = 0.2;  /* a launcher that kills all ranks at once has done so by then */
static const double other_dead_s = 0.6; /* srun kills all 1.1 s after a death */
static const double slow_again_s = 600; /* between two warnings */
static const double start_warn_s = 30;  /* ranks of a launch usually start within seconds */
enum {
  EXIT_CODE = 76,
  TICKS_A_LOSS = 40,   /* ticks until a rank counts as silent */
  GROUPS_A_TICK = 256, /* groups the root serves per tick. More groups lengthen the period */
  /* This many heartbeats of a machine must be lost before it counts as silent. */
  HEARTBEATS_A_LOSS = 6,
  HEARERS = 2 /* receiving ranks of the root group, so that the next can take over at once */
};
/* Parts of silent_s. A machine without heartbeats is asked after quiet_part, at least three times. If it
 * still takes part in collectives without heartbeats for lost_part, it lives. The process of a neighbour is
 * checked if its heartbeat is overdue by overdue_part. */
static const double quiet_part = 0.4, answer_part = 0.2, lost_part = 0.5, overdue_part = 0.2;

static struct {
  tri_peers_opt opt;
  pthread_t     thread;
  bool          runs;
  int           wake, fd, listen;
  _Atomic bool  stops, joined, leaves;
  tri_members  *members; /* owned by the thread after `joined`, like all that follow */
  tri_ask      *ask;
  uint64_t      sequence;
  unsigned char key[TRI_KEY_BYTES];
  double        tick_s, period_s, silent_s;
  /* The system's clock, and our own, which stops while this process does not run. */
  double   real_s, now_s, sent_s;
  uint64_t turn; /* turn of the rank status, and its time */
  double   turn_s;
  struct {
    double   passed_s, waited_s, before_s, work_s, looked_s, said_s;
    uint32_t number;
  } window; /* over phases with equal work (detector.h) */
  bool         began;
  _Atomic bool ends;
} w = {.wake = -1, .fd = -1, .listen = -1};

/* ---- this rank ---- */

/* True for phases with equal work on every rank. */
static bool is_even(const char *phase) {
  static const char *const even[] = {"learn", "update", "reference", "critic"};

  for (size_t i = 0; i < sizeof even / sizeof *even; i++)
    if (!strcmp(phase, even[i])) return true;
  return false;
}

static void add_to_window(const tri_rank_status *b, double passed_s) {
  double waited_s = b->waited_s - w.window.before_s;

  w.window.before_s = b->waited_s;
  if (!is_even(b->phase)) return;
  w.window.passed_s += passed_s;
  w.window.waited_s += waited_s;
  if (w.window.passed_s < TRI_SLOW_WINDOW_S) return;
  w.window.work_s = w.window.passed_s > w.window.waited_s ? w.window.passed_s - w.window.waited_s : 0;
  w.window.number++;
  w.window.passed_s = w.window.waited_s = 0;
}

static tri_heartbeat make_heartbeat(double passed_s) {
  tri_rank_status b;
  tri_heartbeat   mine = {.life = atomic_load(&w.leaves) ? TRI_LIFE_ENDS : TRI_LIFE_WORKS};

  tri_rank_status_read(&b);
  if (b.turn != w.turn || b.scope == TRI_RANK_STATUS_NOWHERE) w.turn_s = w.now_s;
  w.turn = b.turn;
  add_to_window(&b, passed_s);
  mine.scope = b.scope;
  mine.number = b.number;
  mine.met = b.met;
  mine.waited_s = w.now_s - w.turn_s;
  mine.work_s = w.window.work_s;
  mine.window = w.window.number;
  mine.come = b.come;
  memcpy(mine.phase, b.phase, sizeof mine.phase);
  memcpy(mine.label, b.label, sizeof mine.label);
  return mine;
}

/* ---- warnings ---- */

/* Warns about a rank: logs it and gives a notice to machines. `words` follow the rank's name. */
static void warn(const char *code, const tri_rank_info *c, const tri_notice_number *number, int n_number,
                 const char *words) {
  tri_text   text = {0}, line = {0};
  tri_notice notice = {.code = code, .step = -1, .urgent = true};

  notice.number[notice.n_number++] = (tri_notice_number){"rank", c->rank};
  for (int i = 0; i < n_number; i++) notice.number[notice.n_number++] = number[i];
  if (tri_peers_name(c, &text) == TRI_OK && tri_text_printf(&text, "%s", words) == TRI_OK &&
      tri_text_printf(&line, "trireme: warning: %s\n", text.data) == TRI_OK) {
    tri_log_urgent(line.data);
    notice.text = text.data;
    tri_notice_give(&notice);
  }
  tri_text_free(&text);
  tri_text_free(&line);
}

/* ---- the end ---- */

static const char *const start_words =
    "trireme: rank %d on this machine waited for %.0f s (run.timeout_s) in the start of MPI. Other ranks did "
    "not come or cannot be reached. It ends with exit code 76\n";

/* Warns long before the run ends, so that a user who is present can act. */
static void warn_start(double waited_s) {
  static bool warned;
  double      after_s = w.opt.timeout_s / 2 < start_warn_s ? w.opt.timeout_s / 2 : start_warn_s;

  if (warned || waited_s < after_s) return;
  warned = true;
  tri_stuck_say("warning: ", w.opt.rank, w.opt.speaks);
}

static void end_alone(void) {
  tri_text text = {0};

  w.ends = true;
  if (tri_text_printf(&text, start_words, w.opt.rank, w.opt.timeout_s) == TRI_OK) tri_log_urgent(text.data);
  tri_stuck_say("", w.opt.rank, w.opt.speaks);
  w.opt.end(EXIT_CODE);
}

/* Sends to the last known address of a rank's machine. Before it was heard, sends to all its addresses. */
static void send_to(int rank, const unsigned char *bytes, size_t n) {
  const tri_rank_info *c = &w.members->info[rank];
  const tri_group     *g = &w.members->group[w.members->group_of[rank]];

  if (w.fd < 0 || !c->port) return;
  if (g->heard && g->at.port == c->port) {
    tri_net_send(w.fd, &g->at, bytes, n);
    return;
  }
  for (int i = 0; i < TRI_RANK_INFO_ADDRESSES && tri_net_is_address(c->address[i]); i++) {
    tri_net_end to = {.port = c->port};
    memcpy(to.address, c->address[i], sizeof to.address);
    tri_net_send(w.fd, &to, bytes, n);
  }
}

static void tell_end(void) {
  unsigned char bytes[TRI_WIRE_BYTES];
  tri_wire      end = {.kind = TRI_WIRE_END, .sender = w.members->rank, .sequence = ++w.sequence};
  size_t        n = tri_wire_write(&end, w.key, bytes);

  for (int g = 0; g < w.members->n_groups; g++) {
    const tri_group *its = &w.members->group[g];
    if (g == w.members->mine) continue;
    if (its->heard) tri_net_send(w.fd, &its->at, bytes, n);
    send_to(its->member[0], bytes, n);
  }
}

/* Another rank has reported the reason and ends all. This rank ends itself if that does not reach it. */
static void end_late(void) {
  if (!w.ends) w.opt.end_late(EXIT_CODE);
  w.ends = true;
}

/* Gives the cause as a word and the culprit to machines. `words` are for people. */
static void give_verdict(const tri_limits *limit, const tri_verdict *v, const char *words) {
  const tri_members *r = w.members;
  tri_notice         n = {.kind = TRI_NOTICE_VERDICT,
                          .code = tri_peers_cause(r->info, r->seen, r->n, limit, w.now_s, v),
                          .text = words,
                          .step = -1,
                          .number = {{"since_s", v->since_s}},
                          .n_number = 1,
                          .urgent = true,
                          .rank = v->culprit};

  if (v->culprit >= 0) n.node = r->info[v->culprit].host;
  tri_notice_give(&n);
}

/* The message is printed before all else. Later calls may hang, and a launcher may be about to kill this
 * process. */
static void end_run(const tri_limits *limit, const tri_verdict *v) {
  const tri_members *r = w.members;
  tri_text           words = {0}, line = {0};

  end_late(); /* covers any hang from here on */
  if (!tri_node_claim(r->node)) return;
  if (tri_peers_words(r->info, r->seen, r->n, limit, w.now_s, v, &words) == TRI_OK &&
      tri_text_printf(&line, "trireme: %s\n", words.data) == TRI_OK)
    tri_log_urgent(line.data);
  tell_end();
  give_verdict(limit, v, words.data ? words.data : "");
  w.opt.end(EXIT_CODE);
}

/* ---- the judge ---- */

/* The first live rank of rank 0's machine judges all ranks. On another machine, the first live rank judges
 * its own ranks and the root's. Each machine acts later than the one before, so only one of them reports. */
static tri_limits limits_here(void) {
  int    g = w.members->mine;
  double late_s = g == 0 ? 0 : w.silent_s * (0.05 + 0.02 * (g < 8 ? g : 8));

  return (tri_limits){.silent_s = w.silent_s + late_s,
                      .late_s = w.opt.timeout_s + late_s,
                      .dead_s = g == 0 ? root_dead_s : other_dead_s + late_s / 10};
}

static void warn_slow(void) {
  tri_members *r = w.members;
  double       times;
  tri_text     words = {0};
  int          slow;

  if (w.now_s - w.window.looked_s < TRI_SLOW_WINDOW_S) return;
  w.window.looked_s = w.now_s;
  slow = tri_peers_slow(r->seen, r->n, &times);
  if (slow < 0 || (w.window.said_s > 0 && w.now_s - w.window.said_s < slow_again_s)) return;
  w.window.said_s = w.now_s;
  if (tri_text_printf(
          &words, ": is slow: work in phase %s takes it %.1f times as long as the median rank, and all wait",
          r->seen[slow].heartbeat.phase, times) == TRI_OK)
    warn("slow_rank", &r->info[slow], &(tri_notice_number){"times_median", times}, 1, words.data);
  tri_text_free(&words);
}

/* Each machine warns about its own ranks. */
static void warn_overdue(void) {
  const tri_members *r = w.members;
  int                rank = tri_members_overdue(r, w.now_s, w.silent_s);
  tri_text           words = {0};

  if (rank < 0 || (w.window.said_s > 0 && w.now_s - w.window.said_s < slow_again_s)) return;
  w.window.said_s = w.now_s;
  if (tri_text_printf(&words,
                      ": is slow: no heartbeat for %.0f s, but its process %d runs. Other "
                      "programs take the cores of this node, or a disk does not answer. The run goes on",
                      w.silent_s, (int)r->info[rank].pid) == TRI_OK)
    warn("overdue_rank", &r->info[rank], &(tri_notice_number){"silent_s", w.silent_s}, 1, words.data);
  tri_text_free(&words);
}

/* Warns once for each machine. */
static void warn_unheard(tri_group *g) {
  tri_members *r = w.members;
  tri_text     words = {0};

  if (g->warned) return;
  g->warned = true;
  if (tri_text_printf(&words,
                      "%s: %s (UDP to port %u of %s). A firewall blocks them, or the machine is "
                      "down. The run goes on, and %s",
                      g->n > 1 ? " and the others of its machine" : "",
                      g->heard ? "its heartbeats stopped" : "no heartbeat came",
                      (unsigned)(((r->info[r->rank].port & 0xff) << 8) | r->info[r->rank].port >> 8),
                      r->info[r->rank].host,
                      g->heard ? "run.timeout_s ends it if these ranks stop coming to collectives"
                               : "only run.timeout_s can end it for these ranks") == TRI_OK)
    warn("unheard_node", &r->info[g->member[0]], NULL, 0, words.data);
  tri_text_free(&words);
}

/* Nobody listens at its port, and nothing comes from it. Warns at once, because a launcher that kills all
 * ranks names none. A firewall can cause this too, so it is only a warning. */
static void warn_refused(tri_group *g) {
  if (g->warned || !g->refused || w.now_s - g->heard_s < 1.5 * w.period_s) return;
  g->warned = true;
  warn("closed_port", &w.members->info[g->member[0]], NULL, 0,
       ": its port is closed, so it seems to have died");
}

/* Warns once for each machine. */
static void warn_asked(tri_group *g) {
  if (!g->by_tcp || g->told) return;
  g->told = true;
  warn("beats_by_tcp", &w.members->info[g->member[0]], NULL, 0,
       g->n > 1 ? " and the others of its machine: its heartbeats by UDP stopped, but it answers by TCP"
                : ": its heartbeats by UDP stopped, but it answers by TCP");
}

static void look_after_groups(void) {
  for (int g = 1; g < w.members->n_groups; g++) {
    tri_group *its = &w.members->group[g];
    if (tri_members_has_ended(its, w.members->seen)) continue;
    warn_refused(its);
    warn_asked(its);
    if (w.now_s - its->heard_s > w.silent_s / (its->heard ? 1 : 2) + its->heard * 5) warn_unheard(its);
  }
}

static void judge(void) {
  tri_members *r = w.members;
  tri_limits   limit = limits_here();
  tri_verdict  v;

  tri_members_meet(r, w.now_s, lost_part * w.silent_s);
  tri_members_mute(r, w.now_s, quiet_part * w.silent_s);
  v = tri_peers_detect(r->info, r->seen, r->n, &limit, w.now_s);
  if (v.kind != TRI_VERDICT_NOTHING) {
    end_run(&limit, &v);
    return;
  }
  warn_overdue();
  if (r->mine != 0) return;
  warn_slow();
  look_after_groups();
}

/* ---- heartbeats ---- */

static void report(void) {
  const tri_group *root = &w.members->group[0];
  tri_wire         out = {.kind = TRI_WIRE_REPORT, .sender = w.members->rank};
  unsigned char    bytes[TRI_WIRE_BYTES];

  for (int next = 0, n = w.members->group[w.members->mine].n; next < n;) {
    tri_members_fill(w.members, &next, &out);
    out.sequence = ++w.sequence;
    for (int i = 0; i < root->n && i < HEARERS; i++)
      send_to(root->member[i], bytes, tri_wire_write(&out, w.key, bytes));
  }
}

static void answer(void) {
  tri_wire      out = {.kind = TRI_WIRE_HEARD, .sender = w.members->rank, .sequence = ++w.sequence};
  unsigned char bytes[TRI_WIRE_BYTES];
  int           next = 0;
  size_t        n;

  tri_members_fill(w.members, &next, &out);
  n = tri_wire_write(&out, w.key, bytes);
  for (int g = 1; g < w.members->n_groups; g++)
    if (w.members->group[g].heard) tri_net_send(w.fd, &w.members->group[g].at, bytes, n);
}

static void heartbeat(bool at_once) {
  if (w.members->n_groups == 1 || (!at_once && w.now_s - w.sent_s < w.period_s)) return;
  w.sent_s = w.now_s;
  if (w.members->mine == 0)
    answer();
  else
    report();
}

static void listen_to_others(void) {
  unsigned char bytes[TRI_WIRE_BYTES];
  tri_net_end   from;
  tri_wire      in;
  size_t        n;
  int           g;

  if (w.fd < 0) return;
  while (tri_net_refused(w.fd, &from))
    if (from.port && (g = tri_members_find(w.members, &from)) > 0) w.members->group[g].refused = true;
  while ((n = tri_net_receive(w.fd, bytes, sizeof bytes, &from)) > 0)
    if (tri_wire_read(bytes, n, w.key, w.members->n, &in) &&
        tri_members_take(w.members, &in, &from, w.now_s) && in.kind == TRI_WIRE_END)
      end_late();
}

/* ---- the thread ---- */

/* Time in which this process did not run does not count, for example when all ranks were stopped together. */
static double pass_time(void) {
  double real_s = tri_now_s(), passed_s = real_s - w.real_s;

  if (passed_s > 8 * w.tick_s) passed_s = 8 * w.tick_s;
  w.real_s = real_s;
  w.now_s += passed_s;
  return passed_s;
}

static void look(void) {
  tri_heartbeat mine = make_heartbeat(pass_time());
  bool          news, speaks;

  if (w.ends) return;
  if (!atomic_load(&w.joined)) {
    if (mine.scope != TRI_RANK_STATUS_NOWHERE) warn_start(mine.waited_s);
    if (mine.scope != TRI_RANK_STATUS_NOWHERE && mine.waited_s > w.opt.timeout_s) end_alone();
    return;
  }
  if (!w.began) tri_members_begin(w.members, w.now_s);
  w.began = true;
  mine.rank = w.members->rank;
  tri_node_put(w.members->node, w.members->place, &mine);
  news = tri_members_look(w.members, w.now_s, overdue_part * w.silent_s);
  listen_to_others();
  if (tri_node_is_claimed(w.members->node)) end_late();
  speaks = tri_members_speaks(w.members, w.now_s, w.silent_s / 8);
  tri_ask_look(w.ask, w.now_s, speaks && mine.life == TRI_LIFE_WORKS);
  if (w.ends || !speaks) return;
  heartbeat(news || mine.life == TRI_LIFE_ENDS);
  if (mine.life == TRI_LIFE_WORKS) judge();
}

/* Waits until the next look is due. Datagrams that arrive meanwhile are read at once. */
static void rest(double until_s) {
  while (!atomic_load(&w.stops)) {
    bool          joined = w.began;
    double        left_s = until_s - tri_now_s();
    struct pollfd at[2] = {{.fd = w.wake, .events = POLLIN}, {.fd = joined ? w.fd : -1, .events = POLLIN}};
    if (left_s <= 0 || (poll(at, 2, (int)(left_s * 1e3) + 1) < 0 && errno != EINTR)) return;
    if (at[0].revents) return;
    if (joined && at[1].revents) listen_to_others();
  }
}

static void *run(void *nothing) {
  uint64_t told;

  while (!atomic_load(&w.stops)) {
    look();
    rest(tri_now_s() + w.tick_s);
    if (read(w.wake, &told, sizeof told) < 0) continue; /* no wake-up was sent */
  }
  look();
  return nothing;
}

/* ---- open, close ---- */

static double between(double x, double least, double most) { return x < least ? least : x > most ? most : x; }

/* Blocks all signals in the thread, since the main thread handles them. */
static tri_status start_thread(void) {
  sigset_t all, before;
  int      e;

  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  e = pthread_create(&w.thread, NULL, run, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (e) TRI_FAIL(TRI_ENOMEM, "the thread of the monitor cannot be started: %s", strerror(e));
  w.runs = true;
  return TRI_OK;
}

tri_status tri_peers_open(const tri_peers_opt *opt) {
  TRI_ASSERT(!w.runs && opt->timeout_s > 0 && opt->end && opt->end_late);
  memset(&w, 0, sizeof w);
  w.opt = *opt;
  w.silent_s = opt->timeout_s < silent_most_s ? opt->timeout_s : silent_most_s;
  w.tick_s = between(w.silent_s / TICKS_A_LOSS, tick_least_s, tick_most_s);
  w.real_s = tri_now_s();
  w.fd = w.listen = -1;
  w.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (w.wake < 0 || start_thread() != TRI_OK) {
    if (w.wake >= 0) close(w.wake);
    w.wake = -1;
    TRI_FAIL(TRI_ENOMEM, "the ranks are not monitored: %s", strerror(errno));
  }
  return TRI_OK;
}

void tri_peers_describe(tri_rank_info *mine) {
  tri_memory_limit limit;
  struct stat      sb;

  mine->pid = (int32_t)getpid();
  mine->start = tri_proc_start(getpid());
  mine->pid_space = stat("/proc/self/ns/pid", &sb) ? 0 : (uint64_t)sb.st_ino;
  mine->memory_limit_bytes = tri_memory_limit_find("", 0, &limit) ? (uint64_t)limit.bytes : 0;
  if (!w.runs) return;
  if (tri_net_open(&w.fd, &w.listen, &mine->port) != TRI_OK) {
    tri_warn("not_watched", "%s. Other nodes do not monitor this rank", tri_error_message());
    tri_error_clear();
  }
  tri_net_addresses(mine->address);
}

static void wake(void) {
  uint64_t one = 1;

  if (write(w.wake, &one, sizeof one) < 0) return; /* it is awake already */
}

tri_status tri_peers_join(const tri_rank_info *info, int n, int rank, const unsigned char key[TRI_KEY_BYTES],
                          tri_node **node, int place) {
  tri_node   *taken = *node;
  tri_ask_opt ask = {.key = w.key,
                     .sequence = &w.sequence,
                     .listen = w.listen,
                     .quiet_s = quiet_part * w.silent_s,
                     .answer_s = answer_part * w.silent_s};

  *node = NULL;
  if (!w.runs) tri_node_close(&taken);
  if (!w.runs) return TRI_OK;
  TRI_TRY(tri_members_open(info, n, rank, taken, place, &w.members));
  ask.members = w.members;
  TRI_TRY(tri_ask_open(&ask, &w.ask));
  memcpy(w.key, key, sizeof w.key);
  w.period_s =
      between(w.tick_s * (1 + w.members->n_groups / GROUPS_A_TICK), w.tick_s, w.silent_s / HEARTBEATS_A_LOSS);
  atomic_store(&w.joined, true);
  wake();
  return TRI_OK;
}

void tri_peers_leave(void) {
  atomic_store(&w.leaves, true);
  if (atomic_load(&w.joined)) tri_node_end(w.members->node, w.members->place);
}

void tri_peers_close(void) {
  if (!w.runs) return;
  tri_peers_leave();
  atomic_store(&w.stops, true);
  wake();
  pthread_join(w.thread, NULL);
  w.runs = false;
  atomic_store(&w.joined, false);
  tri_ask_close(&w.ask);
  tri_members_close(&w.members);
  if (w.fd >= 0) close(w.fd);
  if (w.listen >= 0) close(w.listen);
  close(w.wake);
  w.fd = w.listen = w.wake = -1;
}

bool   tri_peers_end(void) { return atomic_load(&w.ends); }
double tri_peers_timeout_s(void) { return w.runs ? w.opt.timeout_s : 0; }
