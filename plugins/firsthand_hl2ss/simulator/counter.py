"""A number that can be read back from a picture, whatever a video encoder did to it.

Forty blocks in two rows at the top left, measured in fractions of the picture so that a resized
picture reads as well: four fixed blocks, 24 bits of number, 12 bits of check.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

COLUMNS: Final = 20
ROWS: Final = 2
_FIXED: Final = (1, 0, 1, 0)
_BITS: Final = 24
_MARGIN: Final = 0.012
_BLOCK_WIDTH: Final = 1 / 54
_BLOCK_HEIGHT: Final = 1 / 30
_DARK, _LIGHT = 16, 240
LIMIT: Final = 1 << _BITS
"""Counters are written modulo this."""


def _check(number: int) -> int:
    """Twelve bits of CRC (polynomial x¹² + x¹¹ + x³ + x² + x + 1) of a 24-bit number."""
    value = number << 12
    for bit in range(_BITS + 11, 11, -1):
        if value >> bit & 1:
            value ^= 0x180F << (bit - 12)
    return value ^ 0xA5C  # so that an evenly dark or light picture never passes


def _edges(width: int, height: int) -> tuple[list[int], list[int]]:
    xs = [round((_MARGIN + i * _BLOCK_WIDTH) * width) for i in range(COLUMNS + 1)]
    ys = [round((_MARGIN + i * _BLOCK_HEIGHT) * height) for i in range(ROWS + 1)]
    return [x & ~1 for x in xs], [y & ~1 for y in ys]


def draw_counter(
    luma: npt.NDArray[np.uint8], chroma: npt.NDArray[np.uint8] | None, index: int
) -> None:
    """Write ``index`` into a luma plane (h, w) and, made grey, its chroma (h / 2, w / 2, 2)."""
    height, width = luma.shape
    xs, ys = _edges(width, height)
    number = index % LIMIT
    bits = list(_FIXED)
    bits += [number >> i & 1 for i in reversed(range(_BITS))]
    bits += [_check(number) >> i & 1 for i in reversed(range(12))]
    rim = max(2, width // 320) & ~1
    top, left = max(0, ys[0] - rim), max(0, xs[0] - rim)
    luma[top : ys[-1] + rim, left : xs[-1] + rim] = 128
    if chroma is not None:
        chroma[top // 2 : (ys[-1] + rim) // 2, left // 2 : (xs[-1] + rim) // 2] = 128
    for i, bit in enumerate(bits):
        row, column = divmod(i, COLUMNS)
        luma[ys[row] : ys[row + 1], xs[column] : xs[column + 1]] = _LIGHT if bit else _DARK


def read_counter(image: npt.NDArray[Any]) -> int | None:
    """The number in a picture (grey, RGB or BGR; any size), or None where there is none."""
    height, width = image.shape[:2]
    if width < 2 * COLUMNS or height < 30 or image.size == 0:
        return None
    xs, ys = _edges(width, height)
    levels = []
    for row in range(ROWS):
        for column in range(COLUMNS):
            dx, dy = (xs[column + 1] - xs[column]) // 4, (ys[row + 1] - ys[row]) // 4
            block = image[ys[row] + dy : ys[row + 1] - dy, xs[column] + dx : xs[column + 1] - dx]
            levels.append(float(block.mean()) if block.size else 0.0)
    light = (levels[0] + levels[2]) / 2
    dark = (levels[1] + levels[3]) / 2
    if light - dark < 40:
        return None
    bits = [int(level > (light + dark) / 2) for level in levels]
    if tuple(bits[: len(_FIXED)]) != _FIXED:
        return None
    number = int("".join(map(str, bits[4 : 4 + _BITS])), 2)
    check = int("".join(map(str, bits[4 + _BITS :])), 2)
    return number if check == _check(number) else None
