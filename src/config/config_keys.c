/* config_keys.c - one row per option, and the spellings of other programs. */
#include "config_keys.h"

#include <stdio.h>
#include <string.h>

#define AT(member) offsetof(tri_config, member)
#define COUNT      "[1, 1000000000]"
#define COUNT0     "[0, 1000000000]"
#define ALL        0
#define LISTED     0 /* in the algorithms' lists of options */
#define ANSWERS    TRI_NEEDS_ANSWERS
#define GIVEN      TRI_NEEDS_DEMONSTRATIONS
#define FIXED      TRI_CHANGE_REFUSED
#define FREE       TRI_CHANGE_LISTED
#define HERE       TRI_CHANGE_HERE

/* clang-format off */
const tri_key tri_keys[] = {
  {"run.output", TRI_KEY_TEXT, ALL, HERE, AT(run.output), "", NULL, "path",
   "Folder the run writes to; must be given. Paths in a deck are relative to the folder the program is "
   "started in."},
  {"run.seed", TRI_KEY_U64, ALL, FIXED, AT(run.seed), "[0, 18446744073709551615]", "42", "1",
   "Key of every random number: weights, order of the data, sampling."},
  {"run.device", TRI_KEY_CHOICE, ALL, FREE, AT(run.device), "auto|cpu|cuda", "auto", "1",
   "Where the work is done; auto takes GPUs where there are any."},
  {"run.ranks_per_node", TRI_KEY_I64, ALL, FREE, AT(run.ranks_per_node), COUNT0, "0", "ranks",
   "Treat so many neighbouring ranks as one node; 0: the real nodes."},
  {"run.threads", TRI_KEY_I64, ALL, FREE, AT(run.threads), "[0, 4096]", "0", "threads",
   "Threads of each rank; 0: its share of the cores."},
  {"run.resume", TRI_KEY_TEXT, ALL, HERE, AT(run.resume), "", "auto", "path",
   "auto: go on from the newest checkpoint in run.output; never: start anew; or the path of a checkpoint."},
  {"run.allow_changes", TRI_KEY_LIST, ALL, HERE, AT(run.allow_changes), "", NULL, "1",
   "A key that this resume may change though it is part of the experiment, or a list of them; reward; deck: whatever a "
   "checkpoint's deck that cannot be read hides."},
  {"run.sampler", TRI_KEY_CHOICE, ANSWERS, FREE, AT(run.sampler), "exact|rescore|trust", "exact", "1",
   "Old log-probabilities: exact, the sampler's, and trainer and sampler must agree to the bit (where this machine's "
   "products cannot, a warning says so and it is rescore); rescore, from a training forward; trust, the sampler's as "
   "they are."},
  {"run.log_every", TRI_KEY_I64, ALL, FREE, AT(run.log_every), COUNT, "1", "steps",
   "Show a row of every so many steps, of each evaluated one and of the last; metrics.jsonl has every step."},
  {"run.trace_steps", TRI_KEY_I64, ALL, FREE, AT(run.trace_steps), "[0, 100]", "0", "steps",
   "Write OUTPUT/trace/rank-N.json, a timeline of the first so many steps after the start, for chrome://tracing or "
   "ui.perfetto.dev; 0: never."},

  {"model.path", TRI_KEY_TEXT, ALL, FIXED, AT(model.path), "", NULL, "path",
   "Hugging Face folder, checkpoint or output folder to start from; or else model.config."},
  {"model.config", TRI_KEY_TEXT, ALL, FIXED, AT(model.config), "", NULL, "path",
   "A config.json: start from random weights, keyed by run.seed and tensor name."},
  {"model.tokenizer", TRI_KEY_TEXT, ALL, FIXED, AT(model.tokenizer), "", NULL, "path",
   "A tokenizer.json, beside model.config; not needed where the data is tokens."},
  {"model.dtype", TRI_KEY_CHOICE, ALL, FIXED, AT(model.dtype), "f32|bf16", "bf16", "1",
   "Type the model computes in; master weights and optimizer state are always f32."},
  {"model.recompute", TRI_KEY_CHOICE, ALL, FREE, AT(model.recompute), "none|layer", "none", "1",
   "layer: keep only the input of each layer and compute the rest again in the backward pass."},
  {"model.ref_path", TRI_KEY_TEXT, ANSWERS, FIXED, AT(model.ref_path), "", NULL, "path",
   "Reference policy of the KL term; not given: the starting policy."},

  {"data.train", TRI_KEY_LIST, ALL, FIXED, AT(data.train), "", NULL, "path",
   "JSON lines file to train on, or a list of them; must be given unless rollout.replay is."},
  {"data.eval", TRI_KEY_LIST, ALL, FREE, AT(data.eval), "", NULL, "path",
   "JSON lines file to evaluate on, or a list of them."},
  {"data.prompt_key", TRI_KEY_TEXT, ALL, FIXED, AT(data.prompt_key), "", "prompt", "1",
   "Field of a line that holds the prompt."},
  {"data.answer_key", TRI_KEY_TEXT, ALL, FIXED, AT(data.answer_key), "", "answer", "1",
   "Field of a line that holds the right answer, for the rewards."},
  {"data.completion_key", TRI_KEY_TEXT, GIVEN, FIXED, AT(data.completion_key), "", "completion", "1",
   "Field of a line that holds the text to be learned."},
  {"data.shuffle", TRI_KEY_BOOL, ALL, FIXED, AT(data.shuffle), "", "true", "1",
   "Go through the lines in a new order in each epoch."},
  {"data.max_prompt_length", TRI_KEY_I64, ALL, FIXED, AT(data.max_prompt_length), COUNT, NULL, "tokens",
   "Longest prompt; not given: what the model can hold."},
  {"data.overlong_prompt", TRI_KEY_CHOICE, ALL, FIXED, AT(data.overlong_prompt), "error|drop|truncate", "error", "1",
   "A longer prompt: error ends the run before its first step, drop leaves the line out, truncate keeps the prompt's "
   "end."},
  {"data.max_line_bytes", TRI_KEY_I64, ALL, FREE, AT(data.max_line_bytes), "[1, 2147483647]", "67108864", "bytes",
   "Longest line of a data or replay file; while it is read it takes up to 30 times its bytes."},

  {"algo.name", TRI_KEY_TEXT, ALL, FIXED, AT(algo.name), "", NULL, "1", "The algorithm; must be given."},
  {"algo.num_generations", TRI_KEY_I64, LISTED, FIXED, AT(algo.num_generations), COUNT, "8", "samples",
   "Answers per prompt: the group."},
  {"algo.clip_eps", TRI_KEY_F64, LISTED, FIXED, AT(algo.opt.clip_eps), "(0, 1)", "0.2", "1",
   "The policy ratio is clipped below 1 - clip_eps."},
  {"algo.clip_eps_high", TRI_KEY_F64, LISTED, FIXED, AT(algo.opt.clip_eps_high), "(0, inf)", NULL, "1",
   "The policy ratio is clipped above 1 + clip_eps_high; not given: clip_eps."},
  {"algo.kl_coef", TRI_KEY_F64, LISTED, FIXED, AT(algo.opt.kl_coef), "[0, inf)", "0", "1",
   "Weight of the KL term; 0: no reference policy."},
  {"algo.kl_estimator", TRI_KEY_CHOICE, LISTED, FIXED, AT(algo.opt.kl_estimator), "k1|k2|k3", "k3", "1",
   "Estimator of the KL term."},
  {"algo.kl_where", TRI_KEY_CHOICE, LISTED, FIXED, AT(algo.opt.kl_where), "loss|reward", "loss", "1",
   "Where the KL term is added."},
  {"algo.scale_rewards", TRI_KEY_CHOICE, LISTED, FIXED, AT(algo.opt.scale_rewards), "group|batch|none", "group", "1",
   "Whose standard deviation divides the advantage."},
  {"algo.advantage_eps", TRI_KEY_F64, LISTED, FIXED, AT(algo.opt.advantage_eps), "[0, inf)", "1e-4", "1",
   "Added to the standard deviation that divides the advantage."},
  {"algo.loss_agg_mode", TRI_KEY_CHOICE, LISTED, FIXED, AT(algo.opt.loss_agg_mode),
   "token-mean|seq-mean-token-sum|seq-mean-token-mean|seq-mean-token-sum-norm", "token-mean", "1",
   "How the loss of the tokens becomes one number."},
  {"algo.ppo_epochs", TRI_KEY_I64, LISTED, FIXED, AT(algo.ppo_epochs), COUNT, "1", "epochs",
   "Passes over the samples of one rollout."},
  {"algo.entropy_coef", TRI_KEY_F64, LISTED, FIXED, AT(algo.opt.entropy_coef), "[0, inf)", "0", "1",
   "Weight of the entropy bonus."},

  {"rollout.rollout_batch_size", TRI_KEY_I64, ANSWERS, FIXED, AT(rollout.rollout_batch_size), COUNT, NULL, "prompts",
   "Prompts of one rollout, over all ranks; must be given."},
  {"rollout.max_response_length", TRI_KEY_I64, ALL, FIXED, AT(rollout.max_response_length), COUNT, NULL, "tokens",
   "Longest answer; must be given where answers are generated: with RL, and for eval.steps > 0."},
  {"rollout.temperature", TRI_KEY_F64, ANSWERS, FIXED, AT(rollout.temperature), "[0, inf)", "1", "1",
   "Divides the logits; 0: greedy."},
  {"rollout.top_k", TRI_KEY_I64, ANSWERS, FIXED, AT(rollout.top_k), COUNT0, "0", "tokens",
   "Sample among so many tokens; 0: all."},
  {"rollout.top_p", TRI_KEY_F64, ANSWERS, FIXED, AT(rollout.top_p), "(0, 1]", "1", "1",
   "Sample among the likeliest tokens up to this probability, the one that crosses it included."},
  {"rollout.stop", TRI_KEY_LIST, ALL, FIXED, AT(rollout.stop), "", NULL, "1",
   "A text that ends an answer, or a list of them."},
  {"rollout.max_sequences", TRI_KEY_I64, ALL, FREE, AT(rollout.max_sequences), COUNT0, "0", "samples",
   "Answers decoded at once by each rank; 0: as many as memory allows."},
  {"rollout.save_every", TRI_KEY_I64, ANSWERS, FREE, AT(rollout.save_every), COUNT0, "0", "steps",
   "Write the rollout of every so many steps; 0: never."},
  {"rollout.replay", TRI_KEY_TEXT, ANSWERS, FIXED, AT(rollout.replay), "", NULL, "path",
   "Folder of step-NNNNNNNN.jsonl files used instead of generating. A line needs tokens and prompt_tokens; "
   "logprobs are computed where a file lacks them, so is the reward, from the line of data.train that prompt_id names. "
   "Several steps on several ranks want run.sampler: trust, because a replay adds up in another order than the run that wrote it."},

  {"train.steps", TRI_KEY_I64, ALL, FREE, AT(train.steps), COUNT, NULL, "steps",
   "Length of the run; this or train.epochs must be given."},
  {"train.epochs", TRI_KEY_I64, ALL, FREE, AT(train.epochs), COUNT, NULL, "epochs",
   "Length of the run in passes over the data."},
  {"train.train_batch_size", TRI_KEY_I64, ALL, FIXED, AT(train.train_batch_size), COUNT, NULL, "samples",
   "Samples of one optimizer step = micro_batch_size x gradient_accumulation_steps x ranks; any two of "
   "the three give the "
   "third; not given with RL: all samples of a rollout."},
  {"train.micro_batch_size", TRI_KEY_I64, ALL, FREE, AT(train.micro_batch_size), COUNT, NULL, "samples",
   "Samples of one pass on one rank."},
  {"train.gradient_accumulation_steps", TRI_KEY_I64, ALL, FREE, AT(train.gradient_accumulation_steps), COUNT, NULL,
   "passes",
   "Passes of each rank before an optimizer step."},
  {"train.max_tokens_per_gpu", TRI_KEY_I64, ALL, FREE, AT(train.max_tokens_per_gpu), COUNT, NULL, "tokens",
   "Pack samples into passes of at most so many tokens, instead of micro_batch_size."},
  {"train.learning_rate", TRI_KEY_F64, ALL, FREE, AT(train.lr.peak), "(0, inf)", "1e-6", "1",
   "Learning rate after the warm-up."},
  {"train.lr_scheduler", TRI_KEY_CHOICE, ALL, FREE, AT(train.lr.scheduler), "constant|linear|cosine", "constant",
   "1",
   "How the learning rate falls after the warm-up."},
  {"train.warmup_steps", TRI_KEY_I64, ALL, FREE, AT(train.lr.warmup), COUNT0, NULL, "updates",
   "Optimizer updates in which the learning rate rises from 0 (a step of RL may make several)."},
  {"train.warmup_ratio", TRI_KEY_F64, ALL, FREE, AT(train.warmup_ratio), "[0, 1]", NULL, "1",
   "The same as a share of all steps."},
  {"train.min_lr_ratio", TRI_KEY_F64, ALL, FREE, AT(train.lr.min_ratio), "[0, 1]", "0", "1",
   "Where linear and cosine end, as a share of learning_rate."},
  {"train.max_grad_norm", TRI_KEY_F64, ALL, FREE, AT(train.optim.max_grad_norm), "[0, inf)", "1", "1",
   "Scale the gradient down to this norm; 0: never."},
  {"train.weight_decay", TRI_KEY_F64, ALL, FREE, AT(train.optim.weight_decay), "[0, inf)", "0", "1",
   "Decoupled weight decay of the tensors of two dimensions."},
  {"train.adam_beta1", TRI_KEY_F64, ALL, FREE, AT(train.optim.beta1), "[0, 1)", "0.9", "1",
   "Decay of the first moment."},
  {"train.adam_beta2", TRI_KEY_F64, ALL, FREE, AT(train.optim.beta2), "[0, 1)", "0.95", "1",
   "Decay of the second moment."},
  {"train.adam_eps", TRI_KEY_F64, ALL, FREE, AT(train.optim.eps), "(0, inf)", "1e-8", "1",
   "Added to the root of the second moment."},

  {"shard.plan", TRI_KEY_CHOICE, ALL, FREE, AT(shard.plan), "hybrid|zero0|zero1|zero2|zero3", "hybrid", "1",
   "Who shares what: hybrid is params node, grads node, optimizer world; zero0 shares nothing, zero1 the "
   "optimizer state, zero2 "
   "also the gradients, zero3 also the parameters, over all ranks."},
  {"shard.params", TRI_KEY_CHOICE, ALL, FREE, AT(shard.scope.params), "none|node|world", NULL, "1",
   "Ranks that share one copy of the parameters, instead of shard.plan; not given: as in hybrid."},
  {"shard.grads", TRI_KEY_CHOICE, ALL, FREE, AT(shard.scope.grads), "none|node|world", NULL, "1",
   "Ranks that share one copy of the gradients."},
  {"shard.optimizer", TRI_KEY_CHOICE, ALL, FREE, AT(shard.scope.optim), "none|node|world", NULL, "1",
   "Ranks that share one copy of the optimizer state."},

  {"checkpoint.save_steps", TRI_KEY_I64, ALL, FREE, AT(checkpoint.save_steps), COUNT0, "0", "steps",
   "Steps between checkpoints; 0: never."},
  {"checkpoint.save_minutes", TRI_KEY_F64, ALL, FREE, AT(checkpoint.save_minutes), "[0, inf)", "0", "minutes",
   "Time between checkpoints; 0: never."},
  {"checkpoint.save_total_limit", TRI_KEY_I64, ALL, FREE, AT(checkpoint.save_total_limit), COUNT, "2",
   "checkpoints",
   "Keep so many of the newest checkpoints."},
  {"checkpoint.save_final", TRI_KEY_BOOL, ALL, FREE, AT(checkpoint.save_final), "", "true", "1",
   "Write a checkpoint after the last step."},

  {"eval.steps", TRI_KEY_I64, ALL, FREE, AT(eval.steps), COUNT0, "0", "steps",
   "Steps between evaluations on data.eval by generated answers and rewards; also before step 1 and after the last; 0: "
   "never."},
  {"eval.max_prompts", TRI_KEY_I64, ALL, FREE, AT(eval.max_prompts), COUNT0, "0", "prompts",
   "Use only so many lines; 0: all."},
  {"eval.num_generations", TRI_KEY_I64, ALL, FREE, AT(eval.num_generations), COUNT, "1", "samples",
   "Answers per prompt."},
  {"eval.temperature", TRI_KEY_F64, ALL, FREE, AT(eval.temperature), "[0, inf)", "0", "1",
   "Divides the logits; 0: greedy."},
};
const int tri_n_keys = sizeof tri_keys / sizeof *tri_keys;

