/* peft.c - reads and writes adapter_config.json of PEFT (peft/tuners/lora/config.py, LoraConfig). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "peft.h"

#include "base/host_memory.h"
#include "base/log.h"
#include "hf_config_impl.h"

#include <math.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fields that are read, or do not change the result of trained adapters. */
static const char *const fields[] = {
    "peft_type", "r", "lora_alpha", "target_modules", "use_rslora", "bias", "modules_to_save", "lora_dropout",
    "init_lora_weights", "task_type", "auto_mapping", "base_model_name_or_path", "revision", "inference_mode",
    "peft_version", "megatron_core", "layers_pattern", "runtime_config", "qalora_group_size",
    "ensure_weight_tying", "eva_config", "exclude_modules",
    /* older ms-swift writes these, for training */
    "lora_dtype", "lorap_lr_ratio", "lorap_emb_lr"};

static bool is_field(const char *name) {
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (!strcmp(fields[i], name)) return true;
  return false;
}

/* Tells whether a value turns the field off, like null. */
static bool is_off(const json_t *v) {
  if (json_is_number(v)) return json_number_value(v) == 0;
  if (json_is_object(v)) return json_object_size(v) == 0;
  if (json_is_array(v)) return json_array_size(v) == 0;
  return !v || json_is_null(v) || json_is_false(v);
}

static tri_status refuse(const char *file, const char *field, const json_t *value, const char *why) {
  char      *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
  tri_status st = tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT, "%s: %s is %.80s: %s", file, field,
                           text ? text : "not there", why);

  free(text);
  return st;
}

/* Refuses adapters that this version cannot compute but PEFT can, and shows how to merge them into a
 * model. */
static tri_status refuse_unmerged(const char *file, const char *field, const json_t *value, const char *why) {
  tri_status st = refuse(file, field, value, why);

  tri_error_lines(
      "\n  merge them into the model with PEFT, then give model.path: MERGED, without lora.path:"
      "\n    from peft import PeftModel; from transformers import AutoModelForCausalLM as M, "
      "AutoTokenizer as T"
      "\n    PeftModel.from_pretrained(M.from_pretrained(\"MODEL\"), \"ADAPTERS\").merge_and_unload()"
      ".save_pretrained(\"MERGED\")"
      "\n    T.from_pretrained(\"MODEL\").save_pretrained(\"MERGED\")");
  return st;
}

static tri_status check_fields(const char *file, const json_t *root) {
  const char *name;
  json_t     *value;

  json_object_foreach((json_t *)root, name, value) {
    bool layer = json_is_number(value) && !strcmp(name, "layers_to_transform"); /* here 0 names a layer */
    if (is_field(name) || (is_off(value) && !layer)) continue;
    if (!strcmp(name, "alora_invocation_tokens"))
      return refuse(
          file, name, value,
          "these adapters work only behind such tokens, and neither this version nor a merged model "
          "can do this");
    return refuse_unmerged(file, name, value, "it changes the result, and this version cannot compute it");
  }
  return TRI_OK;
}

static bool is_word(const json_t *v, const char *word) {
  return json_is_string(v) && !strcmp(json_string_value(v), word);
}

/* Tells whether this init leaves the model's own weights unchanged. Adapters with another init were trained
 * with a changed model. */
static bool keeps_base(const json_t *v) {
  return !v || json_is_null(v) || json_is_boolean(v) || is_word(v, "gaussian") || is_word(v, "orthogonal") ||
         is_word(v, "eva");
}

/* Tells whether PEFT can merge adapters of this method. It cannot merge prompts and prefixes. */
static bool is_mergeable(const json_t *type) {
  static const char *const word[] = {"ADALORA", "IA3", "LOHA", "LOKR",      "OFT",
                                     "BOFT",    "HRA", "VERA", "FOURIERFT", "DELORA"};

  for (size_t i = 0; i < sizeof word / sizeof *word; i++)
    if (is_word(type, word[i])) return true;
  return false;
}

