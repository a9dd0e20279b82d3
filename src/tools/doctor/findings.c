/* findings.c - keeps the list of findings. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "findings.h"
#include "base/host_memory.h"
#include "base/visible.h"

static tri_status put(char **where, const char *fmt, va_list ap) {
  char text[TRI_MESSAGE_BYTES];

  tri_visible_format(text, fmt, ap);
  return tri_copy_text(text, where);
}

tri_status tri_findings_add(tri_findings *f, const char *check, tri_level level, const char *where, ...) {
  tri_status st;
  va_list    ap;

  TRI_TRY(TRI_GROW(f->item, f->cap, f->n + 1));
  f->item[f->n] = (tri_finding){.check = check, .level = level};
  va_start(ap, where);
  st = put(&f->item[f->n].where, where, ap);
  va_end(ap);
  if (st == TRI_OK) f->n++;
  if (st == TRI_OK && level == TRI_LEVEL_ERROR) f->errors++;
  return st;
}

tri_status tri_findings_say(tri_findings *f, tri_finding_part part, const char *fmt, ...) {
  tri_finding *last;
  char       **text;
  tri_status   st;
  va_list      ap;

  TRI_ASSERT(f->n > 0);
  last = &f->item[f->n - 1];
  text = part == TRI_PART_WHAT ? &last->what : &last->cure;
  TRI_ASSERT(!*text);
  va_start(ap, fmt);
  st = put(text, fmt, ap);
  va_end(ap);
  return st;
}

void tri_findings_free(tri_findings *f) {
  for (int64_t i = 0; i < f->n; i++) {
    TRI_FREE(f->item[i].where);
    TRI_FREE(f->item[i].what);
    TRI_FREE(f->item[i].cure);
  }
  TRI_FREE(f->item);
  *f = (tri_findings){0};
}

const char *tri_level_text(tri_level level) { return level == TRI_LEVEL_ERROR ? "error" : "warning"; }

tri_status tri_findings_ranges(tri_text *out, const int *x, int n) {
  for (int i = 0, end; i < n; i = end) {
    for (end = i + 1; end < n && x[end] == x[end - 1] + 1; end++) {
    }
    TRI_TRY(tri_text_printf(out, end - i > 1 ? "%s%d-%d" : "%s%d", i ? "," : "", x[i], x[end - 1]));
  }
  return TRI_OK;
}
