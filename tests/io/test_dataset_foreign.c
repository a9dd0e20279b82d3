/* test_dataset_foreign.c - tests the cures for lines in formats of other programs, or of no use. Judge: the
 * cure, typed as it stands, gives lines that are accepted, and leaves good lines unchanged. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/error.h"
#include "dataset_conversation_case.h"

/* Gives a key of the cure, such as "data.prompt_key: query", to the options. */
static void take_key(tri_data_opt *opt, char *said) {
  const struct {
    const char  *name;
    const char **key;
  } row[] = {{"data.prompt_key: ", &opt->prompt_key},     {"data.completion_key: ", &opt->completion_key},
             {"data.answer_key: ", &opt->answer_key},     {"data.chosen_key: ", &opt->chosen_key},
             {"data.rejected_key: ", &opt->rejected_key}, {"data.label_key: ", &opt->label_key}};

  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (!strncmp(said, row[i].name, strlen(row[i].name))) {
      *row[i].key = said + strlen(row[i].name);
      said[strlen(row[i].name) + strcspn(*row[i].key, " ")] = 0;
    }
}

/* Runs the cure's command on the file if this machine has jq. Otherwise returns false. */
static bool run_command(const char *command) {
  static const char then[] = "\n  then data.train: ";
  char              line[4096];
  const char       *made = strstr(command, then);

  assert_non_null(made);
  if (system("command -v jq > /dev/null") != 0) return false; /* NOLINT: the tests' own command */
  snprintf(line, sizeof line, "%.*s && mv %s %s", (int)(made - command), command, made + strlen(then),
           path_b);
  assert_int_equal(system(line), 0); /* NOLINT: the command shown to users */
  return true;
}

#define FROM(who, text) "{\"from\":\"" who "\",\"value\":\"" text "\"}"
#define ROLE(who, text) "{\"role\":\"" who "\",\"content\":\"" text "\"}"
#define SHAREGPT        "[" FROM("human", "a") "," FROM("gpt", "b") "]"

