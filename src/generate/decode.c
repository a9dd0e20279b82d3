/* decode.c - decode steps: their arrays, the model's forward pass and the draw of tokens. On a GPU the next
 * step is launched before the host knows the tokens of the last one. A row's next token passes from step to
 * step on the device, where the page tables of all rows are too. Rows do not depend on each other, so the
 * extra rows of a recording change no result. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "decode.h"
#include "base/host_memory.h"
#include "device/gpu_plan.h"
#include "device/trace.h"
#include "recorded.h"

#include <string.h>

enum {
  ALIGN = 16, /* bytes, alignment of each array, chosen above the size of any element */
  AHEAD = 2   /* most steps launched and not yet taken */
};

/* The arrays of a step, one after another in this order. ROW is 0 .. B, the B rows and the B + 1 bounds of
 * their sequences. */
enum { KEY, FROM, TOKEN, POS, SLOT, LEN, STATE, FRESH, ROW, N_PARTS };

/* Pinned memory of one step in flight, and the event of its results. */
typedef struct pending {
  char      *block; /* its arrays */
  int32_t   *token; /* [max_rows] */
  float     *logp;  /* [max_rows] */
  tri_event *done;
} pending;

struct tri_decode {
  tri_device       *device; /* borrowed */
  tri_device_advice advice; /* advice of the device */
  tri_model        *model;  /* borrowed */
  tri_kv           *kv;     /* borrowed */
  int64_t           max_rows, max_pages;
  char             *block;          /* device, the arrays of a step */
  int32_t          *table;          /* device [max_rows,max_pages] */
  tri_tensor        work;           /* device f32, workspace of attn_decode. No data without spread steps */
  tri_heads         heads;          /* the model's heads */
  int               ahead;          /* steps in flight on this device, at most AHEAD */
  pending           pending[AHEAD]; /* [ahead], used in turn */
  tri_recorded     *recorded;
  int64_t           n_given, n_taken;
  tri_tensor        drawn; /* device i32 [max_rows], tokens of the last launched step, data NULL before it */
  float            *logp;  /* device, its log-probabilities */
  /* the staged step */
  int64_t rows; /* rows with padding */
  bool    spread;
};

/* Gives the offsets of a step's arrays and returns their total bytes. */
static size_t layout(int64_t rows, size_t at[N_PARTS]) {
  const int64_t row_bytes[N_PARTS] = {24, 4, 4, 4, 4, 4, 4, 4, 4};
  size_t        end = 0;

  for (int i = 0; i < N_PARTS; i++) {
    at[i] = end;
    end += (size_t)((rows + (i == ROW)) * row_bytes[i] + ALIGN - 1) / ALIGN * ALIGN;
  }
  return end;
}

tri_status tri_decode_open(tri_device *d, tri_ledger *l, tri_model *m, tri_kv *kv, int64_t max_rows,
                           int64_t max_pages, tri_decode **out) {
  const tri_phase phase = TRI_PHASE_ROLLOUT;
  const char     *name = "decode staging";
  tri_decode     *c;
  size_t          at[N_PARTS], bytes = layout(max_rows, at), each = (size_t)max_rows * 4;
  int64_t         n_work;

  TRI_TRY(TRI_ALLOC(*out, 1));
  c = *out;
  c->heads = tri_model_attention(m, TRI_GLOBAL).heads;
  n_work = tri_gpu_spread_work(d, &c->heads, max_rows, max_pages);
  c->work = tri_view1(NULL, TRI_F32, n_work);
  c->device = d;
  d->ops->advice(d, &c->advice);
  c->model = m;
  c->kv = kv;
  c->max_rows = max_rows;
  c->max_pages = max_pages;
  c->ahead = tri_device_is_gpu(d) ? AHEAD : 1;
  TRI_TRY(tri_recorded_open(d, tri_model_tensor(m), max_rows, &c->recorded));
  TRI_TRY(tri_ledger_add(l, TRI_MEM_DEVICE, phase, false, name, bytes, (void **)&c->block));
  TRI_TRY(
      tri_ledger_add(l, TRI_MEM_DEVICE, phase, false, name, each * (size_t)max_pages, (void **)&c->table));
  TRI_TRY(tri_ledger_add(l, TRI_MEM_DEVICE, phase, false, name, (size_t)n_work * 4, &c->work.data));
  for (pending *p = c->pending; p < c->pending + c->ahead; p++) {
    TRI_TRY(tri_ledger_add(l, TRI_MEM_PINNED, phase, false, name, bytes, (void **)&p->block));
    TRI_TRY(tri_ledger_add(l, TRI_MEM_PINNED, phase, false, name, each, (void **)&p->token));
    TRI_TRY(tri_ledger_add(l, TRI_MEM_PINNED, phase, false, name, each, (void **)&p->logp));
  }
  return TRI_OK;
}

