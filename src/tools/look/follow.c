/* follow.c - shows runs on a terminal, reads them again at intervals and scrolls until the user quits. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "look_impl.h"
#include "terminal.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

static bool is_set(const char *name) {
  const char *text = getenv(name);

  return text && text[0];
}

static bool is_dumb(void) {
  const char *term = getenv("TERM");

  return !term || !term[0] || !strcmp(term, "dumb");
}

bool tri_look_can_follow(void) { return isatty(STDOUT_FILENO) && !is_dumb(); }

/* The locale's name decides, even if the locale is not installed on this machine. */
static bool is_utf8(void) {
  static const char *const variable[] = {"LC_ALL", "LC_CTYPE", "LANG"};

  for (size_t i = 0; i < sizeof variable / sizeof *variable; i++) {
    if (!is_set(variable[i])) continue;
    for (const char *c = getenv(variable[i]); *c; c++)
      if (!strncasecmp(c, "utf-8", 5) || !strncasecmp(c, "utf8", 4)) return true;
    return false;
  }
  return false;
}

void tri_look_find_how(bool on_terminal, tri_look_how *how) {
  int lines;

  how->columns = TRI_SCREEN_COLUMNS;
  how->utf8 = is_utf8();
  how->colour = on_terminal && !is_set("NO_COLOR");
  if (!on_terminal) return;
  tri_terminal_size(&how->columns, &lines);
  how->columns--;
  if (how->columns < TRI_LOOK_LEAST_COLUMNS) how->columns = TRI_LOOK_LEAST_COLUMNS;
}

/* The runs on show and the scroll position. */
typedef struct view {
  tri_look    *look;
  tri_look_how how;
  double       every_s;
  int          lines;  /* lines of the screen */
  int          top, n; /* index of the first visible line, and the number of all lines */
  double       next_s; /* time of the next refresh on the clock of tri_now_s */
} view;

static const char *skip_lines(const char *text, int n) {
  for (const char *newline; n > 0 && (newline = strchr(text, '\n')) != NULL; n--) text = newline + 1;
  return text;
}

static int count_lines(const char *text) {
  int n = 0;

  for (; (text = strchr(text, '\n')) != NULL; text++) n++;
  return n;
}

/* Writes as many parts of the foot as fit into the columns. */
static tri_status put_foot(const view *v, tri_text *out) {
  time_t    now = time(NULL);
  struct tm local;
  char      clock[16] = "", place[64] = "", text[160] = "";
  bool      more = v->n > v->lines - 1;
  int       last = v->top + v->lines - 1 < v->n ? v->top + v->lines - 1 : v->n;

  if (localtime_r(&now, &local)) strftime(clock, sizeof clock, "%H:%M:%S", &local);
  if (more) snprintf(place, sizeof place, "lines %d-%d of %d", v->top + 1, last, v->n);
  const bool        keys = tri_terminal_has_keys();
  const char *const part[] = {clock, keys ? "q: end" : "Ctrl-C: end", place,
                              more && keys ? "arrows: scroll" : "", keys ? "r: look now" : ""};
  for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
    size_t have = strlen(text);
    if (part[i][0] && have + strlen(part[i]) + 2 <= (size_t)v->how.columns)
      snprintf(text + have, sizeof text - have, "%s%s", have ? "  " : "", part[i]);
  }
  return tri_text_printf(out, v->how.colour ? "\033[2m%s\033[0m\033[K" : "%s\033[K", text);
}

static void scroll_to(view *v, int top) {
  int most = v->n - (v->lines - 1);

  if (top > most) top = most;
  v->top = top < 0 ? 0 : top;
}

/* Draws the lines that fit on the screen and the foot. Sets *gone if the terminal is gone. */
static tri_status show(view *v, bool *gone) {
  tri_status st = TRI_OK;
  tri_text   text = {0}, frame = {0};

  tri_look_find_how(true, &v->how);
  tri_terminal_size(&(int){0}, &v->lines);
  TRI_TRY_DONE(tri_look_draw(v->look, &v->how, tri_unix_s(), &text));
  v->n = count_lines(text.data);
  scroll_to(v, v->top);
  TRI_TRY_DONE(tri_text_put(&frame, "\033[H", 3));
  const char *line = skip_lines(text.data, v->top);
  for (int i = 0; i < v->lines - 1 && *line; i++) {
    size_t n = strcspn(line, "\n");
    TRI_TRY_DONE(tri_text_put(&frame, line, n));
    TRI_TRY_DONE(tri_text_put(&frame, "\033[K\r\n", 5));
    line += n + (line[n] != 0);
  }
  TRI_TRY_DONE(put_foot(v, &frame));
  TRI_TRY_DONE(tri_text_put(&frame, "\033[J", 3));
  *gone = !tri_terminal_show(frame.data, frame.len);
done:
  tri_text_free(&text);
  tri_text_free(&frame);
  return st;
}

static void press(view *v, int key) {
  int page = v->lines > 3 ? v->lines - 2 : 1;

  if (key == 'k' || key == TRI_KEY_UP) scroll_to(v, v->top - 1);
  if (key == 'j' || key == TRI_KEY_DOWN) scroll_to(v, v->top + 1);
  if (key == TRI_KEY_PAGE_UP || key == 'b') scroll_to(v, v->top - page);
  if (key == TRI_KEY_PAGE_DOWN || key == ' ') scroll_to(v, v->top + page);
  if (key == TRI_KEY_HOME || key == 'g') scroll_to(v, 0);
  if (key == TRI_KEY_END || key == 'G') scroll_to(v, v->n);
  if (key == 'r') v->next_s = 0;
}

static tri_status loop(view *v, int *code) {
  bool gone = false;
  int  key;

  while (!gone) {
    if (tri_now_s() >= v->next_s) {
      TRI_TRY(tri_look_refresh(v->look));
      v->next_s = tri_now_s() + v->every_s;
    }
    if (!tri_terminal_has_more()) TRI_TRY(show(v, &gone));
    if (gone) break;
    switch (tri_terminal_wait(v->next_s - tri_now_s(), &key)) {
    case TRI_TERMINAL_KEY:
      if (key == 'q' || key == 'Q') return TRI_OK;
      press(v, key);
      break;
    case TRI_TERMINAL_SIGNAL:
      *code = 128 + key;
      return TRI_OK;
    case TRI_TERMINAL_GONE:
      gone = true;
      break;
    case TRI_TERMINAL_TIME:
    case TRI_TERMINAL_RESIZED:
      break;
    }
  }
  *code = 128 + SIGHUP;
  return TRI_OK;
}

tri_status tri_look_follow(tri_look *l, const tri_look_how *how, double every_s, int *code) {
  view       v = {.look = l, .how = *how, .every_s = every_s};
  tri_status st;

  *code = 0;
  v.next_s = tri_now_s() + every_s; /* opening the runs has just read them */
  TRI_TRY(tri_terminal_open());
  st = loop(&v, code);
  tri_terminal_close();
  return st;
}
