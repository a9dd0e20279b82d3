/* init_fit.c - batches and memory for a deck that is to be written. */
#include "init_fit.h"
#include "base/columns.h"
#include "train/train.h"

#include <stdlib.h>
#include <string.h>

/* What planning a run says of it. */
typedef struct measured {
  int64_t lines, dropped;          /* of the data: examples, and those that were too long */
  int64_t longest, longest_prompt; /* tokens; of a pair the longer side */
  int64_t together;                /* sequences of one sample */
  int64_t context, parameters;
  int64_t device, host; /* bytes of a rank; on the CPU all are host */
} measured;

static void read_measures(const tri_trainer *t, const tri_session *se, bool cuda, measured *m) {
  const tri_data_stats *s = tri_dataset_stats(t->data);
  tri_ledger_sum        sum = tri_ledger_total(se->ledger);

  *m = (measured){.lines = tri_dataset_count(t->data),
                  .dropped = s->n_dropped,
                  .longest = s->longest,
                  .longest_prompt = s->longest_prompt,
                  .together = tri_sequences(t, 1),
                  .context = tri_source_shape(t->learner[TRI_POLICY].source)->max_pos,
                  .parameters = tri_learner_size(&t->learner[TRI_POLICY]),
                  .device = cuda ? sum.device : 0,
                  .host = cuda ? sum.planned - sum.device : sum.planned};
}

/* The run of the draft, planned on this machine's CPU. What is wrong is listed, and is an error. */
static tri_status plan(const tri_draft *d, measured *m) {
  tri_text        text = {0}, notes = {0};
  tri_config      cfg = {0};
  tri_session     se = {0};
  tri_trainer     t = {0};
  tri_faults      faults = {0};
  tri_session_opt opt = {tri_device_host(), 0, 0, 0};
  tri_status      st = TRI_OK;

  TRI_TRY_DONE(tri_draft_deck(d, &text));
  TRI_TRY_DONE(tri_config_load_text(d->deck, text.data, text.len, &cfg, &notes, &faults));
  if (!faults.n) {
    TRI_TRY_DONE(tri_session_pretend(&opt, (int)(d->nodes * d->per_node), (int)d->per_node, &se));
    TRI_TRY_DONE(tri_trainer_plan(&cfg, &se, &faults, &t));
  }
  if (faults.n) {
    faults.text.data[--faults.text.len] = '\0';
    tri_log_lines(TRI_LOG_ERROR, faults.text.data);
    TRI_FAIL_DONE(faults.st, "nothing is written: %lld fault%s, listed above", (long long)faults.n,
                  faults.n == 1 ? "" : "s");
  }
  read_measures(&t, &se, d->cuda, m);
done:
  tri_trainer_close(&t);
  tri_session_close(&se);
  tri_config_free(&cfg);
  tri_faults_free(&faults);
  tri_text_free(&notes);
  tri_text_free(&text);
  return st;
}

/* ---- batches ---- */

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t at_least(int64_t a, int64_t b) { return a > b ? a : b; }

/* About so many, and no more than there are, that divide by the ranks; each rank has one. */
static int64_t deal(int64_t wanted, int64_t there, int64_t ranks) {
  int64_t n = at_most(wanted, there);

  return n < ranks ? ranks : n / ranks * ranks;
}

/* Chosen: as in inputs/8b; what fits in minutes where models are small. */
enum {
  PROMPTS_OF_GROUPS = 64,
  PROMPTS_ALONE = 512,
  LINES = 64,
  STEPS = 200,
  LONGEST_ANSWER = 1024,
  SMALL = 100000000
};

/* The rates of inputs/8b; models so small bear a hundred times as much (inputs/quickstart.yaml). */
static const char *rate_for(const tri_algo *a, int64_t parameters) {
  bool small = parameters < SMALL;

  if (a->needs & TRI_NEEDS_ANSWERS) return small ? "1e-4" : "1e-6";
  if (a->needs & TRI_NEEDS_DEMONSTRATIONS) return small ? "5e-4" : "5e-6";
  if (!strcmp(a->name, "rm")) return small ? "9e-4" : "9e-6";
  return small ? "5e-5" : "5e-7";
}

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
  d->size.train_batch = deal(LINES, m->lines, d->nodes * d->per_node);
  d->size.epochs = d->algo->needs & TRI_NEEDS_DEMONSTRATIONS ? 2 : 1;
  d->size.max_response =
      at_least(1, at_most(LONGEST_ANSWER, m->context - m->longest_prompt)); /* of evaluations */
}

/* ---- memory ---- */

/* Cheapest first: recomputing costs a third of learning, offloading a copy of the state a step, and a plan
 * over all ranks a gather of the weights from other nodes a pass. */
static const tri_draft_memory ways[] = {{false, 16384, "hybrid", "none"},    {true, 16384, "hybrid", "none"},
                                        {true, 8192, "hybrid", "none"},      {true, 4096, "hybrid", "none"},
                                        {true, 4096, "hybrid", "optimizer"}, {true, 2048, "hybrid", "all"},
                                        {true, 2048, "zero3", "optimizer"},  {true, 1024, "zero3", "all"}};
enum { N_WAYS = sizeof ways / sizeof *ways };

