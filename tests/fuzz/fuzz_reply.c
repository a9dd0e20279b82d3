/* fuzz_reply.c - replies of reward programs and servers (src/reward/reply_json.c, extras.c). The first byte
 * has the number of answers and whether lists are of answers. The rest is a reply.
 *
 * Values read must be finite. Their names must be valid metric names, each once and in order, and no more
 * than the limit. A refusal must have a message. A reply that jansson alone can read must give the same
 * values. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz_case.h"
#include "reward/extras.h"
#include "reward/reply_json.h"

#include <math.h>

FUZZ_QUIET_START

static void check_extras(const tri_extras *x) {
  FUZZ_CHECK(x->n >= 0 && x->n <= TRI_EXTRAS_MOST);
  for (int i = 0; i < x->n; i++) {
    const char *name = x->at[i].name;
    FUZZ_CHECK(isfinite(x->at[i].value) && name[0] && strlen(name) < TRI_EXTRA_NAME_BYTES);
    FUZZ_CHECK(strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.") ==
               strlen(name));
    FUZZ_CHECK(strcmp(name, "mean") != 0 && (!i || strcmp(x->at[i - 1].name, name) < 0));
  }
}

static void check_same(const json_t *got, const char *reply, size_t n, size_t flags) {
  json_t *want = json_loadb(reply, n, flags, NULL);

  if (want) FUZZ_CHECK(json_equal(got, want));
  json_decref(want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const own[] = {"id", "reward", "rewards", NULL};
  enum { MOST = 4 };
  const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
  tri_extras   extras[MOST];
  char         why[TRI_EXTRAS_WHY_BYTES];
  char        *copy = NULL;
  json_t      *object;

  if (n < 1 || n > 1 << 16) return -1;
  FUZZ_CHECK(TRI_ALLOC(copy, (int64_t)n) == TRI_OK); /* with a NUL at its end, as from every caller */
  memcpy(copy, data + 1, n - 1);
  object = tri_reply_parse(copy, n - 1, 1024, flags);
  FUZZ_CHECK(tri_reply_scan_id(copy, n - 1) >= -1);
  if (object) {
    tri_extras_reply r = {object, own, 1 + (data[0] & 3), data[0] & 4};
    check_same(object, copy, n - 1, flags);
    if (!tri_extras_read(&r, extras, why))
      FUZZ_CHECK(why[0] && strlen(why) < sizeof why);
    else
      for (int i = 0; i < r.n; i++) check_extras(&extras[i]);
  }
  json_decref(object);
  TRI_FREE(copy);
  FUZZ_CHECK(tri_host_bytes() == 0);
  return 0;
}
