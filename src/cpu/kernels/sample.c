/* sample.c - draws one token per row of logits by temperature, top-k, top-p and keyed random numbers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cpu.h"

#include "base/rng.h"

#include <string.h>

enum { BLOCK = TRI_CPU_LOGITS };
enum { BITS = 11, BINS = 1 << BITS }; /* 32 bits of a float take three passes */
static const double NOTHING = 1e-34;  /* larger than BLOCK times the smallest weight above 0, e^-87.3 */

/* The candidates of one row, in order of id. */
typedef struct candidates {
  const float *x; /* logits [V] */
  float       *e; /* exp(scaled logit - max) of candidate i */
  int32_t     *id;
  int64_t      n;
} candidates;

/* Keeps the candidates with the largest logits, the lowest id first among equals, until their weight reaches
 * `need`. Keeps at least one. Each weight is 1, or e with by_mass. It is a radix selection. The bits of the
 * last kept candidate are found BITS at a time from a histogram of weights. */
static void keep_largest(candidates *c, double need, bool by_mass) {
  double   weight[BINS], above = 0, ties;
  uint32_t cut = 0;
  int64_t  n_kept = 0;

  for (int shift = 32 - BITS;; shift = shift > BITS ? shift - BITS : 0) {
    int      width = shift > 0 ? BITS : 32 - 2 * BITS;
    uint32_t mask = (1u << width) - 1;
    int      bin = (int)mask, lowest = -1;
    memset(weight, 0, sizeof weight);
    for (int64_t i = 0; i < c->n; i++) {
      uint32_t key = tri_order_key(c->x[c->id[i]]);
      if (((uint64_t)key >> (shift + width)) == ((uint64_t)cut >> (shift + width)))
        weight[key >> shift & mask] += by_mass ? (double)c->e[i] : 1.0;
    }
    for (; bin >= 0; bin--) {
      if (weight[bin] <= 0) continue;
      lowest = bin;
      if (above + weight[bin] >= need) break;
      above += weight[bin];
    }
    if (bin < 0) { /* all are needed because of rounding */
      bin = lowest < 0 ? 0 : lowest;
      above -= weight[bin];
    }
    cut |= (uint32_t)bin << shift;
    if (shift == 0) break;
  }
  ties = -1;
  for (int64_t i = 0; i < c->n; i++) {
    uint32_t key = tri_order_key(c->x[c->id[i]]);
    if (key < cut) continue;
    if (key == cut) {
      if (ties < 0) ties = by_mass ? fmax(1, ceil((need - above) / c->e[i])) : need - above;
      if (ties < 1) continue;
      ties -= 1;
    }
    c->id[n_kept] = c->id[i];
    c->e[n_kept++] = c->e[i];
  }
  c->n = n_kept;
}

static double mass_of(const candidates *c) {
  double sum = 0;
  for (int64_t i = 0; i < c->n; i++) sum += c->e[i];
  return sum;
}

/* Computes exp(scaled logit - max) of n logits. */
static inline void weigh(float *e, const float *x, int64_t n, float inv_temperature, float max) {
#pragma omp        simd
  for (int64_t i = 0; i < n; i++) e[i] = tri_exp(fmaf(x[i], inv_temperature, -max));
}

/* Returns the first id whose running sum of weights, in order of id, exceeds `need`, or the last id with a
 * weight if none does. mass has the sum of weights of each block of ids, and the block is found by these
 * sums. Blocks with less than NOTHING are skipped, because they may hold no weight but 0. */
static int32_t draw_plain(const float *x, int64_t V, float inv_temperature, float max, double need,
                          const double *mass) {
  float   e[BLOCK];
  int64_t block = -1, first, n, last = 0;

  for (int64_t i = 0; i * BLOCK < V; i++) {
    if (mass[i] < NOTHING) continue;
    if (block >= 0 && mass[block] > need) break;
    if (block >= 0) need -= mass[block];
    block = i;
  }
  first = block * BLOCK, n = V - first < BLOCK ? V - first : BLOCK;
  weigh(e, x + first, n, inv_temperature, max);
  for (int64_t i = 0; i < n; i++) {
    if (e[i] <= 0) continue;
    last = i;
    if ((double)e[i] > need) break;
    need -= (double)e[i];
  }
  return (int32_t)(first + last);
}

