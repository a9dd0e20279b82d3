/* command_doctor.c - trireme doctor [DECK] [key=value ...]: finds faults of this launch before training. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "comm/runtime.h"
#include "config/config.h"
#include "tools/doctor/exam/examine.h"
#include "commands.h"

#include <string.h>

enum { MOST_S = 60 }; /* interface.md: no check waits longer */

enum { ALONE = 7 }; /* paths from keys with one value each */

/* Lists in *out [*n] the files and folders a run of the deck reads. The strings are borrowed. Free the array
 * with tri_host_free. */
static tri_status list_inputs(const tri_config *c, const char ***out, int *n) {
  const char *const alone[ALONE] = {
      c->model.path, c->model.config, c->model.tokenizer,        c->model.ref_path,
      c->lora.path,  c->critic.path,  tri_config_reward_model(c)};
  const tri_config_list *const list[] = {&c->data.train, &c->data.eval};

  *n = 0;
  TRI_TRY(TRI_ALLOC(*out, ALONE + c->data.train.n + c->data.eval.n));
  for (int i = 0; i < ALONE; i++)
    if (alone[i] && alone[i][0]) (*out)[(*n)++] = alone[i];
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < list[k]->n; i++) (*out)[(*n)++] = list[k]->item[i];
  return TRI_OK;
}

/* Uses the folders, files and device of the deck. Without a deck it uses the defaults of a run. */
static tri_status examine(const char *deck, char *const *args, int n_args, tri_examine_opt *opt, int *code) {
  tri_config   cfg = {0};
  const char **input = NULL;
  char         device[TRI_CONFIG_WORD_BYTES] = "auto";
  tri_status   st = TRI_OK;

  if (deck) {
    TRI_TRY_DONE(tri_config_load(deck, args, n_args, &cfg, NULL));
    tri_config_choose(&cfg);
    tri_config_word("run.device", cfg.run.device, device);
    opt->ranks_per_node = (int)cfg.run.ranks_per_node;
    opt->threads = (int)cfg.run.threads;
    opt->tensor = (int)cfg.shard.tensor_parallel_size;
    opt->folder = cfg.run.output;
    TRI_TRY_DONE(list_inputs(&cfg, &input, &opt->n_input));
    opt->input = input;
  }
  opt->device = device;
  TRI_TRY_DONE(tri_runtime_check_launcher());
  TRI_TRY_DONE(tri_examine(opt, code));
done:
  TRI_FREE(input);
  tri_config_free(&cfg);
  return st;
}

static tri_status doctor(int argc, char **argv, int *code) {
  tri_examine_opt opt = {.folder = "."};
  double          patience_s = 30;
  bool            help;
  int             n;
  tri_flag        flag[] = {{"--json", TRI_FLAG_BOOL, &opt.json, 0, 0, NULL,
                             "print one JSON value with ranks, findings and bandwidth"},
                            {"--timeout", TRI_FLAG_F64, &patience_s, 1, MOST_S, "S",
                             "seconds to wait for a rank or a check before naming it (default 30)"}};

  TRI_TRY(tri_flags_parse(&tri_command_doctor, flag, 2, argc, argv, &n, &help));
  if (help) return TRI_OK;
  if (n > 0 && strchr(argv[0], '='))
    TRI_FAIL(TRI_EARG, "'%s': the deck comes first. Usage: trireme doctor %s", argv[0],
             tri_command_doctor.usage);
  opt.patience_s = patience_s;
  return examine(n > 0 ? argv[0] : NULL, argv + 1, n > 0 ? n - 1 : 0, &opt, code);
}

const tri_command tri_command_doctor = {
    "doctor", "[DECK [key=value ...]] [flags]",
    "find faults of nodes, devices, network and folders, with their cures. Start it under srun or mpirun "
    "like the run",
    doctor};
