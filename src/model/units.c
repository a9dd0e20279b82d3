/* units.c - makes a model's units from its family's rows: the tensors of each unit and their slots. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "decoder.h"

#include <stdio.h>
#include <string.h>

/* Replaces the family's head row in a model with a scalar head, as in transformers'
 * LlamaForSequenceClassification. */
static const tri_tensor_row score_row = {TRI_IN_HEAD, "score.weight", "1C", TRI_SLOT_HEAD, 0};

/* Returns whether the unit has the row's tensor. */
static bool applies(const tri_model *m, int unit, tri_family_part part, const tri_tensor_row *row) {
  if (part == TRI_IN_LAYER ? !tri_row_in_layer(row, &m->shape, tri_layer_of(unit)) : row->part != part)
    return false;
  if (row->slot == TRI_SLOT_HEAD && row != &score_row) return !m->tied && m->opt.head == TRI_HEAD_TOKENS;
  return !row->only_if || *(const bool *)((const char *)&m->shape + row->only_if);
}

static int64_t size_of(const tri_model_shape *sh, const tri_delta_rule *delta, char letter) {
  switch (letter) {
  case 'C':
    return sh->C;
  case 'D':
    return sh->D;
  case 'E':
    return ((int64_t)sh->H + 2 * sh->G) * sh->D;
  case 'F':
    return sh->F;
  case 'U':
    return 2 * (int64_t)sh->F;
  case 'V':
    return sh->V;
  case 'Q':
    return (int64_t)sh->H * sh->D;
  case 'K':
    return (int64_t)sh->G * sh->D;
  case 'P':
    return (int64_t)sh->H * sh->D * (sh->attn_gate ? 2 : 1);
  case 'R':
    return tri_delta_width(delta);
  case 'Z':
    return (int64_t)delta->Hv * delta->Dv;
  case 'N':
    return delta->Hv;
  case 'Y':
    return delta->Dv;
  case 'W':
    return delta->conv;
  }
  TRI_ASSERT(letter == '1');
  return 1;
}

/* Norm weights start at a factor of 1, biases at 0. Recurrent layers start as in transformers
 * (Qwen3_5PreTrainedModel._init_weights). */
static tri_init init_of(const tri_family *f, tri_slot slot) {
  if (slot < TRI_SLOT_PRODUCTS || slot == TRI_SLOT_EMBED || slot == TRI_SLOT_CONV) return TRI_INIT_NORMAL;
  if (slot == TRI_SLOT_DT_BIAS || slot == TRI_SLOT_GATE_NORM) return TRI_INIT_ONES;
  if (slot == TRI_SLOT_A_LOG) return TRI_INIT_LOG_UNIFORM;
  return slot <= TRI_SLOT_DOWN_BIAS || f->norm_plus != 0 ? TRI_INIT_ZEROS : TRI_INIT_ONES;
}

/* Adds the next param to the unit. Blocks find the first param of each slot. */
static void add_row(tri_model *m, int unit, const tri_tensor_row *row) {
  tri_unit_spec  *u = &m->unit[unit];
  tri_unit_slots *at = &m->slots[unit];
  tri_param_spec *p = &u->param[u->n_param];

  snprintf(p->name, sizeof p->name, row->name, tri_layer_of(unit)); /* NOLINT: a family's row */
  for (const char *c = row->shape; *c; c++) p->dim[p->ndim++] = size_of(&m->shape, &m->rules.delta, *c);
  p->init = row == &score_row ? TRI_INIT_SCORE : init_of(m->shape.family, row->slot);
  p->added = row == &score_row;
  p->joined = at->param[row->slot] >= 0;
  if (row->slot < TRI_SLOT_PRODUCTS && !p->joined) {
    at->product[row->slot] = u->n_linear;
    u->linear[u->n_linear++] = (tri_linear_use){.first = u->n_param, .n = 0, .linear = m->linear[row->slot]};
  }
  if (row->slot < TRI_SLOT_PRODUCTS) u->linear[at->product[row->slot]].n++;
  if (!p->joined) at->param[row->slot] = u->n_param;
  u->n_param++;
}

