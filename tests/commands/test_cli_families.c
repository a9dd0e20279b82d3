/* test_cli_families.c - the whole program with a small random model of every family. It is trained, saved,
 * exported and loaded again. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_events.h"
#include "cli_facts.h"

#define SIZES                                                                                                \
  "\"vocab_size\": 257, \"hidden_size\": 32, \"num_hidden_layers\": 3, \"num_attention_heads\": 4, "         \
  "\"num_key_value_heads\": 2, \"intermediate_size\": 24, \"max_position_embeddings\": 32, "                 \
  "\"initializer_range\": 0.1, \"eos_token_id\": 256, \"bos_token_id\": null, \"pad_token_id\": null"

/* A tensor its files have, and one more key. */
static const struct {
  const char *type, *more, *tensor, *scored;
} family[] = {
    {"mistral", "\"sliding_window\": 3", "self_attn.v_proj.weight", "MistralForSequenceClassification"},
    {"qwen3", "\"head_dim\": 10", "self_attn.q_norm.weight", "Qwen3ForSequenceClassification"},
    {"gemma2", "\"head_dim\": 10, \"sliding_window\": 3", "pre_feedforward_layernorm.weight",
     "Gemma2ForSequenceClassification"},
    {"gemma3_text", "\"head_dim\": 10, \"sliding_window\": 3, \"sliding_window_pattern\": 2",
     "self_attn.k_norm.weight", "Gemma3TextForSequenceClassification"},
    {"gemma", "\"head_dim\": 10", "post_attention_layernorm.weight", "GemmaForSequenceClassification"},
    {"phi3",
     "\"sliding_window\": null, \"auto_map\": {\"AutoConfig\": \"configuration_phi3.Phi3Config\", "
     "\"AutoModelForCausalLM\": \"modeling_phi3.Phi3ForCausalLM\"}",
     "mlp.gate_up_proj.weight", "Phi3ForSequenceClassification"},
    {"granite",
     "\"embedding_multiplier\": 3, \"attention_multiplier\": 0.2, \"residual_multiplier\": 0.4, "
     "\"logits_scaling\": 2, \"mlp_bias\": true",
     "mlp.down_proj.bias", "GraniteForSequenceClassification"},
    {"olmo2", "\"attention_bias\": true", "post_feedforward_layernorm.weight",
     "Olmo2ForSequenceClassification"},
    {"olmo3", "\"sliding_window\": 3", "self_attn.q_norm.weight", "Olmo3ForSequenceClassification"},
    {"smollm3",
     "\"no_rope_layers\": [1, 0, 1], \"use_sliding_window\": true, \"sliding_window\": 4, \"mlp_bias\": true",
     "mlp.up_proj.bias", "SmolLM3ForSequenceClassification"},
};
enum { N_FAMILIES = sizeof family / sizeof *family };

static double metric(const char *name) {
  char        text[CLI_TEXT_BYTES];
  const char *at;

  cli_read("grpo/metrics.jsonl", text);
  at = strstr(text, name);
  if (!at) fail_msg("no %s in %s", name, text);
  return atof(at + strlen(name) + 2);
}

/* Runs in bf16 with recomputed layers. The sampler's log-probabilities equal the trainer's, and memory equals
 * the plan. The export, under the family's own names, can be trained again. */
