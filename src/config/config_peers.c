/* config_peers.c - names and values of other programs, and advice for those without an option here. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "config_keys.h"

/* clang-format off */
const tri_key_alias tri_key_aliases[] = {
  {"output_dir", "run.output"}, {"default_local_dir", "run.output"}, {"ckpt.output_dir", "run.output"},
  {"train.seed", "run.seed"}, {"random_seed", "run.seed"},
  {"logging_steps", "run.log_every"}, {"steps_per_print", "run.log_every"},
  {"resume_from_checkpoint", "run.resume"}, {"resume_mode", "run.resume"}, {"load_checkpoint", "run.resume"},
  {"ckpt.load_enable", "run.resume"},
  {"model_name_or_path", "model.path"}, {"pretrain", "model.path"}, {"model_name", "model.path"},
  {"param_dtype", "model.dtype"}, {"torch_dtype", "model.dtype"},
  {"gradient_checkpointing", "model.recompute"}, {"train.gradient_checkpointing", "model.recompute"},
  {"ref_model", "model.ref_path"}, {"reference.path", "model.ref_path"}, {"ref.model_name_or_path", "model.ref_path"},
  {"train_files", "data.train"}, {"prompt_data", "data.train"}, {"val_files", "data.eval"},
  {"apply_chat_template_kwargs", "data.chat_template_kwargs"}, {"default_system", "data.system_prompt"},
  {"input_key", "data.prompt_key"}, {"label_key", "data.answer_key"}, {"output_key", "data.completion_key"},
  {"max_prompt_seq_len", "data.max_prompt_length"}, {"prompt_max_len", "data.max_prompt_length"},
  {"max_input_seq_length", "data.max_prompt_length"},
  {"max_seq_length", "data.max_length"}, {"cutoff_len", "data.max_length"}, {"max_len", "data.max_length"},
  {"adv_estimator", "algo.name"}, {"advantage_estimator", "algo.name"}, {"advantage.estimator", "algo.name"},
  {"n_samples_per_prompt", "algo.num_generations"}, {"algo.n", "algo.num_generations"}, {"num_generations_per_prompt", "algo.num_generations"},
  {"rollout.n", "algo.num_generations"}, {"rollout.n_samples_per_prompt", "algo.num_generations"},
  {"rollout.num_generations", "algo.num_generations"},
  {"eps_clip", "algo.clip_eps"}, {"clip_ratio", "algo.clip_eps"}, {"clip_ratio_low", "algo.clip_eps"},
  {"epsilon", "algo.clip_eps"}, {"cliprange", "algo.clip_eps"}, {"ratio_clip_min", "algo.clip_eps"},
  {"clip_ratio_high", "algo.clip_eps_high"}, {"epsilon_high", "algo.clip_eps_high"},
  {"clip_ratio_c", "algo.dual_clip"}, {"ratio_clip_c", "algo.dual_clip"}, {"advantage.gamma", "algo.gamma"},
  {"gae_gamma", "algo.gamma"}, {"lambd", "algo.lam"}, {"gae_lambda", "algo.lam"}, {"advantage.lambd", "algo.lam"},
  {"cliprange_value", "critic.value_clip"}, {"value_clip", "critic.value_clip"},
  {"critic_learning_rate", "critic.learning_rate"}, {"critic.lr", "critic.learning_rate"}, {"critic.optim.lr", "critic.learning_rate"},
  {"critic.adam.lr", "critic.learning_rate"}, {"critic_pretrain", "critic.path"}, {"value_model_path", "critic.path"},
  {"critic.model_name_or_path", "critic.path"}, {"critic.model.path", "critic.path"},
  {"critic_warmup", "critic.warmup_steps"}, {"freezing_actor_steps", "critic.warmup_steps"},
  {"critic.freezing_steps", "critic.warmup_steps"},
  {"center_rewards_coefficient", "algo.centering_coef"},
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
  {"use_bias_correction_kl", "algo.kl_bias_correction"}, {"mask_truncated_completions", "algo.mask_truncated"},
  {"rollout_is_threshold", "algo.is_cap"},
  {"kl_ctrl.target_kl", "algo.kl_target"}, {"kl.target", "algo.kl_target"},
  {"kl_ctrl.horizon", "algo.kl_horizon"}, {"kl.horizon", "algo.kl_horizon"}, {"kl_ctrl.kl_coef", "algo.kl_coef"},
  {"entropy_target", "algo.adaptive_entropy_target"},
  {"lora_rank", "lora.rank"}, {"lora_r", "lora.rank"}, {"lora_dim", "lora.rank"}, {"lora.r", "lora.rank"},
  {"lora_alpha", "lora.alpha"}, {"lora_target_modules", "lora.targets"}, {"target_modules", "lora.targets"},
  {"lora_adapter_path", "lora.path"},
  {"rollout.batch_size", "rollout.rollout_batch_size"},
  {"num_prompts_per_step", "rollout.rollout_batch_size"},
  {"data.train_batch_size", "rollout.rollout_batch_size"},
  {"max_new_tokens", "rollout.max_response_length"}, {"generate_max_len", "rollout.max_response_length"},
  {"max_completion_length", "rollout.max_response_length"},
  {"response_length", "rollout.max_response_length"},
  {"data.max_response_length", "rollout.max_response_length"},
  {"max_answer_seq_len", "rollout.max_response_length"},
  {"max_total_tokens", "rollout.max_cached_tokens"}, {"stop_strings", "rollout.stop"},
  {"dynamic_filtering", "rollout.dynamic_sampling"}, {"filter_groups.enable", "rollout.dynamic_sampling"},
  {"use_dynamic_sampling", "rollout.dynamic_sampling"},
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
  {"gradient_clipping", "train.max_grad_norm"}, {"fp16.loss_scale", "train.loss_scale"},
  {"fp16.initial_scale_power", "train.initial_scale_power"}, {"fp16.loss_scale_window", "train.loss_scale_window"},
  {"fp16.min_loss_scale", "train.min_loss_scale"}, {"growth_interval", "train.loss_scale_window"},
  {"adam_epsilon", "train.adam_eps"},
  {"zero.stage", "shard.plan"}, {"zero_optimization.stage", "shard.plan"}, {"zero_stage", "shard.plan"},
  {"train.zero_stage", "shard.plan"},
  {"fsdp_size", "shard.plan"}, {"fsdp_config.fsdp_size", "shard.plan"},
  {"tensor_parallel_size", "shard.tensor_parallel_size"}, {"tensor_model_parallel_size", "shard.tensor_parallel_size"},
  {"rollout.tensor_model_parallel_size", "shard.tensor_parallel_size"},
  {"vllm_tensor_parallel_size", "shard.tensor_parallel_size"}, {"tensor_parallel", "shard.tensor_parallel_size"},
  {"tp", "shard.tensor_parallel_size"}, {"tp_size", "shard.tensor_parallel_size"},
  {"adam_offload", "shard.offload"}, {"optimizer_offload", "shard.offload"},
  {"offload_optimizer.device", "shard.offload"},
  {"save_freq", "checkpoint.save_steps"}, {"save_period", "checkpoint.save_steps"},
  {"train.save_steps", "checkpoint.save_steps"},
  {"max_num", "checkpoint.save_total_limit"}, {"max_actor_ckpt_to_keep", "checkpoint.save_total_limit"},
  {"keep_top_k", "checkpoint.save_total_limit"}, {"train.save_total_limit", "checkpoint.save_total_limit"},
  {"metric_for_best_model", "checkpoint.keep_best"}, {"best_metric_key", "checkpoint.keep_best"},
  {"eval_steps", "eval.steps"}, {"test_freq", "eval.steps"},
};
const int tri_n_key_aliases = sizeof tri_key_aliases / sizeof *tri_key_aliases;

