/* checks_host.c - versions, limits, shared memory, clocks and folders of the machines. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/columns.h"
#include "checks.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static const int64_t mib = 1 << 20;

/* ---- versions ---- */

static const char *version_or_none(const char *text) { return text[0] ? text : "none"; }

/* Processors of other kinds are no mistake in what was loaded. */
static const char *version_cure(int version) {
  if (version == TRI_VERSION_CPU)
    return "their results differ in the last bits, which run.sampler: exact does not go on with: ask for "
           "nodes of one kind (--constraint), set ONEDNN_MAX_CPU_ISA, TRI_CPU_BF16 and TRI_CPU_F32 alike for "
           "all (AVX2, f32 and library are everywhere), or take run.sampler: rescore";
  return "load the same modules on every node (srun --export=ALL after module load; look at "
         "LD_LIBRARY_PATH and LD_PRELOAD), and let all start one file in a shared folder";
}

tri_status tri_check_versions(const tri_case *c, tri_findings *out) {
  char one[TRI_CHECK_NUMBER_BYTES], other[TRI_CHECK_NUMBER_BYTES];

  for (int v = 0; v < TRI_VERSION_COUNT; v++)
    for (int t = 1; t < c->tasks; t++) {
      const tri_facts *a = &c->facts[0], *b = &c->facts[t];
      if (!b->seat.host[0] || !strcmp(a->version[v], b->version[v])) continue;
      TRI_TRY(tri_findings_add(out, "versions", v == TRI_VERSION_CPU ? TRI_LEVEL_WARNING : TRI_LEVEL_ERROR,
                               "%s on %s and %s", tri_facts_version_name(v), a->seat.host, b->seat.host));
      out->blocks = out->blocks || v == TRI_VERSION_PROGRAM || v == TRI_VERSION_MPI || v == TRI_VERSION_PMIX;
      TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "it is %s for rank %s and %s for rank %s",
                               version_or_none(a->version[v]), tri_check_number(&a->seat, one),
                               version_or_none(b->version[v]), tri_check_number(&b->seat, other)));
      TRI_TRY(tri_findings_say(out, TRI_PART_CURE, "%s", version_cure(v)));
      break;
    }
  return TRI_OK;
}

/* ---- limits ---- */

/* A limit is mostly low on every node: one finding, with the first rank that has it and how many do. */
static tri_status say_low(const tri_case *c, const char *check, tri_level level, int first, int n,
                          tri_findings *out) {
  const tri_facts_seat *s = &c->facts[first].seat;
  char                  number[TRI_CHECK_NUMBER_BYTES];

  tri_check_number(s, number);
  if (n == 1) return tri_findings_add(out, check, level, "rank %s on %s", number, s->host);
  return tri_findings_add(out, check, level, "rank %s on %s and %d more", number, s->host, n - 1);
}

static bool uses_gpus(const tri_case *c, const tri_facts *f) {
  return f->gpu.uuid[0] && strcmp(c->device, "cpu") && (c->gpu_build || !strcmp(c->device, "cuda"));
}

/* What page-locked memory needs: networks that register memory want all of it, chosen: below 1 GiB is not
 * meant so. Where nothing registers, below 1 MiB, less than any system gives by itself. */
static int64_t memlock_wanted(const tri_case *c, const tri_facts *f) {
  return uses_gpus(c, f) || f->n_ib > 0 ? 1024 * mib : mib;
}

static tri_status check_memlock(const tri_case *c, tri_findings *out) {
  char have[TRI_CELL_BYTES];
  int  first = -1, n = 0;

  for (int t = 0; t < c->tasks; t++) {
    const tri_facts *f = &c->facts[t];
    if (!f->seat.host[0] || f->limits.memlock < 0 || f->limits.memlock >= memlock_wanted(c, f)) continue;
    if (!n++) first = t;
  }
  if (!n) return TRI_OK;
  const tri_facts *f = &c->facts[first];
  TRI_TRY(say_low(c, "memlock", uses_gpus(c, f) ? TRI_LEVEL_ERROR : TRI_LEVEL_WARNING, first, n, out));
  tri_cell_bytes(f->limits.memlock, have);
  TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "no more than %s may be page-locked (ulimit -l): %s", have,
                           uses_gpus(c, f) ? "NCCL, RDMA and offloading register more"
                                           : "networks that register memory (InfiniBand, UCX) want more"));
  return tri_findings_say(
      out, TRI_PART_CURE,
      "ulimit -l unlimited before srun; if that is refused, LimitMEMLOCK=infinity in slurmd's "
      "unit, and PropagateResourceLimitsExcept=MEMLOCK in slurm.conf");
}

