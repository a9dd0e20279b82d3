/* test_scored.c - tests models with a scalar head as folders and checkpoints. They are compared with the
 * scores that transformers gives and the files that it writes (make_score_golden.py). Run with 1 and 2
 * ranks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "model_case.h"

#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "io/model/export.h"
#include "io/model/source.h"
#include "refusal_case.h"

static const char *const models[] = {"model/llama_score",   "model/qwen2_score",  "model/mistral_score",
                                     "model/qwen3_score",   "model/gemma2_score", "model/gemma3_score",
                                     "model/phi3_score",    "model/gemma_score",  "model/olmo2_score",
                                     "model/smollm3_score", "model/olmo3_score",  "model/qwen3_5_score"};
enum { N_MODELS_SCORED = sizeof models / sizeof *models };
static char top[256]; /* the folder of this program */

static const float FIRST = 0.0650573447f; /* measured with seed 5 for score.weight */

enum { LONGEST = 40 }; /* tokens of one text */

typedef struct scorer {
  tri_session se;
  tri_source *source;
  tri_model  *m;
  void       *ints; /* device, i32: tokens, positions, then cu, row, target */
} scorer;

/* A model with a scalar head for the source in s, without weights. */
static void open_model(scorer *s) {
  tri_model_opt opt = {.shape = tri_source_shape(s->source),
                       .head = TRI_HEAD_SCALAR,
                       .plan = {TRI_SHARD_NODE, TRI_SHARD_NODE, TRI_SHARD_WORLD},
                       .max_tokens = LONGEST,
                       .max_rows = 1,
                       .max_positions = LONGEST,
                       .label = "reward"};

  session_open(&s->se, 0);
  opt.place = s->se.place;
  OK(tri_model_open(s->se.device, s->se.comm, s->se.ledger, &opt, &s->m));
  OK(tri_session_take_memory(&s->se));
  OK(tri_model_start(s->m, s->se.stream));
  OK(s->se.device->ops->alloc(s->se.device, TRI_MEM_DEVICE, (2 * LONGEST + 4) * sizeof(int32_t), &s->ints));
}

static tri_status load_model(scorer *s, tri_model_part part) {
  return tri_source_load(s->source, tri_part_group(part), tri_model_params(s->m), s->se.comm[TRI_WORLD],
                         s->se.stream);
}

static void open_scorer(scorer *s, const char *path, tri_model_part part) {
  memset(s, 0, sizeof *s);
  OK(tri_source_open_part(path, part, NULL, true, &s->source));
  OK(tri_source_check_scored(s->source));
  open_model(s);
  OK(load_model(s, part));
}

static void close_scorer(scorer *s) {
  s->se.device->ops->free(s->se.device, TRI_MEM_DEVICE, &s->ints);
  tri_model_close(&s->m);
  tri_source_close(&s->source);
  tri_session_close(&s->se);
}

/* Collective. The score of a text, at its last token. */
static float score(scorer *s, const int32_t *token, int32_t n) {
  int32_t host[2 * LONGEST + 4] = {0}, *at = s->ints;
  float  *value, x;

  memcpy(host, token, (size_t)n * sizeof *token);
  for (int32_t i = 0; i < n; i++) host[LONGEST + i] = i;
  host[2 * LONGEST + 1] = n;
  host[2 * LONGEST + 2] = n - 1;
  device_copy(s->se.stream, s->ints, host, sizeof host);
  tri_batch    b = {.token = tri_view1(at, TRI_I32, n),
                    .pos = tri_view1(at + LONGEST, TRI_I32, n),
                    .cu = tri_view1(at + 2 * LONGEST, TRI_I32, 2),
                    .row = tri_view1(at + 2 * LONGEST + 2, TRI_I32, 1),
                    .target = tri_view1(at + 2 * LONGEST + 3, TRI_I32, 1)};
  tri_rows_out given;
  OK(tri_model_forward(s->m, &b, false, 1.0f, &given, s->se.stream));
  value = device_get(s->se.stream, given.value.data, sizeof *value);
  x = *value;
  free(value);
  return x;
}

/* Collective. Compares with f64 within 1e-5 of the largest score. F32 roundings of 6e-8 pass through a
 * hundred sums. */
