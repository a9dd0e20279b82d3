/* test_cli_chat.c - the whole program on conversations: the model's own template, a named one, refusals and
 * messages. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli_events.h"

#include <errno.h>

#define CONVERSATION                                                                                         \
  "{\"messages\": [{\"role\": \"user\", \"content\": \"1+1=\"}, "                                            \
  "{\"role\": \"assistant\", \"content\": \"2\"}]}\n"
#define ASK "{\"prompt\": [{\"role\": \"user\", \"content\": \"1+1=\"}], \"answer\": \"2\"}\n"

static void write_files(void) {
  cli_write("talk.jsonl", CONVERSATION);
  cli_write("ask.jsonl", ASK);
  cli_write("text.jsonl", "{\"text\": \"^[INST] 1+1= [/INST] 2 $\"}\n");
}

/* The model of the tests has no tokenizer_config.json. */
static void a_template_must_be_known(void **state) {
  (void)state;
  write_files();
  cli_fails(64, ONE "score model talk.jsonl", "talk.jsonl:1: model: ", " chatml|llama2|");
  cli_tells("--chat-template");
  cli_fails(64, TWO "generate model --prompts ask.jsonl", "ask.jsonl:1: model: ", " chatml|llama2|");
  cli_fails(64, ONE "eval model --data ask.jsonl --reward exact --chat-template none",
            "ask.jsonl:1: ", "--chat-template");
  cli_tells(" none");
  cli_fails(64, ONE "generate model a --chat-template phi", "--chat-template", " auto|none|chatml|");
  cli_tells(" phi");
  cli_fails(64, ONE "generate model a --apply-chat-template --chat-template no/phi.jinja", "no/phi.jinja",
            strerror(ENOENT));
  cli_fails(64, TWO SFT "data.train=talk.jsonl", "talk.jsonl:1: ", "data.chat_template: chatml|");
  cli_fails(64, ONE SFT "data.train=talk.jsonl data.chat_template=phi", "data.chat_template", "chatml");
  cli_fails(64, ONE SFT "data.train=talk.jsonl data.chat_template=no.jinja", "no.jinja",
            "data.chat_template");
  cli_fails(64,
            ONE GRPO "run.output=twice data.eval=ask.jsonl eval.steps=1 data.chat_template=no.jinja --check",
            "no.jinja", "grpo.yaml: 1 ");
  cli_tells(strerror(ENOENT), "data.chat_template", " data, tensors, memory");
  cli_sh("printf '{%%%% for %%%%}' >odd.jinja");
  cli_fails(64, ONE "generate model --chat-template odd.jinja --prompts talk.jsonl", "odd.jinja", " 1: ");
  cli_tells("(--chat-template)");
  cli_fails(64, ONE SFT "data.train=ask.jsonl data.chat_template=llama2",
            "ask.jsonl:1: ", "data.completion_key: answer");
}

#define PLAIN(file)                                                                                          \
  SFT "model.path=own model.config=null model.tokenizer=null run.output=plain data.train=" file ".jsonl"
#define PLAIN_NOTE "data.apply_chat_template: true"

/* A template in tokenizer_config.json. Its begin and end tokens are bytes, so that its result is also a
 * text. */
