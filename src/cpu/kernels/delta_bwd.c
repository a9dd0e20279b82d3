/* delta_bwd.c - the gradient of the gated delta rule.
 *
 * Each sequence and value head is one unit of work. It runs forward once and keeps the state before every
 * TRI_DELTA_ROWS-th row. Then, from the last chunk of rows to the first, it runs forward inside the chunk,
 * keeps all its states and goes back row by row. States are transposed here, [Dv,Dk], so that the sums over
 * columns for q and k are sums of vectors. With P the state before a row, S = g P + k d' the one after it
 * and dS the gradient of S, a row's gradients are (Yang et al. 2024, differentiated by hand):
 *   dS += q do';  dq = S do;  e = dS' k;  dv = beta e;  dbeta = e (v - g P' k);  u = -beta e
 *   dk = dS d + g P u;  dS += k u';  dg = <dS, P>;  dS = g dS
 * They are computed as e = dS' k + (k q) do, dq = g P do + k (d do) and dk = dS d + g P u + q (d do), all
 * with the dS that comes from the next row, so one pass over dS and P does a row. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "delta.h"

#include <string.h>

enum {
  CHUNK = TRI_DELTA_ROWS,
  COLS = 8,  /* columns whose states stay in the second-level cache: 256 KiB for Dk = 128 */
  QUAD = 4,  /* columns that share the loads of q and k */
  LANES = 16 /* partial sums over the rows of a state; they divide ld */
};

typedef struct grad_state { /* the rows and columns of one thread */
  tri_cpu_delta_chunk rows;
  float               dq[CHUNK * TRI_DELTA_MOST], dk[CHUNK * TRI_DELTA_MOST]; /* [CHUNK,ld] */
  float               dbeta[CHUNK], d_dout[CHUNK], dg[CHUNK * LANES];         /* sums over columns; d do */
  /* of a block, [CHUNK,COLS]: d, v - g P' k, the gradients of o and of v */
  float d[CHUNK * COLS], less[CHUNK * COLS], dout[CHUNK * COLS], v[CHUNK * COLS];
  float P[CHUNK * COLS * TRI_DELTA_MOST];    /* [CHUNK,COLS,ld], the states of a block before each row */
  float dS[TRI_DELTA_MOST * TRI_DELTA_MOST]; /* [Dv rounded up to COLS,ld] */
} grad_state;
_Static_assert(sizeof(grad_state) <= TRI_CPU_FRAME_BYTES, "tri_cpu_check_stack");

typedef struct grad_call { /* the arguments of one delta_bwd */
  tri_cpu_delta_in in;
  void            *dc, *dba;
  const void      *dout;
  float           *kept, *sums; /* work: states [(N + 63) / 64,Hv,Dv,Dk], sums [N,Hv,2 Dk + 2] */
} grad_call;

/* Sets out[c] to the sum of the lanes of column c. This destroys `lane`. */
static inline void fold_quad(float *restrict out, float lane[QUAD][LANES]) {
  for (int c = 0; c < QUAD; c++) {
#pragma omp simd
    for (int l = 0; l < 8; l++) lane[c][l] += lane[c][l + 8];
#pragma omp simd
    for (int l = 0; l < 4; l++) lane[c][l] += lane[c][l + 4];
  }
  for (int c = 0; c < QUAD; c++) out[c] = (lane[c][0] + lane[c][2]) + (lane[c][1] + lane[c][3]);
}

/* Multiplies QUAD columns by k: out[c] = P[c] k. */
static void times_k(float *out, const float *restrict P, const float *restrict k, int64_t ld) {
  float lane[QUAD][LANES];
  TRI_SIMD_OUTER
  for (int l = 0; l < LANES; l++) {
    float   s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    int64_t at = 0;
    do { /* gcc vectorises the outer loop only if this loop is known to run at least once */
      int64_t i = at + l;
      s0 = fmaf(P[i], k[i], s0), s1 = fmaf(P[ld + i], k[i], s1);
      s2 = fmaf(P[2 * ld + i], k[i], s2), s3 = fmaf(P[3 * ld + i], k[i], s3);
    } while ((at += LANES) < ld);
    lane[0][l] = s0, lane[1][l] = s1, lane[2][l] = s2, lane[3][l] = s3;
  }
  fold_quad(out, lane);
}

/* Makes the next state of QUAD columns, to = g from + k d', and multiplies it by the next row's k. to may be
 * from itself. */
