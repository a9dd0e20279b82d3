/* family.h - families of decoder-only models as rows of data: the tensors of their files, the defaults of
 * their config.json, and the keys they read. A family is a file family_NAME.c and a row of
 * TRI_FAMILY_LIST. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_FAMILY_H
#define TRI_FAMILY_H

#include "model_shape.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The use of a tensor in the blocks (decoder.h, head.h). The products come first. The bias of product p is
 * p + TRI_SLOT_PRODUCTS. The products of recurrent layers and the head have no bias. */
typedef enum {
  TRI_SLOT_QKV,       /* [E,C], rows q, k, v. With attn_gate [E + H D,C], rows as split_gate reads them */
  TRI_SLOT_O,         /* [C,H D] */
  TRI_SLOT_GATE_UP,   /* [2F,C], rows gate, up */
  TRI_SLOT_DOWN,      /* [C,F] */
  TRI_SLOT_DELTA_QKV, /* [Er,C], rows q, k, v of a recurrent layer, the input of its convolution */
  TRI_SLOT_DELTA_Z,   /* [Hv Dv,C] */
  TRI_SLOT_DELTA_BA,  /* [2 Hv,C], rows b, a */
  TRI_SLOT_DELTA_OUT, /* [C,Hv Dv] */
  TRI_SLOT_HEAD,      /* [V,C], the head's matrix, which is the embedding's table if tied */
  TRI_SLOT_PRODUCTS,
  TRI_SLOT_QKV_BIAS = TRI_SLOT_PRODUCTS,
  TRI_SLOT_O_BIAS,
  TRI_SLOT_GATE_UP_BIAS,
  TRI_SLOT_DOWN_BIAS,
  TRI_SLOT_EMBED,
  TRI_SLOT_NORM1,      /* before attention or the recurrent products */
  TRI_SLOT_NORM2,      /* before the mlp. A family has both, or has none and uses post-norms */
  TRI_SLOT_POST_NORM1, /* norm of attention's result before it joins the residual stream */
  TRI_SLOT_POST_NORM2, /* norm of the mlp's result. A family has both or none */
  TRI_SLOT_Q_NORM,     /* [D] for each head of q, or [Q] for all heads as one row */
  TRI_SLOT_K_NORM,     /* [D] or [K], the same for k. A family has both or none */
  TRI_SLOT_CONV,       /* [Er,1,W], these four as in kernels.h, conv_fwd, delta_fwd and gate_norm_fwd */
  TRI_SLOT_A_LOG,      /* [Hv] */
  TRI_SLOT_DT_BIAS,    /* [Hv] */
  TRI_SLOT_GATE_NORM,  /* [Dv], never added to 1 */
  TRI_SLOT_FINAL_NORM,
  TRI_SLOT_COUNT
} tri_slot;

/* The place of a tensor. In a layer it may be only in those that attend, or only in recurrent ones. */
typedef enum {
  TRI_IN_EMBEDDING,
  TRI_IN_LAYER,
  TRI_IN_ATTENTION_LAYER,
  TRI_IN_RECURRENT_LAYER,
  TRI_IN_HEAD
} tri_family_part;

/* One tensor, in the order of the model. Neighbours of one slot are joined to one matrix or bias by their
 * rows. */
typedef struct tri_tensor_row {
  tri_family_part part;
  const char     *name;  /* in the files, with %d for the layer */
  const char     *shape; /* one letter per dimension: C, D, E, F, V as in kernels.h, Q = H D, K = G D, U = 2F,
                      * 1. P = H D, or with attn_gate 2 H D. In recurrent layers R = Er, Z = Hv Dv, N = Hv,
                      * Y = Dv, W as in kernels.h */
  tri_slot        slot;
  size_t          only_if; /* offset in tri_model_shape of a bool it depends on, 0 if always there */
} tri_tensor_row;

/* A key of config.json of this family only, or one with other permitted values than in other families. */
typedef enum {
  TRI_KEY_FLAG,    /* true or false, a bool */
  TRI_KEY_NUMBER,  /* a double above 0 */
  TRI_KEY_CAP,     /* the same, or null for none */
  TRI_KEY_PATTERN, /* an integer choosing the global layers (hf_config_window.c) */
  TRI_KEY_THETA,   /* the rotary base of local layers (hf_config_rope.c) */
  TRI_KEY_NO_ROPE, /* list of layers with rotary positions, or interval of layers without */
  TRI_KEY_IDLE     /* changes nothing in this family */
} tri_key_kind;
typedef struct tri_config_key {
  const char  *key;
  tri_key_kind kind;
  size_t       where; /* offset in tri_model_shape, for the first three kinds */
} tri_config_key;

