/* metric_names.c - the table of metrics, and how a name finds its row. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "metric_names.h"

#include "base/text_buffer.h"

#include <stddef.h>
#include <string.h>

#define REWARD TRI_GROUP_REWARD
#define EVAL   TRI_GROUP_EVAL
#define LOSS   TRI_GROUP_LOSS
#define KL     TRI_GROUP_KL
#define LENGTH TRI_GROUP_LENGTH
#define TIME   TRI_GROUP_TIME
#define MEMORY TRI_GROUP_MEMORY
#define OTHER  TRI_GROUP_OTHER

/* A name is looked up as it stands first, then as a pattern, from the first row on. */
/* clang-format off */
static const tri_metric_row table[] = {
  {"reward_mean", "reward", REWARD, "reward", "mean reward of the step's answers",
   "It rises while the policy learns. Flat from the start: the reward is equal for all answers (zero_variance_ratio) or "
   "train.learning_rate is too small. A sudden rise: read answers (trireme show), the reward may be exploited."},
  {"reward_std", NULL, REWARD, "reward", "standard deviation of the rewards of the step's answers",
   "It falls to 0 when all answers earn the same; then there is nothing to learn."},
  {"zero_variance_ratio", NULL, REWARD, "share", "share of prompts whose answers all got the same reward",
   "It rises when prompts are too easy or too hard. rollout.dynamic_sampling replaces such prompts; "
   "algo.num_generations or another data.train changes it."},
  {"greedy_reward_mean", NULL, REWARD, "reward", "mean reward of the greedy answers, the baseline of remax",
   "It rises with the policy, as reward_mean does."},
  {"reward_failures", NULL, REWARD, "answers", "answers that a reward could not judge",
   "A reward's program or server fails or is too slow, or a pattern reaches its search limit: the log names the cause. "
   "on_error and timeout_s of the reward decide what happens."},
  {"reward_restarts", NULL, REWARD, "count", "reward programs that died and were started again",
   "The program of a process reward crashes: its standard error says why."},
  {"accuracy", "acc", REWARD, "share", "share of pairs whose chosen side has the higher reward; kto: 1 where margin_mean is above 0",
   "It begins near 0.5 and rises. Near 1 at once: the pairs differ in something simple, such as length."},
  {"margin_mean", "margin", REWARD, "reward", "mean of the chosen side's reward less that of the rejected side",
   "It rises while the model learns the preference. algo.beta scales it for dpo and kto."},
  {"chosen_reward_mean", NULL, REWARD, "reward", "mean reward of the chosen side: the score of rm, else beta times the log-ratio",
   "With dpo it may fall while margin_mean rises: algo.sft_coef holds it up."},
  {"rejected_reward_mean", NULL, REWARD, "reward", "mean reward of the rejected side: the score of rm, else beta times the log-ratio",
   "It falls while the model learns the preference."},
  {"return_mean", NULL, REWARD, "reward", "mean return of the answers' tokens, what the critic learns",
   "It follows reward_mean; algo.gamma and a KL in the reward lower it."},
  {"dropped_groups", NULL, REWARD, "prompts", "prompts that dynamic sampling left out, as all their answers got the same reward",
   "It rises when prompts are too easy or too hard for the policy."},
  {"extra_batches", NULL, REWARD, "count", "batches of prompts that dynamic sampling asked for beside the first",
   "It rises with dropped_groups, up to rollout.max_extra_batches; each costs a generation."},
  {"eval_pass_at_1", "pass@1", EVAL, "share", "share of held-out answers that get every point: the largest sum the rewards allow",
   "It rises with what the policy can do. eval.temperature 0 asks for the greedy answer. A reward model has no such number."},
  {"eval_pass_at_k", NULL, EVAL, "share", "share of held-out prompts of which any of k answers gets every point, k = eval.num_generations",
   "It is at least eval_pass_at_1. When it falls while that rises, answers become alike: see entropy_mean_nats."},
  {"eval_best_at_k", NULL, EVAL, "reward", "mean over held-out prompts of the largest reward of k answers",
   "It rises with k = eval.num_generations and with what the policy can do."},
  {"eval_majority_at_k", NULL, EVAL, "reward", "mean over held-out prompts of the reward of the answer whose final result most of k answers have",
   "It rises when right results become more frequent than any wrong one. Rewards that read no final result have none."},
  {"eval_reward_mean", "eval", EVAL, "reward", "mean reward of the held-out answers",
   "It rises with the policy. Falling while reward_mean rises: the policy fits the training prompts."},
  {"eval_reward_failures", NULL, EVAL, "answers", "held-out answers that a reward could not judge",
   "As reward_failures."},
  {"eval_response_length_mean_tokens", NULL, EVAL, "tokens", "mean length of held-out answers, their end token included",
   "As response_length_mean_tokens."},
  {"eval_truncated_ratio", "ecut", EVAL, "share", "share of held-out answers cut off at rollout.max_response_length",
   "It rises with longer answers; a larger rollout.max_response_length lowers it."},
  {"eval_loss", "eloss", EVAL, "", "mean loss of the held-out lines, as the algorithm's loss of training",
   "It falls while the model learns. Rising while loss falls: the model fits the training lines; train less."},
  {"eval_perplexity", NULL, EVAL, "", "exp of the mean negative log-probability of the held-out completions' tokens",
   "It falls with eval_loss."},
  {"eval_accuracy", "held", EVAL, "share", "share of held-out pairs whose chosen side has the higher reward",
   "As accuracy. Falling while accuracy rises: the model fits the training pairs."},
  {"eval_margin_mean", NULL, EVAL, "reward", "margin_mean of the held-out lines", "As margin_mean."},
  {"eval_chosen_reward_mean", NULL, EVAL, "reward", "chosen_reward_mean of the held-out lines", "As chosen_reward_mean."},
  {"eval_rejected_reward_mean", NULL, EVAL, "reward", "rejected_reward_mean of the held-out lines", "As rejected_reward_mean."},
  {"eval_entropy_mean_nats", NULL, EVAL, "nats", "entropy_mean_nats of the held-out lines", "As entropy_mean_nats."},
  {"loss", "loss", LOSS, "", "what the step's updates minimize, their mean; the start screen has its formula",
   "With sft, rm, dpo and kto it falls. With sampled answers its size says little: it stays near 0, watch the reward."},
  {"grad_norm", "grad", LOSS, "", "L2 norm of the last update's gradient, before clipping to train.max_grad_norm",
   "Peaks come with hard or odd samples. Growing without end: lower train.learning_rate. 0: nothing is learned."},
  {"learning_rate", "lr", LOSS, "", "learning rate of the step's last update",
   "Set by train.learning_rate, train.warmup_steps and train.lr_scheduler."},
  {"clip_ratio", NULL, LOSS, "share", "share of answer tokens whose probability ratio is clipped",
   "It rises with train.learning_rate, with algo.ppo_epochs and with more updates a step. Above 0.2: take smaller steps."},
  {"is_ratio_mean", NULL, LOSS, "ratio", "mean of trainer's over sampler's probability of the answer tokens",
   "It is 1 where both compute the same bits (run.sampler: exact)."},
  {"is_capped_ratio", NULL, LOSS, "share", "share of answer tokens whose sampler correction reaches algo.is_cap",
   "It rises as sampler and trainer drift apart."},
  {"value_loss", NULL, LOSS, "", "mean squared error of the critic's values, clipped, halved",
   "It falls while the critic learns the returns. Rising without end: lower critic.learning_rate."},
  {"value_clip_ratio", NULL, LOSS, "share", "share of values whose change the critic's loss clips at critic.value_clip",
   "It rises with critic.learning_rate and algo.ppo_epochs."},
  {"explained_variance", "ev", LOSS, "share", "1 less the variance of (return less value) by the variance of returns; at most 1",
   "It rises from 0 or below as the critic learns. Near 0 for long: more critic.warmup_steps or a larger critic.learning_rate."},
  {"critic_grad_norm", NULL, LOSS, "", "grad_norm of the critic", "As grad_norm."},
  {"critic_learning_rate", NULL, LOSS, "", "learning rate of the critic's last update", "Set by critic.learning_rate and the schedule of train."},
  {"skipped_steps", NULL, LOSS, "updates", "updates skipped so far, as their gradient was not finite",
   "With fp16 a few are normal (overflow_steps). Else: lower train.learning_rate; the log names the tensor."},
  {"critic_skipped_steps", NULL, LOSS, "updates", "skipped_steps of the critic", "As skipped_steps."},
  {"overflow_steps", NULL, LOSS, "updates", "updates skipped so far, as fp16 gradients overflowed; part of skipped_steps",
   "The loss scale adapts: one at the start and one every few hundred updates are normal."},
  {"critic_overflow_steps", NULL, LOSS, "updates", "overflow_steps of the critic", "As overflow_steps."},
  {"loss_scale", NULL, LOSS, "", "factor by which fp16 gradients are scaled",
   "It halves at an overflow and doubles after many updates without one."},
  {"critic_loss_scale", NULL, LOSS, "", "loss_scale of the critic", "As loss_scale."},
  {"kl_mean_nats", "kl", KL, "nats", "mean KL divergence of the policy from the reference, by algo.kl_estimator, a token",
   "It rises as the policy leaves the reference. algo.kl_coef holds it back; a jump means too large a step."},
  {"kl_coef", NULL, KL, "", "weight of the KL term, where it adapts", "It moves towards algo.kl_target over algo.kl_horizon."},
  {"entropy_mean_nats", "entropy", KL, "nats", "mean entropy of the policy's next-token distribution, over the learned tokens",
   "It falls as answers become alike. Near 0 early: algo.entropy_coef, a higher rollout.temperature or algo.clip_eps_high keep it up."},
  {"entropy_coef", NULL, KL, "", "weight of the entropy term, where it adapts", "It moves towards algo.adaptive_entropy_target."},
  {"sampler_gap_max_nats", "gap", KL, "nats", "largest difference of sampler's and trainer's log-probability of an answer token, before the first update",
   "It is 0: both use the same kernels. Above 0 with run.sampler rescore or trust: replayed answers or other weights."},
  {"response_length_mean_tokens", "len", LENGTH, "tokens", "mean length of the answers, their end token included",
   "It follows what the reward pays for. Falling fast: look at what short answers earn."},
  {"truncated_ratio", "cut", LENGTH, "share", "share of answers cut off at rollout.max_response_length",
   "It rises with longer answers. Above a fifth: a larger rollout.max_response_length, or a length reward."},
  {"tokens", NULL, LENGTH, "tokens", "tokens with loss that the step learned from, all ranks",
   "Batch size times length."},
  {"time_step_s", NULL, TIME, "s", "seconds of the whole step, of the slowest rank", "The phases' times add up to it."},
  {"tokens_per_s", "tok/s", TIME, "tokens per s", "tokens with loss that were learned, all ranks, by time_step_s",
   "More ranks, longer passes (train.max_tokens_per_gpu), less recomputing and less waiting raise it."},
  {"time_rollout_s", NULL, TIME, "s", "seconds in which answers were generated and judged",
   "Long answers, slow rewards, few rows at once (rollout.max_sequences). Ranks wait for the longest answer."},
  {"time_reference_s", NULL, TIME, "s", "seconds of the reference's log-probabilities", "Tokens of the step; algo.kl_coef 0 needs none."},
  {"time_critic_s", NULL, TIME, "s", "seconds of the critic's values", "Tokens of the step."},
  {"time_learn_s", NULL, TIME, "s", "seconds of forward, backward and update", "Tokens of the step, algo.ppo_epochs, model.recompute."},
  {"time_eval_s", NULL, TIME, "s", "seconds of evaluations", "Changed by eval.max_prompts and eval.num_generations; eval.steps says how often."},
  {"time_save_s", NULL, TIME, "s", "seconds that steps waited for a checkpoint, in the next step's line",
   "The size of the state and the file system; checkpoint.async hides most of it."},
  {"time_save_behind_s", NULL, TIME, "s", "seconds that a checkpoint's writing went on beside the steps", "The file system; with checkpoint.async."},
  {"time_work_s", NULL, TIME, "s", "the most seconds that a rank worked in the step", "The busiest rank's share."},
  {"time_wait_s", NULL, TIME, "s", "the most seconds that a rank waited for others in the step",
   "Uneven answers, busy cores, a slow node: trireme doctor names slow ranks and links."},
  {"time_gpu_slowed_s", NULL, TIME, "s", "the most seconds for which power or heat held a GPU back", "Cooling and power limits of the node."},
  {"gpu_joules_per_s", NULL, TIME, "J per s", "power of a GPU, the mean of all", "Load."},
  {"gpu_cycles_per_s", NULL, TIME, "cycles per s", "clock of the slowest GPU", "Heat and power limits lower it."},
  {"gpu_busy_s_per_s", NULL, TIME, "share", "share of time in which a GPU was busy, the mean of all", "Waiting for rewards, files or other ranks lowers it."},
  {"comm_<communicator>_bytes_per_s", NULL, TIME, "bytes per s", "rate of the fastest large collective of a communicator: node, cross (between nodes), world",
   "The links; trireme doctor measures them alone."},
  {"failed_saves", NULL, TIME, "count", "checkpoints that could not be written so far", "A full disk or a quota: the log names the folder."},
  {"time_unix_s", NULL, TIME, "s", "when the step ended, in seconds since 1970", "The clock."},
  {"mem_used_bytes", NULL, MEMORY, "bytes", "memory taken by the rank that holds most", "It stays at or below mem_planned_bytes."},
  {"mem_planned_bytes", NULL, MEMORY, "bytes", "memory planned before the first step, of the rank that holds most",
   "Model, lengths, train.max_tokens_per_gpu, shard.plan, model.recompute: trireme plan shows each part."},
  {"mem_state_bytes", NULL, MEMORY, "bytes", "weights, gradients, master weights and moments as sharded, of the rank that holds most", "Set by shard.plan, the number of ranks and lora.rank."},
  {"mem_gpu_used_bytes", NULL, MEMORY, "bytes", "memory in use on the fullest GPU, as its driver counts", "The plan, and the libraries beside it."},
  {"mem_gpu_planned_bytes", NULL, MEMORY, "bytes", "the GPU's part of mem_planned_bytes", "As mem_planned_bytes."},
  {"mem_moved_<communicator>_bytes", NULL, MEMORY, "bytes", "bytes that a rank gave to others in the step, by communicator: node, cross (between nodes), world",
   "Set by shard.plan and the passes of a step."},
  {"step", "step", OTHER, "", "number of the step, from 1; 0 is the evaluation before the first", "One a step."},
  {"step_s", "s/step", OTHER, "s", "mean seconds of the last hundred steps, with evaluations and saves (watch alone)", "As time_step_s."},
  {"left_s", "left", OTHER, "s", "estimated time until the last step (screens alone)", "The steps that are left, and how long the last ones took."},
  {"trained_s", "time", OTHER, "s", "time since the run's start (screens alone)", "The clock."},
  {"algo", NULL, OTHER, "", "algo.name of the run", "The deck."},
  {"alarms", NULL, OTHER, "", "words of the warnings that hold in this step, such as no_variance or kl_jump", "What the log explains when it begins."},
  {"eval", NULL, OTHER, "", "\"due\": the run stopped before this step's evaluation, which a resume makes up", "A stop during the evaluation."},
  {"reward_<name>_mean", NULL, REWARD, "reward", "mean of one of several rewards, without its weight", "As reward_mean."},
  {"reward_<name>_<field>", NULL, REWARD, "", "mean of a field that a reward's program or server returned beside its reward", "That program."},
  {"eval_reward_<name>_<field>", NULL, EVAL, "", "the same of the held-out answers", "That program."},
  {"time_<phase>_s", NULL, TIME, "s", "seconds of a phase of the step", "The phase's work."},
};
/* clang-format on */
enum { N_TABLE = sizeof table / sizeof *table };

