/* attention_pairs_bwd.c - gradient of causal attention of bf16 with the processor's own bf16 products, by Dao
 * 2023 (FlashAttention-2), algorithm 2.
 *
 * One thread owns one sequence and part of the query heads of a key/value head (tri_attn_parts). A block of
 * queries is multiplied by blocks of keys, 16 keys at a time. Keys are rows and queries lanes. So lse and
 * delta are vectors, and the weights are the left operand of dv and dk without a transposition. Weights and
 * their gradient are rounded to bf16 for the products. dk and dv are summed in `work`, over heads and blocks
 * in fixed order. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "attention_pairs.h"

#include <string.h>

#if TRI_PAIRS_X86

enum {
  BLOCK = TRI_PAIRS_BLOCK,
  PANELS = TRI_PAIRS_PANELS,
  STRIP = TRI_PAIRS_ROWS,
  WIDE = 256,                           /* wider heads use blocks of half the size */
  ALL = BLOCK * WIDE,                   /* elements of a block */
  PANEL = TRI_CPU_MAX_D / 2 * TRI_PAGE, /* pairs of a panel */
};

typedef struct grad_call { /* the arguments of one attn_bwd */
  uint16_t       *dqkv;
  const uint16_t *dout, *o, *qkv;
  const float    *lse;
  float          *dkv; /* f32 [parts,N,2,G,D] */
  int64_t         N, E, window;
  /* Rows of a block. D is padded to 32 as depth (dk), to 16 as columns (dv). */
  int   H, G, D, block, dk, dv;
  float scale, cap;
} grad_call;

typedef struct grad_state { /* one block of queries and one block of keys */
  const tri_pairs *x;
  tri_pairs_slope  slope;
  uint32_t q_turned[PANELS][PANEL], dout_turned[PANELS][PANEL]; /* panels [dk/2,TRI_PAGE,2] of queries */
  uint32_t q[PANELS][PANEL], dout[PANELS][PANEL];               /* panels [TRI_PAGE/2,dv,2] of queries */
  uint16_t k[ALL], v[ALL];                                      /* [keys,dk] */
  uint32_t k_pair[ALL / 2];                                     /* [keys/2,dv,2] */
  uint32_t k_turned[TRI_CPU_MAX_D * BLOCK / 2];                 /* bf16 [dv,BLOCK] */
  /* [dv,BLOCK], queries in the order of tri_pairs_place */
  float    dq[TRI_CPU_MAX_D * BLOCK];
  float    dq_rows[ALL];                        /* [BLOCK,dv] */
  float    s[STRIP * BLOCK], dp[STRIP * BLOCK]; /* [key,query] */
  uint16_t p[STRIP * BLOCK], ds[STRIP * BLOCK];
  uint32_t ds_pair[BLOCK / 2 * BLOCK]; /* [key/2,query,2] */
  float    sum[STRIP * TRI_CPU_MAX_D];
} grad_state;
_Static_assert(sizeof(grad_state) <= TRI_CPU_FRAME_BYTES, "tri_cpu_check_stack");

static inline int pad(int n, int to) { return (n + to - 1) / to * to; }
static inline int least(int64_t a, int b) { return a < b ? (int)a : b; }
static inline int within(int64_t n, int most) { return n < 0 ? 0 : n > most ? most : (int)n; }

/* delta = sum over D of dout * o. The gradient of softmax subtracts this row sum. */
static float row_delta(const uint16_t *dout, const uint16_t *o, int D) {
  float lane[TRI_CPU_LANES] = {0};
  for (int d = 0; d < D; d += TRI_CPU_LANES) {
    int n = D - d < TRI_CPU_LANES ? D - d : TRI_CPU_LANES;
    for (int i = 0; i < n; i++)
      lane[i] = fmaf(tri_bf16_to_f32(dout[d + i]), tri_bf16_to_f32(o[d + i]), lane[i]);
  }
  return tri_cpu_fold_sum(lane);
}

