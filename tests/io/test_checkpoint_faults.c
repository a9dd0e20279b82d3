/* test_checkpoint_faults.c - tests checkpoints with damaged bytes, full disks, ranks that give up and killed
 * writers. Any number of ranks. Judges: the status and the facts of the message, and the folder, which after
 * a failed save must be as before. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"
#include "base/host_memory.h"
#include "base/text_buffer.h"
#include "checkpoint_case.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/hash.h"
#include "refusal_case.h"

/* ---- damage */

/* Replaces a text of the manifest and gives it a fitting hash. Rank 0. */
static void forge(const char *folder, const char *from, const char *to) {
  char    *bytes, *at, tail[64];
  size_t   n;
  tri_text text = {0};

  OK(tri_file_read(in(folder, "MANIFEST.json"), 1 << 20, &bytes, &n));
  at = strstr(bytes, from);
  assert_non_null(at);
  OK(tri_text_put(&text, bytes, (size_t)(at - bytes)));
  OK(tri_text_put(&text, to, strlen(to)));
  OK(tri_text_put(&text, at + strlen(from), strlen(at + strlen(from))));
  text.len = (size_t)(strstr(text.data, "\"manifest_hash\"") - text.data);
  snprintf(tail, sizeof tail, "\"manifest_hash\": \"%016" PRIx64 "\"\n}\n",
           tri_hash64(text.data, text.len, 0));
  OK(tri_text_put(&text, tail, strlen(tail)));
  OK(tri_file_write(in(folder, "MANIFEST.json"), text.data, text.len));
  tri_text_free(&text);
  tri_host_free((void **)&bytes);
}

static void swap_manifest_shape(const char *f) { forge(f, "\"shape\": [16, 24]", "\"shape\": [24, 16]"); }
static void name_not_there(const char *f) { forge(f, "\"model.norm.weight\"", "\"model.morn.weight\""); }
static void other_type(const char *f) { forge(f, "\"dtype\": \"i32\"", "\"dtype\": \"f32\""); }
static void wrong_version(const char *f) { forge(f, "\"version\": 1", "\"version\": 2"); }
static void other_program(const char *f) { forge(f, "trireme-checkpoint", "somebody-elses-one"); }
static void endless_shape(const char *f) { forge(f, "[2, 3, 2, 5]", "[2, 3, 2, 5, 1]"); }
static void huge_shape(const char *f) { forge(f, "[16, 24]", "[16, 9223372036854775807]"); }
static void outside(const char *f) { forge(f, "\"offset\": ", "\"offset\": 99999999"); }
static void escaping_file(const char *f) {
  forge(f, "\"name\": \"config.json\"", "\"name\": \"../config.json\"");
}
static void one_file_twice(const char *f) {
  forge(f, "\"name\": \"deck.yaml\"", "\"name\": \"config.json\"");
}
static void record_no_object(const char *f) { forge(f, "\"files\": [", "\"record\": [1],\n\"files\": ["); }
static void no_list(const char *f) { forge(f, "\"tensors\": [", "\"tensor\": ["); }
static void no_manifest(const char *f) { unlink(in(f, "MANIFEST.json")); }
static void no_state(const char *f) { unlink(in(f, "state.h5")); }
static void no_config(const char *f) { unlink(in(f, "config.json")); }
static void empty_manifest(const char *f) { assert_int_equal(truncate(in(f, "MANIFEST.json"), 0), 0); }
static void flip_data(const char *f) { flip(in(f, "state.h5"), size_of(in(f, "state.h5")) / 2); }
static void flip_two(const char *f) {
  static const char offset[] = "\"offset\": ";
  char             *bytes, *at;
  size_t            n;

  flip_data(f);
  OK(tri_file_read(in(f, "MANIFEST.json"), 1 << 20, &bytes, &n));
  at = strstr(bytes, "\"three\"");
  assert_non_null(at);
  at = strstr(at, offset);
  assert_non_null(at);
  flip(in(f, "state.h5"), strtoll(at + strlen(offset), NULL, 10));
  tri_host_free((void **)&bytes);
}
static void flip_structure(const char *f) { flip(in(f, "state.h5"), 100); }
static void flip_superblock(const char *f) { flip(in(f, "state.h5"), 1); }
static void flip_config(const char *f) { flip(in(f, "config.json"), 3); }
static void flip_manifest(const char *f) { flip(in(f, "MANIFEST.json"), 50); }
static void longer_state(const char *f) {
  assert_int_equal(truncate(in(f, "state.h5"), size_of(in(f, "state.h5")) + 1), 0);
}
static void shorter_state(const char *f) {
  assert_int_equal(truncate(in(f, "state.h5"), size_of(in(f, "state.h5")) / 2), 0);
}
static void shorter_manifest(const char *f) {
  assert_int_equal(truncate(in(f, "MANIFEST.json"), size_of(in(f, "MANIFEST.json")) - 1), 0);
}

