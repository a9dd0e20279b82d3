/* machine.h - the speed of a machine, from a table of known GPUs or from the file of measurements. Not
 * collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MACHINE_H
#define TRI_MACHINE_H

#include "base/error.h"

/* A link of one rank in a collective. alpha_s is the seconds before the first byte. bytes_per_s is the rate
 * at which the rank sends and receives. */
typedef struct tri_link {
  double alpha_s, bytes_per_s;
} tri_link;

/* Speeds reached in long runs, not the maker's peak figures. All are > 0. */
typedef struct tri_machine {
  char     name[32];              /* "h100-80" or "measured" */
  int64_t  device_bytes;          /* memory of one device, as reported by its driver */
  double   flops_bf16, flops_f32; /* matrix products per second of one device, or of one rank's threads */
  double   mem_bytes_per_s;       /* device memory */
  tri_link node, cross;           /* between ranks of a node; between nodes */
  double   host_bytes_per_s;      /* pinned copies to and from the device, per rank */
  double   disk_bytes_per_s;      /* checkpoint of all ranks together */
} tri_machine;

/* Pure. Finds a GPU in the table, by its name or by its memory. Upper and lower case are equal. A name may
 * lack its memory ("l40s" for "l40s-48") if only one GPU has it. A memory in GiB stands for the data-centre
 * GPU with the nearest memory. "80" is an h100-80 of 80 GiB, "40" an a100-40 of 40 GiB. Returns TRI_EARG for
 * any other text, with the known names. For a known GPU that no run can use the message has the reason
 * (gpu/device_cuda.c). */
TRI_CHECKED tri_status tri_machine_find(const char *name, tri_machine *out);
/* Pure. Finds the table's row for a GPU by its maker's name, such as "NVIDIA H100 80GB HBM3", and its memory.
 * Returns false and leaves *out unchanged if there is none. */
bool tri_machine_guess(const char *model, int64_t device_bytes, tri_machine *out);
/* Pure. Gives default speeds of a CPU rank with so many threads and so much memory, for use without
 * measurements. */
void tri_machine_host(int threads, int64_t device_bytes, tri_machine *out);
/* Pure. Returns TRI_EINPUT if the name is empty or a number is not finite or not > 0. The message begins with
 * `where`. */
TRI_CHECKED tri_status tri_machine_check(const tri_machine *m, const char *where);

/* Pure. Returns the seconds of a ring all-gather or reduce-scatter among this many ranks on this many nodes.
 * An all-reduce takes twice as long. `bytes` is the size of the whole buffer, and each rank holds one part of
 * it. A ring has ranks - 1 hops, and each rank sends bytes * (ranks - 1) / ranks (Thakur et al. 2005). */
double tri_machine_ring(const tri_machine *m, int ranks, int nodes, double bytes);

enum { TRI_MACHINE_PATH_BYTES = 4096 };

/* Gives the path of the calibration of this device ("cpu", "cuda"). The folder is $XDG_CACHE_HOME/trireme,
 * else $HOME/.cache/trireme. The file is machine-cuda.json, or for example machine-cpu-2.json for ranks with
 * 2 threads. Returns TRI_EFILE if neither variable is an absolute path. */
TRI_CHECKED tri_status tri_machine_path(const char *device, int threads, char out[TRI_MACHINE_PATH_BYTES]);
/* Sets *found to false and leaves *out unchanged if there is no such file. Returns TRI_EINPUT with file and
 * field if tri_machine_write did not write its content. */
TRI_CHECKED tri_status tri_machine_read(const char *path, tri_machine *out, bool *found);
/* Replaces the defaults in m by the figures doctor stored here for this device ("cpu", "cuda") and so many
 * threads of a rank. A GPU's figures count only if its memory is about as large as m's. If there are none, or
 * no cache folder, *found is false and m unchanged. Returns TRI_EINPUT as above. */
TRI_CHECKED tri_status tri_machine_measured(const char *device, int threads, tri_machine *m, bool *found);
/* Pure. Keeps in m the better of each figure, m's or before's, if both machines have as much memory. Other
 * load can only slow a measurement, so the better figure is nearer the truth. Returns how many of before's
 * figures were better. kept[] gets their names, such as "flops_bf16" and "node.alpha_s". */
enum { TRI_MACHINE_FIGURES = 9 };
int tri_machine_better(const tri_machine *before, tri_machine *m, const char *kept[TRI_MACHINE_FIGURES]);
/* Not collective, one rank. Writes the file whole or not at all, replaces an existing one, and makes the
 * folders above it. Returns TRI_EFILE on failure. */
TRI_CHECKED tri_status tri_machine_write(const char *path, const tri_machine *m);

#endif
