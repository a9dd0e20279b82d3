/* batch_source.c - makes a step's sequences from data lines, which hold demonstrations, pairs or labelled
 * answers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "batch_source.h"

#include "base/file.h"
#include "base/log.h"
#include "base/notice.h"
#include "train.h"

#include <stdio.h>
#include <string.h>

/* ---- sequences of lines ---- */

/* n lines from position `begin` on. They lie in a range of neighbours, whose last line counts as the one
 * before its first. */
typedef struct lines {
  const tri_trainer *t;
  tri_dataset       *data;
  bool               shuffle;
  int64_t            begin, n;
  tri_eval_range     of; /* the neighbours */
} lines;

static const tri_example *line_at(const lines *l, int64_t k) {
  return tri_dataset_get(l->data, tri_dataset_at(l->data, l->t->cfg->run.seed, l->shuffle, l->begin + k));
}

/* Parts of a sequence, namely a prompt and an answer, possibly from another line. */
typedef struct parts {
  const tri_example *e;
  const int32_t     *answer;
  const uint8_t     *skip; /* [n_answer] nonzero for tokens without loss, or NULL if all have loss */
  int                n_answer;
} parts;

static parts chosen(const lines *l, int64_t k) {
  const tri_example *e = line_at(l, k);

  return (parts){e, e->token + e->n_prompt, e->skip ? e->skip + e->n_prompt : NULL, e->n_token - e->n_prompt};
}

static parts rejected(const lines *l, int64_t k) {
  const tri_example *e = line_at(l, k);

  return (parts){e, e->rejected + e->n_prompt, e->rejected_skip ? e->rejected_skip + e->n_prompt : NULL,
                 e->n_rejected - e->n_prompt};
}

/* Returns the prompt of line k with the answer of the line before it. The first line gets the last answer
 * (trl, kto_trainer.py). The answer is cut so that the sequence is no longer than the run's longest line, as
 * trl cuts at max_length. */
static parts mismatched(const lines *l, int64_t k) {
  int64_t before = l->begin + k > l->of.begin ? k - 1 : l->of.begin + l->of.n - 1 - l->begin;
  parts   p = chosen(l, before);
  int64_t space;

  p.e = line_at(l, k);
  space = l->t->plan.max_tokens - p.e->n_prompt;
  if (p.n_answer > space) p.n_answer = (int)space;
  return p;
}

/* Each returns sequence q of the lines. */
static parts demonstration_at(const lines *l, int q) { return chosen(l, q); }
static parts pair_at(const lines *l, int q) { return q % 2 ? rejected(l, q / 2) : chosen(l, q / 2); }
static parts labelled_at(const lines *l, int q) { return q < l->n ? chosen(l, q) : mismatched(l, q - l->n); }
static parts beside_at(const lines *l, int q) { return mismatched(l, q); }

/* Makes n sequences of the lines. */
static tri_status make(const lines *l, int n, parts (*at)(const lines *, int), tri_rollout *out) {
  const tri_batch_source *source = l->t->source;
  int64_t                 n_tok = 0;

  for (int q = 0; q < n; q++) {
    parts p = at(l, q);
    n_tok += p.e->n_prompt + p.n_answer;
  }
  TRI_TRY(tri_rollout_make(n, n_tok, source->together, 0, out));
  for (int q = 0; q < n; q++) {
    parts    p = at(l, q);
    int32_t *to = out->token + out->start[q];
    out->prompt_id[q] = p.e->id;
    out->place[q] = q / source->together;
    out->prompt_len[q] = p.e->n_prompt;
    out->reward[q] = p.e->value;
    out->start[q + 1] = out->start[q] + p.e->n_prompt + p.n_answer;
    memcpy(to, p.e->token, (size_t)p.e->n_prompt * sizeof *to);
    memcpy(to + p.e->n_prompt, p.answer, (size_t)p.n_answer * sizeof *to);
    TRI_ASSERT(!p.skip || out->mark);
    for (int i = 0; p.skip && i < p.n_answer; i++)
      if (p.skip[i]) out->mark[out->start[q] + p.e->n_prompt + i] = TRI_MARK_GIVEN;
  }
  return TRI_OK;
}

