/* template.h - finds the chat template for an export, and its end token. Not collective, all that follow,
 * unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TEMPLATE_H
#define TRI_TEMPLATE_H

#include "io/chat/chat.h"
#include "io/checkpoint/checkpoint.h"
#include "io/tokenizer/tokenizer.h"

/* Gives the token that ends a turn in this template, or -1 if it is unknown or not a single token. */
TRI_CHECKED tri_status tri_template_end(const tri_chat *chat, const tri_tokenizer *t, int32_t *out);

/* The chat template of an export. Zero-initialise. Free the text. */
typedef struct tri_template {
  tri_text text;     /* empty: the model's own stays */
  int32_t  end;      /* token that ends a turn (tri_template_end), else -1 */
  bool     replaces; /* replaces the model's own template */
} tri_template;
/* Gives the template named by the deck of the checkpoint's run, if it differs from the model's own. Logs the
 * settings that programs using the export must know. */
TRI_CHECKED tri_status tri_template_find(tri_ckpt_reader *r, tri_template *out);

#endif
