/* attention_pairs.c - causal attention of bf16 with the processor's own bf16 products, forward and over
 * cached pages.
 *
 * cpu/pairs/attend.h computes a row's attention to a block of keys, for both. Pages hold pairs, keys as
 * [P,G,D/2,TRI_PAGE,2], values as [P,G,TRI_PAGE/2,D,2]. In decoding a core waits for memory longer than it
 * computes. So the next keys or values are prefetched during the computation, and a step's own keys and
 * values are written into lines that were prefetched. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "attention_pairs.h"

#include <string.h>

#if TRI_PAIRS_X86

_Static_assert(sizeof(tri_attend) <= TRI_CPU_FRAME_BYTES, "tri_cpu_check_stack");
_Static_assert((int)TRI_ATTEND_MAX_D >= (int)TRI_CPU_MAX_D, "the widest head");

enum { BLOCK = TRI_PAIRS_BLOCK, HEADS = 8 }; /* heads that share the load of a block */

typedef struct meet_call { /* the arguments of one attn_fwd */
  uint16_t       *o;
  float          *lse;
  const uint16_t *qkv;
  int64_t         E, window;
  int             H, G, D;
} meet_call;

/* Loads the block of n_key keys and values from batch row `row` on. */
static void load_block(tri_attend *a, const meet_call *c, int64_t row, int n_key, int g) {
  const uint16_t *k = c->qkv + row * c->E + (int64_t)(c->H + g) * c->D, *v = k + (int64_t)c->G * c->D;

  a->ld_v = a->dv, a->finite = true;
  for (int i = 0; i * TRI_PAGE < n_key; i++) {
    int             n = tri_attend_least(n_key - i * TRI_PAGE, TRI_PAGE);
    const int64_t   at = i * TRI_PAGE * c->E;
    const uint32_t *from = (const uint32_t *)(const void *)(k + at);
    tri_pairs_turn(a->own_k[i], TRI_PAGE, from, c->E / 2, n, a->D / 2);
    if (n <= TRI_PAGE / 2) /* tri_pairs_turn did not reach these columns */
      for (int d = 0; d < a->dk / 2; d++)
        memset(a->own_k[i] + d * TRI_PAGE + 16, 0, 16 * sizeof *a->own_k[i]);
    a->finite &= tri_pairs_zip(a->own_v[i], a->dv, v + at, c->E, n, a->D, TRI_PAGE / 2);
    a->k[i] = a->own_k[i], a->v[i] = a->own_v[i];
  }
}

/* Processes rows first..first+n of the batch for heads h..h+n_head of the key/value head g. All rows belong
 * to the sequence that starts at row `start`. */
