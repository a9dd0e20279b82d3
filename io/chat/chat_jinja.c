/* chat_jinja.c - the templates that can be named, in the language in which other programs read them.
 *
 * Judge: transformers, which makes of conversations by these texts what it makes by the published ones
 * (tests/golden/make_chat_golden.py); a system's message behind others they refuse, as chat_render.c does. */
#include "chat_impl.h"

#include <string.h>

/* The system's message, where it is written into another: `system` and `talk`, the others. */
#define FIRST                                                                                                \
  "{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] %}"                        \
  "{% set talk = messages[1:] %}{% else %}{% set system = none %}{% set talk = messages %}"                  \
  "{% endif %}"
#define BY_TURNS                                                                                             \
  "{% if m['role'] != ('assistant' if loop.index0 % 2 else 'user') %}"                                       \
  "{{ raise_exception('user and assistant are wanted by turns') }}{% endif %}"
#define IM_ALL                                                                                               \
  "{% for m in messages %}"                                                                                  \
  "{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"
#define IM_PROMPT "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

/* Strings in it have the begin and the end token where \1 and \2 stand. */
static const char *const jinja[] = {
    [TRI_CHAT_CHATML] = IM_ALL IM_PROMPT,
    [TRI_CHAT_LLAMA2] = FIRST
    "{% for m in talk %}" BY_TURNS "{% set text = m['content'] %}{% if loop.first and system is not none %}"
    "{% set text = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + text %}{% endif %}"
    "{% if m['role'] == 'user' %}{{ '\1[INST] ' + text | trim + ' [/INST]' }}{% else %}"
    "{{ ' ' + text | trim + ' \2' }}{% endif %}{% endfor %}",
    [TRI_CHAT_LLAMA3] =
        "{{ '\1' }}{% for m in messages %}"
        "{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + m['content'] | trim + "
        "'<|eot_id|>' }}"
        "{% endfor %}{% if add_generation_prompt %}"
        "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
    [TRI_CHAT_MISTRAL] =
        FIRST "{{ '\1' }}{% for m in talk %}" BY_TURNS
              "{% set text = m['content'] %}{% if loop.last and system is not none %}"
              "{% set text = system + '\\n\\n' + text %}{% endif %}{% if m['role'] == 'user' %}"
              "{{ '[INST] ' + text + '[/INST]' }}{% else %}{{ ' ' + m['content'] | trim + '\2' }}"
              "{% endif %}{% endfor %}",
    [TRI_CHAT_QWEN2_5] = "{% if messages[0]['role'] != 'system' %}"
                         "{{ '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
                         "assistant.<|im_end|>\\n' }}"
                         "{% endif %}" IM_ALL IM_PROMPT,
    [TRI_CHAT_QWEN3] =
        "{% set ns = namespace(question=messages | length - 1) %}{% for m in messages %}"
        "{% if m['role'] == 'user' and not (m['content'].startswith('<tool_response>') and "
        "m['content'].endswith('</tool_response>')) %}"
        "{% set ns.question = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}"
        "{% set text = m['content'] %}{% if m['role'] == 'assistant' %}{% set thoughts = '' %}"
        "{% if '</think>' in text %}"
        "{% set thoughts = "
        "text.split('</think>')[0].rstrip('\\n').split('<think>')[-1].strip('\\n') %}"
        "{% set text = text.split('</think>')[-1].lstrip('\\n') %}{% endif %}"
        "{% if loop.index0 > ns.question and (loop.last or thoughts) %}"
        "{% set text = '<think>\\n' + thoughts + '\\n</think>\\n\\n' + text.lstrip('\\n') %}"
        "{% endif %}{% endif %}{{ '<|im_start|>' + m['role'] + '\\n' + text + '<|im_end|>\\n' }}"
        "{% endfor %}" IM_PROMPT,
    [TRI_CHAT_GEMMA] =
        FIRST "{{ '\1' }}{% for m in talk %}" BY_TURNS
              "{% set text = m['content'] | trim %}{% if loop.first and system is not none %}"
              "{% set text = system + '\\n\\n' + text %}{% endif %}"
              "{{ '<start_of_turn>' + ('model' if m['role'] == 'assistant' else 'user') + '\\n' + text "
              "+ '<end_of_turn>\\n' }}"
              "{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}",
    [TRI_CHAT_ZEPHYR] = "{% for m in messages %}{{ '<|' + m['role'] + '|>\\n' + m['content'] + '\2\\n' }}"
                        "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}",
};

/* As it stands in a string of single quotes. */
static tri_status put_quoted(const char *text, tri_text *out) {
  for (; *text; text++) {
    if (*text == '\n') {
      TRI_TRY(tri_text_put(out, "\\n", 2));
      continue;
    }
    if (*text == '\'' || *text == '\\') TRI_TRY(tri_text_put(out, "\\", 1));
    TRI_TRY(tri_text_put(out, text, 1));
  }
  return TRI_OK;
}

tri_status tri_chat_template(const tri_chat *c, tri_text *out) {
  int at = TRI_CHAT_ZEPHYR;

  while (c->form && at > TRI_CHAT_NONE && tri_chat_form_at(at) != c->form) at--;
  if (!c->form || at == TRI_CHAT_NONE) return TRI_OK;
  for (const char *p = jinja[at]; *p; p++) {
    const char *token = *p == *TRI_CHAT_BOS ? c->bos : *p == *TRI_CHAT_EOS ? c->eos : NULL;
    TRI_TRY(token ? put_quoted(token, out) : tri_text_put(out, p, 1));
  }
  return TRI_OK;
}
