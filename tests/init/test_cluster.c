/* test_cluster.c - tests the reading of Slurm's partitions. Judge: exact values, with a fake sinfo that
 * prints lines of real clusters. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tools/init/cluster.h"
#include "slurm_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void asked(const char *script, double patience_s, tri_cluster *c) {
  slurm_say("sinfo", script);
  assert_int_equal(tri_cluster_ask(patience_s, c), TRI_OK);
}

/* Five partitions. The default one has no GPUs and two rows of the same kind. The others have three kinds of
 * nodes, limits, unknown memory, and the state down. */
#define CLUSTER                                                                                              \
  "[ \"$*\" = '--noheader --exact --format=%P|%a|%l|%s|%D|%c|%m|%G' ] || exit 1\n"                           \
  "cat <<'END'\n"                                                                                            \
  "cpu*|up|infinite|1-infinite|3|128|257000|(null)\n"                                                        \
  "cpu*|up|infinite|1-infinite|5|128|257000|(null)\n"                                                        \
  "gpu|up|2-00:00:00|1-8|4|64|1031000|gpu:a100:4(S:0-1),nvme:1\n"                                            \
  "gpu|up|2-00:00:00|1-8|6|112|2063000|nic:2(S:0,1),gpu:h100:8(S:0,1)\n"                                     \
  "gpu|up|2-00:00:00|1-8|20|64+|257000|(null)\n"                                                             \
  "short|up|30:00|1|2|8|16000|gpu:2\n"                                                                       \
  "bare|up|infinite|1-infinite|1|4|1|(null)\n"                                                               \
  "old|down|infinite|1-infinite|9|16|64000|gpu:v100:1\n"                                                     \
  "END"

static void partitions_and_their_nodes(void **state) {
  tri_cluster              c;
  const tri_cluster_nodes *k;

  (void)state;
  asked(CLUSTER, 5, &c);
  assert_int_equal(c.n_kind, 6);
  k = tri_cluster_find(&c, NULL, false);
  assert_string_equal(k->partition, "cpu");
  assert_true(k->is_default && k->nodes == 8 && k->cores == 128 && k->memory_mib == 257000);
  assert_true(k->gpus == 0 && k->most_nodes == 0 && k->longest_s == 0 && !k->gpu[0]);
  k = tri_cluster_find(&c, "gpu", false);
  assert_true(k->nodes == 20 && k->gpus == 0 && k->cores == 64);
  k = tri_cluster_find(&c, NULL, true);
  assert_string_equal(k->gpu, "h100");
  assert_true(k->nodes == 6 && k->gpus == 8 && k->most_nodes == 8 && k->longest_s == 172800);
  k = tri_cluster_find(&c, "short", true);
  assert_true(k->gpus == 2 && !k->gpu[0] && k->most_nodes == 1 && k->longest_s == 1800);
  assert_null(tri_cluster_find(&c, "cpu", true));
  assert_null(tri_cluster_find(&c, "old", false));
  assert_true(tri_cluster_mixes_gpus(&c, "gpu"));
  assert_false(tri_cluster_mixes_gpus(&c, "short"));
  assert_true(tri_cluster_find(&c, "bare", false)->memory_mib == 0);
  tri_cluster_close(&c);
}

static void nothing_is_known(void **state) {
  static const struct {
    const char *script, *why;
  } t[] = {
      {"exit 1", "sinfo failed"},
      {"printf 'sinfo: error: no\\001 contact\\nmore\\n' >&2; exit 1", "sinfo failed: no\\x01 contact"},
      {"echo 'cpu*|up|infinite|1-infinite|3|128|257000'", "sinfo lists no partition in state up"},
      {"printf 'x'", "sinfo lists no partition in state up"},
      {"echo 'a b|up|infinite|1|3|1|1|(null)'; echo 'c|up|soon|1|3|1|1|(null)'; echo 'd|up|1:00|1|0|1|1|'",
       "sinfo lists no partition in state up"},
      {"yes 'cpu|up|infinite|1|3|128|257000|(null)'", "sinfo does not answer"},
      {"exec tail -f /dev/null", "sinfo does not answer"}};
  tri_cluster c;

  (void)state;
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    asked(t[i].script, 0.3, &c);
    if (c.n_kind || strcmp(c.why, t[i].why) != 0) fail_msg("'%s': %s", t[i].script, c.why);
    tri_cluster_close(&c);
  }
  assert_int_equal((slurm_silence("sinfo"), 0), 0);
  setenv("PATH", slurm_folder, 1);
  assert_int_equal(tri_cluster_ask(5, &c), TRI_OK);
  assert_string_equal(c.why, "there is no sinfo here");
  tri_cluster_close(&c);
  setenv("PATH", slurm_path, 1);
}

static void accounts_of_a_user(void **state) {
  static const struct {
    const char *script, *names;
  } t[] = {{"printf 'phys\\nchem\\nphys\\n'", "phys, chem"},
           {"printf 'a b\\n\\033\\nlast'", "last"}, /* not names of accounts */
           {"exit 0", ""},
           {"echo phys; exit 1", ""},
           {"exec tail -f /dev/null", ""}};

  (void)state;
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    tri_text names = {0};
    slurm_say("sacctmgr", t[i].script);
    assert_int_equal(tri_cluster_accounts(0.3, &names), TRI_OK);
    assert_string_equal(names.len ? names.data : "", t[i].names);
    tri_text_free(&names);
  }
  slurm_silence("sacctmgr");
  assert_true(tri_cluster_has_account("phys, chem", "chem") && tri_cluster_has_account("phys, chem", "phys"));
  assert_false(tri_cluster_has_account("phys, chem", "che") ||
               tri_cluster_has_account("phys, chem", "physx"));
}

static void gpus_of_a_node(void **state) {
  static const struct {
    const char *gres, *type;
    int64_t     n;
  } t[] = {{"(null)", "", 0},
           {"gpu:4", "", 4},
           {"gpu:4(S:0-1)", "", 4},
           {"gpu:tesla_v100:2(S:0),gpu:a30:2(S:1)", "tesla_v100", 4},
           {"nvme:1,gpu:1", "", 1},
           {"gpumem:80", "", 0},
           {"gpu:h100:8(S:0,1)", "h100", 8},
           {"gpu:none", "", 0},
           {"gpu:", "", 0},
           {"gpu:a100:(S:0", "", 0}};
  tri_cluster c;
  char        script[256];

  (void)state;
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    snprintf(script, sizeof script, "echo 'p|up|1-12:30|1|3|4|100|%s'", t[i].gres);
    asked(script, 5, &c);
    assert_int_equal(c.n_kind, 1);
    if (c.kind[0].gpus != t[i].n || strcmp(c.kind[0].gpu, t[i].type) != 0)
      fail_msg("'%s': %lld of '%s'", t[i].gres, (long long)c.kind[0].gpus, c.kind[0].gpu);
    tri_cluster_close(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(partitions_and_their_nodes),
                                     cmocka_unit_test(nothing_is_known), cmocka_unit_test(accounts_of_a_user),
                                     cmocka_unit_test(gpus_of_a_node)};
  return cmocka_run_group_tests(tests, slurm_open, slurm_close);
}