static void the_models_own_is_taken(void **state) {
  (void)state;
  write_files();
  cli_sh("cp -r model own && cp '" TRI_TEST_DATA "/chat/llama2.json' own/tokenizer_config.json");
  cli_succeeds(ONE "score own talk.jsonl");
  cli_sh("cp .out talk.out");
  cli_succeeds(ONE "score own text.jsonl");
  cli_sh("cmp .out talk.out");
  cli_succeeds(TWO "score own talk.jsonl");
  cli_sh("cmp .out talk.out");
  cli_succeeds(ONE "generate own --prompts ask.jsonl --max-new 2 --json");
  cli_shows(cli_out, "\"prompt\": \"^[INST] 1+1= [/INST]\"");
  /* A prompt on the command line has no right answer. */
  cli_sh("sed 's/\"answer\": \"[^\"]*\", //' .out > ask.out");
  cli_succeeds(ONE "generate own 1+1= --apply-chat-template --max-new 2 --json");
  cli_sh("cmp .out ask.out");
  cli_succeeds(ONE "eval own --data rl.jsonl --reward exact --apply-chat-template --max-new 2");
  /* Plain text prompts give one note if the deck does not say how to treat them. */
  cli_write("said.jsonl", "{\"prompt\": \"1+1=\", \"completion\": \"2\"}\n");
  cli_write("written.jsonl", "{\"prompt\": \"^[INST] 1+1= [/INST] 2 $\", \"completion\": \"2\"}\n");
  cli_succeeds(TWO PLAIN("said") " --check");
  cli_shows(cli_err, PLAIN_NOTE);
  assert_null(strstr(strstr(cli_err, PLAIN_NOTE) + 1, PLAIN_NOTE));
  cli_succeeds(TWO GRPO "model.path=own model.config=null model.tokenizer=null run.output=asked --check");
  cli_shows(cli_err, PLAIN_NOTE);
  cli_succeeds(ONE PLAIN("said") " data.apply_chat_template=false --check");
  assert_null(strstr(cli_err, PLAIN_NOTE));
  cli_succeeds(ONE PLAIN("said") " data.apply_chat_template=true --check");
  assert_null(strstr(cli_err, PLAIN_NOTE));
  cli_succeeds(ONE PLAIN("written") " --check");
  assert_null(strstr(cli_err, PLAIN_NOTE));
  cli_succeeds(ONE SFT "data.train=said.jsonl run.output=said --check"); /* the model has none */
  assert_null(strstr(cli_err, PLAIN_NOTE));
  cli_succeeds(TWO SFT "data.train=talk.jsonl model.path=own model.config=null model.tokenizer=null "
                       "train.train_batch_size=2 train.micro_batch_size=1 run.output=talked");
  assert_int_equal(cli_events("talked", ALARM("turn_end_no_eos")), 1);
  cli_tells("talk.jsonl", "tokenizer_config.json", " $", "eos_token_id", "generation_config.json");
  cli_succeeds(ONE "score talked talk.jsonl"); /* the checkpoint has the template */
}

#define NAMED                                                                                                \
  SFT "data.train=talk.jsonl model.config=null model.tokenizer=null train.train_batch_size=1 "               \
      "train.micro_batch_size=1 train.steps=1 "

/* The template named by the deck goes into the export, so that its users need no name. A template of the
 * model itself stays. Judge: equal scores with the name and with the export's own template. */
