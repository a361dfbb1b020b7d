"""Rotations in three dimensions, as unit quaternions, and the way from one to the next.

A quaternion is `(x, y, z, w)`, its scalar last. Objects are named tuples of arrays, so every transformation takes them.

Example:
    >>> import xlab.numpy as jnp
    >>> quarter = Rotation.from_euler("z", jnp.array(90.0), degrees=True)
    >>> quarter.apply(jnp.array([1.0, 0.0, 0.0])).round(3).tolist()
    [0.0, 1.0, 0.0]
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xlab import lax, random
from xlab import numpy as jnp
from xlab.core import dtypes
from xlab.core.typing import Array
from xlab.numpy.arithmetic import as_array
from xlab.numpy.jit_when_eager import jit_when_eager

__all__ = ["Rotation", "Slerp"]


class Rotation(NamedTuple):
    """A rotation, or several along a first axis.

    Attributes:
        quat: quaternions, of shape `(4,)` or `(n, 4)`. The `from_` functions make them of length one.
    """

    quat: Array

    @classmethod
    def from_quat(cls, quat: Array) -> Rotation:
        """From quaternions of shape `(..., 4)`, brought to length one."""
        quat = _floats(quat)
        return cls(quat / jnp.linalg.norm(quat, axis=-1, keepdims=True))

    @classmethod
    def from_matrix(cls, matrix: Array) -> Rotation:
        """From orthogonal matrices of shape `(..., 3, 3)`.

        Source:
            Markley (2008), Unit quaternion from rotation matrix: of four forms the one that divides by the largest number.
        """
        matrix = _floats(matrix)
        if matrix.shape[-2:] != (3, 3):
            raise ValueError(f"from_matrix: expected shape (..., 3, 3), got {matrix.shape}")
        return cls(_quaternion_of_matrix(matrix))

    @classmethod
    def from_rotvec(cls, rotvec: Array, degrees: bool = False) -> Rotation:
        """From vectors of shape `(..., 3)` along the axes, as long as the angles."""
        rotvec = _three("from_rotvec", rotvec)
        return cls(_quaternion_of_vector(jnp.deg2rad(rotvec) if degrees else rotvec))

    @classmethod
    def from_mrp(cls, mrp: Array) -> Rotation:
        """From modified Rodrigues parameters of shape `(..., 3)`: axes as long as the tangent of a quarter of the angle."""
        mrp = _three("from_mrp", mrp)
        square = (mrp * mrp).sum(-1, keepdims=True)
        return cls(jnp.concatenate([2 * mrp, 1 - square], -1) / (1 + square))

    @classmethod
    def from_euler(cls, seq: str, angles: Array, degrees: bool = False) -> Rotation:
        """From angles around axes.

        Args:
            seq: up to three of "xyz" (axes that stay, extrinsic) or of "XYZ" (axes that turn along, intrinsic).
            angles: of shape `(..., len(seq))`, or a scalar for one axis.
            degrees: whether angles are degrees, not radians.
        """
        axes, extrinsic = _axes(seq)
        angles = jnp.atleast_1d(_floats(angles))
        if angles.shape[-1] != len(axes):
            raise ValueError(
                f"from_euler: {seq!r} takes angles of shape (..., {len(axes)}), got {angles.shape}"
            )
        if degrees:
            angles = jnp.deg2rad(angles)
        turns = [_turn(axis, angles[..., i]) for i, axis in enumerate(axes)]
        after = (lambda p, q: _product(q, p)) if extrinsic else _product
        return cls(functools.reduce(after, turns))

    @classmethod
    def identity(cls, num: int | None = None, dtype=float) -> Rotation:
        """No rotation, or `num` of them."""
        one = jnp.asarray([0, 0, 0, 1], dtypes.canonicalize_dtype(dtype))
        return cls(one if num is None else jnp.tile(one, (num, 1)))

    @classmethod
    def random(cls, random_key: Array, num: int | None = None) -> Rotation:
        """A rotation, or `num` of them, all being equally likely.

        Args:
            random_key: a random key.
            num: how many.
        """
        return cls.from_quat(random.normal(random_key, (4,) if num is None else (num, 4)))

    @classmethod
    def concatenate(cls, rotations: Sequence) -> Rotation:
        """The rotations of several objects, one after the other, along a first axis."""
        return cls(jnp.concatenate([jnp.atleast_2d(rotation.quat) for rotation in rotations]))

    @property
    def single(self) -> bool:
        """Whether this is one rotation, without an axis."""
        return self.quat.ndim == 1

    def __len__(self) -> int:
        """How many rotations there are."""
        if self.single:
            raise TypeError("Single rotation has no len().")
        return self.quat.shape[0]

    def __getitem__(self, indexer) -> Rotation:
        """Some of the rotations."""
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return Rotation(self.quat[indexer])

    def __mul__(self, other) -> Rotation:
        """The rotation by `other` and then by `self`."""
        return Rotation(_product(self.quat, other.quat))

    def inv(self) -> Rotation:
        """The rotation back."""
        return Rotation(self.quat * np.array([-1, -1, -1, 1], np.dtype(self.quat.dtype)))

    def apply(self, vectors: Array, inverse: bool = False) -> Array:
        """The vectors after the rotation.

        Args:
            vectors: of shape `(3,)` or `(n, 3)`.
            inverse: whether to rotate back.
        """
        matrix, vectors = self.as_matrix(), _three("apply", vectors)
        return jnp.einsum("...ji,...j->...i" if inverse else "...ij,...j->...i", matrix, vectors)

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """The quaternions, of shape `(..., 4)`.

        Args:
            canonical: of the two signs the one whose last number that is not zero, in the order w, x, y, z, is positive.
            scalar_first: whether the scalar comes first.
        """
        quat = self.quat
        if canonical:
            x, y, z, w = (quat[..., i] for i in range(4))
            first = jnp.where(w != 0, w, jnp.where(x != 0, x, jnp.where(y != 0, y, z)))
            quat = jnp.where((first < 0)[..., None], -quat, quat)
        return jnp.roll(quat, 1, -1) if scalar_first else quat

    def as_matrix(self) -> Array:
        """Orthogonal matrices, of shape `(..., 3, 3)`."""
        return _matrix(self.quat)

    def as_rotvec(self, degrees: bool = False) -> Array:
        """Vectors along the axes, as long as the angles, of shape `(..., 3)`."""
        vector = _vector(self.quat)
        return jnp.rad2deg(vector) if degrees else vector

    def as_mrp(self) -> Array:
        """Modified Rodrigues parameters, of shape `(..., 3)`."""
        quat = self.as_quat(canonical=True)
        return quat[..., :3] / (1 + quat[..., 3:])

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """Angles around three axes, of shape `(..., 3)`. Where the middle one makes the other two one, the last is zero.

        Args:
            seq: three of "xyz" (axes that stay) or of "XYZ" (axes that turn along).
            degrees: whether the result is in degrees.

        Source:
            Bernardes and Viollet (2022), Quaternion to Euler angles conversion: a direct, general and computationally efficient method.
        """
        if len(seq) != 3:
            raise ValueError(f"as_euler: Expected 3 axes, got {seq!r}")
        axes, extrinsic = _axes(seq)
        angles = _angles(self.quat, axes, extrinsic)
        return jnp.rad2deg(angles) if degrees else angles

    def magnitude(self) -> Array:
        """The angles, from 0 to pi, of shape `(...)`."""
        return 2 * jnp.arctan2(
            jnp.linalg.norm(self.quat[..., :3], axis=-1), jnp.abs(self.quat[..., 3])
        )

    def mean(self, weights: Array | None = None) -> Rotation:
        """The rotation whose squared distances to all, between matrices, are least in sum.

        Args:
            weights: of the rotations, of shape `(n,)`.

        Source:
            Markley, Cheng, Crassidis and Oshman (2007), Averaging quaternions.
        """
        count = len(self)
        weights = jnp.ones(count, self.quat.dtype) if weights is None else as_array(weights)
        if weights.shape != (count,):
            raise ValueError(
                "mean: Expected `weights` to have number of values equal to number of rotations, got "
                f"shape {weights.shape} and {count} rotations"
            )
        sums = jnp.einsum("n,ni,nj->ij", weights, self.quat, self.quat)
        return Rotation(jnp.linalg.eigh(sums)[1][:, -1])


class Slerp(NamedTuple):
    """Rotations at given times, and between them with constant angular velocity; see `Slerp.init`.

    Attributes:
        times: the times, increasing.
        timedelta: from each to the next.
        rotations: at all times but the last.
        rotvecs: what turns each rotation to the next.

    Source:
        Shoemake (1985), Animating rotation with quaternion curves.
    """

    times: Array
    timedelta: Array
    rotations: Rotation
    rotvecs: Array

    @classmethod
    def init(cls, times: Array, rotations: Rotation) -> Slerp:
        """An interpolation.

        Args:
            times: when, of shape `(n,)`, increasing; they take the dtype of the rotations.
            rotations: `n` of them.
        """
        if not isinstance(rotations, Rotation):
            raise TypeError(f"`rotations` must be a Rotation, got {type(rotations).__name__}")
        if rotations.single or len(rotations) < 2:
            raise ValueError("`rotations` must be a sequence of at least 2 rotations.")
        times = _floats(times).astype(rotations.quat.dtype)
        if times.shape != (len(rotations),):
            raise ValueError(
                f"Expected number of rotations to be equal to number of timestamps given, got {len(rotations)} "
                f"rotations and timestamps of shape {times.shape}"
            )
        before, after = Rotation(rotations.quat[:-1]), Rotation(rotations.quat[1:])
        return cls(times, jnp.diff(times), before, (before.inv() * after).as_rotvec())

    def __call__(self, times: Array) -> Rotation:
        """The rotations at some times, of shape `()` or `(m,)`; outside of what is given they go on as at the end."""
        at = _floats(times).astype(self.times.dtype)
        if at.ndim > 1:
            raise ValueError(f"`times` must be at most 1-dimensional, got shape {at.shape}")
        i = jnp.clip(
            jnp.searchsorted(self.times, at, side="right") - 1, 0, self.timedelta.shape[0] - 1
        )
        part = (at - self.times[i]) / self.timedelta[i]
        return self.rotations[i] * Rotation.from_rotvec(self.rotvecs[i] * part[..., None])


def _floats(x):
    x = jnp.asarray(x)
    return x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(float)


def _three(name, x):
    x = _floats(x)
    if x.ndim == 0 or x.shape[-1] != 3:
        raise ValueError(f"{name}: expected vectors of shape (..., 3), got {x.shape}")
    return x


def _axes(seq):
    """The axes as numbers, and whether they stay."""
    if not 1 <= len(seq) <= 3:
        raise ValueError(
            f"Expected axis specification to be a non-empty string of upto 3 characters, got {seq!r}"
        )
    extrinsic = re.fullmatch("[xyz]+", seq) is not None
    if not extrinsic and not re.fullmatch("[XYZ]+", seq):
        raise ValueError(
            f"Expected axes from `seq` to be from ['x', 'y', 'z'] or ['X', 'Y', 'Z'], got {seq!r}"
        )
    axes = ["xyz".index(axis) for axis in seq.lower()]
    if any(a == b for a, b in itertools.pairwise(axes)):
        raise ValueError(f"Expected consecutive axes to be different, got {seq!r}")
    return tuple(axes), extrinsic


def _turn(axis, angle):
    parts = [jnp.zeros_like(angle)] * 3 + [jnp.cos(angle / 2)]
    parts[axis] = jnp.sin(angle / 2)
    return jnp.stack(parts, -1)


@jit_when_eager
def _product(p, q):
    """Hamilton's product."""
    (a, u), (b, v) = ((r[..., 3:], r[..., :3]) for r in (p, q))
    vector = a * v + b * u + jnp.cross(u, v)
    scalar = a * b - (u * v).sum(-1, keepdims=True)
    return jnp.concatenate([vector, scalar], -1)