const tri_key_alias tri_key_aliases[] = {
  {"output_dir", "run.output"}, {"default_local_dir", "run.output"}, {"ckpt.output_dir", "run.output"},
  {"train.seed", "run.seed"}, {"random_seed", "run.seed"},
  {"logging_steps", "run.log_every"}, {"steps_per_print", "run.log_every"},
  {"resume_from_checkpoint", "run.resume"}, {"resume_mode", "run.resume"}, {"load_checkpoint", "run.resume"},
  {"ckpt.load_enable", "run.resume"},
  {"model_name_or_path", "model.path"}, {"pretrain", "model.path"}, {"model_name", "model.path"},
  {"param_dtype", "model.dtype"}, {"torch_dtype", "model.dtype"},
  {"gradient_checkpointing", "model.recompute"},
  {"ref_model", "model.ref_path"}, {"ref.model_name_or_path", "model.ref_path"},
  {"train_files", "data.train"}, {"prompt_data", "data.train"}, {"val_files", "data.eval"},
  {"input_key", "data.prompt_key"}, {"label_key", "data.answer_key"}, {"output_key", "data.completion_key"},
  {"max_prompt_seq_len", "data.max_prompt_length"}, {"prompt_max_len", "data.max_prompt_length"},
  {"max_input_seq_length", "data.max_prompt_length"},
  {"adv_estimator", "algo.name"}, {"advantage_estimator", "algo.name"}, {"advantage.estimator", "algo.name"},
  {"n_samples_per_prompt", "algo.num_generations"}, {"num_generations_per_prompt", "algo.num_generations"},
  {"rollout.n", "algo.num_generations"}, {"rollout.n_samples_per_prompt", "algo.num_generations"},
  {"rollout.num_generations", "algo.num_generations"},
  {"eps_clip", "algo.clip_eps"}, {"clip_ratio", "algo.clip_eps"}, {"clip_ratio_low", "algo.clip_eps"},
  {"epsilon", "algo.clip_eps"}, {"cliprange", "algo.clip_eps"}, {"ratio_clip_min", "algo.clip_eps"},
  {"clip_ratio_high", "algo.clip_eps_high"}, {"epsilon_high", "algo.clip_eps_high"},
  {"ratio_clip_max", "algo.clip_eps_high"},
  {"beta", "algo.kl_coef"}, {"kl_loss_coef", "algo.kl_coef"}, {"init_kl_coef", "algo.kl_coef"},
  {"kl.init_coef", "algo.kl_coef"},
  {"reference_policy_kl_penalty", "algo.kl_coef"}, {"kl_ctl", "algo.kl_coef"},
  {"kl.estimator", "algo.kl_estimator"}, {"kl_loss_type", "algo.kl_estimator"},
  {"kl_penalty", "algo.kl_estimator"},
  {"reference_policy_kl_type", "algo.kl_estimator"},
  {"norm_adv_by_std_in_grpo", "algo.scale_rewards"}, {"normalize_rewards", "algo.scale_rewards"},
  {"loss_type", "algo.loss_agg_mode"},
  {"num_iterations", "algo.ppo_epochs"}, {"num_ppo_epochs", "algo.ppo_epochs"},
  {"max_epochs", "algo.ppo_epochs"},
  {"train.max_epochs", "algo.ppo_epochs"}, {"train.ppo_epochs", "algo.ppo_epochs"},
  {"entropy_coeff", "algo.entropy_coef"},
  {"rollout.batch_size", "rollout.rollout_batch_size"},
  {"num_prompts_per_step", "rollout.rollout_batch_size"},
  {"data.train_batch_size", "rollout.rollout_batch_size"},
  {"max_new_tokens", "rollout.max_response_length"}, {"generate_max_len", "rollout.max_response_length"},
  {"max_completion_length", "rollout.max_response_length"},
  {"response_length", "rollout.max_response_length"},
  {"data.max_response_length", "rollout.max_response_length"},
  {"max_answer_seq_len", "rollout.max_response_length"},
  {"stop_strings", "rollout.stop"},
  {"max_steps", "train.steps"}, {"total_training_steps", "train.steps"}, {"max_num_steps", "train.steps"},
  {"num_train_epochs", "train.epochs"}, {"num_episodes", "train.epochs"}, {"total_epochs", "train.epochs"},
  {"max_num_epochs", "train.epochs"},
  {"train.batch_size", "train.train_batch_size"}, {"train_global_batch_size", "train.train_batch_size"},
  {"per_device_train_batch_size", "train.micro_batch_size"},
  {"micro_train_batch_size", "train.micro_batch_size"},
  {"ppo_micro_batch_size_per_gpu", "train.micro_batch_size"},
  {"train_micro_batch_size", "train.micro_batch_size"},
  {"train_micro_batch_size_per_gpu", "train.micro_batch_size"},
  {"per_device_training_batch_size", "train.micro_batch_size"},
  {"ppo_max_token_len_per_gpu", "train.max_tokens_per_gpu"}, {"train_mb_tokens", "train.max_tokens_per_gpu"},
  {"lr", "train.learning_rate"}, {"adam.lr", "train.learning_rate"}, {"optim.lr", "train.learning_rate"},
  {"actor_learning_rate", "train.learning_rate"},
  {"lr_scheduler_type", "train.lr_scheduler"}, {"lr_warmup_steps", "train.warmup_steps"},
  {"num_warmup_steps", "train.warmup_steps"}, {"lr_warmup_ratio", "train.warmup_ratio"},
  {"max_norm", "train.max_grad_norm"}, {"clip_grad", "train.max_grad_norm"},
  {"gradient_clipping", "train.max_grad_norm"},
  {"adam_epsilon", "train.adam_eps"},
  {"zero.stage", "shard.plan"}, {"zero_optimization.stage", "shard.plan"}, {"zero_stage", "shard.plan"},
  {"fsdp_size", "shard.plan"}, {"fsdp_config.fsdp_size", "shard.plan"},
  {"save_freq", "checkpoint.save_steps"}, {"save_period", "checkpoint.save_steps"},
  {"train.save_steps", "checkpoint.save_steps"},
  {"max_num", "checkpoint.save_total_limit"}, {"max_actor_ckpt_to_keep", "checkpoint.save_total_limit"},
  {"keep_top_k", "checkpoint.save_total_limit"}, {"train.save_total_limit", "checkpoint.save_total_limit"},
  {"eval_steps", "eval.steps"}, {"test_freq", "eval.steps"},
};
const int tri_n_key_aliases = sizeof tri_key_aliases / sizeof *tri_key_aliases;

