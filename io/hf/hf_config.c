/* hf_config.c - reads config.json and generation_config.json into tri_model_shape and end tokens. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "hf_config.h"

#include "base/file.h"
#include "base/host_memory.h"

#include "family/family.h"
#include "hf_config_impl.h"
#include "io/text/json_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  PATH_BYTES = 4096,
  FILE_LIMIT = 1 << 20,
  MOST_NESTED = 1 << 12
}; /* chosen: such files have a few KiB */

/* Limits of sizes, chosen as at least twice those of known dense models (53 248 wide, 262 144 tokens, 4e11
 * parameters). A file with impossible sizes is refused before they are used. */
enum { MOST_HEADS = 1 << 12, MOST_D = 512, MOST_WIDTH = 1 << 17, MOST_V = 1 << 22 };
static const int64_t MOST_PARAMETERS = (int64_t)1 << 42;

typedef tri_hf_source source;

/* Reads a size of the model. null is refused. */
static tri_status get_size(const source *s, const char *key, int64_t missing, int64_t most, int *out) {
  int64_t v;

  if (json_is_null(json_object_get(s->root, key)))
    TRI_FAIL(TRI_EINPUT, "%s: `%s` must be a whole number", s->name, key);
  TRI_TRY(tri_hf_get_int(s, key, missing, 1, most, &v));
  *out = (int)v;
  return TRI_OK;
}

/* Lists the known families, joined by `last`: "llama or qwen2". */
static void list_families(const char *last, char *out, size_t bytes) {
  size_t at = 0;

  for (const tri_family *const *f = tri_families; *f && at < bytes; f++)
    at += (size_t)snprintf(out + at, bytes - at, "%s%s",
                           f == tri_families ? ""
                           : f[1]            ? ", "
                                             : last,
                           (*f)->model_type);
}

static tri_status find_family(const source *s, const tri_family **out, bool *scored) {
  const char *type;
  char        known[PATH_BYTES];

  TRI_TRY(tri_hf_get_text(s, "model_type", &type));
  list_families(type ? " and " : " or ", known, sizeof known);
  if (!type) TRI_FAIL(TRI_EINPUT, "%s: has no `model_type`, it must be %s", s->name, known);
  *out = tri_family_find(type);
  if (!*out)
    TRI_FAIL(TRI_EINPUT, "%s: `model_type` is `%s`, but this version knows only %s", s->name, type, known);
  return tri_hf_check_architecture(s->name, s->root, *out, scored);
}

/* Checks for the family's own activation in the MLP. In families with GELU transformers reads the second key.
 * An alias is accepted only under the first key. A hidden_activation is taken literally. */
static tri_status check_act(const source *s, const tri_family *f) {
  static const char *const key[] = {"hidden_act", "hidden_activation"};
  const char              *own = f->gelu ? "gelu_pytorch_tanh" : "silu", *act;

  for (int i = 0; i < 2; i++) {
    const char *alias = i == 0 ? f->gelu_alias : NULL;
    TRI_TRY(tri_hf_get_text(s, key[i], &act));
    if (act && strcmp(act, own) && !(alias && !strcmp(act, alias)))
      TRI_FAIL(TRI_EINPUT, "%s: `%s` is `%s`, but a %s model must have %s", s->name, key[i], act,
               f->model_type, own);
  }
  return TRI_OK;
}

/* Refuses settings beyond this program's computations, and all unknown fields. */
static tri_status refuse_unknown(const source *s, const tri_family *f) {
  const json_t *dropout = json_object_get(s->root, "attention_dropout");

  TRI_TRY(check_act(s, f));
  if (tri_hf_has(s, "quantization_config"))
    TRI_FAIL(TRI_EINPUT,
             "%s: `quantization_config`: quantized weights are not read. Take the model in bf16 or f32.",
             s->name);
  if (tri_hf_has(s, "attention_dropout") && (!json_is_number(dropout) || json_number_value(dropout) != 0))
    TRI_FAIL(TRI_EINPUT, "%s: `attention_dropout` must be 0, because this program has no dropout", s->name);
  return tri_hf_check_fields(s->name, s->root, f);
}

