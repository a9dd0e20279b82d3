/* parts.c - writes time by phase, memory, alarms and decks into the HTML report. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "escape.h"
#include "groups.h"

enum {
  PHASES = 12,      /* chosen, since a run has up to nine phases, colours repeat after six */
  ALARMS = 200,     /* the newest alarms shown, chosen, a report is not a log */
  OPEN_ALARMS = 12, /* longer lists are folded, chosen */
  DECK_KEYS = 2000  /* chosen as ten times the number of keys */
};

/* ---- time by phase ---- */

typedef struct phase {
  const char *name; /* [n_name] part of the metric's name, borrowed */
  int         n_name;
  double      s;
} phase;

static int by_time(const void *a, const void *b) {
  double x = ((const phase *)a)->s, y = ((const phase *)b)->s;

  return (x < y) - (x > y);
}

/* Finds the phases of a run, the longest first. *all is their sum. */
static int find_phases(const tri_history *h, phase found[PHASES], double *all) {
  int n = 0;

  *all = 0;
  for (int i = 0; i < tri_history_n_series(h) && n < PHASES; i++) {
    tri_history_points p = tri_history_points_of(h, i);
    phase              f = {0};
    if (!tri_html_metric_is_phase(tri_history_name(h, i), &f.name, &f.n_name)) continue;
    for (int64_t k = 0; k < p.n; k++)
      if (p.value[k] > 0 && p.value[k] < 1e12) f.s += p.value[k];
    *all += f.s;
    if (f.s > 0) found[n++] = f;
  }
  qsort(found, (size_t)n, sizeof *found, by_time);
  return n;
}

static tri_status put_phases(const phase *f, int n, double all, tri_text *out) {
  double at = 0;
  char   text[TRI_WHEN_BYTES];

  TRI_TRY(tri_text_printf(out, "<svg class=\"phase\" role=\"img\" aria-label=\"shares of time\">"));
  for (int i = 0; i < n; i++) {
    TRI_TRY(tri_text_printf(out, "<rect class=\"p%d\" x=\"%.3f%%\" width=\"%.3f%%\" height=\"22\"/>", i % 6,
                            100 * at / all, 100 * f[i].s / all));
    at += f[i].s;
  }
  TRI_TRY(tri_text_printf(out, "</svg><p class=\"key\">"));
  for (int i = 0; i < n; i++) {
    tri_html_duration(f[i].s, text);
    TRI_TRY(tri_text_printf(out, "<span><i class=\"k p%d\"></i>", i % 6));
    TRI_TRY(tri_html_put_bytes(out, f[i].name, (size_t)f[i].n_name, false));
    TRI_TRY(tri_text_printf(out, " <b>%.3g %%</b> <span class=\"soft\">%s</span></span>", 100 * f[i].s / all,
                            text));
  }
  return tri_text_printf(out, "</p>\n");
}

tri_status tri_html_phases(const tri_html_report *p, tri_text *out) {
  phase  found[PHASES];
  double all;
  bool   any = false;

  for (int run = 0; run < p->n; run++) {
    int n = find_phases(p->run[run].h, found, &all);
    if (!n) continue;
    if (!any) TRI_TRY(tri_text_printf(out, "<h3>By phase</h3>\n"));
    any = true;
    if (p->n > 1) {
      TRI_TRY(tri_text_printf(out, "<p>"));
      TRI_TRY(tri_html_put_name(p, run, out));
      TRI_TRY(tri_text_printf(out, "</p>"));
    }
    TRI_TRY(put_phases(found, n, all, out));
  }
  return TRI_OK;
}

/* ---- memory ---- */

static bool is_memory(const char *name) { return !strncmp(name, "mem_", 4); }

/* Returns the largest value, or NaN if there is none. */
static double most_of(const tri_history *h, const char *name) {
  tri_history_points p = {NULL, NULL, 0};
  int                at = tri_history_find(h, name);
  double             most = (double)NAN;

  if (at >= 0) p = tri_history_points_of(h, at);
  for (int64_t i = 0; i < p.n; i++) most = fmax(most, p.value[i]);
  return most;
}

static bool has_before(const tri_html_report *p, int run, const char *name) {
  for (int i = 0; i < run; i++)
    if (tri_history_find(p->run[i].h, name) >= 0) return true;
  return false;
}

static tri_status put_memory_row(const tri_html_report *p, const char *name, tri_text *out) {
  const char *words = tri_html_metric_words(name);

  TRI_TRY(tri_text_printf(out, "<tr><td class=\"wrap\"><code>"));
  TRI_TRY(tri_html_put(out, name));
  TRI_TRY(tri_text_printf(out, "</code></td>"));
  for (int i = 0; i < p->n; i++) {
    TRI_TRY(tri_text_printf(out, "<td class=\"n\">"));
    TRI_TRY(tri_html_put_number(out, most_of(p->run[i].h, name), true));
    TRI_TRY(tri_text_printf(out, "</td>"));
  }
  return tri_text_printf(out, "<td class=\"soft\">%s</td></tr>\n", words ? words : "");
}

