/* session.c - what every command opens first: MPI, the device, its stream, the three communicators. */
#include "session.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

/* Collective over world. "auto" is GPUs where every rank sees one. */
static tri_status find_device(const tri_runtime *rt, const char *asked, const char **name) {
  const tri_device_ops *gpu = tri_device_find("cuda");
  int                   has = gpu && gpu->count() > 0, sum[2] = {has, 1};

  *name = asked;
  if (strcmp(asked, "auto")) return TRI_OK;
  if (MPI_Allreduce(MPI_IN_PLACE, sum, 2, MPI_INT, MPI_SUM, *(MPI_Comm *)rt->mpi_world))
    TRI_FAIL(TRI_ECOMM, "MPI_Allreduce failed");
  *name = sum[0] == sum[1] ? "cuda" : "cpu";
  if (gpu && sum[0] < sum[1] && rt->world_rank == 0)
    tri_log(TRI_LOG_WARN,
            "run.device: auto: %d of %d ranks see a GPU, so the CPU is used (cuda would insist)", sum[0],
            sum[1]);
  return TRI_OK;
}

tri_status tri_session_open(const tri_session_opt *opt, tri_session *out) {
  tri_session *s = out;
  const char  *name;
  int          share;

  *s = (tri_session){0};
  TRI_TRY(tri_runtime_open(opt->ranks_per_node, &s->rt));
  s->place = (tri_place){s->rt.local_rank, s->rt.local_size, s->rt.node, s->rt.nodes};
  share = s->rt.machine_cores / s->rt.machine_ranks;
  if (share > s->rt.cores) share = s->rt.cores;
  s->threads = opt->threads > 0 ? opt->threads : share > 0 ? share : 1;
  if (s->threads > 1 && s->threads * s->rt.machine_ranks > s->rt.machine_cores)
    TRI_FAIL(TRI_ECONFIG,
             "run.threads = %d: %d ranks x %d threads = %d, but this machine gives %d cores; at most "
             "run.threads = %d here",
             s->threads, s->rt.machine_ranks, s->threads, s->threads * s->rt.machine_ranks,
             s->rt.machine_cores, share > 0 ? share : 1);
  TRI_TRY(find_device(&s->rt, opt->device, &name));
  TRI_TRY(tri_device_open(name, s->rt.machine_rank, s->threads, &s->device));
  TRI_TRY(s->device->ops->stream_open(s->device, "compute", &s->stream));
  for (int scope = 0; scope < TRI_SCOPE_COUNT; scope++)
    TRI_TRY(tri_comm_open(&s->rt, (tri_scope)scope, s->device, &s->comm[scope]));
  return tri_ledger_open(&s->ledger);
}

tri_status tri_session_pretend(const tri_session_opt *opt, int ranks, tri_session *out) {
  tri_session *s = out;
  int          node = opt->ranks_per_node > 0 && opt->ranks_per_node < ranks ? opt->ranks_per_node : ranks;

  *s = (tri_session){0};
  if (ranks % node)
    TRI_FAIL(TRI_EARG, "run.ranks_per_node = %d does not divide the %d ranks of this job", node, ranks);
  s->rt = (tri_runtime){.world_size = ranks,
                        .local_size = node,
                        .nodes = ranks / node,
                        .machine_ranks = node,
                        .cores = 1,
                        .machine_cores = 1,
                        .launcher = "check"};
  s->place = (tri_place){0, node, 0, s->rt.nodes};
  s->threads = 1;
  TRI_TRY(tri_device_open("cpu", 0, 1, &s->device));
  TRI_TRY(s->device->ops->stream_open(s->device, "compute", &s->stream));
  s->pretended = true;
  for (int scope = 0; scope < TRI_SCOPE_COUNT; scope++) {
    TRI_TRY(TRI_ALLOC(s->comm[scope], 1));
    *s->comm[scope] = (tri_comm){.scope = (tri_scope)scope,
                                 .size = scope == TRI_WORLD  ? ranks
                                         : scope == TRI_NODE ? node
                                                             : s->rt.nodes};
  }
  return tri_ledger_open(&s->ledger);
}

tri_status tri_session_check_memory(tri_session *s) {
  return tri_ledger_check(s->ledger, s->device, 0, s->rt.machine_ranks, s->rt.machine_ranks);
}

/* What a GPU's libraries take after the plan is checked: kernels that are loaded when first used and recorded decode
 * steps, and NCCL's buffers. Chosen. */
static size_t beside_plan(const tri_session *s) {
  const size_t    gib = (size_t)1 << 30;
  const tri_comm *world = s->comm[TRI_WORLD];

  if (!tri_device_is_gpu(s->device)) return 0;
  return world->size > 1 && !strcmp(world->ops->name, "nccl") ? 2 * gib : gib;
}

tri_status tri_session_take_memory(tri_session *s) {
  tri_comm *world = s->comm[TRI_WORLD];
  void     *base, *stage = NULL;
  size_t    bytes, stage_bytes = tri_comm_stage_bytes(s->comm);
  int       sharers;

  if (stage_bytes)
    TRI_TRY(tri_ledger_add(s->ledger, TRI_MEM_PINNED, TRI_PHASE_ALWAYS, false, "staged collectives",
                           stage_bytes, &stage));
  TRI_TRY(tri_comm_sharers(&s->rt, world, s->device, &sharers));
  TRI_TRY(
      tri_agree(world, tri_ledger_check(s->ledger, s->device, beside_plan(s), sharers, s->rt.machine_ranks)));
  TRI_TRY(tri_agree(world, tri_ledger_take(s->ledger, s->device)));
  tri_ledger_block(s->ledger, &base, &bytes);
  return tri_comm_attach(&s->rt, s->comm, s->device, base, bytes, tri_ledger_layout(s->ledger), stage);
}

/* The others are in another state: say who fails, and end them. */
static void leave_alone(const tri_session *s, tri_status st) {
  tri_text text = {0};

  if (tri_text_printf(&text, "rank %d on %s: %s", s->rt.world_rank, s->rt.host, tri_error_message()) ==
      TRI_OK)
    tri_log_lines(TRI_LOG_ERROR, text.data);
  tri_text_free(&text);
  fputs(tri_error_trace(), stderr);
  tri_runtime_abort(tri_status_exit_code(st));
}

void tri_session_close(tri_session *s, tri_status st) {
  if (st != TRI_OK && !tri_runtime_all_failed()) leave_alone(s, st);
  for (int scope = 0; scope < TRI_SCOPE_COUNT; scope++)
    if (s->pretended)
      TRI_FREE(s->comm[scope]);
    else
      tri_comm_close(&s->comm[scope]);
  tri_ledger_close(&s->ledger);
  if (s->stream) s->device->ops->stream_close(&s->stream);
  tri_device_close(&s->device);
  tri_runtime_close(&s->rt);
}
