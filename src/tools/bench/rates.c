/* rates.c - measures communicators and names the library of products, with the functions of doctor. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "rates.h"

#include "base/host_memory.h"
#include "tools/doctor/exam/speed.h"
#include "tools/doctor/gather/gather.h"
#include "tools/timer/series.h"

#include <stdio.h>

struct tri_rates {
  tri_speed_buffers workspace;
};

enum { TIMES = 5 };

tri_status tri_rates_open(tri_session *se, tri_rates **out) {
  TRI_TRY(TRI_ALLOC(*out, 1));
  return tri_speed_plan(se, &(*out)->workspace);
}

void tri_rates_close(tri_rates **n) { TRI_FREE(*n); }

static tri_status time_scope(tri_session *se, const tri_rates *rates, tri_scope scope, tri_bench_rate *out) {
  tri_effort all = {TIMES, TIMES, 0, 0};
  tri_series per_byte = {.effort = all, .begun = true}, latency = per_byte;
  tri_rate   r;

  for (int i = 0; i < TIMES; i++) {
    TRI_TRY(tri_speed_scope(se, scope, &rates->workspace, &r));
    if (!r.scope[0]) return TRI_OK;
    tri_series_put(&per_byte, 0, 1 / r.bytes_per_s);
    tri_series_put(&latency, 0, r.latency_s);
  }
  snprintf(out->scope, sizeof out->scope, "%s", r.scope);
  out->bytes = r.bytes;
  out->bytes_per_s = 1 / tri_series_median(&per_byte);
  out->latency_s = tri_series_median(&latency);
  return TRI_OK;
}

tri_status tri_rates_time(tri_session *se, const tri_rates *rates, tri_bench_rate out[TRI_SCOPE_COUNT],
                          int *n) {
  *n = 0;
  for (int scope = 0; scope < TRI_SCOPE_COUNT; scope++) {
    out[*n] = (tri_bench_rate){0};
    TRI_TRY(time_scope(se, rates, (tri_scope)scope, &out[*n]));
    *n += out[*n].scope[0] != '\0';
  }
  return TRI_OK;
}

void tri_rates_library(const tri_session *se, char *out, size_t cap) {
  bool       gpu = tri_device_is_gpu(se->device);
  int        which = gpu ? TRI_VERSION_CUDA : TRI_VERSION_PRODUCTS;
  tri_facts *f = NULL;

  out[0] = '\0';
  if (TRI_ALLOC(f, 1) != TRI_OK) {
    tri_error_clear();
    return;
  }
  tri_gather_versions(f);
  if (gpu) tri_gather_gpu(se->rt.machine_rank, f);
  if (f->version[which][0])
    snprintf(out, cap, "%s %.60s%s%.95s", tri_facts_version_name(which), f->version[which], gpu ? "" : ", ",
             gpu ? "" : f->version[TRI_VERSION_CPU]);
  TRI_FREE(f);
}
