/* config_names.c - finds the option for a name in the deck, or the advice for an unknown name. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "config_keys.h"
#include "io/text/json_text.h"

#include <stdio.h>
#include <string.h>

/* Chosen: several times the entries of the tables of keys and of other programs' spellings. */
enum { MOST_NAMES = 512, MOST_SECTIONS = 32, SECTION_BYTES = 32, MOST_BESIDE = 64 };

int tri_key_row(const char *name) { return (int)(tri_key_find(name) - tri_keys); }

static bool is_own_section(const char *section) {
  if (!strcmp(section, "reward")) return true;
  for (int i = 0; i < tri_n_keys; i++)
    if (tri_key_in_section(tri_keys[i].name, section)) return true;
  return false;
}

static bool is_peer_section(const char *section, size_t n) {
  for (int i = 0; i < tri_n_peer_sections; i++)
    if (strlen(tri_peer_sections[i]) == n && !strncmp(tri_peer_sections[i], section, n)) return true;
  return false;
}

static tri_key_match find_alias(const char *name, const char *section) {
  for (int i = 0; i < tri_n_key_aliases; i++)
    if (!strcmp(tri_key_aliases[i].name, name) &&
        (!section || tri_key_in_section(tri_key_aliases[i].key, section)))
      return (tri_key_match){tri_key_row(tri_key_aliases[i].key), tri_key_aliases[i].name};
  return (tri_key_match){-1, NULL};
}

/* Finds a key given without its section. The first row of that name counts, so steps is train.steps, not
 * eval.steps. */
static tri_key_match find_bare(const char *name) {
  for (int i = 0; i < tri_n_keys; i++)
    if (!strcmp(strchr(tri_keys[i].name, '.') + 1, name)) return (tri_key_match){i, tri_keys[i].name};
  return (tri_key_match){-1, NULL};
}

/* Tries in this order our own name, another program's full name, its name in our section, and its section in
 * front of any of these. The name of a section is no short name, so `train` is not data.train. */
static tri_key_match find_name(const char *full) {
  const char    *dot = strchr(full, '.');
  const tri_key *own = tri_key_find(full);
  char           section[TRI_KEY_NAME_BYTES];
  tri_key_match  m;

  if (own) return (tri_key_match){(int)(own - tri_keys), NULL};
  m = find_alias(full, NULL);
  if (m.key >= 0) return m;
  if (!dot) return is_own_section(full) ? m : find_bare(full);
  if (dot - full >= TRI_KEY_NAME_BYTES) return m;
  if (is_peer_section(full, (size_t)(dot - full))) {
    m = find_name(dot + 1);
    if (m.key >= 0 && !m.alias) m.alias = tri_keys[m.key].name;
    return m;
  }
  snprintf(section, sizeof section, "%.*s", (int)(dot - full), full);
  return find_alias(dot + 1, section);
}

void tri_key_full_name(const tri_deck_entry *e, char *out, size_t bytes) {
  snprintf(out, bytes, "%s%s%s", e->section, e->section[0] && e->key[0] ? "." : "", e->key);
}

static const char *last_part(const char *name) {
  const char *dot = strrchr(name, '.');

  return dot ? dot + 1 : name;
}

/* Returns the row whose name was read as one of its two keys, or NULL if the name has one meaning. */
static const tri_key_double *find_double(tri_key_match m) {
  const char *said = m.key < 0 || m.key >= tri_n_keys ? "" : m.alias ? m.alias : tri_keys[m.key].name;

  for (const tri_key_double *d = tri_key_doubles; d < tri_key_doubles + tri_n_key_doubles; d++)
    if (!strcmp(last_part(said), d->name) &&
        (!strcmp(tri_keys[m.key].name, d->key) || !strcmp(tri_keys[m.key].name, d->second)))
      return d;
  return NULL;
}

bool tri_key_match_double(const tri_deck_entry *e, const tri_algo *a, tri_key_match *out) {
  char                  full[2 * TRI_KEY_NAME_BYTES];
  const tri_key_double *d;
  const char           *meant = NULL;

  tri_key_full_name(e, full, sizeof full);
  *out = find_name(full);
  d = find_double(*out);
  if (!d || !a) return d != NULL;
  if (tri_key_is_used(tri_key_find(d->key), a))
    meant = d->key;
  else if (tri_key_is_used(tri_key_find(d->second), a))
    meant = d->second;
  if (!meant || (e->line && tri_deck_is_null(e))) return true; /* keeps the meaning found */
  *out = (tri_key_match){tri_key_row(meant), strcmp(full, meant) ? d->name : NULL};
  return true;
}

