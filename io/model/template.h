/* template.h - the chat template that an export is given, and the end token that goes with it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TEMPLATE_H
#define TRI_TEMPLATE_H

#include "io/chat/chat.h"
#include "io/checkpoint/checkpoint.h"
#include "io/tokenizer/tokenizer.h"

/* Not collective. The token that ends a turn by the template; -1: none is known, or it is no single token. */
TRI_CHECKED tri_status tri_template_end(const tri_chat *chat, const tri_tokenizer *t, int32_t *out);

/* What an export is given. Zero-initialise; the text is to be freed. */
typedef struct tri_template {
  tri_text text;     /* empty: what the model brings stays */
  int32_t  end;      /* token that ends a turn by it (tri_template_end), else -1 */
  bool     replaces; /* the model brings another one, which goes */
} tri_template;
/* Not collective. The template that the deck of the checkpoint's run names, where the model does not bring
 * the same. Says what programs that use the export must be told. */
TRI_CHECKED tri_status tri_template_find(tri_ckpt_reader *r, tri_template *out);

#endif
