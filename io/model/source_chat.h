/* source_chat.h - finds the chat template of conversations: the model's own, or the one named by a deck. Not
 * collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SOURCE_CHAT_H
#define TRI_SOURCE_CHAT_H

#include "io/chat/chat.h"
#include "source.h"

/* The files of a checkpoint with the template and the tools that the deck of its run names. */
#define TRI_SOURCE_TEMPLATE_FILE "deck_chat_template.jinja"
#define TRI_SOURCE_TOOLS_FILE    "deck_tools.json"

/* A deck's settings for conversations, with the files it names. Zero-initialise. */
typedef struct tri_source_conversation {
  char *template; /* NULL if the deck names none */
  char  *kwargs, *date, *tools, *system;
  char  *text, *tools_text; /* bytes of the files of template and tools, else NULL */
  size_t n_text, n_tools;
} tri_source_conversation;
void tri_source_conversation_free(tri_source_conversation *t);

/* Reads the files that t names from their paths. If a file is gone, reads the copy in a checkpoint (NULL for
 * none). Returns TRI_EINPUT if there is neither. */
TRI_CHECKED tri_status tri_source_conversation_read(tri_source_conversation *t, tri_ckpt_reader *from);
/* Reads the deck's settings in a checkpoint, with the checkpoint's copies of the files. */
TRI_CHECKED tri_status tri_source_checkpoint_conversation(tri_ckpt_reader *r, tri_source_conversation *out);
/* Returns the same settings for tri_chat_open, borrowed from t. */
tri_chat_opt tri_source_conversation_opt(const tri_source_conversation *t, bool from_deck);

/* Opens the chosen chat template, or the source's own. The caller closes *out. */
TRI_CHECKED tri_status tri_source_chat(const tri_source *s, const tri_chat_opt *opt, tri_chat **out);

/* Tells whether the source has its own chat template. *broken is as in tri_chat_brings. Returns false if its
 * files cannot be read. */
bool tri_source_brings_chat(const tri_source *s, bool *broken);

#endif
