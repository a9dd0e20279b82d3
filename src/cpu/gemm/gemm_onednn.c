/* gemm_onednn.c - tri_gemm by oneDNN's matmul and reorder primitives, C API of versions 2 and 3. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "gemm.h"

#if TRI_HAVE_ONEDNN

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <string.h>

/* The two versions differ in the ownership of a memory descriptor. Here a `desc` is always closed. */
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t       desc;
typedef const_dnnl_memory_desc_t desc_view;
static desc_view                 view(const desc *d) { return *d; }
static dnnl_status_t desc_open(desc *d, dnnl_data_type_t t, const dnnl_dims_t dim, const dnnl_dims_t stride) {
  if (!stride) return dnnl_memory_desc_create_with_tag(d, 2, dim, t, dnnl_format_tag_any);
  return dnnl_memory_desc_create_with_strides(d, 2, dim, t, stride);
}
static dnnl_status_t desc_copy(desc *d, desc_view from) { return dnnl_memory_desc_clone(d, from); }
static void          desc_close(desc *d) {
           if (*d) dnnl_memory_desc_destroy(*d);
  *d = NULL;
}
static dnnl_status_t append_sum(dnnl_post_ops_t p) {
  return dnnl_post_ops_append_sum(p, 1.0f, 0, dnnl_data_type_undef);
}
static dnnl_status_t matmul_desc(dnnl_primitive_desc_t *pd, desc_view a, desc_view b, desc_view c,
                                 dnnl_primitive_attr_t attr, dnnl_engine_t e) {
  return dnnl_matmul_primitive_desc_create(pd, e, a, b, NULL, c, attr);
}
#else
typedef dnnl_memory_desc_t        desc;
typedef const dnnl_memory_desc_t *desc_view;
static desc_view                  view(const desc *d) { return d; }
static dnnl_status_t desc_open(desc *d, dnnl_data_type_t t, const dnnl_dims_t dim, const dnnl_dims_t stride) {
  if (!stride) return dnnl_memory_desc_init_by_tag(d, 2, dim, t, dnnl_format_tag_any);
  return dnnl_memory_desc_init_by_strides(d, 2, dim, t, stride);
}
static dnnl_status_t desc_copy(desc *d, desc_view from) {
  *d = *from;
  return dnnl_success;
}
static void          desc_close(desc *d) { (void)d; }
static dnnl_status_t append_sum(dnnl_post_ops_t p) { return dnnl_post_ops_append_sum(p, 1.0f); }
static dnnl_status_t matmul_desc(dnnl_primitive_desc_t *pd, desc_view a, desc_view b, desc_view c,
                                 dnnl_primitive_attr_t attr, dnnl_engine_t e) {
  dnnl_matmul_desc_t op;
  dnnl_status_t      st = dnnl_matmul_desc_init(&op, a, b, NULL, c);
  return st == dnnl_success ? dnnl_primitive_desc_create(pd, &op, attr, e, NULL) : st;
}
#endif

/* The objects one thread passes to the library. Their data pointers are set before each call. */
typedef struct slot {
  dnnl_stream_t stream;
  dnnl_memory_t a, b, c, scratch, from; /* from: source of pack */
} slot;

/* Steps of k in one f32 sum. Longer products are cut into pieces and their results added here, because one
 * f32 sum over a vocabulary loses digits. The library's own accumulation into c continues the same sum, so it
 * does not help. Chosen: long enough to make the addition's cost negligible. */
enum { PIECE_MOST = 2048 };

struct tri_gemm {
  tri_gemm_spec    spec;   /* k is that of one piece */
  int64_t          a_row;  /* elements from one row of a to the next, all of k */
  int64_t          n_more; /* further pieces of the same length */
  tri_gemm        *rest;   /* a shorter last piece, or NULL */
  dnnl_engine_t    engine;
  dnnl_primitive_t run, pack; /* pack is NULL in a product opened `like` another */
  desc             a, b, c, from;
  slot            *slots; /* [threads] */
  int              threads;
  size_t           packed_bytes, scratch_bytes;
  bool             generated; /* the library generated code for this processor */
};

