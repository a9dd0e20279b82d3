/* dataset_line.c - the fields of a line to tokens. */
#include "dataset_line.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { FIELDS_BYTES = 256 }; /* chosen: names of fields in a message */

/* The text under `key`, which must be there. */
static tri_status get_text(const tri_intake *in, const char *key, const char **text, size_t *n) {
  const json_t *v = json_object_get(in->object, key);

  *text = NULL;
  *n = 0;
  if (!json_is_string(v)) TRI_FAIL_LINE(in, "`%s` must be text, or a list of messages", key);
  *text = json_string_value(v);
  *n = json_string_length(v);
  return TRI_OK;
}

/* Put the tokens of the text under `key`. */
static tri_status put_text(tri_intake *in, tri_side *to, const char *key, bool special) {
  bool           is_pair = in->opt->kind == TRI_DATA_PAIRS;
  const int32_t *id = NULL;
  int64_t        n_id = 0;
  const char    *text;
  size_t         n;
  char           of[64];

  TRI_TRY(get_text(in, key, &text, &n));
  in->model_lacks = !in->opt->encode;
  if (in->model_lacks)
    TRI_FAIL_LINE(in, "`%s` is text, but the model has no tokenizer; give %s instead%s", key,
                  is_pair ? "`chosen_tokens` and `rejected_tokens`" : "`tokens`",
                  in->opt->from_deck ? ", or model.tokenizer" : "");
  TRI_TRY(tri_jsonl_place(in->r, in->opt->encode(in->opt->ctx, text, n, special, &id, &n_id)));
  snprintf(of, sizeof of, "`%.60s`", key);
  TRI_TRY(tri_intake_check_ids(in, id, n_id, of));
  return tri_intake_put_ids(in, to, id, n_id);
}

/* Put the end token behind the tokens from `first` on, once. */
static tri_status put_end(tri_intake *in, tri_side *to, int64_t first, int32_t end) {
  if (end < 0 || (to->n > first && to->id[to->n - 1] == end)) return TRI_OK;
  if (end >= in->opt->vocab)
    TRI_FAIL_LINE(in, "the end token %d is not in the model's vocabulary, 0 .. %d", end, in->opt->vocab - 1);
  return tri_intake_put_ids(in, to, &end, 1);
}

tri_status tri_intake_put_answer(tri_intake *in, tri_side *to, const char *key) {
  TRI_TRY(put_text(in, to, key, false));
  return put_end(in, to, in->n_prompt, in->opt->end.completion);
}

tri_status tri_intake_take_prompt_tokens(tri_intake *in, int64_t least, int64_t most, int64_t n,
                                         const char *key) {
  const json_t *prompt = json_object_get(in->object, "prompt_tokens");

  if (!prompt) return TRI_OK;
  if (!json_is_integer(prompt)) TRI_FAIL_LINE(in, "`%s` must be a whole number", "prompt_tokens");
  in->n_prompt = json_integer_value(prompt);
  if (in->n_prompt < least || in->n_prompt > most)
    TRI_FAIL_LINE(in, "`prompt_tokens` = %lld: must be in %lld .. %lld, there are %lld tokens%s%s%s",
                  (long long)in->n_prompt, (long long)least, (long long)most, (long long)n,
                  key ? " in `" : "", key ? key : "", key ? "`" : "");
  return TRI_OK;
}
tri_status tri_intake_take_tokens(tri_intake *in) {
  bool           is_prompt = tri_data_is_prompts(in->opt->kind);
  const int32_t *id;
  int64_t        n;

  TRI_TRY(tri_jsonl_ids(in->r, "tokens", in->opt->vocab, &id, &n));
  TRI_TRY(tri_intake_put_ids(in, &in->side[0], id, n));
  in->n_prompt = is_prompt ? n : 0;
  TRI_TRY(
      tri_intake_take_prompt_tokens(in, is_prompt, tri_data_is_learned(in->opt->kind) ? n - 1 : n, n, NULL));
  if (is_prompt) in->side[0].n = in->n_prompt;
  return TRI_OK;
}

tri_status tri_intake_take_prompt(tri_intake *in) {
  bool alone = tri_data_is_prompts(in->opt->kind),
       there = json_object_get(in->object, in->prompt_key) != NULL;

  if (alone && !there && json_object_get(in->object, "messages")) return tri_intake_take_talk(in, "messages");
  if (!there) return tri_intake_refuse_missing(in, in->prompt_key, "data.prompt_key", "--prompt-key");
  if (alone && tri_intake_is_talk(in, in->prompt_key, NULL)) return tri_intake_take_talk(in, in->prompt_key);
  TRI_TRY(put_text(in, &in->side[0], in->prompt_key, true));
  in->n_prompt = in->side[0].n;
  if (!in->n_prompt && tri_data_is_prompts(in->opt->kind))
    TRI_FAIL_LINE(in, "`%s` has no tokens", in->prompt_key);
  return TRI_OK;
}

tri_status tri_intake_take_text(tri_intake *in) {
  bool has_completion = json_object_get(in->object, in->completion_key) != NULL;
  bool has_talk = json_object_get(in->object, "messages") && strcmp("messages", in->completion_key);
  bool has_text = json_object_get(in->object, "text") && strcmp("text", in->prompt_key) &&
                  strcmp("text", in->completion_key);
  char fields[FIELDS_BYTES];

  if (has_completion && has_text)
    TRI_FAIL_LINE(in, "has both `%s` and `text`; which one is meant?", in->completion_key);
  if (has_talk && (has_completion || has_text))
    TRI_FAIL_LINE(in, "has both `messages` and `%s`; which one is meant?",
                  has_completion ? in->completion_key : "text");
  if (has_talk) return tri_intake_take_answered(in, &in->side[0], NULL, "messages");
  if (has_completion && tri_intake_is_talk(in, in->prompt_key, in->completion_key))
    return tri_intake_take_answered(in, &in->side[0], in->prompt_key, in->completion_key);
  if (!has_completion && !has_text)
    TRI_FAIL_LINE(in, "needs `%s` and `%s`, or `messages`, `text` or `tokens`; %s; set %s", in->prompt_key,
                  in->completion_key, tri_jsonl_fields(in->r, fields, sizeof fields),
                  in->opt->from_deck ? "data.prompt_key, data.completion_key"
                                     : "--prompt-key, --completion-key");
  if (has_text) {
    TRI_TRY(put_text(in, &in->side[0], "text", true));
    return put_end(in, &in->side[0], 0, in->opt->end.text);
  }
  TRI_TRY(tri_intake_take_prompt(in));
  return tri_intake_put_answer(in, &in->side[0], in->completion_key);
}
