#!/usr/bin/env python3
"""Writes what Unicode normalisation form C needs, from Python's unicodedata.

    python3 tools/make_unicode_tables.py > src/text/unicode_nfc_tables.inc

Hangul syllables are left out: they are composed by arithmetic (src/text/unicode.cpp).
The data are facts of the Unicode Character Database (https://www.unicode.org/license.txt).
"""

import sys
import unicodedata

LAST = 0x110000
HANGUL = range(0xAC00, 0xD7A4)


def canonical_decompositions():
    """[(code point, first, second or 0)], one step each, in order of code point."""
    rows = []
    for code in range(LAST):
        field = unicodedata.decomposition(chr(code))
        if field and not field.startswith("<") and code not in HANGUL:
            parts = [int(part, 16) for part in field.split()]
            rows.append((code, parts[0], parts[1] if len(parts) > 1 else 0))
    return rows


def ranges_of(value_of):
    """[(first, last, value)] of the code points whose value is not 0."""
    ranges = []
    for code in range(LAST):
        value = value_of(code)
        if not value:
            continue
        if ranges and ranges[-1][1] == code - 1 and ranges[-1][2] == value:
            ranges[-1][1] = code
        else:
            ranges.append([code, code, value])
    return ranges


def emit(items, width=100):
    line = ""
    for item in items:
        if line and len(line) + 1 + len(item) > width:
            print(line)
            line = ""
        line += (" " if line else "") + item
    print(line)


def main():
    decompositions = canonical_decompositions()
    composes = [
        (first, second, index)
        for index, (code, first, second) in enumerate(decompositions)
        if second and unicodedata.normalize("NFC", chr(first) + chr(second)) == chr(code)
    ]
    composes.sort()
    seconds = {second for _, second, _ in composes}
    jamo = set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))

    def unsafe(code):  # NFC_Quick_Check is No or Maybe
        if 0xD800 <= code < 0xE000:
            return 0
        changes = unicodedata.normalize("NFC", chr(code)) != chr(code)
        return int(code in seconds or code in jamo or changes)

    classes = ranges_of(lambda code: unicodedata.combining(chr(code)))
    unsafe_ranges = ranges_of(unsafe)
    pages = [0] * ((max(last for _, last, _ in classes + unsafe_ranges) >> 14) + 1)
    for first, last, _ in classes + unsafe_ranges:
        for page in range(first >> 8, (last >> 8) + 1):
            pages[page >> 6] |= 1 << (page & 63)

    print(
        f"// Unicode {unicodedata.unidata_version}. Made by tools/make_unicode_tables.py."
    )
    print("// clang-format off")
    print("// {code point, first, second}: one step of canonical decomposition.")
    print("// second is 0 for a singleton.")
    print("constexpr Decomposition kDecompositions[] = {")
    emit(f"{{{a},{b},{c}}}," for a, b, c in decompositions)
    print("};")
    print("// The entries of kDecompositions that compose again, in order of (first, second).")
    print("constexpr std::uint16_t kCompositions[] = {")
    emit(f"{index}," for _, _, index in composes)
    print("};")
    print("// {first, last, canonical combining class} where the class is not 0.")
    print("constexpr CodeRange kCombiningClasses[] = {")
    emit(f"{{{a},{b},{value}}}," for a, b, value in classes)
    print("};")
    print("// {first, last, 1} where NFC_Quick_Check is No or Maybe.")
    print("constexpr CodeRange kUnsafe[] = {")
    emit(f"{{{a},{b},1}}," for a, b, _ in unsafe_ranges)
    print("};")
    print("// One bit for each 256 code points: whether any is in one of the two tables above.")
    print("constexpr std::uint64_t kPages[] = {")
    emit(f"0x{word:X}," for word in pages)
    print("};")
    print("// clang-format on")


if __name__ == "__main__":
    sys.exit(main())
