/* answers.c - finished answers as text: decoding, rewards, stop strings. */
#include "answers.h"

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

/* The answers that can be judged: all, but those the tokenizer cannot decode within its bounds. */
typedef struct judged {
  tri_answer *a;     /* [n] */
  int        *seq;   /* [n] of the rollout */
  size_t     *begin; /* [n] of its response in text */
  float      *part;  /* [n,n_reward] */
  float      *total; /* [n] */
  int32_t    *failed;
  int         n;
  tri_text    text; /* all responses */
} judged;

static void free_judged(judged *j) {
  TRI_FREE(j->a);
  TRI_FREE(j->seq);
  TRI_FREE(j->begin);
  TRI_FREE(j->part);
  TRI_FREE(j->total);
  TRI_FREE(j->failed);
  tri_text_free(&j->text);
}

static tri_status make_judged(const tri_rollout *r, judged *j) {
  TRI_TRY(TRI_ALLOC(j->a, r->n_seq));
  TRI_TRY(TRI_ALLOC(j->seq, r->n_seq));
  TRI_TRY(TRI_ALLOC(j->begin, r->n_seq));
  TRI_TRY(TRI_ALLOC(j->part, (int64_t)r->n_seq * r->n_reward));
  TRI_TRY(TRI_ALLOC(j->total, r->n_seq));
  return TRI_ALLOC(j->failed, r->n_seq);
}

static tri_answer answer_of(const tri_rollout *r, int q, const tri_example *e) {
  return (tri_answer){.prompt_id = r->prompt_id[q],
                      .prompt = e->prompt ? e->prompt : "",
                      .response = "",
                      .prompt_bytes = e->prompt ? e->prompt_bytes : 0,
                      .truth = e->answer,
                      .truth_bytes = e->answer_bytes,
                      .token = r->token + r->start[q],
                      .n_prompt = r->prompt_len[q],
                      .n_token = (int)(r->start[q + 1] - r->start[q] - r->prompt_len[q]),
                      .truncated = r->stop[q] == TRI_STOP_LENGTH};
}

/* tokenizer NULL: no reward needs texts. One that cannot be decoded gets 0 from every reward. */
static tri_status gather(tri_rollout *r, const tri_example *const *example, const tri_tokenizer *tokenizer,
                         judged *j) {
  for (int q = 0; q < r->n_seq; q++) {
    tri_answer a = answer_of(r, q, example[q / r->group]);
    size_t     begin = j->text.len;
    tri_status st = TRI_OK;
    if (tokenizer) st = tri_answers_decode(tokenizer, a.token + a.n_prompt, a.n_token, true, &j->text);
    if (st == TRI_EINPUT) {
      tri_error_clear();
      j->text.len = begin;
      r->reward[q] = 0; /* and the parts are */
      r->failed[q] = TRI_FAILED_TEXT;
      continue;
    }
    TRI_TRY(st);
    a.response_bytes = j->text.len - begin;
    j->begin[j->n] = begin;
    j->seq[j->n] = q;
    j->a[j->n++] = a;
  }
  for (int k = 0; k < j->n; k++)
    if (j->a[k].response_bytes) j->a[k].response = j->text.data + j->begin[k];
  return TRI_OK;
}

static void put_scores(const judged *j, tri_rollout *r) {
  for (int k = 0; k < j->n; k++) {
    memcpy(r->part + (int64_t)j->seq[k] * r->n_reward, j->part + (int64_t)k * r->n_reward,
           (size_t)r->n_reward * sizeof *j->part);
    r->reward[j->seq[k]] = j->total[k];
    r->failed[j->seq[k]] = j->failed[k];
  }
  r->has_reward = true;
}

static tri_status prepare(tri_rollout *r, const tri_example *const *example, const tri_tokenizer *tokenizer,
                          const tri_reward_set *set, judged *j) {
  bool texts = tri_reward_set_needs(set) & TRI_REWARD_TEXT;

  if (texts && !tokenizer)
    TRI_FAIL(TRI_EINPUT, "rewards compare text, but the model brings no tokenizer.json; " TRI_TOKENIZER_CURE);
  TRI_TRY(tri_rollout_set_rewards(r, tri_reward_set_count(set)));
  TRI_TRY(make_judged(r, j));
  return gather(r, example, texts ? tokenizer : NULL, j);
}

tri_status tri_answers_reward(tri_rollout *r, const tri_example *const *example,
                              const tri_tokenizer *tokenizer, tri_reward_set *set, tri_comm *world) {
  tri_status st = TRI_OK;
  judged     j = {0};

  TRI_TRY_DONE(tri_agree(world, prepare(r, example, tokenizer, set, &j)));
  TRI_TRY_DONE(tri_agree(world, tri_reward_set_score(set, j.a, j.n, j.part, j.total, j.failed)));
  put_scores(&j, r);
done:
  free_judged(&j);
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
