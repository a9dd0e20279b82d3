/* chat.h - writes conversations as text with the chat template of a model. A template is a program in the
 * Jinja language. io/jinja runs it. Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CHAT_H
#define TRI_CHAT_H

#include "base/text_buffer.h"

struct json_t; /* jansson */

/* The named values of data.chat_template. Any other value is the path of a template. The texts of the names
 * are io/chat/forms/NAME.jinja. */
#define TRI_CHAT_NAMES "chatml|llama2|llama3|mistral|qwen2.5|qwen3|gemma|zephyr"
#define TRI_CHAT_WORDS "auto|none|" TRI_CHAT_NAMES
/* Pure. Says if a value of data.chat_template is the path of a file. A path is none of the words, and it ends
 * with .jinja or has a slash. */
bool tri_chat_is_file(const char *template);
/* Pure. Says if a value of data.chat_template is one of the words. */
bool tri_chat_is_word(const char *template);

/* The bytes of a file, borrowed during the call. NULL: there is no such file. */
typedef struct tri_chat_bytes {
  const char *bytes;
  size_t      n;
} tri_chat_bytes;

/* The files of a model. */
typedef struct tri_chat_files {
  const char    *model;    /* named in messages */
  tri_chat_bytes config;   /* tokenizer_config.json */
  tri_chat_bytes map;      /* special_tokens_map.json */
  tri_chat_bytes jinja;    /* chat_template.jinja, preferred to the template in tokenizer_config.json */
  tri_chat_bytes tool_use; /* additional_chat_templates/tool_use.jinja */
} tri_chat_files;

/* Options for writing conversations. Everything is borrowed during tri_chat_open. A zeroed struct selects the
 * model's own template. */
typedef struct tri_chat_opt {
  const char *template; /* one of TRI_CHAT_WORDS, or the path of a file. NULL: auto */
  /* The bytes of that file if the caller has them. Otherwise the path is read. */
  tri_chat_bytes text;
  const char    *kwargs; /* template variables, a JSON object. NULL: none */
  /* The date a template may write, such as "2026-11-29". NULL: it may write none. */
  const char    *date;
  const char    *tools; /* path of a JSON list. NULL: none */
  tri_chat_bytes tools_text;
  /* Text of a system message for conversations without one. NULL: none. */
  const char *system;
  /* The key or flag of this text, a literal for messages. NULL: data.system_prompt. */
  const char *system_key;
  bool        from_deck; /* messages name deck keys. false: flags of commands */
} tri_chat_opt;

/* A conversation. Everything is borrowed. */
typedef struct tri_chat_conversation {
  /* A list of objects. The template gets each of them as tri_chat_message returns it. */
  const struct json_t *messages;
  const struct json_t *tools; /* NULL: the tools of tri_chat_opt */
  /* An object. It overrides the variables of tri_chat_opt. NULL: none. */
  const struct json_t *kwargs;
} tri_chat_conversation;

/* A learned span: bytes begin .. end - 1 of a written conversation. Its tokens count in the loss. */
typedef struct tri_chat_turn {
  size_t begin, end;
} tri_chat_turn;

/* A written conversation. Zero-initialise. tri_chat_text_free leaves it zeroed. */
typedef struct tri_chat_text {
  tri_text       text;
  tri_chat_turn *turn; /* [n_turn] in order, filled by tri_chat_learned */
  int64_t        n_turn, cap;
  /* The last message is a begun assistant message, and the text ends inside it. */
  bool begun;
  bool system_left_out; /* the text lacks the text of the system message */
  /* The text lacks the text of the last message, apart from reasoning (</think>). */
  bool text_left_out;
  bool calls_left_out; /* the text lacks a function name of tool_calls */
  /* Set by tri_chat_learned: the last span ends with the text of its answer. */
  bool endless;
} tri_chat_text;
void tri_chat_text_free(tri_chat_text *t);

/* Read-only once open. Close accepts NULL. */
typedef struct tri_chat tri_chat;