static void step_quad(float *out, float *to, const float *from, float g, const float *restrict k,
                      const float *restrict k_next, const float d[QUAD], int64_t ld) {
  const float d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3];
  float       lane[QUAD][LANES];
  TRI_SIMD_OUTER
  for (int l = 0; l < LANES; l++) {
    float   s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    int64_t at = 0;
    do {
      int64_t i = at + l;
      float   p0 = fmaf(k[i], d0, g * from[i]), p1 = fmaf(k[i], d1, g * from[ld + i]);
      float   p2 = fmaf(k[i], d2, g * from[2 * ld + i]), p3 = fmaf(k[i], d3, g * from[3 * ld + i]);
      to[i] = p0, to[ld + i] = p1, to[2 * ld + i] = p2, to[3 * ld + i] = p3;
      s0 = fmaf(p0, k_next[i], s0), s1 = fmaf(p1, k_next[i], s1);
      s2 = fmaf(p2, k_next[i], s2), s3 = fmaf(p3, k_next[i], s3);
    } while ((at += LANES) < ld);
    lane[0][l] = s0, lane[1][l] = s1, lane[2][l] = s2, lane[3][l] = s3;
  }
  fold_quad(out, lane);
}

/* Runs n rows forward through a block of columns, from P[0], and sets d and less. The state before row t is
 * left in P[t], or, with `last`, the state behind all rows in P[0]. */
static void run_forward(grad_state *a, int n, bool last) {
  const tri_cpu_delta_chunk *r = &a->rows;
  const int64_t              ld = r->ld, size = last ? 0 : COLS * ld;
  float                      sk[COLS];

  for (int c = 0; c < COLS; c += QUAD) times_k(sk + c, a->P + c * ld, r->k, ld);
  for (int t = 0; t < n; t++) {
    const float *k = r->k + t * ld, *next = t + 1 < n ? k + ld : k;
    float       *P = a->P + t * size, *d = a->d + t * COLS, *less = a->less + t * COLS;
#pragma omp simd
    for (int c = 0; c < COLS; c++) {
      less[c] = fmaf(-r->g[t], sk[c], a->v[t * COLS + c]);
      d[c] = r->beta[t] * less[c];
    }
    for (int c = 0; c < COLS && (last || t + 1 < n); c += QUAD)
      step_quad(sk + c, P + size + c * ld, P + c * ld, r->g[t], k, next, d + c, ld);
  }
}

/* Goes back through one row of QUAD columns: adds to dq and dk, replaces dS by that of the row before, and
 * adds <dS, P> to the lanes of dg. out becomes the product of the new dS with the row before's k. */
static void back_quad(float *out, float *restrict dg, float *restrict dS, const float *restrict P,
                      float *restrict dq, float *restrict dk, const float *restrict q,
                      const float *restrict k, const float *restrict k_before, float g,
                      const float dout[QUAD], const float d[QUAD], const float u[QUAD], int64_t ld) {
  const float o0 = dout[0], o1 = dout[1], o2 = dout[2], o3 = dout[3];
  const float d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3], u0 = u[0], u1 = u[1], u2 = u[2], u3 = u[3];
  float       lane[QUAD][LANES];
  TRI_SIMD_OUTER
  for (int l = 0; l < LANES; l++) {
    float   s0 = 0, s1 = 0, s2 = 0, s3 = 0, g0 = 0, g1 = 0, g2 = 0, g3 = 0;
    int64_t at = 0;
    do {
      int64_t i = at + l;
      float   p0 = P[i], p1 = P[ld + i], p2 = P[2 * ld + i], p3 = P[3 * ld + i];
      float   x0 = dS[i], x1 = dS[ld + i], x2 = dS[2 * ld + i], x3 = dS[3 * ld + i];
      dq[i] += g * ((p0 * o0 + p1 * o1) + (p2 * o2 + p3 * o3));
      dk[i] += ((x0 * d0 + x1 * d1) + (x2 * d2 + x3 * d3)) + g * ((p0 * u0 + p1 * u1) + (p2 * u2 + p3 * u3));
      x0 += q[i] * o0 + k[i] * u0, x1 += q[i] * o1 + k[i] * u1;
      x2 += q[i] * o2 + k[i] * u2, x3 += q[i] * o3 + k[i] * u3;
      g0 = fmaf(x0, p0, g0), g1 = fmaf(x1, p1, g1), g2 = fmaf(x2, p2, g2), g3 = fmaf(x3, p3, g3);
      x0 *= g, x1 *= g, x2 *= g, x3 *= g;
      dS[i] = x0, dS[ld + i] = x1, dS[2 * ld + i] = x2, dS[3 * ld + i] = x3;
      s0 = fmaf(x0, k_before[i], s0), s1 = fmaf(x1, k_before[i], s1);
      s2 = fmaf(x2, k_before[i], s2), s3 = fmaf(x3, k_before[i], s3);
    } while ((at += LANES) < ld);
    lane[0][l] = s0, lane[1][l] = s1, lane[2][l] = s2, lane[3][l] = s3;
    dg[l] += (g0 + g1) + (g2 + g3);
  }
  fold_quad(out, lane);
}

