/* bench_screen.c - prints a bench's figures on one screen of 80 x 24. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/columns.h"
#include "bench_report.h"

#include <stdio.h>

enum { CELL = 10 };

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

static tri_status put_cell(tri_text *out, double x, int width) {
  char cell[TRI_CELL_BYTES];

  tri_cell_digits(x, width - 1, cell);
  return tri_text_printf(out, "%*s", width, cell);
}

static tri_status put_count(tri_text *out, double x) {
  char cell[TRI_CELL_BYTES];

  tri_cell_count(x, CELL - 1, cell);
  return tri_text_printf(out, "%*s", CELL, cell);
}

static tri_status put_share(tri_text *out, double part, double whole) {
  char cell[TRI_CELL_BYTES];

  tri_cell_share(part / whole, CELL - 1, cell);
  return tri_text_printf(out, "%*s", CELL, cell);
}

/* Returns the unit of the products' figures. */
static double unit_of(const tri_bench_result *r, const char **word) {
  bool tera = false;

  for (int i = 0; i < r->n_product; i++)
    tera |= tri_product_flops(&r->product[i]) > 1e12 * r->product[i].forward_s;
  *word = tera ? "TFLOP/s" : "GFLOP/s";
  return tera ? 1e12 : 1e9;
}

static tri_status put_head(const char *deck, const tri_bench_case *c, const tri_bench_result *r,
                           tri_text *out) {
  const tri_bench_who   *w = &r->who;
  const tri_model_shape *s = &c->shape;
  const tri_bench_size  *z = &c->size;
  char                   numbers[TRI_CELL_BYTES];

  tri_cell_count(r->numbers, 6, numbers);
  TRI_LINE(out, "%d rank%s of %d node%s, %d thread%s each of %d core%s: %s%s%s%s%s, %s", w->ranks,
           plural(w->ranks), w->nodes, plural(w->nodes), w->threads, plural(w->threads), w->cores,
           plural(w->cores), w->device, w->model[0] ? " " : "", w->model, w->library[0] ? ", " : "",
           w->library, tri_dtype_word(c->dtype));
  TRI_LINE(out,
           "%s: %d layer%s of %d, vocabulary %d, %s numbers learn. A pass of %lld x %lld tokens, %lld pass%s "
           "an update",
           deck ? deck : "no deck: as GPT-2 small", s->L, plural(s->L), s->C, s->V, numbers,
           (long long)z->sequences, (long long)z->length, (long long)c->passes, c->passes == 1 ? "" : "es");
  return TRI_OK;
}

static tri_status put_product(const tri_product_times *t, double unit, tri_text *out) {
  double flops = tri_product_flops(t) / unit;

  TRI_TRY(tri_text_printf(out, "  %-14s%6lld x %6lld, rows %6lld", t->name, (long long)t->n_out,
                          (long long)t->n_in, (long long)t->rows));
  TRI_TRY(put_cell(out, flops / t->forward_s, CELL));
  TRI_TRY(put_cell(out, flops / t->grad_x_s, CELL));
  if (t->grad_w_s > 0) TRI_TRY(put_cell(out, flops / t->grad_w_s, CELL));
  return tri_text_put(out, "\n", 1);
}

static tri_status put_products(const tri_bench_result *r, tri_text *out) {
  const char *word;
  double      unit = unit_of(r, &word);

  TRI_TRY(tri_text_printf(out, "products, %-32s%*s%*s%*s\n", word, CELL, "forward", CELL, "grad x", CELL,
                          "grad W"));
  for (int i = 0; i < r->n_product; i++) TRI_TRY(put_product(&r->product[i], unit, out));
  return TRI_OK;
}

/* Prints a part of the step: seconds, seconds of its floor, and the share of the floor. floor_s 0: no
 * floor. */
