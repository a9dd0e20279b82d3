/* attention.c - causal attention forward over packed sequences, and over cached pages for decoding.
 *
 * One row attends to its keys block by block (KEYS keys from the start of its sequence) with the online
 * softmax of Milakov, Gimelshein 2018 as in Dao 2023, algorithm 1. Only attend_block does so, for training
 * rows and decoding rows, so both get the same bits. Keys hidden from a row are never multiplied, not even by
 * zero. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "attention_pairs.h"

#include <string.h>

enum {
  BLOCK = 8,  /* rows per register block */
  ROWS = 256, /* rows (tokens x heads) that share the load of keys; measured, beside 64 and 128 */
  PANELS = 4, /* panels of TRI_PAGE keys in one softmax step of a row; measured, beside 1 and 2 */
  KEYS = PANELS * TRI_PAGE,
  WIDE = 256, /* wider heads have half as many rows in a block, in the same memory */
  MAX_LD = TRI_CPU_MAX_D + 16
};

typedef struct attend_state {             /* the rows of one thread and the keys they share */
  int64_t ld, ldv;                        /* row strides of q and o, and of v */
  float   q[ROWS * WIDE], o[ROWS * WIDE]; /* queries times scale; sums of p v */
  float   max[ROWS], sum[ROWS];           /* running maximum of the scores, sum of exp(score - max) */
  float   k[KEYS * TRI_CPU_MAX_D];        /* [PANELS,D,TRI_PAGE] */
  float   v[KEYS * MAX_LD];               /* [KEYS,ldv] */
} attend_state;
_Static_assert(sizeof(attend_state) <= TRI_CPU_FRAME_BYTES, "tri_cpu_check_stack");

static void set_strides(attend_state *a, int D) {
  a->ld = (D + 15) / 16 * 16;
  a->ldv = tri_cpu_tile_ld(D);
}

/* The addresses of a block's panels of keys [D,TRI_PAGE] and values [TRI_PAGE,ldv]. dense means the panels of
 * values are contiguous. */
typedef struct key_block {
  const float *k[PANELS], *v[PANELS];
  int64_t      ldv;
  bool         dense;
} key_block;

static inline int clamp_keys(int64_t n) { return n < 0 ? 0 : n > KEYS ? KEYS : (int)n; }

/* Round first and end to whole panels of a row's scores. */
static inline int panels_from(int first) { return first / TRI_PAGE * TRI_PAGE; }
static inline int panels_to(int end) { return (end + TRI_PAGE - 1) / TRI_PAGE * TRI_PAGE; }

/* Caps the scores of one row and block. Scores outside first .. end - 1, first < end, become -INFINITY in the
 * panels that overlap this range. Returns the largest score. */
static inline float mask_scores(float *restrict s, int first, int end, float cap) {
  int from = panels_from(first), to = panels_to(end);

  if (cap > 0) {
    float inverse = 1.0f / cap;
#pragma omp simd
    for (int i = first; i < end; i++) s[i] = tri_softcap(s[i], cap, inverse);
  }
  for (int i = from; i < first; i++) s[i] = -INFINITY;
  for (int i = end; i < to; i++) s[i] = -INFINITY;
  return tri_cpu_tile_top(s + from, to - from);
}

/* The keys of a block seen by the rows of a register block. Row r sees keys first[r] to before end[r]. */
typedef struct block_keys {
  int first[BLOCK], end[BLOCK];
} block_keys;

/* Returns the keys seen by rows `step` apart. The first row is `ahead` rows behind the block's first key. */
static inline block_keys keys_of(int64_t ahead, int64_t window, int step) {
  block_keys t;

  for (int r = 0; r < BLOCK; r++) {
    int64_t end = ahead + 1 + r * step;
    t.first[r] = window > 0 ? clamp_keys(end - window) : 0;
    t.end[r] = clamp_keys(end);
  }
  return t;
}

/* o += p v for keys [from, to), all n_row rows. */
static void add_keys(float *o, int64_t ld, const float *p, const key_block *b, int n_row, int D, int from,
                     int to) {
  for (int at = from, n; at < to; at += n) {
    n = TRI_PAGE - at % TRI_PAGE;
    if (b->dense || n > to - at) n = to - at;
    tri_cpu_tile_add(o, ld, p + at, KEYS, b->v[at / TRI_PAGE] + at % TRI_PAGE * b->ldv, b->ldv, n_row, n, D);
  }
}

