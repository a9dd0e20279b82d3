/* dataset_pairs.c - parses lines of preferences: two answers to a prompt, or one with a label. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <float.h>
#include <jansson.h>
#include <math.h>

#include "line_parser.h"

static bool has(const tri_line_parser *in, const char *key) {
  return json_object_get(in->object, key) != NULL;
}

bool tri_line_parser_has_pair_tokens(const tri_line_parser *in) {
  return has(in, "chosen_tokens") || has(in, "rejected_tokens");
}

/* Reads a pair's margin, 0 if the line has none. */
static tri_status take_margin(tri_line_parser *in) {
  const json_t *margin = json_object_get(in->object, in->margin_key);
  double        value = json_number_value(margin);

  if (!margin) return TRI_OK;
  if (!json_is_number(margin)) TRI_FAIL_LINE(in, "`%s` must be a number", in->margin_key);
  if (fabs(value) > (double)FLT_MAX)
    TRI_FAIL_LINE(in, "`%s` = %g: must be in -%g .. %g", in->margin_key, value, (double)FLT_MAX,
                  (double)FLT_MAX);
  in->value = (float)value;
  return TRI_OK;
}

/* Reads one side of a pair as tokens, with its prompt. */
static tri_status take_tokens_of(tri_line_parser *in, tri_token_buffer *buffer, const char *key) {
  const int32_t *id;
  int64_t        n;

  if (!has(in, key)) return tri_line_parser_refuse_missing(in, key, NULL, NULL);
  TRI_TRY(tri_jsonl_ids(in->r, key, in->opt->vocab, &id, &n));
  TRI_TRY(tri_line_parser_put_ids(in, buffer, id, n));
  return tri_line_parser_take_prompt_tokens(in, 0, n - 1, n, key);
}

static tri_status take_pair_tokens(tri_line_parser *in) {
  const tri_token_buffer *buffer = in->buffer;

  TRI_TRY(take_tokens_of(in, &in->buffer[0], "chosen_tokens"));
  TRI_TRY(take_tokens_of(in, &in->buffer[1], "rejected_tokens"));
  for (int64_t i = 0; i < in->n_prompt; i++)
    if (buffer[0].id[i] != buffer[1].id[i])
      TRI_FAIL_LINE(in,
                    "`chosen_tokens`[%lld] = %d and `rejected_tokens`[%lld] = %d differ, but both must begin "
                    "with the same prompt, %lld tokens (`prompt_tokens`)",
                    (long long)i, buffer[0].id[i], (long long)i, buffer[1].id[i], (long long)in->n_prompt);
  TRI_TRY(tri_line_parser_check_learned(in, &buffer[0], "chosen_tokens"));
  return tri_line_parser_check_learned(in, &buffer[1], "rejected_tokens");
}

static tri_status take_pair_text(tri_line_parser *in) {
  static const char *const name[] = {"data.chosen_key", "data.rejected_key"};
  const char *const        key[] = {in->chosen_key, in->rejected_key};
  int64_t                  n_prompt;

  if (!has(in, key[0]) && !has(in, key[1]) && has(in, in->completion_key))
    TRI_FAIL_LINE(
        in, "has `%s`, but no `%s` and no `%s`; one answer to a prompt is for sft, or with a label for kto",
        in->completion_key, key[0], key[1]);
  for (int i = 0; i < 2; i++)
    if (!has(in, key[i])) return tri_line_parser_refuse_missing(in, key[i], name[i], NULL);
  if (tri_line_parser_is_conversation(in, key[0], key[1]) ||
      tri_line_parser_is_conversation(in, in->prompt_key, NULL))
    return tri_line_parser_take_talked_pair(in);
  if (!has(in, in->prompt_key))
    return tri_line_parser_refuse_missing(
        in, in->prompt_key, "data.prompt_key, or move the prompt at the begin of both texts to its own field",
        NULL);
  TRI_TRY(tri_line_parser_read_prompt(in));
  TRI_TRY(tri_line_parser_put_answered(in, &in->buffer[0], key[0]));
  n_prompt = in->n_prompt;
  TRI_TRY(tri_line_parser_put_answered(in, &in->buffer[1], key[1]));
  if (n_prompt < in->n_prompt) in->n_prompt = n_prompt; /* TRL 1.16, dpo_trainer.py: the shorter of both */
  for (int i = 0; i < 2; i++) TRI_TRY(tri_line_parser_check_learned(in, &in->buffer[i], key[i]));
  return TRI_OK;
}

tri_status tri_line_parser_take_pair(tri_line_parser *in) {
  TRI_TRY(take_margin(in));
  return tri_line_parser_has_pair_tokens(in) ? take_pair_tokens(in) : take_pair_text(in);
}

/* Accepts true and false, as TRL does, and 1 and 0. A text, a fraction or another number may be a score. */
bool tri_dataset_is_label(const json_t *line, const char *key) {
  const json_t *v = json_object_get(line, key);
  json_int_t    n = json_integer_value(v);

  return json_is_boolean(v) || (json_is_integer(v) && (n == 0 || n == 1));
}

static tri_status take_label(tri_line_parser *in, const json_t *label) {
  if (!tri_dataset_is_label(in->object, in->label_key)) return tri_line_parser_refuse_label(in, label);
  in->value = json_is_true(label) || json_integer_value(label) == 1;
  return TRI_OK;
}

tri_status tri_line_parser_take_labelled(tri_line_parser *in) {
  const json_t *label = json_object_get(in->object, in->label_key);

  if (has(in, "tokens")) {
    TRI_TRY(tri_line_parser_take_tokens(in));
  } else if (has(in, "messages") && !has(in, in->completion_key)) {
    TRI_TRY(tri_line_parser_take_answered(in, &in->buffer[0], NULL, "messages"));
  } else if (tri_line_parser_is_conversation(in, in->prompt_key, in->completion_key)) {
    if (!has(in, in->completion_key))
      return tri_line_parser_refuse_missing(in, in->completion_key, "data.completion_key",
                                            "--completion-key");
    TRI_TRY(tri_line_parser_take_answered(in, &in->buffer[0], in->prompt_key, in->completion_key));
  } else {
    TRI_TRY(tri_line_parser_read_prompt(in));
    if (!has(in, in->completion_key))
      return tri_line_parser_refuse_missing(in, in->completion_key, "data.completion_key",
                                            "--completion-key");
    TRI_TRY(tri_line_parser_put_answered(in, &in->buffer[0], in->completion_key));
  }
  if (!label) return tri_line_parser_refuse_missing(in, in->label_key, "data.label_key", NULL);
  return take_label(in, label);
}
