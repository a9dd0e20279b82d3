/* sidecar.h - copies files of a model for other programs, unchanged, into checkpoints and exports. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SIDECAR_H
#define TRI_SIDECAR_H

#include "io/checkpoint/checkpoint.h"

/* Sidecar files, such as chat_template.jinja and special_tokens_map.json, lie beside the weights and are only
 * copied. Files that Trireme reads itself (config.json, tokenizer.json, ...) belong to source.h. */
enum { TRI_SIDECAR_FILES = 14 };
const char *tri_sidecar_name(int i); /* name in a checkpoint, i < TRI_SIDECAR_FILES */
const char *tri_sidecar_path(int i); /* path in a model's folder, perhaps in a subfolder */

/* Zero-initialise. Each file has at most 64 MiB. */
typedef struct tri_sidecar {
  bool   there[TRI_SIDECAR_FILES];
  char  *bytes[TRI_SIDECAR_FILES]; /* NULL if absent or if only another rank has it */
  size_t n[TRI_SIDECAR_FILES];
} tri_sidecar;

/* Not collective. Tells whether a file of a folder is no link, or a link followed by tri_sidecar_read. */
bool tri_sidecar_follows(const char *folder, const char *name);
/* Not collective. Reads the sidecar files in a model's folder. The user did not name them, so no link is
 * followed out of the folder. A link to a file beside it is followed. A link into blobs/ of the same
 * repository in a cache of Hugging Face is followed too (../../blobs/NAME, or ../../../blobs/NAME from a
 * subfolder). Another link, or anything but a regular file, causes a warning and is not copied. Returns
 * TRI_EINPUT if a file is too large, TRI_EFILE if it cannot be read. */
TRI_CHECKED tri_status tri_sidecar_read(const char *folder, tri_sidecar *out);
/* Not collective. Reads one other file of a model's folder by the same rules. *bytes is NULL if it is missing
 * or not copied. */
TRI_CHECKED tri_status tri_sidecar_read_file(const char *folder, const char *name, char **bytes, size_t *n);
/* Not collective. Reads the sidecar files in a checkpoint. */
TRI_CHECKED tri_status tri_sidecar_get(tri_ckpt_reader *r, tri_sidecar *out);
/* Collective over world. Tells every rank which files rank 0 has. */
TRI_CHECKED tri_status tri_sidecar_share(tri_sidecar *c, tri_comm *world);
/* Collective over the writer's ranks, after tri_sidecar_share. Puts rank 0's files into a checkpoint. */
TRI_CHECKED tri_status tri_sidecar_put(const tri_sidecar *c, tri_ckpt_writer *w);
void                   tri_sidecar_free(tri_sidecar *c);

#endif
