/* dataset.h - reads data files as tokens, and orders the lines of an epoch.
 *
 * Knows no tokenizer. A function of the caller encodes text.
 *
 * Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DATASET_H
#define TRI_DATASET_H

#include "base/error_list.h"
#include "comm/comm.h"
#include "io/chat/chat.h"
#include "io/text/text_place.h"

typedef struct tri_dataset tri_dataset;

/* The fields of a line for each kind. Other fields are ignored.
 *   RL         prompt, answer: the example is the prompt; the answer is text or a number
 *   PROMPTS    prompt; optional: answer
 *   SFT        prompt and completion, or text (both together are refused)
 *   SCORE      as SFT, but one token is enough
 *   PAIRS      prompt, chosen and rejected, or chosen_tokens and rejected_tokens, which begin with the same
 *              prompt_tokens tokens of the prompt; optional: margin, a number
 *   LABELLED   prompt and completion, or tokens; label, which is true or false, or 1 or 0
 * `chosen` and `rejected` are refused in every kind but PAIRS.
 *
 * `tokens` replaces the text in every kind, even if both are there. `prompt_tokens` is the number of prompt
 * tokens among them (RL and PROMPTS keep only those). A list of messages, {"role", "content"}, replaces any
 * text. `messages` is then another name for a prompt, and in all kinds but PAIRS for a prompt with its
 * answer. A text beside such a list is the message of the user, or, for an answer, that of the assistant.
 * `chosen`, `rejected` and `completion` may hold the prompt's messages too. */
typedef enum {
  TRI_DATA_RL,
  TRI_DATA_PROMPTS,
  TRI_DATA_SFT,
  TRI_DATA_SCORE,
  TRI_DATA_PAIRS,
  TRI_DATA_LABELLED
} tri_data_kind;

/* Tells whether examples of this kind are prompts only. In other kinds the tokens behind the prompt are
 * learned or scored. */
static inline bool tri_data_is_prompts(tri_data_kind k) { return k == TRI_DATA_RL || k == TRI_DATA_PROMPTS; }
/* Tells whether every example, and both sides of a pair, must have a token to learn. */
static inline bool tri_data_is_learned(tri_data_kind k) {
  return !tri_data_is_prompts(k) && k != TRI_DATA_SCORE;
}

/* The treatment of an example that is too long, in the order of the words of data.overlong_prompt and
 * data.overlong.
 *
 * ERROR names the first such example and counts all, unless a line is bad for another reason. DROP leaves the
 * example out. TRUNCATE keeps the last max_prompt_tokens tokens of a prompt (its begin token is cut first)
 * and the first max_total_tokens of a whole example (its end token is cut first). A pair is as long as its
 * longer side, and each side is cut separately. An example without a token to learn after the cut is dropped,
 * like in TRL 1.16. If prompts are truncated too, such a prompt is cut instead, at its beginning. Its answer
 * then gets the tokens it needs, up to half of max_total_tokens. AS_PROMPT applies to whole examples only. */
typedef enum {
  TRI_OVERLONG_ERROR,
  TRI_OVERLONG_DROP,
  TRI_OVERLONG_TRUNCATE,
  TRI_OVERLONG_AS_PROMPT /* as data.overlong_prompt */
} tri_overlong;

/* Settings for lists of messages. */
typedef struct tri_data_chat {
  const tri_chat *form;      /* borrowed, or NULL to refuse messages */
  bool            all;       /* SFT: learns all turns of the assistant, not only the last */
  bool            texts;     /* text prompts are user messages, their answers assistant messages */
  const char     *tools_key; /* field with a line's own tools, or NULL for "tools" */
} tri_data_chat;

