/* source_load.c - a source's weights into a store of parameters. */
#include "source_impl.h"

#include "base/hash.h"
#include "base/rng.h"
#include "family/family.h"

#include <math.h>
#include <string.h>

typedef struct loader {
  const tri_source    *source;
  const tri_unit_spec *unit;
  const char          *group; /* of a checkpoint */
  int                  threads;
} loader;

enum { PARALLEL_ELEMENTS = 1 << 15 }; /* chosen: a millisecond of one thread */

/* Two normal numbers from 64 random bits (Box, Muller 1958). */
static void normal_pair(tri_rng_key key, uint64_t name, uint64_t counter, float out[2]) {
  uint32_t bits[4];
  double   radius, angle;

  tri_rng_bits(key, name, counter, bits);
  radius = sqrt(-2.0 * log((double)tri_rng_unit(bits[0])));
  angle = 2 * 3.14159265358979323846 * (double)tri_rng_unit(bits[1]);
  out[0] = (float)(radius * cos(angle));
  out[1] = (float)(radius * sin(angle));
}

static void fill_random(const loader *l, const tri_param_spec *p, int64_t begin, int64_t count, float *out) {
  tri_rng_key key = tri_rng_make_key(l->source->seed, TRI_RNG_INIT);
  uint64_t    name = tri_hash64(p->name, strlen(p->name), 0);
  float       std = p->init == TRI_INIT_SCORE ? 1.0f / (float)(p->dim[1] + 1) : l->source->shape.init_std;
  int64_t     end = begin + count;

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
  if (tri_ckpt_tensor_at(l->source->ckpt, i)->dtype == TRI_F32)
    return tri_ckpt_read(l->source->ckpt, i, begin, count, out);
  /* bf16: read into the upper half of the buffer, widen from the front. */
  uint16_t *half = (uint16_t *)out + count;
  TRI_TRY(tri_ckpt_read(l->source->ckpt, i, begin, count, half));
  for (int64_t k = 0; k < count; k++) {
    uint16_t h;
    memcpy(&h, half + k, sizeof h);
    out[k] = tri_bf16_to_f32(h);
  }
  return TRI_OK;
}

/* In a folder's files; NULL: not there. */
static const tri_safetensors_info *find(const tri_source *s, const tri_param_spec *p) {
  return tri_safetensors_find(s->tensors, p->added ? s->head : p->name);
}

/* A tensor that the files may lack, and do. */
static bool lacks(const tri_source *s, const char *group, const tri_param_spec *p) {
  if (!p->added || !s->adds_head || s->random) return false;
  return s->ckpt ? tri_ckpt_find_tensor(s->ckpt, group, p->name) < 0 : !find(s, p);
}

static tri_status fill(void *ctx, tri_state_kind kind, int u, int i, int64_t begin, int64_t count,
                       float *out) {
  const loader         *l = ctx;
  const tri_param_spec *p = &l->unit[u].param[i];

  if (l->source->random || (kind == TRI_STATE_WEIGHT && lacks(l->source, l->group, p))) {
    fill_random(l, p, begin, count, out);
    return TRI_OK;
  }
  if (l->source->ckpt) return fill_checkpoint(l, p->name, begin, count, out);
  return tri_safetensors_read_f32(l->source->tensors, find(l->source, p), begin, count, out);
}

static tri_status check_shape(const tri_source *s, const tri_param_spec *p, int ndim, const int64_t *dim) {
  bool same = ndim == p->ndim;

  for (int k = 0; same && k < ndim; k++) same = dim[k] == p->dim[k];
  if (same) return TRI_OK;
  TRI_FAIL(TRI_EINPUT, "%s: tensor %s has %d dimensions [%lld, %lld], config.json says %d [%lld, %lld]",
           s->name, p->name, ndim, ndim > 0 ? (long long)dim[0] : 0, ndim > 1 ? (long long)dim[1] : 1,
           p->ndim, (long long)p->dim[0], p->ndim > 1 ? (long long)p->dim[1] : 1);
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
  if (!info) TRI_FAIL(TRI_EINPUT, "%s: the model's files have no tensor %s", s->name, p->name);
  if (info->refused)
    TRI_FAIL(TRI_EINPUT, "%s: tensor %s: %s", tri_safetensors_path(s->tensors, info), p->name, info->refused);
  return check_shape(s, p, info->ndim, info->dim);
}

static bool wants_score(const tri_params_opt *o) {
  const tri_unit_spec *head = &o->unit[o->n_unit - 1];

  return head->param[head->n_param - 1].added;
}