/* Copies n rows of x into both kinds of panels. */
static void load_panels(uint32_t turned[PANELS][PANEL], uint32_t pairs[PANELS][PANEL], const uint16_t *x,
                        int64_t ld, int n, const grad_call *c) {
  for (int i = 0; i * TRI_PAGE < n; i++) {
    int             here = least(n - i * TRI_PAGE, TRI_PAGE);
    const uint16_t *from = x + i * TRI_PAGE * ld;
    memset(turned[i], 0, (size_t)(c->dk / 2 * TRI_PAGE) * sizeof *turned[i]);
    tri_pairs_turn(turned[i], TRI_PAGE, (const uint32_t *)(const void *)from, ld / 2, here, c->D / 2);
    tri_pairs_zip(pairs[i], c->dv, from, ld, here, c->D, TRI_PAGE / 2);
  }
}

/* Loads n queries of head h from batch row `row` on. */
static void load_queries(grad_state *a, const grad_call *c, int64_t row, int n, int h) {
  int64_t         ld = (int64_t)c->H * c->D;
  const uint16_t *dout = c->dout + row * ld + (int64_t)h * c->D, *o = c->o + row * ld + (int64_t)h * c->D;

  load_panels(a->q_turned, a->q, c->qkv + row * c->E + (int64_t)h * c->D, c->E, n, c);
  load_panels(a->dout_turned, a->dout, dout, ld, n, c);
  for (int i = 0; i < BLOCK; i++) {
    a->slope.lse[i] = i < n ? c->lse[(row + i) * c->H + h] : INFINITY;
    a->slope.delta[i] = i < n ? row_delta(dout + i * ld, o + i * ld, c->D) : 0;
  }
  memset(a->dq, 0, (size_t)(c->dv * BLOCK) * sizeof *a->dq);
}

/* Loads n keys and their values from batch row `row` on. */
static void load_keys(grad_state *a, const grad_call *c, int64_t row, int n, int g) {
  const uint16_t *k = c->qkv + row * c->E + (int64_t)(c->H + g) * c->D;
  int             rows = pad(n, TRI_PAGE);

  tri_pairs_rows(a->k, c->dk, k, c->E, n, rows, c->D);
  tri_pairs_rows(a->v, c->dk, k + (int64_t)c->G * c->D, c->E, n, rows, c->D);
  tri_pairs_zip(a->k_pair, c->dv, k, c->E, n, c->D, rows / 2);
  tri_pairs_turn(a->k_turned, BLOCK / 2, a->k_pair, c->dv, rows / 2, c->dv);
}

/* The position and size of a block of queries and a block of keys. `ahead` is the number of rows from the
 * first key to the first query. */
typedef struct grad_place {
  int     n_q, n_k;
  int64_t ahead;
} grad_place;

/* to[n_row] += the product of the strip's x with panels of queries. */
static void add_strip(grad_state *a, const grad_call *c, float *to, int64_t ld, const uint16_t *x,
                      uint32_t panel[PANELS][PANEL], int from, int end, int n_row) {
  const uint32_t *at[PANELS];

  for (int i = from; i < end; i++) at[i] = panel[i];
  memset(a->sum, 0, (size_t)(STRIP * c->dv) * sizeof *a->sum);
  a->x->sums(a->sum, c->dv, x + from * TRI_PAGE, BLOCK, at + from, NULL, c->dv, end - from, n_row, c->dv);
  for (int r = 0; r < n_row; r++) {
#pragma omp simd
    for (int d = 0; d < c->D; d++) to[r * ld + d] += a->sum[r * c->dv + d];
  }
}

/* Processes the 16 keys of the block from `key` on with the queries. dk and dv point to the keys' rows in
 * work. */
