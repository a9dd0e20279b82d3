/* comm_record.c - steps that are recorded once, with their collectives, and run many times. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm.h"
#include "comm/peers/rank_status.h"

tri_status tri_comm_record(tri_comm *c, tri_stream *s, tri_comm_work *work, void *ctx, tri_comm_step *out) {
  const tri_device_ops *ops = s->device->ops;
  tri_status            st;

  TRI_ASSERT(ops->graph_record && !c->recording);
  *out = (tri_comm_step){NULL, 0, 0};
  c->recording = out;
  st = ops->graph_record(s, work, ctx, &out->graph);
  c->recording = NULL;
  /* A collective is recorded by all its ranks or by none (NCCL user guide, "Using NCCL with CUDA Graphs"). */
  st = tri_agree(c, st);
  if (st != TRI_OK) tri_comm_step_close(s->device, out);
  return st;
}

tri_status tri_comm_replay(tri_comm *c, const tri_comm_step *step, tri_stream *s) {
  tri_status st;

  if (step->n == 0) return s->device->ops->graph_run(step->graph, s);
  tri_rank_status_enter((int)c->scope, "recorded step");
  c->traffic.bytes += step->bytes;
  c->traffic.step_bytes += step->bytes;
  st = c->ops->replay(c, step->graph, s);
  tri_rank_status_leave(false); /* it is only queued */
  return st;
}

void tri_comm_step_close(tri_device *d, tri_comm_step *step) {
  if (step->graph) d->ops->graph_close(&step->graph);
  *step = (tri_comm_step){NULL, 0, 0};
}
