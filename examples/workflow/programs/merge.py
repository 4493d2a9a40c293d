"""Merges what was found into one file.

Usage: merge.py INPUT INPUT OUTPUT
"""

import json
import sys
from pathlib import Path

*inputs, output = map(Path, sys.argv[1:])
with output.open("x") as file:
    json.dump({path.stem: json.loads(path.read_text()) for path in inputs}, file)