void tri_decode_close(tri_decode **d) {
  if (!*d) return;
  for (int i = 0; i < AHEAD; i++)
    if ((*d)->pending[i].done) (*d)->device->ops->event_close(&(*d)->pending[i].done);
  tri_recorded_close(&(*d)->recorded);
  TRI_FREE(*d);
}

tri_status tri_decode_begin(tri_decode *d, tri_stream *s) {
  const tri_device_ops *ops = d->device->ops;

  d->n_given = d->n_taken = 0;
  d->drawn = (tri_tensor){0};
  for (pending *p = d->pending; p < d->pending + d->ahead; p++)
    if (!p->done) TRI_TRY(ops->event_open(d->device, &p->done));
  /* idle rows read page 0, so it must be a valid entry */
  return ops->fill(s, d->table, 0, (size_t)(d->max_rows * d->max_pages) * 4);
}

tri_status tri_decode_end(tri_decode *d, tri_stream *s) {
  tri_status st = d->device->ops->stream_sync(s);

  tri_recorded_forget(d->recorded);
  return st;
}

tri_status tri_decode_seat(tri_decode *d, int64_t row, const int32_t *page, int64_t n, tri_stream *s) {
  TRI_ASSERT(row < d->max_rows && n <= d->max_pages);
  return d->device->ops->copy(s, d->table + row * d->max_pages, page, (size_t)n * 4);
}

tri_status tri_decode_move(tri_decode *d, int64_t to, int64_t from, int64_t n, tri_stream *s) {
  return tri_decode_seat(d, to, d->table + from * d->max_pages, n, s);
}

bool tri_decode_may_give(const tri_decode *d) { return d->n_given - d->n_taken < d->ahead; }

static int32_t *array_at(const pending *p, size_t at) { return (int32_t *)(void *)(p->block + at); }

void tri_decode_stage(tri_decode *d, int64_t B, tri_decode_rows *out) {
  const pending *p = &d->pending[d->n_given % d->ahead];
  size_t         at[N_PARTS];
  int32_t       *row;

  TRI_ASSERT(B > 0 && B <= d->max_rows && tri_decode_may_give(d));
  d->rows = tri_recorded_rows(d->recorded, B);
  layout(d->rows, at);
  *out = (tri_decode_rows){.key = (int64_t *)(void *)(p->block + at[KEY]),
                           .from = array_at(p, at[FROM]),
                           .token = array_at(p, at[TOKEN]),
                           .pos = array_at(p, at[POS]),
                           .slot = array_at(p, at[SLOT]),
                           .len = array_at(p, at[LEN]),
                           .state = array_at(p, at[STATE]),
                           .fresh = array_at(p, at[FRESH]),
                           .turn = (int)(d->n_given % 2)};
  row = array_at(p, at[ROW]);
  memset(out->key, 0, (size_t)d->rows * 3 * sizeof *out->key);
  for (int64_t i = 0; i < d->rows; i++) { /* an idle row reads one token of some page */
    row[i] = (int32_t)i;
    out->token[i] = out->pos[i] = 0;
    out->from[i] = out->slot[i] = out->state[i] = -1;
    out->len[i] = 1;
    out->fresh[i] = 0;
  }
  row[d->rows] = (int32_t)d->rows;
}

