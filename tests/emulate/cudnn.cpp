/* cudnn.cpp - cuDNN of the emulation, described in cudnn.h. Test code. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cudnn.h"
#include "impl.cuh"

#include "base/tensor.h"
#include "gpu/cudnn/cudnn_plan.h"

#include <algorithm>
#include <map>
#include <math.h>
#include <memory>
#include <set>
#include <string.h>
#include <string>

namespace {

struct desc;
typedef std::shared_ptr<desc> ref;
struct value {
  int               type;
  std::vector<char> bytes;
  std::vector<ref>  of;
};
struct desc {
  int                  type, engine = 0;
  bool                 final = false;
  std::map<int, value> set;

  bool                 has(int name) const { return set.count(name) != 0; }
  ref                  at(int name, size_t i = 0) const { return set.at(name).of.at(i); }
  template <class T> T num(int name, size_t i = 0) const {
    T x;
    memcpy(&x, set.at(name).bytes.data() + i * sizeof x, sizeof x);
    return x;
  }
  int64_t dim(int i) const { return num<int64_t>(CUDNN_TENSOR_DIMS, i); }
  int64_t stride(int i) const { return num<int64_t>(CUDNN_TENSOR_STRIDES, i); }
  int64_t uid() const { return num<int64_t>(CUDNN_TENSOR_UID); }
  bool    is_virtual() const { return has(CUDNN_TENSOR_VIRTUAL) && num<bool>(CUDNN_TENSOR_VIRTUAL); }
  bool    by_value() const { return has(CUDNN_TENSOR_BY_VALUE) && num<bool>(CUDNN_TENSOR_BY_VALUE); }
};

enum { BAD = 2000, BAD_NULL = 2002, BAD_FINAL = 2004, BAD_SHAPE = 2008, BAD_TWICE = 2009, BAD_TYPE = 2010 };

emu_cudnn_fault fault;
int             calls;
std::string     said;
int             refuse(int status, const std::string &why) { return said = why, status; }

/* ---- attributes: name, type, count, and whether it must be set ---- */

