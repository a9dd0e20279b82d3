/* comm.c - scopes, the queue of pending collectives, and the control plane.
 *
 * Collectives on host memory go one of two ways: "shm" (comm_shm.c) after tri_comm_attach if all ranks of the
 * scope are on one machine, else "mpi" (comm_mpi.c). The environment variable TRI_COMM=mpi, meant for tests,
 * keeps every scope on "mpi"; comm->ops->name says which it is. */
#include "comm.h"
#include "comm_host.h"
#include "cpu/device_cpu.h"
#include "runtime.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_BYTES = 4096, BCAST_PIECE = 1 << 30, SUM_PIECE = 4096 }; /* bytes; chosen: below 2^31 */

static MPI_Comm mpi_of(const tri_comm *c) { return *(MPI_Comm *)c->mpi; }

const char *tri_scope_text(tri_scope s) {
  static const char *const text[] = {"world", "node", "cross"};
  return (unsigned)s < TRI_SCOPE_COUNT ? text[s] : "?";
}

const char *tri_coll_text(tri_coll_kind k) {
  static const char *const text[] = {"all_gather", "reduce_scatter", "all_reduce", "broadcast"};
  return text[k];
}

tri_status tri_mpi_fail(const char *file, int line, const char *func, int code, const char *call) {
  char text[MPI_MAX_ERROR_STRING + 1] = "";
  int  n = 0;

  MPI_Error_string(code, text, &n);
  return tri_fail(file, line, func, TRI_ECOMM, "MPI: %s (in %s)", text, call);
}

/* ---- the queue ---- */

static tri_status finish_up_to(tri_host_comm *h, uint64_t number) {
  while (h->finished < number) {
    uint64_t next = h->finished + 1;
    TRI_TRY(h->way->finish(h, &h->ring[next % TRI_RING], next));
    h->finished = next;
  }
  return TRI_OK;
}

static tri_status submit(tri_comm *c, tri_coll k, tri_req *req) {
  tri_host_comm *h = (tri_host_comm *)c;
  uint64_t       number;

  if (req) req->impl = NULL;
  TRI_ASSERT(k.count >= 0 && (unsigned)k.dtype < TRI_DTYPE_COUNT && k.root >= 0 && k.root < c->size);
  if (k.count == 0) return TRI_OK;
  if (c->size == 1) {
    if (k.send && k.send != k.recv)
      tri_cpu_copy_bytes(k.recv, k.send, (size_t)k.count * tri_dtype_bytes(k.dtype), h->threads);
    return TRI_OK;
  }
  if (h->started - h->finished == TRI_RING) TRI_TRY(finish_up_to(h, h->finished + 1));
  number = h->started + 1;
  h->ring[number % TRI_RING] = k;
  TRI_TRY(h->way->start(h, &h->ring[number % TRI_RING], number));
  h->started = number;
  if (!req) return finish_up_to(h, number);
  req->impl = (void *)(uintptr_t)number;
  return TRI_OK;
}

static tri_status host_all_gather(tri_comm *c, void *recv, const void *send, int64_t per_rank, tri_dtype t,
                                  tri_stream *s, tri_req *req) {
  (void)s;
  return submit(c, (tri_coll){TRI_ALL_GATHER, recv, send, per_rank, t, TRI_SUM, 0}, req);
}

static tri_status host_reduce_scatter(tri_comm *c, void *recv, const void *send, int64_t per_rank,
                                      tri_dtype t, tri_redop op, tri_stream *s, tri_req *req) {
  (void)s;
  return submit(c, (tri_coll){TRI_REDUCE_SCATTER, recv, send, per_rank, t, op, 0}, req);
}

static tri_status host_all_reduce(tri_comm *c, void *buf, int64_t count, tri_dtype t, tri_redop op,
                                  tri_stream *s, tri_req *req) {
  (void)s;
  return submit(c, (tri_coll){TRI_ALL_REDUCE, buf, NULL, count, t, op, 0}, req);
}

static tri_status host_broadcast(tri_comm *c, void *buf, int64_t count, tri_dtype t, int root, tri_stream *s,
                                 tri_req *req) {
  (void)s;
  return submit(c, (tri_coll){TRI_BROADCAST, buf, NULL, count, t, TRI_SUM, root}, req);
}

