/* learner.c - the models of a run by role: opened, stepped, closed. */
#include "learner.h"

#include "base/file.h"
#include "family/family.h"
#include "io/model/part.h"
#include "train.h"

#include <string.h>
#include <unistd.h>

/* ---- where they come from ---- */

/* Whether a folder is there, but not what every model has. */
static bool lacks_model(const char *folder) {
  bool weights =
      tri_file_in(folder, "model.safetensors") || tri_file_in(folder, "model.safetensors.index.json");

  return tri_file_exists(folder) && !(weights && tri_file_in(folder, "config.json"));
}

/* The model the deck names, from files or from random numbers. */
static tri_status open_deck_model(const tri_trainer *t, bool weights, tri_source **out) {
  const tri_config *c = t->cfg;
  const char       *found = t->learner[TRI_POLICY].path;

  if (c->model.path)
    return tri_error_about(tri_source_open(found[0] ? found : c->model.path, NULL, weights, out),
                           lacks_model(c->model.path)
                               ? "model.path; model.config and model.tokenizer start from random weights"
                               : "model.path");
  return tri_error_about(tri_source_open_random(c->model.config, c->model.tokenizer, c->run.seed, out),
                         c->model.tokenizer ? "model.config, model.tokenizer" : "model.config");
}

/* What config.json calls the first thing in which two models differ, or NULL. */
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
             {"rope_theta", a->rope_theta == b->rope_theta},
             {"rope_scaling", a->rope_type == b->rope_type && a->rope_factor == b->rope_factor &&
                                  a->rope_low_freq == b->rope_low_freq &&
                                  a->rope_high_freq == b->rope_high_freq &&
                                  a->rope_original_max_pos == b->rope_original_max_pos}};

  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (!row[i].same) return row[i].name;
  return NULL;
}

static tri_status check_same_model(const tri_source *from, const tri_source *deck) {
  const tri_model_shape *a = tri_source_shape(from), *b = tri_source_shape(deck);
  const char            *other = difference(a, b);

  if (!other) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG,
           "%s holds another model than the deck's, %s differs: %s, %d layers of width %d, vocabulary %d, "
           "against %s, %d layers of width %d, vocabulary %d; give run.resume: never, another run.output, "
           "or the model the run was started with",
           tri_source_name(from), other, a->family->model_type, a->L, a->C, a->V, b->family->model_type, b->L,
           b->C, b->V);
}

/* A checkpoint stands alone; the first model's folder is compared with it where it is still there. */
static tri_status open_resumed(tri_trainer *t, tri_learner *l) {
  const char *path = t->cfg->model.path ? t->cfg->model.path : t->cfg->model.config;
  tri_source *deck = NULL;
  tri_status  st;

  TRI_TRY(tri_source_open(t->run.resume, NULL, true, &l->source));
  TRI_TRY(tri_run_check_algo(&t->run, tri_source_checkpoint(l->source)));
  if (access(path, R_OK)) return TRI_OK;
  st = open_deck_model(t, false, &deck);
  if (st == TRI_OK) {
    st = check_same_model(l->source, deck);
  } else if (st == TRI_EINPUT || st == TRI_EFORMAT || st == TRI_EFILE) {
    if (t->se->rt.world_rank == 0)
      tri_log(TRI_LOG_WARN,
              "the checkpoint cannot be compared with the model it began from, and stands alone: %s",
              tri_error_message());
    tri_error_clear();
    st = TRI_OK;
  }
  tri_source_close(&deck);
  return st;
}

static tri_status open_policy(tri_trainer *t, tri_learner *l) {
  TRI_TRY(t->run.resume[0] ? open_resumed(t, l) : open_deck_model(t, true, &l->source));
  return l->head == TRI_HEAD_SCALAR ? tri_source_add_head(l->source, t->cfg->run.seed) : TRI_OK;
}

