/* frame.c - the variables of a rendering, and captured output. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "jinja_run.h"

static const char unset_mark[1] = "";

tri_jvalue tri_junset(void) { return tri_jundefined(unset_mark, 0); }

bool tri_jis_unset(tri_jvalue v) { return v.kind == TRI_J_UNDEFINED && v.as.text.s == unset_mark; }

tri_status tri_jframe_make(tri_jrun *r, int n_slot, tri_jframe *outer, tri_jframe **out) {
  size_t bytes = sizeof **out + (size_t)n_slot * sizeof *(*out)->slot;

  TRI_TRY(tri_jarena_take(r->arena, bytes, (void **)out));
  (*out)->outer = outer;
  for (int i = 0; i < n_slot; i++) (*out)->slot[i] = tri_junset();
  return TRI_OK;
}

tri_jvalue *tri_jframe_at(tri_jframe *f, tri_jplace at) {
  for (int i = 0; i < at.hops; i++) f = f->outer;
  return &f->slot[at.slot];
}

void tri_jframe_enter(tri_jrun *r, tri_jframe *f, const tri_jscope *s) {
  for (int i = 0; i < s->n; i++) {
    const tri_jload *load = &s->load[i];
    switch (load->kind) {
    case TRI_JLOAD_PARAMETER:
      break;
    case TRI_JLOAD_GLOBAL:
      f->slot[load->slot] = r->global[load->global];
      break;
    case TRI_JLOAD_OUTER:
      f->slot[load->slot] = *tri_jframe_at(f, load->from);
      break;
    case TRI_JLOAD_UNSET:
      f->slot[load->slot] = tri_junset();
      break;
    }
  }
}

void tri_jframe_leave(tri_jframe *f, const tri_jscope *s) {
  for (int i = 0; i < s->n; i++) f->slot[s->load[i].slot] = tri_junset();
}

tri_text *tri_jrun_out(tri_jrun *r) { return r->captures ? &r->captured : &r->out->text; }

size_t tri_jcapture_begin(tri_jrun *r) {
  r->captures++;
  return r->captured.len;
}

tri_status tri_jcapture_end(tri_jrun *r, size_t mark, tri_jvalue *out) {
  size_t n = r->captured.len - mark;

  r->captures--;
  TRI_TRY(tri_jtext_copy(r->arena, n ? r->captured.data + mark : "", n, out));
  r->captured.len = mark;
  return TRI_OK;
}
