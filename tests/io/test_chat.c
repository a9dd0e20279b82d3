/* test_chat.c - conversations as text. Judges: transformers 5.24 with templates published with models
 * (tests/data/chat), the contract for models without a template, and values worked out by hand. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/text_buffer.h"
#include "chat_case.h"

#include "base/hash.h"
#include "refusal_case.h"

static tri_chat *open_with(const char *template, const tri_chat_files *files) {
  tri_chat_opt opt = {.template = template, .from_deck = true, .date = "2026-11-29"};
  tri_chat    *chat;

  if (tri_chat_open(&opt, files, &chat) != TRI_OK) fail_msg("%s", tri_error_message());
  return chat;
}

/* ---- as transformers writes ---- */

static void expect_text(const tri_chat_text *t, const json_t *want, const json_t *behind, const char *name,
                        size_t i) {
  size_t      n = json_string_length(want), m = json_string_length(behind);
  const char *text = t->text.data;

  if (t->text.len != n + m || (n && memcmp(text, json_string_value(want), n)) ||
      (m && memcmp(text + n, json_string_value(behind), m)))
    fail_msg("%s, conversation %zu:\n%s\nnot\n%s%s", name, i, text ? text : "", json_string_value(want),
             m ? json_string_value(behind) : "");
}

/* Compares one conversation as text, with and without the generation prompt. If the template refuses it, so
 * must ours. */
static void expect_case(const tri_chat *chat, const json_t *row, size_t i, bool named) {
  const json_t         *list = json_array_get(json_object_get(golden, "talks"), i);
  const json_t         *want = json_array_get(json_object_get(row, "cases"), i);
  const json_t         *whole = json_object_get(want, "whole"), *text = json_object_get(want, "text");
  const char           *name = text_of(row, "name");
  tri_chat_conversation conversation = {.messages = list};
  tri_chat_text         t = {.n_turn = 0};
  tri_status            st = tri_chat_write(chat, &conversation, false, &t);
  bool lone = json_array_size(list) == 1 && !strcmp(text_of(json_array_get(list, 0), "role"), "system");

  if (json_object_get(want, "refused") || (named && (loses_system(row, list) || (lone && st != TRI_OK)))) {
    assert_int_equal(st, TRI_EINPUT);
    tri_error_clear();
    tri_chat_text_free(&t);
    return;
  }
  if (st != TRI_OK) fail_msg("%s, conversation %zu: %s", name, i, tri_error_message());
  expect_text(&t, text, NULL, name, i);
  if (strcmp(text_of(json_array_get(list, json_array_size(list) - 1), "role"), "assistant")) {
    assert_int_equal(tri_chat_write(chat, &conversation, true, &t), TRI_OK);
    expect_text(&t, whole ? whole : text, whole ? NULL : json_object_get(want, "prompt"), name, i);
  }
  tri_chat_text_free(&t);
}

static void writes_as_transformers_does(void **state) {
  const json_t *row;
  size_t        i;
  char         *config;

  (void)state;
  json_array_foreach(templates(), i, row) {
    tri_chat *chat = open_own(row, false, &config);
    assert_string_equal(tri_chat_name(chat), "of tokenizer_config.json");
    for (size_t k = 0; k < json_array_size(json_object_get(row, "cases")); k++)
      expect_case(chat, row, k, false);
    tri_chat_close(&chat);
    free(config);
  }
}

/* On a model without files, each name writes the same as the published template of that name, with its usual
 * tokens. */
static void names_need_no_files(void **state) {
  tri_chat_files files = {.model = "m"};
  const json_t  *row;
  size_t         i;
  int            n = 0;

  (void)state;
  json_array_foreach(templates(), i, row) {
    const char *name = text_of(row, "name"), *own = text_of(json_object_get(row, "config"), "eos_token");
    if (strchr(name, ',')) continue; /* only a model's own template */
    assert_true(tri_chat_is_word(name));
    tri_chat *chat = open_with(name, &files);
    assert_string_equal(tri_chat_name(chat), name);
    for (size_t k = 0; k < json_array_size(json_object_get(row, "cases")); k++)
      expect_case(chat, row, k, true);
    assert_true(strstr("<|im_end|> <end_of_turn>", tri_chat_end(chat)) || !strcmp(tri_chat_end(chat), own));
    tri_chat_close(&chat);
    n++;
  }
  assert_int_equal(n, 8);
}