/* Options of a dataset. Everything is borrowed and must live until tri_dataset_open returns. */
typedef struct tri_data_opt {
  tri_data_kind      kind;
  const char        *prompt_key, *answer_key, *completion_key; /* NULL: "prompt", "answer", "completion" */
  const char        *chosen_key, *rejected_key, *margin_key; /* PAIRS; NULL: "chosen", "rejected", "margin" */
  const char        *label_key;                              /* LABELLED; NULL: "label" */
  tri_overlong       overlong_prompt;                        /* treatment of prompts over max_prompt_tokens */
  tri_overlong       overlong;                               /* treatment of examples over max_total_tokens */
  int64_t            max_prompt_tokens;                      /* 0 for no limit */
  const char        *max_prompt_name; /* its setting, for messages, or NULL for data.max_prompt_length */
  bool               from_deck;       /* messages name deck keys, not flags */
  const char *const *flags;    /* the command's flags for fields, ended by NULL, for cures. NULL: none */
  const char        *file_key; /* the deck key of the files, or NULL for a flag */
  const char *const *beside;   /* [n_beside] other files read with the same keys, for cures */
  int                n_beside;
  const char        *model;            /* the model's folder, for messages, or NULL */
  const char        *tokenizer_cure;   /* how to get a tokenizer, or NULL for tri_tokenizer_cure */
  int64_t            max_total_tokens; /* prompt, answer and end token together, 0 for no limit */
  const char        *max_total_name;   /* its setting, for messages */
  int64_t            max_line_bytes;   /* 0 for TRI_LINE_BYTES */
  int64_t            most_bytes;       /* memory for all lines, 0 for the host's */
  int32_t            vocab;            /* every id must be below */
  struct {
    int32_t completion; /* appended to an answer without it, -1 for none */
    int32_t text;       /* the same for `text` (the end token for SFT, -1 for SCORE) */
    /* Returns the token's text in the tokenizer, borrowed while the dataset is read, or NULL if it has none.
     * If spells is NULL, no token has one. */
    const char *(*spells)(void *ctx, int32_t id);
  } end;
  /* Encodes n bytes of UTF-8 text, which may hold NUL. special adds the tokens of the post-processor. *id
   * [*n_id] is borrowed until the next call. If encode is NULL, the model has no tokenizer, and only lines
   * with `tokens` are accepted. */
  tri_status (*encode)(void *ctx, const char *text, size_t n, bool special, const int32_t **id,
                       int64_t *n_id);
  /* Does the same with special = false, and also gives the place of each token in the text, like
   * transformers. *place [*n_id] is borrowed in the same way, or NULL if unknown. If encode_places is NULL,
   * places are never known. */
  tri_status (*encode_places)(void *ctx, const char *text, size_t n, const int32_t **id,
                              const tri_text_place **place, int64_t *n_id);
  void         *ctx;
  tri_data_chat chat;
  /* For RL and PROMPTS. Returns why an answer [n] cannot be used, or NULL. Its line is then bad. If refuse is
   * NULL, every answer can be used. */
  const char *(*refuse)(const void *ctx, const char *answer, size_t n);
  const void *refuse_ctx;
  bool        keep_fields; /* RL, PROMPTS: fills tri_example.fields */
  /* For tri_dataset_open only. With errors, a bad line does not end the reading. All bad lines are counted
   * there, in at most 21 messages a file, one for each kind of mistake. *out is then NULL with TRI_OK.
   * Something missing in the model for all lines (a tokenizer, a chat template) is one error, at the first
   * such line. Without errors the first bad line ends the reading. With errors and no_tokenizer, text without
   * a tokenizer is no error, but sets *no_tokenizer. */
  struct {
    tri_errors *errors;
    bool       *no_tokenizer;
  } note;
} tri_data_opt;

/* One example, borrowed from the dataset. id is the index of its line from 0, over all files and with blank
 * lines, and keys random numbers.
 *
 * In RL and PROMPTS, n_prompt = n_token, and prompt and answer are NUL-terminated copies (a number as spelled
 * in the line, a conversation as rendered). In the other kinds, tokens max(n_prompt, 1) .. n_token - 1 have
 * loss, except those marked in skip (in conversations), and prompt and answer are NULL.
 *
 * A text prompt and its text answer are encoded as one text. n_prompt is the number of tokens at its begin
 * shared with the prompt encoded alone. For a pair it is the smaller number of both sides (TRL 1.16). In
 * PAIRS, token is the chosen side. The rejected side begins with the same n_prompt tokens, and max(n_prompt,
 * 1) .. n_rejected - 1 have loss. */
typedef struct tri_example {
  int64_t        id;
  int            file;     /* index of the file */
  const int32_t *token;    /* [n_token] */
  int            n_token;  /* at least 1 */
  int            n_prompt; /* 0 without a prompt */
  const int32_t *rejected; /* [n_rejected], or NULL if not a pair */
  int            n_rejected;
  const uint8_t *skip;          /* [n_token] 1 for no loss, or NULL if all behind the prompt have loss */
  const uint8_t *rejected_skip; /* [n_rejected] the same */
  float          value;         /* margin or 0 (PAIRS), 1 true or 0 false (LABELLED), else 0 */
  const char    *prompt;        /* NULL if the line has only tokens */
  size_t         prompt_bytes;
  const char    *answer; /* NULL if there is none */
  size_t         answer_bytes;
  bool           answer_is_number; /* a number in the line, spelled like this; else text */
  bool           cut;              /* too long, some tokens are left out */
  /* The line's fields except id, prompt and response, as members of a JSON object, each with comma and space
   * behind it, or NULL if not kept. */
  const char *fields;
  size_t      fields_bytes;
} tri_example;

