/* history.c - opens a run's output folder for reading, reads it again and answers questions about it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/text_buffer.h"
#include "history_impl.h"

#include "base/file.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct tri_history {
  char             *folder;
  tri_history_table rows;
  tri_history_keys  keys;
  tri_history_log   log;
  tri_history_life  life;
  bool              end;     /* of the metrics only the end is read */
  bool              checked; /* the folder was once found to be a run's */
};

void tri_history_close(tri_history **h) {
  if (!*h) return;
  tri_history_rows_free(&(*h)->rows);
  tri_history_keys_free(&(*h)->keys);
  tri_history_log_free(&(*h)->log);
  TRI_FREE((*h)->folder);
  TRI_FREE(*h);
}

static tri_status check_folder(const char *folder) {
  struct stat sb;

  if (strlen(folder) >= TRI_HISTORY_PATH_BYTES - 64)
    TRI_FAIL(TRI_EINPUT, "the path of a run's output folder is too long: %.100s...", folder);
  if (stat(folder, &sb))
    TRI_FAIL(TRI_EINPUT, "%s: %s. Give the output folder of a run (its run.output)", folder, strerror(errno));
  if (!S_ISDIR(sb.st_mode))
    TRI_FAIL(TRI_EINPUT, "%s: not a folder. Give the output folder of a run (its run.output)", folder);
  if (!tri_file_in(folder, "metrics.jsonl") && !tri_file_in(folder, "deck.yaml") &&
      !tri_file_in(folder, "run.jsonl"))
    TRI_FAIL(TRI_EINPUT,
             "%s: holds none of metrics.jsonl, run.jsonl and deck.yaml. Give the output folder of a run "
             "(its run.output) after the run has started",
             folder);
  return TRI_OK;
}

tri_status tri_history_refresh(tri_history *h, bool *changed) {
  *changed = false;
  if (!h->checked) TRI_TRY(check_folder(h->folder));
  h->checked = true;
  tri_history_life_look(&h->life, h->folder, changed);
  TRI_TRY(tri_history_keys_read(&h->keys, h->folder, changed));
  TRI_TRY(tri_history_log_read(&h->log, h->folder, changed));
  return tri_history_rows_read(&h->rows, h->folder, h->end, changed);
}

static tri_status open_as(const char *folder, bool end, tri_history **out) {
  tri_status   st = TRI_OK;
  tri_history *h = NULL;
  bool         changed;

  *out = NULL;
  TRI_TRY(TRI_ALLOC(h, 1));
  st = tri_copy_text(folder, &h->folder);
  h->life.checkpoint = -1;
  h->end = end;
  if (st == TRI_OK) st = tri_history_refresh(h, &changed);
  if (st == TRI_ENOMEM) tri_history_close(&h);
  *out = h;
  return st;
}

tri_status tri_history_open_any(const char *folder, tri_history **out) { return open_as(folder, false, out); }

tri_status tri_history_open(const char *folder, tri_history **out) {
  tri_status st = open_as(folder, false, out);

  if (st != TRI_OK) tri_history_close(out);
  return st;
}

tri_status tri_history_open_end(const char *folder, tri_history **out) {
  tri_status st = open_as(folder, true, out);

  if (st != TRI_OK) tri_history_close(out);
  return st;
}

/* ---- metrics ---- */

const char    *tri_history_folder(const tri_history *h) { return h->folder; }
int64_t        tri_history_bad_lines(const tri_history *h) { return h->rows.n_bad; }
int64_t        tri_history_rows(const tri_history *h) { return h->rows.n_row; }
const int64_t *tri_history_step(const tri_history *h) { return h->rows.step; }
int            tri_history_n_series(const tri_history *h) { return (int)h->rows.n_series; }

const char *tri_history_name(const tri_history *h, int series) {
  TRI_ASSERT(series >= 0 && series < h->rows.n_series);
  return h->rows.series[series].name;
}

tri_history_points tri_history_points_of(const tri_history *h, int series) {
  const tri_history_series *s = &h->rows.series[series];

  TRI_ASSERT(series >= 0 && series < h->rows.n_series);
  return (tri_history_points){s->row, s->value, s->n};
}

