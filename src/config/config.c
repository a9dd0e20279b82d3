/* config.c - deck to tri_config: find each key, read its value, refuse what contradicts. */
#include "config.h"
#include "base/file.h"
#include "config_keys.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KEYS = 128 };

/* What the deck says about one key: the first of its entries, -1 for none. */
typedef struct slot {
  int         file, argument;
  const char *alias; /* row of tri_key_aliases the winning entry was found by, or NULL */
} slot;

typedef struct loader {
  const tri_deck *deck;
  tri_config     *cfg;
  tri_text       *notes;
  tri_faults     *faults;              /* NULL where the first one ends it */
  bool            is_typed;            /* by a user, whose paths may be meant for a shell */
  slot            slot[MOST_KEYS + 1]; /* of each row of tri_keys, then of the reward list */
} loader;

/* ---- entries ---- */

static const char *key_name(int key) { return key < tri_n_keys ? tri_keys[key].name : "reward"; }

/* Remember where each key stands; refuse what is unknown or stands twice. */
static tri_status collect(loader *l) {
  for (int i = 0; i < tri_n_keys + 1; i++) l->slot[i] = (slot){-1, -1, NULL};
  for (int i = 0; i < tri_deck_count(l->deck); i++) {
    const tri_deck_entry *e = tri_deck_at(l->deck, i);
    char                  full[2 * TRI_KEY_NAME_BYTES];
    tri_key_match         m;
    slot                 *s;
    int                  *at;
    if (!e->first) continue;
    m.key = -1;
    TRI_TRY(tri_error_note(tri_key_match_entry(e, &m), l->faults));
    if (m.key < 0) continue;
    s = &l->slot[m.key];
    at = e->line ? &s->file : &s->argument;
    tri_key_full_name(e, full, sizeof full);
    if (*at >= 0) {
      const tri_deck_entry *before = tri_deck_at(l->deck, *at);
      char                  other[2 * TRI_KEY_NAME_BYTES];
      tri_key_full_name(before, other, sizeof other);
      TRI_FAIL(TRI_ECONFIG, "%s: %s and %s (%s) contradict each other: both mean %s, keep one", e->where,
               full, other, before->where, key_name(m.key));
    }
    *at = i;
    s->alias = m.alias;
    if (m.alias && l->notes)
      TRI_TRY(tri_text_printf(l->notes, "%s: %s is read as %s\n", e->where, full, key_name(m.key)));
  }
  return TRI_OK;
}

static int winner(const loader *l, int key) {
  return l->slot[key].argument >= 0 ? l->slot[key].argument : l->slot[key].file;
}

/* The entry that sets the key, or NULL where it is not given (or null). */
static const tri_deck_entry *given(const loader *l, const char *name) {
  int i = winner(l, name[0] == 'r' && !strcmp(name, "reward") ? tri_n_keys : tri_key_row(name));
  const tri_deck_entry *e = i < 0 ? NULL : tri_deck_at(l->deck, i);

  return e && tri_deck_is_null(e) ? NULL : e;
}

/* ---- values ---- */

static tri_status refuse_value(const tri_key *k, const char *where, const char *value, const char *alias) {
  char        expected[512], word[64];
  const char *words[16], *near = NULL, *hint = alias ? tri_key_hint_find(alias) : NULL;
  char        copy[16][64];
  int         n = 0;

  tri_key_expected(k, expected, sizeof expected);
  if (k->type == TRI_KEY_CHOICE) {
    for (; n < 16 && tri_key_choice(k, n, word, sizeof word); n++) {
      snprintf(copy[n], sizeof copy[n], "%s", word);
      words[n] = copy[n];
    }
    near = tri_nearest(value, words, n);
  }
  TRI_FAIL(TRI_ECONFIG, "%s: %s = %.200s: must be %s%s%s%s%s%s", where, k->name, value, expected,
           near ? "; nearest: " : "", near ? near : "", hint ? "; " : "", hint ? hint : "",
           k->type == TRI_KEY_BOOL ? " (yes, no, on, off are not read)" : "");
}

