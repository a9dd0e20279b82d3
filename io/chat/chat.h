/* chat.h - conversations as text, as the templates that models learned with write them. A template is a
 * text in the language of Jinja, which io/jinja runs. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CHAT_H
#define TRI_CHAT_H

#include "base/text_buffer.h"

struct json_t; /* jansson */

/* The names that data.chat_template may have; anything else is the path of a template. The texts of the names
 * are io/chat/forms/NAME.jinja. */
#define TRI_CHAT_NAMES "chatml|llama2|llama3|mistral|qwen2.5|qwen3|gemma|zephyr"
#define TRI_CHAT_WORDS "auto|none|" TRI_CHAT_NAMES
/* Pure. Whether a value of data.chat_template is the path of a file: it is none of the words, and ends with
 * .jinja or has a slash. */
bool tri_chat_is_file(const char *template);
/* Pure. Whether it is one of the words. */
bool tri_chat_is_word(const char *template);

/* Bytes of a file, borrowed during the call that takes them; NULL: there is no such file. */
typedef struct tri_chat_bytes {
  const char *bytes;
  size_t      n;
} tri_chat_bytes;

/* What a model brings. */
typedef struct tri_chat_files {
  const char    *model;    /* for messages */
  tri_chat_bytes config;   /* tokenizer_config.json */
  tri_chat_bytes map;      /* special_tokens_map.json */
  tri_chat_bytes jinja;    /* chat_template.jinja, which goes before the template in tokenizer_config.json */
  tri_chat_bytes tool_use; /* additional_chat_templates/tool_use.jinja */
} tri_chat_files;

/* How conversations are written. Everything is borrowed during tri_chat_open; zeroed: the model's own. */
typedef struct tri_chat_opt {
  const char *template;  /* one of TRI_CHAT_WORDS, or the path of a file; NULL: auto */
  tri_chat_bytes text;   /* that file's bytes, where they are known already; else the path is read */
  const char    *kwargs; /* variables for the template, a JSON object; NULL: none */
  const char    *date;   /* "2026-11-29", the day that a template may write; NULL: it may not */
  const char    *tools;  /* path of a JSON list; NULL: none */
  tri_chat_bytes tools_text;
  const char    *system; /* text of a message of the system for conversations that have none; NULL: none */
  const char    *system_key; /* what gives it, for messages; a literal; NULL: data.system_prompt */
  bool           from_deck;  /* messages name the deck's keys, else the commands' flags */
} tri_chat_opt;

/* A conversation. All is borrowed. */
typedef struct tri_chat_conversation {
  /* A list of objects, which the template gets as tri_chat_message leaves them. */
  const struct json_t *messages;
  const struct json_t *tools;  /* NULL: those of tri_chat_opt */
  const struct json_t *kwargs; /* an object, which goes before tri_chat_opt's; NULL: none */
} tri_chat_conversation;

/* Bytes begin .. end - 1 of a written conversation: a piece that is learned. */
typedef struct tri_chat_turn {
  size_t begin, end;
} tri_chat_turn;

/* A written conversation. Zero-initialise; tri_chat_text_free leaves it zeroed. */
typedef struct tri_chat_text {
  tri_text       text;
  tri_chat_turn *turn; /* [n_turn] in their order; of tri_chat_learned, else none */
  int64_t        n_turn, cap;
  bool           begun;           /* the last message is the assistant's, and is gone on with */
  bool           system_left_out; /* the text of the system's message is not in it */
  bool           text_left_out;   /* that of the last message is not, thoughts (</think>) aside */
  bool           calls_left_out;  /* the name of a function that tool_calls has is not */
  bool           endless;         /* of tri_chat_learned: the last piece ends with the text of its answer */
} tri_chat_text;
void tri_chat_text_free(tri_chat_text *t);

/* Read-only once open. Close accepts NULL. Not collective, all that follow. */
typedef struct tri_chat tri_chat;

