/* test_config_algo.c - algorithms in a deck, for each row of their table. Judges: exact values, GRPO's
 * deck. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "config_case.h"
#include "config/config_keys.h"
#include "refusal_case.h"

#include <ctype.h>
#include <stdlib.h>

static bool is_key(const char *name) {
  for (int i = 0; i < tri_n_keys; i++)
    if (!strcmp(tri_keys[i].name, name)) return true;
  return false;
}

static bool lists(const char *const *option, const char *key) {
  for (; *option; option++)
    if (!strcmp(*option, key)) return true;
  return false;
}

/* Losses and advantages that no word of a key names. */
static const tri_loss *const      other_losses[] = {&tri_loss_sft, &tri_loss_rm,    &tri_loss_dpo,
                                                    &tri_loss_kto, &tri_loss_value, NULL};
static const tri_advantage *const other_advantages[] = {&tri_advantage_gae, &tri_advantage_greedy, NULL};

/* Returns the i-th list of options of all advantages and losses, NULL past the last. */
static const char *const *options_at(int i) {
  for (int a = 0; tri_advantage_at(a); a++)
    if (i-- == 0) return tri_advantage_at(a)->option;
  for (int a = 0; other_advantages[a]; a++)
    if (i-- == 0) return other_advantages[a]->option;
  for (int a = 0; tri_policy_loss_at(a); a++)
    if (i-- == 0) return tri_policy_loss_at(a)->option;
  for (int a = 0; other_losses[a]; a++)
    if (i-- == 0) return other_losses[a]->option;
  return NULL;
}

/* Options of advantages and losses are keys, and some of them read each key of this kind. */
static void test_options(void **state) {
  (void)state;
  for (int i = 0; i < tri_n_keys; i++) {
    bool read = !(tri_keys[i].needs & TRI_KEY_BY_ALGO);
    for (int a = 0; options_at(a); a++) read |= lists(options_at(a), tri_keys[i].name);
    if (!read) fail_msg("no advantage and no loss has %s in its list of options", tri_keys[i].name);
  }
  for (int a = 0; options_at(a); a++)
    for (int k = 0; options_at(a)[k]; k++) assert_true(is_key(options_at(a)[k]));
  for (int a = 0; tri_algo_at(a); a++)
    for (const tri_algo_default *d = tri_algo_at(a)->set; d && d->key; d++) assert_true(is_key(d->key));
}

static bool reads(const tri_algo *a, const tri_key *k) {
  if (k->needs & TRI_KEY_BY_ALGO) return tri_algo_reads(a, k->name);
  return !k->needs || (k->needs & a->needs);
}

static const tri_key *key_of(const char *name) {
  for (int i = 0; i < tri_n_keys; i++)
    if (!strcmp(tri_keys[i].name, name)) return &tri_keys[i];
  fail_msg("there is no key %s", name);
  return NULL;
}

/* Returns a deck of the algorithm with the required keys. */
static const char *deck_of(const tri_algo *a) { return a->needs & TRI_NEEDS_ANSWERS ? GRPO : SFT; }

/* Returns "algo.name=NAME", valid until the next call. */
static const char *named(const tri_algo *a) {
  static char text[64];

  snprintf(text, sizeof text, "algo.name=%s", a->name);
  return text;
}

/* Without options in the deck, each algorithm sees its own defaults, else those of the table. This includes
 * options it does not read. Its deck must not give these. */
static void test_defaults_of_all(void **state) {
  tri_config grpo = good(GRPO, NULL);

  (void)state;
  for (int a = 0; tri_algo_at(a); a++) {
    const tri_algo *algo = tri_algo_at(a);
    tri_config      c = good(deck_of(algo), ARGS(named(algo)));
    assert_string_equal(c.algo.row.name, algo->name);
    assert_ptr_equal(c.algo.row.loss, algo->loss);
    assert_ptr_equal(c.algo.row.advantage, algo->advantage);
    for (int i = 0; i < tri_n_keys; i++) {
      const tri_key *k = &tri_keys[i];
      if (strncmp(k->name, "algo.", 5) != 0 || k->type == TRI_KEY_TEXT || tri_algo_sets(algo, k->name))
        continue;
      if (!strcmp(k->name, "algo.clip_eps_high")) continue; /* follows clip_eps */
      same_value(k->type, (const char *)&c + k->offset, (const char *)&grpo + k->offset);
    }
    tri_config_free(&c);
  }
  tri_config_free(&grpo);
}