static tri_status check_words(const char *file, const json_t *root) {
  const json_t *type = json_object_get(root, "peft_type"), *bias = json_object_get(root, "bias"),
               *init = json_object_get(root, "init_lora_weights");

  if (is_mergeable(type)) return refuse_unmerged(file, "peft_type", type, "it must be \"LORA\"");
  if (!is_word(type, "LORA")) return refuse(file, "peft_type", type, "it must be \"LORA\"");
  if (!is_off(bias) && !is_word(bias, "none"))
    return refuse_unmerged(file, "bias", bias,
                           "it must be \"none\", because biases are not trained beside adapters here");
  if (!keeps_base(init))
    return refuse_unmerged(
        file, "init_lora_weights", init,
        "it changes the model's own weights, while true, false, gaussian, orthogonal and eva do not");
  return TRI_OK;
}

/* Accepts score for a scalar head, and classifier. PEFT names both, although these models have no
 * classifier. */
static tri_status check_saved(const char *file, const json_t *root, bool scored) {
  static const char only_score[] = "beside adapters only score is trained in full here",
                    nothing[] = "nothing is trained in full beside adapters here";
  const json_t *saved = json_object_get(root, "modules_to_save"), *item;
  size_t        i;

  if (is_off(saved)) return TRI_OK;
  json_array_foreach(saved, i, item) {
    bool known = scored && (is_word(item, "score") || is_word(item, "classifier"));
    if (!known)
      return (scored ? refuse : refuse_unmerged)(file, "modules_to_save", saved,
                                                 scored ? only_score : nothing);
  }
  return json_is_array(saved) ? TRI_OK : refuse(file, "modules_to_save", saved, "it must be a list");
}

static tri_status refuse_target(const char *file, const json_t *item) {
  return refuse(
      file, "target_modules", item,
      "it must name linear modules of this model's layers: a list of names, a pattern of their whole "
      "names (Python's re), or \"all-linear\"");
}

/* ---- choosing modules, as in peft/tuners/tuners_utils.py, check_target_module_exists ---- */

enum { MOST_PATTERN = 1 << 14 };                     /* bytes; chosen: ten times the longest known */
enum { MOST_STEPS = 1 << 20, MOST_HEAP_KIB = 1024 }; /* limits of one search; chosen */

/* The value of target_modules or exclude_modules. */
typedef struct choice {
  const char       *file, *field;
  const char       *head;  /* prefix of module names, instead of "model." */
  const json_t     *value; /* a pattern or a list of names */
  bool              all;   /* chooses every module */
  pcre2_code       *code;  /* the compiled pattern */
  pcre2_match_data *data;
  bool             *used; /* [entries of the list] */
} choice;

static void choice_close(choice *c) {
  pcre2_code_free(c->code);
  pcre2_match_data_free(c->data);
  TRI_FREE(c->used);
}

/* Tells whether Python's re reads the pattern differently from PCRE2. */
static bool is_python_only(const char *pattern) {
  return strstr(pattern, "{,") || strstr(pattern, "(*") || strstr(pattern, "\\Q") || strstr(pattern, "(?C");
}

/* Tells whether PCRE2 takes "[:alpha:" and the like, at the bracket, for a POSIX class (pcre2_compile.c,
 * check_posix_syntax). */
static bool is_posix(const char *at) {
  char end = at[1];

  if (end != ':' && end != '.' && end != '=') return false;
  for (at += 2; *at && *at != ']'; at++) {
    if (*at == '\\' && (at[1] == ']' || at[1] == '\\'))
      at++;
    else if (*at == '[' && at[1] == end)
      return false;
    else if (*at == end && at[1] == ']')
      return true;
  }
  return false;
}

/* Writes the pattern for PCRE2. Python's re has no POSIX classes, and reads their letters as a set, with a
 * FutureWarning. A backslash makes PCRE2 do the same. */
static tri_status put_pattern(const char *pattern, tri_text *out) {
  for (const char *at = pattern; *at; at++) {
    TRI_TRY(tri_text_put(out, at, 1));
    if (*at == '[' && is_posix(at)) TRI_TRY(tri_text_put(out, "\\", 1));
  }
  return TRI_OK;
}

