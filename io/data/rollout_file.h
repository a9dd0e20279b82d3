/* rollout_file.h - rollouts written as JSON lines, and read back for replay. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ROLLOUT_FILE_H
#define TRI_ROLLOUT_FILE_H

#include "base/file.h"
#include "rollout/rollout.h"

/* One sequence as text: borrowed UTF-8, may hold NUL. What is NULL is not written. */
typedef struct tri_rollout_text {
  const char *prompt, *response, *answer; /* answer: what would have been right */
  size_t      prompt_bytes, response_bytes, answer_bytes;
  bool        answer_is_json; /* else it is text too */
} tri_rollout_text;

/* What all lines of a file say. */
typedef struct tri_rollout_form {
  const char *const *reward_name; /* [n_reward]; NULL: no rewards */
  bool               advantages;
  const char        *set; /* which of several sets of prompts; NULL: not said */
} tri_rollout_form;

/* Not collective. FOLDER/step-%08d.jsonl. */
TRI_CHECKED tri_status tri_rollout_file_path(const char *folder, int64_t step, char out[TRI_FILE_PATH_BYTES]);
/* Not collective. Append sequence q as its line, without the newline. text NULL: none. Left out of a line: a
 * prompt_id below 0, log-probabilities of which one is not known, a reward that is not known (one that could
 * not be had of an answer that failed is null). `advantage` is that of the first answer token. `filler`
 * stands in the lines of a TRI_FILLER alone. */
TRI_CHECKED tri_status tri_rollout_file_line(const tri_rollout *r, int q, const tri_rollout_form *form,
                                             const tri_rollout_text *text, tri_text *out);

typedef struct tri_replay_opt {
  int                group;                    /* lines per prompt: algo.num_generations */
  int                max_answers;              /* lines of a file, blank ones aside; 0: no limit */
  int64_t            max_line_bytes;           /* 0: TRI_LINE_BYTES */
  int64_t            vocab;                    /* tokens are 0 .. vocab - 1 */
  int64_t            max_prompt, max_response; /* tokens; 0: no limit */
  int                n_reward;
  const char *const *reward_name; /* [n_reward] whose parts to keep */
} tri_replay_opt;

/* Not collective: every rank reads and checks the whole file, a line at a time, and keeps the prompts rank,
 * rank + size, ... (so that tri_rollout_exchange can follow); all ranks come to the same error. `group`
 * lines that follow each other are the answers to one prompt and have one prompt_id, or none (then -1).
 * Wanted: `tokens`. Where absent: `prompt_tokens` 1, `sample` the line's place in its group, `stop` eos,
 * `logprobs` and `reward` NaN, parts of `rewards` NaN, `filler` false; the groups behind all others may be
 * such, and are TRI_FILLER in out->masked.answer, which no exchange sends. out->has_logp, has_reward: every
 * line of the file has them, alike on every rank. Advantages are 0. *out must be empty before. Anything
 * unfit is TRI_EINPUT, FILE:LINE. */
TRI_CHECKED tri_status tri_rollout_file_read(const char *folder, int64_t step, const tri_replay_opt *opt,
                                             int rank, int size, tri_rollout *out);

#endif
