/* delta.c - the gated delta rule forward, row by row from any state.
 *
 * A state is worked on in blocks of COLS columns, which stay in the first-level cache for all rows of a
 * chunk. Columns do not depend on each other, so blocks, chunks and threads change no bits. With S the
 * state before a row, the row's results are d = beta (v - g S' k) and o = g S' q + (k q) d. So one pass
 * over S makes the next state and multiplies it by the next row's k and q. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "delta.h"

#include <string.h>

enum { COLS = 16, CHUNK = TRI_DELTA_ROWS };

typedef struct run_state { /* the rows and blocks of one thread */
  tri_cpu_delta_chunk rows;
  float               v[CHUNK * COLS], o[CHUNK * COLS];
  float               S[TRI_DELTA_MOST * TRI_DELTA_MOST]; /* blocks of [ld,COLS] */
} run_state;
_Static_assert(sizeof(run_state) <= TRI_CPU_FRAME_BYTES, "tri_cpu_check_stack");

tri_cpu_delta_in tri_cpu_delta_open(tri_in c, tri_in ba, tri_in A_log, tri_in dt_bias,
                                    const tri_delta_rule *rule) {
  tri_cpu_delta_in in = {c->data, ba->data, A_log, dt_bias, tri_cpu_type(c), tri_delta_width(rule), *rule};

  TRI_ASSERT(rule->Hk > 0 && rule->Hv > 0 && rule->Hv % rule->Hk == 0);
  TRI_ASSERT(rule->Dk > 0 && rule->Dk <= TRI_DELTA_MOST && rule->Dv > 0 && rule->Dv <= TRI_DELTA_MOST);
  TRI_ASSERT(c->dim[1] == in.Er && ba->dtype == c->dtype && ba->dim[0] == c->dim[0]);
  TRI_ASSERT(ba->dim[1] == 2 * rule->Hv && A_log->dim[0] == rule->Hv && dt_bias->dim[0] == rule->Hv);
  TRI_ASSERT(A_log->dtype == TRI_F32 || A_log->dtype == c->dtype);
  TRI_ASSERT(dt_bias->dtype == TRI_F32 || dt_bias->dtype == c->dtype);
  return in;
}

tri_cpu_decay tri_cpu_delta_decay(const tri_cpu_delta_in *in, int h) {
  tri_cpu_decay d = {tri_exp(tri_cpu_get(in->A_log->data, in->A_log->dtype, h)),
                     tri_cpu_get(in->dt_bias->data, in->dt_bias->dtype, h)};
  return d;
}

float tri_cpu_delta_dot(const float *a, const float *b, int64_t n) {
  float   lane[TRI_CPU_LANES] = {0};
  int64_t i = 0;
  for (; i + TRI_CPU_LANES <= n; i += TRI_CPU_LANES) {
#pragma omp simd
    for (int j = 0; j < TRI_CPU_LANES; j++) lane[j] = fmaf(a[i + j], b[i + j], lane[j]);
  }
  if (i < n) {
#pragma omp simd
    for (int j = 0; j < TRI_CPU_LANES / 2; j++) lane[j] = fmaf(a[i + j], b[i + j], lane[j]);
  }
  return tri_cpu_fold_sum(lane);
}

float tri_cpu_delta_scale(const float *x, int64_t n) {
  return 1.0f / sqrtf(tri_cpu_delta_dot(x, x, n) + 1e-6f);
}

/* Loads one head of a row, normalised times `scale`, with zeros behind column Dk. */
static void load_head(const tri_cpu_delta_in *in, float *to, int64_t ld, int64_t at, float scale) {
  const int64_t Dk = in->rule.Dk;
  float         r;

  TRI_CPU_OF(in->A, tri_cpu_widen, to, tri_cpu_at(in->c, in->A, at), Dk, 1.0f);
  for (int64_t i = Dk; i < ld; i++) to[i] = 0;
  r = tri_cpu_delta_scale(to, ld) * scale;
#pragma omp simd
  for (int64_t i = 0; i < ld; i++) to[i] *= r;
}

