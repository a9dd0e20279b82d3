/* sidecar.h - files that go with a model for other programs: through checkpoints and exports, unchanged. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SIDECAR_H
#define TRI_SIDECAR_H

#include "io/checkpoint/checkpoint.h"

/* chat_template.jinja, special_tokens_map.json and others: what stands beside the weights and is not read
 * here. What is read (config.json, tokenizer.json, ...) is source.h's. */
enum { TRI_SIDECAR_FILES = 14 };
const char *tri_sidecar_name(int i); /* in a checkpoint; i < TRI_SIDECAR_FILES */
const char *tri_sidecar_path(int i); /* in a model's folder: the same, or in a folder there */

/* Zero-initialise. Each file has at most 64 MiB. */
typedef struct tri_sidecar {
  bool   there[TRI_SIDECAR_FILES];
  char  *bytes[TRI_SIDECAR_FILES]; /* NULL where it is not there, or where another rank has it */
  size_t n[TRI_SIDECAR_FILES];
} tri_sidecar;

/* Not collective. Whether a file of a folder is no link, or one that is followed (tri_sidecar_read). */
bool tri_sidecar_follows(const char *folder, const char *name);
/* Not collective. Those in a model's folder. They are taken without being asked for, so no link is followed
 * out of the folder: only one to a file beside it, and one into blobs/ of the same repository in a cache of
 * Hugging Face's (../../blobs/NAME, of a file in a folder there ../../../blobs/NAME). Another link, and
 * what is no regular file, is a warning and not carried. TRI_EINPUT: too large. TRI_EFILE: cannot be read. */
TRI_CHECKED tri_status tri_sidecar_read(const char *folder, tri_sidecar *out);
/* Not collective. Those in a checkpoint. */
TRI_CHECKED tri_status tri_sidecar_get(tri_ckpt_reader *r, tri_sidecar *out);
/* Collective over world. Every rank learns which of them rank 0 has. */
TRI_CHECKED tri_status tri_sidecar_share(tri_sidecar *c, tri_comm *world);
/* Collective over the writer's ranks, after share. Rank 0's bytes into a checkpoint. */
TRI_CHECKED tri_status tri_sidecar_put(const tri_sidecar *c, tri_ckpt_writer *w);
void                   tri_sidecar_free(tri_sidecar *c);

#endif
