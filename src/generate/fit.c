/* fit.c - chooses the number of sequences a rank decodes at once, and the pages of its cache. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "fit.h"

#include "base/host_memory.h"
#include "device/kernels.h"

int64_t tri_sampler_page_bytes(const tri_model_shape *sh, tri_dtype dtype) {
  return 2 * (int64_t)(sh->L - tri_recurrent_layers(sh)) * sh->G * sh->D * TRI_PAGE *
         (int64_t)tri_dtype_bytes(dtype);
}

int64_t tri_sampler_most(const tri_device *d, int64_t n) {
  int64_t most = tri_device_is_gpu(d) ? TRI_SAMPLER_GPU_SEQUENCES : TRI_SAMPLER_SEQUENCES;

  return n > most ? most : n;
}

/* Sums the bytes planned for the rollout phase and for always. On a GPU they are the device's, on the host's
 * cores all. */
static tri_status planned(const tri_session *se, int64_t *bytes) {
  const tri_ledger *l = se->ledger;
  bool              gpu = tri_device_is_gpu(se->device);
  tri_ledger_row   *row = NULL;
  int               n;

  *bytes = 0;
  TRI_TRY(tri_ledger_rows(l, &row, &n));
  for (int i = 0; i < n; i++)
    if ((!gpu || row[i].kind == TRI_MEM_DEVICE) && (row[i].phase & TRI_PHASE_ROLLOUT)) *bytes += row[i].bytes;
  TRI_FREE(row);
  return TRI_OK;
}

/* Collective over world. Returns how many of `bytes` on this rank's device the plan so far leaves. */
static tri_status left_of(const tri_session *se, int64_t bytes, int64_t *left) {
  int64_t taken;

  TRI_TRY(tri_agree(se->comm[TRI_WORLD], planned(se, &taken)));
  *left = bytes - taken - (int64_t)tri_session_beside_bytes(se);
  return TRI_OK;
}

/* Collective over world. Returns this rank's share of the device's memory, free and in all. */
static tri_status share_of(const tri_session *se, int64_t *bytes_free, int64_t *bytes) {
  size_t free_now, total;
  int    sharers;

  TRI_TRY(se->device->ops->mem_info(se->device, &free_now, &total));
  TRI_TRY(tri_comm_sharers(&se->rt, se->comm[TRI_WORLD], se->device, &sharers));
  *bytes_free = (int64_t)(free_now / (size_t)sharers);
  *bytes = (int64_t)(total / (size_t)sharers);
  return TRI_OK;
}

/* Chosen. Memory of a GPU that the cache leaves free, for its rows' other buffers and all that comes later.
 * It is at most a 16th of the GPU. */
static const int64_t spare_bytes = (int64_t)7 << 28;

/* Collective over world. Returns the bytes of this rank's memory that the plan so far leaves to the cache.
 * The free memory of the host changes from second to second, so a plan would differ from its run. Half of
 * the whole memory does not change. */
static tri_status left_for_cache(const tri_session *se, int64_t *left) {
  int64_t bytes_free = 0, bytes = 0;
  bool    gpu = tri_device_is_gpu(se->device);

  TRI_TRY(share_of(se, &bytes_free, &bytes));
  if (gpu) bytes_free -= bytes / 16 < spare_bytes ? bytes / 16 : spare_bytes;
  TRI_TRY(left_of(se, gpu ? bytes_free : bytes / 16 * 15, left));
  if (!gpu && *left > bytes / 2) *left = bytes / 2;
  return TRI_OK;
}

/* Collective over world. Lowers *n to as many of `each` bytes as fit into `left`, the least over all
 * ranks. */
static tri_status lower(const tri_session *se, int64_t left, int64_t each, int64_t *n) {
  int64_t fit = left > 0 ? left / each : 0, lack = fit < *n ? *n - fit : 0;

  TRI_TRY(tri_host_max(se->comm[TRI_WORLD], &lack, 1));
  *n -= lack;
  return TRI_OK;
}

tri_status tri_sampler_fit_rows(const tri_session *se, int64_t state_bytes, int64_t *rows) {
  int64_t left = 0, states = *rows + 1;

  if (!state_bytes) return TRI_OK;
  TRI_TRY(left_for_cache(se, &left));
  TRI_TRY(lower(se, left / 2, state_bytes, &states));
  *rows = states > 2 ? states - 1 : 1;
  return TRI_OK;
}

tri_status tri_sampler_fit_pages(const tri_session *se, int64_t states_bytes, int64_t page_bytes,
                                 int64_t *pages) {
  int64_t left = 0;

  TRI_TRY(left_for_cache(se, &left));
  if (!page_bytes) page_bytes = 1; /* pages of no layer are numbers only */
  return lower(se, left - states_bytes, page_bytes, pages);
}
