/* cublaslt.cpp - cuBLASLt of the emulation: what is asked for is checked, then multiplied in plain loops. Test code. */
#include "cublasLt.h"
#include "impl.cuh"

#include "tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

struct cublasLtContext {
  int unused;
};
struct emu_lt_desc {
  int         trans_a, trans_b, epilogue;
  const void *bias;
};
struct emu_lt_preference {
  uint64_t bytes;
  uint32_t scheme, align[4]; /* of A, B, C, D */
};

namespace {

/* How an algorithm adds its k terms. IN_ORDER alone gives a row the bits other algorithms of its kind give it. */
enum kind {
  IN_ORDER = 1,
  IN_HALVES, /* always the same two: rows agree with each other, not with IN_ORDER */
  BY_COLUMNS /* in two parts, cut where the number of columns of d (our rows) says */
};

const size_t   WORKSPACE = 4096;
const uint64_t TILE = 64;

struct algorithm { /* what an algo's 64 bytes hold */
  uint64_t magic;
  int32_t  kind, splits;
  uint32_t scheme, align[4];
};
static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t), "");
const uint64_t MAGIC = 0x6c74616c676f6c74u;

algorithm read(const cublasLtMatmulAlgo_t *a) {
  algorithm got;
  memcpy(&got, a, sizeof got);
  if (got.magic != MAGIC) emu_fail("cuBLASLt: an algorithm that no heuristic gave");
  return got;
}

size_t size_of(cudaDataType_t t) { return t == CUDA_R_32F ? 4 : 2; }

