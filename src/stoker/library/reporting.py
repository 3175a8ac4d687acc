"""`stoker.report`, for the code of a job: it needs nothing else of the library."""

from __future__ import annotations

from stoker.metrics.reporting import report as report
