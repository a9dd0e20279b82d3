/* config_rewards.c - reads the list of rewards with their names, weights and the fields declared by the
 * plug-ins. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "config_keys.h"
#include "config_entry.h"

#include <string.h>

enum { MOST_NAMES = 64 }; /* chosen: several times the fields of all rewards */

/* Lists all possible field names, each once, in name [MOST_NAMES]. */
static int list_fields(const char **name) {
  const tri_reward *kind;
  int               n = 0;

  name[n++] = "name";
  name[n++] = "weight";
  for (int i = 0; (kind = tri_reward_at(i)) != NULL; i++)
    for (const tri_reward_field *f = kind->field; f && f->name; f++) {
      bool known = false;
      for (int k = 0; k < n; k++) known = known || !strcmp(name[k], f->name);
      TRI_ASSERT(n < MOST_NAMES);
      if (!known) name[n++] = f->name;
    }
  return n;
}

static tri_status refuse_field(const tri_deck_entry *e, const char *const *name, int n) {
  const char *near = tri_nearest(e->field, name, n);
  tri_text    known = {0};
  tri_status  st = TRI_OK;

  for (int i = 0; i < n && !near; i++)
    TRI_TRY_DONE(tri_text_printf(&known, "%s%s", i ? ", " : "Known fields: ", name[i]));
  st = tri_fail(__FILE__, __LINE__, __func__, TRI_ECONFIG, "%s: unknown reward field '%s'. %s%s", e->where,
                e->field, near ? "The nearest known field is " : "", near ? near : known.data);
done:
  tri_text_free(&known);
  return st;
}

/* Returns whether the fields of this name are lists. All rewards agree on it. */
static bool is_list(const char *name) {
  const tri_reward *kind;

  for (int i = 0; (kind = tri_reward_at(i)) != NULL; i++)
    for (const tri_reward_field *f = kind->field; f && f->name; f++)
      if (!strcmp(f->name, name)) return f->list;
  return false;
}

/* The message shows the given value as the list it means. */
static tri_status refuse_no_list(const tri_deck_entry *e) {
  const char *value = e->part == TRI_DECK_PLAIN ? e->value : "", *at = value + strspn(value, " ");
  size_t      n = strlen(value);
  bool        script = n > 3 && !strcmp(value + n - 3, ".py") && !strchr(value, ' ');
  tri_text    list = {0};
  tri_status  st = TRI_OK;

  if (script || !*at) TRI_TRY_DONE(tri_text_printf(&list, "python3%s", *at ? ", " : ", verify.py"));
  for (bool more = false; *at; more = true) {
    size_t word = strcspn(at, " ");
    TRI_TRY_DONE(tri_text_printf(&list, "%s%.*s", more ? ", " : "", (int)word, at));
    at += word;
    at += strspn(at, " ");
  }
  st = tri_fail(__FILE__, __LINE__, __func__, TRI_ECONFIG,
                "%s: reward field %s is a list of words. Write [%s]", e->where, e->field, list.data);
done:
  tri_text_free(&list);
  return st;
}

/* Appends the words of a list, one after the other. The entry `at` is the first. */
static tri_status put_list(const tri_loader *l, int at, tri_text *out, int *n) {
  const tri_deck_entry *first = tri_deck_at(l->deck, at), *e = first;

  if (first->part == TRI_DECK_PLAIN || first->part == TRI_DECK_EMPTY_LIST) return refuse_no_list(first);
  for (*n = 0; e->part == *n && e->index == first->index && !strcmp(e->field, first->field); ++*n) {
    if (!e->value[0]) TRI_FAIL(TRI_ECONFIG, "%s: reward field %s has an empty word", e->where, e->field);
    TRI_TRY(tri_text_put(out, e->value, strlen(e->value) + 1));
    if (at + *n + 1 < tri_deck_count(l->deck)) e = tri_deck_at(l->deck, at + *n + 1);
  }
  return TRI_OK;
}

static tri_status set_list(const tri_loader *l, int at, const char **out, int *n_more) {
  tri_text   words = {0};
  char      *copy = NULL;
  int        n = 0;
  tri_status st = put_list(l, at, &words, &n);

  if (st == TRI_OK) st = TRI_ALLOC(copy, words.len);
  if (st == TRI_OK) {
    memcpy(copy, words.data, words.len);
    *out = copy;
    *n_more = n - 1;
  }
  tri_text_free(&words);
  return st;
}

static tri_status check_one(const tri_deck_entry *e) {
  if (e->part != TRI_DECK_PLAIN)
    TRI_FAIL(TRI_ECONFIG, "%s: reward field %s takes one value, not a list", e->where, e->field);
  if (tri_loader_is_empty(e)) TRI_FAIL(TRI_ECONFIG, "%s: %s has no value", e->where, e->field);
  return TRI_OK;
}

