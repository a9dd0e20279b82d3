/* comm_nccl.h - the communicator "nccl", for registry.c. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_COMM_NCCL_H
#define TRI_GPU_COMM_NCCL_H

#include "comm/comm_maker.h"

extern const tri_comm_maker tri_nccl_maker;

#endif
