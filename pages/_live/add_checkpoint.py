"""The dialog that adds a checkpoint: a folder, how its texts are written, and what was found; the worker looks through
it, and writes the user's registry."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass, replace

import streamlit as st

from engine.errors import DriftscopeError
from engine.figures.queue_words import waiting_words
from engine.figures.words import listed
from engine.jobs.adding import Added, AddRequest, add_checkpoint
from engine.jobs.service import Job, service
from engine.models.registry import OWN_TOKENIZER, TAGS, bin_words
from engine.records import DESCRIPTORS, MOST_DECIMALS, MOST_INTEGER_DIGITS, SPELLED, Descriptors
from engine.text.text_form import texts_of
from engine.text.tokenizers import BUILT_IN
from pages._kit.errors import error_markdown, escaped
from pages._kit.uploads import release, uploads
from pages._kit.visitor import presence, visitor

_IS_OPEN, _ADDED, _CHECKED = "add_open", "add_name", "add_checked"
TICK_S = 0.1
FOUND, SAID, BINS = "From its texts", "Decimals", "Bins"
TYPES = ["txt", "json", "jsonl", "ndjson", "gz"]
TYPED = "texts.txt"
"""What the command calls a file of texts that were typed in."""
EXAMPLE = (
    "[SMILES]CC=O[/SMILES][CONFORMER][C]<1.2034,-0.51,0.0>[C]<-0.2112,0.0331,0.0>=[O]<-1.1,0.4769,0.0>[/CONFORMER]"
)
LEAD = (
    "A Hugging Face folder of **any causal language model** (Gemma, Mistral, Phi, Qwen, ...), with safetensors and a "
    "tokenizer that has the tags `[SMILES]` and `[CONFORMER]`."
)


@dataclass(frozen=True, slots=True)
class TextSample:
    """Texts that the model was trained on, and the name of their file, which texts that were typed in have not."""

    texts: tuple[str, ...] = ()
    file: str = ""


def add_button() -> None:
    """Opens the dialog, and keeps it open from rerun to rerun."""
    if st.button(
        "Add a checkpoint",
        icon=":material/add:",
        key="add_checkpoint",
        type="tertiary",
        help="Registers a folder of yours: no file to write, no restart. `models add FOLDER` does the same.",
    ):
        st.session_state[_IS_OPEN] = True
        st.session_state.pop(_CHECKED, None)
    if st.session_state.get(_IS_OPEN):
        st.dialog("Add a checkpoint", width="medium", on_dismiss=_close)(_form)()


def newly_added() -> str | None:
    """The name of the checkpoint that was just added, once."""
    added = st.session_state.pop(_ADDED, None)
    return str(added) if added else None


def _close() -> None:
    st.session_state[_IS_OPEN] = False
    st.session_state.pop(_CHECKED, None)


def _form() -> None:
    st.markdown(LEAD)
    folder = st.text_input(
        "Folder", key="add_folder", placeholder="/data/checkpoints/m380/2e", help="On the machine that the app runs on."
    )
    request = _names(AddRequest((folder or "").strip()))
    request, sample, problem = _text_form(request)
    with st.expander("Tokenizer, tags, precision", icon=":material/tune:"):
        request, tags_problem = _more(request)
    problem = problem or tags_problem
    if problem and (request.folder or tags_problem):
        st.error(problem, icon=":material/error:")
    with st.container(horizontal=True, vertical_alignment="center"):
        is_ready = bool(request.folder) and not problem
        check = st.button("Check", icon=":material/search:", key="add_check", disabled=not is_ready)
        add = st.button("Add", type="primary", icon=":material/add:", key="add_go", disabled=not is_ready)
        if not request.folder:
            st.caption("Give the folder of a checkpoint.")
    if check or add:
        _look(request, sample, is_added=add)
    elif (checked := st.session_state.get(_CHECKED)) is not None and checked[0] == (request, sample):
        _show(checked[1])
    typed = f", with the texts above in a file {TYPED}" if sample.texts and not sample.file else ""
    st.caption(f"The same from a terminal{typed}:")
    st.code(_command(request, sample), language=None, wrap_lines=True)


def _names(request: AddRequest) -> AddRequest:
    left, right = st.columns(2)
    alias = left.text_input("Alias", key="add_alias", placeholder="the folder's name", max_chars=64)
    step = right.text_input("Step", key="add_step", placeholder="the folder's name, or final", max_chars=64)
    return replace(request, alias=(alias or "").strip(), step=(step or "").strip())


def _text_form(request: AddRequest) -> tuple[AddRequest, TextSample, str]:
    """With a sample of its texts, and what is wrong with them, as Markdown."""
    how = st.segmented_control(
        "How it writes numbers and descriptors",
        (FOUND, SAID, BINS),
        default=FOUND,
        key="add_form",
        required=True,
        help="Found in texts that the model was trained on, 200 numbers or more; or say what they are like.",
    )
    if how == SAID:
        first, second, third = st.columns(3)
        least = int(first.number_input("Least decimals", 0, MOST_DECIMALS, 0, key="add_least"))
        most = int(second.number_input("Most decimals", 1, MOST_DECIMALS, 4, key="add_most"))
        digits = int(third.number_input("Integer digits", 1, MOST_INTEGER_DIGITS, 3, key="add_digits"))
        problem = "" if least <= most else f"{least} decimals at least and {most} at most do not fit together."
        request = replace(request, decimals=(least, most), integer_digits=digits, descriptors=_descriptors())
        return request, TextSample(), problem
    if how == BINS:
        bins = st.text_input(
            "Bins",
            key="add_bins",
            placeholder="/data/bins.json",
            help="A file of bins as JSON (mode, L, H, n_bins, edges), on the machine that the app runs on; or, of the "
            "older form in brackets, width and range: 0.042 21.",
        )
        problem = "" if bins else "Give the file of its bins: texts and tokens do not say where bins begin and end."
        return replace(request, bins=(bins or "").strip(), descriptors=_descriptors()), TextSample(), problem
    text = st.text_area(
        "Some of its texts, one per line", key="add_texts", height=100, placeholder=EXAMPLE, help="Or a file, below."
    )
    files = uploads("Or a file of them", TYPES, key="add_file", help="Lines, JSON or JSON lines, also as .gz.")
    try:
        lines = texts_of(files[0].name, files[0].getvalue()) if files else (text or "").splitlines()
    except DriftscopeError as error:
        return request, TextSample(), error_markdown(error)
    texts = tuple(line for line in lines if line.strip())
    return request, TextSample(texts, files[0].name if files else ""), ""


def _descriptors() -> Descriptors:
    about = "Of bare heteroatoms with hydrogens."
    return st.selectbox(
        "Descriptors", DESCRIPTORS, key="add_descriptors", format_func=lambda kind: SPELLED[kind], help=about
    )


def _more(request: AddRequest) -> tuple[AddRequest, str]:
    left, right = st.columns(2)
    tokenizer = left.selectbox(
        "Tokenizer", (OWN_TOKENIZER, *BUILT_IN), key="add_tokenizer", help="own: the one in the folder."
    )
    dtype = right.selectbox("Precision", ("float32", "bfloat16", "float16"), key="add_dtype")
    text = st.text_input(
        f"Its tokens for {', '.join(TAGS)}",
        key="add_tags",
        placeholder="the tags themselves; else four tokens with commas between: <smi>,</smi>,<conf>,</conf>",
    )
    tags = tuple(tag.strip() for tag in (text or "").split(",") if tag.strip())
    problem = f"{len(tags)} tokens are given for four tags." if len(tags) not in (0, len(TAGS)) else ""
    more = replace(request, tokenizer=tokenizer or "", tags=tags, dtype="" if dtype == "float32" else dtype or "")
    return more, problem


def _look(request: AddRequest, sample: TextSample, *, is_added: bool) -> None:
    """By the worker, since it imports transformers."""
    seen = st.empty()
    try:
        job = service().submit(
            visitor(), lambda _: add_checkpoint(request, sample.texts, dry_run=not is_added), is_there=presence()
        )
        added = _result(job, seen)
    except DriftscopeError as error:
        st.session_state.pop(_CHECKED, None)
        seen.error(error_markdown(error), icon=":material/error:")
        return
    seen.empty()
    if is_added:
        release("add_file")
        st.session_state[_ADDED] = added.entry.name
        _close()
        st.toast(f"{escaped(added.entry.name)} was added.", icon=":material/check:")
        st.rerun()
    st.session_state[_CHECKED] = (request, sample), added
    _show(added)


def _result(job: Job[Added], seen: st.delta_generator.DeltaGenerator) -> Added:
    """Waits for it; each tick is a moment at which the reader may do something else."""
    while not (state := job.poll()).has_ended:
        words = waiting_words(state.ahead) if state.state == "waiting" else "looking through the folder"
        seen.caption(f"{escaped(words)} …")
        time.sleep(TICK_S)
    if job.result is None:
        raise DriftscopeError(state.error or state.note or "it was stopped")
    return job.result


def _show(added: Added) -> None:
    """What was found of a checkpoint that is not added yet."""
    lines = [f"**{escaped(added.entry.name)}** can be added.", *map(escaped, added.found)]
    lines.append(f"LPs that work: {escaped(listed(added.working) or 'none')}")
    st.success("\n".join(f"- {line}" if number else f"{line}\n" for number, line in enumerate(lines)))
    for why, names in added.reasons.items():
        st.warning(f"Not {escaped(listed(names))}: {escaped(why)}", icon=":material/block:")


def _command(request: AddRequest, sample: TextSample) -> str:
    words = ["models", "add", request.folder or "FOLDER"]
    for option, value in (("--alias", request.alias), ("--step", request.step), ("--dtype", request.dtype)):
        words += [option, value] if value else []
    if st.session_state.get("add_form") == BINS:
        words += ["--bins", *bin_words(request.bins or "bins.json"), "--descriptors", str(request.descriptors)]
    elif request.decimals:
        words += ["--decimals", "{}-{}".format(*request.decimals), "--integer-digits", str(request.integer_digits)]
        words += ["--descriptors", str(request.descriptors)]
    elif sample.texts:
        words += ["--sample", sample.file or TYPED]
    words += ["--tokenizer", request.tokenizer] if request.tokenizer not in ("", OWN_TOKENIZER) else []
    words += ["--tags", ",".join(request.tags)] if request.tags else []
    return shlex.join([".venv/bin/python", "-m", "engine", *words])
