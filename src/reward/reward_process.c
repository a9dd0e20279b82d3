/* reward_process.c - process: a reward from a program of the user beside each rank, over JSON lines. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/child.h"
#include "base/child_script.h"
#include "base/clock.h"
#include "base/host_memory.h"
#include "extras.h"
#include "reply_json.h"
#include "reward.h"
#include "io/text/json_text.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_S 60.0 /* chosen: a verifier takes milliseconds, and a large one seconds to start */

enum {
  LINE_BYTES = 1 << 16, /* chosen: longest answer line, a hundred times the usual */
  LINE_NESTED = 1024,   /* chosen: objects and lists of a line. With four times as many values it takes 1 MB
                         * of memory */
  SKIPPED_BYTES = 1 << 24, /* chosen: rest of a longer line. More is a flood */
  SAID_LINE_BYTES = 1024,  /* chosen: a line of its stderr */
  SHOWN_BYTES = 161,       /* chosen: a shown answer line, two lines of a screen */
  WHY_BYTES = 512,         /* chosen: a sentence and a shown line */
  MOST_TRIES = 3,  /* chosen: deaths of a program with the same answer as its oldest one, before that answer
                    * fails */
  MOST_DEATHS = 6, /* chosen: deaths in a row without any answer, before all open answers fail */
  END_DEATHS = 2 * MOST_DEATHS, /* chosen: deaths in a row that end the service, since no single answer can be
                                 * the cause */
  LOOK_MS = 10,                 /* chosen: between checks for its end, when the queue closes */
  HELD_MS = 100,                /* chosen: between checks for its end while it works, because a child of it
                                 * may hold its output open */
  GRACE_MS = 1000               /* chosen: between the end of its input and a kill */
};

/* A line that arrives in pieces. */
typedef struct incoming {
  char   byte[LINE_BYTES];
  size_t n;
} incoming;

typedef struct process {
  char          **argv; /* [n_arg + 1] */
  double          timeout_s;
  int             tries;   /* deaths before an answer fails */
  tri_secrets     secrets; /* in its arguments */
  tri_work_queue *queue;
  tri_child       child;               /* the fields from here belong to the worker after the start */
  tri_job       **open;                /* [n_open] in order of arrival */
  int64_t         n_open, cap, n_sent; /* n_sent: jobs with their whole line sent */
  size_t          sent;                /* bytes sent of the next line */
  size_t          skipped;             /* bytes skipped so far of an overlong line, 0 without one */
  int             deaths;
  char            died[512]; /* why the last program was given up, "" if none was */
  double          since_s;   /* time of the last job or answer */
  incoming        out, err;
  char            last[SAID_LINE_BYTES]; /* last line of its stderr */
} process;

/* ---- answers of the program ---- */

static void drop(process *p, int64_t k) {
  memmove(p->open + k, p->open + k + 1, (size_t)(p->n_open - k - 1) * sizeof *p->open);
  p->n_open--;
  if (k < p->n_sent)
    p->n_sent--;
  else if (k == p->n_sent)
    p->sent = 0;
}

/* Introduces its last line of stderr in a message. */
static const char *lead(const process *p) { return p->last[0] ? ". Its last message: " : ""; }

static void count_death(process *p, const char *why) {
  p->deaths++;
  snprintf(p->died, sizeof p->died, "%s", why);
  if (p->deaths == END_DEATHS)
    tri_work_queue_end_service(
        p->queue,
        "%s, like %d before it without an answer. It is out of service. Run its command by hand, give it a "
        "line {\"id\": 1, \"prompt\": \"...\", \"response\": \"...\"} and look at its answer and its "
        "stderr%s%s",
        why, p->deaths - 1, lead(p), p->last);
}

/* Gives up the program. Its oldest open answer fails if `fails` is set, or if it was lost too often. The
 * others go to the next program. line [n] is the program's last line and may be NULL. */