static tri_status read_heads(const source *s, tri_model_shape *out) {
  /* null means "as many as query heads". A missing key has the family's default. */
  if (json_is_null(json_object_get(s->root, "num_key_value_heads")))
    out->G = out->H;
  else
    TRI_TRY(get_size(s, "num_key_value_heads", out->G ? out->G : out->H, MOST_HEADS, &out->G));
  if (out->H % out->G)
    TRI_FAIL(TRI_EINPUT, "%s: `num_attention_heads` = %d is not a multiple of `num_key_value_heads` = %d",
             s->name, out->H, out->G);
  if (tri_hf_has(s, "head_dim")) {
    TRI_TRY(get_size(s, "head_dim", 0, MOST_D, &out->D));
  } else if (!out->D) {
    if (out->C % out->H)
      TRI_FAIL(TRI_EINPUT, "%s: `hidden_size` = %d is not a multiple of `num_attention_heads` = %d", s->name,
               out->C, out->H);
    out->D = out->C / out->H;
  }
  if (out->D > MOST_D)
    TRI_FAIL(TRI_EINPUT,
             "%s: `hidden_size` / `num_attention_heads` = %d, but heads wider than %d are not supported",
             s->name, out->D, MOST_D);
  if (out->D % 2) TRI_FAIL(TRI_EINPUT, "%s: the head width %d must be even", s->name, out->D);
  if ((int64_t)out->H * out->D > MOST_WIDTH)
    TRI_FAIL(TRI_EINPUT, "%s: %d heads of width %d are too large", s->name, out->H, out->D);
  return TRI_OK;
}

/* Counts only the matrices. Within the limits above no term leaves int64. */
static tri_status check_size(const source *s, const tri_model_shape *m) {
  int64_t C = m->C, delta = 2 * ((int64_t)m->delta.Hk * m->delta.Dk + (int64_t)m->delta.Hv * m->delta.Dv);
  int64_t heads = 2 * (int64_t)(m->H + m->G) * m->D + delta + (m->attn_gate ? (int64_t)m->H * m->D : 0);
  int64_t n = m->L * C * (heads + 3 * (int64_t)m->F) + (m->tied_head || m->scored ? 1 : 2) * m->V * C;

  if (n > MOST_PARAMETERS)
    TRI_FAIL(TRI_EINPUT, "%s: asks for a model of %lld parameters, but at most %lld are accepted", s->name,
             (long long)n, (long long)MOST_PARAMETERS);
  return TRI_OK;
}

/* Reads one of the family's own keys. */
static tri_status read_key(const source *s, const tri_config_key *k, tri_model_shape *out) {
  static const double least = 1e-6, most = 1e9; /* chosen: squares and inverses stay finite */
  void               *at = (char *)out + k->where;

  if (k->kind == TRI_KEY_CAP && json_is_null(json_object_get(s->root, k->key))) {
    *(double *)at = 0;
    return TRI_OK;
  }
  if (!tri_hf_has(s, k->key)) return TRI_OK;
  if (k->kind == TRI_KEY_FLAG) return tri_hf_get_bool(s, k->key, at);
  if (k->kind == TRI_KEY_NUMBER) return tri_hf_get_number(s, k->key, NAN, least, most, at);
  if (k->kind != TRI_KEY_CAP) return TRI_OK;
  if (json_number_value(json_object_get(s->root, k->key)) == 0 &&
      json_is_number(json_object_get(s->root, k->key)))
    TRI_FAIL(TRI_EINPUT, "%s: `%s` = 0 would cap everything to 0; set it to null for no cap", s->name,
             k->key);
  return tri_hf_get_number(s, k->key, NAN, least, most, at);
}