typedef struct tri_data_stats {
  int64_t n_line;                  /* all lines, also blank ones */
  int64_t n_dropped, n_truncated;  /* examples that are too long */
  int64_t n_emptied;               /* dropped ones without a token to learn after a cut */
  int64_t n_token, n_loss;         /* tokens of both sides, and those with loss (RL, PROMPTS: 0) */
  int     longest_prompt, longest; /* tokens, for a pair those of the longer side */
  int     longest_answer;          /* tokens behind the prompt, 0 if no line is known */
  int64_t n_plain;                 /* text prompts without the end of a chat template's turn */
  int64_t n_joined;                /* texts whose prompt ends with other tokens when encoded alone */
  /* Counts conversations, those that continue a begun answer, and those whose template leaves out the system
   * message or the line's tools. */
  int64_t n_conversation, n_begun, n_system_left_out, n_tools_left_out;
  /* Counts conversations whose template leaves out the text of the last message or a called function, and
   * those whose last answer is learned without an end. */
  int64_t n_text_left_out, n_calls_left_out, n_endless;
} tri_data_stats;

/* Makes a dataset of n unknown examples with at most `longest` tokens, for plans. The examples cannot be
 * read, and its stats have n_line 0. */
TRI_CHECKED tri_status tri_dataset_assume(tri_data_kind kind, int64_t n, int longest, tri_dataset **out);
/* Tells whether the first line of a file holds an answer to learn (SFT): under completion_key, as `text`, as
 * messages ending with the assistant's, or as `tokens` with `prompt_tokens`. max_line_bytes is as in
 * tri_data_opt. */
TRI_CHECKED tri_status tri_dataset_is_answered(const char *file, const char *completion_key,
                                               int64_t max_line_bytes, bool *out);
/* Tells whether the first line of a file is a pair, under both keys, or as `chosen_tokens` and
 * `rejected_tokens`. NULL keys mean "chosen" and "rejected". */
TRI_CHECKED tri_status tri_dataset_is_paired(const char *file, const char *chosen_key,
                                             const char *rejected_key, bool *out);
struct json_t; /* jansson */
struct tri_jsonl;
/* Tells whether a line has a label (LABELLED) under this key: true, false, 1 or 0. */
bool tri_dataset_is_label(const struct json_t *line, const char *key);
/* Returns TRI_EINPUT, with "FILE:LINE: " and the cure, if `line` is in a format of another program and must
 * be rewritten, because keys alone would lose a part of it. `line` is the last line of r. Uses the default
 * keys, as for a deck that names none. */
TRI_CHECKED tri_status tri_dataset_check_form(struct tri_jsonl *r, struct json_t *line, tri_data_kind kind);
/* Always returns TRI_EINPUT, with the same text for a line of any format. `what` says why it is refused. */
TRI_CHECKED tri_status tri_dataset_refuse_form(struct tri_jsonl *r, struct json_t *line, tri_data_kind kind,
                                               const char *what);
/* Reads n_file files of JSON lines, one after another. Returns TRI_EINPUT with "FILE:LINE: " for the first
 * bad line, and if no example is left. A line without a token to learn is bad too (tri_data_is_learned). */
TRI_CHECKED tri_status tri_dataset_open(const char *const *file, int n_file, const tri_data_opt *opt,
                                        tri_dataset **out);
/* Collective over c. Reads the same dataset on every rank in the time of one share. Each rank reads and
 * tokenizes a part of the lines, then all parts are exchanged. The first bad line fails the call on every
 * rank. Files that differ in size between ranks are refused. */
TRI_CHECKED tri_status tri_dataset_open_shared(const char *const *file, int n_file, const tri_data_opt *opt,
                                               tri_comm *c, tri_dataset **out);
void                   tri_dataset_close(tri_dataset **d);

tri_data_kind      tri_dataset_kind(const tri_dataset *d);
int64_t            tri_dataset_count(const tri_dataset *d);
const tri_example *tri_dataset_get(const tri_dataset *d, int64_t i); /* 0 <= i < count */
/* Returns the example of this id, or NULL if there is none or d is NULL. */
const tri_example    *tri_dataset_find(const tri_dataset *d, int64_t id);
const tri_data_stats *tri_dataset_stats(const tri_dataset *d);
/* Returns a hash of every example's line number, tokens, answer and value, in their order. */
int64_t tri_dataset_hash(const tri_dataset *d);

/* Call it on rank 0. Reports unexpected effects of the template on conversations. It may continue a begun
 * answer, or leave out the system message, the last message, tools, or calls of tools. */
void tri_dataset_say_conversation(const tri_dataset *d, const tri_chat *chat, const char *file);

/* From here on each position takes the next line of a file drawn at random by these weights [n_file], all
 * above 0. The random number is keyed by (seed, position). Each file has its own passes and orders. Returns
 * TRI_EINPUT if a file has no examples. */
TRI_CHECKED tri_status tri_dataset_weigh(tri_dataset *d, const char *const *file, const double *weight,
                                         int n_file);

/* Returns the index of the example at `position` = epoch * count + place, counted over the whole run. With
 * shuffle, each epoch has its own order, which depends only on (seed, epoch, count). Caches the order of the
 * last epoch (with weights, of the last positions), so several threads must not call it at once. */
int64_t tri_dataset_at(tri_dataset *d, uint64_t seed, bool shuffle, int64_t position);

#endif
