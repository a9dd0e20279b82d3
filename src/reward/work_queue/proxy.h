/* proxy.h - finds the proxy for an address in the environment, if there is one. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PROXY_H
#define TRI_PROXY_H

enum { TRI_PROXY_SAID_BYTES = 640 }; /* chosen: two variables, with their longest values shortened */

typedef struct tri_proxy {
  const char *address;             /* borrowed from the environment, "" to connect directly */
  char said[TRI_PROXY_SAID_BYTES]; /* for messages, " by the proxy ..." with its variable, masked. "" without
                                    * one */
} tri_proxy;

/* Not collective. Finds the proxy for a host and a scheme, "http" or "https", by libcurl's rules. It reads
 * http_proxy, or https_proxy and HTTPS_PROXY, then all_proxy and ALL_PROXY. There is none if no_proxy or
 * NO_PROXY names the host, a domain at its end, or its network (10.0.0.0/8). A loopback host (localhost,
 * 127.0.0.0/8, ::1) has none either. */
void tri_proxy_find(const char *scheme, const char *host, tri_proxy *out);

#endif
