/* dataset_chat.c - conversations of lines: their messages, rendered, as tokens, and which of these are
 * learned. */
#include <jansson.h>
#include <string.h>

#include "base/hash.h"
#include "dataset_line.h"

/* ---- messages ---- */

static tri_status put_message(tri_intake *in, tri_chat_speaker by, const json_t *text) {
  tri_talk *t = &in->talk;

  if (t->n >= INT32_MAX / 2) TRI_FAIL_LINE(in, "has more than %d messages", INT32_MAX / 2);
  TRI_TRY(TRI_GROW(t->message, t->cap, t->n + 1));
  t->message[t->n++] = (tri_chat_message){by, json_string_value(text), json_string_length(text)};
  return TRI_OK;
}

/* Null, or text or a list with nothing in it, perhaps a list spelled as text. */
static bool is_nothing(const json_t *v) {
  const char *text = json_string_value(v);

  return !v || json_is_null(v) || (json_is_array(v) && !json_array_size(v)) ||
         (text && (!*text || !strcmp(text, "[]") || !strcmp(text, "null")));
}

/* What would be written into a conversation by templates that know it, and is not here. */
static tri_status refuse_field(const tri_intake *in, const json_t *message, const char *key, size_t i,
                               const char *name) {
  if (is_nothing(json_object_get(message, name))) return TRI_OK;
  TRI_FAIL_LINE(in, "`%s`[%zu] has `%s`, which is not understood: a message is {\"role\", \"content\"}", key,
                i, name);
}

static tri_status take_message(tri_intake *in, const json_t *message, const char *key, size_t i) {
  static const char *const role[] = {"system", "user", "assistant"};
  const json_t            *content = json_object_get(message, "content");
  const char              *said = json_string_value(json_object_get(message, "role"));

  if (!json_is_object(message))
    TRI_FAIL_LINE(in, "`%s`[%zu] must be a message, {\"role\": \"user\", \"content\": \"...\"}", key, i);
  if (!said)
    TRI_FAIL_LINE(in, "`%s`[%zu] has no `role`; a message is {\"role\": \"user\", \"content\": \"...\"}", key,
                  i);
  if (!json_is_string(content)) TRI_FAIL_LINE(in, "`%s`[%zu]: its `content` must be text", key, i);
  TRI_TRY(refuse_field(in, message, key, i, "tool_calls"));
  TRI_TRY(refuse_field(in, message, key, i, "reasoning_content"));
  for (int k = 0; k < TRI_CHAT_SPEAKERS; k++)
    if (!strcmp(said, role[k])) return put_message(in, (tri_chat_speaker)k, content);
  TRI_FAIL_LINE(in, "`%s`[%zu]: the role `%s` is not understood; system, user and assistant are", key, i,
                said);
}

/* Behind those before: a list of messages, or the text of one that is `by`'s. */
static tri_status take_messages(tri_intake *in, const char *key, tri_chat_speaker by) {
  const json_t *v = json_object_get(in->object, key);

  if (json_is_string(v)) return put_message(in, by, v);
  if (!json_is_array(v)) TRI_FAIL_LINE(in, "`%s` must be text, or a list of messages", key);
  if (!json_array_size(v)) TRI_FAIL_LINE(in, "`%s` has no messages", key);
  for (size_t i = 0; i < json_array_size(v); i++) TRI_TRY(take_message(in, json_array_get(v, i), key, i));
  return TRI_OK;
}

static bool is_list(const tri_intake *in, const char *key) {
  return json_is_array(json_object_get(in->object, key));
}

bool tri_intake_is_talk(const tri_intake *in, const char *prompt, const char *answer) {
  bool text = json_is_string(json_object_get(in->object, prompt));

  if (is_list(in, prompt) || (answer && is_list(in, answer))) return true;
  return in->opt->chat.texts && text;
}

/* Whether the answer's list is a conversation of its own, the prompt in it. */
static bool holds_prompt(const tri_intake *in, const char *answer) {
  const json_t *first = json_array_get(json_object_get(in->object, answer), 0);
  const char   *role = json_string_value(json_object_get(first, "role"));

  return role && strcmp(role, "assistant") != 0;
}

/* ---- rendered, as tokens ---- */

/* Ids at the front of both. */
static int64_t common(const int32_t *a, int64_t n_a, const int32_t *b, int64_t n_b) {
  int64_t i = 0;

  while (i < n_a && i < n_b && a[i] == b[i]) i++;
  return i;
}

/* The ids of the rendered bytes begin .. end - 1, borrowed. */
static tri_status encode(tri_intake *in, size_t begin, size_t end, const int32_t **id, int64_t *n) {
  const char *text = in->talk.text.text.data;

  return tri_jsonl_place(
      in->r, in->opt->encode(in->opt->ctx, end > begin ? text + begin : "", end - begin, false, id, n));
}

/* Where a turn's tokens lie among the side's: it begins at the token that holds its first byte and ends
 * behind the one that holds its last (transformers, apply_chat_template, char_to_token). `from` bytes and
 * `at` tokens before it are known to end together. *apart: the ids do not say where it ends. */
static tri_status find_turn(tri_intake *in, const tri_side *side, tri_chat_turn turn, size_t from, int64_t at,
                            int64_t found[2], bool *apart) {
  const int32_t *id, *all = side->id + at;
  int64_t        n, n_all = side->n - at, n_turn;

  TRI_TRY(encode(in, from, turn.begin, &id, &n));
  found[0] = at + common(all, n_all, id, n);
  TRI_TRY(encode(in, from, turn.end, &id, &n));
  n_turn = common(all, n_all, id, n);
  *apart = n_turn == n;
  found[1] = at + n_turn + !*apart;
  return TRI_OK;
}