static void scores_are(scorer *s, const golden *g) {
  int32_t *token = golden_get_int(g, "tokens"), *length = golden_get_int(g, "lengths"), *at = token;
  float   *want = golden_get(g, "scores");

  for (int64_t i = 0; i < golden_count(g, "lengths"); i++, at += length[i - 1]) {
    float got = score(s, at, length[i]);
    CHECK(fabsf(got - want[i]) <= 1e-5f * fmaxf(1, fabsf(want[i])), "%s: text %lld scores %.9g, not %.9g",
          g->folder, (long long)i, (double)got, (double)want[i]);
  }
  free(token);
  free(length);
  free(want);
}

static void folder_scores_as_transformers(void **state) {
  (void)state;
  for (int i = 0; i < N_MODELS_SCORED; i++) {
    scorer s;
    golden g;
    golden_open(&g, models[i]);
    open_scorer(&s, g.folder, TRI_PART_MAIN);
    CHECK(tri_source_shape(s.source)->scored && isnan(tri_source_shape(s.source)->score_mean));
    CHECK(tri_source_eos(s.source)->pad == 0);
    scores_are(&s, &g);
    close_scorer(&s);
    golden_close(&g);
  }
}

/* ---- starting ---- */

/* Collective. All of score.weight on every rank. Free with free(). */
static float *head_of(scorer *s) {
  const tri_params_opt *o = tri_params_options(tri_model_params(s->m));
  int                   u = o->n_unit - 1, i = o->unit[u].n_param - 1;
  tri_range             piece = tri_params_piece(tri_model_params(s->m), u, i);
  int64_t               n = tri_param_count(&o->unit[u].param[i]);
  double               *sum = test_alloc(n, sizeof *sum);
  float                *own = test_alloc(n, sizeof *own);

  CHECK(!strcmp(o->unit[u].param[i].name, "score.weight"));
  OK(tri_params_read(tri_model_params(s->m), TRI_STATE_WEIGHT, u, i, piece.begin, piece.count, own,
                     s->se.stream));
  for (int64_t k = 0; k < piece.count; k++) sum[piece.begin + k] = (double)own[k];
  OK(tri_host_sum(s->se.comm[TRI_WORLD], sum, n));
  for (int64_t k = 0; k < n; k++) own[k] = (float)sum[k];
  free(sum);
  return own;
}

static float *started(const char *folder, uint64_t seed) {
  scorer s = {0};
  float *head;

  OK(tri_source_open(folder, NULL, true, &s.source));
  OK(tri_source_add_head(s.source, seed));
  CHECK(tri_source_shape(s.source)->scored);
  open_model(&s);
  OK(load_model(&s, TRI_PART_MAIN));
  head = head_of(&s);
  close_scorer(&s);
  return head;
}

/* The first number was drawn by one rank, and other counts of ranks draw the same one. The mean square of 24
 * normal numbers leaves 0.3 .. 2.2 times its expectation once in 10^4 draws. */
static void head_of_a_language_model_starts_by_seed(void **state) {
  golden g;
  double square = 0;

  (void)state;
  golden_open_model(&g, "model/llama");
  float *a = started(g.folder, 5), *b = started(g.folder, 5), *c = started(g.folder, 6);
  for (int k = 0; k < g.shape.C; k++) square += (double)a[k] * (double)a[k] / g.shape.C;
  square *= (g.shape.C + 1.0) * (g.shape.C + 1.0);
  CHECK(square > 0.3 && square < 2.2, "%g", square);
  CHECK(fabsf(a[0] - FIRST) < 1e-6f, "%.9g", (double)a[0]);
  CHECK(!memcmp(a, b, (size_t)g.shape.C * sizeof *a));
  for (int k = 0; k < g.shape.C; k++) CHECK(a[k] != c[k]);
  free(a);
  free(b);
  free(c);
  golden_close(&g);
}

/* ---- folders of others ---- */

static const char *in(const char *name) {
  static char path[4][600];
  static int  k;

  k = (k + 1) % 4;
  snprintf(path[k], sizeof path[k], "%s/%s", top, name);
  return path[k];
}

static char *text_of(const char *folder, const char *name) {
  char   path[800], *bytes;
  size_t n;

  snprintf(path, sizeof path, "%s/%s", folder, name);
  OK(tri_file_read(path, 1 << 20, &bytes, &n));
  return bytes;
}

static json_t *json_of(const char *folder, const char *name) {
  char   *text = text_of(folder, name);
  json_t *root = json_loads(text, 0, NULL);

  CHECK(root, "%s/%s", folder, name);
  TRI_FREE(text);
  return root;
}

/* Rank 0 writes FOLDER with the golden file's tensors and this config. Its head gets another name, or is left
 * out for NULL. */