static tri_status put_part(tri_text *out, const char *name, double s, double floor_s, const char *what) {
  TRI_TRY(tri_text_printf(out, "  %-20s", name));
  TRI_TRY(put_cell(out, s, CELL));
  if (floor_s > 0) {
    TRI_TRY(put_cell(out, floor_s, CELL));
    TRI_TRY(put_share(out, floor_s, s));
  }
  return tri_text_printf(out, "%s%s\n", what[0] ? "  " : "", what);
}

static tri_status put_step(const tri_bench_case *c, const tri_bench_result *r, tri_text *out) {
  double step = tri_bench_step_s(c, r);
  char   tokens[TRI_CELL_BYTES], attention[TRI_CELL_BYTES];

  tri_cell_count(tri_bench_tokens_per_s(c, r), 8, tokens);
  tri_cell_share((double)c->passes * tri_attention_pass_s(r->attention) / step, 5, attention);
  TRI_TRY(tri_text_printf(out, "step%*s%*s%*s\n", 18 + CELL, "seconds", CELL, "floor", CELL, "share"));
  TRI_TRY(put_part(out, "a pass forward", r->learn.forward, tri_products_forward_s(r->product, r->n_product),
                   "floor: the products alone"));
  TRI_TRY(put_part(out, "and backward", r->learn.backward, tri_products_backward_s(r->product, r->n_product),
                   ""));
  if (r->learn.pack > 0) /* otherwise too short to measure */
    TRI_TRY(put_part(out, "new weights packed", r->learn.pack, 0, ""));
  TRI_TRY(put_part(out, "an update", r->learn.update, tri_bench_update_floor_s(r),
                   "floor: reading its "
                   "bytes"));
  TRI_TRY(put_part(out, "a whole step", step, tri_bench_floor_s(c, r), ""));
  TRI_LINE(out, "  %s tokens/s by all ranks, attention is %s of the step", tokens, attention);
  return TRI_OK;
}

static tri_status put_attention(const tri_bench_case *c, const tri_bench_result *r, tri_text *out) {
  static const char *const name[TRI_KINDS] = {[TRI_GLOBAL] = "attention", [TRI_LOCAL] = "local attention"};
  const char              *word;
  double                   unit = unit_of(r, &word);

  for (int k = 0; k < TRI_KINDS; k++) {
    const tri_attention_times *t = &r->attention[k];
    char                       forward[TRI_CELL_BYTES], backward[TRI_CELL_BYTES];
    if (!t->layers) continue;
    tri_cell_digits(t->flops / t->forward_s / unit, CELL, forward);
    tri_cell_digits(2.5 * t->flops / t->backward_s / unit, CELL, backward);
    TRI_LINE(out, "%s of %lld tokens: forward %s, backward %s %s", name[k], (long long)c->size.length,
             forward, backward, word);
  }
  return TRI_OK;
}

static tri_status put_decode(const tri_bench_case *c, const tri_bench_result *r, tri_text *out) {
  double all = r->read_bytes_per_s * r->who.machine_ranks;
  char   rate[TRI_CELL_BYTES], text[64];

  tri_cell_digits(all / 1e9, 6, rate);
  if (!r->n_decode) {
    TRI_LINE(out, "decode: this deck generates nothing. Memory is read at %s GB/s", rate);
    return TRI_OK;
  }
  if (c->tensor > 1)
    snprintf(text, sizeof text, "decode at %lld, sequences/%d ranks:", (long long)r->context, c->tensor);
  else
    snprintf(text, sizeof text, "decode at %lld tokens, sequences/rank:", (long long)r->context);
  TRI_TRY(tri_text_printf(out, "%-39s", text));
  for (int i = 0; i < r->n_decode; i++)
    TRI_TRY(tri_text_printf(out, "%*lld", CELL, (long long)r->decode[i].sequences));
  TRI_TRY(tri_text_printf(out, "\n  %-37s", "tokens/s by all ranks"));
  for (int i = 0; i < r->n_decode; i++)
    TRI_TRY(put_count(out, tri_bench_decode_tokens_per_s(c, r, &r->decode[i])));
  TRI_TRY(tri_text_printf(out, "\n  %-37s", "GB/s of reading as many bytes"));
  for (int i = 0; i < r->n_decode; i++) {
    tri_cell_digits(r->decode[i].read_bytes_per_s * r->who.machine_ranks / 1e9, CELL, rate);
    TRI_TRY(tri_text_printf(out, "%*s", CELL, rate));
  }
  TRI_TRY(tri_text_printf(out, "\n  %-37s", "share of the limit by memory"));
  for (int i = 0; i < r->n_decode; i++)
    TRI_TRY(put_share(out, tri_bench_decode_floor_s(&r->decode[i]), r->decode[i].step_s));
  TRI_TRY(tri_text_put(out, "\n", 1));
  if (r->n_decode == TRI_BENCH_DECODES) return TRI_OK;
  TRI_LINE(out, "  more sequences at once do not fit into memory");
  return TRI_OK;
}

