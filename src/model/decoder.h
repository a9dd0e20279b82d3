/* decoder.h - the model's internals, shared by model.c, the units, the decoder blocks, the products and the
 * head. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DECODER_H
#define TRI_DECODER_H

#include "adapter.h"
#include "divided.h"
#include "device/trace.h"
#include "family/family.h"
#include "head.h"
#include "kv.h"
#include "model.h"

/* Maps slots to the tensors and products of a unit. */
typedef struct tri_unit_slots {
  int param[TRI_SLOT_COUNT];      /* the first param of the slot, -1 if the unit has none */
  int product[TRI_SLOT_PRODUCTS]; /* index of the slot's product in the unit, if it has the slot */
} tri_unit_slots;

/* The activations one layer keeps for its backward pass, in rows [N,...]. Without keep, all layers use the
 * same set, x, mid and out are one buffer, and raw and heads_rstd are NULL. The letters of recurrent layers
 * are those of kernels.h (conv_fwd). */
typedef struct tri_layer_acts {
  void *x, *mid; /* f32 [N,C], the input and the result after attention or the recurrent part */
  void *qkv;     /* A [N,E] after rotation. In a recurrent layer A [N,Er], the input of the convolution */
  void *o;       /* A [N,H*D], of attention without its gate. In a recurrent layer A [N,Hv*Dv] of delta_fwd */
  void *lse;     /* f32 [N,H]. In a recurrent layer f32 [N,Hv], rstd of gate_norm_fwd */
  void *gate;    /* A [N,H*D] with attn_gate. In a recurrent layer A [N,Hv*Dv], z of gate_norm_fwd */
  void *ba;      /* A [N,2*Hv] in a recurrent layer */
  void *gate_up; /* A [N,2F] */
  /* Families with Q_NORM and K_NORM keep the inputs of these norms, A [N,(H + G) D], and f32
   * [N,tri_heads_normed]. */
  void *raw, *heads_rstd;
  void *attn, *mlp; /* f32 [N,C], the inputs of POST_NORM1 and 2, if any. With scaled residuals scratch.attn
                     * holds the value to be scaled */
} tri_layer_acts;

/* The buffers that only backward writes. */
typedef struct tri_layer_grads {
  void *dx;       /* f32 [N,C], gradient of the residual stream, block to block */
  void *dxa;      /* A [N,C], the same in the compute type if that is not f32 */
  void *dh;       /* A [N,C], gradient of a norm's output */
  void *dpost;    /* f32 [N,C], gradient of a post-norm's or a scaling's input, if any */
  void *dy, *dgu; /* A [N,F], [N,2F]. After the mlp's backward they hold the gradients of ba and of gate */
  void *dqkv, *dattn; /* A [N,E], [N,H*D]. In a recurrent layer [N,Er] of the convolution, [N,Hv*Dv] of o */
  void
      *work; /* f32 [tri_attn_workspace(...)] or [tri_delta_work(...)], workspace of attn_bwd and delta_bwd */
} tri_layer_grads;

/* The constants of the family and the model that the kernels take. */
typedef struct tri_model_rules {
  tri_attn_rule  attn[TRI_KINDS];
  tri_norm_rule  norm;
  tri_delta_rule delta; /* of recurrent layers */
  float          embed_scale;
  float          residual; /* factor of attention and mlp when they join the residual stream */
  float          logits;   /* factor of the logits of a head of tokens */
} tri_model_rules;

