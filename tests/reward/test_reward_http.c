/* test_reward_http.c - a server as a reward: its requests, several at once over open connections, and its
 * failures. Judge: the request of OpenRLHF written out, and the counts of this test's server. Loopback
 * only. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "reward/work_queue/proxy.h"
#include "reward/reward.h"
#include "refusal_case.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

enum { MOST = 32, TOGETHER = 4 };

/* 116 of the 120 bytes of a reply in a message. */
#define EDGE_PART "<title>no such page</title> "
#define EDGE      EDGE_PART EDGE_PART EDGE_PART EDGE_PART "key="

/* ---- the server ---- */

static struct {
  pthread_mutex_t lock;
  pthread_cond_t  news;
  int             socket, port;
  int             connections, requests, here; /* requests waiting to be answered together */
  int             failing;                     /* number of further requests for "flaky" answered with 503 */
  bool            closes;                      /* stalled requests may go on */
  char            body[4096], head[4096];      /* parts of the last request */
} server = {.lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER};

static char large[1 << 21]; /* blanks */

static int count_requests(void) {
  int n;

  pthread_mutex_lock(&server.lock);
  n = server.requests;
  pthread_mutex_unlock(&server.lock);
  return n;
}

static void send_text(int fd, const char *text) { (void)!send(fd, text, strlen(text), MSG_NOSIGNAL); }

static void reply(int fd, int status, const char *body) {
  char text[1024];

  snprintf(text, sizeof text,
           "HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", status,
           strlen(body), body);
  send_text(fd, text);
}

/* Bytes of the response in the last query, behind the prompt. */
static void reply_bytes(int fd, const char *body, bool bare) {
  json_t     *o = json_loads(body, 0, NULL);
  const char *query = json_string_value(json_array_get(json_object_get(o, "query"), 0));
  const char *prompt = json_string_value(json_array_get(json_object_get(o, "prompts"), 0));
  char        text[256];

  snprintf(text, sizeof text,
           bare ? "{\"rewards\": %zu}" : "{\"rewards\": [%zu], \"scores\": [9], \"extra_logs\": {}}",
           query && prompt ? strlen(query) - strlen(prompt) : 999);
  reply(fd, 200, text);
  json_decref(o);
}

/* Replies to a batch with the bytes of each response. A response "word" gets text instead of a number, and
 * with "short" one reward is missing. extra_logs has half of each, and the number of answers once for all. */
static void reply_batch(int fd, const char *body) {
  json_t *o = json_loads(body, 0, NULL), *query = json_object_get(o, "query"),
         *prompts = json_object_get(o, "prompts");
  json_t *rewards = json_array(), *half = json_array(), *all;
  char   *text;

  for (size_t i = 0; i < json_array_size(query); i++) {
    const char *word =
        json_string_value(json_array_get(query, i)) + json_string_length(json_array_get(prompts, i));
    if (strcmp(word, "short") != 0)
      json_array_append_new(rewards,
                            strcmp(word, "word") ? json_integer((json_int_t)strlen(word)) : json_string("1"));
    json_array_append_new(half, json_real((double)strlen(word) / 2));
  }
  all = json_pack("{so si s{so}}", "rewards", rewards, "asked", (int)json_array_size(query), "extra_logs",
                  "half", half);
  text = json_dumps(all, 0);
  reply(fd, 200, text);
  free(text);
  json_decref(all);
  json_decref(o);
}

/* Answers once TOGETHER requests have arrived. */
static void wait_for_others(void) {
  pthread_mutex_lock(&server.lock);
  if (++server.here == TOGETHER) pthread_cond_broadcast(&server.news);
  while (server.here < TOGETHER) pthread_cond_wait(&server.news, &server.lock);
  pthread_mutex_unlock(&server.lock);
}

static void wait_for_end(void) {
  pthread_mutex_lock(&server.lock);
  while (!server.closes) pthread_cond_wait(&server.news, &server.lock);
  pthread_mutex_unlock(&server.lock);
}

