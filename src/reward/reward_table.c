/* reward_table.c - the table of rewards, and the checks of a row of a deck or of flags. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/mask.h"
#include "base/visible.h"
#include "reward.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POINTER(name) &tri_reward_##name,
static const tri_reward *const table[] = {TRI_REWARD_LIST(POINTER)};
enum { N_REWARD = sizeof table / sizeof *table };

const tri_reward *tri_reward_at(int i) { return i >= 0 && i < N_REWARD ? table[i] : NULL; }

const tri_reward *tri_reward_find(const char *name) {
  for (int i = 0; i < N_REWARD; i++)
    if (!strcmp(table[i]->name, name)) return table[i];
  return NULL;
}

void tri_reward_names(const char *last, char out[TRI_REWARD_NAMES_BYTES]) {
  size_t used = 0;

  for (int i = 0; i < N_REWARD; i++) {
    used += (size_t)snprintf(out + used, TRI_REWARD_NAMES_BYTES - used, "%s%s",
                             !i                 ? ""
                             : i < N_REWARD - 1 ? ", "
                                                : last,
                             table[i]->name);
    TRI_ASSERT(used < TRI_REWARD_NAMES_BYTES);
  }
}

const char *tri_reward_get(const tri_reward_opt *o, const char *field) {
  for (int i = 0; i < o->n_field; i++)
    if (!strcmp(o->field[i].name, field)) return o->field[i].value;
  return NULL;
}

const char *tri_reward_get_list(const tri_reward_opt *o, const char *field, int *n) {
  *n = 0;
  for (int i = 0; i < o->n_field; i++) {
    if (strcmp(o->field[i].name, field) != 0) continue;
    *n = o->field[i].n_more + 1;
    return o->field[i].value;
  }
  return NULL;
}

const char *tri_reward_next(const char *text) { return text + strlen(text) + 1; }

tri_status tri_reward_check_name(const char *name) {
  const char *known[N_REWARD], *near;
  char        all[TRI_REWARD_NAMES_BYTES];

  if (tri_reward_find(name)) return TRI_OK;
  if (tri_ends_with(name, ".py") || tri_ends_with(name, ".sh") || strchr(name, '/'))
    TRI_FAIL(TRI_ECONFIG,
             "there is no reward '%.200s'. To run a program, use reward process, {name: process, command: "
             "[%s%.200s]}",
             name, tri_ends_with(name, ".py") ? "python3, " : "", name);
  for (int i = 0; i < N_REWARD; i++) known[i] = table[i]->name;
  near = tri_nearest(name, known, N_REWARD);
  tri_reward_names(" and ", all);
  TRI_FAIL(TRI_ECONFIG, "there is no reward '%.200s'. %s%s", name, near ? "The nearest is " : "There are ",
           near ? near : all);
}

/* Returns NULL if the reward has no such field. */
static const tri_reward_field *find_field(const tri_reward *kind, const char *field) {
  for (const tri_reward_field *f = kind->field; f && f->name; f++)
    if (!strcmp(f->name, field)) return f;
  return NULL;
}

static bool takes(const tri_reward *kind, const char *field) { return find_field(kind, field) != NULL; }

tri_status tri_reward_mask(const tri_reward_field *f, const char *before, const char *value, tri_text *out) {
  if (f->masks == TRI_REWARD_MASK_URL) return tri_mask_url(value, out);
  if (f->masks == TRI_REWARD_MASK_WORDS) return tri_mask_word(before, value, out);
  return tri_text_put(out, value, strlen(value));
}

/* Tells whether the row gives another field in place of this one. */
static bool gives_instead(const tri_reward_opt *o, const char *field) {
  for (const tri_reward_field *f = tri_reward_find(o->name)->field; f && f->name; f++)
    if (f->instead && !strcmp(f->instead, field) && tri_reward_get(o, f->name)) return true;
  return false;
}

