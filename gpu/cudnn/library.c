/* library.c - loads libcudnn.so.9 by dlopen. No build needs it, and a machine without it runs as before. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "library.h"

#include <dlfcn.h>
#include <string.h>

/* The first version with correct sums over a group's heads in packed rows and correct masks, according to
 * cudnn-frontend. 9.10.0 and 9.10.1 are wrong. */
enum { LEAST = 91002 };

/* ISO C cannot cast an object pointer to a function pointer. */
static bool find(void *library, const char *name, void *function) {
  void *found = dlsym(library, name);

  memcpy(function, &found, sizeof found);
  return found != NULL;
}

static bool find_all(void *library, cudnn_api *a) {
  return find(library, "cudnnGetVersion", &a->get_version) &&
         find(library, "cudnnGetLastErrorString", &a->last_error) &&
         find(library, "cudnnCreate", &a->create) && find(library, "cudnnDestroy", &a->destroy) &&
         find(library, "cudnnSetStream", &a->set_stream) &&
         find(library, "cudnnBackendCreateDescriptor", &a->make) &&
         find(library, "cudnnBackendDestroyDescriptor", &a->drop) &&
         find(library, "cudnnBackendSetAttribute", &a->set) &&
         find(library, "cudnnBackendGetAttribute", &a->get) &&
         find(library, "cudnnBackendFinalize", &a->finalize) &&
         find(library, "cudnnBackendExecute", &a->execute);
}

tri_status tri_cudnn_load(cudnn_api *out, size_t *version) {
  const char *why = NULL;
  void       *library;

  *out = (cudnn_api){0};
  if (!find_all(RTLD_DEFAULT, out)) {
    library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    why = library ? NULL : dlerror();
    if (library && !find_all(library, out)) why = "it lacks functions of cuDNN 9";
  }
  if (!why) *version = out->get_version();
  if (!why && (*version < LEAST || *version / 10000 != 9)) why = "its version is not 9.10.2 to 9.99";
  if (!why) return TRI_OK;
  TRI_FAIL(TRI_EDEVICE,
           "TRI_CUDA_ATTN_BWD is cudnn but libcudnn.so.9 cannot be used (%s). Load cuDNN's module, put its "
           "folder into LD_LIBRARY_PATH, or unset TRI_CUDA_ATTN_BWD",
           why);
}