static tri_status make_unit(tri_model *m, int unit, tri_family_part part) {
  const tri_tensor_row *rows = m->shape.family->tensor;
  tri_unit_slots       *at = &m->slots[unit];
  int                   n = 0;

  while (rows[n].name) n++;
  for (int i = 0; i < TRI_SLOT_COUNT; i++) at->param[i] = -1;
  TRI_TRY(TRI_ALLOC(m->unit[unit].param, n + 1));
  TRI_TRY(TRI_ALLOC(m->unit[unit].linear, TRI_SLOT_PRODUCTS));
  for (int i = 0; i < n; i++)
    if (applies(m, unit, part, &rows[i])) add_row(m, unit, &rows[i]);
  if (part == TRI_IN_HEAD && m->opt.head == TRI_HEAD_SCALAR && !m->opt.lora.rank) /* else adapter.c adds it */
    add_row(m, unit, &score_row);
  return TRI_OK;
}

static void find_slots(tri_model *m) {
  for (int slot = 0; slot < TRI_SLOT_COUNT; slot++) {
    m->layer_with[slot] = -1;
    for (int layer = m->shape.L - 1; layer >= 0; layer--)
      if (m->slots[tri_unit_of_layer(layer)].param[slot] >= 0) m->layer_with[slot] = layer;
  }
}

/* Makes the embedding's table the head's matrix too. */
static void tie(tri_model *m) {
  tri_unit_spec  *u = &m->unit[0];
  tri_unit_slots *at = &m->slots[0];

  at->param[TRI_SLOT_HEAD] = at->param[TRI_SLOT_EMBED];
  at->product[TRI_SLOT_HEAD] = u->n_linear;
  u->linear[u->n_linear++] =
      (tri_linear_use){.first = at->param[TRI_SLOT_EMBED], .n = 1, .linear = m->linear[TRI_SLOT_HEAD]};
}

tri_status tri_units_make(tri_model *m) {
  m->n_unit = m->shape.L + 2;
  TRI_TRY(TRI_ALLOC(m->unit, m->n_unit));
  TRI_TRY(TRI_ALLOC(m->slots, m->n_unit));
  for (int i = 0; i < m->n_unit; i++) {
    tri_family_part part = i == 0 ? TRI_IN_EMBEDDING : i == tri_unit_of_head(m) ? TRI_IN_HEAD : TRI_IN_LAYER;
    if (part == TRI_IN_LAYER)
      snprintf(m->unit[i].name, sizeof m->unit[i].name, "layer %d", tri_layer_of(i));
    else
      snprintf(m->unit[i].name, sizeof m->unit[i].name, part == TRI_IN_HEAD ? "head" : "embedding");
    m->unit[i].in_ring = part == TRI_IN_LAYER;
    m->unit[i].apart = part != TRI_IN_LAYER && m->opt.head == TRI_HEAD_TOKENS && !m->tied; /* both large */
    TRI_TRY(make_unit(m, i, part));
  }
  find_slots(m);
  if (m->tied) tie(m);
  for (int i = 0; i < m->n_unit; i++) tri_unit_layout(&m->unit[i]);
  return TRI_OK;
}

tri_status tri_units_copy(const tri_unit_spec *from, tri_unit_spec *to) {
  *to = *from;
  to->param = NULL;
  to->linear = NULL;
  TRI_TRY(TRI_ALLOC(to->param, from->n_param + 1));
  TRI_TRY(TRI_ALLOC(to->linear, from->n_linear + 1));
  memcpy(to->param, from->param, (size_t)from->n_param * sizeof *to->param);
  memcpy(to->linear, from->linear, (size_t)from->n_linear * sizeof *to->linear);
  return TRI_OK;
}

void tri_units_drop(tri_unit_spec *unit, int n) {
  for (int i = 0; unit && i < n; i++) {
    TRI_FREE(unit[i].param);
    TRI_FREE(unit[i].linear);
  }
}

void tri_units_free(tri_model *m) {
  tri_units_drop(m->unit, m->n_unit);
  TRI_FREE(m->unit);
  TRI_FREE(m->slots);
}