/* Goes back through n rows of a block of columns. dS [COLS,ld] is that of the last row's state, and becomes
 * that of the state before the first row. Adds to the sums over columns, and writes dv in place of v. */
static void run_back(grad_state *a, float *dS, int n) {
  const tri_cpu_delta_chunk *r = &a->rows;
  const int64_t              ld = r->ld, size = COLS * ld;
  float                      sk[COLS], u[COLS], e;

  for (int c = 0; c < COLS; c += QUAD) times_k(sk + c, dS + c * ld, r->k + (n - 1) * ld, ld);
  for (int t = n - 1; t >= 0; t--) {
    const float *k = r->k + t * ld, *before = t > 0 ? k - ld : k, *P = a->P + t * size;
    const float *dout = a->dout + t * COLS, *d = a->d + t * COLS;
    float        dbeta = 0, d_dout = 0;
    for (int c = 0; c < COLS; c++) {
      e = sk[c] + r->kq[t] * dout[c];
      dbeta += e * a->less[t * COLS + c];
      d_dout += d[c] * dout[c];
      a->v[t * COLS + c] = r->beta[t] * e;
      u[c] = -r->beta[t] * e;
    }
    a->dbeta[t] += dbeta, a->d_dout[t] += d_dout;
    for (int c = 0; c < COLS; c += QUAD)
      back_quad(sk + c, a->dg + t * LANES, dS + c * ld, P + c * ld, a->dq + t * ld, a->dk + t * ld,
                r->q + t * ld, k, before, r->g[t], dout + c, d + c, u + c, ld);
  }
}

/* Loads columns first .. first + n - 1 of value head h, rows row .. row + n_row - 1, as [n_row,COLS] with
 * zeros behind them. A row of x has `width` elements and the head begins at `at`. */
static void load_columns(float *to, const void *x, tri_dtype A, int64_t width, int64_t at, int64_t row,
                         int n_row, int n) {
  for (int t = 0; t < n_row; t++) {
    TRI_CPU_OF(A, tri_cpu_widen, to + t * COLS, tri_cpu_at(x, A, (row + t) * width + at), n, 1.0f);
    for (int c = n; c < COLS; c++) to[t * COLS + c] = 0;
  }
}

/* Copies n columns of a kept state [Dv,Dk] to P[0], or back. With kept NULL the state is zero. */
static void load_state(grad_state *a, const float *kept, const tri_delta_rule *rule, int first, int n) {
  memset(a->P, 0, (size_t)(COLS * a->rows.ld) * sizeof *a->P);
  for (int c = 0; kept && c < n; c++)
    memcpy(a->P + c * a->rows.ld, kept + (int64_t)(first + c) * rule->Dk, (size_t)rule->Dk * sizeof *kept);
}
static void keep_state(const grad_state *a, float *kept, const tri_delta_rule *rule, int first, int n) {
  for (int c = 0; c < n; c++)
    memcpy(kept + (int64_t)(first + c) * rule->Dk, a->P + c * a->rows.ld, (size_t)rule->Dk * sizeof *kept);
}

/* Returns where the state before row 64 i, i > 0, of the sequence from row `start` on is kept. */
static float *place_of(const grad_call *c, int64_t start, int64_t i, int h) {
  const tri_delta_rule *rule = &c->in.rule;
  return c->kept + ((start / CHUNK + i) * rule->Hv + h) * rule->Dk * rule->Dv;
}

