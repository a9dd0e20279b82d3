/* reward_http.c - http: a reward from a server, with the protocol of OpenRLHF's remote reward models. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "address.h"
#include "base/host_memory.h"
#include "reward/work_queue/http.h"
#include "extras.h"
#include "reply_json.h"
#include "reward.h"
#include "io/text/json_text.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* OpenRLHF's values (openrlhf/utils/agent.py, _fetch_rewards_via_http): five attempts of 180 s, and 1 s
 * between them. */
#define TIMEOUT_S 180.0
#define BACKOFF_S 1.0
enum { RETRIES = 4, MOST_RETRIES = 1000, NESTED = 4096 /* chosen: objects and lists of a reply */ };

typedef struct remote {
  tri_text        url;
  char           *shown;
  tri_secrets     secrets; /* secrets in the url */
  tri_http       *http;
  tri_work_queue *queue;
} remote;

/* The texts of one answer as JSON strings. */
typedef struct job {
  tri_text query, prompt, label;
} job;

/* Reads {"rewards": [x, ...]}, one for each answer. For a single answer x may stand without a list, as in
 * OpenRLHF. */
static bool read_reply(const char *reply, size_t n, const tri_secrets *s, int n_asked, double *score,
                       tri_extras *extras, char why[TRI_HTTP_WHY_BYTES]) {
  static const char *const own[] = {"rewards", NULL};
  char                     shown[TRI_HTTP_SHOWN_BYTES], named[TRI_EXTRAS_WHY_BYTES];
  json_t       *object = tri_reply_parse(reply, n, NESTED, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL);
  const json_t *rewards = json_object_get(object, "rewards");
  bool          list = json_is_array(rewards), good = false;

  tri_secrets_copy(s, reply, n, shown, sizeof shown);
  for (int i = 0; i < n_asked; i++) {
    const json_t *one = list ? json_array_get(rewards, (size_t)i) : rewards;
    score[i] = json_is_number(one) ? json_number_value(one) : NAN;
  }
  if (!json_is_object(object))
    snprintf(why, TRI_HTTP_WHY_BYTES, "the reply is not a JSON object: %s", shown);
  else if (!rewards)
    snprintf(why, TRI_HTTP_WHY_BYTES, "the reply has no `rewards`: %s", shown);
  else if (list ? json_array_size(rewards) != (size_t)n_asked : n_asked != 1)
    snprintf(why, TRI_HTTP_WHY_BYTES, "the reply has %zu reward%s for %d answer%s: %s",
             list ? json_array_size(rewards) : 1, list && json_array_size(rewards) != 1 ? "s" : "", n_asked,
             n_asked == 1 ? "" : "s (batch)", shown);
  else if (n_asked == 1 && isnan(score[0]))
    snprintf(why, TRI_HTTP_WHY_BYTES, "the reply's reward is not a number: %s", shown);
  else if (!tri_extras_read(&(tri_extras_reply){object, own, n_asked, true}, extras, named))
    snprintf(why, TRI_HTTP_WHY_BYTES, "the reply is refused, because %s", named);
  else
    good = true;
  json_decref(object);
  return good;
}

static tri_status put_list(tri_job *const *q, int n, const char *name, size_t offset, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "\"%s\": [", name));
  for (int i = 0; i < n; i++) {
    const tri_text *text = (const tri_text *)(const void *)((const char *)q[i]->text + offset);
    if (i) TRI_TRY(tri_text_put(out, ", ", 2));
    TRI_TRY(tri_text_put(out, text->data, text->len));
  }
  return tri_text_put(out, "]", 1);
}

/* Writes {"query": [prompt and answer, ...], "prompts": [prompt, ...], "labels": [truth or "", ...]}. */
static tri_status write_body(tri_job *const *q, int n, tri_text *out) {
  TRI_TRY(tri_text_put(out, "{", 1));
  TRI_TRY(put_list(q, n, "query", offsetof(job, query), out));
  TRI_TRY(tri_text_put(out, ", ", 2));
  TRI_TRY(put_list(q, n, "prompts", offsetof(job, prompt), out));
  TRI_TRY(tri_text_put(out, ", ", 2));
  TRI_TRY(put_list(q, n, "labels", offsetof(job, label), out));
  return tri_text_put(out, "}", 1);
}

static tri_status make_job(const tri_answer *a, job *out) {
  TRI_TRY(tri_json_put_string(&out->query, a->whole, a->whole_bytes));
  TRI_TRY(tri_json_put_string(&out->prompt, a->opening, a->opening_bytes));
  return tri_json_put_string(&out->label, a->truth ? a->truth : "", a->truth ? a->truth_bytes : 0);
}

static void free_job(void *text) {
  job *q = text;

  tri_text_free(&q->query);
  tri_text_free(&q->prompt);
  tri_text_free(&q->label);
  tri_host_free(&text);
}

static tri_status http_submit(void *state, const tri_answer *a, int number) {
  remote    *r = state;
  job       *q;
  tri_status st;

  TRI_TRY(TRI_ALLOC(q, 1));
  st = make_job(a, q);
  if (st == TRI_OK) return tri_work_queue_put(r->queue, number, q);
  free_job(q);
  return st;
}

/* Writes the body of a request for this answer alone. */
static tri_status http_show(const void *asked, tri_text *out) {
  tri_job  one = {.text = (void *)(size_t)asked};
  tri_job *q = &one;

  return write_body(&q, 1, out);
}

static bool http_await(void *state, double most_s) {
  return tri_work_queue_await(((remote *)state)->queue, most_s);
}

