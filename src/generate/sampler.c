/* sampler.c - generation: continuous batching over the paged cache, one prefill per prompt. Decode steps, and
 * a generation from begin to end. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "sampler.h"

#include "base/host_memory.h"
#include "rows.h"
#include "sampler_impl.h"

#include <math.h>

static int64_t pages_for(int64_t tokens) { return (tokens + TRI_PAGE - 1) / TRI_PAGE; }

int64_t tri_sampler_prefill(int64_t n, int64_t max_prompt) {
  int64_t all = n * max_prompt;

  if (all > TRI_SAMPLER_PREFILL) all = TRI_SAMPLER_PREFILL;
  return all > max_prompt ? all : max_prompt;
}

/* There is one set of pages more than rows, because the prompt being started holds its own last page. */
int64_t tri_sampler_full_pages(int64_t max_sequences, int64_t max_prompt, int64_t max_new) {
  return pages_for(max_prompt + max_new) * (max_sequences + 1);
}

int64_t tri_sampler_least_pages(int64_t max_prompt, int64_t max_new) {
  return pages_for(max_prompt + max_new) + pages_for(max_prompt) + 1;
}

int tri_sampler_states(const tri_model_shape *shape, int64_t max_sequences) {
  return tri_recurrent_layers(shape) ? (int)max_sequences + 1 : 0;
}

/* Returns the pages of the cache. */
static int64_t choose_pages(const tri_sampler_opt *o) {
  int64_t full = tri_sampler_full_pages(o->max_sequences, o->max_prompt, o->max_new);

  if (!o->max_pages || o->max_pages >= full) return full;
  TRI_ASSERT(o->max_pages >= tri_sampler_least_pages(o->max_prompt, o->max_new) &&
             o->max_prefill >= o->max_prompt + o->max_new);
  return o->max_pages;
}

tri_status tri_sampler_open(tri_device *d, tri_ledger *ledger, tri_model *m, tri_dtype dtype,
                            const tri_sampler_opt *opt, tri_sampler **out) {
  int                   rows = opt->max_sequences;
  size_t                lists = 2 * (size_t)rows + 1;
  tri_sampler          *s;
  const tri_model_shape cached = tri_model_cache_shape(m);

  TRI_ASSERT(opt->max_sequences > 0 && opt->max_prompt > 0 && opt->max_new > 0 &&
             opt->max_prefill >= opt->max_prompt);
  TRI_TRY(TRI_ALLOC(*out, 1));
  s = *out;
  s->device = d;
  s->model = m;
  s->opt = *opt;
  s->pages_each = pages_for(opt->max_prompt + opt->max_new);
  s->pages = choose_pages(opt);
  s->states = tri_sampler_states(&cached, rows);
  TRI_TRY(TRI_ALLOC(s->row, rows));
  TRI_TRY(TRI_ALLOC(s->prefix, rows + 1));
  TRI_TRY(TRI_ALLOC(s->seat, 2 * rows + 2));
  TRI_TRY(tri_request_memory_open(ledger, rows, opt->max_answers, opt->max_new, &s->memory));
  TRI_TRY(tri_ledger_add(ledger, TRI_MEM_PINNED, TRI_PHASE_ROLLOUT, false, "decode staging",
                         lists * (size_t)s->pages_each * 4, (void **)&s->page_space));
  TRI_TRY(tri_kv_open(d, ledger, &cached, dtype, s->pages, s->states, &s->kv));
  TRI_TRY(tri_prefill_open(d, ledger, m, s->kv, opt->max_prefill, rows, &s->prefill));
  return tri_decode_open(d, ledger, m, s->kv, rows, s->pages_each, &s->decode);
}

