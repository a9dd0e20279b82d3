/* chat_write.c - writes a conversation with its template. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "chat_impl.h"

#include <string.h>

/* ---- messages ---- */

static tri_status fail_memory(void) {
  TRI_FAIL(TRI_ENOMEM, "the host has no memory left for a conversation");
}

bool tri_chat_is_answer(const json_t *message) {
  const char *role = json_string_value(json_object_get(message, "role"));

  return role && !strcmp(role, "assistant");
}

/* Returns the reasoning of a message, under the first of its three names. */
static json_t *thoughts_of(const json_t *message) {
  static const char *const name[] = {"reasoning_content", "thinking", "reasoning"};

  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    json_t *v = json_object_get(message, name[i]);
    if (v && !json_is_null(v)) return v;
  }
  return NULL;
}

static bool has_null(json_t *message) {
  const char *key;
  json_t     *value;

  json_object_foreach(message, key, value) {
    if (json_is_null(value)) return true;
  }
  return false;
}

tri_status tri_chat_message(const json_t *message, json_t **out) {
  json_t     *from = (json_t *)(uintptr_t)message, *thoughts = thoughts_of(message), *value;
  const char *key;
  int         bad = 0;

  *out = NULL;
  if (!thoughts && !has_null(from)) {
    *out = json_incref(from);
    return TRI_OK;
  }
  json_t *made = json_object();
  if (!made) return fail_memory();
  if (thoughts)
    bad |= json_object_set(made, "thinking", thoughts); /* first, unless the message has its own */
  json_object_foreach(from, key, value) {
    if (!json_is_null(value)) bad |= json_object_set(made, key, value);
  }
  if (thoughts) bad |= json_object_set(made, "reasoning_content", thoughts);
  if (bad) {
    json_decref(made);
    return fail_memory();
  }
  *out = made;
  return TRI_OK;
}

tri_status tri_chat_front(const json_t *messages, size_t n, json_t **out) {
  *out = json_array();
  if (!*out) return fail_memory();
  for (size_t i = 0; i < n; i++)
    if (json_array_append(*out, json_array_get(messages, i))) {
      json_decref(*out);
      *out = NULL;
      return fail_memory();
    }
  return TRI_OK;
}

/* Returns the list with message i replaced, as a new reference. */
static tri_status with_message(const json_t *messages, size_t i, json_t *message, json_t **out) {
  TRI_TRY(tri_chat_front(messages, json_array_size(messages), out));
  if (!json_array_set(*out, i, message)) return TRI_OK;
  json_decref(*out);
  *out = NULL;
  return fail_memory();
}

/* ---- written ---- */

static const json_t *tools_of(const tri_chat *c, const tri_chat_conversation *conversation) {
  return conversation->tools ? conversation->tools : c->tools;
}

const tri_chat_source *tri_chat_source_of(const tri_chat *c, const tri_chat_conversation *conversation) {
  return tools_of(c, conversation) && c->tool_use.jinja ? &c->tool_use : &c->main;
}

/* Returns the template's variables as a new reference. */
static json_t *variables_of(const tri_chat *c, const tri_chat_conversation *conversation,
                            const json_t *messages, bool prompt) {
  const json_t *tools = tools_of(c, conversation);
  json_t       *v = json_copy(c->tokens);
  int           bad = !v;

  if (v && c->kwargs) bad |= json_object_update(v, c->kwargs);
  if (v && !json_object_get(v, "documents")) bad |= json_object_set_new(v, "documents", json_null());
  if (v && conversation->kwargs) bad |= json_object_update(v, (json_t *)(uintptr_t)conversation->kwargs);
  if (v) bad |= json_object_set(v, "messages", (json_t *)(uintptr_t)messages);
  if (v) bad |= json_object_set(v, "tools", tools ? (json_t *)(uintptr_t)tools : json_null());
  if (v) bad |= json_object_set_new(v, "add_generation_prompt", json_boolean(prompt));
  if (!bad) return v;
  json_decref(v);
  return NULL;
}

