/* checkpoint_read.c - opens a checkpoint after checking its bytes, and reads any range on any rank. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "checkpoint_impl.h"

#include "base/file.h"
#include "base/hash.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static const hsize_t read_bytes = (hsize_t)1 << 30;       /* one H5Dread, below every 2 GiB limit */
static const size_t  text_limit_bytes = (size_t)16 << 20; /* chosen: an attribute is not a file */
enum { MOST_VALUES = 1024 }; /* chosen: eighty times as many as a run saves. HDF5 searches them linearly. */

/* ---- search by name */

static int compare_names(const tri_ckpt_tensor *t, const char *group, const char *name) {
  int c = strcmp(t->group, group);

  return c ? c : strcmp(t->name, name);
}

static int by_name(const void *a, const void *b) {
  const tri_ckpt_entry *x = *(const tri_ckpt_entry *const *)a, *y = *(const tri_ckpt_entry *const *)b;

  return compare_names(&x->t, y->t.group, y->t.name);
}

static tri_status sort_names(tri_ckpt_reader *r) {
  TRI_TRY(tri_host_alloc((size_t)r->m.n_entry, sizeof *r->order, (void **)&r->order));
  for (int i = 0; i < r->m.n_entry; i++) r->order[i] = &r->m.entry[i];
  qsort(r->order, (size_t)r->m.n_entry, sizeof *r->order, by_name);
  return TRI_OK;
}

