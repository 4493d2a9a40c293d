"""Splits readings by what was measured.

Usage: split.py INPUT WIND RAIN
"""

import csv
import os
import sys
import time
from pathlib import Path

with Path(sys.argv[1]).open() as file:
    rows = list(csv.reader(file))
for column, name in enumerate(sys.argv[2:], 1):
    with Path(name).open("x") as output:
        output.writelines(f"{row[0]},{row[column]}\n" for row in rows)
    time.sleep(float(os.environ.get("PACE", "0")))
    print("progress", 50 * column, flush=True)
