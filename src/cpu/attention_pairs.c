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
  int              each;                  /* rows of a group, TRI_PAIRS_ROWS or fewer */
  float            scale, cap;            /* 0: none */
  const uint32_t  *k[PANELS], *v[PANELS]; /* panels [dk/2,TRI_PAGE,2] and [TRI_PAGE/2,ld_v,2] */
  const uint32_t  *fetch_v[PANELS],
      *fetch_k[PANELS];    /* pages met after the keys, and after the values; or NULL */
  int64_t          ld_v;   /* pairs */
  bool             finite; /* all of the block's values */
  uint16_t         q[ALL]; /* [rows,dk] */
  float            o[ALL]; /* [rows,dv], sums of p v */
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

static void meet_open(meet_state *a, const tri_attn_rule *rule, int each) {
  a->x = tri_pairs_find();
  a->D = rule->heads.D, a->dk = pad(a->D, 32), a->dv = pad(a->D, 16);
  a->scale = rule->scale, a->cap = rule->softcap;
  a->each = each;
  memset(a->fetch_v, 0, sizeof a->fetch_v);
  memset(a->fetch_k, 0, sizeof a->fetch_k);
  a->x->begin(each);
}

/* Rows of groups 0 .. n_group - 1 have met no key. */
static void meet_begin(meet_state *a, int n_group) {
  memset(a->o, 0, (size_t)(n_group * a->each * a->dv) * sizeof *a->o);
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
    a->x->sums(one, a->dv, a->p + r * BLOCK + t->panel * TRI_PAGE, 0, v + t->panel, NULL, a->ld_v,
               t->panel_end - t->panel, 1, a->dv);
    memcpy(o + r * a->dv, one, (size_t)a->dv * sizeof *one);
  }
}

/* n_row rows of group `group` meet the block. */
static void meet_block(meet_state *a, int group, int n_row, const tri_pairs_seen *t) {
  int       from = t->panel * TRI_PAGE, n = t->panel_end - t->panel;
  uint16_t *q = a->q + group * a->each * a->dk;
  float    *o = a->o + group * a->each * a->dv;
  bool      whole = t->first[n_row - 1] == 0 && t->end[0] == BLOCK;

  if (n <= 0) return;
  a->x->scores(a->s + from, BLOCK, q, a->dk, a->k + t->panel, a->fetch_v, n, n_row, a->dk);
  if (tri_pairs_softmax(&a->rows[group], a->s, a->p, n_row, t, a->scale, a->cap))
    for (int r = 0; r < n_row; r++) {
      float factor = a->rows[group].factor[r], *row = o + r * a->dv;
#pragma omp simd
      for (int d = 0; d < a->dv; d++) row[d] *= factor;
    }
  if (a->finite || whole)
    a->x->sums(o, a->dv, a->p + from, BLOCK, a->v + t->panel, a->fetch_k, a->ld_v, n, n_row, a->dv);
  else
    add_apart(a, o, n_row, t);
}