static int64_t n_created;

#define DNN_DONE(call)                                                                                       \
  do {                                                                                                       \
    dnnl_status_t got_ = (call);                                                                             \
    if (got_ != dnnl_success)                                                                                \
      TRI_FAIL_DONE(TRI_EDEVICE, "%s: status %d from %s", tri_gemm_library(), (int)got_, #call);             \
  } while (0)

const char *tri_gemm_library(void) {
  static char           text[48];
  const dnnl_version_t *v = dnnl_version();
  snprintf(text, sizeof text, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
  return text;
}

int64_t tri_gemm_count(void) { return n_created; }

static dnnl_data_type_t type_of(tri_dtype t) { return t == TRI_BF16 ? dnnl_bf16 : dnnl_f32; }

static size_t round64(size_t n) { return (n + 63) & ~(size_t)63; }

/* Creates attributes. The caller provides scratch memory, and c += if `add`. */
static tri_status open_attr(bool add, dnnl_primitive_attr_t *out) {
  tri_status            st = TRI_OK;
  dnnl_primitive_attr_t attr = NULL;
  dnnl_post_ops_t       ops = NULL;
  DNN_DONE(dnnl_primitive_attr_create(&attr));
  DNN_DONE(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
  if (add) {
    DNN_DONE(dnnl_post_ops_create(&ops));
    DNN_DONE(append_sum(ops));
    DNN_DONE(dnnl_primitive_attr_set_post_ops(attr, ops));
  }
  *out = attr;
  attr = NULL;
done:
  if (ops) dnnl_post_ops_destroy(ops);
  if (attr) dnnl_primitive_attr_destroy(attr);
  return st;
}

/* Returns the library's name for its code. It is brg... with the name of the instructions for code generated
 * for the processor, and ref... for slow reference code. It is "" if the library does not say. */
static const char *kernel_name(const_dnnl_primitive_desc_t pd) {
  const char *name = "";
  return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success ? name : "";
}
static bool kernel_is(const_dnnl_primitive_desc_t pd, const char *start) {
  return strncmp(kernel_name(pd), start, strlen(start)) == 0;
}

/* On a processor with AMX, oneDNN 2.6.3 (brgemm_matmul_utils.cpp, is_small_shapes) uses AVX512-BF16 instead
 * if k <= 16, if m <= 32 and m n <= 256, or if m = 1 and k = 256. Other versions use other limits. The two
 * kinds of code add up a row in different orders. Each keeps its own order for every m and n. */
bool tri_gemm_alike(const tri_gemm *g, const tri_gemm *other) {
  const_dnnl_primitive_desc_t a = NULL, b = NULL;
  if (g->rest && !tri_gemm_alike(g->rest, other->rest)) return false;
  return dnnl_primitive_get_primitive_desc(g->run, &a) == dnnl_success &&
         dnnl_primitive_get_primitive_desc(other->run, &b) == dnnl_success &&
         strcmp(kernel_name(a), kernel_name(b)) == 0;
}

static void note_scratch(tri_gemm *g, dnnl_primitive_desc_t pd) {
  size_t n =
      round64(dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0)));
  if (n > g->scratch_bytes) g->scratch_bytes = n;
}

/* Creates the descriptors and the product. The library chooses the order of b unless `like` has fixed it.
 * g->run stays NULL if the library has no code, or only its slow reference code, for b in that order. */
static tri_status open_run(tri_gemm *g, const tri_gemm *like) {
  const tri_gemm_spec  *p = &g->spec;
  const dnnl_dims_t     a_dim = {p->m, p->k}, a_stride = {g->a_row, 1}, b_dim = {p->k, p->n};
  const dnnl_dims_t     c_dim = {p->m, p->n}, c_stride = {p->n, 1};
  dnnl_primitive_attr_t attr = NULL;
  dnnl_primitive_desc_t pd = NULL;
  tri_status            st = TRI_OK;
  desc                  b = {0};
  DNN_DONE(desc_open(&g->a, type_of(p->dtype), a_dim, a_stride));
  DNN_DONE(desc_open(&g->c, dnnl_f32, c_dim, c_stride));
  DNN_DONE(like ? desc_copy(&b, view(&like->b)) : desc_open(&b, type_of(p->dtype), b_dim, NULL));
  TRI_TRY_DONE(open_attr(p->add, &attr));
  dnnl_status_t got = matmul_desc(&pd, view(&g->a), view(&b), view(&g->c), attr, g->engine);
  if (got == dnnl_unimplemented) goto done;
  DNN_DONE(got);
  if (like && kernel_is(pd, "ref")) goto done;
  DNN_DONE(desc_copy(&g->b, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0)));
  DNN_DONE(dnnl_primitive_create(&g->run, pd));
  g->packed_bytes = round64(dnnl_memory_desc_get_size(view(&g->b)));
  note_scratch(g, pd);
  g->generated = kernel_is(pd, "brg");
  n_created++;
done:
  desc_close(&b);
  if (pd) dnnl_primitive_desc_destroy(pd);
  if (attr) dnnl_primitive_attr_destroy(attr);
  return st;
}

