/* config_keys.c - one row per option, and what is asked of a row. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "config_keys.h"

#include <stdio.h>
#include <string.h>

#define AT(member) offsetof(tri_config, member)
#define COUNT      "[1, 1000000000]"
#define COUNT0     "[0, 1000000000]"
/* Whose the key is; a deck with another algorithm that gives it is refused. */
#define ALL     0                 /* every algorithm's */
#define LISTED  TRI_KEY_BY_ALGO   /* that of the advantages and losses whose list of options names it */
#define ANSWERS TRI_NEEDS_ANSWERS /* where answers are generated in each step */
#define GIVEN                                                                                                \
  (TRI_NEEDS_DEMONSTRATIONS | TRI_NEEDS_LABELLED) /* where one answer to a prompt is in the data */
#define PAIRS   TRI_NEEDS_PAIRS                   /* where two are */
#define CRITIC  TRI_KEY_OF_CRITIC                 /* where the advantage reads values */
#define COMPARE TRI_KEY_OF_REFERENCE              /* where there can be a reference policy */
/* What a resume does that gives it another value. */
#define FIXED TRI_CHANGE_REFUSED /* end, unless run.allow_changes names it: it is part of the experiment */
#define FREE  TRI_CHANGE_LISTED  /* say so and go on */
#define HERE  TRI_CHANGE_HERE    /* nothing: it belongs to this start */

/* The column idle_if of the rows below. Each function returns why a key has no effect in this deck, or
 * NULL. */
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

/* Rows of a section stand together: a section of the reference begins where its name changes. A key that is
 * given without its section means the first row of that name: a new row stands below the one that keeps it,
 * as eval.steps below train.steps. A key that has no effect while another is off, as eval.temperature while
 * eval.steps is 0, names the function above that says why: config_check.c tells whoever gives the key. The
 * words of a choice stand in the order of its enum, each with a row in tests/config/test_config_words.c. */
