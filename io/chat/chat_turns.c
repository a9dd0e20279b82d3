/* chat_turns.c - finds the spans of a written conversation to learn. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "chat_impl.h"

#include <string.h>

static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/* The state of the search for turns in one conversation. */
typedef struct search {
  const tri_chat              *c;
  const tri_chat_conversation *conversation;
  tri_chat_text               *out;   /* the whole conversation */
  tri_jinja_text               front; /* the first messages, written alone */
  /* [messages] The offset after the text of each answer. SIZE_MAX: not known. */
  size_t *content;
  /* [messages] The same for every message. NULL: not looked for. */
  size_t *every;
} search;

static size_t common(const tri_text *a, const tri_text *b) {
  size_t n = a->len < b->len ? a->len : b->len, i = 0;

  while (i < n && a->data[i] == b->data[i]) i++;
  while (i < n && i > 0 && ((unsigned char)a->data[i] & 0xc0) == 0x80) i--; /* keep UTF-8 characters whole */
  return i;
}

static tri_status put_turn(tri_chat_text *out, size_t begin, size_t end) {
  TRI_TRY(TRI_GROW(out->turn, out->cap, out->n_turn + 1));
  out->turn[out->n_turn++] = (tri_chat_turn){begin, end};
  return TRI_OK;
}

/* Writes the first k messages into s->front. */
static tri_status write_front(search *s, size_t k, bool prompt) {
  json_t    *messages;
  tri_status st;

  TRI_TRY(tri_chat_front(s->conversation->messages, k, &messages));
  st = tri_chat_run(s->c, s->conversation, messages, prompt, &s->front);
  json_decref(messages);
  return st;
}

#define TEMPLATE                                                                                             \
  "Use a template with {% generation %} around the turns (data.chat_template: FILE.jinja, such as "          \
  "TRL's trl/chat_templates/NAME_training.jinja)"

/* Returns the cure for an ambiguous turn k. TRL publishes templates with marks for most models. If k is not
 * the last answer, learning only the last answer may work too. */
static const char *cure_of(const search *s, size_t k) {
  size_t last = json_array_size(s->conversation->messages);

  while (last > 0 && !tri_chat_is_answer(json_array_get(s->conversation->messages, last - 1))) last--;
  return k + 1 < last ? TEMPLATE ", or learn only the last answer (data.train_on: last)" : TEMPLATE;
}

static tri_status fail_begin(const search *s, size_t k) {
  TRI_FAIL(
      TRI_EINPUT,
      "message %zu: the begin of this assistant turn is ambiguous. The chat template %s writes the messages "
      "before it differently once the turn follows. %s",
      k + 1, s->c->name, cure_of(s, k));
}

/* Finds the first turn of a conversation without a message before it. It begins after the first generation
 * prompt in the text. */
static tri_status find_first_begin(const search *s, size_t *begin) {
  const tri_text *t = &s->out->text, *p = &s->c->prompt;
  size_t          limit = s->content[0] != SIZE_MAX ? s->content[0] : t->len;
  size_t          at = p->len ? tri_chat_find(t->data, limit, 0, p->data, p->len) : SIZE_MAX;

  if (at == SIZE_MAX) return fail_begin(s, 0);
  *begin = at + p->len;
  return TRI_OK;
}

/* Finds the begin of the turn of message k. It is the end of the text before it, written with a generation
 * prompt. If the prompt says more than the turn does (it opens a reasoning block the turn lacks), the turn
 * begins at their first difference. That place must not lie inside the text before the turn. */
static tri_status find_begin(search *s, size_t k, size_t *begin) {
  size_t shared;

  if (!k) return find_first_begin(s, begin);
  TRI_TRY(write_front(s, k, true));
  shared = common(&s->front.text, &s->out->text);
  *begin = shared;
  if (shared == s->front.text.len) return TRI_OK;
  TRI_TRY(write_front(s, k, false));
  if (common(&s->front.text, &s->out->text) == s->front.text.len && shared >= s->front.text.len)
    return TRI_OK;
  return fail_begin(s, k);
}

