/* test_tokenizer.c - encodes and decodes. The judge is the tokenizers library. Ids and texts must be equal,
 * to the byte. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "tokenizer_case.h"
#include "io/tokenizer/tokenizer_impl.h"
#include "refusal_case.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const shape[] = {"gpt2",   "llama3", "qwen2",  "deepseek2", "deepseek3", "kimi",
                                    "cl100k", "digits", "llama2", "mistral",   "metaspace", "flags"};
enum { N_SHAPE = sizeof shape / sizeof *shape };

static tri_tokenizer *open_shape(const char *name) {
  char           path[512];
  tri_tokenizer *t;

  snprintf(path, sizeof path, "%s/tokenizer/%s.json", TRI_TEST_DATA, name);
  ok(tri_tokenizer_open(path, &t));
  return t;
}

/* ---- golden ---- */

static void check_decode(const char *name, const tri_tokenizer *t, const tri_tokens *ids, bool skip,
                         json_t *want) {
  tri_text text = {0};

  ok(tri_tokenizer_decode(t, ids->id, ids->n, skip, &text));
  if (text.len != json_string_length(want) || memcmp(text.data, json_string_value(want), text.len))
    fail_msg("%s: decoded '%s', not '%s'", name, text.data, json_string_value(want));
  tri_text_free(&text);
}

static void golden_encode(const char *name, const tri_tokenizer *t, json_t *texts, json_t *rows) {
  size_t  i;
  json_t *row;

  assert_int_equal(json_array_size(texts), json_array_size(rows));
  json_array_foreach(rows, i, row) {
    json_t    *text = json_array_get(texts, i);
    tri_tokens ids = {0};
    for (size_t special = 0; special < 2; special++) {
      ids.n = 0;
      ok(tri_tokenizer_encode(t, json_string_value(text), json_string_length(text), special, &ids));
      check_ids(name, i, json_array_get(row, special), &ids);
    }
    for (size_t skip = 0; skip < 2; skip++) {
      json_t *want = json_array_get(row, 2 + skip);
      check_decode(name, t, &ids, skip, json_is_null(want) ? text : want);
    }
    tri_tokens_free(&ids);
  }
}

static void golden_decode(const char *name, const tri_tokenizer *t, json_t *rows) {
  size_t  i, k;
  json_t *row, *v;

  json_array_foreach(rows, i, row) {
    tri_tokens ids = {0};
    json_array_foreach(json_array_get(row, 0), k, v) {
      int32_t id = (int32_t)json_integer_value(v);
      ok(tri_tokens_put(&ids, &id, 1));
    }
    check_decode(name, t, &ids, false, json_array_get(row, 1));
    check_decode(name, t, &ids, true, json_array_get(row, 2));
    tri_tokens_free(&ids);
  }
}

/* Judge: golden, exact. */
static void test_golden(void **state) {
  json_t *texts = load_json("texts.json");

  (void)state;
  for (int i = 0; i < N_SHAPE; i++) {
    char           file[64];
    tri_tokenizer *t = open_shape(shape[i]);
    json_t        *golden;
    snprintf(file, sizeof file, "%s.golden.json", shape[i]);
    golden = load_json(file);
    golden_encode(shape[i], t, texts, json_object_get(golden, "encode"));
    golden_decode(shape[i], t, json_object_get(golden, "decode"));
    json_decref(golden);
    tri_tokenizer_close(&t);
    assert_null(t);
  }
  json_decref(texts);
  assert_int_equal(tri_host_bytes(), 0);
}

/* Judge: golden, exact. Unigram models, best paths with ties, and normalizers compiled by SentencePiece. */
static void test_unigram(void **state) {
  json_t     *root = load_json("unigram_golden.json"), *texts = json_object_get(root, "texts"), *rows, *row;
  const char *name;
  size_t      i;

  (void)state;
  json_object_foreach(json_object_get(root, "kinds"), name, rows) {
    tri_tokenizer *t = open_shape(name);
    json_array_foreach(rows, i, row) /* null: the same as without special tokens */
        if (json_is_null(json_array_get(row, 1))) json_array_set(row, 1, json_array_get(row, 0));
    golden_encode(name, t, texts, rows);
    tri_tokenizer_close(&t);
  }
  json_decref(root);
  assert_int_equal(tri_host_bytes(), 0);
}

static tri_status open_folder(const char *base, json_t *files, tri_tokenizer **out) {
  char               name[64], *own;
  tri_tokenizer_file file[TRI_TOKENIZER_FILES];
  json_t            *root;
  tri_status         st;

  snprintf(name, sizeof name, "%s.json", base);
  root = load_json(name);
  own = json_dumps(root, 0);
  for (int i = 0; i < TRI_TOKENIZER_FILES; i++) {
    json_t *text = json_object_get(files, tri_tokenizer_file_name(i));
    file[i] =
        (tri_tokenizer_file){tri_tokenizer_file_name(i), json_string_value(text), json_string_length(text)};
  }
  file[TRI_TOKENIZER_JSON] = (tri_tokenizer_file){"tokenizer.json", own, strlen(own)};
  st = tri_tokenizer_open_files(file, out);
  free(own);
  json_decref(root);
  return st;
}

