/* pairs.h - products of bf16 tiles with the processor's own instructions, for attention.
 *
 * The right operand of a product lies in pairs, bf16 [k/2,n,2]. A pair is the two elements in one 32-bit lane
 * of the instruction. A panel is 32 elements deep (as right operand of sums) or 32 columns wide (of scores),
 * for TRI_PAGE keys or queries. An element's bits depend on its own row and column alone, because sums run in
 * the order of k. All bf16 attention of a process uses one family. Apart from the first three functions, call
 * these only if tri_pairs_find is not NULL. Those that move elements may also be called if
 * tri_pairs_f32_avx512 returns true. Not collective, all of them.
 *
 * Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_PAIRS_H
#define TRI_CPU_PAIRS_H

#include "device/kernels.h"

#if defined(__x86_64__)
#define TRI_PAIRS_X86 1
#else
#define TRI_PAIRS_X86 0
#endif
/* Attributes of functions with AVX-512, and of functions with a bf16 family too. They hold whatever -march=
 * the other sources are compiled with. */
#define TRI_AVX512_TARGET __attribute__((target("avx2,fma,avx512f,avx512bw,avx512vl,avx512dq")))
#define TRI_PAIRS_TARGET  __attribute__((target("avx2,fma,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

enum {
  TRI_PAIRS_ROWS = 16,   /* rows of a left operand for one tile instruction */
  TRI_PAIRS_BLOCK = 128, /* keys in one step of a row's softmax; measured against 64 and 256 */
  TRI_PAIRS_PANELS = TRI_PAIRS_BLOCK / TRI_PAGE
};

/* Left operands and results have as many rows in memory as passed to `begin`, and n_row of them count.
 * Strides are in elements, those of panels in pairs. a is bf16, c is f32. next [n_panel] are panels of the
 * same width to prefetch. Each of them, or next itself, may be NULL. */
typedef struct tri_pairs {
  const char *name; /* "amx" or "avx512" */
  /* begin prepares the thread's tile registers for operands of n_row rows, at most TRI_PAIRS_ROWS. end
   * releases them. Call both around the calls below. n_row sets the rows of the first five tiles.
   * cpu/gemm/amx.h relies on it, because it uses AMX without the calls below. */
  void (*begin)(int n_row);
  void (*end)(void);
  /* c[n_row,32 n_panel] = a[n_row,n_k] panel, each [n_k/2,32,2]. n_k is a multiple of 32. */
  void (*scores)(float *c, int64_t ldc, const uint16_t *a, int64_t lda, const uint32_t *const *panel,
                 const uint32_t *const *next, int n_panel, int n_row, int n_k);
  /* c[n_row,n_col] += a[n_row,32 n_panel] panel, each [16,ldb,2]. n_col is a multiple of 16. */
  void (*sums)(float *c, int64_t ldc, const uint16_t *a, int64_t lda, const uint32_t *const *panel,
               const uint32_t *const *next, int64_t ldb, int n_panel, int n_row, int n_col);
} tri_pairs;

/* Chooses the family. It is the best one of this processor, or run.cpu_bf16 (base/choice.h), one of amx,
 * avx512 and f32 (none, bf16 is converted to f32). Also chooses the products of f32. Returns TRI_EDEVICE if
 * one of the two keys names a family this processor lacks, TRI_ECONFIG for an unknown name. */
TRI_CHECKED tri_status tri_pairs_choose(void);
/* Returns NULL if this processor has none, or before tri_pairs_choose. */
const tri_pairs *tri_pairs_find(void);
/* Returns whether this program multiplies in f32 itself with AVX-512 or AVX2 (cpu/gemm/vec.h), instead of the
 * library. It does on processors with one of them unless run.cpu_f32 is library. tri_pairs_choose
 * decides. The name is "avx512", "avx2" or "library". */
bool        tri_pairs_f32(void);
const char *tri_pairs_f32_name(void);
/* Returns whether it is AVX-512. */
bool tri_pairs_f32_avx512(void);

#if TRI_PAIRS_X86
extern const tri_pairs tri_pairs_avx512, tri_pairs_amx;
/* Asks the Linux kernel for permission to use tiles and returns whether this process may. */
bool tri_pairs_amx_allowed(void);
#endif

