/* first_update.h - what a first optimizer step must have done: every trained tensor moved, and copies are
 * equal. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_FIRST_UPDATE_H
#define TRI_FIRST_UPDATE_H

#include "optim.h"

/* Collective over world. As tri_optim_step, between two looks. Where it was applied to a gradient that is
 * not 0, rank 0 warns of tensors that no rank has moved, and it ends as tri_first_update_copies. It reads
 * a rank's share of weights and first moments twice, through 4 MiB of host memory. */
TRI_CHECKED tri_status tri_first_update_check(tri_params *p, const tri_optim_opt *opt,
                                              const tri_optim_now *now, tri_stream *s, double *grad_norm,
                                              bool *applied);
/* Collective over world. TRI_ENUMERIC, naming ranks and tensor, where ranks that hold the same weights, or
 * the same optimizer share, do not hold the same bits. */
TRI_CHECKED tri_status tri_first_update_copies(tri_params *p, tri_stream *s);

#endif
