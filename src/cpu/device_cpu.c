/* device_cpu.c - the CPU as a device, with memory, streams that run at once, events and the table of
 * kernels. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "device_cpu.h"
#include "base/choice.h"
#include "base/clock.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "cpu/pairs/pairs.h"
#include "device/gpu_plan.h"
#include "choose.h"

#include <stdlib.h>
#include <string.h>

/* The kernels of the chosen family, filled when the first device is opened. */
static tri_kernels cpu_kernels;

typedef struct cpu_device {
  tri_device     base;
  tri_cpu_block *first; /* owned, linked by next */
  bool           unnamed;
} cpu_device;

struct tri_event {
  double at_s; /* monotonic clock; negative until recorded */
};

enum {
  ALIGN = 256, /* specified: device.h */
  /* Each chunk of rows reads the matrix of the head and writes its gradient, so one large chunk is faster.
   * Measured with 124 M parameters, 1,024 rows of 50,257 logits in one chunk against five. */
  LOGIT_BYTES = 256 << 20
};

/* ---- the device ---- */

static int cpu_count(void) { return 1; }

static tri_status cpu_open(int local_rank, int threads, tri_device **out) {
  cpu_device *d = NULL;
  static bool said; /* once for all devices, real and planned */
  bool        by_cudnn;

  *out = NULL;
  TRI_TRY(tri_pairs_choose());
  TRI_TRY(tri_cpu_family_choose());
  cpu_kernels = tri_cpu_family_find()->kernels;
  TRI_TRY(tri_gpu_attn_asked(&by_cudnn));
  if (by_cudnn && !said && tri_log_is_first())
    tri_log(TRI_LOG_WARN, "%scudnn has no effect because the device is cpu",
            tri_choice_source(TRI_CHOICE_CUDA_ATTENTION));
  said = by_cudnn;
  tri_cpu_block_remove_stale();
  TRI_TRY(TRI_ALLOC(d, 1));
  d->base = (tri_device){.ops = &tri_cpu_device_ops, .index = local_rank, .threads = threads};
  *out = &d->base;
  return TRI_OK;
}

static tri_status cpu_mem_info(tri_device *d, size_t *bytes_free, size_t *bytes_total) {
  (void)d;
  return tri_cpu_mem_info(bytes_free, bytes_total);
}