static void check_folder(const char *name, const tri_tokenizer *t, json_t *texts, json_t *folder) {
  json_t     *row, *v;
  const char *key;
  size_t      i;

  json_array_foreach(json_object_get(folder, "rows"), i, row) {
    json_t    *text = json_array_get(texts, i);
    tri_tokens ids = {0};
    ok(tri_tokenizer_encode(t, json_string_value(text), json_string_length(text), false, &ids));
    check_ids(name, i, json_array_get(row, 0), &ids);
    check_decode(name, t, &ids, false, json_array_get(row, 1));
    check_decode(name, t, &ids, true, json_array_get(row, 2));
    tri_tokens_free(&ids);
  }
  json_object_foreach(json_object_get(folder, "named"), key,
                      v) if (tri_tokenizer_named(t, key) != json_integer_value(v))
      fail_msg("%s: %s is %d, not %lld", name, key, tri_tokenizer_named(t, key),
               (long long)json_integer_value(v));
  assert_int_equal(tri_tokenizer_vocab_size(t), json_integer_value(json_object_get(folder, "size")));
}

/* Judge: golden of AutoTokenizer, exact. Tokens from the files beside tokenizer.json. */
static void test_folders(void **state) {
  json_t *root = load_json("folders.json"), *folder;
  size_t  i;

  (void)state;
  tri_log_open(1, TRI_LOG_ERROR);
  json_array_foreach(json_object_get(root, "folders"), i, folder) {
    const char    *base = json_string_value(json_object_get(folder, "base"));
    char           name[96];
    tri_tokenizer *t;
    snprintf(name, sizeof name, "folder %zu (%s)", i, base);
    if (open_folder(base, json_object_get(folder, "files"), &t) != TRI_OK)
      fail_msg("%s: %s", name, tri_error_message());
    check_folder(name, t, json_object_get(root, "texts"), folder);
    tri_tokenizer_close(&t);
  }
  json_decref(root);
  assert_int_equal(tri_host_bytes(), 0);
}

/* Judge: golden, exact. The places at which the library's patterns split a text. */
static void test_regexes(void **state) {
  json_t      *root = load_json("regexes.json"), *text = json_object_get(root, "text"), *row;
  const char  *s = json_string_value(text);
  tri_tok_work w = {0};
  size_t       i, k;

  (void)state;
  json_array_foreach(json_object_get(root, "pieces"), i, row) {
    json_t       *pattern = json_array_get(row, 0), *pieces = json_array_get(row, 1);
    tri_tok_regex code;
    ok(tri_tok_regex_open("test", json_string_value(pattern), json_string_length(pattern), false, &code));
    ok(tri_tok_regex_find(&code, s, json_string_length(text), &w));
    k = 0;
    for (int64_t j = 0; j < w.n_match; j++) {
      json_t *want = json_array_get(pieces, k);
      size_t  n = w.match[j].to - w.match[j].from;
      if (!n) continue;
      if (!want || json_string_length(want) != n || memcmp(json_string_value(want), s + w.match[j].from, n))
        fail_msg("%s: piece %zu is '%.*s', not '%s'", json_string_value(pattern), k, (int)n,
                 s + w.match[j].from, want ? json_string_value(want) : "(none)");
      k++;
    }
    assert_int_equal(k, json_array_size(pieces));
    tri_tok_regex_close(&code);
  }
  tri_tok_work_free(&w);
  json_decref(root);
}

/* ---- files made here ---- */

#define TOKEN(id, content)                                                                                   \
  "{\"id\":" id ",\"content\":\"" content "\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"      \
  "\"normalized\":false,\"special\":true}"
#define SPLIT(regex)                                                                                         \
  "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"},\"behavior\":\"Isolated\",\"invert\":false}"
#define BPE(fields)    "{\"type\":\"BPE\"," fields "}"
#define UNIGRAM(vocab) "{\"type\":\"Unigram\",\"vocab\":" vocab "}"
#define AB             "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2}"

static const char *const part_default[] = {
    "\"1.0\"", /* version */
    "[]",      /* added_tokens */
    "null",    /* normalizer */
    "null",    /* pre_tokenizer */
    "null",    /* post_processor */
    "null",    /* decoder */
    BPE("\"unk_token\":null,\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\" \":3,\"c\":7},\"merges\":[\"a b\"]"),
};
enum { VERSION, ADDED, NORMALIZER, PRE, POST, DECODER, MODEL, N_PART };

static tri_status open_with(int part, const char *json, tri_tokenizer **out) {
  static const char *const key[] = {"version",        "added_tokens", "normalizer", "pre_tokenizer",
                                    "post_processor", "decoder",      "model"};
  tri_text                 text = {0};
  tri_status               st;

  for (int i = 0; i < N_PART; i++)
    ok(tri_text_printf(&text, "%s\"%s\":%s", i ? "," : "{", key[i], i == part ? json : part_default[i]));
  ok(tri_text_printf(&text, "}"));
  st = tri_tokenizer_open_text("file.json", text.data, text.len, out);
  tri_text_free(&text);
  return st;
}