static int32_t draw_filtered(const float *x, int64_t V, float inv_temperature, float max, double u,
                             float *work, const tri_sample_rule *rule) {
  candidates c = {x, work, (int32_t *)(void *)(work + V), V};
  double     sum = 0, need;
  int32_t    token = 0;

  weigh(c.e, x, V, inv_temperature, max);
  for (int64_t i = 0; i < V; i++) c.id[i] = (int32_t)i;
  if (rule->top_k > 0 && rule->top_k < V) keep_largest(&c, rule->top_k, false);
  if (rule->top_p < 1) keep_largest(&c, (double)rule->top_p * mass_of(&c), true);
  need = u * mass_of(&c);
  for (int64_t i = 0; i < c.n; i++) {
    if (c.e[i] <= 0) continue;
    sum += (double)c.e[i];
    token = c.id[i];
    if (sum > need) break;
  }
  return token;
}

static int32_t first_of(const float *x, int64_t V, float value) {
  int64_t i = 0;
  while (i < V - 1 && x[i] != value) i++;
  return (int32_t)i;
}

static void sample_row(const float *x, int64_t V, const int64_t key[3], float *work,
                       const tri_sample_rule *rule, int32_t *token, float *logp) {
  float           inv_temperature = rule->temperature > 0 ? 1.0f / rule->temperature : 1.0f;
  double          few[2], *mass = V < 2 ? few : (double *)(void *)work; /* draw_filtered uses it later too */
  tri_cpu_softmax r;

  tri_cpu_softmax_row(x, V, inv_temperature, &r, mass);
  *token = 0;
  *logp = NAN;
  if (!isfinite(r.max) || !isfinite(r.log_sum)) return; /* the row has no largest finite logit */
  if (rule->temperature <= 0)
    *token = first_of(x, V, r.max);
  else if ((rule->top_k <= 0 || rule->top_k >= V) && rule->top_p >= 1)
    *token = draw_plain(x, V, inv_temperature, r.max, tri_rng_draw(rule->seed, key) * exp(r.log_sum), mass);
  else
    *token = draw_filtered(x, V, inv_temperature, r.max, tri_rng_draw(rule->seed, key), work, rule);
  *logp = tri_softmax_logp(x[*token], inv_temperature, r.max, r.log_sum);
}

tri_status tri_cpu_sample(tri_stream *s, tri_out token, tri_out logp, tri_out work, tri_in logits, tri_in key,
                          const tri_sample_rule *rule) {
  int64_t      B = logits->dim[0], V = logits->dim[1];
  const float *x = logits->data;

  TRI_ASSERT(logits->dtype == TRI_F32 && key->dtype == TRI_I64 && key->dim[0] == B && key->dim[1] == 3);
  TRI_ASSERT(work->dtype == TRI_F32 && tri_tensor_count(work) >= 2 * B * V);
#pragma omp parallel for schedule(dynamic) num_threads(tri_cpu_threads(s, 8 * B * V))
  for (int64_t b = 0; b < B; b++)
    sample_row(x + b * V, V, (const int64_t *)key->data + 3 * b, (float *)work->data + 2 * b * V, rule,
               (int32_t *)token->data + b, (float *)logp->data + b);
  return TRI_OK;
}

tri_status tri_cpu_decode_in(tri_stream *s, tri_out token, tri_out table, tri_in drawn, tri_in from,
                             tri_in pos, tri_in slot) {
  int64_t        B = token->dim[0], P = table->dim[1];
  const int32_t *of = from->data, *at = pos->data, *to = slot->data;

  (void)s;
  for (int64_t b = 0; b < B; b++) {
    TRI_ASSERT(of[b] < drawn->dim[0] && at[b] / TRI_PAGE < P);
    if (of[b] >= 0) ((int32_t *)token->data)[b] = ((const int32_t *)drawn->data)[of[b]];
    if (to[b] >= 0) ((int32_t *)table->data)[b * P + at[b] / TRI_PAGE] = to[b] / TRI_PAGE;
  }
  return TRI_OK;
}
