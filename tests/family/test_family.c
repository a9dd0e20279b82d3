/* test_family.c - tests the rows of every family against the needs of the blocks (decoder.h, head.h). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "family/family.h"

static const struct {
  tri_slot        slot;
  tri_family_part part;
} wanted[] = {{TRI_SLOT_EMBED, TRI_IN_EMBEDDING},
              {TRI_SLOT_QKV, TRI_IN_ATTENTION_LAYER},
              {TRI_SLOT_O, TRI_IN_ATTENTION_LAYER},
              {TRI_SLOT_GATE_UP, TRI_IN_LAYER},
              {TRI_SLOT_DOWN, TRI_IN_LAYER},
              {TRI_SLOT_FINAL_NORM, TRI_IN_HEAD},
              {TRI_SLOT_HEAD, TRI_IN_HEAD},
              {TRI_SLOT_DELTA_QKV, TRI_IN_RECURRENT_LAYER},
              {TRI_SLOT_DELTA_Z, TRI_IN_RECURRENT_LAYER},
              {TRI_SLOT_DELTA_BA, TRI_IN_RECURRENT_LAYER},
              {TRI_SLOT_DELTA_OUT, TRI_IN_RECURRENT_LAYER},
              {TRI_SLOT_CONV, TRI_IN_RECURRENT_LAYER},
              {TRI_SLOT_A_LOG, TRI_IN_RECURRENT_LAYER},
              {TRI_SLOT_DT_BIAS, TRI_IN_RECURRENT_LAYER},
              {TRI_SLOT_GATE_NORM, TRI_IN_RECURRENT_LAYER}};

static bool has_recurrent(const tri_family *f) {
  for (const tri_tensor_row *r = f->tensor; r->name; r++)
    if (r->part == TRI_IN_RECURRENT_LAYER) return true;
  return false;
}

static void families_are_found(void **state) {
  (void)state;
  for (const tri_family *const *f = tri_families; *f; f++) {
    assert_ptr_equal(tri_family_find((*f)->model_type), *f);
    assert_true((*f)->architecture && (*f)->scored && (*f)->key && (*f)->silent.V > 0 &&
                (*f)->silent.norm_eps > 0);
  }
  assert_null(tri_family_find("gpt2"));
}

/* The tensors that every block needs exist in their part, without a condition. Those of attention are in all
 * layers of a family without recurrent ones, and the recurrent tensors in none. */
static void blocks_find_their_tensors(void **state) {
  (void)state;
  for (const tri_family *const *f = tri_families; *f; f++)
    for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
      bool            mixed = has_recurrent(*f), none = wanted[k].part == TRI_IN_RECURRENT_LAYER && !mixed;
      tri_family_part part =
          wanted[k].part == TRI_IN_ATTENTION_LAYER && !mixed ? TRI_IN_LAYER : wanted[k].part;
      int n = 0;
      for (int i = 0; (*f)->tensor[i].name; i++) {
        const tri_tensor_row *r = &(*f)->tensor[i];
        if (r->slot != wanted[k].slot) continue;
        assert_int_equal(r->part, part);
        assert_int_equal(r->only_if, 0);
        n++;
      }
      assert_true(none ? n == 0 : n > 0);
    }
  assert_string_equal(tri_family_tensor(&tri_family_qwen2, TRI_SLOT_HEAD), "lm_head.weight");
}

/* A family has both norms of each pair or neither: those before attention and mlp, those after them, and
 * those of queries and keys. It has the norms before or those after. Gradients pass through the buffer of the
 * norms after (tri_pre_norm_backward). */
static void norms_come_in_pairs(void **state) {
  static const tri_slot pair[][2] = {{TRI_SLOT_NORM1, TRI_SLOT_NORM2},
                                     {TRI_SLOT_POST_NORM1, TRI_SLOT_POST_NORM2},
                                     {TRI_SLOT_Q_NORM, TRI_SLOT_K_NORM}};

  (void)state;
  for (const tri_family *const *f = tri_families; *f; f++) {
    int has[3];
    for (int k = 0; k < 3; k++) {
      int n[2] = {0, 0};
      for (const tri_tensor_row *r = (*f)->tensor; r->name; r++)
        for (int i = 0; i < 2; i++) n[i] += r->slot == pair[k][i] && tri_row_is_layers(r) && !r->only_if;
      assert_true(n[0] == n[1] && n[0] <= 1);
      has[k] = n[0];
    }
    assert_true(has[0] || has[1]);
  }
}

/* The keys of a family have a field where they need one. A window has its length, and a pattern its
 * number. */
static void keys_are_sound(void **state) {
  (void)state;
  for (const tri_family *const *f = tri_families; *f; f++) {
    bool windowed = (*f)->window != TRI_WINDOW_NONE;
    for (const tri_config_key *k = (*f)->key; k->key; k++)
      assert_true((k->kind <= TRI_KEY_CAP) == (k->where != 0));
    assert_true((*f)->window != TRI_WINDOW_PATTERN || ((*f)->pattern > 0 && (*f)->silent.attn.window > 0));
    assert_true((*f)->window != TRI_WINDOW_SWITCHED ||
                ((*f)->window_layers > 0 && (*f)->silent.attn.window > 0));
    assert_true((*f)->window != TRI_WINDOW_NO_ROPE || (*f)->no_rope_interval > 0);
    assert_true(windowed || (*f)->silent.attn.window == 0);
    assert_true((*f)->silent.rope[TRI_GLOBAL].theta > 0 &&
                ((*f)->silent.rope[TRI_LOCAL].theta > 0) == (*f)->rope_by_kind);
  }
}

/* Rows of one slot are neighbours, since they are joined. A layer's name has one place for its number. A
 * product has two dimensions, a convolution three, and a bias one. All letters are known. Those of recurrent
 * layers stand only there. */
static void rows_are_sound(void **state) {
  (void)state;
  for (const tri_family *const *f = tri_families; *f; f++)
    for (int i = 0; (*f)->tensor[i].name; i++) {
      const tri_tensor_row *r = &(*f)->tensor[i];
      const char           *place = strchr(r->name, '%');
      bool                  product = r->slot < TRI_SLOT_PRODUCTS;
      for (int k = 0; k + 1 < i; k++)
        assert_true((*f)->tensor[k].slot != r->slot || (*f)->tensor[i - 1].slot == r->slot);
      for (int k = 0; k < i; k++) assert_string_not_equal((*f)->tensor[k].name, r->name);
      assert_true(tri_row_is_layers(r) ? place && !strncmp(place, "%d.", 3) : !place);
      assert_true(!place || !strchr(place + 1, '%'));
      assert_int_equal(strspn(r->shape, "CDEFUVQKPRZNYW1"), strlen(r->shape));
      assert_true(r->part == TRI_IN_RECURRENT_LAYER || !strpbrk(r->shape, "RZNYW"));
      assert_int_equal(strlen(r->shape), r->slot == TRI_SLOT_CONV               ? 3
                                         : product || r->slot == TRI_SLOT_EMBED ? 2
                                                                                : 1);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(families_are_found),
                                     cmocka_unit_test(blocks_find_their_tensors),
                                     cmocka_unit_test(norms_come_in_pairs), cmocka_unit_test(keys_are_sound),
                                     cmocka_unit_test(rows_are_sound)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
