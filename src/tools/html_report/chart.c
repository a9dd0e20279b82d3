/* chart.c - draws one metric of all runs as curves in an SVG. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/columns.h"
#include "base/host_memory.h"
#include "escape.h"
#include "groups.h"
#include "thin.h"

enum {
  HEIGHT = 10000,  /* units of the vertical axis, chosen so that the pointer reads four digits */
  MEAN_ROWS = 200, /* most points of a mean, chosen */
  FEW_ROWS = 40,   /* curves of at most so many points get dots, chosen */
  NEAR_BYTES = 7   /* longest mark, as wide as the style sheet permits */
};
#define MOST      1e300 /* chosen, an axis would overflow beyond it, and no metric comes near */
#define LEAST     1e-300
#define LOG_RANGE 30.0  /* chosen, a smaller range is as clear on a linear scale */
#define MEAN_GAIN 0.008 /* mean share of the axis, chosen as about a pixel */

/* The numbers of a metric in one run. */
typedef struct series {
  int       run;
  tri_curve curve;
  double   *value;              /* [curve.n], owned, curve.value points to it */
  int64_t   n, n_alone, newest; /* count of numbers, count of those without neighbours, row of the last one */
} series;

typedef struct chart {
  const tri_html_span *s;
  const char          *name;
  series               of[32]; /* [n] */
  int                  n;
  double               low, high;
  tri_axis             x, y;
  bool                 is_eval, joined;
} chart;

/* ---- numbers ---- */

static bool has(const series *r, int64_t i) { return i >= 0 && i < r->curve.n && !isnan(r->value[i]); }

static void count(chart *c, series *r) {
  for (int64_t i = 0; i < r->curve.n; i++) {
    if (!has(r, i)) continue;
    c->low = fmin(c->low, r->value[i]);
    c->high = fmax(c->high, r->value[i]);
    r->n_alone += !has(r, i - 1) && !has(r, i + 1);
    r->newest = i;
    r->n++;
  }
}

/* Adds the curve of a run, if it has any number. Values above MOST become NaN, values below LEAST become
 * 0. */
static tri_status take_run(chart *c, int run) {
  const tri_history *h = c->s->run[run];
  int                at = tri_history_find(h, c->name);
  series             r = {.run = run};
  tri_history_points p;

  if (at < 0) return TRI_OK;
  p = tri_history_points_of(h, at);
  r.curve = (tri_curve){tri_history_step(h), NULL, tri_history_rows(h)};
  TRI_TRY(TRI_ALLOC(r.value, r.curve.n + 1));
  for (int64_t i = 0; i < r.curve.n; i++) r.value[i] = (double)NAN;
  for (int64_t i = 0; i < p.n; i++)
    r.value[p.row[i]] = fabs(p.value[i]) < LEAST ? 0 : fabs(p.value[i]) <= MOST ? p.value[i] : (double)NAN;
  r.curve.value = r.value;
  count(c, &r);
  if (r.n)
    c->of[c->n++] = r;
  else
    TRI_FREE(r.value);
  return TRI_OK;
}

static bool all_above_zero(const chart *c) {
  for (int k = 0; k < c->n; k++)
    for (int64_t i = 0; i < c->of[k].curve.n; i++)
      if (has(&c->of[k], i) && c->of[k].value[i] <= 0) return false;
  return true;
}

static void choose_axes(chart *c) {
  int64_t n = 0, n_alone = 0;
  bool    log = tri_html_metric_may_be_log(c->name) && all_above_zero(c) && c->high / c->low >= LOG_RANGE;

  for (int k = 0; k < c->n; k++) n += c->of[k].n, n_alone += c->of[k].n_alone;
  c->is_eval = tri_html_metric_is_eval(c->name);
  c->joined = c->is_eval || 2 * n_alone > n;
  c->x = tri_axis_steps(c->s->first, c->s->last);
  c->y = tri_axis_make(c->low, c->high, tri_html_metric_kind(c->name), log);
}

/* ---- paths, with x in steps from the first and y in parts of HEIGHT from the top ---- */

static long long down(const chart *c, double value) {
  double y = (1 - tri_axis_place(&c->y, value)) * HEIGHT;

  return llround(fmin(fmax(y, 0), HEIGHT));
}

static tri_status begin_path(tri_text *out, const char *kind, int run) {
  return tri_text_printf(out, "<path class=\"%s h u%d\" data-run=\"%d\" d=\"", kind, run, run);
}

/* Draws a line through rows [n], broken at gaps. It goes through `means`, or through the curve itself if
 * means is NULL. A single point is a line of length zero, visible by its round ends. */
