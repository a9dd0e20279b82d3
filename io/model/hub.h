/* hub.h - reads the Hugging Face Hub's cache, models--OWNER--NAME/snapshots/REVISION with refs and blobs. Not
 * collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HUB_H
#define TRI_HUB_H

#include "io/checkpoint/checkpoint.h"

/* Returns the folder with the model's files for `path`. If `path` is a model's folder in the cache, or its
 * snapshots, refs or blobs folder, the result is the snapshot named by refs/main, or the only snapshot.
 * Another path is returned unchanged. With info, a chosen snapshot is logged. Returns TRI_EINPUT if the
 * snapshot is missing, if there are several without refs/main, or if `path` is a cache of several models. */
TRI_CHECKED tri_status tri_hub_resolve(const char *path, bool info, char out[TRI_CKPT_PATH_BYTES]);
/* Returns the folder of the Hub's model OWNER/NAME in this user's cache, or "". */
void tri_hub_find(const char *name, char out[TRI_CKPT_PATH_BYTES]);

enum { TRI_HUB_NAME_BYTES = 256 }; /* the Hub allows 96 characters each for name and owner */
/* Pure. If `path` is a snapshot in a cache, gives its OWNER/NAME and revision, otherwise returns false. */
bool tri_hub_name_of(const char *path, char name[TRI_HUB_NAME_BYTES], char revision[TRI_HUB_NAME_BYTES]);
/* Pure. Tells whether a text has the form of a Hub name, OWNER/NAME. */
bool tri_hub_is_name(const char *text);

#endif
