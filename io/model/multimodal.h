/* multimodal.h - remembers the multimodal folder of a text model, so that an export can write that folder
 * again. Private to its room.
 *
 * A checkpoint of such a run has a side file, TRI_SOURCE_MULTIMODAL_FILE, with the lines
 *   trireme multimodal 1
 *   model<tab>NAME<tab>BYTES HASH            for config.json and each safetensors file (fingerprint.h)
 *   path P                                   the folder's path, absolute
 * A copy of the folder with the same files may take its place.
 *
 * Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MULTIMODAL_H
#define TRI_MULTIMODAL_H

#include "base/text_buffer.h"
#include "io/checkpoint/checkpoint.h"
#include "safetensors.h"

/* Appends the side file's text for a multimodal folder. */
TRI_CHECKED tri_status tri_multimodal_note(const char *folder, tri_text *out);
/* Gives the folder's path in such a text. Returns TRI_EFORMAT for another text. name is for messages. */
TRI_CHECKED tri_status tri_multimodal_path(const char *name, const char *note, char out[TRI_CKPT_PATH_BYTES]);
/* Appends the names of the files of `folder` that differ from those of the text. Appends nothing if all are
 * the same. */
TRI_CHECKED tri_status tri_multimodal_differ(const char *note, const char *folder, tri_text *names);

/* Every tensor of a multimodal folder, file by file. Zero-initialise. */
typedef struct tri_multimodal_plan {
  tri_safetensors_spec *spec;    /* [n] */
  int                  *trained; /* [n] index of the trained tensor that replaces it, or -1 to copy it */
  int                  *file;    /* [n] index of its file in the folder */
  int64_t               n, n_copied;
} tri_multimodal_plan;
void tri_multimodal_plan_free(tri_multimodal_plan *p);
/* Puts the tensors of a text model, trained [n], in place of those of the folder `whole`. A head that the
 * files keep beside a tied embedding gets the embedding too; tied names it, NULL for an own head. Strings of
 * the plan are borrowed from `whole`. Returns TRI_EFORMAT if the folder has no place for a tensor. */
TRI_CHECKED tri_status tri_multimodal_place(const tri_safetensors *whole, const tri_safetensors_spec *trained,
                                            int64_t n, const char *tied, const char *embed,
                                            tri_multimodal_plan *out);

#endif
