/* examine_mpi.c - measures communicators, pairs of nodes, products and the folder, and reports hanging
 * ranks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/log.h"
#include "comm/peers/mac.h"
#include "machine/machine.h"
#include "examine_impl.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Chosen. HANG_EXTRA_S: rank 0 has named the hanging ranks by then. */
enum { HANG_EXTRA_S = 20, END_S = 10, SHOWN = 8 };

/* ---- hanging ranks ---- */

static const char *cure_of(const tri_rendezvous_hang *h) {
  const char *stage = h->reason ? "" : h->stage; /* the stage says nothing about a stopped rank */

  if (h->failed) return "follow its message";
  if (!strcmp(stage, "MPI_Init"))
    return "the ranks reached each other before MPI. Check the interfaces of MPI "
           "(OMPI_MCA_btl_tcp_if_include), srun --mpi=list (use --mpi=pmix), and whether mpirun or srun "
           "belongs to the MPI of the build";
  if (!strcmp(stage, "folder") || !strcmp(stage, "HDF5"))
    return "its file system does not answer. Try ls and touch in the folder from that node, or set "
           "run.output to another folder";
  return "check the rank for a node out of memory, a stopped process, or a link that is down, or leave the "
         "node out with --exclude";
}

static tri_status say_hang(tri_exam *x, const tri_rendezvous_hang *h) {
  tri_text   who = {0};
  tri_status st = TRI_OK;

  for (int i = 0; i < h->n && i < SHOWN && (h->n == 1 || h->n < x->launch.tasks); i++) {
    if (i) TRI_TRY_DONE(tri_text_printf(&who, ", "));
    if (x->facts[h->task[i]].seat.host[0])
      TRI_TRY_DONE(tri_check_put_rank(&x->facts[h->task[i]].seat, &who));
    else
      TRI_TRY_DONE(tri_text_printf(&who, "rank %d", h->task[i]));
  }
  if (h->n > 1 && h->n == x->launch.tasks)
    TRI_TRY_DONE(tri_text_printf(&who, "all %d ranks", h->n));
  else if (h->n > SHOWN)
    TRI_TRY_DONE(tri_text_printf(&who, " and %d more", h->n - SHOWN));
  TRI_TRY_DONE(tri_findings_add(&x->found, h->failed ? "failed" : "hang", TRI_LEVEL_ERROR, "%s", who.data));
  if (h->reason)
    TRI_TRY_DONE(tri_findings_say(&x->found, TRI_PART_WHAT, "in the stage '%s': %s", h->stage, h->reason));
  else
    TRI_TRY_DONE(tri_findings_say(&x->found, TRI_PART_WHAT,
                                  "not out of the stage '%s' after %.0f s. %d of %d ranks are further",
                                  h->stage, x->opt->patience_s, x->launch.tasks - h->n, x->launch.tasks));
  TRI_TRY_DONE(tri_findings_say(&x->found, TRI_PART_CURE, "%s", cure_of(h)));
done:
  tri_text_free(&who);
  return st;
}

void tri_exam_on_hang(void *ctx, const tri_rendezvous_hang *hang) {
  tri_exam *x = ctx;

  tri_runtime_abort_within(END_S, TRI_EXAMINE_CODE);
  pthread_mutex_lock(&x->lock);
  if (!x->c.launch) { /* nothing was checked, because the ranks could not connect */
    x->c = (tri_case){.launch = &x->launch, .facts = x->facts, .tasks = x->launch.tasks, .clock = x->clock};
    if (tri_case_number(&x->c, x->facts, x->opt->ranks_per_node) != TRI_OK) tri_error_clear();
  }
  if (say_hang(x, hang) != TRI_OK || tri_exam_print(x, "a rank hangs or failed") != TRI_OK)
    tri_log_lines(TRI_LOG_ERROR, tri_error_message());
  tri_runtime_abort(TRI_EXAMINE_CODE);
}

/* ---- stages ---- */

