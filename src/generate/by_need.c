/* by_need.c - a generation by all ranks together, which deals its prompts by need in rounds. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "by_need.h"
#include "base/host_memory.h"
#include "comm/rounds.h"
#include "deal.h"
#include "sampler_impl.h"

/* Chosen: decode steps between two rounds. A rank hears of new prompts two rounds after it asked. */
enum { STEPS = 16 };
/* Chosen: a rank queues at most an eighth of an even part of the prompts that are left. */
enum { AHEAD = 8 };

/* The words of a rank: further prompts it wants, if it was told to stop, and its finished answers. */
enum { WANT, HALTED, DONE, WORDS };

typedef struct needs {
  tri_sampler            *s;
  const tri_generate_opt *gen;
  const tri_generate_opt *asked_for; /* the caller's, of which *gen is a copy */
  const tri_prompt       *prompt;    /* [n] */
  int                     n, dealt;
  tri_rounds             *rounds;
  int                     rank, size; /* this rank's model, and all models. A model has one rank or several */
  int                     ranks;      /* of the world. Rank k < size is the first of model k */
  tri_comm               *tensor;     /* the ranks of this model, or NULL */
  int64_t                 round, asked; /* rounds heard. asked: prompts wanted in rounds not heard yet */
  int64_t                *want, *give;  /* [size] */
  tri_request            *r;            /* [most] */
  int64_t                 n_r, most;
  int64_t                 mine_heard, others; /* finished answers of this rank and of the other ranks in the
                                               * round heard last */
  bool                    halted;             /* this rank was told to stop */
  bool                    over;               /* all ranks know that a rank was told to stop */
  bool                    apart;              /* the other ranks of this model may wait in a decode step */
  tri_status              late;               /* an error of finished(), for the next round */
  tri_error_kept          late_error;
} needs;

/* Several ranks generate as one model. Each decode step is then collective over them. */
static bool is_together(const needs *x) { return x->size < x->ranks; }

/* Notes an error of this rank's decode steps. The other ranks of its model may wait for it in a collective,
 * and then none of them comes to a round. Only an error of the numbers is the same on all of them. */
static tri_status note_apart(needs *x, tri_status st) {
  x->apart = is_together(x) && st != TRI_OK && st != TRI_ENUMERIC;
  return st;
}

/* An answer has ended. An error here is this rank's own, but its decode steps have to go on until all ranks
 * of the model hear of it. */
static tri_status finish_late(void *ctx, int number, const int32_t *answer, int64_t n, tri_stop_reason why) {
  needs *x = ctx;

  if (x->late != TRI_OK) return TRI_OK;
  x->late = x->asked_for->finished(x->asked_for->finished_ctx, number, answer, n, why);
  if (x->late != TRI_OK) tri_error_keep(&x->late_error);
  tri_error_clear();
  return TRI_OK;
}

/* Returns the prompts that a rank keeps queued, because rows become free between its word and the new
 * prompts. They are more while many prompts are left, and the last prompts go to whoever is free (guided
 * self-scheduling, Polychronopoulos and Kuck 1987). */
static int64_t find_ahead(const needs *x) {
  int64_t left = x->n - x->dealt, ahead = x->size == 1 ? left : left / (AHEAD * x->size);

  return ahead > 1 ? ahead : 1;
}

/* A rank wants what fits now, and prompts ahead. It has asked for some of them already. */
static int64_t find_want(const needs *x) {
  int64_t          space = (x->most - x->n_r) / x->gen->group - x->asked, want = find_ahead(x);
  tri_sampler_news news;

  tri_sampler_tell(x->s, &news);
  want += news.want > 0 ? news.want : -((news.queued + x->gen->group - 1) / x->gen->group);
  want -= x->asked;
  return want < 0 ? 0 : want < space ? want : space;
}

static tri_status tell(needs *x, tri_status st) {
  int64_t word[WORDS] = {[HALTED] = x->halted, [DONE] = x->s->n_done};

  if (st == TRI_OK) st = x->late;
  if (st == TRI_OK && !x->halted) x->asked += word[WANT] = find_want(x);
  return tri_rounds_tell(x->rounds, word, st);
}

/* Queues the answers to the prompts from place `begin` to place `end`. */
static tri_status add(needs *x, int begin, int end) {
  for (int place = begin; place < end; place++)
    for (int k = 0; k < x->gen->group; k++) {
      tri_request *one = &x->r[x->n_r++];
      *one = (tri_request){.prompt = &x->prompt[place], .place = place, .sample = k};
      TRI_TRY(tri_sampler_add(x->s, &one, 1));
    }
  return TRI_OK;
}

/* Hears a round and deals prompts. All ranks deal alike. *begin and *end are the places of this rank. */
static tri_status hear(needs *x, int *begin, int *end) {
  const int64_t *all;

  *begin = *end = 0;
  if (x->late != TRI_OK) tri_error_put_back(&x->late_error);
  TRI_TRY(tri_rounds_hear(x->rounds, &all));
  x->asked -= all[x->rank * WORDS + WANT];
  x->mine_heard = all[x->rank * WORDS + DONE];
  x->others = -x->mine_heard;
  for (int q = 0; q < x->size; q++) {
    x->want[q] = all[q * WORDS + WANT];
    x->others += all[q * WORDS + DONE];
  }
  for (int q = 0; q < x->ranks; q++) x->over = x->over || all[q * WORDS + HALTED];
  if (x->over) return TRI_OK;
  tri_deal(x->want, x->size, x->round++, x->n - x->dealt, x->give);
  for (int q = 0; q < x->size; q++) {
    if (q == x->rank) *begin = x->dealt;
    x->dealt += (int)x->give[q];
    if (q == x->rank) *end = x->dealt;
  }
  return TRI_OK;
}

