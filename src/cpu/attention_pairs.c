/* attention_pairs.c - causal attention of bf16 by the processor's own products: forward, and over cached
 * pages.
 *
 * As attention.c, but a row meets TRI_PAIRS_BLOCK keys at once and its weights are rounded to bf16 for the
 * product with the values. meet_block is the only code that does so: training rows and decoding rows get the
 * same bits. A weight of 0 adds nothing to a sum, whatever the finite value it meets; values that are not
 * finite are taken away from the rows that do not see them. Pages hold pairs: keys [P,G,D/2,TRI_PAGE,2],
 * values [P,G,TRI_PAGE/2,D,2]. */
#include "attention_pairs.h"

#include <string.h>

#if TRI_PAIRS_X86

enum {
  BLOCK = TRI_PAIRS_BLOCK,
  PANELS = TRI_PAIRS_PANELS,
  WIDE = 256,                           /* a head up to this width, */
  ROWS = 256,                           /* and so many rows (tokens x heads), share the load of a block; */
  HEADS = 8,                            /* wider ones half as many */
  ALL = WIDE * ROWS,                    /* elements */
  PANEL = TRI_CPU_MAX_D / 2 * TRI_PAGE, /* pairs of a panel */
};

typedef struct meet_state { /* of the rows one thread works on, and the block they share */
  const tri_pairs *x;
  int              D, dk, dv;             /* the width; padded to 32 as depth, to 16 as columns */
  float            scale, cap;            /* 0: none */
  const uint32_t  *k[PANELS], *v[PANELS]; /* panels [dk/2,TRI_PAGE,2] and [TRI_PAGE/2,ld_v,2] */
  int64_t          ld_v;                  /* pairs */
  bool             finite;                /* all of the block's values */
  uint16_t         q[ALL];                /* [rows,dk] */
  float            o[ALL];                /* [rows,dv], sums of p v */
  tri_pairs_rows16 rows[ROWS / TRI_PAIRS_ROWS];
  uint32_t         own_k[PANELS][PANEL], own_v[PANELS][PANEL], left_v[PANELS][PANEL];
  float            s[TRI_PAIRS_ROWS * BLOCK];
  uint16_t         p[TRI_PAIRS_ROWS * BLOCK];
} meet_state;
_Static_assert(sizeof(meet_state) <= TRI_CPU_FRAME_BYTES, "tri_cpu_check_stack");

static inline int pad(int n, int to) { return (n + to - 1) / to * to; }
static inline int least(int64_t a, int b) { return a < b ? (int)a : b; }
static inline int clamp(int64_t n) { return n < 0 ? 0 : n > BLOCK ? BLOCK : (int)n; }
/* The key that begins the first block a row at position `row` sees. */
static inline int64_t first_block(int64_t row, int64_t window) {
  return window > 0 && row >= window ? (row + 1 - window) / BLOCK * BLOCK : 0;
}

static void meet_open(meet_state *a, const tri_attn_rule *rule) {
  a->x = tri_pairs_find();
  a->D = rule->heads.D, a->dk = pad(a->D, 32), a->dv = pad(a->D, 16);
  a->scale = rule->scale, a->cap = rule->softcap;
  a->x->begin(TRI_PAIRS_ROWS);
}

/* Rows of groups 0 .. n_group - 1 have met no key. */
static void meet_begin(meet_state *a, int n_group) {
  memset(a->o, 0, (size_t)(n_group * TRI_PAIRS_ROWS * a->dv) * sizeof *a->o);
  memset(a->rows, 0, (size_t)n_group * sizeof *a->rows);
  for (int i = 0; i < n_group; i++)
    for (int r = 0; r < TRI_PAIRS_ROWS; r++) a->rows[i].max[r] = -INFINITY;
}

/* n_row rows of which the first is `ahead` rows behind the block's first key, each `step` behind the one
 * before it. */
static void see(tri_pairs_seen *seen, int64_t ahead, int64_t window, int step, int n_row) {
  for (int r = 0; r < n_row; r++) {
    int64_t end = ahead + 1 + r * step;
    seen->first[r] = window > 0 ? clamp(end - window) : 0;
    seen->end[r] = clamp(end);
  }
  seen->panel = seen->first[0] / TRI_PAGE;
  seen->panel_end = (seen->end[n_row - 1] + TRI_PAGE - 1) / TRI_PAGE;
}

