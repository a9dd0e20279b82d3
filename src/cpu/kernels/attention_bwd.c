/* attention_bwd.c - gradient of causal attention, by Dao 2023 (FlashAttention-2), algorithm 2.
 *
 * One thread owns one sequence and key/value head. Tiles hold keys as rows and queries as lanes, so lse and
 * delta are vectors. dk and dv are summed in `work`, over heads and query tiles in fixed order. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "attention_pairs.h"

#include <string.h>

/* BLOCK keys form a register block. QUERIES and KEYS are the sizes of a tile, measured beside halves of both.
 * Heads wider than WIDE have half as many queries in a tile, in the same memory. */
enum { BLOCK = 8, QUERIES = 128, KEYS = 64, WIDE = 256, MAX_LD = TRI_CPU_MAX_D + 16 };
enum { TILE = QUERIES * (WIDE + 16), TURNED = QUERIES * WIDE };

typedef struct grad_call { /* the arguments of one attn_bwd */
  void        *dqkv;
  const void  *dout, *o, *qkv;
  const float *lse;
  float       *dkv; /* f32, [G,2,T,D] for each sequence */
  tri_dtype    A;
  int64_t      E;
  int          H, G, D;
  float        scale, cap;
  int64_t      window;
} grad_call;

typedef struct grad_state { /* one tile of queries and one tile of keys */
  const float *v;           /* [KEYS,ldv], own_v, or the f32 values in place */
  int64_t      ldv;
  int64_t      ld;                                     /* row stride of the next five */
  float        q[TILE], dout[TILE], dq[TILE];          /* [queries,ld] */
  float        k[KEYS * MAX_LD], own_v[KEYS * MAX_LD]; /* [KEYS,ld] */
  float        q_turned[TURNED], dout_turned[TURNED];  /* [queries / TRI_PAGE,D,TRI_PAGE] */
  float        p[BLOCK * QUERIES], ds[KEYS * QUERIES]; /* [key,query] */
  float        lse[QUERIES], delta[QUERIES];
} grad_state;
_Static_assert(sizeof(grad_state) <= TRI_CPU_FRAME_BYTES, "tri_cpu_check_stack");

/* delta = sum over D of dout * o. The gradient of softmax subtracts this row sum. */
static float row_delta(const float *dout, const void *o, tri_dtype A, int64_t at, int D) {
  float lane[TRI_CPU_LANES] = {0};
  for (int d = 0; d < D; d += TRI_CPU_LANES) {
    int n = D - d < TRI_CPU_LANES ? D - d : TRI_CPU_LANES;
    for (int i = 0; i < n; i++) lane[i] = fmaf(dout[d + i], tri_cpu_get(o, A, at + d + i), lane[i]);
  }
  return tri_cpu_fold_sum(lane);
}

/* Loads n queries of head h from batch row `row` on, with zeros up to a whole panel. */
static void load_queries(grad_state *a, const grad_call *c, int64_t row, int n, int h) {
  int         D = c->D;
  const void *q = tri_cpu_at(c->qkv, c->A, row * c->E + (int64_t)h * D);
  const void *dout = tri_cpu_at(c->dout, c->A, (row * c->H + h) * D);

  tri_cpu_tile_rows(a->q, a->ld, q, c->A, c->E, n, D, c->scale);
  tri_cpu_tile_rows(a->dout, a->ld, dout, c->A, (int64_t)c->H * D, n, D, 1.0f);
  for (int i = 0; i < n; i += TRI_PAGE) {
    int m = n - i < TRI_PAGE ? n - i : TRI_PAGE;
    tri_cpu_tile_turn(a->q_turned + i * D, a->q + i * a->ld, TRI_F32, a->ld, m, D, 1.0f);
    tri_cpu_tile_turn(a->dout_turned + i * D, a->dout + i * a->ld, TRI_F32, a->ld, m, D, 1.0f);
  }
  for (int i = 0; i < (n + TRI_PAGE - 1) / TRI_PAGE * TRI_PAGE; i++) {
    int64_t at = (row + i) * c->H + h;
    a->lse[i] = i < n ? c->lse[at] : INFINITY;
    a->delta[i] = i < n ? row_delta(a->dout + i * a->ld, c->o, c->A, at * D, D) : 0;
    memset(a->dq + i * a->ld, 0, (size_t)D * sizeof *a->dq);
  }
}

