/* source_load.c - loads a source's weights into a store of parameters. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/log.h"
#include "source_impl.h"

#include "base/hash.h"
#include "base/rng.h"
#include "family/family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct loader {
  const tri_source    *source;
  const tri_unit_spec *unit;
  const char          *group; /* in a checkpoint */
  int                  threads;
  tri_base_note       *note;  /* receives fingerprints, or NULL */
  tri_merge           *merge; /* adds adapters, or NULL */
} loader;

enum { PARALLEL_ELEMENTS = 1 << 15 }; /* chosen: a millisecond of one thread */

/* Makes two normal numbers from 64 random bits (Box, Muller 1958). */
static void normal_pair(tri_rng_key key, uint64_t name, uint64_t counter, float out[2]) {
  uint32_t bits[4];
  double   radius, angle;

  tri_rng_bits(key, name, counter, bits);
  radius = sqrt(-2.0 * log((double)tri_rng_unit(bits[0])));
  angle = 2 * 3.14159265358979323846 * (double)tri_rng_unit(bits[1]);
  out[0] = (float)(radius * cos(angle));
  out[1] = (float)(radius * sin(angle));
}

/* Fills uniformly between -1 / sqrt(n_in) and its opposite, like torch.nn.init.kaiming_uniform_ with a =
 * sqrt(5). PEFT starts A in this way. Or fills with logarithms of uniform numbers between 0 and 16. */
static void fill_uniform(const loader *l, const tri_param_spec *p, int64_t begin, int64_t count, float *out) {
  tri_rng_key key = tri_rng_make_key(l->source->seed, TRI_RNG_INIT);
  uint64_t    name = tri_hash64(p->name, strlen(p->name), 0);
  bool        is_log = p->init == TRI_INIT_LOG_UNIFORM;
  float       bound = is_log ? 16.0f : 1.0f / sqrtf((float)p->dim[1]);

#pragma omp parallel for schedule(static) num_threads(l->threads) if (count >= PARALLEL_ELEMENTS)
  for (int64_t k = begin; k < begin + count; k++) {
    uint32_t bits[4];
    tri_rng_bits(key, name, (uint64_t)k, bits);
    float x = tri_rng_unit(bits[0]);
    out[k - begin] = is_log ? logf(bound * x) : bound * (2 * x - 1);
  }
}

static void fill_random(const loader *l, const tri_param_spec *p, int64_t begin, int64_t count, float *out) {
  tri_rng_key key = tri_rng_make_key(l->source->seed, TRI_RNG_INIT);
  uint64_t    name = tri_hash64(p->name, strlen(p->name), 0);
  float       std = p->init == TRI_INIT_SCORE ? 1.0f / (float)(p->dim[1] + 1) : l->source->shape.init_std;
  int64_t     end = begin + count;

  if (p->init == TRI_INIT_UNIFORM || p->init == TRI_INIT_LOG_UNIFORM) {
    fill_uniform(l, p, begin, count, out);
    return;
  }
  if (p->init != TRI_INIT_NORMAL && p->init != TRI_INIT_SCORE) {
    for (int64_t i = 0; i < count; i++) out[i] = p->init == TRI_INIT_ONES ? 1.0f : 0.0f;
    return;
  }
#pragma omp parallel for schedule(static) num_threads(l->threads) if (count >= PARALLEL_ELEMENTS)
  for (int64_t k = begin / 2; k < (end + 1) / 2; k++) {
    float pair[2];
    normal_pair(key, name, (uint64_t)k, pair);
    if (2 * k >= begin) out[2 * k - begin] = std * pair[0];
    if (2 * k + 1 < end) out[2 * k + 1 - begin] = std * pair[1];
  }
}

static tri_status fill_checkpoint(const loader *l, const char *name, int64_t begin, int64_t count,
                                  float *out) {
  int i = tri_ckpt_find_tensor(l->source->ckpt, l->group, name);

  TRI_ASSERT(i >= 0);
  const tri_dtype t = tri_ckpt_tensor_at(l->source->ckpt, i)->dtype;
  if (t == TRI_F32) return tri_ckpt_read(l->source->ckpt, i, begin, count, out);
  /* Reads 16-bit values into the upper half of the buffer and widens them from the front. */
  uint16_t *half = (uint16_t *)out + count;
  TRI_TRY(tri_ckpt_read(l->source->ckpt, i, begin, count, half));
  for (int64_t k = 0; k < count; k++) {
    uint16_t h;
    memcpy(&h, half + k, sizeof h);
    out[k] = tri_half_to_f32(t, h);
  }
  return TRI_OK;
}