static tri_status read_shape(const source *s, const tri_family *f, bool scored, tri_model_shape *out) {
  double eps, std;

  *out = f->silent;
  out->family = f;
  out->scored = scored;
  TRI_TRY(refuse_unknown(s, f));
  TRI_TRY(tri_hf_read_head(s->name, s->root, out));
  TRI_TRY(get_size(s, "num_hidden_layers", out->L, TRI_MOST_LAYERS, &out->L));
  TRI_TRY(get_size(s, "num_attention_heads", out->H, MOST_HEADS, &out->H));
  TRI_TRY(get_size(s, "hidden_size", out->C, MOST_WIDTH, &out->C));
  TRI_TRY(get_size(s, "intermediate_size", out->F, MOST_WIDTH, &out->F));
  TRI_TRY(get_size(s, "vocab_size", out->V, MOST_V, &out->V));
  TRI_TRY(read_heads(s, out));
  TRI_TRY(tri_hf_get_int(s, "max_position_embeddings", out->max_pos, 1, INT32_MAX, &out->max_pos));
  TRI_TRY(tri_hf_get_number(s, "rms_norm_eps", (double)out->norm_eps, 1e-30, 1, &eps));
  TRI_TRY(tri_hf_get_number(s, "initializer_range", (double)out->init_std, 0, 1, &std));
  out->norm_eps = (float)eps;
  out->init_std = (float)std;
  if (tri_hf_has(s, "tie_word_embeddings"))
    TRI_TRY(tri_hf_get_bool(s, "tie_word_embeddings", &out->tied_head));
  for (const tri_config_key *k = f->key; k->key; k++) TRI_TRY(read_key(s, k, out));
  TRI_TRY(tri_hf_read_no_rope(s, out));
  TRI_TRY(tri_hf_read_window(s, out));
  TRI_TRY(tri_hf_read_recurrent(s, out));
  TRI_TRY(check_size(s, out));
  return tri_hf_read_rope(s, out);
}

/* Returns the file that decides `key`: the generation config if it has the key, even as null, else the
 * config. */
static const source *teller(const source *config, const source *generation, const char *key) {
  return json_object_get(generation->root, key) ? generation : config;
}

/* Adds an end token. Some files write -1 for "none". */
static tri_status add_eos(const source *s, const json_t *v, int V, tri_eos *out) {
  int64_t id = json_integer_value(v);

  if (!json_is_integer(v))
    TRI_FAIL(TRI_EINPUT, "%s: `eos_token_id` must be a token id, a list of them or null", s->name);
  if (id == -1) return TRI_OK;
  if (id < 0 || id >= V)
    TRI_FAIL(TRI_EINPUT, "%s: `eos_token_id` %lld is not in the vocabulary of %d tokens", s->name,
             (long long)id, V);
  for (int i = 0; i < out->n; i++)
    if (out->id[i] == id) return TRI_OK;
  if (out->n == TRI_MOST_EOS)
    TRI_FAIL(TRI_EINPUT, "%s: `eos_token_id` has more than %d ids", s->name, TRI_MOST_EOS);
  out->id[out->n++] = (int32_t)id;
  return TRI_OK;
}

static tri_status read_eos(const source *s, int32_t missing, int V, tri_eos *out) {
  const json_t *v = json_object_get(s->root, "eos_token_id");

  if (json_is_null(v)) return TRI_OK;
  if (json_is_array(v)) {
    for (size_t i = 0; i < json_array_size(v); i++) TRI_TRY(add_eos(s, json_array_get(v, i), V, out));
    return TRI_OK;
  }
  if (v) return add_eos(s, v, V, out);
  if (missing >= 0 && missing < V) out->id[out->n++] = missing;
  return TRI_OK;
}

static tri_status read_mark(const source *s, const char *key, int32_t missing, int V, int32_t *out) {
  const json_t *v = json_object_get(s->root, key);
  int64_t       id = v ? json_integer_value(v) : missing;

  if (v && !json_is_integer(v) && !json_is_null(v))
    TRI_FAIL(TRI_EINPUT, "%s: `%s` must be a token id or null", s->name, key);
  *out = json_is_null(v) || id < 0 || id >= V ? -1 : (int32_t)id;
  return TRI_OK;
}

