/* safetensors.c - reads safetensors files and folders of shards, and checks every offset. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "safetensors.h"

#include "base/file.h"
#include "base/host_memory.h"
#include "hint.h"
#include "io/text/file_kind.h"
#include "io/text/json_text.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, MOST_SHARDS = 1024 };  /* chosen: each shard holds one descriptor */
enum { HEADER_LIMIT = 16 << 20 };                /* chosen: a header of 100 000 tensors has 12 MB */
enum { MOST_NESTED = 1 << 19 };                  /* chosen: three for each of 170 000 tensors */
enum { PIECE_BYTES = 8 << 20, PIECE = 1 << 20 }; /* bytes of one pread, elements of one conversion; chosen */

typedef struct st_file {
  char *path;
  int   fd; /* -1 when closed */
} st_file;

/* A tensor that the index names but no shard holds. */
typedef struct st_absent {
  char *name, *shard;
} st_absent;

struct tri_safetensors {
  st_file              *file; /* [n_file] */
  int                   n_file;
  tri_safetensors_info *info; /* [n], sorted by name */
  int64_t               n, cap;
  st_absent            *absent; /* [n_absent] */
  int64_t               n_absent, cap_absent;
};

/* Every dtype of the format, with its bits. Only the first three are read. */
static const struct {
  const char *name;
  int         bits;
} dtype_row[] = {{"F32", 32},    {"BF16", 16},      {"F16", 16},        {"F64", 64}, {"BOOL", 8},
                 {"U8", 8},      {"I8", 8},         {"U16", 16},        {"I16", 16}, {"U32", 32},
                 {"I32", 32},    {"U64", 64},       {"I64", 64},        {"C64", 64}, {"F8_E4M3", 8},
                 {"F8_E5M2", 8}, {"F8_E8M0", 8},    {"F8_E4M3FNUZ", 8}, {"F4", 4},   {"F6_E2M3", 6},
                 {"F6_E3M2", 6}, {"F8_E5M2FNUZ", 8}};
enum { N_DTYPE = sizeof dtype_row / sizeof dtype_row[0], N_READABLE = 3 };

static int compare_name(const void *a, const void *b) {
  return strcmp(((const tri_safetensors_info *)a)->name, ((const tri_safetensors_info *)b)->name);
}

