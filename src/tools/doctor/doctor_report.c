/* doctor_report.c - prints the findings on one screen or as one JSON value. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "doctor_report.h"
#include "base/columns.h"
#include "io/text/json_text.h"

#include <stdio.h>
#include <string.h>

enum { RANKS_SHOWN = 16, NODES_SHOWN = 8, PAIRS_SHOWN = 6 }; /* chosen for one screen */

/* ---- ranks ---- */

/* Lists the threads of a mask in ascending order in x. Returns their number. */
static int cores_of(const uint64_t *mask, int x[TRI_FACTS_CORES]) {
  int n = 0;

  for (int i = 0; i < TRI_FACTS_CORES; i++)
    if (mask[i / 64] >> i % 64 & 1) x[n++] = i;
  return n;
}

/* Returns whether the run would use the rank's GPU. */
static bool on_gpu(const tri_case *c, const tri_facts *f) {
  return f->gpu.uuid[0] && strcmp(c->device, "cpu") && (c->gpu_build || !strcmp(c->device, "cuda"));
}

static const char *device_of(const tri_case *c, const tri_facts *f) {
  return on_gpu(c, f) ? f->gpu.uuid : "cpu";
}

/* Returns whether Slurm numbers ranks differently from MPI. Its numbers then have a column. */
static bool has_tasks(const tri_case *c) {
  for (int t = 0; t < c->tasks; t++) {
    const tri_facts_seat *s = &c->facts[t].seat;
    if (s->host[0] && s->slurm_task >= 0 && s->slurm_task != s->rank) return true;
  }
  return false;
}

enum { WIDE = 24, NARROW = 17 }; /* columns of the device, without and with the column of tasks */

static tri_status put_rank(const tri_case *c, const tri_facts *f, bool tasks, tri_text *out) {
  char       task[16] = "";
  char       device[TRI_FACTS_NAME_BYTES], host[TRI_FACTS_NAME_BYTES], cores[TRI_FACTS_NAME_BYTES];
  tri_text   list = {0};
  int        x[TRI_FACTS_CORES], n = cores_of(f->cores.mask, x);
  tri_status st = TRI_OK;

  TRI_TRY_DONE(tri_findings_ranges(&list, x, n));
  tri_text_shorten(f->seat.host, 16, host, sizeof host);
  tri_text_shorten(on_gpu(c, f) && f->gpu.model[0] ? f->gpu.model : device_of(c, f), tasks ? NARROW : WIDE,
                   device, sizeof device);
  tri_text_shorten(n ? list.data : "?", 16, cores, sizeof cores);
  if (tasks && f->seat.slurm_task >= 0) snprintf(task, sizeof task, "%d", f->seat.slurm_task);
  TRI_TRY_DONE(tri_text_printf(out, "%5d%*s  %-16s %5d  %-*s %s (%d)\n", f->seat.rank, tasks ? 6 : 0, task,
                               host, f->seat.local, tasks ? NARROW : WIDE, device, cores, f->cores.mine));
  if (on_gpu(c, f) && f->gpu.model[0]) TRI_TRY_DONE(tri_text_printf(out, "%31s%.46s\n", "", f->gpu.uuid));
  if (on_gpu(c, f) && f->gpu.bus[0])
    TRI_TRY_DONE(tri_text_printf(out, "%31s%.20s%s%.20s\n", "", f->gpu.bus, f->gpu.nic[0] ? ", near " : "",
                                 f->gpu.nic));
done:
  tri_text_free(&list);
  return st;
}

/* Prints a node in one line. */
static tri_status put_node(const tri_case *c, int node, tri_text *out) {
  int              ranks = 0, gpus = 0, first = tri_check_first_of(c, node);
  const tri_facts *f = &c->facts[first < 0 ? 0 : first];
  char             host[TRI_FACTS_NAME_BYTES];

  if (first < 0) return TRI_OK;
  for (int t = first; t >= 0; t = tri_check_next_of(c, t)) {
    ranks++;
    gpus += c->facts[t].gpu.uuid[0] != '\0';
  }
  tri_text_shorten(f->seat.host, 16, host, sizeof host);
  return tri_text_printf(out, "  %-16s %d rank%s, %d with a GPU%s%.24s, %d of %d hardware thread%s each\n",
                         host, ranks, ranks == 1 ? "" : "s", gpus, gpus ? ": " : "", f->gpu.model,
                         f->cores.mine, f->cores.online, f->cores.online == 1 ? "" : "s");
}

static tri_status put_ranks(const tri_case *c, tri_text *out) {
  int came = 0;

  for (int t = 0; t < c->tasks; t++) came += c->facts[t].seat.host[0] != '\0';
  TRI_TRY(tri_text_printf(out, "%d of %d rank%s on %d node%s (%s)\n", came, c->tasks,
                          c->tasks == 1 ? "" : "s", c->nodes, c->nodes == 1 ? "" : "s", c->launch->kind));
  if (c->tasks > RANKS_SHOWN) {
    for (int n = 0; n < c->nodes && n < NODES_SHOWN; n++) TRI_TRY(put_node(c, n, out));
    if (c->nodes > NODES_SHOWN)
      TRI_TRY(tri_text_printf(out, "  ... and %d more (--json has all)\n", c->nodes - NODES_SHOWN));
    return TRI_OK;
  }
  bool tasks = has_tasks(c);
  TRI_TRY(tri_text_printf(out, " rank%s  node             local  %-*s cores\n", tasks ? "  task" : "",
                          tasks ? NARROW : WIDE, "device"));
  for (int r = 0; r < c->tasks; r++) {
    int t = tri_check_task_of(c, r);
    if (t >= 0) TRI_TRY(put_rank(c, &c->facts[t], tasks, out));
  }
  return TRI_OK;
}