struct tri_model {
  tri_model_opt      opt;
  tri_model_shape    shape;
  bool               tied; /* the head multiplies with the embedding's table */
  tri_model_rules    rules;
  int64_t            E;                          /* (H + 2 G) D */
  int                layer_with[TRI_SLOT_COUNT]; /* the first layer that has the slot, -1 if none has */
  tri_device        *device;                     /* borrowed */
  tri_device_advice  advice;                     /* the device's advice */
  const tri_kernels *k;
  tri_params        *params;
  tri_unit_spec     *unit;  /* [n_unit] embedding, L layers, head */
  tri_unit_slots    *slots; /* [n_unit] */
  int                n_unit;
  tri_linear_spec    spec[TRI_SLOT_PRODUCTS];
  tri_linear        *linear[TRI_SLOT_PRODUCTS]; /* NULL for products of no layer */
  void              *workspace;                 /* shared by the products */
  size_t             workspace_bytes;
  float             *rope[TRI_KINDS]; /* f32 [max_positions,tri_turned], may be one table */
  tri_layer_acts    *acts;            /* [L] if train, else NULL */
  tri_layer_acts     scratch;
  void              *x, *h, *rstd, *y; /* f32 [N,C], A [N,C], f32 [N], A [N,F] (tri_gated_rows) */
  tri_layer_grads    back;
  tri_head           head;
  tri_adapters       adapters;
  tri_divided        divided;
  int                member; /* of the ledger, 0 without a workspace in common */
  bool               held;   /* weights are kept gathered */
};

/* The ways to run a block. */
typedef enum {
  TRI_BLOCK_FORWARD, /* whole sequences */
  TRI_BLOCK_PREFILL, /* whole sequences, written to the cache */
  TRI_BLOCK_DECODE,  /* one row per sequence, written to the cache, attending to it */
  TRI_BLOCK_AGAIN,   /* forward once more, as far as backward needs it */
  TRI_BLOCK_BACKWARD
} tri_block_mode;

/* One unit at work, with everything its block and its products need. */
typedef struct tri_block_call {
  tri_block_mode        mode;
  int                   unit;
  tri_weights           w, dw; /* the unit's, while acquired. dw is for backward with trained weights only */
  tri_weights           a, da; /* the same of its adapters, if any */
  const tri_batch      *batch;
  const tri_layer_acts *acts; /* a layer's */
  void                 *out;  /* f32 [N,C], a layer's result, may be acts->x. Unused in AGAIN and BACKWARD */
  tri_kv               *kv;   /* PREFILL and DECODE */
} tri_block_call;

static inline int tri_unit_of_layer(int layer) { return layer + 1; } /* the embedding is unit 0 */
static inline int tri_layer_of(int unit) { return unit - 1; }
static inline int tri_unit_of_head(const tri_model *m) { return m->shape.L + 1; }

/* Returns whether the call computes with this rank's slices, and its part of n heads or columns. */
static inline bool tri_is_divided(const tri_model *m, const tri_block_call *c) {
  return m->divided.t > 1 && (c->mode == TRI_BLOCK_PREFILL || c->mode == TRI_BLOCK_DECODE);
}
static inline int64_t tri_rank_part(const tri_model *m, const tri_block_call *c, int64_t n) {
  return tri_is_divided(m, c) ? n / m->divided.t : n;
}

/* Views of a buffer with n rows, in f32 and in the compute type. */
static inline tri_tensor tri_rows_f32(void *data, int64_t n, int64_t width) {
  return tri_view2(data, TRI_F32, n, width);
}
static inline tri_tensor tri_rows_act(const tri_model *m, void *data, int64_t n, int64_t width) {
  return tri_view2(data, m->opt.dtype, n, width);
}

/* Returns the call's tensor in a slot. The unit must have the slot. */
static inline const tri_tensor *tri_weight_at(const tri_model *m, const tri_block_call *c, tri_slot slot) {
  return &c->w.t[m->slots[c->unit].param[slot]];
}
/* Makes *view the gradient of that tensor. Returns NULL if the tensor is frozen. */
static inline tri_tensor *tri_grad_at(const tri_model *m, const tri_block_call *c, tri_slot slot,
                                      tri_tensor *view) {
  if (!c->dw.t) return NULL;
  *view = c->dw.t[m->slots[c->unit].param[slot]];
  return view;
}

/* Begins the trace span of the unit's work in stream s. Call it once the weights are there. tri_trace_end
 * ends the span. A decode step is one span of the sampler and has none here. */
