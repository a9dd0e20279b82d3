/* machine_file.c - reads and writes the calibration file, with doctor's measurements of this machine for
 * plan. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"
#include "base/folder.h"
#include "base/host_memory.h"
#include "io/text/json_text.h"
#include "machine.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FORMAT "trireme-machine"
enum { VERSION = 1, LIMIT_BYTES = 1 << 16, MOST_NESTED = 16 }; /* chosen: far more than is written */

tri_status tri_machine_path(const char *device, int threads, char out[TRI_MACHINE_PATH_BYTES]) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  bool        own = cache && cache[0] == '/'; /* XDG says to ignore a relative path */
  char        of_threads[16] = "";
  int         n;

  if (!own && (!home || home[0] != '/'))
    TRI_FAIL(TRI_EFILE, "no folder for measurements: set XDG_CACHE_HOME or HOME to an absolute path");
  if (!strcmp(device, "cpu")) snprintf(of_threads, sizeof of_threads, "-%d", threads);
  n = snprintf(out, TRI_MACHINE_PATH_BYTES, "%s%s/trireme/machine-%s%s.json", own ? cache : home,
               own ? "" : "/.cache", device, of_threads);
  if (n >= TRI_MACHINE_PATH_BYTES)
    TRI_FAIL(TRI_EFILE, "the path of the measurements file is longer than %d bytes",
             TRI_MACHINE_PATH_BYTES - 1);
  return TRI_OK;
}

/* ---- reading ---- */

static tri_status get_number(const json_t *o, const char *path, const char *prefix, const char *key,
                             double *out) {
  const json_t *v = json_object_get(o, key);

  if (!json_is_number(v)) TRI_FAIL(TRI_EINPUT, "%s: `%s%s` must be a number", path, prefix, key);
  *out = json_number_value(v);
  return TRI_OK;
}

static tri_status get_link(const json_t *root, const char *path, const char *key, tri_link *out) {
  const json_t *o = json_object_get(root, key);
  char          prefix[16];

  if (!json_is_object(o) || json_object_size(o) != 2)
    TRI_FAIL(TRI_EINPUT, "%s: `%s` must be an object of alpha_s and bytes_per_s", path, key);
  snprintf(prefix, sizeof prefix, "%s.", key);
  TRI_TRY(get_number(o, path, prefix, "alpha_s", &out->alpha_s));
  return get_number(o, path, prefix, "bytes_per_s", &out->bytes_per_s);
}

static tri_status get_head(const json_t *root, const char *path, tri_machine *m) {
  const char *format = json_string_value(json_object_get(root, "format")),
             *name = json_string_value(json_object_get(root, "name"));

  if (!format || strcmp(format, FORMAT) != 0)
    TRI_FAIL(TRI_EINPUT, "%s: `format` must be \"" FORMAT "\"", path);
  if (json_integer_value(json_object_get(root, "version")) != VERSION)
    TRI_FAIL(TRI_EINPUT, "%s: `version` must be %d. Remove the file and run trireme doctor again", path,
             VERSION);
  if (json_object_size(root) != 11) TRI_FAIL(TRI_EINPUT, "%s: has an unknown field or lacks a field", path);
  if (!name || strlen(name) >= sizeof m->name)
    TRI_FAIL(TRI_EINPUT, "%s: `name` must be a text of at most %zu bytes", path, sizeof m->name - 1);
  snprintf(m->name, sizeof m->name, "%s", name);
  return TRI_OK;
}