const tri_metric_row *tri_metric_row_at(int i) { return i >= 0 && i < N_TABLE ? &table[i] : NULL; }

/* Whether a name is one of a pattern's: a part in brackets stands for at least one letter. */
static bool fits(const char *pattern, const char *name) {
  while (*pattern && *pattern != '<')
    if (*pattern++ != *name++) return false;
  if (!*pattern) return !*name;
  pattern = strchr(pattern, '>') + 1;
  while (*name)
    if (fits(pattern, ++name)) return true;
  return false;
}

/* Whether it is a row's number of one set of data.eval_names. */
static bool is_of_set(const tri_metric_row *r, const char *name) {
  size_t n = strlen("eval_"), length = strlen(name), end = strlen(r->name) - (r->group == TRI_GROUP_EVAL) * n;

  return r->group == TRI_GROUP_EVAL && !strncmp(name, "eval_", n) && length > n + end + 1 &&
         name[length - end - 1] == '_' && !strcmp(name + length - end, r->name + n);
}

const tri_metric_row *tri_metric_row_find(const char *name) {
  const tri_metric_row *of_set = NULL;

  for (int i = 0; i < N_TABLE; i++)
    if (!strcmp(table[i].name, name)) return &table[i];
  for (int i = 0; i < N_TABLE; i++) /* the longest: eval_a_chosen_reward_mean ends as eval_reward_mean too */
    if (is_of_set(&table[i], name) && (!of_set || strlen(table[i].name) > strlen(of_set->name)))
      of_set = &table[i];
  if (of_set) return of_set;
  for (int i = 0; i < N_TABLE; i++)
    if (strchr(table[i].name, '<') && fits(table[i].name, name)) return &table[i];
  return NULL;
}