tri_status tri_chat_run(const tri_chat *c, const tri_chat_conversation *conversation, const json_t *messages,
                        bool prompt, tri_jinja_text *out) {
  const tri_chat_source *s = tri_chat_source_of(c, conversation);
  json_t                *variables;
  tri_text               what = {0};
  tri_status             st;

  if (c->why && s != &c->tool_use) TRI_FAIL(TRI_EINPUT, "%s", c->why);
  if (!json_array_size(messages)) TRI_FAIL(TRI_EINPUT, "%s", "a conversation without messages");
  variables = variables_of(c, conversation, messages, prompt);
  if (!variables) return fail_memory();
  st = tri_jinja_render(s->jinja, variables, c->date, out);
  json_decref(variables);
  if (st != TRI_EINPUT) return st;
  TRI_TRY(tri_text_printf(&what, "the chat template %s", c->name));
  st = tri_error_at(st, what.data);
  tri_text_free(&what);
  return st;
}

/* ---- begun answers ---- */

static const char tag[] = "CONTINUE_FINAL_MESSAGE_TAG "; /* the tag of transformers */
enum { TAG = sizeof tag - 1 };

/* Returns the text with the tag after it as a new reference, or NULL. */
static json_t *tagged(const json_t *text) {
  tri_text t = {0};
  json_t  *out = NULL;

  if (tri_text_put(&t, json_string_value(text), json_string_length(text)) == TRI_OK &&
      tri_text_put(&t, tag, TAG) == TRI_OK)
    out = json_stringn(t.data, t.len);
  tri_text_free(&t);
  return out;
}

size_t tri_chat_last_part(const json_t *content) {
  for (size_t i = json_array_size(content); i-- > 0;)
    if (json_is_string(json_object_get(json_array_get(content, i), "text"))) return i;
  return SIZE_MAX;
}

/* Returns the message with the tag after its text as a new reference. *text: that text, borrowed from the
 * message. */
static tri_status tag_message(const json_t *message, json_t **out, const json_t **text) {
  json_t *content = json_object_get(message, "content"), *parts = NULL, *part = NULL;
  size_t  at = tri_chat_last_part(content);
  int     bad;

  *out = NULL;
  *text = json_is_string(content) ? content : json_object_get(json_array_get(content, at), "text");
  if (!*text)
    TRI_FAIL(TRI_EINPUT, "%s",
             "the last message is an assistant message without text (`content`) to continue");
  *out = json_copy((json_t *)(uintptr_t)message);
  bad = !*out;
  if (!bad && json_is_string(content)) bad = json_object_set_new(*out, "content", tagged(*text));
  if (!bad && json_is_array(content)) {
    parts = json_copy(content);
    part = json_copy(json_array_get(content, at));
    bad = !parts || !part || json_object_set_new(part, "text", tagged(*text)) ||
          json_array_set(parts, at, part) || json_object_set(*out, "content", parts);
  }
  json_decref(parts);
  json_decref(part);
  if (!bad) return TRI_OK;
  json_decref(*out);
  *out = NULL;
  return fail_memory();
}

/* Returns the length of the white-space character that ends at p + n, as defined by Python's str.isspace. 0:
 * none. */
static size_t space_before(const unsigned char *p, size_t n) {
  unsigned c = n ? p[n - 1] : 0;

  if (n && (c == ' ' || (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x1f))) return 1;
  if (n >= 2 && p[n - 2] == 0xc2 && (c == 0x85 || c == 0xa0)) return 2;
  if (n < 3 || p[n - 3] < 0xe1 || p[n - 3] > 0xe3) return 0;
  c = (p[n - 3] & 0x0fu) << 12 | (p[n - 2] & 0x3fu) << 6 | (c & 0x3fu);
  return c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
                 c == 0x205f || c == 0x3000
             ? 3
             : 0;
}

