"""A Spark job: check a table, keep the good rows, and fail if a rule is broken.

python examples/spark_job.py [OUT]                   on this machine, local[*]
spark-submit examples/spark_job.py s3a://lake/out    on a cluster that has naysay installed
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import naysay

VISITS = Path(__file__).resolve().parent / "data" / "clinics.csv"
RULES = ["visit: key(visit)", "city: zip -> city", "room: no_overlap(begins, ends by clinic, room)"]


def main(out: str | None) -> int:
    # Spark's workers run the first python3 on the path, which may not be the one where naysay is installed.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.appName("visits").getOrCreate()
    visits = session.read.csv(VISITS.as_uri(), header=True, inferSchema=True)
    report = naysay.check(visits, RULES, key="visit")
    for result in report:
        print(f"{result.rule.name}: {result.violations:,} violations in {result.rows_in_conflict:,} rows")
    good, bad = naysay.split(visits, RULES)
    if out is not None:
        good.write.mode("overwrite").parquet(f"{out}/good")
        bad.write.mode("overwrite").parquet(f"{out}/quarantine")
    print(f"{good.count():,} rows are good")
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