static void an_export_has_the_template_of_the_deck(void **state) {
  (void)state;
  write_files();
  cli_sh("cp -r model wide && sed -i 's/\"max_position_embeddings\": 32/\"max_position_embeddings\": 128/' "
         "wide/config.json");
  cli_succeeds(ONE NAMED "model.path=wide data.chat_template=chatml run.output=chatml");
  cli_succeeds(ONE "export chatml chatty");
  cli_read("chatty/tokenizer_config.json", cli_out);
  cli_shows(cli_out, "\"chat_template\": \"{#- As most models");
  cli_succeeds(ONE "score chatty talk.jsonl");
  cli_sh("cp .out talk.out");
  cli_succeeds(ONE "score chatty talk.jsonl --chat-template chatml");
  cli_sh("cmp .out talk.out");
  cli_succeeds(ONE "score chatml talk.jsonl"); /* the run knows the template of its deck */
  cli_sh("cmp .out talk.out");
  cli_sh("cp -r wide bare && echo '{\"bos_token\": \"^\", \"eos_token\": \"$\", \"kept\": [1]}' "
         ">bare/tokenizer_config.json");
  cli_succeeds(ONE NAMED "model.path=bare data.chat_template=llama2 run.output=named");
  cli_succeeds(ONE "export named spoken");
  cli_read("spoken/tokenizer_config.json", cli_out);
  cli_shows(cli_out, "\"kept\": [");
  cli_shows(cli_out, "{{- bos_token + '[INST] ' + text");
  cli_tells("spoken: ", " 3", "generation_config.json");
  cli_sh("[ \"$(tr -d ' \\n' <spoken/generation_config.json)\" = '{\"eos_token_id\":[256,3]}' ]");
  cli_succeeds(ONE "generate named 1+1= --apply-chat-template --max-new 1"); /* it has no such end token */
  cli_tells("warning: ", "llama2", " 3", "eos_token_id");
  cli_succeeds(
      ONE "generate named 1+1= --apply-chat-template --max-new 1 --chat-template chatml"); /* byte tokens */
  cli_tells("warning: ", "chatml", " <|im_end|>", "--chat-template");
  assert_null(strstr(cli_err, "eos_token_id"));
  cli_succeeds(ONE NAMED "model.path=bare data.chat_template=chatml run.output=spelled --check");
  cli_tells("warning: ", "chatml", " <|im_end|>", " 10", "rollout.stop");
  cli_succeeds(ONE "generate spoken 1+1= --apply-chat-template --max-new 1");
  assert_null(strstr(cli_err, "warning"));
  /* many models have such a number. No reader of integers takes it, and the file stays unchanged around the
   * template */
  cli_sh("cp -r bare large && echo '{\"bos_token\": \"^\", \"eos_token\": \"$\", \"model_max_length\": "
         "1000000000000000019884624838656}' >large/tokenizer_config.json");
  cli_write("large/generation_config.json",
            "{\"_from_model_config\": true, \"max_length\": 20, \"eos_token_id\": 2}");
  cli_succeeds(ONE NAMED "model.path=large data.chat_template=llama2 run.output=huge");
  cli_succeeds(ONE "export huge long");
  assert_null(strstr(cli_err, "warning"));
  cli_read("long/tokenizer_config.json", cli_out);
  cli_shows(cli_out,
            "\"model_max_length\": 1000000000000000019884624838656,\n  \"chat_template\": \"{#- As ");
  cli_shows(cli_out, "{{- bos_token + '[INST] ' + text");
  cli_sh("[ \"$(tr -d ' \\n' <long/generation_config.json)\" = "
         "'{\"max_length\":20,\"eos_token_id\":[2,3]}' ]");
  cli_succeeds(ONE "score long talk.jsonl"); /* recognised by name, whatever its tokens are */
  cli_sh("cp -r wide brought && cp '" TRI_TEST_DATA "/chat/llama2.json' brought/tokenizer_config.json");
  cli_succeeds(ONE NAMED "model.path=brought data.chat_template=chatml run.output=other");
  cli_succeeds(ONE "export other replaced");
  cli_tells("data.chat_template: chatml");
  cli_read("replaced/tokenizer_config.json", cli_out);
  cli_shows(cli_out, "\"chat_template\": \"{#- As most models");
  cli_succeeds(ONE "score replaced talk.jsonl");
  cli_sh("cmp .out talk.out");
  cli_succeeds(ONE NAMED "model.path=other run.output=next");
  assert_int_equal(cli_events("next", ALARM("other_template")), 1);
  cli_tells("model.path", "data.chat_template: chatml", "tokenizer_config.json");
  cli_succeeds(ONE NAMED "model.path=other data.chat_template=chatml run.output=after");
  assert_int_equal(cli_events("after", ALARM("other_template")), 0);
  cli_succeeds(ONE NAMED "model.path=brought run.output=equal");
  assert_int_equal(cli_events("equal", ALARM("other_template")), 0);
  cli_succeeds(ONE "export equal same");
  assert_null(strstr(cli_err, "data.chat_template"));
  cli_sh("cmp brought/tokenizer_config.json same/tokenizer_config.json");
}

#define TELL                                                                                                 \
  "{% for m in messages %}<{{ m.role }}>{{ m.content }}$\n{% endfor %}"                                      \
  "{% if add_generation_prompt %}<assistant>{% endif %}"
/* The template writes the day, a variable and the names of the tools. */
#define DATED                                                                                                \
  "{{ strftime_now('%Y-%m-%d') }} {{ mood }}"                                                                \
  "{% for t in tools or [] %} {{ t.function.name }}{% endfor %} " TELL

#define WIDE                                                                                                 \
  SFT "model.config=null model.tokenizer=null model.path=wide train.train_batch_size=1 "                     \
      "train.micro_batch_size=1 data.train=talk.jsonl data.chat_template=dated.jinja "

/* A file of the user with variables, tools and a day. The run, its checkpoints and its exports have them. A
 * resume continues with them even if the file is gone. Judge: the prompts shown by generate. */
