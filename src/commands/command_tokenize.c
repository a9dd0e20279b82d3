/* command_tokenize.c - trireme tokenize MODEL [F.jsonl]: turns text into ids and back, without the
 * weights. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"
#include "base/print.h"
#include "comm/runtime.h"
#include "commands.h"
#include "io/model/hub.h"
#include "io/model/source.h"
#include "io/model/tokenizer_files.h"
#include "io/text/json_text.h"
#include "io/text/jsonl.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

typedef struct job {
  tri_tokenizer *tokenizer;
  tri_jsonl     *in;
  tri_tokens     ids;
  tri_text       text, line;
  bool           special;
} job;

static tri_status open_of_checkpoint(const char *folder, tri_tokenizer **out) {
  tri_status       st = TRI_OK;
  tri_ckpt_reader *r = NULL;

  TRI_TRY(tri_ckpt_open(folder, NULL, false, &r));
  TRI_TRY_DONE(tri_tokenizer_files_get(r, out));
  if (!*out)
    TRI_FAIL_DONE(TRI_EINPUT,
                  "%s: the checkpoint has no tokenizer.json, since its run used data of token ids", folder);
done:
  tri_ckpt_close(&r);
  return st;
}

/* Opens the tokenizer of a folder. Unlike tri_source_open it accepts a folder with nothing but
 * tokenizer.json. */
static tri_status open_tokenizer(const char *given, tri_tokenizer **out) {
  static const tri_tokenizer_file none[TRI_TOKENIZER_FILES];
  char file[TRI_CKPT_PATH_BYTES + 32], folder[TRI_CKPT_PATH_BYTES], path[TRI_CKPT_PATH_BYTES];
  char cure[TRI_TOKENIZER_CURE_BYTES];

  TRI_TRY(tri_hub_resolve(given, true, path));
  if (!tri_file_exists(path)) return tri_source_missing(path);
  snprintf(file, sizeof file, "%s/MANIFEST.json", path);
  if (tri_file_exists(file)) return open_of_checkpoint(path, out);
  snprintf(file, sizeof file, "%s/tokenizer.json", path);
  if (tri_file_exists(file)) return tri_tokenizer_files_open(none, NULL, path, out);
  snprintf(file, sizeof file, "%s/config.json", path);
  folder[0] = 0;
  if (!tri_file_exists(file)) TRI_TRY(tri_source_find_checkpoint(path, NULL, false, folder));
  if (folder[0]) return open_of_checkpoint(folder, out);
  if (!tri_file_in(path, ".")) TRI_FAIL(TRI_EINPUT, "%s: this is a file. Give its folder", path);
  TRI_FAIL(
      TRI_EINPUT,
      "%s: this folder has no tokenizer.json, and is neither a checkpoint nor the output folder of a run.\n"
      "  %s",
      path, tri_tokenizer_cure(path, cure));
}

/* Turns {"text": ...} into "[1,2]\n", in j->line. */
static tri_status encode(job *j, const json_t *object) {
  const json_t *text = json_object_get(object, "text");
  char          fields[256];

  if (!json_is_string(text))
    TRI_FAIL(TRI_EINPUT, "%s:%lld: %s; %s. Give lines of {\"text\": \"...\"}", tri_jsonl_path(j->in),
             (long long)tri_jsonl_line(j->in), text ? "`text` is no string" : "has no `text`",
             tri_jsonl_fields(j->in, fields, sizeof fields));
  j->ids.n = 0;
  TRI_TRY(tri_jsonl_place(j->in, tri_tokenizer_encode(j->tokenizer, json_string_value(text),
                                                      json_string_length(text), j->special, &j->ids)));
  TRI_TRY(tri_text_put(&j->line, "[", 1));
  for (int64_t i = 0; i < j->ids.n; i++) TRI_TRY(tri_text_printf(&j->line, i ? ",%d" : "%d", j->ids.id[i]));
  return tri_text_put(&j->line, "]\n", 2);
}

