# make_reward_golden.py - TRL's soft overlong punishment of answers of every length, for test_reward.c: L, B, T, punishment.
# Made with trl 1.16, Python 3.11. Run by hand: python tests/golden/make_reward_golden.py tests/data/reward/length.txt (from the root)
import sys

from trl.rewards import get_soft_overlong_punishment

with open(sys.argv[1], "w") as out:
    for longest, buffer in ((10, 4), (10, 10), (7, 1), (100, 30)):
        for n in range(longest + 1):
            x = get_soft_overlong_punishment(longest, buffer)([[1] * n])[0]
            out.write(f"{longest} {buffer} {n} {x!r}\n")