static void put_folder(const char *folder, const golden *g, const char *head, const json_t *config) {
  tri_safetensors_writer *w;
  tri_safetensors_spec    spec[64] = {{0}};
  int64_t                 from[64], n = 0;
  char                    path[700];

  if (world->rank == 0) {
    CHECK(mkdir(folder, 0777) == 0);
    snprintf(path, sizeof path, "%s/config.json", folder);
    CHECK(json_dump_file(config, path, 0) == 0);
    for (int64_t i = 0; i < tri_safetensors_count(g->weights); i++) {
      const tri_safetensors_info *info = tri_safetensors_at(g->weights, i);
      bool                        is_head = !strcmp(info->name, "score.weight");
      if (is_head && !head) continue;
      from[n] = i;
      spec[n] = (tri_safetensors_spec){is_head ? head : info->name, TRI_F32, info->ndim, {0}, NULL};
      memcpy(spec[n++].dim, info->dim, sizeof info->dim);
    }
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    OK(tri_safetensors_create(path, spec, n, &w));
    for (int64_t i = 0; i < n; i++) {
      const tri_safetensors_info *info = tri_safetensors_at(g->weights, from[i]);
      float                      *x = test_alloc(info->count, sizeof *x);
      OK(tri_safetensors_read_f32(g->weights, info, 0, info->count, x));
      OK(tri_safetensors_put(w, i, 0, info->count, x));
      free(x);
    }
    OK(tri_safetensors_commit(&w));
  }
  OK(tri_host_barrier(world));
}

/* OpenRLHF (openrlhf/trainer/rm_trainer.py, cli/train_rm.py) names the class RewardModel. Its
 * value_head_prefix names the head. */
static void reads_what_openrlhf_writes(void **state) {
  golden  g;
  scorer  s;
  json_t *config;

  (void)state;
  golden_open_model(&g, models[0]);
  config = json_of(g.folder, "config.json");
  json_object_set_new(config, "architectures", json_pack("[s]", "RewardModel"));
  json_object_set_new(config, "value_head_prefix", json_string("value_head"));
  json_object_set_new(config, "normalize_reward", json_true());
  json_object_set_new(config, "mean", json_real(0.25));
  json_object_set_new(config, "std", json_real(1.5));
  json_object_del(config, "id2label");
  put_folder(in("openrlhf"), &g, "value_head.weight", config);
  open_scorer(&s, in("openrlhf"), TRI_PART_MAIN);
  CHECK(tri_source_shape(s.source)->score_mean == 0.25 && tri_source_shape(s.source)->score_std == 1.5);
  scores_are(&s, &g);
  close_scorer(&s);
  json_decref(config);
  golden_close(&g);
}

static void must_say(tri_status st, const char *part, const char *other) {
  CHECK(st == TRI_EINPUT && refusal_is(part) && strstr(tri_error_message(), other), "%s",
        tri_error_message());
  tri_error_clear();
}

static void no_head_is_refused(void **state) {
  golden  g, plain;
  scorer  s = {0};
  json_t *config;

  (void)state;
  golden_open(&plain, "model/qwen2");
  OK(tri_source_open(plain.folder, NULL, true, &s.source));
  must_say(tri_source_check_scored(s.source), "tri_source_fail_unscored() qwen2 score.weight algo.name",
           "score.weight");
  OK(tri_source_check_tokens(s.source));
  open_model(&s);
  must_say(load_model(&s, TRI_PART_MAIN), "tri_source_fail_unscored() qwen2 score.weight algo.name",
           "Qwen2ForSequenceClassification");
  close_scorer(&s);
  golden_close(&plain);

  /* a head named in config.json does not start new */
  golden_open_model(&g, models[0]);
  config = json_of(g.folder, "config.json");
  put_folder(in("headless"), &g, NULL, config);
  memset(&s, 0, sizeof s);
  OK(tri_source_open(in("headless"), NULL, true, &s.source));
  OK(tri_source_add_head(s.source, 1));
  must_say(tri_source_check_scored(s.source), "tri_source_fail_unscored() headless score.weight algo.name",
           ": rm");
  open_model(&s);
  must_say(load_model(&s, TRI_PART_MAIN), "tri_source_fail_unscored() headless score.weight algo.name",
           "score.weight");
  close_scorer(&s);
  json_decref(config);
  golden_close(&g);
}

