/* command_show.c - trireme show OUTPUT: shows prompts, answers, right answers, rewards and advantages. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/show/show.h"
#include "comm/runtime.h"
#include "commands.h"

#include <stdio.h>

enum { PROMPTS = 3 }; /* chosen: groups that fill a few screens */

typedef struct request {
  tri_show_opt opt;
  int64_t      best, worst, cut, prompts; /* 0 if not given, prompts -1 */
  bool         help;
} request;

/* Finds the one selection among the flags and its number of answers. */
static tri_status choose(request *q) {
  const struct {
    const char     *flag;
    int64_t         n;
    tri_show_choice choice;
  } way[] = {{"--best", q->best, TRI_SHOW_BEST},
             {"--worst", q->worst, TRI_SHOW_WORST},
             {"--cut", q->cut, TRI_SHOW_CUT}};
  const char *given = NULL;

  q->opt.n = q->prompts >= 0 ? q->prompts : PROMPTS;
  for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
    if (!way[i].n) continue;
    if (given) TRI_FAIL(TRI_EARG, "%s and %s: give one of them", given, way[i].flag);
    given = way[i].flag;
    q->opt.choice = way[i].choice;
    q->opt.n = way[i].n;
  }
  if (q->prompts < 0) return TRI_OK;
  if (!given && q->opt.prompt >= 0) given = "--prompt";
  if (given) TRI_FAIL(TRI_EARG, "%s and --max-prompts: give one of them", given);
  return TRI_OK;
}

static tri_status run(int argc, char **argv, int *code) {
  request  q = {.opt = {.step = -1, .prompt = -1}, .prompts = -1};
  tri_flag flag[] = {
      {"--step", TRI_FLAG_I64, &q.opt.step, 0, 9e18, "N", "answers of step N (default the newest saved one)"},
      {"--best", TRI_FLAG_I64, &q.best, 1, TRI_SHOW_ANSWERS_MOST, "N",
       "show the N answers with the highest reward, of the newest saved step or of --step"},
      {"--worst", TRI_FLAG_I64, &q.worst, 1, TRI_SHOW_ANSWERS_MOST, "N",
       "show the N answers with the lowest reward, of the newest saved step or of --step"},
      {"--cut", TRI_FLAG_I64, &q.cut, 1, TRI_SHOW_ANSWERS_MOST, "N",
       "show the first N answers cut at the length limit"},
      {"--prompt", TRI_FLAG_I64, &q.opt.prompt, 0, 9e18, "ID",
       "show answers to this prompt, of every saved step or of --step"},
      {"--max-prompts", TRI_FLAG_I64, &q.prompts, 0, 1e9, "N",
       "show the answers to the first N prompts, 0 for all (default 3)"},
      {"--eval", TRI_FLAG_BOOL, &q.opt.evals, 0, 0, NULL,
       "show answers of evaluations (eval.save) instead of steps"},
      {"--json", TRI_FLAG_BOOL, &q.opt.json, 0, 0, NULL,
       "print the chosen lines as JSON, each with its step"}};
  int n;

  (void)code;
  TRI_TRY(tri_flags_parse(&tri_command_show, flag, sizeof flag / sizeof *flag, argc, argv, &n, &q.help));
  if (q.help) {
    printf("\nOUTPUT is the output folder of a run with rollout.save_every or eval.save in its\n"
           "deck, or a file written by generate --json or eval --output. On a terminal the\n"
           "answers go through $PAGER (default less -R, none if it is empty), in colour\n"
           "unless NO_COLOR is set.\n");
    return TRI_OK;
  }
  const tri_need need[] = {{"OUTPUT", n > 0}};
  TRI_TRY(tri_flags_need(&tri_command_show, need, 1, n > 1 ? argv[1] : NULL));
  TRI_TRY(choose(&q));
  if (tri_runtime_env_rank() != 0) return TRI_OK; /* one rank does the work */
  q.opt.path = argv[0];
  return tri_show(&q.opt);
}

const tri_command tri_command_show = {
    "show", "OUTPUT [--step N] [--best N|--worst N|--cut N] [flags]",
    "show saved answers of a run with prompts, right answers, rewards and advantages", run};
