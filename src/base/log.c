/* log.c - log messages by level and rank, to the terminal, broken to its width, and to the file. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "error_list.h"
#include "log.h"
#include "columns.h"
#include "live.h"
#include "notice.h"
#include "visible.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NARROW_COLUMNS = 20 }; /* chosen: below this width lines are not broken */

static const char UNNAMED[] = "warning"; /* code of warnings without a code */

static int           log_rank;
static tri_log_level log_level = TRI_LOG_INFO, log_asked = TRI_LOG_INFO;
static FILE         *log_copy;
static atomic_int    log_fd = -1;        /* its descriptor, for writers that must not wait for its lock */
static char          log_early[1 << 16]; /* until there is a file */
static size_t        log_early_bytes;

void tri_log_open(int rank, tri_log_level level) {
  log_rank = rank;
  log_level = log_asked = level;
}

void tri_log_mute(tri_log_level most) {
  if (log_level > most) log_level = most;
}

void tri_log_unmute(void) { log_level = log_asked; }

bool tri_log_is_first(void) { return log_rank == 0; }

void tri_log_file(void *file) {
  log_copy = file;
  log_fd = file ? fileno(file) : -1;
  if (file) fwrite(log_early, 1, log_early_bytes, file);
  log_early_bytes = 0;
}

/* True if stderr or the file takes this level. */
static bool is_wanted(tri_log_level level) {
  bool first_only = level == TRI_LOG_INFO || level == TRI_LOG_DETAIL;

  return level <= (log_level > TRI_LOG_DETAIL ? log_level : TRI_LOG_DETAIL) && (!first_only || log_rank == 0);
}

/* Breaks lines at words to `width` columns. */
static tri_status break_lines(const char *prefix, const char *text, int width, tri_text *out) {
  tri_text   whole = {0};
  tri_status st = tri_text_printf(&whole, "%s%s", prefix, text);

  if (st == TRI_OK) st = tri_text_wrap(whole.data, width, out);
  tri_text_free(&whole);
  return st;
}

/* breaks: break lines at words if the terminal is too narrow. */
static void show_log(tri_log_level level, const char *prefix, const char *text, bool breaks) {
  int      width = breaks ? tri_live_columns() : 0;
  tri_text lines = {0};

  tri_live_wipe();
  if (level == TRI_LOG_DEBUG) fprintf(stderr, "[%d] ", log_rank);
  if (width >= NARROW_COLUMNS && break_lines(prefix, text, width, &lines) == TRI_OK && lines.data)
    fprintf(stderr, "%s\n", lines.data);
  else
    fprintf(stderr, "%s%s\n", prefix, text);
  tri_text_free(&lines);
  if (level != TRI_LOG_ERROR) tri_live_redraw(); /* no live line follows an error */
}

static const char *const prefix[] = {"trireme: ", "trireme: warning: ", "", "", "debug: "};

/* text must be visible. */
static void put_log(tri_log_level level, const char *text, bool breaks) {
  if (level <= log_level) show_log(level, prefix[level], text, breaks);
  if (log_copy) {
    fprintf(log_copy, "%s%s\n", prefix[level], text);
    fflush(log_copy);
  } else {
    int n = snprintf(log_early + log_early_bytes, sizeof log_early - log_early_bytes, "%s%s\n", prefix[level],
                     text);
    if (n > 0 && (size_t)n < sizeof log_early - log_early_bytes) log_early_bytes += (size_t)n;
  }
}

/* text must be visible. Breaks lines at 79 columns in pipes and in the file too. */
static void put_narrow(tri_log_level level, const char *text) {
  tri_text lines = {0};

  if (break_lines(prefix[level], text, TRI_SCREEN_COLUMNS, &lines) == TRI_OK)
    put_log(level, lines.data + strlen(prefix[level]), true);
  else
    put_log(level, text, true);
  tri_text_free(&lines);
}

/* ---- notices ---- */

static void (*notice_listener)(void *ctx, const tri_notice *notice);
static void *notice_ctx;

void tri_notice_listen(void (*listen)(void *ctx, const tri_notice *notice), void *ctx) {
  notice_ctx = ctx;
  notice_listener = listen;
}

void tri_notice_give(const tri_notice *notice) {
  if (notice_listener) notice_listener(notice_ctx, notice);
}

