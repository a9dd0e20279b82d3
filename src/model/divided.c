/* divided.c - a model that several ranks of a node generate with together, each with rows of its matrices. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "divided.h"

#include "base/divisor.h"
#include "base/host_memory.h"
#include "decoder.h"
#include "product.h"

#include <stdio.h>
#include <string.h>

/* Returns the param's slot if a rank has only a part of its rows, else TRI_SLOT_COUNT. The slot of joined
 * params is that of the first. */
static tri_slot cut_slot(const tri_model *m, int unit, int i) {
  while (m->unit[unit].param[i].joined) i--;
  for (int slot = 0; slot < TRI_SLOT_EMBED; slot++)
    if (m->slots[unit].param[slot] == i)
      return slot == TRI_SLOT_HEAD && m->tied ? TRI_SLOT_COUNT : (tri_slot)slot;
  return TRI_SLOT_COUNT;
}

/* Returns the rows of a rank. Only the vocabulary may not divide evenly. Then the last rank has the last
 * rows, and some of them are the rank's before too. */
static int64_t part_of(const tri_model *m, int64_t n) { return (n + m->divided.t - 1) / m->divided.t; }

static tri_status check(const tri_model *m, int t) {
  const tri_model_shape *s = &m->shape;
  const struct {
    const char *what;
    int64_t     n;
  } whole[] = {{"attention heads", s->H},
               {"key/value heads", s->G},
               {"numbers in its width (hidden_size)", s->C},
               {"numbers in its MLP (intermediate_size)", s->F}};

  const char *name = m->opt.tensor_name ? m->opt.tensor_name : "shard.tensor_parallel_size";
  const char *is = name[0] == '-' ? " " : " = "; /* a flag or a key */

  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
    if (whole[i].n % t)
      TRI_FAIL(
          TRI_ECONFIG,
          "%s%s%d does not divide the model's %lld %s. The sizes that divide this model are the divisors "
          "of %lld",
          name, is, t, (long long)whole[i].n, whole[i].what,
          (long long)tri_common_divisor(tri_common_divisor(s->H, s->G), tri_common_divisor(s->C, s->F)));
  if (tri_recurrent_layers(s) || s->attn_gate)
    TRI_FAIL(TRI_ECONFIG,
             "%s%s%d: a model of type %s cannot be divided, because this version does not divide recurrent "
             "layers and gated attention. Leave the size at 1",
             name, is, t, s->family->model_type);
  if (s->V < (int64_t)t * t) /* the last rank shares less than its rows with the rank before */
    TRI_FAIL(TRI_ECONFIG, "%s%s%d: the model's vocabulary of %d is too small", name, is, t, s->V);
  for (const tri_tensor_row *row = s->family->tensor; row->name; row++)
    if (strchr(row->shape, 'E') || strchr(row->shape, 'U'))
      TRI_FAIL(
          TRI_ECONFIG,
          "%s%s%d: a model of type %s cannot be divided, because it has several matrices in one tensor (%s)",
          name, is, t, s->family->model_type, row->name);
  if (tri_heads_normed(m) == 2)
    TRI_FAIL(TRI_ECONFIG,
             "%s%s%d: a model of type %s cannot be divided, because its norms of q and k read all heads",
             name, is, t, s->family->model_type);
  return TRI_OK;
}

/* Makes the slice of a unit. Of a tied head, whose matrix is the embedding's table, only the product has
 * fewer rows. */
static tri_status make_slice(tri_model *m, int unit) {
  tri_unit_spec *u = &m->divided.slice[unit];

  TRI_TRY(tri_units_copy(&m->unit[unit], u));
  for (int i = 0; i < u->n_param; i++)
    if (cut_slot(m, unit, i) != TRI_SLOT_COUNT) u->param[i].dim[0] = part_of(m, u->param[i].dim[0]);
  for (int slot = 0; slot < TRI_SLOT_PRODUCTS; slot++) {
    tri_linear_use *use;
    if (m->slots[unit].param[slot] < 0) continue;
    use = &u->linear[m->slots[unit].product[slot]];
    use->linear = m->divided.linear[slot];
    if (slot != TRI_SLOT_HEAD || !m->tied) continue;
    use->rows = part_of(m, m->shape.V);
    use->row = use->rows * m->divided.i;
    if (use->row > m->shape.V - use->rows) use->row = m->shape.V - use->rows;
  }
  tri_unit_cut(&m->unit[unit], u, &m->opt.place);
  return TRI_OK;
}

