/* fibre.cpp - the threads of a block as fibres: switching, barriers, warps, shared memory, grids. Test
 * code. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "impl.cuh"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

enum {
  MAX_THREADS = 1024,       /* specified, of a block */
  STACK_BYTES = 128 * 1024, /* chosen, as kernels hold their tiles in locals */
  PAGE = 4096,
  STATIC_BYTES = 48 * 1024,  /* specified, without asking for more */
  SHARED_BYTES = 163 * 1024, /* specified for compute capability 8.0, the most kernels ask for */
  GAP = 16,                  /* after each array, to detect writes beyond it */
  N_BARRIERS = 16            /* specified */
};

emu_place emu_here;

namespace {

enum state { READY, AT_BARRIER, AT_WARP, DONE };

struct fibre {
#if !defined(__x86_64__)
  ucontext_t context;
#endif
  char       *stack;
  int         id;
  const char *file; /* the barrier it waits at */
  int         line;
  int         barrier, votes; /* barrier it waits at, and the votes there */
  struct copy {
    void       *to;
    const void *from;
    bool        valid, committed;
    int         group;
  };
  std::vector<copy> copies; /* cp.async in flight */
  int               groups, groups_done;
};

struct meeting { /* lanes of one warp on their way to one point */
  uint32_t    mask, here;
  emu_apply   apply;
  const char *file;
  int         line;
  void       *lane[32];
};

struct warp {
  meeting m[32];
  int     n;
};

struct barrier {
  int         here, want, votes;
  const char *file;
  int         line;
};

struct array {
  char       *at;
  size_t      bytes;
  const char *name;
};

fibre fibres[MAX_THREADS];
/* What every switch touches is in arrays of its own, which stay in the first cache. */
state                  state_of[MAX_THREADS];
uint3                  thread_of[MAX_THREADS];
warp                   warps[MAX_THREADS / 32];
barrier                barriers[N_BARRIERS];
int                    queue[MAX_THREADS]; /* queue of ready fibres */
unsigned               queue_first, queue_n;
int                    n_threads, n_left;
fibre                 *now; /* the running fibre, NULL outside of kernels, and its number */
int                    now_id;
emu_kernel            *running;
std::function<void()> *body;
char                  *arena; /* static shared memory from the front, dynamic up to its end */
size_t                 static_used, static_most, dynamic_bytes;
bool                   asked;  /* asked for the dynamic bytes */
std::vector<array>     arrays; /* arrays of this block */
uint64_t               block_serial;
bool                   runs_ahead; /* a warp of this block goes on until it waits for others */
emu_kernel            *first_kernel;
std::vector<uint64_t>  chosen; /* chosen blocks of a launch, empty for all */
unsigned               chosen_width;

/* ---- switching ---- */

#if defined(__x86_64__)
extern "C" void emu_switch(void **save, void *load);
asm(R"(
.text
.globl emu_switch
.type emu_switch,@function
emu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emu_switch,.-emu_switch
)");
void *main_sp, *sp_of[MAX_THREADS];
void  to_fibre(int id) { emu_switch(&main_sp, sp_of[id]); }
void  switch_fibres(int from, int to) { emu_switch(&sp_of[from], sp_of[to]); }
void  to_main(int from) { emu_switch(&sp_of[from], main_sp); }
/* Begins to load what a switch to this fibre needs: the registers on its stack and the frames above them. */
void expect(int id) {
  const char *top = (const char *)sp_of[id];
  __builtin_prefetch(top);
  __builtin_prefetch(top + 64);
}
#else
ucontext_t main_context;
void       to_fibre(int id) { swapcontext(&main_context, &fibres[id].context); }
void       switch_fibres(int from, int to) { swapcontext(&fibres[from].context, &fibres[to].context); }
void       to_main(int from) { swapcontext(&fibres[from].context, &main_context); }
void       expect(int id) { (void)id; }
#endif

void push(int id) { queue[(queue_first + queue_n++) % MAX_THREADS] = id; }
void push_front(int id) {
  queue_first = (queue_first + MAX_THREADS - 1) % MAX_THREADS;
  queue[queue_first] = id;
  queue_n++;
}

void make_current(int id) {
  now = &fibres[id];
  now_id = id;
  emu_here.thread = thread_of[id];
}

/* The place where a fibre waits. Lanes of a warp wait at their meeting. */
void place_of(int id, const char **file, int *line) {
  const warp *w = &warps[id / 32];

  *file = fibres[id].file, *line = fibres[id].line;
  for (int i = 0; i < w->n && state_of[id] == AT_WARP; i++)
    if (w->m[i].here >> id % 32 & 1) *file = w->m[i].file, *line = w->m[i].line;
}

/* Fails because all threads wait for something that will not come. */
[[noreturn]] void divergence() {
  char text[2048];
  int  used = 0, shown = 0, last_line = 0;

  for (int i = 0; i < n_threads && shown < 4; i++) {
    const char *file;
    int         line;
    state       is = state_of[i];
    place_of(i, &file, &line);
    if (i == 0 || is != state_of[i - 1] || line != last_line) {
      used += snprintf(text + used, sizeof text - (size_t)used, "%s thread %d %s", shown++ ? "," : "", i,
                       is == DONE      ? "has ended"
                       : is == AT_WARP ? "waits in its warp"
                                       : "waits at a barrier");
      if (is != DONE) used += snprintf(text + used, sizeof text - (size_t)used, " (%s:%d)", file, line);
    }
    last_line = line;
  }
  emu_fail("a barrier or warp operation is not reached by all its threads:%s", text);
}

/* Runs another ready fibre. The current one waits or has ended. */
void yield() {
  int from = now_id, to;

  if (queue_n == 0) {
    if (n_left > 0) divergence();
    to_main(from);
    return;
  }
  to = queue[queue_first];
  queue_first = (queue_first + 1) % MAX_THREADS;
  queue_n--;
  expect(queue[(queue_first + 1) % MAX_THREADS]); /* the fibre after the next, if there is one */
  make_current(to);
  if (to != from) switch_fibres(from, to);
}

void release(int id) {
  state_of[id] = READY;
  push(id);
}

void fibre_main() {
  (*body)();
  state_of[now_id] = DONE;
  n_left--;
  yield();
  abort(); /* nobody switches to an ended fibre */
}

void prepare(fibre *f) {
  if (!f->stack) {
    char *p = (char *)mmap(NULL, STACK_BYTES + PAGE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED || mprotect(p, PAGE, PROT_NONE)) emu_fail("no memory for the stacks of threads");
    f->stack = p + PAGE;
  }
  state_of[f->id] = READY;
  f->copies.clear();
  f->groups = f->groups_done = 0;
#if defined(__x86_64__)
  /* stacks begin at different places of their pages, or they would share few cache sets */
  void **top = (void **)(f->stack + STACK_BYTES - 64 - f->id % 24 * 128);
  *--top = NULL; /* return address of fibre_main, never used */
  *--top = (void *)fibre_main;
  top -= 6; /* the registers emu_switch restores */
  sp_of[f->id] = top;
#else
  getcontext(&f->context);
  f->context.uc_stack.ss_sp = f->stack;
  f->context.uc_stack.ss_size = STACK_BYTES;
  f->context.uc_link = NULL;
  makecontext(&f->context, fibre_main, 0);
#endif
}

/* ---- order: every one of n numbers once, from a random start in random steps ---- */

struct order {
  uint64_t n, start, step;
};
uint64_t gcd(uint64_t a, uint64_t b) { return b ? gcd(b, a % b) : a; }
order    make_order(uint64_t n) {
     order o = {n, emu_noise() % n, n > 1 ? 1 + emu_noise() % (n - 1) : 1};
     while (gcd(o.step, n) != 1) o.step = o.step % n + 1;
  return o;
}
/* Returns the number after x. The first number is o.start. */
uint64_t after(const order &o, uint64_t x) { return x + o.step < o.n ? x + o.step : x + o.step - o.n; }

/* ---- blocks ---- */

void check_arrays() {
  for (const array &a : arrays)
    for (int i = 0; i < GAP; i++)
      if ((unsigned char)a.at[a.bytes + (size_t)i] != 0xff)
        emu_fail("shared array '%s' was written beyond its %zu bytes", a.name, a.bytes);
}

void run_block(uint3 block) {
  order o = make_order((uint64_t)n_threads);

  block_serial++;
  runs_ahead = emu_noise() & 1;
  arrays.clear();
  memset(arena, 0xff, static_most);
  memset(arena + SHARED_BYTES - dynamic_bytes, 0xff, dynamic_bytes);
  static_used = 0;
  memset(barriers, 0, sizeof barriers);
  emu_here.block = block;
  n_left = n_threads;
  queue_first = queue_n = 0;
  for (int i = 0; i < (n_threads + 31) / 32; i++) warps[i].n = 0;
  for (int i = 0; i < n_threads; i++) prepare(&fibres[i]);
  for (uint64_t i = 0, id = o.start; i < o.n; i++, id = after(o, id)) push((int)id);
  int first = queue[queue_first];
  queue_first++, queue_n--;
  make_current(first);
  to_fibre(first);
  now = NULL;
  check_arrays();
}

void open_arena() { /* its end is the end of a page */
  size_t whole = (SHARED_BYTES + PAGE - 1) / PAGE * PAGE;
  char  *p = (char *)mmap(NULL, whole + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED || mprotect(p + whole, PAGE, PROT_NONE)) emu_fail("no memory for shared memory");
  arena = p + whole - SHARED_BYTES;
}

uint3 block_at(dim3 grid, uint64_t b) {
  return {(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y),
          (unsigned)(b / ((uint64_t)grid.x * grid.y))};
}

/* Runs a grid, or only these blocks of it if `only` is not empty. */
void run_grid(emu_kernel *k, dim3 grid, dim3 block, size_t shared_bytes, const std::vector<uint64_t> &only,
              std::function<void()> *thread) {
  uint64_t n = (uint64_t)grid.x * grid.y * grid.z;
  order    o = make_order(n);

  if (!arena) open_arena();
  if (running) emu_fail("a kernel was launched by a kernel");
  running = k;
  body = thread;
  static_most = 0;
  dynamic_bytes = (shared_bytes + 15) / 16 * 16;
  asked = k->asked >= shared_bytes;
  n_threads = (int)(block.x * block.y * block.z);
  emu_here.block_dim = block;
  emu_here.grid_dim = grid;
  for (int i = 0; i < n_threads; i++) {
    fibres[i].id = i;
    thread_of[i] = {(unsigned)i % block.x, (unsigned)i / block.x % block.y,
                    (unsigned)i / (block.x * block.y)};
  }
  for (uint64_t i = 0, b = o.start; only.empty() && i < n; i++, b = after(o, b)) run_block(block_at(grid, b));
  for (uint64_t b : only)
    if (b < n) run_block(block_at(grid, b));
  running = NULL;
}

} /* namespace */

