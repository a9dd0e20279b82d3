/* peft.h - reads and writes adapter_config.json of PEFT, for low-rank adapters of linear modules. Not
 * collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PEFT_H
#define TRI_PEFT_H

#include "family/lora.h"
#include "hf_config.h"

#define TRI_PEFT_CONFIG  "adapter_config.json"
#define TRI_PEFT_WEIGHTS "adapter_model.safetensors"

/* Reads rank, alpha, scale and targets for a model of this shape. target_modules is a list of
 * names or a pattern of whole names (Python's re.fullmatch). Names unknown to the model are ignored in a
 * list. exclude_modules removes modules from it. head is the prefix of module names in the model used for
 * training, instead of "model." (NULL for "model.").
 *
 * Returns TRI_EINPUT naming the field if a field asks for anything else that changes the result. This
 * includes an unknown field, unless its value is null, false, 0 or empty. With `warn`, a dropout causes a
 * warning, because adapters have none here. */
TRI_CHECKED tri_status tri_peft_parse(const tri_hf_text *text, const tri_model_shape *shape, const char *head,
                                      bool warn, tri_lora *out);
/* Appends the text of the file. base is the path of the adapters' base model. */
TRI_CHECKED tri_status tri_peft_print(const tri_lora *l, const tri_model_shape *shape, const char *base,
                                      tri_text *out);

#endif
