/* source_chat.c - finds the chat template of conversations: the model's own, or the one named by a deck. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "source_chat.h"
#include "base/host_memory.h"
#include "source_impl.h"

#include "base/file.h"
#include "io/text/deck.h"

#include <stdio.h>
#include <string.h>

enum { TEMPLATE_BYTES = 4 << 20, TOOLS_BYTES = 64 << 20 }; /* chosen: a hundred times the largest known */

/* ---- files of a model ---- */

enum { JINJA, TOOL_USE, MAP, FILES };
/* Names in a model's folder, and in a checkpoint. */
static const char *const names[FILES][2] = {
    [JINJA] = {"chat_template.jinja", "chat_template.jinja"},
    [TOOL_USE] = {"additional_chat_templates/tool_use.jinja", "chat_template_tool_use.jinja"},
    [MAP] = {"special_tokens_map.json", "special_tokens_map.json"}};

typedef struct small {
  char  *bytes;
  size_t n;
} small;

/* Gives the folder of the model's files. */
static void find_folder(const tri_source *s, char out[TRI_CKPT_PATH_BYTES]) {
  const char *path = s->random ? s->path[TRI_SOURCE_TOKENIZER] : NULL,
             *slash = path ? strrchr(path, '/') : NULL;

  if (path)
    snprintf(out, TRI_CKPT_PATH_BYTES, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
  else
    snprintf(out, TRI_CKPT_PATH_BYTES, "%s", s->name);
}

static tri_status read_files(const tri_source *s, small out[FILES]) {
  char folder[TRI_CKPT_PATH_BYTES], path[TRI_CKPT_PATH_BYTES + 64];

  find_folder(s, folder);
  for (int i = 0; i < FILES; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i][0]);
    if (s->ckpt && tri_ckpt_has_file(s->ckpt, names[i][1]))
      TRI_TRY(tri_ckpt_get_file(s->ckpt, names[i][1], &out[i].bytes, &out[i].n));
    else if (!s->ckpt && tri_file_exists(path))
      TRI_TRY(tri_file_read(path, TEMPLATE_BYTES, &out[i].bytes, &out[i].n));
  }
  return TRI_OK;
}

static void free_files(small file[FILES]) {
  for (int i = 0; i < FILES; i++) TRI_FREE(file[i].bytes);
}

static tri_chat_files files_of(const tri_source *s, const small file[FILES]) {
  const tri_source_file *config = &s->file[TRI_SOURCE_TOKENIZER_CONFIG];

  return (tri_chat_files){.model = s->name,
                          .config = {config->bytes, config->n},
                          .map = {file[MAP].bytes, file[MAP].n},
                          .jinja = {file[JINJA].bytes, file[JINJA].n},
                          .tool_use = {file[TOOL_USE].bytes, file[TOOL_USE].n}};
}

tri_status tri_source_chat(const tri_source *s, const tri_chat_opt *opt, tri_chat **out) {
  small      file[FILES] = {{0}};
  tri_status st = read_files(s, file);

  *out = NULL;
  if (st == TRI_OK) {
    tri_chat_files files = files_of(s, file);
    st = tri_chat_open(opt, &files, out);
  }
  free_files(file);
  return st;
}

bool tri_source_brings_chat(const tri_source *s, bool *broken) {
  small file[FILES] = {{0}};
  bool  brings = false;

  *broken = false;
  if (read_files(s, file) == TRI_OK) {
    tri_chat_files files = files_of(s, file);
    brings = tri_chat_brings(&files, broken);
  } else {
    tri_error_clear();
  }
  free_files(file);
  return brings;
}

/* ---- settings of a deck ---- */

void tri_source_conversation_free(tri_source_conversation *t) {
  TRI_FREE(t->template);
  TRI_FREE(t->kwargs);
  TRI_FREE(t->date);
  TRI_FREE(t->tools);
  TRI_FREE(t->system);
  TRI_FREE(t->text);
  TRI_FREE(t->tools_text);
  *t = (tri_source_conversation){.n_text = 0};
}