struct rule {
  int  desc, name, type, count; /* count is 0 for any */
  bool must;
};
const rule rules[] = {
    {CUDNN_TENSOR, CUDNN_TENSOR_TYPE, CUDNN_OF_DATA_TYPE, 1, true},
    {CUDNN_TENSOR, CUDNN_TENSOR_DIMS, CUDNN_OF_INT64, 4, true},
    {CUDNN_TENSOR, CUDNN_TENSOR_STRIDES, CUDNN_OF_INT64, 4, true},
    {CUDNN_TENSOR, CUDNN_TENSOR_UID, CUDNN_OF_INT64, 1, true},
    {CUDNN_TENSOR, CUDNN_TENSOR_ALIGNMENT, CUDNN_OF_INT64, 1, true},
    {CUDNN_TENSOR, CUDNN_TENSOR_VIRTUAL, CUDNN_OF_BOOL, 1, false},
    {CUDNN_TENSOR, CUDNN_TENSOR_BY_VALUE, CUDNN_OF_BOOL, 1, false},
    {CUDNN_TENSOR, CUDNN_TENSOR_RAGGED, CUDNN_OF_DESCRIPTOR, 1, false},
    {CUDNN_POINTWISE, CUDNN_POINTWISE_MODE, CUDNN_OF_POINTWISE_MODE, 1, true},
    {CUDNN_POINTWISE, CUDNN_POINTWISE_TYPE, CUDNN_OF_DATA_TYPE, 1, true},
    {CUDNN_POINTWISE, CUDNN_POINTWISE_AXIS, CUDNN_OF_INT64, 1, false},
    {CUDNN_OP_POINTWISE, CUDNN_OP_POINTWISE_DESC, CUDNN_OF_DESCRIPTOR, 1, true},
    {CUDNN_OP_POINTWISE, CUDNN_OP_POINTWISE_X, CUDNN_OF_DESCRIPTOR, 1, true},
    {CUDNN_OP_POINTWISE, CUDNN_OP_POINTWISE_B, CUDNN_OF_DESCRIPTOR, 1, false},
    {CUDNN_OP_POINTWISE, CUDNN_OP_POINTWISE_T, CUDNN_OF_DESCRIPTOR, 1, false},
    {CUDNN_OP_POINTWISE, CUDNN_OP_POINTWISE_Y, CUDNN_OF_DESCRIPTOR, 1, true},
    {CUDNN_MATMUL, CUDNN_MATMUL_TYPE, CUDNN_OF_DATA_TYPE, 1, true},
    {CUDNN_OP_MATMUL, CUDNN_OP_MATMUL_DESC, CUDNN_OF_DESCRIPTOR, 1, true},
    {CUDNN_OP_MATMUL, CUDNN_OP_MATMUL_A, CUDNN_OF_DESCRIPTOR, 1, true},
    {CUDNN_OP_MATMUL, CUDNN_OP_MATMUL_B, CUDNN_OF_DESCRIPTOR, 1, true},
    {CUDNN_OP_MATMUL, CUDNN_OP_MATMUL_C, CUDNN_OF_DESCRIPTOR, 1, true},
    {CUDNN_OP_MATMUL, CUDNN_OP_MATMUL_M, CUDNN_OF_DESCRIPTOR, 1, false},
    {CUDNN_OP_MATMUL, CUDNN_OP_MATMUL_N, CUDNN_OF_DESCRIPTOR, 1, false},
    {CUDNN_OP_MATMUL, CUDNN_OP_MATMUL_K, CUDNN_OF_DESCRIPTOR, 1, false},
    {CUDNN_REDUCTION, CUDNN_REDUCTION_MODE, CUDNN_OF_REDUCTION_MODE, 1, true},
    {CUDNN_REDUCTION, CUDNN_REDUCTION_TYPE, CUDNN_OF_DATA_TYPE, 1, true},
    {CUDNN_OP_REDUCTION, CUDNN_OP_REDUCTION_DESC, CUDNN_OF_DESCRIPTOR, 1, true},
    {CUDNN_OP_REDUCTION, CUDNN_OP_REDUCTION_X, CUDNN_OF_DESCRIPTOR, 1, true},
    {CUDNN_OP_REDUCTION, CUDNN_OP_REDUCTION_Y, CUDNN_OF_DESCRIPTOR, 1, true},
    {CUDNN_OP_RESHAPE, CUDNN_OP_RESHAPE_X, CUDNN_OF_DESCRIPTOR, 1, true},
    {CUDNN_OP_RESHAPE, CUDNN_OP_RESHAPE_Y, CUDNN_OF_DESCRIPTOR, 1, true},
    {CUDNN_GRAPH, CUDNN_GRAPH_HANDLE, CUDNN_OF_HANDLE, 1, true},
    {CUDNN_GRAPH, CUDNN_GRAPH_OPS, CUDNN_OF_DESCRIPTOR, 0, true},
    {CUDNN_ENGINEHEUR, CUDNN_HEUR_GRAPH, CUDNN_OF_DESCRIPTOR, 1, true},
    {CUDNN_ENGINEHEUR, CUDNN_HEUR_MODE, CUDNN_OF_HEUR_MODE, 1, true},
    {CUDNN_PLAN, CUDNN_PLAN_HANDLE, CUDNN_OF_HANDLE, 1, true},
    {CUDNN_PLAN, CUDNN_PLAN_CFG, CUDNN_OF_DESCRIPTOR, 1, true},
    {CUDNN_PACK, CUDNN_PACK_POINTERS, CUDNN_OF_POINTER, 0, true},
    {CUDNN_PACK, CUDNN_PACK_UIDS, CUDNN_OF_INT64, 0, true},
    {CUDNN_PACK, CUDNN_PACK_WORKSPACE, CUDNN_OF_POINTER, 1, true},
};
size_t size_of(int type) {
  return type == CUDNN_OF_BOOL                                                           ? sizeof(bool)
         : type == CUDNN_OF_INT64 || type == CUDNN_OF_POINTER || type == CUDNN_OF_HANDLE ? 8
                                                                                         : sizeof(int);
}
ref &open_desc(cudnn_desc d) {
  if (!d) emu_fail("cuDNN: a descriptor that was never made");
  return *(ref *)d;
}

/* ---- the demands of an operation on its tensors ---- */

