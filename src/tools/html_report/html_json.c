/* html_json.c - writes the comparison of runs as one JSON value. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "html_facts.h"

#include <math.h>
#include <string.h>

#include "base/visible.h"
#include "io/text/json_text.h"

/* Writes foreign text. Bytes outside UTF-8 become visible. */
static tri_status put_text(tri_text *out, const char *text) {
  size_t     n = strlen(text), cap = n * TRI_VISIBLE_MOST + 1;
  char      *shown = NULL;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(shown, cap));
  n = tri_visible(text, n, "\n\t", shown, cap);
  TRI_TRY_DONE(tri_json_put_string(out, shown, n));
done:
  TRI_FREE(shown);
  return st;
}

/* Writes "name": text, or null. */
static tri_status put_member(tri_text *out, const char *name, const char *text) {
  TRI_TRY(tri_text_printf(out, "\"%s\": ", name));
  if (text)
    TRI_TRY(put_text(out, text));
  else
    TRI_TRY(tri_text_printf(out, "null"));
  return tri_text_printf(out, ", ");
}

static tri_status put_number(tri_text *out, const char *name, double x) {
  TRI_TRY(tri_text_printf(out, "\"%s\": ", name));
  TRI_TRY(tri_json_put_double(out, x));
  return tri_text_printf(out, ", ");
}

/* Returns NaN for an unknown count, one below `least`. */
static double known(int64_t n, int64_t least) { return n >= least ? (double)n : (double)NAN; }

static tri_status put_score(tri_text *out, const char *name, const tri_html_score *s) {
  if (!s->name) return tri_text_printf(out, "\"%s\": null, ", name);
  TRI_TRY(tri_text_printf(out, "\"%s\": {", name));
  TRI_TRY(put_member(out, "metric", s->name));
  TRI_TRY(put_number(out, "first", s->first));
  TRI_TRY(put_number(out, "best", s->best));
  TRI_TRY(put_number(out, "last", s->last));
  return tri_text_printf(out, "\"best_step\": %lld, \"last_step\": %lld}, ", (long long)s->best_step,
                         (long long)s->last_step);
}

static tri_status put_metric(const tri_history *h, int series, tri_text *out) {
  tri_history_points p = tri_history_points_of(h, series);
  double             low = (double)NAN, high = (double)NAN;

  for (int64_t i = 0; i < p.n; i++) {
    low = fmin(low, p.value[i]);
    high = fmax(high, p.value[i]);
  }
  TRI_TRY(put_text(out, tri_history_name(h, series)));
  TRI_TRY(tri_text_printf(out, ": {\"n\": %lld, ", (long long)p.n));
  TRI_TRY(put_number(out, "first", p.n ? p.value[0] : (double)NAN));
  TRI_TRY(put_number(out, "last", p.n ? p.value[p.n - 1] : (double)NAN));
  TRI_TRY(put_number(out, "min", low));
  TRI_TRY(put_number(out, "max", high));
  if (!p.n) return tri_text_printf(out, "\"last_step\": null}");
  return tri_text_printf(out, "\"last_step\": %lld}", (long long)tri_history_step(h)[p.row[p.n - 1]]);
}

/* Writes how the newest start ended with the fields of `trireme watch --json`, or null without a record. */
static tri_status put_end(const tri_history *h, tri_text *out) {
  tri_ending e = tri_history_ending(h);

  if (e.state == TRI_ENDING_OPEN) return put_member(out, "end", NULL);
  TRI_TRY(tri_text_printf(out, "\"end\": {"));
  TRI_TRY(put_number(out, "exit_code", known(e.exit_code, 0)));
  TRI_TRY(put_member(out, "cause", e.cause[0] ? e.cause : NULL));
  TRI_TRY(put_number(out, "rank", known(e.rank, 0)));
  TRI_TRY(put_member(out, "node", e.node[0] ? e.node : NULL));
  TRI_TRY(put_number(out, "step", known(e.step, 0)));
  TRI_TRY(put_number(out, "time_unix_s", e.time_unix_s > 0 ? e.time_unix_s : (double)NAN));
  TRI_TRY(put_member(out, "text", e.text[0] ? e.text : NULL));
  return tri_text_printf(out, "\"state\": \"%s\"}, ", tri_ending_word(e.state));
}