static void a_template_of_a_file(void **state) {
  static const char *const odd[] = {"9223372036854775808", "-9223372036854775809", "1e400", ".nan", "no"};

  (void)state;
  write_files();
  cli_sh("rm -rf wide && cp -r model wide && sed -i 's/\"max_position_embeddings\": "
         "32/\"max_position_embeddings\": 128/' "
         "wide/config.json");
  cli_write("dated.jinja", DATED);
  cli_write("tools.json", "[{\"type\": \"function\", \"function\": {\"name\": \"add\"}}]");
  cli_succeeds(ONE WIDE
               "train.steps=1 data.chat_template_date=2025-12-24 'data.chat_template_kwargs={mood: glad}' "
               "data.tools=tools.json run.output=dated");
  cli_sh("grep -q 'chat_template_kwargs: {\"mood\": \"glad\"}' dated/deck.yaml");
  cli_sh("grep -q 'chat_template_date: \"2025-12-24\"' dated/deck.yaml");
  cli_sh("cmp dated.jinja dated/checkpoints/LATEST/deck_chat_template.jinja");
  cli_succeeds(ONE "generate dated hi --apply-chat-template --max-new 1 --json");
  cli_shows(cli_out, "\"prompt\": \"2025-12-24 glad add <user>hi$\\n<assistant>\"");
  cli_succeeds(ONE "generate dated hi --apply-chat-template --max-new 1 --json --template-kwarg mood=1.0");
  cli_shows(cli_out, "\"prompt\": \"2025-12-24 1.0 add <user>hi$\\n<assistant>\"");
  cli_succeeds(ONE "generate dated hi --apply-chat-template --max-new 1 --json --template-kwarg "
                   "'mood=\"9223372036854775808\"'");
  cli_shows(cli_out, "\"prompt\": \"2025-12-24 9223372036854775808 add <user>hi$");
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    char command[512], fact[64];
    snprintf(command, sizeof command, ONE "generate dated hi --template-kwarg mood=%s", odd[i]);
    snprintf(fact, sizeof fact, "--template-kwarg mood = %s ", odd[i]);
    cli_fails_in(64, command, "tri_deck_check_scalar", fact);
  }
  cli_write("more.json", "[{\"type\": \"function\", \"function\": {\"name\": \"mul\"}}]");
  cli_succeeds(ONE "generate dated hi --apply-chat-template --max-new 1 --json --tools more.json");
  cli_shows(cli_out, "\"prompt\": \"2025-12-24 glad mul <user>hi$");
  cli_fails(64, ONE "generate dated hi --tools more.json", "--tools", " more.json");
  cli_tells("--apply-chat-template");
  cli_succeeds(ONE "generate dated '[]' '[1] a' --max-new 1");
  assert_null(strstr(cli_err, "--prompts"));
  cli_succeeds(ONE "generate dated hi ' [{\"role\": \"user\", \"content\": \"a\"}]' --max-new 1");
  cli_shows(cli_err, "warning: prompt 2 ");
  cli_shows(cli_err, "--prompts");
  cli_write("asked.jsonl",
            "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", "
            "\"content\": \"5\"}]}\n");
  cli_succeeds(ONE "score dated asked.jsonl");
  cli_sh("cp .out as_run");
  cli_succeeds(ONE "score dated asked.jsonl --tools tools.json");
  cli_sh("cmp .out as_run");
  cli_succeeds(ONE "score dated asked.jsonl --tools more.json");
  cli_sh("! cmp -s .out as_run");
  cli_write("asked.jsonl", "{\"prompt\": [{\"role\": \"user\", \"content\": \"hi\"}], \"answer\": \"5\"}\n");
  cli_succeeds(
      ONE "eval dated --data asked.jsonl --reward exact --max-new 1 --tools more.json --output told.jsonl");
  cli_sh("grep -q '\"prompt\": \"2025-12-24 glad mul <user>hi' told.jsonl");
  cli_fails(64, ONE "eval dated --data asked.jsonl --reward exact --max-new 1 --tools none.json", "none.json",
            "--tools");
  cli_fails(64, ONE "generate dated hi --apply-chat-template --tools config.none", "config.none", "--tools");
  cli_fails(64, ONE "generate dated hi --apply-chat-template --tools dated.jinja",
            "dated.jinja:1: ", "--tools");
  cli_succeeds(ONE "export dated told");
  cli_shows(cli_err, "data.chat_template_kwargs: {\"mood\": \"glad\"}");
  cli_read("told/tokenizer_config.json", cli_out);
  cli_shows(cli_out, "\"chat_template\": \"{{ strftime_now('%Y-%m-%d') }} {{ mood }}");
  /* A resume keeps the day. Another template at the same path is another experiment. A missing one does not
   * matter. */
  cli_succeeds(
      ONE WIDE
      "train.steps=2 'data.chat_template_kwargs={mood: glad}' data.tools=tools.json run.output=dated");
  cli_resumed("dated", "dated/checkpoints/step-00000001", 2);
  cli_sh("grep -q 'chat_template_date: \"2025-12-24\"' dated/deck.yaml");
  cli_write("dated.jinja", "x" DATED);
  cli_fails(64,
            ONE WIDE
            "train.steps=3 'data.chat_template_kwargs={mood: glad}' data.tools=tools.json run.output=dated",
            "data.chat_template: \"dated.jinja\" -> \"dated.jinja\"",
            "'run.allow_changes=[data.chat_template,data.train]'");
  cli_fails(64,
            ONE WIDE
            "train.steps=3 'data.chat_template_kwargs={mood: sad}' data.tools=tools.json run.output=dated",
            "data.chat_template_kwargs: {\"mood\": \"glad\"} -> {\"mood\": \"sad\"}", NULL);
  /* without a given day, a template that writes one gets the day of the start */
  cli_write("dated.jinja", DATED);
  cli_succeeds(ONE WIDE "train.steps=1 run.output=undated");
  cli_sh("grep -Eq 'chat_template_date: \"20[0-9]{2}-[0-9]{2}-[0-9]{2}\"' undated/deck.yaml && "
         "grep -q 'chat_template_date: null' chatml/deck.yaml");
  cli_sh("rm dated.jinja tools.json");
  cli_succeeds(
      ONE WIDE
      "train.steps=3 'data.chat_template_kwargs={mood: glad}' data.tools=tools.json run.output=dated");
  cli_succeeds(ONE "generate dated hi --apply-chat-template --max-new 1 --json");
  cli_shows(cli_out, "\"prompt\": \"2025-12-24 glad add <user>hi$\\n<assistant>\"");
  cli_write("dated.jinja", DATED);
  cli_fails(64, ONE WIDE "data.chat_template_date=2025-02-29", "data.chat_template_date = 2025-02-29",
            "YYYY-MM-DD");
  cli_fails_in(64, ONE WIDE "'data.chat_template_kwargs={messages: x}'", "check_template", "'messages'");
  cli_succeeds(ONE WIDE "'data.chat_template_kwargs={moot: sad}' --check");
  cli_tells("warning: ", "data.chat_template_kwargs", "dated.jinja", " moot");
  cli_succeeds(ONE "generate dated hi --template-kwarg mood=sad --max-new 1");
  if (strstr(cli_err, "--template-kwarg")) fail_msg("%s", cli_err);
  cli_succeeds(ONE "generate dated hi --template-kwarg moot=sad --max-new 1");
  cli_tells("warning: ", "--template-kwarg", "dated.jinja", " moot");
  cli_fails(64, ONE WIDE "data.chat_template_kwargs=x", "data.chat_template_kwargs = x",
            "'data.chat_template_kwargs={enable_thinking: false}'");
  cli_fails(64, ONE WIDE "'data.chat_template_kwargs={a: [1]}'", "{a: [1]}': ", " true, false");
}

