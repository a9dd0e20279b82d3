/* dataset_foreign.h - lines of data in forms of other programs, and their cures. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DATASET_FOREIGN_H
#define TRI_DATASET_FOREIGN_H

#include "line_parser.h"

/* Not collective. Always TRI_EINPUT: "FILE:LINE: what; its fields are ...", then the cure: the keys that name
 * the line's fields, or a jq command that rewrites the file. key: the field that is missing, which is looked
 * for further down in the line, or NULL. otherwise: the keys to set where the form is not recognised, or
 * NULL. */
TRI_CHECKED tri_status tri_foreign_refuse(const tri_line_parser *in, const char *what, const char *key,
                                          const char *otherwise);
/* Not collective. Refuses a line whose messages, in a field that is read, have `from` and `value`. */
TRI_CHECKED tri_status tri_foreign_check(const tri_line_parser *in);
/* Not collective. Refuses a conversation, in in->conversation, that has roles of ShareGPT's and no message
 * of the assistant. prompt, answer: its fields; prompt NULL: it has none. */
TRI_CHECKED tri_status tri_foreign_check_roles(const tri_line_parser *in, const char *prompt,
                                               const char *answer);
/* Not collective. Hands st back, of a file that could not be opened. Where its path is rather the name of a
 * data set of the Hugging Face Hub, OWNER/NAME, the error says how that is fetched. */
TRI_CHECKED tri_status tri_foreign_unopened(const char *path, tri_status st);
/* Not collective. Refuses a line of preferences where one answer, or none, is read. */
TRI_CHECKED tri_status tri_foreign_refuse_pair(const tri_line_parser *in, const char *field);

#endif
