/* about.c - gathers facts about this program, its build, its libraries and its machine. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "about.h"

#include "base/host_memory.h"
#include "base/visible.h"
#include "comm/runtime.h"
#include "tools/doctor/gather/gather.h"

#include <stdio.h>
#include <string.h>

/* ---- libraries ---- */

/* Writes text up to its first space. */
static void put_word(char *out, const char *text) {
  if (text) snprintf(out, TRI_ABOUT_TEXT_BYTES, "%.*s", (int)strcspn(text, " "), text);
}

/* For libraries with a function for their version. */
static void ask_text(const char *function, char *out) {
  const char *(*call)(void);

  if (tri_gather_find(function, &call)) put_word(out, call());
}

/* Asks for "10.42 2022-12-11" by PCRE2_CONFIG_VERSION of pcre2.h. */
static void ask_pcre2(const char *function, char *out) {
  enum { VERSION = 11, TEXT_BYTES = 64 }; /* pcre2api(3): the text needs 24 */
  int (*call)(uint32_t, void *);
  char text[TEXT_BYTES] = "";

  if (tri_gather_find(function, &call) && call(VERSION, NULL) <= TEXT_BYTES && call(VERSION, text) > 0)
    put_word(out, text);
}

/* Reads "libcurl/7.88.1 OpenSSL/3.0.15 ...". */
static void ask_curl(const char *function, char *out) {
  static const char begin[] = "libcurl/";
  char              text[TRI_ABOUT_TEXT_BYTES] = "";

  ask_text(function, text);
  put_word(out, !strncmp(text, begin, sizeof begin - 1) ? text + sizeof begin - 1 : text);
}

/* Reads the second word of "OpenBLAS 0.3.21 NO_LAPACKE ...". */
static void ask_openblas(const char *function, char *out) {
  const char *(*call)(void);
  const char *text = tri_gather_find(function, &call) ? call() : NULL;

  text = text ? strchr(text, ' ') : NULL;
  if (text) put_word(out, text + 1);
}

/* A program with CUDA loads cuDNN only when asked to. */
static void ask_cudnn(const char *function, char *out) {
  (void)function;
  if (TRI_BUILT_CUDA[0]) tri_gather_cudnn(out, TRI_ABOUT_TEXT_BYTES);
}

enum { NOT_ASKED = -1 };
typedef struct row {
  const char *name, *built;
  int         known; /* index in tri_gather_versions, or NOT_ASKED */
  void (*ask)(const char *function, char *out);
  const char *function;
} row;

static const row rows[] = {
    {"MPI", NULL, TRI_VERSION_MPI, NULL, NULL}, /* runtime.h knows the version of the build */
    {"HDF5", TRI_BUILT_HDF5, TRI_VERSION_HDF5, NULL, NULL},
    {"oneDNN", TRI_BUILT_ONEDNN, TRI_VERSION_PRODUCTS, NULL, NULL},
    {"OpenBLAS", TRI_BUILT_OPENBLAS, NOT_ASKED, ask_openblas, "openblas_get_config"},
    {"PMIx", TRI_BUILT_PMIX, TRI_VERSION_PMIX, NULL, NULL},
    {"jansson", TRI_BUILT_JANSSON, NOT_ASKED, ask_text, "jansson_version_str"},
    {"libyaml", TRI_BUILT_YAML, NOT_ASKED, ask_text, "yaml_get_version_string"},
    {"PCRE2", TRI_BUILT_PCRE2, NOT_ASKED, ask_pcre2, "pcre2_config_8"},
    {"utf8proc", TRI_BUILT_UTF8PROC, NOT_ASKED, ask_text, "utf8proc_version"},
    {"zlib", TRI_BUILT_ZLIB, NOT_ASKED, ask_text, "zlibVersion"},
    {"zstd", TRI_BUILT_ZSTD, NOT_ASKED, ask_text, "ZSTD_versionString"},
    {"libcurl", TRI_BUILT_CURL, NOT_ASKED, ask_curl, "curl_version"},
    {"CUDA", TRI_BUILT_CUDA, TRI_VERSION_CUDA, NULL, NULL}, /* loaded: the newest version supported by the
                                                             * driver */
    {"NCCL", TRI_BUILT_NCCL, TRI_VERSION_NCCL, NULL, NULL},
    {"cuDNN", "", NOT_ASKED, ask_cudnn, ""},
    {"libc", "", TRI_VERSION_LIBC, NULL, NULL},
};
_Static_assert(sizeof rows / sizeof *rows <= TRI_ABOUT_LIBRARIES, "a place for each library");