static tri_status open_products(tri_model *m) {
  for (int slot = 0; slot < TRI_SLOT_PRODUCTS; slot++) {
    tri_linear_spec  spec = m->spec[slot];
    tri_linear_bytes bytes;
    if (!m->linear[slot]) continue;
    spec.n_out = part_of(m, spec.n_out);
    spec.backward = false;
    spec.whole = m->linear[slot];
    TRI_TRY(m->k->linear_open(m->device, &spec, &m->divided.linear[slot]));
    TRI_TRY(m->k->linear_size(m->divided.linear[slot], &bytes));
    if (bytes.workspace > m->workspace_bytes) m->workspace_bytes = bytes.workspace;
  }
  return TRI_OK;
}

tri_status tri_divided_open(tri_model *m, tri_comm *const comm[TRI_SCOPE_COUNT]) {
  tri_divided *d = &m->divided;

  *d = (tri_divided){.t = m->opt.rollout ? m->opt.place.tensor : 1, .comm = comm[TRI_TENSOR]};
  if (d->t < 2) d->t = 1;
  if (d->t == 1) return TRI_OK;
  TRI_TRY(check(m, d->t));
  d->i = tri_scope_find(TRI_TENSOR, &m->opt.place).rank;
  for (int k = 0; k < TRI_KINDS; k++) {
    d->attn[k] = m->rules.attn[k];
    d->attn[k].heads.H /= d->t;
    d->attn[k].heads.G /= d->t;
  }
  TRI_TRY(open_products(m));
  TRI_TRY(TRI_ALLOC(d->slice, m->n_unit));
  for (int u = 0; u < m->n_unit; u++) TRI_TRY(make_slice(m, u));
  tri_comm_expect_in_stream(d->comm, TRI_ALL_GATHER);
  return TRI_OK;
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

tri_status tri_divided_plan(tri_model *m, tri_ledger *l) {
  int64_t each = (int64_t)tri_dtype_bytes(m->opt.dtype), width = (int64_t)m->shape.H * m->shape.D, bytes;
  char    name[48];

  if (m->divided.t == 1) return TRI_OK;
  width = larger(larger(width, m->shape.F) * each, 4 * (int64_t)m->shape.C);
  bytes =
      larger(m->opt.max_held_tokens * width, m->head.draw_chunk * part_of(m, m->shape.V) * m->divided.t * 4);
  snprintf(name, sizeof name, "%s columns", m->opt.label);
  TRI_TRY(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT, false, name, (size_t)(bytes / m->divided.t),
                         &m->divided.mine));
  return tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT, false, name, (size_t)bytes, &m->divided.all);
}

void tri_divided_close(tri_model *m) {
  tri_divided *d = &m->divided;

  for (int slot = 0; slot < TRI_SLOT_PRODUCTS; slot++)
    if (d->linear[slot]) (void)m->k->linear_close(&d->linear[slot]);
  tri_units_drop(d->slice, m->n_unit);
  TRI_FREE(d->slice);
}

tri_status tri_divided_whole(tri_model *m, tri_out y, tri_in mine, tri_stream *s) {
  int64_t             n = mine->dim[0], w = mine->dim[1];
  const tri_comm_span span = {m->divided.all, mine->data, n * w};
  const tri_coll      k = {.kind = TRI_ALL_GATHER,
                           .span = &span,
                           .n_span = 1,
                           .dtype = mine->dtype,
                           .stream = s,
                           .in_stream = true};
  tri_tensor          x = {m->divided.all, mine->dtype, 3, {m->divided.t, n, w, 1}};

  if (!n) return TRI_OK;
  TRI_ASSERT(y->dim[0] == n && part_of(m, y->dim[1]) == w);
  TRI_TRY(tri_collective(m->divided.comm, &k, NULL));
  return m->k->join_cols(s, y, &x);
}

tri_status tri_divided_product(tri_model *m, const tri_block_call *c, tri_slot slot, tri_out y, tri_in x,
                               tri_in base, tri_stream *s) {
  int64_t    n = y->dim[0], w = part_of(m, y->dim[1]);
  tri_tensor mine = tri_rows_f32(m->divided.mine, n, w);

  if (base) TRI_TRY(m->k->cols_get(s, &mine, base, m->divided.i * w, 1.0f, false));
  TRI_TRY(tri_product_fwd(m, c, slot, &mine, x, base ? &mine : NULL, s));
  return tri_divided_whole(m, y, &mine, s);
}
