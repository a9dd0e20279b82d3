/* hint.c - suggests a cure in messages about a missing model, by the files that are there instead. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "hint.h"
#include "base/file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NAME_BYTES = 256, PATH_BYTES = 4096 };

static bool starts(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

/* Messages keep the line breaks of a hint, so no file name may have one. */
static bool is_plain(const char *name) {
  for (; *name; name++)
    if ((unsigned char)*name < ' ') return false;
  return true;
}

/* Finds the entry of a folder that `fits`, or "". If several fit, `later` decides between them. */
static void find_entry(const char *folder, bool (*fits)(const char *folder, const char *name),
                       bool (*later)(const char *a, const char *b), char out[NAME_BYTES]) {
  DIR *d = is_plain(folder) ? opendir(folder) : NULL;

  out[0] = 0;
  for (const struct dirent *e; d && (e = readdir(d));) {
    if (e->d_name[0] == '.' || strlen(e->d_name) >= NAME_BYTES || !is_plain(e->d_name)) continue;
    if (!fits(folder, e->d_name)) continue;
    if (!out[0] || later(e->d_name, out)) snprintf(out, NAME_BYTES, "%s", e->d_name);
  }
  if (d) closedir(d);
}

static bool by_text(const char *a, const char *b) { return strcmp(a, b) < 0; }

/* Returns the number at a name's end. */
static long long number_of(const char *name) {
  size_t n = strlen(name);

  while (n > 0 && name[n - 1] >= '0' && name[n - 1] <= '9') n--;
  return strtoll(name + n, NULL, 10);
}

static bool by_number(const char *a, const char *b) { return number_of(a) > number_of(b); }

static bool is_in(const char *folder, const char *name, const char *file) {
  char path[PATH_BYTES];

  return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && tri_file_in(path, file);
}

static bool is_shard(const char *folder, const char *name) {
  (void)folder;
  return starts(name, "model-") && tri_ends_with(name, ".safetensors");
}

static bool is_gguf(const char *folder, const char *name) {
  (void)folder;
  return tri_ends_with(name, ".gguf");
}

static bool is_sharded_state(const char *folder, const char *name) {
  (void)folder;
  return starts(name, "pytorch_model_fsdp") || starts(name, "global_step");
}

/* Tells whether the folder is named as those of the Trainer of transformers. */
static bool is_checkpoint(const char *folder, const char *name) {
  return starts(name, "checkpoint-") &&
         (is_in(folder, name, "config.json") || is_in(folder, name, "adapter_config.json"));
}

static bool has_weights(const char *folder, const char *name) {
  return is_in(folder, name, "model.safetensors") || is_in(folder, name, "model.safetensors.index.json");
}

static bool has_adapters(const char *folder, const char *name) {
  return is_in(folder, name, "adapter_config.json");
}

static bool has_model(const char *folder, const char *name) { return is_in(folder, name, "config.json"); }

bool tri_hint_dangles(const char *folder, const char *name) {
  char        path[PATH_BYTES];
  struct stat sb;

  if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return false;
  return !lstat(path, &sb) && S_ISLNK(sb.st_mode) && stat(path, &sb);
}

static tri_status say_dangling(const char *name, tri_text *out) {
  return tri_text_printf(out, ";\n  its %s is a link to a missing file. Download the model again.", name);
}

tri_status tri_hint_weights(const char *folder, tri_text *out) {
  char name[NAME_BYTES];

  if (tri_hint_dangles(folder, "model.safetensors")) return say_dangling("model.safetensors", out);
  if (tri_hint_dangles(folder, "model.safetensors.index.json"))
    return say_dangling("model.safetensors.index.json", out);
  find_entry(folder, is_shard, by_text, name);
  if (name[0])
    return tri_text_printf(
        out, ";\n  it has %s, but not the index of the shards. Download model.safetensors.index.json too.",
        name);
  if (tri_file_in(folder, "adapter_model.safetensors") || tri_file_in(folder, "adapter_model.bin"))
    return tri_text_printf(
        out, ";\n  it has adapters. In a deck give their base model as model.path, and this folder as "
             "lora.path.\n  generate, eval and score take it with --base and their base model.");
  if (tri_file_in(folder, "consolidated.safetensors"))
    return tri_text_printf(
        out, ";\n  it has consolidated.safetensors, but its tensors have other names. Download the "
             "model's files for transformers too.");
  find_entry(folder, is_gguf, by_text, name);
  if (name[0])
    return tri_text_printf(
        out, ";\n  it has %s, but quantized weights are not read. Take the model in bf16 or f32.", name);
  find_entry(folder, is_sharded_state, by_number, name);
  if (name[0])
    return tri_text_printf(
        out,
        ";\n  it has %s, a training state in pieces. Make a model of it with the program that wrote "
        "it (accelerate merge-weights, zero_to_fp32.py --safe_serialization).",
        name);
  find_entry(folder, is_checkpoint, by_number, name);
  if (!name[0]) find_entry(folder, has_weights, by_text, name);
  return name[0] ? tri_text_printf(out, ";\n  its folder %s has weights. Give %s/%s", name, folder, name)
                 : TRI_OK;
}

tri_status tri_hint_model(const char *path, tri_text *out) {
  char        name[NAME_BYTES];
  struct stat sb;
  const char *slash = strrchr(path, '/');

  if (is_plain(path) && !stat(path, &sb) && !S_ISDIR(sb.st_mode))
    return tri_text_printf(out, ";\n  it is a file. Give its folder, %.*s", slash ? (int)(slash - path) : 1,
                           slash ? path : ".");
  if (tri_hint_dangles(path, "config.json")) return say_dangling("config.json", out);
  find_entry(path, is_checkpoint, by_number, name);
  if (!name[0]) find_entry(path, has_model, by_text, name);
  return name[0] ? tri_text_printf(out, ";\n  its folder %s holds a model. Give %s/%s", name, path, name)
                 : TRI_OK;
}

tri_status tri_hint_adapters(const char *folder, tri_text *out) {
  char name[NAME_BYTES];

  if (tri_file_in(folder, "MANIFEST.json") || tri_file_in(folder, "run.jsonl") ||
      tri_file_in(folder, "log.txt"))
    return tri_text_printf(out, "; `trireme export --adapter` makes such a folder from a checkpoint");
  find_entry(folder, has_adapters, by_number, name);
  return name[0] ? tri_text_printf(out, ";\n  its folder %s holds adapters. Give %s/%s", name, folder, name)
                 : TRI_OK;
}

const char *tri_hint_tokenizer(const char *folder) {
  static const char *const other[] = {"tokenizer.model", "spiece.model", "tekken.json",
                                      "vocab.json",      "vocab.txt",    "tiktoken.model"};

  for (size_t i = 0; i < sizeof other / sizeof *other; i++)
    if (tri_file_in(folder, other[i])) return other[i];
  return NULL;
}
