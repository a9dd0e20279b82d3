/* gpu_plan.h - sizes in a GPU's memory plan, for the CUDA back end and for a planned GPU that is not there.
 * Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_PLAN_H
#define TRI_GPU_PLAN_H

#include "base/tensor.h"
#include "device.h"
#include "kernels.h"

/* Pure. Returns the bytes of logits to compute at once on a GPU with total_bytes of memory. It is a power of
 * two, at least 64 MiB and at most an 18th of the memory. With 80 GB it is 4 GiB. During learning each chunk
 * of rows reads the output matrix and adds to its gradient, 12 bytes per element. So a pass of 4,096 tokens
 * should be one chunk. */
size_t tri_gpu_logit_bytes(size_t total_bytes);

/* The largest workspace of a product algorithm. The plan reserves it for whichever algorithm is chosen.
 * Specified: NVIDIA's advice for compute capability 9.0. */
enum { TRI_GPU_PRODUCT_BYTES = 32 << 20 };
/* The fewest rows for trying a product. The first bucket has as many (gpu/gemm/gemm_impl.h). */
enum { TRI_GPU_TRIAL_LEAST = 16 };
/* Pure, these four, for a product [n_out,n_in] in type t.
 *
 * trial_rows is the number of rows for which `results` bytes hold the judge's two results and one other. It
 * is at least TRI_GPU_TRIAL_LEAST and at most `most`.
 *
 * trial_bytes is the memory for `rows` rows beside the weights.
 *
 * check_rows is the number of rows for linear_check.
 *
 * workspace_bytes is the whole answer of linear_size, for the largest algorithm and the rows of
 * linear_check. */
int64_t tri_gpu_trial_rows(int64_t n_out, size_t results, int64_t most);
size_t  tri_gpu_trial_bytes(int64_t n_out, int64_t n_in, tri_dtype t, int64_t rows);
int64_t tri_gpu_check_rows(int64_t n_out);
size_t  tri_gpu_workspace_bytes(int64_t n_out, int64_t n_in, tri_dtype t);

/* Decoding is spread over more multiprocessors (kernels.h, tri_attn_spreads) for contexts longer than 1024
 * tokens. Rows times key/value heads may be at most 40 and at most a quarter of the multiprocessors. Chosen:
 * a block keeps 32 KiB of reads in flight, so a third of the multiprocessors keeps most of the memory busy.
 * 40 bounds the planned memory for scores. For shorter contexts the second launch costs as much as spreading
 * gains. */
enum { TRI_GPU_SPREAD_HEADS = 40, TRI_GPU_SPREAD_TOKENS = 1024 };
/* Pure. Returns tri_device_advice.spread_heads for a GPU with n_sm multiprocessors. */
int tri_gpu_spread_heads(int n_sm);
/* Pure. Returns the planned elements of attn_decode's `work` for up to max_rows rows of P pages. It is 0 if
 * no row can be spread, on a GPU with any number of multiprocessors or on the host. */
int64_t tri_gpu_spread_work(const tri_device *d, const tri_heads *h, int64_t max_rows, int64_t P);

/* The planned workspace of cuDNN for the gradients of attention. Chosen: one sequence of 4,096 tokens in 32
 * heads of 128, or 8 sequences of 1,024 (gpu/cudnn/sdpa.c). */
enum { TRI_GPU_ATTN_BYTES = 9 << 27 };
/* Sets *out to true if run.cuda_attention_backward is cudnn, and to false for own and auto. Returns
 * TRI_ECONFIG for any other word. */
TRI_CHECKED tri_status tri_gpu_attn_asked(bool *out);

/* Device memory taken by libraries after the plan is checked. LIBRARY is for recorded decode steps and
 * kernels loaded at their first use, NCCL for the buffers of its channels. Chosen. */
enum { TRI_GPU_LIBRARY_BYTES = 1 << 30, TRI_GPU_NCCL_BYTES = 1 << 30 };
/* SM is the number of multiprocessors one communicator may occupy, one for each channel. Chosen, out of 132.
 * EACH is the memory of one communicator. Derived from the buffers of NCCL 2.28, 9.6 MiB for each channel and
 * more for connections. */
enum { TRI_GPU_NCCL_SM = 16, TRI_GPU_NCCL_EACH_BYTES = 192 << 20 };

/* Opens a planned GPU called `name` (borrowed) with total_bytes of memory. A context takes 0.5 GiB of it
 * (chosen). It serves for planning only, so it allocates nothing and runs no kernel. */
TRI_CHECKED tri_status tri_gpu_on_paper(const char *name, size_t total_bytes, tri_device **out);

#endif
