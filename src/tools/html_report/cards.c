/* cards.c - writes a card for each run and a table of the differences between their decks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "parts.h"

#include <math.h>
#include <string.h>

#include "escape.h"
#include "groups.h"

tri_status tri_html_title(tri_text *out, const char *id, const char *title) {
  return tri_text_printf(out, "<h2 id=\"%s\">%s</h2>\n", id, title);
}

tri_status tri_html_put_name(const tri_html_report *p, int run, tri_text *out) {
  if (p->n == 1) return TRI_OK;
  TRI_TRY(tri_text_printf(out, "<i class=\"k u%d\"></i> ", run));
  return tri_html_put(out, p->run[run].name);
}

static tri_status begin_fact(tri_text *out, const char *what, const char *kind) {
  return tri_text_printf(out, "<div><dt>%s</dt><dd%s>", what, kind);
}

static tri_status end_fact(tri_text *out) { return tri_text_printf(out, "</dd></div>"); }

/* Writes a fact with text from the run, or nothing if the text is empty. */
static tri_status put_text_fact(tri_text *out, const char *what, const char *text) {
  if (!text || !text[0]) return TRI_OK;
  TRI_TRY(begin_fact(out, what, ""));
  TRI_TRY(tri_html_put(out, text));
  return end_fact(out);
}

static tri_status put_steps(const tri_html_run *r, tri_text *out) {
  TRI_TRY(begin_fact(out, "steps", " class=\"big\""));
  TRI_TRY(tri_text_printf(out, "%lld", (long long)r->seen.step));
  if (r->seen.steps > 0) TRI_TRY(tri_text_printf(out, " <small>of %lld</small>", (long long)r->seen.steps));
  return end_fact(out);
}

static tri_status put_score(const char *before, const tri_html_score *s, const char *behind, double value,
                            int64_t step, tri_text *out) {
  if (!s->name) return TRI_OK;
  TRI_TRY(tri_text_printf(out, "<div><dt>%s", before));
  TRI_TRY(tri_html_put(out, s->name));
  TRI_TRY(tri_text_printf(out, "%s</dt><dd class=\"big\">", behind));
  TRI_TRY(tri_html_put_number(out, value, false));
  TRI_TRY(tri_text_printf(out, " <small>at step %lld, first ", (long long)step));
  TRI_TRY(tri_html_put_number(out, s->first, false));
  TRI_TRY(tri_text_printf(out, "</small>"));
  return end_fact(out);
}

static tri_status put_speed(const tri_html_run *r, tri_text *out) {
  char text[TRI_WHEN_BYTES];

  TRI_TRY(begin_fact(out, "time in steps", " class=\"big\""));
  tri_html_duration(r->spent_s, text);
  TRI_TRY(tri_text_printf(out, "%s", text));
  TRI_TRY(end_fact(out));
  TRI_TRY(begin_fact(out, "trained tokens", " class=\"big\""));
  TRI_TRY(tri_html_put_number(out, r->tokens, false));
  if (isfinite(r->rate)) {
    TRI_TRY(tri_text_printf(out, " <small>"));
    TRI_TRY(tri_html_put_number(out, r->rate, false));
    TRI_TRY(tri_text_printf(out, "/s</small>"));
  }
  return end_fact(out);
}

static tri_status put_when(const tri_html_run *r, tri_text *out) {
  char began[TRI_WHEN_BYTES], last[TRI_WHEN_BYTES];

  tri_html_when(r->began_unix_s, began);
  tri_html_when(r->last_unix_s, last);
  TRI_TRY(begin_fact(out, "written", ""));
  TRI_TRY(r->began_unix_s > 0 ? tri_text_printf(out, "%s to %s", began, last)
                              : tri_text_printf(out, "no step yet"));
  TRI_TRY(end_fact(out));
  TRI_TRY(begin_fact(out, "checkpoint", ""));
  if (tri_history_checkpoint(r->h) < 0)
    TRI_TRY(tri_text_printf(out, "none"));
  else
    TRI_TRY(tri_text_printf(out, "step %lld", (long long)tri_history_checkpoint(r->h)));
  if (r->marks.best >= 0) TRI_TRY(tri_text_printf(out, "; the best: step %lld", (long long)r->marks.best));
  TRI_TRY(end_fact(out));
  TRI_TRY(begin_fact(out, "alarms", ""));
  TRI_TRY(tri_text_printf(out, "%d", tri_history_n_alarms(r->h)));
  if (tri_history_bad_lines(r->h))
    TRI_TRY(tri_text_printf(out, "; lines of metrics.jsonl skipped: %lld",
                            (long long)tri_history_bad_lines(r->h)));
  return end_fact(out);
}

static tri_status put_changes(const tri_html_run *r, tri_text *out) {
  if (!r->marks.n) return TRI_OK;
  TRI_TRY(begin_fact(out, "deck", ""));
  TRI_TRY(tri_text_printf(out, "another until step "));
  TRI_TRY(tri_marks_list(&r->marks, out));
  TRI_TRY(tri_text_printf(out, ", in deck.step-*.yaml"));
  return end_fact(out);
}

static const char *kind_of(tri_look_state s) {
  if (s == TRI_LOOK_FAILED || s == TRI_LOOK_KILLED) return "bad";
  return s == TRI_LOOK_STOPPED || s == TRI_LOOK_SILENT ? "warn" : "good";
}