/* Returns whether a name of tri_key_hints stands for "section.key" or "section". */
static bool is_hinted(const char *name, const char *full) {
  const char *dot = strrchr(full, '.');
  size_t      n = strlen(name) - 1;

  if (name[n] == '.') return !strncmp(full, name, n) && (full[n] == '.' || !full[n]);
  return !strcmp(name, full) || !strcmp(name, dot ? dot + 1 : full);
}

const char *tri_key_hint_find(const char *full) {
  for (int i = 0; i < tri_n_key_hints; i++)
    if (is_hinted(tri_key_hints[i].name, full)) return tri_key_hints[i].sentence;
  return NULL;
}

/* Returns whether the key is one letter, as in "algo.n". Such a key is near to any short name. */
static bool is_letter(const char *name) {
  const char *dot = strrchr(name, '.');

  return dot && strlen(dot + 1) == 1;
}

static const char *find_guess(const char *full, const char *bare) {
  const char *found = NULL;

  for (int i = 0; i < tri_n_key_guesses; i++) {
    const tri_key_alias *g = &tri_key_guesses[i];
    if (!strcmp(g->name, full)) return g->key;
    if (!found && !strcmp(g->name, bare)) found = g->key;
  }
  return found;
}

/* Returns the nearest key of the name's own section, or the first that begins with the name. */
static const char *find_beside(const char *full, const char *bare) {
  enum { LEAST_BEGINNING = 4 };
  const char *name[MOST_BESIDE], *best;
  int         row[MOST_BESIDE], n = 0;
  char        section[TRI_KEY_NAME_BYTES];

  snprintf(section, sizeof section, "%.*s", (int)(bare > full ? bare - full - 1 : 0), full);
  for (int i = 0; i < tri_n_keys && n < MOST_BESIDE; i++)
    if (section[0] && tri_key_in_section(tri_keys[i].name, section)) {
      row[n] = i;
      name[n++] = strchr(tri_keys[i].name, '.') + 1;
    }
  best = tri_nearest(bare, name, n);
  for (int i = 0; i < n; i++)
    if (name[i] == best ||
        (!best && strlen(bare) >= LEAST_BEGINNING && !strncmp(name[i], bare, strlen(bare))))
      return tri_keys[row[i]].name;
  return NULL;
}

/* Returns the key of this bare name in the section most like the given one, as eval.steps for
 * evaluation.steps, or NULL. */
static const char *find_like(const char *full, const char *bare) {
  enum { LEAST_BEGINNING = 3 };
  const char *name[MOST_SECTIONS], *best;
  char        section[TRI_KEY_NAME_BYTES], other[MOST_SECTIONS][TRI_KEY_NAME_BYTES];
  int         row[MOST_SECTIONS], n = 0;

  snprintf(section, sizeof section, "%.*s", (int)(bare > full ? bare - full - 1 : 0), full);
  for (int i = 0; i < tri_n_keys && n < MOST_SECTIONS; i++) {
    const char *dot = strchr(tri_keys[i].name, '.');
    if (strcmp(dot + 1, bare) != 0) continue;
    snprintf(other[n], sizeof other[n], "%.*s", (int)(dot - tri_keys[i].name), tri_keys[i].name);
    name[n] = other[n];
    row[n++] = i;
  }
  for (int i = 0; i < n; i++) {
    size_t least = strlen(section) < strlen(name[i]) ? strlen(section) : strlen(name[i]);
    if (least >= LEAST_BEGINNING && !strncmp(section, name[i], least)) return tri_keys[row[i]].name;
  }
  best = tri_nearest(section, name, n);
  for (int i = 0; i < n; i++)
    if (name[i] == best) return tri_keys[row[i]].name;
  return NULL;
}

