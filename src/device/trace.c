/* trace.c - records when a rank's phases, layers and collectives run, step by step. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace.h"

#include "base/clock.h"
#include "base/host_memory.h"

typedef struct record {
  tri_trace_span span;
  int            from, to; /* events; -1 for host time, already in span */
  bool           ended;
} record;

struct tri_trace {
  tri_device     *device; /* borrowed */
  bool            active;
  record         *record; /* [most] */
  tri_trace_span *span;   /* [most], returned by stop */
  int             n, most;
  int64_t         dropped;
  tri_event     **event; /* [2 most + 1], opened when first needed, reused in each step */
  int             n_event, n_open;
  double          base_s; /* the host's clock at event[0] */
  tri_trace_note  note;
  tri_status      failed; /* the first error of the step */
};

tri_status tri_trace_open(tri_device *d, int most_spans, tri_trace **out) {
  tri_status st = TRI_OK;
  tri_trace *t = NULL;

  *out = NULL;
  TRI_ASSERT(most_spans > 0 && !d->trace);
  TRI_TRY_DONE(TRI_ALLOC(t, 1));
  t->device = d;
  t->most = most_spans;
  TRI_TRY_DONE(TRI_ALLOC(t->record, t->most));
  TRI_TRY_DONE(TRI_ALLOC(t->span, t->most));
  TRI_TRY_DONE(TRI_ALLOC(t->event, 2 * (int64_t)t->most + 1));
  d->trace = *out = t;
  t = NULL;
done:
  tri_trace_close(&t);
  return st;
}

void tri_trace_close(tri_trace **t) {
  if (!*t) return;
  if ((*t)->device->trace == *t) (*t)->device->trace = NULL;
  for (int i = 0; i < (*t)->n_open; i++) (*t)->device->ops->event_close(&(*t)->event[i]);
  TRI_FREE((*t)->event);
  TRI_FREE((*t)->span);
  TRI_FREE((*t)->record);
  TRI_FREE(*t);
}

/* Records the next event of the pool in s and returns its index. */
static tri_status record_event(tri_trace *t, tri_stream *s, int *index) {
  const tri_device_ops *ops = t->device->ops;

  if (t->n_event == t->n_open) {
    TRI_TRY(ops->event_open(t->device, &t->event[t->n_open]));
    t->n_open++;
  }
  TRI_TRY(ops->event_record(t->event[t->n_event], s));
  *index = t->n_event++;
  return TRI_OK;
}

tri_status tri_trace_start(tri_trace *t, tri_stream *s) {
  double before_s;
  int    base;

  TRI_ASSERT(!t->active);
  t->n = t->n_event = 0;
  t->dropped = 0;
  t->failed = TRI_OK;
  t->note = (tri_trace_note){.what = NULL};
  TRI_TRY(t->device->ops->stream_sync(s));
  before_s = tri_now_s();
  TRI_TRY(record_event(t, s, &base));
  TRI_TRY(t->device->ops->stream_sync(s));
  t->base_s = 0.5 * (before_s + tri_now_s()); /* uncertain by some 10 microseconds on a GPU */
  t->active = true;
  return TRI_OK;
}

/* Keeps an error for the end of the step. Nothing more is recorded until then. */
static bool went_well(tri_trace *t, tri_status st) {
  if (st == TRI_OK) return true;
  t->failed = st;
  t->active = false;
  return false;
}

int tri_trace_open_span(tri_trace *t, tri_lane lane, tri_trace_note note, tri_stream *s) {
  record *r = &t->record[t->n];

  if (!t->active) return -1;
  if (t->n == t->most) {
    t->dropped++;
    return -1;
  }
  *r = (record){.span = {.note = note, .lane = lane}, .from = -1, .to = -1};
  if (!s)
    r->span.begin_s = tri_now_s();
  else if (!went_well(t, record_event(t, s, &r->from)))
    return -1;
  return t->n++;
}

void tri_trace_close_span(tri_trace *t, int span, tri_stream *s) {
  record *r;

  if (!t->active || span < 0) return;
  TRI_ASSERT(span < t->n);
  r = &t->record[span];
  TRI_ASSERT(!r->ended && (r->from < 0) == !s);
  if (!s)
    r->span.end_s = tri_now_s();
  else if (!went_well(t, record_event(t, s, &r->to)))
    return;
  r->ended = true;
}

void tri_trace_put_note(tri_trace *t, tri_trace_note note) { t->note = note; }

tri_trace_note tri_trace_take_note(tri_trace *t) {
  tri_trace_note note = t->note;

  t->note = (tri_trace_note){.what = NULL};
  return note;
}

/* Computes both ends from event[0]. event_ms rounds to f32 (31 microseconds in a step of five minutes), and
 * rounding keeps the order of spans. */
static tri_status resolve(tri_trace *t, record *r) {
  double from_ms, to_ms;

  if (r->from < 0) return TRI_OK;
  TRI_TRY(t->device->ops->event_ms(t->event[0], t->event[r->from], &from_ms));
  TRI_TRY(t->device->ops->event_ms(t->event[0], t->event[r->to], &to_ms));
  r->span.begin_s = t->base_s + 1e-3 * from_ms;
  r->span.end_s = t->base_s + 1e-3 * to_ms;
  return TRI_OK;
}

tri_status tri_trace_stop(tri_trace *t, const tri_trace_span **span, int *n, int64_t *dropped) {
  TRI_ASSERT(t->active || t->failed != TRI_OK);
  t->active = false;
  *n = 0;
  TRI_TRY(t->failed);
  for (int i = 0; i < t->n; i++) {
    record *r = &t->record[i];
    if (!r->ended) {
      t->dropped++;
      continue;
    }
    TRI_TRY(resolve(t, r));
    t->span[(*n)++] = r->span;
  }
  *span = t->span;
  *dropped = t->dropped;
  return TRI_OK;
}
