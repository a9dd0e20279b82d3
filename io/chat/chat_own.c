/* chat_own.c - the template that a model brings: read, and recognised by its text. */
#include "chat_impl.h"

#include <jansson.h>
#include <string.h>

#include "base/hash.h"
#include "io/text/json_text.h"

enum { MOST_NESTED = 1 << 16 }; /* chosen: ten times those of the largest tokenizer_config.json known */

/* XXH64, seed 0, of published templates as normalise() leaves them. tests/golden/make_chat_golden.py prints
 * that of a file. Rows of one name write the same text. */
static const struct {
  uint64_t hash;
  int      choice;
} known[] = {
    {0x408946d744ba89eeu, TRI_CHAT_CHATML},       /* most models; TRL, setup_chat_format */
    {0xb885985d8b9a5a01u, TRI_CHAT_CHATML},       /* with a default for add_generation_prompt; axolotl 0.19 */
    {0x39e7edab38f5c08au, TRI_CHAT_CHATML},       /* AutoTrain */
    {0x4f9896f2bc7727c8u, TRI_CHAT_CHATML},       /* unsloth */
    {0x39f5c87cc9e6caebu, TRI_CHAT_LLAMA2},       /* meta-llama/Llama-2-7b-chat-hf */
    {0xdcdc8f0c69cd885eu, TRI_CHAT_LLAMA3},       /* meta-llama/Meta-Llama-3-8B-Instruct */
    {0x7ffb9eb98a911ae6u, TRI_CHAT_LLAMA3},       /* axolotl 0.19 */
    {0x8ff6fdc2610a58d4u, TRI_CHAT_MISTRAL},      /* mistralai/Mistral-7B-Instruct-v0.3 */
    {0x1d2eff7c902dbb52u, TRI_CHAT_QWEN2_5},      /* Qwen/Qwen2.5-7B-Instruct */
    {0xea099e9c8b8f6a67u, TRI_CHAT_QWEN3},        /* Qwen/Qwen3-8B */
    {0xb9a7689a68255e6cu, TRI_CHAT_QWEN3},        /* the same models at first */
    {0xdaa268fb12f5cd53u, TRI_CHAT_GEMMA},        /* google/gemma-3-1b-it */
    {0x55bf04d289ba85d7u, TRI_CHAT_GEMMA},        /* axolotl 0.19 */
    {0x823b6a1d73a60c71u, TRI_CHAT_ZEPHYR},       /* HuggingFaceH4/zephyr-7b-beta */
    {0xedb6b8105d3879b4u, TRI_CHAT_GEMMA2},       /* google/gemma-2-2b-it */
    {0xa3074cce25a81e52u, TRI_CHAT_GEMMA2},       /* axolotl 0.19 */
    {0x301e91d166cf9b9fu, TRI_CHAT_QWEN2},        /* Qwen/Qwen2-7B-Instruct */
    {0x89865bb2f521e065u, TRI_CHAT_QWEN2_5_BASE}, /* Qwen/Qwen2.5-7B */
    {0x7a1c06c89713fba9u, TRI_CHAT_QWEN2_5_MATH}, /* Qwen/Qwen2.5-Math-7B-Instruct */
    {0x7ca67e9fe85aef82u, TRI_CHAT_QWEN3_2507},   /* Qwen/Qwen3-4B-Instruct-2507 */
};
enum { N_KNOWN = sizeof known / sizeof *known };

/* Where a byte of a template stands. */
typedef struct place {
  char tag;   /* what opened it behind its brace: {, % or #; 0: text, which is written as it is */
  char quote; /* of a string in a tag; 0: none */
} place;

/* Go on behind what begins at text [n]: how many bytes of it belong together. */
static size_t pass(place *p, const char *text, size_t n) {
  char close = p->tag == '{' ? '}' : p->tag, next = n > 1 ? text[1] : 0;

  if (!p->tag) {
    if (*text == '{' && (next == '{' || next == '%' || next == '#')) p->tag = next;
    return p->tag ? 2 : 1;
  }
  if (p->quote) {
    if (*text == '\\' && (next == '\\' || next == 'n' || next == p->quote)) return 2;
    if (*text == p->quote) p->quote = 0;
    return 1;
  }
  if (*text == close && next == '}') {
    p->tag = 0;
    return 2;
  }
  if (p->tag != '#' && (*text == '\'' || *text == '"')) p->quote = *text;
  return 1;
}

/* Behind the last tag jinja2 takes a line end away, behind a block's a second one (trim_blocks), and behind
 * -%} all white space. */
static void strip_end(tri_text *t) {
  const char *s = t->data;
  size_t      n;

  t->len -= t->len && s[t->len - 1] == '\n';
  for (n = t->len; n && (s[n - 1] == ' ' || s[n - 1] == '\t' || s[n - 1] == '\n');) n--;
  if (n < 3 || s[n - 1] != '}' || (s[n - 2] != '%' && s[n - 2] != '}' && s[n - 2] != '#')) return;
  if (s[n - 3] == '-' || (s[n - 2] != '}' && t->len == n + 1 && s[n] == '\n')) t->len = n;
}

/* A template means the same with a line break for \n in its strings, with another end of lines, and with or
 * without one at its end. */