/* Returns the tensor in a folder's files, or NULL. */
static const tri_safetensors_info *find(const tri_source *s, const tri_param_spec *p) {
  return tri_safetensors_find(s->tensors, p->added ? s->head : p->name);
}

/* Tells whether the tensor is optional and missing in the files. */
static bool lacks(const tri_source *s, const char *group, const tri_param_spec *p) {
  if (!p->added || !s->adds_head || s->random) return false;
  return s->ckpt ? tri_ckpt_find_tensor(s->ckpt, group, p->name) < 0 : !find(s, p);
}

static tri_status fill_as_is(const loader *l, tri_state_kind kind, const tri_param_spec *p, int64_t begin,
                             int64_t count, float *out) {
  if (l->source->random || (kind == TRI_STATE_WEIGHT && lacks(l->source, l->group, p))) {
    fill_random(l, p, begin, count, out);
    return TRI_OK;
  }
  if (l->source->ckpt) return fill_checkpoint(l, p->name, begin, count, out);
  return tri_safetensors_read_f32(l->source->tensors, find(l->source, p), begin, count, out);
}

/* Fills the scalar head of a merged model. It lies beside the adapters, or is new for a language model. */
static tri_status fill_head(const loader *l, const tri_param_spec *p, int64_t begin, int64_t count,
                            float *out) {
  const loader from = {.source = l->merge->source, .threads = l->threads};

  if (!from.source->adds_head) return tri_merge_score(l->merge, begin, count, out);
  fill_random(&from, p, begin, count, out);
  return TRI_OK;
}

static tri_status fill(void *ctx, tri_state_kind kind, int u, int i, int64_t begin, int64_t count,
                       float *out) {
  const loader         *l = ctx;
  const tri_param_spec *p = &l->unit[u].param[i];
  int                   place = i;

  if (l->merge && p->added) return fill_head(l, p, begin, count, out);
  TRI_TRY(fill_as_is(l, kind, p, begin, count, out));
  for (int before = 0; before < u; before++) place += l->unit[before].n_param;
  if (l->note) l->note->tensor[place].fingerprint += tri_base_fingerprint(out, begin, count, l->threads);
  if (!l->merge || p->ndim != 2) return TRI_OK;
  return tri_merge_add(l->merge, p->name, p->dim[1], begin, count, l->threads, out);
}

/* Fills the store of adapters from files, or with new adapters. */
static tri_status fill_adapters(void *ctx, tri_state_kind kind, int u, int i, int64_t begin, int64_t count,
                                float *out) {
  const loader     *l = ctx;
  const tri_source *s = l->source;
  tri_param_spec    p = l->unit[u].param[i];

  if (!s->fresh_lora) return fill_checkpoint(l, p.name, begin, count, out);
  if (s->adapters)
    return tri_safetensors_read_f32(s->adapters, tri_safetensors_find(s->adapters, p.name), begin, count,
                                    out);
  if (!p.added) {
    fill_random(l, &p, begin, count, out);
    return TRI_OK;
  }
  snprintf(p.name, sizeof p.name, "score.weight"); /* the model's own, or its start value without adapters */
  return fill_as_is(l, kind, &p, begin, count, out);
}

enum { SHAPE_BYTES = 96 };

/* Writes a shape as "[40, 32]". It writes the first TRI_MAX_DIM dimensions only. */
static const char *shape_text(int ndim, const int64_t *dim, char out[SHAPE_BYTES]) {
  int n = snprintf(out, SHAPE_BYTES, "[");

  for (int k = 0; k < ndim && k < TRI_MAX_DIM; k++)
    n += snprintf(out + n, SHAPE_BYTES - (size_t)n, "%s%lld", k ? ", " : "", (long long)dim[k]);
  snprintf(out + n, SHAPE_BYTES - (size_t)n, ndim > TRI_MAX_DIM ? ", ...]" : "]");
  return out;
}

static tri_status check_shape(const tri_source *s, const tri_param_spec *p, int ndim, const int64_t *dim) {
  bool same = ndim == p->ndim;
  char has[SHAPE_BYTES], means[SHAPE_BYTES];

  for (int k = 0; same && k < ndim; k++) same = dim[k] == p->dim[k];
  if (same) return TRI_OK;
  TRI_FAIL(TRI_EINPUT, "%s: tensor %s has shape %s, but config.json means %s", s->name, p->name,
           shape_text(ndim, dim, has), shape_text(p->ndim, p->dim, means));
}

