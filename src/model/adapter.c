/* adapter.c - the low-rank adapters of a model: units, parameter store, and products. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "adapter.h"
#include "base/host_memory.h"
#include "decoder.h"

#include <stdio.h>
#include <string.h>

/* ---- units ---- */

/* Returns whether this tensor of a layer is an adapter target. */
static bool is_target(const tri_model *m, int layer, const tri_param_spec *p) {
  const tri_tensor_row *rows = m->shape.family->tensor;
  char                  name[sizeof p->name];

  for (int i = 0; rows[i].name; i++) {
    if (!tri_lora_has(&m->opt.lora, i)) continue;
    snprintf(name, sizeof name, rows[i].name, layer); /* NOLINT: a family's row */
    if (!strcmp(name, p->name)) return true;
  }
  return false;
}

/* Returns the params of the model's unit behind the product in this slot. */
static const tri_linear_use *use_of(const tri_model *m, int unit, int slot) {
  return &m->unit[unit].linear[m->slots[unit].product[slot]];
}

/* Sets the shapes of a slot's two products. All layers with the slot have the shapes of the first. */
static void measure(tri_model *m, int slot) {
  const int             layer = m->layer_with[slot], unit = tri_unit_of_layer(layer);
  const tri_linear_use *use = use_of(m, unit, slot);
  tri_adapter_slot     *a = &m->adapters.slot[slot];

  for (int i = 0; i < use->n; i++) {
    const tri_param_spec *p = &m->unit[unit].param[use->first + i];
    a->n_out += p->dim[0];
    a->n += is_target(m, layer, p);
  }
  a->width = (int64_t)a->n * m->opt.lora.rank;
}

static void add_param(tri_unit_spec *u, const tri_param_spec *of, char ab, int64_t rows, int64_t cols,
                      bool joined) {
  tri_param_spec *p = &u->param[u->n_param++];

  tri_lora_name(of->name, ab, p->name);
  p->ndim = 2;
  p->dim[0] = rows;
  p->dim[1] = cols;
  p->init = ab == 'A' ? TRI_INIT_UNIFORM : TRI_INIT_ZEROS;
  p->joined = joined;
  p->waits = ab == 'A';
}

/* Adds A of each target of the slot, then B of each target. */
static void add_slot(tri_model *m, int layer, int slot, tri_unit_spec *u) {
  tri_adapter_slot     *a = &m->adapters.slot[slot];
  tri_adapter_place    *at = &m->adapters.place[layer][slot];
  const int             unit = tri_unit_of_layer(layer);
  const tri_linear_use *use = use_of(m, unit, slot);
  tri_blocks            blocks = {a->n_out, a->width, tri_lora_scale(&m->opt.lora), {0}};

  *at = (tri_adapter_place){u->n_param, u->n_param + a->n, u->n_linear};
  u->linear[u->n_linear++] = (tri_linear_use){.first = at->a, .n = a->n, .linear = a->down};
  for (int half = 0; half < 2; half++)
    for (int64_t i = 0, n = 0, row = 0; i < use->n; i++) {
      const tri_param_spec *p = &m->unit[unit].param[use->first + i];
      if (is_target(m, layer, p)) {
        add_param(u, p, "AB"[half], half ? p->dim[0] : m->opt.lora.rank, half ? m->opt.lora.rank : p->dim[1],
                  n > 0);
        blocks.row[n++] = row;
      }
      row += p->dim[0];
    }
  u->linear[u->n_linear++] = (tri_linear_use){.first = at->b, .n = a->n, .linear = a->up, .blocks = blocks};
}

/* Adds the scalar head's matrix. It is trained in full (PEFT's modules_to_save). */
static void add_head(tri_model *m, tri_unit_spec *u) {
  tri_param_spec *p = &u->param[u->n_param++];

  tri_lora_name_full("score.weight", p->name);
  p->ndim = 2;
  p->dim[0] = 1;
  p->dim[1] = m->shape.C;
  p->init = TRI_INIT_SCORE;
  p->added = true;
  u->linear[u->n_linear++] = (tri_linear_use){.first = 0, .n = 1, .linear = m->linear[TRI_SLOT_HEAD]};
}

