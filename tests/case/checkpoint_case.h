/* checkpoint_case.h - saves and checks the tensors of the checkpoint tests.
 *
 * Judge of all bytes: expect(), a function of (tensor, element, step), for any number of ranks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TEST_CHECKPOINT_CASE_H
#define TRI_TEST_CHECKPOINT_CASE_H

#include "base/host_memory.h"
#include "ranks_case.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "io/checkpoint/checkpoint.h"

static char top[256], dir[300]; /* folder of this program, checkpoints of the running test */

static const tri_ckpt_tensor tensors[] = {
    {"/model", "model.embed_tokens.weight", TRI_F32, 2, {513, 520}}, /* more than 1 MiB, so it is aligned */
    {"/model", "model.layers.0.self_attn.q_proj.weight", TRI_BF16, 2, {16, 24}},
    {"/model", "model.norm.weight", TRI_F32, 1, {19}},
    {"/optimizer/exp_avg", "model.norm.weight", TRI_F32, 1, {19}},
    {"/optimizer/exp_avg_sq", "model.norm.weight", TRI_F32, 1, {19}},
    {"/critic", "four", TRI_I32, 4, {2, 3, 2, 5}},
    {"/critic", "three", TRI_I64, 3, {2, 1, 7}},
    {"/critic", "byte", TRI_U8, 1, {1}},
};
enum { N_TENSOR = sizeof tensors / sizeof *tensors };
static const char config_text[] = "{\"model_type\": \"qwen2\"}\n", deck_text[] = "run:\n  seed: 1\n";

static inline int64_t count_of(int i) {
  int64_t n = 1;

  for (int d = 0; d < tensors[i].ndim; d++) n *= tensors[i].dim[d];
  return n;
}

/* Returns element k of tensor i at this step as it must lie in memory. Its bits are arbitrary, also NaN. The
 * tensors read by h5dump have plain numbers, exact in bf16. */
static inline void expect(int i, int64_t k, int64_t step, void *out) {
  uint64_t bits = tri_rng_mix(tri_rng_mix((uint64_t)(i * 1000 + step)) + (uint64_t)k);
  float    f = (float)(k % 200) / 2 - 50;
  uint16_t b = tri_f32_to_bf16(f);

  if (i == 1)
    memcpy(out, &b, sizeof b);
  else if (i == 2)
    memcpy(out, &f, sizeof f);
  else
    memcpy(out, &bits, tri_dtype_bytes(tensors[i].dtype));
}

/* Writes this rank's part of tensor i in two calls, in ranges unrelated to rows. */
static inline tri_status write_tensor(tri_ckpt_writer *w, int i, int64_t step) {
  tri_status st = TRI_OK;
  int64_t n = count_of(i), begin = n * world->rank / world->size, end = n * (world->rank + 1) / world->size;
  int64_t middle = begin + (end - begin) / 3;
  size_t  size = tri_dtype_bytes(tensors[i].dtype);
  char   *host = NULL;

  TRI_TRY(tri_host_alloc((size_t)(end - begin), size, (void **)&host));
  for (int64_t k = begin; k < end; k++) expect(i, k, step, host + (size_t)(k - begin) * size);
  TRI_TRY_DONE(tri_ckpt_write(w, i, begin, middle - begin, host));
  TRI_TRY_DONE(tri_ckpt_write(w, i, middle, end - middle, host + (size_t)(middle - begin) * size));
done:
  tri_host_free((void **)&host);
  return st;
}

static inline tri_status fill(tri_ckpt_writer *w, int64_t step, int n_tensor) {
  for (int i = 0; i < n_tensor; i++) TRI_TRY(write_tensor(w, i, step));
  TRI_TRY(tri_ckpt_put_i64(w, "step", step));
  TRI_TRY(tri_ckpt_put_f64(w, "learning_rate", 0.1 + 0.2));
  TRI_TRY(tri_ckpt_put_text(w, "algo", "grpo \xc3\xa9"));
  TRI_TRY(tri_ckpt_put_text(w, "empty", ""));
  TRI_TRY(tri_ckpt_put_file(w, "config.json", world->rank ? NULL : config_text, sizeof config_text - 1));
  TRI_TRY(tri_ckpt_put_file(w, "deck.yaml", world->rank ? NULL : deck_text, sizeof deck_text - 1));
  return TRI_OK;
}

static inline tri_status save(const char *where, int64_t step) {
  tri_ckpt_writer *w = NULL;
  tri_status       st;

  TRI_TRY(tri_ckpt_create(where, step, world, tensors, N_TENSOR, 0, &w));
  st = fill(w, step, N_TENSOR);
  if (st != TRI_OK) {
    tri_ckpt_abandon(&w);
    return st;
  }
  st = tri_ckpt_commit(&w);
  assert_null(w);
  return st;
}

