/* reward.h - the plug-in interface of rewards, which score finished answers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_REWARD_H
#define TRI_REWARD_H

#include "base/text_buffer.h"
#include "comm/session.h"
#include "reward/work_queue/work_queue.h"
#include "reward/math/decimal.h"

/* Chosen: four times the fields of the largest reward, not counting name and weight, and the bytes of 30
 * names. */
enum { TRI_REWARD_FIELDS = 16, TRI_REWARD_NAMES_BYTES = 512 };
/* One row of the deck's `reward` list. The maker of the row owns its strings. */
typedef struct tri_reward_opt {
  const char *name;
  double      weight; /* factor of the reward in the sum */
  int         row;    /* index in the deck's list, from 0. Wrong rows before it may be left out */
  int         n_field;
  struct {
    const char *name;   /* a name in tri_reward.field */
    const char *value;  /* n_more + 1 texts, one after another, each with a NUL */
    int         n_more; /* 0 unless the field is a list */
  } field[TRI_REWARD_FIELDS];
} tri_reward_opt;

/* One finished answer. All pointers are borrowed. Texts are UTF-8 and may contain NUL. truth is NULL if the
 * prompt has no right answer. The response lacks its end token. */
typedef struct tri_answer {
  int64_t        prompt_id;
  const char    *prompt, *response, *truth; /* response is "" unless a reward needs texts */
  size_t         prompt_bytes, response_bytes, truth_bytes;
  const char    *fields; /* fields of the data line (dataset.h) if a reward needs them, else "" */
  size_t         fields_bytes;
  const char    *opening, *whole; /* the prompt, and prompt and response, both with special tokens. "" like
                                * `fields` */
  size_t         opening_bytes, whole_bytes;
  const int32_t *token; /* [n_prompt + n_token] tokens of the prompt, then of the answer */
  int            n_prompt, n_token;
  int            n_given; /* tokens of the answer that were not drawn */
  bool           truncated;
} tri_answer;

/* The part of a field's value that is masked wherever the program writes it (base/mask.h). */
typedef enum { TRI_REWARD_OPEN, TRI_REWARD_MASK_URL, TRI_REWARD_MASK_WORDS } tri_reward_masks;
/* One field a deck may give a reward besides name and weight. */
typedef struct tri_reward_field {
  const char      *name, *unit, *help; /* "pattern", "1", "A PCRE2 expression." */
  const char      *value, *what;       /* "P", "the expression", in the help of `trireme eval` */
  bool             must;               /* required and not empty, unless a field replaces it */
  bool             list;               /* a list of one or more texts, none empty */
  tri_reward_masks masks;
  const char      *instead; /* the field this one replaces. A row may give only one of both. NULL for most */
} tri_reward_field;

struct tri_answer;

/* The surroundings of rewards when they open. All pointers are borrowed. */
typedef struct tri_reward_env {
  tri_session *se;          /* lends devices and communicators until close */
  int64_t      longest;     /* most tokens of an answer with its end token, 0 if unknown */
  const char  *longest_key; /* key with this limit, "rollout.max_response_length" */
  /* Collective over world. Scores [n] of this rank's answers by the run's reward model. NULL without one. */
  tri_status (*judge)(void *ctx, const struct tri_answer *a, int n, float *score);
  void  *judge_ctx;
  double backoff_s; /* wait before the first retry of http, 0 for its default */
  bool   trial;     /* trireme reward: rewards run on saved answers, and no failure ends anything
                 * (work_queue.h) */
} tri_reward_env;

/* The needs of a reward. TRUTH refuses prompts without a right answer. TEXT decodes responses. COLLECTIVE
 * means that score communicates over world, so every rank calls it in every step, even with n = 0.
 * FIELDS_OF_LINE and WHOLE fill these members of tri_answer, and include TEXT. */
enum {
  TRI_REWARD_TRUTH = 1,
  TRI_REWARD_TEXT = 2,
  TRI_REWARD_COLLECTIVE = 4,
  TRI_REWARD_FIELDS_OF_LINE = 8,
  TRI_REWARD_WHOLE = 16
};

