/* bench_run.c - runs all measurements of `trireme bench` in order. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench_run.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/columns.h"
#include "base/live.h"
#include "read.h"
#include "bench_report.h"
#include "tools/timer/timed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int64_t at_once[TRI_BENCH_DECODES] = {1, 4, 16, 32};

/* Everything that holds memory. */
typedef struct bench {
  tri_session   *se; /* borrowed */
  tri_bench_case c;  /* its prompts are the most sequences decoded at once */
  tri_passes     passes;
  tri_products   products;
  void          *workspace; /* shared by products, attention and reading, one after the other */
  size_t         read_workspace;
  tri_rates     *rates;
  const char    *folder;
  double         seconds, began_s;
} bench;

/* ---- memory ---- */

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* Plans all memory. The workspace of the other measurements belongs to the rollout phase, when no training
 * pass runs. */
static tri_status open_all(tri_session *se, bench *b, tri_product_times *product) {
  unsigned what = TRI_PASS_LEARN | (b->c.size.prompts ? TRI_PASS_GENERATE : 0);
  size_t   bytes;
  int64_t  longest;

  b->se = se;
  TRI_TRY(tri_passes_open(se, &b->c, b->c.shape.L, what, &b->passes));
  TRI_TRY(tri_products_open(se, &b->c, &b->products, product));
  longest = tri_bench_prompt(&b->c.size) + TRI_BENCH_MOST;
  b->read_workspace = tri_read_buffers(se, tri_bench_decode_bytes(&b->c, b->c.size.prompts, longest));
  bytes =
      larger(larger(b->products.workspace, tri_attention_workspace(se->device, &b->c)), b->read_workspace);
  TRI_TRY(tri_ledger_add(se->ledger, TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT, false, "products by themselves",
                         bytes, &b->workspace));
  return tri_rates_open(se, &b->rates);
}

static void close_all(bench *b) {
  tri_rates_close(&b->rates);
  tri_products_close(&b->products);
  tri_passes_close(&b->passes);
}

/* Computes the bytes needed with so many prompts, on the device and in all. */
static tri_status weigh(const tri_session *se, const tri_bench_case *c, int64_t prompts,
                        tri_ledger_sum *out) {
  tri_session_opt opt = {.device = se->device->ops->name, .threads = se->threads, .tensor = se->place.tensor};
  size_t          bytes_free = 0, bytes_total = 0;
  tri_session     paper = {0};
  bench           b = {.c = *c};
  tri_product_times product[TRI_SLOT_PRODUCTS];
  tri_status        st = TRI_OK;

  b.c.size.prompts = prompts;
  TRI_TRY(se->device->ops->mem_info(se->device, &bytes_free, &bytes_total));
  TRI_TRY_DONE(tri_session_pretend_gpu(&opt, se->rt.world_size, se->rt.machine_ranks,
                                       tri_device_is_gpu(se->device) ? bytes_total : 0, &paper));
  paper.place = se->place;
  TRI_TRY_DONE(open_all(&paper, &b, product));
  *out = tri_ledger_total(paper.ledger);
done:
  close_all(&b);
  tri_session_leave(&paper, TRI_OK);
  return st;
}

/* Collective over world. Chooses as many sequences at once as memory has space for. If not even one fits, it
 * chooses one, and the error then shows the memory table. */
static tri_status choose_prompts(tri_session *se, tri_bench_case *c) {
  size_t     bytes_free = 0, bytes_total = 0;
  int64_t    less;
  int        i = TRI_BENCH_DECODES - 1, sharers;
  bool       fits = !c->size.prompts;
  tri_status st = TRI_OK;

  TRI_TRY(se->device->ops->mem_info(se->device, &bytes_free, &bytes_total));
  TRI_TRY(tri_comm_sharers(&se->rt, se->comm[TRI_WORLD], se->device, &sharers));
  bytes_free = (bytes_free - tri_session_beside_bytes(se)) / (size_t)sharers;
  for (; st == TRI_OK && i > 0 && !fits; i -= !fits) {
    tri_ledger_sum sum;
    st = weigh(se, c, at_once[i], &sum);
    fits = st == TRI_OK && (tri_device_is_gpu(se->device) ? sum.device : sum.planned) <= (int64_t)bytes_free;
  }
  TRI_TRY(tri_agree(se->comm[TRI_WORLD], st));
  less = -i;
  TRI_TRY(tri_host_max(se->comm[TRI_WORLD], &less, 1));
  c->size.prompts = c->size.prompts ? at_once[-less] : 0;
  c->size.group = 1;
  return TRI_OK;
}

