/* kernels.h - the list of operations every back end provides for the model.
 *
 * Letters used in every shape below and in every comment of the project:
 *   N tokens in a packed batch   S sequences        V vocabulary    C hidden width   F mlp width
 *   H query heads   G key/value heads   D head width   L layers   B decode rows   P pages   K chosen rows
 *   M rows of a product
 *   A the compute type (f32, bf16 or f16) of an array
 *   E = (H + 2 G) D, the width of a row [q | k | v]
 * and in recurrent layers
 *   Hk key heads   Hv value heads   Dk, Dv their widths   W taps of the convolution   Z state slots
 *   Er = 2 Hk Dk + Hv Dv, the width of a row [q | k | v]
 *
 * Contract of every kernel:
 * Row invariance. Row i of an output has the same bits for every number of rows, every position in the batch
 * and every thread count. attn_decode gives the bits of attn_fwd's row. Only linear_bwd_x may add up a row in
 * another order when the other rows or the thread count differ. The same call gives the same bits again. For
 * gradients nothing more is promised.
 * Column invariance. A product opened as a part of another (tri_linear_spec.whole) gives each of its columns
 * the bits that this column has in the other product.
 * `_fwd` overwrites its outputs. `_bwd` overwrites activation gradients unless its comment says "added", and
 * adds into weight gradients. These are f32, and linear_bwd_w adds only if asked. Sums run in f32 (or wider)
 * for every storage type. N = 0 is legal. No kernel allocates. Shapes are asserted, not reported, because a
 * wrong shape is our own mistake. Not collective, all of them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_KERNELS_H
#define TRI_KERNELS_H

#include "base/dd.h"
#include "base/tensor.h"
#include "device.h"

typedef const tri_tensor *tri_in;
typedef tri_tensor       *tri_out;

/* Tokens in one page of the key/value cache. The key tile of every attention kernel is one page or two.
 * Chosen: two AVX-512 registers of f32. */
enum { TRI_PAGE = 32 };

typedef struct tri_heads { /* query heads H, key/value heads G (H % G == 0), head width D (even) */
  int H, G, D;
} tri_heads;

/* How attention computes scores. A score is `scale` times q k, then softcap * tanh(score / softcap). */
typedef struct tri_attn_rule {
  tri_heads heads;
  float     scale;   /* > 0 */
  float     softcap; /* 0 means none */
  int64_t   window;  /* token i of a sequence sees only its keys > i - window; 0 means all keys up to i */
  int64_t   longest; /* rows of the batch's longest sequence, for attn_bwd; 0 if unknown */
} tri_attn_rule;

/* RMSNorm is x rstd (plus + w), with rstd = 1 / sqrt(mean of x^2 + eps). */
typedef struct tri_norm_rule {
  float eps, plus;
} tri_norm_rule;

/* Returns whether norms of q and k treat all heads as one row, by the lengths of their weights. */
static inline bool tri_norms_whole(const tri_heads *h, int64_t wq, int64_t wk) {
  TRI_ASSERT((wq == h->D && wk == h->D) || (wq == (int64_t)h->H * h->D && wk == (int64_t)h->G * h->D));
  return wq != h->D || wk != h->D;
}

/* The activation of the gate in a gated product. */
typedef enum { TRI_ACT_SILU, TRI_ACT_GELU /* tanh form */ } tri_act;

/* The shape of a gated delta net, the recurrent layer of Qwen3.5. Value head h reads key head h / (Hv / Hk).
 * eps is that of gate_norm. */
typedef struct tri_delta_rule {
  int   Hk, Hv, Dk, Dv; /* Hv % Hk == 0; Dk and Dv at most TRI_DELTA_MOST */
  int   conv;           /* W, from 2 to TRI_CONV_MOST */
  float eps;
} tri_delta_rule;
/* TRI_DELTA_ROWS: delta_bwd keeps the state before every 64th row of a sequence. The width in use is 128. */
enum { TRI_DELTA_MOST = 256, TRI_CONV_MOST = 8, TRI_DELTA_ROWS = 64 };

