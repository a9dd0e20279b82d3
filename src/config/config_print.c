/* config_print.c - prints the option table as the deck as used, as the reference deck and as help. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/number.h"
#include "config.h"
#include "config_keys.h"
#include "io/text/json_text.h"

#include <stdio.h>
#include <string.h>

/* Returns one code point and its length in bytes. The text was checked to be UTF-8 when it was read. */
static unsigned code_point(const char *text, int *n) {
  const unsigned char *s = (const unsigned char *)text;

  *n = s[0] < 0x80 ? 1 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
  switch (*n) {
  case 1:
    return s[0];
  case 2:
    return (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu);
  case 3:
    return (s[0] & 0x0Fu) << 12 | (s[1] & 0x3Fu) << 6 | (s[2] & 0x3Fu);
  default:
    return (s[0] & 0x07u) << 18 | (s[1] & 0x3Fu) << 12 | (s[2] & 0x3Fu) << 6 | (s[3] & 0x3Fu);
  }
}

/* YAML 1.1, 5.1. Returns whether a YAML file may hold the character unescaped, line breaks excepted. */
static bool is_printable(unsigned c) {
  return (c >= 0x20 && c <= 0x7E) ||
         (c >= 0xA0 && c <= 0xFFFD && c != 0x2028 && c != 0x2029 && c != 0xFEFF && c != 0xFFFE) ||
         c >= 0x10000;
}

static tri_status put_quoted(const char *text, tri_text *out) {
  int n;

  TRI_TRY(tri_text_put(out, "\"", 1));
  for (const char *s = text; *s; s += n) {
    unsigned c = code_point(s, &n);
    if (c == '"' || c == '\\')
      TRI_TRY(tri_text_printf(out, "\\%c", (int)c));
    else if (is_printable(c))
      TRI_TRY(tri_text_put(out, s, (size_t)n));
    else
      TRI_TRY(c == '\n' ? tri_text_put(out, "\\n", 2) : tri_text_printf(out, "\\u%04X", c));
  }
  return tri_text_put(out, "\"", 1);
}

/* Appends a JSON object. YAML reads it unchanged, except for characters forbidden in a YAML file. */
static tri_status put_json(const char *json, tri_text *out) {
  int n;

  for (const char *s = json; *s; s += n) {
    unsigned c = code_point(s, &n);
    TRI_TRY(is_printable(c) ? tri_text_put(out, s, (size_t)n) : tri_text_printf(out, "\\u%04X", c));
  }
  return TRI_OK;
}

static tri_status put_double(double x, tri_text *out) {
  char text[TRI_NUMBER_BYTES];

  tri_number_text(x, text);
  return tri_text_put(out, text, strlen(text));
}

static tri_status put_list(const tri_config_list *list, tri_text *out) {
  TRI_TRY(tri_text_put(out, "[", 1));
  for (int i = 0; i < list->n; i++) {
    if (i) TRI_TRY(tri_text_put(out, ", ", 2));
    TRI_TRY(put_quoted(list->item[i], out));
  }
  return tri_text_put(out, "]", 1);
}

static int choice_at(const void *at) {
  int value;

  memcpy(&value, at, sizeof value);
  return value;
}

/* Returns whether the option is one of the three scopes of a shard plan. */
static bool is_scope(const tri_key *k) {
  return k->offset >= offsetof(tri_config, shard.scope) &&
         k->offset < offsetof(tri_config, shard.scope) + sizeof(tri_shard_plan);
}

/* Returns whether the option is printed as null, because it has no use or other options determine it. */
static bool is_null(const tri_config *c, const tri_key *k) {
  const void *at = (const char *)c + k->offset;

  if (!tri_key_is_used(k, &c->algo.row)) return true;
  if (k->offset == offsetof(tri_config, shard.plan) || is_scope(k))
    return (c->shard.plan == TRI_CONFIG_OWN_PLAN) == !strcmp(k->name, "shard.plan");
  if (k->def) return false;
  switch (k->type) {
  case TRI_KEY_I64:
    return *(const int64_t *)at == 0;
  case TRI_KEY_F64:
    return *(const double *)at == 0;
  case TRI_KEY_TEXT:
  case TRI_KEY_MAP:
    return !*(char *const *)at;
  case TRI_KEY_LIST:
    return ((const tri_config_list *)at)->n == 0;
  case TRI_KEY_CHOICE:
    return choice_at(at) < 0;
  default:
    return false;
  }
}

