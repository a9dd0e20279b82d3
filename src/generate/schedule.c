/* schedule.c - who is decoded, who waits, and who gives its pages up. Pure arithmetic on counts. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "schedule.h"

int tri_schedule_next(const tri_seat *seat, int n, int rows_free, int64_t pages_free, int64_t reserve) {
  int next = -1;

  for (int i = 0; i < n; i++)
    if (seat[i].state == TRI_REQUEST_QUEUED && (next < 0 || seat[i].order < seat[next].order)) next = i;
  if (next < 0 || rows_free <= 0 || seat[next].pages + reserve > pages_free) return -1;
  return next;
}

static bool gains(const tri_seat *s, tri_request_state state) {
  return s->state == state && (state == TRI_REQUEST_RUNS || s->pages > 0);
}

/* Returns the youngest seat in this state that may give up, or -1. */
static int youngest(const tri_seat *seat, int n, int oldest, tri_request_state state) {
  int best = -1;

  for (int i = 0; i < n; i++)
    if (i != oldest && gains(&seat[i], state) && (best < 0 || seat[i].order > seat[best].order)) best = i;
  return best;
}

int tri_schedule_victim(const tri_seat *seat, int n) {
  int oldest = -1, parked;

  for (int i = 0; i < n; i++)
    if (seat[i].state != TRI_REQUEST_DONE && (oldest < 0 || seat[i].order < seat[oldest].order)) oldest = i;
  parked = youngest(seat, n, oldest, TRI_REQUEST_PARKED);
  return parked >= 0 ? parked : youngest(seat, n, oldest, TRI_REQUEST_RUNS);
}
