/* cublaslt.cpp - cuBLASLt of the emulation: it checks each call, then multiplies in plain loops. Test
 * code. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cublasLt.h"
#include "impl.cuh"

#include "base/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <vector>

struct cublasLtContext {
  int unused;
};
struct emu_lt_desc {
  int         trans_a, trans_b, epilogue, sm_count; /* 0 for all multiprocessors */
  const void *bias;
};
struct emu_lt_preference {
  uint64_t bytes;
  uint32_t scheme, mode, align[4]; /* in bytes, for A, B, C, D */
};

namespace {

/* The order in which an algorithm adds its k terms, used as its id. IN_ORDER and EVEN_ONLY give a row the
 * same bits. */
enum kind {
  IN_ORDER = 1,
  IN_HALVES,  /* always the same two, so rows agree with each other, not with IN_ORDER */
  BY_COLUMNS, /* in two parts, cut by the number of columns of d (our rows) */
  BY_TILES,   /* cut by the number of tiles, once there are more than WAVE */
  EVEN_ONLY,  /* as IN_ORDER, but of even numbers of columns only */
  IN_PARTS,   /* halves, through the workspace */
  LOSES_TAIL, /* as IN_PARTS, but drops the terms behind the last multiple of 8 */
  BY_ROOM,    /* as BY_COLUMNS above the columns of a trial, else in order */
  BY_BASE,    /* as BY_COLUMNS with an addend, else in order */
  BY_ROWS,    /* in two parts, cut by the number of rows of d (our columns) */
  KINDS
};

const size_t   WORKSPACE = 4096;
const uint64_t TILE = 64, WAVE = 2, TRIED = 192; /* gemm_agree.c, 64 rows for each of 3 multiprocessors */
/* Limits for speed: no longer sums and no larger results in parts, one algorithm for more rows, and few
 * stages. */
const uint64_t LONGEST_PARTS = 4096, LARGEST_PARTS = 24576, WIDE = 65536;
const uint32_t LARGE = 20, SMALL[] = {15, 10}, STAGES[] = {3, 8}; /* ids of tiles and of stages */

struct algorithm { /* content of an algo's 64 bytes */
  uint64_t magic;
  int32_t  id, splits;
  uint32_t scheme, tile, stages, align[4];
};
static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t), "");
const uint64_t MAGIC = 0x6c74616c676f6c74u;

algorithm read(const cublasLtMatmulAlgo_t *a) {
  algorithm got;
  memcpy(&got, a, sizeof got);
  if (got.magic != MAGIC) emu_fail("cuBLASLt: an algorithm that no heuristic gave");
  return got;
}

/* The algorithms the library offers, see cublasLt.h. */
struct offer {
  std::string many, few, flags;
};
offer offered(uint64_t cols, uint64_t rows) {
  const char *given = getenv("TRI_EMULATE_LT");
  std::string s = given         ? strcmp(given, "vary") ? given : "c:c:r"
                  : rows > WIDE ? "o:o:"
                  : cols <= 16  ? "cto:hceo:r"
                  : cols <= 64  ? ":h:r"
                                : "cto:ctoh:r";
  size_t      one = s.find(':'), two = one == s.npos ? one : s.find(':', one + 1);
  if (two == s.npos) emu_fail("TRI_EMULATE_LT=%s is not MANY:FEW:FLAGS", given);
  return {s.substr(0, one), s.substr(one + 1, two - one - 1), s.substr(two + 1)};
}

algorithm named(char letter, const uint32_t align[4]) {
  const char    *letters = "ohcteOEubw", *at = strchr(letters, letter);
  const int      ids[] = {IN_ORDER, IN_HALVES, BY_COLUMNS, BY_TILES, EVEN_ONLY,
                          IN_ORDER, EVEN_ONLY, BY_ROOM,    BY_BASE,  BY_ROWS};
  const uint32_t tile = letter == 'O' || letter == 'E' ? SMALL[0] : LARGE;
  if (!at) emu_fail("TRI_EMULATE_LT: no algorithm '%c'", letter);
  return {MAGIC, ids[at - letters], 1, 0, tile, STAGES[0], {align[0], align[1], align[2], align[3]}};
}