static tri_status open_pack(tri_gemm *g) {
  const dnnl_dims_t     dim = {g->spec.k, g->spec.n}, stride = {g->spec.b_row, g->spec.b_col};
  dnnl_primitive_attr_t attr = NULL;
  dnnl_primitive_desc_t pd = NULL;
  tri_status            st = TRI_OK;
  DNN_DONE(desc_open(&g->from, type_of(g->spec.dtype), dim, stride));
  TRI_TRY_DONE(open_attr(false, &attr));
  DNN_DONE(dnnl_reorder_primitive_desc_create(&pd, view(&g->from), g->engine, view(&g->b), g->engine, attr));
  DNN_DONE(dnnl_primitive_create(&g->pack, pd));
  note_scratch(g, pd);
  n_created++;
done:
  if (pd) dnnl_primitive_desc_destroy(pd);
  if (attr) dnnl_primitive_attr_destroy(attr);
  return st;
}

static tri_status open_slots(tri_gemm *g) {
  const dnnl_dims_t dim = {1, (dnnl_dim_t)g->scratch_bytes}, stride = {(dnnl_dim_t)g->scratch_bytes, 1};
  tri_status        st = TRI_OK;
  desc              bytes = {0};
  TRI_TRY_DONE(TRI_ALLOC(g->slots, g->threads));
  if (g->scratch_bytes) DNN_DONE(desc_open(&bytes, dnnl_u8, dim, stride));
  for (int i = 0; i < g->threads; i++) {
    slot *s = &g->slots[i];
    DNN_DONE(dnnl_stream_create(&s->stream, g->engine, dnnl_stream_default_flags));
    DNN_DONE(dnnl_memory_create(&s->a, view(&g->a), g->engine, DNNL_MEMORY_NONE));
    DNN_DONE(dnnl_memory_create(&s->b, view(&g->b), g->engine, DNNL_MEMORY_NONE));
    DNN_DONE(dnnl_memory_create(&s->c, view(&g->c), g->engine, DNNL_MEMORY_NONE));
    if (g->scratch_bytes)
      DNN_DONE(dnnl_memory_create(&s->scratch, view(&bytes), g->engine, DNNL_MEMORY_NONE));
    if (g->pack) DNN_DONE(dnnl_memory_create(&s->from, view(&g->from), g->engine, DNNL_MEMORY_NONE));
  }
done:
  desc_close(&bytes);
  return st;
}

/* Opens one piece with k of spec. Rows of a have a_row elements. */
static tri_status open_piece(const tri_gemm_spec *spec, int64_t a_row, const tri_gemm *like, int threads,
                             tri_gemm **out) {
  tri_status st = TRI_OK;
  tri_gemm  *g = NULL;
  /* The library plans a product for the current thread count of OpenMP, so set it to one. */
  const int before = omp_get_max_threads();
  *out = NULL;
  omp_set_num_threads(1);
  TRI_TRY_DONE(TRI_ALLOC(g, 1));
  g->spec = *spec;
  g->a_row = a_row;
  g->threads = threads;
  DNN_DONE(dnnl_engine_create(&g->engine, dnnl_cpu, 0));
  TRI_TRY_DONE(open_run(g, like));
  if (!g->run && !like)
    TRI_FAIL_DONE(TRI_EDEVICE, "%s has no product of [%lld,%lld] and [%lld,%lld] on this processor",
                  tri_gemm_library(), (long long)spec->m, (long long)spec->k, (long long)spec->k,
                  (long long)spec->n);
  if (!g->run) goto done;
  if (!like) TRI_TRY_DONE(open_pack(g));
  TRI_TRY_DONE(open_slots(g));
  *out = g;
  g = NULL;
done:
  omp_set_num_threads(before);
  tri_gemm_close(&g);
  return st;
}

