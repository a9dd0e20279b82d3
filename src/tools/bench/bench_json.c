/* bench_json.c - writes a bench's figures as one JSON object: seconds, rates and shares of floors. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/text/json_text.h"
#include "bench_report.h"

#include <string.h>

/* Opens with `before`. */
static tri_status put_number(tri_text *t, const char *before, const char *key, double x) {
  TRI_TRY(tri_text_printf(t, "%s\"%s\": ", before, key));
  return tri_json_put_double(t, x);
}

static tri_status put_text(tri_text *t, const char *before, const char *key, const char *text) {
  TRI_TRY(tri_text_printf(t, "%s\"%s\": ", before, key));
  return text ? tri_json_put_string(t, text, strlen(text)) : tri_text_put(t, "null", 4);
}

/* Writes NAME_s, NAME_floor_s and NAME_share, which is floor over time. */
static tri_status put_part(tri_text *t, const char *before, const char *name, double s, double floor_s) {
  TRI_TRY(tri_text_printf(t, "%s\"%s_s\": ", before, name));
  TRI_TRY(tri_json_put_double(t, s));
  TRI_TRY(tri_text_printf(t, ", \"%s_floor_s\": ", name));
  TRI_TRY(tri_json_put_double(t, floor_s));
  TRI_TRY(tri_text_printf(t, ", \"%s_share\": ", name));
  return tri_json_put_double(t, floor_s / s);
}

static tri_status put_who(const char *deck, const tri_bench_case *c, const tri_bench_result *r, tri_text *t) {
  const tri_bench_who   *w = &r->who;
  const tri_model_shape *s = &c->shape;

  TRI_TRY(put_text(t, "{", "version", TRI_VERSION));
  TRI_TRY(put_text(t, ", ", "deck", deck));
  TRI_TRY(tri_text_printf(t, ", \"ranks\": %d, \"nodes\": %d, \"ranks_of_machine\": %d, \"threads\": %d",
                          w->ranks, w->nodes, w->machine_ranks, w->threads));
  TRI_TRY(put_number(t, ", ", "load_per_core", w->load_per_core));
  TRI_TRY(put_text(t, ", ", "device", w->device));
  TRI_TRY(put_text(t, ", ", "gpu", w->model[0] ? w->model : NULL));
  TRI_TRY(put_text(t, ", ", "library", w->library[0] ? w->library : NULL));
  TRI_TRY(put_text(t, ", ", "dtype", tri_dtype_word(c->dtype)));
  TRI_TRY(tri_text_printf(t,
                          ", \"model\": {\"layers\": %d, \"width\": %d, \"mlp_width\": %d, \"heads\": %d, "
                          "\"kv_heads\": %d, \"head_width\": %d, \"vocabulary\": %d",
                          s->L, s->C, s->F, s->H, s->G, s->D, s->V));
  TRI_TRY(put_number(t, ", ", "learned_numbers", r->numbers));
  return tri_text_printf(t,
                         "}, \"pass\": {\"sequences\": %lld, \"tokens_of_sequence\": %lld, "
                         "\"learned_of_sequence\": %lld, \"tokens\": %lld, \"passes_of_update\": %lld}",
                         (long long)c->size.sequences, (long long)c->size.length, (long long)c->size.rows,
                         (long long)tri_bench_tokens(&c->size), (long long)c->passes);
}

static tri_status put_product(const tri_product_times *p, tri_text *t) {
  double flops = tri_product_flops(p);

  TRI_TRY(put_text(t, "{", "name", p->name));
  TRI_TRY(tri_text_printf(t, ", \"n_out\": %lld, \"n_in\": %lld, \"rows\": %lld", (long long)p->n_out,
                          (long long)p->n_in, (long long)p->rows));
  TRI_TRY(put_number(t, ", ", "times_in_pass", p->in_pass));
  TRI_TRY(put_number(t, ", ", "forward_s", p->forward_s));
  TRI_TRY(put_number(t, ", ", "forward_flops_per_s", flops / p->forward_s));
  TRI_TRY(put_number(t, ", ", "grad_x_s", p->grad_x_s));
  TRI_TRY(put_number(t, ", ", "grad_x_flops_per_s", flops / p->grad_x_s));
  if (p->grad_w_s > 0) {
    TRI_TRY(put_number(t, ", ", "grad_w_s", p->grad_w_s));
    TRI_TRY(put_number(t, ", ", "grad_w_flops_per_s", flops / p->grad_w_s));
  }
  return tri_text_put(t, "}", 1);
}

static tri_status put_products(const tri_bench_result *r, tri_text *t) {
  TRI_TRY(tri_text_printf(t, ", \"products\": ["));
  for (int i = 0; i < r->n_product; i++) {
    if (i) TRI_TRY(tri_text_put(t, ", ", 2));
    TRI_TRY(put_product(&r->product[i], t));
  }
  return tri_text_put(t, "]", 1);
}