/* Parts of a line the template does not write, and an end token nobody learns, are reported once. */
static void what_is_not_written_is_said(void **state) {
  (void)state;
  write_files();
  cli_write("plain.jinja", "{% for m in messages %}{{ m.role[0] }}: {{ m.content }}\n{% endfor %}"
                           "{% if add_generation_prompt %}a: {% endif %}");
  cli_write("calls.jsonl",
            "{\"messages\": [{\"role\": \"user\", \"content\": \"1\"}, {\"role\": \"assistant\", "
            "\"content\": \"2\", \"tool_calls\": [{\"function\": {\"name\": \"add\"}}]}]}\n");
  cli_write("parts.jinja",
            "{% for m in messages %}{{ m.role[0] }}{% if m.content is not string %}!{% endif %}"
            "{% endfor %}");
  cli_succeeds(ONE SFT "data.train=talk.jsonl data.chat_template=plain.jinja "
                       "run.output=plain train.train_batch_size=2 train.micro_batch_size=2");
  assert_int_equal(cli_events("plain", ALARM("endless_conversations")), 1);
  cli_tells("warning: ", "talk.jsonl", " 1 of 1 ", "plain.jinja");
  assert_int_equal(cli_events("plain", ALARM("calls_not_written")), 0);
  cli_succeeds(ONE SFT "data.train=calls.jsonl data.chat_template=plain.jinja run.output=calls "
                       "train.train_batch_size=2 train.micro_batch_size=2");
  assert_int_equal(cli_events("calls", ALARM("calls_not_written")), 1);
  cli_tells("warning: ", "calls.jsonl", " 1 of 1 ", "plain.jinja", "tool_calls");
  cli_succeeds(ONE "score model talk.jsonl --chat-template parts.jinja");
  cli_tells("warning: ", "talk.jsonl", " 1 of 1 ", "parts.jinja", "[{\"type\": \"text\", ");
}

