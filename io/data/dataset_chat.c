/* dataset_chat.c - renders the conversations of lines as tokens, and marks the learned ones. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <jansson.h>
#include <string.h>

#include "dataset_foreign.h"
#include "io/text/json_text.h"

/* ---- messages ---- */

enum { MOST_NESTED = 1 << 18 }; /* as for a line */

static tri_status fail_memory(void) { TRI_FAIL(TRI_ENOMEM, "no host memory left for a conversation"); }

/* Appends a message in the form that templates get. */
static tri_status put_message(tri_line_parser *in, const json_t *message) {
  json_t *m;

  TRI_TRY(tri_chat_message(message, &m));
  return json_array_append_new(in->conversation.messages, m) ? fail_memory() : TRI_OK;
}

/* Appends a message of this role with this text. */
static tri_status put_text(tri_line_parser *in, const char *role, const json_t *text) {
  json_t    *m = json_pack("{sssO}", "role", role, "content", text);
  tri_status st = m ? put_message(in, m) : fail_memory();

  json_decref(m);
  return st;
}

/* Tells whether a value is null, empty text, an empty list, or such a list spelled as text. */
static bool is_nothing(const json_t *v) {
  const char *text = json_string_value(v);

  return !v || json_is_null(v) || (json_is_array(v) && !json_array_size(v)) ||
         (text && (!*text || !strcmp(text, "[]") || !strcmp(text, "null")));
}

/* Returns the word that marks a part of a content as no text, or NULL. Tables of parts fill the fields of
 * other kinds with null. */
static const char *find_medium(const json_t *part) {
  static const char *const medium[] = {"image",       "audio",       "video", "image_url",
                                       "input_image", "input_audio", "file"};
  const char              *type = json_string_value(json_object_get(part, "type"));

  for (size_t i = 0; i < sizeof medium / sizeof *medium; i++) {
    const json_t *v = json_object_get(part, medium[i]);
    if ((type && !strcmp(type, medium[i])) || (v && !json_is_null(v))) return medium[i];
  }
  return NULL;
}

static tri_status check_parts(const tri_line_parser *in, const json_t *content, const char *key, size_t i) {
  for (size_t k = 0; k < json_array_size(content); k++) {
    const json_t *part = json_array_get(content, k);
    const char   *medium = find_medium(part);
    if (medium)
      TRI_FAIL_LINE(in, "`%s`[%zu]: its `content` has a part of type `%s`, but only text is understood", key,
                    i, medium);
    if (!json_is_object(part) && !json_is_string(part))
      TRI_FAIL_LINE(in, "`%s`[%zu]: a part of its `content` must be {\"type\": \"text\", \"text\": \"...\"}",
                    key, i);
  }
  return TRI_OK;
}

/* Checks a message's content. It may be missing if the message has tool calls or reasoning. A tool may answer
 * with any value. */
static tri_status check_content(const tri_line_parser *in, const json_t *message, const char *key, size_t i,
                                const char *role) {
  const json_t *content = json_object_get(message, "content");
  bool          none = !content || json_is_null(content);

  if (json_is_array(content)) return check_parts(in, content, key, i);
  if (json_is_string(content) || !strcmp(role, "tool")) return TRI_OK;
  if (none && (!is_nothing(json_object_get(message, "tool_calls")) ||
               !is_nothing(json_object_get(message, "reasoning_content")) ||
               !is_nothing(json_object_get(message, "thinking")) ||
               !is_nothing(json_object_get(message, "reasoning"))))
    return TRI_OK;
  TRI_FAIL_LINE(in,
                "`%s`[%zu]: its `content` must be text, or a list of {\"type\": \"text\", \"text\": \"...\"}",
                key, i);
}

