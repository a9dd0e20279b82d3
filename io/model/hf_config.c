/* hf_config.c - config.json and generation_config.json to tri_model_shape and end tokens. */
#include "hf_config.h"

#include "base/file.h"

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

/* Limits of sizes, chosen: twice and more of what dense models have (126 layers, 53 248 wide, 262 144 tokens,
 * 4e11 parameters), so that a file that asks for the impossible is refused before anything is tried with
 * it. */
enum { MOST_L = 1 << 12, MOST_HEADS = 1 << 12, MOST_D = 512, MOST_WIDTH = 1 << 17, MOST_V = 1 << 22 };
static const int64_t MOST_PARAMETERS = (int64_t)1 << 42;

/* A parsed object and its name in messages. */
typedef struct source {
  const char   *name;
  const json_t *root;
} source;

static bool has(const source *s, const char *key) {
  const json_t *v = json_object_get(s->root, key);
  return v && !json_is_null(v);
}

/* The value under `key`; NULL where it is not there or null. */
static const json_t *get(const source *s, const char *key) {
  return has(s, key) ? json_object_get(s->root, key) : NULL;
}

/* The whole number under `key`, or `missing` if the key is not there or null. */
static tri_status get_int(const source *s, const char *key, int64_t missing, int64_t least, int64_t most,
                          int64_t *out) {
  const json_t *v = get(s, key);

  *out = v ? json_integer_value(v) : missing;
  if (v && !json_is_integer(v)) TRI_FAIL(TRI_EINPUT, "%s: `%s` must be a whole number", s->name, key);
  if (*out < least || *out > most)
    TRI_FAIL(TRI_EINPUT, "%s: `%s` = %lld%s: must be in %lld .. %lld", s->name, key, (long long)*out,
             v ? "" : " (its default)", (long long)least, (long long)most);
  return TRI_OK;
}

/* A size of the model, which null is not. */
static tri_status get_size(const source *s, const char *key, int64_t missing, int64_t most, int *out) {
  int64_t v;

  if (json_is_null(json_object_get(s->root, key)))
    TRI_FAIL(TRI_EINPUT, "%s: `%s` must be a whole number", s->name, key);
  TRI_TRY(get_int(s, key, missing, 1, most, &v));
  *out = (int)v;
  return TRI_OK;
}

/* The number under `key`, or `missing` if the key is not there or null; NAN: it must be there. */
static tri_status get_number(const source *s, const char *key, double missing, double least, double most,
                             double *out) {
  const json_t *v = get(s, key);

  if (!v && isnan(missing)) TRI_FAIL(TRI_EINPUT, "%s: has no `%s`", s->name, key);
  *out = v ? json_number_value(v) : missing;
  if (v && !json_is_number(v)) TRI_FAIL(TRI_EINPUT, "%s: `%s` must be a number", s->name, key);
  if (!(*out >= least && *out <= most))
    TRI_FAIL(TRI_EINPUT, "%s: `%s` = %g: must be in %g .. %g", s->name, key, *out, least, most);
  return TRI_OK;
}

static tri_status get_bool(const source *s, const char *key, bool *out) {
  const json_t *v = get(s, key);

  *out = json_is_true(v);
  if (v && !json_is_boolean(v)) TRI_FAIL(TRI_EINPUT, "%s: `%s` must be true or false", s->name, key);
  return TRI_OK;
}

/* Text under `key`, or NULL if the key is not there or null. */
static tri_status get_text(const source *s, const char *key, const char **out) {
  const json_t *v = get(s, key);

  *out = json_string_value(v);
  if (v && !*out) TRI_FAIL(TRI_EINPUT, "%s: `%s` must be text", s->name, key);
  return TRI_OK;
}

/* The families there are, joined by `last`: "llama or qwen2". */
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

  TRI_TRY(get_text(s, "model_type", &type));
  list_families(type ? " and " : " or ", known, sizeof known);
  if (!type) TRI_FAIL(TRI_EINPUT, "%s: has no `model_type`; it must be %s", s->name, known);
  *out = tri_family_find(type);
  if (!*out) TRI_FAIL(TRI_EINPUT, "%s: `model_type` is `%s`; this version knows %s", s->name, type, known);
  return tri_hf_check_architecture(s->name, s->root, *out, scored);
}