/* Cause of failure of the first failed answer. number < 0 if no answer failed. */
typedef struct tri_reward_error {
  int  number;
  char why[TRI_WORK_QUEUE_WHY_BYTES];
} tri_reward_error;

/* Treatment of an answer without a reward, in the order of the words of on_error. ABORT ends with
 * TRI_EREWARD. DROP takes the answer out of the step. ZERO gives reward 0, also for rewards without the field
 * on_error. */
typedef enum { TRI_ON_ERROR_ABORT, TRI_ON_ERROR_DROP, TRI_ON_ERROR_ZERO } tri_on_error;

/* The reward plug-in. The deck, its reference and `trireme eval` read their names and fields from one table
 * of plug-ins. Only score is collective, and only with COLLECTIVE. open and close never communicate, so a
 * collective reward sets up communication in its first score. A prompt with a truth the reward cannot use
 * gives TRI_EINPUT with its prompt_id. score fills score [n] for all answers of this rank at once. After a
 * replay and in `trireme eval` these are the answers of all ranks. NAN means that the reward failed on this
 * answer. The text of an answer is never an error. */
typedef struct tri_reward {
  const char *name, *help, *values; /* help: the condition. values: "1 or 0" */
  double      best;  /* largest value. 0 for a reward that only subtracts and does not judge correctness.
                      * INFINITY without a limit */
  unsigned    needs; /* TRI_REWARD_* */
  const tri_reward_field *field; /* ends with name NULL. NULL without fields */
  const char *failure;           /* for a warning, cause and cure of a NAN score. NULL if it cannot happen */
  /* Checks values before anything is opened. A wrong value is TRI_ECONFIG. *field gets the name of its field,
   * and the message states the fault. The caller puts field and value before the message. The row has known
   * fields only. env->se may be NULL. check NULL accepts every value. */
  tri_status (*check)(const tri_reward_opt *o, const tri_reward_env *env, const char **field);
  /* Sets the state for score. NULL (with close NULL too) passes a NULL state. `train --check` calls it
   * too, with a pretended session (env->se->pretended). Nothing may run on that session, and score is not
   * called. */
  tri_status (*open)(const tri_reward_opt *o, const tri_reward_env *env, void **state);
  tri_status (*score)(void *state, const tri_answer *a, int n, float *score);
  /* These four replace score for a reward that works while answers are still being generated. One rank asks
   * for each answer. submit takes answer `number` of a step, in any order. It borrows the answer until it
   * returns and must not wait. collect waits, and fills score [n] for the submitted numbers. NAN means
   * failed, and *error describes the failed answer with the lowest number. collect tells `listener` of each
   * submitted answer, if it is not NULL. await waits at most most_s seconds and returns false if collect
   * would still have to wait. forget gives up all submitted answers. */
  tri_status (*submit)(void *state, const tri_answer *a, int number);
  bool (*await)(void *state, double most_s);
  tri_status (*collect)(void *state, int n, float *score, tri_reward_error *error,
                        const tri_work_queue_listener *listener);
  void (*forget)(void *state);
  /* Appends the request for a job (tri_work_queue_result.text) as the program or server got it. NULL if the
   * request has no text. */
  tri_status (*show)(const void *job, tri_text *out);
  /* Number of restarts of the reward's program since the last call. NULL if it never restarts. */
  int64_t (*restarts)(void *state);
  /* Called while data is read. Returns a reason if no answer to this truth [n] can be judged or be right,
   * else NULL. The reason continues a message that begins with "`answer` = "..." ". refuse NULL accepts every
   * truth. */
  const char *(*refuse)(void *state, const char *truth, size_t n);
  /* For majority@k (figures.h). Appends the result of a response [n] to *out, or nothing if it has none. NULL
   * if the reward extracts no results. */
  tri_status (*result)(const char *response, size_t n, tri_text *out);
  /* Tells whether two results are equal. NULL compares their bytes. */
  tri_status (*same)(tri_part a, tri_part b, bool *same);
  void (*close)(void **state);
} tri_reward;

