/* test_emulate.cpp - tests the emulation itself: meetings, shuffles, products, memory, order, and mistakes
 * that end with a message. Judges: plain loops, and the message of a child process. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/base/cuda_util.cuh"

#include <cublasLt.h>
#include <initializer_list>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include <cmocka.h>
}

static tri_device *device;
static tri_stream *stream;

static void ok(tri_status st) {
  if (st != TRI_OK) fail_msg("%s", tri_error_trace());
}
static void *device_alloc(size_t bytes) {
  void *p = NULL;
  ok(device->ops->alloc(device, TRI_MEM_DEVICE, bytes, &p));
  return p;
}
static void device_free(void *p) { device->ops->free(device, TRI_MEM_DEVICE, &p); }
static void fetch(void *to, const void *from, size_t bytes) {
  ok(device->ops->copy(stream, to, from, bytes));
  ok(device->ops->stream_sync(stream));
}

static int set_up(void **) {
  if (tri_device_open("cuda", 0, 1, &device) != TRI_OK) return -1;
  return device->ops->stream_open(device, "test", &stream) == TRI_OK ? 0 : -1;
}
static int tear_down(void **) {
  device->ops->stream_close(&stream);
  tri_device_close(&device);
  return 0;
}

/* Returns the message of a child running `body`, which must end as the emulation ends a program. */
static void expect_message(void (*body)(), const char *text) {
  char    said[4096];
  int     pipe_fd[2], status = 0;
  ssize_t n, got = 0;
  pid_t   pid;

  assert_int_equal(pipe(pipe_fd), 0);
  fflush(NULL);
  pid = fork();
  if (pid == 0) {
    dup2(pipe_fd[1], 2);
    body();
    if (device->ops->stream_sync(stream) != TRI_OK) _exit(1);
    _exit(0);
  }
  close(pipe_fd[1]);
  while ((n = read(pipe_fd[0], said + got, sizeof said - 1 - (size_t)got)) > 0) got += n;
  said[got] = 0;
  close(pipe_fd[0]);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 99) fail_msg("status %d, said: %s", status, said);
  if (!strstr(said, text)) fail_msg("wanted '%s', said: %s", text, said);
}

/* ---- meetings ---- */

__global__ void reverse_kernel(int *y, const int *x, int n) { /* through shared memory */
  TRI_SHARED(int, part, [97]);
  int i = threadIdx.x;
  part[i] = x[blockIdx.x * n + i];
  __syncthreads();
  y[blockIdx.x * n + i] = part[n - 1 - i];
}
static void test_barrier(void **) {
  enum { N = 97, BLOCKS = 13 };
  int  x[N * BLOCKS], y[N * BLOCKS];
  int *dx = (int *)device_alloc(sizeof x), *dy = (int *)device_alloc(sizeof y);
  for (int i = 0; i < N * BLOCKS; i++) x[i] = i;
  ok(device->ops->copy(stream, dx, x, sizeof x));
  ok(TRI_LAUNCH(reverse_kernel, BLOCKS, N, 0, stream, dy, dx, N));
  fetch(y, dy, sizeof y);
  for (int b = 0; b < BLOCKS; b++)
    for (int i = 0; i < N; i++) assert_int_equal(y[b * N + i], x[b * N + N - 1 - i]);
  device_free(dx), device_free(dy);
}

