/* metric_names.c - the table of metrics, and functions to find a row by name. */
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

/* A name is first looked up literally, then as a pattern, from the first row on. */
/* clang-format off */
static const tri_metric_row table[] = {
  {"reward_mean", "reward", REWARD, "reward", "mean reward of the step's answers",
   "It rises while the policy learns. If it is flat from the start, all answers have the same reward (zero_variance_ratio) or "
   "train.learning_rate is too small. After a sudden rise read answers (trireme show), because the policy may exploit the reward."},
  {"reward_std", NULL, REWARD, "reward", "standard deviation of the rewards of the step's answers",
   "It falls to 0 when all answers earn the same. The policy then has nothing to learn."},
  {"zero_variance_ratio", NULL, REWARD, "share", "share of prompts with the same reward for all answers",
   "It rises when prompts are too easy or too hard. rollout.dynamic_sampling replaces such prompts. "
   "A larger algo.num_generations or another data.train also helps."},
  {"greedy_reward_mean", NULL, REWARD, "reward", "mean reward of the greedy answers, the baseline of remax",
   "It rises with the policy, as reward_mean does."},
  {"reward_failures", NULL, REWARD, "answers", "answers without a reward after a failure",
   "A reward's program or server fails or is too slow, or a pattern reaches its search limit. The log names the cause. "
   "on_error and timeout_s of the reward set the consequence."},
  {"reward_restarts", NULL, REWARD, "count", "restarts of reward programs that died",
   "The program of a process reward crashes. Its standard error has the cause."},
  {"accuracy", "acc", REWARD, "share", "share of pairs with the higher reward on the chosen side; kto: 1 if margin_mean is above 0",
   "It begins near 0.5 and rises. If it is near 1 at once, the pairs differ in something simple, such as length."},
  {"margin_mean", "margin", REWARD, "reward", "mean difference of the chosen and the rejected side's reward",
   "It rises while the model learns the preference. algo.beta scales it for dpo and kto."},
  {"chosen_reward_mean", NULL, REWARD, "reward", "mean reward of the chosen side: the score of rm, else beta times the log-ratio",
   "With dpo it may fall while margin_mean rises. algo.sft_coef keeps it up."},
  {"rejected_reward_mean", NULL, REWARD, "reward", "mean reward of the rejected side: the score of rm, else beta times the log-ratio",
   "It falls while the model learns the preference."},
  {"return_mean", NULL, REWARD, "reward", "mean return of the answers' tokens, the target of the critic",
   "It follows reward_mean. algo.gamma and a KL in the reward lower it."},
  {"dropped_groups", NULL, REWARD, "prompts", "prompts left out by dynamic sampling because all their answers got the same reward",
   "It rises when prompts are too easy or too hard for the policy."},
  {"extra_batches", NULL, REWARD, "count", "batches of prompts requested by dynamic sampling after the first",
   "It rises with dropped_groups, up to rollout.max_extra_batches. Each costs a generation."},
  {"eval_pass_at_1", "pass@1", EVAL, "share", "share of held-out answers with full marks, the largest sum the rewards allow",
   "It rises with the policy's ability. With eval.temperature 0 answers are greedy. A reward model has no such number."},
  {"eval_pass_at_k", NULL, EVAL, "share", "share of held-out prompts with full marks for at least one of k answers, k = eval.num_generations",
   "It is at least eval_pass_at_1. If it falls while eval_pass_at_1 rises, answers become alike (see entropy_mean_nats)."},
  {"eval_best_at_k", NULL, EVAL, "reward", "mean over held-out prompts of the largest reward of k answers",
   "It rises with k = eval.num_generations and with the policy's ability."},
  {"eval_majority_at_k", NULL, EVAL, "reward", "mean over held-out prompts of the reward of the most frequent final result of k answers",
   "It rises when right results become more frequent than any wrong one. Rewards without a final result do not have it."},
  {"eval_reward_mean", "eval", EVAL, "reward", "mean reward of the held-out answers",
   "It rises with the policy. If it falls while reward_mean rises, the policy overfits the training prompts."},
  {"eval_reward_failures", NULL, EVAL, "answers", "held-out answers without a reward after a failure",
   "As reward_failures."},
  {"eval_response_length_mean_tokens", NULL, EVAL, "tokens", "mean length of held-out answers, their end token included",
   "As response_length_mean_tokens."},
  {"eval_truncated_ratio", "ecut", EVAL, "share", "share of held-out answers cut off at rollout.max_response_length",
   "It rises with longer answers. A larger rollout.max_response_length lowers it."},
  {"eval_loss", "eloss", EVAL, "", "mean loss of the held-out lines, as the algorithm's loss of training",
   "It falls while the model learns. If it rises while loss falls, the model overfits the training lines. Train less."},
  {"eval_perplexity", NULL, EVAL, "", "exp of the mean negative log-probability of the held-out completions' tokens",
   "It falls with eval_loss."},
  {"eval_accuracy", "held", EVAL, "share", "share of held-out pairs with the higher reward on the chosen side",
   "As accuracy. If it falls while accuracy rises, the model overfits the training pairs."},
  {"eval_margin_mean", NULL, EVAL, "reward", "margin_mean of the held-out lines", "As margin_mean."},
  {"eval_chosen_reward_mean", NULL, EVAL, "reward", "chosen_reward_mean of the held-out lines", "As chosen_reward_mean."},
  {"eval_rejected_reward_mean", NULL, EVAL, "reward", "rejected_reward_mean of the held-out lines", "As rejected_reward_mean."},
  {"eval_entropy_mean_nats", NULL, EVAL, "nats", "entropy_mean_nats of the held-out lines", "As entropy_mean_nats."},
  {"loss", "loss", LOSS, "", "mean loss of the step's updates; the start screen has its formula",
   "With sft, rm, dpo and kto it falls. With sampled answers it stays near 0 and says little, so watch the reward."},
  {"grad_norm", "grad", LOSS, "", "L2 norm of the last update's gradient, before clipping to train.max_grad_norm",
   "Peaks come with hard or odd samples. If it keeps growing, lower train.learning_rate. At 0 the model learns nothing."},
  {"learning_rate", "lr", LOSS, "", "learning rate of the step's last update",
   "Set by train.learning_rate, train.warmup_steps and train.lr_scheduler."},
  {"clip_ratio", NULL, LOSS, "share", "share of answer tokens with a clipped probability ratio",
   "It rises with train.learning_rate, with algo.ppo_epochs and with more updates a step. Above 0.2 take smaller steps."},
  {"is_ratio_mean", NULL, LOSS, "ratio", "mean ratio of the trainer's to the sampler's probability of the answer tokens",
   "It is 1 if both compute the same bits (run.sampler: exact)."},
  {"is_capped_ratio", NULL, LOSS, "share", "share of answer tokens with a sampler correction at algo.is_cap",
   "It rises as sampler and trainer drift apart."},
  {"value_loss", NULL, LOSS, "", "mean squared error of the critic's values, clipped, halved",
   "It falls while the critic learns the returns. If it keeps rising, lower critic.learning_rate."},
  {"value_clip_ratio", NULL, LOSS, "share", "share of values with a change clipped at critic.value_clip",
   "It rises with critic.learning_rate and algo.ppo_epochs."},
  {"explained_variance", "ev", LOSS, "share", "1 - variance of (return - value) / variance of returns; at most 1",
   "It rises from 0 or below as the critic learns. If it stays near 0, raise critic.warmup_steps or critic.learning_rate."},
  {"critic_grad_norm", NULL, LOSS, "", "grad_norm of the critic", "As grad_norm."},
  {"critic_learning_rate", NULL, LOSS, "", "learning rate of the critic's last update", "Set by critic.learning_rate and the schedule of train."},
  {"skipped_steps", NULL, LOSS, "updates", "updates skipped so far because of a gradient with NaN or Inf",
   "With fp16 a few are normal (overflow_steps). Otherwise lower train.learning_rate. The log names the tensor."},
  {"critic_skipped_steps", NULL, LOSS, "updates", "skipped_steps of the critic", "As skipped_steps."},
  {"overflow_steps", NULL, LOSS, "updates", "updates skipped so far because of an fp16 overflow; part of skipped_steps",
   "The loss scale adapts. One at the start and one every few hundred updates are normal."},
  {"critic_overflow_steps", NULL, LOSS, "updates", "overflow_steps of the critic", "As overflow_steps."},
  {"loss_scale", NULL, LOSS, "", "factor by which fp16 gradients are scaled",
   "It halves at an overflow and doubles after many updates without one."},
  {"critic_loss_scale", NULL, LOSS, "", "loss_scale of the critic", "As loss_scale."},
  {"kl_mean_nats", "kl", KL, "nats", "mean KL divergence per token of the policy from the reference, by algo.kl_estimator",
   "It rises as the policy leaves the reference. algo.kl_coef limits it. A jump means a too large step."},
  {"kl_coef", NULL, KL, "", "weight of the KL term, if it adapts", "It moves towards algo.kl_target over algo.kl_horizon."},
  {"entropy_mean_nats", "entropy", KL, "nats", "mean entropy of the policy's next-token distribution, over the learned tokens",
   "It falls as answers become alike. If it is near 0 early, raise algo.entropy_coef, rollout.temperature or algo.clip_eps_high."},
  {"entropy_coef", NULL, KL, "", "weight of the entropy term, if it adapts", "It moves towards algo.adaptive_entropy_target."},
  {"sampler_gap_max_nats", "gap", KL, "nats", "largest difference between sampler's and trainer's log-probability of an answer token, before the first update",
   "It is 0, because both use the same kernels. With run.sampler exact, a difference stops the run. With rescore or trust, replayed answers or other weights raise it."},
  {"response_length_mean_tokens", "len", LENGTH, "tokens", "mean length of the answers, their end token included",
   "It follows the reward. If it falls fast, check the rewards of short answers."},
  {"truncated_ratio", "cut", LENGTH, "share", "share of answers cut off at rollout.max_response_length",
   "It rises with longer answers. Above a fifth raise rollout.max_response_length or add a length reward."},
  {"tokens", NULL, LENGTH, "tokens", "tokens with loss in the step, on all ranks",
   "Batch size times length."},
  {"preempted_answers", NULL, LENGTH, "answers", "times that an answer gave up its part of the key/value cache and waited, on all ranks",
   "It rises if answers are long and the cache is small (rollout.max_cached_tokens)."},
  {"recomputed_tokens", NULL, LENGTH, "tokens", "tokens whose keys and values were computed again, on all ranks",
   "It rises with preempted_answers. If it is a large share of all tokens, lower rollout.max_sequences."},
  {"rollout_use_ratio", NULL, LENGTH, "share", "rows decoded in all decode steps, divided by the rows there could have been",
   "It falls if few answers are much longer than the others, and if the key/value cache holds few answers."},
  {"time_step_s", NULL, TIME, "s", "seconds of the whole step, of the slowest rank", "The phases' times add up to it."},
  {"tokens_per_s", "tok/s", TIME, "tokens per s", "tokens with loss on all ranks divided by time_step_s",
   "More ranks, larger micro-batches (train.max_tokens_per_gpu), less recomputing and less waiting raise it."},
  {"time_rollout_s", NULL, TIME, "s", "seconds to generate answers and compute their rewards",
   "Long answers, slow rewards and few rows at once (rollout.max_sequences) raise it. Ranks wait for the longest answer."},
  {"time_reference_s", NULL, TIME, "s", "seconds of the reference's log-probabilities", "It grows with the tokens of the step. algo.kl_coef 0 needs none."},
  {"time_critic_s", NULL, TIME, "s", "seconds of the critic's values", "It grows with the tokens of the step."},
  {"time_learn_s", NULL, TIME, "s", "seconds of forward, backward and update", "It grows with the tokens of the step, algo.ppo_epochs and model.recompute."},
  {"time_eval_s", NULL, TIME, "s", "seconds of evaluations", "It grows with eval.max_prompts and eval.num_generations. eval.steps sets how often it occurs."},
  {"time_save_s", NULL, TIME, "s", "seconds of waiting for a checkpoint, in the next step's line",
   "It depends on the size of the state and the file system. checkpoint.async hides most of it."},
  {"time_save_behind_s", NULL, TIME, "s", "seconds of writing a checkpoint during the steps, with checkpoint.async", "It depends on the file system."},
  {"time_work_s", NULL, TIME, "s", "seconds of work of the busiest rank in the step", "It depends on the busiest rank's share."},
  {"time_wait_s", NULL, TIME, "s", "seconds of waiting for others of the longest waiting rank in the step",
   "Uneven answers, busy cores or a slow node raise it. trireme doctor names slow ranks and links."},
  {"time_gpu_slowed_s", NULL, TIME, "s", "seconds of power or heat throttling of the most affected GPU", "Cooling and power limits of the node."},
  {"gpu_joules_per_s", NULL, TIME, "J per s", "power of a GPU, the mean of all", "Load."},
  {"gpu_cycles_per_s", NULL, TIME, "cycles per s", "clock of the slowest GPU", "Heat and power limits lower it."},
  {"gpu_busy_s_per_s", NULL, TIME, "share", "busy share of the time of a GPU, the mean of all", "Waiting for rewards, files or other ranks lowers it."},
  {"comm_<communicator>_bytes_per_s", NULL, TIME, "bytes per s", "rate of the fastest large collective of a communicator: node, cross (between nodes), tensor (ranks of a node that generate as one model), world",
   "It depends on the links. trireme doctor measures them alone."},
  {"failed_saves", NULL, TIME, "count", "failed checkpoints so far", "A full disk or a quota. The log names the folder."},
  {"time_unix_s", NULL, TIME, "s", "end of the step, in seconds since 1970", "The clock."},
  {"mem_used_bytes", NULL, MEMORY, "bytes", "memory in use on the rank with most", "It stays at or below mem_planned_bytes."},
  {"mem_planned_bytes", NULL, MEMORY, "bytes", "memory planned before the first step, on the rank with most",
   "It depends on model, lengths, train.max_tokens_per_gpu, shard.plan and model.recompute. trireme plan shows each part."},
  {"mem_state_bytes", NULL, MEMORY, "bytes", "weights, gradients, master weights and moments as sharded, on the rank with most", "Set by shard.plan, the number of ranks and lora.rank."},
  {"mem_gpu_used_bytes", NULL, MEMORY, "bytes", "memory in use on the fullest GPU, as counted by its driver", "The plan and the libraries' own memory."},
  {"mem_gpu_planned_bytes", NULL, MEMORY, "bytes", "the GPU's part of mem_planned_bytes", "As mem_planned_bytes."},
  {"mem_moved_<communicator>_bytes", NULL, MEMORY, "bytes", "bytes sent by a rank to others in the step, by communicator: node, cross (between nodes), tensor (ranks of a node that generate as one model), world",
   "Set by shard.plan, shard.tensor_parallel_size and the micro-batches of a step."},
  {"step", "step", OTHER, "", "number of the step, from 1; 0 is the evaluation before the first", "One a step."},
  {"step_s", "s/step", OTHER, "s", "mean seconds of the last hundred steps, with evaluations and saves (watch alone)", "As time_step_s."},
  {"left_s", "left", OTHER, "s", "estimated time until the last step (screens alone)", "It depends on the remaining steps and the duration of the last ones."},
  {"trained_s", "time", OTHER, "s", "time since the run's start (screens alone)", "The clock."},
  {"algo", NULL, OTHER, "", "algo.name of the run", "The deck."},
  {"alarms", NULL, OTHER, "", "codes of the warnings active in this step, such as no_variance or kl_jump", "The log explains a warning when it begins."},
  {"eval", NULL, OTHER, "", "\"due\" if the run stopped before this step's evaluation; a resume makes up for it", "A stop during the evaluation."},
  {"reward_<name>_mean", NULL, REWARD, "reward", "mean of one of several rewards, without its weight", "As reward_mean."},
  {"reward_<name>_<field>", NULL, REWARD, "", "mean of a further number in the replies of a reward's program or server", "That program."},
  {"eval_reward_<name>_<field>", NULL, EVAL, "", "the same for the held-out answers", "That program."},
  {"time_<phase>_s", NULL, TIME, "s", "seconds of a phase of the step", "The phase's work."},
};
/* clang-format on */
enum { N_TABLE = sizeof table / sizeof *table };

