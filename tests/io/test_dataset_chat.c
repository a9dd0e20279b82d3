/* test_dataset_chat.c - tests conversations of data files as tokens, and which tokens are learned. Judges:
 * the ids and masks of transformers (tests/data/chat/golden.json, edges.json), and exact values worked out by
 * hand. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "chat_case.h"
#include "dataset_conversation_case.h"
#include "reward/answers.h"

static json_t *edges; /* tests/data/chat/edges.json */

static tri_data_opt chat_options(tri_data_kind kind, const tri_chat *chat, tri_encoder *encoder) {
  tri_data_opt opt = options(kind);

  opt.vocab = tri_tokenizer_vocab_size(encoder->tokenizer);
  opt.encode = tri_encoder_run;
  opt.encode_places = tri_encoder_run_places;
  opt.ctx = encoder;
  opt.chat.form = chat;
  opt.end.completion = opt.end.text = 0;
  return opt;
}

static bool has_answer(const json_t *conversation) {
  const json_t *m;
  size_t        i;

  json_array_foreach(conversation, i, m) {
    if (!strcmp(text_of(m, "role"), "assistant")) return true;
  }
  return false;
}

/* Returns the learned tokens first .. of `spans`, from the last span on or from the first. */
static void expect_learned(const tri_example *e, const json_t *ids, const json_t *spans, bool all,
                           const char *name, size_t conversation) {
  size_t n = json_array_size(spans), first = all ? 0 : n - 1;

  assert_int_equal(e->n_token, json_array_size(ids));
  assert_int_equal(e->n_prompt, json_integer_value(json_array_get(json_array_get(spans, first), 0)));
  for (int i = 0; i < e->n_token; i++) {
    bool learned = false;
    for (size_t k = first; k < n; k++) {
      const json_t *span = json_array_get(spans, k);
      learned |=
          i >= json_integer_value(json_array_get(span, 0)) && i < json_integer_value(json_array_get(span, 1));
    }
    if (e->token[i] != json_integer_value(json_array_get(ids, (size_t)i)))
      fail_msg("%s, conversation %zu: token %d is %d", name, conversation, i, e->token[i]);
    if (learned != (i >= e->n_prompt && !(e->skip && e->skip[i])))
      fail_msg("%s, conversation %zu: token %d is %slearned", name, conversation, i, learned ? "not " : "");
  }
}

/* Mistral's template writes the system message only if the user's message ends the conversation. So a turn
 * does not follow the text of its prompt, and the learned part cannot be found. */
static bool moves_system(const json_t *row, const json_t *conversation) {
  return !strcmp(text_of(row, "name"), "mistral") &&
         !strcmp(text_of(json_array_get(conversation, 0), "role"), "system");
}

static void expect_template(const json_t *row, bool marked, bool all) {
  const json_t *conversation, *c, *conversations = json_object_get(golden, "talks");
  tri_encoder   encoder = {.tokenizer = open_tokenizer(row)};
  tri_text      lines = {0};
  char         *config, *line;
  tri_chat     *chat = open_own(row, marked, &config);
  tri_data_opt  opt = chat_options(TRI_DATA_SFT, chat, &encoder);
  size_t        i, k = 0;
  bool          taken[32] = {false};

  opt.chat.all = all;
  json_array_foreach(conversations, i, conversation) {
    taken[i] = has_answer(conversation) && (marked || !moves_system(row, conversation)) &&
               json_object_get(json_array_get(json_object_get(row, "cases"), i), "ids");
    if (!taken[i]) continue;
    json_t *object = json_pack("{sO}", "messages", conversation);
    line = json_dumps(object, 0);
    assert_int_equal(tri_text_printf(&lines, "%s\n", line), TRI_OK);
    free(line);
    json_decref(object);
  }
  tri_dataset *d = open_bytes(lines.data, lines.len, &opt);
  json_array_foreach(json_object_get(row, "cases"), i, c) {
    if (taken[i])
      expect_learned(tri_dataset_get(d, (int64_t)k++), json_object_get(c, "ids"), json_object_get(c, "loss"),
                     all, text_of(row, "name"), i);
  }
  assert_int_equal(tri_dataset_stats(d)->n_conversation, k);
  assert_int_equal(tri_dataset_stats(d)->n_text_left_out, 0);
  assert_int_equal(tri_dataset_stats(d)->n_endless, 0);
  assert_true(k >= 5);
  tri_dataset_close(&d);
  tri_text_free(&lines);
  tri_chat_close(&chat);
  free(config);
  tri_encoder_free(&encoder);
  tri_tokenizer_close((tri_tokenizer **)(void *)&encoder.tokenizer);
}

