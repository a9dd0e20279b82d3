/* rendezvous_monitor.c - tracks the stage of each rank and finds the ranks that hold up the others. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/host_memory.h"
#include "rendezvous_impl.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static const double send_s = 2, answer_s = 1; /* chosen */

static void enter(tri_rendezvous *m, int task, int stage, const char *name) {
  m->member[task].stage = stage;
  snprintf(m->member[task].name, sizeof m->member[task].name, "%s", name);
  m->progress_s = tri_now_s();
  m->asked_s = 0;
}

void tri_rendezvous_tell(tri_rendezvous *m, tri_channel_kind kind, const void *bytes, size_t n) {
  pthread_mutex_lock(&m->lock);
  if (m->hub.fd >= 0 && !tri_channel_send(&m->hub, kind, bytes, n, tri_now_s() + send_s))
    shutdown(m->hub.fd, SHUT_RDWR);
  pthread_mutex_unlock(&m->lock);
}

void tri_rendezvous_hear(tri_rendezvous *m, int task, const tri_channel_in *in) {
  int32_t number;

  if (in->head.kind == TRI_CHANNEL_STAGE && in->head.bytes > sizeof number) {
    memcpy(&number, in->bytes, sizeof number);
    enter(m, task, number, in->bytes + sizeof number); /* a NUL is behind it (channel.c) */
  }
  if (in->head.kind == TRI_CHANNEL_FAILED && !m->member[task].failed &&
      tri_copy_text(in->bytes, &m->member[task].failed) != TRI_OK)
    tri_error_clear();
}

void tri_rendezvous_stage(tri_rendezvous *m, const char *stage) {
  char    bytes[sizeof(int32_t) + TRI_RENDEZVOUS_STAGE_BYTES] = "";
  int32_t number = stage ? ++m->stage : INT32_MAX;

  memcpy(bytes, &number, sizeof number);
  snprintf(bytes + sizeof number, TRI_RENDEZVOUS_STAGE_BYTES, "%s", stage ? stage : "");
  if (!m->member) {
    tri_rendezvous_tell(m, TRI_CHANNEL_STAGE, bytes, sizeof bytes);
    return;
  }
  pthread_mutex_lock(&m->lock);
  enter(m, 0, number, stage ? stage : "");
  pthread_mutex_unlock(&m->lock);
}

void tri_rendezvous_fail(tri_rendezvous *m, const char *message) {
  size_t n = strlen(message) < TRI_CHANNEL_MOST_BYTES ? strlen(message) : TRI_CHANNEL_MOST_BYTES;

  if (!m->member) {
    tri_rendezvous_tell(m, TRI_CHANNEL_FAILED, message, n);
    return;
  }
  pthread_mutex_lock(&m->lock);
  if (!m->member[0].failed && tri_copy_text(message, &m->member[0].failed) != TRI_OK) tri_error_clear();
  pthread_mutex_unlock(&m->lock);
}

void tri_rendezvous_monitor(tri_rendezvous *m, tri_rendezvous_on_hang call, void *ctx) {
  pthread_mutex_lock(&m->lock);
  m->on_hang = call;
  m->ctx = ctx;
  m->progress_s = tri_now_s();
  pthread_mutex_unlock(&m->lock);
}

/* Finds a failed or vanished rank, else all ranks in the earliest stage. task [tasks]. Returns their
 * number. */
static int find_last(const tri_rendezvous *m, int *task, tri_rendezvous_hang *out) {
  int n = 0, least = INT32_MAX, tasks = m->launch->hub[0] && !m->trust.off ? m->launch->tasks : 1;

  out->reason = NULL;
  for (int t = 0; t < tasks; t++) {
    const tri_member *x = &m->member[t];
    if (x->failed || (x->gone && x->stage < INT32_MAX)) {
      task[0] = t;
      out->reason = x->failed ? x->failed : "its program has ended";
      out->failed = x->failed != NULL;
      return 1;
    }
    if (x->stage < least) least = x->stage;
  }
  if (least == INT32_MAX) return 0;
  for (int t = 0; t < tasks; t++)
    if (m->member[t].stage == least) task[n++] = t;
  return n;
}

/* Asks ranks without progress whether they still run. */
static void ask(tri_rendezvous *m, const int *task, int n) {
  for (int i = 0; i < n; i++) {
    tri_member *x = &m->member[task[i]];
    x->answered = task[i] == 0;
    if (x->channel && !tri_channel_send(x->channel, TRI_CHANNEL_CLOCK, NULL, 0, tri_now_s()))
      x->answered = false;
  }
  m->asked_s = tri_now_s();
}

/* Keeps only the ranks without an answer. Returns their number. */
static int keep_silent(const tri_rendezvous *m, int *task, int n) {
  int silent = 0;

  for (int i = 0; i < n; i++)
    if (!m->member[task[i]].answered) task[silent++] = task[i];
  return silent;
}

/* Finds the ranks to report, with the lock held. Returns false if there is none. */
static bool judge(tri_rendezvous *m, int *task, tri_rendezvous_hang *out) {
  double now_s = tri_now_s();

  out->n = find_last(m, task, out);
  if (!out->n || out->reason) return out->n > 0;
  if (now_s - m->progress_s <= m->patience_s) return false;
  if (m->asked_s <= 0) ask(m, task, out->n);
  if (now_s - m->asked_s <= answer_s) return false;
  int silent = keep_silent(m, task, out->n);
  if (silent) {
    out->n = silent;
    out->reason = "its process is stopped, or its node or network is gone";
  }
  return true;
}

void tri_rendezvous_poll(tri_rendezvous *m) {
  tri_rendezvous_hang    hang = {0};
  tri_rendezvous_on_hang call = NULL;
  char                   name[TRI_RENDEZVOUS_STAGE_BYTES] = "", reason[512] = "";
  int                   *task = NULL;

  if (!m->member) return;
  pthread_mutex_lock(&m->lock);
  if (m->on_hang && TRI_ALLOC(task, m->launch->tasks) == TRI_OK && judge(m, task, &hang)) {
    call = m->on_hang;
    m->on_hang = NULL;
    memcpy(name, m->member[task[0]].name, sizeof name);
    if (hang.reason) snprintf(reason, sizeof reason, "%s", hang.reason);
  }
  pthread_mutex_unlock(&m->lock);
  if (call) {
    hang.task = task;
    hang.stage = name;
    if (hang.reason) hang.reason = reason;
    call(m->ctx, &hang);
  }
  TRI_FREE(task);
}
