/* test_checkpoint_forged.c - tests forged checkpoints with fitting hashes. Nothing outside state.h5 is
 * read, and no more memory is allocated than for real checkpoints. Judge: the status and the facts of the
 * message. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* memmem */
#include "base/host_memory.h"
#include "checkpoint_case.h"
#include "io/checkpoint/checkpoint_impl.h"
#include "refusal_case.h"

/* Writes a manifest and hashes for the present state.h5. */
static void seal(const char *folder) {
  tri_ckpt_manifest m;
  char             *bytes;
  size_t            n;

  OK(tri_ckpt_manifest_read(AT_FDCWD, folder, &bytes, &n));
  OK(tri_ckpt_manifest_parse(folder, bytes, n, &m));
  m.state_bytes = size_of(in(folder, "state.h5"));
  OK(tri_ckpt_metadata_hash(&m, folder, &m.metadata_hash));
  OK(tri_ckpt_manifest_write(&m, folder));
  tri_ckpt_manifest_free(&m);
  tri_host_free((void **)&bytes);
}

/* Renames `from`, and links its old name to the new one. */
static void behind_soft_link(hid_t f, const char *from) {
  assert_true(H5Lmove(f, from, f, "/elsewhere", H5P_DEFAULT, H5P_DEFAULT) >= 0);
  assert_true(H5Lcreate_soft("/elsewhere", f, from, H5P_DEFAULT, H5P_DEFAULT) >= 0);
}

static void soft_state(hid_t f) { behind_soft_link(f, "/state"); }
static void soft_group(hid_t f) { behind_soft_link(f, "/critic"); }
static void soft_set(hid_t f) { behind_soft_link(f, "/model/model.norm.weight"); }
static void soft_integrity(hid_t f) { behind_soft_link(f, "/integrity"); }

static void external_state(hid_t f) {
  assert_true(H5Ldelete(f, "/state", H5P_DEFAULT) >= 0);
  assert_true(H5Lcreate_external("other.h5", "/", f, "/state", H5P_DEFAULT, H5P_DEFAULT) >= 0);
}

/* Makes a set of n elements, in a form that trireme never writes, in place of `name`. */
static void replace(hid_t f, const char *name, hid_t type, hsize_t n, hid_t list) {
  hid_t space = H5Screate_simple(1, &n, NULL), set;

  assert_true(H5Ldelete(f, name, H5P_DEFAULT) >= 0);
  set = H5Dcreate2(f, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
  assert_true(set >= 0);
  H5Dclose(set);
  H5Sclose(space);
  H5Pclose(list);
}

static void external_set(hid_t f) {
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);

  assert_true(H5Pset_external(list, "/etc/hostname", 0, 1) >= 0);
  replace(f, "/critic/byte", H5T_STD_U8LE, 1, list);
}

static void external_slabs(hid_t f) {
  hid_t list = H5Pcreate(H5P_DATASET_CREATE), type = tri_ckpt_h5_slab_type();

  assert_true(H5Pset_external(list, "/etc/hostname", 0, H5F_UNLIMITED) >= 0);
  replace(f, "/integrity/slabs", type, 8, list);
  H5Tclose(type);
}

static void chunked_slabs(hid_t f) {
  hid_t   list = H5Pcreate(H5P_DATASET_CREATE), type = tri_ckpt_h5_slab_type();
  hsize_t piece = 8;

  assert_true(H5Pset_chunk(list, 1, &piece) >= 0);
  replace(f, "/integrity/slabs", type, 8, list);
  H5Tclose(type);
}

