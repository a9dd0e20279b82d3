/* model_shape.h - the sizes and constants of a decoder-only model. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MODEL_SHAPE_H
#define TRI_MODEL_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

struct tri_family;

enum { TRI_MOST_LAYERS = 1 << 12 }; /* chosen, ten times the layers of dense models */

/* Layers with attention are of two kinds. The attention of local layers sees a window of keys. */
typedef enum { TRI_GLOBAL, TRI_LOCAL, TRI_KINDS } tri_layer_kind;

typedef struct tri_attn_shape {
  int64_t window;                     /* token i of a local layer sees keys > i - window */
  double  query_scalar;               /* scores are q k / sqrt(query_scalar), 0 means D */
  double  multiplier;                 /* scores are q k times this, 0 means query_scalar decides */
  double  softcap;                    /* cap of the scores, 0 for none */
  uint8_t local[TRI_MOST_LAYERS / 8]; /* bit l % 8 of byte l / 8 is set if layer l is local */
} tri_attn_shape;

/* The gated delta net of recurrent layers, with the letters of kernels.h (tri_delta_rule). Hv is 0 in a model
 * without such layers. */
typedef struct tri_delta_shape {
  int     Hk, Hv, Dk, Dv;
  int     conv;                           /* rows that the convolution sees */
  uint8_t recurrent[TRI_MOST_LAYERS / 8]; /* bit l % 8 of byte l / 8 is set if layer l is recurrent */
} tri_delta_shape;

typedef enum {
  TRI_ROPE_DEFAULT,
  TRI_ROPE_LINEAR,
  TRI_ROPE_LLAMA3,
  TRI_ROPE_YARN,
  TRI_ROPE_LONG /* longrope (Ding et al. 2024) */
} tri_rope_type;

/* Chooses one of longrope's two lists of factors for all sequences of a use. AUTO takes the long list if a
 * sequence may be longer than the original context, as vLLM does. */
typedef enum { TRI_FACTORS_AUTO, TRI_FACTORS_SHORT, TRI_FACTORS_LONG } tri_rope_factors;

/* The most pairs of columns RoPE rotates in a head. It is half the limit of D in hf_config.c. */
enum { TRI_MOST_PAIRS = 256 };

typedef struct tri_rope_shape {
  tri_rope_type type;
  double        theta, factor;
  double  low_freq, high_freq; /* llama3's low_freq_factor, high_freq_factor, yarn's beta_slow, beta_fast */
  double  attention_factor;    /* factor of cosines and sines in yarn and longrope */
  bool    truncate;            /* yarn rounds the range between the two to whole dimensions */
  int     turned;              /* columns of a head turned by positions, from the first, 0 for all */
  int64_t original_max_pos;    /* llama3, yarn, longrope */
  float   by_pair[2][TRI_MOST_PAIRS]; /* short_factor and long_factor of each pair of columns in longrope */
} tri_rope_shape;

/* Letters are those of kernels.h. */
typedef struct tri_model_shape {
  const struct tri_family *family; /* family.h */
  int                      L, H, G, D, C, F, V;
  int64_t                  max_pos; /* tokens of context the model was made for */
  float                    norm_eps;
  float                    init_std;  /* standard deviation of random weights */
  bool                     tied_head; /* for a head of tokens, ignored by a scalar head */
  bool                     qkv_bias, o_bias, mlp_bias;
  bool                     scored;                /* the head in the files is scalar, score.weight [1,C] */
  double                   score_mean, score_std; /* mean and deviation of its scores, NAN if unknown */
  double                   logit_softcap;         /* cap for a head of tokens, 0 for none */
  double          logit_divisor;       /* logits of a head of tokens are divided by this, 0 for no division */
  double          embed_multiplier;    /* factor of embeddings, 0 means the family's embed_scaled decides */
  double          residual_multiplier; /* factor of attention and mlp in the residual stream, 0 for none */
  bool            attn_gate;           /* q_proj has a gate for each column of o (kernels.h, split_gate) */
  tri_attn_shape  attn;
  tri_delta_shape delta;
  tri_rope_shape  rope[TRI_KINDS];
  uint8_t         no_rope[TRI_MOST_LAYERS / 8]; /* bit l % 8 of byte l / 8 is set without rotary positions */
} tri_model_shape;

static inline tri_layer_kind tri_kind_of(const tri_model_shape *s, int layer) {
  return s->attn.local[layer / 8] >> layer % 8 & 1 ? TRI_LOCAL : TRI_GLOBAL;
}
static inline void tri_set_local(tri_model_shape *s, int layer) {
  s->attn.local[layer / 8] |= (uint8_t)(1 << layer % 8);
}
static inline bool tri_is_recurrent(const tri_model_shape *s, int layer) {
  return s->delta.recurrent[layer / 8] >> layer % 8 & 1;
}
static inline void tri_set_recurrent(tri_model_shape *s, int layer) {
  s->delta.recurrent[layer / 8] |= (uint8_t)(1 << layer % 8);
}
/* Returns the number of recurrent layers. The other layers attend. */
static inline int tri_recurrent_layers(const tri_model_shape *s) {
  int n = 0;

  for (int layer = 0; layer < s->L; layer++) n += tri_is_recurrent(s, layer);
  return n;
}
static inline bool tri_has_rope(const tri_model_shape *s, int layer) {
  return !(s->no_rope[layer / 8] >> layer % 8 & 1);
}
static inline void tri_set_no_rope(tri_model_shape *s, int layer) {
  s->no_rope[layer / 8] |= (uint8_t)(1 << layer % 8);
}
/* Returns whether the long factors apply if the longest sequence has this many tokens. Returns false without
 * longrope. */
static inline bool tri_rope_is_long(const tri_model_shape *s, tri_rope_factors which, int64_t longest) {
  const tri_rope_shape *r = &s->rope[TRI_GLOBAL];

  if (r->type != TRI_ROPE_LONG) return false;
  return which == TRI_FACTORS_LONG || (which == TRI_FACTORS_AUTO && longest > r->original_max_pos);
}
/* Returns the columns of a head turned by positions, in layers of this kind with rotary positions. */
static inline int tri_turned(const tri_model_shape *s, tri_layer_kind kind) {
  return s->rope[kind].turned ? s->rope[kind].turned : s->D;
}

#endif
