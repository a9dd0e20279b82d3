/* gather_versions.c - asks the loaded libraries of this process for their versions. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "base/hash.h"
#include "cpu/choose.h"
#include "cpu/pairs/pairs.h"
#include "device/gpu_plan.h"
#include "gather.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Looks functions up by name. So the loaded library answers, not the library of the build. */
bool tri_gather_find(const char *name, void *call) {
  void *at = dlsym(RTLD_DEFAULT, name);

  memcpy(call, &at, sizeof at);
  return at != NULL;
}

static void ask_mpi(char *out, size_t cap) {
  int (*call)(char *, int *);
  char text[8192] = ""; /* MPICH's MPI_MAX_LIBRARY_VERSION_STRING. Open MPI's is smaller */
  int  n = 0;

  if (tri_gather_find("MPI_Get_library_version", &call) && !call(text, &n))
    snprintf(out, cap, "%.*s", (int)strcspn(text, ",\n"), text);
}

static void ask_hdf5(char *out, size_t cap) {
  int (*call)(unsigned *, unsigned *, unsigned *);
  unsigned v[3];

  if (tri_gather_find("H5get_libversion", &call) && call(&v[0], &v[1], &v[2]) >= 0)
    snprintf(out, cap, "%u.%u.%u", v[0], v[1], v[2]);
}

/* Takes "OpenPMIx 4.2.2rc2 (PMIx Standard: ...)" up to the bracket. */
static void ask_pmix(char *out, size_t cap) {
  const char *(*call)(void);
  const char *text = tri_gather_find("PMIx_Get_version", &call) ? call() : NULL;

  if (text) snprintf(out, cap, "%.*s", (int)strcspn(text, "(,"), text);
}

/* The first members of dnnl_version_t (dnnl_types.h). */
typedef struct dnnl_numbers {
  int major, minor, patch;
} dnnl_numbers;
static void ask_products(char *out, size_t cap) {
  const dnnl_numbers *(*call)(void);
  const dnnl_numbers *v = tri_gather_find("dnnl_version", &call) ? call() : NULL;

  if (v) snprintf(out, cap, "%d.%d.%d", v->major, v->minor, v->patch);
}

/* Describes the origin of a CPU result's bits. These are the instructions of the library, and the chosen
 * kernels and products (bf16, f32) of this program. */
void tri_gather_cpu(char *out, size_t cap) {
  static const struct {
    int         isa; /* dnnl_cpu_isa_t (dnnl_types.h) */
    const char *name;
  } known[] = {{0x1, "SSE4.1"},        {0x3, "AVX"},           {0x7, "AVX2"},  {0x27, "AVX-512"},
               {0x67, "AVX-512 VNNI"}, {0xe7, "AVX-512 BF16"}, {0x3e7, "AMX"}, {0x407, "AVX2 VNNI"}};
  int (*call)(void);
  const char *bf16;
  char        isa[24] = "none known";

  if (tri_pairs_choose() != TRI_OK || tri_cpu_family_choose() != TRI_OK)
    tri_error_clear(); /* opening the device reports it */
  bf16 = tri_pairs_find() ? tri_pairs_find()->name : "f32";
  if (tri_gather_find("dnnl_get_effective_cpu_isa", &call)) {
    int v = call();
    snprintf(isa, sizeof isa, "%#x", (unsigned)v);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
      if (known[i].isa == v) snprintf(isa, sizeof isa, "%s", known[i].name);
  }
  snprintf(out, cap, "%s, bf16 by %s, f32 by %s, kernels by %s", isa, bf16,
           tri_pairs_f32() ? tri_pairs_f32_name() : "the library",
           tri_cpu_family_find() ? tri_cpu_family_find()->name : "none");
}

/* 22809 is 2.28.9 (nccl.h, NCCL_VERSION). */
static void ask_nccl(char *out, size_t cap) {
  int (*call)(int *);
  int v = 0;

  if (tri_gather_find("ncclGetVersion", &call) && !call(&v))
    snprintf(out, cap, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
}

void tri_gather_cudnn(char *out, size_t cap) {
  void *library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL), *at;
  size_t (*call)(void);
  size_t v = 0;

  out[0] = '\0';
  if (!library) return;
  at = dlsym(library, "cudnnGetVersion");
  memcpy(&call, &at, sizeof at);
  if (call) v = call();
  if (v) snprintf(out, cap, "%zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
  dlclose(library);
}

static void ask_cudnn(char *out, size_t cap) {
  bool asked = false;

  if (tri_gpu_attn_asked(&asked) != TRI_OK) tri_error_clear(); /* opening the device reports it */
  if (asked) tri_gather_cudnn(out, cap);
}

static void ask_libc(char *out, size_t cap) {
  const char *(*call)(void);

  if (tri_gather_find("gnu_get_libc_version", &call)) snprintf(out, cap, "%s", call());
}

/* Writes the version and a hash of the running file. */
static void ask_program(char *out, size_t cap) {
  static char buffer[1 << 16];
  uint64_t    hash = 0;
  ssize_t     n;
  int         fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

  while (fd >= 0 && (n = read(fd, buffer, sizeof buffer)) > 0) hash = tri_hash64(buffer, (size_t)n, hash);
  if (fd >= 0) close(fd);
  snprintf(out, cap, "%s (%016llx)", TRI_VERSION, (unsigned long long)hash);
}

void tri_gather_versions(tri_facts *out) {
  static const struct {
    tri_facts_version version;
    void (*ask)(char *out, size_t cap);
  } row[] = {{TRI_VERSION_PROGRAM, ask_program}, {TRI_VERSION_LIBC, ask_libc},
             {TRI_VERSION_MPI, ask_mpi},         {TRI_VERSION_PMIX, ask_pmix},
             {TRI_VERSION_HDF5, ask_hdf5},       {TRI_VERSION_PRODUCTS, ask_products},
             {TRI_VERSION_NCCL, ask_nccl},       {TRI_VERSION_CUDNN, ask_cudnn},
             {TRI_VERSION_CPU, tri_gather_cpu}};

  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char *text = out->version[row[i].version];
    if (row[i].version == TRI_VERSION_CPU && out->gpu.uuid[0]) continue; /* products run on the GPU */
    row[i].ask(text, TRI_FACTS_VERSION_BYTES);
    for (size_t n = strlen(text); n && text[n - 1] == ' '; n--) text[n - 1] = '\0';
  }
}
