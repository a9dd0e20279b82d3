/* metric_names.h - the table of metrics: names, words on screens, units, meanings, causes of change.
 * The training screen, watch, report and trireme metrics read it, so one number has one name everywhere. */
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

/* No text is NULL, except `word`. A part of a name in angle brackets, as in "reward_<name>_mean", stands for
 * any letters. A metric of evaluations such as "eval_pass_at_1" also exists for each set of data.eval_names,
 * as "eval_easy_pass_at_1". */
typedef struct tri_metric_row {
  const char      *name;
  const char      *word; /* name on screens. NULL if no screen has it */
  tri_metric_group group;
  const char      *unit; /* "nats", "share" (of 1). "" for a number without a unit */
  const char      *meaning, *moves;
} tri_metric_row;

/* No function is collective. Returns row i of the table, or NULL past its end. */
const tri_metric_row *tri_metric_row_at(int i);
/* Returns the row for a name of metrics.jsonl, or NULL if the table does not have it. */
const tri_metric_row *tri_metric_row_find(const char *name);
/* Writes the rows that `asked` may mean to out [most]. It may be a name of metrics.jsonl, the name of a row
 * with its brackets, or a word of a screen. Returns their number. */
int tri_metric_rows_named(const char *asked, const tri_metric_row **out, int most);
/* Returns the word on screens for a name. The row must have one. */
const char *tri_metric_word(const char *name);
/* Returns the title of a group, such as "Reward". */
const char *tri_metric_group_title(tri_metric_group g);
/* Returns the name or word nearest to `asked`, or NULL. */
const char *tri_metric_nearest(const char *asked);

#endif
