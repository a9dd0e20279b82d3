/* gather_gpu.c - finds the GPU of this rank through the driver's management library.
 *
 * NVML is opened at run time. It needs no CUDA context on any GPU. Names and numbers are from the NVML API
 * reference (docs.nvidia.com/deploy/nvml-api). */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* realpath */
#include "gather.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { GPUS = 64, NVML_P2P_READ = 0, NVML_P2P_OK = 0, BUS_BYTES = 32 };

/* nvmlPciInfo_t (version 3). */
typedef struct pci_info {
  char     legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char     id[BUS_BYTES];
} pci_info;

/* The functions of NVML, one member each. All return 0 on success. */
typedef struct nvml {
  void *library;
  int (*init)(void);
  int (*shutdown)(void);
  int (*driver)(char *text, unsigned bytes);
  int (*cuda)(int *version);
  int (*count)(unsigned *n);
  int (*at)(unsigned i, void **device);
  int (*uuid)(void *device, char *text, unsigned bytes);
  int (*name)(void *device, char *text, unsigned bytes);
  int (*pci)(void *device, pci_info *out);
  int (*peer)(void *a, void *b, int what, int *status);
} nvml;

static bool open_nvml(nvml *n) {
  const struct {
    const char *name;
    void       *to;
  } row[] = {{"nvmlInit_v2", &n->init},
             {"nvmlShutdown", &n->shutdown},
             {"nvmlSystemGetDriverVersion", &n->driver},
             {"nvmlSystemGetCudaDriverVersion", &n->cuda},
             {"nvmlDeviceGetCount_v2", &n->count},
             {"nvmlDeviceGetHandleByIndex_v2", &n->at},
             {"nvmlDeviceGetUUID", &n->uuid},
             {"nvmlDeviceGetName", &n->name},
             {"nvmlDeviceGetPciInfo_v3", &n->pci},
             {"nvmlDeviceGetP2PStatus", &n->peer}};
  n->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  bool whole = n->library != NULL;

  for (size_t i = 0; whole && i < sizeof row / sizeof *row; i++) {
    void *at = dlsym(n->library, row[i].name);
    memcpy(row[i].to, &at, sizeof at);
    whole = at != NULL;
  }
  if (whole && !n->init()) return true;
  if (n->library) dlclose(n->library);
  return false;
}

typedef struct seen_gpu {
  void *device;
  char  uuid[TRI_FACTS_NAME_BYTES];
} seen_gpu;

/* Picks the GPUs of CUDA_VISIBLE_DEVICES. The variable has its own order and names GPUs by number or by
 * the start of their UUID. It ends at the first invalid name (CUDA C programming guide, environment
 * variables). */
static int pick_visible(const seen_gpu *all, int n, seen_gpu *out) {
  const char *list = getenv("CUDA_VISIBLE_DEVICES");
  int         m = 0;

  if (!list) {
    memcpy(out, all, (size_t)n * sizeof *out);
    return n;
  }
  while (*list && m < GPUS) {
    size_t len = strcspn(list, ",");
    char  *end;
    long   number = strtol(list, &end, 10);
    int    k = end == list + len && len && number >= 0 && number < n ? (int)number : n;
    for (int i = 0; k == n && i < n && len > 3; i++)
      if (!strncasecmp(list, all[i].uuid, len)) k = i;
    if (k == n) break;
    out[m++] = all[k];
    list += len + (list[len] == ',');
  }
  return m;
}

/* Returns the length of the common start of two sysfs paths. */
static int common(const char *a, const char *b) {
  int n = 0;

  while (a[n] && a[n] == b[n]) n++;
  return n;
}

/* Finds the network device with the longest common PCI path with the GPU. */
static void find_nic(const char *gpu, char *out, size_t cap) {
  static const char *const class[] = {"/sys/class/infiniband", "/sys/class/net"};
  int best = (int)strlen("/sys/devices/pci");

  for (int k = 0; k < 2 && !out[0]; k++) {
    DIR           *folder = opendir(class[k]);
    struct dirent *e;
    char           link[PATH_MAX], path[PATH_MAX];
    while (folder && (e = readdir(folder))) {
      snprintf(link, sizeof link, "%s/%s/device", class[k], e -> d_name);
      if (e->d_name[0] == '.' || !realpath(link, path) || common(path, gpu) <= best) continue;
      best = common(path, gpu);
      snprintf(out, cap, "%s", e->d_name);
    }
    if (folder) closedir(folder);
  }
}

