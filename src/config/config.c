/* config.c - makes a tri_config from a deck. It finds the entry of each key, reads the values, and checks
 * them together. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "base/choice.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "config_keys.h"
#include "config_entry.h"

#include <string.h>

/* ---- entries ---- */

static const char *key_name(int key) { return key < tri_n_keys ? tri_keys[key].name : "reward"; }

/* Refuses two entries for one key. The later entry is the place of the error, and its message names the
 * earlier one. */
static tri_status refuse_twice(const tri_loader *l, int i, int k, int key) {
  const tri_deck_entry *later = tri_deck_at(l->deck, i > k ? i : k),
                       *before = tri_deck_at(l->deck, i > k ? k : i);
  char full[2 * TRI_KEY_NAME_BYTES], other[2 * TRI_KEY_NAME_BYTES];

  tri_key_full_name(later, full, sizeof full);
  tri_key_full_name(before, other, sizeof other);
  TRI_FAIL(TRI_ECONFIG, "%s: %s and %s (%s) both set %s. Keep one", later->where, full, other, before->where,
           key_name(key));
}

/* Records entry i as the place of the key. */
static tri_status place(tri_loader *l, int i, tri_key_match m) {
  const tri_deck_entry *e = tri_deck_at(l->deck, i);
  tri_key_slot         *s = &l->slot[m.key];
  int                  *at = e->line ? &s->file : &s->argument;
  char                  full[2 * TRI_KEY_NAME_BYTES];

  if (*at >= 0) return refuse_twice(l, i, *at, m.key);
  *at = i;
  s->alias = m.alias;
  tri_key_full_name(e, full, sizeof full);
  if (m.alias && l->notes && !tri_loader_is_astray(e))
    TRI_TRY(tri_text_printf(l->notes, "%s: %s is read as %s\n", e->where, full, key_name(m.key)));
  return TRI_OK;
}

/* As tri_error_note, for a key of this section. The caller then skips checks that depend on such keys. "" is
 * a name without a section, which may belong to any. */
static tri_status note(tri_loader *l, tri_status st, const char *section) {
  static const struct {
    const char *section;
    unsigned    about;
  } row[] = {{"algo", TRI_CONFIG_ABOUT_ALGO},
             {"model", TRI_CONFIG_ABOUT_MODEL},
             {"lora", TRI_CONFIG_ABOUT_MODEL},
             {"critic", TRI_CONFIG_ABOUT_MODEL},
             {"data", TRI_CONFIG_ABOUT_DATA},
             {"reward", TRI_CONFIG_ABOUT_REWARD},
             {"", TRI_CONFIG_ABOUT_MODEL | TRI_CONFIG_ABOUT_DATA}};
  size_t  n = strcspn(section, ".");
  int64_t before = l->errors ? l->errors->n : 0;

  TRI_TRY(tri_error_note(st, l->errors));
  for (size_t i = 0; l->errors && l->errors->n > before && i < sizeof row / sizeof *row; i++)
    if (strlen(row[i].section) == n && !memcmp(row[i].section, section, n)) l->errors->about |= row[i].about;
  return TRI_OK;
}

/* Records the place of each key, except for names with two meanings. Refuses keys that are unknown or stand
 * twice. */
static tri_status collect(tri_loader *l) {
  for (int i = 0; i < tri_n_keys + 1; i++) l->slot[i] = (tri_key_slot){-1, -1, NULL};
  for (int i = 0; i < tri_deck_count(l->deck); i++) {
    const tri_deck_entry *e = tri_deck_at(l->deck, i);
    tri_key_match         m = {-1, NULL}, unused;
    if (!e->first) continue;
    TRI_TRY(note(l, tri_key_match_entry(e, &m), e->section));
    if (m.key >= 0 && !tri_key_match_double(e, NULL, &unused)) TRI_TRY(note(l, place(l, i, m), e->section));
  }
  return TRI_OK;
}

/* Records names with two meanings, once the algorithm is known. */
static tri_status collect_doubles(tri_loader *l) {
  for (int i = 0; i < tri_deck_count(l->deck); i++) {
    const tri_deck_entry *e = tri_deck_at(l->deck, i);
    tri_key_match         m;
    if (e->first && tri_key_match_double(e, &l->cfg->algo.row, &m))
      TRI_TRY(note(l, place(l, i, m), e->section));
  }
  return TRI_OK;
}

/* ---- all of it ---- */

enum { MOST_NAMES = 64 }; /* chosen: several times the rows of the tables of algorithms */

