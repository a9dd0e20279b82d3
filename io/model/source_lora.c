/* source_lora.c - adds low-rank adapters to a source: new ones, PEFT's, or a checkpoint's; merges them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/log.h"
#include "source_impl.h"

#include "base/file.h"
#include "base/notice.h"
#include "hint.h"
#include "hub.h"
#include "family/family.h"
#include "io/hf/peft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_BYTES = 1 << 20 }; /* chosen: a hundred times the usual adapter_config.json */

const tri_lora *tri_source_lora(const tri_source *s) { return &s->lora; }

/* ---- adding to a model ---- */

tri_status tri_source_check_plain(const tri_source *s) {
  if (strchr(s->name, '\n'))
    TRI_FAIL(TRI_EINPUT, "%.100s: the path of a model with adapters may have no line break", s->name);
  if (!s->lora.rank) return TRI_OK;
  TRI_FAIL(TRI_EINPUT,
           "%s: already holds adapters, and new ones need a model without. Merge it into one model "
           "(trireme export %s FOLDER), or train its adapters further (trireme export --adapter %s "
           "FOLDER, lora.path: FOLDER).",
           s->name, s->name, s->name);
}

tri_status tri_source_add_lora(tri_source *s, const tri_lora *l, uint64_t seed) {
  TRI_TRY(tri_source_check_plain(s));
  s->lora = *l;
  s->fresh_lora = true;
  if (!s->random) s->seed = seed;
  return TRI_OK;
}

static tri_status check_there(const tri_source *s, const char *folder, const char *name, const char *why) {
  if (tri_safetensors_find(s->adapters, name)) return TRI_OK;
  TRI_FAIL(TRI_EINPUT, "%s: its " TRI_PEFT_WEIGHTS " has no tensor %s, but %s", folder, name, why);
}

static bool in_layer(const tri_source *s, int row, int layer) {
  return tri_row_in_layer(&s->shape.family->tensor[row], &s->shape, layer);
}

/* Tells whether the files have A or B for a row's module in any layer. */
static bool has_row(const tri_source *s, int row) {
  char name[TRI_LORA_NAME_BYTES], weight[TRI_LORA_NAME_BYTES];

  for (int layer = 0; layer < s->shape.L; layer++)
    for (int ab = 0; ab < 2; ab++) {
      snprintf(weight, sizeof weight, s->shape.family->tensor[row].name, layer); /* NOLINT: a row */
      tri_lora_name(weight, "AB"[ab], name);
      if (tri_safetensors_find(s->adapters, name)) return true;
    }
  return false;
}

/* Keeps only the modules with tensors. PEFT starts another module of target_modules with B = 0, so it would
 * change nothing. */
static tri_status take_rows(tri_source *s, const char *folder, bool warn) {
  char     name[TRI_LORA_MODULE_BYTES];
  uint64_t left = 0;
  tri_text gone = {0};

  for (int row = 0; s->shape.family->tensor[row].name; row++) {
    if (!tri_lora_has(&s->lora, row)) continue;
    if (has_row(s, row)) {
      left |= (uint64_t)1 << row;
      continue;
    }
    tri_lora_module(s->shape.family, row, name);
    TRI_TRY(tri_text_printf(&gone, "%s%s", gone.len ? ", " : "", name));
  }
  if (left && gone.len && warn)
    tri_log(TRI_LOG_WARN,
            "%s: " TRI_PEFT_CONFIG " names %s, but " TRI_PEFT_WEIGHTS
            " has no tensors for them, so they get no adapters",
            folder, gone.data);
  tri_text_free(&gone);
  if (left) s->lora.target = left; /* else check_whole names the missing tensor */
  return TRI_OK;
}

/* Checks that the files have every tensor of the adapters. */
static tri_status check_whole(const tri_source *s, const char *folder) {
  char name[TRI_LORA_NAME_BYTES], weight[TRI_LORA_NAME_BYTES];

  for (int row = 0; s->shape.family->tensor[row].name; row++)
    for (int layer = 0; tri_lora_has(&s->lora, row) && layer < s->shape.L; layer++)
      for (int ab = 0; ab < 2 && in_layer(s, row, layer); ab++) {
        snprintf(weight, sizeof weight, s->shape.family->tensor[row].name, layer); /* NOLINT: a row */
        tri_lora_name(weight, "AB"[ab], name);
        TRI_TRY(check_there(s, folder, name,
                            "target_modules of " TRI_PEFT_CONFIG
                            " asks for it in each of the model's layers"));
      }
  tri_lora_name_full("score.weight", name);
  if (!s->shape.scored) return TRI_OK;
  return check_there(s, folder, name,
                     "a scalar head needs it. Merge adapters of a language model into it first (PEFT's "
                     "merge_and_unload), and give the merged model without lora.path.");
}

