/* lora.h - low-rank adapters (Hu et al. 2021): which modules of a family have them, how large, and what PEFT
 * calls them. The product of a module is x W^T + scale (x A^T) B^T, with A [rank,n_in] and B [n_out,rank]. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LORA_H
#define TRI_LORA_H

#include "family.h"

typedef struct tri_lora {
  int      rank;   /* 0: no adapters */
  double   alpha;  /* > 0 */
  bool     rs;     /* the scale is alpha / sqrt(rank) (Kalajdzievski 2023) instead of alpha / rank */
  uint64_t target; /* bit i: the module of row i of the family's tensors has one */
} tri_lora;

enum { TRI_LORA_NAME_BYTES = 96, TRI_LORA_MODULE_BYTES = 32 };

float              tri_lora_scale(const tri_lora *l);
static inline bool tri_lora_has(const tri_lora *l, int row) { return l->target >> row & 1; }
/* Rows that can have one, the linear modules of layers, as a target. */
uint64_t tri_lora_all(const tri_family *f);
/* Row i's, "q_proj"; a row that is no module's weight: "". */
void tri_lora_module(const tri_family *f, int row, char out[TRI_LORA_MODULE_BYTES]);
/* The rows that PEFT means by one of target_modules: a module's name, maybe with those before it,
 * "self_attn.q_proj"; all-linear: all. 0: none. */
uint64_t tri_lora_find(const tri_family *f, const char *target);
/* The whole name of the module of row i in a layer, "model.layers.0.self_attn.q_proj"; false: it is none. */
bool tri_lora_module_name(const tri_family *f, int row, int layer, char out[TRI_LORA_NAME_BYTES]);
/* Whether PEFT means by it the module of row i in this layer: its whole name, or an end of it from a dot
 * on. */
bool tri_lora_means(const tri_family *f, int row, int layer, const char *target);
/* Whether it is a module's weight, whose adapters PEFT's files can hold. */
bool tri_lora_can_name(const char *tensor);
/* What PEFT's files call A or B (ab) of the module whose weight is `weight`:
 * "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight". */
void tri_lora_name(const char *weight, char ab, char out[TRI_LORA_NAME_BYTES]);
/* And a tensor that is trained in full, "score.weight". */
void tri_lora_name_full(const char *tensor, char out[TRI_LORA_NAME_BYTES]);

#endif