static void lose_by(process *p, const char *why, bool fails, const char *line, size_t n) {
  tri_child_kill(&p->child, NULL);
  p->n_sent = 0;
  p->sent = p->out.n = p->err.n = p->skipped = 0;
  count_death(p, why);
  if (p->n_open && (fails || ++p->open[0]->tries == p->tries)) {
    if (line) tri_work_queue_keep_reply(p->queue, p->open[0], line, n);
    tri_work_queue_fail(p->queue, p->open[0], "%s%s%s", why, lead(p), p->last);
    drop(p, 0);
  }
  if (p->deaths >= MOST_DEATHS)
    for (; p->n_open; drop(p, 0))
      tri_work_queue_fail(p->queue, p->open[0], "%s, like %d before it without an answer%s%s", why,
                          p->deaths - 1, lead(p), p->last);
  p->since_s = tri_now_s();
}

static void lose(process *p, const char *why, bool fails) { lose_by(p, why, fails, NULL, 0); }

/* Returns the index of the open answer with this id, sent to this program, or -1. */
static int64_t find_open(const process *p, int64_t id) {
  for (int64_t k = 0; k < p->n_sent; k++)
    if (p->open[k]->id == id) return k;
  return -1;
}

/* Returns the index of the answer the line belongs to. *id is the line's id, or -1. */
static int64_t find_answer(const process *p, const json_t *object, const char *line, size_t n, int64_t *id) {
  const json_t *given = json_object_get(object, "id");
  double        x = json_is_real(given) ? json_real_value(given) : -1;

  *id = -1;
  if (json_is_integer(given))
    *id = json_integer_value(given);
  else if (x >= 0 && x < 9e15 && x == floor(x))
    *id = (int64_t)x;
  else if (!object)
    *id = tri_reply_scan_id(line, n);
  return *id >= 0 ? find_open(p, *id) : -1;
}

/* Makes the beginning of a line for a message. It is masked before it is cut, because half a secret would not
 * be recognised. */
static const char *show(const process *p, const char *line, size_t n, char out[SHOWN_BYTES]) {
  tri_secrets_copy(&p->secrets, line, n, out, SHOWN_BYTES);
  return out;
}

/* Explains the fault of a reward that is not a number. */
static void explain_reward(const json_t *reward, const char *shown, char why[WHY_BYTES]) {
  const char *text = json_string_value(reward);

  if (!reward)
    snprintf(why, WHY_BYTES, "its line has no `reward`: %s", shown);
  else if (text && strcmp(text, TRI_REPLY_ODD) != 0)
    snprintf(why, WHY_BYTES, "its `reward` is text and not a number (write 0.5, not \"0.5\"): %s", shown);
  else
    snprintf(why, WHY_BYTES, "its `reward` is not a number: %s", shown);
}

/* Reads the reply to an answer. Returns false with the cause if the answer failed. */
static bool read_answer(const json_t *object, const char *shown, double *score, tri_extras *extras,
                        char why[WHY_BYTES]) {
  static const char *const own[] = {"id", "reward", NULL};
  const json_t            *reward = json_object_get(object, "reward");
  char                     named[TRI_EXTRAS_WHY_BYTES];

  *score = json_number_value(reward);
  if (!object)
    snprintf(why, WHY_BYTES, "its line is not JSON, or has over %d objects and lists: %s", LINE_NESTED,
             shown);
  else if (!json_is_number(reward))
    explain_reward(reward, shown, why);
  else if (!tri_extras_read(&(tri_extras_reply){object, own, 1, false}, extras, named))
    snprintf(why, WHY_BYTES, "%s: %s", named, shown);
  else
    return true;
  return false;
}

/* Explains why a line belongs to no open answer. */
static void explain_stray(const json_t *object, int64_t id, const char *shown, char why[WHY_BYTES]) {
  if (id >= 0)
    snprintf(why, WHY_BYTES,
             "it wrote an id without an open answer (write one line for each line read, with its id): %s",
             shown);
  else if (json_object_get(object, "reward") && !json_object_get(object, "id"))
    snprintf(why, WHY_BYTES, "it wrote an answer without the `id` of its line: %s", shown);
  else
    snprintf(
        why, WHY_BYTES,
        "it wrote a line other than an answer {\"id\": n, \"reward\": x} (stdout is for answers only, one "
        "line each, so print everything else to stderr): %s",
        shown);
}