static void give_warning(const char *code, const char *text) {
  tri_notice_give(&(tri_notice){.kind = TRI_NOTICE_WARNING, .code = code, .text = text, .step = -1});
}

void tri_warn(const char *code, const char *fmt, ...) {
  char    text[TRI_MESSAGE_BYTES];
  va_list ap;

  va_start(ap, fmt);
  tri_visible_format(text, fmt, ap);
  va_end(ap);
  put_log(TRI_LOG_WARN, text, true);
  give_warning(code, text);
}

void tri_warn_narrow(const char *code, const char *fmt, ...) {
  char    text[TRI_MESSAGE_BYTES];
  va_list ap;

  va_start(ap, fmt);
  tri_visible_format(text, fmt, ap);
  va_end(ap);
  put_narrow(TRI_LOG_WARN, text);
  give_warning(code, text);
}

void tri_warn_like(const tri_notice *like, const char *fmt, ...) {
  char       text[TRI_MESSAGE_BYTES];
  tri_notice notice = *like;
  va_list    ap;

  va_start(ap, fmt);
  tri_visible_format(text, fmt, ap);
  va_end(ap);
  notice.text = text;
  tri_warn_notice(&notice);
}

void tri_warn_notice(const tri_notice *notice) {
  put_log(TRI_LOG_WARN, notice->text, true);
  tri_notice_give(notice);
}

/* ---- by level ---- */

void tri_log(tri_log_level level, const char *fmt, ...) {
  char    text[TRI_MESSAGE_BYTES];
  va_list ap;

  if (!is_wanted(level)) return;
  va_start(ap, fmt);
  tri_visible_format(text, fmt, ap);
  va_end(ap);
  put_log(level, text, true);
  if (level == TRI_LOG_WARN) give_warning(UNNAMED, text);
}

void tri_log_narrow(tri_log_level level, const char *fmt, ...) {
  char    text[TRI_MESSAGE_BYTES];
  va_list ap;

  if (!is_wanted(level)) return;
  va_start(ap, fmt);
  tri_visible_format(text, fmt, ap);
  va_end(ap);
  put_narrow(level, text);
  if (level == TRI_LOG_WARN) give_warning(UNNAMED, text);
}

static void log_lines(tri_log_level level, const char *code, const char *text, bool breaks) {
  size_t n = strlen(text), cap = n * TRI_VISIBLE_MOST + 1;
  char  *shown = is_wanted(level) ? malloc(cap) : NULL;

  if (!shown) return;
  tri_visible(text, n, "\n", shown, cap);
  put_log(level, shown, breaks);
  if (level == TRI_LOG_WARN) give_warning(code, shown);
  free(shown);
}

void tri_log_lines(tri_log_level level, const char *text) { log_lines(level, UNNAMED, text, true); }
void tri_log_table(tri_log_level level, const char *text) { log_lines(level, UNNAMED, text, false); }
void tri_warn_lines(const char *code, const char *text) { log_lines(TRI_LOG_WARN, code, text, true); }

void tri_log_error(tri_log_level level, const char *fmt, ...) {
  char    text[2 * TRI_MESSAGE_BYTES], begin[TRI_MESSAGE_BYTES];
  va_list ap;

  if (!is_wanted(level)) return;
  va_start(ap, fmt);
  tri_visible_format(begin, fmt, ap);
  va_end(ap);
  snprintf(text, sizeof text, "%s: %s", begin, tri_error_message());
  log_lines(level, UNNAMED, text, true);
}

static void cut_newline(tri_text *t) {
  if (t->len && t->data[t->len - 1] == '\n') t->data[--t->len] = '\0';
}

void tri_errors_say(tri_errors *errors) {
  cut_newline(&errors->text);
  cut_newline(&errors->trace);
  if (errors->text.len) tri_log_lines(TRI_LOG_INFO, errors->text.data);
  if (errors->trace.len) tri_log_table(TRI_LOG_DETAIL, errors->trace.data);
}

void tri_log_urgent(const char *line) {
  int fd = log_fd;

  tri_live_interrupt(line);
  if (fd >= 0 && write(fd, line, strlen(line)) < 0) return; /* there is nowhere else to report it */
}