static const struct {
  int         part;
  const char *json, *message; /* a part of it */
} broken[] = {
    {VERSION, "\"2.0\"", "version"},
    {VERSION, "1.0", "version"},
    {MODEL, "null", "load_model() model tokenizer.json"},
    {MODEL, "[]", "load_model() model tokenizer.json"},
    {MODEL, "{}", "load_model() type"},
    {MODEL, "{\"type\":1}", "load_model() type"},
    {MODEL, "{\"type\":\"WordPiece\"}", "load_model() WordPiece BPE"},
    {MODEL, UNIGRAM("[]"), "check_vocab() model.vocab [token score] !model.vocab[0] !model.vocab[1]"},
    {MODEL, UNIGRAM("{\"a\":0}"), "check_vocab() model.vocab [token score] !model.vocab[0] !model.vocab[1]"},
    {MODEL, UNIGRAM("[[\"a\"]]"), "check_vocab() model.vocab[0] [token score]"},
    {MODEL, UNIGRAM("[[\"a\",-1],[\"b\",-1,0]]"), "check_vocab() model.vocab[1] [token score]"},
    {MODEL, UNIGRAM("[[\"a\",\"-1\"]]"), "check_vocab() model.vocab[0] [token score]"},
    {MODEL, UNIGRAM("[[\"a\",-1]],\"unk_id\":1"), "read_unk() model.unk_id model.vocab"},
    {MODEL, UNIGRAM("[[\"a\",-1]],\"unk_id\":-1"), "read_unk() model.unk_id model.vocab"},
    {MODEL, UNIGRAM("[[\"a\",-1]],\"unk_id\":\"a\""), "read_unk() model.unk_id model.vocab"},
    {MODEL, UNIGRAM("[[\"a\",-1]],\"byte_fallback\":1"), "tri_tok_bool() model.byte_fallback"},
    {MODEL, "{\"type\":\"Unigram\",\"voc\\u0061b\":[[\"a\",-1]]}", "read_scores() model.vocab"},
    {NORMALIZER, "{\"type\":\"Precompiled\"}", "read_charsmap() normalizer precompiled_charsmap"},
    {NORMALIZER, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"\"}",
     "take_bytes() normalizer.precompiled_charsmap SentencePiece"},
    {NORMALIZER, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAA\"}",
     "tri_tok_charsmap_open() normalizer.precompiled_charsmap base64"},
    {NORMALIZER, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AA=A\"}",
     "tri_tok_charsmap_open() normalizer.precompiled_charsmap base64"},
    {NORMALIZER, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"CAAAAAAAAAA=\"}",
     "take_bytes() normalizer.precompiled_charsmap SentencePiece"},
    {NORMALIZER, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"BAAAAAAAAAD/\"}",
     "take_bytes() normalizer.precompiled_charsmap UTF-8"},
    {MODEL, BPE("\"merges\":[]"), "load_vocab() vocab !model.vocab"},
    {MODEL, BPE("\"vocab\":[],\"merges\":[]"), "load_vocab() vocab !model.vocab"},
    {MODEL, BPE("\"vocab\":{},\"merges\":[]"), "load_vocab() model.vocab"},
    {MODEL, BPE("\"vocab\":{\"a\":-1},\"merges\":[]"), "check_vocab() -1 0"},
    {MODEL, BPE("\"vocab\":{\"a\":4000000000},\"merges\":[]"), "check_vocab() 4000000000 0"},
    {MODEL, BPE("\"vocab\":{\"a\":99999999999999999999},\"merges\":[]"), "parse_json() file.json:1"},
    {MODEL, BPE("\"vocab\":{\"a\":1.0},\"merges\":[]"), "check_vocab() ![token !0"},
    {MODEL, BPE("\"vocab\":{\"a\":\"1\"},\"merges\":[]"), "check_vocab() ![token !0"},
    {MODEL, BPE("\"vocab\":{\"a\":1,\"b\":1},\"merges\":[]"), "load_vocab() b 1"},
    {MODEL, BPE("\"vocab\":{\"a\":1,\"a\":2},\"merges\":[]"), "duplicate object key"},
    {MODEL, BPE(AB), "load_merges() merges"},
    {MODEL, BPE(AB ",\"merges\":{}"), "load_merges() merges"},
    {MODEL, BPE(AB ",\"merges\":[1]"), "merge_halves() model.merges[0] [\"a\""},
    {MODEL, BPE(AB ",\"merges\":[\"ab\"]"), "merge_halves() model.merges[0] ab"},
    {MODEL, BPE(AB ",\"merges\":[\"a b\",\"a b c\"]"), "merge_halves() model.merges[1]"},
    {MODEL, BPE(AB ",\"merges\":[[\"a\"]]"), "merge_halves() model.merges[0] [\"a\""},
    {MODEL, BPE(AB ",\"merges\":[[\"a\",1]]"), "merge_halves() model.merges[0] [\"a\""},
    {MODEL, BPE(AB ",\"merges\":[\"a x\"]"), "merge_part() model.merges[0] x"},
    {MODEL, BPE(AB ",\"merges\":[\"b a\"]"), "merge_part() model.merges[0] ba"},
    {MODEL, BPE(AB ",\"merges\":[],\"dropout\":0.1"), "refuse_fields() model.dropout"},
    {MODEL, BPE(AB ",\"merges\":[],\"continuing_subword_prefix\":\"##\""),
     "refuse_fields() model.continuing_subword_prefix"},
    {MODEL, BPE(AB ",\"merges\":[],\"end_of_word_suffix\":\"</w>\""), "refuse_fields() end_of_word_suffix"},
    {MODEL, BPE(AB ",\"merges\":[],\"unk_token\":3"), "load_model() model.unk_token"},
    {MODEL, BPE(AB ",\"merges\":[],\"fuse_unk\":1"), "tri_tok_bool() model.fuse_unk"},
    {MODEL, BPE("\"vocab\":{\"a\\u0000\":1},\"merges\":[]"), "parse_json() file.json:1 NUL a\\u0000"},
    {ADDED, "{}", "tri_tok_load_added() added_tokens"},
    {ADDED, "[1]", "load_one() added_tokens[0] content"},
    {ADDED, "[{\"content\":\"x\"}]", "load_one() added_tokens[0] id !4194303"},
    {ADDED, "[{\"id\":8,\"content\":\"x\"}]", "tri_tok_bool() added_tokens[0] single_word"},
    {ADDED, "[" TOKEN("-1", "x") "]", "load_one() added_tokens[0].id -1 0"},
    {ADDED, "[" TOKEN("4194304", "x") "]", "load_one() added_tokens[0].id 4194304 0"},
    {ADDED, "[" TOKEN("8", "x") "," TOKEN("8", "y") "]", "check_written_ids() x y 8"},
    {ADDED, "[" TOKEN("5", "x") "," TOKEN("6", "y") "," TOKEN("7", "z") "]", "number() z c"},
    {NORMALIZER, "{}", "load_step() normalizer type"},
    {NORMALIZER, "3", "load_step() normalizer type"},
    {NORMALIZER, "{\"type\":\"BertNormalizer\"}", "refuse_type() normalizer BertNormalizer NFC"},
    {NORMALIZER, "{\"type\":\"Sequence\"}", "load_step() normalizer normalizers !normalizer.normalizers[1]"},
    {NORMALIZER, "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},null]}",
     "load_step() normalizer.normalizers[1] type"},
    {NORMALIZER, "{\"type\":\"Prepend\"}", "read_string() normalizer prepend"},
    {NORMALIZER, "{\"type\":\"Strip\",\"strip_left\":1}", "tri_tok_bool() normalizer.strip_left"},
    {NORMALIZER, "{\"type\":\"Replace\",\"content\":\"\"}", "read_pattern() {\"String\" ...}"},
    {NORMALIZER, "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(\"},\"content\":\"\"}",
     "parse_group() normalizer ("},
    {NORMALIZER, "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"}}", "read_string() normalizer content"},
    {PRE, "{\"type\":\"UnicodeScripts\"}", "refuse_type() pre_tokenizer UnicodeScripts"},
    {PRE, "{\"type\":\"ByteLevel\"}", "tri_tok_bool() pre_tokenizer add_prefix_space"},
    {PRE, "{\"type\":\"Digits\"}", "tri_tok_bool() pre_tokenizer individual_digits"},
    {PRE, "{\"type\":\"Metaspace\",\"replacement\":\"ab\"}", "read_one_char() pre_tokenizer.replacement"},
    {PRE, "{\"type\":\"Metaspace\",\"replacement\":\"\"}", "read_one_char() pre_tokenizer.replacement"},
    {PRE, "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"some\"}",
     "read_choice() always never first"},
    {PRE,
     "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\",\"add_prefix_space\":false}",
     "read_metaspace() pre_tokenizer add_prefix_space"},
    {PRE, "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"invert\":false}",
     "read_choice() pre_tokenizer.behavior Removed"},
    {PRE, "{\"type\":\"Split\",\"pattern\":\"a\",\"behavior\":\"Isolated\",\"invert\":false}",
     "read_pattern() {\"String\" ...}"},
    {PRE, SPLIT("("), "parse_group() pre_tokenizer ("},
    {PRE, SPLIT(")"), "tri_tok_regex_translate() pre_tokenizer )"},
    {PRE, SPLIT("[a"), "parse_class() pre_tokenizer [ [a"},
    {PRE, SPLIT("[]"), "parse_class() pre_tokenizer ![a"},
    {PRE, SPLIT("[[]"), "parse_class() pre_tokenizer ![a"},
    {PRE, SPLIT("[b-a]"), "parse_item() pre_tokenizer [b-a]"},
    {PRE, SPLIT("*"), "parse_atom() pre_tokenizer *"},
    {PRE, SPLIT("a\\\\"), "parse_escape() pre_tokenizer a\\"},
    {PRE, SPLIT("[\\\\"), "parse_element() pre_tokenizer [\\"},
    {PRE, SPLIT("\\\\p{L"), "parse_property() pre_tokenizer \\p{L"},
    {PRE, SPLIT("\\\\p{NoSuchThing}"), "find_set() pre_tokenizer NoSuchThing"},
    {PRE, SPLIT("(?s)a"), "parse_options() pre_tokenizer s"},
    {PRE, SPLIT("(?"), "parse_options() pre_tokenizer (?"},
    {PRE, SPLIT("(?<"), "parse_group() pre_tokenizer (?<"},
    {PRE, SPLIT("(?<a"), "parse_group() pre_tokenizer (?<a"},
    {PRE, SPLIT("(?#"), "parse_group() pre_tokenizer (?#"},
    {PRE, SPLIT("\\\\k<"), "parse_reference() pre_tokenizer \\k<"},
    {PRE, SPLIT("\\\\k<a>"), "tri_tok_regex_open() pre_tokenizer \\k<a>"},
    {PRE, SPLIT("\\\\1"), "tri_tok_regex_open() pre_tokenizer \\1"},
    {PRE, SPLIT("\\\\x{110000}"), "parse_number() pre_tokenizer"},
    {PRE, SPLIT("\\\\x{d800}"), "parse_number() pre_tokenizer"},
    {PRE, SPLIT("\\\\x{6"), "parse_escaped() pre_tokenizer \\x{6"},
    {PRE, SPLIT("\\\\xe9"), "parse_escaped() pre_tokenizer \\xe9"},
    {PRE, SPLIT("\\\\y"), "parse_escape() pre_tokenizer \\y"},
    {PRE, SPLIT("(*FAIL)"), "parse_group() pre_tokenizer (*FAIL)"},
    {PRE, SPLIT("a{99999999}"), "tri_tok_regex_open() pre_tokenizer a{99999999}"},
    {PRE, SPLIT("(?<=a+)b"), "tri_tok_regex_open() pre_tokenizer (?<=a+)b"},
    {POST, "{}", "tri_tok_load_post() post_processor type"},
    {POST, "{\"type\":\"RobertaProcessing\"}", "tri_tok_load_post() post_processor RobertaProcessing"},
    {POST, "{\"type\":\"Sequence\"}",
     "tri_tok_load_post() post_processor processors !post_processor.processors[0]"},
    {POST, "{\"type\":\"Sequence\",\"processors\":[null]}", "tri_tok_load_post() processors[0]"},
    {POST, "{\"type\":\"TemplateProcessing\"}", "load_template() post_processor single !SpecialToken"},
    {POST, "{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"B\"}}]}",
     "load_template() post_processor.single[0] SpecialToken"},
    {POST, "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}]}",
     "put_special() post_processor.special_tokens 'x' ids"},
    {POST,
     "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}],\"special_tokens\":{"
     "\"x\":{\"ids\":[4]}}}",
     "put_special() x"},
    {POST,
     "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}],\"special_tokens\":{"
     "\"x\":{\"ids\":[99]}}}",
     "put_special() x"},
    {DECODER, "{\"type\":\"WordPiece\"}", "refuse_type() decoder WordPiece ByteLevel"},
    {DECODER, "{\"type\":\"Strip\",\"content\":\" \",\"start\":-1,\"stop\":0}",
     "read_strip_decoder() decoder.start 0"},
    {DECODER, "{\"type\":\"Strip\",\"content\":\"\",\"start\":1,\"stop\":0}", "read_one_char() content"},
    {DECODER, "nul", "parse_json() file.json:1"},
};

