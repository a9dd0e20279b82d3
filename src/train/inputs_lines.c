/* inputs_lines.c - checks JSON, keys and answers of data lines without the model that would read them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "inputs_chat.h"

static const char *refuse(const void *rewards, const char *answer, size_t n) {
  return tri_reward_set_refuse(rewards, answer, n);
}

/* Replaces a tokenizer that could not be opened. Each byte is a token. ctx is a tri_tokens. */
static tri_status encode_bytes(void *ctx, const char *text, size_t n, bool special, const int32_t **id,
                               int64_t *n_id) {
  tri_tokens *list = ctx;

  (void)special;
  list->n = 0;
  for (size_t i = 0; i < n; i++) TRI_TRY(tri_tokens_put(list, &(int32_t){(unsigned char)text[i]}, 1));
  *id = list->id;
  *n_id = list->n;
  return TRI_OK;
}

tri_status tri_inputs_look_at_lines(const tri_trainer *t, const tri_config_list *files, tri_data_kind kind) {
  const tri_config      *c = t->cfg;
  const tri_config_list *beside = files == &c->data.eval ? &c->data.train : &c->data.eval;
  tri_dataset           *d = NULL;
  tri_chat              *chat = NULL;
  tri_tokens             list = {0};
  tri_data_opt           opt = {.kind = kind,
                                .prompt_key = c->data.prompt_key,
                                .answer_key = c->data.answer_key,
                                .completion_key = c->data.completion_key,
                                .chosen_key = c->data.chosen_key,
                                .rejected_key = c->data.rejected_key,
                                .label_key = c->data.label_key,
                                .from_deck = true,
                                .file_key = files == &c->data.eval ? "data.eval" : "data.train",
                                .beside = (const char *const *)beside->item,
                                .n_beside = beside->n,
                                .max_line_bytes = c->data.max_line_bytes,
                                .vocab = INT32_MAX,
                                .end = {-1, -1, NULL},
                                .encode = encode_bytes,
                                .ctx = &list,
                                .chat.tools_key = c->data.tools_key,
                                .refuse = t->reward ? refuse : NULL,
                                .refuse_ctx = t->reward,
                                .note.errors = t->run.errors};
  tri_status             st = TRI_OK;

  TRI_TRY_DONE(
      tri_chat_open(&(tri_chat_opt){.template = "chatml", .from_deck = true}, &(tri_chat_files){0}, &chat));
  opt.chat.form = chat;
  TRI_TRY_DONE(
      tri_dataset_open_shared((const char *const *)files->item, files->n, &opt, t->se->comm[TRI_WORLD], &d));
done:
  tri_dataset_close(&d);
  tri_chat_close(&chat);
  tri_tokens_free(&list);
  return st;
}
