# check_tensorboard.py - compares every number that TensorBoard reads from a run's event file with the run's metrics.jsonl.
# usage: python tests/golden/check_tensorboard.py OUTPUT ...    (tried with tensorboard 2.20.0, numpy 2.4, Python 3.11)
# SPDX-License-Identifier: BSD-3-Clause
import glob
import json
import math
import sys

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader


def fail(what):
    sys.exit(f"check_tensorboard: {what}")


def said(output):
    """(name, step) -> (wall time, value) from metrics.jsonl. null is NaN."""
    out = {}
    for line in open(f"{output}/metrics.jsonl"):
        row = json.loads(line)
        for name, value in row.items():
            if name != "step" and not isinstance(value, str):
                out[name, row["step"]] = (row["time_unix_s"], math.nan if value is None else value)
    return out


def same(x, value):
    with np.errstate(over="ignore"):
        return math.isnan(x) if math.isnan(value) else np.float32(x) == np.float32(value)


def check(output):
    files = sorted(glob.glob(f"{output}/tensorboard/*tfevents*"))
    loaded = [list(LegacyEventFileLoader(f).Load()) for f in files]  # each record unchanged, up to the first cut one
    if not files or any(not events or events[0].file_version != "brain.Event:2" for events in loaded):
        fail(f"{output}: an event file begins with no version, or there is none: {files}")
    if any(len(events) > 1 for events in loaded[:-1]):
        fail(f"{output}: an event file besides the newest says something: {files}")
    events = loaded[-1]
    want = said(output)
    got = {}
    for event in events:
        for value in event.summary.value:
            if value.WhichOneof("value") == "simple_value":
                key = (value.tag.split("/", 1)[1], event.step)
                if key in got:
                    fail(f"{key} is there twice")
                got[key] = (event.wall_time, value.simple_value)
    if got.keys() != want.keys():
        fail(f"only in one of the two: {sorted(got.keys() ^ want.keys())[:10]}")
    for key, (wall, value) in want.items():
        if got[key][0] != wall or not same(got[key][1], value):
            fail(f"{key}: {got[key]}, not {(wall, value)}")
    # TensorBoard's scalar plugin must show the same numbers and lose none.
    board = EventAccumulator(f"{output}/tensorboard", size_guidance={"scalars": 0, "tensors": 0})
    board.Reload()
    shown = {(tag.split("/", 1)[1], e.step): e.value for tag in board.Tags()["scalars"] for e in board.Scalars(tag)}
    if shown.keys() != want.keys() or not all(same(shown[k], want[k][1]) for k in want):
        fail(f"{output}: EventAccumulator shows {len(shown)} numbers, not {len(want)}")
    deck = board.Tensors("deck")[-1].tensor_proto.string_val[0].decode()
    used = "".join(f"    {line}\n" for line in open(f"{output}/deck.yaml").read().splitlines())
    if deck != used:
        fail(f"{output}: the text `deck` is not deck.yaml")
    print(f"{output}: {len(want)} numbers of {len({s for _, s in want})} steps, {len(board.Tags()['scalars'])} tags, the deck")


for folder in sys.argv[1:]:
    check(folder)