@jit_when_eager
def _matrix(quat):
    x, y, z, w = (quat[..., i] for i in range(4))
    rows = [
        [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), y * y - x * x - z * z + w * w, 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), z * z - x * x - y * y + w * w],
    ]
    return jnp.stack([jnp.stack(row, -1) for row in rows], -2)


@jit_when_eager
def _quaternion_of_matrix(m):
    diagonal = [m[..., i, i] for i in range(3)]
    trace = diagonal[0] + diagonal[1] + diagonal[2]
    forms = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        parts = [None] * 4
        parts[i] = 1 - trace + 2 * diagonal[i]
        parts[j] = m[..., j, i] + m[..., i, j]
        parts[k] = m[..., k, i] + m[..., i, k]
        parts[3] = m[..., k, j] - m[..., j, k]
        forms.append(jnp.stack(parts, -1))
    between = [
        m[..., (i + 2) % 3, (i + 1) % 3] - m[..., (i + 1) % 3, (i + 2) % 3] for i in range(3)
    ]
    forms.append(jnp.stack([*between, 1 + trace], -1))
    largest = jnp.stack([*diagonal, trace], -1).argmax(-1)
    chosen = jnp.take_along_axis(jnp.stack(forms, -2), largest[..., None, None], -2)[..., 0, :]
    return chosen / jnp.linalg.norm(chosen, axis=-1, keepdims=True)


