/* export_weights.c - writes the tensors of an export as safetensors files with an index. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "export_impl.h"

#include "base/host_memory.h"
#include "family/family.h"
#include "io/hf/peft.h"
#include "multimodal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 1 << 22 }; /* elements; chosen: 16 MiB of host memory */

static int64_t tensor_count(const tri_safetensors_spec *spec) {
  int64_t n = 1;

  for (int k = 0; k < spec->ndim; k++) n *= spec->dim[k];
  return n;
}

/* Adds a tensor to the plan. `source` is its index in the source. Files are filled in order, each up to
 * shard_bytes. */
static void add_tensor(tri_export_job *j, tri_safetensors_spec spec, int source, int64_t *in_shard,
                       tri_export_sum *sum) {
  int64_t count = tensor_count(&spec), bytes;

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
static tri_status name_half(tri_export_job *j, tri_safetensors_spec *spec) {
  if (strlen(spec->name) >= TRI_LORA_NAME_BYTES)
    TRI_FAIL(TRI_EFORMAT, "%s: %.80s... is not the name of an adapter", tri_ckpt_folder(j->r), spec->name);
  if (!j->name) TRI_TRY(TRI_ALLOC(j->name, tri_ckpt_tensor_count(j->r)));
  tri_export_half_name(spec->name, j->name[j->n]);
  spec->name = j->name[j->n];
  return TRI_OK;
}

/* Plans the tensors of this group and the file of each. */
static tri_status plan_group(tri_export_job *j, const char *group, tri_export_sum *sum) {
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

static void plan_merged(tri_export_job *j, tri_export_sum *sum) {
  int64_t in_shard = 0;

  for (int i = 0; i < tri_source_merged_count(j->adapted); i++) {
    const tri_param_spec *p = tri_source_merged_at(j->adapted, i);
    tri_safetensors_spec  spec = {.name = p->name, .ndim = p->ndim};
    memcpy(spec.dim, p->dim, sizeof p->dim);
    add_tensor(j, spec, i, &in_shard, sum);
  }
}

/* Published folders have a few small tensors in f32. If the folder's embedding has the type of the export,
 * these stay f32. Tensors without adapters are then copied. */
static void keep_types(tri_export_job *j, tri_multimodal_plan *p) {
  const tri_dtype             t = j->opt->dtype;
  const char                 *embed = tri_family_tensor(j->shape.family, TRI_SLOT_EMBED);
  const char                 *word = t == TRI_F32 ? "F32" : t == TRI_BF16 ? "BF16" : "F16";
  const tri_safetensors_info *of;
  bool                        same = false;

  for (int64_t i = 0; i < p->n; i++) {
    of = tri_safetensors_find(j->whole, p->spec[i].name);
    if (p->trained[i] >= 0 && !strcmp(j->spec[p->trained[i]].name, embed)) same = !strcmp(of->dtype, word);
  }
  for (int64_t i = 0; same && i < p->n; i++) {
    if (p->trained[i] < 0) continue;
    of = tri_safetensors_find(j->whole, p->spec[i].name);
    if (j->adapted && !tri_merge_has(j->adapted, j->spec[p->trained[i]].name))
      p->spec[i].copy = of;
    else if (!strcmp(of->dtype, "F32"))
      p->spec[i].dtype = TRI_F32;
  }
}

/* Plans the files of the multimodal folder, with the planned tensors in their places. */
static tri_status plan_whole(tri_export_job *j, tri_export_sum *sum) {
  const tri_family   *f = j->shape.family;
  tri_multimodal_plan p = {0};
  tri_status          st = TRI_OK;
  int                *source = NULL;

  TRI_TRY_DONE(tri_multimodal_place(j->whole, j->spec, j->n,
                                    j->shape.tied_head ? tri_family_tensor(f, TRI_SLOT_HEAD) : NULL,
                                    tri_family_tensor(f, TRI_SLOT_EMBED), &p));
  TRI_TRY_DONE(TRI_ALLOC(source, p.n));
  keep_types(j, &p);
  *sum = (tri_export_sum){0};
  for (int64_t i = 0; i < p.n; i++) {
    const tri_safetensors_info *copy = p.spec[i].copy;
    int64_t                     count = copy ? copy->count : tensor_count(&p.spec[i]);
    source[i] = p.trained[i] < 0 ? -1 : j->source[p.trained[i]];
    sum->n_parameter += count;
    sum->bytes += copy ? copy->bytes : count * (int64_t)tri_dtype_bytes(p.spec[i].dtype);
  }
  TRI_FREE(j->spec);
  TRI_FREE(j->shard);
  TRI_FREE(j->source);
  j->spec = p.spec;
  j->shard = p.file;
  j->source = source;
  p.spec = NULL;
  p.file = NULL;
  source = NULL;
  j->n = p.n;
  j->n_copied = p.n_copied;
  j->n_shard = tri_safetensors_file_count(j->whole);
done:
  tri_multimodal_plan_free(&p);
  TRI_FREE(source);
  return st;
}

static tri_status plan_shards(tri_export_job *j, tri_export_sum *sum) {
  int         n = j->adapted ? tri_source_merged_count(j->adapted) : tri_ckpt_tensor_count(j->r);
  const char *group = j->opt->adapter ? tri_part_adapters(j->opt->part) : tri_part_group(j->opt->part);

  TRI_TRY(TRI_ALLOC(j->spec, n));
  TRI_TRY(TRI_ALLOC(j->source, n));
  TRI_TRY(TRI_ALLOC(j->shard, n));
  if (j->adapted)
    plan_merged(j, sum);
  else
    TRI_TRY(plan_group(j, group, sum));
  if (!j->n) TRI_FAIL(TRI_EFORMAT, "%s: holds no %s", tri_ckpt_folder(j->r), group);
  if (j->whole) TRI_TRY(plan_whole(j, sum));
  sum->n_shard = j->n_shard;
  return TRI_OK;
}

static tri_status read_tensor(tri_export_job *j, int64_t i, int64_t begin, int64_t count) {
  if (j->adapted) return tri_source_read_merged(j->adapted, &j->merge, j->source[i], begin, count, j->buf);
  return tri_ckpt_read(j->r, j->source[i], begin, count, j->buf);
}

/* Checks, for float16, that the values in buf are in its range. Rounding gives 65504 for values below
 * 65520. */
static tri_status check_range(const tri_export_job *j, int64_t i, int64_t n) {
  for (int64_t k = 0; j->spec[i].dtype == TRI_F16 && k < n; k++)
    if (isfinite(j->buf[k]) && fabsf(j->buf[k]) >= 65520)
      TRI_FAIL(TRI_EINPUT, "%s: tensor %s holds %g, but fp16 ends at 65504. Use --dtype bf16 or f32.",
               tri_ckpt_folder(j->r), j->spec[i].name, (double)j->buf[k]);
  return TRI_OK;
}

/* Writes tensor i of the plan as tensor `place` of a file. */
static tri_status put_trained(tri_export_job *j, int64_t i, tri_safetensors_writer *w, int64_t place) {
  int64_t count = tensor_count(&j->spec[i]);

  for (int64_t at = 0; at < count; at += PIECE) {
    int64_t n = count - at < PIECE ? count - at : PIECE;
    TRI_TRY(read_tensor(j, i, at, n));
    TRI_TRY(check_range(j, i, n));
    TRI_TRY(tri_safetensors_put(w, place, at, n, j->buf));
  }
  return TRI_OK;
}

/* Copies tensor i of the plan from the multimodal folder, byte for byte. A tensor of the text model is first
 * compared with the adapters' base. */
static tri_status put_copy(tri_export_job *j, int64_t i, tri_safetensors_writer *w, int64_t place) {
  const tri_safetensors_info *t = j->spec[i].copy;
  int64_t                     most = PIECE * (int64_t)sizeof *j->buf;

  for (int64_t at = 0; j->source[i] >= 0 && at < t->count; at += PIECE)
    TRI_TRY(read_tensor(j, i, at, t->count - at < PIECE ? t->count - at : PIECE));
  for (int64_t at = 0; at < t->bytes; at += most) {
    int64_t n = t->bytes - at < most ? t->bytes - at : most;
    TRI_TRY(tri_safetensors_read_bytes(j->whole, t, at, n, j->buf));
    TRI_TRY(tri_safetensors_put_bytes(w, place, at, n, j->buf));
  }
  return TRI_OK;
}

/* Writes one shard, tensors [first, last) of the plan. */
static tri_status put_shard(tri_export_job *j, int shard, int64_t first, int64_t last) {
  tri_status              st = TRI_OK;
  char                    path[TRI_EXPORT_PATH_BYTES], usual[TRI_SHARD_NAME_BYTES];
  const char             *name = usual;
  tri_safetensors_writer *w = NULL;

  tri_safetensors_shard_name(shard, j->n_shard, usual);
  if (j->opt->adapter) name = TRI_PEFT_WEIGHTS;
  if (j->whole) name = tri_safetensors_file_name(j->whole, shard);
  if (snprintf(path, sizeof path, "%s/%s", j->tmp, name) >= (int)sizeof path)
    TRI_FAIL(TRI_EINPUT, "%s/%.80s...: the path is too long", j->tmp, name);
  TRI_TRY(tri_safetensors_create(path, j->spec + first, last - first, &w));
  for (int64_t i = first; i < last; i++) {
    if (j->spec[i].copy)
      TRI_TRY_DONE(put_copy(j, i, w, i - first));
    else
      TRI_TRY_DONE(put_trained(j, i, w, i - first));
  }
  TRI_TRY_DONE(tri_safetensors_commit(&w));
done:
  tri_safetensors_abandon(&w);
  return st;
}

/* Writes the index of the shards, which keep their names in the multimodal folder. */
static tri_status put_index(const tri_export_job *j) {
  const char **name = NULL;
  tri_status   st = TRI_OK;

  if (!j->whole)
    return j->n_shard > 1 ? tri_safetensors_write_index(j->tmp, j->spec, j->shard, j->n, j->n_shard, NULL)
                          : TRI_OK;
  TRI_TRY_DONE(TRI_ALLOC(name, j->n_shard));
  for (int s = 0; s < j->n_shard; s++) name[s] = tri_safetensors_file_name(j->whole, s);
  if (j->n_shard > 1 || strcmp(name[0], "model.safetensors") != 0)
    TRI_TRY_DONE(tri_safetensors_write_index(j->tmp, j->spec, j->shard, j->n, j->n_shard, name));
done:
  TRI_FREE(name);
  return st;
}

tri_status tri_export_weights(tri_export_job *j, tri_export_sum *sum) {
  int64_t first = 0, last;

  TRI_TRY(plan_shards(j, sum));
  TRI_TRY(tri_pages_alloc(PIECE * sizeof *j->buf, (void **)&j->buf));
  for (int s = 0; s < j->n_shard; s++, first = last) {
    for (last = first; last < j->n && j->shard[last] == s;) last++;
    TRI_TRY(put_shard(j, s, first, last));
  }
  return put_index(j);
}