int tri_ckpt_find_tensor(const tri_ckpt_reader *r, const char *group, const char *name) {
  int low = 0, high = r->m.n_entry;

  while (low < high) {
    int middle = low + (high - low) / 2, c = compare_names(&r->order[middle]->t, group, name);
    if (c == 0) return (int)(r->order[middle] - r->m.entry);
    if (c < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return -1;
}

/* ---- opening */

/* Does rank 0's checks of the sizes, the side files, and state.h5 except for the bytes of the tensors. */
static tri_status check_folder(tri_ckpt_reader *r) {
  uint64_t hash;

  TRI_TRY(tri_ckpt_manifest_check_sizes(&r->m, AT_FDCWD, r->folder));
  for (int i = 0; i < r->m.n_file; i++) {
    char  *bytes;
    size_t n;
    TRI_TRY(tri_ckpt_get_file(r, r->m.file[i].name, &bytes, &n));
    tri_host_free((void **)&bytes);
  }
  TRI_TRY(tri_ckpt_metadata_hash(&r->m, r->folder, &hash));
  if (hash != r->m.metadata_hash)
    TRI_FAIL(TRI_EFORMAT,
             "%s: damaged, its structure (all bytes outside the tensors) has changed since it was written",
             r->path);
  return TRI_OK;
}

/* Opens state.h5 without MPI and without locks, because a finished checkpoint never changes. */
static tri_status open_file(tri_ckpt_reader *r) {
  hid_t list = H5Pcreate(H5P_FILE_ACCESS);

  tri_ckpt_h5_quiet();
  if (list >= 0 && H5Pset_file_locking(list, 0, 1) >= 0 && H5Pset_fclose_degree(list, H5F_CLOSE_STRONG) >= 0)
    r->file = H5Fopen(r->path, H5F_ACC_RDONLY, list);
  if (list >= 0) H5Pclose(list);
  if (r->file < 0) TRI_FAIL(TRI_EFORMAT, "%s: HDF5 cannot open it: %s", r->path, tri_ckpt_h5_reason());
  TRI_TRY(tri_ckpt_h5_check_links(r->file, r->path, "/state"));
  r->state = H5Gopen2(r->file, "/state", H5P_DEFAULT);
  if (r->state < 0) TRI_FAIL(TRI_EFORMAT, "%s: has no group /state: %s", r->path, tri_ckpt_h5_reason());
  if (tri_ckpt_value_count(r) > MOST_VALUES)
    TRI_FAIL(TRI_EFORMAT, "%s: /state has %d attributes, at most %d are possible", r->path,
             tri_ckpt_value_count(r), MOST_VALUES);
  return TRI_OK;
}

/* Collective over world. Rank 0 reads the manifest, and every rank parses it. */
static tri_status load_manifest(tri_ckpt_reader *r, tri_comm *world) {
  tri_status st = TRI_OK;
  char      *bytes = NULL;
  size_t     n = 0;

  TRI_TRY_DONE(tri_ckpt_agree(
      world, !world || world->rank == 0 ? tri_ckpt_manifest_read(AT_FDCWD, r->folder, &bytes, &n) : TRI_OK));
  TRI_TRY_DONE(tri_ckpt_share(world, &bytes, &n));
  st = tri_ckpt_manifest_parse(r->folder, bytes, n, &r->m);
  if (st == TRI_OK) st = sort_names(r);
  TRI_TRY_DONE(tri_ckpt_agree(world, st));
done:
  tri_host_free((void **)&bytes);
  return st;
}

static tri_status open_reader(tri_ckpt_reader *r, tri_comm *world, const char *folder) {
  TRI_TRY(tri_ckpt_agree(world, tri_ckpt_path(r->folder, "%s", folder)));
  TRI_TRY(tri_ckpt_agree(world, tri_ckpt_path(r->path, "%s/state.h5", folder)));
  TRI_TRY(load_manifest(r, world));
  TRI_TRY(tri_ckpt_agree(world, !world || world->rank == 0 ? check_folder(r) : TRI_OK));
  TRI_TRY(tri_ckpt_agree(world, open_file(r)));
  return TRI_OK;
}

void tri_ckpt_release(tri_ckpt_reader *r) {
  if (r->state >= 0) H5Gclose(r->state);
  if (r->file >= 0) H5Fclose(r->file);
  r->state = r->file = -1;
}

void tri_ckpt_close(tri_ckpt_reader **r) {
  if (!*r) return;
  tri_ckpt_release(*r);
  tri_ckpt_manifest_free(&(*r)->m);
  TRI_FREE((*r)->order);
  TRI_FREE(*r);
}

tri_status tri_ckpt_open(const char *folder, tri_comm *world, bool verify, tri_ckpt_reader **out) {
  tri_status       st = TRI_OK;
  tri_ckpt_reader *r;

  *out = NULL;
  TRI_TRY(tri_ckpt_agree(world, TRI_ALLOC(r, 1)));
  r->file = r->state = -1;
  TRI_TRY_DONE(open_reader(r, world, folder));
  if (verify) TRI_TRY_DONE(tri_ckpt_check_slabs(r, world));
  *out = r;
done:
  if (st != TRI_OK) tri_ckpt_close(&r);
  return st;
}

/* ---- reading values, tensors and files */

int64_t     tri_ckpt_step(const tri_ckpt_reader *r) { return r->m.step; }
const char *tri_ckpt_folder(const tri_ckpt_reader *r) { return r->folder; }
const char *tri_ckpt_program(const tri_ckpt_reader *r) { return r->m.program; }
const char *tri_ckpt_record(const tri_ckpt_reader *r) { return r->m.record.len ? r->m.record.data : ""; }
int         tri_ckpt_tensor_count(const tri_ckpt_reader *r) { return r->m.n_entry; }
int         tri_ckpt_file_count(const tri_ckpt_reader *r) { return r->m.n_file; }

const tri_ckpt_tensor *tri_ckpt_tensor_at(const tri_ckpt_reader *r, int i) {
  TRI_ASSERT(i >= 0 && i < r->m.n_entry);
  return &r->m.entry[i].t;
}

const char *tri_ckpt_file_at(const tri_ckpt_reader *r, int i) {
  TRI_ASSERT(i >= 0 && i < r->m.n_file);
  return r->m.file[i].name;
}

static tri_status read_range(tri_ckpt_reader *r, const tri_ckpt_entry *e, hid_t set, int64_t begin,
                             int64_t count, void *host) {
  tri_status st;
  hsize_t    n = (hsize_t)count;
  hid_t      space = tri_ckpt_h5_space(&e->t), memory = H5Screate_simple(1, &n, NULL),
        type = tri_ckpt_h5_type(e->t.dtype);

  if (space < 0 || memory < 0 || type < 0)
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_EINTERNAL, "%s: %s", r->path, tri_ckpt_h5_reason());
  else
    st = tri_ckpt_h5_select(space, &e->t, begin, count);
  if (st == TRI_OK && H5Dread(set, type, memory, space, H5P_DEFAULT, host) < 0)
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_EFILE, "%s: reading %s/%s failed: %s", r->path,
                  e->t.group, e->t.name, tri_ckpt_h5_reason());
  if (space >= 0) H5Sclose(space);
  if (memory >= 0) H5Sclose(memory);
  if (type >= 0) H5Tclose(type);
  return st;
}

