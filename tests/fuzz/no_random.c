/* no_random.c - what is keyed with random bytes has the same key every time here, so that the same inputs
 * take the same way. */
#include <jansson.h>
#include <string.h>
#include <sys/random.h>

ssize_t getrandom(void *bytes, size_t n, unsigned flags) {
  (void)flags;
  memset(bytes, 7, n);
  return (ssize_t)n;
}

static __attribute__((constructor)) void seed_json(void) { json_object_seed(1); }
