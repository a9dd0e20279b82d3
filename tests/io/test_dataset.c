/* test_dataset.c - tests data files, their bad lines, and the order of an epoch.
 *
 * Judges: exact values worked out by hand from the contract. For an order, that it is a permutation, and the
 * same formula in another program. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/error_list.h"
#include "dataset_case.h"
#include "refusal_case.h"

static void reads_rl_lines(void **state) {
  static const char text[] =
      "\xef\xbb\xbf{\"prompt\":\"2+3=\",\"answer\":\"5\",\"other\":[1]}\r\n"
      "\n  \t\r\n"
      "{\"answer\":3.50,\"prompt\":\"x\\u0000y\"}\n"
      "{\"tokens\":[7,8,9],\"answer\":-12}\n"
      "{\"tokens\":[7,8,9],\"prompt_tokens\":2,\"prompt\":\"seven\",\"a\":{\"answer\":1},\"answer\" : 1e5 }";
  tri_data_opt          opt = options(TRI_DATA_RL);
  tri_dataset          *d = open_text(text, &opt);
  const tri_example    *e;
  const tri_data_stats *s = tri_dataset_stats(d);

  (void)state;
  assert_int_equal(tri_dataset_count(d), 4);
  e = tri_dataset_get(d, 0);
  expect_tokens(e, "^2+3=", 5);
  assert_int_equal(e->id, 0);
  assert_string_equal(e->prompt, "2+3=");
  assert_string_equal(e->answer, "5");
  assert_int_equal(e->answer_bytes, 1);
  e = tri_dataset_get(d, 1);
  assert_int_equal(e->id, 3); /* blank lines count */
  assert_int_equal(e->prompt_bytes, 3);
  assert_memory_equal(e->prompt, "x\0y", 4);
  assert_int_equal(e->n_token, 4);
  assert_int_equal(e->token[2], FIRST_BYTE);
  assert_string_equal(e->answer, "3.50"); /* as spelled in the file */
  e = tri_dataset_get(d, 2);
  assert_int_equal(e->n_token, 3);
  assert_int_equal(e->n_prompt, 3);
  assert_null(e->prompt);
  assert_string_equal(e->answer, "-12");
  e = tri_dataset_get(d, 3);
  assert_int_equal(e->n_token, 2);
  assert_int_equal(e->token[1], 8);
  assert_string_equal(e->prompt, "seven");
  assert_string_equal(e->answer, "1e5");
  assert_int_equal(s->n_line, 6);
  assert_int_equal(s->n_token, 5 + 4 + 3 + 2);
  assert_int_equal(s->longest_prompt, 5);
  assert_int_equal(s->longest, 5);
  assert_int_equal(s->n_dropped, 0);
  tri_dataset_close(&d);
  assert_null(d);
  tri_dataset_close(&d);
}

static void reads_prompts_by_other_keys(void **state) {
  tri_data_opt opt = options(TRI_DATA_PROMPTS);
  tri_dataset *d;

  (void)state;
  opt.prompt_key = "question";
  opt.answer_key = "sol\"ution";
  d = open_text("{\"question\":\"a\",\"sol\\\"ution\":7,\"prompt\":3}\n{\"question\":\"b\"}\n"
                "{\"question\":\"c\",\"sol\\\"ution\":null}\n{\"question\":\"d\",\"sol\\u0022ution\":0.10}\n",
                &opt);
  assert_int_equal(tri_dataset_count(d), 4);
  assert_string_equal(tri_dataset_get(d, 0)->answer, "7");
  assert_null(tri_dataset_get(d, 1)->answer);
  assert_null(tri_dataset_get(d, 2)->answer);
  assert_string_equal(tri_dataset_get(d, 3)->answer, "0.10");
  expect_tokens(tri_dataset_get(d, 3), "^d", 2);
  tri_dataset_close(&d);
}

/* Reading ends when the lines' memory is used up, whatever a file unpacks to. The message names the line. */
static void lines_that_outgrow_memory_are_refused(void **state) {
  static const char line[] = "{\"prompt\":\"2+3=\",\"answer\":\"5\"}\n";
  enum { LINES = 40000 };
  tri_data_opt opt = options(TRI_DATA_RL);
  tri_text     all = {0};

  (void)state;
  for (int i = 0; i < LINES; i++) assert_int_equal(tri_text_put(&all, line, sizeof line - 1), TRI_OK);
  opt.most_bytes = 4 << 20;
  expect_refused(all.data, all.len, &opt, TRI_EINPUT, "check_memory() 5.0 MiB 4.0");
  opt.most_bytes = 1 << 30;
  tri_dataset *d = open_bytes(all.data, all.len, &opt);
  assert_int_equal(tri_dataset_count(d), LINES);
  tri_dataset_close(&d);
  tri_text_free(&all);
}