/* An error raised by a template has the line's place. A begun answer is continued, with a message. */
static void a_prompt_may_be_begun(void **state) {
  (void)state;
  write_files();
  cli_write("begun.jsonl", "{\"prompt\": [{\"role\": \"user\", \"content\": \"1+1=\"}, "
                           "{\"role\": \"assistant\", \"content\": \"It is\"}], \"answer\": \"2\"}\n");
  cli_write("tell.jinja", TELL);
  cli_write("raise.jinja", "\n{{ raise_exception('I take no ' ~ messages[0].role) }}");
  cli_succeeds(ONE "generate model --prompts begun.jsonl --chat-template tell.jinja --max-new 1 --json");
  cli_shows(cli_out, "\"prompt\": \"<user>1+1=$\\n<assistant>It is\"");
  cli_tells("begun.jsonl: ", " 1 of 1 ");
  cli_write("empty.jinja", "{# nothing #}");
  cli_fails_in(64, ONE "generate model --prompts ask.jsonl --chat-template empty.jinja --max-new 1",
               "put_conversation", "ask.jsonl:1: ");
  cli_tells("empty.jinja");
  cli_write("tooled.jsonl",
            "{\"prompt\": [{\"role\": \"user\", \"content\": \"1\"}], \"tools\": [{}], \"answer\": \"2\"}\n");
  cli_succeeds(ONE "eval model --data tooled.jsonl --reward exact --chat-template tell.jinja --max-new 1");
  cli_tells("warning: ", "tooled.jsonl", "tell.jinja", " tools", " 1 ");
  cli_fails(64, ONE "generate model --prompts ask.jsonl --chat-template raise.jinja --max-new 1",
            "ask.jsonl:1: ", "I take no user"); /* as the template has it */
  cli_tells("raise.jinja", " 2: ");
  cli_write("bad.jinja", "a\n{% if %}");
  cli_fails(64, ONE "generate model --prompts ask.jsonl --chat-template bad.jinja --max-new 1", "bad.jinja",
            " 2: ");
}

static void weights_are_checked(void **state) {
  (void)state;
  cli_fails_in(64, ONE SFT "data.train_weights=[1,2]", "check_weights", "data.train_weights");
  cli_tells("data.train_weights: 2,", "data.train: 1.");
  cli_fails(64, ONE SFT "data.train=[sft.jsonl,sft.jsonl] data.train_weights=[1,0]", "data.train_weights",
            "'0'");
  cli_fails(64, ONE SFT "data.train=[sft.jsonl,sft.jsonl] data.train_weights=[1,x]", "data.train_weights",
            "'x'");
  cli_write("blank.jsonl", "\n");
  cli_fails_in(64, TWO SFT "data.train=[sft.jsonl,blank.jsonl] data.train_weights=[1,1]", "tri_dataset_weigh",
               "blank.jsonl: ");
}

#define SEEN                                                                                                 \
  SFT "model.path=seen model.config=null model.tokenizer=null train.train_batch_size=1 "                     \
      "train.micro_batch_size=1 train.steps=1 "
#define SHOWN "run.output=never --check --show 1 "
#define ON    "\xe2\x9f\xa6"
#define OFF   "\xe2\x9f\xa7"

/* Judge: the texts by hand. Each byte is a token of the model's tokenizer, so that the marks stand at
 * bytes. */
