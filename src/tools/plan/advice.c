/* advice.c - searches for changes of deck and job with which a run fits. Each is planned. They are sorted by
 * the seconds of a step times the ranks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An attempt: the changes so far, with the job and the numbers of the deck they lead to. */
typedef struct attempt {
  tri_plan_job job;
  tri_advice   a;
  int64_t micro, accum, tokens; /* deck values with these changes. 0: the deck does not use this number */
} attempt;

typedef struct asked {
  const char     *path;
  char *const    *args;
  int             n_args;
  const tri_plan *p;
} asked;

static bool same_key(const char *a, const char *b) {
  size_t n = strcspn(a, "=");

  return n == strcspn(b, "=") && !strncmp(a, b, n);
}

/* Adds a change "key=value". It replaces an earlier change of the same key. */
static void put(attempt *x, const char *change) {
  int i = 0;

  while (i < x->a.n && !same_key(x->a.change[i], change)) i++;
  if (i == TRI_ADVICE_CHANGES) return;
  if (i == x->a.n) x->a.n++;
  snprintf(x->a.change[i], TRI_ADVICE_BYTES, "%s", change);
}

static void put_number(attempt *x, const char *key, int64_t n) {
  char text[TRI_ADVICE_BYTES];

  snprintf(text, sizeof text, "%s=%lld", key, (long long)n);
  put(x, text);
}

/* ---- trying an attempt ---- */

/* Without the part of the cache that only takes what is left. */
static int64_t weight_of(const tri_plan *p) {
  int64_t spare = p->t.plan.cache_spare_bytes;

  if (!p->job.gpu) return p->sum.rollout + p->sum.learn - spare;
  return 2 * tri_plan_bytes(p, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS) +
         tri_plan_bytes(p, TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT) +
         tri_plan_bytes(p, TRI_MEM_DEVICE, TRI_PHASE_LEARN) - spare;
}

/* Makes the user's arguments without those of changed keys, followed by the changes of the deck. The caller
 * frees *args. */
static tri_status make_args(const asked *q, attempt *x, char ***args, int *n) {
  TRI_TRY(TRI_ALLOC(*args, q->n_args + TRI_ADVICE_CHANGES));
  *n = 0;
  for (int i = 0; i < q->n_args; i++) {
    bool replaced = false;
    for (int k = 0; k < x->a.n; k++) replaced |= same_key(q->args[i], x->a.change[k]);
    if (!replaced) (*args)[(*n)++] = q->args[i];
  }
  for (int k = 0; k < x->a.n; k++)
    if (x->a.change[k][0] != '-') (*args)[(*n)++] = x->a.change[k];
  return TRI_OK;
}

/* Takes the batch numbers from this plan. Another number of nodes divides the batch in another way. */
static void take_numbers(attempt *x, const tri_plan *p) {
  x->micro = p->t.plan.batch.micro_batch_size;
  x->accum = p->t.plan.batch.gradient_accumulation_steps;
  x->tokens = p->t.plan.packed;
}

/* Plans an attempt. *weight sums both phases, so that a change of the smaller phase counts too. It is 0 if
 * the deck cannot be planned because its numbers contradict each other. */
static tri_status try(const asked *q, attempt *x, bool *fits, int64_t *weight) {
  char     **args = NULL;
  int        n = 0;
  tri_plan   p = {0};
  tri_errors errors = {0};
  tri_status st = TRI_OK;

  *fits = false;
  *weight = 0;
  TRI_TRY_DONE(make_args(q, x, &args, &n));
  TRI_TRY_DONE(tri_plan_open(q->path, args, n, &x->job, q->p, NULL, &errors, &p));
  if (errors.n) goto done;
  *fits = p.fits;
  *weight = weight_of(&p);
  take_numbers(x, &p);
  x->a.device_bytes = p.job.gpu ? p.sum.device : p.sum.planned;
  TRI_TRY_DONE(tri_plan_time(&p));
  x->a.step_s = p.time.all;
done:
  tri_plan_close(&p);
  tri_errors_free(&errors);
  TRI_FREE(args);
  return st;
}

/* ---- changes ---- */

/* Makes x need less memory by one notch. Returns false if x is at its end. */
typedef bool (*notch)(const asked *q, attempt *x);

static bool less_kept(const asked *q, attempt *x) {
  if (q->p->cfg.model.recompute == TRI_CONFIG_RECOMPUTE_LAYER) return false;
  for (int i = 0; i < x->a.n; i++)
    if (same_key(x->a.change[i], "model.recompute")) return false;
  put(x, "model.recompute=layer");
  return true;
}