static tri_status get_machine(const json_t *root, const char *path, tri_machine *m) {
  double bytes = 0;

  TRI_TRY(get_head(root, path, m));
  TRI_TRY(get_number(root, path, "", "device_bytes", &bytes));
  if (!(bytes > 0 && bytes < 0x1p53))
    TRI_FAIL(TRI_EINPUT, "%s: `device_bytes` = %g: must be > 0", path, bytes);
  m->device_bytes = (int64_t)bytes;
  TRI_TRY(get_number(root, path, "", "flops_bf16", &m->flops_bf16));
  TRI_TRY(get_number(root, path, "", "flops_f32", &m->flops_f32));
  TRI_TRY(get_number(root, path, "", "mem_bytes_per_s", &m->mem_bytes_per_s));
  TRI_TRY(get_link(root, path, "node", &m->node));
  TRI_TRY(get_link(root, path, "cross", &m->cross));
  TRI_TRY(get_number(root, path, "", "host_bytes_per_s", &m->host_bytes_per_s));
  TRI_TRY(get_number(root, path, "", "disk_bytes_per_s", &m->disk_bytes_per_s));
  return tri_machine_check(m, path);
}

tri_status tri_machine_read(const char *path, tri_machine *out, bool *found) {
  char        *bytes = NULL;
  size_t       n = 0;
  json_t      *root = NULL;
  json_error_t error;
  tri_machine  m = {0};
  tri_status   st = TRI_OK;

  *found = tri_file_exists(path);
  if (!*found) return TRI_OK;
  TRI_TRY_DONE(tri_file_read(path, LIMIT_BYTES, &bytes, &n));
  if (!tri_json_fits(bytes, n, MOST_NESTED))
    TRI_FAIL_DONE(TRI_EINPUT, "%s: " TRI_JSON_TOO_LARGE, path, MOST_NESTED);
  root = json_loadb(bytes, n, JSON_REJECT_DUPLICATES, &error);
  if (!root)
    TRI_FAIL_DONE(TRI_EINPUT, "%s:%d: not JSON: %s", path, error.line < 1 ? 1 : error.line, error.text);
  if (!json_is_object(root)) TRI_FAIL_DONE(TRI_EINPUT, "%s: is not a JSON object", path);
  TRI_TRY_DONE(get_machine(root, path, &m));
  *out = m;
done:
  json_decref(root);
  TRI_FREE(bytes);
  return st;
}

/* Compares machines by memory within 3 %, because drivers reserve different amounts. Chosen. */
static bool is_alike(const tri_machine *a, const tri_machine *b) {
  double ratio = (double)a->device_bytes / (double)b->device_bytes;

  return ratio > 0.97 && ratio < 1.03;
}

tri_status tri_machine_measured(const char *device, int threads, tri_machine *m, bool *found) {
  bool        gpu = strcmp(device, "cpu") != 0;
  char        path[TRI_MACHINE_PATH_BYTES];
  tri_machine measured;

  *found = false;
  if (tri_machine_path(device, threads, path) != TRI_OK) return tri_error_clear(), TRI_OK;
  TRI_TRY(tri_machine_read(path, &measured, found));
  *found = *found && (!gpu || is_alike(&measured, m));
  if (!*found) return TRI_OK;
  if (gpu) { /* keep this GPU's name and memory */
    measured.device_bytes = m->device_bytes;
    memcpy(measured.name, m->name, sizeof measured.name);
  }
  *m = measured;
  return TRI_OK;
}

int tri_machine_better(const tri_machine *before, tri_machine *m, const char *kept[TRI_MACHINE_FIGURES]) {
  static const char *const name[TRI_MACHINE_FIGURES] = {
      "flops_bf16",       "flops_f32",        "mem_bytes_per_s", "node.bytes_per_s", "cross.bytes_per_s",
      "host_bytes_per_s", "disk_bytes_per_s", "node.alpha_s",    "cross.alpha_s"};
  const double old[TRI_MACHINE_FIGURES] = {
      before->flops_bf16,       before->flops_f32,         before->mem_bytes_per_s,
      before->node.bytes_per_s, before->cross.bytes_per_s, before->host_bytes_per_s,
      before->disk_bytes_per_s, -before->node.alpha_s,     -before->cross.alpha_s};
  double *now[TRI_MACHINE_FIGURES] = {&m->flops_bf16,       &m->flops_f32,         &m->mem_bytes_per_s,
                                      &m->node.bytes_per_s, &m->cross.bytes_per_s, &m->host_bytes_per_s,
                                      &m->disk_bytes_per_s, &m->node.alpha_s,      &m->cross.alpha_s};
  int     n = 0;

  if (!is_alike(before, m)) return 0;
  /* Seconds are negative in old[], so a larger number is better for all. */
  for (int i = 0; i < TRI_MACHINE_FIGURES; i++) {
    double sign = old[i] < 0 ? -1 : 1;
    if (old[i] <= sign * *now[i]) continue;
    *now[i] = sign * old[i];
    kept[n++] = name[i];
  }
  return n;
}