static bool is_failing(void) {
  bool fails;

  pthread_mutex_lock(&server.lock);
  fails = server.failing > 0 && server.failing-- > 0;
  pthread_mutex_unlock(&server.lock);
  return fails;
}

/* Returns false to close the connection. */
static bool serve(int fd, const char *body) {
  if (strstr(body, "stall")) {
    wait_for_end();
    return false;
  }
  if (strstr(body, "packed")) {
    send_text(fd, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\n\x1f\x8b");
    return false;
  }
  if (strstr(body, "heads")) { /* endless interim replies */
    for (int i = 0; i < 100000 && send(fd, "HTTP/1.1 102 X\r\na: b\r\n\r\n", 24, MSG_NOSIGNAL) > 0; i++)
      continue;
    return false;
  }
  if (strstr(body, "half")) {
    send_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"rewards\": [");
    return false;
  }
  if (strstr(body, "cut")) return false; /* no reply at all */
  if (strstr(body, "noise")) {
    send_text(fd, "hello\r\n\r\n");
    return false;
  }
  if (strstr(body, "huge")) {
    send_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n");
    send_text(fd, large);
    return false;
  }
  if (strstr(body, "together")) wait_for_others();
  if (strstr(body, "s500"))
    reply(fd, 500, "our mistake");
  else if (strstr(body, "echo"))
    reply(fd, 404, "nothing at /x?key=SEKRIT for user:hunter2");
  else if (strstr(body, "edge")) /* puts the word of the address at the cut of a message */
    reply(fd, 404, EDGE "SEKRIT");
  else if (strstr(body, "s404"))
    reply(fd, 404, "no such page");
  else if (strstr(body, "s302"))
    reply(fd, 302, "");
  else if (strstr(body, "flaky") && is_failing())
    reply(fd, 503, "busy");
  else if (strstr(body, "two"))
    reply(fd, 200, "{\"rewards\": [1, 2]}");
  else if (strstr(body, "none"))
    reply(fd, 200, "{\"rewards\": []}");
  else if (strstr(body, "other"))
    reply(fd, 200, "{\"reward\": 1}");
  else if (strstr(body, "text"))
    reply(fd, 200, "{\"rewards\": [\"1\"]}");
  else if (strstr(body, "nan"))
    reply(fd, 200, "{\"rewards\": [NaN]}");
  else if (strstr(body, "integer"))
    reply(fd, 200, "{\"rewards\": [100000000000000000000]}");
  else if (strstr(body, "beyond"))
    reply(fd, 200, "{\"rewards\": [1e999]}");
  else if (strstr(body, "page"))
    reply(fd, 200, "<html>");
  else if (strstr(body, "batch"))
    reply_batch(fd, body);
  else
    reply_bytes(fd, body, strstr(body, "bare"));
  return true;
}

/* Reads one request and its body. Returns false if the connection was closed. */
static bool read_request(int fd, char *text, size_t bytes, char **body) {
  size_t n = 0, want = 0;

  for (*body = NULL; !*body || n < (size_t)(*body - text) + want;) {
    ssize_t got = recv(fd, text + n, bytes - 1 - n, 0);
    if (got <= 0) return false;
    n += (size_t)got;
    text[n] = 0;
    if (*body || !(*body = strstr(text, "\r\n\r\n"))) continue;
    *body += 4;
    want = (size_t)atol(strstr(text, "Content-Length: ") + 16);
  }
  return true;
}

static void *serve_connection(void *at) {
  static __thread char text[1 << 16];
  int                  fd = *(int *)at;
  char                *body;
  bool                 open = true;

  free(at);
  while (open && read_request(fd, text, sizeof text, &body)) {
    pthread_mutex_lock(&server.lock);
    server.requests++;
    snprintf(server.body, sizeof server.body, "%s", body);
    snprintf(server.head, sizeof server.head, "%.*s", (int)(body - text), text);
    pthread_mutex_unlock(&server.lock);
    open = serve(fd, body);
  }
  close(fd);
  return NULL;
}

