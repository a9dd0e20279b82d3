/* detector.h - the failure detector: finds dead, silent, late and slow ranks from heartbeats, and describes
 * them. It uses no clock, thread or network. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DETECTOR_H
#define TRI_DETECTOR_H

#include "base/text_buffer.h"
#include "rank_info.h"

/* One rank as seen by the detecting rank. Times are of the detecting rank's own clock, which stops while its
 * process does not run. */
typedef struct tri_seen {
  tri_heartbeat heartbeat;
  double        news_s; /* the last sign of life */
  double        came_s; /* since when its heartbeats name the same newest collectives */
  double        dead_s; /* since when its process is known to be dead. Below 0: it lives */
  bool          known;  /* it was heard at least once */
  /* It is dead, and the kernel killed a process of its control group for lack of memory. */
  bool starved;
  /* No heartbeat can be expected from it, so its silence proves nothing. */
  bool     mute;
  uint32_t judged; /* the last window tested for slow ranks */
} tri_seen;

typedef struct tri_limits {
  /* Seconds without a sign of life, while others wait as long. */
  double silent_s;
  double late_s; /* seconds in one collective, or of silence while no other rank comes to a collective */
  /* Seconds from a death to its verdict. A launcher that kills all ranks has done so by then. */
  double dead_s;
} tri_limits;

/* Graver verdicts have larger values. */
typedef enum { TRI_VERDICT_NOTHING, TRI_VERDICT_LATE, TRI_VERDICT_SILENT, TRI_VERDICT_DEAD } tri_verdict_kind;

typedef struct tri_verdict {
  tri_verdict_kind kind;
  /* The lowest culprit. TRI_RANK_INFO_NOTHING: all ranks have come, and the collective hangs. */
  int culprit;
  /* The rank that waits longest for the culprit. TRI_RANK_INFO_NOTHING: no wait for it is recorded. */
  int    waiter;
  double since_s; /* seconds without a sign of life, or of waiting */
} tri_verdict;

/* Pure, all that follow. info [n] and seen [n] are indexed by rank. */

/* Enters that the rank has come to this collective of the world. False: its heartbeat says so already. */
bool tri_peers_raise(tri_heartbeat *b, uint64_t number);
/* Stores a new heartbeat. A rank that came to a collective since the last one gets a new came_s. */
void tri_peers_hear(tri_seen *s, const tri_heartbeat *b, double now_s);
/* Counts a collective reached by all ranks as a sign of life of each rank, even if its heartbeats were
 * lost. */
void        tri_peers_meet(tri_seen *seen, int n, double now_s);
tri_verdict tri_peers_detect(const tri_rank_info *info, const tri_seen *seen, int n, const tri_limits *limit,
                             double now_s);
/* True if the verdict blames this rank. */
bool tri_peers_means(const tri_rank_info *info, const tri_seen *seen, const tri_limits *limit, double now_s,
                     const tri_verdict *v, int rank);
/* True if `rank` and `other` are in the same scope. */
bool tri_peers_share(const tri_rank_info *info, int scope, int rank, int other);

/* The cause as one word for machines: "died", "out_of_memory" if the kernel killed a culprit, "silent",
 * "late", or "hangs" if all ranks have come. v must not be NOTHING. */
const char *tri_peers_cause(const tri_rank_info *info, const tri_seen *seen, int n, const tri_limits *limit,
                            double now_s, const tri_verdict *v);

/* Describes the verdict in lines for people. The first line names the culprit, its place and the reason. The
 * others name the collective, the ranks in it, the missing ranks, and the cure. */
TRI_CHECKED tri_status tri_peers_words(const tri_rank_info *info, const tri_seen *seen, int n,
                                       const tri_limits *limit, double now_s, const tri_verdict *v,
                                       tri_text *out);
/* Appends a rank's name, such as "rank 3 (task 1) on n2, cpu". */
TRI_CHECKED tri_status tri_peers_name(const tri_rank_info *info, tri_text *out);
/* Appends the ranks for which is() is true, such as "0-2, 5". The number of ranges is limited. */
TRI_CHECKED tri_status tri_peers_ranks(int n, bool (*is)(const void *ctx, int rank), const void *ctx,
                                       tri_text *out);

/* Seconds over which the work of ranks is compared. Only phases with equal work for all ranks count.
 * Specified: interface. */
#define TRI_SLOW_WINDOW_S 5.0
/* Returns a slow rank or TRI_RANK_INFO_NOTHING. In its last window, a slow rank worked more than twice the
 * median time and more than half of the window. Each window is tested once. At least two ranks must have
 * completed one. *times is its work over the median. */
int tri_peers_slow(tri_seen *seen, int n, double *times);

#endif
