/* schedule.h - who is decoded, who waits, and who gives its pages up. Pure arithmetic on counts. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SCHEDULE_H
#define TRI_SCHEDULE_H

#include "request.h"

/* A holder of pages, or an answer that waits for some. Answers take pages of the cache as they grow, so the
 * cache may be smaller than all of them at full length.
 *
 * The rule has three parts. The oldest waiting answer starts first, and no younger one overtakes it. When an
 * answer that runs needs a page and none is free, the youngest holder gives up all its pages and waits again.
 * The oldest never gives up.
 *
 * So the answers that run are always the oldest ones, and a waiting answer is younger than all of them. The
 * cache holds at least one answer of full length with its prompt. The oldest answer can therefore always
 * start, and it can always take its next page after all others have given up. Each step brings it one token
 * closer to its end, so it ends, and the next one is the oldest. No answer waits forever. */
typedef struct tri_seat {
  int64_t           order; /* order of arrival, different for all. The smallest is the oldest */
  int64_t           pages; /* pages it needs to start if it is QUEUED, else pages that only it holds */
  tri_request_state state;
} tri_seat;

/* Pure. Returns the oldest QUEUED seat if it may start, else -1. It needs a free row and its pages. `reserve`
 * free pages stay for the answers that run, one for each that may grow. Else a start would soon cost another
 * answer its pages. */
int tri_schedule_next(const tri_seat *seat, int n, int rows_free, int64_t pages_free, int64_t reserve);
/* Pure. Returns the seat that gives its pages up, or -1 if there is none. It is the youngest PARKED one that
 * holds a page alone, because no step waits for it. Without such a seat it is the youngest that RUNS. It is
 * never the oldest seat of all, in whatever state that is. */
int tri_schedule_victim(const tri_seat *seat, int n);

#endif
