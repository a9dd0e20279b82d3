/* launch.c - reads tasks, nodes and a meeting point from the launcher's variables. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch.h"
#include "base/hash.h"
#include "base/host_memory.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Chosen. These ports are below those assigned by Linux itself (from 32768) and above those of services. */
enum { PORT_FIRST = 21000, PORTS = 10000, DIGITS = 9 };

/* ---- lists ---- */

typedef struct list {
  tri_launch_name *name;
  int64_t          n, cap;
  int              most;
} list;

static tri_status add(list *l, const char *text) {
  if (l->n >= l->most) TRI_FAIL(TRI_EINPUT, "more than %d hosts", l->most);
  if (!text[0] || strlen(text) >= TRI_LAUNCH_NAME_BYTES)
    TRI_FAIL(TRI_EINPUT, "a host name is empty or too long");
  TRI_TRY(TRI_GROW(l->name, l->cap, l->n + 1));
  strcpy(l->name[l->n++], text);
  return TRI_OK;
}

static tri_status put_part(list *l, const char *before, const char *text);

/* Expands "1-3,07-09" up to its bracket, then the text behind it. */
static tri_status put_numbers(list *l, const char *before, const char *text) {
  const char *end = strchr(text, ']');

  if (!end || end == text) TRI_FAIL(TRI_EINPUT, "a bracket is empty, or not closed");
  while (text < end) {
    char  name[TRI_LAUNCH_NAME_BYTES];
    int   width = 0;
    long  from, to;
    char *next;
    while (isdigit((unsigned char)text[width])) width++;
    if (!width || width > DIGITS) TRI_FAIL(TRI_EINPUT, "a bracket has no number, or one that is too long");
    from = to = strtol(text, &next, 10);
    if (*next == '-') {
      if (!isdigit((unsigned char)next[1]) || strspn(next + 1, "0123456789") > DIGITS)
        TRI_FAIL(TRI_EINPUT, "a range has no end");
      to = strtol(next + 1, &next, 10);
    }
    if (next < end && *next != ',') TRI_FAIL(TRI_EINPUT, "a bracket has an unknown character");
    for (; from <= to; from++) {
      if (snprintf(name, sizeof name, "%s%0*ld", before, width, from) >= (int)sizeof name)
        TRI_FAIL(TRI_EINPUT, "a host name is too long");
      TRI_TRY(put_part(l, name, end + 1));
    }
    text = next + (next < end);
  }
  return TRI_OK;
}

/* Adds hosts with names of `before` and the text up to the comma. */
static tri_status put_part(list *l, const char *before, const char *text) {
  char   name[TRI_LAUNCH_NAME_BYTES];
  size_t n = strcspn(text, "[,");

  if (snprintf(name, sizeof name, "%s%.*s", before, (int)n, text) >= (int)sizeof name)
    TRI_FAIL(TRI_EINPUT, "a host name is too long");
  return text[n] == '[' ? put_numbers(l, name, text + n + 1) : add(l, name);
}

tri_status tri_launch_hosts(const char *text, int most, tri_launch_name **out, int *n) {
  list       l = {.most = most};
  tri_status st = TRI_OK;

  *out = NULL;
  *n = 0;
  while (*text) {
    int depth = 0;
    TRI_TRY_DONE(put_part(&l, "", text));
    for (; *text && (*text != ',' || depth); text++) depth += (*text == '[') - (*text == ']');
    text += *text == ',';
  }
  *out = l.name;
  *n = (int)l.n;
  return TRI_OK;
done:
  TRI_FREE(l.name);
  return st;
}

bool tri_launch_tasks(const char *text, int n, int *out) {
  int at = 0;

  while (*text) {
    char *end;
    long  tasks = strtol(text, &end, 10), times = 1;
    if (end == text || tasks < 1 || tasks > 1 << 20) return false;
    if (!strncmp(end, "(x", 2)) {
      times = strtol(end + 2, &end, 10);
      if (*end++ != ')') return false;
    }
    if (times < 1 || times > n - at || (*end && *end != ',')) return false;
    while (times--) out[at++] = (int)tasks;
    text = end + (*end == ',');
  }
  return at == n;
}

