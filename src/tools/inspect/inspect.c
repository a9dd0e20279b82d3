/* inspect.c - writes the result of trireme inspect as lines for people or as one JSON value. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "inspect.h"

#include "base/columns.h"
#include "base/file.h"
#include "base/host_memory.h"
#include "base/visible.h"
#include "family/family.h"
#include "io/text/json_text.h"
#include "model/kv.h"
#include "record/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NAME_COLUMNS = 47 }; /* chosen for model.layers.31.post_attention_layernorm.weight */

/* Makes text of a file from any origin fit for a terminal. Returns its bytes. */
static size_t shown(const char *text, char *out, size_t cap) {
  return tri_visible(text, strlen(text), "", out, cap);
}

static int64_t file_bytes(const tri_inspected *f, const char *name) {
  char        path[TRI_INSPECT_FILE_BYTES];
  struct stat sb;

  snprintf(path, sizeof path, "%s/%s", f->path, name);
  return stat(path, &sb) ? -1 : (int64_t)sb.st_size;
}

/* Reads the i-th attribute of /state, its name and its value as JSON. A hash is written as in messages. */
static tri_status state_value(const tri_inspected *f, int i, tri_text *name, tri_text *value) {
  tri_status st = TRI_OK;
  char       kind;
  int64_t    whole;
  double     real;
  tri_text   text = {0};

  name->len = value->len = 0;
  TRI_TRY_DONE(tri_ckpt_value_at(f->ckpt, i, name, &kind));
  if (kind == 'i') {
    TRI_TRY_DONE(tri_ckpt_get_i64(f->ckpt, name->data, &whole));
    if (!strcmp(name->data, "data_hash"))
      TRI_TRY_DONE(tri_text_printf(value, "\"%016llx\"", (unsigned long long)whole));
    else
      TRI_TRY_DONE(tri_text_printf(value, "%lld", (long long)whole));
  } else if (kind == 'f') {
    TRI_TRY_DONE(tri_ckpt_get_f64(f->ckpt, name->data, &real));
    TRI_TRY_DONE(tri_json_put_double(value, real));
  } else {
    TRI_TRY_DONE(tri_ckpt_get_text(f->ckpt, name->data, &text));
    if (tri_json_put_string(value, text.len ? text.data : "", text.len) != TRI_OK)
      TRI_FAIL_DONE(TRI_EFORMAT, "%s: the attribute '%s' of /state is not UTF-8", f->path, name->data);
  }
done:
  tri_text_free(&text);
  return st;
}

/* Prints the recurrent layers, with the bytes of the state that a sequence leaves in all of them in bf16. */
static tri_status print_recurrent(const tri_model_shape *s, bool json, tri_text *out) {
  const tri_delta_shape *d = &s->delta;
  int                    n = tri_recurrent_layers(s);
  int64_t                bytes = (int64_t)tri_kv_state_bytes(s, TRI_BF16);
  char                   size[TRI_CELL_BYTES];

  if (!n) return TRI_OK;
  if (json)
    return tri_text_printf(out,
                           ", \"recurrent\": {\"layers\": %d, \"attention_layers\": %d, \"key_heads\": %d, "
                           "\"key_width\": %d, \"value_heads\": %d, \"value_width\": %d, "
                           "\"convolution_rows\": %d, \"state_bytes_bf16\": %lld}",
                           n, s->L - n, d->Hk, d->Dk, d->Hv, d->Dv, d->conv, (long long)bytes);
  tri_cell_bytes(bytes, size);
  return tri_text_printf(out,
                         "recurrent   %d layer%s, beside %d of attention,\n"
                         "            %d head%s of %d for keys, %d of %d for values,\n"
                         "            state of a sequence %s in bf16\n",
                         n, n == 1 ? "" : "s", s->L - n, d->Hk, d->Hk == 1 ? "" : "s", d->Dk, d->Hv, d->Dv,
                         size);
}

