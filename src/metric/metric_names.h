/* metric_names.h - the table of metrics: names, words on screens, units, meanings, what moves them.
 *
 * Training screen, watch, report and trireme metrics read it, so one number has one name everywhere. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_METRIC_NAMES_H
#define TRI_METRIC_NAMES_H

/* In the order of the report's page and of trireme metrics. */
typedef enum {
  TRI_GROUP_REWARD,
  TRI_GROUP_EVAL,
  TRI_GROUP_LOSS,
  TRI_GROUP_KL,
  TRI_GROUP_LENGTH,
  TRI_GROUP_TIME,
  TRI_GROUP_MEMORY,
  TRI_GROUP_OTHER,
  TRI_GROUPS
} tri_metric_group;

/* Texts are never NULL, word aside. A part of a name in angle brackets, "reward_<name>_mean", stands for any
 * letters. A name of evaluations, "eval_pass_at_1", has also that of each set of data.eval_names:
 * "eval_easy_pass_at_1". */
typedef struct tri_metric_row {
  const char      *name;
  const char      *word; /* on screens; NULL: screens do not have it */
  tri_metric_group group;
  const char      *unit; /* "nats", "share" (of 1); "": a number without one */
  const char      *meaning, *moves;
} tri_metric_row;

/* Not collective, all that follow. Row i of the table; NULL behind its end. */
const tri_metric_row *tri_metric_row_at(int i);
/* The row of a name as metrics.jsonl has it; NULL: the table does not know it. */
const tri_metric_row *tri_metric_row_find(const char *name);
/* Calls `see` for each row that somebody can mean by `asked`: a name of metrics.jsonl, the name of a row with
 * its brackets, or the word of a screen. Returns how many. */
int tri_metric_rows_named(const char *asked, const tri_metric_row **out, int most);
/* The word of a row's name on screens, which must have one. */
const char *tri_metric_word(const char *name);
/* "Reward". */
const char *tri_metric_group_title(tri_metric_group g);
/* The name or word nearest to what was asked, or NULL. */
const char *tri_metric_nearest(const char *asked);

#endif