const tri_key_word tri_key_words[] = {
  {"run.resume", "true", "auto"}, {"run.resume", "false", "never"},
  {"run.resume", "True", "auto"}, {"run.resume", "False", "never"},
  {"run.resume", "yes", "auto"}, {"run.resume", "no", "never"},
  {"run.resume", "Auto", "auto"}, {"run.resume", "Never", "never"},
  {"resume_mode", "disable", "never"},
  {"run.device", "gpu", "cuda"},
  {"model.dtype", "bfloat16", "bf16"}, {"model.dtype", "float32", "f32"}, {"model.dtype", "fp32", "f32"},
  {"gradient_checkpointing", "true", "layer"}, {"gradient_checkpointing", "false", "none"},
  {"advantage.estimator", "group_norm", "grpo"}, {"advantage_estimator", "group_norm", "grpo"},
  {"algo.name", "GRPO", "grpo"}, {"algo.name", "SFT", "sft"},
  {"rollout.top_k", "-1", "0"},
  {"algo.kl_estimator", "kl", "k1"}, {"algo.kl_estimator", "mse", "k2"},
  {"algo.kl_estimator", "low_var_kl", "k3"},
  {"algo.scale_rewards", "true", "group"}, {"algo.scale_rewards", "false", "none"},
  {"loss_type", "dapo", "token-mean"}, {"loss_type", "grpo", "seq-mean-token-mean"},
  {"loss_type", "dr_grpo", "seq-mean-token-sum-norm"},
  {"train.lr_scheduler", "constant_with_warmup", "constant"},
  {"train.lr_scheduler", "cosine_with_min_lr", "cosine"},
  {"zero.stage", "0", "zero0"}, {"zero.stage", "1", "zero1"}, {"zero.stage", "2", "zero2"},
  {"zero.stage", "3", "zero3"},
  {"zero_optimization.stage", "0", "zero0"}, {"zero_optimization.stage", "1", "zero1"},
  {"zero_optimization.stage", "2", "zero2"}, {"zero_optimization.stage", "3", "zero3"},
  {"zero_stage", "0", "zero0"}, {"zero_stage", "1", "zero1"}, {"zero_stage", "2", "zero2"},
  {"zero_stage", "3", "zero3"},
  {"fsdp_size", "-1", "zero3"}, {"fsdp_config.fsdp_size", "-1", "zero3"},
};
const int tri_n_key_words = sizeof tri_key_words / sizeof *tri_key_words;

