/* decoder.h - the model's insides: what model.c, its units, the decoder blocks, the products and the head
 * share. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DECODER_H
#define TRI_DECODER_H

#include "adapter.h"
#include "device/trace.h"
#include "family/family.h"
#include "head.h"
#include "kv.h"
#include "model.h"

/* Where a unit's tensors stand. */
typedef struct tri_unit_slots {
  int param[TRI_SLOT_COUNT];      /* the first of the slot; -1: this unit has none */
  int product[TRI_SLOT_PRODUCTS]; /* which of the unit's products, where it has the slot */
} tri_unit_slots;

/* What one layer leaves for its backward: [N,...] rows. Without keep, every layer uses the same set, x,
 * mid and out are one buffer, raw and heads_rstd NULL. */
typedef struct tri_layer_acts {
  void *x, *mid; /* f32 [N,C] input, and after attention */
  void *qkv, *o; /* A [N,E] turned, A [N,H*D] */
  void *lse;     /* f32 [N,H] */
  void *gate_up; /* A [N,2F] */
  /* of a family with Q_NORM and K_NORM: what they norm, A [N,(H + G) D], and f32 [N,tri_heads_normed] */
  void *raw, *heads_rstd;
  void *attn, *mlp; /* of one with POST_NORM1 and 2: what they norm, f32 [N,C]; scratch.attn, of one whose
                     * residuals are scaled: what is scaled */
} tri_layer_acts;

/* What only backward writes. */
typedef struct tri_layer_grads {
  void *dx;                      /* f32 [N,C]: of the residual stream, from block to block */
  void *dxa;                     /* A [N,C]: the same in the compute type, where that is not f32 */
  void *dh;                      /* A [N,C]: of a norm's output */
  void *dpost;                   /* f32 [N,C]: of what a post-norm norms, or of what is scaled before it
                                  * joins the residual stream, in models that have either */
  void *dy, *dgu, *dqkv, *dattn; /* A [N,F], [N,2F], [N,E], [N,H*D] */
  void *work;                    /* attention's: f32 [tri_attn_workspace(...)] */
} tri_layer_grads;

/* What the kernels are told of the family and its sizes. */
typedef struct tri_model_rules {
  tri_attn_rule attn[TRI_KINDS];
  tri_norm_rule norm;
  float         embed_scale;
  float         residual; /* attention and mlp join the residual stream times it */
  float         logits;   /* logits of a head of tokens are times it */
} tri_model_rules;

struct tri_model {
  tri_model_opt      opt;
  tri_model_shape    shape;
  bool               tied; /* the head multiplies with the embedding's table */
  tri_model_rules    rules;
  int64_t            E;      /* (H + 2 G) D */
  tri_device        *device; /* borrowed */
  tri_device_advice  advice; /* of the device */
  const tri_kernels *k;
  tri_params        *params;
  tri_unit_spec     *unit;  /* [n_unit]: embed, L layers, head */
  tri_unit_slots    *slots; /* [n_unit] */
  int                n_unit;
  tri_linear        *linear[TRI_SLOT_PRODUCTS];
  void              *workspace; /* of the products */
  size_t             workspace_bytes;
  float             *rope[TRI_KINDS]; /* f32 [max_positions,tri_turned]; may be one */
  tri_layer_acts    *acts;            /* [L] with train, else none */
  tri_layer_acts     scratch;
  void              *x, *h, *rstd, *y; /* f32 [N,C], A [N,C], f32 [N], A [N,F] */
  tri_layer_grads    back;
  tri_head           head;
  tri_adapters       adapters;
};

/* How a block is passed. */
typedef enum {
  TRI_BLOCK_FORWARD, /* whole sequences */
  TRI_BLOCK_PREFILL, /* the same, and they enter the cache */
  TRI_BLOCK_DECODE,  /* one row per sequence, which enters the cache and reads it */
  TRI_BLOCK_AGAIN,   /* forward once more, up to what backward wants */
  TRI_BLOCK_BACKWARD
} tri_block_mode;

