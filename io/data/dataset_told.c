/* dataset_told.c - reports to the user how a template changes the conversations of a dataset. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"
#include "dataset.h"

#include "base/notice.h"

#include <string.h>

void tri_dataset_say_conversation(const tri_dataset *d, const tri_chat *chat, const char *file) {
  const tri_data_stats *s = tri_dataset_stats(d);
  const char           *key;

  if (tri_chat_system(chat, &key) && !s->n_conversation)
    tri_warn("no_conversation",
             "%s: no line is a conversation, so %s is not used. With %s text prompts become user messages.",
             file, key, strncmp(key, "--", 2) ? "data.apply_chat_template: true" : "--apply-chat-template");
  if (s->n_begun)
    tri_log(TRI_LOG_INFO,
            "%s: %lld of %lld prompts end with a message of the assistant, and answers continue it", file,
            (long long)s->n_begun, (long long)s->n_conversation);
  if (s->n_system_left_out)
    tri_warn("system_not_written",
             "%s: the text of the system message is missing in %lld of %lld conversations, because the "
             "chat template %s does not write it",
             file, (long long)s->n_system_left_out, (long long)s->n_conversation, tri_chat_name(chat));
  if (s->n_text_left_out)
    tri_warn("text_not_written",
             "%s: the text of the last message is missing in %lld of %lld conversations, because the chat "
             "template %s does not write it. Name another template, or give each content as [{\"type\": "
             "\"text\", \"text\": ...}] if this one needs parts.",
             file, (long long)s->n_text_left_out, (long long)s->n_conversation, tri_chat_name(chat));
  if (s->n_calls_left_out)
    tri_warn("calls_not_written",
             "%s: the function of a tool call is missing in %lld of %lld conversations, because the chat "
             "template %s does not write it. Name a template with tool_calls.",
             file, (long long)s->n_calls_left_out, (long long)s->n_conversation, tri_chat_name(chat));
  if (s->n_tools_left_out)
    tri_warn("template_without_tools",
             "%s: the chat template %s writes no tools, so those of %lld line%s are left out", file,
             tri_chat_name(chat), (long long)s->n_tools_left_out, s->n_tools_left_out == 1 ? "" : "s");
}
