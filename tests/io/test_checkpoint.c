/* test_checkpoint.c - tests checkpoints: bytes, ranges, names, commit, retention, and which one is found. Any
 * number of ranks. Judges: expect() of checkpoint_case.h, and h5dump if it is installed. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"
#include "base/host_memory.h"
#include "base/text_buffer.h"
#include "checkpoint_case.h"
#include "refusal_case.h"

#include <errno.h>
#include <sys/syscall.h>

#include <signal.h>
#include <sys/resource.h>

/* ---- writing and reading */

/* Acts like a file system that refuses to change modes, such as CIFS. */
static bool fixed_modes;

int fchmod(int fd, mode_t mode) {
  if (!fixed_modes) return (int)syscall(SYS_fchmod, fd, mode);
  errno = EPERM;
  return -1;
}

int chmod(const char *path, mode_t mode) {
  if (!fixed_modes) return fchmodat(AT_FDCWD, path, mode, 0);
  errno = EPERM;
  return -1;
}

static void every_byte_comes_back(void **state) {
  (void)state;
  new_dir("bytes");
  OK(save(dir, 7));
  check_whole(in(dir, "step-00000007"), 7);
  must_find(dir, 7);
  must_find(in(dir, ".."), 7);
  must_find(in(dir, "LATEST"), 7);
  must_find(in(dir, "step-00000007/"), 7);
}

/* Judge: expect(), for every range of a tensor of four dimensions. */
static void every_range_comes_back(void **state) {
  tri_ckpt_reader *r;

  (void)state;
  new_dir("ranges");
  OK(save(dir, 0));
  OK(tri_ckpt_open(in(dir, "step-00000000"), world, false, &r));
  for (int64_t begin = 0; begin <= count_of(5); begin++)
    for (int64_t count = 0; begin + count <= count_of(5); count++) check_range(r, 5, begin, count);
  check_range(r, 0, 519, 1);
  check_range(r, 0, 519, 2);
  check_range(r, 0, 1000, 200000);
  tri_ckpt_close(&r);
  /* Opens in one process alone, as inspect does. Ranks may do so at different times. */
  OK(tri_ckpt_open(in(dir, "LATEST"), NULL, true, &r));
  check_range(r, 6, 3, 9);
  tri_ckpt_close(&r);
}

static void names_values_and_files(void **state) {
  tri_ckpt_reader *r;
  tri_text         text = {0};
  int64_t          i64 = 0;
  double           f64 = 0;
  char             kinds[8] = "", *bytes;
  size_t           n;

  (void)state;
  new_dir("values");
  OK(save(dir, 3));
  OK(tri_ckpt_open(in(dir, "LATEST"), world, true, &r));
  assert_string_equal(tri_ckpt_program(r), "trireme " TRI_VERSION);
  assert_int_equal(tri_ckpt_tensor_count(r), N_TENSOR);
  for (int i = 0; i < N_TENSOR; i++) {
    const tri_ckpt_tensor *t = tri_ckpt_tensor_at(r, i);
    assert_string_equal(t->group, tensors[i].group);
    assert_string_equal(t->name, tensors[i].name);
    assert_int_equal(t->dtype, tensors[i].dtype);
    assert_int_equal(t->ndim, tensors[i].ndim);
    assert_memory_equal(t->dim, tensors[i].dim, (size_t)t->ndim * sizeof *t->dim);
    assert_int_equal(tri_ckpt_find_tensor(r, t->group, t->name), i);
  }
  assert_int_equal(tri_ckpt_find_tensor(r, "/model", "model.norm"), -1);
  assert_int_equal(tri_ckpt_find_tensor(r, "/reference", "model.norm.weight"), -1);
  OK(tri_ckpt_get_i64(r, "step", &i64));
  OK(tri_ckpt_get_f64(r, "learning_rate", &f64));
  OK(tri_ckpt_get_text(r, "algo", &text));
  OK(tri_ckpt_get_text(r, "empty", &text));
  assert_true(i64 == 3 && f64 == 0.1 + 0.2);
  assert_string_equal(text.data, "grpo \xc3\xa9");
  assert_true(tri_ckpt_has_value(r, "step") && !tri_ckpt_has_value(r, "stop"));
  assert_int_equal(tri_ckpt_get_i64(r, "stop", &i64), TRI_EFORMAT);
  expect_refusal("open_value() state.h5 /state stop");
  tri_error_clear();
  assert_int_equal(tri_ckpt_get_i64(r, "algo", &i64), TRI_EFORMAT);
  tri_error_clear();
  assert_int_equal(tri_ckpt_value_count(r), 4);
  text.len = 0;
  for (int i = 0; i < 4; i++) OK(tri_ckpt_value_at(r, i, &text, &kinds[i]));
  assert_string_equal(text.data, "algoemptylearning_ratestep");
  assert_string_equal(kinds, "ttfi");
  assert_int_equal(tri_ckpt_file_count(r), 2);
  assert_string_equal(tri_ckpt_file_at(r, 1), "deck.yaml");
  assert_true(tri_ckpt_has_file(r, "config.json") && !tri_ckpt_has_file(r, "tokenizer.json"));
  OK(tri_ckpt_get_file(r, "config.json", &bytes, &n));
  assert_int_equal(n, sizeof config_text - 1);
  assert_string_equal(bytes, config_text);
  tri_host_free((void **)&bytes);
  tri_text_free(&text);
  tri_ckpt_close(&r);
}

