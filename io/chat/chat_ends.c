/* chat_ends.c - finds how a template ends a turn and asks for one, by running it on small conversations. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "chat_impl.h"

#include <string.h>

/* Words that no template writes by itself. */
#define ASKED "qzvasked"
#define SAID  "qzvsaid"

static size_t skip_space(const char *text, size_t n, size_t at) {
  while (at < n && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r')) at++;
  return at;
}

/* Returns the length of the longest special token at the start of text [n]. 0: none. */
static size_t token_at(const tri_chat *c, const char *text, size_t n) {
  const char *key;
  json_t     *token;
  size_t      longest = 0;

  json_object_foreach(c->tokens, key, token) {
    size_t m = json_string_length(token);
    if (m > longest && m <= n && !memcmp(text, json_string_value(token), m)) longest = m;
  }
  return longest;
}

/* Returns the length of the mark at the start of text [n]. A mark is a special token, <...> or [...]. 0:
 * none. */
static size_t mark_at(const tri_chat *c, const char *text, size_t n) {
  size_t      m = token_at(c, text, n);
  char        close = n && text[0] == '<' ? '>' : n && text[0] == '[' ? ']' : 0;
  const char *end = close ? memchr(text, close, n) : NULL;

  return m ? m : end ? (size_t)(end - text) + 1 : 0;
}

/* Runs the template on messages and releases them. If the template refuses the conversation, t stays
 * empty. */
static tri_status probe(const tri_chat *c, json_t *messages, bool prompt, tri_jinja_text *t) {
  tri_chat_conversation conversation = {.messages = messages};
  tri_status            st;

  if (!messages) TRI_FAIL(TRI_ENOMEM, "the host has no memory left for a chat template");
  st = tri_chat_run(c, &conversation, messages, prompt, t);
  json_decref(messages);
  if (st != TRI_EINPUT) return st;
  tri_error_clear();
  t->text.len = 0;
  return TRI_OK;
}

/* Appends to *out the template's output after the first SAID of a conversation, without leading white
 * space. */
static tri_status find_tail(const tri_chat *c, json_t *messages, tri_text *out) {
  tri_jinja_text t = {.n_span = 0};
  tri_status     st = probe(c, messages, false, &t);
  size_t         n = t.text.len, at = n ? tri_chat_find(t.text.data, n, 0, SAID, sizeof SAID - 1) : SIZE_MAX;

  if (st == TRI_OK && at != SIZE_MAX) {
    at = skip_space(t.text.data, n, at + sizeof SAID - 1);
    st = tri_text_put(out, t.text.data + at, n - at);
  }
  tri_jinja_text_free(&t);
  return st;
}

/* Returns the length of the consecutive marks at the start of a text. With `like`, counting stops at the
 * first mark that differs from it. *last: the offset of the last mark. */
static size_t count_marks(const tri_chat *c, const tri_text *text, const tri_text *like, size_t *last) {
  size_t n = 0, m;

  while (n < text->len && (m = mark_at(c, text->data + n, text->len - n))) {
    if (like && (n + m > like->len || memcmp(text->data + n, like->data + n, m))) break;
    if (last) *last = n;
    n += m;
  }
  return n;
}

/* Says if a user turn ends with this mark too. If so, the mark does not begin a turn. */
static tri_status ends_asked(const tri_chat *c, const tri_text *mark, bool *out) {
  tri_jinja_text t = {.n_span = 0};
  tri_status     st = probe(c, json_pack("[{ssss}]", "role", "user", "content", ASKED), false, &t);
  size_t n = t.text.len, at = n ? tri_chat_find(t.text.data, n, 0, ASKED, sizeof ASKED - 1) : SIZE_MAX;

  *out = at != SIZE_MAX && tri_chat_find(t.text.data, n, at, mark->data, mark->len) != SIZE_MAX;
  tri_jinja_text_free(&t);
  return st;
}

/* Finds the text that a generation prompt adds to a user message. It stays empty if the prompt changes the
 * text before it. */
static tri_status find_prompt(tri_chat *c) {
  tri_jinja_text without = {.n_span = 0}, with = {.n_span = 0};
  tri_status     st = probe(c, json_pack("[{ssss}]", "role", "user", "content", ASKED), false, &without);
  size_t         n = without.text.len;

  if (st == TRI_OK) st = probe(c, json_pack("[{ssss}]", "role", "user", "content", ASKED), true, &with);
  if (st == TRI_OK && with.text.len > n && (!n || !memcmp(with.text.data, without.text.data, n)))
    st = tri_text_put(&c->prompt, with.text.data + n, with.text.len - n);
  tri_jinja_text_free(&without);
  tri_jinja_text_free(&with);
  return st;
}

/* Returns a question and its answer, with a second pair if `more`. Some templates want content as lists of
 * parts. */
static json_t *conversation_of(bool parts, bool more) {
  const char *list =
      more ? "[{sss[{ssss}]}{sss[{ssss}]}{sss[{ssss}]}{sss[{ssss}]}]" : "[{sss[{ssss}]}{sss[{ssss}]}]";

  if (parts)
    return json_pack(list, "role", "user", "content", "type", "text", "text", ASKED, "role", "assistant",
                     "content", "type", "text", "text", SAID, "role", "user", "content", "type", "text",
                     "text", "c", "role", "assistant", "content", "type", "text", "text", "d");
  return json_pack(more ? "[{ssss}{ssss}{ssss}{ssss}]" : "[{ssss}{ssss}]", "role", "user", "content", ASKED,
                   "role", "assistant", "content", SAID, "role", "user", "content", "c", "role", "assistant",
                   "content", "d");
}

/* Finds the end of an inner turn. It is the common front with the end of the last turn, or a mark of its
 * own. */
static tri_status find_inner(tri_chat *c, bool parts) {
  tri_text  *inner = &c->end[0], *last = &c->end[1];
  bool       ends = true;
  tri_status st = find_tail(c, conversation_of(parts, true), inner);
  size_t     n = count_marks(c, inner, last, NULL);

  if (st != TRI_OK) return st;
  if (n) {
    inner->len = n;
    return TRI_OK;
  }
  inner->len = inner->len ? mark_at(c, inner->data, inner->len) : 0;
  if (inner->len) TRI_TRY(ends_asked(c, inner, &ends));
  if (!ends) tri_text_free(inner);
  return TRI_OK;
}

tri_status tri_chat_find_ends(tri_chat *c) {
  tri_text *last = &c->end[1];
  bool      parts = false;

  TRI_TRY(find_prompt(c));
  TRI_TRY(find_tail(c, conversation_of(false, false), last));
  if (!last->len) TRI_TRY(find_tail(c, conversation_of(parts = true, false), last));
  last->len = count_marks(c, last, NULL, &c->end_token);
  if (!last->len) return TRI_OK;
  last->data[last->len] = 0;
  return find_inner(c, parts);
}
