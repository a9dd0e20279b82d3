/* learner.c - opens, configures and closes the models of a run, by role. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "learner.h"

#include "base/file.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "base/notice.h"
#include "family/family.h"
#include "io/model/part.h"
#include "train.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- sources ---- */

/* True if the folder exists, but lacks files that every model has. */
static bool lacks_model(const char *folder) {
  bool weights =
      tri_file_in(folder, "model.safetensors") || tri_file_in(folder, "model.safetensors.index.json");

  return tri_file_exists(folder) && !(weights && tri_file_in(folder, "config.json"));
}

/* ---- adapters ---- */

bool tri_learner_has_adapters(const tri_trainer *t, const tri_learner *l) {
  bool critic = l == &t->learner[TRI_CRITIC] && t->cfg->critic.lora;

  return tri_config_has_lora(t->cfg) && (l == &t->learner[TRI_POLICY] || critic);
}

static tri_status refuse_target(const tri_family *f, const char *name) {
  char   all[512] = "", module[TRI_LORA_MODULE_BYTES];
  size_t used = 0;

  for (int i = 0; f->tensor[i].name && used < sizeof all; i++) {
    tri_lora_module(f, i, module);
    if (module[0]) used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", used ? ", " : "", module);
  }
  TRI_FAIL(TRI_ECONFIG,
           "lora.targets: '%.100s' is no linear module of the layers of a %s. The modules are %s.", name,
           f->model_type, all);
}

/* Reads lora.targets as a bit set. The result is 0 if the deck does not give the key. */
static tri_status read_targets(const tri_config *c, const tri_family *f, uint64_t *target) {
  *target = 0;
  for (int i = 0; i < c->lora.targets.n; i++) {
    uint64_t rows = tri_lora_find(f, c->lora.targets.item[i]);
    if (!rows) return refuse_target(f, c->lora.targets.item[i]);
    *target |= rows;
  }
  return TRI_OK;
}

/* Checks that keys given beside lora.path agree with its file. */
static tri_status check_beside(const tri_config *c, const tri_lora *l, uint64_t target) {
  const char *key = c->lora.rank && c->lora.rank != l->rank          ? "lora.rank"
                    : c->lora.alpha > 0 && c->lora.alpha != l->alpha ? "lora.alpha"
                    : target && target != l->target                  ? "lora.targets"
                                                                     : NULL;

  if (!key) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG,
           "%s differs from lora.path, where the adapters have rank %d and alpha %g. Remove the key, or give "
           "the same value.",
           key, l->rank, l->alpha);
}

/* Adds new adapters, or the ones of lora.path, to a model at the start of a run. */
static tri_status add_adapters(const tri_trainer *t, tri_learner *l) {
  const tri_config *c = t->cfg;
  const tri_lora   *first = tri_source_lora(t->learner[TRI_POLICY].source);
  tri_lora          made = {(int)c->lora.rank, c->lora.alpha, false, 0};
  uint64_t          target;

  if (!tri_learner_has_adapters(t, l)) return TRI_OK;
  TRI_TRY(read_targets(c, tri_source_shape(l->source)->family, &target));
  if (c->lora.path && l == &t->learner[TRI_POLICY]) {
    TRI_TRY(tri_error_about(
        tri_source_add_adapters(l->source, c->lora.path, t->se->rt.world_rank == 0, c->run.seed),
        "lora.path"));
    return check_beside(c, tri_source_lora(l->source), target);
  }
  made.target = target ? target : tri_lora_all(tri_source_shape(l->source)->family);
  if (l != &t->learner[TRI_POLICY]) made = *first; /* the critic's adapters have the policy's options */
  if (l != &t->learner[TRI_POLICY] && tri_source_lora(l->source)->rank)
    TRI_FAIL(TRI_ECONFIG,
             "%s: the critic would start from this model, but it holds adapters already. Give critic.lora: "
             "false to train the whole critic. Or run trireme export %s FOLDER and give critic.path: FOLDER "
             "(%s).",
             tri_source_name(l->source), tri_source_name(l->source), l->key);
  return tri_error_about(tri_source_add_lora(l->source, &made, c->run.seed), l->key);
}

