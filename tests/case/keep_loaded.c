/* keep_loaded.c - sanitizer builds only: what MPI keeps until the process ends is no leak of ours.
 *
 * Its plug-ins stay in memory, so that the leak check can name them at exit; what it takes as it starts is
 * not looked at. */
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
