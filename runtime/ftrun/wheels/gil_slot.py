"""Reader of an extension module's file: does the module need the GIL? The module is not loaded.

- A module with multi-phase initialisation (PEP 489) has an array of slots, as constant data. The
  module needs the GIL unless a slot ``Py_mod_gil`` says otherwise (PEP 703). A pointer in the
  module's definition leads to the array; the dynamic linker's relocations show where this pointer
  is. Arrays of one slot that is not of the GIL tell nothing, nor do arrays that disagree.
- Other modules that do not need the GIL call ``PyUnstable_Module_SetGIL``. But pybind11 and older
  PyO3 compile this call into every module: for modules built with these, the answer is unknown.
- A module with neither of the two needs the GIL if it calls ``PyModule_Create`` or the like, and
  does not call ``PyModuleDef_Init``. For all others, such as modules that fill in their slots as
  they start, the answer is unknown.
"""

from __future__ import annotations

import enum
import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from ftrun.errors import NotReadable

# Kinds of slots: their numbers in moduleobject.h up to CPython 3.14,
# and since 3.15 (PEP 820), with further kinds.
_FUNCTIONS = {1, 2, 84, 85}
_INTERPRETERS = {3, 86}
_GIL = {4, 87}
_FURTHER = range(88, 128)
_NOT_USED = 1  # the value Py_MOD_GIL_NOT_USED
_NAME, _LONGEST_NAME = re.compile(rb"[A-Za-z_][\w.]*"), 300
_MOST_SLOTS = 32  # of one module
_MOST_POINTERS = 4_000_000  # triton's largest library has 127,000
_MOST_SECTIONS = 100  # that are loaded; a library has about 25
# Functions that make a module. If a file calls none of them, another library makes the module.
_MAKERS = {"PyModule_Create2", "PyModule_FromDefAndSpec2", "PyModule_New", "PyModule_NewObject"}
_BY_HAND = "PyUnstable_Module_SetGIL"
_SLOTS_IN_DEFINITION = 32  # bytes from m_name, the first pointer of a PyModuleDef, to m_slots

# ELF machine: its type of relocation by the load address; x86-64 and aarch64
_RELATIVE = {62: 8, 183: 1027}
_ALLOCATED = 2  # a flag of sections
# Types of sections.
_RELA = 4
_RELR = 19
_DYNAMIC_SYMBOLS = 11
_IN_FILE = {1, 14, 15, 16}


class Gil(enum.Enum):
    """Declaration about the GIL in the file of an extension module."""

    NOT_USED = "does not need the GIL"
    USED = "turns the GIL on"
    UNKNOWN = "declares it as it starts"
    NO_MODULE = "is no extension module"


def read(data: bytes) -> Gil:
    """Return an extension module's declaration about the GIL;
    *data* is its file's content. Raises ``NotReadable``.
    """
    try:
        library = _Library(data)
        return _declared(library)
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise NotReadable(str(error) or type(error).__name__) from error


def _declared(library: _Library) -> Gil:
    if not library.is_module:
        return Gil.NO_MODULE
    declarations = _declarations(library)
    if len(declarations) == 1:
        return declarations.pop()
    if declarations or library.exports_slots:  # PEP 793: a function returns the slots
        return Gil.UNKNOWN
    if _BY_HAND in library.undefined:
        return Gil.UNKNOWN if library.calls_either_way else Gil.NOT_USED
    # With PyModuleDef_Init, the module fills in its slots as it starts (pybind11 3).
    if "PyModuleDef_Init" in library.undefined or not library.undefined & _MAKERS:
        return Gil.UNKNOWN
    return Gil.USED


def _declarations(library: _Library) -> set[Gil]:
    """Return the declarations of all arrays of slots that module definitions point to."""
    declarations = set()
    for place, target in library.pointers.items():
        if _is_in_definition(library, place):
            slots = _slots(library, target)
            if slots:
                declarations.add(_declaration(slots))
    return declarations


def _is_in_definition(library: _Library, place: int) -> bool:
    """Return True if the pointer at *place* may be that to the slots in a PyModuleDef.

    Its name is 32 bytes before, and between them are the documentation,
    the size of the state and the methods.
    """
    name = library.pointers.get(place - _SLOTS_IN_DEFINITION)
    if name is None or place - 16 in library.pointers:  # as almost all pointers of large libraries
        return False
    size = library.words(place - 16, 1)
    if size is None or size[0] >> 32:
        return False
    return _NAME.fullmatch(library.text(name)) is not None


def _declaration(slots: dict[int, int]) -> Gil:
    """Return the declaration of an array of slots. A single slot that is not of the GIL may be
    other data: unknown.
    """
    values = [slots[kind] for kind in _GIL if kind in slots]
    if _NOT_USED in values:
        return Gil.NOT_USED
    if values:
        return Gil.USED
    if len(slots) < 2 or slots.keys() & set(_FURTHER):  # of the latter one leads to further slots
        return Gil.UNKNOWN
    return Gil.USED


def _slots(library: _Library, address: int) -> dict[int, int]:
    """Return a module's slots, {kind: value}; an empty dict
    if no array of slots starts at *address*.
    """
    slots: dict[int, int] = {}
    for place in range(address, address + 16 * _MOST_SLOTS, 16):
        pair = library.words(place, 2)
        if pair is None or place in library.pointers:
            return {}
        kind, value = pair[0] & 0xFFFF, pair[1]  # above the kind: flags, since 3.15
        is_pointer = place + 8 in library.pointers
        if kind == 0:
            if value or is_pointer:
                return {}
            return slots
        if pair[0] >> 32 or not _is_slot(kind, value, is_pointer):
            return {}
        slots[kind] = value
    return {}


