/* command_metrics.c - trireme metrics [NAME ...]: explains every number of a run. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "metric/metric_names.h"
#include "base/print.h"
#include "comm/runtime.h"
#include "commands.h"
#include "io/text/json_text.h"

#include <stdio.h>
#include <string.h>

enum { MOST_ROWS = 4 }; /* chosen: most rows for one name or word */

/* Appends "meaning [unit]; WORD on screens". */
static tri_status put_short(const tri_metric_row *r, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "%s", r->meaning));
  if (r->unit[0] && strncmp(r->meaning, r->unit, strlen(r->unit)) != 0)
    TRI_TRY(tri_text_printf(out, " [%s]", r->unit));
  return r->word ? tri_text_printf(out, "; %s on screens", r->word) : TRI_OK;
}

static tri_status list_all(void) {
  enum { INDENT = 36 };
  tri_text              text = {0};
  const tri_metric_row *r;
  tri_status            st = TRI_OK;

  printf("The numbers of metrics.jsonl and of screens. trireme metrics NAME tells more.\n");
  for (tri_metric_group g = 0; g < TRI_GROUPS; g++) {
    printf("\n%s:\n", tri_metric_group_title(g));
    for (int i = 0; (r = tri_metric_row_at(i)) != NULL; i++) {
      if (r->group != g) continue;
      text.len = 0;
      TRI_TRY_DONE(put_short(r, &text));
      tri_flags_row(r->name, INDENT, text.data);
    }
  }
done:
  tri_text_free(&text);
  return st;
}

static void tell(const tri_metric_row *r, bool first) {
  enum { INDENT = 13 };

  printf("%s%s\n", first ? "" : "\n", r->name);
  if (r->word) tri_flags_row("screens", INDENT, r->word);
  tri_flags_row("unit", INDENT, r->unit[0] ? r->unit : "none");
  tri_flags_row("meaning", INDENT, r->meaning);
  tri_flags_row("moved by", INDENT, r->moves);
}

/* ---- as JSON ---- */

static tri_status put_member(tri_text *out, const char *key, const char *value, const char *end) {
  TRI_TRY(tri_text_printf(out, "\"%s\": ", key));
  TRI_TRY(value ? tri_json_put_string(out, value, strlen(value)) : tri_text_printf(out, "null"));
  return tri_text_printf(out, "%s", end);
}

static tri_status put_json(const tri_metric_row *r, bool first, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "%s{", first ? "" : ",\n "));
  TRI_TRY(put_member(out, "name", r->name, ", "));
  TRI_TRY(put_member(out, "screen", r->word, ", "));
  TRI_TRY(put_member(out, "group", tri_metric_group_title(r->group), ", "));
  TRI_TRY(put_member(out, "unit", r->unit, ", "));
  TRI_TRY(put_member(out, "meaning", r->meaning, ", "));
  return put_member(out, "moved_by", r->moves, "}");
}

/* ---- the command ---- */

static tri_status refuse(const char *asked) {
  const char *near = tri_metric_nearest(asked);

  TRI_FAIL(TRI_EARG, "unknown metric %.200s%s%s. `trireme metrics` lists all", asked,
           near ? "; nearest: " : "", near ? near : "");
}

/* Shows the rows of one argument, or all rows if `asked` is NULL. If `json` is not NULL, it appends them
 * there instead. *n counts the rows so far. */
static tri_status work(const char *asked, tri_text *json, int *n) {
  const tri_metric_row *row[MOST_ROWS], *r;
  int                   found = asked ? tri_metric_rows_named(asked, row, MOST_ROWS) : 0;

  if (asked && !found) return refuse(asked);
  for (int i = 0; (r = asked ? i < found ? row[i] : NULL : tri_metric_row_at(i)) != NULL; i++, (*n)++) {
    if (json)
      TRI_TRY(put_json(r, *n == 0, json));
    else
      tell(r, *n == 0);
  }
  return TRI_OK;
}

static tri_status run(int argc, char **argv, int *code) {
  bool     json = false, help;
  tri_flag flag[] = {
      {"--json", TRI_FLAG_BOOL, &json, 0, 0, NULL,
       "print one array of objects with name, screen (its word there, or null), group, unit, meaning and "
       "moved_by"}};
  tri_text   out = {0};
  tri_status st = TRI_OK;
  int        n, rows = 0;

  (void)code;
  TRI_TRY(tri_flags_parse(&tri_command_metrics, flag, 1, argc, argv, &n, &help));
  if (help || tri_runtime_env_rank() != 0) return TRI_OK; /* one rank does the work */
  if (!json && !n) return list_all();
  for (int i = 0; i < n; i++) /* an unknown name is refused before anything is printed */
    if (!tri_metric_row_find(argv[i]) && !tri_metric_rows_named(argv[i], &(const tri_metric_row *){NULL}, 1))
      return refuse(argv[i]);
  if (json) TRI_TRY_DONE(tri_text_printf(&out, "["));
  for (int i = 0; i < (n ? n : 1); i++) TRI_TRY_DONE(work(n ? argv[i] : NULL, json ? &out : NULL, &rows));
  if (json) TRI_TRY_DONE(tri_text_printf(&out, "]\n"));
  if (json) TRI_TRY_DONE(tri_print(out.data, out.len));
done:
  tri_text_free(&out);
  return st;
}

const tri_command tri_command_metrics = {"metrics", "[NAME ...] [--json]",
                                         "explain the numbers of screens and metrics.jsonl", run};