static void *accept_all(void *unused) {
  (void)unused;
  for (;;) {
    int      *fd = malloc(sizeof *fd);
    pthread_t one;
    *fd = accept(server.socket, NULL, NULL);
    if (*fd < 0) {
      free(fd);
      return NULL;
    }
    pthread_mutex_lock(&server.lock);
    server.connections++;
    pthread_mutex_unlock(&server.lock);
    pthread_create(&one, NULL, serve_connection, fd);
    pthread_detach(one);
  }
}

/* A port of this test's own, without a listener yet. */
static int bind_anywhere(int *port) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t          n = sizeof a;
  int                fd = socket(AF_INET, SOCK_STREAM, 0);

  assert_true(fd >= 0 && !bind(fd, (struct sockaddr *)&a, sizeof a));
  assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
  *port = ntohs(a.sin_port);
  return fd;
}

/* ---- requests ---- */

static int setup(void **state) {
  (void)state;
  tri_error_clear();
  pthread_mutex_lock(&server.lock);
  server.connections = server.requests = server.here = server.failing = 0;
  pthread_mutex_unlock(&server.lock);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  tri_error_clear();
  return tri_host_bytes() == 0 ? 0 : -1;
}

static tri_reward_set *open_url(const char *url, const char *timeout_s, const char *retries,
                                const char *on_error) {
  const tri_reward_env env = {.backoff_s = 1e-3};
  tri_reward_opt       o = {.name = "http", .weight = 1, .n_field = 4};
  tri_reward_set      *set = NULL;

  o.field[0].name = "url";
  o.field[0].value = url;
  o.field[1].name = "timeout_s";
  o.field[1].value = timeout_s;
  o.field[2].name = "retries";
  o.field[2].value = retries;
  o.field[3].name = "on_error";
  o.field[3].value = on_error;
  assert_int_equal(tri_reward_set_open(&o, 1, &env, &set), TRI_OK);
  return set;
}

static tri_reward_set *open_set(int port, const char *timeout_s, const char *retries, const char *on_error) {
  char url[64];

  snprintf(url, sizeof url, "http://127.0.0.1:%d/get_reward", port);
  return open_url(url, timeout_s, retries, on_error);
}

typedef struct outcome {
  tri_status st;
  int        n;
  float      total[MOST];
  int32_t    failed[MOST];
} outcome;

/* Submits responses, separated by spaces. */
static outcome ask(tri_reward_set *set, const char *responses) {
  static char text[1024], whole[MOST][64];
  outcome     x = {0};
  tri_answer  a[MOST];
  float       part[MOST];

  snprintf(text, sizeof text, "%s", responses);
  for (char *word = strtok(text, " "); word; word = strtok(NULL, " "), x.n++) {
    snprintf(whole[x.n], sizeof whole[x.n], "2+\"3=%s", word);
    a[x.n] = (tri_answer){.prompt_id = 40 + x.n,
                          .opening = "2+\"3=",
                          .opening_bytes = 5,
                          .response = word,
                          .response_bytes = strlen(word),
                          .truth = x.n % 2 ? NULL : "5",
                          .truth_bytes = x.n % 2 ? 0 : 1,
                          .whole = whole[x.n],
                          .whole_bytes = strlen(whole[x.n])};
  }
  x.st = tri_reward_set_score(set, a, x.n, part, x.total, x.failed);
  return x;
}

/* The first answer gets its bytes, the second fails, and the last gets its bytes. */
static void check_between(const char *bad, int requests) {
  tri_reward_set *set = open_set(server.port, "20", "2", "drop");
  char            responses[64];
  int             before = count_requests();
  outcome         x;

  snprintf(responses, sizeof responses, "a %s bcd", bad);
  x = ask(set, responses);
  assert_int_equal(x.st, TRI_OK);
  if (x.total[0] != 1 || x.total[2] != 3 || !isnan(x.total[1]) || !x.failed[1])
    fail_msg("%s: %g %g %g", bad, (double)x.total[0], (double)x.total[1], (double)x.total[2]);
  /* libcurl itself retries once if the server has closed an idle connection */
  if (count_requests() - before != requests && strcmp(bad, "cut"))
    fail_msg("%s: %d requests", bad, count_requests() - before);
  tri_reward_set_close(&set);
}

