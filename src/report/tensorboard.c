/* tensorboard.c - writes the content of metrics.jsonl as an event file for TensorBoard. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "tensorboard.h"

#include "base/file.h"
#include "base/folder.h"
#include "base/host_memory.h"
#include "base/notice.h"
#include "events.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* TensorBoard reads files with "tfevents" in the name, in the order of names, and follows the last one. So an
 * unfinished file has another name. The number has ten digits, enough for seconds since 1970 until 2286. */
#define BEGINS "events.out.tfevents."
#define ENDS   ".trireme"
enum { DIGITS = 10, NAME_BYTES = sizeof BEGINS + DIGITS + sizeof ENDS };

struct tri_tensorboard {
  char    *folder, *path; /* path of the file, or NULL until it exists */
  int      fd;            /* descriptor of the file, or -1 */
  double   number;        /* lowest allowed number in its name */
  double   wall_s;        /* time of the newest line with one */
  int64_t  step;          /* step of the newest event */
  tri_text summary;       /* content of the current event */
  tri_text waiting;       /* records not yet in the file */
  bool     has_tried;     /* tried to write them */
  int64_t  before;        /* number of our previous file, until it is emptied, or -1 for none */
};

/* ---- the file ---- */

/* Refuses a link, because its target may hold other runs' files with names like ours. */
static tri_status make_folder(const char *folder) {
  if (tri_folder_has_link(AT_FDCWD, folder))
    TRI_FAIL(TRI_EFILE,
             "%s: is a link, and links are not followed here. Remove it. For several runs give TensorBoard's "
             "--logdir a folder that holds their outputs, or links to them.",
             folder);
  return tri_folder_make(folder);
}

/* Returns the number in the name of one of our files, or -1. */
static int64_t number_of(const char *name) {
  int64_t number = 0;

  if (strlen(name) != NAME_BYTES - 2 || strncmp(name, BEGINS, sizeof BEGINS - 1) ||
      strcmp(name + sizeof BEGINS - 1 + DIGITS, ENDS))
    return -1;
  for (const char *c = name + sizeof BEGINS - 1; c < name + sizeof BEGINS - 1 + DIGITS; c++) {
    if (*c < '0' || *c > '9') return -1;
    number = 10 * number + (*c - '0');
  }
  return number;
}

/* Finds the highest number of our files, or -1 without any. */
static tri_status find_newest(const char *folder, int64_t *number) {
  DIR           *d = opendir(folder);
  struct dirent *e;
  int            why;

  *number = -1;
  if (!d) TRI_FAIL(TRI_EFILE, "%s: cannot be read: %s", folder, strerror(errno));
  while ((errno = 0, e = readdir(d)) != NULL)
    if (number_of(e->d_name) > *number) *number = number_of(e->d_name);
  why = errno;
  closedir(d);
  if (why) TRI_FAIL(TRI_EFILE, "%s: cannot be read: %s", folder, strerror(why));
  return TRI_OK;
}

/* Removes our files with a lower number. */
static tri_status remove_older(const char *folder, int64_t number) {
  tri_status     st = TRI_OK;
  DIR           *d = opendir(folder);
  struct dirent *e;

  if (!d) TRI_FAIL(TRI_EFILE, "%s: cannot be read: %s", folder, strerror(errno));
  while ((errno = 0, e = readdir(d)) != NULL)
    if (number_of(e->d_name) >= 0 && number_of(e->d_name) < number && unlinkat(dirfd(d), e->d_name, 0))
      TRI_FAIL_DONE(TRI_EFILE, "%s/%s: cannot remove this older file of the run: %s", folder, e->d_name,
                    strerror(errno));
  if (errno) TRI_FAIL_DONE(TRI_EFILE, "%s: cannot be read: %s", folder, strerror(errno));
done:
  closedir(d);
  return st;
}

static tri_status make_path(const char *folder, int64_t number, char **path) {
  tri_text   text = {0};
  tri_status st = tri_text_printf(&text, "%s/" BEGINS "%0*lld" ENDS, folder, DIGITS, (long long)number);

  if (st == TRI_OK) st = tri_copy_text(text.data, path);
  tri_text_free(&text);
  return st;
}

/* Writes a file under a name that nobody reads, then renames it. */
static tri_status write_whole(const tri_tensorboard *b, const char *path, const tri_text *bytes) {
  tri_text   next = {0};
  tri_status st = tri_text_printf(&next, "%s/next", b->folder);

  if (st == TRI_OK) st = tri_file_write(next.data, bytes->data, bytes->len);
  if (st == TRI_OK && rename(next.data, path))
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_EFILE, "%s: cannot rename the file: %s", next.data,
                  strerror(errno));
  tri_text_free(&next);
  return st;
}

