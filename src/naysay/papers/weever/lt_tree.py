"""The LT-tree: a red-black tree whose nodes know every row below them to the left.

Kaminsky, Pena, Naumann, Incremental Detection of Denial Constraint Violations (Weever), section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyroaring import BitMap


class Node:
    """One distinct value: the rows that have it (`rows`), and those of the whole left subtree (`less`, the LT-set)."""

    __slots__ = ("is_red", "left", "less", "parent", "right", "rows", "value")

    def __init__(self, value: int, none: Node | None) -> None:
        self.value = value
        self.rows = BitMap()
        self.less = BitMap()
        self.is_red = False
        self.left: Node = self if none is None else none
        self.right: Node = self if none is None else none
        self.parent: Node = self if none is None else none


class LTTree:
    """Rows by value. All rows below a value are the union of O(log d) sets, d the number of distinct values."""

    def __init__(self) -> None:
        self._none = Node(0, None)
        self._root = self._none
        self.n_values = 0

    def equal(self, value: int) -> BitMap | None:
        """The rows that have a value; None where none has."""
        node = self._find(value)
        return None if node is self._none else node.rows

    def smaller(self, value: int) -> BitMap:
        """All rows with a smaller value (Algorithm 1)."""
        return self.extend(BitMap(), None, value)

    def extend(self, found: BitMap, start: int | None, value: int) -> BitMap:
        """Add to `found`, which holds all rows below `start`, those from there to below `value` (section 5.5).

        What hangs left of a node below `start` is in `found` already.
        """
        node = self._root
        while node is not self._none:
            if value > node.value:
                if start is None or node.value >= start:
                    found |= node.rows
                    found |= node.less
                node = node.right
            elif value < node.value:
                node = node.left
            else:
                found |= node.less
                break
        return found

    def insert(self, value: int, row: int) -> None:
        """Add a row (section 4.3): to the LT-set of each node where the way goes left, and to the node of its value."""
        parent, node = self._none, self._root
        while node is not self._none and node.value != value:
            parent = node
            if value < node.value:
                node.less.add(row)
                node = node.left
            else:
                node = node.right
        if node is self._none:
            self._add_leaf(value, row, parent)
        else:
            node.rows.add(row)

    def delete(self, value: int, row: int) -> None:
        """Remove a row that is there, and its value where no other row has it."""
        node = self._root
        while node.value != value:
            assert node is not self._none, "the value to delete is not in the tree"
            if value < node.value:
                node.less.remove(row)
                node = node.left
            else:
                node = node.right
        node.rows.remove(row)
        if not node.rows:
            self._remove(node)

    def fill(self, values: Sequence[int], rows: Sequence[int]) -> None:
        """Fill an empty tree with rows in ascending order of their values: balanced, its deepest level red."""
        starts = [place for place, value in enumerate(values) if place == 0 or value != values[place - 1]]
        bounds = [*starts, len(values)]
        self.n_values = len(starts)
        depth = self.n_values.bit_length() - 1

        def build(low: int, high: int, level: int, parent: Node) -> Node:
            if low >= high:
                return self._none
            middle = (low + high) // 2
            node = Node(values[bounds[middle]], self._none)
            node.parent = parent
            node.is_red = level == depth and level > 0
            node.rows = BitMap(rows[bounds[middle] : bounds[middle + 1]])
            node.less = BitMap(rows[bounds[low] : bounds[middle]])
            node.left = build(low, middle, level + 1, node)
            node.right = build(middle + 1, high, level + 1, node)
            return node

        self._root = build(0, len(starts), 0, self._none)

    def check(self) -> None:
        """Raise AssertionError where the tree is not what it must be; for tests."""

        def walk(node: Node) -> tuple[BitMap, int, list[int]]:
            if node is self._none:
                return BitMap(), 0, []
            below_left, blacks_left, values_left = walk(node.left)
            below_right, blacks_right, values_right = walk(node.right)
            assert node.less == below_left, "the LT-set is the union of the left subtree"
            assert node.rows, "a value without rows is removed"
            assert blacks_left == blacks_right, "all ways down pass as many black nodes"
            assert not node.is_red or not (node.left.is_red or node.right.is_red), "a red node has black children"
            values = [*values_left, node.value, *values_right]
            return below_left | node.rows | below_right, blacks_left + (not node.is_red), values

        assert not self._root.is_red
        _, _, values = walk(self._root)
        assert values == sorted(set(values))
        assert len(values) == self.n_values

    def _find(self, value: int) -> Node:
        node = self._root
        while node is not self._none and node.value != value:
            node = node.left if value < node.value else node.right
        return node

    def _add_leaf(self, value: int, row: int, parent: Node) -> None:
        node = Node(value, self._none)
        # Rotations carry the row into LT-sets, so it must be there before them.
        node.rows.add(row)
        node.parent = parent
        node.is_red = True
        if parent is self._none:
            self._root = node
        elif value < parent.value:
            parent.left = node
        else:
            parent.right = node
        self.n_values += 1
        self._balance_insert(node)

    def _rotate_left(self, node: Node) -> None:
        """The right child comes up; the node and its left subtree are now to its left."""
        child = node.right
        child.less |= node.rows
        child.less |= node.less
        node.right = child.left
        if child.left is not self._none:
            child.left.parent = node
        self._replace(node, child)
        child.left = node
        node.parent = child

    def _rotate_right(self, node: Node) -> None:
        """The left child comes up, and with its left subtree it is no longer to the node's left."""
        child = node.left
        node.less -= child.rows
        node.less -= child.less
        node.left = child.right
        if child.right is not self._none:
            child.right.parent = node
        self._replace(node, child)
        child.right = node
        node.parent = child

    def _replace(self, node: Node, child: Node) -> None:
        child.parent = node.parent
        if node.parent is self._none:
            self._root = child
        elif node is node.parent.left:
            node.parent.left = child
        else:
            node.parent.right = child

    def _balance_insert(self, node: Node) -> None:
        while node.parent.is_red:
            grand = node.parent.parent
            is_left = node.parent is grand.left
            uncle = grand.right if is_left else grand.left
            if uncle.is_red:
                node.parent.is_red = uncle.is_red = False
                grand.is_red = True
                node = grand
                continue
            if is_left:
                if node is node.parent.right:
                    node = node.parent
                    self._rotate_left(node)
                node.parent.is_red, grand.is_red = False, True
                self._rotate_right(grand)
            else:
                if node is node.parent.left:
                    node = node.parent
                    self._rotate_right(node)
                node.parent.is_red, grand.is_red = False, True
                self._rotate_left(grand)
        self._root.is_red = False

    def _remove(self, node: Node) -> None:
        """Remove a node without rows; where it has two children the next greater value takes its place."""
        self.n_values -= 1
        if node.left is not self._none and node.right is not self._none:
            follower = node.right
            while follower.left is not self._none:
                follower = follower.left
            above = node.right
            while above is not follower:
                above.less -= follower.rows
                above = above.left
            node.value, node.rows = follower.value, follower.rows
            node = follower
        child = node.left if node.left is not self._none else node.right
        self._replace(node, child)
        if not node.is_red:
            self._balance_delete(child)
        self._none.parent = self._none

    def _balance_delete(self, node: Node) -> None:
        while node is not self._root and not node.is_red:
            parent = node.parent
            if node is parent.left:
                node = self._lift(node, parent, parent.right, self._rotate_left, self._rotate_right)
            else:
                node = self._lift(node, parent, parent.left, self._rotate_right, self._rotate_left)
        node.is_red = False

    def _lift(
        self,
        node: Node,
        parent: Node,
        sibling: Node,
        rotate_in: Callable[[Node], None],
        rotate_out: Callable[[Node], None],
    ) -> Node:
        """One step of balancing after a deletion; `rotate_in` turns the parent towards the node."""
        is_left = node is parent.left
        if sibling.is_red:
            sibling.is_red, parent.is_red = False, True
            rotate_in(parent)
            sibling = parent.right if is_left else parent.left
        near, far = (sibling.left, sibling.right) if is_left else (sibling.right, sibling.left)
        if not near.is_red and not far.is_red:
            sibling.is_red = True
            return parent
        if not far.is_red:
            near.is_red, sibling.is_red = False, True
            rotate_out(sibling)
            sibling = parent.right if is_left else parent.left
            far = sibling.right if is_left else sibling.left
        sibling.is_red, parent.is_red, far.is_red = parent.is_red, False, False
        rotate_in(parent)
        return self._root