/* Judge: the files made. With a limit of file sizes, create says how much it needs. */
static void no_more_space_is_asked_for_than_is_used(void **state) {
  struct rlimit    limit, small;
  tri_ckpt_writer *w;
  int64_t          asked, used;
  const char      *at;

  (void)state;
  new_dir("room");
  OK(save(dir, 1));
  used = size_of(in(dir, "step-00000001/state.h5")) + size_of(in(dir, "step-00000001/MANIFEST.json"));
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
  small = limit;
  small.rlim_cur = 1 << 16;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  assert_int_equal(tri_ckpt_create(dir, 2, world, tensors, N_TENSOR, 0, &w), TRI_EFILE);
  setrlimit(RLIMIT_FSIZE, &limit);
  at = strstr(tri_error_message(), "/room: ");
  assert_non_null(at);
  asked = strtoll(at + 7, NULL, 10);
  tri_error_clear();
  /* The request may exceed the use by two blocks of HDF5, each 64 KiB, and 64 KiB of a tensor's alignment. */
  if (asked < used || asked > used + (4 << 16))
    fail_msg("%lld bytes are asked for, %lld used", (long long)asked, (long long)used);
}

/* Judge: the modes of the folder before commit, and of the finished folder and its state.h5 afterwards. */
static void nobody_else_enters_a_folder_while_it_is_filled(void **state) {
  tri_ckpt_writer *w;
  struct stat      sb;

  (void)state;
  new_dir("modes");
  umask(027);
  OK(tri_ckpt_create(dir, 1, world, tensors, N_TENSOR, 0, &w));
  assert_int_equal(stat(in(dir, "step-00000001.tmp"), &sb), 0);
  assert_int_equal(sb.st_mode & 0777, 0700);
  OK(fill(w, 1, N_TENSOR));
  OK(tri_ckpt_commit(&w));
  assert_int_equal(stat(in(dir, "step-00000001"), &sb), 0);
  assert_int_equal(sb.st_mode & 0777, 0750);
  assert_int_equal(stat(in(dir, "step-00000001/state.h5"), &sb), 0);
  assert_int_equal(sb.st_mode & 0777, 0640);
  umask(022);
}

/* Judge: a save works under umask 022. Under umask 0 another user could write, so it is refused. */
static void modes_that_cannot_be_set_stop_no_save(void **state) {
  tri_status open_to_all;

  (void)state;
  new_dir("no_modes");
  fixed_modes = true;
  umask(022);
  OK(save(dir, 1));
  umask(0);
  open_to_all = save(dir, 2);
  umask(022);
  fixed_modes = false;
  assert_int_equal(open_to_all, TRI_EFILE);
  expect_refusal("make_own() step-00000002.tmp 022");
  tri_error_clear();
  must_find(dir, 1);
}

