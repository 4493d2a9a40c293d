"""Fetches readings of wind and rain: here it makes them up.

Usage: fetch.py OUTPUT
"""

import os
import random
import sys
import time
from pathlib import Path

pace, draw = float(os.environ.get("PACE", "0")), random.Random(7)
# A file that is there already is an error: no program of these may run twice.
with Path(sys.argv[1]).open("x") as output:
    for day in range(4):
        for hour in range(24):
            wind, rain = draw.gauss(8, 3), draw.expovariate(2)
            output.write(f"{24 * day + hour},{max(0.0, wind):.1f},{rain:.1f}\n")
        time.sleep(pace)
        print("progress", 25 * (day + 1), flush=True)