/* o += p v, each row with its own keys in their order. Keys before those common to all rows come first, then
 * the common ones, then the rest. */
static void add_values(float *o, int64_t ld, const float *p, const key_block *b, int n_row, int D,
                       const block_keys *t) {
  int last = n_row - 1, from = t->first[last], to = t->end[0] > from ? t->end[0] : from;

  for (int r = 0; t->first[0] < from && r < last; r++)
    add_keys(o + r * ld, ld, p + r * KEYS, b, 1, D, t->first[r], t->end[r] < from ? t->end[r] : from);
  add_keys(o, ld, p, b, n_row, D, from, to);
  for (int r = 0; t->end[last] > to && r < n_row; r++)
    add_keys(o + r * ld, ld, p + r * KEYS, b, 1, D, t->first[r] > to ? t->first[r] : to, t->end[r]);
}

/* Computes the scores of n_row rows for all keys seen by any of them, and for some neighbours. */
static void score_keys(float *s, const float *q, int64_t ld, const key_block *b, int n_row, int D,
                       const block_keys *t) {
  for (int at = t->first[0] / TRI_PAGE * TRI_PAGE; at < t->end[n_row - 1]; at += TRI_PAGE) {
    int n = t->end[n_row - 1] - at > TRI_PAGE / 2 ? TRI_PAGE : TRI_PAGE / 2;
    tri_cpu_tile_mul(s + at, KEYS, q, ld, b->k[at / TRI_PAGE], TRI_PAGE, n_row, D, n);
  }
}

/* Attends n_row <= BLOCK rows from `row` on to one block of keys. */
static void attend_block(attend_state *a, int row, int n_row, const key_block *b, int D, float cap,
                         block_keys t) {
  float  s[BLOCK * KEYS], before[BLOCK], top[BLOCK];
  float  factor[BLOCK]; /* rescales the sums of earlier blocks */
  float *q = a->q + row * a->ld, *o = a->o + row * a->ld;

  if (t.end[n_row - 1] == 0 || t.first[0] == KEYS) return;
  score_keys(s, q, a->ld, b, n_row, D, &t);
  for (int r = 0; r < BLOCK; r++) {
    before[r] = top[r] = r < n_row ? a->max[row + r] : 0;
    if (r >= n_row || t.first[r] >= t.end[r]) continue;
    top[r] = tri_cpu_max(top[r], mask_scores(s + r * KEYS, t.first[r], t.end[r], cap));
  }
#pragma omp simd
  for (int r = 0; r < BLOCK; r++) factor[r] = tri_exp(before[r] - top[r]);
  for (int r = 0; r < n_row; r++) {
    if (t.first[r] >= t.end[r]) continue;
    int from = panels_from(t.first[r]), to = panels_to(t.end[r]);
    a->sum[row + r] =
        fmaf(a->sum[row + r], factor[r], tri_cpu_tile_weigh(s + r * KEYS + from, to - from, top[r]));
    a->max[row + r] = top[r];
    if (factor[r] != 1.0f) {
#pragma omp simd
      for (int d = 0; d < D; d++) o[r * a->ld + d] *= factor[r];
    }
  }
  add_values(o, a->ld, s, b, n_row, D, &t);
}

static void attend_begin(attend_state *a, int row, int n_row, int D) {
  for (int r = row; r < row + n_row; r++) {
    memset(a->o + r * a->ld, 0, (size_t)D * sizeof *a->o);
    a->max[r] = -INFINITY;
    a->sum[r] = 0;
  }
}

/* Writes row `row` of the state to o from element `at` on. */
static void attend_end(const attend_state *a, int row, void *o, tri_dtype A, int64_t at, int D) {
  TRI_CPU_OF(A, tri_cpu_narrow, tri_cpu_at_out(o, A, at), a->o + row * a->ld, D, 1.0f / a->sum[row]);
}

typedef struct attn_call { /* the arguments of one attn_fwd */
  void       *o;
  float      *lse;
  const void *qkv;
  tri_dtype   A;
  int64_t     E;
  int         H, G, D;
  float       scale, cap;
  int64_t     window;
} attn_call;

/* Returns the first key of the first block seen by a row at position `row` of its sequence. */
static inline int64_t first_block(int64_t row, int64_t window) {
  return tri_cpu_first_tile(row, window) / KEYS * KEYS;
}

