/* export.c - writes a checkpoint's weights and small files as a Hugging Face folder. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "export.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "sidecar.h"
#include "export_half.h"
#include "io/hf/hf_config.h"
#include "io/text/json_text.h"
#include "io/tokenizer/tokenizer.h"
#include "io/hf/peft.h"
#include "hub.h"
#include "safetensors.h"
#include "source_impl.h"
#include "template.h"
#include "tokenizer_files.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 22 }; /* elements; chosen: 16 MiB of host memory */
enum { PATH_SPACE = TRI_CKPT_PATH_BYTES + 128 };

/* A small file of the model, read from the checkpoint. */
typedef struct small {
  char  *bytes; /* NULL if there is none */
  size_t n;
} small;

typedef struct job {
  tri_ckpt_reader      *r;
  tri_source           *adapted; /* source that merges adapters into their base, else NULL */
  tri_merge             merge;
  const tri_export_opt *opt;
  char                  tmp[TRI_CKPT_PATH_BYTES]; /* FOLDER.tmp, or "" until this export has made it */
  tri_safetensors_spec *spec;                     /* [n] */
  int                  *source, *shard;           /* [n] index in the checkpoint, and index of the file */
  int64_t               n;
  int                   n_shard;
  bool                  half;        /* multimodal base: tensors get its names */
  char (*name)[TRI_HALF_NAME_BYTES]; /* [n] if half, else NULL */
  float          *buf;               /* [PIECE] */
  tri_model_shape shape;
  tri_eos         eos;
  tri_template template; /* the export's own template */
  int32_t end;           /* its end token, if it is no end token of the model, else -1 */
} job;

/* ---- the folder ---- */

static tri_status check_free(const char *folder) {
  bool empty;

  if (!tri_folder_has(AT_FDCWD, folder)) return TRI_OK; /* or mkdir reports the error */
  if (tri_folder_has_link(AT_FDCWD, folder))
    TRI_FAIL(TRI_EINPUT, "%s: is a link. Name its target, or another folder.", folder);
  if (tri_folder_is_empty(folder, &empty) != TRI_OK) return TRI_EINPUT; /* the user can name another folder */
  if (!empty)
    TRI_FAIL(TRI_EINPUT, "%s: is not empty. Name another folder, or remove this one first.", folder);
  return TRI_OK;
}

/* Makes FOLDER.tmp. Sets tmp [TRI_CKPT_PATH_BYTES] only if it made the folder. */
static tri_status make_tmp(const char *folder, char *tmp) {
  char   path[TRI_CKPT_PATH_BYTES];
  size_t n = strlen(folder);

  while (n > 1 && folder[n - 1] == '/') n--;
  if (!n || n + sizeof ".tmp" > TRI_CKPT_PATH_BYTES)
    TRI_FAIL(TRI_EINPUT, "'%.100s' cannot be a folder's path", folder);
  TRI_TRY(check_free(folder));
  snprintf(path, sizeof path, "%.*s.tmp", (int)n, folder);
  TRI_TRY(tri_folder_make_above(path));
  if (mkdir(path, 0777)) {
    if (errno == EEXIST)
      TRI_FAIL(TRI_EINPUT, "%s: exists already, perhaps from a killed export. Remove it first.", path);
    TRI_FAIL(TRI_EFILE, "%s: the folder cannot be made: %s", path, strerror(errno));
  }
  memcpy(tmp, path, sizeof path);
  return TRI_OK;
}

static tri_status publish(const char *tmp, const char *folder) {
  int fd = open(tmp, O_RDONLY | O_CLOEXEC);

  if (fd < 0) TRI_FAIL(TRI_EFILE, "%s: cannot be opened: %s", tmp, strerror(errno));
  if (fsync(fd) && errno != EINVAL) { /* EINVAL: nothing to sync on this file system */
    close(fd);
    TRI_FAIL(TRI_EFILE, "%s: fsync failed (%s)", tmp, strerror(errno));
  }
  close(fd);
  if (rename(tmp, folder))
    TRI_FAIL(TRI_EFILE, "%s: cannot be renamed to %s: %s", tmp, folder, strerror(errno));
  return TRI_OK;
}