/* Judge: each is refused as bad input, with one message that names the file and the error. */
static void test_broken(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
    tri_tokenizer *t;
    tri_error_clear();
    if (open_with(broken[i].part, broken[i].json, &t) != TRI_EINPUT) fail_msg("accepted: %s", broken[i].json);
    assert_null(t);
    if (strncmp(tri_error_message(), "file.json", 9) || !refusal_is(broken[i].message))
      fail_msg("%s: '%s' does not say '%s'", broken[i].json, tri_error_message(), broken[i].message);
  }
  tri_error_clear();
  assert_int_equal(tri_host_bytes(), 0);
}

/* Judge: a damaged file is refused or read, and nothing else happens. The sanitizers check it. */
static void test_damaged(void **state) {
  char          *bytes = NULL, path[512];
  size_t         n;
  tri_tokenizer *t;

  (void)state;
  snprintf(path, sizeof path, "%s/tokenizer/kimi.json", TRI_TEST_DATA);
  ok(tri_file_read(path, 1 << 20, &bytes, &n));
  for (size_t cut = 0; cut < n - 2; cut += 97) {
    assert_int_equal(tri_tokenizer_open_text("cut", bytes, cut, &t), TRI_EINPUT);
    tri_error_clear();
  }
  for (size_t at = 0; at < n; at += at < 2500 ? 7 : 131) {
    char old = bytes[at];
    bytes[at] = (char)(33 + at % 90);
    if (tri_tokenizer_open_text("damaged", bytes, n, &t) == TRI_OK) {
      tri_tokens ids = {0};
      ok(tri_tokenizer_encode(t, bytes, 200, true, &ids));
      tri_tokens_free(&ids);
    }
    tri_tokenizer_close(&t);
    tri_error_clear();
    bytes[at] = old;
  }
  TRI_FREE(bytes);
  assert_int_equal(tri_host_bytes(), 0);
}