void tri_sampler_close(tri_sampler **s) {
  if (!*s) return;
  tri_decode_close(&(*s)->decode);
  tri_prefill_close(&(*s)->prefill);
  tri_request_memory_close(&(*s)->memory);
  if ((*s)->seated) (*s)->device->ops->event_close(&(*s)->seated);
  tri_kv_close(&(*s)->kv);
  if (!(*s)->opt.max_answers) TRI_FREE((*s)->queue); /* else it is the ledger's */
  TRI_FREE((*s)->row);
  TRI_FREE((*s)->prefix);
  TRI_FREE((*s)->seat);
  TRI_FREE(*s);
}

/* ---- decode steps ---- */

static bool any_goes_on(const tri_sampler *s) {
  for (int i = 0; i < s->n_row; i++)
    if (tri_rows_go_on(s, &s->row[i])) return true;
  return false;
}

/* Stages the row's next draw. The token at position pos of the sequence enters the cache, and the drawn token
 * follows it. */
static void stage_row(tri_sampler *s, int i, const tri_decode_rows *d) {
  tri_row           *w = &s->row[i];
  const tri_request *r = w->request;
  int64_t            pos = r->prompt->n_token - 1 + w->given;

  w->at[d->turn] = -1;
  if (!tri_rows_go_on(s, w)) return;
  tri_rows_grow(s, w, pos);
  w->at[d->turn] = i;
  d->from[i] = w->at[!d->turn];
  d->token[i] = w->next;
  d->pos[i] = (int32_t)pos;
  d->slot[i] = w->page[pos / TRI_PAGE] * TRI_PAGE + (int32_t)(pos % TRI_PAGE);
  d->len[i] = (int32_t)pos + 1;
  d->state[i] = w->state;
  d->fresh[i] = pos == 0; /* nothing was prefilled */
  d->key[3 * i] = r->prompt->id;
  d->key[3 * i + 1] = r->sample;
  d->key[3 * i + 2] = w->given++;
  s->row_steps++;
}

static tri_status give_step(tri_sampler *s) {
  tri_decode_rows d;

  tri_decode_stage(s->decode, s->n_row, &d);
  for (int i = 0; i < s->n_row; i++) stage_row(s, i, &d);
  s->row_steps_all += s->opt.max_sequences;
  return tri_decode_step(s->decode, &s->gen.rule, s->stream);
}

/* Returns whether the answer has ended with its newest token. */
static bool ended(const tri_generate_opt *gen, const tri_request *r, tri_stop_reason *why) {
  int32_t token = r->token[r->n - 1];

  for (int i = 0; i < gen->n_eos; i++)
    if (gen->eos[i] == token) {
      *why = TRI_STOP_EOS;
      return true;
    }
  if (gen->stop && gen->stop(gen->ctx, r->token, r->n)) {
    *why = TRI_STOP_STRING;
    return true;
  }
  *why = TRI_STOP_LENGTH;
  return r->n == gen->max_new;
}

/* Ends the answer of row i. */
static tri_status finish(tri_sampler *s, int i, tri_stop_reason why) {
  const tri_generate_opt *gen = &s->gen;
  tri_request            *r = s->row[i].request;

  TRI_TRY(tri_request_memory_pack(s->memory, r));
  r->state = TRI_REQUEST_DONE;
  r->stop = why;
  s->n_done++;
  TRI_TRY(tri_rows_remove(s, i));
  if (!gen->finished) return TRI_OK;
  return gen->finished(gen->finished_ctx, r->place * gen->group + r->sample, r->token, r->n, why);
}

static tri_status check_drawn(const tri_sampler *s, const tri_decode_drawn *d) {
  const char *why =
      tri_params_options(tri_model_params(s->model))->dtype == TRI_F16
          ? "fp16 ends at 65504, and models trained in bf16 may exceed it. Set model.dtype or --dtype to "
            "bf16 or f32. Otherwise the model has diverged"
          : "the model has diverged. Lower the learning rate or start from an earlier checkpoint";

  for (int i = 0; i < s->n_row; i++) {
    const tri_row     *w = &s->row[i];
    const tri_request *r = w->request;
    if (w->at[d->turn] >= 0 && isnan(d->logp[w->at[d->turn]]))
      TRI_FAIL(
          TRI_ENUMERIC,
          "the logits of token %lld of answer %d to prompt_id %lld are not numbers (NaN, infinity, or all "
          "-infinity). Probable cause: %s",
          (long long)r->n, r->sample, (long long)r->prompt->id, why);
  }
  return TRI_OK;
}