static void expect_moved(const json_t *row) {
  tri_encoder  encoder = {.tokenizer = open_tokenizer(row)};
  char        *config;
  tri_chat    *chat = open_own(row, false, &config);
  tri_data_opt opt = chat_options(TRI_DATA_SFT, chat, &encoder);
  const char  *line =
      "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"a\"},"
      "{\"role\":\"assistant\",\"content\":\"b\"}]}";

  expect_refused(line, strlen(line), &opt, TRI_EINPUT, "a.jsonl:1 3 tokenizer_config.json");
  tri_chat_close(&chat);
  free(config);
  tri_encoder_free(&encoder);
  tri_tokenizer_close((tri_tokenizer **)(void *)&encoder.tokenizer);
}

static void learns_the_assistants_turns(void **state) {
  const json_t *row;
  size_t        i;

  (void)state;
  json_array_foreach(templates(), i, row) {
    if (strchr(text_of(row, "name"), ',')) continue; /* no ids */
    for (int how = 0; how < 4; how++) expect_template(row, how & 1, how & 2);
    if (!strcmp(text_of(row, "name"), "mistral")) expect_moved(row);
  }
}

/* Compares the ids and the mask of each conversation, by a template with marks for learned text and by one
 * without. */
static void expect_edges(const json_t *kind, const json_t *row, const char *form) {
  const json_t  *c, *conversations = json_object_get(edges, "talks");
  char          *spec = json_dumps(json_object_get(kind, "tokenizer"), 0);
  tri_encoder    encoder = {0};
  tri_chat_files files = {.model = "m"};
  tri_chat_opt   chat_opt = {.from_deck = true};
  tri_tokenizer *t;
  tri_chat      *chat;
  size_t         k;

  assert_int_equal(tri_tokenizer_open_text("m", spec, strlen(spec), &t), TRI_OK);
  encoder.tokenizer = t;
  files.jinja = (tri_chat_bytes){text_of(row, form), strlen(text_of(row, form))};
  assert_int_equal(tri_chat_open(&chat_opt, &files, &chat), TRI_OK);
  tri_data_opt opt = chat_options(TRI_DATA_SFT, chat, &encoder);
  opt.chat.all = true;
  json_array_foreach(json_object_get(row, "cases"), k, c) {
    json_t *ids = json_array_get(c, 0),
           *object = json_pack("{sO}", "messages", json_array_get(conversations, k));
    const char        *mask = json_string_value(json_array_get(c, 1));
    char              *line = json_dumps(object, 0);
    tri_dataset       *d = open_text(line, &opt);
    const tri_example *e = tri_dataset_get(d, 0);
    assert_int_equal(e->n_token, json_array_size(ids));
    for (int i = 0; i < e->n_token; i++) {
      assert_int_equal(e->token[i], json_integer_value(json_array_get(ids, (size_t)i)));
      if ((mask[i] == '1') != (i >= e->n_prompt && !(e->skip && e->skip[i])))
        fail_msg("%s, %s: conversation %zu: token %d is %slearned in %s", text_of(kind, "name"), form, k, i,
                 mask[i] == '1' ? "not " : "", text_of(row, form));
    }
    tri_dataset_close(&d);
    free(line);
    json_decref(object);
  }
  tri_chat_close(&chat);
  tri_encoder_free(&encoder);
  tri_tokenizer_close(&t);
  free(spec);
}

/* The learned tokens begin and end with the text, although the text before it, or up to its end, has other
 * tokens when encoded alone. */
static void learns_from_edge_to_edge(void **state) {
  const json_t *kind, *row;
  size_t        i, k;

  (void)state;
  edges = read_json(TRI_TEST_DATA "/chat/edges.json");
  json_array_foreach(json_object_get(edges, "kinds"), i, kind) {
    json_array_foreach(json_object_get(kind, "rows"), k, row) {
      expect_edges(kind, row, "marked");
      if (json_object_get(row, "plain")) expect_edges(kind, row, "plain");
    }
  }
  json_decref(edges);
}

static void expect_ids_of(const int32_t *id, int n, const json_t *want, const char *name, size_t i) {
  assert_int_equal(n, json_array_size(want));
  for (int k = 0; k < n; k++)
    if (id[k] != json_integer_value(json_array_get(want, (size_t)k)))
      fail_msg("%s, pair %zu: token %d is %d", name, i, k, id[k]);
}

