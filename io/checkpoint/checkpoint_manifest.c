/* checkpoint_manifest.c - writes and reads MANIFEST.json, and rejects it if its own hash does not fit. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "checkpoint_impl.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "io/text/json_text.h"

#define FORMAT "trireme-checkpoint"
static const char tail_head[] = "\"manifest_hash\": \"";
enum { HEX_DIGITS = 16 };
static const size_t manifest_limit_bytes = (size_t)1
                                           << 24; /* chosen: 100,000 tensors, twenty times the most known */

/* Limits for the bytes of state.h5 outside its tensors. The first is chosen for the hashes of 140 TB in
 * pieces of 4 MiB. The second, for each tensor, is chosen as twice its alignment, which leaves 64 KiB for its
 * header and names. */
static const int64_t rest_limit_bytes = (int64_t)1 << 30, rest_limit_tensor_bytes = 2 * TRI_CKPT_ALIGN_BYTES;

enum { MOST_NESTED = 1 << 19 }; /* chosen: twice the need of 100,000 tensors */

static const char *const dtype_name[TRI_DTYPE_COUNT] = {"f32", "bf16", "f16", "i32", "i64", "u8"};

/* ---- tensors and files of a manifest */

static bool group_is_good(const char *group) {
  size_t n = strlen(group);

  if (n < 2 || n > 255 || group[0] != '/' || group[n - 1] == '/' || strstr(group, "//")) return false;
  return strcmp(group, "/state") != 0 && strcmp(group, "/integrity") != 0;
}

tri_status tri_ckpt_manifest_add(tri_ckpt_manifest *m, const char *where, tri_status bad,
                                 const tri_ckpt_tensor *t) {
  tri_ckpt_entry *e;
  int64_t         count = 1;

  if (!group_is_good(t->group)) TRI_FAIL(bad, "%s: '%s' cannot be a group of tensors", where, t->group);
  if (!t->name[0] || strlen(t->name) > 1023 || strchr(t->name, '/') || !strcmp(t->name, "."))
    TRI_FAIL(bad, "%s: '%s' cannot be a tensor's name, which must have 1 to 1023 bytes and no '/'", where,
             t->name);
  if ((unsigned)t->dtype >= TRI_DTYPE_COUNT || t->ndim < 1 || t->ndim > TRI_MAX_DIM)
    TRI_FAIL(bad, "%s: %s/%s has %d dimensions, only 1 to %d can be stored", where, t->group, t->name,
             t->ndim, TRI_MAX_DIM);
  for (int d = 0; d < t->ndim; d++)
    if (t->dim[d] < 1 || __builtin_mul_overflow(count, t->dim[d], &count) || count > INT64_MAX / 16)
      TRI_FAIL(bad, "%s: %s/%s: dimension %d is %" PRId64 ", no such tensor can be stored", where, t->group,
               t->name, d, t->dim[d]);
  if (m->n_entry == INT32_MAX / 2) TRI_FAIL(bad, "%s: too many tensors", where);
  TRI_TRY(TRI_GROW(m->entry, m->entry_space, m->n_entry + 1));
  e = &m->entry[m->n_entry++];
  e->t = *t;
  e->t.group = e->t.name = NULL;
  e->count = count;
  e->bytes = count * (int64_t)tri_dtype_bytes(t->dtype);
  TRI_TRY(tri_copy_text(t->group, (char **)&e->t.group));
  TRI_TRY(tri_copy_text(t->name, (char **)&e->t.name));
  return TRI_OK;
}

tri_status tri_ckpt_manifest_add_file(tri_ckpt_manifest *m, const char *name, int64_t bytes, uint64_t hash) {
  TRI_TRY(TRI_GROW(m->file, m->file_space, m->n_file + 1));
  snprintf(m->file[m->n_file].name, sizeof m->file[0].name, "%s", name);
  m->file[m->n_file].bytes = bytes;
  m->file[m->n_file].hash = hash;
  m->n_file++;
  return TRI_OK;
}