const tri_metric_row *tri_metric_row_at(int i) { return i >= 0 && i < N_TABLE ? &table[i] : NULL; }

/* Returns whether the name fits the pattern. A part in brackets stands for at least one letter. */
static bool fits(const char *pattern, const char *name) {
  while (*pattern && *pattern != '<')
    if (*pattern++ != *name++) return false;
  if (!*pattern) return !*name;
  pattern = strchr(pattern, '>') + 1;
  while (*name)
    if (fits(pattern, ++name)) return true;
  return false;
}

/* Returns whether the name is the row's metric of one set of data.eval_names. */
static bool is_of_set(const tri_metric_row *r, const char *name) {
  size_t n = strlen("eval_"), length = strlen(name), end = strlen(r->name) - (r->group == TRI_GROUP_EVAL) * n;

  return r->group == TRI_GROUP_EVAL && !strncmp(name, "eval_", n) && length > n + end + 1 &&
         name[length - end - 1] == '_' && !strcmp(name + length - end, r->name + n);
}

const tri_metric_row *tri_metric_row_find(const char *name) {
  const tri_metric_row *of_set = NULL;

  for (int i = 0; i < N_TABLE; i++)
    if (!strcmp(table[i].name, name)) return &table[i];
  for (int i = 0; i < N_TABLE; i++) /* the longest name wins, because eval_a_chosen_reward_mean ends as
                                     * eval_reward_mean too */
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
