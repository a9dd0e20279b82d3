/* extras.c - extra numbers of a reply, by name. They become metrics. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "extras.h"

#include "reply_json.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_name(const char *s) {
  size_t n = strlen(s);

  if (!n || n >= TRI_EXTRA_NAME_BYTES || !isalpha((unsigned char)*s) || (unsigned char)*s > 0x7F)
    return false;
  for (const char *c = s; *c; c++)
    if ((unsigned char)*c > 0x7F || (!isalnum((unsigned char)*c) && !strchr("_-.", *c))) return false;
  return strcmp(s, "mean") != 0;
}

/* Makes the name of a member visible for a message. */
static const char *show(const char *name, char out[48]) {
  size_t n = strlen(name);

  snprintf(out, 48, "%.40s%s", name, n > 40 ? "..." : "");
  for (char *c = out; *c; c++)
    if (iscntrl((unsigned char)*c)) *c = '?';
  return out;
}

/* Inserts a number in the order of names. Returns false if there are too many. */
static bool put(tri_extras *x, const char *name, double value) {
  int i = x->n;

  while (i > 0 && strcmp(x->at[i - 1].name, name) > 0) i--;
  if (i > 0 && !strcmp(x->at[i - 1].name, name)) {
    x->at[i - 1].value = value;
    return true;
  }
  if (x->n == TRI_EXTRAS_MOST) return false;
  memmove(&x->at[i + 1], &x->at[i], (size_t)(x->n - i) * sizeof *x->at);
  snprintf(x->at[i].name, sizeof x->at[i].name, "%s", name);
  x->at[i].value = value;
  x->n++;
  return true;
}

static bool is_odd(const json_t *v) {
  return json_is_string(v) && !strcmp(json_string_value(v), TRI_REPLY_ODD);
}

static bool is_number(const json_t *v) { return json_is_number(v) || json_is_boolean(v); }

static double number_of(const json_t *v) {
  return json_is_boolean(v) ? json_is_true(v) : json_number_value(v);
}

/* Returns the value for answer i, or NULL. */
static const json_t *value_of(const tri_extras_reply *r, const json_t *v, int i) {
  if (!json_is_array(v)) return v;
  return r->lists && json_array_size(v) == (size_t)r->n ? json_array_get(v, (size_t)i) : NULL;
}

/* Reads a member of extra_logs (strict) or of the reply itself. */
static bool take(const tri_extras_reply *r, const char *name, const json_t *value, bool strict,
                 tri_extras *out, char why[TRI_EXTRAS_WHY_BYTES]) {
  const char *of = strict ? "extra_logs." : "";
  char        shown[48];

  if (strict && json_is_array(value) && r->lists && json_array_size(value) != (size_t)r->n) {
    snprintf(why, TRI_EXTRAS_WHY_BYTES, "its `%s%s` has %zu values for %d answer%s", of, show(name, shown),
             json_array_size(value), r->n, r->n == 1 ? "" : "s");
    return false;
  }
  for (int i = 0; i < r->n; i++) {
    const json_t *v = value_of(r, value, i);
    bool          odd = is_odd(v) || (is_number(v) && !isfinite((float)number_of(v)));
    if (json_is_null(v) || (!odd && !is_number(v) && !strict)) continue;
    if (!is_name(name) && !strict) continue;
    if (!is_name(name))
      snprintf(
          why, TRI_EXTRAS_WHY_BYTES,
          "its `%s%s` cannot be a metric. A name begins with a letter, has letters, digits, _ - and ., at "
          "most %d, and is not mean",
          of, show(name, shown), TRI_EXTRA_NAME_BYTES - 1);
    else if (odd || !is_number(v))
      snprintf(why, TRI_EXTRAS_WHY_BYTES, "its `%s%s` is not a finite number. Leave it out if there is none",
               of, show(name, shown));
    else if (!put(&out[i], name, number_of(v)))
      snprintf(why, TRI_EXTRAS_WHY_BYTES,
               "its `%s%s` is one number too many. A reply may have %d beside the reward", of,
               show(name, shown), TRI_EXTRAS_MOST);
    else
      continue;
    return false;
  }
  return true;
}

static bool is_own(const tri_extras_reply *r, const char *name) {
  for (const char *const *own = r->own; *own; own++)
    if (!strcmp(*own, name)) return true;
  return false;
}

bool tri_extras_read(const tri_extras_reply *r, tri_extras *out, char why[TRI_EXTRAS_WHY_BYTES]) {
  json_t     *object = (json_t *)r->object, *logs = json_object_get(object, "extra_logs"), *value;
  const char *name;

  for (int i = 0; i < r->n; i++) out[i].n = 0;
  why[0] = 0;
  if (logs && !json_is_null(logs) && !json_is_object(logs)) {
    snprintf(why, TRI_EXTRAS_WHY_BYTES, "its `extra_logs` is not an object of names and numbers");
    return false;
  }
  json_object_foreach(object, name, value) if (value != logs && !is_own(r, name) &&
                                               !take(r, name, value, false, out, why)) return false;
  json_object_foreach(logs, name, value) if (!take(r, name, value, true, out, why)) return false;
  return true;
}
