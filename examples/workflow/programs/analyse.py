"""Says the mean of each day.

Usage: analyse.py INPUT OUTPUT
"""

import csv
import json
import os
import statistics
import sys
import time
from pathlib import Path

with Path(sys.argv[1]).open() as file:
    values = [float(value) for _, value in csv.reader(file)]
days, means = [values[at : at + 24] for at in range(0, len(values), 24)], []
for number, day in enumerate(days, 1):
    means.append(round(statistics.mean(day), 2))
    time.sleep(float(os.environ.get("PACE", "0")))
    print("progress", 100 * number // len(days), flush=True)
with Path(sys.argv[2]).open("x") as output:
    json.dump(means, output)