static tri_status put_step(const tri_bench_case *c, const tri_bench_result *r, tri_text *t) {
  double step = tri_bench_step_s(c, r);

  TRI_TRY(tri_text_printf(t, ", \"step\": {\"times\": %d", r->learn.n));
  TRI_TRY(put_part(t, ", ", "forward", r->learn.forward, tri_products_forward_s(r->product, r->n_product)));
  TRI_TRY(
      put_part(t, ", ", "backward", r->learn.backward, tri_products_backward_s(r->product, r->n_product)));
  TRI_TRY(put_number(t, ", ", "pack_s", r->learn.pack));
  TRI_TRY(put_part(t, ", ", "update", r->learn.update, tri_bench_update_floor_s(r)));
  TRI_TRY(put_part(t, ", ", "step", step, tri_bench_floor_s(c, r)));
  TRI_TRY(
      put_number(t, ", ", "attention_share", (double)c->passes * tri_attention_pass_s(r->attention) / step));
  TRI_TRY(put_number(t, ", ", "train_tokens_per_s", tri_bench_tokens_per_s(c, r)));
  return tri_text_put(t, "}", 1);
}

static tri_status put_attention(const tri_bench_case *c, const tri_bench_result *r, tri_text *t) {
  int n = 0;

  TRI_TRY(tri_text_printf(t, ", \"attention\": ["));
  for (int k = 0; k < TRI_KINDS; k++) {
    const tri_attention_times *a = &r->attention[k];
    if (!a->layers) continue;
    TRI_TRY(tri_text_printf(t, "%s{\"layers\": %d, \"tokens\": %lld, \"window\": ", n++ ? ", " : "",
                            a->layers, (long long)c->size.length));
    TRI_TRY(a->window ? tri_text_printf(t, "%lld", (long long)a->window) : tri_text_put(t, "null", 4));
    TRI_TRY(put_number(t, ", ", "forward_s", a->forward_s));
    TRI_TRY(put_number(t, ", ", "forward_flops_per_s", a->flops / a->forward_s));
    TRI_TRY(put_number(t, ", ", "backward_s", a->backward_s));
    TRI_TRY(put_number(t, ", ", "backward_flops_per_s", 2.5 * a->flops / a->backward_s));
    TRI_TRY(tri_text_put(t, "}", 1));
  }
  return tri_text_put(t, "]", 1);
}

static tri_status put_decode(const tri_bench_case *c, const tri_bench_result *r, tri_text *t) {
  TRI_TRY(put_number(t, ", ", "read_bytes_per_s", r->read_bytes_per_s * r->who.machine_ranks));
  TRI_TRY(tri_text_printf(t, ", \"tensor_parallel_size\": %d, \"decode\": [", c->tensor));
  for (int i = 0; i < r->n_decode; i++) {
    const tri_decode_times *d = &r->decode[i];
    TRI_TRY(tri_text_printf(t, "%s{\"sequences\": %lld, \"tokens_of_sequence\": %lld, \"times\": %d",
                            i ? ", " : "", (long long)d->sequences, (long long)d->tokens, d->n));
    TRI_TRY(put_number(t, ", ", "read_bytes", d->bytes));
    TRI_TRY(put_number(t, ", ", "read_bytes_per_s", d->read_bytes_per_s * r->who.machine_ranks));
    TRI_TRY(put_part(t, ", ", "step", d->step_s, tri_bench_decode_floor_s(d)));
    TRI_TRY(put_number(t, ", ", "decode_tokens_per_s", tri_bench_decode_tokens_per_s(c, r, d)));
    TRI_TRY(tri_text_put(t, "}", 1));
  }
  return tri_text_put(t, "]", 1);
}

static tri_status put_rates(const tri_bench_result *r, tri_text *t) {
  TRI_TRY(tri_text_printf(t, ", \"collectives\": ["));
  for (int i = 0; i < r->n_rate; i++) {
    TRI_TRY(put_text(t, i ? ", {" : "{", "scope", r->rate[i].scope));
    TRI_TRY(tri_text_printf(t, ", \"bytes\": %lld", (long long)r->rate[i].bytes));
    TRI_TRY(put_number(t, ", ", "gather_bytes_per_s", r->rate[i].bytes_per_s));
    TRI_TRY(put_number(t, ", ", "latency_s", r->rate[i].latency_s));
    TRI_TRY(tri_text_put(t, "}", 1));
  }
  return tri_text_put(t, "]", 1);
}

static tri_status put_disk(const tri_disk_times *d, tri_text *t) {
  TRI_TRY(put_text(t, ", \"checkpoint\": {", "folder", d->folder));
  TRI_TRY(put_text(t, ", ", "not_timed", d->why[0] ? d->why : NULL));
  if (d->why[0]) return tri_text_put(t, "}", 1);
  TRI_TRY(tri_text_printf(t, ", \"bytes\": %lld, \"whole_bytes\": %lld, \"times\": %d", (long long)d->bytes,
                          (long long)d->all_bytes, d->n));
  TRI_TRY(put_part(t, ", ", "write", d->write_s, d->plain_s));
  TRI_TRY(put_number(t, ", ", "write_bytes_per_s", (double)d->bytes / d->write_s));
  TRI_TRY(put_number(t, ", ", "plain_bytes_per_s", (double)d->bytes / d->plain_s));
  return tri_text_put(t, "}", 1);
}

tri_status tri_bench_print_json(const char *deck, const tri_bench_case *c, const tri_bench_result *r,
                                tri_text *out) {
  TRI_TRY(put_who(deck, c, r, out));
  TRI_TRY(put_products(r, out));
  TRI_TRY(put_step(c, r, out));
  TRI_TRY(put_attention(c, r, out));
  TRI_TRY(put_decode(c, r, out));
  TRI_TRY(put_rates(r, out));
  TRI_TRY(put_disk(&r->disk, out));
  return tri_text_put(out, "}\n", 2);
}
