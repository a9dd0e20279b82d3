/* test_dataset_pairs.c - tests lines of preferences: pairs, labelled answers, and mistakes in them.
 *
 * Judges: exact values worked out by hand from the contract. Text and tokens of one example against each
 * other. The rules of SFT lines (test_dataset.c). TRL 1.16's own trainers for eight kinds of tokenizer, 200
 * lines each (tests/golden/make_pairs_golden.py). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <jansson.h>

#include "dataset_case.h"
#include "reward/answers.h"

static void expect_pair(const tri_example *e, const char *chosen, const char *rejected, int n_prompt,
                        float margin) {
  expect_tokens(e, chosen, n_prompt);
  assert_non_null(e->rejected);
  expect_ids(e->rejected, e->n_rejected, rejected);
  assert_true(e->value == margin);
  assert_null(e->prompt);
  assert_null(e->answer);
}

static void reads_pairs(void **state) {
  static const char     text[] = "{\"prompt\":\"ab\",\"chosen\":\"cd\",\"rejected\":\"e\",\"margin\":1.5}\n\n"
                                 "{\"prompt\":\"ab\",\"chosen\":\"c$\",\"rejected\":\"\",\"label\":7}\n"
                                 "{\"prompt\":\"\",\"chosen\":\"x\",\"rejected\":\"yyy\",\"margin\":-3}\n";
  tri_data_opt          opt = options(TRI_DATA_PAIRS);
  tri_dataset          *d = open_text(text, &opt);
  const tri_data_stats *s = tri_dataset_stats(d);

  (void)state;
  assert_int_equal(tri_dataset_count(d), 3);
  expect_pair(tri_dataset_get(d, 0), "^abcd$", "^abe$", 3, 1.5f);
  expect_pair(tri_dataset_get(d, 1), "^abc$", "^ab$", 3, 0); /* its end token is already there */
  expect_pair(tri_dataset_get(d, 2), "^x$", "^yyy$", 1, -3);
  assert_int_equal(tri_dataset_get(d, 1)->id, 2); /* blank lines count */
  assert_int_equal(s->n_line, 4);
  assert_int_equal(s->n_token, 11 + 9 + 8);
  assert_int_equal(s->n_loss, 5 + 3 + 6);
  assert_int_equal(s->longest_prompt, 3);
  assert_int_equal(s->longest, 6);
  tri_dataset_close(&d);
}

static void reads_labelled_lines(void **state) {
  static const char text[] = "{\"prompt\":\"ab\",\"completion\":\"cd\",\"label\":true}\n"
                             "{\"prompt\":\"ab\",\"completion\":\"cd$\",\"label\":false,\"text\":\"e\"}\n"
                             "{\"tokens\":[5,6,7],\"prompt_tokens\":2,\"label\":true,\"prompt\":3}\n"
                             "{\"tokens\":[5,6,7],\"label\":false}\n"
                             "{\"prompt\":\"ab\",\"completion\":\"cd\",\"label\":1}\n"
                             "{\"prompt\":\"ab\",\"completion\":\"cd\",\"label\":0}\n";
  tri_data_opt      opt = options(TRI_DATA_LABELLED);
  tri_dataset      *d = open_text(text, &opt);

  (void)state;
  assert_int_equal(tri_dataset_count(d), 6);
  for (int i = 0; i < 6; i++) {
    assert_true(tri_dataset_get(d, i)->value == (i % 2 ? 0 : 1));
    assert_null(tri_dataset_get(d, i)->rejected);
    assert_int_equal(tri_dataset_get(d, i)->n_rejected, 0);
  }
  expect_tokens(tri_dataset_get(d, 0), "^abcd$", 3);
  expect_tokens(tri_dataset_get(d, 1), "^abcd$", 3);
  assert_int_equal(tri_dataset_get(d, 2)->n_prompt, 2);
  assert_int_equal(tri_dataset_get(d, 3)->n_prompt, 0);
  assert_int_equal(tri_dataset_stats(d)->n_loss, 3 + 3 + 1 + 2 + 3 + 3);
  tri_dataset_close(&d);
}