/* beta means algo.beta to algorithms with that key, and algo.kl_coef to others with a KL term. */
static bool is_taken(const tri_algo *a, const tri_key *k) {
  return reads(a, k) || (!strcmp(k->name, "algo.beta") && reads(a, key_of("algo.kl_coef")));
}

/* Every unread option is refused, even at its default, and every read one is accepted. */
static void test_listed(void **state) {
  (void)state;
  for (int a = 0; tri_algo_at(a); a++)
    for (int i = 0; i < tri_n_keys; i++) {
      const tri_algo *algo = tri_algo_at(a);
      const tri_key  *k = &tri_keys[i];
      char            arg[128], name[64], message[512];
      if (strncmp(k->name, "algo.", 5) != 0 || !k->def) continue;
      snprintf(arg, sizeof arg, "%s=%s", k->name, k->def);
      snprintf(name, sizeof name, "%s", named(algo));
      snprintf(message, sizeof message, "refuse_one() %s %s algo.name %s", arg, k->name, algo->name);
      if (is_taken(algo, k)) {
        tri_config c = good(deck_of(algo), ARGS(name, arg));
        tri_config_free(&c);
      } else {
        bad(deck_of(algo), ARGS(name, arg), message);
      }
    }
}

/* model.ref_path is for the KL term. An algorithm without one has no use for it, and neither has GRPO with
 * kl_coef 0. */
static void test_reference_policy(void **state) {
  (void)state;
  bad(GRPO, ARGS("model.ref_path=r"),
      "check_reference() model.ref_path=r model.ref_path algo.kl_coef 0 kl_coef");
  for (int a = 0; tri_algo_at(a); a++) {
    char name[64], message[256];
    if (reads(tri_algo_at(a), key_of("algo.kl_coef"))) continue;
    if (tri_algo_at(a)->loss->reads & TRI_LOSS_REFERENCE) continue;
    snprintf(name, sizeof name, "%s", named(tri_algo_at(a)));
    snprintf(message, sizeof message, "refuse_one() model.ref_path=r model.ref_path algo.name %s",
             tri_algo_at(a)->name);
    bad(deck_of(tri_algo_at(a)), ARGS(name, "model.ref_path=r"), message);
  }
}

/* Names in any capitals are read, with a note. The error for an unknown name lists all names. */
static void test_names(void **state) {
  char message[1024];

  (void)state;
  for (int a = 0; tri_algo_at(a); a++)
    for (int all = 0; all < 2; all++) {
      const tri_algo *algo = tri_algo_at(a);
      char            name[32], arg[64], note[256];
      tri_text        notes = {0};
      tri_config      c;
      snprintf(name, sizeof name, "%s", algo->name);
      for (int i = 0; name[i] && (all || !i); i++) name[i] = (char)toupper((unsigned char)name[i]);
      snprintf(arg, sizeof arg, "algo.name=%s", name);
      snprintf(note, sizeof note, "%s %s algo.name %s\n", arg, name, algo->name);
      if (load(deck_of(algo), &c, &notes, ARGS(arg)) != TRI_OK) fail_msg("%s", tri_error_message());
      assert_string_equal(c.algo.row.name, algo->name);
      assert_string_equal(c.algo.name, algo->name);
      expect_lines(notes.data, note);
      tri_text_free(&notes);
      tri_config_free(&c);
    }
  snprintf(message, sizeof message, "refuse_name() algo.name=grpp algo.name grpo %s", known_algos());
  bad(SFT, ARGS("algo.name=grpp"), message);
  snprintf(message, sizeof message, "refuse_name() algo.name=gpro algo.name grpo %s", known_algos());
  bad(SFT, ARGS("algo.name=gpro"), message);
  snprintf(message, sizeof message, "refuse_name() algo.name=+-* algo.name %s", known_algos());
  bad(GRPO, ARGS("algo.name=+-*"), message);
  snprintf(message, sizeof message, "check_algo() d.yaml algo.name %s", known_algos());
  bad(SFT, ARGS("algo.name=null"), message);
}

