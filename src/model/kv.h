/* kv.h - the cache of a generation: pages of keys and values, the number of holders per page, and states of
 * recurrent layers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_KV_H
#define TRI_KV_H

#include "device/kernels.h"
#include "device/memory.h"
#include "family/model_shape.h"

/* Several sequences may share a page (the prompt of a group), so each page counts its holders. */
typedef struct tri_kv tri_kv;

/* Not collective. Plans `pages` pages of TRI_PAGE tokens for every layer with attention in the ledger, and
 * `states` states for every recurrent layer. states is 0 for a model without recurrent layers. */
TRI_CHECKED tri_status tri_kv_open(tri_device *d, tri_ledger *ledger, const tri_model_shape *shape,
                                   tri_dtype dtype, int64_t pages, int states, tri_kv **out);
void                   tri_kv_close(tri_kv **kv);
/* Gives views of a layer with attention, k [P,G,D,TRI_PAGE] and v [P,G,TRI_PAGE,D]. */
void    tri_kv_layer(const tri_kv *kv, int layer, tri_tensor *k, tri_tensor *v);
void    tri_kv_reset(tri_kv *kv);               /* frees every page and state */
int32_t tri_kv_take(tri_kv *kv);                /* takes a page for one holder, -1 if none is free */
void    tri_kv_share(tri_kv *kv, int32_t page); /* adds a holder */
void    tri_kv_drop(tri_kv *kv, int32_t page);  /* removes a holder, the last one frees the page */
int64_t tri_kv_free(const tri_kv *kv);          /* free pages */
bool    tri_kv_is_shared(const tri_kv *kv, int32_t page); /* has more than one holder */
/* Copies the content of a page to another in every layer. Each writer of a shared page that is not full needs
 * a copy. */
TRI_CHECKED tri_status tri_kv_copy(tri_kv *kv, int32_t to, int32_t from, tri_stream *s);

/* A state is what a sequence leaves in all recurrent layers. It has one holder. Sequences that begin with
 * the same tokens copy it. */
/* Gives views of a recurrent layer, state f32 [Z,Hv,Dk,Dv] and tail A [Z,conv-1,Er]. */
void    tri_kv_states(const tri_kv *kv, int layer, tri_tensor *state, tri_tensor *tail);
int32_t tri_kv_take_state(tri_kv *kv); /* takes a state of any content, -1 if none is free */
void    tri_kv_drop_state(tri_kv *kv, int32_t state);
int64_t tri_kv_free_states(const tri_kv *kv); /* free states */
/* Copies the content of a state to another in every recurrent layer. */
TRI_CHECKED tri_status tri_kv_copy_state(tri_kv *kv, int32_t to, int32_t from, tri_stream *s);
/* Returns the bytes of one state in all recurrent layers, 0 without such layers. */
size_t tri_kv_state_bytes(const tri_model_shape *shape, tri_dtype dtype);

#endif
