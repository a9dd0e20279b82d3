/* base.h - status codes, the error trace, host memory, text, clocks, log levels, the program's name. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BASE_H
#define TRI_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* argv[0] as it was typed: what starts this program again in the same shell. Borrowed; "trireme" until it is
 * set. */
void        tri_program_set(const char *argv0);
const char *tri_program(void);

/* X(name, text, process exit code) - exit codes as in sysexits.h where they fit. */
/* clang-format off */
#define TRI_STATUS_LIST(X)                                                                    \
  X(TRI_OK,        "ok",                    0)                                                \
  X(TRI_EARG,      "bad argument",          64) /* the caller's mistake, or a bad command line */ \
  X(TRI_ECONFIG,   "bad input deck",        64) /* the user's mistake */                      \
  X(TRI_EINPUT,    "bad input",             64) /* a data, model or tokenizer file that cannot be used */ \
  X(TRI_EFILE,     "file error",            74) /* reading or writing failed */               \
  X(TRI_EFORMAT,   "damaged file",          74) /* a checkpoint whose bytes are not what was written */ \
  X(TRI_ENOMEM,    "out of memory",         69)                                               \
  X(TRI_EABSENT,   "not in this build",     69)                                               \
  X(TRI_EDEVICE,   "device error",          69)                                               \
  X(TRI_EREWARD,   "reward failed",         69) /* a program of the user beside this one */    \
  X(TRI_ECOMM,     "communication error",   76)                                               \
  X(TRI_ENUMERIC,  "not a finite number",   70)                                               \
  X(TRI_EINTERNAL, "internal error",        70)
/* clang-format on */
#define TRI_X(name, text, code) name,
typedef enum { TRI_STATUS_LIST(TRI_X) TRI_STATUS_COUNT } tri_status;
#undef TRI_X

const char *tri_status_text(tri_status st);
int         tri_status_exit_code(tri_status st);
/* One word for machines: "config" of TRI_ECONFIG. */
const char *tri_status_word(tri_status st);

#define TRI_CHECKED __attribute__((warn_unused_result))

/* Append one line to this thread's error trace and hand `st` back. What the arguments hold is made visible
 * (visible.h): no file, deck or answer can write a line of its own; newlines of fmt itself stay. Not
 * collective. */