static tri_reward_set *open_batch(const char *batch, const char *retries, const char *on_error) {
  const tri_reward_env env = {.backoff_s = 1e-3};
  char                 url[64];
  tri_reward_opt       o = {.name = "http",
                            .weight = 1,
                            .n_field = 3,
                            .field = {{"url", url, 0}, {"batch", batch, 0}, {"retries", retries, 0}}};
  tri_reward_set      *set = NULL;

  o.field[o.n_field].name = "on_error";
  o.field[o.n_field++].value = on_error;

  snprintf(url, sizeof url, "http://127.0.0.1:%d/get_reward", server.port);
  assert_int_equal(tri_reward_set_open(&o, 1, &env, &set), TRI_OK);
  return set;
}

/* Each response contains "batch", so the server replies with a list. */
static void batches_are_asked(void **state) {
  tri_reward_set *set = open_batch("3", "2", "drop");
  tri_reward_mean mean[TRI_EXTRAS_MOST];
  outcome         x = ask(set, "batch batcha batchab batchabc batchabcd");
  int             n;

  (void)state;
  assert_int_equal(x.st, TRI_OK);
  for (int i = 0; i < 5; i++) assert_true(x.total[i] == (float)(5 + i) && !x.failed[i]); /* in their order */
  assert_int_equal(count_requests(), 2);                                                 /* 3 and 2 */
  assert_int_equal(tri_reward_set_extras(set, 0, NULL, mean, &n), TRI_OK);
  assert_int_equal(n, 2);
  assert_string_equal(mean[0].name, "asked");
  assert_true(mean[0].sum == 3 * 3 + 2 * 2 && mean[0].n == 5);
  assert_string_equal(mean[1].name, "half");
  assert_true(mean[1].sum == 35 / 2.0 && mean[1].n == 5);
  x = ask(set, ""); /* no jobs, no request */
  assert_true(x.st == TRI_OK && count_requests() == 2);
  x = ask(set, "batch batcha");
  assert_string_equal(server.body, "{\"query\": [\"2+\\\"3=batch\", \"2+\\\"3=batcha\"], \"prompts\": "
                                   "[\"2+\\\"3=\", \"2+\\\"3=\"], \"labels\": [\"5\", \"\"]}");
  tri_reward_set_close(&set);
}

/* A reply with a wrong number of rewards fails all jobs of its request and no others. A reward that is not a
 * number fails one answer. */
static void batches_fail_as_they_are_asked(void **state) {
  tri_reward_set *set = open_batch("2", "0", "drop");
  outcome         x = ask(set, "batch short batch batch word batch batch");
  const bool      fails[] = {true, true, false, false, true, false, false};

  (void)state;
  assert_int_equal(x.st, TRI_OK);
  for (int i = 0; i < 7; i++) assert_true((x.failed[i] != 0) == fails[i] && isnan(x.total[i]) == fails[i]);
  assert_int_equal(count_requests(), 4);
  tri_reward_set_close(&set);
  set = open_batch("4", "2", "drop"); /* the whole request is retried, and no other */
  pthread_mutex_lock(&server.lock);
  server.failing = 2;
  server.requests = 0;
  pthread_mutex_unlock(&server.lock);
  x = ask(set, "batch flaky batch batch batch batch batch batch");
  for (int i = 0; i < 8; i++) assert_true(!x.failed[i] && x.total[i] == 5);
  assert_int_equal(count_requests(), 4); /* three times, once */
  tri_reward_set_close(&set);
}