static int compare_offset(const void *a, const void *b) {
  const tri_safetensors_info *x = a, *y = b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static tri_status join_path(const char *folder, const char *name, char out[PATH_BYTES]) {
  if (snprintf(out, PATH_BYTES, "%s/%s", folder, name) >= PATH_BYTES)
    TRI_FAIL(TRI_EINPUT, "%s/%s: the path is too long", folder, name);
  return TRI_OK;
}

static tri_status read_at(const char *path, int fd, int64_t offset, int64_t bytes, void *out) {
  int64_t have = 0;

  while (have < bytes) {
    int64_t want = bytes - have < PIECE_BYTES ? bytes - have : PIECE_BYTES;
    ssize_t n = pread(fd, (char *)out + have, (size_t)want, (off_t)(offset + have));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      TRI_FAIL(TRI_EFILE, "%s: reading stopped at byte %lld: %s", path, (long long)(offset + have),
               n ? strerror(errno) : "the file became shorter");
    have += n;
  }
  return TRI_OK;
}

/* Reads the shape of a tensor and counts its elements. A shape that cannot be read later is only marked as
 * refused. */
static tri_status parse_shape(const char *path, const json_t *shape, tri_safetensors_info *t) {
  if (!json_is_array(shape)) TRI_FAIL(TRI_EINPUT, "%s: tensor `%s`: `shape` must be a list", path, t->name);
  t->count = 1;
  t->ndim = (int)json_array_size(shape);
  if (t->ndim > TRI_MAX_DIM) t->refused = "it has more than 4 dimensions";
  for (int i = 0; i < t->ndim; i++) {
    const json_t *dim = json_array_get(shape, (size_t)i);
    int64_t       d = json_integer_value(dim);
    if (!json_is_integer(dim) || d < 0)
      TRI_FAIL(TRI_EINPUT, "%s: tensor `%s`: a dimension is not a whole number >= 0", path, t->name);
    if (d == 0) t->refused = "it has an empty dimension";
    if (i < TRI_MAX_DIM)
      t->dim[i] = d;
    else if (i < 2 * TRI_MAX_DIM)
      t->more[i - TRI_MAX_DIM] = d;
    if (__builtin_mul_overflow(t->count, d, &t->count))
      TRI_FAIL(TRI_EINPUT, "%s: tensor `%s`: the product of its dimensions is too large", path, t->name);
  }
  return TRI_OK;
}

/* Reads one entry of the header. Offsets count from `data`, the first byte after the header. data_bytes
 * follow it. */
static tri_status parse_tensor(const char *path, const json_t *v, int64_t data, int64_t data_bytes,
                               tri_safetensors_info *t) {
  const json_t *dtype = json_object_get(v, "dtype"), *offsets = json_object_get(v, "data_offsets");
  const json_t *begin_json = json_array_get(offsets, 0), *end_json = json_array_get(offsets, 1);
  int64_t       begin = json_integer_value(begin_json), end = json_integer_value(end_json), bits;
  int           row = 0;

  if (!json_is_string(dtype)) TRI_FAIL(TRI_EINPUT, "%s: tensor `%s`: `dtype` must be text", path, t->name);
  while (row < N_DTYPE && strcmp(json_string_value(dtype), dtype_row[row].name)) row++;
  if (row == N_DTYPE)
    TRI_FAIL(TRI_EINPUT, "%s: tensor `%s`: dtype `%s` is not known", path, t->name, json_string_value(dtype));
  t->dtype = dtype_row[row].name;
  if (row >= N_READABLE) t->refused = "only F32, BF16 and F16 can be read, so save the model in one of them";
  TRI_TRY(parse_shape(path, json_object_get(v, "shape"), t));

  if (json_array_size(offsets) != 2 || !json_is_integer(begin_json) || !json_is_integer(end_json))
    TRI_FAIL(TRI_EINPUT, "%s: tensor `%s`: `data_offsets` must be two whole numbers", path, t->name);
  if (begin < 0 || begin > end || end > data_bytes)
    TRI_FAIL(TRI_EINPUT, "%s: tensor `%s`: bytes %lld to %lld do not lie in the %lld bytes of data%s", path,
             t->name, (long long)begin, (long long)end, (long long)data_bytes,
             begin >= 0 && begin <= end ? ", so the file is cut short. Get it again." : "");
  if (__builtin_mul_overflow(t->count, (int64_t)dtype_row[row].bits, &bits) || bits % 8)
    TRI_FAIL(TRI_EINPUT, "%s: tensor `%s`: its %lld elements of %d bits are not a whole number of bytes",
             path, t->name, (long long)t->count, (int)dtype_row[row].bits);
  if (end - begin != bits / 8)
    TRI_FAIL(TRI_EINPUT, "%s: tensor `%s`: %lld elements of %s need %lld bytes, it has %lld", path, t->name,
             (long long)t->count, t->dtype, (long long)(bits / 8), (long long)(end - begin));
  t->offset = data + begin;
  t->bytes = end - begin;
  return TRI_OK;
}

/* Checks that the tensors of a file cover its data exactly once, like SafeTensors::validate of the reference
 * library. */
static tri_status check_cover(const char *path, tri_safetensors_info *t, int64_t n, int64_t data,
                              int64_t data_bytes) {
  int64_t at = data;

  if (n) qsort(t, (size_t)n, sizeof *t, compare_offset);
  for (int64_t i = 0; i < n; i++) {
    if (t[i].offset < at) TRI_FAIL(TRI_EINPUT, "%s: tensor `%s` overlaps the one before it", path, t[i].name);
    if (t[i].offset > at)
      TRI_FAIL(TRI_EINPUT, "%s: %lld bytes before tensor `%s` belong to no tensor", path,
               (long long)(t[i].offset - at), t[i].name);
    at = t[i].offset + t[i].bytes;
  }
  if (at != data + data_bytes)
    TRI_FAIL(TRI_EINPUT, "%s: %lld bytes at its end belong to no tensor", path,
             (long long)(data + data_bytes - at));
  return TRI_OK;
}

static tri_status grow_infos(tri_safetensors *s, int64_t more) {
  tri_safetensors_info *info;

  if (s->n + more <= s->cap) return TRI_OK;
  TRI_TRY(TRI_ALLOC(info, s->n + more));
  if (s->n) memcpy(info, s->info, (size_t)s->n * sizeof *info);
  TRI_FREE(s->info);
  s->info = info;
  s->cap = s->n + more;
  return TRI_OK;
}

/* Adds the tensors of a parsed header. data is the file offset of the first byte after the header. */
static tri_status add_header(tri_safetensors *s, int file, json_t *root, int64_t data, int64_t data_bytes) {
  const char *path = s->file[file].path, *key;
  json_t     *v;
  int64_t     first = s->n;

  if (!json_is_object(root)) TRI_FAIL(TRI_EINPUT, "%s: its header is not a JSON object", path);
  TRI_TRY(grow_infos(s, (int64_t)json_object_size(root)));
  json_object_foreach(root, key, v) {
    tri_safetensors_info *t = &s->info[s->n];
    if (!json_is_object(v)) TRI_FAIL(TRI_EINPUT, "%s: header entry `%s` must be an object", path, key);
    if (!strcmp(key, "__metadata__")) continue;
    TRI_TRY(tri_copy_text(key, (char **)&t->name));
    s->n++;
    t->file = file;
    TRI_TRY(parse_tensor(path, v, data, data_bytes, t));
  }
  return check_cover(path, s->n > first ? s->info + first : NULL, s->n - first, data, data_bytes);
}

/* Reports a file with an impossible header length, and names its real format if it is known. */
static tri_status fail_length(const st_file *f, int64_t file_bytes, uint64_t length) {
  char        start[64] = "";
  int64_t     n = file_bytes < (int64_t)sizeof start ? file_bytes : (int64_t)sizeof start;
  const char *what;

  TRI_TRY(read_at(f->path, f->fd, 0, n, start));
  what = tri_model_kind(start, (size_t)n);
  if (what) TRI_FAIL(TRI_EINPUT, "%s: is %s", f->path, what);
  if (n > 8 && start[8] != '{') /* a header begins with { */
    TRI_FAIL(TRI_EINPUT, "%s: is not a checkpoint, model folder or safetensors file", f->path);
  if (length > (uint64_t)file_bytes - 8)
    TRI_FAIL(TRI_EINPUT,
             "%s: its header of %llu bytes does not fit the file of %lld bytes; it is no safetensors "
             "file, or cut short",
             f->path, (unsigned long long)length, (long long)file_bytes);
  TRI_FAIL(TRI_EINPUT, "%s: its header of %llu bytes is too large, at most %d are accepted", f->path,
           (unsigned long long)length, HEADER_LIMIT);
}

/* Reads the header length n and checks it against the size of the file. */
static tri_status header_length(const st_file *f, int64_t *file_bytes, int64_t *n) {
  struct stat   sb;
  unsigned char b[8];
  uint64_t      length = 0;

  if (fstat(f->fd, &sb)) TRI_FAIL(TRI_EFILE, "%s: %s", f->path, strerror(errno));
  if (sb.st_size < 8) TRI_FAIL(TRI_EINPUT, "%s: is too short for a safetensors file", f->path);
  TRI_TRY(read_at(f->path, f->fd, 0, 8, b));
  for (int i = 7; i >= 0; i--) length = length << 8 | b[i];
  if (length > (uint64_t)sb.st_size - 8 || length > HEADER_LIMIT) return fail_length(f, sb.st_size, length);
  *file_bytes = sb.st_size;
  *n = (int64_t)length;
  return TRI_OK;
}

static tri_status read_header(tri_safetensors *s, int file) {
  const st_file *f = &s->file[file];
  tri_status     st = TRI_OK;
  int64_t        file_bytes = 0, n = 0;
  char          *text = NULL;
  json_t        *root = NULL;
  json_error_t   error;

  TRI_TRY_DONE(header_length(f, &file_bytes, &n));
  TRI_TRY_DONE(TRI_ALLOC(text, n + 1));
  TRI_TRY_DONE(read_at(f->path, f->fd, 8, n, text));
  if (text[0] != '{') TRI_FAIL_DONE(TRI_EINPUT, "%s: its header does not start with {", f->path);
  if (!tri_json_fits(text, (size_t)n, MOST_NESTED))
    TRI_FAIL_DONE(TRI_EINPUT, "%s: its header " TRI_JSON_TOO_LARGE, f->path, MOST_NESTED);
  root = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &error);
  if (!root) TRI_FAIL_DONE(TRI_EINPUT, "%s: its header is not JSON: %s", f->path, error.text);
  TRI_TRY_DONE(add_header(s, file, root, 8 + n, file_bytes - 8 - n));
done:
  json_decref(root);
  TRI_FREE(text);
  return st;
}

