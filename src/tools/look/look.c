/* look.c - opens the runs on show and reads them again. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "look_impl.h"

#include <string.h>

void tri_look_close(tri_look **l) {
  if (!*l) return;
  for (int i = 0; i < (*l)->n; i++) {
    tri_history_close(&(*l)->run[i].h);
    TRI_FREE((*l)->run[i].error);
  }
  TRI_FREE((*l)->run);
  TRI_FREE(*l);
}

tri_status tri_look_open(const char *const *folder, int n, tri_look **out) {
  tri_status st = TRI_OK;
  tri_look  *l = NULL;

  *out = NULL;
  TRI_TRY_DONE(TRI_ALLOC(l, 1));
  TRI_TRY_DONE(TRI_ALLOC(l->run, n));
  for (int bad = 0; l->n < n; l->n++) {
    tri_look_run *run = &l->run[l->n];
    st = tri_history_open_any(folder[l->n], &run->h);
    if (st == TRI_OK) continue;
    if (st == TRI_ENOMEM || ++bad == n) goto done; /* if no folder is a run's, the last error is returned */
    TRI_TRY_DONE(tri_copy_text(tri_error_message(), &run->error));
    tri_error_clear();
    l->n_bad++;
  }
  *out = l;
done:
  if (st != TRI_OK && l && l->run && l->n < n) {
    tri_history_close(&l->run[l->n].h);
    TRI_FREE(l->run[l->n].error);
  }
  if (st != TRI_OK) tri_look_close(&l);
  return st;
}

tri_status tri_look_check(const tri_look *l) {
  if (!l->n_bad) return TRI_OK;
  for (int i = 0; i < l->n; i++)
    if (l->run[i].error)
      TRI_FAIL(TRI_EINPUT, "unreadable folders: %d of %d. %s", l->n_bad, l->n, l->run[i].error);
  return TRI_OK;
}

tri_status tri_look_refresh(tri_look *l) {
  bool changed;

  for (int i = 0; i < l->n; i++) {
    tri_status st = tri_history_refresh(l->run[i].h, &changed);
    TRI_FREE(l->run[i].error);
    if (st == TRI_ENOMEM) return st;
    if (st != TRI_OK) TRI_TRY(tri_copy_text(tri_error_message(), &l->run[i].error));
    tri_error_clear();
  }
  return TRI_OK;
}