tri_status tri_batch_source_held_out(tri_trainer *t, const tri_eval_range *set, const tri_eval_range *piece,
                                     bool beside, tri_rollout *out) {
  lines l = {t, t->eval.lines, false, piece->begin, piece->n, *set};
  parts (*at)(const lines *, int) = beside ? beside_at : t->source->together > 1 ? pair_at : demonstration_at;

  out->store = &t->whole;
  return tri_agree(tri_world_of(t), make(&l, (int)piece->n * t->source->together, at, out));
}

int64_t tri_batch_source_held_out_tokens(const tri_trainer *t, int64_t position, int which) {
  lines   l = {t, t->eval.lines, false, position, 1, {position, 1}};
  parts   p = which ? rejected(&l, 0) : chosen(&l, 0);
  int64_t n = 0;

  for (int i = p.e->n_prompt ? 0 : 1; i < p.n_answer; i++) n += !(p.skip && p.skip[i]);
  return n;
}

static tri_status next(tri_trainer *t, int64_t step, tri_rollout *out, int64_t *lines_taken) {
  const tri_batch_source *source = t->source;
  int64_t                 begin = t->progress.cursor, n = t->plan.samples;
  lines                   l = {t, t->data, t->cfg->data.shuffle, begin, n, {begin, n}};
  parts (*at)(const lines *, int) = source->beside         ? labelled_at
                                    : source->together > 1 ? pair_at
                                                           : demonstration_at;

  (void)step; /* the cursor chooses the lines */
  *lines_taken = n;
  out->store = &t->whole;
  return tri_agree(tri_world_of(t), make(&l, (int)n * source->together * (source->beside ? 2 : 1), at, out));
}

/* ---- lengths ---- */

static tri_status measure(tri_trainer *t, tri_longest *l) {
  l->learn = tri_dataset_stats(t->data)->longest;
  tri_batch_source_measure_held_out(t, l);
  return TRI_OK;
}

static void warn_one_label(const tri_trainer *t) {
  int64_t n = tri_dataset_count(t->data), good = 0;

  if (!tri_dataset_stats(t->data)->n_line) return;
  for (int64_t i = 0; i < n; i++) good += tri_dataset_get(t->data, i)->value != 0;
  if (tri_world_of(t)->rank == 0 && (good == 0 || good == n))
    tri_warn("one_label", "data.train: every label is %s, but %s needs answers of both kinds",
             good ? "true" : "false", t->algo->name);
}

/* Returns the most tokens of a line, which is the least context of this run's models, or data.max_length. */
static int64_t most_of_a_line(const tri_trainer *t) {
  int64_t n = t->cfg->data.max_length ? t->cfg->data.max_length : INT64_MAX;

  for (const tri_learner *m = t->learner; m < t->learner + TRI_ROLE_COUNT; m++)
    if (m->source && tri_source_shape(m->source)->max_pos < n) n = tri_source_shape(m->source)->max_pos;
  return n;
}

/* Allows for any prompt of a data set with any of its answers, up to the longest line. */
static void measure_pairs(const tri_dataset *d, int64_t most, tri_longest *l) {
  const tri_data_stats *s = tri_dataset_stats(d);
  int64_t               n = (int64_t)s->longest_prompt + s->longest_answer;

  if (n > most) n = most;
  if (n > l->learn) l->learn = n;
}

void tri_batch_source_measure_held_out(const tri_trainer *t, tri_longest *l) {
  if (!t->eval.lines) return;
  if (tri_dataset_stats(t->eval.lines)->longest > l->learn)
    l->learn = tri_dataset_stats(t->eval.lines)->longest;
  if (t->source->beside) measure_pairs(t->eval.lines, most_of_a_line(t), l);
}

static tri_status measure_labelled(tri_trainer *t, tri_longest *l) {
  if (t->plan.samples < 2)
    TRI_FAIL(TRI_ECONFIG,
             "train.train_batch_size = %lld: %s compares each answer with another line's answer and needs at "
             "least 2",
             (long long)t->plan.samples, t->algo->name);
  warn_one_label(t);
  TRI_TRY(measure(t, l));
  measure_pairs(t->data, most_of_a_line(t), l);
  return TRI_OK;
}

