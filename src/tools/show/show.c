/* show.c - selects saved answers and shows them to people or as JSON. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/host_memory.h"
#include "base/clock.h"
#include "base/print.h"
#include "fold.h"
#include "show_source.h"
#include "tools/look/look_facts.h"
#include "view.h"

/* Chosen: limit of the lines kept in memory to be shown in another order. */
static const int64_t most_kept_bytes = 256 << 20;

/* An answer kept in memory. */
typedef struct kept {
  char   *line; /* [n] */
  size_t  n;
  double  reward;
  int64_t at; /* index of its file */
} kept;

typedef struct job {
  const tri_show_opt *o;
  tri_show_source     source;
  tri_pager           pager;
  tri_show_view       view;
  tri_show_sum        sum;
  bool                begun;
  int64_t             first, at; /* indices of the first file and of the current one */
  int64_t             done;      /* shown prompts, or shown answers */
  int64_t             seen;      /* answers to select from */
  int64_t             with;      /* those with a reward */
  kept               *kept;      /* [n_kept], best or worst first */
  int64_t             n_kept, cap_kept, kept_bytes;
  char               *last; /* [n_last] the previous line, to find the end of a prompt's answers */
  int64_t             n_last, cap_last;
} job;

static void close_job(job *j) {
  tri_show_source_close(&j->source);
  tri_show_view_free(&j->view);
  for (int64_t i = 0; i < j->n_kept; i++) TRI_FREE(j->kept[i].line);
  TRI_FREE(j->kept);
  TRI_FREE(j->last);
}

static int64_t step_at(const job *j, int64_t at) { return j->source.step ? j->source.step[at] : -1; }

/* ---- output ---- */

/* Prints the line unchanged, with its step added if it lacks one. */
static tri_status print_json(const tri_show_answer *a, int64_t step) {
  const char *open = memchr(a->line, '{', a->n);
  size_t      head = (size_t)(open - a->line) + 1;
  char        first[48];
  int         n = snprintf(first, sizeof first, "{\"step\": %lld, ", (long long)step);

  if (step >= 0 && !a->has_step) {
    TRI_TRY(tri_print(first, (size_t)n));
    TRI_TRY(tri_print(a->line + head, a->n - head));
  } else {
    TRI_TRY(tri_print(a->line, a->n));
  }
  return tri_print("\n", 1);
}

/* Opens the pager before the first answer. If only one file is shown, it prints its totals. */
static tri_status begin(job *j) {
  char file[TRI_FILE_PATH_BYTES];

  if (j->begun) return TRI_OK;
  j->begun = true;
  tri_pager_open(&j->pager);
  if (!j->sum.answers) return TRI_OK;
  TRI_TRY(tri_show_file(&j->source, j->first, file));
  return tri_show_sum_put(&j->pager, file, step_at(j, j->first), &j->sum);
}

static tri_status put(job *j, const tri_show_answer *a, int64_t at) {
  if (!j->o->json) TRI_TRY(begin(j));
  if (j->o->json) return print_json(a, step_at(j, at));
  j->view.step = step_at(j, at);
  return tri_show_answer_put(&j->view, a);
}

/* ---- selection ---- */

static bool is_asked(const job *j, const tri_show_answer *a) {
  return j->o->prompt < 0 || a->prompt_id == j->o->prompt;
}

static tri_status remember(job *j, const tri_show_answer *a) {
  TRI_TRY(TRI_GROW(j->last, j->cap_last, (int64_t)a->n));
  memcpy(j->last, a->line, a->n);
  j->n_last = (int64_t)a->n;
  return TRI_OK;
}

/* Tells whether this is the first answer to its prompt. Answers to a prompt are consecutive. */
static bool begins_prompt(const job *j, const tri_show_answer *a) {
  tri_show_answer last;

  return !j->n_last || !tri_show_read(j->last, (size_t)j->n_last, &last) || !tri_show_same_prompt(&last, a);
}

