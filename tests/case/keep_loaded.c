/* keep_loaded.c - sanitizer builds only: plug-ins of MPI stay in memory, so that the leak check can name them
 * at exit. */
#include <dlfcn.h>

int dlclose(void *handle) {
  (void)handle;
  return 0;
}
