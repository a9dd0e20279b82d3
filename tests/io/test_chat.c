/* test_chat.c - conversations as text. Judges: transformers with the templates as models publish them; what
 * the contract says of templates that are not known. */
#include "chat_case.h"

enum { MOST = 8 };

static int read_talk(const json_t *talk, tri_chat_message m[MOST]) {
  static const char *const role[] = {"system", "user", "assistant"};
  const json_t            *v;
  size_t                   i;

  json_array_foreach(talk, i, v) {
    const json_t *content = json_object_get(v, "content");
    m[i] = (tri_chat_message){TRI_CHAT_SYSTEM, json_string_value(content), json_string_length(content)};
    while (strcmp(role[m[i].by], text_of(v, "role")) != 0) m[i].by++;
  }
  return (int)i;
}

static void expect_text(const tri_chat_text *t, const json_t *want, const json_t *behind, const char *name,
                        size_t i) {
  size_t      n = json_string_length(want), m = json_string_length(behind);
  const char *text = t->text.data;

  if (t->text.len != n + m || memcmp(text, json_string_value(want), n) ||
      (m && memcmp(text + n, json_string_value(behind), m)))
    fail_msg("%s, conversation %zu:\n%s\nnot\n%s%s", name, i, text, json_string_value(want),
             m ? json_string_value(behind) : "");
}

/* One conversation as text, with and without the generation prompt, or refused as the template refuses it. */
static void expect_case(const tri_chat *chat, const json_t *row, size_t i) {
  const json_t    *talk = json_array_get(json_object_get(golden, "talks"), i);
  const json_t    *want = json_array_get(json_object_get(row, "cases"), i);
  const char      *name = tri_chat_name(chat);
  const json_t    *whole = json_object_get(want, "whole"), *text = json_object_get(want, "text");
  tri_chat_message m[MOST];
  tri_chat_text    t = {.n_turn = 0};
  int              n = read_talk(talk, m), answers = 0;
  tri_status       st = tri_chat_render(chat, m, n, false, &t);
  bool             lone = n == 1 && m[0].by == TRI_CHAT_SYSTEM;

  if (json_object_get(want, "refused") || loses_system(row, talk) || (lone && st != TRI_OK)) {
    assert_int_equal(st, TRI_EINPUT);
    tri_error_clear();
    tri_chat_text_free(&t);
    return;
  }
  if (st != TRI_OK) fail_msg("%s, conversation %zu: %s", name, i, tri_error_message());
  expect_text(&t, text, NULL, name, i);
  for (int k = 0; k < n; k++) answers += m[k].by == TRI_CHAT_ASSISTANT;
  assert_int_equal(t.n_turn, answers);
  assert_int_equal(tri_chat_render(chat, m, n, true, &t), TRI_OK);
  expect_text(&t, whole ? whole : text, whole ? NULL : json_object_get(want, "prompt"), name, i);
  tri_chat_text_free(&t);
}

static void renders_as_transformers_does(void **state) {
  const json_t *row;
  size_t        i;
  char         *config;

  (void)state;
  json_array_foreach(templates(), i, row) {
    tri_chat *chat = open_own(row, &config);
    if (!tri_chat_name(chat)) fail_msg("%s is not recognised", text_of(row, "name"));
    assert_string_equal(tri_chat_name(chat), text_of(row, "name"));
    for (size_t k = 0; k < json_array_size(json_object_get(row, "cases")); k++) expect_case(chat, row, k);
    tri_chat_close(&chat);
    free(config);
  }
}

/* Each name, on a model without any file, means the row of that name, with its usual tokens. */
static void names_need_no_files(void **state) {
  static const char word[] = TRI_CHAT_WORDS;
  tri_chat_files    files = {.model = "m"};
  const json_t     *row;
  size_t            i;

  (void)state;
  json_array_foreach(templates(), i, row) {
    const char *name = text_of(row, "name"), *at = strstr(word, name), *own;
    if (strchr(name, ',')) continue; /* only a model's own is called so */
    int choice = 0;
    for (const char *p = word; p < at; p++) choice += *p == '|';
    tri_chat *chat;
    assert_int_equal(tri_chat_open((tri_chat_choice)choice, &files, true, &chat), TRI_OK);
    assert_string_equal(tri_chat_name(chat), name);
    own = text_of(json_object_get(row, "config"), "eos_token");
    for (size_t k = 0; k < json_array_size(json_object_get(row, "cases")); k++) expect_case(chat, row, k);
    assert_true(strstr("<|im_end|> <end_of_turn>", tri_chat_end(chat)) || !strcmp(tri_chat_end(chat), own));
    tri_chat_close(&chat);
  }
}