__global__ void half_barrier_kernel(int) {
  if (threadIdx.x < 40) __syncthreads();
}
__global__ void two_barriers_kernel(int) {
  if (threadIdx.x < 40)
    __syncthreads();
  else
    __syncthreads();
}
__global__ void half_shuffle_kernel(int *y) {
  int v = (int)threadIdx.x;
  if (threadIdx.x < 16) v = __shfl_sync(~0u, v, 3);
  y[threadIdx.x] = v;
}
__global__ void outside_mask_kernel(int *y) { y[threadIdx.x] = __shfl_sync(0xffffu, (int)threadIdx.x, 3); }
__global__ void absent_lane_kernel(int *y) {
  if (threadIdx.x < 16) y[threadIdx.x] = __shfl_sync(0xffffu, (int)threadIdx.x, 20);
}
static void test_divergence(void **) {
  expect_message([] { ok(TRI_LAUNCH(half_barrier_kernel, 1, 64, 0, stream, 0)); },
                 "not reached by all its threads");
  expect_message([] { ok(TRI_LAUNCH(two_barriers_kernel, 1, 64, 0, stream, 0)); },
                 "meet at different barriers");
  expect_message([] { ok(TRI_LAUNCH(half_shuffle_kernel, 1, 32, 0, stream, device_alloc(128))); },
                 "not reached by all its threads");
  expect_message([] { ok(TRI_LAUNCH(outside_mask_kernel, 1, 32, 0, stream, device_alloc(128))); },
                 "in which it is not");
  expect_message([] { ok(TRI_LAUNCH(absent_lane_kernel, 1, 32, 0, stream, device_alloc(128))); },
                 "takes no part");
}

__global__ void shuffles_kernel(int *y) { /* 64 threads, 8 results each */
  int t = (int)threadIdx.x, v = 100 + t, *to = y + 8 * t;
  to[0] = __shfl_sync(~0u, v, 5);
  to[1] = __shfl_xor_sync(~0u, v, 3);
  to[2] = __shfl_down_sync(~0u, v, 4);
  to[3] = __shfl_up_sync(~0u, v, 1);
  to[4] = __shfl_sync(~0u, v, 2, 8);
  to[5] = (int)__ballot_sync(~0u, t % 3 == 0);
  to[6] = t % 32 < 16 ? __shfl_xor_sync(0xffffu, v, 1) : __shfl_xor_sync(0xffff0000u, v, 2);
  to[7] = __any_sync(~0u, t == 40) + 2 * __all_sync(~0u, t >= 32) + 4 * __syncthreads_or(t == 1) +
          8 * __syncthreads_count(t < 7);
}
static void test_shuffles(void **) {
  int y[64 * 8], *dy = (int *)device_alloc(sizeof y);
  ok(TRI_LAUNCH(shuffles_kernel, 1, 64, 0, stream, dy));
  fetch(y, dy, sizeof y);
  for (int t = 0; t < 64; t++) {
    int      base = t / 32 * 32, lane = t % 32, *got = y + 8 * t;
    unsigned vote = 0;
    for (int i = 0; i < 32; i++) vote |= (unsigned)((base + i) % 3 == 0) << i;
    assert_int_equal(got[0], 100 + base + 5);
    assert_int_equal(got[1], 100 + (t ^ 3));
    assert_int_equal(got[2], 100 + (lane + 4 < 32 ? t + 4 : t));
    assert_int_equal(got[3], 100 + (lane > 0 ? t - 1 : t));
    assert_int_equal(got[4], 100 + t / 8 * 8 + 2);
    assert_int_equal((unsigned)got[5], vote);
    assert_int_equal(got[6], 100 + (t ^ (lane < 16 ? 1 : 2)));
    assert_int_equal(got[7], (t >= 32) + 2 * (t >= 32) + 4 + 8 * 7);
  }
  device_free(dy);
}

