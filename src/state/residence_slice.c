/* residence_slice.c - a part of each unit, which a rank holds while several ranks generate as one model. It
 * has rows of the matrices, and the other params whole.
 *
 * In a unit with cut params (layout.h) a rank's share of a matrix is a part of its slice. The ranks of
 * TRI_MATES have the other parts and gather them. If shares are divided between nodes too, the ranks of
 * TRI_CROSS gather theirs first. If the share is the whole slice, it is held where it lies. If the ranks do
 * not divide the matrices evenly, the whole unit is gathered, and its rows are copied and packed before the
 * next one. So are adapters, which are small. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "residence.h"

typedef tri_param_slot slot;
typedef tri_param_unit unit;

enum { ALIGN_ELEMENTS = 64 }; /* as tri_unit_layout */

/* Returns the elements of the unit's cut params, or 0 if it has none. The rest follows them. */
static int64_t cut_of(const tri_params *p, int index) {
  return p->layout.fields ? p->opt.unit[index].n_cut : 0;
}

static bool is_cut(const tri_params *p, int index, int i) {
  return p->layout.fields && p->opt.unit[index].param[i].cut;
}

static bool is_whole(const tri_params *p, int index, int i) {
  return p->opt.slice[index].param[i].dim[0] == p->opt.unit[index].param[i].dim[0];
}

/* True if this rank's share of a cut param is its slice. */
static bool is_share(const tri_params *p) {
  const tri_place *at = &p->opt.place;

  return at->tensor == at->local_size && (p->layout.plan.params == TRI_SHARD_NODE || at->nodes == 1) &&
         p->residence->memory == TRI_MEM_DEVICE;
}

/* True if the unit, except its cut params, is gathered into held.flat. Otherwise it is in p->transit, or the
 * store always has it. */
static bool is_direct(const tri_params *p, int index) {
  bool all = true;

  for (int i = 0; i < p->opt.unit[index].n_param; i++) all = all && is_whole(p, index, i);
  return p->residence->in_slots && (cut_of(p, index) || all);
}

/* Returns this rank's rows of param i, in the place where hold brings them. */
static tri_tensor rows_of(const tri_params *p, int index, int i) {
  const unit    *whole = &p->unit[index], *u = &p->slice[index];
  tri_param_spec at = whole->spec->param[i], mine = u->spec->param[i];
  int64_t        begin = tri_scope_find(TRI_TENSOR, &p->opt.place).rank * mine.dim[0];
  bool           cut = is_cut(p, index, i), direct = is_direct(p, index);
  void          *flat = whole->whole ? whole->whole : direct ? u->held.flat : p->transit.flat;
  tri_tensor     t;

  if (cut) {
    mine.offset = u->kept[i] >= 0 ? u->kept[i]
                                  : at.offset / (is_share(p) ? p->opt.place.local_size : p->opt.place.tensor);
    flat = is_share(p) ? whole->weight : u->kept[i] >= 0 ? u->held.flat : p->transit.flat;
    return tri_param_view(&mine, flat, p->opt.dtype);
  }
  if (direct) at.offset -= cut_of(p, index);
  t = tri_param_view(&at, flat, p->opt.dtype);
  if (begin > at.dim[0] - mine.dim[0]) begin = at.dim[0] - mine.dim[0]; /* the last rank has the last rows */
  return tri_rows(&t, begin, mine.dim[0]);
}

/* Returns param i of a held slice. Its data is NULL if only a packed form has it. */
static tri_tensor slice_view(const tri_params *p, int index, int i) {
  const unit *u = &p->slice[index];
  tri_tensor  t = rows_of(p, index, i);

  if (u->kept[i] >= 0)
    t.data = (char *)u->held.flat + (size_t)u->kept[i] * tri_params_weight_bytes(p);
  else if (is_cut(p, index, i) ? !is_share(p) : !is_whole(p, index, i))
    t.data = NULL;
  return t;
}