static void expect_ids(const tri_tokenizer *t, const char *text, size_t n, const int32_t *want,
                       int64_t n_want) {
  tri_tokens ids = {0};

  ok(tri_tokenizer_encode(t, text, n, false, &ids));
  assert_int_equal(ids.n, n_want);
  for (int64_t i = 0; i < n_want; i++) assert_int_equal(ids.id[i], want[i]);
  tri_tokens_free(&ids);
}

/* Judge: the file named in the error. A list that is too long is refused before it is compared with another
 * list, which once took minutes. Lists at the limit are joined, and each token occurs once. */
static void test_long_lists(void **state) {
  enum { MOST = 1 << 14 };
  json_t        *long_one = json_array(), *list = json_array(), *more = json_array(), *files = json_object();
  json_t        *o;
  char          *text, name[32];
  tri_tokenizer *t;

  (void)state;
  for (int i = 0; i < 16 * MOST - 8; i++) {
    snprintf(name, sizeof name, "<x%d>", i);
    json_array_append_new(long_one, json_string(name));
    if (i < MOST / 2) json_array_append_new(list, json_string(name));
    if (i < MOST) json_array_append_new(more, json_string(name));
  }
  for (int k = 0; k < 2; k++) {
    o = json_pack("{s:O}", "extra_special_tokens", k ? list : long_one);
    text = json_dumps(o, 0);
    json_object_set_new(files, "tokenizer_config.json", json_string(text));
    free(text);
    json_decref(o);
    o = json_pack("{s:O}", "extra_special_tokens", more);
    text = json_dumps(o, 0);
    json_object_set_new(files, "special_tokens_map.json", json_string(text));
    free(text);
    json_decref(o);
    tri_error_clear();
    if (k) {
      ok(open_folder("gpt2", files, &t));
      snprintf(name, sizeof name, "<x%d>", MOST - 1);
      expect_ids(t, name, strlen(name), (int32_t[]){tri_tokenizer_vocab_size(t) - 1}, 1);
      tri_tokenizer_close(&t);
    } else {
      assert_int_equal(open_folder("gpt2", files, &t), TRI_EINPUT);
      assert_int_equal(strncmp(tri_error_message(), "tokenizer_config.json", 21), 0);
    }
  }
  tri_error_clear();
  json_decref(files);
  json_decref(long_one);
  json_decref(list);
  json_decref(more);
  assert_int_equal(tri_host_bytes(), 0);
}