/* config.json may ask for biases that the files lack. */
static bool is_bias(const char *name) {
  size_t n = strlen(name);

  return n > 5 && !strcmp(name + n - 5, ".bias");
}

static tri_status fail_absent(const tri_source *s, const tri_param_spec *p) {
  const char *shard = tri_safetensors_absent_from(s->tensors, p->name), *why = "";

  if (is_bias(p->name)) why = ", although config.json asks for biases (`attention_bias`, `mlp_bias`)";
  if (!strcmp(p->name, tri_family_tensor(s->shape.family, TRI_SLOT_HEAD)))
    why = "; if the model's head is its embedding, set tie_word_embeddings: true in config.json";
  if (shard)
    TRI_FAIL(TRI_EINPUT,
             "%s: the model's files have no tensor %s%s;\n  model.safetensors.index.json names it in %s, "
             "but that file lacks it. Download that file again, or save the model anew with transformers.",
             s->name, p->name, why, shard);
  TRI_FAIL(TRI_EINPUT, "%s: the model's files have no tensor %s%s", s->name, p->name, why);
}

static tri_status check_tensor(const tri_source *s, const char *group, const tri_param_spec *p) {
  const tri_safetensors_info *info;
  int                         i;

  if (s->ckpt) {
    i = tri_ckpt_find_tensor(s->ckpt, group, p->name);
    if (i < 0 && p->added) return tri_source_fail_unscored(s, group);
    if (i < 0) TRI_FAIL(TRI_EINPUT, "%s: the checkpoint has no %s/%s", s->name, group, p->name);
    return check_shape(s, p, tri_ckpt_tensor_at(s->ckpt, i)->ndim, tri_ckpt_tensor_at(s->ckpt, i)->dim);
  }
  info = find(s, p);
  if (!info && p->added) return tri_source_fail_unscored(s, group);
  if (!info) return fail_absent(s, p);
  if (info->refused)
    TRI_FAIL(TRI_EINPUT, "%s: tensor %s: %s", tri_safetensors_path(s->tensors, info), p->name, info->refused);
  return check_shape(s, p, info->ndim, info->dim);
}

static bool wants_score(const tri_params_opt *o) {
  const tri_unit_spec *head = &o->unit[o->n_unit - 1];

  return head->param[head->n_param - 1].added;
}

/* Checks all tensors. with_head: the store has the whole model, so its head must be of the right kind. */
static tri_status check_all(const tri_source *s, const char *group, tri_state_kind kind,
                            const tri_params_opt *o, bool with_head) {
  if (with_head && !wants_score(o)) TRI_TRY(tri_source_check_tokens(s));
  if (s->random) return TRI_OK;
  for (int u = 0; u < o->n_unit; u++)
    for (int i = 0; i < o->unit[u].n_param; i++)
      if (kind != TRI_STATE_WEIGHT ||
          !(lacks(s, group, &o->unit[u].param[i]) || (!with_head && o->unit[u].param[i].added)))
        TRI_TRY(check_tensor(s, group, &o->unit[u].param[i]));
  return TRI_OK;
}

static bool is_known(const tri_source *s, const tri_params_opt *o, const char *name) {
  for (int u = 0; u < o->n_unit; u++)
    for (int i = 0; i < o->unit[u].n_param; i++) {
      const tri_param_spec *p = &o->unit[u].param[i];
      if (!strcmp(p->added ? s->head : p->name, name)) return true;
    }
  return false;
}

/* Logs once for a folder, because a run's reference model may come from it too. */
static void say_half(const tri_source *s) {
  static char said[sizeof s->name];

  if (!strcmp(said, s->name)) return;
  snprintf(said, sizeof said, "%s", s->name);
  tri_log(TRI_LOG_INFO,
          "%s: is a multimodal model; its text model, a %s model, is used, and %lld other tensor%s "
          "left out",
          s->name, s->shape.family->model_type, (long long)s->left_out, s->left_out == 1 ? " is" : "s are");
}

/* Tells whether a tensor belongs to heads that draft further tokens (multi-token prediction). */
static bool is_draft(const char *name) { return !strncmp(name, "mtp.", 4); }

/* Logs tensors that start from random numbers, and tensors without a use. It counts those of draft heads. A
 * tied or replaced head and rotary buffers are expected and not logged. */