/* Returns Er, the width of a row [q | k | v]. */
static inline int64_t tri_delta_width(const tri_delta_rule *r) {
  return 2 * (int64_t)r->Hk * r->Dk + (int64_t)r->Hv * r->Dv;
}
/* Returns the elements of a state, f32 [Hv,Dk,Dv]. */
static inline int64_t tri_delta_state(const tri_delta_rule *r) { return (int64_t)r->Hv * r->Dk * r->Dv; }
/* A GPU's delta_bwd takes the columns of a head in groups, one after the other. A group has
 * TRI_DELTA_BLOCK elements of a state, one block's. It keeps their states before every TRI_DELTA_STAGE-th
 * row of a sequence. */
enum { TRI_DELTA_BLOCK = 4096, TRI_DELTA_STAGE = 16 };
/* Returns the elements of one state of such a group, f32 [columns,Dk rounded up to a multiple of 4]. */
static inline int64_t tri_delta_group(const tri_delta_rule *r) {
  int columns = TRI_DELTA_BLOCK / (r->Dk <= 64 ? 64 : r->Dk <= 128 ? 128 : 256);
  return (int64_t)((r->Dk + 3) / 4 * 4) * (columns < r->Dv ? columns : r->Dv);
}

/* Returns the elements of delta_bwd's `work` for N tokens. These are states f32 [(N + 63) / 64,Hv,Dk,Dv],
 * or on a GPU [(N + 15) / 16,Hv] of a group, and the sums of every value head, f32 [N,Hv,2 Dk + 2]. A
 * sequence that starts at row n keeps the state before its row 64 i, i > 0, at n / 64 + i. No other
 * sequence uses that place. On a GPU the same holds with 16. */
static inline int64_t tri_delta_work(const tri_delta_rule *r, int64_t N) {
  int64_t rows = (N + TRI_DELTA_ROWS - 1) / TRI_DELTA_ROWS * tri_delta_state(r);
  int64_t stages = (N + TRI_DELTA_STAGE - 1) / TRI_DELTA_STAGE * r->Hv * tri_delta_group(r);
  return (rows > stages ? rows : stages) + N * r->Hv * (2 * r->Dk + 2);
}

/* Where the sequences of a call begin and end. cu i32 [S+1]. Sequence s begins at zero and keeps nothing if
 * slot i32 [S] is -1. Otherwise it goes on from state slot[s] and leaves the new state there. With fresh i32
 * [S] not 0 it begins at zero and leaves the new state there. No two sequences of a call have the same slot.
 * slot and fresh are NULL if no sequence has a slot. */
typedef struct tri_delta_rows {
  tri_in cu, slot, fresh;
} tri_delta_rows;

/* Returns the number of parts into which attn_bwd may divide the H / G query heads of a key/value head. Each
 * part has its own sums and the same number of query heads, except for a smaller last one. With 8 or more
 * key/value heads there is one part. With fewer, parts times key/value heads come to about 8, but a part has
 * at least one query head. The number depends on the heads alone, so gradients depend on nothing else.
 * Chosen: see gpu/attention/attention_bwd_tile.cuh. */
static inline int tri_attn_parts(const tri_heads *h) {
  int group = h->H / h->G, want = (8 + h->G - 1) / h->G, each = (group + want - 1) / want;
  return (group + each - 1) / each;
}
/* Returns the elements of attn_bwd's `work` for N tokens. These are dk and dv of each part, f32
 * [parts,N,2,G,D], then one f32 array [N,H]. */
static inline int64_t tri_attn_work(const tri_heads *h, int64_t N) {
  return N * ((int64_t)tri_attn_parts(h) * 2 * h->G * h->D + h->H);
}

/* Decoding gives one block to a key/value head of a row, so few rows of long contexts leave most of a GPU
 * idle. attn_decode can spread each of them over many blocks, with the same bits. tri_attn_spreads returns
 * whether the device should do so for B rows with a longest context of `longest` tokens. tri_attn_spread_work
 * returns the elements of attn_decode's `work`, f32, for B rows of P pages. For each head these are its
 * scores, in pairs of pages, and the maximum of each pair. */
static inline bool tri_attn_spreads(const tri_device_advice *a, const tri_heads *h, int64_t B,
                                    int64_t longest) {
  return B * h->G <= a->spread_heads && longest > a->spread_tokens;
}
static inline int64_t tri_attn_spread_work(const tri_heads *h, int64_t B, int64_t P) {
  return B * h->H * ((P + 1) / 2) * (2 * TRI_PAGE + 1);
}