static inline int tri_unit_span(const tri_model *m, const tri_block_call *c, tri_stream *s) {
  if (c->mode == TRI_BLOCK_DECODE) return -1;
  return tri_trace_begin(m->device->trace, TRI_LANE_COMPUTE,
                         (tri_trace_note){m->unit[c->unit].name,
                                          c->mode == TRI_BLOCK_BACKWARD ? "backward" : "forward",
                                          m->opt.label, 0},
                         s);
}

/* Collective over the parameter scope. Gathers c->unit's weights, and in backward its gradient. next is the
 * unit that follows, to be prefetched, or -1. use holds the TRI_USE_* bits of the products. */
TRI_CHECKED static inline tri_status tri_unit_acquire(tri_model *m, tri_block_call *c, int use, int next,
                                                      tri_stream *s) {
  bool learns = c->mode == TRI_BLOCK_BACKWARD && !m->adapters.params;

  c->dw = (tri_weights){0};
  TRI_TRY(tri_params_acquire(m->params, c->unit, use, next, s, &c->w));
  TRI_TRY(tri_adapter_acquire(m, c, use, next, s));
  return learns ? tri_params_grad(m->params, c->unit, s, &c->dw) : TRI_OK;
}
/* Collective over the parameter scope. Ends c's use of the weights. */
TRI_CHECKED static inline tri_status tri_unit_release(tri_model *m, const tri_block_call *c, tri_stream *s) {
  TRI_TRY(tri_adapter_release(m, c, s));
  return tri_params_release(m->params, c->unit, s);
}
/* Collective over the gradient scope, with `last` over world. Call it when c->dw or c->da holds all of this
 * micro-batch. last has the meaning it has in tri_model_backward. */
TRI_CHECKED static inline tri_status tri_unit_learned(tri_model *m, const tri_block_call *c, bool last,
                                                      tri_stream *s) {
  if (m->adapters.params) return tri_adapter_learned(m, c, last, s);
  return tri_params_grad_done(m->params, c->unit, s, last);
}

/* open.c. Collective over the parameter scopes of m and of the model that used m's workspace before. From
 * here on m may use it. Does nothing if m used it last, or has none in common with others. */
TRI_CHECKED tri_status tri_workspace_take(tri_model *m, tri_stream *s);

/* units.c. Not collective. Fills m->unit and m->slots. The products must be open. */
TRI_CHECKED tri_status tri_units_make(tri_model *m);
void                   tri_units_free(tri_model *m);
/* units.c. Not collective. Copy a unit, and free the lists of n units. */
TRI_CHECKED tri_status tri_units_copy(const tri_unit_spec *from, tri_unit_spec *to);
void                   tri_units_drop(tri_unit_spec *unit, int n);

/* rope.c. Not collective. The first plans the rotary tables in the ledger. The second fills them after the
 * ledger was taken, and the host waits for it. */
TRI_CHECKED tri_status tri_rope_plan(tri_model *m, tri_ledger *l);
TRI_CHECKED tri_status tri_rope_start(tri_model *m, tri_stream *s);

/* Return whether any layer has the slot, and whether the call's unit has it. */
static inline bool tri_layers_have(const tri_model *m, tri_slot slot) { return m->layer_with[slot] >= 0; }
static inline bool tri_unit_has(const tri_model *m, const tri_block_call *c, tri_slot slot) {
  return m->slots[c->unit].param[slot] >= 0;
}
/* These buffers are the mlp's, whose turn comes later forward and sooner backward. The first holds n rows of
 * the gated result of attention or of the recurrent part. The second holds n rows of attention's products
 * before split_gate, or of the convolution. It is also free for their gradients. */
