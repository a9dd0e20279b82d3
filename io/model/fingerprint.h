/* fingerprint.h - describes a model folder, a checkpoint or a file in a few lines, so that a resumed run can
 * recognise its contents at any path. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_FINGERPRINT_H
#define TRI_FINGERPRINT_H

#include "base/text_buffer.h"

/* Not collective. Appends a line for each input file at `path`, by name: "KEY<tab>NAME<tab>BYTES HASH".
 *   model folder           its config, tokenizer and safetensors files
 *   checkpoint             MANIFEST.json, which has the hashes of all other files
 *   run's output folder    MANIFEST.json of its newest checkpoint
 *   file                   the file itself, with NAME "."
 * Files of up to 1 MiB are hashed whole. Larger ones are hashed by their size, both ends and 256 pieces
 * spread evenly between them, 1.5 MiB in all. So weights with further training differ, even if only one layer
 * was trained, but a damaged byte may be missed. Appends nothing for a path that cannot be read, and nothing
 * for a folder without a readable config. */
TRI_CHECKED tri_status tri_fingerprint(const char *key, const char *path, tri_text *out);

/* Pure. Tells whether these lines have one with this key. */
bool tri_fingerprint_has(const char *lines, const char *key);
/* Pure. Appends the names of the files of this key that differ between the two, or are only in one. Appends
 * nothing if they agree. Names at most four files, then their number. */
TRI_CHECKED tri_status tri_fingerprint_differ(const char *a, const char *b, const char *key, tri_text *names);

#endif