double tri_history_at(const tri_history *h, int series, int64_t row) {
  tri_history_points p = tri_history_points_of(h, series);
  int64_t            low = 0, high = p.n;

  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (p.row[middle] < row)
      low = middle + 1;
    else
      high = middle;
  }
  return low < p.n && p.row[low] == row ? p.value[low] : (double)NAN;
}

int tri_history_find(const tri_history *h, const char *name) {
  for (int i = 0; i < h->rows.n_series; i++)
    if (!strcmp(h->rows.series[i].name, name)) return i;
  return -1;
}

static const tri_history_word *find_word(const tri_history *h, const char *name) {
  for (int64_t i = 0; i < h->rows.n_word; i++)
    if (!strcmp(h->rows.word[i].name, name)) return &h->rows.word[i];
  return NULL;
}

const char *tri_history_text(const tri_history *h, const char *name) {
  const tri_history_word *w = find_word(h, name);

  return w ? w->text : NULL;
}

int64_t tri_history_text_step(const tri_history *h, const char *name) {
  const tri_history_word *w = find_word(h, name);

  return w ? w->step : -1;
}

/* ---- the deck ---- */

int         tri_history_n_keys(const tri_history *h) { return (int)h->keys.n; }
const char *tri_history_deck_error(const tri_history *h) { return h->keys.error; }

const char *tri_history_key(const tri_history *h, int i) {
  TRI_ASSERT(i >= 0 && i < h->keys.n);
  return h->keys.row[i].key;
}

const char *tri_history_key_value(const tri_history *h, int i) {
  TRI_ASSERT(i >= 0 && i < h->keys.n);
  return h->keys.row[i].value;
}

const char *tri_history_deck(const tri_history *h, const char *key) {
  for (int64_t i = 0; i < h->keys.n; i++)
    if (!strcmp(h->keys.row[i].key, key)) return h->keys.row[i].value;
  return NULL;
}

/* ---- events, signs of life ---- */

int tri_history_n_alarms(const tri_history *h) { return (int)h->log.n; }

const char *tri_history_alarm(const tri_history *h, int i) {
  TRI_ASSERT(i >= 0 && i < h->log.n);
  return h->log.alarm[i].text;
}

bool tri_history_alarm_is_error(const tri_history *h, int i) {
  TRI_ASSERT(i >= 0 && i < h->log.n);
  return h->log.alarm[i].is_error;
}

const char *tri_history_alarm_code(const tri_history *h, int i) {
  TRI_ASSERT(i >= 0 && i < h->log.n);
  return h->log.alarm[i].code;
}

int64_t tri_history_alarm_step(const tri_history *h, int i) {
  TRI_ASSERT(i >= 0 && i < h->log.n);
  return h->log.alarm[i].step;
}

/* A start that was killed while loading wrote no event. The ending in run.jsonl is then that of an earlier
 * start and does not count. */
tri_ending tri_history_ending(const tri_history *h) {
  enum { SLACK_S = 5 }; /* chosen for differences between the clocks of two nodes */
  tri_ending e = tri_history_log_ending(&h->log, NULL);

  return e.time_unix_s > 0 && e.time_unix_s + SLACK_S < h->life.start_unix_s ? tri_ending_none() : e;
}

int           tri_history_first_alarm(const tri_history *h) { return h->log.first; }
const json_t *tri_history_start(const tri_history *h) { return h->log.start; }
const char   *tri_history_phase(const tri_history *h) { return h->log.phase; }
int64_t       tri_history_phase_step(const tri_history *h) { return h->log.phase_step; }
int64_t       tri_history_said_steps(const tri_history *h) { return h->log.starts ? h->log.steps : -1; }
int     tri_history_starts(const tri_history *h) { return h->log.tail.seen.st_ino ? h->log.starts : -1; }
int64_t tri_history_bad_events(const tri_history *h) { return h->log.n_bad; }
const tri_history_life *tri_history_life_of(const tri_history *h) { return &h->life; }
int64_t                 tri_history_checkpoint(const tri_history *h) { return h->life.checkpoint; }