/* reward_rule.c. 1 or 0 each, and truncated answers are treated like others. Space is ASCII space, tab, CR,
 * LF, VT or FF.
 * exact: answer and truth are the same bytes, except for space around them.
 * number: the last number of the answer equals the last number of the truth, without rounding. "72" is
 *   "72.00", "1,234.50" is "1234.5", "3/4" is "0.75", "1.5e3" is "1500". A number is read as a whole or not
 *   at all. It has these parts:
 *   - ASCII digits, or groups of three behind "," "{,}" "\," "\!" or a space of any width, or a fraction (.5)
 *   - an exponent (1.5e3, 1.5 \times 10^3, 10^3), a quotient (3/4, \frac{3}{4}), a mixed number (1 3/4)
 *   - a sign, ASCII or Unicode's minus and dashes, unless a letter, a digit or a closing bracket stands
 *     before it ("7-3" ends in 3). A currency may stand between sign and digits.
 *   Digits of a word, an index or a power of a unit (H2O, x_1, m^2) are skipped. Digits without a value as
 *   a whole (1.2.3, 1,23, 4:30, 1/2/2024) are not a number. If they come last, the answer has no number.
 *   Digits of a formula (3\sqrt{2}, 2\pi, 2x, 3 + 4i, x/2, 0.333...) or of a longer number (5k, 2 million)
 *   are not a number either. A unit, percent or degree sign behind a number does not change it.
 * regex: `pattern` (PCRE2, UTF) matches somewhere in the answer. A search that reaches its limit of steps or
 *   memory fails.
 * reward_math.c. 1 or 0 each.
 * boxed: the last \boxed{} (else \fbox{}) of the answer has the same value as the truth, or as a box in the
 *   truth (math/tex_same.h). Texts without a value are compared by spelling (math/math_answer.h). A truth
 *   that ends with "####" and a number, as in GSM8K, is that number. An answer without a box gets 0.
 * gsm8k: the first number behind the last "####" equals that of the truth. If there is none, it is the
 *   last number of all. Numbers are read as in `number`.
 * reward_length.c. length: the penalty of an answer of T tokens near the longest possible length L:
 *   - factor clip((T - (L - buffer)) / buffer, 0, 1).
 * reward_model.c. model: the output of a scalar head at the answer's last token.
 * reward_process.c. process: the reply of a program. It gets a line {"id", "prompt", "response", and the
 *   other fields of the data line} and writes a line {"id", "reward"}, in any order.
 * reward_http.c. http: the reply {"rewards": [x]} of a server to {"query": [prompt and answer, with special
 *   tokens], "prompts": [prompt], "labels": [truth]}.
 * reward_library.c. library: the score of a shared object (trireme_reward.h). */
/* clang-format off */
#define TRI_REWARD_LIST(ROW) /* the table. NAME stands for tri_reward_NAME */ \
  ROW(exact)                                                          \
  ROW(number)                                                         \
  ROW(boxed)                                                          \
  ROW(gsm8k)                                                          \
  ROW(regex)                                                          \
  ROW(length)                                                         \
  ROW(model)                                                          \
  ROW(process)                                                        \
  ROW(http)                                                           \
  ROW(library)
/* clang-format on */
#define TRI_REWARD_DECLARE(name) extern const tri_reward tri_reward_##name;
TRI_REWARD_LIST(TRI_REWARD_DECLARE)

const tri_reward *tri_reward_find(const char *name); /* NULL if there is none */
const tri_reward *tri_reward_at(int i);              /* NULL behind the last */
/* Writes the names of the table as "exact, number or regex", with `last` = " or ". */
void tri_reward_names(const char *last, char out[TRI_REWARD_NAMES_BYTES]);

const char *tri_reward_get(const tri_reward_opt *o, const char *field); /* value of the field, NULL if
                                                                         * absent */
