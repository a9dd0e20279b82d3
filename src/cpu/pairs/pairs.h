/* pairs.h - tiles of bf16 multiplied by a processor's own instructions, as attention needs them.
 *
 * The right operand of a product lies in pairs: bf16 [k/2,n,2], the two elements that one 32-bit lane of the
 * instruction takes. A panel is 32 elements deep (as right operand of sums) or 32 columns wide (of scores):
 * TRI_PAGE keys or queries. An element's bits depend on its own row and column alone: sums run in the order
 * of k. All of one process's bf16 attention runs through one family. The functions but the first three may be
 * called only where tri_pairs_find is not NULL, those that move elements also where tri_pairs_f32 says yes.
 * None is collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CPU_PAIRS_H
#define TRI_CPU_PAIRS_H

#include "device/kernels.h"

#if defined(__x86_64__)
#define TRI_PAIRS_X86 1
#else
#define TRI_PAIRS_X86 0
#endif
/* What a processor with AVX-512 has that is of use here, and that of a family beside it, whatever -march= the
 * rest is built for. */
#define TRI_AVX512_TARGET __attribute__((target("avx2,fma,avx512f,avx512bw,avx512vl,avx512dq")))
#define TRI_PAIRS_TARGET  __attribute__((target("avx2,fma,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

enum {
  TRI_PAIRS_ROWS = 16,   /* rows of a left operand that one tile instruction takes */
  TRI_PAIRS_BLOCK = 128, /* keys that the softmax of a row meets at once; measured, beside 64 and 256 */
  TRI_PAIRS_PANELS = TRI_PAIRS_BLOCK / TRI_PAGE
};

/* Left operands and results have as many rows in memory as `begin` was told, of which n_row count; strides in
 * elements, of panels in pairs. a bf16, c f32. next: [n_panel] panels that are fetched meanwhile, as wide as
 * those there are; they, or all, may be NULL. */
typedef struct tri_pairs {
  const char *name; /* "amx" or "avx512" */
  /* The thread's tile registers, made ready for operands of so many rows, at most TRI_PAIRS_ROWS, and given
   * back: around the calls below. Fewer are the rows of the first five tiles, also where AMX is used without
   * them (cpu/gemm/amx.h). */
  void (*begin)(int n_row);
  void (*end)(void);
  /* c[n_row,32 n_panel] = a[n_row,n_k] panel, each [n_k/2,32,2]. n_k is a multiple of 32. */
  void (*scores)(float *c, int64_t ldc, const uint16_t *a, int64_t lda, const uint32_t *const *panel,
                 const uint32_t *const *next, int n_panel, int n_row, int n_k);
  /* c[n_row,n_col] += a[n_row,32 n_panel] panel, each [16,ldb,2]. n_col is a multiple of 16. */
  void (*sums)(float *c, int64_t ldc, const uint16_t *a, int64_t lda, const uint32_t *const *panel,
               const uint32_t *const *next, int64_t ldb, int n_panel, int n_row, int n_col);
} tri_pairs;

/* Chooses the family, the best this processor has, or run.cpu_bf16 (base/choice.h): amx, avx512, or
 * f32 (none: bf16 is widened); and the products of f32. TRI_EDEVICE if one of the two names what is not here,
 * TRI_ECONFIG what is nowhere. */
TRI_CHECKED tri_status tri_pairs_choose(void);
/* NULL: this processor has none, or tri_pairs_choose was not called. */
const tri_pairs *tri_pairs_find(void);
/* Whether the products of f32 weights are this program's own, by AVX-512 (cpu/gemm/vec.h), not the library's:
 * where this processor has it, but for run.cpu_f32: library. As tri_pairs_choose found it. */
bool tri_pairs_f32(void);

#if TRI_PAIRS_X86
extern const tri_pairs tri_pairs_avx512, tri_pairs_amx;
/* Whether the kernel lets this process use tiles; asks for it. */
bool tri_pairs_amx_allowed(void);
#endif