static void keeps_fields(void **state) {
  static const char line[] =
      "{\"prompt\":\"a\", \"answer\" : 1.50,\"id\":7,\"re\\u0073ponse\":[], \"\\u0061\\\"\": {\"id\": "
      "[1, \"x,}\"]}, \"n\":-0e1 }\n{\"prompt\":\"b\",\"answer\":2}\n";
  tri_data_opt opt = options(TRI_DATA_RL);
  tri_dataset *d = open_text(line, &opt);
  int64_t      hash = tri_dataset_hash(d);

  (void)state;
  assert_null(tri_dataset_get(d, 0)->fields);
  tri_dataset_close(&d);
  opt.keep_fields = true;
  d = open_text(line, &opt);
  assert_string_equal(tri_dataset_get(d, 0)->fields,
                      "\"answer\" : 1.50, \"\\u0061\\\"\": {\"id\": [1, \"x,}\"]}, \"n\":-0e1, ");
  assert_int_equal(tri_dataset_get(d, 0)->fields_bytes, strlen(tri_dataset_get(d, 0)->fields));
  assert_string_equal(tri_dataset_get(d, 1)->fields, "\"answer\":2, ");
  assert_true(tri_dataset_hash(d) != hash);
  tri_dataset_close(&d);
}

/* Unread values are ignored, even in the spelling of Python's json, and go to the rewards as they are
 * spelled. A number as answer is taken as it is written. */
static void passes_odd_values_by(void **state) {
  static const char text[] =
      "{\"x\":NaN,\"prompt\":\"a\",\"answer\":123456789012345678901234567890,"
      "\"y\":[-Infinity,{\"z\":1E+400}]}\r\n"
      "{\"prompt\":\"b\",\"x\":\"\\ud83d and \\ude00\",\"answer\":-1e999,"
      "\"\\udc00\\u0000\":Infinity,\"messages\":NaN}\n"
      "{\"prompt\":\"\\ud83d\\ude00\",\"answer\":\"NaN\",\"tools\":NaN,\"n\":-9223372036854775809 }\n"
      "{\"prompt\":\"c\",\"answer\":-9223372036854775808}\n";
  static const char *const answer[] = {"123456789012345678901234567890", "-1e999", "NaN",
                                       "-9223372036854775808"};
  tri_data_opt             opt = options(TRI_DATA_RL);
  tri_dataset             *d;

  (void)state;
  opt.keep_fields = true;
  d = open_text(text, &opt);
  assert_int_equal(tri_dataset_count(d), 4);
  for (int i = 0; i < 4; i++) {
    assert_string_equal(tri_dataset_get(d, i)->answer, answer[i]);
    assert_int_equal(tri_dataset_get(d, i)->answer_bytes, strlen(answer[i]));
    assert_int_equal(tri_dataset_get(d, i)->answer_is_number, i != 2);
  }
  assert_string_equal(tri_dataset_get(d, 0)->fields, "\"x\":NaN, \"answer\":123456789012345678901234567890, "
                                                     "\"y\":[-Infinity,{\"z\":1E+400}], ");
  assert_string_equal(
      tri_dataset_get(d, 1)->fields,
      "\"x\":\"\\ud83d and \\ude00\", \"answer\":-1e999, \"\\udc00\\u0000\":Infinity, \"messages\":NaN, ");
  assert_string_equal(tri_dataset_get(d, 2)->prompt, "\xf0\x9f\x98\x80");
  tri_dataset_close(&d);
  opt = options(TRI_DATA_SFT);
  d = open_text("{\"prompt\":\"a\",\"completion\":\"b\",\"answer\":NaN,\"margin\":NaN,\"label\":1e999}\n",
                &opt);
  expect_tokens(tri_dataset_get(d, 0), "^ab$", 2);
  tri_dataset_close(&d);
}

/* A key may be a path into inner objects. A member with the whole name wins. */
static void reads_keys_by_path(void **state) {
  static const char text[] =
      "{\"q\":{\"text\":\"ab\"},\"reward_model\":{\"style\":\"rule\",\"ground_truth\":1.50}}\n"
      "{\"q.text\":\"c\",\"q\":{\"text\":\"d\"},\"reward_model\":{\"ground_truth\":{\"x\":0},"
      "\"ground_truth.x\":1},"
      "\"reward_model.ground_truth\":\"this\"}\n"
      "{\"q\":{\"text\":\"e\"},\"reward_model\":{\"ground_truth\":\"\\\"}\",\"x\":[{}]}}\n"
      "{\"q\":{\"text\":\"f\"},\"reward_model\":{\"x\":NaN,\"ground_truth\":12345678901234567890}}\n";
  static const bad_line row[] = {
      {"{\"q\":{\"text\":\"a\"},\"reward_model\":{\"truth\":1}}",
       "tri_foreign_refuse() reward_model.ground_truth reward_model q.text"},
      {"{\"q\":{\"text\":\"a\"},\"reward_model\":7}",
       "tri_foreign_refuse() reward_model.ground_truth reward_model q.text"},
      {"{\"q\":{\"text\":\"a\"},\"extra\":{\"deep\":{\"ground_truth\":2}}}",
       "tri_foreign_refuse() reward_model.ground_truth q.text extra.deep.ground_truth"},
      {"{\"q\":{\"text\":\"a\"},\"reward_model\":{\"ground_truth\":NaN}}",
       "tri_jsonl_refuse_odd() reward_model.ground_truth NaN"},
  };
  static const char *const prompt[] = {"ab", "c", "e", "f"};
  static const char *const answer[] = {"1.50", "this", "\"}", "12345678901234567890"};
  tri_data_opt             opt = options(TRI_DATA_RL);
  tri_dataset             *d;

  (void)state;
  opt.prompt_key = "q.text";
  opt.answer_key = "reward_model.ground_truth";
  d = open_text(text, &opt);
  for (int i = 0; i < 4; i++) {
    assert_string_equal(tri_dataset_get(d, i)->prompt, prompt[i]);
    assert_string_equal(tri_dataset_get(d, i)->answer, answer[i]);
  }
  tri_dataset_close(&d);
  refuse_each(row, sizeof row / sizeof *row, "{\"q\":{\"text\":\"a\"},\"reward_model\":{\"ground_truth\":1}}",
              &opt);
  opt = options(TRI_DATA_PAIRS);
  opt.prompt_key = "in.p";
  opt.chosen_key = "out.good";
  opt.rejected_key = "out.bad";
  opt.margin_key = "in.margin";
  d = open_text("{\"in\":{\"p\":\"a\",\"margin\":2},\"out\":{\"good\":\"b\",\"bad\":\"c\"}}\n", &opt);
  expect_tokens(tri_dataset_get(d, 0), "^ab$", 2);
  assert_true(tri_dataset_get(d, 0)->value == 2);
  tri_dataset_close(&d);
  opt = options(TRI_DATA_LABELLED);
  opt.completion_key = "out.text";
  opt.label_key = "out.good";
  d = open_text("{\"prompt\":\"a\",\"out\":{\"text\":\"b\",\"good\":true}}\n", &opt);
  expect_tokens(tri_dataset_get(d, 0), "^ab$", 2);
  assert_true(tri_dataset_get(d, 0)->value == 1);
  tri_dataset_close(&d);
}