static void enter(tri_exam *x, const char *stage) {
  tri_rendezvous_stage(x->rendezvous, stage);
  tri_runtime_abort_within((int)(2 * x->opt->patience_s) + HANG_EXTRA_S, TRI_EXAMINE_CODE);
}

static tri_status add_rate(tri_exam *x, const tri_rate *r) {
  tri_status st;

  if (x->launch.task != 0 || !r->scope[0] || !(r->bytes_per_s > 0)) return TRI_OK;
  pthread_mutex_lock(&x->lock);
  st = TRI_GROW(x->rate, x->rate_cap, x->n_rate + 1);
  if (st == TRI_OK) x->rate[x->n_rate++] = *r;
  pthread_mutex_unlock(&x->lock);
  return st;
}

/* Gathers the facts by MPI if the ranks could not connect before it. */
static tri_status gather_facts(tri_exam *x) {
  tri_comm  *world = x->se.comm[TRI_WORLD];
  tri_facts *all = NULL;
  size_t    *counts = NULL;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(counts, world->size));
  TRI_TRY_DONE(tri_host_gather_all(world, &x->facts[0], sizeof *all, (void **)&all, counts));
  if (x->launch.task != 0) goto done;
  for (int r = 0; r < world->size; r++)
    if (counts[r] == sizeof *all && tri_facts_check(&all[r], sizeof *all, x->launch.tasks))
      x->facts[all[r].seat.task] = all[r];
  pthread_mutex_lock(&x->lock);
  st = tri_exam_check(x);
  pthread_mutex_unlock(&x->lock);
done:
  TRI_FREE(all);
  TRI_FREE(counts);
  return st;
}

static void name_pair(const tri_exam *x, tri_rate *r) {
  int         a = tri_check_first_of(&x->c, r->from), b = tri_check_first_of(&x->c, r->to);
  const char *from = a < 0 ? "?" : x->facts[a].seat.host, *to = b < 0 ? "?" : x->facts[b].seat.host;

  if (strcmp(from, to))
    snprintf(r->scope, sizeof r->scope, "%.60s - %.60s", from, to);
  else /* pretended nodes */
    snprintf(r->scope, sizeof r->scope, "node %d - node %d", r->from, r->to);
}

/* Measures the pairs of each round and collects them on rank 0. */
static tri_status measure_pairs(tri_exam *x) {
  tri_comm  *world = x->se.comm[TRI_WORLD];
  tri_rate  *all = NULL, mine;
  size_t    *counts = NULL;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(counts, world->size));
  for (int round = 0; round < tri_speed_rounds(&x->se.rt); round++) {
    enter(x, "pairs of nodes");
    TRI_TRY_DONE(tri_speed_pair(&x->se, round, &mine));
    TRI_TRY_DONE(tri_host_gather_all(world, &mine, sizeof mine, (void **)&all, counts));
    for (int r = 0; r < world->size && x->launch.task == 0; r++)
      if (all[r].from >= 0) {
        name_pair(x, &all[r]);
        TRI_TRY_DONE(add_rate(x, &all[r]));
      }
    TRI_FREE(all);
  }
done:
  TRI_FREE(all);
  TRI_FREE(counts);
  return st;
}

static tri_status measure_scopes(tri_exam *x, const tri_speed_buffers *workspace) {
  for (int scope = 0; scope < TRI_SCOPE_COUNT; scope++) {
    tri_rate r;
    char     stage[32];
    snprintf(stage, sizeof stage, "communicator %s", tri_scope_text((tri_scope)scope));
    enter(x, stage);
    TRI_TRY(tri_speed_scope(&x->se, (tri_scope)scope, workspace, &r));
    TRI_TRY(add_rate(x, &r));
  }
  return measure_pairs(x);
}

/* Results of one rank. */
typedef struct own {
  int32_t    task;
  char       model[TRI_FACTS_NAME_BYTES], uuid[TRI_FACTS_NAME_BYTES]; /* GPU used by the rank. Empty: none */
  tri_speeds speed;
  tri_folder_facts folder;
  tri_input_facts  input;
} own;