size_t tri_chat_strip_end(const char *text, size_t n) {
  size_t k;

  while ((k = space_before((const unsigned char *)text, n))) n -= k;
  return n;
}

/* Returns the last place of the tag, without its space. SIZE_MAX: none. */
static size_t find_tag(const tri_text *t) {
  size_t found = SIZE_MAX;

  for (size_t at = 0; (at = tri_chat_find(t->data, t->len, at, tag, TAG - 1)) != SIZE_MAX; at++) found = at;
  return found;
}

/* Returns the length of the white space at the front. */
static size_t strip_begin(const char *text, size_t n) {
  const unsigned char *p = (const unsigned char *)text;
  size_t               at = 0, k;

  do {
    for (k = 1; k <= 3 && at + k <= n && space_before(p + at, k) != k;) k++;
    if (k > 3 || at + k > n) return at;
    at += k;
  } while (at < n);
  return at;
}

/* Cuts the text after the begun answer (transformers, render_jinja_template, continue_final_message). */
static tri_status cut_behind(tri_text *t, const json_t *begun) {
  const char *text = json_string_value(begun);
  size_t      n = json_string_length(begun), at = t->len ? find_tag(t) : SIZE_MAX, skip;

  n = tri_chat_strip_end(text, n);
  skip = strip_begin(text, n);
  if (at == SIZE_MAX || tri_chat_find(t->data, t->len, 0, text + skip, n - skip) == SIZE_MAX)
    TRI_FAIL(TRI_EINPUT, "%s",
             "the last message is an assistant message to continue, but the chat template changes its text");
  bool whole = at + TAG <= t->len && !memcmp(t->data + at, tag, TAG);
  t->len = whole ? at : tri_chat_strip_end(t->data, at);
  t->data[t->len] = 0;
  return TRI_OK;
}

static tri_status write_begun(const tri_chat *c, const tri_chat_conversation *conversation,
                              tri_jinja_text *out) {
  size_t        last = json_array_size(conversation->messages) - 1;
  json_t       *message = NULL, *messages = NULL;
  const json_t *text;
  tri_status    st = TRI_OK;

  TRI_TRY(tag_message(json_array_get(conversation->messages, last), &message, &text));
  TRI_TRY_DONE(with_message(conversation->messages, last, message, &messages));
  TRI_TRY_DONE(tri_chat_run(c, conversation, messages, false, out));
  TRI_TRY_DONE(cut_behind(&out->text, text));
done:
  json_decref(message);
  json_decref(messages);
  return st;
}

/* ---- public ---- */

size_t tri_chat_find(const char *text, size_t n, size_t from, const char *what, size_t m) {
  if (!m) return from <= n ? from : SIZE_MAX;
  for (size_t at = from; at + m <= n; at++) {
    const char *p = memchr(text + at, what[0], n - m + 1 - at);
    if (!p) return SIZE_MAX;
    at = (size_t)(p - text);
    if (!memcmp(p, what, m)) return at;
  }
  return SIZE_MAX;
}

bool tri_chat_text_of(const json_t *message, const char **text, size_t *n) {
  static const char thoughts[] = "</think>";
  const json_t     *content = json_object_get(message, "content");
  size_t            skip = 0;

  if (json_is_array(content))
    content = json_object_get(json_array_get(content, tri_chat_last_part(content)), "text");
  *text = json_string_value(content);
  if (!*text) return false;
  *n = tri_chat_strip_end(*text, json_string_length(content));
  for (size_t at = 0; (at = tri_chat_find(*text, *n, at, thoughts, sizeof thoughts - 1)) != SIZE_MAX;)
    skip = at += sizeof thoughts - 1;
  skip += strip_begin(*text + skip, *n - skip);
  *text += skip;
  *n -= skip;
  return *n > 0;
}

static bool holds(const tri_text *t, const char *text, size_t n) {
  return t->len && tri_chat_find(t->data, t->len, 0, text, n) != SIZE_MAX;
}

