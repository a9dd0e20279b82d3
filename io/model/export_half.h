/* export_half.h - adapters of a text model that was taken from a model of text and more, with the names that
 * this model gives its modules. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_EXPORT_HALF_H
#define TRI_EXPORT_HALF_H

#include "base/text_buffer.h"
#include "family/lora.h"

enum { TRI_HALF_NAME_BYTES = TRI_LORA_NAME_BYTES + 32 };

/* Not collective. config [n]: an adapter_config.json with a list of target_modules. *half: the model that it
 * names is there and one of text and more; then the file is appended to *out with target_modules as a pattern
 * of modules of its text model. */
TRI_CHECKED tri_status tri_export_half_config(const char *config, size_t n, tri_text *out, bool *half);
/* Pure. The name of an adapter's tensor there. */
void tri_export_half_name(const char *name, char out[TRI_HALF_NAME_BYTES]);

#endif
