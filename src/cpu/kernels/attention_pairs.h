/* attention_pairs.h - attention of bf16 by a processor's own products, for a device that has them
 * (pairs/pairs.h). Arguments as in device/kernels.h. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_ATTENTION_PAIRS_H
#define TRI_CPU_ATTENTION_PAIRS_H

#include "cpu.h"
#include "cpu/pairs/attend.h"

/* Whether an array of type A goes this way. Where no family is built, a constant: nothing else is there. */
#if TRI_PAIRS_X86
static inline bool tri_cpu_in_pairs(tri_dtype A) { return A == TRI_BF16 && tri_pairs_find() != NULL; }
#else
#define tri_cpu_in_pairs(A) false
#endif

tri_attn_fwd_fn    tri_cpu_pairs_fwd;
tri_attn_bwd_fn    tri_cpu_pairs_bwd;
tri_kv_put_fn      tri_cpu_pairs_put;
tri_attn_decode_fn tri_cpu_pairs_decode;
/* Of at most TRI_PAIRS_ROWS queries of a key/value head: a thread puts a key where it meets it. */
tri_attn_step_fn tri_cpu_pairs_step;

#endif