/* Says if the text lacks the system message. Only a system message with a plain text counts. */
static bool leaves_out_system(const tri_chat_conversation *conversation, const tri_text *t) {
  const json_t *first = json_array_get(conversation->messages, 0);
  const char   *role = json_string_value(json_object_get(first, "role")), *text;
  size_t        n;

  if (!role || strcmp(role, "system") != 0 || !json_is_string(json_object_get(first, "content")))
    return false;
  return tri_chat_text_of(first, &text, &n) && !holds(t, text, n);
}

/* Says if the text lacks the last message. Only user and assistant messages count. */
static bool leaves_out_last(const tri_chat_conversation *conversation, const tri_text *t) {
  const json_t *last = json_array_get(conversation->messages, json_array_size(conversation->messages) - 1);
  const char   *role = json_string_value(json_object_get(last, "role")), *text;
  size_t        n;

  if (!role || (strcmp(role, "user") != 0 && !tri_chat_is_answer(last))) return false;
  return tri_chat_text_of(last, &text, &n) && !holds(t, text, n);
}

static bool leaves_out_calls(const tri_chat_conversation *conversation, const tri_text *t) {
  for (size_t i = 0; i < json_array_size(conversation->messages); i++) {
    const json_t *calls = json_object_get(json_array_get(conversation->messages, i), "tool_calls");
    for (size_t k = 0; k < json_array_size(calls); k++) {
      const json_t *call = json_array_get(calls, k), *function = json_object_get(call, "function");
      const json_t *name = json_object_get(function ? function : call, "name");
      if (json_string_length(name) && !holds(t, json_string_value(name), json_string_length(name)))
        return true;
    }
  }
  return false;
}

tri_status tri_chat_write_with(const tri_chat *c, const tri_chat_conversation *conversation, bool prompt,
                               tri_chat_text *out, tri_jinja_text *marks) {
  size_t     n = json_array_size(conversation->messages);
  bool       begun = prompt && n && tri_chat_is_answer(json_array_get(conversation->messages, n - 1));
  tri_status st;

  out->n_turn = 0;
  marks->text = out->text; /* lent, to reuse its memory */
  st = begun ? write_begun(c, conversation, marks)
             : tri_chat_run(c, conversation, conversation->messages, prompt, marks);
  out->text = marks->text;
  marks->text = (tri_text){0};
  out->begun = begun;
  out->system_left_out = st == TRI_OK && leaves_out_system(conversation, &out->text);
  out->text_left_out = st == TRI_OK && n && leaves_out_last(conversation, &out->text);
  out->calls_left_out = st == TRI_OK && leaves_out_calls(conversation, &out->text);
  out->endless = false;
  return st;
}

tri_status tri_chat_write(const tri_chat *c, const tri_chat_conversation *conversation, bool prompt,
                          tri_chat_text *out) {
  tri_jinja_text marks = {.n_span = 0};
  tri_status     st = tri_chat_write_with(c, conversation, prompt, out, &marks);

  tri_jinja_text_free(&marks);
  return st;
}

tri_status tri_chat_write_text(const tri_chat *c, const char *text, tri_chat_text *out) {
  json_t               *messages = json_pack("[{ssss}]", "role", "user", "content", text);
  tri_chat_conversation conversation = {.messages = messages};
  bool                  put;
  tri_status            st;

  if (!messages) TRI_FAIL(TRI_EINPUT, "%s", "a prompt is not UTF-8");
  st = tri_chat_put_system(c, messages, &put);
  if (st == TRI_OK) st = tri_chat_blame_system(c, put, tri_chat_write(c, &conversation, true, out));
  json_decref(messages);
  return st;
}

void tri_chat_text_free(tri_chat_text *t) {
  tri_text_free(&t->text);
  TRI_FREE(t->turn);
  *t = (tri_chat_text){.n_turn = 0};
}
