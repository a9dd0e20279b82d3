/* command_plan.c - trireme plan DECK: computes memory, disk and time of a run before it is queued. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"
#include "tools/plan/plan.h"
#include "base/print.h"
#include "comm/slurm.h"
#include "commands.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

typedef struct request {
  const char *path, *gpu, *device, *walltime;
  int64_t     nodes, per_node;
  bool        json;
} request;

/* ---- the machines ---- */

/* Takes the CPU figures measured here by doctor, else those of a typical machine. */
static tri_status figures_of_cpu(tri_plan_job *j, int threads) {
  bool   found;
  size_t bytes_free = 0, bytes_total = 0;

  TRI_TRY(tri_device_find(tri_device_host())->mem_info(NULL, &bytes_free, &bytes_total));
  tri_machine_host(threads, (int64_t)bytes_total, &j->machine);
  snprintf(j->figures, sizeof j->figures, "%s, %d thread%s a rank (not measured)", j->machine.name, threads,
           threads == 1 ? "" : "s");
  TRI_TRY(tri_machine_measured("cpu", threads, &j->machine, &found));
  if (found) snprintf(j->figures, sizeof j->figures, "trireme doctor's figures");
  return TRI_OK;
}

/* Takes this machine's GPU. Fails if the build or the machine has none. */
static tri_status own_gpu(tri_plan_job *j) {
  tri_device *d = NULL;
  size_t      bytes_free, bytes_total;
  tri_status  st = TRI_OK;

  if (!strcmp(tri_device_auto(), tri_device_host()))
    TRI_FAIL(
        TRI_EARG,
        "this program sees no GPU to plan for. Name one (--gpu h100-80) or its memory in GiB (--gpu 80)");
  TRI_TRY_DONE(tri_device_open(tri_device_auto(), 0, 1, &d));
  TRI_TRY_DONE(d->ops->mem_info(d, &bytes_free, &bytes_total));
  if (!tri_machine_guess(d->model, (int64_t)bytes_total, &j->machine)) {
    TRI_TRY_DONE(tri_machine_find("a100-40", &j->machine));
    j->machine.device_bytes = (int64_t)bytes_total;
    snprintf(j->machine.name, sizeof j->machine.name, "%.31s", d->model);
  }
done:
  tri_device_close(&d);
  return st;
}

static tri_status figures_of_gpu(const request *q, tri_plan_job *j) {
  bool found;

  TRI_TRY(q->gpu ? tri_machine_find(q->gpu, &j->machine) : own_gpu(j));
  snprintf(j->figures, sizeof j->figures, "the table of machines");
  if (q->gpu && strcasecmp(q->gpu, j->machine.name)) { /* --gpu gave a size of memory, and the times are those
                                                        * of the nearest GPU */
    snprintf(j->figures, sizeof j->figures, "the table's %s", j->machine.name);
    snprintf(j->machine.name, sizeof j->machine.name, "gpu-%.20s", q->gpu);
  }
  TRI_TRY(tri_machine_measured("cuda", 1, &j->machine, &found));
  if (found) snprintf(j->figures, sizeof j->figures, "trireme doctor's figures");
  return TRI_OK;
}

/* --device comes first, then --gpu, then the deck's run.device. auto takes the device of this machine. */
static tri_status choose_device(const request *q, const tri_config *cfg, tri_plan_job *j) {
  char deck[TRI_CONFIG_WORD_BYTES];

  tri_config_word("run.device", cfg->run.device, deck);
  if (q->gpu && q->device && !strcmp(q->device, "cpu"))
    TRI_FAIL(TRI_EARG, "--gpu %s contradicts --device cpu: remove one of them", q->gpu);
  if (q->gpu && !q->device && !strcmp(deck, "cpu"))
    tri_log(TRI_LOG_WARN, "the deck sets run.device: cpu, but with --gpu %s this plans for run.device=cuda",
            q->gpu);
  if (q->device)
    j->gpu = !strcmp(q->device, "cuda");
  else if (q->gpu || strcmp(deck, "auto"))
    j->gpu = q->gpu || strcmp(deck, "cpu");
  else
    j->gpu = strcmp(tri_device_auto(), tri_device_host()) != 0;
  return TRI_OK;
}

