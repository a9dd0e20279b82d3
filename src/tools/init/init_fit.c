/* init_fit.c - chooses batches and memory settings for a new deck. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "init_fit.h"
#include "base/columns.h"
#include "base/log.h"
#include "train/inputs.h"
#include "train/train.h"

#include <stdlib.h>
#include <string.h>

/* Figures of a planned run. */
typedef struct measured {
  int64_t lines, dropped;          /* examples, and examples dropped as too long */
  int64_t longest, longest_prompt; /* tokens. For pairs the longer side. For KTO a prompt with any answer */
  int64_t together;                /* sequences of one sample */
  int64_t context, parameters;
  double  rate;         /* learning rate, from the deck or the default */
  int64_t device, host; /* bytes of a rank. On CPUs all of them are host bytes */
  int64_t space;        /* on a GPU, without its libraries */
} measured;

/* A run on paper. Close it even if opening it failed. */
typedef struct planned {
  tri_config  cfg;
  tri_session se;
  tri_trainer t;
  measured    m;
} planned;

static void close_plan(planned *p) {
  tri_trainer_close(&p->t);
  tri_session_close(&p->se);
  tri_config_free(&p->cfg);
}

static tri_status read_measures(planned *p, bool cuda) {
  const tri_data_stats *s = tri_dataset_stats(p->t.data);
  tri_ledger_sum        sum = tri_ledger_total(p->se.ledger);
  size_t                bytes_free = 0, bytes_total = 0;

  if (cuda) TRI_TRY(p->se.device->ops->mem_info(p->se.device, &bytes_free, &bytes_total));
  p->m = (measured){.lines = tri_dataset_count(p->t.data),
                    .dropped = s->n_dropped,
                    .longest = p->t.plan.max_tokens,
                    .longest_prompt = s->longest_prompt,
                    .together = tri_sequences(&p->t, 1),
                    .context = tri_source_shape(p->t.learner[TRI_POLICY].source)->max_pos,
                    .parameters = tri_learner_size(&p->t.learner[TRI_POLICY]),
                    .rate = p->cfg.train.lr.peak,
                    .device = cuda ? sum.device : 0,
                    .host = cuda ? sum.planned - sum.device : sum.planned,
                    .space = (int64_t)bytes_free - (int64_t)tri_session_beside_bytes(&p->se)};
  return TRI_OK;
}

/* Reads the draft and plans it on the nodes of its job. like: a plan of another draft with the same data,
 * which it borrows. NULL: the data is read. */
static tri_status plan_deck(const tri_draft *d, double gpu_bytes, const planned *like, tri_errors *errors,
                            planned *out) {
  tri_text        text = {0}, notes = {0};
  tri_session_opt opt = {.device = d->cuda ? "cuda" : tri_device_host(), .tensor = d->memory.tensor};
  tri_status      st = TRI_OK;

  TRI_TRY_DONE(tri_draft_deck(d, &text));
  TRI_TRY_DONE(tri_config_load_text(d->deck, text.data, text.len, &out->cfg, &notes, errors));
  if (errors->n) goto done;
  TRI_TRY_DONE(tri_session_pretend_gpu(&opt, (int)(d->nodes * d->per_node), (int)d->per_node,
                                       (size_t)gpu_bytes, &out->se));
  TRI_TRY_DONE(tri_trainer_plan_on_paper(&out->cfg, &out->se, errors, like ? &like->t : NULL, &out->t));
  if (!errors->n) TRI_TRY_DONE(tri_session_plan_stage(&out->se));
done:
  tri_text_free(&notes);
  tri_text_free(&text);
  return st;
}

/* Plans a draft. Fails after logging all errors. */
static tri_status plan(const tri_interview *v, const tri_draft *d, const planned *like, planned *out) {
  tri_errors errors = {0};
  tri_status st = TRI_OK;

  *out = (planned){.m.lines = 0};
  TRI_TRY_DONE(plan_deck(d, v->cuda ? v->gpu_bytes : 0, like, &errors, out));
  if (errors.n) {
    tri_log_unmute();
    tri_errors_say(&errors);
    TRI_FAIL_DONE(errors.st, "nothing was written because of %lld error%s, listed above%s",
                  (long long)errors.n, errors.n == 1 ? "" : "s",
                  !v->given[TRI_ASK_ALGO] && v->algo->needs & TRI_NEEDS_LABELLED
                      ? ". --algo sft learns from such lines without their labels"
                      : "");
  }
  TRI_TRY_DONE(read_measures(out, d->cuda));
done:
  tri_errors_free(&errors);
  return st;
}

/* Plans a draft whose model may not divide among so many ranks. Then *can is false. */
static tri_status plan_divided(const tri_interview *v, const tri_draft *d, const planned *like, planned *out,
                               bool *can) {
  tri_errors errors = {0};
  tri_status st = TRI_OK;

  *out = (planned){.m.lines = 0};
  *can = d->per_node % d->memory.tensor == 0;
  if (!*can) return TRI_OK;
  TRI_TRY_DONE(plan_deck(d, v->cuda ? v->gpu_bytes : 0, like, &errors, out));
  *can = !errors.n;
  if (*can) TRI_TRY_DONE(read_measures(out, d->cuda));
done:
  tri_errors_free(&errors);
  return st;
}

