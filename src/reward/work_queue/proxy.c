/* proxy.c - finds the proxy for an address in the environment, if there is one. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "proxy.h"

#include "base/mask.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
  HOST_BYTES = 256,
  SHOWN = 160
}; /* HOST_BYTES: limit of a DNS name. SHOWN, chosen: bytes of a variable in a message */

/* Reads an IP address into 16 bytes, IPv4 as ::ffff:a.b.c.d. Brackets around it are optional. */
static bool read_ip(const char *text, size_t n, unsigned char ip[16]) {
  static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  char                       copy[HOST_BYTES];

  if (n > 1 && text[0] == '[' && text[n - 1] == ']') text++, n -= 2;
  if (!n || n >= sizeof copy) return false;
  memcpy(copy, text, n);
  copy[n] = 0;
  memcpy(ip, mapped, sizeof mapped);
  return inet_pton(AF_INET, copy, ip + 12) == 1 || inet_pton(AF_INET6, copy, ip) == 1;
}

static bool ends_with(const char *host, size_t n, const char *tail) {
  size_t m = strlen(tail);

  return n >= m && !strncasecmp(host + n - m, tail, m);
}

static bool is_loopback(const char *host, size_t n) {
  static const unsigned char v6[16] = {[15] = 1}, v4[13] = {[10] = 0xFF, 0xFF, 127};
  unsigned char              ip[16];

  if (read_ip(host, n, ip)) return !memcmp(ip, v6, sizeof v6) || !memcmp(ip, v4, sizeof v4);
  return (n == 9 && ends_with(host, n, "localhost")) || ends_with(host, n, ".localhost");
}

/* Tells whether the network "10.0.0.0/8" contains the host. */
static bool is_in_net(const unsigned char host[16], const char *net, size_t n) {
  const char   *slash = memchr(net, '/', n);
  unsigned char ip[16];
  int           bits = slash ? atoi(slash + 1) : 128;

  if (!read_ip(net, slash ? (size_t)(slash - net) : n, ip)) return false;
  if (slash && memchr(net, '.', n) && !memchr(net, ':', n)) bits += 96;
  if (bits < 0 || bits > 128) return false;
  if (memcmp(ip, host, (size_t)bits / 8)) return false;
  return bits % 8 == 0 || !((ip[bits / 8] ^ host[bits / 8]) >> (8 - bits % 8));
}

/* Tells whether one name of no_proxy covers the host. */
static bool covers(const char *name, size_t n, const char *host, size_t n_host) {
  unsigned char ip[16];

  if (n == 1 && *name == '*') return true;
  if (read_ip(host, n_host, ip)) return is_in_net(ip, name, n);
  if (n && *name == '.') name++, n--;
  if (n && name[n - 1] == '.') n--;
  if (!n || n > n_host || strncasecmp(host + n_host - n, name, n) != 0) return false;
  return n == n_host || host[n_host - n - 1] == '.';
}

static bool is_excepted(const char *list, const char *host, size_t n_host) {
  for (const char *at = list; *(at += strspn(at, ", \t"));) {
    size_t n = strcspn(at, ", \t");
    if (covers(at, n, host, n_host)) return true;
    at += n;
  }
  return false;
}

/* Returns the first of these variables with a value. */
static const char *get_first(const char *const *name, const char **which) {
  for (; *name; name++) {
    const char *value = getenv(*name);
    *which = *name;
    if (value && value[0]) return value;
  }
  return NULL;
}

static void say(const char *which, const char *value, const char *but, const char *list, tri_proxy *out) {
  tri_text shown = {0};

  if (tri_mask_url(value, &shown) != TRI_OK) tri_error_clear();
  if (list)
    snprintf(out->said, sizeof out->said, " by the proxy %s=%.*s (%s=%.*s does not name this host)", which,
             SHOWN, shown.data ? shown.data : "...", but, SHOWN, list);
  else
    snprintf(out->said, sizeof out->said,
             " by the proxy %s=%.*s (no_proxy is not set, name this host there to connect directly)", which,
             SHOWN, shown.data ? shown.data : "...");
  tri_text_free(&shown);
}

void tri_proxy_find(const char *scheme, const char *host, tri_proxy *out) {
  static const char *const of_http[] = {"http_proxy", "all_proxy", "ALL_PROXY", NULL};
  static const char *const of_https[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", NULL};
  static const char *const none[] = {"no_proxy", "NO_PROXY", NULL};
  const char              *which, *but, *value, *list;
  size_t                   n = strlen(host);

  *out = (tri_proxy){.address = ""};
  if (n && host[n - 1] == '.') n--;
  value = get_first(strcasecmp(scheme, "https") ? of_http : of_https, &which);
  if (!value || is_loopback(host, n)) return;
  list = get_first(none, &but);
  if (list && is_excepted(list, host, n)) return;
  out->address = value;
  say(which, value, but, list, out);
}
