"""The LT-tree: a red-black tree whose nodes hold all rows of their left subtrees.

Kaminsky, Pena, Naumann, Incremental Detection of Denial Constraint Violations (Weever), section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pyroaring import BitMap

# A value as integers in its order: one for each code space that the column is compared in.
Value = tuple[int, ...]


class LTNode:
    """One distinct value: the rows that have it (`rows`), and those of the whole left subtree (`less`, the LT-set)."""

    __slots__ = ("is_red", "left", "less", "parent", "right", "rows", "value")

    def __init__(self, value: Value, rows: BitMap, none: LTNode | None) -> None:
        self.value = value
        self.rows = rows
        self.less = BitMap()
        self.is_red = False
        self.left: LTNode = self if none is None else none
        self.right: LTNode = self if none is None else none
        self.parent: LTNode = self if none is None else none


class LTTree:
    """Rows by value. All rows below a value are the union of O(log d) sets, d the number of distinct values.

    A search compares one integer of the values, that of its `space`. `n_unions` counts the sets united by searches.
    """

    def __init__(self) -> None:
        self._none = LTNode((), BitMap(), None)
        self._root = self._none
        self.n_values = 0
        self.n_unions = 0

    def __iter__(self) -> Iterator[tuple[Value, BitMap]]:
        """Values with their rows, ascending."""
        above: list[LTNode] = []
        node = self._root
        while above or node is not self._none:
            while node is not self._none:
                above.append(node)
                node = node.left
            node = above.pop()
            yield node.value, node.rows
            node = node.right

    def equal(self, value: int, space: int = 0) -> BitMap | None:
        """The rows with a value; None if there are none."""
        node = self._root
        while node is not self._none:
            here = node.value[space]
            if here == value:
                return node.rows
            node = node.left if value < here else node.right
        return None

    def smaller(self, value: int, space: int = 0) -> BitMap:
        """All rows with a smaller value (Algorithm 1)."""
        return self.extend(BitMap(), None, value, space)

    def extend(self, found: BitMap, start: int | None, value: int, space: int = 0) -> BitMap:
        """Add to `found`, which holds all rows below `start`, those from there to below `value` (section 5.5).

        The left subtree of a node below `start` is in `found` already.
        """
        node = self._root
        while node is not self._none:
            here = node.value[space]
            if value > here:
                if start is None or here >= start:
                    found |= node.rows
                    found |= node.less
                    self.n_unions += 2
                node = node.right
            elif value < here:
                node = node.left
            else:
                if start is None or here > start:
                    found |= node.less
                    self.n_unions += 1
                break
        return found

    def insert(self, value: Value, row: int) -> BitMap:
        """Add a row (section 4.3): to the LT-set of nodes where the path goes left, and to the rows of its value.

        Returns these, which stay the same object as long as the value has rows.
        """
        parent, node = self._none, self._root
        while node is not self._none and node.value != value:
            parent = node
            if value < node.value:
                node.less.add(row)
                node = node.left
            else:
                node = node.right
        if node is self._none:
            return self._add_leaf(value, row, parent)
        node.rows.add(row)
        return node.rows

    def delete(self, value: Value, row: int) -> BitMap:
        """Remove a row that is in the tree, and its value if no other row has it; returns the rows that have it."""
        node = self._root
        while node.value != value:
            assert node is not self._none, "the value to delete is not in the tree"
            if value < node.value:
                node.less.remove(row)
                node = node.left
            else:
                node = node.right
        rows = node.rows
        rows.remove(row)
        if not rows:
            self._remove(node)
        return rows

    def fill(self, entries: Sequence[tuple[Value, BitMap]]) -> None:
        """Fill an empty tree with values and their rows, ascending: balanced, its deepest level red."""
        self.n_values = len(entries)
        depth = self.n_values.bit_length() - 1

        def build(low: int, high: int, level: int, parent: LTNode) -> tuple[LTNode, BitMap]:
            """The tree of some entries, and all their rows."""
            if low >= high:
                return self._none, BitMap()
            middle = (low + high) // 2
            node = LTNode(*entries[middle], self._none)
            node.parent = parent
            node.is_red = level == depth and level > 0
            node.left, node.less = build(low, middle, level + 1, node)
            node.right, greater = build(middle + 1, high, level + 1, node)
            return node, BitMap.union(node.less, node.rows, greater)

        self._root = build(0, len(entries), 0, self._none)[0]

    def _add_leaf(self, value: Value, row: int, parent: LTNode) -> BitMap:
        # Rotations copy the row into LT-sets, so it must be there before them.
        node = LTNode(value, BitMap((row,)), self._none)
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
        return node.rows

    def _rotate_left(self, node: LTNode) -> None:
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

    def _rotate_right(self, node: LTNode) -> None:
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

    def _replace(self, node: LTNode, child: LTNode) -> None:
        child.parent = node.parent
        if node.parent is self._none:
            self._root = child
        elif node is node.parent.left:
            node.parent.left = child
        else:
            node.parent.right = child

    def _balance_insert(self, node: LTNode) -> None:
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

    def _remove(self, node: LTNode) -> None:
        """Remove a node without rows; if it has two children, the next greater value replaces it."""
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

    def _balance_delete(self, node: LTNode) -> None:
        while node is not self._root and not node.is_red:
            parent = node.parent
            if node is parent.left:
                node = self._lift(node, parent, parent.right, self._rotate_left, self._rotate_right)
            else:
                node = self._lift(node, parent, parent.left, self._rotate_right, self._rotate_left)
        node.is_red = False

    def _lift(
        self,
        node: LTNode,
        parent: LTNode,
        sibling: LTNode,
        rotate_in: Callable[[LTNode], None],
        rotate_out: Callable[[LTNode], None],
    ) -> LTNode:
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
