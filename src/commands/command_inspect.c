/* command_inspect.c - trireme inspect PATH: describes a checkpoint or a model folder and checks its bytes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/log.h"
#include "tools/inspect/inspect.h"
#include "base/apart.h"
#include "base/file.h"
#include "base/print.h"
#include "comm/runtime.h"
#include "commands.h"
#include "io/hf/peft.h"
#include "io/model/hub.h"
#include "io/model/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CONFIG_BYTES = 16 << 20 }; /* chosen: a hundred times the largest known config.json */
enum {
  MOST_GIB = 4, /* memory for reading a checkpoint. Chosen: ten times the need of a manifest of 16 MiB */
  MOST_S = 600  /* processor time without --verify. Chosen: ten times the need of everything but tensors */
};

/* The arguments of the command. */
typedef struct request {
  const char     *path;                        /* borrowed */
  char            folder[TRI_CKPT_PATH_BYTES]; /* the checkpoint `path` stands for, "" if none */
  bool            latest;                      /* LATEST of the run names `folder` */
  bool            verify;
  tri_inspect_how how;
} request;

static void add_row(tri_inspected *f, const tri_inspected_row *r) {
  f->tensor[f->n_tensor++] = *r;
  f->bytes += r->bytes;
  f->adapted |= !strcmp(r->group, tri_part_adapters(TRI_PART_MAIN));
  if (!r->group[0] || !strcmp(r->group, "/model") || !strcmp(r->group, tri_part_adapters(TRI_PART_MAIN)))
    f->parameters += r->count;
}