static tri_status put_line(const chart *c, const series *r, const char *kind, const int64_t *row, int64_t n,
                           const tri_means *means, tri_text *out) {
  long long x = 0, y = 0;
  bool      open = false;

  TRI_TRY(begin_path(out, kind, r->run));
  for (int64_t i = 0; i < n; i++) {
    long long to_x, to_y;
    if (row[i] == TRI_THIN_GAP || (means && !isfinite(means->mean[i]))) {
      open = false;
      continue;
    }
    open = open && !(means && row[i] - row[i - 1] > means->apart);
    to_x = r->curve.step[row[i]] - c->s->first;
    to_y = down(c, means ? means->mean[i] : r->value[row[i]]);
    if (open)
      TRI_TRY(
          tri_text_printf(out, "%s%lld%s%lld", to_x < x ? "" : " ", to_x - x, to_y < y ? "" : " ", to_y - y));
    else
      TRI_TRY(tri_text_printf(out, "M%lld %lldl0 0", to_x, to_y));
    open = true;
    x = to_x;
    y = to_y;
  }
  return tri_text_printf(out, "\"/>");
}

static tri_status put_dots(const chart *c, const series *r, const int64_t *row, int64_t n, tri_text *out) {
  TRI_TRY(begin_path(out, "dots", r->run));
  for (int64_t i = 0; i < n; i++)
    if (row[i] != TRI_THIN_GAP)
      TRI_TRY(tri_text_printf(out, "M%lld %lldh0", (long long)(r->curve.step[row[i]] - c->s->first),
                              down(c, r->value[row[i]])));
  return tri_text_printf(out, "\"/>");
}

/* Returns true if the means lie visibly apart from the curve. They do for a noisy curve, but not for a smooth
 * one. */
static bool shows_more(const chart *c, const series *r, const tri_means *m) {
  double apart = 0;

  for (int64_t i = 0; i < m->n; i++)
    if (isfinite(m->mean[i]))
      apart += fabs((double)(down(c, m->mean[i]) - down(c, r->value[m->row[i]]))) / (double)m->n;
  return apart > MEAN_GAIN * HEIGHT;
}

static tri_status put_series(const chart *c, const series *r, tri_text *out) {
  int64_t   *row = NULL, n = 0;
  tri_means  m = {0};
  bool       with_mean;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(tri_thin(&r->curve, c->s->first, c->s->last, c->s->columns, c->joined, &row, &n));
  if (!c->joined) TRI_TRY_DONE(tri_means_make(&r->curve, MEAN_ROWS, &m));
  with_mean = m.n && shows_more(c, r, &m);
  TRI_TRY_DONE(put_line(c, r, with_mean ? "raw" : "line", row, n, NULL, out));
  if (with_mean) TRI_TRY_DONE(put_line(c, r, "mean", m.row, m.n, &m, out));
  if (c->joined ? n <= 2 * FEW_ROWS : n <= FEW_ROWS) TRI_TRY_DONE(put_dots(c, r, row, n, out));
done:
  TRI_FREE(row);
  tri_means_free(&m);
  return st;
}

/* ---- caption, grid and frame ---- */

tri_status tri_html_put_number(tri_text *out, double x, bool bytes) {
  static const char *const thousands[] = {"", "k", "M", "G", "T"};
  double                   size = fabs(x), unit = 1;
  char                     text[TRI_CELL_BYTES];
  int                      k = 0;

  if (!isfinite(x)) return tri_text_printf(out, "-");
  if (bytes && x >= 0 && x < 9e18) {
    tri_cell_bytes((int64_t)x, text);
    return tri_text_printf(out, "%s", text);
  }
  if (size != 0 && (size < 1e-3 || size >= 1e15)) {
    tri_cell_digits(x, 8, text);
    return tri_text_printf(out, "%s", text);
  }
  if (x == floor(x) && size < 1e6) return tri_text_printf(out, "%.0f", x);
  for (; size >= 1e5 && size >= 1000 * unit && k < 4; k++) unit *= 1000;
  return tri_text_printf(out, size / unit >= 1e4 ? "%.0f%s" : "%.4g%s", x / unit, thousands[k]);
}

static tri_status put_newest(const chart *c, tri_text *out) {
  bool bytes = tri_html_metric_kind(c->name) == TRI_AXIS_BYTES;

  TRI_TRY(tri_text_printf(out, "<span class=\"last\">"));
  for (int k = 0; k < c->n; k++) {
    const series *r = &c->of[k];
    TRI_TRY(tri_text_printf(out, "<span class=\"h u%d\" title=\"step %lld\">", r->run,
                            (long long)r->curve.step[r->newest]));
    TRI_TRY(tri_html_put_number(out, r->value[r->newest], bytes));
    TRI_TRY(tri_text_printf(out, "</span>"));
  }
  return tri_text_printf(out, "</span>");
}

static tri_status put_caption(const chart *c, tri_text *out) {
  const char *part[] = {tri_html_metric_words(c->name), tri_html_metric_unit(c->name), tri_axis_unit(&c->y),
                        c->y.log ? "log scale" : ""};
  bool        any = false;

  TRI_TRY(tri_text_printf(out, "<figcaption><b>"));
  TRI_TRY(tri_html_put(out, c->name));
  TRI_TRY(tri_text_printf(out, "</b>"));
  TRI_TRY(put_newest(c, out));
  TRI_TRY(tri_text_printf(out, "<small>"));
  for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
    if (!part[i] || !part[i][0]) continue;
    TRI_TRY(tri_text_printf(out, "%s%s", any ? " \xC2\xB7 " : "", part[i]));
    any = true;
  }
  return tri_text_printf(out, "%s</small></figcaption>", any ? "" : "\xC2\xA0");
}

