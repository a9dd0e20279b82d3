/* device_cuda.c - a GPU as a device: memory, streams, events, the table of kernels. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_cuda.h"
#include "base/choice.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "device/gpu_plan.h"
#include "gpu/base/cuda_impl.h"
#include "gpu/cudnn/sdpa.h"
#include "gpu/gemm/gemm_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tri_event {
  cudaEvent_t event;
  bool        recorded;
};

struct tri_graph {
  cudaGraphExec_t exec;
};

enum { ALIGN = 256 }; /* specified in device.h */

/* Chooses the GPU of this local rank. Ranks share a GPU only if the user set run.collectives (comm.h).
 * Otherwise the run ends. */
static tri_status choose(int local_rank, int *ordinal) {
  int         n = 0;
  cudaError_t e = cudaGetDeviceCount(&n);

  if (e != cudaSuccess || n == 0) {
    (void)cudaGetLastError();
    TRI_FAIL(TRI_EDEVICE,
             "run.device is cuda but this machine shows no GPU (%s). Ask the scheduler for one "
             "(--gpus-per-node), check nvidia-smi and CUDA_VISIBLE_DEVICES, or set run.device: cpu",
             e != cudaSuccess ? cudaGetErrorString(e) : "the driver found none");
  }
  /* If the scheduler shows each rank its own GPU, there is only one. */
  if (n == 1) return *ordinal = 0, TRI_OK;
  if (local_rank >= n && !*tri_choice_word(TRI_CHOICE_COLLECTIVES))
    TRI_FAIL(TRI_EDEVICE,
             "local rank %d needs a GPU of its own but this machine shows %d. Start at most %d rank%s here "
             "(--ntasks-per-node) or ask for more GPUs. For a test, set run.collectives: staged",
             local_rank, n, n, n == 1 ? "" : "s");
  *ordinal = local_rank % n;
  return TRI_OK;
}

static int cuda_count(void) {
  int         n = 0, driver = 0;
  cudaError_t e = cudaGetDeviceCount(&n);

  if (e == cudaSuccess) return n;
  (void)cudaGetLastError();
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0 && e != cudaErrorNoDevice)
    tri_log(TRI_LOG_WARN, "the GPUs of this machine cannot be used: %s (%s)", cudaGetErrorString(e),
            cudaGetErrorName(e));
  return 0;
}

static tri_status cuda_open(int local_rank, int threads, tri_device **out) {
  tri_status            st = TRI_OK;
  tri_cuda_device      *d = NULL;
  struct cudaDeviceProp prop;
  int                   ordinal = 0;

  *out = NULL;
  TRI_TRY_DONE(choose(local_rank, &ordinal));
  TRI_TRY_DONE(TRI_ALLOC(d, 1));
  TRI_CUDA_TRY_DONE(cudaSetDevice(ordinal));
  TRI_CUDA_TRY_DONE(cudaGetDeviceProperties(&prop, ordinal));
  if (prop.major < 8)
    TRI_FAIL_DONE(
        TRI_EDEVICE,
        "the GPU %s has compute capability %d.%d. This program needs at least 8.0 (A100), also for fp16. "
        "Use a newer GPU, or set run.device: cpu",
        prop.name, prop.major, prop.minor);
  if (prop.sharedMemPerBlockOptin < TRI_CUDA_SHARED_LEAST)
    TRI_FAIL_DONE(
        TRI_EDEVICE,
        "the GPU %s (compute capability %d.%d) gives a block %zu KiB of shared memory but the kernels of "
        "this program need %d KiB. Use another GPU, or set run.device: cpu",
        prop.name, prop.major, prop.minor, prop.sharedMemPerBlockOptin / 1024, TRI_CUDA_SHARED_LEAST / 1024);
  d->base = (tri_device){.ops = &tri_cuda_device_ops, .index = ordinal, .threads = threads};
  memcpy(d->base.uuid, prop.uuid.bytes, sizeof d->base.uuid);
  d->n_sm = prop.multiProcessorCount;
  d->advice = (tri_device_advice){.logit_bytes = tri_gpu_logit_bytes(prop.totalGlobalMem),
                                  .spread_heads = tri_gpu_spread_heads(d->n_sm),
                                  .spread_tokens = TRI_GPU_SPREAD_TOKENS};
  d->capability = prop.major * 10 + prop.minor;
  d->shared_bytes = prop.sharedMemPerBlockOptin;
  d->l2_bytes = prop.l2CacheSize > 0 ? (size_t)prop.l2CacheSize : 0;
  snprintf(d->base.model, sizeof d->base.model, "%s", prop.name);
  TRI_TRY_DONE(tri_cudnn_open(d));
  if (d->cudnn) d->advice.attn_bytes = TRI_GPU_ATTN_BYTES;
  *out = &d->base;
  d = NULL;
done:
  TRI_FREE(d);
  return st;
}

static void cuda_close(tri_device **d) {
  tri_cuda_blas_close((tri_cuda_device *)*d);
  tri_cudnn_close((tri_cuda_device *)*d);
  TRI_FREE(*d);
}