/* The keys set by each preset, as in the interface and in other programs. */
static void test_presets(void **state) {
  tri_config c = good(GRPO, ARGS("algo.name=dr_grpo"));

  (void)state;
  assert_true(c.algo.opt.scale_rewards == TRI_SCALE_NONE &&
              c.algo.opt.loss_agg_mode == TRI_SEQ_MEAN_TOKEN_SUM_NORM);
  tri_config_free(&c);
  c = good(GRPO, ARGS("algo.name=dapo"));
  assert_true(c.algo.opt.clip_eps == 0.2 && c.algo.opt.clip_eps_high == 0.28 && c.rollout.dynamic_sampling &&
              c.algo.opt.loss_agg_mode == TRI_TOKEN_MEAN && c.algo.num_generations == 8);
  tri_config_free(&c);
  c = good(GRPO, ARGS("algo.name=dapo", "rollout.dynamic_sampling=false"));
  assert_true(!c.rollout.dynamic_sampling);
  tri_config_free(&c);
  c = good(GRPO, ARGS("algo.name=reinforce++"));
  assert_true(c.algo.num_generations == 1 && c.algo.opt.whiten_advantages &&
              c.algo.opt.kl_where == TRI_KL_IN_REWARD && c.algo.opt.gamma == 1);
  tri_config_free(&c);
  c = good(GRPO, ARGS("algo.name=reinforce++-baseline"));
  assert_true(c.algo.num_generations == 8 && c.algo.opt.whiten_advantages &&
              c.algo.opt.kl_where == TRI_KL_IN_LOSS);
  tri_config_free(&c);
  c = good(GRPO, ARGS("algo.name=remax"));
  assert_true(c.algo.num_generations == 1 && !c.algo.opt.whiten_advantages && c.algo.opt.clip_eps == 0.2);
  tri_config_free(&c);
  bad(GRPO, ARGS("algo.name=remax", "rollout.replay=r"),
      "check_greedy() rollout.replay=r rollout.replay greedy algo.advantage");
  c = good(GRPO, ARGS("algo.name=gspo"));
  assert_true(c.algo.opt.clip_eps == 3e-4 && c.algo.opt.clip_eps_high == 4e-4 &&
              c.algo.opt.loss_agg_mode == TRI_SEQ_MEAN_TOKEN_MEAN);
  tri_config_free(&c);
  c = good(GRPO, ARGS("algo.name=cispo"));
  assert_true(c.algo.opt.clip_eps_high == 5);
  tri_config_free(&c);
  c = good(GRPO, ARGS("algo.name=sapo"));
  assert_true(c.algo.opt.loss_agg_mode == TRI_SEQ_MEAN_TOKEN_MEAN && c.algo.opt.sapo_temperature_pos == 1 &&
              c.algo.opt.sapo_temperature_neg == 1.05);
  tri_config_free(&c);
  c = good(GRPO, ARGS("algo.name=vespo"));
  assert_true(c.algo.opt.vespo_k_pos == 2 && c.algo.opt.vespo_lambda_pos == 3 &&
              c.algo.opt.vespo_k_neg == 3 && c.algo.opt.vespo_lambda_neg == 2 &&
              c.algo.opt.loss_agg_mode == TRI_TOKEN_MEAN);
  tri_config_free(&c);
  c = good(GRPO, ARGS("algo.name=luspo"));
  assert_true(c.algo.opt.clip_eps == 0.2 && c.algo.opt.clip_eps_high == 0.2);
  tri_config_free(&c);
  c = good(GRPO, ARGS("algo.name=rloo"));
  assert_true(c.algo.num_generations == 8 && c.algo.opt.kl_coef == 0 && !c.algo.opt.whiten_advantages);
  tri_config_free(&c);
}

/* A loss brings its own defaults, whatever the algorithm. If another loss replaces it, they no longer apply.
 * A lower clip given alone is the upper clip too. */