static void reads_sft_lines(void **state) {
  tri_data_opt opt = options(TRI_DATA_SFT);
  tri_dataset *d =
      open_text("{\"prompt\":\"ab\",\"completion\":\"cd\"}\n"
                "{\"prompt\":\"ab\",\"completion\":\"cd$\"}\n" /* its end token is already there */
                "{\"prompt\":\"ab$\",\"completion\":\"\"}\n"
                "{\"text\":\"xyz\"}\n{\"text\":\"xyz$\"}\n"
                "{\"tokens\":[5,6,7],\"text\":\"not this\"}\n"
                "{\"tokens\":[5,6,7],\"prompt_tokens\":2}\n",
                &opt);

  (void)state;
  assert_int_equal(tri_dataset_count(d), 7);
  expect_tokens(tri_dataset_get(d, 0), "^abcd$", 3);
  expect_tokens(tri_dataset_get(d, 1), "^abcd$", 3);
  expect_tokens(tri_dataset_get(d, 2), "^ab$$", 4);
  expect_tokens(tri_dataset_get(d, 3), "^xyz$", 0);
  expect_tokens(tri_dataset_get(d, 4), "^xyz$", 0);
  assert_int_equal(tri_dataset_get(d, 5)->n_token, 3); /* nothing is added to tokens */
  assert_int_equal(tri_dataset_get(d, 5)->n_prompt, 0);
  assert_int_equal(tri_dataset_get(d, 6)->n_prompt, 2);
  assert_null(tri_dataset_get(d, 0)->prompt);
  assert_int_equal(tri_dataset_stats(d)->n_loss, 3 + 3 + 1 + 4 + 4 + 2 + 1);
  tri_dataset_close(&d);
}

static void reads_score_lines(void **state) {
  tri_data_opt opt = options(TRI_DATA_SCORE);
  tri_dataset *d = open_text("{\"text\":\"xyz\"}\n{\"prompt\":\"\",\"completion\":\"c\"}\n{\"tokens\":[5]}\n"
                             "{\"tokens\":[5,6],\"prompt_tokens\":2}\n",
                             &opt);

  (void)state;
  expect_tokens(tri_dataset_get(d, 0), "^xyz", 0);
  expect_tokens(tri_dataset_get(d, 1), "^c$", 1);
  assert_int_equal(tri_dataset_get(d, 2)->n_token, 1);
  assert_int_equal(tri_dataset_get(d, 3)->n_prompt, 2);
  tri_dataset_close(&d);
}

static void needs_no_tokenizer_for_tokens(void **state) {
  static const char text[] = "{\"tokens\":[5,6]}\n{\"prompt\":\"a\",\"completion\":\"b\"}\n";
  tri_data_opt      opt = options(TRI_DATA_SFT);
  tri_dataset      *d;

  (void)state;
  opt.encode = NULL;
  d = open_text("{\"tokens\":[5,6]}\n", &opt);
  tri_dataset_close(&d);
  expect_refused(text, sizeof text - 1, &opt, TRI_EINPUT, "need_tokenizer() a.jsonl:2 prompt tokenizer.json");
}