/* ---- batches ---- */

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t at_least(int64_t a, int64_t b) { return a > b ? a : b; }

/* Returns about `wanted`, at most `there`, as a multiple of the ranks. Each rank has at least one. */
static int64_t deal(int64_t wanted, int64_t there, int64_t ranks) {
  int64_t n = at_most(wanted, there);

  return n < ranks ? ranks : n / ranks * ranks;
}

/* Chosen as in inputs/8b. For small models, chosen to take minutes. */
enum {
  PROMPTS_OF_GROUPS = 64,
  PROMPTS_ALONE = 512,
  LINES = 64,
  STEPS = 200,
  LONGEST_ANSWER = 1024,
  SMALL = 100000000
};

/* Returns a learning rate, or NULL for the algorithm's default. Models this small tolerate about a hundred
 * times the rate of those in inputs/8b (inputs/quickstart.yaml). */
static const char *rate_for(const tri_algo *a, int64_t parameters) {
  if (parameters >= SMALL) return NULL;
  if (a->needs & TRI_NEEDS_ANSWERS) return "1e-4";
  if (a->needs & TRI_NEEDS_DEMONSTRATIONS) return "5e-4";
  return strcmp(a->name, "rm") ? "5e-5" : "9e-4";
}

/* Returns the fewest samples of an update. A labelled answer is compared with that of another line. */
static int64_t least_samples(const tri_algo *a) { return a->needs & TRI_NEEDS_LABELLED ? 2 : 1; }

static void size_answers(tri_draft *d, const measured *m) {
  const char *set = tri_algo_sets(d->algo, "algo.num_generations");
  int64_t     prompt = m->longest_prompt, ranks = d->nodes * d->per_node;

  d->size.generations = set ? strtoll(set, NULL, 10) : 8;
  d->size.drop = m->dropped > 0;
  if (prompt > m->context / 2) {
    d->size.drop = true;
    d->size.max_prompt = prompt = m->context / 2;
  }
  d->size.max_response = at_most(LONGEST_ANSWER, m->context - prompt);
  d->size.prompts = deal(d->size.generations > 1 ? PROMPTS_OF_GROUPS : PROMPTS_ALONE, m->lines, ranks);
  d->size.train_batch = d->size.prompts * d->size.generations;
  d->size.steps = STEPS;
}

static void size_lines(tri_draft *d, const measured *m) {
  d->size.drop = m->dropped > 0;
  d->size.train_batch = at_least(deal(LINES, m->lines, d->nodes * d->per_node), least_samples(d->algo));
  d->size.epochs = d->algo->needs & TRI_NEEDS_DEMONSTRATIONS ? 2 : 1;
  d->size.max_response =
      at_least(1, at_most(LONGEST_ANSWER, m->context - m->longest_prompt)); /* for evaluations */
}

/* ---- memory ---- */

/* Cheapest first. Recomputing adds a third to the time of learning. Offloading adds a copy of the state in
 * each step. A plan over all ranks adds a gather of the weights from other nodes in each pass. */
static const tri_draft_memory ways[] = {
    {false, 16384, "hybrid", "none", 1},    {true, 16384, "hybrid", "none", 1},
    {true, 8192, "hybrid", "none", 1},      {true, 4096, "hybrid", "none", 1},
    {true, 4096, "hybrid", "optimizer", 1}, {true, 2048, "hybrid", "all", 1},
    {true, 2048, "zero3", "optimizer", 1},  {true, 1024, "zero3", "all", 1}};
enum { N_WAYS = sizeof ways / sizeof *ways };
enum { MOST_TENSOR = 8 }; /* as plan's advice */

/* Sets the host bytes that a rank may plan. The ranks share nine tenths of a node's memory. If the job's
 * nodes are not known, those of this machine count. The space of a GPU without its libraries comes from
 * planning. */
static tri_status space_of(const tri_interview *v, int64_t *out) {
  size_t bytes_free = 0, bytes_total = 0;

  if (v->kind && v->kind->memory_mib) {
    *out = (v->kind->memory_mib << 20) / 10 * 9 / v->per_node;
    return TRI_OK;
  }
  TRI_TRY(tri_device_find(tri_device_host())->mem_info(NULL, &bytes_free, &bytes_total));
  *out = v->cuda ? INT64_MAX : (int64_t)bytes_total / 10 * 9 / v->per_node;
  return TRI_OK;
}

/* Returns the tokens of a pass. The longest sample must fit in it, and it need not hold more than a rank's
 * share. */
static int64_t tokens_for(const tri_draft *d, const measured *m, int64_t tokens) {
  int64_t longest =
              m->together * (d->size.prompts ? at_most(m->longest_prompt, m->context - d->size.max_response) +
                                                   d->size.max_response
                                             : m->longest),
          ranks = d->nodes * d->per_node, all = (d->size.train_batch + ranks - 1) / ranks * longest;

  return at_least(at_most(tokens, all), longest);
}

