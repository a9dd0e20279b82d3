/* line_parser.c - parses the fields of a line into tokens. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "dataset_foreign.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { FIELDS_BYTES = 256 }; /* chosen for names of keys in a message */

/* Gives the text under `key`, which must be present. */
static tri_status get_text(const tri_line_parser *in, const char *key, const char **text, size_t *n) {
  const json_t *v = json_object_get(in->object, key);

  *text = NULL;
  *n = 0;
  if (!json_is_string(v)) TRI_FAIL_LINE(in, "`%s` must be text, or a list of messages", key);
  *text = json_string_value(v);
  *n = json_string_length(v);
  return TRI_OK;
}

/* Appends the tokens of n bytes of text to `to`. key is the text's field. */
static tri_status put_encoded(tri_line_parser *in, tri_token_buffer *to, const char *key, const char *text,
                              size_t n) {
  const int32_t *id = NULL;
  int64_t        n_id = 0;
  char           of[64];

  TRI_TRY(tri_jsonl_place(in->r, in->opt->encode(in->opt->ctx, n ? text : "", n, true, &id, &n_id)));
  snprintf(of, sizeof of, "`%.60s`", key);
  TRI_TRY(tri_line_parser_check_ids(in, id, n_id, of));
  return tri_line_parser_put_ids(in, to, id, n_id);
}

static tri_status need_tokenizer(tri_line_parser *in, const char *key) {
  bool is_pair = in->opt->kind == TRI_DATA_PAIRS;

  in->model_lacks = !in->opt->encode;
  if (in->model_lacks)
    TRI_FAIL_NO_TOKENIZER(in, "`%s` is text", key,
                          is_pair ? "`chosen_tokens` and `rejected_tokens`" : "`tokens`");
  return TRI_OK;
}

/* Appends the tokens of the text under `key`. */
static tri_status put_text(tri_line_parser *in, tri_token_buffer *to, const char *key) {
  const char *text;
  size_t      n;

  TRI_TRY(get_text(in, key, &text, &n));
  TRI_TRY(need_tokenizer(in, key));
  return put_encoded(in, to, key, text, n);
}

/* ---- the end token ---- */

static tri_status find_end(const tri_data_opt *o, int32_t id, tri_end *out) {
  const char    *text = o->encode && o->end.spells && id >= 0 ? o->end.spells(o->ctx, id) : NULL;
  const int32_t *ids;
  int64_t        n;

  *out = (tri_end){id, NULL};
  if (!text || !*text) return TRI_OK;
  TRI_TRY(o->encode(o->ctx, text, strlen(text), false, &ids, &n));
  if (n == 1 && ids[0] == id) out->text = text;
  return TRI_OK;
}

tri_status tri_line_parser_find_ends(tri_line_parser *in) {
  TRI_TRY(find_end(in->opt, in->opt->end.completion, &in->end_completion));
  return find_end(in->opt, in->opt->end.text, &in->end_text);
}

/* Appends the end token's text to in->joined, unless its last n bytes, the answer, already end with it (TRL
 * 1.16, sft_trainer.py, add_eos). */
static tri_status join_end(tri_line_parser *in, size_t n, const tri_end *end) {
  size_t n_end = end->text ? strlen(end->text) : 0;

  if (!n_end || (n >= n_end && !memcmp(in->joined.data + in->joined.len - n_end, end->text, n_end)))
    return TRI_OK;
  return tri_text_put(&in->joined, end->text, n_end);
}

/* Appends an end token without text to the tokens, unless they end with it. `first` is the index of the
 * answer's first token. */
static tri_status put_end(tri_line_parser *in, tri_token_buffer *to, int64_t first, const tri_end *end) {
  if (end->id < 0 || end->text || (to->n > first && to->id[to->n - 1] == end->id)) return TRI_OK;
  if (end->id >= in->opt->vocab)
    TRI_FAIL_LINE(in, "the end token %d is not in the model's vocabulary, 0 .. %d", end->id,
                  in->opt->vocab - 1);
  return tri_line_parser_put_ids(in, to, &end->id, 1);
}

/* ---- texts ---- */

/* Appends the tokens of a text prompt. */
static tri_status put_prompt(tri_line_parser *in, tri_token_buffer *to) {
  const char *end = in->opt->chat.form ? tri_chat_end(in->opt->chat.form) : NULL;
  const char *text = json_string_value(json_object_get(in->object, in->prompt_key));

  in->plain = text && *text && !(end && strstr(text, end));
  return put_text(in, to, in->prompt_key);
}

tri_status tri_line_parser_read_prompt(tri_line_parser *in) {
  if (!json_object_get(in->object, in->prompt_key))
    return tri_line_parser_refuse_missing(in, in->prompt_key, "data.prompt_key", "--prompt-key");
  in->prompt.n = 0;
  return put_prompt(in, &in->prompt);
}

tri_status tri_line_parser_put_answered(tri_line_parser *in, tri_token_buffer *to, const char *key) {
  const char *prompt, *answer;
  size_t      n_prompt, n_answer;

  TRI_TRY(get_text(in, in->prompt_key, &prompt, &n_prompt));
  TRI_TRY(get_text(in, key, &answer, &n_answer));
  in->joined.len = 0;
  TRI_TRY(tri_text_put(&in->joined, prompt, n_prompt));
  TRI_TRY(tri_text_put(&in->joined, answer, n_answer));
  TRI_TRY(join_end(in, n_answer, &in->end_completion));
  TRI_TRY(put_encoded(in, to, key, in->joined.data, in->joined.len));
  in->n_prompt = tri_common_prefix(in->prompt.id, in->prompt.n, to->id, to->n);
  in->joins |= in->n_prompt < in->prompt.n;
  return put_end(in, to, in->n_prompt, &in->end_completion);
}