__global__ void barrier_pair_kernel(int *y) { /* two halves meet separately */
  TRI_SHARED(int, part, [64]);
  int t = (int)threadIdx.x, half = t / 32;
  part[t] = t;
  tri_barrier(1 + half, 32);
  y[t] = part[half * 32 + 31 - t % 32];
}
__global__ void sums_kernel(float *y, const float *x) {
  int t = (int)threadIdx.x;
  y[2 * t] = tri_block_sum<4>(x[t]);
  y[2 * t + 1] = tri_block_max<4>(x[t]);
}
static void test_block(void **) {
  int   y[64], *dy = (int *)device_alloc(sizeof y);
  float x[128], s[256], sum = 0, *dx = (float *)device_alloc(sizeof x), *ds = (float *)device_alloc(sizeof s);
  ok(TRI_LAUNCH(barrier_pair_kernel, 1, 64, 0, stream, dy));
  fetch(y, dy, sizeof y);
  for (int t = 0; t < 64; t++) assert_int_equal(y[t], t / 32 * 32 + 31 - t % 32);
  for (int t = 0; t < 128; t++) x[t] = (float)((t * 37) % 101), sum += x[t];
  ok(device->ops->copy(stream, dx, x, sizeof x));
  ok(TRI_LAUNCH(sums_kernel, 1, 128, 0, stream, ds, dx));
  fetch(s, ds, sizeof s);
  for (int t = 0; t < 128; t++) assert_true(s[2 * t] == sum && s[2 * t + 1] == 100);
  device_free(dy), device_free(dx), device_free(ds);
}

/* ---- products ---- */

/* d[16,8] = a[16,16] b[16,8], with a and b through shared memory and ldmatrix. b is stored [16,8]. */
__global__ void product_kernel(float *d, const tri_bf16 *a, const tri_bf16 *b) {
  TRI_SHARED(tri_bf16, sa, [16 * 16]);
  TRI_SHARED(tri_bf16, sb, [16 * 8]);
  int      lane = (int)threadIdx.x, g = lane / 4, t = lane % 4;
  uint32_t fa[4], fb[2];
  float    fd[4] = {0, 0, 0, 0};
  tri_cp_async16(sa + 8 * lane, a + 8 * lane);
  tri_cp_commit();
  tri_cp_async16(sb + 8 * (lane % 16), b + 8 * (lane % 16), lane < 16);
  tri_cp_commit();
  tri_cp_wait<0>();
  __syncwarp();
  if (lane < 16) { /* the lanes above have put zeros there */
    for (int i = 0; i < 8; i++) sb[8 * lane + i] = b[8 * lane + i];
  }
  __syncwarp();
  tri_ldmatrix<4, false>(fa, sa + (lane % 16) * 16 + lane / 16 * 8);
  tri_ldmatrix<2, true>(fb, sb + (lane % 16) * 8);
  tri_mma_bf16(fd, fa, fb);
  for (int i = 0; i < 4; i++) d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = fd[i];
}
static void test_product(void **) {
  tri_bf16 a[256], b[128];
  float    d[128], *dd = (float *)device_alloc(sizeof d);
  void    *da = device_alloc(sizeof a), *db = device_alloc(sizeof b);
  for (int i = 0; i < 256; i++) a[i] = tri_f32_to_bf16((float)(i * 7 % 31 - 15));
  for (int i = 0; i < 128; i++) b[i] = tri_f32_to_bf16((float)(i * 5 % 23 - 11));
  ok(device->ops->copy(stream, da, a, sizeof a));
  ok(device->ops->copy(stream, db, b, sizeof b));
  ok(TRI_LAUNCH(product_kernel, 1, 32, 0, stream, dd, da, db));
  fetch(d, dd, sizeof d);
  for (int r = 0; r < 16; r++)
    for (int c = 0; c < 8; c++) {
      float want = 0; /* small integers are exact */
      for (int k = 0; k < 16; k++) want += tri_bf16_to_f32(a[r * 16 + k]) * tri_bf16_to_f32(b[k * 8 + c]);
      assert_true(d[r * 8 + c] == want);
    }
  device_free(da), device_free(db), device_free(dd);
}

/* Misuses of the library: parts of sums without a fixed order, too little workspace, an invented
 * algorithm. */
static cublasLtHandle_t     lt;
static cublasLtMatmulDesc_t lt_desc;

static void lt_ok(cublasStatus_t st) { assert_int_equal(st, CUBLAS_STATUS_SUCCESS); }