/* ---- small files ---- */

static tri_status get_small(tri_ckpt_reader *r, const char *name, small *out) {
  *out = (small){0};
  return tri_ckpt_has_file(r, name) ? tri_ckpt_get_file(r, name, &out->bytes, &out->n) : TRI_OK;
}

static tri_status put_small(const job *j, const char *name, const void *bytes, size_t n) {
  char path[PATH_SPACE];

  snprintf(path, sizeof path, "%s/%s", j->tmp, name);
  return tri_file_write(path, bytes, n);
}

static tri_status put_json(const job *j, const char *name, const json_t *value) {
  /* 15 digits read better if they are exact: 1e-05, not 1.0000000000000001e-05. */
  char      *text = json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
  json_t    *again = text ? json_loads(text, JSON_ALLOW_NUL, NULL) : NULL;
  tri_status st;

  if (!json_equal(value, again)) {
    free(text);
    text = json_dumps(value, JSON_INDENT(2));
  }
  json_decref(again);

  if (!text) TRI_FAIL(TRI_ENOMEM, "%s: no host memory left to write it", name);
  st = put_small(j, name, text, strlen(text));
  free(text);
  return st;
}

static tri_status put_config(const job *j, const tri_hf_text *config) {
  json_t    *root;
  tri_status st;

  TRI_TRY(tri_hf_config_with_dtype(config, j->opt->dtype, &root));
  st = put_json(j, "config.json", root);
  json_decref(root);
  return st;
}

/* Sets eos_token_id to the model's end tokens, and adds the chat template's if it is not among them. */
static void set_ends(const job *j, json_t *root) {
  json_t *ends = json_array();

  for (int i = 0; i < j->eos.n; i++) json_array_append_new(ends, json_integer(j->eos.id[i]));
  if (j->end >= 0) json_array_append_new(ends, json_integer(j->end));
  if (json_array_size(ends) == 1) json_object_set(root, "eos_token_id", json_array_get(ends, 0));
  if (json_array_size(ends) > 1) json_object_set(root, "eos_token_id", ends);
  json_decref(ends);
}

/* Writes a generation_config.json with the end tokens of config.json. With an added end token the mark
 * _from_model_config is removed, because transformers would rebuild a marked file from config.json. */
static tri_status put_generation(const job *j, const small *file) {
  static const char alike[] = "_from_model_config";
  tri_hf_text       text = {"generation_config.json", file->bytes, file->n};
  json_t           *root = NULL;
  tri_status        st;

  if (file->bytes && j->end < 0) return put_small(j, text.name, file->bytes, file->n);
  if (j->shape.scored) return TRI_OK; /* a scoring model generates nothing */
  if (file->bytes) {
    TRI_TRY(tri_hf_object(&text, &root));
  } else {
    root = json_object();
    json_object_set_new(root, alike, json_true());
    if (j->eos.bos >= 0) json_object_set_new(root, "bos_token_id", json_integer(j->eos.bos));
    if (j->eos.pad >= 0) json_object_set_new(root, "pad_token_id", json_integer(j->eos.pad));
  }
  if (j->end >= 0) json_object_del(root, alike);
  set_ends(j, root);
  st = put_json(j, text.name, root);
  json_decref(root);
  return st;
}

/* ---- the tokenizer ---- */

static void set_template(const job *j, json_t *root) {
  if (j->template.text.len)
    json_object_set_new(root, "chat_template", json_stringn(j->template.text.data, j->template.text.len));
}

