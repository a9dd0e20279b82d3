/* mask.c - replaces secrets in addresses and command lines by *** wherever they are shown or stored. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "mask.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum {
  LEAST_SECRET = 3, /* chosen: shorter ones occur everywhere in a reply */
  /* Chosen: letters and digits in a row. Keys have 20 to 64, and words of a path have fewer. */
  LEAST_RANDOM = 20,
  LEAST_DIGITS = 3, /* chosen: digits among them */
  MOST_NAME = 64
};

/* The output: a masked text, or the list of its secrets. */
typedef struct sink {
  tri_text *masked, *secrets; /* one is NULL */
} sink;

static bool is_mask(const char *s, size_t n) { return n == strlen(TRI_MASK) && !memcmp(s, TRI_MASK, n); }

static tri_status put_plain(const sink *k, const char *s, size_t n) {
  return k->masked && n ? tri_text_put(k->masked, s, n) : TRI_OK;
}

static tri_status put_secret(const sink *k, const char *s, size_t n) {
  if (!n) return TRI_OK;
  if (k->masked) return tri_text_put(k->masked, TRI_MASK, strlen(TRI_MASK));
  if (is_mask(s, n)) return TRI_OK;
  TRI_TRY(tri_text_put(k->secrets, s, n));
  return tri_text_put(k->secrets, "", 1);
}

/* ---- keys in texts ---- */

/* Tests for the beginnings of keys from known services. *n: bytes that are not secret. */
static bool begins_as_key(const char *s, size_t n, size_t *lead) {
  static const char *const begin[] = {"sk-",    "sk_",   "pk_",    "hf_",     "ghp_", "gho_",  "github_pat_",
                                      "glpat-", "xoxb-", "xoxp-",  "xapp-",   "AKIA", "ASIA",  "AIza",
                                      "nvapi-", "gsk_",  "eyJhbG", "bot_key", "r8_",  "pypi-", "dop_v1_"};

  for (size_t i = 0; i < sizeof begin / sizeof *begin; i++) {
    *lead = strlen(begin[i]);
    if (n >= *lead && !memcmp(s, begin[i], *lead) && (n >= *lead + 8 || is_mask(s + *lead, n - *lead)))
      return true;
  }
  return false;
}

static bool is_random(const char *s, size_t n) {
  size_t run = 0, digits = 0, letters = 0;

  for (size_t i = 0; i < n; i++) {
    bool digit = s[i] >= '0' && s[i] <= '9',
         letter = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z');
    run = digit || letter ? run + 1 : 0;
    digits = run ? digits + digit : 0;
    letters = run ? letters + letter : 0;
    if (run >= LEAST_RANDOM && digits >= LEAST_DIGITS && letters >= LEAST_DIGITS) return true;
  }
  return false;
}

/* Puts text whose name does not make it a secret. Only a key in it is masked. */
static tri_status put_if_plain(const sink *k, const char *s, size_t n) {
  size_t lead;

  if (begins_as_key(s, n, &lead)) {
    TRI_TRY(put_plain(k, s, lead));
    return put_secret(k, s + lead, n - lead);
  }
  return is_random(s, n) ? put_secret(k, s, n) : put_plain(k, s, n);
}

/* ---- addresses ---- */

static size_t span_until(const char *s, size_t n, const char *set) {
  size_t i = 0;

  while (i < n && !strchr(set, s[i])) i++;
  return i;
}

/* Bytes of the name and password before the host. 0: there are none. An unescaped password may contain '/',
 * '?' and '#'. In this case no port follows the colon, and an '@' comes later. */
static size_t user_bytes(const char *s, size_t n) {
  size_t end = span_until(s, n, "/?#\\"), at = 0, colon = 0;
  bool   has_port = true;

  for (size_t i = 0; i < end; i++)
    if (s[i] == '@') at = i;
  if (at || end == n || s[0] == '[') return at;
  while (colon < end && s[colon] != ':') colon++;
  for (size_t i = colon + 1; i < end; i++) has_port = has_port && s[i] >= '0' && s[i] <= '9';
  if (colon == end || (has_port && colon + 1 < end)) return 0;
  for (size_t i = end; i < n; i++)
    if (s[i] == '@') at = i;
  return at;
}

