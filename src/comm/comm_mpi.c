/* comm_mpi.c - collectives on host memory through MPI: element types, counts past 2^31, sums in rank
 * order.
 *
 * Gathers are MPI's own and are posted at start. Reductions run at wait. They do an all-to-all into a
 * bounded staging buffer and sum it here, because MPI promises no order of the sum and does not know
 * 16-bit floats. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/host_memory.h"
#include "comm_host.h"
#include "cpu/device_cpu.h"
#include "pause.h"

#include <mpi.h>
#include <limits.h>

/* Chosen: the bytes of one staging buffer. This is enough for full network speed and small next to a
 * model. */
enum { STAGE_BYTES = 8 << 20, STAGE_BUFFERS = 2 };

struct tri_mpi_way {
  MPI_Comm    comm;
  MPI_Request request[TRI_RING];
  char       *stage[STAGE_BUFFERS]; /* allocated by the first reduction */
  size_t      stage_bytes;          /* size of each buffer */
};

static MPI_Datatype element(tri_dtype t) {
  return t == TRI_F32                    ? MPI_FLOAT
         : t == TRI_BF16 || t == TRI_F16 ? MPI_UINT16_T
         : t == TRI_I32                  ? MPI_INT32_T
         : t == TRI_I64                  ? MPI_INT64_T
                                         : MPI_UINT8_T;
}

tri_status tri_mpi_way_open(tri_host_comm *h) {
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(h->mpi, 1));
  h->mpi->comm = MPI_COMM_NULL;
  for (int i = 0; i < TRI_RING; i++) h->mpi->request[i] = MPI_REQUEST_NULL;
  TRI_MPI_DONE(MPI_Comm_dup(*(MPI_Comm *)h->base.mpi, &h->mpi->comm));
  MPI_Comm_set_errhandler(h->mpi->comm, MPI_ERRORS_RETURN);
done:
  if (st != TRI_OK) tri_mpi_way_close(&h->mpi);
  return st;
}

void tri_mpi_way_close(struct tri_mpi_way **w) {
  if (!*w) return;
  if ((*w)->comm != MPI_COMM_NULL) MPI_Comm_free(&(*w)->comm);
  for (int i = 0; i < STAGE_BUFFERS; i++) tri_pages_free((void **)&(*w)->stage[i]);
  TRI_FREE(*w);
}

/* Makes one committed datatype of n elements, for any n. MPI 3 counts are int. */
static tri_status long_type(int64_t n, tri_dtype t, MPI_Datatype *out) {
  enum { PIECE = 1 << 30 };
  int          n_pieces = (int)(n / PIECE), length[2] = {n_pieces, (int)(n % PIECE)};
  MPI_Aint     place[2] = {0, (MPI_Aint)n_pieces * PIECE * (MPI_Aint)tri_dtype_bytes(t)};
  MPI_Datatype part[2] = {MPI_DATATYPE_NULL, element(t)};
  tri_status   st = TRI_OK;

  *out = MPI_DATATYPE_NULL;
  TRI_MPI_DONE(MPI_Type_contiguous(PIECE, element(t), &part[0]));
  TRI_MPI_DONE(MPI_Type_create_struct(2, length, place, part, out));
  TRI_MPI_DONE(MPI_Type_commit(out));
done:
  if (part[0] != MPI_DATATYPE_NULL) MPI_Type_free(&part[0]);
  if (st != TRI_OK && *out != MPI_DATATYPE_NULL) MPI_Type_free(out);
  return st;
}

static tri_status post(tri_host_comm *h, const tri_coll *k, MPI_Request *request) {
  int64_t     total = k->span->per_rank * h->base.size;
  const char *place = (const char *)k->span->recv +
                      (size_t)h->base.rank * (size_t)k->span->per_rank * tri_dtype_bytes(k->dtype);
  const void  *send = k->span->send == (const void *)place ? MPI_IN_PLACE : k->span->send;
  MPI_Datatype type = element(k->dtype);
  int          count = (int)k->span->per_rank;
  tri_status   st = TRI_OK;

  /* The total is compared because an MPI library may multiply count and rank as int. */
  if (total > INT_MAX) {
    TRI_TRY(long_type(k->span->per_rank, k->dtype, &type));
    count = 1;
  }
  TRI_MPI_DONE(MPI_Iallgather(send, count, type, k->span->recv, count, type, h->mpi->comm, request));
done:
  if (total > INT_MAX) MPI_Type_free(&type);
  return st;
}

