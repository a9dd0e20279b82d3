/* dataset.h - the lines of data files as tokens, and the order in which an epoch takes them.
 * Knows no tokenizer: text goes through a function of the caller. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DATASET_H
#define TRI_DATASET_H

#include "base/error_list.h"
#include "comm/comm.h"
#include "io/chat/chat.h"
#include "io/text/text_place.h"

typedef struct tri_dataset tri_dataset;

/* What a line must hold; other keys are ignored. `tokens` takes the place of the text in every kind, even
 * where both are there; `prompt_tokens` says how many of them are the prompt (RL, PROMPTS: only those are
 * taken). A list of messages, {"role", "content"}, takes the place of any text, where `messages` is one more
 * name of a prompt, and but for PAIRS of a prompt with its answer; a text beside such a list is the message
 * of the user, or, an answer, of the assistant. `chosen` and `rejected`, `completion` may hold the prompt's
 * messages too. RL prompt, answer the example is the prompt; an answer is text or a number PROMPTS prompt;
 * answer may be there the same SFT prompt and completion, or text (both: refused) SCORE as SFT, and one
 * token is enough PAIRS prompt, chosen and rejected, or chosen_tokens and rejected_tokens, of both of which
 * the first prompt_tokens are the prompt and the same; margin, a number, may be there LABELLED prompt and
 * completion, or tokens; label, true or false, 1 or 0 `chosen` and `rejected` are refused in every kind but
 * PAIRS. */
typedef enum {
  TRI_DATA_RL,
  TRI_DATA_PROMPTS,
  TRI_DATA_SFT,
  TRI_DATA_SCORE,
  TRI_DATA_PAIRS,
  TRI_DATA_LABELLED
} tri_data_kind;

/* Whether examples of the kind are prompts alone; else what is behind them is learned or scored. */
static inline bool tri_data_is_prompts(tri_data_kind k) { return k == TRI_DATA_RL || k == TRI_DATA_PROMPTS; }
/* Whether every example, both sides of a pair, must have a token that is learned. */
static inline bool tri_data_is_learned(tri_data_kind k) {
  return !tri_data_is_prompts(k) && k != TRI_DATA_SCORE;
}

/* The treatment of an example that is too long. ERROR names the first and counts all of them, unless a line
 * is bad for another reason. DROP leaves the example out. TRUNCATE keeps the last max_prompt_tokens tokens of
 * a prompt (its begin token goes first) and the first max_total_tokens of a whole example (its end token goes
 * first). A pair is as long as its longer side; each side is cut for itself. An example that would keep no
 * token to learn is dropped, as TRL 1.16 does it. Where prompts are truncated too, such a prompt is cut
 * instead, at its beginning: its answer gets the room that it needs, at most half of max_total_tokens. In the
 * order of the words of data.overlong_prompt and data.overlong; AS_PROMPT is of whole examples alone. */
typedef enum {
  TRI_OVERLONG_ERROR,
  TRI_OVERLONG_DROP,
  TRI_OVERLONG_TRUNCATE,
  TRI_OVERLONG_AS_PROMPT /* as prompts */
} tri_overlong;

/* How lists of messages are read. */
typedef struct tri_data_chat {
  const tri_chat *form;      /* borrowed; NULL: they are refused */
  bool            all;       /* SFT: all turns of the assistant are learned, else the last */
  bool            texts;     /* a prompt that is text is the user's message, its answer the assistant's */
  const char     *tools_key; /* NULL: "tools", a line's own */
} tri_data_chat;