const tri_key_alias tri_key_guesses[] = {
  {"dpo_beta", "algo.beta"}, {"beta_dpo", "algo.beta"}, {"kto_beta", "algo.beta"}, {"dpo_loss_type", "algo.dpo_loss"},
  {"kl_beta", "algo.kl_coef"}, {"kl_weight", "algo.kl_coef"}, {"kl_penalty_coef", "algo.kl_coef"}, {"kl", "algo.kl_coef"},
  {"kl_coefficient", "algo.kl_coef"}, {"entropy", "algo.entropy_coef"}, {"entropy_weight", "algo.entropy_coef"},
  {"entropy_bonus", "algo.entropy_coef"}, {"entropy_beta", "algo.entropy_coef"},
  {"clip", "algo.clip_eps"}, {"clip_range", "algo.clip_eps"}, {"clip_epsilon", "algo.clip_eps"}, {"ppo_clip", "algo.clip_eps"},
  {"epsilon_low", "algo.clip_eps"}, {"clip_low", "algo.clip_eps"}, {"clip_high", "algo.clip_eps_high"},
  {"clip_higher", "algo.clip_eps_high"}, {"lambda", "algo.lam"}, {"discount", "algo.gamma"}, {"discount_factor", "algo.gamma"},
  {"group_size", "algo.num_generations"}, {"num_return_sequences", "algo.num_generations"}, {"num_samples", "algo.num_generations"},
  {"n_samples", "algo.num_generations"}, {"samples_per_prompt", "algo.num_generations"},
  {"num_samples_per_prompt", "algo.num_generations"}, {"num_rollouts", "algo.num_generations"},
  {"algorithm", "algo.name"}, {"algo.type", "algo.name"}, {"estimator", "algo.name"},
  {"temp", "rollout.temperature"}, {"rollout.max_len", "rollout.max_response_length"},
 {"max_answer_length", "rollout.max_response_length"},
  {"max_output_tokens", "rollout.max_response_length"}, {"max_response_tokens", "rollout.max_response_length"},
  {"stop_words", "rollout.stop"}, {"stop_sequences", "rollout.stop"}, {"stop_token_ids", "rollout.stop"},
  {"lrate", "train.learning_rate"}, {"grad_accum", "train.gradient_accumulation_steps"},
  {"grad_accum_steps", "train.gradient_accumulation_steps"}, {"accumulation_steps", "train.gradient_accumulation_steps"},
  {"warmup", "train.warmup_steps"}, {"scheduler", "train.lr_scheduler"}, {"sched", "train.lr_scheduler"}, {"grad_clip", "train.max_grad_norm"},
  {"clip_grad_norm", "train.max_grad_norm"}, {"train.clip", "train.max_grad_norm"}, {"max_grad", "train.max_grad_norm"},
  {"wd", "train.weight_decay"}, {"l2", "train.weight_decay"}, {"num_epochs", "train.epochs"}, {"n_epochs", "train.epochs"},
  {"max_epoch", "train.epochs"}, {"iterations", "train.steps"}, {"max_iters", "train.steps"}, {"num_steps", "train.steps"},
  {"total_steps", "train.steps"}, {"train_steps", "train.steps"}, {"per_gpu_train_batch_size", "train.micro_batch_size"},
  {"per_device_batch_size", "train.micro_batch_size"}, {"micro_batch", "train.micro_batch_size"},
  {"mini_batch_size", "train.train_batch_size"}, {"global_batch_size", "train.train_batch_size"},
  {"effective_batch_size", "train.train_batch_size"},
  {"data.path", "data.train"}, {"data.file", "data.train"}, {"data.files", "data.train"}, {"data_path", "data.train"},
  {"train_file", "data.train"}, {"train_path", "data.train"}, {"train_data", "data.train"}, {"dataset_path", "data.train"},
  {"data_files", "data.train"}, {"validation_file", "data.eval"}, {"eval_file", "data.eval"}, {"test_file", "data.eval"},
  {"eval_dataset", "data.eval"}, {"eval_data", "data.eval"}, {"val_data", "data.eval"}, {"data.val", "data.eval"},
  {"data.validation", "data.eval"}, {"data.test", "data.eval"}, {"template", "data.chat_template"},
  {"chat_format", "data.chat_template"}, {"prompt_field", "data.prompt_key"}, {"prompt_column", "data.prompt_key"},
  {"response_key", "data.completion_key"}, {"response_field", "data.completion_key"},
  {"dataset_text_field", "data.completion_key"}, {"answer_field", "data.answer_key"},
  {"model.name", "model.path"}, {"model.name_or_path", "model.path"}, {"base_model", "model.path"}, {"model_path", "model.path"},
  {"base_model_name_or_path", "model.path"}, {"tokenizer_path", "model.tokenizer"},
  {"tokenizer_name_or_path", "model.tokenizer"}, {"tokenizer_name", "model.tokenizer"}, {"precision", "model.dtype"},
  {"mixed_precision", "model.dtype"}, {"reference_model", "model.ref_path"}, {"ref_model_path", "model.ref_path"},
  {"ref_model_name_or_path", "model.ref_path"}, {"reference.model", "model.ref_path"}, {"activation_checkpointing", "model.recompute"},
  {"output_path", "run.output"}, {"output_folder", "run.output"}, {"save_path", "run.output"}, {"ckpt_path", "run.output"},
  {"save_dir", "run.output"}, {"global_seed", "run.seed"}, {"log_interval", "run.log_every"}, {"logging.steps", "run.log_every"},
  {"resume_from", "run.resume"}, {"timeout", "run.timeout_s"}, {"nccl_timeout", "run.timeout_s"},
  {"ddp_timeout", "run.timeout_s"}, {"lora_modules", "lora.targets"}, {"r", "lora.rank"}, {"adapter_path", "lora.path"},
  {"lora_path", "lora.path"}, {"eval_every", "eval.steps"}, {"eval.every", "eval.steps"}, {"eval_interval", "eval.steps"},
  {"eval.interval", "eval.steps"}, {"eval_freq", "eval.steps"}, {"save_interval", "checkpoint.save_steps"},
  {"checkpoint.every", "checkpoint.save_steps"}, {"checkpoint.steps", "checkpoint.save_steps"},
  {"checkpoint.interval", "checkpoint.save_steps"}, {"checkpoint.save_every", "checkpoint.save_steps"},
  {"checkpoint_every", "checkpoint.save_steps"}, {"checkpoint.keep", "checkpoint.save_total_limit"},
  {"keep_checkpoints", "checkpoint.save_total_limit"}, {"max_checkpoints", "checkpoint.save_total_limit"},
  {"zero", "shard.plan"}, {"stage", "shard.plan"}, {"sharding_strategy", "shard.plan"}, {"fsdp", "shard.plan"},
};
const int tri_n_key_guesses = sizeof tri_key_guesses / sizeof *tri_key_guesses;