bool fits(const ref &x, const ref &y) { /* x is y, or one number along some of its dimensions */
  for (int i = 0; i < 4; i++)
    if (x->dim(i) != y->dim(i) && x->dim(i) != 1) return false;
  return true;
}
int check_pointwise(const desc &d) {
  const ref how = d.at(CUDNN_OP_POINTWISE_DESC), x = d.at(CUDNN_OP_POINTWISE_X),
            y = d.at(CUDNN_OP_POINTWISE_Y);
  const int  mode = how->num<int>(CUDNN_POINTWISE_MODE);
  const bool one = mode == CUDNN_EXP || mode == CUDNN_GEN_INDEX, three = mode == CUDNN_SELECT;

  if (d.has(CUDNN_OP_POINTWISE_B) == one || d.has(CUDNN_OP_POINTWISE_T) != three)
    return refuse(BAD, "an operation has too many or too few inputs");
  if (mode == CUDNN_GEN_INDEX && !how->has(CUDNN_POINTWISE_AXIS)) return refuse(BAD, "an index has no axis");
  for (int name : {CUDNN_OP_POINTWISE_X, CUDNN_OP_POINTWISE_B, CUDNN_OP_POINTWISE_T})
    if (d.has(name) && !fits(d.at(name), y)) return refuse(BAD_SHAPE, "inputs do not fit their result");
  return (void)x, 0;
}
int check_matmul(const desc &d) {
  const ref  a = d.at(CUDNN_OP_MATMUL_A), b = d.at(CUDNN_OP_MATMUL_B), c = d.at(CUDNN_OP_MATMUL_C);
  const bool right = a->dim(0) == c->dim(0) && b->dim(0) == c->dim(0) && a->dim(1) == c->dim(1) &&
                     c->dim(1) % b->dim(1) == 0 && a->dim(2) == c->dim(2) && b->dim(3) == c->dim(3) &&
                     a->dim(3) == b->dim(2);
  for (int name : {CUDNN_OP_MATMUL_M, CUDNN_OP_MATMUL_N, CUDNN_OP_MATMUL_K})
    if (d.has(name) && d.at(name)->num<int>(CUDNN_TENSOR_TYPE) != CUDNN_I32)
      return refuse(BAD_TYPE, "lengths are not i32");
  return right ? 0 : refuse(BAD_SHAPE, "a product's matrices do not fit");
}
int check_reduction(const desc &d) {
  const ref x = d.at(CUDNN_OP_REDUCTION_X), y = d.at(CUDNN_OP_REDUCTION_Y);
  for (int i = 0; i < 4; i++)
    if (x->dim(i) % y->dim(i) || (i != 1 && y->dim(i) != 1 && y->dim(i) != x->dim(i)))
      return refuse(BAD_SHAPE, "a sum's dimensions do not fit");
  return 0;
}
int check_reshape(const desc &d) {
  const ref  x = d.at(CUDNN_OP_RESHAPE_X), y = d.at(CUDNN_OP_RESHAPE_Y);
  const bool turned =
      x->dim(0) == y->dim(0) && x->dim(1) == y->dim(1) && x->dim(2) == y->dim(3) && x->dim(3) == y->dim(2);
  return turned ? 0 : refuse(BAD_SHAPE, "a transposed matrix has other dimensions");
}
int check_tensor(const desc &d) {
  for (int i = 0; i < 4; i++)
    if (d.dim(i) <= 0 || d.stride(i) <= 0) return refuse(BAD_SHAPE, "a tensor's dimension or stride is none");
  if (d.is_virtual() && d.by_value()) return refuse(BAD, "a tensor is virtual and a number");
  if (d.has(CUDNN_TENSOR_RAGGED)) {
    const ref at = d.at(CUDNN_TENSOR_RAGGED);
    if (at->dim(0) != d.dim(0) + 1 || at->num<int>(CUDNN_TENSOR_TYPE) != CUDNN_I32)
      return refuse(BAD_SHAPE, "offsets are not i32 [B+1]");
  }
  return 0;
}

const int inputs[] = {CUDNN_OP_POINTWISE_X, CUDNN_OP_POINTWISE_B, CUDNN_OP_POINTWISE_T, CUDNN_OP_MATMUL_A,
                      CUDNN_OP_MATMUL_B,    CUDNN_OP_MATMUL_M,    CUDNN_OP_MATMUL_N,    CUDNN_OP_MATMUL_K,
                      CUDNN_OP_REDUCTION_X, CUDNN_OP_RESHAPE_X};
const int outputs[] = {CUDNN_OP_POINTWISE_Y, CUDNN_OP_MATMUL_C, CUDNN_OP_REDUCTION_Y, CUDNN_OP_RESHAPE_Y};

