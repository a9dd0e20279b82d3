/* draw.c - draws all runs on one screen, side by side if they fit, with one scale for each metric. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "look_impl.h"

#include "base/visible.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PANEL_LEAST = 38, GAP = 2 }; /* columns, chosen for two panels on a terminal of 80 */

/* Finds the lowest and highest value of the compressed curves. A single outlier among many values thus does
 * not flatten a curve. */
static void find_scale(const tri_look *l, const char *name, int width, tri_look_scale *out) {
  double part[TRI_LOOK_CURVE_MOST];

  *out = (tri_look_scale){NAN, NAN};
  for (int r = 0; r < l->n; r++) {
    const tri_history *h = l->run[r].h;
    int                i = tri_history_find(h, name), n;
    if (i < 0 || l->run[r].error) continue;
    tri_history_points p = tri_history_points_of(h, i);
    n = tri_look_compress(p.value, p.n, width > 0 ? width : 1, part);
    for (int k = 0; k < n; k++) {
      out->low = fmin(out->low, part[k]); /* fmin and fmax of a number and NaN are the number */
      out->high = fmax(out->high, part[k]);
    }
  }
}

static void make_frame(const tri_look *l, const tri_look_how *how, double now_unix_s, int columns,
                       tri_look_frame *f) {
  *f = (tri_look_frame){.how = how, .now_unix_s = now_unix_s, .columns = columns};
  f->n_metric = tri_look_choose(l, how, f->metric);
  for (int k = 0; k < f->n_metric; k++)
    find_scale(l, f->metric[k].name, tri_look_curve_columns(f), &f->scale[k]);
}

/* Writes the panels [n] of neighbouring runs side by side. */
static tri_status put_beside(const tri_look_lines *panel, int n, int columns, tri_text *out) {
  int64_t most = 0;

  for (int i = 0; i < n; i++) most = panel[i].n > most ? panel[i].n : most;
  for (int64_t row = 0; row < most; row++) {
    int owed = 0; /* spaces before the next panel, so that no line ends with spaces */
    for (int i = 0; i < n; i++) {
      const tri_look_line *line = row < panel[i].n ? &panel[i].line[row] : NULL;
      if (line && line->text.len) {
        TRI_TRY(tri_text_printf(out, "%*s", owed, ""));
        TRI_TRY(tri_text_put(out, line->text.data, line->text.len));
        owed = 0;
      }
      owed += columns - (line ? line->columns : 0) + GAP;
    }
    TRI_TRY(tri_text_put(out, "\n", 1));
  }
  return TRI_OK;
}

static tri_status put_row(const tri_look_frame *f, const tri_look_run *run, int n, tri_text *out) {
  tri_status      st = TRI_OK;
  tri_look_lines *panel = NULL;

  TRI_TRY(TRI_ALLOC(panel, n));
  for (int i = 0; i < n; i++) TRI_TRY_DONE(tri_look_panel(f, &run[i], &panel[i]));
  TRI_TRY_DONE(put_beside(panel, n, f->columns, out));
done:
  for (int i = 0; i < n; i++) tri_look_lines_free(&panel[i]);
  TRI_FREE(panel);
  return st;
}

/* Lists the scales below the panels if a panel's rows are too narrow for them. */
static tri_status put_scales(const tri_look_frame *f, int columns, tri_text *out) {
  tri_status st = TRI_OK;
  tri_text   line = {0};
  char       low[TRI_CELL_BYTES], high[TRI_CELL_BYTES], label[1024];
  int        n = 0;

  if (f->columns >= TRI_LOOK_SCALE_COLUMNS) return TRI_OK;
  for (int k = 0; k < f->n_metric; k++) {
    if (isnan(f->scale[k].low)) continue;
    f->metric[k].cell(f->scale[k].low, 6, low);
    f->metric[k].cell(f->scale[k].high, 6, high);
    tri_visible(f->metric[k].label, strlen(f->metric[k].label), "", label, sizeof label);
    TRI_TRY_DONE(tri_text_printf(&line, "%s%s %s to %s", n++ ? ", " : "scales: ", label, low, high));
  }
  if (!n) return TRI_OK;
  TRI_TRY_DONE(tri_text_put(out, "\n", 1));
  TRI_TRY_DONE(tri_text_wrap(line.data, columns, out));
  TRI_TRY_DONE(tri_text_put(out, "\n", 1));
done:
  tri_text_free(&line);
  return st;
}

tri_status tri_look_draw(const tri_look *l, const tri_look_how *how, double now_unix_s, tri_text *out) {
  int            beside = (how->columns + GAP) / (PANEL_LEAST + GAP), columns;
  tri_look_frame f;

  if (beside > l->n) beside = l->n;
  if (beside < 1) beside = 1;
  columns = (how->columns - GAP * (beside - 1)) / beside;
  make_frame(l, how, now_unix_s, columns < TRI_LOOK_LEAST_COLUMNS ? TRI_LOOK_LEAST_COLUMNS : columns, &f);
  for (int i = 0; i < l->n; i += beside) {
    if (i) TRI_TRY(tri_text_put(out, "\n", 1));
    TRI_TRY(put_row(&f, &l->run[i], l->n - i < beside ? l->n - i : beside, out));
  }
  return put_scales(&f, how->columns, out);
}