static tri_status take_message(tri_line_parser *in, const json_t *message, const char *key, size_t i) {
  const char *role = json_string_value(json_object_get(message, "role"));

  if (!json_is_object(message))
    TRI_FAIL_LINE(in, "`%s`[%zu] must be a message, {\"role\": \"user\", \"content\": \"...\"}", key, i);
  if (!role)
    TRI_FAIL_LINE(in, "`%s`[%zu] has no `role`, a message is {\"role\": \"user\", \"content\": \"...\"}", key,
                  i);
  TRI_TRY(check_content(in, message, key, i, role));
  return put_message(in, message);
}

/* Replaces `messages` given as JSON text, as in tables, by its list. */
static tri_status read_messages(tri_line_parser *in, const char *key) {
  const json_t *v = json_object_get(in->object, key);
  json_t       *list = NULL;

  if (strcmp(key, "messages") != 0 || !json_is_string(v)) return TRI_OK;
  if (tri_json_fits(json_string_value(v), json_string_length(v), MOST_NESTED))
    list = json_loadb(json_string_value(v), json_string_length(v), JSON_ALLOW_NUL, NULL);
  if (json_is_array(list)) return json_object_set_new(in->object, key, list) ? fail_memory() : TRI_OK;
  json_decref(list);
  TRI_FAIL_LINE(in, "`%s` must be a list of messages, or its JSON as text. A plain text goes under `prompt`.",
                key);
}

/* Appends a list of messages, or a text as the message of `role`. */
static tri_status take_messages(tri_line_parser *in, const char *key, const char *role) {
  TRI_TRY(read_messages(in, key));
  const json_t *v = json_object_get(in->object, key);

  if (json_is_string(v)) return put_text(in, role, v);
  if (!json_is_array(v)) TRI_FAIL_LINE(in, "`%s` must be text, or a list of messages", key);
  if (!json_array_size(v)) TRI_FAIL_LINE(in, "`%s` has no messages", key);
  for (size_t i = 0; i < json_array_size(v); i++) TRI_TRY(take_message(in, json_array_get(v, i), key, i));
  return TRI_OK;
}

/* ---- tools and template variables ---- */

/* Reads the line's own tools, a list or its JSON as text. */
static tri_status take_tools(tri_line_parser *in) {
  const char *key = tri_line_parser_tools_key(in);
  json_t     *v = json_object_get(in->object, key);

  json_decref(in->conversation.tools);
  in->conversation.tools = NULL;
  if (is_nothing(v)) return TRI_OK;
  if (json_is_string(v) && tri_json_fits(json_string_value(v), json_string_length(v), MOST_NESTED))
    in->conversation.tools = json_loadb(json_string_value(v), json_string_length(v), JSON_ALLOW_NUL, NULL);
  else
    in->conversation.tools = json_incref(v);
  bool fits = json_is_array(in->conversation.tools);
  for (size_t i = 0; fits && i < json_array_size(in->conversation.tools); i++)
    fits = json_is_object(json_array_get(in->conversation.tools, i));
  if (fits) return TRI_OK;
  TRI_FAIL_LINE(in,
                "`%s` must be a list of tools, [{\"type\": \"function\", \"function\": {\"name\": ..., "
                "\"parameters\": ...}}], or its JSON as text",
                key);
}

/* Reads the line's own variables for the template. */
static tri_status take_kwargs(tri_line_parser *in) {
  static const char *const taken[] = {"messages", "tools", "add_generation_prompt"};
  const json_t            *v = json_object_get(in->object, "chat_template_kwargs");

  in->conversation.kwargs = NULL;
  if (!v || json_is_null(v)) return TRI_OK;
  if (!json_is_object(v)) TRI_FAIL_LINE(in, "`%s` must be an object", "chat_template_kwargs");
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
    if (json_object_get(v, taken[i]))
      TRI_FAIL_LINE(in, "`chat_template_kwargs` has `%s`, but the conversation itself sets this", taken[i]);
  in->conversation.kwargs = v;
  return TRI_OK;
}

static bool is_list(const tri_line_parser *in, const char *key) {
  return json_is_array(json_object_get(in->object, key));
}

