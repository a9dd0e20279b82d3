/* saved_answers.c - reads saved answers for a deck's rewards, from rollout lines or lines with a response. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "saved_answers.h"

#include "base/host_memory.h"
#include "base/log.h"
#include "io/model/source_chat.h"
#include "io/text/json_text.h"
#include "io/text/jsonl.h"
#include "reward/answers.h"

#include <jansson.h>
#include <string.h>
#include <time.h>

/* The files of a deck, as far as they exist. */
typedef struct tri_saved_source {
  tri_source             *model; /* NULL if it cannot be read */
  tri_encoder             encoder;
  tri_chat               *chat; /* NULL without the model */
  tri_source_conversation conversation;
  tri_dataset            *data[2]; /* data.train and data.eval for rollout lines, else the file itself */
  int64_t                 n_apart; /* rollout lines without a matching data line */
  const tri_config       *cfg;
  const tri_reward_set   *set;
} source;

static void close_source(source *s) {
  if (!s) return;
  for (int i = 0; i < 2; i++) tri_dataset_close(&s->data[i]);
  tri_chat_close(&s->chat);
  tri_source_conversation_free(&s->conversation);
  s->encoder.tokenizer = NULL;
  tri_encoder_free(&s->encoder);
  tri_source_close(&s->model);
  TRI_FREE(s);
}

void tri_saved_free(tri_saved *s) {
  close_source(s->source);
  for (int64_t i = 0; i < s->n_text; i++) TRI_FREE(s->text[i]);
  TRI_FREE(s->text);
  TRI_FREE(s->answer);
  TRI_FREE(s->line);
  *s = (tri_saved){.n = 0};
}

/* ---- the model's small files ---- */

static tri_status copy_or_null(const char *text, char **out) {
  return text ? tri_copy_text(text, out) : TRI_OK;
}

static tri_status open_chat(source *s) {
  const tri_config *c = s->cfg;
  time_t            now = time(NULL);
  struct tm         day;
  char              today[16];
  tri_chat_opt      opt;

  TRI_TRY(tri_copy_text(c->data.chat_template, &s->conversation.template));
  TRI_TRY(copy_or_null(c->data.chat_template_kwargs, &s->conversation.kwargs));
  TRI_TRY(copy_or_null(c->data.chat_template_date, &s->conversation.date));
  TRI_TRY(copy_or_null(c->data.tools, &s->conversation.tools));
  TRI_TRY(copy_or_null(c->data.system_prompt, &s->conversation.system));
  TRI_TRY(tri_source_conversation_read(&s->conversation, NULL));
  localtime_r(&now, &day);
  strftime(today, sizeof today, "%Y-%m-%d", &day);
  opt = tri_source_conversation_opt(&s->conversation, true);
  if (!opt.date) opt.date = today;
  return tri_source_chat(s->model, &opt, &s->chat);
}

static tri_status open_model(source *s) {
  const tri_config *c = s->cfg;

  TRI_TRY(c->model.path ? tri_source_open(c->model.path, NULL, false, &s->model)
                        : tri_source_open_random(c->model.config, c->model.tokenizer, 0, &s->model));
  s->encoder =
      (tri_encoder){.tokenizer = tri_source_tokenizer(s->model), .vocab = tri_source_shape(s->model)->V};
  return open_chat(s);
}

/* Opens the model's files. A model that cannot be read is only a warning here, because just conversations
 * need it. */
static tri_status find_model(source *s) {
  tri_status st = open_model(s);

  if (st != TRI_EINPUT) return st;
  tri_log_error(
      TRI_LOG_WARN,
      "the deck's model cannot be read, so texts are used as written, without tokens or special tokens");
  tri_error_clear();
  tri_chat_close(&s->chat);
  s->encoder.tokenizer = NULL;
  tri_source_close(&s->model);
  return TRI_OK;
}

/* ---- prompt lines, read as in a run ---- */