/* The value of a list field, *n texts. tri_reward_next(text) is the text behind `text`. */
const char *tri_reward_get_list(const tri_reward_opt *o, const char *field, int *n);
const char *tri_reward_next(const char *text);
/* Not collective. Appends the value of a field with its secrets masked. `before` is the previous value of a
 * list, or NULL. */
TRI_CHECKED tri_status tri_reward_mask(const tri_reward_field *f, const char *before, const char *value,
                                       tri_text *out);
/* Not collective. Tells whether two rows of one reward name the place of a secret `field` (a file or a
 * variable) instead of its value, at least one of them. The rows then do not show whether the secret is the
 * same. b may be NULL. */
bool tri_reward_is_aside(const tri_reward_opt *a, const tri_reward_opt *b, const char *field);
/* Not collective. Reads a finite number, or takes def if the field is absent. Returns false if the text is
 * not a number. The caller states the legal numbers in its message. */
TRI_CHECKED bool tri_reward_read_number(const tri_reward_opt *o, const char *field, double def, double *out);
/* Not collective. Reads a number of seconds above 0, or takes def if the field is absent. Fails with
 * TRI_ECONFIG, worded for a reward's check. */
TRI_CHECKED tri_status tri_reward_read_seconds(const tri_reward_opt *o, const char *field, double def,
                                               double *out);
/* Not collective. Reads the row's on_error. It is ABORT if absent, and ZERO if the reward has no such
 * field. */
TRI_CHECKED tri_status tri_reward_read_on_error(const tri_reward_opt *o, tri_on_error *out);
/* A row of `field` for rewards that may fail. The set of rewards acts on it in the same way for all. */
#define TRI_REWARD_ON_ERROR                                                                                  \
  {                                                                                                          \
    .name = "on_error", .unit = "1",                                                                         \
    .help =                                                                                                  \
        "abort|drop|zero. For an answer without a reward, end the run with 69, leave the answer out of the " \
        "step, or give it 0. Default abort.",                                                                \
    .value = "abort|drop|zero", .what = "treatment of an answer without a reward (default abort)"            \
  }
/* The messages of the next two serve a deck and the flags of `trireme eval`. The caller puts the place before
 * them (tri_error_at). */
/* Not collective. Returns TRI_ECONFIG if there is no such reward. */
TRI_CHECKED tri_status tri_reward_check_name(const char *name);
/* Not collective. Checks the fields of a row with a known name. Returns TRI_ECONFIG if the required *field is
 * absent or empty, or if the reward does not know *field. */
TRI_CHECKED tri_status tri_reward_check_fields(const tri_reward_opt *o, const char **field);
/* Not collective. Makes both checks. Returns TRI_ECONFIG also for a weight that is not finite, and for a
 * value the reward refuses. The message begins with the field, "reward.pattern = a(: ...". */
TRI_CHECKED tri_status tri_reward_check(const tri_reward_opt *o, const tri_reward_env *env);
/* Not collective. Makes the same checks with the names of flags, "--pattern a(: ...", and "--reward: " before
 * a name. */
TRI_CHECKED tri_status tri_reward_check_flags(const tri_reward_opt *o, const tri_reward_env *env);
/* Returns the TRI_REWARD_* of all n rows together. Their names must be known. */
unsigned tri_reward_needs(const tri_reward_opt *o, int n);

/* Not collective. Opens the deck's list of 1 to TRI_REWARDS_MAX rows as a weighted sum. Returns TRI_ECONFIG
 * for another number of rows, and for a row that tri_reward_check refuses. Names are made unique, so the
 * second "regex" is "regex_2". The pointers in env are borrowed until close. */
typedef struct tri_reward_set tri_reward_set;
TRI_CHECKED tri_status        tri_reward_set_open(const tri_reward_opt *o, int n, const tri_reward_env *env,
                                                  tri_reward_set **out);
