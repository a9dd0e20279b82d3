/* decode.c - one decode step: its arrays in one block, the model, the draw; on a GPU, steps recorded and run
 * again. On a device that records, a step has one of a few numbers of rows and always max_pages pages a row,
 * so that few recordings serve all steps. Rows do not depend on their company, so padding changes no
 * result. */
#include "decode.h"
#include "device/trace.h"

#include <string.h>

enum { ALIGN = 16 }; /* of each array, bytes; chosen: more than any element */

/* The arrays of a step, behind each other in this order. */
enum { KEY, TOKEN, POS, SLOT, LEN, ROW, TABLE, N_PARTS };

/* Steps of one number of rows. */
typedef struct recorded {
  bool       met; /* in this generation */
  tri_graph *graph;
} recorded;

struct tri_decode {
  tri_device *device; /* borrowed */
  tri_model  *model;  /* borrowed */
  tri_kv     *kv;     /* borrowed */
  int64_t     max_rows, max_pages;
  char       *d_block, *h_block; /* device, pinned: the arrays of a step */
  int32_t    *h_drawn;           /* pinned [max_rows] */
  float      *h_logp;            /* pinned [max_rows] */
  bool        records;           /* the device does */
  bool        refused;           /* but not this model's steps */
  recorded   *step;              /* [max_rows + 1], by rows */
  /* the step that is staged */
  int64_t rows, pages; /* padding included */
};

/* Where the arrays of a step begin; returns their bytes. */
static size_t layout(int64_t rows, int64_t pages, size_t at[N_PARTS]) {
  const int64_t row_bytes[N_PARTS] = {24, 4, 4, 4, 4, 4, 4 * pages};
  size_t        end = 0;

  for (int i = 0; i < N_PARTS; i++) {
    at[i] = end;
    end += (size_t)(rows * row_bytes[i] + ALIGN - 1) / ALIGN * ALIGN;
  }
  return end;
}

tri_status tri_decode_open(tri_device *d, tri_ledger *l, tri_model *m, tri_kv *kv, int64_t max_rows,
                           int64_t max_pages, tri_decode **out) {
  const tri_phase phase = TRI_PHASE_ROLLOUT;
  const char     *name = "decode staging";
  tri_decode     *c;
  size_t          at[N_PARTS], bytes = layout(max_rows, max_pages, at), each = (size_t)max_rows * 4;

  TRI_TRY(TRI_ALLOC(*out, 1));
  c = *out;
  c->device = d;
  c->model = m;
  c->kv = kv;
  c->max_rows = max_rows;
  c->max_pages = max_pages;
  c->records = d->ops->graph_record != NULL;
  TRI_TRY(TRI_ALLOC(c->step, max_rows + 1));
  TRI_TRY(tri_ledger_add(l, TRI_MEM_DEVICE, phase, false, name, bytes, (void **)&c->d_block));
  TRI_TRY(tri_ledger_add(l, TRI_MEM_PINNED, phase, false, name, bytes, (void **)&c->h_block));
  TRI_TRY(tri_ledger_add(l, TRI_MEM_PINNED, phase, false, name, each, (void **)&c->h_drawn));
  return tri_ledger_add(l, TRI_MEM_PINNED, phase, false, name, each, (void **)&c->h_logp);
}

void tri_decode_forget(tri_decode *d) {
  for (int64_t i = 0; i <= d->max_rows; i++) {
    if (d->step[i].graph) d->device->ops->graph_close(&d->step[i].graph);
    d->step[i].met = false;
  }
}

void tri_decode_close(tri_decode **d) {
  if (!*d) return;
  if ((*d)->step) tri_decode_forget(*d);
  TRI_FREE((*d)->step);
  TRI_FREE(*d);
}

/* Rows of the step that serves n rows. Chosen: 1 to 15, then steps of 1/8 of the power of two at or below n:
 * 47 sizes up to 256 rows, of which at most 1/9 is padding. */
static int64_t padded(const tri_decode *d, int64_t n) {
  int64_t step = 1;

  if (!d->records) return n;
  while (16 * step <= n) step *= 2;
  n = (n + step - 1) / step * step;
  return n < d->max_rows ? n : d->max_rows;
}

