/* kv.c - the paged key/value cache: the device pages of every layer and the number of holders per page. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "kv.h"

#include "base/host_memory.h"

struct tri_kv {
  tri_device *device; /* borrowed */
  tri_heads   heads;
  int         layers;
  tri_dtype   dtype;
  int64_t     pages, n_free;
  void       *k, *v;     /* A [L,P,G,D,TRI_PAGE], A [L,P,G,TRI_PAGE,D], owned by the ledger */
  int32_t    *free_page; /* [pages], a stack */
  int32_t    *holders;   /* [pages] */
};

static int64_t page_elements(const tri_kv *kv) { return (int64_t)kv->heads.G * kv->heads.D * TRI_PAGE; }

tri_status tri_kv_open(tri_device *d, tri_ledger *ledger, const tri_model_shape *shape, tri_dtype dtype,
                       int64_t pages, tri_kv **out) {
  tri_kv *kv;
  size_t  bytes;

  if (pages <= 0 || pages > INT32_MAX / TRI_PAGE)
    TRI_FAIL(TRI_ECONFIG,
             "a key/value cache of %lld pages of %d tokens is too large for this program. Reduce "
             "rollout.max_cached_tokens or rollout.max_response_length",
             (long long)pages, TRI_PAGE);
  TRI_TRY(TRI_ALLOC(*out, 1));
  kv = *out;
  kv->device = d;
  kv->heads = (tri_heads){shape->H, shape->G, shape->D};
  kv->layers = shape->L;
  kv->dtype = dtype;
  kv->pages = pages;
  TRI_TRY(TRI_ALLOC(kv->free_page, pages));
  TRI_TRY(TRI_ALLOC(kv->holders, pages));
  bytes = (size_t)(page_elements(kv) * pages * shape->L) * tri_dtype_bytes(dtype);
  TRI_TRY(tri_ledger_add(ledger, TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT, false, "key/value cache", bytes, &kv->k));
  TRI_TRY(tri_ledger_add(ledger, TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT, false, "key/value cache", bytes, &kv->v));
  tri_kv_reset(kv);
  return TRI_OK;
}

void tri_kv_close(tri_kv **kv) {
  if (!*kv) return;
  TRI_FREE((*kv)->free_page);
  TRI_FREE((*kv)->holders);
  TRI_FREE(*kv);
}

void tri_kv_layer(const tri_kv *kv, int layer, tri_tensor *k, tri_tensor *v) {
  size_t     at = (size_t)(page_elements(kv) * kv->pages * layer) * tri_dtype_bytes(kv->dtype);
  tri_tensor keys = {(char *)kv->k + at, kv->dtype, 4, {kv->pages, kv->heads.G, kv->heads.D, TRI_PAGE}};
  tri_tensor values = {(char *)kv->v + at, kv->dtype, 4, {kv->pages, kv->heads.G, TRI_PAGE, kv->heads.D}};

  *k = keys;
  *v = values;
}

void tri_kv_reset(tri_kv *kv) {
  kv->n_free = kv->pages;
  for (int64_t i = 0; i < kv->pages; i++) {
    kv->free_page[i] = (int32_t)(kv->pages - 1 - i);
    kv->holders[i] = 0;
  }
}

int32_t tri_kv_take(tri_kv *kv) {
  int32_t page;

  if (!kv->n_free) return -1;
  page = kv->free_page[--kv->n_free];
  kv->holders[page] = 1;
  return page;
}

void tri_kv_share(tri_kv *kv, int32_t page) {
  TRI_ASSERT(kv->holders[page] > 0);
  kv->holders[page]++;
}

void tri_kv_drop(tri_kv *kv, int32_t page) {
  TRI_ASSERT(kv->holders[page] > 0);
  if (--kv->holders[page] == 0) kv->free_page[kv->n_free++] = page;
}

int64_t tri_kv_free(const tri_kv *kv) { return kv->n_free; }

bool tri_kv_is_shared(const tri_kv *kv, int32_t page) { return kv->holders[page] > 1; }

tri_status tri_kv_copy(tri_kv *kv, int32_t to, int32_t from, tri_stream *s) {
  size_t bytes = (size_t)page_elements(kv) * tri_dtype_bytes(kv->dtype);

  for (int layer = 0; layer < kv->layers; layer++) {
    tri_tensor k, v;
    tri_kv_layer(kv, layer, &k, &v);
    TRI_TRY(kv->device->ops->copy(s, (char *)k.data + bytes * (size_t)to,
                                  (char *)k.data + bytes * (size_t)from, bytes));
    TRI_TRY(kv->device->ops->copy(s, (char *)v.data + bytes * (size_t)to,
                                  (char *)v.data + bytes * (size_t)from, bytes));
  }
  return TRI_OK;
}