/* Returns tri_attn_work's elements plus the additional ones a device can use for rows in type A. */
static inline int64_t tri_attn_workspace(const tri_device_advice *a, const tri_heads *h, tri_dtype A,
                                         int64_t N) {
  return tri_attn_work(h, N) + (A == TRI_BF16 ? (int64_t)(a->attn_bytes / sizeof(float)) : 0);
}

/* How one weight shape [n_out, n_in] is multiplied in type `dtype`. It is opened once per shape and used by
 * every layer with that shape. Weights are packed into the back end's own order before use. */
typedef struct tri_linear tri_linear;
typedef struct tri_linear_spec {
  int64_t   n_out, n_in;
  tri_dtype dtype;    /* TRI_F32, TRI_BF16 or TRI_F16, for weights and inputs */
  bool      backward; /* bwd_x and bwd_w will be called */
  /* fwd may add a sum in another order for another M if that is faster. linear_check is not called then. The
   * CPU never does so, and its rows have the same bits regardless. */
  bool any_order;
  /* NULL, or an open product with the same n_in and dtype whose rows of W include these n_out rows, in any
   * order and place. fwd then gives every column the bits it has there, for any M and the same types of y,
   * bias and base. linear_check returns TRI_EDEVICE if this machine cannot do so. Such a part has no
   * backward. Its w may begin at any row of the whole's. `whole` is used by linear_open alone. With any_order
   * nothing is promised of bits. */
  const tri_linear *whole;
} tri_linear_spec;
typedef struct tri_linear_bytes {
  size_t fwd, bwd;  /* packed weights for fwd and for bwd_x; 0 if w itself is passed instead */
  size_t workspace; /* shared by all linears of a device, so the largest counts */
} tri_linear_bytes;

/* How the sampler draws a token from a row of logits. With temperature 0 it takes the largest logit (the
 * lowest id on a tie) and the log-probability at temperature 1. Otherwise it applies logits / temperature,
 * then top_k (0 = off), then top_p (1 = off; keeps the token that crosses p), then one keyed uniform number
 * (rng.h, TRI_RNG_SAMPLE). */
typedef struct tri_sample_rule {
  float    temperature, top_p;
  int      top_k;
  uint64_t seed;
} tri_sample_rule;

/* The numbers of one optimizer step (formula.h, tri_adamw). decay is lr * weight_decay for this tensor (0 for
 * none). scale multiplies the gradient (clipping). */
typedef struct tri_adamw_rule {
  float   lr, beta1, beta2, eps, decay, scale;
  int64_t step; /* 1-based */
} tri_adamw_rule;

/* ---- products: y[M,n_out] = x[M,n_in] W^T (+ bias[n_out]) (+ base[M,n_out]) ---- */

typedef tri_status tri_linear_open_fn(tri_device *d, const tri_linear_spec *spec, tri_linear **out);
typedef tri_status tri_linear_close_fn(tri_linear **l);
typedef tri_status tri_linear_size_fn(const tri_linear *l, tri_linear_bytes *out);
typedef tri_status tri_linear_bind_fn(tri_linear *l, void *workspace, size_t bytes);
/* Returns TRI_EDEVICE with a message if rows of fwd depend on M on this machine, or if columns of a part have
 * other bits than in the whole. */
typedef tri_status tri_linear_check_fn(tri_stream *s, tri_linear *l, const void *packed_fwd);
/* A form of 0 bytes is NULL. Other forms are aligned to 64 bytes. A call packs part `part` of n_part. A form
 * is whole after all its parts, in any order and by any process. */
typedef tri_status tri_linear_pack_fn(tri_stream *s, tri_linear *l, void *packed_fwd, void *packed_bwd,
                                      tri_in w, int part, int n_part);
/* y is f32 or A. bias is A, or f32 if y is. base is NULL or has y's type, and may be y itself. Exactly M rows
 * are read and written. */
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