#define NODE_GROUP                                                                                          \
  "a group of ranks is a node here: give run.ranks_per_node, and node to shard.params, .grads and .optimizer"
#define DECODED     "answers are decoded as fast as slots free up; rollout.max_sequences limits how many at once"
#define DTYPE       "give model.dtype: bf16 or f32"
#define RANKS       "ranks and nodes come from srun or mpirun, one rank per GPU"
#define ONE_PROGRAM "the training ranks generate, each on its own GPU; there is no second engine to set up"
#define LOGS        "metrics.jsonl and log.txt in run.output hold what is known of a run; nothing is sent anywhere"
#define EACH_STEP   "metrics.jsonl has a line for every step"
#define FULL        "all weights are trained, in f32: this version has neither LoRA nor quantised weights"
#define NO_CRITIC   "grpo compares the answers to one prompt: it has no critic, and neither gamma nor lambda"
#define REWARDS     "rewards stand in the list `reward:`, such as '- name: exact'"
#define LESS_MEMORY "nothing is offloaded; shard.plan: zero3, model.recompute: layer and more ranks take less memory of each"
#define ONE_RANK    "a sequence is computed by one rank; shard.plan says what ranks share"
#define CHOSEN      "kernels are chosen by the device"
#define OVERLAPPED  "gathers and reductions run beside compute by themselves"
#define PACKED      "train.max_tokens_per_gpu packs sequences into passes"
#define LENGTHS     "data.max_prompt_length and rollout.max_response_length are the limits; an SFT line's is the model's context"
#define READ_ONCE   "data is read whole at the start; fields of a line that no key names are ignored"
#define INTERVALS   "checkpoint.save_steps, checkpoint.save_minutes and eval.steps say when"
#define ADAMW       "the optimizer is AdamW: train.learning_rate, adam_beta1, adam_beta2, adam_eps and weight_decay"
#define FIXED_REF   "the reference stays as it is at the start, or is model.ref_path"
#define AS_IT_IS    "a prompt is taken as it stands: render its chat template beforehand"
#define UNSCALED    "bf16 and f32 need no scaling of the loss"
#define SHARDED     "shard.plan: zero0 to zero3 or hybrid takes the place of such a file"
const tri_key_hint tri_key_hints[] = {
  {"report_to", LOGS}, {"logger", LOGS}, {"use_wandb", LOGS}, {"wandb.", LOGS}, {"wandb_project", LOGS},
  {"project_name", LOGS}, {"experiment_name", LOGS}, {"run_name", LOGS}, {"logging_dir", LOGS},
  {"use_tensorboard", LOGS}, {"push_to_hub", LOGS}, {"hub_model_id", LOGS},
  {"logging_steps", EACH_STEP}, {"logging_strategy", EACH_STEP}, {"logging_first_step", EACH_STEP},
  {"lora.", FULL}, {"lora_r", FULL}, {"lora_rank", FULL}, {"lora_dim", FULL}, {"lora_alpha", FULL},
  {"lora_dropout", FULL}, {"lora_target_modules", FULL}, {"target_modules", FULL}, {"use_peft", FULL},
  {"peft_config", FULL}, {"load_in_4bit", FULL}, {"load_in_8bit", FULL},
  {"critic.", NO_CRITIC}, {"critic_learning_rate", NO_CRITIC}, {"critic_pretrain", NO_CRITIC}, {"gamma", NO_CRITIC},
  {"lam", NO_CRITIC}, {"lambd", NO_CRITIC}, {"gae_gamma", NO_CRITIC}, {"gae_lambda", NO_CRITIC},
  {"vf_coef", NO_CRITIC}, {"value_clip", NO_CRITIC}, {"cliprange_value", NO_CRITIC},
  {"reward_funcs", REWARDS}, {"reward_model", REWARDS}, {"reward_pretrain", REWARDS}, {"remote_rm_url", REWARDS},
  {"reward_model.", REWARDS}, {"custom_reward_function.", REWARDS},
  {"offload", LESS_MEMORY}, {"adam_offload", LESS_MEMORY}, {"param_offload", LESS_MEMORY},
  {"optimizer_offload", LESS_MEMORY}, {"offload_optimizer", LESS_MEMORY}, {"offload_param", LESS_MEMORY},
  {"ring_attn_size", ONE_RANK}, {"cp_size", ONE_RANK}, {"sp_size", ONE_RANK}, {"context_parallel_size", ONE_RANK},
  {"ulysses_sequence_parallel_size", ONE_RANK}, {"sequence_parallel_size", ONE_RANK},
  {"pipeline_model_parallel_size", ONE_RANK},
  {"attn_implementation", CHOSEN}, {"flash_attn", CHOSEN}, {"use_liger_kernel", CHOSEN}, {"torch_compile", CHOSEN},
  {"overlap_comm", OVERLAPPED}, {"reduce_bucket_size", OVERLAPPED}, {"allgather_bucket_size", OVERLAPPED},
  {"stage3_prefetch_bucket_size", OVERLAPPED}, {"stage3_param_persistence_threshold", OVERLAPPED},
  {"packing", PACKED}, {"use_dynamic_bsz", PACKED}, {"dynamic_batch_enable", PACKED},
  {"max_length", LENGTHS}, {"max_len", LENGTHS}, {"max_seq_length", LENGTHS}, {"max_total_sequence_length", LENGTHS},
  {"dataloader_num_workers", READ_ONCE}, {"remove_unused_columns", READ_ONCE},
  {"save_strategy", INTERVALS}, {"eval_strategy", INTERVALS}, {"evaluation_strategy", INTERVALS},
  {"val_before_train", "where eval.steps is above 0 an evaluation also runs before the first step"},
  {"optim", ADAMW}, {"optimizer", ADAMW},
  {"sync_ref_model", FIXED_REF}, {"ref_model_mixup_alpha", FIXED_REF}, {"ref_model_sync_steps", FIXED_REF},
  {"chat_template", AS_IT_IS}, {"apply_chat_template", AS_IT_IS}, {"system_prompt", AS_IT_IS},
  {"loss_scale", UNSCALED}, {"initial_scale_power", UNSCALED}, {"deepspeed", SHARDED}, {"deepspeed_config", SHARDED},
  {"fsdp_size", NODE_GROUP}, {"fsdp_config.fsdp_size", NODE_GROUP}, {"mics_shard_size", NODE_GROUP},
  {"shard_size", NODE_GROUP},
  {"zpg", "a second copy of the weights in each node is shard.plan: hybrid"},
  {"zero_hpz_partition_size", "a second copy of the weights in each node is shard.plan: hybrid"},
  {"ppo_mini_batch_size",
   "it counts prompts; train.train_batch_size counts samples: prompts x algo.num_generations"},
  {"generation_batch_size",
   "it counts samples; rollout.rollout_batch_size counts prompts: samples / algo.num_generations"},
  {"per_device_generation_batch_size",
   "it counts per rank; rollout.rollout_batch_size counts the prompts of all ranks"},
  {"eps_clip_low_high", "give algo.clip_eps and algo.clip_eps_high"},
  {"use_kl_loss", "algo.kl_coef above 0 with algo.kl_where: loss does this"},
  {"use_kl_in_reward", "algo.kl_coef above 0 with algo.kl_where: reward does this"},
  {"adam_betas", "give train.adam_beta1 and train.adam_beta2"},
  {"betas", "give train.adam_beta1 and train.adam_beta2"},
  {"truncation", "data.overlong_prompt is error, drop or truncate"},
  {"micro_rollout_batch_size", DECODED}, {"rollout_micro_batch_size", DECODED},
  {"log_prob_micro_batch_size_per_gpu", "log-probabilities are computed in passes of train.micro_batch_size"},
  {"bf16", DTYPE}, {"fp16", DTYPE},
  {"n_gpus_per_node", RANKS}, {"gpus_per_node", RANKS}, {"num_gpus_per_node", RANKS}, {"nnodes", RANKS},
  {"num_nodes", RANKS}, {"actor_num_nodes", RANKS}, {"actor_num_gpus_per_node", RANKS},
  {"use_vllm", ONE_PROGRAM}, {"gpu_memory_utilization", ONE_PROGRAM}, {"vllm_gpu_memory_utilization", ONE_PROGRAM},
  {"tensor_model_parallel_size", ONE_PROGRAM}, {"vllm_tensor_parallel_size", ONE_PROGRAM},
};
const int tri_n_key_hints = sizeof tri_key_hints / sizeof *tri_key_hints;

