/* gpu_plan.h - the sizes of a GPU's memory plan, for the back end that takes them and for a GPU on paper. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GPU_PLAN_H
#define TRI_GPU_PLAN_H

#include "base/tensor.h"
#include "device.h"
#include "kernels.h"

/* Pure. Of logits at once on a GPU of so much memory: a power of two, at least 64 MiB and at most an 18th of
 * it, 4 GiB where there are 80 GB: where a model learns, a chunk of rows reads the output matrix and adds to
 * its gradient, 12 bytes per element, so a pass of 4,096 tokens wants to be one. */
size_t tri_gpu_logit_bytes(size_t total_bytes);

/* An algorithm's workspace at most, and what is planned for whichever is chosen: NVIDIA's advice for compute
 * capability 9.0. */
enum { TRI_GPU_PRODUCT_BYTES = 32 << 20 };
/* The fewest rows a product is tried with: those of the first bucket (gpu/gemm/gemm_impl.h). */
enum { TRI_GPU_TRIAL_LEAST = 16 };
/* Pure, these three, of a product [n_out,n_in] in type t. Rows of which `results` bytes hold the judge's
 * two results and another's, at least TRI_GPU_TRIAL_LEAST, at most `most`; what so many rows take beside the
 * weights; and all that linear_size asks for: the largest algorithm, and linear_check's rows. */
int64_t tri_gpu_trial_rows(int64_t n_out, size_t results, int64_t most);
size_t  tri_gpu_trial_bytes(int64_t n_out, int64_t n_in, tri_dtype t, int64_t rows);
int64_t tri_gpu_check_rows(int64_t n_out);
size_t  tri_gpu_workspace_bytes(int64_t n_out, int64_t n_in, tri_dtype t);

/* Decoding of rows times key/value heads up to a quarter of the multiprocessors, and 40, is spread over more
 * of them (kernels.h, tri_attn_spreads), where contexts are longer than 1024 tokens. Chosen: a block keeps 32
 * KiB of reads under way, so that a third of the multiprocessors keeps most of the memory busy; 40 bounds the
 * scores, which are planned; of shorter contexts the second launch costs what is won. */
enum { TRI_GPU_SPREAD_HEADS = 40, TRI_GPU_SPREAD_TOKENS = 1024 };
/* Pure. tri_device_advice.spread_heads of a GPU. */
int tri_gpu_spread_heads(int n_sm);
/* Pure. Elements of attn_decode's `work` that are planned for up to max_rows rows of P pages; 0: none is ever
 * spread, on a GPU of any number of multiprocessors, or on the host. */
int64_t tri_gpu_spread_work(const tri_device *d, const tri_heads *h, int64_t max_rows, int64_t P);

/* Where attention's gradients are cuDNN's: its room in the plan. Chosen: one sequence of 4,096
 * tokens in 32 heads of 128, 8 of 1,024 (gpu/cudnn/sdpa.c). */
enum { TRI_GPU_ATTN_BYTES = 9 << 27 };
/* Not collective. Whether they are asked of cuDNN: run.cuda_attention_backward, cudnn or own (so
 * too where it is auto). */
TRI_CHECKED tri_status tri_gpu_attn_asked(bool *out);

/* Device memory that libraries take after the plan is checked: kernels that are loaded when first used and
 * recorded decode steps; NCCL's buffers of its channels. Chosen. */
enum { TRI_GPU_LIBRARY_BYTES = 1 << 30, TRI_GPU_NCCL_BYTES = 1 << 30 };
/* Multiprocessors that a communicator may hold, a channel on each: chosen, of 132; and, reckoned from NCCL
 * 2.28's buffers, 9.6 MiB of a channel and more for what it is reached by, the memory that it takes. */
enum { TRI_GPU_NCCL_SM = 16, TRI_GPU_NCCL_EACH_BYTES = 192 << 20 };

/* Not collective. A device called `name`, borrowed, of so much memory of its own, of which a context has
 * its part (0.5 GiB, chosen); it can be planned for, and nothing else: nothing is allocated, no kernel
 * runs. */
TRI_CHECKED tri_status tri_gpu_on_paper(const char *name, size_t total_bytes, tri_device **out);

#endif