/* x f32 [N,C] = scale times table A [V,C] at token i32 [N]. bwd adds to dtable f32 [V,C]. */
typedef tri_status tri_embed_fwd_fn(tri_stream *s, tri_out x, tri_in table, tri_in token, float scale);
typedef tri_status tri_embed_bwd_fn(tri_stream *s, tri_out dtable, tri_in dx, tri_in token, float scale);
/* y A [N,C], rstd f32 [N], x f32 [N,C], w A [C]. With base f32 [N,C], y is f32 (and may be base itself) and
 * base is added on top. base may be NULL. bwd adds to dx f32 and to dw f32 [C] (NULL if not wanted), with dy
 * A. */
typedef tri_status tri_rmsnorm_fwd_fn(tri_stream *s, tri_out y, tri_out rstd, tri_in x, tri_in w, tri_in base,
                                      const tri_norm_rule *rule);
typedef tri_status tri_rmsnorm_bwd_fn(tri_stream *s, tri_out dx, tri_out dw, tri_in dy, tri_in x, tri_in w,
                                      tri_in rstd, const tri_norm_rule *rule);
/* RMSNorm for each head of q (wq A [D]) and of k (wk A [D]), with qkv A [N,E] in place. raw A [N,(H + G) D],
 * the values before the norm, and rstd f32 [N,H + G] are kept for bwd (both NULL if not wanted). bwd works on
 * dqkv A [N,E] in place and adds to dwq and dwk f32 [D] (both NULL if not wanted). With wq A [H D] and wk A
 * [G D] all heads of q are one row, and all heads of k too. rstd is then f32 [N,2], and dwq and dwk are as
 * long as the weights. */
typedef tri_status tri_head_norm_fwd_fn(tri_stream *s, tri_out qkv, tri_out raw, tri_out rstd, tri_in wq,
                                        tri_in wk, const tri_heads *h, const tri_norm_rule *rule);
typedef tri_status tri_head_norm_bwd_fn(tri_stream *s, tri_out dqkv, tri_out dwq, tri_out dwk, tri_in raw,
                                        tri_in rstd, tri_in wq, tri_in wk, const tri_heads *h,
                                        const tri_norm_rule *rule);
/* qkv A [N,E] in place, with the heads of q and k rotated (Hugging Face's convention of halves). pos i32 [N].
 * table f32 [positions,R] holds R/2 cosines, then R/2 sines. The first R columns of a head are rotated, R
 * even and at most D, and the others stay. sign is +1, or -1 for the gradient. */
typedef tri_status tri_rope_fn(tri_stream *s, tri_out qkv, tri_in pos, tri_in table, const tri_heads *h,
                               int sign);
/* y A [N,F] = act(g) * u, gu A [N,2F] = [g | u]. bwd writes dgu A [N,2F] and the y of fwd (NULL if not
 * wanted). */
typedef tri_status tri_glu_fwd_fn(tri_stream *s, tri_out y, tri_in gu, tri_act act);
typedef tri_status tri_glu_bwd_fn(tri_stream *s, tri_out dgu, tri_out y, tri_in dy, tri_in gu, tri_act act);
/* Causal attention inside each sequence. o A [N,H*D], lse f32 [N,H], qkv A [N,E], cu i32 [S+1]. bwd writes
 * dqkv A [N,E]. work f32 has tri_attn_work(heads, N) elements or those of tri_attn_workspace, with any
 * content. */
typedef tri_status tri_attn_fwd_fn(tri_stream *s, tri_out o, tri_out lse, tri_in qkv, tri_in cu,
                                   const tri_attn_rule *rule);
typedef tri_status tri_attn_bwd_fn(tri_stream *s, tri_out dqkv, tri_out work, tri_in dout, tri_in o,
                                   tri_in lse, tri_in qkv, tri_in cu, const tri_attn_rule *rule);
/* Cache pages are k_page A [P,G,D,TRI_PAGE] (keys transposed) and v_page A [P,G,TRI_PAGE,D]. Each back end
 * chooses the order of elements in a page and head (bf16 on a CPU: attention_pairs.c). The k and v of row n
 * of qkv A [N,E] go to slot i32 [N], which is page * TRI_PAGE + place, or -1 for nowhere. */
typedef tri_status tri_kv_put_fn(tri_stream *s, tri_out k_page, tri_out v_page, tri_in qkv, tri_in slot,
                                 const tri_heads *h);