static void expect_unknown(const tri_chat_files *files, tri_chat_choice choice, const char *part) {
  tri_chat_message m = {TRI_CHAT_USER, "a", 1};
  tri_chat_text    t = {.n_turn = 0};
  tri_chat        *chat;

  assert_int_equal(tri_chat_open(choice, files, true, &chat), TRI_OK);
  assert_int_equal(tri_chat_render(chat, &m, 1, true, &t), TRI_EINPUT);
  if (!strstr(tri_error_message(), part)) fail_msg("`%s` does not say `%s`", tri_error_message(), part);
  if (choice == TRI_CHAT_AUTO)
    assert_non_null(strstr(tri_error_message(),
                           "data.chat_template: chatml|llama2|llama3|mistral|qwen2.5|qwen3|gemma|zephyr"));
  tri_error_clear();
  tri_chat_text_free(&t);
  tri_chat_close(&chat);
}

static void refuses_what_it_does_not_know(void **state) {
  static const struct {
    const char *config, *jinja, *part;
  } row[] = {
      {NULL, NULL, "m: brings no chat template; name one: "},
      {"{\"chat_template\": \"{{ messages }}\"}", NULL, "its tokenizer_config.json is none of those known"},
      {"{\"chat_template\": null}", NULL, "no chat template"},
      {"{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"x\"}]}", NULL, "none is the default"},
      {"{\"chat_template\": ", NULL, "its tokenizer_config.json is not JSON"},
      {"{\"chat_template\": \"x\"}", "y", "its chat_template.jinja is none of the chat templates known"},
  };
  tri_chat_files files = {.model = "m", .config = "{\"eos_token\": null}", .config_bytes = 19};

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    tri_chat_files f = {.model = "m",
                        .config = row[i].config,
                        .config_bytes = row[i].config ? strlen(row[i].config) : 0,
                        .jinja = row[i].jinja,
                        .jinja_bytes = row[i].jinja ? strlen(row[i].jinja) : 0};
    expect_unknown(&f, TRI_CHAT_AUTO, row[i].part);
  }
  expect_unknown(&files, TRI_CHAT_NONE, "data.chat_template: none");
  expect_unknown(&files, TRI_CHAT_ZEPHYR, "zephyr ends a turn with the end token");
}

/* The same template with other line ends, escapes and white space behind it; in a list; in a file of its own,
 * which goes before the other. */
static void recognises_what_means_the_same(void **state) {
  static const char chatml[] = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
                               "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if "
                               "add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}\r\n";
  tri_chat_files    files = {.model = "m", .jinja = chatml, .jinja_bytes = sizeof chatml - 1};
  const json_t     *qwen3 = NULL, *row;
  tri_chat         *chat;
  char             *text;
  size_t            i;

  (void)state;
  json_array_foreach(templates(), i, row) {
    if (!strcmp(text_of(row, "name"), "qwen3")) qwen3 = json_object_get(row, "config");
  }
  json_t *list = json_pack("{s[{ssss}{sssO}]}", "chat_template", "name", "tool_use", "template", "x", "name",
                           "default", "template", json_object_get(qwen3, "chat_template"));
  text = json_dumps(list, 0);
  files.config = text;
  files.config_bytes = strlen(text);
  assert_int_equal(tri_chat_open(TRI_CHAT_AUTO, &files, true, &chat), TRI_OK);
  assert_string_equal(tri_chat_name(chat), "chatml");
  tri_chat_close(&chat);
  files.jinja = NULL;
  assert_int_equal(tri_chat_open(TRI_CHAT_AUTO, &files, true, &chat), TRI_OK);
  assert_string_equal(tri_chat_name(chat), "qwen3");
  tri_chat_close(&chat);
  free(text);
  json_decref(list);
}