/* True for query names with harmless values. They only select the behaviour of the server. */
static bool is_harmless(const char *name, size_t n) {
  static const char *const known[] = {"model", "model_name", "version", "api-version", "api_version", "v",
                                      "mode",  "task",       "split",   "lang",        "format",      "type"};

  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (n == strlen(known[i]) && !strncasecmp(name, known[i], n)) return true;
  return false;
}

static tri_status put_query(const sink *k, const char *s, size_t n) {
  for (size_t i = 0; i < n;) {
    size_t m = span_until(s + i, n - i, "&;"), name = span_until(s + i, m, "=");
    if (name == m) {
      TRI_TRY(put_secret(k, s + i, m));
    } else {
      TRI_TRY(put_plain(k, s + i, name + 1));
      TRI_TRY((is_harmless(s + i, name) ? put_if_plain : put_secret)(k, s + i + name + 1, m - name - 1));
    }
    i += m;
    if (i < n) TRI_TRY(put_plain(k, s + i++, 1));
  }
  return TRI_OK;
}

/* Bytes that may belong to a scheme. */
static size_t scheme_run(const char *s, size_t n) {
  size_t i = 0;

  while (i < n && (isalnum((unsigned char)s[i]) || strchr("+-.", s[i]))) i++;
  return i;
}

static size_t scheme_bytes(const char *s, size_t n) {
  size_t i = scheme_run(s, n);

  return i && i + 3 <= n && !memcmp(s + i, "://", 3) ? i + 3 : 0;
}

static tri_status put_url(const sink *k, const char *s, size_t n) {
  size_t lead = scheme_bytes(s, n), user = user_bytes(s + lead, n - lead), m;

  TRI_TRY(put_plain(k, s, lead));
  s += lead, n -= lead;
  if (k->secrets && user) { /* each part alone too, since a message may contain one of them */
    size_t name = span_until(s, user, ":");
    if (name < user) TRI_TRY(put_secret(k, s + name + 1, user - name - 1));
    TRI_TRY(put_secret(k, s, name));
  }
  TRI_TRY(put_secret(k, s, user));
  s += user, n -= user;
  m = span_until(s, n, "/?#");
  TRI_TRY(put_plain(k, s, m));
  s += m, n -= m;
  while (n && *s == '/') {
    m = 1 + span_until(s + 1, n - 1, "/?#");
    TRI_TRY(put_plain(k, s, 1));
    TRI_TRY(put_if_plain(k, s + 1, m - 1));
    s += m, n -= m;
  }
  if (n && *s == '?') {
    m = 1 + span_until(s + 1, n - 1, "#");
    TRI_TRY(put_plain(k, s, 1));
    TRI_TRY(put_query(k, s + 1, m - 1));
    s += m, n -= m;
  }
  TRI_TRY(put_plain(k, s, n > 0));
  return n ? put_secret(k, s + 1, n - 1) : TRI_OK;
}

/* ---- words with names ---- */

