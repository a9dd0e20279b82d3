/* decoder.h - the model's insides: what model.c, its units, the decoder blocks, the products and the head
 * share. Private to its room. */
#ifndef TRI_DECODER_H
#define TRI_DECODER_H

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

/* What one layer leaves for its backward: [N,...] rows. Without keep, every layer uses the same set and x,
 * mid and out are one buffer. */
typedef struct tri_layer_acts {
  void *x, *mid; /* f32 [N,C] input, and after attention */
  void *qkv, *o; /* A [N,E] turned, A [N,H*D] */
  void *lse;     /* f32 [N,H] */
  void *gate_up; /* A [N,2F] */
} tri_layer_acts;

/* What only backward writes. */
typedef struct tri_layer_grads {
  void *dx;                      /* f32 [N,C]: of the residual stream, from block to block */
  void *dxa;                     /* A [N,C]: the same in the compute type, where that is not f32 */
  void *dh;                      /* A [N,C]: of a norm's output */
  void *dy, *dgu, *dqkv, *dattn; /* A [N,F], [N,2F], [N,E], [N,H*D] */
  void *work;                    /* attention's: f32 [tri_attn_work(heads, N)] */
} tri_layer_grads;

struct tri_model {
  tri_model_opt      opt;
  tri_model_shape    shape;
  bool               tied; /* the head multiplies with the embedding's table */
  tri_attn_rule      rule;
  int64_t            E;      /* (H + 2 G) D */
  tri_device        *device; /* borrowed */
  const tri_kernels *k;
  tri_params        *params;
  tri_unit_spec     *unit;  /* [n_unit]: embed, L layers, head */
  tri_unit_slots    *slots; /* [n_unit] */
  int                n_unit;
  tri_linear        *linear[TRI_SLOT_PRODUCTS];
  void              *workspace; /* of the products */
  size_t             workspace_bytes;
  float             *rope; /* f32 [max_positions,D] */
  tri_layer_acts    *acts; /* [L] with train, else none */
  tri_layer_acts     scratch;
  void              *x, *h, *rstd, *y; /* f32 [N,C], A [N,C], f32 [N], A [N,F] */
  tri_layer_grads    back;
  tri_head           head;
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
  tri_weights           w, dw; /* the unit's, while it is acquired; dw: backward only */
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
static inline const tri_tensor *tri_grad_at(const tri_model *m, const tri_block_call *c, tri_slot slot) {
  return &c->dw.t[m->slots[c->unit].param[slot]];
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
  TRI_TRY(tri_params_acquire(m->params, c->unit, use, next, s, &c->w));
  return c->mode == TRI_BLOCK_BACKWARD ? tri_params_grad(m->params, c->unit, s, &c->dw) : TRI_OK;
}
/* Collective over the parameter scope. The end of c's use of the weights. */
TRI_CHECKED static inline tri_status tri_unit_release(tri_model *m, const tri_block_call *c, tri_stream *s) {
  return tri_params_release(m->params, c->unit, s);
}
/* Collective over the gradient scope. c->dw has all of this micro-batch; last: as tri_model_backward. */
TRI_CHECKED static inline tri_status tri_unit_learned(tri_model *m, const tri_block_call *c, bool last,
                                                      tri_stream *s) {
  return tri_params_grad_done(m->params, c->unit, s, last);
}

/* units.c. Not collective. Fills m->unit and m->slots, of products that are open. */
TRI_CHECKED tri_status tri_units_make(tri_model *m);
void                   tri_units_free(tri_model *m);

/* rope.c. Not collective. Fills m->rope. The host waits. */
TRI_CHECKED tri_status tri_rope_fill(tri_model *m, tri_stream *s);

/* One block, decoder_fwd.c and decoder_bwd.c. Not collective. Backward: m->back.dx, the gradient of the
 * block's output, becomes that of its input; c->dw is added into. */
TRI_CHECKED tri_status tri_block_forward(tri_model *m, const tri_block_call *c, tri_stream *s);
TRI_CHECKED tri_status tri_block_backward(tri_model *m, const tri_block_call *c, tri_stream *s);

#endif