/* Each name's template for other programs: the golden's text, which transformers was given; known here. */
static void writes_what_transformers_was_given(void **state) {
  static const char odd[] = "{\"bos_token\": \"it's\\\\\\n\", \"eos_token\": \"</s>\"}";
  tri_chat_files    files = {.model = "m"};
  const json_t     *row;
  size_t            i;
  int               n = 0;
  bool              broken;
  tri_chat         *chat;
  tri_text          text = {0};

  (void)state;
  json_array_foreach(templates(), i, row) {
    const json_t   *written = json_object_get(row, "written"), *known = json_object_get(row, "config");
    tri_chat_choice choice = (tri_chat_choice)(TRI_CHAT_NONE + 1 + n);
    char           *config = json_dumps(known, 0);
    if (!written) free(config);
    if (!written) continue;
    files = (tri_chat_files){.model = "m", .config = config, .config_bytes = strlen(config)};
    assert_int_equal(tri_chat_open(choice, &files, true, &chat), TRI_OK);
    assert_string_equal(tri_chat_name(chat), text_of(row, "name"));
    text.len = 0;
    assert_int_equal(tri_chat_template(chat, &text), TRI_OK);
    assert_string_equal(text.data, json_string_value(written));
    tri_chat_close(&chat);
    files = (tri_chat_files){.model = "m", .jinja = text.data, .jinja_bytes = text.len};
    assert_true(tri_chat_brings(&files, &broken) && !broken);
    assert_int_equal(tri_chat_open(TRI_CHAT_AUTO, &files, true, &chat), TRI_OK);
    assert_non_null(tri_chat_name(chat));
    assert_string_equal(tri_chat_name(chat), text_of(row, "name"));
    tri_chat_close(&chat);
    free(config);
    n++;
  }
  assert_int_equal(n, TRI_CHAT_ZEPHYR - TRI_CHAT_NONE);
  files = (tri_chat_files){.model = "m", .config = "[1]", .config_bytes = 3};
  assert_true(!tri_chat_brings(&files, &broken) && broken);
  files = (tri_chat_files){.model = "m", .config = odd, .config_bytes = sizeof odd - 1};
  assert_true(!tri_chat_brings(&files, &broken) && !broken);
  assert_int_equal(tri_chat_open(TRI_CHAT_LLAMA3, &files, true, &chat), TRI_OK);
  text.len = 0;
  assert_int_equal(tri_chat_template(chat, &text), TRI_OK);
  assert_non_null(strstr(text.data, "{{ 'it\\'s\\\\\\n' }}"));
  tri_chat_close(&chat);
  files.config = NULL;
  assert_int_equal(tri_chat_open(TRI_CHAT_NONE, &files, true, &chat), TRI_OK);
  text.len = 0;
  assert_int_equal(tri_chat_template(chat, &text), TRI_OK);
  assert_int_equal(text.len, 0);
  tri_chat_close(&chat);
  tri_text_free(&text);
}

/* `more` behind the template of a row, or in its place of `at`: whether it is still recognised. */
static bool is_known(const char *name, const char *at, const char *more) {
  tri_chat_files files = {.model = "m"};
  tri_chat      *chat;
  char           text[16384];
  const json_t  *row;
  size_t         i;

  json_array_foreach(templates(), i, row) {
    if (strcmp(text_of(row, "name"), name) != 0) continue;
    const char *own = text_of(json_object_get(row, "config"), "chat_template"), *behind = "";
    int         before = (int)strlen(own);
    if (at) before = (int)(strstr(own, at) - own), behind = own + before + strlen(at);
    while (!at && strchr(" \n", own[before - 1])) before--;
    assert_true((size_t)snprintf(text, sizeof text, "%.*s%s%s", before, own, more, behind) < sizeof text);
  }
  files.jinja = text;
  files.jinja_bytes = strlen(text);
  assert_int_equal(tri_chat_open(TRI_CHAT_AUTO, &files, true, &chat), TRI_OK);
  bool known = tri_chat_name(chat) != NULL;
  tri_chat_close(&chat);
  return known;
}

