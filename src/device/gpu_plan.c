/* gpu_plan.c - sizes in a GPU's memory plan, and a planned GPU that answers only questions about sizes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu_plan.h"

#include "base/choice.h"
#include "base/host_memory.h"

#include <stdlib.h>
#include <string.h>

/* Rows of linear_check, and bytes for their results in the planned memory. Chosen: a few percent of a small
 * GPU's memory. */
enum { CHECK_ROWS = 512, CHECK_BYTES = 128 << 20 };

size_t tri_gpu_logit_bytes(size_t total_bytes) {
  size_t bytes = (size_t)64 << 20;

  while (bytes <= total_bytes / 36) bytes *= 2;
  return bytes;
}

tri_status tri_gpu_attn_asked(bool *out) {
  const char *wish = tri_choice_word(TRI_CHOICE_CUDA_ATTENTION);

  *out = !strcmp(wish, "cudnn");
  if (*out || !*wish || !strcmp(wish, "own")) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "%s%s: must be own, cudnn or %s", tri_choice_source(TRI_CHOICE_CUDA_ATTENTION), wish,
           tri_choice_none(TRI_CHOICE_CUDA_ATTENTION));
}

static size_t round256(size_t n) { return (n + 255) & ~(size_t)255; }

int64_t tri_gpu_trial_rows(int64_t n_out, size_t results, int64_t most) {
  int64_t rows = (int64_t)results / (3 * 4 * n_out);

  return rows > most ? most : rows < TRI_GPU_TRIAL_LEAST ? TRI_GPU_TRIAL_LEAST : rows;
}

/* The bytes of x, a bias, and three results in f32. */
size_t tri_gpu_trial_bytes(int64_t n_out, int64_t n_in, tri_dtype t, int64_t rows) {
  size_t y = (size_t)(rows * n_out) * 4;

  return round256((size_t)(rows * n_in) * tri_dtype_bytes(t)) + round256((size_t)n_out * 4) + 3 * round256(y);
}

int64_t tri_gpu_check_rows(int64_t n_out) { return tri_gpu_trial_rows(n_out, CHECK_BYTES, CHECK_ROWS); }

size_t tri_gpu_workspace_bytes(int64_t n_out, int64_t n_in, tri_dtype t) {
  return round256(TRI_GPU_PRODUCT_BYTES + 1) + tri_gpu_trial_bytes(n_out, n_in, t, tri_gpu_check_rows(n_out));
}

int tri_gpu_spread_heads(int n_sm) {
  return n_sm / 4 < TRI_GPU_SPREAD_HEADS ? n_sm / 4 : TRI_GPU_SPREAD_HEADS;
}

int64_t tri_gpu_spread_work(const tri_device *d, const tri_heads *h, int64_t max_rows, int64_t P) {
  int64_t           rows = TRI_GPU_SPREAD_HEADS / h->G;
  tri_device_advice a;

  d->ops->advice(d, &a);
  if (!tri_device_is_gpu(d) || P * TRI_PAGE <= a.spread_tokens) return 0;
  return tri_attn_spread_work(h, rows < max_rows ? rows : max_rows, P);
}

/* ---- the planned GPU ---- */

enum { CONTEXT_BYTES = 512 << 20 };

typedef struct paper {
  tri_device     base;
  tri_device_ops ops;
  size_t         total_bytes;
  bool           by_cudnn;
} paper;

struct tri_linear {
  tri_linear_spec spec;
};

struct tri_event {
  tri_device *device;
};

static tri_status linear_open(tri_device *d, const tri_linear_spec *spec, tri_linear **out) {
  (void)d;
  TRI_TRY(TRI_ALLOC(*out, 1));
  (*out)->spec = *spec;
  return TRI_OK;
}

static tri_status linear_close(tri_linear **l) {
  TRI_FREE(*l);
  return TRI_OK;
}

static tri_status linear_size(const tri_linear *l, tri_linear_bytes *out) {
  const tri_linear_spec *s = &l->spec;

  *out = (tri_linear_bytes){.workspace = tri_gpu_workspace_bytes(s->n_out, s->n_in, s->dtype)};
  return TRI_OK;
}

static const tri_kernels sizes = {
    .linear_open = linear_open, .linear_close = linear_close, .linear_size = linear_size};

static tri_status mem_info(tri_device *d, size_t *bytes_free, size_t *bytes_total) {
  *bytes_total = ((paper *)d)->total_bytes;
  *bytes_free = *bytes_total > CONTEXT_BYTES ? *bytes_total - CONTEXT_BYTES : 0;
  return TRI_OK;
}

static void advice(const tri_device *d, tri_device_advice *out) {
  const paper *p = (const paper *)d;

  *out = (tri_device_advice){.logit_bytes = tri_gpu_logit_bytes(p->total_bytes),
                             .attn_bytes = p->by_cudnn ? TRI_GPU_ATTN_BYTES : 0,
                             .spread_tokens = TRI_GPU_SPREAD_TOKENS};
}

static tri_status stream_open(tri_device *d, const char *name, tri_stream **out) {
  (void)name;
  TRI_TRY(TRI_ALLOC(*out, 1));
  (*out)->device = d;
  return TRI_OK;
}

static void stream_close(tri_stream **s) { TRI_FREE(*s); }

static tri_status event_open(tri_device *d, tri_event **out) {
  TRI_TRY(TRI_ALLOC(*out, 1));
  (*out)->device = d;
  return TRI_OK;
}

static void event_close(tri_event **e) { TRI_FREE(*e); }

static void close_paper(tri_device **d) { TRI_FREE(*d); }

tri_status tri_gpu_on_paper(const char *name, size_t total_bytes, tri_device **out) {
  paper *p;
  bool   by_cudnn;

  *out = NULL;
  TRI_TRY(tri_gpu_attn_asked(&by_cudnn));
  TRI_TRY(TRI_ALLOC(p, 1));
  p->total_bytes = total_bytes;
  p->by_cudnn = by_cudnn;
  p->ops = (tri_device_ops){.size = sizeof p->ops,
                            .name = name,
                            .close = close_paper,
                            .mem_info = mem_info,
                            .advice = advice,
                            .stream_open = stream_open,
                            .stream_close = stream_close,
                            .event_open = event_open,
                            .event_close = event_close,
                            .kernels = &sizes};
  p->base = (tri_device){.ops = &p->ops, .threads = 1};
  memset(p->base.uuid, 0xff, sizeof p->base.uuid); /* not zero, so it counts as a GPU */
  *out = &p->base;
  return TRI_OK;
}