/* Checks that a resumed run keeps adapters, or keeps none. Their options come from the checkpoint. */
static tri_status check_adapted(const tri_trainer *t, const tri_learner *l) {
  bool now = tri_learner_has_adapters(t, l), before = tri_source_lora(l->source)->rank;

  if (now == before) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG,
           "%s: the %s of the checkpoint has %s adapters, but the deck gives it %s. Remove or give lora.rank "
           "(or lora.path, critic.lora), or start another run.output.",
           t->run.resume, l->name, before ? "low-rank" : "no low-rank", now ? "some" : "none");
}

/* Returns the path if it holds the base model for a checkpoint's adapters, by the deck. Returns NULL if the
 * path is an output folder, whose newest checkpoint may have changed by now, or does not exist. Then the
 * checkpoint's own record of its base counts. */
static const char *base_at(const char *path) {
  return path && (tri_file_in(path, "config.json") || tri_file_in(path, "MANIFEST.json")) ? path : NULL;
}

/* Returns the base of the critic's adapters in the same way. */
static const char *base_of_critic(const tri_config *c) {
  const char *judge = tri_config_reward_model(c);

  return base_at(c->critic.path ? c->critic.path : judge ? judge : c->model.path);
}

/* ---- models ---- */

/* True if a plan on paper may go without the weights, because they do not exist yet. */
static bool assumes_weights(const tri_trainer *t, const char *path) {
  return t->plan.on_paper && tri_source_awaits_weights(path);
}

/* Opens an existing model. */
static tri_status open_at(const tri_trainer *t, const char *path, tri_source **out) {
  return tri_source_open(path, NULL, !assumes_weights(t, path), out);
}

/* Opens the deck's model, from files or from random numbers. */
static tri_status open_deck_model(const tri_trainer *t, bool weights, tri_source **out) {
  const tri_config *c = t->cfg;
  const char       *found = t->learner[TRI_POLICY].path, *path = found[0] ? found : c->model.path;

  if (path && assumes_weights(t, path)) weights = false;
  if (path)
    return tri_error_about(tri_source_open(path, NULL, weights, out),
                           lacks_model(c->model.path)
                               ? "model.path (for random weights give model.config and model.tokenizer)"
                               : "model.path");
  return tri_error_about(tri_source_open_random(c->model.config, c->model.tokenizer, c->run.seed, out),
                         c->model.tokenizer ? "model.config, model.tokenizer" : "model.config");
}

static bool same_rope(const tri_rope_shape *a, const tri_rope_shape *b) {
  return a->type == b->type && a->theta == b->theta && a->factor == b->factor && a->low_freq == b->low_freq &&
         a->high_freq == b->high_freq && a->attention_factor == b->attention_factor &&
         a->truncate == b->truncate && a->original_max_pos == b->original_max_pos && a->turned == b->turned &&
         !memcmp(a->by_pair, b->by_pair, sizeof a->by_pair);
}

/* Returns the first differing property of two models by its name in config.json, or NULL. */
static const char *difference(const tri_model_shape *a, const tri_model_shape *b) {
  const struct {
    const char *name;
    bool        same;
  } row[] = {{"model_type", a->family == b->family},
             {"num_hidden_layers", a->L == b->L},
             {"num_attention_heads", a->H == b->H},
             {"num_key_value_heads", a->G == b->G},
             {"head_dim", a->D == b->D},
             {"hidden_size", a->C == b->C},
             {"intermediate_size", a->F == b->F},
             {"vocab_size", a->V == b->V},
             {"tie_word_embeddings", a->tied_head == b->tied_head},
             {"attention_bias", a->qkv_bias == b->qkv_bias && a->o_bias == b->o_bias},
             {"mlp_bias", a->mlp_bias == b->mlp_bias},
             {"rms_norm_eps", a->norm_eps == b->norm_eps},
             {"sliding_window", a->attn.window == b->attn.window},
             {"layer_types", !memcmp(a->attn.local, b->attn.local, sizeof a->attn.local)},
             {"query_pre_attn_scalar", a->attn.query_scalar == b->attn.query_scalar},
             {"attn_logit_softcapping", a->attn.softcap == b->attn.softcap},
             {"final_logit_softcapping", a->logit_softcap == b->logit_softcap},
             {"embedding_multiplier", a->embed_multiplier == b->embed_multiplier},
             {"attention_multiplier", a->attn.multiplier == b->attn.multiplier},
             {"residual_multiplier", a->residual_multiplier == b->residual_multiplier},
             {"logits_scaling", a->logit_divisor == b->logit_divisor},
             {"no_rope_layers", !memcmp(a->no_rope, b->no_rope, sizeof a->no_rope)},
             {"rope_theta", a->rope[0].theta == b->rope[0].theta},
             {"rope_scaling", same_rope(&a->rope[TRI_GLOBAL], &b->rope[TRI_GLOBAL])},
             {"rope_local_base_freq", same_rope(&a->rope[TRI_LOCAL], &b->rope[TRI_LOCAL])}};

  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (!row[i].same) return row[i].name;
  return NULL;
}