static void refuses_bad_lines_of_every_kind(void **state) {
  static const bad_line row[] = {
      {"{", "tri_jsonl_next()"},
      {"x", "tri_jsonl_next()"},
      {"{\"prompt\":\"a\"} {}", "tri_jsonl_next()"},
      {"{\"prompt\":\"a\",}", "tri_jsonl_next()"},
      {"{'prompt':'a'}", "tri_jsonl_next()"},
      {"{\"prompt\":\"\xff\"}", "tri_jsonl_next()"},
      {"{\"prompt\":\"\\ud800\"}", "tri_jsonl_refuse_odd() `prompt` \"\\ud800\" \\udfff"},
      {"{\"prompt\":NaN}", "tri_jsonl_refuse_odd() prompt NaN"},
      {"{\"prompt\":[{\"role\":\"user\",\"content\":\"a\",\"weight\":-Infinity}]}",
       "tri_jsonl_refuse_odd() prompt -Infinity"},
      {"{\"prompt\":[{\"role\":\"user\",\"content\":\"a\"},12345678901234567890]}",
       "tri_jsonl_refuse_odd() prompt 12345678901234567890 64"},
      {"{\"prompt\":[{\"role\":\"user\",\"content\":\"a\",\"\\udc00\":1}]}",
       "tri_jsonl_refuse_odd() prompt \\udc00"},
      {"{\"tokens\":[5,1e999]}", "tri_jsonl_refuse_odd() tokens 1e999"},
      {"{\"prompt\":\"a\",\"x\":nan}", "tri_jsonl_next()"},
      {"{\"prompt\":\"a\",\"x\":NaNs}", "tri_jsonl_next()"},
      {"{\"prompt\":\"a\",\"x\":[NaN 1]}", "tri_jsonl_next() ] 1"},
      {"{\"prompt\":\"a\",\"x\":01e999}", "tri_jsonl_next()"},
      {"{\"prompt\":\"a\",\"x\":+Infinity}", "tri_jsonl_next()"},
      {"[]", "tri_jsonl_next() a.jsonl:3"},
      {"\"prompt\"", "tri_jsonl_next() a.jsonl:3"},
      {"3", "tri_jsonl_next() a.jsonl:3"},
      {"null", "tri_jsonl_next() a.jsonl:3"},
      {"{\"prompt\":\"a\",\"prompt\":\"a\"}", "tri_jsonl_next() prompt 22"},
      {"{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"c\"}", "tri_foreign_refuse_pair() chosen"},
      {"{\"prompt\":\"a\",\"rejected\":\"c\"}", "tri_foreign_refuse_pair() rejected"},
      {"{\"tokens\":[]}", "tri_jsonl_ids() `tokens` 0"},
      {"{\"tokens\":5}", "tri_jsonl_ids() `tokens` !0"},
      {"{\"tokens\":null}", "tri_jsonl_ids() `tokens` !0"},
      {"{\"tokens\":{\"0\":1}}", "tri_jsonl_ids() `tokens` !0"},
      {"{\"tokens\":[1,2.5]}", "fail_entry() `tokens`[1] !299"},
      {"{\"tokens\":[true]}", "fail_entry() `tokens`[0] !299"},
      {"{\"tokens\":[[1]]}", "fail_entry() `tokens`[0] !299"},
      {"{\"tokens\":[5,300]}", "fail_entry() `tokens`[1] 300 0 299"},
      {"{\"tokens\":[-1]}", "fail_entry() `tokens`[0] -1 0"},
      {"{\"tokens\":[4294967297]}", "fail_entry() `tokens`[0] 4294967297 0"},
      {"{\"tokens\":[5,6],\"prompt_tokens\":3}", "tri_line_parser_take_prompt_tokens() prompt_tokens 3 2"},
      {"{\"tokens\":[5,6],\"prompt_tokens\":-1}", "tri_line_parser_take_prompt_tokens() prompt_tokens -1"},
      {"{\"tokens\":[5,6],\"prompt_tokens\":1.0}",
       "tri_line_parser_take_prompt_tokens() prompt_tokens !2 !0"},
      {"{\"tokens\":[5,6],\"prompt_tokens\":null}",
       "tri_line_parser_take_prompt_tokens() prompt_tokens !2 !0"},
  };
  static const char *const good[] = {"{\"prompt\":\"a\",\"answer\":\"b\"}", "{\"prompt\":\"a\"}",
                                     "{\"text\":\"ab\"}", "{\"text\":\"ab\"}"};

  (void)state;
  for (int kind = TRI_DATA_RL; kind <= TRI_DATA_SCORE; kind++) {
    tri_data_opt opt = options((tri_data_kind)kind);
    refuse_each(row, sizeof row / sizeof *row, good[kind], &opt);
  }
}

