/* hint.h - suggests a cure in messages about a missing model, by the files that are there instead. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HINT_H
#define TRI_HINT_H

#include "base/text_buffer.h"

/* Not collective, all that follow. They append sentences to a message, or nothing without a suggestion. */

/* For a folder without readable weights. */
TRI_CHECKED tri_status tri_hint_weights(const char *folder, tri_text *out);
/* For a path without a model. */
TRI_CHECKED tri_status tri_hint_model(const char *path, tri_text *out);
/* For a folder without adapters. */
TRI_CHECKED tri_status tri_hint_adapters(const char *folder, tri_text *out);
/* Tells whether a file of the folder is a link to a missing file, as a broken download leaves it. */
bool tri_hint_dangles(const char *folder, const char *name);
/* Returns the name of another tokenizer's file in a folder without tokenizer.json, or NULL. */
const char *tri_hint_tokenizer(const char *folder);

#endif
