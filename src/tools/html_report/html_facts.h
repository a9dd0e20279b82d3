/* html_facts.h - what a run is and came to, in numbers that page, screen and JSON share. Private to its
 * room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HTML_FACTS_H
#define TRI_HTML_FACTS_H

#include "chart.h"
#include "tools/look/look_facts.h"
#include "tools/history/marks.h"
#include "html_report.h"
#include "samples.h"
#include "begun.h"

enum { TRI_RUN_NAME_BYTES = 256 };

/* A number that tells how good the policy is; of several measurements the best and the newest. */
typedef struct tri_html_score {
  const char *name; /* of the metric; NULL: there is none */
  double      first, best, last;
  int64_t     first_step, best_step, last_step;
} tri_html_score;

typedef struct tri_html_run {
  tri_history   *h;
  tri_html_begun begun;
  tri_samples    samples;
  tri_marks      marks;
  char           name[TRI_RUN_NAME_BYTES];  /* unique on the page; bytes as the folder has them */
  tri_look_facts seen;                      /* at now_unix_s */
  double         began_unix_s, last_unix_s; /* of the first and the last step's end; 0: not known */
  double         spent_s, tokens, rate;     /* in steps; trained; median tokens per s; NaN: not known */
  tri_html_score reward, eval;              /* reward: means over rows, else of the loss */
  double         eval_cut; /* share of the newest evaluation's answers that were cut; NaN: not known */
} tri_html_run;

struct tri_html_report {
  tri_html_run *run;           /* [n] */
  int           n, n_left_out; /* n_left_out: folders that could not be read */
  double        now_unix_s;
};

/* Not collective. Reads a folder; the name is the caller's. */
TRI_CHECKED tri_status tri_html_run_open(const char *folder, double now_unix_s, tri_html_run *out);
void                   tri_html_run_close(tri_html_run *r);

/* Pure, all that follow. */
const char *tri_html_algo(const tri_html_run *r);
/* Its model as the deck names it; "". */
const char *tri_html_model(const tri_html_run *r);
/* Whether runs differ in a key; a key that one has not is another value. The output folder does
 * not count, nor do decks that cannot be read. */
bool tri_html_differs(const tri_html_report *p, const char *key);
/* Calls of the keys of all decks, each once, in their order: the next one behind (*run, *key), which begin
 * at 0, -1; NULL: that was all. */
const char *tri_html_next_key(const tri_html_report *p, int *run, int *key);
/* "2026-11-27 23:57 UTC"; "-" of 0. */
enum { TRI_WHEN_BYTES = 32 };
void tri_html_when(double unix_s, char out[TRI_WHEN_BYTES]);
/* "1 h 2 min", in words, of seconds; "-": not known. */
void tri_html_duration(double s, char out[TRI_WHEN_BYTES]);

#endif
