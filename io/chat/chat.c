/* chat.c - opens a chat template: by name, from a file, or the model's own. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "chat.h"
#include "base/host_memory.h"
#include "chat_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "io/text/json_text.h"

enum { CURE_BYTES = 256 };                                 /* chosen, of a message */
enum { TEMPLATE_BYTES = 4 << 20, TOOLS_BYTES = 64 << 20 }; /* chosen, a hundred times the largest known */
enum { MOST_NESTED = 1 << 18 };                            /* chosen, as for a line of data */

/* ---- words ---- */

bool tri_chat_is_word(const char *template) {
  static const char words[] = TRI_CHAT_WORDS;
  size_t            n = strlen(template), k;

  for (const char *at = words; *at; at += k + (at[k] == '|')) {
    k = strcspn(at, "|");
    if (k == n && !strncmp(at, template, n)) return true;
  }
  return false;
}

bool tri_chat_is_file(const char *template) {
  return !tri_chat_is_word(template) && (tri_ends_with(template, ".jinja") || strchr(template, '/'));
}

/* Returns the cure for a missing template, as part of a message. */
static const char *cure_of(bool from_deck) {
  return from_deck ? "Name one: data.chat_template: " TRI_CHAT_NAMES "|FILE.jinja"
                   : "Name one: --chat-template " TRI_CHAT_NAMES "|FILE.jinja";
}

/* ---- templates ---- */

static void free_source(tri_chat_source *s) {
  tri_jinja_close(&s->jinja);
  tri_text_free(&s->text);
}

/* The usual begin and end tokens of each named template, for model files that name none. */
static const struct {
  const char *name, *bos, *eos;
} usual[] = {{"llama2", "<s>", "</s>"},
             {"llama3", "<|begin_of_text|>", NULL},
             {"mistral", "<s>", "</s>"},
             {"gemma", "<bos>", NULL},
             {"zephyr", NULL, "</s>"}};

/* Appends text as the inside of a single-quoted string. */
static tri_status put_quoted(const char *text, tri_text *out) {
  for (; *text; text++) {
    if (*text == '\n') {
      TRI_TRY(tri_text_put(out, "\\n", 2));
      continue;
    }
    if (*text == '\'' || *text == '\\') TRI_TRY(tri_text_put(out, "\\", 1));
    TRI_TRY(tri_text_put(out, text, 1));
  }
  return TRI_OK;
}

/* Sets a token of the template that the model's files do not name. */
static tri_status give_token(tri_chat *c, const tri_chat_files *files, const char *key, const char *token,
                             const char *cure) {
  tri_text   why = {0};
  tri_status st;

  if (!token || json_object_get(c->tokens, key)) return TRI_OK;
  if (tri_chat_denies(files, key) && !strcmp(key, "eos_token")) {
    st = tri_text_printf(&why,
                         "%s: the chat template %s ends turns with eos_token, and tokenizer_config.json "
                         "has none. %s",
                         files->model, c->name, cure);
    if (st == TRI_OK) st = tri_copy_text(why.data, &c->why);
    tri_text_free(&why);
    free_source(&c->main);
    return st;
  }
  if (tri_chat_denies(files, key)) token = "";
  if (json_object_set_new(c->tokens, key, json_string(token)))
    TRI_FAIL(TRI_ENOMEM, "the host has no memory left for a chat template");
  TRI_TRY(tri_text_printf(&c->given, "{%% set %s = '", key));
  TRI_TRY(put_quoted(token, &c->given));
  return tri_text_printf(&c->given, "' %%}");
}

static tri_status take_named(tri_chat *c, const tri_chat_files *files, const char *name, const char *cure) {
  const tri_chat_form *f = tri_chat_forms;

  while (f->name && strcmp(f->name, name) != 0) f++;
  TRI_ASSERT(f->name);
  TRI_TRY(tri_copy_text(name, &c->name));
  TRI_TRY(tri_error_at(tri_chat_parse(f->text, strlen(f->text), &c->main), name));
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
    if (strcmp(usual[i].name, name) != 0) continue;
    TRI_TRY(give_token(c, files, "bos_token", usual[i].bos, cure));
    TRI_TRY(give_token(c, files, "eos_token", usual[i].eos, cure));
  }
  return TRI_OK;
}

static tri_status take_file(tri_chat *c, const tri_chat_opt *o) {
  const char *key = o->from_deck ? "data.chat_template" : "--chat-template";
  char       *bytes = NULL;
  size_t      n = o->text.n;
  tri_status  st = TRI_OK;

  if (!o->text.bytes) TRI_TRY(tri_error_about(tri_file_read(o->template, TEMPLATE_BYTES, &bytes, &n), key));
  TRI_TRY_DONE(tri_copy_text(o->template, &c->name));
  st = tri_error_at(tri_chat_parse(bytes ? bytes : o->text.bytes, n, &c->main), o->template);
  st = tri_error_about(st, key);
done:
  TRI_FREE(bytes);
  return st;
}

static tri_status take_template(tri_chat *c, const tri_chat_opt *o, const tri_chat_files *files) {
  const char *template = o->template ? o->template : "auto";

  if (!strcmp(template, "auto")) return tri_chat_take_own(files, cure_of(o->from_deck), c);
  if (!strcmp(template, "none"))
    return tri_copy_text(o->from_deck ? "chat templates are turned off (data.chat_template: none)"
                                      : "chat templates are turned off (--chat-template none)",
                         &c->why);
  return tri_chat_is_word(template) ? take_named(c, files, template, cure_of(o->from_deck)) : take_file(c, o);
}