bool tri_line_parser_is_conversation(const tri_line_parser *in, const char *prompt, const char *answer) {
  bool text = json_is_string(json_object_get(in->object, prompt));

  if (is_list(in, prompt) || (answer && is_list(in, answer))) return true;
  return in->opt->chat.texts && text;
}

/* Tells whether the answer's list includes the prompt. */
static bool holds_prompt(const tri_line_parser *in, const char *answer) {
  const json_t *first = json_array_get(json_object_get(in->object, answer), 0);
  const char   *role = json_string_value(json_object_get(first, "role"));

  return role && strcmp(role, "assistant") != 0;
}

/* ---- rendering and encoding ---- */

/* Encodes the rendered bytes begin .. end - 1. The ids are borrowed. */
static tri_status encode(tri_line_parser *in, size_t begin, size_t end, const int32_t **id, int64_t *n) {
  const char *text = in->conversation.text.text.data;

  return tri_jsonl_place(
      in->r, in->opt->encode(in->opt->ctx, end > begin ? text + begin : "", end - begin, false, id, n));
}

/* Marks every token with bytes of a turn as learned (transformers 5.24, apply_chat_template,
 * return_assistant_tokens_mask). */
static void take_places(tri_line_parser *in, tri_token_buffer *buffer, const tri_text_place *place) {
  const tri_chat_text *t = &in->conversation.text;
  int64_t              k = 0;

  in->n_prompt = buffer->n;
  for (int64_t i = 0; i < buffer->n; i++) {
    while (k < t->n_turn && place[i].begin >= t->turn[k].end) k++;
    if (k == t->n_turn) return;
    if (place[i].end <= t->turn[k].begin) continue;
    if (in->n_prompt == buffer->n) in->n_prompt = i;
    buffer->skip[i] = 0;
  }
}

/* Finds a turn's tokens among the side's, without known places. A turn begins at the token with its first
 * byte and ends behind the token with its last byte, as far as encoding the text before them tells. The
 * first `from` bytes are known to be the first `at` tokens. *apart is false if the ids do not show the
 * turn's end. */
static tri_status find_turn(tri_line_parser *in, const tri_token_buffer *buffer, tri_chat_turn turn,
                            size_t from, int64_t at, int64_t found[2], bool *apart) {
  const int32_t *id, *all = buffer->id + at;
  int64_t        n, n_all = buffer->n - at, n_turn;

  TRI_TRY(encode(in, from, turn.begin, &id, &n));
  found[0] = at + tri_common_prefix(all, n_all, id, n);
  TRI_TRY(encode(in, from, turn.end, &id, &n));
  n_turn = tri_common_prefix(all, n_all, id, n);
  *apart = n_turn == n;
  found[1] = at + n_turn + !*apart;
  return TRI_OK;
}

/* Searches each turn behind the previous one, if the ids between them match those of the whole text,
 * otherwise in the whole text. So the work grows linearly with the text, not quadratically. */
static tri_status look_for_turns(tri_line_parser *in, tri_token_buffer *buffer) {
  const tri_chat_text *t = &in->conversation.text;
  int64_t              at = 0, begin = buffer->n;
  size_t               from = 0;

  for (int64_t i = 0; i < t->n_turn; i++) {
    int64_t found[2];
    bool    apart;
    TRI_TRY(find_turn(in, buffer, t->turn[i], from, at, found, &apart));
    if (!apart) TRI_TRY(find_turn(in, buffer, t->turn[i], from = 0, at = 0, found, &apart));
    if (apart) from = t->turn[i].end, at = found[1];
    if (found[1] > buffer->n) found[1] = buffer->n;
    if (found[0] < begin) begin = found[0];
    if (found[1] > found[0]) memset(buffer->skip + found[0], 0, (size_t)(found[1] - found[0]));
  }
  in->n_prompt = begin;
  return TRI_OK;
}

/* Marks the tokens of the turns as learned, and all others as not learned. */
static tri_status mark_turns(tri_line_parser *in, tri_token_buffer *buffer) {
  memset(buffer->skip, 1, (size_t)buffer->n);
  if (!in->conversation.place) return look_for_turns(in, buffer);
  take_places(in, buffer, in->conversation.place);
  return TRI_OK;
}

