/* kernels.h - the list of operations a back end provides: the contract between model and machine.
 *
 * Letters used in every shape below and in every comment of the project:
 *   N tokens in a packed batch   S sequences        V vocabulary    C hidden width   F mlp width
 *   H query heads   G key/value heads   D head width   L layers   B decode rows   P pages   K chosen rows
 *   M rows of a product
 *   A the compute type (f32, bf16 or f16) of an array; E = (H + 2 G) D, the width of a row [q | k | v]
 *
 * Contract of every kernel. Row invariance: row i of an output has the same bits for every number of rows,
 * every position in the batch and every thread count, and attn_decode gives the bits of attn_fwd's row. Only
 * linear_bwd_x may add up a row in another order among other rows, or with more threads; the same call gives
 * the same bits again, and of gradients no more is promised.
 * `_fwd` overwrites its outputs; `_bwd` overwrites activation gradients unless the line says "added", and
 * adds into weight gradients, which are f32 (linear_bwd_w only if asked to). Sums run in f32 (or wider)
 * whatever the storage type. N = 0 is legal. No kernel allocates. Shapes are asserted, not reported: a wrong
 * shape is our own mistake. Not collective, all of them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_KERNELS_H
#define TRI_KERNELS_H

#include "base/tensor.h"
#include "device.h"

typedef const tri_tensor *tri_in;
typedef tri_tensor       *tri_out;

/* Tokens in one page of the key/value cache; the key tile of every attention kernel is one page or two.
 * Chosen: two AVX-512 registers of f32. */
enum { TRI_PAGE = 32 };

typedef struct tri_heads { /* query heads H, key/value heads G (H % G == 0), head width D (even) */
  int H, G, D;
} tri_heads;

/* How attention meets its keys: scores are `scale` times q k, then softcap * tanh(score / softcap). */
typedef struct tri_attn_rule {
  tri_heads heads;
  float     scale;   /* > 0 */
  float     softcap; /* 0: none */
  int64_t   window;  /* token i of a sequence sees its keys > i - window; 0: all up to its own */
  int64_t   longest; /* for attn_bwd: rows of the batch's longest sequence; 0: not known */
} tri_attn_rule;

/* RMSNorm: x rstd times (plus + w), rstd = 1 / sqrt(mean of x^2 + eps). */
typedef struct tri_norm_rule {
  float eps, plus;
} tri_norm_rule;

/* Whether norms of q and k with weights of these lengths are of all heads as one row. */
static inline bool tri_norms_whole(const tri_heads *h, int64_t wq, int64_t wk) {
  TRI_ASSERT((wq == h->D && wk == h->D) || (wq == (int64_t)h->H * h->D && wk == (int64_t)h->G * h->D));
  return wq != h->D || wk != h->D;
}

/* What gates a gated product. */
typedef enum { TRI_ACT_SILU, TRI_ACT_GELU /* by tanh */ } tri_act;

/* Into how many parts attn_bwd may divide the H / G query heads of a key/value head, each part with sums of
 * its own: as few as make 8 with the key/value heads, at most one for each query head. A function of the
 * heads alone, so that gradients depend on nothing else. Chosen: see gpu/attention/attention_bwd_tile.cuh. */
static inline int tri_attn_parts(const tri_heads *h) {
  int group = h->H / h->G, want = (8 + h->G - 1) / h->G, each = (group + want - 1) / want;
  return (group + each - 1) / each;
}
/* The elements of attn_bwd's `work` for N tokens: dk and dv of each part, f32 [parts,N,2,G,D], then one
 * [N,H]. */
static inline int64_t tri_attn_work(const tri_heads *h, int64_t N) {
  return N * ((int64_t)tri_attn_parts(h) * 2 * h->G * h->D + h->H);
}

/* Decoding few rows of long contexts leaves most of a GPU idle, as a block has a key/value head of a row; so
 * attn_decode may spread each of them over many blocks, with the same bits. Whether the device is to do so
 * for B rows of which the longest has `longest` tokens. The elements of attn_decode's `work` for B rows of P
 * pages, f32: for each head its scores, pages by twos, and the largest of each two. */
