/* hint.h - what a folder holds instead of what is looked for there, and what to do about it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HINT_H
#define TRI_HINT_H

#include "base/text_buffer.h"

/* Not collective, all that follow. Append sentences to a message, or nothing where nothing is known. */

/* A folder without weights that can be read. */
TRI_CHECKED tri_status tri_hint_weights(const char *folder, tri_text *out);
/* A path at which there is no model. */
TRI_CHECKED tri_status tri_hint_model(const char *path, tri_text *out);
/* A folder without adapters. */
TRI_CHECKED tri_status tri_hint_adapters(const char *folder, tri_text *out);
/* Whether a file of the folder is a link to one that is not there, as a broken download leaves it. */
bool tri_hint_dangles(const char *folder, const char *name);
/* Of a folder without tokenizer.json: another tokenizer's file there; NULL: there is none. */
const char *tri_hint_tokenizer(const char *folder);

#endif
