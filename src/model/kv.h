/* kv.h - the paged key/value cache: the device pages of every layer and the number of holders per page. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_KV_H
#define TRI_KV_H

#include "device/kernels.h"
#include "device/memory.h"
#include "family/model_shape.h"

/* Several sequences may share a page (the prompt of a group), so each page counts its holders. */
typedef struct tri_kv tri_kv;

/* Not collective. Plans `pages` pages of TRI_PAGE tokens for every layer in the ledger. */
TRI_CHECKED tri_status tri_kv_open(tri_device *d, tri_ledger *ledger, const tri_model_shape *shape,
                                   tri_dtype dtype, int64_t pages, tri_kv **out);
void                   tri_kv_close(tri_kv **kv);
/* Gives views of one layer, k [P,G,D,TRI_PAGE] and v [P,G,TRI_PAGE,D]. */
void    tri_kv_layer(const tri_kv *kv, int layer, tri_tensor *k, tri_tensor *v);
void    tri_kv_reset(tri_kv *kv);               /* frees every page */
int32_t tri_kv_take(tri_kv *kv);                /* takes a page for one holder, -1 if none is free */
void    tri_kv_share(tri_kv *kv, int32_t page); /* adds a holder */
void    tri_kv_drop(tri_kv *kv, int32_t page);  /* removes a holder, the last one frees the page */
int64_t tri_kv_free(const tri_kv *kv);          /* free pages */
bool    tri_kv_is_shared(const tri_kv *kv, int32_t page); /* has more than one holder */
/* Copies the content of a page to another in every layer. Each writer of a shared page that is not full needs
 * a copy. */
TRI_CHECKED tri_status tri_kv_copy(tri_kv *kv, int32_t to, int32_t from, tri_stream *s);

#endif
