/* chat_own.c - reads the templates and the names of special tokens from a model's files. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "chat_impl.h"

#include <string.h>

#include "io/text/json_text.h"

enum { MOST_NESTED = 1 << 16 }; /* chosen, ten times the largest tokenizer_config.json known */

/* ---- files ---- */

/* Reads a JSON object, to be released. NULL: there is no such file. *broken: it cannot be read. Integers are
 * read as reals because many models have one beyond 64 bits (model_max_length, 10^30). */
static json_t *read_object(tri_chat_bytes file, bool *broken) {
  json_t *object = NULL;

  *broken = false;
  if (!file.bytes) return NULL;
  if (tri_json_fits(file.bytes, file.n, MOST_NESTED))
    object = json_loadb(file.bytes, file.n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
  *broken = !json_is_object(object);
  return object;
}

/* ---- special tokens ---- */

/* Returns the text of "<s>" or of {"content": "<s>", ...}. */
static const json_t *token_text(const json_t *token) {
  if (json_is_object(token)) token = json_object_get(token, "content");
  return json_is_string(token) ? token : NULL;
}

static tri_status put_token(tri_chat *c, const char *key, const json_t *token) {
  if (!token || json_object_get(c->tokens, key)) return TRI_OK;
  if (json_object_set(c->tokens, key, (json_t *)(uintptr_t)token))
    TRI_FAIL(TRI_ENOMEM, "the host has no memory left for special tokens");
  return TRI_OK;
}

/* Takes every NAME_token with a text, and the members of extra_special_tokens if that is an object.
 * transformers' special_tokens_map has the same (5.24, tokenization_utils_base.py). */
static tri_status put_tokens(tri_chat *c, json_t *object) {
  const char *key;
  json_t     *value;

  json_object_foreach(object, key, value) {
    if (tri_ends_with(key, "_token")) TRI_TRY(put_token(c, key, token_text(value)));
  }
  json_object_foreach(json_object_get(object, "extra_special_tokens"), key, value) {
    TRI_TRY(put_token(c, key, token_text(value)));
  }
  return TRI_OK;
}

tri_status tri_chat_take_tokens(const tri_chat_files *files, tri_chat *c) {
  bool       broken;
  json_t    *config = read_object(files->config, &broken), *map = read_object(files->map, &broken);
  tri_status st = TRI_OK;

  c->tokens = json_object();
  if (!c->tokens) TRI_FAIL_DONE(TRI_ENOMEM, "the host has no memory left for special tokens");
  TRI_TRY_DONE(put_tokens(c, config));
  for (const char *key = "bos_token"; key; key = !strcmp(key, "bos_token") ? "eos_token" : NULL)
    if (json_is_null(json_object_get(config, key))) /* null overrides the map */
      json_object_del(map, key);
  TRI_TRY_DONE(put_tokens(c, map));
done:
  json_decref(config);
  json_decref(map);
  return st;
}

bool tri_chat_denies(const tri_chat_files *files, const char *token) {
  bool    broken;
  json_t *config = read_object(files->config, &broken);
  bool    denies = json_is_null(json_object_get(config, token));

  json_decref(config);
  return denies;
}

/* ---- templates ---- */

tri_status tri_chat_parse(const char *text, size_t n, tri_chat_source *out) {
  TRI_TRY(tri_jinja_open(text, n, &out->jinja));
  return tri_text_put(&out->text, text, n);
}

/* Returns the only template, or the one with this name from a list of {"name", "template"}. NULL: none. */
static const json_t *template_of(const json_t *config, const char *name) {
  const json_t *value = json_object_get(config, "chat_template");
  bool          is_default = !strcmp(name, "default");

  if (!json_is_array(value)) return is_default && !json_is_null(value) ? value : NULL;
  for (size_t i = 0; i < json_array_size(value); i++) {
    const json_t *row = json_array_get(value, i);
    const char   *own = json_string_value(json_object_get(row, "name"));
    if (own && !strcmp(own, name)) return json_object_get(row, "template");
  }
  return NULL;
}

bool tri_chat_brings(const tri_chat_files *files, bool *broken) {
  json_t       *config = read_object(files->config, broken);
  const json_t *value = json_object_get(config, "chat_template");
  bool          has = files->jinja.bytes || (value && !json_is_null(value));

  json_decref(config);
  return has;
}

static tri_status say(tri_chat *c, const char *model, const char *what, const char *cure) {
  tri_text   text = {0};
  tri_status st = tri_text_printf(&text, "%s: %s. %s", model, what, cure);

  if (st == TRI_OK) st = tri_copy_text(text.data, &c->why);
  tri_text_free(&text);
  return st;
}

/* Takes one of the model's templates. If it cannot be parsed, the reason is reported with the first
 * conversation. */
static tri_status take(tri_chat *c, const tri_chat_files *files, const char *file, tri_chat_bytes text,
                       const char *cure, tri_chat_source *out) {
  tri_status st = tri_chat_parse(text.bytes, text.n, out);
  tri_text   what = {0};

  if (st != TRI_EINPUT || c->why) return c->why && st == TRI_EINPUT ? (tri_error_clear(), TRI_OK) : st;
  st = tri_text_printf(&what, "its %s cannot be run: %s", file, tri_error_message());
  tri_error_clear();
  if (st == TRI_OK) st = say(c, files->model, what.data, cure);
  tri_text_free(&what);
  return st;
}

static tri_chat_bytes bytes_of(const json_t *text) {
  return (tri_chat_bytes){json_string_value(text), json_string_length(text)};
}

/* If there is a template file, the templates in tokenizer_config.json are all ignored (transformers 5.24,
 * _from_pretrained). */
static tri_status take_all(tri_chat *c, const tri_chat_files *files, const json_t *config, const char *cure) {
  static const char in_config[] = "tokenizer_config.json", in_file[] = "chat_template.jinja",
                    in_folder[] = "additional_chat_templates/tool_use.jinja";
  const json_t *own = template_of(config, "default"), *tools = template_of(config, "tool_use");
  bool          is_file = files->jinja.bytes || files->tool_use.bytes;

  if (is_file) {
    if (files->jinja.bytes) TRI_TRY(take(c, files, in_file, files->jinja, cure, &c->main));
    if (files->tool_use.bytes) TRI_TRY(take(c, files, in_folder, files->tool_use, cure, &c->tool_use));
    return tri_copy_text("of chat_template.jinja", &c->name);
  }
  if (json_is_string(own)) TRI_TRY(take(c, files, in_config, bytes_of(own), cure, &c->main));
  if (json_is_string(tools)) TRI_TRY(take(c, files, in_config, bytes_of(tools), cure, &c->tool_use));
  return tri_copy_text("of tokenizer_config.json", &c->name);
}

tri_status tri_chat_take_own(const tri_chat_files *files, const char *cure, tri_chat *c) {
  bool          broken;
  json_t       *config = read_object(files->config, &broken);
  const json_t *value = json_object_get(config, "chat_template");
  tri_status    st = TRI_OK;

  TRI_TRY_DONE(take_all(c, files, config, cure));
  if (c->main.jinja || c->why) goto done;
  st = say(c, files->model,
           broken ? "its tokenizer_config.json is not JSON, so it gives no chat template"
           : c->tool_use.jinja || (value && !json_is_null(value))
               ? "it has several chat templates and none is the default"
               : "it has no chat template",
           cure);
done:
  json_decref(config);
  return st;
}