static bool in_range(const char *range, double x) {
  char  *end;
  double lo = strtod(range + 1, &end), hi = strtod(end + 1, &end);

  return (range[0] == '[' ? x >= lo : x > lo) && (*end == ']' ? x <= hi : x < hi);
}

/* Decimal digits without a leading zero; *out may be negative. */
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
static bool parse_f64(const char *text, double *out) {
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

static const char *our_word(const tri_key *k, const char *alias, const char *value) {
  for (int i = 0; i < tri_n_key_words; i++)
    if ((!strcmp(tri_key_words[i].name, k->name) || (alias && !strcmp(tri_key_words[i].name, alias))) &&
        !strcmp(tri_key_words[i].value, value))
      return tri_key_words[i].ours;
  return value;
}

/* The last variable of a shell, or NULL. */
static const char *find_variable(const char *value) {
  const char *found = NULL;

  for (const char *at = value; (at = strchr(at, '$')) != NULL; at++)
    if (isalpha((unsigned char)at[1]) || at[1] == '_' || at[1] == '{') found = at;
  return found;
}

/* A shell's home and variables would be names of files here: that is meant only where there are such. */
static tri_status check_path(const tri_key *k, const char *value, const char *where) {
  const char *at = find_variable(value), *last = at ? at : value;
  size_t      n = (size_t)(last - value) + strcspn(last, "/");
  char        named[4096];

  if (strcmp(k->unit, "path") || (value[0] != '~' && !at)) return TRI_OK;
  snprintf(named, sizeof named, "%.*s", (int)(n < sizeof named ? n : 0), value);
  if (tri_file_exists(named)) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "%s: %s = %.200s: %s is not expanded here; write the path out", where, k->name, value,
           at ? "$" : "~");
}

_Static_assert(sizeof(tri_kl_estimator) == sizeof(int), "set_value writes a choice as int");

/* One scalar into the member of its row (not for lists). */
static tri_status set_value(const tri_key *k, const char *alias, const char *value, const char *where,
                            tri_config *c) {
  void  *at = (char *)c + k->offset;
  char   word[64];
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
    ok = parse_f64(value, &x) && in_range(k->range, x);
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
    TRI_FREE(*(char **)at);
    return tri_copy_text(value, (char **)at);
  }
  return ok ? TRI_OK : refuse_value(k, where, value, alias);
}

static bool has_no_value(const tri_deck_entry *e) { return !e->value[0] && e->index != TRI_DECK_EMPTY_LIST; }

/* Entries of the key that begins at `first`. */
static int group_size(const tri_deck *d, int first) {
  int n = 1;

  while (first + n < tri_deck_count(d) && !tri_deck_at(d, first + n)->first) n++;
  return n;
}

static tri_status read_list(const loader *l, const tri_key *k, int first) {
  tri_config_list *list = (tri_config_list *)((char *)l->cfg + k->offset);
  int              n = group_size(l->deck, first);

  if (tri_deck_at(l->deck, first)->index == TRI_DECK_EMPTY_LIST) return TRI_OK;
  TRI_TRY(TRI_ALLOC(list->item, n));
  for (int i = 0; i < n; i++) {
    const tri_deck_entry *e = tri_deck_at(l->deck, first + i);
    if (e->field[0])
      TRI_FAIL(TRI_ECONFIG, "%s: %s is a list of texts: '%s:' does not belong in it", e->where, k->name,
               e->field);
    if (!e->value[0] || (e->index >= 0 && e->unquoted && !strcmp(e->value, "null")))
      TRI_FAIL(TRI_ECONFIG, "%s: an item of %s is empty", e->where, k->name);
    if (l->is_typed) TRI_TRY(check_path(k, e->value, e->where));
    TRI_TRY(tri_copy_text(e->value, &list->item[i]));
    list->n = i + 1;
  }
  return TRI_OK;
}