/* Everything that asks for what this program does not compute, and every field that it does not know. */
static tri_status refuse_unknown(const source *s) {
  const json_t *dropout = json_object_get(s->root, "attention_dropout"),
               *layers = json_object_get(s->root, "layer_types");
  const char *act;
  bool        window;

  TRI_TRY(get_text(s, "hidden_act", &act));
  if (act && strcmp(act, "silu"))
    TRI_FAIL(TRI_EINPUT, "%s: `hidden_act` is `%s`; only silu is known", s->name, act);
  TRI_TRY(get_bool(s, "use_sliding_window", &window));
  if (window) TRI_FAIL(TRI_EINPUT, "%s: `use_sliding_window` is true; only full attention is known", s->name);
  if (has(s, "layer_types") && !json_is_array(layers))
    TRI_FAIL(TRI_EINPUT, "%s: `layer_types` must be a list", s->name);
  for (size_t i = 0; i < json_array_size(layers); i++) {
    const char *type = json_string_value(json_array_get(layers, i));
    if (!type || strcmp(type, "full_attention"))
      TRI_FAIL(TRI_EINPUT, "%s: `layer_types` names `%s`; only full_attention is known", s->name,
               type ? type : "?");
  }
  if (has(s, "quantization_config"))
    TRI_FAIL(TRI_EINPUT,
             "%s: `quantization_config`: quantized weights are not read; take the model in bf16 or f32",
             s->name);
  if (has(s, "attention_dropout") && (!json_is_number(dropout) || json_number_value(dropout) != 0))
    TRI_FAIL(TRI_EINPUT, "%s: `attention_dropout` must be 0; there is no dropout in this program", s->name);
  return tri_hf_check_fields(s->name, s->root);
}

/* A llama with a window of attention, which other programs apply though transformers does not. Qwen2 has one
 * only with use_sliding_window, which is refused. */
static tri_status refuse_window(const source *s, int64_t max_pos) {
  const json_t *size = json_object_get(s->root, "sliding_window");

  if (has(s, "use_sliding_window") || !has(s, "sliding_window")) return TRI_OK;
  if (!json_is_number(size) || json_number_value(size) < (double)max_pos)
    TRI_FAIL(
        TRI_EINPUT,
        "%s: `sliding_window` is not null and below `max_position_embeddings`; only full attention is known "
        "(with `use_sliding_window` false none is meant)",
        s->name);
  return TRI_OK;
}

static tri_status refuse_partial_rotary(const source *s) {
  const json_t *v = json_object_get(s->root, "partial_rotary_factor");

  if (has(s, "partial_rotary_factor") && json_number_value(v) != 1)
    TRI_FAIL(TRI_EINPUT, "%s: `partial_rotary_factor` must be 1", s->name);
  return TRI_OK;
}

/* The object under `key`, or NULL where it is not there, null or empty. */
static tri_status get_rope_object(const source *s, const char *key, const json_t **out) {
  const json_t *v = json_object_get(s->root, key), *inner;
  const char   *name;

  *out = NULL;
  if (!has(s, key)) return TRI_OK;
  if (!json_is_object(v)) TRI_FAIL(TRI_EINPUT, "%s: `%s` must be an object", s->name, key);
  json_object_foreach((json_t *)v, name, inner) {
    if (json_is_object(inner))
      TRI_FAIL(TRI_EINPUT, "%s: `%s` has settings of its own for `%s`; only one for all layers is known",
               s->name, key, name);
  }
  if (json_object_size(v)) *out = v;
  return TRI_OK;
}

/* RotaryEmbeddingConfigMixin.convert_rope_params_to_dict of transformers 5, and
 * _validate_*_rope_parameters. */
