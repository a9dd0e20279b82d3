/* command_export.c - trireme export CHECKPOINT FOLDER: writes a model folder for transformers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"
#include "io/model/export.h"
#include "comm/runtime.h"
#include "commands.h"
#include "io/model/source.h"

#include <string.h>
#include <sys/stat.h>

/* opt holds the flags except the type. dtype NULL takes the type of the run, or f32 for adapters. */
static tri_status work(const char *path, const char *folder, const char *dtype, tri_export_opt opt) {
  tri_status       st = TRI_OK;
  tri_ckpt_reader *r = NULL;
  tri_export_sum   sum;
  char             from[TRI_CKPT_PATH_BYTES];
  struct stat      sb;

  if (stat(path, &sb)) TRI_FAIL(TRI_EINPUT, "%s: no such checkpoint or run", path);
  TRI_TRY(tri_source_find_checkpoint(path, NULL, true, from));
  if (!from[0]) TRI_TRY(tri_source_check_output(path));
  if (!from[0])
    TRI_FAIL(TRI_EINPUT,
             "%s: is neither a checkpoint (no MANIFEST.json) nor the output folder of a run (no "
             "checkpoints/LATEST)",
             path);
  TRI_TRY_DONE(tri_ckpt_open(from, NULL, false, &r)); /* tri_source_find_checkpoint has verified every byte */
  TRI_TRY_DONE(tri_source_checkpoint_dtype(r, &opt.dtype));
  if (opt.adapter) opt.dtype = TRI_F32;
  if (dtype) opt.dtype = tri_dtype_named(dtype);
  TRI_TRY_DONE(tri_export(r, folder, &opt, &sum));
  tri_log(TRI_LOG_INFO, "%s: %.2f M parameters in %s%s, %d file%s, from %s", folder,
          (double)sum.n_parameter / 1e6, tri_dtype_word(opt.dtype),
          dtype || opt.adapter ? "" : " (the type the run computed in)", sum.n_shard,
          sum.n_shard == 1 ? "" : "s", from);
done:
  tri_ckpt_close(&r);
  return st;
}

static tri_status run(int argc, char **argv, int *code) {
  const char *dtype = NULL, *base = NULL;
  bool        help, critic = false, ema = false, adapter = false;
  tri_flag    flag[] = {
         {"--dtype", TRI_FLAG_WORD, &dtype, 0, 0, "bf16|f32|fp16",
          "type of the weights in the files (default the type the run computed in)"},
         {"--critic", TRI_FLAG_BOOL, &critic, 0, 0, NULL,
          "export the critic of a run with algo.name ppo, in place of its policy"},
         {"--ema", TRI_FLAG_BOOL, &ema, 0, 0, NULL,
          "export the average of the policy's weights, of a run with algo.ema_beta"},
         {"--adapter", TRI_FLAG_BOOL, &adapter, 0, 0, NULL,
          "export only the adapters of a run with lora.rank, as a PEFT folder in f32. Load it "
             "by PeftModel.from_pretrained(MODEL, FOLDER), with MODEL from "
             "AutoModelForCausalLM.from_pretrained(BASE), or in a deck by model.path=BASE "
             "lora.path=FOLDER. Without this flag the adapters are merged, and PEFT is not "
             "needed"},
         {"--base", TRI_FLAG_TEXT, &base, 0, 0, "FOLDER",
          "base model to merge the adapters with, or multimodal folder that the text model was taken "
             "from (default its place in the run)"}};
  int n;

  (void)code;
  TRI_TRY(tri_flags_parse(&tri_command_export, flag, 5, argc, argv, &n, &help));
  if (help) return TRI_OK;
  const tri_need need[] = {{"CHECKPOINT", n > 0}, {"FOLDER", n > 1}};
  TRI_TRY(tri_flags_need(&tri_command_export, need, 2, n > 2 ? argv[2] : NULL));
  if (adapter && base)
    TRI_FAIL(TRI_EARG, "--adapter and --base: give one of them. Adapters alone need no base model");
  if (critic && ema) TRI_FAIL(TRI_EARG, "--critic and --ema: give one of them");
  if (tri_runtime_env_rank() != 0) return TRI_OK; /* one rank does the work */
  return work(argv[0], argv[1], dtype,
              (tri_export_opt){.shard_bytes = TRI_EXPORT_SHARD_BYTES,
                               .part = critic ? TRI_PART_CRITIC
                                       : ema  ? TRI_PART_EMA
                                              : TRI_PART_MAIN,
                               .adapter = adapter,
                               .base = base});
}

const tri_command tri_command_export = {
    "export", "CHECKPOINT FOLDER [--critic|--ema] [--adapter] [flags]",
    "write a checkpoint's model as a Hugging Face folder for transformers", run};
