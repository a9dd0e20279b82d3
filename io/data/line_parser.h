/* line_parser.h - parses one line of data into tokens. Private to its room. Not collective, all that follow,
 * unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LINE_PARSER_H
#define TRI_LINE_PARSER_H

#include "dataset_bad.h"
#include "dataset_parts.h"
#include "io/text/jsonl.h"
#include "io/tokenizer/tokenizer.h"

#include <string.h>

/* Tokens of one text, with its prompt before it. One buffer serves all lines. */
typedef struct tri_token_buffer {
  int32_t *id;     /* [cap] */
  uint8_t *skip;   /* [cap] 1: not learned, anywhere in the text */
  int64_t  n, cap; /* n: tokens so far */
} tri_token_buffer;

/* The conversation of a line. */
typedef struct tri_conversation {
  struct json_t        *messages; /* a list in the form for templates, or NULL */
  struct json_t        *tools;    /* the line's own, or NULL */
  const struct json_t  *kwargs;   /* the line's own, borrowed from it, or NULL */
  tri_chat_text         text;
  const tri_text_place *place; /* places of its tokens, borrowed until the next encoding, or NULL */
  /* `here` is set for a line with a conversation, and `begun` if it continues a begun answer. The last two
   * are set if the template leaves out the system message, or the line's tools. */
  bool here, begun, system_left_out, tools_left_out;
  bool text_left_out, calls_left_out, endless; /* as in tri_chat_text */
} tri_conversation;
void tri_conversation_free(tri_conversation *t);

/* An end token, with its text if the tokenizer encodes this text as the token. */
typedef struct tri_end {
  int32_t     id;   /* -1: none */
  const char *text; /* borrowed, or NULL to append the id to the tokens */
} tri_end;

typedef struct tri_line_parser {
  const tri_data_opt *opt;
  const char  *prompt_key, *answer_key, *completion_key, *chosen_key, *rejected_key, *label_key, *margin_key;
  tri_dataset *d;
  tri_jsonl   *r;
  struct json_t     *object;
  tri_token_buffer   buffer[2]; /* the second holds the rejected side of a pair */
  tri_token_buffer   prompt;    /* tokens of a text prompt, encoded without its answer */
  tri_text           joined;    /* prompt, answer and end token as one text */
  bool               joins;     /* the line does not begin with all tokens of in->prompt */
  bool               plain;     /* the line counts for tri_data_stats.n_plain */
  bool               cut;       /* the line was too long, some tokens are left out */
  tri_end            end_completion, end_text;
  int64_t            n_prompt; /* the first tokens of both sides */
  float              value;    /* a pair's margin, a label */
  tri_conversation   conversation;
  tri_bad_lines      bad;                    /* bad lines in the current file */
  int64_t            n_bad;                  /* lines of all files */
  bool               model_lacks, said_lack; /* the model lacks something for the line; one was reported */
  int                file;                   /* index of the file */
  const char *const *files;                  /* [n_files] all files, borrowed, NULL if unknown */
  int                n_files;
} tri_line_parser;

/* Returns the field of a line's own tools. */
static inline const char *tri_line_parser_tools_key(const tri_line_parser *in) {
  return in->opt->chat.tools_key ? in->opt->chat.tools_key : "tools";
}

/* Returns the deck's key of the files if it names this file alone, else NULL. */
static inline const char *tri_line_parser_file_key(const tri_line_parser *in) {
  return in->n_files > 1 ? NULL : in->opt->file_key;
}

/* Fails with the place of the line. */
#define TRI_FAIL_LINE(in, fmt, ...)                                                                          \
  TRI_FAIL(TRI_EINPUT, "%s:%lld: " fmt, tri_jsonl_path((in)->r), (long long)tri_jsonl_line((in)->r),         \
           __VA_ARGS__)

/* Fails with the place of a line that has text although the model has no tokenizer. `tokens` names the fields
 * to give instead. */
#define TRI_FAIL_NO_TOKENIZER(in, what, key, tokens)                                                         \
  do {                                                                                                       \
    char cure_[TRI_TOKENIZER_CURE_BYTES];                                                                    \
    TRI_FAIL_LINE(in, what ", but %s has no tokenizer.json to read it with\n  %s\n  Or give %s instead.",    \
                  key, (in)->opt->model ? (in)->opt->model : "the model",                                    \
                  (in)->opt->tokenizer_cure ? (in)->opt->tokenizer_cure                                      \
                                            : tri_tokenizer_cure((in)->opt->model, cure_),                   \
                  tokens);                                                                                   \
  } while (0)

/* Returns the index of the first token that can be learned. It lies behind the prompt and is never 0. */
static inline int64_t tri_first_learned(int64_t n_prompt) { return n_prompt > 1 ? n_prompt : 1; }

/* Returns the setting that names a field of the line, its deck key or its flag, or NULL if the command has
 * none (tri_data_opt.flags). flag may be NULL. */
