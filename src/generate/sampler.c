/* sampler.c - generation: continuous batching over the paged cache, one prefill per prompt.
 *
 * A prompt's prefill covers all its tokens but the last. Each answer then starts with the last prompt token
 * as its first decode row. So answers of one prompt share its pages and may start at any time, and no prefill
 * needs the head. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "sampler.h"
#include "base/host_memory.h"
#include "decode.h"
#include "finished.h"
#include "model/kv.h"

#include <math.h>
#include <string.h>

/* One decode row, a sequence in progress. */
typedef struct row {
  int      index; /* prompt * group + sample */
  int64_t  n;     /* answer tokens so far */
  int64_t  given; /* n plus the tokens of steps in flight */
  int32_t  next;  /* first token to enter the cache */
  int      at[2]; /* its row in the last step of each turn, -1 if it had none */
  int32_t *page;  /* [pages_each] */
  int      n_page;
  int32_t *token; /* [max_new] */
  float   *logp;  /* [max_new] */
} row;

/* A prompt in the cache, with answers still to start. */
typedef struct prefix {
  int32_t *page; /* [pages_each] */
  int      n_page;
} prefix;

/* The tokens of a prefill. */
typedef struct staging {
  int32_t   *token, *pos, *slot; /* [max_prefill] */
  int32_t   *cu;                 /* [max_sequences+1] */
  tri_event *copied;             /* the host's arrays have reached the device */
} staging;

struct tri_sampler {
  tri_device     *device; /* borrowed */
  tri_model      *model;  /* borrowed */
  tri_kv         *kv;
  tri_decode     *decode;
  tri_finished   *finished;
  tri_sampler_opt opt;
  int64_t         pages_each;
  int             n_row;
  row            *row;
  int32_t        *page_space, *token_space;
  float          *logp_space;
  staging         d, h; /* on the device, and in pinned host memory */
  /* the run in progress */
  const tri_prompt       *prompt;
  const tri_generate_opt *gen;
  int                     started, total;         /* answers started, answers in all */
  prefix                 *prefix;                 /* [max_sequences+1] */
  int                     first_prefix, n_prefix; /* prompt of prefix[0], number of prompts in the cache */
};

static int64_t pages_for(int64_t tokens) { return (tokens + TRI_PAGE - 1) / TRI_PAGE; }

static tri_status plan_buffers(tri_sampler *s, tri_ledger *l) {
  size_t B = (size_t)s->opt.max_sequences, N = (size_t)s->opt.max_prefill;
  size_t P = (size_t)s->pages_each;
  struct {
    void  *device, *host;
    size_t bytes;
  } r[] = {{&s->d.token, &s->h.token, N * 4},
           {&s->d.pos, &s->h.pos, N * 4},
           {&s->d.slot, &s->h.slot, N * 4},
           {&s->d.cu, &s->h.cu, (B + 1) * 4},
           {NULL, &s->page_space, (2 * B + 1) * P * 4},
           {NULL, &s->token_space, B * (size_t)s->opt.max_new * 4},
           {NULL, &s->logp_space, B * (size_t)s->opt.max_new * 4}};

  for (size_t i = 0; i < sizeof r / sizeof *r; i++) {
    if (r[i].device)
      TRI_TRY(tri_ledger_add(l, TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT, false, "decode staging", r[i].bytes,
                             r[i].device));
    TRI_TRY(
        tri_ledger_add(l, TRI_MEM_PINNED, TRI_PHASE_ROLLOUT, false, "decode staging", r[i].bytes, r[i].host));
  }
  return TRI_OK;
}

int64_t tri_sampler_prefill(int64_t n, int64_t max_prompt) {
  int64_t all = n * max_prompt;

  if (all > TRI_SAMPLER_PREFILL) all = TRI_SAMPLER_PREFILL;
  return all > max_prompt ? all : max_prompt;
}

tri_status tri_sampler_open(tri_device *d, tri_ledger *ledger, tri_model *m, tri_dtype dtype,
                            const tri_sampler_opt *opt, tri_sampler **out) {
  tri_sampler *s;

  TRI_ASSERT(opt->max_sequences > 0 && opt->max_prompt > 0 && opt->max_new > 0 &&
             opt->max_prefill >= opt->max_prompt);
  TRI_TRY(TRI_ALLOC(*out, 1));
  s = *out;
  s->device = d;
  s->model = m;
  s->opt = *opt;
  s->pages_each = pages_for(opt->max_prompt + opt->max_new);
  TRI_TRY(TRI_ALLOC(s->row, opt->max_sequences));
  TRI_TRY(TRI_ALLOC(s->prefix, opt->max_sequences + 1));
  TRI_TRY(tri_finished_open(ledger, opt->max_answers, opt->max_new, &s->finished));
  TRI_TRY(plan_buffers(s, ledger));
  /* There is one set of pages more than rows, because the prompt being started holds its own last page. */
  TRI_TRY(tri_kv_open(d, ledger, tri_model_get_shape(m), dtype, s->pages_each * (opt->max_sequences + 1),
                      &s->kv));
  return tri_decode_open(d, ledger, m, s->kv, opt->max_sequences, s->pages_each, &s->decode);
}

