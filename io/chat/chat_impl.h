/* chat_impl.h - what an open template holds. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CHAT_IMPL_H
#define TRI_CHAT_IMPL_H

#include <jansson.h>

#include "chat.h"
#include "io/jinja/jinja.h"

/* A text of ours. forms.c, which CMake writes from io/chat/forms, has the list, which ends with a name that
 * is NULL. */
typedef struct tri_chat_form {
  const char *name;
  const char *text; /* NUL-terminated */
} tri_chat_form;
extern const tri_chat_form tri_chat_forms[];

/* A template with what it is called. */
typedef struct tri_chat_source {
  tri_jinja *jinja; /* NULL: there is none */
  tri_text   text;
} tri_chat_source;

enum { TRI_CHAT_ENDS = 2 }; /* a turn inside, and the last one */

struct tri_chat {
  tri_chat_source main, tool_use; /* the second: of a model that has one for conversations with tools */
  char           *name;
  char           *why;        /* main has no template: the message that says it */
  char           *date;       /* or NULL */
  char           *system;     /* or NULL */
  const char     *system_key; /* a literal */
  json_t         *tokens;     /* variables: the special tokens by their names */
  json_t         *kwargs;     /* NULL: none */
  json_t         *tools;      /* NULL: none */
  tri_text        given;      /* for other programs: what sets tokens that the model's files do not name */
  tri_text        end[TRI_CHAT_ENDS]; /* empty: not found */
  size_t          end_token;          /* where in the last of them the last token begins */
  tri_text        prompt; /* what a generation prompt adds to a message of the user; empty: not found */
};

/* chat_own.c. Not collective. The model's own templates into c, or the reason why there is none into c->why,
 * with `cure` behind it. */
TRI_CHECKED tri_status tri_chat_take_own(const tri_chat_files *files, const char *cure, tri_chat *c);
/* Not collective. The special tokens of the model's files into c->tokens. */
TRI_CHECKED tri_status tri_chat_take_tokens(const tri_chat_files *files, tri_chat *c);
/* Not collective. "null" of a token is more than silence: whether tokenizer_config.json says it. */
bool tri_chat_denies(const tri_chat_files *files, const char *token);
/* Not collective. text [n] as the template of a source. TRI_EINPUT, with "line N: ": it is none. */
TRI_CHECKED tri_status tri_chat_parse(const char *text, size_t n, tri_chat_source *out);

/* chat_write.c. Not collective. Messages first .. first + n - 1 of a conversation, as they are. */
TRI_CHECKED tri_status tri_chat_run(const tri_chat *c, const tri_chat_conversation *conversation,
                                    const json_t *messages, bool prompt, tri_jinja_text *out);
/* Not collective. As tri_chat_write; marks: zeroed, gets the pieces that the template marks, and no text. */
TRI_CHECKED tri_status tri_chat_write_with(const tri_chat *c, const tri_chat_conversation *conversation,
                                           bool prompt, tri_chat_text *out, tri_jinja_text *marks);
/* The first n messages of a list; a new reference. */
TRI_CHECKED tri_status tri_chat_front(const json_t *messages, size_t n, json_t **out);
bool                   tri_chat_is_answer(const json_t *message);
/* The last part of a content that has a text; SIZE_MAX: none, or it is no list. */
size_t tri_chat_last_part(const json_t *content);
/* The text of a message, of its last part if it has parts, behind its thoughts (</think>) and without white
 * space around it: *text [*n], borrowed. false: it has none. */
bool tri_chat_text_of(const json_t *message, const char **text, size_t *n);
/* Bytes without the white space at the end of text [n]. Pure. */
size_t tri_chat_strip_end(const char *text, size_t n);
/* Which template a conversation is written with. */
const tri_chat_source *tri_chat_source_of(const tri_chat *c, const tri_chat_conversation *conversation);

/* chat_ends.c. Not collective. The ends of a turn into c->end, the generation prompt into c->prompt. */
TRI_CHECKED tri_status tri_chat_find_ends(tri_chat *c);
/* memmem: the first place of what [m] in text [n] at or behind `from`; SIZE_MAX: none. Pure. */
size_t tri_chat_find(const char *text, size_t n, size_t from, const char *what, size_t m);

#endif
