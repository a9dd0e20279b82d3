/* chat_forms.c - a row for each chat template. Judge: transformers with the published text. */
#include "chat_impl.h"

#define IM_START "<|im_start|>"
#define IM_END   "<|im_end|>"
#define H3(who)  "<|start_header_id|>" who "<|end_header_id|>\n\n"
/* A turn's end is the same for all. */
#define ALL(x)                                                                                               \
  { (x), (x), (x) }
#define CHATML(label, text, flags)                                                                           \
  {                                                                                                          \
    .name = (label), .head = {IM_START "system\n", IM_START "user\n", IM_START "assistant\n"},               \
    .tail = ALL(IM_END), .rest = "\n", .prompt = IM_START "assistant\n", .system = (text), .rules = (flags)  \
  }
#define GEMMA(label, flags)                                                                                  \
  {                                                                                                          \
    .name = (label), .begin = TRI_CHAT_BOS,                                                                  \
    .head = {NULL, "<start_of_turn>user\n", "<start_of_turn>model\n"}, .tail = ALL("<end_of_turn>"),         \
    .rest = "\n", .prompt = "<start_of_turn>model\n", .system_tail = "\n\n", .bos = "<bos>", .eos = "<eos>", \
    .rules = TRI_CHAT_ALTERNATES | TRI_CHAT_TRIMS | (flags)                                                  \
  }

static const tri_chat_form form[TRI_CHAT_LAST] = {
    [TRI_CHAT_CHATML] = CHATML("chatml", NULL, 0),
    /* Touvron et al. 2023, appendix A.5; the template of meta-llama/Llama-2-7b-chat-hf */
    [TRI_CHAT_LLAMA2] = {.name = "llama2",
                         .head = {NULL, TRI_CHAT_BOS "[INST] ", NULL},
                         .lead = " ",
                         .tail = {NULL, " [/INST]", " " TRI_CHAT_EOS},
                         .system_head = "<<SYS>>\n",
                         .system_tail = "\n<</SYS>>\n\n",
                         .bos = "<s>",
                         .eos = "</s>",
                         .rules = TRI_CHAT_ALTERNATES | TRI_CHAT_IN_FIRST | TRI_CHAT_TRIMS_JOINED |
                                  TRI_CHAT_TRIMS_ASSISTANT},
    /* meta-llama/Meta-Llama-3-8B-Instruct; those of 3.1 on write a date */
    [TRI_CHAT_LLAMA3] = {.name = "llama3",
                         .begin = TRI_CHAT_BOS,
                         .head = {H3("system"), H3("user"), H3("assistant")},
                         .tail = ALL("<|eot_id|>"),
                         .prompt = H3("assistant"),
                         .bos = "<|begin_of_text|>",
                         .eos = "<|eot_id|>",
                         .rules = TRI_CHAT_TRIMS},
    /* mistralai/Mistral-7B-Instruct-v0.3 */
    [TRI_CHAT_MISTRAL] = {.name = "mistral",
                          .begin = TRI_CHAT_BOS,
                          .head = {NULL, "[INST] ", NULL},
                          .lead = " ",
                          .tail = {NULL, "[/INST]", TRI_CHAT_EOS},
                          .system_tail = "\n\n",
                          .bos = "<s>",
                          .eos = "</s>",
                          .rules = TRI_CHAT_ALTERNATES | TRI_CHAT_IN_LAST | TRI_CHAT_TRIMS_ASSISTANT},
    [TRI_CHAT_QWEN2_5] =
        CHATML("qwen2.5", "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.", 0),
    [TRI_CHAT_QWEN3] = CHATML("qwen3", NULL, TRI_CHAT_THINKS),
    /* google/gemma-3-1b-it; without a system's message those of Gemma 1 and 2 write the same */
    [TRI_CHAT_GEMMA] = GEMMA("gemma", TRI_CHAT_IN_FIRST),
    /* HuggingFaceH4/zephyr-7b-beta */
    [TRI_CHAT_ZEPHYR] = {.name = "zephyr",
                         .head = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"},
                         .tail = ALL(TRI_CHAT_EOS),
                         .rest = "\n",
                         .prompt = "<|assistant|>\n",
                         .bos = "<s>",
                         .eos = "</s>"},
    [TRI_CHAT_GEMMA2] = GEMMA("gemma, that of Gemma 1 and 2", TRI_CHAT_NO_SYSTEM),
    [TRI_CHAT_QWEN2] = CHATML("chatml, that of Qwen2", "You are a helpful assistant.", 0),
    [TRI_CHAT_QWEN2_5_BASE] = CHATML("qwen2.5, that of the base models", "You are a helpful assistant.", 0),
    [TRI_CHAT_QWEN2_5_MATH] =
        CHATML("qwen2.5, that of Qwen2.5-Math",
               "Please reason step by step, and put your final answer within \\boxed{}.", 0),
    [TRI_CHAT_QWEN3_2507] = CHATML("qwen3, that of the Instruct-2507 models", NULL, 0),
};

const tri_chat_form *tri_chat_form_at(int choice) { return &form[choice]; }
