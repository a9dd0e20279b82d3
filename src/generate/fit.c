/* fit.c - chooses the number of sequences a rank decodes at once, if the deck does not. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "fit.h"

#include "base/host_memory.h"
#include "device/kernels.h"

int64_t tri_sampler_row_bytes(const tri_model_shape *sh, tri_dtype dtype, int64_t tokens) {
  return (tokens + TRI_PAGE) * sh->L * sh->G * sh->D * 2 * (int64_t)tri_dtype_bytes(dtype);
}

int64_t tri_sampler_most(const tri_device *d, int64_t n) {
  return n > TRI_SAMPLER_SEQUENCES && !tri_device_is_gpu(d) ? TRI_SAMPLER_SEQUENCES : n;
}

/* Sums the device bytes planned for the rollout phase and for always. */
static tri_status planned(const tri_ledger *l, int64_t *bytes) {
  tri_ledger_row *row = NULL;
  int             n;

  *bytes = 0;
  TRI_TRY(tri_ledger_rows(l, &row, &n));
  for (int i = 0; i < n; i++)
    if (row[i].kind == TRI_MEM_DEVICE && (row[i].phase & TRI_PHASE_ROLLOUT)) *bytes += row[i].bytes;
  TRI_FREE(row);
  return TRI_OK;
}

tri_status tri_sampler_fit(const tri_session *se, int64_t row_bytes, int64_t *n) {
  tri_comm *world = se->comm[TRI_WORLD];
  size_t    bytes_free, bytes_total;
  int64_t   taken, left;
  int       sharers;

  TRI_TRY(tri_agree(world, planned(se->ledger, &taken)));
  TRI_TRY(se->device->ops->mem_info(se->device, &bytes_free, &bytes_total));
  TRI_TRY(tri_comm_sharers(&se->rt, world, se->device, &sharers));
  left = (int64_t)(bytes_total / (size_t)sharers / 16 *
                   15); /* chosen, the rest is for the device's context and for further needs of rows */
  left -= taken + (int64_t)tri_session_beside_bytes(se);
  while (*n > TRI_SAMPLER_SEQUENCES && *n * row_bytes > left)
    *n = *n / 2 > TRI_SAMPLER_SEQUENCES ? *n / 2 : TRI_SAMPLER_SEQUENCES;
  return tri_host_bcast(world, n, sizeof *n, 0); /* memory may differ by node */
}