/* One unit at work: everything its block and its products may want to know. */
typedef struct tri_block_call {
  tri_block_mode        mode;
  int                   unit;
  tri_weights           w, dw; /* the unit's, while it is acquired; dw: backward only, of trained weights */
  tri_weights           a, da; /* the same of its adapters, where it has any */
  const tri_batch      *batch;
  const tri_layer_acts *acts; /* of a layer */
  void                 *out;  /* f32 [N,C]: a layer's result, may be acts->x; not of AGAIN and BACKWARD */
  tri_kv               *kv;   /* PREFILL and DECODE */
} tri_block_call;

static inline int tri_unit_of_layer(int layer) { return layer + 1; } /* embed is 0 */
static inline int tri_layer_of(int unit) { return unit - 1; }
static inline int tri_unit_of_head(const tri_model *m) { return m->shape.L + 1; }

/* Views of a buffer with n rows: f32, and in the compute type. */
static inline tri_tensor tri_rows_f32(void *data, int64_t n, int64_t width) {
  return tri_view2(data, TRI_F32, n, width);
}
static inline tri_tensor tri_rows_act(const tri_model *m, void *data, int64_t n, int64_t width) {
  return tri_view2(data, m->opt.dtype, n, width);
}

/* The call's tensor in a slot; the unit has it. */
static inline const tri_tensor *tri_weight_at(const tri_model *m, const tri_block_call *c, tri_slot slot) {
  return &c->w.t[m->slots[c->unit].param[slot]];
}
/* And its gradient, which *view becomes a view of; NULL: it is frozen. */
static inline tri_tensor *tri_grad_at(const tri_model *m, const tri_block_call *c, tri_slot slot,
                                      tri_tensor *view) {
  if (!c->dw.t) return NULL;
  *view = c->dw.t[m->slots[c->unit].param[slot]];
  return view;
}

/* For a trace: the unit's work in s, once its weights are there. Ended by tri_trace_end. A decode step is one
 * span of the sampler's. */
static inline int tri_unit_span(const tri_model *m, const tri_block_call *c, tri_stream *s) {
  if (c->mode == TRI_BLOCK_DECODE) return -1;
  return tri_trace_begin(m->device->trace, TRI_LANE_COMPUTE,
                         (tri_trace_note){m->unit[c->unit].name,
                                          c->mode == TRI_BLOCK_BACKWARD ? "backward" : "forward",
                                          m->opt.label, 0},
                         s);
}

/* Collective over the parameter scope. c->unit's weights, in backward with its gradient; next: the unit that
 * comes after it (-1: none). use: TRI_USE_* of its products. */
TRI_CHECKED static inline tri_status tri_unit_acquire(tri_model *m, tri_block_call *c, int use, int next,
                                                      tri_stream *s) {
  bool learns = c->mode == TRI_BLOCK_BACKWARD && !m->adapters.params;

  c->dw = (tri_weights){0};
  TRI_TRY(tri_params_acquire(m->params, c->unit, use, next, s, &c->w));
  TRI_TRY(tri_adapter_acquire(m, c, use, next, s));
  return learns ? tri_params_grad(m->params, c->unit, s, &c->dw) : TRI_OK;
}
/* Collective over the parameter scope. The end of c's use of the weights. */
TRI_CHECKED static inline tri_status tri_unit_release(tri_model *m, const tri_block_call *c, tri_stream *s) {
  TRI_TRY(tri_adapter_release(m, c, s));
  return tri_params_release(m->params, c->unit, s);
}
/* Collective over the gradient scope. c->dw or c->da has all of this micro-batch; last: as
 * tri_model_backward. */
TRI_CHECKED static inline tri_status tri_unit_learned(tri_model *m, const tri_block_call *c, bool last,
                                                      tri_stream *s) {
  if (m->adapters.params) return tri_adapter_learned(m, c, last, s);
  return tri_params_grad_done(m->params, c->unit, s, last);
}

/* units.c. Not collective. Fills m->unit and m->slots, of products that are open. */
TRI_CHECKED tri_status tri_units_make(tri_model *m);
void                   tri_units_free(tri_model *m);