/* Handles one line. A line with an "id" but without a number as "reward", or with nothing else legible, fails
 * only that answer. A line without an "id" of an open answer fails the oldest one and gives up the program.
 * Returns false if the program is gone. */
static bool hear_line(process *p, const char *line, size_t n) {
  json_t    *object = tri_reply_parse(line, n, LINE_NESTED, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL);
  int64_t    id, k = find_answer(p, object, line, n, &id);
  char       why[WHY_BYTES], shown[SHOWN_BYTES];
  tri_extras extras;
  double     score;

  show(p, line, n, shown);
  if (k >= 0) {
    if (read_answer(object, shown, &score, &extras, why)) {
      tri_work_queue_answer_more(p->queue, p->open[k], score, &extras);
    } else {
      tri_work_queue_keep_reply(p->queue, p->open[k], line, n);
      tri_work_queue_fail(p->queue, p->open[k], "%s", why);
    }
    drop(p, k);
    p->deaths = 0;
    p->since_s = tri_now_s();
  } else {
    explain_stray(object, id, shown, why);
  }
  json_decref(object);
  if (k < 0) lose_by(p, why, true, line, n);
  return k >= 0;
}

/* Starts to skip a line longer than the buffer. It fails the answer with the line's id. Returns false if the
 * program is gone. */
static bool begin_skipping(process *p) {
  incoming *in = &p->out;
  int64_t   id = tri_reply_scan_id(in->byte, in->n), k = id < 0 ? -1 : find_open(p, id);
  char      shown[SHOWN_BYTES];

  if (k < 0) {
    lose(p, "it wrote a line of more than 65536 bytes", true);
    return false;
  }
  tri_work_queue_keep_reply(p->queue, p->open[k], in->byte, in->n);
  tri_work_queue_fail(p->queue, p->open[k], "it wrote a line of more than %d bytes: %s", LINE_BYTES,
                      show(p, in->byte, in->n, shown));
  drop(p, k);
  p->skipped = in->n;
  in->n = 0;
  return true;
}

/* Skips the rest of a long line. Returns false if the program is gone. */
static bool skip_line(process *p) {
  incoming *in = &p->out;
  char     *end = memchr(in->byte, '\n', in->n);
  size_t    n = end ? (size_t)(end + 1 - in->byte) : in->n;

  p->skipped = end ? 0 : p->skipped + n;
  in->n -= n;
  memmove(in->byte, in->byte + n, in->n);
  if (p->skipped <= SKIPPED_BYTES) return true;
  lose(p, "it wrote a line of more than 16 MiB", false); /* the line's answer has failed already */
  return false;
}

static bool hear_lines(process *p) {
  incoming *in = &p->out;
  char     *end;

  if (p->skipped && !skip_line(p)) return false;
  while ((end = memchr(in->byte, '\n', in->n)) != NULL) {
    size_t n = (size_t)(end - in->byte);
    if (!hear_line(p, in->byte, n)) return false;
    in->n -= n + 1;
    memmove(in->byte, end + 1, in->n);
  }
  return in->n < sizeof in->byte || begin_skipping(p);
}

static void hear_said(process *p) {
  incoming *in = &p->err;
  char     *end;

  while ((end = memchr(in->byte, '\n', in->n)) != NULL || in->n == sizeof in->byte) {
    size_t n = end ? (size_t)(end - in->byte) : in->n, taken = end ? n + 1 : n;
    tri_work_queue_say(p->queue, in->byte, n);
    tri_secrets_copy(&p->secrets, in->byte, n, p->last, sizeof p->last);
    in->n -= taken;
    memmove(in->byte, in->byte + taken, in->n);
  }
}