static tri_status add_file(tri_safetensors *s, const char *path) {
  st_file    *f = &s->file[s->n_file];
  const char *copy;

  TRI_TRY(tri_copy_text(path, (char **)&copy));
  f->path = (char *)copy;
  s->n_file++;
  TRI_TRY(tri_file_open(path, &f->fd));
  return read_header(s, s->n_file - 1);
}

/* Lists the distinct shard names of a weight_map in the order of their first use. Borrowed from the JSON. */
static tri_status list_shards(const char *path, json_t *map, const char *shard[MOST_SHARDS], int *n_shard) {
  const char *key, *last = NULL;
  json_t     *v;

  *n_shard = 0;
  json_object_foreach(map, key, v) {
    const char *name = json_string_value(v);
    int         i = 0;
    if (!name) TRI_FAIL(TRI_EINPUT, "%s: the file of tensor `%s` must be text", path, key);
    if (last && !strcmp(name, last)) continue;
    if (!*name || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, ".."))
      TRI_FAIL(TRI_EINPUT, "%s: `%s` is not the name of a file in the same folder", path, name);
    while (i < *n_shard && strcmp(shard[i], name)) i++;
    if (i == MOST_SHARDS) TRI_FAIL(TRI_EINPUT, "%s: names more than %d files", path, MOST_SHARDS);
    if (i == *n_shard) shard[(*n_shard)++] = name;
    last = name;
  }
  if (!*n_shard) TRI_FAIL(TRI_EINPUT, "%s: its `weight_map` names no tensor", path);
  return TRI_OK;
}