static void say_differences(const tri_source *s, const char *group, const tri_params_opt *o) {
  int64_t n_draft = 0;

  if (s->is_half && s->tensors) say_half(s);
  for (int u = 0; u < o->n_unit; u++)
    for (int i = 0; i < o->unit[u].n_param; i++)
      if (lacks(s, group, &o->unit[u].param[i]))
        tri_log(TRI_LOG_INFO, "%s: has no %s; it starts from random numbers", s->name,
                o->unit[u].param[i].name);
  if (!s->tensors) return;
  if (tri_safetensors_absent_count(s->tensors))
    tri_log(TRI_LOG_INFO,
            "%s: model.safetensors.index.json names %lld tensor%s missing in all files and not needed by "
            "this model (%s%s)",
            s->name, (long long)tri_safetensors_absent_count(s->tensors),
            tri_safetensors_absent_count(s->tensors) == 1 ? "" : "s",
            tri_safetensors_absent_at(s->tensors, 0),
            tri_safetensors_absent_count(s->tensors) == 1 ? "" : ", ...");
  for (int64_t i = 0; i < tri_safetensors_count(s->tensors); i++) {
    const char *name = tri_safetensors_at(s->tensors, i)->name;
    n_draft += is_draft(name);
    if (is_known(s, o, name) || is_draft(name) || strstr(name, "rotary_emb.inv_freq")) continue;
    if (!strcmp(name, tri_family_tensor(s->shape.family, TRI_SLOT_HEAD)) ||
        (s->shape.scored && !strcmp(name, s->head)))
      continue;
    tri_log(TRI_LOG_WARN, "%s: tensor %s is not part of a %s model and is not used", s->name, name,
            s->shape.family->model_type);
  }
  if (n_draft)
    tri_log(TRI_LOG_INFO, "%s: %lld tensor%s of mtp.* (heads that draft tokens) %s not used", s->name,
            (long long)n_draft, n_draft == 1 ? "" : "s", n_draft == 1 ? "is" : "are");
}

enum { COMPARE_ELEMENTS = 1 << 16 };

/* Compares a tied head with its second copy in the files, if there is one. If the copies differ, the files
 * mean an untied head. */
static tri_status check_tied_copy(const tri_source *s) {
  const tri_safetensors_info *head, *embed;
  const char                 *head_name = tri_family_tensor(s->shape.family, TRI_SLOT_HEAD);
  const char                 *embed_name = tri_family_tensor(s->shape.family, TRI_SLOT_EMBED);
  float                      *a = NULL, *b = NULL;
  int64_t                     n = 1;
  tri_status                  st = TRI_OK;

  if (!s->tensors || !s->shape.tied_head || s->shape.scored) return TRI_OK;
  head = tri_safetensors_find(s->tensors, head_name);
  embed = tri_safetensors_find(s->tensors, embed_name);
  if (!head || head->refused || !embed) return TRI_OK;
  if (head->ndim != embed->ndim || head->dim[0] != embed->dim[0] || head->dim[1] != embed->dim[1])
    TRI_FAIL(TRI_EINPUT,
             "%s: %s has another shape than %s, although config.json says tie_word_embeddings: true", s->name,
             head_name, embed_name);
  for (int k = 0; k < embed->ndim; k++) n *= embed->dim[k];
  TRI_TRY_DONE(TRI_ALLOC(a, COMPARE_ELEMENTS));
  TRI_TRY_DONE(TRI_ALLOC(b, COMPARE_ELEMENTS));
  for (int64_t at = 0; at < n; at += COMPARE_ELEMENTS) {
    int64_t count = n - at < COMPARE_ELEMENTS ? n - at : COMPARE_ELEMENTS;
    TRI_TRY_DONE(tri_safetensors_read_f32(s->tensors, head, at, count, a));
    TRI_TRY_DONE(tri_safetensors_read_f32(s->tensors, embed, at, count, b));
    if (memcmp(a, b, (size_t)count * sizeof *a))
      TRI_FAIL_DONE(
          TRI_EINPUT,
          "%s: %s differs from %s, although config.json says tie_word_embeddings: true. If the head is "
          "its own, set it to false.",
          s->name, head_name, embed_name);
  }
done:
  TRI_FREE(a);
  TRI_FREE(b);
  return st;
}

tri_status tri_source_check_scored(const tri_source *s) {
  tri_param_spec score = {.name = "score.weight", .ndim = 2, .dim = {1, s->shape.C}, .added = true};

  if (s->lora.rank && s->shape.scored) return TRI_OK; /* tri_source_read_lora found it */
  if (s->ckpt || s->tensors) return check_tensor(s, tri_part_group(s->part), &score);
  return s->shape.scored ? TRI_OK : tri_source_fail_unscored(s, tri_part_group(s->part));
}

