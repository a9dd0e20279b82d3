/* panel.c - writes one run as lines of text with its state, steps, curves, last checkpoint and warnings. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "look_impl.h"
#include "metric/metric_names.h"

#include "base/visible.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
  LABEL_MOST = 28, /* columns, chosen for response_length_mean_tokens */
  VALUE = 7,       /* columns of a number */
  RANGE = 17,      /* columns of " 0.0119 to 0.7500" */
  ALARMS = 3,      /* warnings shown, chosen */
  ALARM_LINES = 2, /* lines of a warning, more for the last because it says what to do */
  LAST_ALARM_LINES = 6,
  TEXT_BYTES = 1024
};
static const char bold[] = "1", dim[] = "2", red[] = "31", green[] = "32", yellow[] = "33";

void tri_look_lines_free(tri_look_lines *lines) {
  for (int64_t i = 0; i < lines->n; i++) tri_text_free(&lines->line[i].text);
  TRI_FREE(lines->line);
  *lines = (tri_look_lines){0};
}

static tri_status begin(tri_look_lines *out) {
  TRI_TRY(TRI_GROW(out->line, out->cap, out->n + 1));
  out->line[out->n++] = (tri_look_line){.columns = 0};
  return TRI_OK;
}

/* Adds text [n], `columns` wide, to the last line. `look` is the number of an escape sequence, or NULL for
 * plain text. */
static tri_status put(const tri_look_frame *f, tri_look_lines *out, const char *look, const char *text,
                      size_t n, int columns) {
  tri_look_line *line = &out->line[out->n - 1];

  if (!f->how->colour) look = NULL;
  if (look) TRI_TRY(tri_text_printf(&line->text, "\033[%sm", look));
  TRI_TRY(tri_text_put(&line->text, text, n));
  if (look) TRI_TRY(tri_text_put(&line->text, "\033[0m", 4));
  line->columns += columns;
  return TRI_OK;
}

static tri_status put_text(const tri_look_frame *f, tri_look_lines *out, const char *look, const char *text) {
  size_t n = strlen(text);

  return put(f, out, look, text, n, tri_text_columns(text, n));
}

static tri_status put_spaces(const tri_look_frame *f, tri_look_lines *out, int n) {
  char text[TEXT_BYTES];

  if (n <= 0) return TRI_OK;
  snprintf(text, sizeof text, "%*s", n, "");
  return put_text(f, out, NULL, text);
}

/* Wraps text at words and newlines into at most `most` lines, each cut to the panel's width. */
static tri_status put_wrapped(const tri_look_frame *f, tri_look_lines *out, const char *look,
                              const char *text, int most) {
  tri_status st = TRI_OK;
  tri_text   wrapped = {0};
  char       line[TEXT_BYTES], cut[TEXT_BYTES];
  int        n = 0;

  TRI_TRY_DONE(tri_text_wrap(text, f->columns, &wrapped));
  for (const char *at = wrapped.data, *end; at && *at && n < most; at = *end ? end + 1 : end) {
    end = at + strcspn(at, "\n");
    bool last = ++n == most && *end;
    snprintf(line, sizeof line, "%.*s%s", (int)(end - at), at, last ? " ..." : "");
    tri_text_shorten(line, f->columns, cut, sizeof cut);
    TRI_TRY_DONE(begin(out));
    TRI_TRY_DONE(put_text(f, out, look, cut));
  }
done:
  tri_text_free(&wrapped);
  return st;
}

/* ---- state and steps ---- */

static const char *age(double s, char out[TRI_CELL_BYTES]) {
  tri_cell_duration(s, out);
  return out;
}

static const char *look_of(tri_look_state s) {
  switch (s) {
  case TRI_LOOK_FAILED:
  case TRI_LOOK_KILLED:
    return red;
  case TRI_LOOK_SILENT:
  case TRI_LOOK_STOPPED:
    return yellow;
  default:
    return green;
  }
}

static tri_status put_state(const tri_look_frame *f, const tri_history *h, const tri_look_facts *facts,
                            tri_look_lines *out) {
  const tri_history_life *life = tri_history_life_of(h);
  char                    text[TEXT_BYTES], since[TRI_CELL_BYTES], step[TRI_CELL_BYTES];
  const char             *host = life->host[0] ? life->host : "its node";

  age(facts->silent_s, since);
  snprintf(text, sizeof text, "%s", tri_look_state_word(facts->state));
  if (facts->phase[0]) snprintf(text + strlen(text), sizeof text - strlen(text), ": %s", facts->phase);
  if (facts->state == TRI_LOOK_RUNNING && facts->since_s >= 1 && !life->is_saving)
    snprintf(text + strlen(text), sizeof text - strlen(text), " for %s", age(facts->since_s, step));
  if (facts->is_quiet) snprintf(text + strlen(text), sizeof text - strlen(text), "; silent for %s", since);
  if (facts->state == TRI_LOOK_STOPPED) snprintf(text, sizeof text, "stopped, to be resumed");
  if (facts->state == TRI_LOOK_KILLED)
    snprintf(text, sizeof text, "killed: its process on %s is gone, last heard of %s ago", host, since);
  if (facts->state == TRI_LOOK_SILENT)
    snprintf(text, sizeof text, "no sign of life for %s%s%s%s", isnan(facts->silent_s) ? "long" : since,
             life->has_start ? " (rank 0 on " : "", life->has_start ? host : "", life->has_start ? ")" : "");
  return put_wrapped(f, out, facts->is_quiet ? yellow : look_of(facts->state), text, 3);
}