/* rope.c. Not collective. The tables in the ledger; filled once it was taken, while the host waits. */
TRI_CHECKED tri_status tri_rope_plan(tri_model *m, tri_ledger *l);
TRI_CHECKED tri_status tri_rope_start(tri_model *m, tri_stream *s);

/* Whether the layers of the family have the slot. */
static inline bool tri_layers_have(const tri_model *m, tri_slot slot) {
  return m->slots[tri_unit_of_layer(0)].param[slot] >= 0;
}
/* Whether attention and mlp are scaled before they join the residual stream. */
static inline bool    tri_scales_residual(const tri_model *m) { return m->rules.residual != 1.0f; }
static inline tri_act tri_act_of(const tri_model *m) {
  return m->shape.family->gelu ? TRI_ACT_GELU : TRI_ACT_SILU;
}
static inline const tri_heads *tri_heads_of(const tri_model *m) { return &m->rules.attn[TRI_GLOBAL].heads; }
/* The call's rule of attention, and its rotary table, of no columns where the layer has no rotary
 * positions. */
static inline const tri_attn_rule *tri_rule_at(const tri_model *m, const tri_block_call *c) {
  return &m->rules.attn[tri_kind_of(&m->shape, tri_layer_of(c->unit))];
}
static inline tri_tensor tri_rope_at(const tri_model *m, const tri_block_call *c) {
  int            layer = tri_layer_of(c->unit);
  tri_layer_kind kind = tri_kind_of(&m->shape, layer);

  return tri_view2(m->rope[kind], TRI_F32, m->opt.max_positions,
                   tri_has_rope(&m->shape, layer) ? tri_turned(&m->shape, kind) : 0);
}

/* Norms that only some families have, decoder_norms.c. Not collective. *h A [N,C] is what a product reads of
 * the residual stream x f32 [N,C]: its norm in slot `norm`, or x itself where the family norms results
 * alone. */
TRI_CHECKED tri_status tri_pre_norm_forward(tri_model *m, const tri_block_call *c, tri_slot norm, tri_in x,
                                            tri_tensor *h, tri_stream *s);
/* Not collective. m->back.dx += the gradient of x, of dh A [N,C]; after tri_pre_norm_forward on x. */
TRI_CHECKED tri_status tri_pre_norm_backward(tri_model *m, const tri_block_call *c, tri_slot norm, tri_in x,
                                             tri_in dh, tri_stream *s);
/* Rows of q and k that are normed in a row of qkv: each head, or all heads of q and all of k; 0: none. */
int64_t tri_heads_normed(const tri_model *m);
/* Not collective. Of each of them in qkv A [N,E]; what backward wants of it goes where the call keeps it. */
TRI_CHECKED tri_status tri_heads_forward(tri_model *m, const tri_block_call *c, tri_out qkv, tri_stream *s);
/* Not collective. dqkv of the normed heads becomes that of the products. */
TRI_CHECKED tri_status tri_heads_backward(tri_model *m, const tri_block_call *c, tri_out dqkv, tri_stream *s);
/* Not collective. y f32 [N,C] = base + the norm in slot `post` of inner f32 [N,C]. */
TRI_CHECKED tri_status tri_post_norm_forward(tri_model *m, const tri_block_call *c, tri_slot post,
                                             tri_in inner, tri_out y, tri_in base, tri_stream *s);
/* Not collective. d A [N,C], the gradient of y, becomes a view of that of inner. */
TRI_CHECKED tri_status tri_post_norm_backward(tri_model *m, const tri_block_call *c, tri_slot post,
                                              void *inner, tri_tensor *d, tri_stream *s);

/* One block, decoder_fwd.c and decoder_bwd.c. Not collective. Backward: m->back.dx, the gradient of the
 * block's output, becomes that of its input; c->dw is added into. */
TRI_CHECKED tri_status tri_block_forward(tri_model *m, const tri_block_call *c, tri_stream *s);
TRI_CHECKED tri_status tri_block_backward(tri_model *m, const tri_block_call *c, tri_stream *s);

#endif
