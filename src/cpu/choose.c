/* choose.c - chooses the kernels for this processor among the families in this program. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "choose.h"
#include "base/choice.h"
#include "device_cpu.h"

#include <stdio.h>
#include <string.h>

/* The families of this build, best first, as CMakeLists.txt compiles them. Each has_ function returns whether
 * this processor has the instructions of that family. */
#if defined(__x86_64__)
#include <cpuid.h>

#define FAMILIES(X) X(avx512) X(avx2)

static bool has_avx2(void) {
  unsigned int a, b, c = 0, d;

  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
static bool has_avx512(void) {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
static const char least[] = "AVX2 and FMA (Intel since Haswell, 2013, AMD since Excavator and Zen, 2015)";
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

#define FAMILIES(X) X(neoverse_v2) X(neon)

static bool has_neon(void) { return true; }
/* Checks all instructions for products and permutations that -mcpu=neoverse-v2 lets a compiler use. */
static bool has_neoverse_v2(void) {
  const unsigned long all =
      HWCAP2_SVE2 | HWCAP2_SVEBITPERM | HWCAP2_SVEI8MM | HWCAP2_SVEBF16 | HWCAP2_I8MM | HWCAP2_BF16;

  return (getauxval(AT_HWCAP2) & all) == all;
}
static const char least[] = "NEON";
#else
#define FAMILIES(X) X(generic)
static bool       has_generic(void) { return true; }
static const char least[] = "nothing";
#endif

typedef struct row {
  const tri_cpu_family *family;
  bool (*runs)(void);
} row;

#define TRI_X(name) extern const tri_cpu_family tri_cpu_family_table_##name;
FAMILIES(TRI_X)
#undef TRI_X
#define TRI_X(name) {&tri_cpu_family_table_##name, has_##name},
static const row rows[] = {FAMILIES(TRI_X)};
#undef TRI_X
enum { N_ROWS = sizeof rows / sizeof *rows };

static const tri_cpu_family *chosen;

const tri_cpu_family *tri_cpu_family_find(void) { return chosen; }

/* Returns whether `word` is a family of any processor, as in run.cpu_kernels. */
static bool is_a_family(const char *word) {
  static const char *const known[] = {"avx512", "avx2", "neoverse_v2", "neon", "generic"};

  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(word, known[i])) return true;
  return false;
}

/* Appends a word to a list in text. */
static void add_word(char *text, size_t cap, const char *word) {
  size_t have = strlen(text);

  snprintf(text + have, cap - have, "%s%s", have ? ", " : "", word);
}

tri_status tri_cpu_family_choose(void) {
  const char *wish = tri_choice_word(TRI_CHOICE_CPU_KERNELS);
  char        here[128] = "";

  const tri_cpu_family *best = NULL;

  for (int i = 0; i < N_ROWS; i++) {
    bool named = !strcmp(wish, rows[i].family->name);
    if (!rows[i].runs()) continue;
    add_word(here, sizeof here, rows[i].family->name);
    if (!best && (named || !*wish)) best = rows[i].family;
  }
  chosen = best;
  if (best) return TRI_OK;
  if (!here[0])
    TRI_FAIL(
        TRI_EDEVICE,
        "this processor lacks %s. The kernels of this program need these instructions. Choose other nodes",
        least);
  TRI_FAIL(is_a_family(wish) ? TRI_EDEVICE : TRI_ECONFIG, "%s%s: must be %s or %s on this processor",
           tri_choice_source(TRI_CHOICE_CPU_KERNELS), wish, here, tri_choice_none(TRI_CHOICE_CPU_KERNELS));
}

/* A communicator may use the CPU's loops without a CPU device. Its open has chosen the family then
 * (comm.c). */
void tri_cpu_copy_bytes(void *dst, const void *src, size_t bytes, int threads) {
  TRI_ASSERT(chosen);
  chosen->copy_bytes(dst, src, bytes, threads);
}

void tri_cpu_reduce(void *dst, const void *const *src, int n_src, int64_t n, tri_dtype t, tri_cpu_redop op,
                    int threads) {
  TRI_ASSERT(chosen);
  chosen->reduce(dst, src, n_src, n, t, op, threads);
}
