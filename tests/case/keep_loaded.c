/* keep_loaded.c - for sanitizer builds only: memory that MPI keeps until the process ends is not our leak.
 *
 * MPI's plug-ins stay loaded, so that the leak check can name their functions at exit. Memory that MPI
 * allocates during its start is not checked. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <dlfcn.h>
#include <mpi.h>
#include <sanitizer/lsan_interface.h>

int dlclose(void *handle) {
  (void)handle;
  return 0;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  __lsan_disable();
  int rc = PMPI_Init_thread(argc, argv, required, provided);
  __lsan_enable();
  return rc;
}