bool tri_reward_is_aside(const tri_reward_opt *a, const tri_reward_opt *b, const char *field) {
  const tri_reward_field *f = find_field(tri_reward_find(a->name), field);
  const char             *of = f && f->instead ? f->instead : field;

  return gives_instead(a, of) || (b && !strcmp(a->name, b->name) && gives_instead(b, of));
}

/* Checks that the row gives a required field or one in its place, and not both. */
static tri_status check_must(const tri_reward_opt *o, const tri_reward_field *must, const char **field) {
  char   others[128] = "";
  size_t used = 0;
  int    n = 0;

  for (const tri_reward_field *f = tri_reward_find(o->name)->field; f && f->name; f++) {
    const char *value = tri_reward_get(o, f->name);
    bool        instead = f->instead && !strcmp(f->instead, must->name);
    if (f != must && !instead) continue;
    if (instead && used < sizeof others)
      used += (size_t)snprintf(others + used, sizeof others - used, " or %s", f->name);
    if (!value || !value[0]) continue;
    *field = f->name;
    n++;
  }
  if (n > 1) TRI_FAIL(TRI_ECONFIG, "reward %s takes only one of %s%s", o->name, must->name, others);
  if (n == 1) return TRI_OK;
  *field = must->name;
  TRI_FAIL(TRI_ECONFIG, "reward %s needs a %s%s", o->name, must->name, others);
}

tri_status tri_reward_check_fields(const tri_reward_opt *o, const char **field) {
  const tri_reward *kind = tri_reward_find(o->name);

  for (const tri_reward_field *f = kind->field; f && f->name; f++)
    if (f->must) TRI_TRY(check_must(o, f, field));
  for (int i = 0; i < o->n_field; i++) {
    if (takes(kind, o->field[i].name)) continue;
    *field = o->field[i].name;
    TRI_FAIL(TRI_ECONFIG, "reward %s has no field %s", o->name, *field);
  }
  return TRI_OK;
}

enum { VALUE_SHOWN = 200 }; /* bytes. Chosen: leaves space for the rest of a message */
/* Returns st, with the field before its message: lead, name, between and value. */
static tri_status name_field(tri_status st, const tri_reward_opt *o, const char *field, const char *lead,
                             const char *between) {
  const char             *given = tri_reward_get(o, field), *value = "";
  const tri_reward_field *f = find_field(tri_reward_find(o->name), field);
  char                    where[TRI_MESSAGE_BYTES], name[64], visible[TRI_MESSAGE_BYTES];
  tri_text                shown = {0};

  if (st == TRI_OK) return TRI_OK;
  snprintf(name, sizeof name, "%s", field);
  for (char *c = name; *c && !strcmp(lead, "--"); c++) *c = *c == '_' ? '-' : *c; /* flags have hyphens */
  if (given && (!f || tri_reward_mask(f, NULL, given, &shown) == TRI_OK))
    value = shown.data ? shown.data : given;
  snprintf(where, sizeof where, "%s%s%s%.*s%s", lead, name, given ? between : "", VALUE_SHOWN, value,
           strlen(value) > VALUE_SHOWN ? "..." : "");
  tri_visible(where, strlen(where), "", visible, sizeof visible);
  tri_text_free(&shown);
  return tri_error_at(st, visible);
}

/* Tells whether the value has a mask at the place of a secret. It replaces the mask by other letters and
 * looks whether they would be masked. */
static tri_status has_mask(const tri_reward_field *f, const char *before, const char *value, bool *has) {
  static const char other[] = "zzzzzzzzzzzz";
  tri_text          with = {0}, masked = {0};
  tri_status        st = TRI_OK;

  *has = strstr(value, TRI_MASK) && f->masks == TRI_REWARD_MASK_URL;
  if (!strstr(value, TRI_MASK) || *has) return TRI_OK;
  for (const char *at = value, *mask; st == TRI_OK && *at;
       at = mask ? mask + strlen(TRI_MASK) : at + strlen(at)) {
    mask = strstr(at, TRI_MASK);
    st = tri_text_put(&with, at, mask ? (size_t)(mask - at) : strlen(at));
    if (st == TRI_OK && mask) st = tri_text_put(&with, other, strlen(other));
  }
  if (st == TRI_OK) st = tri_reward_mask(f, before, with.data, &masked);
  if (st == TRI_OK) *has = strcmp(with.data, masked.data) != 0;
  tri_text_free(&with);
  tri_text_free(&masked);
  return st;
}