static bool dumped(const char *data_set, const char *line) {
  char  command[2 * TRI_CKPT_PATH_BYTES], text[512];
  bool  found = false;
  FILE *f;

  snprintf(command, sizeof command, "h5dump -d '%s' %s/LATEST/state.h5 2>&1", data_set, dir);
  f = popen(command, "r");
  assert_non_null(f);
  while (fgets(text, sizeof text, f)) found |= strstr(text, line) != NULL;
  pclose(f);
  return found;
}

/* Judge: h5dump, a program by the authors of HDF5. The numbers are those of expect(). */
static void h5dump_reads_it(void **state) {
  (void)state;
  new_dir("h5dump");
  OK(save(dir, 1));
  if (system("command -v h5dump >/dev/null 2>&1") != 0) {
    print_message("[  SKIPPED ] h5dump is not installed\n");
    skip();
  }
  if (world->rank == 0) {
    assert_true(dumped("/model/model.norm.weight", "(0): -50, -49.5, -49, -48.5"));
    assert_true(dumped("/model/model.layers.0.self_attn.q_proj.weight", "( 16, 24 ) / ( 16, 24 )"));
    assert_true(dumped("/model/model.layers.0.self_attn.q_proj.weight", "(1,0): -38, -37.5, -37"));
    assert_true(dumped("/integrity/slabs", "H5T_STD_U64LE \"hash\""));
  }
}

static void bad_tensors_are_refused(void **state) {
  static const tri_ckpt_tensor bad[] = {
      {"/model", "a/b", TRI_F32, 1, {4}},    {"/model", "", TRI_F32, 1, {4}},
      {"model", "a", TRI_F32, 1, {4}},       {"/integrity", "a", TRI_F32, 1, {4}},
      {"/model", "a", TRI_F32, 0, {4}},      {"/model", "a", TRI_F32, 2, {4, 0}},
      {"/model", "a", TRI_F32, 2, {-4, -4}}, {"/model", "a", TRI_F32, 2, {INT64_MAX / 2, 4}},
  };
  static const tri_ckpt_tensor twice[] = {{"/model", "a", TRI_F32, 1, {4}}, {"/model", "a", TRI_F32, 1, {4}}};
  tri_ckpt_writer             *w;

  (void)state;
  new_dir("refused");
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
    assert_int_equal(tri_ckpt_create(dir, 1, world, &bad[k], 1, 0, &w), TRI_EINPUT);
    assert_null(w);
    tri_error_clear();
  }
  assert_int_not_equal(tri_ckpt_create(dir, 1, world, twice, 2, 0, &w), TRI_OK);
  assert_null(w);
  tri_error_clear();
  assert_false(there(dir, "step-00000001.tmp"));
}

/* ---- commit, replacement, retention */

static void elements_never_written_are_an_error(void **state) {
  tri_ckpt_writer *w;

  (void)state;
  new_dir("cover");
  OK(save(dir, 1));
  OK(tri_ckpt_create(dir, 2, world, tensors, N_TENSOR, 0, &w));
  OK(fill(w, 2, N_TENSOR - 1));
  assert_int_equal(tri_ckpt_commit(&w), TRI_EINTERNAL);
  assert_null(w);
  expect_refusal("check_cover() step-00000002.tmp /critic/byte 0");
  tri_error_clear();
  OK(tri_ckpt_create(dir, 2, world, tensors, N_TENSOR, 0, &w));
  OK(fill(w, 2, N_TENSOR));
  OK(tri_ckpt_write(w, 2, 0, world->rank == world->size - 1, &(float){1}));
  assert_int_equal(tri_ckpt_commit(&w), TRI_EINTERNAL);
  tri_error_clear();
  assert_int_equal(entries(dir), 2); /* step-00000001 and LATEST */
  must_find(dir, 1);
}