/* Judge: exact. The ids have holes. An added token takes the next id after the vocabulary, or its id in the
 * model. */
static void test_lookups(void **state) {
  tri_tokenizer *t;
  tri_text       text = {0};
  const int32_t  hole[] = {2, 4};

  (void)state;
  ok(open_with(ADDED, "[" TOKEN("5", "<x>") "," TOKEN("7", "c") "]", &t));
  assert_int_equal(tri_tokenizer_vocab_size(t), 8);
  assert_string_equal(tri_tokenizer_token(t, 5), "<x>");
  assert_string_equal(tri_tokenizer_token(t, 2), "ab");
  assert_string_equal(tri_tokenizer_token(t, 7), "c");
  assert_null(tri_tokenizer_token(t, 4));
  assert_null(tri_tokenizer_token(t, -1));
  assert_null(tri_tokenizer_token(t, 8));
  expect_ids(t, "ab <x>c", 7, (int32_t[]){2, 3, 5, 7}, 4);
  ok(tri_tokenizer_decode(t, (int32_t[]){2, 5, 2}, 3, true, &text));
  assert_string_equal(text.data, "ab ab"); /* 5 is special, 2 is not */
  assert_int_equal(tri_tokenizer_decode(t, hole, 2, false, &text), TRI_EINPUT);
  expect_refusal("token_text() 4 0 7");
  tri_error_clear();
  assert_int_equal(tri_tokenizer_decode(t, (int32_t[]){-1}, 1, false, &text), TRI_EINPUT);
  tri_error_clear();
  assert_int_equal(tri_tokenizer_decode(t, (int32_t[]){8}, 1, true, &text), TRI_EINPUT);
  tri_error_clear();
  tri_text_free(&text);
  tri_tokenizer_close(&t);
}

/* Judge: exact. A byte order mark, and unknown characters without unk_token, with a missing one, and with
 * one. */
static void test_unknown(void **state) {
  static const char bom[] = "\xef\xbb\xbf{\"model\":" BPE(AB ",\"merges\":[[\"a\",\"b\"]]") "}";
  tri_tokenizer    *t;
  tri_tokens        ids = {0};

  (void)state;
  ok(tri_tokenizer_open_text("bom", bom, sizeof bom - 1, &t));
  expect_ids(t, "axb", 3, (int32_t[]){2}, 1);
  tri_tokenizer_close(&t);
  ok(open_with(MODEL, BPE(AB ",\"merges\":[],\"unk_token\":\"zz\""), &t));
  expect_ids(t, "ab", 2, (int32_t[]){0, 1}, 2);
  assert_int_equal(tri_tokenizer_encode(t, "ax", 2, false, &ids), TRI_EINPUT);
  assert_int_equal(ids.n, 0);
  expect_refusal("fill_symbols() unk_token zz");
  tri_error_clear();
  tri_tokenizer_close(&t);
  ok(open_with(MODEL, BPE(AB ",\"merges\":[],\"unk_token\":\"ab\""), &t));
  expect_ids(t, "xayz", 4, (int32_t[]){2, 0, 2, 2}, 4);
  tri_tokenizer_close(&t);
  tri_tokens_free(&ids);
}

