/* choice.c - choices from the deck, and the environment variables that override them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "choice.h"

#include "error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *variable, *assigned, *key;
} row[TRI_CHOICES] = {
    {"TRI_CPU_KERNELS", "TRI_CPU_KERNELS=", "run.cpu_kernels: "},
    {"TRI_CPU_F32", "TRI_CPU_F32=", "run.cpu_f32: "},
    {"TRI_CPU_BF16", "TRI_CPU_BF16=", "run.cpu_bf16: "},
    {"TRI_COMM", "TRI_COMM=", "run.collectives: "},
    {"TRI_CUDA_ATTN_BWD", "TRI_CUDA_ATTN_BWD=", "run.cuda_attention_backward: "},
};

enum { WORD_BYTES = 16 }; /* chosen: twice the longest word */
static char of_deck[TRI_CHOICES][WORD_BYTES];

void tri_choice_set(tri_choice c, const char *word) {
  TRI_ASSERT(strlen(word) < WORD_BYTES);
  snprintf(of_deck[c], WORD_BYTES, "%s", strcmp(word, "auto") ? word : "");
}

/* Returns the variable's value, or NULL. */
static const char *variable(tri_choice c) {
  const char *word = getenv(row[c].variable);

  return word && *word ? word : NULL;
}

const char *tri_choice_word(tri_choice c) { return variable(c) ? variable(c) : of_deck[c]; }

const char *tri_choice_source(tri_choice c) {
  return variable(c) || !of_deck[c][0] ? row[c].assigned : row[c].key;
}

const char *tri_choice_none(tri_choice c) { return variable(c) || !of_deck[c][0] ? "unset" : "auto"; }