/* Writes why the run ended, in up to three lines. Writes nothing for a run that goes on. */
static tri_status put_ending(const tri_look_frame *f, const tri_history *h, const tri_look_facts *facts,
                             tri_look_lines *out) {
  tri_text   text = {0};
  tri_status st = tri_look_why(h, facts, &text);

  if (st == TRI_OK && text.len) st = put_wrapped(f, out, look_of(facts->state), text.data, 3);
  tri_text_free(&text);
  return st;
}

/* Draws a bar of `columns` columns, filled to the share `part`. */
static tri_status put_bar(const tri_look_frame *f, tri_look_lines *out, int columns, double part) {
  int        full = part >= 1 ? columns : part > 0 ? (int)(part * columns) : 0;
  tri_text   bar = {0};
  tri_status st = TRI_OK;

  for (int i = 0; i < columns; i++) {
    const char *mark = f->how->utf8 ? (i < full ? "\xe2\x96\x88" : "\xe2\x96\x91") : i < full ? "#" : ".";
    TRI_TRY_DONE(tri_text_put(&bar, mark, strlen(mark)));
  }
  TRI_TRY_DONE(put(f, out, NULL, bar.data, bar.len, columns));
done:
  tri_text_free(&bar);
  return st;
}

static tri_status put_steps(const tri_look_frame *f, const tri_look_facts *facts, tri_look_lines *out) {
  char   text[TEXT_BYTES], share[TRI_CELL_BYTES], steps[TRI_CELL_BYTES];
  double part = facts->steps > 0 ? (double)facts->step / (double)facts->steps : 0;
  int    space;

  if (facts->steps <= 0) {
    snprintf(text, sizeof text, "step %lld", (long long)facts->step);
    return put_wrapped(f, out, NULL, text, 1);
  }
  tri_cell_steps(facts->step, facts->steps, f->columns < 30 ? 13 : 16, steps);
  tri_cell_share(part < 1 ? floor(part * 100) / 100 : 1, 5, share); /* 100% only after the last step */
  snprintf(text, sizeof text, "step %s ", steps);
  TRI_TRY(begin(out));
  TRI_TRY(put_text(f, out, NULL, text));
  space = f->columns - (int)strlen(text) - 6;
  if (space >= 4) TRI_TRY(put_bar(f, out, space < 40 ? space : 40, part));
  snprintf(text, sizeof text, "%5s", share);
  return space >= 0 ? put_text(f, out, NULL, text) : TRI_OK;
}

static tri_status put_pace(const tri_look_frame *f, const tri_look_facts *facts, tri_look_lines *out) {
  char text[TEXT_BYTES] = "", cell[TRI_CELL_BYTES];
  int  n = 0;

  if (isfinite(facts->step_s)) {
    tri_cell_digits(facts->step_s, 7, cell);
    n += snprintf(text + n, sizeof text - (size_t)n, "%s %s", cell, tri_metric_word("step_s"));
  }
  if (isfinite(facts->tokens_per_s)) {
    tri_cell_count(facts->tokens_per_s, 5, cell);
    n += snprintf(text + n, sizeof text - (size_t)n, "%s%s %s", n ? ", " : "", cell,
                  tri_metric_word("tokens_per_s"));
  }
  if (isfinite(facts->left_s))
    snprintf(text + n, sizeof text - (size_t)n, "%s%s left", n ? ", " : "", age(facts->left_s, cell));
  else if (facts->trained_s > 0)
    snprintf(text + n, sizeof text - (size_t)n, "%stook %s", n ? ", " : "", age(facts->trained_s, cell));
  return text[0] ? put_wrapped(f, out, NULL, text, 2) : TRI_OK;
}

/* ---- curves ---- */

static int label_columns(const tri_look_frame *f) {
  int columns = 4, most = f->columns / 3 < LABEL_MOST ? f->columns / 3 : LABEL_MOST;

  for (int i = 0; i < f->n_metric; i++) {
    int n = tri_text_columns(f->metric[i].label, strlen(f->metric[i].label));
    if (n > columns) columns = n;
  }
  return columns < most ? columns : most < 5 ? 5 : most;
}

