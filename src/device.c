/* device.c - the list of device back ends in this build. */
#include "device.h"
#include "cpu/device_cpu.h"
#if TRI_HAVE_CUDA
#include "gpu/gpu.h"
#endif

#include <string.h>

static const tri_device_ops *const back_end[] = {
    &tri_cpu_device_ops,
#if TRI_HAVE_CUDA
    &tri_cuda_device_ops,
#endif
};
enum { N_BACK_ENDS = sizeof back_end / sizeof back_end[0] };

const tri_device_ops *tri_device_at(int i) { return i >= 0 && i < N_BACK_ENDS ? back_end[i] : NULL; }

const tri_device_ops *tri_device_find(const char *name) {
  for (int i = 0; i < N_BACK_ENDS; i++)
    if (!strcmp(back_end[i]->name, name)) return back_end[i];
  return NULL;
}

tri_status tri_device_check(const char *name) {
  tri_text   known = {0};
  tri_status st = TRI_OK;

  if (tri_device_find(name)) return TRI_OK;
  for (int i = 0; i < N_BACK_ENDS; i++)
    TRI_TRY_DONE(tri_text_printf(&known, "%s%s", i ? ", " : "", back_end[i]->name));
  TRI_FAIL_DONE(TRI_EABSENT, "the device '%s' is not in this build, which has: %s", name, known.data);
done:
  tri_text_free(&known);
  return st;
}

tri_status tri_device_open(const char *name, int local_rank, int threads, tri_device **out) {
  const tri_device_ops *ops = tri_device_find(name);

  *out = NULL;
  TRI_TRY(tri_device_check(name));
  if (threads < 1) TRI_FAIL(TRI_EARG, "a device with %d threads cannot work: at least 1", threads);
  if (local_rank < 0) TRI_FAIL(TRI_EARG, "the local rank %d is negative", local_rank);
  TRI_ASSERT(ops->size == sizeof *ops);
  return ops->open(local_rank, threads, out);
}

bool tri_device_is_gpu(const tri_device *d) {
  static const unsigned char none[sizeof d->uuid];

  return memcmp(d->uuid, none, sizeof none) != 0;
}

void tri_device_close(tri_device **d) {
  if (*d) (*d)->ops->close(d);
}