/* Reports a value that is none of the possible names of the key. */
static tri_status refuse_name(const tri_deck_entry *e, const char *key, const char *value) {
  const tri_key *k = tri_key_find(key);
  const char    *known[MOST_NAMES], *near;
  char           expected[TRI_KEY_EXPECTED_BYTES];
  int            n = 0;

  for (; tri_key_named(k, n); n++) {
    TRI_ASSERT(n < MOST_NAMES);
    known[n] = tri_key_named(k, n);
  }
  near = tri_nearest(value, known, n);
  tri_key_expected(k, expected);
  TRI_FAIL(TRI_ECONFIG, "%s: %s = %.200s: must be %s%s%s", e->where, key, value, expected,
           near ? ". The nearest is " : "", near ? near : "");
}

/* Checks that the deck names an algorithm of the table. */
static tri_status check_algo(const tri_loader *l) {
  const tri_deck_entry *e = tri_loader_given(l, "algo.name");
  const char           *name = l->cfg->algo.name;
  char                  expected[TRI_KEY_EXPECTED_BYTES];

  tri_key_expected(tri_key_find("algo.name"), expected);
  if (!e) TRI_FAIL(TRI_ECONFIG, "%s: algo.name is missing: %s", tri_deck_name(l->deck), expected);
  return l->preset ? TRI_OK : refuse_name(e, "algo.name", name);
}

static tri_status read_advantage(const tri_loader *l) {
  const char          *name = l->cfg->algo.advantage;
  const tri_advantage *a = name ? tri_advantage_find(name) : l->preset->advantage;

  if (!a) return refuse_name(tri_loader_given(l, "algo.advantage"), "algo.advantage", name);
  l->cfg->algo.row.advantage = a;
  TRI_FREE(l->cfg->algo.advantage);
  return tri_copy_text(a->name, &l->cfg->algo.advantage);
}

static tri_status read_policy_loss(const tri_loader *l) {
  const char     *name = l->cfg->algo.policy_loss;
  const tri_loss *a = name ? tri_policy_loss_find(name) : l->preset->loss;

  if (!a) return refuse_name(tri_loader_given(l, "algo.policy_loss"), "algo.policy_loss", name);
  l->cfg->algo.row.loss = a;
  TRI_FREE(l->cfg->algo.policy_loss);
  return tri_copy_text(a->name, &l->cfg->algo.policy_loss);
}

/* These keys determine the defaults of other keys, so they are read first. */
static const char *const first_keys[] = {"algo.name", "algo.advantage", "algo.policy_loss"};
enum { N_FIRST = sizeof first_keys / sizeof *first_keys };

static bool is_first(int row) {
  for (int i = 0; i < N_FIRST; i++)
    if (!strcmp(tri_keys[row].name, first_keys[i])) return true;
  return false;
}

static tri_status read_parts(tri_loader *l) {
  tri_config *c = l->cfg;

  for (int i = 0; i < N_FIRST; i++)
    TRI_TRY(note(l, tri_config_read_key(l, tri_key_row(first_keys[i])), "algo"));
  l->preset = c->algo.name ? tri_algo_find(c->algo.name) : NULL;
  if (!l->preset) return TRI_OK;
  c->algo.row = *l->preset;
  if (!c->algo.row.advantage) return TRI_OK;
  TRI_TRY(tri_error_note(read_advantage(l), l->errors));
  return tri_error_note(read_policy_loss(l), l->errors);
}

/* The scopes of a named plan, in the order of the words of shard.plan. */
static const tri_shard_plan plans[] = {{TRI_SHARD_NODE, TRI_SHARD_NODE, TRI_SHARD_WORLD},
                                       {TRI_SHARD_NONE, TRI_SHARD_NONE, TRI_SHARD_NONE},
                                       {TRI_SHARD_NONE, TRI_SHARD_NONE, TRI_SHARD_WORLD},
                                       {TRI_SHARD_NONE, TRI_SHARD_WORLD, TRI_SHARD_WORLD},
                                       {TRI_SHARD_WORLD, TRI_SHARD_WORLD, TRI_SHARD_WORLD}};

/* Sets the plan of a model with an optional plan of its own. */
static void resolve_own_plan(const tri_loader *l, const char *key, int *plan, tri_shard_plan *scope) {
  if (!tri_loader_given(l, key)) *plan = TRI_CONFIG_OWN_PLAN;
  *scope = *plan < 0 ? l->cfg->shard.scope : plans[*plan];
}

