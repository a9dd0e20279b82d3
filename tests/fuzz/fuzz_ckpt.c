/* fuzz_ckpt.c - state.h5 (io/checkpoint/checkpoint_read.c), from bytes that choose differences from a whole
 * checkpoint.
 *
 * HDF5 1.10 crashes on bytes it did not write, whoever calls it. Every file here is therefore written by
 * HDF5. It has other types, shapes, layouts, places and links than a checkpoint, and a manifest with matching
 * hashes. After the end of the bytes, or for a byte of 0, there is no difference. A checkpoint without
 * differences is read and verified. For any other, all verified data must be readable and equal to the
 * written bytes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/hash.h"
#include "fuzz_case.h"
#include "io/checkpoint/checkpoint_impl.h"

enum { N_TENSOR = 3, MOST_COUNT = 64 };

static struct { /* the input and the checkpoint made from it */
  const uint8_t    *data;
  size_t            n;
  bool              departs;
  hid_t             file, links;
  tri_ckpt_manifest manifest;
} now;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  tri_log_open(1, TRI_LOG_ERROR);
  tri_ckpt_h5_quiet();
  /* HDF5 keeps freed memory for itself. Each opened file takes half a megabyte for its tables. */
  FUZZ_CHECK(H5set_free_list_limits(-1, -1, -1, -1, -1, -1) >= 0);
  return 0;
}

/* Returns a choice among n. Choice 0 is a checkpoint's own. */
static int choose(int n) {
  int choice = now.n ? *now.data % n : 0;

  if (now.n) now.data++, now.n--;
  if (choice) now.departs = true;
  return choice;
}

/* Makes a type of a wrong kind or size. Close it with H5Tclose. */
static hid_t other_type(int choice) {
  hsize_t two = 2;

  switch (choice) {
  case 0:
    return H5Tcopy(H5T_STD_I8LE);
  case 1:
    return H5Tcopy(H5T_STD_U64BE);
  case 2:
    return H5Tcopy(H5T_IEEE_F32LE);
  case 3:
    return H5Tcopy(H5T_IEEE_F64BE);
  case 4:
    return tri_ckpt_h5_slab_type();
  case 5:
    return H5Tarray_create2(H5T_STD_I32LE, 1, &two);
  case 6:
    return H5Tcreate(H5T_OPAQUE, 12);
  case 7:
    return H5Tvlen_create(H5T_STD_I32LE);
  default:
    break;
  }
  hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, choice == 8 ? H5T_VARIABLE : (size_t)(choice - 8));
  H5Tset_strpad(text, choice & 1 ? H5T_STR_NULLPAD : H5T_STR_SPACEPAD);
  return text;
}

static hid_t make_space(int choice) {
  hsize_t dim[2] = {(hsize_t)choice, 2};

  return choice == 0  ? H5Screate(H5S_SCALAR)
         : choice < 4 ? H5Screate_simple(1, dim, NULL)
         : choice < 6 ? H5Screate_simple(2, dim, NULL)
                      : H5Screate(H5S_NULL);
}