static tri_status compile(choice *c, const tri_text *pattern) {
  char       why[256];
  int        error = 0;
  PCRE2_SIZE at = 0;

  c->code = pcre2_compile((PCRE2_SPTR)pattern->data, pattern->len,
                          PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_NEVER_BACKSLASH_C, &error,
                          &at, NULL);
  if (!c->code) {
    pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof why);
    TRI_FAIL(TRI_EINPUT, "%s: %s: the pattern has an error: %s (character %zu)", c->file, c->field, why, at);
  }
  c->data = pcre2_match_data_create_from_pattern(c->code, NULL);
  if (!c->data) TRI_FAIL(TRI_ENOMEM, "no memory to run a regular expression");
  return TRI_OK;
}

static tri_status open_pattern(choice *c) {
  tri_text   pattern = {0};
  tri_status st;

  if (json_string_length(c->value) > MOST_PATTERN || is_python_only(json_string_value(c->value)))
    return refuse(c->file, c->field, c->value,
                  "this pattern cannot be read here. Write the modules' names as a list.");
  st = put_pattern(json_string_value(c->value), &pattern);
  if (st == TRI_OK) st = compile(c, &pattern);
  tri_text_free(&pattern);
  return st;
}

static tri_status choice_open(choice *c) {
  const json_t *item;
  size_t        i;

  c->all = !strcmp(c->field, "target_modules") && is_word(c->value, "all-linear");
  if (c->all) return TRI_OK;
  if (json_is_string(c->value)) return open_pattern(c);
  if (!json_is_array(c->value))
    return refuse(c->file, c->field, c->value, "it must be a list of names, or a pattern");
  json_array_foreach(c->value, i, item) if (!json_is_string(item)) return refuse(c->file, c->field, item,
                                                                                 "it must be a name");
  return TRI_ALLOC(c->used, json_array_size(c->value));
}

static tri_status match_pattern(const choice *c, const char *module, bool *found) {
  pcre2_match_context *limits = pcre2_match_context_create(NULL);
  int                  rc;

  if (!limits) TRI_FAIL(TRI_ENOMEM, "no memory to run a regular expression");
  pcre2_set_match_limit(limits, MOST_STEPS);
  pcre2_set_heap_limit(limits, MOST_HEAP_KIB);
  rc = pcre2_match(c->code, (PCRE2_SPTR)module, strlen(module), 0, 0, c->data, limits);
  pcre2_match_context_free(limits);
  *found = rc >= 0;
  if (rc < 0 && rc != PCRE2_ERROR_NOMATCH)
    return refuse(c->file, c->field, c->value, "this pattern takes too long. Write the names as a list.");
  return TRI_OK;
}

/* Tells whether name is the whole module name, or its end after a dot. */
static bool is_end(const char *module, const char *name) {
  size_t n = strlen(name), all = strlen(module);

  return n && tri_ends_with(module, name) && (n == all || module[all - n - 1] == '.');
}

/* Gives PEFT's name of a row's module in a layer. Returns false if the row is no module. */
static bool name_module(const choice *c, const tri_model_shape *shape, int row, int layer,
                        char out[2 * TRI_LORA_NAME_BYTES]) {
  static const char plain[] = "model.";
  char              name[TRI_LORA_NAME_BYTES];
  size_t            n = sizeof plain - 1;
  bool              begins;

  if (!tri_lora_module_name(shape->family, row, layer, name)) return false;
  begins = !strncmp(name, plain, n);
  snprintf(out, 2 * TRI_LORA_NAME_BYTES, "%s%s", begins ? c->head : "", begins ? name + n : name);
  return true;
}

static tri_status choose(choice *c, const tri_model_shape *shape, int row, int layer, bool *found) {
  char          module[2 * TRI_LORA_NAME_BYTES];
  const json_t *item;
  size_t        i;

  *found = false;
  if (!c->value || !name_module(c, shape, row, layer, module)) return TRI_OK;
  *found = c->all;
  if (c->code) return match_pattern(c, module, found);
  if (c->all) return TRI_OK;
  json_array_foreach(c->value, i, item) {
    if (is_end(module, json_string_value(item))) *found = c->used[i] = true;
  }
  return TRI_OK;
}