static inline bool tri_attn_spreads(const tri_device_advice *a, const tri_heads *h, int64_t B,
                                    int64_t longest) {
  return B * h->G <= a->spread_heads && longest > a->spread_tokens;
}
static inline int64_t tri_attn_spread_work(const tri_heads *h, int64_t B, int64_t P) {
  return B * h->H * ((P + 1) / 2) * (2 * TRI_PAGE + 1);
}

/* The same, and what more a device can use of rows in type A. */
static inline int64_t tri_attn_workspace(const tri_device_advice *a, const tri_heads *h, tri_dtype A,
                                         int64_t N) {
  return tri_attn_work(h, N) + (A == TRI_BF16 ? (int64_t)(a->attn_bytes / sizeof(float)) : 0);
}

/* How one weight shape [n_out, n_in] is multiplied in type `dtype`: opened once per shape, used by every
 * layer that has it. Weights are packed into the back end's own order before use. */
typedef struct tri_linear tri_linear;
typedef struct tri_linear_spec {
  int64_t   n_out, n_in;
  tri_dtype dtype;    /* TRI_F32, TRI_BF16 or TRI_F16: of weights and inputs */
  bool      backward; /* bwd_x and bwd_w will be called */
  /* fwd may add a sum in another order for another M, where that is quicker; linear_check is not called. On
   * the CPU it never is, and rows have the same bits all the same. */
  bool any_order;
} tri_linear_spec;
typedef struct tri_linear_bytes {
  size_t fwd, bwd;  /* packed weights for fwd, and for bwd_x. 0: w itself is passed instead */
  size_t workspace; /* shared by all linears of a device: the largest counts */
} tri_linear_bytes;

/* What the sampler does with a row of logits. temperature 0: the largest logit (lowest id on a tie),
 * log-probability at temperature 1. Else logits / temperature, then top_k (0 = off), then top_p (1 = off;
 * keeps the token that crosses p), then one keyed uniform number (rng.h, TRI_RNG_SAMPLE). */
typedef struct tri_sample_rule {
  float    temperature, top_p;
  int      top_k;
  uint64_t seed;
} tri_sample_rule;

/* One optimizer step's numbers, formula.h tri_adamw. decay is lr * weight_decay for this tensor (0: none).
 * scale multiplies the gradient (clipping). */
typedef struct tri_adamw_rule {
  float   lr, beta1, beta2, eps, decay, scale;
  int64_t step; /* 1-based */
} tri_adamw_rule;

/* ---- products: y[M,n_out] = x[M,n_in] W^T (+ bias[n_out]) (+ base[M,n_out]) ---- */

typedef tri_status tri_linear_open_fn(tri_device *d, const tri_linear_spec *spec, tri_linear **out);
typedef tri_status tri_linear_close_fn(tri_linear **l);
typedef tri_status tri_linear_size_fn(const tri_linear *l, tri_linear_bytes *out);
typedef tri_status tri_linear_bind_fn(tri_linear *l, void *workspace, size_t bytes);
/* TRI_EDEVICE with a message if fwd rows depend on M on this machine. */
typedef tri_status tri_linear_check_fn(tri_stream *s, tri_linear *l, const void *packed_fwd);
/* NULL for a form of 0 bytes; else aligned to 64 bytes. Part `part` of n_part: all of them, in any order, by
 * whatever process, make a form whole. */
typedef tri_status tri_linear_pack_fn(tri_stream *s, tri_linear *l, void *packed_fwd, void *packed_bwd,
                                      tri_in w, int part, int n_part);
/* y f32 or A; bias A, or f32 where y is; base NULL, or of y's type and maybe y itself. Exactly M rows are
 * read and written. */
typedef tri_status tri_linear_fwd_fn(tri_stream *s, tri_linear *l, const void *packed_fwd, tri_out y,
                                     tri_in x, tri_in bias, tri_in base);
