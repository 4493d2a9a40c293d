from pathlib import Path

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "dragoman"