/* ---- writing ---- */

/* Makes every folder above the file. */
static tri_status make_folders(const char *path) {
  char part[TRI_MACHINE_PATH_BYTES];

  for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
    if (!tri_file_exists(part)) TRI_TRY(tri_folder_make(part));
  }
  return TRI_OK;
}

static tri_status put_number(tri_text *t, const char *key, double x) {
  TRI_TRY(tri_text_printf(t, ",\n  \"%s\": ", key));
  return tri_json_put_double(t, x);
}

static tri_status put_link(tri_text *t, const char *key, tri_link link) {
  TRI_TRY(tri_text_printf(t, ",\n  \"%s\": {\"alpha_s\": ", key));
  TRI_TRY(tri_json_put_double(t, link.alpha_s));
  TRI_TRY(tri_text_printf(t, ", \"bytes_per_s\": "));
  TRI_TRY(tri_json_put_double(t, link.bytes_per_s));
  return tri_text_put(t, "}", 1);
}

static tri_status put_machine(tri_text *t, const tri_machine *m) {
  TRI_TRY(tri_text_printf(t, "{\n  \"format\": \"" FORMAT "\",\n  \"version\": %d,\n  \"name\": ", VERSION));
  TRI_TRY(tri_json_put_string(t, m->name, strlen(m->name)));
  TRI_TRY(put_number(t, "device_bytes", (double)m->device_bytes));
  TRI_TRY(put_number(t, "flops_bf16", m->flops_bf16));
  TRI_TRY(put_number(t, "flops_f32", m->flops_f32));
  TRI_TRY(put_number(t, "mem_bytes_per_s", m->mem_bytes_per_s));
  TRI_TRY(put_link(t, "node", m->node));
  TRI_TRY(put_link(t, "cross", m->cross));
  TRI_TRY(put_number(t, "host_bytes_per_s", m->host_bytes_per_s));
  TRI_TRY(put_number(t, "disk_bytes_per_s", m->disk_bytes_per_s));
  return tri_text_put(t, "\n}\n", 3);
}

/* Writes a temporary file with a unique name first, because jobs that end together write at once. */
static tri_status put_file(const char *path, const tri_text *text) {
  char            own[TRI_MACHINE_PATH_BYTES];
  struct timespec t;

  clock_gettime(CLOCK_REALTIME, &t);
  if (snprintf(own, sizeof own, "%s.%ld-%lld-%ld", path, (long)getpid(), (long long)t.tv_sec, t.tv_nsec) >=
      (int)sizeof own)
    TRI_FAIL(TRI_EFILE, "%s: the path is too long", path);
  TRI_TRY(tri_file_write(own, text->data, text->len));
  if (!rename(own, path)) return TRI_OK;
  tri_fail(__FILE__, __LINE__, __func__, TRI_EFILE, "%s: cannot be written: %s", path, strerror(errno));
  unlink(own);
  return TRI_EFILE;
}

tri_status tri_machine_write(const char *path, const tri_machine *m) {
  tri_text   text = {0};
  tri_status st = TRI_OK;

  TRI_TRY_DONE(tri_machine_check(m, path));
  TRI_TRY_DONE(put_machine(&text, m));
  TRI_TRY_DONE(make_folders(path));
  TRI_TRY_DONE(put_file(path, &text));
done:
  tri_text_free(&text);
  return st;
}
