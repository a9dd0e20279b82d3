/* runlog.c - writes the events of a run to OUTPUT/run.jsonl as whole JSON lines, by rank 0 or for it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* for dup3 */
#include "runlog.h"

#include "base/clock.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/visible.h"
#include "io/text/json_text.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  VERSION = 1,
  TEXT_BYTES = 4096,       /* bytes of a text for people. Chosen, the size of a message */
  ALARMS_MOST = 1000,      /* alarms of a start. Chosen, as many as readers keep (history_impl.h) */
  EARLY_BYTES = 64 << 10,  /* bytes of alarms before the start. Chosen, as log.c keeps of its lines */
  WAITING_BYTES = 1 << 20, /* bytes of lines waiting for a full disk. Chosen */
  PHASE_BYTES = 32,        /* bytes of a phase's word. Chosen */
  TAG_BYTES = 64           /* bytes of TRI_START. Chosen */
};

struct tri_runlog {
  char           *output, *path;
  int             rank;
  atomic_int      fd;         /* rank 0's file from the start on, else -1 */
  bool            started;    /* tri_runlog_start was called in this process */
  atomic_bool     claimed;    /* the output folder belongs to this start. Read by urgent notices */
  bool            carries_on; /* the folder's run.jsonl is this run's */
  pthread_mutex_t lock;       /* protects all members below */
  tri_text        early;      /* alarms from before the start */
  tri_text        waiting;    /* lines not yet in the file */
  tri_text        start;      /* rank 0's start line, for a folder that is made again */
  bool            warned;     /* about waiting lines */
  atomic_llong    step;       /* step for alarms. Read by urgent ones too */
  atomic_llong    n_alarms;   /* from all threads */
  int64_t         state_step;
  char            phase[PHASE_BYTES]; /* last phase written */
  char            tag[TAG_BYTES];
};

/* True while this thread writes. A warning about this write is no event. */
static _Thread_local bool is_writing;

/* ---- lines ---- */

/* Writes any text as JSON, with control characters made visible (newlines stay), and cut. */
static tri_status put_text(tri_text *t, const char *text) {
  char shown[TEXT_BYTES];

  return tri_json_put_string(t, shown, tri_visible(text, strlen(text), "\n", shown, sizeof shown));
}

/* Writes null if text is NULL. */
static tri_status put_member(tri_text *t, const char *name, const char *text) {
  TRI_TRY(tri_text_printf(t, ", \"%s\": ", name));
  return text ? put_text(t, text) : tri_text_put(t, "null", 4);
}

static tri_status put_number(tri_text *t, const char *name, double x) {
  TRI_TRY(tri_text_printf(t, ", \"%s\": ", name));
  return tri_json_put_double(t, x);
}

/* Writes null if n is below 0. */
static tri_status put_count(tri_text *t, const char *name, int64_t n) {
  return n < 0 ? tri_text_printf(t, ", \"%s\": null", name)
               : tri_text_printf(t, ", \"%s\": %lld", name, (long long)n);
}

static tri_status begin_line(tri_text *t, const char *event) {
  return tri_text_printf(t, "{\"v\": %d, \"time_unix_s\": %.3f, \"event\": \"%s\"", VERSION, tri_unix_s(),
                         event);
}

/* Writes the name of this start, if its starter gave one. */
static tri_status put_tag(const tri_runlog *l, tri_text *t) {
  return l->tag[0] ? put_member(t, "tag", l->tag) : TRI_OK;
}

/* ---- writing ---- */

/* True if the file ends in the middle of a line. */
static bool is_cut(const char *path) {
  char        last = '\n';
  struct stat sb;
  int         fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

  if (fd < 0) return false;
  if (!fstat(fd, &sb) && S_ISREG(sb.st_mode) && sb.st_size > 0 && pread(fd, &last, 1, sb.st_size - 1) != 1)
    last = '\n';
  close(fd);
  return last != '\n';
}

/* Writes the waiting lines, with the lock held. Ends a half line of another rank or of an urgent one first.
 * Warns once if it cannot write. */
static void flush(tri_runlog *l) {
  tri_status st;

  if (l->fd < 0 || !l->waiting.len) return;
  st = is_cut(l->path) ? tri_file_put_end(l->fd, l->path, "\n", 1) : TRI_OK;
  if (st == TRI_OK) st = tri_file_put_end(l->fd, l->path, l->waiting.data, l->waiting.len);
  if (st == TRI_OK) {
    l->waiting.len = 0;
    return;
  }
  if (!l->warned)
    tri_log(TRI_LOG_WARN, "%s: the run continues, but its events wait in memory: %s", l->path,
            tri_error_message());
  l->warned = true;
}

