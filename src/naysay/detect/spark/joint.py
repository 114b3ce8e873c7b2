"""The fewest rows to remove so that all rules hold together, on Spark.

Rows that break no rule stay, so only those in conflict matter. If they fit in one task, the task does what is done
in-process, and checks the rules once more before it answers. Otherwise there are only bounds: what one rule needs is
needed for all, and what is enough for each rule is enough together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.detect.result import NOTHING_TO_REMOVE, Removal, Report
from naysay.detect.spark import worker
from naysay.detect.spark.check import first_suspects
from naysay.detect.spark.key_groups import Sizes, task_rule
from naysay.detect.spark.listing import mark_conflicts
from naysay.detect.spark.plan import RulePlan
from naysay.detect.spark.table import SparkListing
from naysay.detect.spark.worker import PLACE, JointRequest
from naysay.spark.frame import map_in_arrow
from naysay.spark.identity import Identity, Naming
from naysay.spark.versions import to_arrow
from naysay.table.compatibility import free_name


def with_joint_removal(
    report: Report, plans: Sequence[RulePlan], identity: Identity, sizes: Sizes, n_first: int
) -> Report:
    """The report of a check with the rows to remove for all rules together, of which only the first are computed."""
    broken = [plan for plan, result in zip(plans, report, strict=True) if not result.holds]
    if not broken:
        return replace(report, rows_to_remove=NOTHING_TO_REMOVE)
    n_rows = report.n_rows
    if n_rows > sizes.rows_a_task:
        assert report.rows_in_conflict is not None
        n_rows = report.rows_in_conflict
    if n_rows > sizes.rows_a_task:
        return replace(report, rows_to_remove=_bounds(report, n_rows))
    columns = tuple(dict.fromkeys(name for plan in broken for name in plan.columns))
    frame = broken[0].comparisons.frame
    records = partial(_records, broken, identity, columns, sizes, is_small=report.n_rows <= sizes.rows_a_task)
    rules, number_copies = tuple(map(task_rule, broken)), identity.naming is Naming.CONTENT
    request = JointRequest(rules, tuple(identity.positions), columns, number_copies)
    summarise = partial(worker.joint_summary, request=request, n_first=n_first)
    (row,) = to_arrow(map_in_arrow(records(), summarise, worker.WHOLE)).to_pylist()
    removal = worker.read_summary(row).removal

    def suspects() -> DataFrame:
        types = [*identity.types, *map(frame.type_of, columns)]
        fields = [T.StructField(*each) for each in zip((*identity.positions, *columns), types, strict=True)]
        rows = map_in_arrow(records(), partial(worker.joint_suspects, request=request), T.StructType(fields))
        names = [frame.name_of(name) for name in columns]
        return rows.select(identity.value(""), *columns).toDF(free_name("row", names), *names)

    count = (lambda: removal.most) if removal.is_exact else None
    first = first_suspects(identity, frame, columns, row["suspects"])
    listing = SparkListing("suspect", None, suspects, count)
    return replace(report, rows_to_remove=removal, first_suspects=first, suspects=listing)


def _bounds(report: Report, n_in_conflict: int) -> Removal:
    removals = [result.rows_to_remove for result in report if result.rows_to_remove is not None]
    return Removal(max(each.least for each in removals), min(sum(each.most for each in removals), n_in_conflict))


def _records(
    plans: Sequence[RulePlan], identity: Identity, columns: Sequence[str], sizes: Sizes, *, is_small: bool
) -> DataFrame:
    """All rows of a small table, the rows in conflict of a large one, in one partition, as Spark reads them."""
    rows = plans[0].data.withColumn(PLACE, F.monotonically_increasing_id())
    if not is_small:
        rows, marks = mark_conflicts(plans, rows, sizes)
        rows = rows.filter(reduce(or_, marks))
    return rows.select(*columns, *identity.attached(), PLACE).repartition(1)
