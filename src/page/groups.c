/* groups.c - what is known of a metric by its name: where it stands on the page, its unit, its axis. */
#include "groups.h"

#include "base/base.h"

#include <stddef.h>
#include <string.h>

/* Names in the order of the page; a star stands for any letters. The first row that fits counts. */
typedef struct known {
  const char *name;
  tri_group   group;
  const char *words;
} known;

/* clang-format off */
static const known table[] = {
  {"reward_mean",           TRI_GROUP_REWARD, "mean reward of the step's answers"},
  {"eval_reward_mean",      TRI_GROUP_EVAL,   "mean reward of held-out prompts"},
  {"eval_pass_at_1",        TRI_GROUP_EVAL,   "share of held-out answers that get every point"},
  {"eval_truncated_ratio",  TRI_GROUP_EVAL,   "share of held-out answers cut off at the limit"},
  {"eval_accuracy",         TRI_GROUP_EVAL,   "held-out pairs ranked rightly"},
  {"eval_response_length*", TRI_GROUP_EVAL,   "length of held-out answers"},
  {"eval_*",                TRI_GROUP_EVAL,   NULL},
  {"reward_std",            TRI_GROUP_REWARD, "standard deviation of the rewards"},
  {"reward_failures",       TRI_GROUP_REWARD, "answers that a reward could not judge"},
  {"reward_restarts",       TRI_GROUP_REWARD, "reward programs that died and were started again"},
  {"reward_*",              TRI_GROUP_REWARD, NULL},
  {"greedy_reward_mean",    TRI_GROUP_REWARD, "mean reward of the greedy answers"},
  {"accuracy",              TRI_GROUP_REWARD, "pairs ranked rightly"},
  {"margin_mean",           TRI_GROUP_REWARD, "chosen less rejected reward"},
  {"chosen_reward_mean",    TRI_GROUP_REWARD, "reward of the chosen side"},
  {"rejected_reward_mean",  TRI_GROUP_REWARD, "reward of the rejected side"},
  {"return_mean",           TRI_GROUP_REWARD, "mean return"},
  {"zero_variance_ratio",   TRI_GROUP_REWARD, "share of groups whose rewards are all equal"},
  {"dropped_groups",        TRI_GROUP_REWARD, "groups left out by dynamic sampling"},
  {"extra_batches",         TRI_GROUP_REWARD, "batches that dynamic sampling took beside"},
  {"loss",                  TRI_GROUP_LOSS,   "what is minimized"},
  {"grad_norm",             TRI_GROUP_LOSS,   "gradient norm before clipping"},
  {"learning_rate",         TRI_GROUP_LOSS,   "of the step's last update"},
  {"clip_ratio",            TRI_GROUP_LOSS,   "share of tokens whose ratio is clipped"},
  {"is_ratio_mean",         TRI_GROUP_LOSS,   "trainer's probability over the sampler's"},
  {"is_capped_ratio",       TRI_GROUP_LOSS,   "share of tokens whose correction is capped"},
  {"value_loss",            TRI_GROUP_LOSS,   "of the critic"},
  {"value_clip_ratio",      TRI_GROUP_LOSS,   "share of clipped values"},
  {"critic_grad_norm",      TRI_GROUP_LOSS,   "of the critic, before clipping"},
  {"explained_variance",    TRI_GROUP_LOSS,   "what the critic knows of the returns; at most 1"},
  {"*loss_scale",           TRI_GROUP_LOSS,   "times which fp16 gradients are taken"},
  {"skipped_steps",         TRI_GROUP_LOSS,   "updates skipped so far"},
  {"overflow_steps",        TRI_GROUP_LOSS,   "of them, for overflow"},
  {"*loss",                 TRI_GROUP_LOSS,   NULL},
  {"*grad_norm",            TRI_GROUP_LOSS,   NULL},
  {"kl_mean_nats",          TRI_GROUP_KL,     "policy against reference"},
  {"entropy_mean_nats",     TRI_GROUP_KL,     "of the policy, a token"},
  {"sampler_gap_max_nats",  TRI_GROUP_KL,     "largest difference of sampler and trainer"},
  {"kl_coef",               TRI_GROUP_KL,     "weight of the KL term"},
  {"entropy_coef",          TRI_GROUP_KL,     "weight of the entropy term"},
  {"kl_*",                  TRI_GROUP_KL,     NULL},
  {"entropy_*",             TRI_GROUP_KL,     NULL},
  {"response_length_mean_tokens", TRI_GROUP_LENGTH, "length of answers"},
  {"truncated_ratio",       TRI_GROUP_LENGTH, "share of answers cut off at the limit"},
  {"tokens",                TRI_GROUP_LENGTH, "tokens trained in the step"},
  {"response_*",            TRI_GROUP_LENGTH, NULL},
  {"time_step_s",           TRI_GROUP_TIME,   "all of a step"},
  {"tokens_per_s",          TRI_GROUP_TIME,   "trained tokens, all ranks"},
  {"time_rollout_s",        TRI_GROUP_TIME,   "answers generated and judged"},
  {"time_reference_s",      TRI_GROUP_TIME,   "the reference's log-probabilities"},
  {"time_critic_s",         TRI_GROUP_TIME,   "the critic's values"},
  {"time_learn_s",          TRI_GROUP_TIME,   "forward, backward and update"},
  {"time_eval_s",           TRI_GROUP_TIME,   "evaluations"},
  {"time_save_s",           TRI_GROUP_TIME,   "checkpoints"},
  {"time_save_behind_s",    TRI_GROUP_TIME,   "checkpoints, beside the steps"},
  {"time_work_s",           TRI_GROUP_TIME,   "the most that a rank worked"},
  {"time_wait_s",           TRI_GROUP_TIME,   "the most that a rank waited"},
  {"failed_saves",          TRI_GROUP_TIME,   "checkpoints that could not be written so far"},
  {"time_*",                TRI_GROUP_TIME,   NULL},
  {"*_per_s",               TRI_GROUP_TIME,   NULL},
  {"mem_used_bytes",        TRI_GROUP_MEMORY, "taken, of the rank that holds most"},
  {"mem_planned_bytes",     TRI_GROUP_MEMORY, "planned before the first step"},
  {"mem_state_bytes",       TRI_GROUP_MEMORY, "weights, gradients, masters, moments"},
  {"mem_gpu_used_bytes",    TRI_GROUP_MEMORY, "as the driver counts"},
  {"mem_gpu_planned_bytes", TRI_GROUP_MEMORY, "the device's part of the plan"},
  {"mem_moved_*",           TRI_GROUP_MEMORY, "what a rank gave to others in the step"},
  {"mem_*",                 TRI_GROUP_MEMORY, NULL},
};
/* clang-format on */
enum { N_KNOWN = sizeof table / sizeof *table };