static tri_status check_same_model(const tri_source *from, const tri_source *deck) {
  const tri_model_shape *a = tri_source_shape(from), *b = tri_source_shape(deck);
  const char            *other = difference(a, b);

  if (!other) return TRI_OK;
  TRI_FAIL(
      TRI_ECONFIG,
      "%s holds another model than the deck, because %s differs: %s, %d layers of width %d, vocabulary %d, "
      "against %s, %d layers of width %d, vocabulary %d.\n"
      "  Give run.resume: never, another run.output, or the model of the run's start.",
      tri_source_name(from), other, a->family->model_type, a->L, a->C, a->V, b->family->model_type, b->L,
      b->C, b->V);
}

/* Opens the checkpoint. It needs no other files. If the folder of the first model still exists, the two are
 * compared. */
static tri_status open_resumed(tri_trainer *t, tri_learner *l) {
  const char *path = t->cfg->model.path ? t->cfg->model.path : t->cfg->model.config;
  tri_source *deck = NULL;
  tri_status  st;

  TRI_TRY(tri_source_open_over(t->run.resume, TRI_PART_MAIN, base_at(t->cfg->model.path), NULL, true,
                               &l->source));
  TRI_TRY(tri_run_check_algo(&t->run, tri_source_checkpoint(l->source)));
  TRI_TRY(check_adapted(t, l));
  if (access(path, R_OK)) return TRI_OK;
  st = open_deck_model(t, false, &deck);
  if (st == TRI_OK) {
    st = check_same_model(l->source, deck);
  } else if (st == TRI_EINPUT || st == TRI_EFORMAT || st == TRI_EFILE) {
    if (t->se->rt.world_rank == 0)
      tri_log_error(TRI_LOG_WARN, "the checkpoint is used without a comparison with the model it began from");
    tri_error_clear();
    st = TRI_OK;
  }
  tri_source_close(&deck);
  return st;
}

static tri_status open_policy(tri_trainer *t, tri_learner *l) {
  TRI_TRY(t->run.resume[0] ? open_resumed(t, l) : open_deck_model(t, true, &l->source));
  if (l->head == TRI_HEAD_SCALAR) TRI_TRY(tri_source_add_head(l->source, t->cfg->run.seed));
  return t->run.resume[0] ? TRI_OK : add_adapters(t, l);
}

/* Opens model.ref_path if it still exists. Otherwise opens the checkpoint's own reference, or the starting
 * policy. */
static tri_status find_reference(tri_trainer *t, tri_learner *l) {
  const char *own = l->group[TRI_STATE_WEIGHT];

  if (l->path[0]) return tri_error_about(open_at(t, l->path, &l->source), l->key);
  if (t->run.resume[0] && own &&
      tri_ckpt_has_group(tri_source_checkpoint(t->learner[TRI_POLICY].source), own)) {
    l->from = own;
    return tri_source_open(t->run.resume, NULL, true, &l->source);
  }
  if (t->cfg->model.ref_path)
    return tri_error_about(tri_source_missing(t->cfg->model.ref_path),
                           "model.ref_path (the checkpoint holds no reference)");
  return open_deck_model(t, true, &l->source);
}

/* Counts ids with different tokens in the two tokenizers. *first is the lowest such id. */
static int count_strange(const tri_tokenizer *a, const tri_tokenizer *b, int32_t *first) {
  int n = 0;

  for (int32_t i = tri_tokenizer_vocab_size(a) - 1; i >= 0; i--) {
    const char *x = tri_tokenizer_token(a, i), *y = tri_tokenizer_token(b, i);
    if (!x || !y || !strcmp(x, y)) continue;
    *first = i;
    n++;
  }
  return n;
}

/* chosen. Models with one tokenizer may name a few reserved tokens differently. */
enum { STRANGE_SHARE = 100 };

/* Compares the two tokenizers if both models bring one. Rank 0 warns of a few differences, as they may only
 * be names. */