tri_status tri_fail(const char *file, int line, const char *func, tri_status st, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
#define TRI_FAIL(st, ...) return tri_fail(__FILE__, __LINE__, __func__, (st), __VA_ARGS__)
#define TRI_TRY(call)                                                                                        \
  do {                                                                                                       \
    tri_status try_ = (call);                                                                                \
    if (try_ != TRI_OK) return tri_fail(__FILE__, __LINE__, __func__, try_, "%s", #call);                    \
  } while (0)
/* As TRI_TRY, but sets the local `st` and jumps to `done:` to clean up. */
#define TRI_TRY_DONE(call)                                                                                   \
  do {                                                                                                       \
    if ((st = (call)) != TRI_OK) {                                                                           \
      tri_fail(__FILE__, __LINE__, __func__, st, "%s", #call);                                               \
      goto done;                                                                                             \
    }                                                                                                        \
  } while (0)
/* As TRI_FAIL, but sets the local `st` and jumps to `done:`. */
#define TRI_FAIL_DONE(code, ...)                                                                             \
  do {                                                                                                       \
    st = tri_fail(__FILE__, __LINE__, __func__, (code), __VA_ARGS__);                                        \
    goto done;                                                                                               \
  } while (0)

/* The first line of the trace: what the user must read. "" when there is no error. The rest says where in
 * the program. Both are valid until the next tri_fail or tri_error_clear of this thread. */
const char *tri_error_message(void);
const char *tri_error_trace(void);
void        tri_error_clear(void);
/* Hands st back. Where it is an error, its message gains " (what)" at the end of its first line: the deck's
 * key that named the file, say. */
TRI_CHECKED tri_status tri_error_about(tri_status st, const char *what);
/* Hands st back. Where it is an error, its message begins with "where: ": the deck's line, say. */
TRI_CHECKED tri_status tri_error_at(tri_status st, const char *where);
/* Add to the message lines that this program made: newlines stay, all else is made visible. */
void tri_error_lines(const char *text);
/* Replace the message, keeping nothing of the trace: for an error that another rank found. */
void tri_error_set(tri_status st, const char *message);

/* Sizes: chosen, a screen of text each. */
enum { TRI_ERROR_MESSAGE_BYTES = 4096, TRI_ERROR_TRACE_BYTES = 4096 };
/* This thread's error as it stands, message and trace, to be put back later or in another process. */
typedef struct tri_error_kept {
  char message[TRI_ERROR_MESSAGE_BYTES], trace[TRI_ERROR_TRACE_BYTES];
} tri_error_kept;
void tri_error_keep(tri_error_kept *out);
void tri_error_put_back(const tri_error_kept *kept);

/* Our own mistakes; stays on in release builds. Prints and aborts. */
void tri_assert_failed(const char *file, int line, const char *what) __attribute__((noreturn));
#define TRI_ASSERT(x) ((x) ? (void)0 : tri_assert_failed(__FILE__, __LINE__, #x))

/* Checked host allocation: zeroed, 64-byte aligned, counted. n * size must not overflow. *out is NULL on
 * failure. tri_host_free accepts NULL and leaves *p NULL. Not collective. */
TRI_CHECKED tri_status tri_host_alloc(size_t n, size_t size, void **out);
void                   tri_host_free(void **p);
int64_t                tri_host_bytes(void); /* bytes held now through tri_host_alloc and tri_pages_alloc */
#define TRI_ALLOC(ptr, n) tri_host_alloc((size_t)(n), sizeof *(ptr), (void **)&(ptr))
#define TRI_FREE(ptr)     tri_host_free((void **)&(ptr))
/* Space for `need` elements of `size` bytes in *p, a checked allocation (or NULL) that has space for *cap: at
 * least twice as many where it has not. What lies there stays. Not collective. */
TRI_CHECKED tri_status tri_grow(void **p, int64_t *cap, int64_t need, size_t size);
#define TRI_GROW(ptr, cap, need) tri_grow((void **)&(ptr), &(cap), need, sizeof *(ptr))
/* Zeroed, 256-byte aligned, counted, for large rooms of which little may be needed: pages that are fresh are
 * taken as they are written. *out is NULL on failure. To be freed by tri_pages_free, which accepts NULL and
 * leaves *p NULL. Not collective. */
TRI_CHECKED tri_status tri_pages_alloc(size_t bytes, void **out);
void                   tri_pages_free(void **p);

/* A copy of the text; *out by tri_host_free. Not collective. */
TRI_CHECKED tri_status tri_copy_text(const char *text, char **out);

/* Growable text, for messages and JSON. Zero-initialise; tri_text_free leaves it zeroed. */
typedef struct tri_text {
  char  *data; /* NUL-terminated, or NULL while empty */
  size_t len, cap;
} tri_text;
TRI_CHECKED tri_status tri_text_put(tri_text *t, const char *bytes, size_t n);
TRI_CHECKED tri_status tri_text_printf(tri_text *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void tri_text_free(tri_text *t);

/* What is wrong with what the user gave, where all of it is looked for. Zero-initialise; the text is to be
 * freed. */
typedef struct tri_errors {
  tri_text   text;   /* each as its message and a newline; a message may have several lines */
  tri_text   trace;  /* where in the program each arose (tri_error_trace), one behind the other */
  int64_t    n;      /* a message may stand for several */
  tri_status st;     /* with the exit code of all, or TRI_ECONFIG where these differ */
  tri_text   unseen; /* what could not be looked at because of them, "data, memory" */
  unsigned   about;  /* bits of whoever notes them: which parts of a deck they are of (TRI_CONFIG_ABOUT_*) */
} tri_errors;
void tri_errors_free(tri_errors *errors);
/* Where `errors` is not NULL and st is an error of what the user gave: its message is added, the error is
 * cleared, and TRI_OK comes back, so that what is behind it is looked at too. Else st. Not collective. */
TRI_CHECKED tri_status tri_error_note(tri_status st, tri_errors *errors);
/* The list of all, without its last newline, as info, and where they arose as detail. Not collective. */
void tri_errors_say(tri_errors *errors);
/* Makes the only error the error again, with its trace, and hands its status back. Not collective. */
TRI_CHECKED tri_status tri_errors_fail(const tri_errors *errors);
/* Adds to errors->unseen, where `errors` is not NULL. Not collective. */
TRI_CHECKED tri_status tri_errors_miss(tri_errors *errors, const char *what);

/* Log levels by how much they may print. error and warn: any rank, once. info: rank 0, a few lines a phase.
 * detail: rank 0, tables and lists. debug: any rank. What is asked for goes to stderr, out of the way of the
 * live line (live.h), and, once tri_log_file was called, to that file too; detail to the file always. */
typedef enum { TRI_LOG_ERROR, TRI_LOG_WARN, TRI_LOG_INFO, TRI_LOG_DETAIL, TRI_LOG_DEBUG } tri_log_level;
void tri_log_open(int rank, tri_log_level level); /* what stderr shows; info and detail: rank 0 only */
/* Until tri_log_unmute stderr shows no more than `most`, whatever tri_log_open said. Not nested. */
void tri_log_mute(tri_log_level most);
void tri_log_unmute(void);
/* Whether this is rank 0, as far as the log knows. */
bool tri_log_is_first(void);
/* FILE *, borrowed; NULL to stop. What was logged before is kept (up to 64 KiB) and written to the first
 * file. */
void tri_log_file(void *file);
/* As tri_fail: of the newlines only those of fmt itself stay. tri_log_lines: all newlines of text stay, so it
 * must be one that this program made. Where stderr is a terminal, lines too long for it are broken at words
 * (not those that begin with just four spaces, commands to be typed); in pipes and in the file every line
 * stays whole. tri_log_table: as tri_log_lines, but nothing is broken. tri_log_narrow: as tri_log, broken at
 * 79 columns in pipes and in the file too. */
void tri_log(tri_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tri_log_narrow(tri_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tri_log_lines(tri_log_level level, const char *text);
void tri_log_table(tri_log_level level, const char *text);
/* One whole line with its newline, to stderr and the file, at once: no lock is waited for, no buffer kept. Of
 * any thread; of a run whose other threads may hang. */
void tri_log_urgent(const char *line);

double tri_now_s(void);  /* monotonic clock, seconds */
double tri_unix_s(void); /* seconds since 1970, to the millisecond */

/* Pure. Whether `text` ends with `end`. */
bool tri_ends_with(const char *text, const char *end);

/* The name of `known` nearest to `name` (edit distance, two neighbours swapped being one edit, at most a
 * third of its length, at least 2), or NULL. */
const char *tri_nearest(const char *name, const char *const *known, int n_known);
/* The same with at most so many edits. */
const char *tri_nearest_within(int edits, const char *name, const char *const *known, int n_known);

#endif
