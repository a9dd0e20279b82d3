/* extras.h - extra numbers of a reply, by name. They become metrics. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_EXTRAS_H
#define TRI_EXTRAS_H

#include "reward/work_queue/work_queue.h"

#include <jansson.h>

enum { TRI_EXTRAS_WHY_BYTES = 160 };
/* A reply to n answers. `own` names the members that are not extras. */
typedef struct tri_extras_reply {
  const json_t      *object;
  const char *const *own; /* ends with NULL */
  int                n;
  bool               lists; /* a list of n numbers has one number for each answer */
} tri_extras_reply;

/* Not collective. Reads the extra numbers of a reply for each of its n answers, with true and false as 1 and
 * 0. They are members of the object and of its `extra_logs`. In the object, other types and names unfit for a
 * metric are ignored. In extra_logs they are refused, except null. A name begins with a letter and has
 * letters, digits, "_", "-" and ".", at most 32. "mean" is not a legal name. A number must be finite as a
 * float, as a reward must, so that sums stay finite. Returns false if something is refused, and names it in
 * `why`. */
TRI_CHECKED bool tri_extras_read(const tri_extras_reply *r, tri_extras *out, char why[TRI_EXTRAS_WHY_BYTES]);

#endif
