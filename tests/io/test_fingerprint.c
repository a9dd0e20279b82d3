/* test_fingerprint.c - tests recognising models by their bytes. Judge: the bytes changed in a large file. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "io/model/fingerprint.h"
#include "io/model/multimodal.h"

#include <fcntl.h>
#include <stdio.h>
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

static void put(const char *folder, const char *name, const char *text) {
  char path[256];
  int  fd;

  snprintf(path, sizeof path, "%s/%s", folder, name);
  fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
  assert_int_equal(close(fd), 0);
}

/* Returns whether the folder differs from the one of the note. */
static bool differs(const char *note, const char *folder) {
  tri_text names = {0};
  bool     differs;

  assert_int_equal(tri_multimodal_differ(note, folder, &names), TRI_OK);
  differs = names.len > 0;
  tri_text_free(&names);
  return differs;
}

/* The file of a checkpoint about its multimodal folder may come from anybody. Without fingerprints it means
 * no folder, also none that has no files to compare. */
static void a_multimodal_folder_is_known_by_its_files(void **state) {
  static const char *const wrong[] = {"", "trireme multimodal 1\n", "trireme multimodal 1\npath \n",
                                      "trireme multimodal 2\npath /tmp\n"};
  static const char        bare[] = "trireme multimodal 1\npath /tmp\n";
  char                     folder[] = "/tmp/tri_model_XXXXXX", path[TRI_CKPT_PATH_BYTES], command[64];
  tri_text                 note = {0};

  (void)state;
  assert_non_null(mkdtemp(folder));
  put(folder, "config.json", "{}");
  put(folder, "model.safetensors", "weights");
  assert_int_equal(tri_multimodal_note(folder, &note), TRI_OK);
  assert_int_equal(tri_multimodal_path("note", note.data, path), TRI_OK);
  assert_string_equal(path, folder);
  assert_false(differs(note.data, folder));
  assert_true(differs(bare, folder));
  put(folder, "MANIFEST.json", "{}");
  assert_true(differs(note.data, folder));
  assert_true(differs(bare, folder));
  put(folder, "MANIFEST.json", "");
  put(folder, "config.json", "");
  assert_true(differs(bare, folder));
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_int_equal(tri_multimodal_path("note", wrong[i], path), TRI_EFORMAT);
    tri_error_clear();
  }
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
  tri_text_free(&note);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_layer_is_seen),
                                     cmocka_unit_test(a_multimodal_folder_is_known_by_its_files)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