/* to = the panel v with zeros for keys outside of first .. end - 1. */
static void leave_keys(uint32_t *to, const uint32_t *v, int64_t ld, int D, int first, int end) {
  for (int k = 0; k < TRI_PAGE; k += 2) {
    uint32_t mask = (k >= first && k < end ? 0xffffu : 0) | (k + 1 >= first && k + 1 < end ? 0xffff0000u : 0);
    for (int d = 0; d < D; d++) to[k / 2 * ld + d] = mask ? v[k / 2 * ld + d] & mask : 0;
  }
}

/* o += p v where some values are not finite: each row with the keys it sees alone. */
static void add_apart(meet_state *a, float *o, int n_row, const tri_pairs_seen *t) {
  float one[TRI_PAIRS_ROWS * TRI_CPU_MAX_D];

  for (int r = 0; r < n_row; r++) {
    const uint32_t *v[PANELS];
    for (int i = t->panel; i < t->panel_end; i++) {
      leave_keys(a->left_v[i], a->v[i], a->ld_v, a->D, t->first[r] - i * TRI_PAGE, t->end[r] - i * TRI_PAGE);
      v[i] = a->left_v[i];
    }
    memcpy(one, o + r * a->dv, (size_t)a->dv * sizeof *one);
    a->x->sums(one, a->dv, a->p + r * BLOCK + t->panel * TRI_PAGE, 0, v + t->panel, a->ld_v,
               t->panel_end - t->panel, 1, a->dv);
    memcpy(o + r * a->dv, one, (size_t)a->dv * sizeof *one);
  }
}

/* n_row rows of group `group` meet the block. */
static void meet_block(meet_state *a, int group, int n_row, const tri_pairs_seen *t) {
  int       from = t->panel * TRI_PAGE, n = t->panel_end - t->panel;
  uint16_t *q = a->q + group * TRI_PAIRS_ROWS * a->dk;
  float    *o = a->o + group * TRI_PAIRS_ROWS * a->dv;
  bool      whole = t->first[n_row - 1] == 0 && t->end[0] == BLOCK;

  if (n <= 0) return;
  a->x->scores(a->s + from, BLOCK, q, a->dk, a->k + t->panel, n, n_row, a->dk);
  if (tri_pairs_softmax(&a->rows[group], a->s, a->p, n_row, t, a->scale, a->cap))
    for (int r = 0; r < n_row; r++) {
      float factor = a->rows[group].factor[r], *row = o + r * a->dv;
#pragma omp simd
      for (int d = 0; d < a->dv; d++) row[d] *= factor;
    }
  if (a->finite || whole)
    a->x->sums(o, a->dv, a->p + from, BLOCK, a->v + t->panel, a->ld_v, n, n_row, a->dv);
  else
    add_apart(a, o, n_row, t);
}

/* Row `row` to o [D]. 0 is added so that a sum of nothing but zeros has one sign. */
static float meet_end(const meet_state *a, int row, uint16_t *o) {
  float sum = tri_pairs_sum(&a->rows[row / TRI_PAIRS_ROWS], row % TRI_PAIRS_ROWS), inverse = 1.0f / sum;
  const float *from = a->o + row * a->dv;
#pragma omp simd
  for (int d = 0; d < a->D; d++) o[d] = tri_f32_to_bf16(fmaf(from[d], inverse, 0.0f));
  return sum;
}

/* ---- forward ---- */

typedef struct meet_call { /* the arguments of one attn_fwd */
  uint16_t       *o;
  float          *lse;
  const uint16_t *qkv;
  int64_t         E, window;
  int             H, G, D;
} meet_call;

/* The block of n_key keys from batch row `row` on. */
static void load_block(meet_state *a, const meet_call *c, int64_t row, int n_key, int g) {
  const uint16_t *k = c->qkv + row * c->E + (int64_t)(c->H + g) * c->D, *v = k + (int64_t)c->G * c->D;

  a->ld_v = a->dv, a->finite = true;
  for (int i = 0; i * TRI_PAGE < n_key; i++) {
    int             n = least(n_key - i * TRI_PAGE, TRI_PAGE);
    const int64_t   at = i * TRI_PAGE * c->E;
    const uint32_t *from = (const uint32_t *)(const void *)(k + at);
    tri_pairs_turn(a->own_k[i], TRI_PAGE, from, c->E / 2, n, a->D / 2);
    if (n <= TRI_PAGE / 2) /* what the turn did not reach */
      for (int d = 0; d < a->dk / 2; d++)
        memset(a->own_k[i] + d * TRI_PAGE + 16, 0, 16 * sizeof *a->own_k[i]);
    a->finite &= tri_pairs_zip(a->own_v[i], a->dv, v + at, c->E, n, a->D, TRI_PAGE / 2);
    a->k[i] = a->own_k[i], a->v[i] = a->own_v[i];
  }
}

