/* gather_versions.c - what the libraries that this process has loaded say of themselves. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "base/hash.h"
#include "gather.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Their functions are looked up by name, so that what is asked is what was loaded, whatever the program was
 * built with. call: the address of a pointer to such a function. False: it is not loaded. */
static bool find(const char *name, void *call) {
  void *at = dlsym(RTLD_DEFAULT, name);

  memcpy(call, &at, sizeof at);
  return at != NULL;
}

static void ask_mpi(char *out, size_t cap) {
  int (*call)(char *, int *);
  char text[8192] = ""; /* MPICH's MPI_MAX_LIBRARY_VERSION_STRING; Open MPI's is smaller */
  int  n = 0;

  if (find("MPI_Get_library_version", &call) && !call(text, &n))
    snprintf(out, cap, "%.*s", (int)strcspn(text, ",\n"), text);
}

static void ask_hdf5(char *out, size_t cap) {
  int (*call)(unsigned *, unsigned *, unsigned *);
  unsigned v[3];

  if (find("H5get_libversion", &call) && call(&v[0], &v[1], &v[2]) >= 0)
    snprintf(out, cap, "%u.%u.%u", v[0], v[1], v[2]);
}

/* "OpenPMIx 4.2.2rc2 (PMIx Standard: ...)": up to the bracket. */
static void ask_pmix(char *out, size_t cap) {
  const char *(*call)(void);
  const char *text = find("PMIx_Get_version", &call) ? call() : NULL;

  if (text) snprintf(out, cap, "%.*s", (int)strcspn(text, "(,"), text);
}

/* dnnl_version_t begins with these three (dnnl_types.h). */
typedef struct dnnl_numbers {
  int major, minor, patch;
} dnnl_numbers;
static void ask_products(char *out, size_t cap) {
  const dnnl_numbers *(*call)(void);
  const dnnl_numbers *v = find("dnnl_version", &call) ? call() : NULL;

  if (v) snprintf(out, cap, "%d.%d.%d", v->major, v->minor, v->patch);
}

/* 22809 is 2.28.9 (nccl.h, NCCL_VERSION). */
static void ask_nccl(char *out, size_t cap) {
  int (*call)(int *);
  int v = 0;

  if (find("ncclGetVersion", &call) && !call(&v))
    snprintf(out, cap, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
}

static void ask_libc(char *out, size_t cap) {
  const char *(*call)(void);

  if (find("gnu_get_libc_version", &call)) snprintf(out, cap, "%s", call());
}

/* Version, and a print of the file that runs. */
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
             {TRI_VERSION_NCCL, ask_nccl}};

  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char *text = out->version[row[i].version];
    row[i].ask(text, TRI_FACTS_NAME_BYTES);
    for (size_t n = strlen(text); n && text[n - 1] == ' '; n--) text[n - 1] = '\0';
  }
}