uint64_t emu_noise(void) {
  static uint64_t n;
  return emu_mix(++n);
}

uint64_t emu_mix(uint64_t x) { /* splitmix64 (Steele, Lea, Flood 2014) */
  x *= 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

void emu_fail(const char *fmt, ...) {
  va_list ap;

  fflush(stdout);
  fputs("emulation: ", stderr);
  va_start(ap, fmt);
  vfprintf(stderr, fmt, ap);
  va_end(ap);
  if (running)
    fprintf(stderr, "; in %s, block (%u,%u,%u)", running->name, emu_here.block.x, emu_here.block.y,
            emu_here.block.z);
  if (now) fprintf(stderr, ", thread (%u,%u,%u)", emu_here.thread.x, emu_here.thread.y, emu_here.thread.z);
  fputc('\n', stderr);
  _exit(EMU_EXIT);
}

void emu_trap(const char *file, int line) { emu_fail("__trap() at %s:%d", file, line); }
int  emu_lane(void) { return now_id % 32; }

/* ---- meeting points ---- */

int emu_block_meet(int id, int n, bool vote, const char *file, int line) {
  if (!now) emu_fail("a barrier outside of a kernel (%s:%d)", file, line);
  barrier *b = &barriers[id];

  if (n == 0) n = n_threads;
  if (n % 32 && n != n_threads) emu_fail("a barrier of %d threads, not whole warps (%s:%d)", n, file, line);
  if (b->here == 0) {
    b->want = n, b->file = file, b->line = line, b->votes = 0;
  } else if (b->want != n || b->line != line || (b->file != file && strcmp(b->file, file))) {
    emu_fail("threads of a block meet at different barriers: %s:%d and %s:%d", b->file, b->line, file, line);
  }
  b->votes += vote;
  if (++b->here < n) {
    fibre *me = now;
    me->barrier = id, me->file = file, me->line = line;
    state_of[now_id] = AT_BARRIER;
    yield();
    return me->votes;
  }
  b->here = 0;
  order o = make_order((uint64_t)n_threads);
  for (uint64_t i = 0, at = o.start; i < o.n; i++, at = after(o, at)) {
    if (state_of[at] != AT_BARRIER || fibres[at].barrier != id) continue;
    fibres[at].votes = b->votes;
    release((int)at);
  }
  return b->votes;
}

/* Makes the lanes of `mask` ready, except one that goes on. In a block whose warps run ahead they are the
 * next to run, the highest first. */
static void release_lanes(uint32_t mask, int first) {
  if (runs_ahead)
    for (; mask; mask &= mask - 1) {
      int id = first + __builtin_ctz(mask);
      state_of[id] = READY;
      push_front(id);
    }
  else
    for (; mask; mask &= mask - 1) release(first + __builtin_ctz(mask));
}

void emu_warp_meet(uint32_t mask, void *own, emu_apply apply, const char *file, int line) {
  if (!now) emu_fail("a warp operation outside of a kernel (%s:%d)", file, line);
  int      lane = now_id % 32, first = now_id - lane;
  uint32_t bit = 1u << lane;
  warp    *w = &warps[first / 32];
  meeting *m = NULL;

  if (!(mask & bit))
    emu_fail("lane %d calls with the mask %08x, in which it is not (%s:%d)", lane, mask, file, line);
  if (n_threads - first < 32) mask &= (1u << (n_threads - first)) - 1;
  for (int i = 0; i < w->n; i++) {
    if (w->m[i].mask != mask) continue; /* other lanes may still be in a meeting of their part */
    m = &w->m[i];
    if (m->apply != apply || m->line != line || (m->file != file && strcmp(m->file, file)))
      emu_fail("lanes of a warp meet at different places: %s:%d and %s:%d", m->file, m->line, file, line);
  }
  if (!m) {
    m = &w->m[w->n++];
    m->mask = mask, m->here = 0, m->apply = apply, m->file = file, m->line = line;
    for (uint32_t none = ~mask; none; none &= none - 1) m->lane[__builtin_ctz(none)] = NULL;
  }
  m->lane[lane] = own;
  m->here |= bit;
  if (m->here != mask) {
    state_of[now_id] = AT_WARP;
    yield();
    return;
  }
  apply(m->lane, mask);
  if (m != &w->m[--w->n]) *m = w->m[w->n];
  release_lanes(mask & ~bit, first);
}

/* ---- asynchronous copies: the bytes arrive at the wait at the latest, or earlier by chance ---- */

static void deliver(const fibre::copy &c) {
  if (c.valid)
    memcpy(c.to, c.from, 16);
  else
    memset(c.to, 0, 16);
}

/* One copy in four arrives early, so the copies of a warp are never all of one kind. */
static bool hurries() { return emu_noise() % 4 == 0; }

void emu_cp_async16(void *shared, const void *global, bool valid, const char *file, int line) {
  if ((uintptr_t)shared % 16 || (valid && (uintptr_t)global % 16))
    emu_fail("cp.async: an address is not 16-byte aligned (%s:%d)", file, line);
  if ((char *)shared < arena || (char *)shared + 16 > arena + SHARED_BYTES)
    emu_fail("cp.async: not to shared memory (%s:%d)", file, line);
  now->copies.push_back({shared, global, valid, false, 0});
  if (hurries()) deliver(now->copies.back()), now->copies.pop_back();
}

void emu_cp_commit(void) {
  now->groups++;
  size_t kept = 0;
  for (fibre::copy &c : now->copies) {
    if (!c.committed && hurries()) {
      deliver(c);
      continue;
    }
    if (!c.committed) c.committed = true, c.group = now->groups;
    now->copies[kept++] = c;
  }
  now->copies.resize(kept);
}

void emu_cp_wait(int groups_left) {
  int    done = now->groups - groups_left;
  size_t kept = 0;

  for (const fibre::copy &c : now->copies) {
    if (!c.committed || c.group > done)
      now->copies[kept++] = c;
    else
      deliver(c);
  }
  now->copies.resize(kept);
}

/* ---- shared memory ---- */

void *emu_shared(emu_site *site, size_t bytes, size_t align, const char *name) {
  if (site->block == block_serial) return site->data;
  static_used = (static_used + align - 1) / align * align;
  if (static_used + bytes > STATIC_BYTES)
    emu_fail(
        "the shared array '%s' does not fit: %zu bytes of %d are declared without the launch asking for them",
        name, static_used + bytes, STATIC_BYTES);
  site->block = block_serial;
  site->data = arena + static_used;
  static_used += bytes + GAP;
  if (static_used > static_most) { /* first block with it, later blocks fill it at their start */
    memset(site->data, 0xff, bytes + GAP);
    static_most = static_used;
  }
  if (!asked && static_used - GAP + dynamic_bytes > STATIC_BYTES)
    emu_fail(
        "static and dynamic shared memory come to more than %d bytes, and the launch has not asked for them",
        STATIC_BYTES);
  if (static_used - GAP + dynamic_bytes > emu_shared_bytes())
    emu_fail("static and dynamic shared memory come to more than %zu bytes", emu_shared_bytes());
  arrays.push_back({(char *)site->data, bytes, name});
  return site->data;
}

static size_t shared_bytes_of_block = SHARED_BYTES;

size_t emu_shared_bytes(void) { return shared_bytes_of_block; }

size_t emu_shared_read(void) {
  const char *given = getenv("TRI_EMULATE_SHARED");
  size_t      bytes = given ? strtoul(given, NULL, 10) : (size_t)SHARED_BYTES;
  return shared_bytes_of_block = bytes < (size_t)SHARED_BYTES ? bytes : (size_t)SHARED_BYTES;
}

void *emu_shared_dynamic(void) { return arena + SHARED_BYTES - dynamic_bytes; }

const char *emu_explain_shared(const void *p) {
  const char *q = (const char *)p;

  if (arena && q >= arena + SHARED_BYTES && q < arena + SHARED_BYTES + PAGE)
    return "shared memory beyond the launch's was touched";
  for (const fibre &f : fibres)
    if (f.stack && q >= f.stack - PAGE && q < f.stack) return "a thread's locals outgrew its stack";
  return NULL;
}

/* ---- launches ---- */

static void write_log(void);

emu_kernel::emu_kernel(const char *pretty) : launched(false), most_shared(0), next(first_kernel) {
  const char *from = strstr(pretty, "Kernel = "), *end;
  char       *copy;

  from = from ? from + 9 : pretty;
  if (*from == '&') from++;
  end = strchr(from, ']');
  copy = strndup(from, end ? (size_t)(end - from) : strlen(from));
  if (!first_kernel) atexit(write_log);
  name = copy;
  first_kernel = this;
}

/* Writes $TRI_EMULATE_LOG/<process>. It has "ran NAME" or "has NAME" per kernel, for
 * tests/emulate/launched.sh, and "most BYTES NAME" of dynamic shared memory, for tests/gpu/sass.py. */
static void write_log(void) {
  const char *folder = getenv("TRI_EMULATE_LOG");
  char        path[4096], part[4096]; /* hidden until complete, as a process may be killed at its end */
  FILE       *f;

  if (!folder) return;
  snprintf(path, sizeof path, "%s/%ld", folder, (long)getpid());
  snprintf(part, sizeof part, "%s/.%ld", folder, (long)getpid());
  f = fopen(part, "w");
  if (!f) return;
  for (emu_kernel *k = first_kernel; k; k = k->next) {
    fprintf(f, "%s %s\n", k->launched ? "ran" : "has", k->name);
    if (k->launched) fprintf(f, "most %zu %s\n", k->most_shared, k->name);
  }
  if (fclose(f) || rename(part, path)) remove(part);
}

void emu_only(std::vector<uint64_t> blocks, unsigned width) {
  chosen = std::move(blocks);
  chosen_width = width;
}

cudaError_t emu_launch(emu_kernel *k, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t s,
                       std::function<void()> thread) {
  uint64_t threads = (uint64_t)block.x * block.y * block.z;

  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || threads == 0 || threads > MAX_THREADS || block.z > 64)
    return cudaErrorInvalidConfiguration;
  if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) return cudaErrorInvalidConfiguration;
  if (shared_bytes > emu_shared_bytes() || (shared_bytes > STATIC_BYTES && shared_bytes > k->asked))
    return cudaErrorInvalidValue;
  k->launched = true;
  if (shared_bytes > k->most_shared) k->most_shared = shared_bytes;
  if (chosen_width) grid.x = chosen_width;
  return emu_queue(s,
                   [=, only = chosen]() mutable { run_grid(k, grid, block, shared_bytes, only, &thread); });
}