/* ---- TRL's folder ---- */

static json_t *folder;

static void expect_hash(const tri_chat_text *t, tri_status st, const json_t *want, const char *name, size_t i,
                        const char *what) {
  char hash[32] = "refused";

  if (st == TRI_OK)
    snprintf(hash, sizeof hash, "%016llx",
             (unsigned long long)tri_hash64(t->text.len ? t->text.data : "", t->text.len, 0));
  if (strcmp(hash, json_is_null(want) ? "refused" : json_string_value(want)))
    fail_msg("%s, conversation %zu, %s: %s, not %s: %s", name, i, what, hash,
             json_is_null(want) ? "refused" : json_string_value(want),
             st == TRI_OK ? t->text.data : tri_error_message());
  tri_error_clear();
}

/* Returns messages as the reader of a line passes them on. */
static json_t *passed_on(const json_t *messages) {
  json_t       *list = json_array(), *one;
  const json_t *m;
  size_t        i;

  json_array_foreach(messages, i, m) {
    assert_int_equal(tri_chat_message(m, &one), TRI_OK);
    json_array_append_new(list, one);
  }
  return list;
}

/* Compares the marked spans of all turns. */
static void expect_spans(const tri_chat_text *t, const json_t *want, const char *name, size_t i) {
  assert_int_equal(t->n_turn, json_array_size(want));
  for (int64_t k = 0; k < t->n_turn; k++) {
    const json_t *span = json_array_get(want, (size_t)k);
    if ((json_int_t)t->turn[k].begin != json_integer_value(json_array_get(span, 0)) ||
        (json_int_t)t->turn[k].end != json_integer_value(json_array_get(span, 1)))
      fail_msg("%s, conversation %zu: piece %lld is %zu .. %zu", name, i, (long long)k, t->turn[k].begin,
               t->turn[k].end);
  }
}

static void expect_folder_case(const tri_chat *chat, const json_t *row, size_t i) {
  const json_t         *case_ = json_array_get(json_object_get(row, "cases"), i);
  const json_t         *line = json_array_get(json_object_get(folder, "talks"), i);
  const json_t         *spans = json_array_get(json_object_get(row, "spans"), i);
  json_t               *messages = passed_on(json_object_get(line, "messages"));
  tri_chat_conversation conversation = {messages, json_object_get(line, "tools"),
                                        json_object_get(line, "kwargs")};
  tri_chat_text         t = {.n_turn = 0};
  const char           *name = text_of(row, "name");

  expect_hash(&t, tri_chat_write(chat, &conversation, false, &t), json_array_get(case_, 0), name, i, "whole");
  expect_hash(&t, tri_chat_write(chat, &conversation, true, &t), json_array_get(case_, 1), name, i,
              "as a prompt");
  if (json_is_array(spans)) {
    assert_int_equal(tri_chat_learned(chat, &conversation, true, &t), TRI_OK);
    if (t.n_turn || json_array_size(spans)) expect_spans(&t, spans, name, i);
  }
  tri_chat_text_free(&t);
  json_decref(messages);
}