/* Returns the first algorithm for f32 [8,8] products with these schemes permitted. */
static cublasLtMatmulHeuristicResult_t lt_first(uint32_t scheme, cublasLtMatrixLayoutOpaque_t *square) {
  cublasLtMatmulPreference_t      pref;
  cublasLtMatmulHeuristicResult_t got;
  const uint64_t                  bytes = 1 << 20;
  int                             n = 0;
  lt_ok(cublasLtMatrixLayoutInit(square, CUDA_R_32F, 8, 8, 8));
  lt_ok(cublasLtMatmulPreferenceCreate(&pref));
  lt_ok(cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                             sizeof bytes));
  lt_ok(cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme,
                                             sizeof scheme));
  lt_ok(cublasLtMatmulAlgoGetHeuristic(lt, lt_desc, square, square, square, square, pref, 1, &got, &n));
  assert_int_equal(n, 1);
  cublasLtMatmulPreferenceDestroy(pref);
  return got;
}

static void lt_multiply(const cublasLtMatmulAlgo_t *algo, cublasLtMatrixLayoutOpaque_t *square, size_t room) {
  const float one = 1, zero = 0;
  void       *x = device_alloc(256);
  lt_ok(cublasLtMatmul(lt, lt_desc, &one, x, square, x, square, &zero, x, square, x, square, algo,
                       device_alloc(room), room, tri_cuda_stream_of(stream)));
}

