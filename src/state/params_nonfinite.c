/* params_nonfinite.c - finds the first gradient of the parameter store that is not finite. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "params_impl.h"

#include <math.h>
#include <string.h>

/* Sets *faulty if this rank's share of the gradient of unit[u].param[i] has a number that is not finite. */
static tri_status is_faulty(tri_params *p, int u, int i, tri_stream *s, bool *faulty) {
  const tri_device_ops *ops = p->device->ops;
  const tri_param_spec *f = &p->opt.unit[u].param[i];
  tri_grad_view         v = tri_params_grad_view(p, u);
  tri_range             r = tri_range_meet((tri_range){f->offset, tri_param_count(f)}, v.range);
  tri_tensor            g = tri_view1(v.grad + (r.begin - v.range.begin), TRI_F32, r.count);

  *faulty = false;
  if (!r.count) return TRI_OK;
  TRI_TRY(ops->fill(s, p->sum, 0, sizeof *p->sum));
  TRI_TRY(tri_params_kernels(p)->sumsq(s, p->sum, &g));
  TRI_TRY(ops->copy(s, p->host_sum, p->sum, sizeof *p->sum));
  TRI_TRY(ops->stream_sync(s));
  *faulty = !isfinite(*p->host_sum);
  return TRI_OK;
}

/* Sets *rank to a number that is higher for tensors earlier in the backward pass, or to 0 for none. */
static tri_status find_here(tri_params *p, tri_stream *s, int64_t *rank) {
  for (int u = p->opt.n_unit - 1; u >= 0; u--)
    for (int i = 0; i < p->opt.unit[u].n_param; i++) {
      bool faulty;
      TRI_TRY(is_faulty(p, u, i, s, &faulty));
      *rank = ((int64_t)u << 32) + (p->opt.unit[u].n_param - i);
      if (faulty) return TRI_OK;
    }
  *rank = 0;
  return TRI_OK;
}

tri_status tri_params_grad_nonfinite(tri_params *p, tri_stream *s, const char **name) {
  tri_comm  *world = p->comm[TRI_WORLD];
  int64_t    rank = 0;
  tri_status st = find_here(p, s, &rank);

  *name = NULL;
  TRI_TRY(tri_agree(world, st));
  TRI_TRY(tri_host_max(world, &rank, 1));
  if (rank) {
    const tri_unit_spec *u = &p->opt.unit[rank >> 32];
    *name = u->param[u->n_param - (rank & UINT32_MAX)].name;
  }
  return TRI_OK;
}