static void writes_all_of_a_folder(void **state) {
  const json_t *row;
  size_t        i;
  char         *tokens;

  (void)state;
  folder = read_json(TRI_TEST_DATA "/chat/folder.json");
  tokens = json_dumps(json_object_get(folder, "tokens"), 0);
  json_array_foreach(json_object_get(folder, "templates"), i, row) {
    tri_chat_files files = {.model = "m", .config = {tokens, strlen(tokens)}};
    char           path[256];
    snprintf(path, sizeof path, "%s/chat/templates/%s.jinja", TRI_TEST_DATA, text_of(row, "name"));
    tri_chat *chat =
        open_with(json_is_true(json_object_get(row, "form")) ? text_of(row, "name") : path, &files);
    for (size_t k = 0; k < json_array_size(json_object_get(folder, "talks")); k++)
      expect_folder_case(chat, row, k);
    tri_chat_close(&chat);
  }
  free(tokens);
  json_decref(folder);
}

/* ---- a model's own files ---- */

static void expect_refused(const tri_chat_files *files, const char *template, const char *part) {
  tri_chat_text t = {.n_turn = 0};
  tri_chat     *chat = open_with(template, files);

  assert_null(tri_chat_name(chat));
  assert_int_equal(tri_chat_write_text(chat, "a", &t), TRI_EINPUT);
  expect_refusal(part);
  if (!strcmp(template, "auto"))
    expect_refusal("tri_chat_run() data.chat_template "
                   "chatml|llama2|llama3|mistral|qwen2.5|qwen3|gemma|zephyr|FILE.jinja");
  tri_error_clear();
  tri_chat_text_free(&t);
  tri_chat_close(&chat);
}

static tri_chat_bytes bytes_of(const char *text) { return (tri_chat_bytes){text, text ? strlen(text) : 0}; }

static void says_what_is_missing(void **state) {
  static const struct {
    const char *config, *jinja, *part;
  } row[] = {
      {NULL, NULL, "tri_chat_run() m: data.chat_template: chatml|"},
      {"{\"chat_template\": null}", NULL, "tri_chat_run() m: data.chat_template: chatml|"},
      {"{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"x\"}]}", NULL,
       "tri_chat_run() m: data.chat_template: chatml|"},
      {"{\"chat_template\": ", NULL, "tri_chat_run() m: tokenizer_config.json"},
      {"{\"chat_template\": \"x\"}", "{% if %}", "tri_chat_run() chat_template.jinja 1 data.chat_template"},
      {"{\"chat_template\": \"\\n{{\"}", NULL, "tri_chat_run() tokenizer_config.json 2 data.chat_template"},
  };
  tri_chat_files files = {.model = "m", .config = bytes_of("{\"eos_token\": null}")};

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    tri_chat_files f = {.model = "m", .config = bytes_of(row[i].config), .jinja = bytes_of(row[i].jinja)};
    expect_refused(&f, "auto", row[i].part);
  }
  expect_refused(&files, "none", "data.chat_template: none");
  expect_refused(&files, "zephyr", "tri_chat_run() tokenizer_config.json eos_token data.chat_template");
}

static void expect_written(const tri_chat *chat, const char *messages, const char *tools, bool prompt,
                           const char *want) {
  json_t               *m = json_loads(messages, 0, NULL), *k = tools ? json_loads(tools, 0, NULL) : NULL;
  tri_chat_conversation conversation = {.messages = m, .tools = k};
  tri_chat_text         t = {.n_turn = 0};

  assert_non_null(m);
  if (tri_chat_write(chat, &conversation, prompt, &t) != TRI_OK) fail_msg("%s", tri_error_message());
  if (t.text.len != strlen(want) || memcmp(t.text.data, want, t.text.len))
    fail_msg("`%s`, not `%s`", t.text.data, want);
  tri_chat_text_free(&t);
  json_decref(m);
  json_decref(k);
}

#define ASK "[{\"role\": \"user\", \"content\": \"q\"}]"