@jit_when_eager
def _quaternion_of_vector(v):
    square = (v * v).sum(-1, keepdims=True)
    small = square < 1e-6
    # Near zero a series, so that the derivative there is no quotient of zeros.
    angle = jnp.sqrt(jnp.where(small, 1, square))
    factor = jnp.where(
        small, 0.5 - square / 48 + square * square / 3840, jnp.sin(angle / 2) / angle
    )
    scalar = jnp.where(small, 1 - square / 8 + square * square / 384, jnp.cos(angle / 2))
    return jnp.concatenate([v * factor, scalar], -1)


@jit_when_eager
def _vector(quat):
    quat = jnp.where(quat[..., 3:] < 0, -quat, quat)
    v, w = quat[..., :3], quat[..., 3:]
    square = (v * v).sum(-1, keepdims=True)
    small = square < 1e-6
    sine = jnp.sqrt(jnp.where(small, 1, square))
    # asin(s) / s of the sine of half the angle, twice
    series = 2 + square / 3 + 3 * square * square / 20
    return v * jnp.where(small, series, 2 * jnp.arctan2(sine, w) / sine)


@functools.partial(jit_when_eager, static=("axes", "extrinsic"))
def _angles(quat, axes, extrinsic):
    i, j, k = axes if extrinsic else axes[::-1]
    symmetric = i == k
    if symmetric:
        k = 3 - i - j
    sign = (i - j) * (j - k) * (k - i) // 2  # of the permutation
    w, x, y, z = quat[..., 3], quat[..., i], quat[..., j], quat[..., k] * sign
    a, b, c, d = (w, x, y, z) if symmetric else (w - y, x + z, y + w, z - x)
    middle = 2 * jnp.arctan2(jnp.hypot(c, d), jnp.hypot(a, b))
    total, difference = jnp.arctan2(b, a), jnp.arctan2(d, c)
    first, third = total - difference, total + difference
    if not extrinsic:
        first, third = third, first
    eps = 1e-7
    none, half = jnp.abs(middle) <= eps, jnp.abs(middle - jnp.pi) <= eps
    locked = none | half
    first = jnp.where(
        none, 2 * total, jnp.where(half, (-2 if extrinsic else 2) * difference, first)
    )
    third = jnp.where(locked, 0, third)
    if not symmetric:
        if extrinsic:
            third = third * sign
        else:
            first = first * sign
        middle = middle - jnp.pi / 2
    angles = jnp.stack([first, middle, third], -1)
    angles = jnp.where(angles < -jnp.pi, angles + 2 * jnp.pi, angles)
    return lax.convert_element_type(
        jnp.where(angles > jnp.pi, angles - 2 * jnp.pi, angles), quat.dtype
    )