static tri_status check_files(const tri_case *c, tri_findings *out) {
  int64_t wanted = 2 * (int64_t)c->tasks + 256; /* chosen: two connections to each rank, and files */
  int     first = -1, n = 0;

  for (int t = 0; t < c->tasks; t++) {
    const tri_facts *f = &c->facts[t];
    if (!f->seat.host[0] || f->limits.files < 0 || f->limits.files >= wanted) continue;
    if (!n++) first = t;
  }
  if (!n) return TRI_OK;
  TRI_TRY(say_low(c, "files", TRI_LEVEL_WARNING, first, n, out));
  TRI_TRY(tri_findings_say(
      out, TRI_PART_WHAT, "%lld files may be open (ulimit -n); %d ranks that speak with each other want %lld",
      (long long)c->facts[first].limits.files, c->tasks, (long long)wanted));
  return tri_findings_say(out, TRI_PART_CURE, "ulimit -n %lld before srun",
                          (long long)(wanted < 65536 ? 65536 : wanted));
}

/* Chosen: what MPI and NCCL keep there for each rank, with room; a container's 64 MiB are known to be too
 * little (docs.nvidia.com, NCCL troubleshooting: shared memory). */
static tri_status check_shm(const tri_case *c, tri_findings *out) {
  char have[TRI_CELL_BYTES];

  for (int n = 0; n < c->nodes; n++) {
    int first = tri_check_first_of(c, n);
    if (first < 0) continue;
    const tri_facts *f = &c->facts[first];
    if (f->seat.locals < 2 || f->limits.shm_free < 0 || f->limits.shm_free >= 64 * mib * f->seat.locals)
      continue;
    TRI_TRY(tri_findings_add(out, "shm", TRI_LEVEL_ERROR, "%s", f->seat.host));
    out->blocks = true;
    tri_cell_bytes(f->limits.shm_free, have);
    TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "/dev/shm has %s free, %d ranks speak through it", have,
                             f->seat.locals));
    TRI_TRY(tri_findings_say(
        out, TRI_PART_CURE,
        "make it larger: mount -o remount,size=50%% /dev/shm; for a container --shm-size=16g or "
        "--ipc=host; or remove what lies there: ls -l /dev/shm"));
  }
  return TRI_OK;
}

tri_status tri_check_limits(const tri_case *c, tri_findings *out) {
  TRI_TRY(check_memlock(c, out));
  TRI_TRY(check_files(c, out));
  return check_shm(c, out);
}

/* ---- clocks ---- */

enum { CLOCK_MS = 500 }; /* chosen: NTP keeps machines within a few; files are compared by whole seconds */

tri_status tri_check_clocks(const tri_case *c, tri_findings *out) {
  for (int t = 1; t < c->tasks; t++) {
    const tri_facts_clock *k = &c->clock[t];
    if (!k->known || (fabs(k->ahead_s) - k->within_s) * 1000 < CLOCK_MS) continue;
    TRI_TRY(tri_findings_add(out, "clock", TRI_LEVEL_WARNING, "%s", c->facts[t].seat.host));
    TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "its clock is %.3f s %s of %s's (to within %.3f s)",
                             fabs(k->ahead_s), k->ahead_s > 0 ? "ahead" : "behind", c->facts[0].seat.host,
                             k->within_s));
    TRI_TRY(tri_findings_say(
        out, TRI_PART_CURE,
        "start a time service there (systemctl start chronyd; chronyc makestep); times in logs and "
        "the newest of several files cannot be trusted, and munge refuses minutes"));
  }
  return TRI_OK;
}

/* ---- the folder of checkpoints ---- */

static tri_status check_writing(const tri_case *c, int t, const char *folder, const tri_folder_facts *x,
                                tri_findings *out) {
  const char *host = c->facts[t].seat.host;

  if (x->write) {
    TRI_TRY(tri_findings_add(out, "folder", TRI_LEVEL_ERROR, "%s on %s", folder, host));
    TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "a file in it cannot be written: %s", strerror(x->write)));
    return tri_findings_say(
        out, TRI_PART_CURE, "%s",
        x->write == EROFS ? "it is mounted read-only there: put run.output elsewhere, or have it mounted for "
                            "writing (mount -o remount,rw)"
        : x->write == ENOSPC || x->write == EDQUOT
            ? "make room, or put run.output elsewhere (look at df and quota)"
            : "put run.output in a folder that you may write to from every node");
  }
  if (x->seen || x->link) {
    TRI_TRY(tri_findings_add(out, "folder", TRI_LEVEL_ERROR, "%s on %s", folder, host));
    TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "what rank 0 wrote there cannot be read: %s",
                             strerror(x->seen ? x->seen : x->link)));
    return tri_findings_say(
        out, TRI_PART_CURE,
        "it is not the same folder on every node: put run.output on a shared file system");
  }
  return TRI_OK;
}