static tri_status read_key(const loader *l, int row) {
  const tri_key        *k = &tri_keys[row];
  int                   first = winner(l, row);
  const tri_deck_entry *e = first < 0 ? NULL : tri_deck_at(l->deck, first);
  const char           *value, *alias = l->slot[row].alias;

  if (k->def) TRI_TRY(set_value(k, NULL, k->def, "default", l->cfg));
  if (!e || tri_deck_is_null(e)) return TRI_OK;
  if (has_no_value(e))
    TRI_FAIL(TRI_ECONFIG, "%s: %s has no value; null leaves it at its default", e->where, k->name);
  if (k->type == TRI_KEY_LIST) return read_list(l, k, first);
  if (e->index != TRI_DECK_PLAIN)
    TRI_FAIL(TRI_ECONFIG, "%s: %s takes one value, not a list", e->where, k->name);
  value = our_word(k, alias, e->value);
  if (value != e->value && l->notes)
    TRI_TRY(tri_text_printf(l->notes, "%s: %s is read as %s: %s\n", e->where, e->value, k->name, value));
  if (l->is_typed) TRI_TRY(check_path(k, value, e->where));
  return set_value(k, alias, value, e->where, l->cfg);
}

/* ---- rewards ---- */

static tri_status check_reward_field(const tri_deck_entry *e) {
  const char *name[16], *near;

  TRI_ASSERT(tri_n_reward_fields <= 16);
  for (int i = 0; i < tri_n_reward_fields; i++) {
    name[i] = tri_reward_fields[i].name;
    if (!strcmp(e->field, name[i])) return TRI_OK;
  }
  near = tri_nearest(e->field, name, tri_n_reward_fields);
  TRI_FAIL(TRI_ECONFIG, "%s: unknown field '%s' of a reward; %s%s", e->where, e->field,
           near ? "the nearest known field is " : "known: name, weight, pattern", near ? near : "");
}

static tri_status set_reward_field(tri_config_reward *r, const tri_deck_entry *e) {
  const char *name[16], *near;
  int         n = 0;

  TRI_TRY(check_reward_field(e));
  if (e->part != TRI_DECK_PLAIN)
    TRI_FAIL(TRI_ECONFIG, "%s: %s of a reward takes one value, not a list", e->where, e->field);
  if (has_no_value(e)) TRI_FAIL(TRI_ECONFIG, "%s: %s has no value", e->where, e->field);
  if (!strcmp(e->field, "name")) {
    for (int i = 0; i < tri_n_reward_rows; i++) {
      name[n++] = tri_reward_rows[i].name;
      if (!strcmp(e->value, tri_reward_rows[i].name)) return tri_copy_text(e->value, &r->name);
    }
    near = tri_nearest(e->value, name, n);
    TRI_FAIL(TRI_ECONFIG, "%s: there is no reward '%.200s'; %s%s", e->where, e->value,
             near ? "the nearest known is " : "inputs/reference.yaml lists them", near ? near : "");
  }
  if (!strcmp(e->field, "pattern")) return tri_copy_text(e->value, &r->pattern);
  TRI_ASSERT(!strcmp(e->field, "weight"));
  if (!parse_f64(e->value, &r->weight))
    TRI_FAIL(TRI_ECONFIG, "%s: reward weight = %s: must be a number", e->where, e->value);
  return TRI_OK;
}

static tri_status check_reward(const tri_config_reward *r, const char *where) {
  if (!r->name) TRI_FAIL(TRI_ECONFIG, "%s: a reward needs a name", where);
  for (int i = 0; i < tri_n_reward_rows; i++) {
    if (strcmp(tri_reward_rows[i].name, r->name)) continue;
    if (tri_reward_rows[i].pattern && !r->pattern)
      TRI_FAIL(TRI_ECONFIG, "%s: reward %s needs a pattern", where, r->name);
    if (!tri_reward_rows[i].pattern && r->pattern)
      TRI_FAIL(TRI_ECONFIG, "%s: reward %s has no use for a pattern", where, r->name);
  }
  return TRI_OK;
}