static tri_status normalise(const char *text, size_t n, tri_text *out) {
  place p = {0, 0};

  for (size_t i = 0, step; i < n; i += step) {
    bool quoted = p.quote != 0, ends = text[i] == '\r';
    step = pass(&p, text + i, n - i);
    if (ends && i + 1 < n && text[i + 1] == '\n') continue;
    ends = ends || (quoted && step == 2 && text[i + 1] == 'n');
    TRI_TRY(tri_text_put(out, ends ? "\n" : text + i, ends ? 1 : step));
  }
  strip_end(out);
  return TRI_OK;
}

/* ---- tokenizer_config.json ---- */

/* To be released: NULL where there is no such file; *broken where it cannot be read. Whole numbers become
 * others, for of many models one is too large for an integer: model_max_length, 10^30. */
static json_t *read_config(const tri_chat_files *files, bool *broken) {
  json_t *config = NULL;

  *broken = false;
  if (!files->config) return NULL;
  if (tri_json_fits(files->config, files->config_bytes, MOST_NESTED))
    config = json_loadb(files->config, files->config_bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
  *broken = !json_is_object(config);
  return config;
}

tri_status tri_chat_read_token(const tri_chat_files *files, const char *key, const char *other, char **out) {
  bool          broken;
  json_t       *config = read_config(files, &broken);
  const json_t *token = json_object_get(config, key);
  const char   *text = other ? other : "";
  tri_status    st;

  if (json_is_object(token)) token = json_object_get(token, "content");
  if (json_is_string(token)) text = json_string_value(token);
  if (json_is_null(token)) text = "";
  st = tri_copy_text(text, out);
  json_decref(config);
  return st;
}

/* One template, or a list of {"name", "template"}, of which the default counts. */
static const json_t *template_of(const json_t *config) {
  const json_t *value = json_object_get(config, "chat_template");

  if (json_is_null(value)) return NULL;
  for (size_t i = 0; json_is_array(value) && i < json_array_size(value); i++) {
    const json_t *row = json_array_get(value, i);
    const char   *name = json_string_value(json_object_get(row, "name"));
    if (name && !strcmp(name, "default")) return json_object_get(row, "template");
  }
  return value;
}

bool tri_chat_brings(const tri_chat_files *files, bool *broken) {
  json_t *config = read_config(files, broken);
  bool    has = files->jinja || template_of(config);

  json_decref(config);
  return has;
}

/* ---- recognised ---- */

static tri_status say(char **why, const char *model, const char *what, const char *cure) {
  tri_text   text = {0};
  tri_status st = tri_text_printf(&text, "%s: %s; %s", model, what, cure);

  if (st == TRI_OK) st = tri_copy_text(text.data, why);
  tri_text_free(&text);
  return st;
}

static tri_status look_up(const char *text, size_t n, int *choice) {
  tri_text   plain = {0};
  tri_status st = normalise(text, n, &plain);
  uint64_t   hash = st == TRI_OK ? tri_hash64(plain.len ? plain.data : "", plain.len, 0) : 0;

  for (int i = 0; st == TRI_OK && i < N_KNOWN && !*choice; i++)
    if (known[i].hash == hash) *choice = known[i].choice;
  tri_text_free(&plain);
  return st;
}

/* One that an export was given (chat_jinja.c), whatever the model's tokens. */
static tri_status compare_ours(const tri_chat_files *files, const char *text, size_t n, int *choice) {
  tri_text   ours = {0};
  tri_status st = TRI_OK;

  for (int i = TRI_CHAT_NONE + 1; i <= TRI_CHAT_ZEPHYR && st == TRI_OK && !*choice; i++) {
    tri_chat named = {.form = tri_chat_form_at(i)};
    ours.len = 0;
    st = tri_chat_read_token(files, "bos_token", named.form->bos, &named.bos);
    if (st == TRI_OK) st = tri_chat_read_token(files, "eos_token", named.form->eos, &named.eos);
    if (st == TRI_OK) st = tri_chat_template(&named, &ours);
    if (st == TRI_OK && ours.len == n && n && !memcmp(ours.data, text, n)) *choice = i;
    TRI_FREE(named.bos);
    TRI_FREE(named.eos);
  }
  tri_text_free(&ours);
  return st;
}

static tri_status name_of(const tri_chat_files *files, const char *text, size_t n, int *choice) {
  TRI_TRY(look_up(text, n, choice));
  return *choice ? TRI_OK : compare_ours(files, text, n, choice);
}

tri_status tri_chat_recognise(const tri_chat_files *files, const char *cure, int *choice, char **why) {
  bool          broken;
  json_t       *config = read_config(files, &broken);
  const json_t *own = template_of(config);
  tri_status    st = TRI_OK;

  *choice = 0;
  *why = NULL;
  if (files->jinja)
    TRI_TRY_DONE(name_of(files, files->jinja, files->jinja_bytes, choice));
  else if (json_is_string(own))
    TRI_TRY_DONE(name_of(files, json_string_value(own), json_string_length(own), choice));
  if (*choice) goto done;
  st =
      say(why, files->model,
          files->jinja ? "its chat_template.jinja is none of the chat templates known here"
          : broken     ? "its tokenizer_config.json is not JSON, so that no chat template is found there"
          : json_is_string(own) ? "the chat template of its tokenizer_config.json is none of those known here"
          : own ? "its tokenizer_config.json has several chat templates and none is the default"
                : "brings no chat template",
          cure);
done:
  json_decref(config);
  return st;
}
