/* inspect.h - the findings of trireme inspect and their display. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_INSPECT_H
#define TRI_INSPECT_H

#include "io/checkpoint/checkpoint.h"
#include "io/hf/hf_config.h"
#include "io/model/safetensors.h"

/* Chosen for a folder's path and the name of a file in it. */
enum { TRI_INSPECT_FILE_BYTES = TRI_CKPT_PATH_BYTES + 128 };

/* One tensor of a checkpoint or a model folder. */
typedef struct tri_inspected_row {
  const char    *group, *name; /* borrowed, group is "" in a model folder */
  char           dtype[16];
  int            ndim;
  const int64_t *dim; /* [ndim], borrowed, at most the first TRI_MAX_DIM */
  int64_t        count, bytes;
} tri_inspected_row;

/* The findings. Exactly one of ckpt and model is open. The rows point into it. */
typedef struct tri_inspected {
  char               path[TRI_CKPT_PATH_BYTES];
  tri_ckpt_reader   *ckpt;
  tri_safetensors   *model;
  tri_inspected_row *tensor; /* [n_tensor] */
  int64_t            n_tensor, bytes, parameters;
  bool               has_shape, verified;
  bool               adapted;                    /* its parameters belong to low-rank adapters */
  bool               multimodal;                 /* a folder of which only the text model is used */
  int64_t            n_left_out, left_out_bytes; /* its other tensors */
  tri_model_shape    shape;
  tri_eos            eos;
} tri_inspected;

typedef struct tri_inspect_how {
  bool json, tensors; /* one JSON value, and each tensor instead of sums only */
} tri_inspect_how;

/* Not collective. Appends all findings. */
TRI_CHECKED tri_status tri_inspect_print(const tri_inspected *f, const tri_inspect_how *how, tri_text *out);

#endif