static bool fits(const char *pattern, const char *name) {
  size_t n = strlen(pattern);

  if (pattern[0] == '*') return tri_ends_with(name, pattern + 1);
  return pattern[n - 1] == '*' ? !strncmp(pattern, name, n - 1) : !strcmp(pattern, name);
}

/* N_KNOWN: the table does not know it. */
static int row_of(const char *name) {
  int i = 0;

  while (i < N_KNOWN && !fits(table[i].name, name)) i++;
  return i;
}

const char *tri_page_group_title(tri_group g) {
  static const char *const title[TRI_GROUPS] = {
      [TRI_GROUP_REWARD] = "Reward",         [TRI_GROUP_EVAL] = "Evaluation",
      [TRI_GROUP_LOSS] = "Loss and updates", [TRI_GROUP_KL] = "KL and entropy",
      [TRI_GROUP_LENGTH] = "Lengths",        [TRI_GROUP_TIME] = "Time and rates",
      [TRI_GROUP_MEMORY] = "Memory",         [TRI_GROUP_OTHER] = "Others"};
  return title[g];
}

tri_group tri_page_group_of(const char *name) {
  int row = row_of(name);

  return row < N_KNOWN ? table[row].group : TRI_GROUP_OTHER;
}

int tri_page_group_order(const char *a, const char *b) {
  int order = row_of(a) - row_of(b);

  return order ? order : strcmp(a, b);
}

const char *tri_page_metric_words(const char *name) {
  int row = row_of(name);

  return row < N_KNOWN ? table[row].words : NULL;
}

tri_axis_kind tri_page_metric_kind(const char *name) {
  return tri_ends_with(name, "_bytes") ? TRI_AXIS_BYTES : TRI_AXIS_NUMBER;
}

const char *tri_page_metric_unit(const char *name) {
  static const char *const unit[][2] = {{"bytes_per_s", "bytes per s"},
                                        {"tokens_per_s", "tokens per s"},
                                        {"_per_s", "per s"},
                                        {"_s", "s"},
                                        {"_nats", "nats"},
                                        {"_tokens", "tokens"}};

  for (size_t i = 0; i < sizeof unit / sizeof *unit; i++)
    if (tri_ends_with(name, unit[i][0])) return unit[i][1];
  return !strcmp(name, "tokens") ? "tokens" : "";
}

bool tri_page_metric_may_be_log(const char *name) {
  return tri_ends_with(name, "learning_rate") || tri_ends_with(name, "grad_norm") ||
         tri_ends_with(name, "loss_scale") || strstr(name, "_gap_") != NULL ||
         strstr(name, "perplexity") != NULL;
}

bool tri_page_metric_is_eval(const char *name) { return !strncmp(name, "eval_", 5); }

bool tri_page_metric_is_hidden(const char *name) {
  return !strcmp(name, "step") || !strcmp(name, "time_unix_s");
}

bool tri_page_metric_is_phase(const char *name, const char **phase, int *n) {
  static const char *const other[] = {"step", "unix", "work", "wait", "save_behind", "gpu_slowed"};
  size_t                   length = strlen(name);

  if (strncmp(name, "time_", 5) != 0 || length < 8 || !tri_ends_with(name, "_s")) return false;
  *phase = name + 5;
  *n = (int)length - 7;
  for (size_t i = 0; i < sizeof other / sizeof *other; i++)
    if (strlen(other[i]) == (size_t)*n && !strncmp(*phase, other[i], (size_t)*n)) return false;
  return true;
}
