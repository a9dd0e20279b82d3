/* check.c - all that is wrong with a deck and what it names, at once: trireme train --check. */
#include "check.h"
#include "train.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 1 << 20 };

/* What srun or mpirun would start, where this runs below one. */
static int64_t launched_ranks(void) {
  static const char *const name[] = {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"};

  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    const char *text = getenv(name[i]);
    int64_t     n = text ? strtoll(text, NULL, 10) : 0;
    if (n >= 1 && n <= MOST_RANKS) return n;
  }
  return 1;
}

static void say_data(const char *key, const tri_dataset *d) {
  const tri_data_stats *s = d ? tri_dataset_stats(d) : NULL;

  if (s)
    tri_log(TRI_LOG_INFO, "%s: %lld examples in %lld lines, the longest of %d tokens", key,
            (long long)tri_dataset_count(d), (long long)s->n_line, s->longest);
}

/* Lines that end with a newline. */
static void say_lines(tri_text *lines) {
  if (!lines->len) return;
  lines->data[--lines->len] = 0;
  tri_log_lines(TRI_LOG_INFO, lines->data);
}

static tri_status check_tensors(const tri_trainer *t) {
  const char *ref = t->ref_resumed ? "/reference" : "/model";

  TRI_TRY(tri_error_note(tri_source_check(t->source, "/model", tri_model_params(t->policy)), t->faults));
  if (!t->ref) return TRI_OK;
  return tri_error_note(tri_source_check(t->ref_source, ref, tri_model_params(t->ref)), t->faults);
}

/* In a session that is pretended. */
static tri_status check_run(const tri_config *cfg, int ranks, tri_faults *faults) {
  tri_session_opt opt = {"cpu", (int)cfg->run.ranks_per_node, (int)cfg->run.threads};
  tri_session     se = {0};
  tri_trainer     t = {0};
  tri_status      st = TRI_OK;

  TRI_TRY_DONE(tri_error_note(tri_session_pretend(&opt, ranks, &se), faults));
  if (faults->n) goto done;
  TRI_TRY_DONE(tri_error_note(tri_trainer_plan(cfg, &se, faults, &t), faults));
  if (faults->n) goto done;
  TRI_TRY_DONE(check_tensors(&t));
  TRI_TRY_DONE(tri_error_note(tri_session_check_memory(&se), faults));
  if (faults->n) goto done;
  TRI_TRY_DONE(tri_screen_plan(&t));
  say_data("data.train", t.data);
  say_data("data.eval", t.eval_data);
done:
  tri_trainer_close(&t);
  tri_session_close(&se, st);
  return st;
}

tri_status tri_check(const char *path, char *const *args, int n_args, int64_t ranks) {
  tri_config cfg = {0};
  tri_text   notes = {0};
  tri_faults faults = {0};
  tri_status st = TRI_OK;

  if (!ranks) ranks = launched_ranks();
  st = tri_error_note(tri_config_load_all(path, args, n_args, &cfg, &notes, &faults), &faults);
  if (st == TRI_OK) say_lines(&notes);
  if (st == TRI_OK && !faults.n) st = check_run(&cfg, (int)ranks, &faults);
  if (st == TRI_OK && faults.n) {
    say_lines(&faults.text);
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_ECONFIG, "%s: %lld fault%s, listed above", path,
                  (long long)faults.n, faults.n == 1 ? "" : "s");
  } else if (st == TRI_OK) {
    tri_log(TRI_LOG_INFO, "%s: no fault found; planned for %lld rank%s", path, (long long)ranks,
            ranks == 1 ? "" : "s");
  }
  tri_text_free(&notes);
  tri_text_free(&faults.text);
  tri_config_free(&cfg);
  return st;
}
