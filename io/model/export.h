/* export.h - writes a checkpoint's weights and small files as a Hugging Face folder. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_EXPORT_H
#define TRI_EXPORT_H

#include "part.h"

/* The default of transformers ("5GB"), so that shards have the usual size. */
#define TRI_EXPORT_SHARD_BYTES INT64_C(5000000000)

typedef struct tri_export_opt {
  tri_dtype      dtype;       /* TRI_F32, TRI_BF16 or TRI_F16 */
  int64_t        shard_bytes; /* most bytes of a safetensors file; a larger tensor gets its own file */
  tri_model_part part;
  bool           adapter; /* writes only the low-rank adapters of the run, as a PEFT folder */
  /* path of the base model to merge the adapters into, or NULL for its path in the run */
  const char *base;
} tri_export_opt;

/* Totals of the written export. */
typedef struct tri_export_sum {
  int64_t n_parameter, bytes; /* totals of all tensors */
  int     n_shard;
} tri_export_sum;

/* Not collective. Writes into `folder` config.json with its dtype set, the tensors of the part's group as one
 * or several safetensors files, the tokenizer's files, generation_config.json and the sidecar files. If the
 * model has no chat template of its own, the template named by the run's deck is added. `folder` must be
 * missing or empty. Afterwards it is complete, or as before, because everything is written into folder.tmp
 * and renamed. Holds 16 MiB of weights at a time. Returns TRI_EINPUT if folder is not empty or the checkpoint
 * has no such part, TRI_EFILE if folder cannot be written. */
TRI_CHECKED tri_status tri_export(tri_ckpt_reader *r, const char *folder, const tri_export_opt *opt,
                                  tri_export_sum *sum);

#endif
