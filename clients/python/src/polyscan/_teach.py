"""Teaching: what the clients send to TeachService."""

from __future__ import annotations

from typing import Any, Iterable

from polyscan import _frames, _regions, _wire
from polyscan._wire import Parts
from polyscan.v1 import recipe_pb2, teach_pb2

SERVICE = "/polyscan.v1.TeachService/"


def teaching(
    regions: _regions.Regions | None,
    recipe: str | recipe_pb2.RecipeRef | None,
    quantities: Iterable[str],
    sigma: float | None,
    quantile: tuple[float, float] | None,
) -> teach_pb2.TeachRequest:
    if isinstance(quantities, str):
        quantities = [quantities]
    if sigma is not None and quantile is not None:
        raise TypeError("want either sigma or quantile")
    out = teach_pb2.TeachRequest(open=teach_pb2.TeachOpen(quantities=quantities))
    _what(out.open, regions, recipe)
    if sigma is not None:
        out.open.margin.sigma = sigma
    elif quantile is not None:
        percent, share = quantile
        out.open.margin.quantile.CopyFrom(teach_pb2.QuantileMargin(percent=percent, share_percent=share))
    return out


def trying(
    regions: _regions.Regions | None,
    recipe: str | recipe_pb2.RecipeRef | None,
    beside: str | recipe_pb2.RecipeRef | None,
) -> teach_pb2.TryRequest:
    if regions is not None:
        regions.look()
    out = teach_pb2.TryRequest(open=teach_pb2.TryOpen())
    _what(out.open, regions, recipe)
    if beside is not None:
        out.open.beside.CopyFrom(_regions.recipe_ref(beside))
    return out


def _what(
    open: Any, regions: _regions.Regions | None, recipe: str | recipe_pb2.RecipeRef | None
) -> None:
    if (regions is None) == (recipe is None):
        raise TypeError("want either regions or a recipe")
    if regions is not None:
        open.draft.CopyFrom(_regions.to_recipe("draft", regions, *_regions.asked(regions, None, None)))
    elif recipe is not None:
        open.recipe.CopyFrom(_regions.recipe_ref(recipe))


def labelled(item: Any) -> tuple[Any, Any]:
    """A frame and what is known of it: given alone, or as a pair."""
    frame, label = item if isinstance(item, tuple) else (item, None)
    if label is not None:
        label = str(label)  # 0 and 1 mean bad and good to some, and good and bad to others: they are no labels
    return frame, _wire.enum_value(teach_pb2.FrameLabel, "FRAME_LABEL_", label, "label")


def request(frame: _frames.Encoded, label: Any) -> Parts:
    """A frame as both methods take it."""
    return Parts.of(teach_pb2.TeachRequest(label=label).SerializeToString()) + frame.parts().inside(2)
