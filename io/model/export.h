/* export.h - a checkpoint's weights and small files as a Hugging Face folder. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_EXPORT_H
#define TRI_EXPORT_H

#include "part.h"

/* Chosen by transformers ("5GB"), so that shards are the customary ones. */
#define TRI_EXPORT_SHARD_BYTES INT64_C(5000000000)

typedef struct tri_export_opt {
  tri_dtype      dtype;       /* TRI_F32, TRI_BF16 or TRI_F16 */
  int64_t        shard_bytes; /* of one safetensors file at most; a larger tensor has a file of its own */
  tri_model_part part;
  bool           adapter; /* of a run with low-rank adapters those alone, as a folder of PEFT's */
  const char    *base; /* where the model lies that they are for, to be merged with them; NULL: where it lay
                           * in the run */
} tri_export_opt;

/* What was written. */
typedef struct tri_export_sum {
  int64_t n_parameter, bytes; /* of all tensors */
  int     n_shard;
} tri_export_sum;

/* Not collective. config.json (its dtype set), the tensors of the part's group as one or several safetensors
 * files, the tokenizer's files (with the chat template that the run's deck names, where the model brings
 * none), generation_config.json and what sidecar.h names into `folder`, which is absent or empty before, and
 * whole or as before afterwards: everything is written into folder.tmp and renamed. Holds 16 MiB of weights
 * at a time. TRI_EINPUT: folder is there and not empty, or there is no such part; TRI_EFILE: it cannot be
 * written. */
TRI_CHECKED tri_status tri_export(tri_ckpt_reader *r, const char *folder, const tri_export_opt *opt,
                                  tri_export_sum *sum);

#endif