/* One file as text and as tokens gives the same examples and the same hash. */
static void expect_same(const char *text, const char *tokens, tri_data_kind kind) {
  tri_data_opt   opt = options(kind);
  tri_dataset   *a = open_text(text, &opt), *b;
  tri_data_stats stats;

  opt.encode = NULL; /* tokens need no tokenizer */
  b = open_text(tokens, &opt);
  assert_int_equal(tri_dataset_count(a), tri_dataset_count(b));
  stats = *tri_dataset_stats(a);
  stats.n_plain = 0; /* it counts only text */
  assert_memory_equal(&stats, tri_dataset_stats(b), sizeof stats);
  assert_true(tri_dataset_hash(a) == tri_dataset_hash(b));
  tri_dataset_close(&a);
  tri_dataset_close(&b);
}

static void takes_tokens_as_text(void **state) {
  (void)state;
  expect_same("{\"prompt\":\"ab\",\"chosen\":\"cd\",\"rejected\":\"e\",\"margin\":0.25}\n"
              "{\"prompt\":\"b\",\"chosen\":\"b\",\"rejected\":\"b\"}\n",
              "{\"chosen_tokens\":[1,100,101,102,103,2],\"rejected_tokens\":[1,100,101,104,2],"
              "\"prompt_tokens\":3,\"margin\":0.25,\"prompt\":5,\"messages\":[]}\n"
              "{\"chosen_tokens\":[1,101,101,2],\"rejected_tokens\":[1,101,101,2],\"prompt_tokens\":2}\n",
              TRI_DATA_PAIRS);
  expect_same("{\"prompt\":\"ab\",\"completion\":\"cd\",\"label\":true}\n",
              "{\"tokens\":[1,100,101,102,103,2],\"prompt_tokens\":3,\"label\":true}\n", TRI_DATA_LABELLED);
}

/* Nothing is added to tokens. Without prompt_tokens all but the first are learned. */
static void takes_tokens_without_a_prompt(void **state) {
  tri_data_opt opt = options(TRI_DATA_PAIRS);
  tri_dataset *d = open_text("{\"chosen_tokens\":[5,6],\"rejected_tokens\":[7,8,9]}\n"
                             "{\"chosen_tokens\":[5,6],\"rejected_tokens\":[7,8],\"prompt_tokens\":0}\n",
                             &opt);

  (void)state;
  assert_int_equal(tri_dataset_get(d, 0)->n_token, 2);
  assert_int_equal(tri_dataset_get(d, 0)->n_rejected, 3);
  assert_int_equal(tri_dataset_get(d, 0)->rejected[0], 7);
  assert_int_equal(tri_dataset_get(d, 0)->n_prompt, 0);
  assert_int_equal(tri_dataset_get(d, 1)->n_prompt, 0);
  assert_int_equal(tri_dataset_stats(d)->n_loss, 1 + 2 + 1 + 1);
  tri_dataset_close(&d);
}

static void reads_other_keys(void **state) {
  tri_data_opt opt = options(TRI_DATA_PAIRS);
  tri_dataset *d;

  (void)state;
  opt.prompt_key = "q";
  opt.chosen_key = "good";
  opt.rejected_key = "chosen";
  opt.margin_key = "gap";
  d = open_text("{\"q\":\"a\",\"good\":\"b\",\"chosen\":\"c\",\"rejected\":5,\"gap\":2,\"margin\":null}\n",
                &opt);
  expect_pair(tri_dataset_get(d, 0), "^ab$", "^ac$", 2, 2);
  tri_dataset_close(&d);
  opt = options(TRI_DATA_LABELLED);
  opt.prompt_key = "q";
  opt.completion_key = "rejected";
  opt.label_key = "chosen";
  d = open_text("{\"q\":\"a\",\"rejected\":\"b\",\"chosen\":true,\"label\":false}\n", &opt);
  expect_tokens(tri_dataset_get(d, 0), "^ab$", 2);
  assert_true(tri_dataset_get(d, 0)->value == 1);
  tri_dataset_close(&d);
  opt = options(TRI_DATA_SFT); /* one side of pairs, as read by `trireme score --completion-key chosen` */
  opt.completion_key = "chosen";
  d = open_text("{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"c\"}\n", &opt);
  expect_tokens(tri_dataset_get(d, 0), "^ab$", 2);
  tri_dataset_close(&d);
}