/* A file overrides the list of named templates. With tools, the template for tools is used. */
static void takes_the_right_one_of_several(void **state) {
  static const char list[] =
      "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"T{{ tools | length }}\"}, "
      "{\"name\": \"default\", \"template\": \"D\"}]}";
  tri_chat_files files = {.model = "m", .config = bytes_of(list)};
  tri_chat      *chat = open_with("auto", &files);

  (void)state;
  expect_written(chat, ASK, NULL, true, "D");
  expect_written(chat, ASK, "[{}, {}]", true, "T2");
  assert_true(tri_chat_reads_tools(chat));
  tri_chat_close(&chat);
  files.jinja = bytes_of("J");
  chat = open_with("auto", &files);
  expect_written(chat, ASK, "[{}]", true, "J");
  assert_false(tri_chat_reads_tools(chat));
  tri_chat_close(&chat);
  files.tool_use = bytes_of("F");
  chat = open_with("auto", &files);
  expect_written(chat, ASK, NULL, true, "J");
  expect_written(chat, ASK, "[{}]", true, "F");
  tri_chat_close(&chat);
}

/* Takes all tokens named in tokenizer_config.json, also as objects, and others from special_tokens_map.json.
 * Many models have a number beyond 64 bits there. */
static void takes_the_models_own_tokens(void **state) {
  static const char config[] = "{\"bos_token\": {\"content\": \"<B>\"}, \"eos_token\": \"<E>\", "
                               "\"model_max_length\": 1000000000000000019884624838656, \"pad_token\": null, "
                               "\"image_token\": \"<I>\", \"extra_special_tokens\": {\"x_token\": \"<X>\", "
                               "\"other\": {\"content\": \"<O>\"}}}";
  tri_chat_files    files = {.model = "m",
                             .config = bytes_of(config),
                             .map = bytes_of("{\"unk_token\": \"<U>\", \"eos_token\": \"<no>\"}"),
                             .jinja =
                                 bytes_of("{{ bos_token ~ eos_token ~ unk_token ~ pad_token ~ image_token ~ "
                                             "x_token ~ other }}")};
  tri_chat         *chat = open_with("auto", &files);

  (void)state;
  expect_written(chat, ASK, NULL, true, "<B><E><U><I><X><O>");
  tri_chat_close(&chat);
  chat = open_with("llama2", &files);
  expect_written(chat,
                 "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]",
                 NULL, false, "<B>[INST] a [/INST] b <E>");
  assert_string_equal(tri_chat_end(chat), "<E>");
  tri_chat_close(&chat);
}

/* ---- variables, tools, days ---- */

static void takes_variables_and_tools(void **state) {
  tri_chat_files files = {
      .model = "m",
      .jinja =
          bytes_of("{{ a }}|{{ b }}|{{ c }}|{{ tools }}|{{ documents }}|{{ strftime_now('%d.%m.%Y') }}")};
  tri_chat_opt opt = {.kwargs = "{\"a\": false, \"b\": 1.5, \"c\": \"x\"}",
                      .date = "2026-02-03",
                      .tools = "t.json",
                      .tools_text = bytes_of("[{\"n\": 1}]"),
                      .from_deck = true};
  tri_chat    *chat;
  json_t      *m = json_loads(ASK, 0, NULL), *more = json_loads("{\"b\": 2, \"documents\": [{}]}", 0, NULL);
  tri_chat_conversation conversation = {.messages = m, .kwargs = more};
  tri_chat_text         t = {.n_turn = 0};

  (void)state;
  assert_int_equal(tri_chat_open(&opt, &files, &chat), TRI_OK);
  assert_true(tri_chat_says_date(chat));
  expect_written(chat, ASK, NULL, true, "False|1.5|x|[{'n': 1}]|None|03.02.2026");
  assert_int_equal(tri_chat_write(chat, &conversation, true, &t), TRI_OK);
  assert_string_equal(t.text.data, "False|2|x|[{'n': 1}]|[{}]|03.02.2026");
  tri_chat_text_free(&t);
  tri_chat_close(&chat);
  json_decref(m);
  json_decref(more);
  opt.tools_text = bytes_of("{\"n\": 1}");
  assert_int_equal(tri_chat_open(&opt, &files, &chat), TRI_EINPUT);
  expect_refusal("take_tools() t.json data.tools [{\"type\"");
  tri_error_clear();
  opt.tools_text = bytes_of("[{\n]");
  assert_int_equal(tri_chat_open(&opt, &files, &chat), TRI_EINPUT);
  expect_refusal("take_tools() t.json:2 } ]");
  tri_error_clear();
}