void tri_ckpt_manifest_free(tri_ckpt_manifest *m) {
  for (int i = 0; i < m->n_entry; i++) {
    tri_host_free((void **)(uintptr_t)&m->entry[i].t.group);
    tri_host_free((void **)(uintptr_t)&m->entry[i].t.name);
  }
  TRI_FREE(m->entry);
  TRI_FREE(m->file);
  tri_text_free(&m->record);
  *m = (tri_ckpt_manifest){0};
}

/* ---- writing */

/* Appends a JSON value on one line and takes the reference. */
static tri_status put_json(tri_text *text, json_t *value, const char *end) {
  tri_status st = TRI_OK;
  char      *line = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;

  if (!line) TRI_FAIL_DONE(TRI_EINPUT, "a name for MANIFEST.json is not UTF-8, or memory ran out");
  TRI_TRY_DONE(tri_text_printf(text, "%s%s", line, end));
done:
  free(line);
  json_decref(value);
  return st;
}

static const char *hex(uint64_t hash, char out[HEX_DIGITS + 1]) {
  snprintf(out, HEX_DIGITS + 1, "%016" PRIx64, hash);
  return out;
}

static tri_status put_entry(tri_text *text, const tri_ckpt_entry *e, const char *end) {
  json_t *shape = json_array();

  for (int d = 0; d < e->t.ndim; d++) json_array_append_new(shape, json_integer(e->t.dim[d]));
  return put_json(text,
                  json_pack("{s:s, s:s, s:s, s:o, s:I}", "group", e->t.group, "name", e->t.name, "dtype",
                            dtype_name[e->t.dtype], "shape", shape, "offset", (json_int_t)e->offset_bytes),
                  end);
}

static tri_status compose(const tri_ckpt_manifest *m, tri_text *text) {
  char        digits[HEX_DIGITS + 1];
  const char *deck_hash = "";

  for (int i = 0; i < m->n_file; i++)
    if (!strcmp(m->file[i].name, "deck.yaml")) deck_hash = hex(m->file[i].hash, digits);
  TRI_TRY(tri_text_printf(text,
                          "{\n\"format\": \"" FORMAT
                          "\",\n\"version\": %d,\n\"program\": \"trireme " TRI_VERSION
                          "\",\n\"step\": %" PRId64 ",\n\"deck_hash\": \"%s\",\n",
                          TRI_CKPT_VERSION, m->step, deck_hash));
  TRI_TRY(tri_text_printf(
      text, "\"state\": {\"file\": \"state.h5\", \"bytes\": %" PRId64 ", \"metadata_hash\": \"%s\"},\n",
      m->state_bytes, hex(m->metadata_hash, digits)));
  if (m->record.len) TRI_TRY(tri_text_printf(text, "\"record\": %s,\n", m->record.data));
  TRI_TRY(tri_text_printf(text, "\"files\": [\n"));
  for (int i = 0; i < m->n_file; i++)
    TRI_TRY(put_json(text,
                     json_pack("{s:s, s:I, s:s}", "name", m->file[i].name, "bytes",
                               (json_int_t)m->file[i].bytes, "hash", hex(m->file[i].hash, digits)),
                     i + 1 < m->n_file ? ",\n" : "\n"));
  TRI_TRY(tri_text_printf(text, "],\n\"tensors\": [\n"));
  for (int i = 0; i < m->n_entry; i++)
    TRI_TRY(put_entry(text, &m->entry[i], i + 1 < m->n_entry ? ",\n" : "\n"));
  TRI_TRY(tri_text_printf(text, "],\n"));
  TRI_TRY(tri_text_printf(text, "%s%s\"\n}\n", tail_head, hex(tri_hash64(text->data, text->len, 0), digits)));
  return TRI_OK;
}