static void nothing_leads_out_of_the_file(void **state) {
  static const struct {
    void (*edit)(hid_t file);
    const char *says;
  } row[] = {
      {soft_state, "tri_ckpt_h5_check_links() state.h5 /state soft"},
      {external_state, "tri_ckpt_h5_check_links() /state an external"},
      {soft_group, "tri_ckpt_h5_check_links() state.h5 /critic soft"},
      {soft_set, "tri_ckpt_h5_check_links() state.h5 /model/model.norm.weight soft"},
      {soft_integrity, "tri_ckpt_h5_check_links() state.h5 /integrity soft"},
      {external_set, "tri_ckpt_h5_open() state.h5 /critic/byte MANIFEST.json"},
      {external_slabs, "open_slabs() state.h5 /integrity/slabs"},
      {chunked_slabs, "open_slabs() state.h5 /integrity/slabs"},
  };
  tri_ckpt_reader *r;
  hid_t            f;

  (void)state;
  new_dir("links");
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
    OK(save(dir, 1));
    f = H5Fopen(in(dir, "step-00000001/state.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
    assert_true(f >= 0);
    row[k].edit(f);
    assert_true(H5Fclose(f) >= 0);
    seal(in(dir, "step-00000001"));
    assert_int_equal(tri_ckpt_open(in(dir, "step-00000001"), world, true, &r), TRI_EFORMAT);
    expect_refusal(row[k].says);
    tri_error_clear();
  }
}

/* Makes in folder top/name a state.h5 with one tensor of this many bytes and one hash, but only a few blocks
 * on the disk. *m is its manifest. Returns false on a file system without holes. */
static bool make_sparse(const char *name, int64_t tensor_bytes, tri_ckpt_manifest *m) {
  const tri_ckpt_tensor big = {"/model", "x", TRI_U8, 1, {tensor_bytes}};
  tri_ckpt_slab         slab = {0, 0, tensor_bytes, 0};
  hsize_t               bytes = (hsize_t)tensor_bytes, one = 1;
  hid_t       file, group, set, space, type = tri_ckpt_h5_slab_type(), list = tri_ckpt_h5_set_list();
  struct stat sb;

  *m = (tri_ckpt_manifest){.step = 1, .program = "trireme " TRI_VERSION};
  snprintf(dir, sizeof dir, "%s/%s", top, name);
  assert_int_equal(mkdir(dir, 0777), 0);
  file = H5Fcreate(in(dir, "state.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  OK(tri_ckpt_h5_group(file, "state.h5", "/state", &group));
  H5Gclose(group);
  OK(tri_ckpt_h5_group(file, "state.h5", "/model", &group));
  space = H5Screate_simple(1, &bytes, NULL);
  set = H5Dcreate2(group, "x", H5T_STD_U8LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
  OK(tri_ckpt_manifest_add(m, "x", TRI_EFORMAT, &big));
  m->entry[0].offset_bytes = (int64_t)H5Dget_offset(set);
  H5Dclose(set);
  H5Sclose(space);
  H5Gclose(group);
  OK(tri_ckpt_h5_group(file, "state.h5", "/integrity", &group));
  space = H5Screate_simple(1, &one, NULL);
  set = H5Dcreate2(group, "slabs", type, space, H5P_DEFAULT, list, H5P_DEFAULT);
  assert_true(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &slab) >= 0);
  H5Dclose(set);
  H5Sclose(space);
  H5Gclose(group);
  H5Tclose(type);
  H5Pclose(list);
  assert_true(H5Fclose(file) >= 0);
  m->state_bytes = size_of(in(dir, "state.h5"));
  assert_int_equal(stat(in(dir, "state.h5"), &sb), 0);
  return sb.st_blocks < 2048;
}

/* Takes *m. */
static void seal_sparse(tri_ckpt_manifest *m) {
  OK(tri_ckpt_metadata_hash(m, dir, &m->metadata_hash));
  OK(tri_ckpt_manifest_write(m, dir));
  tri_ckpt_manifest_free(m);
}

static void a_sparse_file_asks_for_no_memory(void **state) {
  tri_ckpt_manifest m;
  tri_ckpt_reader  *r;

  (void)state;
  if (!make_sparse("sparse", (int64_t)1 << 36, &m)) skip();
  seal_sparse(&m);
  assert_int_equal(tri_ckpt_open(dir, world, true, &r), TRI_EFORMAT);
  expect_refusal("check_slab() state.h5 /integrity/slabs 16777216");
  tri_error_clear();
}

static void no_more_is_hashed_than_hdf5_needs(void **state) {
  tri_ckpt_manifest m;
  tri_ckpt_reader  *r;

  (void)state;
  if (!make_sparse("beside", 1, &m)) skip();
  m.state_bytes = (int64_t)1 << 36;
  assert_int_equal(truncate(in(dir, "state.h5"), m.state_bytes), 0);
  OK(tri_ckpt_manifest_write(&m, dir));
  tri_ckpt_manifest_free(&m);
  assert_int_equal(tri_ckpt_open(dir, world, false, &r), TRI_EFORMAT);
  expect_refusal("check_rest() state.h5 1 1073872896");
  tri_error_clear();
}

/* HDF5 searches all of them for each. */
static void state_has_few_attributes(void **state) {
  const int64_t    one = 1;
  char             name[32];
  tri_ckpt_reader *r;
  hid_t            f, group;

  (void)state;
  new_dir("attributes");
  OK(save(dir, 1));
  f = H5Fopen(in(dir, "step-00000001/state.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
  OK(tri_ckpt_h5_group(f, "state.h5", "/state", &group));
  for (int i = 0; i < 1024; i++) {
    snprintf(name, sizeof name, "more %d", i);
    OK(tri_ckpt_h5_put(group, "state.h5", name, H5T_NATIVE_INT64, &one));
  }
  assert_true(H5Gclose(group) >= 0 && H5Fclose(f) >= 0);
  seal(in(dir, "step-00000001"));
  assert_int_equal(tri_ckpt_open(in(dir, "step-00000001"), world, false, &r), TRI_EFORMAT);
  expect_refusal("open_file() state.h5 /state 1024");
  tri_error_clear();
}

/* Sets the size of the root group's names to `bytes` bytes in the midst of the tensor (HDF5 File Format
 * Specification 1.1, III.D, local heap: signature, version, then size, free list and place of the data). */
static void forge_names(int64_t bytes, int64_t at) {
  char    head[1 << 14], *heap;
  int64_t field[3] = {bytes, 1, at}; /* 1 for no free list */
  int     fd = open(in(dir, "state.h5"), O_RDWR);

  assert_int_equal(pread(fd, head, sizeof head, 0), sizeof head);
  heap = memmem(head, sizeof head, "HEAP", 4);
  assert_non_null(heap);
  assert_int_equal(pwrite(fd, field, sizeof field, heap + 8 - head), sizeof field);
  close(fd);
}

/* HDF5 would read 6 GiB of names into memory. Judge: HDF5 got no memory, and the process did not end. */
static void inspect_gives_hdf5_no_more_than_its_bound(void **state) {
  tri_ckpt_manifest m;
  char              command[TRI_CKPT_PATH_BYTES + 256], said[4096] = "";
  FILE             *f;

  (void)state;
  if (!make_sparse("names", (int64_t)1 << 36, &m)) skip();
  forge_names((int64_t)6 << 30, m.entry[0].offset_bytes);
  seal_sparse(&m);
  snprintf(command, sizeof command,
           "ASAN_OPTIONS=\"$ASAN_OPTIONS:allocator_may_return_null=1\" '%s' inspect '%s' 2>&1; echo code $?",
           TRI_PROGRAM, dir);
  f = popen(command, "r");
  assert_non_null(f);
  said[fread(said, 1, sizeof said - 1, f)] = 0;
  pclose(f);
  if (!strstr(said, "state.h5: has no /state: ") || !strstr(said, "memory") || !strstr(said, "code 74"))
    fail_msg("%s", said);
}

static void endless_manifests_and_files_are_refused(void **state) {
  tri_ckpt_reader *r;

  (void)state;
  new_dir("endless");
  OK(save(dir, 1));
  assert_int_equal(truncate(in(dir, "step-00000001/MANIFEST.json"), ((int64_t)1 << 24) + 1), 0);
  assert_int_equal(tri_ckpt_open(in(dir, "step-00000001"), world, false, &r), TRI_EFILE);
  expect_refusal("tri_file_read_open() MANIFEST.json 16777217 16777216");
  tri_error_clear();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_leads_out_of_the_file),
      cmocka_unit_test(a_sparse_file_asks_for_no_memory),
      cmocka_unit_test(no_more_is_hashed_than_hdf5_needs),
      cmocka_unit_test(state_has_few_attributes),
      cmocka_unit_test(inspect_gives_hdf5_no_more_than_its_bound),
      cmocka_unit_test(endless_manifests_and_files_are_refused),
  };

  return cmocka_run_group_tests(tests, case_open, case_close);
}