void tri_cpu_delta_load(const tri_cpu_delta_in *in, tri_cpu_delta_chunk *r, int64_t row, int n, int h) {
  const tri_delta_rule *rule = &in->rule;
  const tri_cpu_decay   decay = tri_cpu_delta_decay(in, h);
  const int64_t         head = (int64_t)(h / (rule->Hv / rule->Hk)) * rule->Dk;
  const float           scale = 1.0f / sqrtf((float)rule->Dk);

  r->ld = ((int64_t)rule->Dk + 15) / 16 * 16;
  for (int t = 0; t < n; t++) {
    float  *k = r->k + t * r->ld, *q = r->q + t * r->ld;
    int64_t at = (row + t) * in->Er + head, gate = (row + t) * 2 * rule->Hv + h;
    load_head(in, q, r->ld, at, scale);
    load_head(in, k, r->ld, at + (int64_t)rule->Hk * rule->Dk, 1.0f);
    r->kq[t] = tri_cpu_delta_dot(k, q, r->ld);
    r->beta[t] = tri_sigmoid(tri_cpu_get(in->ba, in->A, gate));
    r->g[t] =
        tri_exp(-decay.rate * tri_cpu_softplus(tri_cpu_get(in->ba, in->A, gate + rule->Hv) + decay.bias));
  }
}

/* Does one pass over a block S [ld,COLS]. With `update`, S becomes g S + k d'. With `next`, sk and sq
 * become the products of the new S with the next row's k and q, of even and of odd rows of S apart. Both
 * are constants at every call. */
static TRI_CPU_EACH void pass(const bool update, const bool  next, float *restrict S, const float *restrict k,
                              const float *restrict d, float g, const float *restrict k_next,
                              const float *restrict q_next, float *restrict sk, float *restrict sq,
                              int64_t ld) {
  TRI_SIMD_OUTER
  for (int l = 0; l < COLS; l++) {
    float   dl = d[l], k0 = 0, k1 = 0, q0 = 0, q1 = 0;
    int64_t i = 0;
    do { /* gcc vectorises the outer loop only if this loop is known to run at least once */
      float s0 = S[i * COLS + l], s1 = S[(i + 1) * COLS + l];
      if (update) {
        s0 = fmaf(k[i], dl, g * s0), s1 = fmaf(k[i + 1], dl, g * s1);
        S[i * COLS + l] = s0, S[(i + 1) * COLS + l] = s1;
      }
      if (next) {
        k0 = fmaf(k_next[i], s0, k0), k1 = fmaf(k_next[i + 1], s1, k1);
        q0 = fmaf(q_next[i], s0, q0), q1 = fmaf(q_next[i + 1], s1, q1);
      }
    } while ((i += 2) < ld);
    if (next) sk[l] = k0 + k1, sq[l] = q0 + q1;
  }
}

/* Runs n rows through one block of columns, with v [n,COLS]. Writes o [n,COLS]. */
static void run_block(float *S, const tri_cpu_delta_chunk *r, const float *v, float *o, int n) {
  const int64_t ld = r->ld;
  float         d[COLS] = {0}, sk[COLS], sq[COLS];

  pass(false, true, S, r->k, d, 0, r->k, r->q, sk, sq, ld);
  for (int t = 0; t < n; t++) {
    const float *k = r->k + t * ld, *q = r->q + t * ld, g = r->g[t], beta = r->beta[t], kq = r->kq[t];
#pragma omp simd
    for (int l = 0; l < COLS; l++) {
      d[l] = beta * fmaf(-g, sk[l], v[t * COLS + l]);
      o[t * COLS + l] = fmaf(kq, d[l], g * sq[l]);
    }
    if (t + 1 < n)
      pass(true, true, S, k, d, g, k + ld, q + ld, sk, sq, ld);
    else
      pass(true, false, S, k, d, g, k, q, sk, sq, ld);
  }
}

typedef struct delta_call { /* the arguments of one delta_fwd */
  tri_cpu_delta_in in;
  void            *o;
  float           *state;
} delta_call;

/* Copies columns first .. first + n - 1 of a state [Dk,Dv] to a block, or back. */
static void load_block(float *S, int64_t ld, const float *state, const tri_delta_rule *rule, int first,
                       int n) {
  memset(S, 0, (size_t)(ld * COLS) * sizeof *S);
  for (int64_t i = 0; state && i < rule->Dk; i++)
    memcpy(S + i * COLS, state + i * rule->Dv + first, (size_t)n * sizeof *S);
}
static void store_block(const float *S, float *state, const tri_delta_rule *rule, int first, int n) {
  for (int64_t i = 0; i < rule->Dk; i++)
    memcpy(state + i * rule->Dv + first, S + i * COLS, (size_t)n * sizeof *S);
}

/* Runs rows first .. end - 1, one sequence, through blocks from .. to - 1 of value head h. The state begins
 * as `before` and is left in `after`, both of this head, [Dk,Dv]. NULL is zero, or nowhere. */
