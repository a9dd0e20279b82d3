/* linear.c - the linear_* kernels, as blocks, tiles and threads around products of fixed shape. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "linear_rows.h"

#include <string.h>

/* Columns of a block. With 128 the library is fastest, and a tile of the result stays near the core. 64 makes
 * several blocks of small weights too. Measured: oneDNN 2.6.3. The width never depends on the number of
 * threads, because some libraries give other bits in a block of another width. */
enum { BLOCK_WIDE = 128, BLOCK_NARROW = 64, BLOCK_UNIT = 32 };
/* Rows that share one read of a block. Their x and the block fit the second-level cache. Chosen. */
enum { GROUP_ROWS = 256 };

static void product_close(tri_linear_product *p) {
  for (int kind = 0; kind < 2; kind++)
    for (int t = TRI_N_TILES - 1; t >= 0; t--) tri_gemm_close(&p->tile[kind][t]);
}

static int64_t block_cols(const tri_linear_product *p, int64_t block) {
  return tri_min(p->width, p->n - block * p->width);
}

static bool block_narrow(const tri_linear_product *p, int64_t block) {
  return block_cols(p, block) < p->width;
}
static int block_kind(const tri_linear_product *p, int64_t block) {
  return !p->filled && block_narrow(p, block);
}

/* Returns whether a tile may be padded with rows of zeros. The highest one may only if it is the only one. */
static bool may_pad(const tri_linear_product *p, int kind, int t) {
  for (int i = 0; i < TRI_N_TILES; i++)
    if (i != t && p->use[kind][i]) return i < t;
  return true;
}

/* Fills pick[left], the first tile of the cheapest sequence of tiles for `left` rows. A tile of h rows costs
 * about h + 2, and a little more if rows must be copied first. Measured: oneDNN 2.6.3, bf16. */
static void plan_rows(tri_linear_product *p, int kind) {
  int cost[TRI_TILE_ROWS + 1] = {0};
  for (int left = 1; left <= TRI_TILE_ROWS; left++) {
    cost[left] = INT32_MAX;
    for (int t = 0; t < TRI_N_TILES; t++) {
      const int h = tri_tile_rows[t], c = h + 2 + (h > left ? 1 : cost[left - h]);
      if (!p->use[kind][t] || (h > left && !may_pad(p, kind, t)) || c >= cost[left]) continue;
      cost[left] = c;
      p->pick[kind][left] = (uint8_t)t;
    }
  }
}

/* Returns the width of blocks of nearly equal width, a multiple of 32. */
static int64_t block_width(int64_t n) {
  const int64_t even = tri_ceil_div(n, tri_ceil_div(n, n >= 2 * BLOCK_WIDE ? BLOCK_WIDE : BLOCK_NARROW));
  return tri_min(n, tri_ceil_div(even, BLOCK_UNIT) * BLOCK_UNIT);
}

/* b_row and b_col give the layout of b for packing (tri_gemm_spec). b_row 0 means dense rows with one block's
 * columns. With `exact`, only tiles that keep row invariance in a trial are used. bwd_x does not promise row
 * invariance. With `filled`, all blocks have this width, and a last one is filled with zeros. The tiles of
 * `whole`, if it is not NULL, are used alone. */