/* Warns if --gpus-per-node was given without a device and CPUs were chosen. */
static void say_cpus(const request *q, const tri_config *cfg, const tri_plan_job *j) {
  char deck[TRI_CONFIG_WORD_BYTES];

  if (!q->per_node || q->device || j->gpu) return;
  tri_config_word("run.device", cfg->run.device, deck);
  tri_log_narrow(
      TRI_LOG_WARN,
      "no --gpu is given and %s, so --gpus-per-node %lld is planned as %lld rank%s on the CPUs of a node. "
      "For GPUs give --gpu h100-80 or the like. For CPUs give --device cpu",
      strcmp(deck, "auto") ? "run.device is cpu" : "this program sees no GPU here", (long long)q->per_node,
      (long long)q->per_node, q->per_node == 1 ? "" : "s");
}

/* Takes the ranks of the flags, else the ranks a run of the deck would get here. */
static void choose_ranks(const request *q, const tri_config *cfg, tri_plan_job *j) {
  int ranks, here;

  tri_runtime_env_ranks(&ranks, &here);
  j->here = !q->nodes && !q->per_node && !q->gpu;
  j->nodes = q->nodes ? (int)q->nodes : j->here ? ranks / here : 1;
  j->per_node = q->per_node ? (int)q->per_node : here;
  if (q->per_node || !q->nodes) return;
  if (cfg->run.ranks_per_node)
    j->per_node = (int)cfg->run.ranks_per_node;
  else
    tri_log(TRI_LOG_INFO, "--gpus-per-node is not given, so this plans for %d %s%s on each of %d node%s",
            j->per_node, j->gpu ? "GPU" : "rank", j->per_node == 1 ? "" : "s", j->nodes,
            j->nodes == 1 ? "" : "s");
}

/* Threads of a rank. On this machine they are those of a session (comm/session.c). */
static int threads_of(const tri_config *cfg, const tri_plan_job *j) {
  long        cores = sysconf(_SC_NPROCESSORS_ONLN);
  tri_runtime rt;
  char        why[64];

  if (cfg->run.threads) return (int)cfg->run.threads;
  if (j->here && tri_runtime_pretend(j->per_node, j->per_node, 0, &rt) == TRI_OK)
    return tri_session_threads(&rt, why);
  return cores / j->per_node > 1 ? (int)(cores / j->per_node) : 1;
}

static tri_status find_job(const request *q, const tri_config *cfg, tri_plan_job *j) {
  *j = (tri_plan_job){0};
  TRI_TRY(choose_device(q, cfg, j));
  say_cpus(q, cfg, j);
  choose_ranks(q, cfg, j);
  if ((int64_t)j->nodes * j->per_node > TRI_RUNTIME_MOST_RANKS)
    TRI_FAIL(TRI_EARG, "--nodes %d x --gpus-per-node %d: at most %d ranks can be planned", j->nodes,
             j->per_node, TRI_RUNTIME_MOST_RANKS);
  if (q->walltime) {
    j->walltime_s = tri_slurm_seconds(q->walltime);
    if (!(j->walltime_s > 0))
      TRI_FAIL(TRI_EARG,
               "--walltime %s: must be a time as sbatch reads it: 90 (minutes), 12:00:00, 1-12 (days-hours)",
               q->walltime);
  }
  return j->gpu ? figures_of_gpu(q, j) : figures_of_cpu(j, threads_of(cfg, j));
}

/* ---- the answer ---- */

/* Logs each error as a run would, then fails with their exit code. */
static tri_status fail_with(const char *path, tri_errors *errors) {
  tri_errors_say(errors);
  TRI_FAIL(errors->st, "%s: %lld error%s, listed above. Nothing was planned", path, (long long)errors->n,
           errors->n == 1 ? "" : "s");
}

