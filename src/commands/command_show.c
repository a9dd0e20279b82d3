/* command_show.c - trireme show OUTPUT: prompts, answers, right answers, rewards, advantages. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/show/show.h"
#include "comm/runtime.h"
#include "commands.h"

#include <stdio.h>

enum { PROMPTS = 3 }; /* chosen: a few screens of groups */

typedef struct request {
  tri_show_opt opt;
  int64_t      best, worst, cut, prompts; /* 0: not asked for; prompts -1 */
  bool         help;
} request;

/* One way to choose, and which. */
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
      {"--step", TRI_FLAG_I64, &q.opt.step, 0, 9e18, "N", "of this step (the newest that was saved)"},
      {"--best", TRI_FLAG_I64, &q.best, 1, TRI_SHOW_ANSWERS_MOST, "N",
       "the N answers with the highest reward"},
      {"--worst", TRI_FLAG_I64, &q.worst, 1, TRI_SHOW_ANSWERS_MOST, "N",
       "the N answers with the lowest reward"},
      {"--cut", TRI_FLAG_I64, &q.cut, 1, TRI_SHOW_ANSWERS_MOST, "N",
       "the first N that were cut at the length"},
      {"--prompt", TRI_FLAG_I64, &q.opt.prompt, 0, 9e18, "ID",
       "answers to this prompt alone, of every saved step unless --step says of which"},
      {"--max-prompts", TRI_FLAG_I64, &q.prompts, 0, 1e9, "N",
       "the answers to the first N prompts; 0: to all (3)"},
      {"--eval", TRI_FLAG_BOOL, &q.opt.evals, 0, 0, NULL, "answers of evaluations (eval.save), not of steps"},
      {"--json", TRI_FLAG_BOOL, &q.opt.json, 0, 0, NULL, "the chosen lines, each with its step"}};
  int n;

  (void)code;
  TRI_TRY(tri_flags_parse(&tri_command_show, flag, sizeof flag / sizeof *flag, argc, argv, &n, &q.help));
  if (q.help) {
    printf("\nOUTPUT is the output folder of a run, whose deck says rollout.save_every or\n"
           "eval.save, or a file of such lines, as generate --json and eval --output write\n"
           "them. On a terminal they are shown by $PAGER (less -R; '': by none), in colour\n"
           "unless NO_COLOR is set.\n");
    return TRI_OK;
  }
  const tri_need need[] = {{"OUTPUT", n > 0}};
  TRI_TRY(tri_flags_need(&tri_command_show, need, 1, n > 1 ? argv[1] : NULL));
  TRI_TRY(choose(&q));
  if (tri_runtime_env_rank() != 0) return TRI_OK; /* work for one rank */
  q.opt.path = argv[0];
  return tri_show(&q.opt);
}

const tri_command tri_command_show = {
    "show", "OUTPUT [--step N] [--best N|--worst N|--cut N] [flags]",
    "answers that a run saved, with their prompts, rewards and right answers", run};
