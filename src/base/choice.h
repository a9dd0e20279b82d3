/* choice.h - choices of implementations: a key of the deck, overridden by an environment variable. Not
 * collective, all that follow, unless they say Collective. */
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

/* Not collective, before the device is opened. Sets the deck's word for the choice. "auto" means none.
 * Copied. */
void tri_choice_set(tri_choice c, const char *word);
/* Returns the word in force: the variable's if it is set and not empty, else the deck's, else "". Valid until
 * the variable or the deck's word changes. */
const char *tri_choice_word(tri_choice c);
/* The source of the word and the way to remove it, for messages: "TRI_CPU_F32=" and "unset", or "run.cpu_f32:
 * " and "auto". */
const char *tri_choice_source(tri_choice c);
const char *tri_choice_none(tri_choice c);

#endif
