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
  u->cut = round_up(place_params(u, true, parts * PAD_ELEMENTS, 0), parts * PAD_ELEMENTS);
  u->count = place_params(u, false, PAD_ELEMENTS, u->cut);
}

tri_layout tri_layout_make(const tri_unit_spec *unit, tri_shard_plan plan, tri_place place, bool train) {
  if (!train) plan.grads = plan.optim = plan.params;
  return (tri_layout){unit, plan, place, false};
}

/* Returns the elements of the fields of cut params. */
static int64_t cut_elements(const tri_layout *l, int u) { return l->fields ? l->unit[u].cut : 0; }

int64_t tri_layout_padded(const tri_layout *l, int u) {
  int64_t multiple = (int64_t)l->place.local_size * l->place.nodes * PAD_ELEMENTS, cut = cut_elements(l, u);

  return cut + round_up(l->unit[u].count - cut, multiple);
}

/* Returns the number of the field of param i, or with i = n_param of the last field. */
static int field_of(const tri_layout *l, int u, int i) {
  int  f = 0;
  bool own = i < l->unit[u].n_param && l->unit[u].param[i].cut;

  if (!l->fields) return 0;
  for (int k = 0; k < (own ? i : l->unit[u].n_param); k++) f += l->unit[u].param[k].cut;
  return f;
}

int tri_layout_fields(const tri_layout *l, int u) { return field_of(l, u, l->unit[u].n_param) + 1; }

/* Returns all elements of a field. */
static tri_range field(const tri_layout *l, int u, int f) {
  int64_t cut = cut_elements(l, u);

  for (int i = 0; i < l->unit[u].n_param && cut; i++)
    if (l->unit[u].param[i].cut && f-- == 0)
      return (tri_range){l->unit[u].param[i].offset, tri_param_count(&l->unit[u].param[i])};
  return (tri_range){cut, tri_layout_padded(l, u) - cut};
}

/* Returns the number of parts in scope s, and the number of this rank's part. */
static int64_t parts_of(const tri_layout *l, tri_shard_scope s, int64_t *index) {
  const tri_place *at = &l->place;

  *index = s == TRI_SHARD_NONE   ? 0
           : s == TRI_SHARD_NODE ? at->local_rank
                                 : (int64_t)at->local_rank * at->nodes + at->node; /* comm.h says why */
  return s == TRI_SHARD_NONE ? 1 : s == TRI_SHARD_NODE ? at->local_size : (int64_t)at->local_size * at->nodes;
}

int64_t tri_layout_count(const tri_layout *l, int u, tri_shard_scope s) {
  int64_t index;

  return tri_layout_padded(l, u) / parts_of(l, s, &index);
}

tri_range tri_layout_share(const tri_layout *l, int u, int f, tri_shard_scope s) {
  int64_t   index, parts = parts_of(l, s, &index);
  tri_range r = field(l, u, f);

  return (tri_range){r.begin + r.count / parts * index, r.count / parts};
}

int64_t tri_layout_at(const tri_layout *l, int u, tri_shard_scope s, int64_t element) {
  int       f = 0, last = tri_layout_fields(l, u) - 1;
  int64_t   index;
  tri_range r;

  while (f < last && element >= field(l, u, f).begin + field(l, u, f).count) f++;
  r = tri_layout_share(l, u, f, s);
  TRI_ASSERT(element >= r.begin && element <= r.begin + r.count);
  return field(l, u, f).begin / parts_of(l, s, &index) + element - r.begin;
}

tri_range tri_layout_piece(const tri_layout *l, int u, int i, tri_shard_scope s) {
  const tri_param_spec *f = &l->unit[u].param[i];
  tri_range             whole = {f->offset, tri_param_count(f)},
            r = tri_range_meet(whole, tri_layout_share(l, u, field_of(l, u, i), s));

  r.begin = r.count ? r.begin - f->offset : 0;
  return r;
}
