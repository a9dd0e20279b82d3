/* gemm_find.c - finds cuBLASLt's algorithms for a product: those it names, and relatives of one algorithm. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"
#include "gemm_impl.h"

#include <stdio.h>
#include <string.h>

enum { ALIGN_WEIGHTS = 128 }; /* bytes, params.c aligns to 64 elements, here in the smaller type */
enum { MAX_IDS = 1024 };      /* above CUBLASLT_MATMUL_TILE_END of version 13 */

/* Returns the alignment of any row of n elements, if the first row is aligned to ALIGN_WEIGHTS. */
static uint32_t row_align(int64_t n, tri_dtype t) {
  uint32_t bytes = ALIGN_WEIGHTS;

  while ((n * (int64_t)tri_dtype_bytes(t)) % bytes) bytes /= 2;
  return bytes;
}

/* Gives the alignment of the addresses of A, B, C and D in bytes. The weights of a part may begin at any row
 * of the whole. */
static void alignments(const tri_linear *l, const tri_lt *p, uint32_t out[4]) {
  const bool fwd = p->dir == TRI_LT_FWD, w = p->dir == TRI_LT_BWD_W;

  out[0] = w || l->n_whole ? row_align(l->n_in, l->dtype) : ALIGN_WEIGHTS;
  out[1] = row_align(fwd ? l->n_in : l->n_out, l->dtype);
  out[2] = out[3] = w ? ALIGN_WEIGHTS : row_align(fwd ? l->n_out : l->n_in, p->out);
}

/* Parts of a sum lie in the workspace as f32, and a kernel of their own adds them in order. Two other schemes
 * are not allowed. One adds them in the result (INPLACE). Counters should keep its order, but some have seen
 * it change from run to run (NVIDIA's CUDALibrarySamples, issue 243). The other keeps parts in the result's
 * type, which rounds them. */
static uint32_t scheme_of(bool parts) {
  return parts ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE;
}

static tri_status set_preference(const tri_linear *l, const tri_lt *p, bool parts,
                                 cublasLtMatmulPreference_t pref) {
  const uint64_t bytes = TRI_GPU_PRODUCT_BYTES;
  const uint32_t scheme = scheme_of(parts);
  uint32_t       align[4];
  const struct {
    cublasLtMatmulPreferenceAttributes_t what;
    const uint32_t                      *value;
  } set[] = {{CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme},
             {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &align[0]},
             {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &align[1]},
             {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &align[2]},
             {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &align[3]}};

  alignments(l, p, align);
  TRI_LT_TRY(cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                  sizeof bytes));
  for (size_t i = 0; i < sizeof set / sizeof *set; i++)
    TRI_LT_TRY(cublasLtMatmulPreferenceSetAttribute(pref, set[i].what, set[i].value, sizeof *set[i].value));
  return TRI_OK;
}

/* Returns an attribute of 4 bytes, or `none` if the algorithm does not have it. */
static uint32_t config(const cublasLtMatmulAlgo_t *algo, cublasLtMatmulAlgoConfigAttributes_t what,
                       uint32_t none) {
  uint32_t value = none;
  size_t   n;

  if (cublasLtMatmulAlgoConfigGetAttribute(algo, what, &value, sizeof value, &n)) return none;
  return value;
}

/* An algorithm that does not report its parts is judged by its bits. */
bool tri_lt_is_whole(const cublasLtMatmulAlgo_t *algo) {
  return (int32_t)config(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 1) <= 1 &&
         config(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, CUBLASLT_REDUCTION_SCHEME_NONE) ==
             CUBLASLT_REDUCTION_SCHEME_NONE;
}

static bool in_order(const cublasLtMatmulAlgo_t *algo) {
  return tri_lt_is_whole(algo) ||
         config(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 0) == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
}

/* Asks the library for up to `want` algorithms, writes them at out->at + out->n and keeps the useful ones.
 * With `of` not NULL, only algorithms with its id. */