static tri_status put_why(const tri_html_run *r, tri_text *out) {
  static const char begin[] = "why it ended: ";
  tri_text          why = {0};
  tri_status        st = tri_look_why(r->h, &r->seen, &why);

  if (st == TRI_OK && why.len) st = put_text_fact(out, "why it ended", why.data + sizeof begin - 1);
  tri_text_free(&why);
  return st;
}

static tri_status put_card(const tri_html_report *p, int run, tri_text *out) {
  const tri_html_run *r = &p->run[run];

  TRI_TRY(tri_text_printf(out, "<section class=\"card\"><h2>"));
  if (p->n > 1) TRI_TRY(tri_text_printf(out, "<i class=\"k u%d\"></i>", run));
  TRI_TRY(tri_html_put(out, p->n > 1 ? r->name : tri_html_algo(r)));
  TRI_TRY(tri_text_printf(out, "<span class=\"state %s\">%s</span></h2><dl>", kind_of(r->seen.state),
                          tri_look_state_word(r->seen.state)));
  TRI_TRY(put_steps(r, out));
  TRI_TRY(put_score("", &r->reward, ", mean of 10", r->reward.last, r->reward.last_step, out));
  TRI_TRY(put_score("best ", &r->eval, "", r->eval.best, r->eval.best_step, out));
  if (isfinite(r->eval_cut)) {
    TRI_TRY(begin_fact(out, "held-out answers cut off", ""));
    TRI_TRY(tri_text_printf(out, "%.1f %%, newest evaluation", 100 * r->eval_cut));
    TRI_TRY(end_fact(out));
  }
  TRI_TRY(put_speed(r, out));
  TRI_TRY(tri_text_printf(out, "</dl><dl class=\"list\">"));
  if (p->n > 1) TRI_TRY(put_text_fact(out, "algorithm", tri_html_algo(r)));
  TRI_TRY(put_text_fact(out, "model", tri_html_model(r)));
  TRI_TRY(put_text_fact(out, "shape", r->begun.model));
  TRI_TRY(put_text_fact(out, "ranks", r->begun.ranks));
  TRI_TRY(put_text_fact(out, "loss", r->begun.loss));
  TRI_TRY(put_when(r, out));
  TRI_TRY(put_why(r, out));
  TRI_TRY(put_changes(r, out));
  TRI_TRY(put_text_fact(out, "folder", tri_history_folder(r->h)));
  return tri_text_printf(out, "</dl></section>\n");
}

tri_status tri_html_cards(const tri_html_report *p, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "<div class=\"runs\">\n"));
  for (int run = 0; run < p->n; run++) TRI_TRY(put_card(p, run, out));
  return tri_text_printf(out, "</div>\n");
}

static tri_status put_difference(const tri_html_report *p, const char *key, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "<tr><td class=\"wrap\"><code>"));
  TRI_TRY(tri_html_put(out, key));
  TRI_TRY(tri_text_printf(out, "</code></td>"));
  for (int run = 0; run < p->n; run++) {
    const char *value = tri_history_deck(p->run[run].h, key);
    TRI_TRY(tri_text_printf(out, value ? "<td class=\"wrap\">" : "<td class=\"wrap soft\">"));
    TRI_TRY(tri_html_put(out, value ? value : "not there"));
    TRI_TRY(tri_text_printf(out, "</td>"));
  }
  return tri_text_printf(out, "</tr>\n");
}

/* Lists the unreadable decks. *n is increased by their number. */
static tri_status put_errors(const tri_html_report *p, int *n, tri_text *out) {
  for (int i = 0; i < p->n; i++) {
    const char *error = tri_history_deck_error(p->run[i].h);
    if (!error) continue;
    ++*n;
    TRI_TRY(tri_text_printf(out, "<p>"));
    TRI_TRY(tri_html_put_name(p, i, out));
    TRI_TRY(tri_text_printf(out, ": its deck is not compared. "));
    TRI_TRY(tri_html_put(out, error));
    TRI_TRY(tri_text_printf(out, "</p>\n"));
  }
  return TRI_OK;
}

tri_status tri_html_differences(const tri_html_report *p, tri_text *out) {
  int run = 0, at = -1, n = 0, n_error = 0;

  if (p->n < 2) return TRI_OK;
  TRI_TRY(tri_html_title(out, "differences", "Differences between the decks"));
  TRI_TRY(put_errors(p, &n_error, out));
  for (const char *key; (key = tri_html_next_key(p, &run, &at)) != NULL;) {
    if (!tri_html_differs(p, key)) continue;
    if (n++ == 0) {
      TRI_TRY(tri_text_printf(out, "<div class=\"wide\"><table><tr><th>key</th>"));
      for (int i = 0; i < p->n; i++) {
        TRI_TRY(tri_text_printf(out, "<th>"));
        TRI_TRY(tri_html_put_name(p, i, out));
        TRI_TRY(tri_text_printf(out, "</th>"));
      }
      TRI_TRY(tri_text_printf(out, "</tr>\n"));
    }
    TRI_TRY(put_difference(p, key, out));
  }
  if (n) return tri_text_printf(out, "</table></div>\n");
  return n_error ? TRI_OK : tri_text_printf(out, "<p>Only <code>run.output</code> differs.</p>\n");
}