/* Sets the figures not measured now. They come from an earlier, perhaps larger launch, or from the table of
 * such machines. *found: there was an earlier launch. */
static tri_status begin_machine(const tri_session *se, const char *path, int64_t bytes, tri_machine *m,
                                bool *found) {
  *found = false;
  if (tri_machine_read(path, m, found) != TRI_OK) tri_error_clear(); /* it is written anew */
  if (*found) return TRI_OK;
  if (!tri_device_is_gpu(se->device))
    tri_machine_host(se->threads, bytes, m);
  else if (!tri_machine_guess(se->device->model, bytes, m))
    TRI_TRY(tri_machine_find("a100-40", m));
  return TRI_OK;
}

/* Sets products and memory of the slowest rank. all [tasks]. */
static void set_speeds(const own *all, int tasks, tri_machine *m) {
  tri_speeds least = all[0].speed;

  for (int r = 1; r < tasks; r++) {
    const tri_speeds *s = &all[r].speed;
    if (s->flops_bf16 < least.flops_bf16) least.flops_bf16 = s->flops_bf16;
    if (s->flops_f32 < least.flops_f32) least.flops_f32 = s->flops_f32;
    if (s->mem_bytes_per_s < least.mem_bytes_per_s) least.mem_bytes_per_s = s->mem_bytes_per_s;
    if (s->host_bytes_per_s < least.host_bytes_per_s) least.host_bytes_per_s = s->host_bytes_per_s;
  }
  m->flops_bf16 = least.flops_bf16;
  m->flops_f32 = least.flops_f32;
  m->mem_bytes_per_s = least.mem_bytes_per_s;
  if (least.host_bytes_per_s > 0) m->host_bytes_per_s = least.host_bytes_per_s;
}

enum { MOST_OLDER = 256 };

/* Makes the figures of this machine. older: names of better figures from an earlier launch, with commas, or
 * "". */
static tri_status make_machine(const tri_exam *x, const own *all, const tri_folder_trial *trial,
                               const char *path, tri_machine *m, char older[MOST_OLDER]) {
  size_t      bytes_free = 0, bytes = 0;
  tri_machine before;
  const char *kept[TRI_MACHINE_FIGURES];
  bool        found;
  int         n;

  TRI_TRY(x->se.device->ops->mem_info(x->se.device, &bytes_free, &bytes));
  TRI_TRY(begin_machine(&x->se, path, (int64_t)bytes, m, &found));
  before = *m;
  m->device_bytes = (int64_t)bytes;
  snprintf(m->name, sizeof m->name, "measured");
  set_speeds(all, x->launch.tasks, m);
  for (int64_t i = 0; i < x->n_rate; i++) {
    const tri_rate *r = &x->rate[i];
    tri_link        l = {r->latency_s, r->bytes_per_s};
    if (!strcmp(r->scope, "node")) m->node = l;
    if (!strcmp(r->scope, "cross")) m->cross = l;
  }
  if (trial->bytes && trial->write_s > 0) m->disk_bytes_per_s = (double)trial->bytes / trial->write_s;
  n = found ? tri_machine_better(&before, m, kept) : 0;
  older[0] = 0;
  for (int i = 0; i < n; i++)
    snprintf(older + strlen(older), MOST_OLDER - strlen(older), "%s%s", i ? ", " : "", kept[i]);
  return tri_machine_check(m, "measured");
}

