/* html_report.c - writes the HTML report from its head to its foot. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "html_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"
#include "base/log.h"
#include "base/number.h"
#include "escape.h"
#include "html_facts.h"
#include "groups.h"
#include "parts.h"
#include "style.h"
#include "thin.h"

enum {
  CHARTS = 300,        /* chosen as five times the metrics of a run */
  COLUMNS_MOST = 400,  /* chosen, since a chart has 300 to 400 pixels */
  COLUMNS_LEAST = 100, /* chosen to keep a report of many runs small */
  COLUMNS_ALL = 1600   /* chosen for some 1.5 MB at sixty charts */
};

int tri_html_report_most(void) { return TRI_HTML_RUNS; }

/* ---- runs ---- */

/* Copies the last part of a path, without trailing slashes. */
static void last_part(const char *path, char out[TRI_RUN_NAME_BYTES]) {
  size_t n = strlen(path), from;

  while (n > 1 && path[n - 1] == '/') n--;
  for (from = n; from > 0 && path[from - 1] != '/'; from--) {
  }
  if (from == n) from = 0;
  snprintf(out, TRI_RUN_NAME_BYTES, "%.*s",
           (int)(n - from < TRI_RUN_NAME_BYTES ? n - from : TRI_RUN_NAME_BYTES - 1), path + from);
}

/* Names each run by the last part of its folder. If two of these are equal, all names are whole paths. If
 * paths are equal too, all names get numbers. */
static void name_runs(tri_html_report *p, const char *const *folder) {
  bool alike = false, same = false;

  for (int i = 0; i < p->n; i++) last_part(folder[i], p->run[i].name);
  for (int i = 0; i < p->n; i++)
    for (int k = 0; k < i; k++) {
      alike |= !strcmp(p->run[i].name, p->run[k].name);
      same |= !strncmp(folder[i], folder[k], TRI_RUN_NAME_BYTES - 8);
    }
  for (int i = 0; alike && i < p->n; i++)
    if (same)
      snprintf(p->run[i].name, TRI_RUN_NAME_BYTES, "%d: %.200s", i + 1, folder[i]);
    else
      snprintf(p->run[i].name, TRI_RUN_NAME_BYTES, "%s", folder[i]);
}

tri_status tri_html_report_open(const char *const *folder, int n, double now_unix_s, tri_html_report **out) {
  tri_html_report *p = NULL;
  const char     **read = NULL; /* [p->n] the readable folders */
  tri_status       st = TRI_OK;

  TRI_ASSERT(n > 0 && n <= TRI_HTML_RUNS);
  TRI_TRY_DONE(TRI_ALLOC(p, 1));
  TRI_TRY_DONE(TRI_ALLOC(p->run, n));
  p->now_unix_s = now_unix_s;
  TRI_TRY_DONE(TRI_ALLOC(read, n));
  for (int i = 0; i < n; i++) {
    st = tri_html_run_open(folder[i], now_unix_s, &p->run[p->n]);
    if (st == TRI_ENOMEM || (st != TRI_OK && p->n == 0 && i == n - 1)) goto done;
    if (st != TRI_OK) {
      tri_log_error(TRI_LOG_WARN, "a folder is left out");
      tri_error_clear();
      p->n_left_out++;
      st = TRI_OK;
      continue;
    }
    read[p->n++] = folder[i];
  }
  name_runs(p, read);
  *out = p;
  p = NULL;
done:
  TRI_FREE(read);
  tri_html_report_close(&p);
  return st;
}

int tri_html_report_left_out(const tri_html_report *p) { return p->n_left_out; }

void tri_html_report_close(tri_html_report **p) {
  if (!*p) return;
  for (int i = 0; i < (*p)->n; i++) tri_html_run_close(&(*p)->run[i]);
  TRI_FREE((*p)->run);
  TRI_FREE(*p);
}

/* ---- charts ---- */

/* The metrics of all runs, each once, in the order of display. */
typedef struct names {
  const char *of[CHARTS]; /* [n] borrowed */
  int         n, n_more;
} names;

static int by_place(const void *a, const void *b) {
  const char *x = *(const char *const *)a, *y = *(const char *const *)b;
  int         group = (int)tri_html_group_of(x) - (int)tri_html_group_of(y);

  return group ? group : tri_html_group_order(x, y);
}

static void add_name(names *list, const char *name) {
  if (tri_html_metric_is_hidden(name)) return;
  for (int i = 0; i < list->n; i++)
    if (!strcmp(list->of[i], name)) return;
  if (list->n < CHARTS)
    list->of[list->n++] = name;
  else
    list->n_more++;
}

