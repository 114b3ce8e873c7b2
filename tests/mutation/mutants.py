"""All mutants of the kernels: changed comparisons, arithmetic, constants and boundaries, and removed statements."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

KERNELS = Path(__file__).resolve().parents[2] / "src" / "naysay" / "kernels"
# How kernels are compiled is no kernel; those for a GPU run on one alone.
_LEFT_OUT = ("__init__.py", "compile.py", "gpu.py")

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
_DELETED = (ast.AugAssign, ast.Expr, ast.Break, ast.Continue)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: its module, function, line and change, and its position in the walk over the function."""

    module: str
    function: str
    line: int
    what: str
    place: int
    variant: int

    @property
    def name(self) -> str:
        return f"{self.module}:{self.function}:{self.line}: {self.what} [{self.place}.{self.variant}]"


def modules() -> list[str]:
    paths = sorted(KERNELS.rglob("*.py"))
    return [module_of(path) for path in paths if path.name not in _LEFT_OUT]


def module_of(path: Path) -> str:
    """The name of a kernel's module below naysay.kernels, such as `joins.find`."""
    return ".".join(path.relative_to(KERNELS).with_suffix("").parts)


def mutants_of(module: str) -> Iterator[Mutant]:
    """The mutants of all functions of a module, in source order."""
    for function in _functions(_tree(module)):
        for place, node in enumerate(_nodes(function)):
            for variant, what in enumerate(_faults(node)):
                yield Mutant(module, function.name, node.lineno, what, place, variant)


def code_of(mutant: Mutant) -> CodeType:
    """The code of the function with the fault."""
    tree = _tree(mutant.module)
    function = next(found for found in _functions(tree) if found.name == mutant.function)
    _put_in(function, list(_nodes(function))[mutant.place], mutant.variant)
    whole = compile(ast.fix_missing_locations(tree), str(_path(mutant.module)), "exec")
    found = [part for part in whole.co_consts if isinstance(part, CodeType) and part.co_name == mutant.function]
    return found[-1]


def _tree(module: str) -> ast.Module:
    return ast.parse(_path(module).read_text(encoding="utf-8"))


def _path(module: str) -> Path:
    return KERNELS / f"{module.replace('.', '/')}.py"


def _functions(tree: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def _nodes(function: ast.FunctionDef) -> Iterator[ast.expr | ast.stmt]:
    """Every expression and statement of the body, without docstring and annotations."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    for statement in body:
        skipped = {
            id(inner)
            for node in ast.walk(statement)
            if isinstance(node, ast.AnnAssign)
            for inner in ast.walk(node.annotation)
        }
        for node in ast.walk(statement):
            if isinstance(node, (ast.expr, ast.stmt)) and id(node) not in skipped:
                yield node


def _faults(node: ast.expr | ast.stmt) -> list[str]:
    """The possible changes of a node, in words."""
    if isinstance(node, ast.Compare):
        return [
            f"{type(op).__name__} to {new.__name__}" for op in node.ops[:1] for new in _COMPARISONS.get(type(op), ())
        ]
    if isinstance(node, ast.BoolOp):
        return ["And to Or" if isinstance(node.op, ast.And) else "Or to And"]
    if isinstance(node, ast.UnaryOp):
        return [f"{type(node.op).__name__} left out"] if isinstance(node.op, (ast.Not, ast.USub)) else []
    found = []
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in _ARITHMETIC:
        found.append(f"{type(node.op).__name__} to {_ARITHMETIC[type(node.op)].__name__}")
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            found.append(f"{node.value} to {not node.value}")
        elif isinstance(node.value, int):
            found += [f"{node.value} to {node.value + 1}"]
            if node.value > 0:
                found.append(f"{node.value} to {node.value - 1}")
    if isinstance(node, _DELETED) or _stores_in_an_array(node):
        found.append(f"{type(node).__name__} left out")
    return found


def _stores_in_an_array(node: ast.expr | ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(isinstance(target, ast.Subscript) for target in node.targets)


def _put_in(function: ast.FunctionDef, node: ast.expr | ast.stmt, variant: int) -> None:
    what = _faults(node)[variant]
    if what.endswith("left out"):
        new: ast.AST = copy.copy(node.operand) if isinstance(node, ast.UnaryOp) else ast.copy_location(ast.Pass(), node)
        _Replace(node, new).visit(function)
    elif isinstance(node, ast.Compare):
        node.ops[0] = _COMPARISONS[type(node.ops[0])][variant]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, (ast.BinOp, ast.AugAssign)):
        node.op = _ARITHMETIC[type(node.op)]()
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        node.value = not node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        node.value += 1 if variant == 0 else -1


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)
