/* first_update.h - checks after the first optimizer step that every trained tensor moved and that copies are
 * equal. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_FIRST_UPDATE_H
#define TRI_FIRST_UPDATE_H

#include "optim.h"

/* Collective over world. Runs tri_optim_step between two hashes of the state. Checks follow if the step was
 * applied and its gradient is not 0. Rank 0 warns of tensors unmoved on all ranks, and
 * tri_first_update_copies checks the copies. Reads a rank's share of weights and first moments twice, through
 * 4 MiB of host memory. */
TRI_CHECKED tri_status tri_first_update_check(tri_params *p, const tri_optim_opt *opt,
                                              const tri_optim_now *now, tri_stream *s, double *grad_norm,
                                              bool *applied);
/* Collective over world. TRI_ENUMERIC, with ranks and tensor, if ranks that hold the same weights or the same
 * optimizer share do not hold the same bits. */
TRI_CHECKED tri_status tri_first_update_copies(tri_params *p, tri_stream *s);

#endif
