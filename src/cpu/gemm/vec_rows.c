/* vec_rows.c - linear_pack, linear_fwd and linear_bwd_x with FMA instructions. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "vec.h"

#include <string.h>

#if TRI_PAIRS_X86

enum { ROWS = TRI_VEC_ROWS, LD = TRI_VEC_LD };
/* GROUP strips are multiplied by a panel one after the other. WAIT columns keep partial sums until the next
 * chunk of k. Both, with the panels, stay in the second-level cache. Measured on a Xeon with AMX. */
enum { GROUP = 8, WAIT = 512 };
/* Elements of a chunk of a panel, as f32. */
enum { PANEL = TRI_VEC_COLS * TRI_VEC_CHUNK };
/* Chosen. Below some 2 us of one thread, waking other threads costs more than it saves. */
static const double alone_macs = 1.5e5;

/* Returns the steps of a panel in memory. */
static int64_t panel_steps(int64_t k) { return tri_ceil_div(k, 16) * 16; }
static int64_t width(void) { return tri_vec_find()->width; }
static bool    is_f32(const tri_linear *l) { return l->dtype == TRI_F32; }
static bool    is_half(tri_in t) { return t && t->dtype != TRI_F32; }
static int64_t n_chunks(int64_t k) { return tri_ceil_div(k, TRI_VEC_CHUNK); }

/* Sets the sizes of y[M,n] = x[M,k] b. */
static void product_open(tri_linear *l, tri_linear_product *p, int64_t n, int64_t k) {
  const size_t panel = (size_t)(panel_steps(k) * width()) * tri_dtype_bytes(l->dtype);
  p->n = n;
  p->k = k;
  p->width = tri_min(n, 4 * TRI_VEC_COLS); /* columns that linear_check computes at once */
  p->n_blocks = tri_ceil_div(n, p->width);
  p->block_bytes = (size_t)tri_ceil_div(p->width, width()) * panel;
  p->all_bytes = (size_t)tri_ceil_div(n, width()) * panel;
  tri_raise(&l->stage_bytes, (GROUP * ROWS * LD + (is_f32(l) ? 0 : PANEL)) * sizeof(float));
  if (n_chunks(k) > 1) tri_raise(&l->c_bytes, GROUP * WAIT * ROWS * sizeof(float));
}

void tri_vec_open(tri_linear *l) {
  l->work = l->dtype;
  product_open(l, &l->fwd, l->n_out, l->n_in);
  if (!l->backward) return;
  product_open(l, &l->bwd, l->n_in, l->n_out);
  tri_vec_gradient_open(l);
}

/* pack_rows and pack_cols of tri_vec_code for 16-bit types, with stores to the caches. */
static void pack_rows16(uint16_t *to, const uint16_t *w, int64_t ld, int64_t n_col, int64_t k) {
  const int64_t cols = width();
  if (n_col < cols) memset(to, 0, (size_t)(k * cols) * sizeof *to);
  memset(to + k * cols, 0, (size_t)((panel_steps(k) - k) * cols) * sizeof *to);
  for (int64_t at = 0; at < k; at += 16)
    for (int64_t r = 0; r < n_col; r++)
      for (int64_t i = at; i < tri_min(at + 16, k); i++) to[i * cols + r] = w[r * ld + i];
}
static void pack_cols16(uint16_t *to, int64_t next, const uint16_t *w, int64_t ld, int64_t n, int64_t k) {
  const int64_t cols = width();
  for (int64_t c = 0; c < n; c += cols, to += next)
    for (int64_t i = 0; i < k; i++) {
      const int64_t m = tri_min(cols, n - c);
      memcpy(to + i * cols, w + i * ld + c, (size_t)m * sizeof *to);
      if (m < cols) memset(to + i * cols + m, 0, (size_t)(cols - m) * sizeof *to);
    }
}

