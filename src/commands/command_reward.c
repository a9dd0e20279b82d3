/* command_reward.c - trireme reward DECK --on F.jsonl: tries a deck's rewards on saved answers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/child.h"
#include "base/file.h"
#include "commands.h"
#include "comm/runtime.h"
#include "config/config.h"
#include "tools/tryout/tryout.h"

#include <stdio.h>
#include <string.h>

typedef struct request {
  const char *on;
  bool        json, help;
} request;

static tri_status try_rewards(const tri_config *c, const request *q) {
  tri_tryout t = {.n = 0};
  tri_status st = TRI_OK;

  tri_child_mind_signals();
  TRI_TRY_DONE(tri_tryout_run(c, q->on, &t));
  tri_reward_set_close(&t.set); /* last messages of reward programs come before the results */
  tri_tryout_say_failures(&t);
  TRI_TRY_DONE(tri_tryout_print(&t, q->json));
  if (t.failed)
    TRI_FAIL_DONE(TRI_EREWARD, "%s: answers without a reward, as listed above: %d of %d", q->on, t.failed,
                  t.saved.n);
done:
  tri_tryout_free(&t);
  return st;
}

/* Loads a deck. The output folder of a run stands for its deck.yaml. */
static tri_status load_deck(const char *path, char *const *args, int n_args, tri_config *out) {
  char deck[TRI_FILE_PATH_BYTES];

  if (!tri_file_in(path, "deck.yaml")) return tri_config_load(path, args, n_args, out, NULL);
  if (snprintf(deck, sizeof deck, "%s/deck.yaml", path) >= (int)sizeof deck)
    TRI_FAIL(TRI_EARG, "%.100s...: this path is too long", path);
  return tri_config_load(deck, args, n_args, out, NULL);
}

static tri_status run(int argc, char **argv, int *code) {
  request    q = {.on = NULL};
  tri_config cfg = {0};
  tri_flag   flag[] = {
        {"--on", TRI_FLAG_TEXT, &q.on, 0, 0, "F.jsonl",
         "file of answers (required). It has lines of OUTPUT/rollouts, OUTPUT/eval, generate --json or "
           "eval --output, or lines with `response` and the fields of the deck's data.prompt_key and "
           "data.answer_key"},
        {"--json", TRI_FLAG_BOOL, &q.json, 0, 0, NULL,
         "print a line of JSON for each answer with its rewards, their seconds and extra numbers, and "
           "for a failure the request and the reply. The last line is a summary"}};
  int        n;
  tri_status st = TRI_OK;

  (void)code;
  TRI_TRY(tri_flags_parse(&tri_command_reward, flag, sizeof flag / sizeof *flag, argc, argv, &n, &q.help));
  if (q.help) {
    printf("\nThe rewards run as in a training run, on one rank. The weights of the policy are\n"
           "not read, but those of a reward model are. The exit code is 0 if every answer\n"
           "got every reward, else 69.\n");
    return TRI_OK;
  }
  const tri_need need[] = {{"DECK or OUTPUT", n > 0}, {"--on F.jsonl", q.on}};
  TRI_TRY(tri_flags_need(&tri_command_reward, need, 2, NULL));
  if (tri_runtime_env_rank() != 0) return TRI_OK; /* one rank does the work */
  TRI_TRY_DONE(load_deck(argv[0], argv + 1, n - 1, &cfg));
  TRI_TRY_DONE(try_rewards(&cfg, &q));
done:
  tri_config_free(&cfg);
  return st;
}

const tri_command tri_command_reward = {
    "reward", "DECK|OUTPUT [key=value ...] --on F.jsonl [--json]",
    "try a deck's rewards on saved answers, with mean, failures and seconds of each", run};
