"""Mutation testing of the kernels: `scripts/mutate`.

A mutant is a kernel with one small fault. Kernels run uncompiled, so that a fault is a change to the code of a
Python function. The tests that call the kernel run on each mutant; a mutant that none of them notices shows a gap in
the tests, or changes no answer.
"""
