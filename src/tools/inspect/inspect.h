/* inspect.h - what trireme inspect found, and its words. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_INSPECT_H
#define TRI_INSPECT_H

#include "io/checkpoint/checkpoint.h"
#include "io/hf/hf_config.h"
#include "io/model/safetensors.h"

/* Chosen: a folder's path and the name of a file in it. */
enum { TRI_INSPECT_FILE_BYTES = TRI_CKPT_PATH_BYTES + 128 };

/* One tensor, of whichever kind of file. */
typedef struct tri_inspected_row {
  const char    *group, *name; /* borrowed; group "" in a model folder */
  char           dtype[16];
  int            ndim;
  const int64_t *dim; /* [ndim], borrowed; the first TRI_MAX_DIM of them */
  int64_t        count, bytes;
} tri_inspected_row;

/* What was found. Exactly one of ckpt and model is open; the rows point into it. */
typedef struct tri_inspected {
  char               path[TRI_CKPT_PATH_BYTES];
  tri_ckpt_reader   *ckpt;
  tri_safetensors   *model;
  tri_inspected_row *tensor; /* [n_tensor] */
  int64_t            n_tensor, bytes, parameters;
  bool               has_shape, verified;
  bool               adapted; /* its parameters are those of low-rank adapters */
  tri_model_shape    shape;
  tri_eos            eos;
} tri_inspected;

typedef struct tri_inspect_how {
  bool json, tensors; /* one JSON value; each tensor, not only their sums */
} tri_inspect_how;

/* Not collective. Appends all that was found. */
TRI_CHECKED tri_status tri_inspect_print(const tri_inspected *f, const tri_inspect_how *how, tri_text *out);

#endif