/* Sorts by name, and checks that every tensor is there once. */
static tri_status finish_names(tri_safetensors *s) {
  if (s->n) qsort(s->info, (size_t)s->n, sizeof *s->info, compare_name);
  for (int64_t i = 1; i < s->n; i++)
    if (!strcmp(s->info[i - 1].name, s->info[i].name))
      TRI_FAIL(TRI_EINPUT, "%s: tensor `%s` is in %s too", s->file[s->info[i - 1].file].path, s->info[i].name,
               s->file[s->info[i].file].path);
  return TRI_OK;
}

/* Lists the tensors that only the index names. As in transformers, the shards decide. An index may name a
 * tied head or another duplicate that was not saved. */
static tri_status note_absent(tri_safetensors *s, json_t *map) {
  const char *key;
  json_t     *v;

  json_object_foreach(map, key, v) {
    if (tri_safetensors_find(s, key)) continue;
    TRI_TRY(TRI_GROW(s->absent, s->cap_absent, s->n_absent + 1));
    s->absent[s->n_absent++] = (st_absent){0};
    TRI_TRY(tri_copy_text(key, &s->absent[s->n_absent - 1].name));
    TRI_TRY(tri_copy_text(json_string_value(v), &s->absent[s->n_absent - 1].shard));
  }
  return TRI_OK;
}