/* ---- common facts ---- */

static tri_status put_wrapped(const tri_text *line, tri_text *out) {
  TRI_TRY(tri_text_wrap(line->data, TRI_SCREEN_COLUMNS, out));
  return tri_text_printf(out, "\n");
}

static bool is_equal(const tri_case *c, int version) {
  for (int t = 1; t < c->tasks; t++)
    if (c->facts[t].seat.host[0] && strcmp(c->facts[t].version[version], c->facts[0].version[version]))
      return false;
  return true;
}

static tri_status put_versions(const tri_case *c, tri_text *out) {
  tri_text   line = {0};
  int        n = 0;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(tri_text_printf(&line, c->tasks > 1 ? "equal everywhere: " : "versions: "));
  for (int v = 0; v < TRI_VERSION_COUNT; v++)
    if (c->facts[0].version[v][0] && is_equal(c, v))
      TRI_TRY_DONE(tri_text_printf(&line, "%s%s %s", n++ ? ", " : "", tri_facts_version_name(v),
                                   c->facts[0].version[v]));
  TRI_TRY_DONE(put_wrapped(&line, out));
done:
  tri_text_free(&line);
  return st;
}

static void limit_text(int64_t bytes, char out[TRI_CELL_BYTES]) {
  if (bytes >= 0)
    tri_cell_bytes(bytes, out);
  else
    strcpy(out, bytes == TRI_FACTS_NO_LIMIT ? "no limit" : "unknown");
}

/* Prints the lowest limits of all ranks. */
static tri_status put_limits(const tri_case *c, tri_text *out) {
  tri_facts_limits least = c->facts[0].limits;
  char             lock[TRI_CELL_BYTES], shm[TRI_CELL_BYTES];
  double           ahead = 0, within = 0;
  bool             clocks = false;

  for (int t = 0; t < c->tasks; t++) {
    const tri_facts_limits *l = &c->facts[t].limits;
    if (!c->facts[t].seat.host[0]) continue;
    if (l->memlock >= 0 && (least.memlock < 0 || l->memlock < least.memlock)) least.memlock = l->memlock;
    if (l->files >= 0 && (least.files < 0 || l->files < least.files)) least.files = l->files;
    if (l->shm_free >= 0 && (least.shm_free < 0 || l->shm_free < least.shm_free))
      least.shm_free = l->shm_free;
    if (!c->clock || !c->clock[t].known) continue;
    double a = c->clock[t].ahead_s < 0 ? -c->clock[t].ahead_s : c->clock[t].ahead_s;
    if (a >= ahead) within = c->clock[t].within_s;
    if (a >= ahead) ahead = a;
    clocks = true;
  }
  limit_text(least.memlock, lock);
  limit_text(least.shm_free, shm);
  TRI_TRY(tri_text_printf(out, "at least: memlock %s, %lld open files, %s free in /dev/shm\n", lock,
                          (long long)least.files, shm));
  if (clocks)
    return tri_text_printf(out, "clocks: at most %.1f ms apart, to within %.1f ms\n", ahead * 1e3,
                           within * 1e3);
  return TRI_OK;
}

/* ---- figures ---- */

static tri_status put_rate(const tri_rate *r, tri_text *out) {
  char bytes[TRI_CELL_BYTES] = "-", rate[TRI_CELL_BYTES], scope[80];

  if (r->bytes > 0) tri_cell_bytes(r->bytes, bytes);
  tri_cell_digits(r->bytes_per_s / 1e9, 8, rate);
  tri_text_shorten(r->scope, 30, scope, sizeof scope);
  TRI_TRY(tri_text_printf(out, "  %-30s %9s %10s", scope, bytes, rate));
  if (r->latency_s > 0) TRI_TRY(tri_text_printf(out, " %12.1f", r->latency_s * 1e6));
  return tri_text_printf(out, "\n");
}

/* Prints rates of communicators, of the disk, and of the slowest pairs. */
static tri_status put_rates(const tri_report *r, tri_text *out) {
  int pairs = 0;

  TRI_TRY(tri_text_printf(out, "  %-30s %9s %10s %12s\n", "measured", "bytes", "GB/s", "latency us"));
  for (int i = 0; i < r->n_rate; i++) {
    pairs += r->rate[i].from >= 0;
    if (r->rate[i].from < 0 || pairs <= PAIRS_SHOWN) TRI_TRY(put_rate(&r->rate[i], out));
  }
  if (pairs <= PAIRS_SHOWN) return TRI_OK;
  TRI_TRY(tri_text_printf(out, "  ... and %d more pair%s of nodes (--json has all)\n", pairs - PAIRS_SHOWN,
                          pairs - PAIRS_SHOWN == 1 ? "" : "s"));
  return TRI_OK;
}

