/* dataset_line.h - one line of data on its way in: its fields as tokens. Private to its room. */
#ifndef TRI_DATASET_LINE_H
#define TRI_DATASET_LINE_H

#include "dataset_parts.h"
#include "io/text/jsonl.h"

/* Tokens of one text, its prompt before it. One buffer for all lines. */
typedef struct tri_side {
  int32_t *id;     /* [cap] */
  int64_t  n, cap; /* n: so far */
} tri_side;

typedef struct tri_intake {
  const tri_data_opt *opt;
  const char  *prompt_key, *answer_key, *completion_key, *chosen_key, *rejected_key, *label_key, *margin_key;
  tri_dataset *d;
  tri_jsonl   *r;
  struct json_t *object;
  tri_side       side[2];  /* the second: what a pair rejects, else empty */
  int64_t        n_prompt; /* tokens, the first of both sides */
  float          value;    /* a pair's margin, a label */
  int64_t        n_bad;    /* lines */
  int            file;     /* index of the file */
} tri_intake;

/* Fail at the place of the line. */
#define TRI_FAIL_LINE(in, fmt, ...)                                                                          \
  TRI_FAIL(TRI_EINPUT, "%s:%lld: " fmt, tri_jsonl_path((in)->r), (long long)tri_jsonl_line((in)->r),         \
           __VA_ARGS__)

/* The first token that can be learned: behind the prompt, and never the first of all. */
static inline int64_t tri_first_learned(int64_t n_prompt) { return n_prompt > 1 ? n_prompt : 1; }

/* Not collective. A line lacks a key: what it has instead. deck, flag: what sets the key in a deck and
 * without one; NULL: nothing does. Here and below a bad line is TRI_EINPUT, with its place. */
TRI_CHECKED tri_status tri_intake_refuse_missing(const tri_intake *in, const char *key, const char *deck,
                                                 const char *flag);
/* Not collective. Put id [n] behind the tokens of a side. */
TRI_CHECKED tri_status tri_intake_put_ids(tri_intake *in, tri_side *to, const int32_t *id, int64_t n);
/* Not collective. Put the text under `key`, which must be there, and the end token behind the prompt. */
TRI_CHECKED tri_status tri_intake_put_answer(tri_intake *in, tri_side *to, const char *key);
/* Not collective. A side has a token to learn behind its prompt. key: what holds it, for the message; NULL:
 * the line. */
TRI_CHECKED tri_status tri_intake_check_learned(const tri_intake *in, const tri_side *side, const char *key);
/* Not collective. `prompt_tokens` into in->n_prompt, which keeps its value where the line has none. least ..
 * most of the n tokens are possible. key: what holds them where that is not `tokens`, for the message, or
 * NULL. */
TRI_CHECKED tri_status tri_intake_take_prompt_tokens(tri_intake *in, int64_t least, int64_t most, int64_t n,
                                                     const char *key);

/* Not collective. One form of a line into in->side[0] and in->n_prompt: `tokens`; a prompt, which must be
 * there; `text`, or a prompt and its completion. */
TRI_CHECKED tri_status tri_intake_take_tokens(tri_intake *in);
TRI_CHECKED tri_status tri_intake_take_prompt(tri_intake *in);
TRI_CHECKED tri_status tri_intake_take_text(tri_intake *in);

/* Not collective. A PAIRS line, its margin too; a LABELLED line. */
TRI_CHECKED tri_status tri_intake_take_pair(tri_intake *in);
TRI_CHECKED tri_status tri_intake_take_labelled(tri_intake *in);
/* Not collective. Whether the line gives a pair as tokens. */
bool tri_intake_has_pair_tokens(const tri_intake *in);

#endif
