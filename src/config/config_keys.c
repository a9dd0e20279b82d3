/* config_keys.c - the table of options, one row each, and functions on a row. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "config_keys.h"

#include <stdio.h>
#include <string.h>

#define AT(member) offsetof(tri_config, member)
#define COUNT      "[1, 1000000000]"
#define COUNT0     "[0, 1000000000]"
/* The algorithms with this key. A deck that gives it to another algorithm is refused. */
#define ALL     0                 /* all algorithms */
#define LISTED  TRI_KEY_BY_ALGO   /* those whose advantage or loss lists the key among its options */
#define ANSWERS TRI_NEEDS_ANSWERS /* those that generate answers in each step */
#define GIVEN                                                                                                \
  (TRI_NEEDS_DEMONSTRATIONS | TRI_NEEDS_LABELLED) /* those with one answer to a prompt in the data */
#define PAIRS   TRI_NEEDS_PAIRS                   /* those with two */
#define CRITIC  TRI_KEY_OF_CRITIC                 /* those whose advantage reads values */
#define COMPARE TRI_KEY_OF_REFERENCE              /* those with a possible reference policy */
/* The effect on a resume that gives the key another value. */
#define FIXED TRI_CHANGE_REFUSED /* the resume ends unless run.allow_changes names the key */
#define FREE  TRI_CHANGE_LISTED  /* the change is reported */
#define HERE  TRI_CHANGE_HERE    /* none, because the key belongs to this start */

/* The column idle_if of the rows below. Each function returns the reason why a key has no effect in this
 * deck, or NULL. */
#define NEVER NULL /* the key always has an effect */

static const char *no_eval(const tri_config *c) { return c->eval.steps == 0 ? "eval.steps is 0" : NULL; }
static const char *no_kl(const tri_config *c) {
  return c->algo.opt.kl_coef == 0 ? "algo.kl_coef is 0" : NULL;
}
static const char *replayed(const tri_config *c) {
  return c->rollout.replay ? "rollout.replay is given" : NULL;
}

static const char *no_kl_target(const tri_config *c) {
  return c->algo.opt.kl_target == 0 ? "algo.kl_target is not given" : NULL;
}

static const char *no_is_cap(const tri_config *c) {
  return c->algo.opt.is_cap == 0 ? "algo.is_cap is 0" : NULL;
}

static const char *no_scale(const tri_config *c) {
  return c->algo.opt.scale_rewards == TRI_SCALE_NONE ? "algo.scale_rewards is none" : NULL;
}

static const char *no_reference(const tri_config *c) {
  if (!tri_config_wants_reference(c)) return "algo.kl_coef is 0";
  return tri_config_reference_is_base(c) ? "the reference is the policy without its adapters" : NULL;
}

static const char *no_adapters(const tri_config *c) {
  return tri_config_has_lora(c) ? NULL : "lora.rank is 0";
}

static const char *all_models_train(const tri_config *c) {
  bool reference = tri_config_wants_reference(c) && !tri_config_reference_is_base(c);

  if (c->shard.offload != TRI_CONFIG_OFFLOAD_FROZEN || reference || tri_config_reward_model(c)) return NULL;
  return "every model of this run trains";
}

static const char *no_fp16(const tri_config *c) {
  return c->model.dtype == TRI_F16 ? NULL : "model.dtype is not fp16";
}

static const char *no_moving_scale(const tri_config *c) {
  if (no_fp16(c)) return no_fp16(c);
  return c->train.optim.scaling.fixed > 0 ? "train.loss_scale is given" : NULL;
}

/* Neither training nor evaluation generates answers. */
static bool judged_by_loss(const tri_config *c) {
  return !(c->algo.row.needs & TRI_NEEDS_ANSWERS) && !c->reward.n;
}

static const char *no_eval_answers(const tri_config *c) {
  if (no_eval(c)) return no_eval(c);
  return judged_by_loss(c) ? "held-out lines are judged by their loss" : NULL;
}

const char *tri_config_no_answers(const tri_config *c) {
  if (c->algo.row.needs & TRI_NEEDS_ANSWERS) return NULL;
  return judged_by_loss(c) ? "no answer is generated" : no_eval(c);
}

static const char *no_sampler(const tri_config *c) {
  if (c->rollout.replay && no_eval(c)) return "rollout.replay is given and eval.steps is 0";
  return tri_config_no_answers(c);
}

static const char *no_drawing(const tri_config *c) {
  return c->rollout.temperature == 0 ? "rollout.temperature is 0" : replayed(c);
}

static const char *no_selection(const tri_config *c) {
  return c->rollout.dynamic_sampling && !c->rollout.replay ? NULL : "rollout.dynamic_sampling is off";
}

static const char *no_lines(const tri_config *c) { return c->data.train.n ? NULL : replayed(c); }

/* Rows of a section stand together, because inputs/reference.yaml begins a section when the name changes. A
 * key without its section means the first row of that name. A new row must therefore stand below the row that
 * keeps the name, as eval.steps stands below train.steps. A key without effect while another key is off names
 * a function above for the reason, as eval.temperature does for eval.steps 0. config_check.c reports it. The
 * words of a choice stand in the order of its enum. tests/config/test_config_words.c has a row for each. */
