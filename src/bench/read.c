/* read.c - how fast the ranks of a machine read memory, all at once: the limit of decoding. */
#include "read.h"

#include "device/kernels.h"
#include "timed.h"

/* Chosen: more than caches hold, of GPUs and of most machines. */
enum { ALL_BYTES = 256 << 20, LEAST_BYTES = 16 << 20 };

size_t tri_read_room(const tri_session *se) {
  size_t mine = tri_device_is_gpu(se->device) ? ALL_BYTES : ALL_BYTES / (size_t)se->rt.machine_ranks;

  return mine < LEAST_BYTES ? LEAST_BYTES : mine / 256 * 256;
}

typedef struct reader {
  tri_device *device;
  tri_tensor  x;
  double     *sum; /* of the device */
} reader;

/* Its sum of squares: a GPU does that while it reads. */
static tri_status read_device(void *ctx, tri_stream *s) {
  reader *r = ctx;

  return r->device->ops->kernels->sumsq(s, r->sum, &r->x);
}

/* Words added up, which processors do while they read, as they may not do squares in double. */
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

tri_status tri_read_time(tri_session *se, void *room, const tri_effort *e, double *bytes_per_s) {
  bool    gpu = tri_device_is_gpu(se->device);
  size_t  bytes = tri_read_room(se), own = 256; /* the sum's */
  int64_t n = (int64_t)((bytes - own) / 4);
  reader  r = {se->device, tri_view1((char *)room + own, TRI_F32, n), room};
  double  s;

  TRI_TRY(tri_noise_put(se, r.x.data, TRI_F32, n));
  TRI_TRY(se->device->ops->fill(se->stream, r.sum, 0, sizeof *r.sum));
  TRI_TRY(tri_timed(se, gpu ? read_device : read_host, &r, e, &s));
  *bytes_per_s = (double)(n * 4) / s;
  return TRI_OK;
}
