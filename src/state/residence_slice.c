/* residence_slice.c - a part of each unit, which a rank holds while several ranks generate as one model. It
 * has rows of the matrices, and the other params whole. A unit is gathered, its rows are copied and packed,
 * and the next unit is gathered in its place. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "residence.h"

typedef tri_param_slot slot;
typedef tri_param_unit unit;

enum { ALIGN_ELEMENTS = 64 }; /* as tri_unit_layout */

/* Returns this rank's rows of param i in the gathered unit `flat`. The last rank has the last rows. */
static tri_tensor piece(const tri_params *p, int index, int i, void *flat) {
  const tri_param_spec *mine = &p->slice[index].spec->param[i];
  tri_tensor            t = tri_param_view(&p->unit[index].spec->param[i], flat, p->opt.dtype);
  int64_t               which = tri_scope_find(TRI_TENSOR, &p->opt.place).rank;

  int64_t begin = which * mine->dim[0], last = t.dim[0] - mine->dim[0];

  return tri_rows(&t, begin < last ? begin : last, mine->dim[0]);
}

/* Returns param i of a held slice. Its data is NULL if only a packed form has it. */
static tri_tensor slice_view(const tri_params *p, const unit *u, int i) {
  const unit    *whole = &p->unit[u - p->slice];
  tri_param_spec at = u->spec->param[i];
  tri_tensor     none;

  at.offset = u->kept[i];
  if (at.offset >= 0) return tri_param_view(&at, u->held.flat, p->opt.dtype);
  if (whole->whole && at.dim[0] == whole->spec->param[i].dim[0])
    return tri_param_view(&whole->spec->param[i], whole->whole, p->opt.dtype);
  none = (tri_tensor){NULL, p->opt.dtype, at.ndim, {1, 1, 1, 1}};
  for (int k = 0; k < at.ndim; k++) none.dim[k] = at.dim[k];
  return none;
}

/* True if param i needs memory of its own. A matrix with a packed form does not, unless the param is read
 * otherwise too. Nor does a whole param that the store always has. */
static bool is_kept(const tri_params *p, int index, int i) {
  const unit *u = &p->slice[index];
  bool        is_matrix = false, is_packed = true, is_whole;

  is_whole = u->spec->param[i].dim[0] == p->unit[index].spec->param[i].dim[0];
  for (int j = 0; j < u->spec->n_linear; j++) {
    const tri_linear_use *l = &u->spec->linear[j];
    if (i < l->first || i >= l->first + l->n || l->rows) continue;
    is_matrix = true;
    is_packed = is_packed && u->packed_bytes[0][j];
  }
  return is_whole ? p->residence->in_slots : !(is_matrix && is_packed);
}

/* Returns the elements of linear[j]'s matrix. */
static int64_t matrix_elements(const unit *u, int j) {
  const tri_linear_use *l = &u->spec->linear[j];
  int64_t               rows = l->rows;

  if (l->blocks.n_out) return l->blocks.n_out * l->blocks.n_in;
  for (int i = 0; i < l->n && !l->rows; i++) rows += u->spec->param[l->first + i].dim[0];
  return rows * u->spec->param[l->first].dim[1];
}

static tri_status open_slice(tri_params *p, int index) {
  unit *u = &p->slice[index];

  u->spec = &p->opt.slice[index];
  TRI_ASSERT(u->spec->n_param == p->opt.unit[index].n_param &&
             u->spec->n_linear == p->opt.unit[index].n_linear);
  TRI_TRY(tri_params_open_views(p, u));
  TRI_TRY(TRI_ALLOC(u->kept, u->spec->n_param + 1));
  for (int j = 0; j < u->spec->n_linear; j++) {
    size_t bytes = (size_t)matrix_elements(u, j) * tri_params_weight_bytes(p);
    if (u->packed_bytes[0][j] && u->spec->linear[j].n > 1 && bytes > p->matrix_bytes) p->matrix_bytes = bytes;
  }
  return TRI_OK;
}

/* Plans the slice of a unit. Joined params lie one behind the other, as the product needs them. */
static tri_status plan_slice(tri_params *p, tri_ledger *l, int index) {
  unit   *u = &p->slice[index];
  int64_t end = 0;

  for (int i = 0; i < u->spec->n_param; i++) {
    const tri_param_spec *f = &u->spec->param[i];
    u->kept[i] = -1;
    if (!is_kept(p, index, i)) continue;
    if (!f->joined) end = (end + ALIGN_ELEMENTS - 1) / ALIGN_ELEMENTS * ALIGN_ELEMENTS;
    u->kept[i] = end;
    end += tri_param_count(f);
  }
  u->held.unit = index;
  TRI_TRY(tri_params_plan(p, l, TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT, false, "gathered weights",
                          (size_t)end * tri_params_weight_bytes(p), &u->held.flat));
  return tri_params_plan(p, l, TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT, false, "packed weights",
                         tri_params_packed_bytes(u, false), &u->held.packed_buffers);
}

