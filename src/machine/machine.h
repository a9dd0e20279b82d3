/* machine.h - what a machine does in a second: a table of known GPUs; the file of what was measured. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MACHINE_H
#define TRI_MACHINE_H

#include "base/error.h"

/* Of one rank in a collective: seconds before the first byte, and what it sends and takes in a second. */
typedef struct tri_link {
  double alpha_s, bytes_per_s;
} tri_link;

/* All are what is reached in long runs, not what is printed on the box; all > 0. */
typedef struct tri_machine {
  char     name[32];              /* "h100-80"; "measured" */
  int64_t  device_bytes;          /* memory of one device, as its driver counts it */
  double   flops_bf16, flops_f32; /* matrix products of one device, or of one rank's threads, per second */
  double   mem_bytes_per_s;       /* device memory */
  tri_link node, cross;           /* between ranks of a node; between nodes */
  double   host_bytes_per_s;      /* pinned copies to and from the device, per rank */
  double   disk_bytes_per_s;      /* of a checkpoint, all ranks together */
} tri_machine;

/* Pure. A GPU of the table by its name, in capitals or not ("l40s-48", or "l40s" where no other has this
 * name), or by its memory: "80" is an h100-80 of 80 GiB, "40" an a100-40 of 40, each number the GPU of data
 * centres that is nearest in memory. TRI_EARG for any other text, with the names; with the reason for a GPU
 * that is known and cannot be used (gpu/device_cuda.c). */
TRI_CHECKED tri_status tri_machine_find(const char *name, tri_machine *out);
/* Pure. The row of the table for a GPU as its maker calls it, "NVIDIA H100 80GB HBM3", of so much memory;
 * false, and *out as it was: there is none. */
bool tri_machine_guess(const char *model, int64_t device_bytes, tri_machine *out);
/* Pure. Where nothing was measured: a CPU rank of so many threads with so much memory. */
void tri_machine_host(int threads, int64_t device_bytes, tri_machine *out);
/* Pure. TRI_EINPUT, `where` first: a number that is not finite or not > 0, or a name that is empty. */
TRI_CHECKED tri_status tri_machine_check(const tri_machine *m, const char *where);

/* Pure. Seconds of a ring collective (all-gather or reduce-scatter; an all-reduce takes twice as long) among
 * this many ranks on this many nodes. `bytes` is the size of the whole buffer, of which each rank holds one
 * part. A ring has ranks - 1 hops, and each rank sends bytes * (ranks - 1) / ranks (Thakur et al. 2005). */
double tri_machine_ring(const tri_machine *m, int ranks, int nodes, double bytes);

enum { TRI_MACHINE_PATH_BYTES = 4096 };

/* Not collective. Where the calibration of this device ("cpu", "cuda") lies: $XDG_CACHE_HOME, else
 * $HOME/.cache, /trireme/machine-cuda.json, or machine-cpu-2.json, where a rank has so many threads.
 * TRI_EFILE where neither variable is an absolute path. */
TRI_CHECKED tri_status tri_machine_path(const char *device, int threads, char out[TRI_MACHINE_PATH_BYTES]);
/* Not collective. *found false: there is no such file, *out is as it was. TRI_EINPUT, naming file and
 * field: it is not what tri_machine_write writes. */
TRI_CHECKED tri_status tri_machine_read(const char *path, tri_machine *out, bool *found);
/* Not collective. The figures that doctor kept here for this device ("cpu", "cuda") and so many threads of a
 * rank, in place of m's, which are those of such machines; of a GPU only if they are of one with as much
 * memory. *found false: m is as it was; there are none, or no home to keep them in. TRI_EINPUT as above. */
TRI_CHECKED tri_status tri_machine_measured(const char *device, int threads, tri_machine *m, bool *found);
/* Pure. Each figure the better of m's and of those that were kept before, where these are of a machine with
 * as much memory: what else a machine does slows a measurement, and nothing quickens it. Returns how many of
 * before's were better; kept[] gets their names, "flops_bf16", "node.alpha_s". */
enum { TRI_MACHINE_FIGURES = 9 };
int tri_machine_better(const tri_machine *before, tri_machine *m, const char *kept[TRI_MACHINE_FIGURES]);
/* Not collective, one rank. Whole or not at all, in the place of one that is there; folders above it are
 * made. TRI_EFILE. */
TRI_CHECKED tri_status tri_machine_write(const char *path, const tri_machine *m);

#endif