static tri_status put_grid(const chart *c, tri_text *out) {
  char text[TRI_TICK_BYTES];

  for (int i = 0; i < c->y.n; i++) {
    double part = 100 * (1 - tri_axis_place(&c->y, c->y.at[i]));
    tri_axis_text(&c->y, c->y.at[i], text);
    TRI_TRY(tri_text_printf(out, "<line%s x2=\"100%%\" y1=\"%.5g%%\" y2=\"%.5g%%\"/>",
                            c->y.at[i] == 0 ? " class=\"base\"" : "", part, part));
    TRI_TRY(tri_text_printf(out, "<text class=\"y\" x=\"-8\" y=\"%.5g%%\" dy=\"4\">%s</text>", part, text));
  }
  for (int i = 0; i < c->x.n; i++) {
    double part = 100 * tri_axis_place(&c->x, c->x.at[i]);
    tri_axis_text(&c->x, c->x.at[i], text);
    TRI_TRY(
        tri_text_printf(out, "<line x1=\"%.5g%%\" x2=\"%.5g%%\" y1=\"100%%\" y2=\"100%%\"/>", part, part));
    TRI_TRY(
        tri_text_printf(out, "<text class=\"x\" x=\"%.5g%%\" y=\"100%%\" dy=\"17\">%s</text>", part, text));
  }
  return TRI_OK;
}

/* Returns true if a mark is longer than usual. */
static bool is_wide(const chart *c) {
  char   text[TRI_TICK_BYTES];
  size_t most = 0;

  for (int i = 0; i < c->y.n; i++) {
    tri_axis_text(&c->y, c->y.at[i], text);
    if (strlen(text) > most) most = strlen(text);
  }
  return most > NEAR_BYTES;
}

static tri_status put_svg(const chart *c, tri_text *out) {
  int64_t first = c->s->first, span = c->s->last - first;

  TRI_TRY(tri_text_printf(out, "<div class=\"box%s\"><svg class=\"plot\" role=\"img\" aria-label=\"",
                          is_wide(c) ? " far" : ""));
  TRI_TRY(tri_html_put(out, c->name));
  TRI_TRY(tri_text_printf(
      out,
      ", steps %lld to %lld\" data-kind=\"%s\" data-log=\"%d\" data-low=\"%.17g\" data-high=\"%.17g\" "
      "data-from=\"%.1f\" data-to=\"%.1f\" data-first=\"%lld\" data-width=\"%lld\">",
      (long long)first, (long long)c->s->last, c->y.kind == TRI_AXIS_BYTES ? "bytes" : "number", c->y.log,
      c->y.low, c->y.high, c->x.low, c->x.high, (long long)first,
      (long long)tri_thin_width(first, c->s->last, c->s->columns)));
  TRI_TRY(put_grid(c, out));
  TRI_TRY(tri_text_printf(out,
                          "<svg class=\"in\" width=\"100%%\" height=\"100%%\" viewBox=\"%s 0 %lld %d\" "
                          "preserveAspectRatio=\"none\">",
                          span ? "0" : "-0.5", (long long)(span ? span : 1), HEIGHT));
  for (int k = 0; k < c->n; k++) TRI_TRY(put_series(c, &c->of[k], out));
  return tri_text_printf(out, "</svg></svg></div>");
}

/* Returns true if all numbers of all runs are equal, and there are several or they are 0. */
static bool is_constant(const chart *c) {
  int64_t n = 0;

  for (int k = 0; k < c->n; k++) n += c->of[k].n;
  return c->low == c->high && (n > c->s->n_run || c->low == 0);
}

static tri_status put_figure(const chart *c, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "<figure>"));
  TRI_TRY(put_caption(c, out));
  TRI_TRY(put_svg(c, out));
  return tri_text_printf(out, "</figure>\n");
}

static tri_status put_constant(const chart *c, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "<span>"));
  TRI_TRY(tri_html_put(out, c->name));
  TRI_TRY(tri_text_printf(out, " <b>"));
  TRI_TRY(tri_html_put_number(out, c->low, c->y.kind == TRI_AXIS_BYTES));
  return tri_text_printf(out, "</b></span>\n");
}

tri_status tri_html_chart(const tri_html_span *s, const char *name, tri_text *charts, tri_text *constants) {
  chart      c = {.s = s, .name = name, .low = INFINITY, .high = -INFINITY};
  tri_status st = TRI_OK;

  TRI_ASSERT(s->n_run <= (int)(sizeof c.of / sizeof *c.of));
  for (int run = 0; run < s->n_run; run++) TRI_TRY_DONE(take_run(&c, run));
  if (!c.n) goto done;
  choose_axes(&c);
  if (is_constant(&c))
    TRI_TRY_DONE(put_constant(&c, constants));
  else
    TRI_TRY_DONE(put_figure(&c, charts));
done:
  for (int k = 0; k < c.n; k++) TRI_FREE(c.of[k].value);
  return st;
}