/* clang-format off */
const tri_key tri_keys[] = {
  {"run.output", TRI_KEY_TEXT, ALL, HERE, NEVER, AT(run.output), "", NULL, "path",
   "Folder for everything the run writes. Must be given. Paths in a deck are relative to the folder in which the program "
   "starts."},
  {"run.seed", TRI_KEY_U64, ALL, FIXED, NEVER, AT(run.seed), "[0, 18446744073709551615]", "42", "",
   "Seed of every random number: initial weights, order of the data, sampling. Change it to repeat an experiment with "
   "other random numbers."},
  {"run.device", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(run.device), "auto|cpu|cuda", "auto", "",
   "Processor type. `auto` uses GPUs if there are any, else CPUs."},
  {"run.ranks_per_node", TRI_KEY_I64, ALL, FREE, NEVER, AT(run.ranks_per_node), COUNT0, "0", "ranks",
   "Treats this many neighbouring ranks as one node. 0 uses the real nodes. Set it to try plans for several nodes on one "
   "machine."},
  {"run.threads", TRI_KEY_I64, ALL, FREE, NEVER, AT(run.threads), "[0, 4096]", "0", "threads",
   "Threads of each rank. 0 gives each rank an equal share of the cores, or fewer if the CPU quota of a cgroup, "
   "OMP_NUM_THREADS or OMP_THREAD_LIMIT allows fewer. The start screen names the limit."},
  {"run.resume", TRI_KEY_TEXT, ALL, HERE, NEVER, AT(run.resume), "", "auto", "path",
   "Checkpoint to resume from. `auto` takes the newest checkpoint in run.output, so that a job can simply be started "
   "again. `never` starts anew. A path names another checkpoint."},
  {"run.allow_changes", TRI_KEY_LIST, ALL, HERE, NEVER, AT(run.allow_changes), "", NULL, "key",
   "Keys this resume may change although they define the experiment. `reward` permits another reward list. `deck` "
   "permits resuming when the checkpoint's deck cannot be read."},
  {"run.sampler", TRI_KEY_CHOICE, ANSWERS, FREE, NEVER, AT(run.sampler), "exact|rescore|trust", "exact", "",
   "Source of the old log-probabilities. `exact` takes them from the sampler and stops the run if the trainer's differ "
   "in any bit. If this machine's matrix products cannot guarantee equal bits, a warning says so and the run uses "
   "rescore. `rescore` computes them again by a training forward pass. `trust` takes the sampler's unchecked."},
  {"run.log_every", TRI_KEY_I64, ALL, FREE, NEVER, AT(run.log_every), COUNT, "1", "steps",
   "Steps between rows on the screen. Evaluated steps and the last step always have a row. metrics.jsonl has every step."},
  {"run.tensorboard", TRI_KEY_BOOL, ALL, FREE, NEVER, AT(run.tensorboard), "", "false", "",
   "Writes the numbers of metrics.jsonl for TensorBoard too. View them by `tensorboard --logdir OUTPUT/tensorboard`."},
  {"run.timeout_s", TRI_KEY_F64, ALL, HERE, NEVER, AT(run.timeout_s), "[0, inf)", "600", "s",
   "Seconds the ranks wait for a late rank. Then the run names that rank and ends with exit code 76. In a collective "
   "they wait at most 15 s for a rank that is stopped, dead or unreachable. The least value is 10. 0 waits for ever."},
  {"run.trace_steps", TRI_KEY_I64, ALL, FREE, NEVER, AT(run.trace_steps), "[0, 100]", "0", "steps",
   "Writes a timeline of this many steps after the start to OUTPUT/trace/rank-N.json. Open it in chrome://tracing or "
   "ui.perfetto.dev. 0 writes none."},
  {"run.cpu_kernels", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(run.cpu_kernels), "auto|avx512|avx2|neoverse_v2|neon|generic", "auto", "",
   "Instruction set of the CPU kernels other than matrix products. `auto` takes the best this processor has. If the "
   "processors of the nodes differ, choose avx2 (on Arm neon) to get the same numbers on all of them. The environment "
   "variable TRI_CPU_KERNELS overrides this key."},
  {"run.cpu_f32", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(run.cpu_f32), "auto|library|avx512|avx2", "auto", "",
   "Matrix products in f32 on CPUs, also of types that are converted to f32. `avx512` and `avx2` are this program's own "
   "code. `library` is oneDNN or OpenBLAS. `auto` takes avx512 or avx2 if the processor has it, else library. If the "
   "processors of the nodes differ, choose avx2 (on Arm library) to get the same numbers on all of them. The environment "
   "variable TRI_CPU_F32 overrides this key."},
  {"run.cpu_bf16", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(run.cpu_bf16), "auto|amx|avx512|f32", "auto", "",
   "Matrix products in bf16 on CPUs: by AMX, by AVX512-BF16, or converted to f32. `auto` takes the first of these that "
   "the processor has. The environment variable TRI_CPU_BF16 overrides this key."},
  {"run.collectives", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(run.collectives), "auto|shm|mpi|nccl|staged", "auto", "",
   "Communication between ranks. CPUs use shm (shared memory in a node, MPI between nodes) or mpi. GPUs use nccl or "
   "staged (through host memory and MPI). `auto` takes shm, and nccl if the build has it. The environment variable "
   "TRI_COMM overrides this key."},
  {"run.cuda_attention_backward", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(run.cuda_attention_backward), "auto|own|cudnn", "auto", "",
   "Backward pass of attention on GPUs: by this program's kernel or by cuDNN. `auto` takes own. The environment variable "
   "TRI_CUDA_ATTN_BWD overrides this key."},

  {"model.path", TRI_KEY_TEXT, ALL, FIXED, NEVER, AT(model.path), "", NULL, "path",
   "Model to start from: a Hugging Face folder, a checkpoint, or the output folder of a run. Must be given unless "
   "model.config is."},
  {"model.config", TRI_KEY_TEXT, ALL, FIXED, NEVER, AT(model.config), "", NULL, "path",
   "A config.json. The run starts from random weights, generated from run.seed and each tensor's name."},
  {"model.tokenizer", TRI_KEY_TEXT, ALL, FIXED, NEVER, AT(model.tokenizer), "", NULL, "path",
   "A tokenizer.json to use with model.config. Data in tokens needs none."},
  {"model.dtype", TRI_KEY_CHOICE, ALL, FIXED, NEVER, AT(model.dtype), "f32|bf16|fp16", "bf16", "",
   "Type of the model's weights and activations in computation. Master weights and optimizer state are always f32. "
   "Choose fp16 only for models made in it. It scales the loss."},
  {"model.recompute", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(model.recompute), "none|layer", "none", "",
   "Activation checkpointing. `layer` keeps only the input of each layer and computes the rest again in the backward "
   "pass. Choose it if the activations do not fit into memory."},
  {"model.rope_factors", TRI_KEY_CHOICE, ALL, FIXED, NEVER, AT(model.rope_factors), "auto|short|long", "auto", "",
   "Set of longrope factors (Phi-3 with 128k, Phi-3.5, Phi-4-mini) for all sequences of the run. `auto` takes long if a "
   "sequence may have more tokens than original_max_position_embeddings, as vLLM does. The first start decides, and "
   "resumes keep the choice."},
  {"model.ref_path", TRI_KEY_TEXT, COMPARE, FIXED, NEVER, AT(model.ref_path), "", NULL, "path",
   "Reference policy of the KL term or of preferences. By default it is the model the run starts from, and with LoRA the "
   "model without adapters."},

  {"lora.rank", TRI_KEY_I64, ALL, FIXED, NEVER, AT(lora.rank), "[0, 65536]", "0", "",
   "Rank of low-rank adapters (LoRA). Only the adapters learn. 0 trains all weights without adapters."},
  {"lora.alpha", TRI_KEY_F64, ALL, FIXED, no_adapters, AT(lora.alpha), "[1e-6, 1e6]", NULL, "",
   "Scale of the adapters. Their outputs are multiplied by alpha / rank. Default 16."},
  {"lora.targets", TRI_KEY_LIST, ALL, FIXED, no_adapters, AT(lora.targets), "", NULL, "module",
   "Modules with adapters, such as q_proj. By default all linear modules of the layers have them."},
  {"lora.path", TRI_KEY_TEXT, ALL, FIXED, NEVER, AT(lora.path), "", NULL, "path",
   "PEFT folder of adapters to start from, with their rank, alpha and targets. By default new adapters are made."},

  {"data.train", TRI_KEY_LIST, ALL, FIXED, NEVER, AT(data.train), "", NULL, "path",
   "JSON lines files to train on. Must be given unless rollout.replay is."},
  {"data.train_weights", TRI_KEY_LIST, ALL, FIXED, NEVER, AT(data.train_weights), "(0, inf)", NULL, "number",
   "Sampling weight of each file of data.train. Every draw picks a file at random by weight and takes the next line of "
   "that file. The pick depends on run.seed and the number of the draw alone. An epoch is as many draws as the files "
   "have lines. By default the files are read as one."},
  {"data.eval", TRI_KEY_LIST, ALL, FREE, no_eval, AT(data.eval), "", NULL, "path",
   "JSON lines files to evaluate on."},
  {"data.eval_names", TRI_KEY_LIST, ALL, FREE, no_eval, AT(data.eval_names), "", NULL, "name",
   "Name of each file of data.eval, made of a-z, 0-9 and _. Each file then has its own metrics, such as "
   "eval_NAME_reward_mean, besides the metrics of all lines. By default the files are one set."},
  {"data.prompt_key", TRI_KEY_TEXT, ALL, FIXED, NEVER, AT(data.prompt_key), "", "prompt", "field name",
   "Field of a line with the prompt. In every key that ends in _key, a name with dots is a path into inner fields, such "
   "as extra_info.question, unless the line has a field of that whole name."},
  {"data.answer_key", TRI_KEY_TEXT, ALL, FIXED, tri_config_no_answers, AT(data.answer_key), "", "answer", "field name",
   "Field of a line with the right answer, for the rewards. Files made for verl need reward_model.ground_truth."},
  {"data.completion_key", TRI_KEY_TEXT, GIVEN, FIXED, NEVER, AT(data.completion_key), "", "completion", "field name",
   "Field of a line with the text to learn."},
  {"data.chosen_key", TRI_KEY_TEXT, PAIRS, FIXED, NEVER, AT(data.chosen_key), "", "chosen", "field name",
   "Field of a line with the better answer."},
  {"data.rejected_key", TRI_KEY_TEXT, PAIRS, FIXED, NEVER, AT(data.rejected_key), "", "rejected", "field name",
   "Field of a line with the worse answer."},
  {"data.label_key", TRI_KEY_TEXT, TRI_NEEDS_LABELLED, FIXED, NEVER, AT(data.label_key), "", "label", "field name",
   "Field of a line with the label of the answer: true if it is good, else false."},
  {"data.chat_template", TRI_KEY_TEXT, ALL, FIXED, NEVER, AT(data.chat_template), TRI_CHAT_WORDS "|FILE.jinja", "auto", "path",
   "Template that turns lists of messages into text. `auto` takes the model's own. A name takes the published template "
   "of that model. `FILE.jinja` is a file of yours. `none` refuses lists of messages."},
  {"data.chat_template_kwargs", TRI_KEY_MAP, ALL, FIXED, NEVER, AT(data.chat_template_kwargs), "", NULL, "",
   "Variables of the chat template, such as {enable_thinking: false}."},
  {"data.chat_template_date", TRI_KEY_TEXT, ALL, FIXED, NEVER, AT(data.chat_template_date), "", NULL, "date",
   "Date for templates that call strftime_now, as YYYY-MM-DD. By default the day of the run's first start, and resumes "
   "keep it."},
  {"data.system_prompt", TRI_KEY_TEXT, ALL, FIXED, NEVER, AT(data.system_prompt), "", NULL, "",
   "System message for every conversation that has none, in training, evaluation and pairs. With "
   "data.apply_chat_template, prompts in text get it too."},
  {"data.tools", TRI_KEY_TEXT, ALL, FIXED, NEVER, AT(data.tools), "", NULL, "path",
   "JSON file with a list of tools. The chat template describes them in every conversation. A line with its own list "
   "uses that list instead."},
  {"data.tools_key", TRI_KEY_TEXT, ALL, FIXED, NEVER, AT(data.tools_key), "", "tools", "field name",
   "Field of a line with its own list of tools."},
  {"data.apply_chat_template", TRI_KEY_BOOL, ALL, FIXED, NEVER, AT(data.apply_chat_template), "", "false", "",
   "Treats a prompt in text as the user's message and its answer as the assistant's. By default text is used as it is. "
   "Set it to train chat models on plain text prompts."},
  {"data.train_on", TRI_KEY_CHOICE, TRI_NEEDS_DEMONSTRATIONS, FIXED, NEVER, AT(data.train_on), "last|all", "last", "",
   "Messages of a conversation to learn: the assistant's last message, or all of the assistant's messages."},
  {"data.shuffle", TRI_KEY_BOOL, ALL, FIXED, replayed, AT(data.shuffle), "", "true", "",
   "Shuffles the lines in each epoch."},
  {"data.max_prompt_length", TRI_KEY_I64, ALL, FIXED, no_lines, AT(data.max_prompt_length), COUNT, NULL, "tokens",
   "Longest prompt. By default the model's context."},
  {"data.overlong_prompt", TRI_KEY_CHOICE, ALL, FIXED, NEVER, AT(data.overlong_prompt), "error|drop|truncate", "error", "",
   "Treatment of prompts longer than data.max_prompt_length. `error` ends the run before its first step. `drop` leaves "
   "the line out. `truncate` keeps the end of the prompt. In SFT, RM, DPO and KTO, truncate also cuts a prompt if its "
   "answer would not fit into data.max_length or the model's context. The answer then gets the space it needs, at most "
   "half."},
  {"data.max_length", TRI_KEY_I64, GIVEN | PAIRS, FIXED, NEVER, AT(data.max_length), COUNT, NULL, "tokens",
   "Longest line: prompt, answer and end token together. The longer side of a pair counts. By default the model's "
   "context."},
  {"data.overlong", TRI_KEY_CHOICE, GIVEN | PAIRS, FIXED, NEVER, AT(data.overlong), "error|drop|truncate|auto", "auto", "",
   "Treatment of lines longer than data.max_length or the model's context. error ends the run before its first step. "
   "drop leaves the line out. truncate keeps the start of the line, and drops a line with nothing left to learn. auto "
   "does the same as data.overlong_prompt."},
  {"data.max_line_bytes", TRI_KEY_I64, ALL, FREE, NEVER, AT(data.max_line_bytes), "[1, 2147483647]", "67108864", "bytes",
   "Longest line of a data or replay file. Reading a line takes up to 30 times its size in memory."},

  {"algo.name", TRI_KEY_TEXT, ALL, FIXED, NEVER, AT(algo.name), "", NULL, "",
   "Algorithm. It sets an advantage, a policy loss and defaults of other keys. Must be given."},
  {"algo.advantage", TRI_KEY_TEXT, ANSWERS, FIXED, NEVER, AT(algo.advantage), "", NULL, "",
   "Formula that turns rewards into advantages. By default the algorithm's own."},
  {"algo.policy_loss", TRI_KEY_TEXT, ANSWERS, FIXED, NEVER, AT(algo.policy_loss), "", NULL, "",
   "Loss that the policy minimizes. By default the algorithm's own."},
  {"algo.num_generations", TRI_KEY_I64, ANSWERS, FIXED, NEVER, AT(algo.num_generations), COUNT, "8", "samples",
   "Answers to each prompt. They form a group."},
  {"algo.clip_eps", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.clip_eps), "(0, 1)", "0.2", "",
   "Lower clip range. The policy ratio is clipped below 1 - clip_eps."},
  {"algo.clip_eps_high", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.clip_eps_high), "(0, inf)", NULL, "",
   "Upper clip range. The policy ratio is clipped above 1 + clip_eps_high. For cispo it is the cap itself. By default "
   "equal to clip_eps if the deck gives clip_eps."},
  {"algo.dual_clip", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.dual_clip), "[0, inf)", "0", "",
   "Bound of the loss for negative advantages: at most that of a policy ratio of dual_clip, which must be over 1. 0 sets "
   "no bound."},
  {"algo.kl_coef", TRI_KEY_F64, ANSWERS, FIXED, NEVER, AT(algo.opt.kl_coef), "[0, inf)", "0", "",
   "Weight of the KL term. 0 turns it off, and no reference policy is loaded."},
  {"algo.kl_estimator", TRI_KEY_CHOICE, ANSWERS, FIXED, no_kl, AT(algo.opt.kl_estimator), "k1|k2|k3", "k3", "",
   "Estimator of the KL divergence."},
  {"algo.kl_where", TRI_KEY_CHOICE, ANSWERS, FIXED, no_kl, AT(algo.opt.kl_where), "loss|reward", "loss", "",
   "Place of the KL term: added to the loss, or subtracted from the reward."},
  {"algo.scale_rewards", TRI_KEY_CHOICE, LISTED, FIXED, NEVER, AT(algo.opt.scale_rewards), "group|batch|none", "group", "",
   "Divides the advantage by the standard deviation of the group's rewards, of the batch's, or by none."},
  {"algo.advantage_eps", TRI_KEY_F64, LISTED, FIXED, no_scale, AT(algo.opt.advantage_eps), "[0, inf)", "1e-4", "",
   "Added to the standard deviation that divides the advantage."},
  {"algo.gamma", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.gamma), "[0, 1]", "1", "",
   "Discount of rewards per token."},
  {"algo.lam", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.lam), "[0, 1]", "0.95", "",
   "Lambda of generalized advantage estimation (GAE). 1 looks ahead to the end of the answer, 0 to the next value."},
  {"algo.whiten_advantages", TRI_KEY_BOOL, ANSWERS, FIXED, NEVER, AT(algo.opt.whiten_advantages), "", "false", "",
   "Normalizes advantages to mean 0 and standard deviation 1 over all answer tokens of a rollout."},
  {"algo.loss_agg_mode", TRI_KEY_CHOICE, LISTED, FIXED, NEVER, AT(algo.opt.loss_agg_mode),
   "token-mean|seq-mean-token-sum|seq-mean-token-mean|seq-mean-token-sum-norm", "token-mean", "",
   "Average that turns the losses of the tokens into one number."},
  {"algo.sapo_temperature_pos", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.sapo_temperature_pos), "(0, inf)", "1", "",
   "Temperature of SAPO's soft gate around a ratio of 1 for positive advantages. A higher one makes the gate fall off "
   "faster."},
  {"algo.sapo_temperature_neg", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.sapo_temperature_neg), "(0, inf)", "1.05", "",
   "Temperature of the same gate for all other advantages."},
  {"algo.vespo_k_pos", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.vespo_k_pos), "[0, inf)", "2", "",
   "Exponent of the sequence's ratio in VESPO's weight for advantages >= 0."},
  {"algo.vespo_lambda_pos", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.vespo_lambda_pos), "[0, inf)", "3", "",
   "Decay of VESPO's weight with the ratio for advantages >= 0."},
  {"algo.vespo_k_neg", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.vespo_k_neg), "[0, inf)", "3", "",
   "Exponent of the sequence's ratio in VESPO's weight for negative advantages."},
  {"algo.vespo_lambda_neg", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.vespo_lambda_neg), "[0, inf)", "2", "",
   "Decay of VESPO's weight with the ratio for negative advantages."},
  {"algo.ppo_epochs", TRI_KEY_I64, ANSWERS, FIXED, NEVER, AT(algo.ppo_epochs), COUNT, "1", "epochs",
   "Passes over the samples of one rollout."},
  {"algo.entropy_coef", TRI_KEY_F64, ANSWERS, FIXED, NEVER, AT(algo.opt.entropy_coef), "[0, inf)", "0", "",
   "Weight of the entropy bonus."},
  {"algo.centering_coef", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.centering_coef), "[0, inf)", "0", "",
   "Weight of the squared sum of a pair's two scores. It keeps the scores near 0."},
  {"algo.beta", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.beta), "(0, inf)", "0.1", "",
   "Factor of an answer's log-ratio to the reference, which is its implicit reward. A higher one keeps the policy nearer "
   "to the reference."},
  {"algo.dpo_loss", TRI_KEY_CHOICE, LISTED, FIXED, NEVER, AT(algo.opt.dpo_loss), "sigmoid|ipo", "sigmoid", "",
   "Loss of a pair. `sigmoid` raises the chosen answer above the rejected one. `ipo` aims at a margin of 1 / (2 beta)."},
  {"algo.label_smoothing", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.label_smoothing), "[0, 0.5)", "0", "",
   "Share of the pairs assumed to have swapped labels, for algo.dpo_loss sigmoid."},
  {"algo.sft_coef", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.sft_coef), "[0, inf)", "0", "",
   "Weight of an added SFT loss: the negative log-likelihood of the chosen answers, averaged over their tokens."},
  {"algo.length_normalize", TRI_KEY_BOOL, LISTED, FIXED, NEVER, AT(algo.opt.length_normalize), "", NULL, "",
   "Divides the log-ratio of an answer by its number of tokens. By default true for algo.dpo_loss ipo, else false."},
  {"algo.desirable_weight", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.desirable_weight), "[0, inf)", "1", "",
   "Weight of the loss of answers labelled true."},
  {"algo.undesirable_weight", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.undesirable_weight), "[0, inf)", "1", "",
   "Weight of the loss of answers labelled false."},
  {"algo.top_entropy_quantile", TRI_KEY_F64, ANSWERS, FIXED, NEVER, AT(algo.opt.top_entropy_quantile), "(0, 1]", "1", "",
   "Share of an optimizer step's tokens with a policy loss, taken from those of the highest entropy. The KL term, the "
   "entropy bonus and the means still cover all tokens. 1 takes all tokens."},
  {"algo.mask_truncated", TRI_KEY_BOOL, ANSWERS, FIXED, NEVER, AT(algo.opt.mask_truncated), "", "false", "",
   "Leaves answers cut at max_response_length out of the loss. They still count in the statistics of their group."},
  {"algo.kl_bias_correction", TRI_KEY_BOOL, ANSWERS, FIXED, no_kl, AT(algo.opt.kl_bias_correction), "", "false", "",
   "Multiplies the KL term of the loss by the policy ratio."},
  {"algo.kl_target", TRI_KEY_F64, ANSWERS, FIXED, NEVER, AT(algo.opt.kl_target), "(0, inf)", NULL, "nats",
   "KL to hold. kl_coef grows after a step with a higher KL and shrinks after a lower one. By default kl_coef is "
   "constant."},
  {"algo.kl_horizon", TRI_KEY_F64, ANSWERS, FIXED, no_kl_target, AT(algo.opt.kl_horizon), "(0, inf)", "10000", "samples",
   "Time constant of kl_target. A step of n samples changes kl_coef by a share of at most 0.2 n / kl_horizon."},
  {"algo.adaptive_entropy_target", TRI_KEY_F64, ANSWERS, FIXED, NEVER, AT(algo.opt.adaptive_entropy_target), "(0, inf)", NULL, "nats",
   "Entropy to hold. An optimizer step at or below it raises entropy_coef by 0.005 for the next step, up to 1. A step "
   "above it lowers entropy_coef by as much, down to 0, and leaves the next step without an entropy bonus. By default "
   "entropy_coef is constant."},
  {"algo.ema_beta", TRI_KEY_F64, ALL, FIXED, NEVER, AT(algo.ema_beta), "[0, 1)", "0", "",
   "Decay of a moving average of the policy's weights. After each update the average is ema_beta times its old value "
   "plus the rest of the new weights. Export it by `trireme export --ema`. 0 keeps none."},
  {"algo.is_cap", TRI_KEY_F64, ANSWERS, FIXED, NEVER, AT(algo.opt.is_cap), "[0, inf)", "0", "",
   "Cap of importance weights. They multiply a token's policy loss by exp(log-probability of the trainer - that of the "
   "sampler). Needs run.sampler: rescore. 0 turns the weights off."},
  {"algo.is_mode", TRI_KEY_CHOICE, ANSWERS, FIXED, no_is_cap, AT(algo.opt.is_mode), "truncate|mask", "truncate", "",
   "Treatment of weights above is_cap. `truncate` lowers them to is_cap. `mask` sets them to 0."},

  {"rollout.rollout_batch_size", TRI_KEY_I64, ANSWERS, FIXED, NEVER, AT(rollout.rollout_batch_size), COUNT, NULL, "prompts",
   "Prompts of one rollout, on all ranks together. Must be given."},
  {"rollout.max_response_length", TRI_KEY_I64, ALL, FIXED, tri_config_no_answers, AT(rollout.max_response_length), COUNT, NULL, "tokens",
   "Longest answer. Must be given if answers are generated: for RL, and for eval.steps > 0."},
  {"rollout.temperature", TRI_KEY_F64, ANSWERS, FIXED, NEVER, AT(rollout.temperature), "[0, inf)", "1", "",
   "Sampling temperature. It divides the logits. 0 is greedy."},
  {"rollout.top_k", TRI_KEY_I64, ANSWERS, FIXED, no_drawing, AT(rollout.top_k), COUNT0, "0", "tokens",
   "Samples among this many of the likeliest tokens. 0 uses all."},
  {"rollout.top_p", TRI_KEY_F64, ANSWERS, FIXED, no_drawing, AT(rollout.top_p), "(0, 1]", "1", "",
   "Samples among the likeliest tokens up to this total probability, including the token that crosses it."},
  {"rollout.stop", TRI_KEY_LIST, ALL, FIXED, no_sampler, AT(rollout.stop), "", NULL, "",
   "Texts that end an answer."},
  {"rollout.max_sequences", TRI_KEY_I64, ALL, FREE, no_sampler, AT(rollout.max_sequences), COUNT0, "0", "samples",
   "Answers each rank decodes at once. 0 lets the program choose, at most 512 on a GPU and 256 on cores, and fewer if the "
   "states of recurrent layers would take more than half of the cache's memory."},
  {"rollout.max_cached_tokens", TRI_KEY_I64, ALL, FREE, no_sampler, AT(rollout.max_cached_tokens), COUNT0, "0", "tokens",
   "Tokens in the key/value cache of each rank. It needs space for the longest answer with its prompt and for one more "
   "prompt, in pages of 32 tokens. 0 takes as much as the answers decoded at once can use, or the memory that is left. When "
   "the cache is full, the youngest answer gives up its part and is computed again later (metric preempted_answers). With "
   "run.sampler: exact this changes no answer. Lower it to leave memory to other uses."},
  {"rollout.save_every", TRI_KEY_I64, ANSWERS, FREE, NEVER, AT(rollout.save_every), COUNT0, "0", "steps",
   "Steps between rollouts saved to OUTPUT/rollouts/step-NNNNNNNN.jsonl. `trireme show OUTPUT` shows them. 0 saves none."},
  {"rollout.replay", TRI_KEY_TEXT, ANSWERS, FIXED, NEVER, AT(rollout.replay), "", NULL, "path",
   "Folder of step-NNNNNNNN.jsonl files to use instead of generating. A line needs tokens and prompt_tokens. Missing "
   "logprobs are computed. A missing reward is computed from the line of data.train that prompt_id names. Several steps "
   "on several ranks need run.sampler: trust, because a replay sums in another order than the run that wrote the files."},
  {"rollout.dynamic_sampling", TRI_KEY_BOOL, ANSWERS, FIXED, replayed, AT(rollout.dynamic_sampling), "", "false", "",
   "Leaves out groups whose rewards are all equal. The run asks for the next rollout_batch_size prompts until that many "
   "groups remain. The number of prompts a step takes then varies, so a run may read the data more often than "
   "train.epochs says."},
  {"rollout.max_extra_batches", TRI_KEY_I64, ANSWERS, FIXED, no_selection, AT(rollout.max_extra_batches), "[0, 1000]", "3", "",
   "Most additional requests of dynamic_sampling in a step. A step that still has too few groups learns from the groups "
   "it has."},

  {"train.steps", TRI_KEY_I64, ALL, FREE, NEVER, AT(train.steps), COUNT, NULL, "steps",
   "Length of the run. Either this key or train.epochs must be given."},
  {"train.epochs", TRI_KEY_I64, ALL, FREE, NEVER, AT(train.epochs), COUNT, NULL, "epochs",
   "Length of the run in passes over the data."},
  {"train.train_batch_size", TRI_KEY_I64, ALL, FIXED, NEVER, AT(train.train_batch_size), COUNT, NULL, "samples",
   "Samples of one optimizer step = micro_batch_size x gradient_accumulation_steps x ranks. Any two of the three give "
   "the third. The default for RL is all samples of a rollout."},
  {"train.micro_batch_size", TRI_KEY_I64, ALL, FREE, NEVER, AT(train.micro_batch_size), COUNT, NULL, "samples",
   "Samples of one micro-batch on one rank."},
  {"train.gradient_accumulation_steps", TRI_KEY_I64, ALL, FREE, NEVER, AT(train.gradient_accumulation_steps), COUNT, NULL, "passes",
   "Micro-batches of each rank before an optimizer step."},
  {"train.max_tokens_per_gpu", TRI_KEY_I64, ALL, FREE, NEVER, AT(train.max_tokens_per_gpu), COUNT, NULL, "tokens",
   "Packs samples into micro-batches of at most this many tokens, instead of micro_batch_size. If the deck gives neither "
   "this, micro_batch_size nor gradient_accumulation_steps, a micro-batch has as many tokens as memory holds, at most "
   "16384. One sample may be longer. OUTPUT/deck.yaml has the number and a resumed run keeps it, because another number "
   "sums gradients in another order."},
  {"train.learning_rate", TRI_KEY_F64, ALL, FREE, NEVER, AT(train.lr.peak), "(0, inf)", "1e-6", "",
   "Peak learning rate, reached after the warm-up. The default is 2e-5 for sft, 1e-5 for rm, 5e-7 for dpo and kto, 1e-6 "
   "for all others. With LoRA it is 5e-6 for dpo and kto, 1e-4 for all others."},
  {"train.lr_scheduler", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(train.lr.scheduler), "constant|linear|cosine", "constant", "",
   "Shape of the learning rate's decay after the warm-up."},
  {"train.warmup_steps", TRI_KEY_I64, ALL, FREE, NEVER, AT(train.lr.warmup), COUNT0, NULL, "updates",
   "Optimizer updates in which the learning rate rises from 0. A step of RL may make several updates."},
  {"train.warmup_ratio", TRI_KEY_F64, ALL, FREE, NEVER, AT(train.warmup_ratio), "[0, 1]", NULL, "",
   "Length of the warm-up as a share of all updates. With critic.warmup_steps only the policy's own updates count."},
  {"train.min_lr_ratio", TRI_KEY_F64, ALL, FREE, NEVER, AT(train.lr.min_ratio), "[0, 1]", "0", "",
   "Final learning rate of linear and cosine, as a share of learning_rate."},
  {"train.max_grad_norm", TRI_KEY_F64, ALL, FREE, NEVER, AT(train.optim.max_grad_norm), "[0, inf)", "1", "",
   "Clips the gradient to this norm. 0 never clips."},
  {"train.weight_decay", TRI_KEY_F64, ALL, FREE, NEVER, AT(train.optim.weight_decay), "[0, inf)", "0", "",
   "Decoupled weight decay of tensors with two dimensions."},
  {"train.adam_beta1", TRI_KEY_F64, ALL, FREE, NEVER, AT(train.optim.beta1), "[0, 1)", "0.9", "",
   "Decay of Adam's first moment."},
  {"train.adam_beta2", TRI_KEY_F64, ALL, FREE, NEVER, AT(train.optim.beta2), "[0, 1)", "0.95", "",
   "Decay of Adam's second moment."},
  {"train.adam_eps", TRI_KEY_F64, ALL, FREE, NEVER, AT(train.optim.eps), "(0, inf)", "1e-8", "",
   "Added to the root of Adam's second moment."},
  {"train.loss_scale", TRI_KEY_F64, ALL, FREE, no_fp16, AT(train.optim.scaling.fixed), "[0, 4294967296]", "0", "",
   "Fixed factor of the loss for model.dtype fp16, to keep small gradients from becoming 0. 0 uses a dynamic scale: an "
   "overflow skips the optimizer step and halves the scale, a series of good steps doubles it."},
  {"train.initial_scale_power", TRI_KEY_I64, ALL, FREE, no_moving_scale, AT(train.optim.scaling.first_power), "[0, 32]", "16", "",
   "Initial scale as a power of 2, for loss_scale 0."},
  {"train.loss_scale_window", TRI_KEY_I64, ALL, FREE, no_moving_scale, AT(train.optim.scaling.window), COUNT, "1000", "updates",
   "Updates in a row without overflow that double the scale, for loss_scale 0."},
  {"train.min_loss_scale", TRI_KEY_F64, ALL, FREE, no_moving_scale, AT(train.optim.scaling.min), "(0, 4294967296]", "1", "",
   "Least scale, for loss_scale 0. An overflow at this scale raises an alarm."},

  {"critic.path", TRI_KEY_TEXT, CRITIC, FIXED, NEVER, AT(critic.path), "", NULL, "path",
   "Model the critic starts from, with or without a scalar head, or a run with a critic. By default the reward model. "
   "Without a reward model it is the model the policy starts from."},
  {"critic.learning_rate", TRI_KEY_F64, CRITIC, FREE, NEVER, AT(critic.learning_rate), "(0, inf)", "5e-6", "",
   "Peak learning rate of the critic. Its optimizer takes all other settings from train."},
  {"critic.warmup_steps", TRI_KEY_I64, CRITIC, FIXED, NEVER, AT(critic.warmup_steps), COUNT0, "0", "steps",
   "First steps of the run, in which only the critic learns."},
  {"critic.shard", TRI_KEY_CHOICE, CRITIC, FREE, NEVER, AT(critic.plan), "hybrid|zero0|zero1|zero2|zero3", NULL, "",
   "Shard plan of the critic. By default the plan of shard."},
  {"critic.lora", TRI_KEY_BOOL, CRITIC, FIXED, no_adapters, AT(critic.lora), "", "true", "",
   "Gives the critic its own adapters if the policy has adapters, with the same rank, alpha and targets. `false` trains "
   "all weights of the critic."},
  {"critic.value_clip", TRI_KEY_F64, CRITIC, FIXED, NEVER, AT(algo.opt.value_clip), "[0, inf)", "0.2", "rewards",
   "Range around a value's estimate from before learning. Beyond it, a change of the value lowers the loss no further. 0 "
   "turns clipping off."},

  {"reference.shard", TRI_KEY_CHOICE, COMPARE, FREE, no_reference, AT(reference.plan), "hybrid|zero0|zero1|zero2|zero3", NULL, "",
   "Shard plan of the reference policy. Only the plan's params part matters. By default the plan of shard."},

  {"shard.plan", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(shard.plan), "hybrid|zero0|zero1|zero2|zero3", "hybrid", "",
   "Distribution of the model's state over the ranks. `zero0` gives every rank a full copy. `zero1` distributes the "
   "optimizer state over all ranks, zero2 also the gradients, zero3 also the parameters. `hybrid` distributes parameters "
   "and gradients within each node and the optimizer state over all ranks."},
  {"shard.params", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(shard.scope.params), "none|node|world", NULL, "",
   "Ranks that share one copy of the parameters, for a plan of your own. By default as in hybrid."},
  {"shard.grads", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(shard.scope.grads), "none|node|world", NULL, "",
   "Ranks that share one copy of the gradients."},
  {"shard.optimizer", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(shard.scope.optim), "none|node|world", NULL, "",
   "Ranks that share one copy of the optimizer state."},
  {"shard.offload", TRI_KEY_CHOICE, ALL, FREE, all_models_train, AT(shard.offload), "none|optimizer|frozen|all", "none", "",
   "State kept in host memory and brought to the GPU in pieces: the optimizer's state, the weights of frozen models "
   "(reference, reward model), or both. Choose it if GPU memory is too small."},
  {"shard.tensor_parallel_size", TRI_KEY_I64, ALL, FREE, no_sampler, AT(shard.tensor_parallel_size), COUNT, "1", "ranks",
   "Ranks of a node that generate as one model, each with its rows of every matrix and its heads. With run.sampler: "
   "exact, answers, training and checkpoints are the same for every value. Choose it if a GPU has too little memory to generate with the whole model. "
   "It must divide the ranks of a node, the model's heads, key/value heads, width and mlp."},

  {"checkpoint.save_steps", TRI_KEY_I64, ALL, FREE, NEVER, AT(checkpoint.save_steps), COUNT0, "0", "steps",
   "Steps between checkpoints. 0 leaves the timing to checkpoint.save_minutes."},
  {"checkpoint.save_minutes", TRI_KEY_F64, ALL, FREE, NEVER, AT(checkpoint.save_minutes), "[0, inf)", "30", "minutes",
   "Minutes between checkpoints. Each is written after the first step that ends this long after the last checkpoint. 0 "
   "turns this off. The default limits the loss of a killed run to half an hour."},
  {"checkpoint.save_total_limit", TRI_KEY_I64, ALL, FREE, NEVER, AT(checkpoint.save_total_limit), COUNT, "2", "checkpoints",
   "Number of the newest checkpoints to keep. The one of checkpoint.keep_best does not count, even if it is the newest. "
   "Then the one before it is kept too."},
  {"checkpoint.save_final", TRI_KEY_BOOL, ALL, FREE, NEVER, AT(checkpoint.save_final), "", "true", "",
   "Writes a checkpoint after the last step."},
  {"checkpoint.async", TRI_KEY_BOOL, ALL, FREE, NEVER, AT(checkpoint.async), "", "false", "",
   "Copies the state to host memory and writes the checkpoint during the next steps. The memory plan lists the copy as "
   "`checkpoint copy`. The run waits for its last checkpoint."},
  {"checkpoint.keep_best", TRI_KEY_TEXT, ALL, FREE, no_eval, AT(checkpoint.keep_best), "", NULL, "metric",
   "Metric of evaluations, such as eval_reward_mean. A checkpoint follows each evaluation that is better than those of "
   "all other checkpoints. checkpoints/BEST names it, and it is kept besides those that save_total_limit counts. Metrics "
   "ending in loss or perplexity are better when lower, all others when higher. By default there is none."},

  {"eval.steps", TRI_KEY_I64, ALL, FREE, NEVER, AT(eval.steps), COUNT0, "0", "steps",
   "Steps between evaluations on data.eval. One also precedes step 1 and one follows the last step. sft, rm, dpo and kto "
   "evaluate the loss of given answers. Runs with rewards evaluate generated answers. 0 evaluates never."},
  {"eval.max_prompts", TRI_KEY_I64, ALL, FREE, no_eval, AT(eval.max_prompts), COUNT0, "0", "prompts",
   "Number of lines to evaluate, or of each set with data.eval_names. 0 uses all."},
  {"eval.num_generations", TRI_KEY_I64, ALL, FREE, no_eval_answers, AT(eval.num_generations), COUNT, "1", "samples",
   "Answers to each prompt. k of them give eval_pass_at_k, eval_best_at_k and eval_majority_at_k."},
  {"eval.temperature", TRI_KEY_F64, ALL, FREE, no_eval_answers, AT(eval.temperature), "[0, inf)", "0", "",
   "Sampling temperature of evaluations. It divides the logits. 0 is greedy."},
  {"eval.save", TRI_KEY_BOOL, ALL, FREE, no_eval_answers, AT(eval.save), "", "false", "",
   "Writes the answers of each evaluation and their rewards to OUTPUT/eval/step-NNNNNNNN.jsonl. `trireme show OUTPUT "
   "--eval` shows them."},
};
const int tri_n_keys = sizeof tri_keys / sizeof *tri_keys;
/* clang-format on */