/* What a rank may plan: of a GPU all but what its libraries take and a twentieth, of a node's memory nine
 * tenths; of this machine's, where nothing is known of the job's. */
static tri_status room_of(const tri_interview *v, int64_t *out) {
  tri_device *device = NULL;
  size_t      bytes_free = 0, bytes_total = 0;
  tri_status  st = TRI_OK;

  if (v->cuda) {
    *out = (int64_t)(0.95 * v->gpu_bytes) - ((int64_t)1 << 30);
  } else if (v->kind && v->kind->memory_mib) {
    *out = (v->kind->memory_mib << 20) / 10 * 9 / v->per_node;
  } else {
    st = tri_device_open(tri_device_host(), 0, 1, &device);
    if (st == TRI_OK) st = device->ops->mem_info(device, &bytes_free, &bytes_total);
    tri_device_close(&device);
    *out = (int64_t)bytes_total / 10 * 9 / v->per_node;
  }
  return st;
}

/* Tokens of a pass: the longest sample fits in, and a rank has no more. */
static int64_t tokens_for(const tri_draft *d, const measured *m, int64_t tokens) {
  int64_t longest =
              m->together * (d->size.prompts ? at_most(m->longest_prompt, m->context - d->size.max_response) +
                                                   d->size.max_response
                                             : m->longest),
          ranks = d->nodes * d->per_node, all = (d->size.train_batch + ranks - 1) / ranks * longest;

  return at_least(at_most(tokens, all), longest);
}

static tri_status say(const tri_interview *v, const measured *m, int64_t room, tri_text *out) {
  char need[TRI_CELL_BYTES], have[TRI_CELL_BYTES];

  tri_cell_bytes(v->cuda ? m->device : m->host, need);
  tri_cell_bytes(room, have);
  return tri_text_printf(out, "Memory: %s of the %s that %s may take (planned on the CPU back end).", need,
                         have, v->cuda ? "a GPU's rank" : "a rank");
}

static tri_status refuse(const tri_interview *v, const measured *m, int64_t room) {
  bool host = v->cuda && m->device <= room;
  char need[TRI_CELL_BYTES], have[TRI_CELL_BYTES];

  tri_cell_bytes(v->cuda && !host ? m->device : m->host, need);
  tri_cell_bytes(host ? (v->kind->memory_mib << 20) / 10 * 9 / v->per_node : room, have);
  TRI_FAIL(TRI_ECONFIG,
           "%s does not fit: a rank needs %s%s even with recomputing and offloading, and may take %s; more "
           "--nodes, %s, a smaller model, or adapters (inputs/lora/grpo.yaml)",
           v->answer[TRI_ASK_MODEL], need, host ? " of its node's memory" : "", have,
           v->cuda && !host ? "larger GPUs" : "fewer --gpus-per-node");
}

/* Of a node with GPUs also what is offloaded, in the host's memory. */
static bool fits(const tri_interview *v, const measured *m, int64_t room) {
  bool    known = v->kind && v->kind->memory_mib;
  int64_t node = known ? (v->kind->memory_mib << 20) / 10 * 9 : INT64_MAX;

  return v->cuda ? m->device <= room && m->host <= node / v->per_node : m->host <= room;
}

/* The first way that fits. */
static tri_status choose_memory(const tri_interview *v, tri_draft *d, const measured *first, tri_text *said) {
  int64_t  room = 0;
  measured m;

  TRI_TRY(room_of(v, &room));
  for (int i = 0; i < N_WAYS; i++) {
    d->memory = ways[i];
    d->memory.max_tokens = tokens_for(d, first, ways[i].max_tokens);
    TRI_TRY(plan(d, &m));
    if (!fits(v, &m, room)) continue;
    TRI_TRY(say(v, &m, room, said));
    d->planned = said->data;
    return TRI_OK;
  }
  return refuse(v, &m, room);
}

/* Warnings are the business of the check that follows. */
static tri_status measure(const tri_interview *v, tri_draft *d, tri_text *said) {
  int64_t  context = tri_source_shape(v->source)->max_pos;
  measured m;

  d->size.drop = true;
  d->size.train_batch = d->nodes * d->per_node;
  d->size.steps = 1;
  d->size.max_response = 1;
  d->size.learning_rate = "1";
  d->memory = ways[0];
  d->memory.max_tokens = 2 * context;
  if (d->algo->needs & TRI_NEEDS_ANSWERS) {
    const char *set = tri_algo_sets(d->algo, "algo.num_generations");
    d->size.generations = set ? strtoll(set, NULL, 10) : 8;
    d->size.prompts = d->nodes * d->per_node;
    d->size.train_batch = d->size.prompts * d->size.generations;
  }
  TRI_TRY(plan(d, &m));
  memset(&d->size, 0, sizeof d->size);
  if (d->algo->needs & TRI_NEEDS_ANSWERS)
    size_answers(d, &m);
  else
    size_lines(d, &m);
  d->size.learning_rate = rate_for(d->algo, m.parameters);
  return choose_memory(v, d, &m, said);
}

tri_status tri_init_fit(const tri_interview *v, tri_draft *d, tri_text *said) {
  tri_status st;

  tri_log_open(0, TRI_LOG_ERROR);
  st = measure(v, d, said);
  tri_log_open(0, TRI_LOG_INFO);
  return st;
}