static tri_status read_rewards(const loader *l) {
  const tri_deck_entry *e = given(l, "reward");
  int                   first = winner(l, tri_n_keys), n;
  tri_config_reward    *r = NULL;
  const char           *where = NULL;

  if (!e || e->index == TRI_DECK_EMPTY_LIST) return TRI_OK;
  n = group_size(l->deck, first);
  for (int i = 0; i < n; i++) {
    e = tri_deck_at(l->deck, first + i);
    if (!e->field[0])
      TRI_FAIL(TRI_ECONFIG,
               "%s: reward is a list: write '- name: exact' below 'reward:', or 'reward=[{name: exact}]'",
               e->where);
    if (e->index >= TRI_CONFIG_REWARDS)
      TRI_FAIL(TRI_ECONFIG, "%s: more than %d rewards", e->where, TRI_CONFIG_REWARDS);
    if (e->index == l->cfg->reward.n) {
      if (r) TRI_TRY(check_reward(r, where));
      r = &l->cfg->reward.item[l->cfg->reward.n++];
      r->weight = 1;
      where = e->where;
    }
    TRI_TRY(set_reward_field(r, e));
  }
  return check_reward(r, where);
}

/* ---- what must and must not stand together ---- */

static tri_status read_algo(const loader *l) {
  const tri_deck_entry *e = given(l, "algo.name");
  const char           *known[16], *near;
  char                  expected[512];
  int                   n = 0;

  tri_key_expected(tri_key_find("algo.name"), expected, sizeof expected);
  if (!e) TRI_FAIL(TRI_ECONFIG, "%s: algo.name is missing: %s", tri_deck_name(l->deck), expected);
  l->cfg->algo.row = tri_algo_find(l->cfg->algo.name);
  if (l->cfg->algo.row) return TRI_OK;
  for (; tri_algo_at(n) && n < 16; n++) known[n] = tri_algo_at(n)->name;
  near = tri_nearest(l->cfg->algo.name, known, n);
  TRI_FAIL(TRI_ECONFIG, "%s: algo.name = %.200s: must be %s%s%s", e->where, l->cfg->algo.name, expected,
           near ? "; nearest: " : "", near ? near : "");
}

static tri_status refuse_one(const tri_deck_entry *e, const char *key, const char *algo) {
  TRI_FAIL(TRI_ECONFIG, "%s: %s means nothing to algo.name %s: remove it", e->where, key, algo);
}

static tri_status refuse_unused(const loader *l) {
  const tri_algo *a = l->cfg->algo.row;

  for (int i = 0; i < tri_n_keys; i++) {
    const tri_deck_entry *e = given(l, tri_keys[i].name);
    if (e && !tri_key_is_used(&tri_keys[i], a))
      TRI_TRY(tri_error_note(refuse_one(e, tri_keys[i].name, a->name), l->faults));
  }
  return TRI_OK;
}

/* Names the later one, arguments last. */
static tri_status refuse_both(const loader *l, const char *name_a, const char *name_b) {
  const tri_deck_entry *a = given(l, name_a), *b = given(l, name_b);

  if (!a || !b) return TRI_OK;
  if (a->line == 0 || (b->line && a->line > b->line)) {
    const tri_deck_entry *swap = a;
    const char           *swap_name = name_a;
    a = b;
    b = swap;
    name_a = name_b;
    name_b = swap_name;
  }
  TRI_FAIL(TRI_ECONFIG, "%s: %s and %s (%s) contradict each other: keep one (%s=null takes the other back)",
           b->where, name_b, name_a, a->where, name_a);
}

static tri_status refuse_contradictions(const loader *l) {
  static const char *const pair[][2] = {
      {"train.steps", "train.epochs"},
      {"train.micro_batch_size", "train.max_tokens_per_gpu"},
      {"train.gradient_accumulation_steps", "train.max_tokens_per_gpu"},
      {"train.warmup_steps", "train.warmup_ratio"},
      {"shard.plan", "shard.params"},
      {"shard.plan", "shard.grads"},
      {"shard.plan", "shard.optimizer"},
      {"model.path", "model.config"},
      {"model.path", "model.tokenizer"},
  };

  for (size_t i = 0; i < sizeof pair / sizeof *pair; i++)
    TRI_TRY(tri_error_note(refuse_both(l, pair[i][0], pair[i][1]), l->faults));
  return TRI_OK;
}