static tri_status check_tokenizer(const tri_trainer *t, const tri_learner *l) {
  const tri_tokenizer *own = tri_source_tokenizer(l->source),
                      *policy = tri_source_tokenizer(t->learner[TRI_POLICY].source);
  int32_t at = 0;
  int     n;

  if (!own || !policy) return TRI_OK;
  n = count_strange(own, policy, &at);
  if (n > tri_tokenizer_vocab_size(policy) / STRANGE_SHARE)
    TRI_FAIL(
        TRI_ECONFIG,
        "%s: the tokenizer of the %s differs from the policy's in %d token%s. The first is %d: '%.40s', the "
        "policy's '%.40s'. This model would read other texts than the policy writes.",
        l->key, l->name, n, n == 1 ? "" : "s", (int)at, tri_tokenizer_token(own, at),
        tri_tokenizer_token(policy, at));
  if (n && t->se->rt.world_rank == 0)
    tri_warn("other_tokens",
             "%s: tokens of the %s that differ from the policy's: %d. The first is %d: '%.40s', the policy's "
             "'%.40s'. "
             "Unless these are only names of reserved tokens, this model reads other texts than the policy "
             "writes.",
             l->key, l->name, n, (int)at, tri_tokenizer_token(own, at), tri_tokenizer_token(policy, at));
  return TRI_OK;
}

/* True if the role reads only whole answers. Then judge.c can replace ids beyond its vocabulary. In a plan on
 * paper the policy's tokenizer may not exist yet. */
static bool reads_text(const tri_trainer *t, const tri_learner *l) {
  const tri_tokenizer *policy = tri_source_tokenizer(t->learner[TRI_POLICY].source);

  if (l != &t->learner[TRI_REWARD_MODEL]) return false;
  return policy ? tri_tokenizer_vocab_size(policy) <= tri_source_shape(l->source)->V : t->plan.on_paper;
}

/* Checks that a model reads the policy's tokens with the same meaning. A model that only scores may have a
 * larger vocabulary, or, if it reads texts, lack padding ids. A model of token probabilities must have the
 * same vocabulary. */
static tri_status check_vocabulary(const tri_trainer *t, const tri_learner *l) {
  int  own = tri_source_shape(l->source)->V, policy = tri_source_shape(t->learner[TRI_POLICY].source)->V;
  bool scores = l->head == TRI_HEAD_SCALAR;

  if (own == policy || (scores && own > policy) || reads_text(t, l)) return check_tokenizer(t, l);
  TRI_FAIL(TRI_ECONFIG, "%s: the %s%s has a vocabulary of %d, but the policy's has %d%s%s", l->key, l->name,
           l == &t->learner[TRI_CRITIC] && !l->path[0] ? " that starts from it" : "", own, policy,
           scores ? ". It must know all of the policy's tokens." : "",
           l == &t->learner[TRI_CRITIC] && !l->path[0] ? " critic.path can name another model." : "");
}

static tri_status open_reference(tri_trainer *t, tri_learner *l) {
  if (!tri_config_wants_reference(t->cfg) || tri_config_reference_is_base(t->cfg)) return TRI_OK;
  TRI_TRY(find_reference(t, l));
  return check_vocabulary(t, l);
}

static tri_status check_family(const tri_trainer *t, const tri_learner *l) {
  const char *own = tri_source_shape(l->source)->family->model_type,
             *policy = tri_source_shape(t->learner[TRI_POLICY].source)->family->model_type;

  if (!strcmp(own, policy)) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "%s: the %s is a %s, but the policy is a %s. Both must be of one family.%s", l->key,
           l->name, own, policy, l->path[0] ? "" : " critic.path can name another model.");
}

/* Opens the critic of a checkpoint if it has one, else the model itself. */
static tri_status open_critic_of(const tri_trainer *t, const char *path, tri_learner *l) {
  const tri_ckpt_reader *r;

  TRI_TRY(open_at(t, path, &l->source));
  r = tri_source_checkpoint(l->source);
  if (!r || !tri_ckpt_has_file(r, tri_part_config(TRI_PART_CRITIC))) return TRI_OK;
  tri_source_close(&l->source);
  l->from = tri_part_group(TRI_PART_CRITIC);
  return tri_source_open_part(path, TRI_PART_CRITIC, NULL, true, &l->source);
}

/* Opens the critic from the checkpoint, else from critic.path, the reward model, or the policy's start, in
 * this order. */