/* Logs the names of modules that this model does not have. They belong to another model with the same
 * list. */
static void say_unused(const choice *c) {
  const json_t *item;
  size_t        i;
  tri_text      names = {0};

  json_array_foreach(c->used ? c->value : NULL, i,
                     item) if (!c->used[i] && tri_text_printf(&names, "%s%s", names.len ? ", " : "",
                                                              json_string_value(item)) != TRI_OK) break;
  if (names.len)
    tri_log(TRI_LOG_INFO, "%s: target_modules names modules missing in this model's layers: %s", c->file,
            names.data);
  tri_text_free(&names);
}

/* Takes the modules marked in all layers that have them. mark is [rows][L]. */
static tri_status take_marks(const choice *c, const tri_model_shape *shape, const bool *mark, tri_lora *out) {
  for (int row = 0; shape->family->tensor[row].name; row++) {
    int n = 0, all = 0;
    for (int layer = 0; layer < shape->L; layer++) {
      n += mark[row * shape->L + layer];
      all += tri_row_in_layer(&shape->family->tensor[row], shape, layer);
    }
    if (n && n < all)
      return refuse_unmerged(c->file, "target_modules", c->value,
                             "it names modules of only some layers, but here all layers must have the same");
    if (n) out->target |= (uint64_t)1 << row;
  }
  return out->target ? TRI_OK : refuse_target(c->file, c->value);
}

static tri_status mark_all(choice *target, choice * not, const tri_model_shape *shape, bool *mark) {
  for (int row = 0; shape->family->tensor[row].name; row++)
    for (int layer = 0; layer < shape->L; layer++) {
      bool found, excluded;
      if (!tri_row_in_layer(&shape->family->tensor[row], shape, layer)) continue; /* mark is zeroed */
      TRI_TRY(choose(target, shape, row, layer, &found));
      TRI_TRY(choose(not, shape, row, layer, &excluded));
      mark[row * shape->L + layer] = found && !excluded;
    }
  return TRI_OK;
}

static tri_status read_targets(const char *file, const tri_model_shape *shape, const json_t *root,
                               const char *head, bool warn, tri_lora *out) {
  const json_t *v = json_object_get(root, "target_modules"),
               *without = json_object_get(root, "exclude_modules");
  choice     target = {.file = file, .field = "target_modules", .head = head, .value = v};
  choice     excluded = {.file = file, .field = "exclude_modules", .head = head, .value = without};
  bool      *mark = NULL;
  int        rows = 0;
  tri_status st = TRI_OK;

  if (is_off(without) || (json_is_string(without) && !json_string_length(without))) excluded.value = NULL;
  if (is_off(v) || is_word(v, "")) return refuse_target(file, v);
  while (shape->family->tensor[rows].name) rows++;
  TRI_TRY_DONE(TRI_ALLOC(mark, rows * shape->L));
  TRI_TRY_DONE(choice_open(&target));
  if (excluded.value) TRI_TRY_DONE(choice_open(&excluded));
  TRI_TRY_DONE(mark_all(&target, &excluded, shape, mark));
  TRI_TRY_DONE(take_marks(&target, shape, mark, out));
  if (warn) say_unused(&target);
done:
  choice_close(&target);
  choice_close(&excluded);
  TRI_FREE(mark);
  return st;
}

enum { MOST_RANK = 1 << 16 }; /* chosen: larger than any width */