/* model.ref_path, unless it is gone; then, or without it, the checkpoint's own; else the starting policy. */
static tri_status find_reference(tri_trainer *t, tri_learner *l) {
  const char *own = l->group[TRI_STATE_WEIGHT];

  if (l->path[0]) return tri_error_about(tri_source_open(l->path, NULL, true, &l->source), l->key);
  if (t->run.resume[0] && tri_ckpt_has_group(tri_source_checkpoint(t->learner[TRI_POLICY].source), own)) {
    l->from = own;
    return tri_source_open(t->run.resume, NULL, true, &l->source);
  }
  if (t->cfg->model.ref_path)
    return tri_error_about(tri_source_missing(t->cfg->model.ref_path),
                           "model.ref_path; the checkpoint holds no reference");
  return open_deck_model(t, true, &l->source);
}

/* Ids that both tokenizers know as different tokens; *first: the lowest. */
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

enum { STRANGE_SHARE = 100 }; /* chosen: models of one tokenizer differ in names of a few reserved tokens */

/* Where both bring a tokenizer. Rank 0 warns of what may be names alone. */
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
        "%s: the %s has another tokenizer than the policy: %d tokens differ, the first is %d: '%.40s', the "
        "policy's '%.40s'; it would read other texts than were written",
        l->key, l->name, n, (int)at, tri_tokenizer_token(own, at), tri_tokenizer_token(policy, at));
  if (n && t->se->rt.world_rank == 0)
    tri_log(TRI_LOG_WARN,
            "%s: %d tokens of the %s are others than the policy's, %d the first: '%.40s', '%.40s'", l->key, n,
            l->name, (int)at, tri_tokenizer_token(own, at), tri_tokenizer_token(policy, at));
  return TRI_OK;
}

/* What reads the policy's tokens must mean the same by them. */
static tri_status check_vocabulary(const tri_trainer *t, const tri_learner *l) {
  int own = tri_source_shape(l->source)->V, policy = tri_source_shape(t->learner[TRI_POLICY].source)->V;

  if (own == policy) return check_tokenizer(t, l);
  TRI_FAIL(TRI_ECONFIG, "%s: the %s has a vocabulary of %d, the policy one of %d", l->key, l->name, own,
           policy);
}

static tri_status open_reference(tri_trainer *t, tri_learner *l) {
  if (!tri_config_wants_reference(t->cfg)) return TRI_OK;
  TRI_TRY(find_reference(t, l));
  return check_vocabulary(t, l);
}

static tri_status check_family(const tri_trainer *t, const tri_learner *l) {
  const char *own = tri_source_shape(l->source)->family->model_type,
             *policy = tri_source_shape(t->learner[TRI_POLICY].source)->family->model_type;

  if (!strcmp(own, policy)) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "%s: the %s is a %s, the policy a %s: it must be of the policy's family%s", l->key,
           l->name, own, policy, l->path[0] ? "" : "; critic.path can name another model");
}

/* Of a run that has one, its critic; else the model that is there. */
static tri_status open_critic_of(const char *path, tri_learner *l) {
  const tri_ckpt_reader *r;

  TRI_TRY(tri_source_open(path, NULL, true, &l->source));
  r = tri_source_checkpoint(l->source);
  if (!r || !tri_ckpt_has_file(r, tri_part_config(TRI_PART_CRITIC))) return TRI_OK;
  tri_source_close(&l->source);
  l->from = tri_part_group(TRI_PART_CRITIC);
  return tri_source_open_part(path, TRI_PART_CRITIC, NULL, true, &l->source);
}

/* From the checkpoint; else critic.path, the reward model, or as the policy began. */
static tri_status open_critic(tri_trainer *t, tri_learner *l) {
  const tri_learner *reward = &t->learner[TRI_REWARD_MODEL];
  const char        *path = l->path[0] ? l->path : reward->path;

  if (!tri_config_wants_critic(t->cfg)) return TRI_OK;
  if (t->run.resume[0]) {
    l->from = tri_part_group(TRI_PART_CRITIC);
    TRI_TRY(tri_source_open_part(t->run.resume, TRI_PART_CRITIC, NULL, true, &l->source));
  } else if (path[0]) {
    if (!l->path[0]) l->key = reward->key;
    TRI_TRY(tri_error_about(open_critic_of(path, l), l->key));
  } else {
    TRI_TRY(open_deck_model(t, true, &l->source));
  }
  TRI_TRY(tri_error_about(tri_source_add_head(l->source, t->cfg->run.seed), l->key));
  TRI_TRY(check_family(t, l));
  return check_vocabulary(t, l);
}