const tri_key *tri_key_find(const char *name) {
  for (int i = 0; i < tri_n_keys; i++)
    if (!strcmp(tri_keys[i].name, name)) return &tri_keys[i];
  return NULL;
}

bool tri_key_in_section(const char *name, const char *section) {
  size_t n = strlen(section);
  return !strncmp(name, section, n) && name[n] == '.';
}

bool tri_key_is_adapters(const char *name) {
  return tri_key_in_section(name, "lora") || !strcmp(name, "critic.lora");
}

bool tri_key_is_used(const tri_key *k, const tri_algo *a) {
  if (k->needs & TRI_KEY_BY_ALGO) return tri_algo_reads(a, k->name);
  if (k->needs & TRI_KEY_OF_CRITIC) return a->advantage && (a->advantage->reads & TRI_READS_CRITIC);
  if (k->needs & TRI_KEY_OF_REFERENCE)
    return (a->needs & TRI_NEEDS_ANSWERS) || (a->loss->reads & TRI_LOSS_REFERENCE);
  return !k->needs || (k->needs & a->needs);
}

bool tri_key_choice(const tri_key *k, int i, char *out, size_t bytes) {
  const char *at = k->range;

  for (; i > 0 && at; i--) {
    at = strchr(at, '|');
    if (at) at++;
  }
  if (!at) return false;
  snprintf(out, bytes, "%.*s", (int)strcspn(at, "|"), at);
  return true;
}