/* True if there is space for a line of this many bytes after the waiting ones. The first waiting line always
 * has space, because the start of a run on many nodes is long. */
static bool has_space(const tri_runlog *l, const tri_text *to, size_t bytes) {
  return to->len == 0 || to->len + bytes <= (l->started ? WAITING_BYTES : EARLY_BYTES);
}

/* Writes and frees the line, which may be several lines. `made` is the status of making it. Keeps the
 * caller's error. */
static void add_line(tri_runlog *l, tri_text *line, tri_status made) {
  tri_error_kept error;
  tri_text      *to;

  tri_error_keep(&error);
  is_writing = true;
  pthread_mutex_lock(&l->lock);
  to = l->started ? &l->waiting : &l->early;
  flush(l); /* writes waiting lines first if it can, and so frees space */
  if (made == TRI_OK && has_space(l, to, line->len) && tri_text_put(to, line->data, line->len) != TRI_OK)
    tri_error_clear(); /* out of memory for an event, the run continues */
  flush(l);
  pthread_mutex_unlock(&l->lock);
  is_writing = false;
  tri_text_free(line);
  tri_error_put_back(&error);
}

/* True if a run holds the output folder, and this start has not claimed it. Always false on a file system
 * without locks. */
static bool is_anothers(const tri_runlog *l) {
  int  fd;
  bool held;

  if (l->claimed || l->started) return false;
  fd = open(l->output, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  held = flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
  close(fd);
  return held;
}

/* Writes a line at once and without the lock, because other threads may hang. The line begins with a
 * newline if another line was cut. Rank 0's file is open. Another rank's verdict may be the first line of
 * the file. */
static void write_urgent(tri_runlog *l, const tri_text *line) {
  int  fd = l->fd, own = -1;
  bool cut = is_cut(l->path);

  if (is_anothers(l)) return;
  if (fd < 0) {
    if (mkdir(l->output, 0777) && errno != EEXIST) return;
    own = fd =
        open(l->path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
  }
  if (fd >= 0 && write(fd, cut ? line->data : line->data + 1, line->len - !cut) < 0)
    errno = 0; /* nobody is left to tell */
  if (own >= 0) close(own);
}

/* ---- alarms and verdicts ---- */

static tri_status put_numbers(tri_text *t, const tri_notice *n) {
  TRI_TRY(tri_text_printf(t, ", \"numbers\": {"));
  for (int i = 0; i < n->n_number; i++) {
    TRI_TRY(tri_text_printf(t, "%s\"%s\": ", i ? ", " : "", n->number[i].name));
    TRI_TRY(tri_json_put_double(t, n->number[i].value));
  }
  return tri_text_put(t, "}", 1);
}

static tri_status make_alarm(const tri_notice *n, int64_t step, tri_text *t) {
  TRI_TRY(begin_line(t, "alarm"));
  TRI_TRY(put_member(t, "code", n->code));
  if (n->of) TRI_TRY(put_member(t, "of", n->of));
  TRI_TRY(put_count(t, "step", n->step >= 0 ? n->step : step));
  TRI_TRY(put_numbers(t, n));
  TRI_TRY(put_member(t, "text", n->text));
  return tri_text_put(t, "}\n", 2);
}

static tri_status make_verdict(const tri_runlog *l, const tri_notice *n, tri_text *t) {
  TRI_TRY(begin_line(t, "verdict"));
  TRI_TRY(put_tag(l, t));
  TRI_TRY(put_count(t, "rank", n->rank));
  TRI_TRY(put_member(t, "node", n->node));
  TRI_TRY(put_member(t, "cause", n->code));
  TRI_TRY(put_numbers(t, n));
  TRI_TRY(put_member(t, "text", n->text));
  return tri_text_put(t, "}\n", 2);
}

/* Writes a notice of the thread that watches the ranks. Nobody reads that thread's errors. */
static void take_urgent(tri_runlog *l, const tri_notice *n) {
  tri_text line = {0};

  if (tri_text_put(&line, "\n", 1) == TRI_OK &&
      (n->kind == TRI_NOTICE_VERDICT ? make_verdict(l, n, &line) : make_alarm(n, l->step, &line)) == TRI_OK)
    write_urgent(l, &line);
  tri_text_free(&line);
}

static void take_notice(void *ctx, const tri_notice *n) {
  tri_runlog    *l = ctx;
  tri_text       line = {0};
  tri_error_kept error;
  tri_status     st;

  if (is_writing || (l->rank != 0 && n->kind != TRI_NOTICE_VERDICT)) return;
  tri_error_keep(&error);
  if (n->urgent && (n->kind == TRI_NOTICE_VERDICT || l->fd >= 0)) {
    take_urgent(l, n);
  } else if (l->n_alarms++ < ALARMS_MOST) {
    tri_notice last = {.kind = TRI_NOTICE_WARNING,
                       .code = "too_many_alarms",
                       .text =
                           "this start has too many warnings. No more are written here, but log.txt has all.",
                       .step = n->step};
    st = make_alarm(l->n_alarms == ALARMS_MOST ? &last : n, l->step, &line);
    add_line(l, &line, st);
  }
  tri_error_put_back(&error);
}

/* ---- open, close ---- */

tri_status tri_runlog_open(const char *output, int rank, tri_runlog **out) {
  tri_status  st = TRI_OK;
  tri_runlog *l = NULL;
  const char *tag = getenv("TRI_START");
  tri_text    path = {0};

  *out = NULL;
  TRI_TRY(TRI_ALLOC(l, 1));
  l->fd = -1;
  l->rank = rank;
  l->step = -1;
  l->state_step = -1;
  pthread_mutex_init(&l->lock, NULL);
  if (tag) tri_visible(tag, strlen(tag), "", l->tag, sizeof l->tag);
  TRI_TRY_DONE(tri_text_printf(&path, "%s/run.jsonl", output));
  TRI_TRY_DONE(tri_copy_text(path.data, &l->path));
  TRI_TRY_DONE(tri_copy_text(output, &l->output));
  tri_notice_listen(take_notice, l);
  *out = l;
done:
  tri_text_free(&path);
  if (st != TRI_OK) tri_runlog_close(&l);
  return st;
}

void tri_runlog_close(tri_runlog **log) {
  tri_runlog *l = *log;

  if (!l) return;
  tri_notice_listen(NULL, NULL);
  if (l->fd >= 0) close(l->fd);
  pthread_mutex_destroy(&l->lock);
  tri_text_free(&l->early);
  tri_text_free(&l->waiting);
  tri_text_free(&l->start);
  TRI_FREE(l->output);
  TRI_FREE(l->path);
  TRI_FREE(*log);
}

/* ---- the start ---- */

static const char *const phase_word[] = {
    [TRI_PHASE_ALWAYS] = "always", [TRI_PHASE_ROLLOUT] = "rollout", [TRI_PHASE_LEARN] = "learn"};
static const char *const where_word[] = {
    [TRI_MEM_DEVICE] = "device", [TRI_MEM_PINNED] = "pinned", [TRI_MEM_HOST] = "host"};

static tri_status put_memory(const tri_runlog_begin *b, tri_text *t) {
  TRI_TRY(tri_text_printf(t, ", \"memory\": ["));
  for (int i = 0; i < b->n_memory; i++) {
    const tri_ledger_row *r = &b->memory[i];
    TRI_TRY(tri_text_printf(t, "%s{\"name\": ", i ? ", " : ""));
    TRI_TRY(put_text(t, r->name));
    TRI_TRY(tri_text_printf(t, ", \"phase\": \"%s\", \"where\": \"%s\", \"bytes\": %lld}",
                            phase_word[r->phase], where_word[r->kind], (long long)r->bytes));
  }
  return tri_text_put(t, "]", 1);
}

static tri_status put_model(const tri_runlog_begin *b, tri_text *t) {
  TRI_TRY(tri_text_printf(t, ", \"model\": {\"type\": "));
  TRI_TRY(put_text(t, b->model_type));
  TRI_TRY(put_count(t, "parameters", b->parameters));
  TRI_TRY(put_count(t, "layers", b->layers));
  TRI_TRY(put_count(t, "width", b->width));
  TRI_TRY(put_count(t, "vocabulary", b->vocabulary));
  TRI_TRY(put_member(t, "dtype", b->dtype));
  return tri_text_put(t, "}", 1);
}

/* Writes the members of the record, a non-empty object, without its braces. */
static tri_status put_record(const char *record, tri_text *t) {
  size_t n = strlen(record);

  TRI_ASSERT(n > 2 && record[0] == '{' && record[n - 1] == '}');
  TRI_TRY(tri_text_put(t, ", ", 2));
  return tri_text_put(t, record + 1, n - 2);
}

static tri_status make_start(const tri_runlog *l, const tri_runlog_begin *b, tri_text *t) {
  TRI_TRY(begin_line(t, "start"));
  TRI_TRY(put_tag(l, t));
  TRI_TRY(put_member(t, "algo", b->algo));
  TRI_TRY(put_count(t, "step", b->step));
  TRI_TRY(put_count(t, "steps", b->steps));
  TRI_TRY(tri_text_printf(t, ", \"plan\": {\"params\": \"%s\", \"grads\": \"%s\", \"optimizer\": \"%s\"}",
                          b->params, b->grads, b->optimizer));
  TRI_TRY(put_model(b, t));
  TRI_TRY(put_member(t, "loss", b->loss));
  TRI_TRY(put_count(t, "nodes", b->nodes));
  TRI_TRY(put_memory(b, t));
  TRI_TRY(tri_text_printf(t, ", \"deck_hash\": \"%016llx\"",
                          (unsigned long long)tri_hash64(b->deck, strlen(b->deck), 0)));
  TRI_TRY(put_member(t, "resumed_from", b->resumed_from && b->resumed_from[0] ? b->resumed_from : NULL));
  TRI_TRY(put_record(b->record, t));
  return tri_text_put(t, "}\n", 2);
}

/* Takes the early alarms. Other threads of this rank may give notices meanwhile. */
static tri_status take_early(tri_runlog *l, int fd, tri_text *line) {
  tri_status st;

  pthread_mutex_lock(&l->lock);
  l->fd = fd;
  l->started = true;
  st = tri_text_put(line, l->early.data, l->early.len);
  tri_text_free(&l->early);
  pthread_mutex_unlock(&l->lock);
  return st;
}

tri_status tri_runlog_start(tri_runlog *l, const tri_runlog_begin *begin) {
  tri_text   line = {0};
  tri_status st = TRI_OK;
  int        fd;

  l->started = l->rank != 0;
  if (l->started) return TRI_OK;
  l->step = begin->step;
  TRI_TRY_DONE(make_start(l, begin, &line));
  l->start.len = 0;
  TRI_TRY_DONE(tri_text_put(&l->start, line.data, line.len));
  TRI_TRY_DONE(tri_file_append(l->path, &fd));
  TRI_TRY_DONE(take_early(l, fd, &line));
  add_line(l, &line, TRI_OK);
done:
  tri_text_free(&line);
  return st;
}

void tri_runlog_claim(tri_runlog *l, bool carries_on) {
  l->claimed = true;
  l->carries_on = carries_on;
}

/* Opens rank 0's file for a start that ends before its start line, and writes the kept alarms. Returns false
 * if the file cannot be opened. */
static bool begin_without_start(tri_runlog *l) {
  tri_text line = {0};
  int      fd;

  if (tri_file_append(l->path, &fd) != TRI_OK) return false;
  add_line(l, &line, take_early(l, fd, &line));
  return true;
}

/* The file descriptor's number stays the same, because a thread with an urgent line may have just read it. */
void tri_runlog_follow(tri_runlog *l) {
  struct stat sb;
  tri_text    line = {0};
  tri_status  st = TRI_OK;
  int         fd;

  if (!l || l->fd < 0) return;
  if (tri_file_append(l->path, &fd) != TRI_OK) {
    tri_error_clear();
    return;
  }
  if (!fstat(fd, &sb) && sb.st_size == 0) st = tri_text_put(&line, l->start.data, l->start.len);
  pthread_mutex_lock(&l->lock);
  (void)dup3(fd, l->fd, O_CLOEXEC); /* cannot fail for an open file */
  pthread_mutex_unlock(&l->lock);
  close(fd);
  if (st == TRI_OK && line.len) add_line(l, &line, TRI_OK);
  tri_text_free(&line);
}

/* ---- events ---- */

static bool is_written(const tri_runlog *l) { return l && l->started && l->rank == 0; }

void tri_runlog_step(tri_runlog *l, int64_t step) {
  if (l) l->step = step;
}

static tri_status make_state(const char *phase, int64_t step, const char *cause, const char *text,
                             tri_text *t) {
  TRI_TRY(begin_line(t, "state"));
  TRI_TRY(put_member(t, "phase", phase));
  TRI_TRY(put_count(t, "step", step));
  if (cause) TRI_TRY(put_member(t, "cause", cause));
  if (text) TRI_TRY(put_member(t, "text", text));
  return tri_text_put(t, "}\n", 2);
}

void tri_runlog_state(tri_runlog *l, const char *phase, int64_t step, const char *cause, const char *text) {
  tri_text   line = {0};
  tri_status st;

  if (!is_written(l) || (step == l->state_step && !strcmp(phase, l->phase))) return;
  snprintf(l->phase, sizeof l->phase, "%s", phase);
  l->state_step = step;
  st = make_state(phase, step, cause, text, &line);
  add_line(l, &line, st);
}

static tri_status make_save(int64_t step, int64_t bytes, double seconds, const char *why, tri_text *t) {
  TRI_TRY(begin_line(t, "save"));
  TRI_TRY(put_count(t, "step", step));
  TRI_TRY(put_count(t, "bytes", bytes));
  TRI_TRY(put_number(t, "seconds", seconds));
  TRI_TRY(tri_text_printf(t, ", \"ok\": %s", why ? "false" : "true"));
  TRI_TRY(put_member(t, "why", why));
  return tri_text_put(t, "}\n", 2);
}

void tri_runlog_save(tri_runlog *l, int64_t step, int64_t bytes, double seconds, const char *why) {
  tri_text   line = {0};
  tri_status st;

  if (!is_written(l)) return;
  st = make_save(step, bytes, seconds, why, &line);
  add_line(l, &line, st);
}

static tri_status make_eval(int64_t step, double seconds, const char *numbers, tri_text *t) {
  TRI_TRY(begin_line(t, "eval"));
  TRI_TRY(put_count(t, "step", step));
  TRI_TRY(put_number(t, "seconds", seconds));
  return tri_text_printf(t, ", \"numbers\": {%s}}\n", numbers);
}

void tri_runlog_eval(tri_runlog *l, int64_t step, double seconds, const tri_metrics *m) {
  tri_text   line = {0}, numbers = {0};
  tri_status st;

  if (!is_written(l)) return;
  st = tri_metrics_put_begun_by(m, "eval_", &numbers);
  if (st == TRI_OK && numbers.len) st = make_eval(step, seconds, numbers.data, &line);
  if (numbers.len) add_line(l, &line, st);
  tri_text_free(&numbers);
}

/* ---- the end ---- */

/* Writes the pieces of a text between characters of `between` as a list of strings. */
static tri_status put_list(tri_text *t, const char *name, const char *text, const char *between) {
  int n = 0;

  TRI_TRY(tri_text_printf(t, ", \"%s\": [", name));
  for (const char *at = text ? text : ""; *(at += strspn(at, between));) {
    char   piece[TEXT_BYTES];
    size_t len = strcspn(at, between);
    snprintf(piece, sizeof piece, "%.*s", (int)(len < sizeof piece ? len : sizeof piece - 1), at);
    if (n++) TRI_TRY(tri_text_put(t, ", ", 2));
    TRI_TRY(put_text(t, piece + strspn(piece, " ")));
    at += len;
  }
  return tri_text_put(t, "]", 1);
}

static tri_status make_end(const tri_runlog *l, const tri_runlog_ending *e, tri_text *t) {
  static const char *const word[] = {"finished", "stopped", "failed"};

  TRI_TRY(begin_line(t, "end"));
  TRI_TRY(put_tag(l, t));
  TRI_TRY(put_member(t, "state", word[e->state]));
  TRI_TRY(put_count(t, "step", e->step));
  TRI_TRY(put_count(t, "exit_code", e->exit_code));
  TRI_TRY(put_list(t, "open_alarms", e->open_alarms, " "));
  TRI_TRY(put_member(t, "cause", e->cause));
  TRI_TRY(put_member(t, "text", e->text));
  if (e->rank >= 0) TRI_TRY(put_count(t, "rank", e->rank));
  if (e->rank >= 0) TRI_TRY(put_member(t, "node", e->node));
  if (e->trace) TRI_TRY(put_list(t, "trace", e->trace, "\n"));
  return tri_text_put(t, "}\n", 2);
}

void tri_runlog_end(tri_runlog *l, const tri_runlog_ending *ending) {
  tri_text          line = {0};
  tri_status        st;
  tri_error_kept    error;
  tri_runlog_ending end = *ending;

  if (!l || !(l->started || (l->claimed && l->carries_on))) return;
  if (!l->started) end.step = -1;
  tri_error_keep(&error); /* the event's text may be this error's */
  st = l->rank ? tri_text_put(&line, "\n", 1) : TRI_OK;
  if (st == TRI_OK) st = make_end(l, &end, &line);
  if (!l->started && l->rank == 0 && !begin_without_start(l)) st = TRI_EFILE;
  if (l->rank == 0)
    add_line(l, &line, st);
  else if (st == TRI_OK)
    write_urgent(l, &line);
  tri_text_free(&line);
  tri_error_put_back(&error);
}
