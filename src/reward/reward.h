/* reward.h - the reward plug-in: scores of finished answers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_REWARD_H
#define TRI_REWARD_H

#include "base/text_buffer.h"
#include "comm/session.h"
#include "reward/work_queue/work_queue.h"
#include "reward/math/decimal.h"

/* Chosen: four times the fields of the largest reward, besides name and weight; 30 names of rewards. */
enum { TRI_REWARD_FIELDS = 16, TRI_REWARD_NAMES_BYTES = 512 };
/* One row of the deck's `reward` list; who made it owns the texts. */
typedef struct tri_reward_opt {
  const char *name;
  double      weight; /* factor of this reward in the sum */
  int         row;    /* of the deck's list, from 0: rows wrong before it may be left out */
  int         n_field;
  struct {
    const char *name;   /* as the plug-in has it */
    const char *value;  /* n_more + 1 texts, each behind the NUL of the one before */
    int         n_more; /* 0 but in a list */
  } field[TRI_REWARD_FIELDS];
} tri_reward_opt;

/* One finished answer; all is borrowed. Texts are UTF-8 and may hold NUL. truth NULL: the prompt came without
 * an answer. The response is without its end token. */
typedef struct tri_answer {
  int64_t     prompt_id;
  const char *prompt, *response, *truth; /* response: "" unless some reward needs texts */
  size_t      prompt_bytes, response_bytes, truth_bytes;
  const char *fields; /* the data line's (dataset.h), where a reward needs them; "" else */
  size_t      fields_bytes;
  const char *opening, *whole; /* the prompt, and it with the response, with all special tokens; the same */
  size_t      opening_bytes, whole_bytes;
  const int32_t *token; /* [n_prompt + n_token] the prompt's, then the answer's */
  int            n_prompt, n_token;
  bool           truncated;
} tri_answer;

/* What of a field's value is masked wherever it is written (base/mask.h). */
typedef enum { TRI_REWARD_OPEN, TRI_REWARD_MASK_URL, TRI_REWARD_MASK_WORDS } tri_reward_masks;
/* What the deck may say of a reward besides name and weight. */
typedef struct tri_reward_field {
  const char      *name, *unit, *help; /* "pattern", "1", "A PCRE2 expression." */
  const char      *value, *what;       /* "P", "the expression": in the help of `trireme eval` */
  bool             must;               /* be given, and not empty; or a field in its place */
  bool             list;               /* of texts, at least one, each not empty */
  tri_reward_masks masks;
  const char      *instead; /* of this field: one of them alone may be given. NULL: of none */
} tri_reward_field;

struct tri_answer;

/* Where rewards are opened; all is borrowed. */
typedef struct tri_reward_env {
  tri_session *se;          /* lends devices and communicators; until close */
  int64_t      longest;     /* answer there can be, in tokens, its end token counted; 0: not known */
  const char  *longest_key; /* where it is given: "rollout.max_response_length" */
  /* Collective over world. Scores [n] of this rank's answers by the run's reward model; NULL: none can be
   * had. */
  tri_status (*judge)(void *ctx, const struct tri_answer *a, int n, float *score);
  void  *judge_ctx;
  double backoff_s; /* before a second try of http; 0: its own */
  bool   trial; /* the rewards are tried on answers that are there: no failure ends anything (work_queue.h) */
} tri_reward_env;

/* What a reward lives on. TRUTH: answers without one are refused. TEXT: responses are decoded. COLLECTIVE:
 * score communicates over world, so every rank calls it in every step, also with n = 0. FIELDS, WHOLE: these
 * of tri_answer, and TEXT. */
enum {
  TRI_REWARD_TRUTH = 1,
  TRI_REWARD_TEXT = 2,
  TRI_REWARD_COLLECTIVE = 4,
  TRI_REWARD_FIELDS_OF_LINE = 8,
  TRI_REWARD_WHOLE = 16
};

/* Why the first of the answers that a reward could not judge was not; number < 0: all were. */
typedef struct tri_reward_error {
  int  number;
  char why[TRI_WORK_QUEUE_WHY_BYTES];
} tri_reward_error;

/* What becomes of an answer that a reward could not judge, in the order of the words of a row's on_error.
 * ABORT: TRI_EREWARD. DROP: it leaves the step. ZERO: the reward is 0; also of rewards without that field. */
typedef enum { TRI_ON_ERROR_ABORT, TRI_ON_ERROR_DROP, TRI_ON_ERROR_ZERO } tri_on_error;