static tri_status open_critic(tri_trainer *t, tri_learner *l) {
  const tri_learner *reward = &t->learner[TRI_REWARD_MODEL];
  const char        *path = l->path[0] ? l->path : reward->path;

  if (!tri_config_wants_critic(t->cfg)) return TRI_OK;
  if (t->run.resume[0]) {
    l->from = tri_part_group(TRI_PART_CRITIC);
    TRI_TRY(
        tri_source_open_over(t->run.resume, TRI_PART_CRITIC, base_of_critic(t->cfg), NULL, true, &l->source));
    TRI_TRY(check_adapted(t, l));
  } else if (path[0]) {
    if (!l->path[0]) l->key = reward->key;
    TRI_TRY(tri_error_about(open_critic_of(t, path, l), l->key));
  } else {
    TRI_TRY(open_deck_model(t, true, &l->source));
  }
  TRI_TRY(tri_error_about(tri_source_add_head(l->source, t->cfg->run.seed), l->key));
  TRI_TRY(check_family(t, l));
  TRI_TRY(check_vocabulary(t, l));
  return t->run.resume[0] ? TRI_OK : add_adapters(t, l);
}

/* Opens the reward model at the deck's path. A resumed run reads it from there too, like its data. */
static tri_status open_reward_model(tri_trainer *t, tri_learner *l) {
  if (!l->path[0]) return TRI_OK;
  TRI_TRY(tri_error_about(open_at(t, l->path, &l->source), l->key));
  if (!assumes_weights(t, l->path)) /* without weights only the files of the model can tell */
    TRI_TRY(tri_error_about(tri_source_check_scored(l->source), l->key));
  return check_vocabulary(t, l);
}

/* Constant members of each role. All others are zero. */
static const tri_learner roles[TRI_ROLE_COUNT] = {
    [TRI_POLICY] = {.name = "policy",
                    .key = "model.path",
                    .group = {"/model", "/optimizer/exp_avg", "/optimizer/exp_avg_sq", "/ema/model"},
                    .prefix = "",
                    .head = TRI_HEAD_TOKENS,
                    .train = true,
                    .generates = true,
                    .loss_name = "loss",
                    .open = open_policy,
                    .from = "/model"},
    /* Kept in checkpoints, so that a resumed run no longer needs the first model's folder. */
    [TRI_REFERENCE] = {.name = "reference",
                       .key = "model.ref_path",
                       .group = {"/reference"},
                       .prefix = "reference_",
                       .head = TRI_HEAD_TOKENS,
                       .open = open_reference,
                       .from = "/model"},
    [TRI_CRITIC] = {.name = "critic",
                    .key = "critic.path",
                    .group = {"/critic/model", "/critic/optimizer/exp_avg", "/critic/optimizer/exp_avg_sq"},
                    .prefix = "critic_",
                    .head = TRI_HEAD_SCALAR,
                    .train = true,
                    .loss = &tri_loss_value,
                    .loss_name = "value_loss",
                    .open = open_critic,
                    .from = "/model"},
    [TRI_REWARD_MODEL] = {.name = "reward model",
                          .key = "reward.path",
                          .prefix = "reward_",
                          .head = TRI_HEAD_SCALAR,
                          .open = open_reward_model,
                          .from = "/model"}};

/* Checkpoint groups of adapters. A run with adapters keeps no whole model. */
static const char *const adapter_groups[TRI_ROLE_COUNT][TRI_STATE_COUNT] = {
    [TRI_POLICY] = {"/adapter/model", "/adapter/optimizer/exp_avg", "/adapter/optimizer/exp_avg_sq",
                    "/adapter/ema/model"},
    [TRI_CRITIC] = {"/critic/adapter/model", "/critic/adapter/optimizer/exp_avg",
                    "/critic/adapter/optimizer/exp_avg_sq"}};