int tri_launch_node_of(const tri_launch *l, int task) {
  for (int i = 0; i < l->n_node; i++) {
    if (task < l->node_tasks[i]) return i;
    task -= l->node_tasks[i];
  }
  return -1;
}

/* ---- the environment ---- */

static int number(const char *name, int otherwise) {
  const char *text = getenv(name);
  char       *end;
  long        v = text ? strtol(text, &end, 10) : -1;

  return v < 0 || v > 1 << 30 ? otherwise : (int)v;
}

/* Reads names and tasks of the step's nodes. None if the two lists do not match. */
static tri_status read_slurm(tri_launch *l) {
  const char *nodes = getenv("SLURM_STEP_NODELIST"), *tasks = getenv("SLURM_STEP_TASKS_PER_NODE");

  if (!nodes || !tasks) return TRI_OK;
  TRI_TRY(tri_launch_hosts(nodes, l->tasks, &l->node, &l->n_node));
  TRI_TRY(TRI_ALLOC(l->node_tasks, l->n_node));
  if (!tri_launch_tasks(tasks, l->n_node, l->node_tasks)) l->n_node = 0;
  if (l->n_node) memcpy(l->hub, l->node[0], sizeof l->hub);
  return TRI_OK;
}

/* mpirun assigns ranks to the nodes of an allocation in order. Without an allocation the node of rank 0 is
 * not known, so hub stays empty. */
static tri_status read_mpirun(tri_launch *l) {
  const char      *nodes = getenv("SLURM_JOB_NODELIST");
  tri_launch_name *name = NULL;
  int              n = 0;

  if (!nodes) return TRI_OK;
  TRI_TRY(tri_launch_hosts(nodes, 1 << 20, &name, &n));
  if (n) memcpy(l->hub, name[0], sizeof l->hub);
  TRI_FREE(name);
  return TRI_OK;
}

/* Returns a key shared by all tasks of a launch. The next launch on the machine has another one. */
static uint64_t make_key(void) {
  static const char *const name[] = {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT", "PMIX_NAMESPACE",
                                     "OMPI_MCA_ess_base_jobid"};
  uint64_t                 key = 0;

  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    const char *text = getenv(name[i]);
    key = tri_hash64(text ? text : "-", text ? strlen(text) : 1, key);
  }
  return key;
}

tri_status tri_launch_read(int task, int tasks, int locals, tri_launch *out) {
  bool mpirun = getenv("OMPI_COMM_WORLD_SIZE") != NULL, slurm = !mpirun && getenv("SLURM_STEP_NODELIST");

  *out = (tri_launch){.task = task, .tasks = tasks, .locals = locals, .slurm_task = -1, .kind = "PMI"};
  out->key = make_key();
  out->port = PORT_FIRST + (int)(out->key % PORTS);
  if (tasks == 1) {
    out->kind = "alone";
    out->locals = 1;
    return TRI_OK;
  }
  out->local = number(mpirun ? "OMPI_COMM_WORLD_LOCAL_RANK" : slurm ? "SLURM_LOCALID" : "MPI_LOCALRANKID", 0);
  if (slurm) {
    int node = number("SLURM_NODEID", -1);
    out->kind = "srun";
    out->slurm_task = number("SLURM_PROCID", -1);
    TRI_TRY(read_slurm(out));
    if (node >= 0 && node < out->n_node) out->locals = out->node_tasks[node];
  }
  if (mpirun) out->kind = "mpirun";
  if (mpirun && tasks > out->locals) TRI_TRY(read_mpirun(out));
  if (tasks == out->locals) strcpy(out->hub, "127.0.0.1");
  return TRI_OK;
}

void tri_launch_free(tri_launch *l) {
  TRI_FREE(l->node);
  TRI_FREE(l->node_tasks);
  *l = (tri_launch){0};
}
