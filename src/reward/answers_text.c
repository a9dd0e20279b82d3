/* answers_text.c - encodes and decodes answers, searches them for stop strings, and counts failures. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "answers.h"

#include <string.h>

/* Drops a second begin token, because a rendered conversation may begin with one already. */
static tri_status drop_second_begin(tri_encoder *e, const char *text, size_t n) {
  tri_tokens *t = &e->tokens;
  int64_t     with = t->n, own;

  if (with < 2 || t->id[0] != t->id[1]) return TRI_OK;
  TRI_TRY(tri_tokenizer_encode(e->tokenizer, text, n, false, t)); /* appended behind the others */
  own = t->n - with;
  if (own > 0 && own < with &&
      !memcmp(t->id + 1, t->id + with, (size_t)own * sizeof *t->id)) /* one begin token more */
    memmove(t->id, t->id + 1, (size_t)--with * sizeof *t->id);
  t->n = with;
  return TRI_OK;
}

/* Checks that every token has an embedding. The tokenizer's files may have more tokens than the model. */
static tri_status check_rows(const tri_encoder *e) {
  for (int64_t i = 0; e->vocab && i < e->tokens.n; i++)
    if (e->tokens.id[i] >= e->vocab)
      TRI_FAIL(
          TRI_EINPUT,
          "the text has token '%s', but its id %d has no embedding in this model of %d tokens.\n"
          "  Remove it from the text or from the tokenizer's files, or add an embedding with transformers "
          "(model.resize_token_embeddings(len(tokenizer)), save_pretrained)",
          tri_tokenizer_token(e->tokenizer, e->tokens.id[i]), e->tokens.id[i], e->vocab);
  return TRI_OK;
}

tri_status tri_encoder_run(void *ctx, const char *text, size_t n, bool special, const int32_t **id,
                           int64_t *n_id) {
  tri_encoder *e = ctx;

  e->tokens.n = 0;
  TRI_TRY(tri_tokenizer_encode(e->tokenizer, text, n, special, &e->tokens));
  if (special) TRI_TRY(drop_second_begin(e, text, n));
  TRI_TRY(check_rows(e));
  *id = e->tokens.id;
  *n_id = e->tokens.n;
  return TRI_OK;
}

tri_status tri_encoder_run_places(void *ctx, const char *text, size_t n, const int32_t **id,
                                  const tri_text_place **place, int64_t *n_id) {
  tri_encoder *e = ctx;

  e->tokens.n = 0;
  TRI_TRY(tri_tokenizer_encode_places(e->tokenizer, text, n, &e->tokens, &e->places));
  TRI_TRY(check_rows(e));
  *id = e->tokens.id;
  *place = e->places.n == e->tokens.n ? e->places.at : NULL;
  *n_id = e->tokens.n;
  return TRI_OK;
}

void tri_encoder_free(tri_encoder *e) {
  tri_tokens_free(&e->tokens);
  tri_token_places_free(&e->places);
}

const char *tri_encoder_spells(void *ctx, int32_t id) {
  const tri_encoder *e = ctx;

  return e->tokenizer && id >= 0 ? tri_tokenizer_token(e->tokenizer, id) : NULL;
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

int64_t tri_answers_text_tokens(const tri_answers_opt *o, const int32_t *answer, int64_t n) {
  for (int i = 0; n && i < o->n_end; i++)
    if (answer[n - 1] == o->end[i]) return n - 1;
  return n;
}

/* Tells whether the text contains the string. The text may contain NUL. */
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
  /* Decode as many of the newest tokens as the longest string needs. 16 bytes more allow for a token with
   * only a part of a character. */
  for (int64_t tail = 8; text.len < longest + 16; tail *= 2) {
    text.len = 0;
    if (tail > n) tail = n;
    if (tri_answers_decode(rule->tokenizer, answer + n - tail, tail, false, &text) != TRI_OK) {
      tri_error_clear(); /* a text that cannot be decoded has no stop string */
      break;
    }
    if (tail == n) break;
  }
  for (int i = 0; i < rule->n && !found; i++) found = holds(&text, rule->text[i]);
  tri_text_free(&text);
  return found;
}

int tri_answers_failed(const tri_rollout *r, tri_reward_set *set, bool warn) {
  int n = 0;

  for (int q = 0; q < r->n_seq; q++) {
    n += (r->failed[q] & ~TRI_FAILED_GREEDY) != 0;
    n += (r->failed[q] & TRI_FAILED_GREEDY) != 0;
    if (warn && r->failed[q] & TRI_FAILED_TEXT) tri_reward_set_warn(set, -1, r->prompt_id[q]);
    for (int i = 0; warn && i < r->n_reward; i++)
      if (r->failed[q] >> i & 1) tri_reward_set_warn(set, i, r->prompt_id[q]);
  }
  return n;
}