/* ---- measurements in order ---- */

/* Repeats at least five times, in this share of the whole time. It repeats less if that would take three
 * times as long. */
static tri_effort effort(const bench *b, double share) {
  return (tri_effort){5, TRI_BENCH_MOST, share * b->seconds, 3 * share * b->seconds};
}

static void say_who(const tri_session *se, tri_bench_who *w) {
  *w = (tri_bench_who){.ranks = se->rt.world_size,
                       .nodes = se->rt.nodes,
                       .machine_ranks = se->rt.machine_ranks,
                       .threads = se->threads,
                       .cores = se->rt.machine_cores};
  snprintf(w->device, sizeof w->device, "%s", se->device->ops->name);
  snprintf(w->model, sizeof w->model, "%s", se->device->model);
  tri_rates_library(se, w->library, sizeof w->library);
}

/* Collective over world. Finds the highest load per core of all machines. */
static tri_status find_load(const tri_session *se, double *load) {
  double  now[1];
  bool    told = getloadavg(now, 1) == 1;
  int64_t x[2] = {told ? (int64_t)llround(1000 * now[0] / (double)sysconf(_SC_NPROCESSORS_ONLN)) : 0,
                  !told}; /* thousandths, and whether it is not known */

  TRI_TRY(tri_host_max(se->comm[TRI_WORLD], x, 2));
  *load = x[1] ? NAN : (double)x[0] / 1000;
  return TRI_OK;
}

/* Collective over world. Warns of other programs. They slow down CPUs, hardly a GPU. The load covers all
 * cores, including those not given to this program. */
static tri_status look_around(const tri_session *se, tri_bench_who *w) {
  tri_text   text = {0};
  tri_status st = TRI_OK;

  TRI_TRY(find_load(se, &w->load_per_core));
  if (!tri_device_is_gpu(se->device)) st = tri_bench_warn(w->load_per_core, &text);
  if (text.len && se->rt.world_rank == 0) tri_log_narrow(TRI_LOG_WARN, "%s", text.data);
  tri_text_free(&text);
  return tri_agree(se->comm[TRI_WORLD], st);
}

/* Returns the bytes of AdamW: f32 masters and moments, read and written, the gradient, and new weights in a
 * 16-bit type. */
static double update_bytes(const bench *b, double numbers) {
  double each = 28 + (b->c.dtype == TRI_F32 ? 0 : 2);

  if (b->c.plan.optim == TRI_SHARD_NODE) numbers /= b->se->rt.local_size;
  if (b->c.plan.optim == TRI_SHARD_WORLD) numbers /= b->se->rt.world_size;
  return each * numbers;
}

static tri_status learn(bench *b, tri_bench_result *r) {
  tri_effort e = effort(b, 0.15);
  double     s[5];

  TRI_TRY(tri_passes_learn(&b->passes, &e, &r->learn));
  memcpy(s, (double[]){r->learn.forward, r->learn.backward, r->learn.learn, r->learn.pack, r->learn.update},
         sizeof s);
  TRI_TRY(tri_slowest(b->se->comm[TRI_WORLD], s, 5));
  r->learn = (tri_learn_times){s[0], s[1], s[2], s[3], s[4], r->learn.n};
  r->numbers = (double)tri_passes_numbers(&b->passes);
  r->update_bytes = update_bytes(b, r->numbers);
  return TRI_OK;
}

enum { DECODED = 53 }; /* sequences of all four sizes, each with a prompt */