#define PAIR(rest)    "{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"c\"," rest "}"
#define TOKENS(rest)  "{\"chosen_tokens\":[5,6,7],\"rejected_tokens\":[5,6,8]," rest "}"
#define ANSWER(label) "{\"prompt\":\"a\",\"completion\":\"b\",\"label\":" label "}"

static void refuses_bad_pairs(void **state) {
  static const bad_line row[] = {
      {"{", "tri_jsonl_next() } 1"},
      {"[]", "tri_jsonl_next()"},
      {"{}", "tri_foreign_refuse() `chosen` data.chosen_key !rejected"},
      {"{\"prompt\":\"a\",\"rejected\":\"b\"}",
       "tri_foreign_refuse() `chosen` data.chosen_key prompt rejected"},
      {"{\"prompt\":\"a\",\"chosen\":\"b\"}",
       "tri_foreign_refuse() `rejected` data.rejected_key prompt chosen"},
      {"{\"prompt\":\"a\",\"chosen\":\"b\",\"rejct\":\"c\"}",
       "tri_foreign_refuse() rejected data.rejected_key prompt chosen rejct"},
      {"{\"prompt\":\"a\",\"chsoen\":\"b\",\"rejected\":\"c\"}",
       "tri_foreign_refuse() chosen data.chosen_key prompt chsoen rejected"},
      {"{\"prompt\":\"a\",\"completion\":\"b\",\"label\":true}",
       "take_pair_text() completion chosen rejected"},
      {"{\"tokens\":[5,6,7],\"prompt_tokens\":1}", "tri_foreign_refuse() chosen prompt_tokens"},
      {"{\"chosen\":\"ab\",\"rejected\":\"ac\"}",
       "tri_foreign_refuse() a.jsonl:3 prompt chosen rejected data.prompt_key"},
      {"{\"prompt\":5,\"chosen\":\"b\",\"rejected\":\"c\"}", "get_text() prompt"},
      {"{\"prompt\":\"a\",\"chosen\":5,\"rejected\":\"c\"}", "get_text() chosen"},
      {"{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":null}", "get_text() rejected"},
      {"{\"prompt\":\"a\",\"chosen\":[{\"role\":\"user\"}],\"rejected\":\"c\"}",
       "check_content() `chosen`[0] content"},
      {"{\"messages\":[],\"chosen\":\"b\",\"rejected\":\"c\"}", "tri_foreign_refuse() prompt messages"},
      {PAIR("\"margin\":null"), "take_margin() margin !-3.40282e+38"},
      {PAIR("\"margin\":\"1\""), "take_margin() margin !-3.40282e+38"},
      {PAIR("\"margin\":true"), "take_margin() margin !-3.40282e+38"},
      {PAIR("\"margin\":[1]"), "take_margin() margin !-3.40282e+38"},
      {PAIR("\"margin\":NaN"), "tri_jsonl_refuse_odd() margin NaN"},
      {PAIR("\"margin\":1e999"), "tri_jsonl_refuse_odd() margin 1e999 64"},
      {PAIR("\"margin\":1e39"), "take_margin() margin 1e+39 -3.40282e+38 3.40282e+38"},
      {PAIR("\"margin\":-1e39"), "take_margin() margin -1e+39"},
      {TOKENS("\"margin\":{}"), "take_margin() margin !-3.40282e+38"},
      {PAIR("\"chosen_tokens\":[5,6]"),
       "tri_line_parser_refuse_missing() `rejected_tokens` prompt chosen_tokens"},
      {PAIR("\"rejected_tokens\":[5,6]"),
       "tri_line_parser_refuse_missing() `chosen_tokens` prompt rejected_tokens"},
      {"{\"chosen_tokens\":[],\"rejected_tokens\":[5,6]}", "tri_jsonl_ids() `chosen_tokens` 0"},
      {"{\"chosen_tokens\":[5,6],\"rejected_tokens\":\"b\"}", "tri_jsonl_ids() rejected_tokens !0"},
      {"{\"chosen_tokens\":null,\"rejected_tokens\":[5,6]}", "tri_jsonl_ids() `chosen_tokens` !0"},
      {"{\"chosen_tokens\":[5,6.5],\"rejected_tokens\":[5,6]}", "fail_entry() `chosen_tokens`[1]"},
      {"{\"chosen_tokens\":[5,6],\"rejected_tokens\":[5,300]}",
       "fail_entry() `rejected_tokens`[1] 300 0 299"},
      {"{\"chosen_tokens\":[5],\"rejected_tokens\":[5,6]}",
       "tri_line_parser_check_learned() chosen_tokens 1 0"},
      {"{\"chosen_tokens\":[5,6],\"rejected_tokens\":[5]}",
       "tri_line_parser_check_learned() rejected_tokens 1"},
      {TOKENS("\"prompt_tokens\":3"),
       "tri_line_parser_take_prompt_tokens() prompt_tokens 3 0 2 chosen_tokens"},
      {"{\"chosen_tokens\":[5,6,7],\"rejected_tokens\":[5,6],\"prompt_tokens\":2}",
       "tri_line_parser_take_prompt_tokens() prompt_tokens 2 0 1 rejected_tokens"},
      {TOKENS("\"prompt_tokens\":-1"), "tri_line_parser_take_prompt_tokens() prompt_tokens -1 0 2 3"},
      {TOKENS("\"prompt_tokens\":1.0"), "tri_line_parser_take_prompt_tokens() prompt_tokens !0"},
      {TOKENS("\"prompt_tokens\":null"), "tri_line_parser_take_prompt_tokens() prompt_tokens !0"},
      {"{\"chosen_tokens\":[5,6,7],\"rejected_tokens\":[5,9,8],\"prompt_tokens\":2}",
       "take_pair_tokens() `chosen_tokens`[1] 6 `rejected_tokens`[1] 9 2 (`prompt_tokens`)"},
  };
  tri_data_opt opt = options(TRI_DATA_PAIRS);

  (void)state;
  refuse_each(row, sizeof row / sizeof *row, PAIR("\"margin\":1"), &opt);
}

