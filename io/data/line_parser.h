/* line_parser.h - one line of data on its way in: its fields as tokens. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LINE_PARSER_H
#define TRI_LINE_PARSER_H

#include "dataset_bad.h"
#include "dataset_parts.h"
#include "io/text/jsonl.h"
#include "io/tokenizer/tokenizer.h"

/* Tokens of one text, its prompt before it. One buffer for all lines. */
typedef struct tri_token_buffer {
  int32_t *id;     /* [cap] */
  uint8_t *skip;   /* [cap] 1: not learned, wherever it stands */
  int64_t  n, cap; /* n: so far */
} tri_token_buffer;

/* The conversation of a line. */
typedef struct tri_conversation {
  struct json_t        *messages; /* a list, as templates get them; NULL: none yet */
  struct json_t        *tools;    /* the line's own; NULL: none */
  const struct json_t  *kwargs;   /* the line's own, borrowed from it; NULL: none */
  tri_chat_text         text;
  const tri_text_place *place; /* of its tokens, borrowed until the next text is encoded; NULL: not known */
  /* the line has one; it goes on with a begun answer; the template does not show the system's message, or
   * the line's tools */
  bool here, begun, system_left_out, tools_left_out;
  bool text_left_out, calls_left_out, endless; /* as tri_chat_text */
} tri_conversation;
void tri_conversation_free(tri_conversation *t);

/* An end token, and its text where the tokenizer reads this text as the token. */
typedef struct tri_end {
  int32_t     id;   /* -1: none */
  const char *text; /* borrowed; NULL: the id is put behind the tokens */
} tri_end;

typedef struct tri_line_parser {
  const tri_data_opt *opt;
  const char  *prompt_key, *answer_key, *completion_key, *chosen_key, *rejected_key, *label_key, *margin_key;
  tri_dataset *d;
  tri_jsonl   *r;
  struct json_t   *object;
  tri_token_buffer buffer[2]; /* the second: what a pair rejects, else empty */
  tri_token_buffer prompt;    /* the tokens of a prompt that is text, encoded without its answer */
  tri_text         joined;    /* a prompt, its answer and the end token as one text */
  bool             joins;     /* in->prompt has tokens that the line does not begin with */
  bool             plain;     /* the line has a prompt that is text, as tri_data_stats.n_plain */
  bool             cut;       /* the line was too long, and tokens are left out */
  tri_end          end_completion, end_text;
  int64_t          n_prompt; /* tokens, the first of both sides */
  float            value;    /* a pair's margin, a label */
  tri_conversation conversation;
  tri_bad_lines    bad;                    /* of the file that is read */
  int64_t          n_bad;                  /* lines of all files */
  bool             model_lacks, said_lack; /* the line is bad for want of something of the model's; one was */
  int              file;                   /* index of the file */
} tri_line_parser;

/* The field of a line's own tools. */
static inline const char *tri_line_parser_tools_key(const tri_line_parser *in) {
  return in->opt->chat.tools_key ? in->opt->chat.tools_key : "tools";
}

/* Fail at the place of the line. */
#define TRI_FAIL_LINE(in, fmt, ...)                                                                          \
  TRI_FAIL(TRI_EINPUT, "%s:%lld: " fmt, tri_jsonl_path((in)->r), (long long)tri_jsonl_line((in)->r),         \
           __VA_ARGS__)

/* The same of a line that has text where the model brings no tokenizer: what it has; tokens instead. */
#define TRI_FAIL_NO_TOKENIZER(in, what, key, tokens)                                                         \
  TRI_FAIL_LINE(in, what ", but the model brings no tokenizer.json; give %s instead, or\n  %s", key, tokens, \
                (in)->opt->tokenizer_cure ? (in)->opt->tokenizer_cure : TRI_TOKENIZER_CURE)

/* The first token that can be learned: behind the prompt, and never the first of all. */
static inline int64_t tri_first_learned(int64_t n_prompt) { return n_prompt > 1 ? n_prompt : 1; }

/* Not collective. A line lacks a key: what it has instead. deck, flag: what sets the key in a deck and
 * without one; NULL: nothing does. Here and below a bad line is TRI_EINPUT, with its place. */
TRI_CHECKED tri_status tri_line_parser_refuse_missing(const tri_line_parser *in, const char *key,
                                                      const char *deck, const char *flag);
/* Not collective. These fail at the line's place with what was found and what to do: an answer that is no
 * text and no number; an answer [n] that no reward could judge, why; a label. */