tri_status tri_key_put(const tri_config *c, const tri_key *k, tri_text *out) {
  const void *at = (const char *)c + k->offset;
  char        word[TRI_CONFIG_WORD_BYTES] = "";

  if (is_null(c, k)) return tri_text_put(out, "null", 4);
  switch (k->type) {
  case TRI_KEY_BOOL:
    return tri_text_printf(out, "%s", *(const bool *)at ? "true" : "false");
  case TRI_KEY_I64:
    return tri_text_printf(out, "%lld", (long long)*(const int64_t *)at);
  case TRI_KEY_U64:
    return tri_text_printf(out, "%llu", (unsigned long long)*(const uint64_t *)at);
  case TRI_KEY_F64:
    return put_double(*(const double *)at, out);
  case TRI_KEY_TEXT:
    return put_quoted(*(char *const *)at, out);
  case TRI_KEY_MAP:
    return put_json(*(char *const *)at, out);
  case TRI_KEY_LIST:
    return put_list(at, out);
  default:
    tri_key_choice(k, choice_at(at), word, sizeof word);
    return tri_text_put(out, word, strlen(word));
  }
}

tri_status tri_config_put_options(const tri_config *c, const char *const *option, tri_text *out) {
  for (int i = 0; option[i]; i++) {
    TRI_TRY(tri_text_printf(out, "%s%s ", i ? ", " : "", strchr(option[i], '.') + 1));
    TRI_TRY(tri_key_put(c, tri_key_find(option[i]), out));
  }
  return TRI_OK;
}

static tri_status put_field(const tri_reward_opt *r, const tri_reward_field *f, tri_text *out) {
  int         n;
  const char *value = tri_reward_get_list(r, f->name, &n), *before = NULL;
  tri_text    shown = {0};
  tri_status  st = TRI_OK;

  if (f->list) TRI_TRY(tri_text_put(out, "[", 1));
  for (int i = 0; i < n; i++, before = value, value = tri_reward_next(value)) {
    shown.len = 0;
    if (i) TRI_TRY_DONE(tri_text_put(out, ", ", 2));
    TRI_TRY_DONE(tri_reward_mask(f, before, value, &shown));
    TRI_TRY_DONE(put_quoted(shown.len ? shown.data : "", out));
  }
  if (f->list) TRI_TRY_DONE(tri_text_put(out, "]", 1));
done:
  tri_text_free(&shown);
  return st;
}

tri_status tri_key_put_reward(const tri_reward_opt *r, const char *between, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "name: %s%sweight: ", r->name, between));
  TRI_TRY(put_double(r->weight, out));
  for (const tri_reward_field *f = tri_reward_find(r->name)->field; f && f->name; f++) {
    if (!tri_reward_get(r, f->name)) continue;
    TRI_TRY(tri_text_printf(out, "%s%s: ", between, f->name));
    TRI_TRY(put_field(r, f, out));
  }
  return TRI_OK;
}

static tri_status put_rewards(const tri_config *c, tri_text *out) {
  if (!c->reward.n) return tri_text_printf(out, "reward: []\n");
  TRI_TRY(tri_text_printf(out, "reward:\n"));
  for (int i = 0; i < c->reward.n; i++) {
    TRI_TRY(tri_text_put(out, "  - ", 4));
    TRI_TRY(tri_key_put_reward(&c->reward.item[i], "\n    ", out));
    TRI_TRY(tri_text_put(out, "\n", 1));
  }
  return TRI_OK;
}

static const char *bare_name(const tri_key *k) { return strchr(k->name, '.') + 1; }

/* Appends "section:" if row i begins a section. *rewards tells whether the reward list stands before it. */
static tri_status put_section(int i, tri_text *out, bool *rewards) {
  const char *name = tri_keys[i].name;
  int         n = (int)(strchr(name, '.') - name);

  *rewards = false;
  if (i && !strncmp(tri_keys[i - 1].name, name, (size_t)n + 1)) return TRI_OK;
  *rewards = !strncmp(name, "train.", 6);
  return tri_text_printf(out, "%.*s:\n", n, name);
}

