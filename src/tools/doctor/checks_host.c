/* checks_host.c - checks versions, limits, shared memory, clocks and folders of the machines. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/columns.h"
#include "checks.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static const int64_t mib = 1 << 20;

/* ---- versions ---- */

static const char *version_or_none(const char *text) { return text[0] ? text : "none"; }

/* Different kinds of processors have a cure of their own, because nothing wrong was loaded. */
static const char *version_cure(int version) {
  if (version == TRI_VERSION_CPU)
    return "results differ in the last bits, which run.sampler: exact does not allow. Request nodes of one "
           "kind (--constraint), or set ONEDNN_MAX_CPU_ISA, TRI_CPU_BF16 and TRI_CPU_F32 to the same values "
           "on all nodes (AVX2, f32 and library work everywhere), or use run.sampler: rescore";
  return "load the same modules on every node (srun --export=ALL after module load, see LD_LIBRARY_PATH and "
         "LD_PRELOAD), and start the same file in a shared folder everywhere";
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

/* A limit is usually low on every node. So there is one finding with the first rank and the number of
 * others. */
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

/* Returns the page-locked memory needed. Networks with registered memory need all of it. Chosen: 1 GiB for
 * them, because a lower limit is not meant for such a network. Otherwise 1 MiB, less than any system's
 * default. */
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
  TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "only %s may be page-locked (ulimit -l). %s", have,
                           uses_gpus(c, f) ? "NCCL, RDMA and offloading register more"
                                           : "Networks that register memory (InfiniBand, UCX) need more"));
  return tri_findings_say(
      out, TRI_PART_CURE,
      "run ulimit -l unlimited before srun. If that is refused, set LimitMEMLOCK=infinity in slurmd's unit, "
      "and PropagateResourceLimitsExcept=MEMLOCK in slurm.conf");
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
  TRI_TRY(tri_findings_say(out, TRI_PART_WHAT,
                           "%lld files may be open (ulimit -n), but %d connected ranks need %lld",
                           (long long)c->facts[first].limits.files, c->tasks, (long long)wanted));
  return tri_findings_say(out, TRI_PART_CURE, "run ulimit -n %lld before srun",
                          (long long)(wanted < 65536 ? 65536 : wanted));
}

/* Checks the shared memory. 64 MiB per rank is chosen with a margin for MPI and NCCL. The 64 MiB of a
 * container are known to be too little (docs.nvidia.com, NCCL troubleshooting: shared memory). */
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
    TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "/dev/shm has %s free, %d ranks communicate through it",
                             have, f->seat.locals));
    TRI_TRY(tri_findings_say(
        out, TRI_PART_CURE,
        "enlarge it with mount -o remount,size=50%% /dev/shm, for a container with --shm-size=16g or "
        "--ipc=host, or remove old files (ls -l /dev/shm)"));
  }
  return TRI_OK;
}

tri_status tri_check_limits(const tri_case *c, tri_findings *out) {
  TRI_TRY(check_memlock(c, out));
  TRI_TRY(check_files(c, out));
  return check_shm(c, out);
}

/* ---- clocks ---- */

enum {
  CLOCK_MS = 500
}; /* chosen. NTP keeps machines within a few ms, and file times are compared by whole
                          * seconds */

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
        "start a time service there (systemctl start chronyd, chronyc makestep). Otherwise times in logs are "
        "wrong, the newest of several files is not certain, and munge fails if the clocks are minutes "
        "apart"));
  }
  return TRI_OK;
}

/* ---- the folder of checkpoints ---- */

static tri_status check_writing(const tri_case *c, int t, const char *folder, const tri_folder_facts *x,
                                tri_findings *out) {
  const char *host = c->facts[t].seat.host;

  if (x->write) {
    TRI_TRY(tri_findings_add(out, "folder", TRI_LEVEL_ERROR, "%s on %s", folder, host));
    TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "cannot write a file in it: %s", strerror(x->write)));
    return tri_findings_say(
        out, TRI_PART_CURE, "%s",
        x->write == EROFS
            ? "it is mounted read-only there. Set run.output to another folder, or have it mounted for "
              "writing (mount -o remount,rw)"
        : x->write == ENOSPC || x->write == EDQUOT
            ? "free space, or set run.output to another folder (see df and quota)"
            : "set run.output to a folder that every node may write to");
  }
  if (x->seen) {
    TRI_TRY(tri_findings_add(out, "folder", TRI_LEVEL_ERROR, "%s on %s", folder, host));
    TRI_TRY(tri_findings_say(out, TRI_PART_WHAT, "the file written by rank 0 cannot be read: %s",
                             strerror(x->seen)));
    return tri_findings_say(
        out, TRI_PART_CURE,
        "it is not the same folder on every node. Set run.output to a folder on a shared file system");
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
                           x->fcntl ? ". MPI may wait for them forever when it writes" : ""));
  return tri_findings_say(
      out, TRI_PART_CURE,
      "have it mounted with locks (Lustre with -o flock, NFS with lockd, not nolock), or set run.output to "
      "another folder. HDF5_USE_FILE_LOCKING=FALSE helps only h5dump and h5py. Two runs could then write one "
      "output");
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
  TRI_TRY(
      tri_findings_say(out, TRI_PART_WHAT, "cannot write a checkpoint there (files in parallel): %s", hdf5));
  return tri_findings_say(
      out, TRI_PART_CURE,
      "set run.output to another file system, or try OMPI_MCA_io=romio321 (or ompio), the other I/O "
      "component of Open MPI");
}

/* ---- input files ---- */

static bool same_lack(const tri_input_facts *a, const tri_input_facts *b) {
  return a->error == b->error && a->which == b->which;
}

/* Reports node n together with all later nodes that lack the same file. */
static tri_status say_lack(const tri_case *c, int n, const char *path, const tri_input_facts *x,
                           tri_findings *out) {
  const tri_input_facts *f = &x[tri_check_first_of(c, n)];
  int                    nodes = 0;

  for (int k = n; k < c->nodes; k++)
    nodes += tri_check_first_of(c, k) >= 0 && same_lack(f, &x[tri_check_first_of(c, k)]);
  TRI_TRY(tri_findings_add(out, "inputs", TRI_LEVEL_ERROR, nodes > 1 ? "%s on %s and %d more" : "%s on %s",
                           path, c->facts[tri_check_first_of(c, n)].seat.host, nodes - 1));
  TRI_TRY(tri_findings_say(out, TRI_PART_WHAT,
                           f->more ? "it cannot be read: %s. %d other%s cannot be read either"
                                   : "it cannot be read: %s",
                           strerror(f->error), f->more, f->more == 1 ? "" : "s"));
  return tri_findings_say(
      out, TRI_PART_CURE, "%s",
      nodes == c->nodes
          ? "correct the path in the deck. It must exist on every node"
          : "every node reads it. Put it under this path on a file system that all nodes share");
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
