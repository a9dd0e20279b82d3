/* reward_http.c - http: a server that rewards as OpenRLHF's remote reward models do. */
#include "address.h"
#include "desk/http.h"
#include "reward.h"
#include "io/text/json_text.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* OpenRLHF's (openrlhf/utils/agent.py, _fetch_rewards_via_http): five tries of 180 s, a second between. */
#define TIMEOUT_S 180.0
#define BACKOFF_S 1.0
enum { RETRIES = 4, MOST_RETRIES = 1000 };

typedef struct remote {
  tri_text    url;
  char       *shown;
  tri_secrets secrets; /* of the url */
  tri_http   *http;
  tri_desk   *desk;
} remote;

/* {"rewards": [x]}; x itself will do, as there. */
static bool read_reply(const char *reply, size_t n, const tri_secrets *s, double *score,
                       char why[TRI_HTTP_WHY_BYTES]) {
  char          shown[TRI_HTTP_SHOWN_BYTES];
  json_t       *object = tri_json_fits(reply, n, 4096)
                             ? json_loadb(reply, n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL)
                             : NULL;
  const json_t *rewards = json_object_get(object, "rewards");
  const json_t *one = json_is_array(rewards) ? json_array_get(rewards, 0) : rewards;
  bool          good = false;

  tri_secrets_copy(s, reply, n, shown, sizeof shown);
  if (!json_is_object(object))
    snprintf(why, TRI_HTTP_WHY_BYTES, "the reply is not a JSON object: %s", shown);
  else if (!rewards)
    snprintf(why, TRI_HTTP_WHY_BYTES, "the reply has no `rewards`: %s", shown);
  else if (json_is_array(rewards) && json_array_size(rewards) != 1)
    snprintf(why, TRI_HTTP_WHY_BYTES, "the reply has %zu rewards for 1 answer", json_array_size(rewards));
  else if (!json_is_number(one))
    snprintf(why, TRI_HTTP_WHY_BYTES, "the reply's reward is no number: %s", shown);
  else
    good = true;
  if (good) *score = json_number_value(one);
  json_decref(object);
  return good;
}

/* {"query": [prompt and answer], "prompts": [prompt], "labels": [truth, or ""]}. */
static tri_status put_body(const tri_answer *a, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "{\"query\": ["));
  TRI_TRY(tri_json_put_string(out, a->whole, a->whole_bytes));
  TRI_TRY(tri_text_printf(out, "], \"prompts\": ["));
  TRI_TRY(tri_json_put_string(out, a->opening, a->opening_bytes));
  TRI_TRY(tri_text_printf(out, "], \"labels\": ["));
  TRI_TRY(tri_json_put_string(out, a->truth ? a->truth : "", a->truth ? a->truth_bytes : 0));
  return tri_text_put(out, "]}", 2);
}

static void free_body(void *text) {
  tri_text_free(text);
  tri_host_free(&text);
}

static tri_status http_submit(void *state, const tri_answer *a, int number) {
  remote    *r = state;
  tri_text  *body;
  tri_status st;

  TRI_TRY(TRI_ALLOC(body, 1));
  st = put_body(a, body);
  if (st == TRI_OK) return tri_desk_put(r->desk, number, body);
  free_body(body);
  return st;
}

static bool http_await(void *state, double most_s) { return tri_desk_await(((remote *)state)->desk, most_s); }

static tri_status http_collect(void *state, int n, float *score, tri_reward_fault *fault) {
  return tri_desk_collect(((remote *)state)->desk, n, score, &fault->number, fault->why);
}

static void http_forget(void *state) { tri_desk_forget(((remote *)state)->desk); }

static tri_status read_retries(const tri_reward_opt *o, int *out) {
  const char *text = tri_reward_get(o, "retries");

  *out = RETRIES;
  if (!text) return TRI_OK;
  *out = text[0] && strspn(text, "0123456789") == strlen(text) && strlen(text) < 6 ? atoi(text) : -1;
  if (*out >= 0 && *out <= MOST_RETRIES) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "must be a whole number from 0 to %d", MOST_RETRIES);
}

/* url: the server's address, appended. */
static tri_status read_fields(const tri_reward_opt *o, const char **field, tri_http_opt *out, tri_text *url) {
  *field = "timeout_s";
  TRI_TRY(tri_reward_read_seconds(o, *field, TIMEOUT_S, &out->timeout_s));
  *field = "retries";
  TRI_TRY(read_retries(o, &out->retries));
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
  tri_desk_close(&r->desk);
  tri_http_close(&r->http);
  tri_text_free(&r->url);
  tri_secrets_free(&r->secrets);
  TRI_FREE(r->shown);
  tri_host_free(state);
}

/* For messages: without name and password, query and fragment. */
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
  tri_http_opt http = {.backoff_s = BACKOFF_S, .read = read_reply};
  tri_desk_opt desk = {.name = "http", .work = tri_http_work, .free_text = free_body};
  tri_on_error on_error;
  const char  *field;
  remote      *r;
  tri_status   st = TRI_OK;

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
  desk.ctx = r->http;
  desk.secrets = &r->secrets;
  desk.hasty = on_error == TRI_ON_ERROR_ABORT;
  TRI_TRY_DONE(tri_desk_open(&desk, &r->desk));
done:
  if (st != TRI_OK) http_close(state);
  return st;
}

static const tri_reward_field fields[] = {
    TRI_ADDRESS_FIELDS,
    {.name = "timeout_s",
     .unit = "s",
     .help = "A try without a reply for so long has failed; default 180.",
     .value = "S",
     .what = "seconds of one try (180)"},
    {.name = "retries",
     .unit = "tries",
     .help = "Further tries, after 1, 2, 4, ... s; default 4.",
     .value = "N",
     .what = "further tries (4)"},
    TRI_REWARD_ON_ERROR,
    {.name = NULL}};

const tri_reward tri_reward_http = {.name = "http",
                                    .help = "what a server says, asked as OpenRLHF asks remote reward models",
                                    .values = "any number",
                                    .best = INFINITY,
                                    .needs = TRI_REWARD_TEXT | TRI_REWARD_WHOLE,
                                    .field = fields,
                                    .check = http_check,
                                    .open = http_open,
                                    .submit = http_submit,
                                    .await = http_await,
                                    .collect = http_collect,
                                    .forget = http_forget,
                                    .close = http_close};