/* Collects all tensors of a graph by their numbers. Returns false if a number means two. */
bool collect(const desc &graph, std::map<int64_t, ref> *all) {
  for (const ref &op : graph.set.at(CUDNN_GRAPH_OPS).of)
    for (const auto &v : op->set)
      for (ref t : v.second.of)
        for (; t && t->type == CUDNN_TENSOR;
             t = t->has(CUDNN_TENSOR_RAGGED) ? t->at(CUDNN_TENSOR_RAGGED) : ref())
          if (!all->insert({t->uid(), t}).second && (*all)[t->uid()] != t) return false;
  return true;
}
int check_graph(const desc &d) {
  std::map<int64_t, ref> all;
  std::set<desc *>       made;

  if (!collect(d, &all)) return refuse(BAD_TWICE, "a number means two tensors");
  for (const ref &op : d.set.at(CUDNN_GRAPH_OPS).of) {
    for (int name : inputs)
      if (op->has(name) && op->at(name)->is_virtual() && !made.count(op->at(name).get()))
        return refuse(BAD, "an operation reads what no operation before it makes");
    for (int name : outputs)
      if (op->has(name) && !made.insert(op->at(name).get()).second)
        return refuse(BAD, "a tensor is made twice");
  }
  return 0;
}

/* ---- engines ---- */

enum { REPEATS_NOT, CANNOT, GOOD, ENGINES };

size_t engine_bytes(const desc &graph) { /* like the library for 9.0, the gradient of scores in bf16 */
  size_t                 most = 0;
  std::map<int64_t, ref> all;
  collect(graph, &all);
  for (const auto &t : all) {
    size_t n = 2;
    for (int i = 0; i < 4; i++) n *= (size_t)t.second->dim(i);
    if (t.second->is_virtual() && n > most) most = n;
  }
  return fault == EMU_CUDNN_LESS ? 2 * most : most;
}
const ref graph_of(const desc &cfg) { return cfg.at(CUDNN_HEUR_GRAPH); }

/* ---- values ---- */

struct array { /* [n,rows,cols] of one sequence */
  int64_t             n = 0, rows = 0, cols = 0;
  std::vector<double> x;
  double at(int64_t h, int64_t i, int64_t j) const { /* a dimension of size one repeats its value */
    return x[(size_t)(((n == 1 ? 0 : h) * rows + (rows == 1 ? 0 : i)) * cols + (cols == 1 ? 0 : j))];
  }
};
array empty_like(const ref &t) {
  array a;
  a.n = t->dim(1), a.rows = t->dim(2), a.cols = t->dim(3);
  a.x.assign((size_t)(a.n * a.rows * a.cols), NAN);
  return a;
}
double rounded(double x, int type) {
  return type == CUDNN_BF16 ? (double)tri_half_to_f32(TRI_BF16, tri_f32_to_half(TRI_BF16, (float)x)) : x;
}

struct machine { /* a call */
  ref                       plan;
  std::map<int64_t, void *> place;
  std::map<int64_t, float>  number;
  std::map<desc *, array>   made;
  int64_t                   b;       /* the sequence */
  int                       turn_of; /* calls before this one */