static tri_status product_open(tri_linear *l, tri_linear_product *p, int64_t n, int64_t k, int64_t b_row,
                               int64_t b_col, bool exact, int64_t filled, const tri_linear_product *whole) {
  p->n = n;
  p->k = k;
  p->width = filled ? filled : block_width(n);
  p->n_blocks = tri_ceil_div(n, p->width);
  p->filled = filled && n % p->width;
  for (int kind = 0; kind < (n % p->width && !filled ? 2 : 1); kind++) {
    tri_gemm    **tile = p->tile[kind];
    tri_gemm_spec spec = {.n = kind ? n % p->width : p->width, .k = k, .dtype = l->work, .b_col = b_col};
    spec.b_row = b_row ? b_row : spec.n;
    for (int t = 0; t < TRI_N_TILES; t++) {
      spec.m = tri_tile_rows[t];
      TRI_TRY(tri_gemm_open(&spec, t ? tile[0] : NULL, l->threads, &tile[t]));
      /* All row counts use the same instructions as the highest tile, the fastest one. */
      p->use[kind][t] = tile[t] && tri_gemm_alike(tile[t], tile[0]);
      if (whole) p->use[kind][t] = p->use[kind][t] && whole->use[0][t];
      if (tile[t]) tri_raise(&l->scratch_bytes, tri_gemm_scratch_bytes(tile[t]));
    }
    if (exact && !whole) TRI_TRY(tri_linear_choose_tiles(l, p, kind));
    plan_rows(p, kind);
  }
  p->block_bytes = tri_gemm_packed_bytes(p->tile[0][0]);
  p->all_bytes = (size_t)(n / p->width) * p->block_bytes;
  if (n % p->width) p->all_bytes += p->filled ? p->block_bytes : tri_gemm_packed_bytes(p->tile[1][0]);
  tri_raise(&l->c_bytes, tri_round64((size_t)(TRI_TILE_ROWS * p->width) * sizeof(float)));
  /* The staging area holds padded rows, converted rows, and a block converted before packing. */
  const int64_t rows = l->work != l->dtype || may_pad(p, 0, 0) || (p->tile[1][0] && may_pad(p, 1, 0))
                           ? TRI_TILE_ROWS
                           : tri_tile_rows[1];
  tri_raise(&l->stage_bytes, tri_round64((size_t)(rows * k) * tri_dtype_bytes(l->work)));
  if (l->work != l->dtype || p->filled)
    tri_raise(&l->stage_bytes, tri_round64((size_t)(k * p->width) * sizeof(float)));
  return TRI_OK;
}

/* Converts or fills block `block` of b [k,n] if needed, then packs it. b points to the block's first element.
 * `stride` is the distance of b's rows if they are not dense. */
static bool pack_block(const tri_linear *l, const tri_linear_product *p, int thread, int64_t block,
                       char *packed, const char *b, int64_t rows, int64_t cols, int64_t stride) {
  const bool fill = p->filled && block_narrow(p, block), copy = fill || l->work != l->dtype;
  char      *stage = tri_linear_stage(l, thread);
  if (copy) tri_linear_copy(l, stage, b, rows, fill ? p->width : rows, cols, stride);
  return tri_gemm_pack(p->tile[block_kind(p, block)][0], thread, packed + (size_t)block * p->block_bytes,
                       copy ? stage : b, tri_linear_scratch(l, thread));
}

tri_status tri_cpu_linear_pack(tri_stream *s, tri_linear *l, void *packed_fwd, void *packed_bwd, tri_in w,
                               int part, int n_part) {
  (void)s;
  TRI_ASSERT(w->dtype == l->dtype && w->ndim == 2 && w->dim[0] == l->n_out && w->dim[1] == l->n_in);
  TRI_ASSERT(l->workspace && (l->backward || !packed_bwd));
  /* Non-temporal stores need this alignment. */
  TRI_ASSERT((uintptr_t)packed_fwd % 64 == 0 && (uintptr_t)packed_bwd % 64 == 0);
  TRI_ASSERT(part >= 0 && part < n_part);
  const size_t  size = tri_dtype_bytes(l->dtype);
  const int64_t n_fwd = packed_fwd ? l->fwd.n_blocks : 0, n_all = n_fwd + (packed_bwd ? l->bwd.n_blocks : 0);
  const char   *data = w->data;
  bool          ok = true;
  if (tri_amx_in(l)) {
    tri_amx_pack(l, packed_fwd, packed_bwd, w->data, part, n_part);
    return TRI_OK;
  }
  if (tri_vec_in(l)) {
    tri_vec_pack(l, packed_fwd, packed_bwd, w->data, part, n_part);
    return TRI_OK;
  }
#pragma omp parallel num_threads(l->threads) reduction(&& : ok)
  {
    const int thread = tri_linear_begin();
#pragma omp for schedule(static)
    for (int64_t i = n_all * part / n_part; i < n_all * (part + 1) / n_part; i++) {
      if (i < n_fwd) { /* columns of b are rows of w */
        const char *at = data + (size_t)(i * l->fwd.width * l->n_in) * size;
        ok =
            pack_block(l, &l->fwd, thread, i, packed_fwd, at, block_cols(&l->fwd, i), l->n_in, l->n_in) && ok;
      } else {
        const int64_t j = i - n_fwd;
        const char   *at = data + (size_t)(j * l->bwd.width) * size;
        ok = pack_block(l, &l->bwd, thread, j, packed_bwd, at, l->n_out, block_cols(&l->bwd, j), l->n_in) &&
             ok;
      }
    }
  }
  return ok ? TRI_OK : tri_linear_failed(l, "packing");
}