/* Writes the gradients of n rows from batch row `row` on, apart from dv: sums, and ba's columns of head h. */
static void put_rows(grad_state *a, const grad_call *c, int64_t row, int n, int h) {
  const tri_delta_rule      *rule = &c->in.rule;
  const tri_cpu_delta_chunk *r = &a->rows;
  const tri_cpu_decay        decay = tri_cpu_delta_decay(&c->in, h);
  const int64_t              Dk = rule->Dk, ld = r->ld;

  for (int t = 0; t < n; t++) {
    float  *to = c->sums + ((row + t) * rule->Hv + h) * (2 * Dk + 2), more = a->d_dout[t];
    int64_t gate = (row + t) * 2 * rule->Hv + h;
    float   x = tri_cpu_get(c->in.ba, c->in.A, gate + rule->Hv) + decay.bias, dg = 0, dlog, da;
    for (int l = 0; l < LANES; l++) dg += a->dg[t * LANES + l];
    /* log g = -rate softplus(x). Its derivative by A_log is log g, by x -rate softplus'(x). */
    dlog = dg * r->g[t], da = -dlog * decay.rate * tri_cpu_softplus_slope(x);
#pragma omp simd
    for (int64_t i = 0; i < Dk; i++) {
      to[i] = a->dq[t * ld + i] + r->k[t * ld + i] * more;
      to[Dk + i] = a->dk[t * ld + i] + r->q[t * ld + i] * more;
    }
    to[2 * Dk] = -dlog * decay.rate * tri_cpu_softplus(x);
    to[2 * Dk + 1] = da;
    tri_cpu_set(c->dba, c->in.A, gate, a->dbeta[t] * r->beta[t] * (1.0f - r->beta[t]));
    tri_cpu_set(c->dba, c->in.A, gate + rule->Hv, da);
  }
}

/* Processes chunk i of the sequence in rows start .. end - 1, value head h. Forward keeps the state behind
 * the chunk, backward computes all gradients but those of q and k, whose sums it leaves. */
static void do_chunk(grad_state *a, const grad_call *c, int64_t start, int64_t end, int64_t i, int h,
                     bool backward) {
  const tri_delta_rule *rule = &c->in.rule;
  const int64_t row = start + i * CHUNK, Dv = rule->Dv, at = 2 * (int64_t)rule->Hk * rule->Dk + h * Dv;
  const int     n = end - row < CHUNK ? (int)(end - row) : CHUNK;
  const float  *before = i > 0 ? place_of(c, start, i, h) : NULL;

  tri_cpu_delta_load(&c->in, &a->rows, row, n, h);
  if (backward) {
    memset(a->dq, 0, (size_t)(n * a->rows.ld) * sizeof *a->dq);
    memset(a->dk, 0, (size_t)(n * a->rows.ld) * sizeof *a->dk);
    memset(a->dbeta, 0, sizeof a->dbeta), memset(a->dg, 0, sizeof a->dg);
    memset(a->d_dout, 0, sizeof a->d_dout);
  }
  for (int first = 0; first < Dv; first += COLS) {
    int n_col = Dv - first < COLS ? (int)Dv - first : COLS;
    load_state(a, before, rule, first, n_col);
    load_columns(a->v, c->in.c, c->in.A, c->in.Er, at + first, row, n, n_col);
    run_forward(a, n, !backward);
    if (!backward) {
      keep_state(a, place_of(c, start, i + 1, h), rule, first, n_col);
      continue;
    }
    load_columns(a->dout, c->dout, c->in.A, rule->Hv * Dv, h * Dv + first, row, n, n_col);
    run_back(a, a->dS + first * a->rows.ld, n);
    for (int t = 0; t < n; t++)
      TRI_CPU_OF(c->in.A, tri_cpu_narrow, tri_cpu_at_out(c->dc, c->in.A, (row + t) * c->in.Er + at + first),
                 a->v + t * COLS, n_col, 1.0f);
  }
  if (backward) put_rows(a, c, row, n, h);
}

/* Adds up the value heads of one row and key head, and goes back through the norms of q and k. With x the row
 * before its norm, r its scale and dy the gradient behind it, dx = r (dy - y (y dy)), y = r x. */
static void norm_heads(const grad_call *c, int64_t row, int hk) {
  const tri_delta_rule *rule = &c->in.rule;
  const int64_t         Dk = rule->Dk, group = rule->Hv / rule->Hk, ld = (Dk + 15) / 16 * 16;
  float                 x[TRI_DELTA_MOST], dy[TRI_DELTA_MOST];

  for (int which = 0; which < 2; which++) { /* q, then k */
    int64_t at = row * c->in.Er + ((int64_t)which * rule->Hk + hk) * Dk;
    float   scale = which ? 1.0f : 1.0f / sqrtf((float)Dk), r, along;
    memset(dy, 0, sizeof dy), memset(x, 0, sizeof x);
    for (int64_t h = hk * group; h < (hk + 1) * group; h++) {
      const float *sum = c->sums + (row * rule->Hv + h) * (2 * Dk + 2) + which * Dk;
#pragma omp simd
      for (int64_t i = 0; i < Dk; i++) dy[i] += sum[i];
    }
    TRI_CPU_OF(c->in.A, tri_cpu_widen, x, tri_cpu_at(c->in.c, c->in.A, at), Dk, 1.0f);
    r = tri_cpu_delta_scale(x, ld);
    along = tri_cpu_delta_dot(x, dy, ld) * r * r;
#pragma omp simd
    for (int64_t i = 0; i < Dk; i++) dy[i] = r * scale * (dy[i] - x[i] * along);
    TRI_CPU_OF(c->in.A, tri_cpu_narrow, tri_cpu_at_out(c->dc, c->in.A, at), dy, Dk, 1.0f);
  }
}