tri_status tri_ckpt_manifest_write(const tri_ckpt_manifest *m, const char *folder) {
  tri_status st = TRI_OK;
  tri_text   text = {0};
  char       path[TRI_CKPT_PATH_BYTES];

  TRI_TRY_DONE(tri_ckpt_path(path, "%s/MANIFEST.json", folder));
  TRI_TRY_DONE(compose(m, &text));
  if (text.len > manifest_limit_bytes)
    TRI_FAIL_DONE(TRI_EINPUT, "%s: would have %zu bytes for %d tensors, the limit is %zu", path, text.len,
                  m->n_entry, manifest_limit_bytes);
  TRI_TRY_DONE(tri_file_write(path, text.data, text.len));
done:
  tri_text_free(&text);
  return st;
}

/* ---- reading */

static const char manifest_name[] = "MANIFEST.json";

tri_status tri_ckpt_manifest_read(int at, const char *folder, char **bytes, size_t *n) {
  char        path[TRI_CKPT_PATH_BYTES];
  const char *from = at == AT_FDCWD ? path : manifest_name;
  struct stat sb;
  int         fd;
  tri_status  st;

  *bytes = NULL;
  TRI_TRY(tri_ckpt_path(path, "%s/%s", folder, manifest_name));
  if (fstatat(at, from, &sb, 0) && errno == ENOENT)
    TRI_FAIL(TRI_EFORMAT, "%s: has no MANIFEST.json, so it was never finished or the file was deleted",
             folder);
  st = tri_file_open_at(at, from, path, &fd);
  if (st == TRI_OK) {
    st = tri_file_read_open(fd, path, manifest_limit_bytes, bytes, n);
    close(fd);
  }
  if (st == TRI_EINPUT) st = TRI_EFILE; /* a checkpoint is not the user's input */
  if (st != TRI_OK) TRI_FAIL(st, "%s: cannot be read", path);
  return TRI_OK;
}

static bool read_hex(const char *text, uint64_t *out) {
  if (!text || strlen(text) != HEX_DIGITS || strspn(text, "0123456789abcdef") != HEX_DIGITS) return false;
  *out = strtoull(text, NULL, 16);
  return true;
}

/* Tells whether the hash in the last line but one fits all bytes before it. */
static bool own_hash_fits(const char *bytes, size_t n) {
  size_t   head = sizeof tail_head - 1, tail = head + HEX_DIGITS + 4; /* "\n}\n follow the digits */
  char     digits[HEX_DIGITS + 1] = {0};
  uint64_t hash;

  if (n < tail || memcmp(bytes + n - tail, tail_head, head) != 0 || memcmp(bytes + n - 4, "\"\n}\n", 4) != 0)
    return false;
  memcpy(digits, bytes + n - tail + head, HEX_DIGITS);
  return read_hex(digits, &hash) && hash == tri_hash64(bytes, n - tail, 0);
}

static bool plain_name(const char *name) {
  return name && name[0] && name[0] != '.' && !strchr(name, '/') && strlen(name) < TRI_CKPT_FILE_NAME_BYTES;
}

/* Searches the file rows read so far. They are few. */
static bool has_name(const tri_ckpt_manifest *m, const char *name) {
  for (int i = 0; i < m->n_file; i++)
    if (!strcmp(m->file[i].name, name)) return true;
  return false;
}

static tri_status parse_files(const char *path, const json_t *list, tri_ckpt_manifest *m) {
  enum { MOST_FILES = 64 }; /* chosen: three times as many as a run saves */
  size_t  i;
  json_t *row;

  if (json_array_size(list) > MOST_FILES)
    TRI_FAIL(TRI_EFORMAT, "%s: \"files\" has %zu entries, at most %d are possible", path,
             json_array_size(list), MOST_FILES);
  json_array_foreach(list, i, row) {
    const char   *name = json_string_value(json_object_get(row, "name"));
    const json_t *bytes = json_object_get(row, "bytes");
    uint64_t      hash;
    if (!plain_name(name) || !json_is_integer(bytes) || json_integer_value(bytes) < 0 ||
        json_integer_value(bytes) > TRI_CKPT_FILE_BYTES ||
        !read_hex(json_string_value(json_object_get(row, "hash")), &hash))
      TRI_FAIL(TRI_EFORMAT, "%s: \"files\" has a bad entry", path);
    if (has_name(m, name)) TRI_FAIL(TRI_EFORMAT, "%s: \"files\" names %s twice", path, name);
    TRI_TRY(tri_ckpt_manifest_add_file(m, name, json_integer_value(bytes), hash));
  }
  return TRI_OK;
}