/* Returns the bytes of one buffer. It holds at least 1024 f64 for every rank, so a piece is never empty. */
static size_t stage_bytes(int size) {
  return STAGE_BYTES > (size_t)size * 8192 ? STAGE_BYTES : (size_t)size * 8192;
}

size_t tri_mpi_way_bytes(int size) { return STAGE_BUFFERS * stage_bytes(size); }

static tri_status open_stage(struct tri_mpi_way *w, int size) {
  size_t bytes = stage_bytes(size);

  if (w->stage[STAGE_BUFFERS - 1]) return TRI_OK;
  for (int i = 0; i < STAGE_BUFFERS; i++) TRI_TRY(tri_pages_alloc(bytes, (void **)&w->stage[i]));
  w->stage_bytes = bytes;
  return TRI_OK;
}

/* dst [n] = the sum over ranks r of stage [r, n]. */
static tri_status sum_stage(tri_host_comm *h, const tri_coll *k, void *dst, const char *stage, int64_t n) {
  size_t       bytes = tri_dtype_bytes(k->dtype);
  const void **src = NULL;

  TRI_TRY(TRI_ALLOC(src, h->base.size));
  for (int r = 0; r < h->base.size; r++) src[r] = stage + (size_t)r * (size_t)n * bytes;
  tri_cpu_reduce(dst, src, h->base.size, n, k->dtype, k->op == TRI_MAX ? TRI_CPU_MAX : TRI_CPU_SUM,
                 h->threads);
  TRI_FREE(src);
  return TRI_OK;
}

/* Receives piece [begin, begin + n) of every rank's slice of send [size, count]. */
static tri_status post_piece(tri_host_comm *h, const tri_coll *k, int64_t begin, int64_t n, char *stage,
                             MPI_Request *request) {
  size_t       bytes = tri_dtype_bytes(k->dtype);
  MPI_Datatype piece = MPI_DATATYPE_NULL, slice = MPI_DATATYPE_NULL;
  tri_status   st = TRI_OK;

  TRI_MPI_DONE(MPI_Type_contiguous((int)n, element(k->dtype), &piece));
  TRI_MPI_DONE(MPI_Type_create_resized(piece, 0, (MPI_Aint)((size_t)k->span->per_rank * bytes), &slice));
  TRI_MPI_DONE(MPI_Type_commit(&slice));
  TRI_MPI_DONE(MPI_Ialltoall((const char *)k->span->send + (size_t)begin * bytes, 1, slice, stage, (int)n,
                             element(k->dtype), h->mpi->comm, request));
done:
  if (piece != MPI_DATATYPE_NULL) MPI_Type_free(&piece);
  if (slice != MPI_DATATYPE_NULL) MPI_Type_free(&slice);
  return st;
}

/* Piece i + 1 is in transit while piece i is summed. recv may be my slice of send. A piece is written only
 * after its own all-to-all, and no other piece reads those elements. */
static tri_status reduce_scatter(tri_host_comm *h, const tri_coll *k) {
  size_t      bytes = tri_dtype_bytes(k->dtype);
  MPI_Request request[STAGE_BUFFERS];
  int64_t     most, n_pieces;

  TRI_TRY(open_stage(h->mpi, h->base.size));
  most = (int64_t)(h->mpi->stage_bytes / bytes / (size_t)h->base.size);
  n_pieces = (k->span->per_rank + most - 1) / most;
  for (int64_t i = 0; i <= n_pieces; i++) {
    if (i < n_pieces) {
      int64_t n = k->span->per_rank - i * most < most ? k->span->per_rank - i * most : most;
      TRI_TRY(post_piece(h, k, i * most, n, h->mpi->stage[i % STAGE_BUFFERS], &request[i % STAGE_BUFFERS]));
    }
    if (i > 0) {
      int64_t j = i - 1, n = k->span->per_rank - j * most < most ? k->span->per_rank - j * most : most;
      TRI_MPI(tri_pause_mpi(&request[j % STAGE_BUFFERS], true));
      TRI_TRY(sum_stage(h, k, (char *)k->span->recv + (size_t)(j * most) * bytes,
                        h->mpi->stage[j % STAGE_BUFFERS], n));
    }
  }
  return TRI_OK;
}

