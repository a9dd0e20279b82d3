/* inputs_chat.h - the chat template of a run; lines of data without a model. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_INPUTS_CHAT_H
#define TRI_INPUTS_CHAT_H

#include "train.h"

/* Collective over world. Opens the template of the deck. The day is kept where the template writes one. */
TRI_CHECKED tri_status tri_inputs_open_chat(tri_trainer *t, tri_chat **out);
/* Not collective; rank 0 speaks. Answers must end as turns do. file: of the data, for messages. */
TRI_CHECKED tri_status tri_inputs_say_chat(const tri_trainer *t, const tri_dataset *d, const char *file,
                                           tri_encoder *encoder, const tri_chat *chat);
/* Not collective; rank 0 speaks, of the lines to train on. Prompts may be plain text while the model has a
 * template, and the deck does not say whether they shall be written with it. A checkpoint's model brings its
 * own template, perhaps another than its run wrote conversations with. */
void tri_inputs_say_other(const tri_trainer *t, const tri_dataset *d, const tri_chat *chat);

/* inputs_lines.c. Collective over world. Of a run that ends here, whose model could not be opened: what is
 * wrong with the lines themselves, into t->run.faults. */
TRI_CHECKED tri_status tri_inputs_look_at_lines(const tri_trainer *t, const tri_config_list *files,
                                                tri_data_kind kind);

#endif