const char *tri_key_nearest(const char *full) {
  const char   *name[MOST_NAMES] = {0}, *dot = strrchr(full, '.'), *bare = dot ? dot + 1 : full, *best;
  int           n = 0;
  tri_key_match m;

  TRI_ASSERT(tri_n_keys + tri_n_key_aliases <= MOST_NAMES);
  best = find_guess(full, bare);
  if (!best) best = find_like(full, bare);
  if (best) return best;
  m = find_bare(bare);
  if (m.key < 0) m = find_alias(bare, NULL);
  if (m.key >= 0) return tri_keys[m.key].name;
  best = find_beside(full, bare);
  if (best) return best;
  for (int i = 0; i < tri_n_keys; i++) name[n++] = tri_keys[i].name;
  best = tri_nearest(full, name, n);
  if (best && (!dot || strncmp(best, full, (size_t)(dot - full)))) return best;
  for (int i = 0; i < n; i++) name[i] = strchr(tri_keys[i].name, '.') + 1;
  for (int i = 0; i < tri_n_key_aliases; i++)
    if (!is_letter(tri_key_aliases[i].name)) name[n++] = tri_key_aliases[i].name;
  best = tri_nearest(bare, name, n);
  if (!best) best = tri_nearest(full, name, n);
  if (!best) return NULL;
  m = find_bare(best);
  return m.key >= 0 ? tri_keys[m.key].name : tri_keys[find_alias(best, NULL).key].name;
}

/* All sections of the keys, in the order of their rows, and the list of rewards. */
typedef struct sections {
  int         n;
  char        text[MOST_SECTIONS][SECTION_BYTES];
  const char *name[MOST_SECTIONS];
} sections;

static void add_section(sections *s, const char *name, size_t bytes) {
  TRI_ASSERT(s->n < MOST_SECTIONS && bytes < SECTION_BYTES);
  memcpy(s->text[s->n], name, bytes);
  s->text[s->n][bytes] = 0;
  s->name[s->n] = s->text[s->n];
  s->n++;
}

static void list_sections(sections *s) {
  s->n = 0;
  for (int i = 0; i < tri_n_keys; i++)
    if (!s->n || !tri_key_in_section(tri_keys[i].name, s->name[s->n - 1]))
      add_section(s, tri_keys[i].name, strcspn(tri_keys[i].name, "."));
  add_section(s, "reward", strlen("reward"));
}

/* Lists the keys of one section of ours, or all sections for another name. */
static tri_status list_known(const char *section, tri_text *out) {
  bool     own = is_own_section(section);
  sections all;

  for (int i = 0; own && i < tri_n_keys; i++)
    if (tri_key_in_section(tri_keys[i].name, section))
      TRI_TRY(tri_text_printf(out, "%s%s", out->len ? ", " : "", strchr(tri_keys[i].name, '.') + 1));
  list_sections(&all);
  for (int i = 0; !own && i < all.n; i++)
    TRI_TRY(tri_text_printf(out, "%s%s", out->len ? ", " : "", all.name[i]));
  return TRI_OK;
}

/* Returns the mapping for a name inside it, such as "data.chat_template_kwargs.enable_thinking", however it
 * is spelled. *inner is the part behind the mapping's name. NULL for other names. */
static const tri_key *find_map(const char *full, const char **inner) {
  char name[2 * TRI_KEY_NAME_BYTES];

  for (const char *dot = strchr(full, '.'); dot; dot = strchr(dot + 1, '.')) {
    snprintf(name, sizeof name, "%.*s", (int)(dot - full), full);
    tri_key_match  m = find_name(name);
    const char    *near = m.key < 0 ? tri_key_nearest(name) : NULL;
    const tri_key *k = near ? tri_key_find(near) : m.key < 0 ? NULL : &tri_keys[m.key];
    *inner = dot + 1;
    if (k && k->type == TRI_KEY_MAP && **inner) return k;
  }
  return NULL;
}

/* Appends a name or a value within {}. It gets double quotes if it had quotes, or if YAML or a shell could
 * split it into several words. It then holds no single quote. */
static tri_status put_word(const char *word, bool unquoted, tri_text *out) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-";
  tri_text          quoted = {0};
  tri_status        st = TRI_OK;

  if (unquoted && !word[strspn(word, plain)]) return tri_text_printf(out, "%s", word);
  TRI_TRY_DONE(tri_json_put_string(&quoted, word, strlen(word)));
  for (const char *at = quoted.data; *at; at++)
    TRI_TRY_DONE(*at == '\'' ? tri_text_printf(out, "\\u0027") : tri_text_put(out, at, 1));
done:
  tri_text_free(&quoted);
  return st;
}

