/* test_train.c - five steps of GRPO under every plan, with other micro-batches and token budgets. Run with 1,
 * 2 and 4 ranks, each pretending nodes of one and of two ranks, on $TRI_TEST_DEVICE. Judge: the program
 * itself on one rank with the default plan, started by rank 0 before MPI is up. Results do not depend on the
 * plan, so losses and gradient norms agree to 1e-5. A run is compared up to the first token flipped by
 * rounding, and such runs are rare. $TRI_TEST_FILTER (filter_case.h) selects some of the cases. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "filter_case.h"
#include "model_case.h"

#include "train/train.h"

#include <stdarg.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_ARGS = 24 };

/* Brief for a slow device, with fewer steps and one kind of pretended nodes. */
static bool is_brief(void) { return test_step(2) > 1; }
static int  steps(void) { return is_brief() ? 2 : 5; }

/* ---- folders, FOLDER/NAME per run ---- */

extern char **environ;

static char folder[256]; /* for this process group, made by rank 0 */

static void path_of(char out[512], const char *run, const char *file) {
  snprintf(out, 512, "%s/%s%s%s", folder, run, *file ? "/" : "", file);
}

static void remove_folder(const char *path) {
  DIR *d = opendir(path);

  for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
    char inner[1024];
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
    if (unlink(inner) != 0) remove_folder(inner);
  }
  if (d) closedir(d);
  rmdir(path);
}
static void remove_run(const char *run) {
  char path[512];

  path_of(path, run, "");
  remove_folder(path);
}

/* ---- one run ---- */

typedef struct arguments {
  char text[MOST_ARGS][640];
  int  n;
} arguments;

static void add(arguments *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(arguments *a, const char *fmt, ...) {
  va_list ap;

  CHECK(a->n < MOST_ARGS);
  va_start(ap, fmt);
  vsnprintf(a->text[a->n++], sizeof a->text[0], fmt, ap);
  va_end(ap);
}

static arguments common(const char *run) {
  arguments a = {.n = 0};

  add(&a, "run.output=%s/%s", folder, run);
  add(&a, "model.config=%s/train/config.json", test_data());
  add(&a, "model.tokenizer=%s/train/tokenizer.json", test_data());
  add(&a, "data.train=%s/train/prompts.jsonl", test_data());
  add(&a, "train.steps=%d", steps());
  return a;
}

static const char *deck(void) {
  static char path[512];

  snprintf(path, sizeof path, "%s/train/deck.yaml", test_data());
  return path;
}

/* A run in this process, all ranks together. */
static void train_here(const arguments *a, int ranks_per_node) {
  char         *arg[MOST_ARGS];
  tri_config    cfg = {0};
  tri_session   se;
  tri_trainer   t = {0};
  tri_train_end end;

  for (int i = 0; i < a->n; i++) arg[i] = (char *)a->text[i];
  OK(tri_config_load(deck(), arg, a->n, &cfg, NULL));
  session_open(&se, ranks_per_node);
  OK(tri_trainer_open(&cfg, &se, NULL, &t));
  CHECK(tri_ledger_total(se.ledger).planned == tri_ledger_total(se.ledger).used);
  OK(tri_train(&t, &end));
  CHECK(end == TRI_TRAIN_FINISHED);
  tri_trainer_close(&t);
  tri_session_close(&se);
  tri_config_free(&cfg);
}

/* Returns this process's environment without the launcher's variables, because these would make a rank of the
 * child too. */
static void plain_environment(char **out, int most) {
  static const char *const launcher[] = {"OMPI_", "PMIX_", "PMI_", "ORTE_", "OPAL_", "SLURM_", "HYDRA_"};
  int                      n = 0;

  for (char **e = environ; *e && n < most - 1; e++) {
    bool keep = true;
    for (size_t i = 0; i < sizeof launcher / sizeof *launcher; i++)
      keep = keep && strncmp(*e, launcher[i], strlen(launcher[i])) != 0;
    if (keep) out[n++] = *e;
  }
  out[n] = NULL;
}

/* A run of the program by itself. */
static void train_elsewhere(const arguments *a) {
  char *argv[MOST_ARGS + 5] = {(char *)test_program(), (char *)"train", (char *)deck()}, *envp[1000],
                         device[64];
  int   status;
  pid_t child;

  for (int i = 0; i < a->n; i++) argv[3 + i] = (char *)a->text[i];
  snprintf(device, sizeof device, "run.device=%s", test_device());
  argv[3 + a->n] = device;
  plain_environment(envp, 1000);
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    int quiet = open("/dev/null", O_WRONLY);
    dup2(quiet, 2);
    execve(argv[0], argv, envp);
    _exit(127);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
        "the program alone ended with status %d", status);
}

