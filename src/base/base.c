/* base.c - status codes, the error trace, host memory, text, clocks, the program's name. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base.h"

#include "live.h"
#include "visible.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef __has_feature /* clang's way to tell; gcc's is the other one */
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes)   ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

enum { PAGES_ALIGN = 256 };           /* specified: device.h */
enum { PAGES_LEAST_BYTES = 1 << 21 }; /* chosen: a page fault each 4 KiB costs less than holes of that size */

static _Thread_local char error_message[TRI_ERROR_MESSAGE_BYTES], error_trace[TRI_ERROR_TRACE_BYTES];
_Static_assert((int)TRI_ERROR_MESSAGE_BYTES == (int)TRI_MESSAGE_BYTES,
               "a message is as long as visible.h makes it");

static const struct {
  const char *text;
  int         code;
} status_row[] = {
#define TRI_X(name, text, code) {text, code},
    TRI_STATUS_LIST(TRI_X)
#undef TRI_X
};

static const char *program = "trireme";

void        tri_program_set(const char *argv0) { program = argv0 && argv0[0] ? argv0 : "trireme"; }
const char *tri_program(void) { return program; }

const char *tri_status_text(tri_status st) {
  return (unsigned)st < TRI_STATUS_COUNT ? status_row[st].text : "unknown status";
}

const char *tri_status_word(tri_status st) {
  static const char *const word[] = {[TRI_OK] = "ok",
                                     [TRI_EARG] = "arg",
                                     [TRI_ECONFIG] = "config",
                                     [TRI_EINPUT] = "input",
                                     [TRI_EFILE] = "file",
                                     [TRI_EFORMAT] = "format",
                                     [TRI_ENOMEM] = "memory",
                                     [TRI_EABSENT] = "absent",
                                     [TRI_EDEVICE] = "device",
                                     [TRI_EREWARD] = "reward",
                                     [TRI_ECOMM] = "comm",
                                     [TRI_ENUMERIC] = "numeric",
                                     [TRI_EINTERNAL] = "internal"};

  _Static_assert(sizeof word / sizeof *word == TRI_STATUS_COUNT, "every status has a word");
  return (unsigned)st < TRI_STATUS_COUNT ? word[st] : "unknown";
}

int tri_status_exit_code(tri_status st) { return (unsigned)st < TRI_STATUS_COUNT ? status_row[st].code : 70; }

/* As the source tree has it: a build below that tree names files from there on ("../../src/main.c"). */
static const char *source_name(const char *file) {
  while (!strncmp(file, "../", 3)) file += 3;
  return file;
}

tri_status tri_fail(const char *file, int line, const char *func, tri_status st, const char *fmt, ...) {
  char    text[TRI_MESSAGE_BYTES];
  va_list ap;
  size_t  used = strlen(error_trace);

  va_start(ap, fmt);
  tri_visible_format(text, fmt, ap);
  va_end(ap);
  if (!error_message[0]) {
    snprintf(error_message, sizeof error_message, "%s", text);
    used = 0;
  }
  if (used + 1 < sizeof error_trace)
    snprintf(error_trace + used, sizeof error_trace - used, "  %s:%d %s: %s (%s)\n", source_name(file), line,
             func, text, tri_status_text(st));
  return st;
}

const char *tri_error_message(void) { return error_message; }
const char *tri_error_trace(void) { return error_trace; }
void        tri_error_clear(void) { error_message[0] = error_trace[0] = 0; }

tri_status tri_error_about(tri_status st, const char *what) {
  char   behind[sizeof error_message];
  size_t n = strcspn(error_message, "\n");

  if ((st != TRI_EINPUT && st != TRI_EFILE && st != TRI_EFORMAT) || strstr(error_message, what)) return st;
  if (error_message[n] && n && strchr(";:,", error_message[n - 1])) n--;
  snprintf(behind, sizeof behind, "%s", error_message + n);
  snprintf(error_message + n, sizeof error_message - n, " (%s)%s", what, behind);
  return st;
}

tri_status tri_error_at(tri_status st, const char *where) {
  char why[sizeof error_message];

  if (st == TRI_OK) return st;
  snprintf(why, sizeof why, "%s", error_message);
  snprintf(error_message, sizeof error_message, "%.*s: %s", (int)sizeof why / 2, where, why);
  return st;
}

void tri_error_lines(const char *text) {
  size_t used = strlen(error_message);

  tri_visible(text, strlen(text), "\n", error_message + used, sizeof error_message - used);
}

void tri_error_set(tri_status st, const char *message) {
  snprintf(error_message, sizeof error_message, "%s", message);
  snprintf(error_trace, sizeof error_trace, "  (%s)\n", tri_status_text(st));
}

