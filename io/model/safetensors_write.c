/* safetensors_write.c - writes safetensors files and the index of a folder of shards. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/text_buffer.h"
#include "safetensors.h"

#include "base/file.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };
enum { PIECE = 32 << 10 }; /* elements of one conversion; chosen: 64 KiB of stack */

typedef struct out_tensor {
  tri_safetensors_spec spec;
  int64_t index, count, offset; /* index in the caller's list, elements, byte offset in the file */
  int64_t put;                  /* elements written so far, bytes of a copied tensor */
} out_tensor;

struct tri_safetensors_writer {
  char        path[PATH_BYTES], tmp[PATH_BYTES + 8];
  int         fd;
  out_tensor *tensor; /* [n], in the caller's order */
  int64_t     n;
};

/* Dtypes from the widest on, in the order of the reference library's enum Dtype, reversed. */
static const char *const widest_first[] = {
    "U64", "I64",     "F64",     "C64",     "F32", "U32", "I32",     "BF16",    "F16", "U16",
    "I16", "F8_E8M0", "F8_E4M3", "F8_E5M2", "I8",  "U8",  "F6_E3M2", "F6_E2M3", "F4",  "BOOL"};
enum { N_DTYPE = sizeof widest_first / sizeof *widest_first };

/* The dtype's word in the file. */
static const char *word_of(const tri_safetensors_spec *s) {
  if (s->copy) return s->copy->dtype;
  return s->dtype == TRI_F32 ? "F32" : s->dtype == TRI_BF16 ? "BF16" : "F16";
}

static int place_of(const out_tensor *t) {
  int i = 0;

  while (i < N_DTYPE && strcmp(widest_first[i], word_of(&t->spec))) i++;
  return i;
}

/* Orders like serialize() of the reference library: widest dtype first, then by name. */
static int compare_place(const void *a, const void *b) {
  int x = place_of(a), y = place_of(b);

  if (x != y) return x < y ? -1 : 1;
  return strcmp(((const out_tensor *)a)->spec.name, ((const out_tensor *)b)->spec.name);
}

static int compare_name(const void *a, const void *b) {
  return strcmp(((const out_tensor *)a)->spec.name, ((const out_tensor *)b)->spec.name);
}

static int compare_index(const void *a, const void *b) {
  const out_tensor *x = a, *y = b;
  return x->index < y->index ? -1 : x->index > y->index;
}

/* Appends `text` as a JSON string. */
static tri_status put_quoted(tri_text *out, const char *text) {
  tri_status st = TRI_OK;
  json_t    *v = json_string(text);
  char      *quoted = v ? json_dumps(v, JSON_ENCODE_ANY) : NULL;

  if (!quoted) TRI_FAIL_DONE(TRI_EARG, "`%s` is not valid UTF-8 and cannot be the name of a tensor", text);
  TRI_TRY_DONE(tri_text_put(out, quoted, strlen(quoted)));
done:
  free(quoted);
  json_decref(v);
  return st;
}

static int64_t bytes_of(const tri_safetensors_spec *spec, int64_t count) {
  return spec->copy ? spec->copy->bytes : count * (int64_t)tri_dtype_bytes(spec->dtype);
}

/* Gives the elements of a tensor, or the bytes of a copied one. */
static tri_status check_spec(const char *path, const tri_safetensors_spec *spec, int64_t *count) {
  int64_t bytes;

  *count = 1;
  if (!*spec->name || !strcmp(spec->name, "__metadata__"))
    TRI_FAIL(TRI_EARG, "%s: `%s` cannot be the name of a tensor", path, spec->name);
  if (spec->copy) {
    *count = spec->copy->bytes;
    if (spec->copy->ndim <= 2 * TRI_MAX_DIM) return TRI_OK;
    TRI_FAIL(TRI_EINPUT, "%s: tensor `%s` has %d dimensions, at most %d can be copied", path, spec->name,
             spec->copy->ndim, 2 * TRI_MAX_DIM);
  }
  if (!tri_dtype_computes(spec->dtype))
    TRI_FAIL(TRI_EARG, "%s: tensor `%s`: only f32, bf16 and f16 are written", path, spec->name);
  if (spec->ndim < 0 || spec->ndim > TRI_MAX_DIM)
    TRI_FAIL(TRI_EARG, "%s: tensor `%s`: %d dimensions", path, spec->name, spec->ndim);
  for (int i = 0; i < spec->ndim; i++)
    if (spec->dim[i] <= 0 || __builtin_mul_overflow(*count, spec->dim[i], count))
      TRI_FAIL(TRI_EARG, "%s: tensor `%s`: dimension %d is %lld", path, spec->name, i,
               (long long)spec->dim[i]);
  if (__builtin_mul_overflow(*count, (int64_t)tri_dtype_bytes(spec->dtype), &bytes) || bytes > INT64_MAX / 2)
    TRI_FAIL(TRI_EARG, "%s: tensor `%s` is too large", path, spec->name);
  return TRI_OK;
}