static tri_status begin_memory(const tri_html_report *p, tri_text *out) {
  TRI_TRY(tri_text_printf(out,
                          "<h3>Per rank</h3>\n<div class=\"wide\"><table><tr><th>largest of all steps</th>"));
  for (int i = 0; i < p->n; i++) {
    TRI_TRY(tri_text_printf(out, "<th class=\"n\">"));
    TRI_TRY(tri_html_put_name(p, i, out));
    TRI_TRY(tri_text_printf(out, "</th>"));
  }
  return tri_text_printf(out, "<th></th></tr>\n");
}

static tri_status put_tables(const tri_html_report *p, tri_text *out) {
  for (int run = 0; run < p->n; run++) {
    const char *table = p->run[run].begun.memory;
    if (!table) continue;
    TRI_TRY(tri_text_printf(out, "<details class=\"log\"><summary>the plan, by name "));
    TRI_TRY(tri_html_put_name(p, run, out));
    TRI_TRY(tri_text_printf(out, "</summary><pre>"));
    TRI_TRY(tri_html_put_bytes(out, table, strlen(table), true));
    TRI_TRY(tri_text_printf(out, "</pre></details>\n"));
  }
  return TRI_OK;
}

tri_status tri_html_memory(const tri_html_report *p, tri_text *out) {
  bool any = false;

  for (int run = 0; run < p->n; run++)
    for (int i = 0; i < tri_history_n_series(p->run[run].h); i++) {
      const char *name = tri_history_name(p->run[run].h, i);
      if (!is_memory(name) || has_before(p, run, name)) continue;
      if (!any) TRI_TRY(begin_memory(p, out));
      any = true;
      TRI_TRY(put_memory_row(p, name, out));
    }
  if (any) TRI_TRY(tri_text_printf(out, "</table></div><p></p>\n"));
  return put_tables(p, out);
}

/* ---- alarms ---- */

static tri_status put_alarms(const tri_html_report *p, int run, tri_text *out) {
  const tri_history *h = p->run[run].h;
  int                n = tri_history_n_alarms(h), from = n > ALARMS ? n - ALARMS : 0;
  bool               folded = n > OPEN_ALARMS;

  if (folded) TRI_TRY(tri_text_printf(out, "<details><summary>%d warnings and errors ", n));
  if (!folded && p->n > 1) TRI_TRY(tri_text_printf(out, "<h3>"));
  TRI_TRY(tri_html_put_name(p, run, out));
  if (folded) TRI_TRY(tri_text_printf(out, "</summary>"));
  if (!folded && p->n > 1) TRI_TRY(tri_text_printf(out, "</h3>"));
  if (from) TRI_TRY(tri_text_printf(out, "<p class=\"soft\">the last %d of them</p>", ALARMS));
  for (int i = from; i < n; i++) {
    TRI_TRY(tri_text_printf(out, "<p class=\"alarm%s\">", tri_history_alarm_is_error(h, i) ? " bad" : ""));
    TRI_TRY(tri_html_put(out, tri_history_alarm(h, i)));
    TRI_TRY(tri_text_printf(out, "</p>\n"));
  }
  return folded ? tri_text_printf(out, "</details>\n") : TRI_OK;
}

tri_status tri_html_alarms(const tri_html_report *p, tri_text *out) {
  bool any = false;

  for (int run = 0; run < p->n; run++) {
    if (!tri_history_n_alarms(p->run[run].h)) continue;
    if (!any) TRI_TRY(tri_html_title(out, "alarms", "Alarms: warnings and errors"));
    any = true;
    TRI_TRY(put_alarms(p, run, out));
  }
  return TRI_OK;
}

/* ---- decks ---- */

static tri_status put_deck(const tri_html_run *r, tri_text *out) {
  int n = tri_history_n_keys(r->h);

  TRI_TRY(tri_text_printf(out, "<div class=\"deck\"><pre>"));
  for (int i = 0; i < n && i < DECK_KEYS; i++) {
    TRI_TRY(tri_html_put(out, tri_history_key(r->h, i)));
    TRI_TRY(tri_text_printf(out, ": "));
    TRI_TRY(tri_html_put(out, tri_history_key_value(r->h, i)));
    TRI_TRY(tri_text_printf(out, "\n"));
  }
  if (n > DECK_KEYS) TRI_TRY(tri_text_printf(out, "... and %d more\n", n - DECK_KEYS));
  return tri_text_printf(out, "</pre></div>");
}

tri_status tri_html_decks(const tri_html_report *p, tri_text *out) {
  TRI_TRY(tri_html_title(out, "decks", p->n > 1 ? "Decks" : "Deck"));
  for (int run = 0; run < p->n; run++) {
    const tri_html_run *r = &p->run[run];
    const char         *error = tri_history_deck_error(r->h);
    TRI_TRY(tri_text_printf(out, "<details><summary>the deck as used "));
    TRI_TRY(tri_html_put_name(p, run, out));
    TRI_TRY(tri_text_printf(out, "</summary>"));
    if (error) {
      TRI_TRY(tri_text_printf(out, "<p>"));
      TRI_TRY(tri_html_put(out, error));
      TRI_TRY(tri_text_printf(out, "</p>"));
    } else {
      TRI_TRY(put_deck(r, out));
    }
    TRI_TRY(tri_text_printf(out, "</details>\n"));
  }
  return TRI_OK;
}