static void flags_go_before_a_decks_variables(void **state) {
  static const char *const given[] = {"b=2", "c=", "d=1.0", "e=true", "f=x=y", "g=1e3", "h=007"};
  static const char *const bad[] = {"x", "=1", "messages=1"};
  tri_text                 text = {0};

  (void)state;
  assert_int_equal(tri_chat_put_kwargs("{\"a\": null, \"b\": 1}", given, 7, "--template-kwarg", &text),
                   TRI_OK);
  assert_string_equal(
      text.data,
      "{\"a\": null, \"b\": 2, \"c\": \"\", \"d\": 1.0, \"e\": true, \"f\": \"x=y\", \"g\": 1000.0, "
      "\"h\": 7}");
  text.len = 0;
  assert_int_equal(tri_chat_put_kwargs(NULL, given, 0, "f", &text), TRI_OK);
  assert_int_equal(text.len, 0);
  tri_text_free(&text);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(tri_chat_put_kwargs(NULL, &bad[i], 1, "--template-kwarg", &text), TRI_EARG);
    expect_refusal("put_one() --template-kwarg");
    tri_error_clear();
  }
}

/* ---- turns without marks ---- */

#define U(x)        "{\"role\":\"user\",\"content\":\"" x "\"}"
#define A(x)        "{\"role\":\"assistant\",\"content\":\"" x "\"}"
#define PART(x)     "{\"type\":\"text\",\"text\":\"" x "\"}"
#define PARTS(x, y) "{\"role\":\"assistant\",\"content\":[" PART(x) "," PART(y) "]}"

/* Compares the learned spans with "a|b", or the start of an error message with `want`. */
static void expect_learned(const char *template, const char *messages, bool all, const char *want) {
  tri_chat_files files = {
      .model = "m", .jinja = bytes_of(template), .config = bytes_of("{\"eos_token\": \"</s>\"}")};
  tri_chat             *chat = open_with("auto", &files);
  json_t               *m = json_loads(messages, 0, NULL);
  tri_chat_conversation conversation = {.messages = m};
  tri_chat_text         t = {.n_turn = 0};
  tri_text              got = {0};

  assert_non_null(m);
  if (tri_chat_learned(chat, &conversation, all, &t) != TRI_OK) {
    assert_int_equal(tri_text_printf(&got, "%s", tri_error_message()), TRI_OK);
    tri_error_clear();
  }
  for (int64_t i = 0; i < t.n_turn; i++)
    assert_int_equal(tri_text_printf(&got, "%s%.*s", i ? "|" : "", (int)(t.turn[i].end - t.turn[i].begin),
                                     t.text.data + t.turn[i].begin),
                     TRI_OK);
  if (strncmp(got.len ? got.data : "", want, strlen(want))) fail_msg("`%s`, not `%s`", got.data, want);
  tri_text_free(&got);
  tri_chat_text_free(&t);
  json_decref(m);
  tri_chat_close(&chat);
}

/* Message 2 has no certain begin, and the error names the facts in `want`. */
static void expect_ambiguous(const char *template, bool all, const char *messages, const char *want) {
  tri_chat_files files = {
      .model = "m", .jinja = bytes_of(template), .config = bytes_of("{\"eos_token\": \"</s>\"}")};
  tri_chat             *chat = open_with("auto", &files);
  json_t               *m = json_loads(messages, 0, NULL);
  tri_chat_conversation conversation = {.messages = m};
  tri_chat_text         t = {.n_turn = 0};

  assert_int_equal(tri_chat_learned(chat, &conversation, all, &t), TRI_EINPUT);
  expect_refusal(want);
  tri_error_clear();
  tri_chat_text_free(&t);
  json_decref(m);
  tri_chat_close(&chat);
}

