/* clock.h - the monotonic clock and the time since 1970. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CLOCK_H
#define TRI_CLOCK_H

double tri_now_s(void);  /* monotonic clock, seconds */
double tri_unix_s(void); /* seconds since 1970, to the millisecond */

#endif
