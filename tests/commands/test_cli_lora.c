/* test_cli_lora.c - the whole program with low-rank adapters: saved, resumed, exported, PEFT's folders,
 * refusals. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_events.h"
#include "cli_facts.h"

#include <math.h>

#include "io/model/safetensors.h"

#define NEW   LOAD "lora.rank=4 "
#define LORA  NEW "model.path=model "
#define STILL "train.learning_rate=1e-30 train.steps=1 " /* too small to change any f32 */
#define PEFT  "'" TRI_TEST_DATA "/lora/llama'"
#define RM                                                                                                   \
  LOAD STILL "algo.name=rm data.train=pairs.jsonl train.train_batch_size=2 "                                 \
             "train.micro_batch_size=1 "
#define PPO                                                                                                  \
  GRPO "algo.name=ppo model.config=null model.tokenizer=null run.resume=auto checkpoint.save_final=true "
#define TOKENS                                                                                               \
  "train sft.yaml model.config=null model.tokenizer=null model.path='" TRI_TEST_DATA                         \
  "/model/llama' data.train=tokens.jsonl "

/* The lines of a run, without members that may differ. */
static void numbers_of(const char *output) {
  cli_sh("sed -E -e 's/\"(time|mem)_[a-z_]*\": [^,}]*,? ?//g' -e 's/\"[a-z_]*_per_s\": [^,}]*,? ?//g' "
         "%s/metrics.jsonl > %s.numbers",
         output, output);
}

/* Checks that `got` has exactly the tensors of `want`, and returns the largest difference. */
static double difference(const char *got, const char *want) {
  tri_safetensors *a = NULL, *b = NULL;
  double           most = 0;

  assert_int_equal(tri_safetensors_open(got, &a), TRI_OK);
  assert_int_equal(tri_safetensors_open(want, &b), TRI_OK);
  assert_int_equal(tri_safetensors_count(a), tri_safetensors_count(b));
  for (int64_t i = 0; i < tri_safetensors_count(b); i++) {
    const tri_safetensors_info *y = tri_safetensors_at(b, i), *x = tri_safetensors_find(a, y->name);
    float                      *p, *q;
    if (!x || x->count != y->count) fail_msg("%s: no %s of that shape", got, y->name);
    p = calloc((size_t)y->count, sizeof *p), q = calloc((size_t)y->count, sizeof *q);
    assert_int_equal(tri_safetensors_read_f32(a, x, 0, x->count, p), TRI_OK);
    assert_int_equal(tri_safetensors_read_f32(b, y, 0, y->count, q), TRI_OK);
    for (int64_t k = 0; k < y->count; k++) { /* with fmax gcc 12 fails on Arm with an internal error */
      double d = fabs((double)p[k] - (double)q[k]);
      if (!(d <= most)) most = d;
    }
    free(p), free(q);
  }
  tri_safetensors_close(&a);
  tri_safetensors_close(&b);
  return most;
}

/* One rank and two, in one go and in two, give the same bits. The checkpoint holds only the adapters. */
static void resumed_bit_for_bit(void **state) {
  (void)state;
  cli_succeeds(ONE LORA "run.output=whole");
  cli_tells("lora: ", "0.003712 M ", "15.6 %", "rank 4", "alpha 16", "q_proj");
  if (strstr(cli_err, "warning")) fail_msg("%s", cli_err); /* A has no gradient as long as B is 0 */
  cli_sh("state() { sed -n 's/.*\"mem_state_bytes\": \\([0-9]*\\).*/\\1/p' $1/metrics.jsonl | tail -1; }; "
         "[ $((2 * $(state whole))) -lt $(state run) ]");
  cli_succeeds(ONE LORA "run.output=parts train.steps=1");
  cli_succeeds(ONE LORA "run.output=parts");
  cli_resumed("parts", "parts/checkpoints/step-00000001", 0);
  numbers_of("whole"), numbers_of("parts");
  cli_sh("cmp whole.numbers parts.numbers && [ $(wc -l < whole.numbers) = 2 ]");
  cli_succeeds(ONE "inspect whole --tensors");
  cli_shows(cli_out, "tensors in /adapter/model");
  cli_shows(cli_out, "tensors in /adapter/optimizer/exp_avg_sq");
  if (strstr(cli_out, "tensors in /model") || strstr(cli_out, "embed_tokens")) fail_msg("%s", cli_out);
  cli_shows(cli_out, "3712 parameters of adapters");
}