static tri_status print_shape(const tri_model_shape *s, bool json, tri_text *out) {
  if (json) {
    TRI_TRY(tri_text_printf(
        out,
        ", \"model\": {\"model_type\": \"%s\", \"layers\": %d, \"width\": %d, \"heads\": %d, "
        "\"key_value_heads\": %d, \"head_width\": %d, \"feed_forward_width\": %d, \"vocabulary\": %d, "
        "\"context_tokens\": %lld, \"tied_head\": %s, \"scalar_head\": %s",
        s->family->model_type, s->L, s->C, s->H, s->G, s->D, s->F, s->V, (long long)s->max_pos,
        s->tied_head ? "true" : "false", s->scored ? "true" : "false"));
    TRI_TRY(print_recurrent(s, json, out));
    return tri_text_put(out, "}", 1);
  }
  TRI_TRY(tri_text_printf(out,
                          "model       %s, %d layer%s, width %d, feed-forward %d, %s head,\n"
                          "            %d head%s of %d, %d of keys and values,\n"
                          "            vocabulary %d, context %lld tokens\n",
                          s->family->model_type, s->L, s->L == 1 ? "" : "s", s->C, s->F,
                          s->scored      ? "scalar"
                          : s->tied_head ? "tied"
                                         : "own",
                          s->H, s->H == 1 ? "" : "s", s->D, s->G, s->V, (long long)s->max_pos));
  return print_recurrent(s, json, out);
}

/* Prints one attribute. */
static tri_status print_value(const tri_text *name, const tri_text *value, tri_text *out) {
  tri_status st = TRI_OK;
  size_t     n_name = name->len * TRI_VISIBLE_MOST + 1, n_value = value->len * TRI_VISIBLE_MOST + 1;
  char      *text = NULL;

  TRI_TRY(TRI_ALLOC(text, n_name + n_value));
  shown(name->data, text, n_name);
  shown(value->data, text + n_name, n_value);
  TRI_TRY_DONE(tri_text_printf(out, "  %-20s %s\n", text, text + n_name));
done:
  TRI_FREE(text);
  return st;
}

static tri_status print_state(const tri_inspected *f, bool json, tri_text *out) {
  tri_status st = TRI_OK;
  tri_text   name = {0}, value = {0};

  TRI_TRY_DONE(tri_text_printf(out, json ? ", \"state\": {" : "\nstate\n"));
  for (int i = 0; i < tri_ckpt_value_count(f->ckpt); i++) {
    TRI_TRY_DONE(state_value(f, i, &name, &value));
    if (json) {
      TRI_TRY_DONE(tri_text_printf(out, i ? ", " : ""));
      TRI_TRY_DONE(tri_json_put_string(out, name.data, name.len));
      TRI_TRY_DONE(tri_text_printf(out, ": %s", value.data));
    } else {
      TRI_TRY_DONE(print_value(&name, &value, out));
    }
  }
  if (json) TRI_TRY_DONE(tri_text_put(out, "}", 1));
done:
  tri_text_free(&name);
  tri_text_free(&value);
  return st;
}

/* Prints the hardware and software record of the checkpoint, if it has one. */
static tri_status print_record(const tri_inspected *f, bool json, tri_text *out) {
  const char *record = tri_ckpt_record(f->ckpt);

  if (json) return tri_text_printf(out, ", \"record\": %s", record[0] ? record : "null");
  if (!record[0]) return TRI_OK;
  TRI_TRY(tri_text_printf(out, "\ncomputed by\n"));
  return tri_record_lines(record, "  ", out);
}

static tri_status print_files(const tri_inspected *f, bool json, tri_text *out) {
  TRI_TRY(tri_text_printf(out, json ? ", \"files\": [" : "\nfiles\n"));
  for (int i = -1; i < tri_ckpt_file_count(f->ckpt); i++) {
    const char *name = i < 0 ? "state.h5" : tri_ckpt_file_at(f->ckpt, i);
    char        text[TRI_VISIBLE_MOST * 64], size[TRI_CELL_BYTES];
    if (json) {
      TRI_TRY(tri_text_printf(out, i < 0 ? "{\"name\": " : ", {\"name\": "));
      TRI_TRY(tri_json_put_string(out, name, strlen(name)));
      TRI_TRY(tri_text_printf(out, ", \"bytes\": %lld}", (long long)file_bytes(f, name)));
    } else {
      shown(name, text, sizeof text);
      tri_cell_bytes(file_bytes(f, name), size);
      TRI_TRY(tri_text_printf(out, "  %-24s %8s\n", text, size));
    }
  }
  if (json) TRI_TRY(tri_text_put(out, "]", 1));
  return TRI_OK;
}

