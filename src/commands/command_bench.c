/* command_bench.c - trireme bench [DECK] [key=value ...]: measures this machine against its limits before a
 * long run. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/columns.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "base/print.h"
#include "tools/bench/bench_report.h"
#include "comm/runtime.h"
#include "commands.h"
#include "tools/infer/infer.h"
#include "tools/plan/plan.h"

#include <stdio.h>
#include <string.h>

typedef struct request {
  const char *deck; /* NULL if none was given */
  char      **args;
  int         n_args;
  int64_t     threads; /* 0 takes the deck's run.threads, else session.h's default */
  int64_t     tensor;  /* 0 takes the deck's shard.tensor_parallel_size, else 1 */
  double      seconds;
  bool        json;
} request;

static tri_status check_space(const request *q, const tri_plan *p) {
  bool gpu = p->job.gpu && p->sum.device > p->space_bytes;
  char need[TRI_CELL_BYTES], space[TRI_CELL_BYTES];

  if (p->fits) return TRI_OK;
  tri_cell_bytes(gpu ? p->sum.device : p->host_bytes_per_node, need);
  tri_cell_bytes(gpu ? p->space_bytes : p->host_space_bytes, space);
  TRI_FAIL(
      TRI_ECONFIG,
      "%s: does not fit this machine. It needs %s %s, but only %s can be used. `trireme plan %s` shows a "
      "setup that fits",
      q->deck, need, gpu ? "of each GPU" : "of its memory", space, q->deck);
}

/* Not collective. Plans the deck for as many ranks as were started, without opening the model. */
static tri_status read_deck(const request *q, const tri_session *se, tri_bench_case *out) {
  tri_plan_job job = {.nodes = se->rt.world_size / se->rt.machine_ranks,
                      .per_node = se->rt.machine_ranks,
                      .gpu = tri_device_is_gpu(se->device),
                      .here = true};
  size_t       bytes_free = 0, bytes = 0;
  tri_errors   errors = {0};
  tri_plan     p = {0};
  tri_status   st = TRI_OK;

  TRI_TRY_DONE(se->device->ops->mem_info(se->device, &bytes_free, &bytes));
  job.machine.device_bytes = (int64_t)bytes;
  TRI_TRY_DONE(tri_plan_open(q->deck, q->args, q->n_args, &job, NULL, NULL, &errors, &p));
  if (errors.n) {
    tri_errors_say(&errors);
    TRI_FAIL_DONE(errors.st, "%s: %lld error%s, listed above. Nothing was measured", q->deck,
                  (long long)errors.n, errors.n == 1 ? "" : "s");
  }
  TRI_TRY_DONE(check_space(q, &p));
  tri_plan_case(&p, out);
done:
  tri_plan_close(&p);
  tri_errors_free(&errors);
  return st;
}

static tri_status print(const request *q, const tri_bench_case *c, const tri_bench_result *r) {
  tri_text   text = {0};
  tri_status st;

  st = (q->json ? tri_bench_print_json : tri_bench_print)(q->deck, c, r, &text);
  if (st == TRI_OK) st = tri_print(text.data, text.len);
  tri_text_free(&text);
  return st;
}

/* Collective over MPI_COMM_WORLD. */
static tri_status measure(const request *q, const tri_session_opt *opt, const char *folder) {
  tri_session       se = {0};
  tri_bench_case   *c = NULL;
  tri_bench_result *r = NULL;
  tri_comm         *world;
  tri_status        st = TRI_OK;

  TRI_TRY_DONE(tri_runtime_check_launcher());
  TRI_TRY_DONE(tri_session_open(opt, &se));
  tri_session_say_threads(&se);
  world = se.comm[TRI_WORLD];
  TRI_TRY_DONE(TRI_ALLOC(c, 1));
  TRI_TRY_DONE(TRI_ALLOC(r, 1));
  tri_bench_case_default(c);
  TRI_TRY_DONE(tri_agree(world, q->deck && world->rank == 0 ? read_deck(q, &se, c) : TRI_OK));
  TRI_TRY_DONE(tri_bench_case_share(world, c));
  c->tensor = se.place.tensor;
  TRI_TRY_DONE(tri_bench_run(&se, c, folder, q->seconds, r));
  TRI_TRY_DONE(tri_agree(world, world->rank == 0 ? print(q, c, r) : TRI_OK));
done:
  tri_session_leave(&se, st);
  TRI_FREE(r);
  TRI_FREE(c);
  return st;
}

