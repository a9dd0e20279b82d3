/* supply_data.c - a step's sequences from data.train: demonstrations as they are. */
#include "supply.h"

#include "train.h"

#include <string.h>

/* The example at position k of this step. */
static const tri_example *example_at(const tri_trainer *t, int64_t k) {
  const tri_config *c = t->cfg;

  return tri_dataset_get(t->data,
                         tri_dataset_at(t->data, c->run.seed, c->data.shuffle, t->progress.cursor + k));
}

static tri_status make(const tri_trainer *t, tri_rollout *out) {
  int64_t n = t->plan.samples, n_tok = 0;

  for (int64_t k = 0; k < n; k++) n_tok += example_at(t, k)->n_token;
  TRI_TRY(tri_rollout_make((int)n, n_tok, 1, 0, out));
  for (int64_t k = 0; k < n; k++) {
    const tri_example *e = example_at(t, k);
    out->prompt_id[k] = e->id;
    out->prompt_len[k] = e->n_prompt;
    out->start[k + 1] = out->start[k] + e->n_token;
    memcpy(out->token + out->start[k], e->token, (size_t)e->n_token * 4);
  }
  return TRI_OK;
}

static tri_status next(tri_trainer *t, int64_t step, tri_rollout *out, int64_t *lines) {
  (void)step; /* the cursor says which */
  *lines = t->plan.samples;
  out->store = &t->whole;
  return tri_agree(tri_world_of(t), make(t, out));
}

static tri_status measure(tri_trainer *t, tri_longest *l) {
  l->learn = tri_dataset_stats(t->data)->longest;
  return TRI_OK;
}

const tri_supply tri_supply_data = {.together = 1, .measure = measure, .next = next};
