/* base_note.h - describes the base model of a checkpoint of adapters, with a fingerprint of each tensor.
 *
 * The fingerprints detect another base model or a changed one. The lines of the file are
 *   trireme base 1
 *   path P                                   or "seed N": random weights with the checkpoint's config.json
 *   part main                                or "part critic"
 *   tensor NAME FINGERPRINT INIT DIM ...     for each tensor in the order of the model
 * INIT is a number of tri_init. A fingerprint is the sum of a hash of each element with its index, so that
 * ranks may share the work in any way.
 *
 * Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BASE_NOTE_H
#define TRI_BASE_NOTE_H

#include "part.h"
#include "state/params.h"

typedef struct tri_base_tensor {
  tri_param_spec spec; /* joined and offset are not used */
  uint64_t       fingerprint;
} tri_base_tensor;

/* Zero-initialise. */
typedef struct tri_base_note {
  char             path[TRI_CKPT_PATH_BYTES]; /* absolute, or "" for random weights */
  uint64_t         seed;
  tri_model_part   part;   /* the part of a checkpoint at `path` */
  tri_base_tensor *tensor; /* [n] */
  int              n;
} tri_base_note;

void tri_base_note_free(tri_base_note *b);
/* Fills *out with the tensors of a store, with fingerprints 0. */
TRI_CHECKED tri_status tri_base_note_begin(const tri_params_opt *o, tri_base_note *out);
/* Pure. Returns the fingerprint of elements [begin, begin + count) of a tensor, computed by `threads`
 * threads. The sum over all parts is the tensor's fingerprint. */
uint64_t tri_base_fingerprint(const float *x, int64_t begin, int64_t count, int threads);
/* The first call reads the text of such a file, and returns TRI_EFORMAT for another text. name is for
 * messages. The second appends that text. */
TRI_CHECKED tri_status tri_base_note_parse(const char *name, const char *text, tri_base_note *out);
TRI_CHECKED tri_status tri_base_note_text(const tri_base_note *b, tri_text *out);
/* Returns the tensor of this name, or NULL. */
const tri_base_tensor *tri_base_note_find(const tri_base_note *b, const char *name);

#endif
