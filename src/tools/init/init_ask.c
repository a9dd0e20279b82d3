/* init_ask.c - asks a person questions at a terminal. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "init_ask.h"
#include "base/columns.h"
#include "base/visible.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_BYTES = 4096 }; /* a terminal's own limit of a line (termios(3)) */

bool tri_ask_can(void) { return isatty(STDIN_FILENO) && isatty(STDERR_FILENO); }

/* Reads a line into `line`. Returns false at the end of the input. */
static bool read_line(char line[ANSWER_BYTES]) {
  size_t n = 0;

  for (;;) {
    char    c;
    ssize_t got = read(STDIN_FILENO, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    if (c == '\n') break;
    if (n < ANSWER_BYTES - 1) line[n++] = c;
  }
  line[n] = '\0';
  return true;
}

/* Reads a line and strips spaces at its ends. Enter alone gives "". */
static tri_status take_line(char line[ANSWER_BYTES], char **out) {
  char *begin = line, *end;

  if (!read_line(line)) {
    fputs("\n", stderr);
    TRI_FAIL(TRI_EARG, "the input ended before all questions were answered. Nothing was written");
  }
  begin += strspn(begin, " \t\r");
  for (end = begin + strlen(begin); end > begin && strchr(" \t\r", end[-1]); end--) end[-1] = '\0';
  *out = begin;
  return TRI_OK;
}

/* Prints the question, wrapped at words for a terminal of 80 columns. */
static tri_status show(const char *question, const char *shown) {
  tri_text   whole = {0}, lines = {0};
  tri_status st = TRI_OK;

  TRI_TRY_DONE(
      tri_text_printf(&whole, "%s%s%s%s:", question, shown[0] ? " [" : "", shown, shown[0] ? "]" : ""));
  TRI_TRY_DONE(tri_text_wrap(whole.data, TRI_SCREEN_COLUMNS - 1, &lines));
  fprintf(stderr, "%s ", lines.data);
  fflush(stderr);
done:
  tri_text_free(&whole);
  tri_text_free(&lines);
  return st;
}

tri_status tri_ask_line(const char *question, const char *def, const char *none, char **out) {
  char line[ANSWER_BYTES], shown[TRI_MESSAGE_BYTES] = "", *typed = line;

  *out = NULL;
  if (def[0] || none) tri_visible(def[0] ? def : none, strlen(def[0] ? def : none), "", shown, sizeof shown);
  for (;;) {
    TRI_TRY(show(question, shown));
    TRI_TRY(take_line(line, &typed));
    if (typed[0]) return tri_copy_text(typed, out);
    fprintf(stderr, shown[0] ? "  taken: %s\n" : "  please answer\n", shown);
    if (shown[0]) return tri_copy_text(def, out);
  }
}
