/* linear_few.c - products of few rows, which take as long as their weights take to be read: by the
 * processor's own instructions (cpu/pairs), which fetch the weights ahead, from what the library packed. */
#include "linear.h"

#include "cpu/pairs/pairs.h"

#include <string.h>

#if TRI_PAIRS_X86

bool tri_few_fits(const tri_gemm *g) {
  const tri_pairs *by = tri_pairs_find();
  return by && by->product && tri_gemm_in_panels(g);
}

void tri_few_run(float *c, const char *x, int64_t rows, int64_t n, int64_t k, const char *packed) {
  const tri_pairs *by = tri_pairs_find();
  const uint16_t  *a = (const uint16_t *)(const void *)x;
  const uint32_t  *b = (const uint32_t *)(const void *)packed;
  float            part[TRI_TILE_ROWS * TRI_PAIRS_COLS]; /* where the last panel has more columns than b */
  for (int64_t col = 0; col < n; col += TRI_PAIRS_COLS, b += k / 2 * TRI_PAIRS_COLS) {
    const int64_t cols = tri_min(n - col, TRI_PAIRS_COLS);
    if (cols == TRI_PAIRS_COLS) {
      by->product(c + col, n, a, k, b, (int)rows, (int)k);
      continue;
    }
    by->product(part, TRI_PAIRS_COLS, a, k, b, (int)rows, (int)k);
    for (int64_t r = 0; r < rows; r++)
      memcpy(c + r * n + col, part + r * TRI_PAIRS_COLS, (size_t)cols * sizeof *c);
  }
}

#else

bool tri_few_fits(const tri_gemm *g) {
  (void)g;
  return false;
}

void tri_few_run(float *c, const char *x, int64_t rows, int64_t n, int64_t k, const char *packed) {
  (void)c, (void)x, (void)rows, (void)n, (void)k, (void)packed;
  TRI_ASSERT(false); /* nothing fits */
}

#endif
