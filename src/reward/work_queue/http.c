/* http.c - the worker thread of an HTTP reward. It sends several requests at once and retries failed ones. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "http.h"

#include "base/clock.h"
#include "base/host_memory.h"
#include "proxy.h"

#if TRI_HAVE_CURL

#include <curl/curl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
  FLIGHTS = 8,           /* chosen: requests at once. Few servers have more threads */
  REPLY_BYTES = 1 << 20, /* chosen: a thousand times the size of a reply */
  HEAD_BYTES = 1 << 18,  /* chosen: of headers, with those of interim replies */
  MOST_BACKOFFS = 30,
  WAIT_MS = 1000 /* chosen: longest sleep. New jobs and bytes of the server end it earlier */
};

/* Jobs of one request. They stay together when it is retried. */
typedef struct request {
  tri_job **q; /* [n] */
  int       n, tries;
  double    when_s; /* earliest time of the next attempt */
  tri_text  body;
} request;

/* One connection and its request. */
typedef struct flight {
  CURL    *curl;
  request *r; /* NULL if idle */
  tri_text reply;
  size_t   head_bytes;
  bool     is_too_long, lacks_memory, is_packed;
  char     error[CURL_ERROR_SIZE];
} flight;

struct tri_http {
  tri_http_opt       opt;
  CURLM             *multi;
  struct curl_slist *header;
  flight             flight[FLIGHTS];
  tri_job          **fresh; /* [n_fresh] in order of arrival. Those from first_fresh on have no request yet */
  request          **again; /* [n_again] failed requests waiting for a retry */
  int64_t            first_fresh, n_fresh, cap_fresh, n_again, cap_again;
  double            *score;  /* [batch] of one reply */
  tri_extras        *extras; /* [batch] of one reply */
  tri_proxy          proxy;
};

static void free_request(request *r) {
  if (!r) return;
  TRI_FREE(r->q);
  tri_text_free(&r->body);
  TRI_FREE(r);
}

static size_t receive(char *bytes, size_t size, size_t n, void *to) {
  flight *f = to;

  f->is_too_long = f->reply.len + size * n > REPLY_BYTES;
  if (f->is_too_long) return 0;
  if (tri_text_put(&f->reply, bytes, size * n) == TRI_OK) return size * n;
  tri_error_clear();
  f->lacks_memory = true;
  return 0;
}

/* Refuses a compressed reply before any byte of it is kept, because the request did not offer compression. */
static size_t receive_head(char *line, size_t size, size_t n, void *to) {
  static const char name[] = "content-encoding:";
  flight           *f = to;
  size_t            bytes = size * n, at = sizeof name - 1;

  f->head_bytes += bytes;
  if (f->head_bytes > HEAD_BYTES) f->is_too_long = true;
  if (bytes > at && !strncasecmp(line, name, at)) {
    while (at < bytes && (line[at] == ' ' || line[at] == '\t')) at++;
    f->is_packed = bytes - at < 8 || strncasecmp(line + at, "identity", 8) != 0;
  }
  return f->is_too_long || f->is_packed ? 0 : bytes;
}