tri_status tri_config_print(const tri_config *c, tri_text *out) {
  tri_status st = TRI_OK;
  tri_text   section = {0};
  bool       rewards;

  TRI_TRY(tri_text_printf(
      out, "# Trireme %s: the deck as used. null: without use here, or derived from other keys.\n",
      TRI_VERSION));
  for (int i = 0; i < tri_n_keys; i++) {
    const tri_key *k = &tri_keys[i];
    section.len = 0;
    TRI_TRY_DONE(put_section(i, &section, &rewards));
    if (rewards) TRI_TRY_DONE(put_rewards(c, out));
    if (section.len) TRI_TRY_DONE(tri_text_put(out, section.data, section.len));
    TRI_TRY_DONE(tri_text_printf(out, "  %s: ", bare_name(k)));
    TRI_TRY_DONE(tri_key_put(c, k, out));
    TRI_TRY_DONE(tri_text_put(out, "\n", 1));
  }
done:
  tri_text_free(&section);
  return st;
}

/* Appends the spellings of other programs in one line that begins with `lead`, or nothing. */
static tri_status put_aliases(const tri_key *k, const char *lead, tri_text *out) {
  int n = 0;

  for (int i = 0; i < tri_n_key_aliases; i++)
    if (!strcmp(tri_key_aliases[i].key, k->name))
      TRI_TRY(tri_text_printf(out, "%s%s", n++ ? ", " : lead, tri_key_aliases[i].name));
  return n ? tri_text_put(out, "\n", 1) : TRI_OK;
}

/* Appends the name of a part, after the words before it. */
static tri_status put_part(const char *lead, const char *key, const char *name, int *n, tri_text *out) {
  TRI_TRY(*n ? tri_text_put(out, ", ", 2) : tri_text_printf(out, "%s%s ", lead, key));
  ++*n;
  return tri_text_printf(out, "%s", name);
}

tri_status tri_key_put_parts(const tri_key *k, const tri_algo *a, const char *lead, tri_text *out) {
  tri_algo with = *a;
  int      n_loss = 0, n_advantage = 0;

  for (int i = 0; a->advantage && tri_policy_loss_at(i); i++) {
    with.loss = tri_policy_loss_at(i);
    if (tri_key_is_used(k, &with)) TRI_TRY(put_part(lead, "algo.policy_loss", with.loss->name, &n_loss, out));
  }
  with = *a;
  for (int i = 0; a->advantage && tri_advantage_at(i); i++) {
    with.advantage = tri_advantage_at(i);
    if (tri_key_is_used(k, &with))
      TRI_TRY(put_part(n_loss ? " or " : lead, "algo.advantage", with.advantage->name, &n_advantage, out));
  }
  return TRI_OK;
}

/* Appends "; only A, B" or "; not A, B", whichever list is shorter. If both are equally long, it takes the
 * list with the first algorithm of the table. Appends nothing if all algorithms use the key. If none does, it
 * names the advantages and policy losses that do. */
static tri_status put_users(const tri_key *k, tri_text *out) {
  int  n_user = 0, n_algo = 0, n = 0;
  bool only;

  for (; tri_algo_at(n_algo); n_algo++) n_user += tri_key_is_used(k, tri_algo_at(n_algo));
  if (!n_user) return tri_key_put_parts(k, tri_algo_find("grpo"), "; only with ", out);
  only = 2 * n_user < n_algo || (2 * n_user == n_algo && tri_key_is_used(k, tri_algo_at(0)));
  for (int i = 0; i < n_algo && n_user < n_algo; i++) {
    if (tri_key_is_used(k, tri_algo_at(i)) != only) continue;
    TRI_TRY(tri_text_printf(out, "%s%s", n++ ? ", " : only ? "; only " : "; not ", tri_algo_at(i)->name));
  }
  return TRI_OK;
}

/* Appends "TYPE, in UNIT, default D; not A; fixed on resume". The unit, the algorithms and "fixed on resume"
 * stand there only if they apply. */
