"""Texts that would run a script or send a request if a page treated them as anything but text.

First those in payloads.txt, then ways to escape from each context of a text, combined with what might run there: 500 in
all. A script that ran would call naysayRan; a request would go to a local port on which nothing listens.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

_WAYS_OUT = (
    '"',
    "'",
    '">',
    "'>",
    "`>",
    '\\">',
    "-->",
    "*/",
    "]]>",
    "</script>",
    "</style>",
    "</title>",
    "</code>",
    "</svg>",
    "</td></tr></table>",
    "</details>",
    "</textarea>",
    "&quot;>",
    "\u2028",
    "\t",
    " ><",
    "{{'",
    "</html>",
)
_BODIES = (
    "<script>naysayRan()</script>",
    "<img src=x onerror=naysayRan()>",
    "<svg onload=naysayRan()>",
    "<iframe srcdoc='<script>parent.naysayRan()</script>'>",
    "<details open ontoggle=naysayRan()>",
    "<input autofocus onfocus=naysayRan()>",
    "<meta http-equiv=refresh content=0;url=http://127.0.0.1:9/>",
    "<link rel=stylesheet href=http://127.0.0.1:9/x.css>",
    "<img src=http://127.0.0.1:9/x.png>",
    "<object data=http://127.0.0.1:9/x>",
    "<style>@import url(http://127.0.0.1:9/x);</style>",
    "<base href=http://127.0.0.1:9/>",
    " onmouseover=naysayRan() onclick=naysayRan() x=",
    " style=background:url(http://127.0.0.1:9/x) x=",
    ";naysayRan();//",
    "<video autoplay oncanplay=naysayRan()><source src=http://127.0.0.1:9/x>",
)
N_PAYLOADS = 500


def payloads() -> list[str]:
    """All of them, always in the same order."""
    lines = (Path(__file__).parent / "payloads.txt").read_text(encoding="utf-8").split("\n")
    made = [way + body for body, way in product(_BODIES, _WAYS_OUT)]
    return list(dict.fromkeys([line for line in lines if line] + made))[:N_PAYLOADS]