/* The part of a conversation to write. */
typedef enum { PROMPT, WHOLE, LEARNED } writing;

/* Encodes the written text. Gives its ids, borrowed, and their places. */
static tri_status encode_conversation(tri_line_parser *in, const int32_t **id, int64_t *n) {
  const tri_data_opt *o = in->opt;
  const tri_text     *text = &in->conversation.text.text;

  in->conversation.place = NULL;
  if (!o->encode_places) return encode(in, 0, text->len, id, n);
  return tri_jsonl_place(in->r, o->encode_places(o->ctx, text->len ? text->data : "", text->len, id,
                                                 &in->conversation.place, n));
}

/* Appends the messages as tokens to a side. */
static tri_status put_conversation(tri_line_parser *in, tri_token_buffer *buffer, writing how) {
  const tri_data_opt   *o = in->opt;
  tri_conversation     *t = &in->conversation;
  const int32_t        *id;
  int64_t               n;
  tri_chat_conversation conversation;
  bool                  system;
  tri_status            st;

  in->model_lacks = !o->encode || !o->chat.form || !tri_chat_name(o->chat.form);
  if (!o->encode) TRI_FAIL_NO_TOKENIZER(in, "has %s", "messages", "`tokens`");
  if (!o->chat.form) TRI_FAIL_LINE(in, "%s", "has messages, but there is no chat template to render them");
  TRI_TRY(take_tools(in));
  TRI_TRY(take_kwargs(in));
  TRI_TRY(tri_jsonl_place(in->r, tri_chat_put_system(o->chat.form, t->messages, &system)));
  conversation = (tri_chat_conversation){t->messages, t->tools, t->kwargs};
  st = how == LEARNED ? tri_chat_learned(o->chat.form, &conversation, o->chat.all, &t->text)
                      : tri_chat_write(o->chat.form, &conversation, how == PROMPT, &t->text);
  TRI_TRY(tri_jsonl_place(in->r, tri_chat_blame_system(o->chat.form, system, st)));
  TRI_TRY(encode_conversation(in, &id, &n));
  if (!n)
    TRI_FAIL_LINE(in, "the chat template %s writes nothing for this conversation",
                  tri_chat_name(o->chat.form));
  TRI_TRY(tri_line_parser_check_ids(in, id, n, "the conversation"));
  TRI_TRY(tri_line_parser_put_ids(in, buffer, id, n));
  t->here = true;
  t->begun = t->text.begun;
  t->system_left_out |= t->text.system_left_out;
  t->text_left_out |= t->text.text_left_out;
  t->calls_left_out |= t->text.calls_left_out;
  t->endless |= how == LEARNED && t->text.endless;
  t->tools_left_out |= t->tools && !tri_chat_reads_tools(o->chat.form);
  return TRI_OK;
}

/* ---- forms of lines ---- */

/* Starts a conversation without messages. */
static tri_status begin_conversation(tri_line_parser *in) {
  if (!in->conversation.messages) in->conversation.messages = json_array();
  return !in->conversation.messages || json_array_clear(in->conversation.messages) ? fail_memory() : TRI_OK;
}

tri_status tri_line_parser_take_conversation(tri_line_parser *in, const char *key) {
  tri_token_buffer *buffer = &in->buffer[0];

  TRI_TRY(begin_conversation(in));
  TRI_TRY(take_messages(in, key, "user"));
  TRI_TRY(tri_foreign_check_roles(in, key, NULL));
  TRI_TRY(put_conversation(in, buffer, PROMPT));
  in->n_prompt = buffer->n;
  return TRI_OK;
}

static bool is_answer(const json_t *message) {
  const char *role = json_string_value(json_object_get(message, "role"));

  return role && !strcmp(role, "assistant");
}

