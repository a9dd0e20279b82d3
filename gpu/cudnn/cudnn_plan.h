/* cudnn_plan.h - one cuDNN execution plan: the gradient of causal attention for a number of sequences with a
 * limit on rows. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CUDNN_PLAN_H
#define TRI_CUDNN_PLAN_H

#include "backend.h"
#include "device/kernels.h"

/* The user of a plan: a handle, or without one a GPU on paper, which is a finalized CUDNN_DEVICEPROP. */
typedef struct cudnn_user {
  const cudnn_api *api;
  cudnn_handle     handle;
  cudnn_desc       paper;
} cudnn_user;

/* Its tensors, bf16 unless it says otherwise. B is the number of sequences, T the rows of the longest
 * possible one. Every sequence's rows begin at its offset in elements from the tensor's first, i32 [B+1]. */
typedef enum {
  CUDNN_Q = 1,    /* [B,H,T,D], rows of E */
  CUDNN_K,        /* [B,G,D,T] transposed, rows of E */
  CUDNN_V,        /* as K */
  CUDNN_O,        /* [B,H,T,D], rows of H D */
  CUDNN_DO,       /* as O */
  CUDNN_STATS,    /* f32 [B,H,T,1], rows of H, ln of the sum of exp(score), like attn_fwd's lse */
  CUDNN_DQ,       /* as Q */
  CUDNN_DK,       /* [B,G,T,D], rows of E */
  CUDNN_DV,       /* as DK */
  CUDNN_LEN_Q,    /* i32 [B,1,1,1], rows of each sequence, may be 0 */
  CUDNN_LEN_KV,   /* the same numbers */
  CUDNN_AT_QKV,   /* offsets cu E */
  CUDNN_AT_O,     /* offsets cu H D */
  CUDNN_AT_STATS, /* offsets cu H */
  CUDNN_DELTA,    /* f32 [B,H,T,1] without gaps, workspace */
  CUDNN_SCALE,    /* these four are f32 on the host */
  CUDNN_ONE,
  CUDNN_MASKED, /* -infinity */
  CUDNN_WINDOW, /* keys a row sees, only of a rule with a window */
  CUDNN_UIDS
} cudnn_uid;

enum { CUDNN_MOST_DESCS = 512 }; /* chosen, a graph has 114 and each tried configuration one or two */

typedef struct cudnn_plan {
  cudnn_desc plan, kept[CUDNN_MOST_DESCS]; /* `kept` holds its parts */
  int        n_kept;
  int64_t    B, T;
  size_t     workspace; /* bytes the engine asks for */
  int64_t    engine;    /* its number, for the log */
} cudnn_plan;

/* Not collective, all that follow. Opens *out and sets *why to NULL, or sets *why to a short reason if the
 * library cannot do this. Only engines that repeat their bits are taken. */
void tri_cudnn_plan_open(const cudnn_user *u, const tri_attn_rule *rule, int64_t B, int64_t T,
                         cudnn_plan *out, const char **why);
void tri_cudnn_plan_close(const cudnn_user *u, cudnn_plan *p);
/* Queues the plan in the handle's stream. at[CUDNN_UIDS] has the address of each tensor, NULL if the rule
 * does not have it. */
TRI_CHECKED tri_status tri_cudnn_plan_run(const cudnn_user *u, const cudnn_plan *p,
                                          void *const at[CUDNN_UIDS], void *workspace);

#endif
