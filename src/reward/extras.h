/* extras.h - further numbers of a reply, by name: they become metrics. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_EXTRAS_H
#define TRI_EXTRAS_H

#include "reward/work_queue/work_queue.h"

#include <jansson.h>

enum { TRI_EXTRAS_WHY_BYTES = 160 };
/* A reply to n answers; which of its members are no extras. */
typedef struct tri_extras_reply {
  const json_t      *object;
  const char *const *own; /* ended by NULL */
  int                n;
  bool               lists; /* a list of n numbers has one for each answer */
} tri_extras_reply;

/* Not collective. The numbers of a reply, true and false as 1 and 0, for each of its n answers: members of
 * the object itself and of its `extra_logs`. Other kinds of values, null, and numbers whose name could be no
 * metric's are passed over in the object itself, but for null refused in extra_logs. A name begins with a
 * letter and has letters, digits, "_", "-" and ".", at most 32; "mean" is none. A number is one that a float
 * holds, as a reward: their sum stays finite. false: something is refused, and why names it. */
TRI_CHECKED bool tri_extras_read(const tri_extras_reply *r, tri_extras *out, char why[TRI_EXTRAS_WHY_BYTES]);

#endif