/* dx[M,n_in] f32 or A = dy A W (+ dx if add). */
typedef tri_status tri_linear_bwd_x_fn(tri_stream *s, tri_linear *l, const void *packed_bwd, tri_out dx,
                                       tri_in dy, bool add);
/* dw f32 [n_out,n_in] = dy^T x (+ dw if add). */
typedef tri_status tri_linear_bwd_w_fn(tri_stream *s, tri_linear *l, tri_out dw, tri_in dy, tri_in x,
                                       bool add);
/* Bias gradient: db f32 [n] += column sums of dy A [M,n]. */
typedef tri_status tri_colsum_fn(tri_stream *s, tri_out db, tri_in dy);

/* ---- layers ---- */

/* x f32 [N,C] = scale times table A [V,C] at token i32 [N]. bwd: dtable f32 [V,C] added. */
typedef tri_status tri_embed_fwd_fn(tri_stream *s, tri_out x, tri_in table, tri_in token, float scale);
typedef tri_status tri_embed_bwd_fn(tri_stream *s, tri_out dtable, tri_in dx, tri_in token, float scale);
/* y A [N,C], rstd f32 [N], x f32 [N,C], w A [C]. base f32 [N,C]: y is f32 (maybe base itself) and base comes
 * on top; NULL: none. bwd: dx f32 added, dw f32 [C] added (NULL: not wanted), dy A. */
typedef tri_status tri_rmsnorm_fwd_fn(tri_stream *s, tri_out y, tri_out rstd, tri_in x, tri_in w, tri_in base,
                                      const tri_norm_rule *rule);
typedef tri_status tri_rmsnorm_bwd_fn(tri_stream *s, tri_out dx, tri_out dw, tri_in dy, tri_in x, tri_in w,
                                      tri_in rstd, const tri_norm_rule *rule);
/* The same of each head of q (wq A [D]) and of k (wk A [D]), qkv A [N,E] in place; raw A [N,(H + G) D], what
 * they were, and rstd f32 [N,H + G] are kept for bwd (both NULL: not wanted). bwd: dqkv A [N,E] in place,
 * dwq and dwk f32 [D] added (both NULL: not wanted). With wq A [H D] and wk A [G D]: of all heads of q as one
 * row, and of k, rstd f32 [N,2], dwq and dwk as long as the weights. */
typedef tri_status tri_head_norm_fwd_fn(tri_stream *s, tri_out qkv, tri_out raw, tri_out rstd, tri_in wq,
                                        tri_in wk, const tri_heads *h, const tri_norm_rule *rule);
typedef tri_status tri_head_norm_bwd_fn(tri_stream *s, tri_out dqkv, tri_out dwq, tri_out dwk, tri_in raw,
                                        tri_in rstd, tri_in wq, tri_in wk, const tri_heads *h,
                                        const tri_norm_rule *rule);
/* qkv A [N,E] in place: q and k heads turned (halves convention of Hugging Face); pos i32 [N]; table f32
 * [positions,R]: R/2 cosines, then R/2 sines; the first R columns of a head are turned, R even and at most D,
 * the others stay. sign +1, or -1 for the gradient. */
typedef tri_status tri_rope_fn(tri_stream *s, tri_out qkv, tri_in pos, tri_in table, const tri_heads *h,
                               int sign);
/* y A [N,F] = act(g) * u, gu A [N,2F] = [g | u]. bwd: dgu A [N,2F]; y (NULL: not wanted) as in fwd. */
typedef tri_status tri_glu_fwd_fn(tri_stream *s, tri_out y, tri_in gu, tri_act act);
typedef tri_status tri_glu_bwd_fn(tri_stream *s, tri_out dgu, tri_out y, tri_in dy, tri_in gu, tri_act act);
/* Causal attention inside each sequence. o A [N,H*D], lse f32 [N,H], qkv A [N,E], cu i32 [S+1]. bwd: dqkv A
 * [N,E], work f32 [tri_attn_work(heads, N)], or as tri_attn_workspace says: any content. */
