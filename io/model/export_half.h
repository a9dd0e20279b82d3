/* export_half.h - renames the adapters of a text model for the multimodal model it was taken from. Private to
 * its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_EXPORT_HALF_H
#define TRI_EXPORT_HALF_H

#include "base/text_buffer.h"
#include "family/lora.h"

enum { TRI_HALF_NAME_BYTES = TRI_LORA_NAME_BYTES + 32 };

/* Not collective. config [n] is an adapter_config.json with a list of target_modules. *half is true if the
 * base model it names exists and is multimodal, or if `held` says that its export is. Then the file is
 * appended to *out with target_modules as a pattern for the modules of the text model. */
TRI_CHECKED tri_status tri_export_half_config(const char *config, size_t n, bool held, tri_text *out,
                                              bool *half);
/* Pure. Gives the name of an adapter's tensor in the multimodal model. */
void tri_export_half_name(const char *name, char out[TRI_HALF_NAME_BYTES]);

#endif