void tri_sampler_close(tri_sampler **s) {
  if (!*s) return;
  tri_decode_close(&(*s)->decode);
  tri_finished_close(&(*s)->finished);
  if ((*s)->h.copied) (*s)->device->ops->event_close(&(*s)->h.copied);
  tri_kv_close(&(*s)->kv);
  TRI_FREE((*s)->row);
  TRI_FREE((*s)->prefix);
  TRI_FREE(*s);
}

/* ---- starting answers ---- */

static tri_status take_page(tri_sampler *s, int32_t *page) {
  *page = tri_kv_take(s->kv);
  TRI_ASSERT(*page >= 0); /* planned for the full length of every row */
  return TRI_OK;
}

/* Appends the tokens of a prompt, except the last, to the n tokens already staged. */
static tri_status stage_prompt(tri_sampler *s, int prompt, int64_t *n) {
  const tri_prompt *p = &s->prompt[prompt];
  prefix           *f = &s->prefix[prompt - s->first_prefix];

  for (f->n_page = 0; f->n_page < pages_for(p->n_token - 1); f->n_page++)
    TRI_TRY(take_page(s, &f->page[f->n_page]));
  for (int i = 0; i < p->n_token - 1; i++, (*n)++) {
    s->h.token[*n] = p->token[i];
    s->h.pos[*n] = i;
    s->h.slot[*n] = f->page[i / TRI_PAGE] * TRI_PAGE + i % TRI_PAGE;
  }
  return TRI_OK;
}

/* Runs one forward pass over the staged prompts. */
static tri_status run_prefill(tri_sampler *s, int64_t n, int n_seq, tri_stream *stream) {
  const tri_device_ops *ops = s->device->ops;
  tri_batch             b = {.token = tri_view1(s->d.token, TRI_I32, n),
                             .pos = tri_view1(s->d.pos, TRI_I32, n),
                             .slot = tri_view1(s->d.slot, TRI_I32, n),
                             .cu = tri_view1(s->d.cu, TRI_I32, n_seq + 1)};

  if (!n) return TRI_OK;
  TRI_TRY(ops->copy(stream, s->d.token, s->h.token, (size_t)n * 4));
  TRI_TRY(ops->copy(stream, s->d.pos, s->h.pos, (size_t)n * 4));
  TRI_TRY(ops->copy(stream, s->d.slot, s->h.slot, (size_t)n * 4));
  TRI_TRY(ops->copy(stream, s->d.cu, s->h.cu, (size_t)(n_seq + 1) * 4));
  TRI_TRY(ops->event_record(s->h.copied, stream));
  return tri_model_prefill(s->model, &b, s->kv, stream);
}

/* Brings every prompt that the free rows will start into the cache. One forward pass takes as many as the
 * staging holds. */
static tri_status prefill(tri_sampler *s, tri_stream *stream) {
  int group = s->gen->group, rows = s->opt.max_sequences - s->n_row, next = s->first_prefix + s->n_prefix,
      n_seq = 0;
  int     most = s->started + rows < s->total ? s->started + rows : s->total, last = (most - 1) / group;
  int64_t n = 0;

  if (s->n_prefix && s->first_prefix < s->started / group) { /* prompts left from the round before */
    int     done = s->started / group - s->first_prefix;
    prefix *p = s->prefix;
    for (int i = 0; i + done < s->n_prefix; i++) {
      prefix spare = p[i];
      p[i] = p[i + done];
      p[i + done] = spare;
    }
    s->n_prefix -= done;
    s->first_prefix += done;
  }
  for (; next <= last; next++) {
    if (n_seq == s->opt.max_sequences || n + s->prompt[next].n_token - 1 > s->opt.max_prefill) {
      TRI_TRY(run_prefill(s, n, n_seq, stream));
      n = n_seq = 0;
    }
    if (!n_seq) TRI_TRY(s->device->ops->event_sync(s->h.copied)); /* the host buffers are filled again */
    s->h.cu[n_seq++] = (int32_t)n;
    TRI_TRY(stage_prompt(s, next, &n));
    s->h.cu[n_seq] = (int32_t)n;
    s->n_prefix++;
  }
  return run_prefill(s, n, n_seq, stream);
}

