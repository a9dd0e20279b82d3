/* text.c - writes the comparison of runs on one screen of text. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "html_facts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/columns.h"
#include "base/visible.h"
#include "metric/metric_names.h"

enum {
  BLOCKS = 3,         /* up to so many runs get a block of lines, more get a row each, chosen */
  NAME_COLUMNS = 19,  /* columns of a row's name */
  VALUE_COLUMNS = 28, /* columns of a deck's value, whole in the HTML report */
  DIFFERENCES = 12,   /* chosen as the rest of a screen */
  SHOWN_BYTES = 1024
};

/* Makes foreign text visible and cuts it to `columns`. */
static void show(const char *text, int columns, char out[SHOWN_BYTES]) {
  char visible[SHOWN_BYTES];

  tri_visible(text, strlen(text), "", visible, sizeof visible);
  tri_text_shorten(visible, columns, out, SHOWN_BYTES);
}

/* Writes a number as in the HTML report. */
static tri_status number(double x, char out[TRI_WHEN_BYTES]) {
  tri_text text = {0};

  TRI_TRY(tri_html_put_number(&text, x, false));
  snprintf(out, TRI_WHEN_BYTES, "%s", text.data);
  tri_text_free(&text);
  return TRI_OK;
}

static void steps_of(const tri_html_run *r, char out[TRI_WHEN_BYTES]) {
  if (r->seen.steps > 0)
    snprintf(out, TRI_WHEN_BYTES, "%lld of %lld", (long long)r->seen.step, (long long)r->seen.steps);
  else
    snprintf(out, TRI_WHEN_BYTES, "%lld", (long long)r->seen.step);
}

static tri_status put_scores(const tri_html_run *r, tri_text *out) {
  char first[TRI_WHEN_BYTES], best[TRI_WHEN_BYTES], last[TRI_WHEN_BYTES], name[SHOWN_BYTES];

  if (r->reward.name) {
    TRI_TRY(number(r->reward.first, first));
    TRI_TRY(number(r->reward.last, last));
    show(r->reward.name, 40, name);
    TRI_LINE(out, "    %s: %s, at first %s (means of 10 lines)", name, last, first);
  }
  if (r->eval.name) {
    TRI_TRY(number(r->eval.best, best));
    TRI_TRY(number(r->eval.first, first));
    TRI_TRY(number(r->eval.last, last));
    show(r->eval.name, 40, name);
    TRI_LINE(out, "    %s: best %s at step %lld; at first %s, newest %s at step %lld", name, best,
             (long long)r->eval.best_step, first, last, (long long)r->eval.last_step);
    if (isfinite(r->eval_cut))
      TRI_LINE(out, "    eval_truncated_ratio: %.1f %% of the newest evaluation's answers were cut off",
               100 * r->eval_cut);
  }
  return TRI_OK;
}

/* Tells readers who compare decks that this run's deck changed on the way. */
static tri_status put_changes(const tri_marks *m, tri_text *out) {
  tri_text   list = {0};
  tri_status st = TRI_OK;

  if (!m->n) return TRI_OK;
  st = tri_marks_list(m, &list);
  if (st == TRI_OK)
    st = tri_text_printf(out, "    another deck until step %s: deck.step-*.yaml in its folder\n", list.data);
  tri_text_free(&list);
  return st;
}

/* Writes the text below the name of a run, with a margin of four spaces. */
static tri_status put_indented(const char *text, tri_text *out) {
  tri_text   wrapped = {0};
  tri_status st = tri_text_wrap(text, TRI_SCREEN_COLUMNS - 4, &wrapped);

  for (const char *at = wrapped.data; st == TRI_OK && at && *at; at += strcspn(at, "\n"), at += *at == '\n')
    st = tri_text_printf(out, "    %.*s\n", (int)strcspn(at, "\n"), at);
  tri_text_free(&wrapped);
  return st;
}

/* Writes why the run ended, and the error if there was one. */
static tri_status put_why(const tri_html_run *r, tri_text *out) {
  tri_ending e = tri_history_ending(r->h);
  tri_text   why = {0};
  tri_status st = tri_look_why(r->h, &r->seen, &why);

  if (st == TRI_OK && why.len && e.state == TRI_ENDING_FAILED && e.text[0])
    st = tri_text_printf(&why, ": %s", e.text);
  if (st == TRI_OK && why.len) st = put_indented(why.data, out);
  tri_text_free(&why);
  return st;
}