/* Refuses a key inside a mapping. A mapping is given as a whole, on the command line in a shell's quotes. */
static tri_status refuse_in_map(const tri_deck_entry *e, const char *full, const tri_key *k,
                                const char *inner) {
  const char *last = strrchr(inner, '.'), *bare = strchr(k->name, '.') + 1;
  bool        has_value = e->index == TRI_DECK_PLAIN && e->value[0];
  tri_text    pair = {0};
  tri_status  st = TRI_OK;

  TRI_TRY_DONE(put_word(last && last[1] ? last + 1 : inner, true, &pair));
  TRI_TRY_DONE(tri_text_printf(&pair, ": "));
  TRI_TRY_DONE(put_word(has_value ? e->value : "...", !has_value || e->unquoted, &pair));
  if (e->line == 0)
    TRI_FAIL_DONE(TRI_ECONFIG, "%s: unknown key '%s'. Give %s as a whole, '%s={%s}'", e->where, full, k->name,
                  k->name, pair.data);
  TRI_FAIL_DONE(TRI_ECONFIG, "%s: unknown key '%s'. %s is a mapping, so write `%s: {%s}` below '%.*s:'",
                e->where, full, k->name, bare, pair.data, (int)(bare - k->name - 1), k->name);
done:
  tri_text_free(&pair);
  return st;
}

static tri_status refuse_unknown(const tri_deck_entry *e, const char *full) {
  tri_status     st = TRI_OK;
  tri_text       known = {0};
  const char    *hint = tri_key_hint_find(full), *near = tri_key_nearest(full);
  const char    *inner = NULL;
  const tri_key *map = find_map(full, &inner);
  sections       all;

  if (map) return refuse_in_map(e, full, map, inner);
  if (hint) TRI_FAIL(TRI_ECONFIG, "%s: unknown key '%s': %s", e->where, full, hint);
  list_sections(&all);
  if (!e->key[0]) near = tri_nearest(e->section, all.name, all.n);
  if (near)
    TRI_FAIL(TRI_ECONFIG, "%s: unknown %s '%s'. The nearest known %s is '%s'", e->where,
             e->key[0] ? "key" : "section", full, e->key[0] ? "key" : "section", near);
  TRI_TRY_DONE(list_known(e->section, &known));
  st = tri_fail(__FILE__, __LINE__, __func__, TRI_ECONFIG, "%s: unknown %s '%s'. Known %s: %s", e->where,
                e->key[0] ? "key" : "section", full, is_own_section(e->section) ? "here" : "sections",
                known.data);
done:
  tri_text_free(&known);
  return st;
}

/* Refuses a value in place of a section's keys. */
static tri_status refuse_section(const tri_deck_entry *e) {
  tri_text   known = {0};
  tri_status st = list_known(e->key, &known);

  if (st == TRI_OK)
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_ECONFIG, "%s: '%s' is a section, with keys below it: %s",
                  e->where, e->key, known.data);
  tri_text_free(&known);
  return st;
}

tri_status tri_key_match_entry(const tri_deck_entry *e, tri_key_match *m) {
  char full[2 * TRI_KEY_NAME_BYTES];
  bool top = !e->section[0];

  *m = (tri_key_match){-1, NULL};
  if (strlen(e->section) >= TRI_KEY_NAME_BYTES || strlen(e->key) >= TRI_KEY_NAME_BYTES)
    TRI_FAIL(TRI_ECONFIG, "%s: unknown key of %zu letters", e->where, strlen(e->section) + strlen(e->key));
  tri_key_full_name(e, full, sizeof full);
  if (!strcmp(full, "reward")) {
    m->key = tri_n_keys;
    return TRI_OK;
  }
  if (!strcmp(e->section, "reward"))
    TRI_FAIL(TRI_ECONFIG, "%s: reward is a list: %s", e->where,
             e->line ? "write '- name: exact' or '- {name: model, path: FOLDER}' below 'reward:'"
                     : "write 'reward=[{name: exact}]' or 'reward=[{name: model, path: FOLDER}]'");
  if (!e->key[0]) {
    if (!is_own_section(e->section) && !is_peer_section(e->section, strlen(e->section)))
      return refuse_unknown(e, full);
    if (e->index != TRI_DECK_EMPTY_LIST)
      TRI_FAIL(TRI_ECONFIG, "%s: section '%s' holds keys, not a list", e->where, e->section);
    return TRI_OK;
  }
  *m = find_name(full);
  if (top && is_own_section(e->key) && (e->line > 0 || m->key < 0)) return refuse_section(e);
  if (m->key < 0) return refuse_unknown(e, full);
  if (top && e->line > 0)
    TRI_FAIL(TRI_ECONFIG, "%s: '%s' stands outside of a section. Write it as '%s' below '%.*s:'", e->where,
             full, strchr(tri_keys[m->key].name, '.') + 1, (int)strcspn(tri_keys[m->key].name, "."),
             tri_keys[m->key].name);
  return TRI_OK;
}
