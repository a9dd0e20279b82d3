/* said.c - log.txt: warnings and errors, the starts, how the last one ended. */
#include "history_impl.h"

#include "base/visible.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_BYTES = 64 << 20 }; /* chosen: far more than a run says */
static const char error_prefix[] = "trireme: ", warning_prefix[] = "trireme: warning: ";

static void clear(void *ctx) {
  tri_history_log *l = ctx;

  for (int64_t i = 0; i < l->n; i++) TRI_FREE(l->alarm[i].text);
  l->n = 0;
  l->first = l->starts = 0;
  l->goes_on = false;
  l->end = TRI_HISTORY_OPEN;
  l->steps = -1;
  l->last[0] = 0;
}

void tri_history_log_free(tri_history_log *l) {
  clear(l);
  TRI_FREE(l->alarm);
  tri_history_tail_free(&l->tail);
}

static bool begins(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

static tri_status add_alarm(tri_history_log *l, const char *text, bool is_error) {
  char *copy;

  TRI_TRY(TRI_GROW(l->alarm, l->cap, l->n + 1));
  TRI_TRY(tri_copy_text(text, &copy));
  if (l->n == TRI_HISTORY_ALARMS_MOST) {
    TRI_FREE(l->alarm[0].text);
    memmove(l->alarm, l->alarm + 1, (size_t)--l->n * sizeof *l->alarm);
    l->first -= l->first > 0;
  }
  l->alarm[l->n++] = (tri_history_alarm_row){copy, is_error};
  l->goes_on = true;
  l->end = is_error ? TRI_HISTORY_FAILED : l->end;
  return TRI_OK;
}

/* What an alarm of several lines goes on with is indented: by four where it was broken, an error's own
 * lines by two. So are rows of steps, by more or less: they begin with "12/100". */
static bool is_continuation(const tri_history_log *l, const char *text) {
  size_t indent = strspn(text, " "), digits = strspn(text + indent, "0123456789.kM");

  if (!l->goes_on || !text[indent] || (digits && text[indent + digits] == '/')) return false;
  return indent == 4 || (indent >= 2 && l->alarm[l->n - 1].is_error);
}

static tri_status continue_alarm(tri_history_log *l, const char *text) {
  tri_history_alarm_row *a = &l->alarm[l->n - 1];
  tri_text               whole = {0};
  tri_status             st = TRI_OK;

  if (strlen(a->text) + strlen(text) >= TRI_HISTORY_SAID_BYTES) return TRI_OK;
  TRI_TRY_DONE(tri_text_printf(&whole, "%s %s", a->text, text + strspn(text, " ")));
  TRI_FREE(a->text);
  TRI_TRY_DONE(tri_copy_text(whole.data, &a->text));
done:
  tri_text_free(&whole);
  return st;
}

/* "trireme 0.1.0: grpo, 40 steps, output FOLDER": of the start screen. */
static bool is_start(const char *text, int64_t *steps) {
  const char *colon = strchr(text, ':'), *at = colon ? strchr(colon, ',') : NULL;
  char       *end;

  if (!begins(text, "trireme ") || text[8] < '0' || text[8] > '9' || !at) return false;
  errno = 0;
  *steps = strtoll(at + 1, &end, 10);
  if (errno || *steps <= 0 || !begins(end, " step")) *steps = -1;
  return true;
}

static tri_status take_visible(tri_history_log *l, const char *text) {
  int64_t steps;

  if (is_continuation(l, text)) return continue_alarm(l, text);
  l->goes_on = false;
  if (begins(text, warning_prefix)) return add_alarm(l, text + sizeof warning_prefix - 1, false);
  if (begins(text, error_prefix)) return add_alarm(l, text + sizeof error_prefix - 1, true);
  if (is_start(text, &steps)) {
    l->steps = steps;
    l->starts++;
    l->first = (int)l->n;
    l->end = TRI_HISTORY_OPEN;
  }
  if (begins(text, "done after ") || begins(text, "nothing to do: ")) l->end = TRI_HISTORY_DONE;
  if (begins(text, "stopped after ")) l->end = TRI_HISTORY_STOPPED;
  return TRI_OK;
}

static tri_status take_line(void *ctx, const char *text, size_t n) {
  tri_history_log *l = ctx;
  char             shown[TRI_HISTORY_SAID_BYTES];

  if (!text || !n) return TRI_OK;
  if (n > sizeof shown) n = sizeof shown; /* so is what is kept */
  tri_visible(text, n, "", shown, sizeof shown);
  memcpy(l->last, shown, strlen(shown) + 1);
  return take_visible(l, shown);
}

tri_status tri_history_log_read(tri_history_log *l, const char *folder, bool *changed) {
  const tri_history_reader to = {clear, take_line, l, LOG_BYTES};
  char                     path[TRI_HISTORY_PATH_BYTES];

  snprintf(path, sizeof path, "%s/log.txt", folder);
  return tri_history_tail_read(&l->tail, path, &to, changed);
}
