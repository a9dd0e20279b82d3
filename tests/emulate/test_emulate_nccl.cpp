/* test_emulate_nccl.cpp - tests the emulated NCCL on two ranks: right calls give numbers, each misuse ends
 * with its message.
 *
 * Without an argument it starts itself by mpirun for each case. Judge: the ranks' messages and their exit
 * code. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <cuda_runtime_api.h>
#define OMPI_SKIP_MPICXX  1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <nccl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>

namespace {

enum { N = 100 };
int          rank;
ncclComm_t   world;
cudaStream_t stream;
float       *a, *b; /* device [2 * N] each */

void check(bool good, const char *what) {
  if (good) return;
  fprintf(stderr, "rank %d: not so: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}
#define CHECK(x) check(x, #x)

ncclResult_t settle(ncclComm_t c) {
  ncclResult_t r = ncclInProgress;
  int          n_looks = 0;
  while (r == ncclInProgress && n_looks++ < 100000000) CHECK(ncclCommGetAsyncError(c, &r) == ncclSuccess);
  return r;
}

ncclResult_t connect(int device) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId id;
  CHECK(cudaSetDevice(device) == cudaSuccess);
  if (rank == 0) CHECK(ncclGetUniqueId(&id) == ncclSuccess);
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  config.blocking = 0;
  CHECK(ncclCommInitRankConfig(&world, 2, id, rank, &config) == ncclInProgress);
  return settle(world);
}

void leave(ncclComm_t c) {
  CHECK(ncclCommFinalize(c) == ncclInProgress);
  CHECK(settle(c) == ncclSuccess);
  ncclCommDestroy(c);
}

void sum(ncclComm_t c, size_t n) {
  ncclAllReduce(a, a, n, ncclFloat32, ncclSum, c, stream);
  CHECK(settle(c) == ncclSuccess);
}

void finish() { cudaStreamSynchronize(stream); }

ncclComm_t second() {
  static ncclComm_t place[2];
  static int        n;
  ncclComm_t       &c = place[n++];
  CHECK(ncclCommSplit(world, 0, -rank, &c, NULL) == ncclSuccess);
  CHECK(!c);
  CHECK(settle(world) == ncclSuccess);
  CHECK(c);
  return c;
}

void well() {
  float      x[2 * N];
  ncclComm_t turned = second(); /* rank 0 is rank 1 in it */
  for (int i = 0; i < 2 * N; i++) x[i] = (float)(i + 1000 * rank);
  cudaMemcpyAsync(a, x, sizeof x, cudaMemcpyDefault, stream);
  sum(world, 2 * N); /* 2 i + 1000 */
  ncclReduceScatter(a, b, N, ncclFloat32, ncclMax, turned, stream);
  CHECK(settle(turned) == ncclSuccess);
  ncclAllGather(b, a, N, ncclFloat32, world, stream); /* rank 0 has the second half */
  CHECK(settle(world) == ncclSuccess);
  cudaMemcpyAsync(x, a, sizeof x, cudaMemcpyDefault, stream);
  finish();
  for (int i = 0; i < 2 * N; i++) CHECK(x[i] == (float)(2 * ((i + N) % (2 * N)) + 1000));
  leave(turned);
  leave(world);
}
void counts() { sum(world, (size_t)(N + rank)), finish(); }
void kinds() {
  if (rank == 0)
    ncclReduceScatter(a, b, N, ncclFloat32, ncclSum, world, stream);
  else
    sum(world, N);
  settle(world), finish();
}
void types() {
  ncclAllReduce(a, a, N, rank ? ncclInt32 : ncclFloat32, ncclSum, world, stream);
  settle(world), finish();
}
void order() {
  ncclComm_t other = second();
  sum(rank ? other : world, N), sum(rank ? world : other, N), finish();
}
void place() { ncclAllGather(a + N * (1 - rank), a, N, ncclFloat32, world, stream); }
void late() { leave(world), ncclAllReduce(a, a, N, ncclFloat32, ncclSum, world, stream); }
void dead() {
  ncclResult_t r;
  ncclCommAbort(world);
  ncclCommGetAsyncError(world, &r);
}
void hurry() {
  static ncclComm_t c;
  ncclCommSplit(world, 0, rank, &c, NULL);
  ncclAllReduce(a, a, N, ncclFloat32, ncclSum, world, stream);
}
void frame() {
  ncclComm_t c;
  ncclCommSplit(world, 0, rank, &c, NULL);
}
void host() {
  static float x[N];
  ncclAllReduce(x, x, N, ncclFloat32, ncclSum, world, stream);
}
/* Two gathers at once. N / 2 numbers of each rank become the halves of b. */
void group() {
  float x[2 * N];
  for (int i = 0; i < 2 * N; i++) x[i] = (float)(i + 1000 * rank);
  cudaMemcpyAsync(a, x, sizeof x, cudaMemcpyDefault, stream);
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(ncclAllGather(a, b, N / 2, ncclFloat32, world, stream) == ncclSuccess);
  CHECK(ncclAllGather(a + N, b + N, N / 2, ncclFloat32, world, stream) == ncclSuccess);
  ncclGroupEnd();
  CHECK(settle(world) == ncclSuccess);
  cudaMemcpyAsync(x, b, sizeof x, cudaMemcpyDefault, stream);
  finish();
  for (int i = 0; i < 2 * N; i++) CHECK(x[i] == (float)(i / N * N + i % (N / 2) + i / (N / 2) % 2 * 1000));
  leave(world);
}
void groups() {
  ncclComm_t other = second();
  ncclGroupStart();
  ncclAllReduce(a, a, N, ncclFloat32, ncclSum, world, stream);
  ncclAllReduce(b, b, N, ncclFloat32, ncclSum, other, stream);
}
void overlap() {
  ncclGroupStart();
  ncclAllGather(a, b, N / 2, ncclFloat32, world, stream);
  ncclAllGather(b, a + N, N / 2, ncclFloat32, world, stream);
}
/* Ranks with the spans of a group in another order. */
void turned() {
  ncclGroupStart();
  for (int i = 0; i < 2; i++)
    ncclAllReduce(i == rank ? a : b, i == rank ? a : b, i == rank ? N : 7, ncclFloat32, ncclSum, world,
                  stream);
  ncclGroupEnd();
  settle(world), finish();
}
void undone() { sum(world, N), ncclCommFinalize(world); }

const struct {
  const char *name;
  void (*body)();
  const char *says; /* NULL if nothing is said and it ends well */
} cases[] = {
    {"well", well, NULL},
    {"counts", counts, "ranks disagree"},
    {"kinds", kinds, "ranks disagree"},
    {"types", types, "ranks disagree"},
    {"order", order, "ranks disagree"},
    {"place", place, "not as a collective in place of rank"},
    {"late", late, "was destroyed or aborted"},
    {"dead", dead, "was destroyed or aborted"},
    {"hurry", hurry, "still in progress"},
    {"frame", frame, "is on the stack"},
    {"host", host, "this is host memory"},
    {"undone", undone, "wait in a stream"},
    {"group", group, NULL},
    {"groups", groups, "several communicators"},
    {"overlap", overlap, "write and read the same memory"},
    {"turned", turned, "ranks disagree"},
};

int run_case(const char *name) {
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (!strcmp(name, "same GPU")) {
    CHECK(connect(0) == ncclInvalidUsage);
    ncclCommAbort(world);
  }
  for (auto &c : cases) {
    if (strcmp(c.name, name)) continue;
    CHECK(connect(rank) == ncclSuccess);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMalloc((void **)&a, 2 * N * sizeof *a);
    cudaMalloc((void **)&b, 2 * N * sizeof *b);
    c.body();
  }
  MPI_Finalize();
  return 0;
}

/* Returns true if two ranks of the case say so. */
bool judge(const char *program, const char *name, const char *says) {
  std::string text = std::string(TRI_MPIEXEC " -n 2 ") + program + " '" + name + "' 2>&1", said;
  char        piece[4096];
  FILE       *f = popen(text.c_str(), "r");
  if (!f) return false;
  while (fgets(piece, sizeof piece, f)) said += piece;
  int  code = pclose(f);
  bool good = says ? code != 0 && said.find(says) != std::string::npos &&
                         said.find("emulation: ") != std::string::npos
                   : code == 0;
  printf("%s: %s\n", name, good ? "as it should" : said.c_str());
  return good;
}

} /* namespace */

int main(int argc, char **argv) {
  bool good = true;
  if (argc == 2) return run_case(argv[1]);
  for (auto &c : cases) good = judge(argv[0], c.name, c.says) && good;
  good = judge(argv[0], "same GPU", NULL) && good;
  return !good;
}
