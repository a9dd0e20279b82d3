/* test_record.c - the record of a run's program, its lines and its differences. Judge: exact texts. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/host_memory.h"
#include "record/record.h"

#include <string.h>

#define BUILD "\"build\": {\"type\": \"Release\", \"compiler\": \"GNU 12.2.0\", \"flags\": \"-O3\"}"
#define WITH(products, hosts, ranks)                                                                         \
  "{\"version\": \"0.1.0\", \"commit\": \"ab12\", " BUILD                                                    \
  ", \"libraries\": [{\"name\": \"MPI\", \"built\": "                                                        \
  "\"4.1.4\", \"loaded\": \"Open MPI v4.1.4\"}, {\"name\": \"HDF5\", \"built\": \"1.10.8\", \"loaded\": "    \
  "\"1.12.0\"}, {\"name\": \"cuDNN\", \"built\": null, \"loaded\": null}], \"products\": {" products         \
  "}, \"collectives\": \"shm\", \"hosts\": [" hosts "], \"ranks\": " ranks                                   \
  ", \"environment\": {\"TRI_CPU_F32\": \"library\", \"OMP_NUM_THREADS\": \"2\"}}"
#define NODE(name, cpu) "{\"node\": \"" name "\", \"cpu\": \"" cpu "\", \"device\": \"cpu\", \"ranks\": 1}"

static const char before[] =
    WITH("\"f32\": \"avx512\", \"library\": \"AMX\"",
         "{\"node\": \"n1\", \"nodes\": 2, \"cpu\": \"EPYC\", \"device\": \"cpu\", \"ranks\": 4}", "4");

static void lines_are(const char *record, const char *want) {
  tri_text out = {0};

  assert_int_equal(tri_record_lines(record, "  ", &out), TRI_OK);
  assert_string_equal(out.data ? out.data : "", want);
  tri_text_free(&out);
  assert_int_equal(tri_host_bytes(), 0);
}

static void differ(const char *a, const char *b, const char *want) {
  tri_text out = {0};

  assert_int_equal(tri_record_differ(a, b, &out), TRI_OK);
  assert_string_equal(out.data ? out.data : "", want);
  tri_text_free(&out);
  assert_int_equal(tri_host_bytes(), 0);
}

static void a_fact_is_a_line(void **state) {
  (void)state;
  lines_are(before, "  program      trireme 0.1.0, commit ab12\n"
                    "  build        GNU 12.2.0, Release, -O3\n"
                    "  products     f32 avx512, library AMX\n"
                    "  collectives  shm\n"
                    "  node         n1 and 1 like it: 4 ranks, cpu, EPYC\n"
                    "  libraries    MPI Open MPI v4.1.4, HDF5 1.12.0 (built with 1.10.8)\n"
                    "  environment  TRI_CPU_F32=library OMP_NUM_THREADS=2\n");
}

/* With another number of ranks, collectives differ anyway. HDF5 computes nothing. */
static void what_differs_is_named(void **state) {
  (void)state;
  differ(before, before, "");
  differ(before,
         WITH("\"f32\": \"library\", \"library\": \"AVX2\"", NODE("n1", "EPYC") ", " NODE("n2", "Xeon"), "2"),
         "\n  products of f32: avx512 -> library\n  instructions of the library: AMX -> AVX2"
         "\n  processors: EPYC -> EPYC, Xeon");
  differ("{\"version\": \"0.1.0\", \"ranks\": 1, \"collectives\": \"shm\", \"build\": {\"flags\": \"-O3\"}}",
         "{\"version\": \"0.2.0\", \"ranks\": 1, \"collectives\": \"mpi\", \"build\": {\"flags\": \"-O2\"}}",
         "\n  program: 0.1.0 -> 0.2.0\n  flags: -O3 -> -O2\n  collectives: shm -> mpi");
  differ("{\"libraries\": [{\"name\": \"oneDNN\", \"loaded\": \"2.6.3\"}]}",
         "{\"libraries\": [{\"name\": \"oneDNN\", \"built\": \"3.1.0\", \"loaded\": null}]}",
         "\n  oneDNN: 2.6.3 -> 3.1.0");
}

/* A fact unknown to one record is no difference. Members of other types are ignored. Control characters are
 * shown, not sent to the terminal. */
static void records_of_others_do_no_harm(void **state) {
  static const char        hosts[] = "{\"version\": 1, \"hosts\": [1, {\"node\": []}], \"libraries\": [null, "
                                     "{\"name\": 2}], \"environment\": 7}";
  static const char        types[] = "{\"hosts\": 5, \"libraries\": {\"a\": 1}, \"products\": [], "
                                     "\"build\": \"x\"}";
  static const char *const odd[] = {"", "[]", "5", "{", "{}", types, hosts};

  (void)state;
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    lines_are(odd[i], "");
    differ(odd[i], before, "");
    differ(before, odd[i], "");
  }
  lines_are("{\"collectives\": \"\\u001b[2Jx\\ny\"}", "  collectives  \\x1B[2Jx\\ny\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_fact_is_a_line),
                                     cmocka_unit_test(what_differs_is_named),
                                     cmocka_unit_test(records_of_others_do_no_harm)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
