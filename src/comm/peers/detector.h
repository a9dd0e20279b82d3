/* detector.h - what heartbeats and their times mean: who is dead, silent, late, slow; and the words for
 * it. No clock, no thread, no network. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DETECTOR_H
#define TRI_DETECTOR_H

#include "base/text_buffer.h"
#include "rank_info.h"

/* What the detecting rank knows of a rank. Times are of its own clock, which stands still while it does
 * not run itself. */
typedef struct tri_seen {
  tri_heartbeat heartbeat;
  double        news_s; /* when it last showed life */
  double        dead_s; /* since when its process is known to be gone; below 0: it is not */
  bool          known;  /* it was heard of once */
  bool     starved; /* it is gone, and the kernel killed a process of its control group for want of memory */
  bool     mute;    /* no heartbeat can be expected of it: that it is silent says nothing */
  uint32_t judged;  /* the window of the last look for slow ranks */
} tri_seen;

typedef struct tri_limits {
  double silent_s; /* so long without a sign, while others wait as long */
  double late_s;   /* so long in one collective */
  double dead_s;   /* after which a death is said: a launcher that kills all has done so by then */
} tri_limits;

/* The graver the later; NOTHING first. */
typedef enum { TRI_VERDICT_NOTHING, TRI_VERDICT_LATE, TRI_VERDICT_SILENT, TRI_VERDICT_DEAD } tri_verdict_kind;

typedef struct tri_verdict {
  tri_verdict_kind kind;
  int    culprit; /* the lowest rank of those meant; TRI_RANK_INFO_NOTHING: all have come, and it hangs */
  int    waiter;  /* who waits longest for it; TRI_RANK_INFO_NOTHING: nobody does yet */
  double since_s; /* without a sign, or waiting */
} tri_verdict;

/* Pure, all that follow. info and seen [n], by rank. */

/* A collective that all ranks have come to is a sign of life of each, whatever became of its heartbeats. */
void        tri_peers_meet(tri_seen *seen, int n, double now_s);
tri_verdict tri_peers_detect(const tri_rank_info *info, const tri_seen *seen, int n, const tri_limits *limit,
                             double now_s);
/* Whether rank is one of those that the verdict means. */
bool tri_peers_means(const tri_rank_info *info, const tri_seen *seen, const tri_limits *limit, double now_s,
                     const tri_verdict *v, int rank);
/* Is `other` one of the ranks of this scope, of which `rank` is one? */
bool tri_peers_share(const tri_rank_info *info, int scope, int rank, int other);

/* The cause in a word, for machines: "died", "out_of_memory" where the kernel killed one of them, "silent",
 * "late", or "hangs": all have come. Of a verdict that is one. */
const char *tri_peers_cause(const tri_rank_info *info, const tri_seen *seen, int n, const tri_limits *limit,
                            double now_s, const tri_verdict *v);

/* The verdict in lines, for people: who, where and why in the first; in what, who has come, who has not, and
 * what to do in those that follow. */
TRI_CHECKED tri_status tri_peers_words(const tri_rank_info *info, const tri_seen *seen, int n,
                                       const tri_limits *limit, double now_s, const tri_verdict *v,
                                       tri_text *out);
/* "rank 3 (task 1) on n2, cpu". */
TRI_CHECKED tri_status tri_peers_name(const tri_rank_info *info, tri_text *out);
/* "0-2, 5", at most so many ranges, of the ranks for which is() holds. */
TRI_CHECKED tri_status tri_peers_ranks(int n, bool (*is)(const void *ctx, int rank), const void *ctx,
                                       tri_text *out);

/* Work is compared over so many seconds of phases that give all ranks the same share. Specified:
 * interface. */
#define TRI_SLOW_WINDOW_S 5.0
/* A rank that worked more than twice the median's time, and half of the window, in its last one, where
 * that was not looked at before; or TRI_RANK_INFO_NOTHING. At least two ranks must have ended one. *times:
 * over the median. */
int tri_peers_slow(tri_seen *seen, int n, double *times);

#endif