/* Row `row` of a group to o [D]. 0 is added so that a sum of nothing but zeros has one sign. */
static float meet_end(const meet_state *a, int group, int row, uint16_t *o) {
  float        sum = tri_pairs_sum(&a->rows[group], row), inverse = 1.0f / sum;
  const float *from = a->o + (group * a->each + row) * a->dv;
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
      int     group = i * n_group + r / TRI_PAIRS_ROWS, row = r % TRI_PAIRS_ROWS;
      int64_t at = (first + r) * c->H + h + i;
      float   sum = meet_end(a, group, row, c->o + at * D);
      c->lse[at] = a->rows[group].max[row] + logf(sum);
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
    meet_open(&a, rule, TRI_PAIRS_ROWS);
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

typedef struct pages_call { /* the arguments of one attn_decode */
  uint16_t       *o;
  const uint16_t *qkv, *k_page, *v_page;
  const int32_t  *table, *len; /* of every row: [n_table]; [1] */
  int64_t         n_table, P;  /* P: pages there are */
  int             H, G, D;
  int             each, n_part, most; /* queries of a group; groups of a key/value head, of a share */
  int64_t         window;
} pages_call;

/* Groups of queries of one row, each of one key/value head. A page holds the keys of all heads one behind the
 * other: to meet them together is to read long pieces. */
typedef struct share {
  int64_t        row;
  int            first, n; /* groups of the row */
  int            len;
  const int32_t *page;
} share;

static share share_at(const pages_call *c, int64_t i) {
  const int all = c->G * c->n_part, each_row = (all + c->most - 1) / c->most;
  share     p = {.row = i / each_row, .first = (int)(i % each_row) * c->most};

  p.n = least(all - p.first, c->most);
  p.len = c->len[p.row];
  p.page = c->table + p.row * c->n_table;
  return p;
}

/* Where the head of group `group` has its part of the page that begins with key `key`, elements. */
static inline int64_t page_at(const pages_call *c, const share *p, int group, int key) {
  const int64_t page = p->page[key / TRI_PAGE];

  TRI_ASSERT(page >= 0 && page < c->P);
  return (page * c->G + group / c->n_part) * c->D * TRI_PAGE;
}

static inline const uint32_t *in_pairs(const uint16_t *x) { return (const uint32_t *)(const void *)x; }

/* After n panels of values come the keys of group `group` from key `key` on; p NULL: none do. */
static void fetch_keys(meet_state *a, const pages_call *c, const share *p, int group, int key, int n) {
  tri_pairs_seen t;

  memset(a->fetch_k, 0, sizeof a->fetch_k);
  if (!p) return;
  see(&t, p->len - 1 - key, c->window, 0, 1);
  for (int i = 0; t.panel + i < t.panel_end; i++) {
    const uint16_t *k = c->k_page + page_at(c, p, group, key + (t.panel + i) * TRI_PAGE);
    if (i < n)
      a->fetch_k[i] = in_pairs(k);
    else
      for (int at = 0; at < c->D * TRI_PAGE; at += 32) __builtin_prefetch(k + at);
  }
}

/* Panel i of the block from key `key` on is a page: in place, or copied where its width asks for padding or
 * where places are not seen, for they may hold anything. */
static void take_page(meet_state *a, const pages_call *c, const share *p, int group, int i, int key,
                      const tri_pairs_seen *t) {
  int             D = a->D, first = t->first[0] - i * TRI_PAGE, end = t->end[0] - i * TRI_PAGE;
  int64_t         at = page_at(c, p, group, key + i * TRI_PAGE);
  const uint32_t *k = in_pairs(c->k_page + at), *v = in_pairs(c->v_page + at);

  if (a->dk != D) {
    memcpy(a->own_k[i], k, (size_t)(D * TRI_PAGE / 2) * sizeof *k);
    memset(a->own_k[i] + D * TRI_PAGE / 2, 0, (size_t)((a->dk - D) * TRI_PAGE / 2) * sizeof *k);
    k = a->own_k[i];
  }
  a->fetch_v[i - t->panel] = v;
  if (first > 0 || end < TRI_PAGE || a->dv != D) {
    leave_keys(a->own_v[i], v, D, D, first, end);
    v = a->own_v[i];
    a->fetch_v[i - t->panel] = NULL;
  }
  a->k[i] = k, a->v[i] = v;
}

/* The share's queries meet all their pages; `next`, which may be NULL, comes after it. */
static void meet_pages(meet_state *a, const pages_call *c, const share *p, const share *next) {
  const int start = next ? (int)first_block(next->len - 1, c->window) : 0;

  a->ld_v = a->D, a->finite = true;
  for (int key = (int)first_block(p->len - 1, c->window); key < p->len; key += BLOCK) {
    tri_pairs_seen t;
    see(&t, p->len - 1 - key, c->window, 0, c->each);
    for (int j = 0; j < p->n; j++) {
      const int group = p->first + j, n = t.panel_end - t.panel;
      if (j + 1 < p->n)
        fetch_keys(a, c, p, group + 1, key, n);
      else if (key + BLOCK < p->len)
        fetch_keys(a, c, p, p->first, key + BLOCK, n);
      else
        fetch_keys(a, c, next, next ? next->first : 0, start, n);
      for (int i = t.panel; i < t.panel_end; i++) take_page(a, c, p, group, i, key, &t);
      meet_block(a, j, c->each, &t);
    }
  }
}

/* Of a key/value head with more queries than a tile takes the last tile is not full: rows of zeros. */
static inline int queries_of(const pages_call *c, int group) {
  return least(c->H / c->G - group % c->n_part * TRI_PAIRS_ROWS, c->each);
}
static inline int64_t query_at(const pages_call *c, int group) {
  return (int64_t)(group / c->n_part) * (c->H / c->G) + group % c->n_part * TRI_PAIRS_ROWS;
}

static void meet_share(meet_state *a, const pages_call *c, const share *p, const share *next) {
  const int64_t E = (int64_t)(c->H + 2 * c->G) * c->D;

  for (int j = 0; j < p->n; j++)
    tri_pairs_rows(a->q + j * c->each * a->dk, a->dk, c->qkv + p->row * E + query_at(c, p->first + j) * c->D,
                   c->D, queries_of(c, p->first + j), c->each, c->D);
  meet_begin(a, p->n);
  meet_pages(a, c, p, next);
  for (int j = 0; j < p->n; j++)
    for (int r = 0; r < queries_of(c, p->first + j); r++)
      meet_end(a, j, r, c->o + (p->row * c->H + query_at(c, p->first + j) + r) * c->D);
}

/* Groups of a share: as many as a meet_state holds, but that there are some shares for every thread. */
static int groups_of(const pages_call *c, int64_t rows, int threads) {
  const int64_t fair = rows * c->G * c->n_part / (4 * threads);
  const int room = ALL / (c->each * pad(c->D, 32)), most = least(fair, least(room, ROWS / TRI_PAIRS_ROWS));

  return most > 1 ? most : 1;
}

static int64_t take(int64_t *taken) {
  int64_t one;
#pragma omp atomic capture
  one = (*taken)++;
  return one;
}

tri_status tri_cpu_pairs_decode(tri_stream *s, tri_out o, tri_in qkv, tri_in k_page, tri_in v_page,
                                tri_in table, tri_in len, const tri_attn_rule *rule) {
  const tri_heads *h = &rule->heads;
  const int        group = h->H / h->G, threads = tri_cpu_threads(s, tri_cpu_decode_work(h, table, len));
  pages_call       c = {.o = o->data,
                        .qkv = qkv->data,
                        .k_page = k_page->data,
                        .v_page = v_page->data,
                        .table = table->data,
                        .len = len->data,
                        .n_table = table->dim[1],
                        .P = tri_tensor_count(k_page) / ((int64_t)h->G * h->D * TRI_PAGE),
                        .H = h->H,
                        .G = h->G,
                        .D = h->D,
                        .each = least(group, TRI_PAIRS_ROWS),
                        .n_part = pad(group, TRI_PAIRS_ROWS) / TRI_PAIRS_ROWS,
                        .window = rule->window};
  int64_t          n, taken = 0;

  c.most = groups_of(&c, qkv->dim[0], threads);
  n = qkv->dim[0] * ((c.G * c.n_part + c.most - 1) / c.most);
#pragma omp parallel num_threads(threads)
  {
    meet_state a;
    meet_open(&a, rule, c.each);
    for (int64_t i = take(&taken), next; i < n; i = next) {
      next = take(&taken);
      const share p = share_at(&c, i), after = share_at(&c, next < n ? next : i);
      meet_share(&a, &c, &p, next < n ? &after : NULL);
    }
    a.x->end();
  }
  return TRI_OK;
}
#endif
