/* dot_amx.c - products of bf16 tiles with AMX, TDPBF16PS on tiles of 16 rows of 64 bytes.
 *
 * Tiles 0 to 3 hold results, 4 the left operand, 5 to 7 the right operand. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "pairs.h"

#if TRI_PAIRS_X86
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TILES __attribute__((target("amx-tile,amx-bf16"))) __attribute__((noinline))
/* gcc 12 does not know that a tile load reads memory. Earlier stores must be in memory by then. */
#define STORED() __asm__ volatile("" ::: "memory")

enum {
  REQUEST = 0x1023, /* specified: ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA of Linux */
  XTILEDATA = 18,
  BF16_BIT = 22, /* specified: Intel SDM, CPUID leaf 7, EDX */
  TILE_BIT = 24,
  DEEP = 32 /* elements of k for one instruction */
};

typedef struct tile_config { /* specified: Intel SDM, LDTILECFG, palette 1 */
  uint8_t  palette, start_row, zero[14];
  uint16_t row_bytes[16];
  uint8_t  rows[16];
} tile_config;

bool tri_pairs_amx_allowed(void) {
  unsigned a, b, c, d;

  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> BF16_BIT & 1) || !(d >> TILE_BIT & 1)) return false;
  return syscall(SYS_arch_prctl, REQUEST, XTILEDATA) == 0;
}

static TILES void begin(int n_row) {
  tile_config t = {.palette = 1};

  for (int i = 0; i < 8; i++) t.row_bytes[i] = 64, t.rows[i] = (uint8_t)(i < 5 ? n_row : TRI_PAIRS_ROWS);
  STORED();
  _tile_loadconfig(&t);
}

static TILES void end(void) { _tile_release(); }

/* Prefetches n lines of each of 16 rows. */
static inline void fetch_rows(const uint32_t *b, int64_t ldb, int n) {
  for (int i = 0; i < DEEP / 2; i++)
    for (int j = 0; j < n; j++) __builtin_prefetch(b + i * ldb + j * 16);
}

static TILES void scores(float *c, int64_t ldc, const uint16_t *a, int64_t lda, const uint32_t *const *panel,
                         const uint32_t *const *next, int n_panel, int n_row, int n_k) {
  (void)n_row;
  STORED();
  for (int at = 0; at < n_panel; at += 2) {
    const uint32_t *b0 = panel[at], *b1 = at + 1 < n_panel ? panel[at + 1] : NULL;
    float          *to = c + at * TRI_PAGE;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int k = 0; k < n_k; k += DEEP) {
      int pair = k / 2 * TRI_PAGE;
      _tile_loadd(4, a + k, lda * 2);
      if (next && next[at]) fetch_rows(next[at] + pair, TRI_PAGE, 2);
      _tile_loadd(5, b0 + pair, TRI_PAGE * 4);
      _tile_dpbf16ps(0, 4, 5);
      _tile_loadd(6, b0 + pair + 16, TRI_PAGE * 4);
      _tile_dpbf16ps(1, 4, 6);
      if (!b1) continue;
      if (next && next[at + 1]) fetch_rows(next[at + 1] + pair, TRI_PAGE, 2);
      _tile_loadd(7, b1 + pair, TRI_PAGE * 4);
      _tile_dpbf16ps(2, 4, 7);
      _tile_loadd(5, b1 + pair + 16, TRI_PAGE * 4);
      _tile_dpbf16ps(3, 4, 5);
    }
    _tile_stored(0, to, ldc * 4);
    _tile_stored(1, to + 16, ldc * 4);
    if (!b1) continue;
    _tile_stored(2, to + 32, ldc * 4);
    _tile_stored(3, to + 48, ldc * 4);
  }
}

static TILES void sums(float *c, int64_t ldc, const uint16_t *a, int64_t lda, const uint32_t *const *panel,
                       const uint32_t *const *next, int64_t ldb, int n_panel, int n_row, int n_col) {
  (void)n_row;
  STORED();
  for (int at = 0; at < n_col; at += 64) {
    int    n = (n_col - at) / 16; /* tiles of results, 4 or the rest */
    float *to = c + at;
    _tile_loadd(0, to, ldc * 4);
    if (n > 1) _tile_loadd(1, to + 16, ldc * 4);
    if (n > 2) _tile_loadd(2, to + 32, ldc * 4);
    if (n > 3) _tile_loadd(3, to + 48, ldc * 4);
    for (int i = 0; i < n_panel; i++) {
      const uint32_t *b = panel[i] + at;
      _tile_loadd(4, a + i * DEEP, lda * 2);
      if (next && next[i]) fetch_rows(next[i] + at, ldb, n > 4 ? 4 : n);
      _tile_loadd(5, b, ldb * 4);
      _tile_dpbf16ps(0, 4, 5);
      if (n < 2) continue;
      _tile_loadd(6, b + 16, ldb * 4);
      _tile_dpbf16ps(1, 4, 6);
      if (n < 3) continue;
      _tile_loadd(7, b + 32, ldb * 4);
      _tile_dpbf16ps(2, 4, 7);
      if (n < 4) continue;
      _tile_loadd(5, b + 48, ldb * 4);
      _tile_dpbf16ps(3, 4, 5);
    }
    _tile_stored(0, to, ldc * 4);
    if (n > 1) _tile_stored(1, to + 16, ldc * 4);
    if (n > 2) _tile_stored(2, to + 32, ldc * 4);
    if (n > 3) _tile_stored(3, to + 48, ldc * 4);
  }
}

const tri_pairs tri_pairs_amx = {"amx", begin, end, scores, sums};
#endif