const tri_key_double tri_key_doubles[] = {
  {"beta", "algo.beta", "algo.kl_coef"}, {"loss_type", "algo.dpo_loss", "algo.loss_agg_mode"},
  {"label_key", "data.label_key", "data.answer_key"},
};
const int tri_n_key_doubles = sizeof tri_key_doubles / sizeof *tri_key_doubles;

const tri_key_word tri_key_words[] = {
  {"run.resume", "true", "auto"}, {"run.resume", "false", "never"},
  {"run.resume", "True", "auto"}, {"run.resume", "False", "never"},
  {"run.resume", "yes", "auto"}, {"run.resume", "no", "never"},
  {"run.resume", "Auto", "auto"}, {"run.resume", "Never", "never"},
  {"resume_mode", "disable", "never"},
  {"run.device", "gpu", "cuda"},
  {"model.dtype", "bfloat16", "bf16"}, {"model.dtype", "float32", "f32"}, {"model.dtype", "fp32", "f32"},
  {"model.dtype", "float16", "fp16"}, {"model.dtype", "half", "fp16"}, {"model.dtype", "f16", "fp16"},
  {"train.loss_scale", "dynamic", "0"},
  {"gradient_checkpointing", "true", "layer"}, {"gradient_checkpointing", "false", "none"},
  {"train.gradient_checkpointing", "true", "layer"}, {"train.gradient_checkpointing", "false", "none"},
  {"algo.policy_loss", "gspo", "sequence"}, {"algo.name", "group_norm", "grpo"}, {"algo.name", "gae", "ppo"},
  {"algo.name", "reinforce", "reinforce++"},
  {"algo.name", "reinforce_plus_plus", "reinforce++"}, {"algo.name", "reinforce_baseline", "reinforce++-baseline"},
  {"algo.name", "reinforce_plus_plus_baseline", "reinforce++-baseline"},
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
  {"train.zero_stage", "0", "zero0"}, {"train.zero_stage", "1", "zero1"}, {"train.zero_stage", "2", "zero2"},
  {"train.zero_stage", "3", "zero3"},
  {"critic.shard", "0", "zero0"}, {"critic.shard", "1", "zero1"}, {"critic.shard", "2", "zero2"},
  {"critic.shard", "3", "zero3"}, {"reference.shard", "0", "zero0"}, {"reference.shard", "1", "zero1"},
  {"reference.shard", "2", "zero2"}, {"reference.shard", "3", "zero3"},
  {"adam_offload", "true", "optimizer"}, {"adam_offload", "false", "none"},
  {"optimizer_offload", "true", "optimizer"}, {"optimizer_offload", "false", "none"},
  {"optimizer_offload", "True", "optimizer"}, {"optimizer_offload", "False", "none"},
  {"offload_optimizer.device", "cpu", "optimizer"},
  {"fsdp_size", "-1", "zero3"}, {"fsdp_config.fsdp_size", "-1", "zero3"},
};
const int tri_n_key_words = sizeof tri_key_words / sizeof *tri_key_words;

