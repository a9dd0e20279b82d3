/* device.c - a device of this build, by name. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "device.h"

#include "base/text_buffer.h"

#include <string.h>

static int n_back_ends(void) {
  int n = 0;

  while (tri_backends[n].device) n++;
  return n;
}

const tri_device_ops *tri_device_at(int i) {
  return i >= 0 && i < n_back_ends() ? tri_backends[i].device : NULL;
}

const tri_device_ops *tri_device_find(const char *name) {
  for (const tri_backend *b = tri_backends; b->device; b++)
    if (!strcmp(b->device->name, name)) return b->device;
  return NULL;
}

const char *tri_device_host(void) { return tri_backends[0].device->name; }

const char *tri_device_auto(void) {
  for (const tri_backend *b = tri_backends + 1; b->device; b++)
    if (b->device->count() > 0) return b->device->name;
  return tri_device_host();
}

const struct tri_comm_maker *tri_device_collectives(const char *name) {
  for (const tri_backend *b = tri_backends; b->device; b++)
    if (!strcmp(b->device->name, name)) return b->collectives;
  return NULL;
}

tri_status tri_device_check(const char *name) {
  tri_text   known = {0};
  tri_status st = TRI_OK;

  if (tri_device_find(name)) return TRI_OK;
  for (const tri_backend *b = tri_backends; b->device; b++)
    TRI_TRY_DONE(tri_text_printf(&known, "%s%s", known.len ? ", " : "", b->device->name));
  TRI_FAIL_DONE(TRI_EABSENT, "the device '%s' is not in this build. Available devices: %s", name, known.data);
done:
  tri_text_free(&known);
  return st;
}

tri_status tri_device_open(const char *name, int local_rank, int threads, tri_device **out) {
  const tri_device_ops *ops = tri_device_find(name);

  *out = NULL;
  TRI_TRY(tri_device_check(name));
  if (threads < 1) TRI_FAIL(TRI_EARG, "a device needs at least 1 thread, not %d", threads);
  if (local_rank < 0) TRI_FAIL(TRI_EARG, "the local rank %d must not be negative", local_rank);
  TRI_ASSERT(ops->size == sizeof *ops);
  return ops->open(local_rank, threads, out);
}

bool tri_device_is_gpu(const tri_device *d) {
  static const unsigned char none[sizeof d->uuid];

  return memcmp(d->uuid, none, sizeof none) != 0;
}

void tri_device_close(tri_device **d) {
  if (*d) (*d)->ops->close(d);
}
