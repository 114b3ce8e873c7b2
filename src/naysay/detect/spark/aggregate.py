"""Rules that grouping answers: Spark counts equal rows and never forms a pair.

Each rule becomes a branch, one row of sums with the same columns for every rule, so that any number of rules is one
union and one job. With N rows in a group of equal keys, and c of them for each distinct value in it:

    key(K)              sum of N^2 - N              not(t.K == s.K and t.V < s.V)    (sum of N^2 - c^2) / 2
    K -> V              sum of N^2 - c^2            not(t.K == s.K and t.V <= s.V)   (sum of N^2 + c^2) / 2 - N
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeVar

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.detect.result import Removal
from naysay.detect.spark.plan import Route, RulePlan
from naysay.detect.spark.worker import BLAME, SUSPECT
from naysay.detect.summary import RuleSummary
from naysay.plan.join import Order
from naysay.rule.model import Row
from naysay.spark.expressions import hash_of, hash_text, own
from naysay.spark.versions import to_arrow, union

Number = TypeVar("Number", int, Expression)

N_LIMBS = 3
_BITS = 16
_MASK = (1 << _BITS) - 1
_WEIGHTS = (1 << 2 * _BITS, 1 << _BITS, 1)


def product_limbs(left: str, right: str) -> list[str]:
    """The limbs of left * right, for two columns of counts of rows, such that sums of limbs stay in 64 bits.

    Each count is cut at 16 bits. Over any number of groups of at most 2**47 rows in all, no sum of limbs overflows:
    the high parts add up to at most 2**31 on each side, and a low part is less than 2**16. So with limbs of the same
    rows added or subtracted as well, 2**46 rows are safe.
    """
    (left_high, left_low), (right_high, right_low) = map(_cut, (left, right))
    middle = f"{left_high} * {right_low} + {right_high} * {left_low}"
    return [f"{left_high} * {right_high}", middle, f"{left_low} * {right_low}"]


def _cut(count: str) -> tuple[str, str]:
    return f"shiftright({count}, {_BITS})", f"({count} & {_MASK})"


def from_limbs(limbs: Sequence[int | None]) -> int:
    """The number that sums of limbs represent; a sum over nothing is null and means 0."""
    return sum(weight * (limb or 0) for weight, limb in zip(_WEIGHTS, limbs, strict=True))


_LIMBS = [f"limb{number}" for number in range(N_LIMBS)]
_SAME = [f"same{number}" for number in range(N_LIMBS)]
_NUMBERS = [*_LIMBS, "itself", "rows", "removed", "distinct", "tested", "alone"]


@dataclass(frozen=True, slots=True)
class Sums:
    """What a branch adds up to.

    `pairs` is a sum of products of group sizes, some of them subtracted; `itself` counts pairs of a row with itself
    among them. `rows` are in conflict, with `distinct` keys and values, and `removed` is the fewest to remove, if the
    branch knows; `sample` holds hashes of a few groups (or rows) in conflict, the same in every run. Of the rows
    `tested` those `alone` have a key that no other row has.
    """

    pairs: int
    itself: int
    rows: int
    removed: int
    distinct: int
    sample: tuple[int, ...]
    tested: int = 0
    alone: int = 0

    def summary(self, plan: RulePlan) -> RuleSummary[int]:
        """What the branch of a rule says about it; the sample is the hashes."""
        n_pairs = self.pairs
        if plan.route is Route.FILTER:
            n_pairs = self.rows
        elif plan.route is Route.GROUPS and isinstance(plan.part, Order):
            n_pairs = n_pairs // 2
        return RuleSummary(n_pairs - self.itself, self.rows, Removal(self.removed, self.removed), self.sample)


def collect_sums(branches: Sequence[DataFrame]) -> dict[int, Sums]:
    """Run all branches as one job; the sums of each by its number."""
    if not branches:
        return {}
    # Not `collect()`: an interrupt would find py4j in the middle of a call that waits for the job.
    return {row["rule"]: _read_sums(row) for row in to_arrow(union(branches)).to_pylist()}


def count_branch(plan: RulePlan) -> DataFrame:
    """The count of a rule that needs no kernels."""
    if plan.route is Route.KERNELS:
        return _products_branch(plan)
    return rule_branch(plan, 0, count_only=True)


def rule_branch(plan: RulePlan, n_sample: int, *, count_only: bool = False) -> DataFrame:
    """The sums of a rule that runs by filter or by grouping."""
    if plan.route is Route.FILTER:
        return _filter_branch(plan, n_sample)
    return _groups_branch(plan, n_sample, count_only=count_only)


def _filter_branch(plan: RulePlan, n_sample: int) -> DataFrame:
    """A one-row rule: count the rows for which all predicates hold."""
    rows = plan.data.filter(plan.on_side(Row.LEFT))
    sums = {"rows": "count(1)", "removed": "count(1)"}
    if n_sample:
        rows = rows.select(hash_of([plan.comparable(name) for name in plan.columns]).alias("hash"))
        sums["sample"] = _sample("hash", n_sample)
    return sums_branch(plan.number, rows, sums)


def conflict_groups(plan: RulePlan) -> DataFrame:
    """The keys in conflict of a rule that runs by grouping.

    Columns k0, k1, ... (comparable), n (rows); except for a key, also same0 ... (limbs of the sum of squares of the
    sizes of distinct values), most (rows of the commonest value) and values (how many there are).
    """
    return _key_groups(plan).filter(_in_conflict(plan))


def _in_conflict(plan: RulePlan) -> str:
    """Whether a group of `_key_groups` has rows in conflict."""
    return "n > 1" if plan.any_two_conflict else "n > most"


def _key_groups(plan: RulePlan) -> DataFrame:
    """The columns of `conflict_groups` for all keys."""
    if plan.part is None:
        rows = plan.data.filter(plan.on_side(Row.LEFT))
        return rows.groupBy(*_keys(plan)).agg(F.expr("count(1) as n"))
    sums = [f"sum({limb}) as {name}" for limb, name in zip(product_limbs("c", "c"), _SAME, strict=True)]
    sums = ["sum(c) as n", *sums, "max(c) as most", "count(1) as `values`"]
    # As text, like all that has names of ours only: each operator on a column takes PySpark several calls of Java.
    return value_groups(plan).groupBy(*_key_names(plan)).agg(*(F.expr(own(text)) for text in sums))


def _keys(plan: RulePlan) -> list[Expression]:
    keys = zip(_key_names(plan), plan.join.key, strict=True)
    return [plan.comparable(match.left, name) for name, match in keys]


def value_groups(plan: RulePlan) -> DataFrame:
    """The rows of each key and value: k0, k1, ..., value, c."""
    assert plan.part is not None
    rows = plan.data.filter(plan.on_side(Row.LEFT))
    return rows.groupBy(*_keys(plan), plan.comparable(plan.part.left, "value")).agg(F.expr("count(1) as c"))


def row_conflicts(plan: RulePlan, n_rows: int, *, blame: bool = False) -> DataFrame:
    """With how many others each row conflicts, for a rule that runs by grouping: by its key and value.

    Columns k0, k1, ..., value (except for a key) and n, the conflicts of each such row, for those in conflict. `n_rows`
    are in conflict: if there is no key, all that are on a side. With `blame`, for a rule with a key, also BLAME and
    SUSPECT; where any rows of a key but one are to go, both are the share of each.
    """
    names = _key_names(plan)
    if plan.part is None:
        groups = conflict_groups(plan)
        shares = [(1 - 1 / F.col("n")).alias(name) for name in (BLAME, SUSPECT)] if blame else []
        return groups.select(*names, conflicts_among_all(plan, F.col("n")).alias("n"), *shares)
    size = F.col("c")
    # Without a key, one task would have to hold all values to add up their rows.
    total = F.sum(size).over(Window.partitionBy(*names)) if names else F.lit(n_rows)
    if isinstance(plan.part, Order):
        others = total + size - 2 if plan.any_two_conflict else total - size
    else:
        others = _times(plan) * (total - size)
    found = [*names, "value", others.cast(T.LongType()).alias("n")]
    if not blame:
        return value_groups(plan).select(*found).filter("n > 0")
    values = value_groups(plan)
    if plan.any_two_conflict:
        share = 1 - 1 / total
        return values.select(*found, share.alias(BLAME), share.alias(SUSPECT)).filter("n > 0")
    return _with_blame(values, names).select(*found, BLAME, SUSPECT).filter("n > 0")


def commonest_first() -> list[Expression]:
    """The order of the values of a key: the first one stays, and rows with any other are suspects."""
    return [F.col("c").desc(), F.col("value").asc_nulls_first()]


def _with_blame(values: DataFrame, keys: Sequence[str]) -> DataFrame:
    """How much each value is to blame: see `Blame`. Of values equally common the least stays."""
    by_key = Window.partitionBy(*keys)
    size, most, n_most = F.col("c"), F.col("most"), F.col("n_most")
    nth = F.row_number().over(by_key.orderBy(*commonest_first()))
    values = values.withColumn("nth", nth).withColumn("most", F.max("c").over(by_key))
    values = values.withColumn("n_most", F.sum((size == most).cast(T.LongType())).over(by_key))
    blame = F.when(size < most, F.lit(1.0)).otherwise((n_most - 1) / n_most) / size
    return values.withColumn(BLAME, blame).withColumn(SUSPECT, (F.col("nth") > 1).cast(T.DoubleType()))


def conflicts_among_all(plan: RulePlan, n_rows: Number) -> Number:
    """With how many others each of some rows conflicts if every two of them do."""
    return _times(plan) * (n_rows - 1)


def _times(plan: RulePlan) -> int:
    """How often two rows of a key or a dependency conflict: both ways round, which a symmetric rule counts as one."""
    return 1 if plan.join.symmetric else 2


def _groups_branch(plan: RulePlan, n_sample: int, *, count_only: bool) -> DataFrame:
    """A key, a dependency or one order of a column with itself."""
    limbs = product_limbs("n", "n")
    if plan.part is not None:
        sign = "+" if plan.any_two_conflict else "-"
        limbs = [f"{limb} {sign} {same}" for limb, same in zip(limbs, _SAME, strict=True)]
    # A group without rows in conflict has as many pairs as pairs of a row with itself: it changes no count.
    sums = _sums(limbs)
    if plan.any_two_conflict:
        sums["itself"] = "sum(n)"
    found = _in_conflict(plan)
    if n_sample:
        sums["sample"] = _sample(f"if({found}, {hash_text(_key_names(plan))}, null)", n_sample)
    if not count_only:
        kept = 1 if plan.any_two_conflict else "most"
        distinct = 1 if plan.part is None else "`values`"
        sums |= {
            "rows": f"sum(if({found}, n, null))",
            "removed": f"sum(n - {kept})",
            "distinct": f"sum(if({found}, {distinct}, null))",
            "tested": "sum(n)",
            "alone": "count(if(n = 1, 1, null))",
        }
    return sums_branch(plan.number, _key_groups(plan), sums)


def _products_branch(plan: RulePlan) -> DataFrame:
    """The count of any rule without orders: inclusion and exclusion over the sets of disequalities that fail.

    The sides may differ in filters and in columns: each row is tagged with the sides it is on.
    """
    keys = _key_names(plan)
    differs = [f"d{i}" for i in range(len(plan.join.differs))]
    tags = ("left", "right", "itself")
    points = _tagged_rows(plan).groupBy(*keys, *differs)
    groups = points.agg(*(F.sum(F.col(tag).cast(T.LongType())).alias(tag) for tag in tags))
    limbs = product_limbs("`left`", "`right`")
    if differs:
        # Each point once for each set of disequalities that fail, with the values of that set only.
        subsets = [subset for size in range(len(differs) + 1) for subset in combinations(differs, size)]
        copies = F.array(
            *(
                F.struct(
                    F.lit(number).alias("subset"),
                    F.lit(len(subset) % 2 == 1).alias("odd"),
                    *(F.when(F.lit(name in subset), F.col(name)).alias(name) for name in differs),
                    (F.lit(0) if subset else F.col("itself")).cast(T.LongType()).alias("itself"),
                )
                for number, subset in enumerate(subsets)
            )
        )
        groups = (
            groups.select(*keys, "left", "right", F.explode(copies).alias("copy"))
            .select(*keys, "left", "right", "copy.*")
            .groupBy("subset", "odd", *keys, *differs)
            .agg(*(F.sum(tag).alias(tag) for tag in tags))
        )
        limbs = [f"if(odd, -({limb}), {limb})" for limb in limbs]
    return sums_branch(plan.number, groups, {**_sums(limbs), "itself": "sum(itself)"})


def _tagged_rows(plan: RulePlan) -> DataFrame:
    """Rows as they are on the sides of a join without orders: k0 ..., d0 ..., left, right, itself.

    A row whose sides are compared in different columns is there twice, once for each side.
    """
    left, right = plan.on_side(Row.LEFT).alias("left"), plan.on_side(Row.RIGHT).alias("right")
    itself = plan.comparisons.meets_itself(plan.join).alias("itself")
    left_parts = _parts(plan, Row.LEFT)
    if all(match.left == match.right for match in plan.join.key + plan.join.differs):
        return plan.data.select(*left_parts, left, right, itself).filter(F.col("left") | F.col("right"))
    false = F.lit(False)
    records = F.array(
        F.struct(*left_parts, left, false.alias("right"), itself),
        F.struct(*_parts(plan, Row.RIGHT), false.alias("left"), right, false.alias("itself")),
    )
    rows = plan.data.select(F.explode(records).alias("record")).select("record.*")
    return rows.filter(F.col("left") | F.col("right"))


def _parts(plan: RulePlan, row: Row) -> list[Expression]:
    parts = []
    for prefix, matches in (("k", plan.join.key), ("d", plan.join.differs)):
        for i, match in enumerate(matches):
            names = (match.left, match.right) if row is Row.LEFT else (match.right, match.left)
            parts.append(plan.comparisons.comparable(*names).alias(f"{prefix}{i}"))
    return parts


def _key_names(plan: RulePlan) -> list[str]:
    return [f"k{i}" for i in range(len(plan.join.key))]


def _sums(limbs: Sequence[str]) -> dict[str, str]:
    return {name: f"sum({limb})" for name, limb in zip(_LIMBS, limbs, strict=True)}


def sums_branch(number: int, rows: DataFrame, sums: Mapping[str, str]) -> DataFrame:
    """One row of all the sums over some rows, as text by their names; 0 for those that the branch does not have."""
    columns = [f"{sums.get(name, '0L')} as `{name}`" for name in _NUMBERS]
    sample = sums.get("sample", "cast(array() as array<bigint>)")
    return rows.selectExpr(*map(own, [f"{number} as rule", *columns, f"{sample} as sample"]))


def _sample(hashed: str, n_sample: int) -> str:
    """A few of the hashes, the same in every run: the least of each residue."""
    least = (f"min(if(pmod({hashed}, {n_sample}L) = {i}L, {hashed}, null))" for i in range(n_sample))
    return f"array({', '.join(least)})"


def _read_sums(row: dict[str, Any]) -> Sums:
    sample: Iterable[int | None] = row["sample"] or ()
    return Sums(
        from_limbs([row[name] for name in _LIMBS]),
        row["itself"] or 0,
        row["rows"] or 0,
        row["removed"] or 0,
        row["distinct"] or 0,
        tuple(found for found in sample if found is not None),
        row["tested"] or 0,
        row["alone"] or 0,
    )