static tri_status check_locks(const tri_case *c, int t, const char *folder, const tri_folder_facts *x,
                              tri_findings *out) {
  if (x->write || (!x->flock && !x->fcntl)) return TRI_OK;
  TRI_TRY(tri_findings_add(out, "locks", TRI_LEVEL_ERROR, "%s on %s", folder, c->facts[t].seat.host));
  TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "its file system%s%s%s gives no locks: %s: %s%s",
                           x->kind[0] ? " (" : "", x->kind, x->kind[0] ? ")" : "",
                           x->flock ? "flock" : "fcntl", strerror(x->flock ? x->flock : x->fcntl),
                           x->fcntl ? "; MPI may wait for them for ever as it writes" : ""));
  return tri_findings_say(
      out, TRI_PART_CURE,
      "have it mounted with locks (Lustre: -o flock, NFS: with lockd, not nolock), or put run.output "
      "elsewhere; export HDF5_USE_FILE_LOCKING=FALSE helps h5dump and h5py alone: "
      "nothing then keeps two runs out of one output");
}

tri_status tri_check_folder(const tri_case *c, const char *folder, const tri_folder_facts *x,
                            const char *hdf5, tri_findings *out) {
  int before = out->errors;

  for (int n = 0; n < c->nodes; n++) {
    int t = tri_check_first_of(c, n);
    if (t < 0 || !x[t].tried) continue;
    TRI_TRY(check_writing(c, t, folder, &x[t], out));
    TRI_TRY(check_locks(c, t, folder, &x[t], out));
  }
  if (!hdf5[0] || out->errors > before) return TRI_OK;
  TRI_TRY(tri_findings_add(out, "hdf5", TRI_LEVEL_ERROR, "%s", folder));
  TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "no checkpoint could be written there (files in parallel): %s",
                           hdf5));
  return tri_findings_say(
      out, TRI_PART_CURE,
      "put run.output on another file system, or try OMPI_MCA_io=romio321 (or ompio), the other "
      "way Open MPI writes files");
}

/* ---- what the run reads ---- */

static bool same_lack(const tri_input_facts *a, const tri_input_facts *b) {
  return a->error == b->error && a->which == b->which;
}

/* Of node n and all later ones that lack the same. */
static tri_status say_lack(const tri_case *c, int n, const char *path, const tri_input_facts *x,
                           tri_findings *out) {
  const tri_input_facts *f = &x[tri_check_first_of(c, n)];
  int                    nodes = 0;

  for (int k = n; k < c->nodes; k++)
    nodes += tri_check_first_of(c, k) >= 0 && same_lack(f, &x[tri_check_first_of(c, k)]);
  TRI_TRY(tri_findings_add(out, "inputs", TRI_LEVEL_ERROR, nodes > 1 ? "%s on %s and %d more" : "%s on %s",
                           path, c->facts[tri_check_first_of(c, n)].seat.host, nodes - 1));
  TRI_TRY(tri_findings_say(
      out, TRI_PART_WHAT, f->more ? "it cannot be read: %s; neither can %d other%s" : "it cannot be read: %s",
      strerror(f->error), f->more, f->more == 1 ? "" : "s"));
  return tri_findings_say(out, TRI_PART_CURE, "%s",
                          nodes == c->nodes
                              ? "mend the path in the deck; what it names must be there on every node"
                              : "every node reads it: put it on a file system that all nodes "
                                "have, under this path");
}

tri_status tri_check_inputs(const tri_case *c, const char *const *path, int n, const tri_input_facts *x,
                            tri_findings *out) {
  for (int k = 0; k < c->nodes; k++) {
    int  t = tri_check_first_of(c, k);
    bool said = false;
    if (t < 0 || !x[t].error || x[t].which < 0 || x[t].which >= n) continue;
    for (int before = 0; before < k; before++)
      said |= tri_check_first_of(c, before) >= 0 && same_lack(&x[t], &x[tri_check_first_of(c, before)]);
    if (!said) TRI_TRY(say_lack(c, k, path[x[t].which], x, out));
  }
  return TRI_OK;
}