void tri_error_keep(tri_error_kept *out) {
  memcpy(out->message, error_message, sizeof out->message);
  memcpy(out->trace, error_trace, sizeof out->trace);
}

void tri_error_put_back(const tri_error_kept *kept) {
  snprintf(error_message, sizeof error_message, "%.*s", (int)sizeof kept->message - 1, kept->message);
  snprintf(error_trace, sizeof error_trace, "%.*s", (int)sizeof kept->trace - 1, kept->trace);
}

void tri_assert_failed(const char *file, int line, const char *what) {
  tri_live_wipe();
  fprintf(stderr, "trireme: internal error at %s:%d: %s\n", source_name(file), line, what);
  abort();
}

static atomic_int_fast64_t host_bytes;

tri_status tri_host_alloc(size_t n, size_t size, void **out) {
  size_t bytes;
  void  *p;

  *out = NULL;
  if (__builtin_mul_overflow(n, size, &bytes) || bytes > PTRDIFF_MAX - 64)
    TRI_FAIL(TRI_ENOMEM, "a host buffer of %zu x %zu bytes is too large", n, size);
  bytes = (bytes + 64) / 64 * 64; /* at least one cache line, so that n = 0 is legal */
  p = aligned_alloc(64, bytes);
  if (!p) TRI_FAIL(TRI_ENOMEM, "the host has no %zu bytes of memory left", bytes);
  memset(p, 0, bytes);
  atomic_fetch_add(&host_bytes, (int_fast64_t)malloc_usable_size(p));
  *out = p;
  return TRI_OK;
}

void tri_host_free(void **p) {
  if (!*p) return;
  atomic_fetch_sub(&host_bytes, (int_fast64_t)malloc_usable_size(*p));
  free(*p);
  *p = NULL;
}

tri_status tri_grow(void **p, int64_t *cap, int64_t need, size_t size) {
  int64_t more = *cap ? *cap : 64;
  void   *fresh;

  if (need <= *cap) return TRI_OK;
  while (more < need) more *= 2;
  TRI_TRY(tri_host_alloc((size_t)more, size, &fresh));
  if (*p) memcpy(fresh, *p, (size_t)*cap * size);
  tri_host_free(p);
  *p = fresh;
  *cap = more;
  return TRI_OK;
}

/* glibc's malloc takes large blocks from the kernel one by one until the first of them is freed, then from
 * the heap, which holes make larger with each round: a run's second checkpoint took 20 MiB more than its
 * first. With a threshold of our own every large block goes back to the kernel. */
static void keep_heap_small(void) {
#if defined M_MMAP_THRESHOLD
  mallopt(M_MMAP_THRESHOLD, PAGES_LEAST_BYTES);
#endif
}

/* calloc zeroes without touching what is fresh; the address it gave lies before the block, where nobody else
 * may look. */
tri_status tri_pages_alloc(size_t bytes, void **out) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  char                 *got;

  *out = NULL;
  pthread_once(&once, keep_heap_small);
  got = bytes > PTRDIFF_MAX - 2 * PAGES_ALIGN ? NULL : calloc(bytes + 2 * PAGES_ALIGN, 1);
  if (!got) TRI_FAIL(TRI_ENOMEM, "the host has no %zu bytes of memory left", bytes);
  atomic_fetch_add(&host_bytes, (int_fast64_t)malloc_usable_size(got));
  *out = got + 2 * PAGES_ALIGN - (uintptr_t)got % PAGES_ALIGN;
  memcpy((char *)*out - sizeof got, &got, sizeof got);
  ASAN_POISON_MEMORY_REGION(got, (size_t)((char *)*out - got));
  return TRI_OK;
}

void tri_pages_free(void **p) {
  char *got;

  if (!*p) return;
  ASAN_UNPOISON_MEMORY_REGION((char *)*p - sizeof got, sizeof got);
  memcpy(&got, (char *)*p - sizeof got, sizeof got);
  ASAN_UNPOISON_MEMORY_REGION(got, (size_t)((char *)*p - got));
  atomic_fetch_sub(&host_bytes, (int_fast64_t)malloc_usable_size(got));
  free(got);
  *p = NULL;
}

int64_t tri_host_bytes(void) { return (int64_t)atomic_load(&host_bytes); }

tri_status tri_copy_text(const char *text, char **out) {
  size_t n = strlen(text) + 1;

  TRI_TRY(TRI_ALLOC(*out, n));
  memcpy(*out, text, n);
  return TRI_OK;
}

