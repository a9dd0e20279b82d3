/* source_chat.h - how conversations are written: by the model's own template, or as a run's deck says. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SOURCE_CHAT_H
#define TRI_SOURCE_CHAT_H

#include "io/chat/chat.h"
#include "source.h"

/* The files of a checkpoint that hold the template and the tools which the deck of its run names. */
#define TRI_SOURCE_TEMPLATE_FILE "deck_chat_template.jinja"
#define TRI_SOURCE_TOOLS_FILE    "deck_tools.json"

/* What a run's deck says of conversations, with the files that it names. Zero-initialise. */
typedef struct tri_source_conversation {
  char *template; /* NULL: it says none */
  char  *kwargs, *date, *tools, *system;
  char  *text, *tools_text; /* bytes of the files that template and tools name, else NULL */
  size_t n_text, n_tools;
} tri_source_conversation;
void tri_source_conversation_free(tri_source_conversation *t);

/* Not collective. The bytes of the files that t names: from their paths, or where these are gone from a
 * checkpoint (NULL: there is none). TRI_EINPUT: there are none. */
TRI_CHECKED tri_status tri_source_conversation_read(tri_source_conversation *t, tri_ckpt_reader *from);
/* Not collective. What the deck of a checkpoint's run says, with the files as the checkpoint holds them. */
TRI_CHECKED tri_status tri_source_checkpoint_conversation(tri_ckpt_reader *r, tri_source_conversation *out);
/* The same for tri_chat_open, borrowed from t. */
tri_chat_opt tri_source_conversation_opt(const tri_source_conversation *t, bool from_deck);

/* Not collective. The template of conversations: as chosen, or the source's own. The caller closes *out. */
TRI_CHECKED tri_status tri_source_chat(const tri_source *s, const tri_chat_opt *opt, tri_chat **out);

/* Not collective. Whether the source brings a template of its own; *broken: as tri_chat_brings. False where
 * its files cannot be read. */
bool tri_source_brings_chat(const tri_source *s, bool *broken);

#endif