/* The meaning of `sliding_window`. */
typedef enum {
  TRI_WINDOW_NONE,     /* transformers ignores it, but other programs read a window, so it is refused */
  TRI_WINDOW_ALL,      /* a window in all layers, null means no window */
  TRI_WINDOW_SWITCHED, /* with use_sliding_window, layers from max_window_layers on, or by layer_types */
  TRI_WINDOW_NO_ROPE,  /* with use_sliding_window, layers without rotary positions, or by layer_types */
  TRI_WINDOW_PATTERN   /* layers named by layer_types, or without it all but every pattern-th */
} tri_window_rule;

typedef struct tri_family {
  const char           *model_type, *architecture; /* as config.json has them */
  const char           *scored; /* the architecture with a scalar head instead of the head of tokens */
  tri_model_shape       silent; /* defaults of missing keys, with D 0 for C / H, G 0 for H, no `family` */
  int32_t               bos, eos, pad; /* default token ids, -1 for none */
  const tri_config_key *key;           /* ends with key NULL */
  tri_window_rule       window;
  int                   pattern, window_layers; /* defaults for WINDOW_PATTERN and for max_window_layers */
  int                   attention_interval;     /* default: every such layer attends, the others are
                                                 * recurrent. 0 in a family without recurrent layers */
  int                   no_rope_interval;       /* every such layer has no rotary positions, 0 if all have */
  bool                  rope_by_kind;           /* local layers have a rotary embedding of their own */
  bool                  rope_one_theta;         /* older files give one base for both kinds of layers */
  bool                  rope_long;              /* the only scaling of rotary positions is longrope */
  bool                  rope_partial;           /* positions may turn only a part of each head */
  double                rope_part;              /* default of that part, 0 means all of a head */
  bool                  gelu;                   /* the mlp gates with GELU by tanh instead of SiLU */
  const char           *gelu_alias;             /* another name for it in hidden_act, or NULL */
  bool                  embed_scaled;           /* embeddings are multiplied by sqrt(C) in the compute type */
  float                 norm_plus;              /* number added to the weights of norms */
  const tri_tensor_row *tensor;                 /* ends with name NULL */
} tri_family;

extern const tri_tensor_row tri_tensors_llama[]; /* family_llama.c, for all families with the same tensors */
extern const tri_tensor_row tri_tensors_olmo2[]; /* family_olmo2.c, likewise */

/* clang-format off */
#define TRI_FAMILY_LIST(ROW) /* the table, row NAME is tri_family_NAME */ \
  ROW(llama)                                                          \
  ROW(mistral)                                                        \
  ROW(qwen2)                                                          \
  ROW(qwen3)                                                          \
  ROW(gemma)                                                          \
  ROW(gemma2)                                                         \
  ROW(gemma3)                                                         \
  ROW(phi3)                                                           \
  ROW(granite)                                                        \
  ROW(olmo2)                                                          \
  ROW(olmo3)                                                          \
  ROW(smollm3)                                                        \
  ROW(qwen3_5)
/* clang-format on */
#define TRI_FAMILY_DECLARE(name) extern const tri_family tri_family_##name;
TRI_FAMILY_LIST(TRI_FAMILY_DECLARE)
extern const tri_family *const tri_families[]; /* all families, ends with NULL */

/* Finds a family by config.json's model_type. Returns NULL if there is none. */
const tri_family *tri_family_find(const char *model_type);
/* Returns whether the tensor lies in layers, all of them or those of one kind. */
static inline bool tri_row_is_layers(const tri_tensor_row *r) {
  return r->part == TRI_IN_LAYER || r->part == TRI_IN_ATTENTION_LAYER || r->part == TRI_IN_RECURRENT_LAYER;
}
/* Returns whether a layer of this model is of the kind that has the tensor. */
static inline bool tri_row_in_layer(const tri_tensor_row *r, const tri_model_shape *s, int layer) {
  return r->part == TRI_IN_LAYER ||
         r->part == (tri_is_recurrent(s, layer) ? TRI_IN_RECURRENT_LAYER : TRI_IN_ATTENTION_LAYER);
}
/* Returns the name of the first tensor in a slot of the embedding or the head. */
const char *tri_family_tensor(const tri_family *f, tri_slot slot);

#endif
