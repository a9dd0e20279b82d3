/* model.h - the decoder-only transformer: forward, backward, prefill, decode, driven unit by unit. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MODEL_H
#define TRI_MODEL_H

#include "family/lora.h"
#include "state/params.h"

typedef struct tri_kv    tri_kv;
typedef struct tri_model tri_model;

/* A packed batch, device memory, borrowed. Sequence q is rows cu[q] .. cu[q+1]; no padding. N may be 0: an
 * empty batch still takes part in every gather and reduction. Only the K chosen rows reach the head. */
typedef struct tri_batch {
  tri_tensor token, pos;  /* [N] i32 */
  tri_tensor cu;          /* [S+1] i32 */
  int64_t    longest;     /* rows of the longest sequence; 0: not known */
  tri_tensor row, target; /* [K] i32: row[k] predicts target[k] */
  tri_tensor slot;        /* [N] i32: place in the cache (kernels.h, kv_put); used by prefill and decode */
  tri_tensor table, len;  /* [B,P] and [B] i32: decode only, where N = B */
  tri_tensor work; /* f32, of decode only: long contexts are spread (kernels.h); data NULL: they are not */
} tri_batch;

/* What follows the last block: log-probabilities of tokens, or one number a row. */
typedef enum { TRI_HEAD_TOKENS, TRI_HEAD_SCALAR } tri_head_kind;

typedef struct tri_model_opt {
  const tri_model_shape *shape; /* copied */
  tri_head_kind          head;
  tri_dtype              dtype; /* compute type A */
  tri_shard_plan         plan;
  tri_place              place;
  bool                   train, rollout; /* backward wanted; generation wanted */
  bool                   any_order;      /* of products' sums (kernels.h): no tri_model_check */
  int64_t                offload;        /* see params.h */
  double                 ema_beta;       /* of the average of trained weights (params.h); 0: none */
  tri_lora               lora; /* rank 0: the weights learn. Else they are frozen, and its adapters learn, and
                                * with them a scalar head */
  bool                   recompute;        /* keep only each layer's input for backward */
  int64_t                max_tokens;       /* N at most, in forward, prefill and decode */
  int64_t                max_learn_tokens; /* N at most with keep */
  int64_t                max_rows;         /* K at most */
  int64_t                max_positions;    /* positions 0 .. max_positions - 1 occur */
  bool                   rope_long;        /* longrope's long factors count (tri_rope_is_long) */
  const char            *label;            /* in the memory table */
} tri_model_opt;

/* Not collective. Plans memory in the ledger; nothing may run before that is taken and tri_model_start. */
TRI_CHECKED tri_status tri_model_open(tri_device *d, tri_comm *const comm[TRI_SCOPE_COUNT],
                                      tri_ledger *ledger, const tri_model_opt *opt, tri_model **out);
/* Not collective. After the ledger was taken: rotary table, product workspace. Weights are filled through
 * tri_params_fill(tri_model_params(m), ...). */
TRI_CHECKED tri_status tri_model_start(tri_model *m, tri_stream *s);
void                   tri_model_close(tri_model **m);
tri_params            *tri_model_params(tri_model *m);
/* What of it learns: the store of its adapters, where it has them, else that of its weights. */
tri_params *tri_model_trained(tri_model *m);
/* Not collective. Its adapters count in what follows, as at first, or do not: then it is the model they were
 * made for. Not of a scalar head, not while parameters are held; every rank does the same. */
void                   tri_model_adapt(tri_model *m, bool on);
const tri_model_shape *tri_model_get_shape(const tri_model *m);
/* Pure. How the attention of its layers of this kind meets keys. */
tri_attn_rule tri_model_attention(const tri_model *m, tri_layer_kind kind);
/* Collective over the parameter scope. All weights stay gathered (for generation), or are let go again. */
TRI_CHECKED tri_status tri_model_hold(tri_model *m, bool hold, tri_stream *s);
/* Collective over the parameter scope. As tri_params_forget_all. */
TRI_CHECKED tri_status tri_model_forget_all(tri_model *m, tri_stream *s);
/* Collective over the parameter scope. TRI_EDEVICE when a product's rows depend on their company here, so
 * that run.sampler: exact cannot be promised. Weights must be filled. */
TRI_CHECKED tri_status tri_model_check(tri_model *m, tri_stream *s);

/* What the head makes of the K chosen rows, device memory f32 [K]; data NULL: this model's head has none. */
typedef struct tri_rows_out {
  tri_tensor logp, ent; /* nats: log-probability of target, and entropy, at logits times inv_temperature */
  tri_tensor value;     /* a scalar head's number for the row */
} tri_rows_out;

/* Collective over the parameter scope. *out: borrowed until the next call. keep: hold what backward needs. */
TRI_CHECKED tri_status tri_model_forward(tri_model *m, const tri_batch *b, bool keep, float inv_temperature,
                                         tri_rows_out *out, tri_stream *s);
/* Where a forward pass first gave a number that is not finite; of several rows the first. */
typedef struct tri_model_nonfinite {
  const char *unit;  /* "embedding", "layer 3", "head"; NULL: all that it gave is finite */
  int         seq;   /* of the batch */
  int64_t     token; /* of the sequence: its row */
} tri_model_nonfinite;
/* Not collective. After forward with keep on this batch, of a model to be trained. It looks at what forward
 * kept for backward, so that nothing is computed again. */
TRI_CHECKED tri_status tri_model_find_nonfinite(tri_model *m, const tri_batch *b, tri_stream *s,
                                                tri_model_nonfinite *out);
/* Collective over the parameter and gradient scopes, after forward with keep on the same batch. d: d loss / d
 * each member that forward gave. last: no more micro-batch before the update. */
TRI_CHECKED tri_status tri_model_backward(tri_model *m, const tri_batch *b, const tri_rows_out *d,
                                          float inv_temperature, bool last, tri_stream *s);
/* Collective over the parameter scope unless held. The sequences in b->cu enter the cache at b->slot; nothing
 * is drawn. */
TRI_CHECKED tri_status tri_model_prefill(tri_model *m, const tri_batch *b, tri_kv *kv, tri_stream *s);
/* Collective over the parameter scope unless held. One row per running sequence: enters the cache, attends to
 * it, and the next token of each of the K chosen rows is drawn, by a head of tokens. key i64 [K,3] device;
 * token i32 [K], logp f32 [K] device, borrowed until the next call; logp NaN: the row's logits are no
 * distribution. May be recorded (device.h) while the parameters are held, once it was called before. */
TRI_CHECKED tri_status tri_model_decode(tri_model *m, const tri_batch *b, tri_kv *kv, const tri_tensor *key,
                                        const tri_sample_rule *rule, tri_tensor *token, tri_tensor *logp,
                                        tri_stream *s);

#endif