/* Writes the template as the last field of a JSON object with other fields, and keeps the bytes of those. */
static tri_status put_behind(const job *j, const small *config) {
  json_t    *value = json_stringn(j->template.text.data, j->template.text.len);
  char      *field = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
  size_t     n = config->n;
  tri_text   text = {0};
  tri_status st = TRI_OK;

  json_decref(value);
  if (!field) TRI_FAIL(TRI_ENOMEM, "tokenizer_config.json: no host memory left to write it");
  while (n > 0 && config->bytes[n - 1] != '}') n--;
  TRI_ASSERT(n > 0);
  TRI_TRY_DONE(tri_text_put(&text, config->bytes, n - 1));
  TRI_TRY_DONE(tri_text_printf(&text, ",\n  \"chat_template\": "));
  TRI_TRY_DONE(tri_text_put(&text, field, strlen(field)));
  TRI_TRY_DONE(tri_text_put(&text, "\n}\n", 3));
  TRI_TRY_DONE(put_small(j, "tokenizer_config.json", text.data, text.len));
done:
  tri_text_free(&text);
  free(field);
  return st;
}

/* Writes the model's own file, a JSON object, with the template. The file may have a number too large to be
 * written again. */
static tri_status put_with_template(const job *j, const small *config) {
  json_t    *root = json_loadb(config->bytes, config->n, JSON_ALLOW_NUL, NULL);
  tri_status st;

  if (!root && j->template.replaces) /* chat_template.jinja overrides the template in this file */
    return put_small(j, "tokenizer_config.json", config->bytes, config->n);
  if (!root) return put_behind(j, config);
  set_template(j, root);
  st = put_json(j, "tokenizer_config.json", root);
  json_decref(root);
  return st;
}

/* Writes a tokenizer_config.json if the model has none. Without one, transformers builds the model family's
 * own tokenizer and drops parts of tokenizer.json. The class written here takes tokenizer.json unchanged. */
static tri_status put_tokenizer_config(const job *j) {
  tri_status     st = TRI_OK;
  tri_tokenizer *t = NULL;
  json_t        *root = json_object();
  const char    *end, *begin;

  TRI_TRY_DONE(tri_tokenizer_files_get(j->r, &t));
  end = tri_tokenizer_token(t, tri_eos_of_text(&j->eos, tri_tokenizer_named(t, "eos_token")));
  begin = j->eos.bos >= 0 ? tri_tokenizer_token(t, j->eos.bos) : NULL;
  json_object_set_new(root, "tokenizer_class", json_string("PreTrainedTokenizerFast"));
  json_object_set_new(root, "clean_up_tokenization_spaces", json_false());
  if (begin) json_object_set_new(root, "bos_token", json_string(begin));
  if (end) json_object_set_new(root, "eos_token", json_string(end));
  set_template(j, root);
  TRI_TRY_DONE(put_json(j, "tokenizer_config.json", root));
done:
  json_decref(root);
  tri_tokenizer_close(&t);
  return st;
}

static tri_status put_tokenizer(const job *j) {
  tri_status st = TRI_OK;
  small      file = {0}, config = {0};

  TRI_TRY_DONE(get_small(j->r, "tokenizer.json", &file));
  TRI_TRY_DONE(get_small(j->r, "tokenizer_config.json", &config));
  if (file.bytes) TRI_TRY_DONE(put_small(j, "tokenizer.json", file.bytes, file.n));
  if (config.bytes && j->template.text.len)
    TRI_TRY_DONE(put_with_template(j, &config));
  else if (config.bytes)
    TRI_TRY_DONE(put_small(j, "tokenizer_config.json", config.bytes, config.n));
  else if (file.bytes)
    TRI_TRY_DONE(put_tokenizer_config(j));
done:
  TRI_FREE(file.bytes);
  TRI_FREE(config.bytes);
  return st;
}

/* Tells whether the file is a chat template that the export replaces. */
static bool is_other_template(const job *j, const char *name) {
  return j->template.replaces && !strncmp(name, "chat_template", strlen("chat_template"));
}

