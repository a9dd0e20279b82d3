/* attention_bwd.c - gradient of causal attention: Dao 2023 (FlashAttention-2), algorithm 2.
 *
 * One thread owns one sequence and key/value head. Tiles hold keys as rows and queries as lanes, so that
 * lse and delta are vectors. dk and dv collect in `work`, over heads and query tiles in fixed order. */
#include "attention_pairs.h"

#include <string.h>

enum { BLOCK = 8, TILE = TRI_PAGE * TRI_CPU_LD, TURNED = TRI_CPU_MAX_D * TRI_PAGE };

typedef struct grad_call { /* the arguments of one attn_bwd */
  void        *dqkv;
  const void  *dout, *o, *qkv;
  const float *lse;
  float       *dkv; /* f32 [N,2,G,D] */
  tri_dtype    A;
  int64_t      E;
  int          H, G, D;
  float        scale, cap;
  int64_t      window;
} grad_call;

typedef struct grad_state {                              /* of one tile of queries and one tile of keys */
  float q[TILE], dout[TILE], dq[TILE], k[TILE], v[TILE]; /* [TRI_PAGE,TRI_CPU_LD] */
  float q_turned[TURNED], dout_turned[TURNED];           /* [D,TRI_PAGE] */
  float p[TRI_PAGE * TRI_PAGE], ds[TRI_PAGE * TRI_PAGE]; /* [key, query] */
  float ds_turned[TRI_PAGE * TRI_PAGE];                  /* [query, key] */
  float lse[TRI_PAGE], delta[TRI_PAGE];
} grad_state;
_Static_assert(sizeof(grad_state) <= TRI_CPU_FRAME_BYTES, "tri_cpu_check_stack");

/* delta = sum over D of dout * o, the row sum that softmax's gradient subtracts. */
static float row_delta(const float *dout, const void *o, tri_dtype A, int64_t at, int D) {
  float lane[TRI_CPU_LANES] = {0};
  for (int d = 0; d < D; d += TRI_CPU_LANES) {
    int n = D - d < TRI_CPU_LANES ? D - d : TRI_CPU_LANES;
    for (int i = 0; i < n; i++) lane[i] = fmaf(dout[d + i], tri_cpu_get(o, A, at + d + i), lane[i]);
  }
  return tri_cpu_fold_sum(lane);
}

/* Load n queries from batch row `row` on, of head h. */
static void load_queries(grad_state *a, const grad_call *c, int64_t row, int n, int h) {
  int         D = c->D;
  const void *q = tri_cpu_at(c->qkv, c->A, row * c->E + (int64_t)h * D);
  const void *dout = tri_cpu_at(c->dout, c->A, (row * c->H + h) * D);

  tri_cpu_tile_rows(a->q, TRI_CPU_LD, q, c->A, c->E, n, D, c->scale);
  tri_cpu_tile_turn(a->q_turned, q, c->A, c->E, n, D, c->scale);
  tri_cpu_tile_rows(a->dout, TRI_CPU_LD, dout, c->A, (int64_t)c->H * D, n, D, 1.0f);
  tri_cpu_tile_turn(a->dout_turned, dout, c->A, (int64_t)c->H * D, n, D, 1.0f);
  for (int i = 0; i < TRI_PAGE; i++) {
    int64_t at = (row + i) * c->H + h;
    a->lse[i] = i < n ? c->lse[at] : INFINITY;
    a->delta[i] = i < n ? row_delta(a->dout + i * TRI_CPU_LD, c->o, c->A, at * D, D) : 0;
    memset(a->dq + i * TRI_CPU_LD, 0, (size_t)D * sizeof *a->dq);
  }
}

/* Scores and their gradient from the products: p = exp(s - lse), ds = p (dp - delta). Queries first .. end
 * - 1 of the tile see the key. */