static tri_status say(const tri_interview *v, const measured *m, int64_t space, tri_text *out) {
  char need[TRI_CELL_BYTES], have[TRI_CELL_BYTES];

  tri_cell_bytes(v->cuda ? m->device : m->host, need);
  tri_cell_bytes(v->cuda ? m->space : space, have);
  return tri_text_printf(out, "Memory: %s of %s available to a rank %s.", need, have,
                         v->cuda ? "on its GPU" : "on its node");
}

static tri_status refuse(const tri_interview *v, const measured *m, int64_t space) {
  bool gpu = v->cuda && m->device > m->space;
  char need[TRI_CELL_BYTES], have[TRI_CELL_BYTES];

  tri_cell_bytes(gpu ? m->device : m->host, need);
  tri_cell_bytes(gpu ? m->space : space, have);
  TRI_FAIL(
      TRI_ECONFIG,
      "%s does not fit. A rank needs %s %s even with recomputing and offloading, and %s are available. Use "
      "more --nodes, %s, a smaller model, or adapters (inputs/lora/grpo.yaml)",
      v->answer[TRI_ASK_MODEL], need, gpu ? "on its GPU" : "on its node", have,
      gpu ? "larger GPUs" : "fewer --gpus-per-node");
}

static bool fits(const measured *m, int64_t space) {
  return m->host <= space && (!m->device || m->device <= m->space);
}

/* Takes the first way that fits. If none does, more GPUs of a node generate as one model. CPU ranks of a node
 * share one copy of the weights, so more of them would save little. */
static tri_status choose_memory(const tri_interview *v, tri_draft *d, const measured *first, tri_text *said) {
  planned    base = {.m.lines = 0}, p = base;
  measured   last = {.lines = 0};
  int64_t    space = 0;
  int        most = d->cuda && d->algo->needs & TRI_NEEDS_ANSWERS ? MOST_TENSOR : 1;
  bool       fit = false, can = true;
  tri_status st = TRI_OK;

  TRI_TRY(space_of(v, &space));
  for (int k = 0; !fit; k++) {
    d->memory = ways[k % N_WAYS];
    d->memory.max_tokens = tokens_for(d, first, d->memory.max_tokens);
    d->memory.tensor = 1 << k / N_WAYS;
    if (d->memory.tensor > most) break;
    if (k > 1) close_plan(&p);
    TRI_TRY_DONE(d->memory.tensor > 1 ? plan_divided(v, d, &base, &p, &can)
                                      : plan(v, d, k ? &base : NULL, k ? &p : &base));
    if (!can) break;
    last = k ? p.m : base.m;
    fit = fits(&last, space);
  }
  if (!fit) TRI_TRY_DONE(refuse(v, &last, space));
  TRI_TRY_DONE(say(v, &last, space, said));
  d->planned = said->data;
done:
  close_plan(&p);
  close_plan(&base);
  return st;
}

/* Plans once to measure the data, then sizes the deck. Warnings are muted because the check afterwards logs
 * them. */
static tri_status measure(const tri_interview *v, tri_draft *d, tri_text *said) {
  int64_t    context = tri_source_shape(v->source)->max_pos;
  planned    p;
  measured   m;
  tri_status st;

  d->size.drop = true;
  d->size.train_batch = at_least(d->nodes * d->per_node, least_samples(d->algo));
  d->size.steps = 1;
  d->size.max_response = 1;
  d->size.learning_rate = NULL;
  d->memory = ways[0];
  d->memory.max_tokens = 2 * context;
  if (d->algo->needs & TRI_NEEDS_ANSWERS) {
    const char *set = tri_algo_sets(d->algo, "algo.num_generations");
    d->size.generations = set ? strtoll(set, NULL, 10) : 8;
    d->size.prompts = d->nodes * d->per_node;
    d->size.train_batch = d->size.prompts * d->size.generations;
  }
  st = plan(v, d, NULL, &p);
  m = p.m;
  close_plan(&p);
  TRI_TRY(st);
  if (m.lines < least_samples(d->algo))
    TRI_FAIL(TRI_EINPUT, "%s: %s needs answers of both labels, but only %lld line%s could be used",
             v->answer[TRI_ASK_DATA], d->algo->name, (long long)m.lines, m.lines == 1 ? "" : "s");
  memset(&d->size, 0, sizeof d->size);
  if (d->algo->needs & TRI_NEEDS_ANSWERS)
    size_answers(d, &m);
  else
    size_lines(d, &m);
  d->size.learning_rate = rate_for(d->algo, m.parameters);
  d->size.usual_rate = m.rate;
  return choose_memory(v, d, &m, said);
}

tri_status tri_init_fit(const tri_interview *v, tri_draft *d, tri_text *said) {
  tri_status st;

  tri_log_mute(TRI_LOG_ERROR);
  st = measure(v, d, said);
  tri_log_unmute();
  return st;
}
