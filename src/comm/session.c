/* session.c - opens the objects that every command needs: MPI, the device, its stream, the
 * communicators. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "session.h"
#include "base/columns.h"
#include "base/divisor.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "base/memory_group.h"
#include "comm_peers.h"
#include "base/notice.h"
#include "cpu/device_cpu.h"
#include "device/gpu_plan.h"
#include "peers/peers.h"

#include <mpi.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Collective over world. "auto" means GPUs if every rank sees one, else the CPU. */
static tri_status find_device(const tri_runtime *rt, const char *asked, const char **name) {
  const char *mine = tri_device_auto(), *host = tri_device_host();
  int         sum[2] = {strcmp(mine, host) != 0, 1}, failed;
  bool        has_gpus = tri_device_at(1) != NULL; /* there is a second back end */

  *name = asked;
  if (strcmp(asked, "auto")) return TRI_OK;
  tri_rank_status_enter(TRI_WORLD, "choice of the device");
  failed = MPI_Allreduce(MPI_IN_PLACE, sum, 2, MPI_INT, MPI_SUM, *(MPI_Comm *)rt->mpi_world);
  tri_rank_status_leave(false);
  if (failed) TRI_FAIL(TRI_ECOMM, "MPI_Allreduce failed");
  *name = sum[0] == sum[1] ? mine : host;
  if (has_gpus && sum[0] < sum[1] && rt->world_rank == 0)
    tri_warn(
        "gpus_unused",
        "run.device: auto chose the CPU, because only %d of %d ranks see a GPU. cuda would insist on GPUs",
        sum[0], sum[1]);
  return TRI_OK;
}

/* Threads of each rank if all ranks together use the whole machine. */
static int share_of(const tri_runtime *rt) {
  int share = rt->machine_cores / rt->machine_ranks;

  if (share > rt->cores) share = rt->cores;
  return share > 0 ? share : 1;
}

/* Returns the first number of a list in the form of OpenMP 5.2, 21.1.2. 0: not set, or no such list. */
static int env_threads(const char *name) {
  const char *text = getenv(name);
  char       *end;
  long        n = text ? strtol(text, &end, 10) : 0;

  if (n < 1 || n > INT_MAX) return 0;
  end += strspn(end, " \t");
  return *end == ',' || !*end ? (int)n : 0;
}

/* A quota gives its whole cores only. One more thread would be stopped in each period, and the others would
 * wait for it. */
int tri_session_threads(const tri_runtime *rt, char why[64]) {
  static const char *const name[] = {"OMP_NUM_THREADS", "OMP_THREAD_LIMIT"};
  int                      n = share_of(rt);

  snprintf(why, 64, "of %d core%s", rt->machine_cores, rt->machine_cores == 1 ? "" : "s");
  if (rt->quota_cores < n) {
    n = rt->quota_cores < 1 ? 1 : (int)rt->quota_cores;
    snprintf(why, 64, "cgroup's CPU quota: %.3g core%s%s", rt->quota_cores, rt->quota_cores == 1 ? "" : "s",
             rt->machine_ranks > 1 ? " a rank" : "");
  }
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    int most = env_threads(name[i]);
    if (!most || most >= n) continue;
    n = most;
    snprintf(why, 64, "%s=%d", name[i], most);
  }
  return n;
}

static void choose_threads(const tri_session_opt *opt, tri_session *s) {
  s->threads = opt->threads > 0 ? opt->threads : tri_session_threads(&s->rt, s->threads_why);
  if (opt->threads > 0)
    snprintf(s->threads_why, sizeof s->threads_why, "%s",
             opt->threads_name ? opt->threads_name : "run.threads");
}

void tri_session_say_threads(const tri_session *s) {
  if (s->rt.world_rank != 0 || !strncmp(s->threads_why, "of ", 3) || strchr("-r", s->threads_why[0])) return;
  tri_log(TRI_LOG_INFO, "%d thread%s each (%s) on %d core%s. --threads N sets another number", s->threads,
          s->threads == 1 ? "" : "s", s->threads_why, s->rt.machine_cores,
          s->rt.machine_cores == 1 ? "" : "s");
}