/* Does rope with sign 1 and table f32 [positions,R], then kv_put, with the same bits. */
typedef tri_status tri_rope_put_fn(tri_stream *s, tri_out qkv, tri_out k_page, tri_out v_page, tri_in pos,
                                   tri_in table, tri_in slot, const tri_heads *h);
/* Row b attends to the len i32 [B] newest tokens (its own included) of pages table i32 [B,P]. With work f32
 * [tri_attn_spread_work(heads, B, P)], of any content, rows are spread over a GPU's blocks. With work NULL
 * they are not. The bits are the same. */
typedef tri_status tri_attn_decode_fn(tri_stream *s, tri_out o, tri_out work, tri_in qkv, tri_in k_page,
                                      tri_in v_page, tri_in table, tri_in len, const tri_attn_rule *rule);
/* The arguments of attn_step for every row. pos, turn (its table) and slot are for rope_put, where slot is -1
 * or the place of the newest token. table, len and work are for attn_decode. */
typedef struct tri_step_at {
  tri_in  pos, turn, slot, table, len;
  tri_out work;
} tri_step_at;
/* Does rope_put, then attn_decode, with the same bits in o and the pages. qkv holds garbage afterwards. */
typedef tri_status tri_attn_step_fn(tri_stream *s, tri_out o, tri_out qkv, tri_out k_page, tri_out v_page,
                                    const tri_step_at *at, const tri_attn_rule *rule);

/* ---- recurrent layers: the gated delta net of Qwen3.5 (transformers, modeling_qwen3_5.py) ----
 *
 * Outputs of conv_fwd and delta_fwd depend on the rows before them in their sequence, in order, and on
 * nothing else. So any split of a sequence into calls (through slots), any packing and any thread count
 * gives the same bits. No gradient goes through a slot: the _bwd begin every sequence at zero. */

/* c A [N,Er] = silu(u), u[t] = the sum over j of w[:,j] mix[t - (W - 1) + j], a causal convolution of each
 * column with zeros before the sequence. mix A [N,Er], w A [Er,W]. The zeros are multiplied like rows. tail A
 * [Z,W-1,Er] keeps the last rows of mix, the newest last (NULL without slots). bwd writes dmix A [N,Er] and
 * adds to dw f32 [Er,W] (NULL if not wanted). */
typedef tri_status tri_conv_fwd_fn(tri_stream *s, tri_out c, tri_in mix, tri_in w, tri_out tail,
                                   const tri_delta_rows *rows);
typedef tri_status tri_conv_bwd_fn(tri_stream *s, tri_out dmix, tri_out dw, tri_in dc, tri_in mix, tri_in w,
                                   tri_in cu);
/* The gated delta rule (Yang et al. 2024, arXiv 2412.06464), token by token for each value head, in f32:
 *   q = x rsqrt(sum of x^2 + 1e-6) / sqrt(Dk) and k = x rsqrt(sum of x^2 + 1e-6), from c A [N,Er]
 *   beta = sigmoid(b)    g = exp(-exp(A_log) softplus(a + dt_bias)), from ba A [N,2 Hv] = [b | a]
 *   S = g S;  d = beta (v - S' k);  S = S + k d';  o = S' q
 * softplus(x) is x for x > 20. A_log and dt_bias [Hv] are A or f32, each. o A [N,Hv*Dv]. S is the state,
 * f32 [Z,Hv,Dk,Dv] (NULL without slots). bwd writes dc A [N,Er] and dba A [N,2 Hv], and adds to dA_log and
 * ddt_bias f32 [Hv] (both NULL if not wanted). work f32 has tri_delta_work(rule, N) elements of any
 * content. */
typedef tri_status tri_delta_fwd_fn(tri_stream *s, tri_out o, tri_in c, tri_in ba, tri_in A_log,
                                    tri_in dt_bias, tri_out state, const tri_delta_rows *rows,
                                    const tri_delta_rule *rule);
typedef tri_status tri_delta_bwd_fn(tri_stream *s, tri_out dc, tri_out dba, tri_out dA_log, tri_out ddt_bias,
                                    tri_out work, tri_in dout, tri_in c, tri_in ba, tri_in A_log,
                                    tri_in dt_bias, tri_in cu, const tri_delta_rule *rule);
