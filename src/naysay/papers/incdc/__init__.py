"""IncDC: the method of Qian, Li, Tan, Ran and Ma, Incremental discovery of denial constraints, VLDB Journal 32, 2023.

Inserts only. Indexes over the rows, chosen to serve every known rule, fetch the pairs that may break one; rules that
their evidence breaks are extended. `indexes` has sections 5 to 7, `method` section 8.
"""

from naysay.papers.incdc.method import IncDC

__all__ = ["IncDC"]
