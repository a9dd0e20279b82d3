/* export_impl.h - declares the state of an export, for its small files, weights and multimodal folder.
 * Private to its room. Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_EXPORT_IMPL_H
#define TRI_EXPORT_IMPL_H

#include "export.h"
#include "export_half.h"
#include "safetensors.h"
#include "source_impl.h"
#include "template.h"

/* A small file of the model, read from the checkpoint. */
typedef struct tri_export_small {
  char  *bytes; /* NULL if there is none */
  size_t n;
} tri_export_small;

typedef struct tri_export_job {
  tri_ckpt_reader      *r;
  tri_source           *adapted; /* source that merges adapters into their base, else NULL */
  tri_merge             merge;
  const tri_export_opt *opt;
  tri_export_small      config, generation;       /* the part's */
  char                  tmp[TRI_CKPT_PATH_BYTES]; /* FOLDER.tmp, or "" until this export has made it */
  tri_safetensors_spec *spec;                     /* [n] */
  int    *source, *shard; /* [n] index in the checkpoint (-1 outside the text model), and of the file */
  int64_t n, n_copied;
  int     n_shard;
  char    folder[TRI_CKPT_PATH_BYTES]; /* the multimodal folder of the text model, or "" */
  tri_safetensors *whole;              /* its tensors, to be written too, or NULL */
  bool             half;               /* multimodal base: adapters get its names */
  char (*name)[TRI_HALF_NAME_BYTES];   /* [n] if half, else NULL */
  float          *buf;                 /* [PIECE] of export_weights.c */
  tri_model_shape shape;
  tri_eos         eos;
  tri_template template; /* the export's own template */
  int32_t end;           /* its end token, if it is no end token of the model, else -1 */
} tri_export_job;

enum { TRI_EXPORT_PATH_BYTES = TRI_CKPT_PATH_BYTES + 128 };

/* export_weights.c. Writes the tensors and their index into j->tmp. */
TRI_CHECKED tri_status tri_export_weights(tri_export_job *j, tri_export_sum *sum);
/* export_folder.c. Tells whether the text model was taken from a multimodal folder and can be put back there.
 * A model with a scalar head cannot. */
bool tri_export_has_folder(const tri_export_job *j);
/* Sets j->folder if that folder still has the same weights, and j->whole unless only adapters are written.
 * Otherwise warns. Returns TRI_EINPUT if --base names another folder. Call it after j->adapted is open. */
TRI_CHECKED tri_status tri_export_find_folder(tri_export_job *j);

#endif