/* ---- y = x b, for fwd and bwd_x ---- */

/* t[n] += elements of x from `at` on. */
static void add_row(float *restrict t, tri_in x, int64_t at, int64_t n) {
  if (x->dtype == TRI_F32) {
    const float *restrict b = (const float *)x->data + at;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) t[i] += b[i];
  } else if (x->dtype == TRI_BF16) {
    const uint16_t *restrict b = (const uint16_t *)x->data + at;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) t[i] += tri_bf16_to_f32(b[i]);
  } else {
    const uint16_t *restrict b = (const uint16_t *)x->data + at;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) t[i] += tri_f16_to_f32(b[i]);
  }
}

/* Writes columns [col, col + n) of row `row` of y from t[n], and changes t. */
static void store_row(const tri_linear_call *c, float *restrict t, int64_t row, int64_t col, int64_t n) {
  if (c->bias) add_row(t, c->bias, col, n);
  const int64_t at = row * c->p->n + col;
  if (c->y->dtype == TRI_F32) {
    float       *y = (float *)c->y->data + at;
    const float *base = c->base ? (const float *)c->base->data + at : NULL;
    if (!base) memcpy(y, t, (size_t)n * sizeof *y);
#pragma omp simd
    for (int64_t i = 0; i < (base ? n : 0); i++) y[i] = base[i] + t[i];
    return;
  }
  uint16_t *restrict y = (uint16_t *)c->y->data + at;
  if (c->base) add_row(t, c->base, at, n);
  if (c->y->dtype == TRI_F16) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = tri_f32_to_f16(t[i]);
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; i++) y[i] = tri_f32_to_bf16(t[i]);
}

/* Computes rows [row, end) of one block. */
static bool run_rows(const tri_linear *l, const tri_linear_call *c, int thread, int64_t block, int64_t row,
                     int64_t end) {
  const tri_linear_product *p = c->p;
  const int                 kind = block_kind(p, block);
  const int64_t             n = block_cols(p, block), ld = p->filled ? p->width : n;
  const char               *packed = c->packed + (size_t)block * p->block_bytes;
  float                    *t = (float *)(void *)tri_linear_own(l, thread);
  for (int64_t step; row < end; row += step) {
    const int   pick = p->pick[kind][tri_min(end - row, TRI_TILE_ROWS)], height = tri_tile_rows[pick];
    const char *x = c->x + (size_t)(row * p->k) * tri_dtype_bytes(l->dtype);
    step = tri_min(height, end - row);
    if (step < height || l->work != l->dtype) {
      tri_linear_copy(l, tri_linear_stage(l, thread), x, step, height, p->k, p->k);
      x = tri_linear_stage(l, thread);
    }
    if (!tri_gemm_run(p->tile[kind][pick], thread, t, x, packed, tri_linear_scratch(l, thread))) return false;
    for (int64_t r = 0; r < step; r++) store_row(c, t + r * ld, row + r, block * p->width, n);
  }
  return true;
}

/* One of the M * n_blocks places of a call's work. Places are ordered by groups of rows, then by blocks, then
 * by rows. */
typedef struct place {
  int64_t group_row, group_rows, block, row; /* row in the group */
} place;

