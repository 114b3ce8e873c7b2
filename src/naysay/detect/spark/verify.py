"""One violation of a rule, looked for in a growing part of a table: a rule that is broken mostly breaks early.

First in a few rows, on the driver; of a table in many files, then in a growing share of them, while Spark reads no
others; and then in all rows, at about the cost of counting, unless those seen were all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyspark.errors import AnalysisException
from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from naysay.detect.result import Verdict
from naysay.detect.spark.aggregate import collect_sums, count_branch, rule_branch
from naysay.detect.spark.check import find_all, first_look
from naysay.detect.spark.key_groups import Sizes
from naysay.detect.spark.plan import Route, RulePlan
from naysay.detect.spark.sample import SampleRequest, first_rows, pairs_among, samples
from naysay.detect.summary import RuleSummary
from naysay.spark.frame import Frame
from naysay.spark.identity import Identity
from naysay.spark.versions import file_metadata

# Spark writes the root of a path with one slash in some places and with three in others.
_ROOT = "^([A-Za-z][A-Za-z0-9+.-]*):/+"


def verdict_of(plan: RulePlan, identity: Identity, sizes: Sizes) -> Verdict:
    """Whether a rule about rows holds, with a violation if not."""
    shares = list(_shares(plan, sizes.growth))
    # Of one file, Spark gets the first rows in few tasks; of a whole table, it would have each task read some.
    first = next(iter(shares), plan)
    rows = first_rows(identity, [first], sizes.first)
    pairs = pairs_among(identity, rows, plan, 1)
    if pairs:
        return Verdict(plan.named, False, pairs[0])
    if first is plan and rows.num_rows < sizes.first:
        return Verdict(plan.named, True)
    for part in [*shares[1:], plan]:
        verdict = _verdict_on(part, identity, sizes)
        if not verdict.holds:
            return verdict
    return Verdict(plan.named, True)


def _verdict_on(plan: RulePlan, identity: Identity, sizes: Sizes) -> Verdict:
    if plan.route is not Route.KERNELS:
        found: RuleSummary[int] = collect_sums([rule_branch(plan, 1, count_only=True)])[plan.number].summary(plan)
    elif plan.counts_by_grouping and not collect_sums([count_branch(plan)])[plan.number].summary(plan).violations:
        found = RuleSummary()
    else:
        found = find_all(first_look([plan], 1, sizes, at_once=False), 1).summaries[plan.number]
    if not found.violations:
        return Verdict(plan.named, True)
    shown = samples(identity, [SampleRequest(plan, found.sample)], 1).get(plan.number, ())
    return Verdict(plan.named, False, next(iter(shown), None))


def _shares(plan: RulePlan, growth: int) -> Iterator[RulePlan]:
    """The rule on the rows of the first file, and then of more and more of the first files, if there are several."""
    frame = plan.comparisons.frame
    file = _file_of(frame)
    files = [] if file is None else sorted(re.sub(_ROOT, r"\1:/", path) for path in frame.data.inputFiles())
    sizes = [1] if len(files) > 1 else []
    n_files = len(files) // growth
    while n_files:
        sizes.insert(1, n_files)
        n_files //= growth
    for size in sizes:
        yield plan.on(frame.data.filter(F.regexp_replace(file, _ROOT, "$1:/").isin(files[:size])))


def _file_of(frame: Frame) -> Expression | None:
    """The file that each row is from, if Spark knows; a filter on it keeps the others from being read."""
    if frame.file_row is not None:
        return F.col(frame.file_row[0])
    try:
        source = file_metadata(frame.data)
        file = None if source is None else source.getField("file_path")
        # Only an analysis shows whether there is such a column.
        return None if file is None or not frame.data.select(file).schema else file
    except AnalysisException:
        return None