TRI_CHECKED tri_status tri_line_parser_refuse_answer(const tri_line_parser *in, const struct json_t *answer);
TRI_CHECKED tri_status tri_line_parser_refuse_truth(const tri_line_parser *in, const char *text, size_t n,
                                                    const char *why);
TRI_CHECKED tri_status tri_line_parser_refuse_label(const tri_line_parser *in, const struct json_t *label);
/* Tokens of a side that are learned. */
static inline int64_t tri_token_buffer_learned(const tri_token_buffer *s, int64_t n_prompt) {
  int64_t n = 0;

  for (int64_t i = tri_first_learned(n_prompt); i < s->n; i++) n += !s->skip[i];
  return n;
}

/* Tokens that both lists begin with. */
static inline int64_t tri_common_prefix(const int32_t *a, int64_t n_a, const int32_t *b, int64_t n_b) {
  int64_t i = 0;

  while (i < n_a && i < n_b && a[i] == b[i]) i++;
  return i;
}

/* Not collective. All ids are the model's; what they are of, for the message. */
TRI_CHECKED tri_status tri_line_parser_check_ids(const tri_line_parser *in, const int32_t *id, int64_t n,
                                                 const char *of);
/* Not collective. Put id [n] behind the tokens of a side. */
TRI_CHECKED tri_status tri_line_parser_put_ids(tri_line_parser *in, tri_token_buffer *to, const int32_t *id,
                                               int64_t n);
/* Not collective. Encodes the prompt's text, which must be there, into in->prompt. */
TRI_CHECKED tri_status tri_line_parser_read_prompt(tri_line_parser *in);
/* Not collective. Encodes the prompt's text, the text under `key`, which must be there, and the end token as
 * one text. in->n_prompt is the number of tokens that the side and in->prompt begin with. */
TRI_CHECKED tri_status tri_line_parser_put_answered(tri_line_parser *in, tri_token_buffer *to,
                                                    const char *key);
/* Not collective. Before the first line: in->end_completion, in->end_text. */
TRI_CHECKED tri_status tri_line_parser_find_ends(tri_line_parser *in);
/* Not collective. A side has a token to learn behind its prompt. key: what holds it, for the message; NULL:
 * the line. */
TRI_CHECKED tri_status tri_line_parser_check_learned(const tri_line_parser  *in,
                                                     const tri_token_buffer *buffer, const char *key);
/* Not collective. `prompt_tokens` into in->n_prompt, which keeps its value where the line has none. least ..
 * most of the n tokens are possible. key: what holds them where that is not `tokens`, for the message, or
 * NULL. */
TRI_CHECKED tri_status tri_line_parser_take_prompt_tokens(tri_line_parser *in, int64_t least, int64_t most,
                                                          int64_t n, const char *key);

/* Not collective. One form of a line into in->side[0] and in->n_prompt: `tokens`; a prompt, which must be
 * there; `text`, or a prompt and its completion. */
TRI_CHECKED tri_status tri_line_parser_take_tokens(tri_line_parser *in);
TRI_CHECKED tri_status tri_line_parser_take_prompt(tri_line_parser *in);
TRI_CHECKED tri_status tri_line_parser_take_text(tri_line_parser *in);

/* Not collective. A PAIRS line, its margin too; a LABELLED line. */
TRI_CHECKED tri_status tri_line_parser_take_pair(tri_line_parser *in);
TRI_CHECKED tri_status tri_line_parser_take_labelled(tri_line_parser *in);
/* Not collective. Whether the line gives its prompt, or the answer to it (NULL: there is none), as
 * messages. */
bool tri_line_parser_is_conversation(const tri_line_parser *in, const char *prompt, const char *answer);
/* Not collective. Messages under `key` as a prompt; those of a prompt (NULL, and not there: none) and of its
 * answer, of which the last turn is learned, or all; the same of both sides of a pair. */
TRI_CHECKED tri_status tri_line_parser_take_conversation(tri_line_parser *in, const char *key);
TRI_CHECKED tri_status tri_line_parser_take_answered(tri_line_parser *in, tri_token_buffer *buffer,
                                                     const char *prompt, const char *answer);
TRI_CHECKED tri_status tri_line_parser_take_talked_pair(tri_line_parser *in);

/* Not collective. Whether the line gives a pair as tokens. */
bool tri_line_parser_has_pair_tokens(const tri_line_parser *in);

#endif
