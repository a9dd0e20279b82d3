/* part.h - the models a checkpoint holds, each with a config.json and a group of tensors of its own. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PART_H
#define TRI_PART_H

#include "io/checkpoint/checkpoint.h"

/* MAIN: what the run is about, a policy or a reward model. EMA: the average of its weights. */
typedef enum { TRI_PART_MAIN, TRI_PART_CRITIC, TRI_PART_EMA } tri_model_part;

const char *tri_part_config(tri_model_part part); /* the side file: "config.json", "critic_config.json" */
const char *tri_part_group(tri_model_part part);  /* "/model", "/critic/model", "/ema/model" */
/* Where low-rank adapters are kept instead of the part's weights: "/adapter/model" and so on; the side
 * files of what they are (peft.h) and of the model that they are for (base_note.h). */
const char *tri_part_adapters(tri_model_part part);
const char *tri_part_adapter_config(tri_model_part part);
const char *tri_part_base(tri_model_part part);
/* Not collective. TRI_EINPUT: the checkpoint does not hold it. */
TRI_CHECKED tri_status tri_part_check(const tri_ckpt_reader *r, tri_model_part part);

#endif
