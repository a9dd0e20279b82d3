/* warp.cpp - votes and matrix products of a warp, over the meetings of its lanes in fibre.cpp. Test code. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "impl.cuh"

uint32_t emu_ballot(uint32_t mask, bool vote, const char *file, int line) {
  struct ballot {
    bool     vote;
    uint32_t sum;
  } b = {vote, 0};
  emu_warp_meet(
      mask, &b,
      [](void **lane, uint32_t) {
        uint32_t sum = 0;
        for (int i = 0; i < 32; i++)
          if (lane[i]) sum |= (uint32_t)((ballot *)lane[i])->vote << i;
        for (int i = 0; i < 32; i++)
          if (lane[i]) ((ballot *)lane[i])->sum = sum;
      },
      file, line);
  return b.sum;
}

/* ---- warp products ---- */

static float widen(uint32_t pair, int high) {
  return __uint_as_float(high ? pair & 0xffff0000u : pair << 16);
}

/* PTX ISA 9.7.14, "Matrix fragments for mma.m16n8k16". Lane = 4 g + t holds these elements. a has rows g, g +
 * 8 and columns 2t, 2t + 1, then the same 8 further. b has rows 2t, 2t + 1 and 8 further, column g. d has
 * rows g, g + 8, columns 2t, 2t + 1. */
void emu_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2], const char *file, int line) {
  struct part {
    float          *d;
    const uint32_t *a, *b;
  } p = {d, a, b};
  emu_warp_meet(
      ~0u, &p,
      [](void **lane, uint32_t) {
        float A[16][16], B[16][8]; /* the factors, exactly */
        for (int i = 0; i < 32; i++) {
          part *q = (part *)lane[i];
          int   g = i / 4, t = i % 4;
          if (!q) emu_fail("a matrix product in a warp that is not whole");
          for (int r = 0; r < 4; r++)
            for (int h = 0; h < 2; h++) A[g + r % 2 * 8][2 * t + h + r / 2 * 8] = widen(q->a[r], h);
          for (int r = 0; r < 2; r++)
            for (int h = 0; h < 2; h++) B[2 * t + h + r * 8][g] = widen(q->b[r], h);
        }
        for (int row = 0; row < 16; row++) {
          double sum[8] = {0};
          for (int k = 0; k < 16; k++) /* columns last, eight at a time on the host */
            for (int col = 0; col < 8; col++) sum[col] += (double)A[row][k] * (double)B[k][col];
          for (int col = 0; col < 8; col++) {
            float *to = ((part *)lane[row % 8 * 4 + col / 2])->d + row / 8 * 2 + col % 2;
            *to = (float)(sum[col] + (double)*to);
          }
        }
      },
      file, line);
}

/* PTX ISA, ldmatrix. Lanes 8 i .. 8 i + 7 give the addresses of the rows of matrix i. A lane gets columns 2
 * (lane % 4) and the next of row lane / 4 of each. With turn it gets rows 2 (lane % 4) and the next of column
 * lane / 4. */
void emu_ldmatrix(uint32_t *r, int n, bool turn, const void *row, const char *file, int line) {
  struct part {
    uint32_t   *r;
    int         n;
    bool        turn;
    const char *row;
  } p = {r, n, turn, (const char *)row};
  emu_warp_meet(
      ~0u, &p,
      [](void **lane, uint32_t) {
        part *one = (part *)lane[0];
        for (int i = 0; i < 8 * one->n; i++)
          if (!lane[i] || (uintptr_t)((part *)lane[i])->row % 16)
            emu_fail("ldmatrix: lane %d brings no 16-byte aligned row", i);
        for (int i = 0; i < 32; i++)
          for (int j = 0; j < one->n; j++) {
            uint16_t v[2];
            for (int h = 0; h < 2; h++) {
              int y = one->turn ? 2 * (i % 4) + h : i / 4, x = one->turn ? i / 4 : 2 * (i % 4) + h;
              memcpy(&v[h], ((part *)lane[8 * j + y])->row + 2 * x, 2);
            }
            ((part *)lane[i])->r[j] = v[0] | (uint32_t)v[1] << 16;
          }
      },
      file, line);
}