static tri_status take_step(tri_sampler *s) {
  tri_decode_drawn d;

  TRI_TRY(tri_decode_take(s->decode, &d));
  TRI_TRY(check_drawn(s, &d));
  for (int i = s->n_row - 1; i >= 0; i--) {
    const tri_row  *w = &s->row[i];
    tri_request    *r = w->request;
    tri_stop_reason why;
    if (w->at[d.turn] < 0) continue; /* the answer began after this step */
    r->token[r->n] = d.token[w->at[d.turn]];
    r->mark[r->n] = 0;
    r->logp[r->n++] = d.logp[w->at[d.turn]];
    if (ended(&s->gen, r, &why)) TRI_TRY(finish(s, i, why));
  }
  return TRI_OK;
}

/* ---- a generation ---- */

tri_status tri_sampler_hold(tri_sampler *s, const tri_generate_opt *gen, tri_stream *stream) {
  TRI_ASSERT(gen->max_new <= s->opt.max_new && gen->group > 0);
  s->gen = *gen;
  s->stream = stream;
  return tri_model_hold(s->model, true, stream);
}

tri_status tri_sampler_prepare(tri_sampler *s) {
  tri_rows_begin(s);
  tri_request_memory_begin(s->memory);
  if (s->opt.max_answers) s->queue = tri_request_memory_queue(s->memory);
  s->n_queue = s->n_done = s->waits = 0;
  s->preempted = s->recomputed = s->row_steps = s->row_steps_all = 0;
  if (!s->seated) TRI_TRY(s->device->ops->event_open(s->device, &s->seated));
  TRI_TRY(tri_prefill_begin(s->prefill));
  return tri_decode_begin(s->decode, s->stream);
}

tri_status tri_sampler_begin(tri_sampler *s, const tri_generate_opt *gen, tri_stream *stream) {
  tri_status st, end;

  TRI_TRY(tri_sampler_hold(s, gen, stream));
  st = tri_sampler_prepare(s);
  if (st == TRI_OK) return TRI_OK;
  end = tri_sampler_end(s); /* the other ranks release the weights too */
  (void)end;                /* the first error is reported */
  return st;
}

/* Checks that the memory planned for answers holds so many. */
static tri_status check_planned(const tri_sampler *s, int64_t n) {
  if (s->opt.max_answers && n > s->opt.max_answers)
    TRI_FAIL(TRI_EINTERNAL, "a generation has %lld answers but %lld were planned", (long long)n,
             (long long)s->opt.max_answers);
  return TRI_OK;
}

tri_status tri_sampler_add(tri_sampler *s, tri_request *const *r, int n) {
  int64_t all = s->n_queue + n;

  TRI_TRY(check_planned(s, all));
  if (!s->opt.max_answers) TRI_TRY(TRI_GROW(s->queue, s->queue_cap, all));
  for (int i = 0; i < n; i++) {
    TRI_ASSERT(r[i]->prompt->n_token > 0 && r[i]->prompt->n_token <= s->opt.max_prompt &&
               r[i]->n < s->gen.max_new);
    if (!r[i]->n) r[i]->token = NULL;
    TRI_ASSERT(!tri_request_memory_has(s->memory, r[i]));
    r[i]->state = TRI_REQUEST_QUEUED;
    r[i]->cached = 0;
    s->queue[s->n_queue++] = r[i];
  }
  return TRI_OK;
}

