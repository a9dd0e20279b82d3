/* test_cli_families.c - the whole program with a small random model of every family. It is trained, saved,
 * exported and loaded again. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_events.h"
#include "cli_facts.h"
#include "device_case.h"
#include "io/model/safetensors.h"

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
    {"qwen3_5_text",
     "\"head_dim\": 8, \"layer_types\": [\"linear_attention\", \"full_attention\", \"linear_attention\"], "
     "\"linear_num_key_heads\": 2, \"linear_num_value_heads\": 4, \"linear_key_head_dim\": 8, "
     "\"linear_value_head_dim\": 6",
     "linear_attn.in_proj_qkv.weight", "Qwen3_5TextForSequenceClassification"},
};
enum { N_FAMILIES = sizeof family / sizeof *family };

/* The brief run takes every third family, beginning with this one, and each case other ones. */
static int brief(int first) { return test_step(2) > 1 ? first : 0; }

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
  for (int i = brief(1); i < N_FAMILIES; i += test_step(3)) {
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
  for (int i = brief(2); i < N_FAMILIES; i += test_step(3)) {
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
  cli_write("config.json", "{\"model_type\": \"qwen3_5_text\", " SIZES ", \"linear_conv_kernel_dim\": 9}");
  cli_refuses(64, ONE SFT, "tri_hf_get_int", "config.json", "linear_conv_kernel_dim", "9", "2 .. 8");
  cli_write("config.json", "{\"model_type\": \"qwen3_5_text\", " SIZES
                           ", \"layer_types\": [\"linear_attention\", \"sliding_attention\", "
                           "\"full_attention\"]}");
  cli_refuses(64, ONE SFT, "read_types", "config.json", "layer_types", "sliding_attention", "layer 1",
              "qwen3_5_text");
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

/* Tells whether two tensors of equal size have the same values. */
static bool have_same_values(const tri_safetensors *a, const tri_safetensors_info *x,
                             const tri_safetensors *b, const tri_safetensors_info *y) {
  float *was = calloc((size_t)x->count, sizeof *was), *is = calloc((size_t)x->count, sizeof *is);
  bool   same;

  assert_int_equal(tri_safetensors_read_f32(a, x, 0, x->count, was), TRI_OK);
  assert_int_equal(tri_safetensors_read_f32(b, y, 0, x->count, is), TRI_OK);
  same = !memcmp(was, is, (size_t)x->count * sizeof *is);
  free(was);
  free(is);
  return same;
}

static void have_same_bytes(const tri_safetensors *a, const tri_safetensors_info *x, const tri_safetensors *b,
                            const tri_safetensors_info *y) {
  char *was = malloc((size_t)x->bytes + 1), *is = malloc((size_t)x->bytes + 1);

  assert_string_equal(x->dtype, y->dtype);
  assert_int_equal(x->bytes, y->bytes);
  assert_int_equal(tri_safetensors_read_bytes(a, x, 0, x->bytes, was), TRI_OK);
  assert_int_equal(tri_safetensors_read_bytes(b, y, 0, x->bytes, is), TRI_OK);
  assert_memory_equal(was, is, (size_t)x->bytes);
  free(was);
  free(is);
}

/* Compares an export with the multimodal folder it was taken from, tensor by tensor. The names, files and
 * shapes are the same. A tensor of the text model has the type `dtype`, or with NULL its type in `before`.
 * Any other one has the same type and bytes. Returns the number of the others. *changed counts tensors with
 * other values. */
static int compare_whole(const char *before, const char *after, const char *dtype, int *changed) {
  tri_safetensors *a = NULL, *b = NULL;
  int              n_other = 0;

  *changed = 0;
  assert_int_equal(tri_safetensors_open(before, &a), TRI_OK);
  assert_int_equal(tri_safetensors_open(after, &b), TRI_OK);
  assert_int_equal(tri_safetensors_count(a), tri_safetensors_count(b));
  assert_int_equal(tri_safetensors_absent_count(b), 0);
  for (int64_t i = 0; i < tri_safetensors_count(a); i++) {
    const tri_safetensors_info *x = tri_safetensors_at(a, i), *y = tri_safetensors_at(b, i);
    char                        name[256];
    assert_string_equal(x->name, y->name);
    assert_string_equal(tri_safetensors_file_name(a, x->file), tri_safetensors_file_name(b, y->file));
    assert_int_equal(x->ndim, y->ndim);
    assert_memory_equal(x->dim, y->dim, sizeof x->dim);
    assert_memory_equal(x->more, y->more, sizeof x->more);
    snprintf(name, sizeof name, "%s", x->name);
    if (tri_safetensors_text_name(name)) {
      assert_string_equal(y->dtype, dtype ? dtype : x->dtype);
      *changed += !have_same_values(a, x, b, y);
    } else {
      have_same_bytes(a, x, b, y);
      n_other++;
    }
  }
  tri_safetensors_close(&a);
  tri_safetensors_close(&b);
  return n_other;
}

#define TOKENS   "data.train=tokens.jsonl " ONE_STEP
#define ONE_STEP "train.steps=1 train.train_batch_size=2 train.micro_batch_size=1 "
static void write_tokens(void) {
  cli_write("tokens.jsonl", "{\"tokens\": [1, 2, 3, 4, 5], \"prompt_tokens\": 3}\n"
                            "{\"tokens\": [7, 8, 9, 10], \"prompt_tokens\": 1}\n");
  cli_write("both.jsonl",
            "{\"chosen_tokens\": [1, 2, 3], \"rejected_tokens\": [1, 2, 4], \"prompt_tokens\": 2}\n"
            "{\"chosen_tokens\": [5, 6], \"rejected_tokens\": [5, 7], \"prompt_tokens\": 1}\n");
}

/* The multimodal models: folder, model_type and class of the text model, class, tensors of others. The names
 * are those of published files, and those of transformers 5. */
static const char *const half[][5] = {
    {"gemma3_half", "gemma3_text", "Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", "34"},
    {"mistral3_half", "mistral", "MistralForCausalLM", "Mistral3ForConditionalGeneration", "15"},
    {"qwen3_5_half", "qwen3_5_text", "Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration", "36"}};

/* The text model of a folder of text and images is trained, saved, exported into that folder's form, loaded
 * again and inspected. A message says once that other tensors are left out. */
static void text_halves_go_in_and_out(void **state) {
  int changed;

  (void)state;
  write_tokens();
  for (int i = brief(2); i < 3; i++) { /* other cases have the first folder too */
    char command[2048];
    cli_sh("rm -rf run out again && cp -r '" TRI_TEST_DATA "/model/%s' whole", half[i][0]);
    cli_succeeds(TWO LOAD TOKENS "model.path=whole run.output=run");
    assert_int_equal(cli_saying(cli_err, "whole", half[i][1], half[i][4]), 1);
    assert_null(strstr(cli_err, "vision")); /* nothing of single tensors */
    cli_succeeds(ONE LOAD ONE_STEP "algo.name=dpo data.train=both.jsonl model.path=whole run.output=both");
    assert_int_equal(cli_saying(cli_err, "whole", half[i][1], half[i][4]), 1); /* for the reference too */
    cli_succeeds(ONE "export run out");
    assert_int_equal(cli_saying(cli_err, "out", half[i][4]), 1);
    cli_sh("grep -q '\"architectures\": \\[' out/config.json && grep -q %s out/config.json && "
           "grep -q '\"text_config\"' out/config.json && grep -q '\"vision_config\"' out/config.json",
           half[i][3]);
    assert_int_equal(compare_whole("whole", "out", "F32", &changed), atoi(half[i][4]));
    assert_true(changed > 10);
    assert_false(cli_exists("out/model.safetensors.index.json"));
    cli_succeeds(ONE LOAD TOKENS "model.path=out run.output=again");
    assert_int_equal(cli_saying(cli_err, "out", half[i][1], half[i][4]), 1);
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
    cli_sh("grep -q language_model adapters/adapter_model.safetensors");
    cli_sh("rm -r adapters");
    snprintf(command, sizeof command, ONE "inspect whole | grep -q 'model  *%s,'", half[i][1]);
    cli_succeeds(command);
    snprintf(command, sizeof command, ONE "inspect whole --json | grep -q '\"left_out\": {\"tensors\": %s,'",
             half[i][4]);
    cli_succeeds(command);
    cli_succeeds(ONE "inspect whole");
    assert_int_equal(strstr(cli_out, "recurrent ") != NULL, i == 2);
    cli_succeeds(ONE
                 "train sft.yaml data.train=tokens.jsonl model.config=whole/config.json model.tokenizer=null "
                 "train.steps=1 train.train_batch_size=2 train.micro_batch_size=2 run.output=random");
    cli_succeeds(ONE "export random text"); /* a config alone has no other tensors */
    cli_sh("grep -q %s text/config.json && ! grep -q vision text/config.json", half[i][2]);
    cli_sh("rm -r whole random both text");
  }
  cli_sh("rm -rf run out again");
}

/* 3 states f32 [4,8,8] and tails bf16 [3,64], where 64 is 2 heads each for q and k, and 4 for v, of 8. */
static void inspect_names_recurrent_layers(void **state) {
  (void)state;
  cli_succeeds(ONE "inspect '" TRI_TEST_DATA "/model/qwen3_5_half'");
  cli_shows(cli_out, "\nrecurrent   3 layers, beside 1 of attention,\n"
                     "            2 heads of 8 for keys, 4 of 8 for values,\n"
                     "            state of a sequence 4.12 KiB in bf16\n");
  cli_succeeds(ONE "inspect '" TRI_TEST_DATA "/model/qwen3_5_half' --json");
  cli_shows(cli_out,
            "\"recurrent\": {\"layers\": 3, \"attention_layers\": 1, \"key_heads\": 2, \"key_width\": 8, "
            "\"value_heads\": 4, \"value_width\": 8, \"convolution_rows\": 4, "
            "\"state_bytes_bf16\": 4224}}, ");
}

/* A reward model is a text model. Its export has no place for the other tensors. */
static void a_reward_model_stays_a_text_model(void **state) {
  (void)state;
  write_tokens();
  cli_sh("rm -rf run out && cp -r '" TRI_TEST_DATA "/model/gemma3_half' whole");
  cli_succeeds(ONE LOAD ONE_STEP "algo.name=rm data.train=both.jsonl model.path=whole run.output=run");
  cli_succeeds(ONE "export run out");
  cli_sh(
      "grep -q Gemma3TextForSequenceClassification out/config.json && ! grep -q text_config out/config.json "
      "&& grep -q score.weight out/model.safetensors && ! grep -q vision out/model.safetensors");
  cli_sh("rm -rf run out whole");
}

/* A multimodal folder may be gone, moved or changed when its text model is exported. */
static void a_multimodal_folder_may_be_gone(void **state) {
  int changed;

  (void)state;
  write_tokens();
  for (int i = 0; i < 3; i++) {
    cli_sh("rm -rf run next out && cp -r '" TRI_TEST_DATA "/model/%s' whole", half[i][0]);
    cli_succeeds(ONE LOAD TOKENS "model.path=whole run.output=run");
    cli_sh("mv whole away");
    cli_succeeds(ONE LOAD TOKENS
                 "model.path=run run.output=next"); /* from a checkpoint, as from the folder */
    cli_succeeds(TWO LOAD "data.train=tokens.jsonl train.train_batch_size=2 train.micro_batch_size=1 "
                          "model.path=run run.output=next train.steps=2");
    cli_succeeds(ONE "export next out");
    assert_int_equal(cli_saying(cli_err, "warning", "whole", half[i][2], "--base"), 1);
    cli_sh("grep -q '\"model_type\": \"%s\"' out/config.json && grep -q %s out/config.json && "
           "! grep -q 'vision\\|text_config' out/config.json",
           half[i][1], half[i][2]);
    cli_sh("grep -q model.layers.1.mlp out/model.safetensors && "
           "! grep -q 'vision\\|language_model' out/model.safetensors && rm -r out");
    cli_succeeds(ONE "export next out --base away --dtype bf16");
    /* The third folder is bf16, and keeps its f32 tensors. */
    assert_int_equal(compare_whole("away", "out", i == 2 ? NULL : "BF16", &changed), atoi(half[i][4]));
    cli_sh("grep -q '\"\\(torch_\\)*dtype\": \"bfloat16\"' out/config.json && rm -r out");
    cli_sh("cp -r away whole");
    cli_succeeds(ONE "export next out --dtype fp16");
    assert_int_equal(compare_whole("away", "out", "F16", &changed), atoi(half[i][4]));
    cli_sh("rm -r out && printf x | dd of=whole/model.safetensors bs=1 conv=notrunc status=none "
           "seek=$(($(stat -c %%s whole/model.safetensors) - 2))");
    cli_succeeds(ONE "export next out");
    assert_int_equal(cli_saying(cli_err, "warning", "whole", "model.safetensors", half[i][2]), 1);
    cli_sh("! grep -q text_config out/config.json && rm -r out");
    cli_refuses(64, ONE "export next bad --base whole", "take_folder", "whole", "model.safetensors");
    cli_refuses(64, ONE "export next bad --base tok_none", "take_folder", "tok_none", "config.json");
    cli_sh("rm -r whole away");
  }
  cli_sh("rm -rf run next out");
}

/* Merged adapters go into the multimodal folder too, also if the base is a checkpoint or has moved. */
static void merged_adapters_go_into_the_multimodal_folder(void **state) {
  int changed, n;

  (void)state;
  write_tokens();
  cli_sh("rm -rf run next out && cp -r '" TRI_TEST_DATA "/model/gemma3_half' whole");
  cli_succeeds(ONE LOAD TOKENS "model.path=whole run.output=run lora.rank=2 lora.targets=[q_proj]");
  cli_succeeds(ONE "export run out");
  n = compare_whole("whole", "out", "F32", &changed);
  assert_int_equal(n, 34);
  assert_int_equal(changed, 2); /* q_proj of two layers */
  cli_sh("rm -r out && mv whole away");
  cli_succeeds(ONE "export run out --base away");
  assert_int_equal(compare_whole("away", "out", "F32", &changed), 34);
  cli_sh("rm -r out");
  cli_succeeds(ONE "export run out --adapter"); /* for the text model, since the other one is gone */
  assert_int_equal(cli_saying(cli_err, "warning", "whole", "Gemma3ForCausalLM"), 1);
  cli_sh("! grep -q language_model out/adapter_model.safetensors && rm -rf out run && mv away whole");
  cli_succeeds(ONE LOAD TOKENS "model.path=whole run.output=run");
  cli_succeeds(ONE LOAD TOKENS "model.path=run run.output=next lora.rank=2 lora.targets=[q_proj]");
  cli_succeeds(ONE "export next out");
  assert_int_equal(compare_whole("whole", "out", "F32", &changed), 34);
  assert_true(changed > 10);
  cli_sh("rm -r out");
  cli_succeeds(ONE "export next out --adapter"); /* for the export of its base, which is multimodal */
  cli_sh("grep -q language_model out/adapter_model.safetensors");
  cli_sh("rm -rf run next out whole && cp -r '" TRI_TEST_DATA "/model/qwen3_5_half' whole");
  cli_succeeds(TWO LOAD TOKENS "model.path=whole run.output=run lora.rank=2 lora.targets=[in_proj_b]");
  cli_succeeds(ONE "export run out");
  assert_int_equal(compare_whole("whole", "out", "F32", &changed), 36);
  assert_int_equal(changed,
                   3); /* in_proj_b of the recurrent layers, not in_proj_a, which is computed with it */
  cli_succeeds(ONE "export run out2 --dtype bf16"); /* A_log and the gated norm stay in f32 */
  assert_int_equal(compare_whole("whole", "out2", NULL, &changed), 36);
  assert_int_equal(changed, 3);
  cli_sh("rm -rf run next out out2 whole");
}

/* Appends a tensor of `bytes` bytes to a safetensors header. */
static int64_t put_entry(char *header, const char *name, const char *dtype, const char *shape, int64_t at,
                         int64_t bytes) {
  sprintf(header + strlen(header), "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%lld,%lld]}",
          header[1] ? "," : "", name, dtype, shape, (long long)at, (long long)(at + bytes));
  return at + bytes;
}

/* Writes a safetensors file with the tensors first, first + step, ... of another one, with `prefix` before
 * their names. more adds tensors as in vision towers and draft heads, of other types and dimensions, and a
 * copy of the tied head. */
static void write_shard(const char *path, const tri_safetensors *from, const char *prefix, int first,
                        int step, bool more) {
  char    header[1 << 14] = "{", *data = calloc(1, 1 << 20);
  int64_t at = 0;
  FILE   *f = fopen(path, "wb");

  assert_non_null(f);
  if (more) {
    memset(data, 7, 84);
    at = put_entry(header, "model.visual.position_ids", "I64", "[1,5]", at, 40);
    at = put_entry(header, "model.visual.patch.weight", "F16", "[2,1,2,1,5]", at, 40);
    at = put_entry(header, "mtp.fc.weight", "F32", "[1]", at, 4);
  }
  for (int64_t i = first; i < tri_safetensors_count(from); i += step) {
    const tri_safetensors_info *t = tri_safetensors_at(from, i);
    char                        shape[128] = "[", name[256];
    for (int k = 0; k < t->ndim; k++)
      sprintf(shape + strlen(shape), "%s%lld", k ? "," : "", (long long)t->dim[k]);
    strcat(shape, "]");
    for (int copy = 0; copy <= (more && strstr(t->name, "embed_tokens")); copy++) {
      snprintf(name, sizeof name, "%s%s", prefix, copy ? "lm_head.weight" : t->name);
      assert_int_equal(tri_safetensors_read_bytes(from, t, 0, t->bytes, data + at), TRI_OK);
      at = put_entry(header, name, t->dtype, shape, at, t->bytes);
    }
  }
  strcat(header, "}");
  for (int i = 0; i < 8; i++) fputc((int)(strlen(header) >> 8 * i & 255), f);
  fwrite(header, 1, strlen(header), f);
  assert_int_equal(fwrite(data, 1, (size_t)at, f), at);
  assert_int_equal(fclose(f), 0);
  free(data);
}

/* Files keep their names, and tensors their file, whatever the type and the dimensions. A stored copy of a
 * tied head gets the trained embedding. Settings for images come along. */
static void a_multimodal_folder_keeps_its_shards(void **state) {
  static const char *const name[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
  tri_safetensors         *from = NULL, *out = NULL;
  const tri_safetensors_info *head, *embed;
  char                        path[256];
  float                       a[41 * 16], b[41 * 16];
  int                         changed;
  FILE                       *index;
  int64_t                     n_embed;

  (void)state;
  write_tokens();
  cli_sh("rm -rf run out shards && cp -r '" TRI_TEST_DATA "/model/gemma3_half' shards && printf '{\"x\": 1}' "
         ">shards/preprocessor_config.json && printf '{\"y\": 2}' >shards/processor_config.json");
  assert_int_equal(tri_safetensors_open("shards/model.safetensors", &from), TRI_OK);
  index = fopen("shards/model.safetensors.index.json", "w");
  fprintf(index, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {");
  n_embed =
      tri_safetensors_find(from, "language_model.model.embed_tokens.weight") - tri_safetensors_at(from, 0);
  for (int s = 0; s < 2; s++) {
    snprintf(path, sizeof path, "shards/%s", name[s]);
    write_shard(path, from, "", s, 2, n_embed % 2 == s);
    for (int64_t i = s; i < tri_safetensors_count(from); i += 2)
      fprintf(index, "%s\"%s\": \"%s\"", i || s ? ", " : "", tri_safetensors_at(from, i)->name, name[s]);
  }
  fprintf(index, "}}");
  assert_int_equal(fclose(index), 0);
  tri_safetensors_close(&from);
  cli_sh("rm shards/model.safetensors");
  cli_succeeds(ONE LOAD TOKENS "model.path=shards run.output=run");
  assert_int_equal(cli_saying(cli_err, "shards", "gemma3_text", "37"), 1);
  cli_succeeds(ONE "export run out");
  assert_int_equal(compare_whole("shards", "out", "F32", &changed), 37);
  cli_sh("grep -q '\"model.visual.position_ids\": \"model-0000[12]-of' out/model.safetensors.index.json && "
         "! grep -q '\"total_size\": 1$' out/model.safetensors.index.json && test $(ls out | grep -c "
         "safetensors) = 3 && cmp shards/preprocessor_config.json out/preprocessor_config.json && "
         "cmp shards/processor_config.json out/processor_config.json");
  assert_int_equal(tri_safetensors_open("out", &out), TRI_OK);
  head = tri_safetensors_find(out, "lm_head.weight");
  embed = tri_safetensors_find(out, "language_model.model.embed_tokens.weight");
  assert_true(head && embed);
  assert_int_equal(head->count, 41 * 16);
  assert_int_equal(tri_safetensors_read_f32(out, head, 0, head->count, a), TRI_OK);
  assert_int_equal(tri_safetensors_read_f32(out, embed, 0, embed->count, b), TRI_OK);
  assert_memory_equal(a, b, sizeof a);
  tri_safetensors_close(&out);
  cli_sh("cp -r out good"); /* neither a full disk nor another export changes a good one */
  cli_fails(74, "trap '' XFSZ; ulimit -f 8; " ONE "export run bad",
            "bad.tmp/model-00001-of-00002.safetensors", NULL);
  cli_refuses(64, ONE "export run out", "check_free", "out");
  cli_sh("diff -r good out");
  cli_succeeds(ONE LOAD TOKENS "model.path=out run.output=again");
  cli_sh("rm -rf run out again shards good");
}
/* Writes the tensors of the text model in `text` into `folder`, among others. */
static void add_beside(const char *text, const char *folder, const char *prefix) {
  tri_safetensors *from = NULL;
  char             path[256];

  snprintf(path, sizeof path, "%s/model.safetensors", text);
  assert_int_equal(tri_safetensors_open(path, &from), TRI_OK);
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  write_shard(path, from, prefix, 0, 1, true);
  tri_safetensors_close(&from);
}

/* Makes a folder of text and images around the text model in `text`, with the names of transformers 4. */
static void wrap(const char *text, const char *folder, const char *architecture) {
  cli_sh(
      "cp -r %s %s && { printf '{\"architectures\": [\"%s\"], \"model_type\": \"gemma3\", \"vision_config\": "
      "{\"x\": 1}, \"image_token_index\": 260, \"text_config\": ' && cat %s/config.json && printf '}'; } "
      ">%s/config.json",
      text, folder, architecture, text, folder);
  add_beside(text, folder, "language_model.");
}

/* Runs a command on the text model and on the multimodal folder around it. Both print the same. */
static void prints_alike(const char *before, const char *after) {
  static char text[CLI_TEXT_BYTES];
  char        command[1024];

  snprintf(command, sizeof command, "%s text %s", before, after);
  cli_succeeds(command);
  memcpy(text, cli_out, sizeof text);
  assert_true(strlen(text) > 20);
  snprintf(command, sizeof command, "%s whole %s", before, after);
  cli_succeeds(command);
  assert_string_equal(cli_out, text);
}

/* Judge: the same command with the text model alone. */
static void every_command_takes_a_multimodal_folder(void **state) {
  static char       text[CLI_TEXT_BYTES];
  const char *const type = "Gemma3ForConditionalGeneration";
  int               changed;

  (void)state;
  cli_write("family.json", "{\"model_type\": \"gemma3_text\", " SIZES
                           ", \"head_dim\": 10, \"sliding_window\": 3, \"sliding_window_pattern\": 2}");
  cli_write("asks.jsonl",
            "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n{\"prompt\": \"2+2=\", \"answer\": \"4\"}\n");
  cli_sh("rm -rf run text whole out grpo");
  cli_succeeds(ONE SFT "model.config=family.json run.output=run train.steps=1");
  cli_succeeds(ONE "export run text");
  wrap("text", "whole", type);
  prints_alike(ONE "generate", "'1+1=' '2+' --max-new 6 --temperature 0");
  prints_alike(ONE "score", "sft.jsonl");
  prints_alike(ONE "eval", "--data asks.jsonl --reward exact --max-new 4");
  cli_succeeds(ONE LOAD "model.path=text run.output=bad --check");
  cli_succeeds(ONE LOAD "model.path=whole run.output=bad --check");
  cli_succeeds(ONE "plan sft.yaml model.config=null model.tokenizer=null model.path=text --json");
  memcpy(text, cli_out, sizeof text);
  cli_succeeds(ONE "plan sft.yaml model.config=null model.tokenizer=null model.path=whole --json");
  assert_non_null(strstr(text, "\"host_beside_bytes\"")); /* from there on the machine's load counts */
  assert_memory_equal(cli_out, text, (size_t)(strstr(text, "\"host_beside_bytes\"") - text));
  assert_false(cli_exists("bad"));
  cli_succeeds(ONE GRPO "model.config=null model.tokenizer=null model.path=whole run.output=grpo "
                        "checkpoint.save_final=true");
  assert_true(metric("\"sampler_gap_max_nats\"") == 0);
  cli_succeeds(ONE "export grpo out");
  assert_int_equal(compare_whole("whole", "out", "F32", &changed), 3);
  cli_sh("cmp whole/tokenizer.json out/tokenizer.json && cp -r text draft");
  add_beside("text", "draft", "");
  cli_succeeds(ONE "score draft sft.jsonl");
  assert_int_equal(cli_saying(cli_err, "draft", "1", "mtp"), 1); /* heads that draft, by their number */
  assert_null(strstr(cli_err, "mtp.fc"));
  assert_int_equal(cli_saying(cli_err, "warning", "draft", "model.visual.position_ids"), 1);
  cli_sh("rm -rf run text whole out grpo draft");
}
#undef TOKENS
#undef ONE_STEP

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
                                     cmocka_unit_test(a_multimodal_folder_may_be_gone),
                                     cmocka_unit_test(inspect_names_recurrent_layers),
                                     cmocka_unit_test(a_reward_model_stays_a_text_model),
                                     cmocka_unit_test(merged_adapters_go_into_the_multimodal_folder),
                                     cmocka_unit_test(a_multimodal_folder_keeps_its_shards),
                                     cmocka_unit_test(every_command_takes_a_multimodal_folder),
                                     cmocka_unit_test(added_tokens_may_lie_beyond_the_vocabulary)};
  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
