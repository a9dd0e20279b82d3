/* rows.c - the answers that run, and the pages they hold: who starts, grows, ends and gives up.
 *
 * There is one path into the cache. All known tokens of an answer but the last are prefilled, those of its
 * prompt too. The last one is its first decode row. So no prefill needs the head, and an answer that lost its
 * pages starts again in the same way.
 *
 * Answers to one prompt share its full pages. Those that begin together share its prefill too. The prompt is
 * kept while such an answer waits, and each copies the last, unfinished page. The last of them takes that
 * page over. An answer that starts again while others hold the prompt's full pages shares these, and computes
 * their tokens without writing them.
 *
 * A state of recurrent layers holds exactly the tokens in the cache. Every prefill begins with a sequence's
 * first token, so it leaves such a state. A kept prompt has a state. Answers that start with it copy the
 * state, and the last one takes it over. There is a state for each row and one for a kept prompt. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "rows.h"

static int64_t pages_for(int64_t tokens) { return (tokens + TRI_PAGE - 1) / TRI_PAGE; }

/* Returns the number of tokens known of an answer with its prompt. */
static int64_t known(const tri_request *r) { return r->prompt->n_token + r->n; }

/* Returns the pages that a prompt's tokens before the last fill, and those they begin. */
static int full_pages(const tri_prompt *p) { return (p->n_token - 1) / TRI_PAGE; }
static int all_pages(const tri_prompt *p) { return (int)pages_for(p->n_token - 1); }

/* Returns a state for a row or a kept prompt, or -1 in a model without recurrent layers. */
static int32_t take_state(tri_sampler *s) {
  int32_t state = tri_kv_take_state(s->kv);

  TRI_ASSERT((state >= 0) == (s->states > 0)); /* there is one for each row and for one prompt */
  return state;
}

static void drop_state(tri_sampler *s, int32_t *state) {
  if (*state >= 0) tri_kv_drop_state(s->kv, *state);
  *state = -1;
}

static int32_t take_page(tri_sampler *s) {
  int32_t page = tri_kv_take(s->kv);

  TRI_ASSERT(page >= 0); /* counted before */
  return page;
}

/* ---- prompts in the cache ---- */

static int n_prefix(const tri_sampler *s) { return s->opt.max_sequences + 1; }

/* Returns the prompt in the cache, or NULL. With prompt NULL it returns an unused entry. There is always one,
 * because each entry has a row, or an answer that gave its row up, or it is the newest. */
static tri_prefix *find_prefix(const tri_sampler *s, const tri_prompt *prompt) {
  for (int i = 0; i < n_prefix(s); i++)
    if (s->prefix[i].prompt == prompt) return &s->prefix[i];
  TRI_ASSERT(prompt);
  return NULL;
}

static tri_prefix *add_prefix(tri_sampler *s, const tri_prompt *prompt) {
  tri_prefix *f = find_prefix(s, NULL);

  f->prompt = prompt;
  f->n_row = 0;
  f->kept = false;
  f->state = -1;
  return f;
}

/* Returns whether answer `order` is followed by an answer to its prompt that waits and has no tokens. Answers
 * to one prompt stand together in the queue. */
static bool is_followed(const tri_sampler *s, int64_t order) {
  const tri_prompt *p = s->queue[order]->prompt;

  for (int64_t i = order + 1; i < s->n_queue && s->queue[i]->prompt == p; i++)
    if (s->queue[i]->state == TRI_REQUEST_QUEUED && s->queue[i]->n == 0) return true;
  return false;
}

/* Counts n tokens that answer `order` sends to the cache, if they were there before. Its prompt was if an
 * older answer to it has started. */
static void count_again(tri_sampler *s, int64_t order, int64_t n) {
  const tri_request *r = s->queue[order];
  bool               lost = r->cached > 0, met = order > 0 && s->queue[order - 1]->prompt == r->prompt;

  s->recomputed += lost ? n : met ? r->prompt->n_token - 1 : 0;
}

static void forget_prefix_if_unused(tri_prefix *f) {
  if (!f->kept && !f->n_row) f->prompt = NULL;
}

static void drop_kept(tri_sampler *s, tri_prefix *f) {
  for (int i = 0; i < all_pages(f->prompt); i++) tri_kv_drop(s->kv, f->page[i]);
  drop_state(s, &f->state);
  f->kept = false;
  forget_prefix_if_unused(f);
}