/* True if param i needs memory of its own. A matrix with a packed form does not, unless the param is read
 * otherwise too. Nor does a whole param that the store always has, nor a share. */
static bool is_kept(const tri_params *p, int index, int i) {
  const unit *u = &p->slice[index];
  bool        is_matrix = false, is_packed = true;

  for (int j = 0; j < u->spec->n_linear; j++) {
    const tri_linear_use *l = &u->spec->linear[j];
    if (i < l->first || i >= l->first + l->n || l->rows) continue;
    is_matrix = true;
    is_packed = is_packed && u->packed_bytes[0][j];
  }
  if (is_cut(p, index, i)) return !is_packed && !is_share(p);
  return is_whole(p, index, i) ? p->residence->in_slots : !(is_matrix && is_packed);
}

static tri_status open_slice(tri_params *p, int index) {
  unit *u = &p->slice[index];

  u->spec = &p->opt.slice[index];
  TRI_ASSERT(u->spec->n_param == p->opt.unit[index].n_param &&
             u->spec->n_linear == p->opt.unit[index].n_linear);
  TRI_TRY(tri_params_open_views(p, u));
  TRI_TRY(TRI_ALLOC(u->kept, u->spec->n_param + 1));
  for (int j = 0; j < u->spec->n_linear; j++) {
    const tri_linear_use *l = &u->spec->linear[j];
    size_t                bytes = 0;
    TRI_ASSERT(!l->rows || l->n == 1);
    if (!u->packed_bytes[0][j] || l->n == 1 || l->blocks.n_out || is_cut(p, index, l->first)) continue;
    for (int i = l->first; i < l->first + l->n; i++)
      bytes += (size_t)tri_param_count(&u->spec->param[i]) * tri_params_weight_bytes(p);
    if (bytes > p->matrix_bytes) p->matrix_bytes = bytes;
  }
  return TRI_OK;
}

/* Plans the slice of a unit. Joined params lie one behind the other, as the product needs them. Elements in
 * p->transit that it needs raise *transit. */
static tri_status plan_slice(tri_params *p, tri_ledger *l, int index, int64_t *transit) {
  unit   *u = &p->slice[index];
  bool    direct = is_direct(p, index);
  int64_t cut = cut_of(p, index), rest = tri_params_padded(p, &p->unit[index]) - cut, end = direct ? rest : 0,
          passing = direct ? 0 : rest;
  tri_status st;

  for (int i = 0; i < u->spec->n_param; i++) {
    const tri_param_spec *f = &u->spec->param[i];
    u->kept[i] = -1;
    if (is_cut(p, index, i) && !is_share(p) && !is_kept(p, index, i)) passing = cut / p->opt.place.tensor;
    if (!is_kept(p, index, i)) continue;
    if (direct && is_whole(p, index, i)) {
      u->kept[i] = p->opt.unit[index].param[i].offset - cut;
      continue;
    }
    if (!f->joined) end = (end + ALIGN_ELEMENTS - 1) / ALIGN_ELEMENTS * ALIGN_ELEMENTS;
    u->kept[i] = end;
    end += tri_param_count(f);
  }
  if (passing > *transit) *transit = passing;
  u->held.unit = index;
  tri_ledger_set_gathered(l, true);
  st = tri_params_plan(p, l, TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT, false, "gathered weights",
                       (size_t)end * tri_params_weight_bytes(p), &u->held.flat);
  tri_ledger_set_gathered(l, false);
  if (st != TRI_OK) return st;
  return tri_params_plan(p, l, TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT, false, "packed weights",
                         tri_params_packed_bytes(u, false), &u->held.packed_buffers);
}

static tri_status plan_slots(tri_params *p, tri_ledger *l) {
  int64_t    transit = 0;
  tri_status st;

  TRI_TRY(tri_ring_plan_slots(p, l));
  for (int i = 0; i < p->opt.n_unit; i++) {
    TRI_TRY(open_slice(p, i));
    TRI_TRY(plan_slice(p, l, i, &transit));
  }
  if (!p->residence->in_slots) return TRI_OK;
  tri_ledger_set_gathered(l, true);
  st = tri_params_plan(p, l, TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT, false, "gathered weights",
                       (size_t)transit * tri_params_weight_bytes(p), &p->transit.flat);
  tri_ledger_set_gathered(l, false);
  return st;
}