/* ---- narrowing ---- */

/* Whether this processor makes bf16 of f32 by its own instruction, whatever family was chosen. */
bool tri_pairs_narrows(void);
/* Where it does: bf16 of `from` times scale, of tri_f32_to_bf16's bits: whole vectors, until one of them
 * holds a subnormal number, of which that instruction makes 0. How many elements. */
int64_t tri_pairs_narrow(uint16_t *to, const float *from, int64_t n, float scale);

/* ---- moving elements; pairs and f32 are 32-bit elements all the same ---- */

/* to[n_col up to the next 16,n_row up to the next 16] = from[n_row,n_col] transposed; places without a source
 * become 0. Row strides ldt, ldf. */
void tri_pairs_turn(uint32_t *to, int64_t ldt, const uint32_t *from, int64_t ldf, int n_row, int n_col);
/* to[n_pair,ldt] = rows 2i and 2i + 1 of bf16 from[n_row,n_col], side by side; places without a source up to
 * n_pair and the next 16 columns become 0. Says whether all elements are finite. */
bool tri_pairs_zip(uint32_t *to, int64_t ldt, const uint16_t *from, int64_t ldf, int n_row, int n_col,
                   int n_pair);
/* to[n_pad,ldt] = from[n_row,n_col]; the other places are 0. */
void tri_pairs_rows(uint16_t *to, int64_t ldt, const uint16_t *from, int64_t ldf, int n_row, int n_pad,
                    int n_col);

/* ---- softmax ---- */

typedef struct tri_pairs_rows16 { /* of TRI_PAIRS_ROWS rows of a running softmax (Milakov, Gimelshein 2018) */
  float max[TRI_PAIRS_ROWS];      /* of the scaled scores so far; -INFINITY */
  float factor[TRI_PAIRS_ROWS];   /* for what was summed before the last block */
  float sum[TRI_PAIRS_ROWS][16];  /* of exp(score - max), in 16 parts */
} tri_pairs_rows16;

/* Which keys of a block a row sees: from first to before end. Which panels hold one that any row sees. */
typedef struct tri_pairs_seen {
  int first[TRI_PAIRS_ROWS], end[TRI_PAIRS_ROWS];
  int panel, panel_end;
} tri_pairs_seen;

/* One block's scores s[n_row,TRI_PAIRS_BLOCK] become weights p bf16 of the same shape, 0 where a row does not
 * see; panels outside of seen's are left alone. Says whether any factor is not 1. */
bool tri_pairs_softmax(tri_pairs_rows16 *r, float *s, uint16_t *p, int n_row, const tri_pairs_seen *seen,
                       float scale, float cap);
/* The sum of row `row`, folded. */
float tri_pairs_sum(const tri_pairs_rows16 *r, int row);

/* ---- gradient ---- */

typedef struct tri_pairs_slope { /* of the scores of a block of queries */
  float lse[TRI_PAIRS_BLOCK], delta[TRI_PAIRS_BLOCK];
  float scale, cap;
} tri_pairs_slope;

/* Where query i of a block stands in ds_pair: interleaving by halves of 128 bits leaves this order. */
static inline int tri_pairs_place(int i) {
  return (i & ~31) + (i >> 2 & 1) * 16 + (i >> 3 & 3) * 4 + (i & 3);
}
/* Scores s and products dp of two keys with queries 32 panel .. 32 panel_end - 1, [2,TRI_PAIRS_BLOCK] each:
 * weights p = exp(score - lse) and their gradient ds = p (dp - delta), in bf16 of the same shape, and ds in
 * pairs [TRI_PAIRS_BLOCK,2]. Key i is seen by queries first[i] to before end[i]; elsewhere all are 0. */
void tri_pairs_grad(const tri_pairs_slope *a, float *s, const float *dp, uint16_t *p, uint16_t *ds,
                    uint32_t *ds_pair, int panel, int panel_end, const int first[2], const int end[2]);

#endif
