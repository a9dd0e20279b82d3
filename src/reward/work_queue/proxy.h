/* proxy.h - whether an address is asked by a proxy of the environment, and by which. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PROXY_H
#define TRI_PROXY_H

enum { TRI_PROXY_SAID_BYTES = 640 }; /* chosen: two variables, the longest values shortened */

typedef struct tri_proxy {
  const char *address;             /* of the environment; "": none, the host is asked directly */
  char said[TRI_PROXY_SAID_BYTES]; /* for messages: " by the proxy ..." with its variable, masked; or "" */
} tri_proxy;

/* Not collective. The proxy for a host and a scheme, "http" or "https", as libcurl chooses it: http_proxy, or
 * https_proxy or HTTPS_PROXY, else all_proxy or ALL_PROXY, unless no_proxy or NO_PROXY names the host, a
 * domain it ends with, or a net (10.0.0.0/8). A loopback host (localhost, 127.0.0.0/8, ::1) has none. */
void tri_proxy_find(const char *scheme, const char *host, tri_proxy *out);

#endif
