/* batch.h - rollout rows to device micro-batches and back; which rank trains on which sequence. */
#ifndef TRI_BATCH_H
#define TRI_BATCH_H

#include "model/model.h"
#include "rollout/rollout.h"

/* This rank's micro-batches of one optimizer step: sequences seq[first[i]] .. seq[first[i+1]-1]. */
typedef struct tri_split {
  int  n_micro;
  int *first, *seq;
} tri_split;

/* Which sequences, for which rank. */
typedef struct tri_split_opt {
  int     begin, n; /* sequences of the rollout */
  int     rank, size;
  int     micro_batch_size; /* sequences of a micro-batch; 0: as many as fit max_tokens */
  int64_t max_tokens;
  bool in_blocks; /* each rank a block of neighbours, whole groups where there are enough of them (and, with
                                micro_batch_size, where they divide evenly); else dealt so that tokens are
                     even */
} tri_split_opt;

/* Pure; the same n_micro on every rank (some may be empty). Every rank gets n / size sequences where that
 * divides. TRI_EINPUT when one sequence alone is longer than max_tokens. */
TRI_CHECKED tri_status tri_split_make(const tri_rollout *r, const tri_split_opt *opt, tri_split *out);
void                   tri_split_free(tri_split *s);

typedef struct tri_feed tri_feed; /* device and host staging of one micro-batch */
/* Not collective. Plans its memory in the ledger. */
TRI_CHECKED tri_status tri_feed_open(tri_device *d, tri_ledger *ledger, int64_t max_tokens, int64_t max_rows,
                                     tri_feed **out);
void                   tri_feed_close(tri_feed **f);
/* Not collective. Sequences seq[0..n) of the rollout as a packed batch whose chosen rows are those that
 * predict the answers. The batch borrows from the feed until the next load. */
TRI_CHECKED tri_status tri_batch_load(tri_feed *f, const tri_rollout *r, const int *seq, int n, tri_stream *s,
                                      tri_batch *out);

/* Host view of the loaded rows. start [n_seq+1]; origin [K]: the rollout row each answer token is; logp, ent,
 * dlogp, dent [K] f32. old_logp, ref_logp, adv [K] and weight [n_seq]: room for what a loss wants to know
 * besides, filled by the caller. Borrowed until the next load. */
typedef struct tri_feed_rows {
  int            n_seq;
  int64_t        n;
  const int64_t *start, *origin;
  float         *logp, *ent, *dlogp, *dent, *old_logp, *ref_logp, *adv;
  double        *weight;
} tri_feed_rows;
/* Not collective. Device results to the host. */
TRI_CHECKED tri_status tri_batch_fetch(tri_feed *f, const tri_rows_out *from, tri_stream *s,
                                       tri_feed_rows *out);
/* Not collective. dlogp and dent of the host view to the device. */
TRI_CHECKED tri_status tri_batch_send(tri_feed *f, tri_stream *s, tri_rows_out *d);

#endif
