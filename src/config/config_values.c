/* config_values.c - reads the text of one key into its member of tri_config. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"
#include "base/host_memory.h"
#include "config_keys.h"
#include "config_entry.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_WORDS = 16 }; /* chosen: several times the words of the longest choice */

static bool is_of_words(const tri_key *k) {
  return k->type == TRI_KEY_CHOICE || (k->type == TRI_KEY_TEXT && k->range[0]);
}

static tri_status refuse_value(const tri_key *k, const char *where, const char *value, const char *alias) {
  char        expected[TRI_KEY_EXPECTED_BYTES], word[MOST_WORDS + 1][TRI_CONFIG_WORD_BYTES];
  const char *words[MOST_WORDS], *near = NULL, *hint = alias ? tri_key_hint_find(alias) : NULL;
  int         n = 0;

  tri_key_expected(k, expected);
  if (is_of_words(k)) {
    for (; tri_key_choice(k, n, word[n], sizeof word[n]); n++) {
      TRI_ASSERT(n < MOST_WORDS);
      words[n] = word[n];
    }
    near = tri_nearest(value, words, n);
  }
  TRI_FAIL(TRI_ECONFIG, "%s: %s = %.200s: must be %s%s%s%s%s%s", where, k->name, value, expected,
           near ? ". The nearest is " : "", near ? near : "", hint ? ". " : "", hint ? hint : "",
           k->type == TRI_KEY_BOOL ? " (yes, no, on and off are not accepted)" : "");
}

static bool in_range(const char *range, double x) {
  char  *end;
  double lo = strtod(range + 1, &end), hi = strtod(end + 1, &end);

  return (range[0] == '[' ? x >= lo : x > lo) && (*end == ']' ? x <= hi : x < hi);
}

/* Reads decimal digits without a leading zero. *out may be negative. */
static bool parse_i64(const char *text, int64_t *out) {
  const char *digits = text[0] == '-' ? text + 1 : text;
  char       *end;

  if (!digits[0] || strspn(digits, "0123456789") != strlen(digits) || (digits[0] == '0' && digits[1]))
    return false;
  errno = 0;
  *out = strtoll(text, &end, 10);
  return errno == 0;
}

static bool parse_u64(const char *text, uint64_t *out) {
  if (!text[0] || strspn(text, "0123456789") != strlen(text) || (text[0] == '0' && text[1])) return false;
  errno = 0;
  *out = strtoull(text, NULL, 10);
  return errno == 0;
}

/* YAML 1.2.2, 10.3.2: [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )? */
bool tri_config_parse_f64(const char *text, double *out) {
  const char *s = text + (*text == '-' || *text == '+');
  size_t      whole = strspn(s, "0123456789"), part = 0, power;

  s += whole;
  if (*s == '.') {
    part = strspn(++s, "0123456789");
    s += part;
  }
  if (!whole && !part) return false;
  if (*s == 'e' || *s == 'E') {
    s++;
    s += *s == '-' || *s == '+';
    power = strspn(s, "0123456789");
    if (!power) return false;
    s += power;
  }
  if (*s) return false;
  errno = 0;
  *out = strtod(text, NULL);
  return isfinite(*out) && !(errno == ERANGE && *out == 0);
}

/* Returns our word for the value. Names of algorithms match in any case, words of other programs by their
 * table. */
static const char *our_word(const tri_key *k, const char *alias, const char *value) {
  for (int i = 0; i < tri_n_key_words; i++)
    if ((!strcmp(tri_key_words[i].name, k->name) || (alias && !strcmp(tri_key_words[i].name, alias))) &&
        !(tri_key_named(k, 0) ? strcasecmp : strcmp)(tri_key_words[i].value, value))
      return tri_key_words[i].ours;
  for (int i = 0; tri_key_named(k, i); i++)
    if (!strcasecmp(tri_key_named(k, i), value) && strcmp(tri_key_named(k, i), value))
      return tri_key_named(k, i);
  return value;
}

/* Returns the last shell variable of the value, or NULL. */
static const char *find_variable(const char *value) {
  const char *found = NULL;

  for (const char *at = value; (at = strchr(at, '$')) != NULL; at++)
    if (isalpha((unsigned char)at[1]) || at[1] == '_' || at[1] == '{') found = at;
  return found;
}

/* ~ and $ are not expanded here, so a path with them is refused unless a file of that name exists. */
static tri_status check_path(const tri_key *k, const char *value, const char *where) {
  const char *at = find_variable(value), *last = at ? at : value;
  size_t      n = (size_t)(last - value) + strcspn(last, "/");
  char        named[4096];

  if (strcmp(k->unit, "path") || (value[0] != '~' && !at)) return TRI_OK;
  snprintf(named, sizeof named, "%.*s", (int)(n < sizeof named ? n : 0), value);
  if (tri_file_exists(named)) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "%s: %s = %.200s: %s is not expanded here. Write the full path", where, k->name,
           value, at ? "$" : "~");
}

_Static_assert(sizeof(tri_kl_estimator) == sizeof(int), "set_value writes a choice as int");

/* Returns whether the value is one of the key's words. The last word, FILE.END, stands for any path with that
 * end or with a slash. */
static bool is_listed(const tri_key *k, const char *value) {
  char word[TRI_CONFIG_WORD_BYTES];

  for (int i = 0; tri_key_choice(k, i, word, sizeof word); i++)
    if (!strncmp(word, "FILE.", 5) ? tri_ends_with(value, word + 4) || strchr(value, '/')
                                   : !strcmp(word, value))
      return true;
  return false;
}