static tri_status put_facts(const tri_key *k, tri_text *out) {
  bool number = k->type == TRI_KEY_I64 || k->type == TRI_KEY_U64 || k->type == TRI_KEY_F64;
  char expected[TRI_KEY_EXPECTED_BYTES];

  tri_key_expected(k, expected);
  TRI_TRY(tri_text_printf(out, "%s, ", expected));
  if (number && k->unit[0])
    TRI_TRY(tri_text_printf(out, "in %s, ", strcmp(k->unit, "s") ? k->unit : "seconds"));
  TRI_TRY(tri_text_printf(out, "default %s", k->def ? k->def : "null"));
  TRI_TRY(put_users(k, out));
  return tri_text_printf(out, "%s\n", k->change == TRI_CHANGE_REFUSED ? "; fixed on resume" : "");
}

enum { REFERENCE_COLUMNS = 120 }; /* chosen: width of the comments of inputs/reference.yaml */
/* Appends the text in lines that begin with `lead`, and after the first with `next`, broken at spaces. */
static tri_status put_wrapped(const char *lead, const char *next, const char *text, tri_text *out) {
  while (strlen(lead) + strlen(text) > REFERENCE_COLUMNS) {
    size_t n = REFERENCE_COLUMNS - strlen(lead);
    while (n > 0 && text[n] != ' ') n--;
    if (!n) n = strcspn(text, " ");
    if (!text[n]) break;
    TRI_TRY(tri_text_printf(out, "%s%.*s\n", lead, (int)n, text));
    text += n + 1;
    lead = next;
  }
  return tri_text_printf(out, "%s%s\n", lead, text);
}

/* The reference deck is a deck for GRPO, so keys of other algorithms must be null in it. */
static tri_status put_key_reference(const tri_key *k, tri_text *out) {
  bool given = k->def && tri_key_is_used(k, tri_algo_find("grpo"));

  TRI_TRY(put_wrapped("  # ", "  # ", k->help, out));
  TRI_TRY(tri_text_printf(out, "  # "));
  TRI_TRY(put_facts(k, out));
  TRI_TRY(put_aliases(k, "  # other names: ", out));
  return tri_text_printf(out, "  %s: %s\n", bare_name(k), given ? k->def : "null");
}

/* Returns the range of values if it is the same for every reward, such as "1 or 0", else NULL. */
static const char *common_values(void) {
  for (int i = 1; tri_reward_at(i); i++)
    if (strcmp(tri_reward_at(i)->values, tri_reward_at(0)->values)) return NULL;
  return tri_reward_at(0)->values;
}

/* Returns whether another field may be given in place of this one. */
static bool has_instead(const tri_reward *kind, const char *name) {
  for (const tri_reward_field *f = kind->field; f && f->name; f++)
    if (f->instead && !strcmp(f->instead, name)) return true;
  return false;
}

/* Appends a type such as "a number of tokens". `value` is the field's placeholder in the help of `trireme
 * eval`. B, N, S and X stand for numbers. */
static tri_status put_field_type(const tri_reward_field *f, tri_text *out) {
  bool number = f->value[0] && !f->value[1] && strchr("BNSX", f->value[0]);

  if (f->list) return tri_text_printf(out, "a list of words");
  if (!number) return tri_text_printf(out, strcmp(f->unit, "path") ? "a text" : "a path");
  if (!f->unit[0] || !strcmp(f->unit, "1")) return tri_text_printf(out, "a number");
  return tri_text_printf(out, "a number of %s", strcmp(f->unit, "s") ? f->unit : "seconds");
}

/* Appends a field of a reward: its type, the reward it belongs to, and its meaning. */
static tri_status put_reward_field(const tri_reward *kind, const tri_reward_field *f, tri_text *out) {
  bool must = f->must && !has_instead(kind, f->name);

  TRI_TRY(tri_text_printf(out, "%s: ", f->name));
  TRI_TRY(put_field_type(f, out));
  return tri_text_printf(out, "; %s with %s. %s", must ? "must be given" : "only", kind->name, f->help);
}

/* Appends a line for each possible field of a reward. Lines of the reference deck, which begin with #, are
 * wrapped. */