/* Writes a file of a model's folder, perhaps in a subfolder. */
static tri_status put_at(const job *j, const char *name, const void *bytes, size_t n) {
  const char *slash = strchr(name, '/');
  char        folder[PATH_SPACE];

  snprintf(folder, sizeof folder, "%s/%.*s", j->tmp, slash ? (int)(slash - name) : 0, name);
  if (slash && mkdir(folder, 0777) && errno != EEXIST)
    TRI_FAIL(TRI_EFILE, "%s: the folder cannot be made: %s", folder, strerror(errno));
  return put_small(j, name, bytes, n);
}

static tri_status put_sidecar(const job *j) {
  tri_status  st = TRI_OK;
  tri_sidecar c = {0};

  TRI_TRY_DONE(tri_sidecar_get(j->r, &c));
  for (int i = 0; i < TRI_SIDECAR_FILES; i++) {
    if (!c.there[i] || is_other_template(j, tri_sidecar_name(i))) continue;
    TRI_TRY_DONE(put_at(j, tri_sidecar_path(i), c.bytes[i], c.n[i]));
  }
  if (j->template.replaces) /* readers prefer it to the one in tokenizer_config.json */
    TRI_TRY_DONE(put_small(j, "chat_template.jinja", j->template.text.data, j->template.text.len));
done:
  tri_sidecar_free(&c);
  return st;
}

/* Sets the base's name for other programs. It is the Hub name if the path is a snapshot in the Hub's cache,
 * or if the base's config.json has a Hub name that ends like the folder. Otherwise the path stays. A name in
 * config.json alone may be of the model that this one was made from. Returns false if root is unchanged. */
static bool name_base(json_t *root, const small *base_config) {
  const char *path = json_string_value(json_object_get(root, "base_model_name_or_path"));
  json_t     *config = json_loadb(base_config->bytes, base_config->n, JSON_ALLOW_NUL, NULL);
  const char *said = json_string_value(json_object_get(config, "_name_or_path"));
  char        name[TRI_HUB_NAME_BYTES], revision[TRI_HUB_NAME_BYTES];
  bool        named = false;

  if (path && tri_hub_name_of(path, name, revision)) {
    json_object_set_new(root, "base_model_name_or_path", json_string(name));
    json_object_set_new(root, "revision", json_string(revision));
    named = true;
  } else if (path && said && tri_hub_is_name(said) && tri_ends_with(path, strchr(said, '/'))) {
    json_object_set_new(root, "base_model_name_or_path", json_string(said));
    named = true;
  }
  json_decref(config);
  return named;
}

/* Warns of a base model that PEFT cannot load by its path. */
static void warn_of_base(const job *j, const char *path) {
  if (!path || !tri_file_in(path, "MANIFEST.json")) return;
  tri_log(TRI_LOG_WARN,
          "%s: the adapters' base model is a checkpoint, %s, which PEFT cannot load. Write it as a model "
          "folder (trireme export %s BASE) and load the adapters over BASE",
          tri_ckpt_folder(j->r), path, path);
}

/* Writes adapter_config.json with the right module names. PEFT finds modules by name, and only warns if it
 * finds none. */
static tri_status put_adapter_config(job *j, const small *base_config) {
  small      file = {0};
  tri_text   half = {0};
  json_t    *root = NULL;
  tri_status st;

  TRI_TRY(get_small(j->r, tri_part_adapter_config(j->opt->part), &file));
  st = file.bytes ? tri_export_half_config(file.bytes, file.n, &half, &j->half) : TRI_OK;
  if (st == TRI_OK) {
    const char  *bytes = j->half ? half.data : file.bytes;
    const size_t n = j->half ? half.len : file.n;
    if (bytes) root = json_loadb(bytes, n, 0, NULL);
    warn_of_base(j, json_string_value(json_object_get(root, "base_model_name_or_path")));
    st = root && name_base(root, base_config) ? put_json(j, TRI_PEFT_CONFIG, root)
                                              : put_small(j, TRI_PEFT_CONFIG, bytes, n);
  }
  json_decref(root);
  tri_text_free(&half);
  TRI_FREE(file.bytes);
  return st;
}

