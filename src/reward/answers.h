/* answers.h - finished answers as text: decoding, rewards, stop strings. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ANSWERS_H
#define TRI_ANSWERS_H

#include "io/data/dataset.h"
#include "io/tokenizer/tokenizer.h"
#include "reward.h"
#include "rollout/rollout.h"

/* Not collective. Appends the text of the ids. Ids without a token have no text, as in transformers. A
 * model's vocabulary is often padded beyond its tokenizer's. */
TRI_CHECKED tri_status tri_answers_decode(const tri_tokenizer *tokenizer, const int32_t *id, int64_t n,
                                          bool skip_special, tri_text *out);
/* The answers of a step on their way to the rewards. Each is put when it ends, and all are collected at the
 * end of the step. A rank has any of them, in any order. An answer's number is place * group + sample. */
typedef struct tri_answers_opt {
  tri_reward_set           *set;
  const tri_tokenizer      *tokenizer; /* NULL if the model has none, which is TRI_EINPUT if a reward needs
                                        * texts */
  const char               *model;     /* its folder, for that message, or NULL */
  const tri_example *const *example;   /* [n/group] the answered data line of each place */
  int                       n, group;  /* number of the step's answers, and of answers to each example */
  const int32_t            *end;       /* [n_end] end tokens, not part of an answer's text */
  int                       n_end;
} tri_answers_opt;
/* Number of tokens of an answer without its end token. Reads only `end` and `n_end` of o. */
int64_t tri_answers_text_tokens(const tri_answers_opt *o, const int32_t *answer, int64_t n);
typedef struct tri_answers tri_answers;
/* Not collective. All pointers of the options are borrowed until close. Only one may be open for a set. */
TRI_CHECKED tri_status tri_answers_open(const tri_answers_opt *o, tri_answers **out);
/* Gives up answers that were put but not collected. */
void tri_answers_close(tri_answers **x);
/* Not collective. Takes the finished answer `number` of n tokens, once each. Serves as
 * tri_generate_opt.finished. */
TRI_CHECKED tri_status tri_answers_put(void *answers, int number, const int32_t *answer, int64_t n,
                                       tri_stop_reason why);
/* Collective over world. Each rank has its own r with the answers it put, possibly none, with their places
 * and samples. Fills reward, part and failed of every sequence. */
TRI_CHECKED tri_status tri_answers_collect(tri_answers *x, tri_rollout *r, tri_comm *world);
/* Collective over world. Does the same for a finished r, whose sequences are the answers in order. With
 * `shared` every rank has the same r, and rewards beside the ranks are asked only once for each answer. */
TRI_CHECKED tri_status tri_answers_reward(tri_rollout *r, const tri_answers_opt *o, tri_comm *world,
                                          bool shared);
/* Not collective. Returns the number of answers, greedy ones included, with a failed reward. With `warn` it
 * warns once for each reward. */
int tri_answers_failed(const tri_rollout *r, tri_reward_set *set, bool warn);

/* Stop strings, the ctx of tri_answers_stop. */
typedef struct tri_stop_rule {
  const tri_tokenizer *tokenizer;
  char *const         *text; /* [n] */
  int                  n;
} tri_stop_rule;
/* Tells whether the answer's text contains one of the strings. It looks at the newest tokens only. Serves as
 * tri_generate_opt.stop. */
bool tri_answers_stop(void *ctx, const int32_t *answer, int64_t n);

/* Not collective. Encodes with a tokenizer, as tri_data_opt.encode. `special` adds a begin token if the
 * tokenizer does so, and never two. Returns TRI_EINPUT with the token if it has no row among the model's
 * `vocab` embeddings. */
typedef struct tri_encoder {
  const tri_tokenizer *tokenizer;
  tri_tokens           tokens;
  int32_t              vocab; /* 0 checks no ids */
  tri_token_places     places;
} tri_encoder;
/* Not collective. Frees everything except the borrowed tokenizer. */
void                   tri_encoder_free(tri_encoder *e);
TRI_CHECKED tri_status tri_encoder_run(void *ctx, const char *text, size_t n, bool special,
                                       const int32_t **id, int64_t *n_id);
/* Not collective. Does the same as tri_data_opt.encode_places. */
TRI_CHECKED tri_status tri_encoder_run_places(void *ctx, const char *text, size_t n, const int32_t **id,
                                              const tri_text_place **place, int64_t *n_id);
/* Returns the spelling of a token, as tri_data_opt.spells. */
const char *tri_encoder_spells(void *ctx, int32_t id);

#endif