/* Makes free the state of kept prompts, before answer `order` keeps its own. Other kept prompts are those of
 * younger answers, which prefill them again. A prompt of older answers was taken over by the last of them. */
static void free_state(tri_sampler *s, int64_t order) {
  for (int i = 0; i < n_prefix(s) && s->states; i++) {
    if (!s->prefix[i].kept) continue;
    TRI_ASSERT(s->prefix[i].order > order); /* no row is about to copy it */
    drop_kept(s, &s->prefix[i]);
  }
}

/* Brings the prompt of answer `order` into the cache and keeps it. */
static tri_status keep_prompt(tri_sampler *s, int64_t order, tri_prefix *f) {
  const tri_request *r = s->queue[order];
  tri_request        prompt = {.prompt = r->prompt};
  int                shared = f ? full_pages(r->prompt) : 0, all = all_pages(r->prompt);

  free_state(s, order);
  if (!f) f = add_prefix(s, r->prompt);
  for (int i = 0; i < shared; i++) tri_kv_share(s->kv, f->page[i]);
  for (int i = shared; i < all; i++) f->page[i] = take_page(s);
  f->kept = true;
  f->order = order;
  f->state = take_state(s);
  count_again(s, order, r->prompt->n_token - 1);
  return tri_prefill_add(s->prefill, &prompt, r->prompt->n_token - 1, f->page, shared, f->state, s->stream);
}

/* ---- starting answers ---- */

/* Returns the pages that answer `order` takes when it starts, with the page of its first decode row. */
static int64_t pages_to_start(const tri_sampler *s, int64_t order) {
  const tri_request *r = s->queue[order];
  const tri_prefix  *f = find_prefix(s, r->prompt);
  int64_t            pages = pages_for(known(r)) - (f ? full_pages(r->prompt) : 0);
  int64_t            part = all_pages(r->prompt) - full_pages(r->prompt);

  if (r->n) return pages;
  if (f && f->kept) return is_followed(s, order) ? pages : pages - part; /* the last takes it over */
  return is_followed(s, order) ? pages + part : pages;
}

static void join_prefix(tri_row *w, tri_prefix *f) {
  w->prefix = f;
  f->n_row++;
}

/* The row shares a kept prompt. */
static void share_prompt(tri_sampler *s, tri_row *w, tri_prefix *f) {
  int  full = full_pages(f->prompt), all = all_pages(f->prompt);
  bool last = !is_followed(s, w->order);

  for (int i = 0; i < all; i++) {
    w->page[i] = f->page[i];
    if (last) continue; /* it takes over the prompt's own hold */
    if (i < full) {
      tri_kv_share(s->kv, w->page[i]);
    } else {
      w->page[i] = take_page(s);
      w->copy_from = f->page[i];
    }
  }
  w->n_page = all;
  w->state = last ? f->state : take_state(s);
  w->begins_as = last ? -1 : f->state;
  if (last) f->state = -1;
  f->kept = !last;
  f->order = w->order;
  join_prefix(w, f);
}

/* The row prefills all its tokens but the last. It shares the prompt's full pages if f holds them. */
static tri_status prefill_alone(tri_sampler *s, tri_row *w, tri_prefix *f) {
  const tri_request *r = w->request;
  int64_t            n = known(r) - 1;
  int                shared = f ? full_pages(r->prompt) : 0;

  for (int i = 0; i < shared; i++) {
    w->page[i] = f->page[i];
    tri_kv_share(s->kv, w->page[i]);
  }
  for (w->n_page = shared; w->n_page < pages_for(n); w->n_page++) w->page[w->n_page] = take_page(s);
  if (!f && full_pages(r->prompt)) {
    f = add_prefix(s, r->prompt);
    for (int i = 0; i < full_pages(r->prompt); i++) f->page[i] = w->page[i];
    f->order = w->order;
  }
  if (f) join_prefix(w, f);
  count_again(s, w->order, n);
  w->state = take_state(s);
  return tri_prefill_add(s->prefill, r, n, w->page, shared, w->state, s->stream);
}