/* Opens the pieces after g. *ok says whether the library can do them at full speed. */
static tri_status open_behind(tri_gemm *g, int64_t k, const tri_gemm *like, int threads, bool *ok) {
  tri_gemm_spec spec = g->spec;
  const int64_t n = (k + spec.k - 1) / spec.k;

  spec.k = k - (n - 1) * spec.k;
  g->n_more = spec.k == g->spec.k ? n - 1 : n - 2;
  *ok = true;
  if (spec.k == g->spec.k) return TRI_OK;
  TRI_TRY(open_piece(&spec, k, like ? like->rest : NULL, threads, &g->rest));
  *ok = g->rest;
  return TRI_OK;
}

tri_status tri_gemm_open(const tri_gemm_spec *spec, const tri_gemm *like, int threads, tri_gemm **out) {
  const int64_t k = spec->k, n = (k + PIECE_MOST - 1) / PIECE_MOST;
  tri_gemm_spec first = *spec;
  tri_status    st = TRI_OK;
  tri_gemm     *g = NULL;
  bool          ok = true;

  *out = NULL;
  TRI_ASSERT(n == 1 || !spec->add); /* chunks of a gradient are shorter */
  if (spec->dtype == TRI_F32 && n > 1) first.k = ((k + n - 1) / n + 15) / 16 * 16;
  TRI_TRY_DONE(open_piece(&first, k, like, threads, &g));
  if (g && first.k < k) TRI_TRY_DONE(open_behind(g, k, like, threads, &ok));
  if (!ok && !like)
    TRI_FAIL_DONE(TRI_EDEVICE, "%s has no sum of products of %lld steps on this processor",
                  tri_gemm_library(), (long long)first.k);
  if (!ok) goto done;
  *out = g;
  g = NULL;
done:
  tri_gemm_close(&g);
  return st;
}

static void close_parts(tri_gemm *x) {
  for (int i = 0; x->slots && i < x->threads; i++) {
    const dnnl_memory_t held[] = {x->slots[i].a, x->slots[i].b, x->slots[i].c, x->slots[i].scratch,
                                  x->slots[i].from};
    for (int j = 0; j < 5; j++)
      if (held[j]) dnnl_memory_destroy(held[j]);
    if (x->slots[i].stream) dnnl_stream_destroy(x->slots[i].stream);
  }
  TRI_FREE(x->slots);
  if (x->run) dnnl_primitive_destroy(x->run);
  if (x->pack) dnnl_primitive_destroy(x->pack);
  desc_close(&x->a);
  desc_close(&x->b);
  desc_close(&x->c);
  desc_close(&x->from);
  if (x->engine) dnnl_engine_destroy(x->engine);
}

void tri_gemm_close(tri_gemm **g) {
  if (!*g) return;
  tri_gemm_close(&(*g)->rest);
  close_parts(*g);
  TRI_FREE(*g);
}

tri_status tri_gemm_native(tri_dtype dtype, bool *out) {
  /* Any shape will do. In bf16 only kernels generated for the processor are fast. */
  tri_gemm   g = {.spec = {.m = 16, .n = 64, .k = 64, .dtype = dtype}, .a_row = 64};
  tri_status st = TRI_OK;
  *out = dtype == TRI_F32;
  if (*out || dtype == TRI_F16) return TRI_OK;
  DNN_DONE(dnnl_engine_create(&g.engine, dnnl_cpu, 0));
  TRI_TRY_DONE(open_run(&g, NULL));
  *out = g.generated;
done:
  close_parts(&g);
  return st;
}

