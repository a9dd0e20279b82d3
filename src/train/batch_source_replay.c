/* batch_source_replay.c - reads a step's sequences from a saved rollout. Every rank reads all of them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "batch_source.h"

#include "base/hash.h"
#include "io/data/rollout_file.h"
#include "train.h"

#include <math.h>
#include <string.h>

/* Inputs for rewarding a replay without rewards. */
typedef struct unjudged {
  const tri_example **example; /* [groups] the line of data.train answered by each group */
  float              *brought; /* [n_seq] rewards in the file, or NaN */
} unjudged;

static tri_status find_examples(const tri_trainer *t, int64_t step, const tri_rollout *r, unjudged *u) {
  TRI_TRY(TRI_ALLOC(u->example, r->n_seq / r->group));
  TRI_TRY(TRI_ALLOC(u->brought, r->n_seq));
  memcpy(u->brought, r->reward, (size_t)r->n_seq * sizeof *u->brought);
  for (int g = 0; g < r->n_seq / r->group; g++) {
    u->example[g] = tri_dataset_find(t->data, r->prompt_id[g * r->group]);
    if (!u->example[g])
      TRI_FAIL(TRI_EINPUT,
               "%s: step %lld, group %d has no reward and prompt_id %lld, but data.train has no such line "
               "(counted from 0)",
               t->cfg->rollout.replay, (long long)step, g, (long long)r->prompt_id[g * r->group]);
  }
  return TRI_OK;
}

/* Collective over world. Computes rewards that are missing in the file, from the right answers in data.train.
 * Rewards in the file stay. */
static tri_status reward_replay(tri_trainer *t, int64_t step, tri_rollout *r) {
  const tri_source *source = t->learner[TRI_POLICY].source;
  unjudged          u = {0};
  tri_answers_opt   o = {.set = t->reward,
                         .tokenizer = tri_source_tokenizer(source),
                         .model = tri_source_name(source),
                         .n = r->n_seq,
                         .group = r->group,
                         .end = tri_source_eos(source)->id,
                         .n_end = tri_source_eos(source)->n};
  tri_status        st = TRI_OK;

  TRI_TRY_DONE(tri_agree(tri_world_of(t), find_examples(t, step, r, &u)));
  o.example = u.example;
  TRI_TRY_DONE(tri_answers_reward(r, &o, tri_world_of(t), true));
  for (int q = 0; q < r->n_seq; q++) {
    if (isnan(u.brought[q])) continue;
    r->reward[q] = u.brought[q];
    r->failed[q] = 0;
  }
done:
  TRI_FREE(u.example);
  TRI_FREE(u.brought);
  return st;
}

/* Reads all lines of the step. Every rank does so. */
static tri_status read_step(tri_trainer *t, int64_t step, tri_rollout *out) {
  const tri_config *c = t->cfg;
  const char       *name[TRI_REWARDS_MAX];
  tri_replay_opt    opt = {.group = (int)c->algo.num_generations,
                           .max_answers = (int)t->plan.samples,
                           .max_line_bytes = c->data.max_line_bytes,
                           .vocab = tri_source_shape(t->learner[TRI_POLICY].source)->V,
                           .max_response = c->rollout.max_response_length,
                           .n_reward = c->reward.n,
                           .reward_name = name};

  for (int i = 0; i < c->reward.n; i++) name[i] = tri_reward_set_name(t->reward, i);
  TRI_TRY(tri_rollout_file_read(c->rollout.replay, step, &opt, 0, 1, out));
  if (out->n_seq != t->plan.samples)
    TRI_FAIL(TRI_EINPUT,
             "%s: step %lld has %d line%s, but the deck asks for %lld = rollout_batch_size %lld x "
             "num_generations %lld",
             c->rollout.replay, (long long)step, out->n_seq, out->n_seq == 1 ? "" : "s",
             (long long)t->plan.samples, (long long)c->rollout.rollout_batch_size,
             (long long)c->algo.num_generations);
  for (int q = 0; q < out->n_seq; q++)
    if (out->start[q + 1] - out->start[q] > t->plan.max_tokens)
      TRI_FAIL(TRI_EINPUT,
               "%s: step %lld, answer %d has %lld tokens, more than any line had at the start (%lld)",
               c->rollout.replay, (long long)step, q, (long long)(out->start[q + 1] - out->start[q]),
               (long long)t->plan.max_tokens);
  if (!out->has_reward && (!t->data || !t->reward))
    TRI_FAIL(
        TRI_EINPUT,
        "%s: lines without a reward need data.train (prompt_id is the number of its line) and a reward in "
        "the deck",
        t->cfg->rollout.replay);
  return TRI_OK;
}

