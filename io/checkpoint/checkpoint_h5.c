/* checkpoint_h5.c - wraps HDF5 for checkpoints: element types, error texts, flat ranges as selections. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "checkpoint_impl.h"

#include <stdio.h>
#include <string.h>

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

/* Makes a 16-bit float type: the sign at bit 15, then the exponent, then the fraction. bfloat16 has 8
 * exponent bits, 7 fraction bits and bias 127; float16 has 5, 10 and 15. Other programs convert the type to
 * float on reading. */
static hid_t half_type(size_t exponent_bits, size_t bias) {
  hid_t  type = H5Tcopy(H5T_IEEE_F32LE);
  size_t fraction = 15 - exponent_bits;

  if (type >= 0 &&
      (H5Tset_fields(type, 15, fraction, exponent_bits, 0, fraction) < 0 || H5Tset_precision(type, 16) < 0 ||
       H5Tset_ebias(type, bias) < 0 || H5Tset_size(type, 2) < 0)) {
    H5Tclose(type);
    return -1;
  }
  return type;
}
static hid_t bf16_type(void) { return half_type(8, 127); }
static hid_t f16_type(void) { return half_type(5, 15); }

hid_t tri_ckpt_h5_type(tri_dtype dtype) {
  switch (dtype) {
  case TRI_F32:
    return H5Tcopy(H5T_IEEE_F32LE);
  case TRI_BF16:
    return bf16_type();
  case TRI_F16:
    return f16_type();
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

/* A flat range of a row-major array is a union of at most 2 * ndim - 1 boxes. Each turn takes the largest box
 * that starts at the first remaining element. HDF5 visits the union in row-major order, which is the flat
 * order. */
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

tri_status tri_ckpt_h5_group(hid_t file, const char *file_path, const char *path, hid_t *out) {
  hid_t list = H5Pcreate(H5P_GROUP_CREATE), id;
  char  part[256];

  *out = -1;
  if (list < 0 || H5Pset_obj_track_times(list, 0) < 0)
    TRI_FAIL(TRI_EINTERNAL, "%s: HDF5 properties: %s", file_path, tri_ckpt_h5_reason());
  for (size_t n = 1; *out < 0; n++) {
    if (path[n] != '/' && path[n] != 0) continue;
    snprintf(part, sizeof part, "%.*s", (int)n, path);
    id = H5Lexists(file, part, H5P_DEFAULT) > 0 ? H5Gopen2(file, part, H5P_DEFAULT)
                                                : H5Gcreate2(file, part, H5P_DEFAULT, list, H5P_DEFAULT);
    if (id < 0) {
      H5Pclose(list);
      TRI_FAIL(TRI_EFILE, "%s: group %s: %s", file_path, part, tri_ckpt_h5_reason());
    }
    if (path[n] == 0)
      *out = id;
    else
      H5Gclose(id);
  }
  H5Pclose(list);
  return TRI_OK;
}

tri_status tri_ckpt_h5_check_links(hid_t file, const char *file_path, const char *object) {
  char       part[2048];
  H5L_info_t info;

  for (size_t n = 1; n <= strlen(object) && n < sizeof part; n++) {
    if (object[n] != '/' && object[n] != 0) continue;
    snprintf(part, sizeof part, "%.*s", (int)n, object);
    if (H5Lget_info(file, part, &info, H5P_DEFAULT) < 0)
      TRI_FAIL(TRI_EFORMAT, "%s: has no %s: %s", file_path, part, tri_ckpt_h5_reason());
    if (info.type != H5L_TYPE_HARD)
      TRI_FAIL(TRI_EFORMAT, "%s: %s is %s link. Trireme writes no such links and does not follow them.",
               file_path, part,
               info.type == H5L_TYPE_SOFT       ? "a soft"
               : info.type == H5L_TYPE_EXTERNAL ? "an external"
                                                : "a user-defined");
  }
  return TRI_OK;
}

bool tri_ckpt_h5_is_plain(hid_t set) {
  hid_t list = H5Dget_create_plist(set);
  bool  plain = list >= 0 && H5Pget_layout(list) == H5D_CONTIGUOUS && H5Pget_external_count(list) == 0;

  if (list >= 0) H5Pclose(list);
  return plain;
}

hid_t tri_ckpt_h5_set_list(void) {
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);

  if (list >= 0 &&
      (H5Pset_layout(list, H5D_CONTIGUOUS) < 0 || H5Pset_alloc_time(list, H5D_ALLOC_TIME_EARLY) < 0 ||
       H5Pset_fill_time(list, H5D_FILL_TIME_NEVER) < 0 || H5Pset_obj_track_times(list, 0) < 0)) {
    H5Pclose(list);
    return -1;
  }
  return list;
}

tri_status tri_ckpt_h5_put(hid_t object, const char *path, const char *name, hid_t type, const void *value) {
  hid_t space = H5Screate(H5S_SCALAR), id = -1;
  bool  good;

  if (space >= 0) id = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  good = id >= 0 && H5Awrite(id, type, value) >= 0;
  if (!good)
    tri_fail(__FILE__, __LINE__, __func__, TRI_EFILE, "%s: attribute %s: %s", path, name,
             tri_ckpt_h5_reason());
  if (id >= 0) H5Aclose(id);
  if (space >= 0) H5Sclose(space);
  return good ? TRI_OK : TRI_EFILE;
}

tri_status tri_ckpt_h5_put_text(hid_t object, const char *path, const char *name, const char *text) {
  tri_status st;
  hid_t      type = H5Tcopy(H5T_C_S1);

  if (type < 0 || H5Tset_size(type, strlen(text) + 1) < 0 || H5Tset_cset(type, H5T_CSET_UTF8) < 0)
    TRI_FAIL(TRI_EINTERNAL, "%s: attribute %s: %s", path, name, tri_ckpt_h5_reason());
  st = tri_ckpt_h5_put(object, path, name, type, text);
  H5Tclose(type);
  return st;
}

tri_status tri_ckpt_h5_open(hid_t file, const char *file_path, const tri_ckpt_entry *e, hid_t *set) {
  char    name[2048];
  hid_t   space = -1, type = -1, want = tri_ckpt_h5_type(e->t.dtype);
  hsize_t dim[H5S_MAX_RANK];
  bool    good;

  *set = -1;
  snprintf(name, sizeof name, "%s/%s", e->t.group, e->t.name);
  TRI_TRY(tri_ckpt_h5_check_links(file, file_path, name));
  *set = H5Dopen2(file, name, H5P_DEFAULT);
  if (*set >= 0) {
    space = H5Dget_space(*set);
    type = H5Dget_type(*set);
  }
  good = space >= 0 && type >= 0 && want >= 0 && tri_ckpt_h5_is_plain(*set) && H5Tequal(type, want) > 0 &&
         H5Sget_simple_extent_ndims(space) == e->t.ndim &&
         H5Sget_simple_extent_dims(space, dim, NULL) == e->t.ndim &&
         H5Dget_offset(*set) == (haddr_t)e->offset_bytes;
  for (int d = 0; good && d < e->t.ndim; d++) good = dim[d] == (hsize_t)e->t.dim[d];
  if (space >= 0) H5Sclose(space);
  if (type >= 0) H5Tclose(type);
  if (want >= 0) H5Tclose(want);
  if (good) return TRI_OK;
  if (*set >= 0) H5Dclose(*set);
  *set = -1;
  TRI_FAIL(TRI_EFORMAT,
           "%s: the data set %s is missing, or differs in type, shape or offset from MANIFEST.json",
           file_path, name);
}