float get(const void *p, cudaDataType_t t, size_t i) {
  return t == CUDA_R_32F ? ((const float *)p)[i] : tri_bf16_to_f32(((const uint16_t *)p)[i]);
}
void put(void *p, cudaDataType_t t, size_t i, float v) {
  if (t == CUDA_R_32F)
    ((float *)p)[i] = v;
  else
    ((uint16_t *)p)[i] = tri_f32_to_bf16(v);
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

/* Where the second part of the k terms begins. */
uint64_t cut(const product &p) {
  if (p.kind == IN_HALVES) return p.k / 2;
  return p.kind == BY_COLUMNS ? p.k * (p.n % 5 + 1) / 7 : p.k;
}

/* sum[TILE] += terms [from, to) of TILE rows of one column, in the order of k; a at [k][TILE], b at [k]. */
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
  for (uint64_t j = 0; j < p.n; j++)
    for (uint64_t k = 0; k < p.k; k++)
      b[j * p.k + k] =
          get(p.b.data, p.b.t.type, p.how.trans_b ? k * (uint64_t)p.b.t.ld + j : j * (uint64_t)p.b.t.ld + k);
  for (uint64_t first = 0; first < p.m; first += TILE) {
    uint64_t rows = p.m - first < TILE ? p.m - first : TILE;
    for (uint64_t i = 0; i < TILE; i++)
      for (uint64_t k = 0; k < p.k; k++) {
        uint64_t row = first + i,
                 at = p.how.trans_a ? row * (uint64_t)p.a.t.ld + k : k * (uint64_t)p.a.t.ld + row;
        a[k * TILE + i] = i < rows ? get(p.a.data, p.a.t.type, at) : 0;
      }
    for (uint64_t j = 0; j < p.n; j++) {
      float sum[TILE] = {0}, rest[TILE] = {0};
      add_terms(sum, a.data(), &b[j * p.k], 0, cut(p));
      add_terms(rest, a.data(), &b[j * p.k], cut(p), p.k);
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

size_t      cublasLtGetVersion(void) { return 130000; }
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
  *out = new emu_lt_desc{CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, NULL};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { return delete d, CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t bytes) {
  int *number = what == CUBLASLT_MATMUL_DESC_TRANSA     ? &d->trans_a
                : what == CUBLASLT_MATMUL_DESC_TRANSB   ? &d->trans_b
                : what == CUBLASLT_MATMUL_DESC_EPILOGUE ? &d->epilogue
                                                        : NULL;
  if (bytes != (number ? sizeof *number : sizeof d->bias)) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(number ? (void *)number : (void *)&d->bias, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
  *out = new emu_lt_preference{0, 7, {256, 256, 256, 256}};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  return delete p, CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t           p,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void *value, size_t bytes) {
  void *to = what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES     ? (void *)&p->bytes
             : what == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK ? (void *)&p->scheme
                                                                  : (void *)&p->align[what - 5];
  if (bytes != (to == &p->bytes ? sizeof p->bytes : sizeof p->scheme)) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

/* Few columns: first what suits few. Many: first one whose rows do not agree. A divided sum heads the list if allowed. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t out, cublasLtMatmulPreference_t p,
                                              int want, cublasLtMatmulHeuristicResult_t *results, int *n) {
  const char      *given = getenv("TRI_EMULATE_LT");
  std::vector<int> kinds = {BY_COLUMNS};

  if (!given || strcmp(given, "vary"))
    kinds = out->cols <= 16   ? std::vector<int>{IN_HALVES, BY_COLUMNS, IN_ORDER}
            : out->cols <= 64 ? std::vector<int>{IN_HALVES}
                              : std::vector<int>{BY_COLUMNS, IN_ORDER, IN_HALVES};
  if (p->scheme) kinds.insert(kinds.begin(), BY_COLUMNS);
  for (*n = 0; *n < want && *n < (int)kinds.size(); ++*n) {
    algorithm a = {MAGIC, kinds[(size_t)*n], 1, 0, {p->align[0], p->align[1], p->align[2], p->align[3]}};
    if (p->scheme && *n == 0) a.splits = 2, a.scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    results[*n] = {};
    memcpy(&results[*n].algo, &a, sizeof a);
    results[*n].workspaceSize = WORKSPACE;
    if (p->bytes < WORKSPACE) return *n = 0, CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t          *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t what, void *value,
                                                    size_t bytes, size_t *written) {
  algorithm a = read(algo);
  if (bytes != 4) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(value, what == CUBLASLT_ALGO_CONFIG_SPLITK_NUM ? (void *)&a.splits : (void *)&a.scheme, 4);
  *written = 4;
  return CUBLAS_STATUS_SUCCESS;
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
                 how.kind,
                 ld->rows,
                 ld->cols,
               desc->trans_a ? la->rows : la->cols};

  if (desc->epilogue != CUBLASLT_EPILOGUE_BIAS) p.how.bias = NULL;
  check_array("A", p.a, p.how.trans_a ? p.k : p.m, p.how.trans_a ? p.m : p.k, how.align[0]);
  check_array("B", p.b, p.how.trans_b ? p.n : p.k, p.how.trans_b ? p.k : p.n, how.align[1]);
  check_array("D", p.d, p.m, p.n, how.align[3]);
  check_array("C", p.c, p.m, p.n, how.align[2]);
  if (lc->type != ld->type || lc->ld != ld->ld) emu_fail("cublasLtMatmul: C is not laid out like D");
  if (desc->epilogue == CUBLASLT_EPILOGUE_BIAS)
    if (const char *why = emu_device_range(p.how.bias, p.m * size_of(ld->type)))
      emu_fail("cublasLtMatmul: the bias: %s", why);
  if (bytes < WORKSPACE)
    emu_fail("cublasLtMatmul: a workspace of %zu bytes; the algorithm asked for %zu", bytes, WORKSPACE);
  if (const char *why = emu_device_range(workspace, bytes))
    emu_fail("cublasLtMatmul: the workspace: %s", why);
  cudaError_t e = emu_queue(s, [=] {
    memset(workspace, 0xff, WORKSPACE); /* the algorithm's: nothing else may lie there */
    multiply(p);
  });
  return e == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
