"""Rule names that would leave a folder, or have a special meaning to a file system, if they were used as paths."""

from __future__ import annotations

PATH_NAMES: tuple[str, ...] = (
    *("..", ".", "../x", "../../x", "../" * 20 + "x", "../../etc/passwd", "/etc/passwd", "/tmp/x", "//x"),
    *("///", "/"),
    *("a/b", "a/../b", "a/../../b", "a/../../../outside/witness", "./x", "./../x", "x/", "x/.", "x/..", "~"),
    *("~/x", "~root"),
    *("..\\x", "..\\..\\x", "C:\\x", "C:x", "\\\\host\\share", "\\x", "%2e%2e%2fx", "..%2fx", "..%c0%afx"),
    *("%00", "x%00.csv"),
    *("a\0b", "\0", "..\0/x", "a\nb", "a\rb", "\t", " ", "  x  ", "", "-", "-rf", "--out", "|id", ";id"),
    *("$(id)", "`id`"),
    *("CON", "nul", "aux.txt", "LPT1", "com1", ".naysay-results", "violations", "report.json", "conflict_rows"),
    "cells.csv",
    *("x" * 300, "é" * 200, "．．／x", "․․/x", "∕etc∕passwd", "x\u202ecsv", "😀", "file:///etc/passwd"),
    "s3://bucket/x",
)
