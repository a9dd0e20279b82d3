/* run_events.c - reads run.jsonl for alarms, starts, the current phase and how the newest start ended. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "history_impl.h"

#include "base/visible.h"
#include "ending.h"
#include "io/text/json_text.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
  VERSION = 1,           /* format version this program reads */
  LOG_BYTES = 256 << 20, /* chosen as a few times the size a run of a million steps writes */
  EVENT_BYTES = 8 << 20, /* bytes of a line, chosen for a start on 50,000 nodes that all differ */
  NESTED_MOST = 1 << 17  /* objects and lists of a line, chosen for the same start */
};

static void clear(void *ctx) {
  tri_history_log *l = ctx;

  for (int64_t i = 0; i < l->n; i++) {
    TRI_FREE(l->alarm[i].text);
    TRI_FREE(l->alarm[i].code);
  }
  l->n = l->n_bad = l->n_foreign = 0;
  l->first = l->starts = 0;
  l->steps = l->phase_step = -1;
  l->phase[0] = 0;
  json_decref(l->start);
  l->start = NULL;
  l->end = l->verdict = l->done = tri_ending_none();
}

void tri_history_log_free(tri_history_log *l) {
  clear(l);
  TRI_FREE(l->alarm);
  tri_history_tail_free(&l->tail);
}

/* ---- members of an event ---- */

/* Returns a member's text in one visible line, cut to `bytes`, or "" if it is no text. */
static const char *text_of(const json_t *event, const char *name, char *out, size_t bytes) {
  const json_t *value = json_object_get(event, name);
  const char   *text = json_string_value(value);
  size_t        n = 0;

  out[0] = 0;
  if (!text) return out;
  tri_visible(text, json_string_length(value), "\n", out, bytes);
  for (const char *at = out; *at; at++) {
    bool ends = *at == '\n';
    out[n++] = ends ? ' ' : *at;
    if (ends) at += strspn(at + 1, " \n");
  }
  out[n] = 0;
  return out;
}

/* Returns a member's value if it is a whole number >= 0, else -1. */
static int64_t count_of(const json_t *event, const char *name) {
  const json_t *value = json_object_get(event, name);

  return json_is_integer(value) && json_integer_value(value) >= 0 ? json_integer_value(value) : -1;
}

#define TEXT_OF(event, name, out) text_of(event, name, out, sizeof(out))

/* ---- alarms ---- */

static void forget_oldest(tri_history_log *l) {
  TRI_FREE(l->alarm[0].text);
  TRI_FREE(l->alarm[0].code);
  memmove(l->alarm, l->alarm + 1, (size_t)--l->n * sizeof *l->alarm);
  l->first -= l->first > 0;
}

static tri_status add_alarm(tri_history_log *l, const tri_history_alarm_row *alarm) {
  tri_history_alarm_row copy = *alarm;
  tri_status            st;

  TRI_TRY(TRI_GROW(l->alarm, l->cap, l->n + 1));
  TRI_TRY(tri_copy_text(alarm->text, &copy.text));
  st = tri_copy_text(alarm->code, &copy.code);
  if (st != TRI_OK) TRI_FREE(copy.text);
  TRI_TRY(st);
  if (l->n == TRI_HISTORY_ALARMS_MOST) forget_oldest(l);
  l->alarm[l->n++] = copy;
  return TRI_OK;
}

/* Adds an alarm about lines of another version, once for each start. */
static tri_status meet_foreign(tri_history_log *l, int64_t version) {
  char                  text[128];
  tri_history_alarm_row alarm = {.text = text, .code = (char[]){"foreign_version"}, .step = -1};

  if (l->n_foreign++) return TRI_OK;
  snprintf(text, sizeof text,
           "run.jsonl has lines of version %lld. They are skipped, because this program reads version %d",
           (long long)version, VERSION);
  return add_alarm(l, &alarm);
}

/* ---- events, where false means a foreign event ---- */

static void take_start(tri_history_log *l, json_t *event) {
  json_decref(l->start);
  l->start = json_incref(event);
  l->starts++;
  l->first = (int)l->n;
  l->steps = count_of(event, "steps");
  l->n_foreign = 0;
  l->phase[0] = 0;
  l->phase_step = -1;
  l->end = l->verdict = l->done = tri_ending_none();
}

static bool take_state(tri_history_log *l, const json_t *event) {
  TEXT_OF(event, "phase", l->phase);
  l->phase_step = count_of(event, "step");
  return l->phase[0];
}