/* Reads from a pipe as far as the buffer has space. Returns false if its other end is closed. */
static bool receive(int fd, incoming *in) {
  ssize_t n = read(fd, in->byte + in->n, sizeof in->byte - in->n);

  if (n > 0) in->n += (size_t)n;
  return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* ---- jobs for the program ---- */

/* Writes as many lines as the pipe takes. Returns false if its other end is closed. */
static bool staging(process *p) {
  while (p->n_sent < p->n_open) {
    const tri_text *line = p->open[p->n_sent]->text;
    ssize_t         n = write(p->child.in, line->data + p->sent, line->len - p->sent);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    p->sent += (size_t)n;
    if (p->sent < line->len) continue;
    p->n_sent++;
    p->sent = 0;
  }
  return true;
}

/* Reads the rest of its stderr. */
static void hear_rest(process *p) {
  while (p->child.err >= 0 && p->err.n < sizeof p->err.byte) {
    size_t before = p->err.n;
    if (!receive(p->child.err, &p->err) || p->err.n == before) break;
    hear_said(p);
  }
  if (p->err.n && p->err.n < sizeof p->err.byte) p->err.byte[p->err.n++] = '\n';
  hear_said(p);
}

enum { ENDING_MS = 100 }; /* chosen: between the end of its output and its exit */

/* Gives up a program that ended. `seen` is the sign of its end. */
static void bury(process *p, const char *seen) {
  char how[TRI_CHILD_HOW_BYTES], why[128];

  hear_rest(p);
  for (int i = 0; i < ENDING_MS && !tri_child_has_ended(&p->child); i++) poll(NULL, 0, 1);
  tri_child_kill(&p->child, how);
  snprintf(why, sizeof why, "%s before it answered", how[0] ? how : seen);
  lose(p, why, false);
}

static void restart(process *p) {
  if (p->died[0]) tri_work_queue_restarted(p->queue, p->died);
  p->died[0] = p->last[0] = 0;
  if (tri_child_start_kept(p->argv, &p->child) == TRI_OK) {
    p->since_s = tri_now_s();
    return;
  }
  while (tri_child_all_killed()) pause(); /* the run ends, and the reason is logged elsewhere */
  count_death(p, tri_error_message());
  for (; p->n_open; drop(p, 0))
    tri_work_queue_fail(p->queue, p->open[0], "it cannot be started again: %s", tri_error_message());
  tri_error_clear();
}

/* ---- the worker ---- */

static int ms_left(const process *p) {
  double left_ms = (p->since_s + p->timeout_s - tri_now_s()) * 1000;

  if (!p->n_open) return -1;
  return left_ms <= 0 ? 0 : left_ms > HELD_MS ? HELD_MS : (int)left_ms + 1;
}

/* Waits for news from the queue or the program, and handles them. */
static void attend(process *p) {
  bool          writes = p->n_sent < p->n_open;
  bool          ended = p->child.pid && p->n_open && tri_child_has_ended(&p->child);
  struct pollfd f[4] = {{tri_work_queue_wakeup(p->queue), POLLIN, 0},
                        {p->child.pid ? p->child.out : -1, POLLIN, 0},
                        {p->child.pid ? p->child.err : -1, POLLIN, 0},
                        {p->child.pid && writes ? p->child.in : -1, POLLOUT, 0}};

  if (poll(f, 4, ended ? 0 : ms_left(p)) < 0) return;
  if (f[2].revents && !receive(p->child.err, &p->err)) tri_child_close_error(&p->child);
  if (f[2].revents) hear_said(p);
  if (f[1].revents) {
    bool open = receive(p->child.out, &p->out);
    if (!hear_lines(p)) return;
    if (!open) bury(p, "it closed its output");
    if (!open) return;
  } else if (ended) { /* all its output is read */
    bury(p, "it ended");
    return;
  }
  if (f[3].revents && !staging(p)) tri_child_close_input(&p->child); /* answers it still writes count */
  if (p->child.pid && p->child.in < 0 && p->n_open && !p->n_sent) {
    bury(p, "it closed its input");
    return;
  }
  if (p->n_open && tri_now_s() >= p->since_s + p->timeout_s) {
    char why[256];
    snprintf(
        why, sizeof why,
        "it answered nothing for %g s (timeout_s). A program must answer each line when it arrives, before "
        "its input ends, and flush its output (Python: print(..., flush=True))",
        p->timeout_s);
    lose(p, why, true);
  }
}

/* Takes all new jobs. Returns false when the queue closes. */
static bool take_all(process *p) {
  for (;;) {
    tri_job             *q;
    tri_work_queue_order order = tri_work_queue_take(p->queue, &q);
    if (order == TRI_WORK_QUEUE_CLOSE) return false;
    if (order == TRI_WORK_QUEUE_FORGET) { /* its answers to old ids would be unknown */
      tri_child_kill(&p->child, NULL);
      p->n_open = p->n_sent = 0;
      p->sent = p->out.n = p->err.n = p->skipped = 0;
      continue;
    }
    if (!q) return true;
    if (TRI_GROW(p->open, p->cap, p->n_open + 1) != TRI_OK) {
      tri_error_clear();
      tri_work_queue_fail(p->queue, q, "the host has no memory left for it");
      continue;
    }
    if (!p->n_open) p->since_s = tri_now_s();
    p->open[p->n_open++] = q;
  }
}

static void work(void *ctx, tri_work_queue *d) {
  process *p = ctx;

  TRI_ASSERT(p->queue == d);
  while (take_all(p)) {
    if (!p->child.pid && p->n_open) restart(p);
    attend(p);
  }
}

static tri_status begin(void *ctx) {
  process *p = ctx;

  return tri_child_start_kept(p->argv, &p->child);
}

/* Closes the program's input and gives it GRACE_MS to end by itself. */
static void end(void *ctx) {
  process *p = ctx;
  double   until_s = tri_now_s() + GRACE_MS / 1e3;
  bool     open = p->child.pid > 0;

  tri_child_close_input(&p->child);
  while (open && tri_now_s() < until_s) {
    struct pollfd f[2] = {{p->child.out, POLLIN, 0}, {p->child.err, POLLIN, 0}};
    if (poll(f, 2, LOOK_MS) < 0) break;
    p->out.n = 0;
    if (f[0].revents) open = receive(p->child.out, &p->out);
    open = open && !tri_child_has_ended(&p->child); /* a child of it may hold its output open */
    if (f[1].revents && !receive(p->child.err, &p->err)) tri_child_close_error(&p->child);
    hear_said(p);
  }
  if (p->child.pid) hear_rest(p);
  tri_child_kill(&p->child, NULL);
}

/* ---- the plug-in ---- */

static void free_line(void *text) {
  tri_text *line = text;

  tri_text_free(line);
  tri_host_free(&text);
}

static tri_status put_line(const tri_answer *a, int64_t id, tri_text *out) {
  TRI_TRY(tri_text_put(out, "{", 1));
  TRI_TRY(tri_text_put(out, a->fields, a->fields_bytes));
  TRI_TRY(tri_text_printf(out, "\"id\": %lld, \"prompt\": ", (long long)id));
  TRI_TRY(tri_json_put_string(out, a->prompt, a->prompt_bytes));
  TRI_TRY(tri_text_printf(out, ", \"response\": "));
  TRI_TRY(tri_json_put_string(out, a->response, a->response_bytes));
  return tri_text_put(out, "}\n", 2);
}

static tri_status process_submit(void *state, const tri_answer *a, int number) {
  process   *p = state;
  tri_text  *line;
  tri_status st;

  TRI_TRY(TRI_ALLOC(line, 1));
  st = put_line(a, tri_work_queue_next_id(p->queue), line);
  if (st == TRI_OK) return tri_work_queue_put(p->queue, number, line);
  free_line(line);
  return st;
}

static bool process_await(void *state, double most_s) {
  return tri_work_queue_await(((process *)state)->queue, most_s);
}

static tri_status process_collect(void *state, int n, float *score, tri_reward_error *error,
                                  const tri_work_queue_listener *listener) {
  return tri_work_queue_collect(((process *)state)->queue, n, score, &error->number, error->why, listener);
}

static tri_status process_show(const void *line, tri_text *out) {
  const tri_text *text = line;

  return tri_text_put(out, text->data, text->len - 1); /* without its newline */
}

static int64_t process_restarts(void *state) { return tri_work_queue_restarts(((process *)state)->queue); }

static void process_forget(void *state) { tri_work_queue_forget(((process *)state)->queue); }

static tri_status process_check(const tri_reward_opt *o, const tri_reward_env *env, const char **field) {
  const char **word = NULL, *next;
  double       timeout_s;
  int          n;
  tri_status   st;

  (void)env;
  *field = "timeout_s";
  TRI_TRY(tri_reward_read_seconds(o, *field, TIMEOUT_S, &timeout_s));
  *field = "command";
  next = tri_reward_get_list(o, *field, &n);
  TRI_TRY(TRI_ALLOC(word, n));
  for (int i = 0; i < n; i++, next = tri_reward_next(next)) word[i] = next;
  st = tri_child_check_command(word, n);
  TRI_FREE(word);
  return st;
}

static void process_close(void **state) {
  process *p = *state;

  if (!p) return;
  tri_work_queue_close(&p->queue);
  for (int i = 0; p->argv && p->argv[i]; i++) TRI_FREE(p->argv[i]);
  TRI_FREE(p->argv);
  TRI_FREE(p->open);
  tri_secrets_free(&p->secrets);
  tri_host_free(state);
}

static tri_status read_command(const tri_reward_opt *o, process *p) {
  int         n;
  const char *word = tri_reward_get_list(o, "command", &n), *before = NULL;

  TRI_TRY(TRI_ALLOC(p->argv, n + 1));
  for (int i = 0; i < n; i++, before = word, word = tri_reward_next(word)) {
    TRI_TRY(tri_copy_text(word, &p->argv[i]));
    TRI_TRY(tri_secrets_add_word(&p->secrets, before, word));
  }
  return tri_reward_read_seconds(o, "timeout_s", TIMEOUT_S, &p->timeout_s);
}

static tri_status process_open(const tri_reward_opt *o, const tri_reward_env *env, void **state) {
  tri_work_queue_opt queue = {
      .name = "process", .begin = begin, .work = work, .end = end, .free_text = free_line};
  tri_on_error on_error;
  tri_status   st = TRI_OK;

  TRI_TRY(tri_host_alloc(1, sizeof(process), state));
  TRI_TRY_DONE(read_command(o, *state));
  TRI_TRY_DONE(tri_reward_read_on_error(o, &on_error));
  queue.ctx = *state;
  queue.secrets = &((process *)*state)->secrets;
  queue.trial = env && env->trial;
  queue.hasty = on_error == TRI_ON_ERROR_ABORT && !queue.trial;
  ((process *)*state)->tries =
      queue.trial ? 1 : MOST_TRIES; /* a trial shows the last words of a program once */
  if (env && env->se && env->se->pretended) goto done;
  TRI_TRY_DONE(tri_work_queue_open(&queue, &((process *)*state)->queue));
done:
  if (st != TRI_OK) process_close(state);
  return st;
}

static const tri_reward_field fields[] = {
    {.name = "command",
     .unit = "words",
     .help = "The program and its arguments, such as [python3, verify.py]. One runs beside each rank. Values "
             "of names such as api_key and token are masked in all output.",
     .value = "WORDS",
     .what = "the program and its arguments, separated by spaces",
     .must = true,
     .list = true,
     .masks = TRI_REWARD_MASK_WORDS},
    {.name = "timeout_s",
     .unit = "s",
     .help = "After so long without an answer the oldest open one fails. Default 60.",
     .value = "S",
     .what = "seconds without any answer before one fails (default 60)"},
    TRI_REWARD_ON_ERROR,
    {.name = NULL}};

const tri_reward tri_reward_process = {.name = "process",
                                       .help = "score of a program beside each rank, over JSON lines",
                                       .values = "any number",
                                       .best = INFINITY,
                                       .needs = TRI_REWARD_TEXT | TRI_REWARD_FIELDS_OF_LINE,
                                       .field = fields,
                                       .check = process_check,
                                       .open = process_open,
                                       .submit = process_submit,
                                       .await = process_await,
                                       .collect = process_collect,
                                       .show = process_show,
                                       .restarts = process_restarts,
                                       .forget = process_forget,
                                       .close = process_close};