/* If the model has no template, or its own cannot be used, open succeeds and writing the first conversation
 * fails. TRI_EINPUT: the template file holds no template, or the tools are no list. */
TRI_CHECKED tri_status tri_chat_open(const tri_chat_opt *opt, const tri_chat_files *files, tri_chat **out);
void                   tri_chat_close(tri_chat **c);
/* Says if the model has a template of its own. *broken: its tokenizer_config.json is not JSON. */
bool tri_chat_brings(const tri_chat_files *files, bool *broken);
/* The name of the template in messages. NULL: there is no usable template. */
const char *tri_chat_name(const tri_chat *c);
/* The text of the token that ends an assistant turn, found by writing a conversation. NULL: none was
 * found. */
const char *tri_chat_end(const tri_chat *c);
/* Say if the template writes the date (strftime_now), and if it reads tools. */
bool tri_chat_says_date(const tri_chat *c);
bool tri_chat_reads_tools(const tri_chat *c);
/* Returns tri_chat_opt.system (NULL: none), and the key or flag that set it. */
const char *tri_chat_system(const tri_chat *c, const char **key);
/* Inserts the system message of tri_chat_opt at the front of a list of messages if none is from the system or
 * the developer. *put: it was inserted. A template without system messages then fails on it. */
TRI_CHECKED tri_status tri_chat_put_system(const tri_chat *c, struct json_t *messages, bool *put);
/* Returns st, the status of writing a conversation. If st is an error and *put was true, the error also names
 * the key or flag of the system message. */
TRI_CHECKED tri_status tri_chat_blame_system(const tri_chat *c, bool put, tri_status st);
/* The first variable of tri_chat_opt that the template never reads, perhaps a typing error. NULL: none. */
const char *tri_chat_unread(const tri_chat *c);

/* Appends the template's text, for other programs. Statements in front of it set the special tokens that the
 * model's files do not name. Appends nothing if there is no template. */
TRI_CHECKED tri_status tri_chat_template(const tri_chat *c, tri_text *out);

/* Prepares a message for the template as transformers does (5.24, utils/chat_template_utils.py,
 * _normalize_chat_messages, _alias_reasoning_fields). It drops keys whose value is null. Reasoning under
 * `reasoning_content`, `thinking` or `reasoning` is also put under the first two. *out is a new reference. */
TRI_CHECKED tri_status tri_chat_message(const struct json_t *message, struct json_t **out);

/* Writes the conversation into *out as transformers' apply_chat_template does, and replaces the content of
 * *out. With `prompt`, the generation prompt of the next assistant turn follows. If the last message is the
 * assistant's, `prompt` omits the end of that turn instead (continue_final_message). TRI_EINPUT, without a
 * place: there is no template, or the template raised an error. */
TRI_CHECKED tri_status tri_chat_write(const tri_chat *c, const tri_chat_conversation *conversation,
                                      bool prompt, tri_chat_text *out);
/* Writes a prompt with one user message. The system message of tri_chat_opt stands before it if there is
 * one. */
TRI_CHECKED tri_status tri_chat_write_text(const tri_chat *c, const char *text, tri_chat_text *out);
/* Writes the whole conversation and finds the spans to learn, of all assistant turns or of the last. If the
 * template marks spans with {% generation %}, these are taken. Otherwise a turn begins where the text before
 * it ends, written with a generation prompt, and ends with its end token. No span: there is no assistant
 * message. TRI_EINPUT also if the place of a turn is ambiguous. */
TRI_CHECKED tri_status tri_chat_learned(const tri_chat *c, const tri_chat_conversation *conversation,
                                        bool all, tri_chat_text *out);

/* Appends a JSON object for tri_chat_opt. It holds the variables of `kwargs` (NULL: none), overridden by
 * given [n], each NAME=VALUE. Appends nothing if there are no variables. `flag` names the flag in messages.
 * TRI_EARG. */
TRI_CHECKED tri_status tri_chat_put_kwargs(const char *kwargs, const char *const *given, int n,
                                           const char *flag, tri_text *out);

#endif
