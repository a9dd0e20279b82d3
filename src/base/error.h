/* error.h - status codes, the error trace, assertions. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ERROR_H
#define TRI_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, text, process exit code). Exit codes follow sysexits.h if one fits. */
/* clang-format off */
#define TRI_STATUS_LIST(X)                                                                                \
  X(TRI_OK,        "ok",                    0)                                                            \
  X(TRI_EARG,      "bad argument",          64) /* the caller's mistake, or a bad command line */         \
  X(TRI_ECONFIG,   "bad input deck",        64) /* the user's error */                                    \
  X(TRI_EINPUT,    "bad input",             64) /* a data, model or tokenizer file that cannot be used */ \
  X(TRI_EFILE,     "file error",            74) /* reading or writing failed */                           \
  X(TRI_EFORMAT,   "damaged file",          74) /* a checkpoint with other bytes than were written */     \
  X(TRI_ENOMEM,    "out of memory",         69)                                                           \
  X(TRI_EABSENT,   "not in this build",     69)                                                           \
  X(TRI_EDEVICE,   "device error",          69)                                                           \
  X(TRI_EREWARD,   "reward failed",         69) /* a reward program of the user */                        \
  X(TRI_ECOMM,     "communication error",   76)                                                           \
  X(TRI_ENUMERIC,  "not a finite number",   70)                                                           \
  X(TRI_EINTERNAL, "internal error",        70)
/* clang-format on */
#define TRI_X(name, text, code) name,
typedef enum { TRI_STATUS_LIST(TRI_X) TRI_STATUS_COUNT } tri_status;
#undef TRI_X

const char *tri_status_text(tri_status st);
int         tri_status_exit_code(tri_status st);
/* One word for machines, such as "config" for TRI_ECONFIG. */
const char *tri_status_word(tri_status st);

#define TRI_CHECKED __attribute__((warn_unused_result))

/* Appends one line to this thread's error trace and returns `st`. The arguments are made visible (visible.h),
 * so no file, deck or answer can add a line of its own. Newlines of fmt itself stay. Not collective. */
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

/* The first line of the trace is the message for the user. It is "" without an error. The rest of the
 * trace tells the places in the program. Both are valid until the next tri_fail or tri_error_clear of this
 * thread. */
const char *tri_error_message(void);
const char *tri_error_trace(void);
void        tri_error_clear(void);
/* Returns st. For an error of a file (TRI_EINPUT, TRI_EFILE, TRI_EFORMAT), appends " (what)" to the first
 * line of its message, unless the message contains it already. `what` may be the deck's key of the file. */
TRI_CHECKED tri_status tri_error_about(tri_status st, const char *what);
/* Returns st. If it is an error, puts "where: " before its message, for example the deck's line. */
TRI_CHECKED tri_status tri_error_at(tri_status st, const char *where);
/* Appends lines made by this program to the message. Newlines stay, and all else is made visible. */
void tri_error_lines(const char *text);
/* Replaces the message and drops the trace, for an error found by another rank. */
void tri_error_set(tri_status st, const char *message);

/* Chosen: each holds a screen of text. */
enum { TRI_ERROR_MESSAGE_BYTES = 4096, TRI_ERROR_TRACE_BYTES = 4096 };
/* A copy of this thread's error, message and trace, to be restored later or in another process. */
typedef struct tri_error_kept {
  char message[TRI_ERROR_MESSAGE_BYTES], trace[TRI_ERROR_TRACE_BYTES];
} tri_error_kept;
void tri_error_keep(tri_error_kept *out);
void tri_error_put_back(const tri_error_kept *kept);

/* For mistakes in this program. Stays on in release builds. Prints a message and aborts. */
void tri_assert_failed(const char *file, int line, const char *what) __attribute__((noreturn));
#define TRI_ASSERT(x) ((x) ? (void)0 : tri_assert_failed(__FILE__, __LINE__, #x))

#endif