static tri_status make_units(tri_model *m) {
  tri_adapters *a = &m->adapters;
  bool          scalar = m->opt.head == TRI_HEAD_SCALAR;

  a->n_unit = m->shape.L + scalar;
  TRI_TRY(TRI_ALLOC(a->unit, a->n_unit));
  TRI_TRY(TRI_ALLOC(a->place, a->n_unit));
  for (int i = 0; i < a->n_unit; i++) {
    tri_unit_spec *u = &a->unit[i];
    TRI_TRY(TRI_ALLOC(u->param, 2 * TRI_SLOT_HEAD * TRI_MOST_BLOCKS));
    TRI_TRY(TRI_ALLOC(u->linear, 2 * TRI_SLOT_HEAD));
    u->in_ring = i < m->shape.L;
    snprintf(u->name, sizeof u->name, "%s", m->unit[i + 1].name);
    for (int slot = 0; slot < TRI_SLOT_HEAD; slot++) {
      a->place[i][slot] = (tri_adapter_place){-1, -1, -1};
      if (u->in_ring && a->slot[slot].n && m->slots[tri_unit_of_layer(i)].param[slot] >= 0)
        add_slot(m, i, slot, u);
    }
    if (!u->in_ring) add_head(m, u);
    tri_unit_layout(u);
  }
  return TRI_OK;
}

/* Makes the slices. A rank has its rows of each matrix B, and all of A. */
static tri_status make_slices(tri_model *m) {
  tri_adapters *a = &m->adapters;
  int           t = m->divided.t;

  TRI_TRY(TRI_ALLOC(a->slice, a->n_unit));
  for (int i = 0; i < a->n_unit; i++) {
    tri_unit_spec *u = &a->slice[i];
    TRI_TRY(tri_units_copy(&a->unit[i], u));
    for (int slot = 0; slot < TRI_SLOT_HEAD; slot++) {
      const tri_adapter_slot  *one = &a->slot[slot];
      const tri_adapter_place *at = &a->place[i][slot];
      tri_linear_use          *use = &u->linear[at->product + 1];
      if (at->a < 0) continue;
      for (int k = 0; k < one->n; k++) {
        u->param[at->b + k].dim[0] /= t;
        use->blocks.row[k] /= t;
      }
      use->blocks.n_out /= t;
      use->linear = one->up_part;
    }
    tri_unit_layout(u);
  }
  return TRI_OK;
}

/* ---- memory ---- */

static tri_status open_product(tri_model *m, int64_t n_out, int64_t n_in, const tri_linear *whole,
                               tri_linear **out) {
  tri_linear_spec  spec = {n_out, n_in, m->opt.dtype, m->opt.train && !whole, m->opt.any_order, whole};
  tri_linear_bytes bytes;

  TRI_TRY(m->k->linear_open(m->device, &spec, out));
  TRI_TRY(m->k->linear_size(*out, &bytes));
  if (bytes.workspace > m->workspace_bytes) m->workspace_bytes = bytes.workspace;
  return TRI_OK;
}

static tri_status plan_workspaces(tri_model *m, tri_ledger *l) {
  tri_adapters *a = &m->adapters;
  size_t        each = tri_dtype_bytes(m->opt.dtype), width = 0, wide = 0;
  int64_t       T = m->opt.train ? m->opt.max_learn_tokens : 0;
  char          name[64];

  for (int i = 0; i < TRI_SLOT_HEAD; i++) {
    size_t w = (size_t)a->slot[i].width, n = w * (size_t)a->slot[i].n_out;
    if (w > width) width = w;
    if (n > wide) wide = n;
  }
  snprintf(name, sizeof name, "%s activations", a->label);
  tri_ledger_set_member(l, m->member);
  TRI_TRY(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, false, name,
                         (size_t)m->opt.max_tokens * width * each, &a->t));
  TRI_TRY(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_LEARN, false, name, (size_t)T * width * each, &a->dt));
  TRI_TRY(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_LEARN, false, name,
                         m->opt.train ? wide * sizeof *a->dwide : 0, (void **)&a->dwide));
  tri_ledger_set_member(l, 0);
  return TRI_OK;
}