static void set_protocols(CURL *c) {
#if LIBCURL_VERSION_NUM >= 0x075500
  curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
#else
  curl_easy_setopt(c, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

static tri_status open_flight(tri_http *h, flight *f) {
  long ms = (long)(h->opt.timeout_s * 1000) + 1;

  f->curl = curl_easy_init();
  if (!f->curl) TRI_FAIL(TRI_ENOMEM, "the host has no memory left for a connection");
  curl_easy_setopt(f->curl, CURLOPT_URL, h->opt.url);
  curl_easy_setopt(f->curl, CURLOPT_POST, 1L);
  curl_easy_setopt(f->curl, CURLOPT_HTTPHEADER, h->header);
  curl_easy_setopt(f->curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(f->curl, CURLOPT_TIMEOUT_MS, ms);
  curl_easy_setopt(f->curl, CURLOPT_CONNECTTIMEOUT_MS, ms);
  curl_easy_setopt(f->curl, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(f->curl, CURLOPT_USERAGENT, "trireme/" TRI_VERSION);
  curl_easy_setopt(f->curl, CURLOPT_WRITEFUNCTION, receive);
  curl_easy_setopt(f->curl, CURLOPT_WRITEDATA, f);
  curl_easy_setopt(f->curl, CURLOPT_HEADERFUNCTION, receive_head);
  curl_easy_setopt(f->curl, CURLOPT_HEADERDATA, f);
  curl_easy_setopt(f->curl, CURLOPT_PROXY, h->proxy.address); /* "" connects directly, whatever the
                                                               * environment says */
  curl_easy_setopt(f->curl, CURLOPT_NOPROXY, "");             /* proxy.h has read no_proxy */
  curl_easy_setopt(f->curl, CURLOPT_ERRORBUFFER, f->error);
  curl_easy_setopt(f->curl, CURLOPT_PRIVATE, f);
  set_protocols(f->curl);
  return TRI_OK;
}

tri_status tri_http_check(void) { return TRI_OK; }

/* Asks libcurl for the host of the address, because it reads 127.1 as 127.0.0.1. */
static tri_status find_proxy(tri_http *h) {
  CURLU     *url = curl_url();
  char      *scheme = NULL, *host = NULL;
  tri_status st = TRI_OK;

  if (!url) TRI_FAIL(TRI_ENOMEM, "the host has no memory left for libcurl");
  if (curl_url_set(url, CURLUPART_URL, h->opt.url, CURLU_NON_SUPPORT_SCHEME) ||
      curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) || curl_url_get(url, CURLUPART_HOST, &host, 0))
    TRI_FAIL_DONE(TRI_ECONFIG, "%s: libcurl cannot read this address", h->opt.shown);
  tri_proxy_find(scheme, host, &h->proxy);
  if (h->opt.secrets && h->proxy.address[0])
    TRI_TRY_DONE(tri_secrets_add_url(h->opt.secrets, h->proxy.address));
done:
  curl_free(scheme);
  curl_free(host);
  curl_url_cleanup(url);
  return st;
}

tri_status tri_http_open(const tri_http_opt *o, tri_http **out) {
  tri_status         st = TRI_OK;
  struct curl_slist *more;
  tri_http          *h;

  TRI_TRY(TRI_ALLOC(*out, 1));
  h = *out;
  h->opt = *o;
  if (curl_global_init(CURL_GLOBAL_DEFAULT)) TRI_FAIL_DONE(TRI_ENOMEM, "libcurl cannot be started");
  h->header = curl_slist_append(NULL, "Content-Type: application/json");
  more = curl_slist_append(h->header, "Expect:"); /* saves a round trip before the body */
  if (more) more = curl_slist_append(h->header, "Accept-Encoding: identity");
  h->multi = curl_multi_init();
  if (!more || !h->multi) TRI_FAIL_DONE(TRI_ENOMEM, "the host has no memory left for libcurl");
  /* By default libcurl keeps four connections for each active handle, and would close the others as a batch
   * runs out. */
  curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, (long)FLIGHTS);
  curl_multi_setopt(h->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)FLIGHTS);
  TRI_TRY_DONE(find_proxy(h));
  TRI_TRY_DONE(TRI_ALLOC(h->score, h->opt.batch));
  TRI_TRY_DONE(TRI_ALLOC(h->extras, h->opt.batch));
  for (int i = 0; i < FLIGHTS; i++) TRI_TRY_DONE(open_flight(h, &h->flight[i]));
done:
  if (st != TRI_OK) tri_http_close(out);
  return st;
}

/* Frees the connection. The caller takes over its request, or NULL. */
static request *land(tri_http *h, flight *f) {
  request *r = f->r;

  if (r) curl_multi_remove_handle(h->multi, f->curl);
  f->r = NULL;
  return r;
}

/* Drops all requests and jobs. */
static void drop_all(tri_http *h) {
  for (int i = 0; i < FLIGHTS; i++) free_request(land(h, &h->flight[i]));
  for (int64_t i = 0; i < h->n_again; i++) free_request(h->again[i]);
  h->n_again = h->first_fresh = h->n_fresh = 0;
}

void tri_http_close(tri_http **http) {
  tri_http *h = *http;

  if (!h) return;
  drop_all(h);
  for (int i = 0; i < FLIGHTS; i++) {
    curl_easy_cleanup(h->flight[i].curl);
    tri_text_free(&h->flight[i].reply);
  }
  curl_multi_cleanup(h->multi);
  curl_slist_free_all(h->header);
  curl_global_cleanup();
  TRI_FREE(h->fresh);
  TRI_FREE(h->again);
  TRI_FREE(h->score);
  TRI_FREE(h->extras);
  tri_host_free((void **)http);
}

/* ---- one request ---- */

static void start(tri_http *h, flight *f, request *r) {
  f->r = r;
  f->reply.len = 0;
  f->head_bytes = 0;
  f->is_too_long = f->lacks_memory = f->is_packed = false;
  f->error[0] = 0;
  curl_easy_setopt(f->curl, CURLOPT_POSTFIELDS, r->body.data);
  curl_easy_setopt(f->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body.len);
  curl_multi_add_handle(h->multi, f->curl);
}

/* Tells whether the reply has answers. Else it gives the cause, and *again tells whether a retry may help. */
static bool judge(const tri_http *h, flight *f, CURLcode code, char why[TRI_HTTP_WHY_BYTES], bool *again) {
  const char *reply = f->reply.data ? f->reply.data : "";
  char        shown[TRI_HTTP_SHOWN_BYTES];
  long        status = 0;

  *again = true;
  curl_easy_getinfo(f->curl, CURLINFO_RESPONSE_CODE, &status);
  if (f->is_packed)
    snprintf(
        why, TRI_HTTP_WHY_BYTES,
        "the reply is compressed (Content-Encoding) without being asked to. Let the server send plain text");
  else if (f->is_too_long)
    snprintf(why, TRI_HTTP_WHY_BYTES, "the reply has more than %d bytes",
             f->head_bytes > HEAD_BYTES ? HEAD_BYTES : REPLY_BYTES);
  else if (f->lacks_memory)
    snprintf(why, TRI_HTTP_WHY_BYTES, "the host has no memory left for the reply");
  else if (code == CURLE_OPERATION_TIMEDOUT)
    snprintf(why, TRI_HTTP_WHY_BYTES, "no reply within %g s (timeout_s)", h->opt.timeout_s);
  else if (code != CURLE_OK)
    snprintf(why, TRI_HTTP_WHY_BYTES, "%s", f->error[0] ? f->error : curl_easy_strerror(code));
  else if (status >= 200 && status <= 299)
    return h->opt.read(reply, f->reply.len, h->opt.secrets, f->r->n, h->score, h->extras, why);
  else {
    tri_secrets_copy(h->opt.secrets, reply, f->reply.len, shown, sizeof shown); /* masked before it is cut */
    snprintf(why, TRI_HTTP_WHY_BYTES, "HTTP status %ld: %s", status, shown);
  }
  /* Other 4xx are errors of the request. */
  if (code == CURLE_OK) *again = status == 408 || status == 429 || status > 499;
  return false;
}

static void wait_again(tri_http *h, request *r) {
  double backoff_s = h->opt.backoff_s;

  for (int i = 1; i < r->tries && backoff_s < MOST_BACKOFFS * h->opt.backoff_s; i++) backoff_s *= 2;
  r->when_s = tri_now_s() + backoff_s;
  h->again[h->n_again++] = r; /* make_request reserved the space */
}

static void fail(tri_http *h, tri_work_queue *d, const flight *f, tri_job *q, const char *why, int tries) {
  if (f->reply.len) tri_work_queue_keep_reply(d, q, f->reply.data, f->reply.len);
  if (tries > 1)
    tri_work_queue_fail(d, q, "%s%s: %s (after %d tries)", h->opt.shown, h->proxy.said, why, tries);
  else
    tri_work_queue_fail(d, q, "%s%s: %s", h->opt.shown, h->proxy.said, why);
}

/* Answers each job of a reply. A reward that is not a number fails its own job only. */
static void hand_out(tri_http *h, tri_work_queue *d, const flight *f, request *r) {
  char why[TRI_HTTP_WHY_BYTES];

  for (int i = 0; i < r->n; i++) {
    if (!isnan(h->score[i])) {
      tri_work_queue_answer_more(d, r->q[i], h->score[i], &h->extras[i]);
      continue;
    }
    snprintf(why, sizeof why, "reward %d of the reply's %d is not a number", i + 1, r->n);
    fail(h, d, f, r->q[i], why, r->tries);
  }
}

static void finish(tri_http *h, tri_work_queue *d, flight *f, CURLcode code) {
  char     why[TRI_HTTP_WHY_BYTES] = "";
  bool     again, got = judge(h, f, code, why, &again);
  request *r = land(h, f);

  r->tries++;
  if (!got && again && r->tries <= h->opt.retries) {
    wait_again(h, r);
    return;
  }
  if (got) hand_out(h, d, f, r);
  for (int i = 0; !got && i < r->n; i++) fail(h, d, f, r->q[i], why, r->tries);
  free_request(r);
}

/* ---- the worker ---- */

/* Moves the waiting jobs to the front when they are no more than the jobs already sent. Each job is moved
 * once on average, however many wait. */
static void close_up(tri_http *h) {
  int64_t n = h->n_fresh - h->first_fresh;

  if (h->first_fresh < n || !h->first_fresh) return;
  memcpy(h->fresh, h->fresh + h->first_fresh, (size_t)n * sizeof *h->fresh);
  h->first_fresh = 0;
  h->n_fresh = n;
}

/* Takes all new jobs. Returns false when the queue closes. */
static bool take_all(tri_http *h, tri_work_queue *d) {
  for (;;) {
    tri_job             *q;
    tri_work_queue_order order = tri_work_queue_take(d, &q);
    if (order == TRI_WORK_QUEUE_CLOSE) return false;
    if (order == TRI_WORK_QUEUE_FORGET) {
      drop_all(h);
      continue;
    }
    if (!q) return true;
    close_up(h);
    if (TRI_GROW(h->fresh, h->cap_fresh, h->n_fresh + 1) == TRI_OK) {
      h->fresh[h->n_fresh++] = q;
    } else {
      tri_error_clear();
      tri_work_queue_fail(d, q, "the host has no memory left for it");
    }
  }
}

/* Makes a request of the next n jobs. Free it with free_request. */
static tri_status make_request(tri_http *h, int n, request **out) {
  tri_status st = TRI_OK;

  TRI_TRY(TRI_GROW(h->again, h->cap_again, h->n_again + FLIGHTS + 1)); /* space for all in flight too, so that
                                                                        * wait_again cannot fail */
  TRI_TRY(TRI_ALLOC(*out, 1));
  TRI_TRY_DONE(TRI_ALLOC((*out)->q, n));
  (*out)->n = n;
  memcpy((*out)->q, h->fresh + h->first_fresh, (size_t)n * sizeof *h->fresh);
  TRI_TRY_DONE(h->opt.write((*out)->q, n, &(*out)->body));
done:
  if (st != TRI_OK) free_request(*out);
  return st;
}

/* Returns the next new request, or NULL. It is full, or has all jobs left if the main thread waits. */
static request *next_fresh(tri_http *h, tri_work_queue *d) {
  request *r = NULL;

  for (int64_t left; (left = h->n_fresh - h->first_fresh) > 0;) {
    if (left < h->opt.batch && !tri_work_queue_is_awaited(d)) return NULL;
    int        n = left < h->opt.batch ? (int)left : h->opt.batch;
    tri_status st = make_request(h, n, &r);
    for (int i = 0; st != TRI_OK && i < n; i++)
      tri_work_queue_fail(d, h->fresh[h->first_fresh + i], "the host has no memory left for it");
    if (st != TRI_OK) tri_error_clear();
    h->first_fresh += n;
    if (st == TRI_OK) return r;
  }
  return NULL;
}

/* Returns a request that is due for a retry, or NULL. */
static request *next_again(tri_http *h, double now_s) {
  for (int64_t i = 0; i < h->n_again; i++) {
    request *r = h->again[i];
    if (r->when_s > now_s) continue;
    memmove(&h->again[i], &h->again[i + 1], (size_t)(--h->n_again - i) * sizeof *h->again);
    return r;
  }
  return NULL;
}

/* Sends the requests that are due, and returns the milliseconds until the next is. */
static int start_due(tri_http *h, tri_work_queue *d) {
  double now_s = tri_now_s();
  int    ms = WAIT_MS;

  for (int i = 0; i < FLIGHTS; i++) {
    if (h->flight[i].r) continue;
    request *r = next_again(h, now_s);
    if (!r) r = next_fresh(h, d);
    if (!r) break;
    start(h, &h->flight[i], r);
  }
  for (int64_t i = 0; i < h->n_again; i++) {
    double left_ms = (h->again[i]->when_s - now_s) * 1000;
    if (left_ms > 0 && left_ms < ms) ms = (int)left_ms + 1;
  }
  return ms;
}

/* Handles replies that have arrived, and tells whether there were any. */
static bool land_all(tri_http *h, tri_work_queue *d) {
  CURLMsg *m;
  bool     any = false;
  int      left, running;

  curl_multi_perform(h->multi, &running);
  while ((m = curl_multi_info_read(h->multi, &left)) != NULL) {
    flight *f = NULL;
    if (m->msg != CURLMSG_DONE) continue;
    CURLcode code = m->data.result;
    curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&f);
    finish(h, d, f, code);
    any = true;
  }
  return any;
}

void tri_http_work(void *http, tri_work_queue *d) {
  tri_http *h = http;

  while (take_all(h, d)) {
    struct curl_waitfd wakeup = {tri_work_queue_wakeup(d), CURL_WAIT_POLLIN, 0};
    int                ms = start_due(h, d);
    if (!land_all(h, d)) curl_multi_wait(h->multi, &wakeup, 1, ms, NULL);
  }
}

#else

tri_status tri_http_check(void) {
  TRI_FAIL(TRI_EABSENT, "this build has no libcurl, which http needs. Build Trireme with it (TRI_CURL)");
}

tri_status tri_http_open(const tri_http_opt *o, tri_http **out) {
  (void)o;
  *out = NULL;
  return tri_http_check();
}

void tri_http_close(tri_http **h) { (void)h; }

void tri_http_work(void *http, tri_work_queue *d) { (void)http, (void)d; }

#endif
