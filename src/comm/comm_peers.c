/* comm_peers.c - starts the monitor over the ranks with MPI: exchanges rank infos, the key and the status
 * page. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm_peers.h"
#include "base/child.h"
#include "base/host_memory.h"
#include "base/notice.h"
#include "peers/mac.h"
#include "comm_host.h"
#include "halt.h"
#include "peers/peers.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert((int)TRI_RANK_STATUS_WORLD == (int)TRI_WORLD &&
                   (int)TRI_SCOPE_COUNT < (int)TRI_RANK_STATUS_MOST &&
                   (int)TRI_SCOPE_COUNT <= (int)TRI_RANK_STATUS_ROUNDS,
               "peers/ has a place for each scope, and for rounds");

enum { ALONE_S = 5 }; /* chosen: MPI_Abort takes 0.1 s, or hangs after a link failure */

/* Another rank ends all. If this does not reach the process in time, it ends itself. */
static void end_late(int code) {
  tri_halt_hush(); /* mpirun sends signals at that point */
  tri_runtime_abort_within(ALONE_S, code);
}

/* The main thread may hold any lock. MPI ends all ranks before anything here waits for one. */
static void end_all(int code) {
  int begun = 0, ended = 0;

  end_late(code);
  tri_child_kill_all();
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  if (begun && !ended) MPI_Abort(MPI_COMM_WORLD, code);
  tri_runtime_abort(code);
}

void tri_comm_peers_open(double timeout_s) {
  int           ranks, machine_ranks;
  tri_peers_opt opt = {timeout_s, tri_runtime_env_rank(), tri_runtime_speaks_alone(), end_all, end_late};

  tri_runtime_env_ranks(&ranks, &machine_ranks);
  if (ranks < 2 || timeout_s <= 0 || tri_peers_open(&opt) == TRI_OK) return;
  tri_warn("not_watched", "%s", tri_error_message());
  tri_error_clear();
}

/* Returns Slurm's task number of this rank, or TRI_RANK_INFO_NOTHING. */
static int32_t task_number(const tri_runtime *rt) {
  const char *text = getenv("SLURM_PROCID");

  if (!text || (strcmp(rt->launcher, "pmix") && strcmp(rt->launcher, "slurm"))) return TRI_RANK_INFO_NOTHING;
  return (int32_t)strtol(text, NULL, 10);
}

static void put_text(char *to, size_t n, const char *text) {
  snprintf(to, n, "%s", text);
  for (char *at = to; *at; at++)
    if (*at < ' ' || *at > '~') *at = '?';
}

static void make_info(const tri_runtime *rt, const tri_device *d, tri_rank_info *mine) {
  tri_place at = tri_runtime_place(rt);
  char      device[128];

  *mine = (tri_rank_info){.rank = rt->world_rank, .task = task_number(rt)};
  for (int s = 0; s < TRI_SCOPE_COUNT; s++) mine->which[s] = tri_scope_find((tri_scope)s, &at).which;
  put_text(mine->host, sizeof mine->host, rt->host);
  snprintf(device, sizeof device, "%s %d%s%s", d->ops->name, d->index, d->model[0] ? " " : "", d->model);
  put_text(mine->device, sizeof mine->device, tri_device_is_gpu(d) ? device : d->ops->name);
  tri_peers_describe(mine);
}

/* Collective over the ranks of this machine. Counts the ranks with a lower world number. With pretended nodes
 * this differs from the machine's own order. */
static tri_status find_place(const tri_runtime *rt, int *place) {
  int       *rank = NULL;
  tri_status st = TRI_OK;

  TRI_TRY(TRI_ALLOC(rank, rt->machine_ranks));
  TRI_MPI_DONE(MPI_Allgather(&rt->world_rank, 1, MPI_INT, rank, 1, MPI_INT, *(MPI_Comm *)rt->mpi_machine));
  *place = 0;
  for (int i = 0; i < rt->machine_ranks; i++) *place += rank[i] < rt->world_rank;
done:
  TRI_FREE(rank);
  return st;
}

/* Collective over the ranks of this machine. The first rank creates the status page. If any rank cannot map
 * it, each rank gets a page of its own and reports only itself. */
static tri_status make_status(const tri_runtime *rt, tri_rank_info *mine, tri_node **node, int *place) {
  MPI_Comm machine = *(MPI_Comm *)rt->mpi_machine;
  char     name[TRI_NODE_NAME_BYTES] = "";
  int      good = rt->machine_ranks > 1, lowest = mine->rank;

  *node = NULL;
  TRI_TRY(find_place(rt, place));
  if (good && rt->machine_rank == 0) good = tri_node_make(rt->machine_ranks, name, node) == TRI_OK;
  TRI_MPI(MPI_Bcast(name, sizeof name, MPI_CHAR, 0, machine));
  TRI_MPI(MPI_Allreduce(MPI_IN_PLACE, &lowest, 1, MPI_INT, MPI_MIN, machine));
  if (good && rt->machine_rank > 0) good = name[0] && tri_node_open(name, rt->machine_ranks, node) == TRI_OK;
  TRI_MPI(MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, machine));
  if (rt->machine_rank == 0 && name[0]) tri_node_unname(name);
  tri_error_clear();
  mine->group = lowest;
  if (good) return TRI_OK;
  tri_node_close(node);
  mine->group = mine->rank;
  *place = 0;
  return tri_node_make(1, NULL, node);
}

/* Only ranks of this run send under this key. Not even an earlier run knows it. */
typedef struct shared_key {
  int           good;
  unsigned char byte[TRI_KEY_BYTES];
} shared_key;

static tri_status join(const tri_runtime *rt, tri_rank_info *mine, tri_rank_info *info, tri_node **node,
                       int place) {
  shared_key key = {0};

  if (rt->world_rank == 0) key.good = tri_random_bytes(key.byte, sizeof key.byte) == TRI_OK;
  TRI_MPI(MPI_Bcast(&key, sizeof key, MPI_BYTE, 0, *(MPI_Comm *)rt->mpi_world));
  TRI_MPI(
      MPI_Allgather(mine, sizeof *mine, MPI_BYTE, info, sizeof *mine, MPI_BYTE, *(MPI_Comm *)rt->mpi_world));
  if (!key.good)
    TRI_FAIL(TRI_EDEVICE, "the kernel of rank 0 gives no random bytes, so heartbeats cannot be signed. "
                          "Set run.timeout_s=0 to run without heartbeats");
  return tri_peers_join(info, rt->world_size, mine->rank, key.byte, node, place);
}

tri_status tri_comm_peers_join(const tri_runtime *rt, const tri_device *d) {
  tri_rank_info mine, *info = NULL;
  tri_node     *node = NULL;
  int           place = 0;
  tri_status    st = TRI_OK;

  if (rt->world_size < 2) return TRI_OK;
  tri_rank_status_enter(TRI_WORLD, "start of the monitor");
  make_info(rt, d, &mine);
  TRI_TRY_DONE(make_status(rt, &mine, &node, &place));
  TRI_TRY_DONE(TRI_ALLOC(info, rt->world_size));
  TRI_TRY_DONE(join(rt, &mine, info, &node, place));
done:
  tri_rank_status_leave(false);
  tri_node_close(&node);
  TRI_FREE(info);
  return st;
}
