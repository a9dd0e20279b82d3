/* test_cli_version.c - trireme --version. Judges, beside cli_case.h: CMakeLists.txt, git if this tree has a
 * repository, jansson's version at run time, the system's count of processors. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_case.h"

#include "tools/version/about.h"

#include <ctype.h>
#include <jansson.h>

/* Reads project(trireme VERSION x.y.z ...) into out [32]. */
static void read_version(char *out) {
  static char text[CLI_TEXT_BYTES];
  const char *at;

  cli_read(TRI_SOURCE_DIR "/CMakeLists.txt", text);
  at = strstr(text, "\nproject(trireme VERSION ");
  assert_non_null(at);
  at = strstr(at, "VERSION ") + 8;
  snprintf(out, 32, "%.*s", (int)strcspn(at, " )\n"), at);
  assert_true(isdigit((unsigned char)out[0]));
}

/* The short form is one line, the first of the long form. */
static void the_first_line_is_the_version(void **state) {
  char version[32], begin[64];

  (void)state;
  read_version(version);
  snprintf(begin, sizeof begin, "trireme %s (cpu", version);
  cli_succeeds(ONE "--version");
  assert_int_equal(strncmp(cli_out, begin, strlen(begin)), 0);
  assert_string_equal(strchr(cli_out, ')'), ")\n");
  cli_succeeds(ONE "--version --verbose");
  assert_int_equal(strncmp(cli_out, begin, strlen(begin)), 0);
  cli_fits(cli_out);
  cli_shows(cli_out, "\njansson       ");
  cli_shows(cli_out, "\ninstructions  ");
  cli_succeeds(ONE "--version --help");
  cli_shows(cli_out, "usage: trireme --version [--verbose] [--json]\n");
  cli_fits(cli_out);
}

/* It shows the chosen family, not the variable's. Judge: the kernel's list of the processor's features. */
static void it_tells_how_f32_is_multiplied(void **state) {
  const bool avx2 = !system("grep -m 1 '^flags' /proc/cpuinfo | grep -w avx2 | grep -qw fma");
  const bool own = !system("grep -m 1 '^flags' /proc/cpuinfo | grep -w avx512f | grep -w avx512bw | "
                           "grep -w avx512vl | grep -qw avx512dq");

  (void)state;
  cli_succeeds("TRI_CPU_F32= " ONE "--version --verbose");
  cli_shows(cli_out, own    ? ", f32 by avx512, kernels by avx512\n"
                     : avx2 ? ", f32 by avx2, kernels by avx2\n"
                            : ", f32 by the library,");
  cli_succeeds("ONEDNN_MAX_CPU_ISA=AVX2 TRI_CPU_BF16=f32 TRI_CPU_F32= " ONE "--version --verbose");
  cli_shows(cli_out, own    ? "bf16 by f32, f32 by avx512,"
                     : avx2 ? "bf16 by f32, f32 by avx2,"
                            : "bf16 by f32, f32 by the library,");
  cli_succeeds("TRI_CPU_BF16=f32 TRI_CPU_F32=library " ONE "--version --verbose");
  cli_shows(cli_out, "bf16 by f32, f32 by the library,");
  cli_succeeds("TRI_CPU_KERNELS=avx2 TRI_CPU_F32=library " ONE "--version --json");
  if (!strstr(cli_out, "none, bf16")) cli_shows(cli_out, ", f32 by the library, kernels by avx2\"");
}

static const json_t *library(const json_t *all, const char *name) {
  const json_t *l;
  size_t        i;

  json_array_foreach(all, i, l) if (!strcmp(json_string_value(json_object_get(l, "name")), name)) return l;
  return NULL;
}

/* On two ranks too one object. */
static void it_is_there_as_json(void **state) {
  char version[32];

  (void)state;
  read_version(version);
  for (int two = 0; two < 2; two++) {
    cli_succeeds(two ? TWO "--version --json" : ONE "--version --json");
    json_t       *all = json_loads(cli_out, 0, NULL);
    const json_t *libraries = json_object_get(all, "libraries"), *own = library(libraries, "jansson"), *l;
    size_t        i;
    assert_string_equal(json_string_value(json_object_get(all, "version")), version);
    assert_string_equal(json_string_value(json_array_get(json_object_get(all, "devices"), 0)), "cpu");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(all, "cpu"), "threads_online")),
                     sysconf(_SC_NPROCESSORS_ONLN));
    assert_string_equal(json_string_value(json_object_get(own, "loaded")), jansson_version_str());
    assert_string_equal(json_string_value(json_object_get(own, "built")), JANSSON_VERSION);
    assert_true(json_array_size(libraries) >= 9);
    json_array_foreach(libraries, i, l) {
      const json_t *loaded = json_object_get(l, "loaded");
      if (strcmp(json_string_value(json_object_get(l, "name")), "CUDA") != 0)
        assert_true(json_is_string(loaded));
    }
    assert_true(json_is_string(json_object_get(all, "instructions")));
    assert_true(json_array_size(json_object_get(all, "gpus")) == 0 ||
                json_is_array(json_object_get(all, "gpus")));
    json_decref(all);
  }
}

/* Returns the checked-out commit, with "+" if a file differs from it, and null outside of git. */
static void the_commit_is_gits(void **state) {
  char want[64] = "";
  char top[CLI_TEXT_BYTES], *source = realpath(TRI_SOURCE_DIR, NULL);

  (void)state;
  cli_run("git -C '" TRI_SOURCE_DIR "' rev-parse --show-toplevel");
  snprintf(top, sizeof top, "%s", cli_out);
  top[strcspn(top, "\n")] = 0;
  if (!strcmp(top, source) && !cli_run("git -C '" TRI_SOURCE_DIR "' rev-parse HEAD"))
    snprintf(want, 13, "%s", cli_out);
  cli_succeeds(ONE "--version --json");
  json_t     *all = json_loads(cli_out, 0, NULL);
  const char *commit = json_string_value(json_object_get(all, "commit"));
  if (want[0])
    assert_true(commit && !strncmp(commit, want, 12) && (!commit[12] || !strcmp(commit + 12, "+")));
  json_decref(all);
  free(source);
}

static void what_it_does_not_know_is_refused(void **state) {
  (void)state;
  cli_fails(64, ONE "--version --verbos", "--verbos", "--verbose");
  cli_fails(64, ONE "--version deck.yaml", "deck.yaml", "trireme --version [");
}

static void other_versions_are_told(void **state) {
  const struct {
    tri_about_library l;
    bool              differs;
  } row[] = {{{"MPI", "Open MPI v4.1.4", "Open MPI v4.1.4"}, false},
             {{"MPI", "Open MPI v4.1.4", "Open MPI v5.0.1"}, true},
             {{"PMIx", "4.2.2", "OpenPMIx 4.2.2rc2"}, false},
             {{"HDF5", "1.10.8", "1.10.81"}, true},
             {{"HDF5", "1.10.8", "1.10.7"}, true},
             {{"CUDA", "12.4", ""}, false},
             {{"libc", "", "2.36"}, false}};

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    assert_int_equal(tri_about_differs(&row[i].l), row[i].differs);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_first_line_is_the_version),
                                     cmocka_unit_test(it_tells_how_f32_is_multiplied),
                                     cmocka_unit_test(it_is_there_as_json),
                                     cmocka_unit_test(the_commit_is_gits),
                                     cmocka_unit_test(what_it_does_not_know_is_refused),
                                     cmocka_unit_test(other_versions_are_told)};
  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