static tri_status refuse_missing(const loader *l, const char *name, const char *what) {
  TRI_FAIL(TRI_ECONFIG, "%s: %s is missing: %s", tri_deck_name(l->deck), name, what);
}

static tri_status check_required(const loader *l) {
  const tri_config *c = l->cfg;
  bool              answers = c->algo.row->needs & TRI_NEEDS_ANSWERS;
  char              rewards[96];
  const struct {
    bool        missing;
    const char *name, *what;
  } row[] = {
      {!given(l, "run.output"), "run.output", "the folder the run writes to"},
      {!c->model.path && !c->model.config, "model.path",
       "a model folder, or give model.config to start from random weights"},
      {!c->data.train.n && !c->rollout.replay, "data.train", "the JSON lines file to train on"},
      {!c->train.steps && !c->train.epochs, "train.steps", "the length of the run, or give train.epochs"},
      {answers && !given(l, "rollout.rollout_batch_size"), "rollout.rollout_batch_size",
       "the prompts of one rollout"},
      {answers && !given(l, "rollout.max_response_length"), "rollout.max_response_length",
       "the longest answer, in tokens"},
      {answers && !c->reward.n && !c->rollout.replay, "reward", rewards},
  };

  snprintf(rewards, sizeof rewards, "%s needs at least one, such as '- name: exact'", c->algo.name);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (row[i].missing) TRI_TRY(tri_error_note(refuse_missing(l, row[i].name, row[i].what), l->faults));
  return TRI_OK;
}

static tri_status check_group(const loader *l) {
  const tri_config *c = l->cfg;

  if (c->algo.num_generations >= c->algo.row->least_group) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG,
           "%s: algo.num_generations = %lld: %s compares the answers of a group, at least %d are needed",
           given(l, "algo.num_generations")->where, (long long)c->algo.num_generations, c->algo.name,
           c->algo.row->least_group);
}

static tri_status check_schedule(const loader *l) {
  if (l->cfg->train.lr.min_ratio <= 0 || l->cfg->train.lr.scheduler != TRI_LR_CONSTANT) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "%s: train.min_lr_ratio means nothing to train.lr_scheduler constant: remove it",
           given(l, "train.min_lr_ratio")->where);
}

static tri_status check_temperature(const loader *l, const char *name, double x) {
  if (x <= 0 || x >= 1e-4) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "%s: %s = %g: must be 0 (greedy) or at least 1e-4", given(l, name)->where, name, x);
}

static tri_status check_reference(const loader *l) {
  if (!l->cfg->model.ref_path || l->cfg->algo.opt.kl_coef != 0) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "%s: model.ref_path means nothing with algo.kl_coef 0: remove it or give kl_coef",
           given(l, "model.ref_path")->where);
}

static tri_status check_eval_data(const loader *l) {
  const tri_config *c = l->cfg;

  if (c->eval.steps <= 0 || c->data.eval.n) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "%s: eval.steps = %lld needs data.eval: the JSON lines file to evaluate on",
           given(l, "eval.steps")->where, (long long)c->eval.steps);
}

static tri_status check_eval_answers(const loader *l) {
  const tri_config *c = l->cfg;

  if (c->eval.steps <= 0 || (c->reward.n && c->rollout.max_response_length)) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "%s: eval.steps = %lld needs %s: evaluation generates answers and rewards them",
           given(l, "eval.steps")->where, (long long)c->eval.steps,
           c->reward.n ? "rollout.max_response_length" : "reward");
}

static tri_status check_together(const loader *l) {
  const tri_config *c = l->cfg;

  TRI_TRY(tri_error_note(check_group(l), l->faults));
  TRI_TRY(tri_error_note(check_schedule(l), l->faults));
  TRI_TRY(tri_error_note(check_temperature(l, "rollout.temperature", c->rollout.temperature), l->faults));
  TRI_TRY(tri_error_note(check_temperature(l, "eval.temperature", c->eval.temperature), l->faults));
  TRI_TRY(tri_error_note(check_reference(l), l->faults));
  TRI_TRY(tri_error_note(check_eval_data(l), l->faults));
  return tri_error_note(check_eval_answers(l), l->faults);
}