static tri_status put_reward_fields(const char *lead, tri_text *out) {
  const char       *each = common_values();
  const tri_reward *kind;
  tri_text          line = {0};
  tri_status        st = TRI_OK;

  TRI_TRY(tri_text_printf(out, "%sname: one of ", lead));
  for (int i = 0; (kind = tri_reward_at(i)) != NULL; i++)
    TRI_TRY(tri_text_printf(out, "%s%s", i ? ", " : "", kind->name));
  TRI_TRY(tri_text_printf(out, ". Must be given.%s%s%s\n", each ? " Each is " : "", each ? each : "",
                          each ? "." : ""));
  for (int i = 0; (kind = tri_reward_at(i)) != NULL; i++)
    TRI_TRY(tri_text_printf(out, "%s  %s: %s%s%s%s\n", lead, kind->name, kind->help, each ? "" : " (",
                            each ? "" : kind->values, each ? "" : ")"));
  TRI_TRY(tri_text_printf(out, "%sweight: a number, default 1. Factor of this reward in the sum.\n", lead));
  for (int i = 0; (kind = tri_reward_at(i)) != NULL; i++)
    for (const tri_reward_field *f = kind->field; f && f->name; f++) {
      line.len = 0;
      TRI_TRY_DONE(put_reward_field(kind, f, &line));
      TRI_TRY_DONE(lead[0] == '#' ? put_wrapped(lead, "#     ", line.data, out)
                                  : tri_text_printf(out, "%s%s\n", lead, line.data));
    }
done:
  tri_text_free(&line);
  return st;
}

/* Appends the algorithms with one of these needs, such as "sft". */
static tri_status put_living_on(unsigned needs, tri_text *out) {
  for (int i = 0; tri_algo_at(i); i++)
    if (tri_algo_at(i)->needs & needs)
      TRI_TRY(tri_text_printf(out, "%s%s", out->len ? ", " : "", tri_algo_at(i)->name));
  return TRI_OK;
}

tri_status tri_config_reference(tri_text *out) {
  tri_status st = TRI_OK;
  tri_text   section = {0}, given = {0}, shown = {0}, preferring = {0};
  bool       rewards;

  TRI_TRY_DONE(put_living_on((unsigned)~TRI_NEEDS_ANSWERS, &given));
  TRI_TRY_DONE(put_living_on(TRI_NEEDS_DEMONSTRATIONS, &shown));
  TRI_TRY_DONE(put_living_on(TRI_NEEDS_PREFERENCES, &preferring));
  TRI_TRY_DONE(tri_text_printf(
      out,
      "# reference.yaml - every key of a deck with its meaning, type, range, unit and default.\n"
      "#\n"
      "# A key with the value null counts as not given. Every deck needs run.output, a model, data.train,\n"
      "# algo.name and train.steps or train.epochs. Algorithms other than %s also need\n"
      "# rollout.rollout_batch_size, rollout.max_response_length and a reward. On the command line, write\n"
      "# section.key=value. Paths are relative to the folder in which the program starts. A resume refuses\n"
      "# another value of a key marked \"fixed on resume\", and other rewards, unless run.allow_changes\n"
      "# names the key. \"other names\" are names in other programs. This file is written from the table in\n"
      "# src/config/config_keys.c.\n",
      given.data));
  for (int i = 0; i < tri_n_keys; i++) {
    section.len = 0;
    TRI_TRY_DONE(put_section(i, &section, &rewards));
    if (rewards) {
      TRI_TRY_DONE(tri_text_printf(out,
                                   "\n# A list of at most %d rewards with these fields. Not for %s.\n"
                                   "# For %s only with eval.steps > 0.\n",
                                   TRI_REWARDS_MAX, preferring.data, shown.data));
      TRI_TRY_DONE(put_reward_fields("#   ", out));
      TRI_TRY_DONE(tri_text_printf(out, "# reward:\n#   - {name: exact, weight: 1}\nreward: []\n"));
    }
    if (section.len) TRI_TRY_DONE(tri_text_printf(out, "\n%s", section.data));
    TRI_TRY_DONE(put_key_reference(&tri_keys[i], out));
  }
done:
  tri_text_free(&given);
  tri_text_free(&shown);
  tri_text_free(&preferring);
  tri_text_free(&section);
  return st;
}

