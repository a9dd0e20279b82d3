/* metrics.c - collects named numbers and times of one step, reduces them over the ranks, and writes them as
 * one JSON line. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "metrics.h"

#include "base/file.h"
#include "base/host_memory.h"
#include "base/notice.h"
#include "io/text/json_text.h"
#include "tensorboard.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 256, ENTRY_MAX = 512 }; /* chosen, several times the number in a run */

typedef enum { ENTRY_SUM, ENTRY_MAX_OF, ENTRY_MIN_OF, ENTRY_RANK0, ENTRY_SPAN, ENTRY_TEXT } entry_kind;

typedef struct entry {
  char       name[TRI_METRIC_NAME_BYTES];
  entry_kind kind;
  double     value; /* this rank's before reduce, combined over ranks after it */
  char       text[TEXT_BYTES];
} entry;

struct tri_metrics {
  int   fd, rank; /* fd is -1 without a file */
  char *path;
  /* At the opening, no line was kept, or the last one waits for tri_metrics_complete. */
  bool             is_new, is_due;
  bool             is_cut;      /* at the opening, lines were cut off */
  bool             is_replaced; /* a new file has the name of fd's file */
  tri_text         completion;  /* values that will replace the last line's `due` */
  tri_text         waiting;     /* lines not yet in the file */
  tri_tensorboard *board;       /* NULL for none */
  int              n;
  entry            e[ENTRY_MAX];
};

/* The end of a line that waits for its evaluation. */
static const char due[] = ", \"eval\": \"due\"}\n";
enum { DUE_BYTES = sizeof due - 1 };

static bool ends_due(const char *text, size_t n) {
  return n >= DUE_BYTES && !memcmp(text + n - DUE_BYTES, due, DUE_BYTES);
}

/* Reads the step of a line. Returns false if it is no metrics line. A crash may leave NULs before a line. */
static bool step_of(const char *line, const char *end, int64_t *step) {
  json_t *object, *x;
  bool    is;

  while (line < end && !*line) line++;
  object = json_loadb(line, (size_t)(end - line), JSON_ALLOW_NUL, NULL);
  x = json_object_get(object, "step");
  is = json_is_integer(x);
  if (is) *step = json_integer_value(x);
  json_decref(object);
  return is;
}

/* Returns the bytes of the lines to keep, which are the whole lines before the first step above keep_step.
 * *any is true if one of them has a step. Lines that are not ours, from a crash or a person, stay, with a
 * warning. */
static size_t kept_bytes(const char *path, const char *text, size_t n, int64_t keep_step, bool *any) {
  const char *end;
  size_t      keep = 0;
  int         strange = 0, first = 0, line = 1;

  *any = false;
  for (; keep_step >= 0 && (end = memchr(text + keep, '\n', n - keep)) != NULL; line++) {
    int64_t step = -1;
    bool    is = step_of(text + keep, end, &step);
    if (is && step > keep_step) break;
    *any |= is;
    if (!is && !strange++) first = line;
    keep = (size_t)(end + 1 - text);
  }
  if (strange)
    tri_warn("metrics_strange_line",
             "%s:%d: is not a line of metrics with its step (%d such line%s), so it is kept and ignored",
             path, first, strange, strange == 1 ? "" : "s");
  return keep;
}

/* Writes the kept lines to a new file under the same name. An older start of the run may still be alive, for
 * example on a disconnected node. It then writes to a file that nobody reads. On a full disk the old file is
 * cut instead. */
static tri_status replace(tri_metrics *m, const char *text, size_t keep) {
  if (tri_file_write(m->path, text, keep) != TRI_OK) {
    tri_error_clear();
    return TRI_OK;
  }
  close(m->fd);
  m->fd = -1;
  return tri_file_append(m->path, &m->fd);
}

/* Opens the file for appending, cut back to keep_step. */
static tri_status file_open(tri_metrics *m, int64_t keep_step) {
  tri_status st = TRI_OK;
  char      *text = NULL;
  size_t     n, keep;
  bool       any;

  TRI_TRY_DONE(tri_file_append(m->path, &m->fd));
  TRI_TRY_DONE(tri_file_read(m->path, SIZE_MAX / 2, &text, &n));
  keep = kept_bytes(m->path, text, n, keep_step, &any);
  if (keep > 0) TRI_TRY_DONE(replace(m, text, keep));
  if (keep < n && ftruncate(m->fd, (off_t)keep))
    TRI_FAIL_DONE(TRI_EFILE, "%s: cannot cut the file back to step %lld: %s", m->path, (long long)keep_step,
                  strerror(errno));
  m->is_new = !any;
  m->is_cut = keep < n && memchr(text + keep, '\n', n - keep);
  m->is_due = ends_due(text, keep);
done:
  TRI_FREE(text);
  return st;
}

