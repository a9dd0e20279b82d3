/* desk.h - questions to a thread of their own, which answers them while the caller does other work. The main
 * thread puts questions and waits for their answers; the clerk, a thread of the desk, takes them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DESK_H
#define TRI_DESK_H

#include "base/mask.h"

enum { TRI_DESK_WHY_BYTES = 1024 }; /* chosen: a few sentences */

/* Chosen: metrics of some sixteen rewards fit into a line (report/metrics.h), and so does each name with what
 * stands around it. */
enum { TRI_EXTRAS_MOST = 16, TRI_EXTRA_NAME_BYTES = 33 };
/* A further number of an answer's reply. */
typedef struct tri_extra {
  char   name[TRI_EXTRA_NAME_BYTES];
  double value;
} tri_extra;
/* All of them, in the order of their names. */
typedef struct tri_extras {
  int       n;
  tri_extra at[TRI_EXTRAS_MOST];
} tri_extras;

typedef struct tri_desk tri_desk;

/* One question. All but the last two is only read, from tri_desk_take to its answer. */
typedef struct tri_question {
  int64_t id;     /* of no other question of the desk */
  int     number; /* the answer's, as the caller counts */
  void   *text;   /* what is asked, by the caller; freed by tri_desk_opt.free_text */
  int     tries;  /* the clerk's own, 0 at first */
  double  when_s; /* the same */
} tri_question;

typedef struct tri_desk_opt {
  const char *name; /* of the reward, for the log */
  /* In the clerk's thread: once, before all else; may be NULL. What it returns, with its message,
   * tri_desk_open returns. */
  tri_status (*begin)(void *ctx);
  /* In the clerk's thread: answers questions until tri_desk_take says that the desk closes. */
  void (*work)(void *ctx, tri_desk *d);
  /* In the clerk's thread: once, at the end, where begin succeeded. */
  void (*end)(void *ctx);
  void (*free_text)(void *text);
  void              *ctx;
  const tri_secrets *secrets; /* masked in what the worker says and in causes of failures; NULL: none */
  bool               hasty;   /* one failure ends tri_desk_collect: the others are given up */
  /* The rewards are tried: no failure ends tri_desk_collect, replies of failures are kept, and all that is
   * said on the side is shown. */
  bool trial;
} tri_desk_opt;

/* What became of a question; all is borrowed. */
typedef struct tri_desk_result {
  int         number;
  float       score;    /* NAN: it failed */
  double      seconds;  /* since the question was put, or the answer before it came */
  bool        is_first; /* of all that the desk was asked: its seconds have the start of whoever answers */
  const char *why;      /* it failed; NULL: it did not */
  const tri_extras *extras; /* NULL: none */
  const void       *text;   /* the question's */
  const char       *reply;  /* [reply_bytes] secrets masked; in a trial, of a failure; NULL: there was none */
  size_t            reply_bytes;
} tri_desk_result;
/* Who is told of each question that ended, in the order of their numbers. It must not call the desk. */
typedef struct tri_desk_listener {
  void (*told)(void *ctx, const tri_desk_result *r);
  void *ctx;
} tri_desk_listener;

/* Not collective, as all that follow. The clerk begins; it gets no signals. */
TRI_CHECKED tri_status tri_desk_open(const tri_desk_opt *o, tri_desk **out);
/* Open questions are given up. Waits for the clerk's end. */
void tri_desk_close(tri_desk **d);
/* That of the next question. */
int64_t tri_desk_next_id(const tri_desk *d);
/* Takes over text, also where it fails. Does not wait. */
TRI_CHECKED tri_status tri_desk_put(tri_desk *d, int number, void *text);
/* Waits until collect would not, at most so long; false: it still would. */
bool tri_desk_await(tri_desk *d, double most_s);
/* Waits until all are answered, and forgets them. TRI_EREWARD: the clerk ended the service; in a trial all
 * that is open has failed then. score [n]: of those put, by number; NAN: it failed, and of the lowest number
 * that did *failed and why tell; *failed < 0: none. listener: NULL: nobody listens. */
TRI_CHECKED tri_status tri_desk_collect(tri_desk *d, int n, float *score, int *failed,
                                        char why[TRI_DESK_WHY_BYTES], const tri_desk_listener *listener);
/* Not collective. How often the clerk began anew since the last call. */
int64_t tri_desk_restarts(tri_desk *d);
/* Gives up what is open; returns when the clerk has heard of it. */
void tri_desk_forget(tri_desk *d);

/* The clerk's. What there is to do now: the next question, NULL where there is none. */
typedef enum {
  TRI_DESK_WORK,
  TRI_DESK_FORGET, /* drop every question that was taken: they are gone with the next call of take */
  TRI_DESK_CLOSE   /* the same, and end */
} tri_desk_order;
tri_desk_order tri_desk_take(tri_desk *d, tri_question **next);
/* Whether the main thread waits for answers and all questions were taken: no more come before then. */
bool tri_desk_is_awaited(tri_desk *d);
/* A file that can be read when take has something new or the main thread begins to wait; take empties it. */
int tri_desk_bell(const tri_desk *d);
/* The answer to a question that was taken, which is the clerk's no more. Not finite: a failure, which says
 * that. */
void tri_desk_answer(tri_desk *d, tri_question *q, double score);
/* The same with the further numbers of its reply. */
void tri_desk_answer_more(tri_desk *d, tri_question *q, double score, const tri_extras *extras);
/* Before its failure: what came in reply, kept in a trial. */
void tri_desk_keep_reply(tri_desk *d, tri_question *q, const char *reply, size_t n);
void tri_desk_fail(tri_desk *d, tri_question *q, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Who answers died, and was started again: counted, and the first time, and at the end if it was several
 * times, a warning with the reason. */
void tri_desk_restarted(tri_desk *d, const char *why);
/* There will be no answers any more, whatever on_error says: tri_desk_collect fails with this message. */
void tri_desk_end_service(tri_desk *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Lines for the log, which the next call of the main thread writes there; bounded, what is more is dropped
 * and counted, but in a trial. */
void tri_desk_say(tri_desk *d, const char *line, size_t n);

#endif