static tri_status put_run(const tri_html_run *r, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "{"));
  TRI_TRY(put_member(out, "output", tri_history_folder(r->h)));
  TRI_TRY(put_member(out, "name", r->name));
  TRI_TRY(put_member(out, "state", tri_look_state_word(r->seen.state)));
  TRI_TRY(put_end(r->h, out));
  TRI_TRY(put_member(out, "algo", tri_html_algo(r)));
  TRI_TRY(put_member(out, "model", tri_html_model(r)));
  TRI_TRY(put_number(out, "ranks", known(r->begun.n_ranks, 1)));
  TRI_TRY(put_number(out, "step", (double)r->seen.step));
  TRI_TRY(put_number(out, "steps", known(r->seen.steps, 1)));
  TRI_TRY(put_number(out, "checkpoint_step", known(tri_history_checkpoint(r->h), 0)));
  TRI_TRY(put_number(out, "best_checkpoint_step", known(r->marks.best, 0)));
  TRI_TRY(tri_text_printf(out, "\"deck_changed_steps\": ["));
  TRI_TRY(tri_marks_list(&r->marks, out));
  TRI_TRY(tri_text_printf(out, "], "));
  TRI_TRY(put_number(out, "first_unix_s", r->began_unix_s > 0 ? r->began_unix_s : (double)NAN));
  TRI_TRY(put_number(out, "last_unix_s", r->last_unix_s > 0 ? r->last_unix_s : (double)NAN));
  TRI_TRY(put_number(out, "time_steps_s", r->spent_s));
  TRI_TRY(put_number(out, "tokens", r->tokens));
  TRI_TRY(put_number(out, "tokens_per_s", r->rate));
  TRI_TRY(put_score(out, "training", &r->reward));
  TRI_TRY(put_score(out, "eval", &r->eval));
  TRI_TRY(put_number(out, "eval_truncated_ratio", r->eval_cut));
  TRI_TRY(put_number(out, "bad_lines", (double)tri_history_bad_lines(r->h)));
  TRI_TRY(tri_text_printf(out, "\"alarms\": ["));
  for (int i = 0; i < tri_history_n_alarms(r->h); i++) {
    TRI_TRY(tri_text_printf(out, "%s", i ? ", " : ""));
    TRI_TRY(put_text(out, tri_history_alarm(r->h, i)));
  }
  TRI_TRY(tri_text_printf(out, "], \"alarm_codes\": ["));
  for (int i = 0; i < tri_history_n_alarms(r->h); i++) {
    TRI_TRY(tri_text_printf(out, "%s", i ? ", " : ""));
    TRI_TRY(put_text(out, tri_history_alarm_code(r->h, i)));
  }
  TRI_TRY(tri_text_printf(out, "], \"metrics\": {"));
  for (int i = 0; i < tri_history_n_series(r->h); i++) {
    TRI_TRY(tri_text_printf(out, "%s", i ? ", " : ""));
    TRI_TRY(put_metric(r->h, i, out));
  }
  return tri_text_printf(out, "}}");
}

static tri_status put_difference(const tri_html_report *p, const char *key, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "{"));
  TRI_TRY(put_member(out, "key", key));
  TRI_TRY(tri_text_printf(out, "\"values\": ["));
  for (int i = 0; i < p->n; i++) {
    const char *value = tri_history_deck(p->run[i].h, key);
    TRI_TRY(tri_text_printf(out, "%s", i ? ", " : ""));
    if (value)
      TRI_TRY(put_text(out, value));
    else
      TRI_TRY(tri_text_printf(out, "null"));
  }
  return tri_text_printf(out, "]}");
}

tri_status tri_html_report_json(const tri_html_report *p, tri_text *out) {
  int run = 0, at = -1, n = 0;

  TRI_TRY(tri_text_printf(out, "{\"runs\": ["));
  for (int i = 0; i < p->n; i++) {
    TRI_TRY(tri_text_printf(out, "%s", i ? ", " : ""));
    TRI_TRY(put_run(&p->run[i], out));
  }
  TRI_TRY(tri_text_printf(out, "], \"differences\": ["));
  for (const char *key; (key = tri_html_next_key(p, &run, &at)) != NULL;) {
    if (!tri_html_differs(p, key)) continue;
    TRI_TRY(tri_text_printf(out, "%s", n++ ? ", " : ""));
    TRI_TRY(put_difference(p, key, out));
  }
  return tri_text_printf(out, "]}\n");
}