size_t size_of(cudaDataType_t t) { return t == CUDA_R_32F ? 4 : 2; }

float get(const void *p, cudaDataType_t t, size_t i) {
  const tri_dtype half = t == CUDA_R_16F ? TRI_F16 : TRI_BF16;
  return t == CUDA_R_32F ? ((const float *)p)[i] : tri_half_to_f32(half, ((const uint16_t *)p)[i]);
}
void put(void *p, cudaDataType_t t, size_t i, float v) {
  if (t == CUDA_R_32F)
    ((float *)p)[i] = v;
  else
    ((uint16_t *)p)[i] = tri_f32_to_half(t == CUDA_R_16F ? TRI_F16 : TRI_BF16, v);
}

struct matrix {
  void                        *data;
  cublasLtMatrixLayoutOpaque_t t;
};

struct product {
  emu_lt_desc how;
  matrix      a, b, c, d;
  float       alpha, beta;
  int         kind;
  uint64_t    m, n, k;
};

/* Returns the begin of the second part of the k terms. */
uint64_t cut(const product &p) {
  uint64_t tiles = (p.n + TILE - 1) / TILE;
  if (p.kind == IN_HALVES || p.kind == IN_PARTS || p.kind == LOSES_TAIL) return p.k / 2;
  if (p.kind == BY_TILES && tiles > WAVE) return p.k * (tiles % 5 + 1) / 7;
  if (p.kind == BY_ROWS) return p.k * (p.m % 5 + 1) / 7;
  if (p.kind == BY_ROOM && p.n <= TRIED) return p.k;
  if (p.kind == BY_BASE && p.beta == 0) return p.k;
  return p.kind == BY_COLUMNS || p.kind == BY_ROOM || p.kind == BY_BASE ? p.k * (p.n % 5 + 1) / 7 : p.k;
}
uint64_t end(const product &p) { return p.kind == LOSES_TAIL ? p.k - p.k % 8 : p.k; }

size_t workspace_of(const algorithm &a, const cublasLtMatrixLayoutOpaque_t &d) {
  return WORKSPACE + (a.splits > 1 ? (size_t)a.splits * d.rows * d.cols * sizeof(float) : 0);
}

bool can(const algorithm &a, const cublasLtMatrixLayoutOpaque_t &d) {
  return a.id >= IN_ORDER && a.id < KINDS && (a.id != EVEN_ONLY || d.cols % 2 == 0) && a.tile &&
         (d.rows <= WIDE || a.tile == LARGE) && (d.cols <= 16 || a.stages == STAGES[0]);
}

/* Copies n numbers of x from the element `at` on to `to`, `apart` floats from each other. */
void take(float *to, size_t apart, const matrix &x, size_t at, uint64_t n) {
  const tri_dtype half = x.t.type == CUDA_R_16F ? TRI_F16 : TRI_BF16;

  if (x.t.type == CUDA_R_32F)
    for (uint64_t i = 0; i < n; i++) to[i * apart] = ((const float *)x.data)[at + i];
  else
    for (uint64_t i = 0; i < n; i++)
      to[i * apart] = tri_half_to_f32(half, ((const uint16_t *)x.data)[at + i]);
}

/* sum[TILE] += terms [from, to) of TILE rows of one column, in the order of k. a is at [k][TILE], b at
 * [k]. */
void add_terms(float *sum, const float *a, const float *b, uint64_t from, uint64_t to) {
  typedef float sixteen __attribute__((vector_size(64), aligned(4)));
  sixteen       s[TILE / 16];

  memcpy(s, sum, sizeof s);
  for (uint64_t k = from; k < to; k++)
    for (uint64_t i = 0; i < TILE / 16; i++) s[i] += *(const sixteen *)(a + k * TILE + 16 * i) * b[k];
  memcpy(sum, s, sizeof s);
}