tri_status tri_hf_object(const tri_hf_text *text, json_t **out) {
  json_error_t error;
  const char  *bytes = text->bytes;
  size_t       n = text->n_bytes;

  if (n > FILE_LIMIT)
    TRI_FAIL(TRI_EINPUT, "%s: has %zu bytes, at most %d are accepted here", text->name, n, FILE_LIMIT);
  if (n >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3)) {
    bytes += 3;
    n -= 3;
  }
  if (!tri_json_fits(bytes, n, MOST_NESTED))
    TRI_FAIL(TRI_EINPUT, "%s: " TRI_JSON_TOO_LARGE, text->name, MOST_NESTED);
  *out = json_loadb(bytes, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
  if (!*out)
    TRI_FAIL(TRI_EINPUT, "%s:%d: not JSON: %s", text->name, error.line < 1 ? 1 : error.line, error.text);
  if (!json_is_object(*out)) TRI_FAIL(TRI_EINPUT, "%s: is not a JSON object", text->name);
  return TRI_OK;
}

tri_status tri_hf_config_parse(const tri_hf_text *config, const tri_hf_text *generation,
                               tri_model_shape *shape, tri_eos *eos) {
  tri_status        st = TRI_OK;
  json_t           *root = NULL, *generation_root = NULL;
  source            c, g = {0};
  const source     *pad;
  const tri_family *f = NULL;
  bool              scored = false;

  *shape = (tri_model_shape){0};
  *eos = (tri_eos){.bos = -1, .pad = -1};
  TRI_TRY_DONE(tri_hf_object(config, &root));
  TRI_TRY_DONE(tri_hf_take_half(config->name, &root));
  if (generation) TRI_TRY_DONE(tri_hf_object(generation, &generation_root));
  c = (source){config->name, root};
  if (generation) g = (source){generation->name, generation_root};
  TRI_TRY_DONE(find_family(&c, &f, &scored));
  TRI_TRY_DONE(read_shape(&c, f, scored, shape));
  TRI_TRY_DONE(read_eos(teller(&c, &g, "eos_token_id"), f->eos, shape->V, eos));
  TRI_TRY_DONE(read_mark(teller(&c, &g, "bos_token_id"), "bos_token_id", f->bos, shape->V, &eos->bos));
  /* a classifier of transformers takes its pad token from config.json */
  pad = scored ? &c : teller(&c, &g, "pad_token_id");
  TRI_TRY_DONE(read_mark(pad, "pad_token_id", f->pad, shape->V, &eos->pad));
done:
  json_decref(root);
  json_decref(generation_root);
  return st;
}

/* The keys of the type in config.json: dtype since transformers 4.56, torch_dtype before. */
static const char *const dtype_key[] = {"dtype", "torch_dtype"};
static const char *const dtype_name[] = {
    [TRI_F32] = "float32", [TRI_BF16] = "bfloat16", [TRI_F16] = "float16"};

tri_status tri_hf_config_dtype(const tri_hf_text *config, tri_dtype *out) {
  json_t     *root = NULL;
  const char *word;
  tri_status  st = TRI_OK;

  TRI_TRY_DONE(tri_hf_object(config, &root));
  word = json_string_value(json_object_get(root, dtype_key[0]));
  if (!word) word = json_string_value(json_object_get(root, dtype_key[1]));
  *out = TRI_BF16;
  for (int t = TRI_F32; t <= TRI_F16; t++)
    if (word && !strcmp(word, dtype_name[t])) *out = (tri_dtype)t;
done:
  json_decref(root);
  return st;
}

/* Adds the model's class (NULL for none) to a config.json without one, as written by hand or for a model
 * class without a head. vLLM loads no folder without it. */
static void name_architecture(json_t *root, const char *name) {
  const json_t *list = json_object_get(root, "architectures");

  if (name && (!list || json_is_null(list) || (json_is_array(list) && !json_array_size(list))))
    json_object_set_new(root, "architectures", json_pack("[s]", name));
}

/* Sets the type under the object's own keys. Returns false if it has none. */
static bool set_dtype(json_t *root, const char *word) {
  bool known = false;

  for (int k = 0; k < 2; k++)
    if (json_object_get(root, dtype_key[k])) {
      json_object_set_new(root, dtype_key[k], json_string(word));
      known = true;
    }
  return known;
}