tri_status tri_config_help(tri_text *out) {
  for (int i = 0; i < tri_n_keys; i++) {
    const tri_key *k = &tri_keys[i];
    TRI_TRY(tri_text_printf(out, "  %s: ", k->name));
    TRI_TRY(put_facts(k, out));
    TRI_TRY(tri_text_printf(out, "      %s\n", k->help));
    TRI_TRY(put_aliases(k, "      Other names: ", out));
  }
  TRI_TRY(tri_text_printf(out, "  reward: a list of at most %d rewards, each with these fields\n",
                          TRI_REWARDS_MAX));
  TRI_TRY(put_reward_fields("      ", out));
  return tri_text_printf(out,
                         "  A resume refuses another value of a key marked \"fixed on resume\", and other "
                         "rewards, unless run.allow_changes names the key.\n");
}

/* ---- the same for programs ---- */

/* Appends ", "NAME": TEXT", with null for NULL. `lead` replaces the comma. */
static tri_status put_member(const char *lead, const char *name, const char *text, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "%s\"%s\": ", lead, name));
  return text ? tri_json_put_string(out, text, strlen(text)) : tri_text_printf(out, "null");
}

/* Appends an item of a list, after a comma unless it is the first. */
static tri_status put_item(int *n, const char *text, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "%s", (*n)++ ? ", " : ""));
  return tri_json_put_string(out, text, strlen(text));
}

/* Appends the values of a choice as a list, or null. */
static tri_status put_values(const tri_key *k, tri_text *out) {
  int n = 0;

  if (k->type != TRI_KEY_CHOICE) return tri_text_printf(out, ", \"values\": null");
  TRI_TRY(tri_text_printf(out, ", \"values\": ["));
  for (const char *word = k->range; *word; word += strcspn(word, "|"), word += *word == '|') {
    TRI_TRY(tri_text_printf(out, "%s", n++ ? ", " : ""));
    TRI_TRY(tri_json_put_string(out, word, strcspn(word, "|")));
  }
  return tri_text_printf(out, "]");
}

static tri_status put_key_json(const tri_key *k, tri_text *out) {
  char expected[TRI_KEY_EXPECTED_BYTES];
  int  n = 0;

  tri_key_expected(k, expected);
  TRI_TRY(put_member("{", "name", k->name, out));
  TRI_TRY(put_member(", ", "type", expected, out));
  TRI_TRY(put_values(k, out));
  TRI_TRY(put_member(", ", "default", k->def, out));
  TRI_TRY(put_member(", ", "unit", k->unit[0] ? k->unit : NULL, out));
  TRI_TRY(tri_text_printf(out, ", \"fixed_on_resume\": %s, \"algorithms\": [",
                          k->change == TRI_CHANGE_REFUSED ? "true" : "false"));
  for (int i = 0; tri_algo_at(i); i++)
    if (tri_key_is_used(k, tri_algo_at(i))) TRI_TRY(put_item(&n, tri_algo_at(i)->name, out));
  TRI_TRY(tri_text_printf(out, "], \"other_names\": ["));
  n = 0;
  for (int i = 0; i < tri_n_key_aliases; i++)
    if (!strcmp(tri_key_aliases[i].key, k->name)) TRI_TRY(put_item(&n, tri_key_aliases[i].name, out));
  TRI_TRY(put_member("], ", "help", k->help, out));
  return tri_text_printf(out, "}");
}

tri_status tri_config_help_json(tri_text *out) {
  int n = 0;

  TRI_TRY(tri_text_printf(out, "{\"algorithms\": ["));
  for (int i = 0; tri_algo_at(i); i++) TRI_TRY(put_item(&n, tri_algo_at(i)->name, out));
  TRI_TRY(tri_text_printf(out, "],\n \"rewards\": ["));
  n = 0;
  for (int i = 0; tri_reward_at(i); i++) TRI_TRY(put_item(&n, tri_reward_at(i)->name, out));
  TRI_TRY(tri_text_printf(out, "],\n \"keys\": ["));
  for (int i = 0; i < tri_n_keys; i++) {
    TRI_TRY(tri_text_printf(out, "%s\n  ", i ? "," : ""));
    TRI_TRY(put_key_json(&tri_keys[i], out));
  }
  return tri_text_printf(out, "]}\n");
}
