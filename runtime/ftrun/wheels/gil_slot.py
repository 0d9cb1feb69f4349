"""Reader of an extension module's file: does the module need the GIL? The module is not loaded.

- A module with multi-phase initialisation (PEP 489) has an array of slots, as constant data. The module needs the GIL
  unless a slot ``Py_mod_gil`` says otherwise (PEP 703). A pointer in the module's definition leads to the array; the
  dynamic linker's relocations show where this pointer is. Arrays of one slot that is not of the GIL tell
  nothing, nor do arrays that disagree.
- Other modules that do not need the GIL call ``PyUnstable_Module_SetGIL``. But pybind11 and older PyO3 compile this
  call into every module: for modules built with these, the answer is unknown.
- A module with neither of the two needs the GIL if it calls ``PyModule_Create`` or the like, and does not call
  ``PyModuleDef_Init``. For all others, such as modules that fill in their slots as they start, the answer is unknown.
"""

from __future__ import annotations

import enum
import re
import struct
from collections import defaultdict
from collections.abc import Iterator

# Kinds of slots: their numbers in moduleobject.h up to CPython 3.14, and since 3.15 (PEP 820), with further kinds.
_FUNCTIONS, _INTERPRETERS, _GIL, _FURTHER = {1, 2, 84, 85}, {3, 86}, {4, 87}, range(88, 128)
_NOT_USED = 1  # the value Py_MOD_GIL_NOT_USED
_NAME, _LONGEST_NAME = re.compile(rb"[A-Za-z_][\w.]*"), 300
_MOST_SLOTS = 32  # of one module
_MOST_POINTERS = 4_000_000  # triton's largest library has 127,000
_MOST_SECTIONS = 100  # that are loaded; a library has about 25
# Functions that make a module. If a file calls none of them, another library makes the module.
_MAKERS = {"PyModule_Create2", "PyModule_FromDefAndSpec2", "PyModule_New", "PyModule_NewObject"}
_BY_HAND = "PyUnstable_Module_SetGIL"
_SLOTS_IN_DEFINITION = 32  # bytes from m_name, the first pointer of a PyModuleDef, to m_slots

_RELATIVE = {62: 8, 183: 1027}  # ELF machine: its type of relocation by the load address; x86-64 and aarch64
_ALLOCATED, _RELA, _RELR, _DYNAMIC_SYMBOLS, _IN_FILE = 2, 4, 19, 11, {1, 14, 15, 16}


class Gil(enum.Enum):
    """Declaration about the GIL in the file of an extension module."""

    NOT_USED = "does not need the GIL"
    USED = "turns the GIL on"
    UNKNOWN = "declares it as it starts"
    NO_MODULE = "is no extension module"


class NotReadable(Exception):
    """The file is no 64-bit ELF library for x86-64 or Arm, or is damaged."""


def read(data: bytes) -> Gil:
    """Return an extension module's declaration about the GIL; *data* is its file's content. Raises ``NotReadable``."""
    try:
        library = _Library(data)
        return _declared(library)
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise NotReadable(str(error) or type(error).__name__) from error


def _declared(library: _Library) -> Gil:
    if not library.is_module:
        return Gil.NO_MODULE
    places = defaultdict(list)
    for place, target in library.pointers.items():
        places[target].append(place)
    arrays = [
        slots
        for target, pointers in places.items()
        if any(_is_in_definition(library, place) for place in pointers) and (slots := _slots(library, target))
    ]
    if arrays:
        declarations = {_said(slots) for slots in arrays}
        return declarations.pop() if len(declarations) == 1 else Gil.UNKNOWN
    if library.exports_slots:  # PEP 793: a function returns the slots
        return Gil.UNKNOWN
    if _BY_HAND in library.undefined:
        return Gil.UNKNOWN if library.calls_either_way else Gil.NOT_USED
    # With PyModuleDef_Init, the module fills in its slots as it starts (pybind11 3).
    return Gil.USED if library.undefined & _MAKERS and "PyModuleDef_Init" not in library.undefined else Gil.UNKNOWN


def _is_in_definition(library: _Library, place: int) -> bool:
    """Return True if the pointer at *place* may be that to the slots in a PyModuleDef.

    Its name is 32 bytes before, and between them are the documentation, the size of the state and the methods.
    """
    name, size = library.text(library.pointers.get(place - _SLOTS_IN_DEFINITION, -1)), library.words(place - 16, 1)
    is_size = size is not None and place - 16 not in library.pointers and size[0] < 1 << 32
    return is_size and _NAME.fullmatch(name) is not None


def _said(slots: dict[int, int]) -> Gil:
    """Return what an array of slots declares: unknown for one alone that is not of the GIL, as other data may be."""
    values = [slots[kind] for kind in _GIL if kind in slots]
    if not values and (len(slots) < 2 or slots.keys() & set(_FURTHER)):  # of the latter one leads to further slots
        return Gil.UNKNOWN
    return Gil.NOT_USED if _NOT_USED in values else Gil.USED


