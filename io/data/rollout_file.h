/* rollout_file.h - writes rollouts as JSON lines, and reads them back for replay. Not collective, all that
 * follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ROLLOUT_FILE_H
#define TRI_ROLLOUT_FILE_H

#include "base/file.h"
#include "rollout/rollout.h"

/* One sequence as text: borrowed UTF-8, may hold NUL. NULL texts are not written. */
typedef struct tri_rollout_text {
  const char *prompt, *response, *answer; /* answer: the right answer */
  size_t      prompt_bytes, response_bytes, answer_bytes;
  bool        answer_is_json; /* else it is text */
} tri_rollout_text;

/* Fields of all lines of a file. */
typedef struct tri_rollout_form {
  const char *const *reward_name; /* [n_reward], or NULL for no rewards */
  bool               advantages;
  const char        *set; /* name of the prompt set, or NULL */
} tri_rollout_form;

/* Gives FOLDER/step-%08d.jsonl. */
TRI_CHECKED tri_status tri_rollout_file_path(const char *folder, int64_t step, char out[TRI_FILE_PATH_BYTES]);
/* Appends sequence q as a line, without the newline. text NULL: no texts. A line has no prompt_id if it is
 * below 0, no log-probabilities if one is unknown, and no unknown reward (a missing reward of a failed answer
 * is null). `advantage` is that of the first token with loss. Only lines of a TRI_FILLER have `filler`. */
TRI_CHECKED tri_status tri_rollout_file_line(const tri_rollout *r, int q, const tri_rollout_form *form,
                                             const tri_rollout_text *text, tri_text *out);

typedef struct tri_replay_opt {
  int                group;                    /* lines per prompt: algo.num_generations */
  int                max_answers;              /* most lines of a file, without blank ones, 0 for no limit */
  int64_t            max_line_bytes;           /* 0 for TRI_LINE_BYTES */
  int64_t            vocab;                    /* tokens are 0 .. vocab - 1 */
  int64_t            max_prompt, max_response; /* tokens, 0 for no limit */
  int                n_reward;
  const char *const *reward_name; /* [n_reward] the parts to keep */
} tri_replay_opt;

/* Every rank reads and checks the whole file, a line at a time, and keeps the prompts rank,
 * rank + size, ... (so that tri_rollout_exchange can follow). All ranks return the same error.
 *
 * `group` successive lines are the answers to one prompt. They have one prompt_id, or none (then -1). Their
 * place is the number of the group in the file.
 * `tokens` is required. Defaults of missing fields: `prompt_tokens` 1, `sample` the line's index in its
 * group, `stop` eos, `logprobs` and `reward` NaN, parts of `rewards` NaN, `filler` false. The last groups may
 * be fillers. They are TRI_FILLER in out->masked, and no exchange sends them. out->has_logp and
 * has_reward are true if every line of the file has these, the same on every rank. Advantages are 0. *out
 * must be empty before. Any mistake is TRI_EINPUT with FILE:LINE. */
TRI_CHECKED tri_status tri_rollout_file_read(const char *folder, int64_t step, const tri_replay_opt *opt,
                                             int rank, int size, tri_rollout *out);

#endif
