/* source.c - where a model comes from: a Hugging Face folder, a checkpoint, or random numbers. */
#include "source.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/rng.h"
#include "family/family.h"
#include "io/text/deck.h"
#include "safetensors.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { SMALL_FILE_BYTES = 256 << 20 }; /* chosen: ten times the largest tokenizer.json known */

struct tri_source {
  char             name[TRI_CKPT_PATH_BYTES];
  tri_source_file  file[TRI_SOURCE_FILES];
  char             path[TRI_SOURCE_FILES][TRI_CKPT_PATH_BYTES + 32]; /* of file[i], for messages */
  tri_model_shape  shape;
  tri_eos          eos;
  tri_tokenizer   *tokenizer;
  tri_safetensors *tensors; /* Hugging Face folder */
  tri_ckpt_reader *ckpt;    /* checkpoint */
  bool             own_ckpt, random;
  uint64_t         seed;
};

static const char *const file_names[TRI_SOURCE_FILES] = {"config.json", "generation_config.json",
                                                         "tokenizer.json", "tokenizer_config.json"};

const tri_model_shape *tri_source_shape(const tri_source *s) { return &s->shape; }
const tri_eos         *tri_source_eos(const tri_source *s) { return &s->eos; }
const tri_tokenizer   *tri_source_tokenizer(const tri_source *s) { return s->tokenizer; }
const tri_source_file *tri_source_file_at(const tri_source *s, int i) { return &s->file[i]; }
const char            *tri_source_name(const tri_source *s) { return s->name; }
tri_ckpt_reader       *tri_source_checkpoint(const tri_source *s) { return s->ckpt; }

static tri_status source_make(const char *name, tri_source **out) {
  TRI_TRY(TRI_ALLOC(*out, 1));
  snprintf((*out)->name, sizeof(*out)->name, "%s", name);
  for (int i = 0; i < TRI_SOURCE_FILES; i++) (*out)->file[i].name = file_names[i];
  return TRI_OK;
}

/* The shape, end tokens and tokenizer of the small files that were read. */
static tri_status source_parse(tri_source *s) {
  const tri_source_file *c = &s->file[TRI_SOURCE_CONFIG], *g = &s->file[TRI_SOURCE_GENERATION];
  const tri_source_file *t = &s->file[TRI_SOURCE_TOKENIZER];
  const char            *tokenizer = s->path[TRI_SOURCE_TOKENIZER];
  tri_hf_text            config = {s->path[TRI_SOURCE_CONFIG], c->bytes, c->n},
              generation = {s->path[TRI_SOURCE_GENERATION], g->bytes, g->n};

  TRI_TRY(tri_hf_config_parse(&config, g->bytes ? &generation : NULL, &s->shape, &s->eos));
  if (!t->bytes) return TRI_OK;
  TRI_TRY(tri_tokenizer_open_text(tokenizer, t->bytes, t->n, &s->tokenizer));
  if (tri_tokenizer_vocab_size(s->tokenizer) > s->shape.V)
    TRI_FAIL(TRI_EINPUT, "%s: has ids up to %d, but the model's vocab_size is %d", tokenizer,
             tri_tokenizer_vocab_size(s->tokenizer) - 1, s->shape.V);
  return TRI_OK;
}

static tri_status read_small(tri_source *s, int i, const char *path) {
  snprintf(s->path[i], sizeof s->path[i], "%s", path);
  return tri_file_read(path, SMALL_FILE_BYTES, &s->file[i].bytes, &s->file[i].n);
}

static tri_status open_folder(const char *path, bool weights, tri_source **out) {
  tri_source *s;
  char        file[TRI_CKPT_PATH_BYTES + 32];

  TRI_TRY(source_make(path, out));
  s = *out;
  for (int i = 0; i < TRI_SOURCE_FILES; i++) {
    snprintf(file, sizeof file, "%s/%s", path, file_names[i]);
    if (i == TRI_SOURCE_CONFIG || tri_file_exists(file)) TRI_TRY(read_small(s, i, file));
  }
  TRI_TRY(source_parse(s));
  if (weights) TRI_TRY(tri_safetensors_open(path, &s->tensors));
  return TRI_OK;
}