static tri_status add_only_file(tri_safetensors *s, const char *path) {
  TRI_TRY(TRI_ALLOC(s->file, 1));
  TRI_TRY(add_file(s, path));
  return finish_names(s);
}

static tri_status add_index(tri_safetensors *s, const char *folder, const char *path) {
  tri_status   st = TRI_OK;
  char        *text = NULL, shard_path[PATH_BYTES];
  const char **shard = NULL;
  int          n_shard;
  size_t       n;
  json_t      *root = NULL, *map;
  json_error_t error;

  TRI_TRY_DONE(tri_file_read(path, HEADER_LIMIT, &text, &n));
  if (!tri_json_fits(text, n, MOST_NESTED))
    TRI_FAIL_DONE(TRI_EINPUT, "%s: " TRI_JSON_TOO_LARGE, path, MOST_NESTED);
  root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
  if (!root) TRI_FAIL_DONE(TRI_EINPUT, "%s:%d: not JSON: %s", path, error.line, error.text);
  map = json_object_get(root, "weight_map");
  if (!json_is_object(map)) TRI_FAIL_DONE(TRI_EINPUT, "%s: has no object `weight_map`", path);
  TRI_TRY_DONE(TRI_ALLOC(shard, MOST_SHARDS));
  TRI_TRY_DONE(list_shards(path, map, shard, &n_shard));
  TRI_TRY_DONE(TRI_ALLOC(s->file, n_shard));
  for (int i = 0; i < n_shard; i++) {
    TRI_TRY_DONE(join_path(folder, shard[i], shard_path));
    st = add_file(s, shard_path);
    if (st != TRI_OK && access(shard_path, F_OK))
      st = tri_error_about(st, "the index names it. Download the model's files again.");
    TRI_TRY_DONE(st);
  }
  TRI_TRY_DONE(finish_names(s));
  TRI_TRY_DONE(note_absent(s, map));
done:
  json_decref(root);
  TRI_FREE(shard);
  TRI_FREE(text);
  return st;
}

static tri_status fail_folder(const char *folder, const char *cure) {
  tri_text   hint = {0};
  tri_status st = tri_hint_weights(folder, &hint);

  if (st != TRI_OK) return st;
  tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT,
           "%s: has neither model.safetensors nor model.safetensors.index.json", folder);
  if (hint.len)
    tri_error_lines(hint.data);
  else
    tri_error_lines(";\n  download its weights too (hf download ORG/NAME --local-dir FOLDER), or\n  ");
  if (!hint.len) tri_error_lines(cure);
  tri_text_free(&hint);
  return TRI_EINPUT;
}

static tri_status add_folder(tri_safetensors *s, const char *folder) {
  static const char        cure[] = "save the model with transformers: "
                                    "model.save_pretrained(FOLDER, safe_serialization=True)";
  static const char *const other[] = {"pytorch_model.bin",   "pytorch_model.bin.index.json",
                                      "tf_model.h5",         "flax_model.msgpack",
                                      "consolidated.00.pth", "ggml-model.gguf"};
  char                     one[PATH_BYTES], index[PATH_BYTES];

  TRI_TRY(join_path(folder, "model.safetensors", one));
  TRI_TRY(join_path(folder, "model.safetensors.index.json", index));
  if (!access(one, F_OK)) return add_only_file(s, one);
  if (!access(index, F_OK)) return add_index(s, folder, index);
  for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
    TRI_TRY(join_path(folder, other[i], one));
    if (!access(one, F_OK))
      TRI_FAIL(TRI_EINPUT, "%s: has %s, but only model.safetensors is read;\n  %s", folder, other[i], cure);
  }
  return fail_folder(folder, cure);
}