/* Halves the samples of a pass and doubles the passes. A deck in tokens gets half the tokens, as long as the
 * longest sequence fits. */
static bool smaller_pass(const asked *q, attempt *x) {
  int64_t least = q->p->t.plan.max_tokens * q->p->t.source->together;

  if (x->tokens) {
    if (x->tokens <= least) return false;
    x->tokens = x->tokens / 2 > least ? x->tokens / 2 : least;
    put_number(x, "train.max_tokens_per_gpu", x->tokens);
    return true;
  }
  if (x->micro < 2 || x->micro % 2) return false;
  x->micro /= 2, x->accum *= 2;
  put_number(x, "train.micro_batch_size", x->micro);
  if (q->p->cfg.train.gradient_accumulation_steps)
    put_number(x, "train.gradient_accumulation_steps", x->accum);
  return true;
}

enum { FINEST_TOKENS = 1024 }; /* chosen. Passes smaller by less than this take the same time */

static bool spread(const asked *q, attempt *x) {
  tri_shard_plan s = q->p->cfg.shard.scope;
  bool           own = q->p->cfg.shard.plan == TRI_CONFIG_OWN_PLAN; /* shard.plan would contradict it */

  if (own || s.params == TRI_SHARD_WORLD || x->job.nodes * x->job.per_node < 2) return false;
  for (int i = 0; i < x->a.n; i++)
    if (same_key(x->a.change[i], "shard.plan")) return false;
  put(x, "shard.plan=zero3");
  return true;
}

static bool offload(const asked *q, attempt *x) {
  if (!x->job.gpu || q->p->cfg.shard.offload == TRI_CONFIG_OFFLOAD_ALL) return false;
  for (int i = 0; i < x->a.n; i++)
    if (same_key(x->a.change[i], "shard.offload")) return false;
  put(x, "shard.offload=all");
  return true;
}

enum { MOST_NODES = 128 }; /* chosen. Beyond it a rank's share is small beside the memory it cannot share */

static bool more_nodes(const asked *q, attempt *x) {
  (void)q;
  if (x->job.nodes >= MOST_NODES) return false;
  x->job.nodes *= 2;
  put_number(x, "--nodes", x->job.nodes);
  return true;
}

static const char TENSOR[] = "shard.tensor_parallel_size";
enum { MOST_TENSOR = 8 }; /* chosen. Nodes with more GPUs on fast links are rare */

/* Returns whether t ranks of a node can generate as one model. tri_divided_open has the other conditions. */
static bool divides(const asked *q, const attempt *x, int t) {
  const tri_model_shape *s = tri_source_shape(q->p->t.learner[TRI_POLICY].source);

  if (tri_recurrent_layers(s) || s->attn_gate) return false;
  return x->job.per_node % t == 0 && s->H % t == 0 && s->G % t == 0 && s->C % t == 0 && s->F % t == 0;
}

/* Returns whether the deck's run needs more memory than a GPU has to generate. CPU ranks of a node share one
 * copy of the weights, so there more ranks of a model save little. */
static bool generation_is_large(const tri_plan *p) {
  if (!p->t.source->generates || !p->job.gpu) return false;
  return tri_plan_bytes(p, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS) +
             tri_plan_bytes(p, TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT) >
         p->space_bytes;
}

/* Small changes cost seconds at most. Large ones cost more time. More nodes come last. */
static const notch small[] = {less_kept, smaller_pass}, large[] = {spread, offload};
enum { N_SMALL = sizeof small / sizeof *small, N_LARGE = sizeof large / sizeof *large };

static attempt begin(const asked *q) {
  attempt x = {.job = q->p->job};

  take_numbers(&x, q->p);
  return x;
}

/* State of a search: the best attempt so far, its weight, and whether it fits. */
typedef struct search {
  attempt x;
  int64_t weight;
  bool    fits;
} search;

static search start(const asked *q) { return (search){begin(q), weight_of(q->p), false}; }

/* Applies one notch of a kind if it makes the plan smaller. *on: it did, and another notch may too. */
static tri_status turn(const asked *q, notch change, search *s, bool *on) {
  attempt next = s->x;
  int64_t weight = 0;
  bool    fits = false;

  *on = change(q, &next);
  while (*on) {
    TRI_TRY(try(q, &next, &fits, &weight));
    if (weight || !change(q, &next)) break; /* contradicting numbers may agree one notch further */
  }
  *on = weight && weight < s->weight;
  if (*on) *s = (search){next, weight, fits};
  return TRI_OK;
}

