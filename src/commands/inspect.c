/* inspect.c - trireme inspect PATH: what a checkpoint or a model folder holds, and whether its bytes are
 * right. */
#include "apart.h"
#include "base/columns.h"
#include "base/file.h"
#include "base/print.h"
#include "base/visible.h"
#include "comm/runtime.h"
#include "flags.h"
#include "io/model/safetensors.h"
#include "io/model/source.h"
#include "io/text/json_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
  NAME_COLUMNS = 47, /* chosen: model.layers.31.post_attention_layernorm.weight */
  PATH_ROOM = TRI_CKPT_PATH_BYTES + 64,
  MOST_GIB = 4, /* of memory, for reading a checkpoint; chosen: ten times what a manifest of 16 MiB takes */
  MOST_S = 600  /* of processor time, without --verify; chosen: ten times what all but tensors can take */
};

/* One tensor, of whichever kind of file. */
typedef struct row {
  const char    *group, *name; /* borrowed; group "" in a model folder */
  char           dtype[16];
  int            ndim;
  const int64_t *dim; /* [ndim], borrowed; the first TRI_MAX_DIM of them */
  int64_t        count, bytes;
} row;

/* What is asked for. */
typedef struct request {
  const char *path;                        /* borrowed */
  char        folder[TRI_CKPT_PATH_BYTES]; /* the checkpoint that path means; "": none */
  bool        latest;                      /* folder is what the run's LATEST names */
  bool        verify, json, tensors;
} request;

/* What was found. Exactly one of ckpt and model is open. */
typedef struct finding {
  char             path[TRI_CKPT_PATH_BYTES];
  tri_ckpt_reader *ckpt;
  tri_safetensors *model;
  row             *tensor; /* [n_tensor] */
  int64_t          n_tensor, bytes, parameters;
  bool             has_shape, verified;
  tri_model_shape  shape;
  tri_eos          eos;
} finding;

/* Text of a file that may be anybody's, made fit for a terminal; returns its bytes. */
static size_t shown(const char *text, char *out, size_t cap) {
  return tri_visible(text, strlen(text), "", out, cap);
}

static void add_row(finding *f, const row *r) {
  f->tensor[f->n_tensor++] = *r;
  f->bytes += r->bytes;
  if (!r->group[0] || !strcmp(r->group, "/model")) f->parameters += r->count;
}

static tri_status open_checkpoint(finding *f, const char *folder, bool verify) {
  char       *bytes = NULL, name[PATH_ROOM];
  size_t      n;
  tri_status  st = TRI_OK;
  tri_hf_text config;

  snprintf(f->path, sizeof f->path, "%s", folder);
  TRI_TRY(tri_ckpt_open(folder, NULL, verify, &f->ckpt));
  TRI_TRY(TRI_ALLOC(f->tensor, tri_ckpt_tensor_count(f->ckpt)));
  for (int i = 0; i < tri_ckpt_tensor_count(f->ckpt); i++) {
    const tri_ckpt_tensor *t = tri_ckpt_tensor_at(f->ckpt, i);
    row                    r = {t->group, t->name, {0}, t->ndim, t->dim, 1, 0};
    for (int k = 0; k < t->ndim; k++) r.count *= t->dim[k];
    r.bytes = r.count * (int64_t)tri_dtype_bytes(t->dtype);
    snprintf(r.dtype, sizeof r.dtype, "%s",
             t->dtype == TRI_F32    ? "f32"
             : t->dtype == TRI_BF16 ? "bf16"
                                    : "other");
    add_row(f, &r);
  }
  f->verified = verify;
  if (!tri_ckpt_has_file(f->ckpt, "config.json")) return TRI_OK;
  TRI_TRY_DONE(tri_ckpt_get_file(f->ckpt, "config.json", &bytes, &n));
  snprintf(name, sizeof name, "%s/config.json", folder);
  config = (tri_hf_text){name, bytes, n};
  TRI_TRY_DONE(tri_hf_config_parse(&config, NULL, &f->shape, &f->eos));
  f->has_shape = true;
done:
  TRI_FREE(bytes);
  return st;
}