/* y A [N,Hv*Dv] = w o rstd silu(z) for each value head, rstd = rsqrt(mean of o^2 + eps). o and z A
 * [N,Hv*Dv], w A [Dv] (not 1 + w). rstd f32 [N,Hv] is kept for bwd (NULL if not wanted). bwd writes dout,
 * the gradient of o, and dz, both A [N,Hv*Dv], and the y of fwd (NULL if not wanted), and adds to dw f32
 * [Dv] (NULL if not wanted). dout may be dy itself, and dz may be z itself. */
typedef tri_status tri_gate_norm_fwd_fn(tri_stream *s, tri_out y, tri_out rstd, tri_in o, tri_in z, tri_in w,
                                        const tri_delta_rule *rule);
typedef tri_status tri_gate_norm_bwd_fn(tri_stream *s, tri_out dout, tri_out dz, tri_out y, tri_out dw,
                                        tri_in dy, tri_in o, tri_in z, tri_in w, tri_in rstd,
                                        const tri_delta_rule *rule);
/* The attention layers of these models have a gate for each column of o. A row of raw A [N,E+H*D] holds q
 * and gate of each query head, head by head, then k and v. split_gate copies it to qkv A [N,E] and gate A
 * [N,H*D]. join_gate does the reverse, for gradients. */
typedef tri_status tri_split_gate_fn(tri_stream *s, tri_out qkv, tri_out gate, tri_in raw,
                                     const tri_heads *h);
typedef tri_status tri_join_gate_fn(tri_stream *s, tri_out raw, tri_in qkv, tri_in gate, const tri_heads *h);
/* y = o sigmoid(gate), all A [N,H*D]. y may be o itself. bwd writes dout, the gradient of o, and dgate, and
 * the y of fwd (NULL if not wanted). dout may be dy itself, and dgate may be gate itself. */
typedef tri_status tri_gate_fwd_fn(tri_stream *s, tri_out y, tri_in o, tri_in gate);
typedef tri_status tri_gate_bwd_fn(tri_stream *s, tri_out dout, tri_out dgate, tri_out y, tri_in dy, tri_in o,
                                   tri_in gate);

/* Prepares a decode step from the results of the previous one. token i32 [B] becomes drawn i32 [K] at from
 * i32 [B], unless that is -1. In table i32 [B,P], the page of position pos i32 [B] becomes the page of slot
 * i32 [B], unless that is -1. */
typedef tri_status tri_decode_in_fn(tri_stream *s, tri_out token, tri_out table, tri_in drawn, tri_in from,
                                    tri_in pos, tri_in slot);

/* ---- loss and sampling ---- */

/* x f32 [K,V] in place becomes cap * tanh(x / cap). bwd multiplies dx A [K,V] in place by 1 - (y / cap)^2,
 * with y from fwd. */
typedef tri_status tri_softcap_fwd_fn(tri_stream *s, tri_out x, float cap);
typedef tri_status tri_softcap_bwd_fn(tri_stream *s, tri_out dx, tri_in y, float cap);
/* logp, ent, lse f32 [K], from logits f32 [K,V] times inv_temperature. target i32 [K]. bwd writes dlogits A
 * [K,V] = d/dlogits of sum(dlogp * logp + dent * ent). */
typedef tri_status tri_logp_fwd_fn(tri_stream *s, tri_out logp, tri_out ent, tri_out lse, tri_in logits,
                                   tri_in target, float inv_temperature);
typedef tri_status tri_logp_bwd_fn(tri_stream *s, tri_out dlogits, tri_in logits, tri_in target, tri_in lse,
                                   tri_in ent, tri_in dlogp, tri_in dent, float inv_temperature);
/* token i32 [B], logp f32 [B] with the bits of logp_fwd. key i64 [B,3] = prompt, answer, position. work f32
 * [B,2*V] has any content. A row without a largest finite logit gives token 0 and logp NaN. */
typedef tri_status tri_sample_fn(tri_stream *s, tri_out token, tri_out logp, tri_out work, tri_in logits,
                                 tri_in key, const tri_sample_rule *rule);
/* y[K,C] = x[row[K],C]; dx[row[K],C] += dy[K,C] (rows distinct), all f32. */
typedef tri_status tri_rows_get_fn(tri_stream *s, tri_out y, tri_in x, tri_in row);
typedef tri_status tri_rows_add_fn(tri_stream *s, tri_out dx, tri_in dy, tri_in row);