/* Stands in for a missing tokenizer. Every text becomes one token. */
static tri_status encode_nothing(void *ctx, const char *text, size_t n, bool special, const int32_t **id,
                                 int64_t *n_id) {
  static const int32_t one[1] = {0};

  (void)ctx, (void)text, (void)n, (void)special;
  *id = one;
  *n_id = 1;
  return TRI_OK;
}

static const char *refuse_answer(const void *rewards, const char *answer, size_t n) {
  return tri_reward_set_refuse(rewards, answer, n);
}

static tri_status read_prompts(source *s, const char *const *file, int n, tri_dataset **out) {
  const tri_config *c = s->cfg;
  bool              truths = tri_reward_set_needs(s->set) & TRI_REWARD_TRUTH;
  bool              texts = s->chat && c->data.apply_chat_template;
  tri_data_opt      opt = {.kind = truths ? TRI_DATA_RL : TRI_DATA_PROMPTS,
                           .prompt_key = c->data.prompt_key,
                           .answer_key = c->data.answer_key,
                           .from_deck = true,
                           .max_line_bytes = c->data.max_line_bytes,
                           .vocab = s->encoder.tokenizer ? s->encoder.vocab : INT32_MAX,
                           .end = {-1, -1, NULL},
                           .encode = s->encoder.tokenizer ? tri_encoder_run : encode_nothing,
                           .ctx = &s->encoder,
                           .chat = {s->chat, false, texts, c->data.tools_key},
                           .refuse = refuse_answer,
                           .refuse_ctx = s->set,
                           .keep_fields = true};

  return tri_dataset_open(file, n, &opt, out);
}

/* ---- answers ---- */

/* Copies a text, adds a NUL, and keeps it as long as the answers. */
static tri_status keep(tri_saved *x, const char *text, size_t n, const char **out) {
  char *copy = NULL;

  TRI_TRY(TRI_GROW(x->text, x->cap_text, x->n_text + 1));
  TRI_TRY(TRI_ALLOC(copy, (int64_t)n + 1));
  if (n) memcpy(copy, text, n);
  x->text[x->n_text++] = copy;
  *out = copy;
  return TRI_OK;
}

static tri_status keep_text(tri_saved *x, tri_text *text, const char **out, size_t *bytes) {
  *bytes = text->len;
  return keep(x, text->data, text->len, out);
}

static tri_status put_answer(tri_saved *x, const tri_answer *a, int64_t line) {
  TRI_TRY(TRI_GROW(x->answer, x->cap_answer, x->n + 1));
  TRI_TRY(TRI_GROW(x->line, x->cap_line, x->n + 1));
  x->answer[x->n] = *a;
  x->line[x->n++] = line;
  return TRI_OK;
}

/* Gets a member of the object. It must be text if it is there. With `must` its absence is an error. */
static tri_status get_text(tri_jsonl *in, const json_t *o, const char *key, bool must, const char **text,
                           size_t *n) {
  const json_t *v = json_object_get(o, key);
  char          fields[256];

  *text = json_string_value(v);
  *n = json_string_length(v);
  if (*text || (!v && !must)) return TRI_OK;
  if (v)
    return tri_jsonl_place(in, tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT, "`%s` must be text", key));
  return tri_jsonl_place(in, tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT, "has no `%s`, an answer; %s",
                                      key, tri_jsonl_fields(in, fields, sizeof fields)));
}

/* Sets a->opening (the prompt) and a->whole (prompt and answer), both with special tokens. They are decoded
 * from the tokens if there are any, else joined from the texts. */
