/* test_dataset_system.c - tests the system message that a deck puts before conversations without one. Judge:
 * the same lines with that message spelled out have the same tokens and masks, or the same refusal. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/error.h"
#include "dataset_case.h"
#include "refusal_case.h"

#define SYSTEM  "Be \"brief\".\n\xC3\xA9"
#define MESSAGE "{\"role\": \"system\", \"content\": \"Be \\\"brief\\\".\\n\\u00e9\"}"
#define USER    "{\"role\": \"user\", \"content\": \"hi\"}"
#define ANSWER  "{\"role\": \"assistant\", \"content\": \"yes\"}"
#define OTHER   "{\"role\": \"assistant\", \"content\": \"no\"}"

/* A line without the message, and with it. */
typedef struct both {
  tri_data_kind kind;
  bool          all, texts;
  const char   *bare, *spelled;
} both;

static const both lines[] = {
    {TRI_DATA_PROMPTS, false, false, "{\"messages\": [" USER "]}", "{\"messages\": [" MESSAGE ", " USER "]}"},
    {TRI_DATA_PROMPTS, false, false, "{\"prompt\": [" USER ", " ANSWER ", " USER "]}",
     "{\"prompt\": [" MESSAGE ", " USER ", " ANSWER ", " USER "]}"},
    {TRI_DATA_PROMPTS, false, true, "{\"prompt\": \"hi\"}", "{\"prompt\": [" MESSAGE ", " USER "]}"},
    {TRI_DATA_RL, false, true, "{\"prompt\": \"hi\", \"answer\": 1}",
     "{\"prompt\": [" MESSAGE ", " USER "], \"answer\": 1}"},
    {TRI_DATA_PROMPTS, false, false, "{\"prompt\": \"hi\"}", "{\"prompt\": \"hi\"}"}, /* no conversation */
    {TRI_DATA_PROMPTS, false, false,
     "{\"messages\": [{\"role\": \"system\", \"content\": \"own\"}, "
     "" USER "]}",
     "{\"messages\": [{\"role\": \"system\", \"content\": \"own\"}, " USER "]}"}, /* has a system message */
    {TRI_DATA_PROMPTS, false, false,
     "{\"messages\": [{\"role\": \"developer\", \"content\": \"own\"}, "
     "" USER "]}",
     "{\"messages\": [{\"role\": \"developer\", \"content\": \"own\"}, " USER "]}"},
    {TRI_DATA_SFT, false, false, "{\"messages\": [" USER ", " ANSWER ", " USER ", " OTHER "]}",
     "{\"messages\": [" MESSAGE ", " USER ", " ANSWER ", " USER ", " OTHER "]}"},
    {TRI_DATA_SFT, true, false, "{\"messages\": [" USER ", " ANSWER ", " USER ", " OTHER "]}",
     "{\"messages\": [" MESSAGE ", " USER ", " ANSWER ", " USER ", " OTHER "]}"},
    {TRI_DATA_SFT, false, true, "{\"prompt\": \"hi\", \"completion\": \"yes\"}",
     "{\"prompt\": [" MESSAGE ", " USER "], \"completion\": [" ANSWER "]}"},
    {TRI_DATA_PAIRS, false, false,
     "{\"prompt\": [" USER "], \"chosen\": [" ANSWER "], \"rejected\": "
     "[" OTHER "]}",
     "{\"prompt\": [" MESSAGE ", " USER "], \"chosen\": [" ANSWER "], \"rejected\": [" OTHER "]}"},
    {TRI_DATA_PAIRS, false, false,
     "{\"chosen\": [" USER ", " ANSWER "], \"rejected\": [" USER ", "
     "" OTHER "]}",
     "{\"chosen\": [" MESSAGE ", " USER ", " ANSWER "], \"rejected\": [" MESSAGE ", " USER ", " OTHER "]}"},
    {TRI_DATA_LABELLED, false, false,
     "{\"prompt\": [" USER "], \"completion\": [" ANSWER "], \"label\": "
     "true}",
     "{\"prompt\": [" MESSAGE ", " USER "], \"completion\": [" ANSWER "], \"label\": true}"}};

static tri_chat *open_chat(const char *name, const char *text, const char *system) {
  const tri_chat_files files = {.model = "m"};
  tri_chat_opt         opt = {.template = name, .system = system, .from_deck = true};
  tri_chat            *chat;

  if (text) opt.text = (tri_chat_bytes){text, strlen(text)};
  if (tri_chat_open(&opt, &files, &chat) != TRI_OK) fail_msg("%s", tri_error_message());
  return chat;
}