static int64_t dim_of(const tri_safetensors_spec *s, int d) {
  if (!s->copy) return s->dim[d];
  return d < TRI_MAX_DIM ? s->copy->dim[d] : s->copy->more[d - TRI_MAX_DIM];
}

/* Builds the header, padded to a multiple of 8 bytes, and sets every tensor's offset. w->tensor must be
 * sorted by place in the file. */
static tri_status build_header(tri_safetensors_writer *w, tri_text *out) {
  int64_t at = 0, end;

  TRI_TRY(tri_text_printf(out, "{\"__metadata__\":{\"format\":\"pt\"}"));
  for (int64_t i = 0; i < w->n; i++) {
    out_tensor *t = &w->tensor[i];
    if (__builtin_add_overflow(at, bytes_of(&t->spec, t->count), &end))
      TRI_FAIL(TRI_EARG, "%s: its tensors are too large for one file", w->path);
    TRI_TRY(tri_text_put(out, ",", 1));
    TRI_TRY(put_quoted(out, t->spec.name));
    TRI_TRY(tri_text_printf(out, ":{\"dtype\":\"%s\",\"shape\":[", word_of(&t->spec)));
    for (int d = 0; d < (t->spec.copy ? t->spec.copy->ndim : t->spec.ndim); d++)
      TRI_TRY(tri_text_printf(out, "%s%lld", d ? "," : "", (long long)dim_of(&t->spec, d)));
    TRI_TRY(tri_text_printf(out, "],\"data_offsets\":[%lld,%lld]}", (long long)at, (long long)end));
    t->offset = at;
    at = end;
  }
  TRI_TRY(tri_text_put(out, "}", 1));
  while (out->len % 8) TRI_TRY(tri_text_put(out, " ", 1));
  for (int64_t i = 0; i < w->n; i++) w->tensor[i].offset += 8 + (int64_t)out->len;
  return TRI_OK;
}

static tri_status write_at(const tri_safetensors_writer *w, int64_t offset, int64_t bytes, const void *from) {
  int why = tri_file_put(w->fd, from, bytes, offset);

  if (why) TRI_FAIL(TRI_EFILE, "%s: writing failed: %s", w->tmp, strerror(why));
  return TRI_OK;
}

static tri_status write_header(tri_safetensors_writer *w, const tri_text *header) {
  unsigned char length[8];

  TRI_TRY(tri_file_create(w->tmp, &w->fd));
  for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)header->len >> 8 * i);
  TRI_TRY(write_at(w, 0, 8, length));
  return write_at(w, 8, (int64_t)header->len, header->data);
}

tri_status tri_safetensors_create(const char *path, const tri_safetensors_spec *tensor, int64_t n,
                                  tri_safetensors_writer **out) {
  tri_status              st = TRI_OK;
  tri_safetensors_writer *w = NULL;
  tri_text                header = {0};

  *out = NULL;
  TRI_TRY_DONE(TRI_ALLOC(w, 1));
  w->fd = -1;
  if (snprintf(w->path, sizeof w->path, "%s", path) >= PATH_BYTES)
    TRI_FAIL_DONE(TRI_EARG, "%s: the path is too long", path);
  snprintf(w->tmp, sizeof w->tmp, "%s.tmp", path);
  TRI_TRY_DONE(TRI_ALLOC(w->tensor, n));
  for (w->n = 0; w->n < n; w->n++) {
    out_tensor *t = &w->tensor[w->n];
    t->spec = tensor[w->n];
    t->index = w->n;
    TRI_TRY_DONE(check_spec(path, &t->spec, &t->count));
  }
  if (n) qsort(w->tensor, (size_t)n, sizeof *w->tensor, compare_name);
  for (int64_t i = 1; i < n; i++)
    if (!strcmp(w->tensor[i - 1].spec.name, w->tensor[i].spec.name))
      TRI_FAIL_DONE(TRI_EARG, "%s: tensor `%s` is given twice", path, w->tensor[i].spec.name);
  if (n) qsort(w->tensor, (size_t)n, sizeof *w->tensor, compare_place);
  TRI_TRY_DONE(build_header(w, &header));
  if (n) qsort(w->tensor, (size_t)n, sizeof *w->tensor, compare_index);
  for (int64_t i = 0; i < n; i++) w->tensor[i].spec.name = NULL; /* borrowed only during this call */
  TRI_TRY_DONE(write_header(w, &header));
done:
  tri_text_free(&header);
  if (st != TRI_OK) tri_safetensors_abandon(&w);
  *out = w;
  return st;
}