/* Does the same, but copies to *room first, and begin leaves the writing to a thread. Free *room with
 * tri_host_free after the writer is gone. */
static inline tri_status save_behind(const char *where, int64_t step, void **space, tri_ckpt_writer **w) {
  size_t     bytes = (size_t)(2 * N_TENSOR * tri_ckpt_copy_bytes(0));
  tri_status st;

  for (int i = 0; i < N_TENSOR; i++) bytes += (size_t)count_of(i) * tri_dtype_bytes(tensors[i].dtype);
  TRI_TRY(tri_host_alloc(bytes, 1, space));
  TRI_TRY(tri_ckpt_create(where, step, world, tensors, N_TENSOR, 0, w));
  tri_ckpt_lend(*w, *space, bytes);
  st = fill(*w, step, N_TENSOR);
  if (st == TRI_OK) st = tri_ckpt_begin(*w);
  if (st != TRI_OK) tri_ckpt_abandon(w);
  return st;
}

static inline void check_range(tri_ckpt_reader *r, int i, int64_t begin, int64_t count) {
  size_t size = tri_dtype_bytes(tensors[i].dtype);
  char  *host, want[8];

  OK(tri_host_alloc((size_t)count, size, (void **)&host));
  OK(tri_ckpt_read(r, i, begin, count, host));
  for (int64_t k = 0; k < count; k++) {
    expect(i, begin + k, tri_ckpt_step(r), want);
    assert_memory_equal(host + (size_t)k * size, want, size);
  }
  tri_host_free((void **)&host);
}

/* Opens with all hashes and compares every element. */
static inline void check_whole(const char *folder, int64_t step) {
  tri_ckpt_reader *r;

  OK(tri_ckpt_open(folder, world, true, &r));
  assert_int_equal(tri_ckpt_step(r), step);
  for (int i = 0; i < N_TENSOR; i++) check_range(r, i, 0, count_of(i));
  tri_ckpt_close(&r);
  assert_null(r);
}

static inline void must_find(const char *path, int64_t step) {
  char folder[TRI_CKPT_PATH_BYTES];

  OK(tri_ckpt_find(path, world, true, NULL, folder));
  check_whole(folder, step);
}

/* ---- small file tools: rank 0 acts, all wait */

static inline const char *in(const char *folder, const char *name) {
  static char path[4][TRI_CKPT_PATH_BYTES];
  static int  k;
  char        joined[TRI_CKPT_PATH_BYTES];

  assert_in_range(snprintf(joined, sizeof joined, "%s/%s", folder, name), 1, sizeof joined - 1);
  k = (k + 1) % 4;
  return strcpy(path[k], joined);
}

static inline bool there(const char *folder, const char *name) {
  struct stat sb;

  return lstat(in(folder, name), &sb) == 0;
}

static inline void barrier(void) { OK(tri_host_barrier(world)); }

static inline int entries(const char *folder) {
  char  command[TRI_CKPT_PATH_BYTES + 32], text[32] = "";
  FILE *f;

  snprintf(command, sizeof command, "ls -A %s | wc -l", folder);
  f = popen(command, "r");
  assert_non_null(f);
  assert_non_null(fgets(text, sizeof text, f));
  pclose(f);
  return atoi(text);
}

static inline void flip(const char *path, int64_t at) {
  unsigned char c = 0;
  int           fd = open(path, O_RDWR);

  assert_true(fd >= 0 && pread(fd, &c, 1, (off_t)at) == 1);
  c ^= 0x10;
  assert_true(pwrite(fd, &c, 1, (off_t)at) == 1);
  close(fd);
}

static inline int64_t size_of(const char *path) {
  struct stat sb;

  assert_int_equal(stat(path, &sb), 0);
  return sb.st_size;
}

static inline void new_dir(const char *name) {
  snprintf(dir, sizeof dir, "%s/%s/checkpoints", top, name);
  barrier();
}

/* ---- the program around the cases */

/* Makes a folder for this program. With several ranks, a failure on one rank ends all, so that nobody
 * waits. */
static inline int case_open(void **state) {
  const char *tmp = getenv("TMPDIR");

  ranks_open(state);
  if (world->size > 1) setenv("CMOCKA_TEST_ABORT", "1", 1);
  snprintf(top, sizeof top, "%s/test_checkpoint.XXXXXX", tmp && strlen(tmp) < 200 ? tmp : "/tmp");
  if (world->rank == 0) CHECK(mkdtemp(top));
  OK(tri_host_bcast(world, top, sizeof top, 0));
  return 0;
}

static inline int case_close(void **state) {
  char command[300];

  OK(tri_host_barrier(world));
  snprintf(command, sizeof command, "rm -rf %s", top);
  if (world->rank == 0) CHECK(system(command) == 0);
  return ranks_close(state);
}

#endif