/* The reward plug-in; the one table that the deck, its reference and `trireme eval` read. Not collective, but
 * score where it says COLLECTIVE: open and close never communicate, so such a reward sets up in its first
 * score what it needs. A prompt whose truth the reward cannot use is TRI_EINPUT, naming it. score [n]: of all
 * answers of this rank at once, which after a replay and in `trireme eval` are those of all ranks; NAN: the
 * reward cannot judge this answer, whose text is never an error. */
typedef struct tri_reward {
  const char *name, *help, *values; /* help: when, values: "1 or 0" */
  double      best;  /* the most it gives; 0: it only takes away, and says nothing of what is right; INFINITY:
                      * there is no most */
  unsigned    needs; /* TRI_REWARD_* */
  const tri_reward_field *field; /* ended by a name NULL; NULL: none */
  const char *failure; /* why an answer's score may be NAN and what to do, for a warning; NULL: it never is */
  /* A value that is wrong is TRI_ECONFIG, with *field the name of its field and a message that says what is
   * wrong with it; field and value are put before it. The row's fields are those above. Asked before anything
   * is opened; env->se may be NULL. NULL: every value will do. */
  tri_status (*check)(const tri_reward_opt *o, const tri_reward_env *env, const char **field);
  /* NULL, as close may be: there is no state, which score gets as NULL. Called under `train --check` too,
   * with a session that is pretended (env->se->pretended), in which nothing may be run; score is not called
   * then. */
  tri_status (*open)(const tri_reward_opt *o, const tri_reward_env *env, void **state);
  tri_status (*score)(void *state, const tri_answer *a, int n, float *score);
  /* In place of score, of a reward that works while answers are still made; such a one is asked by one rank
   * for each answer. submit: answer `number` of a step, in any order; borrowed until it returns; it must not
   * wait. collect: waits, and fills score [n] of the numbers that were submitted; NAN: it could not judge,
   * and *error is of the lowest such number. await: waits at most so long; false: collect would still wait.
   * listener: told of each that was submitted; NULL: nobody listens.
   * forget: what was submitted is not asked for any more. */
  tri_status (*submit)(void *state, const tri_answer *a, int number);
  bool (*await)(void *state, double most_s);
  tri_status (*collect)(void *state, int n, float *score, tri_reward_error *error,
                        const tri_work_queue_listener *listener);
  void (*forget)(void *state);
  /* Appends what was asked, of a job as tri_work_queue_result has it, as the one asked got it. NULL: no text
   * is asked. */
  tri_status (*show)(const void *job, tri_text *out);
  /* How often who answers was started again since the last call. NULL: it never is. */
  int64_t (*restarts)(void *state);
  /* Why no answer to this truth [n] could ever be judged or be right, or NULL; asked while data is read. It
   * goes on "`answer` = "..." ". NULL: never. */
  const char *(*refuse)(void *state, const char *truth, size_t n);
  /* For majority@k (figures.h): what a response [n] comes to, appended to *out; nothing where it comes to
   * nothing. NULL: the reward takes no result from responses. */
  tri_status (*result)(const char *response, size_t n, tri_text *out);
  /* Whether two such results are one; NULL: where their bytes are the same. */
  tri_status (*same)(tri_part a, tri_part b, bool *same);
  void (*close)(void **state);
} tri_reward;

/* reward_rule.c. 1 or 0 each, truncated answers like any other. Space is ASCII space, tab, CR, LF, VT, FF.
 * exact: answer and truth are the same bytes, space around them aside.
 * number: the last number of the answer equals the truth's last, unrounded: "72" is "72.00", "1,234.50" is
 *   "1234.5", "3/4" is "0.75", "1.5e3" is "1500". A number is read as a whole or not at all:
 *   - ASCII digits; groups of three behind "," "{,}" "\," "\!" or a space of any width; a fraction (.5 too);
 *   - an exponent (1.5e3, 1.5 \times 10^3, 10^3), a quotient (3/4, \frac{3}{4}), a mixed number (1 3/4);
 *   - a sign, ASCII or Unicode's minus and dashes, unless a letter, a digit or a closing bracket is before
 *     it: "7-3" ends in 3. A currency may stand between sign and digits.
 *   Digits of a word, an index or a power of a unit (H2O, x_1, m^2) are passed over. Digits that are no
 *   number as a whole (1.2.3, 1,23, 4:30, 1/2/2024) are none: where they are last, the answer has no number.
 *   Digits of a formula (3\sqrt{2}, 2\pi, 2x, 3 + 4i, x/2, 0.333...) or of a longer number (5k, 2 million)
 *   are none either. A unit, a percent sign or a degree behind a number does not change it.
 * regex: `pattern` (PCRE2, UTF) matches somewhere in the answer; a search that reaches a limit of steps or
 *   memory cannot judge.
 * reward_math.c. 1 or 0 each.
 * boxed: what the last \boxed{} (else \fbox{}) of the answer holds has the same value as the truth, or as
 *   what a box in the truth holds (math/tex_same.h). What is no value is compared by its spelling
 *   (math/math_answer.h). A truth that ends with "####" and a number, as GSM8K's, is that number. Without a
 *   box 0.
 * gsm8k: the first number behind the last "####", where there is none the last of all, equals the truth's.
 *   What a number is: `number`.
 * reward_length.c. length: what is taken from an answer of T tokens that comes near the longest, L:
 *   - factor clip((T - (L - buffer)) / buffer, 0, 1).
 * reward_model.c. model: the number of a scalar head at the answer's last token.
 * reward_process.c. process: what a program answers to {"id", "prompt", "response", and what else the data
 *   line has} a line: {"id", "reward"}, in any order.
 * reward_http.c. http: what a server answers to {"query": [prompt and answer, special tokens too], "prompts":
 *   [prompt], "labels": [truth]}: {"rewards": [x]}.
 * reward_library.c. library: what a shared object says (trireme_reward.h). */