/* Sets the end token of the chat template, for a model that generates. */
static void take_end(job *j, const char *folder, int32_t end) {
  j->end = -1;
  for (int i = 0; i < j->eos.n; i++)
    if (j->eos.id[i] == end) return;
  if (end < 0 || end >= j->shape.V || j->shape.scored || j->opt->adapter) return;
  if (j->eos.n == TRI_MOST_EOS) {
    tri_log(TRI_LOG_WARN,
            "%s: the chat template ends a turn with token %d, but eos_token_id already has the most "
            "tokens (%d)",
            folder, end, j->eos.n);
    return;
  }
  j->end = end;
  tri_log(TRI_LOG_INFO,
          "%s: token %d ends a turn in the chat template, and now also ends an answer "
          "(generation_config.json)",
          folder, end);
}

static tri_status put_small_files(job *j, const char *folder) {
  tri_status  st = TRI_OK;
  small       config = {0}, generation = {0};
  tri_hf_text text, other;

  TRI_TRY_DONE(tri_ckpt_get_file(j->r, tri_part_config(j->opt->part), &config.bytes, &config.n));
  TRI_TRY_DONE(get_small(j->r, "generation_config.json", &generation));
  text = (tri_hf_text){tri_part_config(j->opt->part), config.bytes, config.n};
  other = (tri_hf_text){"generation_config.json", generation.bytes, generation.n};
  TRI_TRY_DONE(tri_hf_config_parse(&text, generation.bytes ? &other : NULL, &j->shape, &j->eos));
  TRI_TRY_DONE(tri_template_find(j->r, &j->template));
  take_end(j, folder, j->template.end);
  if (j->opt->adapter) {
    TRI_TRY_DONE(put_adapter_config(j, &config));
  } else {
    TRI_TRY_DONE(put_config(j, &text));
    TRI_TRY_DONE(put_generation(j, &generation));
  }
  TRI_TRY_DONE(put_tokenizer(j));
  TRI_TRY_DONE(put_sidecar(j));
done:
  TRI_FREE(config.bytes);
  TRI_FREE(generation.bytes);
  return st;
}

/* ---- weights ---- */

/* Adds a tensor to the plan. `source` is its index in the source. Files are filled in order, each up to
 * shard_bytes. */
static void add_tensor(job *j, tri_safetensors_spec spec, int source, int64_t *in_shard,
                       tri_export_sum *sum) {
  int64_t count = 1, bytes;

  for (int k = 0; k < spec.ndim; k++) count *= spec.dim[k];
  spec.dtype = j->opt->dtype;
  bytes = count * (int64_t)tri_dtype_bytes(j->opt->dtype);
  if (j->n == 0 || *in_shard + bytes > j->opt->shard_bytes) {
    j->n_shard++;
    *in_shard = 0;
  }
  *in_shard += bytes;
  sum->n_parameter += count;
  sum->bytes += bytes;
  j->spec[j->n] = spec;
  j->source[j->n] = source;
  j->shard[j->n++] = j->n_shard - 1;
}

/* Gives the next tensor its name in the multimodal model. */
static tri_status name_half(job *j, tri_safetensors_spec *spec) {
  if (strlen(spec->name) >= TRI_LORA_NAME_BYTES)
    TRI_FAIL(TRI_EFORMAT, "%s: %.80s... is not the name of an adapter", tri_ckpt_folder(j->r), spec->name);
  if (!j->name) TRI_TRY(TRI_ALLOC(j->name, tri_ckpt_tensor_count(j->r)));
  tri_export_half_name(spec->name, j->name[j->n]);
  spec->name = j->name[j->n];
  return TRI_OK;
}