static tri_status take_alarm(tri_history_log *l, const json_t *event, bool *good) {
  char                  text[TRI_HISTORY_SAID_BYTES], code[TRI_HISTORY_NAME_BYTES];
  tri_history_alarm_row alarm = {.text = text, .code = code, .step = count_of(event, "step")};

  TEXT_OF(event, "text", text);
  TEXT_OF(event, "code", code);
  *good = code[0] && json_is_string(json_object_get(event, "text"));
  return *good ? add_alarm(l, &alarm) : TRI_OK;
}

/* Reads the members common to an end and a verdict. */
static tri_ending ending_of(const json_t *event) {
  tri_ending e = tri_ending_none();

  TEXT_OF(event, "cause", e.cause);
  TEXT_OF(event, "node", e.node);
  TEXT_OF(event, "tag", e.tag);
  TEXT_OF(event, "text", e.text);
  e.rank = count_of(event, "rank");
  e.step = count_of(event, "step");
  e.time_unix_s = json_number_value(json_object_get(event, "time_unix_s"));
  return e;
}

static tri_status add_error(tri_history_log *l, const json_t *event, const tri_ending *e) {
  char                  text[TRI_HISTORY_SAID_BYTES], code[TRI_HISTORY_NAME_BYTES];
  tri_history_alarm_row alarm = {.text = text, .code = code, .is_error = true, .step = e->step};

  snprintf(code, sizeof code, "%s", e->cause[0] ? e->cause : "error");
  if (!TEXT_OF(event, "text", text)[0]) snprintf(text, sizeof text, "%s", code);
  return add_alarm(l, &alarm);
}

static tri_status take_verdict(tri_history_log *l, const json_t *event, bool *good) {
  enum { CODE = 76 }; /* exit code in src/README.md for a peer that hung or died */
  tri_ending e = ending_of(event);

  *good = e.cause[0];
  if (!*good) return TRI_OK;
  e.state = TRI_ENDING_FAILED;
  e.exit_code = CODE;
  /* a later verdict may only see consequences of the first failure */
  if (l->verdict.state == TRI_ENDING_OPEN || strcmp(l->verdict.tag, e.tag) != 0) l->verdict = e;
  return add_error(l, event, &e);
}

static tri_status take_end(tri_history_log *l, const json_t *event, bool *good) {
  tri_ending e = ending_of(event);
  char       state[16];

  e.state = tri_ending_state_of(TEXT_OF(event, "state", state));
  e.exit_code = count_of(event, "exit_code");
  *good = e.state != TRI_ENDING_OPEN;
  if (!*good) return TRI_OK;
  l->end = e;
  if (e.state == TRI_ENDING_FINISHED) l->done = e;
  return e.state == TRI_ENDING_FAILED ? add_error(l, event, &e) : TRI_OK;
}

static tri_status take_event(tri_history_log *l, json_t *event, bool *good) {
  char name[16];

  TEXT_OF(event, "event", name);
  *good = name[0];
  if (!strcmp(name, "start")) take_start(l, event);
  if (!strcmp(name, "state")) *good = take_state(l, event);
  if (!strcmp(name, "alarm")) return take_alarm(l, event, good);
  if (!strcmp(name, "verdict")) return take_verdict(l, event, good);
  return !strcmp(name, "end") ? take_end(l, event, good) : TRI_OK; /* other events are not needed here */
}

/* ---- lines ---- */

static tri_status take_object(tri_history_log *l, json_t *object, bool *good) {
  int64_t version = count_of(object, "v");

  *good = version >= 0;
  if (version != VERSION) return *good ? meet_foreign(l, version) : TRI_OK;
  return take_event(l, object, good);
}

static tri_status take_line(void *ctx, const char *text, size_t n) {
  tri_history_log *l = ctx;
  json_t          *object = NULL;
  bool             good = false;
  tri_status       st = TRI_OK;

  if (text && strspn(text, " \t\r") == n) return TRI_OK;
  if (text && n <= EVENT_BYTES && tri_json_fits(text, n, NESTED_MOST))
    object = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
  if (json_is_object(object)) st = take_object(l, object, &good);
  json_decref(object);
  l->n_bad += !good;
  return st;
}

tri_status tri_history_log_read(tri_history_log *l, const char *folder, bool *changed) {
  const tri_history_reader to = {clear, take_line, l, LOG_BYTES, false};
  char                     path[TRI_HISTORY_PATH_BYTES];

  snprintf(path, sizeof path, "%s/run.jsonl", folder);
  return tri_history_tail_read(&l->tail, path, &to, changed);
}