/* Gives the next answer a row. It shares the prompt's full pages and copies the last, unfinished page. The
 * last answer of a prompt takes that page over. */
static tri_status start_answer(tri_sampler *s, tri_stream *stream) {
  int     prompt = s->started / s->gen->group, sample = s->started % s->gen->group;
  int     full = (s->prompt[prompt].n_token - 1) / TRI_PAGE;
  bool    last = sample == s->gen->group - 1;
  row    *r = &s->row[s->n_row];
  prefix *f = &s->prefix[prompt - s->first_prefix];

  r->index = s->started++;
  r->n = r->given = 0;
  r->at[0] = r->at[1] = -1;
  r->next = s->prompt[prompt].token[s->prompt[prompt].n_token - 1];
  r->n_page = f->n_page;
  for (int i = 0; i < f->n_page; i++) {
    r->page[i] = f->page[i];
    if (!last && i < full) tri_kv_share(s->kv, r->page[i]);
    if (last || i < full) continue; /* the last answer takes over the prompt's own hold */
    TRI_TRY(take_page(s, &r->page[i]));
    TRI_TRY(tri_kv_copy(s->kv, r->page[i], f->page[i], stream));
  }
  return tri_decode_seat(s->decode, s->n_row++, r->page, r->n_page, stream);
}

/* ---- decode steps ---- */

static const tri_prompt *prompt_of(const tri_sampler *s, const row *r) {
  return &s->prompt[r->index / s->gen->group];
}

/* Returns whether the answer continues, before the tokens in flight are known. */
static bool goes_on(const tri_sampler *s, const row *r) { return r->given < s->gen->max_new; }

static bool any_goes_on(const tri_sampler *s) {
  for (int i = 0; i < s->n_row; i++)
    if (goes_on(s, &s->row[i])) return true;
  return false;
}

/* Stages the row's next draw. The token at position pos of the sequence enters the cache, and the drawn token
 * follows it. */
static tri_status stage_row(tri_sampler *s, int i, const tri_decode_rows *d) {
  row    *r = &s->row[i];
  int64_t pos = prompt_of(s, r)->n_token - 1 + r->given;

  r->at[d->turn] = -1;
  if (!goes_on(s, r)) return TRI_OK;
  if (pos / TRI_PAGE == r->n_page) TRI_TRY(take_page(s, &r->page[r->n_page++]));
  r->at[d->turn] = i;
  d->from[i] = r->at[!d->turn];
  d->token[i] = r->next;
  d->pos[i] = (int32_t)pos;
  d->slot[i] = r->page[pos / TRI_PAGE] * TRI_PAGE + (int32_t)(pos % TRI_PAGE);
  d->len[i] = (int32_t)pos + 1;
  d->key[3 * i] = prompt_of(s, r)->id;
  d->key[3 * i + 1] = r->index % s->gen->group;
  d->key[3 * i + 2] = r->given++;
  return TRI_OK;
}

static tri_status give_step(tri_sampler *s, tri_stream *stream) {
  tri_decode_rows d;

  tri_decode_stage(s->decode, s->n_row, &d);
  for (int i = 0; i < s->n_row; i++) TRI_TRY(stage_row(s, i, &d));
  return tri_decode_step(s->decode, &s->gen->rule, stream);
}

/* Returns whether the answer has ended with its newest token. */
static bool ended(const tri_sampler *s, const row *r, tri_stop_reason *why) {
  int32_t token = r->token[r->n - 1];

  for (int i = 0; i < s->gen->n_eos; i++)
    if (s->gen->eos[i] == token) {
      *why = TRI_STOP_EOS;
      return true;
    }
  if (s->gen->stop && s->gen->stop(s->gen->ctx, r->token, r->n)) {
    *why = TRI_STOP_STRING;
    return true;
  }
  *why = TRI_STOP_LENGTH;
  return r->n == s->gen->max_new;
}

static tri_status finish(tri_sampler *s, const row *r, tri_stop_reason why) {
  const int32_t *token;

  TRI_TRY(tri_finished_add(s->finished, r->index, r->token, r->logp, r->n, why, &token));
  for (int i = 0; i < r->n_page; i++) tri_kv_drop(s->kv, r->page[i]);
  return s->gen->finished ? s->gen->finished(s->gen->finished_ctx, r->index, token, r->n, why) : TRI_OK;
}

/* Removes finished row i. The last row takes its place, and buffers are exchanged instead of copied. A step
 * in flight may still hold the row. Its token is not read, and its writes come before those of the next owner
 * of the row's pages. */