static void damage_is_named(void **state) {
  static const struct {
    void (*damage)(const char *folder);
    const char *says;
  } row[] = {
      {no_manifest, "tri_ckpt_manifest_read() step-00000001 MANIFEST.json"},
      {no_state, "check_size() state.h5 No such file"},
      {no_config, "check_size() config.json No such file"},
      {empty_manifest, "tri_ckpt_manifest_parse() MANIFEST.json"},
      {shorter_manifest, "tri_ckpt_manifest_parse() MANIFEST.json"},
      {flip_manifest, "tri_ckpt_manifest_parse() MANIFEST.json"},
      {flip_config, "tri_ckpt_get_file() config.json"},
      {flip_data, "refuse_bad() /model/model.embed_tokens.weight 1 8"},
      {flip_two, "refuse_bad() /model/model.embed_tokens.weight 2 8"},
      {flip_structure, "check_folder() state.h5"},
      {flip_superblock, "check_folder() state.h5"},
      {longer_state, "bytes"},
      {shorter_state, "bytes"},
      {wrong_version, "parse_fields() MANIFEST.json 2 trireme"},
      {record_no_object, "parse_record() MANIFEST.json"},
      {other_program, "parse_fields() MANIFEST.json somebody-elses-one 'trireme-checkpoint'"},
      {swap_manifest_shape,
       "tri_ckpt_h5_open() state.h5 /model/model.layers.0.self_attn.q_proj.weight MANIFEST.json"},
      {name_not_there, "tri_ckpt_h5_check_links() state.h5 /model/model.morn.weight"},
      {other_type, "tri_ckpt_h5_open() state.h5 /critic/four MANIFEST.json"},
      {endless_shape, "parse_entry() MANIFEST.json !state.h5"},
      {huge_shape, "tri_ckpt_manifest_add() MANIFEST.json /model/model.layers.0.self_attn.q_proj.weight 1"},
      {outside, "parse_entry() MANIFEST.json /model/model.embed_tokens.weight state.h5"},
      {escaping_file, "parse_files() MANIFEST.json !config.json"},
      {one_file_twice, "parse_files() MANIFEST.json config.json"},
      {no_list, "refuse_entry() MANIFEST.json `tensors`"},
  };

  (void)state;
  new_dir("damage");
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
    tri_ckpt_reader *r;
    OK(save(dir, 1));
    if (world->rank == 0) row[k].damage(in(dir, "step-00000001"));
    barrier();
    assert_int_equal(tri_ckpt_open(in(dir, "step-00000001"), world, true, &r), TRI_EFORMAT);
    assert_null(r);
    if (!refusal_is(row[k].says) || !refusal_is("step-00000001"))
      fail_msg("row %zu: %s", k, tri_error_message());
    tri_error_clear();
    barrier();
  }
}