static tri_status read_rope(const source *s, tri_model_shape *out) {
  static const double least = 1e-9, most = 1e30; /* chosen: their powers stay finite */
  const json_t       *scaling, *parameters;
  const char         *type, *old_type, *place;
  char                name[PATH_BYTES];
  double              theta;
  source              r;

  TRI_TRY(get_rope_object(s, "rope_scaling", &scaling));
  TRI_TRY(get_rope_object(s, "rope_parameters", &parameters));
  TRI_TRY(refuse_partial_rotary(s));
  TRI_TRY(get_number(s, "rope_theta", out->rope_theta, least, most, &theta));
  place = scaling ? "rope_scaling" : "rope_parameters";
  snprintf(name, sizeof name, "%s: `%s`", s->name, place);
  r = (source){name, scaling ? scaling : parameters};
  TRI_TRY(refuse_partial_rotary(&r));
  TRI_TRY(tri_hf_check_rope_fields(name, r.root));
  TRI_TRY(get_number(&r, "rope_theta", theta, least, most, &out->rope_theta));
  TRI_TRY(get_text(&r, "rope_type", &type));
  TRI_TRY(get_text(&r, "type", &old_type));
  if (!type) type = old_type ? old_type : "default";

  out->rope_factor = 1;
  if (!strcmp(type, "default")) {
    out->rope_type = TRI_ROPE_DEFAULT;
    return TRI_OK;
  }
  if (strcmp(type, "linear") && strcmp(type, "llama3"))
    TRI_FAIL(TRI_EINPUT, "%s: rope type `%s`; this version knows default, linear and llama3", name, type);
  out->rope_type = !strcmp(type, "linear") ? TRI_ROPE_LINEAR : TRI_ROPE_LLAMA3;
  TRI_TRY(get_number(&r, "factor", NAN, least, most, &out->rope_factor));
  if (out->rope_type == TRI_ROPE_LINEAR) return TRI_OK;
  TRI_TRY(get_number(&r, "low_freq_factor", NAN, least, most, &out->rope_low_freq));
  TRI_TRY(get_number(&r, "high_freq_factor", NAN, least, most, &out->rope_high_freq));
  if (out->rope_low_freq >= out->rope_high_freq)
    TRI_FAIL(TRI_EINPUT, "%s: `low_freq_factor` = %g must be below `high_freq_factor` = %g", name,
             out->rope_low_freq, out->rope_high_freq);
  return get_int(&r, "original_max_position_embeddings", out->max_pos, 1, INT32_MAX,
                 &out->rope_original_max_pos);
}

static tri_status read_heads(const source *s, tri_model_shape *out) {
  /* null means "as many as query heads"; a missing key has the family's default */
  if (json_is_null(json_object_get(s->root, "num_key_value_heads")))
    out->G = out->H;
  else
    TRI_TRY(get_size(s, "num_key_value_heads", out->G ? out->G : out->H, MOST_HEADS, &out->G));
  if (out->H % out->G)
    TRI_FAIL(TRI_EINPUT, "%s: `num_attention_heads` = %d is not a multiple of `num_key_value_heads` = %d",
             s->name, out->H, out->G);
  if (has(s, "head_dim")) {
    TRI_TRY(get_size(s, "head_dim", 0, MOST_D, &out->D));
  } else if (!out->D) {
    if (out->C % out->H)
      TRI_FAIL(TRI_EINPUT, "%s: `hidden_size` = %d is not a multiple of `num_attention_heads` = %d", s->name,
               out->C, out->H);
    out->D = out->C / out->H;
  }
  if (out->D > MOST_D)
    TRI_FAIL(TRI_EINPUT,
             "%s: `hidden_size` / `num_attention_heads` = %d: heads wider than %d are not supported", s->name,
             out->D, MOST_D);
  if (out->D % 2) TRI_FAIL(TRI_EINPUT, "%s: the head width %d must be even", s->name, out->D);
  if ((int64_t)out->H * out->D > MOST_WIDTH)
    TRI_FAIL(TRI_EINPUT, "%s: %d heads of width %d are too large", s->name, out->H, out->D);
  return TRI_OK;
}

/* Matrices alone; no term leaves int64 within the limits above. */
static tri_status check_size(const source *s, const tri_model_shape *m) {
  int64_t C = m->C, heads = 2 * (int64_t)(m->H + m->G) * m->D;
  int64_t n = m->L * C * (heads + 3 * (int64_t)m->F) + (m->tied_head || m->scored ? 1 : 2) * m->V * C;

  if (n > MOST_PARAMETERS)
    TRI_FAIL(TRI_EINPUT, "%s: asks for a model of %lld parameters; at most %lld are accepted", s->name,
             (long long)n, (long long)MOST_PARAMETERS);
  return TRI_OK;
}

/* What the family's own keys say of its tensors. */
static tri_status read_flags(const source *s, tri_model_shape *out) {
  for (const tri_config_flag *f = out->family->flag; f->key; f++)
    if (has(s, f->key)) TRI_TRY(get_bool(s, f->key, (bool *)((char *)out + f->where)));
  return TRI_OK;
}