static void gather_libraries(const tri_facts *f, tri_about *out) {
  for (const row *r = rows; r < rows + sizeof rows / sizeof *rows; r++) {
    tri_about_library *l = &out->library[out->n_library];
    *l = (tri_about_library){.name = r->name};
    snprintf(l->built, sizeof l->built, "%s", r->built ? r->built : tri_runtime_mpi_built());
    if (r->ask)
      r->ask(r->function, l->loaded);
    else
      snprintf(l->loaded, sizeof l->loaded, "%s", f->version[r->known]);
    out->n_library += l->built[0] || (l->loaded[0] && (r->known == TRI_VERSION_LIBC || r->ask == ask_cudnn));
  }
}

bool tri_about_differs(const tri_about_library *l) {
  const char *at = strstr(l->loaded, l->built);
  size_t      n = strlen(l->built);

  /* "Open MPI v4.1.4" is 4.1.4 and "OpenPMIx 4.2.2rc2" is 4.2.2, but 1.10.81 is not 1.10.8 */
  return l->built[0] && l->loaded[0] && (!at || (at[n] >= '0' && at[n] <= '9'));
}

/* ---- the machine ---- */

/* Reads "model name : AMD EPYC 7B13 ..." of the first processor. ARM processors have no such line. */
void tri_about_find_cpu(char out[TRI_ABOUT_TEXT_BYTES]) {
  static const char key[] = "model name";
  char              line[512];
  FILE             *f = fopen("/proc/cpuinfo", "r");

  while (f && !out[0] && fgets(line, sizeof line, f)) {
    char *at = strchr(line, ':');
    if (strncmp(line, key, sizeof key - 1) || !at) continue;
    at += 1 + strspn(at + 1, " \t");
    (void)tri_visible(at, strcspn(at, "\n"), "", out, TRI_ABOUT_TEXT_BYTES);
  }
  if (f) fclose(f);
}

static void gather_gpus(tri_facts *f, tri_about *out) {
  for (int i = 0; i < TRI_ABOUT_GPUS; i++) {
    f->gpu = (tri_facts_gpu){0};
    tri_gather_gpu(i, f);
    if (i >= f->gpu.seen) return;
    const char *name = f->gpu.model[0] ? f->gpu.model : f->gpu.uuid;
    (void)tri_visible(name, strlen(name), "", out->gpu[out->n_gpu++], TRI_ABOUT_TEXT_BYTES);
  }
}

/* ---- the build ---- */

/* Returns the instructions allowed by -march. */
static const char *made_for(void) {
#if defined(__AMX_BF16__)
  return "AMX";
#elif defined(__AVX512BF16__)
  return "AVX-512 BF16";
#elif defined(__AVX512VNNI__)
  return "AVX-512 VNNI";
#elif defined(__AVX512F__)
  return "AVX-512";
#elif defined(__AVX2__)
  return "AVX2";
#elif defined(__x86_64__)
  return "x86-64";
#elif defined(__ARM_FEATURE_SVE)
  return "SVE";
#elif defined(__aarch64__)
  return "AArch64";
#else
  return "its compiler's default";
#endif
}

tri_status tri_about_gather(tri_about *out) {
  tri_facts *f = NULL;

  *out = (tri_about){.compiler = TRI_BUILT_COMPILER,
                     .type = TRI_BUILT_TYPE,
                     .flags = TRI_BUILT_FLAGS,
                     .made_for = made_for()};
  TRI_TRY(TRI_ALLOC(f, 1));
  tri_gather_versions(f); /* before a GPU is known, to include the CPU's instructions */
  snprintf(out->instructions, sizeof out->instructions, "%s", f->version[TRI_VERSION_CPU]);
  tri_gather_host(f);
  out->threads = f->cores.mine;
  out->threads_online = f->cores.online;
  tri_about_find_cpu(out->cpu);
  gather_gpus(f, out);
  gather_libraries(f, out);
  TRI_FREE(f);
  return TRI_OK;
}
