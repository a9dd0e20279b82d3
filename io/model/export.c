/* export.c - writes a checkpoint's weights and small files as a Hugging Face folder. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "export_impl.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "sidecar.h"
#include "io/hf/hf_config.h"
#include "io/text/json_text.h"
#include "io/tokenizer/tokenizer.h"
#include "io/hf/peft.h"
#include "hub.h"
#include "tokenizer_files.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONFIG_BYTES = 16 << 20 }; /* chosen: a hundred times the largest known config.json */

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

static tri_status get_small(tri_ckpt_reader *r, const char *name, tri_export_small *out) {
  *out = (tri_export_small){0};
  return tri_ckpt_has_file(r, name) ? tri_ckpt_get_file(r, name, &out->bytes, &out->n) : TRI_OK;
}

static tri_status put_small(const tri_export_job *j, const char *name, const void *bytes, size_t n) {
  char path[TRI_EXPORT_PATH_BYTES];

  snprintf(path, sizeof path, "%s/%s", j->tmp, name);
  return tri_file_write(path, bytes, n);
}

static tri_status put_json(const tri_export_job *j, const char *name, const json_t *value) {
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

/* Writes the config.json of the multimodal folder, unchanged if the type of its weights is. */
static tri_status put_whole_config(const tri_export_job *j) {
  static const char name[] = "config.json";
  char              path[TRI_EXPORT_PATH_BYTES];
  tri_export_small  file = {0};
  json_t           *root = NULL;
  bool              changed;
  tri_status        st = TRI_OK;

  snprintf(path, sizeof path, "%s/%s", j->folder, name);
  TRI_TRY_DONE(tri_file_read(path, CONFIG_BYTES, &file.bytes, &file.n));
  TRI_TRY_DONE(tri_hf_config_whole_with_dtype(&(tri_hf_text){path, file.bytes, file.n}, j->opt->dtype, &root,
                                              &changed));
  st = changed ? put_json(j, name, root) : put_small(j, name, file.bytes, file.n);
done:
  json_decref(root);
  TRI_FREE(file.bytes);
  return st;
}

static tri_status put_config(const tri_export_job *j) {
  tri_hf_text config = {tri_part_config(j->opt->part), j->config.bytes, j->config.n};
  json_t     *root;
  tri_status  st;

  if (j->whole) return put_whole_config(j);
  TRI_TRY(tri_hf_config_with_dtype(&config, j->opt->dtype, &root));
  st = put_json(j, "config.json", root);
  json_decref(root);
  return st;
}

/* Sets eos_token_id to the model's end tokens, and adds the chat template's if it is not among them. */
static void set_ends(const tri_export_job *j, json_t *root) {
  json_t *ends = json_array();

  for (int i = 0; i < j->eos.n; i++) json_array_append_new(ends, json_integer(j->eos.id[i]));
  if (j->end >= 0) json_array_append_new(ends, json_integer(j->end));
  if (json_array_size(ends) == 1) json_object_set(root, "eos_token_id", json_array_get(ends, 0));
  if (json_array_size(ends) > 1) json_object_set(root, "eos_token_id", ends);
  json_decref(ends);
}

/* Writes a generation_config.json with the end tokens of config.json. With an added end token the mark
 * _from_model_config is removed, because transformers would rebuild a marked file from config.json. */
static tri_status put_generation(const tri_export_job *j) {
  static const char       alike[] = "_from_model_config";
  const tri_export_small *file = &j->generation;
  tri_hf_text             text = {"generation_config.json", file->bytes, file->n};
  json_t                 *root = NULL;
  tri_status              st;

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

static void set_template(const tri_export_job *j, json_t *root) {
  if (j->template.text.len)
    json_object_set_new(root, "chat_template", json_stringn(j->template.text.data, j->template.text.len));
}

/* Writes the template as the last field of a JSON object with other fields, and keeps the bytes of those. */
static tri_status put_behind(const tri_export_job *j, const tri_export_small *config) {
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
static tri_status put_with_template(const tri_export_job *j, const tri_export_small *config) {
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
static tri_status put_tokenizer_config(const tri_export_job *j) {
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

static tri_status put_tokenizer(const tri_export_job *j) {
  tri_status       st = TRI_OK;
  tri_export_small file = {0}, config = {0};

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
static bool is_other_template(const tri_export_job *j, const char *name) {
  return j->template.replaces && !strncmp(name, "chat_template", strlen("chat_template"));
}

/* Writes a file of a model's folder, perhaps in a subfolder. */
static tri_status put_at(const tri_export_job *j, const char *name, const void *bytes, size_t n) {
  const char *slash = strchr(name, '/');
  char        folder[TRI_EXPORT_PATH_BYTES];

  snprintf(folder, sizeof folder, "%s/%.*s", j->tmp, slash ? (int)(slash - name) : 0, name);
  if (slash && mkdir(folder, 0777) && errno != EEXIST)
    TRI_FAIL(TRI_EFILE, "%s: the folder cannot be made: %s", folder, strerror(errno));
  return put_small(j, name, bytes, n);
}

static tri_status put_sidecar(const tri_export_job *j) {
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

/* Copies the settings for images and videos of the multimodal folder. transformers and vLLM load it with
 * them. */
static tri_status put_processors(const tri_export_job *j) {
  static const char *const name[] = {"preprocessor_config.json", "processor_config.json",
                                     "video_preprocessor_config.json"};

  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    tri_export_small file = {0};
    tri_status       st = tri_sidecar_read_file(j->folder, name[i], &file.bytes, &file.n);
    if (st == TRI_OK && file.bytes) st = put_small(j, name[i], file.bytes, file.n);
    TRI_FREE(file.bytes);
    TRI_TRY(st);
  }
  return TRI_OK;
}

/* Sets the base's name for other programs. It is the Hub name if the path is a snapshot in the Hub's cache,
 * or if the base's config.json has a Hub name that ends like the folder. Otherwise the path stays. A name in
 * config.json alone may be of the model that this one was made from. Returns false if root is unchanged. */
static bool name_base(const tri_export_job *j, json_t *root) {
  const char *path = json_string_value(json_object_get(root, "base_model_name_or_path"));
  json_t     *config = json_loadb(j->config.bytes, j->config.n, JSON_ALLOW_NUL, NULL);
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
static void warn_of_base(const tri_export_job *j, const char *path) {
  if (path && !*path)
    tri_log(
        TRI_LOG_WARN,
        "%s: the adapters' base model began with random weights (model.config), and no folder has it. So no "
        "other program can load these adapters. Leave out --adapter to write the whole model",
        tri_ckpt_folder(j->r));
  if (!path || !tri_file_in(path, "MANIFEST.json")) return;
  tri_log(TRI_LOG_WARN,
          "%s: the adapters' base model is a checkpoint, %s, which PEFT cannot load. Write it as a model "
          "folder (trireme export %s BASE) and load the adapters over BASE",
          tri_ckpt_folder(j->r), path, path);
}

/* Writes adapter_config.json with the right module names. PEFT finds modules by name, and only warns if it
 * finds none. */
static tri_status put_adapter_config(tri_export_job *j) {
  tri_export_small file = {0};
  tri_text         half = {0};
  json_t          *root = NULL;
  tri_status       st;

  TRI_TRY(get_small(j->r, tri_part_adapter_config(j->opt->part), &file));
  st = file.bytes ? tri_export_half_config(file.bytes, file.n, j->folder[0], &half, &j->half) : TRI_OK;
  if (st == TRI_OK) {
    const char  *bytes = j->half ? half.data : file.bytes;
    const size_t n = j->half ? half.len : file.n;
    if (bytes) root = json_loadb(bytes, n, 0, NULL);
    warn_of_base(j, json_string_value(json_object_get(root, "base_model_name_or_path")));
    st = root && name_base(j, root) ? put_json(j, TRI_PEFT_CONFIG, root)
                                    : put_small(j, TRI_PEFT_CONFIG, bytes, n);
  }
  json_decref(root);
  tri_text_free(&half);
  TRI_FREE(file.bytes);
  return st;
}

/* Sets the end token of the chat template, for a model that generates. */
static void take_end(tri_export_job *j, const char *folder, int32_t end) {
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

/* Reads the part's config.json and generation_config.json. */
static tri_status read_configs(tri_export_job *j) {
  tri_hf_text text, other;

  TRI_TRY(tri_ckpt_get_file(j->r, tri_part_config(j->opt->part), &j->config.bytes, &j->config.n));
  TRI_TRY(get_small(j->r, "generation_config.json", &j->generation));
  text = (tri_hf_text){tri_part_config(j->opt->part), j->config.bytes, j->config.n};
  other = (tri_hf_text){"generation_config.json", j->generation.bytes, j->generation.n};
  return tri_hf_config_parse(&text, j->generation.bytes ? &other : NULL, &j->shape, &j->eos);
}

static tri_status put_small_files(tri_export_job *j, const char *folder) {
  TRI_TRY(tri_template_find(j->r, &j->template));
  take_end(j, folder, j->template.end);
  if (j->opt->adapter) {
    TRI_TRY(put_adapter_config(j));
  } else {
    TRI_TRY(put_config(j));
    TRI_TRY(put_generation(j));
  }
  TRI_TRY(put_tokenizer(j));
  TRI_TRY(put_sidecar(j));
  return j->whole ? put_processors(j) : TRI_OK;
}

/* ---- the export ---- */

/* Opens the base model of the adapters, if they are to be merged into it. */
static tri_status open_adapted(tri_export_job *j) {
  bool has = tri_ckpt_has_file(j->r, tri_part_adapter_config(j->opt->part));

  if (j->opt->adapter && !has)
    TRI_FAIL(TRI_EINPUT,
             "%s: the checkpoint has no low-rank adapters (no %s). Only runs with lora.rank have them.",
             tri_ckpt_folder(j->r), tri_part_adapter_config(j->opt->part));
  if (j->opt->base && !has && !tri_export_has_folder(j))
    TRI_FAIL(TRI_EINPUT, "%s: has no adapters (no %s), so --base %s has no use", tri_ckpt_folder(j->r),
             tri_part_adapter_config(j->opt->part), j->opt->base);
  if (j->opt->adapter || !has) return TRI_OK;
  TRI_TRY(tri_source_open_over(tri_ckpt_folder(j->r), j->opt->part, j->opt->base, NULL, true, &j->adapted));
  j->merge.source = j->adapted;
  return TRI_OK;
}

tri_status tri_export(tri_ckpt_reader *r, const char *folder, const tri_export_opt *opt,
                      tri_export_sum *sum) {
  tri_status      st = TRI_OK;
  tri_export_job *j = NULL;

  *sum = (tri_export_sum){0};
  TRI_TRY(TRI_ALLOC(j, 1));
  j->r = r;
  j->opt = opt;
  TRI_TRY_DONE(tri_part_check(r, opt->part));
  TRI_TRY_DONE(read_configs(j));
  TRI_TRY_DONE(open_adapted(j));
  TRI_TRY_DONE(tri_export_find_folder(j));
  TRI_TRY_DONE(make_tmp(folder, j->tmp));
  TRI_TRY_DONE(put_small_files(j, folder));
  TRI_TRY_DONE(tri_export_weights(j, sum));
  if (j->shape.scored && j->eos.pad < 0)
    tri_log(TRI_LOG_INFO,
            "%s: give transformers one text at a time, because the model has no padding token (no "
            "pad_token_id in config.json)",
            folder);
  TRI_TRY_DONE(publish(j->tmp, folder));
  if (j->half)
    tri_log(TRI_LOG_INFO,
            "%s: these adapters have the names of their multimodal base model (model.language_model.*), "
            "where PEFT and vLLM look for them.",
            folder);
  if (j->whole)
    tri_log(
        TRI_LOG_INFO,
        "%s: the multimodal model %s with the trained text model in its place; %lld other tensor%s copied "
        "unchanged",
        folder, j->folder, (long long)j->n_copied, j->n_copied == 1 ? " is" : "s are");
done:
  if (st != TRI_OK && j->tmp[0] && tri_folder_remove(AT_FDCWD, j->tmp, j->tmp, NULL) != TRI_OK)
    tri_log(TRI_LOG_WARN, "%s: cannot be removed and stays", j->tmp);
  tri_merge_free(&j->merge);
  tri_safetensors_close(&j->whole);
  TRI_FREE(j->config.bytes);
  TRI_FREE(j->generation.bytes);
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
