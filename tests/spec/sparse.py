"""Frames of sparse matrices, by src/format/SPARSE.md; see decode.py."""

import struct
from collections import namedtuple

import numpy as np

from decode import crc32c
from parts import check, checksum, known

HEADER_BYTES, UNIT, LANES = 128, 64, 32
WINDOW, PLACES = 3840, 120
PLAIN, CONSTANT, DICTIONARY_8, DICTIONARY_16, BLOCKS = range(5)
RELATIVE, BLOCKED, FULL = 1, 2, 4
IN_ORDER = (1 << 32) - 1
TYPES = {11: "<f4", 12: "<f8"}
Header = namedtuple(
    "Header",
    "magic version dtype codec b n_rows n_cols n_elements n_slices n_long_slices n_steps n_order n_long n_table"
    " code_bytes value_bytes checksum frame_bytes zero crc",
)
Slice = namedtuple("Slice", "base place values_at codes_at steps_at order_at n_steps width flags n_rows")
Lanes = namedtuple("Lanes", "rows mask columns values")
"""A decoded slice: the row of each lane or -1; and for each step (column of a block), a mask of the lanes with an
element, and the columns and values of these."""
Csr = namedtuple("Csr", "starts columns values")


class Matrix:
    """A frame whose header and tables were validated."""

    def __init__(self, frame):
        self.head = head = header(frame)
        self.dtype = np.dtype(TYPES[head.dtype])
        self.tables(frame)
        slices = [self.slice(i) for i in range(head.n_slices + head.n_long_slices)]
        self.lanes = [self.decode(i, *pair) for i, pair in enumerate(slices)]
        self.check_windows([each for each, _ in slices[: head.n_slices]])
        self.check_rows([each for each, _ in slices[: head.n_slices]])
        self.check_long([each for each, _ in slices[head.n_slices :]])
        check(sum(int(lanes.mask.sum()) for lanes in self.lanes) == head.n_elements, "number of elements")

    def tables(self, frame):
        head, at = self.head, HEADER_BYTES
        n_all = head.n_slices + head.n_long_slices

        def take(dtype, n):
            nonlocal at
            start = -(-at // UNIT) * UNIT
            at = start + n * np.dtype(dtype).itemsize
            check(at <= len(frame), "a table outside of the frame")
            return np.frombuffer(frame[start:at], dtype)

        self.slices = take("u1", 32 * n_all).reshape(-1, 32)
        self.steps = take("<u4", 2 * head.n_steps).reshape(-1, 2)
        self.order = take("<u2", head.n_order)
        self.long = [struct.unpack("<QII", entry.tobytes()) for entry in take("u1", 16 * head.n_long).reshape(-1, 16)]
        self.table = take(self.dtype, head.n_table)
        self.blocks = take("u1", 16 * (n_all if head.codec == BLOCKS else 0)).reshape(-1, 16)
        self.codes = take("u1", head.code_bytes)
        self.n_code_bytes = 0
        self.bytes = take("u1", head.value_bytes)
        if head.codec in (DICTIONARY_8, DICTIONARY_16):
            width = head.codec - DICTIONARY_8 + 1
            all_numbers = numbers(self.bytes, 0, width, head.value_bytes // width)
            check((all_numbers < head.n_table).all(), "numbers of values")
        check(-(-at // UNIT) * UNIT == len(frame), "end of the frame")

    def slice(self, i):
        """Parses the entry of a slice, and its steps."""
        each = Slice._make(struct.unpack("<QIIIII4B", self.slices[i].tobytes()))
        check(each.width in (0, 1, 2, 4, 8), "bytes of a code")
        check(each.flags < 8, "flags of a slice")
        check(not each.flags & BLOCKED or self.head.b > 1, "a blocked slice without blocks")
        check(1 <= each.n_rows <= LANES, "rows of a slice")
        check(each.steps_at + each.n_steps <= self.head.n_steps, "steps of a slice")
        steps = self.steps[each.steps_at : each.steps_at + each.n_steps]
        masks = [int(mask) for mask in steps[:, 1]]
        check(all(0 < mask < 1 << each.n_rows for mask in masks), "masks of a slice")
        check(not each.flags & FULL or all(mask == (1 << LANES) - 1 for mask in masks), "masks of a full slice")
        return each, steps

    def decode(self, i, each, steps):
        head, lane = self.head, np.arange(LANES)
        is_blocked, is_long = bool(each.flags & BLOCKED), i >= head.n_slices
        b = head.b if is_blocked else 1
        phase = LANES * (each.place % PLACES) % head.b
        rows = self.rows(each, phase) if not is_long else np.full(LANES, -1)
        mask = (steps[:, 1:] >> lane.astype("u4") & 1).astype(bool)

        # Columns: base + r + offset + code, modulo 2^64.
        node = (phase + lane) // head.b if is_blocked else lane
        n_codes = (phase + LANES - 1) // head.b + 1 if is_blocked else LANES
        codes = numbers(self.codes, LANES * each.codes_at, each.width, each.n_steps * n_codes)
        self.n_code_bytes += codes.size * each.width
        check(self.n_code_bytes <= self.head.code_bytes, "slices that share codes")
        columns = np.array([each.base], "u8") + steps[:, :1].astype("u8") + codes.reshape(-1, n_codes)[:, node]
        if each.flags & RELATIVE:
            start = rows - (phase + lane) % head.b if is_blocked else rows
            columns = columns + start.astype("u8")
        columns = columns[:, None, :] + np.arange(b, dtype="u8")[:, None]
        check((columns[:, -1] >= columns[:, 0])[mask].all(), "columns of a block")
        columns, mask = columns.reshape(-1, LANES), np.repeat(mask, b, axis=0)
        check((columns[mask] < head.n_cols).all(), "columns")
        return Lanes(rows, mask, columns, self.values(i, each, mask))

    def rows(self, each, phase):
        """The row of each lane, in a slice that does not belong to a long row."""
        head, at = self.head, np.arange(each.n_rows)
        window, b = each.place // PLACES, head.b
        if each.order_at == IN_ORDER:
            rows = LANES * each.place + at
        else:
            node = each.order_at + (phase + at) // b
            check(node[-1] < head.n_order, "order of a slice")
            rows = WINDOW * window + b * self.order[node].astype(int) + (phase + at) % b
        check(rows.max() < min(head.n_rows, WINDOW * (window + 1)), "row of a lane")
        return np.concatenate([rows, np.full(LANES - each.n_rows, -1)])

    def values(self, i, each, mask):
        codec, size, n = self.head.codec, self.dtype.itemsize, mask.size
        if codec == CONSTANT:
            return np.full(mask.shape, self.table[0])
        if codec == BLOCKS:
            block = self.blocks[i].tobytes()
            first, at, width, shift = *struct.unpack("<Q", block[:8]), int.from_bytes(block[8:14], "little"), *block[14:]
            check(at % 8 == 0 and width in (0, 1, 2, 3, 4, 6, 8) and shift < 64, "block of values")
            bits = np.array([first], "u8") + (numbers(self.bytes, at, width, n) << np.uint64(shift))
            return bits.astype(f"<u{size}").view(self.dtype).reshape(mask.shape)
        width = {PLAIN: size, DICTIONARY_8: 1, DICTIONARY_16: 2}[codec]
        words = numbers(self.bytes, LANES * width * each.values_at, width, n)
        if codec == PLAIN:
            return words.astype(f"<u{size}").view(self.dtype).reshape(mask.shape)
        return self.table[words.astype(int)].reshape(mask.shape)

    def check_windows(self, slices):
        """The slices of a window must follow one another, and so must the windows."""
        last = None
        for each in slices:
            if last is not None and each.place % PLACES:
                check(each.place == last.place + 1, "places of slices")
                check((each.order_at == IN_ORDER) == (last.order_at == IN_ORDER), "orders of a window")
            else:
                check(each.place % PLACES == 0, "places of slices")
                check(last is None or each.place // PLACES > last.place // PLACES, "places of slices")
            last = each

    def check_rows(self, slices):
        """Every row that is not long must be in exactly one lane."""
        head = self.head
        check(head.n_rows <= LANES * head.n_slices + head.n_long, "rows without a lane")
        rows = np.concatenate([np.zeros(0, int)] + [lanes.rows[lanes.rows >= 0] for lanes in self.lanes[: head.n_slices]])
        times = np.bincount(rows, minlength=head.n_rows)
        is_long = np.zeros(head.n_rows, bool)
        for row, _, _ in self.long:
            check(row < head.n_rows, "a long row")
            is_long[row] = True
        check((times <= 1).all() and (times[~is_long] == 1).all(), "rows of lanes")
        for each, lanes in zip(slices, self.lanes):
            of_long = np.array([row >= 0 and is_long[row] for row in lanes.rows])
            check(each.order_at == IN_ORDER or not of_long.any(), "a long row by length")
            check(not lanes.mask[:, of_long].any(), "elements of a long row elsewhere")

    def check_long(self, slices):
        head, at, last = self.head, 0, -1
        for row, first, n in self.long:
            check(row > last and first == at and n >= 1, "long rows")
            last, at = row, at + n
        check(at == head.n_long_slices, "slices of long rows")
        for each in slices:
            check(not each.flags & (RELATIVE | BLOCKED), "flags of a slice of a long row")
            check(each.place == 0 and each.order_at == IN_ORDER and each.n_rows == LANES, "a slice of a long row")

    def csr(self):
        """The matrix as CSR: starts and columns of 64 bits, and values."""
        n_slices, parts = self.head.n_slices, [(np.zeros(0, int), np.zeros(0, "u8"), np.zeros(0, self.dtype))]
        for lanes in self.lanes[:n_slices]:
            parts.append((np.broadcast_to(lanes.rows, lanes.mask.shape)[lanes.mask], *elements(lanes)))
        for row, first, n in self.long:
            for lanes in self.lanes[n_slices + first : n_slices + first + n]:
                parts.append((np.full(int(lanes.mask.sum()), row), *elements(lanes)))
        rows, columns, values = map(np.concatenate, zip(*parts))
        # The elements of a row stay in order.
        order = np.argsort(rows, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=self.head.n_rows))])
        return Csr(starts.astype("<i8"), columns[order].astype("<u8"), values[order])

    def product(self, x):
        """The product A x in the semiring (+, ×)."""
        y = np.zeros(self.head.n_rows, self.dtype)
        with np.errstate(all="ignore"):
            sums = [self.sums(lanes, x) for lanes in self.lanes]
            for lanes, sum in zip(self.lanes[: self.head.n_slices], sums):
                is_row = lanes.rows >= 0
                y[lanes.rows[is_row]] = sum[is_row]
            for row, first, n in self.long:
                of_slices = sums[self.head.n_slices + first :][:n]
                for i, sum in enumerate(of_slices):
                    while len(sum) > 1:
                        sum = sum[: len(sum) // 2] + sum[len(sum) // 2 :]
                    y[row] = sum[0] if i == 0 else y[row] + sum[0]
        return y

    def sums(self, lanes, x):
        """The sum of each lane."""
        sum = np.zeros(LANES, self.dtype)
        for mask, columns, values in zip(lanes.mask, lanes.columns, lanes.values):
            product = values[mask] * x[columns[mask]]
            sum[mask] = sum[mask] + product
        return sum


def header(frame):
    check(len(frame) >= HEADER_BYTES, "bytes of a header")
    head = Header._make(struct.unpack("<4s4B11QQQ12sI", frame[:HEADER_BYTES]))
    check(head.magic == b"GRDM", "magic")
    check(crc32c(frame[:124]) == head.crc, "CRC of the header")
    known(head.version == 1, "version")
    known(head.dtype in TYPES, "type of values")
    known(head.codec <= BLOCKS, "how values are kept")
    check(not any(head.zero), "reserved bytes")
    check(head.b in (1, 2, 3, 4, 5, 6, 8) and head.n_rows % head.b == 0, "side of blocks")
    low, high = {CONSTANT: (1, 1), DICTIONARY_8: (1, 256), DICTIONARY_16: (1, 65536)}.get(head.codec, (0, 0))
    check(low <= head.n_table <= high, "entries of the table of values")
    check(head.frame_bytes == len(frame), "bytes of the frame")
    check(checksum(frame[HEADER_BYTES:]) == head.checksum, "checksum")
    return head


def numbers(data, at, width, n):
    """Reads numbers of `width` bytes each."""
    check(at + n * width <= len(data), "codes or values outside of their table")
    padded = np.zeros((n, 8), "u1")
    padded[:, :width] = data[at : at + n * width].reshape(n, width)
    return padded.view("<u8").ravel()


def elements(lanes):
    return lanes.columns[lanes.mask], lanes.values[lanes.mask]
