/* model_shape.h - the sizes and constants of a decoder-only model. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MODEL_SHAPE_H
#define TRI_MODEL_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

struct tri_family;

enum { TRI_MOST_LAYERS = 1 << 12 }; /* chosen: ten times what dense models have */

/* Layers are of two kinds: those whose attention is local see a window of keys. */
typedef enum { TRI_GLOBAL, TRI_LOCAL, TRI_KINDS } tri_layer_kind;

typedef struct tri_attn_shape {
  int64_t window;                     /* of local layers: token i sees keys > i - window */
  double  query_scalar;               /* scores are q k over the square root of it; 0: of D */
  double  multiplier;                 /* scores are q k times it; 0: as query_scalar says */
  double  softcap;                    /* of scores; 0: none */
  uint8_t local[TRI_MOST_LAYERS / 8]; /* bit l % 8 of byte l / 8: layer l is local */
} tri_attn_shape;

typedef enum {
  TRI_ROPE_DEFAULT,
  TRI_ROPE_LINEAR,
  TRI_ROPE_LLAMA3,
  TRI_ROPE_YARN,
  TRI_ROPE_LONG /* longrope (Ding et al. 2024) */
} tri_rope_type;

/* Which of longrope's two lists of factors count: one for all sequences of a use. AUTO: the long one where a
 * sequence may be longer than the original context, as vLLM has it. */
typedef enum { TRI_FACTORS_AUTO, TRI_FACTORS_SHORT, TRI_FACTORS_LONG } tri_rope_factors;

/* Pairs of columns of a head that RoPE rotates: the limit of D in hf_config.c, halved. */
enum { TRI_MOST_PAIRS = 256 };

typedef struct tri_rope_shape {
  tri_rope_type type;
  double        theta, factor;
  double  low_freq, high_freq; /* llama3: low_freq_factor, high_freq_factor; yarn: beta_slow, beta_fast */
  double  attention_factor;    /* yarn, longrope: cosines and sines are times this */
  bool    truncate;            /* yarn: the range between the two is one of whole dimensions */
  int     turned;              /* columns of a head that positions turn, from the first; 0: all */
  int64_t original_max_pos;    /* llama3, yarn, longrope */
  float   by_pair[2][TRI_MOST_PAIRS]; /* longrope: short_factor and long_factor of each pair of columns */
} tri_rope_shape;

/* Letters as in kernels.h. */
typedef struct tri_model_shape {
  const struct tri_family *family; /* family.h */
  int                      L, H, G, D, C, F, V;
  int64_t                  max_pos; /* tokens of context the model was made for */
  float                    norm_eps;
  float                    init_std;  /* of random weights */
  bool                     tied_head; /* of a head of tokens; nothing to a scalar one */
  bool                     qkv_bias, o_bias, mlp_bias;
  bool                     scored; /* the head in the files is scalar, score.weight [1,C] */
  double score_mean, score_std;    /* of such a model's scores, where config.json tells; NAN: it
                                                   * does not */
  double logit_softcap;            /* of a head of tokens; 0: none */
  double logit_divisor;            /* logits of a head of tokens are divided by it; 0: they are not */
  double embed_multiplier;         /* embeddings are times it; 0: as the family's embed_scaled says */
  double residual_multiplier;      /* attention and mlp join the residual stream times it; 0: as they are */
  tri_attn_shape attn;
  tri_rope_shape rope[TRI_KINDS];
  uint8_t        no_rope[TRI_MOST_LAYERS / 8]; /* bit l % 8 of byte l / 8: layer l has no rotary positions */
} tri_model_shape;

static inline tri_layer_kind tri_kind_of(const tri_model_shape *s, int layer) {
  return s->attn.local[layer / 8] >> layer % 8 & 1 ? TRI_LOCAL : TRI_GLOBAL;
}
static inline void tri_set_local(tri_model_shape *s, int layer) {
  s->attn.local[layer / 8] |= (uint8_t)(1 << layer % 8);
}
static inline bool tri_has_rope(const tri_model_shape *s, int layer) {
  return !(s->no_rope[layer / 8] >> layer % 8 & 1);
}
static inline void tri_set_no_rope(tri_model_shape *s, int layer) {
  s->no_rope[layer / 8] |= (uint8_t)(1 << layer % 8);
}
/* Whether the long factors count where the longest sequence has so many tokens; false without longrope. */
static inline bool tri_rope_is_long(const tri_model_shape *s, tri_rope_factors which, int64_t longest) {
  const tri_rope_shape *r = &s->rope[TRI_GLOBAL];

  if (r->type != TRI_ROPE_LONG) return false;
  return which == TRI_FACTORS_LONG || (which == TRI_FACTORS_AUTO && longest > r->original_max_pos);
}
/* Columns of a head that positions turn in layers of this kind that have rotary positions. */
static inline int tri_turned(const tri_model_shape *s, tri_layer_kind kind) {
  return s->rope[kind].turned ? s->rope[kind].turned : s->D;
}

#endif