static void grad_strip(grad_state *a, const grad_call *c, float *dk, float *dv, int64_t ld, int key,
                       const grad_place *at) {
  int             n_row = least(at->n_k - key, STRIP), first[STRIP], end[STRIP], from, to;
  const uint32_t *q[PANELS], *dout[PANELS];

  for (int r = 0; r < STRIP; r++) {
    int64_t see = key + r - at->ahead; /* the first query that sees the key */
    first[r] = r < n_row ? within(see, at->n_q) : at->n_q;
    end[r] = r < n_row && c->window > 0 ? within(see + c->window, at->n_q) : at->n_q;
  }
  from = first[0] / TRI_PAGE, to = (end[n_row - 1] + TRI_PAGE - 1) / TRI_PAGE;
  if (from > 0 || to * TRI_PAGE < BLOCK)
    memset(a->ds_pair + key / 2 * BLOCK, 0, (size_t)(STRIP / 2 * BLOCK) * sizeof *a->ds_pair);
  if (from >= to) return;
  for (int i = from; i < to; i++) q[i] = a->q_turned[i], dout[i] = a->dout_turned[i];
  a->x->scores(a->s + from * TRI_PAGE, BLOCK, a->k + key * c->dk, c->dk, q + from, NULL, to - from, STRIP,
               c->dk);
  a->x->scores(a->dp + from * TRI_PAGE, BLOCK, a->v + key * c->dk, c->dk, dout + from, NULL, to - from, STRIP,
               c->dk);
  for (int r = 0; r < STRIP; r += 2)
    tri_pairs_grad(&a->slope, a->s + r * BLOCK, a->dp + r * BLOCK, a->p + r * BLOCK, a->ds + r * BLOCK,
                   a->ds_pair + (key + r) / 2 * BLOCK, from, to, first + r, end + r);
  add_strip(a, c, dv, ld, a->p, a->dout, from, to, n_row);
  add_strip(a, c, dk, ld, a->ds, a->q, from, to, n_row);
}

/* dq += k ds, for two panels of queries at a time, with the keys they see. */
static void grad_queries(grad_state *a, const grad_call *c, const grad_place *at) {
  const uint16_t *turned = (const uint16_t *)(const void *)a->k_turned;
  const uint32_t *ds[PANELS];

  for (int q = 0; q < at->n_q; q += 2 * TRI_PAGE) {
    int last = least(at->n_q, q + 2 * TRI_PAGE); /* end of these queries */
    int seen = within(at->ahead + last, at->n_k), n = (seen + TRI_PAGE - 1) / TRI_PAGE;
    int from = c->window > 0 ? within(at->ahead + q + 1 - c->window, at->n_k) / TRI_PAGE : 0;
    if (from >= n) continue;
    for (int i = from; i < n; i++) ds[i] = a->ds_pair + i * TRI_PAGE / 2 * BLOCK + q;
    for (int d = 0; d < c->dv; d += STRIP)
      a->x->sums(a->dq + d * BLOCK + q, BLOCK, turned + d * BLOCK + from * TRI_PAGE, BLOCK, ds + from, NULL,
                 BLOCK, n - from, STRIP, pad(last - q, TRI_PAGE));
  }
}

static void grad_block(grad_state *a, const grad_call *c, float *dk, float *dv, int64_t ld,
                       const grad_place *at) {
  int rows = pad(at->n_k, TRI_PAGE);

  for (int key = 0; key < at->n_k; key += STRIP) grad_strip(a, c, dk + key * ld, dv + key * ld, ld, key, at);
  if (rows - at->n_k >= STRIP)
    memset(a->ds_pair + (rows - STRIP) / 2 * BLOCK, 0, (size_t)(STRIP / 2 * BLOCK) * sizeof *a->ds_pair);
  grad_queries(a, c, at);
}

/* Writes the gradient of the loaded queries to the rows from batch row `row` on. */
static void put_queries(grad_state *a, const grad_call *c, int64_t row, int n, int h) {
  tri_pairs_turn((uint32_t *)(void *)a->dq_rows, c->dv, (const uint32_t *)(const void *)a->dq, BLOCK, c->dv,
                 pad(n, TRI_PAGE));
  for (int i = 0; i < n; i++)
    tri_cpu_narrow(TRI_BF16, c->dqkv + (row + i) * c->E + (int64_t)h * c->D,
                   a->dq_rows + tri_pairs_place(i) * c->dv, c->D, c->scale);
}

/* Processes query heads h .. end - 1 of key/value head g in the sequence of rows start..stop. dkv belongs to
 * their part. */
