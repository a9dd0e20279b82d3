/* vec_grad.c - linear_bwd_w with FMA instructions, dw[n_out,n_in] = dy^T x, summed over the rows of
 * dy and x (k). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "vec.h"

#if TRI_PAIRS_X86

enum { CHUNK = TRI_VEC_CHUNK, TURNED = TRI_VEC_TURNED };
/* Strips transposed at a time. They stay in the second-level cache. Measured as in vec_rows.c. */
enum { GROUP = 16 };

void tri_vec_gradient_open(tri_linear *l) {
  const int64_t cols = tri_vec_find()->width, panels = tri_ceil_div(l->n_in, cols);
  tri_raise(&l->stage_bytes, GROUP * CHUNK * TURNED * sizeof(float));
  tri_raise(&l->shared_bytes, (size_t)(panels * CHUNK * cols) * sizeof(float));
}

/* Rows and columns that are converted to f32 at a time. */
enum { PART_ROWS = 16, PART_COLS = 512 };

typedef struct grad_call { /* one chunk of one linear_bwd_w; dy and x point to its first row */
  const tri_linear *l;
  float            *dw;
  const char       *dy, *x;
  int64_t           rows, height; /* rows of the chunk, height of a strip of dw */
  bool              add;
} grad_call;

/* A part of an operand as f32, row stride ld. */
typedef struct operand {
  const float *x;
  int64_t      ld;
  _Alignas(64) float own[PART_ROWS * PART_COLS];
} operand;

/* Sets o to rows [row, row + n) and columns [col, col + m) of x[.,ld]. */
static void load_part(operand *o, const tri_linear *l, const char *x, int64_t ld, int64_t row, int64_t n,
                      int64_t col, int64_t m) {
  const char *at = x + (size_t)(row * ld + col) * tri_dtype_bytes(l->dtype);
  o->x = (const float *)(const void *)at;
  o->ld = ld;
  if (l->dtype == TRI_F32) return;
  TRI_ASSERT(n <= PART_ROWS && m <= PART_COLS);
  o->x = o->own;
  o->ld = m;
  for (int64_t i = 0; i < n; i++) l->widen(o->own + i * m, (const uint16_t *)(const void *)at + i * ld, m);
}

/* Multiplies strips [i, end) by panels [j0, j1). */
static void run_group(const grad_call *g, int64_t i, int64_t end, int64_t j0, int64_t j1, float *a) {
  const tri_linear *l = g->l;
  const int64_t     cols = tri_vec_find()->width, row = i * g->height,
                n = tri_min(end * g->height, l->n_out) - row;
  tri_vec_tile t = {.k = g->rows, .n_panel = 1, .first = true, .last = true, .ld = l->n_in};
  for (int64_t k = 0; k < g->rows; k += PART_ROWS) {
    const int64_t m = tri_min(PART_ROWS, g->rows - k);
    operand       o;
    load_part(&o, l, g->dy, l->n_out, k, m, row, n);
    tri_vec_find()->strips(a + k * TURNED, g->rows * TURNED, o.x, o.ld, n, m, (int)g->height);
  }
  for (int64_t j = j0; j < j1; j++) {
    t.b = (const float *)(const void *)tri_linear_shared(l) + j * g->rows * cols;
    t.n_col = l->n_in - j * cols;
    for (int64_t s = i; s < end; s++) {
      t.a = a + (s - i) * g->rows * TURNED;
      t.n_row = (int)tri_min(g->height, l->n_out - s * g->height);
      t.y = g->dw + s * g->height * l->n_in + j * cols;
      t.base = g->add ? t.y : NULL;
      t.ahead = j + 1 < j1 && s - i < 4 ? t.b + g->rows * cols + g->rows * (s - i) / 4 * 16 : NULL;
      tri_vec_find()->mul_turned(&t);
    }
  }
}

/* Runs inside a parallel region. All threads build the panels of x, then each computes its part of dw. */
static void run_chunk(const grad_call *g) {
  const tri_linear *l = g->l;
  const int64_t     cols = tri_vec_find()->width, strips = tri_ceil_div(l->n_out, g->height),
                panels = tri_ceil_div(l->n_in, cols);
  const tri_amx_grid t = tri_amx_share(strips, panels, omp_get_num_threads(), 4, 2);
  const int          thread = omp_get_thread_num();
  const int64_t      row = thread / t.cols, col = thread % t.cols, end = strips * (row + 1) / t.rows;
  float             *shared = (float *)(void *)tri_linear_shared(l);
#pragma omp for schedule(static)
  for (int64_t k = 0; k < g->rows; k += PART_ROWS)
    for (int64_t c = 0; c < l->n_in; c += PART_COLS) {
      const int64_t n = tri_min(PART_ROWS, g->rows - k), m = tri_min(PART_COLS, l->n_in - c);
      operand       o;
      load_part(&o, l, g->x, l->n_in, k, n, c, m);
      tri_vec_find()->cols(shared + (c * g->rows + k * cols), g->rows * cols, o.x, o.ld, m, n);
    }
  for (int64_t i = strips * row / t.rows; i < end; i += GROUP)
    run_group(g, i, tri_min(i + GROUP, end), panels * col / t.cols, panels * (col + 1) / t.cols,
              (float *)(void *)tri_linear_stage(l, thread));
}

void tri_vec_bwd_w(const tri_linear *l, float *dw, tri_in dy, tri_in x, bool add) {
  const int64_t rows = dy->dim[0], n = tri_ceil_div(rows, CHUNK),
                strips = tri_ceil_div(l->n_out, tri_vec_find()->rows);
#pragma omp parallel num_threads(l->threads)
  for (int64_t i = 0; i < n; i++) {
    const int64_t   first = rows * i / n;
    const grad_call g = {l,
                         dw,
                         (const char *)dy->data + (size_t)(first * l->n_out) * tri_dtype_bytes(l->dtype),
                         (const char *)x->data + (size_t)(first * l->n_in) * tri_dtype_bytes(l->dtype),
                         rows * (i + 1) / n - first,
                         tri_ceil_div(l->n_out, strips),
                         add || i > 0};
    run_chunk(&g);
#pragma omp barrier
  }
}
#endif