/* tri_cpu_tile_grad for capped scores. ds is also multiplied by the slope of the cap. */
static inline void grad_row_capped(float *restrict p, float *restrict ds, const float *lse,
                                   const float *delta, int n, int first, int end, float cap) {
  float inverse = 1.0f / cap;
#pragma omp simd
  for (int i = 0; i < n; i++) {
    float x = tri_softcap(p[i], cap, inverse), e = i < first || i >= end ? 0.0f : tri_exp(x - lse[i]);
    p[i] = e;
    ds[i] = e * (ds[i] - delta[i]) * tri_softcap_slope(x, inverse);
  }
}

/* The position and size of a tile of queries and a tile of keys. `ahead` is the number of rows from the first
 * key to the first query, negative if the keys begin behind it. */
typedef struct grad_place {
  int     n_q, n_k;
  int64_t ahead;
} grad_place;

static inline int clamp(int64_t n, int most) { return n < 0 ? 0 : n > most ? most : (int)n; }

/* Return the range of the tile's queries that see key k. */
static inline int first_query(const grad_place *at, int k) { return clamp(k - at->ahead, at->n_q); }
static inline int end_query(const grad_place *at, int k, int64_t window) {
  return window ? clamp(k - at->ahead + window, at->n_q) : at->n_q;
}

/* Processes n <= BLOCK keys from k on with all queries that see one of them. Computes ds for these, and adds
 * to dk and dv of the keys, with rows D apart in work. */
static void grad_keys(grad_state *a, const grad_call *c, float *dk, float *dv, const grad_place *at, int k,
                      int n) {
  int    D = c->D, first = first_query(at, k), end = end_query(at, k + n - 1, c->window);
  int    lane = first / TRI_PAGE * TRI_PAGE, stop = (end + TRI_PAGE - 1) / TRI_PAGE * TRI_PAGE;
  float *ds = a->ds + k * QUERIES;

  if (first >= end) return;
  for (int i = lane; i < stop; i += TRI_PAGE) {
    tri_cpu_tile_mul(a->p + i, QUERIES, a->k + k * a->ld, a->ld, a->q_turned + i * D, TRI_PAGE, n, D,
                     TRI_PAGE);
    tri_cpu_tile_mul(ds + i, QUERIES, a->v + k * a->ldv, a->ldv, a->dout_turned + i * D, TRI_PAGE, n, D,
                     TRI_PAGE);
  }
  for (int r = 0; r < n; r++) {
    int    from = first_query(at, k + r), to = end_query(at, k + r, c->window);
    float *p = a->p + r * QUERIES + lane, *d = ds + r * QUERIES + lane;
    if (c->cap > 0)
      grad_row_capped(p, d, a->lse + lane, a->delta + lane, stop - lane, from - lane, to - lane, c->cap);
    else
      tri_cpu_tile_grad(p, d, a->lse + lane, a->delta + lane, stop - lane, from - lane, to - lane);
  }
  tri_cpu_tile_add(dv + (int64_t)k * D, D, a->p + first, QUERIES, a->dout + first * a->ld, a->ld, n,
                   end - first, D);
  tri_cpu_tile_add(dk + (int64_t)k * D, D, ds + first, QUERIES, a->q + first * a->ld, a->ld, n, end - first,
                   D);
}