static tri_status put_whole(tri_saved *x, tri_answer *a) {
  const tri_tokenizer *t = x->source->encoder.tokenizer;
  tri_text             opening = {0}, whole = {0};
  tri_status           st = TRI_OK;

  if (t && a->token) {
    TRI_TRY_DONE(tri_answers_decode(t, a->token, a->n_prompt, false, &opening));
    TRI_TRY_DONE(tri_answers_decode(t, a->token, a->n_prompt + a->n_token, false, &whole));
  } else {
    TRI_TRY_DONE(tri_text_put(&opening, a->prompt, a->prompt_bytes));
    TRI_TRY_DONE(tri_text_put(&whole, a->prompt, a->prompt_bytes));
    TRI_TRY_DONE(tri_text_put(&whole, a->response, a->response_bytes));
  }
  TRI_TRY_DONE(keep_text(x, &opening, &a->opening, &a->opening_bytes));
  TRI_TRY_DONE(keep_text(x, &whole, &a->whole, &a->whole_bytes));
done:
  tri_text_free(&opening);
  tri_text_free(&whole);
  return st;
}

/* ---- rollout lines ---- */

/* Takes the tokens of the line. */
static tri_status take_tokens(tri_saved *x, tri_jsonl *in, const json_t *o, tri_answer *a) {
  const json_t  *n_prompt = json_object_get(o, "prompt_tokens");
  int32_t        vocab = x->source->encoder.tokenizer ? x->source->encoder.vocab : INT32_MAX;
  const int32_t *id;
  int64_t        n;

  TRI_TRY(tri_jsonl_ids(in, "tokens", vocab, &id, &n));
  if (!json_is_integer(n_prompt) || json_integer_value(n_prompt) < 0 || json_integer_value(n_prompt) > n)
    return tri_jsonl_place(in, tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT,
                                        "`prompt_tokens` must be the prompt's part of the %lld `tokens`",
                                        (long long)n));
  a->n_prompt = (int)json_integer_value(n_prompt);
  a->n_token = (int)n - a->n_prompt;
  return keep(x, (const char *)id, (size_t)n * sizeof *id, (const char **)&a->token);
}

/* Finds the data line with the answered prompt. Returns NULL if the data lacks it or has another prompt under
 * this id. */
static const tri_example *find_example(const source *s, const tri_answer *a) {
  for (int i = 0; i < 2; i++) {
    const tri_example *e = tri_dataset_find(s->data[i], a->prompt_id);
    if (e && e->n_token == a->n_prompt && !memcmp(e->token, a->token, (size_t)e->n_token * sizeof *e->token))
      return e;
  }
  return NULL;
}

static void take_example(const tri_example *e, tri_answer *a) {
  if (e->prompt) {
    a->prompt = e->prompt;
    a->prompt_bytes = e->prompt_bytes;
  }
  a->truth = e->answer;
  a->truth_bytes = e->answer_bytes;
  a->fields = e->fields ? e->fields : "";
  a->fields_bytes = e->fields_bytes;
}

/* Takes the right answer of the rollout line. */
static tri_status take_truth(tri_saved *x, tri_jsonl *in, const json_t *o, tri_answer *a) {
  const json_t *v = json_object_get(o, "answer");
  const char   *text = json_string_value(v);
  size_t        n = json_string_length(v);

  if (json_is_number(v)) text = tri_jsonl_raw(in, "answer", &n);
  if (!text) return TRI_OK;
  a->truth_bytes = n;
  return keep(x, text, n, &a->truth);
}

/* Takes the rollout line's members that come from the data line. */
static tri_status take_members(tri_saved *x, tri_jsonl *in, tri_answer *a) {
  static const char *const ours[] = {"id",        "prompt",        "response", "prompt_id", "sample",
                                     "tokens",    "prompt_tokens", "logprobs", "reward",    "rewards",
                                     "advantage", "stop",          "filler",   NULL};
  tri_text                 all = {0};
  tri_status               st = tri_jsonl_put_members(in, ours, &all);

  if (st == TRI_OK) st = keep_text(x, &all, &a->fields, &a->fields_bytes);
  tri_text_free(&all);
  return st;
}