/* Sets the scopes of a named plan, or the missing scopes of the user's own plan. */
static void resolve_plan(const tri_loader *l) {
  bool params = tri_loader_given(l, "shard.params"), grads = tri_loader_given(l, "shard.grads"),
       optim = tri_loader_given(l, "shard.optimizer");
  tri_config *c = l->cfg;

  if (params || grads || optim) c->shard.plan = TRI_CONFIG_OWN_PLAN;
  const tri_shard_plan *p = &plans[c->shard.plan < 0 ? 0 : c->shard.plan];
  if (!params) c->shard.scope.params = p->params;
  if (!grads) c->shard.scope.grads = p->grads;
  if (!optim) c->shard.scope.optim = p->optim;
  resolve_own_plan(l, "critic.shard", &c->critic.plan, &c->critic.scope);
  resolve_own_plan(l, "reference.shard", &c->reference.plan, &c->reference.scope);
}

/* The upper clip follows the lower one if only the lower one is given, or if the loss has no default for
 * it. */
static void resolve_clip(const tri_loader *l) {
  tri_algo_opt *o = &l->cfg->algo.opt;
  bool          follows = tri_loader_given(l, "algo.clip_eps") && !tri_loader_given(l, "algo.clip_eps_high");

  if (follows || o->clip_eps_high == 0) o->clip_eps_high = o->clip_eps;
}

/* ipo aims at a margin per token, so its log-ratios are divided by the length unless the deck says
 * otherwise. */
static void resolve_length(const tri_loader *l) {
  tri_algo_opt *o = &l->cfg->algo.opt;

  if (!tri_loader_given(l, "algo.length_normalize")) o->length_normalize = o->dpo_loss == TRI_DPO_IPO;
}

enum { LORA_ALPHA = 16 }; /* chosen: OpenRLHF's and verl's */

/* Sets the alpha of new adapters. */
static void resolve_alpha(const tri_loader *l) {
  tri_config *c = l->cfg;

  if (c->lora.rank > 0 && !c->lora.path && !tri_loader_given(l, "lora.alpha")) c->lora.alpha = LORA_ALPHA;
}

/* The default rate of adapters is higher than the rate of all weights, as for LoRA in TRL, OpenRLHF and PEFT.
 * A loss with a reference policy has a lower one. */
static void resolve_rate(const tri_loader *l) {
  static const double with_lora = 1e-4, with_lora_and_reference = 5e-6;
  tri_config         *c = l->cfg;

  c->train.rate_is_default = !tri_loader_given(l, "train.learning_rate");
  if (!c->train.rate_is_default || !tri_config_has_lora(c)) return;
  c->train.lr.peak = c->algo.row.loss->reads & TRI_LOSS_REFERENCE ? with_lora_and_reference : with_lora;
}

/* Reads each key except the first ones. A wrong key gets its default again. */
static tri_status read_keys(tri_loader *l) {
  for (int i = 0; i < tri_n_keys; i++) {
    int64_t before = l->errors ? l->errors->n : 0;
    if (is_first(i)) continue;
    TRI_TRY(note(l, tri_config_read_key(l, i), tri_keys[i].name));
    if (l->errors && l->errors->n > before) TRI_TRY(tri_config_default_key(l, i));
  }
  return TRI_OK;
}

/* Keeps the first messages and counts the others. Further lines of a message begin with a space. */
static tri_status shorten(const tri_deck *deck, tri_errors *errors) {
  int64_t n = 0;
  char   *at = errors->text.data;

  for (; at && *at; at = strchr(at, '\n') + 1)
    if (*at != ' ' && ++n > TRI_CONFIG_MOST_ERRORS) break;
  if (n <= TRI_CONFIG_MOST_ERRORS) return TRI_OK;
  errors->text.len = (size_t)(at - errors->text.data);
  *at = '\0';
  return tri_text_printf(&errors->text, "%s: %lld more error%s in keys\n", tri_deck_name(deck),
                         (long long)(errors->n - TRI_CONFIG_MOST_ERRORS),
                         errors->n - TRI_CONFIG_MOST_ERRORS == 1 ? "" : "s");
}

static void forget_rewards(tri_config *c) {
  for (int i = 0; i < c->reward.n; i++) tri_config_forget_reward(&c->reward.item[i]);
  c->reward.n = 0;
}