static void grad_sequence(grad_state *a, const grad_call *c, float *dkv, int64_t start, int64_t stop, int g,
                          int h, int end) {
  int64_t ld = 2 * (int64_t)c->G * c->D;
  float  *dk = dkv + start * ld + (int64_t)g * c->D, *dv = dk + (int64_t)c->G * c->D;

  for (int64_t t = 0; t < stop - start; t++) {
    memset(dk + t * ld, 0, (size_t)c->D * sizeof *dk);
    memset(dv + t * ld, 0, (size_t)c->D * sizeof *dv);
  }
  for (; h < end; h++)
    for (int64_t q = 0; q < stop - start; q += c->block) {
      int     n_q = least(stop - start - q, c->block);
      int64_t key = c->window > 0 && q >= c->window ? (q + 1 - c->window) / c->block * c->block : 0;
      load_queries(a, c, start + q, n_q, h);
      for (; key <= q; key += c->block) {
        int n_k = key < q ? c->block : n_q;
        load_keys(a, c, start + key, n_k, g);
        grad_block(a, c, dk + key * ld, dv + key * ld, ld, &(grad_place){n_q, n_k, q - key});
      }
      put_queries(a, c, start + q, n_q, h);
    }
}

/* Writes row n of dk and dv, the sums over all parts, rounded. */
static void put_keys(const grad_call *c, int64_t n, int n_part) {
  int64_t width = (int64_t)c->G * c->D, part = c->N * 2 * width;
  float  *x = c->dkv + n * 2 * width;

  for (int i = 1; i < n_part; i++) {
#pragma omp simd
    for (int64_t e = 0; e < 2 * width; e++) x[e] += x[i * part + e];
  }
  tri_cpu_narrow(TRI_BF16, c->dqkv + n * c->E + (int64_t)c->H * c->D, x, width, c->scale);
  tri_cpu_narrow(TRI_BF16, c->dqkv + n * c->E + (int64_t)c->H * c->D + width, x + width, width, 1.0f);
}

tri_status tri_cpu_pairs_bwd(tri_stream *s, tri_out dqkv, tri_out work, tri_in dout, tri_in o, tri_in lse,
                             tri_in qkv, tri_in cu, const tri_attn_rule *rule) {
  const tri_heads *h = &rule->heads;
  const int32_t   *first_row = cu->data;
  int64_t          N = qkv->dim[0], E = qkv->dim[1], S = cu->dim[0] - 1;
  int              group = h->H / h->G, n_part = tri_attn_parts(h), each = (group + n_part - 1) / n_part;
  grad_call        c = {.dqkv = dqkv->data, .dout = dout->data, .o = o->data, .qkv = qkv->data};

  c.lse = lse->data, c.dkv = work->data, c.N = N, c.E = E, c.window = rule->window;
  c.H = h->H, c.G = h->G, c.D = h->D, c.block = h->D > WIDE ? BLOCK / 2 : BLOCK;
  c.dk = pad(h->D, 32), c.dv = pad(h->D, 16), c.scale = rule->scale, c.cap = rule->softcap;
#pragma omp parallel num_threads(tri_cpu_threads(s, 32 * N * E))
  {
#pragma omp for collapse(3) schedule(dynamic)
    for (int64_t seq = 0; seq < S; seq++)
      for (int g = 0; g < h->G; g++)
        for (int part = 0; part < n_part; part++) {
          grad_state a;
          int        at = g * group + part * each, end = part + 1 < n_part ? at + each : (g + 1) * group;
          if (first_row[seq + 1] == first_row[seq]) continue;
          a.x = tri_pairs_find();
          a.slope.scale = c.scale, a.slope.cap = c.cap;
          a.x->begin(TRI_PAIRS_ROWS);
          grad_sequence(&a, &c, c.dkv + part * N * 2 * h->G * h->D, first_row[seq], first_row[seq + 1], g, at,
                        end);
          a.x->end();
        }
#pragma omp for schedule(static)
    for (int64_t n = 0; n < N; n++) put_keys(&c, n, n_part);
  }
  return TRI_OK;
}
#endif