/* The checkpoint's adapters and the merged model agree up to f32's rounding. The base is unchanged. */
static void export_merges(void **state) {
  (void)state;
  cli_sh("cp model/model.safetensors before.safetensors");
  cli_succeeds(ONE "export whole merged");
  cli_succeeds(ONE "score whole sft.jsonl");
  cli_sh("cp .out with");
  cli_succeeds(ONE "score merged sft.jsonl");
  cli_sh("for f in with .out; do tr -c '0-9.\\n-' ' ' < $f > $f.n; done; paste -d ' ' with.n .out.n | awk '"
         "{ for (i = 1; i <= NF / 2; i++) { d = $i - $(i + NF / 2); if (d * d > 1e-9) exit 1 } }'");
  cli_succeeds(ONE "score model sft.jsonl");
  cli_sh("! cmp -s .out with && cmp model/model.safetensors before.safetensors");
  if (difference("merged", "model") < 1e-4) fail_msg("merged weights are the base's");
  cli_succeeds(ONE "generate whole 1+1= 12 3+4= --temperature 0 --max-new 8");
  cli_sh("cp .out answers");
  cli_succeeds(ONE "generate merged 1+1= 12 3+4= --temperature 0 --max-new 8 --dtype f32");
  cli_sh("cmp .out answers");
  cli_succeeds(ONE "eval whole --data rl.jsonl --reward exact --max-new 4");
}

/* Writes the adapters of `ours` into the folder, with the names of a model of text and images. */
static void put_half(const char *folder, const char *head, const char *beside) {
  enum { MOST = 64 };
  static char             name[MOST][128];
  tri_safetensors_spec    spec[MOST];
  tri_safetensors        *in = NULL;
  tri_safetensors_writer *out = NULL;
  char                    path[256];

  assert_int_equal(tri_safetensors_open("ours/adapter_model.safetensors", &in), TRI_OK);
  assert_in_range(tri_safetensors_count(in), 1, MOST - 1);
  for (int64_t i = 0; i < tri_safetensors_count(in); i++) {
    const tri_safetensors_info *t = tri_safetensors_at(in, i);
    snprintf(name[i], sizeof name[i], "base_model.model.%s%s", head,
             t->name + strlen("base_model.model.model."));
    spec[i] = (tri_safetensors_spec){name[i], TRI_F32, t->ndim, {t->dim[0], t->dim[1]}, NULL};
  }
  snprintf(path, sizeof path, "%s/adapter_model.safetensors", folder);
  if (beside) spec[tri_safetensors_count(in)] = (tri_safetensors_spec){beside, TRI_F32, 1, {2}, NULL};
  assert_int_equal(tri_safetensors_create(path, spec, tri_safetensors_count(in) + (beside != NULL), &out),
                   TRI_OK);
  for (int64_t i = 0; i < tri_safetensors_count(in); i++) {
    const tri_safetensors_info *t = tri_safetensors_at(in, i);
    float                      *v = calloc((size_t)t->count, sizeof *v);
    assert_int_equal(tri_safetensors_read_f32(in, t, 0, t->count, v), TRI_OK);
    assert_int_equal(tri_safetensors_put(out, i, 0, t->count, v), TRI_OK);
    free(v);
  }
  if (beside)
    assert_int_equal(tri_safetensors_put(out, tri_safetensors_count(in), 0, 2, (float[2]){1, 2}), TRI_OK);
  assert_int_equal(tri_safetensors_commit(&out), TRI_OK);
  tri_safetensors_close(&in);
}