static tri_status copy(tri_params *p, void *to, const tri_tensor *from, tri_stream *s) {
  return p->device->ops->copy(s, to, from->data, (size_t)tri_tensor_count(from) * tri_params_weight_bytes(p));
}

/* Makes *w this rank's matrix of linear[j]. Cut params lie one behind the other, and others are copied to
 * p->matrix. */
static tri_status make_matrix(tri_params *p, int index, const tri_linear_use *l, tri_stream *s,
                              tri_tensor *w) {
  bool       cut = is_cut(p, index, l->first);
  tri_tensor x[TRI_MOST_BLOCKS];
  int64_t    rows = 0;

  for (int i = 0; i < l->n; i++) x[i] = rows_of(p, index, l->first + i);
  *w = l->rows ? tri_rows(&x[0], l->row, l->rows) : x[0];
  if (l->blocks.n_out) return tri_params_put_blocks(p, &l->blocks, x, l->n, s, w);
  if (l->n == 1) return TRI_OK;
  if (!cut) w->data = p->matrix;
  for (int i = 0; i < l->n; i++, rows = w->dim[0]) {
    tri_tensor to;
    w->dim[0] = rows + x[i].dim[0];
    to = tri_rows(w, rows, x[i].dim[0]);
    if (!cut) TRI_TRY(copy(p, to.data, &x[i], s));
  }
  return TRI_OK;
}

/* Copies and packs this rank's part of the unit. */
static tri_status take(tri_params *p, int index, tri_stream *s) {
  unit *u = &p->slice[index];

  for (int i = 0; i < u->spec->n_param; i++) {
    tri_tensor from = rows_of(p, index, i);
    u->view[i] = slice_view(p, index, i);
    if (u->kept[i] >= 0 && u->view[i].data != from.data) TRI_TRY(copy(p, u->view[i].data, &from, s));
  }
  for (int j = 0; j < u->spec->n_linear; j++) {
    const tri_linear_use *l = &u->spec->linear[j];
    void                 *to = tri_params_packed_at(u, &u->held, 0, j);
    tri_linear_bytes      b;
    tri_tensor            w;
    if (!to) continue;
    TRI_TRY(make_matrix(p, index, l, s, &w));
    TRI_TRY(tri_params_kernels(p)->linear_size(l->linear, &b));
    TRI_TRY(b.fwd ? tri_params_kernels(p)->linear_pack(s, l->linear, to, NULL, &w, 0, 1)
                  : copy(p, to, &w, s));
  }
  u->held.have[0] = true;
  return TRI_OK;
}

/* Copies this rank's share of field f to its place in `to`, which begins with flat element `begin`. Returns
 * in *span the gather of the field there. */
static tri_status place_share(tri_params *p, int index, int f, char *to, int64_t begin, tri_stream *s,
                              tri_comm_span *span) {
  tri_range r = tri_params_share(p, &p->unit[index], f, p->layout.plan.params);
  size_t    each = tri_params_weight_bytes(p);

  *span = (tri_comm_span){to, to + (size_t)(r.begin - begin) * each, r.count};
  return p->device->ops->copy(s, to + (size_t)(r.begin - begin) * each,
                              tri_params_weight_at(p, &p->unit[index], r.begin), (size_t)r.count * each);
}