static tri_status check_threads(const tri_session *s, const char *name) {
  const tri_runtime *rt = &s->rt;
  int64_t            all = (int64_t)s->threads * rt->machine_ranks;
  const char        *is = name[0] == '-' ? " " : " = "; /* a flag or a key */

  if (s->threads > 1 && all > rt->machine_cores)
    TRI_FAIL(TRI_ECONFIG,
             "%s%s%d: %d rank%s x %d threads = %lld, but this machine gives %d core%s. At most %s%s%d here",
             name, is, s->threads, rt->machine_ranks, rt->machine_ranks == 1 ? "" : "s", s->threads,
             (long long)all, rt->machine_cores, rt->machine_cores == 1 ? "" : "s", name, is, share_of(rt));
  return TRI_OK;
}

tri_status tri_session_check_threads(const tri_session *s) { return check_threads(s, "run.threads"); }

/* Divides a generating model among ranks of a node. */
static tri_status set_tensor(const tri_session_opt *opt, tri_session *s) {
  const char *name = opt->tensor_name ? opt->tensor_name : "shard.tensor_parallel_size";
  int         tensor = opt->tensor ? opt->tensor : 1, ranks = s->rt.local_size;

  if (opt->tensor_fits && tensor > 0) tensor = (int)tri_common_divisor(tensor, ranks);
  if (tensor < 0 || ranks % tensor)
    TRI_FAIL(TRI_ECONFIG,
             "%s%s%d does not divide the %d rank%s of a node. Give another size, or start another "
             "number of ranks (mpirun -n, srun -n, and --gpus-per-node of trireme plan)",
             name, name[0] == '-' ? " " : " = ", tensor, ranks, ranks == 1 ? "" : "s");
  s->rt.tensor = tensor;
  s->tensor_name = opt->tensor_name;
  return TRI_OK;
}

tri_status tri_session_open(const tri_session_opt *opt, tri_session *out) {
  tri_session *s = out;
  const char  *name;

  *s = (tri_session){0};
  tri_comm_peers_open(opt->timeout_s);
  TRI_TRY(tri_runtime_open(opt->ranks_per_node, &s->rt));
  TRI_TRY(set_tensor(opt, s));
  s->place = tri_runtime_place(&s->rt);
  choose_threads(opt, s);
  TRI_TRY(check_threads(s, opt->threads_name ? opt->threads_name : "run.threads"));
  TRI_TRY(find_device(&s->rt, opt->device, &name));
  TRI_TRY(tri_device_open(name, s->rt.machine_rank, s->threads, &s->device));
  s->device->alone = s->rt.machine_ranks == 1;
  TRI_TRY(tri_comm_peers_join(&s->rt, s->device));
  TRI_TRY(s->device->ops->stream_open(s->device, "compute", &s->stream));
  for (int scope = 0; scope < TRI_SCOPE_COUNT; scope++)
    TRI_TRY(tri_comm_open(&s->rt, (tri_scope)scope, s->device, &s->comm[scope]));
  return tri_ledger_open(&s->ledger);
}

tri_status tri_session_pretend(const tri_session_opt *opt, int ranks, int machine_ranks, tri_session *out) {
  return tri_session_pretend_gpu(opt, ranks, machine_ranks, 0, out);
}

tri_status tri_session_pretend_gpu(const tri_session_opt *opt, int ranks, int machine_ranks, size_t gpu_bytes,
                                   tri_session *out) {
  tri_session *s = out;

  *s = (tri_session){.pretended = true};
  TRI_TRY(tri_runtime_pretend(ranks, machine_ranks, opt->ranks_per_node, &s->rt));
  TRI_TRY(set_tensor(opt, s));
  s->place = tri_runtime_place(&s->rt);
  choose_threads(opt, s);
  if (gpu_bytes)
    TRI_TRY(tri_gpu_on_paper(opt->device, gpu_bytes, &s->device));
  else
    TRI_TRY(tri_device_open(tri_device_host(), 0, s->threads,
                            &s->device)); /* each thread adds to the memory of matrix products */
  s->device->alone = s->rt.machine_ranks == 1;
  TRI_TRY(s->device->ops->stream_open(s->device, "compute", &s->stream));
  for (int scope = 0; scope < TRI_SCOPE_COUNT; scope++)
    TRI_TRY(tri_comm_pretend((tri_scope)scope, tri_scope_find((tri_scope)scope, &s->place).size, s->device,
                             &s->comm[scope]));
  return tri_ledger_open(&s->ledger);
}