static place find_place(const tri_linear_call *c, int64_t at) {
  const int64_t first = at / (GROUP_ROWS * c->p->n_blocks) * GROUP_ROWS,
                rows = tri_min(GROUP_ROWS, c->rows - first);
  const int64_t in_group = at - first * c->p->n_blocks;
  return (place){first, rows, in_group / rows, in_group % rows};
}

/* Returns the beginning of thread i's part, of n parts. Large parts do not begin in the middle of a tile. */
static int64_t part_begin(const tri_linear_call *c, int64_t i, int64_t n) {
  const int64_t all = c->rows * c->p->n_blocks, part = all / n, at = all * i / n;
  const int64_t whole = part >= 16 * TRI_TILE_ROWS ? TRI_TILE_ROWS : part >= 256 ? 16 : part >= 16 ? 4 : 1;
  return i == n ? all : at - find_place(c, at).row % whole;
}

static tri_status run_call(const tri_linear *l, const tri_linear_call *c) {
  /* Chosen. Below some ten thousand multiplications, waking other threads costs more than it saves. */
  const bool alone = (double)c->rows * (double)c->p->n * (double)c->p->k < 3e4;
  bool       ok = true;
  TRI_ASSERT(l->workspace);
  if (c->rows == 0) return TRI_OK;
  if (tri_amx_in(l)) {
    tri_amx_run(l, c);
    return TRI_OK;
  }
  if (tri_vec_in(l)) {
    tri_vec_run(l, c);
    return TRI_OK;
  }
#pragma omp parallel num_threads(alone ? 1 : l->threads) reduction(&& : ok)
  {
    const int     thread = tri_linear_begin(), n = omp_get_num_threads();
    const int64_t end = part_begin(c, thread + 1, n);
    int64_t       at = part_begin(c, thread, n);
    while (at < end && ok) {
      const place   q = find_place(c, at);
      const int64_t rows = tri_min(q.group_rows - q.row, end - at), row = q.group_row + q.row;
      ok = run_rows(l, c, thread, q.block, row, row + rows);
      at += rows;
    }
  }
  return ok ? TRI_OK : tri_linear_failed(l, "the product");
}

static void assert_shape(tri_in t, int64_t rows, int64_t cols) {
  TRI_ASSERT(t->ndim == 2 && t->dim[0] == rows && t->dim[1] == cols);
}

tri_status tri_cpu_linear_fwd(tri_stream *s, tri_linear *l, const void *packed_fwd, tri_out y, tri_in x,
                              tri_in bias, tri_in base) {
  (void)s;
  const tri_linear_call c = {&l->fwd, packed_fwd, x->data, x->dim[0], y, bias, base};
  assert_shape(x, c.rows, l->n_in);
  assert_shape(y, c.rows, l->n_out);
  TRI_ASSERT(x->dtype == l->dtype && (y->dtype == TRI_F32 || y->dtype == l->dtype));
  TRI_ASSERT(!bias || (bias->dim[0] == l->n_out && tri_dtype_computes(bias->dtype)));
  if (base) assert_shape(base, c.rows, l->n_out);
  TRI_ASSERT(!base || base->dtype == y->dtype);
  return run_call(l, &c);
}

tri_status tri_cpu_linear_bwd_x(tri_stream *s, tri_linear *l, const void *packed_bwd, tri_out dx, tri_in dy,
                                bool add) {
  (void)s;
  const tri_linear_call c = {&l->bwd, packed_bwd, dy->data, dy->dim[0], dx, NULL, add ? dx : NULL};
  assert_shape(dy, c.rows, l->n_out);
  assert_shape(dx, c.rows, l->n_in);
  TRI_ASSERT(l->backward && dy->dtype == l->dtype && (dx->dtype == TRI_F32 || dx->dtype == l->dtype));
  return run_call(l, &c);
}

/* ---- open, size, check ---- */

/* The most rows of linear_check. It multiplies the first block and, if it is narrower, the last one. */
enum { CHECK_ROWS = 100 };
static const int check_rows[] = {1, 2, 3, 15, 16, 17, 63, 64, 65, CHECK_ROWS};