/* A run that goes on wants it where the deck says, as its data. */
static tri_status open_reward_model(tri_trainer *t, tri_learner *l) {
  if (!l->path[0]) return TRI_OK;
  TRI_TRY(tri_error_about(tri_source_open(l->path, NULL, true, &l->source), l->key));
  TRI_TRY(tri_error_about(tri_source_check_scored(l->source), l->key));
  return check_vocabulary(t, l);
}

/* The members that a role is born with; all else is zero. */
static const tri_learner roles[TRI_ROLE_COUNT] = {
    [TRI_POLICY] = {.name = "policy",
                    .key = "model.path",
                    .group = {"/model", "/optimizer/exp_avg", "/optimizer/exp_avg_sq", "/ema/model"},
                    .prefix = "",
                    .rate = offsetof(tri_config, train.lr.peak),
                    .head = TRI_HEAD_TOKENS,
                    .train = true,
                    .generates = true,
                    .loss_name = "loss",
                    .plan = offsetof(tri_config, shard.scope),
                    .open = open_policy,
                    .from = "/model"},
    /* Kept so that a resumed run needs the first model's folder no more. */
    [TRI_REFERENCE] = {.name = "reference",
                       .key = "model.ref_path",
                       .group = {"/reference"},
                       .prefix = "reference_",
                       .plan = offsetof(tri_config, reference.scope),
                       .head = TRI_HEAD_TOKENS,
                       .open = open_reference,
                       .from = "/model"},
    [TRI_CRITIC] = {.name = "critic",
                    .key = "critic.path",
                    .group = {"/critic/model", "/critic/optimizer/exp_avg", "/critic/optimizer/exp_avg_sq"},
                    .prefix = "critic_",
                    .rate = offsetof(tri_config, critic.learning_rate),
                    .plan = offsetof(tri_config, critic.scope),
                    .head = TRI_HEAD_SCALAR,
                    .train = true,
                    .loss = &tri_loss_value,
                    .loss_name = "value_loss",
                    .open = open_critic,
                    .from = "/model"},
    [TRI_REWARD_MODEL] = {.name = "reward model",
                          .key = "reward.path",
                          .prefix = "reward_",
                          .plan = offsetof(tri_config, shard.scope),
                          .head = TRI_HEAD_SCALAR,
                          .open = open_reward_model,
                          .from = "/model"}};

void tri_learner_begin(tri_trainer *t) {
  tri_learner *policy = &t->learner[TRI_POLICY];

  memcpy(t->learner, roles, sizeof t->learner);
  policy->loss = t->algo->loss;
  policy->rest_steps = t->cfg->critic.warmup_steps;
  if (policy->loss->reads & TRI_LOSS_VALUE) policy->head = TRI_HEAD_SCALAR;
}

tri_status tri_learner_open_sources(tri_trainer *t) {
  for (tri_learner *l = t->learner; l < t->learner + TRI_ROLE_COUNT; l++) {
    TRI_ASSERT(l->open && l->prefix);
    TRI_TRY(l->open(t, l));
    if (l->source && l->head == TRI_HEAD_TOKENS)
      TRI_TRY(tri_error_about(tri_source_check_tokens(l->source), l->key));
  }
  return TRI_OK;
}

/* Collective over world. What the path, of the deck's key, means. */
static tri_status resolve(tri_trainer *t, tri_learner *l, const char *path) {
  tri_status st = tri_error_about(tri_source_resolve(path, tri_world_of(t), l->path), l->key);

  return tri_error_note(st, t->run.faults);
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

int64_t tri_learner_size(const tri_learner *l) {
  const tri_params_opt *o = tri_params_options(tri_learner_params(l));
  int64_t               n = 0;

  for (int u = 0; u < o->n_unit; u++)
    for (int i = 0; i < o->unit[u].n_param; i++) n += tri_param_count(&o->unit[u].param[i]);
  return n;
}

void tri_learner_close(tri_learner *l) {
  tri_model_close(&l->model);
  tri_source_close(&l->source);
}