static tri_status http_collect(void *state, int n, float *score, tri_reward_error *error,
                               const tri_work_queue_listener *listener) {
  return tri_work_queue_collect(((remote *)state)->queue, n, score, &error->number, error->why, listener);
}

static void http_forget(void *state) { tri_work_queue_forget(((remote *)state)->queue); }

static tri_status read_count(const tri_reward_opt *o, const char *field, int least, int most, int def,
                             int *out) {
  const char *text = tri_reward_get(o, field);

  *out = def;
  if (!text) return TRI_OK;
  *out = text[0] && strspn(text, "0123456789") == strlen(text) && strlen(text) < 6 ? atoi(text) : -1;
  if (*out >= least && *out <= most) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "must be a whole number from %d to %d", least, most);
}

/* Reads the fields. The server's address is appended to url. */
static tri_status read_fields(const tri_reward_opt *o, const char **field, tri_http_opt *out, tri_text *url) {
  *field = "timeout_s";
  TRI_TRY(tri_reward_read_seconds(o, *field, TIMEOUT_S, &out->timeout_s));
  *field = "retries";
  TRI_TRY(read_count(o, *field, 0, MOST_RETRIES, RETRIES, &out->retries));
  *field = "batch";
  TRI_TRY(read_count(o, *field, 1, TRI_HTTP_MOST_BATCH, 1, &out->batch));
  TRI_TRY(tri_address_read(o, field, url));
  return tri_http_check();
}

static tri_status http_check(const tri_reward_opt *o, const tri_reward_env *env, const char **field) {
  tri_http_opt unused;
  tri_text     url = {0};
  tri_status   st = read_fields(o, field, &unused, &url);

  (void)env;
  tri_text_free(&url);
  return st;
}

static void http_close(void **state) {
  remote *r = *state;

  if (!r) return;
  tri_work_queue_close(&r->queue);
  tri_http_close(&r->http);
  tri_text_free(&r->url);
  tri_secrets_free(&r->secrets);
  TRI_FREE(r->shown);
  tri_host_free(state);
}

/* Makes the address for messages, without name and password, query and fragment. */
static tri_status make_shown(const char *url, char **out) {
  tri_text    masked = {0};
  const char *host;
  tri_status  st = TRI_OK;

  TRI_TRY_DONE(tri_mask_url(url, &masked));
  masked.data[strcspn(masked.data, "?#")] = 0;
  host = strstr(masked.data, "://") + 3;
  if (!strncmp(host, TRI_MASK "@", strlen(TRI_MASK "@")))
    memmove(masked.data + (host - masked.data), host + strlen(TRI_MASK "@"),
            strlen(host + strlen(TRI_MASK "@")) + 1);
  st = tri_copy_text(masked.data, out);
done:
  tri_text_free(&masked);
  return st;
}

static tri_status http_open(const tri_reward_opt *o, const tri_reward_env *env, void **state) {
  tri_http_opt       http = {.backoff_s = BACKOFF_S, .write = write_body, .read = read_reply};
  tri_work_queue_opt queue = {.name = "http", .work = tri_http_work, .free_text = free_job};
  tri_on_error       on_error;
  const char        *field;
  remote            *r;
  tri_status         st = TRI_OK;

  TRI_TRY(tri_host_alloc(1, sizeof *r, state));
  r = *state;
  TRI_TRY_DONE(read_fields(o, &field, &http, &r->url));
  TRI_TRY_DONE(tri_reward_read_on_error(o, &on_error));
  if (env && env->se && env->se->pretended) goto done;
  if (env && env->backoff_s > 0) http.backoff_s = env->backoff_s;
  TRI_TRY_DONE(make_shown(r->url.data, &r->shown));
  TRI_TRY_DONE(tri_secrets_add_url(&r->secrets, r->url.data));
  http.url = r->url.data;
  http.shown = r->shown;
  http.secrets = &r->secrets;
  TRI_TRY_DONE(tri_http_open(&http, &r->http));
  queue.ctx = r->http;
  queue.secrets = &r->secrets;
  queue.trial = env && env->trial;
  queue.hasty = on_error == TRI_ON_ERROR_ABORT && !queue.trial;
  TRI_TRY_DONE(tri_work_queue_open(&queue, &r->queue));
done:
  if (st != TRI_OK) http_close(state);
  return st;
}

static const tri_reward_field fields[] = {
    TRI_ADDRESS_FIELDS,
    {.name = "timeout_s",
     .unit = "s",
     .help = "Timeout of one attempt. Default 180.",
     .value = "S",
     .what = "timeout of one attempt in seconds (default 180)"},
    {.name = "retries",
     .unit = "tries",
     .help = "Further attempts after a failure, after waits of 1, 2, 4, ... s. Default 4.",
     .value = "N",
     .what = "further attempts (default 4)"},
    {.name = "batch",
     .unit = "answers",
     .help = "Most answers in one request, 1 to 1024. Default 1.",
     .value = "N",
     .what = "most answers in one request (default 1)"},
    TRI_REWARD_ON_ERROR,
    {.name = NULL}};

const tri_reward tri_reward_http = {
    .name = "http",
    .help = "score of a server with the protocol of OpenRLHF's remote reward models",
    .values = "any number",
    .best = INFINITY,
    .needs = TRI_REWARD_TEXT | TRI_REWARD_WHOLE,
    .field = fields,
    .check = http_check,
    .open = http_open,
    .submit = http_submit,
    .await = http_await,
    .collect = http_collect,
    .show = http_show,
    .forget = http_forget,
    .close = http_close};
