/* arrays.h - the table of a rollout's arrays. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ARRAYS_H
#define TRI_ARRAYS_H

#include "rollout.h"

/* Every array except start, with the place of its pointer, bytes per element, the unit of its rows, and its
 * column (0 if always present). An exchange sends only some arrays. They are always present. The others are
 * filled after the exchange. */
typedef enum { TRI_PER_SEQ, TRI_PER_PART, TRI_PER_TOKEN } tri_array_per;
typedef struct tri_array_row {
  size_t        member, bytes;
  tri_array_per per;
  bool          sent;
  unsigned      column; /* TRI_COLUMN_* */
} tri_array_row;
enum { TRI_ARRAYS = 19 };
extern const tri_array_row tri_array[TRI_ARRAYS];

/* Pure. Return array k's pointer, the bytes per row, and the rows of this many sequences and tokens. */
void  *tri_array_get(const tri_rollout *r, int k);
size_t tri_array_width(int k, int64_t n_reward);
size_t tri_array_rows(int k, int64_t n_seq, int64_t n_tok);
/* Not collective. TRI_EINTERNAL: the rollout's store is too small. TRI_EARG: no rollout can have such
 * sizes. */
TRI_CHECKED tri_status tri_array_check_space(const tri_rollout *r, int n_seq, int64_t n_tok, int n_reward);

#endif