tri_status tri_adapters_open(tri_model *m, tri_comm *const comm[TRI_SCOPE_COUNT], tri_ledger *ledger) {
  tri_adapters  *a = &m->adapters;
  tri_params_opt po = {.dtype = m->opt.dtype,
                       .plan = m->opt.plan,
                       .place = m->opt.place,
                       .train = m->opt.train,
                       .backward = m->opt.train,
                       .rollout = m->opt.rollout,
                       .ema_beta = m->opt.ema_beta,
                       .offload = m->opt.train ? m->opt.offload : 0,
                       .member = m->member,
                       .label = a->label};

  a->dt_of = -1;
  if (!m->opt.lora.rank) return TRI_OK;
  snprintf(a->label, sizeof a->label, "%s adapters", m->opt.label);
  for (int i = 0; i < TRI_SLOT_HEAD; i++) {
    if (m->layer_with[i] < 0) continue;
    measure(m, i);
    if (!a->slot[i].n) continue;
    tri_adapter_slot *one = &a->slot[i];
    TRI_TRY(open_product(m, one->width, m->spec[i].n_in, NULL, &one->down));
    TRI_TRY(open_product(m, one->n_out, one->width, NULL, &one->up));
    if (m->divided.t > 1)
      TRI_TRY(open_product(m, one->n_out / m->divided.t, one->width, one->up, &one->up_part));
  }
  TRI_TRY(make_units(m));
  if (m->divided.t > 1) TRI_TRY(make_slices(m));
  po.slice = a->slice;
  po.unit = a->unit;
  po.n_unit = a->n_unit;
  TRI_TRY(tri_params_open(m->device, comm, ledger, &po, &a->params));
  return plan_workspaces(m, ledger);
}

void tri_adapters_close(tri_adapters *a, const tri_kernels *k) {
  tri_params_close(&a->params);
  for (int i = 0; i < TRI_SLOT_HEAD; i++) {
    if (a->slot[i].down) (void)k->linear_close(&a->slot[i].down);
    if (a->slot[i].up_part) (void)k->linear_close(&a->slot[i].up_part);
    if (a->slot[i].up) (void)k->linear_close(&a->slot[i].up);
  }
  tri_units_drop(a->unit, a->n_unit);
  tri_units_drop(a->slice, a->n_unit);
  TRI_FREE(a->unit);
  TRI_FREE(a->slice);
  TRI_FREE(a->place);
}

tri_status tri_adapters_start(tri_model *m) {
  for (int i = 0; i < TRI_SLOT_HEAD; i++) {
    tri_adapter_slot *a = &m->adapters.slot[i];
    if (!a->n) continue;
    TRI_TRY(m->k->linear_bind(a->down, m->workspace, m->workspace_bytes));
    TRI_TRY(m->k->linear_bind(a->up, m->workspace, m->workspace_bytes));
    if (a->up_part) TRI_TRY(m->k->linear_bind(a->up_part, m->workspace, m->workspace_bytes));
  }
  return TRI_OK;
}

/* Returns the adapters' unit for a unit of the model, or -1 if it has none. */
static int unit_of(const tri_model *m, int unit) {
  const tri_adapters *a = &m->adapters;

  return a->params && !a->off && unit >= 1 && unit <= a->n_unit ? unit - 1 : -1;
}

/* Returns the place of the slot's adapters in the call's unit, which must be acquired. */
static const tri_adapter_place *place_of(const tri_model *m, const tri_block_call *c, tri_slot slot) {
  return &m->adapters.place[unit_of(m, c->unit)][slot];
}

tri_status tri_adapters_check(tri_model *m, const tri_block_call *c, tri_stream *s) {
  for (int i = 0; i < TRI_SLOT_HEAD && c->a.t; i++) {
    const tri_adapter_slot  *a = &m->adapters.slot[i];
    const tri_adapter_place *at = place_of(m, c, (tri_slot)i);
    if (at->a < 0) continue;
    if (!tri_is_divided(m, c)) TRI_TRY(m->k->linear_check(s, a->down, c->a.packed_fwd[at->product]));
    TRI_TRY(
        m->k->linear_check(s, tri_is_divided(m, c) ? a->up_part : a->up, c->a.packed_fwd[at->product + 1]));
  }
  return TRI_OK;
}

/* ---- a unit ---- */

tri_status tri_adapter_acquire(tri_model *m, tri_block_call *c, int use, int next, tri_stream *s) {
  int unit = unit_of(m, c->unit);

  c->a = c->da = (tri_weights){0};
  if (unit < 0) return TRI_OK;
  TRI_TRY(tri_params_acquire(m->adapters.params, unit, use, unit_of(m, next), s, &c->a));
  return c->mode == TRI_BLOCK_BACKWARD ? tri_params_grad(m->adapters.params, unit, s, &c->da) : TRI_OK;
}

tri_status tri_adapter_release(tri_model *m, const tri_block_call *c, tri_stream *s) {
  int unit = unit_of(m, c->unit);

  return unit < 0 ? TRI_OK : tri_params_release(m->adapters.params, unit, s);
}

tri_status tri_adapter_learned(tri_model *m, const tri_block_call *c, bool last, tri_stream *s) {
  int unit = unit_of(m, c->unit);

  return unit < 0 ? TRI_OK : tri_params_grad_done(m->adapters.params, unit, s, last);
}

