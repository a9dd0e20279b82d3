/* ask.c - asks a silent machine over TCP. A request carries an authentication code under the run's key and
 * names one rank. Each request is answered once. The answer is a series of heartbeats, up to the end of the
 * connection. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "ask.h"

#include "base/host_memory.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Chosen: further requests wait for their turn. */
enum { MOST_ASKED = 64, MOST_ASKING = 16 };

typedef struct asked {
  int           fd, group, rank; /* fd -1: unused */
  uint64_t      sequence;
  double        since_s;
  bool          sent, answered;
  size_t        have;
  unsigned char bytes[TRI_WIRE_BYTES];
} asked;

typedef struct asking {
  int           fd;
  double        since_s;
  size_t        have;
  unsigned char bytes[TRI_WIRE_BYTES];
} asking;

struct tri_ask {
  tri_ask_opt opt;
  asked       out[MOST_ASKED];
  asking      in[MOST_ASKING];
  uint64_t   *newest; /* [ranks] newest request of each. An older one is a copy */
};

tri_status tri_ask_open(const tri_ask_opt *opt, tri_ask **out) {
  tri_ask *a;

  *out = NULL;
  TRI_TRY(TRI_ALLOC(a, 1));
  if (TRI_ALLOC(a->newest, opt->members->n) != TRI_OK) {
    TRI_FREE(a);
    return TRI_ENOMEM;
  }
  *out = a;
  a->opt = *opt;
  for (int i = 0; i < MOST_ASKED; i++) (*out)->out[i].fd = -1;
  for (int i = 0; i < MOST_ASKING; i++) (*out)->in[i].fd = -1;
  return TRI_OK;
}

void tri_ask_close(tri_ask **a) {
  if (!*a) return;
  for (int i = 0; i < MOST_ASKED; i++)
    if ((*a)->out[i].fd >= 0) close((*a)->out[i].fd);
  for (int i = 0; i < MOST_ASKING; i++)
    if ((*a)->in[i].fd >= 0) close((*a)->in[i].fd);
  TRI_FREE((*a)->newest);
  TRI_FREE(*a);
}

/* Receives more bytes of a stream. False: the stream has ended. */
static bool take_bytes(int fd, unsigned char *bytes, size_t most, size_t *have) {
  while (*have < most) {
    ssize_t n = recv(fd, bytes + *have, most - *have, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN)) return true;
    if (n <= 0) return false;
    *have += (size_t)n;
  }
  return true;
}

/* ---- those who ask ---- */

/* Sends what this machine's heartbeats would report. Stops if the system's send buffer is full. */
static void answer(tri_ask *a, int fd) {
  const tri_members *r = a->opt.members;
  bool               root = r->mine == 0;
  tri_wire           out = {.kind = root ? TRI_WIRE_HEARD : TRI_WIRE_REPORT, .sender = r->rank};
  unsigned char      bytes[TRI_WIRE_BYTES];
  int                next = 0;

  do {
    tri_members_fill(r, &next, &out);
    out.sequence = ++*a->opt.sequence;
    size_t n = tri_wire_write(&out, a->opt.key, bytes);
    if (send(fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)n) return;
  } while (!root && next < r->group[r->mine].n);
}

/* Tests for a new request to this rank. */
static bool is_question(tri_ask *a, const asking *x) {
  tri_wire w;

  if (x->have != TRI_WIRE_HEAD_BYTES ||
      !tri_wire_read(x->bytes, x->have, a->opt.key, a->opt.members->n, &w) || w.kind != TRI_WIRE_ASK ||
      w.to != a->opt.members->rank || w.sequence <= a->newest[w.sender])
    return false;
  a->newest[w.sender] = w.sequence;
  return true;
}

static void go_on_answering(tri_ask *a, asking *x, double now_s) {
  bool open = take_bytes(x->fd, x->bytes, TRI_WIRE_HEAD_BYTES, &x->have);

  if (open && x->have < TRI_WIRE_HEAD_BYTES && now_s - x->since_s < a->opt.answer_s) return;
  if (is_question(a, x)) answer(a, x->fd);
  close(x->fd);
  x->fd = -1;
}

