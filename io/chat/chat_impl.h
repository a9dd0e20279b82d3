/* chat_impl.h - the forms of chat templates, and what an open one holds. Private to its room. */
#ifndef TRI_CHAT_IMPL_H
#define TRI_CHAT_IMPL_H

#include "chat.h"

/* What a form does with a conversation. */
enum {
  TRI_CHAT_TRIMS_SYSTEM = 1 << TRI_CHAT_SYSTEM, /* a text loses the white space around it (Python's strip) */
  TRI_CHAT_TRIMS_USER = 1 << TRI_CHAT_USER,
  TRI_CHAT_TRIMS_ASSISTANT = 1 << TRI_CHAT_ASSISTANT,
  TRI_CHAT_TRIMS_JOINED = 1 << 3, /* the user's after the system's was put before it */
  TRI_CHAT_ALTERNATES = 1 << 4,   /* user, assistant, user, ... behind the system's */
  TRI_CHAT_IN_FIRST = 1 << 5,     /* the system's message stands first, and is written into the user's next */
  TRI_CHAT_IN_LAST = 1 << 6,      /* the same, but into the last message, where that is the user's */
  TRI_CHAT_NO_SYSTEM = 1 << 7,    /* there can be none */
  TRI_CHAT_THINKS = 1 << 8        /* an answer has thoughts (chat_think.c) */
};
#define TRI_CHAT_TRIMS (TRI_CHAT_TRIMS_SYSTEM | TRI_CHAT_TRIMS_USER | TRI_CHAT_TRIMS_ASSISTANT)

/* In the texts of a form \1 stands for the begin token and \2 for the end token. */
#define TRI_CHAT_BOS "\1"
#define TRI_CHAT_EOS "\2"

/* A conversation is `begin`; for each message head, text, tail and rest; `prompt`. The assistant's turn,
 * which is learned, is lead, text and tail. */
typedef struct tri_chat_form {
  const char *name;
  const char *begin;
  const char *head[TRI_CHAT_SPEAKERS], *lead, *tail[TRI_CHAT_SPEAKERS], *rest;
  const char *prompt;
  const char *system; /* the text of the system's message where there is none; NULL: none */
  const char *system_head, *system_tail; /* around a system's message that is written into the user's */
  const char *bos, *eos;                 /* where tokenizer_config.json says none; NULL: it has none either */
  unsigned    rules;                     /* TRI_CHAT_* above */
} tri_chat_form;

/* Those of tri_chat_choice behind TRI_CHAT_NONE, then those that only a model's own template names. */
enum { TRI_CHAT_NAMED = TRI_CHAT_ZEPHYR - TRI_CHAT_NONE };
enum {
  TRI_CHAT_GEMMA2 = TRI_CHAT_ZEPHYR + 1,
  TRI_CHAT_QWEN2,
  TRI_CHAT_QWEN2_5_BASE,
  TRI_CHAT_QWEN2_5_MATH,
  TRI_CHAT_QWEN3_2507,
  TRI_CHAT_LAST
};
const tri_chat_form *tri_chat_form_at(int choice);

struct tri_chat {
  const tri_chat_form *form; /* NULL: none is known; `why` says it */
  char                *bos, *eos;
  char                *why;
};

/* chat_own.c. Not collective. The form that a model's own template is: which of the choices above, or 0 with
 * the reason in *why, to be freed, and how to go on: `cure`. */
TRI_CHECKED tri_status tri_chat_recognise(const tri_chat_files *files, const char *cure, int *choice,
                                          char **why);
/* A token of tokenizer_config.json, "bos_token", to be freed; the other text (a copy) where the file says
 * nothing, "" where it says null. */
TRI_CHECKED tri_status tri_chat_read_token(const tri_chat_files *files, const char *key, const char *other,
                                           char **out);

/* chat_think.c. Not collective. The user's last message that is not the answer of a tool; the last of all
 * where there is none. */
int tri_chat_last_question(const tri_chat_message *m, int n);
/* Not collective. The text of an answer, with its thoughts where it is behind that message (asked) and is the
 * last one or has some. */
TRI_CHECKED tri_status tri_chat_put_thinking(const tri_chat_message *m, bool asked, bool last, tri_text *out);

#endif
