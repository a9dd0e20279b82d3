/* look.c - the runs that are looked at: opened, read again. */
#include "look_impl.h"

#include <string.h>

void tri_look_close(tri_look **l) {
  if (!*l) return;
  for (int i = 0; i < (*l)->n; i++) {
    tri_history_close(&(*l)->run[i].h);
    TRI_FREE((*l)->run[i].fault);
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
  for (; l->n < n; l->n++) TRI_TRY_DONE(tri_history_open(folder[l->n], &l->run[l->n].h));
  *out = l;
done:
  if (st != TRI_OK) tri_look_close(&l);
  return st;
}

tri_status tri_look_refresh(tri_look *l) {
  bool changed;

  for (int i = 0; i < l->n; i++) {
    tri_status st = tri_history_refresh(l->run[i].h, &changed);
    TRI_FREE(l->run[i].fault);
    if (st == TRI_ENOMEM) return st;
    if (st != TRI_OK) TRI_TRY(tri_copy_text(tri_error_message(), &l->run[i].fault));
    tri_error_clear();
  }
  return TRI_OK;
}
