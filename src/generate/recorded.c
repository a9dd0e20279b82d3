/* recorded.c - recorded work for a few numbers of rows. The device records the work at its second run and
 * replays it afterwards. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "recorded.h"

#include "base/host_memory.h"
#include "base/notice.h"

/* Work on one number of rows. */
typedef struct one {
  bool          met; /* has run since the last tri_recorded_forget */
  tri_comm_step step;
} one;

struct tri_recorded {
  tri_device *device; /* borrowed */
  tri_comm   *comm;   /* borrowed, or NULL */
  bool        records;
  bool        refused; /* the device refused to record this work */
  int64_t     max_rows;
  one        *by_rows; /* [TRI_RECORDED_WAYS,max_rows + 1] */
};

tri_status tri_recorded_open(tri_device *d, tri_comm *comm, int64_t max_rows, tri_recorded **out) {
  TRI_TRY(TRI_ALLOC(*out, 1));
  **out = (tri_recorded){
      .device = d, .comm = comm, .records = d->ops->graph_record != NULL, .max_rows = max_rows};
  return TRI_ALLOC((*out)->by_rows, TRI_RECORDED_WAYS * (max_rows + 1));
}

void tri_recorded_forget(tri_recorded *r) {
  for (int64_t i = 0; i < TRI_RECORDED_WAYS * (r->max_rows + 1); i++) {
    if (r->by_rows[i].step.graph) tri_comm_step_close(r->device, &r->by_rows[i].step);
    r->by_rows[i].met = false;
  }
}

void tri_recorded_close(tri_recorded **r) {
  if (!*r) return;
  if ((*r)->by_rows) tri_recorded_forget(*r);
  TRI_FREE((*r)->by_rows);
  TRI_FREE(*r);
}

/* Chosen. The numbers are 1 to 15, then steps of 1/8 of the largest power of two up to n. This makes 47
 * numbers up to 256 rows, with at most 1/9 of extra rows. */
int64_t tri_recorded_rows(const tri_recorded *r, int64_t n) {
  int64_t step = 1;

  if (!r->records) return n;
  while (16 * step <= n) step *= 2;
  n = (n + step - 1) / step * step;
  return n < r->max_rows ? n : r->max_rows;
}

static tri_status record(tri_recorded *r, one *o, tri_recorded_work *work, void *ctx, tri_stream *s) {
  if ((r->comm ? tri_comm_record(r->comm, s, work, ctx, &o->step)
               : r->device->ops->graph_record(s, work, ctx, &o->step.graph)) == TRI_OK)
    return TRI_OK;
  TRI_TRY(r->device->ops->stream_sync(s)); /* a failed device fails again here */
  tri_warn("decode_not_recorded",
           "the device cannot record decode steps. Generation is slower, with the same results. Cause: %s",
           tri_error_message());
  tri_error_clear();
  r->refused = true;
  return TRI_OK;
}

tri_status tri_recorded_run(tri_recorded *r, int way, int64_t rows, tri_recorded_work *work, void *ctx,
                            tri_stream *s) {
  one *o = &r->by_rows[way * (r->max_rows + 1) + rows];

  /* The first run prepares everything the work needs, such as kernels the driver loads at first use. */
  if (r->records && !r->refused && o->met && !o->step.graph) TRI_TRY(record(r, o, work, ctx, s));
  o->met = true;
  if (!o->step.graph) return work(ctx, s);
  return r->comm ? tri_comm_replay(r->comm, &o->step, s) : r->device->ops->graph_run(o->step.graph, s);
}
