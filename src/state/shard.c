/* shard.c - pure arithmetic of shard plans, with legal plans and ranges. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "shard.h"

const char *tri_shard_scope_name(tri_shard_scope s) {
  return s == TRI_SHARD_NONE ? "none" : s == TRI_SHARD_NODE ? "node" : "world";
}

tri_status tri_shard_plan_check(tri_shard_plan p) {
  if (p.params > p.grads)
    TRI_FAIL(
        TRI_ECONFIG,
        "shard.params: %s with shard.grads: %s is not a legal plan.\n"
        "  Gradients must be split at least as finely as the parameters (none < node < world). Otherwise "
        "each rank would keep gradients of weights it does not own.",
        tri_shard_scope_name(p.params), tri_shard_scope_name(p.grads));
  if (p.grads > p.optim)
    TRI_FAIL(TRI_ECONFIG,
             "shard.grads: %s with shard.optimizer: %s is not a legal plan.\n"
             "  The optimizer must be split at least as finely as the gradients (none < node < world). "
             "Otherwise gradients would have to be gathered again.",
             tri_shard_scope_name(p.grads), tri_shard_scope_name(p.optim));
  return TRI_OK;
}

tri_range tri_range_meet(tri_range a, tri_range b) {
  int64_t   end_a = a.begin + a.count, end_b = b.begin + b.count;
  tri_range r = {a.begin > b.begin ? a.begin : b.begin, 0};

  r.count = (end_a < end_b ? end_a : end_b) - r.begin;
  if (r.count < 0) r.count = 0;
  return r;
}
