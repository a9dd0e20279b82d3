/* html_answers.c - writes samples of the newest saved rollouts into the HTML report. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "parts.h"

#include <math.h>

#include "escape.h"

static tri_status put_block(const char *what, const tri_sample_text *t, tri_text *out) {
  if (!t->data) return TRI_OK;
  TRI_TRY(tri_text_printf(out, "<p class=\"what\">%s</p><pre dir=\"auto\">", what));
  TRI_TRY(tri_html_put_bytes(out, t->data, t->n, true));
  TRI_TRY(tri_text_printf(out, "</pre>"));
  if (t->n < t->whole)
    TRI_TRY(tri_text_printf(out, "<p class=\"what\">and %lld more bytes</p>", (long long)(t->whole - t->n)));
  return TRI_OK;
}

static tri_status put_sample(const tri_sample *s, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "<div class=\"sample\"><div class=\"top\"><span>reward <b>"));
  TRI_TRY(tri_html_put_number(out, s->reward, false));
  TRI_TRY(tri_text_printf(out, "</b></span>"));
  if (isfinite(s->advantage)) {
    TRI_TRY(tri_text_printf(out, "<span class=\"soft\">advantage "));
    TRI_TRY(tri_html_put_number(out, s->advantage, false));
    TRI_TRY(tri_text_printf(out, "</span>"));
  }
  if (s->stop[0]) {
    TRI_TRY(tri_text_printf(out, "<span class=\"soft\">ended by "));
    TRI_TRY(tri_html_put(out, s->stop));
    TRI_TRY(tri_text_printf(out, "</span>"));
  }
  TRI_TRY(tri_text_printf(out, "<span class=\"soft\">line %lld</span></div>", (long long)s->line));
  TRI_TRY(put_block("prompt", &s->prompt, out));
  TRI_TRY(put_block("answer", &s->response, out));
  TRI_TRY(put_block("right answer", &s->answer, out));
  return tri_text_printf(out, "</div>\n");
}

static tri_status put_list(const char *title, const tri_sample *list, int n, tri_text *out) {
  if (!n) return TRI_OK;
  TRI_TRY(tri_text_printf(out, "<p class=\"soft rank\">%s</p><div class=\"samples\">\n", title));
  for (int i = 0; i < n; i++) TRI_TRY(put_sample(&list[i], out));
  return tri_text_printf(out, "</div>\n");
}

static tri_status put_run(const tri_html_report *p, int run, tri_text *out) {
  const tri_samples *s = &p->run[run].samples;

  TRI_TRY(tri_text_printf(out, "<h3>"));
  TRI_TRY(tri_html_put_name(p, run, out));
  TRI_TRY(tri_text_printf(out, "%sstep %lld: %lld answer%s", p->n > 1 ? ", " : "", (long long)s->step,
                          (long long)s->n, s->n == 1 ? "" : "s"));
  if (s->is_cut) TRI_TRY(tri_text_printf(out, " of the file's beginning"));
  if (s->n_bad) TRI_TRY(tri_text_printf(out, "; unreadable lines: %lld", (long long)s->n_bad));
  TRI_TRY(tri_text_printf(out, "</h3>\n"));
  TRI_TRY(put_list("highest rewards, one answer a prompt", s->best, s->n_best, out));
  return put_list("lowest rewards, one answer a prompt", s->worst, s->n_worst, out);
}

tri_status tri_html_samples(const tri_html_report *p, tri_text *out) {
  bool any = false;

  for (int run = 0; run < p->n; run++) {
    if (p->run[run].samples.step < 0) continue;
    if (!any) TRI_TRY(tri_html_title(out, "samples", "Answers of the newest saved rollouts"));
    any = true;
    TRI_TRY(put_run(p, run, out));
  }
  return TRI_OK;
}