/* Any changed byte and any cut gives TRI_EFORMAT, never a crash, and HDF5 prints nothing. */
static void every_byte_counts(void **state) {
  static const char *const name[] = {"state.h5", "MANIFEST.json", "config.json", "deck.yaml"};
  tri_ckpt_reader         *r;

  (void)state;
  new_dir("flips");
  OK(save(dir, 1));
  for (int k = 0; k < 4 && world->rank == 0; k++) {
    char    path[TRI_CKPT_PATH_BYTES];
    int64_t bytes = size_of(strcpy(path, in(in(dir, "step-00000001"), name[k])));
    int64_t stride = bytes > 100000 ? 3583 : bytes > 1000 ? 61 : 1; /* primes */
    char   *whole;
    size_t  n;
    for (int64_t at = 0; at < bytes; at += stride) {
      flip(path, at);
      assert_int_equal(tri_ckpt_open(in(dir, "LATEST"), NULL, true, &r), TRI_EFORMAT);
      tri_error_clear();
      flip(path, at);
    }
    OK(tri_file_read(path, 1 << 24, &whole, &n));
    for (int64_t cut = 0; cut < bytes; cut += bytes / 7 + 1) {
      assert_int_equal(truncate(path, cut), 0);
      assert_int_equal(tri_ckpt_open(in(dir, "LATEST"), NULL, true, &r), TRI_EFORMAT);
      tri_error_clear();
      OK(tri_file_write(path, whole, n));
    }
    tri_host_free((void **)&whole);
  }
  barrier();
  check_whole(in(dir, "LATEST"), 1);
}

/* ---- failing saves */

