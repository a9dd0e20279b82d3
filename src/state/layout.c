/* layout.c - pure arithmetic of the places of a unit's params, and of each rank's share. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "layout.h"

enum { PAD_ELEMENTS = 64 }; /* chosen. Every share starts on a 256-byte boundary in f32, 128 in bf16 */

int64_t tri_param_count(const tri_param_spec *s) {
  int64_t n = 1;

  for (int i = 0; i < s->ndim; i++) n *= s->dim[i];
  return n;
}

void tri_unit_layout(tri_unit_spec *u) {
  int64_t at = 0;

  for (int i = 0; i < u->n_param; i++) {
    if (!u->param[i].joined) at = (at + PAD_ELEMENTS - 1) / PAD_ELEMENTS * PAD_ELEMENTS;
    u->param[i].offset = at;
    at += tri_param_count(&u->param[i]);
  }
  u->count = at;
}

tri_layout tri_layout_make(const tri_unit_spec *unit, tri_shard_plan plan, tri_place place, bool train) {
  if (!train) plan.grads = plan.optim = plan.params;
  return (tri_layout){unit, plan, place};
}

int64_t tri_layout_padded(const tri_layout *l, int u) {
  int64_t multiple = (int64_t)l->place.local_size * l->place.nodes * PAD_ELEMENTS;

  return (l->unit[u].count + multiple - 1) / multiple * multiple;
}

tri_range tri_layout_share(const tri_layout *l, int u, tri_shard_scope s) {
  const tri_place *at = &l->place;
  int64_t parts = s == TRI_SHARD_NONE ? 1 : at->local_size, index = s == TRI_SHARD_NONE ? 0 : at->local_rank;

  if (s == TRI_SHARD_WORLD) { /* the number of the part is local_rank * nodes + node (comm.h says why) */
    parts *= at->nodes;
    index = index * at->nodes + at->node;
  }
  return (tri_range){tri_layout_padded(l, u) / parts * index, tri_layout_padded(l, u) / parts};
}

int64_t tri_layout_at(const tri_layout *l, int u, tri_shard_scope s, int64_t element) {
  tri_range r = tri_layout_share(l, u, s);

  TRI_ASSERT(element >= r.begin && element <= r.begin + r.count);
  return element - r.begin;
}

tri_range tri_layout_piece(const tri_layout *l, int u, int i, tri_shard_scope s) {
  const tri_param_spec *f = &l->unit[u].param[i];
  tri_range whole = {f->offset, tri_param_count(f)}, r = tri_range_meet(whole, tri_layout_share(l, u, s));

  r.begin = r.count ? r.begin - f->offset : 0;
  return r;
}
