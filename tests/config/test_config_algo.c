/* test_config_algo.c - what a deck says of algorithms, for each of their table. Judges: exact; GRPO's
 * deck. */
#include "config_case.h"

#include <ctype.h>
#include <stdlib.h>

/* Options of algorithms are keys, and a key of algo is one of some algorithm. */
static void test_options(void **state) {
  (void)state;
  for (int i = 0; i < tri_n_keys; i++) {
    int n = !strcmp(tri_keys[i].name, "algo.name") || strncmp(tri_keys[i].name, "algo.", 5) != 0;
    for (int a = 0; tri_algo_at(a); a++)
      for (int k = 0; tri_algo_at(a)->option[k]; k++)
        n += !strcmp(tri_algo_at(a)->option[k], tri_keys[i].name);
    if (!n) fail_msg("no algorithm has %s in its list of options", tri_keys[i].name);
  }
  for (int a = 0; tri_algo_at(a); a++)
    for (int k = 0; tri_algo_at(a)->option[k]; k++) {
      int n = 0;
      for (int i = 0; i < tri_n_keys; i++) n += !strcmp(tri_algo_at(a)->option[k], tri_keys[i].name);
      if (n != 1) fail_msg("%s of %s is no key", tri_algo_at(a)->option[k], tri_algo_at(a)->name);
    }
}

static bool reads(const tri_algo *a, const char *key) {
  for (int i = 0; a->option[i]; i++)
    if (!strcmp(a->option[i], key)) return true;
  return false;
}

/* A deck of the algorithm with what must be given. */
static const char *deck_of(const tri_algo *a) { return a->needs & TRI_NEEDS_ANSWERS ? GRPO : SFT; }

/* "algo.name=NAME", until the next call. */
static const char *named(const tri_algo *a) {
  static char text[64];

  snprintf(text, sizeof text, "algo.name=%s", a->name);
  return text;
}

/* Where a deck gives no option, each algorithm sees the default of every one: of those it does not list too,
 * which a deck of it must not give. */
static void test_defaults_of_all(void **state) {
  tri_config grpo = good(GRPO, NULL);

  (void)state;
  for (int a = 0; tri_algo_at(a); a++) {
    const tri_algo *algo = tri_algo_at(a);
    tri_config      c = good(deck_of(algo), ARGS(named(algo)));
    assert_ptr_equal(c.algo.row, algo);
    for (int i = 0; i < tri_n_keys; i++) {
      const tri_key *k = &tri_keys[i];
      if (strncmp(k->name, "algo.", 5) != 0 || !strcmp(k->name, "algo.name")) continue;
      same_value(k->type, (const char *)&c + k->offset, (const char *)&grpo + k->offset);
    }
    tri_config_free(&c);
  }
  tri_config_free(&grpo);
}

/* Every option that is not listed is refused, at its default too, and whatever is listed is read. */
static void test_listed(void **state) {
  (void)state;
  for (int a = 0; tri_algo_at(a); a++)
    for (int i = 0; i < tri_n_keys; i++) {
      const tri_algo *algo = tri_algo_at(a);
      const tri_key  *k = &tri_keys[i];
      char            arg[128], name[64], message[512];
      if (strncmp(k->name, "algo.", 5) != 0 || !k->def) continue;
      snprintf(arg, sizeof arg, "%s=%s", k->name, k->def);
      snprintf(name, sizeof name, "%s", named(algo));
      snprintf(message, sizeof message, "argument '%s': %s means nothing to algo.name %s: remove it", arg,
               k->name, algo->name);
      if (reads(algo, k->name)) {
        tri_config c = good(deck_of(algo), ARGS(name, arg));
        tri_config_free(&c);
      } else {
        bad(deck_of(algo), ARGS(name, arg), message);
      }
    }
}

/* model.ref_path is for the KL term: an algorithm without one has no use for it, GRPO with kl_coef 0
 * neither. */