static void show(const needs *x) {
  const tri_generate_opt *gen = x->gen;

  if (gen->progress) gen->progress(gen->progress_ctx, (int)(x->others + x->s->n_done), x->n * gen->group);
}

/* Runs a decode step. *idle: no answer is left, or this rank was told to stop. */
static tri_status run_one(needs *x, bool *idle) {
  const tri_generate_opt *gen = x->gen;

  if (!x->halted && gen->halt) x->halted = gen->halt(gen->halt_ctx);
  show(x);
  /* The ranks of one model stop together, at the round in which all hear it. */
  *idle = (x->halted && !is_together(x)) || x->s->n_done == x->s->n_queue;
  return *idle ? TRI_OK : tri_sampler_run(x->s, 1, NULL);
}

/* Decodes until the oldest round can be heard without a wait, and at least so many steps. A rank without
 * answers has to wait. The ranks of one model must not differ, so they agree on it after every so many
 * steps. */
static tri_status run_until_heard(needs *x, int steps) {
  bool heard = false, idle = false;

  for (int i = 1; !idle; i++) {
    int64_t late;
    TRI_TRY(run_one(x, &idle));
    TRI_TRY(tri_rounds_progress(x->rounds, &heard));
    if (idle || i < steps || (is_together(x) && i % steps)) continue;
    late = !heard;
    if (is_together(x)) TRI_TRY(tri_host_max(x->tensor, &late, 1));
    if (!late) break;
  }
  return TRI_OK;
}

static bool all_done(const needs *x) { return x->mine_heard + x->others == (int64_t)x->n * x->gen->group; }

/* Collective over world. Runs rounds until all answers are done. The next round is told before the oldest one
 * is heard. An error of this rank is told in its next round, unless it is apart. */
static tri_status run_rounds(needs *x) {
  tri_status st = TRI_OK;
  int        begin, end;

  TRI_TRY(tell(x, st));
  while (!all_done(x) && !x->over) {
    TRI_TRY(tell(x, st));
    if (st == TRI_OK) st = note_apart(x, run_until_heard(x, STEPS));
    if (x->apart) return st;
    TRI_TRY(hear(x, &begin, &end));
    show(x);
    if (st == TRI_OK && !x->over) st = note_apart(x, add(x, begin, end));
    if (x->apart) return st;
  }
  TRI_TRY(hear(x, &begin, &end)); /* changes nothing but for an error, or a rank told to stop */
  return st;
}

/* Collective over world. A rank that cannot begin tells it before it ends, because the end may wait for all
 * ranks. */
static tri_status open_needs(tri_comm *world, needs *x, tri_stream *stream) {
  tri_status st = tri_sampler_hold(x->s, x->gen, stream);

  if (st == TRI_OK) st = tri_sampler_prepare(x->s);
  if (st == TRI_OK) st = TRI_ALLOC(x->want, x->size);
  if (st == TRI_OK) st = TRI_ALLOC(x->give, x->size);
  if (st == TRI_OK && !x->s->opt.max_answers) st = TRI_ALLOC(x->r, x->most);
  if (st == TRI_OK && x->s->opt.max_answers) x->r = tri_request_memory_list(x->s->memory);
  TRI_TRY(tri_agree(world, st));
  TRI_TRY(tri_rounds_open(world, WORDS, &x->rounds));
  tri_rounds_look(x->rounds, x->gen->halt, x->gen->halt_ctx);
  return TRI_OK;
}

tri_status tri_generate_by_need(tri_sampler *s, tri_comm *world, const tri_prompt *prompt, int n,
                                const tri_generate_opt *gen, tri_stream *stream, tri_rollout *out) {
  tri_comm        *tensor = tri_model_tensor(s->model);
  int              models = world->size / (tensor ? tensor->size : 1);
  bool             is_first = world->rank < models; /* its answers are the model's */
  int64_t          all = (int64_t)n * gen->group, most = s->opt.max_answers ? s->opt.max_answers : all;
  tri_generate_opt mine = *gen;
  needs            x = {.s = s,
                        .gen = &mine,
                        .asked_for = gen,
                        .prompt = prompt,
                        .n = n,
                        .rank = world->rank % models,
                        .size = models,
                        .ranks = world->size,
                        .tensor = tensor,
                        .most = most < all ? most : all};
  tri_status       st = TRI_OK, end = TRI_OK;

  if (is_together(&x) && gen->finished) mine.finished = is_first ? finish_late : NULL;
  mine.finished_ctx = is_together(&x) ? &x : gen->finished_ctx;
  TRI_TRY_DONE(open_needs(world, &x, stream));
  TRI_TRY_DONE(run_rounds(&x));
done:
  s->apart = x.apart;
  if (!x.apart) end = tri_sampler_end(s);
  if (st == TRI_OK) st = end;
  if (st == TRI_OK && !x.over) st = tri_request_collect(x.r, is_first ? (int)x.n_r : 0, gen->group, out);
  tri_request_memory_begin(s->memory); /* the answers are in *out */
  tri_rounds_close(&x.rounds);
  if (!s->opt.max_answers) TRI_FREE(x.r);
  TRI_FREE(x.want);
  TRI_FREE(x.give);
  return st;
}