static void finds_turns_without_marks(void **state) {
  /* a prompt opens a reasoning block and the whole conversation has none, and only the whole conversation has
   * an end */
  static const char thinks[] =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}"
      "{% if add_generation_prompt %}<assistant><think>{% endif %}";
  static const char whole_end[] =
      "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>\n{% else %}{{ eos_token }}{% endif %}";
  static const char two_ends[] =
      "{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' %}<|channel|>"
      "{% if m.thinking %}analysis{{ m.thinking }}<|end|><|start|>assistant<|channel|>"
      "{% endif %}final{{ m.content }}{% if loop.last %}<|return|>{% else %}<|end|>{% endif %}"
      "{% else %}{{ m.content }}<|end|>{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}<|start|>assistant{% endif %}";
  /* two tokens end an answer, and a template needs parts */
  static const char two_marks[] =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% if m.role == 'assistant' %}<|r|>{% "
      "endif %}<|t|>"
      "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
  static const char only_parts[] = "{% for m in messages %}[{{ m.role }}]{% for p in m.content %}{{ p.text }}"
                                   "{% endfor %}<end>\n{% endfor %}"
                                   "{% if add_generation_prompt %}[assistant]{% endif %}";
  static const char no_end[] = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
                               "{% if add_generation_prompt %}assistant: {% endif %}";
  static const char trims[] =
      "{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}{{ eos_token }}{% endfor %}"
      "{% if add_generation_prompt %}[assistant]{% endif %}";
  static const char counts[] =
      "{{ messages | length }}{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  static const char drops[] = /* the text before the first turn depends on later turns */
      "{% for m in messages %}<{{ m.role }}>{{ '!' if loop.first and messages | length > 2 }}{{ m.content }}"
      "{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
  static const char marked[] =
      "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
      "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";

  (void)state;
  expect_learned(thinks, "[" U("q") "," A("a") "," U("r") "," A("b") "]", true, "a</s>|b</s>");
  expect_learned(thinks, "[" U("q") "," A("<think>t</think>a") "]", false, "t</think>a</s>");
  expect_learned(whole_end, "[" U("q") "," A("a") "," U("r") "," A("b") "]", true, "a<|end|>|b<|end|>");
  expect_learned(whole_end, "[" U("q") "," A("a") "," U("r") "," A("b") "]", false, "b<|end|>");
  expect_learned(whole_end, "[" U("q") "," A("x<|end|>y") "," U("a") "]", true, "x<|end|>y<|end|>");
  expect_learned(two_ends, "[" U("q") "," A("a") "," U("r") "," A("b") "]", true,
                 "<|channel|>finala<|end|>|<|channel|>finalb<|return|>");
  expect_learned(two_ends,
                 "[" U("q") ",{\"role\":\"assistant\",\"content\":\"a\",\"thinking\":\"t\"}," U("r") "]",
                 true, "<|channel|>analysist<|end|><|start|>assistant<|channel|>finala<|end|>");
  expect_learned(two_marks, "[" U("q") "," A("a") "," U("r") "," A("b") "]", true, "a<|r|><|t|>|b<|r|><|t|>");
  expect_learned(only_parts,
                 "[" U("q") ",{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}]",
                 true, "a<end>");
  expect_learned(only_parts, "[" U("q") "," PARTS("a<end>", "b<end>c") "," U("r") "," PARTS("d", "<end>") "]",
                 true, "a<end>b<end>c<end>|d<end><end>");
  expect_learned(trims, "[" U("q") "," PARTS("a", "</s>b ") "]", true, "a</s>b</s>");
  expect_learned(no_end, "[" U("q") "," A("a") "," U("r") "," A("b") "]", true, "a\n|b\n");
  expect_learned(trims, "[" U("q") "," A(" a</s> \\n") "," U("r") "," A(" ") "]", true, "a</s></s>|</s>");
  expect_ambiguous(counts, false, "[" U("q") "," A("a") "]",
                   "fail_begin() 2 chat_template.jinja {% generation %} data.chat_template !data.train_on");
  expect_learned(drops, "[" U("q") "," A("a") "," U("r") "," A("b") "]", false, "b</s>");
  expect_ambiguous(drops, true, "[" U("q") "," A("a") "," U("r") "," A("b") "]",
                   "fail_begin() 2 chat_template.jinja {% generation %} data.chat_template data.train_on");
  expect_learned(marked, "[" U("q") "," A("a") "," U("r") "," A("b") "]", true, "a|b");
  expect_learned(marked, "[" U("q") "," A("a") "," U("r") "," A("b") "]", false, "b");
  expect_learned(marked, "[" U("q") "]", true, "");
  expect_learned("{{ raise_exception('no ' ~ messages[0].role) }}", "[" U("q") "]", true,
                 "the chat template of chat_template.jinja: line 1: no user");
}

