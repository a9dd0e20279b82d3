/* template.h - the chat template that an export is given, and the end token that goes with it. */
#ifndef TRI_TEMPLATE_H
#define TRI_TEMPLATE_H

#include "io/chat/chat.h"
#include "io/checkpoint/checkpoint.h"
#include "io/tokenizer/tokenizer.h"

/* Not collective. The token that ends a turn by the template; -1: none is known, or it is no single token. */
TRI_CHECKED tri_status tri_template_end(const tri_chat *chat, const tri_tokenizer *t, int32_t *out);

/* Not collective. What other programs are to write conversations by, appended to out: the template that the
 * deck of the checkpoint's run names, where the model brings none; else nothing, and what it brings stays. Of
 * what is written *end is the token that ends a turn (tri_template_end), else -1. */
TRI_CHECKED tri_status tri_template_find(tri_ckpt_reader *r, tri_text *out, int32_t *end);

#endif