/* Trained with the whole model, as transformers names it now and did before. */
static void adapters_of_a_text_half(void **state) {
  static const char *const head[] = {"model.language_model.", "language_model.model."};

  (void)state;
  for (int i = 0; i < 2; i++) {
    cli_sh("rm -rf half half_run back && mkdir half && tr -d '\\n' <ours/adapter_config.json | sed -e "
           "'s/\"target_modules\": *\\[[^]]*\\]/\"target_modules\": PATTERN/' -e "
           "'s/PATTERN/\"^(.*language_model(?=[.]).*[.](self_attn|mlp)[.].*_proj)$\"/' "
           ">half/adapter_config.json && "
           "grep -q 'language_model' half/adapter_config.json");
    put_half("half", head[i], i ? NULL : "base_model.model.model.vision_tower.layers.0.q_proj.lora_A.weight");
    cli_succeeds(ONE LOAD STILL "model.path=model lora.path=half run.output=half_run");
    assert_int_equal(cli_events("half_run", ALARM("adapters_left_out")), !i);
    if (!i) cli_tells("half: ", " 1 of ");
    cli_succeeds(ONE "export half_run back --adapter");
    cli_sh(
        "cmp ours/adapter_model.safetensors back/adapter_model.safetensors && cmp ours/adapter_config.json "
        "back/adapter_config.json");
  }
  cli_sh("cp ours/adapter_config.json half/");
  put_half("half", "model.language_model.", "base_model.model.lm_head.lora_A.weight"); /* needed for text */
  cli_fails(64, ONE LOAD "model.path=model lora.path=half run.output=bad", "half", "lm_head");
  put_half("half", "model.vision_tower.", NULL);
  cli_fails(64, ONE LOAD "model.path=model lora.path=half run.output=bad", "half", "vision_tower");
}

/* PEFT's folder keeps its numbers through a run and a checkpoint, and so does ours. */
static void peft_folders_come_and_go(void **state) {
  (void)state;
  cli_write("tokens.jsonl", "{\"tokens\": [1, 2, 3, 4, 5, 6]}\n{\"tokens\": [7, 8, 9, 10]}\n");
  cli_succeeds(ONE TOKENS STILL "lora.path=" PEFT
                                " run.output=peft train.train_batch_size=2 train.micro_batch_size=1");
  cli_succeeds(ONE "export peft theirs --adapter");
  assert_true(difference("theirs/adapter_model.safetensors",
                         TRI_TEST_DATA "/lora/llama/adapter_model.safetensors") == 0);
  cli_sh("cd theirs && for x in '\"r\": 4' '\"lora_alpha\": 6' '\"peft_type\": \"LORA\"'; do "
         "grep -q \"$x\" adapter_config.json || exit 1; done; [ ! -e config.json ]");
  cli_succeeds(ONE "train sft.yaml lora.rank=2 train.steps=1 run.output=fresh");
  cli_succeeds(ONE "export fresh no_base --adapter");
  cli_says(cli_err, "warning", "fresh", "model.config", "--adapter");
  cli_succeeds(ONE "export whole ours --adapter");
  cli_succeeds(ONE "inspect ours --tensors");
  cli_shows(cli_out, "lora_A.weight");
  cli_succeeds(TWO LOAD STILL "model.path=model lora.path=ours run.output=again");
  cli_succeeds(ONE "export again ours2 --adapter");
  cli_sh("cmp ours/adapter_model.safetensors ours2/adapter_model.safetensors");
  /* A pattern, with names and exclusions that mean nothing here, selects the same modules as a list */
  cli_sh("cp -r ours pattern && tr -d '\\n' <ours/adapter_config.json | "
         "sed -e 's/\"target_modules\": *\\[[^]]*\\]/\"exclude_modules\": [\"lm_head\"], "
         "\"target_modules\": PATTERN/' "
         "-e 's/PATTERN/\".*\\\\\\\\.(self_attn|mlp)\\\\\\\\..*_proj\"/' >pattern/adapter_config.json && "
         "grep -q '_proj\"' pattern/adapter_config.json");
  cli_succeeds(ONE LOAD STILL "model.path=model lora.path=pattern run.output=again2");
  cli_succeeds(ONE "export again2 ours3 --adapter");
  cli_sh("cmp ours/adapter_model.safetensors ours3/adapter_model.safetensors && cmp ours/adapter_config.json "
         "ours3/adapter_config.json");
}