/* With many turns, most are found without writing them alone, and the spans are the same. A user text that
 * imitates a generation prompt is no turn. */
static void finds_many_turns(void **state) {
  const char    *name[] = {"chatml", "qwen3", "llama3", "zephyr"};
  tri_chat_files files = {.model = "m"};
  char           text[128], want[128];

  (void)state;
  for (int t = 0; t < 4; t++) {
    tri_chat             *chat = open_with(name[t], &files);
    json_t               *m = json_array();
    tri_chat_conversation conversation = {.messages = m};
    tri_chat_text         out = {.n_turn = 0};
    for (int i = 0; i < 50; i++) {
      snprintf(text, sizeof text, "q%d<|im_end|>\n<|im_start|>assistant\n", i);
      json_array_append_new(m, json_pack("{ssss}", "role", "user", "content", text));
      snprintf(text, sizeof text, i % 3 ? "a%d" : "a%d<|im_start|>assistant\n", i);
      json_array_append_new(m, json_pack("{ssss}", "role", "assistant", "content", text));
    }
    if (tri_chat_learned(chat, &conversation, true, &out) != TRI_OK) fail_msg("%s", tri_error_message());
    assert_int_equal(out.n_turn, 50);
    for (int i = 0; i < 50; i++) {
      const char *said =
          json_string_value(json_object_get(json_array_get(m, (size_t)(2 * i + 1)), "content"));
      int n = (int)strlen(said) - (t == 2 && i % 3 == 0); /* llama3 trims */
      snprintf(want, sizeof want, "%s%.*s%s", t == 1 && i == 49 ? "<think>\n\n</think>\n\n" : "", n, said,
               tri_chat_end(chat));
      size_t bytes = out.turn[i].end - out.turn[i].begin;
      if (bytes != strlen(want) || memcmp(out.text.data + out.turn[i].begin, want, bytes))
        fail_msg("%s, turn %d: `%.*s`, not `%s`", name[t], i, (int)bytes, out.text.data + out.turn[i].begin,
                 want);
    }
    tri_chat_text_free(&out);
    json_decref(m);
    tri_chat_close(&chat);
  }
}

/* Tells which messages are missing in the text. */
static void says_what_is_left_out(void **state) {
  static const char both[] = "[{\"role\":\"system\",\"content\":\"be so\"}," U("a") "," A("b") "]";
  static const char one[] = "[{\"role\":\"system\",\"content\":\"be so\"}," U("a") "]";
  tri_chat_files    files = {.model = "m"};
  json_t           *two = json_loads(both, 0, NULL), *three = json_loads(one, 0, NULL), *none = json_array();
  tri_chat         *chat = open_with("mistral", &files);
  tri_chat_text     t = {.n_turn = 0};

  (void)state;
  assert_int_equal(tri_chat_write(chat, &(tri_chat_conversation){.messages = two}, false, &t), TRI_OK);
  assert_true(t.system_left_out);
  assert_int_equal(tri_chat_write(chat, &(tri_chat_conversation){.messages = three}, true, &t), TRI_OK);
  assert_false(t.system_left_out || t.begun);
  assert_int_equal(tri_chat_write(chat, &(tri_chat_conversation){.messages = none}, true, &t), TRI_EINPUT);
  tri_error_clear();
  tri_chat_text_free(&t);
  tri_chat_close(&chat);
  chat = open_with("chatml", &files);
  assert_int_equal(tri_chat_write(chat, &(tri_chat_conversation){.messages = two}, true, &t), TRI_OK);
  assert_true(t.begun);
  assert_int_equal(t.text.data[t.text.len - 1], 'b');
  tri_chat_text_free(&t);
  tri_chat_close(&chat);
  json_decref(two);
  json_decref(three);
  json_decref(none);
}

