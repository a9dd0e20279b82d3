/* test_fingerprint.c - tests recognising models by their bytes. Judge: the bytes changed in a large file. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "io/model/fingerprint.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_BYTES = 64 << 20, LAYERS = 24 };

static void take(const char *path, tri_text *out) {
  out->len = 0;
  assert_int_equal(tri_fingerprint("model.path", path, out), TRI_OK);
  assert_true(tri_fingerprint_has(out->data, "model.path"));
}

/* One of many layers differs, as if all others were frozen. The change is noticed at each place of the
 * file. */
static void one_layer_is_seen(void **state) {
  enum { LAYER = FILE_BYTES / LAYERS };
  static char byte[LAYER];
  char        path[] = "/tmp/tri_model_XXXXXX";
  int         fd = mkstemp(path);
  tri_text    before = {0}, now = {0}, names = {0};

  (void)state;
  assert_true(fd >= 0 && !ftruncate(fd, FILE_BYTES));
  take(path, &before);
  for (int i = 0; i < LAYERS; i++) {
    memset(byte, 1, sizeof byte);
    assert_int_equal(pwrite(fd, byte, sizeof byte, (off_t)i * LAYER), (ssize_t)sizeof byte);
    take(path, &now);
    names.len = 0;
    assert_int_equal(tri_fingerprint_differ(before.data, now.data, "model.path", &names), TRI_OK);
    if (!names.len) fail_msg("layer %d of %d is not seen", i, LAYERS);
    memset(byte, 0, sizeof byte);
    assert_int_equal(pwrite(fd, byte, sizeof byte, (off_t)i * LAYER), (ssize_t)sizeof byte);
  }
  take(path, &now);
  assert_string_equal(before.data, now.data);
  close(fd);
  unlink(path);
  tri_text_free(&before);
  tri_text_free(&now);
  tri_text_free(&names);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_layer_is_seen)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
