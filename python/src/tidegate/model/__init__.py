"""Latency models of brokers: `pip install 'tidegate[model]'`, then `python -m tidegate.model train edge.jsonl`.

What was measured (`tidegate calibrate broker`) is read, models are trained, judged on configurations that were held
out, and written as the file that `tidegate plan --model` reads.
"""

from ._judge import Cases, Verdict, judge
from ._learned import Learned
from ._measured import Batch, Measurement, Topic, read, write
from ._physics import Parameters

__all__ = ["Batch", "Cases", "Learned", "Measurement", "Parameters", "Topic", "Verdict", "judge", "read", "write"]