/* Writes the figures for trireme plan. Failing to write them is no error of the launch. */
static void write_machine(tri_exam *x, const own *all, const tri_folder_trial *trial) {
  const tri_device *d = x->se.device;
  int               threads = tri_device_is_gpu(d) ? 1 : x->se.threads; /* a GPU's figures do not depend on
                                                                         * threads */
  char              path[TRI_MACHINE_PATH_BYTES];
  tri_machine       m;
  char              older[MOST_OLDER] = "";
  tri_status        st = tri_machine_path(d->ops->name, threads, path);

  if (st == TRI_OK) st = make_machine(x, all, trial, path, &m, older);
  if (st == TRI_OK) st = tri_machine_write(path, &m);
  if (st == TRI_OK) {
    tri_log_narrow(TRI_LOG_INFO, "the measured figures are kept for trireme plan%s%s: %s",
                   older[0] ? ". Better figures of an earlier call stay: " : "", older, path);
    return;
  }
  tri_log_narrow(TRI_LOG_WARN, "the measured figures cannot be kept for trireme plan: %s",
                 tri_error_message());
  tri_error_clear();
}

/* Names the GPU as CUDA does, "GPU-" and 16 bytes in groups. */
static void name_device(const tri_device *d, own *out) {
  char *at = out->uuid;

  if (!tri_device_is_gpu(d)) return;
  snprintf(out->model, sizeof out->model, "%s", d->model);
  at += snprintf(at, 8, "GPU-");
  for (int i = 0; i < 16; i++)
    at += snprintf(at, 4, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", d->uuid[i]);
}

/* Stores, on rank 0, the device really used by a task. Its texts came over MPI. */
static void keep_device(tri_exam *x, const own *from) {
  tri_facts *f = &x->facts[from->task];

  if (!memchr(from->model, 0, sizeof from->model) || !memchr(from->uuid, 0, sizeof from->uuid) ||
      !from->uuid[0])
    return;
  memcpy(f->gpu.model, from->model, sizeof f->gpu.model);
  memcpy(f->gpu.uuid, from->uuid, sizeof f->gpu.uuid);
}

/* Tests the input files, on the first rank of a machine. */
static void try_inputs(const tri_examine_opt *opt, tri_input_facts *out) {
  for (int i = 0; i < opt->n_input; i++) {
    if (!access(opt->input[i], R_OK)) continue;
    if (out->error)
      out->more++;
    else
      out->error = errno, out->which = i;
  }
}

/* Checks, on rank 0, the results of all ranks, all [world rank]. */
static tri_status judge(tri_exam *x, const own *all, const tri_folder_trial *trial) {
  double           *flops = NULL;
  tri_folder_facts *folder = NULL;
  tri_input_facts  *input = NULL;
  tri_rate   disk[] = {{"disk write", trial->bytes, 0, 0, -1, -1}, {"disk read", trial->bytes, 0, 0, -1, -1}};
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(flops, x->launch.tasks));
  TRI_TRY_DONE(TRI_ALLOC(folder, x->launch.tasks));
  TRI_TRY_DONE(TRI_ALLOC(input, x->launch.tasks));
  for (int r = 0; r < x->launch.tasks; r++)
    if (all[r].task >= 0 && all[r].task < x->launch.tasks) {
      flops[all[r].task] = all[r].speed.flops_bf16;
      folder[all[r].task] = all[r].folder;
      input[all[r].task] = all[r].input;
      keep_device(x, &all[r]);
    }
  if (trial->write_s > 0) disk[0].bytes_per_s = (double)trial->bytes / trial->write_s;
  if (trial->read_s > 0) disk[1].bytes_per_s = (double)trial->bytes / trial->read_s;
  for (int i = 0; i < 2; i++) TRI_TRY_DONE(add_rate(x, &disk[i]));
  pthread_mutex_lock(&x->lock);
  st = tri_check_links(&x->c, x->rate, (int)x->n_rate, &x->found);
  if (st == TRI_OK) st = tri_check_speeds(&x->c, flops, &x->found);
  if (st == TRI_OK) st = tri_check_folder(&x->c, x->opt->folder, folder, trial->hdf5, &x->found);
  if (st == TRI_OK) st = tri_check_inputs(&x->c, x->opt->input, x->opt->n_input, input, &x->found);
  pthread_mutex_unlock(&x->lock);
  if (st == TRI_OK) write_machine(x, all, trial);
done:
  TRI_FREE(flops);
  TRI_FREE(folder);
  TRI_FREE(input);
  return st;
}