static void refuses_bad_prompts(void **state) {
  static const bad_line row[] = {
      {"{}", "tri_foreign_refuse() `prompt` data.prompt_key !answer"},
      {"{\"question\":\"a\",\"answer\":5}", "tri_foreign_refuse() prompt data.prompt_key question answer"},
      {"{\"prompt\":\"a\",\"anwser\":\"b\"}", "tri_foreign_refuse() answer data.answer_key prompt anwser"},
      {"{\"prompt\":5,\"answer\":\"a\"}", "get_text() prompt"},
      {"{\"prompt\":null,\"answer\":\"a\"}", "get_text() prompt"},
      {"{\"prompt\":[{\"role\":\"user\"}],\"answer\":\"a\"}", "check_content() `prompt`[0] content"},
      {"{\"prompt\":[{\"role\":\"user\",\"content\":\"a\"}],\"answer\":\"a\"}", "put_conversation()"},
      {"{\"prompt\":\"a\"}", "tri_foreign_refuse() `answer` data.answer_key prompt"},
      {"{\"tokens\":[5]}", "tri_foreign_refuse() answer data.answer_key tokens"},
      {"{\"prompt\":\"a\",\"answer\":null}", "tri_line_parser_refuse_answer() answer data.answer_key jq -c "
                                             "'select(.answer != null)' a.jsonl"},
      {"{\"prompt\":\"a\",\"answer\":true}",
       "tri_line_parser_refuse_answer() answer true jq -c '.answer |= if "
       "type == \"boolean\" then tostring else . end' a.jsonl"},
      {"{\"prompt\":\"a\",\"answer\":[\"b\"]}",
       "tri_line_parser_refuse_answer() answer 1 jq -c '.answer |= if "
       "type == \"array\" then .[0] else . end' a.jsonl"},
      {"{\"prompt\":\"a\",\"answer\":[]}", "tri_line_parser_refuse_answer() a.jsonl:3 answer 0"},
      {"{\"prompt\":\"a\",\"answer\":{\"x\":[],\"value\":4}}",
       "refuse_object() answer data.answer_key answer.value"},
      {"{\"prompt\":\"a\",\"answer\":{}}", "refuse_object() answer data.answer_key"},
      {"{\"prompt\":\"a\",\"answer\":{\"a.b\":4,\"c\":5}}",
       "refuse_object() answer data.answer_key answer.c"},
      {"{\"prompt\":\"a\",\"answer\":Infinity}", "tri_jsonl_refuse_odd() answer Infinity"},
      {"{\"prompt\":\"a\",\"answer\":[99999999999999999999]}",
       "tri_jsonl_refuse_odd() answer 99999999999999999999 64"},
      {"{\"prompt\":\"a\",\"reward_model\":{\"ground_truth\":\"4\"}}",
       "tri_foreign_refuse() answer reward_model reward_model.ground_truth data.answer_key"},
      {"{\"tokens\":[5],\"prompt_tokens\":0,\"answer\":\"a\"}",
       "tri_line_parser_take_prompt_tokens() prompt_tokens 0 1"},
  };
  tri_data_opt opt = options(TRI_DATA_RL);

  (void)state;
  refuse_each(row, sizeof row / sizeof *row, "{\"prompt\":\"a\",\"answer\":\"b\"}", &opt);
}

/* Refuses answers that begin with '-', like a reward that cannot judge them. */
static const char *refuse_dash(const void *ctx, const char *answer, size_t n) {
  (void)ctx;
  return !n || *answer == '-' ? "is none" : NULL;
}

/* A right answer is useless to all rewards. The message has the value found, the reason and the cure. */
static void refuses_truths(void **state) {
  static const bad_line row[] = {
      {"{\"prompt\":\"a\",\"answer\":\"-\\n\"}", "tri_line_parser_refuse_truth() answer -\\n"},
      {"{\"prompt\":\"a\",\"answer\":-5}", "tri_line_parser_refuse_truth() answer -5 data.answer_key"},
      {"{\"prompt\":\"a\",\"answer\":\"\"}",
       "tri_line_parser_refuse_truth() answer data.answer_key jq -c 'select(.answer | tostring | "
       "test(\"\\\\S\"))' a.jsonl a.new.jsonl"},
  };
  tri_data_opt opt = options(TRI_DATA_RL);

  (void)state;
  opt.refuse = refuse_dash;
  refuse_each(row, sizeof row / sizeof *row, "{\"prompt\":\"a\",\"answer\":\"b\"}", &opt);
}

static void refuses_bad_sft_lines(void **state) {
  static const bad_line row[] = {
      {"{\"q\":\"a\",\"b\":1}",
       "tri_foreign_refuse() prompt completion messages text tokens data.prompt_key data.completion_key q b"},
      {"{\"prompt\":\"a\"}", "tri_foreign_refuse() prompt completion messages"},
      {"{\"completion\":\"a\"}",
       "tri_foreign_refuse() `prompt` data.prompt_key completion !data.completion_key"},
      {"{\"prompt\":\"a\",\"completion\":5}", "get_text() completion"},
      {"{\"prompt\":5,\"completion\":\"a\"}", "get_text() prompt"},
      {"{\"text\":[\"a\"]}", "get_text() text"},
      {"{\"prompt\":\"a\",\"completion\":\"b\",\"text\":\"c\"}",
       "tri_line_parser_take_text() completion text"},
      {"{\"tokens\":[5]}", "tri_line_parser_check_learned() 1 0"},
      {"{\"tokens\":[5,6],\"prompt_tokens\":2}", "tri_line_parser_take_prompt_tokens() prompt_tokens 2 0 1"},
  };
  tri_data_opt opt = options(TRI_DATA_SFT);

  (void)state;
  refuse_each(row, sizeof row / sizeof *row, "{\"text\":\"ab\"}", &opt);
}

static void refuses_what_the_tokenizer_makes(void **state) {
  tri_data_opt opt = options(TRI_DATA_SFT);

  (void)state;
  opt.vocab = 100;
  expect_refused("{\"text\":\"ab\"}", 13, &opt, TRI_EINPUT, "tri_line_parser_check_ids() 100 text 0 99");
  opt.vocab = VOCAB;
  opt.end.text = VOCAB;
  expect_refused("{\"text\":\"ab\"}", 13, &opt, TRI_EINPUT, "put_end() a.jsonl:1 300 0");
  expect_refused("{\"text\":\"FAIL\"}", 15, &opt, TRI_EINTERNAL, "encode_bytes()");
  opt = options(TRI_DATA_SCORE);
  opt.end.completion = -1;
  expect_refused("{\"prompt\":\"\",\"completion\":5}", 28, &opt, TRI_EINPUT,
                 "get_text() a.jsonl:1 completion");
}