#define NODE_GROUP                                                                                          \
  "a group of ranks is a node here. Give run.ranks_per_node, and set shard.params, .grads and .optimizer to node"
#define DECODED     "remove it. A finished answer makes room for the next one, and rollout.max_sequences limits the answers in flight"
#define DTYPE       "give model.dtype: bf16, f32 or fp16"
#define RANKS       "remove it. srun or mpirun sets ranks and nodes, one rank per GPU"
#define ONE_PROGRAM "remove it. The training ranks generate, each on its own GPU, so no second engine is needed"
#define LOGS        "remove it. Trireme sends nothing anywhere. metrics.jsonl and log.txt in run.output hold the results of a run"
#define BOARD       "run.tensorboard: true writes an event file beside metrics.jsonl"
#define EACH_STEP   "metrics.jsonl has a line for every step. run.log_every sets the steps between rows on the screen"
#define UNQUANTISED "this version has no quantised weights. Weights are bf16 or f32, also beside adapters"
#define ADAPTERS    "give lora.rank above 0. Low-rank adapters then learn in place of the model's weights"
#define OWN_CRITIC  "critic.learning_rate sets the critic's rate. Its optimizer takes all other settings from train"
#define REWARDS     "write rewards into the list `reward:`, such as '- name: exact' or '- {name: model, path: FOLDER}'"
#define BATCHES                                                                                             \
  "train.train_batch_size counts the samples of an optimizer step, train.micro_batch_size those of a micro-batch on one " \
  "rank, rollout.rollout_batch_size the prompts of a rollout"