void                          tri_reward_set_close(tri_reward_set **s);
/* The answers of a step and the memory for their scores. */
typedef struct tri_reward_call {
  const tri_answer *a;      /* [n] */
  const int        *number; /* [n] all different. Each was submitted, with `share` by one of the ranks */
  int               n;
  tri_comm         *share;        /* NULL if every rank has its own answers, else all ranks have the same */
  float            *part, *total; /* [n,n_reward] without weights, and [n] weighted sums */
  int32_t *failed; /* [n] bit i is set if reward i failed on the answer. Its scores then follow on_error. Both
                    * are NAN if the answer is dropped, and in a trial */
  /* For a trial, whose numbers ascend, gets the result of reward i for each answer in their order. NULL
   * otherwise. */
  void (*told)(void *ctx, int i, const tri_work_queue_result *r);
  void *ctx;
} tri_reward_call;
/* Mean of an extra number in a reward's replies, over the answers with that number. */
typedef struct tri_reward_mean {
  char   name[TRI_EXTRA_NAME_BYTES];
  double sum, rest; /* their total is the sum. rest: its part below the last bit of `sum`, 0 in a result */
  double n;         /* answers */
} tri_reward_mean;
/* Not collective. Gives a finished answer to the rewards that work beside generation. `number` must
 * be one of the next call's numbers. */
TRI_CHECKED tri_status tri_reward_set_submit(tri_reward_set *s, const tri_answer *a, int number);
/* Not collective. Waits for all submitted answers, or until halt returns true. halt is called ten times a
 * second. */
void tri_reward_set_await(tri_reward_set *s, bool (*halt)(void *ctx), void *ctx);
/* Not collective. Sets *n to the number of restarts of this rank's reward programs since the last call.
 * Returns false if no reward is a program. */
bool tri_reward_set_restarts(tri_reward_set *s, int64_t *n);
/* Not collective. Gives up all submitted answers. */
void tri_reward_set_forget(tri_reward_set *s);
/* Computes the scores. Collective over world if a reward is collective, and over c->share if it is not NULL.
 * An infinite score is TRI_ENUMERIC and names the reward and the prompt. */
TRI_CHECKED tri_status tri_reward_set_call(tri_reward_set *s, const tri_reward_call *c);
/* Collective like tri_reward_set_call. Submits the answers, then computes their scores. */
TRI_CHECKED tri_status tri_reward_set_score(tri_reward_set *s, const tri_answer *a, int n, float *part,
                                            float *total, int32_t *failed);
/* Collective over world, or called by one rank alone with world NULL. Fills mean [TRI_EXTRAS_MOST] with the
 * extra numbers in reward i's replies since the last call, sorted by name, the same on every rank. If there
 * are more names, the first are kept and rank 0 warns once. *n gets their number. */
TRI_CHECKED tri_status tri_reward_set_extras(tri_reward_set *s, int i, tri_comm *world,
                                             tri_reward_mean mean[TRI_EXTRAS_MOST], int *n);
/* Not collective. Warns the first time that reward i failed on an answer to this prompt, with the cause. i =
 * -1 means that all rewards failed for want of a text. */
void tri_reward_set_warn(tri_reward_set *s, int i, int64_t prompt_id);
/* Not collective. Returns the reason why a reward cannot judge answers to this truth [n], or NULL. */
const char *tri_reward_set_refuse(const tri_reward_set *s, const char *truth, size_t n);
/* Not collective. Tells whether an answer with these parts [n] gets the full reward. Rewards that only
 * subtract do not count, unless there are no others. */
bool tri_reward_set_is_full(const tri_reward_set *s, const float *part);
/* Returns the first reward that extracts results from responses, or NULL. */
const tri_reward *tri_reward_set_voter(const tri_reward_set *s);
unsigned          tri_reward_set_needs(const tri_reward_set *s);        /* TRI_REWARD_* of all rewards */
bool              tri_reward_set_works_beside(const tri_reward_set *s); /* true if any reward uses submit */
int               tri_reward_set_count(const tri_reward_set *s);
const char       *tri_reward_set_name(const tri_reward_set *s, int i);
double tri_reward_set_most(const tri_reward_set *s, int i); /* most that reward i adds to the sum */
bool   tri_reward_set_is_bounded(const tri_reward_set *s);  /* true if the sum has a largest value */

#endif
