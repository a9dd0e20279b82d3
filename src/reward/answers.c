/* answers.c - finished answers as text: decoding, rewards, stop strings. */
#include "answers.h"

#include <math.h>
#include <string.h>

tri_status tri_encoder_run(void *ctx, const char *text, size_t n, bool special, const int32_t **id,
                           int64_t *n_id) {
  tri_encoder *e = ctx;

  e->tokens.n = 0;
  TRI_TRY(tri_tokenizer_encode(e->tokenizer, text, n, special, &e->tokens));
  *id = e->tokens.id;
  *n_id = e->tokens.n;
  return TRI_OK;
}

tri_status tri_answers_decode(const tri_tokenizer *tokenizer, const int32_t *id, int64_t n, bool skip_special,
                              tri_text *out) {
  tri_tokens known = {0};
  tri_status st = TRI_OK;

  for (int64_t i = 0; i < n; i++)
    if (tri_tokenizer_token(tokenizer, id[i])) TRI_TRY_DONE(tri_tokens_put(&known, &id[i], 1));
  TRI_TRY_DONE(tri_tokenizer_decode(tokenizer, known.id, known.n, skip_special, out));
done:
  tri_tokens_free(&known);
  return st;
}

/* An answer that the tokenizer cannot decode within its bounds: 0 from every reward. */
static tri_status fail_text(tri_rollout *r, int q) {
  tri_error_clear();
  for (int i = 0; i < r->n_reward; i++) r->part[(int64_t)q * r->n_reward + i] = 0;
  r->reward[q] = 0;
  r->failed[q] = TRI_FAILED_TEXT;
  return TRI_OK;
}

static tri_status reward_one(tri_rollout *r, int q, const tri_example *e, const tri_tokenizer *tokenizer,
                             tri_reward_set *set, tri_text *text) {
  const int32_t *token = r->token + r->start[q] + r->prompt_len[q];
  int64_t        n = r->start[q + 1] - r->start[q] - r->prompt_len[q];
  tri_answer     a = {.prompt_id = r->prompt_id[q],
                      .prompt = e->prompt ? e->prompt : "",
                      .prompt_bytes = e->prompt ? e->prompt_bytes : 0,
                      .truth = e->answer,
                      .truth_bytes = e->answer_bytes,
                      .n_token = (int)n,
                      .truncated = r->stop[q] == TRI_STOP_LENGTH};
  tri_status     st;

  text->len = 0;
  st = tri_answers_decode(tokenizer, token, n, true, text);
  if (st == TRI_EINPUT) return fail_text(r, q);
  TRI_TRY(st);
  a.response = text->data ? text->data : "";
  a.response_bytes = text->len;
  return tri_reward_set_score(set, &a, 1, r->part + (int64_t)q * r->n_reward, r->reward + q, r->failed + q);
}

tri_status tri_answers_reward(tri_rollout *r, const tri_example *const *example,
                              const tri_tokenizer *tokenizer, tri_reward_set *set) {
  tri_status st = TRI_OK;
  tri_text   text = {0};

  if (!tokenizer)
    TRI_FAIL(TRI_EINPUT, "rewards compare text, but the model brings no tokenizer.json; " TRI_TOKENIZER_CURE);
  TRI_TRY(tri_rollout_set_rewards(r, tri_reward_set_count(set)));
  for (int q = 0; q < r->n_seq; q++)
    TRI_TRY_DONE(reward_one(r, q, example[q / r->group], tokenizer, set, &text));
  r->has_reward = true;
done:
  tri_text_free(&text);
  return st;
}

int tri_answers_failed(const tri_rollout *r, tri_reward_set *set, bool warn) {
  int n = 0;

  for (int q = 0; q < r->n_seq; q++) {
    n += r->failed[q] != 0;
    if (warn && r->failed[q] & TRI_FAILED_TEXT) tri_reward_set_warn(set, -1, r->prompt_id[q]);
    for (int i = 0; warn && i < r->n_reward; i++)
      if (r->failed[q] >> i & 1) tri_reward_set_warn(set, i, r->prompt_id[q]);
  }
  return n;
}

/* Does the text hold the string? Both may hold NUL. */
static bool holds(const tri_text *text, const char *what) {
  size_t n = strlen(what);

  for (size_t i = 0; n && i + n <= text->len; i++)
    if (!memcmp(text->data + i, what, n)) return true;
  return false;
}

bool tri_answers_stop(void *ctx, const int32_t *answer, int64_t n) {
  const tri_stop_rule *rule = ctx;
  tri_text             text = {0};
  size_t               longest = 0;
  bool                 found = false;

  for (int i = 0; i < rule->n; i++)
    if (strlen(rule->text[i]) > longest) longest = strlen(rule->text[i]);
  /* The newest tokens, until their text is long enough for a string that ends in the last one; 16 bytes more
   * for tokens that are a part of a character. */
  for (int64_t tail = 8; text.len < longest + 16; tail *= 2) {
    text.len = 0;
    if (tail > n) tail = n;
    if (tri_answers_decode(rule->tokenizer, answer + n - tail, tail, false, &text) != TRI_OK) {
      tri_error_clear(); /* without text there is no stop string in it */
      break;
    }
    if (tail == n) break;
  }
  for (int i = 0; i < rule->n && !found; i++) found = holds(&text, rule->text[i]);
  tri_text_free(&text);
  return found;
}