/* Tells whether a tensor adapts a part of a multimodal model outside its text model. Such a part does not
 * affect texts. */
static bool is_beside(const char *have) {
  static const char *const part[] = {"vision_tower.",   "vision_model.",          "visual.",
                                     "vision_encoder.", "mm_projector.",          "embed_vision.",
                                     "audio_tower.",    "multi_modal_projector.", "embed_audio."};
  char                     name[TRI_LORA_NAME_BYTES];

  for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
    tri_lora_name_full(part[i], name);
    if (!strncmp(have, name, strlen(name))) return true;
    snprintf(name, sizeof name, "model.%s", part[i]);
    char inner[TRI_LORA_NAME_BYTES];
    tri_lora_name_full(name, inner);
    if (!strncmp(have, inner, strlen(inner))) return true;
  }
  return false;
}

/* Refuses unknown tensors, because they would change the result. head is as in take_text_names. */
static tri_status check_names(const tri_source *s, const char *folder, const char *head, bool warn) {
  char    name[TRI_LORA_NAME_BYTES], weight[TRI_LORA_NAME_BYTES];
  int64_t n_beside = 0;

  for (int64_t i = 0; i < tri_safetensors_count(s->adapters); i++) {
    const char *have = tri_safetensors_at(s->adapters, i)->name;
    bool        known = false;
    tri_lora_name_full("score.weight", name);
    if (s->shape.scored && !strcmp(have, name)) continue;
    if (head && is_beside(have)) {
      n_beside++;
      continue;
    }
    for (int row = 0; s->shape.family->tensor[row].name && !known; row++)
      for (int layer = 0; tri_lora_has(&s->lora, row) && layer < s->shape.L && !known; layer++)
        for (int ab = 0; ab < 2 && !known && in_layer(s, row, layer); ab++) {
          snprintf(weight, sizeof weight, s->shape.family->tensor[row].name, layer); /* NOLINT: a row */
          tri_lora_name(weight, "AB"[ab], name);
          known = !strcmp(have, name);
        }
    if (!known)
      TRI_FAIL(TRI_EINPUT,
               "%s: tensor %s belongs to no module named by target_modules of " TRI_PEFT_CONFIG
               " in a %s of %d layers",
               folder, have, s->shape.family->model_type, s->shape.L);
  }
  if (n_beside && warn)
    tri_warn("adapters_left_out",
             "%s: %lld of %lld tensors adapt parts of the model outside its text model (images, sound); "
             "they are left out, here and in exports",
             folder, (long long)n_beside, (long long)tri_safetensors_count(s->adapters));
  return TRI_OK;
}

static tri_status fail_unknown(const char *folder) {
  tri_text   hint = {0};
  tri_status st = tri_hint_adapters(folder, &hint);

  if (st != TRI_OK) return st;
  tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT,
           "%s: is not a PEFT folder, because it has no " TRI_PEFT_CONFIG, folder);
  if (hint.len) tri_error_lines(hint.data);
  tri_text_free(&hint);
  return TRI_EINPUT;
}

static tri_status open_adapters(tri_source *s, const char *folder) {
  char path[TRI_CKPT_PATH_BYTES + 32];

  snprintf(path, sizeof path, "%s/" TRI_PEFT_WEIGHTS, folder);
  if (!tri_file_exists(path))
    TRI_FAIL(TRI_EINPUT, "%s: has no " TRI_PEFT_WEIGHTS " with the adapters%s", folder,
             tri_file_in(folder, "adapter_model.bin")
                 ? "; adapter_model.bin is not read. Convert it with PEFT: PeftModel.from_pretrained(MODEL, "
                   "FOLDER).save_pretrained(FOLDER)"
                 : "");
  return tri_safetensors_open(path, &s->adapters);
}

/* Renames adapters trained with a multimodal model, whose names lead to its text model (transformers 5 and
 * earlier), to the names of a text model. */
static tri_status take_text_names(tri_source *s, const char **head) {
  static const char *const row[] = {"model.language_model.", "language_model.model."};
  char                     from[TRI_LORA_NAME_BYTES], to[TRI_LORA_NAME_BYTES];
  int64_t                  n;

  tri_lora_name_full("model.", to);
  for (int i = 0; i < 2; i++) {
    tri_lora_name_full(row[i], from);
    TRI_TRY(tri_safetensors_rename(s->adapters, from, to, &n));
    if (n) *head = row[i];
  }
  return TRI_OK;
}