/* Adds the sums over rows of element `which` behind a head's sums, in blocks of CHUNK rows. */
static float sum_rows(const grad_call *c, int64_t N, int h, int which) {
  const int64_t Dk = c->in.rule.Dk, Hv = c->in.rule.Hv;
  float         total = 0;

  for (int64_t first = 0; first < N; first += CHUNK) {
    float part = 0;
    for (int64_t n = first; n < N && n < first + CHUNK; n++)
      part += c->sums[(n * Hv + h) * (2 * Dk + 2) + 2 * Dk + which];
    total += part;
  }
  return total;
}

tri_status tri_cpu_delta_bwd(tri_stream *s, tri_out dc, tri_out dba, tri_out dA_log, tri_out ddt_bias,
                             tri_out work, tri_in dout, tri_in c, tri_in ba, tri_in A_log, tri_in dt_bias,
                             tri_in cu, const tri_delta_rule *rule) {
  const int32_t *first_row = cu->data;
  int64_t        N = c->dim[0], S = cu->dim[0] - 1;
  int            Hv = rule->Hv, Hk = rule->Hk, threads = tri_cpu_threads(s, 4 * N * tri_delta_state(rule));
  grad_call      call = {.in = tri_cpu_delta_open(c, ba, A_log, dt_bias, rule),
                         .dc = dc->data,
                         .dba = dba->data,
                         .dout = dout->data,
                         .kept = work->data};

  TRI_ASSERT(work->dtype == TRI_F32 && tri_tensor_count(work) >= tri_delta_work(rule, N));
  TRI_ASSERT(S >= 0 && first_row[S] == N && tri_cpu_same_rows(dc, c) && tri_cpu_same_rows(dba, ba));
  TRI_ASSERT(dout->dtype == c->dtype && dout->dim[0] == N && dout->dim[1] == (int64_t)Hv * rule->Dv);
  TRI_ASSERT(!dA_log == !ddt_bias);
  TRI_ASSERT(!dA_log || (dA_log->dtype == TRI_F32 && ddt_bias->dtype == TRI_F32));
  TRI_ASSERT(!dA_log || (dA_log->dim[0] == Hv && ddt_bias->dim[0] == Hv));
  call.sums = call.kept + (N + CHUNK - 1) / CHUNK * tri_delta_state(rule);
  TRI_TRY(tri_cpu_check_stack(threads));
#pragma omp parallel num_threads(threads)
  {
#pragma omp for collapse(2) schedule(dynamic)
    for (int64_t seq = 0; seq < S; seq++)
      for (int h = 0; h < Hv; h++) {
        grad_state a;
        int64_t start = first_row[seq], end = first_row[seq + 1], chunks = (end - start + CHUNK - 1) / CHUNK;
        memset(a.dS, 0,
               (size_t)((rule->Dv + COLS - 1) / COLS * COLS) * (size_t)((rule->Dk + 15) / 16 * 16) *
                   sizeof *a.dS);
        for (int64_t i = 0; i + 1 < chunks; i++) do_chunk(&a, &call, start, end, i, h, false);
        for (int64_t i = chunks - 1; i >= 0; i--) do_chunk(&a, &call, start, end, i, h, true);
      }
#pragma omp for collapse(2) schedule(static) nowait
    for (int64_t n = 0; n < N; n++)
      for (int h = 0; h < Hk; h++) norm_heads(&call, n, h);
#pragma omp for schedule(static)
    for (int h = 0; h < (dA_log ? Hv : 0); h++) {
      ((float *)dA_log->data)[h] += sum_rows(&call, N, h, 0);
      ((float *)ddt_bias->data)[h] += sum_rows(&call, N, h, 1);
    }
  }
  return TRI_OK;
}