static tri_status load(tri_loader *l) {
  tri_config *c = l->cfg;
  int64_t     before;

  TRI_ASSERT(tri_n_keys <= TRI_MOST_KEYS);
  *c = (tri_config){0};
  TRI_TRY(collect(l));
  TRI_TRY(read_parts(l));
  if (l->preset) TRI_TRY(collect_doubles(l));
  TRI_TRY(read_keys(l));
  before = l->errors ? l->errors->n : 0;
  TRI_TRY(note(l, tri_config_read_rewards(l), "reward"));
  if (l->errors && l->errors->n > before) l->errors->about |= TRI_CONFIG_ABOUT_REWARD;
  if (c->algo.name || !l->errors || !l->errors->n) TRI_TRY(note(l, check_algo(l), "algo"));
  if (!l->preset && l->errors) l->errors->about |= TRI_CONFIG_ABOUT_ALGO;
  resolve_plan(l);
  if (!l->errors || !l->errors->n) TRI_TRY(tri_config_check(l));
  if (l->errors && l->errors->n) return shorten(l->deck, l->errors);
  resolve_clip(l);
  resolve_length(l);
  resolve_alpha(l);
  resolve_rate(l);
  l->cfg->data.apply_is_default = !tri_loader_given(l, "data.apply_chat_template");
  return TRI_OK;
}

void tri_config_say_notes(const tri_text *notes) {
  static const char warning[] = "warning: ";
  const size_t      n = sizeof warning - 1;

  if (!notes->len || !tri_log_is_first()) return; /* every rank shows its warnings */
  for (const char *line = notes->data, *end; *line; line = *end ? end + 1 : end) {
    bool warns = !strncmp(line, warning, n);
    end = line + strcspn(line, "\n");
    tri_log(warns ? TRI_LOG_WARN : TRI_LOG_INFO, "%.*s", (int)(end - line - (warns ? (ptrdiff_t)n : 0)),
            line + (warns ? n : 0));
  }
}

tri_status tri_config_from_deck(const tri_deck *deck, tri_config *out, tri_text *notes) {
  tri_loader l = {.deck = deck, .cfg = out, .notes = notes};

  return load(&l);
}

tri_status tri_config_load_all(const char *path, char *const *args, int n_args, tri_config *out,
                               tri_text *notes, tri_errors *errors) {
  tri_status st = TRI_OK;
  tri_deck  *deck = NULL;
  tri_loader l = {.cfg = out, .notes = notes, .errors = errors, .is_typed = true};

  *out = (tri_config){0};
  TRI_TRY_DONE(tri_deck_open(path, &deck));
  for (int i = 0; i < n_args; i++) TRI_TRY_DONE(tri_error_note(tri_deck_set(deck, args[i]), errors));
  l.deck = deck;
  TRI_TRY_DONE(load(&l));
done:
  tri_deck_close(&deck);
  return st;
}

tri_status tri_config_load_text(const char *name, const char *bytes, size_t n, tri_config *out,
                                tri_text *notes, tri_errors *errors) {
  tri_status st = TRI_OK;
  tri_deck  *deck = NULL;
  tri_loader l = {.cfg = out, .notes = notes, .errors = errors, .is_typed = true};

  *out = (tri_config){0};
  TRI_TRY_DONE(tri_deck_open_text(name, bytes, n, &deck));
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

void tri_config_choose(const tri_config *c) {
  const struct {
    tri_choice  choice;
    const char *key;
    int         value;
  } row[TRI_CHOICES] = {
      {TRI_CHOICE_CPU_KERNELS, "run.cpu_kernels", c->run.cpu_kernels},
      {TRI_CHOICE_CPU_F32, "run.cpu_f32", c->run.cpu_f32},
      {TRI_CHOICE_CPU_BF16, "run.cpu_bf16", c->run.cpu_bf16},
      {TRI_CHOICE_COLLECTIVES, "run.collectives", c->run.collectives},
      {TRI_CHOICE_CUDA_ATTENTION, "run.cuda_attention_backward", c->run.cuda_attention_backward}};
  char word[TRI_CONFIG_WORD_BYTES];

  for (int i = 0; i < TRI_CHOICES; i++) {
    tri_config_word(row[i].key, row[i].value, word);
    tri_choice_set(row[i].choice, word);
  }
}

void tri_config_free(tri_config *c) {
  for (int k = 0; k < tri_n_keys; k++) {
    void            *at = (char *)c + tri_keys[k].offset;
    tri_config_list *list = at;
    if (tri_keys[k].type == TRI_KEY_TEXT || tri_keys[k].type == TRI_KEY_MAP) TRI_FREE(*(char **)at);
    if (tri_keys[k].type != TRI_KEY_LIST) continue;
    for (int i = 0; i < list->n; i++) TRI_FREE(list->item[i]);
    TRI_FREE(list->item);
  }
  forget_rewards(c);
  *c = (tri_config){0};
}