/* Reads elements of a tensor from the source's files or its random numbers. */
static tri_status read_weight(const tri_source *s, const char *group, const tri_param_spec *p, int64_t begin,
                              int64_t count, float *out) {
  loader l = {.source = s, .group = group, .threads = 1};

  TRI_TRY(s->random ? TRI_OK : check_tensor(s, group, p));
  return fill_as_is(&l, TRI_STATE_WEIGHT, p, begin, count, out);
}

/* ---- the base model of adapters ---- */

/* Returns the source of the base weights, and sets *group to their group in its files. */
static const tri_source *base_of(const tri_source *s, const char **group) {
  if (!s->base) return s;
  *group = tri_part_group(s->base->part);
  return s->base;
}

/* Collective over world. Sums the fingerprints of all ranks. *note is this rank's, and becomes the
 * source's. */
static tri_status join_note(tri_source *s, tri_base_note *note, tri_comm *world) {
  uint64_t  *mine = NULL;
  void      *all = NULL;
  size_t    *counts = NULL;
  tri_status st = TRI_ALLOC(mine, note->n);

  if (st == TRI_OK) st = TRI_ALLOC(counts, world->size);
  TRI_TRY_DONE(tri_agree(world, st));
  for (int i = 0; i < note->n; i++) mine[i] = note->tensor[i].fingerprint;
  TRI_TRY_DONE(tri_host_gather_all(world, mine, (size_t)note->n * sizeof *mine, &all, counts));
  for (int i = 0; i < note->n; i++) {
    note->tensor[i].fingerprint = 0;
    for (int r = 0; r < world->size; r++)
      note->tensor[i].fingerprint += ((const uint64_t *)all)[r * note->n + i];
  }
  st = tri_source_take_note(s, note); /* same result on every rank */
done:
  TRI_FREE(mine);
  TRI_FREE(counts);
  tri_host_free(&all);
  return st;
}

/* Collective over world. Loads the base model, with or without its adapters. */
static tri_status load_base(tri_source *s, const char *group, tri_params *p, tri_merge *merge,
                            tri_comm *world, tri_stream *st) {
  const tri_params_opt *o = tri_params_options(p);
  const tri_source     *from = base_of(s, &group);
  tri_base_note         note = {0};
  loader                l = {from, o->unit, group, st->device->threads, &note, merge};
  tri_status            end;

  end = tri_agree(world, check_all(from, group, TRI_STATE_WEIGHT, o, false));
  if (end == TRI_OK) end = tri_agree(world, world->rank == 0 ? check_tied_copy(from) : TRI_OK);
  if (end == TRI_OK && world->rank == 0) say_differences(from, group, o);
  if (end == TRI_OK) end = tri_agree(world, tri_base_note_begin(o, &note));
  if (end == TRI_OK) end = tri_params_fill(p, TRI_STATE_WEIGHT, fill, &l, st);
  if (end == TRI_OK) end = join_note(s, &note, world);
  tri_base_note_free(&note);
  return end;
}

/* Checks that the adapters' files have all adapters. */
static tri_status check_adapters(const tri_source *s, const char *group, const tri_params_opt *o) {
  char has[SHAPE_BYTES], means[SHAPE_BYTES];

  tri_param_spec score = {.name = "score.weight", .ndim = 2, .dim = {1, s->shape.C}, .added = true};

  if (!s->fresh_lora) return check_all(s, tri_part_adapters(s->part), TRI_STATE_WEIGHT, o, true);
  if (!s->adapters && s->shape.scored && !s->random && !lacks(s, group, &score))
    return check_tensor(s, group, &score);
  for (int u = 0; s->adapters && u < o->n_unit; u++)
    for (int i = 0; i < o->unit[u].n_param; i++) {
      const tri_param_spec       *p = &o->unit[u].param[i];
      const tri_safetensors_info *info = tri_safetensors_find(s->adapters, p->name);
      TRI_ASSERT(info); /* tri_source_add_adapters checked it */
      if (info->refused)
        TRI_FAIL(TRI_EINPUT, "%s: tensor %s: %s", tri_safetensors_path(s->adapters, info), p->name,
                 info->refused);
      if (info->ndim == p->ndim && info->dim[0] == p->dim[0] && info->dim[1] == p->dim[1]) continue;
      TRI_FAIL(TRI_EINPUT,
               "%s: tensor %s has shape %s, but the model and r of adapter_config.json mean %s. The "
               "adapters are for another model, or have another rank (lora.path).",
               tri_safetensors_path(s->adapters, info), p->name, shape_text(info->ndim, info->dim, has),
               shape_text(p->ndim, p->dim, means));
    }
  return TRI_OK;
}