/* ---- where texts of answers end ---- */

/* Writes a mark for message k. It has no letter of any language and no white space. */
static int write_mark(size_t k, char out[64]) { return snprintf(out, 64, "\xee\x80\x80%zu\xee\x80\x81", k); }

/* Returns the text with the mark of message k after it. NULL: there is no text, the text has a mark, or
 * memory ran out. */
static json_t *marked_text(const json_t *content, size_t k) {
  const char *text = json_string_value(content);
  size_t      n = json_string_length(content);
  char        mark[64];
  int         m = write_mark(k, mark);
  tri_text    t = {0};
  json_t     *out = NULL;

  while (n && is_space(text[n - 1])) n--; /* templates may strip white space there */
  if (!text || !n || tri_chat_find(text, n, 0, mark, 3) != SIZE_MAX) return NULL;
  if (tri_text_put(&t, text, n) == TRI_OK && tri_text_put(&t, mark, (size_t)m) == TRI_OK &&
      tri_text_put(&t, text + n, json_string_length(content) - n) == TRI_OK)
    out = json_stringn(t.data, t.len);
  tri_text_free(&t);
  return out;
}

/* Returns a copy of an object or list with one value replaced. Takes over the reference to the value. NULL:
 * there is no value, or memory ran out. */
static json_t *with_field(const json_t *object, const char *key, json_t *value) {
  json_t *out = value ? json_copy((json_t *)(uintptr_t)object) : NULL;

  if (out && !json_object_set(out, key, value)) {
    json_decref(value);
    return out;
  }
  json_decref(out);
  json_decref(value);
  return NULL;
}

static json_t *with_item(const json_t *list, size_t i, json_t *value) {
  json_t *out = value ? json_copy((json_t *)(uintptr_t)list) : NULL;

  if (out && !json_array_set(out, i, value)) {
    json_decref(value);
    return out;
  }
  json_decref(out);
  json_decref(value);
  return NULL;
}

/* Returns message k with its mark after its text. In a list of parts, this is the last part with a text. NULL
 * as in marked_text. */
static json_t *marked(const json_t *message, size_t k) {
  const json_t *content = json_object_get(message, "content");
  size_t        i = tri_chat_last_part(content);
  const json_t *last = json_array_get(content, i);
  json_t       *part;

  if (i == SIZE_MAX) return with_field(message, "content", marked_text(content, k));
  part = with_field(last, "text", marked_text(json_object_get(last, "text"), k));
  return with_field(message, "content", with_item(content, i, part));
}

/* Removes the marks from a text and stores the offset of each in `content`. */
static void take_marks(tri_text *t, size_t n_message, size_t *content) {
  size_t at = 0, to = 0, from = 0;
  char   mark[64];

  for (size_t k = 0; k < n_message; k++) {
    int m = write_mark(k, mark);
    if (!content[k]) continue; /* it has no mark */
    at = tri_chat_find(t->data, t->len, from, mark, (size_t)m);
    content[k] = SIZE_MAX;
    if (at == SIZE_MAX) continue;
    memmove(t->data + to, t->data + from, at - from);
    to += at - from;
    from = at + (size_t)m;
    content[k] = to;
  }
  memmove(t->data + to, t->data + from, t->len - from);
  t->len = to + t->len - from;
}

/* Writes the conversation again with a mark after the text of each answer, or of every message. If the texts
 * differ in more than the marks, all offsets stay unknown. */