/* Loads n_key keys and values of head g from batch row `row` on into a. */
static key_block load_keys(attend_state *a, const attn_call *c, int64_t row, int n_key, int g) {
  key_block b = {.ldv = a->ldv, .dense = true};
  for (int p = 0; p < PANELS; p++) {
    int     n = n_key - p * TRI_PAGE < TRI_PAGE ? n_key - p * TRI_PAGE : TRI_PAGE;
    int64_t at = (row + p * TRI_PAGE) * c->E + (int64_t)(c->H + g) * c->D;
    float  *k = a->k + p * TRI_PAGE * c->D, *v = a->v + p * TRI_PAGE * a->ldv;
    b.k[p] = k, b.v[p] = v;
    if (n <= 0) continue;
    tri_cpu_tile_turn(k, tri_cpu_at(c->qkv, c->A, at), c->A, c->E, n, c->D, 1.0f);
    tri_cpu_tile_rows(v, a->ldv, tri_cpu_at(c->qkv, c->A, at + (int64_t)c->G * c->D), c->A, c->E, n, c->D,
                      1.0f);
  }
  return b;
}

/* Processes rows first..first+n of the batch for heads h..h+n_head of the key/value head g. All rows belong
 * to the sequence that starts at row `start`. */
static void attend_rows(attend_state *a, const attn_call *c, int64_t start, int64_t first, int n, int g,
                        int h, int n_head) {
  int     D = c->D;
  int64_t last = first + n - 1 - start; /* position of the last row */

  for (int i = 0; i < n_head; i++)
    tri_cpu_tile_rows(a->q + i * n * a->ld, a->ld,
                      tri_cpu_at(c->qkv, c->A, first * c->E + (int64_t)(h + i) * D), c->A, c->E, n, D,
                      c->scale);
  attend_begin(a, 0, n * n_head, D);
  for (int64_t key = first_block(first - start, c->window); key <= last; key += KEYS) {
    int       n_key = (int)(last + 1 - key < KEYS ? last + 1 - key : KEYS);
    key_block b = load_keys(a, c, start + key, n_key, g);
    for (int i = 0; i < n_head; i++)
      for (int r = 0; r < n; r += BLOCK)
        attend_block(a, i * n + r, n - r < BLOCK ? n - r : BLOCK, &b, D, c->cap,
                     keys_of(first + r - start - key, c->window, 1));
  }
  for (int i = 0; i < n_head; i++)
    for (int r = 0; r < n; r++) {
      int64_t at = (first + r) * c->H + h + i;
      attend_end(a, i * n + r, c->o, c->A, at * D, D);
      c->lse[at] = a->max[i * n + r] + logf(a->sum[i * n + r]);
    }
}

static void check_heads(const tri_heads *h, int64_t E) {
  TRI_ASSERT(h->D > 0 && h->D <= TRI_CPU_MAX_D && h->G > 0 && h->H % h->G == 0);
  TRI_ASSERT(E == (int64_t)(h->H + 2 * h->G) * h->D);
}

tri_status tri_cpu_attn_fwd(tri_stream *s, tri_out o, tri_out lse, tri_in qkv, tri_in cu,
                            const tri_attn_rule *rule) {
  const tri_heads *h = &rule->heads;
  const int32_t   *first_row = cu->data;
  attn_call        c = {o->data, lse->data, qkv->data,   tri_cpu_type(qkv), qkv->dim[1], h->H,
                        h->G,    h->D,      rule->scale, rule->softcap,     rule->window};
  int64_t          N = qkv->dim[0], S = cu->dim[0] - 1;
  int              group = h->H / h->G, n_head = group < BLOCK ? group : BLOCK;
  int              n_row = h->D <= WIDE ? ROWS : ROWS * WIDE / TRI_CPU_MAX_D;
  int              n_token = n_row / n_head / BLOCK * BLOCK, n_part = (group + n_head - 1) / n_head;
  int64_t          n_block = (N + n_token - 1) / n_token;

  check_heads(h, c.E);
  TRI_ASSERT(o->dtype == qkv->dtype && first_row[S] == N);
  TRI_TRY(tri_cpu_check_stack(tri_cpu_threads(s, 16 * N * c.E)));
  if (tri_cpu_in_pairs(c.A)) return tri_cpu_pairs_fwd(s, o, lse, qkv, cu, rule);
#pragma omp parallel for schedule(dynamic) num_threads(tri_cpu_threads(s, 16 * N * c.E))
  for (int64_t unit = 0; unit < n_block * h->G * n_part; unit++) {
    attend_state a;
    int64_t      block = n_block - 1 - unit / (h->G * n_part), part = unit % n_part; /* long rows first */
    int64_t      end = (block + 1) * n_token < N ? (block + 1) * n_token : N;
    int          g = (int)(unit / n_part % h->G), at = (int)part * n_head;
    int          n_here = group - at < n_head ? group - at : n_head;
    set_strides(&a, h->D);
    for (int64_t n = block * n_token; n < end;) {
      int64_t seq = tri_cpu_find_sequence(first_row, S, n),
              stop = first_row[seq + 1] < end ? first_row[seq + 1] : end;
      attend_rows(&a, &c, first_row[seq], n, (int)(stop - n), g, g * group + at, n_here);
      n = stop;
    }
  }
  return TRI_OK;
}

