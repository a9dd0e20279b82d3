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

/* Multiplies a block S [n_k,COLS], n_k even, by k and q: sk = S' k and sq = S' q, of even and of odd rows
 * of S apart. With `update`, S becomes g S + k_last d' before. It is a constant at every call. */
static TRI_CPU_EACH void pass(const bool update, float *restrict S, const float *restrict k_last,
                              const float *restrict d, float g, const float *restrict k,
                              const float *restrict q, float *restrict sk, float *restrict sq, int64_t n_k) {
  TRI_SIMD_OUTER
  for (int l = 0; l < COLS; l++) {
    float   dl = d[l], k0 = 0, k1 = 0, q0 = 0, q1 = 0;
    int64_t i = 0;
    do { /* gcc vectorises the outer loop only if this loop is known to run at least once */
      float s0 = S[i * COLS + l], s1 = S[(i + 1) * COLS + l];
      if (update) {
        s0 = fmaf(k_last[i], dl, g * s0), s1 = fmaf(k_last[i + 1], dl, g * s1);
        S[i * COLS + l] = s0, S[(i + 1) * COLS + l] = s1;
      }
      k0 = fmaf(k[i], s0, k0), k1 = fmaf(k[i + 1], s1, k1);
      q0 = fmaf(q[i], s0, q0), q1 = fmaf(q[i + 1], s1, q1);
    } while ((i += 2) < n_k);
    sk[l] = k0 + k1, sq[l] = q0 + q1;
  }
}

/* S = g S + k d', as in pass. */
static void update(float *restrict S, const float *restrict k, const float *restrict d, float g,
                   int64_t n_k) {
  for (int64_t i = 0; i < n_k; i++) {
#pragma omp simd
    for (int l = 0; l < COLS; l++) S[i * COLS + l] = fmaf(k[i], d[l], g * S[i * COLS + l]);
  }
}

/* Runs n rows through one block of columns, with v [n,COLS]. Writes o [n,COLS]. n_k is Dk, or the next even
 * number. */
static void run_block(float *S, const tri_cpu_delta_chunk *r, const float *v, float *o, int n, int64_t n_k) {
  const int64_t ld = r->ld;
  float         d[COLS] = {0}, sk[COLS], sq[COLS];

  pass(false, S, r->k, d, 0, r->k, r->q, sk, sq, n_k);
  for (int t = 0; t < n; t++) {
    const float *k = r->k + t * ld, *q = r->q + t * ld, g = r->g[t], beta = r->beta[t], kq = r->kq[t];
#pragma omp simd
    for (int l = 0; l < COLS; l++) {
      d[l] = beta * fmaf(-g, sk[l], v[t * COLS + l]);
      o[t * COLS + l] = fmaf(kq, d[l], g * sq[l]);
    }
    if (t + 1 < n)
      pass(true, S, k, d, g, k + ld, q + ld, sk, sq, n_k);
    else
      update(S, k, d, g, n_k);
  }
}

typedef struct delta_call { /* the arguments of one delta_fwd */
  tri_cpu_delta_in in;
  void            *o;
  float           *state;
} delta_call;

/* Copies n columns from `first` on of a state [Dk,Dv] to a block, or back. A NULL state is zero. Whole blocks
 * are copied by vectors and the next block is fetched ahead, because decoding copies a state for each row. */
static void load_block(float *S, int64_t ld, const float *state, const tri_delta_rule *rule, int first,
                       int n) {
  if (!state || n < COLS || rule->Dk < ld) memset(S, 0, (size_t)(ld * COLS) * sizeof *S);
  for (int64_t i = 0; state && i < rule->Dk; i++) {
    const float *from = state + i * rule->Dv + first;
    if (first + COLS < rule->Dv) __builtin_prefetch(from + COLS, 1);
    if (n == COLS)
      memcpy(S + i * COLS, from, COLS * sizeof *S);
    else
      memcpy(S + i * COLS, from, (size_t)n * sizeof *S);
  }
}
static void store_block(const float *S, float *state, const tri_delta_rule *rule, int first, int n) {
  for (int64_t i = 0; i < rule->Dk; i++)
    if (n == COLS)
      memcpy(state + i * rule->Dv + first, S + i * COLS, COLS * sizeof *S);
    else
      memcpy(state + i * rule->Dv + first, S + i * COLS, (size_t)n * sizeof *S);
}

/* Runs n rows from batch row `row` on, loaded in a, through n_col columns of head h from column `at` on. */
static void run_columns(run_state *a, const delta_call *c, float *S, int64_t row, int n, int h, int at,
                        int n_col) {
  const tri_delta_rule *rule = &c->in.rule;
  const int64_t         out = (int64_t)h * rule->Dv + at;

  for (int t = 0; t < n; t++) {
    int64_t v = (row + t) * c->in.Er + 2 * (int64_t)rule->Hk * rule->Dk + out;
    TRI_CPU_OF(c->in.A, tri_cpu_widen, a->v + t * COLS, tri_cpu_at(c->in.c, c->in.A, v), n_col, 1.0f);
    for (int l = n_col; l < COLS; l++) a->v[t * COLS + l] = 0;
  }
  run_block(S, &a->rows, a->v, a->o, n, (rule->Dk + 1) / 2 * 2);
  for (int t = 0; t < n; t++)
    TRI_CPU_OF(c->in.A, tri_cpu_narrow, tri_cpu_at_out(c->o, c->in.A, (row + t) * rule->Hv * rule->Dv + out),
               a->o + t * COLS, n_col, 1.0f);
}

/* Runs rows first .. end - 1, one sequence, through columns at .. to - 1 of value head h. The state begins
 * as `before` and is left in `after`, both of this head, [Dk,Dv]. NULL is zero, or nowhere. A sequence of
 * one chunk uses the same block for all columns, which stays in the first-level cache. */
static void run_head(run_state *a, const delta_call *c, int64_t first, int64_t end, int h, int at, int to,
                     const float *before, float *after) {
  const tri_delta_rule *rule = &c->in.rule;
  const int64_t         ld = ((int64_t)rule->Dk + 15) / 16 * 16, apart = end - first <= CHUNK ? 0 : ld * COLS;

  for (int64_t row = first; row == first || row < end; row += CHUNK) {
    int n = end - row < CHUNK ? (int)(end - row) : CHUNK;
    if (n > 0) tri_cpu_delta_load(&c->in, &a->rows, row, n, h);
    for (int j = at; j < to; j += COLS) {
      float *S = a->S + (j - at) / COLS * apart;
      int    n_col = to - j < COLS ? to - j : COLS;
      if (row == first) load_block(S, ld, before, rule, j, n_col);
      if (n > 0) run_columns(a, c, S, row, n, h, j, n_col);
      if (after && row + CHUNK >= end) store_block(S, after, rule, j, n_col);
    }
  }
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
    int       h = (int)(unit / n_part % rule->Hv), at = (int)(unit % n_part) * part * COLS;
    int32_t   slot = rows->slot ? ((const int32_t *)rows->slot->data)[seq] : -1;
    float    *own = slot < 0 ? NULL : call.state + ((int64_t)slot * rule->Hv + h) * size;
    TRI_ASSERT(slot < 0 || slot < tri_tensor_count(state) / tri_delta_state(rule));
    run_head(&a, &call, cu[seq], cu[seq + 1], h, at,
             at + part * COLS < rule->Dv ? at + part * COLS : rule->Dv,
             own && !((const int32_t *)rows->fresh->data)[seq] ? own : NULL, own);
  }
  return TRI_OK;
}