/* Plans the tensors of this group and the file of each. */
static tri_status plan_group(job *j, const char *group, tri_export_sum *sum) {
  int64_t in_shard = 0;

  for (int i = 0; i < tri_ckpt_tensor_count(j->r); i++) {
    const tri_ckpt_tensor *t = tri_ckpt_tensor_at(j->r, i);
    tri_safetensors_spec   spec = {.name = t->name, .ndim = t->ndim};
    if (strcmp(t->group, group) != 0) continue;
    if (t->dtype != TRI_F32)
      TRI_FAIL(TRI_EFORMAT, "%s: %s/%s is not stored as f32", tri_ckpt_folder(j->r), t->group, t->name);
    memcpy(spec.dim, t->dim, sizeof spec.dim);
    if (j->half) TRI_TRY(name_half(j, &spec));
    add_tensor(j, spec, i, &in_shard, sum);
  }
  return TRI_OK;
}

static void plan_merged(job *j, tri_export_sum *sum) {
  int64_t in_shard = 0;

  for (int i = 0; i < tri_source_merged_count(j->adapted); i++) {
    const tri_param_spec *p = tri_source_merged_at(j->adapted, i);
    tri_safetensors_spec  spec = {.name = p->name, .ndim = p->ndim};
    memcpy(spec.dim, p->dim, sizeof p->dim);
    add_tensor(j, spec, i, &in_shard, sum);
  }
}

static tri_status plan_shards(job *j, tri_export_sum *sum) {
  int         n = j->adapted ? tri_source_merged_count(j->adapted) : tri_ckpt_tensor_count(j->r);
  const char *group = j->opt->adapter ? tri_part_adapters(j->opt->part) : tri_part_group(j->opt->part);

  TRI_TRY(TRI_ALLOC(j->spec, n));
  TRI_TRY(TRI_ALLOC(j->source, n));
  TRI_TRY(TRI_ALLOC(j->shard, n));
  if (j->adapted)
    plan_merged(j, sum);
  else
    TRI_TRY(plan_group(j, group, sum));
  sum->n_shard = j->n_shard;
  if (!j->n) TRI_FAIL(TRI_EFORMAT, "%s: holds no %s", tri_ckpt_folder(j->r), group);
  return TRI_OK;
}

static tri_status read_tensor(job *j, int64_t i, int64_t begin, int64_t count) {
  if (j->adapted) return tri_source_read_merged(j->adapted, &j->merge, j->source[i], begin, count, j->buf);
  return tri_ckpt_read(j->r, j->source[i], begin, count, j->buf);
}

/* Checks, for float16, that the values in buf are in its range. Rounding gives 65504 for values below
 * 65520. */
static tri_status check_range(const job *j, int64_t i, int64_t n) {
  for (int64_t k = 0; j->opt->dtype == TRI_F16 && k < n; k++)
    if (isfinite(j->buf[k]) && fabsf(j->buf[k]) >= 65520)
      TRI_FAIL(TRI_EINPUT, "%s: tensor %s holds %g, but fp16 ends at 65504. Use --dtype bf16 or f32.",
               tri_ckpt_folder(j->r), j->spec[i].name, (double)j->buf[k]);
  return TRI_OK;
}

/* Writes one shard, tensors [first, last) of the plan. */
static tri_status put_shard(job *j, int shard, int64_t first, int64_t last) {
  tri_status              st = TRI_OK;
  char                    path[PATH_SPACE], name[TRI_SHARD_NAME_BYTES];
  tri_safetensors_writer *w = NULL;

  tri_safetensors_shard_name(shard, j->n_shard, name);
  if (j->opt->adapter) snprintf(name, sizeof name, TRI_PEFT_WEIGHTS);
  snprintf(path, sizeof path, "%s/%s", j->tmp, name);
  TRI_TRY(tri_safetensors_create(path, j->spec + first, last - first, &w));
  for (int64_t i = first; i < last; i++) {
    int64_t count = 1;
    for (int k = 0; k < j->spec[i].ndim; k++) count *= j->spec[i].dim[k];
    for (int64_t at = 0; at < count; at += PIECE) {
      int64_t n = count - at < PIECE ? count - at : PIECE;
      TRI_TRY_DONE(read_tensor(j, i, at, n));
      TRI_TRY_DONE(check_range(j, i, n));
      TRI_TRY_DONE(tri_safetensors_put(w, i - first, at, n, j->buf));
    }
  }
  TRI_TRY_DONE(tri_safetensors_commit(&w));
done:
  tri_safetensors_abandon(&w);
  return st;
}