const char *const tri_peer_sections[] = {
  "actor_rollout_ref", "actor", "actor_rollout", "policy", "algorithm", "trainer", "training_args", "args",
  "grpo", "sft", "ds", "deepspeed", "ckpt", "checkpointing", "optim", "loss_fn", "fsdp_config", "generation",
  "ppo",
};
const int tri_n_peer_sections = sizeof tri_peer_sections / sizeof *tri_peer_sections;
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

bool tri_key_is_used(const tri_key *k, const tri_algo *a) {
  if (!tri_key_in_section(k->name, "algo") || !strcmp(k->name, "algo.name"))
    return !k->needs || (k->needs & a->needs);
  for (int i = 0; a->option[i]; i++)
    if (!strcmp(a->option[i], k->name)) return true;
  return false;
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

/* "[1, 10)" as ">= 1 and < 10". */
static void interval_text(const char *range, char *out, size_t bytes) {
  char lo[32] = "", hi[32] = "";

  sscanf(range + 1, "%31[^,], %31[^])]", lo, hi);
  bool has_lo = strcmp(lo, "-inf") != 0, has_hi = strcmp(hi, "inf") != 0;
  snprintf(out, bytes, "%s%s%s%s%s", has_lo ? (range[0] == '[' ? " >= " : " > ") : "", has_lo ? lo : "",
           has_lo && has_hi ? " and" : "", has_hi ? (range[strlen(range) - 1] == ']' ? " <= " : " < ") : "",
           has_hi ? hi : "");
}

static void list_algos(char *out, size_t bytes) {
  snprintf(out, bytes, "one of");
  for (int i = 0; tri_algo_at(i); i++) {
    size_t used = strlen(out);
    snprintf(out + used, bytes - used, "%s %s", i ? "," : "", tri_algo_at(i)->name);
  }
}

void tri_key_expected(const tri_key *k, char *out, size_t bytes) {
  char   interval[80] = "", word[64];
  size_t used;

  if (k == tri_key_find("algo.name")) {
    list_algos(out, bytes);
    return;
  }
  switch (k->type) {
  case TRI_KEY_BOOL:
    snprintf(out, bytes, "true or false");
    return;
  case TRI_KEY_TEXT:
    snprintf(out, bytes, "a text");
    return;
  case TRI_KEY_LIST:
    snprintf(out, bytes, "a text or a list of texts");
    return;
  case TRI_KEY_CHOICE:
    snprintf(out, bytes, "one of");
    for (int i = 0; tri_key_choice(k, i, word, sizeof word); i++) {
      used = strlen(out);
      snprintf(out + used, bytes - used, "%s %s", i ? "," : "", word);
    }
    return;
  default:
    interval_text(k->range, interval, sizeof interval);
    snprintf(out, bytes, "%s%s", k->type == TRI_KEY_F64 ? "a number" : "a whole number", interval);
    return;
  }
}