tri_status tri_safetensors_open(const char *path, tri_safetensors **out) {
  tri_status       st = TRI_OK;
  tri_safetensors *s = NULL;
  struct stat      sb;
  char             folder[PATH_BYTES];
  size_t           n = strlen(path);

  *out = NULL;
  if (stat(path, &sb)) TRI_FAIL(TRI_EINPUT, "%s: cannot be opened: %s", path, strerror(errno));
  if (n >= PATH_BYTES) TRI_FAIL(TRI_EINPUT, "%s: the path is too long", path);
  TRI_TRY_DONE(TRI_ALLOC(s, 1));
  if (S_ISDIR(sb.st_mode)) {
    TRI_TRY_DONE(add_folder(s, path));
  } else if (n > 5 && !strcmp(path + n - 5, ".json")) {
    char *slash = strrchr(strcpy(folder, path), '/');
    if (slash) *slash = 0;
    TRI_TRY_DONE(add_index(s, !slash ? "." : *folder ? folder : "/", path));
  } else {
    TRI_TRY_DONE(add_only_file(s, path));
  }
done:
  if (st != TRI_OK) tri_safetensors_close(&s);
  *out = s;
  return st;
}

void tri_safetensors_close(tri_safetensors **s) {
  if (!*s) return;
  for (int i = 0; i < (*s)->n_file; i++) {
    if ((*s)->file[i].fd >= 0) close((*s)->file[i].fd);
    TRI_FREE((*s)->file[i].path);
  }
  for (int64_t i = 0; i < (*s)->n; i++) tri_host_free((void **)&(*s)->info[i].name);
  for (int64_t i = 0; i < (*s)->n_absent; i++) {
    TRI_FREE((*s)->absent[i].name);
    TRI_FREE((*s)->absent[i].shard);
  }
  TRI_FREE((*s)->absent);
  TRI_FREE((*s)->file);
  TRI_FREE((*s)->info);
  TRI_FREE(*s);
}

int64_t tri_safetensors_count(const tri_safetensors *s) { return s->n; }

const tri_safetensors_info *tri_safetensors_at(const tri_safetensors *s, int64_t i) {
  TRI_ASSERT(i >= 0 && i < s->n);
  return &s->info[i];
}

const tri_safetensors_info *tri_safetensors_find(const tri_safetensors *s, const char *name) {
  tri_safetensors_info key = {.name = name};

  return s->n ? bsearch(&key, s->info, (size_t)s->n, sizeof key, compare_name) : NULL;
}

tri_status tri_safetensors_rename(tri_safetensors *s, const char *from, const char *to, int64_t *n) {
  size_t n_from = strlen(from), n_to = strlen(to);

  TRI_ASSERT(n_to <= n_from);
  *n = 0;
  for (int64_t i = 0; i < s->n; i++) {
    char *name = (char *)(uintptr_t)s->info[i].name; /* our own copy */
    if (strncmp(name, from, n_from) != 0) continue;
    memmove(name + n_to, name + n_from, strlen(name + n_from) + 1);
    memcpy(name, to, n_to);
    ++*n;
  }
  return *n ? finish_names(s) : TRI_OK;
}

int64_t tri_safetensors_absent_count(const tri_safetensors *s) { return s->n_absent; }

const char *tri_safetensors_absent_at(const tri_safetensors *s, int64_t i) {
  TRI_ASSERT(i >= 0 && i < s->n_absent);
  return s->absent[i].name;
}

const char *tri_safetensors_absent_from(const tri_safetensors *s, const char *name) {
  for (int64_t i = 0; i < s->n_absent; i++)
    if (!strcmp(s->absent[i].name, name)) return s->absent[i].shard;
  return NULL;
}

const char *tri_safetensors_path(const tri_safetensors *s, const tri_safetensors_info *info) {
  return s->file[info->file].path;
}

int tri_safetensors_file_count(const tri_safetensors *s) { return s->n_file; }

const char *tri_safetensors_file_name(const tri_safetensors *s, int i) {
  TRI_ASSERT(i >= 0 && i < s->n_file);
  const char *slash = strrchr(s->file[i].path, '/');
  return slash ? slash + 1 : s->file[i].path;
}