/* run.allow_changes holds names of ours. */
static tri_status check_allowed(const loader *l) {
  const tri_config_list *list = &l->cfg->run.allow_changes;

  for (int i = 0; i < list->n; i++) {
    const char *name = list->item[i], *near = tri_key_nearest(name);
    if (!strcmp(name, "algo.name"))
      TRI_FAIL(
          TRI_ECONFIG,
          "%s: run.allow_changes: algo.name cannot change in a resume: moments and positions in the data of "
          "one algorithm mean nothing to another; model.path takes the weights of a checkpoint",
          given(l, "run.allow_changes")->where);
    if (tri_key_find(name) || !strcmp(name, "reward") || !strcmp(name, "deck")) continue;
    TRI_FAIL(TRI_ECONFIG, "%s: run.allow_changes: there is no key '%.200s'; %s%s",
             given(l, "run.allow_changes")->where, name,
             near ? "the nearest known key is " : "write it as section.key", near ? near : "");
  }
  return TRI_OK;
}

/* A line for each key that is given but sleeps because of another: that one is the kind of key one turns off
 * for a while. */
static tri_status note_idle(const loader *l) {
  const tri_config *c = l->cfg;
  const bool        no_kl = c->algo.opt.kl_coef == 0, no_eval = c->eval.steps == 0,
             greedy = c->rollout.temperature == 0, replay = c->rollout.replay != NULL;
  const struct {
    const char *name, *why;
    bool        idle;
  } row[] = {
      {"algo.kl_estimator", "algo.kl_coef is 0", no_kl},
      {"algo.kl_where", "algo.kl_coef is 0", no_kl},
      {"data.eval", "eval.steps is 0", no_eval},
      {"eval.max_prompts", "eval.steps is 0", no_eval},
      {"eval.num_generations", "eval.steps is 0", no_eval},
      {"eval.temperature", "eval.steps is 0", no_eval},
      {"rollout.top_k", "rollout.temperature is 0", greedy},
      {"rollout.top_p", "rollout.temperature is 0", greedy},
      {"rollout.top_k", "rollout.replay is given", replay},
      {"rollout.top_p", "rollout.replay is given", replay},
      {"rollout.stop", "rollout.replay is given and eval.steps is 0", replay && no_eval},
      {"rollout.max_sequences", "rollout.replay is given and eval.steps is 0", replay && no_eval},
      {"data.shuffle", "rollout.replay is given", replay},
      {"data.max_prompt_length", "rollout.replay is given", replay && !c->data.train.n},
  };

  for (size_t i = 0; i < sizeof row / sizeof *row && l->notes; i++) {
    const tri_deck_entry *e = row[i].idle ? given(l, row[i].name) : NULL;
    const char           *def = tri_keys[tri_key_row(row[i].name)].def;
    if (e && !(def && !strcmp(e->value, def)))
      TRI_TRY(tri_text_printf(l->notes, "%s: %s has no effect: %s\n", e->where, row[i].name, row[i].why));
  }
  if (l->notes && greedy && !replay)
    TRI_TRY(
        tri_text_printf(l->notes,
                        "%s: rollout.temperature is 0: the answers to a prompt are all alike, and a group "
                        "of equal rewards teaches nothing\n",
                        given(l, "rollout.temperature")->where));
  return TRI_OK;
}