/* Applies notches until the plan fits, one of each kind in turn. */
static tri_status turn_all(const asked *q, const notch *change, int n, search *s) {
  bool on[N_SMALL] = {false}, any = true;

  for (int i = 0; i < n; i++) on[i] = true;
  while (any && !s->fits) {
    any = false;
    for (int i = 0; i < n && !s->fits; i++) {
      if (on[i]) TRI_TRY(turn(q, change[i], s, &on[i]));
      any |= on[i];
    }
  }
  return TRI_OK;
}

/* Takes back each change from `first` on if the plan fits without it. */
static tri_status prune(const asked *q, search *s, int first) {
  for (int i = s->x.a.n - 1; i >= first && s->x.a.n > 1; i--) {
    attempt less = s->x;
    int64_t weight;
    bool    fits;
    if (less.a.change[i][0] == '-') continue; /* part of the job, not of the deck */
    memmove(less.a.change[i], less.a.change[i + 1], (size_t)(less.a.n - 1 - i) * sizeof less.a.change[0]);
    less.a.n--;
    TRI_TRY(try(q, &less, &fits, &weight));
    if (fits) s->x = less;
  }
  return TRI_OK;
}

/* Raises the number of change i as far as the plan still fits. It doubles first, then adds ever smaller
 * halves. */
static tri_status relax_number(const asked *q, search *s, int i, int64_t finest) {
  int64_t n = strtoll(strchr(s->x.a.change[i], '=') + 1, NULL, 10), step = n;

  while (step >= finest) {
    attempt more = s->x;
    int64_t weight;
    bool    fits;
    snprintf(strchr(more.a.change[i], '=') + 1, 24, "%lld", (long long)(n + step));
    TRI_TRY(try(q, &more, &fits, &weight));
    if (fits)
      s->x = more, n += step, step = n;
    else
      step /= 2;
  }
  return TRI_OK;
}

/* Raises the numbers that were halved. */
static tri_status relax(const asked *q, search *s) {
  for (int i = 0; i < s->x.a.n; i++) {
    if (same_key(s->x.a.change[i], "train.max_tokens_per_gpu")) TRI_TRY(relax_number(q, s, i, FINEST_TOKENS));
  }
  return TRI_OK;
}

/* ---- results ---- */

enum { MOST_FOUND = 64 }; /* more than all searches can find */

/* Fitting attempts, the cheapest first. */
typedef struct found {
  attempt x[MOST_FOUND];
  int     n;
} found;

/* Returns the cost of a step as seconds times ranks. 0: the seconds are not known. */
static double cost_of(const attempt *x) { return x->a.step_s * x->job.nodes * x->job.per_node; }

static int index_of(const tri_advice *a, const char *change) {
  int k = 0;

  while (k < a->n && !same_key(a->change[k], change)) k++;
  return k < a->n ? k : -1;
}

/* Returns whether b changes every key that a changes. */
static bool covers(const tri_advice *b, const tri_advice *a) {
  for (int k = 0; k < a->n; k++)
    if (index_of(b, a->change[k]) < 0) return false;
  return true;
}

/* Adds x in its place. Drops attempts with more changes that cost no less than another one. */
static void put_found(const attempt *x, found *f) {
  double cost = cost_of(x);
  int    n = 0, at;

  for (int i = 0; i < f->n; i++)
    if (covers(&x->a, &f->x[i].a) && cost_of(&f->x[i]) <= cost) return;
  for (int i = 0; i < f->n; i++)
    if (!covers(&f->x[i].a, &x->a) || cost_of(&f->x[i]) < cost) f->x[n++] = f->x[i];
  TRI_ASSERT(n < MOST_FOUND);
  for (at = n; at > 0 && cost_of(&f->x[at - 1]) > cost; at--) f->x[at] = f->x[at - 1];
  f->x[at] = *x;
  f->n = n + 1;
}

/* Simplifies a fitting attempt and adds it. Changes from `first` on may be taken back. */
static tri_status keep(const asked *q, search *s, int first, found *f) {
  if (!s->fits) return TRI_OK;
  TRI_TRY(prune(q, s, first));
  TRI_TRY(relax(q, s));
  put_found(&s->x, f);
  return TRI_OK;
}

/* Picks the cheapest attempts. One with more nodes is among them if there is one, because it is faster. */
static int choose(const found *f, tri_advice out[TRI_ADVICE_MOST]) {
  int n = 0, nodes = -1;

  for (int i = f->n - 1; i >= 0; i--)
    if (index_of(&f->x[i].a, "--nodes") >= 0) nodes = i;
  for (int i = 0; i < f->n && n < TRI_ADVICE_MOST; i++)
    if (i == nodes || n < TRI_ADVICE_MOST - 1 || nodes < i) out[n++] = f->x[i].a;
  return n;
}

