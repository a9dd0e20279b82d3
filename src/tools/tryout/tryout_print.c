/* tryout_print.c - prints the results of a tryout of rewards: a table, JSON, failures in full. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"
#include "tryout.h"

#include "base/print.h"
#include "io/text/json_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 5, TEXT_SHOWN = 4096 }; /* chosen: failures that fill a few screens, and bytes of each text */

/* Mean seconds of an answer. The first, which starts a program, is left out if there are others. */
static double seconds_each(const tri_tried *x) {
  return x->start_s > 0 && x->n > 1 ? (x->seconds - x->start_s) / (x->n - 1) : x->seconds / x->n;
}

/* ---- a table ---- */

static tri_status put_number(tri_text *out, double x) {
  return isnan(x) ? tri_text_printf(out, " %10s", "-") : tri_text_printf(out, " %10.4g", x);
}

static tri_status put_row(tri_text *out, const tri_tried *x) {
  TRI_TRY(tri_text_printf(out, "%-18s %6g %6d", x->name, x->weight, x->failed));
  TRI_TRY(put_number(out, x->mean));
  TRI_TRY(put_number(out, x->least));
  TRI_TRY(put_number(out, x->most));
  TRI_TRY(tri_text_printf(out, " %12.2g\n", seconds_each(x)));
  for (int k = 0; k < x->n_extra; k++) {
    TRI_TRY(tri_text_printf(out, "  %-30s", x->extra[k].name));
    TRI_TRY(put_number(out, x->extra[k].sum / x->extra[k].n));
    if (x->extra[k].n < x->n)
      TRI_TRY(tri_text_printf(out, "  in %.0f of %d repl%s", x->extra[k].n, x->n, x->n == 1 ? "y" : "ies"));
    TRI_TRY(tri_text_put(out, "\n", 1));
  }
  return TRI_OK;
}

static double mean_total(const tri_tryout *t) {
  double sum = 0;

  for (int q = 0; q < t->saved.n; q++) sum += isnan(t->total[q]) ? 0 : (double)t->total[q];
  return t->saved.n > t->failed ? sum / (t->saved.n - t->failed) : NAN;
}

static tri_status put_table(const tri_tryout *t, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "%d answer%s\n%-18s %6s %6s %10s %10s %10s %12s\n", t->saved.n,
                          t->saved.n == 1 ? "" : "s", "reward", "weight", "failed", "mean", "least", "most",
                          "s an answer"));
  for (int i = 0; i < t->n; i++) TRI_TRY(put_row(out, &t->tried[i]));
  TRI_TRY(tri_text_printf(out, "%-18s %6s %6d", "sum by weight", "", t->failed));
  TRI_TRY(put_number(out, mean_total(t)));
  return tri_text_put(out, "\n", 1);
}

/* ---- JSON ---- */

static tri_status put_name(tri_text *out, const char *lead, const char *name) {
  TRI_TRY(tri_text_printf(out, "%s", lead));
  TRI_TRY(tri_json_put_string(out, name, strlen(name)));
  return tri_text_printf(out, ": ");
}

/* Writes {"reward": x, "seconds": x, "extras": {...}}, and for a failure "failure", "asked" and "reply". */
static tri_status put_verdict(tri_text *out, const tri_verdict *v) {
  const struct {
    const char *name, *text;
  } more[] = {{"failure", v->why}, {"asked", v->asked}, {"reply", v->reply}};

  TRI_TRY(tri_text_printf(out, "{\"reward\": "));
  TRI_TRY(tri_json_put_float(out, v->score));
  TRI_TRY(tri_text_printf(out, ", \"seconds\": "));
  TRI_TRY(tri_json_put_double(out, v->seconds));
  for (int k = 0; v->extras && k < v->extras->n; k++) {
    TRI_TRY(put_name(out, k ? ", " : ", \"extras\": {", v->extras->at[k].name));
    TRI_TRY(tri_json_put_double(out, v->extras->at[k].value));
    if (k + 1 == v->extras->n) TRI_TRY(tri_text_put(out, "}", 1));
  }
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
    if (!more[i].text) continue;
    TRI_TRY(put_name(out, ", ", more[i].name));
    TRI_TRY(tri_json_put_string(out, more[i].text, strlen(more[i].text)));
  }
  return tri_text_put(out, "}", 1);
}

