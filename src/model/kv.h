/* kv.h - the paged key/value cache: device pages of every layer, and who holds which page. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_KV_H
#define TRI_KV_H

#include "device/kernels.h"
#include "device/memory.h"
#include "family/model_shape.h"

/* Pages may be shared by several sequences (a group's prompt): they are counted. */
typedef struct tri_kv tri_kv;

/* Not collective. Plans `pages` pages of TRI_PAGE tokens for every layer in the ledger. */
TRI_CHECKED tri_status tri_kv_open(tri_device *d, tri_ledger *ledger, const tri_model_shape *shape,
                                   tri_dtype dtype, int64_t pages, tri_kv **out);
void                   tri_kv_close(tri_kv **kv);
/* Views of one layer: k [P,G,D,TRI_PAGE], v [P,G,TRI_PAGE,D]. */
void    tri_kv_layer(const tri_kv *kv, int layer, tri_tensor *k, tri_tensor *v);
void    tri_kv_reset(tri_kv *kv);               /* every page is free */
int32_t tri_kv_take(tri_kv *kv);                /* a page held once, or -1 */
void    tri_kv_share(tri_kv *kv, int32_t page); /* one more holder */
void    tri_kv_drop(tri_kv *kv, int32_t page);  /* one holder less; free when none is left */
/* The content of a page, every layer, to another: a shared page that is not full gets a copy per writer. */
TRI_CHECKED tri_status tri_kv_copy(tri_kv *kv, int32_t to, int32_t from, tri_stream *s);

#endif