/* Everything is borrowed and must live until tri_dataset_open returns. */
typedef struct tri_data_opt {
  tri_data_kind kind;
  const char   *prompt_key, *answer_key, *completion_key; /* NULL: "prompt", "answer", "completion" */
  const char   *chosen_key, *rejected_key, *margin_key;   /* PAIRS; NULL: "chosen", "rejected", "margin" */
  const char   *label_key;                                /* LABELLED; NULL: "label" */
  tri_overlong  overlong_prompt;                          /* treatment of prompts over max_prompt_tokens */
  tri_overlong  overlong;                                 /* treatment of examples over max_total_tokens */
  int64_t       max_prompt_tokens;                        /* 0: no limit */
  const char   *max_prompt_name;  /* what sets it, for messages; NULL: data.max_prompt_length */
  bool          from_deck;        /* messages point to keys of the deck, else to flags */
  const char   *file_key;         /* the deck's key that names the files; NULL: a flag does */
  const char   *tokenizer_cure;   /* what would bring the model a tokenizer; NULL: TRI_TOKENIZER_CURE */
  int64_t       max_total_tokens; /* all of a prompt, its answer and end token; 0: no limit */
  const char   *max_total_name;   /* what sets max_total_tokens, for messages */
  int64_t       max_line_bytes;   /* 0: TRI_LINE_BYTES */
  int64_t       most_bytes;       /* of memory that the lines of a file may take; 0: what the host has */
  int32_t       vocab;            /* every id must be below */
  struct {
    int32_t completion; /* put behind an answer that does not end with it; -1: none */
    int32_t text;       /* the same for `text` (SFT: the end token; SCORE: -1) */
    /* The text of a token as the tokenizer spells it, borrowed while the dataset is read; NULL: it has none.
     * spells NULL: no token has one. */
    const char *(*spells)(void *ctx, int32_t id);
  } end;
  /* The ids of n bytes of UTF-8 text, which may hold NUL; special: with what the post-processor adds. *id
   * [*n_id] is borrowed until the next call. NULL: the model has no tokenizer, only `tokens` lines are
   * accepted. */
  tri_status (*encode)(void *ctx, const char *text, size_t n, bool special, const int32_t **id,
                       int64_t *n_id);
  /* The same with special = false, and the place of each token in the text, as transformers has it: *place
   * [*n_id] is borrowed likewise, or NULL where it is not known. NULL: it never is. */
  tri_status (*encode_places)(void *ctx, const char *text, size_t n, const int32_t **id,
                              const tri_text_place **place, int64_t *n_id);
  void         *ctx;
  tri_data_chat chat;
  /* RL, PROMPTS: why an answer [n] cannot be used, or NULL; makes its line a bad one. NULL: every answer
   * can. */
  const char *(*refuse)(const void *ctx, const char *answer, size_t n);
  const void *refuse_ctx;
  bool        keep_fields; /* RL, PROMPTS: tri_example.fields */
  /* tri_dataset_open only. errors: bad lines do not end it, all are counted there, in 21 messages at most of
   * a file, each of lines that are bad in one way, and *out is NULL with TRI_OK; what the model lacks for
   * all lines (a tokenizer, a chat template) is one error, at the first of them. NULL: the first ends it.
   * no_tokenizer, with errors: text without one is none, but sets this. NULL: it is one. */
  struct {
    tri_errors *errors;
    bool       *no_tokenizer;
  } note;
} tri_data_opt;

/* Borrowed from the dataset. id: the 0-based line in the files one after another, blank lines too; it keys
 * random numbers. RL, PROMPTS: n_prompt = n_token, prompt and answer are NUL-terminated copies (a number as
 * the line spells it). Else tokens max(n_prompt, 1) .. n_token - 1 have loss; prompt and answer are NULL.
 * A prompt and its answer that are text are encoded as one text. n_prompt is the number of tokens that it
 * begins with and that the prompt alone begins with, in a pair the smaller number of both sides (TRL 1.16).
 * PAIRS: token is the chosen side; the rejected one begins with the same n_prompt tokens, and
 * max(n_prompt, 1) .. n_rejected - 1 have loss. Of conversations some of these have none: skip. The prompt is
 * the rendered text of one. */
typedef struct tri_example {
  int64_t        id;
  int            file;     /* which of the files */
  const int32_t *token;    /* [n_token] */
  int            n_token;  /* at least 1 */
  int            n_prompt; /* 0: no prompt */
  const int32_t *rejected; /* [n_rejected]; NULL: not a pair */
  int            n_rejected;
  const uint8_t *skip;          /* [n_token] 1: has no loss; NULL: all behind the prompt have it */
  const uint8_t *rejected_skip; /* [n_rejected] the same */
  float          value;  /* PAIRS: the margin, 0 where the line has none; LABELLED: 1 true, 0 false; else 0 */
  const char    *prompt; /* NULL if the line has only tokens */
  size_t         prompt_bytes;
  const char    *answer; /* NULL if there is none */
  size_t         answer_bytes;
  bool           answer_is_number; /* in the line, which spells it so; else it is text there */
  bool           cut;              /* it was too long, and tokens are left out */
  const char *fields; /* NULL unless kept: of the line all but id, prompt and response, as members of a JSON
                          * object, comma and space behind each */
  size_t      fields_bytes;
} tri_example;

typedef struct tri_data_stats {
  int64_t n_line;                  /* all lines, blank ones too */
  int64_t n_dropped, n_truncated;  /* examples that were too long */
  int64_t n_emptied;               /* dropped ones that a cut would have left without a token to learn */
  int64_t n_token, n_loss;         /* tokens, of both sides; those of them that have loss (RL, PROMPTS: 0) */
  int     longest_prompt, longest; /* tokens; of a pair the longer side */
  int     longest_answer;          /* tokens behind the prompt, likewise; 0 where no line is known */
  int64_t n_plain;                 /* prompts that are text, without the end of a turn of the chat template */
  int64_t n_joined;                /* texts whose prompt alone has other tokens at its end than in the line */
  /* conversations; those that go on with a begun answer; whose template does not show the system's message,
   * or the line's tools */
  int64_t n_conversation, n_begun, n_system_left_out, n_tools_left_out;
  /* conversations whose template does not write the text of the last message, or a function that is called;
   * those whose last answer is learned without an end */
  int64_t n_text_left_out, n_calls_left_out, n_endless;
} tri_data_stats;