static tri_status set_text(const tri_deck_entry *e, const char **out) {
  char *copy = NULL;

  TRI_TRY(check_one(e));
  TRI_TRY(tri_copy_text(e->value, &copy));
  *out = copy;
  return TRI_OK;
}

static tri_status set_name(const tri_deck_entry *e, const char **out) {
  TRI_TRY(check_one(e));
  TRI_TRY(tri_error_at(tri_reward_check_name(e->value), e->where));
  return set_text(e, out);
}

static tri_status set_weight(const tri_deck_entry *e, double *out) {
  TRI_TRY(check_one(e));
  if (tri_config_parse_f64(e->value, out)) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "%s: reward weight = %s: must be a number", e->where, e->value);
}

/* Sets the field of the entry `at`, together with the following entries of the same list. */
static tri_status set_field(const tri_loader *l, tri_reward_opt *r, int at) {
  const tri_deck_entry *e = tri_deck_at(l->deck, at);
  const char           *name[MOST_NAMES];
  int                   n = list_fields(name), i = 0, f = r->n_field;

  while (i < n && strcmp(e->field, name[i]) != 0) i++;
  if (i == n) return refuse_field(e, name, n);
  if (!strcmp(e->field, "name")) return set_name(e, &r->name);
  if (!strcmp(e->field, "weight")) return set_weight(e, &r->weight);
  if (f == TRI_REWARD_FIELDS)
    TRI_FAIL(TRI_ECONFIG, "%s: reward field %s is one too many", e->where, e->field);
  if (is_list(name[i]))
    TRI_TRY(set_list(l, at, &r->field[f].value, &r->field[f].n_more));
  else
    TRI_TRY(set_text(e, &r->field[f].value));
  r->field[r->n_field++].name = name[i];
  return TRI_OK;
}

/* Checks that the reward has every field it needs and no field it does not use. */
static tri_status check_reward(const tri_reward_opt *r, const char *where) {
  const char *field;
  char        all[TRI_REWARD_NAMES_BYTES];

  tri_reward_names(" or ", all);
  if (!r->name) TRI_FAIL(TRI_ECONFIG, "%s: a reward needs a name: %s", where, all);
  return tri_error_at(tri_reward_check_fields(r, &field), where);
}

/* Reads the entries [first, first + n) of one row. The fields are checked together once each of them is
 * right. */
static tri_status read_reward(const tri_loader *l, int first, int n) {
  const tri_deck_entry *e = tri_deck_at(l->deck, first);
  int64_t               before = l->errors ? l->errors->n : 0;
  tri_reward_opt       *r;

  if (!e->field[0])
    TRI_FAIL(
        TRI_ECONFIG,
        "%s: reward is a list. Write '- name: exact' or '- {name: model, path: FOLDER}' below 'reward:', "
        "or 'reward=[{name: exact}]'",
        e->where);
  if (e->index >= TRI_REWARDS_MAX)
    TRI_FAIL(TRI_ECONFIG, "%s: more than %d rewards", e->where, TRI_REWARDS_MAX);
  r = &l->cfg->reward.item[l->cfg->reward.n++];
  *r = (tri_reward_opt){.weight = 1, .row = e->index};
  for (int i = 0; i < n; i++) {
    const tri_deck_entry *field = tri_deck_at(l->deck, first + i);
    if (field->part <= 0) TRI_TRY(tri_error_note(set_field(l, r, first + i), l->errors));
  }
  if (l->errors && l->errors->n > before) return TRI_OK;
  return check_reward(r, e->where);
}

void tri_config_forget_reward(tri_reward_opt *r) {
  TRI_FREE(r->name);
  for (int f = 0; f < r->n_field; f++) TRI_FREE(r->field[f].value);
  r->n_field = 0;
}

/* Reports a wrong row and leaves it out. */
static tri_status take_reward(const tri_loader *l, int first, int n) {
  tri_config *c = l->cfg;
  int         rows = c->reward.n;
  int64_t     before = l->errors ? l->errors->n : 0;

  TRI_TRY(tri_error_note(read_reward(l, first, n), l->errors));
  if (!l->errors || l->errors->n == before || c->reward.n == rows) return TRI_OK;
  tri_config_forget_reward(&c->reward.item[rows]);
  c->reward.n = rows;
  return TRI_OK;
}

tri_status tri_config_read_rewards(const tri_loader *l) {
  const tri_deck_entry *e = tri_loader_given(l, "reward");
  int                   first = tri_loader_entry(l, tri_n_keys), n;

  if (!e || e->index == TRI_DECK_EMPTY_LIST) return TRI_OK;
  n = tri_loader_group(l->deck, first);
  for (int at = first, m; at < first + n; at += m) {
    e = tri_deck_at(l->deck, at);
    for (m = 1; at + m < first + n && tri_deck_at(l->deck, at + m)->index == e->index;) m++;
    TRI_TRY(take_reward(l, at, m));
    if (e->index >= TRI_REWARDS_MAX) break;
  }
  return TRI_OK;
}