static void goes_in_and_out(void **state) {
  (void)state;
  for (int i = 0; i < N_FAMILIES; i++) {
    char config[1024];
    snprintf(config, sizeof config, "{\"model_type\": \"%s\", " SIZES ", %s}", family[i].type,
             family[i].more);
    cli_write("family.json", config);
    cli_sh("rm -rf grpo out again && mkdir tok && mv family.json tok/config.json && cp tokenizer.json tok");
    cli_succeeds(ONE GRPO
                 "run.output=grpo model.config=tok/config.json model.dtype=bf16 model.recompute=layer "
                 "rollout.max_response_length=12 checkpoint.save_final=true");
    assert_true(metric("\"sampler_gap_max_nats\"") == 0);
    assert_true(metric("\"mem_planned_bytes\"") == metric("\"mem_used_bytes\""));
    cli_succeeds(ONE "export grpo out --dtype bf16");
    cli_sh("grep -q 'model.layers.2.%s' out/model.safetensors && ! grep -q auto_map out/config.json && "
           "grep -q ForCausalLM out/config.json", /* the name for a config.json without a class */
           family[i].tensor);
    cli_succeeds(ONE LOAD "model.path=out run.output=again train.steps=1");
    cli_sh("rm -r tok");
  }
}

/* A reward model of it has the class of transformers. */
static void scores(void **state) {
  (void)state;
  cli_write("pairs.jsonl", "{\"prompt\": \"1+1=\", \"chosen\": \"2\", \"rejected\": \"3\"}\n"
                           "{\"prompt\": \"1+2=\", \"chosen\": \"3\", \"rejected\": \"33\"}\n");
  for (int i = 0; i < N_FAMILIES; i++) {
    char config[1024];
    snprintf(config, sizeof config, "{\"model_type\": \"%s\", " SIZES ", %s}", family[i].type,
             family[i].more);
    cli_write("family.json", config);
    cli_sh("rm -rf rm scorer");
    cli_succeeds(ONE SFT "algo.name=rm data.train=pairs.jsonl model.config=family.json train.steps=1 "
                         "train.train_batch_size=2 train.micro_batch_size=2 run.output=rm");
    cli_succeeds(ONE "export rm scorer");
    cli_sh("grep -q %s scorer/config.json && grep -q score.weight scorer/model.safetensors",
           family[i].scored);
    cli_succeeds(ONE GRPO
                 "'reward=[{name: model, path: scorer}]' run.output=scored-$$ model.config=family.json");
  }
}

static void refusals_name_the_key(void **state) {
  (void)state;
  cli_write("config.json", "{\"model_type\": \"gemma3_text\", " SIZES ", \"attn_logit_softcapping\": 50}");
  cli_refuses(64, ONE SFT, "tri_hf_check_fields", "config.json", "attn_logit_softcapping", "gemma3_text",
              "model.config");
  cli_write("config.json", "{\"model_type\": \"phi3\", " SIZES ", \"rope_scaling\": {\"type\": \"yarn\"}}");
  cli_refuses(64, TWO SFT, "find_type", "config.json", "rope_scaling", "yarn", "phi3", "default", "longrope");
  cli_write("config.json", "{\"model_type\": \"mistral\", " SIZES ", \"use_sliding_window\": false}");
  cli_refuses(64, ONE SFT, "read_switch", "config.json", "use_sliding_window", "mistral", "sliding_window");
}

/* A run uses one of longrope's lists of factors for all its sequences, in its sampler too. It is chosen by
 * the longest possible sequence at the start. Commands on its checkpoint use the same. */
