/* read.c - measures how fast all ranks of a machine together read memory, which limits decoding. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "read.h"

#include "device/kernels.h"
#include "tools/timer/timed.h"

/* Bytes of a machine's ranks, or of a GPU. Chosen: ALL_BYTES exceeds the caches of GPUs and of most machines.
 * MOST_BYTES is twice the largest caches. */
enum { ALL_BYTES = 256 << 20, MOST_BYTES = 1 << 30, LEAST_BYTES = 16 << 20, ALIGN = 256 };
enum { OWN = ALIGN }; /* space of the sum, in front of the bytes to read */

size_t tri_read_buffers(const tri_session *se, double bytes) {
  bool   gpu = tri_device_is_gpu(se->device);
  size_t ranks = gpu ? 1 : (size_t)se->rt.machine_ranks, least = ALL_BYTES / ranks,
         most = (gpu ? ALL_BYTES : MOST_BYTES) / ranks, n = bytes < (double)most ? (size_t)bytes : most;

  if (n < least) n = least;
  if (n < LEAST_BYTES) n = LEAST_BYTES;
  return n / ALIGN * ALIGN;
}

tri_status tri_read_fill(tri_session *se, void *workspace, size_t bytes) {
  return tri_noise_put(se->stream, (char *)workspace + OWN, TRI_F32, (int64_t)((bytes - OWN) / 4));
}

typedef struct reader {
  tri_device *device;
  tri_tensor  x;
  double     *sum; /* in device memory */
} reader;

/* Copies one half to the other. A GPU does that at the speed of its memory, with as many bytes read or
 * written. */
static tri_status read_device(void *ctx, tri_stream *s) {
  reader *r = ctx;
  size_t  half = (size_t)r->x.dim[0] / 2 * sizeof(float);

  return r->device->ops->copy(s, (char *)r->x.data + half, r->x.data, half);
}

/* Adds up words, which CPUs do at the speed of reading. */
static tri_status read_host(void *ctx, tri_stream *s) {
  reader         *r = ctx;
  const uint64_t *x = r->x.data;
  int64_t         n = r->x.dim[0] / 2;
  uint64_t        sum = 0;

  (void)s;
#pragma omp parallel for simd num_threads(r->device->threads) reduction(+ : sum) schedule(static)
  for (int64_t i = 0; i < n; i++) sum += x[i];
  *r->sum = (double)sum;
  return TRI_OK;
}

tri_status tri_read_time(tri_session *se, void *workspace, size_t bytes, const tri_effort *e,
                         double *bytes_per_s) {
  int64_t    n = (int64_t)((bytes - OWN) / 4);
  reader     r = {se->device, tri_view1((char *)workspace + OWN, TRI_F32, n), workspace};
  tri_timer  timer = tri_timer_of(se);
  tri_timing s;

  TRI_TRY(se->device->ops->fill(se->stream, r.sum, 0, sizeof *r.sum));
  TRI_TRY(tri_timed(&timer, tri_device_is_gpu(se->device) ? read_device : read_host, &r, e, &s));
  *bytes_per_s = (double)(n * 4) / s.median_s;
  return TRI_OK;
}
