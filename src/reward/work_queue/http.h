/* http.h - the worker thread of an HTTP reward. It sends several requests at once and retries failed ones.
 * Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HTTP_H
#define TRI_HTTP_H

#include "base/mask.h"
#include "work_queue.h"

enum { TRI_HTTP_WHY_BYTES = 256 };   /* chosen: leaves space for the address */
enum { TRI_HTTP_SHOWN_BYTES = 121 }; /* chosen: bytes of a reply in a message */
enum { TRI_HTTP_MOST_BATCH = 1024 }; /* chosen: some megabytes of texts */

/* Options of the worker. The caller owns all pointers, which must live as long as the queue. */
typedef struct tri_http_opt {
  const char  *url, *shown; /* shown: the address for messages, without secrets */
  tri_secrets *secrets;     /* secrets in the url. Those of a proxy are added. May be NULL */
  double       timeout_s;   /* limit of one attempt */
  int          retries;     /* attempts after the first */
  double       backoff_s;   /* wait before the first retry. It doubles for each further one, up to a factor of
                             * 30 or more */
  /* Most jobs in one request, 1 to TRI_HTTP_MOST_BATCH. A request waits until it is full, or until the main
   * thread waits for answers. */
  int batch;
  /* Appends the body of a request for n jobs. */
  tri_status (*write)(tri_job *const *q, int n, tri_text *body);
  /* Reads a reply to n_asked jobs, in their order. Fills score [n_asked], with NAN for a reward that is not a
   * number, and extras [n_asked], where n is 0 on entry. Returns false if the whole reply failed, with the
   * cause in `why` and secrets masked. */
  bool (*read)(const char *reply, size_t n, const tri_secrets *s, int n_asked, double *score,
               tri_extras *extras, char why[TRI_HTTP_WHY_BYTES]);
} tri_http_opt;
typedef struct tri_http tri_http;

/* The main thread calls open before its queue exists, and close after it. Returns TRI_EABSENT if this build
 * has no libcurl. */
TRI_CHECKED tri_status tri_http_open(const tri_http_opt *o, tri_http **out);
void                   tri_http_close(tri_http **h);
/* Fails like tri_http_open if this build has no libcurl. */
TRI_CHECKED tri_status tri_http_check(void);
/* Serves as tri_work_queue_opt.work, with the tri_http as ctx. */
void tri_http_work(void *http, tri_work_queue *d);

#endif