static void cuda_advice(const tri_device *d, tri_device_advice *out) {
  *out = ((const tri_cuda_device *)d)->advice;
}

static void cuda_leave_sm(tri_device *d, int n) { ((tri_cuda_device *)d)->lane_sm = n; }

static tri_status cuda_mem_info(tri_device *d, size_t *bytes_free, size_t *bytes_total) {
  (void)d;
  TRI_CUDA_TRY(cudaMemGetInfo(bytes_free, bytes_total));
  return TRI_OK;
}

/* Zeroes the memory before anything else can use it, in a stream of its own, and waits. */
static tri_status zero(void *p, size_t bytes) {
  tri_status   st = TRI_OK;
  cudaStream_t s = NULL;

  TRI_CUDA_TRY_DONE(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  TRI_CUDA_TRY_DONE(cudaMemsetAsync(p, 0, bytes, s));
  TRI_CUDA_TRY_DONE(cudaStreamSynchronize(s));
done:
  if (s) cudaStreamDestroy(s);
  return st;
}

static tri_status alloc_device(size_t bytes, void **out) {
  tri_status st = TRI_OK;
  size_t     bytes_free = 0, bytes_total = 0;

  TRI_CUDA_TRY(cudaMemGetInfo(&bytes_free, &bytes_total));
  if (bytes > bytes_total || cudaMalloc(out, bytes) != cudaSuccess) {
    (void)cudaGetLastError();
    *out = NULL;
    TRI_FAIL(TRI_ENOMEM, "the GPU could not allocate %zu bytes. %zu of %zu are free", bytes, bytes_free,
             bytes_total);
  }
  TRI_TRY_DONE(zero(*out, bytes));
done:
  if (st != TRI_OK) {
    cudaFree(*out);
    *out = NULL;
  }
  return st;
}

static tri_status alloc_pinned(size_t bytes, void **out) {
  if (bytes > PTRDIFF_MAX || cudaHostAlloc(out, bytes, cudaHostAllocPortable) != cudaSuccess) {
    (void)cudaGetLastError();
    *out = NULL;
    TRI_FAIL(TRI_ENOMEM, "the host could not allocate %zu bytes of page-locked memory", bytes);
  }
  memset(*out, 0, bytes);
  return TRI_OK;
}

static tri_status cuda_alloc(tri_device *d, tri_mem kind, size_t bytes, void **out) {
  *out = NULL;
  if (kind == TRI_MEM_HOST) return tri_pages_alloc(bytes, out);
  TRI_CUDA_TRY(cudaSetDevice(d->index));
  bytes = bytes ? bytes : 1;
  return kind == TRI_MEM_DEVICE ? alloc_device(bytes, out) : alloc_pinned(bytes, out);
}

static void cuda_free(tri_device *d, tri_mem kind, void **p) {
  cudaError_t e = cudaSuccess;

  (void)d;
  if (!*p) return;
  if (kind == TRI_MEM_HOST)
    tri_pages_free(p);
  else
    e = kind == TRI_MEM_DEVICE ? cudaFree(*p) : cudaFreeHost(*p);
  TRI_ASSERT(e != cudaErrorInvalidValue); /* not the start of a block. Other errors belong to earlier work */
  *p = NULL;
}

static void cuda_stream_close(tri_stream **s) {
  tri_cuda_stream *c = (tri_cuda_stream *)*s;

  if (!c) return;
  if (c->stream) cudaStreamDestroy(c->stream);
  cudaFree(c->scratch);
  TRI_FREE(c);
  *s = NULL;
}

static tri_status cuda_stream_open(tri_device *d, const char *name, tri_stream **out) {
  tri_status       st = TRI_OK;
  tri_cuda_stream *c = NULL;
  tri_stream      *open = NULL;

  (void)name;
  *out = NULL;
  TRI_CUDA_TRY(cudaSetDevice(d->index));
  TRI_TRY(TRI_ALLOC(c, 1));
  open = &c->base;
  open->device = d;
  TRI_CUDA_TRY_DONE(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking));
  TRI_CUDA_TRY_DONE(cudaMalloc(&c->scratch, TRI_CUDA_SCRATCH));
  *out = open;
  open = NULL;
done:
  cuda_stream_close(&open);
  return st;
}

static tri_status cuda_stream_sync(tri_stream *s) {
  TRI_CUDA_TRY(cudaStreamSynchronize(tri_cuda_stream_of(s)));
  return TRI_OK;
}

static tri_status cuda_copy(tri_stream *s, void *dst, const void *src, size_t bytes) {
  if (bytes) TRI_CUDA_TRY(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, tri_cuda_stream_of(s)));
  return TRI_OK;
}

static tri_status cuda_fill(tri_stream *s, void *dst, int byte, size_t bytes) {
  if (bytes) TRI_CUDA_TRY(cudaMemsetAsync(dst, byte, bytes, tri_cuda_stream_of(s)));
  return TRI_OK;
}