static void find_names(const tri_html_report *p, names *list) {
  *list = (names){.n = 0};
  for (int run = 0; run < p->n; run++)
    for (int i = 0; i < tri_history_n_series(p->run[run].h); i++)
      add_name(list, tri_history_name(p->run[run].h, i));
  qsort(list->of, (size_t)list->n, sizeof *list->of, by_place);
}

/* Finds the range of steps over all runs. Returns false if no run has a step. */
static bool find_span(const tri_html_report *p, const tri_history **run, tri_html_span *s) {
  bool any = false;

  *s = (tri_html_span){.run = run, .n_run = p->n, .columns = COLUMNS_ALL / p->n};
  if (s->columns > COLUMNS_MOST) s->columns = COLUMNS_MOST;
  if (s->columns < COLUMNS_LEAST) s->columns = COLUMNS_LEAST;
  for (int i = 0; i < p->n; i++) {
    int64_t        rows = tri_history_rows(p->run[i].h);
    const int64_t *step = tri_history_step(p->run[i].h);
    run[i] = p->run[i].h;
    if (!rows) continue;
    if (!any || step[0] < s->first) s->first = step[0];
    if (!any || step[rows - 1] > s->last) s->last = step[rows - 1];
    any = true;
  }
  return any;
}

/* Appends the parts of a group besides its charts. */
static tri_status put_more(const tri_html_report *p, tri_metric_group g, tri_text *out) {
  if (g == TRI_GROUP_TIME) return tri_html_phases(p, out);
  return g == TRI_GROUP_MEMORY ? tri_html_memory(p, out) : TRI_OK;
}

static tri_status put_group(const tri_html_report *p, const tri_html_span *s, const names *list,
                            tri_metric_group g, tri_text *out) {
  tri_text   charts = {0}, same = {0}, more = {0};
  tri_status st = TRI_OK;

  for (int i = 0; s && i < list->n; i++)
    if (tri_html_group_of(list->of[i]) == g) TRI_TRY_DONE(tri_html_chart(s, list->of[i], &charts, &same));
  TRI_TRY_DONE(put_more(p, g, &more));
  if (charts.len || same.len || more.len)
    TRI_TRY_DONE(tri_text_printf(out, "<h2 id=\"g%d\">%s</h2>\n", (int)g, tri_metric_group_title(g)));
  if (charts.len) TRI_TRY_DONE(tri_text_printf(out, "<div class=\"charts\">\n%s</div>\n", charts.data));
  if (same.len && g != TRI_GROUP_MEMORY) /* the table of memory already has them */
    TRI_TRY_DONE(tri_text_printf(
        out, "<p class=\"key same\"><span class=\"soft\">always the same:</span>\n%s</p>\n", same.data));
  if (more.len) TRI_TRY_DONE(tri_text_put(out, more.data, more.len));
done:
  tri_text_free(&charts);
  tri_text_free(&same);
  tri_text_free(&more);
  return st;
}

static tri_status put_charts(const tri_html_report *p, tri_text *out) {
  const tri_history *run[TRI_HTML_RUNS];
  tri_html_span      s;
  names              list;
  bool               any = find_span(p, run, &s);

  if (!any) TRI_TRY(tri_text_printf(out, "<p>There are no steps yet.</p>\n"));
  find_names(p, &list);
  for (int g = 0; g < TRI_GROUPS; g++)
    TRI_TRY(put_group(p, any ? &s : NULL, &list, (tri_metric_group)g, out));
  if (list.n_more)
    TRI_TRY(tri_text_printf(out, "<p class=\"soft\">Numbers of metrics.jsonl without a chart: %d.</p>\n",
                            list.n_more));
  return TRI_OK;
}

/* ---- head and foot ---- */

static tri_status put_names(const tri_html_report *p, tri_text *out) {
  for (int i = 0; i < p->n; i++) {
    TRI_TRY(tri_text_printf(out, "%s", i ? ", " : ""));
    TRI_TRY(tri_html_put(out, p->run[i].name));
  }
  return TRI_OK;
}

static const char begins[] =
    "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
    "<meta charset=\"utf-8\"/>\n<meta http-equiv=\"Content-Security-Policy\" "
    "content=\"default-src 'none'; style-src '";
_Static_assert(sizeof begins <= TRI_HTML_BEGINS_BYTES, "all of it is looked at");

bool tri_html_report_is_one(const char *text, size_t n) {
  return n >= sizeof begins - 1 && !memcmp(text, begins, sizeof begins - 1);
}

static tri_status put_head(const tri_html_report *p, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "%s%s'; script-src '%s'; base-uri 'none'; form-action 'none'\"/>\n", begins,
                          tri_html_style_hash, tri_html_script_hash));
  TRI_TRY(tri_text_printf(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
                               "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
                               "<meta name=\"referrer\" content=\"no-referrer\"/>\n<title>"));
  TRI_TRY(put_names(p, out));
  return tri_text_printf(out, "</title>\n<style>%s</style>\n</head>\n<body%s>\n", tri_html_style,
                         p->n == 1 ? " class=\"one\"" : "");
}