static void asks_as_openrlhf(void **state) {
  tri_reward_set *set = open_set(server.port, "20", "0", "abort");
  outcome         x = ask(set, "abc");

  (void)state;
  assert_int_equal(x.st, TRI_OK);
  assert_true(x.total[0] == 3);
  assert_string_equal(server.body,
                      "{\"query\": [\"2+\\\"3=abc\"], \"prompts\": [\"2+\\\"3=\"], \"labels\": [\"5\"]}");
  assert_true(!strncmp(server.head, "POST /get_reward HTTP/1.1\r\n", 27));
  assert_non_null(strstr(server.head, "Content-Type: application/json\r\n"));
  x = ask(set, "a bare integer");
  assert_true(x.st == TRI_OK && x.total[0] == 1 && x.total[1] == 4 && x.total[2] == 1e20F);
  tri_reward_set_close(&set);
}

/* The server answers when four requests have arrived, so they are in flight at once. The next step uses the
 * same connections. */
static void asks_several_at_once(void **state) {
  tri_reward_set *set = open_set(server.port, "20", "0", "abort");
  outcome         x = ask(set, "together together together together");

  (void)state;
  assert_int_equal(x.st, TRI_OK);
  for (int i = 0; i < 4; i++) assert_true(x.total[i] == 8);
  for (int step = 0; step < 3; step++) {
    x = ask(set, "a bc def ghij abcde abcdef abcdefg abcdefgh abcdefghi abcdefghij");
    assert_int_equal(x.st, TRI_OK);
    for (int i = 0; i < 10; i++) assert_true(x.total[i] == (float)(i + 1));
  }
  assert_int_equal(count_requests(), 34);
  assert_true(server.connections <= 8);
  tri_reward_set_close(&set);
}

/* Each failure is retried twice, except errors of the request. */
static void failures_are_tried_again(void **state) {
  static const char *const bad[] = {"packed", "heads", "half",  "cut",  "noise", "huge",   "s500", "s302",
                                    "two",    "none",  "other", "text", "nan",   "beyond", "page"};

  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    check_between(bad[i], !strcmp(bad[i], "s302") ? 3 : 5);
  check_between("s404", 3);
  server.failing = 2;
  tri_reward_set *set = open_set(server.port, "20", "2", "abort");
  outcome         x = ask(set, "flaky");
  assert_true(x.st == TRI_OK && x.total[0] == 5 && !x.failed[0]);
  tri_reward_set_close(&set);
}

static void a_server_that_stalls_is_left(void **state) {
  tri_reward_set *set = open_set(server.port, "3", "0", "zero");
  outcome         x = ask(set, "a stall bcd");

  (void)state;
  assert_int_equal(x.st, TRI_OK);
  assert_true(x.total[0] == 1 && x.total[1] == 0 && x.failed[1] && x.total[2] == 3);
  tri_reward_set_close(&set);
}

static void on_error_is_obeyed(void **state) {
  tri_reward_set *set = open_set(server.port, "20", "2", "abort");
  outcome         x = ask(set, "a two s500");
  int             port, fd;
  char            url[96];

  (void)state;
  assert_int_equal(x.st, TRI_EREWARD);
  expect_refusal("judge_error() http prompt_id 3 on_error abort");
  tri_error_clear();
  x = ask(set, "abc");
  assert_true(x.st == TRI_OK && x.total[0] == 3);
  x = ask(set, "s404");
  assert_int_equal(x.st, TRI_EREWARD);
  expect_refusal("judge_error() 40 404 page on_error /get_reward");
  tri_error_clear();
  tri_reward_set_close(&set);
  fd = bind_anywhere(&port);
  snprintf(url, sizeof url, "http://me:secret@127.0.0.1:%d/get_reward?key=secret", port);
  set = open_url(url, "20", "1", "abort");
  x = ask(set, "abc");
  assert_int_equal(x.st, TRI_EREWARD);
  snprintf(url, sizeof url, ": http://127.0.0.1:%d/get_reward: ", port);
  if (!refusal_is(url) || !refusal_is("judge_error() http 2") || strstr(tri_error_message(), "secret"))
    fail_msg("%s", tri_error_message());
  tri_error_clear();
  tri_reward_set_close(&set);
  close(fd);
}

