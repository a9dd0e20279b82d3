/* look_json.c - writes the facts of a run as one JSON object on a line. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "look_impl.h"

#include "base/visible.h"
#include "io/text/json_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CURVE = 60 }; /* most numbers of a curve, chosen as many as a terminal shows */

/* JSON permits only UTF-8. Other bytes are made visible, and so are control characters. */
static tri_status put_string(tri_text *out, const char *text) {
  tri_status st;
  size_t     cap = strlen(text) * TRI_VISIBLE_MOST + 1;
  char      *shown = NULL;

  TRI_TRY(TRI_ALLOC(shown, cap));
  st = tri_json_put_string(out, shown, tri_visible(text, strlen(text), "", shown, cap));
  TRI_FREE(shown);
  return st;
}

static tri_status put_name(tri_text *out, const char *name) {
  return tri_text_printf(out, ", \"%s\": ", name);
}

static tri_status put_number(tri_text *out, const char *name, double x) {
  TRI_TRY(put_name(out, name));
  return tri_json_put_double(out, x);
}

/* Writes -1 as null. */
static tri_status put_count(tri_text *out, const char *name, int64_t n) {
  return put_number(out, name, n < 0 ? NAN : (double)n);
}

/* Writes NULL and "" as null. */
static tri_status put_text(tri_text *out, const char *name, const char *text) {
  TRI_TRY(put_name(out, name));
  return text && *text ? put_string(out, text) : tri_text_put(out, "null", 4);
}

static tri_status put_alarms(const tri_history *h, tri_text *out) {
  TRI_TRY(put_name(out, "alarms"));
  TRI_TRY(tri_text_put(out, "[", 1));
  for (int i = tri_history_first_alarm(h), first = i; i < tri_history_n_alarms(h); i++) {
    TRI_TRY(tri_text_printf(out, "%s{\"level\": \"%s\", \"text\": ", i > first ? ", " : "",
                            tri_history_alarm_is_error(h, i) ? "error" : "warning"));
    TRI_TRY(put_string(out, tri_history_alarm(h, i)));
    TRI_TRY(put_text(out, "code", tri_history_alarm_code(h, i)));
    TRI_TRY(put_count(out, "step", tri_history_alarm_step(h, i)));
    TRI_TRY(tri_text_put(out, "}", 1));
  }
  return tri_text_put(out, "]", 1);
}

static tri_status put_metric(const tri_history *h, const char *name, tri_text *out) {
  int                i = tri_history_find(h, name), n;
  int64_t            row = -1;
  double             part[CURVE], last;
  tri_history_points p;

  if (i < 0) return tri_text_put(out, "null", 4);
  p = tri_history_points_of(h, i);
  last = tri_look_last(p.value, p.n, &row);
  n = tri_look_compress(p.value, p.n, CURVE, part);
  TRI_TRY(tri_text_put(out, "{\"value\": ", 10));
  TRI_TRY(tri_json_put_double(out, last));
  TRI_TRY(put_count(out, "step", row < 0 ? -1 : tri_history_step(h)[p.row[row]]));
  TRI_TRY(put_name(out, "curve"));
  for (int k = 0; k < n; k++) {
    TRI_TRY(tri_text_put(out, k ? ", " : "[", k ? 2 : 1));
    TRI_TRY(tri_json_put_double(out, part[k]));
  }
  return tri_text_put(out, n ? "]}" : "[]}", n ? 2 : 3);
}

static tri_status put_metrics(const tri_history *h, const tri_look_metric *metric, int n, tri_text *out) {
  TRI_TRY(put_name(out, "metrics"));
  TRI_TRY(tri_text_put(out, "{", 1));
  for (int k = 0; k < n; k++) {
    if (k) TRI_TRY(tri_text_put(out, ", ", 2));
    TRI_TRY(put_string(out, metric[k].name));
    TRI_TRY(tri_text_put(out, ": ", 2));
    TRI_TRY(put_metric(h, metric[k].name, out));
  }
  return tri_text_put(out, "}", 1);
}

/* Writes how the newest start ended, or null if nothing tells. */
static tri_status put_end(const tri_history *h, tri_text *out) {
  tri_ending e = tri_history_ending(h);

  if (e.state == TRI_ENDING_OPEN) return put_text(out, "end", NULL);
  TRI_TRY(tri_text_printf(out, ", \"end\": {\"state\": \"%s\"", tri_ending_word(e.state)));
  TRI_TRY(put_count(out, "exit_code", e.exit_code));
  TRI_TRY(put_text(out, "cause", e.cause));
  TRI_TRY(put_count(out, "rank", e.rank));
  TRI_TRY(put_text(out, "node", e.node));
  TRI_TRY(put_count(out, "step", e.step));
  TRI_TRY(put_number(out, "time_unix_s", e.time_unix_s > 0 ? e.time_unix_s : NAN));
  TRI_TRY(put_text(out, "text", e.text));
  return tri_text_put(out, "}", 1);
}

static tri_status put_facts(const tri_history *h, double now_unix_s, tri_text *out) {
  const tri_history_life *life = tri_history_life_of(h);
  tri_look_facts          f;

  tri_look_facts_make(h, now_unix_s, &f);
  TRI_TRY(put_text(out, "state", tri_look_state_word(f.state)));
  TRI_TRY(put_text(out, "phase", f.phase));
  TRI_TRY(put_text(out, "algo", tri_history_deck(h, "algo.name")));
  TRI_TRY(put_count(out, "step", f.step));
  TRI_TRY(put_count(out, "steps", f.steps));
  TRI_TRY(put_number(out, "step_s", f.step_s));
  TRI_TRY(put_number(out, "tokens_per_s", f.tokens_per_s));
  TRI_TRY(put_number(out, "left_s", f.left_s));
  TRI_TRY(put_number(out, "trained_s", f.trained_s));
  TRI_TRY(put_number(out, "since_s", f.since_s));
  TRI_TRY(put_number(out, "silent_s", f.silent_s));
  TRI_TRY(put_text(out, "host", life->host));
  TRI_TRY(put_count(out, "starts", tri_history_starts(h)));
  TRI_TRY(put_count(out, "checkpoint_step", life->checkpoint));
  TRI_TRY(
      put_number(out, "checkpoint_age_s", life->checkpoint < 0 ? NAN : now_unix_s - life->checkpoint_unix_s));
  TRI_TRY(put_count(out, "bad_lines", tri_history_bad_lines(h)));
  TRI_TRY(put_count(out, "bad_events", tri_history_bad_events(h)));
  return put_end(h, out);
}

tri_status tri_look_json(const tri_look *l, const tri_look_how *how, double now_unix_s, tri_text *out) {
  tri_look_metric metric[TRI_LOOK_METRICS_MOST];
  int             n = tri_look_choose(l, how, metric);

  for (int i = 0; i < l->n; i++) {
    const tri_look_run *run = &l->run[i];
    TRI_TRY(tri_text_put(out, "{\"output\": ", 11));
    TRI_TRY(put_string(out, tri_history_folder(run->h)));
    TRI_TRY(put_text(out, "fault", run->error));
    TRI_TRY(put_facts(run->h, now_unix_s, out));
    TRI_TRY(put_alarms(run->h, out));
    TRI_TRY(put_metrics(run->h, metric, n, out));
    TRI_TRY(tri_text_put(out, "}\n", 2));
  }
  return TRI_OK;
}
