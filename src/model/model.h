/* model.h - the decoder-only transformer: forward, backward, prefill and decode, driven unit by unit. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MODEL_H
#define TRI_MODEL_H

#include "family/lora.h"
#include "state/params.h"

typedef struct tri_kv    tri_kv;
typedef struct tri_model tri_model;

/* A packed batch in device memory, borrowed. Sequence q is rows cu[q] .. cu[q+1], without padding. N may be
 * 0, since a rank with an empty batch still takes part in every gather and reduction. Only the K chosen rows
 * reach the head. */
typedef struct tri_batch {
  tri_tensor token, pos;  /* [N] i32 */
  tri_tensor cu;          /* [S+1] i32 */
  int64_t    longest;     /* rows of the longest sequence, 0 if unknown */
  tri_tensor row, target; /* [K] i32, row[k] predicts target[k] */
  tri_tensor slot;        /* [N] i32, position in the cache (kernels.h, kv_put), for prefill and decode */
  tri_tensor table, len;  /* [B,P] and [B] i32, for decode only, where N = B */
  /* [S] i32, for prefill and decode of models with recurrent layers: the state of each sequence, and 1 if it
   * begins at zero (kernels.h, tri_delta_rows). A decode step has one row in each sequence, cu is 0 .. B. */
  tri_tensor state, fresh;
  tri_tensor work; /* f32, for decode only, spreads long contexts (kernels.h). Not spread if data is NULL */
} tri_batch;

/* The workspace of models that compute in turns. Their activations, logits, gathered weights and unreduced
 * gradients lie over each other, so they take the memory of the largest model. A model that begins to compute
 * makes the model before it forget what lies there. If one of several models of a ledger generates, they need
 * a common workspace. */
typedef struct tri_workspace {
  tri_model *user; /* the model that computed last, or NULL */
  int        models;
} tri_workspace;

/* The result of the head: log-probabilities of tokens, or one number per row. */
typedef enum { TRI_HEAD_TOKENS, TRI_HEAD_SCALAR } tri_head_kind;

typedef struct tri_model_opt {
  const tri_model_shape *shape; /* copied */
  tri_head_kind          head;
  tri_dtype              dtype; /* compute type A */
  tri_shard_plan         plan;
  tri_place              place;          /* with place.tensor above 1, generation is divided (divided.h) */
  const char            *tensor_name;    /* the user's name for it. NULL: shard.tensor_parallel_size */
  bool                   train, rollout; /* backward is needed, generation is needed */
  bool                   any_order; /* sums of products in any order (kernels.h), so no tri_model_check */
  int64_t                offload;   /* see params.h */
  double                 ema_beta;  /* decay of the average of trained weights (params.h), or 0 */
  tri_lora               lora; /* With rank 0 the weights learn. Else they are frozen, and the adapters and a
                                * scalar head learn */
  bool                   recompute;        /* keep only each layer's input for backward */
  int64_t                max_tokens;       /* largest N in forward, prefill and decode */
  int64_t                max_learn_tokens; /* largest N with keep */
  int64_t                max_held_tokens;  /* largest N in prefill and decode, if divided among ranks */
  int64_t                max_rows;         /* largest K */
  int64_t                max_positions;    /* positions run from 0 to max_positions - 1 */
  bool                   rope_long;        /* use longrope's long factors (tri_rope_is_long) */
  const char            *label;            /* name in the memory table */
  tri_workspace         *workspace;        /* of this model and others. Borrowed, or NULL */
} tri_model_opt;

/* Models may have a workspace in common. If another model used it last, a call that is collective over the
 * parameter scope is also collective over that model's parameter scope.
 *
 * Not collective. Plans the model's memory in the ledger. Nothing may run before the ledger was taken and
 * tri_model_start was called. */
TRI_CHECKED tri_status tri_model_open(tri_device *d, tri_comm *const comm[TRI_SCOPE_COUNT],
                                      tri_ledger *ledger, const tri_model_opt *opt, tri_model **out);
/* Not collective. Call it after the ledger was taken. It fills the rotary tables and binds the workspace of
 * the products. Fill the weights through tri_params_fill(tri_model_params(m), ...). */