static void test_reference_policy(void **state) {
  (void)state;
  bad(GRPO, ARGS("model.ref_path=r"),
      "argument 'model.ref_path=r': model.ref_path means nothing with algo.kl_coef 0: remove it or "
      "give kl_coef");
  for (int a = 0; tri_algo_at(a); a++) {
    char name[64], message[256];
    if (reads(tri_algo_at(a), "algo.kl_coef")) continue;
    snprintf(name, sizeof name, "%s", named(tri_algo_at(a)));
    snprintf(message, sizeof message,
             "argument 'model.ref_path=r': model.ref_path means nothing to algo.name %s: remove it",
             tri_algo_at(a)->name);
    bad(deck_of(tri_algo_at(a)), ARGS(name, "model.ref_path=r"), message);
  }
}

/* Names in capitals, or some, are read and said; what is no name is answered with all of them. */
static void test_names(void **state) {
  char message[640];

  (void)state;
  for (int a = 0; tri_algo_at(a); a++)
    for (int all = 0; all < 2; all++) {
      const tri_algo *algo = tri_algo_at(a);
      char            name[32], arg[64], note[256];
      tri_text        notes = {0};
      tri_config      c;
      snprintf(name, sizeof name, "%s", algo->name);
      for (int i = 0; name[i] && (all || !i); i++) name[i] = (char)toupper((unsigned char)name[i]);
      snprintf(arg, sizeof arg, "algo.name=%s", name);
      snprintf(note, sizeof note, "argument '%s': %s is read as algo.name: %s\n", arg, name, algo->name);
      if (load(deck_of(algo), &c, &notes, ARGS(arg)) != TRI_OK) fail_msg("%s", tri_error_message());
      assert_ptr_equal(c.algo.row, algo);
      assert_string_equal(c.algo.name, algo->name);
      assert_string_equal(notes.data, note);
      tri_text_free(&notes);
      tri_config_free(&c);
    }
  snprintf(message, sizeof message, "argument 'algo.name=grpp': algo.name = grpp: must be %s; nearest: grpo",
           known_algos());
  bad(SFT, ARGS("algo.name=grpp"), message);
  snprintf(message, sizeof message, "argument 'algo.name=+-*': algo.name = +-*: must be %s", known_algos());
  bad(GRPO, ARGS("algo.name=+-*"), message);
  snprintf(message, sizeof message, "d.yaml: algo.name is missing: %s", known_algos());
  bad(SFT, ARGS("algo.name=null"), message);
}

/* The line of the reference deck that gives the key: ": default", or ": null" where GRPO must not give it. */
static void test_reference_gives(void **state) {
  tri_text t = {0}, line = {0};

  (void)state;
  assert_int_equal(tri_config_reference(&t), TRI_OK);
  for (int i = 0; i < tri_n_keys; i++) {
    const tri_key *k = &tri_keys[i];
    if (strncmp(k->name, "algo.", 5) != 0 || !strcmp(k->name, "algo.name")) continue;
    line.len = 0;
    assert_int_equal(tri_text_printf(&line, "\n  %s: %s\n", k->name + 5,
                                     k->def && reads(&tri_algo_grpo, k->name) ? k->def : "null"),
                     TRI_OK);
    if (!strstr(t.data, line.data)) fail_msg("the reference deck has no line '%s'", line.data + 1);
  }
  assert_non_null(strstr(t.data, "\n  completion_key: null\n"));
  tri_text_free(&line);
  tri_text_free(&t);
}

/* --options says so of a key that some algorithms do not read. */
static void test_help_says_whose(void **state) {
  tri_text help = {0};

  (void)state;
  assert_int_equal(tri_config_help(&help), TRI_OK);
  for (int i = 0; i < tri_n_keys; i++) {
    char name[80], line[512];
    bool all = true;
    if (strncmp(tri_keys[i].name, "algo.", 5) != 0 || !strcmp(tri_keys[i].name, "algo.name")) continue;
    for (int a = 0; tri_algo_at(a); a++) all = all && reads(tri_algo_at(a), tri_keys[i].name);
    snprintf(name, sizeof name, "  %s: ", tri_keys[i].name);
    const char *at = strstr(help.data, name);
    assert_non_null(at);
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    assert_true(all == (!strstr(line, "; only ") && !strstr(line, "; not ")));
  }
  tri_text_free(&help);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_options),         cmocka_unit_test(test_help_says_whose),
      cmocka_unit_test(test_defaults_of_all), cmocka_unit_test(test_listed),
      cmocka_unit_test(test_names),           cmocka_unit_test(test_reference_policy),
      cmocka_unit_test(test_reference_gives)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