static void learned_tokens_are_shown(void **state) {
  (void)state;
  write_files();
  cli_sh("cp -r model seen && cp '" TRI_TEST_DATA "/chat/llama2.json' seen/tokenizer_config.json");
  cli_sh("sed -i 's/\"max_position_embeddings\": 32/\"max_position_embeddings\": 128/' seen/config.json");
  cli_write("turns.jsonl",
            "\n{\"messages\": [{\"role\": \"user\", \"content\": \"1+1=\"}, {\"role\": \"assistant\", "
            "\"content\": \"\xc3\xa9\"}, {\"role\": \"user\", \"content\": \"?\"}, "
            "{\"role\": \"assistant\", \"content\": \"2\"}]}\n" CONVERSATION);
  cli_succeeds(ONE SEEN "data.train=turns.jsonl data.train_on=all " SHOWN);
  assert_string_equal(cli_out,
                      "turns.jsonl:2: 46 tokens, 9 learned\n"
                      "^[INST] 1+1= [/INST]" ON " \xc3\xa9 $" OFF "^[INST] ? [/INST]" ON " 2 $" OFF "\n");
  cli_succeeds(ONE SEEN "data.train=turns.jsonl data.max_length=45 data.overlong=truncate "
                        "data.train_on=all " SHOWN);
  cli_shows(cli_out, ", cut");
  /* lines of each file, with their own numbers */
  cli_succeeds(ONE SEEN "'data.train=[turns.jsonl,text.jsonl,talk.jsonl]' --json " SHOWN);
  cli_sh(
      "[ $(wc -l <.out) = 3 ] && sed -n 1p .out | grep -q '\"line\": 2, \"cut\": false' && sed -n 2p .out | "
      "grep -q 'text.jsonl\", \"line\": 1, ' && sed -n 3p .out | grep -q 'talk.jsonl\", \"line\": 1, '");
  cli_shows(cli_out, "\"text\": \"^[INST] 1+1= [/INST] 2 $\", \"tokens\": [");
  cli_sh("sed -n 3p .out | grep -q 'false, true, true, true, true\\]}$'");
  cli_succeeds(ONE GRPO "data.train=ask.jsonl model.path=seen model.config=null model.tokenizer=null " SHOWN);
  assert_string_equal(cli_out, "ask.jsonl:1: 20 tokens, a prompt\n^[INST] 1+1= [/INST]\n");
}

/* Both sides of a pair, a label, conversations, and text encoded as a whole. */
static void learned_tokens_of_pairs_are_shown(void **state) {
  (void)state;
  write_files();
  cli_write("sides.jsonl",
            "{\"prompt\": \"1+1=\", \"chosen\": \"2\", \"rejected\": \"33\", \"margin\": 0.5}\n");
  cli_write("sided.jsonl", "{\"prompt\": [{\"role\": \"user\", \"content\": \"1\"}], \"chosen\": "
                           "[{\"role\": \"assistant\", \"content\": \"2\"}], \"rejected\": [{\"role\": "
                           "\"assistant\", \"content\": \"33\"}]}\n");
  cli_write("labels.jsonl", "{\"prompt\": \"1+1=\", \"completion\": \"3\", \"label\": false}\n"
                            "{\"prompt\": \"1+2=\", \"completion\": \"3\", \"label\": true}\n");
  cli_write("tell.jinja", "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}${% endfor %}"
                          "{% if add_generation_prompt %}<a>{% endif %}");
  cli_succeeds(ONE SFT "algo.name=rm data.train=sides.jsonl " SHOWN);
  assert_string_equal(cli_out,
                      "sides.jsonl:1: chosen: 6 tokens, 2 learned\n1+1=" ON "2<|end|>" OFF
                      "\nsides.jsonl:1: rejected: 7 tokens, 3 learned\n1+1=" ON "33<|end|>" OFF "\n");
  cli_succeeds(ONE SFT "algo.name=rm data.train=sides.jsonl --json " SHOWN);
  cli_shows(cli_out, "\"margin\": 0.5, \"chosen\": {\"text\": \"1+1=2<|end|>\", ");
  cli_shows(cli_out, "}, \"rejected\": {\"text\": \"1+1=33<|end|>\", ");
  cli_shows(cli_out, "\"learned\": [false, false, false, false, true, true, true]}}\n");
  cli_succeeds(ONE SFT "algo.name=rm data.train=sided.jsonl data.chat_template=tell.jinja " SHOWN);
  assert_string_equal(cli_out, "sided.jsonl:1: chosen: 10 tokens, 2 learned\n<u>1$<a>" ON "2$" OFF
                               "\nsided.jsonl:1: rejected: 11 tokens, 3 learned\n<u>1$<a>" ON "33$" OFF "\n");
  cli_succeeds(
      ONE SFT
      "algo.name=kto train.train_batch_size=2 train.micro_batch_size=2 data.train=labels.jsonl " SHOWN);
  assert_string_equal(cli_out,
                      "labels.jsonl:1: label false: 6 tokens, 2 learned\n1+1=" ON "3<|end|>" OFF "\n");
  cli_succeeds(
      ONE SFT "algo.name=kto train.train_batch_size=2 train.micro_batch_size=2 data.train=labels.jsonl " SHOWN
              " --json");
  cli_shows(cli_out, "\"label\": false, \"text\": ");
  cli_write("ids.jsonl", "{\"tokens\": [5, 6, 7], \"prompt_tokens\": 2}\n");
  cli_succeeds(ONE SFT "model.tokenizer=null data.train=ids.jsonl " SHOWN);
  cli_shows(cli_out, "ids.jsonl:1: 3 tokens, 1 learned\n");
  cli_fails(64, ONE SFT "--show 1", "--show", " --check");
  cli_fails(64, ONE "train --options --json --show 1", "--options", "--show");
  cli_fails(64, ONE "train --options --check", "--options", "--check");
  cli_fails(64, ONE "train --options --ranks 2", "--options", "--ranks");
  cli_fails(64, ONE SFT "--check --json", "--json", " --check --show N");
}

