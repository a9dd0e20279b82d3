/* cudnn_plan.h - one cuDNN execution plan: the gradient of causal attention for so many sequences of at
 * most so many rows. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CUDNN_PLAN_H
#define TRI_CUDNN_PLAN_H

#include "backend.h"
#include "device/kernels.h"

/* Who runs it: a handle; or, with none, a GPU on paper, a finalized CUDNN_DEVICEPROP. */
typedef struct cudnn_user {
  const cudnn_api *api;
  cudnn_handle     handle;
  cudnn_desc       paper;
} cudnn_user;

/* Its tensors, each bf16 but where it says so. B: sequences, T: rows of the longest that may come. Every
 * sequence's rows begin at its offset in elements, i32 [B+1], from the tensor's first. */
typedef enum {
  CUDNN_Q = 1,    /* [B,H,T,D], rows of E */
  CUDNN_K,        /* [B,G,D,T], transposed: rows of E */
  CUDNN_V,        /* as K */
  CUDNN_O,        /* [B,H,T,D], rows of H D */
  CUDNN_DO,       /* as O */
  CUDNN_STATS,    /* f32 [B,H,T,1], rows of H: ln of the sum of exp(score), as attn_fwd's lse is */
  CUDNN_DQ,       /* as Q */
  CUDNN_DK,       /* [B,G,T,D], rows of E */
  CUDNN_DV,       /* as DK */
  CUDNN_LEN_Q,    /* i32 [B,1,1,1]: rows of each sequence; 0: none */
  CUDNN_LEN_KV,   /* the same numbers */
  CUDNN_AT_QKV,   /* offsets: cu E */
  CUDNN_AT_O,     /* cu H D */
  CUDNN_AT_STATS, /* cu H */
  CUDNN_DELTA,    /* f32 [B,H,T,1], without gaps: work */
  CUDNN_SCALE,    /* f32 on the host, these four */
  CUDNN_ONE,
  CUDNN_MASKED, /* -infinity */
  CUDNN_WINDOW, /* keys a row sees; of a rule with a window only */
  CUDNN_UIDS
} cudnn_uid;

enum { CUDNN_MOST_DESCS = 512 }; /* chosen: a graph has 114, each configuration tried one or two */

typedef struct cudnn_plan {
  cudnn_desc plan, kept[CUDNN_MOST_DESCS]; /* kept: what it was made of */
  int        n_kept;
  int64_t    B, T;
  size_t     workspace; /* bytes that the engine asks for */
  int64_t    engine;    /* its number, for the log */
} cudnn_plan;

/* Not collective, all that follow. *why: NULL and *out open, or in a few words why the library does not do
 * this; every engine taken gives the same bits each time. */
void tri_cudnn_plan_open(const cudnn_user *u, const tri_attn_rule *rule, int64_t B, int64_t T,
                         cudnn_plan *out, const char **why);
void tri_cudnn_plan_close(const cudnn_user *u, cudnn_plan *p);
/* Queues it in the handle's stream. at[CUDNN_UIDS]: where each tensor lies; NULL: the rule has it not. */
TRI_CHECKED tri_status tri_cudnn_plan_run(const cudnn_user *u, const cudnn_plan *p,
                                          void *const at[CUDNN_UIDS], void *workspace);

#endif