static tri_status read_shape(const source *s, const tri_family *f, bool scored, tri_model_shape *out) {
  double eps, std;

  *out = f->silent;
  out->family = f;
  out->scored = scored;
  TRI_TRY(refuse_unknown(s));
  TRI_TRY(tri_hf_read_head(s->name, s->root, out));
  TRI_TRY(get_size(s, "num_hidden_layers", out->L, MOST_L, &out->L));
  TRI_TRY(get_size(s, "num_attention_heads", out->H, MOST_HEADS, &out->H));
  TRI_TRY(get_size(s, "hidden_size", out->C, MOST_WIDTH, &out->C));
  TRI_TRY(get_size(s, "intermediate_size", out->F, MOST_WIDTH, &out->F));
  TRI_TRY(get_size(s, "vocab_size", out->V, MOST_V, &out->V));
  TRI_TRY(read_heads(s, out));
  TRI_TRY(get_int(s, "max_position_embeddings", out->max_pos, 1, INT32_MAX, &out->max_pos));
  TRI_TRY(get_number(s, "rms_norm_eps", (double)out->norm_eps, 1e-30, 1, &eps));
  TRI_TRY(get_number(s, "initializer_range", (double)out->init_std, 0, 1, &std));
  out->norm_eps = (float)eps;
  out->init_std = (float)std;
  if (has(s, "tie_word_embeddings")) TRI_TRY(get_bool(s, "tie_word_embeddings", &out->tied_head));
  TRI_TRY(read_flags(s, out));
  if (!f->window_by_switch) TRI_TRY(refuse_window(s, out->max_pos));
  TRI_TRY(check_size(s, out));
  return read_rope(s, out);
}

/* Which file tells `key`: the generation config where it has the key, even as null, else the config. */
static const source *teller(const source *config, const source *generation, const char *key) {
  return json_object_get(generation->root, key) ? generation : config;
}

/* -1 is how some files write "none". */
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
  if (generation) TRI_TRY_DONE(tri_hf_object(generation, &generation_root));
  c = (source){config->name, root};
  if (generation) g = (source){generation->name, generation_root};
  TRI_TRY_DONE(find_family(&c, &f, &scored));
  TRI_TRY_DONE(read_shape(&c, f, scored, shape));
  TRI_TRY_DONE(read_eos(teller(&c, &g, "eos_token_id"), f->eos, shape->V, eos));
  TRI_TRY_DONE(read_mark(teller(&c, &g, "bos_token_id"), "bos_token_id", f->bos, shape->V, &eos->bos));
  /* what a classifier of transformers leaves out at a text's end is config.json's */
  pad = scored ? &c : teller(&c, &g, "pad_token_id");
  TRI_TRY_DONE(read_mark(pad, "pad_token_id", -1, shape->V, &eos->pad));
done:
  json_decref(root);
  json_decref(generation_root);
  return st;
}

/* The type's names in config.json: dtype since transformers 4.56, before that torch_dtype. */
static const char *const dtype_key[] = {"dtype", "torch_dtype"};

tri_status tri_hf_config_dtype(const tri_hf_text *config, tri_dtype *out) {
  json_t     *root = NULL;
  const char *word;
  tri_status  st = TRI_OK;

  TRI_TRY_DONE(tri_hf_object(config, &root));
  word = json_string_value(json_object_get(root, dtype_key[0]));
  if (!word) word = json_string_value(json_object_get(root, dtype_key[1]));
  *out = word && !strcmp(word, "float32") ? TRI_F32 : TRI_BF16;
done:
  json_decref(root);
  return st;
}

tri_status tri_hf_config_with_dtype(const tri_hf_text *config, tri_dtype dtype, struct json_t **out) {
  const char *word = dtype == TRI_F32 ? "float32" : "bfloat16";
  bool        known = false;

  *out = NULL;
  TRI_TRY(tri_hf_object(config, out));
  for (int k = 0; k < 2; k++)
    if (json_object_get(*out, dtype_key[k])) {
      json_object_set_new(*out, dtype_key[k], json_string(word));
      known = true;
    }
  if (!known)
    json_object_set_new(*out, dtype_key[json_object_get(*out, "rope_parameters") ? 0 : 1], json_string(word));
  return TRI_OK;
}

/* The paths of config.json and generation_config.json. */
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
