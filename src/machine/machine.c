/* machine.c - the table of known machines. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "machine.h"

#include "base/text_buffer.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The maker's peak figures per second. flops_* are dense matrix products in bf16, and in f32 without tensor
 * cores. mem is the bytes of its memory. peer is the bytes of its links to the GPUs of the node in one
 * direction. host is the bytes of PCIe, or of NVLink-C2C, to the host's memory in one direction. */
typedef struct row {
  const char *name, *model; /* a part of the driver's name for it */
  double      memory_gib; /* as the driver reports, less than advertised because of ECC and its own tables */
  double      flops_bf16, flops_f32, mem, peer, host;
} row;

/* Specified: NVIDIA's data sheets "H100 Tensor Core GPU" (SXM5), "H200 Tensor Core GPU", "A100 Tensor Core
 * GPU" (SXM4), "HGX B200" (an eighth), "GH200 Grace Hopper Superchip" (of 96 GB HBM3, with its memory reduced
 * as an H100's is). peer is half of NVLink's sum of both directions. host is PCIe 4 or 5 x16. Without NVLink:
 * data sheets "A10 Tensor Core GPU", "A40" (bridges between pairs are not counted), "L4 Tensor Core GPU",
 * "L40", "L40S"; white papers "GA102 GPU Architecture", "Ada GPU Architecture", "RTX Blackwell GPU
 * Architecture" (bf16 with sums in f32). Figures with sparsity are halved. GeForce GPUs do not reach each
 * other. Their traffic goes through the host, so their links have half of PCIe. Memory is the total of
 * cudaMemGetInfo. */