static tri_status put_answer(const tri_tryout *t, int q, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "{\"line\": %lld, \"prompt_id\": %lld, \"reward\": ",
                          (long long)t->saved.line[q], (long long)t->saved.answer[q].prompt_id));
  TRI_TRY(tri_json_put_float(out, t->total[q]));
  TRI_TRY(tri_text_printf(out, ", \"rewards\": {"));
  for (int i = 0; i < t->n; i++) {
    TRI_TRY(put_name(out, i ? ", " : "", t->tried[i].name));
    TRI_TRY(put_verdict(out, &t->tried[i].verdict[q]));
  }
  return tri_text_printf(out, "}}\n");
}

static tri_status put_tried(const tri_tried *x, tri_text *out) {
  const struct {
    const char *name;
    double      value;
  } number[] = {{"weight", x->weight},
                {"mean", x->mean},
                {"least", x->least},
                {"most", x->most},
                {"seconds", x->seconds},
                {"seconds_first", x->start_s},
                {"seconds_each", seconds_each(x)}};

  TRI_TRY(tri_text_printf(out, "{\"failed\": %d", x->failed));
  for (size_t k = 0; k < sizeof number / sizeof *number; k++) {
    TRI_TRY(put_name(out, ", ", number[k].name));
    TRI_TRY(tri_json_put_double(out, number[k].value));
  }
  for (int k = 0; k < x->n_extra; k++) {
    TRI_TRY(put_name(out, k ? ", " : ", \"extras\": {", x->extra[k].name));
    TRI_TRY(tri_json_put_double(out, x->extra[k].sum / x->extra[k].n));
    if (k + 1 == x->n_extra) TRI_TRY(tri_text_put(out, "}", 1));
  }
  return tri_text_put(out, "}", 1);
}

static tri_status put_all(const tri_tryout *t, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "{\"answers\": %d, \"failed\": %d, \"reward_mean\": ", t->saved.n, t->failed));
  TRI_TRY(tri_json_put_double(out, mean_total(t)));
  TRI_TRY(tri_text_printf(out, ", \"rewards\": {"));
  for (int i = 0; i < t->n; i++) {
    TRI_TRY(put_name(out, i ? ", " : "", t->tried[i].name));
    TRI_TRY(put_tried(&t->tried[i], out));
  }
  return tri_text_printf(out, "}}\n");
}

tri_status tri_tryout_print(const tri_tryout *t, bool json) {
  tri_text   out = {0};
  tri_status st = TRI_OK;

  for (int q = 0; json && q < t->saved.n; q++) {
    out.len = 0;
    TRI_TRY_DONE(put_answer(t, q, &out));
    TRI_TRY_DONE(tri_print(out.data, out.len));
  }
  out.len = 0;
  TRI_TRY_DONE(json ? put_all(t, &out) : put_table(t, &out));
  TRI_TRY_DONE(tri_print(out.data, out.len));
done:
  tri_text_free(&out);
  return st;
}

/* ---- failures ---- */

static tri_status put_text(tri_text *out, const char *name, const char *text) {
  size_t n = text ? strlen(text) : 0;

  if (!text) return TRI_OK;
  return tri_text_printf(out, "\n  %-8s %.*s%s", name, TEXT_SHOWN, text, n > TEXT_SHOWN ? " ..." : "");
}

static tri_status put_failure(const tri_tryout *t, int i, int q, tri_text *out) {
  const tri_verdict *v = &t->tried[i].verdict[q];

  TRI_TRY(tri_text_printf(out, "%s:%lld: reward %s: %s", t->path, (long long)t->saved.line[q],
                          t->tried[i].name, v->why ? v->why : "it returned no number"));
  TRI_TRY(put_text(out, "asked:", v->asked));
  return put_text(out, "replied:", v->reply);
}

void tri_tryout_say_failures(const tri_tryout *t) {
  for (int i = 0; i < t->n; i++) {
    const tri_tried *x = &t->tried[i];
    tri_text         out = {0};
    int              shown = 0;
    for (int q = 0; q < x->n && shown < SHOWN; q++) {
      if (!isnan(x->verdict[q].score)) continue;
      out.len = 0;
      if (put_failure(t, i, q, &out) == TRI_OK) tri_log_lines(TRI_LOG_WARN, out.data);
      shown++;
    }
    tri_error_clear();
    tri_text_free(&out);
    if (x->failed > shown)
      tri_log(TRI_LOG_WARN, "reward %s: %d more answer%s failed. --json lists all", x->name,
              x->failed - shown, x->failed - shown == 1 ? "" : "s");
  }
}
