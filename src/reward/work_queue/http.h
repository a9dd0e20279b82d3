/* http.h - the worker of a queue who asks a server by HTTP: several requests at once, failed ones again. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HTTP_H
#define TRI_HTTP_H

#include "base/mask.h"
#include "work_queue.h"

enum { TRI_HTTP_WHY_BYTES = 256 };   /* chosen: leaves space for the address */
enum { TRI_HTTP_SHOWN_BYTES = 121 }; /* chosen: of a reply in a message */
enum { TRI_HTTP_MOST_BATCH = 1024 }; /* chosen: some megabytes of texts */

/* What the worker is told; all is the caller's, as long as the queue. */
typedef struct tri_http_opt {
  const char  *url, *shown; /* shown: for messages, without what is secret */
  tri_secrets *secrets;     /* of the url; a proxy's are added. May be NULL */
  double       timeout_s;   /* of one try */
  int          retries;     /* further tries */
  double       backoff_s;   /* before the first of them; twice as long before the next, up to 30 times */
  /* Jobs of one request at most, 1 to TRI_HTTP_MOST_BATCH. A request waits until it is full, or the main
   * thread waits for answers. */
  int batch;
  /* Not collective. Appends the body of a request with n jobs. */
  tri_status (*write)(tri_job *const *q, int n, tri_text *body);
  /* Not collective. What a reply to n_asked jobs says, in their order: score [n_asked], NAN: no number;
   * extras [n_asked], in which n is 0. false: nothing, and why, in which secrets are masked. */
  bool (*read)(const char *reply, size_t n, const tri_secrets *s, int n_asked, double *score,
               tri_extras *extras, char why[TRI_HTTP_WHY_BYTES]);
} tri_http_opt;
typedef struct tri_http tri_http;

/* Not collective. TRI_EABSENT: this build has no libcurl. The main thread's: before and after its queue's
 * life. */
TRI_CHECKED tri_status tri_http_open(const tri_http_opt *o, tri_http **out);
void                   tri_http_close(tri_http **h);
/* Not collective. Whether open would find a library. */
TRI_CHECKED tri_status tri_http_check(void);
/* tri_work_queue_opt.work; ctx: the tri_http. */
void tri_http_work(void *http, tri_work_queue *d);

#endif
