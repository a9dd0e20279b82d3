/* jsonl.c - reading JSON lines. */
#include "io/jsonl.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct tri_jsonl {
  char    *path;
  FILE    *file;
  char    *buffer; /* by getline */
  size_t   buffer_bytes;
  char    *text; /* the last line without a byte order mark, in buffer */
  size_t   text_bytes;
  int64_t  line;       /* lines taken */
  int64_t  begin, end; /* bytes of the file where a line of this part may begin */
  int64_t  at;         /* byte where the next line begins */
  int64_t  skipped;    /* lines before the part; -1: not counted yet */
  json_t  *object;     /* of the last line */
  int32_t *id;         /* [id_cap] */
  int64_t  id_cap;
};

/* Step over the line that is under way at r->begin: it belongs to the part before. */
static tri_status enter_part(tri_jsonl *r) {
  ssize_t n;

  if (r->begin <= 0) return TRI_OK;
  if (fseeko(r->file, r->begin - 1, SEEK_SET))
    TRI_FAIL(TRI_EFILE, "%s: reading cannot begin at byte %lld: %s", r->path, (long long)r->begin,
             strerror(errno));
  n = getline(&r->buffer, &r->buffer_bytes, r->file);
  if (n < 0 && !feof(r->file))
    TRI_FAIL(errno == ENOMEM ? TRI_ENOMEM : TRI_EFILE, "%s: reading from byte %lld failed: %s", r->path,
             (long long)r->begin, strerror(errno));
  r->at = n < 0 ? r->end : r->begin - 1 + n;
  r->skipped = -1;
  return TRI_OK;
}

/* file: taken over; NULL: opened from the path. */
static tri_status open_file(const char *path, FILE *file, int64_t begin, int64_t end, tri_jsonl **out) {
  tri_status  st = TRI_OK;
  tri_jsonl  *r = NULL;
  struct stat sb;

  *out = NULL;
  TRI_TRY_DONE(TRI_ALLOC(r, 1));
  TRI_TRY_DONE(TRI_ALLOC(r->path, strlen(path) + 1));
  memcpy(r->path, path, strlen(path));
  r->file = file ? file : fopen(path, "rbe");
  if (!r->file) TRI_FAIL_DONE(TRI_EINPUT, "%s: cannot be opened: %s", path, strerror(errno));
  if (!fstat(fileno(r->file), &sb) && S_ISDIR(sb.st_mode))
    TRI_FAIL_DONE(TRI_EINPUT, "%s: is a folder, a file of JSON lines is needed", path);
  r->begin = begin;
  r->end = end;
  TRI_TRY_DONE(enter_part(r));
done:
  if (st != TRI_OK) tri_jsonl_close(&r);
  *out = r;
  return st;
}

tri_status tri_jsonl_open(const char *path, tri_jsonl **out) {
  return open_file(path, NULL, 0, INT64_MAX, out);
}
tri_status tri_jsonl_open_part(const char *path, int64_t begin, int64_t end, tri_jsonl **out) {
  return open_file(path, NULL, begin, end, out);
}
tri_status tri_jsonl_open_stdin(tri_jsonl **out) { return open_file("stdin", stdin, 0, INT64_MAX, out); }

void tri_jsonl_close(tri_jsonl **r) {
  if (!*r) return;
  if ((*r)->file && (*r)->file != stdin) fclose((*r)->file);
  json_decref((*r)->object);
  free((*r)->buffer);
  TRI_FREE((*r)->id);
  TRI_FREE((*r)->path);
  TRI_FREE(*r);
}

const char *tri_jsonl_path(const tri_jsonl *r) { return r->path; }
int64_t     tri_jsonl_taken(const tri_jsonl *r) { return r->line; }

/* Lines that begin before the part. Only messages ask; if the file cannot be read, they count from the part.
 */
static int64_t count_skipped(const tri_jsonl *r) {
  FILE   *f = fopen(r->path, "rbe");
  char    piece[65536];
  int64_t at = 0, lines = 1, start = r->begin;
  size_t  n;

  if (!f) return 0;
  while (at < start && (n = fread(piece, 1, sizeof piece, f)) > 0) {
    if ((int64_t)n > start - at) n = (size_t)(start - at);
    for (const char *p = piece, *end = piece + n; (p = memchr(p, '\n', (size_t)(end - p))); p++)
      lines += at + (p - piece) + 1 < start; /* the line behind it begins before the part */
    at += (int64_t)n;
  }
  fclose(f);
  return lines;
}