static tri_status add_to_sum(void *ctx, const tri_show_answer *a, bool *stop) {
  job            *j = ctx;
  tri_show_answer last;

  (void)stop;
  tri_show_sum_add(&j->sum, a, j->n_last && tri_show_read(j->last, (size_t)j->n_last, &last) ? &last : NULL);
  return remember(j, a);
}

/* Shows answers in file order: those to the first n prompts, the first n cut ones, or all to one prompt. */
static tri_status show_each(void *ctx, const tri_show_answer *a, bool *stop) {
  job *j = ctx;
  bool cut = j->o->choice == TRI_SHOW_CUT, counts;

  if (!is_asked(j, a)) return TRI_OK;
  j->seen++;
  if (cut && !tri_show_is_cut(a)) return TRI_OK;
  counts = cut || (j->o->prompt < 0 && begins_prompt(j, a));
  *stop = j->pager.gone || (counts && j->o->n && j->done == j->o->n);
  if (*stop) return TRI_OK;
  j->done += counts;
  TRI_TRY(put(j, a, j->at));
  return remember(j, a);
}

static bool is_before(const job *j, double a, double b) {
  return j->o->choice == TRI_SHOW_BEST ? a > b : a < b;
}

/* Keeps the answer if it is one of the first n by reward. Equal answers stay in file order. */
static tri_status keep(void *ctx, const tri_show_answer *a, bool *stop) {
  job    *j = ctx;
  int64_t i = j->n_kept;
  kept new = {NULL, a->n, a->reward, j->at};

  (void)stop;
  if (!is_asked(j, a)) return TRI_OK;
  j->seen++;
  if (isnan(a->reward)) return TRI_OK;
  j->with++;
  while (i > 0 && is_before(j, a->reward, j->kept[i - 1].reward)) i--;
  if (i == j->o->n) return TRI_OK;
  if (j->n_kept == j->o->n) {
    j->kept_bytes -= (int64_t)j->kept[--j->n_kept].n;
    TRI_FREE(j->kept[j->n_kept].line);
  }
  j->kept_bytes += (int64_t)a->n;
  if (j->kept_bytes > most_kept_bytes)
    TRI_FAIL(TRI_EINPUT, "%lld answers take more than %d MiB. Give a smaller N", (long long)j->o->n,
             (int)(most_kept_bytes >> 20));
  TRI_TRY(TRI_GROW(j->kept, j->cap_kept, j->n_kept + 1));
  TRI_TRY(TRI_ALLOC(new.line, a->n));
  memcpy(new.line, a->line, a->n);
  memmove(j->kept + i + 1, j->kept + i, (size_t)(j->n_kept++ - i) * sizeof *j->kept);
  j->kept[i] = new;
  return TRI_OK;
}

static tri_status show_kept(job *j) {
  tri_show_answer a;

  for (int64_t i = 0; i < j->n_kept && !j->pager.gone; i++)
    if (tri_show_read(j->kept[i].line, j->kept[i].n, &a)) TRI_TRY(put(j, &a, j->kept[i].at));
  return TRI_OK;
}

/* ---- missing answers ---- */

static tri_status refuse(const job *j, const char *what) {
  char file[TRI_FILE_PATH_BYTES];

  if (j->view.by_steps) TRI_FAIL(TRI_EINPUT, "%s: %s", j->source.path, what);
  TRI_TRY(tri_show_file(&j->source, j->at, file));
  TRI_FAIL(TRI_EINPUT, "%s: %s", file, what);
}

static tri_status check_found(const job *j) {
  char what[96];

  snprintf(what, sizeof what, "holds no answer to prompt %lld", (long long)j->o->prompt);
  if (!j->seen && j->o->prompt >= 0) return refuse(j, what);
  if (!j->seen && j->source.skipped.n)
    return refuse(j, "no line is an answer (a JSON object with `response` or `tokens`)");
  if (!j->seen) return refuse(j, "is empty");
  if ((j->o->choice == TRI_SHOW_BEST || j->o->choice == TRI_SHOW_WORST) && !j->with)
    return refuse(j, "no answer has a reward to sort by");
  return TRI_OK;
}