int tri_metric_rows_named(const char *asked, const tri_metric_row **out, int most) {
  const tri_metric_row *row = tri_metric_row_find(asked);
  int                   n = 0;

  if (row && n < most) out[n++] = row;
  for (int i = 0; i < N_TABLE; i++)
    if (table[i].word && !strcmp(table[i].word, asked) && &table[i] != row && n < most) out[n++] = &table[i];
  return n;
}

const char *tri_metric_word(const char *name) {
  const tri_metric_row *row = tri_metric_row_find(name);

  TRI_ASSERT(row && row->word);
  return row->word;
}

const char *tri_metric_group_title(tri_metric_group g) {
  static const char *const title[TRI_GROUPS] = {
      [TRI_GROUP_REWARD] = "Reward",         [TRI_GROUP_EVAL] = "Evaluation",
      [TRI_GROUP_LOSS] = "Loss and updates", [TRI_GROUP_KL] = "KL and entropy",
      [TRI_GROUP_LENGTH] = "Lengths",        [TRI_GROUP_TIME] = "Time and rates",
      [TRI_GROUP_MEMORY] = "Memory",         [TRI_GROUP_OTHER] = "Others"};
  return title[g];
}

const char *tri_metric_nearest(const char *asked) {
  const char *known[2 * N_TABLE];
  int         n = 0;

  for (int i = 0; i < N_TABLE; i++) {
    known[n++] = table[i].name;
    if (table[i].word) known[n++] = table[i].word;
  }
  return tri_nearest(asked, known, n);
}