static void answer_all(tri_ask *a, double now_s) {
  for (int i = 0; i < MOST_ASKING; i++) {
    asking *x = &a->in[i];
    if (x->fd < 0 && (x->fd = tri_net_accept(a->opt.listen)) < 0) continue;
    if (x->since_s <= 0) x->since_s = now_s;
    go_on_answering(a, x, now_s);
    if (x->fd < 0) *x = (asking){.fd = -1};
  }
}

/* ---- those who are asked ---- */

static void end_question(tri_ask *a, asked *x) {
  tri_group *g = &a->opt.members->group[x->group];

  if (!x->answered) g->unanswered++;
  g->is_asked = false;
  if (x->fd >= 0) close(x->fd);
  *x = (asked){.fd = -1};
}

/* Takes whole heartbeats. The beginning of another may follow them. */
static bool take_answers(tri_ask *a, asked *x, double now_s) {
  tri_members *r = a->opt.members;
  tri_wire     w;

  while (x->have >= TRI_WIRE_HEAD_BYTES) {
    size_t n = tri_wire_bytes(x->bytes);
    if (!n) return false;
    if (x->have < n) return true;
    if (!tri_wire_read(x->bytes, n, a->opt.key, r->n, &w) || r->group_of[w.sender] != x->group ||
        w.kind == TRI_WIRE_END || w.kind == TRI_WIRE_ASK)
      return false;
    tri_net_end at = r->group[x->group].at; /* its UDP heartbeats, if any, keep this address */
    if (tri_members_take(r, &w, &at, now_s)) x->answered = r->group[x->group].by_tcp = true;
    x->have -= n;
    memmove(x->bytes, x->bytes + n, x->have);
  }
  return true;
}

static void go_on_asking(tri_ask *a, asked *x, double now_s) {
  tri_wire w = {.kind = TRI_WIRE_ASK, .sender = a->opt.members->rank, .to = x->rank, .sequence = x->sequence};
  unsigned char bytes[TRI_WIRE_BYTES];
  size_t        n = tri_wire_write(&w, a->opt.key, bytes);
  ssize_t       sent = x->sent ? (ssize_t)n : send(x->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
  bool          open = sent == (ssize_t)n ||
              (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN || errno == EINTR));

  x->sent = sent == (ssize_t)n;
  while (open && x->sent) {
    size_t before = x->have;
    bool   more = take_bytes(x->fd, x->bytes, sizeof x->bytes, &x->have);
    open = take_answers(a, x, now_s) && more;
    if (x->have == before || x->have < sizeof x->bytes) break;
  }
  if (!open || now_s - x->since_s > a->opt.answer_s) end_question(a, x);
}

static asked *find_place(tri_ask *a) {
  for (int i = 0; i < MOST_ASKED; i++)
    if (a->out[i].fd < 0) return &a->out[i];
  return NULL;
}

/* Asks the next rank of the group, because the first may be stopped. */
static void ask(tri_ask *a, int group, asked *x, double now_s) {
  tri_members *r = a->opt.members;
  tri_group   *g = &r->group[group];
  int          rank = g->member[g->turn++ % g->n];
  tri_net_end  to = {.port = r->info[rank].port};

  memcpy(to.address, g->at.address, sizeof to.address);
  *x = (asked){.fd = tri_net_connect(&to),
               .group = group,
               .rank = rank,
               .sequence = ++*a->opt.sequence,
               .since_s = now_s};
  g->is_asked = true;
  if (x->fd < 0) end_question(a, x);
}

static void ask_quiet(tri_ask *a, double now_s) {
  tri_members *r = a->opt.members;
  asked       *x;

  for (int g = 0; g < r->n_groups; g++) {
    tri_group *its = &r->group[g];
    if (g == r->mine || (r->mine != 0 && g != 0) || !its->heard || its->lost || its->is_asked ||
        now_s - its->heard_s < a->opt.quiet_s || tri_members_has_ended(its, r->seen))
      continue;
    if (!(x = find_place(a))) return;
    ask(a, g, x, now_s);
  }
}

void tri_ask_look(tri_ask *a, double now_s, bool begin) {
  answer_all(a, now_s);
  for (int i = 0; i < MOST_ASKED; i++)
    if (a->out[i].fd >= 0) go_on_asking(a, &a->out[i], now_s);
  if (begin) ask_quiet(a, now_s);
}
