/* model_shape.h - the sizes and constants of a decoder-only model. */
#ifndef TRI_MODEL_SHAPE_H
#define TRI_MODEL_SHAPE_H

#include "base/base.h"

struct tri_family;

typedef enum { TRI_ROPE_DEFAULT, TRI_ROPE_LINEAR, TRI_ROPE_LLAMA3 } tri_rope_type;

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
  double score_mean, score_std;    /* of such a model's scores, where config.json tells; NAN: it does not */
  tri_rope_type rope_type;
  double  rope_theta, rope_factor, rope_low_freq, rope_high_freq; /* the last two, and the next: llama3 */
  int64_t rope_original_max_pos;
} tri_model_shape;

#endif
