/* test_device.c - checks that the table of every back end is complete, and that memory, copies and events
 * behave as device.h says.
 *
 * Judge: exact values, and the operating system's own list of shared memory. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cpu/device_cpu.h"
#include "cpu/choose.h"
#include "device/kernels.h"
#include "refusal_case.h"

#include <stdarg.h>
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Counts this process's shared memory names. */
static int count_names(long pid) {
  char           prefix[64];
  int            n = 0;
  DIR           *folder = opendir("/dev/shm");
  struct dirent *entry;

  if (!folder) return 0;
  snprintf(prefix, sizeof prefix, "trireme-%ld-%ld-", (long)getuid(), pid);
  while ((entry = readdir(folder))) n += !strncmp(entry->d_name, prefix, strlen(prefix));
  closedir(folder);
  return n;
}

/* Runs body in a child process and returns its exit code. */
static int in_child(int (*body)(void)) {
  int   status = 0;
  pid_t pid;

  fflush(NULL);
  pid = fork();
  if (pid == 0) _exit(body());
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static void no_null(const void *table, size_t bytes) {
  const unsigned char *p = table;

  for (size_t i = 0; i < bytes; i += sizeof(void *)) {
    void *entry;
    memcpy(&entry, p + i, sizeof entry);
    assert_non_null(entry);
  }
}

static void test_tables(void **state) {
  (void)state;
  assert_non_null(tri_device_at(0));
  for (int i = 0; tri_device_at(i); i++) {
    const tri_device_ops *ops = tri_device_at(i);
    assert_int_equal(ops->size, sizeof *ops);
    no_null(&ops->name, offsetof(tri_device_ops, leave_sm) - offsetof(tri_device_ops, name));
    assert_true(!ops->graph_record == !ops->graph_run && !ops->graph_run == !ops->graph_close);
    if (!strcmp(ops->name, "cpu")) { /* the first open chooses the kernels for this processor */
      tri_device *d = NULL;
      assert_int_equal(tri_device_open("cpu", 0, 1, &d), TRI_OK);
      tri_device_close(&d);
    }
    no_null(ops->kernels, sizeof *ops->kernels);
    assert_ptr_equal(tri_device_find(ops->name), ops);
  }
  assert_null(tri_device_at(-1));
  assert_null(tri_device_find("abacus"));
}

static void test_refusals(void **state) {
  tri_device *d = NULL;

  (void)state;
  assert_int_equal(tri_device_open("abacus", 0, 1, &d), TRI_EABSENT);
  assert_null(d);
  expect_refusal("tri_device_check() abacus cpu");
  tri_error_clear();
  assert_int_equal(tri_device_open("cpu", 0, 0, &d), TRI_EARG);
  tri_error_clear();
  assert_int_equal(tri_device_open("cpu", -1, 1, &d), TRI_EARG);
  tri_error_clear();
  tri_device_close(&d);
}

static void check_zero(const unsigned char *p, size_t n) {
  for (size_t i = 0; i < n; i++) assert_int_equal(p[i], 0);
}

static void test_memory(void **state) {
  static const size_t size[] = {0, 1, 255, 4096, 4097, 3000001};
  static const char   dirty[] = "left behind by the owner before";

  (void)state;
  for (int i = 0; tri_device_at(i); i++) {
    tri_device *d = NULL;
    tri_stream *s = NULL;
    size_t      bytes_free, bytes_total;
    assert_int_equal(tri_device_open(tri_device_at(i)->name, 0, 2, &d), TRI_OK);
    assert_int_equal(d->ops->stream_open(d, "test", &s), TRI_OK);
    assert_int_equal(d->ops->mem_info(d, &bytes_free, &bytes_total), TRI_OK);
    assert_true(bytes_free > 0 && bytes_free <= bytes_total);
    for (int kind = TRI_MEM_DEVICE; kind <= TRI_MEM_HOST; kind++)
      for (size_t k = 0; k < sizeof size / sizeof size[0]; k++) {
        void          *p = NULL;
        unsigned char *host = malloc(size[k] + 1);
        assert_non_null(host);
        assert_int_equal(d->ops->alloc(d, (tri_mem)kind, size[k], &p), TRI_OK);
        assert_int_equal((uintptr_t)p % 256, 0);
        assert_int_equal(d->ops->copy(s, host, p, size[k]), TRI_OK);
        assert_int_equal(d->ops->stream_sync(s), TRI_OK);
        check_zero(host, size[k]);
        if (size[k] > sizeof dirty) assert_int_equal(d->ops->copy(s, p, dirty, sizeof dirty), TRI_OK);
        d->ops->free(d, (tri_mem)kind, &p);
        assert_null(p);
        d->ops->free(d, (tri_mem)kind, &p);
        free(host);
      }
    d->ops->stream_close(&s);
    assert_null(s);
    tri_device_close(&d);
    assert_null(d);
    tri_device_close(&d);
  }
}

static void test_too_large(void **state) {
  static const size_t size[] = {SIZE_MAX, PTRDIFF_MAX, (size_t)1 << 60};

  (void)state;
  for (int i = 0; tri_device_at(i); i++) {
    tri_device *d = NULL;
    assert_int_equal(tri_device_open(tri_device_at(i)->name, 0, 1, &d), TRI_OK);
    for (size_t k = 0; k < sizeof size / sizeof size[0]; k++) {
      void *p = &d;
      assert_int_equal(d->ops->alloc(d, TRI_MEM_DEVICE, size[k], &p), TRI_ENOMEM);
      assert_null(p);
      assert_true(tri_error_message()[0]);
      tri_error_clear();
    }
    tri_device_close(&d);
  }
}

static void test_copy_fill_events(void **state) {
  enum { N = 1500007 }; /* a prime above several pieces of a threaded copy */

  (void)state;
  for (int i = 0; tri_device_at(i); i++) {
    tri_device    *d = NULL;
    tri_stream    *s = NULL;
    tri_event     *from = NULL, *to = NULL;
    void          *p = NULL;
    double         ms = -1;
    unsigned char *a = malloc(N), *b = malloc(N);
    assert_true(a && b);
    assert_int_equal(tri_device_open(tri_device_at(i)->name, 0, 2, &d), TRI_OK);
    assert_int_equal(d->ops->stream_open(d, "test", &s), TRI_OK);
    assert_int_equal(d->ops->event_open(d, &from), TRI_OK);
    assert_int_equal(d->ops->event_open(d, &to), TRI_OK);
    assert_int_equal(d->ops->alloc(d, TRI_MEM_DEVICE, N, &p), TRI_OK);
    for (int k = 0; k < N; k++) a[k] = (unsigned char)(k * 7 + k / 251);
    assert_int_equal(d->ops->event_record(from, s), TRI_OK);
    assert_int_equal(d->ops->copy(s, p, a, N), TRI_OK);
    assert_int_equal(d->ops->fill(s, (char *)p + 11, 0x5a, 1000), TRI_OK);
    assert_int_equal(d->ops->copy(s, b, p, N), TRI_OK);
    assert_int_equal(d->ops->copy(s, b, p, 0), TRI_OK);
    assert_int_equal(d->ops->event_sync(to), TRI_OK); /* nothing to wait for */
    assert_int_equal(d->ops->event_record(to, s), TRI_OK);
    assert_int_equal(d->ops->event_sync(to), TRI_OK);
    memset(a + 11, 0x5a, 1000);
    assert_memory_equal(a, b, N);
    assert_int_equal(d->ops->stream_wait(s, to), TRI_OK);
    assert_int_equal(d->ops->stream_sync(s), TRI_OK);
    assert_int_equal(d->ops->event_ms(from, to, &ms), TRI_OK);
    assert_true(ms >= 0);
    d->ops->free(d, TRI_MEM_DEVICE, &p);
    d->ops->event_close(&from);
    d->ops->event_close(&to);
    d->ops->stream_close(&s);
    tri_device_close(&d);
    free(a);
    free(b);
  }
}

/* ---- recorded work ---- */

enum { RECORDED = 1009 };

/* A device with recording. x and y lie on it, in and out are pinned, all f32 [RECORDED]. */
typedef struct recorder {
  tri_device *d;
  tri_stream *s;
  float      *x, *y, *in, *out;
  int         calls; /* calls of the work */
} recorder;

static void recorder_open(recorder *r, const char *name) {
  float **device[] = {&r->x, &r->y}, **pinned[] = {&r->in, &r->out};
  memset(r, 0, sizeof *r);
  assert_int_equal(tri_device_open(name, 0, 1, &r->d), TRI_OK);
  assert_int_equal(r->d->ops->stream_open(r->d, "test", &r->s), TRI_OK);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(r->d->ops->alloc(r->d, TRI_MEM_DEVICE, RECORDED * 4, (void **)device[i]), TRI_OK);
    assert_int_equal(r->d->ops->alloc(r->d, TRI_MEM_PINNED, RECORDED * 4, (void **)pinned[i]), TRI_OK);
  }
}