#define BRIEFED                                                                                              \
  "train deck.yaml run.output=briefed rollout.rollout_batch_size=1 train.train_batch_size=4 "                \
  "train.micro_batch_size=4 checkpoint.save_final=true "

/* data.system_prompt is a part of the experiment. Commands put it before conversations with a model of the
 * run. Judge: the message written out in the line. */
static void a_deck_has_a_system_prompt(void **state) {
  (void)state;
  write_files();
  cli_write("brief.jinja", "{% for m in messages %}{{ m.role[0] }}{{ m.content }}|{% endfor %}");
  cli_write("prompts.sh", "sed 's/.*\"prompt\": \\(\"\\([^\"\\\\]\\|\\\\.\\)*\"\\).*/\\1/' $1 | sort -u\n");
  cli_write("spelled.jsonl", "{\"prompt\": [{\"role\": \"system\", \"content\": \"A:\\n \\\"b\\\"\"}, "
                             "{\"role\": \"user\", \"content\": \"1+1=\"}], \"answer\": \"2\"}\n");
  cli_write("deck.yaml", "data: {train: ask.jsonl, chat_template: brief.jinja, default_system: \"A:\\n "
                         "\\\"b\\\"\"}\n");
  cli_sh("sed '/^data:/d' grpo.yaml >>deck.yaml");
  cli_succeeds(ONE BRIEFED "rollout.save_every=1");
  cli_succeeds(ONE BRIEFED "run.resume=auto rollout.save_every=1"); /* the same, written and read */
  cli_fails(64, ONE BRIEFED "run.resume=auto train.steps=2 data.system_prompt=C", "data.system_prompt", NULL);
  cli_succeeds(ONE "generate model --chat-template brief.jinja --prompts spelled.jsonl --max-new 1 --json");
  cli_sh("sh prompts.sh .out >want && grep -q 'sA:' want");
  cli_sh("sh prompts.sh briefed/rollouts/step-00000001.jsonl | diff want -");
  cli_succeeds(ONE "generate briefed --prompts ask.jsonl --max-new 1 --json");
  cli_sh("sh prompts.sh .out | diff want -");
  cli_succeeds(ONE "generate briefed 1+1= --apply-chat-template --max-new 1 --json");
  cli_sh("sh prompts.sh .out | diff want -");
  cli_write("system.txt", "A:\n \"b\"");
  cli_succeeds(ONE "generate model --chat-template brief.jinja --system \"$(cat system.txt)\" --prompts "
                   "ask.jsonl --max-new 1 "
                   "--json");
  cli_sh("sh prompts.sh .out | diff want -");
  cli_succeeds(ONE "eval briefed --data ask.jsonl --max-new 1 --output run.jsonl");
  cli_sh("sh prompts.sh run.jsonl | diff want -");
  cli_succeeds(ONE "eval briefed --data ask.jsonl --max-new 1 --output flag.jsonl --system C");
  cli_sh("sh prompts.sh flag.jsonl >is; grep -q sC is && ! grep -q sA: is");
  cli_succeeds(ONE "generate briefed 1+1= --max-new 1 --json");
  cli_tells("warning: ", "data.system_prompt", "--apply-chat-template");
  cli_succeeds(ONE GRPO "run.output=unbriefed data.system_prompt=C");
  assert_int_equal(cli_events("unbriefed", ALARM("no_conversation")), 1);
  cli_tells("rl.jsonl", "data.system_prompt", "data.apply_chat_template: true");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_template_must_be_known),
      cmocka_unit_test(the_models_own_is_taken),
      cmocka_unit_test(an_export_has_the_template_of_the_deck),
      cmocka_unit_test(a_template_of_a_file),
      cmocka_unit_test(a_deck_has_a_system_prompt),
      cmocka_unit_test(a_prompt_may_be_begun),
      cmocka_unit_test(what_is_not_written_is_said),
      cmocka_unit_test(weights_are_checked),
      cmocka_unit_test(learned_tokens_are_shown),
      cmocka_unit_test(learned_tokens_of_pairs_are_shown),
  };

  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
