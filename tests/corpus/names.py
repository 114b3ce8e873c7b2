"""Names of columns and texts that look like SQL, expressions, code, paths or nothing at all.

Each of them means itself: a rule about a column of such a name, or with such a constant, has the answers that it has
with plain names.
"""

from __future__ import annotations

_SQL = (
    "select", "from", "where", "order by", "null", "NULL", "true", "count(*)", "*", "a.*", "t.*", "s", "t",
    "t.a", "s.a",
    "a.b", "a.b.c", ".", "..", ".a", "a.", "a..b", '"', '""', '"a"', 'a"b', '"; drop table witness; --', "'",
    "''",
    "'a'", "it's", "' or '1'='1", "' or 1=1 --", "'; drop table witness; --", "\" or \"\"=\"", "`", "``",
    "`a`", "a`b",
    "`; drop table witness; --", "[a]", "[", "]", "]]", "--", "-- a", "a -- b", "/*", "*/", "/* a */",
    "a /* b", ";", ";;",
    "a; select 1", "); drop table witness; --", "1; delete from witness", "1=1", "a = b", "a <> b", "a < b",
    "x > 3",
    "union select 1", "' union select null --", "exec xp_cmdshell('id')", "cast(a as int)", "a::int", "$1",
    "?", ":a",
    "@a", "@@version", "%s", "%(a)s", "%", "{}", "{0}", "{a}", "{{ a }}", "{% a %}", "{# a #}", "${a}", "$a",
    "$(id)",
    "#a", "# a", "naysay_row", "left", "right", "left_a", "right_a", "rule", "key", "count", "__index",
    "rowid", "_tid_",
)  # fmt: skip
_EXPRESSIONS = (
    "a + b", "a - b", "-a", "+a", "a * 2", "a / b", "a && b", "a || b", "!a", "~a", "a ? b : c", "f(x)", "f(",
    "(a)", "((",
    "))", "lambda: 0", "__import__('os').system('id')", "exec('1')", "eval('1')", "os.system", "__class__",
    "__dict__",
    "self", "None", "True", "False", "nan", "NaN", "inf", "Infinity", "-Infinity", "0", "1", "-1", "1e5",
    "0x1F", "007",
    "1st", "2^53", "not", "and", "or", "not(t.a == s.a)", "a -> b", "a, b", "key(a)", "ordered(a, b)",
    "t[\"a\"]", "t'",
    "¬", "∧", "≠", "≤ ≥", "==", "!=", "<=", ">=", "<>", "=", "<", ">", "&", "&&", "|", "\\", "\\\\", "\\n",
    "\\x41",
    "\\u0041", "a\\", "\\'", "\\\"",
)  # fmt: skip
_OTHERS = (
    " ", "  ", " a", "a ", "a b", "\t", "\n", "a\nb", "\r\n", "\u00a0", "\u200b", "\u202e", "\ufeff", "\u2028",
    "é", "e\u0301",
    "É", "ß", "İ", "ı", "Ａ", "名前", "имя", "اسم", "😀", "👩‍👩‍👧", "𝒜", "a" * 300, "../a", "/etc/passwd", "C:\\a",
    "~", "a/b",
    "file:///a", "<script>naysayRan()</script>", "=1+1", "@SUM(A1)", "date '2024-01-31'", "timestamp '2024'",
    "interval",
)  # fmt: skip

NAMES: tuple[str, ...] = (*_SQL, *_EXPRESSIONS, *_OTHERS)