static void recorder_close(recorder *r) {
  r->d->ops->free(r->d, TRI_MEM_DEVICE, (void **)&r->x);
  r->d->ops->free(r->d, TRI_MEM_DEVICE, (void **)&r->y);
  r->d->ops->free(r->d, TRI_MEM_PINNED, (void **)&r->in);
  r->d->ops->free(r->d, TRI_MEM_PINNED, (void **)&r->out);
  r->d->ops->stream_close(&r->s);
  tri_device_close(&r->d);
}

/* y = 2 in, x = in. */
static tri_status twice(void *ctx, tri_stream *s) {
  recorder  *r = ctx;
  tri_tensor x = tri_view1(r->x, TRI_F32, RECORDED), y = tri_view1(r->y, TRI_F32, RECORDED);
  r->calls++;
  TRI_TRY(s->device->ops->copy(s, r->x, r->in, RECORDED * 4));
  return s->device->ops->kernels->axpby(s, &y, 2, &x, 0);
}
/* out = y, then y = 3 x + y. */
static tri_status show_and_add(void *ctx, tri_stream *s) {
  recorder  *r = ctx;
  tri_tensor x = tri_view1(r->x, TRI_F32, RECORDED), y = tri_view1(r->y, TRI_F32, RECORDED);
  r->calls++;
  TRI_TRY(s->device->ops->copy(s, r->out, r->y, RECORDED * 4));
  return s->device->ops->kernels->axpby(s, &y, 3, &x, 1);
}