static tri_status parse_entry(const char *path, const json_t *row, tri_ckpt_manifest *m) {
  const json_t   *shape = json_object_get(row, "shape"), *offset = json_object_get(row, "offset");
  const char     *dtype = json_string_value(json_object_get(row, "dtype"));
  tri_ckpt_tensor t = {json_string_value(json_object_get(row, "group")),
                       json_string_value(json_object_get(row, "name")),
                       TRI_DTYPE_COUNT,
                       0,
                       {0}};
  tri_ckpt_entry *e;

  for (int k = 0; dtype && k < TRI_DTYPE_COUNT; k++)
    if (!strcmp(dtype, dtype_name[k])) t.dtype = (tri_dtype)k;
  if (!t.group || !t.name || t.dtype == TRI_DTYPE_COUNT || !json_is_array(shape) ||
      json_array_size(shape) > TRI_MAX_DIM || !json_is_integer(offset))
    TRI_FAIL(TRI_EFORMAT, "%s: \"tensors\" has a bad entry", path);
  t.ndim = (int)json_array_size(shape);
  for (int d = 0; d < t.ndim; d++) t.dim[d] = json_integer_value(json_array_get(shape, (size_t)d));
  TRI_TRY(tri_ckpt_manifest_add(m, path, TRI_EFORMAT, &t));
  e = &m->entry[m->n_entry - 1];
  e->offset_bytes = json_integer_value(offset);
  if (e->offset_bytes < 0 || e->offset_bytes > m->state_bytes || e->bytes > m->state_bytes - e->offset_bytes)
    TRI_FAIL(TRI_EFORMAT, "%s: %s/%s does not lie inside state.h5", path, t.group, t.name);
  return TRI_OK;
}

/* Checkpoints of earlier versions have no record. src/record interprets its contents. */
static tri_status parse_record(const char *path, const json_t *record, tri_ckpt_manifest *m) {
  tri_status st = TRI_OK;
  char      *text = NULL;

  if (!record) return TRI_OK;
  if (!json_is_object(record)) TRI_FAIL(TRI_EFORMAT, "%s: \"record\" is not an object", path);
  text = json_dumps(record, 0);
  if (!text) TRI_FAIL(TRI_ENOMEM, "%s: memory ran out for \"record\"", path);
  st = tri_text_put(&m->record, text, strlen(text));
  free(text);
  return st;
}

static tri_status refuse_entry(const char *path, const char *name) {
  TRI_FAIL(TRI_EFORMAT, "%s: `%s` is missing or has the wrong type", path, name);
}

static tri_status parse_fields(const char *path, const json_t *root, tri_ckpt_manifest *m) {
  const json_t *state = json_object_get(root, "state"), *step = json_object_get(root, "step");
  const json_t *version = json_object_get(root, "version"), *tensors = json_object_get(root, "tensors");
  const json_t *bytes = json_object_get(state, "bytes");
  const char   *format = json_string_value(json_object_get(root, "format"));
  const char   *program = json_string_value(json_object_get(root, "program"));
  size_t        i;
  json_t       *row;

  if (!format || strcmp(format, FORMAT) != 0 || !json_is_integer(version))
    TRI_FAIL(TRI_EFORMAT, "%s: its format is '%s', not '%s' with a version", path, format ? format : "?",
             FORMAT);
  if (json_integer_value(version) != TRI_CKPT_VERSION)
    TRI_FAIL(TRI_EFORMAT, "%s: has format version %lld, written by '%s', but this program reads version %d",
             path, (long long)json_integer_value(version), program ? program : "?", TRI_CKPT_VERSION);
  if (!json_is_integer(step) || json_integer_value(step) < 0) return refuse_entry(path, "step");
  if (!json_is_integer(bytes) || json_integer_value(bytes) < 0) return refuse_entry(path, "state.bytes");
  if (!program) return refuse_entry(path, "program");
  if (!json_is_array(tensors)) return refuse_entry(path, "tensors");
  if (!read_hex(json_string_value(json_object_get(state, "metadata_hash")), &m->metadata_hash))
    return refuse_entry(path, "state.metadata_hash");
  m->step = json_integer_value(step);
  m->state_bytes = json_integer_value(bytes);
  snprintf(m->program, sizeof m->program, "%s", program);
  TRI_TRY(parse_record(path, json_object_get(root, "record"), m));
  TRI_TRY(parse_files(path, json_object_get(root, "files"), m));
  json_array_foreach(tensors, i, row) TRI_TRY(parse_entry(path, row, m));
  return TRI_OK;
}