/* A refused line gives its cure, and is accepted after it. Judge: the lines accepted by --check. */
static void foreign_lines_are_told_their_cure(void **state) {
  static const struct {
    tri_data_kind kind;
    const char   *line;
    bool          command; /* by jq, else by keys */
  } row[] = {
      {TRI_DATA_SFT, "{\"conversations\":" SHAREGPT "}", true},
      {TRI_DATA_SFT, "{\"system\":\"s\",\"messages\":" SHAREGPT "}", true},
      {TRI_DATA_SFT, "{\"messages\":[" ROLE("human", "a") "," ROLE("gpt", "b") "]}", true},
      {TRI_DATA_SFT, "{\"prompt\":[" U("a") "],\"completion\":[" ROLE("gpt", "b") "]}", true},
      {TRI_DATA_PAIRS,
       "{\"prompt\":[" U("a") "],\"chosen\":[" ROLE("gpt", "b") "],\"rejected\":[" ROLE("gpt", "c") "]}",
       true},
      {TRI_DATA_LABELLED, "{\"conversations\":" SHAREGPT ",\"label\":true}", true},
      {TRI_DATA_RL, "{\"conversations\":" SHAREGPT "}", true},
      {TRI_DATA_PAIRS,
       "{\"conversations\":[" FROM("human", "a") "],\"chosen\":" FROM("gpt", "b") ",\"rejected\":" FROM(
           "gpt", "c") "}",
       true},
      {TRI_DATA_SFT, "{\"instruction\":\"a\",\"input\":\"b\",\"output\":\"c\"}", true},
      {TRI_DATA_SFT,
       "{\"instruction\":\"a\",\"input\":\"\",\"output\":\"c\",\"system\":\"s\",\"history\":[[\"d\",\"e\"]]}",
       true},
      {TRI_DATA_SFT, "{\"instruction\":\"a\",\"context\":\"b\",\"response\":\"c\"}", true},
      {TRI_DATA_SFT, "{\"instruction\":\"a\",\"output\":\"c\",\"system\":\"s\"}", true},
      {TRI_DATA_RL, "{\"instruction\":\"a\",\"input\":\"b\",\"output\":\"c\"}", true},
      {TRI_DATA_PAIRS, "{\"instruction\":\"a\",\"input\":\"b\",\"chosen\":\"c\",\"rejected\":\"d\"}", true},
      {TRI_DATA_LABELLED, "{\"instruction\":\"a\",\"input\":\"b\",\"output\":\"c\",\"kto_tag\":true}", true},
      {TRI_DATA_PAIRS,
       "{\"chosen\":\"\\n\\nHuman: a\\n\\nAssistant: b\",\"rejected\":\"\\n\\nHuman: a\\n\\nAssistant: c\"}",
       true},
      {TRI_DATA_LABELLED, "{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"c\"}", true},
      {TRI_DATA_LABELLED, "{\"chosen\":[" U("a") "," A("b") "],\"rejected\":[" U("a") "," A("c") "]}", true},
      {TRI_DATA_RL, "{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"c\"}", true},
      {TRI_DATA_RL, "{\"chosen\":[" U("a") "," A("b") "],\"rejected\":[" U("a") "," A("c") "]}", true},
      {TRI_DATA_RL, "{\"conversation\":[" U("a") "," A("b") "]}", true},
      {TRI_DATA_RL, "{\"prompt\":[" ROLE("human", "a") "],\"answer\":\"b\"}", true},
      {TRI_DATA_PROMPTS,
       "{\"messages\":[" ROLE("human", "a") "," ROLE("gpt", "b") "," ROLE("human", "c") "]}", true},
      {TRI_DATA_RL, "{\"question\":[" U("a") "],\"solution\":\"5\"}", false},
      {TRI_DATA_PROMPTS, "{\"body\":{\"messages\":[" U("a") "]}}", false},
      {TRI_DATA_SFT, "{\"conversation\":[" U("a") "," A("b") "]}", false},
      {TRI_DATA_SCORE, "{\"body\":{\"messages\":[" U("a") "," A("b") "]}}", false},
      {TRI_DATA_SFT, "{\"query\":\"a\",\"response\":\"b\"}", false},
      {TRI_DATA_SFT, "{\"prompt\":\"a\",\"response\":\"b\"}", false},
      {TRI_DATA_SFT, "{\"instruction\":\"a\",\"output\":\"b\"}", false},
      {TRI_DATA_SFT, "{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"c\"}", false},
      {TRI_DATA_SFT, "{\"chosen\":[" U("a") "," A("b") "],\"rejected\":[" U("a") "," A("c") "]}", false},
      {TRI_DATA_SCORE, "{\"chosen\":[" U("a") "," A("b") "],\"rejected\":[" U("a") "," A("c") "]}", false},
      {TRI_DATA_LABELLED, "{\"question\":\"a\",\"answer\":\"b\",\"kto_tag\":false}", false},
      {TRI_DATA_PAIRS, "{\"question\":\"a\",\"accepted\":\"b\",\"dispreferred\":\"c\"}", false},
  };
  tri_chat *chat = open_form("chatml");

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char         quoted[sizeof path_a + 16], said[8192], *at;
    const char  *file[] = {quoted};
    tri_data_opt opt = options(row[i].kind);
    tri_dataset *d;
    opt.chat.form = chat;
    opt.file_key = "data.train";
    snprintf(quoted, sizeof quoted, "%s it's.jsonl", path_a);
    put_file(quoted, row[i].line, strlen(row[i].line));
    tri_error_clear();
    assert_int_equal(tri_dataset_open(file, 1, &opt, &d), TRI_EINPUT);
    snprintf(said, sizeof said, "%s", tri_error_message());
    at = strstr(said, "\n  jq -c ");
    if (row[i].command != (at != NULL)) fail_msg("%s: `%s`", row[i].line, said);
    if (at && !run_command(at + 1)) continue;
    if (at) file[0] = path_b;
    at = at ? NULL : strrchr(said, ';');
    for (at = at ? strtok(at, ",;") : NULL; at; at = strtok(NULL, ","))
      if (strstr(at, "data.")) take_key(&opt, strstr(at, "data."));
    tri_error_clear();
    if (tri_dataset_open(file, 1, &opt, &d) != TRI_OK)
      fail_msg("%s: `%s`, then `%s`", row[i].line, said, tri_error_message());
    tri_dataset_close(&d);
    assert_int_equal(unlink(quoted), 0);
  }
  tri_chat_close(&chat);
}