static void a_head_of_tokens_is_refused(void **state) {
  for (int i = 0; i < 2; i++) {
    golden        g;
    scorer        s = {0};
    tri_model_opt opt;
    (void)state;
    golden_open_model(&g, models[i]);
    OK(tri_source_open(g.folder, NULL, true, &s.source));
    must_say(tri_source_check_tokens(s.source), "tri_source_check_tokens()", "ForSequenceClassification");
    session_open(&s.se, 0);
    opt = model_options(&g, &s.se, TRI_F32, LONGEST);
    OK(tri_model_open(s.se.device, s.se.comm, s.se.ledger, &opt, &s.m));
    OK(tri_session_take_memory(&s.se));
    must_say(tri_source_check(s.source, "/model", tri_model_params(s.m)), "tri_source_check_tokens()",
             "ForCausalLM");
    must_say(load_model(&s, TRI_PART_MAIN), "tri_source_check_tokens()", "ForCausalLM");
    close_scorer(&s);
    golden_close(&g);
  }
}

/* ---- checkpoints ---- */

/* Describes the tensors of the parts' models under their groups. With w given, writes this rank's ranges of
 * them. Returns their number. */
static int each_tensor(const golden *g, int parts, tri_ckpt_tensor *t, tri_ckpt_writer *w) {
  int n = 0;

  for (int part = 0; part < parts; part++)
    for (int64_t i = 0; i < tri_safetensors_count(g[part].weights); i++, n++) {
      const tri_safetensors_info *info = tri_safetensors_at(g[part].weights, i);
      int64_t                     begin = info->count * world->rank / world->size;
      int64_t                     n_own = info->count * (world->rank + 1) / world->size - begin;
      float                      *x;
      t[n] = (tri_ckpt_tensor){tri_part_group((tri_model_part)part), info->name, TRI_F32, info->ndim, {0}};
      memcpy(t[n].dim, info->dim, sizeof info->dim);
      if (!w) continue;
      x = test_alloc(n_own, sizeof *x);
      OK(tri_safetensors_read_f32(g[part].weights, info, begin, n_own, x));
      OK(tri_ckpt_write(w, n, begin, n_own, x));
      free(x);
    }
  return n;
}

/* Collective. Writes a checkpoint of a reward model and, with two parts, a critic of another family. Each
 * keeps the config.json of a language model with a head added. */
static void put_checkpoint(const char *dir, const golden *g, int parts) {
  tri_ckpt_tensor  tensor[128];
  tri_ckpt_writer *w;

  OK(tri_ckpt_create(dir, 1, world, tensor, each_tensor(g, parts, tensor, NULL), 1 << 16, &w));
  each_tensor(g, parts, tensor, w);
  for (int part = 0; part < parts; part++) {
    char       *plain = text_of(g[part].folder, "language.json");
    tri_hf_text text = {"language.json", plain, strlen(plain)};
    tri_text    twin = {0};
    OK(tri_hf_config_with_head(&text, NULL, -1, &twin));
    OK(tri_ckpt_put_file(w, tri_part_config((tri_model_part)part), twin.data, twin.len));
    tri_text_free(&twin);
    TRI_FREE(plain);
  }
  OK(tri_ckpt_commit(&w));
}

/* Rank 0 exports the part. Its config.json must have the values that transformers writes, and its tensors the
 * same names and shapes. */
static void export_is_transformers(tri_ckpt_reader *r, tri_model_part part, const golden *g) {
  tri_export_opt opt = {TRI_BF16, TRI_EXPORT_SHARD_BYTES, part, false, NULL};
  tri_export_sum sum;
  const char    *folder = in(part == TRI_PART_MAIN ? "exported" : "exported_critic");

  if (world->rank == 0) {
    tri_safetensors *files;
    json_t          *got, *want = json_of(g->folder, "config.json"), *value;
    const char      *key;
    OK(tri_export(r, folder, &opt, &sum));
    got = json_of(folder, "config.json");
    json_object_foreach(want, key, value)
        CHECK(json_equal(json_object_get(got, key), value), "%s: `%s` is another", folder, key);
    CHECK(json_object_size(got) == json_object_size(want), "%s", json_dumps(got, 0));
    CHECK(!tri_file_in(folder, "generation_config.json"));
    OK(tri_safetensors_open(folder, &files));
    CHECK(tri_safetensors_count(files) == tri_safetensors_count(g->weights));
    for (int64_t i = 0; i < tri_safetensors_count(files); i++) {
      const tri_safetensors_info *a = tri_safetensors_at(files, i), *b = tri_safetensors_at(g->weights, i);
      CHECK(!strcmp(a->name, b->name) && !strcmp(a->dtype, b->dtype) && a->ndim == b->ndim &&
            !memcmp(a->dim, b->dim, sizeof a->dim));
    }
    tri_safetensors_close(&files);
    json_decref(got);
    json_decref(want);
  }
  OK(tri_host_barrier(world));
}