/* clang-format off */
#define TRI_REWARD_LIST(ROW) /* the table: NAME is tri_reward_NAME */ \
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
const tri_reward *tri_reward_at(int i);              /* NULL past the last */
/* "exact, number or regex" of the table, where last is " or ". */
void tri_reward_names(const char *last, char out[TRI_REWARD_NAMES_BYTES]);

const char *tri_reward_get(const tri_reward_opt *o, const char *field); /* its value; NULL: not given */
/* The value of a field that is a list: *n texts; the one behind `text` is tri_reward_next(text). */
const char *tri_reward_get_list(const tri_reward_opt *o, const char *field, int *n);
const char *tri_reward_next(const char *text);
/* Not collective. Appends a value of a field as it may be written: its secrets masked. before: the value in
 * front of it in a list, or NULL. */
TRI_CHECKED tri_status tri_reward_mask(const tri_reward_field *f, const char *before, const char *value,
                                       tri_text *out);
/* Not collective. Whether two rows of one reward say in which way a secret field is found, rather than its
 * value: one of them gives a field in its place. Then neither says whether the value is the same. b may be
 * NULL. */
bool tri_reward_is_aside(const tri_reward_opt *a, const tri_reward_opt *b, const char *field);
/* Not collective. A field that is a number, finite; def: where it is not given. false: its text is none. The
 * caller, a reward's check and open, says in its message what numbers may be. */
TRI_CHECKED bool tri_reward_read_number(const tri_reward_opt *o, const char *field, double def, double *out);
/* Not collective. A field that is a number of seconds above 0; def: where it is not given. TRI_ECONFIG, as a
 * reward's check says it. */
TRI_CHECKED tri_status tri_reward_read_seconds(const tri_reward_opt *o, const char *field, double def,
                                               double *out);
/* Not collective. The row's on_error; ABORT where it is not given, ZERO where the reward has no such
 * field. */
TRI_CHECKED tri_status tri_reward_read_on_error(const tri_reward_opt *o, tri_on_error *out);
/* A row of `field` for rewards that may fail; what the set of rewards does with it is the same for all. */
#define TRI_REWARD_ON_ERROR                                                                                  \
  {                                                                                                          \
    .name = "on_error", .unit = "1",                                                                         \
    .help =                                                                                                  \
        "abort|drop|zero: where an answer gets no reward, end with 69, leave it out of the step, give 0; "   \
        "default abort.",                                                                                    \
    .value = "WORD", .what = "abort, drop or zero: what becomes of an answer without a reward (abort)"       \
  }
/* The next two are what a deck and the flags of `trireme eval` are told alike; whoever calls them puts the
 * place before it (tri_error_at). */
/* Not collective. TRI_ECONFIG: there is no such reward. */
TRI_CHECKED tri_status tri_reward_check_name(const char *name);
/* Not collective. Of a row whose name is known. TRI_ECONFIG: *field must be given and is not, or is empty; or
 * the reward has no use for it. */
TRI_CHECKED tri_status tri_reward_check_fields(const tri_reward_opt *o, const char **field);
/* Not collective. TRI_ECONFIG: either of these, a weight that is not finite, a value that the reward refuses,
 * after the field: "reward.pattern = a(: ...". */
TRI_CHECKED tri_status tri_reward_check(const tri_reward_opt *o, const tri_reward_env *env);
/* Not collective. The same in words of flags: "--pattern a(: ...", and "--reward: " before a name. */
TRI_CHECKED tri_status tri_reward_check_flags(const tri_reward_opt *o, const tri_reward_env *env);
/* TRI_REWARD_* of all n rows, whose names are known. */
unsigned tri_reward_needs(const tri_reward_opt *o, int n);