/* Sets the member of a row from one scalar. Lists and mappings have their own functions. */
static tri_status set_value(const tri_key *k, const char *alias, const char *value, const char *where,
                            tri_config *c) {
  void  *at = (char *)c + k->offset;
  char   word[TRI_CONFIG_WORD_BYTES];
  double x = 0;
  bool   ok = false;

  switch (k->type) {
  case TRI_KEY_BOOL:
    ok = !strcmp(value, "true") || !strcmp(value, "false");
    if (ok) *(bool *)at = value[0] == 't';
    break;
  case TRI_KEY_I64:
    ok = parse_i64(value, (int64_t *)at) && in_range(k->range, (double)*(int64_t *)at);
    break;
  case TRI_KEY_U64:
    ok = parse_u64(value, (uint64_t *)at);
    break;
  case TRI_KEY_F64:
    ok = tri_config_parse_f64(value, &x) && in_range(k->range, x);
    *(double *)at = x + 0.0; /* -0 becomes 0 */
    break;
  case TRI_KEY_CHOICE:
    for (int i = 0; !ok && tri_key_choice(k, i, word, sizeof word); i++)
      if (!strcmp(word, value)) {
        memcpy(at, &i, sizeof i);
        ok = true;
      }
    break;
  default:
    if (is_of_words(k) && !is_listed(k, value)) break;
    TRI_FREE(*(char **)at);
    return tri_copy_text(value, (char **)at);
  }
  return ok ? TRI_OK : refuse_value(k, where, value, alias);
}

static tri_status read_list(const tri_loader *l, const tri_key *k, int first) {
  tri_config_list *list = (tri_config_list *)((char *)l->cfg + k->offset);
  int              n = tri_loader_group(l->deck, first);

  if (tri_deck_at(l->deck, first)->index == TRI_DECK_EMPTY_LIST) return TRI_OK;
  TRI_TRY(TRI_ALLOC(list->item, n));
  for (int i = 0; i < n; i++) {
    const tri_deck_entry *e = tri_deck_at(l->deck, first + i);
    if (e->field[0])
      TRI_FAIL(TRI_ECONFIG, "%s: %s is a list of texts, not of mappings. Remove '%s:'", e->where, k->name,
               e->field);
    if (!e->value[0] || (e->index >= 0 && e->unquoted && !strcmp(e->value, "null")))
      TRI_FAIL(TRI_ECONFIG, "%s: an item of %s is empty", e->where, k->name);
    if (l->is_typed) TRI_TRY(check_path(k, e->value, e->where));
    TRI_TRY(tri_copy_text(e->value, &list->item[i]));
    list->n = i + 1;
  }
  return TRI_OK;
}

/* Reads a mapping as a JSON object. An empty mapping counts as not given. */
static tri_status read_map(const tri_loader *l, const tri_key *k, int first) {
  const tri_deck_entry *e = tri_deck_at(l->deck, first);
  char                **at = (char **)((char *)l->cfg + k->offset);
  tri_text              text = {0};
  tri_status            st = TRI_OK;

  if (e->index != TRI_DECK_MAPPING)
    TRI_FAIL(TRI_ECONFIG, "%s: %s = %.200s: must be a mapping, such as %s", e->where, k->name,
             e->index == TRI_DECK_PLAIN ? e->value : "[...]",
             e->line ? "{enable_thinking: false}" : "'data.chat_template_kwargs={enable_thinking: false}'");
  if (!e->field[0]) return TRI_OK;
  TRI_TRY_DONE(tri_deck_put_json(l->deck, first, tri_loader_group(l->deck, first), &text));
  TRI_TRY_DONE(tri_copy_text(text.data, at));
done:
  tri_text_free(&text);
  return st;
}

double tri_config_train_weight(const tri_config *c, int i) {
  double x = 0;

  (void)tri_config_parse_f64(c->data.train_weights.item[i], &x);
  return x;
}

tri_status tri_config_default_key(const tri_loader *l, int row) {
  const tri_key *k = &tri_keys[row];
  const char    *set = l->preset ? tri_algo_sets(&l->cfg->algo.row, k->name) : NULL;

  return set || k->def ? set_value(k, NULL, set ? set : k->def, "default", l->cfg) : TRI_OK;
}

tri_status tri_config_read_key(const tri_loader *l, int row) {
  const tri_key        *k = &tri_keys[row];
  int                   first = tri_loader_entry(l, row);
  const tri_deck_entry *e = first < 0 ? NULL : tri_deck_at(l->deck, first);
  const char           *value, *alias = l->slot[row].alias;

  TRI_TRY(tri_config_default_key(l, row));
  if (!e || tri_deck_is_null(e)) return TRI_OK;
  if (tri_loader_is_empty(e) && e->index != TRI_DECK_MAPPING)
    TRI_FAIL(TRI_ECONFIG, "%s: %s has no value. Give one, or null for the default", e->where, k->name);
  if (k->type == TRI_KEY_LIST) return read_list(l, k, first);
  if (k->type == TRI_KEY_MAP) return read_map(l, k, first);
  if (e->index != TRI_DECK_PLAIN)
    TRI_FAIL(TRI_ECONFIG, "%s: %s takes one value, not a list", e->where, k->name);
  value = our_word(k, alias, e->value);
  if (value != e->value && l->notes && !tri_loader_is_astray(e))
    TRI_TRY(tri_text_printf(l->notes, "%s: %s is read as %s: %s\n", e->where, e->value, k->name, value));
  if (l->is_typed) TRI_TRY(check_path(k, value, e->where));
  return set_value(k, alias, value, e->where, l->cfg);
}
