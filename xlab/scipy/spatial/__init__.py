"""Geometry: `transform`, rotations in three dimensions."""

from xlab.scipy.spatial import transform as transform

__all__ = ["transform"]