/* A cure is for the whole file. Good lines stay as they are, and nothing of the others is lost. Judge: the
 * contents of each line, by hand. */
static void cures_keep_other_lines(void **state) {
#define ASKED(answer)  "{\"prompt\":\"a\",\"answer\":" answer "}\n"
#define LABEL(label)   "{\"prompt\":\"a\",\"completion\":\"b\",\"label\":" label "}\n"
#define TOLD(messages) "{\"messages\":[" messages "]}\n"
  static const struct {
    tri_data_kind kind;
    const char   *before, *after;
  } row[] = {
      {TRI_DATA_RL, ASKED("\"c\"") ASKED("[\"d\",\"e\"]"), ASKED("\"c\"") ASKED("\"d\"")},
      {TRI_DATA_RL, ASKED("5") ASKED("true") ASKED("null"), ASKED("5") ASKED("\"true\"") ASKED("null")},
      {TRI_DATA_LABELLED, LABEL("true") LABEL("2") LABEL("-1") LABEL("0"),
       LABEL("true") LABEL("true") LABEL("false") LABEL("false")},
      {TRI_DATA_LABELLED, LABEL("true") LABEL("1") LABEL("\"False\"") LABEL("\"1\"") LABEL("\"good\""),
       LABEL("true") LABEL("true") LABEL("false") LABEL("true") LABEL("\"good\"")},
      {TRI_DATA_SFT, "{\"conversations\":" SHAREGPT "}\n{\"system\":\"s\",\"conversations\":" SHAREGPT "}\n",
       TOLD(U("a") "," A("b")) "{\"messages\":[" S("s") "," U("a") "," A("b") "],\"system\":\"s\"}\n"},
#define SIDES(chosen, rejected) "{\"chosen\":\"" chosen "\",\"rejected\":\"" rejected "\"}\n"
#define HUMAN                   "\\n\\nHuman: "
#define ASSISTANT               "\\n\\nAssistant:"
#define PAIR(prompt, chosen, rejected)                                                                       \
  "{\"prompt\":\"" prompt "\",\"chosen\":\"" chosen "\",\"rejected\":\"" rejected "\"}\n"
      {TRI_DATA_PAIRS, /* sides that differ before their last answers keep their own answers */
       SIDES(HUMAN "a" ASSISTANT " b" HUMAN "c" ASSISTANT " d",
             HUMAN "a" ASSISTANT " b" HUMAN "c" ASSISTANT " e")
           SIDES(HUMAN "a" ASSISTANT " b" HUMAN "c" ASSISTANT " d",
                 HUMAN "a" ASSISTANT " e" HUMAN "f" ASSISTANT " g")
               SIDES(HUMAN "a" ASSISTANT " b", HUMAN "c" ASSISTANT " d"),
       PAIR(HUMAN "a" ASSISTANT " b" HUMAN "c" ASSISTANT, " d", " e")
           PAIR(HUMAN "a" ASSISTANT, " b" HUMAN "c" ASSISTANT " d", " e" HUMAN "f" ASSISTANT " g")},
  };
  tri_chat *chat = open_form("chatml");

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const char  *file[] = {path_a};
    tri_data_opt opt = options(row[i].kind);
    tri_dataset *d;
    char         got[4096], *at;
    size_t       n;
    FILE        *f;
    opt.chat.form = chat;
    opt.file_key = "data.train";
    put_file(path_a, row[i].before, strlen(row[i].before));
    tri_error_clear();
    assert_int_equal(tri_dataset_open(file, 1, &opt, &d), TRI_EINPUT);
    snprintf(got, sizeof got, "%s", tri_error_message());
    at = strstr(got, "jq -c ");
    if (!at) fail_msg("%s: `%s`", row[i].before, got);
    if (!run_command(at)) break;
    f = fopen(path_b, "r");
    assert_non_null(f);
    n = fread(got, 1, sizeof got - 1, f);
    fclose(f);
    got[n] = 0;
    assert_string_equal(got, row[i].after);
  }
  tri_chat_close(&chat);
}