/* Gives the answer a row and its pages. */
static tri_status start_answer(tri_sampler *s, int64_t order) {
  tri_request *r = s->queue[order];
  tri_prefix  *f = find_prefix(s, r->prompt);
  tri_row     *w = &s->row[s->n_row];
  int64_t      cached = known(r) - 1;

  tri_request_memory_take(s->memory, r);
  if (!r->n && !(f && f->kept) && is_followed(s, order)) {
    TRI_TRY(keep_prompt(s, order, f));
    f = find_prefix(s, r->prompt);
  }
  s->n_row++;
  w->request = r;
  w->order = order;
  w->given = r->n;
  w->at[0] = w->at[1] = w->copy_from = w->state = w->begins_as = -1;
  w->next = r->n ? r->token[r->n - 1] : r->prompt->token[r->prompt->n_token - 1];
  w->n_page = 0;
  w->prefix = NULL;
  r->state = TRI_REQUEST_RUNS;
  if (!r->n && f && f->kept)
    share_prompt(s, w, f);
  else
    TRI_TRY(prefill_alone(s, w, f));
  r->cached = cached;
  return TRI_OK;
}

/* Not collective. Copies the row's part of a kept prompt and gives its pages to the decode steps. */
static tri_status seat(tri_sampler *s, int i) {
  tri_row *w = &s->row[i];

  if (w->copy_from >= 0) TRI_TRY(tri_kv_copy(s->kv, w->page[w->n_page - 1], w->copy_from, s->stream));
  if (w->begins_as >= 0) TRI_TRY(tri_kv_copy_state(s->kv, w->state, w->begins_as, s->stream));
  return tri_decode_seat(s->decode, i, w->page, w->n_page, s->stream);
}

/* Takes the kept pages of another prompt, which are in the way of the oldest waiting answer. */
static void clear_way(tri_sampler *s, const tri_seat *oldest) {
  int victim;

  s->seat[0] = *oldest;
  for (int i = 0; i < n_prefix(s); i++) {
    const tri_prefix *f = &s->prefix[i];
    s->seat[i + 1] = (tri_seat){2 * f->order + 1, 1, f->kept ? TRI_REQUEST_PARKED : TRI_REQUEST_DONE};
  }
  victim = tri_schedule_victim(s->seat, n_prefix(s) + 1);
  TRI_ASSERT(victim > 0); /* the cache holds the longest sequence and a prompt */
  drop_kept(s, &s->prefix[victim - 1]);
}

/* Returns whether an answer waits, and finds the oldest. */
static bool find_waiting(tri_sampler *s) {
  while (s->waits < s->n_queue && s->queue[s->waits]->state != TRI_REQUEST_QUEUED) s->waits++;
  return s->waits < s->n_queue;
}

tri_status tri_rows_start(tri_sampler *s) {
  int first = s->n_row;

  if (s->n_row == s->opt.max_sequences || !find_waiting(s)) return TRI_OK;
  if (s->gave_up) TRI_TRY(s->device->ops->event_sync(s->seated)); /* page lists are written again */
  s->gave_up = false;
  while (s->n_row < s->opt.max_sequences && find_waiting(s)) {
    tri_seat oldest = {2 * s->waits, pages_to_start(s, s->waits), TRI_REQUEST_QUEUED};
    int      rows_free = s->opt.max_sequences - s->n_row;
    if (tri_schedule_next(&oldest, 1, rows_free, tri_kv_free(s->kv), tri_rows_reserve(s)) == 0) {
      TRI_TRY(start_answer(s, s->waits));
      continue;
    }
    if (s->n_row) break;
    clear_way(s, &oldest);
  }
  TRI_TRY(tri_prefill_run(s->prefill, s->stream));
  for (int i = first; i < s->n_row; i++) TRI_TRY(seat(s, i));
  return TRI_OK;
}

/* ---- growing and giving up ---- */

bool tri_rows_go_on(const tri_sampler *s, const tri_row *w) { return w->given < s->gen.max_new; }

/* Returns the position of the next token to enter the cache. */
static int64_t next_position(const tri_row *w) { return w->request->prompt->n_token - 1 + w->given; }

int64_t tri_rows_reserve(const tri_sampler *s) {
  int64_t n = 0;

  for (int i = 0; i < s->n_row; i++) {
    const tri_row *w = &s->row[i];
    n += tri_rows_go_on(s, w) && w->n_page < pages_for(w->request->prompt->n_token - 1 + s->gen.max_new);
  }
  return n;
}

static bool begins_page(const tri_sampler *s, const tri_row *w) {
  return tri_rows_go_on(s, w) && next_position(w) / TRI_PAGE == w->n_page;
}