/* sysfs writes the PCI domain with four digits, NVML with eight. */
static void find_place(const pci_info *pci, tri_facts_gpu *g) {
  char link[PATH_MAX], path[PATH_MAX], numa[PATH_MAX + 16];

  snprintf(g->bus, sizeof g->bus, "%04x:%02x:%02x.0", pci->domain, pci->bus, pci->device);
  snprintf(link, sizeof link, "/sys/bus/pci/devices/%s", g->bus);
  if (!realpath(link, path)) return;
  snprintf(numa, sizeof numa, "%s/numa_node", path);
  g->numa = (int32_t)tri_gather_number(numa);
  find_nic(path, g->nic, sizeof g->nic);
}

/* Reads the facts of one GPU. */
static void ask_gpu(const nvml *n, const seen_gpu *all, int n_all, const seen_gpu *mine, tri_facts_gpu *g) {
  pci_info pci = {0};

  memcpy(g->uuid, mine->uuid, sizeof g->uuid);
  if (n->name(mine->device, g->model, sizeof g->model)) g->model[0] = '\0';
  if (!n->pci(mine->device, &pci)) find_place(&pci, g);
  for (int i = 0; i < n_all; i++) {
    int status = NVML_P2P_OK;
    if (all[i].device == mine->device || n->peer(mine->device, all[i].device, NVML_P2P_READ, &status))
      continue;
    g->no_peer += status != NVML_P2P_OK;
  }
}

/* Chooses as device_cuda.c does, by the local number modulo the number of visible GPUs. */
static void ask_all(const nvml *n, int local, tri_facts *out) {
  seen_gpu all[GPUS], mine[GPUS];
  unsigned count = 0;
  int      n_all = 0, n_mine, cuda = 0;

  if (n->driver(out->version[TRI_VERSION_DRIVER], TRI_FACTS_NAME_BYTES))
    out->version[TRI_VERSION_DRIVER][0] = '\0';
  if (!n->cuda(&cuda))
    snprintf(out->version[TRI_VERSION_CUDA], TRI_FACTS_NAME_BYTES, "%d.%d", cuda / 1000, cuda / 10 % 100);
  if (n->count(&count)) return;
  for (unsigned i = 0; i < count && n_all < GPUS; i++) {
    all[n_all] = (seen_gpu){0};
    if (n->at(i, &all[n_all].device) || n->uuid(all[n_all].device, all[n_all].uuid, sizeof all[n_all].uuid))
      continue;
    n_all++;
  }
  n_mine = pick_visible(all, n_all, mine);
  out->gpu.seen = n_mine;
  if (n_mine) ask_gpu(n, all, n_all, &mine[local % n_mine], &out->gpu);
}

/* Without NVML, takes the GPU from Slurm's list by this task's number on the node. */
static void ask_slurm(int local, tri_facts_gpu *g) {
  const char *list = getenv("SLURM_STEP_GPUS") ? getenv("CUDA_VISIBLE_DEVICES") : NULL;
  int         n = list && *list ? 1 : 0;

  for (const char *c = list; n && *c; c++) n += *c == ',';
  g->seen = n;
  for (int i = 0; n && i < local % n; i++) list += strcspn(list, ",") + 1;
  if (n) snprintf(g->uuid, sizeof g->uuid, "GPU %.*s (by Slurm)", (int)strcspn(list, ","), list);
}

void tri_gather_gpu(int local, tri_facts *out) {
  nvml n = {0};

  out->gpu.numa = TRI_FACTS_UNKNOWN;
  if (!open_nvml(&n)) {
    ask_slurm(local, &out->gpu);
    return;
  }
  ask_all(&n, local, out);
  n.shutdown();
  dlclose(n.library);
}