static tri_status ask(const tri_linear *l, const tri_lt *p, int64_t rows, bool parts,
                      const cublasLtMatmulAlgo_t *of, int want, tri_lt_found *out) {
  tri_status                       st = TRI_OK;
  cublasLtMatmulPreference_t       pref = NULL;
  const uint32_t                   by_id = CUBLASLT_SEARCH_LIMITED_BY_ALGO_ID;
  cublasLtMatmulHeuristicResult_t *at = out->at + out->n;
  tri_lt_layouts                   t;
  int                              n = 0;
  cublasStatus_t                   e;

  TRI_TRY(tri_lt_set_layouts(l, p, rows, &t));
  TRI_LT_TRY(cublasLtMatmulPreferenceCreate(&pref));
  TRI_TRY_DONE(set_preference(l, p, parts, pref));
  if (of) {
    TRI_LT_TRY_DONE(
        cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_SEARCH_MODE, &by_id, sizeof by_id));
    for (int i = 0; i < want; i++) at[i].algo = *of;
  }
  e = cublasLtMatmulAlgoGetHeuristic(l->device->blas, p->desc, &t.a, &t.b, &t.d, &t.d, pref, want, at, &n);
  if (e != CUBLAS_STATUS_NOT_SUPPORTED && !(of && e)) TRI_LT_TRY_DONE(e);
  for (int i = 0; i < n && !e; i++)
    if (at[i].state == CUBLAS_STATUS_SUCCESS && at[i].workspaceSize <= TRI_GPU_PRODUCT_BYTES &&
        (parts ? in_order(&at[i].algo) : tri_lt_is_whole(&at[i].algo)))
      out->at[out->n++] = at[i];
done:
  cublasLtMatmulPreferenceDestroy(pref);
  return st;
}

tri_status tri_lt_look_up(const tri_linear *l, const tri_lt *p, int64_t rows, bool parts, tri_lt_found *out) {
  out->n = 0;
  return ask(l, p, rows, parts, NULL, TRI_LT_TRIES, out);
}

/* Gets the library's check of an algorithm for this many rows. Returns false if the algorithm cannot do
 * it. */
static bool check(const tri_linear *l, const tri_lt *p, int64_t rows, const cublasLtMatmulAlgo_t *algo,
                  cublasLtMatmulHeuristicResult_t *out) {
  tri_lt_layouts t;

  if (tri_lt_set_layouts(l, p, rows, &t) != TRI_OK) return tri_error_clear(), false;
  return cublasLtMatmulAlgoCheck(l->device->blas, p->desc, &t.a, &t.b, &t.d, &t.d, algo, out) ==
             CUBLAS_STATUS_SUCCESS &&
         out->workspaceSize <= TRI_GPU_PRODUCT_BYTES;
}

bool tri_lt_fits(const tri_linear *l, const tri_lt *p, int64_t rows, const cublasLtMatmulAlgo_t *algo,
                 size_t *bytes) {
  cublasLtMatmulHeuristicResult_t got = {.workspaceSize = 0};

  if (!check(l, p, rows, algo, &got)) return false;
  *bytes = got.workspaceSize;
  return true;
}

/* ---- relatives of an algorithm ---- */

/* Tiles of cublasLtMatmulTile_t as numbers, because older headers have no names for them. They give elements
 * of y's width, then rows. The table has the tiles that fill 64 to 256 of the width and are known from
 * Ampere's and Hopper's kernels, most rows first. */
static const struct tile {
  uint32_t id;
  int64_t  width, rows;
} tiles[] = {{23, 128, 256}, {19, 64, 256},  {32, 128, 192}, {116, 64, 192}, {20, 128, 128}, {24, 256, 128},
             {17, 64, 128},  {33, 128, 96},  {26, 64, 96},   {18, 128, 64},  {21, 256, 64},  {15, 64, 64},
             {397, 128, 48}, {315, 64, 48},  {16, 128, 32},  {35, 256, 32},  {13, 64, 32},   {395, 128, 24},
             {313, 64, 24},  {394, 128, 16}, {487, 256, 16}, {312, 64, 16},  {393, 128, 8},  {10, 64, 8}};
