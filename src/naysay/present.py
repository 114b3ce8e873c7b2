"""Results that show themselves. `naysay.report` makes the texts and pages, and is loaded when one is needed."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from naysay.errors import UsageError

# The function of naysay.report that makes each form of each class.
_FORMS = {
    "Report": {
        "text": "terminal.report_text",
        "cell": "html.report_cell",
        "page": "html.to_html",
        "json": "json_.dumps",
        "table": "json_.report_table",
    },
    "Discovery": {
        "text": "discoveries.discovery_text",
        "cell": "discoveries.discovery_cell",
        "page": "discoveries.to_html",
        "json": "discoveries.dumps",
        "table": "discoveries.discovery_table",
    },
    "Repair": {
        "text": "repairs.repair_text",
        "cell": "repairs.repair_cell",
        "json": "repairs.dumps",
        "table": "repairs.repair_table",
    },
    "Verdict": {"text": "terminal.verdict_text", "cell": "html.verdict_cell", "table": "json_.verdict_table"},
    "Listing": {"text": "terminal.listing_text", "cell": "html.listing_cell"},
    "Change": {"text": "terminal.change_text", "cell": "html.change_cell", "table": "json_.change_table"},
    "RuleChange": {
        "text": "discoveries.rule_change_text",
        "cell": "discoveries.rule_change_cell",
        "table": "discoveries.rule_change_table",
    },
    "Rule": {"cell": "html.rule_cell"},
}


def present(value: object, form: str) -> Any:
    """Make one form of a value: its text, notebook cell, HTML page, JSON or Arrow table."""
    forms = next(_FORMS[cls.__name__] for cls in type(value).__mro__ if cls.__name__ in _FORMS)
    module, _, function = forms[form].partition(".")
    return getattr(import_module(f"naysay.report.{module}"), function)(value)


class Result:
    """An answer that prints itself, shows itself in a notebook, and becomes a pandas DataFrame."""

    __slots__ = ()

    def __str__(self) -> str:
        return str(present(self, "text"))

    def _repr_html_(self) -> str:
        return str(present(self, "cell"))

    def to_pandas(self) -> Any:
        """Return the result as a pandas DataFrame, with one row per rule or violation.

        Returns:
            A pandas DataFrame.

        Raises:
            UsageError: pandas is not installed.
        """
        table = present(self, "table")
        try:
            return table.to_pandas()
        except ImportError:
            raise UsageError("to_pandas needs the package pandas: pip install pandas") from None


class Document(Result):
    """A result that can also be saved as an HTML page or as JSON."""

    __slots__ = ()

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the result as one self-contained HTML page, and write it to a file if a path is given.

        Args:
            path: File to write the page to.

        Returns:
            The text of the page.
        """
        text = str(present(self, "page"))
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def to_json(self) -> str:
        """Return the result as the text of a JSON document, as `--format json` prints it.

        Returns:
            The text of the document, ASCII only.
        """
        return str(present(self, "json"))
