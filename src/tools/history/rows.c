/* rows.c - holds metrics.jsonl as the numbers of each name, with a row for each line. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "history_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { METRICS_BYTES = 1 << 30 }; /* chosen as the size a run of a million steps writes */
/* Chosen as more than a run can do, and small enough for safe arithmetic. */
static const int64_t step_most = 1000000000000000;

static void clear(void *ctx) {
  tri_history_table *r = ctx;

  for (int64_t i = 0; i < r->n_series; i++) {
    TRI_FREE(r->series[i].row);
    TRI_FREE(r->series[i].value);
  }
  memset(r->slot, 0, sizeof r->slot);
  for (int64_t i = 0; i < r->n_word; i++) TRI_FREE(r->word[i].text);
  r->n_row = r->row_cap = r->n_bad = r->n_series = r->n_word = 0;
  TRI_FREE(r->step);
}

void tri_history_rows_free(tri_history_table *r) {
  clear(r);
  TRI_FREE(r->series);
  TRI_FREE(r->word);
  tri_history_fields_free(&r->fields);
  tri_history_tail_free(&r->tail);
}

static bool is_named(const char *have, const tri_history_field *f) {
  return !strncmp(have, f->name, (size_t)f->n_name) && !have[f->n_name];
}

/* Lines mostly have the same names in the same order. `guess` is the series after the one found last. */
static int64_t find_series(const tri_history_table *r, const tri_history_field *f, int64_t guess) {
  if (guess < r->n_series && is_named(r->series[guess].name, f)) return guess;
  for (size_t at = tri_history_slot(f->name, (size_t)f->n_name); r->slot[at];
       at = (at + 1) % TRI_HISTORY_NAME_SLOTS)
    if (is_named(r->series[r->slot[at] - 1].name, f)) return r->slot[at] - 1;
  return -1;
}

static tri_status add_series(tri_history_table *r, const tri_history_field *f, int64_t *at) {
  size_t slot = tri_history_slot(f->name, (size_t)f->n_name);

  TRI_TRY(TRI_GROW(r->series, r->series_cap, r->n_series + 1));
  *at = r->n_series++;
  r->series[*at] = (tri_history_series){.row = NULL};
  snprintf(r->series[*at].name, TRI_HISTORY_NAME_BYTES, "%.*s", f->n_name, f->name);
  while (r->slot[slot]) slot = (slot + 1) % TRI_HISTORY_NAME_SLOTS; /* half of the slots are free */
  r->slot[slot] = (uint16_t)r->n_series;
  return TRI_OK;
}

static tri_status add_number(tri_history_series *s, int64_t row, double value) {
  if (isnan(value)) return TRI_OK;
  TRI_TRY(TRI_GROW(s->row, s->row_cap, s->n + 1));
  TRI_TRY(TRI_GROW(s->value, s->value_cap, s->n + 1));
  s->row[s->n] = (int32_t)row;
  s->value[s->n++] = value;
  return TRI_OK;
}

/* Discards all rows from row n_row on. */
static void cut_rows(tri_history_table *r, int64_t n_row) {
  if (n_row >= r->n_row) return;
  r->n_row = n_row;
  for (int64_t i = 0; i < r->n_series; i++)
    while (r->series[i].n && r->series[i].row[r->series[i].n - 1] >= n_row) r->series[i].n--;
}

static tri_status set_word(tri_history_table *r, const tri_history_field *f, int64_t step) {
  tri_history_word *w = NULL;
  char             *text = NULL;

  for (int64_t i = 0; i < r->n_word && !w; i++)
    if (is_named(r->word[i].name, f)) w = &r->word[i];
  if (!w && r->n_word == TRI_HISTORY_NAMES_MOST) return TRI_OK; /* no line of ours has so many */
  TRI_TRY(TRI_ALLOC(text, f->n_text + 1));
  memcpy(text, f->text, (size_t)f->n_text);
  if (!w) {
    tri_status st = TRI_GROW(r->word, r->word_cap, r->n_word + 1);
    if (st != TRI_OK) TRI_FREE(text);
    TRI_TRY(st);
    w = &r->word[r->n_word++];
    *w = (tri_history_word){.text = NULL};
    snprintf(w->name, sizeof w->name, "%.*s", f->n_name, f->name);
  }
  TRI_FREE(w->text);
  w->text = text;
  w->step = step;
  return TRI_OK;
}

static bool is_too_long(const tri_history_field *f) { return f->n_name >= TRI_HISTORY_NAME_BYTES; }
static bool is_step(const tri_history_field *f) { return f->n_name == 4 && !memcmp(f->name, "step", 4); }

/* Returns the line's step, or -1 if the line is foreign. Finds the series of its numbers. */
static int64_t step_of(tri_history_table *r) {
  int64_t step = -1, added = 0, last = -1;

  for (int64_t i = 0; i < r->fields.n; i++) {
    tri_history_field *f = &r->fields.field[i];
    if (f->n_name == 0) return -1;
    if (is_step(f)) step = f->step;
    if (is_step(f) || is_too_long(f) || f->kind != TRI_FIELD_NUMBER) continue;
    f->series = find_series(r, f, last + 1);
    last = f->series;
    added += f->series < 0;
  }
  return r->n_series + added <= TRI_HISTORY_NAMES_MOST && step <= step_most ? step : -1;
}

/* Returns the first row with a step not below `step`. */
static int64_t first_from(const tri_history_table *r, int64_t step) {
  int64_t low = 0, high = r->n_row;

  if (!high || r->step[high - 1] < step) return high;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (r->step[middle] < step)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static tri_status put_fields(tri_history_table *r, int64_t step) {
  TRI_TRY(TRI_GROW(r->step, r->row_cap, r->n_row + 1));
  for (int64_t i = 0; i < r->fields.n; i++) {
    const tri_history_field *f = &r->fields.field[i];
    int64_t                  at = f->series;
    if (is_too_long(f)) continue; /* a foreign name, the line's other names are read */
    if (f->kind == TRI_FIELD_TEXT) TRI_TRY(set_word(r, f, step));
    if (is_step(f) || f->kind != TRI_FIELD_NUMBER) continue;
    if (at < 0) TRI_TRY(add_series(r, f, &at));
    TRI_TRY(add_number(&r->series[at], r->n_row, f->number));
  }
  r->step[r->n_row++] = step;
  return TRI_OK;
}

static tri_status take_line(void *ctx, const char *text, size_t n) {
  tri_history_table *r = ctx;
  int64_t            step = -1;
  bool               good = false;

  if (text && strspn(text, " \t\r") == n) return TRI_OK;
  if (text) TRI_TRY(tri_history_parse(text, n, &r->fields, &good));
  if (good) step = step_of(r);
  if (step >= 0) cut_rows(r, first_from(r, step));
  if (step < 0 || r->n_row == INT32_MAX) {
    r->n_bad++;
    return TRI_OK;
  }
  return put_fields(r, step);
}

tri_status tri_history_rows_read(tri_history_table *r, const char *folder, bool end, bool *changed) {
  const tri_history_reader to = {clear, take_line, r, end ? TRI_HISTORY_END_BYTES : METRICS_BYTES, end};
  char                     path[TRI_HISTORY_PATH_BYTES];

  snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
  return tri_history_tail_read(&r->tail, path, &to, changed);
}