static tri_status answer(const request *q, char *const *args, int n_args, const tri_plan *p, int *code) {
  tri_advice advice[TRI_ADVICE_MOST];
  int        n = 0;
  tri_text   text = {0};
  tri_status st = TRI_OK;

  if (!p->fits) {
    tri_log_mute(TRI_LOG_ERROR); /* each attempt would repeat the errors */
    st = tri_plan_advise(q->path, args, n_args, p, advice, &n);
    tri_log_unmute();
    TRI_TRY(st);
    *code = 64;
  }
  TRI_TRY_DONE((q->json ? tri_plan_print_json : tri_plan_print)(p, advice, n, &text));
  TRI_TRY_DONE(tri_print(text.data, text.len));
done:
  tri_text_free(&text);
  return st;
}

static tri_status make(const request *q, char *const *args, int n_args, int *code) {
  tri_config   cfg = {0};
  tri_text     notes = {0};
  tri_errors   errors = {0};
  tri_plan_job job;
  tri_plan     p = {0};
  tri_status   st = TRI_OK;

  TRI_TRY_DONE(tri_error_note(tri_config_load_all(q->path, args, n_args, &cfg, &notes, &errors), &errors));
  if (!errors.n) {
    tri_config_say_notes(&notes);
    TRI_TRY_DONE(find_job(q, &cfg, &job));
    TRI_TRY_DONE(tri_plan_open(q->path, args, n_args, &job, NULL, NULL, &errors, &p));
    if (!errors.n) TRI_TRY_DONE(tri_plan_time(&p));
  }
  st = errors.n ? fail_with(q->path, &errors) : answer(q, args, n_args, &p, code);
done:
  tri_plan_close(&p);
  tri_errors_free(&errors);
  tri_text_free(&notes);
  tri_config_free(&cfg);
  return st;
}

static tri_status plan(int argc, char **argv, int *code) {
  request  q = {0};
  tri_flag flag[] = {
      {"--nodes", TRI_FLAG_I64, &q.nodes, 1, 1 << 20, "N", "nodes of the job"},
      {"--gpus-per-node", TRI_FLAG_I64, &q.per_node, 1, 1024, "G",
       "ranks of a node, one for each GPU or share of its cores"},
      {"--gpu", TRI_FLAG_TEXT, &q.gpu, 0, 0, "NAME|GiB",
       "GPU of each rank, or its memory in GiB. It need not be in this machine. Names: a100-40, a100-80, "
       "h100-80, h200, gh200, b200, a10-24, a40-48, l4-24, l40-48, l40s-48, rtx3090-24, rtx4090-24, "
       "rtx5090-32"},
      {"--device", TRI_FLAG_WORD, &q.device, 0, 0, "cpu|cuda",
       "device of the ranks (default run.device, or cuda with --gpu)"},
      {"--walltime", TRI_FLAG_TEXT, &q.walltime, 0, 0, "H:M:S",
       "time limit of the job, for the number of steps that fit in it"},
      {"--json", TRI_FLAG_BOOL, &q.json, 0, 0, NULL, "print one JSON object"}};
  int  n;
  bool help;

  TRI_TRY(tri_flags_parse(&tri_command_plan, flag, 6, argc, argv, &n, &help));
  if (help) return TRI_OK;
  if (n < 1 || (strchr(argv[0], '=') && access(argv[0], F_OK)))
    TRI_FAIL(TRI_EARG, "the deck is missing. Usage: trireme plan %s", tri_command_plan.usage);
  q.path = argv[0];
  return tri_runtime_env_rank() == 0 ? make(&q, argv + 1, n - 1, code) : TRI_OK;
}

const tri_command tri_command_plan = {
    "plan", "DECK [key=value ...]",
    "compute memory, disk and time of a run, and propose changes that make it fit. The exit code is 0 if the "
    "memory fits, else 64, and does not cover disk and walltime",
    plan};
