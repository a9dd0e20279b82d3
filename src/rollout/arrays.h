/* arrays.h - the table of a rollout's arrays. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ARRAYS_H
#define TRI_ARRAYS_H

#include "rollout.h"

/* Every array but start: where its pointer lies, bytes per element, elements per what, and of which column it
 * is, 0: always there. Those that ranks exchange come first; the others are made after it. */
typedef enum { TRI_PER_SEQ, TRI_PER_PART, TRI_PER_TOKEN } tri_array_per;
typedef struct tri_array_row {
  size_t        member, bytes;
  tri_array_per per;
  unsigned      column; /* TRI_COLUMN_* */
} tri_array_row;
enum { TRI_ARRAYS = 18, TRI_ARRAYS_SENT = 10 };
extern const tri_array_row tri_array[TRI_ARRAYS];

/* Pure: array k's pointer; bytes per row; rows of so many sequences and tokens. */
void  *tri_array_get(const tri_rollout *r, int k);
size_t tri_array_width(int k, int64_t n_reward);
size_t tri_array_rows(int k, int64_t n_seq, int64_t n_tok);
/* Not collective. TRI_EINTERNAL: the rollout's store has less; TRI_EARG: there can be no such rollout. */
TRI_CHECKED tri_status tri_array_check_space(const tri_rollout *r, int n_seq, int64_t n_tok, int n_reward);

#endif