static void expect_out(recorder *r, float factor, float shift) { /* factor * (i + shift) */
  assert_int_equal(r->d->ops->stream_sync(r->s), TRI_OK);
  for (int i = 0; i < RECORDED; i++) assert_true(r->out[i] == factor * ((float)i + shift));
}

static void check_recorded(const char *name) {
  recorder   r;
  tri_graph *a = NULL, *b = NULL;
  recorder_open(&r, name);
  const tri_device_ops *ops = r.d->ops;
  for (int i = 0; i < RECORDED; i++) r.in[i] = (float)i;
  assert_int_equal(twice(&r, r.s), TRI_OK); /* queued before recording, so not recorded but done */
  assert_int_equal(ops->graph_record(r.s, show_and_add, &r, &b), TRI_OK);
  assert_int_equal(ops->graph_record(r.s, twice, &r, &a), TRI_OK);
  assert_int_equal(r.calls, 3);
  expect_out(&r, 0, 0);
  assert_int_equal(ops->graph_run(b, r.s), TRI_OK);
  expect_out(&r, 2, 0);
  assert_int_equal(ops->graph_run(b, r.s), TRI_OK);
  expect_out(&r, 5, 0);
  for (int run = 1; run < 4; run++) { /* the same calls with other numbers */
    for (int i = 0; i < RECORDED; i++) r.in[i] = (float)(i + run);
    assert_int_equal(ops->graph_run(a, r.s), TRI_OK);
    assert_int_equal(ops->graph_run(b, r.s), TRI_OK);
    expect_out(&r, 2, (float)run);
    assert_int_equal(show_and_add(&r, r.s), TRI_OK); /* calls and runs in one stream keep their order */
    assert_int_equal(ops->graph_run(b, r.s), TRI_OK);
    expect_out(&r, 8, (float)run);
  }
  assert_int_equal(r.calls, 6);
  ops->graph_close(&a);
  assert_null(a);
  ops->graph_close(&a);
  assert_int_equal(ops->graph_run(b, r.s), TRI_OK);
  expect_out(&r, 11, 3);
  ops->graph_close(&b);
  recorder_close(&r);
}

static tri_status fails(void *ctx, tri_stream *s) {
  TRI_TRY(twice(ctx, s));
  TRI_FAIL(TRI_EINPUT, "the work's own");
}
static tri_status waits(void *ctx, tri_stream *s) {
  TRI_TRY(twice(ctx, s));
  return s->device->ops->stream_sync(s);
}
static tri_status hides_a_wait(void *ctx, tri_stream *s) {
  if (s->device->ops->stream_sync(s) == TRI_OK) return TRI_OK;
  tri_error_clear();
  (void)twice(ctx, s);
  tri_error_clear();
  return TRI_OK;
}
static tri_status allocates(void *ctx, tri_stream *s) {
  void *p = NULL;
  (void)ctx;
  TRI_TRY(s->device->ops->alloc(s->device, TRI_MEM_DEVICE, 4096, &p));
  s->device->ops->free(s->device, TRI_MEM_DEVICE, &p);
  return TRI_OK;
}