static tri_status alloc_pinned(size_t bytes, void **out) {
  if (bytes > PTRDIFF_MAX - ALIGN) TRI_FAIL(TRI_ENOMEM, "a buffer of %zu bytes is too large", bytes);
  bytes = bytes ? (bytes + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
  *out = aligned_alloc(ALIGN, bytes);
  if (!*out) TRI_FAIL(TRI_ENOMEM, "the host cannot allocate %zu bytes of memory", bytes);
  memset(*out, 0, bytes);
  return TRI_OK;
}

static tri_status cpu_alloc(tri_device *d, tri_mem kind, size_t bytes, void **out) {
  cpu_device    *c = (cpu_device *)d;
  tri_cpu_block *b = NULL;
  tri_status     st;

  *out = NULL;
  if (kind == TRI_MEM_PINNED) return alloc_pinned(bytes, out);
  if (kind == TRI_MEM_HOST) return tri_pages_alloc(bytes, out);
  TRI_TRY(TRI_ALLOC(b, 1));
  TRI_TRY_DONE(tri_cpu_block_open(bytes, !d->alone, d->threads, b));
  if (c->unnamed) tri_cpu_block_unname(b);
  b->next = c->first;
  c->first = b;
  *out = b->data;
done:
  if (st != TRI_OK) TRI_FREE(b);
  return st;
}

static void cpu_free(tri_device *d, tri_mem kind, void **p) {
  tri_cpu_block **at = &((cpu_device *)d)->first, *b;

  if (!*p) return;
  if (kind == TRI_MEM_PINNED) {
    free(*p);
  } else if (kind == TRI_MEM_HOST) {
    tri_pages_free(p);
  } else {
    while (*at && (*at)->data != *p) at = &(*at)->next;
    TRI_ASSERT(*at); /* fails if p is not the start of a block of this device */
    b = *at;
    *at = b->next;
    tri_cpu_block_close(b);
    TRI_FREE(b);
  }
  *p = NULL;
}

static void cpu_close(tri_device **d) {
  cpu_device *c = (cpu_device *)*d;

  if (!c) return;
  while (c->first) {
    void *p = c->first->data;
    cpu_free(*d, TRI_MEM_DEVICE, &p);
  }
  TRI_FREE(c);
  *d = NULL;
}

void tri_cpu_device_unname(tri_device *d) {
  cpu_device *c = (cpu_device *)d;

  c->unnamed = true;
  for (tri_cpu_block *b = c->first; b; b = b->next) tri_cpu_block_unname(b);
}

tri_cpu_block *tri_cpu_block_find(tri_device *d, const void *p) {
  for (tri_cpu_block *b = ((cpu_device *)d)->first; b; b = b->next)
    if ((uintptr_t)p >= (uintptr_t)b->data && (uintptr_t)p - (uintptr_t)b->data < b->bytes) return b;
  return NULL;
}

static tri_status cpu_stream_open(tri_device *d, const char *name, tri_stream **out) {
  (void)name;
  TRI_TRY(TRI_ALLOC(*out, 1));
  (*out)->device = d;
  return TRI_OK;
}

static void cpu_stream_close(tri_stream **s) { TRI_FREE(*s); }

static tri_status cpu_stream_sync(tri_stream *s) {
  (void)s;
  return TRI_OK;
}

static tri_status cpu_copy(tri_stream *s, void *dst, const void *src, size_t bytes) {
  tri_cpu_copy_bytes(dst, src, bytes, s->device->threads);
  return TRI_OK;
}

static tri_status cpu_fill(tri_stream *s, void *dst, int byte, size_t bytes) {
  (void)s;
  if (bytes) memset(dst, byte, bytes);
  return TRI_OK;
}

static tri_status cpu_event_open(tri_device *d, tri_event **out) {
  (void)d;
  TRI_TRY(TRI_ALLOC(*out, 1));
  (*out)->at_s = -1;
  return TRI_OK;
}

static void cpu_event_close(tri_event **e) { TRI_FREE(*e); }

static tri_status cpu_event_record(tri_event *e, tri_stream *s) {
  (void)s;
  e->at_s = tri_now_s();
  return TRI_OK;
}

static tri_status cpu_stream_wait(tri_stream *s, tri_event *e) {
  (void)s, (void)e;
  return TRI_OK;
}

static tri_status cpu_event_sync(tri_event *e) {
  (void)e;
  return TRI_OK;
}

static tri_status cpu_event_ms(tri_event *from, tri_event *to, double *ms) {
  *ms = 0;
  if (from->at_s < 0 || to->at_s < 0)
    TRI_FAIL(TRI_EDEVICE, "the time between two events needs both to be recorded");
  *ms = 1e3 * (to->at_s - from->at_s);
  return TRI_OK;
}

static void cpu_advice(const tri_device *d, tri_device_advice *out) {
  (void)d;
  *out = (tri_device_advice){.logit_bytes = LOGIT_BYTES};
}

const tri_device_ops tri_cpu_device_ops = {
    .size = sizeof(tri_device_ops),
    .name = "cpu",
    .count = cpu_count,
    .open = cpu_open,
    .close = cpu_close,
    .mem_info = cpu_mem_info,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .stream_open = cpu_stream_open,
    .stream_close = cpu_stream_close,
    .stream_sync = cpu_stream_sync,
    .copy = cpu_copy,
    .fill = cpu_fill,
    .event_open = cpu_event_open,
    .event_close = cpu_event_close,
    .event_record = cpu_event_record,
    .stream_wait = cpu_stream_wait,
    .event_sync = cpu_event_sync,
    .event_ms = cpu_event_ms,
    .advice = cpu_advice,
    .kernels = &cpu_kernels,
};