static inline const char *tri_line_parser_setting(const tri_line_parser *in, const char *deck,
                                                  const char *flag) {
  const char *const *had = in->opt->flags;

  if (in->opt->from_deck) return deck;
  while (had && *had && flag && strcmp(*had, flag) != 0) had++;
  return had && *had && flag ? *had : NULL;
}
/* Fails because a line lacks a key, and names the fields it has. deck and flag set this key in a deck and
 * without one, or are NULL. Here and below a bad line is TRI_EINPUT with its place. */
TRI_CHECKED tri_status tri_line_parser_refuse_missing(const tri_line_parser *in, const char *key,
                                                      const char *deck, const char *flag);
/* Not collective, all three. They fail at the line's place with the value found and a cure. The first is for
 * an answer that is neither text nor number, the second for an answer [n] that no reward can judge (why), the
 * third for a bad label. */
TRI_CHECKED tri_status tri_line_parser_refuse_answer(const tri_line_parser *in, const struct json_t *answer);
TRI_CHECKED tri_status tri_line_parser_refuse_truth(const tri_line_parser *in, const char *text, size_t n,
                                                    const char *why);
TRI_CHECKED tri_status tri_line_parser_refuse_label(const tri_line_parser *in, const struct json_t *label);
/* Returns the number of learned tokens of a side. */
static inline int64_t tri_token_buffer_learned(const tri_token_buffer *s, int64_t n_prompt) {
  int64_t n = 0;

  for (int64_t i = tri_first_learned(n_prompt); i < s->n; i++) n += !s->skip[i];
  return n;
}

/* Returns the number of tokens that both lists begin with. */
static inline int64_t tri_common_prefix(const int32_t *a, int64_t n_a, const int32_t *b, int64_t n_b) {
  int64_t i = 0;

  while (i < n_a && i < n_b && a[i] == b[i]) i++;
  return i;
}

/* Checks that all ids are in the model's vocabulary. `of` names their text, for the message. */
TRI_CHECKED tri_status tri_line_parser_check_ids(const tri_line_parser *in, const int32_t *id, int64_t n,
                                                 const char *of);
/* Appends id [n] to the tokens of a side. */
TRI_CHECKED tri_status tri_line_parser_put_ids(tri_line_parser *in, tri_token_buffer *to, const int32_t *id,
                                               int64_t n);
/* Encodes the prompt's text, which must be present, into in->prompt. */
TRI_CHECKED tri_status tri_line_parser_read_prompt(tri_line_parser *in);
/* Encodes the prompt's text, the text under `key`, which must be present, and the end token as one text.
 * in->n_prompt is the number of tokens that both the side and in->prompt begin with. */
TRI_CHECKED tri_status tri_line_parser_put_answered(tri_line_parser *in, tri_token_buffer *to,
                                                    const char *key);
/* Sets in->end_completion and in->end_text before the first line. */
TRI_CHECKED tri_status tri_line_parser_find_ends(tri_line_parser *in);
/* Checks that a side has a token to learn behind its prompt. key names its field, for the message. NULL: the
 * line. */
TRI_CHECKED tri_status tri_line_parser_check_learned(const tri_line_parser  *in,
                                                     const tri_token_buffer *buffer, const char *key);
/* Reads `prompt_tokens` into in->n_prompt, which keeps its value if the line has none. The value must be in
 * least .. most of the n tokens. key names their field for the message, or is NULL for `tokens`. */
TRI_CHECKED tri_status tri_line_parser_take_prompt_tokens(tri_line_parser *in, int64_t least, int64_t most,
                                                          int64_t n, const char *key);

/* Each reads one form of a line into in->buffer[0] and in->n_prompt. The first reads `tokens`, the second a
 * prompt, which must be present, the third `text`, or a prompt and its completion. */
TRI_CHECKED tri_status tri_line_parser_take_tokens(tri_line_parser *in);
TRI_CHECKED tri_status tri_line_parser_take_prompt(tri_line_parser *in);
TRI_CHECKED tri_status tri_line_parser_take_text(tri_line_parser *in);

/* The first reads a PAIRS line with its margin, the second a LABELLED line. */
TRI_CHECKED tri_status tri_line_parser_take_pair(tri_line_parser *in);
TRI_CHECKED tri_status tri_line_parser_take_labelled(tri_line_parser *in);
/* Tells whether the line gives its prompt, or the answer to it (NULL for none), as messages. */
bool tri_line_parser_is_conversation(const tri_line_parser *in, const char *prompt, const char *answer);
/* The first reads messages under `key` as a prompt. The second reads those of a prompt (NULL for none) and of
 * its answer, and learns the last turn, or all. The third does so for both sides of a pair. */
TRI_CHECKED tri_status tri_line_parser_take_conversation(tri_line_parser *in, const char *key);
TRI_CHECKED tri_status tri_line_parser_take_answered(tri_line_parser *in, tri_token_buffer *buffer,
                                                     const char *prompt, const char *answer);
TRI_CHECKED tri_status tri_line_parser_take_talked_pair(tri_line_parser *in);

/* Tells whether the line gives a pair as tokens. */
bool tri_line_parser_has_pair_tokens(const tri_line_parser *in);

#endif
