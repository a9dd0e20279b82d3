/* test_attention_spread.c - tests attn_decode of few rows with long contexts, spread over a GPU's blocks.
 *
 * Judges: the bits of attn_decode in one block and of attn_fwd, and a proof that these bits show a changed
 * order. test_attention.c has short contexts, test_gpu_plan.c the planned memory. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_case.h"
#include "filter_case.h"
#include "kernel_case.h"

enum { MOST = 9 };

typedef struct spread_case {
  int     H, G, D;
  int32_t len[MOST]; /* length of each sequence, 0 for no more */
  int     window;    /* 0 means none */
  float   cap;       /* 0 means none */
  bool    forward;   /* attn_fwd is a judge too (slow) */
} spread_case;

/* Lengths about the borders of a page, a tile and a turn of four tiles, with short ones beside long ones.
 * Groups of 1 to 20, in up to three blocks. Widths with a kernel of their own, between two, and of no whole
 * vectors. Windows of one key, inside a tile, inside and beyond a turn, and of all keys. Then caps. */
static const spread_case cases[] = {
    {4, 1, 64, {1, 63, 64, 65, 3001, 255, 256, 257, 32}, 0, 0, false},
    {7, 1, 128, {1500, 5}, 0, 0, false},
    {2, 2, 96, {513, 1024}, 0, 0, false},
    {20, 1, 32, {700, 1, 130}, 0, 0, false},
    {2, 1, 256, {1030}, 0, 0, false},
    {3, 1, 100, {449, 33}, 0, 0, false},
    {1, 1, 2, {2000}, 0, 0, false},
    {4, 2, 64, {1100}, 0, 0, true},
    {4, 2, 64, {1500, 40}, 1, 0, false},
    {3, 1, 80, {900, 31}, 33, 0, false},
    {2, 1, 128, {1900, 200}, 300, 3, false},
    {2, 1, 100, {600}, 0, 4, false},
    {2, 1, 64, {700, 9}, 5000, 0, false},
    {2, 1, 64, {600}, 70, 2, true},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

typedef struct spread_data {
  const spread_case *c;
  tri_attn_rule      rule;
  int                S, P; /* rows, the last one of each sequence; pages of a row */
  int64_t            N;
  int32_t            cu[MOST + 1];
  tri_tensor         qkv, rows, k_page, v_page, table, len; /* qkv of all tokens; qkv of the rows */
  int32_t           *page;                                  /* [S,P] host */
} spread_data;

static tri_tensor as_pages(tri_tensor t, int64_t P, int64_t G, int64_t d2, int64_t d3) {
  return (tri_tensor){t.data, t.dtype, 4, {P, G, d2, d3}};
}

/* The pages of all rows in random order, and one more empty page. */
static void deal_pages(spread_data *a) {
  int      n = a->S * a->P;
  int32_t *draw = indices(5, n, INT32_MAX);

  a->page = host((size_t)n, sizeof *a->page);
  for (int i = 0; i < n; i++) a->page[i] = i;
  for (int i = n - 1; i > 0; i--) {
    int32_t at = draw[i] % (i + 1), was = a->page[i];
    a->page[i] = a->page[at];
    a->page[at] = was;
  }
  free(draw);
}

static void fill_cache(bench *b, spread_data *a) {
  int        n_pages = a->S * a->P, G = a->c->G, D = a->c->D;
  int32_t   *slot = host((size_t)a->N, sizeof *slot);
  tri_tensor d_slot;

  for (int s = 0; s < a->S; s++)
    for (int i = 0; i < a->c->len[s]; i++)
      slot[a->cu[s] + i] = a->page[s * a->P + i / TRI_PAGE] * TRI_PAGE + i % TRI_PAGE;
  a->k_page = as_pages(make(b, a->qkv.dtype, n_pages, G * D * TRI_PAGE), n_pages, G, D, TRI_PAGE);
  a->v_page = as_pages(make(b, a->qkv.dtype, n_pages, G * D * TRI_PAGE), n_pages, G, TRI_PAGE, D);
  d_slot = put_i32(b, a->N, 0, slot);
  ok(b->k->kv_put(b->stream, &a->k_page, &a->v_page, &a->qkv, &d_slot, &a->rule.heads));
  free(slot);
}

/* Keys grow along a sequence, so the running maximum changes now and then, in the tiles of all warps. */
static double *make_qkv(const spread_data *a, int64_t E) {
  double *x = numbers(1, a->N * E, 2);

  for (int s = 0; s < a->S; s++)
    for (int64_t n = a->cu[s]; n < a->cu[s + 1]; n++)
      for (int64_t e = (int64_t)a->c->H * a->c->D; e < (int64_t)(a->c->H + a->c->G) * a->c->D; e++)
        x[n * E + e] *= 1 + (double)(n - a->cu[s]) / 256;
  return x;
}

static void load(bench *b, spread_data *a, const spread_case *c, tri_dtype type) {
  int64_t E = (int64_t)(c->H + 2 * c->G) * c->D;
  double *x;

  *a = (spread_data){.c = c, .rule = {{c->H, c->G, c->D}, 1 / sqrtf((float)c->D), c->cap, c->window, 0}};
  while (a->S < MOST && c->len[a->S] > 0) {
    int pages = (c->len[a->S] + TRI_PAGE - 1) / TRI_PAGE + 1; /* one page more than needed */
    a->P = pages > a->P ? pages : a->P;
    a->cu[a->S + 1] = a->cu[a->S] + c->len[a->S];
    a->S++;
  }
  a->N = a->cu[a->S];
  x = make_qkv(a, E);
  a->qkv = put_real(b, type, a->N, E, x);
  a->rows = make(b, type, a->S, E);
  for (int s = 0; s < a->S; s++) {
    tri_tensor to = tri_rows(&a->rows, s, 1), from = tri_rows(&a->qkv, a->cu[s + 1] - 1, 1);
    ok(b->device->ops->copy(b->stream, to.data, from.data, bytes_of(&to)));
  }
  deal_pages(a);
  fill_cache(b, a);
  a->table = put_i32(b, a->S, a->P, a->page);
  a->len = put_i32(b, a->S, 0, c->len);
  free(x);
}

static void unload(bench *b, spread_data *a) {
  free(a->page);
  drop_arrays(b, 0);
}

/* Computes o [S,H*D] of all rows. */
static tri_tensor decode(bench *b, const spread_data *a, bool spread) {
  tri_tensor o = make(b, a->qkv.dtype, a->S, a->c->H * a->c->D);
  tri_tensor work = make(b, TRI_F32, tri_attn_spread_work(&a->rule.heads, a->S, a->P), 0);

  ok(b->k->attn_decode(b->stream, &o, spread ? &work : NULL, &a->rows, &a->k_page, &a->v_page, &a->table,
                       &a->len, &a->rule));
  return o;
}

static void expect_forward(bench *b, const spread_data *a, const tri_tensor *o) {
  tri_tensor all = make(b, a->qkv.dtype, a->N, a->c->H * a->c->D), lse = make(b, TRI_F32, a->N, a->c->H);
  tri_tensor cu = put_i32(b, a->S + 1, 0, a->cu);

  ok(b->k->attn_fwd(b->stream, &all, &lse, &a->qkv, &cu, &a->rule));
  for (int s = 0; s < a->S; s++)
    expect_same_rows(b, "a spread row and attn_fwd's", o, s, &all, a->cu[s + 1] - 1, 1);
}

/* Runs every type of every case. float16 takes the same kernels as f32. */
static void run_bits(bench *b) {
  for (int i = 0; i < N_CASES; i++)
    for (int t = TRI_F32; t <= (i % 4 == 0 ? TRI_F16 : TRI_BF16); t++) {
      spread_data a;
      tri_tensor  one, many;
      load(b, &a, &cases[i], (tri_dtype)t);
      one = decode(b, &a, false);
      many = decode(b, &a, true);
      for (int s = 0; s < a.S; s++) expect_same_rows(b, "a row, spread or not", &one, s, &many, s, 1);
      if (a.c->forward) expect_forward(b, &a, &many);
      unload(b, &a);
    }
}
static void spread_rows_have_the_same_bits(void **state) {
  (void)state;
  for_each_device(run_bits);
}

/* Two tiles of the context change places. This changes only an order. The result is the same but for
 * roundings, so its bits differ, and both ways give the same new bits. So this test would find a kernel with
 * another order of tiles, or one with sums in parts. */
static void run_order(bench *b) {
  static const spread_case c = {4, 1, 64, {900}, 0, 0, false};
  for (int t = TRI_F32; t <= TRI_BF16; t++) {
    spread_data a;
    tri_tensor  was, one, many;
    double     *x, *y;
    int         n_moved = 0;
    if (!strcmp(b->device->ops->name, "cpu")) return;
    load(b, &a, &c, (tri_dtype)t);
    was = decode(b, &a, true);
    for (int i = 4; i < 6; i++) { /* tiles of two pages, the third and the tenth */
      int32_t page = a.page[i];
      a.page[i] = a.page[i + 14];
      a.page[i + 14] = page;
    }
    put_raw(b, &a.table, a.page);
    one = decode(b, &a, false);
    many = decode(b, &a, true);
    expect_same_rows(b, "a row with moved tiles, spread or not", &one, 0, &many, 0, 1);
    x = get_real(b, &was), y = get_real(b, &many);
    for (int i = 0; i < c.H * c.D; i++) {
      n_moved += x[i] != y[i];
      if (!(fabs(x[i] - y[i]) <= (t == TRI_F32 ? 2e-6 : 0.05))) /* measured, 1.2e-7 and 0.008 */
        fail_msg("moved tiles: o[%d] was %.9g and is %.9g", i, x[i], y[i]);
    }
    if (n_moved < 10) fail_msg("moved tiles change %d numbers of %d", n_moved, c.H * c.D);
    free(x);
    free(y);
    unload(b, &a);
  }
}
static void another_order_has_other_bits(void **state) {
  (void)state;
  for_each_device(run_order);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(spread_rows_have_the_same_bits),
      cmocka_unit_test(another_order_has_other_bits),
  };
  test_filter();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