typedef tri_status tri_attn_fwd_fn(tri_stream *s, tri_out o, tri_out lse, tri_in qkv, tri_in cu,
                                   const tri_attn_rule *rule);
typedef tri_status tri_attn_bwd_fn(tri_stream *s, tri_out dqkv, tri_out work, tri_in dout, tri_in o,
                                   tri_in lse, tri_in qkv, tri_in cu, const tri_attn_rule *rule);
/* Cache pages: k_page A [P,G,D,TRI_PAGE] (keys transposed), v_page A [P,G,TRI_PAGE,D]; the order of elements
 * in a page and head is the back end's affair (bf16 on a CPU: attention_pairs.c). The k and v of row n of qkv
 * A [N,E] go to slot i32 [N] (page * TRI_PAGE + place; -1: nowhere). */
typedef tri_status tri_kv_put_fn(tri_stream *s, tri_out k_page, tri_out v_page, tri_in qkv, tri_in slot,
                                 const tri_heads *h);
/* rope with sign 1 and table f32 [positions,R], then kv_put, with their bits. */
typedef tri_status tri_rope_put_fn(tri_stream *s, tri_out qkv, tri_out k_page, tri_out v_page, tri_in pos,
                                   tri_in table, tri_in slot, const tri_heads *h);
/* Row b attends to the len i32 [B] newest tokens (its own among them) of pages table i32 [B,P]. work f32
 * [tri_attn_spread_work(heads, B, P)], any content: rows are spread over a GPU's blocks; NULL: they are not.
 * The bits are the same. */
typedef tri_status tri_attn_decode_fn(tri_stream *s, tri_out o, tri_out work, tri_in qkv, tri_in k_page,
                                      tri_in v_page, tri_in table, tri_in len, const tri_attn_rule *rule);
/* Of every row: rope_put's pos, table and slot, which is -1 or the place of its newest token; attn_decode's
 * table, len and work. */
typedef struct tri_step_at {
  tri_in  pos, turn, slot, table, len;
  tri_out work;
} tri_step_at;
/* rope_put, then attn_decode, with their bits in o and the pages; qkv is used up. */
typedef tri_status tri_attn_step_fn(tri_stream *s, tri_out o, tri_out qkv, tri_out k_page, tri_out v_page,
                                    const tri_step_at *at, const tri_attn_rule *rule);

/* What a step takes of the one before. token i32 [B] becomes drawn i32 [K] at from i32 [B], where that is not
 * -1. table i32 [B,P]: the page that holds place pos i32 [B] becomes that of slot i32 [B], where it is not
 * -1. */
typedef tri_status tri_decode_in_fn(tri_stream *s, tri_out token, tri_out table, tri_in drawn, tri_in from,
                                    tri_in pos, tri_in slot);

/* ---- loss and sampling ---- */

/* x f32 [K,V] in place: cap * tanh(x / cap). bwd: dx A [K,V] in place, times 1 - (y / cap)^2, y as fwd left
 * it. */
typedef tri_status tri_softcap_fwd_fn(tri_stream *s, tri_out x, float cap);
typedef tri_status tri_softcap_bwd_fn(tri_stream *s, tri_out dx, tri_in y, float cap);
/* logp, ent, lse f32 [K], of logits f32 [K,V] times inv_temperature; target i32 [K]. bwd: dlogits A [K,V] =
 * d/dlogits of sum(dlogp * logp + dent * ent). */
typedef tri_status tri_logp_fwd_fn(tri_stream *s, tri_out logp, tri_out ent, tri_out lse, tri_in logits,
                                   tri_in target, float inv_temperature);
typedef tri_status tri_logp_bwd_fn(tri_stream *s, tri_out dlogits, tri_in logits, tri_in target, tri_in lse,
                                   tri_in ent, tri_in dlogp, tri_in dent, float inv_temperature);
