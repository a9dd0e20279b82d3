/* family.c - which instructions multiply bf16 tiles in this process. */
#include "pairs.h"

#include <stdlib.h>
#include <string.h>

static const tri_pairs *chosen;

const tri_pairs *tri_pairs_find(void) { return chosen; }

#if TRI_PAIRS_X86
static bool has_avx512(void) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

tri_status tri_pairs_choose(void) {
  const char *wish = getenv("TRI_CPU_BF16");
  bool        avx512 = has_avx512(), amx = avx512 && tri_pairs_amx_allowed();

  if (!wish || !*wish)
    chosen = amx ? &tri_pairs_amx : avx512 ? &tri_pairs_avx512 : NULL;
  else if (amx && !strcmp(wish, tri_pairs_amx.name))
    chosen = &tri_pairs_amx;
  else if (avx512 && !strcmp(wish, tri_pairs_avx512.name))
    chosen = &tri_pairs_avx512;
  else if (!strcmp(wish, "f32"))
    chosen = NULL;
  else
    TRI_FAIL(TRI_EDEVICE, "TRI_CPU_BF16=%s: on this processor it can be f32%s%s, or unset", wish,
             avx512 ? ", avx512" : "", amx ? ", amx" : "");
  return TRI_OK;
}
#else
tri_status tri_pairs_choose(void) {
  const char *wish = getenv("TRI_CPU_BF16");

  if (wish && *wish && strcmp(wish, "f32"))
    TRI_FAIL(TRI_EDEVICE, "TRI_CPU_BF16=%s: on this processor it can be f32, or unset", wish);
  return TRI_OK;
}
#endif