static tri_status put_title(const tri_html_report *p, tri_text *out) {
  char when[TRI_WHEN_BYTES];

  tri_html_when(p->now_unix_s, when);
  TRI_TRY(tri_text_printf(out, "<div class=\"head\"><h1>"));
  if (p->n > 1)
    TRI_TRY(tri_text_printf(out, "%d runs", p->n));
  else
    TRI_TRY(put_names(p, out));
  return tri_text_printf(out, "</h1><p class=\"soft\">written by trireme " TRI_VERSION ", %s</p></div>\n",
                         when);
}

/* Writes the bar of links, one for each section in the body. */
static tri_status put_bar(const tri_html_report *p, const char *body, tri_text *out) {
  static const char *const part[][2] = {
      {"differences", "Differences"}, {"samples", "Answers"}, {"alarms", "Alarms"}, {"decks", "Decks"}};
  char id[32];

  TRI_TRY(tri_text_printf(out, "<nav class=\"bar\"><div>"));
  for (int i = 0; p->n > 1 && i < p->n; i++) {
    TRI_TRY(tri_text_printf(
        out,
        "<label%s><input type=\"checkbox\" id=\"s%d\" checked=\"checked\"/><i class=\"k u%d\"></i>"
        "<span class=\"name\" id=\"n%d\">",
        i == p->n - 1 ? " class=\"apart\"" : "", i, i, i));
    TRI_TRY(tri_html_put(out, p->run[i].name));
    TRI_TRY(tri_text_printf(out, "</span></label>"));
  }
  if (p->n == 1) {
    TRI_TRY(tri_text_printf(out, "<span class=\"name apart\">"));
    TRI_TRY(put_names(p, out));
    TRI_TRY(tri_text_printf(out, "</span>"));
  }
  for (int g = 0; g < TRI_GROUPS; g++) {
    snprintf(id, sizeof id, "<h2 id=\"g%d\"", g);
    if (body && strstr(body, id))
      TRI_TRY(
          tri_text_printf(out, "<a href=\"#g%d\">%s</a>", g, tri_metric_group_title((tri_metric_group)g)));
  }
  for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
    snprintf(id, sizeof id, "<h2 id=\"%s\"", part[i][0]);
    if (body && strstr(body, id))
      TRI_TRY(tri_text_printf(out, "<a href=\"#%s\">%s</a>", part[i][0], part[i][1]));
  }
  return tri_text_printf(out, "</div></nav>\n");
}

static tri_status put_foot(const tri_html_report *p, tri_text *out) {
  const tri_history *run[TRI_HTML_RUNS];
  tri_html_span      s;
  int64_t            width = find_span(p, run, &s) ? tri_thin_width(s.first, s.last, s.columns) : 1;

  TRI_TRY(tri_text_printf(
      out, "<footer><p>Curves show the numbers of metrics.jsonl by step. A pale curve shows every step. The "
           "bold curve beside it is a mean over a thirtieth of the steps. A gap is a step without a "
           "number. The newest number stands above each chart."));
  if (width > 1)
    TRI_TRY(tri_text_printf(
        out,
        " There are more steps than pixels on a screen. Charts show the least and the greatest number of "
        "every %lld steps.",
        (long long)width));
  return tri_text_printf(out, "</p></footer>\n</main>\n<script>%s</script>\n</body>\n</html>\n",
                         tri_html_script);
}

static tri_status put_body(const tri_html_report *p, tri_text *out) {
  TRI_TRY(tri_html_cards(p, out));
  TRI_TRY(tri_html_differences(p, out));
  TRI_TRY(put_charts(p, out));
  TRI_TRY(tri_html_samples(p, out));
  TRI_TRY(tri_html_alarms(p, out));
  return tri_html_decks(p, out);
}

tri_status tri_html_report_write(const tri_html_report *p, tri_text *out) {
  tri_text   body = {0};
  tri_status st = TRI_OK;

  TRI_TRY_DONE(put_body(p, &body));
  TRI_TRY_DONE(put_head(p, out));
  TRI_TRY_DONE(put_title(p, out));
  TRI_TRY_DONE(put_bar(p, body.data, out));
  TRI_TRY_DONE(tri_text_printf(out, "<main>\n"));
  TRI_TRY_DONE(tri_text_put(out, body.data, body.len));
  TRI_TRY_DONE(put_foot(p, out));
done:
  tri_text_free(&body);
  return st;
}