tri_status tri_source_add_adapters(tri_source *s, const char *given, bool warn, uint64_t seed) {
  char        path[TRI_CKPT_PATH_BYTES + 32], folder[TRI_CKPT_PATH_BYTES], *bytes = NULL;
  const char *head = NULL;
  size_t      n;
  tri_status  st = TRI_OK;

  TRI_TRY(tri_source_check_plain(s));
  TRI_TRY(tri_hub_resolve(given, warn, folder));
  if (!tri_file_exists(folder)) TRI_FAIL(TRI_EINPUT, "%s: there is no such folder", folder);
  if (!tri_file_in(folder, TRI_PEFT_CONFIG)) return fail_unknown(folder);
  TRI_TRY(open_adapters(s, folder));
  TRI_TRY(take_text_names(s, &head));
  snprintf(path, sizeof path, "%s/" TRI_PEFT_CONFIG, folder);
  TRI_TRY_DONE(tri_file_read(path, CONFIG_BYTES, &bytes, &n));
  TRI_TRY_DONE(tri_peft_parse(&(tri_hf_text){path, bytes, n}, &s->shape, head, warn, &s->lora));
  TRI_TRY_DONE(take_rows(s, folder, warn));
  TRI_TRY_DONE(check_names(s, folder, head, warn));
  TRI_TRY_DONE(check_whole(s, folder));
  s->fresh_lora = true;
  if (!s->random) s->seed = seed;
done:
  TRI_FREE(bytes);
  return st;
}

/* ---- in a checkpoint ---- */

static tri_status check_one(const tri_source *s, const char *name, int64_t rows, int64_t cols) {
  const char            *group = tri_part_adapters(s->part);
  int                    i = tri_ckpt_find_tensor(s->ckpt, group, name);
  const tri_ckpt_tensor *t = i < 0 ? NULL : tri_ckpt_tensor_at(s->ckpt, i);

  if (t && t->dtype == TRI_F32 && t->ndim == 2 && t->dim[0] == rows && t->dim[1] == cols) return TRI_OK;
  TRI_FAIL(TRI_EFORMAT, "%s: has no %s/%s as f32 [%lld,%lld]", s->name, group, name, (long long)rows,
           (long long)cols);
}

/* Checks that the checkpoint holds every adapter of its adapter_config.json. */
static tri_status check_adapters(const tri_source *s) {
  char name[TRI_LORA_NAME_BYTES], weight[TRI_LORA_NAME_BYTES];

  for (int row = 0; s->shape.family->tensor[row].name; row++)
    for (int layer = 0; tri_lora_has(&s->lora, row) && layer < s->shape.L; layer++) {
      const tri_base_tensor *t;
      if (!in_layer(s, row, layer)) continue;
      snprintf(weight, sizeof weight, s->shape.family->tensor[row].name, layer); /* NOLINT: a row */
      t = tri_base_note_find(&s->note, weight);
      if (!t || t->spec.ndim != 2)
        TRI_FAIL(TRI_EFORMAT, "%s: its %s names no matrix %s", s->name, tri_part_base(s->part), weight);
      tri_lora_name(weight, 'A', name);
      TRI_TRY(check_one(s, name, s->lora.rank, t->spec.dim[1]));
      tri_lora_name(weight, 'B', name);
      TRI_TRY(check_one(s, name, t->spec.dim[0], s->lora.rank));
    }
  tri_lora_name_full("score.weight", name);
  return s->shape.scored ? check_one(s, name, 1, s->shape.C) : TRI_OK;
}

tri_status tri_source_read_lora(tri_source *s) {
  char       name[2 * TRI_CKPT_PATH_BYTES], *config = NULL, *base = NULL;
  size_t     n;
  tri_status st = TRI_OK;

  if (!tri_ckpt_has_file(s->ckpt, tri_part_adapter_config(s->part))) return TRI_OK;
  TRI_TRY_DONE(tri_ckpt_get_file(s->ckpt, tri_part_adapter_config(s->part), &config, &n));
  snprintf(name, sizeof name, "%s/%s", s->name, tri_part_adapter_config(s->part));
  TRI_TRY_DONE(tri_peft_parse(&(tri_hf_text){name, config, n}, &s->shape, NULL, false, &s->lora));
  TRI_TRY_DONE(tri_ckpt_get_file(s->ckpt, tri_part_base(s->part), &base, &n));
  snprintf(name, sizeof name, "%s/%s", s->name, tri_part_base(s->part));
  TRI_TRY_DONE(tri_base_note_parse(name, base, &s->note));
  s->score = (tri_param_spec){.name = "score.weight", .ndim = 2, .dim = {1, s->shape.C}, .added = true};
  TRI_TRY_DONE(check_adapters(s));
done:
  TRI_FREE(config);
  TRI_FREE(base);
  return st;
}

/* ---- saving to a checkpoint ---- */

tri_status tri_source_print_lora(const tri_source *s, tri_text *config, tri_text *base) {
  TRI_TRY(tri_peft_print(&s->lora, &s->shape, s->note.path, config));
  return tri_base_note_text(&s->note, base);
}