static tri_status open_model(finding *f, const char *path, bool verify) {
  snprintf(f->path, sizeof f->path, "%s", path);
  TRI_TRY(tri_safetensors_open(path, &f->model));
  TRI_TRY(TRI_ALLOC(f->tensor, tri_safetensors_count(f->model)));
  for (int64_t i = 0; i < tri_safetensors_count(f->model); i++) {
    const tri_safetensors_info *t = tri_safetensors_at(f->model, i);
    row r = {"", t->name, {0}, t->ndim < TRI_MAX_DIM ? t->ndim : TRI_MAX_DIM, t->dim, t->count, t->bytes};
    for (int k = 0; t->dtype[k] && k < (int)sizeof r.dtype - 1; k++)
      r.dtype[k] = (char)(t->dtype[k] >= 'A' && t->dtype[k] <= 'Z' ? t->dtype[k] - 'A' + 'a' : t->dtype[k]);
    add_row(f, &r);
  }
  if (tri_file_in(path, "config.json")) {
    TRI_TRY(tri_hf_config_read(path, &f->shape, &f->eos));
    f->has_shape = true;
  }
  if (verify)
    tri_log(TRI_LOG_WARN, "%s: a model folder carries no hashes; its headers, offsets and sizes are right",
            path);
  return TRI_OK;
}

static void close_all(finding *f) {
  tri_ckpt_close(&f->ckpt);
  tri_safetensors_close(&f->model);
  TRI_FREE(f->tensor);
}

static int64_t file_bytes(const finding *f, const char *name) {
  char        path[PATH_ROOM + 64];
  struct stat sb;

  snprintf(path, sizeof path, "%s/%s", f->path, name);
  return stat(path, &sb) ? -1 : (int64_t)sb.st_size;
}