/* A model's own template that cannot be used, or of a model that has none, is no failure here: writing the
 * first conversation says it. TRI_EINPUT: a template of a file that is none, or tools that are no list. */
TRI_CHECKED tri_status tri_chat_open(const tri_chat_opt *opt, const tri_chat_files *files, tri_chat **out);
void                   tri_chat_close(tri_chat **c);
/* Whether the model has a template of its own; *broken: its tokenizer_config.json is not JSON. */
bool tri_chat_brings(const tri_chat_files *files, bool *broken);
/* What the template is called in messages; NULL where there is none that can be used. */
const char *tri_chat_name(const tri_chat *c);
/* The text of the token that ends a turn of the assistant, found by writing a conversation; NULL: none is
 * found. */
const char *tri_chat_end(const tri_chat *c);
/* Whether the template writes the day (strftime_now), or reads tools. */
bool tri_chat_says_date(const tri_chat *c);
bool tri_chat_reads_tools(const tri_chat *c);
/* tri_chat_opt.system, NULL: none; and the key or flag that gives it. */
const char *tri_chat_system(const tri_chat *c, const char **key);
/* Not collective. Puts that message before a conversation, a list of messages, in which none is the system's
 * or the developer's. *put: it was; a template that refuses such a message then fails by it. */
TRI_CHECKED tri_status tri_chat_put_system(const tri_chat *c, struct json_t *messages, bool *put);
/* Hands st back, of a conversation that was written. Where it is an error and the message was put before it,
 * the error says which key or flag it came from. */
TRI_CHECKED tri_status tri_chat_blame_system(const tri_chat *c, bool put, tri_status st);
/* The first of tri_chat_opt's variables that the template never reads, a typing error perhaps; NULL: none. */
const char *tri_chat_unread(const tri_chat *c);

/* The template's text for other programs, appended to out: as it is, with what sets a special token in front
 * where the model's files do not name that. Nothing where there is no template. */
TRI_CHECKED tri_status tri_chat_template(const tri_chat *c, tri_text *out);

/* The message as templates get it, as transformers passes it on (5.24, utils/chat_template_utils.py,
 * _normalize_chat_messages, _alias_reasoning_fields): without keys whose value is null, and with its thoughts
 * under `reasoning_content` and `thinking` where it has them under one of these or `reasoning`. A new
 * reference. */
TRI_CHECKED tri_status tri_chat_message(const struct json_t *message, struct json_t **out);

/* The conversation into *out, whose content is replaced, as transformers' apply_chat_template writes it.
 * prompt: with what precedes the assistant's next turn; where the last message is the assistant's, without
 * what ends it (continue_final_message). TRI_EINPUT, with no place: what the template raises, or there is
 * none. */
TRI_CHECKED tri_status tri_chat_write(const tri_chat *c, const tri_chat_conversation *conversation,
                                      bool prompt, tri_chat_text *out);
/* The same of one message of the user, with this text, as a prompt; behind that of the system, where there is
 * one in tri_chat_opt. */
TRI_CHECKED tri_status tri_chat_write_text(const tri_chat *c, const char *text, tri_chat_text *out);
/* The whole conversation, and the pieces of it that are learned: of all turns of the assistant, or of the
 * last. Where the template marks them ({% generation %}) these; else a turn begins where the text before it
 * with a generation prompt ends, and ends with its end token. TRI_EINPUT, too, where that cannot be told. No
 * piece: no message is the assistant's. */
TRI_CHECKED tri_status tri_chat_learned(const tri_chat *c, const tri_chat_conversation *conversation,
                                        bool all, tri_chat_text *out);

/* Appends a JSON object for tri_chat_opt: the variables of `kwargs` (NULL: none) with those of given [n],
 * each NAME=VALUE, in their place; nothing where there are none. flag: what gives them, for messages.
 * TRI_EARG. */
TRI_CHECKED tri_status tri_chat_put_kwargs(const char *kwargs, const char *const *given, int n,
                                           const char *flag, tri_text *out);

#endif