static tri_status host_wait(tri_comm *c, tri_req *req, tri_stream *s) {
  uint64_t number = (uint64_t)(uintptr_t)req->impl;

  (void)s;
  req->impl = NULL;
  return finish_up_to((tri_host_comm *)c, number);
}

static void host_close(tri_comm **c) {
  tri_host_comm *h = (tri_host_comm *)*c;

  if (!h) return;
  tri_shm_way_close(&h->shm);
  tri_mpi_way_close(&h->mpi);
  if (h->base.mpi) MPI_Comm_free((MPI_Comm *)h->base.mpi);
  TRI_FREE(h->base.mpi);
  TRI_FREE(h);
  *c = NULL;
}

static const tri_comm_ops mpi_ops = {"mpi",          host_all_gather, host_reduce_scatter, host_all_reduce,
                                     host_broadcast, host_wait,       host_close};
static const tri_comm_ops shm_ops = {"shm",          host_all_gather, host_reduce_scatter, host_all_reduce,
                                     host_broadcast, host_wait,       host_close};

/* ---- scopes ---- */

tri_status tri_comm_open(const tri_runtime *rt, tri_scope scope, tri_device *d, tri_comm **out) {
  tri_host_comm *h = NULL;
  tri_comm      *c = NULL;
  tri_status     st = TRI_OK;
  MPI_Comm       world = *(MPI_Comm *)rt->mpi_world;
  int            color = scope == TRI_NODE ? rt->node : scope == TRI_CROSS ? rt->local_rank : 0;

  *out = NULL;
  TRI_ASSERT((unsigned)scope < TRI_SCOPE_COUNT);
  if (strcmp(d->ops->name, "cpu"))
    TRI_FAIL(TRI_EABSENT, "no communicator in this build serves the memory of the device '%s'", d->ops->name);
  TRI_TRY_DONE(TRI_ALLOC(h, 1));
  c = &h->base;
  h->way = &tri_mpi_way_ops;
  h->threads = d->threads;
  c->ops = &mpi_ops;
  c->scope = scope;
  TRI_TRY_DONE(tri_host_alloc(1, sizeof(MPI_Comm), &c->mpi));
  *(MPI_Comm *)c->mpi = MPI_COMM_NULL;
  /* In a node the world numbers grow with the local rank, and across nodes with the node. */
  TRI_MPI_DONE(MPI_Comm_split(world, color, rt->world_rank, (MPI_Comm *)c->mpi));
  MPI_Comm_set_errhandler(mpi_of(c), MPI_ERRORS_RETURN);
  MPI_Comm_rank(mpi_of(c), &c->rank);
  MPI_Comm_size(mpi_of(c), &c->size);
  TRI_TRY_DONE(tri_mpi_way_open(h));
  *out = c;
done:
  if (st != TRI_OK && c) host_close(&c);
  return st;
}

void tri_comm_close(tri_comm **c) {
  if (*c) (*c)->ops->close(c);
}

tri_status tri_comm_attach(const tri_runtime *rt, tri_comm *const comm[TRI_SCOPE_COUNT], tri_device *d,
                           void *base, size_t bytes) {
  const char    *way = getenv("TRI_COMM");
  tri_host_comm *h[TRI_SCOPE_COUNT];
  bool           attached = false;

  for (int i = 0; i < TRI_SCOPE_COUNT; i++) {
    h[i] = (tri_host_comm *)comm[i];
    TRI_ASSERT(comm[i]->scope == (tri_scope)i && !h[i]->shm && h[i]->started == h[i]->finished);
  }
  TRI_TRY(tri_shm_way_attach(rt, h, d, base, bytes, !way || strcmp(way, "mpi"), &attached));
  for (int i = 0; attached && i < TRI_SCOPE_COUNT; i++)
    if (h[i]->shm) {
      h[i]->way = &tri_shm_way_ops;
      h[i]->base.ops = &shm_ops;
    }
  return TRI_OK;
}

/* ---- the control plane ---- */