tri_status tri_metrics_open(const char *path, int64_t keep_step, int rank, tri_metrics **out) {
  tri_status   st = TRI_OK;
  tri_metrics *m = NULL;

  *out = NULL;
  TRI_TRY_DONE(TRI_ALLOC(m, 1));
  m->fd = -1;
  m->rank = rank;
  if (path && rank == 0) {
    TRI_TRY_DONE(TRI_ALLOC(m->path, strlen(path) + 1));
    memcpy(m->path, path, strlen(path) + 1);
    TRI_TRY_DONE(file_open(m, keep_step));
  }
  *out = m;
done:
  if (st != TRI_OK) tri_metrics_close(&m);
  return st;
}

void tri_metrics_close(tri_metrics **m) {
  if (!*m) return;
  tri_tensorboard_close(&(*m)->board);
  if ((*m)->fd >= 0) close((*m)->fd);
  TRI_FREE((*m)->path);
  tri_text_free(&(*m)->completion);
  tri_text_free(&(*m)->waiting);
  TRI_FREE(*m);
}

tri_status tri_metrics_open_board(tri_metrics *m, const tri_metrics_board *opt) {
  TRI_ASSERT(!m->board);
  return m->fd >= 0 ? tri_tensorboard_open(opt, m->path, &m->board) : TRI_OK;
}

void tri_metrics_cut_board(tri_metrics *m, const tri_metrics_board *opt) {
  tri_tensorboard *board;

  if (!m->is_cut || !tri_tensorboard_is_there(opt->folder)) return;
  if (tri_tensorboard_open(opt, m->path, &board) != TRI_OK)
    tri_warn("tensorboard_twice", "%s: still holds steps that this run repeats: %s", opt->folder,
             tri_error_message());
  tri_error_clear();
  tri_tensorboard_close(&board);
}

static entry *find(tri_metrics *m, const char *name) {
  for (int i = 0; i < m->n; i++)
    if (!strcmp(m->e[i].name, name)) return &m->e[i];
  return NULL;
}

/* Returns the entry of this name. A new one is zeroed, and *is_new is true. */
static entry *find_or_add(tri_metrics *m, const char *name, entry_kind kind, bool *is_new) {
  entry *e = find(m, name);

  *is_new = !e;
  if (!e) {
    TRI_ASSERT(m->n < ENTRY_MAX && strlen(name) < TRI_METRIC_NAME_BYTES);
    e = &m->e[m->n++];
    *e = (entry){.kind = kind};
    memcpy(e->name, name, strlen(name) + 1);
  }
  TRI_ASSERT(e->kind == kind);
  return e;
}

/* Combines two values of one name. */
static double combined(entry_kind kind, double a, double b) {
  if (kind == ENTRY_SUM) return a + b;
  if (kind == ENTRY_RANK0) return b;
  if (isnan(a) || isnan(b)) return NAN;
  return kind == ENTRY_MIN_OF ? fmin(a, b) : fmax(a, b);
}

void tri_metric_add(tri_metrics *m, const char *name, tri_metric_kind kind, double value) {
  static const entry_kind of[] = {[TRI_METRIC_SUM] = ENTRY_SUM,
                                  [TRI_METRIC_MAX] = ENTRY_MAX_OF,
                                  [TRI_METRIC_MIN] = ENTRY_MIN_OF,
                                  [TRI_METRIC_RANK0] = ENTRY_RANK0};
  bool                    is_new;
  entry                  *e = find_or_add(m, name, of[kind], &is_new);

  e->value = is_new ? value : combined(e->kind, e->value, value);
}

void tri_metric_text(tri_metrics *m, const char *name, const char *value) {
  bool   is_new;
  entry *e;

  if (m->rank != 0) return;
  e = find_or_add(m, name, ENTRY_TEXT, &is_new);
  e->value = NAN;
  TRI_ASSERT(strlen(value) < sizeof e->text);
  memcpy(e->text, value, strlen(value) + 1);
}