static tri_status plan_slots(tri_params *p, tri_ledger *l) {
  int64_t    most = 0;
  tri_status st;

  TRI_TRY(tri_ring_plan_slots(p, l));
  for (int i = 0; i < p->opt.n_unit; i++) {
    int64_t padded = tri_params_padded(p, &p->unit[i]);
    if (padded > most) most = padded;
    TRI_TRY(open_slice(p, i));
    TRI_TRY(plan_slice(p, l, i));
  }
  p->transit.unit = -1;
  if (!p->residence->in_slots) return TRI_OK;
  tri_ledger_set_gathered(l, true);
  st = tri_params_plan(p, l, TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT, false, "gathered weights",
                       (size_t)most * tri_params_weight_bytes(p), &p->transit.flat);
  tri_ledger_set_gathered(l, false);
  return st;
}

static tri_status copy(tri_params *p, void *to, const tri_tensor *from, tri_stream *s) {
  return p->device->ops->copy(s, to, from->data, (size_t)tri_tensor_count(from) * tri_params_weight_bytes(p));
}

/* Makes *w this rank's matrix of linear[j], in the gathered unit or in p->matrix. */
static tri_status make_matrix(tri_params *p, int index, const tri_linear_use *l, void *flat, tri_stream *s,
                              tri_tensor *w) {
  tri_tensor x[TRI_MOST_BLOCKS];
  int64_t    rows = 0;

  for (int i = 0; i < l->n; i++) x[i] = piece(p, index, l->first + i, flat);
  *w = l->rows ? tri_rows(&x[0], l->row, l->rows) : x[0];
  if (l->blocks.n_out) return tri_params_put_blocks(p, &l->blocks, x, l->n, s, w);
  if (l->n == 1) return TRI_OK;
  w->data = p->matrix;
  for (int i = 0; i < l->n; i++, rows = w->dim[0]) {
    tri_tensor to;
    w->dim[0] = rows + x[i].dim[0];
    to = tri_rows(w, rows, x[i].dim[0]);
    TRI_TRY(copy(p, to.data, &x[i], s));
  }
  return TRI_OK;
}

/* Copies and packs this rank's part of the gathered unit. */
static tri_status take(tri_params *p, int index, void *flat, tri_stream *s) {
  unit *u = &p->slice[index];

  for (int i = 0; i < u->spec->n_param; i++) {
    tri_tensor from = piece(p, index, i, flat);
    u->view[i] = slice_view(p, u, i);
    if (u->kept[i] >= 0) TRI_TRY(copy(p, u->view[i].data, &from, s));
  }
  for (int j = 0; j < u->spec->n_linear; j++) {
    const tri_linear_use *l = &u->spec->linear[j];
    void                 *to = tri_params_packed_at(u, &u->held, 0, j);
    tri_linear_bytes      b;
    tri_tensor            w;
    if (!to) continue;
    TRI_TRY(make_matrix(p, index, l, flat, s, &w));
    TRI_TRY(tri_params_kernels(p)->linear_size(l->linear, &b));
    TRI_TRY(b.fwd ? tri_params_kernels(p)->linear_pack(s, l->linear, to, NULL, &w, 0, 1)
                  : copy(p, to, &w, s));
  }
  u->held.have[0] = true;
  return TRI_OK;
}

/* After an error of its own a rank goes on with the gathers and the barrier, because the others wait
 * there. */
static tri_status hold(tri_params *p, bool hold, tri_stream *s) {
  slot      *from = &p->transit;
  tri_status st = TRI_OK, end;

  if (p->held == hold) return TRI_OK;
  TRI_TRY(tri_params_forget_all(p, s));
  p->held = hold;
  for (int i = 0; hold && i < p->opt.n_unit; i++) {
    from->unit = i;
    TRI_TRY(p->residence->start(p, &p->unit[i], from, s));
    TRI_TRY(tri_slot_arrive(p, from, s));
    if (st == TRI_OK) st = take(p, i, tri_params_flat(&p->unit[i], from), s);
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