static const row rows[] = {
    {"a100-40", "A100", 39.4, 312e12, 19.5e12, 1.555e12, 300e9, 32e9},
    {"a100-80", "A100", 79.1, 312e12, 19.5e12, 2.039e12, 300e9, 32e9},
    {"h100-80", "H100", 79.1, 989e12, 67e12, 3.35e12, 450e9, 64e9},
    {"h200", "H200", 139.8, 989e12, 67e12, 4.8e12, 450e9, 64e9},
    {"gh200", "GH200", 94.5, 989e12, 67e12, 4.0e12, 450e9, 450e9},
    {"b200", "B200", 178.4, 2250e12, 75e12, 7.7e12, 900e9, 64e9},
    {"a10-24", "A10", 22.0, 125e12, 31.2e12, 600e9, 32e9, 32e9},
    {"a40-48", "A40", 44.4, 149.7e12, 37.4e12, 696e9, 32e9, 32e9},
    {"l4-24", "L4", 22.0, 121e12, 30.3e12, 300e9, 32e9, 32e9},
    {"l40-48", "L40", 44.4, 181.05e12, 90.5e12, 864e9, 32e9, 32e9},
    {"l40s-48", "L40S", 44.4, 362.05e12, 91.6e12, 864e9, 32e9, 32e9},
    {"rtx3090-24", "RTX 3090", 23.6, 71e12, 35.6e12, 936e9, 16e9, 32e9},
    {"rtx4090-24", "RTX 4090", 23.6, 165.2e12, 82.6e12, 1.008e12, 16e9, 32e9},
    {"rtx5090-32", "RTX 5090", 31.4, 209.5e12, 104.8e12, 1.792e12, 32e9, 64e9},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

/* GPUs that users ask for often and no run can use (gpu/device_cuda.c). Specified: CUDA C++ Programming
 * Guide, "Compute Capabilities". */
typedef struct refused {
  const char *name, *why;
} refused;
static const refused not_used[] = {
    {"v100-16", "has compute capability 7.0, below the required 8.0"},
    {"v100-32", "has compute capability 7.0, below the required 8.0"},
    {"t4-16", "has compute capability 7.5, below the required 8.0"},
};

/* Shares of the peak figures reached in practice. Chosen, until GPUs are measured (trireme doctor). Products
 * reach 40 %, as published trainings of 7B to 70B models do (sharding.md 2). Memory reaches 84 %, NVLink 78
 * %, PCIe 75 %. */
static const double share_flops = 0.40, share_mem = 0.84, share_peer = 0.78, share_pcie = 0.75;
/* Chosen: one NIC of 400 Gbit/s per GPU, the order of magnitude of NCCL's tuning tables for the latency of a
 * ring hop, and a parallel file system. */
static const double nic_bytes_per_s = 50e9, node_alpha_s = 3e-6, cross_alpha_s = 8e-6, disk_bytes_per_s = 5e9;

static void fill(const row *r, tri_machine *m) {
  *m = (tri_machine){.device_bytes = (int64_t)(r->memory_gib * 0x1p30),
                     .flops_bf16 = share_flops * r->flops_bf16,
                     .flops_f32 = share_flops * r->flops_f32,
                     .mem_bytes_per_s = share_mem * r->mem,
                     .node = {node_alpha_s, share_peer * r->peer},
                     .cross = {cross_alpha_s, nic_bytes_per_s},
                     .host_bytes_per_s = share_pcie * r->host,
                     .disk_bytes_per_s = disk_bytes_per_s};
  snprintf(m->name, sizeof m->name, "%s", r->name);
}

static const double most_pcie = 64e9; /* specified: PCIe 5 x16 */

/* Returns the row with the nearest memory, the last one on a tie. Only data-centre GPUs behind PCIe count.
 * Users ask for others by name. */
static const row *nearest(double gib) {
  const row *best = rows;

  for (const row *r = rows; r < rows + N_ROWS; r++)
    if (strncmp(r->name, "rtx", 3) != 0 && r->host <= most_pcie &&
        fabs(r->memory_gib - gib) <= fabs(best->memory_gib - gib))
      best = r;
  return best;
}

/* Returns the first GPU whose name begins with `name`, in upper or lower case, or NULL. */
static const char *begins(const char *name) {
  for (const row *r = rows; r < rows + N_ROWS; r++)
    if (name[0] && !strncasecmp(name, r->name, strlen(name))) return r->name;
  return NULL;
}

/* Returns the only GPU of this name without its memory, such as "l40s". NULL if there are several or none. */
static const row *only(const char *name) {
  const row *found = NULL;
  size_t     n = strlen(name);

  for (const row *r = rows; r < rows + N_ROWS; r++)
    if (strcspn(r->name, "-") == n && !strncasecmp(name, r->name, n)) {
      if (found) return NULL;
      found = r;
    }
  return found;
}

/* Compares the whole name, "v100-32", or the name without its memory, "v100", in upper or lower case. */
static bool is_called(const char *name, const char *whole) {
  size_t n = strcspn(whole, "-");

  return !strcasecmp(name, whole) || (strlen(name) == n && !strncasecmp(name, whole, n));
}

static tri_status fail_unknown(const char *name) {
  const char *known[N_ROWS], *near;
  char        names[200] = "";

  for (int i = 0; i < N_ROWS; i++) {
    known[i] = rows[i].name;
    strncat(names, rows[i].name, sizeof names - strlen(names) - 3);
    strcat(names, ", ");
  }
  near = begins(name);
  if (!near) near = tri_nearest(name, known, N_ROWS);
  if (near && tolower((unsigned char)near[0]) != tolower((unsigned char)name[0]))
    near = NULL; /* a p100 is not an h100 */
  TRI_FAIL(TRI_EARG, "--gpu %s: unknown GPU%s%s%s. Use %sor the memory of the GPU in GiB", name,
           near ? " (did you mean " : "", near ? near : "", near ? "?)" : "", names);
}

tri_status tri_machine_find(const char *name, tri_machine *out) {
  char      *end;
  double     gib = strtod(name, &end);
  const row *alone = only(name);

  for (const row *r = rows; r < rows + N_ROWS; r++)
    if (!strcasecmp(name, r->name)) return fill(r, out), TRI_OK;
  if (alone) return fill(alone, out), TRI_OK;
  for (size_t i = 0; i < sizeof not_used / sizeof *not_used; i++)
    if (is_called(name, not_used[i].name))
      TRI_FAIL(TRI_EARG, "--gpu %s: this GPU %s. Use an A100 or a newer GPU", name, not_used[i].why);
  if (end == name || *end) return fail_unknown(name);
  if (!(gib >= 1 && gib <= 4096))
    TRI_FAIL(TRI_EARG, "--gpu %s: the memory of a GPU must be 1 to 4096 GiB", name);
  fill(nearest(gib), out);
  out->device_bytes = (int64_t)(gib * 0x1p30);
  return TRI_OK;
}

/* Returns whether the driver's name contains this name without a digit behind it. An "RTX A4000" is not an
 * A40. */
static bool holds(const char *model, const char *name) {
  const char *at = strstr(model, name);

  return at && !isdigit((unsigned char)at[strlen(name)]);
}

bool tri_machine_guess(const char *model, int64_t device_bytes, tri_machine *out) {
  const row *best = NULL;
  double     gib = (double)device_bytes / 0x1p30;

  for (const row *r = rows; r < rows + N_ROWS; r++) {
    size_t n = strlen(r->model), before = best ? strlen(best->model) : 0; /* a GH200 is not an H200 */
    if (holds(model, r->model) &&
        (n > before || (n == before && fabs(r->memory_gib - gib) < fabs(best->memory_gib - gib))))
      best = r;
  }
  if (!best) return false;
  fill(best, out);
  out->device_bytes = device_bytes;
  return true;
}

void tri_machine_host(int threads, int64_t device_bytes, tri_machine *out) {
  /* Measured with tests/bench on 2-core machines of 2023 (AMX, Zen 4): products of a thread, and shared
   * memory. The other figures are chosen. */
  *out = (tri_machine){.name = "a CPU of 2023",
                       .device_bytes = device_bytes,
                       .flops_bf16 = 150e9 * threads,
                       .flops_f32 = 60e9 * threads,
                       .mem_bytes_per_s = 10e9,
                       .node = {50e-6, 2.4e9},
                       .cross = {50e-6, 3e9},
                       .host_bytes_per_s = 10e9,
                       .disk_bytes_per_s = 2e8};
}

tri_status tri_machine_check(const tri_machine *m, const char *where) {
  const struct {
    const char *name;
    double      x;
  } number[] = {{"device_bytes", (double)m->device_bytes},
                {"flops_bf16", m->flops_bf16},
                {"flops_f32", m->flops_f32},
                {"mem_bytes_per_s", m->mem_bytes_per_s},
                {"node.alpha_s", m->node.alpha_s},
                {"node.bytes_per_s", m->node.bytes_per_s},
                {"cross.alpha_s", m->cross.alpha_s},
                {"cross.bytes_per_s", m->cross.bytes_per_s},
                {"host_bytes_per_s", m->host_bytes_per_s},
                {"disk_bytes_per_s", m->disk_bytes_per_s}};

  if (!m->name[0]) TRI_FAIL(TRI_EINPUT, "%s: `name` is empty", where);
  for (size_t i = 0; i < sizeof number / sizeof *number; i++)
    if (!isfinite(number[i].x) || number[i].x <= 0)
      TRI_FAIL(TRI_EINPUT, "%s: `%s` = %g: must be a number > 0", where, number[i].name, number[i].x);
  return TRI_OK;
}

double tri_machine_ring(const tri_machine *m, int ranks, int nodes, double bytes) {
  double crossings = nodes > 1 ? nodes : 0, inside = ranks - 1 - crossings, rate = m->node.bytes_per_s;

  if (ranks < 2) return 0;
  if (inside < 0) crossings += inside, inside = 0; /* one rank a node: S - 1 hops for S nodes */
  if (nodes > 1 && (m->cross.bytes_per_s < rate || ranks == nodes)) rate = m->cross.bytes_per_s;
  return crossings * m->cross.alpha_s + inside * m->node.alpha_s + bytes * (ranks - 1) / ranks / rate;
}