static tri_status open_checkpoint(tri_ckpt_reader *r, tri_source **out) {
  tri_source *s;

  TRI_TRY(source_make(tri_ckpt_folder(r), out));
  s = *out;
  s->ckpt = r;
  for (int i = 0; i < TRI_SOURCE_FILES; i++) {
    snprintf(s->path[i], sizeof s->path[i], "%s/%s", s->name, file_names[i]);
    if (i == TRI_SOURCE_CONFIG || tri_ckpt_has_file(r, file_names[i]))
      TRI_TRY(tri_ckpt_get_file(r, file_names[i], &s->file[i].bytes, &s->file[i].n));
  }
  return source_parse(s);
}

tri_status tri_source_find_checkpoint(const char *path, tri_comm *world, bool verify,
                                      char folder[TRI_CKPT_PATH_BYTES]) {
  tri_text   skipped = {0}, text = {0};
  tri_comm  *readers = world && world->mpi ? world : NULL; /* one that is pretended has this process only */
  tri_status st = tri_ckpt_find(path, readers, verify, &skipped, folder);

  if (st == TRI_OK && skipped.len && (!world || world->rank == 0)) {
    skipped.data[skipped.data[skipped.len - 1] == '\n' ? skipped.len - 1 : skipped.len] = 0;
    st = tri_text_printf(&text, "damaged checkpoints were passed over%s%s:\n%s", folder[0] ? "; taken: " : "",
                         folder, skipped.data);
    if (st == TRI_OK) tri_log_lines(TRI_LOG_WARN, text.data);
  }
  tri_text_free(&text);
  tri_text_free(&skipped);
  return st;
}

tri_status tri_source_resolve(const char *path, tri_comm *world, char out[TRI_CKPT_PATH_BYTES]) {
  char    file[TRI_CKPT_PATH_BYTES + 32], found[TRI_CKPT_PATH_BYTES] = "";
  int64_t plain = 1;

  if (strlen(path) >= TRI_CKPT_PATH_BYTES)
    TRI_FAIL(TRI_EINPUT, "the model's path is too long: %.100s...", path);
  snprintf(out, TRI_CKPT_PATH_BYTES, "%s", path);
  snprintf(file, sizeof file, "%s/MANIFEST.json", path);
  if (tri_file_exists(file)) {
    plain = 0;
  } else if (tri_file_exists(path)) {
    snprintf(file, sizeof file, "%s/config.json", path);
    plain = tri_file_exists(file);
  }
  TRI_TRY(tri_host_bcast(world, &plain, sizeof plain, 0)); /* what rank 0 sees */
  if (plain) return TRI_OK;
  TRI_TRY(tri_source_find_checkpoint(path, world, true, found));
  if (found[0]) snprintf(out, TRI_CKPT_PATH_BYTES, "%s", found);
  return TRI_OK;
}

