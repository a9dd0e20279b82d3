/* template.c - finds the chat template for an export, and its end token. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "template.h"
#include "base/log.h"
#include "source_chat.h"

#include <string.h>

tri_status tri_template_end(const tri_chat *chat, const tri_tokenizer *t, int32_t *out) {
  const char *end = tri_chat_end(chat);
  tri_tokens  id = {0};

  *out = -1;
  if (!end || !t) return TRI_OK;
  TRI_TRY(tri_tokenizer_encode(t, end, strlen(end), false, &id));
  if (id.n == 1) *out = id.id[0];
  tri_tokens_free(&id);
  return TRI_OK;
}

/* A checkpoint's model with two templates: the one named by the run's deck, and its own. */
typedef struct brought {
  tri_source_conversation conversation;
  tri_source             *source;
  tri_chat               *named, *own;
} brought;

static tri_status open_both(tri_ckpt_reader *r, brought *b) {
  tri_chat_opt named, own = {.from_deck = true};

  TRI_TRY(tri_source_checkpoint_conversation(r, &b->conversation));
  if (!b->conversation.template || !strcmp(b->conversation.template, "auto") ||
      !strcmp(b->conversation.template, "none"))
    return TRI_OK;
  if (tri_chat_is_file(b->conversation.template) && !b->conversation.text) return TRI_OK;
  named = tri_source_conversation_opt(&b->conversation, true);
  named.tools = NULL;
  TRI_TRY(tri_source_open(tri_ckpt_folder(r), NULL, false, &b->source));
  TRI_TRY(tri_source_chat(b->source, &named, &b->named));
  return tri_source_chat(b->source, &own, &b->own);
}

static tri_status give(const brought *b, tri_template *out) {
  const tri_source_file *config = tri_source_file_at(b->source, TRI_SOURCE_TOKENIZER_CONFIG);
  tri_text               own = {0};
  bool                   broken, brings = tri_source_brings_chat(b->source, &broken), same;

  if (!tri_chat_name(b->named)) return TRI_OK;
  if (!brings && broken && config->bytes) {
    tri_log(TRI_LOG_WARN,
            "the model's tokenizer_config.json is not JSON, so it is exported unchanged, without "
            "data.chat_template: %s. Give this template to programs that use the export.",
            tri_chat_name(b->named));
    return TRI_OK;
  }
  TRI_TRY(tri_chat_template(b->named, &out->text));
  TRI_TRY(tri_chat_template(b->own, &own));
  same = own.len == out->text.len && (!own.len || !memcmp(own.data, out->text.data, own.len));
  tri_text_free(&own);
  if (same) {
    tri_text_free(&out->text);
    return TRI_OK;
  }
  out->replaces = brings;
  if (brings)
    tri_log(TRI_LOG_INFO,
            "the export has the chat template of the run, data.chat_template: %s, instead of the model's own",
            tri_chat_name(b->named));
  return tri_template_end(b->named, tri_source_tokenizer(b->source), &out->end);
}

tri_status tri_template_find(tri_ckpt_reader *r, tri_template *out) {
  brought    b = {.conversation = {.n_text = 0}};
  tri_status st = TRI_OK;

  out->end = -1;
  TRI_TRY_DONE(open_both(r, &b));
  if (b.named) TRI_TRY_DONE(give(&b, out));
  if (b.conversation.kwargs)
    tri_log(TRI_LOG_INFO,
            "the run wrote conversations with data.chat_template_kwargs: %s. Give them to programs that "
            "use the export.",
            b.conversation.kwargs);
  if (b.conversation.system)
    tri_log(TRI_LOG_INFO,
            "the run put a system message before its conversations (data.system_prompt). Programs that "
            "use the export must do so too.");
done:
  tri_chat_close(&b.named);
  tri_chat_close(&b.own);
  tri_source_close(&b.source);
  tri_source_conversation_free(&b.conversation);
  return st;
}