tri_status tri_source_refuse_base(const tri_source *s, const char *tensor) {
  TRI_FAIL(TRI_EINPUT,
           "%s: its adapters were trained for another model than the one at %s. The weights of %s "
           "differ. Give the original model, unchanged.",
           s->name, s->base->name, tensor);
}

tri_status tri_source_take_note(tri_source *s, tri_base_note *loaded) {
  const tri_source *from = s->base ? s->base : s;
  const char       *head = s->adds_head ? tri_family_tensor(s->shape.family, TRI_SLOT_HEAD) : "";
  char             *real = from->random ? NULL : realpath(from->name, NULL);

  for (int i = 0; i < s->note.n && !s->fresh_lora; i++) {
    const tri_base_tensor *was = &s->note.tensor[i], *is = tri_base_note_find(loaded, was->spec.name);
    if ((is && is->fingerprint == was->fingerprint) || !strcmp(was->spec.name, head))
      continue; /* a replaced head may differ */
    free(real);
    return tri_source_refuse_base(s, was->spec.name);
  }
  loaded->part = from->part;
  loaded->seed = from->seed;
  if (!from->random) snprintf(loaded->path, sizeof loaded->path, "%s", real ? real : from->name);
  free(real);
  tri_base_note_free(&s->note);
  s->note = *loaded;
  *loaded = (tri_base_note){0};
  return TRI_OK;
}

/* ---- merging ---- */

void tri_merge_free(tri_merge *m) {
  TRI_FREE(m->a);
  TRI_FREE(m->b);
  *m = (tri_merge){0};
}

bool tri_merge_has(const tri_source *s, const char *weight) {
  char name[TRI_LORA_NAME_BYTES];

  if (!tri_lora_can_name(weight)) return false;
  tri_lora_name(weight, 'A', name);
  return tri_ckpt_find_tensor(s->ckpt, tri_part_adapters(s->part), name) >= 0;
}

static tri_status read_rows(tri_merge *m, const char *name, int64_t begin, int64_t count, float **to,
                            int64_t *space) {
  int i = tri_ckpt_find_tensor(m->source->ckpt, tri_part_adapters(m->source->part), name);

  if (count > *space) {
    TRI_FREE(*to);
    TRI_TRY(TRI_ALLOC(*to, count));
    *space = count;
  }
  return tri_ckpt_read(m->source->ckpt, i, begin, count, *to);
}

enum { COLUMNS = 64 }; /* chosen: partial sums fit a core's registers */

/* Adds scale b[rank] A to columns [c0, c1) of a row of n_in. */
static void add_row(const tri_merge *m, const float *b, int64_t n_in, int64_t c0, int64_t c1, float *out) {
  float scale = tri_lora_scale(&m->source->lora);

  for (int64_t c = c0; c < c1; c += COLUMNS) {
    int64_t n = c1 - c < COLUMNS ? c1 - c : COLUMNS;
    float   sum[COLUMNS] = {0};
    for (int k = 0; k < m->source->lora.rank; k++)
#pragma omp simd
      for (int64_t j = 0; j < n; j++) sum[j] += b[k] * m->a[k * n_in + c + j];
    for (int64_t j = 0; j < n; j++) out[c - c0 + j] += scale * sum[j];
  }
}

tri_status tri_merge_score(tri_merge *m, int64_t begin, int64_t count, float *out) {
  char name[TRI_LORA_NAME_BYTES];

  tri_lora_name_full("score.weight", name);
  return tri_ckpt_read(m->source->ckpt,
                       tri_ckpt_find_tensor(m->source->ckpt, tri_part_adapters(m->source->part), name), begin,
                       count, out);
}

tri_status tri_merge_add(tri_merge *m, const char *weight, int64_t n_in, int64_t begin, int64_t count,
                         int threads, float *out) {
  int64_t first = begin / n_in, last = (begin + count - 1) / n_in, rank = m->source->lora.rank;
  char    name[TRI_LORA_NAME_BYTES];

  if (count < 1 || !tri_merge_has(m->source, weight)) return TRI_OK;
  tri_lora_name(weight, 'A', name);
  if (strcmp(m->of, weight)) TRI_TRY(read_rows(m, name, 0, rank * n_in, &m->a, &m->a_space));
  snprintf(m->of, sizeof m->of, "%s", weight);
  tri_lora_name(weight, 'B', name);
  TRI_TRY(read_rows(m, name, first * rank, (last - first + 1) * rank, &m->b, &m->b_space));
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t row = first; row <= last; row++) {
    int64_t c0 = row == first ? begin - first * n_in : 0,
            c1 = row == last ? begin + count - last * n_in : n_in;
    add_row(m, m->b + (row - first) * rank, n_in, c0, c1, out + (row * n_in + c0 - begin));
  }
  return TRI_OK;
}