static tri_status print_tensor_json(const tri_inspected_row *r, bool first, tri_text *out) {
  TRI_TRY(tri_text_printf(out, first ? "{" : ", {"));
  if (r->group[0]) {
    TRI_TRY(tri_text_printf(out, "\"group\": "));
    TRI_TRY(tri_json_put_string(out, r->group, strlen(r->group)));
    TRI_TRY(tri_text_printf(out, ", "));
  }
  TRI_TRY(tri_text_printf(out, "\"name\": "));
  TRI_TRY(tri_json_put_string(out, r->name, strlen(r->name)));
  TRI_TRY(tri_text_printf(out, ", \"dtype\": \"%s\", \"shape\": [", r->dtype));
  for (int k = 0; k < r->ndim; k++)
    TRI_TRY(tri_text_printf(out, k ? ", %lld" : "%lld", (long long)r->dim[k]));
  return tri_text_printf(out, "], \"bytes\": %lld}", (long long)r->bytes);
}

/* Prints one line, or two with the name above the rest if one would be wider than a screen. */
static tri_status print_tensor(const tri_inspected_row *r, tri_text *out) {
  char   name[TRI_VISIBLE_MOST * 1300], shape[128] = "[", size[TRI_CELL_BYTES], rest[256];
  size_t n = 1;
  int    pad, width;

  for (int k = 0; k < r->ndim; k++)
    n += (size_t)snprintf(shape + n, sizeof shape - n, k ? ", %lld" : "%lld", (long long)r->dim[k]);
  snprintf(shape + n, sizeof shape - n, "]");
  tri_cell_bytes(r->bytes, size);
  width = snprintf(rest, sizeof rest, "%-4s %-15s %8s", r->dtype, shape, size);
  n = shown(r->name, name, sizeof name);
  pad = NAME_COLUMNS - tri_text_columns(name, n);
  if (pad >= 0 && 2 + NAME_COLUMNS + 1 + width <= TRI_SCREEN_COLUMNS)
    return tri_text_printf(out, "  %s%*s %s\n", name, pad, "", rest);
  return tri_text_printf(out, "  %s\n%*s\n", name, TRI_SCREEN_COLUMNS, rest);
}

/* Prints the tensors in the file's order, under a heading for each group. */
static tri_status print_each(const tri_inspected *f, tri_text *out) {
  char name[TRI_VISIBLE_MOST * 256];

  for (int64_t i = 0; i < f->n_tensor; i++) {
    const tri_inspected_row *r = &f->tensor[i];
    if (i == 0 || strcmp(f->tensor[i - 1].group, r->group) != 0) {
      shown(r->group, name, sizeof name);
      TRI_TRY(tri_text_printf(out, "\ntensors%s%s\n", name[0] ? " in " : "", name));
    }
    TRI_TRY(print_tensor(r, out));
  }
  return TRI_OK;
}

/* Sum over the tensors of one data type in one group, or outside all groups. */
typedef struct sum {
  int64_t n, count, bytes;
} sum;

static int compare_kinds(const tri_inspected_row *a, const tri_inspected_row *b) {
  int c = strcmp(a->group, b->group);

  return c ? c : strcmp(a->dtype, b->dtype);
}

/* Sorts by kind, and within a kind by position, since all rows are in one array. */
static int by_kind(const void *a, const void *b) {
  const tri_inspected_row *x = *(tri_inspected_row *const *)a, *y = *(tri_inspected_row *const *)b;
  int                      c = compare_kinds(x, y);

  return c ? c : (x > y) - (x < y);
}

static tri_status print_sum(const tri_inspected_row *r, const sum *s, tri_text *out) {
  char name[TRI_VISIBLE_MOST * 256], size[TRI_CELL_BYTES];

  shown(r->group[0] ? r->group : "all", name, sizeof name);
  tri_cell_bytes(s->bytes, size);
  return tri_text_printf(out, "  %-28s %5lld of %-4s %13lld elements %8s\n", name, (long long)s->n, r->dtype,
                         (long long)s->count, size);
}

/* Prints the sums in the order of each kind's first tensor. all[i] holds the sum of the kind that tensor i
 * begins. */