static void test_defaults_of_losses(void **state) {
  tri_config c = good(GRPO, ARGS("algo.policy_loss=cispo"));

  (void)state;
  assert_true(c.algo.opt.clip_eps_high == 5);
  tri_config_free(&c);
  c = good(GRPO, ARGS("algo.name=gspo", "algo.policy_loss=clip"));
  assert_true(c.algo.opt.clip_eps == 0.2 && c.algo.opt.clip_eps_high == 0.2 &&
              c.algo.opt.loss_agg_mode == TRI_TOKEN_MEAN);
  tri_config_free(&c);
  c = good(GRPO, ARGS("algo.name=dr_grpo", "algo.policy_loss=sequence"));
  assert_true(c.algo.opt.clip_eps_high == 4e-4 && c.algo.opt.loss_agg_mode == TRI_SEQ_MEAN_TOKEN_SUM_NORM);
  tri_config_free(&c);
  c = good(GRPO, ARGS("algo.name=dapo", "algo.policy_loss=cispo")); /* its key is the cap itself */
  assert_true(c.algo.opt.clip_eps_high == 5);
  tri_config_free(&c);
  c = good(GRPO, ARGS("algo.name=dapo", "algo.policy_loss=sequence"));
  assert_true(c.algo.opt.clip_eps == 3e-4 && c.algo.opt.clip_eps_high == 4e-4);
  tri_config_free(&c);
  c = good(GRPO, ARGS("algo.name=dapo", "algo.policy_loss=luspo")); /* sets no bounds */
  assert_true(c.algo.opt.clip_eps == 0.2 && c.algo.opt.clip_eps_high == 0.28);
  tri_config_free(&c);
  c = good(GRPO, ARGS("algo.name=gspo", "algo.clip_eps=0.1"));
  assert_true(c.algo.opt.clip_eps == 0.1 && c.algo.opt.clip_eps_high == 0.1);
  tri_config_free(&c);
  c = good(GRPO, ARGS("algo.name=gspo", "algo.clip_eps=0.1", "algo.clip_eps_high=0.3"));
  assert_true(c.algo.opt.clip_eps == 0.1 && c.algo.opt.clip_eps_high == 0.3);
  tri_config_free(&c);
}

/* The deck as used of every algorithm loads again without a note and gives the same values. */
static void test_as_used_again(void **state) {
  (void)state;
  for (int a = 0; tri_algo_at(a); a++) {
    tri_text   first = {0}, second = {0}, notes = {0};
    tri_config c = good(deck_of(tri_algo_at(a)), ARGS(named(tri_algo_at(a))));
    assert_int_equal(tri_config_print(&c, &first), TRI_OK);
    tri_config_free(&c);
    if (load(first.data, &c, &notes, NULL) != TRI_OK) fail_msg("%s", tri_error_message());
    if (notes.len) fail_msg("%s: %s", tri_algo_at(a)->name, notes.data);
    assert_int_equal(tri_config_print(&c, &second), TRI_OK);
    assert_string_equal(first.data, second.data);
    tri_config_free(&c);
    tri_text_free(&first);
    tri_text_free(&second);
    tri_text_free(&notes);
  }
}

/* TRL chooses these losses by loss_type, and verl calls a ratio per sequence gspo. Names of other programs
 * count in any capitals. */
static void test_words_of_others(void **state) {
  tri_config c = good(GRPO, ARGS("algo.policy_loss=gspo"));

  (void)state;
  assert_ptr_equal(c.algo.row.loss, &tri_loss_sequence);
  tri_config_free(&c);
  c = good(GRPO, ARGS("adv_estimator=REINFORCE_plus_plus"));
  assert_string_equal(c.algo.name, "reinforce++");
  tri_config_free(&c);
  c = good(GRPO, ARGS("gae_gamma=0.5", "algo.advantage=return"));
  assert_true(c.algo.opt.gamma == 0.5);
  tri_config_free(&c);
  assert_int_equal(load(GRPO, &c, NULL, ARGS("loss_type=cispo")), TRI_ECONFIG);
  expect_refusal("refuse_value() loss_type=cispo cispo algo.name");
  tri_config_free(&c);
}

/* The error for a word missing from the key's table. */
static const char *not_one_of(const char *key, const char *word, const char *end) {
  static char    text[1024];
  const tri_key *k = key_of(key);
  int            n = snprintf(text, sizeof text, "refuse_name() %s=%s %s %s", key, word, key, word);

  for (int i = 0; tri_key_named(k, i); i++)
    n += snprintf(text + n, sizeof text - (size_t)n, "%s %s", i ? "," : "", tri_key_named(k, i));
  snprintf(text + n, sizeof text - (size_t)n, "%s", end);
  return text;
}