/* Preferences in messages have the ids and the prompt of TRL's DPO trainer. */
static void pairs_have_the_ids_of_trl(void **state) {
  const json_t *row, *p;
  size_t        i, k;

  (void)state;
  json_array_foreach(templates(), i, row) {
    if (!json_object_get(row, "pairs")) continue;
    tri_encoder  encoder = {.tokenizer = open_tokenizer(row)};
    char        *config;
    tri_chat    *chat = open_own(row, false, &config);
    tri_data_opt opt = chat_options(TRI_DATA_PAIRS, chat, &encoder);
    json_array_foreach(json_object_get(row, "pairs"), k, p) {
      const json_t      *ids = json_object_get(p, "ids");
      char              *line = json_dumps(p, 0);
      tri_dataset       *d = open_text(line, &opt);
      const tri_example *e = tri_dataset_get(d, 0);
      expect_ids_of(e->token, e->n_token, json_array_get(ids, 0), text_of(row, "name"), k);
      expect_ids_of(e->rejected, e->n_rejected, json_array_get(ids, 1), text_of(row, "name"), k);
      assert_int_equal(e->n_prompt, json_integer_value(json_object_get(p, "n_prompt")));
      tri_dataset_close(&d);
      free(line);
    }
    tri_chat_close(&chat);
    free(config);
    tri_encoder_free(&encoder);
    tri_tokenizer_close((tri_tokenizer **)(void *)&encoder.tokenizer);
  }
}

/* ---- forms of lines, by a tokenizer of bytes ---- */

/* Expects the bytes of a side, with `learned` at `at` and nothing else learned. */
static void expect_side(const int32_t *id, int n, const uint8_t *skip, int n_prompt, const char *text,
                        const char *learned) {
  const char *at = strstr(text, learned);

  expect_ids(id, n, text);
  for (int i = 0; i < n; i++) {
    bool is = i >= at - text && i < at - text + (int)strlen(learned);
    assert_int_equal(is, i >= n_prompt && !(skip && skip[i]));
  }
}

#define CONVERSATION "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"

/* A list kept as in tables, as text of its JSON. */
#define SPELLED                                                                                              \
  "{\"messages\":\"[{\\\"role\\\":\\\"user\\\",\\\"content\\\":\\\"a\\\"},"                                  \
  "{\\\"role\\\":\\\"assistant\\\",\\\"content\\\":\\\"b\\\"}]\"}"

static void reads_each_form(void **state) {
  static const char *const sft[] = {
      "{\"messages\":[" U("a") "," A("b") "]}",
      "{\"prompt\":[" U("a") "],\"completion\":[" A("b") "]}",
      "{\"prompt\":[" U("a") "],\"completion\":\"b\"}",
      "{\"prompt\":\"a\",\"completion\":[" A("b") "]}",
      "{\"prompt\":\"no\",\"completion\":[" U("a") "," A("b") "]}",
      "{\"prompt\":\"no\",\"messages\":[" U("a") "," A("b") "]}",
      SPELLED,
  };
  tri_chat    *chat = open_form("chatml");
  tri_data_opt opt = options(TRI_DATA_SFT);
  tri_dataset *d;

  (void)state;
  opt.chat.form = chat;
  for (size_t i = 0; i < sizeof sft / sizeof *sft; i++) {
    d = open_text(sft[i], &opt);
    const tri_example *e = tri_dataset_get(d, 0);
    expect_side(e->token, e->n_token, e->skip, e->n_prompt, CONVERSATION "b<|im_end|>\n", "b<|im_end|>");
    assert_int_equal(tri_dataset_stats(d)->n_loss, 11);
    tri_dataset_close(&d);
  }
  opt.kind = TRI_DATA_LABELLED;
  for (size_t i = 0; i < 3; i++) {
    char line[256];
    snprintf(line, sizeof line, "%.*s,\"label\":true}", (int)strlen(sft[i]) - 1, sft[i]);
    d = open_text(line, &opt);
    const tri_example *e = tri_dataset_get(d, 0);
    expect_side(e->token, e->n_token, e->skip, e->n_prompt, CONVERSATION "b<|im_end|>\n", "b<|im_end|>");
    tri_dataset_close(&d);
  }
  opt.kind = TRI_DATA_SCORE;
  d = open_text(sft[0], &opt);
  assert_null(tri_dataset_get(d, 0)->skip);
  assert_int_equal(tri_dataset_get(d, 0)->n_prompt, 0);
  tri_dataset_close(&d);
  tri_chat_close(&chat);
}