tri_status tri_source_check_lora(const tri_source *s, const char *group, tri_params *base,
                                 tri_params *adapters) {
  const char       *from_group = group;
  const tri_source *from = base_of(s, &from_group);

  TRI_TRY(check_all(from, from_group, TRI_STATE_WEIGHT, tri_params_options(base), false));
  return check_adapters(s, group, tri_params_options(adapters));
}

tri_status tri_source_load_lora(tri_source *s, const char *group, tri_params *base, tri_params *adapters,
                                tri_comm *world, tri_stream *st) {
  const tri_params_opt *o = tri_params_options(adapters);
  loader                l = {.source = s, .unit = o->unit, .group = group, .threads = st->device->threads};

  TRI_TRY(tri_agree(world, check_adapters(s, group, o)));
  TRI_TRY(load_base(s, group, base, NULL, world, st));
  if (!s->fresh_lora) l.group = tri_part_adapters(s->part);
  return tri_params_fill(adapters, TRI_STATE_WEIGHT, fill_adapters, &l, st);
}

static tri_status load_merged(tri_source *s, tri_params *p, tri_comm *world, tri_stream *st) {
  tri_merge  merge = {.source = s};
  tri_status end = load_base(s, tri_part_group(s->part), p, &merge, world, st);

  if (end == TRI_OK && s->adds_head && world->rank == 0)
    tri_log(TRI_LOG_INFO, "%s: has no score.weight; it starts from random numbers", s->name);
  tri_merge_free(&merge);
  return end;
}

int tri_source_merged_count(const tri_source *s) { return s->note.n + s->shape.scored; }

const tri_param_spec *tri_source_merged_at(const tri_source *s, int i) {
  return i < s->note.n ? &s->note.tensor[i].spec : &s->score;
}

tri_status tri_source_read_merged(tri_source *s, tri_merge *m, int i, int64_t begin, int64_t count,
                                  float *out) {
  const tri_param_spec *p = &s->note.tensor[i].spec;

  if (i >= s->note.n) return tri_merge_score(m, begin, count, out);
  TRI_TRY(read_weight(s->base, tri_part_group(s->base->part), p, begin, count, out));
  if (begin == 0) m->fingerprint = 0;
  m->fingerprint += tri_base_fingerprint(out, begin, count, 1);
  if (begin + count == tri_param_count(p) && m->fingerprint != s->note.tensor[i].fingerprint)
    return tri_source_refuse_base(s, p->name);
  return p->ndim == 2 ? tri_merge_add(m, p->name, p->dim[1], begin, count, 1, out) : TRI_OK;
}

/* ---- public calls ---- */

tri_status tri_source_check(const tri_source *s, const char *group, tri_params *p) {
  bool              adapted = s->lora.rank;
  const char       *from_group = group;
  const tri_source *from = base_of(s, &from_group);

  return check_all(from, from_group, TRI_STATE_WEIGHT, tri_params_options(p), !adapted);
}

tri_status tri_source_load(tri_source *s, const char *group, tri_params *p, tri_comm *world, tri_stream *st) {
  loader l = {
      .source = s, .unit = tri_params_options(p)->unit, .group = group, .threads = st->device->threads};

  if (s->lora.rank) return load_merged(s, p, world, st);
  TRI_TRY(tri_agree(world, check_all(s, group, TRI_STATE_WEIGHT, tri_params_options(p), true)));
  TRI_TRY(tri_agree(world, world->rank == 0 ? check_tied_copy(s) : TRI_OK));
  if (world->rank == 0) say_differences(s, group, tri_params_options(p));
  return tri_params_fill(p, TRI_STATE_WEIGHT, fill, &l, st);
}

tri_status tri_source_load_moments(tri_source *s, tri_state_kind kind, const char *group, tri_params *p,
                                   tri_comm *world, tri_stream *st) {
  loader l = {
      .source = s, .unit = tri_params_options(p)->unit, .group = group, .threads = st->device->threads};

  TRI_ASSERT(s->ckpt && kind != TRI_STATE_WEIGHT);
  TRI_TRY(tri_agree(world, check_all(s, group, kind, tri_params_options(p), true)));
  return tri_params_fill(p, kind, fill, &l, st);
}