static tri_status text_space(tri_text *t, size_t more) {
  size_t need = t->len + more + 1, cap = t->cap ? t->cap : 256;
  char  *data;

  if (need <= t->cap) return TRI_OK;
  while (cap < need) cap *= 2;
  data = realloc(t->data, cap);
  if (!data) TRI_FAIL(TRI_ENOMEM, "the host has no %zu bytes of memory left", cap);
  t->data = data;
  t->cap = cap;
  return TRI_OK;
}

tri_status tri_text_put(tri_text *t, const char *bytes, size_t n) {
  TRI_TRY(text_space(t, n));
  if (n) memcpy(t->data + t->len, bytes, n);
  t->len += n;
  t->data[t->len] = 0;
  return TRI_OK;
}

tri_status tri_text_printf(tri_text *t, const char *fmt, ...) {
  va_list ap;
  int     n;

  va_start(ap, fmt);
  n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  if (n < 0) TRI_FAIL(TRI_EINTERNAL, "a message cannot be printed: %s", fmt);
  TRI_TRY(text_space(t, (size_t)n));
  va_start(ap, fmt);
  vsnprintf(t->data + t->len, (size_t)n + 1, fmt, ap);
  va_end(ap);
  t->len += (size_t)n;
  return TRI_OK;
}

void tri_text_free(tri_text *t) {
  free(t->data);
  *t = (tri_text){0};
}

tri_status tri_error_note(tri_status st, tri_errors *errors) {
  bool theirs = st == TRI_EARG || st == TRI_ECONFIG || st == TRI_EINPUT || st == TRI_EFORMAT ||
                st == TRI_EFILE || st == TRI_EABSENT;

  if (!errors || !theirs) return st;
  TRI_TRY(tri_text_printf(&errors->text, "%s\n", error_message));
  TRI_TRY(tri_text_printf(&errors->trace, "%s", error_trace));
  if (errors->n && tri_status_exit_code(st) != tri_status_exit_code(errors->st)) st = TRI_ECONFIG;
  errors->st = st;
  errors->n++;
  tri_error_clear();
  return TRI_OK;
}

tri_status tri_errors_fail(const tri_errors *errors) {
  TRI_ASSERT(errors->n == 1);
  snprintf(error_message, sizeof error_message, "%.*s", (int)errors->text.len - 1, errors->text.data);
  snprintf(error_trace, sizeof error_trace, "%s", errors->trace.data);
  return errors->st;
}

tri_status tri_errors_miss(tri_errors *errors, const char *what) {
  if (!errors) return TRI_OK;
  return tri_text_printf(&errors->unseen, "%s%s", errors->unseen.len ? ", " : "", what);
}

void tri_errors_free(tri_errors *errors) {
  tri_text_free(&errors->text);
  tri_text_free(&errors->trace);
  tri_text_free(&errors->unseen);
}

double tri_unix_s(void) {
  struct timespec t;

  clock_gettime(CLOCK_REALTIME, &t);
  return (double)(t.tv_sec * 1000 + t.tv_nsec / 1000000) / 1000;
}

double tri_now_s(void) {
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Edit distance in which two neighbours swapped are one edit (optimal string alignment, three rows); names
 * longer than a row count as far. */
static int edit_distance(const char *a, const char *b) {
  enum { MOST = 96 };
  int row[3][MOST + 1], n_a = (int)strlen(a), n_b = (int)strlen(b);

  if (n_a > MOST || n_b > MOST) return MOST;
  for (int j = 0; j <= n_b; j++) row[0][j] = j;
  for (int i = 1; i <= n_a; i++) {
    int *now = row[i % 3], *up = row[(i + 2) % 3], *before = row[(i + 1) % 3];
    now[0] = i;
    for (int j = 1; j <= n_b; j++) {
      int best = up[j - 1] + (a[i - 1] != b[j - 1]);
      if (up[j] + 1 < best) best = up[j] + 1;
      if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
        best = before[j - 2] + 1;
      now[j] = best;
    }
  }
  return row[n_a % 3][n_b];
}

bool tri_ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);

  return n >= m && !strcmp(text + n - m, end);
}

const char *tri_nearest_within(int edits, const char *name, const char *const *known, int n_known) {
  const char *best = NULL;
  int         best_distance = edits + 1;

  for (int i = 0; i < n_known; i++) {
    int d = edit_distance(name, known[i]);
    if (d < best_distance) {
      best = known[i];
      best_distance = d;
    }
  }
  return best;
}

const char *tri_nearest(const char *name, const char *const *known, int n_known) {
  int n = (int)strlen(name), limit = n / 3;

  if (limit < 2) limit = n < 4 ? n / 2 : 2; /* of three letters 2 edits make another word */
  return tri_nearest_within(limit, name, known, n_known);
}