static void refuses_files_without_lines(void **state) {
  const char  *file[] = {TRI_PROGRAM "/a.jsonl"};
  tri_data_opt opt = options(TRI_DATA_SFT);
  tri_dataset *d;

  (void)state;
  expect_refused("", 0, &opt, TRI_EINPUT, "tri_dataset_finish() a.jsonl !(data.overlong_prompt) !1");
  expect_refused("\xef\xbb\xbf\n \r\n", 7, &opt, TRI_EINPUT,
                 "tri_dataset_finish() a.jsonl !(data.overlong_prompt) !1");
  expect_refused("\0", 1, &opt, TRI_EINPUT, "tri_jsonl_next() a.jsonl:1");
  expect_refused("{\"text\":\"a\0b\"}", 14, &opt, TRI_EINPUT, "tri_jsonl_next() a.jsonl:1");
  expect_refused("\n\xef\xbb\xbf{\"text\":\"ab\"}", 17, &opt, TRI_EINPUT,
                 "tri_jsonl_next() a.jsonl:2 ﻿ 1"); /* only at the start */
  tri_error_clear();
  assert_int_equal(tri_dataset_open(file, 1, &opt, &d), TRI_EINPUT);
  expect_refusal("open_to_read() a.jsonl");
  assert_null(strstr(tri_error_message(), "hf download"));
  file[0] = "an-owner/a.data-set"; /* a name of the Hub, or a path of this machine */
  tri_error_clear();
  assert_int_equal(tri_dataset_open(file, 1, &opt, &d), TRI_EINPUT);
  expect_refusal("open_to_read() hf download an-owner/a.data-set --repo-type dataset --local-dir a.data-set");
  file[0] = "an-owner/a.jsonl";
  tri_error_clear();
  assert_int_equal(tri_dataset_open(file, 1, &opt, &d), TRI_EINPUT);
  assert_null(strstr(tri_error_message(), "hf download"));
  file[0] = folder;
  tri_error_clear();
  assert_int_equal(tri_dataset_open(file, 1, &opt, &d), TRI_EINPUT);
  expect_refusal("check_regular() folder");
}

static void joins_files(void **state) {
  static const char a[] = "{\"text\":\"aa\"}\n\n{\"text\":\"bb\"}",
                    b[] = "\xef\xbb\xbf\n{\"text\":\"cc\"}\n[]\n";
  const char  *file[] = {path_a, path_b};
  tri_data_opt opt = options(TRI_DATA_SFT);
  tri_dataset *d;

  (void)state;
  put_file(path_a, a, sizeof a - 1);
  put_file(path_b, b, sizeof b - 4); /* without its last line */
  assert_int_equal(tri_dataset_open(file, 2, &opt, &d), TRI_OK);
  assert_int_equal(tri_dataset_count(d), 3);
  assert_int_equal(tri_dataset_get(d, 0)->id, 0);
  assert_int_equal(tri_dataset_get(d, 1)->id, 2);
  assert_int_equal(tri_dataset_get(d, 2)->id, 4);
  assert_int_equal(tri_dataset_stats(d)->n_line, 5);
  tri_dataset_close(&d);
  put_file(path_b, b, sizeof b - 1);
  tri_error_clear();
  assert_int_equal(tri_dataset_open(file, 2, &opt, &d), TRI_EINPUT);
  expect_refusal("tri_jsonl_next() b.jsonl:3");
}

static void limits_prompts(void **state) {
  static const char text[] =
      "{\"prompt\":\"abc\",\"answer\":\"1\"}\n{\"prompt\":\"abcdef\",\"answer\":\"2\"}\n"
      "{\"prompt\":\"abcdefgh\",\"answer\":\"3\"}\n";
  tri_data_opt opt = options(TRI_DATA_RL);
  tri_dataset *d;

  (void)state;
  opt.max_prompt_tokens = 4;
  expect_refused(text, sizeof text - 1, &opt, TRI_EINPUT,
                 "refuse_too_long() 7 4 data.max_prompt_length data.overlong_prompt 2 3 9");
  opt.overlong = opt.overlong_prompt = TRI_OVERLONG_DROP;
  d = open_text(text, &opt);
  assert_int_equal(tri_dataset_count(d), 1);
  assert_int_equal(tri_dataset_stats(d)->n_dropped, 2);
  assert_int_equal(tri_dataset_stats(d)->longest_prompt, 4);
  tri_dataset_close(&d);
  opt.overlong = opt.overlong_prompt = TRI_OVERLONG_TRUNCATE;
  d = open_text(text, &opt);
  expect_tokens(tri_dataset_get(d, 0), "^abc", 4);
  expect_tokens(tri_dataset_get(d, 1), "cdef", 4);
  assert_int_equal(tri_dataset_stats(d)->n_truncated, 2);
  tri_dataset_close(&d);
  opt.overlong = opt.overlong_prompt = TRI_OVERLONG_DROP;
  opt.max_prompt_tokens = 1;
  expect_refused(text, sizeof text - 1, &opt, TRI_EINPUT,
                 "tri_dataset_finish() a.jsonl 3 (data.overlong_prompt)");
}