/* The scopes of a named plan, or what is left open in one of the user's own. */
static void resolve_plan(const loader *l) {
  static const tri_shard_plan plan[] = {{TRI_SHARD_NODE, TRI_SHARD_NODE, TRI_SHARD_WORLD},
                                        {TRI_SHARD_NONE, TRI_SHARD_NONE, TRI_SHARD_NONE},
                                        {TRI_SHARD_NONE, TRI_SHARD_NONE, TRI_SHARD_WORLD},
                                        {TRI_SHARD_NONE, TRI_SHARD_WORLD, TRI_SHARD_WORLD},
                                        {TRI_SHARD_WORLD, TRI_SHARD_WORLD, TRI_SHARD_WORLD}};
  bool                        params = given(l, "shard.params"), grads = given(l, "shard.grads"),
       optim = given(l, "shard.optimizer");
  tri_config *c = l->cfg;

  if (params || grads || optim) c->shard.plan = TRI_CONFIG_OWN_PLAN;
  const tri_shard_plan *p = &plan[c->shard.plan < 0 ? 0 : c->shard.plan];
  if (!params) c->shard.scope.params = p->params;
  if (!grads) c->shard.scope.grads = p->grads;
  if (!optim) c->shard.scope.optim = p->optim;
}

/* ---- public ---- */

/* What the values are together; every key was read without fault. */
static tri_status check_values(loader *l) {
  TRI_TRY(tri_error_note(refuse_unused(l), l->faults));
  TRI_TRY(tri_error_note(refuse_contradictions(l), l->faults));
  TRI_TRY(tri_error_note(check_required(l), l->faults));
  TRI_TRY(tri_error_note(check_together(l), l->faults));
  TRI_TRY(tri_error_note(check_allowed(l), l->faults));
  return note_idle(l);
}

static tri_status load(loader *l) {
  tri_config *c = l->cfg;

  TRI_ASSERT(tri_n_keys <= MOST_KEYS);
  *c = (tri_config){0};
  TRI_TRY(tri_error_note(collect(l), l->faults));
  for (int i = 0; i < tri_n_keys; i++) TRI_TRY(tri_error_note(read_key(l, i), l->faults));
  TRI_TRY(tri_error_note(read_rewards(l), l->faults));
  if (c->algo.name || !l->faults || !l->faults->n) TRI_TRY(tri_error_note(read_algo(l), l->faults));
  if (!l->faults || !l->faults->n) TRI_TRY(check_values(l));
  if (l->faults && l->faults->n) return TRI_OK;
  resolve_plan(l);
  if (!given(l, "algo.clip_eps_high")) c->algo.opt.clip_eps_high = c->algo.opt.clip_eps;
  return TRI_OK;
}

tri_status tri_config_from_deck(const tri_deck *deck, tri_config *out, tri_text *notes) {
  loader l = {.deck = deck, .cfg = out, .notes = notes};

  return load(&l);
}

tri_status tri_config_load_all(const char *path, char *const *args, int n_args, tri_config *out,
                               tri_text *notes, tri_faults *faults) {
  tri_status st = TRI_OK;
  tri_deck  *deck = NULL;
  loader     l = {.cfg = out, .notes = notes, .faults = faults, .is_typed = true};

  *out = (tri_config){0};
  TRI_TRY_DONE(tri_deck_open(path, &deck));
  for (int i = 0; i < n_args; i++) TRI_TRY_DONE(tri_error_note(tri_deck_set(deck, args[i]), faults));
  l.deck = deck;
  TRI_TRY_DONE(load(&l));
done:
  tri_deck_close(&deck);
  return st;
}

tri_status tri_config_load(const char *path, char *const *args, int n_args, tri_config *out,
                           tri_text *notes) {
  return tri_config_load_all(path, args, n_args, out, notes, NULL);
}

void tri_config_free(tri_config *c) {
  for (int k = 0; k < tri_n_keys; k++) {
    void            *at = (char *)c + tri_keys[k].offset;
    tri_config_list *list = at;
    if (tri_keys[k].type == TRI_KEY_TEXT) TRI_FREE(*(char **)at);
    if (tri_keys[k].type != TRI_KEY_LIST) continue;
    for (int i = 0; i < list->n; i++) TRI_FREE(list->item[i]);
    TRI_FREE(list->item);
  }
  for (int i = 0; i < c->reward.n; i++) {
    TRI_FREE(c->reward.item[i].name);
    TRI_FREE(c->reward.item[i].pattern);
  }
  *c = (tri_config){0};
}
