/* tensor.h - views of tensors, their types and shapes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TENSOR_H
#define TRI_TENSOR_H

#include "inline.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A model computes in the first three types. They have the order of the words of model.dtype. */
typedef enum { TRI_F32, TRI_BF16, TRI_F16, TRI_I32, TRI_I64, TRI_U8, TRI_DTYPE_COUNT } tri_dtype;
#define TRI_MAX_DIM 4

/* A view: row-major and contiguous. It never owns `data`. Pass it by pointer. Copying it is cheap and
 * legal. */
typedef struct tri_tensor {
  void     *data;
  tri_dtype dtype;
  int       ndim;
  int64_t   dim[TRI_MAX_DIM];
} tri_tensor;

static inline size_t tri_dtype_bytes(tri_dtype t) {
  return t == TRI_BF16 || t == TRI_F16 ? 2 : t == TRI_I64 ? 8 : t == TRI_U8 ? 1 : 4;
}
/* True if a model may compute in this type. */
static inline bool tri_dtype_computes(tri_dtype t) { return t == TRI_F32 || t == TRI_BF16 || t == TRI_F16; }
/* The word of the deck and of --dtype for a type that models compute in. */
static inline const char *tri_dtype_word(tri_dtype t) {
  return t == TRI_F32 ? "f32" : t == TRI_BF16 ? "bf16" : t == TRI_F16 ? "fp16" : "other";
}
/* The type for such a word. */
static inline tri_dtype tri_dtype_named(const char *word) {
  return !strcmp(word, "f32") ? TRI_F32 : !strcmp(word, "bf16") ? TRI_BF16 : TRI_F16;
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
/* Rows [first, first + n) of a view with one or two dimensions. */
static inline tri_tensor tri_rows(const tri_tensor *t, int64_t first, int64_t n) {
  tri_tensor v = *t;
  v.data = (char *)t->data + (size_t)(first * (t->ndim > 1 ? t->dim[1] : 1)) * tri_dtype_bytes(t->dtype);
  v.dim[0] = n;
  return v;
}

/* bfloat16 is the upper half of an f32. Rounds to nearest, ties to even. NaN stays NaN (quiet). */
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

/* binary16 of IEEE 754, without a branch, so that the compiler can vectorise loops. The conversion to f32 is
 * exact. */
TRI_INLINE float tri_f16_to_f32(uint16_t h) {
  union {
    uint32_t u;
    float    f;
  } c = {(uint32_t)(h & 0x7fffu) << 13}, tiny;
  tiny.u = c.u + (113u << 23); /* for zero and subnormals, 2^-14 too large */
  tiny.f -= 0x1p-14f;
  /* Adapts the exponent's bias. Infinity and NaN get the largest exponent. */
  c.u += c.u >= 0x1fu << 23 ? 224u << 23 : 112u << 23;
  c.u = (h & 0x7c00u) ? c.u : tiny.u;
  c.u |= (uint32_t)(h & 0x8000u) << 16;
  return c.f;
}
/* Rounds to nearest, ties to even. Values from 65520 on become infinity. NaN stays NaN (quiet). */
TRI_INLINE uint16_t tri_f32_to_f16(float f) {
  union {
    float    f;
    uint32_t u;
  } c = {f}, tiny;
  const uint32_t sign = c.u & 0x80000000u, magnitude = c.u ^ sign;
  uint32_t       normal, large, h;
  c.u = magnitude;
  /* From 0.5 on, the last bit of a float is 2^-24, the last bit of a subnormal. So the sum rounds. */
  tiny.f = c.f + 0.5f;
  tiny.u -= 0x3f000000u;
  normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1)) >> 13;
  large = magnitude > 0x7f800000u ? 0x7e00u | ((magnitude >> 13) & 0x3ffu) : 0x7c00u;
  h = magnitude < 113u << 23 ? tiny.u : magnitude >= 143u << 23 ? large : normal;
  return (uint16_t)(h | (sign >> 16));
}

/* The 16-bit types by name. t is TRI_BF16 or TRI_F16. */
TRI_INLINE float tri_half_to_f32(tri_dtype t, uint16_t h) {
  return t == TRI_BF16 ? tri_bf16_to_f32(h) : tri_f16_to_f32(h);
}
TRI_INLINE uint16_t tri_f32_to_half(tri_dtype t, float f) {
  return t == TRI_BF16 ? tri_f32_to_bf16(f) : tri_f32_to_f16(f);
}

#endif