static void meet_rows(tri_attend *a, const meet_call *c, int64_t start, int64_t first, int n, int g, int h,
                      int n_head) {
  int     n_group = tri_attend_pad(n, TRI_PAIRS_ROWS) / TRI_PAIRS_ROWS, D = c->D;
  int64_t last = first + n - 1 - start; /* position of the last row */

  for (int i = 0; i < n_head; i++)
    tri_pairs_rows(a->q + i * n_group * TRI_PAIRS_ROWS * a->dk, a->dk,
                   c->qkv + first * c->E + (int64_t)(h + i) * D, c->E, n, n_group * TRI_PAIRS_ROWS, D);
  tri_attend_begin(a, n_head * n_group);
  for (int64_t key = tri_attend_first(first - start, c->window); key <= last; key += BLOCK) {
    load_block(a, c, start + key, tri_attend_least(last + 1 - key, BLOCK), g);
    for (int j = 0; j < n_group; j++) {
      tri_pairs_seen t;
      int            at = j * TRI_PAIRS_ROWS, n_row = tri_attend_least(n - at, TRI_PAIRS_ROWS);
      tri_attend_see(&t, first + at - start - key, c->window, 1, n_row);
      for (int i = 0; i < n_head; i++) tri_attend_block(a, i * n_group + j, n_row, &t);
    }
  }
  for (int i = 0; i < n_head; i++)
    for (int r = 0; r < n; r++) {
      int     group = i * n_group + r / TRI_PAIRS_ROWS, row = r % TRI_PAIRS_ROWS;
      int64_t at = (first + r) * c->H + h + i;
      float   sum = tri_attend_end(a, group, row, c->o + at * D);
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
  int n_token = (h->D > TRI_ATTEND_WIDE ? TRI_ATTEND_ROWS / 2 : TRI_ATTEND_ROWS) / n_head / TRI_PAIRS_ROWS *
                TRI_PAIRS_ROWS;
  int     n_part = (group + n_head - 1) / n_head;
  int64_t n_block = (N + n_token - 1) / n_token;

#pragma omp parallel for schedule(dynamic) num_threads(tri_cpu_threads(s, 16 * N * E))
  for (int64_t unit = 0; unit < n_block * h->G * n_part; unit++) {
    tri_attend a;
    int64_t    block = n_block - 1 - unit / (h->G * n_part), part = unit % n_part; /* long rows first */
    int64_t    end = (block + 1) * n_token < N ? (block + 1) * n_token : N;
    int        g = (int)(unit / n_part % h->G), at = (int)part * n_head;
    int        n_here = group - at < n_head ? group - at : n_head;
    tri_attend_open(&a, rule, TRI_PAIRS_ROWS, TRI_PAIRS_ROWS);
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

/* Write to place `place` of a head's part of a page. */
static void put_key(uint16_t *page, int64_t place, const uint16_t *k, int64_t D) {
  for (int64_t d = 0; d < D; d += 2) memcpy(page + d * TRI_PAGE + place * 2, k + d, 2 * sizeof *k);
}
static void put_value(uint16_t *page, int64_t place, const uint16_t *v, int64_t D) {
  page += place / 2 * D * 2 + place % 2;
  for (int64_t d = 0; d < D; d++) page[d * 2] = v[d];
}

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
      put_key((uint16_t *)k_page->data + head, place, k, D);
      put_value((uint16_t *)v_page->data + head, place, v, D);
    }
  return TRI_OK;
}

typedef struct pages_call { /* the arguments of one attn_decode or attn_step */
  uint16_t      *o, *qkv, *k_page, *v_page;
  const int32_t *table, *len; /* [n_table] and [1] for every row */
  /* [1] for every row; slot NULL: keys and values are in the pages, and rope is done */
  const int32_t *slot, *pos;
  const float   *turn; /* [positions,R] */
  int            R;
  int64_t        n_table, P; /* P: number of pages */
  int            H, G, D;
  int            each, n_part, most; /* queries of a unit; units of a key/value head; most units of a share */
  int64_t        window;
} pages_call;

/* A share is some units of one row. A unit is the queries of a key/value head that fit one tile. Units with
 * at most TRI_PAIRS_ROWS queries together form a group, and their weights are computed at once. Weights of
 * one unit alone would leave the memory idle meanwhile. A page holds the keys of all heads one behind the
 * other, so a share of many units reads long pieces. */
typedef struct share {
  int64_t        row;
  int            first, n; /* units of the row */
  int            len;
  const int32_t *page;
} share;

static share share_at(const pages_call *c, int64_t i) {
  const int all = c->G * c->n_part, each_row = (all + c->most - 1) / c->most;
  share     p = {.row = i / each_row, .first = (int)(i % each_row) * c->most};

  p.n = tri_attend_least(all - p.first, c->most);
  p.len = c->len[p.row];
  p.page = c->table + p.row * c->n_table;
  return p;
}

/* Returns the part of a head in a page, for keys or values. The head belongs to unit `unit`, the page to key
 * `key`. */
static inline uint16_t *part_at(const pages_call *c, uint16_t *pages, const share *p, int unit, int key) {
  const int64_t page = p->page[key / TRI_PAGE];

  TRI_ASSERT(page >= 0 && page < c->P);
  return pages + (page * c->G + unit / c->n_part) * c->D * TRI_PAGE;
}
static inline const uint32_t *pairs_at(const pages_call *c, uint16_t *pages, const share *p, int unit,
                                       int key) {
  return (const uint32_t *)(const void *)part_at(c, pages, p, unit, key);
}

/* Prefetches the pages of unit `unit` in the block from key `key` on, from k_page or v_page. The first n go
 * to a->fetch for prefetching during the next product. The rest is prefetched now. */
static void fetch(tri_attend *a, const pages_call *c, uint16_t *pages, const share *p, int unit, int key,
                  int n) {
  tri_pairs_seen t;

  memset(a->fetch, 0, sizeof a->fetch);
  tri_attend_see(&t, p->len - 1 - key, c->window, 0, 1);
  for (int i = 0; t.panel + i < t.panel_end; i++) {
    const uint32_t *at = pairs_at(c, pages, p, unit, key + (t.panel + i) * TRI_PAGE);
    if (i < n)
      a->fetch[i] = at;
    else
      for (int j = 0; j < c->D * TRI_PAGE / 2; j += 16) __builtin_prefetch(at + j);
  }
}

/* Returns whether the row's own key and value must still be written into the block from key `key` on. */
static bool puts_own(const pages_call *c, const share *p, int key) {
  return c->slot && c->slot[p->row] >= 0 && p->len <= key + BLOCK;
}
/* Returns the head of unit `unit` in the row, among heads that begin `behind` heads into the row. */
static inline uint16_t *head_of(const pages_call *c, const share *p, int behind, int unit) {
  return c->qkv + (p->row * (c->H + 2 * c->G) + behind + unit) * c->D;
}

/* Sets the block's panels of keys. They are pages in place, or copies if the head width needs padding. */
static void take_keys(tri_attend *a, const pages_call *c, const share *p, int unit, int key,
                      const tri_pairs_seen *t) {
  const int64_t n = a->D * TRI_PAGE / 2, all = a->dk * TRI_PAGE / 2;
  const int     own = p->len - 1;

  if (puts_own(c, p, key))
    put_key(part_at(c, c->k_page, p, unit, own), own % TRI_PAGE, head_of(c, p, c->H, unit), c->D);
  for (int i = t->panel; i < t->panel_end; i++) {
    a->k[i] = pairs_at(c, c->k_page, p, unit, key + i * TRI_PAGE);
    if (all == n) continue;
    memcpy(a->own_k[i], a->k[i], (size_t)n * sizeof *a->own_k[i]);
    memset(a->own_k[i] + n, 0, (size_t)(all - n) * sizeof *a->own_k[i]);
    a->k[i] = a->own_k[i];
  }
}

/* Sets the block's panels of values. They are also copied if some places are not seen, because these may hold
 * anything. */
static void take_values(tri_attend *a, const pages_call *c, const share *p, int unit, int key,
                        const tri_pairs_seen *t) {
  const int own = p->len - 1;

  if (puts_own(c, p, key))
    put_value(part_at(c, c->v_page, p, unit, own), own % TRI_PAGE, head_of(c, p, c->H + c->G, unit), c->D);
  for (int i = t->panel; i < t->panel_end; i++) {
    const int first = t->first[0] - i * TRI_PAGE, end = t->end[0] - i * TRI_PAGE;
    a->v[i] = pairs_at(c, c->v_page, p, unit, key + i * TRI_PAGE);
    if (first <= 0 && end >= TRI_PAGE && a->dv == a->D) continue;
    tri_attend_leave(a->own_v[i], a->v[i], a->D, a->D, first, end);
    a->v[i] = a->own_v[i];
  }
}

/* The work after a group's block, as share, unit and key, or p NULL. */
typedef struct coming {
  const share *p;
  int          unit, key;
} coming;

/* Attends units first .. first + n - 1 of the share, its group `group`, to the block from key `key` on. */
static void meet_units(tri_attend *a, const pages_call *c, const share *p, int group, int n, int key,
                       coming next) {
  const int      first = p->first + group * (a->each / c->each);
  tri_pairs_seen t;

  tri_attend_see(&t, p->len - 1 - key, c->window, 0, n * c->each);
  const int panels = t.panel_end - t.panel;
  for (int i = 0; i < n; i++) {
    if (i + 1 < n)
      fetch(a, c, c->k_page, p, first + i + 1, key, panels);
    else
      fetch(a, c, c->v_page, p, first, key, panels);
    take_keys(a, c, p, first + i, key, &t);
    tri_attend_keys(a, group, i * c->each, c->each, &t);
  }
  tri_attend_weigh(a, group, n * c->each, &t);
  for (int i = 0; i < n; i++) {
    if (i + 1 < n)
      fetch(a, c, c->v_page, p, first + i + 1, key, panels);
    else if (next.p)
      fetch(a, c, c->k_page, next.p, next.unit, next.key, panels);
    else
      memset(a->fetch, 0, sizeof a->fetch);
    take_values(a, c, p, first + i, key, &t);
    tri_attend_values(a, group, i * c->each, c->each, &t);
  }
}

/* Attends the share's queries to all their pages. `next`, the following share, may be NULL. */
static void meet_pages(tri_attend *a, const pages_call *c, const share *p, const share *next) {
  const int per = a->each / c->each, n_group = (p->n + per - 1) / per;

  a->ld_v = a->D;
  for (int key = (int)tri_attend_first(p->len - 1, c->window); key < p->len; key += BLOCK)
    for (int j = 0; j < n_group; j++) {
      coming then = {next, next ? next->first : 0,
                     next ? (int)tri_attend_first(next->len - 1, c->window) : 0};
      if (j + 1 < n_group)
        then = (coming){p, p->first + (j + 1) * per, key};
      else if (key + BLOCK < p->len)
        then = (coming){p, p->first, key + BLOCK};
      meet_units(a, c, p, j, tri_attend_least(p->n - j * per, per), key, then);
    }
}

/* If a key/value head has more queries than a tile, the last tile is padded with rows of zeros. */
static inline int queries_of(const pages_call *c, int unit) {
  return tri_attend_least(c->H / c->G - unit % c->n_part * TRI_PAIRS_ROWS, c->each);
}
static inline int64_t query_at(const pages_call *c, int unit) {
  return (int64_t)(unit / c->n_part) * (c->H / c->G) + unit % c->n_part * TRI_PAIRS_ROWS;
}

/* For attn_step. Applies rope to the share's queries and keys in place. */
static void turn_share(const pages_call *c, const share *p) {
  const int    group = c->H / c->G;
  const float *turn = c->turn + (int64_t)c->pos[p->row] * c->R;
  const int    to = c->slot[p->row], page = (p->len - 1) / TRI_PAGE;

  TRI_ASSERT(c->n_part == 1 && (to < 0 || to == p->page[page] * TRI_PAGE + (p->len - 1) % TRI_PAGE));
  tri_cpu_turn_heads(TRI_BF16, head_of(c, p, 0, p->first * group), p->n * group, c->D, turn, c->R, 1);
  tri_cpu_turn_heads(TRI_BF16, head_of(c, p, c->H, p->first), p->n, c->D, turn, c->R, 1);
}

static void meet_share(tri_attend *a, const pages_call *c, const share *p, const share *next) {
  const int     per = a->each / c->each;
  const int64_t E = (int64_t)(c->H + 2 * c->G) * c->D;

  if (c->slot) turn_share(c, p);
  for (int j = 0; j < p->n; j++)
    tri_pairs_rows(a->q + (j / per * a->each + j % per * c->each) * a->dk, a->dk,
                   c->qkv + p->row * E + query_at(c, p->first + j) * c->D, c->D, queries_of(c, p->first + j),
                   c->each, c->D);
  tri_attend_begin(a, (p->n + per - 1) / per);
  meet_pages(a, c, p, next);
  for (int j = 0; j < p->n; j++)
    for (int r = 0; r < queries_of(c, p->first + j); r++)
      tri_attend_end(a, j / per, j % per * c->each + r,
                     c->o + (p->row * c->H + query_at(c, p->first + j) + r) * c->D);
}

/* Returns the units of a share. It is as many as a tri_attend holds, but few enough to give every thread some
 * shares. */
static int units_of(const pages_call *c, int64_t rows, int threads) {
  const int64_t fair = rows * c->G * c->n_part / (4 * threads);
  const int     per = TRI_PAIRS_ROWS / c->each,
            groups = tri_attend_least(TRI_ATTEND_ALL / (per * c->each * tri_attend_pad(c->D, 32)),
                                      TRI_ATTEND_ROWS / 16);
  const int most = tri_attend_least(fair, per * groups);

  return most > 1 ? most : 1;
}

static int64_t take(int64_t *taken) {
  int64_t one;
#pragma omp atomic capture
  one = (*taken)++;
  return one;
}

/* For attn_decode, `at` has only `table` and `len`. */
static tri_status decode(tri_stream *s, tri_out o, tri_in qkv, tri_in k_page, tri_in v_page,
                         const tri_step_at *at, const tri_attn_rule *rule) {
  const tri_heads *h = &rule->heads;
  const int  group = h->H / h->G, threads = tri_cpu_threads(s, tri_cpu_decode_work(h, at->table, at->len));
  pages_call c = {.o = o->data,
                  .qkv = qkv->data,
                  .k_page = k_page->data,
                  .v_page = v_page->data,
                  .table = at->table->data,
                  .len = at->len->data,
                  .n_table = at->table->dim[1],
                  .P = tri_tensor_count(k_page) / ((int64_t)h->G * h->D * TRI_PAGE),
                  .H = h->H,
                  .G = h->G,
                  .D = h->D,
                  .each = tri_attend_least(group, TRI_PAIRS_ROWS),
                  .n_part = tri_attend_pad(group, TRI_PAIRS_ROWS) / TRI_PAIRS_ROWS,
                  .window = rule->window};
  int64_t    n, taken = 0;

  if (at->slot)
    c.slot = at->slot->data, c.pos = at->pos->data, c.turn = at->turn->data, c.R = (int)at->turn->dim[1];
  c.most = units_of(&c, qkv->dim[0], threads);
  n = qkv->dim[0] * ((c.G * c.n_part + c.most - 1) / c.most);
#pragma omp parallel num_threads(threads)
  {
    tri_attend a;
    tri_attend_open(&a, rule, TRI_PAIRS_ROWS / c.each * c.each, c.each);
    for (int64_t i = take(&taken), next; i < n; i = next) {
      next = take(&taken);
      const share p = share_at(&c, i), after = share_at(&c, next < n ? next : i);
      meet_share(&a, &c, &p, next < n ? &after : NULL);
    }
    a.x->end();
  }
  return TRI_OK;
}

tri_status tri_cpu_pairs_decode(tri_stream *s, tri_out o, tri_out work, tri_in qkv, tri_in k_page,
                                tri_in v_page, tri_in table, tri_in len, const tri_attn_rule *rule) {
  (void)work;
  return decode(s, o, qkv, k_page, v_page, &(tri_step_at){.table = table, .len = len}, rule);
}

tri_status tri_cpu_pairs_step(tri_stream *s, tri_out o, tri_out qkv, tri_out k_page, tri_out v_page,
                              const tri_step_at *at, const tri_attn_rule *rule) {
  return decode(s, o, qkv, k_page, v_page, at, rule);
}
#endif
