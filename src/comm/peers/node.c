/* node.c - the status page shared by the ranks of a machine. Each place is written by its rank alone. Its
 * count is odd during a write, and readers then try again. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "node.h"

#include "base/host_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
  WORDS = (sizeof(tri_heartbeat) + 7) / 8,
  /* Chosen: a write takes nanoseconds. Readers do not wait for a writer that was stopped in the middle. */
  TRIES = 1000
};

typedef struct place {
  _Atomic uint64_t count, ends;
  _Atomic uint64_t word[WORDS];
} place;

typedef struct memory {
  _Atomic uint64_t claimed;
  place            at[];
} memory;

struct tri_node {
  memory *m;
  size_t  bytes;
  int     n;
};

static tri_status map(int fd, int n, tri_node **out) {
  size_t bytes = sizeof(memory) + (size_t)n * sizeof(place);
  void  *m =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);

  if (m == MAP_FAILED) TRI_FAIL(TRI_ENOMEM, "%zu bytes cannot be mapped: %s", bytes, strerror(errno));
  if (TRI_ALLOC(*out, 1) != TRI_OK) {
    munmap(m, bytes);
    TRI_FAIL(TRI_ENOMEM, "no memory for the status page of this machine's ranks");
  }
  **out = (tri_node){m, bytes, n};
  return TRI_OK;
}

/* Creates shared memory under an unused name. */
static int make_name(char name[TRI_NODE_NAME_BYTES]) {
  static int number;
  int        fd;

  do {
    snprintf(name, TRI_NODE_NAME_BYTES, "/trireme-%ld-%ld-peers%d", (long)getuid(), (long)getpid(), number++);
    fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
  } while (fd < 0 && errno == EEXIST);
  return fd;
}

tri_status tri_node_make(int n, char name[TRI_NODE_NAME_BYTES], tri_node **out) {
  int fd, error;

  *out = NULL;
  if (!name) return map(-1, n, out);
  fd = make_name(name);
  if (fd < 0) TRI_FAIL(TRI_ENOMEM, "shared memory cannot be created: %s", strerror(errno));
  error = posix_fallocate(fd, 0, (off_t)(sizeof(memory) + (size_t)n * sizeof(place)));
  if (error || map(fd, n, out) != TRI_OK) {
    close(fd);
    tri_node_unname(name);
    TRI_FAIL(TRI_ENOMEM, "shared memory cannot be created: %s", strerror(error ? error : ENOMEM));
  }
  close(fd);
  return TRI_OK;
}

tri_status tri_node_open(const char *name, int n, tri_node **out) {
  int        fd = shm_open(name, O_RDWR, 0);
  tri_status st;

  *out = NULL;
  if (fd < 0) TRI_FAIL(TRI_ENOMEM, "%s: cannot be opened: %s", name, strerror(errno));
  if (lseek(fd, 0, SEEK_END) < (off_t)(sizeof(memory) + (size_t)n * sizeof(place)))
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_ENOMEM, "%s: is too short", name);
  else
    st = map(fd, n, out);
  close(fd);
  return st;
}

void tri_node_unname(const char *name) { shm_unlink(name); }

void tri_node_close(tri_node **node) {
  if (!*node) return;
  munmap((*node)->m, (*node)->bytes);
  TRI_FREE(*node);
}

void tri_node_put(tri_node *node, int at, const tri_heartbeat *b) {
  place   *p = &node->m->at[at];
  uint64_t word[WORDS] = {0}, count = atomic_load_explicit(&p->count, memory_order_relaxed);

  memcpy(word, b, sizeof *b);
  atomic_store_explicit(&p->count, count + 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  for (int i = 0; i < WORDS; i++) atomic_store_explicit(&p->word[i], word[i], memory_order_relaxed);
  atomic_store_explicit(&p->count, count + 2, memory_order_release);
}

uint64_t tri_node_get(const tri_node *node, int at, tri_heartbeat *b) {
  place   *p = &node->m->at[at];
  uint64_t word[WORDS], count = 0;

  for (int i = 0; i < TRIES; i++) {
    count = atomic_load_explicit(&p->count, memory_order_acquire);
    for (int k = 0; k < WORDS; k++) word[k] = atomic_load_explicit(&p->word[k], memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (count % 2 == 0 && count == atomic_load_explicit(&p->count, memory_order_relaxed)) break;
  }
  memcpy(b, word, sizeof *b);
  b->phase[sizeof b->phase - 1] = b->label[sizeof b->label - 1] = 0;
  if (atomic_load_explicit(&p->ends, memory_order_relaxed)) b->life = TRI_LIFE_ENDS;
  return count;
}

void tri_node_end(tri_node *node, int at) {
  atomic_store_explicit(&node->m->at[at].ends, 1, memory_order_relaxed);
}

bool tri_node_claim(tri_node *node) { return !atomic_exchange(&node->m->claimed, 1); }

bool tri_node_is_claimed(const tri_node *node) { return atomic_load(&node->m->claimed) != 0; }