/* Not collective. A dataset of which no line is known, for plans: so many examples, of at most so many
 * tokens, that cannot be got; its stats have n_line 0. */
TRI_CHECKED tri_status tri_dataset_assume(tri_data_kind kind, int64_t n, int longest, tri_dataset **out);
/* Not collective. Whether the first line of a file holds an answer to be learned (SFT): under completion_key,
 * a `text`, messages that end with an assistant's, or `tokens` with `prompt_tokens`. max_line_bytes: as
 * tri_data_opt's. */
TRI_CHECKED tri_status tri_dataset_is_answered(const char *file, const char *completion_key,
                                               int64_t max_line_bytes, bool *out);
/* Not collective. Whether the first line of a file is a pair: under both keys, or in `chosen_tokens` and
 * `rejected_tokens`. Keys NULL: "chosen", "rejected". */
TRI_CHECKED tri_status tri_dataset_is_paired(const char *file, const char *chosen_key,
                                             const char *rejected_key, bool *out);
struct json_t; /* jansson */
struct tri_jsonl;
/* Whether a line has a label (LABELLED) under this key: true, false, 1 or 0. */
bool tri_dataset_is_label(const struct json_t *line, const char *key);
/* Not collective. TRI_EINPUT, with "FILE:LINE: " and the cure, where `line`, the last of r, is in a form of
 * another program whose fields have to be rewritten: keys alone would lose a part of it. It is looked at with
 * the keys' defaults, as a deck that names none reads it. */
TRI_CHECKED tri_status tri_dataset_check_form(struct tri_jsonl *r, struct json_t *line, tri_data_kind kind);
/* Not collective. Always TRI_EINPUT: the same of a line of any form, of which what says why it is refused. */
TRI_CHECKED tri_status tri_dataset_refuse_form(struct tri_jsonl *r, struct json_t *line, tri_data_kind kind,
                                               const char *what);
/* Not collective. Reads n_file files of JSON lines, one after another. TRI_EINPUT, with "FILE:LINE: ", for
 * the first bad line, and where no example is left. A line without a token to learn is bad too
 * (tri_data_is_learned). */
TRI_CHECKED tri_status tri_dataset_open(const char *const *file, int n_file, const tri_data_opt *opt,
                                        tri_dataset **out);
/* Collective over c. The same dataset on every rank, for the work of one: each reads and tokenizes a part of
 * the lines, then all are exchanged; the first bad line fails it everywhere. Files of another size on another
 * rank are refused. */
TRI_CHECKED tri_status tri_dataset_open_shared(const char *const *file, int n_file, const tri_data_opt *opt,
                                               tri_comm *c, tri_dataset **out);
void                   tri_dataset_close(tri_dataset **d);

tri_data_kind      tri_dataset_kind(const tri_dataset *d);
int64_t            tri_dataset_count(const tri_dataset *d);
const tri_example *tri_dataset_get(const tri_dataset *d, int64_t i); /* 0 <= i < count */
/* The example of this id; NULL: there is none, or d is NULL. */
const tri_example    *tri_dataset_find(const tri_dataset *d, int64_t id);
const tri_data_stats *tri_dataset_stats(const tri_dataset *d);
/* Of every example's line, tokens, answer and value, in their order: other data, another number. Not
 * collective. */
int64_t tri_dataset_hash(const tri_dataset *d);

/* Not collective; rank 0's. Says what a template did with conversations that one may not expect: a begun
 * answer is gone on with; it leaves out the system's message, the last one, tools, or calls of them. */
void tri_dataset_say_conversation(const tri_dataset *d, const tri_chat *chat, const char *file);

/* Not collective. From here on a position takes the next line of a file drawn with these weights [n_file],
 * all over 0, by a random number keyed by (seed, position); each file has its own passes and orders.
 * TRI_EINPUT: a file has no examples. */
TRI_CHECKED tri_status tri_dataset_weigh(tri_dataset *d, const char *const *file, const double *weight,
                                         int n_file);

/* Which example is taken at `position` = epoch * count + place, counted over the whole run. shuffle: each
 * epoch has its own order, a function of (seed, epoch, count) alone. Keeps the order of the last epoch asked
 * for (of the last positions, with weights), so not to be called from several threads at once. Not
 * collective. */
int64_t tri_dataset_at(tri_dataset *d, uint64_t seed, bool shuffle, int64_t position);

#endif