  /* Returns the tensor's first element of the sequence. *rows are the sequence's steps along its longest
   * stride. */
  int64_t begin(const ref &t, int *along, int64_t *rows) {
    *along = t->stride(2) >= t->stride(3) ? 2 : 3;
    *rows = t->dim(*along);
    if (!t->has(CUDNN_TENSOR_RAGGED)) return b * t->stride(0);
    const int32_t *at = (const int32_t *)place.at(t->at(CUDNN_TENSOR_RAGGED)->uid());
    *rows = (at[b + 1] - at[b]) / t->stride(*along);
    if (fault == EMU_CUDNN_STRIDES && *rows > t->dim(*along)) *rows = t->dim(*along);
    if (*rows < 0 || *rows > t->dim(*along)) emu_fail("cuDNN: a sequence of %lld rows", (long long)*rows);
    return at[b];
  }
  /* Calls f(h, i, j, place) for the elements of the sequence, and for `more` rows behind it. */
  template <class F> void each(const ref &t, F f, int64_t more = 0) {
    int       along;
    int64_t   rows, first = begin(t, &along, &rows);
    const int type = t->num<int>(CUDNN_TENSOR_TYPE);
    char     *p = (char *)place.at(t->uid());
    rows = std::min(rows + more, t->dim(along));
    bool per_head =
        fault == EMU_CUDNN_STATS && t->dim(1) > 1 && t->dim(3) == 1 && t->has(CUDNN_TENSOR_RAGGED);
    for (int64_t h = 0; h < t->dim(1); h++)
      for (int64_t i = 0; i < (along == 2 ? rows : t->dim(2)); i++)
        for (int64_t j = 0; j < (along == 3 ? rows : t->dim(3)); j++) {
          int64_t at = first + h * t->stride(1) + i * t->stride(2) + j * t->stride(3);
          if (per_head) at = first + h * rows + i;
          f(h, i, j, p + at * (type == CUDNN_BF16 ? 2 : 4));
        }
  }
  array load(const ref &t) {
    if (made.count(t.get())) return made[t.get()];
    array a = empty_like(t);
    if (t->by_value()) return a.x[0] = number.at(t->uid()), a;
    const int  type = t->num<int>(CUDNN_TENSOR_TYPE);
    const bool base2 = fault == EMU_CUDNN_LOG2 && t->has(CUDNN_TENSOR_RAGGED) && t->dim(3) == 1;
    const bool behind = fault == EMU_CUDNN_BEHIND && t->has(CUDNN_TENSOR_RAGGED);
    if (behind) std::fill(a.x.begin(), a.x.end(), 0); /* no memory has them */
    auto get = [&](int64_t h, int64_t i, int64_t j, char *p) {
      uint16_t half;
      float    f;
      int32_t  whole;
      if (behind && emu_device_range(p, 4)) return;
      memcpy(&half, p, 2);
      if (type != CUDNN_BF16) memcpy(&f, p, 4), memcpy(&whole, p, 4);
      a.x[(size_t)((h * a.rows + i) * a.cols + j)] = type == CUDNN_BF16
                                                         ? (double)tri_half_to_f32(TRI_BF16, half)
                                                     : type == CUDNN_I32 ? (double)whole
                                                     : base2             ? (double)f * log(2.0)
                                                                         : (double)f;
    };
    each(t, get, behind ? t->dim(2) * t->dim(3) : 0);
    return a;
  }
  void store(const ref &t, array a) {
    const int type = t->num<int>(CUDNN_TENSOR_TYPE);
    for (double &x : a.x) x = rounded(x, type);
    const bool skips = fault == EMU_CUDNN_SKIPS && t->has(CUDNN_TENSOR_RAGGED);
    auto       put = [&](int64_t h, int64_t i, int64_t j, char *p) {
      if (skips && (t->stride(2) >= t->stride(3) ? i : j) == 1) return;
      float f = (float)a.at(h, i, j) * (fault == EMU_CUDNN_CHANGES ? 1 + 0.005f * (float)(turn_of % 3) : 1);
      if (fault == EMU_CUDNN_NOT_0 && t->uid() == CUDNN_DQ) f += 0.01f;
      uint16_t half = tri_f32_to_half(TRI_BF16, f);
      memcpy(p, type == CUDNN_BF16 ? (void *)&half : (void *)&f, type == CUDNN_BF16 ? 2 : 4);
    };
    if (!t->is_virtual()) each(t, put, fault == EMU_CUDNN_OVER && t->has(CUDNN_TENSOR_RAGGED));
    made[t.get()] = a;
  }

