/* family.h - families of decoder-only models as rows of data: the tensors of their files, what a config.json
 * that is silent means, and which of its keys are read. A family is a file family_NAME.c and a row of
 * TRI_FAMILY_LIST. */
#ifndef TRI_FAMILY_H
#define TRI_FAMILY_H

#include "model_shape.h"

/* What a tensor is to the blocks (decoder.h, head.h). The products come first; the bias of product p is
 * p + TRI_SLOT_PRODUCTS. */
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
  TRI_SLOT_HEAD_BIAS, /* no row may have it yet: units.c gives it to no tied and no scalar head */
  TRI_SLOT_EMBED,
  TRI_SLOT_NORM1, /* before attention */
  TRI_SLOT_NORM2, /* before the mlp */
  TRI_SLOT_FINAL_NORM,
  TRI_SLOT_COUNT
} tri_slot;

typedef enum { TRI_IN_EMBEDDING, TRI_IN_LAYER, TRI_IN_HEAD } tri_part;

/* One tensor, in the order of the model. Neighbours of one slot are joined: rows of one matrix or bias. */
typedef struct tri_tensor_row {
  tri_part    part;
  const char *name;  /* in the files; %d: the layer */
  const char *shape; /* a letter for each dimension: C, D, F, V as in kernels.h, Q = H D, K = G D, 1 */
  tri_slot    slot;
  size_t      only_if; /* where in tri_model_shape the bool is that it depends on; 0: always there */
} tri_tensor_row;

/* A key of config.json, true or false, and where in tri_model_shape it goes. */
typedef struct tri_config_flag {
  const char *key;
  size_t      where;
} tri_config_flag;

typedef struct tri_family {
  const char            *model_type, *architecture; /* as config.json has them */
  const char            *scored; /* the architecture with a scalar head in place of the tokens' */
  tri_model_shape        silent; /* where config.json is silent; D 0: C / H, G 0: as H; `family` is not set */
  int32_t                bos, eos;         /* the same of its tokens; -1: none */
  const tri_config_flag *flag;             /* ended by key NULL */
  bool                   window_by_switch; /* sliding_window means nothing without use_sliding_window */
  const tri_tensor_row  *tensor;           /* ended by name NULL */
} tri_family;

extern const tri_tensor_row tri_tensors_llama[]; /* family_llama.c; for all families that have the same */

/* clang-format off */
#define TRI_FAMILY_LIST(ROW) /* the table: NAME is tri_family_NAME */ \
  ROW(llama)                                                          \
  ROW(qwen2)
/* clang-format on */
#define TRI_FAMILY_DECLARE(name) extern const tri_family tri_family_##name;
TRI_FAMILY_LIST(TRI_FAMILY_DECLARE)
extern const tri_family *const tri_families[]; /* all; ends with NULL */

/* By config.json's model_type; NULL: none. */
const tri_family *tri_family_find(const char *model_type);
/* The name of the first tensor in a slot of the embedding or the head. */
const char *tri_family_tensor(const tri_family *f, tri_slot slot);

#endif