static int32_t mixed(int64_t k) { return (int32_t)(tri_rng_mix((uint64_t)k) >> 33); }

/* Pieces begin at any offset in a page, and are more than fit the thread's ring. So its memory is reused. */
static void more_is_written_than_waits_at_once(void **state) {
  enum { N = 5 << 20, PIECE = TRI_CKPT_PIECE_BYTES / 4 - 3 };
  const tri_ckpt_tensor big = {"/model", "big", TRI_I32, 1, {N}};
  tri_ckpt_writer      *w;
  tri_ckpt_reader      *r;
  int32_t              *x;
  int64_t               wrong = 0;

  (void)state;
  if (world->size > 1) skip(); /* each rank has its own thread */
  new_dir("pieces");
  OK(tri_ckpt_create(dir, 1, world, &big, 1, 0, &w));
  for (int64_t at = 0, n; at < N; at += n) {
    void *host;
    n = N - at < PIECE ? N - at : PIECE;
    OK(tri_ckpt_take(w, 0, at, n, &host));
    for (int64_t k = 0; k < n; k++) ((int32_t *)host)[k] = mixed(at + k);
    OK(tri_ckpt_give(w));
  }
  OK(tri_ckpt_commit(&w));
  OK(tri_ckpt_open(in(dir, "step-00000001"), world, true, &r));
  OK(TRI_ALLOC(x, N));
  OK(tri_ckpt_read(r, 0, 0, N, x));
  for (int64_t k = 0; k < N; k++) wrong += x[k] != mixed(k);
  assert_int_equal(wrong, 0);
  TRI_FREE(x);
  tri_ckpt_close(&r);
}

/* Judge: the state.h5 of a save at once, byte for byte. Until commit only the old checkpoint is
 * found. */
static void a_copy_is_written_behind(void **state) {
  tri_ckpt_writer *w;
  void            *space;
  char            *at_once, *behind;
  size_t           n, n_behind;

  (void)state;
  new_dir("behind");
  OK(save(dir, 1));
  OK(save(dir, 2));
  if (world->rank == 0) OK(tri_file_read(in(dir, "LATEST/state.h5"), 1 << 24, &at_once, &n));
  OK(save_behind(dir, 2, &space, &w));
  must_find(dir, 2); /* still the other one */
  assert_true(there(dir, "step-00000002.tmp"));
  assert_true(tri_ckpt_wait_s(w) >= 0 && tri_ckpt_is_written(w));
  barrier();
  if (world->rank == 0) flip(in(dir, "step-00000002/state.h5"), (int64_t)n / 2);
  barrier();
  must_find(dir, 1);
  OK(tri_ckpt_commit(&w));
  assert_null(w);
  tri_host_free(&space);
  must_find(dir, 2);
  assert_int_equal(entries(dir), 3);
  if (world->rank == 0) {
    OK(tri_file_read(in(dir, "LATEST/state.h5"), 1 << 24, &behind, &n_behind));
    assert_int_equal(n, n_behind);
    assert_memory_equal(at_once, behind, n);
    tri_host_free((void **)&at_once);
    tri_host_free((void **)&behind);
  }
  barrier();
}

/* A lent memory too small is noticed while it is filled. A dropped writer leaves the old checkpoint. */
static void a_copy_comes_to_nothing(void **state) {
  tri_ckpt_writer *w;
  char             small[1 << 16];
  void            *space;

  (void)state;
  new_dir("dropped");
  OK(save(dir, 1));
  OK(tri_ckpt_create(dir, 2, world, tensors, N_TENSOR, 0, &w));
  tri_ckpt_lend(w, small, sizeof small);
  assert_int_equal(write_tensor(w, 0, 2), TRI_EINTERNAL);
  expect_refusal("tri_ckpt_stream_take() step-00000002.tmp 65536");
  tri_error_clear();
  tri_ckpt_abandon(&w);
  assert_int_equal(entries(dir), 2);
  barrier();
  OK(save_behind(dir, 2, &space, &w));
  tri_ckpt_drop(&w);
  assert_null(w);
  tri_host_free(&space);
  assert_true(there(dir, "step-00000002.tmp"));
  must_find(dir, 1);
  OK(tri_ckpt_clean(dir, world));
  assert_int_equal(entries(dir), 2);
}

