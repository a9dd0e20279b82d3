/* base_note.h - what a checkpoint of adapters keeps of the model they are for: where it lies, and a
 * fingerprint of each of its tensors, by which another model or a changed one is known.
 *
 * A line each: "trireme base 1", "path P" (or "seed N": random weights, of the checkpoint's config.json),
 * "part main" or "part critic", then "tensor NAME PRINT INIT DIM ..." in the order of the model, INIT
 * being a number of tri_init. A fingerprint is the sum of a hash of each element with its place, so that
 * ranks may share the work in any way. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BASE_NOTE_H
#define TRI_BASE_NOTE_H

#include "part.h"
#include "state/params.h"

typedef struct tri_base_tensor {
  tri_param_spec spec; /* joined and offset aside */
  uint64_t       fingerprint;
} tri_base_tensor;

/* Zero-initialise. */
typedef struct tri_base_note {
  char             path[TRI_CKPT_PATH_BYTES]; /* absolute; "": random weights */
  uint64_t         seed;
  tri_model_part   part;   /* of a checkpoint at `path` */
  tri_base_tensor *tensor; /* [n] */
  int              n;
} tri_base_note;

void tri_base_note_free(tri_base_note *b);
/* Not collective. The tensors of a store, fingerprints 0. */
TRI_CHECKED tri_status tri_base_note_begin(const tri_params_opt *o, tri_base_note *out);
/* The fingerprint of elements [begin, begin + count) of a tensor, by `threads` threads: to be added up.
 * Pure. */
uint64_t tri_base_fingerprint(const float *x, int64_t begin, int64_t count, int threads);
/* Not collective. What is in the file; name: for messages. TRI_EFORMAT: it is no such file. */
TRI_CHECKED tri_status tri_base_note_parse(const char *name, const char *text, tri_base_note *out);
TRI_CHECKED tri_status tri_base_note_json(const tri_base_note *b, tri_text *out);
/* NULL: there is none of this name. */
const tri_base_tensor *tri_base_note_find(const tri_base_note *b, const char *name);

#endif