static void longrope_is_chosen_once(void **state) {
  (void)state;
  cli_sh("rm -rf tok grpo out && mkdir tok && cp tokenizer.json tok");
  cli_write(
      "tok/config.json",
      "{\"model_type\": \"phi3\", " SIZES ", \"original_max_position_embeddings\": 8, "
      "\"partial_rotary_factor\": 0.75, \"sliding_window\": null, \"rope_scaling\": {\"type\": \"longrope\", "
      "\"short_factor\": [1, 1, 1.5], \"long_factor\": [1, 2, 16]}}");
#define LONG GRPO "run.output=grpo model.config=tok/config.json checkpoint.save_final=true "
  cli_succeeds(ONE LONG "model.dtype=bf16 rollout.max_response_length=12");
  assert_int_equal(cli_events("grpo", ALARM("rope_factors")), 1);
  cli_says(cli_err, "model.rope_factors: long", "16", "original_max_position_embeddings = 8");
  assert_true(metric("\"sampler_gap_max_nats\"") == 0);
  cli_sh("grep -q 'rope_factors: long' grpo/deck.yaml");
  cli_refuses(64,
              ONE LONG "model.dtype=bf16 rollout.max_response_length=12 model.rope_factors=short "
                       "run.resume=auto",
              "refuse", "run.allow_changes: [model.rope_factors]");
  cli_succeeds(ONE LONG "model.dtype=bf16 rollout.max_response_length=2 train.steps=9 "
                        "run.resume=auto run.allow_changes=rollout.max_response_length");
  cli_says(cli_err, "model.rope_factors: long", "original_max_position_embeddings = 8", "short_factor");
  assert_int_equal(cli_saying(cli_err, "model.rope_factors: long", "16"), 0);
  cli_succeeds(ONE "generate grpo 1+1= --max-new 2");
  cli_says(cli_err, "warning", "long_factor", "model.rope_factors", "6", "8");
  cli_succeeds(ONE "export grpo out && " ONE "generate out 1+1= --max-new 2");
  assert_null(strstr(cli_err, "_factor"));
  cli_write("short.jsonl", "{\"tokens\": [1, 2, 3, 4]}\n"); /* the longest line counts, not a batch of them */
  cli_succeeds(ONE "score out short.jsonl");
  assert_null(strstr(cli_err, "_factor"));
  cli_succeeds(ONE LONG "rollout.max_response_length=2");
  cli_sh("grep -q 'rope_factors: short' grpo/deck.yaml");
  cli_fails(64, ONE LOAD "model.path=model run.output=bad model.rope_factors=long", "model.rope_factors",
            "longrope");
  cli_sh("rm -rf tok grpo out");
#undef LONG
}

/* The text model of a folder of text and images is trained, saved, exported, loaded again and inspected, with
 * the names of published files and those of transformers 5. A message says once that other tensors are left
 * out. */