tri_status tri_session_plan_stage(tri_session *s) {
  size_t bytes = tri_comm_stage_bytes(s->comm);

  if (!bytes) return TRI_OK;
  return tri_ledger_add(s->ledger, TRI_MEM_PINNED, TRI_PHASE_ALWAYS, false, "staged collectives", bytes,
                        &s->stage);
}

/* Measured with tests/bench/beside_plan.sh on 1, 2 and 4 ranks with Open MPI 4.1 and HDF5 1.10. When memory
 * is checked, a rank already uses 6.6 MiB. Afterwards MPI's queues, HDF5's caches, metrics and texts take 3
 * to 5.4 MiB. A thread touches 0.1 MiB of its stack. All values are rounded up. */
static const size_t started_bytes = 8 << 20, later_bytes = 8 << 20, thread_bytes = 256 << 10;

/* Returns the bytes that a rank plans in host memory. */
static size_t host_planned(const tri_session *s) {
  tri_ledger_sum sum = tri_ledger_total(s->ledger);

  return (size_t)(sum.planned - (tri_device_is_gpu(s->device) ? sum.device : 0));
}

/* Specified: x86-64 and most other processors have a page table entry of 8 bytes for each page of 4 KiB. A
 * rank maps the memory of its neighbours too. */
static size_t page_table_bytes(const tri_session *s) {
  bool   shares = s->rt.machine_ranks > 1 && !tri_device_is_gpu(s->device);
  size_t host = host_planned(s);

  return host / 512 * (size_t)(shares ? s->rt.machine_ranks : 1);
}

size_t tri_session_host_beside_bytes(const tri_session *s) {
  return (s->pretended ? started_bytes : 0) + later_bytes + (size_t)s->threads * thread_bytes +
         page_table_bytes(s) + tri_comm_host_bytes(s->comm, s->rt.machine_ranks) + s->buffer_bytes;
}

/* Describes the limit of a control group that allows less than the machine has free. Free *out afterwards. */
static tri_status describe_limit(tri_text *out) {
  tri_memory_limit limit;
  size_t           bytes_free, bytes_total;

  if (!tri_memory_limit_find("", 0, &limit)) return TRI_OK;
  TRI_TRY(tri_cpu_mem_machine(&bytes_free, &bytes_total));
  if (limit.free > bytes_free) return TRI_OK; /* the machine has less free */
  return tri_text_printf(out, "the memory limit of %.1f MiB (%s)", (double)limit.bytes / 0x1p20, limit.file);
}

/* RLIMIT_AS applies to each process. A rank that maps its neighbours' blocks pays for them too. */
static tri_status check_address_space(const tri_session *s) {
  size_t limit, space, host = host_planned(s);
  char   maps[TRI_CELL_BYTES], most[TRI_CELL_BYTES], left[TRI_CELL_BYTES];
  int    mapped = s->comm[TRI_NODE]->near ? s->rt.local_size : 1;

  if (!tri_memory_address_space(&limit, &space)) return TRI_OK;
  host = host * (size_t)mapped + tri_session_host_beside_bytes(s);
  if (host <= space) return TRI_OK;
  tri_cell_memory(host, maps);
  tri_cell_memory(limit, most);
  tri_cell_memory(space, left);
  TRI_FAIL(TRI_ECONFIG,
           "the memory plan does not fit: a rank maps %s (the plans of %d rank%s, libraries and buffers). "
           "Its address space (RLIMIT_AS, ulimit -v) is limited to %s, and %s are left. "
           "Set ulimit -v unlimited",
           maps, mapped, mapped == 1 ? "" : "s", most, left);
}

