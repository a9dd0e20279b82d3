/* fuzz_jinja.c - a template (io/jinja), rendered with a conversation, tools and a few values of every
 * kind.
 *
 * A template that is refused or fails must give a message with the line. A rendered template must render the
 * same again. The text must be UTF-8 and within the contract's limit, and its spans must be inside it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz_case.h"
#include "io/jinja/jinja.h"

FUZZ_QUIET_START

/* JSON with ' instead of ". */
static char variables_text[] =
    "{'messages': [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user',"
    " 'content': '\\u00e9 <b>'},{'role': 'assistant', 'content': '<think>a</think>b',"
    " 'reasoning_content': 'c', 'tool_calls': [{'id': '1', 'type': 'function',"
    " 'function': {'name': 'f', 'arguments': {'x': 1.5, 'y': [null, true]}}}]},{'role': 'tool',"
    " 'name': 'f', 'content': '42'}, {'role': 'user', 'content': [{'type': 'text', 'text': 't'}]}],"
    " 'tools': [{'type': 'function', 'function': {'name': 'f', 'description': 'd',"
    " 'parameters': {'type': 'object', 'properties': {'x': {'type': 'number'}},"
    " 'required': ['x']}}}], 'add_generation_prompt': true,'bos_token': '<s>', 'eos_token': '</s>',"
    " 'enable_thinking': false, 'documents': null,'n': 3, 'neg': -7, 'f': 2.5, 's': 'abc', 'l': [3,"
    " 1, 2], 'd': {'a': 1, 'b': [1, 2]}}";

static json_t *load_variables(void) {
  for (char *p = variables_text; *p; p++)
    if (*p == '\'') *p = '"';
  return json_loads(variables_text, 0, NULL);
}

static void check_text(const tri_jinja_text *t) {
  FUZZ_CHECK(t->text.len <= 64 << 20 && fuzz_is_utf8(t->text.data, t->text.len));
  for (int64_t i = 0; i < t->n_span; i++)
    FUZZ_CHECK(t->span[i].begin <= t->span[i].end && t->span[i].end <= t->text.len);
}

static void check_message(void) { FUZZ_CHECK(!strncmp(tri_error_message(), "line ", 5)); }

static void render_twice(const tri_jinja *t, const json_t *variables) {
  tri_jinja_text first = {0}, second = {0};
  tri_status     st = tri_jinja_render(t, variables, "2026-11-29", &first);

  FUZZ_CHECK(st == TRI_OK || st == TRI_EINPUT);
  if (st == TRI_OK)
    check_text(&first);
  else
    check_message();
  if (first.text.len < 1 << 16) { /* the same call would take as long again */
    FUZZ_CHECK(tri_jinja_render(t, variables, "2026-11-29", &second) == st);
    FUZZ_CHECK(st != TRI_OK || (first.text.len == second.text.len && first.n_span == second.n_span));
    FUZZ_CHECK(st != TRI_OK || fuzz_same(first.text.data, second.text.data, first.text.len));
  }
  tri_jinja_text_free(&first);
  tri_jinja_text_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static json_t *variables;
  tri_jinja     *t;
  tri_status     st;

  if (!variables) FUZZ_CHECK((variables = load_variables()) != NULL);
  if (n > 1 << 16) return -1;
  fuzz_begin();
  st = tri_jinja_open((const char *)data, n, &t);
  FUZZ_CHECK(st == TRI_OK || st == TRI_EINPUT);
  if (st == TRI_OK)
    render_twice(t, variables);
  else
    check_message();
  tri_jinja_close(&t);
  fuzz_end();
  return 0;
}