static tri_status measure_own(tri_exam *x) {
  tri_comm        *world = x->se.comm[TRI_WORLD];
  own             *all = NULL, mine = {.task = x->launch.task};
  size_t          *counts = NULL;
  char             folder[4096] = "";
  int64_t          errors;
  uint64_t         nonce = 0; /* for names of files, so nobody can put a link there first */
  tri_folder_trial trial = {0};
  bool             whole;
  tri_status       st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(counts, world->size));
  enter(x, "products and memory");
  TRI_TRY_DONE(tri_speed_device(&x->se, &mine.speed));
  name_device(x->se.device, &mine);
  enter(x, "folder");
  if (world->rank == 0) tri_folder_there(x->opt->folder, folder, sizeof folder);
  TRI_TRY_DONE(tri_agree(world, world->rank == 0 ? tri_random_bytes(&nonce, sizeof nonce) : TRI_OK));
  TRI_TRY_DONE(tri_host_bcast(world, &nonce, sizeof nonce, 0));
  TRI_TRY_DONE(tri_host_bcast(world, folder, sizeof folder, 0));
  folder[sizeof folder - 1] = '\0';
  if (x->se.rt.machine_rank == 0) try_inputs(x->opt, &mine.input);
  TRI_TRY_DONE(tri_folder_try(&x->se, folder, nonce, &mine.folder, &whole));
  enter(x, "HDF5");
  if (whole) TRI_TRY_DONE(tri_folder_write(&x->se, folder, nonce, &trial));
  enter(x, "findings");
  TRI_TRY_DONE(tri_host_gather_all(world, &mine, sizeof mine, (void **)&all, counts));
  if (x->launch.task == 0) st = judge(x, all, &trial);
  TRI_TRY_DONE(tri_agree(world, st));
  errors = x->found.errors;
  TRI_TRY_DONE(tri_host_max(world, &errors, 1));
  x->found.errors = (int)errors;
done:
  TRI_FREE(all);
  TRI_FREE(counts);
  return st;
}

static tri_status measure(tri_exam *x) {
  /* The rendezvous monitors MPI_Init. */
  tri_session_opt   opt = {.device = x->opt->device,
                           .ranks_per_node = x->opt->ranks_per_node,
                           .threads = x->opt->threads,
                           .tensor = x->opt->tensor};
  tri_speed_buffers workspace;
  tri_status        st;

  if (x->launch.task != 0) enter(x, "MPI_Init");
  st = tri_session_open(&opt, &x->se);
  if (st != TRI_OK && x->se.rt.world_size)
    tri_rendezvous_stage(x->rendezvous, "device and communicators"); /* MPI is up */
  TRI_TRY(st);
  enter(x, "memory");
  TRI_TRY(tri_speed_plan(&x->se, &workspace));
  TRI_TRY(tri_session_take_memory(&x->se));
  if (!tri_rendezvous_can(x->rendezvous) && x->launch.tasks > 1) TRI_TRY(gather_facts(x));
  TRI_TRY(measure_scopes(x, &workspace));
  return measure_own(x);
}

tri_status tri_exam_measure(tri_exam *x) {
  tri_status st = measure(x);

  if (st != TRI_OK) {
    tri_rendezvous_fail(x->rendezvous, tri_error_message());
    poll(NULL, 0, END_S * 1000); /* rank 0 names this rank and ends all */
    return st;
  }
  tri_rendezvous_stage(x->rendezvous, NULL);
  return TRI_OK;
}

tri_status tri_exam_leave(tri_exam *x) {
  TRI_TRY(tri_host_barrier(x->se.comm[TRI_WORLD]));
  tri_session_close(&x->se);
  tri_runtime_abort_within(0, 0);
  return TRI_OK;
}