static void test_library(void **) {
  lt_ok(cublasLtCreate(&lt));
  lt_ok(cublasLtMatmulDescCreate(&lt_desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  cublasLtMatrixLayoutOpaque_t          square;
  const cublasLtMatmulHeuristicResult_t whole = lt_first(CUBLASLT_REDUCTION_SCHEME_NONE, &square),
                                        parts = lt_first(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, &square);
  assert_true(parts.workspaceSize >= whole.workspaceSize + 2 * 8 * 8 * sizeof(float));
  expect_message([] { lt_first(1, new cublasLtMatrixLayoutOpaque_t); },
                 "whose order or precision is not fixed");
  expect_message(
      [] {
        cublasLtMatrixLayoutOpaque_t    t;
        cublasLtMatmulHeuristicResult_t got = lt_first(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, &t);
        lt_multiply(&got.algo, &t, got.workspaceSize - 1);
      },
      "the algorithm asked for");
  expect_message(
      [] {
        cublasLtMatrixLayoutOpaque_t t;
        cublasLtMatmulAlgo_t         none = {};
        lt_first(CUBLASLT_REDUCTION_SCHEME_NONE, &t);
        lt_multiply(&none, &t, 1 << 16);
      },
      "an algorithm that no heuristic gave");
  cublasLtMatmulDescDestroy(lt_desc);
  cublasLtDestroy(lt);
}

/* ---- memory ---- */

__global__ void unset_kernel(float *y) { /* reads unwritten memory */
  TRI_SHARED(float, part, [32]);
  TRI_SHARED_DYNAMIC(float, all);
  y[threadIdx.x] = part[threadIdx.x];
  y[32 + threadIdx.x] = all[threadIdx.x];
  __syncthreads();
  part[threadIdx.x] = all[threadIdx.x] = 1;
}
__global__ void early_kernel(uint32_t *y, const uint32_t *x) { /* reads before the wait, and after */
  TRI_SHARED(uint32_t, part, [4]);
  tri_cp_async16(part, x);
  tri_cp_commit();
  y[0] = part[0];
  tri_cp_wait<0>();
  y[1] = part[0];
}
__global__ void beyond_dynamic_kernel(float *y, int at) {
  TRI_SHARED_DYNAMIC(float, all);
  all[at] = 1;
  y[0] = all[0];
}
__global__ void beyond_static_kernel(float *y, int at) {
  TRI_SHARED(float, part, [8]);
  part[at] = 1;
  y[0] = part[0];
}
__global__ void write_kernel(int *y, int64_t at) { y[at] = 1; }
__global__ void count_kernel(int *y) { atomicAdd(y, 1); }
__global__ void first_kernel(int *y) {
  if (atomicAdd(y, 1) == 0) y[1] = (int)blockIdx.x;
}

static void test_shared_memory(void **) {
  float    y[64], *dy = (float *)device_alloc(sizeof y);
  uint32_t x[4] = {7, 0, 0, 0}, z[2], *dx = (uint32_t *)device_alloc(16), *dz = (uint32_t *)device_alloc(8);
  for (int turn = 0; turn < 2; turn++) {
    ok(TRI_LAUNCH(unset_kernel, 3, 32, 128, stream, dy));
    fetch(y, dy, sizeof y);
    for (int i = 0; i < 64; i++) assert_true(y[i] != y[i]);
  }
  ok(device->ops->copy(stream, dx, x, sizeof x));
  int early = 0;
  for (int i = 0; i < 64; i++) { /* bytes read before the wait are there or not, by chance */
    ok(TRI_LAUNCH(early_kernel, 1, 1, 0, stream, dz, dx));
    fetch(z, dz, sizeof z);
    assert_true((z[0] == ~0u || z[0] == 7) && z[1] == 7);
    early += z[0] == 7;
  }
  assert_true(early > 8 && early < 56);
  ok(TRI_LAUNCH(beyond_dynamic_kernel, 1, 1, 64 * 1024, stream, dy, 16383));
  ok(device->ops->stream_sync(stream));
  expect_message([] { ok(TRI_LAUNCH(beyond_dynamic_kernel, 1, 1, 128, stream, device_alloc(4), 32)); },
                 "beyond the launch's");
  expect_message([] { ok(TRI_LAUNCH(beyond_static_kernel, 1, 1, 0, stream, device_alloc(4), 8)); },
                 "'part' was written beyond");
  tri_error_clear();
  assert_int_equal(TRI_LAUNCH(count_kernel, 1, 1025, 0, stream, (void *)dz), TRI_EDEVICE);
  tri_error_clear();
  device_free(dy), device_free(dx), device_free(dz);
}

static void test_device_memory(void **) {
  expect_message([] { *(volatile int *)device_alloc(64) = 1; }, "the host touched device memory");
  expect_message([] { printf("%d", *(volatile int *)device_alloc(64)); }, "the host touched device memory");
  expect_message([] { ok(TRI_LAUNCH(write_kernel, 1, 1, 0, stream, device_alloc(64), 4096)); },
                 "outside of every device allocation");
  expect_message(
      [] {
        void *p = device_alloc(64);
        ok(TRI_LAUNCH(write_kernel, 1, 1, 0, stream, p, 20));
        device_free(p);
      },
      "written beyond the 64 bytes");
  expect_message([] { ok(device->ops->copy(stream, device_alloc(64), "x", 65)); },
                 "leaves the device memory");
  expect_message(
      [] {
        int *p = (int *)malloc(64);
        ok(TRI_LAUNCH(write_kernel, 1, 1, 0, stream, device_alloc(4), 1 << 20));
        free(p);
      },
      "outside of every device allocation");
}

/* Queued work runs when it is waited for, not before. A copy from page-locked memory takes its bytes then. */
static void test_late(void **) {
  int   y = 0, *dy = (int *)device_alloc(sizeof y), *pinned = NULL;
  void *p = NULL;
  ok(device->ops->alloc(device, TRI_MEM_PINNED, sizeof(int), &p));
  pinned = (int *)p;
  *pinned = 1;
  ok(device->ops->copy(stream, dy, pinned, sizeof y));
  *pinned = 2;
  fetch(&y, dy, sizeof y);
  assert_int_equal(y, 2);
  ok(device->ops->copy(stream, dy, &y, sizeof y)); /* other memory is read at once */
  y = 3;
  fetch(&y, dy, sizeof y);
  assert_int_equal(y, 2);
  *pinned = 5;
  ok(TRI_LAUNCH(count_kernel, 1, 1, 0, stream, dy));
  ok(device->ops->copy(stream, pinned, dy, sizeof y));
  assert_int_equal(*pinned, 5);
  ok(device->ops->stream_sync(stream));
  assert_int_equal(*pinned, 3);
  device_free(dy);
  device->ops->free(device, TRI_MEM_PINNED, &p);
}

/* A stream that waits for an event runs after it. Another stream sees the earlier contents. */
static void test_events(void **) {
  for (int wait = 0; wait < 2; wait++) {
    tri_stream *other = NULL;
    tri_event  *e = NULL;
    int         y = 0, *dy = (int *)device_alloc(sizeof y);
    ok(device->ops->stream_open(device, "other", &other));
    ok(device->ops->event_open(device, &e));
    ok(TRI_LAUNCH(count_kernel, 1, 32, 0, stream, dy));
    ok(device->ops->event_record(e, stream));
    ok(TRI_LAUNCH(count_kernel, 1, 32, 0, stream, dy));
    if (wait) ok(device->ops->stream_wait(other, e));
    ok(device->ops->copy(other, &y, dy, sizeof y));
    ok(device->ops->stream_sync(other));
    assert_int_equal(y, wait ? 32 : 0);
    fetch(&y, dy, sizeof y);
    assert_int_equal(y, 64);
    device->ops->event_close(&e);
    device->ops->stream_close(&other);
    device_free(dy);
  }
}

/* Errors of calls during a capture of one stream, and its invalidation. The errors are NVIDIA's. */
static void expect_refused(cudaError_t (*call)(cudaStream_t s, cudaEvent_t before), cudaError_t want) {
  cudaStream_t s = tri_cuda_stream_of(stream);
  cudaEvent_t  before;
  cudaGraph_t  g = NULL;
  int         *dy = (int *)device_alloc(4), y = -1;
  assert_int_equal(cudaEventCreateWithFlags(&before, cudaEventDefault), cudaSuccess);
  assert_int_equal(cudaEventRecord(before, s), cudaSuccess);
  assert_int_equal(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  assert_int_equal(call(s, before), want);
  assert_int_equal(cudaMemsetAsync(dy, 1, 4, s), cudaErrorStreamCaptureInvalidated);
  assert_int_equal(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
  assert_null(g);
  assert_int_equal(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
  fetch(&y, dy, sizeof y);
  assert_int_equal(y, 0);
  device_free(dy);
  cudaEventDestroy(before);
}
static void test_capture(void **) {
  cudaStream_t    s = tri_cuda_stream_of(stream);
  cudaGraph_t     g = NULL;
  cudaGraphExec_t run = NULL;
  cudaEvent_t     e;
  int             y = 0, *dy = (int *)device_alloc(4);
  expect_refused([](cudaStream_t t, cudaEvent_t) { return cudaStreamSynchronize(t); },
                 cudaErrorStreamCaptureUnsupported);
  expect_refused([](cudaStream_t, cudaEvent_t) { return cudaDeviceSynchronize(); },
                 cudaErrorStreamCaptureUnsupported);
  expect_refused([](cudaStream_t, cudaEvent_t before) { return cudaEventQuery(before); },
                 cudaErrorStreamCaptureUnsupported);
  expect_refused([](cudaStream_t, cudaEvent_t before) { return cudaEventSynchronize(before); },
                 cudaErrorStreamCaptureUnsupported);
  expect_refused([](cudaStream_t t, cudaEvent_t before) { return cudaStreamWaitEvent(t, before, 0); },
                 cudaErrorStreamCaptureIsolation);
  expect_refused(
      [](cudaStream_t, cudaEvent_t) {
        void *p;
        return cudaMalloc(&p, 1);
      },
      cudaErrorStreamCaptureUnsupported);
  expect_refused(
      [](cudaStream_t, cudaEvent_t) {
        static char of_this_process;
        return cudaFree(&of_this_process);
      },
      cudaErrorStreamCaptureUnsupported);
  expect_refused(
      [](cudaStream_t t, cudaEvent_t) {
        static int pageable[2];
        return cudaMemcpyAsync(pageable, pageable + 1, sizeof(int), cudaMemcpyDefault, t);
      },
      cudaErrorStreamCaptureUnsupported);
  /* an event of the capture itself may be waited for in the capture, and nowhere else */
  assert_int_equal(cudaEventCreateWithFlags(&e, cudaEventDefault), cudaSuccess);
  assert_int_equal(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  assert_int_equal(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), cudaErrorIllegalState);
  ok(TRI_LAUNCH(count_kernel, 2, 32, 0, stream, dy));
  assert_int_equal(cudaEventRecord(e, s), cudaSuccess);
  assert_int_equal(cudaStreamWaitEvent(s, e, 0), cudaSuccess);
  assert_int_equal(cudaStreamEndCapture(s, &g), cudaSuccess);
  assert_int_equal(cudaStreamWaitEvent(s, e, 0), cudaErrorCapturedEvent);
  assert_int_equal(cudaEventQuery(e), cudaErrorCapturedEvent);
  assert_int_equal(cudaGraphInstantiate(&run, g, 0), cudaSuccess);
  assert_int_equal(cudaGraphDestroy(g), cudaSuccess);
  for (int i = 0; i < 3; i++) {
    fetch(&y, dy, sizeof y);
    assert_int_equal(y, 64 * i);
    assert_int_equal(cudaGraphLaunch(run, s), cudaSuccess);
  }
  assert_int_equal(cudaGraphExecDestroy(run), cudaSuccess); /* its last run is still queued */
  fetch(&y, dy, sizeof y);
  assert_int_equal(y, 64 * 3);
  (void)cudaGetLastError();
  cudaEventDestroy(e);
  device_free(dy);
}

/* Blocks come in another order from launch to launch. */
static void test_order(void **) {
  int seen[16] = {0}, different = 0;
  for (int turn = 0; turn < 20; turn++) {
    int y[2], *dy = (int *)device_alloc(sizeof y);
    ok(TRI_LAUNCH(first_kernel, 16, 32, 0, stream, dy));
    fetch(y, dy, sizeof y);
    assert_int_equal(y[0], 16 * 32);
    different += seen[y[1]]++ == 0;
    device_free(dy);
  }
  assert_true(different > 4);
}

static void test_devices(void **) {
  tri_device *d = NULL;
  setenv("TRI_EMULATE_DEVICES", "2", 1);
  assert_int_equal(tri_device_open("cuda", 2, 1, &d), TRI_EDEVICE);
  assert_non_null(strstr(tri_error_message(), "local rank 2 "));
  tri_error_clear();
  setenv("TRI_EMULATE_DEVICES", "0", 1);
  assert_int_equal(tri_device_open("cuda", 0, 1, &d), TRI_EDEVICE);
  assert_non_null(strstr(tri_error_message(), "shows no GPU"));
  tri_error_clear();
  unsetenv("TRI_EMULATE_DEVICES");
}

int main() {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_barrier),       cmocka_unit_test(test_divergence),
      cmocka_unit_test(test_shuffles),      cmocka_unit_test(test_block),
      cmocka_unit_test(test_product),       cmocka_unit_test(test_library),
      cmocka_unit_test(test_shared_memory), cmocka_unit_test(test_device_memory),
      cmocka_unit_test(test_late),          cmocka_unit_test(test_events),
      cmocka_unit_test(test_capture),       cmocka_unit_test(test_order),
      cmocka_unit_test(test_devices),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