tri_chat_opt tri_source_conversation_opt(const tri_source_conversation *t, bool from_deck) {
  return (tri_chat_opt){.template = t->template,
                        .text = {t->text, t->n_text},
                        .kwargs = t->kwargs,
                        .date = t->date,
                        .tools = t->tools,
                        .tools_text = {t->tools_text, t->n_tools},
                        .system = t->system,
                        .from_deck = from_deck};
}

static tri_status read_one(const char *path, const char *key, size_t limit, tri_ckpt_reader *from,
                           const char *name, char **bytes, size_t *n) {
  if (from && tri_ckpt_has_file(from, name) && !tri_file_exists(path))
    return tri_ckpt_get_file(from, name, bytes, n);
  return tri_error_about(tri_file_read(path, limit, bytes, n), key);
}

tri_status tri_source_conversation_read(tri_source_conversation *t, tri_ckpt_reader *from) {
  if (t->template && tri_chat_is_file(t->template))
    TRI_TRY(read_one(t->template, "data.chat_template", TEMPLATE_BYTES, from, TRI_SOURCE_TEMPLATE_FILE,
                     &t->text, &t->n_text));
  if (t->tools)
    TRI_TRY(read_one(t->tools, "data.tools", TOOLS_BYTES, from, TRI_SOURCE_TOOLS_FILE, &t->tools_text,
                     &t->n_tools));
  return TRI_OK;
}

/* Counts the entries of a key in the section data. *first is the first of them. 0 means the deck has none. */
static int find_key(const tri_deck *d, const char *key, int *first) {
  int n = 0;

  for (int i = 0; i < tri_deck_count(d); i++) {
    const tri_deck_entry *e = tri_deck_at(d, i);
    if (strcmp(e->section, "data") != 0 || strcmp(e->key, key) != 0 || tri_deck_is_null(e)) continue;
    if (!n) *first = i;
    n++;
  }
  return n;
}

static tri_status get_text(const tri_deck *d, const char *key, char **out) {
  int first;

  return find_key(d, key, &first) == 1 ? tri_copy_text(tri_deck_at(d, first)->value, out) : TRI_OK;
}

static tri_status get_kwargs(const tri_deck *d, char **out) {
  tri_text   text = {0};
  int        first, n = find_key(d, "chat_template_kwargs", &first);
  tri_status st;

  if (!n || tri_deck_at(d, first)->index != TRI_DECK_MAPPING) return TRI_OK;
  st = tri_deck_put_json(d, first, n, &text);
  if (st == TRI_OK) st = tri_copy_text(text.data, out);
  tri_text_free(&text);
  return st;
}

static tri_status get_file(tri_ckpt_reader *r, const char *name, char **bytes, size_t *n) {
  return tri_ckpt_has_file(r, name) ? tri_ckpt_get_file(r, name, bytes, n) : TRI_OK;
}

tri_status tri_source_checkpoint_conversation(tri_ckpt_reader *r, tri_source_conversation *out) {
  char      *bytes = NULL;
  size_t     n;
  tri_deck  *deck = NULL;
  tri_status st = TRI_OK;

  if (!tri_ckpt_has_file(r, "deck.yaml")) return TRI_OK;
  TRI_TRY(tri_ckpt_get_file(r, "deck.yaml", &bytes, &n));
  TRI_TRY_DONE(tri_deck_open_text("deck.yaml", bytes, n, &deck));
  TRI_TRY_DONE(get_text(deck, "chat_template", &out->template));
  TRI_TRY_DONE(get_kwargs(deck, &out->kwargs));
  TRI_TRY_DONE(get_text(deck, "chat_template_date", &out->date));
  TRI_TRY_DONE(get_text(deck, "tools", &out->tools));
  TRI_TRY_DONE(get_text(deck, "system_prompt", &out->system));
  TRI_TRY_DONE(get_file(r, TRI_SOURCE_TEMPLATE_FILE, &out->text, &out->n_text));
  TRI_TRY_DONE(get_file(r, TRI_SOURCE_TOOLS_FILE, &out->tools_text, &out->n_tools));
done:
  tri_deck_close(&deck);
  TRI_FREE(bytes);
  return st;
}