enum { N_TILES = sizeof tiles / sizeof *tiles };
/* Accepts tiles with a quarter up to all of a bucket's rows, or with 128 rows and more in a larger bucket. */
static bool tile_suits(const struct tile *t, int64_t rows) {
  return t->rows <= rows && (4 * t->rows >= rows || t->rows >= 128);
}
enum { TILE_STAGES = 2 }; /* most relatives of one tile. Chosen to try more tiles rather than more stages */

/* Gets the values an algorithm permits for this attribute. Returns 0 if it has no choice. */
static int capabilities(const cublasLtMatmulAlgo_t *algo, cublasLtMatmulAlgoCapAttributes_t what,
                        uint32_t ids[MAX_IDS]) {
  size_t bytes = 0, n;

  if (cublasLtMatmulAlgoCapGetAttribute(algo, what, NULL, 0, &bytes) || bytes > MAX_IDS * sizeof *ids ||
      bytes == 0 || cublasLtMatmulAlgoCapGetAttribute(algo, what, ids, bytes, &n))
    return 0;
  return (int)(bytes / sizeof *ids);
}

/* Returns whether the algorithm is among the first n. */
static bool stands(const tri_lt_found *f, int n, const cublasLtMatmulAlgo_t *algo) {
  for (int i = 0; i < n; i++)
    if (!memcmp(&f->at[i].algo, algo, sizeof *algo)) return true;
  return false;
}

/* Makes an algorithm with the same id, its order within a tile, this tile and these stages. The library picks
 * the cluster. */
static bool configure(const cublasLtMatmulAlgo_t *blank, const cublasLtMatmulAlgo_t *of, uint32_t tile,
                      uint32_t stages, cublasLtMatmulAlgo_t *out) {
  static const cublasLtMatmulAlgoConfigAttributes_t kept[] = {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION,
                                                              CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING,
                                                              CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID};

  *out = *blank;
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
    uint32_t     value = 0;
    const size_t bytes = kept[i] == CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID ? sizeof(uint16_t) : sizeof value;
    size_t       n;
    if (cublasLtMatmulAlgoConfigGetAttribute(of, kept[i], &value, bytes, &n) == CUBLAS_STATUS_SUCCESS &&
        value && cublasLtMatmulAlgoConfigSetAttribute(out, kept[i], &value, bytes))
      return false;
  }
  return !cublasLtMatmulAlgoConfigSetAttribute(out, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile, sizeof tile) &&
         !cublasLtMatmulAlgoConfigSetAttribute(out, CUBLASLT_ALGO_CONFIG_STAGES_ID, &stages, sizeof stages);
}

/* Returns whether the algorithm can read and write at our alignments. The library's check of an algorithm
 * does not know them. */
static bool aligned(const tri_linear *l, const tri_lt *p, const cublasLtMatmulAlgo_t *algo) {
  static const cublasLtMatmulAlgoCapAttributes_t wants[4] = {
      CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES, CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES,
      CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES, CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES};
  uint32_t have[4], want;
  size_t   n;

  alignments(l, p, have);
  for (int i = 0; i < 4; i++)
    if (cublasLtMatmulAlgoCapGetAttribute(algo, wants[i], &want, sizeof want, &n) || want > have[i])
      return false;
  return true;
}

void tri_lt_put_first(const tri_linear *l, const tri_lt *p, int64_t rows, const cublasLtMatmulAlgo_t *algo,
                      tri_lt_found *io) {
  cublasLtMatmulHeuristicResult_t first = {.workspaceSize = 0};
  int                             i = 0;

  if (!aligned(l, p, algo) || !check(l, p, rows, algo, &first)) return;
  first.algo = *algo;
  while (i < io->n && memcmp(&io->at[i].algo, algo, sizeof *algo)) i++;
  memmove(&io->at[1], &io->at[0], (size_t)i * sizeof io->at[0]);
  io->at[0] = first;
  if (i == io->n) io->n++;
}