static tri_status print_sums(const tri_inspected *f, tri_text *out) {
  tri_status          st = TRI_OK;
  tri_inspected_row **order = NULL;
  sum                *all = NULL, *s = NULL; /* `all` has [n_tensor] */

  TRI_TRY_DONE(TRI_ALLOC(order, f->n_tensor));
  TRI_TRY_DONE(TRI_ALLOC(all, f->n_tensor));
  for (int64_t i = 0; i < f->n_tensor; i++) order[i] = &f->tensor[i];
  qsort(order, (size_t)f->n_tensor, sizeof *order, by_kind);
  for (int64_t i = 0; i < f->n_tensor; i++) {
    if (i == 0 || compare_kinds(order[i - 1], order[i]) != 0) s = &all[order[i] - f->tensor];
    s->n++;
    s->count += order[i]->count;
    s->bytes += order[i]->bytes;
  }
  for (int64_t i = 0; i < f->n_tensor; i++)
    if (all[i].n) TRI_TRY_DONE(print_sum(&f->tensor[i], &all[i], out));
done:
  TRI_FREE(order);
  TRI_FREE(all);
  return st;
}

static tri_status print_tensors(const tri_inspected *f, const tri_inspect_how *how, tri_text *out) {
  if (!how->json && how->tensors) return print_each(f, out);
  TRI_TRY(tri_text_printf(out, how->json ? ", \"tensors\": [" : "\ntensors (--tensors lists each)\n"));
  if (!how->json) return print_sums(f, out);
  for (int64_t i = 0; i < f->n_tensor; i++) TRI_TRY(print_tensor_json(&f->tensor[i], i == 0, out));
  return tri_text_printf(out, "]}\n");
}

static tri_status print_head_json(const tri_inspected *f, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "{\"kind\": \"%s\", \"path\": ", f->ckpt ? "checkpoint" : "model"));
  TRI_TRY(tri_json_put_string(out, f->path, strlen(f->path)));
  if (f->ckpt) {
    TRI_TRY(tri_text_printf(out, ", \"step\": %lld, \"program\": ", (long long)tri_ckpt_step(f->ckpt)));
    TRI_TRY(tri_json_put_string(out, tri_ckpt_program(f->ckpt), strlen(tri_ckpt_program(f->ckpt))));
    TRI_TRY(tri_text_printf(out, ", \"verified\": %s", f->verified ? "true" : "false"));
  }
  TRI_TRY(tri_text_printf(out, ", \"parameters\": %lld, \"bytes\": %lld", (long long)f->parameters,
                          (long long)f->bytes));
  if (!f->multimodal) return TRI_OK;
  return tri_text_printf(out, ", \"left_out\": {\"tensors\": %lld, \"bytes\": %lld}",
                         (long long)f->n_left_out, (long long)f->left_out_bytes);
}

static tri_status print_head(const tri_inspected *f, tri_text *out) {
  char text[TRI_VISIBLE_MOST * TRI_CKPT_PATH_BYTES], size[TRI_CELL_BYTES];

  shown(f->path, text, sizeof text);
  TRI_TRY(tri_text_printf(out, "%-11s %s\n", f->ckpt ? "checkpoint" : "folder", text));
  if (f->ckpt) {
    shown(tri_ckpt_program(f->ckpt), text, sizeof text);
    TRI_TRY(tri_text_printf(out, "written     by %s, after step %lld\n", text,
                            (long long)tri_ckpt_step(f->ckpt)));
  }
  tri_cell_bytes(f->bytes, size);
  TRI_TRY(tri_text_printf(out, "size        %lld parameters%s; %lld tensors, %s\n", (long long)f->parameters,
                          f->adapted ? " of adapters" : "", (long long)f->n_tensor, size));
  if (!f->multimodal) return TRI_OK;
  tri_cell_bytes(f->left_out_bytes, size);
  return tri_text_printf(out, "left out    %lld tensors outside the text model, %s\n",
                         (long long)f->n_left_out, size);
}

tri_status tri_inspect_print(const tri_inspected *f, const tri_inspect_how *how, tri_text *out) {
  TRI_TRY(how->json ? print_head_json(f, out) : print_head(f, out));
  if (f->has_shape) TRI_TRY(print_shape(&f->shape, how->json, out));
  if (!how->json && f->model && !f->has_shape && tri_file_in(f->path, ".")) /* a folder, not a file */
    TRI_TRY(tri_text_printf(out, "model       unknown. Without a config.json the folder cannot be used\n"));
  if (f->ckpt) TRI_TRY(print_record(f, how->json, out));
  if (f->ckpt) TRI_TRY(print_state(f, how->json, out));
  if (f->ckpt) TRI_TRY(print_files(f, how->json, out));
  TRI_TRY(print_tensors(f, how, out));
  if (how->json || !f->verified) return TRI_OK;
  return tri_text_printf(out, "\nverified: every byte is as it was written\n");
}
