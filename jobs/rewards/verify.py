# verify.py - an example of a reward by a program: the last number of the response equals that of the answer.
# SPDX-License-Identifier: BSD-3-Clause
#
#   reward: [{name: process, command: [python3, jobs/rewards/verify.py], timeout_s: 10, on_error: zero}]
#
# One runs beside each rank. It reads a JSON object per line, all fields of the data line with id, prompt and response, and
# writes {"id": ..., "reward": ...} for each, in any order. It ends when its input does. What it writes on stderr is logged.
# Try it: trireme reward DECK --on F.jsonl, with lines {"prompt": ..., "answer": ..., "response": ...}.
import json
import re
import sys

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def last_number(text):
    found = NUMBER.findall(str(text))
    return float(found[-1].replace(",", "")) if found else None


for line in sys.stdin:
    asked = json.loads(line)
    right = last_number(asked["answer"])
    reward = 1.0 if right is not None and last_number(asked["response"]) == right else 0.0
    print(json.dumps({"id": asked["id"], "reward": reward}), flush=True)