tri_status tri_source_missing(const char *path) {
  const char *slash = strchr(path, '/');
  size_t      n = strspn(path, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/");
  struct stat sb;

  if (stat(path, &sb) && errno != ENOENT && errno != ENOTDIR)
    TRI_FAIL(TRI_EINPUT, "%s: %s", path, strerror(errno));
  if (slash && slash != path && slash[1] && !strchr(slash + 1, '/') && *path != '.' && !path[n])
    TRI_FAIL(
        TRI_EINPUT,
        "%s: there is no such model folder, checkpoint or run; a model of the Hugging Face Hub is "
        "downloaded first, where there is internet (huggingface-cli download ORG/NAME --local-dir FOLDER), "
        "and its folder given",
        path);
  TRI_FAIL(TRI_EINPUT, "%s: there is no such model folder, checkpoint or run", path);
}

tri_status tri_source_check_output(const char *path) {
  if (tri_file_in(path, "log.txt") && (tri_file_in(path, "deck.yaml") || tri_file_in(path, "metrics.jsonl")))
    TRI_FAIL(TRI_EINPUT, "%s: is the output folder of a run that has no checkpoint yet", path);
  return TRI_OK;
}

tri_status tri_source_open(const char *path, tri_comm *world, bool weights, tri_source **out) {
  char             file[TRI_CKPT_PATH_BYTES + 32], folder[TRI_CKPT_PATH_BYTES];
  tri_ckpt_reader *r = NULL;
  tri_status       st;

  *out = NULL;
  if (strlen(path) >= TRI_CKPT_PATH_BYTES)
    TRI_FAIL(TRI_EINPUT, "the model's path is too long: %.100s...", path);
  snprintf(file, sizeof file, "%s/MANIFEST.json", path);
  bool checkpoint = tri_file_exists(file);
  snprintf(file, sizeof file, "%s/config.json", path);
  if (!checkpoint && tri_file_exists(file)) return open_folder(path, weights, out);
  if (!tri_file_exists(path)) return tri_source_missing(path);
  TRI_TRY(tri_source_find_checkpoint(path, world, false, folder));
  if (!folder[0]) TRI_TRY(tri_source_check_output(path));
  if (!folder[0])
    TRI_FAIL(TRI_EINPUT,
             "%s: is neither a Hugging Face folder (no config.json, which every model has beside its "
             "weights) nor a checkpoint (no MANIFEST.json) nor the output folder of a run (no "
             "checkpoints/LATEST)",
             path);
  TRI_TRY(tri_ckpt_open(folder, world, false, &r));
  st = open_checkpoint(r, out);
  if (*out)
    (*out)->own_ckpt = true;
  else
    tri_ckpt_close(&r);
  return st;
}

/* The folder that a file's path names. */
static void folder_of(const char *path, char out[TRI_CKPT_PATH_BYTES]) {
  const char *slash = strrchr(path, '/');

  snprintf(out, TRI_CKPT_PATH_BYTES, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
}

tri_status tri_source_open_random(const char *config, const char *tokenizer, uint64_t seed,
                                  tri_source **out) {
  char folder[TRI_CKPT_PATH_BYTES], file[TRI_CKPT_PATH_BYTES + 32];

  folder_of(config, folder);
  TRI_TRY(source_make(folder, out));
  (*out)->random = true;
  (*out)->seed = seed;
  TRI_TRY(read_small(*out, TRI_SOURCE_CONFIG, config));
  snprintf(file, sizeof file, "%s/generation_config.json", folder);
  if (tri_file_exists(file)) TRI_TRY(read_small(*out, TRI_SOURCE_GENERATION, file));
  if (tokenizer) {
    TRI_TRY(read_small(*out, TRI_SOURCE_TOKENIZER, tokenizer));
    folder_of(tokenizer, folder);
    snprintf(file, sizeof file, "%s/tokenizer_config.json", folder);
    if (tri_file_exists(file)) TRI_TRY(read_small(*out, TRI_SOURCE_TOKENIZER_CONFIG, file));
  }
  return source_parse(*out);
}

tri_status tri_source_read_carried(const tri_source *s, tri_carried *out) {
  char        folder[TRI_CKPT_PATH_BYTES];
  const char *path = s->path[TRI_SOURCE_TOKENIZER];

  if (s->ckpt) return tri_carried_get(s->ckpt, out);
  if (!s->random) return tri_carried_read(s->name, out);
  if (!path[0]) return TRI_OK;
  folder_of(path, folder);
  return tri_carried_read(folder, out);
}

void tri_source_close(tri_source **s) {
  if (!*s) return;
  tri_safetensors_close(&(*s)->tensors);
  if ((*s)->own_ckpt) tri_ckpt_close(&(*s)->ckpt);
  tri_tokenizer_close(&(*s)->tokenizer);
  for (int i = 0; i < TRI_SOURCE_FILES; i++) TRI_FREE((*s)->file[i].bytes);
  TRI_FREE(*s);
}

tri_status tri_source_checkpoint_dtype(tri_ckpt_reader *r, tri_dtype *out) {
  tri_status st = TRI_OK;
  char      *bytes = NULL;
  size_t     n;
  tri_deck  *deck = NULL;

  *out = TRI_BF16;
  if (!tri_ckpt_has_file(r, "deck.yaml")) return TRI_OK;
  TRI_TRY(tri_ckpt_get_file(r, "deck.yaml", &bytes, &n));
  TRI_TRY_DONE(tri_deck_open_text("deck.yaml", bytes, n, &deck));
  for (int i = 0; i < tri_deck_count(deck); i++) {
    const tri_deck_entry *e = tri_deck_at(deck, i);
    if (!strcmp(e->section, "model") && !strcmp(e->key, "dtype") && !strcmp(e->value, "f32")) *out = TRI_F32;
  }
done:
  tri_deck_close(&deck);
  TRI_FREE(bytes);
  return st;
}

tri_status tri_source_dtype(const tri_source *s, tri_dtype *out) {
  const tri_source_file *f = &s->file[TRI_SOURCE_CONFIG];
  tri_hf_text            config = {s->path[TRI_SOURCE_CONFIG], f->bytes, f->n};

  if (s->ckpt) return tri_source_checkpoint_dtype(s->ckpt, out);
  return tri_hf_config_dtype(&config, out);
}

/* ---- weights ---- */

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
  float       std = l->source->shape.init_std;
  int64_t     end = begin + count;

  if (p->init != TRI_INIT_NORMAL) {
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

/* A tensor that a weight file may lack, and does. */
static bool lacks(const tri_source *s, const char *group, const tri_param_spec *p) {
  if (!p->added || s->random) return false;
  return s->ckpt ? tri_ckpt_find_tensor(s->ckpt, group, p->name) < 0
                 : !tri_safetensors_find(s->tensors, p->name);
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
  return tri_safetensors_read_f32(l->source->tensors, tri_safetensors_find(l->source->tensors, p->name),
                                  begin, count, out);
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
    if (i < 0) TRI_FAIL(TRI_EINPUT, "%s: the checkpoint has no %s/%s", s->name, group, p->name);
    return check_shape(s, p, tri_ckpt_tensor_at(s->ckpt, i)->ndim, tri_ckpt_tensor_at(s->ckpt, i)->dim);
  }
  info = tri_safetensors_find(s->tensors, p->name);
  if (!info) TRI_FAIL(TRI_EINPUT, "%s: the model's files have no tensor %s", s->name, p->name);
  if (info->refused)
    TRI_FAIL(TRI_EINPUT, "%s: tensor %s: %s", tri_safetensors_path(s->tensors, info), p->name, info->refused);
  return check_shape(s, p, info->ndim, info->dim);
}

static tri_status check_all(const tri_source *s, const char *group, tri_state_kind kind,
                            const tri_params_opt *o) {
  if (s->random) return TRI_OK;
  for (int u = 0; u < o->n_unit; u++)
    for (int i = 0; i < o->unit[u].n_param; i++)
      if (kind != TRI_STATE_WEIGHT || !lacks(s, group, &o->unit[u].param[i]))
        TRI_TRY(check_tensor(s, group, &o->unit[u].param[i]));
  return TRI_OK;
}

static bool is_known(const tri_params_opt *o, const char *name) {
  for (int u = 0; u < o->n_unit; u++)
    for (int i = 0; i < o->unit[u].n_param; i++)
      if (!strcmp(o->unit[u].param[i].name, name)) return true;
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
    if (is_known(o, name) || strstr(name, "rotary_emb.inv_freq")) continue;
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

  if (!s->tensors || !s->shape.tied_head) return TRI_OK;
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