static tri_status check_all(const tri_source *s, const char *group, tri_state_kind kind,
                            const tri_params_opt *o) {
  if (!wants_score(o)) TRI_TRY(tri_source_check_tokens(s));
  if (s->random) return TRI_OK;
  for (int u = 0; u < o->n_unit; u++)
    for (int i = 0; i < o->unit[u].n_param; i++)
      if (kind != TRI_STATE_WEIGHT || !lacks(s, group, &o->unit[u].param[i]))
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

/* Tensors that start by init, and tensors nobody asks for; a head that is tied or replaced and rotary buffers
 * are no surprise. */
static void say_differences(const tri_source *s, const char *group, const tri_params_opt *o) {
  for (int u = 0; u < o->n_unit; u++)
    for (int i = 0; i < o->unit[u].n_param; i++)
      if (lacks(s, group, &o->unit[u].param[i]))
        tri_log(TRI_LOG_INFO, "%s: has no %s, which starts from random numbers", s->name,
                o->unit[u].param[i].name);
  if (!s->tensors) return;
  for (int64_t i = 0; i < tri_safetensors_count(s->tensors); i++) {
    const char *name = tri_safetensors_at(s->tensors, i)->name;
    if (is_known(s, o, name) || strstr(name, "rotary_emb.inv_freq")) continue;
    if (!strcmp(name, tri_family_tensor(s->shape.family, TRI_SLOT_HEAD))) continue;
    tri_log(TRI_LOG_WARN, "%s: tensor %s is not part of a %s model and is not used", s->name, name,
            s->shape.family->model_type);
  }
}

enum { COMPARE_ELEMENTS = 1 << 16 };

/* A tied head may be stored once more. If that copy is another matrix, the files mean an untied head. */
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
             "%s: %s has another shape than %s, though config.json says tie_word_embeddings: true", s->name,
             head_name, embed_name);
  for (int k = 0; k < embed->ndim; k++) n *= embed->dim[k];
  TRI_TRY_DONE(TRI_ALLOC(a, COMPARE_ELEMENTS));
  TRI_TRY_DONE(TRI_ALLOC(b, COMPARE_ELEMENTS));
  for (int64_t at = 0; at < n; at += COMPARE_ELEMENTS) {
    int64_t count = n - at < COMPARE_ELEMENTS ? n - at : COMPARE_ELEMENTS;
    TRI_TRY_DONE(tri_safetensors_read_f32(s->tensors, head, at, count, a));
    TRI_TRY_DONE(tri_safetensors_read_f32(s->tensors, embed, at, count, b));
    if (memcmp(a, b, (size_t)count * sizeof *a))
      TRI_FAIL_DONE(TRI_EINPUT,
                    "%s: %s differs from %s, though config.json says tie_word_embeddings: true; if the head "
                    "is its own, say false",
                    s->name, head_name, embed_name);
  }
done:
  TRI_FREE(a);
  TRI_FREE(b);
  return st;
}

tri_status tri_source_check_scored(const tri_source *s) {
  tri_param_spec score = {.name = "score.weight", .ndim = 2, .dim = {1, s->shape.C}, .added = true};

  if (s->ckpt || s->tensors) return check_tensor(s, tri_part_group(s->part), &score);
  return s->shape.scored ? TRI_OK : tri_source_fail_unscored(s, tri_part_group(s->part));
}

tri_status tri_source_check(const tri_source *s, const char *group, tri_params *p) {
  return check_all(s, group, TRI_STATE_WEIGHT, tri_params_options(p));
}

tri_status tri_source_load(tri_source *s, const char *group, tri_params *p, tri_comm *world, tri_stream *st) {
  loader l = {s, tri_params_options(p)->unit, group, st->device->threads};

  TRI_TRY(tri_agree(world, check_all(s, group, TRI_STATE_WEIGHT, tri_params_options(p))));
  TRI_TRY(tri_agree(world, world->rank == 0 ? check_tied_copy(s) : TRI_OK));
  if (world->rank == 0) say_differences(s, group, tri_params_options(p));
  return tri_params_fill(p, TRI_STATE_WEIGHT, fill, &l, st);
}

tri_status tri_source_load_moments(tri_source *s, tri_state_kind kind, const char *group, tri_params *p,
                                   tri_comm *world, tri_stream *st) {
  loader l = {s, tri_params_options(p)->unit, group, st->device->threads};

  TRI_ASSERT(s->ckpt && kind != TRI_STATE_WEIGHT);
  TRI_TRY(tri_agree(world, check_all(s, group, kind, tri_params_options(p))));
  return tri_params_fill(p, kind, fill, &l, st);
}