/* A failed recording leaves no graph, and the stream as before. */
static void check_not_recorded(const char *name) {
  tri_status (*const work[])(void *, tri_stream *) = {fails, waits, hides_a_wait, allocates};
  recorder   r;
  tri_graph *b = NULL;
  recorder_open(&r, name);
  for (int i = 0; i < RECORDED; i++) r.in[i] = (float)i;
  assert_int_equal(r.d->ops->graph_record(r.s, show_and_add, &r, &b), TRI_OK);
  for (size_t i = 0; i < sizeof work / sizeof work[0]; i++) {
    tri_graph *g = (tri_graph *)(void *)&r;
    tri_status st = r.d->ops->graph_record(r.s, work[i], &r, &g);
    assert_true(i == 0 ? st == TRI_EINPUT : st != TRI_OK);
    assert_true(tri_error_message()[0]);
    assert_null(g);
    tri_error_clear();
    assert_int_equal(twice(&r, r.s), TRI_OK);
    assert_int_equal(r.d->ops->graph_run(b, r.s), TRI_OK);
    expect_out(&r, 2, 0);
  }
  r.d->ops->graph_close(&b);
  recorder_close(&r);
}

static void test_recorded_work(void **state) {
  (void)state;
  for (int i = 0; tri_device_at(i); i++) {
    if (!tri_device_at(i)->graph_record) continue;
    check_recorded(tri_device_at(i)->name);
    check_not_recorded(tri_device_at(i)->name);
  }
}

static void test_find_and_names(void **state) {
  tri_device    *d = NULL;
  void          *p = NULL, *q = NULL;
  tri_cpu_block *b;
  const void    *seen = NULL;

  (void)state;
  assert_int_equal(tri_device_open("cpu", 0, 1, &d), TRI_OK);
  assert_int_equal(d->ops->alloc(d, TRI_MEM_DEVICE, 10000, &p), TRI_OK);
  assert_int_equal(d->ops->alloc(d, TRI_MEM_DEVICE, 10000, &q), TRI_OK);
  b = tri_cpu_block_find(d, (char *)p + 9999);
  assert_non_null(b);
  assert_ptr_equal(b->data, p);
  assert_null(tri_cpu_block_find(d, d));
  if (b->shared) { /* this machine has shared memory */
    assert_int_equal(count_names(getpid()), 2);
    memcpy(p, "seen", 5);
    assert_int_equal(tri_cpu_map_open(b->name, b->bytes, &seen), TRI_OK);
    assert_string_equal(seen, "seen");
    assert_int_equal(tri_cpu_map_open(b->name, b->bytes + 4096, &(const void *){NULL}), TRI_ECOMM);
    tri_error_clear();
    tri_cpu_block_unname(b);
    assert_int_equal(count_names(getpid()), 1);
    memcpy(p, "still", 6);
    assert_string_equal(seen, "still");
    tri_cpu_map_close(&seen, b->bytes);
  }
  d->ops->free(d, TRI_MEM_DEVICE, &p);
  tri_device_close(&d); /* frees q */
  assert_int_equal(count_names(getpid()), 0);
}

static int killed_owner(void) {
  tri_device *d = NULL;
  void       *p = NULL;

  if (tri_device_open("cpu", 0, 1, &d) != TRI_OK) return 1;
  if (d->ops->alloc(d, TRI_MEM_DEVICE, 4096, &p) != TRI_OK) return 2;
  _exit(count_names(getpid()) == 1 ? 0 : 3); /* like SIGKILL, so nothing is cleaned up */
}

static void test_stale_names_go(void **state) {
  int         status = 0;
  pid_t       pid;
  tri_device *d = NULL;

  (void)state;
  fflush(NULL);
  pid = fork();
  if (pid == 0) _exit(killed_owner());
  assert_int_equal(waitpid(pid, &status, 0), pid);
  if (WEXITSTATUS(status) == 3) skip(); /* no shared memory here */
  assert_int_equal(status, 0);
  assert_int_equal(count_names(pid), 1);
  assert_int_equal(tri_device_open("cpu", 0, 1, &d), TRI_OK);
  assert_int_equal(count_names(pid), 0);
  tri_device_close(&d);
}

/* A limit on file sizes acts like a small /dev/shm. */
static int small_shm(void) {
  struct rlimit limit = {1 << 20, 1 << 20};
  tri_cpu_block b;
  int           bad = 0;

  signal(SIGXFSZ, SIG_IGN);
  if (setrlimit(RLIMIT_FSIZE, &limit)) return 1;
  if (tri_cpu_block_open(2 << 20, true, 2, &b) != TRI_OK) return 2;
  if (b.shared || !b.data || !b.why_private[0] || count_names(getpid()) != 0) bad = 3;
  memset(b.data, 1, b.bytes);
  tri_cpu_block_close(&b);
  return bad;
}