static void text_halves_go_in_and_out(void **state) {
  static const char *const half[][4] = {
      {"gemma3_half", "gemma3_text", "Gemma3ForCausalLM", "34"},
      {"mistral3_half", "mistral", "MistralForCausalLM", "15"}}; /* left out */

  (void)state;
  cli_write("tokens.jsonl", "{\"tokens\": [1, 2, 3, 4, 5], \"prompt_tokens\": 3}\n"
                            "{\"tokens\": [7, 8, 9, 10], \"prompt_tokens\": 1}\n");
  cli_write("both.jsonl",
            "{\"chosen_tokens\": [1, 2, 3], \"rejected_tokens\": [1, 2, 4], \"prompt_tokens\": 2}\n"
            "{\"chosen_tokens\": [5, 6], \"rejected_tokens\": [5, 7], \"prompt_tokens\": 1}\n");
#define TOKENS   "data.train=tokens.jsonl " ONE_STEP
#define ONE_STEP "train.steps=1 train.train_batch_size=2 train.micro_batch_size=1 "
  for (int i = 0; i < 2; i++) {
    char command[2048];
    cli_sh("rm -rf run out again && cp -r '" TRI_TEST_DATA "/model/%s' whole", half[i][0]);
    cli_succeeds(TWO LOAD TOKENS "model.path=whole run.output=run");
    assert_int_equal(cli_saying(cli_err, "whole", half[i][1], half[i][3]), 1);
    assert_null(strstr(cli_err, "vision")); /* nothing of single tensors */
    cli_succeeds(ONE LOAD ONE_STEP "algo.name=dpo data.train=both.jsonl model.path=whole run.output=both");
    assert_int_equal(cli_saying(cli_err, "whole", half[i][1], half[i][3]), 1); /* for the reference too */
    cli_succeeds(ONE "export run out");
    cli_sh("grep -q '\"model_type\": \"%s\"' out/config.json && grep -q %s out/config.json && "
           "! grep -q 'vision\\|text_config' out/config.json",
           half[i][1], half[i][2]);
    cli_sh("grep -q model.layers.1.mlp out/model.safetensors && "
           "! grep -q 'vision\\|language_model' out/model.safetensors");
    cli_succeeds(ONE LOAD TOKENS "model.path=out run.output=again");
    assert_int_equal(cli_saying(cli_err, half[i][1], half[i][3]), 0);
    cli_succeeds(ONE LOAD TOKENS "model.path=whole run.output=again lora.rank=2 run.resume=never");
    cli_succeeds(ONE "export --adapter again adapters"); /* names PEFT uses to find its modules */
    cli_sh("grep -q '\"base_model.model.model.language_model.layers.1.mlp.up_proj.lora_A.weight\"' "
           "adapters/adapter_model.safetensors");
    cli_sh("! grep -q 'model.model.layers' adapters/adapter_model.safetensors && "
           "grep -q '\"target_modules\": \"\\.[*].*language_model.*up_proj' adapters/adapter_config.json");
    cli_succeeds(ONE LOAD TOKENS
                 "model.path=whole run.output=more lora.path=adapters train.learning_rate=1e-30");
    cli_succeeds(ONE "export --adapter more back"); /* the same bytes */
    cli_sh("cmp adapters/adapter_config.json back/adapter_config.json && "
           "cmp adapters/adapter_model.safetensors back/adapter_model.safetensors && rm -r back");
    cli_succeeds(ONE LOAD TOKENS "model.path=out run.output=again lora.rank=2 run.resume=never");
    cli_sh("rm -r adapters more");
    cli_succeeds(ONE "export --adapter again adapters");
    cli_sh("! grep -q language_model adapters/adapter_model.safetensors");
    cli_sh("rm -r adapters");
    snprintf(command, sizeof command, ONE "inspect whole | grep -q 'model  *%s,'", half[i][1]);
    cli_succeeds(command);
    cli_succeeds(ONE
                 "train sft.yaml data.train=tokens.jsonl model.config=whole/config.json model.tokenizer=null "
                 "train.steps=1 train.train_batch_size=2 train.micro_batch_size=2 run.output=random");
    cli_sh("rm -r whole random both");
  }
  cli_sh("rm -rf run out again");
#undef TOKENS
#undef ONE_STEP
}

/* The tokenizer of Gemma 3 has one token more than the matrix has rows. */
static void added_tokens_may_lie_beyond_the_vocabulary(void **state) {
  (void)state;
  cli_sh("cp -r model soft && sed 's/\"special\":true}]/\"special\":true},{\"id\":257,\"content\":\"<soft>\","
         "\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}]/' "
         "tokenizer.json >soft/tokenizer.json && grep -q soft soft/tokenizer.json");
  cli_succeeds(ONE "generate soft hi --max-new 4");
  cli_refuses(64, ONE "generate soft 'hi<soft>' --max-new 4", "check_rows", "'<soft>'", "257",
              "resize_token_embeddings");
  cli_write("soft.jsonl", "{\"prompt\":\"hi<soft>\"}\n");
  cli_sh("sed -i 's/\"vocab\":{/&\"<soft>\":257,/' soft/tokenizer.json && grep -q '<soft>\":257' "
         "soft/tokenizer.json"); /* there twice */
  cli_refuses(64, ONE "generate soft --prompts soft.jsonl", "put_encoded", "soft.jsonl:1", "'<soft>'", "257",
              "resize_token_embeddings");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(goes_in_and_out),
                                     cmocka_unit_test(scores),
                                     cmocka_unit_test(refusals_name_the_key),
                                     cmocka_unit_test(longrope_is_chosen_once),
                                     cmocka_unit_test(text_halves_go_in_and_out),
                                     cmocka_unit_test(added_tokens_may_lie_beyond_the_vocabulary)};
  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