static tri_status put_weights(job *j, tri_export_sum *sum) {
  int64_t first = 0, last;

  TRI_TRY(plan_shards(j, sum));
  TRI_TRY(tri_pages_alloc(PIECE * sizeof *j->buf, (void **)&j->buf));
  for (int s = 0; s < j->n_shard; s++, first = last) {
    for (last = first; last < j->n && j->shard[last] == s;) last++;
    TRI_TRY(put_shard(j, s, first, last));
  }
  return j->n_shard > 1 ? tri_safetensors_write_index(j->tmp, j->spec, j->shard, j->n, j->n_shard) : TRI_OK;
}

/* ---- the export ---- */

/* Opens the base model of the adapters, if they are to be merged into it. */
static tri_status open_adapted(job *j) {
  bool has = tri_ckpt_has_file(j->r, tri_part_adapter_config(j->opt->part));

  if (j->opt->adapter && !has)
    TRI_FAIL(TRI_EINPUT,
             "%s: the checkpoint has no low-rank adapters (no %s). Only runs with lora.rank have them.",
             tri_ckpt_folder(j->r), tri_part_adapter_config(j->opt->part));
  if (j->opt->base && !has)
    TRI_FAIL(TRI_EINPUT, "%s: has no adapters (no %s), so --base %s has no use", tri_ckpt_folder(j->r),
             tri_part_adapter_config(j->opt->part), j->opt->base);
  if (j->opt->adapter || !has) return TRI_OK;
  TRI_TRY(tri_source_open_over(tri_ckpt_folder(j->r), j->opt->part, j->opt->base, NULL, true, &j->adapted));
  j->merge.source = j->adapted;
  return TRI_OK;
}

tri_status tri_export(tri_ckpt_reader *r, const char *folder, const tri_export_opt *opt,
                      tri_export_sum *sum) {
  tri_status st = TRI_OK;
  job       *j = NULL;

  *sum = (tri_export_sum){0};
  TRI_TRY(TRI_ALLOC(j, 1));
  j->r = r;
  j->opt = opt;
  TRI_TRY_DONE(tri_part_check(r, opt->part));
  TRI_TRY_DONE(open_adapted(j));
  TRI_TRY_DONE(make_tmp(folder, j->tmp));
  TRI_TRY_DONE(put_small_files(j, folder));
  TRI_TRY_DONE(put_weights(j, sum));
  if (j->shape.scored && j->eos.pad < 0)
    tri_log(TRI_LOG_INFO,
            "%s: give transformers one text at a time, because the model has no padding token (no "
            "pad_token_id in config.json)",
            folder);
  TRI_TRY_DONE(publish(j->tmp, folder));
  if (j->half)
    tri_log(TRI_LOG_INFO,
            "%s: these adapters have the names of their multimodal base model (model.language_model.*), "
            "where PEFT and vLLM look for them. For the text model alone use trireme export %s FOLDER, "
            "which merges the adapters into it.",
            folder, tri_ckpt_folder(r));
done:
  if (st != TRI_OK && j->tmp[0] && tri_folder_remove(AT_FDCWD, j->tmp, j->tmp, NULL) != TRI_OK)
    tri_log(TRI_LOG_WARN, "%s: cannot be removed and stays", j->tmp);
  tri_merge_free(&j->merge);
  tri_source_close(&j->adapted);
  tri_text_free(&j->template.text);
  TRI_FREE(j->spec);
  TRI_FREE(j->name);
  TRI_FREE(j->source);
  TRI_FREE(j->shard);
  tri_pages_free((void **)&j->buf);
  TRI_FREE(j);
  return st;
}