/* Collective over the parameter scope. Gathers the cut params of a unit to this rank's slices. */
static tri_status gather_slices(tri_params *p, int index, tri_stream *s) {
  tri_comm     *cross = tri_params_comm_between(p, TRI_SHARD_NODE, p->layout.plan.params);
  tri_comm_span part[TRI_MOST_FIELDS], slice[TRI_MOST_FIELDS];
  int           f = 0;

  for (int i = 0; i < p->opt.unit[index].n_param; i++) {
    tri_range near;
    char     *to = rows_of(p, index, i).data;
    if (!is_cut(p, index, i)) continue;
    near = tri_params_share(p, &p->unit[index], f, TRI_SHARD_NODE);
    slice[f] = (tri_comm_span){to, NULL, near.count};
    slice[f].send = to += (size_t)(p->comm[TRI_MATES]->rank * near.count) * tri_params_weight_bytes(p);
    TRI_TRY(place_share(p, index, f, to, near.begin, s, &part[f]));
    f++;
  }
  tri_params_carry(p, &p->unit[index], "weights");
  if (cross) TRI_TRY(tri_all_gather_v(cross, part, f, p->opt.dtype, s, NULL));
  tri_params_carry(p, &p->unit[index], "weights");
  return tri_all_gather_v(p->comm[TRI_MATES], slice, f, p->opt.dtype, s, NULL);
}

/* Collective over the parameter scope. Brings this rank's part of a unit to where rows_of says. */
static tri_status bring(tri_params *p, int index, tri_stream *s) {
  slot         *sl = is_direct(p, index) ? &p->slice[index].held : &p->transit;
  int64_t       cut = cut_of(p, index);
  tri_comm_span rest;

  if (!cut) {
    sl->unit = index;
    TRI_TRY(p->residence->start(p, &p->unit[index], sl, s));
    return tri_slot_arrive(p, sl, s);
  }
  if (!is_share(p)) TRI_TRY(gather_slices(p, index, s));
  TRI_TRY(place_share(p, index, tri_layout_fields(&p->layout, index) - 1, sl->flat, cut, s, &rest));
  tri_params_carry(p, &p->unit[index], "weights");
  return tri_all_gather_v(tri_params_comm(p, p->layout.plan.params), &rest, 1, p->opt.dtype, s, NULL);
}

/* After an error of its own a rank goes on with the gathers and the barrier, because the others wait
 * there. */
static tri_status hold(tri_params *p, bool hold, tri_stream *s) {
  tri_status st = TRI_OK, end;

  if (p->held == hold) return TRI_OK;
  TRI_TRY(tri_params_forget_all(p, s));
  p->held = hold;
  for (int i = 0; hold && i < p->opt.n_unit; i++) {
    TRI_TRY(bring(p, i, s));
    if (st == TRI_OK) st = take(p, i, s);
  }
  end = tri_shared_barrier(p);
  return st == TRI_OK ? end : st;
}

static tri_status acquire(tri_params *p, int index, int use, tri_stream *s, slot **out) {
  *out = &p->slice[index].held;
  TRI_ASSERT(!p->held || !(use & TRI_USE_BWD));
  return p->held ? TRI_OK : tri_ring_acquire(p, index, use, s, out);
}

static tri_status release(tri_params *p, int index, tri_stream *s) {
  if (!p->held) return tri_ring_release(p, index, s);
  p->slice[index].held.busy = false;
  return TRI_OK;
}

tri_status tri_slices_open(tri_params *p) {
  TRI_ASSERT(p->residence != &tri_residence_whole && p->opt.rollout);
  TRI_TRY(TRI_ALLOC(p->with_slices, 1));
  *p->with_slices = *p->residence;
  p->with_slices->plan_slots = plan_slots;
  p->with_slices->hold = hold;
  p->with_slices->acquire = acquire;
  p->with_slices->release = release;
  p->residence = p->with_slices;
  return TRI_ALLOC(p->slice, p->opt.n_unit);
}

void tri_slices_close(tri_params *p) {
  for (int i = 0; p->slice && i < p->opt.n_unit; i++) {
    tri_params_close_views(&p->slice[i]);
    TRI_FREE(p->slice[i].kept);
  }
  TRI_FREE(p->slice);
  TRI_FREE(p->with_slices);
}