static const char *time_name(const char *span, char out[TRI_METRIC_NAME_BYTES]) {
  int n = snprintf(out, TRI_METRIC_NAME_BYTES, "time_%s_s", span);

  TRI_ASSERT(n > 0 && n < TRI_METRIC_NAME_BYTES);
  return out;
}

void tri_metric_time(tri_metrics *m, const char *span, double spent_s) {
  char name[TRI_METRIC_NAME_BYTES];
  bool is_new;

  find_or_add(m, time_name(span, name), ENTRY_SPAN, &is_new)->value += spent_s;
}

void tri_metric_forget_time(tri_metrics *m, const char *span) {
  char   name[TRI_METRIC_NAME_BYTES];
  entry *e = find(m, time_name(span, name));

  TRI_ASSERT(!e || e == &m->e[m->n - 1]);
  if (e) m->n--;
}

bool tri_metric_has(const tri_metrics *m, const char *name) { return find((tri_metrics *)m, name) != NULL; }

double tri_metric_get(const tri_metrics *m, const char *name) {
  for (int i = 0; i < m->n; i++)
    if (!strcmp(m->e[i].name, name)) return m->e[i].value;
  return NAN;
}

tri_status tri_metrics_put_begun_by(const tri_metrics *m, const char *begin, tri_text *out) {
  const char *between = "";

  for (const entry *e = m->e; e < m->e + m->n; e++) {
    if (e->kind == ENTRY_TEXT || strncmp(e->name, begin, strlen(begin)) != 0) continue;
    TRI_TRY(tri_text_printf(out, "%s", between));
    TRI_TRY(tri_json_put_string(out, e->name, strlen(e->name)));
    TRI_TRY(tri_text_put(out, ": ", 2));
    TRI_TRY(tri_json_put_double(out, e->value));
    between = ", ";
  }
  return TRI_OK;
}

/* Returns a 64-bit hash (FNV-1a) of names and kinds in their order. Ranks with different hashes have
 * different metrics. */
static uint64_t names_hash(const tri_metrics *m) {
  uint64_t h = 0xcbf29ce484222325u;

  for (int i = 0; i < m->n; i++) {
    if (m->e[i].kind == ENTRY_TEXT) continue;
    for (const char *c = m->e[i].name; *c; c++) h = (h ^ (unsigned char)*c) * 0x100000001b3u;
    h = (h ^ (uint64_t)m->e[i].kind) * 0x100000001b3u;
  }
  return h;
}

/* A rank's message, with the hash of its names and its values without texts. */
typedef struct message {
  uint64_t hash;
  double   value[ENTRY_MAX];
} message;

static tri_status reduce_values(tri_metrics *m, const char *recv, const size_t *counts, int n_rank,
                                size_t n_bytes) {
  message in;

  for (int r = 0; r < n_rank; r++) {
    uint64_t hash = 0;
    if (counts[r] == n_bytes) memcpy(&hash, recv + (size_t)r * n_bytes, sizeof hash);
    if (counts[r] != n_bytes || hash != names_hash(m))
      TRI_FAIL(TRI_EINTERNAL, "ranks %d and %d have different metrics in this step", m->rank, r);
  }
  for (int r = 0; r < n_rank; r++) {
    memcpy(&in, recv + (size_t)r * n_bytes, n_bytes);
    for (int i = 0, k = 0; i < m->n; i++) {
      entry *e = &m->e[i];
      if (e->kind == ENTRY_TEXT) continue;
      if (r == 0) e->value = in.value[k];
      if (r > 0 && e->kind != ENTRY_RANK0) e->value = combined(e->kind, e->value, in.value[k]);
      k++;
    }
  }
  return TRI_OK;
}

tri_status tri_metrics_reduce(tri_metrics *m, tri_comm *world) {
  tri_status st = TRI_OK;
  message    mine = {.hash = names_hash(m)};
  char      *recv = NULL;
  size_t    *counts = NULL, n_bytes = offsetof(message, value);

  for (int i = 0; i < m->n; i++) {
    if (m->e[i].kind == ENTRY_TEXT) continue;
    memcpy((char *)&mine + n_bytes, &m->e[i].value, sizeof(double));
    n_bytes += sizeof(double);
  }
  if (!world) return TRI_OK;
  TRI_TRY_DONE(TRI_ALLOC(counts, world->size));
  TRI_TRY_DONE(tri_host_gather_all(world, &mine, n_bytes, (void **)&recv, counts));
  TRI_TRY_DONE(reduce_values(m, recv, counts, world->size, n_bytes));
done:
  TRI_FREE(recv);
  TRI_FREE(counts);
  return st;
}

