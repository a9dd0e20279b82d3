/* comm_staged.c - collectives on memory that the host cannot reach: piece by piece through page-locked memory
 * and MPI.
 *
 * Starting a collective records an event in the caller's stream. Finishing it blocks the host. A separate
 * stream waits for the event and copies a piece to the stage. MPI works there, and the result is copied back.
 * Work queued in other streams continues meanwhile. The scopes share one stage, because only one collective
 * is finished at a time. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/host_memory.h"
#include "comm_host.h"

struct tri_staged_way {
  tri_stream *stream;
  tri_event  *begin[TRI_RING]; /* each collective runs after this event */
  char       *stage;           /* TRI_STAGE_BYTES, borrowed */
};

tri_status tri_staged_way_open(tri_host_comm *h) {
  const tri_device_ops *ops = h->device->ops;

  TRI_TRY(TRI_ALLOC(h->staged, 1));
  TRI_TRY(ops->stream_open(h->device, "staging", &h->staged->stream));
  for (int i = 0; i < TRI_RING; i++) TRI_TRY(ops->event_open(h->device, &h->staged->begin[i]));
  return TRI_OK;
}

void tri_staged_way_attach(tri_host_comm *h, void *stage) { h->staged->stage = stage; }

void tri_staged_way_close(tri_host_comm *h) {
  const tri_device_ops *ops = h->device->ops;

  if (!h->staged) return;
  for (int i = 0; i < TRI_RING; i++)
    if (h->staged->begin[i]) ops->event_close(&h->staged->begin[i]);
  if (h->staged->stream) ops->stream_close(&h->staged->stream);
  TRI_FREE(h->staged);
}

static tri_status staged_start(tri_host_comm *h, const tri_coll *k, uint64_t number) {
  return h->device->ops->event_record(h->staged->begin[number % TRI_RING], k->stream);
}

/* Runs elements [begin, begin + n) of the collective. For a gather or a scatter, the ranks' slices are n
 * elements apart on the stage and k->span->per_rank elements apart in the caller's buffers. */
static tri_status run_piece(tri_host_comm *h, const tri_coll *k, int64_t begin, int64_t n) {
  const tri_device_ops *ops = h->device->ops;
  tri_stream           *s = h->staged->stream;
  int                   rank = h->base.rank, size = h->base.size;
  size_t                bytes = tri_dtype_bytes(k->dtype), piece = (size_t)n * bytes,
         slice = (size_t)k->span->per_rank * bytes;
  char *stage = h->staged->stage, *mine = stage + (size_t)rank * piece,
       *recv = (char *)k->span->recv + begin * bytes;
  const char   *send = k->span->send ? (const char *)k->span->send + begin * bytes : NULL;
  bool          gather = k->kind == TRI_ALL_GATHER, scatter = k->kind == TRI_REDUCE_SCATTER;
  bool          whole = !gather && !scatter;
  tri_coll      host = *k;
  tri_comm_span part = {.per_rank = n};

  if (gather) TRI_TRY(ops->copy(s, mine, send, piece));
  for (int r = 0; scatter && r < size; r++)
    TRI_TRY(ops->copy(s, stage + (size_t)r * piece, send + (size_t)r * slice, piece));
  if (whole) TRI_TRY(ops->copy(s, stage, recv, piece));
  TRI_TRY(ops->stream_sync(s));
  if (h->from_s <= 0) h->from_s = tri_now_s(); /* first piece: earlier work is done */

  part.recv = scatter ? mine : stage;
  part.send = gather ? mine : scatter ? stage : NULL;
  host.span = &part;
  TRI_TRY(tri_mpi_way_run(h, &host));

  for (int r = 0; gather && r < size; r++)
    TRI_TRY(ops->copy(s, recv + (size_t)r * slice, stage + (size_t)r * piece, piece));
  if (scatter) TRI_TRY(ops->copy(s, recv, mine, piece));
  if (whole) TRI_TRY(ops->copy(s, recv, stage, piece));
  return TRI_OK;
}

/* recv may be my slice of send, or send may be my slice of recv. A piece writes only elements that no other
 * piece reads. */
static tri_status staged_finish(tri_host_comm *h, const tri_coll *k, uint64_t number) {
  const tri_device_ops  *ops = h->device->ops;
  struct tri_staged_way *w = h->staged;
  bool                   slices = k->kind == TRI_ALL_GATHER || k->kind == TRI_REDUCE_SCATTER;
  int                    span;
  int64_t most = (int64_t)(TRI_STAGE_BYTES / tri_dtype_bytes(k->dtype) / (size_t)(slices ? h->base.size : 1));

  TRI_ASSERT(w->stage && most > 0);
  TRI_TRY(ops->stream_wait(w->stream, w->begin[number % TRI_RING]));
  span =
      tri_trace_begin(h->device->trace, tri_coll_lane(k->kind), h->ring[number % TRI_RING].about, w->stream);
  for (int64_t begin = 0; begin < k->span->per_rank; begin += most)
    TRI_TRY(run_piece(h, k, begin, k->span->per_rank - begin < most ? k->span->per_rank - begin : most));
  tri_trace_end(h->device->trace, span, w->stream);
  return ops->stream_sync(w->stream); /* all streams see the result, and the stage is free */
}

const tri_coll_way tri_staged_way_ops = {staged_start, staged_finish};
