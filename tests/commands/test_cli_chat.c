/* test_cli_chat.c - the whole program on conversations: the model's own template, a named one, what is
 * refused and what is said. */
#include "cli_case.h"

#define TALK                                                                                                 \
  "{\"messages\": [{\"role\": \"user\", \"content\": \"1+1=\"}, "                                            \
  "{\"role\": \"assistant\", \"content\": \"2\"}]}\n"
#define ASK "{\"prompt\": [{\"role\": \"user\", \"content\": \"1+1=\"}], \"answer\": \"2\"}\n"

static void write_files(void) {
  cli_write("talk.jsonl", TALK);
  cli_write("ask.jsonl", ASK);
  cli_write("text.jsonl", "{\"text\": \"^[INST] 1+1= [/INST] 2 $\"}\n");
}

/* The model of the tests has no tokenizer_config.json. */
static void a_template_must_be_known(void **state) {
  (void)state;
  write_files();
  cli_fails(64, ONE "score model talk.jsonl",
            "talk.jsonl:1: model: brings no chat template; name one: ", "--chat-template chatml|llama2|");
  cli_fails(64, TWO "generate model --prompts ask.jsonl", "ask.jsonl:1: model: brings no chat template",
            NULL);
  cli_fails(64, ONE "eval model --data ask.jsonl --reward exact --chat-template none",
            "no chat template is wanted (--chat-template none)", NULL);
  cli_fails(64, ONE "generate model a --chat-template phi", "--chat-template", "chatml");
  cli_fails(64, TWO SFT "data.train=talk.jsonl", "talk.jsonl:1: ", "name one: data.chat_template: chatml|");
  cli_fails(64, ONE SFT "data.train=talk.jsonl data.chat_template=phi", "data.chat_template", "chatml");
  cli_fails(64, ONE SFT "data.train=ask.jsonl data.chat_template=llama2", "ask.jsonl:1: needs ", NULL);
}

/* One in tokenizer_config.json, whose begin and end tokens are bytes, so that what comes of it is also a
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
  /* What is typed has no right answer beside it. */
  cli_sh("sed 's/\"answer\": \"[^\"]*\", //' .out > ask.out");
  cli_succeeds(ONE "generate own 1+1= --apply-chat-template --max-new 2 --json");
  cli_sh("cmp .out ask.out");
  cli_succeeds(ONE "eval own --data rl.jsonl --reward exact --apply-chat-template --max-new 2");
  cli_succeeds(TWO SFT "data.train=talk.jsonl model.path=own model.config=null model.tokenizer=null "
                       "train.train_batch_size=2 train.micro_batch_size=1 run.output=talked");
  cli_shows(cli_err,
            "warning: talk.jsonl: the chat template llama2 ends a turn with $, which does not end an answer");
  cli_succeeds(ONE "score talked talk.jsonl"); /* the checkpoint carries the template */
}

#define NAMED                                                                                                \
  SFT "data.train=talk.jsonl model.config=null model.tokenizer=null train.train_batch_size=1 "               \
      "train.micro_batch_size=1 train.steps=1 "

/* The template that the deck names goes into the export, whose users then need no name; what a model brings
 * stays. Judge: the same scores by the name and by the export's own. */
static void an_export_has_the_template_of_the_deck(void **state) {
  (void)state;
  write_files();
  cli_sh("cp -r model wide && sed -i 's/\"max_position_embeddings\": 32/\"max_position_embeddings\": 128/' "
         "wide/config.json");
  cli_succeeds(ONE NAMED "model.path=wide data.chat_template=chatml run.output=chatml");
  cli_succeeds(ONE "export chatml chatty");
  cli_read("chatty/tokenizer_config.json", cli_out);
  cli_shows(cli_out, "\"chat_template\": \"{% for m in messages %}{{ '<|im_start|>' + m['role']");
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
  cli_shows(cli_out, "{{ '^[INST] ' + text");
  cli_shows(cli_err, "spoken: token 3, with which the chat template ends a turn, ends an answer too");
  cli_sh("[ \"$(tr -d ' \\n' <spoken/generation_config.json)\" = '{\"eos_token_id\":[256,3]}' ]");
  cli_succeeds(ONE "generate named 1+1= --apply-chat-template --max-new 1"); /* which has no such end token */
  cli_shows(cli_err, "the chat template llama2 ends a turn with token 3, which does not end an answer");
  cli_succeeds(ONE "generate spoken 1+1= --apply-chat-template --max-new 1");
  assert_null(strstr(cli_err, "warning"));
  /* of very many models: no reader of integers takes it, and the file stays as it was around the template */
  cli_sh("cp -r bare large && echo '{\"bos_token\": \"^\", \"eos_token\": \"$\", \"model_max_length\": "
         "1000000000000000019884624838656}' >large/tokenizer_config.json");
  cli_write("large/generation_config.json",
            "{\"_from_model_config\": true, \"max_length\": 20, \"eos_token_id\": 2}");
  cli_succeeds(ONE NAMED "model.path=large data.chat_template=llama2 run.output=huge");
  cli_succeeds(ONE "export huge long");
  assert_null(strstr(cli_err, "warning"));
  cli_read("long/tokenizer_config.json", cli_out);
  cli_shows(cli_out, "\"model_max_length\": 1000000000000000019884624838656,\n  \"chat_template\": \"{% if ");
  cli_shows(cli_out, "{{ '^[INST] ' + text");
  cli_sh("[ \"$(tr -d ' \\n' <long/generation_config.json)\" = "
         "'{\"max_length\":20,\"eos_token_id\":[2,3]}' ]");
  cli_succeeds(ONE "score long talk.jsonl"); /* known by its name, whatever its tokens are */
  cli_sh("cp -r wide brought && cp '" TRI_TEST_DATA "/chat/llama2.json' brought/tokenizer_config.json");
  cli_succeeds(ONE NAMED "model.path=brought data.chat_template=chatml run.output=other");
  cli_succeeds(ONE "export other stays");
  cli_shows(cli_err,
            "warning: the chat template that the model brought (llama2) stays in the export, and the run "
            "took data.chat_template: chatml.");
  cli_sh("cmp brought/tokenizer_config.json stays/tokenizer_config.json");
  cli_succeeds(ONE NAMED "model.path=brought data.chat_template=llama2 run.output=equal");
  cli_succeeds(ONE "export equal same");
  assert_null(strstr(cli_err, "warning"));
  cli_sh("cmp brought/tokenizer_config.json same/tokenizer_config.json");
}

static void weights_are_checked(void **state) {
  (void)state;
  cli_fails(64, ONE SFT "data.train_weights=[1,2]", "data.train_weights has 2 numbers, data.train 1 files",
            NULL);
  cli_fails(64, ONE SFT "data.train=[sft.jsonl,sft.jsonl] data.train_weights=[1,0]",
            "data.train_weights: '0' must be a number over 0", NULL);
  cli_fails(64, ONE SFT "data.train=[sft.jsonl,sft.jsonl] data.train_weights=[1,x]",
            "data.train_weights: 'x' must be a number over 0", NULL);
  cli_write("blank.jsonl", "\n");
  cli_fails(64, TWO SFT "data.train=[sft.jsonl,blank.jsonl] data.train_weights=[1,1]",
            "blank.jsonl: has a weight, but no lines to draw", NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_template_must_be_known),
      cmocka_unit_test(the_models_own_is_taken),
      cmocka_unit_test(an_export_has_the_template_of_the_deck),
      cmocka_unit_test(weights_are_checked),
  };

  return cmocka_run_group_tests(tests, cli_open, cli_close);
}