static void refuses_bad_labels(void **state) {
  static const bad_line row[] = {
      {"{", "tri_jsonl_next() } 1"},
      {"{}", "tri_foreign_refuse() `prompt` data.prompt_key !label"},
      {"{\"text\":\"ab\",\"label\":true}", "tri_foreign_refuse() prompt text label"},
      {"{\"completion\":\"ab\",\"label\":true}",
       "tri_foreign_refuse() prompt completion label data.prompt_key"},
      {"{\"prompt\":\"ab\",\"label\":true}", "tri_foreign_refuse() completion data.completion_key"},
      {"{\"prompt\":\"a\",\"completion\":5,\"label\":true}", "get_text() completion"},
      {"{\"prompt\":null,\"completion\":\"b\",\"label\":true}", "get_text() prompt"},
      {"{\"prompt\":\"a\",\"completion\":\"b\"}",
       "tri_foreign_refuse() `label` data.label_key prompt completion"},
      {"{\"prompt\":\"a\",\"completion\":\"b\",\"lable\":true}",
       "tri_foreign_refuse() label data.label_key prompt completion lable"},
      {ANSWER("2"),
       "tri_line_parser_refuse_label() label 2 1 0 jq -c '.label |= if type == \"number\" then . > 0 "
       "else . end' a.jsonl"},
      {ANSWER("-1"), "tri_line_parser_refuse_label() label -1 1 0 a.jsonl"},
      {ANSWER("0.0"), "tri_line_parser_refuse_label() label 0.0 1 0 a.jsonl"}, /* perhaps a score */
      {ANSWER("\"True\""), "tri_line_parser_refuse_label() label True 1 0 jq -c '.label |= (tostring | "
                           "ascii_downcase | if IN( a.jsonl"},
      {ANSWER("\"1\""), "tri_line_parser_refuse_label() label 1 0 a.jsonl ascii_downcase"},
      {ANSWER("\"good\""), "tri_line_parser_refuse_label() label good 1 0"},
      {ANSWER("null"),
       "tri_line_parser_refuse_label() label null 1 0 jq -c 'select(.label != null)' a.jsonl"},
      {ANSWER("[true]"), "tri_line_parser_refuse_label() label 1 0 !a.new.jsonl !good"},
      {"{\"tokens\":[5,6]}", "tri_foreign_refuse() label data.label_key tokens"},
      {"{\"tokens\":[5,6],\"label\":2}", "tri_line_parser_refuse_label() label 2 a.jsonl"},
      {"{\"tokens\":[5],\"label\":true}", "tri_line_parser_check_learned() 1 0"},
      {"{\"tokens\":[5,6],\"prompt_tokens\":2,\"label\":true}",
       "tri_line_parser_take_prompt_tokens() prompt_tokens 2 0 1"},
      {"{\"tokens\":[],\"label\":true}", "tri_jsonl_ids() tokens"},
      {"{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"c\"}", "tri_foreign_refuse_pair() chosen a.jsonl"},
      {"{\"messages\":[],\"label\":true}", "take_messages() messages"},
  };
  tri_data_opt opt = options(TRI_DATA_LABELLED);

  (void)state;
  refuse_each(row, sizeof row / sizeof *row, ANSWER("true"), &opt);
}

