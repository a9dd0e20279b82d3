/* notice.h - warnings and verdicts for machines. Each has a code and numbers and goes to one listener. Not
 * collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_NOTICE_H
#define TRI_NOTICE_H

#include <stdbool.h>
#include <stdint.h>

enum { TRI_NOTICE_NUMBERS = 8 }; /* chosen: the most numbers of a notice */

typedef struct tri_notice_number {
  const char *name;
  double      value; /* not finite: unknown */
} tri_notice_number;

typedef enum {
  TRI_NOTICE_WARNING, /* a problem, but the run goes on */
  TRI_NOTICE_VERDICT  /* a rank died or hangs, and the run ends */
} tri_notice_kind;

/* All pointers are borrowed for the call. */
typedef struct tri_notice {
  tri_notice_kind   kind;
  const char       *code; /* one word: "kl_jump". A verdict has its cause: "died" */
  const char       *of;   /* the subject if there are several, such as a reward's name. NULL: none */
  const char       *text; /* for people, visible (visible.h). It may have several lines */
  int64_t           step; /* -1: the listener knows the step of the run */
  tri_notice_number number[TRI_NOTICE_NUMBERS];
  int               n_number;
  bool              urgent; /* from a thread that must not wait for a lock, since the main thread may hang */
  int               rank;   /* verdicts only: the culprit. -1: none, all ranks have come */
  const char       *node;   /* verdicts only: the culprit's host. NULL: none */
} tri_notice;

/* From here on, every notice of this process is passed to `listen`, in the thread that made it. NULL: to
 * nobody. */
void tri_notice_listen(void (*listen)(void *ctx, const tri_notice *notice), void *ctx);
/* Not collective, any thread. Passes the notice to the listener without logging it. */
void tri_notice_give(const tri_notice *notice);

/* As tri_log(TRI_LOG_WARN, ...), with a code for machines. A warning of tri_log itself has the code
 * "warning". */
void tri_warn(const char *code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* As tri_log_narrow(TRI_LOG_WARN, ...), with a code. */
void tri_warn_narrow(const char *code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* As tri_log_lines(TRI_LOG_WARN, text), with a code. */
void tri_warn_lines(const char *code, const char *text);
/* As tri_warn, with all members of *like except its text: numbers, subject, step. */
void tri_warn_like(const tri_notice *like, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Logs notice->text as a warning and passes the notice on. */
void tri_warn_notice(const tri_notice *notice);

#endif