static void abandon_leaves_nothing(void **state) {
  tri_ckpt_writer *w = NULL;

  (void)state;
  new_dir("abandon");
  tri_ckpt_abandon(&w);
  OK(save(dir, 1));
  OK(tri_ckpt_create(dir, 2, world, tensors, N_TENSOR, 0, &w));
  OK(write_tensor(w, 0, 2));
  assert_true(there(dir, "step-00000002.tmp"));
  barrier();
  tri_ckpt_abandon(&w);
  assert_null(w);
  assert_int_equal(entries(dir), 2);
  must_find(dir, 1);
}

static void a_step_is_replaced(void **state) {
  (void)state;
  new_dir("replace");
  OK(save(dir, 5));
  if (world->rank == 0) flip(in(dir, "step-00000005/state.h5"), 5000);
  barrier();
  OK(save(dir, 5));
  assert_int_equal(entries(dir), 2);
  must_find(dir, 5);
}

static tri_status keep_newest(int keep, int64_t in_use_step) {
  tri_ckpt_sweep *sweep;
  tri_status      st;

  TRI_TRY(tri_ckpt_retain(dir, keep, in_use_step, world, &sweep));
  st = tri_ckpt_sweep_end(&sweep);
  barrier();
  return st;
}

static void retention_keeps_the_newest(void **state) {
  (void)state;
  new_dir("retain");
  OK(keep_newest(2, -1)); /* no folder yet */
  OK(tri_ckpt_clean(dir, world));
  for (int64_t step = 10; step <= 50; step += 10) OK(save(dir, step));
  if (world->rank == 0) unlink(in(dir, "step-00000040/MANIFEST.json")); /* does not count as kept */
  barrier();
  OK(keep_newest(2, 10));
  assert_true(there(dir, "step-00000050") && there(dir, "step-00000040") && there(dir, "step-00000030"));
  assert_true(!there(dir, "step-00000020") && there(dir, "step-00000010")); /* 10 is in use */
  assert_int_equal(entries(dir), 5);
  barrier();
  OK(save(dir, 20)); /* the run was wound back to before 20, so higher steps are abandoned */
  OK(keep_newest(2, -1));
  assert_true(there(dir, "step-00000020") && there(dir, "step-00000010"));
  assert_int_equal(entries(dir), 3);
  barrier();
  OK(keep_newest(1, -1));
  must_find(dir, 20);
  assert_int_equal(entries(dir), 2);
}

/* BEST stays beside the newest, without counting as one, until another is best or the run is wound back to
 * before it. */
static void the_best_is_kept_beside_them(void **state) {
  bool moved;

  (void)state;
  new_dir("best");
  assert_true(tri_ckpt_best(dir) == -1);
  for (int64_t step = 10; step <= 40; step += 10) OK(save(dir, step));
  if (world->rank == 0) OK(tri_ckpt_point_best(dir, 10));
  barrier();
  assert_true(tri_ckpt_best(dir) == 10 && tri_ckpt_has_step(dir, 10) && !tri_ckpt_has_step(dir, 11));
  OK(keep_newest(2, -1));
  assert_true(there(dir, "step-00000010") && !there(dir, "step-00000020") && there(dir, "step-00000030"));
  assert_int_equal(entries(dir), 5); /* LATEST and BEST too */
  barrier();
  if (world->rank == 0) OK(tri_ckpt_point_best(dir, 40));
  barrier();
  OK(keep_newest(1, -1));
  assert_true(!there(dir, "step-00000010") && there(dir, "step-00000030") && there(dir, "step-00000040"));
  barrier();
  if (world->rank == 0) OK(tri_ckpt_wind_back(dir, 30, &moved));
  barrier();
  assert_true(tri_ckpt_best(dir) == -1 && !there(dir, "BEST") && there(dir, "step-00000040"));
}