/* The deck's own advantage and loss replace the algorithm's, with their options and bounds. The deck as used
 * names them. */
static void test_parts(void **state) {
  tri_config c = good(GRPO, ARGS("algo.name=rloo", "algo.policy_loss=sequence", "algo.advantage=return"));
  tri_text   deck = {0};

  (void)state;
  assert_ptr_equal(c.algo.row.loss, &tri_loss_sequence);
  assert_ptr_equal(c.algo.row.advantage, &tri_advantage_return);
  assert_int_equal(tri_config_print(&c, &deck), TRI_OK);
  assert_non_null(
      strstr(deck.data, "  name: \"rloo\"\n  advantage: \"return\"\n  policy_loss: \"sequence\"\n"));
  assert_non_null(strstr(deck.data, "  gamma: 1\n"));
  assert_non_null(strstr(deck.data, "  scale_rewards: null\n"));
  tri_text_free(&deck);
  tri_config_free(&c);
  bad(GRPO, ARGS("algo.advantage=returns"), not_one_of("algo.advantage", "returns", " return"));
  bad(GRPO, ARGS("algo.policy_loss=sft"), not_one_of("algo.policy_loss", "sft", ""));
  bad(SFT, ARGS("algo.advantage=group"), "refuse_one() algo.advantage=group algo.advantage algo.name sft");
  bad(GRPO, ARGS("algo.advantage=return", "algo.scale_rewards=none"),
      "refuse_one() algo.scale_rewards=none algo.scale_rewards algo.advantage return");
  bad(GRPO, ARGS("algo.policy_loss=sapo", "algo.clip_eps=0.1"),
      "refuse_one() algo.clip_eps=0.1 algo.clip_eps algo.policy_loss sapo");
  bad(GRPO, ARGS("algo.dual_clip=0.5"), "check_dual_clip() algo.dual_clip=0.5 algo.dual_clip 0.5 1 0");
}

/* A group too small for the advantage is refused, at the place of the key or, for a default, of the deck. */
static void test_least_group(void **state) {
  (void)state;
  bad(GRPO, ARGS("algo.name=reinforce++", "algo.advantage=group"),
      "check_group() d.yaml algo.num_generations 1 algo.advantage group 2");
  bad(GRPO "  num_generations: 1\n", NULL,
      "check_group() d.yaml:16 algo.num_generations 1 algo.advantage group 2");
  tri_config c = good(GRPO, ARGS("algo.advantage=return", "algo.num_generations=1"));
  tri_config_free(&c);
}

static void note(const char *arg, const char *want) {
  tri_text   notes = {0};
  tri_config c;

  if (load(GRPO, &c, &notes, ARGS(arg)) != TRI_OK) fail_msg("%s", tri_error_message());
  assert_non_null(notes.data);
  expect_lines(notes.data, want);
  tri_text_free(&notes);
  tri_config_free(&c);
}

/* Corrections and masks of a policy loss are off by default. A contradiction with other keys is refused.
 * Without their prerequisites they have no effect. */
static void test_corrections(void **state) {
  tri_config c = good(GRPO, NULL);

  (void)state;
  assert_true(c.algo.opt.top_entropy_quantile == 1 && c.algo.opt.is_cap == 0 && !c.algo.opt.mask_truncated &&
              !c.algo.opt.kl_bias_correction);
  tri_config_free(&c);
  c = good(GRPO, ARGS("algo.is_cap=2", "algo.is_mode=mask", "run.sampler=rescore"));
  assert_true(c.algo.opt.is_cap == 2 && c.algo.opt.is_mode == TRI_IS_MASK);
  tri_config_free(&c);
  bad(GRPO, ARGS("algo.is_cap=2"), "check_is_cap() algo.is_cap=2 algo.is_cap 2 run.sampler");
  bad(GRPO, ARGS("algo.kl_bias_correction=true", "algo.kl_coef=0.1", "algo.kl_where=reward"),
      "check_kl_correction() algo.kl_bias_correction=true algo.kl_bias_correction KL algo.kl_where");
  note("algo.kl_bias_correction=true",
       "algo.kl_bias_correction=true algo.kl_bias_correction algo.kl_coef 0\n");
  note("algo.is_mode=mask", "algo.is_mode=mask algo.is_mode algo.is_cap 0\n");
}