/* `trireme export --critic` writes the same folder. */
static void program_exports_the_critic(void) {
  char command[2000];

  snprintf(command, sizeof command, "'%s' export %s %s --critic 2>/dev/null && diff -r %s %s", test_program(),
           in("both"), in("by_program"), in("by_program"), in("exported_critic"));
  if (world->rank == 0) CHECK(system(command) == 0);
  OK(tri_host_barrier(world));
}

/* Loads them as a resumed run does, and from the export. */
static void a_checkpoint_holds_reward_model_and_critic(void **state) {
  golden           g[2];
  tri_ckpt_reader *r;

  (void)state;
  for (int i = 0; i < 2; i++) golden_open_model(&g[i], models[i]);
  put_checkpoint(in("both"), g, 2);
  OK(tri_ckpt_open(in("both/step-00000001"), world, true, &r));
  for (int i = 0; i < 2; i++) {
    tri_model_part part = (tri_model_part)i;
    scorer         s;
    open_scorer(&s, in("both"), part);
    CHECK(tri_source_shape(s.source)->family == g[i].shape.family);
    CHECK(!strcmp(tri_source_file_at(s.source, TRI_SOURCE_CONFIG)->name, tri_part_config(part)));
    CHECK(tri_source_shape(s.source)->scored);
    scores_are(&s, &g[i]);
    close_scorer(&s);
    export_is_transformers(r, part, &g[i]);
    open_scorer(&s, in(i ? "exported_critic" : "exported"), TRI_PART_MAIN);
    scores_are(&s, &g[i]);
    close_scorer(&s);
  }
  program_exports_the_critic();
  tri_ckpt_close(&r);
  for (int i = 0; i < 2; i++) golden_close(&g[i]);
}

static void no_critic_is_refused(void **state) {
  golden           g;
  tri_source      *s;
  tri_ckpt_reader *r;
  tri_export_opt   opt = {TRI_F32, TRI_EXPORT_SHARD_BYTES, TRI_PART_CRITIC, false, NULL};
  tri_export_sum   sum;

  (void)state;
  golden_open_model(&g, models[0]);
  put_checkpoint(in("one"), &g, 1);
  must_say(tri_source_open_part(in("one"), TRI_PART_CRITIC, NULL, true, &s),
           "tri_part_check() step-00000001 critic_config.json algo.name", "critic_config.json");
  tri_source_close(&s);
  must_say(tri_source_open_part(g.folder, TRI_PART_CRITIC, NULL, true, &s), "tri_source_open_over()",
           "llama_score");
  OK(tri_ckpt_open(in("one/step-00000001"), NULL, false, &r));
  must_say(tri_export(r, in("nothing"), &opt, &sum),
           "tri_part_check() step-00000001 critic_config.json algo.name", "ppo");
  CHECK(!tri_file_in(top, "nothing") && !tri_file_in(top, "nothing.tmp"));
  tri_ckpt_close(&r);
  golden_close(&g);
}

static int case_open(void **state) {
  const char *tmp = getenv("TMPDIR");

  ranks_open(state);
  if (world->size > 1) setenv("CMOCKA_TEST_ABORT", "1", 1);
  snprintf(top, sizeof top, "%s/test_scored.XXXXXX", tmp && strlen(tmp) < 200 ? tmp : "/tmp");
  if (world->rank == 0) CHECK(mkdtemp(top));
  OK(tri_host_bcast(world, top, sizeof top, 0));
  return 0;
}

static int case_close(void **state) {
  char command[300];

  OK(tri_host_barrier(world));
  snprintf(command, sizeof command, "rm -rf %s", top);
  if (world->rank == 0) CHECK(system(command) == 0);
  return ranks_close(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(folder_scores_as_transformers),
      cmocka_unit_test(head_of_a_language_model_starts_by_seed),
      cmocka_unit_test(reads_what_openrlhf_writes),
      cmocka_unit_test(no_head_is_refused),
      cmocka_unit_test(a_head_of_tokens_is_refused),
      cmocka_unit_test(a_checkpoint_holds_reward_model_and_critic),
      cmocka_unit_test(no_critic_is_refused),
  };
  return cmocka_run_group_tests(tests, case_open, case_close);
}