/* ---- products ---- */

/* Returns the slot's adapters, or NULL if the call has none for it. */
static const tri_adapter_slot *slot_of(const tri_model *m, const tri_block_call *c, tri_slot slot) {
  if (!c->a.t || slot >= TRI_SLOT_HEAD || place_of(m, c, slot)->a < 0) return NULL;
  return &m->adapters.slot[slot];
}

/* Computes t A [N,width] = x A^T. */
static tri_status down(tri_model *m, const tri_block_call *c, const tri_adapter_slot *a, int product,
                       tri_in x, tri_out t, tri_stream *s) {
  *t = tri_rows_act(m, m->adapters.t, x->dim[0], a->width);
  return m->k->linear_fwd(s, a->down, c->a.packed_fwd[product], t, x, NULL, NULL);
}

tri_status tri_adapter_fwd(tri_model *m, const tri_block_call *c, tri_slot slot, tri_out y, tri_in x,
                           tri_stream *s) {
  const tri_adapter_slot *a = slot_of(m, c, slot);
  int                     product;
  tri_tensor              t;

  if (!a) return TRI_OK;
  product = place_of(m, c, slot)->product;
  TRI_TRY(down(m, c, a, product, x, &t, s));
  return m->k->linear_fwd(s, tri_is_divided(m, c) ? a->up_part : a->up, c->a.packed_fwd[product + 1], y, &t,
                          NULL, y);
}

/* dt A [N,width] = dy times the blocks of B. The first of a pair of calls computes it and both use it. */
static tri_status grad_of_t(tri_model *m, const tri_block_call *c, tri_slot slot, tri_in dy, tri_out dt,
                            tri_stream *s) {
  const tri_adapter_slot *a = &m->adapters.slot[slot];
  bool                    there = m->adapters.dt_of == (int)slot;
  int                     product = place_of(m, c, slot)->product;

  *dt = tri_rows_act(m, m->adapters.dt, dy->dim[0], a->width);
  m->adapters.dt_of = there ? -1 : (int)slot;
  return there ? TRI_OK : m->k->linear_bwd_x(s, a->up, c->a.packed_bwd[product + 1], dt, dy, false);
}

tri_status tri_adapter_bwd_x(tri_model *m, const tri_block_call *c, tri_slot slot, tri_out dx, tri_in dy,
                             tri_stream *s) {
  const tri_adapter_slot *a = slot_of(m, c, slot);
  tri_tensor              dt;

  if (!a) return TRI_OK;
  TRI_TRY(grad_of_t(m, c, slot, dy, &dt, s));
  return m->k->linear_bwd_x(s, a->down, c->a.packed_bwd[place_of(m, c, slot)->product], dx, &dt, true);
}

/* Takes dB of each target from the gradient of the matrix of blocks. */
static tri_status take_blocks(tri_model *m, const tri_block_call *c, tri_slot slot, tri_in dwide,
                              tri_stream *s) {
  const tri_adapter_place *at = place_of(m, c, slot);
  const tri_blocks        *b = &m->adapters.unit[unit_of(m, c->unit)].linear[at->product + 1].blocks;

  for (int i = 0; i < m->adapters.slot[slot].n; i++) {
    tri_tensor db = c->da.t[at->b + i], rows = tri_rows(dwide, b->row[i], db.dim[0]);
    TRI_TRY(m->k->cols_get(s, &db, &rows, i * db.dim[1], b->scale, !c->da.fresh));
  }
  return TRI_OK;
}

tri_status tri_adapter_bwd_w(tri_model *m, const tri_block_call *c, tri_slot slot, tri_in dy, tri_in x,
                             tri_stream *s) {
  const tri_adapter_slot  *a = slot_of(m, c, slot);
  const tri_adapter_place *at;
  tri_tensor               t, dt, dwide, da;

  if (!a) return TRI_OK;
  at = place_of(m, c, slot);
  TRI_TRY(down(m, c, a, at->product, x, &t, s));
  dwide = tri_view2(m->adapters.dwide, TRI_F32, a->n_out, a->width);
  TRI_TRY(m->k->linear_bwd_w(s, a->up, &dwide, dy, &t, false));
  TRI_TRY(take_blocks(m, c, slot, &dwide, s));
  TRI_TRY(grad_of_t(m, c, slot, dy, &dt, s));
  da = tri_view2(c->da.t[at->a].data, TRI_F32, a->width, x->dim[1]);
  return m->k->linear_bwd_w(s, a->down, &da, &dt, x, !c->da.fresh);
}