/* Hashes the content of the lines. It decides the following collectives, and every rank computes with it. */
static uint64_t hash_of(const tri_rollout *r) {
  size_t   n = (size_t)r->n_seq, n_tok = (size_t)r->n_tok;
  uint64_t h = tri_hash64(r->start, (n + 1) * sizeof *r->start, 2 * r->has_logp + r->has_reward);

  h = tri_hash64(r->prompt_id, n * sizeof *r->prompt_id, h);
  h = tri_hash64(r->sample, n * sizeof *r->sample, h);
  h = tri_hash64(r->prompt_len, n * sizeof *r->prompt_len, h);
  h = tri_hash64(r->stop, n * sizeof *r->stop, h);
  h = tri_hash64(r->masked, n * sizeof *r->masked, h);
  h = tri_hash64(r->part, n * (size_t)r->n_reward * sizeof *r->part, h);
  h = tri_hash64(r->reward, n * sizeof *r->reward, h);
  h = tri_hash64(r->token, n_tok * sizeof *r->token, h);
  return tri_hash64(r->old_logp, n_tok * sizeof *r->old_logp, h);
}

static tri_status check_same(const tri_trainer *t, int64_t step, uint64_t here, uint64_t on_rank0) {
  if (here == on_rank0) return TRI_OK;
  TRI_FAIL(TRI_EINPUT,
           "%s: in step %lld rank %d reads other lines than rank 0. All ranks must see the same files, and "
           "nothing may write to them during the run.",
           t->cfg->rollout.replay, (long long)step, tri_world_of(t)->rank);
}

static tri_status next(tri_trainer *t, int64_t step, tri_rollout *out, int64_t *lines) {
  tri_comm *world = tri_world_of(t);
  uint64_t  here, on_rank0;

  TRI_TRY(tri_agree(world, read_step(t, step, out)));
  here = on_rank0 = hash_of(out);
  TRI_TRY(tri_host_bcast(world, &on_rank0, sizeof on_rank0, 0));
  TRI_TRY(tri_agree(world, check_same(t, step, here, on_rank0)));
  *lines = out->n_seq / out->group;
  return out->has_reward ? TRI_OK : reward_replay(t, step, out);
}

/* Finds the longest line in this rank's share of the replayed steps of this run, every size-th one. */
static tri_status measure_files(const tri_trainer *t, int rank, int size, int64_t *out) {
  tri_replay_opt opt = {.group = (int)t->cfg->algo.num_generations,
                        .max_answers = (int)t->plan.samples,
                        .max_line_bytes = t->cfg->data.max_line_bytes,
                        .vocab = tri_source_shape(t->learner[TRI_POLICY].source)->V,
                        .max_response = t->cfg->rollout.max_response_length};

  int64_t done = t->run.resume[0] ? tri_ckpt_step(tri_source_checkpoint(t->learner[TRI_POLICY].source)) : 0;

  for (int64_t step = done + 1 + rank; step <= t->plan.steps; step += size) {
    tri_rollout r = {0};
    TRI_TRY(tri_rollout_file_read(t->cfg->rollout.replay, step, &opt, 0, 1, &r));
    for (int q = 0; q < r.n_seq; q++)
      if (r.start[q + 1] - r.start[q] > *out) *out = r.start[q + 1] - r.start[q];
    tri_rollout_free(&r);
  }
  return TRI_OK;
}

/* Measures the longest line. Every rank reads its share of the files. */
static tri_status measure(tri_trainer *t, tri_longest *l) {
  tri_comm *world = tri_world_of(t);
  int       sharers = t->se->pretended ? 1 : world->size;

  TRI_TRY(
      tri_error_about(tri_agree(world, measure_files(t, world->rank, sharers, &l->learn)), "rollout.replay"));
  return tri_host_max(world, &l->learn, 1);
}

const tri_batch_source tri_batch_source_replay = {
    .own_memory = true,
    .whole_groups = true,
    .together = 1,
    .gap_from = "replayed",
    .gap_advice =
        "Give run.sampler: trust or rescore for log-probabilities of another policy, or of a run with "
        "another order of sums.",
    .measure = measure,
    .next = next};