tri_status tri_cpu_kv_put(tri_stream *s, tri_out k_page, tri_out v_page, tri_in qkv, tri_in slot,
                          const tri_heads *h) {
  const int32_t *to = slot->data;
  int64_t   N = qkv->dim[0], E = qkv->dim[1], D = h->D, G = h->G, slots = tri_tensor_count(k_page) / (G * D);
  tri_dtype A = tri_cpu_type(qkv);

  check_heads(h, E);
  TRI_ASSERT(k_page->dtype == qkv->dtype && v_page->dtype == qkv->dtype);
  if (tri_cpu_in_pairs(A)) return tri_cpu_pairs_put(s, k_page, v_page, qkv, slot, h);
#pragma omp parallel for collapse(2) schedule(static) num_threads(tri_cpu_threads(s, 2 * N * G * D))
  for (int64_t n = 0; n < N; n++)
    for (int64_t g = 0; g < G; g++) {
      int64_t page, place, k = n * E + (h->H + g) * D, v = k + G * D, head;
      if (to[n] < 0) continue;
      TRI_ASSERT(to[n] < slots);
      page = to[n] / TRI_PAGE, place = to[n] % TRI_PAGE, head = (page * G + g) * D * TRI_PAGE;
      if (A != TRI_F32) {
        const uint16_t *x = qkv->data;
        uint16_t       *kt = (uint16_t *)k_page->data + head + place;
        for (int64_t d = 0; d < D; d++) kt[d * TRI_PAGE] = x[k + d];
        memcpy((uint16_t *)v_page->data + head + place * D, x + v, (size_t)D * sizeof *x);
      } else {
        const float *x = qkv->data;
        float       *kt = (float *)k_page->data + head + place;
        for (int64_t d = 0; d < D; d++) kt[d * TRI_PAGE] = x[k + d];
        memcpy((float *)v_page->data + head + place * D, x + v, (size_t)D * sizeof *x);
      }
    }
  return TRI_OK;
}

typedef struct decode_call { /* the arguments of one attn_decode */
  const void    *k_page, *v_page;
  tri_dtype      A;
  const int32_t *page; /* page table of this row */
  int64_t        P;    /* number of pages */
  int            len, G, D;
  float          cap;
  int64_t        window;
} decode_call;

/* Returns the pages of keys from `key` on. f32 pages are used in place, other types are converted into a. */
static key_block find_keys(attend_state *a, const decode_call *c, int key, int g) {
  const int D = c->D, n_page = (c->len + TRI_PAGE - 1) / TRI_PAGE - key / TRI_PAGE;
  key_block b = {.ldv = c->A == TRI_F32 ? D : a->ldv, .dense = c->A != TRI_F32};
  for (int p = 0; p < (n_page < PANELS ? n_page : PANELS); p++) {
    int64_t page = c->page[key / TRI_PAGE + p], at = (page * c->G + g) * D * TRI_PAGE;
    float  *k = a->k + p * TRI_PAGE * D, *v = a->v + p * TRI_PAGE * a->ldv;
    int     n_key = c->len - key - p * TRI_PAGE < TRI_PAGE ? c->len - key - p * TRI_PAGE : TRI_PAGE;
    TRI_ASSERT(page >= 0 && page < c->P);
    b.k[p] = k, b.v[p] = v;
    if (c->A == TRI_F32) {
      b.k[p] = (const float *)c->k_page + at, b.v[p] = (const float *)c->v_page + at;
      continue;
    }
    TRI_CPU_OF(c->A, tri_cpu_widen, k, tri_cpu_at(c->k_page, c->A, at), D * TRI_PAGE, 1.0f);
    tri_cpu_tile_rows(v, a->ldv, tri_cpu_at(c->v_page, c->A, at), c->A, D, n_key, D, 1.0f);
  }
  return b;
}

