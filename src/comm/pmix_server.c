/* pmix_server.c - queries to Slurm's PMIx server. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "pmix_server.h"
#include "comm_host.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#if TRI_HAVE_PMIX
#include <pmix.h>

static const char slurm_space[] = "slurm.pmix."; /* start of Slurm's job names */

static tri_status pmix_number(const pmix_proc_t *who, const char *key, int64_t *out) {
  pmix_value_t *value = NULL;
  pmix_status_t rc = PMIx_Get(who, key, NULL, 0, &value);

  *out = -1;
  if (rc != PMIX_SUCCESS || !value)
    TRI_FAIL(TRI_ECOMM, "PMIx does not know %s: %s", key, PMIx_Error_string(rc));
  if (value->type == PMIX_UINT16) *out = value->data.uint16;
  if (value->type == PMIX_UINT32) *out = value->data.uint32;
  PMIX_VALUE_RELEASE(value);
  if (*out < 0) TRI_FAIL(TRI_ECOMM, "PMIx gives %s in an unknown type", key);
  return TRI_OK;
}

static tri_status compare_pmix(const tri_runtime *rt, const pmix_proc_t *me) {
  pmix_proc_t all = *me;
  int64_t     local_rank, local_size, node, range[2];

  all.rank = PMIX_RANK_WILDCARD;
  TRI_TRY(pmix_number(me, PMIX_LOCAL_RANK, &local_rank));
  TRI_TRY(pmix_number(me, PMIX_NODEID, &node));
  TRI_TRY(pmix_number(&all, PMIX_LOCAL_SIZE, &local_size));
  range[0] = node, range[1] = -node;
  TRI_MPI(MPI_Allreduce(MPI_IN_PLACE, range, 2, MPI_INT64_T, MPI_MIN, *(MPI_Comm *)rt->mpi_machine));
  if (local_rank != rt->machine_rank || local_size != rt->machine_ranks || range[0] != -range[1])
    TRI_FAIL(TRI_ECOMM,
             "PMIx and MPI disagree on %s: local rank %lld of %lld against %d of %d, node numbers %lld to "
             "%lld on it",
             rt->host, (long long)local_rank, (long long)local_size, rt->machine_rank, rt->machine_ranks,
             (long long)range[0], (long long)-range[1]);
  return TRI_OK;
}

/* With another launcher's server, MPI may have loaded another PMIx client library than ours. The environment
 * is the same on every rank, so either all ranks ask or none does. */
tri_status tri_pmix_compare(tri_runtime *rt) {
  const char   *space = getenv("PMIX_NAMESPACE");
  pmix_proc_t   me;
  pmix_status_t rc;
  tri_status    st;

  if (!space || strncmp(space, slurm_space, sizeof slurm_space - 1)) return TRI_OK;
  rc = PMIx_Init(&me, NULL, 0);
  if (rc != PMIX_SUCCESS)
    TRI_FAIL(TRI_ECOMM, "Slurm's PMIx server does not answer: %s", PMIx_Error_string(rc));
  st = compare_pmix(rt, &me);
  PMIx_Finalize(NULL, 0);
  TRI_TRY(st);
  rt->launcher = "pmix";
  return TRI_OK;
}

void tri_pmix_abort(int code) {
  const char *space = getenv("PMIX_NAMESPACE");
  pmix_proc_t me;

  if (!space || strncmp(space, slurm_space, sizeof slurm_space - 1)) return;
  if (PMIx_Init(&me, NULL, 0) == PMIX_SUCCESS) PMIx_Abort(code, "trireme ends", NULL, 0);
}
#else
tri_status tri_pmix_compare(tri_runtime *rt) {
  (void)rt;
  return TRI_OK;
}
void tri_pmix_abort(int code) { (void)code; }
#endif