tri_status tri_ckpt_read(tri_ckpt_reader *r, int i, int64_t begin, int64_t count, void *host) {
  tri_status            st = TRI_OK;
  const tri_ckpt_entry *e;
  int64_t               size, most;
  hid_t                 set;

  TRI_ASSERT(i >= 0 && i < r->m.n_entry && (host || count == 0));
  e = &r->m.entry[i];
  TRI_ASSERT(begin >= 0 && count >= 0 && begin <= e->count - count);
  size = (int64_t)tri_dtype_bytes(e->t.dtype);
  most = (int64_t)read_bytes / size;
  TRI_TRY(tri_ckpt_h5_open(r->file, r->path, e, &set));
  for (int64_t at = 0; at < count && st == TRI_OK; at += most)
    st = read_range(r, e, set, begin + at, count - at < most ? count - at : most, (char *)host + at * size);
  H5Dclose(set);
  return st;
}

bool tri_ckpt_has_value(const tri_ckpt_reader *r, const char *name) { return H5Aexists(r->state, name) > 0; }

/* Opens a scalar attribute of /state of this class. Close *type with H5Tclose and *out with H5Aclose. */
static tri_status open_value(const tri_ckpt_reader *r, const char *name, H5T_class_t class_wanted,
                             hid_t *type, hid_t *out) {
  hid_t space = -1;
  bool  good;

  *out = H5Aopen(r->state, name, H5P_DEFAULT);
  if (*out < 0) TRI_FAIL(TRI_EFORMAT, "%s: /state has no attribute '%s'", r->path, name);
  *type = H5Aget_type(*out);
  space = H5Aget_space(*out);
  good = *type >= 0 && space >= 0 && H5Tget_class(*type) == class_wanted &&
         H5Sget_simple_extent_npoints(space) == 1 &&
         (class_wanted != H5T_STRING ||
          (H5Tis_variable_str(*type) == 0 && H5Tget_size(*type) <= text_limit_bytes));
  if (space >= 0) H5Sclose(space);
  if (good) return TRI_OK;
  if (*type >= 0) H5Tclose(*type);
  H5Aclose(*out);
  TRI_FAIL(TRI_EFORMAT, "%s: the attribute '%s' of /state is of another type", r->path, name);
}

static tri_status get_number(const tri_ckpt_reader *r, const char *name, H5T_class_t class_wanted,
                             hid_t memory, void *value) {
  hid_t type, id;
  bool  good;

  TRI_TRY(open_value(r, name, class_wanted, &type, &id));
  good = H5Aread(id, memory, value) >= 0;
  H5Tclose(type);
  H5Aclose(id);
  if (!good) TRI_FAIL(TRI_EFORMAT, "%s: attribute %s: %s", r->path, name, tri_ckpt_h5_reason());
  return TRI_OK;
}

tri_status tri_ckpt_get_i64(tri_ckpt_reader *r, const char *name, int64_t *value) {
  return get_number(r, name, H5T_INTEGER, H5T_NATIVE_INT64, value);
}

tri_status tri_ckpt_get_f64(tri_ckpt_reader *r, const char *name, double *value) {
  return get_number(r, name, H5T_FLOAT, H5T_NATIVE_DOUBLE, value);
}

