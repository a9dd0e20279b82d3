/* pairs_family.c - chooses the instructions for products of bf16 tiles and in f32 in this process. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "pairs.h"

#include "base/choice.h"

#include <string.h>

typedef enum f32_products { LIBRARY, AVX2, AVX512, N_F32 } f32_products;
static const char *const f32_name[N_F32] = {"library", "avx2", "avx512"}; /* the words of run.cpu_f32 */

static const tri_pairs *chosen;
static bool             own_narrow;
static f32_products     own_f32 = LIBRARY;

const tri_pairs *tri_pairs_find(void) { return chosen; }
bool             tri_pairs_f32(void) { return own_f32 != LIBRARY; }
bool             tri_pairs_f32_avx512(void) { return own_f32 == AVX512; }
const char      *tri_pairs_f32_name(void) { return f32_name[own_f32]; }
bool             tri_pairs_narrows(void) { return own_narrow; }

/* Chooses the products of f32 by run.cpu_f32. `best` is the last one that this processor has. */
static tri_status choose_f32(f32_products best) {
  const char *wish = tri_choice_word(TRI_CHOICE_CPU_F32);
  int         i = *wish ? 0 : (int)best;

  while (*wish && i < N_F32 && strcmp(wish, f32_name[i])) i++;
  if (i > (int)best)
    TRI_FAIL(i == N_F32 ? TRI_ECONFIG : TRI_EDEVICE, "%s%s: must be library%s%s or %s on this processor",
             tri_choice_source(TRI_CHOICE_CPU_F32), wish, best >= AVX2 ? ", avx2" : "",
             best == AVX512 ? ", avx512" : "", tri_choice_none(TRI_CHOICE_CPU_F32));
  own_f32 = (f32_products)i;
  return TRI_OK;
}

/* TRI_EDEVICE for a family this processor lacks, TRI_ECONFIG for an unknown word. */
static tri_status wrong(const char *wish) {
  return strcmp(wish, "amx") && strcmp(wish, "avx512") ? TRI_ECONFIG : TRI_EDEVICE;
}

#if TRI_PAIRS_X86
static bool has_avx2(void) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
}
static bool has_avx512(void) {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

tri_status tri_pairs_choose(void) {
  const char *wish = tri_choice_word(TRI_CHOICE_CPU_BF16);
  bool        f32 = has_avx512(), avx512 = f32 && __builtin_cpu_supports("avx512bf16"),
       amx = avx512 && tri_pairs_amx_allowed();

  own_narrow = avx512;
  TRI_TRY(choose_f32(f32 ? AVX512 : has_avx2() ? AVX2 : LIBRARY));
  if (!*wish)
    chosen = amx ? &tri_pairs_amx : avx512 ? &tri_pairs_avx512 : NULL;
  else if (amx && !strcmp(wish, tri_pairs_amx.name))
    chosen = &tri_pairs_amx;
  else if (avx512 && !strcmp(wish, tri_pairs_avx512.name))
    chosen = &tri_pairs_avx512;
  else if (!strcmp(wish, "f32"))
    chosen = NULL;
  else
    TRI_FAIL(wrong(wish), "%s%s: must be f32%s%s or %s on this processor",
             tri_choice_source(TRI_CHOICE_CPU_BF16), wish, avx512 ? ", avx512" : "", amx ? ", amx" : "",
             tri_choice_none(TRI_CHOICE_CPU_BF16));
  return TRI_OK;
}
#else
tri_status tri_pairs_choose(void) {
  const char *wish = tri_choice_word(TRI_CHOICE_CPU_BF16);

  TRI_TRY(choose_f32(LIBRARY));
  if (*wish && strcmp(wish, "f32"))
    TRI_FAIL(wrong(wish), "%s%s: must be f32 or %s on this processor", tri_choice_source(TRI_CHOICE_CPU_BF16),
             wish, tri_choice_none(TRI_CHOICE_CPU_BF16));
  return TRI_OK;
}
#endif