static inline tri_tensor tri_gated_rows(const tri_model *m, int64_t n, int64_t width) {
  return tri_rows_act(m, m->y, n, width);
}
static inline tri_tensor tri_wide_rows(const tri_model *m, int64_t n, int64_t width) {
  return tri_rows_act(m, m->scratch.gate_up, n, width);
}
/* Returns whether attention and mlp are scaled before they join the residual stream. */
static inline bool    tri_scales_residual(const tri_model *m) { return m->rules.residual != 1.0f; }
static inline tri_act tri_act_of(const tri_model *m) {
  return m->shape.family->gelu ? TRI_ACT_GELU : TRI_ACT_SILU;
}
static inline const tri_heads *tri_heads_of(const tri_model *m) { return &m->rules.attn[TRI_GLOBAL].heads; }
/* These return the call's attention rule and its rotary table. The table has no columns if the layer has no
 * rotary positions. */
static inline const tri_attn_rule *tri_rule_at(const tri_model *m, const tri_block_call *c) {
  return &(tri_is_divided(m, c) ? m->divided.attn
                                : m->rules.attn)[tri_kind_of(&m->shape, tri_layer_of(c->unit))];
}
static inline tri_tensor tri_rope_at(const tri_model *m, const tri_block_call *c) {
  int            layer = tri_layer_of(c->unit);
  tri_layer_kind kind = tri_kind_of(&m->shape, layer);

  return tri_view2(m->rope[kind], TRI_F32, m->opt.max_positions,
                   tri_has_rope(&m->shape, layer) ? tri_turned(&m->shape, kind) : 0);
}

/* decoder_norms.c, the norms that only some families have. Not collective. Sets *h A [N,C] to the product's
 * input from the residual stream x f32 [N,C]. It is x normed in slot `norm`, or x itself in the compute type
 * if the family has post-norms only. */
TRI_CHECKED tri_status tri_pre_norm_forward(tri_model *m, const tri_block_call *c, tri_slot norm, tri_in x,
                                            tri_tensor *h, tri_stream *s);
/* Not collective. Adds to m->back.dx the gradient of x that belongs to dh A [N,C]. Call it after
 * tri_pre_norm_forward on x. */
TRI_CHECKED tri_status tri_pre_norm_backward(tri_model *m, const tri_block_call *c, tri_slot norm, tri_in x,
                                             tri_in dh, tri_stream *s);
/* Returns the number of normed rows of q and k in one row of qkv. It is H + G if each head is normed, 2 if
 * all heads of q form one row and all of k another, 0 without such norms. */
int64_t tri_heads_normed(const tri_model *m);
/* Not collective. Norms these rows in qkv A [N,E]. If the call keeps activations, it also stores the values
 * for backward. */
TRI_CHECKED tri_status tri_heads_forward(tri_model *m, const tri_block_call *c, tri_out qkv, tri_stream *s);
/* Not collective. Turns dqkv from the gradient of the normed heads into the gradient of the products'
 * results. */
TRI_CHECKED tri_status tri_heads_backward(tri_model *m, const tri_block_call *c, tri_out dqkv, tri_stream *s);
/* Not collective. y f32 [N,C] = base + the norm in slot `post` of inner f32 [N,C]. */
TRI_CHECKED tri_status tri_post_norm_forward(tri_model *m, const tri_block_call *c, tri_slot post,
                                             tri_in inner, tri_out y, tri_in base, tri_stream *s);
/* Not collective. d A [N,C] is the gradient of y and becomes a view of the gradient of inner. */
TRI_CHECKED tri_status tri_post_norm_backward(tri_model *m, const tri_block_call *c, tri_slot post,
                                              void *inner, tri_tensor *d, tri_stream *s);

/* One block, in decoder_fwd.c and decoder_bwd.c. Not collective. Backward turns m->back.dx from the gradient
 * of the block's output into the gradient of its input, and adds to c->dw. */
TRI_CHECKED tri_status tri_block_forward(tri_model *m, const tri_block_call *c, tri_stream *s);
TRI_CHECKED tri_status tri_block_backward(tri_model *m, const tri_block_call *c, tri_stream *s);

#endif
