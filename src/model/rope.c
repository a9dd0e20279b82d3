/* rope.c - the rotary embedding's table. */
#include "decoder.h"

#include <math.h>

/* Inverse frequencies of the rotary embedding (Su et al. 2021), f32 as transformers computes them, with its
 * "linear" and "llama3" scalings (transformers, modeling_rope_utils.py,
 * _compute_linear/llama3_parameters). */
static float inverse_frequency(const tri_model_shape *sh, int i) {
  float  power = (float)(2 * i) / (float)sh->D;
  float  f = 1.0f / powf((float)sh->rope_theta, power);
  double wave, low, high, smooth;

  if (sh->rope_type == TRI_ROPE_LINEAR) return f / (float)sh->rope_factor;
  if (sh->rope_type != TRI_ROPE_LLAMA3) return f;
  wave = 2 * 3.14159265358979323846 / (double)f;
  low = (double)sh->rope_original_max_pos / sh->rope_low_freq;
  high = (double)sh->rope_original_max_pos / sh->rope_high_freq;
  if (wave > low) return f / (float)sh->rope_factor;
  if (wave < high) return f;
  smooth = ((double)sh->rope_original_max_pos / wave - sh->rope_low_freq) /
           (sh->rope_high_freq - sh->rope_low_freq);
  return (float)((1 - smooth) * (double)(f / (float)sh->rope_factor) + smooth * (double)f);
}

tri_status tri_rope_fill(tri_model *m, tri_stream *s) {
  tri_status st = TRI_OK;
  int64_t    D = m->shape.D, half = D / 2;
  float     *table = NULL;

  TRI_TRY(TRI_ALLOC(table, m->opt.max_positions * D));
  for (int64_t i = 0; i < half; i++) {
    float f = inverse_frequency(&m->shape, (int)i);
    for (int64_t pos = 0; pos < m->opt.max_positions; pos++) {
      table[pos * D + i] = cosf((float)pos * f);
      table[pos * D + half + i] = sinf((float)pos * f);
    }
  }
  TRI_TRY_DONE(m->device->ops->copy(s, m->rope, table, (size_t)(m->opt.max_positions * D) * 4));
  TRI_TRY_DONE(m->device->ops->stream_sync(s));
done:
  TRI_FREE(table);
  return st;
}
