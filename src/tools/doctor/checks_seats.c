/* checks_seats.c - checks missing ranks, devices and cores. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "checks.h"
#include "names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool came(const tri_case *c, int task) { return c->facts[task].seat.host[0] != '\0'; }

const char *tri_check_number(const tri_facts_seat *s, char out[TRI_CHECK_NUMBER_BYTES]) {
  bool differs = s->slurm_task >= 0 && s->slurm_task != s->rank;

  snprintf(out, TRI_CHECK_NUMBER_BYTES, differs ? "%d (task %d)" : "%d", s->rank, s->slurm_task);
  return out;
}

tri_status tri_check_put_rank(const tri_facts_seat *s, tri_text *out) {
  char number[TRI_CHECK_NUMBER_BYTES];

  return tri_text_printf(out, "rank %s on %s", tri_check_number(s, number), s->host);
}

/* ---- missing ranks ---- */

/* Tables for naming missing ranks. */
typedef struct absence {
  int       *home;  /* [tasks] node of each task in the launcher's list. -1: it has no list */
  int       *task;  /* [tasks] of one node */
  tri_named *host;  /* [hosts] of present ranks, sorted */
  tri_named *asked; /* [n_asked] silent nodes, sorted. Their numbers are indices of c->reach */
  int        hosts, n_asked;
} absence;

static void free_absence(absence *a) {
  TRI_FREE(a->home);
  TRI_FREE(a->task);
  TRI_FREE(a->host);
  TRI_FREE(a->asked);
}

static int came_from(const absence *a, const char *host) {
  int at = tri_names_find(a->host, a->hosts, host), n = 0;

  for (; at >= 0 && at < a->hosts && !strcmp(a->host[at].name, host); at++) n++;
  return n;
}

/* Returns the only node that lacks ranks. -1: several do, or the launcher names none. */
static int find_lacking(const tri_case *c, const absence *a) {
  int lacking = -1, n = 0;

  for (int i = 0; i < c->launch->n_node; i++)
    if (came_from(a, c->launch->node[i]) < c->launch->node_tasks[i]) {
      lacking = i;
      n++;
    }
  return n == 1 ? lacking : -1;
}

/* Assigns a missing task to the only node that lacks ranks. Otherwise assumes that nodes are filled one after
 * the other. */
static void fill_homes(const tri_case *c, absence *a) {
  const tri_launch *l = c->launch;
  int               lacking = find_lacking(c, a);

  for (int t = 0, node = 0, used = 0; t < c->tasks; t++, used++) {
    for (; node < l->n_node && used == l->node_tasks[node]; node++) used = 0;
    a->home[t] = lacking >= 0 ? lacking : node < l->n_node ? node : -1;
  }
}

static tri_status begin_absence(const tri_case *c, absence *a) {
  TRI_TRY(TRI_ALLOC(a->home, c->tasks));
  TRI_TRY(TRI_ALLOC(a->task, c->tasks));
  TRI_TRY(TRI_ALLOC(a->host, c->tasks));
  TRI_TRY(TRI_ALLOC(a->asked, c->n_reach + 1));
  for (int t = 0; t < c->tasks; t++)
    if (came(c, t)) a->host[a->hosts++] = (tri_named){c->facts[t].seat.host, t};
  for (int i = 0; i < c->n_reach; i++)
    if (c->reach[i].asked && c->reach[i].to < 0) a->asked[a->n_asked++] = (tri_named){c->reach[i].address, i};
  tri_names_sort(a->host, a->hosts);
  tri_names_sort(a->asked, a->n_asked);
  fill_homes(c, a);
  return TRI_OK;
}

/* Returns the errno of asking a silent node, 0 if it answered. TRI_FACTS_UNKNOWN: it was not asked. */
static int answer_of(const tri_case *c, const absence *a, const char *host) {
  int at = host ? tri_names_find(a->asked, a->n_asked, host) : -1;

  return at < 0 ? TRI_FACTS_UNKNOWN : c->reach[a->asked[at].number].error;
}