/* Without an end token, an empty answer has nothing to learn. */
static void refuses_answers_without_tokens(void **state) {
  static const bad_line pair[] = {
      {"{\"prompt\":\"a\",\"chosen\":\"\",\"rejected\":\"c\"}", "tri_line_parser_check_learned() chosen 2"},
      {"{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"\"}",
       "tri_line_parser_check_learned() rejected 2"}};
  static const bad_line label[] = {
      {"{\"prompt\":\"a\",\"completion\":\"\",\"label\":true}", "tri_line_parser_check_learned() 2"}};
  tri_data_opt opt = options(TRI_DATA_PAIRS);

  (void)state;
  opt.end.completion = -1;
  refuse_each(pair, 2, PAIR("\"x\":0"), &opt);
  opt.kind = TRI_DATA_LABELLED;
  refuse_each(label, 1, ANSWER("true"), &opt);
  opt = options(TRI_DATA_PAIRS);
  opt.encode = NULL;
  expect_refused(PAIR("\"x\":0"), sizeof PAIR("\"x\":0") - 1, &opt, TRI_EINPUT,
                 "need_tokenizer() prompt tokenizer.json chosen_tokens rejected_tokens");
}

static void limits_pairs(void **state) {
  static const char text[] = "{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"c\"}\n"
                             "{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"cdef\"}\n"
                             "{\"prompt\":\"abc\",\"chosen\":\"defghi\",\"rejected\":\"j\"}\n";
  tri_data_opt      opt = options(TRI_DATA_PAIRS);
  tri_dataset      *d;

  (void)state;
  opt.max_total_tokens = 5;
  expect_refused(text, sizeof text - 1, &opt, TRI_EINPUT, "refuse_too_long() has 7 5 data.overlong 2 3 11");
  opt.overlong = opt.overlong_prompt = TRI_OVERLONG_DROP;
  d = open_text(text, &opt);
  assert_int_equal(tri_dataset_count(d), 1);
  assert_int_equal(tri_dataset_stats(d)->n_dropped, 2);
  assert_int_equal(tri_dataset_stats(d)->longest, 4);
  tri_dataset_close(&d);
  opt.overlong = opt.overlong_prompt = TRI_OVERLONG_TRUNCATE;
  opt.max_prompt_tokens = 3;
  d = open_text(text, &opt);
  expect_pair(tri_dataset_get(d, 0), "^ab$", "^ac$", 2, 0);
  expect_pair(tri_dataset_get(d, 1), "^ab$", "^acde", 2, 0);
  expect_pair(tri_dataset_get(d, 2), "abcde", "abcj$", 3, 0);
  assert_int_equal(tri_dataset_stats(d)->n_truncated, 2);
  assert_int_equal(tri_dataset_stats(d)->longest, 5);
  tri_dataset_close(&d);
  opt.max_prompt_tokens = 0;
  opt.max_total_tokens = 3;
  d = open_text(text, &opt);
  expect_pair(tri_dataset_get(d, 2), "bcd", "bcj", 2, 0); /* the prompt leaves space on both sides */
  tri_dataset_close(&d);
}

