/* batch.h - divides sequences among ranks, and copies rollout rows to device micro-batches and results back.
 * Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BATCH_H
#define TRI_BATCH_H

#include "algo/algo.h"
#include "model/model.h"
#include "rollout/rollout.h"

/* This rank's micro-batches of one optimizer step. Micro-batch i has sequences seq[first[i]] ..
 * seq[first[i+1]-1]. */
typedef struct tri_split {
  int  n_micro;
  int *first, *seq;
} tri_split;

/* The sequences to divide, and the rank to divide them for. */
typedef struct tri_split_opt {
  int begin, n; /* sequences of the rollout */
  int together; /* neighbours that stay together, such as a pair, or 1 */
  /* Each rank gets one range of neighbours. The range has whole groups of the rollout if all ranks can get
   * equally many, or, packed by max_tokens, at least one each. Without it, sequences are dealt so that all
   * ranks have nearly as many tokens. */
  bool    whole_groups;
  int     rank, size;
  int     micro_batch_size; /* sequences of a micro-batch, or 0 for as many as fit max_tokens */
  int64_t max_tokens;
} tri_split_opt;

/* Asks no other rank. Every rank holds all sequences and computes the split of all ranks, so n_micro is the
 * same on every rank, the largest number that any of them needs. Some micro-batches may be empty. If n
 * divides by size and `together` is 1, every rank gets n / size sequences. n and micro_batch_size are
 * multiples of `together`. The caller frees *out. TRI_EINPUT: sequences that stay together are longer than
 * max_tokens. */
TRI_CHECKED tri_status tri_split_make(const tri_rollout *r, const tri_split_opt *opt, tri_split *out);
/* Zeroes *s. A zeroed *s is legal. */
void tri_split_free(tri_split *s);

typedef struct tri_staging tri_staging; /* device and host memory for one micro-batch */
typedef struct tri_staging_opt {
  int64_t   max_tokens, max_rows; /* most tokens N and chosen rows K of a micro-batch */
  unsigned  reads; /* TRI_LOSS_* (algo.h) of all losses together. Other arrays are NULL in tri_loss_in */
  tri_phase phase; /* phase of its memory */
} tri_staging_opt;
/* Plans its memory in the ledger. */
TRI_CHECKED tri_status tri_staging_open(tri_device *d, tri_ledger *ledger, const tri_staging_opt *opt,
                                        tri_staging **out);
/* Does not free the planned memory, as the ledger owns it. NULL is legal. */
void tri_staging_close(tri_staging **f);
/* Loads sequences seq[0..n) of the rollout as a packed batch. Its chosen rows predict the answer tokens, or
 * with TRI_LOSS_LAST are the last of each sequence. Until the next load, the batch borrows from the staging,
 * and the staging borrows r and seq. */
TRI_CHECKED tri_status tri_batch_load(tri_staging *f, const tri_rollout *r, const int *seq, int n,
                                      tri_stream *s, tri_batch *out);
/* Sets inputs and outputs of a loss for the loaded rows, in host memory of the staging until the next load.
 * *in gets the device results in `from`, the rollout's arrays that the staging was opened for (score is the
 * reward), and each sequence's weight from weight [r->n_seq], unless weight is NULL. *out gets buffers for
 * the derivatives by the members of `from`. */
TRI_CHECKED tri_status tri_batch_fetch(tri_staging *f, const tri_rows_out *from, const double *weight,
                                       tri_stream *s, tri_loss_in *in, tri_loss_out *out);
/* Copies the rollout's arrays again into *in, which must come from fetch. */
void tri_batch_refresh(tri_staging *f, tri_loss_in *in);
/* Sends the derivatives in *out, times scale, to the device. *d gets the same members as `from` had. */
TRI_CHECKED tri_status tri_batch_send(tri_staging *f, const tri_loss_out *out, double scale, tri_stream *s,
                                      tri_rows_out *d);

#endif