/* answer: of the node, as answer_of returns it. */
static tri_status say_missing_cure(const tri_case *c, const char *host, int answer, tri_findings *out) {
  if (!host)
    return tri_findings_say(
        out, TRI_PART_CURE,
        "check why the program does not start on the nodes of the launch, for example a hanging file system, "
        "a node out of memory, or a link that is down (ranks reach rank 0 by TCP)");
  if (!answer)
    return tri_findings_say(
        out, TRI_PART_CURE,
        "check for a firewall on the way to %s, or packets larger than the network allows. Set the same MTU "
        "everywhere (ip link show)",
        c->facts[0].seat.host);
  if (answer == ECONNREFUSED || answer == TRI_FACTS_UNKNOWN)
    return tri_findings_say(
        out, TRI_PART_CURE,
        "check why the program does not start there (srun -w %s ps, a hanging file system, a node out of "
        "memory), or leave the node out with --exclude=%s",
        host, host);
  return tri_findings_say(
      out, TRI_PART_CURE,
      "the node does not answer either. See the findings on its network, or leave it out with --exclude=%s",
      host);
}

/* a->task [n]. host NULL: the launcher does not name it. */
static tri_status say_missing(const tri_case *c, const absence *a, const char *host, int n,
                              tri_findings *out) {
  tri_text    list = {0};
  int         answer = answer_of(c, a, host);
  const char *more = !answer                  ? ". Their program runs and answers, but does not reach rank 0"
                     : answer == ECONNREFUSED ? ", though their node answers"
                                              : "";
  tri_status  st = TRI_OK;

  TRI_TRY_DONE(tri_findings_ranges(&list, a->task, n));
  TRI_TRY_DONE(tri_findings_add(out, "ranks", TRI_LEVEL_ERROR, "task%s %s%s%s", n == 1 ? "" : "s", list.data,
                                host ? " on " : "", host ? host : ""));
  out->blocks = true;
  TRI_TRY_DONE(tri_findings_say(out, TRI_PART_WHAT, "%d of %d ranks did not come within %.0f s%s", n,
                                c->tasks, c->waited_s, more));
  TRI_TRY_DONE(say_missing_cure(c, host, answer, out));
done:
  tri_text_free(&list);
  return st;
}

static tri_status check_missing(const tri_case *c, tri_findings *out) {
  absence    a = {0};
  tri_status st = TRI_OK;

  TRI_TRY_DONE(begin_absence(c, &a));
  for (int t = 0, n; t < c->tasks; t++) { /* tasks of a node are neighbours in the list */
    int home = a.home[t];
    if (came(c, t)) continue;
    for (n = 0; t < c->tasks && a.home[t] == home; t++)
      if (!came(c, t)) a.task[n++] = t;
    t--;
    TRI_TRY_DONE(say_missing(c, &a, home < 0 ? NULL : c->launch->node[home], n, out));
  }
done:
  free_absence(&a);
  return st;
}

tri_status tri_check_seats(const tri_case *c, tri_findings *out) {
  int missing = 0, first, most = -1;

  for (int t = 0; t < c->tasks; t++) missing += !came(c, t);
  if (missing) return check_missing(c, out);
  if (c->even) return TRI_OK;
  first = tri_check_first_of(c, 0);
  for (int t = 0; t < c->tasks; t++)
    if (c->facts[t].seat.locals != c->facts[first].seat.locals) most = t;
  TRI_TRY(tri_findings_add(out, "ranks", TRI_LEVEL_ERROR, "nodes %s and %s", c->facts[first].seat.host,
                           most < 0 ? "others" : c->facts[most].seat.host));
  out->blocks = true;
  TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "they have different numbers of ranks%s",
                           most < 0 ? ", or run.ranks_per_node does not divide them" : ""));
  return tri_findings_say(
      out, TRI_PART_CURE,
      "start the same number on each node (srun --ntasks-per-node, mpirun --map-by ppr:N:node)");
}

/* ---- devices ---- */

