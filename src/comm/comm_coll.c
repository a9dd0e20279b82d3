/* comm_coll.c - a collective in words, for messages and traces. */
#include "comm_host.h"

const char *tri_scope_text(tri_scope s) {
  static const char *const text[] = {"world", "node", "cross"};
  return (unsigned)s < TRI_SCOPE_COUNT ? text[s] : "?";
}

const char *tri_coll_text(tri_coll_kind k) {
  static const char *const text[] = {"all_gather", "reduce_scatter", "all_reduce", "broadcast"};
  return text[k];
}

tri_lane tri_coll_lane(tri_coll_kind k) {
  return k == TRI_ALL_GATHER || k == TRI_BROADCAST ? TRI_LANE_GATHER : TRI_LANE_REDUCE;
}

tri_trace_note tri_coll_note(tri_trace *t, const tri_comm *c, const tri_coll *k) {
  tri_trace_note note = tri_trace_carried(t);
  bool           pieces = k->kind == TRI_ALL_GATHER || k->kind == TRI_REDUCE_SCATTER;

  if (!t) return note;
  if (!note.what) note.what = tri_coll_text(k->kind);
  note.bytes = k->count * (int64_t)tri_dtype_bytes(k->dtype) * (pieces ? c->size : 1);
  return note;
}