void tri_learner_begin(tri_trainer *t) {
  const tri_config *c = t->cfg;
  tri_learner      *policy = &t->learner[TRI_POLICY], *critic = &t->learner[TRI_CRITIC];

  memcpy(t->learner, roles, sizeof t->learner);
  for (int i = 0; i < TRI_ROLE_COUNT; i++)
    if (tri_learner_has_adapters(t, &t->learner[i]) || (i == TRI_REFERENCE && tri_config_has_lora(c)))
      memcpy(t->learner[i].group, adapter_groups[i], sizeof adapter_groups[i]);
  policy->plan = t->learner[TRI_REWARD_MODEL].plan = c->shard.scope;
  t->learner[TRI_REFERENCE].plan = c->reference.scope;
  critic->plan = c->critic.scope;
  policy->lr = critic->lr = c->train.lr;
  critic->lr.peak = c->critic.learning_rate;
  policy->loss = t->algo->loss;
  policy->warmup_steps = c->critic.warmup_steps;
  if (policy->loss->reads & TRI_LOSS_VALUE) policy->head = TRI_HEAD_SCALAR;
}

/* True if evaluations read this model. They use no critic, and with rewarded answers no reference. */
static bool evaluations_read(const tri_trainer *t, const tri_learner *l) {
  return l != &t->learner[TRI_CRITIC] && !(l == &t->learner[TRI_REFERENCE] && tri_has_answers(t));
}

tri_status tri_learner_open_sources(tri_trainer *t) {
  for (tri_learner *l = t->learner; l < t->learner + TRI_ROLE_COUNT; l++) {
    TRI_ASSERT(l->open && l->prefix);
    if (t->plan.evaluates && !evaluations_read(t, l)) continue;
    TRI_TRY(l->open(t, l));
    if (l->source && l->head == TRI_HEAD_TOKENS)
      TRI_TRY(tri_error_about(tri_source_check_tokens(l->source), l->key));
  }
  return TRI_OK;
}

/* Collective over world. Resolves a path given by the deck's key. */
static tri_status resolve(tri_trainer *t, tri_learner *l, const char *path) {
  tri_status st = tri_error_about(tri_source_resolve(path, tri_world_of(t), l->path), l->key);

  return tri_error_note(st, t->run.errors);
}

tri_status tri_learner_resolve(tri_trainer *t) {
  const tri_config *c = t->cfg;
  const char       *judge = tri_config_reward_model(c);
  bool              gone = c->model.ref_path && t->run.resume[0] && access(c->model.ref_path, F_OK);

  if (judge) TRI_TRY(resolve(t, &t->learner[TRI_REWARD_MODEL], judge));
  if (c->model.path && !t->run.resume[0]) TRI_TRY(resolve(t, &t->learner[TRI_POLICY], c->model.path));
  if (c->critic.path && !t->run.resume[0]) TRI_TRY(resolve(t, &t->learner[TRI_CRITIC], c->critic.path));
  TRI_TRY(tri_host_bcast(tri_world_of(t), &gone, sizeof gone, 0));
  if (c->model.ref_path && !gone) TRI_TRY(resolve(t, &t->learner[TRI_REFERENCE], c->model.ref_path));
  return TRI_OK;
}

/* ---- learning ---- */

tri_status tri_learner_weigh(const tri_trainer *t, tri_role role, const tri_rollout *r, double **weight) {
  int64_t    n = t->plan.split.n, *answers = NULL;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(*weight, r->n_seq));
  TRI_TRY_DONE(TRI_ALLOC(answers, r->n_seq));
  for (int q = 0; q < r->n_seq; q++) answers[q] = tri_rollout_loss_tokens(r, q);
  for (int64_t q = 0; q < t->plan.mini_batches * n; q += n)
    t->learner[role].loss->weigh(&t->opt, t->cfg->rollout.max_response_length, answers + q, (int)n,
                                 *weight + q);
done:
  TRI_FREE(answers);
  return st;
}

/* Counts the numbers of a store, or with `added` only those of its scalar head. */
static int64_t count_numbers(const tri_params *p, bool added) {
  const tri_params_opt *o = tri_params_options(p);
  int64_t               n = 0;

  for (int u = 0; u < o->n_unit; u++)
    for (int i = 0; i < o->unit[u].n_param; i++)
      if (!added || o->unit[u].param[i].added) n += tri_param_count(&o->unit[u].param[i]);
  return n;
}

int64_t tri_learner_trained_size(const tri_learner *l) { return count_numbers(tri_learner_params(l), false); }

int64_t tri_learner_size(const tri_learner *l) {
  tri_params *weights = tri_model_params(l->model), *learned = tri_learner_params(l);

  return count_numbers(weights, false) + (learned == weights ? 0 : count_numbers(learned, true));
}

void tri_learner_close(tri_learner *l) {
  tri_model_close(&l->model);
  tri_source_close(&l->source);
}