typedef struct step_of {
  tri_decode            *d;
  const tri_sample_rule *rule;
} step_of;

/* Launches the step with the arrays on the device. ctx is a step_of. */
static tri_status give_step(void *ctx, tri_stream *s) {
  const step_of *of = ctx;
  tri_decode    *d = of->d;
  int64_t        B = d->rows;
  size_t         at[N_PARTS];
  (void)layout(B, at);
  tri_tensor key = tri_view2(d->block + at[KEY], TRI_I64, B, 3),
             from = tri_view1(d->block + at[FROM], TRI_I32, B), token, logp;
  tri_batch b = {.token = tri_view1(d->block + at[TOKEN], TRI_I32, B),
                 .pos = tri_view1(d->block + at[POS], TRI_I32, B),
                 .slot = tri_view1(d->block + at[SLOT], TRI_I32, B),
                 .len = tri_view1(d->block + at[LEN], TRI_I32, B),
                 .row = tri_view1(d->block + at[ROW], TRI_I32, B),
                 .cu = tri_view1(d->block + at[ROW], TRI_I32, B + 1),
                 .state = tri_view1(d->block + at[STATE], TRI_I32, B),
                 .fresh = tri_view1(d->block + at[FRESH], TRI_I32, B),
                 .table = tri_view2(d->table, TRI_I32, B, d->max_pages)};

  if (d->spread) b.work = d->work;

  TRI_TRY(d->device->ops->kernels->decode_in(s, &b.token, &b.table, d->drawn.data ? &d->drawn : &b.token,
                                             &from, &b.pos, &b.slot));
  TRI_TRY(tri_model_decode(d->model, &b, d->kv, &key, of->rule, &token, &logp, s));
  d->drawn = tri_view1(token.data, TRI_I32, d->max_rows);
  d->logp = logp.data;
  return TRI_OK;
}

/* Returns whether the step has few rows and a long context, and so is spread. */
static bool spreads(const tri_decode *d, const int32_t *len) {
  int32_t longest = 0;

  for (int64_t i = 0; i < d->rows; i++) longest = len[i] > longest ? len[i] : longest;
  return d->work.data && tri_attn_spreads(&d->advice, &d->heads, d->rows, longest);
}

tri_status tri_decode_step(tri_decode *d, const tri_sample_rule *rule, tri_stream *s) {
  const tri_device_ops *ops = d->device->ops;
  pending              *p = &d->pending[d->n_given % d->ahead];
  step_of               of = {d, rule};
  size_t                at[N_PARTS], bytes = layout(d->rows, at), each = (size_t)d->rows * 4;
  int                   span;

  span = tri_trace_begin(d->device->trace, TRI_LANE_COMPUTE, (tri_trace_note){.what = "decode"}, s);
  TRI_TRY(ops->copy(s, d->block, p->block, bytes));
  d->spread = spreads(d, array_at(p, at[LEN]));
  TRI_TRY(tri_recorded_run(d->recorded, d->spread, d->rows, give_step, &of, s));
  tri_trace_end(d->device->trace, span, s);
  TRI_TRY(ops->copy(s, p->token, d->drawn.data, each));
  TRI_TRY(ops->copy(s, p->logp, d->logp, each));
  d->n_given++;
  return ops->event_record(p->done, s);
}

tri_status tri_decode_take(tri_decode *d, tri_decode_drawn *out) {
  const pending *p = &d->pending[d->n_taken % d->ahead];

  TRI_ASSERT(d->n_taken < d->n_given);
  *out = (tri_decode_drawn){.token = p->token, .logp = p->logp, .turn = (int)(d->n_taken++ % 2)};
  return d->device->ops->event_sync(p->done);
}
