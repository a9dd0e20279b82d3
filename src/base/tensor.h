/* tensor.h - the view type and its shape helpers. */
#ifndef TRI_TENSOR_H
#define TRI_TENSOR_H

#include "base.h"
#include "inline.h"

/* The first two in the order of the words of model.dtype. */
typedef enum { TRI_F32, TRI_BF16, TRI_I32, TRI_I64, TRI_U8, TRI_DTYPE_COUNT } tri_dtype;
#define TRI_MAX_DIM 4

/* A view: row-major, contiguous, never owns `data`. Pass by pointer; copying it is cheap and legal. */
typedef struct tri_tensor {
  void     *data;
  tri_dtype dtype;
  int       ndim;
  int64_t   dim[TRI_MAX_DIM];
} tri_tensor;

static inline size_t tri_dtype_bytes(tri_dtype t) {
  return t == TRI_BF16 ? 2 : t == TRI_I64 ? 8 : t == TRI_U8 ? 1 : 4;
}

static inline int64_t tri_tensor_count(const tri_tensor *t) {
  int64_t n = 1;
  for (int i = 0; i < t->ndim; i++) n *= t->dim[i];
  return n;
}

/* [d0] and [d0,d1] views. */
static inline tri_tensor tri_view1(void *data, tri_dtype t, int64_t d0) {
  tri_tensor v = {data, t, 1, {d0, 1, 1, 1}};
  return v;
}
static inline tri_tensor tri_view2(void *data, tri_dtype t, int64_t d0, int64_t d1) {
  tri_tensor v = {data, t, 2, {d0, d1, 1, 1}};
  return v;
}
/* Rows [first, first + n) of a view of two dimensions. */
static inline tri_tensor tri_rows(const tri_tensor *t, int64_t first, int64_t n) {
  tri_tensor v = *t;
  v.data = (char *)t->data + (size_t)(first * (t->ndim > 1 ? t->dim[1] : 1)) * tri_dtype_bytes(t->dtype);
  v.dim[0] = n;
  return v;
}

/* bfloat16: the upper half of an f32. Round to nearest, ties to even; NaN stays NaN (quiet). */
TRI_INLINE float tri_bf16_to_f32(uint16_t b) {
  union {
    uint32_t u;
    float    f;
  } c = {(uint32_t)b << 16};
  return c.f;
}
TRI_INLINE uint16_t tri_f32_to_bf16(float f) {
  union {
    float    f;
    uint32_t u;
  } c = {f};
  if ((c.u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((c.u >> 16) | 0x40);
  return (uint16_t)((c.u + 0x7fffu + ((c.u >> 16) & 1)) >> 16);
}

#endif