static tri_status say_shared(const tri_case *c, int a, int b, tri_findings *out) {
  const tri_facts *f = &c->facts[a];
  char             one[TRI_CHECK_NUMBER_BYTES], other[TRI_CHECK_NUMBER_BYTES];

  TRI_TRY(tri_findings_add(out, "device", TRI_LEVEL_ERROR, "ranks %s and %s on %s",
                           tri_check_number(&f->seat, one), tri_check_number(&c->facts[b].seat, other),
                           f->seat.host));
  TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "both would take %s%s%s%s", f->gpu.uuid,
                           f->gpu.model[0] ? " (" : "", f->gpu.model, f->gpu.model[0] ? ")" : ""));
  return tri_findings_say(
      out, TRI_PART_CURE,
      "request as many GPUs as ranks on each node, --gpus-per-node=%d with --ntasks-per-node=%d, or "
      "--gpus-per-task=1. Or start fewer ranks, or set run.device: cpu",
      f->seat.locals, f->seat.locals);
}

/* Finds GPUs of different models, or ranks with and without a GPU. */
static tri_status check_models(const tri_case *c, tri_findings *out) {
  const tri_facts *first = &c->facts[0];
  char             one[TRI_CHECK_NUMBER_BYTES], other[TRI_CHECK_NUMBER_BYTES];

  for (int t = 1; t < c->tasks; t++) {
    const tri_facts *f = &c->facts[t];
    if (!strcmp(f->gpu.model, first->gpu.model) && !f->gpu.uuid[0] == !first->gpu.uuid[0]) continue;
    bool lacks = !f->gpu.uuid[0] || !first->gpu.uuid[0];
    TRI_TRY(tri_findings_add(out, "device",
                             lacks && strcmp(c->device, "cpu") ? TRI_LEVEL_ERROR : TRI_LEVEL_WARNING,
                             "rank %s on %s and rank %s on %s", tri_check_number(&first->seat, one),
                             first->seat.host, tri_check_number(&f->seat, other), f->seat.host));
    out->blocks = out->blocks || (lacks && !strcmp(c->device, "cuda"));
    TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "they have different devices: %s and %s",
                             first->gpu.uuid[0] ? first->gpu.model : "no GPU",
                             f->gpu.uuid[0] ? f->gpu.model : "no GPU"));
    return tri_findings_say(
        out, TRI_PART_CURE, "%s",
        lacks ? "request only nodes with GPUs (--gpus-per-node, --constraint), or set run.device: cpu"
              : "the slowest GPU sets the pace. Request one kind of node (--constraint)");
  }
  return TRI_OK;
}

static tri_status check_peers(const tri_case *c, tri_findings *out) {
  char number[TRI_CHECK_NUMBER_BYTES];

  for (int n = 0; n < c->nodes; n++)
    for (int t = tri_check_first_of(c, n); t >= 0; t = tri_check_next_of(c, t)) {
      const tri_facts *f = &c->facts[t];
      if (f->gpu.no_peer <= 0) continue;
      TRI_TRY(tri_findings_add(out, "peer", TRI_LEVEL_WARNING, "rank %s on %s",
                               tri_check_number(&f->seat, number), f->seat.host));
      TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "its GPU cannot reach %d other%s of the node directly",
                               f->gpu.no_peer, f->gpu.no_peer == 1 ? "" : "s"));
      TRI_TRY(tri_findings_say(
          out, TRI_PART_CURE,
          "traffic between them goes through the host. See nvidia-smi topo -p2p r, turn off IOMMU, PCIe ACS "
          "and MIG, and let each task see all GPUs (--gpu-bind=none)"));
      break;
    }
  return TRI_OK;
}

/* ---- cores ---- */

static int shared_cores(const tri_facts *a, const tri_facts *b) {
  int n = 0;

  for (int i = 0; i < TRI_FACTS_CORES / 64; i++)
    n += __builtin_popcountll(a->cores.mask[i] & b->cores.mask[i]);
  return n;
}

/* Returns the hardware threads of a node's ranks together, 0 if unknown. *ranks: the number of ranks. */
static int cores_of(const tri_case *c, int node, int *ranks) {
  uint64_t all[TRI_FACTS_CORES / 64] = {0};
  int      n = 0;

  *ranks = 0;
  for (int t = tri_check_first_of(c, node); t >= 0; t = tri_check_next_of(c, t)) {
    for (int i = 0; i < TRI_FACTS_CORES / 64; i++) all[i] |= c->facts[t].cores.mask[i];
    ++*ranks;
  }
  for (int i = 0; i < TRI_FACTS_CORES / 64; i++) n += __builtin_popcountll(all[i]);
  return n;
}