/* An adaptive coefficient needs a start value, and a horizon that leaves some of it. */
static void test_adaptive(void **state) {
  tri_config c =
      good(GRPO, ARGS("algo.kl_coef=0.1", "algo.kl_target=0.5", "algo.adaptive_entropy_target=0.2"));

  (void)state;
  assert_true(c.algo.opt.kl_target == 0.5 && c.algo.opt.kl_horizon == 10000 &&
              c.algo.opt.adaptive_entropy_target == 0.2);
  tri_config_free(&c);
  bad(GRPO, ARGS("algo.kl_target=0.5"), "check_kl_target() algo.kl_target=0.5 algo.kl_target algo.kl_coef 0");
  bad(GRPO,
      ARGS("algo.kl_coef=0.1", "algo.kl_target=0.5", "algo.kl_horizon=2", "algo.num_generations=5",
           "rollout.rollout_batch_size=2"),
      "check_kl_target() algo.kl_horizon=2 algo.kl_horizon 2 10 algo.kl_coef");
  note("algo.kl_horizon=5", "algo.kl_horizon=5 algo.kl_horizon algo.kl_target\n");
}

/* The reference deck has the line "key: default" for each key, or "key: null" if GRPO must not give the
 * key. */
static void test_reference_gives(void **state) {
  tri_text t = {0}, line = {0};

  (void)state;
  assert_int_equal(tri_config_reference(&t), TRI_OK);
  for (int i = 0; i < tri_n_keys; i++) {
    const tri_key *k = &tri_keys[i];
    if (strncmp(k->name, "algo.", 5) != 0 || !strcmp(k->name, "algo.name")) continue;
    line.len = 0;
    assert_int_equal(tri_text_printf(&line, "\n  %s: %s\n", k->name + 5,
                                     k->def && reads(tri_algo_find("grpo"), k) ? k->def : "null"),
                     TRI_OK);
    if (!strstr(t.data, line.data)) fail_msg("the reference deck has no line '%s'", line.data + 1);
  }
  assert_non_null(strstr(t.data, "\n  completion_key: null\n"));
  tri_text_free(&line);
  tri_text_free(&t);
}

/* For ipo, log-ratios are divided by the length unless the deck says otherwise. Smoothed labels have no use
 * there. */
static void test_ipo(void **state) {
  (void)state;
  for (int a = 0; tri_algo_at(a); a++) {
    const char *deck = deck_of(tri_algo_at(a));
    char        name[64];
    if (!reads(tri_algo_at(a), key_of("algo.dpo_loss"))) continue;
    snprintf(name, sizeof name, "%s", named(tri_algo_at(a)));
    for (int k = 0; k < 4; k++) {
      tri_config c =
          k < 2 ? good(deck, ARGS(name, k ? "loss_type=ipo" : "algo.label_smoothing=0.1"))
                : good(deck, ARGS(name, k == 2 ? "algo.dpo_loss=ipo" : "algo.dpo_loss=sigmoid",
                                  k == 2 ? "algo.length_normalize=false" : "algo.length_normalize=true"));
      assert_true(c.algo.opt.length_normalize == k % 2);
      tri_config_free(&c);
    }
    bad(deck, ARGS(name, "algo.dpo_loss=ipo", "algo.label_smoothing=0.1"),
        "check_label_smoothing() algo.label_smoothing=0.1 algo.label_smoothing algo.dpo_loss");
  }
}

/* True if the text holds the name of each policy loss and advantage with this option, at least one. */
static bool names_parts(const tri_key *k, const char *text) {
  int n = 0;

  for (int i = 0; tri_policy_loss_at(i); i++)
    if (lists(tri_policy_loss_at(i)->option, k->name) && (!strstr(text, tri_policy_loss_at(i)->name) || !++n))
      return false;
  for (int i = 0; tri_advantage_at(i); i++)
    if (lists(tri_advantage_at(i)->option, k->name) && (!strstr(text, tri_advantage_at(i)->name) || !++n))
      return false;
  return n > 0;
}

