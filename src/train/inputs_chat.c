/* inputs_chat.c - opens the chat template of a run and reports on it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "inputs_chat.h"

#include "base/log.h"
#include "base/notice.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Collective over world. Chooses the day that templates write, which is the deck's, or the day of the run's
 * first start. */
static tri_status choose_day(const tri_trainer *t, char out[16]) {
  tri_ckpt_reader        *from = tri_source_checkpoint(t->learner[TRI_POLICY].source);
  tri_source_conversation before = {.n_text = 0};
  time_t                  now = time(NULL);
  struct tm               day;
  tri_status              st = TRI_OK;

  localtime_r(&now, &day);
  strftime(out, 16, "%Y-%m-%d", &day);
  if (t->run.resume[0] && from) st = tri_source_checkpoint_conversation(from, &before);
  if (before.date) snprintf(out, 16, "%s", before.date);
  if (t->cfg->data.chat_template_date) snprintf(out, 16, "%s", t->cfg->data.chat_template_date);
  tri_source_conversation_free(&before);
  TRI_TRY(tri_agree(tri_world_of(t), st));
  return tri_host_bcast(tri_world_of(t), out, 16, 0);
}

static tri_status copy_or_null(const char *text, char **out) {
  return text ? tri_copy_text(text, out) : TRI_OK;
}

/* Not collective. Reads the deck's options and files for conversations, except the day. */
static tri_status read_conversation(tri_trainer *t) {
  const tri_config *c = t->cfg;
  tri_ckpt_reader  *from = t->run.resume[0] ? tri_source_checkpoint(t->learner[TRI_POLICY].source) : NULL;

  TRI_TRY(tri_copy_text(c->data.chat_template, &t->conversation.template));
  TRI_TRY(copy_or_null(c->data.chat_template_kwargs, &t->conversation.kwargs));
  TRI_TRY(copy_or_null(c->data.chat_template_date, &t->conversation.date));
  TRI_TRY(copy_or_null(c->data.tools, &t->conversation.tools));
  TRI_TRY(copy_or_null(c->data.system_prompt, &t->conversation.system));
  return tri_source_conversation_read(&t->conversation, from);
}

tri_status tri_inputs_open_chat(tri_trainer *t, tri_chat **out) {
  char         day[16];
  tri_chat_opt opt;

  if (!t->conversation.template) TRI_TRY(tri_agree(tri_world_of(t), read_conversation(t)));
  TRI_TRY(choose_day(t, day));
  opt = tri_source_conversation_opt(&t->conversation, !t->plan.evaluates);
  if (!opt.date) opt.date = day;
  TRI_TRY(tri_agree(tri_world_of(t), tri_source_chat(t->learner[TRI_POLICY].source, &opt, out)));
  if (tri_chat_says_date(*out) && !t->conversation.date) return tri_copy_text(day, &t->conversation.date);
  return TRI_OK;
}

static void say_plain(const tri_trainer *t, const tri_dataset *d) {
  const tri_data_stats *s = tri_dataset_stats(d);
  bool                  broken;

  if (!t->cfg->data.apply_is_default || !s->n_plain || !strcmp(t->cfg->data.chat_template, "none")) return;
  if (t->run.resume[0] || !tri_source_brings_chat(t->learner[TRI_POLICY].source, &broken)) return;
  tri_log(
      TRI_LOG_INFO,
      "%s: prompts are plain text, but this model has a chat template. Give data.apply_chat_template: true "
      "to write them as a user's message.",
      t->cfg->data.train.item[0]);
}

void tri_inputs_say_other(const tri_trainer *t, const tri_dataset *d, const tri_chat *chat) {
  tri_ckpt_reader        *from = tri_source_checkpoint(t->learner[TRI_POLICY].source);
  tri_source_conversation before = {.n_text = 0};

  if (t->se->rt.world_rank == 0) say_plain(t, d);
  if (t->se->rt.world_rank != 0 || !tri_dataset_stats(d)->n_conversation || t->run.resume[0] || !from) return;
  if (strcmp(t->cfg->data.chat_template, "auto") != 0) return;
  if (tri_source_checkpoint_conversation(from, &before) != TRI_OK)
    tri_error_clear();
  else if (before.template && strcmp(before.template, "auto") != 0 && strcmp(before.template, "none") != 0)
    tri_warn(
        "other_template",
        "model.path comes from a run with data.chat_template: %s. This run writes conversations with the "
        "chat template %s. Give data.chat_template to write them as that run did.",
        before.template, tri_chat_name(chat));
  tri_source_conversation_free(&before);
}

tri_status tri_inputs_say_chat(const tri_trainer *t, const tri_dataset *d, const char *file,
                               tri_encoder *encoder, const tri_chat *chat) {
  const tri_eos *eos = tri_source_eos(t->learner[TRI_POLICY].source);
  const char    *end = tri_chat_end(chat);
  const int32_t *id;
  int64_t        n;
  bool           ends = false;

  if (t->se->rt.world_rank != 0) return TRI_OK;
  tri_dataset_say_conversation(d, chat, file);
  if (!tri_dataset_stats(d)->n_conversation) return TRI_OK;
  if (t->cfg->data.tools && !tri_chat_reads_tools(chat))
    tri_warn("template_without_tools",
             "data.tools: the chat template %s writes no tools, so they are left out", tri_chat_name(chat));
  if (tri_chat_unread(chat))
    tri_warn("template_variable_unread",
             "data.chat_template_kwargs: the chat template %s reads no variable %s", tri_chat_name(chat),
             tri_chat_unread(chat));
  if (tri_dataset_stats(d)->n_endless)
    tri_warn(
        "endless_conversations",
        "%s: %lld of %lld conversations have no end token after the answer as the chat template %s writes "
        "them. The model learns no end and will not stop by itself. Let the template write {{ eos_token }} "
        "after each answer, inside {%% generation %%} if it has that. If tokenizer_config.json names no "
        "eos_token, write the token itself. Or name another template with data.chat_template.",
        file, (long long)tri_dataset_stats(d)->n_endless, (long long)tri_dataset_stats(d)->n_conversation,
        tri_chat_name(chat));
  if (!end) return TRI_OK;
  TRI_TRY(tri_encoder_run(encoder, end, strlen(end), false, &id, &n));
  for (int i = 0; i < eos->n && n == 1; i++) ends |= eos->id[i] == id[0];
  if (n != 1)
    tri_warn(
        "turn_end_no_token",
        "%s: the chat template %s ends a turn with %s. The model's tokenizer splits this text into %lld "
        "tokens, so no answer ends there. Use a template that ends a turn with one token, such as {{ "
        "eos_token }} in your own FILE.jinja (data.chat_template). Or add the token to tokenizer and model "
        "(transformers' add_tokens and resize_token_embeddings). Or end answers at this text "
        "(rollout.stop).",
        file, tri_chat_name(chat), end, (long long)n);
  else if (!ends)
    tri_warn("turn_end_no_eos",
             "%s: the chat template %s ends a turn with %s, but this token does not end an answer of this "
             "model. Add its id %d to eos_token_id in generation_config.json.",
             file, tri_chat_name(chat), end, id[0]);
  return TRI_OK;
}
