/* batch.h - rollout rows to device micro-batches and back; which rank trains on which sequence. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BATCH_H
#define TRI_BATCH_H

#include "algo/algo.h"
#include "model/model.h"
#include "rollout/rollout.h"

/* This rank's micro-batches of one optimizer step: sequences seq[first[i]] .. seq[first[i+1]-1]. */
typedef struct tri_split {
  int  n_micro;
  int *first, *seq;
} tri_split;

/* Which sequences, for which rank. */
typedef struct tri_split_opt {
  int     begin, n;     /* sequences of the rollout */
  int     together;     /* neighbours that are never parted, such as a pair; 1: each for itself */
  bool    whole_groups; /* each rank gets one run of neighbours, of whole groups of the rollout where all
                         * ranks get as many, or, packed by max_tokens, one at least; else they are dealt so
                         * that every rank has as many tokens, nearly */
  int     rank, size;
  int     micro_batch_size; /* sequences of a micro-batch; 0: as many as fit max_tokens */
  int64_t max_tokens;
} tri_split_opt;

/* Not collective, and without regard to anything but its arguments: the same n_micro on every rank (some may
 * be empty). Every rank gets n / size sequences where that divides and each is for itself. n and
 * micro_batch_size are multiples of together. *out is to be freed. TRI_EINPUT when what is never parted is
 * longer than max_tokens. */
TRI_CHECKED tri_status tri_split_make(const tri_rollout *r, const tri_split_opt *opt, tri_split *out);
/* *s is zeroed, which is legal before too. */
void tri_split_free(tri_split *s);

typedef struct tri_staging tri_staging; /* device and host staging of one micro-batch */
typedef struct tri_staging_opt {
  int64_t   max_tokens, max_rows; /* N and K at most */
  unsigned  reads; /* TRI_LOSS_* (algo.h) of all losses together; what is not asked for is NULL in
                   * tri_loss_in */
  tri_phase phase; /* of its memory */
} tri_staging_opt;
/* Not collective. Plans its memory in the ledger. */
TRI_CHECKED tri_status tri_staging_open(tri_device *d, tri_ledger *ledger, const tri_staging_opt *opt,
                                        tri_staging **out);
/* The planned memory is the ledger's. NULL is legal. */
void tri_staging_close(tri_staging **f);
/* Not collective. Sequences seq[0..n) of the rollout as a packed batch whose chosen rows are those that
 * predict the answers, or, where the staging reads TRI_LOSS_LAST, the last of each sequence. The batch
 * borrows from the staging, and the staging r and seq, until the next load. */
TRI_CHECKED tri_status tri_batch_load(tri_staging *f, const tri_rollout *r, const int *seq, int n,
                                      tri_stream *s, tri_batch *out);
/* Not collective. What a loss takes and gives, for the loaded rows, in host memory of the staging until the
 * next load. *in: the device results in `from`, what of the rollout the staging was opened for (score: the
 * rewards), and each sequence's weight, of weight [r->n_seq], which may be NULL. *out: space for the
 * derivatives by what `from` has. */
TRI_CHECKED tri_status tri_batch_fetch(tri_staging *f, const tri_rows_out *from, const double *weight,
                                       tri_stream *s, tri_loss_in *in, tri_loss_out *out);
/* Not collective. The rollout's columns in *in, which fetch gave out, are taken from it again. */
void tri_batch_refresh(tri_staging *f, tri_loss_in *in);
/* Not collective. The derivatives in what fetch gave out to the device: *d has those members that `from`
 * had. */
TRI_CHECKED tri_status tri_batch_send(tri_staging *f, const tri_loss_out *out, double scale, tri_stream *s,
                                      tri_rows_out *d);

#endif