void multiply(const product &p) {
  std::vector<float> a(p.k * TILE), b(p.k * p.n);
  const size_t       lda = (size_t)p.a.t.ld, ldb = (size_t)p.b.t.ld;

  if (p.how.trans_b)
    for (uint64_t k = 0; k < p.k; k++) take(&b[k], p.k, p.b, k * ldb, p.n);
  else
    for (uint64_t j = 0; j < p.n; j++) take(&b[j * p.k], 1, p.b, j * ldb, p.k);
  for (uint64_t first = 0; first < p.m; first += TILE) {
    uint64_t rows = p.m - first < TILE ? p.m - first : TILE;
    if (p.how.trans_a)
      for (uint64_t i = 0; i < rows; i++) take(&a[i], TILE, p.a, (first + i) * lda, p.k);
    else
      for (uint64_t k = 0; k < p.k; k++) take(&a[k * TILE], 1, p.a, k * lda + first, rows);
    for (uint64_t j = 0; j < p.n; j++) {
      float sum[TILE] = {0}, rest[TILE] = {0};
      add_terms(sum, a.data(), &b[j * p.k], 0, cut(p));
      add_terms(rest, a.data(), &b[j * p.k], cut(p), end(p));
      for (uint64_t i = 0; i < rows; i++) {
        uint64_t at = j * (uint64_t)p.d.t.ld + first + i;
        float    y = p.alpha * (sum[i] + rest[i]);
        if (p.beta != 0) y += p.beta * get(p.c.data, p.c.t.type, at);
        if (p.how.bias) y += get(p.how.bias, p.d.t.type, first + i);
        put(p.d.data, p.d.t.type, at, y);
      }
    }
  }
}

void check_array(const char *name, const matrix &x, uint64_t rows, uint64_t cols, uint32_t align) {
  size_t bytes = ((size_t)(cols - 1) * (size_t)x.t.ld + rows) * size_of(x.t.type);
  if (x.t.rows != rows || x.t.cols != cols || x.t.ld < (int64_t)rows)
    emu_fail("cublasLtMatmul: %s is [%llu,%llu] with %lld between columns; the product wants [%llu,%llu]",
             name, (unsigned long long)x.t.rows, (unsigned long long)x.t.cols, (long long)x.t.ld,
             (unsigned long long)rows, (unsigned long long)cols);
  if ((uintptr_t)x.data % align)
    emu_fail("cublasLtMatmul: %s lies at %p; the algorithm was promised %u-byte alignment", name, x.data,
             align);
  if (const char *why = emu_device_range(x.data, bytes)) emu_fail("cublasLtMatmul: %s: %s", name, why);
}

} /* namespace */

