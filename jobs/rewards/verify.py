# verify.py - an example of a reward program. The reward is 1 if the last numbers of response and answer are equal.
# SPDX-License-Identifier: BSD-3-Clause
#
#   reward: [{name: process, command: [python3, jobs/rewards/verify.py], timeout_s: 10, on_error: zero}]
#
# One process runs beside each rank. It reads a JSON object per line with id, prompt, response and all fields of the data line. It
# writes {"id": ..., "reward": ...} for each, in any order, and ends when its input ends. The run logs its standard error.
# Try it by trireme reward DECK --on F.jsonl, with lines {"prompt": ..., "answer": ..., "response": ...}.
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