void tri_config_word(const char *key, int value, char out[TRI_CONFIG_WORD_BYTES]) {
  const tri_key *k = tri_key_find(key);

  TRI_ASSERT(k && k->type == TRI_KEY_CHOICE && value >= 0);
  TRI_ASSERT(tri_key_choice(k, value, out, TRI_CONFIG_WORD_BYTES));
}

/* Writes "[1, 10)" as ">= 1 and < 10". */
static void interval_text(const char *range, char *out, size_t bytes) {
  char lo[32] = "", hi[32] = "";

  sscanf(range + 1, "%31[^,], %31[^])]", lo, hi);
  bool has_lo = strcmp(lo, "-inf") != 0, has_hi = strcmp(hi, "inf") != 0;
  snprintf(out, bytes, "%s%s%s%s%s", has_lo ? (range[0] == '[' ? " >= " : " > ") : "", has_lo ? lo : "",
           has_lo && has_hi ? " and" : "", has_hi ? (range[strlen(range) - 1] == ']' ? " <= " : " < ") : "",
           has_hi ? hi : "");
}

const char *tri_key_named(const tri_key *k, int i) {
  if (!strcmp(k->name, "algo.name")) return tri_algo_at(i) ? tri_algo_at(i)->name : NULL;
  if (!strcmp(k->name, "algo.advantage")) return tri_advantage_at(i) ? tri_advantage_at(i)->name : NULL;
  if (!strcmp(k->name, "algo.policy_loss")) return tri_policy_loss_at(i) ? tri_policy_loss_at(i)->name : NULL;
  return NULL;
}