/* Each of these differs from the first in one learned thing. */
static void hashes_preferences(void **state) {
  static const char *const pair[] = {PAIR("\"margin\":1"),
                                     PAIR("\"margin\":2"),
                                     PAIR("\"x\":1"),
                                     "{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"d\",\"margin\":1}",
                                     "{\"prompt\":\"a\",\"chosen\":\"e\",\"rejected\":\"c\",\"margin\":1}",
                                     "{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"cc\",\"margin\":1}"};
  static const char *const label[] = {ANSWER("true"), ANSWER("false")};
  int64_t                  hash[8];
  tri_data_opt             opt = options(TRI_DATA_PAIRS);
  tri_dataset             *d;

  (void)state;
  for (int i = 0; i < 8; i++) {
    if (i == 6) opt = options(TRI_DATA_LABELLED);
    d = open_text(i < 6 ? pair[i] : label[i - 6], &opt);
    hash[i] = tri_dataset_hash(d);
    tri_dataset_close(&d);
    for (int j = 0; j < i; j++) assert_true(hash[i] != hash[j]);
  }
}

/* ---- against TRL's trainers ---- */

/* One kind of tokenizer and its lines. */
typedef struct golden_kind {
  const json_t *kind; /* both borrowed */
  json_t       *line;
  tri_encoder   encoder;
  tri_data_opt  opt; /* for every kind of data */
} golden_kind;

static const char *const single[][2] = {{"prompt", "prompt"}, {"completion", "chosen"}};
static const char *const pair[][2] = {{"prompt", "prompt"}, {"chosen", "chosen"}, {"rejected", "rejected"}};

/* Writes a file of the lines with these members, each given by its name in the file and its name in the
 * golden line. */
static void put_lines(const json_t *lines, const char *const (*member)[2], size_t n_member) {
  tri_text all = {0};
  size_t   i;
  json_t  *row;

  json_array_foreach(lines, i, row) {
    json_t *o = json_pack("{s:b}", "label", 1);
    char   *text;
    for (size_t k = 0; k < n_member; k++) {
      const json_t *v = json_object_get(row, member[k][1]);
      assert_non_null(v);
      json_object_set_new(o, member[k][0], json_copy((json_t *)v));
    }
    text = json_dumps(o, JSON_COMPACT);
    assert_int_equal(tri_text_put(&all, text, strlen(text)), TRI_OK);
    assert_int_equal(tri_text_put(&all, "\n", 1), TRI_OK);
    free(text);
    json_decref(o);
  }
  put_file(path_a, all.data, all.len);
  tri_text_free(&all);
}

static tri_dataset *open_golden(const golden_kind *g, tri_data_kind kind) {
  const char  *file[] = {path_a};
  tri_data_opt opt = g->opt;
  tri_dataset *d;

  opt.kind = kind;
  if (tri_dataset_open(file, 1, &opt, &d) != TRI_OK) fail_msg("%s", tri_error_message());
  return d;
}

/* Expects id [n] to equal `want`, and the first n_shared of them to equal `shared`. */
static void expect_golden(const char *kind, size_t line, const int32_t *id, int n, const json_t *shared,
                          size_t n_shared, const json_t *want) {
  if ((size_t)n != n_shared + json_array_size(want))
    fail_msg("%s, line %zu: %d tokens, TRL has %zu", kind, line, n, n_shared + json_array_size(want));
  for (size_t i = 0; i < (size_t)n; i++) {
    json_int_t id_want =
        json_integer_value(i < n_shared ? json_array_get(shared, i) : json_array_get(want, i - n_shared));
    if (id[i] != id_want)
      fail_msg("%s, line %zu: token %zu is %d, TRL's is %lld", kind, line, i, id[i], (long long)id_want);
  }
}

