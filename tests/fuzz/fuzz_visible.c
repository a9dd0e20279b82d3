/* fuzz_visible.c - text made safe to show (src/base/visible.h), from a byte that selects the kept characters
 * and the buffer size, and the text.
 *
 * The output must be UTF-8 without control characters except the kept ones, and must fit its buffer. Showing
 * it again must not change it. A smaller buffer must give the beginning of the same output. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/visible.h"
#include "fuzz_case.h"

FUZZ_QUIET_START

static void check_shown(const char *shown, size_t n, const char *keep) {
  FUZZ_CHECK(strlen(shown) == n && fuzz_is_utf8(shown, n));
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)shown[i];
    FUZZ_CHECK((c >= 0x20 && c != 0x7F) || strchr(keep, c));
    FUZZ_CHECK(c != 0xC2 || (unsigned char)shown[i + 1] >= 0xA0); /* C1 */
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const keeps[] = {"", "\n", "\n\t", "\t"};
  static char              shown[TRI_VISIBLE_MOST * 4096 + 1], again[sizeof shown], less[256];
  const char              *keep, *text;
  size_t                   have, space, part;

  if (n < 1 || n > 4096) return -1;
  keep = keeps[data[0] & 3];
  space = data[0] >> 2;
  text = (const char *)data + 1;
  n--;
  have = tri_visible(text, n, keep, shown, sizeof shown);
  check_shown(shown, have, keep);
  FUZZ_CHECK(tri_visible(shown, have, keep, again, sizeof again) == have && fuzz_same(shown, again, have));
  memset(less, 'x', sizeof less);
  part = tri_visible(text, n, keep, less, space);
  FUZZ_CHECK(less[space] == 'x' && (space == 0 ? part == 0 : part < space) && part <= have);
  FUZZ_CHECK(fuzz_same(shown, less, part));
  if (space) check_shown(less, part, keep);
  return 0;
}