static void reads_prompts(void **state) {
  tri_chat    *chat = open_form("chatml");
  tri_data_opt opt = options(TRI_DATA_RL);
  tri_dataset *d;

  (void)state;
  opt.chat.form = chat;
  d = open_text("{\"messages\":[" U("a") "],\"answer\":\"7\"}\n{\"prompt\":[" U(
                    "a") "],\"answer\":7}\n"
                         "{\"prompt\":\"a\",\"messages\":[" U("b") "],\"answer\":\"7\"}\n",
                &opt);
  for (int i = 0; i < 2; i++) {
    const tri_example *e = tri_dataset_get(d, i);
    expect_tokens(e, CONVERSATION, (int)strlen(CONVERSATION));
    assert_string_equal(e->prompt, CONVERSATION);
    assert_string_equal(e->answer, "7");
  }
  expect_tokens(tri_dataset_get(d, 2), "^a", 2); /* the prompt's own field wins over messages */
  tri_dataset_close(&d);
  opt.chat.texts = true;
  d = open_text("{\"prompt\":\"a\",\"answer\":\"7\"}\n", &opt);
  expect_tokens(tri_dataset_get(d, 0), CONVERSATION, (int)strlen(CONVERSATION));
  tri_dataset_close(&d);
  tri_chat_close(&chat);
}

/* A line has values for its template: tools as a list or its text, thoughts, calls, parts, its own variables.
 * A begun answer is continued. */
static void passes_on_what_a_line_has(void **state) {
  static const char form[] =
      "{% for t in tools or [] %}<{{ t.n }}>{% endfor %}{{ mood }}{% for m in messages %}[{{ m.role }}]"
      "{{ m.reasoning_content }}{% for c in m.tool_calls or [] %}({{ c.function.arguments }}){% endfor %}"
      "{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";
  static const struct {
    const char *line, *want;
  } row[] = {
      {"{\"prompt\":[" U("a") "],\"tools\":[{\"n\":1},{\"n\":2}]}", "<1><2>[user]a[assistant]"},
      {"{\"prompt\":[" U("a") "],\"tools\":\"[{\\\"n\\\":1}]\"}", "<1>[user]a[assistant]"},
      {"{\"prompt\":[" U("a") "],\"tools\":\"[]\"}", "[user]a[assistant]"},
      {"{\"prompt\":[" U("a") "],\"tools\":null,\"chat_template_kwargs\":{\"mood\":true}}",
       "True[user]a[assistant]"},
      {"{\"prompt\":[" U(
           "a") ",{\"role\":\"assistant\",\"content\":null,\"thinking\":\"t\",\"tool_calls\":[{\"function\":"
                "{\"name\":\"f\",\"arguments\":\"{\\\"x\\\": 1}\"}}]},"
                "{\"role\":\"tool\",\"content\":\"r\"}]}",
       "[user]a[assistant]t({\"x\": 1})[tool]r[assistant]"},
      {"{\"prompt\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\","
       "\"text\":\"b\",\"image\":null,\"file\":null}]}]}",
       "[user]ab[assistant]"},
      {"{\"prompt\":[" U("a") "," A("b ") "]}", "[user]a[assistant]b "},
  };
  static const char odd[] = "{\"prompt\":[" U("a") "],\"x\":{\"t\":[{\"n\":NaN}]}}";
  tri_chat_files    files = {.model = "m", .jinja = {form, sizeof form - 1}};
  tri_chat_opt      chat_opt = {.from_deck = true};
  tri_data_opt      opt = options(TRI_DATA_PROMPTS);
  tri_chat         *chat;

  (void)state;
  assert_int_equal(tri_chat_open(&chat_opt, &files, &chat), TRI_OK);
  opt.chat.form = chat;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    tri_dataset *d = open_text(row[i].line, &opt);
    expect_tokens(tri_dataset_get(d, 0), row[i].want, (int)strlen(row[i].want));
    assert_int_equal(tri_dataset_stats(d)->n_begun, i == 6);
    assert_int_equal(tri_dataset_stats(d)->n_tools_left_out, 0);
    tri_dataset_close(&d);
  }
  opt.chat.tools_key = "x.t"; /* a path, as other keys may be */
  tri_dataset *inner = open_text("{\"prompt\":[" U("a") "],\"x\":{\"t\":[{\"n\":1}]}}", &opt);
  expect_tokens(tri_dataset_get(inner, 0), "<1>[user]a[assistant]", 21);
  tri_dataset_close(&inner);
  expect_refused(odd, sizeof odd - 1, &opt, TRI_EINPUT, "tri_jsonl_refuse_odd() a.jsonl:1 x.t NaN");
  tri_chat_close(&chat);
  files.jinja = (tri_chat_bytes){"{{ messages[0].content }}", 25};
  assert_int_equal(tri_chat_open(&chat_opt, &files, &chat), TRI_OK);
  opt.chat.form = chat;
  opt.chat.tools_key = "t";
  tri_dataset *d = open_text("{\"prompt\":[" U("a") "],\"t\":[{}],\"tools\":7}", &opt);
  assert_int_equal(tri_dataset_stats(d)->n_tools_left_out, 1);
  tri_dataset_close(&d);
  tri_chat_close(&chat);
}

