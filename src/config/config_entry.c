/* config_entry.c - finds the entry of a key, tells whether it has a value, and counts the entries that belong
 * to it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "config_entry.h"

#include "config_keys.h"

#include <string.h>

int tri_loader_entry(const tri_loader *l, int key) {
  return l->slot[key].argument >= 0 ? l->slot[key].argument : l->slot[key].file;
}

const tri_deck_entry *tri_loader_given(const tri_loader *l, const char *name) {
  int i = tri_loader_entry(l, name[0] == 'r' && !strcmp(name, "reward") ? tri_n_keys : tri_key_row(name));
  const tri_deck_entry *e = i < 0 ? NULL : tri_deck_at(l->deck, i);

  return e && tri_deck_is_null(e) ? NULL : e;
}

bool tri_loader_is_empty(const tri_deck_entry *e) { return !e->value[0] && e->index != TRI_DECK_EMPTY_LIST; }

int tri_loader_group(const tri_deck *d, int first) {
  int n = 1;

  while (first + n < tri_deck_count(d) && !tri_deck_at(d, first + n)->first) n++;
  return n;
}