/* Returns the deck's prompt length, shortened so that all prefills take at most a tenth of the time. */
static int64_t context_of(const bench *b, const tri_bench_result *r) {
  int64_t whole = tri_bench_prompt(&b->c.size);
  double  most = 0.1 * b->seconds / DECODED * (double)tri_bench_tokens(&b->c.size) / r->learn.forward;

  return most >= (double)whole ? whole : most < 1 ? 1 : (int64_t)most;
}

static tri_status decode(bench *b, tri_bench_result *r) {
  tri_effort e = effort(b, 0.04), of_reading = effort(b, 0.01);

  if (!b->c.size.prompts) return TRI_OK;
  r->context = context_of(b, r);
  for (int i = 0; i < TRI_BENCH_DECODES && at_once[i] <= b->c.size.prompts; i++) {
    tri_decode_times *d = &r->decode[r->n_decode++];
    d->sequences = at_once[i];
    TRI_TRY(tri_passes_decode(&b->passes, d->sequences, r->context, &e, &d->step_s, &d->n));
    TRI_TRY(tri_slowest(b->se->comm[TRI_WORLD], &d->step_s, 1));
    d->tokens = r->context + 1 + d->n / 2;
    d->bytes = tri_bench_decode_bytes(&b->c, d->sequences, d->tokens);
    TRI_TRY(tri_read_time(b->se, b->workspace, tri_read_buffers(b->se, d->bytes), &of_reading,
                          &d->read_bytes_per_s));
  }
  return TRI_OK;
}

/* Shows progress on a terminal, because nothing else appears for a minute. */
static void show(const bench *b, const char *what) {
  char line[TRI_SCREEN_COLUMNS + 1];

  if (b->se->rt.world_rank != 0) return;
  snprintf(line, sizeof line, "timing %s, %.0f s since the start", what, tri_now_s() - b->began_s);
  tri_live_draw(line);
}

static tri_status measure(bench *b, tri_bench_result *r) {
  tri_effort of_products = effort(b, 0.005), of_attention = effort(b, 0.01), of_reading = effort(b, 0.02),
             of_disk = effort(b, 0.1);

  show(b, "training steps");
  TRI_TRY(learn(b, r));
  show(b, "products and attention");
  TRI_TRY(tri_products_time(&b->products, b->workspace, &of_products, r->product));
  TRI_TRY(tri_attention_time(b->se, &b->c, b->passes.model, b->workspace, &of_attention, r->attention));
  TRI_TRY(tri_read_fill(b->se, b->workspace, b->read_workspace));
  TRI_TRY(tri_read_time(b->se, b->workspace, tri_read_buffers(b->se, 0), &of_reading, &r->read_bytes_per_s));
  show(b, "decoding");
  TRI_TRY(decode(b, r));
  show(b, "collectives and a checkpoint");
  TRI_TRY(tri_rates_time(b->se, b->rates, r->rate, &r->n_rate));
  return tri_disk_time(b->se, tri_model_trained(b->passes.model), b->folder, &of_disk, &r->disk);
}

tri_status tri_bench_run(tri_session *se, const tri_bench_case *c, const char *folder, double seconds,
                         tri_bench_result *out) {
  tri_comm  *world = se->comm[TRI_WORLD];
  bench      b = {.c = *c, .se = se, .folder = folder, .seconds = seconds, .began_s = tri_now_s()};
  tri_status st = TRI_OK;

  *out = (tri_bench_result){0};
  say_who(se, &out->who);
  TRI_TRY(look_around(se, &out->who));
  show(&b, "nothing yet, preparing weights");
  TRI_TRY_DONE(choose_prompts(se, &b.c));
  TRI_TRY_DONE(tri_agree(world, open_all(se, &b, out->product)));
  out->n_product = b.products.n;
  TRI_TRY_DONE(tri_session_take_memory(se));
  TRI_TRY_DONE(tri_passes_start(&b.passes));
  TRI_TRY_DONE(measure(&b, out));
done:
  tri_live_draw(NULL);
  close_all(&b);
  return st;
}
