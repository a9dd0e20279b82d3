/* checkpoint_h5.c - HDF5 for checkpoints: element types, error texts, flat ranges as selections. */
#include "checkpoint_impl.h"

#include <stdio.h>

void tri_ckpt_h5_quiet(void) { H5Eset_auto2(H5E_DEFAULT, NULL, NULL); }

static herr_t keep_first(unsigned n, const H5E_error2_t *err, void *text) {
  if (n == 0) snprintf(text, 256, "%s", err->desc ? err->desc : "no reason given");
  return 0;
}

const char *tri_ckpt_h5_reason(void) {
  static _Thread_local char text[256];

  text[0] = 0;
  if (H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, text) < 0 || !text[0])
    snprintf(text, sizeof text, "HDF5 gives no reason");
  return text;
}

/* bfloat16 as a custom float: sign at bit 15, 8 exponent bits from 7, 7 mantissa bits from 0, bias 127. Other
 * programs convert it to float on reading. */
static hid_t bf16_type(void) {
  hid_t type = H5Tcopy(H5T_IEEE_F32LE);

  if (type >= 0 && (H5Tset_fields(type, 15, 7, 8, 0, 7) < 0 || H5Tset_precision(type, 16) < 0 ||
                    H5Tset_ebias(type, 127) < 0 || H5Tset_size(type, 2) < 0)) {
    H5Tclose(type);
    return -1;
  }
  return type;
}

hid_t tri_ckpt_h5_type(tri_dtype dtype) {
  switch (dtype) {
  case TRI_F32:
    return H5Tcopy(H5T_IEEE_F32LE);
  case TRI_BF16:
    return bf16_type();
  case TRI_I32:
    return H5Tcopy(H5T_STD_I32LE);
  case TRI_I64:
    return H5Tcopy(H5T_STD_I64LE);
  case TRI_U8:
    return H5Tcopy(H5T_STD_U8LE);
  default:
    return -1;
  }
}

hid_t tri_ckpt_h5_slab_type(void) {
  hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(tri_ckpt_slab));

  if (type >= 0 && (H5Tinsert(type, "tensor", HOFFSET(tri_ckpt_slab, tensor), H5T_STD_I64LE) < 0 ||
                    H5Tinsert(type, "begin", HOFFSET(tri_ckpt_slab, begin), H5T_STD_I64LE) < 0 ||
                    H5Tinsert(type, "count", HOFFSET(tri_ckpt_slab, count), H5T_STD_I64LE) < 0 ||
                    H5Tinsert(type, "hash", HOFFSET(tri_ckpt_slab, hash), H5T_STD_U64LE) < 0)) {
    H5Tclose(type);
    return -1;
  }
  return type;
}

hid_t tri_ckpt_h5_space(const tri_ckpt_tensor *t) {
  hsize_t dim[TRI_MAX_DIM];

  for (int d = 0; d < t->ndim; d++) dim[d] = (hsize_t)t->dim[d];
  return H5Screate_simple(t->ndim, dim, NULL);
}

/* A flat range of a row-major array is at most 2 * ndim - 1 boxes: take, again and again, the largest that starts at
 * its first element. HDF5 goes through their union in row-major order, which is the flat order. */
tri_status tri_ckpt_h5_select(hid_t space, const tri_ckpt_tensor *t, int64_t begin, int64_t count) {
  int64_t       stride[TRI_MAX_DIM], at = begin, end = begin + count;
  H5S_seloper_t op = H5S_SELECT_SET;

  if (count == 0) {
    if (H5Sselect_none(space) < 0) TRI_FAIL(TRI_EINTERNAL, "selecting nothing: %s", tri_ckpt_h5_reason());
    return TRI_OK;
  }
  for (int d = t->ndim - 1; d >= 0; d--) stride[d] = d == t->ndim - 1 ? 1 : stride[d + 1] * t->dim[d + 1];
  while (at < end) {
    hsize_t start[TRI_MAX_DIM], one[TRI_MAX_DIM], block[TRI_MAX_DIM];
    int64_t rest = at, most;
    int     level = 0;
    while (at % stride[level] != 0 || at + stride[level] > end) level++;
    for (int d = 0; d < t->ndim; d++) {
      start[d] = (hsize_t)(rest / stride[d]);
      rest %= stride[d];
      one[d] = 1;
      block[d] = d <= level ? 1 : (hsize_t)t->dim[d];
    }
    most = t->dim[level] - (int64_t)start[level];
    if (most > (end - at) / stride[level]) most = (end - at) / stride[level];
    block[level] = (hsize_t)most;
    if (H5Sselect_hyperslab(space, op, start, NULL, one, block) < 0)
      TRI_FAIL(TRI_EINTERNAL, "%s/%s: selecting a box: %s", t->group, t->name, tri_ckpt_h5_reason());
    op = H5S_SELECT_OR;
    at += most * stride[level];
  }
  return TRI_OK;
}
