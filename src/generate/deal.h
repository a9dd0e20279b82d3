/* deal.h - deals the prompts that are left to the ranks that want some. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DEAL_H
#define TRI_DEAL_H

#include <stdint.h>

/* Pure. Goes round the ranks, from rank `round % ranks` on, and gives one prompt to each rank that still
 * wants one. It ends when no rank wants more or all `left` prompts are given. want [ranks] and give [ranks].
 * A want below 0 counts as 0. The numbers depend on the arguments alone, so all ranks that heard the same
 * wants deal alike. */
void tri_deal(const int64_t *want, int ranks, int64_t round, int64_t left, int64_t *give);

#endif