/* Refuses masked secrets. A deck saved by a run has them and cannot run. */
static tri_status check_masks(const tri_reward_opt *o, const char **field) {
  for (int i = 0; i < o->n_field; i++) {
    const tri_reward_field *f = find_field(tri_reward_find(o->name), o->field[i].name);
    const char             *value = o->field[i].value, *before = NULL;
    for (int k = 0; f && f->masks && k <= o->field[i].n_more;
         k++, before = value, value = tri_reward_next(value)) {
      bool has;
      TRI_TRY(has_mask(f, before, value, &has));
      if (!has) continue;
      *field = f->name;
      TRI_FAIL(TRI_ECONFIG,
               "has " TRI_MASK " in place of a secret, as a run writes its deck: give it again, "
               "reward=[{name: %s, ...}]",
               o->name);
    }
  }
  return TRI_OK;
}

bool tri_reward_read_number(const tri_reward_opt *o, const char *field, double def, double *out) {
  const char *text = tri_reward_get(o, field);
  char       *end;

  *out = def;
  if (!text) return true;
  *out = strtod(text, &end);
  return strspn(text, "0123456789.eE-+") == strlen(text) && end != text && !*end && isfinite(*out);
}

tri_status tri_reward_read_seconds(const tri_reward_opt *o, const char *field, double def, double *out) {
  if (tri_reward_read_number(o, field, def, out) && *out > 0 && *out <= 1e6) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "must be a number of seconds > 0, at most a million");
}

tri_status tri_reward_read_on_error(const tri_reward_opt *o, tri_on_error *out) {
  static const char *const word[] = {"abort", "drop", "zero"};
  const char              *text = tri_reward_get(o, "on_error");

  *out = takes(tri_reward_find(o->name), "on_error") ? TRI_ON_ERROR_ABORT : TRI_ON_ERROR_ZERO;
  for (int i = 0; text && i < 3; i++) {
    if (strcmp(text, word[i]) != 0) continue;
    *out = (tri_on_error)i;
    return TRI_OK;
  }
  if (!text) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "must be abort, drop or zero");
}

static tri_status check_row(const tri_reward_opt *o, const tri_reward_env *env, const char *lead,
                            const char *between) {
  const tri_reward *kind = tri_reward_find(o->name);
  const char       *field = "name";
  tri_on_error      on_error;
  tri_status        st;

  if (!isfinite(o->weight))
    TRI_FAIL(TRI_ECONFIG, "%sweight%s%g of %s: must be finite", lead, between, o->weight, o->name);
  st = tri_reward_check_fields(o, &field);
  if (st == TRI_OK) TRI_TRY(name_field(tri_reward_read_on_error(o, &on_error), o, "on_error", lead, between));
  if (st == TRI_OK) st = check_masks(o, &field);
  if (st == TRI_OK && kind->check) st = kind->check(o, env, &field);
  return name_field(st, o, field, lead, between);
}

tri_status tri_reward_check(const tri_reward_opt *o, const tri_reward_env *env) {
  TRI_TRY(tri_error_at(tri_reward_check_name(o->name), "reward.name"));
  return check_row(o, env, "reward.", " = ");
}

tri_status tri_reward_check_flags(const tri_reward_opt *o, const tri_reward_env *env) {
  TRI_TRY(tri_error_at(tri_reward_check_name(o->name), "--reward"));
  return check_row(o, env, "--", " ");
}

unsigned tri_reward_needs(const tri_reward_opt *o, int n) {
  unsigned needs = 0;

  for (int i = 0; i < n; i++) needs |= tri_reward_find(o[i].name)->needs;
  return needs;
}