/* White space behind the last tag, and line ends, as jinja2 with trim_blocks takes them. */
static void refuses_what_was_altered(void **state) {
  static const char *const same[] = {"", "\n", "\r\n", "\r", "\n\n"}, *const other[] = {
                                                                          " ",          "\t",  " \n",
                                                                          "\n\n\n",     "\n ", "\\n",
                                                                          "{{ '\\n' }}"};

  (void)state;
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) assert_true(is_known("chatml", NULL, same[i]));
  for (size_t i = 0; i < sizeof other / sizeof *other; i++)
    if (is_known("chatml", NULL, other[i])) fail_msg("with `%s` behind it it is another one", other[i]);
  assert_true(is_known("gemma", NULL, " \n\t\n")); /* -%} takes all of it */
  assert_false(is_known("gemma", NULL, " x"));
  assert_true(is_known("chatml", "'\\n'", "'\n'"));
  assert_true(is_known("chatml", "'\\n'", "'\r'"));
  assert_false(is_known("chatml", "'<|im_start|>'", "'\r<|im_start|>'"));
  assert_false(is_known("chatml", "'\\n'", "'\\\\n'"));
  assert_false(is_known("qwen2.5", "\n", "\\n")); /* between tags it is two letters */
}

/* Tokens that tokenizer_config.json names otherwise than is usual, as an object too. */
static void takes_the_models_own_tokens(void **state) {
  static const char config[] = "{\"bos_token\": {\"content\": \"<B>\"}, \"eos_token\": \"<E>\", "
                               "\"model_max_length\": 1000000000000000019884624838656}";
  tri_chat_files    files = {.model = "m", .config = config, .config_bytes = sizeof config - 1};
  tri_chat_message  m[] = {{TRI_CHAT_USER, "a", 1}, {TRI_CHAT_ASSISTANT, "b", 1}};
  tri_chat_text     t = {.n_turn = 0};
  tri_chat         *chat;

  (void)state;
  assert_int_equal(tri_chat_open(TRI_CHAT_LLAMA2, &files, true, &chat), TRI_OK);
  assert_int_equal(tri_chat_render(chat, m, 2, false, &t), TRI_OK);
  assert_string_equal(t.text.data, "<B>[INST] a [/INST] b <E>");
  assert_int_equal(t.turn[0].begin, strlen("<B>[INST] a [/INST]"));
  assert_int_equal(t.turn[0].end, t.text.len);
  assert_string_equal(tri_chat_end(chat), "<E>");
  tri_chat_text_free(&t);
  tri_chat_close(&chat);
}

/* Which of a conversation's messages is not to be seen. */
static void says_what_is_left_out(void **state) {
  tri_chat_files   files = {.model = "m"};
  tri_chat_message m[] = {{TRI_CHAT_SYSTEM, "s", 1}, {TRI_CHAT_USER, "a", 1}, {TRI_CHAT_ASSISTANT, "b", 1}};
  tri_chat_text    t = {.n_turn = 0};
  tri_chat        *chat;

  (void)state;
  assert_int_equal(tri_chat_open(TRI_CHAT_MISTRAL, &files, true, &chat), TRI_OK);
  assert_int_equal(tri_chat_render(chat, m, 3, false, &t), TRI_OK);
  assert_true(t.system_left_out);
  assert_int_equal(tri_chat_render(chat, m, 2, true, &t), TRI_OK);
  assert_false(t.system_left_out);
  assert_int_equal(tri_chat_render(chat, m, 0, true, &t), TRI_EINPUT);
  tri_error_clear();
  tri_chat_text_free(&t);
  tri_chat_close(&chat);
}

static int nothing_is_left(void **state) {
  close_golden(state);
  assert_int_equal(tri_host_bytes(), 0);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(renders_as_transformers_does),  cmocka_unit_test(names_need_no_files),
      cmocka_unit_test(refuses_what_it_does_not_know), cmocka_unit_test(recognises_what_means_the_same),
      cmocka_unit_test(refuses_what_was_altered),      cmocka_unit_test(takes_the_models_own_tokens),
      cmocka_unit_test(says_what_is_left_out),         cmocka_unit_test(writes_what_transformers_was_given)};

  return cmocka_run_group_tests(tests, open_golden, nothing_is_left);
}