void tri_vec_pack(const tri_linear *l, void *packed_fwd, void *packed_bwd, const void *w, int part,
                  int n_part) {
  const int64_t cols = width(), panels = tri_ceil_div(l->n_out, cols), fwd = panel_steps(l->n_in) * cols,
                bwd = panel_steps(l->n_out) * cols, k = l->n_in;
#pragma omp parallel for schedule(static) num_threads(l->threads)
  for (int64_t i = panels * part / n_part; i < panels * (part + 1) / n_part; i++) {
    const int64_t row = i * cols, n = tri_min(cols, l->n_out - row);
    if (is_f32(l)) {
      const float *from = (const float *)w + row * k;
      if (packed_fwd) tri_vec_find()->pack_rows((float *)packed_fwd + i * fwd, from, k, n, k);
      if (packed_bwd) tri_vec_find()->pack_cols((float *)packed_bwd + row * cols, bwd, from, k, k, n);
    } else {
      const uint16_t *from = (const uint16_t *)w + row * k;
      if (packed_fwd) pack_rows16((uint16_t *)packed_fwd + i * fwd, from, k, n, k);
      if (packed_bwd) pack_cols16((uint16_t *)packed_bwd + row * cols, bwd, from, k, k, n);
    }
  }
}

typedef struct part { /* a thread's part of a call, in strips of `height` rows and in panels, ends excluded */
  int64_t height, strip, strip_end, panel, panel_end;
} part;

/* Copies columns [k, k + n) of the strips' rows of x, LD apart, as f32. */
static void copy_strips(float *to, const tri_linear *l, const tri_linear_call *c, const part *p, int64_t k,
                        int64_t n) {
  const int64_t first = p->strip * p->height, end = tri_min(p->strip_end * p->height, c->rows);
  for (int64_t r = first; r < end; r++, to += LD) {
    const int64_t at = r * c->p->k + k;
    if (is_f32(l))
      memcpy(to, (const float *)(const void *)c->x + at, (size_t)n * sizeof *to);
    else
      l->widen(to, (const uint16_t *)(const void *)c->x + at, n);
  }
}

/* Runs a tile that writes f32 y itself. */
static void run_f32(const tri_linear_call *c, tri_vec_tile *t, int64_t row, int64_t col) {
  const int64_t at = row * c->p->n + col;
  t->y = (float *)c->y->data + at;
  t->ld = c->p->n;
  t->n_col = c->p->n - col;
  t->base = c->base ? (const float *)c->base->data + at : NULL;
  t->bias = c->bias ? (const float *)c->bias->data + col : NULL;
  tri_vec_find()->mul_rows(t);
}

/* Runs a tile, then converts its sums for y. bias and base have any type. */
static void run_any(const tri_linear *l, const tri_linear_call *c, tri_vec_tile *t, int64_t row,
                    int64_t col) {
  _Alignas(64) float sum[ROWS * TRI_VEC_COLS];
  t->y = sum;
  t->ld = t->n_col = t->n_panel * width();
  TRI_ASSERT(t->n_row * t->ld <= ROWS * TRI_VEC_COLS);
  tri_vec_find()->mul_rows(t);
  for (int r = 0; t->last && r < t->n_row; r++)
    l->store(c, sum + r * t->ld, row + r, col, tri_min(t->ld, c->p->n - col));
}

/* Multiplies the strips' rows in `a` by n_panel panels from `panel` on, of f32 one to four, else one. `wait`
 * keeps partial sums. */