static void reads_pairs(void **state) {
  static const char *const row[] = {
      "{\"prompt\":[" U("a") "],\"chosen\":[" A("b") "],\"rejected\":[" A("cd") "]}",
      "{\"chosen\":[" U("a") "," A("b") "],\"rejected\":[" U("a") "," A("cd") "]}",
      "{\"prompt\":\"a\",\"chosen\":[" U("a") "," A("b") "],\"rejected\":[" U("a") "," A(
          "cd") "],"
                "\"messages\":[]}",
      "{\"prompt\":[" U("a") "],\"chosen\":\"b\",\"rejected\":\"cd\"}",
  };
  tri_chat    *chat = open_form("chatml");
  tri_data_opt opt = options(TRI_DATA_PAIRS);

  (void)state;
  opt.chat.form = chat;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    tri_dataset       *d = open_text(row[i], &opt);
    const tri_example *e = tri_dataset_get(d, 0);
    expect_side(e->token, e->n_token, e->skip, e->n_prompt, CONVERSATION "b<|im_end|>\n", "b<|im_end|>");
    expect_side(e->rejected, e->n_rejected, e->rejected_skip, e->n_prompt, CONVERSATION "cd<|im_end|>\n",
                "cd<|im_end|>");
    assert_int_equal(tri_dataset_stats(d)->n_loss, 11 + 12);
    tri_dataset_close(&d);
  }
  tri_chat_close(&chat);
}

/* A begin token spelled in the text is not added again. A token that the tokenizer adds behind a text is no
 * begin token, whatever the text begins with. */
static void no_text_gets_two_begin_tokens(void **state) {
  static const struct {
    const char *single, *text, *want;
  } row[] = {
      {"[{\"SpecialToken\":{\"id\":\"^\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}]", "^a",
       "^a"},
      {"[{\"SpecialToken\":{\"id\":\"^\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}]", "aab",
       "^aab"},
      {"[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"^\",\"type_id\":0}}]", "aab",
       "aab^"},
      {"[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"^\",\"type_id\":0}}]", "aa",
       "aa^"},
  };
  json_t *spec = read_json(TRI_TEST_DATA "/cli/tokenizer.json"), *vocab, *processor;

  (void)state;
  vocab = json_object_get(json_object_get(spec, "model"), "vocab");
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    tri_tokenizer *t;
    tri_text       text = {0};
    const int32_t *id;
    int64_t        n;
    processor = json_pack("{ss so s[] s{s{ss s[O] s[s]}}}", "type", "TemplateProcessing", "single",
                          json_loads(row[i].single, 0, NULL), "pair", "special_tokens", "^", "id", "^", "ids",
                          json_object_get(vocab, "^"), "tokens", "^");
    assert_non_null(processor);
    json_object_set_new(spec, "post_processor", processor);
    char *dump = json_dumps(spec, 0);
    if (tri_tokenizer_open_text("t", dump, strlen(dump), &t) != TRI_OK) fail_msg("%s", tri_error_message());
    free(dump);
    tri_encoder encoder = {.tokenizer = t};
    assert_int_equal(tri_encoder_run(&encoder, row[i].text, strlen(row[i].text), true, &id, &n), TRI_OK);
    assert_int_equal(tri_tokenizer_decode(t, id, n, false, &text), TRI_OK);
    assert_int_equal(text.len, strlen(row[i].want));
    assert_memory_equal(text.data, row[i].want, text.len);
    tri_text_free(&text);
    tri_encoder_free(&encoder);
    tri_tokenizer_close(&t);
  }
  json_decref(spec);
}