static tri_status take_rollout(tri_saved *x, tri_jsonl *in, const json_t *o) {
  const json_t      *id = json_object_get(o, "prompt_id"), *stop = json_object_get(o, "stop");
  tri_answer         a = {.prompt_id = json_is_integer(id) ? json_integer_value(id) : x->n, .fields = ""};
  const tri_example *e;
  const char        *prompt, *response;

  TRI_TRY(get_text(in, o, "response", true, &response, &a.response_bytes));
  TRI_TRY(get_text(in, o, "prompt", false, &prompt, &a.prompt_bytes));
  TRI_TRY(take_tokens(x, in, o, &a));
  a.truncated = json_is_string(stop) && !strcmp(json_string_value(stop), "length");
  TRI_TRY(keep(x, response, a.response_bytes, &a.response));
  TRI_TRY(keep(x, prompt, a.prompt_bytes, &a.prompt));
  TRI_TRY(take_truth(x, in, o, &a));
  TRI_TRY(put_whole(x, &a));
  e = find_example(x->source, &a);
  if (e) take_example(e, &a);
  if (!e) TRI_TRY(take_members(x, in, &a));
  x->source->n_apart += !e;
  if (!a.truth && tri_reward_set_needs(x->source->set) & TRI_REWARD_TRUTH)
    return tri_jsonl_place(
        in,
        tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT,
                 "has no `answer` for a reward to compare with, and neither data.train nor data.eval has the "
                 "line of its prompt_id"));
  return put_answer(x, &a, tri_jsonl_line(in));
}

/* Reads the deck's prompts if a reward needs fields a rollout line may lack. */
static tri_status read_data(source *s) {
  const tri_config_list *files[] = {&s->cfg->data.train, &s->cfg->data.eval};

  if (!s->encoder.tokenizer) return TRI_OK;
  if (!(tri_reward_set_needs(s->set) & (TRI_REWARD_FIELDS_OF_LINE | TRI_REWARD_TRUTH))) return TRI_OK;
  for (int i = 0; i < 2; i++) {
    if (!files[i]->n) continue;
    tri_status st = read_prompts(s, (const char *const *)files[i]->item, files[i]->n, &s->data[i]);
    if (st != TRI_EINPUT) {
      TRI_TRY(st);
      continue;
    }
    tri_log_error(TRI_LOG_WARN, "%s is not read", i ? "data.eval" : "data.train");
    tri_error_clear();
  }
  return TRI_OK;
}

static tri_status take_rollouts(tri_saved *x, tri_jsonl *in, json_t *o) {
  while (o) {
    if (!json_object_get(o, "tokens"))
      return tri_jsonl_place(in, tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT,
                                          "has no `tokens`, but the file's first line is a rollout line"));
    TRI_TRY(take_rollout(x, in, o));
    TRI_TRY(tri_jsonl_next(in, &o));
  }
  if (x->source->n_apart && tri_reward_set_needs(x->source->set) & TRI_REWARD_FIELDS_OF_LINE)
    tri_log(
        TRI_LOG_WARN,
        "the prompts of %lld of %d rollout lines are not in data.train or data.eval. Their rewards get the "
        "fields of the rollout line, not those of the data line",
        (long long)x->source->n_apart, x->n);
  return TRI_OK;
}

/* ---- lines with a response ---- */

/* Makes the tokens of prompt and answer, and an end token. */
static tri_status encode_answer(tri_saved *x, const tri_example *e, tri_answer *a) {
  source        *s = x->source;
  const int32_t *id;
  int64_t        n;
  int32_t        end;
  tri_text       all = {0};
  tri_status     st = TRI_OK;

  if (!s->encoder.tokenizer) return TRI_OK;
  end = tri_source_text_end(s->model);
  TRI_TRY_DONE(tri_text_put(&all, (const char *)e->token, (size_t)e->n_token * sizeof *e->token));
  TRI_TRY_DONE(tri_encoder_run(&s->encoder, a->response, a->response_bytes, false, &id, &n));
  TRI_TRY_DONE(tri_text_put(&all, (const char *)id, (size_t)n * sizeof *id));
  if (end >= 0) TRI_TRY_DONE(tri_text_put(&all, (const char *)&end, sizeof end));
  a->n_prompt = e->n_token;
  a->n_token = (int)n + (end >= 0);
  TRI_TRY_DONE(keep(x, all.data, all.len, (const char **)&a->token));
done:
  tri_text_free(&all);
  return st;
}