/* Works piece by piece. Every rank sums its slice of the piece, then all ranks gather the slices. */
static tri_status all_reduce(tri_host_comm *h, const tri_coll *k) {
  size_t       bytes = tri_dtype_bytes(k->dtype);
  MPI_Datatype type = element(k->dtype);
  int          size = h->base.size, *n = NULL, *at = NULL, *my_n = NULL, *my_at = NULL;
  int64_t      most;
  tri_status   st = TRI_OK;

  TRI_TRY_DONE(open_stage(h->mpi, size));
  TRI_TRY_DONE(TRI_ALLOC(n, (int64_t)size * 4));
  at = n + size, my_n = at + size, my_at = my_n + size;
  most = (int64_t)(h->mpi->stage_bytes / bytes) - size;
  for (int64_t begin = 0; begin < k->span->per_rank; begin += most) {
    int total = (int)(k->span->per_rank - begin < most ? k->span->per_rank - begin : most),
        slice = (total + size - 1) / size;
    char *piece = (char *)k->span->recv + (size_t)begin * bytes;
    for (int r = 0; r < size; r++) {
      at[r] = r * slice < total ? r * slice : total;
      n[r] = total - at[r] < slice ? total - at[r] : slice;
    }
    for (int r = 0; r < size; r++) my_n[r] = n[h->base.rank], my_at[r] = r * n[h->base.rank];
    TRI_MPI_DONE(MPI_Alltoallv(piece, n, at, type, h->mpi->stage[0], my_n, my_at, type, h->mpi->comm));
    TRI_TRY_DONE(
        sum_stage(h, k, piece + (size_t)at[h->base.rank] * bytes, h->mpi->stage[0], n[h->base.rank]));
    TRI_MPI_DONE(MPI_Allgatherv(MPI_IN_PLACE, 0, type, piece, n, at, type, h->mpi->comm));
  }
done:
  TRI_FREE(n);
  return st;
}

static tri_status mpi_start(tri_host_comm *h, const tri_coll *k, uint64_t number) {
  if (k->kind == TRI_ALL_GATHER) TRI_TRY(post(h, k, &h->mpi->request[number % TRI_RING]));
  return TRI_OK;
}

static tri_status mpi_finish(tri_host_comm *h, const tri_coll *k, uint64_t number) {
  /* A reduction begins here, at wait. */
  bool reduces = k->kind == TRI_REDUCE_SCATTER || k->kind == TRI_ALL_REDUCE;

  if (reduces && h->from_s <= 0) h->from_s = tri_now_s();
  if (k->kind == TRI_REDUCE_SCATTER) TRI_TRY(reduce_scatter(h, k));
  if (k->kind == TRI_ALL_REDUCE) TRI_TRY(all_reduce(h, k));
  TRI_MPI(tri_pause_mpi(&h->mpi->request[number % TRI_RING], true));
  return TRI_OK;
}

tri_status tri_mpi_way_run(tri_host_comm *h, const tri_coll *k) {
  TRI_TRY(mpi_start(h, k, 0));
  TRI_TRY(mpi_finish(h, k, 0));
  return TRI_OK;
}

const tri_coll_way tri_mpi_way_ops = {mpi_start, mpi_finish};

/* ---- messages between two ranks, timed ---- */

enum { PING_TAG = 1 }; /* arbitrary: this communicator has no other point-to-point messages */

tri_status tri_ping(tri_comm *c, int peer, void *buf, size_t bytes, int times, double *best_s) {
  MPI_Comm comm = *(MPI_Comm *)c->mpi;
  int      n = (int)bytes;

  TRI_ASSERT(bytes <= INT32_MAX && peer != c->rank);
  *best_s = 0;
  for (int i = 0; i <= times; i++) {
    double from_s = tri_now_s();
    if (c->rank < peer) TRI_MPI(MPI_Send(buf, n, MPI_BYTE, peer, PING_TAG, comm));
    TRI_MPI(MPI_Recv(buf, n, MPI_BYTE, peer, PING_TAG, comm, MPI_STATUS_IGNORE));
    if (c->rank > peer) TRI_MPI(MPI_Send(buf, n, MPI_BYTE, peer, PING_TAG, comm));
    double one_way_s = (tri_now_s() - from_s) / 2;
    if (i == 1 || (i > 1 && one_way_s < *best_s)) *best_s = one_way_s;
  }
  return TRI_OK;
}