/* If the first newline of an answer and that of the prompt are one token, the prompt ends before it on both
 * sides. The learned tokens of each side stay the same. */
static void pairs_may_share_a_token(void **state) {
  static const char *const answer[] = {"\\n\\nfirst", "No."};
  const json_t            *row = json_array_get(templates(), 0); /* chatml */
  tri_encoder              encoder = {.tokenizer = open_tokenizer(row)};
  tri_chat                *chat = open_form("chatml");
  tri_data_opt             opt = chat_options(TRI_DATA_PAIRS, chat, &encoder);
  char                     line[512];

  (void)state;
  for (int k = 0; k < 2; k++) { /* chosen answer[k] */
    opt.kind = TRI_DATA_PAIRS;
    snprintf(line, sizeof line, "{\"prompt\":[" U("a") "],\"chosen\":\"%s\",\"rejected\":\"%s\"}", answer[k],
             answer[!k]);
    tri_dataset       *d = open_text(line, &opt), *one;
    const tri_example *e = tri_dataset_get(d, 0), *alone;
    opt.kind = TRI_DATA_SFT;
    for (int i = 0; i < 2; i++) {
      const int32_t *id = i ? e->rejected : e->token;
      const uint8_t *skip = i ? e->rejected_skip : e->skip;
      snprintf(line, sizeof line,
               "{\"prompt\":[" U("a") "],\"completion\":[{\"role\":\"assistant\",\"content\":"
                                      "\"%s\"}]}",
               answer[i ^ k]);
      one = open_text(line, &opt);
      alone = tri_dataset_get(one, 0);
      assert_int_equal(i ? e->n_rejected : e->n_token, alone->n_token);
      assert_memory_equal(id, alone->token, (size_t)alone->n_token * sizeof *id);
      assert_int_equal(alone->n_prompt, e->n_prompt + (i != k)); /* the one of "No." is longer */
      for (int n = e->n_prompt; n < alone->n_token; n++)
        assert_int_equal(skip && skip[n], n < alone->n_prompt || (alone->skip && alone->skip[n]));
      tri_dataset_close(&one);
    }
    tri_dataset_close(&d);
  }
  tri_chat_close(&chat);
  tri_encoder_free(&encoder);
  tri_tokenizer_close((tri_tokenizer **)(void *)&encoder.tokenizer);
}

