/* test_slow_rank.c - a training run with a slow rank. Run with 3 ranks. Judge: the same run without it. The
 * slow rank answers fewer prompts than each other rank, and metrics and answers are the same. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "comm/pause.h"
#include "device/kernels.h"
#include "model_case.h"
#include "train/train.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANKS = 3, STEPS = 2, PROMPTS = 24, GROUP = 2, EVAL = 12, MOST_ARGS = 16 };

static char folder[256];

/* ---- a slow rank ---- */

/* Waits of each rank for the others, in memory of all ranks. */
static _Atomic int64_t  *waits;
static _Atomic int64_t   alone[RANKS]; /* until they share memory */
static int64_t           seen[RANKS];  /* of `waits`, before the last decode step of this rank */
static bool              slow;         /* this rank is the slow one */
static tri_kernels       spied_kernels;
static tri_device_ops    spied; /* the device's table, with decode steps that may be slow */
static tri_decode_in_fn *real_decode_in;

void __real_tri_pause_idle(tri_pause *p);
void __wrap_tri_pause_idle(tri_pause *p);

/* Runs in place of tri_pause_idle (the linker's --wrap). */
void __wrap_tri_pause_idle(tri_pause *p) {
  waits[rt.world_rank]++;
  __real_tri_pause_idle(p);
}

/* Begins a decode step. The slow rank begins one only after each other rank has waited for it since the one
 * before. So the others decode all that they have between two of its steps, however fast this machine is. */
static tri_status slow_decode_in(tri_stream *s, tri_out token, tri_out table, tri_in drawn, tri_in from,
                                 tri_in pos, tri_in slot) {
  tri_pause pause = {0};

  for (int r = 0; slow && r < RANKS; r++) {
    while (r != rt.world_rank && waits[r] == seen[r]) __real_tri_pause_idle(&pause);
    seen[r] = waits[r];
  }
  return real_decode_in(s, token, table, drawn, from, pos, slot);
}

static void spy(tri_device *d) {
  spied = *d->ops;
  spied_kernels = *spied.kernels;
  real_decode_in = spied_kernels.decode_in;
  spied_kernels.decode_in = slow_decode_in;
  spied.kernels = &spied_kernels;
  d->ops = &spied;
}

static void share_memory(void) {
  char   path[300];
  size_t bytes = RANKS * sizeof *waits;
  int    fd;
  void  *p;

  snprintf(path, sizeof path, "%s/waits", folder);
  fd = open(path, O_RDWR | O_CREAT, 0600);
  CHECK(fd >= 0 && !ftruncate(fd, (off_t)bytes));
  p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(p != MAP_FAILED && !close(fd));
  waits = p;
}

/* ---- a run ---- */

/* Returns the answers of this rank in the last step and the evaluation behind it. */
static int64_t run(const char *name, bool with_slow) {
  char          arg[MOST_ARGS][640], *argv[MOST_ARGS];
  int           n = 0;
  tri_config    cfg = {0};
  tri_session   se;
  tri_trainer   t = {0};
  tri_train_end end;
  int64_t       answers;

#define ADD(...) snprintf(arg[n++], sizeof arg[0], __VA_ARGS__)
  ADD("run.output=%s/%s", folder, name);
  ADD("model.config=%s/train/config.json", test_data());
  ADD("model.tokenizer=%s/train/tokenizer.json", test_data());
  ADD("data.train=%s/train/prompts.jsonl", test_data());
  ADD("data.eval=%s/train/prompts.jsonl", test_data());
  ADD("algo.num_generations=%d", GROUP);
  ADD("rollout.rollout_batch_size=%d", PROMPTS);
  ADD("rollout.max_response_length=48");
  ADD("rollout.max_sequences=2"); /* few prompts are dealt before anyone has decoded a step */
  ADD("train.steps=%d", STEPS);
  ADD("train.micro_batch_size=4");
  ADD("eval.steps=1");
  ADD("eval.max_prompts=%d", EVAL);
#undef ADD
  for (int i = 0; i < n; i++) argv[i] = arg[i];
  OK(tri_config_load(TRI_TEST_DATA "/train/deck.yaml", argv, n, &cfg, NULL));
  session_open(&se, 1);
  spy(se.device);
  slow = with_slow && rt.world_rank == RANKS - 1;
  OK(tri_trainer_open(&cfg, &se, NULL, &t));
  OK(tri_train(&t, &end));
  CHECK(end == TRI_TRAIN_FINISHED);
  answers = t.sampling.did.done;
  tri_trainer_close(&t);
  tri_session_close(&se);
  tri_config_free(&cfg);
  return answers;
}