/* Appends all values and the end of the line. */
static tri_status put_values(const tri_metrics *m, tri_text *line) {
  for (int i = 0; i < m->n; i++) {
    const entry *e = &m->e[i];
    TRI_TRY(tri_text_put(line, ", ", 2));
    TRI_TRY(tri_json_put_string(line, e->name, strlen(e->name)));
    TRI_TRY(tri_text_put(line, ": ", 2));
    if (e->kind == ENTRY_TEXT)
      TRI_TRY(tri_json_put_string(line, e->text, strlen(e->text)));
    else
      TRI_TRY(tri_json_put_double(line, e->value));
  }
  return tri_text_put(line, "}\n", 2);
}

static tri_status line_make(const tri_metrics *m, int64_t step, tri_text *line) {
  TRI_TRY(tri_text_printf(line, "{\"step\": %lld", (long long)step));
  return put_values(m, line);
}

/* Replaces the file as a whole, so that no half line is ever visible. */
static tri_status complete_file(tri_metrics *m) {
  tri_status st = TRI_OK;
  tri_text   all = {0};
  char      *text = NULL;
  size_t     n;

  TRI_TRY_DONE(tri_file_read(m->path, SIZE_MAX / 2, &text, &n));
  if (!ends_due(text, n))
    TRI_FAIL_DONE(TRI_EFORMAT, "%s: another program has changed the file meanwhile", m->path);
  TRI_TRY_DONE(tri_text_put(&all, text, n - DUE_BYTES));
  TRI_TRY_DONE(tri_text_put(&all, m->completion.data, m->completion.len));
  TRI_TRY_DONE(tri_file_write(m->path, all.data, all.len));
  m->completion.len = 0;
  m->is_replaced = true;
done:
  TRI_FREE(text);
  tri_text_free(&all);
  return st == TRI_EINPUT ? TRI_EFILE : st; /* the file is not the user's input */
}

static tri_status reopen(tri_metrics *m) {
  int fd;

  TRI_TRY(tri_file_append(m->path, &fd));
  close(m->fd);
  m->fd = fd;
  m->is_replaced = false;
  return TRI_OK;
}

void tri_metrics_follow(tri_metrics *m) { m->is_replaced = m->fd >= 0; }

tri_status tri_metrics_flush(tri_metrics *m) {
  if (m->fd < 0) return TRI_OK;
  if (m->completion.len) TRI_TRY(complete_file(m));
  if (m->is_replaced) TRI_TRY(reopen(m));
  if (!m->waiting.len) return TRI_OK;
  TRI_TRY(tri_file_put_end(m->fd, m->path, m->waiting.data, m->waiting.len));
  m->waiting.len = 0;
  return TRI_OK;
}

/* Writes all values of the step, or with -1 of the previous step again, to the event file. */
static tri_status show(const tri_metrics *m, int64_t step) {
  if (!m->board) return TRI_OK;
  for (const entry *e = m->e; e < m->e + m->n; e++)
    TRI_TRY(e->kind == ENTRY_TEXT ? tri_tensorboard_add_text(m->board, e->name, e->text)
                                  : tri_tensorboard_add(m->board, e->name, e->value));
  return tri_tensorboard_end(m->board, step);
}

/* Writes values that were `put`, to the file and to the event file. Both are tried. */
static tri_status end_values(tri_metrics *m, int64_t step, tri_status put) {
  tri_status st = put == TRI_OK ? tri_metrics_flush(m) : put, shown = show(m, step);

  m->n = 0;
  return st == TRI_OK ? shown : st;
}

tri_status tri_metrics_write(tri_metrics *m, int64_t step) {
  return end_values(m, step, m->fd >= 0 ? line_make(m, step, &m->waiting) : TRI_OK);
}

tri_status tri_metrics_put_off(tri_metrics *m, int64_t step) {
  tri_metric_text(m, "eval", "due");
  return tri_metrics_write(m, step);
}

bool tri_metrics_is_new(const tri_metrics *m) { return m->is_new; }
bool tri_metrics_is_due(const tri_metrics *m) { return m->is_due; }

tri_status tri_metrics_complete(tri_metrics *m) {
  m->is_due = false;
  return end_values(m, -1, m->fd >= 0 ? put_values(m, &m->completion) : TRI_OK);
}
