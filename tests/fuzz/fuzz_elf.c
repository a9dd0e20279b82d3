/* fuzz_elf.c - the reader of shared objects (src/reward/elf_object.c) and the reward library that uses it.
 * The input is the file, with the machine in its header set to this one.
 *
 * Each symbol found must be readable, or the reader gives a reason. The reward must accept no object refused
 * by the reader. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz_case.h"
#include "reward/elf_object.h"
#include "reward/reward.h"

#include <elf.h>
#include <stddef.h>

FUZZ_QUIET_START

#if defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
#else
enum { MACHINE = EM_X86_64 };
#endif

/* Returns true if the whole object was readable. */
static bool look(const char *path) {
  tri_elf *e;
  uint64_t at = 0, size;
  bool     found, points, good;

  if (tri_elf_open(path, &e) != TRI_OK) return false;
  good = tri_elf_find(e, "trireme_reward_object", &at, &found) == TRI_OK && found &&
         tri_elf_read(e, at, &size, sizeof size) == TRI_OK && tri_elf_points(e, at + 16, &points) == TRI_OK &&
         points;
  tri_elf_close(&e);
  return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static uint8_t copy[1 << 14];
  uint16_t       machine = MACHINE;
  char           path[96];
  tri_reward_opt o = {.name = "library", .weight = 1, .n_field = 1, .field = {{"path", path, 0}}};
  bool           good;

  if (n > sizeof copy) return -1;
  memcpy(copy, data, n);
  if (n >= sizeof(Elf64_Ehdr)) memcpy(copy + offsetof(Elf64_Ehdr, e_machine), &machine, sizeof machine);
  snprintf(path, sizeof path, "%s/object.so", fuzz_folder());
  fuzz_write(path, copy, n);
  fuzz_begin();
  good = look(path);
  tri_error_clear();
  if (tri_reward_check(&o, NULL) == TRI_OK) FUZZ_CHECK(good);
  tri_error_clear();
  fuzz_end();
  return 0;
}
