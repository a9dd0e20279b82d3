/* rope.c - the tables of the rotary embeddings. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "decoder.h"

#include <math.h>

/* As _compute_llama3_parameters in transformers' modeling_rope_utils.py. */
static float llama3_frequency(const tri_rope_shape *r, float f) {
  double wave = 2 * 3.14159265358979323846 / (double)f, smooth;
  double low = (double)r->original_max_pos / r->low_freq, high = (double)r->original_max_pos / r->high_freq;

  if (wave > low) return f / (float)r->factor;
  if (wave < high) return f;
  smooth = ((double)r->original_max_pos / wave - r->low_freq) / (r->high_freq - r->low_freq);
  return (float)((1 - smooth) * (double)(f / (float)r->factor) + smooth * (double)f);
}

/* Returns the dimension that turns this many times in the original context. */
static double yarn_dimension(const tri_rope_shape *r, int D, double turns) {
  return D * log((double)r->original_max_pos / (turns * 2 * 3.14159265358979323846)) / (2 * log(r->theta));
}

/* Peng et al. 2023 (YaRN), as in transformers' _compute_yarn_parameters. power is 1 / f of the base. */
static float yarn_frequency(const tri_rope_shape *r, int D, int i, float power) {
  double low = yarn_dimension(r, D, r->high_freq), high = yarn_dimension(r, D, r->low_freq);
  float  ramp, keep;

  if (r->truncate) low = floor(low), high = ceil(high);
  if (low < 0) low = 0;
  if (high > D - 1) high = D - 1;
  if (low == high) high += 0.001;
  ramp = ((float)i - (float)low) / (float)(high - low);
  ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
  keep = 1.0f - ramp;
  return 1.0f / ((float)r->factor * power) * (1.0f - keep) + 1.0f / power * keep;
}

/* Returns an inverse frequency of the rotary embedding (Su et al. 2021) with its scaling, in f32 as
 * transformers computes it. is_long selects longrope's long factors. */
static float inverse_frequency(const tri_rope_shape *r, bool is_long, int D, int i) {
  float power = powf((float)r->theta, (float)(2 * i) / (float)D), f = 1.0f / power;

  switch (r->type) {
  case TRI_ROPE_DEFAULT:
    return f;
  case TRI_ROPE_LINEAR:
    return f / (float)r->factor;
  case TRI_ROPE_LLAMA3:
    return llama3_frequency(r, f);
  case TRI_ROPE_LONG:
    return 1.0f / (r->by_pair[is_long][i] * power);
  case TRI_ROPE_YARN:
    break;
  }
  return yarn_frequency(r, D, i, power);
}

static tri_status fill(tri_model *m, tri_layer_kind kind, float *to, tri_stream *s) {
  const tri_rope_shape *r = &m->shape.rope[kind];
  tri_status            st = TRI_OK;
  int64_t               D = tri_turned(&m->shape, kind), half = D / 2;
  float                *table = NULL, size = (float)r->attention_factor;

  TRI_TRY(TRI_ALLOC(table, m->opt.max_positions * D));
  for (int64_t i = 0; i < half; i++) {
    float f = inverse_frequency(r, m->opt.rope_long, (int)D, (int)i);
    for (int64_t pos = 0; pos < m->opt.max_positions; pos++) {
      table[pos * D + i] = cosf((float)pos * f) * size;
      table[pos * D + half + i] = sinf((float)pos * f) * size;
    }
  }
  TRI_TRY_DONE(m->device->ops->copy(s, to, table, (size_t)(m->opt.max_positions * D) * 4));
  TRI_TRY_DONE(m->device->ops->stream_sync(s));
done:
  TRI_FREE(table);
  return st;
}

tri_status tri_rope_plan(tri_model *m, tri_ledger *l) {
  for (int k = 0; k < (m->shape.family->rope_by_kind ? TRI_KINDS : 1); k++)
    TRI_TRY(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS, false, "rotary table",
                           (size_t)(m->opt.max_positions * tri_turned(&m->shape, (tri_layer_kind)k)) * 4,
                           (void **)&m->rope[k]));
  return TRI_OK;
}

tri_status tri_rope_start(tri_model *m, tri_stream *s) {
  if (!m->shape.family->rope_by_kind) m->rope[TRI_LOCAL] = m->rope[TRI_GLOBAL];
  TRI_TRY(fill(m, TRI_GLOBAL, m->rope[TRI_GLOBAL], s));
  return m->shape.family->rope_by_kind ? fill(m, TRI_LOCAL, m->rope[TRI_LOCAL], s) : TRI_OK;
}