static int golden_int(const json_t *row, const char *name) {
  return (int)json_integer_value(json_object_get(row, name));
}

static void golden_singles(const char *name, const golden_kind *g, tri_data_kind kind) {
  tri_dataset *d;
  size_t       i;
  json_t      *row;

  put_lines(g->line, single, 2);
  d = open_golden(g, kind);
  assert_int_equal(tri_dataset_count(d), json_array_size(g->line));
  json_array_foreach(g->line, i, row) {
    const tri_example *e = tri_dataset_get(d, (int64_t)i);
    expect_golden(name, i, e->token, e->n_token, NULL, 0, json_object_get(row, "ids"));
    if (e->n_prompt != golden_int(row, "n"))
      fail_msg("%s, line %zu: loss begins at %d, TRL's at %d", name, i, e->n_prompt, golden_int(row, "n"));
    assert_null(e->skip);
  }
  tri_dataset_close(&d);
}

static void golden_pairs(const char *name, const golden_kind *g) {
  tri_dataset *d;
  size_t       i;
  json_t      *row;

  put_lines(g->line, pair, 3);
  d = open_golden(g, TRI_DATA_PAIRS);
  assert_int_equal(tri_dataset_count(d), json_array_size(g->line));
  json_array_foreach(g->line, i, row) {
    const tri_example *e = tri_dataset_get(d, (int64_t)i);
    const json_t      *ids = json_object_get(row, "ids");
    int                n = golden_int(row, "n_pair");
    expect_golden(name, i, e->token, e->n_token, NULL, 0, ids);
    if (e->n_prompt != n) fail_msg("%s, line %zu: loss begins at %d, TRL's at %d", name, i, e->n_prompt, n);
    expect_golden(name, i, e->rejected, e->n_rejected, ids, (size_t)n, json_object_get(row, "rejected_ids"));
    assert_null(e->skip);
    assert_null(e->rejected_skip);
  }
  assert_int_equal(tri_dataset_stats(d)->n_joined, golden_int(g->kind, "joined"));
  tri_dataset_close(&d);
}

/* Every fourth line is given as `text`, prompt and rejected answer in one. */
static void golden_texts(const char *name, const golden_kind *g) {
  static const char *const member[][2] = {{"text", "text"}};
  json_t                  *texts = json_array(), *row;
  tri_dataset             *d;
  size_t                   i;

  json_array_foreach(g->line, i, row) {
    if (json_object_get(row, "text_ids"))
      json_array_append_new(texts, json_pack("{s:s++, s:O}", "text",
                                             json_string_value(json_object_get(row, "prompt")),
                                             json_string_value(json_object_get(row, "rejected")), "", "ids",
                                             json_object_get(row, "text_ids")));
  }
  put_lines(texts, member, 1);
  d = open_golden(g, TRI_DATA_SFT);
  assert_int_equal(tri_dataset_count(d), json_array_size(texts));
  json_array_foreach(texts, i, row) {
    const tri_example *e = tri_dataset_get(d, (int64_t)i);
    expect_golden(name, i, e->token, e->n_token, NULL, 0, json_object_get(row, "ids"));
    assert_int_equal(e->n_prompt, 0);
  }
  tri_dataset_close(&d);
  json_decref(texts);
}

/* The lines left by max_length are TRL's. They are cut to their first tokens, and dropped if no learned token
 * would be left. A reward model's line is dropped if a side is longer. */
