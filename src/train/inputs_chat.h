/* inputs_chat.h - opens the chat template of a run, and checks lines of data without a model. Private to its
 * room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_INPUTS_CHAT_H
#define TRI_INPUTS_CHAT_H

#include "train.h"

/* Collective over world. Opens the chat template of the deck. If the template writes a date, that day is
 * kept. */
TRI_CHECKED tri_status tri_inputs_open_chat(tri_trainer *t, tri_chat **out);
/* Not collective. Rank 0 warns if answers do not end as turns do in the template. `file` names the data in
 * messages. */
TRI_CHECKED tri_status tri_inputs_say_chat(const tri_trainer *t, const tri_dataset *d, const char *file,
                                           tri_encoder *encoder, const tri_chat *chat);
/* Not collective. Rank 0 reports two cases about the training lines. Prompts may be plain text although the
 * model has a template, and the deck does not say whether to apply it. The model of a checkpoint may bring
 * another template than its run used for conversations. */
void tri_inputs_say_other(const tri_trainer *t, const tri_dataset *d, const tri_chat *chat);

/* inputs_lines.c. Collective over world. For a run that ends here because its model could not be opened. Adds
 * errors of the lines themselves to t->run.errors. */
TRI_CHECKED tri_status tri_inputs_look_at_lines(const tri_trainer *t, const tri_config_list *files,
                                                tri_data_kind kind);

#endif
