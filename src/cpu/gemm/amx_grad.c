/* amx_grad.c - linear_bwd_w with AMX tiles, dw[n_out,n_in] = dy^T x, summed over the rows of dy and x (k). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "amx.h"

#include <string.h>

#if TRI_PAIRS_X86

enum { SIDE = TRI_AMX_SIDE, STEP = TRI_AMX_STEP, TILE = TRI_AMX_TILE };
/* All threads together build the panels of x for a chunk of CHUNK steps. A strip of PART of these steps
 * stays in the first-level cache. A thread processes BLOCK panels at a time, and GROUP strips, transposed
 * part by part. If there are few panels, their tiles of dw stay in the second-level cache. Measured as in
 * amx_rows.c. */
enum { CHUNK = 32, PART = 8, BLOCK = 32, GROUP = 8 };

void tri_amx_gradient_open(tri_linear *l) {
  const int64_t panels = tri_ceil_div(l->n_in, SIDE);
  tri_raise(&l->stage_bytes, GROUP * PART * STEP);
  tri_raise(&l->c_bytes, SIDE * SIDE * sizeof(float));
  tri_raise(&l->shared_bytes, (size_t)(panels * CHUNK) * STEP);
}

typedef struct grad_call { /* one chunk of one linear_bwd_w */
  const tri_linear *l;
  float            *dw;
  const uint16_t   *dy, *x;
  int64_t           rows, first, steps; /* rows is M; first and steps describe the chunk */
  bool              add;
} grad_call;

/* Computes the [32,32] tile of dw for strip i and panel j from a and b. */
static void add_square(const grad_call *g, int64_t i, int64_t j, const tri_amx_left *a,
                       const tri_amx_right *b, bool add, float *own) {
  const int64_t n_in = g->l->n_in, rows = tri_min(SIDE, g->l->n_out - i * SIDE),
                cols = tri_min(SIDE, n_in - j * SIDE);
  float *to = g->dw + i * SIDE * n_in + j * SIDE;
  if (rows == SIDE && cols == SIDE) {
    tri_amx_mul(to, n_in, a, b, add);
    return;
  }
  for (int64_t r = 0; r < (add ? rows : 0); r++)
    memcpy(own + r * SIDE, to + r * n_in, (size_t)cols * sizeof *to);
  tri_amx_mul(own, SIDE, a, b, add);
  for (int64_t r = 0; r < rows; r++) memcpy(to + r * n_in, own + r * SIDE, (size_t)cols * sizeof *to);
}

static char *panel_of(const grad_call *g, int64_t j) { return tri_linear_shared(g->l) + j * g->steps * STEP; }

/* Multiplies strips [i, end) by panels [j0, j1), for steps [k, k + PART) of the chunk. */
static void run_group(const grad_call *g, int64_t i, int64_t end, int64_t j0, int64_t j1, int64_t k,
                      int thread) {
  const tri_linear *l = g->l;
  const int64_t     steps = tri_min(PART, g->steps - k);
  char             *a = tri_linear_stage(l, thread);
  for (int64_t t = 0; t < steps; t++) /* in the order of dy's rows */
    for (int64_t s = i; s < end; s++)
      tri_amx_turn_cols(a + ((s - i) * PART + t) * STEP, g->dy + s * SIDE, l->n_out,
                        tri_min(SIDE, l->n_out - s * SIDE), g->rows, g->first + k + t, 1);
  for (int64_t at = j0; at < j1; at += BLOCK)
    for (int64_t s = i; s < end; s++)
      for (int64_t j = at; j < tri_min(at + BLOCK, j1); j++) {
        const char         *b = panel_of(g, j) + k * TILE;
        const tri_amx_left  left = tri_amx_strip(a + (s - i) * PART * STEP);
        const tri_amx_right right = {b, b + g->steps * STEP, g->steps * TILE, steps};
        add_square(g, s, j, &left, &right, g->add || k > 0, (float *)(void *)tri_linear_own(l, thread));
      }
}

/* Runs inside a parallel region. All threads build the panels of x, then each computes its part of dw. */
static void run_chunk(const grad_call *g) {
  const tri_linear  *l = g->l;
  const int64_t      strips = tri_ceil_div(l->n_out, SIDE), panels = tri_ceil_div(l->n_in, SIDE);
  const tri_amx_grid t = tri_amx_share(strips, panels, omp_get_num_threads(), 4, 2);
  const int64_t      row = omp_get_thread_num() / t.cols, col = omp_get_thread_num() % t.cols;
  const int64_t      end = strips * (row + 1) / t.rows;
#pragma omp for schedule(static)
  for (int64_t k = 0; k < g->steps; k++)
    for (int64_t j = 0; j < panels; j++)
      tri_amx_cols(panel_of(g, j) + k * TILE, g->steps * TILE, g->x + j * SIDE, l->n_in,
                   tri_min(SIDE, l->n_in - j * SIDE), g->rows, g->first + k, 1);
  for (int64_t i = strips * row / t.rows; i < end; i += GROUP)
    for (int64_t k = 0; k < g->steps; k += PART)
      run_group(g, i, tri_min(i + GROUP, end), panels * col / t.cols, panels * (col + 1) / t.cols, k,
                omp_get_thread_num());
}

void tri_amx_bwd_w(const tri_linear *l, float *dw, tri_in dy, tri_in x, bool add) {
  const int64_t rows = dy->dim[0], steps = tri_ceil_div(rows, SIDE), n = tri_ceil_div(steps, CHUNK);
#pragma omp parallel num_threads(l->threads)
  {
    tri_amx_begin(TRI_PAIRS_ROWS);
    for (int64_t i = 0; i < n; i++) {
      const int64_t   first = steps * i / n;
      const grad_call g = {l, dw, dy->data, x->data, rows, first, steps * (i + 1) / n - first, add || i > 0};
      run_chunk(&g);
#pragma omp barrier
    }
    tri_amx_end();
  }
}
#endif