static void refuses_bad_conversations(void **state) {
  static const char good[] = "{\"messages\":[" U("a") "," A("b") "],\"tools\":\"[]\"}";
  const bad_line    row[] = {
         {"{\"messages\":7}", "take_messages() messages"},
         {"{\"messages\":[]}", "`messages` has no messages"},
         {"{\"messages\":\"a\"}", "read_messages() a.jsonl:3 messages prompt"},
         {"{\"messages\":[7]}", "take_message() messages 0"},
         {"{\"messages\":[{\"content\":\"a\"}]}", "`messages`[0] has no `role`"},
         {"{\"messages\":[" U("a") ",{\"role\":\"assistant\",\"content\":null}]}",
          "check_content() a.jsonl:3 `messages`[1] content"},
         {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"url\":\"x\"}]}]}",
          "check_parts() `messages`[0] content image"},
         {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"image_url\":{}}]}]}",
          "check_parts() `messages`[0] content image_url"},
         {"{\"messages\":[{\"role\":\"user\",\"content\":[7]}]}", "check_parts() a.jsonl:3 `messages`[0] "
                                                                     "content {\"type\""},
         {"{\"messages\":[{\"role\":\"tool\",\"content\":\"a\"}]}", "a.jsonl:3 llama2 12"},
         {"{\"messages\":[" U("a") "]}", "tri_line_parser_take_answered() a.jsonl:3 messages"},
         {"{\"messages\":[" A("a") "]}", "a.jsonl:3 llama2 12"},
         {"{\"messages\":[" S("a") "]}", "a.jsonl:3 llama2 8"},
         {"{\"messages\":[" U("a") "," A("b") "],\"text\":\"c\"}", "tri_line_parser_take_text() a.jsonl:3 "
                                                                      "messages text"},
         {"{\"messages\":[" U("a") "," A("b") "],\"tools\":\"[{}]\"}", "a.jsonl:3 llama2 3 tools"},
         {"{\"messages\":[" U("a") "," A("b") "],\"tools\":[7]}", "take_tools() a.jsonl:3 tools [{\"type\""},
         {"{\"messages\":[" U("a") "," A("b") "],\"tools\":\"[{\"}", "take_tools() a.jsonl:3 tools "
                                                                        "[{\"type\""},
         {"{\"messages\":[" U("a") "," A("b") "],\"chat_template_kwargs\":7}",
          "take_kwargs() a.jsonl:3 chat_template_kwargs !tools"},
         {"{\"messages\":[" U("a") "," A("b") "],\"chat_template_kwargs\":{\"tools\":[]}}",
          "take_kwargs() a.jsonl:3 chat_template_kwargs tools"},
         {"{\"completion\":[" A("b") "]}", "tri_foreign_refuse() prompt data.prompt_key completion"},
  };
  const bad_line pairs[] = {
      {"{\"chosen\":[" U("a") "," A("b") "],\"rejected\":[" U("b") "," A("b") "]}",
       "take_rejected() a.jsonl:3 chosen rejected"},
      {"{\"chosen\":[" U("a") "," A("b") "],\"rejected\":[" U("a") "," A("b") "," U("c") "," A("b") "]}",
       "take_rejected() a.jsonl:3 chosen rejected"},
      {"{\"chosen\":[" A("b") "],\"rejected\":[" A("b") "]}", "tri_foreign_refuse() a.jsonl:3 prompt "
                                                              "data.prompt_key"},
  };
  tri_chat    *chat = open_form("llama2");
  tri_data_opt opt = options(TRI_DATA_SFT);

  (void)state;
  opt.chat.form = chat;
  refuse_each(row, sizeof row / sizeof *row, good, &opt);
  opt.kind = TRI_DATA_PAIRS;
  refuse_each(pairs, 3, "{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"c\"}", &opt);
  tri_chat_close(&chat);
  opt = options(TRI_DATA_SFT);
  expect_refused(good, strlen(good), &opt, TRI_EINPUT, "put_conversation() a.jsonl:1 !tokenizer.json");
  chat = open_form("auto");
  opt.chat.form = chat;
  expect_refused(good, strlen(good), &opt, TRI_EINPUT, "a.jsonl:1 m: data.chat_template: chatml|");
  opt.encode = NULL;
  expect_refused(good, strlen(good), &opt, TRI_EINPUT, "put_conversation() a.jsonl:1 tokenizer.json tokens");
  tri_chat_close(&chat);
}

/* A conversation is cut like a text: a prompt at its begin, the whole at its end, and something to learn must
 * be left. */
static void cuts_conversations(void **state) {
  static const char line[] = "{\"messages\":[" U("a") "," A("b") "]}";
  tri_chat         *chat = open_form("chatml");
  tri_data_opt      opt = options(TRI_DATA_SFT);
  int               whole = (int)strlen(CONVERSATION "b<|im_end|>\n"), prompt = (int)strlen(CONVERSATION);
  tri_dataset      *d;

  (void)state;
  opt.chat.form = chat;
  opt.overlong = opt.overlong_prompt = TRI_OVERLONG_TRUNCATE;
  opt.max_prompt_tokens = 5;
  d = open_text(line, &opt);
  const tri_example *e = tri_dataset_get(d, 0);
  expect_side(e->token, e->n_token, e->skip, e->n_prompt, "tant\nb<|im_end|>\n", "b<|im_end|>");
  assert_int_equal(tri_dataset_stats(d)->n_truncated, 1);
  tri_dataset_close(&d);
  opt.max_prompt_tokens = 0;
  opt.max_total_tokens = whole - 2;
  d = open_text(line, &opt);
  e = tri_dataset_get(d, 0);
  assert_int_equal(e->n_token, whole - 2);
  assert_null(e->skip); /* everything left behind the prompt is learned */
  tri_dataset_close(&d);
  opt.max_total_tokens = prompt; /* the prompt makes space for its answer, "b<|im_end|>" */
  d = open_text(line, &opt);
  e = tri_dataset_get(d, 0);
  assert_int_equal(e->n_token, prompt);
  assert_int_equal(e->n_prompt, prompt - (whole - prompt));
  tri_dataset_close(&d);
  opt.overlong_prompt = TRI_OVERLONG_ERROR;
  expect_refused(line, strlen(line), &opt, TRI_EINPUT, "tri_dataset_finish() a.jsonl 1 51");
  opt.overlong = opt.overlong_prompt = TRI_OVERLONG_DROP;
  expect_refused(line, strlen(line), &opt, TRI_EINPUT, "tri_dataset_finish() a.jsonl 1 data.overlong_prompt");
  opt.overlong = opt.overlong_prompt = TRI_OVERLONG_ERROR;
  expect_refused(line, strlen(line), &opt, TRI_EINPUT, "refuse_too_long() a.jsonl:1 has 63");
  tri_chat_close(&chat);
}

