"""Records as flat columns, one number each: for tables, CSV files and plots."""

import re
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from firsthand.api.streams import Column, StreamSchema

_SPATIAL: Final = re.compile(r"(origin|direction|position|forward|up|value)$")


@dataclass(frozen=True, slots=True)
class FlatColumn:
    """One number of every record: ``name`` such as ``gaze_origin_x``, its unit, its values."""

    name: str
    unit: str
    values: npt.NDArray[Any]


def flat_columns(schema: StreamSchema, records: npt.NDArray[np.void]) -> list[FlatColumn]:
    """Every number of ``records`` (of the schema's ``dtype``) as a column of its own, in order.

    Parts of a column are told apart by ``_x _y _z`` (points, directions), ``_x _y _z _w``
    (orientations), ``_x _y`` (pixels), otherwise by number, as are joints and rows of a matrix.
    """
    found = []
    for column in schema.columns:
        values = records[column.name]
        for place in product(*(range(n) for n in column.shape)):
            name = column.name + "".join(
                f"_{_letters(column)[i] if at == len(column.shape) - 1 else i}"
                for at, i in enumerate(place)
            )
            index: Any = (slice(None), *place)
            found.append(FlatColumn(name, column.unit, values[index]))
    return found


def _letters(column: Column) -> list[str]:
    last = column.shape[-1]
    if last == 3 and _SPATIAL.search(column.name):
        return ["x", "y", "z"]
    if last == 4 and len(column.shape) <= 2 and column.name.endswith("orientation"):
        return ["x", "y", "z", "w"]
    if last == 2 and column.unit == "px":
        return ["x", "y"]
    return [str(i) for i in range(last)]