int64_t tri_jsonl_line(tri_jsonl *r) {
  if (r->skipped < 0) r->skipped = count_skipped(r);
  return r->skipped + r->line;
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* The next line that is not blank into r->text; false at the end of the file. */
static tri_status read_line(tri_jsonl *r, bool *found) {
  ssize_t n;

  *found = false;
  errno = 0;
  while (r->at < r->end && (n = getline(&r->buffer, &r->buffer_bytes, r->file)) >= 0) {
    size_t at = 0;
    r->text = r->buffer;
    r->text_bytes = (size_t)n;
    r->at += n;
    if (r->line++ == 0 && r->begin == 0 && n >= 3 && !memcmp(r->text, "\xef\xbb\xbf", 3)) {
      r->text += 3;
      r->text_bytes -= 3;
    }
    while (at < r->text_bytes && is_space(r->text[at])) at++;
    *found = at < r->text_bytes;
    if (*found) return TRI_OK;
  }
  if (r->at < r->end && !feof(r->file))
    TRI_FAIL(errno == ENOMEM ? TRI_ENOMEM : TRI_EFILE, "%s: reading stopped after line %lld: %s", r->path,
             (long long)tri_jsonl_line(r), strerror(errno));
  return TRI_OK;
}

tri_status tri_jsonl_next(tri_jsonl *r, json_t **object) {
  json_error_t error;
  bool         found;

  *object = NULL;
  json_decref(r->object);
  r->object = NULL;
  TRI_TRY(read_line(r, &found));
  if (!found) return TRI_OK;
  r->object =
      json_loadb(r->text, r->text_bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
  if (!r->object)
    TRI_FAIL(TRI_EINPUT, "%s:%lld: not JSON: %s (column %d)", r->path, (long long)tri_jsonl_line(r),
             error.text, error.column);
  if (!json_is_object(r->object))
    TRI_FAIL(TRI_EINPUT, "%s:%lld: a line must be a JSON object, {...}", r->path,
             (long long)tri_jsonl_line(r));
  *object = r->object;
  return TRI_OK;
}

/* The scanners below walk text that jansson has accepted; `end` only guards them. */
static const char *skip_space(const char *p, const char *end) {
  while (p < end && is_space(*p)) p++;
  return p;
}

/* p is at the opening quote; behind the closing one. */
static const char *skip_string(const char *p, const char *end) {
  for (p++; p < end && *p != '"'; p++)
    if (*p == '\\') p++;
  return p < end ? p + 1 : end;
}

static const char *skip_value(const char *p, const char *end) {
  int depth = 0;

  while (p < end) {
    if (*p == '"') {
      p = skip_string(p, end);
    } else {
      if (depth == 0 && (*p == ',' || *p == '}' || is_space(*p))) return p;
      depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
      p++;
    }
    if (depth == 0 && (p[-1] == '"' || p[-1] == '}' || p[-1] == ']')) return p;
  }
  return end;
}

/* Is the quoted text from p to end this key? */
static bool same_key(const char *p, const char *end, const char *key) {
  json_t *v = json_loadb(p, (size_t)(end - p), JSON_DECODE_ANY, NULL);
  bool    same = json_is_string(v) && !strcmp(json_string_value(v), key);

  json_decref(v);
  return same;
}

const char *tri_jsonl_raw(const tri_jsonl *r, const char *key, size_t *n_bytes) {
  const char *p = r->text, *end = p + r->text_bytes;

  *n_bytes = 0;
  if (!json_object_get(r->object, key)) return NULL;
  p = skip_space(p, end) + 1; /* behind the { */
  while ((p = skip_space(p, end)) < end && *p == '"') {
    const char *name = p, *name_end = skip_string(p, end), *value;
    value = skip_space(skip_space(name_end, end) + 1, end); /* behind the : */
    p = skip_value(value, end);
    if (same_key(name, name_end, key)) {
      *n_bytes = (size_t)(p - value);
      return value;
    }
    p = skip_space(p, end) + 1; /* behind the , */
  }
  return NULL;
}

tri_status tri_jsonl_ids(tri_jsonl *r, const char *key, int32_t vocab, const int32_t **id, int64_t *n) {
  const json_t *list = json_object_get(r->object, key);
  size_t        count = json_array_size(list);

  *id = NULL;
  *n = 0;
  if (!json_is_array(list))
    TRI_FAIL(TRI_EINPUT, "%s:%lld: `%s` must be a list of token ids", r->path, (long long)tri_jsonl_line(r),
             key);
  if (!count) TRI_FAIL(TRI_EINPUT, "%s:%lld: `%s` is empty", r->path, (long long)tri_jsonl_line(r), key);
  if (count > INT32_MAX)
    TRI_FAIL(TRI_EINPUT, "%s:%lld: `%s` is too long", r->path, (long long)tri_jsonl_line(r), key);
  if ((int64_t)count > r->id_cap) {
    TRI_FREE(r->id);
    r->id_cap = 0;
    TRI_TRY(TRI_ALLOC(r->id, 2 * count));
    r->id_cap = 2 * (int64_t)count;
  }
  for (size_t i = 0; i < count; i++) {
    const json_t *v = json_array_get(list, i);
    int64_t       value = json_integer_value(v);
    if (!json_is_integer(v))
      TRI_FAIL(TRI_EINPUT, "%s:%lld: `%s`[%zu] is not a whole number", r->path, (long long)tri_jsonl_line(r),
               key, i);
    if (value < 0 || value >= vocab)
      TRI_FAIL(TRI_EINPUT, "%s:%lld: `%s`[%zu] = %lld is not in the vocabulary, 0 .. %d", r->path,
               (long long)tri_jsonl_line(r), key, i, (long long)value, vocab - 1);
    r->id[i] = (int32_t)value;
  }
  *id = r->id;
  *n = (int64_t)count;
  return TRI_OK;
}