bool tri_check_shares_cores(const tri_case *c, int node) {
  int ranks, n = cores_of(c, node, &ranks);

  return n > 0 && n < ranks;
}

/* Finds two ranks of a node bound to the same cores while other cores are unused. */
static tri_status check_bound(const tri_case *c, int first, int n, tri_findings *out) {
  const tri_facts *f = &c->facts[first];
  char             one[TRI_CHECK_NUMBER_BYTES], other[TRI_CHECK_NUMBER_BYTES];

  for (int t = tri_check_next_of(c, first); t >= 0; t = tri_check_next_of(c, t)) {
    const tri_facts *g = &c->facts[t];
    int              both = shared_cores(f, g);
    if (f->cores.mine >= n || !both) continue;
    TRI_TRY(tri_findings_add(out, "cores", TRI_LEVEL_WARNING, "ranks %s and %s on %s",
                             tri_check_number(&f->seat, one), tri_check_number(&g->seat, other),
                             f->seat.host));
    TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "both are bound to the same %d hardware thread%s", both,
                             both == 1 ? "" : "s"));
    return tri_findings_say(out, TRI_PART_CURE,
                            "use srun --cpu-bind=cores, or mpirun --map-by slot:PE=N --bind-to core");
  }
  return TRI_OK;
}

/* Compares the cores of a node's ranks with the cores of the job there. */
static tri_status check_cores(const tri_case *c, int node, tri_findings *out) {
  int              first = tri_check_first_of(c, node), ranks, n = cores_of(c, node, &ranks);
  const tri_facts *f = &c->facts[first];
  int              given =
      f->cores.allotted > 0 && f->cores.allotted < f->cores.online ? f->cores.allotted : f->cores.online;

  if (ranks < f->seat.locals) return TRI_OK; /* not all came */
  if (n > 0 && 2 * n <= given) {
    TRI_TRY(tri_findings_add(out, "cores", TRI_LEVEL_WARNING, "%s", f->seat.host));
    TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "its %d rank%s may run on %d of %d hardware thread%s", ranks,
                             ranks == 1 ? "" : "s", n, given, given == 1 ? "" : "s"));
    return tri_findings_say(
        out, TRI_PART_CURE,
        "use srun --cpus-per-task=%d (on srun itself, because Slurm 22.05 and newer do not inherit it from "
        "sbatch), or mpirun --bind-to none",
        given / ranks);
  }
  if (n > 0 && n < ranks) {
    TRI_TRY(tri_findings_add(out, "cores", TRI_LEVEL_WARNING, "%s", f->seat.host));
    TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "%d ranks share %d hardware thread%s", ranks, n,
                             n == 1 ? "" : "s"));
    return tri_findings_say(out, TRI_PART_CURE,
                            "start fewer ranks on the node, or request more cores (--cpus-per-task)");
  }
  return check_bound(c, first, n, out);
}

/* Finds ranks with cores and GPU on different NUMA nodes. */
static tri_status check_near(const tri_case *c, tri_findings *out) {
  char number[TRI_CHECK_NUMBER_BYTES];

  for (int t = 0; t < c->tasks; t++) {
    const tri_facts *f = &c->facts[t];
    if (!came(c, t) || !f->gpu.uuid[0] || f->gpu.numa < 0 || f->cores.numa < 0 ||
        f->gpu.numa == f->cores.numa)
      continue;
    TRI_TRY(tri_findings_add(out, "cores", TRI_LEVEL_WARNING, "rank %s on %s",
                             tri_check_number(&f->seat, number), f->seat.host));
    TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "its cores are on memory node %d, its GPU is on %d",
                             f->cores.numa, f->gpu.numa));
    return tri_findings_say(
        out, TRI_PART_CURE,
        "use --gpu-bind=closest with --cpu-bind=cores if each rank then keeps a GPU, else "
        "--cpu-bind=map_ldom");
  }
  return TRI_OK;
}

