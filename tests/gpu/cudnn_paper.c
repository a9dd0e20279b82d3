/* cudnn_paper.c - asks the real cuDNN about a GPU on paper: does it take our graph, by which engine, with how
 * much workspace. Nothing runs. cudnn_paper.sh builds and calls it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/cudnn/library.h"
#include "gpu/cudnn/cudnn_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cuDNN's description of a device (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION), with an H100's numbers. */
static const char h100[] =
    "{\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], \"regsPerBlock\": "
    "65536, \"multiProcessorCount\": 132, \"warpSize\": 32, \"maxSharedMemoryPerBlock\": 49152, "
    "\"maxSharedMemoryPerBlockOptin\": 232448, \"reservedSharedMemoryPerBlock\": 1024, "
    "\"maxRegistersPerSM\": 65536, \"maxCtasPerSM\": 32, \"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": "
    "2048, \"pciDeviceId\": 0, \"isTccDriver\": 0, \"supportCoopLaunch\": 1, \"smClockRateKHz\": 1980000, "
    "\"memClockRateKHz\": 2619000, \"l2CacheSize\": 52428800, \"deviceName\": \"NVIDIA H100 80GB HBM3\", "
    "\"deviceVer\": 900, \"driverVer\": 13000, \"totalGlobalMem\": 85029158912, \"cudaDeviceId\": 0}";

int main(void) {
  static const struct {
    int     H, G, D, window;
    int64_t B, T;
  } row[] = {{32, 8, 128, 0, 8, 1024}, {32, 8, 128, 0, 1, 4096}, {12, 2, 128, 0, 2, 4096},
             {12, 12, 64, 0, 8, 512},  {14, 2, 64, 0, 4, 2048},  {32, 8, 128, 100, 4, 1024},
             {8, 4, 256, 0, 2, 1024},  {4, 2, 96, 0, 64, 128},   {4, 2, 80, 7, 2, 128}};
  cudnn_api  api;
  cudnn_user u = {.api = &api};
  size_t     version = 0;
  int        refused = 0;
  char       text[2048];

  if (tri_cudnn_load(&api, &version) != TRI_OK) return fputs(tri_error_trace(), stderr), 69;
  if (api.make(CUDNN_DEVICEPROP, &u.paper) ||
      api.set(u.paper, CUDNN_DEVICEPROP_JSON, CUDNN_OF_CHAR, sizeof h100 - 1, h100) || api.finalize(u.paper))
    return api.last_error(text, sizeof text), fputs(text, stderr), 70;
  printf("cuDNN %zu, an H100 on paper\n", version);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const tri_attn_rule rule = {{row[i].H, row[i].G, row[i].D}, 0.1f, 0, row[i].window, row[i].T};
    const char         *why;
    cudnn_plan          p;
    tri_cudnn_plan_open(&u, &rule, row[i].B, row[i].T, &p, &why);
    printf("%d/%d heads of %d, window %d, %lld sequences of %lld: ", row[i].H, row[i].G, row[i].D,
           row[i].window, (long long)row[i].B, (long long)row[i].T);
    if (why)
      printf("%s\n", why);
    else
      printf("engine %lld, %.1f MiB\n", (long long)p.engine, (double)p.workspace / (1 << 20));
    if (why && getenv("VERBOSE")) api.last_error(text, sizeof text), puts(text);
    refused += why != NULL;
    tri_cudnn_plan_close(&u, &p);
  }
  api.drop(u.paper);
  return refused ? 1 : 0;
}
