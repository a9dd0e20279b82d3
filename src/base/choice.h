/* choice.h - choices of what computes: a key of the deck, which an environment variable overrides. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CHOICE_H
#define TRI_CHOICE_H

typedef enum {
  TRI_CHOICE_CPU_KERNELS,
  TRI_CHOICE_CPU_F32,
  TRI_CHOICE_CPU_BF16,
  TRI_CHOICE_COLLECTIVES,
  TRI_CHOICE_CUDA_ATTENTION,
  TRI_CHOICES
} tri_choice;

/* Not collective, before the device is opened. The deck's word for the choice; "auto" is none. Copied. */
void tri_choice_set(tri_choice c, const char *word);
/* Not collective. The word that holds: the variable's where it is set and not empty, else the deck's, else
 * "". Valid until the variable or the deck's word changes. */
const char *tri_choice_word(tri_choice c);
/* Not collective. Where the word comes from and how it ends, for messages: "TRI_CPU_F32=" and "unset", or
 * "run.cpu_f32: " and "auto". */
const char *tri_choice_source(tri_choice c);
const char *tri_choice_none(tri_choice c);

#endif