static void list_names(const tri_key *k, char *out, size_t bytes) {
  snprintf(out, bytes, "one of");
  for (int i = 0; tri_key_named(k, i); i++) {
    size_t used = strlen(out);
    snprintf(out + used, bytes - used, "%s %s", i ? "," : "", tri_key_named(k, i));
    TRI_ASSERT(strlen(out) + 1 < bytes);
  }
}

static void list_words(const tri_key *k, char *out, size_t bytes) {
  char word[TRI_CONFIG_WORD_BYTES];

  snprintf(out, bytes, "one of");
  for (int i = 0; tri_key_choice(k, i, word, sizeof word); i++) {
    size_t used = strlen(out);
    snprintf(out + used, bytes - used, "%s %s", i ? "," : "", word);
  }
}

void tri_key_expected(const tri_key *k, char out[TRI_KEY_EXPECTED_BYTES]) {
  const size_t bytes = TRI_KEY_EXPECTED_BYTES;
  const char  *noun = k->unit[0] ? k->unit : "text";
  char         interval[80] = "";

  if (tri_key_named(k, 0)) {
    list_names(k, out, bytes);
    return;
  }
  switch (k->type) {
  case TRI_KEY_BOOL:
    snprintf(out, bytes, "true or false");
    return;
  case TRI_KEY_MAP:
    snprintf(out, bytes, "a mapping of names to texts, numbers, true or false");
    return;
  case TRI_KEY_TEXT:
    if (k->range[0])
      list_words(k, out, bytes);
    else
      snprintf(out, bytes, "%sa %s", strcmp(k->name, "run.resume") ? "" : "auto, never or ", noun);
    return;
  case TRI_KEY_LIST:
    if (k->range[0]) {
      interval_text(k->range, interval, sizeof interval);
      snprintf(out, bytes, "a list of %ss%s", noun, interval);
    } else
      snprintf(out, bytes, "a %s or a list of %ss", noun, noun);
    return;
  case TRI_KEY_CHOICE:
    list_words(k, out, bytes);
    return;
  default:
    interval_text(k->range, interval, sizeof interval);
    snprintf(out, bytes, "%s%s", k->type == TRI_KEY_F64 ? "a number" : "a whole number", interval);
    return;
  }
}