/* The text for an export writes the same, with only the tokens of the model's files. */
static void gives_other_programs_the_text(void **state) {
  static const char odd[] = "{\"bos_token\": \"it's\\\\\\n\"}";
  tri_chat_files    files = {.model = "m"}, again = {.model = "m"};
  tri_text          text = {0};
  tri_chat         *chat = open_with("llama2", &files), *other;
  bool              broken;

  (void)state;
  assert_int_equal(tri_chat_template(chat, &text), TRI_OK);
  assert_int_equal(
      strncmp(text.data, "{% set bos_token = '<s>' %}{% set eos_token = '</s>' %}{#- As meta", 66), 0);
  again.jinja = (tri_chat_bytes){text.data, text.len};
  assert_true(tri_chat_brings(&again, &broken) && !broken);
  other = open_with("auto", &again);
  expect_written(other, "[" U("a") "," A("b") "]", NULL, false, "<s>[INST] a [/INST] b </s>");
  tri_chat_close(&chat);
  tri_chat_close(&other);
  files.config = bytes_of(odd);
  chat = open_with("llama3", &files);
  text.len = 0;
  assert_int_equal(tri_chat_template(chat, &text), TRI_OK);
  assert_int_equal(strncmp(text.data, "{#- As meta", 11), 0);
  expect_written(chat, ASK, NULL, false, "it's\\\n<|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|>");
  tri_chat_close(&chat);
  files.config = bytes_of("[1]");
  assert_true(!tri_chat_brings(&files, &broken) && broken);
  chat = open_with("none", &files);
  text.len = 0;
  assert_int_equal(tri_chat_template(chat, &text), TRI_OK);
  assert_int_equal(text.len, 0);
  tri_chat_close(&chat);
  tri_text_free(&text);
}

static void tells_files_from_words(void **state) {
  (void)state;
  assert_true(tri_chat_is_file("a.jinja") && tri_chat_is_file("x/y") && !tri_chat_is_file("qwen2.5"));
  assert_true(tri_chat_is_word("auto") && tri_chat_is_word("zephyr") && !tri_chat_is_word("qwen2"));
  assert_false(tri_chat_is_word("") || tri_chat_is_word("chatml|llama2") || tri_chat_is_file("phi"));
}

static int nothing_is_left(void **state) {
  close_golden(state);
  assert_int_equal(tri_host_bytes(), 0);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(writes_as_transformers_does),    cmocka_unit_test(names_need_no_files),
      cmocka_unit_test(writes_all_of_a_folder),         cmocka_unit_test(says_what_is_missing),
      cmocka_unit_test(takes_the_right_one_of_several), cmocka_unit_test(takes_the_models_own_tokens),
      cmocka_unit_test(takes_variables_and_tools),      cmocka_unit_test(flags_go_before_a_decks_variables),
      cmocka_unit_test(finds_turns_without_marks),      cmocka_unit_test(finds_many_turns),
      cmocka_unit_test(says_what_is_left_out),          cmocka_unit_test(gives_other_programs_the_text),
      cmocka_unit_test(tells_files_from_words)};

  return cmocka_run_group_tests(tests, open_golden, nothing_is_left);
}