  void pointwise(const desc &d) {
    const ref  how = d.at(CUDNN_OP_POINTWISE_DESC), y = d.at(CUDNN_OP_POINTWISE_Y);
    const int  mode = how->num<int>(CUDNN_POINTWISE_MODE);
    const auto axis = how->has(CUDNN_POINTWISE_AXIS) ? how->num<int64_t>(CUDNN_POINTWISE_AXIS) : 0;
    array      a = empty_like(y), x = mode == CUDNN_GEN_INDEX ? a : load(d.at(CUDNN_OP_POINTWISE_X)), v, w;
    if (d.has(CUDNN_OP_POINTWISE_B)) v = load(d.at(CUDNN_OP_POINTWISE_B));
    if (d.has(CUDNN_OP_POINTWISE_T)) w = load(d.at(CUDNN_OP_POINTWISE_T));
    for (int64_t h = 0, n = 0; h < a.n; h++)
      for (int64_t i = 0; i < a.rows; i++)
        for (int64_t j = 0; j < a.cols; j++, n++) {
          double s = mode == CUDNN_GEN_INDEX ? (double)(axis == 2 ? i : j) : x.at(h, i, j);
          double t = v.x.empty() ? 0 : v.at(h, i, j);
          a.x[(size_t)n] = mode == CUDNN_ADD      ? s + t
                           : mode == CUDNN_MUL    ? s * t
                           : mode == CUDNN_SUB    ? s - t
                           : mode == CUDNN_EXP    ? exp(s)
                           : mode == CUDNN_CMP_GT ? s > t || fault == EMU_CUDNN_WINDOW
                           : mode == CUDNN_CMP_GE ? s >= t || fault == EMU_CUDNN_CAUSAL
                           : mode == CUDNN_CMP_LT ? s < t
                           : mode == CUDNN_AND    ? s != 0 && t != 0
                           : mode == CUDNN_SELECT ? (w.at(h, i, j) != 0 ? s : t)
                                                  : s;
        }
    store(y, a);
  }
  void matmul(const desc &d) {
    const ref to = d.at(CUDNN_OP_MATMUL_C);
    array     a = load(d.at(CUDNN_OP_MATMUL_A)), v = load(d.at(CUDNN_OP_MATMUL_B)), c = empty_like(to);
    int64_t   size[3] = {c.rows, c.cols, a.cols};
    const int name[] = {CUDNN_OP_MATMUL_M, CUDNN_OP_MATMUL_N, CUDNN_OP_MATMUL_K};
    for (int i = 0; i < 3; i++)
      if (d.has(name[i]) && fault != EMU_CUDNN_LENGTHS && fault != EMU_CUDNN_BEHIND)
        size[i] = ((const int32_t *)place.at(d.at(name[i])->uid()))[b];
    for (double &x : c.x) x = 0;
    for (int64_t h = 0; h < c.n; h++)
      for (int64_t i = 0; i < size[0]; i++) {
        double       *row = &c.x[(size_t)((h * c.rows + i) * c.cols)];
        const double *m = &v.x[(size_t)(h / (c.n / v.n) * v.rows * v.cols)];
        for (int64_t k = 0; k < size[2]; k++)
          for (int64_t j = 0; j < size[1]; j++)
            row[j] += a.x[(size_t)((h * a.rows + i) * a.cols + k)] * m[k * v.cols + j];
      }
    store(to, c);
  }
  void sum(const desc &d) {
    const ref to = d.at(CUDNN_OP_REDUCTION_Y);
    array     x = load(d.at(CUDNN_OP_REDUCTION_X)), a = empty_like(to);
    for (double &y : a.x) y = 0;
    for (int64_t h = 0; h < x.n; h++)
      for (int64_t i = 0; i < x.rows; i++)
        for (int64_t j = 0; j < x.cols; j++)
          a.x[(size_t)((h / (x.n / a.n) * a.rows + (a.rows == 1 ? 0 : i)) * a.cols +
                       (a.cols == 1 ? 0 : j))] += x.at(h, i, j);
    store(to, a);
  }
  void turn(const desc &d) {
    const ref to = d.at(CUDNN_OP_RESHAPE_Y);
    array     x = load(d.at(CUDNN_OP_RESHAPE_X)), a = empty_like(to);
    for (int64_t h = 0; h < a.n; h++)
      for (int64_t i = 0; i < a.rows; i++)
        for (int64_t j = 0; j < a.cols; j++) a.x[(size_t)((h * a.rows + i) * a.cols + j)] = x.at(h, j, i);
    store(to, a);
  }
  void run(const desc &graph) {
    const std::vector<ref> &ops = graph.set.at(CUDNN_GRAPH_OPS).of;
    const int64_t           B = ops.back()->at(CUDNN_OP_MATMUL_C)->dim(0);
    std::map<int64_t, ref>  all;
    collect(graph, &all);
    for (b = 0; b < B; b++) {
      bool any = true;
      for (const auto &t : all)
        if (t.second->has(CUDNN_TENSOR_RAGGED)) {
          int     along;
          int64_t rows;
          begin(t.second, &along, &rows);
          any = rows > 0;
        }
      if (!any) continue;
      made.clear();
      for (const ref &op : ops)
        op->type == CUDNN_OP_POINTWISE   ? pointwise(*op)
        : op->type == CUDNN_OP_MATMUL    ? matmul(*op)
        : op->type == CUDNN_OP_REDUCTION ? sum(*op)
                                         : turn(*op);
    }
  }
};

struct handle {
  cudaStream_t stream;
};

} /* namespace */

void emu_cudnn_plant(emu_cudnn_fault f) {
  fault = f;
  emu_stick(cudaSuccess);
}
int emu_cudnn_calls(void) { return calls; }