int tri_look_curve_columns(const tri_look_frame *f) {
  int columns = f->columns - label_columns(f) - VALUE - 3;

  if (f->columns >= TRI_LOOK_SCALE_COLUMNS) columns -= RANGE + 2;
  return columns < 0 ? 0 : columns > TRI_LOOK_CURVE_MOST ? TRI_LOOK_CURVE_MOST : columns;
}

static tri_status put_label(const tri_look_frame *f, const tri_look_metric *m, tri_look_lines *out) {
  char        shown[TEXT_BYTES], label[TEXT_BYTES];
  const char *name = shown;
  int         columns = label_columns(f);

  tri_visible(m->label, strlen(m->label), "", shown, sizeof shown);
  if (tri_text_columns(shown, strlen(shown)) > columns && !strncmp(shown, "eval_", 5))
    name += 5; /* the name of the evaluation set tells more */
  tri_text_shorten(name, columns, label, sizeof label);
  TRI_TRY(begin(out));
  TRI_TRY(put_text(f, out, dim, label));
  return put_spaces(f, out, columns + 1 - out->line[out->n - 1].columns);
}

static tri_status put_range(const tri_look_frame *f, const tri_look_metric *m, const tri_look_scale *s,
                            tri_look_lines *out) {
  char low[TRI_CELL_BYTES], high[TRI_CELL_BYTES], text[TEXT_BYTES];

  if (f->columns < TRI_LOOK_SCALE_COLUMNS || isnan(s->low)) return TRI_OK;
  m->cell(s->low, 6, low);
  m->cell(s->high, 6, high);
  TRI_TRY(put_spaces(f, out, f->columns - RANGE - out->line[out->n - 1].columns));
  snprintf(text, sizeof text, "%7s to %s", low, high);
  return put_text(f, out, dim, text);
}

/* Writes "-" for a metric that this run lacks, with the nearest name if one is similar. */
static tri_status put_absent(const tri_look_frame *f, const tri_history *h, const tri_look_metric *m,
                             tri_look_lines *out) {
  const char *name[1024], *near;
  char        text[TEXT_BYTES], shown[TEXT_BYTES * 2], cut[TEXT_BYTES * 2];
  int         n = tri_history_n_series(h), space = f->columns - out->line[out->n - 1].columns;

  if (n > 1024) n = 1024;
  for (int i = 0; i < n; i++) name[i] = tri_history_name(h, i);
  near = f->how->n_metric && n ? tri_nearest(m->name, name, n) : NULL;
  snprintf(text, sizeof text, near ? "%*s  did you mean %s?" : "%*s%s", VALUE, "-", near ? near : "");
  if (space < 5) return TRI_OK;
  tri_visible(text, strlen(text), "", shown, sizeof shown);
  tri_text_shorten(shown, space, cut, sizeof cut);
  return put_text(f, out, NULL, cut);
}

static tri_status put_curve(const tri_look_frame *f, const tri_history *h, int k, tri_look_lines *out) {
  const tri_look_metric *m = &f->metric[k];
  int                    i = tri_history_find(h, m->name), n, width = tri_look_curve_columns(f);
  double                 part[TRI_LOOK_CURVE_MOST], last;
  char                   cell[TRI_CELL_BYTES], text[TRI_CELL_BYTES + 8];
  int64_t                row;
  tri_history_points     p = {NULL, NULL, 0};
  tri_text               marks = {0};
  tri_status             st = TRI_OK;

  TRI_TRY(put_label(f, m, out));
  if (i >= 0) p = tri_history_points_of(h, i);
  last = tri_look_last(p.value, p.n, &row);
  if (isnan(last)) return put_absent(f, h, m, out);
  m->cell(last, VALUE, cell);
  snprintf(text, sizeof text, "%*s ", VALUE, cell);
  TRI_TRY(put_text(f, out, bold, text));
  n = tri_look_compress(p.value, p.n, width, part);
  TRI_TRY_DONE(tri_look_spark(part, n, f->scale[k].low, f->scale[k].high, f->how->utf8, &marks));
  if (marks.len) TRI_TRY_DONE(put(f, out, NULL, marks.data, marks.len, n));
  TRI_TRY_DONE(put_range(f, m, &f->scale[k], out));
done:
  tri_text_free(&marks);
  return st;
}

/* ---- the rest ---- */