/* Empties our previous file. It stays until the next start, because a TensorBoard that follows it only moves
 * on to the next name from an existing file. */
static tri_status empty(tri_tensorboard *b) {
  tri_text   version = {0};
  char      *path = NULL;
  tri_status st = tri_events_put_version(&version, b->number);

  if (st == TRI_OK) st = make_path(b->folder, b->before, &path);
  if (st == TRI_OK) st = write_whole(b, path, &version);
  if (st == TRI_OK) st = remove_older(b->folder, b->before);
  if (st == TRI_OK) b->before = -1;
  tri_text_free(&version);
  TRI_FREE(path);
  return st;
}

static tri_status create(tri_tensorboard *b) {
  tri_status st = TRI_OK;
  int64_t    newest, number;
  char      *path = NULL;

  TRI_TRY(make_folder(b->folder));
  TRI_TRY(find_newest(b->folder, &newest));
  number = (int64_t)b->number > newest ? (int64_t)b->number : newest + 1;
  TRI_TRY(make_path(b->folder, number, &path));
  TRI_TRY_DONE(write_whole(b, path, &b->waiting));
  TRI_TRY_DONE(tri_file_append(path, &b->fd));
  b->waiting.len = 0;
  b->path = path;
  b->before = newest;
  return TRI_OK;
done:
  TRI_FREE(path);
  return st;
}

static tri_status flush(tri_tensorboard *b) {
  b->has_tried = true;
  if (!b->path) TRI_TRY(create(b));
  if (b->waiting.len) TRI_TRY(tri_file_put_end(b->fd, b->path, b->waiting.data, b->waiting.len));
  b->waiting.len = 0;
  return b->before >= 0 ? empty(b) : TRI_OK;
}

/* ---- events ---- */

/* Returns the group of a metric. TensorBoard shows the part before a tag's first / as a group that can be
 * folded. */
static const char *group_of(const char *name) {
  static const struct {
    const char *begin, *group;
  } known[] = {{"eval_", "eval"}, {"mem_", "mem"}, {"reward_", "reward"}, {"time_", "time"}};
  static const char rate[] = "_per_s";
  size_t            n = strlen(name);

  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strncmp(name, known[i].begin, strlen(known[i].begin))) return known[i].group;
  return n >= sizeof rate && !strcmp(name + n - (sizeof rate - 1), rate) ? "speed" : "train";
}

static tri_status make_tag(const char *name, tri_text *tag) {
  return tri_text_printf(tag, "%s/%s", group_of(name), name);
}

tri_status tri_tensorboard_add(tri_tensorboard *b, const char *name, double value) {
  tri_text   tag = {0};
  tri_status st = make_tag(name, &tag);

  if (!strcmp(name, "time_unix_s") && isfinite(value)) b->wall_s = value;
  if (st == TRI_OK) st = tri_events_put_scalar(&b->summary, tag.data, isfinite(value) ? (float)value : NAN);
  tri_text_free(&tag);
  return st;
}

tri_status tri_tensorboard_add_text(tri_tensorboard *b, const char *name, const char *text) {
  tri_text   tag = {0};
  tri_status st = make_tag(name, &tag);

  if (st == TRI_OK && !strcmp(name, "alarms"))
    st = tri_events_put_text(&b->summary, tag.data, text, strlen(text));
  tri_text_free(&tag);
  return st;
}

/* Moves the current event to the waiting records, as a whole or not at all. */
static tri_status end_event(tri_tensorboard *b, int64_t step) {
  size_t     before = b->waiting.len;
  tri_status st = TRI_OK;

  b->step = step;
  if (b->summary.len) st = tri_events_put_summary(&b->waiting, b->wall_s, step, &b->summary);
  if (st != TRI_OK) b->waiting.len = before;
  b->summary.len = 0;
  return st;
}

tri_status tri_tensorboard_end(tri_tensorboard *b, int64_t step) {
  TRI_TRY(end_event(b, step < 0 ? b->step : step));
  return flush(b);
}

/* ---- earlier lines ---- */

