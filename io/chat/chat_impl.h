/* chat_impl.h - the state of an open template. Private to its room. Not collective, all that follow, unless
 * they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CHAT_IMPL_H
#define TRI_CHAT_IMPL_H

#include <jansson.h>

#include "chat.h"
#include "io/jinja/jinja.h"

/* A named template. The table is in chat_forms.c, written by CMake from io/chat/forms. It ends with a NULL
 * name. */
typedef struct tri_chat_form {
  const char *name;
  const char *text; /* NUL-terminated */
} tri_chat_form;
extern const tri_chat_form tri_chat_forms[];

/* A template: its text and the program made from it. */
typedef struct tri_chat_source {
  tri_jinja *jinja; /* NULL: there is no template */
  tri_text   text;
} tri_chat_source;

enum { TRI_CHAT_ENDS = 2 }; /* an inner turn, and the last turn */

struct tri_chat {
  tri_chat_source main, tool_use; /* tool_use: for conversations with tools, empty in most models */
  char           *name;
  /* The message to fail with if `main` has no template. */
  char       *why;
  char       *date;       /* or NULL */
  char       *system;     /* or NULL */
  const char *system_key; /* a literal */
  json_t     *tokens;     /* template variables: the special tokens by name */
  json_t     *kwargs;     /* NULL: none */
  json_t     *tools;      /* NULL: none */
  /* For other programs: statements that set tokens the model's files do not name. */
  tri_text given;
  tri_text end[TRI_CHAT_ENDS]; /* empty: not found */
  size_t   end_token;          /* offset of the last token in the end of the last turn */
  /* The text a generation prompt adds to a user message. Empty: not found. */
  tri_text prompt;
};

/* chat_own.c. Takes the model's own templates into c. If there is none, c->why gets the reason, followed by
 * `cure`. */
TRI_CHECKED tri_status tri_chat_take_own(const tri_chat_files *files, const char *cure, tri_chat *c);
/* Takes the special tokens of the model's files into c->tokens. */
TRI_CHECKED tri_status tri_chat_take_tokens(const tri_chat_files *files, tri_chat *c);
/* Says if tokenizer_config.json gives null for a token. A missing key is not null. */
bool tri_chat_denies(const tri_chat_files *files, const char *token);
/* Takes text [n] as the template of a source. TRI_EINPUT, with "line N: ": it is no template. */
TRI_CHECKED tri_status tri_chat_parse(const char *text, size_t n, tri_chat_source *out);

/* chat_write.c. Runs the template on `messages` as they are. Tools and variables come from `conversation`. */
TRI_CHECKED tri_status tri_chat_run(const tri_chat *c, const tri_chat_conversation *conversation,
                                    const json_t *messages, bool prompt, tri_jinja_text *out);
/* Works as tri_chat_write. `marks` must be zeroed. It gets the spans marked by the template, and no text. */
TRI_CHECKED tri_status tri_chat_write_with(const tri_chat *c, const tri_chat_conversation *conversation,
                                           bool prompt, tri_chat_text *out, tri_jinja_text *marks);
/* Returns the first n messages of a list as a new reference. */
TRI_CHECKED tri_status tri_chat_front(const json_t *messages, size_t n, json_t **out);
bool                   tri_chat_is_answer(const json_t *message);
/* Returns the index of the last part with a text. SIZE_MAX: there is none, or content is no list. */
size_t tri_chat_last_part(const json_t *content);
/* Finds the text of a message, or of its last part with a text. Reasoning (</think>) and white space around
 * it are skipped. *text [*n] is borrowed. false: there is no text. */
bool tri_chat_text_of(const json_t *message, const char **text, size_t *n);
/* Returns the length of text [n] without the white space at its end. Pure. */
size_t tri_chat_strip_end(const char *text, size_t n);
/* Returns the template that writes this conversation. */
const tri_chat_source *tri_chat_source_of(const tri_chat *c, const tri_chat_conversation *conversation);

/* chat_ends.c. Finds the ends of turns (c->end) and the generation prompt (c->prompt). */
TRI_CHECKED tri_status tri_chat_find_ends(tri_chat *c);
/* Works as memmem. Returns the first place of what [m] in text [n] at or after `from`. SIZE_MAX: none.
 * Pure. */
size_t tri_chat_find(const char *text, size_t n, size_t from, const char *what, size_t m);

#endif