static size_t check_x_bytes(const tri_linear *l) {
  return tri_round64((size_t)(CHECK_ROWS * l->n_in) * tri_dtype_bytes(l->dtype));
}

static size_t check_y_bytes(const tri_linear *l) {
  return tri_round64((size_t)(CHECK_ROWS * l->fwd.width) * sizeof(float));
}

static tri_status check_block(const tri_linear *l, const char *packed_fwd, int64_t block) {
  char              *x = tri_linear_shared(l), *judge = x + check_x_bytes(l), *y = judge + check_y_bytes(l);
  tri_linear_product one = l->fwd;
  one.n = block_cols(&l->fwd, block);
  one.n_blocks = 1;
  if (block_kind(&l->fwd, block)) { /* a product with nothing but the narrower block */
    one.width = one.n;
    memcpy(one.tile[0], one.tile[1], sizeof one.tile[0]);
    memcpy(one.pick[0], one.pick[1], sizeof one.pick[0]);
  }
  packed_fwd += (size_t)block * l->fwd.block_bytes;
  tri_tensor whole = tri_view2(judge, TRI_F32, CHECK_ROWS, one.n), part = tri_view2(y, TRI_F32, 0, one.n);
  const tri_linear_call all = {&one, packed_fwd, x, CHECK_ROWS, &whole, NULL, false};
  TRI_TRY(run_call(l, &all));
  for (size_t i = 0; i < sizeof check_rows / sizeof *check_rows; i++) {
    const int64_t rows = part.dim[0] = check_rows[i],
                  first = CHECK_ROWS - rows; /* the last rows, at another place */
    const size_t          skip = (size_t)first * (size_t)one.n * sizeof(float);
    const tri_linear_call few = {&one, packed_fwd, x + (size_t)(first * l->n_in) * tri_dtype_bytes(l->dtype),
                                 rows, &part,      NULL,
                                 false};
    TRI_TRY(run_call(l, &few));
    if (memcmp(y, judge + skip, (size_t)(rows * one.n) * sizeof(float)) != 0)
      TRI_FAIL(TRI_EDEVICE,
               "%s: a row times the [%lld,%lld] weight gives other bits among %lld rows than among %d rows. "
               "Sampling and training would differ. Use another version of the library, or set run.sampler: "
               "rescore",
               tri_gemm_library(), (long long)l->n_out, (long long)l->n_in, (long long)rows, CHECK_ROWS);
  }
  return TRI_OK;
}

tri_status tri_cpu_linear_check(tri_stream *s, tri_linear *l, const void *packed_fwd) {
  (void)s;
  uint32_t noise = 1;
  TRI_ASSERT(l->workspace);
  tri_linear_noise(l->dtype, tri_linear_shared(l), CHECK_ROWS * l->n_in, &noise);
  TRI_TRY(check_block(l, packed_fwd, 0));
  if (block_kind(&l->fwd, l->fwd.n_blocks - 1)) TRI_TRY(check_block(l, packed_fwd, l->fwd.n_blocks - 1));
  if (l->unlike)
    TRI_FAIL(
        TRI_EDEVICE,
        "%s: the columns of a [%lld,%lld] weight have other bits in the [%lld,%lld] weight they are part "
        "of. Divided sampling and training would differ. Use another version of the library, or set "
        "run.sampler: rescore",
        tri_gemm_library(), (long long)l->n_out, (long long)l->n_in, (long long)l->n_whole,
        (long long)l->n_in);
  return TRI_OK;
}

/* Opens l->fwd. Its columns have the same bits wherever they lie, so that a part may have them. If the
 * library uses other instructions for the last columns of an odd width (oneDNN 2.6.3 in f32 on AVX2), blocks
 * of a multiple of BLOCK_UNIT columns are filled with zeros. */