/* Appends the tokens of `text` with the end token. */
static tri_status put_whole(tri_line_parser *in, tri_token_buffer *to) {
  const char *text;
  size_t      n;

  TRI_TRY(get_text(in, "text", &text, &n));
  TRI_TRY(need_tokenizer(in, "text"));
  in->joined.len = 0;
  TRI_TRY(tri_text_put(&in->joined, text, n));
  TRI_TRY(join_end(in, n, &in->end_text));
  TRI_TRY(put_encoded(in, to, "text", in->joined.data, in->joined.len));
  return put_end(in, to, 0, &in->end_text);
}

tri_status tri_line_parser_take_prompt_tokens(tri_line_parser *in, int64_t least, int64_t most, int64_t n,
                                              const char *key) {
  const json_t *prompt = json_object_get(in->object, "prompt_tokens");

  if (!prompt) return TRI_OK;
  if (!json_is_integer(prompt)) TRI_FAIL_LINE(in, "`%s` must be a whole number", "prompt_tokens");
  in->n_prompt = json_integer_value(prompt);
  if (in->n_prompt < least || in->n_prompt > most)
    TRI_FAIL_LINE(in, "`prompt_tokens` = %lld, but must be in %lld .. %lld; there are %lld tokens%s%s%s",
                  (long long)in->n_prompt, (long long)least, (long long)most, (long long)n,
                  key ? " in `" : "", key ? key : "", key ? "`" : "");
  return TRI_OK;
}
tri_status tri_line_parser_take_tokens(tri_line_parser *in) {
  bool           is_prompt = tri_data_is_prompts(in->opt->kind);
  const int32_t *id;
  int64_t        n;

  TRI_TRY(tri_jsonl_ids(in->r, "tokens", in->opt->vocab, &id, &n));
  TRI_TRY(tri_line_parser_put_ids(in, &in->buffer[0], id, n));
  in->n_prompt = is_prompt ? n : 0;
  TRI_TRY(tri_line_parser_take_prompt_tokens(in, is_prompt, tri_data_is_learned(in->opt->kind) ? n - 1 : n, n,
                                             NULL));
  if (is_prompt) in->buffer[0].n = in->n_prompt;
  return TRI_OK;
}

tri_status tri_line_parser_take_prompt(tri_line_parser *in) {
  bool there = json_object_get(in->object, in->prompt_key) != NULL;

  if (!there && json_object_get(in->object, "messages"))
    return tri_line_parser_take_conversation(in, "messages");
  if (!there) return tri_line_parser_refuse_missing(in, in->prompt_key, "data.prompt_key", "--prompt-key");
  if (tri_line_parser_is_conversation(in, in->prompt_key, NULL))
    return tri_line_parser_take_conversation(in, in->prompt_key);
  TRI_TRY(put_prompt(in, &in->buffer[0]));
  in->n_prompt = in->buffer[0].n;
  if (!in->n_prompt) TRI_FAIL_LINE(in, "`%s` has no tokens", in->prompt_key);
  return TRI_OK;
}

tri_status tri_line_parser_take_text(tri_line_parser *in) {
  bool has_completion = json_object_get(in->object, in->completion_key) != NULL;
  bool has_conversation = json_object_get(in->object, "messages") && strcmp("messages", in->completion_key);
  bool has_text = json_object_get(in->object, "text") && strcmp("text", in->prompt_key) &&
                  strcmp("text", in->completion_key);
  char what[FIELDS_BYTES];

  if (has_completion && has_text)
    TRI_FAIL_LINE(in, "has both `%s` and `text`, remove one", in->completion_key);
  if (has_conversation && (has_completion || has_text))
    TRI_FAIL_LINE(in, "has both `messages` and `%s`, remove one",
                  has_completion ? in->completion_key : "text");
  if (has_conversation) return tri_line_parser_take_answered(in, &in->buffer[0], NULL, "messages");
  if (has_completion && tri_line_parser_is_conversation(in, in->prompt_key, in->completion_key))
    return tri_line_parser_take_answered(in, &in->buffer[0], in->prompt_key, in->completion_key);
  if (!has_completion && !has_text) {
    snprintf(what, sizeof what, "needs `%.100s` and `%.100s`, or `messages`, `text` or `tokens`",
             in->prompt_key, in->completion_key);
    if (!tri_line_parser_setting(in, "data.completion_key", "--completion-key"))
      return tri_foreign_refuse(in, what, in->completion_key, NULL);
    return tri_foreign_refuse(in, what, in->completion_key,
                              in->opt->from_deck ? "data.prompt_key, data.completion_key"
                                                 : "--prompt-key, --completion-key");
  }
  if (has_text) return put_whole(in, &in->buffer[0]);
  TRI_TRY(tri_line_parser_read_prompt(in));
  return tri_line_parser_put_answered(in, &in->buffer[0], in->completion_key);
}