/* Attends n_row heads of one token to all pages of key/value head g. */
static void decode_heads(attend_state *a, const decode_call *c, int n_row, int g) {
  for (int key = (int)first_block(c->len - 1, c->window); key < c->len; key += KEYS) {
    key_block b = find_keys(a, c, key, g);
    attend_block(a, 0, n_row, &b, c->D, c->cap, keys_of(c->len - 1 - key, c->window, 0));
  }
}

tri_status tri_cpu_rope_put(tri_stream *s, tri_out qkv, tri_out k_page, tri_out v_page, tri_in pos,
                            tri_in table, tri_in slot, const tri_heads *h) {
  TRI_TRY(tri_cpu_rope(s, qkv, pos, table, h, 1));
  return tri_cpu_kv_put(s, k_page, v_page, qkv, slot, h);
}

tri_status tri_cpu_attn_decode(tri_stream *s, tri_out o, tri_out work, tri_in qkv, tri_in k_page,
                               tri_in v_page, tri_in table, tri_in len, const tri_attn_rule *rule) {
  const tri_heads *h = &rule->heads;
  const int32_t   *n_key = len->data;
  int64_t          B = qkv->dim[0], E = qkv->dim[1], D = h->D;
  int64_t          n_page = tri_tensor_count(k_page) / (h->G * D * TRI_PAGE);
  int              group = h->H / h->G;
  tri_dtype        A = tri_cpu_type(qkv);

  (void)work;
  check_heads(h, E);
  TRI_ASSERT(o->dtype == qkv->dtype && k_page->dtype == qkv->dtype && v_page->dtype == qkv->dtype);
  TRI_TRY(tri_cpu_check_stack(tri_cpu_threads(s, tri_cpu_decode_work(h, table, len))));
  if (tri_cpu_in_pairs(A)) return tri_cpu_pairs_decode(s, o, work, qkv, k_page, v_page, table, len, rule);
#pragma omp parallel for collapse(2) schedule(dynamic)                                                       \
    num_threads(tri_cpu_threads(s, tri_cpu_decode_work(h, table, len)))
  for (int64_t b = 0; b < B; b++)
    for (int g = 0; g < h->G; g++) {
      attend_state a;
      decode_call  c = {k_page->data,  v_page->data, A,    (const int32_t *)table->data + b * table->dim[1],
                        n_page,        n_key[b],     h->G, h->D,
                        rule->softcap, rule->window};
      set_strides(&a, h->D);
      for (int at = 0; at < group; at += BLOCK) {
        int     n_row = group - at < BLOCK ? group - at : BLOCK;
        int64_t head = (int64_t)g * group + at;
        tri_cpu_tile_rows(a.q, a.ld, tri_cpu_at(qkv->data, A, b * E + head * D), A, D, n_row, h->D,
                          rule->scale);
        attend_begin(&a, 0, n_row, h->D);
        decode_heads(&a, &c, n_row, g);
        for (int r = 0; r < n_row; r++) attend_end(&a, r, o->data, A, (b * h->H + head + r) * D, h->D);
      }
    }
  return TRI_OK;
}

tri_status tri_cpu_attn_step(tri_stream *s, tri_out o, tri_out qkv, tri_out k_page, tri_out v_page,
                             const tri_step_at *at, const tri_attn_rule *rule) {
  const tri_heads *h = &rule->heads;

  check_heads(h, qkv->dim[1]);
  TRI_ASSERT(o->dtype == qkv->dtype && k_page->dtype == qkv->dtype && v_page->dtype == qkv->dtype);
  if (tri_cpu_in_pairs(tri_cpu_type(qkv)) && h->H / h->G <= TRI_PAIRS_ROWS) {
    TRI_TRY(tri_cpu_check_stack(tri_cpu_threads(s, tri_cpu_decode_work(h, at->table, at->len))));
    return tri_cpu_pairs_step(s, o, qkv, k_page, v_page, at, rule);
  }
  TRI_TRY(tri_cpu_rope_put(s, qkv, k_page, v_page, at->pos, at->turn, at->slot, h));
  return tri_cpu_attn_decode(s, o, at->work, qkv, k_page, v_page, at->table, at->len, rule);
}