/* The base model of adapters is recognised at any place, and no other model is accepted. */
static void the_base_is_known(void **state) {
  (void)state;
  cli_sh("rm -rf moved; mv model moved");
  cli_fails_in(64, ONE "score whole sft.jsonl", "open_base", "whole/checkpoints/step-00000002");
  cli_tells("/model ", "model.path", "--base");
  cli_fails_in(64, ONE "export whole none", "open_base", "/model ");
  cli_fails_in(64, TWO LORA "run.output=whole train.steps=3", "open_base", "/model ");
  cli_succeeds(ONE "score whole sft.jsonl --base moved");
  cli_sh("cmp .out with");
  cli_succeeds(ONE NEW "run.output=whole model.path=moved train.steps=3");
  cli_shows(cli_err, "model.path: \"model\" -> \"moved\"");
  cli_sh("cp -r moved model && printf '\\001' | dd of=model/model.safetensors bs=1 "
         "seek=$(($(wc -c < model/model.safetensors) - 9)) conv=notrunc 2>/dev/null");
  cli_fails_in(64, ONE "export parts none", "tri_source_refuse_base", "model.norm.weight");
  cli_tells("parts/checkpoints/step-00000002", "/model");
  cli_fails_in(64, TWO LORA "run.output=parts train.steps=3", "tri_source_refuse_base", "model.norm.weight");
  cli_sh("rm -rf model; cp -r moved model");
}

static void what_does_not_fit_is_refused(void **state) {
  (void)state;
  cli_write("pairs.jsonl", "{\"prompt\": \"1+1=\", \"chosen\": \"2\", \"rejected\": \"3\"}\n"
                           "{\"prompt\": \"3+4=\", \"chosen\": \"7\", \"rejected\": \"1\"}\n");
  cli_fails(64, ONE LORA "run.output=bad lora.targets=c_attn", "lora.targets", "'c_attn'");
  cli_tells(" q_proj, k_proj, ");
  cli_fails(64, ONE LOAD "model.path=model run.output=bad lora.path=ours lora.rank=8", "lora.rank",
            "lora.path");
  cli_tells(" 4 ", " 16");
  cli_fails_in(64, ONE LOAD "model.path=model run.output=bad lora.path=gone", "tri_source_add_adapters",
               "gone: ");
  cli_tells("lora.path");
  cli_fails_in(64, ONE LOAD "model.path=model run.output=bad lora.path=whole", "fail_unknown", "whole: ");
  cli_tells("adapter_config.json", "export --adapter", "lora.path");
  cli_sh("mkdir -p tuned/checkpoint-9 tuned/checkpoint-20 && cp ours/* tuned/checkpoint-9/ && cp ours/* "
         "tuned/checkpoint-20/");
  cli_fails_in(64, ONE LOAD "model.path=model run.output=bad lora.path=tuned", "fail_unknown", "tuned: ");
  cli_tells("adapter_config.json", " tuned/checkpoint-20");
  cli_sh("mv tuned/checkpoint-9/adapter_model.safetensors tuned/checkpoint-9/adapter_model.bin");
  cli_fails(64, ONE LOAD "model.path=model run.output=bad lora.path=tuned/checkpoint-9", "adapter_model.bin",
            "PeftModel.from_pretrained(MODEL, FOLDER).save_pretrained(FOLDER)");
  cli_fails_in(64, ONE LOAD "model.path=ours run.output=bad", "tri_source_open_over", "ours: ");
  cli_tells("adapter_config.json", "model.path", "lora.path");
  cli_fails_in(64, ONE LOAD "model.path=whole lora.rank=4 run.output=bad", "tri_source_check_plain",
               "whole/checkpoints/step-00000003");
  cli_tells("export --adapter whole/checkpoints/step-00000003");
  cli_fails(64, ONE LOAD "model.path=model lora.path=" PEFT " run.output=bad", "adapter_model.safetensors",
            "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight");
  cli_tells("[4, 24]", "[4, 32]");
  cli_fails_in(64, ONE RM "model.path=model lora.path=ours run.output=bad", "check_there",
               "base_model.model.score.weight");
  cli_tells("ours", "adapter_model.safetensors");
  cli_fails(64, ONE LOAD "model.path=model run.output=parts train.steps=3 lora.rank=8", "lora.rank: 4 -> 8",
            "run.resume=never");
  if (strstr(cli_err, "run.allow_changes")) fail_msg("%s", cli_err); /* adapters stay unchanged */
  cli_fails_in(64, ONE LOAD "model.path=model run.output=parts train.steps=3", "check_adapted",
               "parts/checkpoints/step-00000002");
  cli_tells("lora.rank", "lora.path");
  cli_fails_in(64, ONE LORA "run.output=parts train.steps=3 'run.allow_changes=[lora.rank]'", "check_allowed",
               "run.allow_changes: ");
  cli_tells(" lora.rank", "export --adapter");
  cli_fails_in(64, ONE "export run none --base model", "open_adapted", "--base");
  cli_tells("run/checkpoints/step-00000002", "adapter_config.json");
  cli_fails_in(64, ONE "score model sft.jsonl --base model", "check_base", "--base");
  cli_fails_in(64, ONE "export run none --adapter", "open_adapted", "lora.rank");
}