tri_status tri_ckpt_get_text(tri_ckpt_reader *r, const char *name, tri_text *text) {
  tri_status st = TRI_OK;
  hid_t      type, id;
  char      *buf = NULL;

  TRI_TRY(open_value(r, name, H5T_STRING, &type, &id));
  TRI_TRY_DONE(tri_host_alloc(H5Tget_size(type) + 1, 1, (void **)&buf));
  if (H5Aread(id, type, buf) < 0)
    TRI_FAIL_DONE(TRI_EFORMAT, "%s: attribute %s: %s", r->path, name, tri_ckpt_h5_reason());
  TRI_TRY_DONE(tri_text_put(text, buf, strlen(buf)));
done:
  H5Tclose(type);
  H5Aclose(id);
  tri_host_free((void **)&buf);
  return st;
}

int tri_ckpt_value_count(const tri_ckpt_reader *r) {
  H5O_info_t info;

  if (H5Oget_info2(r->state, &info, H5O_INFO_NUM_ATTRS) < 0) return 0;
  return info.num_attrs < INT32_MAX ? (int)info.num_attrs : INT32_MAX;
}

tri_status tri_ckpt_value_at(tri_ckpt_reader *r, int i, tri_text *name, char *kind) {
  hid_t id = H5Aopen_by_idx(r->state, ".", H5_INDEX_NAME, H5_ITER_INC, (hsize_t)i, H5P_DEFAULT, H5P_DEFAULT);
  hid_t type = id >= 0 ? H5Aget_type(id) : -1;
  H5T_class_t class = type >= 0 ? H5Tget_class(type) : H5T_NO_CLASS;
  char buf[1024] = "";
  bool good = class != H5T_NO_CLASS && H5Aget_name(id, sizeof buf, buf) > 0;

  if (type >= 0) H5Tclose(type);
  if (id >= 0) H5Aclose(id);
  if (!good) TRI_FAIL(TRI_EFORMAT, "%s: attribute %d of /state: %s", r->path, i, tri_ckpt_h5_reason());
  *kind = class == H5T_INTEGER ? 'i' : class == H5T_FLOAT ? 'f' : 't';
  TRI_TRY(tri_text_put(name, buf, strlen(buf)));
  return TRI_OK;
}

static int find_file(const tri_ckpt_reader *r, const char *name) {
  for (int i = 0; i < r->m.n_file; i++)
    if (!strcmp(r->m.file[i].name, name)) return i;
  return -1;
}

bool tri_ckpt_has_group(const tri_ckpt_reader *r, const char *group) {
  for (int i = 0; i < tri_ckpt_tensor_count(r); i++)
    if (!strcmp(tri_ckpt_tensor_at(r, i)->group, group)) return true;
  return false;
}

bool tri_ckpt_has_file(const tri_ckpt_reader *r, const char *name) { return find_file(r, name) >= 0; }

tri_status tri_ckpt_get_file(tri_ckpt_reader *r, const char *name, char **bytes, size_t *n) {
  tri_status st;
  int        i = find_file(r, name);
  char       path[TRI_CKPT_PATH_BYTES];

  *bytes = NULL;
  *n = 0;
  if (i < 0) TRI_FAIL(TRI_EFORMAT, "%s: has no file %s", r->folder, name);
  TRI_TRY(tri_ckpt_path(path, "%s/%s", r->folder, name));
  st = tri_file_read(path, (size_t)r->m.file[i].bytes, bytes, n);
  if (st == TRI_OK && (*n != (size_t)r->m.file[i].bytes || tri_hash64(*bytes, *n, 0) != r->m.file[i].hash)) {
    tri_host_free((void **)bytes);
    TRI_FAIL(TRI_EFORMAT, "%s: damaged, its bytes have changed since it was written", path);
  }
  if (st != TRI_OK) TRI_FAIL(st == TRI_EINPUT ? TRI_EFORMAT : st, "%s: cannot be read", path);
  return TRI_OK;
}
