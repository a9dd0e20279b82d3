/* fingerprint.h - the contents of a model folder, a checkpoint or a file in a few lines: a resumed run knows
 * them again wherever they lie. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_FINGERPRINT_H
#define TRI_FINGERPRINT_H

#include "base/text_buffer.h"

/* Not collective. Appends a line for each file that is read at `path`, by name:
 * "KEY<tab>NAME<tab>BYTES HASH". A model folder: its config, tokenizer and safetensors files; a
 * checkpoint: MANIFEST.json, which holds the hash of all else; a run's output folder: that of its newest
 * checkpoint; a file: itself, NAME is ".". Files of up to 1 MiB are hashed whole; of larger ones the size,
 * both ends and 256 pieces evenly spread between, 1.5 MiB in all: weights that were trained further differ,
 * if only in one layer, and a damaged byte is not looked for. Nothing is appended where nothing can be read,
 * nor for a folder without a config that can. */
TRI_CHECKED tri_status tri_fingerprint(const char *key, const char *path, tri_text *out);

/* Pure. Whether such lines hold any of this key. */
bool tri_fingerprint_has(const char *lines, const char *key);
/* Pure. Names of files of this key that are in one of the two and not so in the other; "" where they agree.
 * At most four names, then their number. */
TRI_CHECKED tri_status tri_fingerprint_differ(const char *a, const char *b, const char *key, tri_text *names);

#endif
