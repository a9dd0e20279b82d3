/* hub.h - the cache of the Hugging Face Hub: models--OWNER--NAME/snapshots/REVISION with refs and blobs. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HUB_H
#define TRI_HUB_H

#include "io/checkpoint/checkpoint.h"

/* Not collective. The folder of files that `path` means: of a model's folder in the cache, or its snapshots,
 * refs or blobs, the snapshot that refs/main names, or the only one there is; of another path itself. info:
 * where a snapshot is taken, that is logged. TRI_EINPUT: there is none of that name, or several without
 * refs/main; or `path` is the cache of several models. */
TRI_CHECKED tri_status tri_hub_resolve(const char *path, bool info, char out[TRI_CKPT_PATH_BYTES]);
/* Not collective. Where the cache of this user has the model of the Hub called OWNER/NAME; "": nowhere. */
void tri_hub_find(const char *name, char out[TRI_CKPT_PATH_BYTES]);

enum { TRI_HUB_NAME_BYTES = 256 }; /* the Hub allows 96 characters of a name, and as many of its owner */
/* Pure. The name OWNER/NAME and the revision of a model whose snapshot in a cache `path` is; false: it is
 * none. */
bool tri_hub_name_of(const char *path, char name[TRI_HUB_NAME_BYTES], char revision[TRI_HUB_NAME_BYTES]);
/* Pure. Whether a text has the form of a name of the Hub, OWNER/NAME. */
bool tri_hub_is_name(const char *text);

#endif