/* Turns {"tokens": [...]}, or [...] as encode writes it, into a JSON string, in j->line. */
static tri_status decode(job *j, const json_t *object) {
  const int32_t *id;
  int64_t        n;

  if (json_object_get(object, "text") && !json_object_get(object, "tokens"))
    TRI_FAIL(TRI_EINPUT, "%s:%lld: has `text` but no `tokens`. Leave out --decode to get its ids",
             tri_jsonl_path(j->in), (long long)tri_jsonl_line(j->in));
  TRI_TRY(tri_jsonl_ids(j->in, "tokens", tri_tokenizer_vocab_size(j->tokenizer), &id, &n));
  for (int64_t i = 0; i < n; i++)
    if (!tri_tokenizer_token(j->tokenizer, id[i]))
      TRI_FAIL(TRI_EINPUT, "%s:%lld: the tokenizer has no token %d", tri_jsonl_path(j->in),
               (long long)tri_jsonl_line(j->in), id[i]);
  j->text.len = 0;
  TRI_TRY(tri_tokenizer_decode(j->tokenizer, id, n, !j->special, &j->text));
  TRI_TRY(tri_json_put_string(&j->line, j->text.len ? j->text.data : "", j->text.len));
  return tri_text_put(&j->line, "\n", 1);
}

static tri_status work(const char *model, const char *file, bool special, bool back) {
  tri_status     st = TRI_OK;
  job            j = {.special = special};
  struct json_t *object;

  TRI_TRY_DONE(open_tokenizer(model, &j.tokenizer));
  TRI_TRY_DONE(file ? tri_jsonl_open(file, &j.in) : tri_jsonl_open_stdin(&j.in));
  if (back) tri_jsonl_allow_lists(j.in);
  for (;;) {
    TRI_TRY_DONE(tri_error_about(tri_jsonl_next(j.in, &object),
                                 back ? "lines of {\"tokens\": [...]} or [...] are needed"
                                      : "lines of {\"text\": \"...\"} are needed"));
    if (!object) break;
    TRI_TRY_DONE(tri_jsonl_refuse_odd(j.in, back ? "tokens" : "text"));
    j.line.len = 0;
    TRI_TRY_DONE(back ? decode(&j, object) : encode(&j, object));
    TRI_TRY_DONE(tri_print(j.line.data, j.line.len));
  }
done:
  tri_jsonl_close(&j.in);
  tri_tokenizer_close(&j.tokenizer);
  tri_tokens_free(&j.ids);
  tri_text_free(&j.text);
  tri_text_free(&j.line);
  return st;
}

static tri_status run(int argc, char **argv, int *code) {
  bool     special = false, back = false, json = false, help;
  tri_flag flag[] = {
      {"--special", TRI_FLAG_BOOL, &special, 0, 0, NULL,
       "add the special tokens of the tokenizer's post-processor, or with --decode keep special tokens in "
       "the text"},
      {"--decode", TRI_FLAG_BOOL, &back, 0, 0, NULL,
       "turn each line of {\"tokens\": [...]} or [...] into a JSON string"},
      {"--json", TRI_FLAG_BOOL, &json, 0, 0, NULL, "changes nothing, since the output is JSON in any case"},
  };
  int n;

  (void)code;
  TRI_TRY(tri_flags_parse(&tri_command_tokenize, flag, sizeof flag / sizeof *flag, argc, argv, &n, &help));
  if (help) return TRI_OK;
  const tri_need need[] = {{"MODEL", n > 0}};
  TRI_TRY(tri_flags_need(&tri_command_tokenize, need, 1, n > 2 ? argv[2] : NULL));
  if (tri_runtime_env_rank() != 0) return TRI_OK; /* one rank does the work */
  return work(argv[0], n > 1 ? argv[1] : NULL, special, back);
}

const tri_command tri_command_tokenize = {
    "tokenize", "MODEL [F.jsonl] [--special] [--decode] [--json]",
    "turn text into ids, and back. Lines of {\"text\": ...}, from a file or standard input, become arrays "
    "of token ids",
    run};
