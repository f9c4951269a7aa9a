"""2D drawings as SVG: transparent, for light and dark pages, with highlighted and annotated atoms.

Every atom has elements of class ``atom-<i>``, i its index in the SMILES text, and an invisible circle of class
``atom-selector`` on top, so that a page can make atoms clickable. Notes are written here and not by RDKit, which
breaks what is not ASCII into bytes. All text that comes from outside is escaped.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Mapping
from typing import Any

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdDepictor
from rdkit.Chem.Draw import rdMolDraw2D

from engine.chem.frame import Array
from engine.chem.rdkit_log import captured_log
from engine.errors import UnsupportedMoleculeError, shown
from engine.figures.words import shortened
from engine.records import Molecule

MOST_BOND_PX = 34.0  # small molecules are not blown up to the frame
HIGHLIGHT_ALPHA = 0.55  # the atom's symbol and bonds stay readable on any colour, light or dark
SELECTOR_RADIUS = 13.0
NOTE_CHARS, NOTE_SIZE, NOTE_GAP = 24, 12, 18.0
NOTE_COLOURS = {False: "#3b4252", True: "#d8dee9"}
PALETTES: dict[bool, dict[int, str]] = {  # by dark; -1 is any other element. RDKit's own yellow and brown fade away
    False: {-1: "#1b1f24", 7: "#2038d0", 8: "#c81e1e", 9: "#0b7285", 15: "#a34a00", 16: "#7a6200", 17: "#1a7f37",
            35: "#8a3b12", 53: "#7b1fa2"},
    True: {-1: "#e6e6e6", 7: "#8ea6ff", 8: "#ff7b72", 9: "#56d4dd", 15: "#ffa657", 16: "#e3c341", 17: "#56d364",
           35: "#e09b6b", 53: "#d2a8ff"},
}  # fmt: skip


def draw_svg(
    molecule: Molecule,
    *,
    highlights: Mapping[int, str] | None = None,
    notes: Mapping[int, str] | None = None,
    width: int = 360,
    height: int = 260,
    dark: bool = False,
) -> str:
    """An SVG text of the molecule. ``highlights``: atom to ``#rrggbb``; ``notes``: atom to a short text next to it."""
    colours = {atom: (*_rgb(colour), HIGHLIGHT_ALPHA) for atom, colour in (highlights or {}).items()}
    texts = {atom: _note(text) for atom, text in sorted((notes or {}).items())}
    with captured_log():
        flat = Chem.Mol(molecule.mol)  # no hydrogens are added, so atom indices stay those of the text
        try:
            rdDepictor.Compute2DCoords(flat)  # in place of any conformer
            flat = rdMolDraw2D.PrepareMolForDrawing(flat, kekulize=True, addChiralHs=False, wedgeBonds=True)
        except (RuntimeError, ValueError) as error:
            raise UnsupportedMoleculeError(f"{shown(molecule.smiles)} cannot be drawn: {error}") from error
        drawer: Any = rdMolDraw2D.MolDraw2DSVG(width, height)
        options, palette = drawer.drawOptions(), {number: _rgb(colour) for number, colour in PALETTES[dark].items()}
        options.setAtomPalette(palette)
        options.setSymbolColour(palette[-1])
        options.clearBackground = options.prepareMolsBeforeDrawing = False
        options.fixedBondLength, options.bondLineWidth = MOST_BOND_PX, 2
        options.padding = 0.14 if texts else 0.06
        options.highlightRadius, options.fillHighlights = 0.4, True
        drawer.DrawMolecule(
            flat, highlightAtoms=sorted(colours), highlightAtomColors=colours, highlightBonds=[], highlightBondColors={}
        )
        drawer.FinishDrawing()
    spots = np.array([(point.x, point.y) for point in map(drawer.GetDrawCoords, range(molecule.atoms))])
    # Without the XML header, which claims Latin-1; with a spoken name, and with notes and circles on top.
    svg = str(drawer.GetDrawingText())
    body = svg[svg.index("<svg") :].strip().removesuffix("</svg>").rstrip()
    body = body.replace("<svg ", f"<svg role='img' aria-label='{html.escape(molecule.smiles)}' ", 1)
    extra = _note_elements(spots, {atom: text for atom, text in texts.items() if text}, (width, height), dark)
    extra += [  # large enough for a finger: RDKit's own circles are a few pixels wide
        f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{SELECTOR_RADIUS:g}' class='atom-selector atom-{atom}' "
        f"data-atom='{atom}' style='fill:#fff;fill-opacity:0;stroke:none' />"
        for atom, (x, y) in enumerate(spots)
    ]
    return "\n".join([body, *extra, "</svg>"])


def _rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))


def _note(text: str) -> str:
    """One line of visible characters: XML forbids control characters, bidirectional marks would reorder the page."""
    hidden = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    visible = "".join(" " if unicodedata.category(char) in hidden else char for char in text)
    return shortened(" ".join(visible.split()), NOTE_CHARS)


def _note_elements(spots: Array, texts: dict[int, str], size: tuple[int, int], dark: bool) -> list[str]:
    """Of sixteen places around the atom, each note at the one that is farthest from other atoms and notes, inside the
    frame."""
    taken, elements = spots, []
    for atom, text in texts.items():
        half = 0.3 * NOTE_SIZE * len(text)
        angles = np.pi * (0.5 + np.arange(16) / 8)  # below the atom first
        candidates = spots[atom] + np.stack([(NOTE_GAP + half) * np.cos(angles), NOTE_GAP * np.sin(angles)], axis=1)
        candidates = candidates.clip([half + 2, NOTE_SIZE], [max(size[0] - half - 2, half + 2), size[1] - NOTE_SIZE])
        ends = candidates[:, None] + np.array([[-half, 0.0], [0.0, 0.0], [half, 0.0]])  # [16, 3, 2]
        room = np.linalg.norm(ends[:, :, None] - taken, axis=-1).min(axis=(1, 2))
        best = int(room.round(2).argmax())
        taken, (x, y) = np.concatenate([taken, ends[best]]), candidates[best]
        elements.append(
            f"<text x='{x:.1f}' y='{y:.1f}' class='note atom-{atom}' text-anchor='middle' dominant-baseline='middle' "
            f"style='font-family:sans-serif;font-size:{NOTE_SIZE}px;fill:{NOTE_COLOURS[dark]};pointer-events:none'>"
            f"{html.escape(text)}</text>"
        )
    return elements