/* The name and the value, as JSON, of the i-th attribute of /state; a hash as messages show it. */
static tri_status state_value(const finding *f, int i, tri_text *name, tri_text *value) {
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

static tri_status print_shape(const tri_model_shape *s, bool json, tri_text *out) {
  if (json)
    return tri_text_printf(
        out,
        ", \"model\": {\"model_type\": \"%s\", \"layers\": %d, \"width\": %d, \"heads\": %d, "
        "\"key_value_heads\": %d, \"head_width\": %d, \"feed_forward_width\": %d, \"vocabulary\": %d, "
        "\"context_tokens\": %lld, \"tied_head\": %s}",
        s->model_type, s->L, s->C, s->H, s->G, s->D, s->F, s->V, (long long)s->max_pos,
        s->tied_head ? "true" : "false");
  return tri_text_printf(out,
                         "model       %s, %d layers, width %d, feed-forward %d, %s head,\n"
                         "            %d heads of %d, %d of keys and values,\n"
                         "            vocabulary %d, context %lld tokens\n",
                         s->model_type, s->L, s->C, s->F, s->tied_head ? "tied" : "own", s->H, s->D, s->G,
                         s->V, (long long)s->max_pos);
}

/* Of one attribute. */
static tri_status print_value(const tri_text *name, const tri_text *value, tri_text *out) {
  tri_status st = TRI_OK;
  size_t     n_name = name->len * TRI_VISIBLE_MOST + 1, n_value = value->len * TRI_VISIBLE_MOST + 1;
  char      *text = NULL;

  TRI_TRY(TRI_ALLOC(text, n_name + n_value));
  shown(name->data, text, n_name);
  shown(value->data, text + n_name, n_value);
  TRI_TRY_DONE(tri_text_printf(out, "  %-16s %s\n", text, text + n_name));
done:
  TRI_FREE(text);
  return st;
}

static tri_status print_state(const finding *f, bool json, tri_text *out) {
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

static tri_status print_files(const finding *f, bool json, tri_text *out) {
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

static tri_status print_tensor_json(const row *r, bool first, tri_text *out) {
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

/* In one line where that is as wide as a screen, else the name above the rest. */
static tri_status print_tensor(const row *r, tri_text *out) {
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

/* In the order of the file, under a heading for the group they lie in. */
static tri_status print_each(const finding *f, tri_text *out) {
  char name[TRI_VISIBLE_MOST * 256];

  for (int64_t i = 0; i < f->n_tensor; i++) {
    const row *r = &f->tensor[i];
    if (i == 0 || strcmp(f->tensor[i - 1].group, r->group) != 0) {
      shown(r->group, name, sizeof name);
      TRI_TRY(tri_text_printf(out, "\ntensors%s%s\n", name[0] ? " in " : "", name));
    }
    TRI_TRY(print_tensor(r, out));
  }
  return TRI_OK;
}

/* The tensors that lie in one group, or in no group, and have one type. */
typedef struct sum {
  int64_t n, count, bytes;
} sum;

static int compare_kinds(const row *a, const row *b) {
  int c = strcmp(a->group, b->group);

  return c ? c : strcmp(a->dtype, b->dtype);
}

/* Within a kind by place: all are of one array. */
static int by_kind(const void *a, const void *b) {
  const row *x = *(row *const *)a, *y = *(row *const *)b;
  int        c = compare_kinds(x, y);

  return c ? c : (x > y) - (x < y);
}

static tri_status print_sum(const row *r, const sum *s, tri_text *out) {
  char name[TRI_VISIBLE_MOST * 256], size[TRI_CELL_BYTES];

  shown(r->group[0] ? r->group : "all", name, sizeof name);
  tri_cell_bytes(s->bytes, size);
  return tri_text_printf(out, "  %-21s %6lld of %-5s %15lld elements %8s\n", name, (long long)s->n, r->dtype,
                         (long long)s->count, size);
}

/* In the order of each kind's first tensor, where its sum is kept. */
static tri_status print_sums(const finding *f, tri_text *out) {
  tri_status st = TRI_OK;
  row      **order = NULL;
  sum       *all = NULL, *s = NULL; /* all: [n_tensor] */

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

static tri_status print_tensors(const finding *f, const request *q, tri_text *out) {
  if (!q->json && q->tensors) return print_each(f, out);
  TRI_TRY(tri_text_printf(out, q->json ? ", \"tensors\": [" : "\ntensors (--tensors lists each)\n"));
  if (!q->json) return print_sums(f, out);
  for (int64_t i = 0; i < f->n_tensor; i++) TRI_TRY(print_tensor_json(&f->tensor[i], i == 0, out));
  return tri_text_printf(out, "]}\n");
}

static tri_status print_head_json(const finding *f, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "{\"kind\": \"%s\", \"path\": ", f->ckpt ? "checkpoint" : "model"));
  TRI_TRY(tri_json_put_string(out, f->path, strlen(f->path)));
  if (f->ckpt) {
    TRI_TRY(tri_text_printf(out, ", \"step\": %lld, \"program\": ", (long long)tri_ckpt_step(f->ckpt)));
    TRI_TRY(tri_json_put_string(out, tri_ckpt_program(f->ckpt), strlen(tri_ckpt_program(f->ckpt))));
    TRI_TRY(tri_text_printf(out, ", \"verified\": %s", f->verified ? "true" : "false"));
  }
  return tri_text_printf(out, ", \"parameters\": %lld, \"bytes\": %lld", (long long)f->parameters,
                         (long long)f->bytes);
}

static tri_status print_head(const finding *f, tri_text *out) {
  char text[TRI_VISIBLE_MOST * TRI_CKPT_PATH_BYTES], size[TRI_CELL_BYTES];

  shown(f->path, text, sizeof text);
  TRI_TRY(tri_text_printf(out, "%-11s %s\n", f->ckpt ? "checkpoint" : "folder", text));
  if (f->ckpt) {
    shown(tri_ckpt_program(f->ckpt), text, sizeof text);
    TRI_TRY(tri_text_printf(out, "written     by %s, after step %lld\n", text,
                            (long long)tri_ckpt_step(f->ckpt)));
  }
  tri_cell_bytes(f->bytes, size);
  return tri_text_printf(out, "size        %lld parameters; %lld tensors, %s\n", (long long)f->parameters,
                         (long long)f->n_tensor, size);
}

static tri_status print(const finding *f, const request *q, tri_text *out) {
  TRI_TRY(q->json ? print_head_json(f, out) : print_head(f, out));
  if (f->has_shape) TRI_TRY(print_shape(&f->shape, q->json, out));
  if (!q->json && f->model && !f->has_shape && tri_file_in(f->path, ".")) /* a folder, no file */
    TRI_TRY(tri_text_printf(
        out, "model       not known: there is no config.json, without which it cannot be used\n"));
  if (f->ckpt) TRI_TRY(print_state(f, q->json, out));
  if (f->ckpt) TRI_TRY(print_files(f, q->json, out));
  TRI_TRY(print_tensors(f, q, out));
  if (q->json || !f->verified) return TRI_OK;
  return tri_text_printf(out, "\nverified: every byte is the one that was written\n");
}

/* ---- what PATH means */

static tri_status show_model(const request *q, const char *path, tri_text *out) {
  finding    f = {0};
  tri_status st = open_model(&f, path, q->verify);

  if (st == TRI_OK) st = print(&f, q, out);
  close_all(&f);
  return st;
}

/* In a child process. */
static tri_status show_checkpoint(void *ctx, tri_text *out) {
  const request *q = ctx;
  finding        f = {0};
  tri_status     st = open_checkpoint(&f, q->folder, q->verify);

  if (st == TRI_OK) st = print(&f, q, out);
  close_all(&f);
  return st;
}

/* In a child process: the newest that is whole; with --verify all bytes are read. */
static tri_status find_whole(void *ctx, tri_text *out) {
  const request *q = ctx;
  char           folder[TRI_CKPT_PATH_BYTES];

  TRI_TRY(tri_source_find_checkpoint(q->path, NULL, q->verify, folder));
  return tri_text_put(out, folder, strlen(folder));
}

/* In a child process: as find_whole, without a word about those passed over. */
static tri_status find_next(void *ctx, tri_text *out) {
  const request *q = ctx;
  char           folder[TRI_CKPT_PATH_BYTES];

  TRI_TRY(tri_ckpt_find(q->path, NULL, q->verify, NULL, folder));
  return tri_text_put(out, folder, strlen(folder));
}

/* A file that no trireme wrote may crash the HDF5 library or make it ask for any memory, whatever is checked
 * before. With --verify the time is what the bytes take. */
static tri_status apart(tri_apart_work work, request *q, const char *what, tri_text *out) {
  tri_apart_limit limit = {(int64_t)MOST_GIB << 30, q->verify ? 0 : MOST_S};
  char            how[TRI_APART_HOW_BYTES];
  tri_status      st = tri_apart(work, q, &limit, out, how);

  if (!how[0]) return st;
  if (st == TRI_EFILE) TRI_FAIL(st, "%s: reading its state.h5 was ended: %s; nothing was read", what, how);
  TRI_FAIL(st,
           "%s: its state.h5 crashed the HDF5 library (%s; it may take %d GiB of memory): it was not written "
           "by trireme or is damaged; nothing was read",
           what, how, MOST_GIB);
}

/* A run's LATEST is shown as it is: who inspects wants to know that it is damaged, not to see an older one.
 * Where it names none that is there, it is that which a resumed run would take. */
static tri_status find_checkpoint(request *q) {
  tri_status st = TRI_OK;
  tri_text   found = {0};

  if (tri_file_in(q->path, "MANIFEST.json")) {
    snprintf(q->folder, sizeof q->folder, "%s", q->path);
    return TRI_OK;
  }
  TRI_TRY(tri_ckpt_find_latest(q->path, q->folder));
  q->latest = q->folder[0];
  if (q->latest) return TRI_OK;
  TRI_TRY_DONE(apart(find_whole, q, q->path, &found));
  snprintf(q->folder, sizeof q->folder, "%s", found.data ? found.data : "");
done:
  tri_text_free(&found);
  return st;
}

/* The message of what is wrong with q->folder gains what a resumed run would do. */
static tri_status tell_next(request *q, tri_status st) {
  const char *is = st == TRI_EFORMAT ? "is damaged" : "cannot be read";
  tri_text    found = {0};
  char       *why = NULL;
  tri_status  next;

  TRI_TRY(tri_copy_text(tri_error_message(), &why));
  tri_error_clear();
  next = apart(find_next, q, q->path, &found);
  tri_error_clear();
  if (next != TRI_OK || !found.len)
    tri_fail(__FILE__, __LINE__, __func__, st,
             "LATEST %s: %s; no other was found that a resumed run could take", is, why);
  else if (strcmp(found.data, q->folder) != 0)
    tri_fail(__FILE__, __LINE__, __func__, st, "LATEST %s: %s; a resumed run would take %s%s", is, why,
             found.data, q->verify ? "" : " if its tensors are whole (--verify reads them)");
  else
    tri_error_set(st, why); /* a resumed run can do without what could not be shown */
  TRI_FREE(why);
  tri_text_free(&found);
  return st;
}

static tri_status show_found(request *q, tri_text *out) {
  tri_status st = apart(show_checkpoint, q, q->folder, out);

  return q->latest && (st == TRI_EFORMAT || st == TRI_EFILE) ? tell_next(q, st) : st;
}

static tri_status show(request *q, tri_text *out) {
  const char *path = q->path;
  struct stat sb;

  if (strlen(path) >= TRI_CKPT_PATH_BYTES) TRI_FAIL(TRI_EINPUT, "the path is too long: %.100s...", path);
  if (stat(path, &sb)) TRI_FAIL(TRI_EINPUT, "%s: %s", path, strerror(errno));
  if (!S_ISDIR(sb.st_mode)) return show_model(q, path, out);
  TRI_TRY(find_checkpoint(q));
  if (q->folder[0]) return show_found(q, out);
  if (tri_file_in(path, "state.h5"))
    TRI_FAIL(TRI_EFORMAT, "%s: is no whole checkpoint: it has no MANIFEST.json, which is written last", path);
  if (tri_file_in(path, "model.safetensors") || tri_file_in(path, "model.safetensors.index.json") ||
      tri_file_in(path, "config.json"))
    return show_model(q, path, out);
  TRI_TRY(tri_source_check_output(path));
  TRI_FAIL(TRI_EINPUT, "%s: is neither a checkpoint, nor the output folder of a run, nor a model folder",
           path);
}

static tri_status run(int argc, char **argv, int *code) {
  request  q = {0};
  bool     help;
  tri_flag flag[] = {
      {"--verify", TRI_FLAG_BOOL, &q.verify, 0, 0, NULL, "read everything and compare it with the hashes"},
      {"--tensors", TRI_FLAG_BOOL, &q.tensors, 0, 0, NULL, "list every tensor, not only their sums"},
      {"--json", TRI_FLAG_BOOL, &q.json, 0, 0, NULL, "one JSON value on standard output, with every tensor"},
  };
  int        n;
  tri_text   out = {0};
  tri_status st = TRI_OK;

  (void)code;
  TRI_TRY(tri_flags_parse(&tri_command_inspect, flag, sizeof flag / sizeof *flag, argc, argv, &n, &help));
  if (help) {
    printf("\nA checkpoint is read in a process of its own, so that one that crashes the HDF5\n"
           "library is a message (exit code 74). It may take %d GiB of memory and, without\n"
           "--verify, %d s of processor time. The other commands read without that: trust\n"
           "the checkpoints you resume from, export and generate with, and inspect a\n"
           "stranger's first.\n",
           MOST_GIB, MOST_S);
    return TRI_OK;
  }
  const tri_need need[] = {{"PATH", n > 0}};
  TRI_TRY(tri_flags_need(&tri_command_inspect, need, 1, n > 1 ? argv[1] : NULL));
  if (tri_runtime_env_rank() != 0) return TRI_OK; /* work for one rank */
  q.path = argv[0];
  TRI_TRY_DONE(show(&q, &out));
  TRI_TRY_DONE(tri_print(out.data, out.len));
done:
  tri_text_free(&out);
  return st;
}

const tri_command tri_command_inspect = {
    "inspect", "PATH [--verify] [--tensors] [--json]",
    "what a checkpoint, a run's newest checkpoint or a model folder holds", run};