static void limit_files(rlim_t bytes) {
  struct rlimit limit;

  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void a_file_size_limit_is_told(void **state) {
  (void)state;
  new_dir("limit");
  OK(save(dir, 1));
  limit_files(1 << 20);
  assert_int_equal(save(dir, 2), TRI_EFILE);
  limit_files(RLIM_INFINITY);
  expect_refusal("step-00000002.tmp");
  expect_refusal("check_limit() room 1048576");
  tri_error_clear();
  assert_int_equal(entries(dir), 2);
  must_find(dir, 1);
}

/* Checks the result of a failed save: the reason, the old checkpoint, and nothing in the way of the next
 * save. */
static void check_refused(tri_status st, const char *why) {
  assert_int_equal(st, TRI_EFILE);
  expect_refusal("step-00000002.tmp");
  expect_refusal(why);
  tri_error_clear();
  assert_int_equal(entries(dir), 2);
  must_find(dir, 1);
  OK(save(dir, 2));
  must_find(dir, 2);
}

/* The disk fails in the middle of the tensors on one rank. The others learn of it. */
static void a_write_that_fails(void **state) {
  tri_ckpt_writer *w;
  tri_status       st;

  (void)state;
  new_dir("write");
  OK(save(dir, 1));
  signal(SIGXFSZ, SIG_IGN);
  OK(tri_ckpt_create(dir, 2, world, tensors, N_TENSOR, 0, &w));
  if (world->rank == world->size - 1) limit_files(200000);
  st = fill(w, 2, N_TENSOR);
  if (st == TRI_OK) st = tri_ckpt_commit(&w);
  tri_ckpt_abandon(&w);
  limit_files(RLIM_INFINITY);
  signal(SIGXFSZ, SIG_DFL);
  check_refused(st, "step-00000002.tmp /model/model.embed_tokens.weight");
}

/* The disk is full for all threads but the first. It is full for the first too, once this thread waits and
 * helps. */
static bool      full, helps;
static pthread_t first;

ssize_t pwrite(int fd, const void *buf, size_t n, off_t offset) {
  if (!full || (!helps && pthread_equal(pthread_self(), first)))
    return syscall(SYS_pwrite64, fd, buf, n, offset);
  errno = ENOSPC;
  return -1;
}

/* The same failure after all is copied, reported only by commit. */
static void a_write_that_fails_behind(void **state) {
  tri_ckpt_writer *w;
  tri_status       st;
  void            *space;

  (void)state;
  new_dir("full_behind");
  OK(save(dir, 1));
  first = pthread_self();
  full = world->rank == world->size - 1;
  OK(save_behind(dir, 2, &space, &w));
  helps = true;
  st = tri_ckpt_commit(&w);
  full = helps = false;
  assert_null(w);
  tri_host_free(&space);
  check_refused(st, strerror(ENOSPC));
}

/* Acts like a file system that cannot reserve space, such as NFS before version 4.2. */
static bool no_promise;

int fallocate(int fd, int mode, off_t offset, off_t n);
int fallocate(int fd, int mode, off_t offset, off_t n) {
  if (!no_promise) return (int)syscall(SYS_fallocate, fd, mode, offset, n);
  errno = EOPNOTSUPP;
  return -1;
}

/* No rank opens a file shorter than its final length. checkpoint_space.c gives the reason. */
static void a_file_without_promised_space_is_long_enough(void **state) {
  tri_ckpt_writer *w;
  int64_t          bytes = 0;

  (void)state;
  new_dir("no_promise");
  no_promise = true;
  for (int i = 0; i < N_TENSOR; i++) bytes += count_of(i) * (int64_t)tri_dtype_bytes(tensors[i].dtype);
  OK(tri_ckpt_create(dir, 1, world, tensors, N_TENSOR, 0, &w));
  assert_true(size_of(in(dir, "step-00000001.tmp/state.h5")) >= bytes);
  OK(fill(w, 1, N_TENSOR));
  OK(tri_ckpt_commit(&w));
  no_promise = false;
  must_find(dir, 1);
}

static void a_folder_that_cannot_be_made(void **state) {
  (void)state;
  new_dir("file");
  if (world->rank == 0) OK(tri_file_write(in(top, "plain"), "x", 1));
  barrier();
  assert_int_equal(save(in(top, "plain/checkpoints"), 1), TRI_EFILE);
  expect_refusal("tri_folder_make() checkpoints");
  tri_error_clear();
}

/* One rank goes to abandon() while the others are still writing. */
static void one_rank_gives_up(void **state) {
  tri_ckpt_writer *w;
  tri_status       st = TRI_EFILE;

  (void)state;
  new_dir("gives_up");
  OK(tri_ckpt_create(dir, 2, world, tensors, N_TENSOR, 0, &w));
  if (world->rank != world->size - 1) {
    st = fill(w, 2, N_TENSOR);
    expect_refusal("abandoned");
  }
  tri_ckpt_abandon(&w);
  assert_int_equal(st, TRI_EFILE);
  tri_error_clear();
  assert_int_equal(entries(dir), 0);
}

/* The disk fails after all tensors are written. */
static void a_commit_that_fails(void **state) {
  tri_ckpt_writer *w;

  (void)state;
  new_dir("commit");
  OK(save(dir, 1));
  OK(tri_ckpt_create(dir, 2, world, tensors, N_TENSOR, 0, &w));
  OK(fill(w, 2, N_TENSOR));
  signal(SIGXFSZ, SIG_IGN);
  limit_files(100);
  assert_int_equal(tri_ckpt_commit(&w), TRI_EFILE);
  limit_files(RLIM_INFINITY);
  signal(SIGXFSZ, SIG_DFL);
  assert_null(w);
  expect_refusal("step-00000002.tmp");
  tri_error_clear();
  assert_int_equal(entries(dir), 2);
  must_find(dir, 1);
}

/* Mounts a file system of 8 MiB, if this program may. */
static void a_full_disk(void **state) {
  tri_ckpt_writer *w;
  int64_t          mounted = 0;
  char            *filler;

  (void)state;
  new_dir("full");
  if (world->rank == 0) {
    mkdir(in(top, "full"), 0777);
    mounted = mount("none", in(top, "full"), "tmpfs", 0, "size=8m") == 0;
  }
  OK(tri_host_max(world, &mounted, 1));
  if (!mounted) {
    if (world->rank == 0) print_message("[  SKIPPED ] no right to mount a small file system\n");
    skip();
  }
  OK(save(dir, 1));
  OK(tri_host_alloc(6 << 20, 1, (void **)&filler));
  if (world->rank == 0) OK(tri_file_write(in(top, "full/filler"), filler, 6 << 20));
  barrier();
  assert_int_equal(save(dir, 2), TRI_EFILE); /* noticed before anything is written */
  expect_refusal("tri_ckpt_space_prepare() step-00000002.tmp");
  tri_error_clear();
  barrier();
  if (world->rank == 0) unlink(in(top, "full/filler"));
  barrier();
  OK(tri_ckpt_create(dir, 2, world, tensors, N_TENSOR, 0, &w));
  if (world->rank == 0) { /* another program takes the rest */
    int fd = open(in(top, "full/filler"), O_CREAT | O_WRONLY, 0666);
    while (write(fd, filler, 4096) == 4096) continue;
    close(fd);
  }
  barrier();
  for (int i = 0; i < N_TENSOR; i++) OK(write_tensor(w, i, 2)); /* the tensors' space is already reserved */
  assert_int_equal(tri_ckpt_put_file(w, "config.json", filler, 4 << 20), TRI_EFILE);
  tri_ckpt_abandon(&w);
  expect_refusal(strerror(ENOSPC));
  tri_error_clear();
  assert_false(there(dir, "step-00000002.tmp") || there(dir, "step-00000002") || there(dir, ".LATEST.tmp"));
  must_find(dir, 1);
  tri_host_free((void **)&filler);
  barrier();
  if (world->rank == 0) assert_int_equal(umount2(in(top, "full"), MNT_DETACH), 0);
}

/* ---- killed writers */

/* Starts this program again as a run of one rank, which saves step 2 and is killed at `point`. */
static void kill_at(const char *point) {
  extern char **environ;
  char         *env[4096];
  int           n = 0, status;
  pid_t         pid;

  for (char **e = environ; *e && n < 4095; e++)
    if (strncmp(*e, "OMPI_", 5) != 0 && strncmp(*e, "PMIX_", 5) != 0 && strncmp(*e, "PMI_", 4) != 0 &&
        strncmp(*e, "PRTE_", 5) != 0)
      env[n++] = *e;
  env[n] = NULL;
  pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    execle("/proc/self/exe", "test_checkpoint_faults", "--killed", point, dir, (char *)NULL, env);
    _exit(127);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Runs in the child of kill_at. */
static void be_killed(const char *point, const char *where) {
  tri_ckpt_writer *w;
  bool             created = !strcmp(point, "created"), half = !strcmp(point, "half");
  bool             begun = !strcmp(point, "begun"), behind = begun || !strcmp(point, "behind");
  void            *space;

  if (behind) {
    if (save_behind(where, 2, &space, &w) != TRI_OK) return;
    if (!begun) (void)tri_ckpt_wait_s(w);
    raise(SIGKILL);
  }
  if (tri_ckpt_create(where, 2, world, tensors, N_TENSOR, 0, &w) != TRI_OK) return;
  if (!created && fill(w, 2, half ? 1 : N_TENSOR) != TRI_OK) return;
  raise(SIGKILL);
}

static void a_killed_writer_costs_nothing(void **state) {
  static const char *const point[] = {"created", "half", "written", "begun", "behind"};

  (void)state;
  if (world->size > 1) skip(); /* the child is a run of one rank */
  for (int k = 0; k < 5; k++) {
    new_dir(point[k]);
    OK(save(dir, 1));
    kill_at(point[k]);
    assert_true(there(dir, "step-00000002.tmp"));
    must_find(dir, 1);
    if (k == 1) OK(save(dir, 2)); /* also without cleaning first */
    OK(tri_ckpt_clean(dir, world));
    assert_int_equal(entries(dir), k == 1 ? 3 : 2);
    must_find(dir, k == 1 ? 2 : 1);
  }
}

static void move(const char *from, const char *to) {
  if (world->rank == 0) assert_int_equal(rename(in(dir, from), in(dir, to)), 0);
  barrier();
}

/* The states between the renames of a commit, made by hand. In each, the old or the new checkpoint is
 * found. */
static void killed_between_renames(void **state) {
  (void)state;
  new_dir("renames");
  OK(save(dir, 1));
  OK(save(dir, 2));
  barrier();
  if (world->rank == 0) { /* LATEST not yet replaced */
    assert_int_equal(symlink("step-00000002", in(dir, ".LATEST.tmp")), 0);
    assert_int_equal(unlink(in(dir, "LATEST")) | symlink("step-00000001", in(dir, "LATEST")), 0);
  }
  barrier();
  must_find(dir, 1);
  OK(tri_ckpt_clean(dir, world));
  assert_int_equal(entries(dir), 3);
  barrier();
  OK(save(dir, 2));
  move("step-00000002", "step-00000002.tmp"); /* finished, not yet renamed */
  must_find(dir, 1);
  move("step-00000002.tmp", "step-00000002.old"); /* old one renamed, new one not yet there */
  must_find(dir, 1);
  OK(tri_ckpt_clean(dir, world));
  must_find(dir, 2);
  barrier();
  move("step-00000001", "step-00000001.trash"); /* being deleted */
  OK(tri_ckpt_clean(dir, world));
  assert_int_equal(entries(dir), 2);
  must_find(dir, 2);
}

/* The requeued job has saved step 4 while the earlier start still saves step 3. The earlier start's folder
 * has another name, and it publishes nothing. */
static void an_older_start_publishes_nothing(void **state) {
  tri_ckpt_writer *old, *new;

  (void)state;
  new_dir("starts");
  OK(save(dir, 1));
  OK(tri_ckpt_create(dir, 4, world, tensors, N_TENSOR, 0, &old));
  OK(fill(old, 4, N_TENSOR));
  setenv("SLURM_RESTART_COUNT", "2", 1);
  OK(tri_ckpt_create(dir, 4, world, tensors, N_TENSOR, 0, &new));
  if (world->rank == 0) assert_true(there(dir, "step-00000004.tmp") && there(dir, "step-00000004.tmp-2"));
  OK(fill(new, 4, N_TENSOR));
  OK(tri_ckpt_commit(&new));
  must_find(dir, 4);
  barrier();
  unsetenv("SLURM_RESTART_COUNT");
  if (world->rank == 0) assert_int_equal(tri_file_write(in(dir, "start"), "job 7, restart 2\n", 17), TRI_OK);
  tri_ckpt_guard(world->rank == 0 ? in(dir, "start") : "", "job 7, restart 0\n");
  assert_int_equal(tri_ckpt_commit(&old), TRI_ECONFIG);
  expect_refusal("tri_ckpt_check_guard() start 7 2");
  tri_error_clear();
  assert_false(there(dir, "step-00000004.tmp"));
  must_find(dir, 4);
  OK(tri_ckpt_create(dir, 5, world, tensors, N_TENSOR, 0,
                     &old)); /* on a rank without news of it: its own name */
  OK(fill(old, 5, N_TENSOR));
  tri_ckpt_guard(world->rank == 0 ? in(dir, "start") : "", "job 7, restart 2\n");
  OK(tri_ckpt_commit(&old));
  must_find(dir, 5);
  tri_ckpt_guard("", "");
  setenv("SLURM_RESTART_COUNT", "12", 1);
  OK(tri_ckpt_create(dir, 6, world, tensors, N_TENSOR, 0, &old));
  tri_ckpt_abandon(&old);
  barrier();
  if (world->rank == 0)
    assert_int_equal(mkdir(in(dir, "step-00000007.tmp-1"), 0777) | mkdir(in(dir, "step-00000007.tmp"), 0777),
                     0);
  unsetenv("SLURM_RESTART_COUNT");
  OK(tri_ckpt_clean(dir, world)); /* for any start */
  assert_false(there(dir, "step-00000007.tmp-1") || there(dir, "step-00000007.tmp"));
}

/* ---- checks at the start of a run */

/* Leaves nothing behind in any case. comm NULL means rank 0 alone. */
static void rehearse(const char *where, tri_comm *comm, int64_t bytes, tri_status want, const char *says) {
  tri_status st = !comm && world->rank != 0 ? want : tri_ckpt_rehearse(where, comm, bytes);

  if (st != want) fail_msg("%s: %s\n%s", where, tri_status_text(st), tri_error_trace());
  if (says && (comm || world->rank == 0)) expect_refusal(says);
  tri_error_clear();
  barrier();
  assert_false(there(top, "new"));
  assert_int_equal(entries(dir), 2);
  barrier();
}

static void a_trial_leaves_nothing(void **state) {
  const char *none = in(top, "new/deeper/checkpoints");
  char        where[TRI_CKPT_PATH_BYTES];

  (void)state;
  snprintf(where, sizeof where, "%s", none);
  new_dir("trial");
  OK(save(dir, 3));
  for (int alone = 0; alone < 2; alone++) {
    tri_comm *comm = alone ? NULL : world;
    rehearse(dir, comm, 1 << 20, TRI_OK, NULL);
    rehearse(where, comm, 0, TRI_OK, NULL);
    limit_files(1 << 19);
    rehearse(where, comm, 1 << 20, TRI_EFILE, "ulimit -f");
    limit_files(RLIM_INFINITY);
    rehearse(where, comm, INT64_MAX / 2, TRI_EFILE, "bytes");
  }
  must_find(dir, 3);
}

/* A path of one letter relative to the current folder works too. */
static void a_trial_leaves_no_short_folder(void **state) {
  char *before = getcwd(NULL, 0);

  (void)state;
  assert_int_equal(chdir(top), 0);
  OK(tri_ckpt_rehearse("o/checkpoints", world, 0));
  barrier();
  assert_false(there(top, "o"));
  assert_int_equal(chdir(before), 0);
  free(before);
}

static int symlinks_refused; /* this many of the next calls fail */

/* Replaces libc's. */
int symlink(const char *to, const char *from) {
  if (symlinks_refused == 0) return symlinkat(to, AT_FDCWD, from);
  symlinks_refused--;
  errno = EIO;
  return -1;
}

static bool is_read_only; /* answer of the file system to making a folder there */

/* Replaces libc's. */
int mkdir(const char *path, mode_t mode) {
  if (!is_read_only) return mkdirat(AT_FDCWD, path, mode);
  errno = EROFS; /* some file systems answer so even for an existing folder */
  return -1;
}

/* The message names the first folder that cannot be made, with the reason. */
static void a_trial_on_a_read_only_disk(void **state) {
  const char *none = in(top, "new/deeper/checkpoints");
  char        where[TRI_CKPT_PATH_BYTES], says[TRI_CKPT_PATH_BYTES + 64];

  (void)state;
  snprintf(where, sizeof where, "%s", none);
  snprintf(says, sizeof says, "make_dir() %s: %s", in(top, "new"), strerror(EROFS));
  new_dir("read_only");
  OK(save(dir, 3));
  is_read_only = true;
  for (int alone = 0; alone < 2; alone++) rehearse(where, alone ? NULL : world, 0, TRI_EFILE, says);
  is_read_only = false;
}

/* A call fails once, as if a file server was away. The trial is made a second time, but not a third. */
static void a_trial_that_fails_once(void **state) {
  (void)state;
  new_dir("once");
  OK(save(dir, 3));
  for (int alone = 0; alone < 2; alone++) {
    tri_comm *comm = alone ? NULL : world;
    symlinks_refused = 1;
    rehearse(dir, comm, 0, TRI_OK, NULL);
    symlinks_refused = 2;
    rehearse(dir, comm, 0, TRI_EFILE, strerror(EIO));
    symlinks_refused = 0;
  }
  must_find(dir, 3);
}

/* The path has a colon, and more bytes than fit MPI-IO's buffer. */
static void paths_that_mpi_would_misread(void **state) {
  char name[2][400], where[TRI_CKPT_PATH_BYTES];

  (void)state;
  snprintf(name[0], sizeof name[0], "ufs:run/checkpoints");
  snprintf(name[1], sizeof name[1], "run:12/%0120d/%0100d/checkpoints", 1, 2);
  for (int i = 0; i < 2; i++) {
    snprintf(where, sizeof where, "%s/%s", top, name[i]);
    OK(tri_ckpt_rehearse(where, world, 0));
    OK(save(where, 3));
    must_find(where, 3);
    barrier();
  }
}

/* One rank can open no further file. If MPI needs one for the checkpoint's path, all ranks fail. */
static void one_rank_without_a_file_for_the_path(void **state) {
  struct rlimit    limit, none;
  char             where[TRI_CKPT_PATH_BYTES];
  tri_ckpt_writer *w;
  int              next = open("/dev/null", O_RDONLY);

  (void)state;
  assert_true(next > 0 && !close(next));
  if (world->size == 1) skip();
  snprintf(where, sizeof where, "%s/ufs:last/checkpoints", top);
  OK(save(where, 1));
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
  none = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = limit.rlim_max};
  if (world->rank == world->size - 1) assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  assert_int_equal(tri_ckpt_create(where, 2, world, tensors, N_TENSOR, 0, &w), TRI_EFILE);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
  expect_refusal(strerror(EMFILE));
  tri_error_clear();
  OK(save(where, 2));
  must_find(where, 2);
}

/* The space is too small. It is refused for the checkpoints sure to be written, and warned of for possible
 * ones. */
static void space_for_all_that_will_come(void **state) {
  int64_t       left = tri_ckpt_free_bytes(top);
  tri_ckpt_need need = {.bytes = left / 4, .files = 4, .sure = 2, .most = 3, .sure_of_1 = 2, .most_of_1 = 2};

  (void)state;
  if (left < 0) skip();
  OK(tri_ckpt_check_space(in(top, "new/checkpoints"), &need));
  need.most = 9; /* a warning */
  OK(tri_ckpt_check_space(in(top, "new/checkpoints"), &need));
  need.sure = 9;
  assert_int_equal(tri_ckpt_check_space(in(top, "new/checkpoints"), &need), TRI_EFILE);
  expect_refusal("tri_ckpt_check_space() 9 checkpoint.save_total_limit");
  tri_error_clear();
  need.sure_of_1 = 9; /* no smaller limit helps */
  assert_int_equal(tri_ckpt_check_space(in(top, "new/checkpoints"), &need), TRI_EFILE);
  assert_null(strstr(tri_error_message(), "save_total_limit"));
  expect_refusal(
      "tri_ckpt_check_space() 9 checkpoint.save_steps checkpoint.save_minutes checkpoint.save_final");
  tri_error_clear();
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(damage_is_named),
      cmocka_unit_test(every_byte_counts),
      cmocka_unit_test(a_file_size_limit_is_told),
      cmocka_unit_test(a_write_that_fails),
      cmocka_unit_test(a_write_that_fails_behind),
      cmocka_unit_test(a_file_without_promised_space_is_long_enough),
      cmocka_unit_test(one_rank_gives_up),
      cmocka_unit_test(a_commit_that_fails),
      cmocka_unit_test(a_folder_that_cannot_be_made),
      cmocka_unit_test(a_full_disk),
      cmocka_unit_test(a_killed_writer_costs_nothing),
      cmocka_unit_test(killed_between_renames),
      cmocka_unit_test(an_older_start_publishes_nothing),
      cmocka_unit_test(a_trial_leaves_nothing),
      cmocka_unit_test(a_trial_leaves_no_short_folder),
      cmocka_unit_test(a_trial_on_a_read_only_disk),
      cmocka_unit_test(a_trial_that_fails_once),
      cmocka_unit_test(paths_that_mpi_would_misread),
      cmocka_unit_test(one_rank_without_a_file_for_the_path),
      cmocka_unit_test(space_for_all_that_will_come),
  };

  if (argc == 4 && !strcmp(argv[1], "--killed")) {
    ranks_open(NULL);
    be_killed(argv[2], argv[3]);
    return 1;
  }
  return cmocka_run_group_tests(tests, case_open, case_close);
}
