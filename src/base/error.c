/* error.c - status codes, the error trace, assertions. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "error.h"

#include "live.h"
#include "visible.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char error_message[TRI_ERROR_MESSAGE_BYTES], error_trace[TRI_ERROR_TRACE_BYTES];
_Static_assert((int)TRI_ERROR_MESSAGE_BYTES == (int)TRI_MESSAGE_BYTES,
               "a message is as long as visible.h makes it");

static const struct {
  const char *text;
  int         code;
} status_row[] = {
#define TRI_X(name, text, code) {text, code},
    TRI_STATUS_LIST(TRI_X)
#undef TRI_X
};

const char *tri_status_text(tri_status st) {
  return (unsigned)st < TRI_STATUS_COUNT ? status_row[st].text : "unknown status";
}

const char *tri_status_word(tri_status st) {
  static const char *const word[] = {[TRI_OK] = "ok",
                                     [TRI_EARG] = "arg",
                                     [TRI_ECONFIG] = "config",
                                     [TRI_EINPUT] = "input",
                                     [TRI_EFILE] = "file",
                                     [TRI_EFORMAT] = "format",
                                     [TRI_ENOMEM] = "memory",
                                     [TRI_EABSENT] = "absent",
                                     [TRI_EDEVICE] = "device",
                                     [TRI_EREWARD] = "reward",
                                     [TRI_ECOMM] = "comm",
                                     [TRI_ENUMERIC] = "numeric",
                                     [TRI_EINTERNAL] = "internal"};

  _Static_assert(sizeof word / sizeof *word == TRI_STATUS_COUNT, "every status has a word");
  return (unsigned)st < TRI_STATUS_COUNT ? word[st] : "unknown";
}

int tri_status_exit_code(tri_status st) { return (unsigned)st < TRI_STATUS_COUNT ? status_row[st].code : 70; }

/* Returns the path within the source tree. A build in a folder below the tree passes "../../src/main.c". */
static const char *source_name(const char *file) {
  while (!strncmp(file, "../", 3)) file += 3;
  return file;
}

tri_status tri_fail(const char *file, int line, const char *func, tri_status st, const char *fmt, ...) {
  char    text[TRI_MESSAGE_BYTES];
  va_list ap;
  size_t  used = strlen(error_trace);

  va_start(ap, fmt);
  tri_visible_format(text, fmt, ap);
  va_end(ap);
  if (!error_message[0]) {
    snprintf(error_message, sizeof error_message, "%s", text);
    used = 0;
  }
  if (used + 1 < sizeof error_trace)
    snprintf(error_trace + used, sizeof error_trace - used, "  %s:%d %s: %s (%s)\n", source_name(file), line,
             func, text, tri_status_text(st));
  return st;
}

const char *tri_error_message(void) { return error_message; }
const char *tri_error_trace(void) { return error_trace; }
void        tri_error_clear(void) { error_message[0] = error_trace[0] = 0; }

tri_status tri_error_about(tri_status st, const char *what) {
  char   behind[sizeof error_message];
  size_t n = strcspn(error_message, "\n");

  if ((st != TRI_EINPUT && st != TRI_EFILE && st != TRI_EFORMAT) || strstr(error_message, what)) return st;
  if (error_message[n] && n && strchr(";:,", error_message[n - 1])) n--;
  snprintf(behind, sizeof behind, "%s", error_message + n);
  snprintf(error_message + n, sizeof error_message - n, " (%s)%s", what, behind);
  return st;
}

tri_status tri_error_at(tri_status st, const char *where) {
  char why[sizeof error_message];

  if (st == TRI_OK) return st;
  snprintf(why, sizeof why, "%s", error_message);
  snprintf(error_message, sizeof error_message, "%.*s: %s", (int)sizeof why / 2, where, why);
  return st;
}

void tri_error_lines(const char *text) {
  size_t used = strlen(error_message);

  tri_visible(text, strlen(text), "\n", error_message + used, sizeof error_message - used);
}

void tri_error_set(tri_status st, const char *message) {
  snprintf(error_message, sizeof error_message, "%s", message);
  snprintf(error_trace, sizeof error_trace, "  (%s)\n", tri_status_text(st));
}

void tri_error_keep(tri_error_kept *out) {
  memcpy(out->message, error_message, sizeof out->message);
  memcpy(out->trace, error_trace, sizeof out->trace);
}

void tri_error_put_back(const tri_error_kept *kept) {
  snprintf(error_message, sizeof error_message, "%.*s", (int)sizeof kept->message - 1, kept->message);
  snprintf(error_trace, sizeof error_trace, "%.*s", (int)sizeof kept->trace - 1, kept->trace);
}

void tri_assert_failed(const char *file, int line, const char *what) {
  tri_live_wipe();
  fprintf(stderr, "trireme: internal error at %s:%d: %s\n", source_name(file), line, what);
  abort();
}