/* A folder in the place of BEST is set aside with its contents. For a link to no step nothing is kept, and
 * nothing half-made is left. */
static void a_best_of_others_is_none(void **state) {
  (void)state;
  new_dir("other");
  for (int64_t step = 1; step <= 3; step++) OK(save(dir, step));
  if (world->rank == 0) {
    assert_int_equal(mkdir(in(dir, "BEST"), 0777), 0);
    assert_int_equal(mkdir(in(dir, "BEST/mine"), 0777), 0);
    OK(tri_ckpt_point_best(dir, 1));
    assert_true(tri_ckpt_best(dir) == 1 && there(dir, "BEST.before-1/mine") && !there(dir, ".BEST.tmp"));
    assert_int_equal(unlink(in(dir, "BEST")), 0);
  }
  barrier();
  OK(keep_newest(1, -1));
  assert_true(!there(dir, "step-00000001") && tri_ckpt_best(dir) == -1);
  barrier();
  if (world->rank == 0) {
    assert_int_equal(symlink("../elsewhere", in(dir, "BEST")), 0);
    assert_int_equal(symlink("step-00000003", in(dir, ".BEST.tmp")), 0);
    assert_true(tri_ckpt_best(dir) == -1);
    OK(tri_ckpt_point_best(dir, 3));
    assert_true(tri_ckpt_best(dir) == 3);
    assert_int_equal(symlink("step-00000003", in(dir, ".BEST.tmp")), 0);
  }
  barrier();
  OK(tri_ckpt_clean(dir, world));
  assert_true(!there(dir, ".BEST.tmp") && there(dir, "BEST"));
}

/* Removes the steps between LATEST's and the saved one, and none if LATEST names no step. */
static void a_save_removes_what_it_passes(void **state) {
  bool moved;

  (void)state;
  new_dir("pass");
  for (int64_t step = 2; step <= 8; step += 2) OK(save(dir, step));
  if (world->rank == 0) OK(tri_ckpt_wind_back(dir, 2, &moved));
  barrier();
  OK(save(dir, 5));
  assert_true(there(dir, "step-00000002") && !there(dir, "step-00000004") && there(dir, "step-00000006"));
  assert_true(there(dir, "step-00000005") && there(dir, "step-00000008"));
  barrier();
  if (world->rank == 0) assert_int_equal(unlink(in(dir, "LATEST")), 0);
  barrier();
  OK(save(dir, 7));
  assert_true(there(dir, "step-00000005") && there(dir, "step-00000006"));
  barrier();
  if (world->rank == 0)
    assert_false(unlink(in(dir, "LATEST")) || symlink("step-00000003", in(dir, "LATEST")));
  barrier();
  OK(save(dir, 9));
  assert_int_equal(entries(dir), 7);
}

/* ---- finding */

static void nothing_to_find_is_no_error(void **state) {
  char folder[TRI_CKPT_PATH_BYTES] = "x";

  (void)state;
  new_dir("nothing");
  OK(tri_ckpt_find(dir, world, true, NULL, folder));
  assert_string_equal(folder, "");
  if (world->rank == 0) {
    mkdir(in(top, "nothing"), 0777);
    mkdir(dir, 0777);
    assert_int_equal(mkdir(in(dir, "step-00000001.tmp"), 0777), 0);
  }
  barrier();
  OK(tri_ckpt_find(in(dir, ".."), world, true, NULL, folder));
  assert_string_equal(folder, "");
}

