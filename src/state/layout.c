/* layout.c - pure arithmetic of the places of a unit's params, and of each rank's share. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "layout.h"

enum { PAD_ELEMENTS = 64 }; /* chosen. Every share starts on a 256-byte boundary in f32, 128 in bf16 */

int64_t tri_param_count(const tri_param_spec *s) {
  int64_t n = 1;

  for (int i = 0; i < s->ndim; i++) n *= s->dim[i];
  return n;
}

static int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

/* Places the params that are cut, or the others, from element `at` on. Returns their end. */
static int64_t place_params(tri_unit_spec *u, bool cut, int64_t multiple, int64_t at) {
  for (tri_param_spec *f = u->param; f < u->param + u->n_param; f++) {
    if (f->cut != cut) continue;
    f->offset = f->joined ? at : round_up(at, multiple);
    at = f->offset + tri_param_count(f);
  }
  return at;
}

void tri_unit_layout(tri_unit_spec *u) { u->count = place_params(u, false, PAD_ELEMENTS, 0); }

void tri_unit_cut(tri_unit_spec *u, const tri_unit_spec *slice, const tri_place *at) {
  int64_t parts = (int64_t)at->local_size * at->nodes;
  bool    divides = true;

  for (int i = 0; i < u->n_param; i++) {
    tri_param_spec *f = &u->param[i];
    f->cut = f->ndim == 2 && slice->param[i].dim[0] < f->dim[0];
    if (f->cut)
      divides =
          divides && slice->param[i].dim[0] * at->tensor == f->dim[0] && tri_param_count(f) % parts == 0;
  }
  for (int i = 0; i < u->n_param; i++) u->param[i].cut = u->param[i].cut && divides;
  u->n_cut = round_up(place_params(u, true, parts * PAD_ELEMENTS, 0), parts * PAD_ELEMENTS);
  u->count = place_params(u, false, PAD_ELEMENTS, u->n_cut);
}

tri_layout tri_layout_make(const tri_unit_spec *unit, tri_shard_plan plan, tri_place place, bool train) {
  if (!train) plan.grads = plan.optim = plan.params;
  return (tri_layout){unit, plan, place, false};
}

/* Returns the elements of the fields of cut params. */
static int64_t cut_elements(const tri_layout *l, int u) { return l->fields ? l->unit[u].n_cut : 0; }

int64_t tri_layout_padded(const tri_layout *l, int u) {
  int64_t multiple = (int64_t)l->place.local_size * l->place.nodes * PAD_ELEMENTS, cut = cut_elements(l, u);

  return cut + round_up(l->unit[u].count - cut, multiple);
}

int tri_layout_fields(const tri_layout *l, int u) {
  int n = 1;

  for (int i = 0; i < l->unit[u].n_param; i++) n += l->fields && l->unit[u].param[i].cut;
  return n;
}

/* Returns all elements of a field. */
static tri_range field(const tri_layout *l, int u, int f) {
  int64_t cut = cut_elements(l, u);

  for (const tri_param_spec *p = l->unit[u].param; cut && p < l->unit[u].param + l->unit[u].n_param; p++)
    if (p->cut && f-- == 0) return (tri_range){p->offset, tri_param_count(p)};
  return (tri_range){cut, tri_layout_padded(l, u) - cut};
}

/* Returns the number of the field with this element. */
static int field_at(const tri_layout *l, int u, int64_t element) {
  int f = 0, last = tri_layout_fields(l, u) - 1;

  while (f < last && element >= field(l, u, f).begin + field(l, u, f).count) f++;
  return f;
}

/* Returns the number of equal parts in scope s. */
static int64_t parts_of(const tri_layout *l, tri_shard_scope s) {
  int64_t local = l->place.local_size;

  return s == TRI_SHARD_NONE ? 1 : s == TRI_SHARD_NODE ? local : local * l->place.nodes;
}

int64_t tri_layout_count(const tri_layout *l, int u, tri_shard_scope s) {
  return tri_layout_padded(l, u) / parts_of(l, s);
}

tri_range tri_layout_share(const tri_layout *l, int u, int f, tri_shard_scope s) {
  const tri_place *at = &l->place;
  tri_range        r = field(l, u, f);

  r.count /= parts_of(l, s);
  if (s == TRI_SHARD_NODE) r.begin += r.count * at->local_rank;
  if (s == TRI_SHARD_WORLD)
    r.begin += r.count * (at->local_rank * at->nodes + at->node); /* comm.h says why */
  return r;
}

int64_t tri_layout_at(const tri_layout *l, int u, tri_shard_scope s, int64_t element) {
  int       f = field_at(l, u, element);
  tri_range r = tri_layout_share(l, u, f, s);

  TRI_ASSERT(element >= r.begin && element <= r.begin + r.count);
  return field(l, u, f).begin / parts_of(l, s) + element - r.begin;
}

tri_range tri_layout_piece(const tri_layout *l, int u, int i, tri_shard_scope s) {
  const tri_param_spec *f = &l->unit[u].param[i];
  tri_range             whole = {f->offset, tri_param_count(f)},
            r = tri_range_meet(whole, tri_layout_share(l, u, field_at(l, u, f->offset), s));

  r.begin = r.count ? r.begin - f->offset : 0;
  return r;
}