/* ---- comparing two runs (rank 0) ---- */

static void text_of(const char *run, const char *file, char **text) {
  char   path[512];
  size_t n;

  path_of(path, run, file);
  OK(tri_file_read(path, 1 << 24, text, &n));
}

/* The number behind `key` in the n-th line. */
static double number_of(const char *text, int line, const char *key) {
  const char *at = text, *found;

  for (int i = 0; i < line; i++) at = strchr(at, '\n') + 1;
  found = strstr(at, key);
  CHECK(found, "line %d has no %s", line, key);
  return atof(found + strlen(key));
}

/* True if both runs drew the same tokens in this step. */
static bool same_tokens(const char *a, const char *b, int step) {
  char        file[64], *x, *y;
  const char *p, *q;
  bool        same = true;

  snprintf(file, sizeof file, "rollouts/step-%08d.jsonl", step);
  text_of(a, file, &x);
  text_of(b, file, &y);
  for (p = strstr(x, "\"tokens\": ["), q = strstr(y, "\"tokens\": ["); p && q && same;
       p = strstr(p + 1, "\"tokens\": ["), q = strstr(q + 1, "\"tokens\": ["))
    same = strcspn(p, "]") == strcspn(q, "]") && !strncmp(p, q, strcspn(p, "]"));
  same = same && !p && !q;
  tri_host_free((void **)&x);
  tri_host_free((void **)&y);
  return same;
}

static int    runs, flips;
static double largest; /* relative difference of a loss */

static void close_numbers(const char *run, const char *key, double got, double want, double scale) {
  double d = fabs(got - want) / (fabs(want) > scale ? fabs(want) : scale);

  if (d > largest) largest = d;
  CHECK(d <= 1e-5, "%s: %s %.17g, by itself on one rank %.17g", run, key, got, want);
}

/* A loss is a sum of terms of both signs with sizes around one. Near zero it is compared on the scale of its
 * terms. */
static void compare(const char *run, const char *reference) {
  char *got, *want;

  text_of(run, "metrics.jsonl", &got);
  text_of(reference, "metrics.jsonl", &want);
  runs++;
  for (int step = 1; step <= steps(); step++) {
    if (!same_tokens(run, reference, step)) {
      flips++;
      break;
    }
    close_numbers(run, "loss", number_of(got, step - 1, "\"loss\": "),
                  number_of(want, step - 1, "\"loss\": "), 0.01);
    close_numbers(run, "grad_norm", number_of(got, step - 1, "\"grad_norm\": "),
                  number_of(want, step - 1, "\"grad_norm\": "), 0);
    close_numbers(run, "kl", number_of(got, step - 1, "\"kl_mean_nats\": "),
                  number_of(want, step - 1, "\"kl_mean_nats\": "), 0.01);
  }
  tri_host_free((void **)&got);
  tri_host_free((void **)&want);
}

/* ---- the cases ---- */

/* KL in the reward of rescored log-probabilities, with several updates a step, needs all exchanges between
 * ranks. */
static void add_harder(arguments *a) {
  add(a, "algo.kl_where=reward");
  add(a, "algo.kl_estimator=k1");
  add(a, "run.sampler=rescore");
  add(a, "train.train_batch_size=16");
  add(a, "algo.ppo_epochs=2");
  add(a, "algo.loss_agg_mode=seq-mean-token-mean");
}

