/* dataset_foreign.h - recognises data lines in formats of other programs, and says how to convert them.
 * Private to its room. Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DATASET_FOREIGN_H
#define TRI_DATASET_FOREIGN_H

#include "line_parser.h"

/* Always returns TRI_EINPUT with "FILE:LINE: what; its fields are ..." and the cure. The cure is the keys
 * that name the line's fields, or a jq command that rewrites the file. key is the missing field, which is
 * also searched in inner objects of the line, or NULL. otherwise names the keys to set for an unknown format,
 * or is NULL. */
TRI_CHECKED tri_status tri_foreign_refuse(const tri_line_parser *in, const char *what, const char *key,
                                          const char *otherwise);
/* Refuses a line if the messages in one of its fields have `from` and `value`. */
TRI_CHECKED tri_status tri_foreign_check(const tri_line_parser *in);
/* Refuses the conversation in in->conversation if it has roles of ShareGPT and no assistant message. prompt
 * and answer are its fields. prompt NULL: it has none. */
TRI_CHECKED tri_status tri_foreign_check_roles(const tri_line_parser *in, const char *prompt,
                                               const char *answer);
/* Returns st, the status of a file that could not be opened. If its path looks like a data set of the Hugging
 * Face Hub, OWNER/NAME, the error also says how to download it. */
TRI_CHECKED tri_status tri_foreign_unopened(const char *path, tri_status st);
/* Refuses a line of preferences in a kind that reads one answer or none. */
TRI_CHECKED tri_status tri_foreign_refuse_pair(const tri_line_parser *in, const char *field);

#endif