/* A refusal names the losses and advantages that read the key, or else the algorithms. */
static void test_refusal_says_whose(void **state) {
  (void)state;
  bad(GRPO, ARGS("algo.vespo_k_pos=2"),
      "refuse_one() algo.vespo_k_pos=2 algo.name grpo algo.policy_loss vespo");
  bad(GRPO, ARGS("algo.lam=1"), "refuse_one() algo.lam=1 algo.name grpo algo.advantage gae");
  bad(GRPO, ARGS("algo.policy_loss=sapo", "algo.clip_eps=0.1"),
      "refuse_one() algo.clip_eps=0.1 sapo algo.policy_loss clip sequence luspo");
  bad(GRPO, ARGS("algo.dpo_loss=ipo"), "refuse_one() algo.dpo_loss=ipo algo.name grpo dpo");
}

/* --options names the algorithms of a key unless all read it, or the losses and advantages of a key that no
 * algorithm reads. */
static void test_help_says_whose(void **state) {
  tri_text help = {0};

  (void)state;
  assert_int_equal(tri_config_help(&help), TRI_OK);
  for (int i = 0; i < tri_n_keys; i++) {
    char name[80], line[512];
    bool all = true, none = true;
    if (strncmp(tri_keys[i].name, "algo.", 5) != 0 || !strcmp(tri_keys[i].name, "algo.name")) continue;
    for (int a = 0; tri_algo_at(a); a++) {
      all = all && reads(tri_algo_at(a), &tri_keys[i]);
      none = none && !reads(tri_algo_at(a), &tri_keys[i]);
    }
    snprintf(name, sizeof name, "  %s: ", tri_keys[i].name);
    const char *at = strstr(help.data, name);
    assert_non_null(at);
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    assert_true(all == (!strstr(line, "; only ") && !strstr(line, "; not ")));
    if (none && !names_parts(&tri_keys[i], line)) fail_msg("no part of an algorithm is named in%s", line);
  }
  tri_text_free(&help);
}

/* Judge: the default rates of TRL and OpenRLHF for each, as in the interface. */
static void test_rates(void **state) {
  static const struct {
    const char *name;
    double      all, lora;
  } row[] = {{"sft", 2e-5, 1e-4}, {"rm", 1e-5, 1e-4}, {"dpo", 5e-7, 5e-6}, {"kto", 5e-7, 5e-6}};

  (void)state;
  for (int a = 0; tri_algo_at(a); a++) {
    const tri_algo *p = tri_algo_at(a);
    bool            answers = p->needs & TRI_NEEDS_ANSWERS;
    double          all = 1e-6, lora = 1e-4;
    char            arg[64];
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
      if (!strcmp(row[i].name, p->name)) all = row[i].all, lora = row[i].lora;
    snprintf(arg, sizeof arg, "algo.name=%s", p->name);
    for (int with = 0; with < 2; with++) {
      tri_config c = good(answers ? GRPO : SFT, ARGS(arg, with ? "lora.rank=4" : "lora.rank=0"));
      if (c.train.lr.peak != (with ? lora : all)) fail_msg("%s: %g", p->name, c.train.lr.peak);
      assert_true(c.train.rate_is_default);
      tri_config_free(&c);
      c = good(answers ? GRPO : SFT, ARGS(arg, "lora.path=peft", "train.learning_rate=3e-4"));
      assert_true(c.train.lr.peak == 3e-4 && !c.train.rate_is_default);
      tri_config_free(&c);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_options),
                                     cmocka_unit_test(test_ipo),
                                     cmocka_unit_test(test_help_says_whose),
                                     cmocka_unit_test(test_refusal_says_whose),
                                     cmocka_unit_test(test_defaults_of_all),
                                     cmocka_unit_test(test_listed),
                                     cmocka_unit_test(test_names),
                                     cmocka_unit_test(test_reference_policy),
                                     cmocka_unit_test(test_reference_gives),
                                     cmocka_unit_test(test_presets),
                                     cmocka_unit_test(test_parts),
                                     cmocka_unit_test(test_least_group),
                                     cmocka_unit_test(test_corrections),
                                     cmocka_unit_test(test_adaptive),
                                     cmocka_unit_test(test_defaults_of_losses),
                                     cmocka_unit_test(test_as_used_again),
                                     cmocka_unit_test(test_words_of_others),
                                     cmocka_unit_test(test_rates)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