/* Another offer of algorithms is another version. */
size_t cublasLtGetVersion(void) {
  const char *given = getenv("TRI_EMULATE_LT");
  size_t      version = 130000;

  for (const char *c = given ? given : ""; *c; c++) version = version * 31 + (size_t)*c;
  return version;
}
const char *cublasLtGetStatusString(cublasStatus_t e) {
  return e == CUBLAS_STATUS_SUCCESS            ? "success"
         : e == CUBLAS_STATUS_NOT_SUPPORTED    ? "not supported"
         : e == CUBLAS_STATUS_EXECUTION_FAILED ? "execution failed"
                                               : "invalid value";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out) {
  return *out = new cublasLtContext(), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) { return delete h, CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t out, cudaDataType type, uint64_t rows,
                                        uint64_t cols, int64_t ld) {
  *out = {type, rows, cols, ld};
  return rows && cols && ld >= (int64_t)rows ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) emu_fail("cuBLASLt: sums are not plain f32");
  *out = new emu_lt_desc{CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, 0, NULL};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { return delete d, CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t bytes) {
  int *number = what == CUBLASLT_MATMUL_DESC_TRANSA            ? &d->trans_a
                : what == CUBLASLT_MATMUL_DESC_TRANSB          ? &d->trans_b
                : what == CUBLASLT_MATMUL_DESC_EPILOGUE        ? &d->epilogue
                : what == CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET ? &d->sm_count
                                                               : NULL;
  if (bytes != (number ? sizeof *number : sizeof d->bias)) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(number ? (void *)number : (void *)&d->bias, value, bytes);
  if (what == CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET && (*number <= 0 || d->trans_a == CUBLAS_OP_T))
    emu_fail("cuBLASLt: %d multiprocessors for a product, or such a target where rows are to have equal bits",
             *number);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
  *out = new emu_lt_preference{0, 7, CUBLASLT_SEARCH_BEST_FIT, {256, 256, 256, 256}};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  return delete p, CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t           p,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void *value, size_t bytes) {
  void *to = what == CUBLASLT_MATMUL_PREF_SEARCH_MODE             ? (void *)&p->mode
             : what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES   ? (void *)&p->bytes
             : what == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK ? (void *)&p->scheme
                                                                  : (void *)&p->align[what - 5];
  if (bytes != (to == &p->bytes ? sizeof p->bytes : sizeof p->scheme)) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

/* Sums in parts head the list if they are allowed and short enough to be tried within minutes. The first of
 * them is wrong. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t   out,
                                              cublasLtMatmulPreference_t p, int want,
                                              cublasLtMatmulHeuristicResult_t *results, int *n) {
  std::vector<algorithm> found;
  const offer            all = offered(out->cols, out->rows);

  if (p->scheme & ~(uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
    emu_fail("cuBLASLt: a sum in parts whose order or precision is not fixed was allowed (scheme %u)",
             p->scheme);
  if (p->mode == CUBLASLT_SEARCH_LIMITED_BY_ALGO_ID) {
    found.push_back(read(&results[0].algo));
    found[0].tile = LARGE, found[0].stages = STAGES[1];
    memcpy(found[0].align, p->align, sizeof p->align);
  } else {
    for (int id : {LOSES_TAIL, IN_PARTS})
      if (p->scheme && out->rows * out->cols <= LARGEST_PARTS &&
          (d->trans_a ? a->rows : a->cols) <= LONGEST_PARTS) {
        found.push_back(named('o', p->align));
        found.back().id = id, found.back().splits = 2, found.back().scheme = p->scheme;
      }
    for (char c : out->cols > 256 ? all.many : all.few) found.push_back(named(c, p->align));
  }
  *n = 0;
  if (all.flags.find('8') != std::string::npos && (a->ld % 8 || b->ld % 8 || out->ld % 8)) found.clear();
  for (const algorithm &f : found) {
    if (*n == want || !can(f, *out) || workspace_of(f, *out) > p->bytes) continue;
    results[*n] = {};
    memcpy(&results[*n].algo, &f, sizeof f);
    results[(*n)++].workspaceSize = workspace_of(f, *out);
  }
  return *n ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* Returns the place of an attribute, or NULL if no algorithm here has it. */
static uint32_t *attribute(algorithm *a, cublasLtMatmulAlgoConfigAttributes_t what) {
  switch (what) {
  case CUBLASLT_ALGO_CONFIG_ID:
    return (uint32_t *)&a->id;
  case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
    return (uint32_t *)&a->splits;
  case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
    return &a->scheme;
  case CUBLASLT_ALGO_CONFIG_TILE_ID:
    return &a->tile;
  case CUBLASLT_ALGO_CONFIG_STAGES_ID:
    return &a->stages;
  default:
    return NULL;
  }
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t          *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t what, void *value,
                                                    size_t bytes, size_t *written) {
  algorithm a = read(algo);
  uint32_t *at = attribute(&a, what);
  if (!at || bytes != sizeof *at) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(value, at, *written = bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t                *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t what,
                                                    const void *value, size_t bytes) {
  algorithm a = read(algo);
  uint32_t *at = attribute(&a, what);
  if (!at || bytes != sizeof *at || what == CUBLASLT_ALGO_CONFIG_ID) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(at, value, bytes);
  memcpy(algo, &a, sizeof a);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t       *algo,
                                                 cublasLtMatmulAlgoCapAttributes_t what, void *value,
                                                 size_t bytes, size_t *written) {
  const algorithm a = read(algo);
  const bool      list = what == CUBLASLT_ALGO_CAP_TILE_IDS || what == CUBLASLT_ALGO_CAP_STAGES_IDS;
  const uint32_t *ids = what == CUBLASLT_ALGO_CAP_TILE_IDS ? SMALL
                        : what == CUBLASLT_ALGO_CAP_STAGES_IDS
                            ? STAGES
                            : &a.align[what - CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES];
  *written = list ? sizeof SMALL : sizeof *ids;
  if (bytes && bytes != *written) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes) memcpy(value, ids, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

/* Such an algorithm can read and write at any address, as even ones do. */
cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t, cublasComputeType_t, cudaDataType_t, cudaDataType_t,
                                      cudaDataType_t, cudaDataType_t, cudaDataType_t, int id,
                                      cublasLtMatmulAlgo_t *algo) {
  const algorithm a = {MAGIC, id, 1, 0, 0, 0, {2, 2, 2, 2}};
  if (id < IN_ORDER || id >= KINDS) return CUBLAS_STATUS_INVALID_VALUE;
  if (offered(0, 0).flags.find('r') == std::string::npos) return CUBLAS_STATUS_NOT_SUPPORTED;
  memcpy(algo, &a, sizeof a);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t out, const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result) {
  const algorithm a = read(algo);
  if (!can(a, *out) && !(a.id == EVEN_ONLY && a.tile != LARGE)) return CUBLAS_STATUS_NOT_SUPPORTED;
  result->workspaceSize = workspace_of(a, *out);
  return CUBLAS_STATUS_SUCCESS;
}

/* Returns the seconds it takes on the device's clock beside the work itself. */
static double seconds(const algorithm &a) {
  if (offered(0, 0).flags.find('s') == std::string::npos || a.id != IN_ORDER) return 0;
  return a.tile == LARGE ? 100 : 50;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t la, const void *b, cublasLtMatrixLayout_t lb,
                              const void *beta, const void *c, cublasLtMatrixLayout_t lc, void *d,
                              cublasLtMatrixLayout_t ld, const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t bytes, cudaStream_t s) {
  algorithm how = read(algo);
  product   p = {*desc,
                 {(void *)a, *la},
                 {(void *)b, *lb},
                 {(void *)c, *lc},
                 {d, *ld},
                 *(float *)alpha,
                 *(float *)beta,
                 how.id,
                 ld->rows,
                 ld->cols,
               desc->trans_a ? la->rows : la->cols};

  const size_t need = workspace_of(how, *ld);
  const double took = seconds(how);

  if (!can(how, *ld)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (desc->epilogue != CUBLASLT_EPILOGUE_BIAS) p.how.bias = NULL;
  check_array("A", p.a, p.how.trans_a ? p.k : p.m, p.how.trans_a ? p.m : p.k, how.align[0]);
  check_array("B", p.b, p.how.trans_b ? p.n : p.k, p.how.trans_b ? p.k : p.n, how.align[1]);
  check_array("D", p.d, p.m, p.n, how.align[3]);
  check_array("C", p.c, p.m, p.n, how.align[2]);
  if (lc->type != ld->type || lc->ld != ld->ld) emu_fail("cublasLtMatmul: C is not laid out like D");
  if (desc->epilogue == CUBLASLT_EPILOGUE_BIAS)
    if (const char *why = emu_device_range(p.how.bias, p.m * size_of(ld->type)))
      emu_fail("cublasLtMatmul: the bias: %s", why);
  if (bytes < need)
    emu_fail("cublasLtMatmul: a workspace of %zu bytes; the algorithm asked for %zu", bytes, need);
  if (const char *why = emu_device_range(workspace, bytes))
    emu_fail("cublasLtMatmul: the workspace: %s", why);
  cudaError_t e = emu_queue(s, [=] {
    memset(workspace, 0xff, need); /* the algorithm's own, nothing else may be there */
    multiply(p);
    emu_spend(took);
  });
  return e == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