size_t tri_gemm_packed_bytes(const tri_gemm *g) {
  return g->packed_bytes * (size_t)(1 + g->n_more) + (g->rest ? g->rest->packed_bytes : 0);
}

/* Returns the bytes for one piece's result before it is added to c, or 0 with a single piece. */
static size_t added_bytes(const tri_gemm *g) {
  return g->n_more || g->rest ? round64((size_t)(g->spec.m * g->spec.n) * sizeof(float)) : 0;
}

size_t tri_gemm_scratch_bytes(const tri_gemm *g) {
  const size_t rest = g->rest ? g->rest->scratch_bytes : 0;

  return added_bytes(g) + (rest > g->scratch_bytes ? rest : g->scratch_bytes);
}

static bool pack_piece(tri_gemm *g, int thread, void *packed, const void *b, void *scratch) {
  slot                 *s = &g->slots[thread];
  const dnnl_exec_arg_t args[] = {
      {DNNL_ARG_FROM, s->from}, {DNNL_ARG_TO, s->b}, {DNNL_ARG_SCRATCHPAD, s->scratch}};
  return dnnl_memory_set_data_handle(s->from, (void *)b) == dnnl_success &&
         dnnl_memory_set_data_handle(s->b, packed) == dnnl_success &&
         (!s->scratch || dnnl_memory_set_data_handle(s->scratch, scratch) == dnnl_success) &&
         dnnl_primitive_execute(g->pack, s->stream, s->scratch ? 3 : 2, args) == dnnl_success;
}

bool tri_gemm_pack(tri_gemm *g, int thread, void *packed, const void *b, void *scratch) {
  const size_t piece = (size_t)(g->spec.k * g->spec.b_row) * tri_dtype_bytes(g->spec.dtype);
  const char  *from = b;
  char        *to = packed;

  for (int64_t i = 0; i <= g->n_more; i++, from += piece, to += g->packed_bytes)
    if (!pack_piece(g, thread, to, from, scratch)) return false;
  return !g->rest || pack_piece(g->rest, thread, to, from, scratch);
}

static bool run_piece(tri_gemm *g, int thread, float *c, const void *a, const void *packed, void *scratch) {
  slot                 *s = &g->slots[thread];
  const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, s->a},
                                  {DNNL_ARG_WEIGHTS, s->b},
                                  {DNNL_ARG_DST, s->c},
                                  {DNNL_ARG_SCRATCHPAD, s->scratch}};
  return dnnl_memory_set_data_handle(s->a, (void *)a) == dnnl_success &&
         dnnl_memory_set_data_handle(s->b, (void *)packed) == dnnl_success &&
         dnnl_memory_set_data_handle(s->c, c) == dnnl_success &&
         (!s->scratch || dnnl_memory_set_data_handle(s->scratch, scratch) == dnnl_success) &&
         dnnl_primitive_execute(g->run, s->stream, s->scratch ? 4 : 3, args) == dnnl_success;
}

static bool add_piece(tri_gemm *g, int thread, float *restrict c, float *restrict own, const void *a,
                      const void *packed, void *scratch) {
  const int64_t n = g->spec.m * g->spec.n;

  if (!run_piece(g, thread, own, a, packed, scratch)) return false;
#pragma omp simd
  for (int64_t i = 0; i < n; i++) c[i] += own[i];
  return true;
}

bool tri_gemm_run(tri_gemm *g, int thread, float *c, const void *a, const void *packed, void *scratch) {
  const size_t piece = (size_t)g->spec.k * tri_dtype_bytes(g->spec.dtype);
  const char  *from = (const char *)a, *b = packed;
  char        *library = (char *)scratch + added_bytes(g);

  if (!run_piece(g, thread, c, from, b, library)) return false;
  for (int64_t i = 0; i < g->n_more; i++)
    if (!add_piece(g, thread, c, scratch, from += piece, b += g->packed_bytes, library)) return false;
  return !g->rest || add_piece(g->rest, thread, c, scratch, from + piece, b + g->packed_bytes, library);
}

#endif