/* token i32 [B], logp f32 [B]: the bits logp_fwd gives; key i64 [B,3] = prompt, answer, position; work f32
 * [B,2*V]: any content. A row without a largest finite logit gives token 0 and logp NaN. */
typedef tri_status tri_sample_fn(tri_stream *s, tri_out token, tri_out logp, tri_out work, tri_in logits,
                                 tri_in key, const tri_sample_rule *rule);
/* y[K,C] = x[row[K],C]; dx[row[K],C] += dy[K,C] (rows distinct); f32. */
typedef tri_status tri_rows_get_fn(tri_stream *s, tri_out y, tri_in x, tri_in row);
typedef tri_status tri_rows_add_fn(tri_stream *s, tri_out dx, tri_in dy, tri_in row);

/* ---- flat arrays ---- */

/* y = a x + b y, f32 (b = 0 overwrites even NaN). */
typedef tri_status tri_axpby_fn(tri_stream *s, tri_out y, float a, tri_in x, float b);
/* Between f32 and a 16-bit type. */
typedef tri_status tri_cast_fn(tri_stream *s, tri_out y, tri_in x);
/* sum f64 [1] += squares of x f32, in an order that does not depend on the thread count. */
typedef tri_status tri_sumsq_fn(tri_stream *s, double *sum, tri_in x);
/* w, m, v f32 [n] updated with g f32 [n]; half bf16 or f16 [n] = the new w, or NULL. */
typedef tri_status tri_adamw_fn(tri_stream *s, tri_out w, tri_out m, tri_out v, tri_out half, tri_in g,
                                const tri_adamw_rule *rule);

/* Columns first .. first + w - 1 of y A [M,W] = scale x A [M,w]; the others stay. */
typedef tri_status tri_cols_put_fn(tri_stream *s, tri_out y, int64_t first, float scale, tri_in x);
/* x f32 [M,w] = scale times columns first .. first + w - 1 of y f32 [M,W] (+ x if add). */
typedef tri_status tri_cols_get_fn(tri_stream *s, tri_out x, tri_in y, int64_t first, float scale, bool add);

/* ---- the table ---- */

/* The names, once more, by what they work on: products; a layer's rows; a row of logits, and chosen rows;
 * flat arrays. They make the struct, the declarations and the tables of all back ends: a build fails to link
 * as long as one of its back ends (src/cpu; gpu, in tests the preset cpu-emulated) lacks an operation. */
/* clang-format off */
#define TRI_PRODUCT_KERNELS(X) \
  X(linear_open) X(linear_close) X(linear_size) X(linear_bind) X(linear_check) X(linear_pack) \
  X(linear_fwd) X(linear_bwd_x) X(linear_bwd_w) X(colsum)
#define TRI_LAYER_KERNELS(X) \
  X(embed_fwd) X(embed_bwd) X(rmsnorm_fwd) X(rmsnorm_bwd) X(head_norm_fwd) X(head_norm_bwd) X(rope) \
  X(glu_fwd) X(glu_bwd) X(attn_fwd) X(attn_bwd) X(kv_put) X(rope_put) \
  X(attn_decode) X(attn_step) X(decode_in)
#define TRI_LOSS_KERNELS(X) \
  X(softcap_fwd) X(softcap_bwd) X(logp_fwd) X(logp_bwd) X(sample) X(rows_get) X(rows_add)
#define TRI_FLAT_KERNELS(X) X(axpby) X(cast) X(sumsq) X(adamw) X(cols_put) X(cols_get)
#define TRI_KERNEL_LIST(X) TRI_PRODUCT_KERNELS(X) TRI_LAYER_KERNELS(X) TRI_LOSS_KERNELS(X) TRI_FLAT_KERNELS(X)
/* clang-format on */

#define TRI_X(name) tri_##name##_fn *name;
typedef struct tri_kernels {
  TRI_KERNEL_LIST(TRI_X)
} tri_kernels;
#undef TRI_X

#endif