/* Returns NULL if the line is refused. */
static tri_dataset *open_line(const both *b, const char *line, const tri_chat *chat) {
  const char  *file[] = {path_a};
  tri_data_opt opt = options(b->kind);
  tri_dataset *d = NULL;

  opt.chat = (tri_data_chat){.form = chat, .all = b->all, .texts = b->texts};
  put_file(path_a, line, strlen(line));
  if (tri_dataset_open(file, 1, &opt, &d) == TRI_OK) return d;
  return NULL;
}

static void expect_same_row(const int32_t *a, int n_a, const int32_t *b, int n_b) {
  assert_int_equal(n_a, n_b);
  if (n_a) assert_memory_equal(a, b, (size_t)n_a * sizeof *a);
}

static void expect_same_mask(const uint8_t *a, const uint8_t *b, int n) {
  assert_int_equal(a != NULL, b != NULL);
  if (a) assert_memory_equal(a, b, (size_t)n);
}

static void expect_same(const tri_example *a, const tri_example *b) {
  expect_same_row(a->token, a->n_token, b->token, b->n_token);
  expect_same_row(a->rejected, a->n_rejected, b->rejected, b->n_rejected);
  expect_same_mask(a->skip, b->skip, a->n_token);
  expect_same_mask(a->rejected_skip, b->rejected_skip, a->n_rejected);
  assert_int_equal(a->n_prompt, b->n_prompt);
  assert_int_equal(a->prompt != NULL, b->prompt != NULL);
  if (a->prompt) assert_string_equal(a->prompt, b->prompt);
}

static void lines_are_as_if_spelled_out(void **state) {
  static const char *const name[] = {"chatml",  "llama2", "llama3", "mistral",
                                     "qwen2.5", "qwen3",  "gemma",  "zephyr"};
  int                      n_same = 0;

  (void)state;
  for (size_t k = 0; k < sizeof name / sizeof *name; k++) {
    tri_chat *plain = open_chat(name[k], NULL, NULL), *with = open_chat(name[k], NULL, SYSTEM);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
      tri_dataset *want = open_line(&lines[i], lines[i].spelled, plain),
                  *got = open_line(&lines[i], lines[i].bare, with);
      if (!want != !got) fail_msg("%s, line %zu: %s", name[k], i, tri_error_message());
      tri_error_clear();
      if (want) expect_same(tri_dataset_get(got, 0), tri_dataset_get(want, 0));
      n_same += want != NULL;
      tri_dataset_close(&want);
      tri_dataset_close(&got);
    }
    tri_chat_close(&plain);
    tri_chat_close(&with);
  }
  assert_true(n_same > 80); /* a few are refused alike, a developer, turns that cannot be found */
}

/* A prompt of the command line. */
static void a_text_is_as_if_spelled_out(void **state) {
  tri_chat     *plain = open_chat("chatml", NULL, NULL), *with = open_chat("chatml", NULL, SYSTEM);
  tri_chat_text got = {.n_turn = 0};
  tri_dataset  *want = open_line(&lines[2], lines[2].spelled, plain);

  (void)state;
  assert_int_equal(tri_chat_write_text(with, "hi", &got), TRI_OK);
  assert_string_equal(got.text.data, tri_dataset_get(want, 0)->prompt);
  tri_chat_text_free(&got);
  tri_dataset_close(&want);
  tri_chat_close(&plain);
  tri_chat_close(&with);
}

/* A refusal by a template names the deck's key, unless the line itself has the message. */
static void a_refusal_names_the_key(void **state) {
  static const char refuses[] = "{% if messages[0].role == 'system' %}{{ raise_exception('no system "
                                "here') }}{% endif %}"
                                "{% for m in messages %}{{ m.content }}{% endfor %}";
  tri_chat         *with = open_chat("t.jinja", refuses, SYSTEM);
  tri_chat_text     text = {.n_turn = 0};

  (void)state;
  assert_null(open_line(&lines[0], lines[0].bare, with));
  if (!refusal_is("a.jsonl:1 t.jinja 1 data.system_prompt") || !strstr(tri_error_message(), "no system here"))
    fail_msg("%s", tri_error_message());
  tri_error_clear();
  assert_null(open_line(&lines[0], lines[0].spelled, with));
  if (strstr(tri_error_message(), "data.system_prompt")) fail_msg("%s", tri_error_message());
  tri_error_clear();
  assert_int_equal(tri_chat_write_text(with, "hi", &text), TRI_EINPUT);
  expect_refusal("data.system_prompt");
  tri_error_clear();
  tri_chat_text_free(&text);
  tri_chat_close(&with);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(lines_are_as_if_spelled_out, setup, teardown),
      cmocka_unit_test_setup_teardown(a_text_is_as_if_spelled_out, setup, teardown),
      cmocka_unit_test_setup_teardown(a_refusal_names_the_key, setup, teardown)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
