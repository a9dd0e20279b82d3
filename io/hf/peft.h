/* peft.h - adapter_config.json, as PEFT reads and writes it: low-rank adapters of linear modules. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PEFT_H
#define TRI_PEFT_H

#include "family/lora.h"
#include "hf_config.h"

#define TRI_PEFT_CONFIG  "adapter_config.json"
#define TRI_PEFT_WEIGHTS "adapter_model.safetensors"

/* Not collective. Of a model of this shape: rank, alpha, scale and targets, field by field. target_modules
 * is a list of names, of which those that the model has not mean nothing, or a pattern of whole names
 * (Python's re.fullmatch); exclude_modules takes out of them. head: what the names of modules begin with
 * in the model that the adapters were trained with, in the place of "model."; NULL: that. TRI_EINPUT,
 * naming the field, where it asks for something else that changes the result; also one that is not known
 * here, unless its value is null, false, 0 or empty. A dropout is told by a warning if `warn`: there is
 * none here. */
TRI_CHECKED tri_status tri_peft_parse(const tri_hf_text *text, const tri_model_shape *shape, const char *head,
                                      bool warn, tri_lora *out);
/* Not collective. Appends the file; base: where the model lies that the adapters are for. */
TRI_CHECKED tri_status tri_peft_print(const tri_lora *l, const tri_model_shape *shape, const char *base,
                                      tri_text *out);

#endif