/* Sorts ranks by GPU, then by host, then by task. */
static int by_gpu(const void *a, const void *b) {
  const tri_facts *f = *(const tri_facts *const *)a, *g = *(const tri_facts *const *)b;
  int              order = strcmp(f->gpu.uuid, g->gpu.uuid);

  if (!order) order = strcmp(f->seat.host, g->seat.host);
  return order ? order : (f > g) - (f < g);
}

static bool is_shared(const tri_facts *f, const tri_facts *g) {
  return f->gpu.uuid[0] && !strcmp(f->gpu.uuid, g->gpu.uuid) && !strcmp(f->seat.host, g->seat.host);
}

/* Finds, on each node, the first two ranks with the same GPU. */
static tri_status check_shared(const tri_case *c, tri_findings *out) {
  const tri_facts **all = NULL;   /* [tasks] sorted by by_gpu */
  int              *other = NULL; /* [tasks] next task with the same GPU. 0: none */
  bool             *told = NULL;  /* [nodes] */
  tri_status        st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(all, c->tasks));
  TRI_TRY_DONE(TRI_ALLOC(other, c->tasks));
  TRI_TRY_DONE(TRI_ALLOC(told, c->nodes + 1));
  for (int t = 0; t < c->tasks; t++) all[t] = &c->facts[t];
  qsort(all, (size_t)c->tasks, sizeof *all, by_gpu);
  for (int i = 0; i + 1 < c->tasks; i++)
    if (is_shared(all[i], all[i + 1])) other[all[i] - c->facts] = (int)(all[i + 1] - c->facts);
  for (int t = 0; t < c->tasks; t++) {
    int node = c->facts[t].seat.node;
    if (!other[t] || told[node]) continue;
    told[node] = true;
    TRI_TRY_DONE(say_shared(c, t, other[t], out));
  }
done:
  TRI_FREE(all);
  TRI_FREE(other);
  TRI_FREE(told);
  return st;
}

/* Reports a CPU build although the launch has GPUs, or the deck asks for them. */
static tri_status say_cpu_build(const tri_case *c, bool gpus, tri_findings *out) {
  bool insists = !strcmp(c->device, "cuda");

  TRI_TRY(tri_findings_add(out, "device", insists ? TRI_LEVEL_ERROR : TRI_LEVEL_WARNING, "trireme"));
  out->blocks = out->blocks || insists;
  TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "%s, but this program is built for CPUs only",
                           gpus ? "the launch has GPUs" : "the deck has run.device: cuda"));
  return tri_findings_say(out, TRI_PART_CURE, "build it with cmake --preset cuda, or %sset run.device: cpu",
                          gpus ? "request no GPUs and " : "");
}

/* Reports run.device: cuda on ranks without a visible GPU. */
static tri_status say_absent(const tri_case *c, tri_findings *out) {
  TRI_TRY(
      tri_findings_add(out, "device", TRI_LEVEL_ERROR, "all %d rank%s", c->tasks, c->tasks == 1 ? "" : "s"));
  out->blocks = true;
  TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "the deck has run.device: cuda, but no rank sees a GPU"));
  return tri_findings_say(
      out, TRI_PART_CURE,
      "request GPUs (--gpus-per-node), and check nvidia-smi on the node and CUDA_VISIBLE_DEVICES, or set "
      "run.device: cpu");
}

tri_status tri_check_devices(const tri_case *c, tri_findings *out) {
  bool gpus = false;

  for (int t = 0; t < c->tasks; t++) gpus = gpus || c->facts[t].gpu.uuid[0];
  if (!c->gpu_build && (gpus ? strcmp(c->device, "cpu") : !strcmp(c->device, "cuda")))
    TRI_TRY(say_cpu_build(c, gpus, out));
  else if (!gpus && !strcmp(c->device, "cuda") && c->facts[0].version[TRI_VERSION_DRIVER][0])
    TRI_TRY(say_absent(c, out));
  if (gpus && strcmp(c->device, "cpu")) {
    TRI_TRY(check_shared(c, out));
    TRI_TRY(check_models(c, out));
    TRI_TRY(check_peers(c, out));
    TRI_TRY(check_near(c, out));
  }
  for (int n = 0; n < c->nodes; n++)
    if (tri_check_first_of(c, n) >= 0) TRI_TRY(check_cores(c, n, out));
  return TRI_OK;
}
