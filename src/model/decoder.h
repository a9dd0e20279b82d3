/* decoder.h - what model.c, the decoder blocks and the head share. Private to its room. */
#ifndef TRI_DECODER_H
#define TRI_DECODER_H

#include "device/trace.h"
#include "kv.h"
#include "model.h"

/* Where a layer's tensors stand in its unit; -1: this family has none. */
typedef struct tri_layer_index {
  int norm1, q, q_bias, o, o_bias, norm2, gate, gate_bias, down, down_bias;
} tri_layer_index;
enum { TRI_LIN_QKV, TRI_LIN_O, TRI_LIN_GATE_UP, TRI_LIN_DOWN, TRI_LIN_HEAD, TRI_LIN_COUNT };

/* What one layer leaves for its backward: [N,...] rows. Without keep, every layer uses the same set and x,
 * mid and out are one buffer. */
typedef struct tri_layer_acts {
  void *x, *mid; /* f32 [N,C] input, and after attention */
  void *qkv, *o; /* A [N,E] turned, A [N,H*D] */
  void *lse;     /* f32 [N,H] */
  void *gate_up; /* A [N,2F] */
} tri_layer_acts;

struct tri_model {
  tri_model_opt      opt;
  tri_model_shape    shape;
  tri_heads          heads;
  int64_t            E;      /* (H + 2 G) D */
  tri_device        *device; /* borrowed */
  const tri_kernels *k;
  tri_params        *params;
  tri_unit_spec     *unit; /* embed, L layers, head */
  int                n_unit;
  tri_layer_index    index;
  tri_linear        *linear[TRI_LIN_COUNT];
  void              *workspace; /* of the products */
  size_t             workspace_bytes;
  float             *rope; /* f32 [max_positions,D] */
  tri_layer_acts    *acts; /* [L] with train, else [1] */
  tri_layer_acts     scratch;
  void              *x, *h, *rstd, *y;                              /* f32 [N,C], A [N,C], f32 [N], A [N,F] */
  void              *dx, *dxa, *dy, *dgu, *dh, *dqkv, *dout, *work; /* backward, see decoder_bwd.c */
  /* head: K rows, chunk rows of logits, draw_chunk of them drawn from at once */
  int64_t chunk, draw_chunk;
  void *xs, *hs, *rstd_s, *logits, *dlogits, *dhs, *dxs, *logp, *ent, *lse, *drawn, *draw_logits, *draw_work;
  int64_t kept_rows; /* logits of this many rows are still in `logits`; 0: none */
};

/* For a trace: the unit's work in s, once its weights are there. Ended by tri_trace_end. */
static inline int tri_unit_span(const tri_model *m, int unit, const char *how, tri_stream *s) {
  return tri_trace_begin(m->device->trace, TRI_LANE_COMPUTE,
                         (tri_trace_note){m->unit[unit].name, how, m->opt.label, 0}, s);
}

int tri_unit_of_layer(int layer); /* embed is 0 */
int tri_unit_of_head(const tri_model *m);
/* x f32 [N,C] view of a buffer with the batch's N rows. */
tri_tensor tri_rows_f32(void *data, int64_t n, int64_t width);
tri_tensor tri_rows_act(const tri_model *m, void *data, int64_t n, int64_t width);
/* Fused bias of a unit's product: A [n]; NULL data when absent (pass NULL then). */
const tri_tensor *tri_bias_view(const tri_weights *w, int first, int64_t n, tri_tensor *view);

/* One block: a->x to out (f32 [N,C]; may be a->x). kv NULL: training attention only. decode: one row per
 * sequence reads the cache. upto_gate: stop once a->gate_up is there (recompute for backward). Not
 * collective. */
TRI_CHECKED tri_status tri_layer_forward(tri_model *m, int layer, const tri_weights *w, const tri_batch *b,
                                         const tri_layer_acts *a, void *out, tri_kv *kv, bool decode,
                                         bool upto_gate, tri_stream *s);
/* m->dx f32 [N,C]: gradient of the block's output, becomes that of its input. dw: added into. Not collective.
 */
TRI_CHECKED tri_status tri_layer_backward(tri_model *m, const tri_weights *w, const tri_weights *dw,
                                          const tri_batch *b, const tri_layer_acts *a, tri_stream *s);

/* The head, head.c. Collective over the parameter scope. */
TRI_CHECKED tri_status tri_head_plan(tri_model *m, tri_ledger *l);
TRI_CHECKED tri_status tri_head_forward(tri_model *m, const tri_batch *b, const void *x,
                                        float inv_temperature, tri_rows_out *out, tri_stream *s);
TRI_CHECKED tri_status tri_head_backward(tri_model *m, const tri_batch *b, const tri_rows_out *d,
                                         float inv_temperature, bool last, tri_stream *s);
TRI_CHECKED tri_status tri_head_sample(tri_model *m, const tri_batch *b, const void *x, const tri_tensor *key,
                                       const tri_sample_rule *rule, tri_tensor *token, tri_tensor *logp,
                                       tri_stream *s);

#endif