static inline void grad_row(float *restrict p, float *restrict ds, const float *lse, const float *delta,
                            int first, int end) {
#pragma omp        simd
  for (int i = 0; i < TRI_PAGE; i++) {
           float e = i < first || i >= end ? 0.0f : tri_exp(p[i] - lse[i]);
           p[i] = e;
           ds[i] = e * (ds[i] - delta[i]);
  }
}
/* The same of capped scores: their slope joins ds. */
static inline void grad_row_capped(float *restrict p, float *restrict ds, const float *lse,
                                   const float *delta, int first, int end, float cap) {
  float inverse = 1.0f / cap;
#pragma omp simd
  for (int i = 0; i < TRI_PAGE; i++) {
    float x = tri_softcap(p[i], cap, inverse), e = i < first || i >= end ? 0.0f : tri_exp(x - lse[i]);
    p[i] = e;
    ds[i] = e * (ds[i] - delta[i]) * tri_softcap_slope(x, inverse);
  }
}

/* Where a tile of queries and one of keys lie: `ahead` rows from the first key to the first query. */
typedef struct grad_place {
  int     n_q, n_k;
  int64_t ahead;
} grad_place;

/* One tile of keys meets the loaded tile of queries. On the diagonal both start at the same position; rows
 * and lanes that see nothing are left out there. dk, dv point to the first key's row in work. */
static void grad_tile(grad_state *a, const grad_call *c, float *dk, float *dv, int64_t ld,
                      const grad_place *at) {
  int  half = TRI_PAGE / 2, D = c->D, n_q = at->n_q, n_k = at->n_k;
  bool diagonal = at->ahead == 0;

  for (int k = 0; k < n_k; k += BLOCK) {
    int    n = n_k - k < BLOCK ? n_k - k : BLOCK, lane = diagonal && k >= half ? half : 0;
    int    from = diagonal ? k : 0;
    float *p = a->p + k * TRI_PAGE, *ds = a->ds + k * TRI_PAGE;
    if (lane > 0)
      memset(p, 0, (size_t)(n * TRI_PAGE) * sizeof *p), memset(ds, 0, (size_t)(n * TRI_PAGE) * sizeof *ds);
    tri_cpu_tile_mul(p + lane, TRI_PAGE, a->k + k * TRI_CPU_LD, TRI_CPU_LD, a->q_turned + lane, n, D,
                     TRI_PAGE - lane);
    tri_cpu_tile_mul(ds + lane, TRI_PAGE, a->v + k * TRI_CPU_LD, TRI_CPU_LD, a->dout_turned + lane, n, D,
                     TRI_PAGE - lane);
    for (int r = 0; r < n; r++) {
      int64_t far = k + r + c->window - at->ahead; /* the first query that sees the key no more */
      int     first = diagonal ? k + r : 0, end = c->window == 0 || far > TRI_PAGE ? TRI_PAGE : (int)far;
      float  *pr = p + r * TRI_PAGE, *dsr = ds + r * TRI_PAGE;
      if (c->cap > 0)
        grad_row_capped(pr, dsr, a->lse, a->delta, first, end, c->cap);
      else
        grad_row(pr, dsr, a->lse, a->delta, first, end);
    }
    tri_cpu_tile_add(dv + k * ld, ld, p + from, TRI_PAGE, a->dout + from * TRI_CPU_LD, n, n_q - from, D);
    tri_cpu_tile_add(dk + k * ld, ld, ds + from, TRI_PAGE, a->q + from * TRI_CPU_LD, n, n_q - from, D);
  }
  for (int q = 0; q < n_q; q++)
    for (int k = 0; k < n_k; k++) a->ds_turned[q * TRI_PAGE + k] = a->ds[k * TRI_PAGE + q];
  for (int q = 0; q < n_q; q += BLOCK) {
    int n = n_q - q < BLOCK ? n_q - q : BLOCK, seen = diagonal && q + n < n_k ? q + n : n_k;
    tri_cpu_tile_add(a->dq + q * TRI_CPU_LD, TRI_CPU_LD, a->ds_turned + q * TRI_PAGE, TRI_PAGE, a->k, n, seen,
                     D);
  }
}