void tri_rows_grow(tri_sampler *s, tri_row *w, int64_t pos) {
  if (pos / TRI_PAGE == w->n_page) w->page[w->n_page++] = take_page(s);
}

static void drop_pages(tri_sampler *s, tri_row *w) {
  for (int i = 0; i < w->n_page; i++) tri_kv_drop(s->kv, w->page[i]);
  w->n_page = 0;
  drop_state(s, &w->state);
  if (!w->prefix) return;
  w->prefix->n_row--;
  forget_prefix_if_unused(w->prefix);
}

/* The last row takes the place of the removed one, and buffers are exchanged instead of copied. A step in
 * flight may still hold the row. Its token is not read, and its writes come before those of the next owner of
 * the row's pages. */
tri_status tri_rows_remove(tri_sampler *s, int i) {
  tri_row gone = s->row[i];

  drop_pages(s, &gone);
  s->row[i] = s->row[--s->n_row];
  s->row[s->n_row] = gone;
  return i < s->n_row ? tri_decode_move(s->decode, i, s->n_row, s->row[i].n_page, s->stream) : TRI_OK;
}

/* Row i gives its pages up and its answer waits again. The tokens of steps in flight will be drawn again, and
 * the same keys draw the same tokens. */
static tri_status give_up(tri_sampler *s, int i) {
  tri_row *w = &s->row[i];

  w->request->state = TRI_REQUEST_QUEUED;
  w->request->cached = next_position(w);
  if (w->order < s->waits) s->waits = w->order;
  s->preempted++;
  s->gave_up = true;
  TRI_TRY(s->device->ops->event_record(s->seated, s->stream));
  return tri_rows_remove(s, i);
}

static int64_t pages_alone(const tri_sampler *s, const int32_t *page, int n) {
  int64_t alone = 0;

  for (int i = 0; i < n; i++) alone += !tri_kv_is_shared(s->kv, page[i]);
  return alone;
}

/* Lists all rows, then all prompts. A kept prompt is younger than the newest answer that started with it. */
static int list_seats(const tri_sampler *s) {
  int n = 0;

  for (int i = 0; i < s->n_row; i++, n++) {
    const tri_row *w = &s->row[i];
    s->seat[n] = (tri_seat){2 * w->order, pages_alone(s, w->page, w->n_page), TRI_REQUEST_RUNS};
  }
  for (int i = 0; i < n_prefix(s); i++, n++) {
    const tri_prefix *f = &s->prefix[i];
    s->seat[n] = (tri_seat){.state = TRI_REQUEST_DONE};
    if (f->prompt && f->kept)
      s->seat[n] =
          (tri_seat){2 * f->order + 1, pages_alone(s, f->page, all_pages(f->prompt)), TRI_REQUEST_PARKED};
  }
  return n;
}

tri_status tri_rows_make_space(tri_sampler *s) {
  for (;;) {
    int64_t wanted = 0;
    int     victim;
    for (int i = 0; i < s->n_row; i++) wanted += begins_page(s, &s->row[i]);
    if (wanted <= tri_kv_free(s->kv)) return TRI_OK;
    victim = tri_schedule_victim(s->seat, list_seats(s));
    TRI_ASSERT(victim >= 0); /* the cache holds the longest sequence */
    if (victim < s->n_row)
      TRI_TRY(give_up(s, victim));
    else
      drop_kept(s, &s->prefix[victim - s->n_row]);
  }
}

/* ---- begin and end ---- */

void tri_rows_begin(tri_sampler *s) {
  int32_t *space = s->page_space;

  tri_kv_reset(s->kv);
  s->n_row = 0;
  s->gave_up = false;
  for (int i = 0; i < s->opt.max_sequences; i++, space += s->pages_each) s->row[i] = (tri_row){.page = space};
  for (int i = 0; i < n_prefix(s); i++, space += s->pages_each) s->prefix[i] = (tri_prefix){.page = space};
}

void tri_rows_end(tri_sampler *s) {
  while (s->n_row) {
    tri_row *w = &s->row[--s->n_row];
    w->request->state = TRI_REQUEST_QUEUED;
    drop_pages(s, w);
  }
  for (int i = 0; i < n_prefix(s); i++)
    if (s->prefix[i].kept) drop_kept(s, &s->prefix[i]);
  TRI_ASSERT(tri_kv_free(s->kv) == s->pages && tri_kv_free_states(s->kv) == s->states); /* none was lost */
}