/* clang-format off */
const tri_key tri_keys[] = {
  {"run.output", TRI_KEY_TEXT, ALL, HERE, NEVER, AT(run.output), "", NULL, "path",
   "Folder the run writes to; must be given. Paths in a deck are relative to the folder the program is "
   "started in."},
  {"run.seed", TRI_KEY_U64, ALL, FIXED, NEVER, AT(run.seed), "[0, 18446744073709551615]", "42", "1",
   "Key of every random number: weights, order of the data, sampling."},
  {"run.device", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(run.device), "auto|cpu|cuda", "auto", "1",
   "Where the work is done; auto takes GPUs where there are any."},
  {"run.ranks_per_node", TRI_KEY_I64, ALL, FREE, NEVER, AT(run.ranks_per_node), COUNT0, "0", "ranks",
   "Treat so many neighbouring ranks as one node; 0: the real nodes."},
  {"run.threads", TRI_KEY_I64, ALL, FREE, NEVER, AT(run.threads), "[0, 4096]", "0", "threads",
   "Threads of each rank. 0: its share of the cores, or less where the CPU quota of a cgroup, OMP_NUM_THREADS or "
   "OMP_THREAD_LIMIT allows less; the start says what decided."},
  {"run.resume", TRI_KEY_TEXT, ALL, HERE, NEVER, AT(run.resume), "", "auto", "path",
   "auto: go on from the newest checkpoint in run.output; never: start anew; or the path of a checkpoint."},
  {"run.allow_changes", TRI_KEY_LIST, ALL, HERE, NEVER, AT(run.allow_changes), "", NULL, "1",
   "A key that this resume may change though it is part of the experiment, or a list of them; reward; deck: "
   "whatever a checkpoint's deck that cannot be read hides."},
  {"run.sampler", TRI_KEY_CHOICE, ANSWERS, FREE, NEVER, AT(run.sampler), "exact|rescore|trust", "exact", "1",
   "Old log-probabilities: exact, the sampler's, and trainer and sampler must agree to the bit (where this "
   "machine's products cannot, a warning says so and it is rescore); rescore, from a training forward; "
   "trust, the sampler's as they are."},
  {"run.log_every", TRI_KEY_I64, ALL, FREE, NEVER, AT(run.log_every), COUNT, "1", "steps",
   "Show a row of every so many steps, of each evaluated one and of the last; metrics.jsonl has every step."},
  {"run.tensorboard", TRI_KEY_BOOL, ALL, FREE, NEVER, AT(run.tensorboard), "", "false", "1",
   "Write what metrics.jsonl says for TensorBoard too: tensorboard --logdir OUTPUT/tensorboard."},
  {"run.timeout_s", TRI_KEY_F64, ALL, HERE, NEVER, AT(run.timeout_s), "[0, inf)", "600", "s",
   "How long ranks wait for one that is late; one that is stopped, dead or unreachable is waited for 15 s at most. The "
   "run then says which rank it is and ends with exit code 76. At least 10; 0: ranks wait for ever."},
  {"run.trace_steps", TRI_KEY_I64, ALL, FREE, NEVER, AT(run.trace_steps), "[0, 100]", "0", "steps",
   "Write OUTPUT/trace/rank-N.json, a timeline of the first so many steps after the start, for "
   "chrome://tracing or ui.perfetto.dev; 0: never."},
  {"run.cpu_kernels", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(run.cpu_kernels), "auto|avx512|avx2|neoverse_v2|neon|generic", "auto", "1",
   "Kernels on CPUs, of what is not a product of weights: for which of the processor's instructions; auto: the best it has. "
   "Where nodes differ, avx2 (on Arm neon) on all of them gives the same numbers. TRI_CPU_KERNELS in the environment "
   "overrides it."},
  {"run.cpu_f32", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(run.cpu_f32), "auto|library|avx512", "auto", "1",
   "Products of f32 weights on CPUs: by this program's AVX-512, or by oneDNN or OpenBLAS; auto: avx512 where the processor "
   "has it. Where nodes differ, library on all of them. TRI_CPU_F32 in the environment overrides it."},
  {"run.cpu_bf16", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(run.cpu_bf16), "auto|amx|avx512|f32", "auto", "1",
   "Products of bf16 on CPUs: by AMX, by AVX512-BF16, or widened to f32; auto: the first of these that the processor has. "
   "TRI_CPU_BF16 in the environment overrides it."},
  {"run.collectives", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(run.collectives), "auto|shm|mpi|nccl|staged", "auto", "1",
   "Who sums and gathers between ranks: shm (memory of a node, MPI between nodes) or mpi on CPUs, nccl or staged (through "
   "host memory and MPI) on GPUs; auto: shm, and nccl where it is built in. TRI_COMM in the environment overrides it."},
  {"run.cuda_attention_backward", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(run.cuda_attention_backward), "auto|own|cudnn", "auto", "1",
   "Gradients of attention on GPUs: by this program's kernel, or by cuDNN; auto: own. TRI_CUDA_ATTN_BWD in the environment "
   "overrides it."},

  {"model.path", TRI_KEY_TEXT, ALL, FIXED, NEVER, AT(model.path), "", NULL, "path",
   "Hugging Face folder, checkpoint or output folder to start from; or else model.config."},
  {"model.config", TRI_KEY_TEXT, ALL, FIXED, NEVER, AT(model.config), "", NULL, "path",
   "A config.json: start from random weights, keyed by run.seed and tensor name."},
  {"model.tokenizer", TRI_KEY_TEXT, ALL, FIXED, NEVER, AT(model.tokenizer), "", NULL, "path",
   "A tokenizer.json, beside model.config; not needed where the data is tokens."},
  {"model.dtype", TRI_KEY_CHOICE, ALL, FIXED, NEVER, AT(model.dtype), "f32|bf16|fp16", "bf16", "1",
   "Type the model computes in; master weights and optimizer state are always f32. fp16 scales the loss."},
  {"model.recompute", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(model.recompute), "none|layer", "none", "1",
   "layer: keep only the input of each layer and compute the rest again in the backward pass."},
  {"model.rope_factors", TRI_KEY_CHOICE, ALL, FIXED, NEVER, AT(model.rope_factors), "auto|short|long", "auto", "1",
   "Which factors of its longrope a model has (Phi-3 with 128k, Phi-3.5, Phi-4-mini), the same for every sequence of a "
   "run. auto: long if a sequence may have more tokens than original_max_position_embeddings, as vLLM has it; the first "
   "start decides, and resumes keep it."},
  {"model.ref_path", TRI_KEY_TEXT, COMPARE, FIXED, NEVER, AT(model.ref_path), "", NULL, "path",
   "Reference policy of the KL term or of preferences; not given: the starting policy, with lora the one without "
   "adapters."},

  {"lora.rank", TRI_KEY_I64, ALL, FIXED, NEVER, AT(lora.rank), "[0, 65536]", "0", "1",
   "Low-rank adapters (LoRA) of this rank learn, and the model's weights stay as they are; 0: all weights learn."},
  {"lora.alpha", TRI_KEY_F64, ALL, FIXED, no_adapters, AT(lora.alpha), "[1e-6, 1e6]", NULL, "1",
   "What adapters add counts times alpha / rank; not given: 16."},
  {"lora.targets", TRI_KEY_LIST, ALL, FIXED, no_adapters, AT(lora.targets), "", NULL, "1",
   "Modules that have adapters, such as q_proj, or a list of them; not given: all linear modules of the layers."},
  {"lora.path", TRI_KEY_TEXT, ALL, FIXED, NEVER, AT(lora.path), "", NULL, "path",
   "Folder of PEFT's whose adapters the run starts from, with their rank, alpha and targets; not given: new ones."},

  {"data.train", TRI_KEY_LIST, ALL, FIXED, NEVER, AT(data.train), "", NULL, "path",
   "JSON lines file to train on, or a list of them; must be given unless rollout.replay is."},
  {"data.train_weights", TRI_KEY_LIST, ALL, FIXED, NEVER, AT(data.train_weights), "", NULL, "1",
   "For each file of data.train how often its lines are drawn, beside the others' numbers: a random number keyed by "
   "run.seed and the line's place in the run chooses the file, which goes through its own lines pass by pass; "
   "train.epochs then counts as many draws as there are lines; not given: the files are one."},
  {"data.eval", TRI_KEY_LIST, ALL, FREE, no_eval, AT(data.eval), "", NULL, "path",
   "JSON lines file to evaluate on, or a list of them."},
  {"data.eval_names", TRI_KEY_LIST, ALL, FREE, no_eval, AT(data.eval_names), "", NULL, "1",
   "For each file of data.eval a name of a-z, 0-9 and _: each is a set of its own then, with metrics eval_NAME_reward_mean "
   "and so on, beside those of all; not given: the files are one set."},
  {"data.prompt_key", TRI_KEY_TEXT, ALL, FIXED, NEVER, AT(data.prompt_key), "", "prompt", "1",
   "Field of a line that holds the prompt. For this and every other _key a name with dots is a path into inner fields, "
   "such as extra_info.question, unless the line has a field of that name."},
  {"data.answer_key", TRI_KEY_TEXT, ALL, FIXED, tri_config_no_answers, AT(data.answer_key), "", "answer", "1",
   "Field of a line that holds the right answer, for the rewards; verl's lines: reward_model.ground_truth."},
  {"data.completion_key", TRI_KEY_TEXT, GIVEN, FIXED, NEVER, AT(data.completion_key), "", "completion", "1",
   "Field of a line that holds the text to be learned."},
  {"data.chosen_key", TRI_KEY_TEXT, PAIRS, FIXED, NEVER, AT(data.chosen_key), "", "chosen", "1",
   "Field of a line that holds the better answer."},
  {"data.rejected_key", TRI_KEY_TEXT, PAIRS, FIXED, NEVER, AT(data.rejected_key), "", "rejected", "1",
   "Field of a line that holds the worse answer."},
  {"data.label_key", TRI_KEY_TEXT, TRI_NEEDS_LABELLED, FIXED, NEVER, AT(data.label_key), "", "label", "1",
   "Field of a line that says whether the answer is good: true or false."},
  {"data.chat_template", TRI_KEY_TEXT, ALL, FIXED, NEVER, AT(data.chat_template), TRI_CHAT_WORDS "|FILE.jinja", "auto", "path",
   "How lists of messages become text. auto: the model's own template; a name: that template; FILE.jinja: a file of "
   "yours, in the same language; none: they are refused."},
  {"data.chat_template_kwargs", TRI_KEY_MAP, ALL, FIXED, NEVER, AT(data.chat_template_kwargs), "", NULL, "1",
   "Variables for the chat template, such as {enable_thinking: false}: texts, numbers, true or false."},
  {"data.chat_template_date", TRI_KEY_TEXT, ALL, FIXED, NEVER, AT(data.chat_template_date), "", NULL, "date",
   "The day that a chat template writes with strftime_now, YYYY-MM-DD. Not given: the day on which the run was first "
   "started; a resume keeps it."},
  {"data.system_prompt", TRI_KEY_TEXT, ALL, FIXED, NEVER, AT(data.system_prompt), "", NULL, "text",
   "Text of a message of the system that is put before each conversation which has none, of training, evaluation and "
   "pairs alike; with data.apply_chat_template also before prompts that are text."},
  {"data.tools", TRI_KEY_TEXT, ALL, FIXED, NEVER, AT(data.tools), "", NULL, "path",
   "JSON file with a list of the tools that the chat template describes in every conversation; a line's own go before "
   "them."},
  {"data.tools_key", TRI_KEY_TEXT, ALL, FIXED, NEVER, AT(data.tools_key), "", "tools", "1",
   "Field of a line that holds its own list of tools."},
  {"data.apply_chat_template", TRI_KEY_BOOL, ALL, FIXED, NEVER, AT(data.apply_chat_template), "", "false", "1",
   "A prompt that is text is the user's message of a conversation, an answer to it the assistant's; else text is "
   "taken as it stands."},
  {"data.train_on", TRI_KEY_CHOICE, TRI_NEEDS_DEMONSTRATIONS, FIXED, NEVER, AT(data.train_on), "last|all", "last", "1",
   "What is learned of a conversation: the assistant's last message, or all of them."},
  {"data.shuffle", TRI_KEY_BOOL, ALL, FIXED, replayed, AT(data.shuffle), "", "true", "1",
   "Go through the lines in a new order in each epoch."},
  {"data.max_prompt_length", TRI_KEY_I64, ALL, FIXED, no_lines, AT(data.max_prompt_length), COUNT, NULL, "tokens",
   "Longest prompt; not given: what the model can hold."},
  {"data.overlong_prompt", TRI_KEY_CHOICE, ALL, FIXED, NEVER, AT(data.overlong_prompt), "error|drop|truncate", "error", "1",
   "A longer prompt: error ends the run before its first step, drop leaves the line out, truncate keeps the "
   "prompt's end. In lines that are learned truncate also cuts a prompt that leaves no room for its answer within "
   "data.max_length or the model's context: the answer gets the room it needs, at most half."},
  {"data.max_length", TRI_KEY_I64, GIVEN | PAIRS, FIXED, NEVER, AT(data.max_length), COUNT, NULL, "tokens",
   "Longest line, a prompt with its answer and end token; of a pair its longer side. Not given: the model's context."},
  {"data.overlong", TRI_KEY_CHOICE, GIVEN | PAIRS, FIXED, NEVER, AT(data.overlong), "error|drop|truncate|auto", "auto", "1",
   "A line longer than data.max_length or the model's context: error ends the run before its first step, drop leaves "
   "the line out, truncate keeps its start and drops a line that would keep nothing to learn. auto does as "
   "data.overlong_prompt says."},
  {"data.max_line_bytes", TRI_KEY_I64, ALL, FREE, NEVER, AT(data.max_line_bytes), "[1, 2147483647]", "67108864", "bytes",
   "Longest line of a data or replay file; while it is read it takes up to 30 times its bytes."},

  {"algo.name", TRI_KEY_TEXT, ALL, FIXED, NEVER, AT(algo.name), "", NULL, "1",
   "The algorithm, with an advantage, a policy loss and defaults of its own; must be given."},
  {"algo.advantage", TRI_KEY_TEXT, ANSWERS, FIXED, NEVER, AT(algo.advantage), "", NULL, "1",
   "What rewards become; not given: the algorithm's."},
  {"algo.policy_loss", TRI_KEY_TEXT, ANSWERS, FIXED, NEVER, AT(algo.policy_loss), "", NULL, "1",
   "What is learned by advantages; not given: the algorithm's."},
  {"algo.num_generations", TRI_KEY_I64, ANSWERS, FIXED, NEVER, AT(algo.num_generations), COUNT, "8", "samples",
   "Answers per prompt: the group."},
  {"algo.clip_eps", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.clip_eps), "(0, 1)", "0.2", "1",
   "The policy ratio is clipped below 1 - clip_eps."},
  {"algo.clip_eps_high", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.clip_eps_high), "(0, inf)", NULL, "1",
   "The policy ratio is clipped above 1 + clip_eps_high (cispo: it is the cap itself); not given: clip_eps, if that is given."},
  {"algo.dual_clip", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.dual_clip), "[0, inf)", "0", "1",
   "Where the advantage is negative the loss is bounded as by a ratio of so much, over 1; 0: it is not bounded."},
  {"algo.kl_coef", TRI_KEY_F64, ANSWERS, FIXED, NEVER, AT(algo.opt.kl_coef), "[0, inf)", "0", "1",
   "Weight of the KL term; 0: no reference policy."},
  {"algo.kl_estimator", TRI_KEY_CHOICE, ANSWERS, FIXED, no_kl, AT(algo.opt.kl_estimator), "k1|k2|k3", "k3", "1",
   "Estimator of the KL term."},
  {"algo.kl_where", TRI_KEY_CHOICE, ANSWERS, FIXED, no_kl, AT(algo.opt.kl_where), "loss|reward", "loss", "1",
   "Where the KL term is added."},
  {"algo.scale_rewards", TRI_KEY_CHOICE, LISTED, FIXED, NEVER, AT(algo.opt.scale_rewards), "group|batch|none", "group", "1",
   "Whose standard deviation divides the advantage."},
  {"algo.advantage_eps", TRI_KEY_F64, LISTED, FIXED, no_scale, AT(algo.opt.advantage_eps), "[0, inf)", "1e-4", "1",
   "Added to the standard deviation that divides the advantage."},
  {"algo.gamma", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.gamma), "[0, 1]", "1", "1",
   "What a reward is worth one token earlier."},
  {"algo.lam", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.lam), "[0, 1]", "0.95", "1",
   "How far ahead an advantage with values looks: 1 to the answer's end, as a return does; 0 to the next value."},
  {"algo.whiten_advantages", TRI_KEY_BOOL, ANSWERS, FIXED, NEVER, AT(algo.opt.whiten_advantages), "", "false", "1",
   "Advantages are taken less their mean over all answer tokens of a rollout, divided by their deviation."},
  {"algo.loss_agg_mode", TRI_KEY_CHOICE, LISTED, FIXED, NEVER, AT(algo.opt.loss_agg_mode),
   "token-mean|seq-mean-token-sum|seq-mean-token-mean|seq-mean-token-sum-norm", "token-mean", "1",
   "How the loss of the tokens becomes one number."},
  {"algo.sapo_temperature_pos", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.sapo_temperature_pos), "(0, inf)", "1", "1",
   "How fast the gate falls off around a ratio of 1 where the advantage is positive."},
  {"algo.sapo_temperature_neg", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.sapo_temperature_neg), "(0, inf)", "1.05", "1",
   "The same where it is not."},
  {"algo.vespo_k_pos", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.vespo_k_pos), "[0, inf)", "2", "1",
   "Power of the sequence's ratio in its weight, where the advantage is not negative."},
  {"algo.vespo_lambda_pos", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.vespo_lambda_pos), "[0, inf)", "3", "1",
   "Decay of the weight with the ratio, where the advantage is not negative."},
  {"algo.vespo_k_neg", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.vespo_k_neg), "[0, inf)", "3", "1",
   "The power where the advantage is negative."},
  {"algo.vespo_lambda_neg", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.vespo_lambda_neg), "[0, inf)", "2", "1",
   "The decay where the advantage is negative."},
  {"algo.ppo_epochs", TRI_KEY_I64, ANSWERS, FIXED, NEVER, AT(algo.ppo_epochs), COUNT, "1", "epochs",
   "Passes over the samples of one rollout."},
  {"algo.entropy_coef", TRI_KEY_F64, ANSWERS, FIXED, NEVER, AT(algo.opt.entropy_coef), "[0, inf)", "0", "1",
   "Weight of the entropy bonus."},
  {"algo.centering_coef", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.centering_coef), "[0, inf)", "0", "1",
   "Weight of the squared sum of a pair's two scores, which holds them around 0."},
  {"algo.beta", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.beta), "(0, inf)", "0.1", "1",
   "Factor of an answer's log-ratio to the reference, which gives its reward: the higher, the nearer the policy stays."},
  {"algo.dpo_loss", TRI_KEY_CHOICE, LISTED, FIXED, NEVER, AT(algo.opt.dpo_loss), "sigmoid|ipo", "sigmoid", "1",
   "What is learned of a pair: sigmoid, that the chosen one is ahead; ipo, to be ahead by 1 / (2 beta)."},
  {"algo.label_smoothing", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.label_smoothing), "[0, 0.5)", "0", "1",
   "Share of the pairs that are taken to be the wrong way round; with algo.dpo_loss sigmoid."},
  {"algo.sft_coef", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.sft_coef), "[0, inf)", "0", "1",
   "Weight of the negative log-likelihood of the chosen answers, the mean over their tokens."},
  {"algo.length_normalize", TRI_KEY_BOOL, LISTED, FIXED, NEVER, AT(algo.opt.length_normalize), "", NULL, "1",
   "The log-ratio of an answer is divided by its tokens; not given: true with algo.dpo_loss ipo, else false."},
  {"algo.desirable_weight", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.desirable_weight), "[0, inf)", "1", "1",
   "Weight of the loss of answers labelled true."},
  {"algo.undesirable_weight", TRI_KEY_F64, LISTED, FIXED, NEVER, AT(algo.opt.undesirable_weight), "[0, inf)", "1", "1",
   "Weight of the loss of answers labelled false."},
  {"algo.top_entropy_quantile", TRI_KEY_F64, ANSWERS, FIXED, NEVER, AT(algo.opt.top_entropy_quantile), "(0, 1]", "1", "1",
   "Only this share of an optimizer step's tokens, those of the highest entropy, has a policy loss; KL, entropy "
   "bonus and means are over all; 1: all have one."},
  {"algo.mask_truncated", TRI_KEY_BOOL, ANSWERS, FIXED, NEVER, AT(algo.opt.mask_truncated), "", "false", "1",
   "Answers cut at max_response_length are compared with those of their group, but not learned from."},
  {"algo.kl_bias_correction", TRI_KEY_BOOL, ANSWERS, FIXED, no_kl, AT(algo.opt.kl_bias_correction), "", "false", "1",
   "The KL term in the loss is taken times the policy ratio."},
  {"algo.kl_target", TRI_KEY_F64, ANSWERS, FIXED, NEVER, AT(algo.opt.kl_target), "(0, inf)", NULL, "nats",
   "kl_coef grows after a step whose KL is above this, and shrinks below; not given: it stays."},
  {"algo.kl_horizon", TRI_KEY_F64, ANSWERS, FIXED, no_kl_target, AT(algo.opt.kl_horizon), "(0, inf)", "10000", "samples",
   "How slowly: a step of n samples changes kl_coef by a share of 0.2 n / kl_horizon at most."},
  {"algo.adaptive_entropy_target", TRI_KEY_F64, ANSWERS, FIXED, NEVER, AT(algo.opt.adaptive_entropy_target), "(0, inf)", NULL, "nats",
   "Each optimizer step whose entropy is at or below this raises entropy_coef by 0.005 for the next, up to 1, each "
   "other one lowers it, down to 0; there is no bonus after those; not given: entropy_coef stays."},
  {"algo.ema_beta", TRI_KEY_F64, ALL, FIXED, NEVER, AT(algo.ema_beta), "[0, 1)", "0", "1",
   "Keep an average of the policy's weights, after each update so much of it as before and the rest of the new weights, "
   "for trireme export --ema; 0: none."},
  {"algo.is_cap", TRI_KEY_F64, ANSWERS, FIXED, NEVER, AT(algo.opt.is_cap), "[0, inf)", "0", "1",
   "The policy loss of a token is taken times exp(trainer's - sampler's log-probability), up to so much; with "
   "run.sampler: rescore; 0: it is not."},
  {"algo.is_mode", TRI_KEY_CHOICE, ANSWERS, FIXED, no_is_cap, AT(algo.opt.is_mode), "truncate|mask", "truncate", "1",
   "A factor over is_cap: truncate takes is_cap, mask takes 0."},

  {"rollout.rollout_batch_size", TRI_KEY_I64, ANSWERS, FIXED, NEVER, AT(rollout.rollout_batch_size), COUNT, NULL, "prompts",
   "Prompts of one rollout, over all ranks; must be given."},
  {"rollout.max_response_length", TRI_KEY_I64, ALL, FIXED, tri_config_no_answers, AT(rollout.max_response_length), COUNT, NULL, "tokens",
   "Longest answer; must be given where answers are generated: with RL, and for eval.steps > 0."},
  {"rollout.temperature", TRI_KEY_F64, ANSWERS, FIXED, NEVER, AT(rollout.temperature), "[0, inf)", "1", "1",
   "Divides the logits; 0: greedy."},
  {"rollout.top_k", TRI_KEY_I64, ANSWERS, FIXED, no_drawing, AT(rollout.top_k), COUNT0, "0", "tokens",
   "Sample among so many tokens; 0: all."},
  {"rollout.top_p", TRI_KEY_F64, ANSWERS, FIXED, no_drawing, AT(rollout.top_p), "(0, 1]", "1", "1",
   "Sample among the likeliest tokens up to this probability, the one that crosses it included."},
  {"rollout.stop", TRI_KEY_LIST, ALL, FIXED, no_sampler, AT(rollout.stop), "", NULL, "1",
   "A text that ends an answer, or a list of them."},
  {"rollout.max_sequences", TRI_KEY_I64, ALL, FREE, no_sampler, AT(rollout.max_sequences), COUNT0, "0", "samples",
   "Answers decoded at once by each rank; 0: as many as memory allows."},
  {"rollout.save_every", TRI_KEY_I64, ANSWERS, FREE, NEVER, AT(rollout.save_every), COUNT0, "0", "steps",
   "Write the rollout of every so many steps to OUTPUT/rollouts/step-NNNNNNNN.jsonl; `trireme show OUTPUT` shows them; "
   "0: never."},
  {"rollout.replay", TRI_KEY_TEXT, ANSWERS, FIXED, NEVER, AT(rollout.replay), "", NULL, "path",
   "Folder of step-NNNNNNNN.jsonl files used instead of generating. A line needs tokens and prompt_tokens; "
   "logprobs are computed where a file lacks them, so is the reward, from the line of data.train that "
   "prompt_id names. Several steps on several ranks want run.sampler: trust, because a replay adds up in "
   "another order than the run that wrote it."},
  {"rollout.dynamic_sampling", TRI_KEY_BOOL, ANSWERS, FIXED, replayed, AT(rollout.dynamic_sampling), "", "false", "1",
   "Leave out groups whose rewards are all equal, and ask for the next rollout_batch_size prompts until that many "
   "groups are left; the prompts that a step takes vary, and a run may go over the data more often than "
   "train.epochs says."},
  {"rollout.max_extra_batches", TRI_KEY_I64, ANSWERS, FIXED, no_selection, AT(rollout.max_extra_batches), "[0, 1000]", "3", "1",
   "With dynamic_sampling: ask so many times more at most; a step that has too few groups then learns from those "
   "it has."},

  {"train.steps", TRI_KEY_I64, ALL, FREE, NEVER, AT(train.steps), COUNT, NULL, "steps",
   "Length of the run; this or train.epochs must be given."},
  {"train.epochs", TRI_KEY_I64, ALL, FREE, NEVER, AT(train.epochs), COUNT, NULL, "epochs",
   "Length of the run in passes over the data."},
  {"train.train_batch_size", TRI_KEY_I64, ALL, FIXED, NEVER, AT(train.train_batch_size), COUNT, NULL, "samples",
   "Samples of one optimizer step = micro_batch_size x gradient_accumulation_steps x ranks; any two of the "
   "three give the third; not given with RL: all samples of a rollout."},
  {"train.micro_batch_size", TRI_KEY_I64, ALL, FREE, NEVER, AT(train.micro_batch_size), COUNT, NULL, "samples",
   "Samples of one pass on one rank."},
  {"train.gradient_accumulation_steps", TRI_KEY_I64, ALL, FREE, NEVER, AT(train.gradient_accumulation_steps), COUNT, NULL,
   "passes",
   "Passes of each rank before an optimizer step."},
  {"train.max_tokens_per_gpu", TRI_KEY_I64, ALL, FREE, NEVER, AT(train.max_tokens_per_gpu), COUNT, NULL, "tokens",
   "Pack samples into passes of at most so many tokens, instead of micro_batch_size. Neither given, nor "
   "gradient_accumulation_steps: as many as memory holds, at most 16384 (one sample may be longer). The deck as used has "
   "the number, a resumed run keeps it: another number sums gradients in another order."},
  {"train.learning_rate", TRI_KEY_F64, ALL, FREE, NEVER, AT(train.lr.peak), "(0, inf)", "1e-6", "1",
   "Learning rate after the warm-up. Not given: 2e-5 with sft, 1e-5 with rm, 5e-7 with dpo and kto, 1e-6 with the "
   "others; with lora 1e-4, dpo and kto 5e-6."},
  {"train.lr_scheduler", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(train.lr.scheduler), "constant|linear|cosine", "constant",
   "1",
   "How the learning rate falls after the warm-up."},
  {"train.warmup_steps", TRI_KEY_I64, ALL, FREE, NEVER, AT(train.lr.warmup), COUNT0, NULL, "updates",
   "Optimizer updates in which the learning rate rises from 0 (a step of RL may make several)."},
  {"train.warmup_ratio", TRI_KEY_F64, ALL, FREE, NEVER, AT(train.warmup_ratio), "[0, 1]", NULL, "1",
   "The same as a share of all updates; of the policy's own, with critic.warmup_steps."},
  {"train.min_lr_ratio", TRI_KEY_F64, ALL, FREE, NEVER, AT(train.lr.min_ratio), "[0, 1]", "0", "1",
   "Where linear and cosine end, as a share of learning_rate."},
  {"train.max_grad_norm", TRI_KEY_F64, ALL, FREE, NEVER, AT(train.optim.max_grad_norm), "[0, inf)", "1", "1",
   "Scale the gradient down to this norm; 0: never."},
  {"train.weight_decay", TRI_KEY_F64, ALL, FREE, NEVER, AT(train.optim.weight_decay), "[0, inf)", "0", "1",
   "Decoupled weight decay of the tensors of two dimensions."},
  {"train.adam_beta1", TRI_KEY_F64, ALL, FREE, NEVER, AT(train.optim.beta1), "[0, 1)", "0.9", "1",
   "Decay of the first moment."},
  {"train.adam_beta2", TRI_KEY_F64, ALL, FREE, NEVER, AT(train.optim.beta2), "[0, 1)", "0.95", "1",
   "Decay of the second moment."},
  {"train.adam_eps", TRI_KEY_F64, ALL, FREE, NEVER, AT(train.optim.eps), "(0, inf)", "1e-8", "1",
   "Added to the root of the second moment."},
  {"train.loss_scale", TRI_KEY_F64, ALL, FREE, no_fp16, AT(train.optim.scaling.fixed), "[0, 4294967296]", "0", "1",
   "With model.dtype fp16 the loss is taken times so much on its way back, that small gradients stay; 0: times as "
   "much as they allow, found out by halving after an optimizer step that overflows, which is skipped, and doubling."},
  {"train.initial_scale_power", TRI_KEY_I64, ALL, FREE, no_moving_scale, AT(train.optim.scaling.first_power), "[0, 32]", "16", "1",
   "With loss_scale 0: the first scale is 2 to this."},
  {"train.loss_scale_window", TRI_KEY_I64, ALL, FREE, no_moving_scale, AT(train.optim.scaling.window), COUNT, "1000", "updates",
   "With loss_scale 0: so many updates in a row without an overflow double the scale."},
  {"train.min_loss_scale", TRI_KEY_F64, ALL, FREE, no_moving_scale, AT(train.optim.scaling.min), "(0, 4294967296]", "1", "1",
   "With loss_scale 0: the scale is not halved below this; a gradient that is not finite then is an alarm."},

  {"critic.path", TRI_KEY_TEXT, CRITIC, FIXED, NEVER, AT(critic.path), "", NULL, "path",
   "Model the critic starts from, with a scalar head or without, or a run with a critic; not given: the reward model, else the model the policy starts from."},
  {"critic.learning_rate", TRI_KEY_F64, CRITIC, FREE, NEVER, AT(critic.learning_rate), "(0, inf)", "5e-6", "1",
   "Learning rate of the critic after the warm-up; all else of its optimizer is train's."},
  {"critic.warmup_steps", TRI_KEY_I64, CRITIC, FIXED, NEVER, AT(critic.warmup_steps), COUNT0, "0", "steps",
   "Steps at the beginning in which only the critic learns."},
  {"critic.shard", TRI_KEY_CHOICE, CRITIC, FREE, NEVER, AT(critic.plan), "hybrid|zero0|zero1|zero2|zero3", NULL, "1",
   "Shard plan of the critic; not given: shard's."},
  {"critic.lora", TRI_KEY_BOOL, CRITIC, FIXED, no_adapters, AT(critic.lora), "", "true", "1",
   "Where the policy has adapters the critic has its own, of the same rank, alpha and targets; false: all its weights learn."},
  {"critic.value_clip", TRI_KEY_F64, CRITIC, FIXED, NEVER, AT(algo.opt.value_clip), "[0, inf)", "0.2", "rewards",
   "A value that moves further than this from the one before learning lowers its loss no more; 0: it is not clipped."},

  {"reference.shard", TRI_KEY_CHOICE, COMPARE, FREE, no_reference, AT(reference.plan), "hybrid|zero0|zero1|zero2|zero3", NULL, "1",
   "Shard plan of the reference policy, of which params counts; not given: shard's."},

  {"shard.plan", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(shard.plan), "hybrid|zero0|zero1|zero2|zero3", "hybrid", "1",
   "Who shares what: hybrid is params node, grads node, optimizer world; zero0 shares nothing, zero1 the "
   "optimizer state, zero2 also the gradients, zero3 also the parameters, over all ranks."},
  {"shard.params", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(shard.scope.params), "none|node|world", NULL, "1",
   "Ranks that share one copy of the parameters, instead of shard.plan; not given: as in hybrid."},
  {"shard.grads", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(shard.scope.grads), "none|node|world", NULL, "1",
   "Ranks that share one copy of the gradients."},
  {"shard.optimizer", TRI_KEY_CHOICE, ALL, FREE, NEVER, AT(shard.scope.optim), "none|node|world", NULL, "1",
   "Ranks that share one copy of the optimizer state."},
  {"shard.offload", TRI_KEY_CHOICE, ALL, FREE, all_models_train, AT(shard.offload), "none|optimizer|frozen|all", "none", "1",
   "What rests in host memory and comes to the GPU in pieces: the optimizer's state, the weights of models that do "
   "not train (reference, reward model), or both."},

  {"checkpoint.save_steps", TRI_KEY_I64, ALL, FREE, NEVER, AT(checkpoint.save_steps), COUNT0, "0", "steps",
   "Steps between checkpoints; 0: never, but as checkpoint.save_minutes says."},
  {"checkpoint.save_minutes", TRI_KEY_F64, ALL, FREE, NEVER, AT(checkpoint.save_minutes), "[0, inf)", "30", "minutes",
   "Write a checkpoint after the first step that ends this long after the last checkpoint; 0: never. By default a run "
   "that is killed without notice loses half an hour at most."},
  {"checkpoint.save_total_limit", TRI_KEY_I64, ALL, FREE, NEVER, AT(checkpoint.save_total_limit), COUNT, "2",
   "checkpoints",
   "Keep so many of the newest checkpoints."},
  {"checkpoint.save_final", TRI_KEY_BOOL, ALL, FREE, NEVER, AT(checkpoint.save_final), "", "true", "1",
   "Write a checkpoint after the last step."},
  {"checkpoint.async", TRI_KEY_BOOL, ALL, FREE, NEVER, AT(checkpoint.async), "", "false", "1",
   "Copy the state to host memory, planned as `checkpoint copy`, and write the checkpoint beside the next steps; the last "
   "one is waited for."},
  {"checkpoint.keep_best", TRI_KEY_TEXT, ALL, FREE, no_eval, AT(checkpoint.keep_best), "", NULL, "1",
   "A metric of evaluations, such as eval_reward_mean: each evaluation that is better than those of all checkpoints is followed by one, "
   "which checkpoints/BEST names and which is kept beside those that save_total_limit counts; of names that end in loss or "
   "perplexity less is better, of all others more; not given: none."},

  {"eval.steps", TRI_KEY_I64, ALL, FREE, NEVER, AT(eval.steps), COUNT0, "0", "steps",
   "Steps between evaluations on data.eval, also before step 1 and after the last; 0: never. By the loss where lines hold "
   "answers, pairs or labels (sft, rm, dpo, kto); by generated answers where there are rewards."},
  {"eval.max_prompts", TRI_KEY_I64, ALL, FREE, no_eval, AT(eval.max_prompts), COUNT0, "0", "prompts",
   "Use only so many lines, with data.eval_names so many of each set; 0: all."},
  {"eval.num_generations", TRI_KEY_I64, ALL, FREE, no_eval_answers, AT(eval.num_generations), COUNT, "1", "samples",
   "Answers per prompt; k of them give eval_pass_at_k, eval_best_at_k and eval_majority_at_k."},
  {"eval.temperature", TRI_KEY_F64, ALL, FREE, no_eval_answers, AT(eval.temperature), "[0, inf)", "0", "1",
   "Divides the logits; 0: greedy."},
  {"eval.save", TRI_KEY_BOOL, ALL, FREE, no_eval_answers, AT(eval.save), "", "false", "1",
   "Write the answers of each evaluation, with their rewards, to OUTPUT/eval/step-NNNNNNNN.jsonl; `trireme show OUTPUT "
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

/* "[1, 10)" as ">= 1 and < 10". */
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
      snprintf(out, bytes, "a text");
    return;
  case TRI_KEY_LIST:
    snprintf(out, bytes, "a text or a list of texts");
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
