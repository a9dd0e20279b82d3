/* family.h - families of decoder-only models as rows of data: the tensors of their files, what a config.json
 * that is silent means, and which of its keys are read. A family is a file family_NAME.c and a row of
 * TRI_FAMILY_LIST. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_FAMILY_H
#define TRI_FAMILY_H

#include "model_shape.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a tensor is to the blocks (decoder.h, head.h). The products come first; the bias of a layer's product
 * p is p + TRI_SLOT_PRODUCTS; the head has no bias. */
typedef enum {
  TRI_SLOT_QKV,     /* [E,C], rows q, k, v */
  TRI_SLOT_O,       /* [C,H D] */
  TRI_SLOT_GATE_UP, /* [2F,C], rows gate, up */
  TRI_SLOT_DOWN,    /* [C,F] */
  TRI_SLOT_HEAD,    /* [V,C], what the head multiplies with; the embedding's table where that is tied */
  TRI_SLOT_PRODUCTS,
  TRI_SLOT_QKV_BIAS = TRI_SLOT_PRODUCTS,
  TRI_SLOT_O_BIAS,
  TRI_SLOT_GATE_UP_BIAS,
  TRI_SLOT_DOWN_BIAS,
  TRI_SLOT_EMBED,
  TRI_SLOT_NORM1,      /* before attention */
  TRI_SLOT_NORM2,      /* before the mlp; a family has both, or none and post-norms */
  TRI_SLOT_POST_NORM1, /* of attention's result, before it joins the residual stream */
  TRI_SLOT_POST_NORM2, /* of the mlp's; a family has both or none */
  TRI_SLOT_Q_NORM,     /* [D], of each head of q; or [Q], of all of them as one row */
  TRI_SLOT_K_NORM,     /* [D] or [K], the same of k; a family has both or none */
  TRI_SLOT_FINAL_NORM,
  TRI_SLOT_COUNT
} tri_slot;

typedef enum { TRI_IN_EMBEDDING, TRI_IN_LAYER, TRI_IN_HEAD } tri_family_part;

/* One tensor, in the order of the model. Neighbours of one slot are joined: rows of one matrix or bias. */
typedef struct tri_tensor_row {
  tri_family_part part;
  const char     *name; /* in the files; %d: the layer */
  const char *shape; /* a letter for each dimension: C, D, E, F, V as in kernels.h, Q = H D, K = G D, U = 2F,
                      * 1 */
  tri_slot    slot;
  size_t      only_if; /* where in tri_model_shape the bool is that it depends on; 0: always there */
} tri_tensor_row;

/* A key of config.json that this family has and others have not, or may not give another value. */
typedef enum {
  TRI_KEY_FLAG,    /* true or false, a bool */
  TRI_KEY_NUMBER,  /* above 0, a double */
  TRI_KEY_CAP,     /* the same, or null: none */
  TRI_KEY_PATTERN, /* a whole number: which layers are global (hf_config_window.c) */
  TRI_KEY_THETA,   /* the rotary base of local layers (hf_config_rope.c) */
  TRI_KEY_NO_ROPE, /* which layers have rotary positions, as a list; and, without it, every which has none */
  TRI_KEY_IDLE     /* changes nothing in this family */
} tri_key_kind;
typedef struct tri_config_key {
  const char  *key;
  tri_key_kind kind;
  size_t       where; /* in tri_model_shape, of the first three */
} tri_config_key;

/* What `sliding_window` means. */
typedef enum {
  TRI_WINDOW_NONE,     /* nothing to transformers, and to other programs a window: refused */
  TRI_WINDOW_ALL,      /* of all layers; null: none has one */
  TRI_WINDOW_SWITCHED, /* with use_sliding_window: of layers from max_window_layers on, or by layer_types */
  TRI_WINDOW_NO_ROPE,  /* with use_sliding_window: of layers without rotary positions, or by layer_types */
  TRI_WINDOW_PATTERN   /* of those that layer_types names, else of all but every pattern-th */
} tri_window_rule;

typedef struct tri_family {
  const char           *model_type, *architecture; /* as config.json has them */
  const char           *scored; /* the architecture with a scalar head in place of the tokens' */
  tri_model_shape       silent; /* where config.json is silent; D 0: C / H, G 0: as H; not its `family` */
  int32_t               bos, eos, pad; /* the same of its tokens; -1: none */
  const tri_config_key *key;           /* ended by key NULL */
  tri_window_rule       window;
  int                   pattern, window_layers; /* of WINDOW_PATTERN; max_window_layers; the same */
  int                   no_rope_interval; /* of layers every such one has no rotary positions; 0: all have */
  bool                  rope_by_kind;     /* local layers have a rotary embedding of their own */
  bool                  rope_one_theta;   /* the base of both kinds is one, as its older files have it */
  bool                  rope_long;        /* the scaling of its rotary positions is longrope, no other */
  bool                  rope_partial;     /* positions may turn a part of each head */
  bool                  gelu;             /* GELU by tanh gates its mlp, not SiLU */
  const char           *gelu_alias;       /* what their hidden_act calls it too, or NULL */
  bool                  embed_scaled;     /* embeddings are times the square root of C, of the compute type */
  float                 norm_plus;        /* what norms add to their weights */
  const tri_tensor_row *tensor;           /* ended by name NULL */
} tri_family;

extern const tri_tensor_row tri_tensors_llama[]; /* family_llama.c; for all families that have the same */
extern const tri_tensor_row tri_tensors_olmo2[]; /* family_olmo2.c; the same */

/* clang-format off */
#define TRI_FAMILY_LIST(ROW) /* the table: NAME is tri_family_NAME */ \
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
  ROW(smollm3)
/* clang-format on */
#define TRI_FAMILY_DECLARE(name) extern const tri_family tri_family_##name;
TRI_FAMILY_LIST(TRI_FAMILY_DECLARE)
extern const tri_family *const tri_families[]; /* all; ends with NULL */

/* By config.json's model_type; NULL: none. */
const tri_family *tri_family_find(const char *model_type);
/* The name of the first tensor in a slot of the embedding or the head. */
const char *tri_family_tensor(const tri_family *f, tri_slot slot);

#endif