/* ---- comparing two runs ---- */

static bool ends_with(const char *key, size_t n, const char *end) {
  return n >= strlen(end) && !strncmp(key + n - strlen(end), end, strlen(end));
}

/* Returns whether a metric depends on speed. */
static bool is_timed(const char *key, size_t n) {
  return !strncmp(key, "time_", 5) || !strncmp(key, "mem_", 4) || ends_with(key, n, "_per_s") ||
         (n == 17 && !strncmp(key, "rollout_use_ratio", n));
}

/* Removes the values of metrics that depend on speed. Values have neither commas nor braces. Returns the
 * number of values kept. */
static int64_t keep_numbers(char *text) {
  char   *out = text;
  int64_t n = 0;

  for (const char *at = text; *at;) {
    const char *key = at + 1, *value = *at == '"' ? strstr(key, "\": ") : NULL;
    size_t      skip = value ? strcspn(value, ",}\n") : 0;
    if (!value) {
      *out++ = *at++;
      continue;
    }
    if (!is_timed(key, (size_t)(value - key))) {
      memmove(out, at, (size_t)(value - at) + skip);
      out += (size_t)(value - at) + skip;
      n++;
    }
    at = value + skip;
  }
  *out = 0;
  return n;
}

static void read_file(const char *name, const char *file, char **text) {
  char   path[640];
  size_t bytes;

  snprintf(path, sizeof path, "%s/%s/%s", folder, name, file);
  OK(tri_file_read(path, 1 << 24, text, &bytes));
}

static void expect_equal(const char *file, bool metrics) {
  char *text[2];

  read_file("even", file, &text[0]);
  read_file("slow", file, &text[1]);
  if (metrics) CHECK(keep_numbers(text[0]) > 20 * STEPS && keep_numbers(text[1]) > 20 * STEPS);
  CHECK(!strcmp(text[0], text[1]), "%s: %s and %s", file, text[0], text[1]);
  for (int i = 0; i < 2; i++) tri_host_free((void **)&text[i]);
}

static void a_slow_rank_answers_fewer_prompts(void **state) {
  double n[2][RANKS] = {{0}};

  (void)state;
  n[0][rt.world_rank] = (double)run("even", false);
  n[1][rt.world_rank] = (double)run("slow", true);
  OK(tri_host_sum(world, n[0], 2 * RANKS));
  for (int i = 0; i < 2; i++) CHECK(n[i][0] + n[i][1] + n[i][2] == PROMPTS * GROUP + EVAL);
  for (int r = 0; r < 2; r++) CHECK(n[1][2] < n[1][r], "%.0f %.0f %.0f answers", n[1][0], n[1][1], n[1][2]);
  if (rt.world_rank != 0) return;
  printf("%.0f %.0f %.0f answers, with a slow rank %.0f %.0f %.0f\n", n[0][0], n[0][1], n[0][2], n[1][0],
         n[1][1], n[1][2]);
  expect_equal("metrics.jsonl", true);
  for (int step = 1; step <= STEPS; step++) {
    char file[64];
    snprintf(file, sizeof file, "rollouts/step-%08d.jsonl", step);
    expect_equal(file, false);
  }
}

static int open_all(void **state) {
  const char *tmp = getenv("TMPDIR");

  waits = alone;
  ranks_open(state);
  if (rt.world_rank == 0) {
    snprintf(folder, sizeof folder, "%s/trireme-test-XXXXXX", tmp ? tmp : "/tmp");
    CHECK(mkdtemp(folder));
  }
  OK(tri_host_bcast(world, folder, sizeof folder, 0));
  share_memory();
  CHECK(rt.world_size == RANKS);
  tri_log_open(rt.world_rank, TRI_LOG_WARN);
  return 0;
}

static int close_all(void **state) {
  char command[300];

  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  CHECK(rt.world_rank != 0 || !system(command));
  return ranks_close(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_slow_rank_answers_fewer_prompts)};

  return cmocka_run_group_tests(tests, open_all, close_all);
}