static tri_status remove_row(tri_sampler *s, int i, tri_stream *stream) {
  row gone = s->row[i];

  s->row[i] = s->row[--s->n_row];
  s->row[s->n_row] = gone;
  return i < s->n_row ? tri_decode_move(s->decode, i, s->n_row, s->row[i].n_page, stream) : TRI_OK;
}

static tri_status check_drawn(const tri_sampler *s, const tri_decode_drawn *d) {
  const char *why =
      tri_params_options(tri_model_params(s->model))->dtype == TRI_F16
          ? "fp16 ends at 65504, and models trained in bf16 may exceed it. Set model.dtype or --dtype to "
            "bf16 or f32. Otherwise the model has diverged"
          : "the model has diverged. Lower the learning rate or start from an earlier checkpoint";

  for (int i = 0; i < s->n_row; i++) {
    const row *r = &s->row[i];
    if (r->at[d->turn] >= 0 && isnan(d->logp[r->at[d->turn]]))
      TRI_FAIL(
          TRI_ENUMERIC,
          "the logits of token %lld of answer %d to prompt_id %lld are not numbers (NaN, infinity, or all "
          "-infinity). Probable cause: %s",
          (long long)r->n, r->index % s->gen->group, (long long)prompt_of(s, r)->id, why);
  }
  return TRI_OK;
}

static tri_status take_step(tri_sampler *s, tri_stream *stream) {
  tri_decode_drawn d;

  TRI_TRY(tri_decode_take(s->decode, &d));
  TRI_TRY(check_drawn(s, &d));
  for (int i = s->n_row - 1; i >= 0; i--) {
    row            *r = &s->row[i];
    tri_stop_reason why;
    if (r->at[d.turn] < 0) continue; /* the answer began after this step */
    r->token[r->n] = d.token[r->at[d.turn]];
    r->logp[r->n++] = d.logp[r->at[d.turn]];
    if (!ended(s, r, &why)) continue;
    TRI_TRY(finish(s, r, why));
    TRI_TRY(remove_row(s, i, stream));
  }
  return TRI_OK;
}

/* ---- a generation ---- */

static tri_status begin(tri_sampler *s, const tri_prompt *prompt, int n_prompt, const tri_generate_opt *gen,
                        tri_stream *stream) {
  int32_t *space = s->page_space;

  TRI_TRY(tri_finished_begin(s->finished, (int64_t)n_prompt * gen->group));
  s->prompt = prompt;
  s->gen = gen;
  s->started = s->n_row = s->first_prefix = s->n_prefix = 0;
  s->total = n_prompt * gen->group;
  tri_kv_reset(s->kv);
  for (int i = 0; i < s->opt.max_sequences; i++) {
    s->row[i].page = space;
    space += s->pages_each;
    s->row[i].token = s->token_space + (int64_t)i * s->opt.max_new;
    s->row[i].logp = s->logp_space + (int64_t)i * s->opt.max_new;
  }
  for (int i = 0; i <= s->opt.max_sequences; i++) {
    s->prefix[i].page = space;
    space += s->pages_each;
  }
  if (!s->h.copied) TRI_TRY(s->device->ops->event_open(s->device, &s->h.copied));
  return tri_decode_begin(s->decode, stream);
}

tri_status tri_sampler_generate(tri_sampler *s, const tri_prompt *prompt, int n_prompt,
                                const tri_generate_opt *gen, tri_stream *stream, tri_rollout *out) {
  tri_status st = TRI_OK, end;

  TRI_ASSERT(gen->max_new <= s->opt.max_new && gen->group > 0);
  TRI_TRY(tri_model_hold(s->model, true, stream));
  TRI_TRY_DONE(begin(s, prompt, n_prompt, gen, stream));
  while (s->started < s->total || s->n_row) {
    if (gen->halt && gen->halt(gen->halt_ctx)) goto done;
    if (gen->progress) gen->progress(gen->progress_ctx, s->started - s->n_row, s->total);
    if (s->started < s->total && s->n_row < s->opt.max_sequences) TRI_TRY_DONE(prefill(s, stream));
    while (s->started < s->total && s->n_row < s->opt.max_sequences) TRI_TRY_DONE(start_answer(s, stream));
    while (any_goes_on(s) && tri_decode_may_give(s->decode)) TRI_TRY_DONE(give_step(s, stream));
    TRI_TRY_DONE(take_step(s, stream));
  }
  TRI_TRY_DONE(tri_finished_collect(s->finished, prompt, gen->group, out));
done:
  end = tri_decode_end(s->decode, stream); /* the next call may have other weights at another address */
  if (st == TRI_OK) st = end;
  tri_finished_end(s->finished);
  end = tri_model_hold(s->model, false, stream); /* the other ranks release theirs too */
  return st == TRI_OK ? end : st;
}