static tri_status put_checkpoint(const tri_look_frame *f, const tri_history *h, const tri_look_facts *facts,
                                 tri_look_lines *out) {
  const tri_history_life *life = tri_history_life_of(h);
  char                    text[TEXT_BYTES], cell[TRI_CELL_BYTES];
  bool                    lost =
      (facts->state == TRI_LOOK_KILLED || facts->state == TRI_LOOK_FAILED) && life->checkpoint < facts->step;
  int n;

  if (life->checkpoint < 0)
    n = snprintf(text, sizeof text, "no checkpoint");
  else
    n = snprintf(text, sizeof text, "checkpoint after step %lld, %s ago", (long long)life->checkpoint,
                 age(f->now_unix_s - life->checkpoint_unix_s, cell));
  if (lost && life->checkpoint < 0)
    snprintf(text + n, sizeof text - (size_t)n, ": the next start begins anew");
  else if (lost)
    snprintf(text + n, sizeof text - (size_t)n, ": the next start goes on from there");
  return put_wrapped(f, out, lost ? yellow : NULL, text, 2);
}

/* The output of reward programs comes line by line. Consecutive lines, such as a traceback, count as one
 * warning here, shown by its last line. Returns true if alarm i and the next one belong together. */
static bool goes_on(const tri_history *h, int i) {
  int next = i + 1;

  return next < tri_history_n_alarms(h) && next != tri_history_first_alarm(h) &&
         !strcmp(tri_history_alarm_code(h, i), "reward_says") &&
         !strcmp(tri_history_alarm_code(h, next), "reward_says");
}

static tri_status put_alarms(const tri_look_frame *f, const tri_history *h, tri_look_lines *out) {
  int  n = tri_history_n_alarms(h), first = tri_history_first_alarm(h), from = n, earlier = 0;
  char text[TRI_MESSAGE_BYTES + 32];

  for (int i = n - 1, shown = 0; i >= first && shown < ALARMS; i--)
    if (!goes_on(h, i)) {
      from = i;
      shown++;
    }
  for (int i = from; i < n; i++) {
    bool is_error = tri_history_alarm_is_error(h, i);
    if (goes_on(h, i)) continue;
    snprintf(text, sizeof text, "%s: %s", is_error ? "error" : "warning", tri_history_alarm(h, i));
    TRI_TRY(put_wrapped(f, out, is_error ? red : yellow, text, i == n - 1 ? LAST_ALARM_LINES : ALARM_LINES));
  }
  for (int i = 0; i < from; i++) earlier += !goes_on(h, i);
  if (earlier > 0) {
    snprintf(text, sizeof text, "%d earlier warning%s or error%s", earlier, earlier == 1 ? "" : "s",
             earlier == 1 ? "" : "s");
    TRI_TRY(put_wrapped(f, out, dim, text, 1));
  }
  return TRI_OK;
}

static tri_status put_left_out(const tri_look_frame *f, const tri_history *h, tri_look_lines *out) {
  char    text[TEXT_BYTES];
  int64_t n = tri_history_bad_lines(h);

  if (tri_history_deck_error(h)) TRI_TRY(put_wrapped(f, out, dim, tri_history_deck_error(h), 2));
  if (!n) return TRI_OK;
  snprintf(text, sizeof text, "%lld line%s of metrics.jsonl left out: no JSON object with a step",
           (long long)n, n == 1 ? "" : "s");
  return put_wrapped(f, out, dim, text, 2);
}

static tri_status put_title(const tri_look_frame *f, const tri_history *h, tri_look_lines *out) {
  char        folder[TRI_MESSAGE_BYTES], cut[TRI_MESSAGE_BYTES], name[64] = "";
  const char *path = tri_history_folder(h), *algo = tri_history_deck(h, "algo.name");
  int         space;

  if (algo) tri_visible(algo, strlen(algo), "", name, sizeof name);
  space = f->columns - (name[0] ? tri_text_columns(name, strlen(name)) + 2 : 0);
  tri_visible(path, strlen(path), "", folder, sizeof folder);
  tri_text_shorten(folder, space < 10 ? f->columns : space, cut, sizeof cut);
  TRI_TRY(begin(out));
  TRI_TRY(put_text(f, out, bold, cut));
  if (!name[0] || space < 10) return TRI_OK;
  TRI_TRY(put_spaces(f, out, 2));
  return put_text(f, out, dim, name);
}

tri_status tri_look_panel(const tri_look_frame *f, const tri_look_run *run, tri_look_lines *out) {
  tri_look_facts facts;

  TRI_TRY(put_title(f, run->h, out));
  if (run->error) return put_wrapped(f, out, red, run->error, 4);
  tri_look_facts_make(run->h, f->now_unix_s, &facts);
  TRI_TRY(put_state(f, run->h, &facts, out));
  TRI_TRY(put_ending(f, run->h, &facts, out));
  TRI_TRY(put_steps(f, &facts, out));
  TRI_TRY(put_pace(f, &facts, out));
  for (int k = 0; k < f->n_metric; k++) TRI_TRY(put_curve(f, run->h, k, out));
  TRI_TRY(put_checkpoint(f, run->h, &facts, out));
  TRI_TRY(put_alarms(f, run->h, out));
  return put_left_out(f, run->h, out);
}