static void limits_whole_examples(void **state) {
  static const char text[] =
      "{\"prompt\":\"a\",\"completion\":\"b\"}\n{\"prompt\":\"abc\",\"completion\":\"def\"}\n"
      "{\"text\":\"uvwxyz\"}\n";
  tri_data_opt opt = options(TRI_DATA_SFT);
  tri_dataset *d;

  (void)state;
  opt.max_total_tokens = 5;
  expect_refused(text, sizeof text - 1, &opt, TRI_EINPUT, "refuse_too_long() has 8 5 data.overlong 2 3");
  opt.overlong = opt.overlong_prompt = TRI_OVERLONG_DROP;
  d = open_text(text, &opt);
  assert_int_equal(tri_dataset_count(d), 1);
  assert_int_equal(tri_dataset_stats(d)->n_dropped, 2);
  tri_dataset_close(&d);
  opt.overlong = opt.overlong_prompt = TRI_OVERLONG_TRUNCATE;
  opt.max_prompt_tokens = 3;
  d = open_text(text, &opt);
  expect_tokens(tri_dataset_get(d, 0), "^ab$", 2);
  expect_tokens(tri_dataset_get(d, 1), "abcde", 3);
  expect_tokens(tri_dataset_get(d, 2), "^uvwx", 0);
  assert_int_equal(tri_dataset_stats(d)->n_truncated, 2);
  assert_int_equal(tri_dataset_stats(d)->longest, 5);
  tri_dataset_close(&d);
}

/* A prompt fills the limit. If prompts are truncated it is cut, so that its answer has space, at most half of
 * the limit. Otherwise its line is dropped. */
static void prompts_leave_space(void **state) {
  static const char text[] = "{\"prompt\":\"a\",\"completion\":\"b\"}\n"
                             "{\"prompt\":\"abcdefgh\",\"completion\":\"x\"}\n"
                             "{\"prompt\":\"abcdefgh\",\"completion\":\"uvwxyz\"}\n"
                             "{\"tokens\":[5,6,7,8,9,10,11,12],\"prompt_tokens\":6}\n"
                             "{\"prompt\":\"abcd\",\"completion\":\"uvw\"}\n";
  tri_data_opt      opt = options(TRI_DATA_SFT);
  tri_dataset      *d;

  (void)state;
  opt.overlong_prompt = TRI_OVERLONG_TRUNCATE;
  opt.overlong = TRI_OVERLONG_AS_PROMPT;
  opt.max_total_tokens = 6;
  d = open_text(text, &opt);
  assert_int_equal(tri_dataset_count(d), 5);
  expect_tokens(tri_dataset_get(d, 1), "efghx$", 4);
  expect_tokens(tri_dataset_get(d, 2), "fghuvw", 3);
  assert_int_equal(tri_dataset_get(d, 3)->n_prompt, 4);
  assert_int_equal(tri_dataset_get(d, 3)->token[0], 7);
  expect_tokens(tri_dataset_get(d, 4), "^abcdu", 5); /* space for a token is left, so the start is kept */
  assert_int_equal(tri_dataset_stats(d)->n_truncated, 4);
  tri_dataset_close(&d);
  opt.overlong_prompt = TRI_OVERLONG_ERROR;
  opt.overlong = TRI_OVERLONG_TRUNCATE;
  d = open_text(text, &opt);
  assert_int_equal(tri_dataset_count(d), 2);
  expect_tokens(tri_dataset_get(d, 0), "^ab$", 2);
  expect_tokens(tri_dataset_get(d, 1), "^abcdu", 5);
  assert_int_equal(tri_dataset_stats(d)->n_truncated, 1);
  assert_int_equal(tri_dataset_stats(d)->n_dropped, 3);
  assert_int_equal(tri_dataset_stats(d)->n_emptied, 3);
  tri_dataset_close(&d);
  opt.overlong_prompt = TRI_OVERLONG_TRUNCATE;
  opt.max_total_tokens = 1; /* the first token of all is never learned */
  expect_refused(text, sizeof text - 1, &opt, TRI_EINPUT, "tri_dataset_finish() a.jsonl 5 1");
  opt.max_total_tokens = 6;
  opt.overlong = TRI_OVERLONG_DROP; /* for lines, independent of prompts */
  d = open_text(text, &opt);
  assert_int_equal(tri_dataset_count(d), 1);
  assert_int_equal(tri_dataset_stats(d)->n_emptied, 0);
  tri_dataset_close(&d);
}

/* Every epoch takes every example once. The order depends only on (seed, epoch), however it is asked for. */
static void shuffles_by_seed_and_epoch(void **state) {
  enum { N = 97, EPOCHS = 4 };
  static const int first[10] = {10, 62, 34, 19, 96, 47, 7, 82, 31, 27}; /* five of epoch 0, five of epoch 1 */
  tri_data_opt     opt = options(TRI_DATA_SFT);
  tri_text         text = {0};
  tri_dataset     *d;
  int64_t          order[EPOCHS * N];
  int              same_place = 0, same_seed = 0;

  (void)state;
  for (int i = 0; i < N; i++) assert_int_equal(tri_text_printf(&text, "{\"tokens\":[%d,1]}\n", i), TRI_OK);
  d = open_bytes(text.data, text.len, &opt);
  for (int64_t p = 0; p < EPOCHS * N; p++) {
    assert_int_equal(tri_dataset_at(d, 7, false, p), p % N);
    order[p] = tri_dataset_at(d, 7, true, p);
  }
  for (int e = 0; e < EPOCHS; e++) {
    bool seen[N] = {false};
    for (int i = 0; i < N; i++) {
      assert_in_range(order[e * N + i], 0, N - 1);
      assert_false(seen[order[e * N + i]]);
      seen[order[e * N + i]] = true;
      same_place += order[e * N + i] == i || (e && order[e * N + i] == order[(e - 1) * N + i]);
      same_seed += order[e * N + i] == tri_dataset_at(d, 8, true, e * N + i);
    }
  }
  assert_true(same_place < 40 && same_seed < 20); /* about 7 and 4 are expected */
  tri_dataset_close(&d);
  d = open_bytes(text.data, text.len, &opt);
  for (int64_t p = EPOCHS * N - 1; p >= 0; p -= 5) assert_int_equal(tri_dataset_at(d, 7, true, p), order[p]);
  /* Judge: the same formula in another program. Saved runs depend on this order. */
  for (int i = 0; i < 10; i++) assert_int_equal(order[i / 5 * N + i % 5], first[i]);
  tri_dataset_close(&d);
  tri_text_free(&text);
}