/* Judge: exact, Python's bytes.decode(errors="replace"). The ids equal those of the text with U+FFFD. */
static void test_invalid_utf8(void **state) {
  static const struct {
    const char *bytes, *text;
  } row[] = {
      {"a\xff"
       "b",
       "a\xef\xbf\xbd"
       "b"},
      {"\xe4\xbd", "\xef\xbf\xbd"},
      {"\xe4\xbd"
       "a",
       "\xef\xbf\xbd"
       "a"},
      {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},
      {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
      {"\xf0\x9f\x99", "\xef\xbf\xbd"},
      {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
      {"\xf0\x9f\x99\x82\x82", "\xf0\x9f\x99\x82\xef\xbf\xbd"},
  };
  tri_tokenizer *t = open_shape("gpt2");

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    tri_tokens want = {0};
    tri_text   text = {0};
    ok(tri_tokenizer_encode(t, row[i].text, strlen(row[i].text), false, &want));
    expect_ids(t, row[i].bytes, strlen(row[i].bytes), want.id, want.n);
    ok(tri_tokenizer_decode(t, want.id, want.n, false, &text));
    assert_string_equal(text.data, row[i].text);
    tri_text_free(&text);
    tri_tokens_free(&want);
  }
  tri_tokenizer_close(&t);
}

/* Judge: exact. A byte-level tokenizer restores the text. Long runs must not take quadratic time. */
static void check_long(const char *name) {
  static const char *const unit[] = {"a",  " ", "\n",     "ab", "\xcc\x81\xcc\xa3", "\xe5\xa5\xbd",
                                     " a", "1", "<|im_en"};
  const size_t             n = 300000;
  char                    *text;
  tri_tokenizer           *t = open_shape(name);

  ok(TRI_ALLOC(text, n + 16));
  for (size_t i = 0; i < sizeof unit / sizeof *unit; i++) {
    size_t     size = strlen(unit[i]), len = 0;
    tri_tokens ids = {0};
    tri_text   back = {0};
    for (; len + size <= n; len += size) memcpy(text + len, unit[i], size);
    ok(tri_tokenizer_encode(t, text, len, false, &ids));
    ok(tri_tokenizer_decode(t, ids.id, ids.n, false, &back));
    assert_int_equal(back.len, len);
    if (i != 4) assert_memory_equal(back.data, text, len); /* NFC reorders these marks */
    tri_text_free(&back);
    tri_tokens_free(&ids);
  }
  TRI_FREE(text);
  tri_tokenizer_close(&t);
}

/* Among the patterns here, kimi's take the most steps per byte. */
static void test_long(void **state) {
  (void)state;
  check_long("qwen2");
  check_long("kimi");
}

/* Judge: CPython 3.11, hash(bytes) with PYTHONHASHSEED=0. This is SipHash-1-3 with a key of zeros. */
static void test_hash(void **state) {
  static const struct {
    const char *text;
    uint64_t    want;
  } row[] = {{"a", 0x407448d2b89b1813u},
             {"abc", 0xc03bc3a0042630f2u},
             {"12345678", 0x3489982430560a87u},
             {"the quick brown fox jumps", 0x00c98b97e4f70042u}};
  tri_tokenizer *t[2] = {open_shape("gpt2"), open_shape("gpt2")};

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    assert_true(tri_tok_hash((tri_tok_key){0, 0}, row[i].text, strlen(row[i].text)) == row[i].want);
  /* nobody can make texts collide, because the key is random */
  assert_true(tri_tok_hash(t[0]->key, "abc", 3) != tri_tok_hash(t[1]->key, "abc", 3));
  assert_true(tri_tok_pair_slot(1 << 20, t[0]->key, 0) != tri_tok_pair_slot(1 << 20, t[1]->key, 0));
  for (int i = 0; i < 2; i++) tri_tokenizer_close(&t[i]);
}

/* 100 times "a". */
#define MANY                                                                                                 \
  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define GROW    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"" MANY "\"}"
#define TWICE   "{\"Sequence\":{\"id\":\"A\"}},{\"Sequence\":{\"id\":\"A\"}}"
#define EIGHT   "{\"type\":\"TemplateProcessing\",\"single\":[" TWICE "," TWICE "," TWICE "," TWICE "]}"
#define LIST(x) "{\"type\":\"Sequence\"," x "}"

static void expect_bounded(tri_status st, const char *message) {
  assert_int_equal(st, TRI_EINPUT);
  expect_refusal(message);
  tri_error_clear();
}

/* Judge: the limits of 64 times the text and a MiB, and 16 times the added tokens and a MiB. The error names
 * the step. */
static void test_bounds(void **state) {
  static const char normalizers[] = LIST("\"normalizers\":[" GROW "," GROW "," GROW "," GROW "]");
  static const char added[] = "{\"normalizer\":" LIST(
      "\"normalizers\":[" GROW "," GROW "," GROW "," GROW
      "]") ","
           "\"added_tokens\":[{\"id\":2,\"content\":\"a1\",\"single_word\":false,"
           "\"lstrip\":false,\"rstrip\":false,\"normalized\":true,\"special\":false}],"
           "\"model\":" BPE(AB ",\"merges\":[]") "}";
  tri_tokenizer *t;
  tri_tokens     ids = {0};
  tri_text       text = {0};

  (void)state;
  ok(open_with(NORMALIZER, normalizers, &t));
  expect_bounded(tri_tokenizer_encode(t, "xa", 2, false, &ids),
                 "tri_tok_reserve() normalizer.normalizers[3] 1048704");
  tri_tokenizer_close(&t);
  expect_bounded(tri_tokenizer_open_text("file.json", added, sizeof added - 1, &t),
                 "tri_tok_reserve() normalizer.normalizers[3] 1048608");
  assert_null(t);
  ok(open_with(DECODER, LIST("\"decoders\":[" GROW "," GROW "," GROW "," GROW "]"), &t));
  expect_bounded(tri_tokenizer_decode(t, (int32_t[]){0}, 1, false, &text),
                 "tri_tok_reserve() decoder.decoders[3] 1048640");
  tri_tokenizer_close(&t);
  ok(open_with(POST, LIST("\"processors\":[" EIGHT "," EIGHT "]"), &t));
  ok(tri_tokenizer_encode(t, "a", 1, true, &ids));
  assert_int_equal(ids.n, 64);
  tri_tokenizer_close(&t);
  expect_bounded(open_with(POST, LIST("\"processors\":[" EIGHT "," EIGHT "," EIGHT "]"), &t),
                 "bound_template() post_processor (TemplateProcessing) 512");
  tri_tokens_free(&ids);
  tri_text_free(&text);
  assert_int_equal(tri_host_bytes(), 0);
}

/* "{}" and "0" would take 80 and 20 times their bytes. Judge: the limits in io/tokenizer/tokenizer.c. */
static void test_bounds_json(void **state) {
  enum { NESTED = 1 << 21 };
  static const struct {
    const char *item;
    int         n;
  } row[] = {{"{},", NESTED}, {"0,", 4 * NESTED}};

  (void)state;
  for (int i = 0; i < 2; i++) {
    tri_text       list = {0};
    tri_tokenizer *t;
    ok(tri_text_printf(&list, "["));
    for (int k = 0; k < row[i].n; k++) ok(tri_text_put(&list, row[i].item, strlen(row[i].item)));
    ok(tri_text_printf(&list, "0]"));
    expect_bounded(open_with(NORMALIZER, list.data, &t), "parse_json() 2097152");
    tri_text_free(&list);
  }
}

static void test_foreign_file(void **state) {
  static const char pointer[] =
      "version https://git-lfs.github.com/spec/v1\noid sha256:76f3\nsize 17208712\n";
  tri_tokenizer *t;

  (void)state;
  assert_int_equal(tri_tokenizer_open_text("file.json", pointer, sizeof pointer - 1, &t), TRI_EINPUT);
  expect_refusal("parse_json() file.json LFS");
  expect_refusal("git lfs pull");
  tri_error_clear();
}

/* Judge: a search of 2^28 steps and more is stopped, and the message has the pattern. */
static void test_endless_regex(void **state) {
  static const char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaa";
  char              words[20 * 19];
  tri_tokenizer    *t;
  tri_tokens        ids = {0};

  (void)state;
  ok(open_with(PRE, SPLIT("(?:a|a)*c|a"), &t));
  expect_ids(t, "aab", 3, (int32_t[]){0, 0, 1}, 3);
  assert_int_equal(tri_tokenizer_encode(t, text, strlen(text), false, &ids), TRI_EINPUT);
  expect_refusal("search() pre_tokenizer (?:a|a)*c|a");
  expect_refusal("search() (?:a|a)*c|a 28");
  tri_error_clear();
  /* 2^18 steps for each of 20 words */
  for (int i = 0; i < 20; i++) memcpy(words + 19 * i, "aaaaaaaaaaaaaaaaaab", 19);
  assert_int_equal(tri_tokenizer_encode(t, words, sizeof words, false, &ids), TRI_EINPUT);
  expect_refusal("search() (?:a|a)*c|a 380");
  tri_error_clear();
  tri_tokenizer_close(&t);
}

typedef struct thread_task {
  const tri_tokenizer *t;
  json_t              *texts;
  tri_tokens           ids;
  tri_status           st;
} thread_task;

static void *encode_all(void *arg) {
  thread_task *task = arg;
  size_t       i;
  json_t      *text;

  for (int pass = 0; pass < 5; pass++)
    json_array_foreach(task->texts, i, text) if (task->st == TRI_OK) task->st =
        tri_tokenizer_encode(task->t, json_string_value(text), json_string_length(text), true, &task->ids);
  return NULL;
}

/* Judge: both threads give the same ids. */
static void test_threads(void **state) {
  tri_tokenizer *t = open_shape("llama3");
  json_t        *texts = load_json("texts.json");
  thread_task    task[2] = {{t, texts, {0}, TRI_OK}, {t, texts, {0}, TRI_OK}};
  pthread_t      thread[2];

  (void)state;
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(thread + i, NULL, encode_all, task + i), 0);
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
  assert_int_equal(task[0].st, TRI_OK);
  assert_int_equal(task[1].st, TRI_OK);
  assert_int_equal(task[0].ids.n, task[1].ids.n);
  assert_memory_equal(task[0].ids.id, task[1].ids.id, (size_t)task[0].ids.n * sizeof(int32_t));
  for (int i = 0; i < 2; i++) tri_tokens_free(&task[i].ids);
  json_decref(texts);
  tri_tokenizer_close(&t);
  tri_tokenizer_close(&t);
}

static void test_no_file(void **state) {
  tri_tokenizer *t;

  (void)state;
  assert_int_not_equal(tri_tokenizer_open("no/such/tokenizer.json", &t), TRI_OK);
  assert_null(t);
  expect_refusal("open_to_read() no/such/tokenizer.json");
  tri_error_clear();
}

int main(void) {
  const struct CMUnitTest test[] = {
      cmocka_unit_test(test_golden),       cmocka_unit_test(test_folders),
      cmocka_unit_test(test_unigram),      cmocka_unit_test(test_regexes),
      cmocka_unit_test(test_broken),       cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_lookups),      cmocka_unit_test(test_long_lists),
      cmocka_unit_test(test_unknown),      cmocka_unit_test(test_no_file),
      cmocka_unit_test(test_invalid_utf8), cmocka_unit_test(test_long),
      cmocka_unit_test(test_foreign_file), cmocka_unit_test(test_bounds_json),
      cmocka_unit_test(test_bounds),       cmocka_unit_test(test_threads),
      cmocka_unit_test(test_hash),         cmocka_unit_test(test_endless_regex)};
  return cmocka_run_group_tests(test, NULL, NULL);
}