/* Rows first..first+n of the batch, all of the sequence that starts at row `start`, for heads h..h+n_head
 * of the key/value head g. */
static void meet_rows(meet_state *a, const meet_call *c, int64_t start, int64_t first, int n, int g, int h,
                      int n_head) {
  int     n_group = pad(n, TRI_PAIRS_ROWS) / TRI_PAIRS_ROWS, D = c->D;
  int64_t last = first + n - 1 - start; /* position of the last row */

  for (int i = 0; i < n_head; i++)
    tri_pairs_rows(a->q + i * n_group * TRI_PAIRS_ROWS * a->dk, a->dk,
                   c->qkv + first * c->E + (int64_t)(h + i) * D, c->E, n, n_group * TRI_PAIRS_ROWS, D);
  meet_begin(a, n_head * n_group);
  for (int64_t key = first_block(first - start, c->window); key <= last; key += BLOCK) {
    load_block(a, c, start + key, least(last + 1 - key, BLOCK), g);
    for (int j = 0; j < n_group; j++) {
      tri_pairs_seen t;
      int            at = j * TRI_PAIRS_ROWS, n_row = least(n - at, TRI_PAIRS_ROWS);
      see(&t, first + at - start - key, c->window, 1, n_row);
      for (int i = 0; i < n_head; i++) meet_block(a, i * n_group + j, n_row, &t);
    }
  }
  for (int i = 0; i < n_head; i++)
    for (int r = 0; r < n; r++) {
      int     row = i * n_group * TRI_PAIRS_ROWS + r;
      int64_t at = (first + r) * c->H + h + i;
      float   sum = meet_end(a, row, c->o + at * D);
      c->lse[at] = a->rows[row / TRI_PAIRS_ROWS].max[row % TRI_PAIRS_ROWS] + logf(sum);
    }
}

tri_status tri_cpu_pairs_fwd(tri_stream *s, tri_out o, tri_out lse, tri_in qkv, tri_in cu,
                             const tri_attn_rule *rule) {
  const tri_heads *h = &rule->heads;
  const int32_t   *first_row = cu->data;
  int64_t          N = qkv->dim[0], E = qkv->dim[1], S = cu->dim[0] - 1;
  meet_call        c = {o->data, lse->data, qkv->data, E, rule->window, h->H, h->G, h->D};
  int              group = h->H / h->G, n_head = group < HEADS ? group : HEADS;
  int              n_token = (h->D > WIDE ? ROWS / 2 : ROWS) / n_head / TRI_PAIRS_ROWS * TRI_PAIRS_ROWS;
  int              n_part = (group + n_head - 1) / n_head;
  int64_t          n_block = (N + n_token - 1) / n_token;

#pragma omp parallel for schedule(dynamic) num_threads(tri_cpu_threads(s, 16 * N * E))
  for (int64_t unit = 0; unit < n_block * h->G * n_part; unit++) {
    meet_state a;
    int64_t    block = n_block - 1 - unit / (h->G * n_part), part = unit % n_part; /* long rows first */
    int64_t    end = (block + 1) * n_token < N ? (block + 1) * n_token : N;
    int        g = (int)(unit / n_part % h->G), at = (int)part * n_head;
    int        n_here = group - at < n_head ? group - at : n_head;
    meet_open(&a, rule);
    for (int64_t n = block * n_token; n < end;) {
      int64_t seq = tri_cpu_find_sequence(first_row, S, n),
              stop = first_row[seq + 1] < end ? first_row[seq + 1] : end;
      meet_rows(&a, &c, first_row[seq], n, (int)(stop - n), g, g * group + at, n_here);
      n = stop;
    }
    a.x->end();
  }
  return TRI_OK;
}

/* ---- cached pages ---- */

tri_status tri_cpu_pairs_put(tri_stream *s, tri_out k_page, tri_out v_page, tri_in qkv, tri_in slot,
                             const tri_heads *h) {
  const int32_t *to = slot->data;
  int64_t N = qkv->dim[0], E = qkv->dim[1], D = h->D, G = h->G, slots = tri_tensor_count(k_page) / (G * D);

#pragma omp parallel for collapse(2) schedule(static) num_threads(tri_cpu_threads(s, 2 * N * G * D))
  for (int64_t n = 0; n < N; n++)
    for (int64_t g = 0; g < G; g++) {
      const uint16_t *k = (const uint16_t *)qkv->data + n * E + (h->H + g) * D, *v = k + G * D;
      int64_t         page, place, head;
      if (to[n] < 0) continue;
      TRI_ASSERT(to[n] < slots);
      page = to[n] / TRI_PAGE, place = to[n] % TRI_PAGE, head = (page * G + g) * D * TRI_PAGE;
      uint16_t *k_to = (uint16_t *)k_page->data + head + place * 2;
      uint16_t *v_to = (uint16_t *)v_page->data + head + place / 2 * D * 2 + place % 2;
      for (int64_t d = 0; d < D; d += 2) memcpy(k_to + d * TRI_PAGE, k + d, 2 * sizeof *k);
      for (int64_t d = 0; d < D; d++) v_to[d * 2] = v[d];
    }
  return TRI_OK;
}

