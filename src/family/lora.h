/* lora.h - low-rank adapters (Hu et al. 2021): the modules of a family that have them, their size, and their
 * names in PEFT. The product of a module is x W^T + scale (x A^T) B^T. A is [rank,n_in] and B is
 * [n_out,rank]. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LORA_H
#define TRI_LORA_H

#include "family.h"

typedef struct tri_lora {
  int      rank;   /* 0 without adapters */
  double   alpha;  /* > 0 */
  bool     rs;     /* the scale is alpha / sqrt(rank) (Kalajdzievski 2023) instead of alpha / rank */
  uint64_t target; /* bit i is set if the module of row i of the family's tensors has an adapter */
} tri_lora;

enum { TRI_LORA_NAME_BYTES = 96, TRI_LORA_MODULE_BYTES = 32 };

float              tri_lora_scale(const tri_lora *l);
static inline bool tri_lora_has(const tri_lora *l, int row) { return l->target >> row & 1; }
/* Returns the rows that can have an adapter, the linear modules of layers, in the form of `target`. */
uint64_t tri_lora_all(const tri_family *f);
/* Gives the name of row i's module, as in "q_proj", or "" if the row is no module's weight. */
void tri_lora_module(const tri_family *f, int row, char out[TRI_LORA_MODULE_BYTES]);
/* Returns the rows PEFT means by one entry of target_modules, or 0 if there is none. An entry is the name of
 * a module, with or without the names before it ("self_attn.q_proj"), or all-linear for all rows. */
uint64_t tri_lora_find(const tri_family *f, const char *target);
/* Gives the whole name of row i's module in a layer, as in "model.layers.0.self_attn.q_proj". Returns false
 * if the row is no module. */
bool tri_lora_module_name(const tri_family *f, int row, int layer, char out[TRI_LORA_NAME_BYTES]);
/* Returns whether PEFT means row i's module in this layer by `target`. It may be the module's whole name, or
 * an end of that name after a dot. Layers of another kind do not have the module (tri_row_in_layer). */
bool tri_lora_means(const tri_family *f, int row, int layer, const char *target);
/* Returns whether the tensor is a module's weight and its adapters have a place in PEFT's files. */
bool tri_lora_can_name(const char *tensor);
/* Gives PEFT's name for A or B (`ab`) of the module with this weight, as in
 * "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight". */
void tri_lora_name(const char *weight, char ab, char out[TRI_LORA_NAME_BYTES]);
/* Gives PEFT's name for a tensor trained in full, as in "score.weight". */
void tri_lora_name_full(const char *tensor, char out[TRI_LORA_NAME_BYTES]);

#endif