/* ---- flat arrays ---- */

/* y = a x + b y in f32 (b = 0 overwrites even NaN). */
typedef tri_status tri_axpby_fn(tri_stream *s, tri_out y, float a, tri_in x, float b);
/* Converts between f32 and a 16-bit type. */
typedef tri_status tri_cast_fn(tri_stream *s, tri_out y, tri_in x);
/* *sum += squares of x f32, in an order independent of the thread count. How x is cut into calls, and their
 * order, practically never changes sum->hi (base/dd.h). */
typedef tri_status tri_sumsq_fn(tri_stream *s, tri_dd *sum, tri_in x);
/* w, m, v f32 [n] updated with g f32 [n]. half bf16 or f16 [n] = the new w, or NULL. */
typedef tri_status tri_adamw_fn(tri_stream *s, tri_out w, tri_out m, tri_out v, tri_out half, tri_in g,
                                const tri_adamw_rule *rule);

/* Columns first .. first + w - 1 of y A [M,W] = scale x A [M,w]. The others stay. */
typedef tri_status tri_cols_put_fn(tri_stream *s, tri_out y, int64_t first, float scale, tri_in x);
/* x f32 [M,w] = scale times columns first .. first + w - 1 of y f32 [M,W] (+ x if add). */
typedef tri_status tri_cols_get_fn(tri_stream *s, tri_out x, tri_in y, int64_t first, float scale, bool add);
/* y [M,W] = x [n,M,w], f32 or A. x holds w columns of each of n ranks, as a gather brings them. The last
 * rank's are the last w of y, and n w may exceed W by less than w. */
typedef tri_status tri_join_cols_fn(tri_stream *s, tri_out y, tri_in x);

/* ---- the table ---- */

/* The names of all kernels, by the arrays they work on. The groups are products, rows of a layer, rows of
 * logits with chosen rows, and flat arrays. The struct, the declarations and the tables of all back ends are
 * made from these lists. A build fails to link if one of its back ends lacks an operation of TRI_KERNEL_LIST.
 * Kernels of recurrent layers are NULL in a back end without them. The back ends are src/cpu and gpu, the
 * latter in tests by the preset cpu-emulated. */
/* clang-format off */
#define TRI_PRODUCT_KERNELS(X) \
  X(linear_open) X(linear_close) X(linear_size) X(linear_bind) X(linear_check) X(linear_pack) \
  X(linear_fwd) X(linear_bwd_x) X(linear_bwd_w) X(colsum)
#define TRI_LAYER_KERNELS(X) \
  X(embed_fwd) X(embed_bwd) X(rmsnorm_fwd) X(rmsnorm_bwd) X(head_norm_fwd) X(head_norm_bwd) X(rope) \
  X(glu_fwd) X(glu_bwd) X(attn_fwd) X(attn_bwd) X(kv_put) X(rope_put) \
  X(attn_decode) X(attn_step) X(decode_in)
#define TRI_RECURRENT_KERNELS(X) \
  X(conv_fwd) X(conv_bwd) X(delta_fwd) X(delta_bwd) X(gate_norm_fwd) X(gate_norm_bwd) \
  X(split_gate) X(join_gate) X(gate_fwd) X(gate_bwd)
#define TRI_LOSS_KERNELS(X) \
  X(softcap_fwd) X(softcap_bwd) X(logp_fwd) X(logp_bwd) X(sample) X(rows_get) X(rows_add)
#define TRI_FLAT_KERNELS(X) X(axpby) X(cast) X(sumsq) X(adamw) X(cols_put) X(cols_get) X(join_cols)
#define TRI_KERNEL_LIST(X) TRI_PRODUCT_KERNELS(X) TRI_LAYER_KERNELS(X) TRI_LOSS_KERNELS(X) TRI_FLAT_KERNELS(X)
/* clang-format on */

#define TRI_X(name) tri_##name##_fn *name;
typedef struct tri_kernels {
  TRI_KERNEL_LIST(TRI_X)
  TRI_RECURRENT_KERNELS(TRI_X)
} tri_kernels;
#undef TRI_X

#endif