/* Returns how many messages come before the assistant's last, or SIZE_MAX without one. */
static size_t count_asked(const tri_line_parser *in) {
  for (size_t k = json_array_size(in->conversation.messages); k-- > 0;)
    if (is_answer(json_array_get(in->conversation.messages, k))) return k;
  return SIZE_MAX;
}

tri_status tri_line_parser_take_answered(tri_line_parser *in, tri_token_buffer *buffer, const char *prompt,
                                         const char *answer) {
  bool scored = in->opt->kind == TRI_DATA_SCORE;

  /* For `messages` alone SCORE needs only the text. It accepts templates whose turns cannot be found. */
  TRI_TRY(begin_conversation(in));
  if (prompt && !holds_prompt(in, answer)) {
    if (!json_object_get(in->object, prompt))
      return tri_line_parser_refuse_missing(in, prompt, "data.prompt_key", "--prompt-key");
    TRI_TRY(take_messages(in, prompt, "user"));
  }
  TRI_TRY(take_messages(in, answer, "assistant"));
  if (!scored && count_asked(in) == SIZE_MAX) TRI_TRY(tri_foreign_check_roles(in, prompt, answer));
  TRI_TRY(put_conversation(in, buffer, scored && !prompt ? WHOLE : LEARNED));
  if (scored && (!prompt || count_asked(in) == SIZE_MAX || !in->conversation.text.n_turn)) return TRI_OK;
  if (count_asked(in) == SIZE_MAX)
    TRI_FAIL_LINE(in, "`%s` has no message of the assistant, so there is nothing to learn", answer);
  if (!in->conversation.text.n_turn)
    TRI_FAIL_LINE(in, "nothing of `%s` is learned, because the chat template %s marks no part of it", answer,
                  tri_chat_name(in->opt->chat.form));
  return mark_turns(in, buffer);
}

/* Tells whether the messages of both sides before the answer are the same, those in `asked` and those in the
 * conversation. */
static bool asks_alike(const tri_line_parser *in, const json_t *asked, size_t n_asked) {
  if (count_asked(in) != n_asked) return false;
  for (size_t i = 0; i < n_asked; i++)
    if (!json_equal(json_array_get(asked, i), json_array_get(in->conversation.messages, i))) return false;
  return true;
}

/* Reads the second side. Its conversation must equal the first but for the answer. */
static tri_status take_rejected(tri_line_parser *in, const char *const key[2]) {
  json_t    *asked = json_copy(in->conversation.messages);
  size_t     n_asked = count_asked(in);
  tri_status st =
      asked ? tri_line_parser_take_answered(in, &in->buffer[1], in->prompt_key, key[1]) : fail_memory();
  bool alike = st != TRI_OK || asks_alike(in, asked, n_asked);

  json_decref(asked);
  TRI_TRY(st);
  if (alike) return TRI_OK;
  TRI_FAIL_LINE(in,
                "`%s` and `%s` differ before the assistant's last message, but both must answer the same "
                "conversation",
                key[0], key[1]);
}

tri_status tri_line_parser_take_talked_pair(tri_line_parser *in) {
  const char       *key[] = {in->chosen_key, in->rejected_key};
  tri_token_buffer *buffer = in->buffer;
  int64_t           n_prompt;

  TRI_TRY(tri_line_parser_take_answered(in, &buffer[0], in->prompt_key, key[0]));
  n_prompt = in->n_prompt;
  TRI_TRY(take_rejected(in, key));
  /* An answer that begins with a newline may share its first token with the prompt, which is then shorter. */
  if (n_prompt < in->n_prompt) in->n_prompt = n_prompt;
  in->n_prompt = tri_common_prefix(buffer[0].id, in->n_prompt, buffer[1].id, in->n_prompt);
  for (int i = 0; i < 2; i++) TRI_TRY(tri_line_parser_check_learned(in, &buffer[i], key[i]));
  return TRI_OK;
}

void tri_conversation_free(tri_conversation *t) {
  tri_chat_text_free(&t->text);
  json_decref(t->messages);
  json_decref(t->tools);
  *t = (tri_conversation){.here = false};
}
