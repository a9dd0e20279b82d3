/* vec_rows.c - linear_pack, linear_fwd and linear_bwd_x of f32 with FMA instructions. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "vec.h"

#include <string.h>

#if TRI_PAIRS_X86

enum { ROWS = TRI_VEC_ROWS, LD = TRI_VEC_LD };
/* GROUP strips are multiplied by a panel one after the other. WAIT columns keep partial sums until the next
 * chunk of k. Both, with the panels, stay in the second-level cache. Measured on a Xeon with AMX. */
enum { GROUP = 8, WAIT = 512 };
/* Chosen. Below some 2 us of one thread, waking other threads costs more than it saves. */
static const double alone_macs = 1.5e5;

/* Returns the steps of a panel in memory. */
static int64_t panel_steps(int64_t k) { return tri_ceil_div(k, 16) * 16; }
static int64_t width(void) { return tri_vec_find()->width; }
static int64_t n_chunks(int64_t k) { return tri_ceil_div(k, TRI_VEC_CHUNK); }

/* Sets the sizes of y[M,n] = x[M,k] b. */
static void product_open(tri_linear *l, tri_linear_product *p, int64_t n, int64_t k) {
  const size_t panel = (size_t)(panel_steps(k) * width()) * sizeof(float);
  p->n = n;
  p->k = k;
  p->width = tri_min(n, 4 * TRI_VEC_COLS); /* columns that linear_check computes at once */
  p->n_blocks = tri_ceil_div(n, p->width);
  p->block_bytes = (size_t)tri_ceil_div(p->width, width()) * panel;
  p->all_bytes = (size_t)tri_ceil_div(n, width()) * panel;
  tri_raise(&l->stage_bytes, GROUP * ROWS * LD * sizeof(float));
  if (n_chunks(k) > 1) tri_raise(&l->c_bytes, GROUP * WAIT * ROWS * sizeof(float));
}

void tri_vec_open(tri_linear *l) {
  l->work = l->dtype;
  product_open(l, &l->fwd, l->n_out, l->n_in);
  if (!l->backward) return;
  product_open(l, &l->bwd, l->n_in, l->n_out);
  tri_vec_gradient_open(l);
}

void tri_vec_pack(const tri_linear *l, float *packed_fwd, float *packed_bwd, const float *w, int part,
                  int n_part) {
  const int64_t cols = width(), panels = tri_ceil_div(l->n_out, cols), fwd = panel_steps(l->n_in) * cols,
                bwd = panel_steps(l->n_out) * cols;
#pragma omp parallel for schedule(static) num_threads(l->threads)
  for (int64_t i = panels * part / n_part; i < panels * (part + 1) / n_part; i++) {
    const int64_t row = i * cols, n = tri_min(cols, l->n_out - row);
    const float  *from = w + row * l->n_in;
    if (packed_fwd) tri_vec_find()->pack_rows(packed_fwd + i * fwd, from, l->n_in, n, l->n_in);
    if (packed_bwd) tri_vec_find()->pack_cols(packed_bwd + row * cols, bwd, from, l->n_in, l->n_in, n);
  }
}

typedef struct part { /* a thread's part of a call, in strips of `height` rows and in panels, ends excluded */
  int64_t height, strip, strip_end, panel, panel_end;
} part;

/* Copies columns [k, k + n) of the strips' rows of x, LD apart. */
static void copy_strips(float *to, const tri_linear_call *c, const part *p, int64_t k, int64_t n) {
  const int64_t first = p->strip * p->height, end = tri_min(p->strip_end * p->height, c->rows);
  const float  *x = (const float *)(const void *)c->x + k;
  for (int64_t r = first; r < end; r++, to += LD) memcpy(to, x + r * c->p->k, (size_t)n * sizeof *to);
}

/* Multiplies the strips' rows in `a` by n_panel (one to four) panels from `panel` on. `wait` keeps partial
 * sums. */
static void run_panels(const tri_linear_call *c, const part *p, int64_t panel, int n_panel, int64_t k,
                       int64_t n, const float *a, float *wait) {
  const int64_t cols = width(), col = panel * cols, steps = panel_steps(c->p->k) * cols;
  tri_vec_tile  t = {.b = (const float *)(const void *)c->packed + panel * steps + k * cols,
                     .next = steps,
                     .k = n,
                     .n_panel = n_panel,
                     .first = k == 0,
                     .last = k + n == c->p->k,
                     .ld = c->p->n,
                     .n_col = c->p->n - col,
                     .bias = c->bias ? (const float *)c->bias->data + col : NULL};
  for (int64_t i = p->strip; i < p->strip_end; i++) {
    const int64_t row = i * p->height, at = row * c->p->n + col;
    t.n_row = (int)tri_min(p->height, c->rows - row);
    t.a = a + (i - p->strip) * p->height * LD;
    t.wait = wait + (i - p->strip) * n_panel * ROWS * cols;
    t.y = (float *)c->y->data + at;
    t.base = c->base ? (const float *)c->base->data + at : NULL;
    t.ahead = panel + 1 < p->panel_end ? tri_vec_ahead(t.b + steps, n, cols, i - p->strip) : NULL;
    tri_vec_find()->mul_rows(&t);
  }
}

/* Multiplies the strips of a group by the panels of a block, chunk by chunk of k. */
static void run_block(const tri_linear_call *c, const part *p, bool copied, float *a, float *wait) {
  const int64_t k = c->p->k, n = n_chunks(k), rows = tri_min(p->height, c->rows - p->strip * p->height);
  const int     most = tri_vec_panels((int)rows);
  for (int64_t i = 0; i < n; i++) {
    const int64_t from = k * i / n, steps = k * (i + 1) / n - from;
    if (!copied || n > 1) copy_strips(a, c, p, from, steps);
    for (int64_t j = p->panel; j < p->panel_end;) {
      const int64_t left = p->panel_end - j;
      const int     n_panel = left >= most ? most : left >= 2 && most > 2 ? 2 : 1;
      run_panels(c, p, j, n_panel, from, steps, a, wait + (j - p->panel) * GROUP * ROWS * width());
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
      run_block(c, &one, j > p->panel, a, wait);
    }
}

void tri_vec_run(const tri_linear *l, const tri_linear_call *c) {
  const int64_t strips = tri_ceil_div(c->rows, tri_vec_find()->rows), panels = tri_ceil_div(c->p->n, width()),
                height = tri_ceil_div(c->rows, strips);
  const bool alone = (double)c->rows * (double)c->p->n * (double)c->p->k < alone_macs;
  TRI_ASSERT(c->y->dtype == TRI_F32 && (!c->bias || c->bias->dtype == TRI_F32));
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
