/* chat.h - conversations as text, as the templates that models learned with write them. */
#ifndef TRI_CHAT_H
#define TRI_CHAT_H

#include "base/base.h"

/* In the order of the words of data.chat_template. AUTO: the model's own. Those behind NONE are rows of
 * chat_forms.c, in their order. */
typedef enum {
  TRI_CHAT_AUTO,
  TRI_CHAT_NONE,
  TRI_CHAT_CHATML,
  TRI_CHAT_LLAMA2,
  TRI_CHAT_LLAMA3,
  TRI_CHAT_MISTRAL,
  TRI_CHAT_QWEN2_5,
  TRI_CHAT_QWEN3,
  TRI_CHAT_GEMMA,
  TRI_CHAT_ZEPHYR
} tri_chat_choice;

#define TRI_CHAT_WORDS "auto|none|chatml|llama2|llama3|mistral|qwen2.5|qwen3|gemma|zephyr"

typedef enum { TRI_CHAT_SYSTEM, TRI_CHAT_USER, TRI_CHAT_ASSISTANT, TRI_CHAT_SPEAKERS } tri_chat_speaker;

typedef struct tri_chat_message {
  tri_chat_speaker by;
  const char      *text; /* [n] UTF-8, which may hold NUL; borrowed */
  size_t           n;
} tri_chat_message;

/* Bytes begin .. end - 1 of a rendered conversation: what the assistant says, its end token included. */
typedef struct tri_chat_turn {
  size_t begin, end;
} tri_chat_turn;

/* A rendered conversation. Zero-initialise; tri_chat_text_free leaves it zeroed. */
typedef struct tri_chat_text {
  tri_text       text;
  tri_chat_turn *turn; /* [n_turn] in their order */
  int64_t        n_turn, cap;
  bool           system_left_out; /* the template does not show the system's message here */
} tri_chat_text;
void tri_chat_text_free(tri_chat_text *t);

/* What a model brings, borrowed during the call that takes it; bytes NULL: it has no such file. */
typedef struct tri_chat_files {
  const char *model; /* for messages */
  const char *config;
  size_t      config_bytes; /* of tokenizer_config.json */
  const char *jinja;
  size_t      jinja_bytes; /* of chat_template.jinja, which goes before the template in the other */
} tri_chat_files;

/* Read-only once open. Close accepts NULL. Not collective, all that follow. */
typedef struct tri_chat tri_chat;

/* AUTO of a model whose template is not known, or that has none, is no failure here: tri_chat_render says it
 * of the first conversation. from_deck: messages name the deck's key. */
TRI_CHECKED tri_status tri_chat_open(tri_chat_choice choice, const tri_chat_files *files, bool from_deck,
                                     tri_chat **out);
void                   tri_chat_close(tri_chat **c);
/* Whether the model has a template of its own, be it known or not; *broken: its tokenizer_config.json is not
 * JSON. */
bool tri_chat_brings(const tri_chat_files *files, bool *broken);
/* The template's name and the text of the token that ends a turn; NULL where none is known. */
const char *tri_chat_name(const tri_chat *c);
const char *tri_chat_end(const tri_chat *c);

/* The template in the language of transformers (Jinja), with the tokens it was opened with, appended to out:
 * nothing where it has no name that can be given. */
TRI_CHECKED tri_status tri_chat_template(const tri_chat *c, tri_text *out);

/* The conversation into *out, whose content is replaced; prompt: with what precedes the assistant's next
 * turn. As transformers' apply_chat_template renders it. TRI_EINPUT, with no place: the template cannot write
 * such a conversation, or none is known. */
TRI_CHECKED tri_status tri_chat_render(const tri_chat *c, const tri_chat_message *m, int n, bool prompt,
                                       tri_chat_text *out);

#endif