tri_status tri_safetensors_put(tri_safetensors_writer *w, int64_t index, int64_t first, int64_t count,
                               const float *f32) {
  out_tensor *t;
  uint16_t    piece[PIECE];

  TRI_ASSERT(index >= 0 && index < w->n && !w->tensor[index].spec.copy);
  t = &w->tensor[index];
  if (first < 0 || count < 0 || first > t->count - count)
    TRI_FAIL(TRI_EARG, "%s: %lld elements from %lld on of tensor %lld do not fit, it has %lld", w->path,
             (long long)count, (long long)first, (long long)index, (long long)t->count);
  t->put += count;
  if (t->spec.dtype == TRI_F32) return write_at(w, t->offset + 4 * first, 4 * count, f32);
  while (count > 0) {
    int64_t n = count < PIECE ? count : PIECE;
    for (int64_t i = 0; i < n; i++) piece[i] = tri_f32_to_half(t->spec.dtype, f32[i]);
    TRI_TRY(write_at(w, t->offset + 2 * first, 2 * n, piece));
    first += n;
    count -= n;
    f32 += n;
  }
  return TRI_OK;
}

tri_status tri_safetensors_put_bytes(tri_safetensors_writer *w, int64_t index, int64_t first, int64_t count,
                                     const void *bytes) {
  out_tensor *t;

  TRI_ASSERT(index >= 0 && index < w->n && w->tensor[index].spec.copy);
  t = &w->tensor[index];
  if (first < 0 || count < 0 || first > t->count - count)
    TRI_FAIL(TRI_EARG, "%s: %lld bytes from %lld on of tensor %lld do not fit, it has %lld", w->path,
             (long long)count, (long long)first, (long long)index, (long long)t->count);
  t->put += count;
  return write_at(w, t->offset + first, count, bytes);
}

tri_status tri_safetensors_commit(tri_safetensors_writer **out) {
  tri_safetensors_writer *w = *out;
  tri_status              st = TRI_OK;
  int                     fd = w->fd;

  for (int64_t i = 0; i < w->n; i++)
    if (w->tensor[i].put != w->tensor[i].count)
      TRI_FAIL_DONE(TRI_EARG, "%s: only %lld of the %lld elements of tensor %lld were written", w->path,
                    (long long)w->tensor[i].put, (long long)w->tensor[i].count, (long long)i);
  if (fsync(fd)) TRI_FAIL_DONE(TRI_EFILE, "%s: writing failed: %s", w->tmp, strerror(errno));
  w->fd = -1;
  if (close(fd)) TRI_FAIL_DONE(TRI_EFILE, "%s: closing failed: %s", w->tmp, strerror(errno));
  if (rename(w->tmp, w->path)) TRI_FAIL_DONE(TRI_EFILE, "%s: cannot be renamed: %s", w->tmp, strerror(errno));
  w->tmp[0] = 0; /* nothing left to remove */
done:
  tri_safetensors_abandon(out);
  return st;
}

void tri_safetensors_abandon(tri_safetensors_writer **w) {
  if (!*w) return;
  if ((*w)->fd >= 0) close((*w)->fd);
  if ((*w)->tmp[0]) unlink((*w)->tmp);
  TRI_FREE((*w)->tensor);
  TRI_FREE(*w);
}

void tri_safetensors_shard_name(int i, int n, char out[TRI_SHARD_NAME_BYTES]) {
  if (n == 1)
    snprintf(out, TRI_SHARD_NAME_BYTES, "model.safetensors");
  else
    snprintf(out, TRI_SHARD_NAME_BYTES, "model-%05d-of-%05d.safetensors", i + 1, n);
}

tri_status tri_safetensors_write_index(const char *folder, const tri_safetensors_spec *tensor,
                                       const int *shard, int64_t n, int n_shard, const char *const *file) {
  tri_status st = TRI_OK;
  tri_text   out = {0};
  char       path[PATH_BYTES], name[TRI_SHARD_NAME_BYTES];
  int64_t    total = 0, count;

  if (snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder) >= PATH_BYTES)
    TRI_FAIL(TRI_EARG, "%s: the path is too long", folder);
  for (int64_t i = 0; i < n; i++) {
    TRI_TRY(check_spec(path, &tensor[i], &count));
    total += bytes_of(&tensor[i], count);
  }
  TRI_TRY_DONE(tri_text_printf(
      &out, "{\n  \"metadata\": {\n    \"total_size\": %lld\n  },\n  \"weight_map\": {", (long long)total));
  for (int64_t i = 0; i < n; i++) {
    TRI_ASSERT(shard[i] >= 0 && shard[i] < n_shard);
    tri_safetensors_shard_name(shard[i], n_shard, name);
    TRI_TRY_DONE(tri_text_printf(&out, "%s\n    ", i ? "," : ""));
    TRI_TRY_DONE(put_quoted(&out, tensor[i].name));
    TRI_TRY_DONE(tri_text_printf(&out, ": "));
    TRI_TRY_DONE(put_quoted(&out, file ? file[shard[i]] : name));
  }
  TRI_TRY_DONE(tri_text_printf(&out, "\n  }\n}\n"));
  TRI_TRY_DONE(tri_file_write(path, out.data, out.len));
done:
  tri_text_free(&out);
  return st;
}
