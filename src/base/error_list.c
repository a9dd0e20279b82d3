/* error_list.c - a list of the user's errors, for checks that continue after an error. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "error_list.h"

#include <stdio.h>

tri_status tri_error_note(tri_status st, tri_errors *errors) {
  bool theirs = st == TRI_EARG || st == TRI_ECONFIG || st == TRI_EINPUT || st == TRI_EFORMAT ||
                st == TRI_EFILE || st == TRI_EABSENT;

  if (!errors || !theirs) return st;
  TRI_TRY(tri_text_printf(&errors->text, "%s\n", tri_error_message()));
  TRI_TRY(tri_text_printf(&errors->trace, "%s", tri_error_trace()));
  if (errors->n && tri_status_exit_code(st) != tri_status_exit_code(errors->st)) st = TRI_ECONFIG;
  errors->st = st;
  errors->n++;
  tri_error_clear();
  return TRI_OK;
}

tri_status tri_errors_fail(const tri_errors *errors) {
  tri_error_kept error;

  TRI_ASSERT(errors->n == 1);
  snprintf(error.message, sizeof error.message, "%.*s", (int)errors->text.len - 1, errors->text.data);
  snprintf(error.trace, sizeof error.trace, "%s", errors->trace.data);
  tri_error_put_back(&error);
  return errors->st;
}

tri_status tri_errors_miss(tri_errors *errors, const char *what) {
  if (!errors) return TRI_OK;
  return tri_text_printf(&errors->unseen, "%s%s", errors->unseen.len ? ", " : "", what);
}

void tri_errors_free(tri_errors *errors) {
  tri_text_free(&errors->text);
  tri_text_free(&errors->trace);
  tri_text_free(&errors->unseen);
}