/* ---- searches ---- */

/* Searches from `from` on, with its ranks of a model. First tries each small change alone. Then tries every
 * set of the large changes (none, each, both), with all small changes still needed. */
static tri_status explore_as_it_is(const asked *q, const search *from, found *f) {
  int    first = from->x.a.n;
  search s = *from;

  if (s.fits) return keep(q, &s, first, f);
  for (int i = 0; i < N_SMALL; i++) {
    s = *from;
    TRI_TRY(turn_all(q, &small[i], 1, &s));
    TRI_TRY(keep(q, &s, first, f));
  }
  for (int set = 0; set < 1 << N_LARGE; set++) {
    bool all = true;
    s = *from;
    for (int i = 0; i < N_LARGE; i++)
      if (set >> i & 1) all = all && large[i](q, &s.x);
    if (!all) continue;
    if (set) TRI_TRY(try(q, &s.x, &s.fits, &s.weight));
    if (set && !s.weight) continue;
    first = s.x.a.n;
    TRI_TRY(turn_all(q, small, N_SMALL, &s));
    TRI_TRY(keep(q, &s, first, f));
  }
  return TRI_OK;
}

/* Searches from `from` on. If generation needs too much memory, it also tries more ranks of a node as one
 * model. These need sharded weights. */
static tri_status explore(const asked *q, const search *from, found *f) {
  int t = 2 * (int)q->p->cfg.shard.tensor_parallel_size;

  TRI_TRY(explore_as_it_is(q, from, f));
  for (; t <= MOST_TENSOR && generation_is_large(q->p); t *= 2) {
    search s = *from;
    if (!divides(q, &s.x, t)) continue;
    put_number(&s.x, TENSOR, t);
    TRI_TRY(try(q, &s.x, &s.fits, &s.weight));
    if (!s.weight && spread(q, &s.x)) TRI_TRY(try(q, &s.x, &s.fits, &s.weight));
    if (s.weight) TRI_TRY(explore_as_it_is(q, &s, f));
  }
  return TRI_OK;
}

/* Tries more nodes alone. If nothing was found before, it finds the fewest nodes with which other changes
 * fit. */
static tri_status with_nodes(const asked *q, const search *from, found *f) {
  static const notch more = more_nodes;
  bool               needed = !f->n;
  found              fewest = {.n = 0};
  search             s = *from;

  TRI_TRY(turn_all(q, &more, 1, &s));
  TRI_TRY(keep(q, &s, from->x.a.n, f));
  s = *from;
  while (needed && !fewest.n && more_nodes(q, &s.x)) {
    TRI_TRY(try(q, &s.x, &s.fits, &s.weight));
    if (s.weight) TRI_TRY(explore(q, &s, &fewest));
  }
  for (int i = 0; i < fewest.n; i++) put_found(&fewest.x[i], f);
  return TRI_OK;
}

/* Looks for larger GPUs when neither the deck nor more nodes help, first on the same number of nodes. */
static tri_status larger_gpus(const asked *q, bool more, found *f) {
  static const char *const larger[] = {"a100-80", "h200", "b200"};

  for (size_t i = 0; i < sizeof larger / sizeof *larger && q->p->job.gpu && !f->n; i++) {
    search s = start(q);
    char   text[TRI_ADVICE_BYTES];
    TRI_TRY(tri_machine_find(larger[i], &s.x.job.machine));
    if (s.x.job.machine.device_bytes <= q->p->job.machine.device_bytes) continue;
    snprintf(text, sizeof text, "--gpu=%s", larger[i]);
    put(&s.x, text);
    TRI_TRY(try(q, &s.x, &s.fits, &s.weight));
    TRI_TRY(more ? with_nodes(q, &s, f) : explore(q, &s, f));
  }
  return TRI_OK;
}

tri_status tri_plan_advise(const char *path, char *const *args, int n_args, const tri_plan *p,
                           tri_advice out[TRI_ADVICE_MOST], int *n) {
  asked  q = {path, args, n_args, p};
  search s = start(&q);
  found  f = {.n = 0};

  TRI_TRY(explore(&q, &s, &f));
  TRI_TRY(with_nodes(&q, &s, &f));
  for (int more = 0; more < 2 && !f.n; more++) TRI_TRY(larger_gpus(&q, more, &f));
  *n = choose(&f, out);
  return TRI_OK;
}
