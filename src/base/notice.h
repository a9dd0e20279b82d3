/* notice.h - warnings and verdicts for machines: each with a code and numbers, handed to one listener. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_NOTICE_H
#define TRI_NOTICE_H

#include <stdbool.h>
#include <stdint.h>

enum { TRI_NOTICE_NUMBERS = 8 }; /* of a notice at most; chosen */

typedef struct tri_notice_number {
  const char *name;
  double      value; /* not finite: not known */
} tri_notice_number;

typedef enum {
  TRI_NOTICE_WARNING, /* something is wrong, and the run goes on */
  TRI_NOTICE_VERDICT  /* a rank died or hangs, and the run ends */
} tri_notice_kind;

/* All pointers are borrowed for the call. */
typedef struct tri_notice {
  tri_notice_kind   kind;
  const char       *code; /* one word: "kl_jump"; of a verdict its cause: "died" */
  const char       *of;   /* what it is about where there are several: a reward's name; NULL: nothing */
  const char       *text; /* for people, visible (visible.h); may have several lines */
  int64_t           step; /* -1: the listener knows which step the run is in */
  tri_notice_number number[TRI_NOTICE_NUMBERS];
  int               n_number;
  bool              urgent; /* of a thread that must not wait for a lock: the main thread may hang */
  int               rank;   /* of a verdict: the rank that is meant; -1: none, all have come */
  const char       *node;   /* of a verdict: that rank's host; NULL: none */
} tri_notice;

/* Not collective. From here on each notice of this process is handed to `listen`, in the thread that made it;
 * NULL: to nobody. */
void tri_notice_listen(void (*listen)(void *ctx, const tri_notice *notice), void *ctx);
/* Not collective, any thread. Hands the notice to the listener, and logs nothing. */
void tri_notice_give(const tri_notice *notice);

/* Not collective. As tri_log(TRI_LOG_WARN, ...), with a code for machines. A warning of tri_log itself has
 * the code "warning". */
void tri_warn(const char *code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Not collective. As tri_log_narrow(TRI_LOG_WARN, ...), with a code. */
void tri_warn_narrow(const char *code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Not collective. As tri_log_lines(TRI_LOG_WARN, text), with a code. */
void tri_warn_lines(const char *code, const char *text);
/* Not collective. As tri_warn, with all of *like but its text: numbers, what it is about, its step. */
void tri_warn_like(const tri_notice *like, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Not collective. Logs notice->text as a warning, and hands the notice on. */
void tri_warn_notice(const tri_notice *notice);

#endif