static bool is_in_name(char c) { return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.'; }

static bool is_one_of(const char *word, const char *const *list) {
  for (; *list; list++)
    if (!strcasecmp(word, *list)) return true;
  return false;
}

/* True if a value under this name is a secret. The parts of the name decide, as in "openai-api-key",
 * "HF_TOKEN" and "apiKey". "prompt_key" and "eos_token" are no secrets. */
static bool is_secret_name(const char *s, size_t n) {
  static const char *const secret[] = {"apikey", "secret", "password",      "passwd",     "passphrase",
                                       "pwd",    "auth",   "authorization", "credential", "credentials",
                                       "bearer", "jwt",    "cookie",        "signature",  NULL};
  static const char *const of_text[] = {"eos",   "bos",     "pad",  "unk", "sep",   "stop", "end",
                                        "begin", "special", "mask", "max", "image", "cls",  NULL};
  static const char *const of_key[] = {"api",     "access", "secret", "private", "auth", "subscription",
                                       "account", "x",      "server", "service", NULL};
  char                     part[MOST_NAME] = "", before[MOST_NAME] = "";
  size_t                   m = 0;

  if (n >= MOST_NAME) return false;
  for (size_t i = 0; i <= n; i++) {
    bool ends = i == n || s[i] == '_' || s[i] == '-' || s[i] == '.' ||
                (m && isupper((unsigned char)s[i]) && islower((unsigned char)s[i - 1]));
    if (!ends) {
      part[m++] = s[i];
      continue;
    }
    part[m] = 0;
    if (is_one_of(part, secret)) return true;
    if (i == n && before[0] && (!strcasecmp(part, "pass") || !strcasecmp(part, "creds"))) return true;
    if (i == n && !strcasecmp(part, "token") && !is_one_of(before, of_text)) return true;
    if (!strcasecmp(part, "key") && is_one_of(before, of_key)) return true;
    if (m) memcpy(before, part, m + 1);
    m = 0;
    if (i < n && isalnum((unsigned char)s[i])) part[m++] = s[i];
  }
  return false;
}

/* Numbers of a few digits and truth values are settings. */
static bool is_setting(const char *s, size_t n) {
  size_t digits = 0;

  while (digits < n && isdigit((unsigned char)s[digits])) digits++;
  return (digits == n && n < 7) || (n == 4 && !strncasecmp(s, "true", 4)) ||
         (n == 5 && !strncasecmp(s, "false", 5));
}

/* Bytes of the value that begins at s. It ends at the quote before it, or at the end of the word. */
static size_t value_bytes(const char *s, size_t n, char quote) {
  size_t i = 0;

  if (quote == '"' || quote == '\'') {
    while (i < n && s[i] != quote) i++;
    return i;
  }
  return span_until(s, n, " \t\r\n\"',;&|)]}<>");
}

/* Bytes between a name and its value: "=" or ": ", and after an option also " " and "', '". 0: no value
 * follows. */
static size_t link_bytes(const char *s, size_t n, bool is_option) {
  size_t i = 0, marks = 0;

  if (n && (*s == '"' || *s == '\'')) i++;
  if (i < n && (s[i] == '=' || s[i] == ':'))
    i++, marks++;
  else if (!is_option)
    return 0;
  while (i < n && strchr(" \t", s[i])) i++, marks++;
  if (is_option && i < n && s[i] == ',')
    for (i++, marks++; i < n && strchr(" \t", s[i]);) i++;
  if (i < n && (s[i] == '"' || s[i] == '\'')) i++;
  return marks && i < n && !(is_option && s[i] == '-') ? i : 0;
}

/* Puts a secret name at s and its value. *used is their number of bytes. 0: there is no value. */
static tri_status put_named(const sink *k, const char *s, size_t n, size_t *used) {
  size_t name = 0, lead = 0, link, m;

  *used = 0;
  while (lead < n && lead < 2 && s[lead] == '-') lead++;
  while (lead + name < n && is_in_name(s[lead + name])) name++;
  if (!is_secret_name(s + lead, name)) return TRI_OK;
  link = link_bytes(s + lead + name, n - lead - name, lead > 0);
  if (!link) return TRI_OK;
  m = lead + name + link;
  for (int i = 0; i < 2; i++) { /* Authorization: Bearer X */
    static const char *const scheme[] = {"Bearer ", "Basic "};
    size_t                   bytes = strlen(scheme[i]);
    if (n - m > bytes && !strncasecmp(s + m, scheme[i], bytes)) m += bytes;
  }
  *used = m + value_bytes(s + m, n - m, s[m - 1]);
  if (is_setting(s + m, *used - m)) *used = 0;
  if (!*used) return TRI_OK;
  TRI_TRY(put_plain(k, s, m));
  return put_secret(k, s + m, *used - m);
}

static tri_status put_text(const sink *k, const char *s, size_t n) {
  size_t looked = 0; /* no scheme begins before it, so "a+a+a+" is scanned once */

  for (size_t i = 0; i < n;) {
    bool   begins = !i || !is_in_name(s[i - 1]);
    size_t used = begins && i >= looked ? scheme_bytes(s + i, n - i) : 0, lead;
    if (begins && i >= looked) looked = i + scheme_run(s + i, n - i);
    if (used) {
      used = i && (s[i - 1] == '"' || s[i - 1] == '\'') ? value_bytes(s + i, n - i, s[i - 1])
                                                        : span_until(s + i, n - i, " \t\r\n\"',)]}<>|");
      TRI_TRY(put_url(k, s + i, used));
    } else if (begins) {
      TRI_TRY(put_named(k, s + i, n - i, &used));
      while (!used && i + used < n && is_in_name(s[i + used])) { /* a word */
        while (i + used < n && is_in_name(s[i + used])) used++;
        TRI_TRY((begins_as_key(s + i, used, &lead) ? put_if_plain : put_plain)(k, s + i, used));
      }
    }
    if (!used) {
      used = 1;
      TRI_TRY(put_plain(k, s + i, 1));
    }
    i += used;
  }
  return TRI_OK;
}

static bool is_secret_option(const char *word) {
  size_t lead = word ? strspn(word, "-") : 0;

  return lead > 0 && !word[lead + strcspn(word + lead, "=: ")] &&
         is_secret_name(word + lead, strlen(word + lead));
}

static tri_status put_word(const sink *k, const char *before, const char *word) {
  size_t n = strlen(word);

  if (is_secret_option(before) && word[0] != '-' && !is_setting(word, n)) return put_secret(k, word, n);
  return put_text(k, word, n);
}

tri_status tri_mask_url(const char *url, tri_text *out) {
  return put_url(&(sink){.masked = out}, url, strlen(url));
}

tri_status tri_mask_text(const char *text, tri_text *out) {
  return put_text(&(sink){.masked = out}, text, strlen(text));
}

tri_status tri_mask_word(const char *before, const char *word, tri_text *out) {
  return put_word(&(sink){.masked = out}, before, word);
}

/* ---- secrets in foreign text ---- */

/* Adds the secrets from `from` on once more with their escapes resolved, if this makes a difference. */
static tri_status add_resolved(tri_secrets *s, size_t from) {
  size_t end = s->all.len;

  for (size_t at = from; at < end; at += strlen(s->all.data + at) + 1) {
    tri_text   bare = {0};
    tri_status st = TRI_OK;
    bool       differs = false;
    for (const char *c = s->all.data + at; *c && st == TRI_OK; c++) {
      static const char digits[] = "0123456789abcdef";
      const char       *high = *c == '%' && c[1] ? strchr(digits, tolower((unsigned char)c[1])) : NULL;
      const char       *low = high && c[2] ? strchr(digits, tolower((unsigned char)c[2])) : NULL;
      char              byte = low ? (char)((high - digits) * 16 + (low - digits)) : *c;
      if (low) c += 2;
      differs = differs || low;
      if (byte) st = tri_text_put(&bare, &byte, 1);
    }
    if (st == TRI_OK && differs && bare.len) st = tri_text_put(&s->all, bare.data, bare.len + 1);
    tri_text_free(&bare);
    TRI_TRY(st);
  }
  return TRI_OK;
}

tri_status tri_secrets_add_url(tri_secrets *s, const char *url) {
  size_t from = s->all.len;

  TRI_TRY(put_url(&(sink){.secrets = &s->all}, url, strlen(url)));
  return add_resolved(s, from);
}

tri_status tri_secrets_add_word(tri_secrets *s, const char *before, const char *word) {
  size_t from = s->all.len;

  TRI_TRY(put_word(&(sink){.secrets = &s->all}, before, word));
  return add_resolved(s, from);
}

void tri_secrets_free(tri_secrets *s) { tri_text_free(&s->all); }

/* Bytes of the longest secret at the beginning of the text. 0: there is none. */
static size_t secret_at(const tri_secrets *s, const char *text, size_t n) {
  size_t longest = 0;

  for (size_t at = 0, m; at < s->all.len; at += m + 1) {
    m = strlen(s->all.data + at);
    if (m >= LEAST_SECRET && m <= n && m > longest && !memcmp(text, s->all.data + at, m)) longest = m;
  }
  return longest;
}

/* A mask is written at the end of its secret, and no secret is shorter than the mask. So if out is the text,
 * unread bytes are not overwritten. */
size_t tri_secrets_copy(const tri_secrets *s, const char *text, size_t n, char *out, size_t cap) {
  size_t mask = strlen(TRI_MASK), to = 0, end = 0;
  bool   hides = false;

  for (size_t i = 0; i <= n; i++) {
    size_t m = s && i < n ? secret_at(s, text + i, n - i) : 0;
    if (hides && i >= end) {
      if (to + mask >= cap) break;
      memcpy(out + to, TRI_MASK, mask);
      to += mask;
      hides = false;
    }
    if (m) hides = true;
    if (i + m > end) end = i + m;
    if (i == n || hides) continue;
    if (to + 1 >= cap) break;
    out[to++] = text[i];
  }
  out[to] = 0;
  return to;
}

size_t tri_secrets_hide(const tri_secrets *s, char *text, size_t n) {
  return s ? tri_secrets_copy(s, text, n, text, n + 1) : n;
}