/* Reads 100000 lines, with tokens longer than an arena block among them. */
static void reads_large_files(void **state) {
  enum { N = 100000, LONG = 300000 };
  tri_data_opt opt = options(TRI_DATA_SFT);
  tri_text     text = {0};
  tri_dataset *d;
  double       start;

  (void)state;
  assert_int_equal(tri_text_printf(&text, "{\"tokens\":[1"), TRI_OK);
  for (int i = 1; i < LONG; i++) assert_int_equal(tri_text_put(&text, ",2", 2), TRI_OK);
  assert_int_equal(tri_text_printf(&text, "]}\n"), TRI_OK);
  for (int i = 0; i < N; i++)
    assert_int_equal(tri_text_printf(&text,
                                     "{\"prompt\":\"what is %d plus %d?\",\"completion\":\"it is %d\"}\n", i,
                                     i, 2 * i),
                     TRI_OK);
  put_file(path_a, text.data, text.len);
  tri_text_free(&text);
  const char *file[] = {path_a};
  start = tri_now_s();
  assert_int_equal(tri_dataset_open(file, 1, &opt, &d), TRI_OK);
  print_message("%d lines in %.2f s\n", N + 1, tri_now_s() - start);
  assert_int_equal(tri_dataset_count(d), N + 1);
  assert_int_equal(tri_dataset_get(d, 0)->n_token, LONG);
  assert_int_equal(tri_dataset_get(d, 0)->token[LONG - 1], 2);
  expect_tokens(tri_dataset_get(d, N), "^what is 99999 plus 99999?it is 199998$", 26);
  assert_int_equal(tri_dataset_stats(d)->longest, LONG);
  tri_dataset_close(&d);
}

static void bounds_lines(void **state) {
  static const char text[] =
      "{\"text\":\"abcdefghij\"}\r\n\n{\"text\":\"abcdefghijkl\"}\n"; /* 22, 0, 23 bytes */
  tri_data_opt opt = options(TRI_DATA_SFT);
  tri_dataset *d;

  (void)state;
  opt.max_line_bytes = 23;
  d = open_text(text, &opt);
  tri_dataset_close(&d);
  opt.max_line_bytes = 22;
  expect_refused(text, sizeof text - 1, &opt, TRI_EINPUT, "take_line() a.jsonl:3 23 22 data.max_line_bytes");
}

/* A packed file cut off in a line is one error if all errors are collected. The file is gzip with one stored
 * block. */
static void a_broken_file_is_one_error(void **state) {
  static const char head[] = "\x1f\x8b\x08\0\0\0\0\0\0\x03\1\x64\0\x9b\xff",
                    text[] = "{\"tokens\":[4,5]}\n{\"tokens\":7}\n{\"tokens\":[4,";
  const char  *file[] = {path_a};
  tri_data_opt opt = options(TRI_DATA_SFT);
  tri_errors   errors = {.n = 0};
  char         bytes[sizeof head + sizeof text];
  tri_dataset *d;

  (void)state;
  memcpy(bytes, head, sizeof head - 1);
  memcpy(bytes + sizeof head - 1, text, sizeof text - 1);
  put_file(path_a, bytes, sizeof head + sizeof text - 2);
  opt.note.errors = &errors;
  assert_int_equal(tri_dataset_open(file, 1, &opt, &d), TRI_EINPUT);
  assert_null(d);
  expect_refusal("a.jsonl gzip 43");
  tri_error_clear();
  assert_int_equal(errors.n, 1); /* the bad line before it */
  assert_non_null(strstr(errors.text.data, "a.jsonl:2: "));
  tri_errors_free(&errors);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest test[] = {
      CASE(reads_rl_lines),
      CASE(reads_prompts_by_other_keys),
      CASE(lines_that_outgrow_memory_are_refused),
      CASE(keeps_fields),
      CASE(passes_odd_values_by),
      CASE(reads_keys_by_path),
      CASE(reads_sft_lines),
      CASE(reads_score_lines),
      CASE(needs_no_tokenizer_for_tokens),
      CASE(refuses_bad_lines_of_every_kind),
      CASE(refuses_bad_prompts),
      CASE(refuses_truths),
      CASE(refuses_bad_sft_lines),
      CASE(refuses_what_the_tokenizer_makes),
      CASE(refuses_files_without_lines),
      CASE(joins_files),
      CASE(limits_prompts),
      CASE(limits_whole_examples),
      CASE(prompts_leave_space),
      CASE(shuffles_by_seed_and_epoch),
      CASE(reads_large_files),
      CASE(bounds_lines),
      CASE(a_broken_file_is_one_error),
  };
  return cmocka_run_group_tests(test, NULL, NULL);
}