/* ---- the library's functions ---- */

extern "C" {
size_t cudnnGetVersion(void) { return 91900; }
void   cudnnGetLastErrorString(char *text, size_t bytes) { snprintf(text, bytes, "%s", said.c_str()); }
int    cudnnCreate(cudnn_handle *out) { return *out = new handle{NULL}, 0; }
int    cudnnDestroy(cudnn_handle h) { return delete (handle *)h, 0; }
int    cudnnSetStream(cudnn_handle h, void *s) { return ((handle *)h)->stream = (cudaStream_t)s, 0; }
int    cudnnBackendCreateDescriptor(int type, cudnn_desc *out) {
     ref *r = new ref(std::make_shared<desc>());
     (*r)->type = type;
     return *out = r, 0;
}
int cudnnBackendDestroyDescriptor(cudnn_desc d) { return delete (ref *)d, 0; }

int cudnnBackendSetAttribute(cudnn_desc to, int name, int type, int64_t n, const void *from) {
  ref        &d = open_desc(to);
  const rule *r = NULL;

  for (const rule &x : rules)
    if (x.desc == d->type && x.name == name) r = &x;
  if (d->final) return refuse(BAD_FINAL, "a descriptor is set after it was finalized");
  if (!r || r->type != type) return refuse(BAD_TYPE, "no such attribute, or of another type");
  if (!from || n <= 0 || (r->count && n != r->count)) return refuse(BAD_NULL, "an attribute's count");
  value v = {type, {}, {}};
  if (type == CUDNN_OF_DESCRIPTOR)
    for (int64_t i = 0; i < n; i++) {
      const ref &c = open_desc(((const cudnn_desc *)from)[i]);
      if (!c->final && c->type != CUDNN_ENGINECFG) return refuse(BAD_FINAL, "a part is not finalized");
      v.of.push_back(c);
    }
  else
    v.bytes.assign((const char *)from, (const char *)from + (size_t)n * size_of(type));
  if (fault == EMU_CUDNN_UNSET && name == CUDNN_TENSOR_STRIDES) return 0;
  if (fault == EMU_CUDNN_UNMADE && name == CUDNN_GRAPH_OPS) v.of.erase(v.of.begin() + 5);
  if (fault == EMU_CUDNN_TWICE && name == CUDNN_TENSOR_UID && *(const int64_t *)from == 2) v.bytes[0] = 1;
  if (fault == EMU_CUDNN_STRIDES && name == CUDNN_TENSOR_STRIDES && ((const int64_t *)from)[3] > 1)
    std::swap_ranges(v.bytes.begin() + 16, v.bytes.begin() + 24, v.bytes.begin() + 24);
  d->set[name] = v;
  return 0;
}

int cudnnBackendFinalize(cudnn_desc to) {
  ref &d = open_desc(to);

  if (d->final) return refuse(BAD_FINAL, "a descriptor is finalized twice");
  for (const rule &r : rules)
    if (r.desc == d->type && r.must && !d->has(r.name)) return refuse(BAD, "an attribute is missing");
  if (d->type == CUDNN_PLAN && d->at(CUDNN_PLAN_CFG)->engine != GOOD) {
    if (d->at(CUDNN_PLAN_CFG)->engine == CANNOT) return refuse(CUDNN_UNSUPPORTED, "not supported");
    if (fault != EMU_CUDNN_ENGINES) emu_fail("cuDNN: an engine was taken whose bits do not repeat");
  }
  if (d->type == CUDNN_PACK &&
      d->set[CUDNN_PACK_UIDS].bytes.size() != d->set[CUDNN_PACK_POINTERS].bytes.size())
    return refuse(BAD, "not as many pointers as numbers");
  int failed = d->type == CUDNN_TENSOR         ? check_tensor(*d)
               : d->type == CUDNN_OP_POINTWISE ? check_pointwise(*d)
               : d->type == CUDNN_OP_MATMUL    ? check_matmul(*d)
               : d->type == CUDNN_OP_REDUCTION ? check_reduction(*d)
               : d->type == CUDNN_OP_RESHAPE   ? check_reshape(*d)
               : d->type == CUDNN_GRAPH        ? check_graph(*d)
                                               : 0;
  d->final = !failed;
  return failed;
}

int cudnnBackendGetAttribute(cudnn_desc of, int name, int type, int64_t most, int64_t *n, void *to) {
  ref &d = open_desc(of);

  *n = 0;
  if (d->type == CUDNN_ENGINEHEUR && name == CUDNN_HEUR_RESULTS && type == CUDNN_OF_DESCRIPTOR && d->final) {
    const int last = fault == EMU_CUDNN_ENGINES ? GOOD : ENGINES;
    for (int i = 0; i < last && i < most; i++) {
      ref &c = open_desc(((cudnn_desc *)to)[i]);
      c->engine = i, c->final = true;
      c->set[CUDNN_HEUR_GRAPH] = {CUDNN_OF_DESCRIPTOR, {}, {d->at(CUDNN_HEUR_GRAPH)}};
      *n = i + 1;
    }
    return 0;
  }
  if (d->type == CUDNN_ENGINECFG && name == CUDNN_CFG_ENGINE && type == CUDNN_OF_DESCRIPTOR)
    return open_desc(*(cudnn_desc *)to)->engine = d->engine, *n = 1, 0;
  if (d->type == CUDNN_ENGINE && name == CUDNN_ENGINE_INDEX && type == CUDNN_OF_INT64)
    return *(int64_t *)to = d->engine, *n = 1, 0;
  if (d->type == CUDNN_ENGINE && name == CUDNN_ENGINE_NOTES && type == CUDNN_OF_NOTE) {
    ((int *)to)[(*n)++] = 0; /* tensor cores */
    if (d->engine == REPEATS_NOT) ((int *)to)[(*n)++] = CUDNN_NOTE_NONDETERMINISTIC;
    return 0;
  }
  if (d->type == CUDNN_PLAN && name == CUDNN_PLAN_WORKSPACE && type == CUDNN_OF_INT64 && d->final)
    return *(int64_t *)to = (int64_t)engine_bytes(*graph_of(*d->at(CUDNN_PLAN_CFG))), *n = 1, 0;
  return refuse(BAD_TYPE, "nothing of that kind can be asked");
}

int cudnnBackendExecute(cudnn_handle h, cudnn_desc plan, cudnn_desc pack) {
  const ref              p = open_desc(plan), k = open_desc(pack), g = graph_of(*p->at(CUDNN_PLAN_CFG));
  std::map<int64_t, ref> all;
  machine                m;
  const size_t           n = k->set[CUDNN_PACK_UIDS].bytes.size() / 8, room = engine_bytes(*g);

  if (!p->final || !k->final) return refuse(BAD_FINAL, "plan or pointers are not finalized");
  if (fault == EMU_CUDNN_BREAKS) emu_stick(cudaErrorIllegalState);
  if (fault == EMU_CUDNN_FAILS || fault == EMU_CUDNN_BREAKS)
    return refuse(CUDNN_UNSUPPORTED, "an engine failed");
  for (size_t i = 0; i < n; i++)
    m.place[k->num<int64_t>(CUDNN_PACK_UIDS, i)] = k->num<void *>(CUDNN_PACK_POINTERS, i);
  if (fault == EMU_CUDNN_POINTER) m.place.erase(m.place.begin());
  collect(*g, &all);
  for (const auto &t : all) {
    if (t.second->is_virtual()) continue;
    if (!m.place.count(t.first) || !m.place[t.first]) return refuse(BAD_NULL, "a tensor has no place");
    if (t.second->by_value()) {
      m.number[t.first] = *(const float *)m.place[t.first];
      if (fault == EMU_CUDNN_SCALE && m.number[t.first] > 0 && m.number[t.first] < 1) m.number[t.first] = 1;
      continue;
    }
    if ((uintptr_t)m.place[t.first] % (size_t)t.second->num<int64_t>(CUDNN_TENSOR_ALIGNMENT))
      emu_fail("cuDNN: tensor %lld is not on its alignment", (long long)t.first);
    if (const char *why = emu_device_range(m.place[t.first], 4))
      emu_fail("cuDNN: tensor %lld: %s", (long long)t.first, why);
  }
  void *work = k->num<void *>(CUDNN_PACK_WORKSPACE);
  if (const char *why = emu_device_range(work, room)) emu_fail("cuDNN: the workspace: %s", why);
  m.turn_of = calls++;
  cudaError_t e = emu_queue(((handle *)h)->stream, [=]() mutable {
    memset(work, 0xff, room); /* the engine's own, nothing else may be there */
    m.run(*g);
  });
  return e == cudaSuccess ? 0 : 5000;
}
}