tri_status tri_host_sum(tri_comm *c, double *x, int n) {
  double    *all = NULL;
  tri_status st = TRI_OK;
  int        piece = n < SUM_PIECE ? n : SUM_PIECE;

  TRI_TRY(TRI_ALLOC(all, (int64_t)piece * c->size));
  for (int begin = 0; begin < n; begin += piece) {
    int m = n - begin < piece ? n - begin : piece;
    TRI_MPI_DONE(MPI_Allgather(x + begin, m, MPI_DOUBLE, all, m, MPI_DOUBLE, mpi_of(c)));
    for (int i = 0; i < m; i++) {
      double sum = all[i];
      for (int r = 1; r < c->size; r++) sum += all[(size_t)r * m + i];
      x[begin + i] = sum;
    }
  }
done:
  TRI_FREE(all);
  return st;
}

tri_status tri_host_max(tri_comm *c, int64_t *x, int n) {
  TRI_MPI(MPI_Allreduce(MPI_IN_PLACE, x, n, MPI_INT64_T, MPI_MAX, mpi_of(c)));
  return TRI_OK;
}

tri_status tri_host_bcast(tri_comm *c, void *buf, size_t bytes, int root) {
  for (size_t begin = 0; begin < bytes; begin += BCAST_PIECE) {
    size_t n = bytes - begin < BCAST_PIECE ? bytes - begin : BCAST_PIECE;
    TRI_MPI(MPI_Bcast((char *)buf + begin, (int)n, MPI_BYTE, root, mpi_of(c)));
  }
  return TRI_OK;
}

tri_status tri_host_barrier(tri_comm *c) {
  TRI_MPI(MPI_Barrier(mpi_of(c)));
  return TRI_OK;
}

tri_status tri_host_gather_sizes(tri_comm *c, size_t bytes, size_t *counts) {
  TRI_ASSERT(sizeof bytes == sizeof(uint64_t));
  TRI_MPI(MPI_Allgather(&bytes, 1, MPI_UINT64_T, counts, 1, MPI_UINT64_T, mpi_of(c)));
  return TRI_OK;
}

/* all [total] has my bytes in their place already. */
static tri_status gather_small(tri_comm *c, char *all, const size_t *counts) {
  int       *n = NULL, *at = NULL;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(n, c->size));
  TRI_TRY_DONE(TRI_ALLOC(at, c->size));
  for (int r = 0; r < c->size; r++) n[r] = (int)counts[r];
  for (int r = 1; r < c->size; r++) at[r] = at[r - 1] + n[r - 1];
  TRI_MPI_DONE(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_BYTE, all, n, at, MPI_BYTE, mpi_of(c)));
done:
  TRI_FREE(n);
  TRI_FREE(at);
  return st;
}

tri_status tri_host_gather_into(tri_comm *c, const void *mine, const size_t *counts, void *out) {
  size_t total = 0, my_place = 0, place = 0;

  for (int r = 0; r < c->size; r++) {
    if (r == c->rank) my_place = total;
    total += counts[r];
  }
  if (counts[c->rank]) memcpy((char *)out + my_place, mine, counts[c->rank]);
  if (total <= INT32_MAX) return gather_small(c, out, counts);
  for (int r = 0; r < c->size; place += counts[r++])
    TRI_TRY(tri_host_bcast(c, (char *)out + place, counts[r], r));
  return TRI_OK;
}

tri_status tri_host_gather_all(tri_comm *c, const void *mine, size_t bytes, void **out, size_t *counts) {
  size_t     total = 0;
  tri_status st = TRI_OK;

  *out = NULL;
  TRI_TRY(tri_host_gather_sizes(c, bytes, counts));
  for (int r = 0; r < c->size; r++) total += counts[r];
  TRI_TRY(tri_agree(c, tri_host_alloc(total, 1, out)));
  st = tri_host_gather_into(c, mine, counts, *out);
  if (st != TRI_OK) tri_host_free(out);
  return st;
}

tri_status tri_agree(tri_comm *c, tri_status mine) {
  char message[MESSAGE_BYTES] = "";
  int  first = mine == TRI_OK ? c->size : c->rank, status = (int)mine;

  TRI_MPI(MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, mpi_of(c)));
  if (first == c->size) return TRI_OK;
  if (first == c->rank) strncpy(message, tri_error_message(), sizeof message - 1);
  TRI_MPI(MPI_Bcast(&status, 1, MPI_INT, first, mpi_of(c)));
  TRI_MPI(MPI_Bcast(message, sizeof message, MPI_CHAR, first, mpi_of(c)));
  if (first != c->rank) tri_error_set((tri_status)status, message);
  return (tri_status)status;
}