/* The side's tokens of turns first .. n_turn - 1 are learned, all others are not. Each turn is looked for
 * behind the one before it, where the ids of what stands between are those of the whole, else in the whole:
 * the work grows with the text, not with its square. */
static tri_status mark_turns(tri_intake *in, tri_side *side, int64_t first) {
  const tri_chat_text *t = &in->talk.text;
  int64_t              at = 0, begin = side->n;
  size_t               from = 0;

  memset(side->skip, 1, (size_t)side->n);
  for (int64_t i = 0; i < t->n_turn; i++) {
    int64_t found[2];
    bool    apart;
    TRI_TRY(find_turn(in, side, t->turn[i], from, at, found, &apart));
    if (!apart) TRI_TRY(find_turn(in, side, t->turn[i], from = 0, at = 0, found, &apart));
    if (apart) from = t->turn[i].end, at = found[1];
    if (i < first) continue;
    if (found[1] > side->n) found[1] = side->n;
    if (found[0] < begin) begin = found[0];
    if (found[1] > found[0]) memset(side->skip + found[0], 0, (size_t)(found[1] - found[0]));
  }
  in->n_prompt = begin;
  return TRI_OK;
}

/* The messages as tokens of a side. */
static tri_status put_talk(tri_intake *in, tri_side *side, bool prompt) {
  const tri_data_opt *o = in->opt;
  const int32_t      *id;
  int64_t             n;

  in->model_lacks = !o->encode || !o->chat.form || !tri_chat_name(o->chat.form);
  if (!o->encode)
    TRI_FAIL_LINE(in, "has messages, but the model has no tokenizer; give `tokens` instead%s",
                  o->from_deck ? ", or model.tokenizer" : "");
  if (!o->chat.form) TRI_FAIL_LINE(in, "%s", "has messages, and there is no chat template to render them");
  if (!is_nothing(json_object_get(in->object, "tools")))
    TRI_FAIL_LINE(in, "has `%s`, which are not understood in a conversation", "tools");
  TRI_TRY(tri_jsonl_place(
      in->r, tri_chat_render(o->chat.form, in->talk.message, (int)in->talk.n, prompt, &in->talk.text)));
  TRI_TRY(encode(in, 0, in->talk.text.text.len, &id, &n));
  TRI_TRY(tri_intake_check_ids(in, id, n, "the conversation"));
  TRI_TRY(tri_intake_put_ids(in, side, id, n));
  in->talk.here = true;
  in->talk.system_left_out |= in->talk.text.system_left_out;
  return TRI_OK;
}

/* ---- forms of lines ---- */

tri_status tri_intake_take_talk(tri_intake *in, const char *key) {
  const tri_talk *t = &in->talk;
  tri_side       *side = &in->side[0];

  in->talk.n = 0;
  TRI_TRY(take_messages(in, key, TRI_CHAT_USER));
  if (t->message[t->n - 1].by == TRI_CHAT_ASSISTANT)
    TRI_FAIL_LINE(in, "`%s` ends with the assistant's message: a prompt ends with what is to be answered",
                  key);
  TRI_TRY(put_talk(in, side, true));
  in->n_prompt = side->n;
  return TRI_OK;
}

tri_status tri_intake_take_answered(tri_intake *in, tri_side *side, const char *prompt, const char *answer) {
  bool    scored = in->opt->kind == TRI_DATA_SCORE, all = in->opt->chat.all;
  int64_t n_turn;

  in->talk.n = 0;
  if (prompt && !holds_prompt(in, answer)) {
    if (!json_object_get(in->object, prompt))
      return tri_intake_refuse_missing(in, prompt, "data.prompt_key", "--prompt-key");
    TRI_TRY(take_messages(in, prompt, TRI_CHAT_USER));
  }
  TRI_TRY(take_messages(in, answer, TRI_CHAT_ASSISTANT));
  TRI_TRY(put_talk(in, side, false));
  n_turn = in->talk.text.n_turn;
  if (!n_turn && !scored) TRI_FAIL_LINE(in, "`%s` has no message of the assistant: nothing to learn", answer);
  if (scored) return TRI_OK; /* every token */
  return mark_turns(in, side, all ? 0 : n_turn - 1);
}

/* Of the text that the last turn of the assistant answers. */
static uint64_t hash_asked(const tri_intake *in) {
  const tri_chat_text *t = &in->talk.text;

  return tri_hash64(t->text.data, t->turn[t->n_turn - 1].begin, 0);
}

tri_status tri_intake_take_talked_pair(tri_intake *in) {
  const char *key[] = {in->chosen_key, in->rejected_key};
  tri_side   *side = in->side;
  int64_t     n_prompt;
  uint64_t    asked;

  TRI_TRY(tri_intake_take_answered(in, &side[0], in->prompt_key, key[0]));
  n_prompt = in->n_prompt;
  asked = hash_asked(in);
  TRI_TRY(tri_intake_take_answered(in, &side[1], in->prompt_key, key[1]));
  if (asked != hash_asked(in))
    TRI_FAIL_LINE(in,
                  "`%s` and `%s` differ before the assistant's last message: both must answer the same "
                  "conversation",
                  key[0], key[1]);
  /* An answer that begins with a line end may share its first token with the prompt, then shorter. */
  if (n_prompt < in->n_prompt) in->n_prompt = n_prompt;
  in->n_prompt = common(side[0].id, in->n_prompt, side[1].id, in->n_prompt);
  for (int i = 0; i < 2; i++) TRI_TRY(tri_intake_check_learned(in, &side[i], key[i]));
  return TRI_OK;
}

void tri_talk_free(tri_talk *t) {
  tri_chat_text_free(&t->text);
  TRI_FREE(t->message);
}