static void run_panels(const tri_linear *l, const tri_linear_call *c, const part *p, int64_t panel,
                       int n_panel, int64_t k, int64_t n, float *a, float *wait) {
  const int64_t cols = width(), steps = panel_steps(c->p->k) * cols, rows = c->rows - p->strip * p->height;
  const size_t  each = tri_dtype_bytes(l->dtype);
  const char   *b = c->packed + (size_t)(panel * steps + k * cols) * each;
  const bool    more = panel + 1 < p->panel_end, direct = c->y->dtype == TRI_F32 && !is_half(c->bias),
             few = !is_f32(l) && p->strip_end - p->strip == 1 &&
                   tri_min(p->height, rows) <= tri_vec_find()->few;
  float       *wide = a + GROUP * ROWS * LD;
  tri_vec_tile t = {.b = is_f32(l) ? (const float *)(const void *)b : wide,
                    .half = few ? (const uint16_t *)(const void *)b : NULL,
                    .widen = l->widen,
                    .next = steps,
                    .k = n,
                    .n_panel = n_panel,
                    .first = k == 0,
                    .last = k + n == c->p->k};
  TRI_ASSERT(is_f32(l) ? direct : n_panel == 1);
  if (!is_f32(l) && !few) l->widen(wide, (const uint16_t *)(const void *)b, n * cols);
  for (int64_t i = p->strip; i < p->strip_end; i++) {
    const int64_t row = i * p->height, strip = i - p->strip;
    const bool    fetch = more && strip < (is_f32(l) ? 4 : 2);
    t.n_row = (int)tri_min(p->height, c->rows - row);
    t.a = a + strip * p->height * LD;
    t.wait = wait ? wait + strip * n_panel * ROWS * cols : NULL;
    t.ahead = fetch ? (const float *)(const void *)(b + (size_t)steps * each) + n * strip / 4 * 16 : NULL;
    if (direct)
      run_f32(c, &t, row, panel * cols);
    else
      run_any(l, c, &t, row, panel * cols);
  }
}

/* Multiplies the strips of a group by the panels of a block, chunk by chunk of k. */
static void run_block(const tri_linear *l, const tri_linear_call *c, const part *p, bool copied, float *a,
                      float *wait) {
  const int64_t k = c->p->k, n = n_chunks(k), rows = tri_min(p->height, c->rows - p->strip * p->height);
  const int     most = is_f32(l) ? tri_vec_panels((int)rows) : 1;
  for (int64_t i = 0; i < n; i++) {
    const int64_t from = k * i / n, steps = k * (i + 1) / n - from;
    if (!copied || n > 1) copy_strips(a, l, c, p, from, steps);
    for (int64_t j = p->panel; j < p->panel_end;) {
      const int64_t left = p->panel_end - j;
      const int     n_panel = left >= most ? most : left >= 2 && most > 2 ? 2 : 1;
      run_panels(l, c, p, j, n_panel, from, steps, a,
                 n > 1 ? wait + (j - p->panel) * GROUP * ROWS * width() : NULL);
      j += n_panel;
    }
  }
}

static void run_part(const tri_linear *l, const tri_linear_call *c, const part *p, int thread) {
  const int64_t block = n_chunks(c->p->k) > 1 ? WAIT / width() : p->panel_end - p->panel;
  float        *a = (float *)(void *)tri_linear_stage(l, thread);
  float        *wait = (float *)(void *)tri_linear_own(l, thread);
  for (int64_t i = p->strip; i < p->strip_end; i += GROUP)
    for (int64_t j = p->panel; j < p->panel_end; j += block) {
      const part one = {p->height, i, tri_min(i + GROUP, p->strip_end), j, tri_min(j + block, p->panel_end)};
      run_block(l, c, &one, j > p->panel, a, wait);
    }
}

void tri_vec_run(const tri_linear *l, const tri_linear_call *c) {
  const int64_t strips = tri_ceil_div(c->rows, tri_vec_find()->rows), panels = tri_ceil_div(c->p->n, width()),
                height = tri_ceil_div(c->rows, strips);
  const bool alone = (double)c->rows * (double)c->p->n * (double)c->p->k < alone_macs;
#pragma omp parallel num_threads(alone ? 1 : l->threads)
  {
    const int          thread = omp_get_thread_num();
    const tri_amx_grid g = tri_amx_share(strips, panels, omp_get_num_threads(), 1, 2);
    const int64_t      i = thread / g.cols, j = thread % g.cols;
    const part         p = {height, strips * i / g.rows, strips * (i + 1) / g.rows, panels * j / g.cols,
                            panels * (j + 1) / g.cols};
    run_part(l, c, &p, thread);
  }
}
#endif
