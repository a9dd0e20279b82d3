/* line.c - splits a line of metrics into fields, plain lines at the speed of the disk and others by
 * jansson. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "history_impl.h"

#include "io/text/json_text.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NESTED_MOST = 1 << 12 }; /* objects and lists of a line, chosen, since our lines have one */

void tri_history_fields_free(tri_history_fields *f) {
  json_decref(f->object);
  TRI_FREE(f->field);
  *f = (tri_history_fields){0};
}

/* A position in a line that ends with a NUL. */
typedef struct cursor {
  const char *p;
} cursor;

static void skip_blanks(cursor *c) { c->p += strspn(c->p, " \t\r"); }

static bool take(cursor *c, char wanted) {
  skip_blanks(c);
  if (*c->p != wanted) return false;
  c->p++;
  return true;
}

/* Takes a string "..." of printable ASCII without a backslash. */
static bool take_string(cursor *c, const char **text, int *n) {
  if (!take(c, '"')) return false;
  *text = c->p;
  while (*c->p >= ' ' && *c->p <= '~' && *c->p != '"' && *c->p != '\\') c->p++;
  *n = (int)(c->p - *text);
  return *c->p++ == '"';
}

/* Returns the position after a number in JSON's syntax, or NULL if there is none. strtod alone would accept
 * more. */
static const char *skip_number(const char *p, bool *whole) {
  p += *p == '-';
  if (*p < '0' || *p > '9' || (*p == '0' && p[1] >= '0' && p[1] <= '9')) return NULL;
  p += strspn(p, "0123456789");
  *whole = *p != '.' && *p != 'e' && *p != 'E';
  if (*p == '.' && !strspn(++p, "0123456789")) return NULL;
  p += strspn(p, "0123456789");
  if (*p != 'e' && *p != 'E') return p;
  p += p[1] == '-' || p[1] == '+' ? 2 : 1;
  return strspn(p, "0123456789") ? p + strspn(p, "0123456789") : NULL;
}

static bool take_number(cursor *c, tri_history_field *f) {
  bool        whole = false;
  const char *end = skip_number(c->p, &whole);
  char       *read;

  if (!end) return false;
  f->number = strtod(c->p, &read);
  if (read != end || !isfinite(f->number)) return false;
  f->kind = TRI_FIELD_NUMBER;
  errno = 0;
  if (whole) f->step = strtoll(c->p, NULL, 10);
  if (errno) return false; /* jansson rejects integers of this size */
  if (f->step < 0) f->step = -1;
  c->p = end;
  return true;
}

static bool take_value(cursor *c, tri_history_field *f) {
  skip_blanks(c);
  f->step = -1;
  if (*c->p == '"') {
    f->kind = TRI_FIELD_TEXT;
    return take_string(c, &f->text, &f->n_text);
  }
  if (strncmp(c->p, "null", 4) != 0) return take_number(c, f);
  f->kind = TRI_FIELD_NUMBER;
  f->number = NAN;
  c->p += 4;
  return true;
}

/* Takes a field. Returns false if its name is already there, as in no line of ours. */
static bool add_name(tri_history_fields *f, const tri_history_field *one) {
  size_t at = tri_history_slot(one->name, (size_t)one->n_name);

  for (; f->slot[at]; at = (at + 1) % TRI_HISTORY_NAME_SLOTS) {
    const tri_history_field *have = &f->field[f->slot[at] - 1];
    if (have->n_name == one->n_name && !memcmp(have->name, one->name, (size_t)one->n_name)) return false;
  }
  f->slot[at] = (uint16_t)(f->n + 1);
  return true;
}

/* *plain is true if the whole line was taken. Otherwise the line may still be valid JSON. */
static tri_status take_plain(const char *text, tri_history_fields *out, bool *plain) {
  cursor c = {text};
  bool   more;

  memset(out->slot, 0, sizeof out->slot);
  *plain = take(&c, '{');
  for (more = *plain; more && out->n < TRI_HISTORY_NAMES_MOST; more = *plain && take(&c, ',')) {
    tri_history_field f = {0};
    *plain = take_string(&c, &f.name, &f.n_name) && take(&c, ':') && take_value(&c, &f) && add_name(out, &f);
    TRI_TRY(TRI_GROW(out->field, out->cap, out->n + 1));
    out->field[out->n++] = f;
  }
  *plain = *plain && !more && take(&c, '}');
  skip_blanks(&c);
  *plain = *plain && !*c.p;
  return TRI_OK;
}

static tri_history_field field_of(const char *name, const json_t *value) {
  tri_history_field f = {.name = name, .n_name = (int)strlen(name), .step = -1, .kind = TRI_FIELD_OTHER};

  if (json_is_string(value)) {
    f.kind = TRI_FIELD_TEXT;
    f.text = json_string_value(value);
    f.n_text = (int)strlen(f.text);
  } else if (json_is_number(value) || json_is_null(value)) {
    f.kind = TRI_FIELD_NUMBER;
    f.number = json_is_null(value) ? NAN : json_number_value(value);
    if (json_is_integer(value) && json_integer_value(value) >= 0) f.step = json_integer_value(value);
  }
  return f;
}

static tri_status take_json(const char *text, size_t n, tri_history_fields *out, bool *good) {
  const char *name;
  json_t     *value;

  *good = false;
  if (!tri_json_fits(text, n, NESTED_MOST)) return TRI_OK;
  out->object = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
  if (!json_is_object(out->object) || json_object_size(out->object) > TRI_HISTORY_NAMES_MOST) return TRI_OK;
  json_object_foreach(out->object, name, value) {
    TRI_TRY(TRI_GROW(out->field, out->cap, out->n + 1));
    out->field[out->n++] = field_of(name, value);
  }
  *good = true;
  return TRI_OK;
}

tri_status tri_history_parse(const char *text, size_t n, tri_history_fields *out, bool *good) {
  json_decref(out->object);
  out->object = NULL;
  out->n = 0;
  TRI_TRY(take_plain(text, out, good)); /* it stops at a NUL inside the line */
  if (*good && strlen(text) == n) return TRI_OK;
  out->n = 0;
  return take_json(text, n, out, good);
}