static tri_status open_checkpoint(tri_inspected *f, const char *folder, bool verify) {
  char       *bytes = NULL, name[TRI_INSPECT_FILE_BYTES];
  size_t      n;
  tri_status  st = TRI_OK;
  tri_hf_text config;

  snprintf(f->path, sizeof f->path, "%s", folder);
  TRI_TRY(tri_ckpt_open(folder, NULL, verify, &f->ckpt));
  TRI_TRY(TRI_ALLOC(f->tensor, tri_ckpt_tensor_count(f->ckpt)));
  for (int i = 0; i < tri_ckpt_tensor_count(f->ckpt); i++) {
    const tri_ckpt_tensor *t = tri_ckpt_tensor_at(f->ckpt, i);
    tri_inspected_row      r = {t->group, t->name, {0}, t->ndim, t->dim, 1, 0};
    for (int k = 0; k < t->ndim; k++) r.count *= t->dim[k];
    r.bytes = r.count * (int64_t)tri_dtype_bytes(t->dtype);
    snprintf(r.dtype, sizeof r.dtype, "%s", tri_dtype_word(t->dtype));
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

/* Counts the tensors outside the text model of a multimodal folder. */
static tri_status count_left_out(tri_inspected *f) {
  char        path[TRI_INSPECT_FILE_BYTES], *name = NULL;
  tri_hf_text config = {path, NULL, 0};
  char       *bytes = NULL;
  tri_text    half = {0};
  tri_status  st = TRI_OK;

  snprintf(path, sizeof path, "%s/config.json", f->path);
  TRI_TRY_DONE(tri_file_read(path, CONFIG_BYTES, &bytes, &config.n_bytes));
  config.bytes = bytes;
  TRI_TRY_DONE(tri_hf_config_half(&config, &half, &f->multimodal));
  for (int64_t i = 0; f->multimodal && i < f->n_tensor; i++) {
    TRI_TRY_DONE(tri_copy_text(f->tensor[i].name, &name));
    if (!tri_safetensors_text_name(name)) {
      f->n_left_out++;
      f->left_out_bytes += f->tensor[i].bytes;
    }
    TRI_FREE(name);
  }
done:
  TRI_FREE(name);
  TRI_FREE(bytes);
  tri_text_free(&half);
  return st;
}

static tri_status open_model(tri_inspected *f, const char *path, bool verify) {
  snprintf(f->path, sizeof f->path, "%s", path);
  TRI_TRY(tri_safetensors_open(path, &f->model));
  TRI_TRY(TRI_ALLOC(f->tensor, tri_safetensors_count(f->model)));
  for (int64_t i = 0; i < tri_safetensors_count(f->model); i++) {
    const tri_safetensors_info *t = tri_safetensors_at(f->model, i);
    tri_inspected_row           r = {"",     t->name,  {0},     t->ndim < TRI_MAX_DIM ? t->ndim : TRI_MAX_DIM,
                                     t->dim, t->count, t->bytes};
    for (int k = 0; t->dtype[k] && k < (int)sizeof r.dtype - 1; k++)
      r.dtype[k] = (char)(t->dtype[k] >= 'A' && t->dtype[k] <= 'Z' ? t->dtype[k] - 'A' + 'a' : t->dtype[k]);
    add_row(f, &r);
  }
  if (tri_file_in(path, "config.json")) {
    TRI_TRY(tri_hf_config_read(path, &f->shape, &f->eos));
    f->has_shape = true;
    TRI_TRY(count_left_out(f));
  }
  if (verify)
    tri_log(
        TRI_LOG_WARN,
        "%s: headers, offsets and sizes are right. A model folder has no hashes to compare its bytes with. "
        "`trireme train DECK --check` compares its tensors with config.json",
        path);
  return TRI_OK;
}

static void close_all(tri_inspected *f) {
  tri_ckpt_close(&f->ckpt);
  tri_safetensors_close(&f->model);
  TRI_FREE(f->tensor);
}

/* ---- meanings of PATH ---- */

static tri_status show_model(const request *q, const char *path, tri_text *out) {
  tri_inspected f = {0};
  tri_status    st = open_model(&f, path, q->verify);

  if (st == TRI_OK) st = tri_inspect_print(&f, &q->how, out);
  close_all(&f);
  return st;
}

/* Runs in a child process. */
static tri_status show_checkpoint(void *ctx, tri_text *out) {
  const request *q = ctx;
  tri_inspected  f = {0};
  tri_status     st = open_checkpoint(&f, q->folder, q->verify);

  if (st == TRI_OK) st = tri_inspect_print(&f, &q->how, out);
  close_all(&f);
  return st;
}

/* Runs in a child process. Finds the newest whole checkpoint. --verify reads all bytes. */
static tri_status find_whole(void *ctx, tri_text *out) {
  const request *q = ctx;
  char           folder[TRI_CKPT_PATH_BYTES];

  TRI_TRY(tri_source_find_checkpoint(q->path, NULL, q->verify, folder));
  return tri_text_put(out, folder, strlen(folder));
}

/* Runs in a child process. Does the same as find_whole, without a message about damaged checkpoints. */
static tri_status find_next(void *ctx, tri_text *out) {
  const request *q = ctx;
  char           folder[TRI_CKPT_PATH_BYTES];

  TRI_TRY(tri_ckpt_find(q->path, NULL, q->verify, NULL, folder));
  return tri_text_put(out, folder, strlen(folder));
}

/* Reads a checkpoint in a child process with limits. A state.h5 of another program may crash the HDF5 library
 * or make it allocate any amount of memory, and no check before can prevent it. With --verify the time is not
 * limited, since reading all bytes takes as long as it takes. */
static tri_status apart(tri_apart_work work, request *q, const char *what, tri_text *out) {
  tri_apart_limit limit = {(int64_t)MOST_GIB << 30, q->verify ? 0 : MOST_S};
  char            how[TRI_APART_HOW_BYTES];
  tri_status      st = tri_apart(work, q, &limit, out, how);

  if (!how[0]) return st;
  if (st == TRI_EFILE) TRI_FAIL(st, "%s: reading its state.h5 was stopped: %s. Nothing was read", what, how);
  TRI_FAIL(st,
           "%s: its state.h5 crashed the HDF5 library (%s, limit %d GiB of memory). It is damaged or another "
           "program wrote it. Nothing was read",
           what, how, MOST_GIB);
}

/* Finds the checkpoint to show. A run's LATEST is shown even if it is damaged, because the user wants to see
 * the damage and not an older checkpoint. If LATEST names no existing checkpoint, the one a resumed run would
 * take is shown. */
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

/* Adds to the error about q->folder the checkpoint a resumed run would take. */
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
    tri_fail(__FILE__, __LINE__, __func__, st, "LATEST %s: %s. No other checkpoint was found to resume from",
             is, why);
  else if (strcmp(found.data, q->folder) != 0)
    tri_fail(__FILE__, __LINE__, __func__, st, "LATEST %s: %s. A resumed run would take %s%s", is, why,
             found.data, q->verify ? "" : " if its tensors are whole (--verify reads them)");
  else
    tri_error_set(st, why); /* a resumed run does not need the part that failed */
  TRI_FREE(why);
  tri_text_free(&found);
  return st;
}

static tri_status show_found(request *q, tri_text *out) {
  tri_status st = apart(show_checkpoint, q, q->folder, out);

  return q->latest && (st == TRI_EFORMAT || st == TRI_EFILE) ? tell_next(q, st) : st;
}

static tri_status show(request *q, tri_text *out) {
  char        path[TRI_CKPT_PATH_BYTES];
  struct stat sb;

  TRI_TRY(tri_hub_resolve(q->path, true, path));
  if (stat(path, &sb)) TRI_FAIL(TRI_EINPUT, "%s: %s", path, strerror(errno));
  if (!S_ISDIR(sb.st_mode)) return show_model(q, path, out);
  TRI_TRY(find_checkpoint(q));
  if (q->folder[0]) return show_found(q, out);
  if (tri_file_in(path, "state.h5"))
    TRI_FAIL(TRI_EFORMAT,
             "%s: this checkpoint is not complete. It lacks MANIFEST.json, the file written last", path);
  if (tri_file_in(path, "model.safetensors") || tri_file_in(path, "model.safetensors.index.json") ||
      tri_file_in(path, "config.json"))
    return show_model(q, path, out);
  if (tri_file_in(path, TRI_PEFT_WEIGHTS)) { /* an adapter is shown as its file */
    snprintf(path + strlen(path), sizeof path - strlen(path), "/%s", TRI_PEFT_WEIGHTS);
    return show_model(q, path, out);
  }
  TRI_TRY(tri_source_check_output(path));
  TRI_FAIL(
      TRI_EINPUT,
      "%s: this is neither a checkpoint, nor the output folder of a run, nor a folder with a model or an "
      "adapter",
      path);
}

static tri_status run(int argc, char **argv, int *code) {
  request  q = {0};
  bool     help;
  tri_flag flag[] = {
      {"--verify", TRI_FLAG_BOOL, &q.verify, 0, 0, NULL, "read all bytes and compare them with the hashes"},
      {"--tensors", TRI_FLAG_BOOL, &q.how.tensors, 0, 0, NULL, "list every tensor instead of totals only"},
      {"--json", TRI_FLAG_BOOL, &q.how.json, 0, 0, NULL, "print one JSON value with every tensor"},
  };
  int        n;
  tri_text   out = {0};
  tri_status st = TRI_OK;

  (void)code;
  TRI_TRY(tri_flags_parse(&tri_command_inspect, flag, sizeof flag / sizeof *flag, argc, argv, &n, &help));
  if (help) {
    printf("\nA separate process reads the checkpoint, so that a crash of the HDF5 library\n"
           "becomes a message (exit code 74). It may take %d GiB of memory and, without\n"
           "--verify, %d s of processor time. The other commands read without this\n"
           "protection. Inspect a checkpoint of another person before you resume, export or\n"
           "generate from it.\n",
           MOST_GIB, MOST_S);
    return TRI_OK;
  }
  const tri_need need[] = {{"PATH", n > 0}};
  TRI_TRY(tri_flags_need(&tri_command_inspect, need, 1, n > 1 ? argv[1] : NULL));
  if (tri_runtime_env_rank() != 0) return TRI_OK; /* one rank does the work */
  q.path = argv[0];
  TRI_TRY_DONE(show(&q, &out));
  TRI_TRY_DONE(tri_print(out.data, out.len));
done:
  tri_text_free(&out);
  return st;
}

const tri_command tri_command_inspect = {
    "inspect", "PATH [--verify] [--tensors] [--json]",
    "describe a checkpoint, a run's newest checkpoint, a model folder or an adapter, and check its bytes",
    run};
