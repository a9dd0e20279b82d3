/* answers.h - finished answers as text: decoding, rewards, stop strings. */
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
/* Collective over world; each rank has its own r, which may be empty. Fills reward, part and failed of every
 * sequence of r, whose sequences are `group` answers to each of example[0 .. n_seq/group). tokenizer NULL:
 * TRI_EINPUT where a reward needs texts. */
TRI_CHECKED tri_status tri_answers_reward(tri_rollout *r, const tri_example *const *example,
                                          const tri_tokenizer *tokenizer, tri_reward_set *set,
                                          tri_comm *world);
/* Not collective. How many answers some reward could not judge. warn: and the warning, once for each
 * reward. */
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

/* tri_data_opt.encode over a tokenizer. Not collective. */
typedef struct tri_encoder {
  const tri_tokenizer *tokenizer;
  tri_tokens           tokens;
} tri_encoder;
TRI_CHECKED tri_status tri_encoder_run(void *ctx, const char *text, size_t n, bool special,
                                       const int32_t **id, int64_t *n_id);

#endif
