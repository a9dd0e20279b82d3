/* keys.c - reads deck.yaml as a flat list of keys and values. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "history_impl.h"

#include "base/file.h"
#include "base/mask.h"
#include "io/text/deck.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DECK_BYTES = 1 << 20 }; /* same as in deck.h */

static void clear(tri_history_keys *k) {
  for (int64_t i = 0; i < k->n; i++) {
    TRI_FREE(k->row[i].key);
    TRI_FREE(k->row[i].value);
  }
  k->n = 0;
  TRI_FREE(k->error);
}

void tri_history_keys_free(tri_history_keys *k) {
  clear(k);
  TRI_FREE(k->row);
  *k = (tri_history_keys){.n = 0};
}

/* Writes section.key, key, section[2].field or section.key[2].field, and section.key.field for a mapping. */
static tri_status put_key(const tri_deck_entry *e, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "%s%s%s", e->section, e->section[0] && e->key[0] ? "." : "", e->key));
  if (e->index == TRI_DECK_MAPPING && e->field[0]) return tri_text_printf(out, ".%s", e->field);
  return e->field[0] ? tri_text_printf(out, "[%d].%s", e->index, e->field) : TRI_OK;
}

static bool is_empty(const tri_deck_entry *e) {
  return e->index == TRI_DECK_EMPTY_LIST || e->part == TRI_DECK_EMPTY_LIST;
}

/* Writes the value of the entry at `at` and of the following entries of the same list. *used is their
 * number. */
static tri_status put_value(const tri_deck *d, int at, tri_text *out, int *used) {
  const tri_deck_entry *e = tri_deck_at(d, at);
  bool is_field = e->field[0], is_list = is_field ? e->part != TRI_DECK_PLAIN : e->index != TRI_DECK_PLAIN;
  int  n = 1;

  *used = 1;
  if (e->index == TRI_DECK_MAPPING && !is_field) return tri_text_put(out, "{}", 2);
  if (is_empty(e)) return tri_text_put(out, "[]", 2);
  if (!is_list) return tri_text_put(out, e->value, strlen(e->value));
  TRI_TRY(tri_text_printf(out, "[%s", e->value));
  for (; at + n < tri_deck_count(d); n++) {
    const tri_deck_entry *next = tri_deck_at(d, at + n);
    if (next->first ||
        (is_field ? next->index != e->index || strcmp(next->field, e->field) != 0 : next->field[0]))
      break;
    TRI_TRY(tri_text_printf(out, ", %s", next->value));
  }
  *used = n;
  return tri_text_put(out, "]", 1);
}

static tri_status add_row(tri_history_keys *k, const tri_deck *d, int at, int *used) {
  tri_status          st = TRI_OK;
  tri_text            key = {0}, value = {0}, shown = {0};
  tri_history_key_row row = {0};

  TRI_TRY_DONE(put_key(tri_deck_at(d, at), &key));
  TRI_TRY_DONE(put_value(d, at, &value, used));
  TRI_TRY_DONE(TRI_GROW(k->row, k->cap, k->n + 1));
  TRI_TRY_DONE(tri_copy_text(key.data ? key.data : "", &row.key));
  /* runs of versions without masking may have left secrets in deck.yaml */
  TRI_TRY_DONE(tri_mask_text(value.data ? value.data : "", &shown));
  TRI_TRY_DONE(tri_copy_text(shown.data ? shown.data : "", &row.value));
  k->row[k->n++] = row;
done:
  if (st != TRI_OK) TRI_FREE(row.key);
  tri_text_free(&key);
  tri_text_free(&value);
  tri_text_free(&shown);
  return st;
}

static tri_status read_deck(tri_history_keys *k, const char *path, int fd) {
  tri_status st = TRI_OK;
  tri_deck  *d = NULL;
  char      *bytes = NULL;
  size_t     n;

  TRI_TRY_DONE(tri_file_read_open(fd, path, DECK_BYTES, &bytes, &n));
  TRI_TRY_DONE(tri_deck_open_text(path, bytes, n, &d));
  for (int i = 0, used; i < tri_deck_count(d); i += used) TRI_TRY_DONE(add_row(k, d, i, &used));
done:
  tri_deck_close(&d);
  TRI_FREE(bytes);
  return st;
}

/* Keeps the error of an unreadable deck for display. The metrics are still usable without the deck. */
static tri_status note_error(tri_history_keys *k, tri_status st) {
  if (st == TRI_OK || st == TRI_ENOMEM) return st;
  clear(k);
  st = tri_copy_text(tri_error_message(), &k->error);
  if (st == TRI_OK) tri_error_clear();
  return st;
}

tri_status tri_history_keys_read(tri_history_keys *k, const char *folder, bool *changed) {
  char        path[TRI_HISTORY_PATH_BYTES];
  struct stat now;
  tri_status  st;
  int         fd;

  snprintf(path, sizeof path, "%s/deck.yaml", folder);
  if (stat(path, &now)) now = (struct stat){0};
  if (tri_history_is_same(&k->seen, &now)) return TRI_OK;
  clear(k);
  k->seen = now;
  *changed = true;
  if (!now.st_ino) return TRI_OK;
  st = tri_file_open_if(path, &fd);
  if (st == TRI_OK && fd < 0) k->seen = (struct stat){0}; /* it vanished after stat and may come back */
  if (fd < 0) return note_error(k, st);
  st = note_error(k, read_deck(k, path, fd));
  close(fd);
  return st;
}
