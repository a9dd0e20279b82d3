/* part.h - names the models in a checkpoint, each with its own config.json and group of tensors. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PART_H
#define TRI_PART_H

#include "io/checkpoint/checkpoint.h"

/* MAIN is the trained policy or reward model. EMA is the average of its weights. */
typedef enum { TRI_PART_MAIN, TRI_PART_CRITIC, TRI_PART_EMA } tri_model_part;

const char *tri_part_config(tri_model_part part); /* side file: "config.json", "critic_config.json" */
const char *tri_part_group(tri_model_part part);  /* "/model", "/critic/model", "/ema/model" */
/* A run with low-rank adapters saves no weights of the part. The checkpoint then has the group of the
 * adapters ("/adapter/model" and so on), a side file with their config (peft.h), and a side file about their
 * base model (base_note.h). */
const char *tri_part_adapters(tri_model_part part);
const char *tri_part_adapter_config(tri_model_part part);
const char *tri_part_base(tri_model_part part);
/* Not collective. Returns TRI_EINPUT if the checkpoint does not have this part. */
TRI_CHECKED tri_status tri_part_check(const tri_ckpt_reader *r, tri_model_part part);

#endif