/* Commands take the adapters of a PEFT folder over the base model they are given, as they take those of the
 * run. */
static void adapters_are_taken_over_a_base(void **state) {
  (void)state;
  cli_succeeds(ONE "score parts sft.jsonl --json --dtype f32");
  cli_sh("cp .out beside");
  cli_succeeds(ONE "score model sft.jsonl --json --dtype f32");
  cli_sh("if cmp -s .out beside; then exit 1; fi");
  cli_succeeds(ONE "export parts alone --adapter");
  assert_null(strstr(cli_err, "warning"));
  cli_succeeds(ONE "score alone sft.jsonl --json --dtype f32 --base model");
  cli_sh("cmp .out beside");
  cli_succeeds(TWO "score alone sft.jsonl --json --dtype f32 --base model");
  cli_sh("cmp .out beside");
  cli_succeeds(ONE "generate parts 1 --temperature 0 --max-new 3 --dtype f32");
  cli_sh("cp .out beside");
  cli_succeeds(ONE "generate alone 1 --temperature 0 --max-new 3 --dtype f32 --base model");
  cli_sh("cmp .out beside");
  cli_fails_in(64, ONE "score alone sft.jsonl", "tri_source_open_over", "alone: ");
  cli_tells("adapter_config.json", "--base", "lora.path");
  cli_fails_in(64, ONE "score alone sft.jsonl --base gone", "tri_source_missing", "gone: ");
  cli_fails_in(64, TWO "score alone sft.jsonl --base parts", "tri_source_check_plain", "parts/checkpoints/");
}

/* trireme eval accepts another place for the base model of a run's adapters, such as a run's folder. A wrong
 * place is refused, even if the original one still has the model. */
static void an_evaluation_has_the_base_it_is_given(void **state) {
  (void)state;
  cli_succeeds(ONE LOAD STILL "lora.rank=4 model.path=run run.output=based checkpoint.save_final=true");
  cli_succeeds(ONE "export based based_alone --adapter"); /* PEFT cannot load a checkpoint */
  cli_tells("warning: ", "based/checkpoints/step-", "/run/checkpoints/step-", "trireme export ");
  cli_succeeds(ONE "eval based --data sft.jsonl --json");
  cli_sh("cp .out with");
  cli_fails_in(64, ONE "eval based --data sft.jsonl --base nowhere", "tri_source_missing", "nowhere: ");
  cli_sh("mv run elsewhere");
  cli_succeeds(TWO "eval based --data sft.jsonl --json --base elsewhere");
  cli_sh("cmp .out with; code=$?; mv elsewhere run; exit $code");
}