/* All of the sequence of rows start..end and key/value head g. */
static void grad_sequence(grad_state *a, const grad_call *c, int64_t start, int64_t end, int g) {
  int     D = c->D, group = c->H / c->G;
  int64_t ld = 2 * (int64_t)c->G * D;
  float  *dk = c->dkv + start * ld + (int64_t)g * D, *dv = dk + (int64_t)c->G * D;

  for (int64_t t = 0; t < end - start; t++) {
    memset(dk + t * ld, 0, (size_t)D * sizeof *dk);
    memset(dv + t * ld, 0, (size_t)D * sizeof *dv);
  }
  for (int h = g * group; h < (g + 1) * group; h++)
    for (int64_t q = 0; q < end - start; q += TRI_PAGE) {
      int n_q = (int)(end - start - q < TRI_PAGE ? end - start - q : TRI_PAGE);
      load_queries(a, c, start + q, n_q, h);
      for (int64_t k = tri_cpu_first_tile(q, c->window); k <= q; k += TRI_PAGE) {
        int         n_k = k < q ? TRI_PAGE : n_q;
        const void *from = tri_cpu_at(c->qkv, c->A, (start + k) * c->E + (int64_t)(c->H + g) * D);
        tri_cpu_tile_rows(a->k, TRI_CPU_LD, from, c->A, c->E, n_k, D, 1.0f);
        tri_cpu_tile_rows(a->v, TRI_CPU_LD, tri_cpu_at(from, c->A, (int64_t)c->G * D), c->A, c->E, n_k, D,
                          1.0f);
        grad_tile(a, c, dk + k * ld, dv + k * ld, ld, &(grad_place){n_q, n_k, q - k});
      }
      for (int i = 0; i < n_q; i++)
        TRI_CPU_OF(c->A, tri_cpu_narrow,
                   tri_cpu_at_out(c->dqkv, c->A, (start + q + i) * c->E + (int64_t)h * D),
                   a->dq + i * TRI_CPU_LD, D, c->scale);
    }
  for (int64_t t = 0; t < end - start; t++) {
    int64_t at = (start + t) * c->E + (int64_t)(c->H + g) * D;
    TRI_CPU_OF(c->A, tri_cpu_narrow, tri_cpu_at_out(c->dqkv, c->A, at), dk + t * ld, D, 1.0f);
    TRI_CPU_OF(c->A, tri_cpu_narrow, tri_cpu_at_out(c->dqkv, c->A, at + (int64_t)c->G * D), dv + t * ld, D,
               1.0f);
  }
}

tri_status tri_cpu_attn_bwd(tri_stream *s, tri_out dqkv, tri_out work, tri_in dout, tri_in o, tri_in lse,
                            tri_in qkv, tri_in cu, const tri_attn_rule *rule) {
  const tri_heads *h = &rule->heads;
  const int32_t   *first_row = cu->data;
  int64_t          N = qkv->dim[0], E = qkv->dim[1], S = cu->dim[0] - 1;
  grad_call c = {dqkv->data, dout->data, o->data, qkv->data, lse->data,   work->data,    tri_cpu_type(qkv),
                 E,          h->H,       h->G,    h->D,      rule->scale, rule->softcap, rule->window};

  TRI_ASSERT(h->D > 0 && h->D <= TRI_CPU_MAX_D && h->G > 0 && h->H % h->G == 0);
  TRI_ASSERT(E == (int64_t)(h->H + 2 * h->G) * h->D && first_row[S] == N);
  TRI_ASSERT(tri_tensor_count(work) >= tri_attn_work(h, N) && work->dtype == TRI_F32);
  TRI_ASSERT(dqkv->dtype == qkv->dtype && dout->dtype == qkv->dtype && o->dtype == qkv->dtype);
  TRI_TRY(tri_cpu_check_stack(tri_cpu_threads(s, 32 * N * E)));
  if (tri_cpu_in_pairs(c.A)) return tri_cpu_pairs_bwd(s, dqkv, work, dout, o, lse, qkv, cu, rule);
#pragma omp parallel for collapse(2) schedule(dynamic) num_threads(tri_cpu_threads(s, 32 * N * E))
  for (int64_t seq = 0; seq < S; seq++)
    for (int g = 0; g < h->G; g++) {
      grad_state a;
      if (first_row[seq + 1] > first_row[seq]) grad_sequence(&a, &c, first_row[seq], first_row[seq + 1], g);
    }
  return TRI_OK;
}