/* Processes one tile of keys with the loaded tile of queries. dk, dv point to the first key's row in work. */
static void grad_tile(grad_state *a, const grad_call *c, float *dk, float *dv, const grad_place *at) {
  for (int k = 0; k < at->n_k; k += BLOCK)
    grad_keys(a, c, dk, dv, at, k, at->n_k - k < BLOCK ? at->n_k - k : BLOCK);
  for (int q = 0; q < at->n_q; q += BLOCK) {
    int n = at->n_q - q < BLOCK ? at->n_q - q : BLOCK, end = clamp(q + n + at->ahead, at->n_k);
    int first = c->window ? clamp(q + at->ahead + 1 - c->window, at->n_k) : 0;
    tri_cpu_tile_add_turned(a->dq + q * a->ld, a->ld, a->ds + first * QUERIES + q, QUERIES,
                            a->k + first * a->ld, a->ld, n, end - first, c->D);
  }
}

/* Loads n keys of head g from batch row `row` on, and their values. */
static void load_keys(grad_state *a, const grad_call *c, int64_t row, int n, int g) {
  const void *k = tri_cpu_at(c->qkv, c->A, row * c->E + (int64_t)(c->H + g) * c->D);
  const void *v = tri_cpu_at(k, c->A, (int64_t)c->G * c->D);

  tri_cpu_tile_rows(a->k, a->ld, k, c->A, c->E, n, c->D, 1.0f);
  a->v = c->A == TRI_F32 ? v : a->own_v;
  a->ldv = c->A == TRI_F32 ? c->E : a->ld;
  if (c->A != TRI_F32) tri_cpu_tile_rows(a->own_v, a->ld, v, c->A, c->E, n, c->D, 1.0f);
}

/* Processes queries q..q+n_q of head h with all keys they see, in the sequence that starts at row `start`. */
static void grad_queries(grad_state *a, const grad_call *c, float *dk, float *dv, int64_t start, int64_t q,
                         int n_q, int g, int h) {
  int D = c->D;

  load_queries(a, c, start + q, n_q, h);
  for (int64_t k = tri_cpu_first_tile(q, c->window); k < q + n_q; k += KEYS) {
    int n_k = (int)(q + n_q - k < KEYS ? q + n_q - k : KEYS);
    load_keys(a, c, start + k, n_k, g);
    grad_tile(a, c, dk + k * D, dv + k * D, &(grad_place){n_q, n_k, q - k});
  }
  for (int i = 0; i < n_q; i++)
    TRI_CPU_OF(c->A, tri_cpu_narrow, tri_cpu_at_out(c->dqkv, c->A, (start + q + i) * c->E + (int64_t)h * D),
               a->dq + i * a->ld, D, c->scale);
}

/* Processes the sequence of rows start..end for key/value head g. */
static void grad_sequence(grad_state *a, const grad_call *c, int64_t start, int64_t end, int g) {
  int     D = c->D, group = c->H / c->G, n_query = D <= WIDE ? QUERIES : QUERIES * WIDE / TRI_CPU_MAX_D;
  int64_t T = end - start;
  float  *dk = c->dkv + 2 * ((int64_t)c->G * start + g * T) * D, *dv = dk + T * D;

  a->ld = tri_cpu_tile_ld(D);
  memset(dk, 0, (size_t)(2 * T * D) * sizeof *dk);
  for (int h = g * group; h < (g + 1) * group; h++)
    for (int64_t q = 0; q < T; q += n_query)
      grad_queries(a, c, dk, dv, start, q, (int)(T - q < n_query ? T - q : n_query), g, h);
  for (int64_t t = 0; t < T; t++) {
    int64_t at = (start + t) * c->E + (int64_t)(c->H + g) * D;
    TRI_CPU_OF(c->A, tri_cpu_narrow, tri_cpu_at_out(c->dqkv, c->A, at), dk + t * D, D, 1.0f);
    TRI_CPU_OF(c->A, tri_cpu_narrow, tri_cpu_at_out(c->dqkv, c->A, at + (int64_t)c->G * D), dv + t * D, D,
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