/* Sets the prompt a run would give to rewards: the line's text, else the text of its tokens. */
static void take_prompt(const tri_example *e, tri_answer *a) {
  a->prompt = e->prompt ? e->prompt : a->opening;
  a->prompt_bytes = e->prompt ? e->prompt_bytes : a->opening_bytes;
}

static tri_status take_response(tri_saved *x, tri_jsonl *in, const json_t *o) {
  const tri_example *e = tri_dataset_find(x->source->data[0], tri_jsonl_line(in) - 1);
  tri_answer         a = {.fields = "", .prompt = ""};
  const char        *response;

  TRI_ASSERT(e);
  a.prompt_id = e->id;
  TRI_TRY(get_text(in, o, "response", true, &response, &a.response_bytes));
  TRI_TRY(keep(x, response, a.response_bytes, &a.response));
  TRI_TRY(tri_jsonl_place(in, encode_answer(x, e, &a)));
  take_example(e, &a);
  TRI_TRY(put_whole(x, &a));
  take_prompt(e, &a);
  return put_answer(x, &a, tri_jsonl_line(in));
}

/* Returns st. If the lines have `prompt` and the deck names another field, it adds to the error that the
 * lines may use the deck's name. */
static tri_status say_field(const tri_config *c, const json_t *o, tri_status st) {
  const char *key = c->data.prompt_key;
  tri_text    said = {0};

  if (st != TRI_EINPUT || json_object_get(o, key) || !json_is_string(json_object_get(o, "prompt"))) return st;
  if (!strchr(tri_error_message(), '\n') &&
      tri_text_printf(&said, ", or name the lines' field `%s`, as the deck does", key) == TRI_OK)
    tri_error_lines(said.data);
  tri_text_free(&said);
  return st;
}

static tri_status take_responses(tri_saved *x, tri_jsonl *in, json_t *o) {
  const char *path = tri_jsonl_path(in), *response;
  size_t      n;

  TRI_TRY(get_text(in, o, "response", true, &response, &n)); /* the field most often missing */
  TRI_TRY(say_field(x->source->cfg, o, read_prompts(x->source, &path, 1, &x->source->data[0])));
  while (o) {
    TRI_TRY(take_response(x, in, o));
    TRI_TRY(tri_jsonl_next(in, &o));
  }
  return TRI_OK;
}

/* ---- the file ---- */

static tri_status read_file(tri_saved *x, const char *path) {
  tri_jsonl *in = NULL;
  json_t    *o;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(tri_jsonl_open(path, &in));
  if (x->source->cfg->data.max_line_bytes)
    tri_jsonl_limit(in, x->source->cfg->data.max_line_bytes, "data.max_line_bytes");
  TRI_TRY_DONE(tri_jsonl_next(in, &o));
  if (!o) TRI_FAIL_DONE(TRI_EINPUT, "%s: has no lines", path);
  if (json_object_get(o, "tokens")) {
    TRI_TRY_DONE(read_data(x->source));
    TRI_TRY_DONE(take_rollouts(x, in, o));
  } else {
    TRI_TRY_DONE(take_responses(x, in, o));
  }
done:
  tri_jsonl_close(&in);
  return st;
}

tri_status tri_saved_read(const tri_config *c, const char *path, const tri_reward_set *set, tri_saved *out) {
  tri_status st = TRI_OK;

  *out = (tri_saved){.n = 0};
  TRI_TRY(TRI_ALLOC(out->source, 1));
  out->source->cfg = c;
  out->source->set = set;
  TRI_TRY_DONE(find_model(out->source));
  TRI_TRY_DONE(read_file(out, path));
done:
  if (st != TRI_OK) tri_saved_free(out);
  return st;
}