static void fails_with(const char *url, const char *answer, const char *why) {
  tri_reward_set *set = open_url(url, "20", "0", "abort");
  outcome         x = ask(set, answer);

  assert_int_equal(x.st, TRI_EREWARD);
  expect_refusal(why);
  if (strstr(tri_error_message(), "SEK") || strstr(tri_error_message(), "hunter2"))
    fail_msg("%s", tri_error_message());
  tri_error_clear();
  tri_reward_set_close(&set);
}

/* Parts of the address in the server's reply are masked too. */
static void secrets_stay_out_of_messages(void **state) {
  char url[96];

  (void)state;
  snprintf(url, sizeof url, "http://user:hunter2@127.0.0.1:%d/x?key=SEKRIT", server.port);
  fails_with(url, "echo", "judge_error() 40 404 /x?key=*** ***");
  fails_with(url, "edge", " 404: " EDGE_PART);
}

/* A proxy without a listener. Loopback in any spelling never goes there. For another host the message names
 * the variable with the proxy. */
static void loopback_goes_by_no_proxy(void **state) {
  static const char *const here[] = {"127.0.0.1", "localhost", "127.1", "LOCALHOST"};
  char                     url[96], proxy[96];
  int                      port, fd = bind_anywhere(&port);

  (void)state;
  snprintf(proxy, sizeof proxy, "http://user:hunter2@127.0.0.1:%d", port);
  setenv("http_proxy", proxy, 1);
  for (size_t i = 0; i < sizeof here / sizeof *here; i++) {
    snprintf(url, sizeof url, "http://%s:%d/get_reward", here[i], server.port);
    tri_reward_set *set = open_url(url, "20", "0", "abort");
    outcome         x = ask(set, "abc");
    if (x.st != TRI_OK || x.total[0] != 3) fail_msg("%s: %s", here[i], tri_error_message());
    tri_reward_set_close(&set);
  }
  snprintf(proxy, sizeof proxy,
           "http://other.test/x by the proxy http_proxy=http://***@127.0.0.1:%d (no_proxy is not set", port);
  fails_with("http://other.test/x", "echo", proxy);
  setenv("NO_PROXY", "localhost,.corp", 1);
  fails_with("http://other.test/x", "echo", "judge_error() http prompt_id NO_PROXY=localhost,.corp");
  unsetenv("NO_PROXY");
  unsetenv("http_proxy");
  snprintf(proxy, sizeof proxy, "127.0.0.1:%d", port);
  setenv("ALL_PROXY", proxy, 1);
  fails_with("http://other.test/x", "echo", "judge_error() http ALL_PROXY=127.0.0.1");
  unsetenv("ALL_PROXY");
  close(fd);
}

/* Judge: libcurl's documentation of CURLOPT_PROXY and CURLOPT_NOPROXY. */
static void proxies_are_chosen_as_libcurl_does(void **state) {
  static const struct {
    const char *scheme, *host, *http, *https, *all, *none, *want;
  } c[] = {{"http", "a.b", "p", "q", "r", NULL, "p"},
           {"https", "a.b", "p", "q", "r", NULL, "q"},
           {"https", "a.b", "p", NULL, "r", NULL, "r"},
           {"http", "a.b", "", NULL, "r", NULL, "r"},
           {"http", "a.b", NULL, "q", NULL, NULL, ""},
           {"http", "a.b", "p", NULL, NULL, "*", ""},
           {"http", "a.b", "p", NULL, NULL, "x, .B", ""},
           {"http", "ab", "p", NULL, NULL, "b", "p"},
           {"http", "a.b.", "p", NULL, NULL, "a.b", ""},
           {"http", "10.1.2.3", "p", NULL, NULL, "10.0.0.0/8", ""},
           {"http", "11.1.2.3", "p", NULL, NULL, "10.0.0.0/8", "p"},
           {"http", "10.1.2.3", "p", NULL, NULL, "2.3", "p"},
           {"http", "[fd00::1]", "p", NULL, NULL, "fd00::/16", ""},
           {"http", "[::1]", "p", NULL, NULL, NULL, ""},
           {"http", "127.9.9.9", "p", NULL, NULL, NULL, ""},
           {"http", "[::ffff:127.0.0.1]", "p", NULL, NULL, NULL, ""},
           {"http", "x.localhost", "p", NULL, NULL, NULL, ""},
           {"http", "128.0.0.1", "p", NULL, NULL, NULL, "p"}};

  (void)state;
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    const char *const name[] = {"http_proxy", "https_proxy", "all_proxy", "no_proxy"};
    const char *const value[] = {c[i].http, c[i].https, c[i].all, c[i].none};
    tri_proxy         p;
    for (int k = 0; k < 4; k++) value[k] ? setenv(name[k], value[k], 1) : unsetenv(name[k]);
    tri_proxy_find(c[i].scheme, c[i].host, &p);
    if (strcmp(p.address, c[i].want) != 0) fail_msg("%zu: %s", i, p.address);
    assert_true(!p.address[0] == !p.said[0]);
    for (int k = 0; k < 4; k++) unsetenv(name[k]);
  }
}