void tri_decode_stage(tri_decode *d, int64_t B, int64_t P, tri_decode_rows *out) {
  size_t   at[N_PARTS];
  int32_t *row;

  TRI_ASSERT(B > 0 && B <= d->max_rows && P <= d->max_pages);
  d->rows = padded(d, B);
  d->pages = d->records ? d->max_pages : P;
  layout(d->rows, d->pages, at);
  *out = (tri_decode_rows){.key = (int64_t *)(void *)(d->h_block + at[KEY]),
                           .token = (int32_t *)(void *)(d->h_block + at[TOKEN]),
                           .pos = (int32_t *)(void *)(d->h_block + at[POS]),
                           .slot = (int32_t *)(void *)(d->h_block + at[SLOT]),
                           .len = (int32_t *)(void *)(d->h_block + at[LEN]),
                           .table = (int32_t *)(void *)(d->h_block + at[TABLE]),
                           .P = d->pages,
                           .drawn = d->h_drawn,
                           .logp = d->h_logp};
  row = (int32_t *)(void *)(d->h_block + at[ROW]);
  for (int64_t i = 0; i < d->rows; i++) row[i] = (int32_t)i;
  for (int64_t i = B; i < d->rows;
       i++) { /* padding: writes nothing to the cache, reads one token of page 0 */
    out->token[i] = out->pos[i] = 0;
    out->slot[i] = -1;
    out->len[i] = 1;
    memset(out->key + 3 * i, 0, 3 * sizeof *out->key);
    memset(out->table + i * d->pages, 0, (size_t)d->pages * sizeof *out->table);
  }
}

typedef struct step_of {
  tri_decode            *d;
  const tri_sample_rule *rule;
} step_of;

/* The staged step, given to the stream. ctx: a step_of. */
static tri_status give_step(void *ctx, tri_stream *s) {
  const step_of        *of = ctx;
  tri_decode           *d = of->d;
  const tri_device_ops *ops = d->device->ops;
  int64_t               B = d->rows;
  size_t                at[N_PARTS], bytes = layout(B, d->pages, at);
  tri_tensor            key = tri_view2(d->d_block + at[KEY], TRI_I64, B, 3), token, logp;
  tri_batch             b = {.token = tri_view1(d->d_block + at[TOKEN], TRI_I32, B),
                             .pos = tri_view1(d->d_block + at[POS], TRI_I32, B),
                             .slot = tri_view1(d->d_block + at[SLOT], TRI_I32, B),
                             .len = tri_view1(d->d_block + at[LEN], TRI_I32, B),
                             .row = tri_view1(d->d_block + at[ROW], TRI_I32, B),
                             .table = tri_view2(d->d_block + at[TABLE], TRI_I32, B, d->pages)};

  TRI_TRY(ops->copy(s, d->d_block, d->h_block, bytes));
  TRI_TRY(tri_model_decode(d->model, &b, d->kv, &key, of->rule, &token, &logp, s));
  TRI_TRY(ops->copy(s, d->h_drawn, token.data, (size_t)B * 4));
  return ops->copy(s, d->h_logp, logp.data, (size_t)B * 4);
}

/* Records the staged step. A device that refuses is no reason to end: steps then are given call by call. */
static tri_status record(tri_decode *d, step_of *of, tri_stream *s) {
  if (d->device->ops->graph_record(s, give_step, of, &d->step[d->rows].graph) == TRI_OK) return TRI_OK;
  TRI_TRY(d->device->ops->stream_sync(s)); /* a device that failed fails again */
  tri_log(TRI_LOG_WARN,
          "the device does not record decode steps, which makes generation slower, not different: %s",
          tri_error_message());
  tri_error_clear();
  d->refused = true;
  return TRI_OK;
}

tri_status tri_decode_step(tri_decode *d, const tri_sample_rule *rule, tri_stream *s) {
  const tri_device_ops *ops = d->device->ops;
  recorded             *r = &d->step[d->rows];
  step_of               of = {d, rule};
  int                   span;

  /* The first time everything the work needs is made ready, such as kernels the driver loads when they are
   * first used. */
  if (d->records && !d->refused && r->met && !r->graph) TRI_TRY(record(d, &of, s));
  r->met = true;
  span = tri_trace_begin(d->device->trace, TRI_LANE_COMPUTE, (tri_trace_note){.what = "decode"}, s);
  TRI_TRY(r->graph ? ops->graph_run(r->graph, s) : give_step(&of, s));
  tri_trace_end(d->device->trace, span, s);
  return ops->stream_sync(s);
}