static void the_one_before_is_found(void **state) {
  char     folder[TRI_CKPT_PATH_BYTES];
  tri_text skipped = {0};

  (void)state;
  new_dir("before");
  for (int64_t step = 1; step <= 4; step++) OK(save(dir, step));
  OK(save(dir, 3)); /* LATEST is 3, and 4 is abandoned */
  must_find(dir, 3);
  barrier();
  if (world->rank == 0) flip(in(dir, "step-00000003/state.h5"), 200000);
  barrier();
  OK(tri_ckpt_find(dir, world, false, &skipped, folder)); /* the sizes do not show it */
  assert_non_null(strstr(folder, "step-00000003"));
  assert_null(skipped.data);
  OK(tri_ckpt_find(dir, world, true, &skipped, folder));
  assert_non_null(strstr(folder, "step-00000002"));
  assert_non_null(strstr(skipped.data, "step-00000003"));
  assert_non_null(strstr(skipped.data, "/model/model.embed_tokens.weight"));
  barrier();
  if (world->rank == 0)
    for (int step = 1; step <= 2; step++)
      unlink(in(dir, step == 1 ? "step-00000001/MANIFEST.json" : "step-00000002/config.json"));
  barrier();
  must_find(dir, 4);
  barrier();
  if (world->rank == 0) assert_int_equal(truncate(in(dir, "step-00000004/state.h5"), 1000), 0);
  barrier();
  assert_int_equal(tri_ckpt_find(dir, world, true, &skipped, folder), TRI_EFORMAT);
  expect_refusal("fail_all() state.h5 /model/model.embed_tokens.weight 1");
  assert_string_equal(folder, "");
  tri_error_clear();
  assert_int_equal(tri_ckpt_find(in(dir, "step-00000002"), world, true, NULL, folder), TRI_EFORMAT);
  expect_refusal("fail_all() config.json");
  tri_error_clear();
  tri_text_free(&skipped);
}

static void a_latest_that_names_nothing(void **state) {
  char     folder[TRI_CKPT_PATH_BYTES];
  tri_text skipped = {0};

  (void)state;
  new_dir("latest");
  OK(save(dir, 8));
  barrier();
  if (world->rank == 0)
    assert_int_equal(unlink(in(dir, "LATEST")) | symlink("../../etc", in(dir, "LATEST")), 0);
  barrier();
  OK(tri_ckpt_find(dir, world, true, &skipped, folder));
  assert_non_null(strstr(folder, "step-00000008"));
  assert_non_null(strstr(skipped.data, "LATEST"));
  barrier();
  if (world->rank == 0)
    assert_int_equal(unlink(in(dir, "LATEST")) | symlink("step-00000009", in(dir, "LATEST")) |
                         rename(in(dir, "step-00000008"), in(top, "elsewhere")),
                     0);
  barrier();
  assert_int_equal(tri_ckpt_find(dir, world, true, NULL, folder), TRI_EFORMAT); /* not a silent new start */
  expect_refusal("fail_all() step-00000009 LATEST");
  tri_error_clear();
  tri_text_free(&skipped);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_byte_comes_back),
      cmocka_unit_test(every_range_comes_back),
      cmocka_unit_test(names_values_and_files),
      cmocka_unit_test(h5dump_reads_it),
      cmocka_unit_test(nobody_else_enters_a_folder_while_it_is_filled),
      cmocka_unit_test(modes_that_cannot_be_set_stop_no_save),
      cmocka_unit_test(no_more_space_is_asked_for_than_is_used),
      cmocka_unit_test(bad_tensors_are_refused),
      cmocka_unit_test(elements_never_written_are_an_error),
      cmocka_unit_test(more_is_written_than_waits_at_once),
      cmocka_unit_test(a_copy_is_written_behind),
      cmocka_unit_test(a_copy_comes_to_nothing),
      cmocka_unit_test(abandon_leaves_nothing),
      cmocka_unit_test(a_step_is_replaced),
      cmocka_unit_test(retention_keeps_the_newest),
      cmocka_unit_test(the_best_is_kept_beside_them),
      cmocka_unit_test(a_best_of_others_is_none),
      cmocka_unit_test(a_save_removes_what_it_passes),
      cmocka_unit_test(nothing_to_find_is_no_error),
      cmocka_unit_test(the_one_before_is_found),
      cmocka_unit_test(a_latest_that_names_nothing),
  };

  return cmocka_run_group_tests(tests, case_open, case_close);
}