#define LEARNED     "algo.name sets the loss. algo.dpo_loss and algo.policy_loss choose another"
#define JUDGED      "write the reward model into the list `reward:`, as '- {name: model, path: FOLDER}'"
#define ONE_WORD    "give its plan as one word by critic.shard or reference.shard, zero0 to zero3 or hybrid"
#define FILES       "data.train and data.eval take files of JSON lines"
#define RESTING                                                                                             \
  "shard.offload: frozen keeps frozen models in host memory, and all also the optimizer's state. " \
  "shard.plan: zero3 leaves each GPU a part of the trained models"
#define ONE_RANK    "this version computes a sequence on one rank. shard.plan distributes the model's state"
#define CHOSEN      "remove it. The device chooses the kernels"
#define OVERLAPPED  "remove it. Gathers and reductions always overlap with computation"
#define PACKED      "train.max_tokens_per_gpu packs sequences into micro-batches"
#define LENGTHS     "data.max_prompt_length and rollout.max_response_length limit prompts and answers, data.max_length limits learned lines"
#define READ_ONCE   "remove it. The run reads all data at the start and ignores fields without a key"
#define INTERVALS   "checkpoint.save_steps, checkpoint.save_minutes and eval.steps set the times"
#define ADAMW       "the optimizer is AdamW. Its keys are train.learning_rate, adam_beta1, adam_beta2, adam_eps and weight_decay"
#define FIXED_REF   "remove it. The reference never changes. It is model.ref_path, or the policy at the start"
#define SYSTEM      "give data.system_prompt, or a first message {\"role\": \"system\", \"content\": \"...\"} in the data"
#define TURNS       "data.train_on: last learns the assistant's last message, and all learns all of them. Prompts are never learned"
#define HALVED      "remove it. Each update with an overflow halves the loss scale, as with hysteresis 1"
#define BEST        "checkpoint.keep_best names a metric. Metrics ending in loss or perplexity are better when lower, all others when higher"
#define SHARDED     "remove the file and give shard.plan, zero0 to zero3 or hybrid"
const tri_key_hint tri_key_hints[] = {
  {"dataset_name", FILES}, {"dataset", FILES}, {"dataset_config", FILES}, {"train_dataset", FILES},
  {"batch_size", BATCHES}, {"batch", BATCHES}, {"loss", LEARNED}, {"loss_fn", LEARNED}, {"num_workers", READ_ONCE},
  {"padding_side", "remove it. Sequences are packed without padding"}, {"num_gpus", RANKS}, {"n_gpus", RANKS},
  {"reward_fn", REWARDS}, {"rewards", REWARDS}, {"reward_function", REWARDS}, {"reward_functions", REWARDS},
  {"max_seq_len", LENGTHS}, {"seq_len", LENGTHS}, {"sequence_length", LENGTHS}, {"block_size", LENGTHS},
  {"max_tokens", LENGTHS}, {"max_model_len", LENGTHS}, 
  {"pipeline_parallel", ONE_RANK}, {"pipeline_parallel_size", ONE_RANK},
  {"critic.params", ONE_WORD}, {"critic.grads", ONE_WORD}, {"critic.optimizer", ONE_WORD},
  {"reference.params", ONE_WORD}, {"reference.plan", ONE_WORD}, {"critic.plan", ONE_WORD},
  {"report_to", LOGS}, {"logger", LOGS}, {"use_wandb", LOGS}, {"wandb.", LOGS}, {"wandb_project", LOGS},
  {"project_name", LOGS}, {"experiment_name", LOGS}, {"run_name", LOGS}, {"logging_dir", LOGS},
  {"use_tensorboard", BOARD}, {"push_to_hub", LOGS}, {"hub_model_id", LOGS},
  {"logging_steps", EACH_STEP}, {"logging_strategy", EACH_STEP}, {"logging_first_step", EACH_STEP},
  {"use_peft", ADAPTERS}, {"peft_config", ADAPTERS}, {"use_lora", ADAPTERS}, {"load_in_4bit", UNQUANTISED},
  {"load_in_8bit", UNQUANTISED}, {"lora_dropout", "remove it. Adapters train without dropout here"},
  {"lora.dropout", "remove it. Adapters train without dropout here"},
  {"vf_coef", OWN_CRITIC}, {"critic.optim.", OWN_CRITIC}, {"critic.adam.", OWN_CRITIC},
  {"reward_funcs", REWARDS}, {"reward_model", JUDGED}, {"reward_pretrain", JUDGED}, {"reward_model_path", JUDGED},
  {"reward_model_name_or_path", JUDGED}, {"remote_rm_url", REWARDS},
  {"reward_model.", JUDGED}, {"custom_reward_function.", REWARDS},
  {"offload", RESTING}, {"param_offload", RESTING}, {"offload_param", RESTING}, {"offload_param.", RESTING},
  {"offload_optimizer", "give shard.offload: optimizer"}, {"cpu_offload", RESTING},
  {"ring_attn_size", ONE_RANK}, {"cp_size", ONE_RANK}, {"sp_size", ONE_RANK}, {"context_parallel_size", ONE_RANK},
  {"ulysses_sequence_parallel_size", ONE_RANK}, {"sequence_parallel_size", ONE_RANK},
  {"pipeline_model_parallel_size", ONE_RANK},
  {"attn_implementation", CHOSEN}, {"flash_attn", CHOSEN}, {"use_liger_kernel", CHOSEN}, {"torch_compile", CHOSEN},
  {"overlap_comm", OVERLAPPED}, {"reduce_bucket_size", OVERLAPPED}, {"allgather_bucket_size", OVERLAPPED},
  {"stage3_prefetch_bucket_size", OVERLAPPED}, {"stage3_param_persistence_threshold", OVERLAPPED},
  {"packing", PACKED}, {"use_dynamic_bsz", PACKED}, {"dynamic_batch_enable", PACKED},
  {"max_length", LENGTHS}, {"max_total_sequence_length", LENGTHS},
  {"dataloader_num_workers", READ_ONCE}, {"remove_unused_columns", READ_ONCE},
  {"save_strategy", INTERVALS}, {"eval_strategy", INTERVALS}, {"evaluation_strategy", INTERVALS},
  {"val_before_train", "remove it. With eval.steps above 0 an evaluation also runs before the first step"},
  {"greater_is_better", BEST}, {"load_best_model_at_end", BEST},
  {"optim", ADAMW}, {"optimizer", ADAMW},
  {"sync_ref_model", FIXED_REF}, {"ref_model_mixup_alpha", FIXED_REF}, {"ref_model_sync_steps", FIXED_REF},
  {"system_prompt", SYSTEM}, {"default_system", SYSTEM},
  {"enable_thinking", "it is a variable of the chat template. Give data.chat_template_kwargs: {enable_thinking: false}"},
  {"reasoning_effort", "it is a variable of the chat template. Give data.chat_template_kwargs: {reasoning_effort: low}"},
  {"chat_template_path", "data.chat_template takes a FILE.jinja, a name listed by --options, or auto for the model's own"},
  {"input_template", "data.chat_template names a chat template, and data.apply_chat_template: true applies it to text"},
  {"assistant_only_loss", TURNS}, {"completion_only_loss", TURNS}, {"multiturn", TURNS}, {"train_on_inputs", TURNS},
  {"prompt_data_probs", "data.train_weights: [2, 1] weighs the files of data.train"},
  {"deepspeed", SHARDED}, {"deepspeed_config", SHARDED},
  {"fsdp_size", NODE_GROUP}, {"fsdp_config.fsdp_size", NODE_GROUP}, {"mics_shard_size", NODE_GROUP},
  {"shard_size", NODE_GROUP},
  {"zpg", "a second copy of the weights in each node is shard.plan: hybrid"},
  {"zero_hpz_partition_size", "a second copy of the weights in each node is shard.plan: hybrid"},
  {"ppo_mini_batch_size",
   "it counts prompts. Give train.train_batch_size in samples, prompts x algo.num_generations"},
  {"generation_batch_size",
   "it counts samples. Give rollout.rollout_batch_size in prompts, samples / algo.num_generations"},
  {"per_device_generation_batch_size",
   "it counts per rank. Give rollout.rollout_batch_size, the prompts of all ranks"},
  {"eps_clip_low_high", "give algo.clip_eps and algo.clip_eps_high"},
  {"importance_sampling_level", "algo.policy_loss: sequence and luspo use the ratio of a sequence"},
  {"loss_type", "give cispo, sapo, vespo or luspo as algo.name"},
  {"delta", "algo.dual_clip bounds the loss by a ratio for negative advantages"},
  {"use_kl_loss", "give algo.kl_coef above 0 with algo.kl_where: loss"},
  {"use_kl_in_reward", "give algo.kl_coef above 0 with algo.kl_where: reward"},
  {"use_adaptive_entropy", "algo.adaptive_entropy_target turns it on"},
  {"adam_betas", "give train.adam_beta1 and train.adam_beta2"},
  {"betas", "give train.adam_beta1 and train.adam_beta2"},
  {"truncation", "give error, drop or truncate by data.overlong_prompt (prompts) and data.overlong (learned lines)"},
  {"truncation_mode", "data.overlong: truncate keeps the start of a line"},
  {"max_num_gen_batches", "it counts the first batch too. Give rollout.max_extra_batches, one less"},
  {"filter_groups.max_num_gen_batches", "it counts the first batch too. Give rollout.max_extra_batches, one less"},
  {"dynamic_sampling_max_gen_batches", "it counts the first batch too. Give rollout.max_extra_batches, one less"},
  {"overlong_buffer.", "give the reward '- {name: length, buffer: TOKENS, factor: 1}'"},
  {"reward_model.overlong_buffer.", "give the reward '- {name: length, buffer: TOKENS, factor: 1}'"},
  {"micro_rollout_batch_size", DECODED}, {"rollout_micro_batch_size", DECODED},
  {"log_prob_micro_batch_size_per_gpu", "log-probabilities are computed in micro-batches of train.micro_batch_size"},
  {"bf16", DTYPE}, {"fp16", DTYPE}, {"hysteresis", HALVED}, {"fp16.hysteresis", HALVED},
  {"bf16.", DTYPE}, {"fp16.", DTYPE},
  {"n_gpus_per_node", RANKS}, {"gpus_per_node", RANKS}, {"num_gpus_per_node", RANKS}, {"nnodes", RANKS},
  {"num_nodes", RANKS}, {"actor_num_nodes", RANKS}, {"actor_num_gpus_per_node", RANKS},
  {"use_vllm", ONE_PROGRAM}, {"gpu_memory_utilization", ONE_PROGRAM}, {"vllm_gpu_memory_utilization", ONE_PROGRAM},
};
const int tri_n_key_hints = sizeof tri_key_hints / sizeof *tri_key_hints;

const char *const tri_peer_sections[] = {
  "actor_rollout_ref", "actor", "actor_rollout", "policy", "algorithm", "trainer", "training_args", "args",
  "grpo", "sft", "ds", "deepspeed", "ckpt", "checkpointing", "optim", "loss_fn", "fsdp_config", "generation",
  "ppo",
};
const int tri_n_peer_sections = sizeof tri_peer_sections / sizeof *tri_peer_sections;
/* clang-format on */