def _is_slot(kind: int, value: int, is_pointer: bool) -> bool:
    if kind in _FURTHER:
        return True
    if is_pointer:
        return kind in _FUNCTIONS
    return kind in _INTERPRETERS | _GIL and value <= 2


class _Section(NamedTuple):
    """Header of a section of an ELF file."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class _Library:
    """Contents of a library's file: the CPython functions it calls, and the pointers that the
    dynamic linker sets.
    """

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise NotReadable("not a 64-bit little-endian ELF file")
        self._data, self._unread = data, len(data)
        (machine,) = struct.unpack_from("<H", data, 18)
        if machine not in _RELATIVE:
            raise NotReadable(f"ELF machine {machine}, not x86-64 or Arm")
        sections = self._sections()
        self._loaded = [
            section
            for section in sections
            if section.type in _IN_FILE and section.flags & _ALLOCATED
        ]
        if len(self._loaded) > _MOST_SECTIONS:
            raise NotReadable("too many sections")
        self.calls_either_way = b"pybind11" in data or b"pyo3" in data
        self.is_module = self.exports_slots = False
        self.undefined: set[str] = set()
        """Functions of CPython that the module calls: only those that matter here."""
        self.pointers: dict[int, int] = {}
        self._read_sections(sections, _RELATIVE[machine])

    def _read_sections(self, sections: list[_Section], relative: int) -> None:
        for section in sections:
            if section.type == _DYNAMIC_SYMBOLS:
                self._read_symbols(section, sections[section.link].offset)
            elif section.type == _RELA:
                self._read_rela(section, relative)
            elif section.type == _RELR:
                self._read_relr(section)

    def _sections(self) -> list[_Section]:
        (start,) = struct.unpack_from("<Q", self._data, 40)
        size, count = struct.unpack_from("<HH", self._data, 58)
        if not count:  # the dynamic linker needs none
            raise NotReadable("its sections are not named")
        offsets = range(start, start + size * count, size)
        return [
            _Section(*struct.unpack_from("<IIQQQQIIQQ", self._data, offset)) for offset in offsets
        ]

    def words(self, address: int, count: int) -> tuple[int, ...] | None:
        """Return *count* 8-byte words at *address* of the loaded library;
        None if the file does not contain them.
        """
        for section in self._loaded:
            if section.address <= address <= section.address + section.size - 8 * count:
                return struct.unpack_from(
                    f"<{count}Q", self._data, section.offset + address - section.address
                )
        return None

    def text(self, address: int) -> bytes:
        """Return the bytes at *address* of the loaded library up to a zero, without it; b"" if
        there are none.
        """
        for section in self._loaded:
            if section.address <= address < section.address + section.size:
                begin = section.offset + address - section.address
                end = self._data.find(b"\0", begin, begin + _LONGEST_NAME)
                return self._data[begin : max(begin, end)]
        return b""

    def _part(self, section: _Section, entry: int) -> bytes:
        """Return a section of the file without an incomplete last entry. *entry*: the size of an
        entry in bytes.

        Raises NotReadable if the sections read so far are larger than the file in total.
        """
        self._unread -= section.size
        if self._unread < 0:
            raise NotReadable("its sections are larger than the file")
        return self._data[section.offset : section.offset + section.size // entry * entry]

    def _read_symbols(self, section: _Section, names: int) -> None:
        """Read a table of symbols. *names*: the offset of their names in the file."""
        for name, _, _, index, _, _ in struct.iter_unpack("<IBBHQQ", self._part(section, 24)):
            begin = names + name
            if self._data[begin : begin + 2] != b"Py":  # no other names matter
                continue
            end = self._data.index(b"\0", begin, begin + 1000)
            text = self._data[begin:end].decode("latin-1")
            if index:  # of the section that defines the symbol
                self.exports_slots |= text.startswith("PyModExport_")
                self.is_module |= text.startswith(("PyInit_", "PyModExport_"))
            elif text in _MAKERS or text in ("PyModuleDef_Init", _BY_HAND):
                self.undefined.add(text)

    def _read_rela(self, section: _Section, relative: int) -> None:
        for place, info, addend in struct.iter_unpack("<QQq", self._part(section, 24)):
            if info & 0xFFFFFFFF == relative:
                self.pointers[place] = addend
            else:
                self.pointers.setdefault(place, -1)  # a symbol's address
            if len(self.pointers) > _MOST_POINTERS:
                raise NotReadable("too many pointers")

    def _read_relr(self, section: _Section) -> None:
        for number, place in enumerate(self._relr(self._part(section, 8))):
            word = self.words(place, 1)
            if word is not None:
                self.pointers[place] = word[0]
            if number > _MOST_POINTERS:
                raise NotReadable("too many pointers")

    @staticmethod
    def _relr(packed: bytes) -> Iterator[int]:
        """Yield the address of each relative relocation in *packed*: a SHT_RELR section of
        addresses and bitmaps.
        """
        base = 0
        for (word,) in struct.iter_unpack("<Q", packed):
            if word & 1:
                for bit in range(63):
                    if word >> (bit + 1) & 1:
                        yield base + 8 * bit
                base += 63 * 8
            else:
                yield word
                base = word + 8