static tri_status read_numbers(const char *file, const json_t *root, tri_lora *out) {
  const json_t *r = json_object_get(root, "r"), *alpha = json_object_get(root, "lora_alpha"),
               *rs = json_object_get(root, "use_rslora");

  if (!json_is_integer(r) || json_integer_value(r) < 1 || json_integer_value(r) > MOST_RANK)
    return refuse(file, "r", r, "it must be a whole number from 1 to 65536");
  out->rank = (int)json_integer_value(r);
  out->alpha = json_number_value(alpha);
  if (!(out->alpha > 0) || !isfinite(out->alpha))
    return refuse(file, "lora_alpha", alpha, "it must be a number above 0");
  if (!is_off(rs) && !json_is_true(rs)) return refuse(file, "use_rslora", rs, "it must be true or false");
  out->rs = json_is_true(rs);
  if (!isnormal(tri_lora_scale(out)))
    return refuse(file, "lora_alpha", alpha, "alpha divided by r is not a normal float32 number");
  return TRI_OK;
}

tri_status tri_peft_parse(const tri_hf_text *text, const tri_model_shape *shape, const char *head, bool warn,
                          tri_lora *out) {
  tri_status    st = TRI_OK;
  json_t       *root = NULL;
  const json_t *dropout;

  *out = (tri_lora){0};
  TRI_TRY_DONE(tri_hf_object(text, &root));
  TRI_TRY_DONE(check_fields(text->name, root));
  TRI_TRY_DONE(check_words(text->name, root));
  TRI_TRY_DONE(check_saved(text->name, root, shape->scored));
  TRI_TRY_DONE(read_numbers(text->name, root, out));
  TRI_TRY_DONE(read_targets(text->name, shape, root, head ? head : "model.", warn, out));
  dropout = json_object_get(root, "lora_dropout");
  if (warn && !is_off(dropout))
    tri_log(TRI_LOG_WARN, "%s: lora_dropout is %g, but adapters are trained without dropout here", text->name,
            json_number_value(dropout));
done:
  json_decref(root);
  return st;
}

static json_t *names_of_targets(const tri_lora *l, const tri_family *f) {
  json_t *list = json_array();
  char    name[TRI_LORA_MODULE_BYTES];

  for (int i = 0; f->tensor[i].name; i++) {
    if (!tri_lora_has(l, i)) continue;
    tri_lora_module(f, i, name);
    json_array_append_new(list, json_string(name));
  }
  return list;
}

tri_status tri_peft_print(const tri_lora *l, const tri_model_shape *shape, const char *base, tri_text *out) {
  static const char *const off[] = {"auto_mapping", "layers_pattern", "layers_to_transform", "revision"};
  static const char *const no[] = {"fan_in_fan_out", "use_dora"};
  json_t                  *root = json_object();
  char                    *text;
  tri_status               st;

  for (size_t i = 0; i < sizeof off / sizeof *off; i++) json_object_set_new(root, off[i], json_null());
  for (size_t i = 0; i < sizeof no / sizeof *no; i++) json_object_set_new(root, no[i], json_false());
  json_object_set_new(root, "alpha_pattern", json_object());
  json_object_set_new(root, "base_model_name_or_path", json_string(base));
  json_object_set_new(root, "bias", json_string("none"));
  json_object_set_new(root, "inference_mode", json_true());
  json_object_set_new(root, "init_lora_weights", json_true());
  json_object_set_new(root, "lora_alpha",
                      l->alpha == floor(l->alpha) && l->alpha < 1e9 ? json_integer((json_int_t)l->alpha)
                                                                    : json_real(l->alpha));
  json_object_set_new(root, "lora_dropout", json_real(0));
  json_object_set_new(root, "modules_to_save", shape->scored ? json_pack("[s]", "score") : json_null());
  json_object_set_new(root, "peft_type", json_string("LORA"));
  json_object_set_new(root, "r", json_integer(l->rank));
  json_object_set_new(root, "rank_pattern", json_object());
  json_object_set_new(root, "target_modules", names_of_targets(l, shape->family));
  json_object_set_new(root, "task_type", json_string(shape->scored ? "SEQ_CLS" : "CAUSAL_LM"));
  json_object_set_new(root, "use_rslora", json_boolean(l->rs));
  text = json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
  st = text ? tri_text_printf(out, "%s\n", text) : TRI_ENOMEM;
  if (!text) tri_fail(__FILE__, __LINE__, __func__, st, "no host memory left for " TRI_PEFT_CONFIG);
  free(text);
  json_decref(root);
  return st;
}