/* ---- conversion to bf16 ---- */

/* Returns whether this processor converts f32 to bf16 by an instruction, for every family. */
bool tri_pairs_narrows(void);
/* On such processors, converts `from` times scale to bf16 with the bits of tri_f32_to_bf16. Converts whole
 * vectors, and stops before one with a subnormal number, because the instruction turns it into 0. Returns the
 * number of converted elements. */
int64_t tri_pairs_narrow(uint16_t *to, const float *from, int64_t n, float scale);

/* ---- moving elements; pairs and f32 are both 32-bit elements ---- */

/* to[n_col up to the next 16,n_row up to the next 16] = from[n_row,n_col] transposed. Elements without a
 * source become 0. Row strides ldt, ldf. */
void tri_pairs_turn(uint32_t *to, int64_t ldt, const uint32_t *from, int64_t ldf, int n_row, int n_col);
/* to[n_pair,ldt] = rows 2i and 2i + 1 of bf16 from[n_row,n_col], interleaved. Elements without a source, up
 * to n_pair and the next 16 columns, become 0. Returns whether all elements are finite. */
bool tri_pairs_zip(uint32_t *to, int64_t ldt, const uint16_t *from, int64_t ldf, int n_row, int n_col,
                   int n_pair);
/* to[n_pad,ldt] = from[n_row,n_col]. The other elements become 0. */
void tri_pairs_rows(uint16_t *to, int64_t ldt, const uint16_t *from, int64_t ldf, int n_row, int n_pad,
                    int n_col);

/* ---- softmax ---- */

typedef struct tri_pairs_rows16 { /* TRI_PAIRS_ROWS rows of a running softmax (Milakov, Gimelshein 2018) */
  float max[TRI_PAIRS_ROWS];      /* largest scaled score so far, initially -INFINITY */
  float factor[TRI_PAIRS_ROWS];   /* for the sums before the last block */
  float sum[TRI_PAIRS_ROWS][16];  /* sum of exp(score - max), in 16 parts */
} tri_pairs_rows16;

/* The keys of a block seen by each row, from `first` to before `end`. [panel, panel_end) are the panels with
 * a key seen by any row. */
typedef struct tri_pairs_seen {
  int first[TRI_PAIRS_ROWS], end[TRI_PAIRS_ROWS];
  int panel, panel_end;
} tri_pairs_seen;

/* Turns one block's scores s[n_row,TRI_PAIRS_BLOCK] into weights p bf16 of the same shape, 0 for keys a row
 * does not see. Panels outside seen's range are left alone. Returns whether any factor is not 1. */
bool tri_pairs_softmax(tri_pairs_rows16 *r, float *s, uint16_t *p, int n_row, const tri_pairs_seen *seen,
                       float scale, float cap);
/* Returns the sum of row `row` over its 16 parts. */
float tri_pairs_sum(const tri_pairs_rows16 *r, int row);

/* ---- gradient ---- */

typedef struct tri_pairs_slope { /* for the scores of a block of queries */
  float lse[TRI_PAIRS_BLOCK], delta[TRI_PAIRS_BLOCK];
  float scale, cap;
} tri_pairs_slope;

/* Returns the position of query i of a block in ds_pair. Interleaving halves of 128-bit lanes produces this
 * order. */
static inline int tri_pairs_place(int i) {
  return (i & ~31) + (i >> 2 & 1) * 16 + (i >> 3 & 3) * 4 + (i & 3);
}
/* Takes scores s and products dp of two keys with queries 32 panel .. 32 panel_end - 1, [2,TRI_PAIRS_BLOCK]
 * each. Computes weights p = exp(score - lse) and their gradient ds = p (dp - delta), in bf16 of the same
 * shape, and ds in pairs [TRI_PAIRS_BLOCK,2]. Queries first[i] to before end[i] see key i. All results are 0
 * elsewhere. */
void tri_pairs_grad(const tri_pairs_slope *a, float *s, const float *dp, uint16_t *p, uint16_t *ds,
                    uint32_t *ds_pair, int panel, int panel_end, const int first[2], const int end[2]);

#endif
