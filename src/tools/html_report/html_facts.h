/* html_facts.h - a run's facts and results, shared by HTML report, text screen and JSON. Private to its
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

/* A number that measures the policy, with the best and the newest of several measurements. */
typedef struct tri_html_score {
  const char *name; /* name of the metric, NULL if there is none */
  double      first, best, last;
  int64_t     first_step, best_step, last_step;
} tri_html_score;

typedef struct tri_html_run {
  tri_history   *h;
  tri_html_begun begun;
  tri_samples    samples;
  tri_marks      marks;
  char           name[TRI_RUN_NAME_BYTES];  /* unique in the HTML report, with the bytes of the folder's
                                             * name */
  tri_look_facts seen;                      /* at now_unix_s */
  double         began_unix_s, last_unix_s; /* end of the first and of the last step, 0 if unknown */
  double         spent_s, tokens, rate;     /* seconds in steps, trained tokens, median tokens per s, NaN if
                                             * unknown */
  tri_html_score reward, eval;              /* `reward` has means over rows, of the loss if there is no
                                             * reward */
  double         eval_cut; /* share of cut answers in the newest evaluation, NaN if unknown */
} tri_html_run;

struct tri_html_report {
  tri_html_run *run;           /* [n] */
  int           n, n_left_out; /* n_left_out counts unreadable folders */
  double        now_unix_s;
};

/* Not collective. Reads a folder. The caller sets the name. */
TRI_CHECKED tri_status tri_html_run_open(const char *folder, double now_unix_s, tri_html_run *out);
void                   tri_html_run_close(tri_html_run *r);

/* The functions below are pure. */
const char *tri_html_algo(const tri_html_run *r);
/* Returns the model as the deck names it, or "". */
const char *tri_html_model(const tri_html_run *r);
/* Returns true if runs differ in a key. A missing key counts as another value. The key run.output and
 * unreadable decks do not count. */
bool tri_html_differs(const tri_html_report *p, const char *key);
/* Iterates over the keys of all decks, each once, in their order. Returns the key after (*run, *key), or NULL
 * at the end. Start with 0 and -1. */
const char *tri_html_next_key(const tri_html_report *p, int *run, int *key);
/* Writes a time such as "2026-11-27 23:57 UTC", or "-" for 0. */
enum { TRI_WHEN_BYTES = 32 };
void tri_html_when(double unix_s, char out[TRI_WHEN_BYTES]);
/* Writes a duration of s seconds such as "1 h 2 min", or "-" if unknown. */
void tri_html_duration(double s, char out[TRI_WHEN_BYTES]);

#endif