/* Two files have fields of different names. The cure renames the fields of the refused file, because a key of
 * the deck would break the other file. Judge: both files are accepted after the cure, typed as it stands. */
static void a_cure_breaks_no_other_file(void **state) {
  static const struct {
    tri_data_kind kind;
    const char   *good, *odd;
    const char   *prompt_key, *answer_key; /* NULL: the default */
  } row[] = {
      {TRI_DATA_RL, ASKED("\"b\""), "{\"question\":\"a\",\"solution\":\"5\"}\n", NULL, NULL},
      {TRI_DATA_RL, ASKED("\"b\""), "{\"prompt\":\"a\",\"solution\":\"5\"}\n", NULL, NULL},
      {TRI_DATA_RL, "{\"question\":\"a\",\"x\":{\"truth\":\"5\"}}\n", ASKED("\"b\""), "question", "x.truth"},
      {TRI_DATA_RL, ASKED("\"b\""), "{\"question\":[" U("a") "],\"solution\":\"5\"}\n", NULL, NULL},
      {TRI_DATA_RL, ASKED("\"b\""), "{\"conversation\":[" U("a") "," A("b") "]}\n", NULL, NULL},
      {TRI_DATA_SFT, "{\"prompt\":\"a\",\"completion\":\"b\"}\n", "{\"query\":\"a\",\"response\":\"b\"}\n",
       NULL, NULL},
      {TRI_DATA_SFT, "{\"prompt\":\"a\",\"completion\":\"b\"}\n",
       "{\"conversation\":[" U("a") "," A("b") "]}\n", NULL, NULL},
      {TRI_DATA_SFT, "{\"prompt\":\"a\",\"completion\":\"b\"}\n",
       "{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"c\"}\n", NULL, NULL},
      {TRI_DATA_PAIRS, PAIR("a", "b", "c"),
       "{\"question\":\"a\",\"accepted\":\"b\",\"dispreferred\":\"c\"}\n", NULL, NULL},
      {TRI_DATA_LABELLED, LABEL("true"), "{\"question\":\"a\",\"answer\":\"b\",\"kto_tag\":false}\n", NULL,
       NULL},
  };
  enum { WITH_ODD_SECOND, WITH_ODD_FIRST, ODD_ALONE, IN_ONE_FILE, WAYS };
  tri_chat *chat = open_form("chatml");
  char      other[sizeof path_a + 16];

  (void)state;
  snprintf(other, sizeof other, "%s.other", path_a);
  for (size_t i = 0; i < WAYS * (sizeof row / sizeof *row); i++) {
    const size_t at = i / WAYS, way = i % WAYS;
    const char  *file[] = {other, path_a}, *beside[] = {other}, *names = NULL;
    int          odd = way == WITH_ODD_SECOND, n = way == ODD_ALONE || way == IN_ONE_FILE ? 1 : 2;
    char         both[512], said[8192], *command;
    tri_data_opt opt = options(row[at].kind);
    tri_dataset *d;
    opt.chat.form = chat;
    opt.prompt_key = row[at].prompt_key;
    opt.answer_key = row[at].answer_key;
    if (!odd) file[0] = path_a, file[1] = other;
    if (way == ODD_ALONE) opt.beside = beside, opt.n_beside = 1; /* as data.train beside data.eval */
    snprintf(both, sizeof both, "%s%s", way == IN_ONE_FILE ? row[at].good : "", row[at].odd);
    put_file(other, row[at].good, strlen(row[at].good));
    put_file(path_a, both, strlen(both));
    tri_error_clear();
    assert_int_equal(tri_dataset_open(file, n, &opt, &d), TRI_EINPUT);
    snprintf(said, sizeof said, "%s", tri_error_message());
    assert_true(tells(said, "a.jsonl:"));
    command = strstr(said, "\n  jq -c ");
    if (!command) fail_msg("%s in way %zu: `%s`", row[at].odd, way, said);
    *strstr(command + 1, "\n") = 0;
    if (system("command -v jq > /dev/null") != 0) break; /* NOLINT: the tests' own command */
    assert_int_equal(system(command), 0);                /* NOLINT: the command shown to users */
    names = strstr(command, " > ");
    assert_non_null(names);
    assert_int_equal(rename(names + 3, path_b), 0);
    file[odd] = path_b;
    tri_error_clear();
    if (tri_dataset_open(file, n, &opt, &d) != TRI_OK)
      fail_msg("%s in way %zu: `%s`, then `%s`", row[at].odd, way, said, tri_error_message());
    tri_dataset_close(&d);
    file[0] = other; /* the other file needs the same keys */
    if (tri_dataset_open(file, 1, &opt, &d) != TRI_OK) fail_msg("`%s`", tri_error_message());
    tri_dataset_close(&d);
  }
  assert_int_equal(unlink(other), 0);
  tri_chat_close(&chat);
}