/* ---- how it ended ---- */

tri_ending tri_ending_none(void) { return (tri_ending){.exit_code = -1, .rank = -1, .step = -1}; }

static const char *const state_word[] = {"open", "finished", "stopped", "failed"};

const char *tri_ending_word(tri_ending_state state) { return state_word[state]; }

tri_ending_state tri_ending_state_of(const char *word) {
  for (int i = TRI_ENDING_FINISHED; i <= TRI_ENDING_FAILED; i++)
    if (!strcmp(word, state_word[i])) return (tri_ending_state)i;
  return TRI_ENDING_OPEN;
}

/* Adds the cause of an end in words. Why a run stopped stands in its text, such as "SIGTERM". */
static tri_status put_cause(const tri_ending *e, tri_text *out) {
  static const char *const word[][2] = {{"file", "stop file"}, {"time", "time limit"}};
  const char              *cause = e->cause[0] ? e->cause : "unknown";

  if (e->state == TRI_ENDING_FINISHED) return tri_text_printf(out, "all steps are done");
  if (e->state == TRI_ENDING_FAILED) return tri_text_printf(out, "%s", cause);
  for (size_t i = 0; i < sizeof word / sizeof *word; i++)
    if (!strcmp(cause, word[i][0])) cause = word[i][1];
  TRI_TRY(tri_text_printf(out, "%s", cause));
  return e->text[0] ? tri_text_printf(out, " (%s)", e->text) : TRI_OK;
}

/* Adds a time such as ", 2026-11-27 23:57:05 UTC". */
static tri_status put_time(double unix_s, tri_text *out) {
  time_t    t = (time_t)(unix_s > 0 && unix_s < 253402300800.0 ? unix_s : 0); /* the year 10000 */
  struct tm utc;

  if (t == 0 || !gmtime_r(&t, &utc)) return TRI_OK;
  return tri_text_printf(out, ", %04d-%02d-%02d %02d:%02d:%02d UTC", utc.tm_year + 1900, utc.tm_mon + 1,
                         utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

tri_status tri_ending_put(const tri_ending *e, tri_text *out) {
  if (e->state == TRI_ENDING_OPEN) return TRI_OK;
  TRI_TRY(tri_text_printf(out, "why it ended: "));
  TRI_TRY(put_cause(e, out));
  if (e->rank >= 0) TRI_TRY(tri_text_printf(out, ", rank %lld", (long long)e->rank));
  if (e->node[0]) TRI_TRY(tri_text_printf(out, "%s node %s", e->rank >= 0 ? " on" : ",", e->node));
  if (e->exit_code >= 0) TRI_TRY(tri_text_printf(out, ", exit code %lld", (long long)e->exit_code));
  if (e->step >= 0) TRI_TRY(tri_text_printf(out, ", after step %lld", (long long)e->step));
  return put_time(e->time_unix_s, out);
}

tri_ending tri_history_log_ending(const tri_history_log *l, const char *tag) {
  bool has_verdict = l->verdict.state != TRI_ENDING_OPEN && (!tag || !strcmp(l->verdict.tag, tag));
  bool has_end = l->end.state != TRI_ENDING_OPEN && (!tag || !strcmp(l->end.tag, tag));

  if (has_verdict) return l->verdict;
  /* a later start that was refused before its start event changes nothing about a finished run */
  if (!tag && l->done.state != TRI_ENDING_OPEN) return l->done;
  return has_end ? l->end : tri_ending_none();
}

tri_status tri_ending_read(const char *folder, const char *tag, tri_ending *out) {
  tri_history_log l = {.steps = -1};
  char            shown[TRI_ENDING_WORD_BYTES]; /* the tag as run.jsonl has it, visible and cut */
  bool            changed = false;
  tri_status      st;

  *out = tri_ending_none();
  if (strlen(folder) >= TRI_HISTORY_PATH_BYTES - 64)
    TRI_FAIL(TRI_EINPUT, "the path of a run's output folder is too long: %.100s...", folder);
  st = tri_history_log_read(&l, folder, &changed);
  if (tag) tri_visible(tag, strlen(tag), "", shown, sizeof shown);
  if (st == TRI_OK) *out = tri_history_log_ending(&l, tag ? shown : NULL);
  tri_history_log_free(&l);
  return st;
}