/* Says how many prompts are not shown, or that no answer was cut. */
static tri_status put_rest(job *j) {
  int64_t more = j->sum.prompts - j->done;
  char    text[128];

  TRI_TRY(begin(j));
  if (j->o->choice == TRI_SHOW_CUT && !j->done)
    return tri_fold_words(&j->pager, "\nno answer was cut at the length", "");
  if (j->o->choice != TRI_SHOW_PROMPTS || j->o->prompt >= 0 || more <= 0) return TRI_OK;
  snprintf(text, sizeof text, "\n%lld more prompt%s. --max-prompts 0 shows all, --best N the best answers",
           (long long)more, more == 1 ? "" : "s");
  return tri_fold_words(&j->pager, text, "2");
}

/* Says why the run ended, unless it finished or goes on. A file of answers, or a folder without the records
 * of a run, gets no line. */
static tri_status put_why(job *j) {
  tri_history   *h = NULL;
  tri_look_facts facts;
  tri_text       why = {0};
  tri_status     st = TRI_OK;

  if (tri_history_open_end(j->o->path, &h) != TRI_OK) {
    tri_error_clear();
    return TRI_OK;
  }
  tri_look_facts_make(h, tri_unix_s(), &facts);
  if (facts.state != TRI_LOOK_FINISHED) TRI_TRY_DONE(tri_look_why(h, &facts, &why));
  if (why.len) TRI_TRY_DONE(tri_pager_put(&j->pager, "\n", 1));
  if (why.len) TRI_TRY_DONE(tri_fold_words(&j->pager, why.data, ""));
done:
  tri_text_free(&why);
  tri_history_close(&h);
  return st;
}

/* ---- the command ---- */

/* Computes the totals of the only file shown. */
static tri_status add_up(job *j) {
  TRI_TRY(tri_show_lines(&j->source, j->at, false, add_to_sum, j));
  j->n_last = 0;
  if (j->sum.rewarded) j->view.mean = j->sum.reward / (double)j->sum.rewarded;
  return TRI_OK;
}

/* Shows the files first .. end - 1. */
static tri_status show_files(job *j, int64_t first, int64_t end) {
  bool ranks = j->o->choice == TRI_SHOW_BEST || j->o->choice == TRI_SHOW_WORST;

  j->view.by_steps = end - first > 1;
  j->first = j->at = first;
  if (!j->o->json && !j->view.by_steps) TRI_TRY(add_up(j));
  for (; j->at < end && !j->pager.gone; j->at++)
    TRI_TRY(tri_show_lines(&j->source, j->at, true, ranks ? keep : show_each, j));
  j->at = end - 1;
  if (j->pager.gone) return TRI_OK;
  TRI_TRY(check_found(j));
  TRI_TRY(show_kept(j));
  if (j->o->json) return TRI_OK;
  TRI_TRY(put_rest(j));
  return put_why(j);
}

static tri_status run(job *j) {
  int64_t first = j->source.n ? j->source.n - 1 : 0, end = first + 1;

  if (j->o->step >= 0) {
    TRI_TRY(tri_show_find_step(&j->source, j->o->step, &first));
    end = first + 1;
  } else if (j->o->prompt >= 0) {
    first = 0;
  }
  return show_files(j, first, end);
}

tri_status tri_show(const tri_show_opt *o) {
  job        j = {.o = o, .view = {.p = &j.pager, .mean = NAN, .step = -1}};
  tri_status st = TRI_OK, closed;

  TRI_TRY_DONE(tri_show_source_open(o->path, o->evals, &j.source));
  st = run(&j);
  closed = tri_pager_close(&j.pager);
  if (st == TRI_OK) st = closed;
  if (st == TRI_OK) tri_show_say_skipped(&j.source);
done:
  close_job(&j);
  return st;
}