tri_status tri_hf_config_with_dtype(const tri_hf_text *config, tri_dtype dtype, struct json_t **out) {
  const char       *word = dtype_name[dtype], *type;
  const tri_family *f;

  *out = NULL;
  TRI_TRY(tri_hf_object(config, out));
  TRI_TRY(tri_hf_take_half(config->name, out));
  tri_hf_drop_code(*out);
  type = json_string_value(json_object_get(*out, "model_type"));
  f = type ? tri_family_find(type) : NULL;
  name_architecture(*out, f ? f->architecture : NULL);
  if (!set_dtype(*out, word))
    json_object_set_new(*out, dtype_key[json_object_get(*out, "rope_parameters") ? 0 : 1], json_string(word));
  return TRI_OK;
}

tri_status tri_hf_config_whole_with_dtype(const tri_hf_text *config, tri_dtype dtype, struct json_t **out,
                                          bool *changed) {
  const char *word = dtype_name[dtype], *name;
  json_t     *before = NULL, *text;
  bool        known;
  tri_status  st = TRI_OK;

  *out = NULL;
  TRI_TRY_DONE(tri_hf_object(config, &before));
  TRI_TRY_DONE(tri_hf_object(config, out));
  TRI_TRY_DONE(tri_hf_whole_architecture(&(tri_hf_source){config->name, *out}, &name));
  text = json_object_get(*out, "text_config");
  tri_hf_drop_code(*out);
  name_architecture(*out, name);
  known = set_dtype(*out, word);
  for (int k = 0; k < 2; k++)
    if (json_is_string(json_object_get(text, dtype_key[k]))) {
      json_object_set_new(text, dtype_key[k], json_string(word));
      known = true;
    }
  if (!known)
    json_object_set_new(*out, dtype_key[json_object_get(text, "rope_parameters") ? 0 : 1], json_string(word));
  *changed = !json_equal(before, *out);
done:
  json_decref(before);
  if (st != TRI_OK) {
    json_decref(*out);
    *out = NULL;
  }
  return st;
}

/* Gives the paths of config.json and generation_config.json. */
static tri_status find_files(const char *path, char config[PATH_BYTES], char generation[PATH_BYTES]) {
  struct stat sb;
  const char *slash;
  int         n, m;

  if (stat(path, &sb)) TRI_FAIL(TRI_EINPUT, "%s: cannot be opened: %s", path, strerror(errno));
  if (S_ISDIR(sb.st_mode)) {
    n = snprintf(config, PATH_BYTES, "%s/config.json", path);
    m = snprintf(generation, PATH_BYTES, "%s/generation_config.json", path);
  } else {
    slash = strrchr(path, '/');
    n = snprintf(config, PATH_BYTES, "%s", path);
    m = snprintf(generation, PATH_BYTES, "%.*sgeneration_config.json", slash ? (int)(slash - path + 1) : 0,
                 path);
  }
  if (n >= PATH_BYTES || m >= PATH_BYTES) TRI_FAIL(TRI_EINPUT, "%s: the path is too long", path);
  return TRI_OK;
}

tri_status tri_hf_config_read(const char *path, tri_model_shape *shape, tri_eos *eos) {
  tri_status  st = TRI_OK;
  char        config_path[PATH_BYTES], generation_path[PATH_BYTES], *bytes[2] = {NULL, NULL};
  tri_hf_text config = {config_path, NULL, 0}, generation = {generation_path, NULL, 0};
  bool        has_generation;

  TRI_TRY(find_files(path, config_path, generation_path));
  has_generation = !access(generation_path, F_OK);
  TRI_TRY_DONE(tri_file_read(config_path, FILE_LIMIT, &bytes[0], &config.n_bytes));
  if (has_generation)
    TRI_TRY_DONE(tri_file_read(generation_path, FILE_LIMIT, &bytes[1], &generation.n_bytes));
  config.bytes = bytes[0];
  generation.bytes = bytes[1];
  TRI_TRY_DONE(tri_hf_config_parse(&config, has_generation ? &generation : NULL, shape, eos));
done:
  TRI_FREE(bytes[0]);
  TRI_FREE(bytes[1]);
  return st;
}

int32_t tri_eos_of_text(const tri_eos *eos, int32_t own) {
  for (int i = 0; i < eos->n; i++)
    if (eos->id[i] == own) return own;
  return eos->n ? eos->id[0] : -1;
}
