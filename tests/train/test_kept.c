/* test_kept.c - a run that ends badly tries its last save repeatedly, and saves after an error with whole
 * weights. Run with 1 and 2 ranks. No time passes, because the test gives the waiting function. Judge: the
 * exit's status and message, the step of LATEST, the metrics' lines. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "io/checkpoint/checkpoint.h"
#include "replay_case.h"
#include "rollout_case.h"
#include "train/save.h"
#include "train/train.h"
#include "refusal_case.h"

#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_ARGS = 24, ARG_BYTES = 640, PATH = 640 };

static char folder[256];

/* ---- running ---- */

static const char *in(char path[PATH], const char *name) {
  snprintf(path, PATH, "%s/%s", folder, name);
  return path;
}

typedef struct trial {
  tri_config    cfg;
  tri_session   se;
  tri_trainer   t;
  tri_train_end end;
} trial;

typedef struct args {
  char text[MOST_ARGS][ARG_BYTES];
  int  n;
} args;

/* An argument, in the place of an earlier one of its key. */
static void put(args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(args *a, const char *fmt, ...) {
  char    text[ARG_BYTES];
  int     i = 0;
  va_list ap;

  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  while (i < a->n && strncmp(a->text[i], text, strcspn(text, "=") + 1)) i++;
  CHECK(i < MOST_ARGS);
  memcpy(a->text[i], text, sizeof text);
  if (i == a->n) a->n++;
}

/* Runs SFT to this step, with further arguments ended by NULL. */
static void open_trial(trial *x, int steps, const char *const *further) {
  static const char *const given[] = {"algo.name=sft", "train.train_batch_size=4", "run.threads=1",
                                      "train.max_tokens_per_gpu=64", "run.resume=auto"};
  args                     a = {.n = 0};
  char                    *arg[MOST_ARGS];

  *x = (trial){.end = TRI_TRAIN_STOPPED};
  put(&a, "run.output=%s/out", folder);
  put(&a, "data.train=%s/steps/labelled.jsonl", TRI_TEST_DATA);
  put(&a, "model.path=%s/grpo", TRI_TEST_DATA);
  put(&a, "train.steps=%d", steps);
  for (size_t i = 0; i < sizeof given / sizeof *given; i++) put(&a, "%s", given[i]);
  for (; further && *further; further++) put(&a, "%s", *further);
  for (int i = 0; i < a.n; i++) arg[i] = a.text[i];
  OK(tri_config_load(TRI_TEST_DATA "/grpo/deck.yaml", arg, a.n, &x->cfg, NULL));
  session_open(&x->se, 0);
  OK(tri_trainer_open(&x->cfg, &x->se, NULL, &x->t));
}

static void close_trial(trial *x) {
  tri_trainer_close(&x->t);
  tri_session_close(&x->se);
  tri_config_free(&x->cfg);
  tri_error_clear();
}

/* Returns the step of LATEST, or -1 for none. */
static int64_t latest(void) {
  char    path[PATH], link[64] = "";
  ssize_t n = readlink(in(path, "out/checkpoints/LATEST"), link, sizeof link - 1);

  return n < 0 ? -1 : strtoll(link + strlen("step-"), NULL, 10);
}

static int lines_of(const char *name, const char *holds) {
  char   path[PATH], *text;
  size_t bytes;
  int    n = 0;

  OK(tri_file_read(in(path, name), 1 << 20, &text, &bytes));
  for (char *at = text, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
    *end = 0;
    n += strstr(at, holds) != NULL;
  }
  tri_host_free((void **)&text);
  return n;
}

static void meet(void) { OK(tri_host_barrier(world)); }

static int begin(void **state) {
  const char *tmp = getenv("TMPDIR");

  (void)state;
  if (rt.world_rank == 0) {
    snprintf(folder, sizeof folder, "%s/trireme-test-XXXXXX", tmp ? tmp : "/tmp");
    CHECK(mkdtemp(folder));
  }
  OK(tri_host_bcast(world, folder, sizeof folder, 0));
  return 0;
}

static int end(void **state) {
  char command[600];

  (void)state;
  tri_save_idle_by(NULL);
  meet();
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  if (rt.world_rank == 0) CHECK(system(command) == 0);
  return 0;
}

/* ---- saves ---- */

/* Makes the folder impossible by a file of its name. Rank 0 does it. */
static void block_step(int64_t step, bool blocked) {
  char  path[PATH], name[64];
  FILE *f;

  snprintf(name, sizeof name, "out/checkpoints/step-%08lld.tmp", (long long)step);
  if (rt.world_rank != 0) return;
  if (!blocked) {
    CHECK(!unlink(in(path, name)));
    return;
  }
  mkdir(in(path, "out/checkpoints"), 0777);
  f = fopen(in(path, name), "w");
  CHECK(f);
  fclose(f);
}

static int    rests;
static double rested_s;

static void count_rest(double s) {
  rests++;
  rested_s += s;
}

/* After the third try the disk is as it should be. */
static void free_the_disk(double s) {
  count_rest(s);
  if (rested_s > 9.9 && rested_s < 10.1) block_step(2, false);
}

static void ask_to_stop(double s) {
  char  path[PATH];
  FILE *f;

  count_rest(s);
  if (rests != 1 || rt.world_rank != 0) return;
  f = fopen(in(path, "out/STOP"), "w");
  CHECK(f);
  fclose(f);
}

static void begin_rests(void (*rest)(double)) {
  rests = 0;
  rested_s = 0;
  tri_save_idle_by(rest);
}

static void a_last_save_is_tried_again(void **state) {
  trial x;

  (void)state;
  open_trial(&x, 2, NULL);
  block_step(2, true);
  begin_rests(free_the_disk);
  OK(tri_train(&x.t, &x.end));
  CHECK(x.end == TRI_TRAIN_FINISHED && latest() == 2 && x.t.progress.failed_saves == 2);
  CHECK(rested_s > 10.9 && rested_s < 11.1, "%g s", rested_s); /* a second, and ten more */
  close_trial(&x);
}

/* Ten minutes if the remaining time is unknown. */
static void a_last_save_is_given_up(void **state) {
  trial x;

  (void)state;
  open_trial(&x, 2, NULL);
  block_step(2, true);
  begin_rests(ask_to_stop);
  CHECK(tri_train(&x.t, &x.end) == TRI_EFILE);
  CHECK(refusal_is("insist() checkpoints last 2"));
  CHECK(latest() == -1 && rests == 1 && x.t.progress.failed_saves == 2, "%d rests", rests);
  close_trial(&x);
}

/* The very first save is treated like the last one, as the run does not continue without any. Later ones are
 * not. */
static void a_first_save_must_go_well(void **state) {
  const char *const every[] = {"checkpoint.save_steps=1", NULL};
  const char *const behind[] = {"checkpoint.save_steps=1", "checkpoint.async=true", NULL};
  trial             x;

  (void)state;
  for (int async = 0; async < 2; async++) {
    open_trial(&x, 6, async ? behind : every);
    block_step(1 + 3 * async, true); /* the second time it goes on from step 3 */
    begin_rests(ask_to_stop);
    CHECK(tri_train(&x.t, &x.end) == TRI_EFILE);
    CHECK(refusal_is("insist() checkpoints first"), "%d", async);
    CHECK(x.t.progress.step == 1 + 3 * async, "step %lld", (long long)x.t.progress.step);
    close_trial(&x);
    meet();
    block_step(1 + 3 * async, false);
    meet();
    open_trial(&x, async ? 6 : 3, every);
    block_step(async ? 5 : 2, true);
    begin_rests(count_rest);
    OK(tri_train(&x.t, &x.end));
    CHECK(rests == 0 && latest() == (async ? 6 : 3), "%d rests", rests);
    CHECK(x.t.progress.failed_saves == 1 + async); /* over all starts */
    close_trial(&x);
    meet();
    block_step(async ? 5 : 2, false);
    meet();
  }
}

/* ---- the output folder ---- */

/* Away when the first try comes, and back for the second. */
static void name_back(double s) {
  char path[2][PATH];

  count_rest(s);
  if (rests == 1 && rt.world_rank == 0) CHECK(!rename(in(path[0], "elsewhere"), in(path[1], "out")));
}

/* A renamed folder gets nothing under its old name, and everything once it is back. */
static void a_renamed_folder_is_waited_for(void **state) {
  char  path[2][PATH];
  trial x;

  (void)state;
  open_trial(&x, 2, NULL);
  if (rt.world_rank == 0) CHECK(!rename(in(path[0], "out"), in(path[1], "elsewhere")));
  meet();
  begin_rests(name_back);
  OK(tri_train(&x.t, &x.end));
  CHECK(latest() == 2 && lines_of("out/metrics.jsonl", "\"step\"") == 2 && x.t.progress.failed_saves == 1);
  close_trial(&x);
}

/* A removed folder is made again, with everything from here on. */
static void a_removed_folder_is_made_again(void **state) {
  char  command[PATH];
  trial x;

  (void)state;
  open_trial(&x, 2, NULL);
  snprintf(command, sizeof command, "rm -rf '%s/out'", folder);
  if (rt.world_rank == 0) CHECK(system(command) == 0);
  meet();
  begin_rests(count_rest);
  OK(tri_train(&x.t, &x.end));
  CHECK(latest() == 2 && lines_of("out/metrics.jsonl", "\"step\"") == 2 && rests == 0);
  CHECK(lines_of("out/deck.yaml", "sft") > 0);
  close_trial(&x);
}

/* The obstacle goes away after the first try. */
static void move_away(double s) {
  char path[2][PATH];

  count_rest(s);
  if (rests == 1 && rt.world_rank == 0) CHECK(!rename(in(path[0], "out"), in(path[1], "another")));
}

/* Another run's folder in its place is not used, because that run's checkpoints would be removed as old
 * ones. */
static void a_folder_of_another_is_left_alone(void **state) {
  char  command[2 * PATH], path[PATH];
  trial x;

  (void)state;
  open_trial(&x, 2, NULL);
  snprintf(
      command, sizeof command,
      "rm -rf '%s/out' && mkdir -p '%s/out/checkpoints/step-00000009' && echo other > '%s/out/deck.yaml'",
      folder, folder, folder);
  if (rt.world_rank == 0) CHECK(system(command) == 0);
  meet();
  begin_rests(move_away);
  OK(tri_train(&x.t, &x.end));
  CHECK(rests > 0 && latest() == 2 && lines_of("out/deck.yaml", "sft") > 0);
  CHECK(lines_of("another/deck.yaml", "other") == 1 && !access(in(path, "another/checkpoints"), F_OK));
  CHECK(access(in(path, "another/.start"), F_OK) && access(in(path, "another/metrics.jsonl"), F_OK));
  close_trial(&x);
}

/* ---- errors ---- */

static void write_rollouts(int steps) {
  golden      g;
  tri_rollout r;

  if (rt.world_rank != 0) return;
  golden_open(&g, "grpo");
  r = golden_rollout(&g);
  for (int step = 1; step <= steps; step++) OK(case_write_rollout(folder, step, &r, NULL, NULL));
  tri_rollout_free(&r);
  golden_close(&g);
}

/* If the source fails, the earlier steps are saved beside the error. */
static void finished_steps_are_kept(void **state) {
  char              replay[ARG_BYTES], path[PATH];
  const char *const further[] = {replay,
                                 "algo.name=grpo",
                                 "algo.num_generations=3",
                                 "run.sampler=trust",
                                 "rollout.rollout_batch_size=2",
                                 "rollout.max_response_length=12",
                                 "rollout.temperature=0.9",
                                 "train.train_batch_size=null",
                                 "data.train=null",
                                 NULL};
  trial             x;
  tri_status        st;

  (void)state;
  write_rollouts(6);
  meet();
  snprintf(replay, sizeof replay, "rollout.replay=%s", folder);
  open_trial(&x, 6, further);
  if (rt.world_rank == 0) OK(tri_file_write(in(path, "step-00000003.jsonl"), "{\n", 2));
  meet();
  st = tri_train(&x.t, &x.end);
  CHECK(st == TRI_EINPUT, "%s", tri_status_text(st));
  CHECK(refusal_is("refuse_kind() step-00000003.jsonl step-00000003.new.jsonl"));
  CHECK(latest() == 2 && lines_of("out/metrics.jsonl", "\"step\"") == 2);
  close_trial(&x);
}

/* After a run of three steps without a checkpoint. */
static void open_unsaved(trial *x) {
  const char *const none[] = {"checkpoint.save_final=false", NULL};

  open_trial(x, 3, none);
  OK(tri_train(&x->t, &x->end));
  CHECK(latest() == -1);
  x->t.plan.steps = 4; /* as if it had ended before its end */
}

static tri_status fail_with(trial *x, tri_status st) {
  (void)tri_fail(__FILE__, __LINE__, __func__, st, "the reason");
  st = tri_save_after_error(&x->t, st);
  CHECK(!strcmp(tri_error_message(), "the reason"));
  return st;
}

/* Between two updates the weights belong to no step. After an error that puts them in doubt, they may not be
 * worth saving. */
static void nothing_wrong_is_written(void **state) {
  trial x;

  (void)state;
  open_unsaved(&x);
  x.t.progress.torn = true;
  CHECK(fail_with(&x, TRI_EREWARD) == TRI_EREWARD && latest() == -1);
  x.t.progress.torn = false;
  CHECK(fail_with(&x, TRI_ENUMERIC) == TRI_ENUMERIC && latest() == -1);
  CHECK(fail_with(&x, TRI_ECOMM) == TRI_ECOMM && latest() == -1);
  if (rt.world_size > 1) { /* each rank by itself, and the doubt of one is enough */
    tri_status st = rt.world_rank == 0 ? TRI_EREWARD : TRI_ENUMERIC;
    CHECK(fail_with(&x, st) == st);
    meet();
    CHECK(latest() == -1);
  }
  CHECK(fail_with(&x, TRI_EREWARD) == TRI_EREWARD && latest() == 3);
  close_trial(&x);
}

/* A launcher finds a file with the reason of an outage, and the next start removes it. */
static void an_outage_is_marked(void **state) {
  char  path[PATH];
  trial x;

  (void)state;
  open_unsaved(&x);
  CHECK(fail_with(&x, TRI_EFILE) == TRI_EFILE && !tri_file_exists(in(path, "out/OUTAGE")));
  CHECK(fail_with(&x, TRI_EREWARD) == TRI_EREWARD);
  meet();
  CHECK(lines_of("out/OUTAGE", "the reason") == 1);
  close_trial(&x);
  meet();
  open_trial(&x, 3, NULL);
  CHECK(!tri_file_exists(in(path, "out/OUTAGE")));
  close_trial(&x);
}

static int open_ranks(void **state) {
  ranks_open(state);
  tri_log_open(rt.world_rank, TRI_LOG_ERROR);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_last_save_is_tried_again, begin, end),
      cmocka_unit_test_setup_teardown(a_last_save_is_given_up, begin, end),
      cmocka_unit_test_setup_teardown(a_first_save_must_go_well, begin, end),
      cmocka_unit_test_setup_teardown(a_renamed_folder_is_waited_for, begin, end),
      cmocka_unit_test_setup_teardown(a_removed_folder_is_made_again, begin, end),
      cmocka_unit_test_setup_teardown(a_folder_of_another_is_left_alone, begin, end),
      cmocka_unit_test_setup_teardown(finished_steps_are_kept, begin, end),
      cmocka_unit_test_setup_teardown(nothing_wrong_is_written, begin, end),
      cmocka_unit_test_setup_teardown(an_outage_is_marked, begin, end)};

  return cmocka_run_group_tests(tests, open_ranks, ranks_close);
}