tri_status tri_sampler_run(tri_sampler *s, int steps, tri_sampler_news *news) {
  for (int i = 0; i < steps && s->n_done < s->n_queue; i++) {
    TRI_TRY(tri_rows_start(s));
    while (any_goes_on(s) && tri_decode_may_give(s->decode)) {
      TRI_TRY(tri_rows_make_space(s));
      if (any_goes_on(s))
        TRI_TRY(give_step(s)); /* else the oldest waits for its last token */
      else
        break;
    }
    TRI_TRY(take_step(s));
  }
  if (news) tri_sampler_tell(s, news);
  return TRI_OK;
}

tri_status tri_sampler_end(tri_sampler *s) {
  tri_status st = tri_decode_end(s->decode, s->stream), end; /* the next weights may have other addresses */

  tri_rows_end(s);
  end = tri_model_hold(s->model, false, s->stream); /* the other ranks release theirs too */
  return st == TRI_OK ? end : st;
}

/* Returns the further prompts whose answers can start in free rows and pages, even if the prompts are long.
 * The last answer to a prompt takes the prompt's last page over. A cache of full length has pages for every
 * row. */
static int64_t groups_wanted(const tri_sampler *s, const tri_sampler_news *n) {
  int64_t group = s->gen.group, each = pages_for(s->opt.max_prompt) + group - 1;
  int64_t fit = (s->opt.max_sequences - s->n_row) / group;
  int64_t pages = (n->pages_free - tri_rows_reserve(s)) / each, queued = (n->queued + group - 1) / group;

  if (pages < fit &&
      s->pages < tri_sampler_full_pages(s->opt.max_sequences, s->opt.max_prompt, s->opt.max_new))
    fit = pages;
  if (!n->queued && !n->running) return fit > 1 ? fit : 1;
  return fit > queued ? fit - queued : 0;
}

void tri_sampler_tell(const tri_sampler *s, tri_sampler_news *out) {
  *out = (tri_sampler_news){.queued = s->n_queue - s->n_done - s->n_row,
                            .running = s->n_row,
                            .done = s->n_done,
                            .pages_free = tri_kv_free(s->kv),
                            .preempted = s->preempted,
                            .recomputed = s->recomputed,
                            .row_steps = s->row_steps,
                            .row_steps_all = s->row_steps_all,
                            .apart = s->apart};
  out->want = groups_wanted(s, out);
}

/* Adds `group` requests for each prompt. */
static tri_status add_prompts(tri_sampler *s, const tri_prompt *prompt, int n, tri_request *r) {
  int group = s->gen.group;

  for (int i = 0; i < n * group; i++) {
    tri_request *one = &r[i];
    *one = (tri_request){.prompt = &prompt[i / group], .place = i / group, .sample = i % group};
    TRI_TRY(tri_sampler_add(s, &one, 1));
  }
  return TRI_OK;
}

tri_status tri_sampler_generate(tri_sampler *s, const tri_prompt *prompt, int n_prompt,
                                const tri_generate_opt *gen, tri_stream *stream, tri_rollout *out) {
  int          total = n_prompt * gen->group;
  tri_request *own = NULL, *r;
  bool         halted = false;
  tri_status   st = TRI_OK, end;

  TRI_TRY(tri_sampler_begin(s, gen, stream));
  TRI_TRY_DONE(check_planned(s, total));
  if (!s->opt.max_answers) TRI_TRY_DONE(TRI_ALLOC(own, total));
  r = own ? own : tri_request_memory_list(s->memory);
  TRI_TRY_DONE(add_prompts(s, prompt, n_prompt, r));
  while (s->n_done < total) {
    if (gen->halt && (halted = gen->halt(gen->halt_ctx))) break;
    if (gen->progress) gen->progress(gen->progress_ctx, (int)s->n_done, total);
    TRI_TRY_DONE(tri_sampler_run(s, 1, NULL));
  }
done:
  end = tri_sampler_end(s);
  if (st == TRI_OK) st = end;
  if (st == TRI_OK && !halted) st = tri_request_collect(r, total, gen->group, out);
  tri_request_memory_begin(s->memory); /* the answers are in *out */
  TRI_FREE(own);
  return st;
}
