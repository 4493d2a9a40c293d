"""Draws a bar for each value.

Usage: plot.py INPUT OUTPUT
"""

import json
import sys
from pathlib import Path

values = [one for series in json.loads(Path(sys.argv[1]).read_text()).values() for one in series]
bars = "".join(
    f'<rect x="{20 * at}" y="{100 - 8 * value}" width="15" height="{8 * value}"/>'
    for at, value in enumerate(values)
)
with Path(sys.argv[2]).open("x") as file:
    file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 160 100">{bars}</svg>')
