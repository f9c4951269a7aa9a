"""The Tokenizer lab's second section: drift of a molecule set's reference conformers, by tokenizer and placeholder."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import streamlit as st
from plotly.subplots import make_subplots
from rdkit import Chem

from engine.chem.enriched import encode
from engine.chem.files import read_molecules, read_smiles_file
from engine.chem.molecule_sets import TAGS, load_molecule_set
from engine.errors import DriftscopeError
from engine.records import FIXED4, TRIMMED4, NumberFormat
from engine.text.drift import DriftSummary, drift_summary
from engine.text.placeholder import FittedPlaceholder, fit_placeholder
from engine.text.reference import reference_texts
from engine.text.template import DEFAULT_PLACEHOLDER, GUESSED_PLACEHOLDER, SHORT_PLACEHOLDER
from engine.text.tokenizers import TextTokenizer, load_tokenizer
from pages._shared.errors import escape_markdown
from pages._shared.lab import PLACEHOLDERS, folder_input, label_of, tokenizers
from pages._shared.theme import drift_colour, palette, plotly_template

SHIPPED, PASTED, FILE = "Shipped set", "Pasted SMILES", "A file"
FORMS = {"Four decimals": FIXED4, "Trailing zeros dropped": TRIMMED4}
MOST_MOLECULES = 400
_ENDINGS = (".sdf", ".mol", ".smi", ".csv", ".tsv", ".txt", ".gz")


@dataclass(frozen=True, slots=True)
class Row:
    """One bar series of the histogram and one line of the table."""

    tokenizer: TextTokenizer
    summary: DriftSummary
    fitted: FittedPlaceholder | None  # where the placeholder was fitted to these coordinates


def show() -> None:
    """Draw the section."""
    molecules = _molecules()
    form = FORMS[
        st.segmented_control(
            "Number format",
            list(FORMS),
            default="Four decimals",
            required=True,
            key="decimals",
            bind="query-params",
            help="Some models drop trailing zeros: 0.5 instead of 0.5000. Only then is drift positive.",
        )
        or "Four decimals"
    ]
    placeholders = _placeholders()
    texts = _texts(molecules, form)
    if not texts:
        st.info("There is no molecule to look at.", icon=":material/info:")
        return
    rows = _rows(texts, placeholders)
    st.caption("Green: exact. Violet, striped: junk-prone. Red, crossed: cut. Measured here, on reference conformers.")
    st.plotly_chart(_figure(rows), theme=None, alt=_sentence(rows), config={"displaylogo": False})
    st.markdown(_sentence(rows))
    table = [_table_row(row) for row in rows]
    st.dataframe(table, hide_index=True, height="content", column_config=_COLUMNS, alt="Shares by placeholder")
    st.download_button("Download as CSV", _csv(rows), "drift.csv", "text/csv", icon=":material/download:")


# --- input --------------------------------------------------------------------------------------------------------


def _molecules() -> list[str] | list[Chem.Mol]:
    """SMILES to embed, or molecules that bring coordinates of their own."""
    source_column, rest = st.columns([2, 3], gap="large")
    with source_column:
        source = st.segmented_control(
            "Molecules", [SHIPPED, PASTED, FILE], default=SHIPPED, required=True, key="set", bind="query-params"
        )
    with rest:
        return {PASTED: _pasted, FILE: _uploaded}.get(source or SHIPPED, _shipped)()


def _shipped() -> list[str]:
    count_column, tag_column = st.columns(2)
    count = count_column.slider("How many", 10, MOST_MOLECULES, 40, step=10, key="count", bind="query-params")
    tag = tag_column.selectbox(
        "Only those with",
        list(TAGS),
        index=None,
        key="tag",
        format_func=lambda name: f"{name}: {TAGS[name]}",
        placeholder="any kind",
        bind="query-params",
    )
    return [entry.smiles for entry in load_molecule_set(limit=count, tag=tag)]


def _pasted() -> list[str]:
    text = st.text_area("SMILES, one a line", "CC(=O)Oc1ccccc1C(=O)O\nCn1c(=O)c2c(ncn2C)n(C)c1=O", key="smiles_set")
    smiles = [line.split()[0] for line in text.splitlines() if line.strip()]
    if len(smiles) > MOST_MOLECULES:
        st.warning(f"Only the first {MOST_MOLECULES} of {len(smiles):,} molecules are used.", icon=":material/info:")
    return smiles[:MOST_MOLECULES]


def _uploaded() -> list[str] | list[Chem.Mol]:
    file = st.file_uploader(
        "SDF with coordinates, or SMILES",
        type=["sdf", "mol", "smi", "csv", "tsv", "txt", "gz"],
        help=f"The coordinates of an SDF are taken as they are. At most {MOST_MOLECULES} molecules are used.",
    )
    if file is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        # The name is the visitor's: only its endings are taken, and only those that the reader knows.
        endings = "".join(suffix for suffix in Path(file.name).suffixes[-2:] if suffix.lower() in _ENDINGS)
        path = Path(folder) / f"upload{endings.lower()}"
        path.write_bytes(file.getvalue())
        if {".sdf", ".mol"} & {suffix.lower() for suffix in path.suffixes}:
            return read_molecules(path)[:MOST_MOLECULES]
        return [smiles for smiles, _ in read_smiles_file(path)][:MOST_MOLECULES]


def _placeholders() -> list[str]:
    chosen = st.multiselect(
        "Placeholders",
        PLACEHOLDERS,
        default=[DEFAULT_PLACEHOLDER, SHORT_PLACEHOLDER, GUESSED_PLACEHOLDER],
        key="placeholders",
        accept_new_options=True,
        max_selections=6,
        bind="query-params",
        help="Any text without brackets. The fitted placeholder of each tokenizer is always shown beside them.",
    )
    with st.expander("How the fitted placeholder is chosen, and another tokenizer"):
        st.markdown(
            "The cost of a placeholder is, a block on average, *junk weight* times the tokens left over plus "
            "*cut weight* times the tokens missing. The cheapest placeholder of each tokenizer is fitted to the "
            "molecules above."
        )
        columns = st.columns(2)
        columns[0].slider("Junk weight", 0.0, 5.0, 1.0, 0.5, key="junk_weight", bind="query-params")
        columns[1].slider("Cut weight", 0.5, 5.0, 1.0, 0.5, key="cut_weight", bind="query-params")
        folder_input()
    return chosen


# --- measuring ----------------------------------------------------------------------------------------------------


def _texts(molecules: list[str] | list[Chem.Mol], form: NumberFormat) -> list[str]:
    """Texts molecule by molecule, embedded ones cached, so that an interrupted run goes on where it was."""
    texts, refused = [], []
    bar = st.progress(0.0, text="Embedding reference conformers …")
    for done, molecule in enumerate(molecules, start=1):
        try:
            if isinstance(molecule, str):
                texts.append(_reference_text(molecule, form.least_decimals))
            else:
                texts.append(encode(molecule, form).text)
        except DriftscopeError as error:
            refused.append(str(error))
        bar.progress(done / len(molecules), text=f"Embedding reference conformers: {done} of {len(molecules)}")
    bar.empty()
    if refused:
        with st.expander(f"{len(refused)} of {len(molecules)} molecules were left out", icon=":material/warning:"):
            st.markdown("\n".join(f"- {escape_markdown(reason)}" for reason in refused))
    return texts


@st.cache_data(max_entries=5_000, show_spinner=False)
def _reference_text(smiles: str, least_decimals: int) -> str:
    return reference_texts(smiles, NumberFormat(least_decimals=least_decimals))[0]


def _rows(texts: list[str], placeholders: list[str]) -> list[Row]:
    junk_weight, cut_weight = st.session_state["junk_weight"], st.session_state["cut_weight"]
    rows = []
    for tokenizer in tokenizers():
        fitted = _fitted(tuple(texts), tokenizer.name, junk_weight, cut_weight)
        rows += [Row(tokenizer, _summary(tuple(texts), tokenizer.name, one), None) for one in placeholders]
        rows.append(Row(tokenizer, _summary(tuple(texts), tokenizer.name, fitted.placeholder), fitted))
    return rows


@st.cache_data(max_entries=200, show_spinner="Counting tokens …")
def _summary(texts: tuple[str, ...], tokenizer: str, placeholder: str) -> DriftSummary:
    return drift_summary(texts, load_tokenizer(tokenizer), placeholder)


@st.cache_data(max_entries=50, show_spinner="Fitting a placeholder …")
def _fitted(texts: tuple[str, ...], tokenizer: str, junk_weight: float, cut_weight: float) -> FittedPlaceholder:
    return fit_placeholder(texts, load_tokenizer(tokenizer), junk_weight=junk_weight, cut_weight=cut_weight)


# --- showing ------------------------------------------------------------------------------------------------------


def _figure(rows: list[Row]) -> go.Figure:
    """Share of blocks by drift: a row of panels a tokenizer, a column a placeholder, a colour and pattern a sign."""
    colours = palette()
    names = list(dict.fromkeys(label_of(row.tokenizer) for row in rows))
    columns = len(rows) // len(names)
    figure = make_subplots(
        rows=len(names),
        cols=columns,
        shared_xaxes="all",
        shared_yaxes="all",
        horizontal_spacing=0.02,
        vertical_spacing=0.16,
        subplot_titles=[_panel_title(row) for row in rows],
    )
    for index, row in enumerate(rows):
        drifts = list(row.summary.histogram)
        figure.add_bar(
            x=drifts,
            y=[row.summary.share(count) for count in row.summary.histogram.values()],
            marker={
                "color": [drift_colour(drift, colours) for drift in drifts],
                "pattern": {"shape": ["" if drift == 0 else "/" if drift > 0 else "x" for drift in drifts]},
            },
            hovertemplate=f"{row.summary.placeholder}<br>drift %{{x:+d}}: %{{y:.1%}} of blocks<extra></extra>",
            showlegend=False,
            row=index // columns + 1,
            col=index % columns + 1,
        )
    every = [drift for row in rows for drift in row.summary.histogram]
    figure.update_xaxes(
        range=[min(*every, -1) - 0.7, max(*every, 1) + 0.7], dtick=1 if max(every) - min(every) < 9 else 2
    )
    # Plotly adds the bars of linked panels up when it looks for a range.
    highest = max(row.summary.share(count) for row in rows for count in row.summary.histogram.values())
    figure.update_yaxes(tickformat=".0%", range=[0, 1.08 * highest])
    for panel, name in enumerate(names):
        figure.update_yaxes(title=f"{name}<br>share of blocks", row=panel + 1, col=1)
    figure.update_xaxes(title="drift in tokens", row=len(names))
    figure.update_annotations(font={"size": 13})
    figure.update_layout(template=plotly_template(colours), height=120 + 190 * len(names))
    return figure


def _panel_title(row: Row) -> str:
    return f"fitted: {row.summary.placeholder}" if row.fitted else row.summary.placeholder


def _table_row(row: Row) -> dict[str, object]:
    summary = row.summary
    return {
        "tokenizer": label_of(row.tokenizer),
        "placeholder": summary.placeholder,
        "chosen": "fitted" if row.fitted else "",
        "blocks": summary.blocks,
        "exact": 100 * summary.share(summary.exact),
        "junk-prone": 100 * summary.share(summary.junk_prone),
        "cut": 100 * summary.share(summary.cut),
        "mean drift": round(summary.mean_drift, 2),
    }


def _share_column(label: str, help_text: str) -> Any:
    return st.column_config.ProgressColumn(label, help=help_text, format="%.1f %%", min_value=0.0, max_value=100.0)


_COLUMNS = {
    "exact": _share_column("exact", "Drift zero: the block fits"),
    "junk-prone": _share_column("junk-prone", "Positive drift: positions left over"),
    "cut": _share_column("cut", "Negative drift: the number loses its last digits"),
    "mean drift": st.column_config.NumberColumn("mean drift", help="In tokens a block", format="%+.2f"),
}


def _sentence(rows: list[Row]) -> str:
    """What the figures say of the placeholders that the reports used and guessed."""
    parts = []
    for row in rows:
        if row.fitted is None and row.summary.placeholder == DEFAULT_PLACEHOLDER:
            cut, junk = row.summary.share(row.summary.cut), row.summary.share(row.summary.junk_prone)
            parts.append(f"{label_of(row.tokenizer)} cuts {cut:.0%} and leaves {junk:.0%} junk-prone")
    start = f"With the reports' placeholder, {' and '.join(escape_markdown(part) for part in parts)}. " if parts else ""
    return start + _guess_sentence(rows)


def _guess_sentence(rows: list[Row]) -> str:
    by_placeholder = {row.summary.placeholder: row.summary for row in rows if row.tokenizer.name == "qwen3"}
    default, guess = by_placeholder.get(DEFAULT_PLACEHOLDER), by_placeholder.get(GUESSED_PLACEHOLDER)
    if default is None or guess is None:
        return ""
    return (
        f"Reports 000 and 001 expected {GUESSED_PLACEHOLDER} and its like to reduce drift by 30 to 50 % with Qwen; "
        f"measured here, a block misses the template by {default.mean_distance:.2f} tokens on average with the former "
        f"and by {guess.mean_distance:.2f} with the latter."
    )


def _csv(rows: list[Row]) -> str:
    lines = ["tokenizer,placeholder,fitted,drift,blocks"]
    for row in rows:
        start = f'"{row.tokenizer.name}","{row.summary.placeholder}",{int(row.fitted is not None)}'
        lines += [f"{start},{drift},{count}" for drift, count in row.summary.histogram.items()]
    return "\n".join(lines) + "\n"