/* sharers: the number of ranks that share this device's memory. */
static tri_status check_memory(const tri_session *s, int sharers) {
  tri_ledger_beside beside = {tri_session_beside_bytes(s), tri_session_host_beside_bytes(s)};
  tri_text          limit = {0};
  tri_status        st = describe_limit(&limit);

  if (st == TRI_OK)
    st = tri_ledger_check(s->ledger, s->device, beside, limit.data, sharers, s->rt.machine_ranks);
  tri_text_free(&limit);
  TRI_TRY(st);
  return check_address_space(s);
}

tri_status tri_session_check_memory(tri_session *s) {
  TRI_TRY(tri_session_plan_stage(s));
  return check_memory(s, s->rt.machine_ranks);
}

tri_status tri_session_fits(const tri_session *s, bool *fits) {
  tri_comm  *world = s->comm[TRI_WORLD];
  size_t     bytes_free, bytes_total;
  int        sharers;
  tri_status st;

  if (s->pretended && tri_device_is_gpu(s->device)) { /* host memory of the planned nodes is unknown */
    TRI_TRY(s->device->ops->mem_info(s->device, &bytes_free, &bytes_total));
    *fits = (size_t)tri_ledger_total(s->ledger).device + tri_session_beside_bytes(s) <= bytes_free;
    return TRI_OK;
  }
  TRI_TRY(tri_comm_sharers(&s->rt, world, s->device, &sharers));
  st = tri_agree(world, check_memory(s, sharers));
  *fits = st == TRI_OK;
  if (st != TRI_ECONFIG) return st;
  tri_error_clear();
  return TRI_OK;
}

size_t tri_session_beside_bytes(const tri_session *s) {
  if (!tri_device_is_gpu(s->device)) return 0;
  return TRI_GPU_LIBRARY_BYTES + tri_comm_beside_bytes(s->comm);
}

tri_status tri_session_take_memory(tri_session *s) {
  tri_comm       *world = s->comm[TRI_WORLD];
  tri_comm_memory m = {.base = NULL};
  int             sharers;

  TRI_TRY(tri_session_plan_stage(s));
  TRI_TRY(tri_comm_sharers(&s->rt, world, s->device, &sharers));
  TRI_TRY(tri_agree(world, check_memory(s, sharers)));
  TRI_TRY(tri_agree(world, tri_ledger_take(s->ledger, s->device)));
  tri_ledger_block(s->ledger, &m.base, &m.bytes);
  tri_ledger_gathered(s->ledger, &m.gathered, &m.gathered_bytes);
  m.layout = tri_ledger_layout(s->ledger);
  m.stage = s->stage;
  return tri_comm_start(&s->rt, s->comm, s->device, &m);
}

bool tri_session_is_ended(void) { return tri_peers_end(); }

/* Reports this rank's error and ends all ranks, because the others are in another state. */
static void end_all(const tri_session *s, tri_status st) {
  tri_text text = {0};

  if (tri_peers_end())
    tri_runtime_abort(tri_status_exit_code(TRI_ECOMM)); /* this rank's error is a consequence */
  if (tri_text_printf(&text, "rank %d on %s: %s", s->rt.world_rank, s->rt.host, tri_error_message()) ==
      TRI_OK)
    tri_log_lines(TRI_LOG_ERROR, text.data);
  tri_text_free(&text);
  fputs(tri_error_trace(), stderr);
  tri_runtime_abort(tri_status_exit_code(st));
}

void tri_session_close(tri_session *s) {
  if (!s->pretended) tri_peers_close();
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

void tri_session_fail(const tri_session *s, tri_status st) {
  if (st != TRI_OK && !tri_runtime_all_failed()) end_all(s, st);
}

void tri_session_leave(tri_session *s, tri_status st) {
  tri_session_fail(s, st);
  tri_session_close(s);
}