/* ---- missing lines ---- */

enum { EVAL_ASSUMED = 1024 }; /* chosen. Lines of an evaluation whose files nobody could count */

/* A length, and the key or context that sets it. */
typedef struct limit {
  int64_t n; /* tokens */
  char    from[128];
} limit;

static void lower(limit *l, int64_t n, const char *from) {
  if (n < l->n) l->n = n, snprintf(l->from, sizeof l->from, "%s", from);
}

/* Returns the longest sequence that all models can read and one pass can hold. */
static limit longest_sequence(const tri_trainer *t) {
  int64_t pass = t->cfg->train.max_tokens_per_gpu / t->source->together;
  limit   l = {INT64_MAX, ""};
  char    from[64];

  for (const tri_learner *m = t->learner; m < t->learner + TRI_ROLE_COUNT; m++) {
    if (!m->source) continue;
    snprintf(from, sizeof from, "the %s's context", m->name);
    lower(&l, tri_source_shape(m->source)->max_pos, from);
  }
  if (pass)
    lower(&l, pass,
          t->source->together > 1 ? "half of train.max_tokens_per_gpu" : "train.max_tokens_per_gpu");
  return l;
}

/* Returns the longest prompt that leaves space for its answer, or the deck's limit if lower. */
static limit longest_prompt(const tri_trainer *t) {
  limit l = longest_sequence(t);

  l.n -= t->cfg->rollout.max_response_length;
  snprintf(l.from + strlen(l.from), sizeof l.from - strlen(l.from), " less rollout.max_response_length");
  if (t->cfg->data.max_prompt_length) lower(&l, t->cfg->data.max_prompt_length, "data.max_prompt_length");
  return l;
}

tri_status tri_assume_lines(const tri_trainer *t, const tri_config_list *files, tri_data_kind kind,
                            tri_dataset **out) {
  const tri_config *c = t->cfg;
  bool              prompts = tri_data_is_prompts(kind), train = files == &c->data.train;
  limit             l = prompts ? longest_prompt(t) : longest_sequence(t);
  int64_t           n = train ? 1 : c->eval.max_prompts ? c->eval.max_prompts : EVAL_ASSUMED;
  int               missing = 0;
  char              cure[TRI_TOKENIZER_CURE_BYTES];

  if (!prompts && c->data.max_length) lower(&l, c->data.max_length, "data.max_length");
  if (!train && c->data.eval_names.n) n *= c->data.eval_names.n; /* for each set */
  while (missing < files->n && tri_file_exists(files->item[missing])) missing++;
  if (l.n < 1) TRI_FAIL(TRI_ECONFIG, "%s is %lld tokens, so no prompt fits", l.from, (long long)l.n);
  tri_log_narrow(TRI_LOG_INFO, "%s: %s. The plan assumes the longest %s allowed, %lld tokens (%s).",
                 files->item[missing < files->n ? missing : 0],
                 missing < files->n ? "the file does not exist"
                                    : "its lines are text, and the model's tokenizer.json is missing",
                 prompts ? "prompts" : "lines", (long long)l.n, l.from);
  if (train && missing == files->n)
    tri_log_narrow(TRI_LOG_INFO, "  %s",
                   c->model.config
                       ? "Give model.tokenizer."
                       : tri_tokenizer_cure(tri_source_name(t->learner[TRI_POLICY].source), cure));
  if (train && !c->train.steps)
    tri_log_narrow(
        TRI_LOG_INFO,
        "train.epochs = %lld: the number of steps depends on the lines. Give train.steps=N to plan N steps.",
        (long long)c->train.epochs);
  return tri_dataset_assume(kind, n, (int)l.n, out);
}

const tri_batch_source tri_batch_source_data = {.together = 1, .measure = measure, .next = next};
const tri_batch_source tri_batch_source_pairs = {.together = 2, .measure = measure, .next = next};
const tri_batch_source tri_batch_source_labelled = {
    .together = 1, .beside = true, .measure = measure_labelled, .next = next};