static tri_status open_forward(tri_linear *l, const tri_linear_product *whole) {
  const int64_t n = l->n_out, k = l->n_in;
  if (whole) {
    TRI_TRY(product_open(l, &l->fwd, n, k, 1, k, true, whole->width, whole));
    return tri_linear_try_columns(l, whole);
  }
  TRI_TRY(product_open(l, &l->fwd, n, k, 1, k, true, 0, NULL));
  if (n % BLOCK_UNIT == 0) return TRI_OK;
  TRI_TRY(tri_linear_try_columns(l, &l->fwd));
  if (!l->unlike) return TRI_OK;
  l->unlike = false; /* a part's check finds out if its columns still differ */
  product_close(&l->fwd);
  return product_open(l, &l->fwd, n, k, 1, k, true, tri_ceil_div(block_width(n), BLOCK_UNIT) * BLOCK_UNIT,
                      NULL);
}

static tri_status open_products(tri_linear *l, const tri_linear *whole) {
  bool native = false;
  l->amx = tri_amx_chosen(l->dtype);
  TRI_ASSERT(!whole || whole->amx == l->amx);
  if (tri_amx_in(l)) {
    tri_amx_open(l);
    return TRI_OK;
  }
  TRI_TRY(tri_gemm_native(l->dtype, &native));
  l->vec = tri_vec_chosen(native ? l->dtype : TRI_F32);
  TRI_ASSERT(!whole || whole->vec == l->vec);
  if (tri_vec_in(l)) {
    l->widen = l->dtype == TRI_F16 ? tri_linear_widen_f16 : tri_linear_widen_bf16;
    l->store = store_row;
    tri_vec_open(l);
    return TRI_OK;
  }
  l->work = native ? l->dtype : TRI_F32;
  TRI_TRY(open_forward(l, whole ? &whole->fwd : NULL));
  if (!l->backward) return TRI_OK;
  TRI_TRY(product_open(l, &l->bwd, l->n_in, l->n_out, l->work == l->dtype ? l->n_in : 0, 1, false, 0, NULL));
  return tri_gradient_open(l);
}

tri_status tri_cpu_linear_open(tri_device *d, const tri_linear_spec *spec, tri_linear **out) {
  const tri_linear *whole = spec->whole;
  tri_status        st = TRI_OK;
  tri_linear       *l = NULL;
  *out = NULL;
  TRI_ASSERT(spec->n_out > 0 && spec->n_in > 0 && tri_dtype_computes(spec->dtype));
  TRI_ASSERT(!whole || (whole->n_out >= spec->n_out && whole->n_in == spec->n_in &&
                        whole->dtype == spec->dtype && !spec->backward));
  TRI_TRY_DONE(TRI_ALLOC(l, 1));
  l->n_out = spec->n_out;
  l->n_in = spec->n_in;
  l->dtype = spec->dtype;
  l->backward = spec->backward;
  l->n_whole = whole ? whole->n_out : 0;
  l->threads = d->threads;
  TRI_TRY_DONE(open_products(l, whole));
  tri_raise(&l->shared_bytes, check_x_bytes(l) + 2 * check_y_bytes(l));
  *out = l;
  l = NULL;
done:
  tri_cpu_linear_close(&l);
  return st;
}

tri_status tri_cpu_linear_close(tri_linear **l) {
  if (!*l) return TRI_OK;
  product_close(&(*l)->fwd);
  product_close(&(*l)->bwd);
  tri_gradient_close(&(*l)->grad);
  TRI_FREE(*l);
  return TRI_OK;
}

tri_status tri_cpu_linear_size(const tri_linear *l, tri_linear_bytes *out) {
  const size_t own = l->c_bytes + l->stage_bytes + l->scratch_bytes;
  *out = (tri_linear_bytes){l->fwd.all_bytes, l->bwd.all_bytes, own * (size_t)l->threads + l->shared_bytes};
  return TRI_OK;
}

tri_status tri_cpu_linear_bind(tri_linear *l, void *workspace, size_t bytes) {
  tri_linear_bytes need;
  TRI_TRY(tri_cpu_linear_size(l, &need));
  TRI_ASSERT(workspace && bytes >= need.workspace && (uintptr_t)workspace % 64 == 0);
  l->workspace = workspace;
  return TRI_OK;
}