typedef struct pages_call { /* the cache as one row of attn_decode sees it */
  const uint16_t *k_page, *v_page;
  const int32_t  *page; /* of this row */
  int64_t         P;    /* pages there are */
  int             len, G;
  int64_t         window;
} pages_call;

/* Panel i of the block from key `key` on is a page: in place, or copied where its width asks for padding or
 * where places are not seen, for they may hold anything. */
static void take_page(meet_state *a, const pages_call *c, int i, int key, int g, const tri_pairs_seen *t) {
  int             D = a->D, first = t->first[0] - i * TRI_PAGE, end = t->end[0] - i * TRI_PAGE;
  int64_t         page = c->page[key / TRI_PAGE + i], at = (page * c->G + g) * D * TRI_PAGE;
  const uint32_t *k = (const uint32_t *)(const void *)(c->k_page + at);
  const uint32_t *v = (const uint32_t *)(const void *)(c->v_page + at);

  TRI_ASSERT(page >= 0 && page < c->P);
  if (a->dk != D) {
    memcpy(a->own_k[i], k, (size_t)(D * TRI_PAGE / 2) * sizeof *k);
    memset(a->own_k[i] + D * TRI_PAGE / 2, 0, (size_t)((a->dk - D) * TRI_PAGE / 2) * sizeof *k);
    k = a->own_k[i];
  }
  if (first > 0 || end < TRI_PAGE || a->dv != D) {
    leave_keys(a->own_v[i], v, D, D, first, end);
    v = a->own_v[i];
  }
  a->k[i] = k, a->v[i] = v;
}

/* n_row heads of one token meet all pages of key/value head g. */
static void meet_pages(meet_state *a, const pages_call *c, int n_row, int g) {
  a->ld_v = a->D, a->finite = true;
  for (int key = (int)first_block(c->len - 1, c->window); key < c->len; key += BLOCK) {
    tri_pairs_seen t;
    see(&t, c->len - 1 - key, c->window, 0, n_row);
    for (int i = t.panel; i < t.panel_end; i++) take_page(a, c, i, key, g, &t);
    meet_block(a, 0, n_row, &t);
  }
}

tri_status tri_cpu_pairs_decode(tri_stream *s, tri_out o, tri_in qkv, tri_in k_page, tri_in v_page,
                                tri_in table, tri_in len, const tri_attn_rule *rule) {
  const tri_heads *h = &rule->heads;
  const int32_t   *n_key = len->data;
  int64_t          B = qkv->dim[0], E = qkv->dim[1], D = h->D;
  int64_t          n_page = tri_tensor_count(k_page) / (h->G * D * TRI_PAGE);
  int              group = h->H / h->G;

#pragma omp parallel for collapse(2) schedule(dynamic)                                                       \
    num_threads(tri_cpu_threads(s, tri_cpu_decode_work(h, table, len)))
  for (int64_t b = 0; b < B; b++)
    for (int g = 0; g < h->G; g++) {
      meet_state a;
      pages_call c = {k_page->data, v_page->data, (const int32_t *)table->data + b * table->dim[1],
                      n_page,       n_key[b],     h->G,
                      rule->window};
      meet_open(&a, rule);
      for (int at = 0; at < group; at += TRI_PAIRS_ROWS) {
        int     n_row = least(group - at, TRI_PAIRS_ROWS);
        int64_t head = (int64_t)g * group + at;
        tri_pairs_rows(a.q, a.dk, (const uint16_t *)qkv->data + b * E + head * D, D, n_row, TRI_PAIRS_ROWS,
                       h->D);
        meet_begin(&a, 1);
        meet_pages(&a, &c, n_row, g);
        for (int r = 0; r < n_row; r++) meet_end(&a, r, (uint16_t *)o->data + (b * h->H + head + r) * D);
      }
      a.x->end();
    }
  return TRI_OK;
}
#endif