static void run_and_compare(arguments *a, const char *name, int ranks_per_node, const char *reference) {
  train_here(a, ranks_per_node);
  if (rt.world_rank == 0) {
    compare(name, reference);
    remove_run(name);
  }
}

static const char *const scopes[] = {"none", "node", "world"};

static void add_plan(arguments *a, int plan) {
  add(a, "shard.params=%s", scopes[plan / 9]);
  add(a, "shard.grads=%s", scopes[plan / 3 % 3]);
  add(a, "shard.optimizer=%s", scopes[plan % 3]);
}
static bool is_legal(int plan) { return plan / 9 <= plan / 3 % 3 && plan / 3 % 3 <= plan % 3; }

static void every_plan(void **state) {
  (void)state;
  for (int per_node = 1; per_node <= 2 && rt.world_size % per_node == 0; per_node++)
    for (int plan = 0; plan < 27; plan++) {
      if (!is_legal(plan) || (is_brief() && per_node != (rt.world_size + 1) / 2)) continue;
      char name[64];
      snprintf(name, sizeof name, "plan-%d-%d", per_node, plan);
      arguments a = common(name);
      add(&a, "train.micro_batch_size=4");
      add_plan(&a, plan);
      run_and_compare(&a, name, per_node, "reference");
    }
}

static void harder_steps(void **state) {
  const int plans[] = {0, 2, 14, 26}; /* none, ZeRO-1, hybrid, ZeRO-3 */

  (void)state;
  for (int k = 0; k < 4; k++) {
    char name[64];
    snprintf(name, sizeof name, "harder-%d", plans[k]);
    arguments a = common(name);
    add(&a, "train.micro_batch_size=4");
    add_plan(&a, plans[k]);
    add_harder(&a);
    run_and_compare(&a, name, 1, "harder");
  }
}

static void other_batches(void **state) {
  const char *const batch[] = {
      "train.micro_batch_size=1",    "train.micro_batch_size=8",    "train.gradient_accumulation_steps=2",
      "train.max_tokens_per_gpu=20", "train.max_tokens_per_gpu=77", "train.max_tokens_per_gpu=2000"};

  (void)state;
  for (size_t k = 0; k < sizeof batch / sizeof *batch; k++) {
    char name[64];
    bool odd = k % 2 != 0;
    snprintf(name, sizeof name, "batch-%zu", k);
    arguments a = common(name);
    add(&a, "%s", batch[k]);
    add(&a, "model.recompute=%s", odd ? "layer" : "none");
    add(&a, "rollout.max_sequences=%d", odd ? 3 : 50);
    add_plan(&a, k % 3 == 0 ? 26 : 14);
    run_and_compare(&a, name, 1, "reference");
  }
}

static void run_references(void) {
  arguments a = common("reference");

  add(&a, "train.micro_batch_size=4");
  train_elsewhere(&a);
  a = common("harder");
  add(&a, "train.micro_batch_size=4");
  add_harder(&a);
  train_elsewhere(&a);
}

/* The references come first, because they start ranks of their own. Then every rank learns the folder's
 * name. */
static int open_all(void **state) {
  const char *tmp = getenv("TMPDIR");

  if (tri_runtime_env_rank() == 0) {
    snprintf(folder, sizeof folder, "%s/trireme-test-XXXXXX", tmp ? tmp : "/tmp");
    CHECK(mkdtemp(folder));
    run_references();
  }
  ranks_open(state);
  OK(tri_host_bcast(world, folder, sizeof folder, 0));
  tri_log_open(rt.world_rank, TRI_LOG_WARN);
  return 0;
}

/* Flipped tokens must be rare over all runs, but a single case may compare nothing. */
static int close_all(void **state) {
  if (rt.world_rank == 0) {
    printf("%d runs compared, %d with a flipped token, largest difference %.2g\n", runs, flips, largest);
    CHECK((runs > 0 || getenv("TRI_TEST_FILTER")) && flips <= runs / 10);
    remove_run("");
  }
  return ranks_close(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_plan), cmocka_unit_test(harder_steps),
                                     cmocka_unit_test(other_batches)};

  test_filter();
  return cmocka_run_group_tests(tests, open_all, close_all);
}
