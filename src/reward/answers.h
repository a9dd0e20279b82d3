/* answers.h - finished answers as text: decoding, rewards, stop strings. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ANSWERS_H
#define TRI_ANSWERS_H

#include "io/data/dataset.h"
#include "io/tokenizer/tokenizer.h"
#include "reward.h"
#include "rollout/rollout.h"

/* Not collective. Append the text of ids. Ids that name no token (a model's vocabulary is often padded beyond
 * its tokenizer's) have no text, as in transformers. */
TRI_CHECKED tri_status tri_answers_decode(const tri_tokenizer *tokenizer, const int32_t *id, int64_t n,
                                          bool skip_special, tri_text *out);
/* A step's answers on their way to their rewards: put as they end, collected when all have. */
typedef struct tri_answers_opt {
  tri_reward_set           *set;
  const tri_tokenizer      *tokenizer; /* NULL: the model has none; TRI_EINPUT where a reward needs texts */
  const tri_example *const *example;   /* [n/group] what is answered */
  int                       n, group;  /* answers; to each example */
  const int32_t            *end;       /* [n_end] tokens that end an answer, and are no part of its text */
  int                       n_end;
} tri_answers_opt;
/* Tokens of an answer without the one that ended it. Of o: end. */
int64_t tri_answers_text_tokens(const tri_answers_opt *o, const int32_t *answer, int64_t n);
typedef struct tri_answers tri_answers;
/* Not collective. All of the options is borrowed until close; one at a time of each set. */
TRI_CHECKED tri_status tri_answers_open(const tri_answers_opt *o, tri_answers **out);
/* What was put and not collected is given up. */
void tri_answers_close(tri_answers **x);
/* Not collective. Answer `number`, of n tokens, has ended; each comes once. For tri_generate_opt.finished. */
TRI_CHECKED tri_status tri_answers_put(void *answers, int number, const int32_t *answer, int64_t n,
                                       tri_stop_reason why);
/* Collective over world; each rank has its own r, of the answers put, which may be none. Fills reward, part
 * and failed of every sequence. */
TRI_CHECKED tri_status tri_answers_collect(tri_answers *x, tri_rollout *r, tri_comm *world);
/* Collective over world. The same of a finished r. shared: every rank has the same one; programs beside the
 * ranks are asked once for each answer. */
TRI_CHECKED tri_status tri_answers_reward(tri_rollout *r, const tri_answers_opt *o, tri_comm *world,
                                          bool shared);
/* Not collective. How many answers, greedy ones too, some reward could not judge. warn: and the warning, once
 * for each reward. */
int tri_answers_failed(const tri_rollout *r, tri_reward_set *set, bool warn);

/* Stop strings: ctx of tri_answers_stop. */
typedef struct tri_stop_rule {
  const tri_tokenizer *tokenizer;
  char *const         *text; /* [n] */
  int                  n;
} tri_stop_rule;
/* Whether the answer's text holds one of the strings; looks at the newest tokens only. For
 * tri_generate_opt.stop. */
bool tri_answers_stop(void *ctx, const int32_t *answer, int64_t n);

/* tri_data_opt.encode over a tokenizer; special: a begin token if it adds one, never two. TRI_EINPUT, naming
 * the token: it has no row among the model's `vocab` embeddings. Not collective. */
typedef struct tri_encoder {
  const tri_tokenizer *tokenizer;
  tri_tokens           tokens;
  int32_t              vocab; /* 0: not asked */
  tri_token_places     places;
} tri_encoder;
/* Not collective. Frees all but the tokenizer, which it borrows. */
void                   tri_encoder_free(tri_encoder *e);
TRI_CHECKED tri_status tri_encoder_run(void *ctx, const char *text, size_t n, bool special,
                                       const int32_t **id, int64_t *n_id);
/* tri_data_opt.encode_places over the same. Not collective. */
TRI_CHECKED tri_status tri_encoder_run_places(void *ctx, const char *text, size_t n, const int32_t **id,
                                              const tri_text_place **place, int64_t *n_id);
/* tri_data_opt.spells over the same. */
const char *tri_encoder_spells(void *ctx, int32_t id);

#endif