static tri_status take_line(tri_tensorboard *b, const char *line, size_t n) {
  json_t     *object = json_loadb(line, n, JSON_ALLOW_NUL, NULL), *value;
  json_int_t  step = json_integer_value(json_object_get(object, "step"));
  tri_status  st = TRI_OK;
  const char *name;

  if (!json_is_integer(json_object_get(object, "step"))) goto done; /* not a metrics line */
  json_object_foreach(object, name, value) {
    if (!strcmp(name, "step")) continue;
    if (json_is_number(value) || json_is_null(value))
      TRI_TRY_DONE(
          tri_tensorboard_add(b, name, json_is_null(value) ? (double)NAN : json_number_value(value)));
    else if (json_is_string(value))
      TRI_TRY_DONE(tri_tensorboard_add_text(b, name, json_string_value(value)));
  }
  st = end_event(b, (int64_t)step);
done:
  json_decref(object);
  return st;
}

/* Takes whole lines, as tri_metrics_open leaves them. */
static tri_status take_lines(tri_tensorboard *b, const char *path) {
  tri_status  st = TRI_OK;
  char       *text = NULL;
  const char *at, *end;
  size_t      n;

  TRI_TRY(tri_file_read(path, SIZE_MAX / 2, &text, &n));
  for (at = text; (end = memchr(at, '\n', n - (size_t)(at - text))) != NULL; at = end + 1)
    TRI_TRY_DONE(take_line(b, at, (size_t)(end - at)));
done:
  TRI_FREE(text);
  return st;
}

/* Writes the deck as Markdown, which TensorBoard expects of texts. Four spaces make it a code block. */
static tri_status put_deck(tri_tensorboard *b, const tri_metrics_board *opt) {
  tri_text   code = {0};
  tri_status st = TRI_OK;

  for (const char *at = opt->deck, *end; *at; at = *end ? end + 1 : end) {
    end = at + strcspn(at, "\n");
    TRI_TRY_DONE(tri_text_printf(&code, "    %.*s\n", (int)(end - at), at));
  }
  if (code.len) TRI_TRY_DONE(tri_events_put_text(&b->summary, "deck", code.data, code.len));
  st = end_event(b, opt->step);
done:
  tri_text_free(&code);
  return st;
}

static tri_status begin(tri_tensorboard *b, const tri_metrics_board *opt, const char *lines) {
  tri_status st;

  TRI_TRY(tri_copy_text(opt->folder, &b->folder));
  if (!opt->waits) TRI_TRY(make_folder(opt->folder));
  TRI_TRY(tri_events_put_version(&b->waiting, opt->now_s));
  TRI_TRY(tri_events_put_start(&b->waiting, opt->now_s, 0));
  TRI_TRY(put_deck(b, opt));
  TRI_TRY(take_lines(b, lines));
  if (opt->waits) return TRI_OK;
  st = flush(b);
  if (st != TRI_EFILE) return st;
  tri_warn("tensorboard_waits", "the run continues, but the event file for TensorBoard waits: %s",
           tri_error_message());
  tri_error_clear();
  return TRI_OK;
}

bool tri_tensorboard_is_there(const char *folder) {
  int64_t number = -1;

  if (tri_folder_has_link(AT_FDCWD, folder) || !tri_file_exists(folder)) return false;
  if (find_newest(folder, &number) != TRI_OK) tri_error_clear();
  return number >= 0;
}

tri_status tri_tensorboard_open(const tri_metrics_board *opt, const char *lines, tri_tensorboard **out) {
  tri_tensorboard *b = NULL;
  tri_status       st;

  *out = NULL;
  TRI_TRY(TRI_ALLOC(b, 1));
  b->fd = -1;
  b->before = -1;
  b->number = b->wall_s = opt->now_s;
  st = begin(b, opt, lines);
  if (st == TRI_OK) {
    *out = b;
    return TRI_OK;
  }
  b->has_tried = false; /* the error reports it */
  tri_tensorboard_close(&b);
  return st;
}

void tri_tensorboard_close(tri_tensorboard **b) {
  if (!*b) return;
  if ((*b)->has_tried && (*b)->waiting.len)
    tri_warn("tensorboard_lacks_steps",
             "%s: the event file lacks steps that could not be written, but metrics.jsonl has them",
             (*b)->folder);
  if ((*b)->before >= 0)
    tri_warn("tensorboard_twice",
             "%s: the event file of the previous start could not be emptied, so some steps are in both files",
             (*b)->folder);
  if ((*b)->fd >= 0) close((*b)->fd);
  TRI_FREE((*b)->folder);
  TRI_FREE((*b)->path);
  tri_text_free(&(*b)->summary);
  tri_text_free(&(*b)->waiting);
  TRI_FREE(*b);
}