static void check_way(const char *field, const char *value, const char *why) {
  const tri_reward_env env = {.backoff_s = 1e-3};
  tri_reward_opt       o = {.name = "http", .weight = 1, .n_field = 1, .field = {{field, value, 0}}};
  tri_reward_set      *set = NULL;
  tri_status           st = tri_reward_set_open(&o, 1, &env, &set);

  if (st == TRI_OK && !why) {
    outcome x = ask(set, "abc");
    assert_true(x.st == TRI_OK && x.total[0] == 3);
  } else if (st != TRI_ECONFIG || !why || !refusal_is(why) || strstr(tri_error_message(), "hunter2")) {
    fail_msg("%s = %s: %s", field, value, tri_error_message());
  }
  tri_error_clear();
  tri_reward_set_close(&set);
}

/* The address in a private file or in a variable is used and never shown. */
static void addresses_may_lie_elsewhere(void **state) {
  char path[] = "/tmp/tri_url_XXXXXX", text[128];
  int  fd = mkstemp(path), n;

  (void)state;
  n = snprintf(text, sizeof text, " http://user:hunter2@127.0.0.1:%d/x \n", server.port);
  assert_true(write(fd, text, (size_t)n) == n);
  check_way("url_file", path, NULL);
  assert_int_equal(fchmod(fd, 0640), 0);
  check_way("url_file", path, NULL);
  assert_int_equal(fchmod(fd, 0644), 0);
  check_way("url_file", path, "check_mode() reward.url_file 644 600");
  assert_int_equal(fchmod(fd, 0660), 0);
  check_way("url_file", path, "check_mode() reward.url_file 660");
  assert_int_equal(fchmod(fd, 0600), 0);
  assert_true(write(fd, "http://hunter2/", 15) == 15);
  check_way("url_file", path, "has several lines");
  assert_int_equal(ftruncate(fd, 0), 0);
  check_way("url_file", path, "is empty");
  assert_int_equal(ftruncate(fd, 1 << 20), 0);
  check_way("url_file", path, "read_file() reward.url_file 8192");
  close(fd);
  unlink(path);
  check_way("url_file", path, "read_file() reward.url_file !8192");
  check_way("url_file", "/dev/zero", "check_mode() reward.url_file /dev/zero");
  setenv("REWARD_URL", text, 1);
  check_way("url_env", "REWARD_URL", NULL);
  setenv("REWARD_URL", "hunter2", 1);
  check_way("url_env", "REWARD_URL", "check_url() reward.url_env REWARD_URL http://HOST:PORT/PATH");
  unsetenv("REWARD_URL");
  check_way("url_env", "REWARD_URL", "read_variable() reward.url_env REWARD_URL --export");
  check_way("url_env", "TRI_URL", "read_variable() reward.url_env TRI_URL TRI_");
  check_way("url_env", "http://user:hunter2@h", "read_variable() reward.url_env http://***@h _");
}