/* ---- findings ---- */

static tri_status put_finding(const tri_finding *f, tri_text *out) {
  tri_text   line = {0};
  tri_status st = TRI_OK;

  TRI_TRY_DONE(tri_text_printf(&line, "%s: %s: %s: %s", tri_level_text(f->level), f->check, f->where,
                               f->what ? f->what : ""));
  TRI_TRY_DONE(put_wrapped(&line, out));
  line.len = 0;
  TRI_TRY_DONE(tri_text_printf(&line, "  do: %s", f->cure ? f->cure : ""));
  TRI_TRY_DONE(put_wrapped(&line, out));
done:
  tri_text_free(&line);
  return st;
}

tri_status tri_report_screen(const tri_report *r, tri_text *out) {
  const tri_findings *f = r->found;
  int                 warnings = (int)f->n - f->errors;

  TRI_TRY(put_ranks(r->c, out));
  TRI_TRY(put_versions(r->c, out));
  TRI_TRY(put_limits(r->c, out));
  if (r->n_rate) TRI_TRY(put_rates(r, out));
  for (int level = TRI_LEVEL_ERROR; level <= TRI_LEVEL_WARNING; level++)
    for (int64_t i = 0; i < f->n; i++)
      if ((int)f->item[i].level == level) TRI_TRY(put_finding(&f->item[i], out));
  if (r->unmeasured) TRI_TRY(tri_text_printf(out, "not measured: %s\n", r->unmeasured));
  return tri_text_printf(out, "%d error%s, %d warning%s\n", f->errors, f->errors == 1 ? "" : "s", warnings,
                         warnings == 1 ? "" : "s");
}

/* ---- JSON ---- */

static tri_status put_key(tri_text *out, const char *before, const char *key, const char *text) {
  TRI_TRY(tri_text_printf(out, "%s\"%s\": ", before, key));
  return tri_json_put_string(out, text, strlen(text));
}

static tri_status put_json_rank(const tri_case *c, const tri_facts *f, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "{\"rank\": %d", f->seat.rank));
  TRI_TRY(put_key(out, ", ", "node", f->seat.host));
  TRI_TRY(tri_text_printf(out, ", \"local_rank\": %d", f->seat.local));
  TRI_TRY(put_key(out, ", ", "device", device_of(c, f)));
  TRI_TRY(tri_text_printf(out, ", \"cores\": %d", f->cores.mine));
  if (f->seat.slurm_task >= 0 && f->seat.slurm_task != f->seat.rank)
    TRI_TRY(tri_text_printf(out, ", \"slurm_task\": %d", f->seat.slurm_task));
  return tri_text_printf(out, "}");
}

static tri_status put_json_rate(const tri_rate *r, tri_text *out) {
  TRI_TRY(put_key(out, "{", "scope", r->scope));
  TRI_TRY(tri_text_printf(out, ", \"bytes\": %lld, \"bytes_per_s\": ", (long long)r->bytes));
  TRI_TRY(tri_json_put_double(out, r->bytes_per_s));
  TRI_TRY(tri_text_printf(out, ", \"latency_s\": "));
  if (r->latency_s > 0)
    TRI_TRY(tri_json_put_double(out, r->latency_s));
  else
    TRI_TRY(tri_text_printf(out, "null"));
  return tri_text_printf(out, "}");
}

tri_status tri_report_json(const tri_report *r, tri_text *out) {
  const tri_findings *f = r->found;
  int                 n = 0;

  TRI_TRY(tri_text_printf(out, "{\"ranks\": ["));
  for (int rank = 0; rank < r->c->tasks; rank++) {
    int t = tri_check_task_of(r->c, rank);
    if (t < 0) continue;
    TRI_TRY(tri_text_printf(out, "%s", n++ ? ", " : ""));
    TRI_TRY(put_json_rank(r->c, &r->c->facts[t], out));
  }
  TRI_TRY(tri_text_printf(out, "], \"findings\": ["));
  for (int64_t i = 0; i < f->n; i++) {
    const tri_finding *x = &f->item[i];
    TRI_TRY(put_key(out, i ? ", {" : "{", "check", x->check));
    TRI_TRY(put_key(out, ", ", "level", tri_level_text(x->level)));
    TRI_TRY(put_key(out, ", ", "where", x->where));
    TRI_TRY(put_key(out, ", ", "what", x->what ? x->what : ""));
    TRI_TRY(put_key(out, ", ", "cure", x->cure ? x->cure : ""));
    TRI_TRY(tri_text_printf(out, "}"));
  }
  TRI_TRY(tri_text_printf(out, "], \"bandwidth\": ["));
  for (int i = 0; i < r->n_rate; i++) {
    TRI_TRY(tri_text_printf(out, "%s", i ? ", " : ""));
    TRI_TRY(put_json_rate(&r->rate[i], out));
  }
  return tri_text_printf(out, "]}\n");
}