static void cuda_event_close(tri_event **e) {
  if (*e && (*e)->event) cudaEventDestroy((*e)->event);
  TRI_FREE(*e);
}

static tri_status cuda_event_open(tri_device *d, tri_event **out) {
  tri_status st = TRI_OK;

  TRI_CUDA_TRY(cudaSetDevice(d->index));
  TRI_TRY(TRI_ALLOC(*out, 1));
  TRI_CUDA_TRY_DONE(cudaEventCreateWithFlags(&(*out)->event, cudaEventDefault));
done:
  if (st != TRI_OK) cuda_event_close(out);
  return st;
}

static tri_status cuda_event_record(tri_event *e, tri_stream *s) {
  TRI_CUDA_TRY(cudaEventRecord(e->event, tri_cuda_stream_of(s)));
  e->recorded = true;
  return TRI_OK;
}

static tri_status cuda_stream_wait(tri_stream *s, tri_event *e) {
  TRI_CUDA_TRY(cudaStreamWaitEvent(tri_cuda_stream_of(s), e->event, 0));
  return TRI_OK;
}

static tri_status cuda_event_sync(tri_event *e) {
  if (e->recorded) TRI_CUDA_TRY(cudaEventSynchronize(e->event));
  return TRI_OK;
}

static tri_status cuda_event_ms(tri_event *from, tri_event *to, double *ms) {
  float got = 0;

  *ms = 0;
  if (!from->recorded || !to->recorded)
    TRI_FAIL(TRI_EDEVICE, "cannot measure the time of an event before it is recorded");
  TRI_CUDA_TRY(cudaEventSynchronize(to->event));
  TRI_CUDA_TRY(cudaEventElapsedTime(&got, from->event, to->event));
  *ms = (double)got;
  return TRI_OK;
}

static void cuda_graph_close(tri_graph **g) {
  if (*g && (*g)->exec) cudaGraphExecDestroy((*g)->exec);
  TRI_FREE(*g);
}

static tri_status cuda_graph_record(tri_stream *s, tri_status (*work)(void *ctx, tri_stream *s), void *ctx,
                                    tri_graph **out) {
  tri_status  st;
  cudaGraph_t graph = NULL;
  cudaError_t e;

  *out = NULL;
  TRI_CUDA_TRY(cudaStreamBeginCapture(tri_cuda_stream_of(s), cudaStreamCaptureModeThreadLocal));
  st = work(ctx, s);
  e = cudaStreamEndCapture(tri_cuda_stream_of(s),
                           &graph); /* also after a failure, or the stream stays in capture */
  if (st != TRI_OK) {
    (void)cudaGetLastError(); /* e is a consequence */
    goto done;
  }
  TRI_CUDA_TRY_DONE(e);
  TRI_TRY_DONE(TRI_ALLOC(*out, 1));
  TRI_CUDA_TRY_DONE(cudaGraphInstantiate(&(*out)->exec, graph, 0));
done:
  if (graph) cudaGraphDestroy(graph);
  if (st != TRI_OK) cuda_graph_close(out);
  return st;
}

static tri_status cuda_graph_run(tri_graph *g, tri_stream *s) {
  TRI_CUDA_TRY(cudaGraphLaunch(g->exec, tri_cuda_stream_of(s)));
  return TRI_OK;
}

/* This function is here because its two halves are in different folders. */
tri_status tri_cuda_attn_step(tri_stream *s, tri_out o, tri_out qkv, tri_out k_page, tri_out v_page,
                              const tri_step_at *at, const tri_attn_rule *rule) {
  TRI_TRY(tri_cuda_rope_put(s, qkv, k_page, v_page, at->pos, at->turn, at->slot, &rule->heads));
  return tri_cuda_attn_decode(s, o, at->work, qkv, k_page, v_page, at->table, at->len, rule);
}

#define TRI_X(name) .name = tri_cuda_##name,
static const tri_kernels cuda_kernels = {TRI_KERNEL_LIST(TRI_X) TRI_RECURRENT_KERNELS(TRI_X)};
#undef TRI_X

const tri_device_ops tri_cuda_device_ops = {
    .size = sizeof(tri_device_ops),
    .name = "cuda",
    .count = cuda_count,
    .open = cuda_open,
    .close = cuda_close,
    .mem_info = cuda_mem_info,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .stream_open = cuda_stream_open,
    .stream_close = cuda_stream_close,
    .stream_sync = cuda_stream_sync,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .event_open = cuda_event_open,
    .event_close = cuda_event_close,
    .event_record = cuda_event_record,
    .stream_wait = cuda_stream_wait,
    .event_sync = cuda_event_sync,
    .event_ms = cuda_event_ms,
    .advice = cuda_advice,
    .kernels = &cuda_kernels,
    .leave_sm = cuda_leave_sm,
    .graph_record = cuda_graph_record,
    .graph_run = cuda_graph_run,
    .graph_close = cuda_graph_close,
};