static tri_status put_rates(const tri_bench_result *r, tri_text *out) {
  tri_text   line = {0};
  tri_status st = TRI_OK;

  TRI_TRY_DONE(tri_text_printf(&line, "collectives:%s", r->n_rate ? "" : " none with one rank"));
  for (int i = 0; i < r->n_rate; i++) {
    char rate[TRI_CELL_BYTES], latency[TRI_CELL_BYTES];
    tri_cell_digits(r->rate[i].bytes_per_s / 1e9, 6, rate);
    tri_cell_digits(r->rate[i].latency_s * 1e6, 6, latency);
    TRI_TRY_DONE(
        tri_text_printf(&line, "%s %s %s GB/s, %s us", i ? ";" : "", r->rate[i].scope, rate, latency));
  }
  TRI_TRY_DONE(tri_text_line(line.data, out));
done:
  tri_text_free(&line);
  return st;
}

/* Prints bytes, seconds and both rates, or why there are none. */
static tri_status put_disk(const tri_disk_times *d, tri_text *out) {
  char bytes[TRI_CELL_BYTES], all[TRI_CELL_BYTES], s[TRI_CELL_BYTES], rate[TRI_CELL_BYTES],
      plain[TRI_CELL_BYTES], share[TRI_CELL_BYTES];

  if (d->why[0]) {
    TRI_LINE(out, "checkpoint: not timed: %s", d->why);
    return TRI_OK;
  }
  tri_cell_bytes(d->bytes, bytes);
  tri_cell_bytes(d->all_bytes, all);
  tri_cell_digits(d->write_s, 8, s);
  tri_cell_digits((double)d->bytes / d->write_s / 1e9, 8, rate);
  tri_cell_digits((double)d->bytes / d->plain_s / 1e9, 8, plain);
  tri_cell_share(d->plain_s / d->write_s, 6, share);
  TRI_LINE(out, "checkpoint: %s%s%s in %s s, %s GB/s, is %s of a plain file's %s GB/s", bytes,
           d->bytes < d->all_bytes ? " of " : "", d->bytes < d->all_bytes ? all : "", s, rate, share, plain);
  return TRI_OK;
}

tri_status tri_bench_print(const char *deck, const tri_bench_case *c, const tri_bench_result *r,
                           tri_text *out) {
  TRI_TRY(put_head(deck, c, r, out));
  TRI_TRY(put_products(r, out));
  TRI_TRY(put_step(c, r, out));
  TRI_TRY(put_attention(c, r, out));
  TRI_TRY(put_decode(c, r, out));
  TRI_TRY(put_rates(r, out));
  return put_disk(&r->disk, out);
}

/* Chosen. The services of a node stay below it. One busy core of two, or another job on half of the node,
 * does not. */
static const double most_load = 0.25;

tri_status tri_bench_warn(double load_per_core, tri_text *out) {
  if (!(load_per_core > most_load)) return TRI_OK;
  return tri_text_printf(
      out,
      "the load was %.2f per core in the last minute. If other programs caused it, they slow down this "
      "bench, and the figures are too low for this machine. Wait until they are done, or request a machine "
      "of your own (--exclusive)",
      load_per_core);
}
