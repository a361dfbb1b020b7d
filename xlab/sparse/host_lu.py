"""Sparse systems of equations on the host: Gaussian elimination that looks for pivots with little fill-in."""

from __future__ import annotations

import heapq

import numpy as np


def solve_sparse(data, rows, cols, b, tol: float):
    """Solves `A x = b` for a square matrix given by coordinates; all nan where `A` is singular.

    Rows are eliminated in the order of Markowitz ("The elimination form of the inverse", 1957), column by column: the column with the
    fewest elements left, and in it the shortest row whose pivot is at least a tenth of the largest (threshold pivoting; Duff, Erisman,
    Reid, "Direct Methods for Sparse Matrices", chapter 7).

    Args:
        data: the elements; those with the same coordinates are added, those out of bounds left out.
        rows: their rows.
        cols: their columns.
        b: the right side, `(n,)`.
        tol: a pivot that is smaller than this part of the largest element counts as zero.

    Example:
        >>> solve_sparse(np.array([2.0, 4.0]), np.array([0, 1]), np.array([1, 0]), np.array([2.0, 8.0]), 1e-6).tolist()
        [2.0, 1.0]
    """
    n, x = len(b), np.array(b)
    matrix: list[dict] = [{} for _ in range(n)]
    for value, i, j in zip(data.tolist(), rows.tolist(), cols.tolist()):
        if i < n and j < n:
            matrix[i][j] = matrix[i].get(j, 0) + value
    having: list[set] = [set() for _ in range(n)]  # rows with an element in each column
    for i, row in enumerate(matrix):
        for j in row:
            having[j].add(i)
    right, least = (
        x.tolist(),
        tol * max((abs(v) for row in matrix for v in row.values()), default=0),
    )
    queue = [(len(s), j) for j, s in enumerate(having)]
    heapq.heapify(queue)
    done: list[tuple[int, int]] = []
    eliminated = [False] * n
    while queue:
        count, j = heapq.heappop(queue)
        if eliminated[j]:
            continue
        if count != len(having[j]):  # what the queue says is old
            heapq.heappush(queue, (len(having[j]), j))
            continue
        largest = max((abs(matrix[i][j]) for i in having[j]), default=0)
        if not largest > least:
            return np.full_like(x, np.nan)
        pivot = min(
            (i for i in having[j] if abs(matrix[i][j]) >= 0.1 * largest),
            key=lambda i: len(matrix[i]),
        )
        row = matrix[pivot]
        for other in row:
            having[other].discard(pivot)
        for i in having[j]:
            factor = matrix[i].pop(j) / row[j]
            right[i] -= factor * right[pivot]
            for k, value in row.items():
                if k != j:
                    matrix[i][k] = matrix[i].get(k, 0) - factor * value
                    having[k].add(i)
        having[j] = set()
        eliminated[j] = True
        done.append((pivot, j))
    for i, j in reversed(done):
        known = sum(value * x[k] for k, value in matrix[i].items() if k != j)
        x[j] = (right[i] - known) / matrix[i][j]
    return x
