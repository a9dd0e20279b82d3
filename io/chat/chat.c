/* chat.c - a chat template opened: named, or the model's own. */
#include "chat.h"
#include "chat_impl.h"

#include <stdio.h>
#include <string.h>

enum { CURE_BYTES = 256 }; /* chosen: of a message */

/* The names that can be given. */
static void write_cure(bool from_deck, char *out, size_t bytes) {
  int at =
      snprintf(out, bytes, "%s", from_deck ? "name one: data.chat_template: " : "name one: --chat-template ");

  for (int i = TRI_CHAT_NONE + 1; i <= TRI_CHAT_ZEPHYR && at < (int)bytes; i++)
    at += snprintf(out + at, bytes - (size_t)at, "%s%s", i > TRI_CHAT_NONE + 1 ? "|" : "",
                   tri_chat_form_at(i)->name);
}

static bool writes_eos(const tri_chat_form *f) {
  return f->tail[TRI_CHAT_ASSISTANT] && strstr(f->tail[TRI_CHAT_ASSISTANT], TRI_CHAT_EOS);
}

/* A turn must end. */
static tri_status check_end(tri_chat *c, const char *model, const char *cure) {
  tri_text   text = {0};
  tri_status st;

  if (!writes_eos(c->form) || *c->eos) return TRI_OK;
  st = tri_text_printf(&text,
                       "%s: the chat template %s ends a turn with the end token, and tokenizer_config.json "
                       "has no eos_token; %s",
                       model, c->form->name, cure);
  if (st == TRI_OK) st = tri_copy_text(text.data, &c->why);
  tri_text_free(&text);
  c->form = NULL;
  return st;
}

tri_status tri_chat_open(tri_chat_choice choice, const tri_chat_files *files, bool from_deck,
                         tri_chat **out) {
  char       cure[CURE_BYTES];
  int        form = (int)choice;
  tri_status st = TRI_OK;
  tri_chat  *c = NULL;

  *out = NULL;
  write_cure(from_deck, cure, sizeof cure);
  TRI_TRY_DONE(TRI_ALLOC(c, 1));
  if (choice == TRI_CHAT_AUTO) TRI_TRY_DONE(tri_chat_recognise(files, cure, &form, &c->why));
  if (choice == TRI_CHAT_NONE)
    TRI_TRY_DONE(tri_copy_text(from_deck ? "no chat template is wanted (data.chat_template: none)"
                                         : "no chat template is wanted (--chat-template none)",
                               &c->why));
  if (form > TRI_CHAT_NONE) {
    c->form = tri_chat_form_at(form);
    TRI_TRY_DONE(tri_chat_read_token(files, "bos_token", c->form->bos, &c->bos));
    TRI_TRY_DONE(tri_chat_read_token(files, "eos_token", c->form->eos, &c->eos));
    TRI_TRY_DONE(check_end(c, files->model, cure));
  }
done:
  if (st != TRI_OK) tri_chat_close(&c);
  *out = c;
  return st;
}

void tri_chat_close(tri_chat **c) {
  if (!*c) return;
  TRI_FREE((*c)->bos);
  TRI_FREE((*c)->eos);
  TRI_FREE((*c)->why);
  TRI_FREE(*c);
}

const char *tri_chat_name(const tri_chat *c) { return c->form ? c->form->name : NULL; }

const char *tri_chat_end(const tri_chat *c) {
  const char *tail = c->form ? c->form->tail[TRI_CHAT_ASSISTANT] : NULL;

  return tail && writes_eos(c->form) ? c->eos : tail;
}