bool tri_safetensors_text_name(char *name) {
  static const char before[] = "language_model.", inside[] = "model.language_model.";
  size_t            head = sizeof "model." - 1, n = sizeof before - 1;

  if (!strncmp(name, before, n)) {
    memmove(name, name + n, strlen(name + n) + 1);
    return true;
  }
  if (!strncmp(name, inside, sizeof inside - 1)) {
    memmove(name + head, name + head + n, strlen(name + head + n) + 1);
    return true;
  }
  return !strcmp(name, "lm_head.weight");
}

tri_status tri_safetensors_keep_text(tri_safetensors *s, int64_t *gone) {
  int64_t kept = 0;

  for (int64_t i = 0; i < s->n; i++) {
    if (tri_safetensors_text_name((char *)s->info[i].name))
      s->info[kept++] = s->info[i];
    else
      tri_host_free((void **)&s->info[i].name);
  }
  *gone = s->n - kept;
  s->n = kept;
  if (!kept)
    TRI_FAIL(TRI_EINPUT, "%s: no tensor belongs to a text model (language_model.* or model.language_model.*)",
             s->n_file ? s->file[0].path : "the model's files");
  qsort(s->info, (size_t)kept, sizeof *s->info, compare_name);
  for (int64_t i = 1; i < kept; i++)
    if (!strcmp(s->info[i - 1].name, s->info[i].name))
      TRI_FAIL(TRI_EINPUT, "%s: `%s` of the text model exists under two names", s->file[s->info[i].file].path,
               s->info[i].name);
  return TRI_OK;
}

tri_status tri_safetensors_read_bytes(const tri_safetensors *s, const tri_safetensors_info *t, int64_t first,
                                      int64_t count, void *out) {
  const st_file *f = &s->file[t->file];

  if (first < 0 || count < 0 || first > t->bytes - count)
    TRI_FAIL(TRI_EARG, "%s: tensor `%s`: %lld bytes from %lld on were requested, but it has %lld", f->path,
             t->name, (long long)count, (long long)first, (long long)t->bytes);
  return read_at(f->path, f->fd, t->offset + first, count, out);
}

/* Widens n values of 16 bits, which lie in the upper half of out's 4 n bytes. Value i is read before anything
 * overwrites it: 4 (i + 1) <= 2 n + 2 (i + 1). */
static void widen_in_place(float *out, int64_t n, tri_dtype from) {
  const char *in = (const char *)out + 2 * n;

  for (int64_t i = 0; i < n; i++) {
    uint16_t h;
    float    f;
    memcpy(&h, in + 2 * i, sizeof h);
    f = tri_half_to_f32(from, h);
    memcpy((char *)out + 4 * i, &f, sizeof f);
  }
}

tri_status tri_safetensors_read_f32(const tri_safetensors *s, const tri_safetensors_info *t, int64_t first,
                                    int64_t count, float *out) {
  const st_file *f = &s->file[t->file];

  if (t->refused) TRI_FAIL(TRI_EINPUT, "%s: tensor `%s` (%s): %s", f->path, t->name, t->dtype, t->refused);
  if (first < 0 || count < 0 || first > t->count - count)
    TRI_FAIL(TRI_EARG, "%s: tensor `%s`: %lld elements from %lld on were requested, but it has %lld", f->path,
             t->name, (long long)count, (long long)first, (long long)t->count);
  if (!strcmp(t->dtype, "F32")) return read_at(f->path, f->fd, t->offset + 4 * first, 4 * count, out);
  while (count > 0) {
    int64_t n = count < PIECE ? count : PIECE;
    TRI_TRY(read_at(f->path, f->fd, t->offset + 2 * first, 2 * n, (char *)out + 2 * n));
    widen_in_place(out, n, !strcmp(t->dtype, "BF16") ? TRI_BF16 : TRI_F16);
    first += n;
    count -= n;
    out += n;
  }
  return TRI_OK;
}