def _slots(library: _Library, address: int) -> dict[int, int]:
    """Return a module's slots, {kind: value}; an empty dict if no array of slots starts at *address*."""
    slots: dict[int, int] = {}
    for place in range(address, address + 16 * _MOST_SLOTS, 16):
        pair = library.words(place, 2)
        if pair is None or place in library.pointers:
            return {}
        kind, value = pair[0] & 0xFFFF, pair[1]  # above the kind: flags, since 3.15
        is_pointer = place + 8 in library.pointers
        if kind == 0:
            return {} if value or is_pointer else slots
        is_number = kind in _INTERPRETERS | _GIL and value <= 2 and not is_pointer
        if pair[0] >> 32 or not (is_number or kind in _FURTHER or (kind in _FUNCTIONS and is_pointer)):
            return {}
        slots[kind] = value
    return {}


class _Library:
    """Contents of a library's file: the CPython functions it calls, and the pointers that the dynamic linker sets."""

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise NotReadable("not a 64-bit little-endian ELF file")
        self._data, self._unread = data, len(data)
        (machine,) = struct.unpack_from("<H", data, 18)
        if machine not in _RELATIVE:
            raise NotReadable(f"ELF machine {machine}, not x86-64 or Arm")
        (start,) = struct.unpack_from("<Q", data, 40)
        size, count = struct.unpack_from("<HH", data, 58)
        # name, type, flags, address, offset, size, link, info, alignment, entry size
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, start + size * i) for i in range(count)]
        self._loaded = [(h[3], h[4], h[5]) for h in headers if h[1] in _IN_FILE and h[2] & _ALLOCATED]
        if len(self._loaded) > _MOST_SECTIONS:
            raise NotReadable("too many sections")
        self.calls_either_way = b"pybind11" in data or b"pyo3" in data
        self.is_module = self.exports_slots = False
        self.undefined: set[str] = set()
        """Functions of CPython that the module calls: only those that matter here."""
        self.pointers: dict[int, int] = {}
        for _, type_, _, _, offset, length, link, *_ in headers:
            if type_ == _DYNAMIC_SYMBOLS:
                self._read_symbols(offset, length, headers[link][4])
            elif type_ == _RELA:
                for place, info, addend in struct.iter_unpack("<QQq", self._part(offset, length, 24)):
                    if info & 0xFFFFFFFF == _RELATIVE[machine]:
                        self.pointers[place] = addend
                    else:
                        self.pointers.setdefault(place, -1)  # a symbol's address
                    if len(self.pointers) > _MOST_POINTERS:
                        raise NotReadable("too many pointers")
            elif type_ == _RELR:
                for number, place in enumerate(self._relr(self._part(offset, length, 8))):
                    word = self.words(place, 1)
                    if word is not None:
                        self.pointers[place] = word[0]
                    if number > _MOST_POINTERS:
                        raise NotReadable("too many pointers")

    def words(self, address: int, count: int) -> tuple[int, ...] | None:
        """Return *count* 8-byte words at *address* of the loaded library; None if the file does not contain them."""
        for begin, offset, length in self._loaded:
            if begin <= address <= begin + length - 8 * count:
                return struct.unpack_from(f"<{count}Q", self._data, offset + address - begin)
        return None

    def text(self, address: int) -> bytes:
        """Return the bytes at *address* of the loaded library up to a zero, without it; b"" if there are none."""
        for begin, offset, length in self._loaded:
            if begin <= address < begin + length:
                at = offset + address - begin
                end = self._data.find(b"\0", at, at + _LONGEST_NAME)
                return self._data[at:end] if end > at else b""
        return b""

    def _part(self, offset: int, length: int, entry: int) -> bytes:
        """Return a section of the file without an incomplete last entry. *entry*: the size of an entry in bytes.

        Raises NotReadable if the sections read so far are larger than the file in total.
        """
        self._unread -= length
        if self._unread < 0:
            raise NotReadable("its sections are larger than the file")
        return self._data[offset : offset + length // entry * entry]

    def _read_symbols(self, offset: int, length: int, strings: int) -> None:
        for name, _, _, section, _, _ in struct.iter_unpack("<IBBHQQ", self._part(offset, length, 24)):
            begin = strings + name
            if self._data[begin : begin + 2] == b"Py":  # no other names matter
                text = self._data[begin : self._data.index(b"\0", begin, begin + 1000)].decode("latin-1")
                if section:
                    self.exports_slots |= text.startswith("PyModExport_")
                    self.is_module |= text.startswith(("PyInit_", "PyModExport_"))
                elif text in _MAKERS or text in ("PyModuleDef_Init", _BY_HAND):
                    self.undefined.add(text)

    @staticmethod
    def _relr(packed: bytes) -> Iterator[int]:
        """Yield the address of each relative relocation in *packed*: a SHT_RELR section of addresses and bitmaps."""
        base = 0
        for (word,) in struct.iter_unpack("<Q", packed):
            if word & 1:
                yield from (base + 8 * bit for bit in range(63) if word >> (bit + 1) & 1)
                base += 63 * 8
            else:
                yield word
                base = word + 8