static void golden_limited(const char *name, const golden_kind *all, const json_t *dropped, int64_t most) {
  static const struct {
    const char   *trainer;
    tri_data_kind kind;
    tri_overlong  how;
  } row[] = {{"sft", TRI_DATA_SFT, TRI_OVERLONG_TRUNCATE},
             {"kto", TRI_DATA_LABELLED, TRI_OVERLONG_TRUNCATE},
             {"dpo", TRI_DATA_PAIRS, TRI_OVERLONG_TRUNCATE},
             {"rm", TRI_DATA_PAIRS, TRI_OVERLONG_DROP}};
  golden_kind g = *all;

  for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
    const json_t *list = json_object_get(dropped, row[k].trainer);
    size_t        n = 0, n_dropped = json_array_size(list);
    tri_dataset  *d;
    if (row[k].kind == TRI_DATA_PAIRS)
      put_lines(g.line, pair, 3);
    else
      put_lines(g.line, single, 2);
    g.opt.max_total_tokens = most;
    g.opt.overlong = row[k].how;
    d = open_golden(&g, row[k].kind);
    assert_true(n_dropped > 10 && n_dropped < 190);
    for (size_t i = 0; i < json_array_size(g.line); i++) {
      const tri_example *e = tri_dataset_find(d, (int64_t)i);
      bool               gone = n < n_dropped && (size_t)json_integer_value(json_array_get(list, n)) == i;
      if (gone == (e != NULL))
        fail_msg("%s, %s, line %zu: %s", name, row[k].trainer, i, e ? "kept" : "dropped");
      n += gone;
      assert_true(!e || (e->n_token <= most && e->n_rejected <= most));
    }
    assert_int_equal(tri_dataset_stats(d)->n_dropped, n_dropped);
    tri_dataset_close(&d);
  }
}

static golden_kind open_kind(const json_t *row) {
  golden_kind    g = {.kind = row, .line = json_object_get(row, "line")};
  bool           own = json_is_true(json_object_get(row, "own"));
  tri_tokenizer *tokenizer;
  char           path[512];
  int            end = golden_int(row, "end_id");

  snprintf(path, sizeof path, "%s/%s/%s.json", TRI_TEST_DATA, own ? "pairs" : "tokenizer",
           json_string_value(json_object_get(row, "name")));
  if (tri_tokenizer_open(path, &tokenizer) != TRI_OK) fail_msg("%s", tri_error_message());
  g.encoder.tokenizer = tokenizer;
  g.opt = (tri_data_opt){.vocab = golden_int(row, "vocab"),
                         .end = {end, end, tri_encoder_spells},
                         .max_total_name = "the test's limit",
                         .from_deck = true,
                         .encode = tri_encoder_run};
  return g;
}

static void close_kind(golden_kind *g) {
  tri_tokenizer *tokenizer = (tri_tokenizer *)g->encoder.tokenizer;

  tri_encoder_free(&g->encoder);
  tri_tokenizer_close(&tokenizer);
}

static void reads_text_pairs_as_trl(void **state) {
  json_error_t error;
  json_t      *root = json_load_file(TRI_TEST_DATA "/pairs/golden.json", 0, &error), *kind;
  size_t       i;

  (void)state;
  if (!root) fail_msg("golden.json: %s", error.text);
  json_array_foreach(json_object_get(root, "kind"), i, kind) {
    const char *name = json_string_value(json_object_get(kind, "name"));
    golden_kind g = open_kind(kind);
    g.opt.ctx = &g.encoder;
    assert_int_equal(json_array_size(g.line), 200);
    golden_singles(name, &g, TRI_DATA_SFT);
    golden_singles(name, &g, TRI_DATA_LABELLED);
    golden_singles(name, &g, TRI_DATA_SCORE);
    golden_pairs(name, &g);
    golden_texts(name, &g);
    golden_limited(name, &g, json_object_get(kind, "dropped"), golden_int(root, "max_length"));
    close_kind(&g);
  }
  assert_int_equal(i, 8);
  json_decref(root);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest test[] = {
      CASE(reads_pairs),
      CASE(reads_labelled_lines),
      CASE(takes_tokens_as_text),
      CASE(takes_tokens_without_a_prompt),
      CASE(reads_other_keys),
      CASE(refuses_bad_pairs),
      CASE(refuses_bad_labels),
      CASE(refuses_answers_without_tokens),
      CASE(limits_pairs),
      CASE(hashes_preferences),
      CASE(reads_text_pairs_as_trl),
  };
  return cmocka_run_group_tests(test, NULL, NULL);
}