/* Text left out by a template, and answers without an end, are counted. */
static void counts_what_is_not_written(void **state) {
  static const char *const form[] = {
      "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
      "{% if add_generation_prompt %}assistant: {% endif %}",
      "{% for m in messages %}{{ m.role }}:{% generation %}{{ m.content }}{% endgeneration %}$\n{% endfor %}",
      "{% for m in messages %}{{ m.role }}:{% generation %}{{ m.content }}$\n{% endgeneration %}{% endfor %}",
      "{% for m in messages %}{{ m.role }}: {% if m.content is not string %}{% for p in m.content %}"
      "{% generation %}{{ p.text }}{% endgeneration %}{% endfor %}{% endif %}$\n{% endfor %}"
      "{% generation %}.{% endgeneration %}",
  };
  static const struct {
    const char *line;
    int         form, endless, text, calls;
  } row[] = {
      {"{\"messages\":[" U("a") "," A(" bc ") "]}", 0, 1, 0, 0},
      {"{\"messages\":[" U("a") "," A("<think>x</think>bc") "]}", 0, 1, 0, 0},
      {"{\"messages\":[" U("a") "," A("bc") "]}", 1, 1, 0, 0},
      {"{\"messages\":[" U("a") "," A("bc") "]}", 2, 0, 0, 0},
      {"{\"messages\":[" U("a") "," A("bc") "]}", 3, 0, 1, 0},
      {"{\"messages\":[" U("a") ",{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":"
                                "\"bc\"}]}]}",
       3, 0, 0, 0},
      {"{\"messages\":[" U("a") ",{\"role\":\"assistant\",\"content\":\"x\",\"tool_calls\":[{\"function\":"
                                "{\"name\":\"find\",\"arguments\":{}}}]}," A("bc") "]}",
       2, 0, 0, 1},
      {"{\"messages\":[" U("find") ",{\"role\":\"assistant\",\"content\":\"x\",\"tool_calls\":[{\"name\":"
                                   "\"find\"}]}," A("bc") "]}",
       2, 0, 0, 0},
  };
  tri_data_opt opt = options(TRI_DATA_SFT);

  (void)state;
  opt.chat.all = true;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const char    *text = form[row[i].form];
    tri_chat_files files = {.model = "m", .jinja = {text, strlen(text)}};
    tri_chat_opt   chat_opt = {.from_deck = true};
    tri_chat      *chat;
    assert_int_equal(tri_chat_open(&chat_opt, &files, &chat), TRI_OK);
    opt.chat.form = chat;
    tri_dataset          *d = open_text(row[i].line, &opt);
    const tri_data_stats *s = tri_dataset_stats(d);
    assert_int_equal(s->n_endless, row[i].endless);
    assert_int_equal(s->n_text_left_out, row[i].text);
    assert_int_equal(s->n_calls_left_out, row[i].calls);
    tri_dataset_close(&d);
    tri_chat_close(&chat);
  }
}

static int close_all(void **state) { return close_golden(state); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(learns_the_assistants_turns, setup, teardown),
      cmocka_unit_test_setup_teardown(learns_from_edge_to_edge, setup, teardown),
      cmocka_unit_test_setup_teardown(pairs_have_the_ids_of_trl, setup, teardown),
      cmocka_unit_test_setup_teardown(reads_each_form, setup, teardown),
      cmocka_unit_test_setup_teardown(reads_prompts, setup, teardown),
      cmocka_unit_test_setup_teardown(passes_on_what_a_line_has, setup, teardown),
      cmocka_unit_test_setup_teardown(reads_pairs, setup, teardown),
      cmocka_unit_test_setup_teardown(no_text_gets_two_begin_tokens, setup, teardown),
      cmocka_unit_test_setup_teardown(pairs_may_share_a_token, setup, teardown),
      cmocka_unit_test_setup_teardown(refuses_bad_conversations, setup, teardown),
      cmocka_unit_test_setup_teardown(counts_what_is_not_written, setup, teardown),
      cmocka_unit_test_setup_teardown(cuts_conversations, setup, teardown),
  };

  return cmocka_run_group_tests(tests, open_golden, close_all);
}