TRI_CHECKED tri_status tri_model_start(tri_model *m, tri_stream *s);
void                   tri_model_close(tri_model **m);
tri_params            *tri_model_params(tri_model *m);
/* Returns the parameter store that learns: the adapters' store if there are adapters, else the weights'
 * store. */
tri_params *tri_model_trained(tri_model *m);
/* Not collective. Switches the adapters on (as at first) or off in the calls that follow. Without them the
 * model computes as its base model. Not for a scalar head, and not while parameters are held. Every rank must
 * make the same call. */
void                   tri_model_adapt(tri_model *m, bool on);
const tri_model_shape *tri_model_get_shape(const tri_model *m);
/* Pure, all three. The first returns the attention rule of its layers of this kind in prefill and decode. The
 * second returns the shape of the cache, with the heads of this rank. The third returns the ranks that
 * generate together, or NULL if each has the whole model. */
tri_attn_rule   tri_model_attention(const tri_model *m, tri_layer_kind kind);
tri_model_shape tri_model_cache_shape(const tri_model *m);
tri_comm       *tri_model_tensor(const tri_model *m);
/* Collective over the parameter scope. Keeps all weights gathered (for generation), or ends their use.
 * Their memory stays planned. */
TRI_CHECKED tri_status tri_model_hold(tri_model *m, bool hold, tri_stream *s);
/* Collective over the parameter scope. Fails with TRI_EDEVICE if the rows of a product depend on the other
 * rows of the batch on this device, or if a divided model's columns have other bits than the whole's. Then
 * `run.sampler: exact` cannot be promised. Other ranks may succeed. Weights must be filled. */
TRI_CHECKED tri_status tri_model_check(tri_model *m, tri_stream *s);

/* The head's results for the K chosen rows, device memory f32 [K]. data is NULL for results this model's head
 * does not have. */
typedef struct tri_rows_out {
  tri_tensor logp, ent; /* nats, log-probability of target and entropy at logits times inv_temperature */
  tri_tensor value;     /* a scalar head's number for the row */
} tri_rows_out;

/* Collective over the parameter scope. *out is borrowed until the next call. With keep, the activations for
 * backward are kept. */
TRI_CHECKED tri_status tri_model_forward(tri_model *m, const tri_batch *b, bool keep, float inv_temperature,
                                         tri_rows_out *out, tri_stream *s);
/* The place of the first NaN or Inf in a forward pass. The first such row counts. */
typedef struct tri_model_nonfinite {
  const char *unit;  /* "embedding", "layer 3" or "head", NULL if all is finite */
  int         seq;   /* sequence of the batch */
  int64_t     token; /* row of the sequence */
} tri_model_nonfinite;
/* Not collective. Call it after forward with keep on this batch, on a model opened with train. It searches
 * the activations kept for backward, so nothing is computed again. */
TRI_CHECKED tri_status tri_model_find_nonfinite(tri_model *m, const tri_batch *b, tri_stream *s,
                                                tri_model_nonfinite *out);
/* Collective over the parameter and gradient scopes, with `last` over world. Call it after forward with keep
 * on the same batch. d holds d loss / d member for each member forward gave. last means no more micro-batch
 * before the update. */
TRI_CHECKED tri_status tri_model_backward(tri_model *m, const tri_batch *b, const tri_rows_out *d,
                                          float inv_temperature, bool last, tri_stream *s);
/* Collective over the parameter scope unless held. Writes the sequences in b->cu to the cache at b->slot.
 * Draws nothing. */
TRI_CHECKED tri_status tri_model_prefill(tri_model *m, const tri_batch *b, tri_kv *kv, tri_stream *s);
/* Collective over the parameter scope unless held. Each running sequence has one row. It enters the cache and
 * attends to it. A head of tokens then draws the next token of each of the K chosen rows. key is i64 [K,3] in
 * device memory. token i32 [K] and logp f32 [K] are device memory, borrowed until the next call. logp is NaN
 * if the row's logits are no distribution. The call may be recorded (device.h) while the parameters are held,
 * once it was called before. */
TRI_CHECKED tri_status tri_model_decode(tri_model *m, const tri_batch *b, tri_kv *kv, const tri_tensor *key,
                                        const tri_sample_rule *rule, tri_tensor *token, tri_tensor *logp,
                                        tri_stream *s);

#endif