static void what_is_forgotten_is_gone(void **state) {
  tri_reward_set *set = open_set(server.port, "20", "0", "abort");
  tri_answer      a = {.opening = "", .response = "", .whole = "stall", .whole_bytes = 5};
  outcome         x;

  (void)state;
  for (int i = 0; i < 10; i++) assert_int_equal(tri_reward_set_submit(set, &a, i), TRI_OK);
  tri_reward_set_forget(set);
  x = ask(set, "abc");
  assert_true(x.st == TRI_OK && x.total[0] == 3);
  for (int i = 0; i < 10; i++) assert_int_equal(tri_reward_set_submit(set, &a, i), TRI_OK);
  tri_reward_set_close(&set); /* and with ten open */
}

static void refuses(void **state) {
  static const struct {
    const char *field, *value, *why;
  } c[] = {
      {"url", "http://user:hunter2@h/ x", "check_url() reward.url http://***@h/ x http://HOST:PORT/PATH"},
      {"url", "http://***@h/x?key=***", "check_masks() reward.url http://***@h/x?key=*** ***"},
      {"url_env", "X", "check_must() reward url_file url_env"},
      {"url", "localhost:5000", "check_url() reward.url localhost:5000 http://HOST:PORT/PATH"},
      {"url", "file:///etc/passwd", "check_url() reward.url http://HOST:PORT/PATH"},
      {"url", "http:///x", "check_url() reward.url http://HOST:PORT/PATH"},
      {"retries", "-1", "read_count() reward.retries -1 0 1000"},
      {"retries", "many", "read_count() reward.retries many 0"},
      {"timeout_s", "-1", "tri_reward_read_seconds() reward.timeout_s -1 0"}};

  (void)state;
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    tri_reward_opt o = {.name = "http", .weight = 1, .n_field = 1, .field = {{"url", "http://h/", 0}}};
    int            at = strcmp(c[i].field, "url") ? o.n_field++ : 0;
    o.field[at].name = c[i].field;
    o.field[at].value = c[i].value;
    assert_int_equal(tri_reward_check(&o, NULL), TRI_ECONFIG);
    expect_refusal(c[i].why);
    tri_error_clear();
  }
}

/* A build without libcurl refuses http. */
static bool is_absent(void) {
  tri_reward_opt o = {.name = "http", .weight = 1, .n_field = 1, .field = {{"url", "http://h/", 0}}};
  bool           absent = tri_reward_check(&o, NULL) == TRI_EABSENT;

  if (absent) printf("%s\n", tri_error_message());
  tri_error_clear();
  return absent;
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {CASE(asks_as_openrlhf),
                                     CASE(batches_are_asked),
                                     CASE(batches_fail_as_they_are_asked),
                                     CASE(asks_several_at_once),
                                     CASE(failures_are_tried_again),
                                     CASE(a_server_that_stalls_is_left),
                                     CASE(on_error_is_obeyed),
                                     CASE(secrets_stay_out_of_messages),
                                     CASE(loopback_goes_by_no_proxy),
                                     CASE(proxies_are_chosen_as_libcurl_does),
                                     CASE(addresses_may_lie_elsewhere),
                                     CASE(what_is_forgotten_is_gone),
                                     CASE(refuses)};
  pthread_t               acceptor;
  int                     failed;

  if (is_absent()) return 0;
  memset(large, ' ', sizeof large - 1);

  unsetenv("http_proxy");
  unsetenv("all_proxy");
  unsetenv("ALL_PROXY");
  unsetenv("no_proxy");
  unsetenv("NO_PROXY");
  server.socket = bind_anywhere(&server.port);
  if (listen(server.socket, 64)) return 1;
  pthread_create(&acceptor, NULL, accept_all, NULL);
  failed = cmocka_run_group_tests(tests, NULL, NULL);
  pthread_mutex_lock(&server.lock);
  server.closes = true;
  pthread_cond_broadcast(&server.news);
  pthread_mutex_unlock(&server.lock);
  shutdown(server.socket, SHUT_RDWR);
  pthread_join(acceptor, NULL);
  close(server.socket);
  return failed;
}
