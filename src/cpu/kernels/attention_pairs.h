/* attention_pairs.h - bf16 attention with the processor's own bf16 products (cpu/pairs/pairs.h). Arguments as
 * in device/kernels.h. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_ATTENTION_PAIRS_H
#define TRI_CPU_ATTENTION_PAIRS_H

#include "cpu.h"
#include "cpu/pairs/attend.h"

/* Returns whether arrays of type A use these kernels. It is a constant in builds without a pairs family, so
 * the compiler drops these calls. */
#if TRI_PAIRS_X86
static inline bool tri_cpu_in_pairs(tri_dtype A) { return A == TRI_BF16 && tri_pairs_find() != NULL; }
#else
#define tri_cpu_in_pairs(A) false
#endif

tri_attn_fwd_fn    tri_cpu_pairs_fwd;
tri_attn_bwd_fn    tri_cpu_pairs_bwd;
tri_kv_put_fn      tri_cpu_pairs_put;
tri_attn_decode_fn tri_cpu_pairs_decode;
/* For at most TRI_PAIRS_ROWS queries per key/value head. The thread that attends to a new key also writes
 * it. */
tri_attn_step_fn tri_cpu_pairs_step;

#endif