/* A full run from a checkpoint of adapters starts with base and adapters, and so does a reward model. A
 * checkpoint of adapters can serve as a reward model. */
static void runs_start_from_both(void **state) {
  (void)state;
  cli_succeeds(ONE LOAD STILL "model.path=whole run.output=full");
  cli_succeeds(ONE "export full full.out");
  cli_succeeds(ONE "export whole whole.out");
  assert_true(difference("full.out", "whole.out") < 1e-7);
  cli_succeeds(ONE RM "model.path=whole run.output=judge"); /* its head of tokens is replaced */
  cli_tells("whole", "score.weight");
  cli_succeeds(ONE RM "model.path=whole.out run.output=judge.out");
  numbers_of("judge"), numbers_of("judge.out");
  cli_sh("cmp judge.numbers judge.out.numbers");
  cli_succeeds(ONE RM "model.path=model lora.rank=2 run.output=adapted");
  cli_succeeds(ONE "train grpo.yaml 'reward=[{name: model, path: adapted}]' run.output=judged");
  cli_fails_in(64,
               ONE GRPO "algo.name=ppo lora.rank=2 'reward=[{name: model, path: adapted}]' run.output=bad",
               "add_adapters", "critic.lora: false");
  cli_tells("adapted/checkpoints/step-00000001", "critic.path");
  cli_succeeds(ONE SFT "run.output=random lora.rank=2 'lora.targets=[q_proj, down_proj]'"); /* no files */
  cli_succeeds(ONE SFT "run.output=random lora.rank=2 'lora.targets=[q_proj, down_proj]' train.steps=3");
  cli_succeeds(ONE "export random random.out");
}

/* A critic with adapters has the critic of another run as its base. The run continues if that critic has been
 * exported to a folder in the meantime. */
static void a_critics_base_is_exported(void **state) {
  (void)state;
  cli_succeeds(ONE PPO "model.path=model run.output=critics");
  cli_succeeds(ONE PPO "model.path=model lora.rank=2 critic.path=critics run.output=over");
  cli_succeeds(ONE "export critics critics.out --critic && rm -r critics");
  cli_succeeds(ONE PPO "model.path=model lora.rank=2 critic.path=critics.out run.output=over train.steps=2");
}

/* A weight of 1e6 is no number of float16. */
static void what_a_type_cannot_hold_is_refused(void **state) {
  (void)state;
  cli_sh("cp -r model big && printf '\\000\\044\\164\\111' | dd of=big/model.safetensors bs=1 "
         "seek=$(($(wc -c < big/model.safetensors) - 4)) conv=notrunc 2>/dev/null");
  cli_succeeds(ONE NEW STILL "model.path=big run.output=wide");
  cli_fails(64, ONE "export wide none --dtype fp16", " 1e+06", " 65504");
  cli_tells("model.norm.weight", "--dtype");
  cli_fails(70, ONE "score big rl.jsonl --completion-key answer --dtype fp16", "fp16", " 65504");
  cli_tells("--dtype");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(resumed_bit_for_bit),
                                     cmocka_unit_test(export_merges),
                                     cmocka_unit_test(peft_folders_come_and_go),
                                     cmocka_unit_test(adapters_of_a_text_half),
                                     cmocka_unit_test(adapters_are_taken_over_a_base),
                                     cmocka_unit_test(the_base_is_known),
                                     cmocka_unit_test(what_does_not_fit_is_refused),
                                     cmocka_unit_test(an_evaluation_has_the_base_it_is_given),
                                     cmocka_unit_test(runs_start_from_both),
                                     cmocka_unit_test(what_a_type_cannot_hold_is_refused),
                                     cmocka_unit_test(a_critics_base_is_exported)};

  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