static void test_small_shm_gives_private_memory(void **state) {
  (void)state;
  assert_int_equal(in_child(small_shm), 0);
}

/* mincore reports untouched pages as missing. */
static void test_private_pages_are_taken(void **state) {
  size_t         page = (size_t)sysconf(_SC_PAGESIZE), bytes = ((size_t)5 << 20) + page;
  unsigned char *there = calloc(bytes / page, 1);
  tri_cpu_block  b;

  (void)state;
  for (int threads = 1; threads <= 3; threads++) {
    assert_int_equal(tri_cpu_block_open(bytes, false, threads, &b), TRI_OK);
    assert_int_equal(b.bytes, bytes);
    assert_int_equal(mincore(b.data, b.bytes, there), 0);
    for (size_t i = 0; i < bytes / page; i++) assert_true(there[i] & 1);
    for (size_t i = 0; i < bytes; i += page) assert_int_equal(((char *)b.data)[i], 0);
    tri_cpu_block_close(&b);
  }
  free(there);
}

static void test_reduce(void **state) {
  enum { N = 100003, K = 3 };
  static float    x[K][N], sum[N];
  static uint16_t h[K][N], top[N];
  const void     *src[K] = {x[0], x[1], x[2]}, *src_h[K] = {h[0], h[1], h[2]};

  (void)state;
  for (int k = 0; k < K; k++)
    for (int i = 0; i < N; i++) {
      x[k][i] = (float)((i * 31 + k * 7) % 1009) * 0.37f - 100.0f * (float)k;
      h[k][i] = tri_f32_to_bf16(x[k][i]);
    }
  h[1][5] = 0x7fc0; /* a NaN */
  assert_int_equal(tri_cpu_family_choose(), TRI_OK);
  tri_cpu_reduce(sum, src, K, N, TRI_F32, TRI_CPU_SUM, 2);
  tri_cpu_reduce(top, src_h, K, N, TRI_BF16, TRI_CPU_MAX, 2);
  for (int i = 0; i < N; i++) { /* judge: a plain loop in the same order */
    float want = x[0][i] + x[1][i], most;
    want += x[2][i];
    assert_memory_equal(&sum[i], &want, sizeof want);
    most = tri_bf16_to_f32(h[0][i]);
    for (int k = 1; k < K; k++)
      if (tri_bf16_to_f32(h[k][i]) > most) most = tri_bf16_to_f32(h[k][i]);
    assert_int_equal(top[i], i == 5 ? 0x7fc0 : tri_f32_to_bf16(most));
  }
}

/* Chooses each family by name. All families of this processor work, and missing ones are refused. */
static void test_families(void **state) {
  static const char *const name[] = {"avx512", "avx2", "neoverse_v2", "neon", "generic", "avx9"};
  const char              *before = getenv("TRI_CPU_KERNELS");
  char                    *kept = before ? strdup(before) : NULL;
  int                      here = 0;

  (void)state;
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    setenv("TRI_CPU_KERNELS", name[i], 1);
    tri_status st = tri_cpu_family_choose();
    if (st == TRI_OK) {
      here++;
      assert_string_equal(tri_cpu_family_find()->name, name[i]);
      no_null(&tri_cpu_family_find()->kernels, sizeof(tri_kernels));
      continue;
    }
    assert_int_equal(st, strcmp(name[i], "avx9") ? TRI_EDEVICE : TRI_ECONFIG);
    assert_null(tri_cpu_family_find());
    expect_refusal("tri_cpu_family_choose() TRI_CPU_KERNELS unset");
    expect_refusal(name[i]);
    tri_error_clear();
  }
  assert_in_range(here, 1, 2);
  unsetenv("TRI_CPU_KERNELS");
  assert_int_equal(tri_cpu_family_choose(), TRI_OK);
  if (kept) setenv("TRI_CPU_KERNELS", kept, 1);
  free(kept);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tables),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_too_large),
      cmocka_unit_test(test_copy_fill_events),
      cmocka_unit_test(test_recorded_work),
      cmocka_unit_test(test_find_and_names),
      cmocka_unit_test(test_stale_names_go),
      cmocka_unit_test(test_small_shm_gives_private_memory),
      cmocka_unit_test(test_private_pages_are_taken),
      cmocka_unit_test(test_reduce),
      cmocka_unit_test(test_families),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