static void run_head(run_state *a, const delta_call *c, int64_t first, int64_t end, int h, int from, int to,
                     const float *before, float *after) {
  const tri_delta_rule *rule = &c->in.rule;
  const int64_t         ld = ((int64_t)rule->Dk + 15) / 16 * 16, Dv = rule->Dv;

  for (int j = from; j < to; j++)
    load_block(a->S + (j - from) * ld * COLS, ld, before, rule, j * COLS,
               Dv - j * COLS < COLS ? (int)Dv - j * COLS : COLS);
  for (int64_t row = first; row < end; row += CHUNK) {
    int n = end - row < CHUNK ? (int)(end - row) : CHUNK;
    tri_cpu_delta_load(&c->in, &a->rows, row, n, h);
    for (int j = from; j < to; j++) {
      int64_t at = h * Dv + j * COLS, n_col = Dv - j * COLS < COLS ? Dv - j * COLS : COLS;
      for (int t = 0; t < n; t++) {
        int64_t v = (row + t) * c->in.Er + 2 * (int64_t)rule->Hk * rule->Dk + at;
        TRI_CPU_OF(c->in.A, tri_cpu_widen, a->v + t * COLS, tri_cpu_at(c->in.c, c->in.A, v), n_col, 1.0f);
        for (int64_t l = n_col; l < COLS; l++) a->v[t * COLS + l] = 0;
      }
      run_block(a->S + (j - from) * ld * COLS, &a->rows, a->v, a->o, n);
      for (int t = 0; t < n; t++)
        TRI_CPU_OF(c->in.A, tri_cpu_narrow, tri_cpu_at_out(c->o, c->in.A, (row + t) * rule->Hv * Dv + at),
                   a->o + t * COLS, n_col, 1.0f);
    }
  }
  for (int j = from; after && j < to; j++)
    store_block(a->S + (j - from) * ld * COLS, after, rule, j * COLS,
                Dv - j * COLS < COLS ? (int)Dv - j * COLS : COLS);
}

tri_status tri_cpu_delta_fwd(tri_stream *s, tri_out o, tri_in c, tri_in ba, tri_in A_log, tri_in dt_bias,
                             tri_out state, const tri_delta_rows *rows, const tri_delta_rule *rule) {
  delta_call call = {tri_cpu_delta_open(c, ba, A_log, dt_bias, rule), o->data, state ? state->data : NULL};
  const int32_t *cu = rows->cu->data;
  int64_t        N = c->dim[0], S = rows->cu->dim[0] - 1, size = (int64_t)rule->Dk * rule->Dv;
  int            threads = tri_cpu_threads(s, N * tri_delta_state(rule));
  int            n_block = (rule->Dv + COLS - 1) / COLS, part = n_block;

  TRI_ASSERT(o->dtype == c->dtype && o->dim[0] == N && o->dim[1] == (int64_t)rule->Hv * rule->Dv);
  TRI_ASSERT(S >= 0 && cu[S] == N && !rows->slot == !rows->fresh && (!rows->slot || state));
  TRI_ASSERT(!state || (state->dtype == TRI_F32 && tri_tensor_count(state) % tri_delta_state(rule) == 0));
  TRI_TRY(tri_cpu_check_stack(threads));
  /* Whole heads load their rows of q and k once. With few heads, parts of a head keep all threads busy. */
  while (part > 1 && S * rule->Hv * ((n_block + part - 1) / part) < 3 * threads) part = (part + 1) / 2;
  const int n_part = (n_block + part - 1) / part;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (int64_t unit = 0; unit < S * rule->Hv * n_part; unit++) {
    run_state a;
    int64_t   seq = unit / (rule->Hv * n_part);
    int       h = (int)(unit / n_part % rule->Hv), from = (int)(unit % n_part) * part;
    int32_t   slot = rows->slot ? ((const int32_t *)rows->slot->data)[seq] : -1;
    float    *own = slot < 0 ? NULL : call.state + ((int64_t)slot * rule->Hv + h) * size;
    TRI_ASSERT(slot < 0 || slot < tri_tensor_count(state) / tri_delta_state(rule));
    run_head(&a, &call, cu[seq], cu[seq + 1], h, from, from + part < n_block ? from + part : n_block,
             own && !((const int32_t *)rows->fresh->data)[seq] ? own : NULL, own);
  }
  return TRI_OK;
}