tri_status tri_ckpt_manifest_parse(const char *folder, const char *bytes, size_t n, tri_ckpt_manifest *out) {
  tri_status   st = TRI_OK;
  char         path[TRI_CKPT_PATH_BYTES];
  json_t      *root = NULL;
  json_error_t err;

  *out = (tri_ckpt_manifest){0};
  TRI_TRY(tri_ckpt_path(path, "%s/MANIFEST.json", folder));
  if (!own_hash_fits(bytes, n))
    TRI_FAIL(TRI_EFORMAT, "%s: damaged, its bytes have changed since it was written", path);
  if (!tri_json_fits(bytes, n, MOST_NESTED))
    TRI_FAIL(TRI_EFORMAT, "%s: " TRI_JSON_TOO_LARGE, path, MOST_NESTED);
  root = json_loadb(bytes, n, JSON_REJECT_DUPLICATES, &err);
  if (!root) TRI_FAIL_DONE(TRI_EFORMAT, "%s:%d: is not JSON: %s", path, err.line, err.text);
  TRI_TRY_DONE(parse_fields(path, root, out));
done:
  json_decref(root);
  if (st != TRI_OK) tri_ckpt_manifest_free(out);
  return st;
}

tri_status tri_ckpt_get_record(const char *folder, tri_text *record) {
  tri_ckpt_manifest m = {0};
  char             *bytes = NULL;
  size_t            n = 0;
  tri_status        st = tri_ckpt_manifest_read(AT_FDCWD, folder, &bytes, &n);

  if (st == TRI_OK) st = tri_ckpt_manifest_parse(folder, bytes, n, &m);
  if (st == TRI_OK && m.record.len) st = tri_text_put(record, m.record.data, m.record.len);
  tri_ckpt_manifest_free(&m);
  TRI_FREE(bytes);
  return st;
}

static tri_status check_size(int at, const char *folder, const char *name, int64_t bytes) {
  char        path[TRI_CKPT_PATH_BYTES];
  struct stat sb;

  TRI_TRY(tri_ckpt_path(path, "%s/%s", folder, name));
  if (fstatat(at, at == AT_FDCWD ? path : name, &sb, 0))
    TRI_FAIL(errno == ENOENT ? TRI_EFORMAT : TRI_EFILE, "%s: cannot be read: %s", path, strerror(errno));
  if (!S_ISREG(sb.st_mode)) TRI_FAIL(TRI_EFORMAT, "%s: is not a regular file", path);
  if (sb.st_size != bytes)
    TRI_FAIL(TRI_EFORMAT, "%s: damaged, it has %lld bytes but %" PRId64 " were written", path,
             (long long)sb.st_size, bytes);
  return TRI_OK;
}

tri_status tri_ckpt_manifest_check_sizes(const tri_ckpt_manifest *m, int at, const char *folder) {
  TRI_TRY(check_size(at, folder, "state.h5", m->state_bytes));
  for (int i = 0; i < m->n_file; i++) TRI_TRY(check_size(at, folder, m->file[i].name, m->file[i].bytes));
  return TRI_OK;
}

/* ---- hash of all bytes outside the tensors */