/* Uses the device, nodes and threads of the deck. Without a deck it uses the defaults of a run. */
static tri_status start(const request *q) {
  tri_config      cfg = {0};
  tri_text        notes = {0};
  char            device[TRI_CONFIG_WORD_BYTES] = "auto";
  tri_session_opt opt = {.device = device,
                         .threads = (int)q->threads,
                         .timeout_s = 600,
                         .threads_name = q->threads ? "--threads" : NULL,
                         .tensor = (int)q->tensor,
                         .tensor_name = q->tensor ? TRI_INFER_TENSOR_NAME : NULL};
  tri_status      st = TRI_OK;

  if (q->deck) {
    TRI_TRY_DONE(tri_config_load(q->deck, q->args, q->n_args, &cfg, &notes));
    tri_config_say_notes(&notes);
    tri_config_choose(&cfg);
    tri_config_word("run.device", cfg.run.device, device);
    opt.ranks_per_node = (int)cfg.run.ranks_per_node;
    if (!q->threads) opt.threads = (int)cfg.run.threads;
    opt.tensor = (int)cfg.shard.tensor_parallel_size;
    opt.timeout_s = cfg.run.timeout_s;
  }
  st = measure(q, &opt, q->deck ? cfg.run.output : ".");
done:
  tri_text_free(&notes);
  tri_config_free(&cfg);
  return st;
}

/* Turns flags into the deck's keys, so that the plan and the session use the same numbers. */
static tri_status start_with_keys(request *q) {
  const struct {
    const char *key;
    int64_t     value; /* 0: the flag was not given */
  } flag[] = {{"run.threads", q->threads}, {"shard.tensor_parallel_size", q->tensor}};
  enum { FLAGS = sizeof flag / sizeof *flag };
  char       key[FLAGS][64], **args = NULL;
  tri_status st = TRI_OK;

  TRI_TRY(TRI_ALLOC(args, q->n_args + FLAGS));
  for (int i = 0; i < q->n_args; i++) args[i] = q->args[i];
  for (int i = 0; i < FLAGS; i++) {
    if (!flag[i].value) continue;
    snprintf(key[i], sizeof key[i], "%s=%lld", flag[i].key, (long long)flag[i].value);
    args[q->n_args++] = key[i];
  }
  q->args = args;
  st = start(q);
  TRI_FREE(args);
  return st;
}

static tri_status bench(int argc, char **argv, int *code) {
  request  q = {.seconds = 45};
  tri_flag flag[] = {
      {"--seconds", TRI_FLAG_F64, &q.seconds, 1, 3600, "S",
       "approximate time of the whole command (default 45). Each figure is the median of at least five "
       "runs, or of fewer if five take too long"},
      {"--threads", TRI_FLAG_I64, &q.threads, 1, 4096, "N",
       "threads of each rank, at most its share of the cores (default the deck's run.threads, else that "
       "share, less under a cgroup CPU quota, OMP_NUM_THREADS or OMP_THREAD_LIMIT)"},
      TRI_INFER_TENSOR(&q.tensor, "ranks of a node that decode as one model (default the deck's "
                                  "shard.tensor_parallel_size, else 1)"),
      {"--json", TRI_FLAG_BOOL, &q.json, 0, 0, NULL,
       "print one JSON object (tests/bench/README.md explains its names)"}};
  int  n;
  bool help;

  (void)code;
  TRI_TRY(tri_flags_parse(&tri_command_bench, flag, sizeof flag / sizeof *flag, argc, argv, &n, &help));
  if (help) return TRI_OK;
  if (n > 0 && strchr(argv[0], '='))
    TRI_FAIL(TRI_EARG, "'%s': the deck comes first. Usage: trireme bench %s", argv[0],
             tri_command_bench.usage);
  if (n > 0) q.deck = argv[0], q.args = argv + 1, q.n_args = n - 1;
  return q.deck && (q.threads || q.tensor) ? start_with_keys(&q) : start(&q);
}

const tri_command tri_command_bench = {
    "bench", "[DECK [key=value ...]] [flags]",
    "measure speed against the limits of this machine (steps, decoding, collectives, checkpoints)", bench};