static void put_attribute(hid_t group, const char *name, hid_t usual) {
  static const char value[512] = "a value";
  int               choice = choose(16);
  hid_t             type = choice ? other_type(choice - 1) : H5Tcopy(usual), space = make_space(choose(7));
  hid_t             id = H5Acreate2(group, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  bool              plain = H5Tdetect_class(type, H5T_VLEN) == 0 && H5Tis_variable_str(type) <= 0;

  if (id >= 0 && plain) H5Awrite(id, type, value);
  if (id >= 0) H5Aclose(id);
  H5Sclose(space);
  H5Tclose(type);
}

/* Puts a link or nothing under a name instead of an object. Returns false if the object itself is still to be
 * made. */
static bool put_link(const char *name) {
  switch (choose(6)) {
  case 0:
    return false;
  case 1:
    break;
  case 2:
    H5Lcreate_soft("/elsewhere", now.file, name, now.links, H5P_DEFAULT);
    break;
  case 3:
    H5Lcreate_soft(name, now.file, name, now.links, H5P_DEFAULT);
    break;
  case 4:
    H5Lcreate_external("state.h5", "/elsewhere", now.file, name, now.links, H5P_DEFAULT);
    break;
  default:
    H5Gclose(H5Gcreate2(now.file, name, now.links, H5P_DEFAULT, H5P_DEFAULT));
    break;
  }
  return true;
}

static void put_state(void) {
  hid_t text = H5Tcopy(H5T_C_S1), group;

  group = H5Gcreate2(now.file, "/elsewhere", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Gclose(group);
  if (!put_link("/state")) {
    group = H5Gcreate2(now.file, "/state", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Tset_size(text, 5);
    put_attribute(group, "i64", H5T_STD_I64LE);
    put_attribute(group, "f64", H5T_IEEE_F64LE);
    put_attribute(group, "text", text);
    for (int i = choose(4); i > 0; i--) put_attribute(group, &"more"[i], H5T_STD_I64LE);
    H5Gclose(group);
  }
  H5Tclose(text);
}

/* Chooses the layout of its bytes in the file, as in a checkpoint, compact, in chunks, or not yet
 * allocated. */
static hid_t make_layout(const tri_ckpt_tensor *t) {
  hid_t   list = tri_ckpt_h5_set_list();
  hsize_t chunk[TRI_MAX_DIM];

  for (int d = 0; d < t->ndim; d++) chunk[d] = (hsize_t)t->dim[d];
  switch (choose(5)) {
  case 1:
    H5Pset_layout(list, H5D_COMPACT);
    break;
  case 2:
    H5Pset_chunk(list, t->ndim, chunk);
    break;
  case 3:
    H5Pset_chunk(list, t->ndim, chunk), H5Pset_fletcher32(list);
    break;
  case 4:
    H5Pset_alloc_time(list, H5D_ALLOC_TIME_LATE);
    break;
  default:
    break;
  }
  return list;
}

/* Writes a tensor of the manifest with its data set and its row of /integrity/slabs. */
static void put_tensor(int i, tri_ckpt_slab *slab) {
  static const char *const name[N_TENSOR] = {"a.weight", "b.weight", "c"};
  static const uint8_t     zero[8 * MOST_COUNT * 16];
  tri_ckpt_tensor          t = {"/model", name[i], i == 1 ? TRI_BF16 : TRI_F32, 1 + i, {2, 3, 4}}, in_file;
  char                     path[64];
  tri_ckpt_entry          *e;

  FUZZ_CHECK(tri_ckpt_manifest_add(&now.manifest, "here", TRI_EFORMAT, &t) == TRI_OK);
  e = &now.manifest.entry[i];
  *slab = (tri_ckpt_slab){i, 0, e->count, tri_hash64(zero, (size_t)e->bytes, 0)};
  in_file = t;
  in_file.ndim = (t.ndim - 1 + choose(TRI_MAX_DIM)) % TRI_MAX_DIM + 1;
  for (int d = 0; d < in_file.ndim; d++) in_file.dim[d] = (d < t.ndim ? t.dim[d] : 1) + choose(3);
  snprintf(path, sizeof path, "/model/%s", t.name);
  if (!put_link(path)) {
    int   choice = choose(16);
    hid_t type = choice ? other_type(choice - 1) : tri_ckpt_h5_type(t.dtype), list = make_layout(&in_file);
    hid_t space = tri_ckpt_h5_space(&in_file);
    hid_t set = H5Dcreate2(now.file, path, type, space, now.links, list, H5P_DEFAULT);
    if (set >= 0 && !choice) H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, zero);
    if (set >= 0 && H5Dget_offset(set) != HADDR_UNDEF) e->offset_bytes = (int64_t)H5Dget_offset(set);
    if (set >= 0) H5Dclose(set);
    H5Sclose(space);
    H5Pclose(list);
    H5Tclose(type);
  }
  e->offset_bytes += choose(3);
}

static void put_slabs(tri_ckpt_slab slab[N_TENSOR]) {
  static const int64_t  other[] = {0, -1, 1, 3, INT64_MAX, INT64_MIN, (int64_t)1 << 40};
  const tri_ckpt_tensor t = {
      "/integrity", "slabs", TRI_F32, 1 + choose(2), {N_TENSOR + choose(3) - 1 + 1, 1}};
  tri_ckpt_slab row[2 * (N_TENSOR + 3)] = {{0}};
  int           choice;

  memcpy(row, slab, N_TENSOR * sizeof *slab);
  for (int n = choose(4); n > 0; n--) {
    tri_ckpt_slab *s = &row[choose(N_TENSOR + 2)];
    int64_t        value = other[choose(sizeof other / sizeof *other)];
    switch (choose(4)) {
    case 0:
      s->tensor = value;
      break;
    case 1:
      s->begin = value;
      break;
    case 2:
      s->count = value;
      break;
    default:
      s->hash = (uint64_t)value;
      break;
    }
  }
  if (put_link("/integrity/slabs")) return;
  choice = choose(16);
  hid_t type = choice ? other_type(choice - 1) : tri_ckpt_h5_slab_type();
  hid_t space = tri_ckpt_h5_space(&t), list = make_layout(&t);
  hid_t set = H5Dcreate2(now.file, "/integrity/slabs", type, space, now.links, list, H5P_DEFAULT);
  if (set >= 0 && !choice) H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, row);
  if (set >= 0) H5Dclose(set);
  H5Pclose(list);
  H5Sclose(space);
  H5Tclose(type);
}

static void put_checkpoint(void) {
  char          path[128];
  struct stat   about;
  tri_ckpt_slab slab[N_TENSOR];

  snprintf(path, sizeof path, "%s/state.h5", fuzz_folder());
  now.manifest = (tri_ckpt_manifest){.step = 1, .program = "trireme 0.1.0"};
  now.links = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(now.links, 1);
  now.file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  FUZZ_CHECK(now.file >= 0);
  put_state();
  for (int i = 0; i < N_TENSOR; i++) put_tensor(i, &slab[i]);
  put_slabs(slab);
  H5Pclose(now.links);
  FUZZ_CHECK(H5Fclose(now.file) >= 0 && stat(path, &about) == 0);
  now.manifest.state_bytes = about.st_size;
}

static bool read_values(tri_ckpt_reader *r) {
  tri_text name = {0}, text = {0};
  int      n_good = 0;
  char     kind;
  int64_t  whole;
  double   number;

  for (int i = 0; i < tri_ckpt_value_count(r); i++) {
    name.len = text.len = 0;
    if (tri_ckpt_value_at(r, i, &name, &kind) == TRI_OK &&
        (kind == 'i'   ? tri_ckpt_get_i64(r, name.data, &whole)
         : kind == 'f' ? tri_ckpt_get_f64(r, name.data, &number)
                       : tri_ckpt_get_text(r, name.data, &text)) == TRI_OK)
      n_good++;
    tri_error_clear();
  }
  tri_text_free(&name);
  tri_text_free(&text);
  return n_good == 3;
}

static bool read_tensors(tri_ckpt_reader *r) {
  static uint8_t bytes[8 * MOST_COUNT];
  bool           good = true;

  for (int i = 0; i < tri_ckpt_tensor_count(r); i++) {
    const tri_ckpt_entry *e = &now.manifest.entry[i];
    bool                  zero = tri_ckpt_read(r, i, 0, e->count, bytes) == TRI_OK;
    for (int64_t k = 0; k < e->bytes && zero; k++) zero = bytes[k] == 0;
    good = good && zero;
    tri_error_clear();
  }
  return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  tri_ckpt_manifest *m = &now.manifest;
  tri_ckpt_reader   *r = NULL;
  bool               verified, values = false, tensors = false;

  now.data = data;
  now.n = n;
  now.departs = false;
  fuzz_begin();
  put_checkpoint();
  if (tri_ckpt_metadata_hash(m, fuzz_folder(), &m->metadata_hash) == TRI_OK &&
      tri_ckpt_manifest_write(m, fuzz_folder()) == TRI_OK) {
    verified = tri_ckpt_open(fuzz_folder(), NULL, true, &r) == TRI_OK;
    if (verified || tri_ckpt_open(fuzz_folder(), NULL, false, &r) == TRI_OK) {
      values = read_values(r);
      tensors = read_tensors(r);
    }
    FUZZ_CHECK(tensors || !verified);
    FUZZ_CHECK(now.departs || (verified && values));
  } else {
    FUZZ_CHECK(now.departs);
  }
  tri_ckpt_close(&r);
  tri_ckpt_manifest_free(m);
  fuzz_end();
  return 0;
}