static void add_tile(const tri_linear *l, const tri_lt *p, int64_t rows, const cublasLtMatmulAlgo_t *blank,
                     const cublasLtMatmulAlgo_t *of, uint32_t tile, tri_lt_found *io) {
  uint32_t stages[MAX_IDS + 1];
  int      n = 1 + capabilities(blank, CUBLASLT_ALGO_CAP_STAGES_IDS, stages + 1), added = 0;

  stages[0] =
      config(of, CUBLASLT_ALGO_CONFIG_STAGES_ID, 0); /* its own first, likely the same steps of a sum */
  for (int i = 0; i < n && added < TILE_STAGES && io->n < TRI_LT_TRIES + TRI_LT_RELATIVES; i++) {
    cublasLtMatmulHeuristicResult_t got = {.workspaceSize = 0};
    cublasLtMatmulAlgo_t            algo;
    if (i && stages[i] == stages[0]) continue;
    if (!configure(blank, of, tile, stages[i], &algo) || stands(io, io->n, &algo) || !aligned(l, p, &algo) ||
        !check(l, p, rows, &algo, &got))
      continue;
    got.algo = algo;
    io->at[io->n++] = got;
    added++;
  }
}

tri_status tri_lt_relatives(const tri_linear *l, const tri_lt *p, int64_t rows,
                            const cublasLtMatmulAlgo_t *of, tri_lt_found *io) {
  const cudaDataType_t ab = tri_lt_type(l->dtype), d = tri_lt_type(p->out);
  const int            id = (int)config(of, CUBLASLT_ALGO_CONFIG_ID, UINT32_MAX), before = io->n;
  cublasLtMatmulAlgo_t blank = {0};
  uint32_t             ids[MAX_IDS];
  int                  n, found;

  /* The library need not let us configure algorithms. Then only those it names remain. */
  if (id < 0 ||
      cublasLtMatmulAlgoInit(l->device->blas, CUBLAS_COMPUTE_32F, CUDA_R_32F, ab, ab, d, d, id, &blank))
    return TRI_OK;
  TRI_TRY(ask(l, p, rows, false, &blank, TRI_LT_RELATIVES / 4, io));
  found = io->n;
  io->n = before;
  for (int i = before; i < found; i++)
    if (!stands(io, io->n, &io->at[i].algo)) io->at[io->n++] = io->at[i];
  n = capabilities(&blank, CUBLASLT_ALGO_CAP_TILE_IDS, ids);
  for (int t = 0; t < N_TILES; t++)
    for (int i = 0; i < n; i++)
      if (ids[i] == tiles[t].id && tile_suits(&tiles[t], rows)) add_tile(l, p, rows, &blank, of, ids[i], io);
  return TRI_OK;
}

/* ---- log ---- */

void tri_lt_log(const tri_linear *l, const tri_lt *p, int bucket, const char *why, double ms) {
  static const char *const    dirs[] = {"fwd", "bwd_x", "bwd_w"};
  const cublasLtMatmulAlgo_t *algo = &p->algo[bucket];
  uint16_t                    cluster = 0;
  char                        took[32] = "";
  size_t                      n;

  if (ms >= 0) snprintf(took, sizeof took, ", %.4f ms", ms);
  if (cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, &cluster,
                                           sizeof cluster, &n))
    cluster = 0;
  tri_log(TRI_LOG_DEBUG,
          "product [%lld,%lld] %s %s to %s%s, %s%lld rows: algorithm %d tile %u stages %u cluster %u parts "
          "%d%s; %s",
          (long long)l->n_out, (long long)l->n_in, dirs[p->dir], tri_lt_type_name(l->dtype),
          tri_lt_type_name(p->out), p->bias ? " with bias" : "", bucket == TRI_LT_MANY ? "above " : "up to ",
          (long long)tri_lt_rows[bucket == TRI_LT_MANY ? bucket - 1 : bucket],
          (int)config(algo, CUBLASLT_ALGO_CONFIG_ID, UINT32_MAX),
          config(algo, CUBLASLT_ALGO_CONFIG_TILE_ID, 0), config(algo, CUBLASLT_ALGO_CONFIG_STAGES_ID, 0),
          cluster, (int)config(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 1), took, why);
}