static tri_status find_contents(const search *s, bool every, size_t **out) {
  size_t         n = json_array_size(s->conversation->messages), *content = NULL;
  tri_jinja_text t = {.n_span = 0};
  json_t        *messages = NULL;
  tri_status     st = TRI_OK;

  TRI_TRY(TRI_ALLOC(content, n));
  *out = content;
  TRI_TRY(tri_chat_front(s->conversation->messages, n, &messages));
  for (size_t k = 0; k < n; k++) {
    const json_t *m = json_array_get(s->conversation->messages, k);
    json_t       *other = every || tri_chat_is_answer(m) ? marked(m, k) : NULL;
    content[k] = other != NULL;
    if (other && json_array_set_new(messages, k, other))
      TRI_FAIL_DONE(TRI_ENOMEM, "the host has no memory left");
  }
  st = tri_chat_run(s->c, s->conversation, messages, false, &t);
  if (st == TRI_EINPUT) {
    tri_error_clear();
    st = TRI_OK;
    t.text.len = 0;
  }
  if (t.text.len) take_marks(&t.text, n, content);
  bool same =
      t.text.len == s->out->text.len && (!t.text.len || !memcmp(t.text.data, s->out->text.data, t.text.len));
  for (size_t k = 0; k < n; k++)
    if (!same || !content[k]) content[k] = SIZE_MAX;
done:
  json_decref(messages);
  tri_jinja_text_free(&t);
  return st;
}

/* ---- where turns begin and end ---- */

enum { EACH_TURN = 16 }; /* chosen, few enough to write the front of each turn */

/* Finds the begin of the turn of message k by the generation prompt after the text of the message before it.
 * SIZE_MAX: no prompt is there. */
static size_t find_prompt_behind(const search *s, size_t k) {
  const tri_text *t = &s->out->text, *p = &s->c->prompt;
  size_t          at, limit = s->every[k] != SIZE_MAX ? s->every[k] : t->len;

  if (!k || !p->len || s->every[k - 1] == SIZE_MAX) return SIZE_MAX;
  at = tri_chat_find(t->data, limit, s->every[k - 1], p->data, p->len);
  return at == SIZE_MAX ? at : at + p->len;
}

/* Finds where turns begin. Writing the front of every turn would take quadratic time in long conversations.
 * There only turns 1, 2, 4, 8, ... and the last are found so. The others begin after the generation prompt in
 * front of them. */
static tri_status find_begins(search *s, size_t first, int64_t n_answer) {
  size_t  n = json_array_size(s->conversation->messages), begin = 0;
  int64_t i = 0;

  if (n_answer > EACH_TURN) TRI_TRY(find_contents(s, true, &s->every));
  for (size_t k = first; k < n; k++) {
    if (!tri_chat_is_answer(json_array_get(s->conversation->messages, k))) continue;
    i++;
    begin = s->every && (i & (i - 1)) && i < n_answer ? find_prompt_behind(s, k) : SIZE_MAX;
    if (begin == SIZE_MAX) TRI_TRY(find_begin(s, k, &begin));
    TRI_TRY(put_turn(s->out, begin, begin));
  }
  return TRI_OK;
}

/* Finds the end of the turn of message k. It is the first end token after the text of the answer, between
 * `begin` and `limit`. */
static tri_status find_end_of(search *s, size_t k, size_t begin, size_t limit, size_t *end) {
  const tri_text *t = &s->out->text;
  bool            last = k + 1 == json_array_size(s->conversation->messages);
  size_t          from = s->content[k] != SIZE_MAX && s->content[k] > begin ? s->content[k] : begin;
  size_t          found = SIZE_MAX;

  *end = 0;
  for (int i = 0; i < TRI_CHAT_ENDS; i++) { /* the first one, and at one place the longer */
    const tri_text *e = &s->c->end[i];
    size_t          at = e->len ? tri_chat_find(t->data, limit, from, e->data, e->len) : SIZE_MAX;
    if (at == SIZE_MAX || at > found || (at == found && at + e->len < *end)) continue;
    found = at;
    *end = at + e->len;
  }
  if (found != SIZE_MAX) return TRI_OK;
  if (last) {
    *end = t->len;
    return TRI_OK;
  }
  TRI_TRY(write_front(s, k + 1, false));
  *end = s->front.text.len;
  if (common(&s->front.text, t) == *end && *end >= begin) return TRI_OK;
  TRI_FAIL(TRI_EINPUT,
           "message %zu: the end of this assistant turn is ambiguous. The chat template %s writes no end "
           "token after it. %s",
           k + 1, s->c->name, cure_of(s, k));
}