static tri_status put_block(const tri_html_run *r, tri_text *out) {
  char ranks[TRI_WHEN_BYTES] = "", name[SHOWN_BYTES], model[SHOWN_BYTES], algo[SHOWN_BYTES],
       steps[TRI_WHEN_BYTES], began[TRI_WHEN_BYTES], last[TRI_WHEN_BYTES], spent[TRI_WHEN_BYTES],
       tokens[TRI_WHEN_BYTES], rate[TRI_WHEN_BYTES];

  show(r->name, 60, name);
  show(tri_html_algo(r), 24, algo);
  show(tri_html_model(r), 48, model);
  steps_of(r, steps);
  TRI_LINE(out, "%s: %s, step %s", name, tri_look_state_word(r->seen.state), steps);
  TRI_TRY(put_why(r, out));
  if (r->begun.n_ranks > 0)
    snprintf(ranks, sizeof ranks, ", %lld rank%s", (long long)r->begun.n_ranks,
             r->begun.n_ranks == 1 ? "" : "s");
  if (algo[0] || model[0])
    TRI_LINE(out, "    %s, model %s%s", algo[0] ? algo : "-", model[0] ? model : "-", ranks);
  TRI_TRY(put_scores(r, out));
  if (isfinite(r->spent_s)) {
    tri_html_duration(r->spent_s, spent);
    TRI_TRY(number(r->tokens, tokens));
    TRI_TRY(number(r->rate, rate));
    TRI_LINE(out, "    %s in steps, %s tokens trained, median of %s tokens per second", spent, tokens, rate);
  }
  if (r->began_unix_s > 0) {
    tri_html_when(r->began_unix_s, began);
    tri_html_when(r->last_unix_s, last);
    TRI_LINE(out, "    lines from %s to %s", began, last);
  }
  if (tri_history_checkpoint(r->h) >= 0)
    TRI_LINE(out, "    newest checkpoint: step %lld", (long long)tri_history_checkpoint(r->h));
  if (r->marks.best >= 0)
    TRI_LINE(out, "    best checkpoint: step %lld (checkpoints/BEST)", (long long)r->marks.best);
  TRI_TRY(put_changes(&r->marks, out));
  if (tri_history_n_alarms(r->h)) TRI_LINE(out, "    warnings and errors: %d", tri_history_n_alarms(r->h));
  if (tri_history_bad_lines(r->h))
    TRI_LINE(out, "    lines of metrics.jsonl skipped: %lld", (long long)tri_history_bad_lines(r->h));
  return TRI_OK;
}

/* ---- many runs ---- */

static tri_status put_row(const tri_html_run *r, tri_text *out) {
  char name[SHOWN_BYTES], last[TRI_WHEN_BYTES], best[TRI_WHEN_BYTES], spent[TRI_WHEN_BYTES],
      cut[TRI_CELL_BYTES] = "-";
  int pad;

  show(r->name, NAME_COLUMNS, name);
  pad = NAME_COLUMNS - tri_text_columns(name, strlen(name));
  TRI_TRY(number(r->reward.name ? r->reward.last : (double)NAN, last));
  TRI_TRY(number(r->eval.name ? r->eval.best : (double)NAN, best));
  if (isfinite(r->eval_cut)) tri_cell_share(r->eval_cut, 4, cut);
  tri_html_duration(r->spent_s, spent);
  return tri_text_printf(out, "%s%*s  %-8s %8lld %9.9s %9.9s %4.4s  %.13s\n", name, pad, "",
                         tri_look_state_word(r->seen.state), (long long)(r->seen.step % 100000000), last,
                         best, cut, spent);
}

static tri_status put_rows(const tri_html_report *p, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "%-*s  %-8s %8s %9s %9s %4s  %s\n", NAME_COLUMNS, "run", "state", "step",
                          tri_metric_word("reward_mean"), "best eval",
                          tri_metric_word("eval_truncated_ratio"), "in steps"));
  for (int i = 0; i < p->n; i++) TRI_TRY(put_row(&p->run[i], out));
  return TRI_OK;
}

/* ---- decks ---- */

static tri_status put_difference(const tri_html_report *p, const char *key, tri_text *out) {
  tri_text   line = {0};
  char       shown[SHOWN_BYTES];
  tri_status st = TRI_OK;

  show(key, 48, shown);
  TRI_TRY_DONE(tri_text_printf(&line, "  %s:", shown));
  for (int i = 0; i < p->n; i++) {
    const char *value = tri_history_deck(p->run[i].h, key);
    show(value ? value : "not there", VALUE_COLUMNS, shown);
    TRI_TRY_DONE(tri_text_printf(&line, "%s %s", i ? " |" : "", shown));
  }
  TRI_TRY_DONE(tri_text_line(line.data, out));
done:
  tri_text_free(&line);
  return st;
}

static tri_status put_differences(const tri_html_report *p, tri_text *out) {
  int  run = 0, at = -1, n = 0;
  bool all = true;
  char name[SHOWN_BYTES];

  for (int i = 0; i < p->n; i++) {
    if (!tri_history_deck_error(p->run[i].h)) continue;
    show(p->run[i].name, 40, name);
    TRI_LINE(out, "%s: its deck cannot be read, and is not compared", name);
    all = false;
  }
  for (const char *key; (key = tri_html_next_key(p, &run, &at)) != NULL;) {
    if (!tri_html_differs(p, key)) continue;
    if (n++ == 0) TRI_TRY(tri_text_printf(out, "differences between the decks:\n"));
    if (n <= DIFFERENCES) TRI_TRY(put_difference(p, key, out));
  }
  if (n > DIFFERENCES) TRI_LINE(out, "  and %d more, all of them with --html or --json", n - DIFFERENCES);
  return n || !all ? TRI_OK : tri_text_printf(out, "the decks differ only in run.output\n");
}

tri_status tri_html_report_text(const tri_html_report *p, tri_text *out) {
  if (p->n > BLOCKS) TRI_TRY(put_rows(p, out));
  for (int i = 0; p->n <= BLOCKS && i < p->n; i++) TRI_TRY(put_block(&p->run[i], out));
  return p->n > 1 ? put_differences(p, out) : TRI_OK;
}