/* ---- variables ---- */

static tri_status take_kwargs(tri_chat *c, const tri_chat_opt *o) {
  if (!o->kwargs) return TRI_OK;
  c->kwargs = json_loads(o->kwargs, JSON_ALLOW_NUL, NULL);
  if (!json_is_object(c->kwargs))
    TRI_FAIL(TRI_EINTERNAL, "template variables are not a JSON object: %s", o->kwargs);
  return TRI_OK;
}

static bool is_list_of_objects(const json_t *list) {
  for (size_t i = 0; i < json_array_size(list); i++)
    if (!json_is_object(json_array_get(list, i))) return false;
  return json_is_array(list);
}

static tri_status take_tools(tri_chat *c, const tri_chat_opt *o) {
  char        *bytes = NULL;
  const char  *text = o->tools_text.bytes;
  const char  *key = o->from_deck ? "data.tools" : "--tools";
  size_t       n = o->tools_text.n;
  json_error_t e;
  tri_status   st = TRI_OK;

  if (!o->tools) return TRI_OK;
  if (!text) TRI_TRY(tri_error_about(tri_file_read(o->tools, TOOLS_BYTES, &bytes, &n), key));
  if (bytes) text = bytes;
  if (!tri_json_fits(text, n, MOST_NESTED))
    TRI_FAIL_DONE(TRI_EINPUT, "%s: " TRI_JSON_TOO_LARGE, o->tools, MOST_NESTED);
  c->tools = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
  if (!c->tools) TRI_FAIL_DONE(TRI_EINPUT, "%s:%d: this is not JSON: %s (%s)", o->tools, e.line, e.text, key);
  if (!is_list_of_objects(c->tools))
    TRI_FAIL_DONE(TRI_EINPUT,
                  "%s: %s wants a file with a JSON list of tools: [{\"type\": \"function\", \"function\": "
                  "{\"name\": ..., \"parameters\": ...}}, ...]",
                  o->tools, key);
done:
  TRI_FREE(bytes);
  return st;
}

/* ---- public ---- */

tri_status tri_chat_open(const tri_chat_opt *opt, const tri_chat_files *files, tri_chat **out) {
  tri_chat  *c = NULL;
  tri_status st = TRI_OK;

  *out = NULL;
  TRI_TRY_DONE(TRI_ALLOC(c, 1));
  TRI_TRY_DONE(tri_chat_take_tokens(files, c));
  TRI_TRY_DONE(take_template(c, opt, files));
  TRI_TRY_DONE(take_kwargs(c, opt));
  TRI_TRY_DONE(take_tools(c, opt));
  if (opt->date) TRI_TRY_DONE(tri_copy_text(opt->date, &c->date));
  if (opt->system) TRI_TRY_DONE(tri_copy_text(opt->system, &c->system));
  c->system_key = opt->system_key ? opt->system_key : "data.system_prompt";
  if (c->main.jinja) TRI_TRY_DONE(tri_chat_find_ends(c));
done:
  if (st != TRI_OK) tri_chat_close(&c);
  *out = c;
  return st;
}

void tri_chat_close(tri_chat **c) {
  if (!*c) return;
  free_source(&(*c)->main);
  free_source(&(*c)->tool_use);
  json_decref((*c)->tokens);
  json_decref((*c)->kwargs);
  json_decref((*c)->tools);
  for (int i = 0; i < TRI_CHAT_ENDS; i++) tri_text_free(&(*c)->end[i]);
  tri_text_free(&(*c)->given);
  tri_text_free(&(*c)->prompt);
  TRI_FREE((*c)->name);
  TRI_FREE((*c)->date);
  TRI_FREE((*c)->system);
  TRI_FREE((*c)->why);
  TRI_FREE(*c);
}

const char *tri_chat_name(const tri_chat *c) { return c->why ? NULL : c->name; }
const char *tri_chat_end(const tri_chat *c) {
  const tri_text *last = &c->end[TRI_CHAT_ENDS - 1];

  return last->len ? last->data + c->end_token : NULL;
}

static bool reads(const tri_chat *c, const char *name) {
  return (c->main.jinja && tri_jinja_reads(c->main.jinja, name)) ||
         (c->tool_use.jinja && tri_jinja_reads(c->tool_use.jinja, name));
}

bool tri_chat_says_date(const tri_chat *c) { return reads(c, "strftime_now"); }
bool tri_chat_reads_tools(const tri_chat *c) { return c->tool_use.jinja || reads(c, "tools"); }

const char *tri_chat_unread(const tri_chat *c) {
  const char *name;
  json_t     *value;

  json_object_foreach(c->kwargs, name, value) if (c->main.jinja && !reads(c, name)) return name;
  return NULL;
}

tri_status tri_chat_template(const tri_chat *c, tri_text *out) {
  if (!c->main.jinja) return TRI_OK;
  if (c->given.len) TRI_TRY(tri_text_put(out, c->given.data, c->given.len));
  return tri_text_put(out, c->main.text.data ? c->main.text.data : "", c->main.text.len);
}
