# make_tensorboard_golden.py - writes an event file with TensorBoard's own record writer and messages. For test_tensorboard.c.
# Written with tensorboard 2.20.0, protobuf 7.36.2, Python 3.11. usage:
#   python tests/golden/make_tensorboard_golden.py tests/data/tensorboard/golden.tfevents
# SPDX-License-Identifier: BSD-3-Clause
import sys

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.record_writer import RecordWriter

NAN = float("nan")
NOW = 1790000000.25
DECK = "    run:\n      output: out # caf\u00e9\n"
# The last step has negative, tiny and huge numbers, and one beyond float32's range. The last event is for the same step again.
STEPS = [
    (0, 1790000001.5, [("eval/eval_reward_mean", 0.1), ("time/time_unix_s", 1790000001.5)]),
    (1, 1790000002.625, [("train/loss", -0.25), ("reward/reward_mean", NAN), ("speed/tokens_per_s", 12345.678),
                         ("mem/mem_used_bytes", 34359738368.0), ("time/time_unix_s", 1790000002.625)]),
    (300, 1790000003.125, [("train/loss", 1e-40), ("train/grad_norm", 3e38), ("train/odd", 1e300),
                           ("time/time_unix_s", 1790000003.125), ("train/alarms", "kl_high, truncation")]),
    (300, 1790000003.125, [("eval/eval_reward_mean", 0.5)]),
]


def value_of(tag, value):
    if isinstance(value, str):
        return text_pb(tag, value).value[0]
    return Summary.Value(tag=tag, simple_value=float("inf") if value > 3.5e38 else value)


with open(sys.argv[1], "wb") as out:
    writer = RecordWriter(out)

    def put(**fields):
        writer.write(Event(**fields).SerializeToString())

    put(wall_time=NOW, file_version="brain.Event:2")
    put(wall_time=NOW, session_log=SessionLog(status=SessionLog.START))
    put(wall_time=NOW, summary=text_pb("deck", DECK))
    for step, wall, values in STEPS:
        put(wall_time=wall, step=step, summary=Summary(value=[value_of(tag, v) for tag, v in values]))