/* A command's cures name only flags that it has. */
static void only_flags_of_the_command_are_named(void **state) {
  static const char        line[] = "{\"question\":\"a\",\"solution\":\"5\"}\n";
  static const char *const asking[] = {"--prompt-key", NULL}, *const both[] = {"--prompt-key",
                                                                               "--completion-key", NULL};
  static const char *const *const flags[] = {NULL, asking, both};

  (void)state;
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    tri_data_opt opt = options(TRI_DATA_SFT);
    tri_dataset *d;
    const char  *file[] = {path_a};
    opt.from_deck = false;
    opt.flags = flags[i];
    put_file(path_a, line, strlen(line));
    tri_error_clear();
    assert_int_equal(tri_dataset_open(file, 1, &opt, &d), TRI_EINPUT);
    assert_int_equal(tells(tri_error_message(), "--prompt-key question"), i == 2);
    assert_int_equal(tells(tri_error_message(), "--completion-key solution"), i == 2);
    assert_int_equal(tells(tri_error_message(), ".completion = .solution"), i < 2);
    assert_null(strstr(tri_error_message(), "data."));
  }
}

/* Where all files have the same other names, the deck's keys are the cure. */
static void equal_names_are_cured_by_keys(void **state) {
  static const char line[] = "{\"question\":\"a\",\"solution\":\"5\"}\n";
  tri_data_opt      opt = options(TRI_DATA_RL);
  const char       *file[] = {path_a, path_b};
  tri_dataset      *d;

  (void)state;
  put_file(path_a, line, strlen(line));
  put_file(path_b, line, strlen(line));
  tri_error_clear();
  assert_int_equal(tri_dataset_open(file, 2, &opt, &d), TRI_EINPUT);
  assert_true(tells(tri_error_message(), "data.prompt_key: question"));
  assert_true(tells(tri_error_message(), "data.answer_key: solution"));
  assert_null(strstr(tri_error_message(), "jq"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(foreign_lines_are_told_their_cure, setup, teardown),
      cmocka_unit_test_setup_teardown(cures_keep_other_lines, setup, teardown),
      cmocka_unit_test_setup_teardown(a_cure_breaks_no_other_file, setup, teardown),
      cmocka_unit_test_setup_teardown(equal_names_are_cured_by_keys, setup, teardown),
      cmocka_unit_test_setup_teardown(only_flags_of_the_command_are_named, setup, teardown),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
