"""Answers about traps on Spark: all counts in one aggregation; values to show, if there are any, in a second one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from naysay.detect.traps import Answers, RowQuestion, constant_text
from naysay.rule.model import Nulls, Predicate, Rule
from naysay.rule.scan import nearest_name
from naysay.spark.expressions import Comparisons, every
from naysay.spark.frame import Frame, position
from naysay.spark.identity import Identity, identity_of
from naysay.spark.versions import to_arrow, union
from naysay.table.column import Kind
from naysay.table.frame import plain_records
from naysay.table.looks import Look, Seen, TextFacts, number_hint

# This many of the values nearest to a constant are compared more closely.
_N_NEAREST = 20
_LONGEST = 80


class SparkSource:
    """Answers for a Spark DataFrame. The number of rows is counted with the first questions."""

    def __init__(self, frame: Frame, nulls: Nulls, identity: Identity) -> None:
        self.nulls = nulls
        self._frame = frame
        self._comparisons = Comparisons(frame, nulls)
        self._identity = identity
        self._n_rows: int | None = None

    @property
    def n_rows(self) -> int:
        if self._n_rows is None:
            self._n_rows = int(self._frame.data.count())
        return self._n_rows

    def kind(self, name: str) -> Kind:
        return self._frame.kind_of(self._position(name))

    def measure(self, questions: Collection[RowQuestion], texts: Collection[str]) -> Answers:
        """One pass over the data for all questions."""
        asked, names = list(questions), list(texts)
        counts = [F.count(F.when(self._holds(question), 1)) for question in asked]
        of_texts = [sum_ for name in names for sum_ in _text_sums(F.col(self._position(name)))]
        if not counts and not of_texts:
            return Answers({}, {})
        sums = [F.count(F.lit(1)), *counts, *of_texts]
        (row,) = plain_records(to_arrow(self._frame.data.agg(*_numbered(sums))))
        self._n_rows, *found = (number or 0 for number in row.values())
        rows = dict(zip(asked, found, strict=False))
        rest = iter(found[len(asked) :])
        return Answers(rows, {name: _read_text(rest) for name in names})

    def first_unlike(self, looks: Mapping[str, Look]) -> Mapping[str, Seen]:
        """One pass over the data: the least row, by its identity, of those wanted of each column."""
        if not looks:
            return {}
        least = []
        for name, look in looks.items():
            value = F.col(self._position(name))
            # Values that look different come first, then the others; nulls not at all.
            record = F.struct(value.rlike(look.pattern).alias("like"), *self._identity.attached(), value.alias("value"))
            least.append(F.min(F.when(value.isNotNull(), record)))
        (row,) = plain_records(to_arrow(self._frame.data.agg(*_numbered(least))))
        return {name: self._named(record) for name, record in zip(looks, row.values(), strict=True)}

    def nearest(self, constants: Collection[Predicate]) -> Mapping[Predicate, Seen]:
        """One job for all constants; of each column no more than the twenty nearest values and the first come back."""
        if not constants:
            return {}
        wanted = list(constants)
        rows: dict[int, list[Seen]] = {}
        branches = [branch for number, constant in enumerate(wanted) for branch in self._nearest(number, constant)]
        for record in plain_records(to_arrow(union(branches).orderBy("constant", "distance"))):
            if record["row"] is not None:
                rows.setdefault(record["constant"], []).append(self._named(record["row"]))
        found = {}
        for number, seen in rows.items():
            near = nearest_name(constant_text(wanted[number]), [each.value for each in seen])
            found[wanted[number]] = next((each for each in seen if each.value == near), seen[-1])
        return found

    def _nearest(self, number: int, constant: Predicate) -> list[DataFrame]:
        """The nearest values, each with its first row, and at a great distance the first row of all."""
        text = constant_text(constant).encode("utf-8", "replace").decode().strip().lower()
        column = F.col(self._position(constant.left.name))
        values = self._frame.data.filter(column.isNotNull()).select(column.alias("value"), *self._identity.attached())
        # Texts longer than a label are not misspelt labels, and would take long to compare.
        folded, is_short = F.lower(F.trim(F.col("value"))), F.length("value") <= _LONGEST
        distance = F.when(is_short, F.levenshtein(folded, F.lit(text))).otherwise(_LONGEST)
        row = F.min(F.struct(*self._identity.positions, "value")).alias("row")
        nearest = values.groupBy(distance.alias("distance"), "value").agg(row)
        nearest = nearest.orderBy("distance", "value").limit(_N_NEAREST)
        first = values.agg(row).withColumn("distance", F.lit(2 * _LONGEST))
        return [each.select(F.lit(number).alias("constant"), "distance", "row") for each in (nearest, first)]

    def _named(self, record: Mapping[str, Any]) -> Seen:
        values = {name: record[name] for name in self._identity.positions}
        return Seen(record["value"], self._identity.named(values, self._identity.positions))

    def _holds(self, question: RowQuestion) -> Expression:
        rule = self._frame.by_position(Rule(question.predicates))
        present = (F.col(self._position(name)).isNotNull() for name in question.present)
        return every([*map(self._comparisons.holds, rule.predicates), *present])

    def _position(self, name: str) -> str:
        return position(self._frame.place(name))


def why_text(frame: Frame) -> Callable[[str], str]:
    """A function that says why a text column is not a number, if most of its values look like numbers."""

    def why(name: str) -> str:
        source = SparkSource(frame, Nulls.SQL, identity_of(frame, ()))
        facts = source.measure((), (name,)).texts[name]
        if facts.look is not Look.NUMBER or not facts.is_mostly:
            return ""
        return number_hint(name, facts, source.first_unlike({name: Look.NUMBER})[name])

    return why


def _numbered(expressions: Sequence[Expression]) -> list[Expression]:
    return [expression.alias(f"n{number}") for number, expression in enumerate(expressions)]


def _text_sums(value: Expression) -> Iterator[Expression]:
    yield F.count(value)
    for look in Look:
        for pattern in (look.pattern, look.sorted_pattern):
            yield F.count(F.when(value.rlike(pattern), 1))
    for number in (F.length(value), F.instr(value, ".")):
        yield F.min(number)
        yield F.max(number)


def _read_text(numbers: Iterator[int]) -> TextFacts:
    n_values = next(numbers)
    counts = {look: (next(numbers), next(numbers)) for look in Look}
    widths, points = ((next(numbers), next(numbers)) for _ in range(2))
    look = max(counts, key=lambda each: counts[each][0])
    return TextFacts(n_values, look, *counts[look], widths, points)