/* The deck's list, opened: a weighted sum. Not collective. 1 to TRI_REWARDS_MAX rows; anything else, an
 * option that tri_reward_check refuses is TRI_ECONFIG. Names are made unique: the second "regex" is called
 * "regex_2". What env holds is borrowed until close. */
typedef struct tri_reward_set tri_reward_set;
TRI_CHECKED tri_status        tri_reward_set_open(const tri_reward_opt *o, int n, const tri_reward_env *env,
                                                  tri_reward_set **out);
void                          tri_reward_set_close(tri_reward_set **s);
/* A step's answers for their scores. */
typedef struct tri_reward_call {
  const tri_answer *a;      /* [n] */
  const int        *number; /* [n] ascending; each was submitted, with `share` by one of the ranks */
  int               n;
  tri_comm         *share;        /* NULL: every rank has answers of its own; else all have the same */
  float            *part, *total; /* [n,n_reward] unweighted; [n] weighted sum */
  int32_t *failed; /* [n] bit i: reward i could not judge the answer; what it gets is as on_error says,
                             * NAN for both where it is dropped, and in a trial */
  /* In a trial: what reward i said of each answer, in the order of their numbers. NULL: nobody asks. */
  void (*told)(void *ctx, int i, const tri_work_queue_result *r);
  void *ctx;
} tri_reward_call;
/* The mean of a further number of the replies of a reward, over the answers that had it. */
typedef struct tri_reward_mean {
  char   name[TRI_EXTRA_NAME_BYTES];
  double sum;
  double n; /* answers */
} tri_reward_mean;
/* Not collective. An answer has ended: rewards that work beside generation get it. Its number is below the
 * next call's most. */
TRI_CHECKED tri_status tri_reward_set_submit(tri_reward_set *s, const tri_answer *a, int number);
/* Not collective. Waits for what was submitted until halt, which is called ten times a second, is true. */
void tri_reward_set_await(tri_reward_set *s, bool (*halt)(void *ctx), void *ctx);
/* Not collective. How often programs of this rank died and were started again since the last call; false: no
 * reward is a program. */
bool tri_reward_set_restarts(tri_reward_set *s, int64_t *n);
/* Not collective. What was submitted is given up. */
void tri_reward_set_forget(tri_reward_set *s);
/* Collective over world where a reward is, or over c->share; else not. An infinite score is TRI_ENUMERIC,
 * naming the reward and the prompt. */
TRI_CHECKED tri_status tri_reward_set_call(tri_reward_set *s, const tri_reward_call *c);
/* Collective as tri_reward_set_call: the same of answers of which none was submitted. */
TRI_CHECKED tri_status tri_reward_set_score(tri_reward_set *s, const tri_answer *a, int n, float *part,
                                            float *total, int32_t *failed);
/* Collective over world; NULL: this rank is alone. The further numbers of reward i's replies since the last
 * call, in the order of their names, alike on every rank: mean [TRI_EXTRAS_MOST]. Where there are more names
 * the first ones, and rank 0 warns once. Returns how many through *n. */
TRI_CHECKED tri_status tri_reward_set_extras(tri_reward_set *s, int i, tri_comm *world,
                                             tri_reward_mean mean[TRI_EXTRAS_MOST], int *n);
/* Not collective. The first time: a warning that reward i (-1: no reward, for want of a text) could not judge
 * an answer to this prompt, with the cause. */
void tri_reward_set_warn(tri_reward_set *s, int i, int64_t prompt_id);
/* Not collective. Why one of the rewards cannot judge answers to this truth [n], or NULL. */
const char *tri_reward_set_refuse(const tri_reward_set *s, const char *truth, size_t n);
/* Not collective. Whether an answer with these parts [n] gets all that can be got. Rewards that only take
 * away do not count, unless there are no others. */
bool tri_reward_set_is_full(const tri_reward_set *s, const float *part);
/* The first reward that takes a result from responses; NULL: none does. */
const tri_reward *tri_reward_set_voter(const tri_reward_set *s);
unsigned          tri_reward_set_needs(const tri_reward_set *s);  /* TRI_REWARD_* of all */
bool        tri_reward_set_works_beside(const tri_reward_set *s); /* whether submit gives anyone anything */
int         tri_reward_set_count(const tri_reward_set *s);
const char *tri_reward_set_name(const tri_reward_set *s, int i);
double      tri_reward_set_most(const tri_reward_set *s, int i); /* that reward i adds to the sum */
bool        tri_reward_set_is_bounded(const tri_reward_set *s);  /* whether there is a most of all */

#endif