/* Finds all turns from message `first` on. */
static tri_status find_turns(search *s, size_t first) {
  size_t  n = json_array_size(s->conversation->messages), limit = s->out->text.len;
  int64_t i = 0;

  for (size_t k = first; k < n; k++) i += tri_chat_is_answer(json_array_get(s->conversation->messages, k));
  TRI_TRY(find_contents(s, false, &s->content));
  TRI_TRY(find_begins(s, first, i));
  for (size_t k = n; k-- > first;) { /* a turn ends before the next one begins */
    if (!tri_chat_is_answer(json_array_get(s->conversation->messages, k))) continue;
    tri_chat_turn *turn = &s->out->turn[--i];
    TRI_TRY(find_end_of(s, k, turn->begin, limit, &turn->end));
    limit = turn->begin;
  }
  return TRI_OK;
}

/* ---- marks ---- */

/* Takes the spans that the template marks. Without `all`, it takes those of the last turn. They end after the
 * common prefix of the whole conversation and the conversation before message `last`. */
static tri_status take_pieces(search *s, const tri_jinja_text *whole, bool all, size_t last) {
  size_t shared = 0;

  if (!all && last) {
    TRI_TRY(write_front(s, last, false));
    shared = common(&s->front.text, &s->out->text);
  }
  for (int64_t i = 0; i < whole->n_span; i++) {
    size_t begin = whole->span[i].begin, end = whole->span[i].end;
    if (end > s->out->text.len) end = s->out->text.len; /* a macro may mark text that was never written */
    if (end > shared && end > begin) TRI_TRY(put_turn(s->out, begin, end));
  }
  return TRI_OK;
}

/* Returns the index of the last assistant message. SIZE_MAX: none. */
static size_t last_answer(const json_t *messages) {
  for (size_t k = json_array_size(messages); k-- > 0;)
    if (tri_chat_is_answer(json_array_get(messages, k))) return k;
  return SIZE_MAX;
}

/* Says if the learned text ends with the text of the last answer, so that no end token is learned. */
static bool is_endless(const tri_chat_text *t, const json_t *answer) {
  const char *text;
  size_t      n, end;

  if (!t->n_turn || !tri_chat_text_of(answer, &text, &n)) return false;
  end = tri_chat_strip_end(t->text.data, t->turn[t->n_turn - 1].end);
  return end >= n && end - n >= t->turn[t->n_turn - 1].begin && !memcmp(t->text.data + end - n, text, n);
}

tri_status tri_chat_learned(const tri_chat *c, const tri_chat_conversation *conversation, bool all,
                            tri_chat_text *out) {
  search         s = {.c = c, .conversation = conversation, .out = out};
  size_t         last = last_answer(conversation->messages);
  tri_jinja_text marks = {.n_span = 0};
  tri_status     st = TRI_OK;

  TRI_TRY_DONE(tri_chat_write_with(c, conversation, false, out, &marks));
  if (last == SIZE_MAX) goto done;
  if (tri_jinja_marks(tri_chat_source_of(c, conversation)->jinja))
    TRI_TRY_DONE(take_pieces(&s, &marks, all, last));
  else
    TRI_TRY_DONE(find_turns(&s, all ? 0 : last));
  out->endless = is_endless(out, json_array_get(conversation->messages, last));
done:
  tri_jinja_text_free(&marks);
  tri_jinja_text_free(&s.front);
  TRI_FREE(s.content);
  TRI_FREE(s.every);
  return st;
}