tri_status tri_ckpt_read_at(int fd, const char *path, void *buf, size_t n, int64_t offset_bytes) {
  for (size_t have = 0; have < n;) {
    ssize_t got = pread(fd, (char *)buf + have, n - have, (off_t)(offset_bytes + (int64_t)have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) TRI_FAIL(TRI_EFILE, "%s: reading failed: %s", path, strerror(errno));
    if (got == 0) TRI_FAIL(TRI_EFORMAT, "%s: ends before byte %" PRId64, path, offset_bytes + (int64_t)n);
    have += (size_t)got;
  }
  return TRI_OK;
}

static int by_offset(const void *a, const void *b) {
  const tri_ckpt_entry *x = *(tri_ckpt_entry *const *)a, *y = *(tri_ckpt_entry *const *)b;

  return (x->offset_bytes > y->offset_bytes) - (x->offset_bytes < y->offset_bytes);
}

static tri_status hash_range(int fd, const char *path, int64_t begin, int64_t end, char *buf, size_t space,
                             uint64_t *hash) {
  while (begin < end) {
    size_t n = end - begin < (int64_t)space ? (size_t)(end - begin) : space;
    TRI_TRY(tri_ckpt_read_at(fd, path, buf, n, begin));
    *hash = tri_hash64(buf, n, *hash);
    begin += (int64_t)n;
  }
  return TRI_OK;
}

/* Sorts the tensors by offset and limits the bytes outside them, all of which are hashed. A forged sparse
 * file could otherwise be of any size without using its maker's disk. */
static tri_status check_rest(const tri_ckpt_manifest *m, const char *path, tri_ckpt_entry **order) {
  int64_t at = 0, rest = 0, most = rest_limit_bytes + m->n_entry * rest_limit_tensor_bytes;

  for (int i = 0; i < m->n_entry; i++) order[i] = &m->entry[i];
  qsort(order, (size_t)m->n_entry, sizeof *order, by_offset);
  for (int i = 0; i < m->n_entry; i++) {
    if (order[i]->offset_bytes < at)
      TRI_FAIL(TRI_EFORMAT, "%s: %s/%s overlaps another tensor", path, order[i]->t.group, order[i]->t.name);
    rest += order[i]->offset_bytes - at;
    at = order[i]->offset_bytes + order[i]->bytes;
  }
  rest += m->state_bytes - at;
  if (rest > most)
    TRI_FAIL(TRI_EFORMAT, "%s: has %" PRId64 " bytes beside its %d tensors, at most %" PRId64 " are possible",
             path, rest, m->n_entry, most);
  return TRI_OK;
}

tri_status tri_ckpt_metadata_hash(const tri_ckpt_manifest *m, const char *folder, uint64_t *hash) {
  enum { SPACE = 1 << 20 }; /* chosen: one read call per MiB */
  tri_status       st = TRI_OK;
  char             path[TRI_CKPT_PATH_BYTES], *buf = NULL;
  tri_ckpt_entry **order = NULL;
  int64_t          at = 0;
  int              fd = -1;
  size_t           space = m->state_bytes < SPACE ? (size_t)m->state_bytes : SPACE;

  *hash = 0;
  TRI_TRY(tri_ckpt_path(path, "%s/state.h5", folder));
  TRI_TRY_DONE(tri_host_alloc(space, 1, (void **)&buf));
  TRI_TRY_DONE(tri_host_alloc((size_t)m->n_entry, sizeof *order, (void **)&order));
  TRI_TRY_DONE(check_rest(m, path, order));
  if (tri_file_open(path, &fd) != TRI_OK) TRI_FAIL_DONE(TRI_EFILE, "%s: cannot be read", path);
  for (int i = 0; i < m->n_entry; i++) {
    TRI_TRY_DONE(hash_range(fd, path, at, order[i]->offset_bytes, buf, space, hash));
    at = order[i]->offset_bytes + order[i]->bytes;
  }
  TRI_TRY_DONE(hash_range(fd, path, at, m->state_bytes, buf, space, hash));
done:
  if (fd >= 0) close(fd);
  TRI_FREE(order);
  tri_host_free((void **)&buf);
  return st;
}
