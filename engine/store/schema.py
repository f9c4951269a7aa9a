"""The tables of the store: every column with its type and what it says. Nothing here reads or writes.

A *kind* of entry is a folder of the store (``runs/``) whose entries (``run_id=<id>/``) hold a Parquet file a table and
a JSON file that is written last. Times end in ``_s``, lengths in ``_ang``. A column may be null where its maker did not
say; which are never null is said by ``required``.
"""

from __future__ import annotations

import pyarrow as pa

from engine.store.columns import FAILURES, FLAG, FLAGS, IDS, MOMENT, REAL, SMALL, TEXTS
from engine.store.columns import TEXT as TEXT
from engine.store.columns import VERSION as VERSION
from engine.store.columns import WHOLE as WHOLE
from engine.store.columns import Column as Column
from engine.store.columns import Kind as Kind
from engine.store.columns import Table as Table
from engine.store.columns import table as _table
from engine.store.trace_schema import TRACE

RUNS = _table(
    "runs",
    ("run_id", TEXT, "names the run; its folder is run_id=<run_id>", True),
    ("created_at", MOMENT, "when its first sample was begun; when the reports say so, for those"),
    ("origin", TEXT, "measured (here), imported (a report file), or reported (a text states it)", True),
    ("source", TEXT, "where it comes from: a command, a file's name, a report and its section"),
    ("label", TEXT, "a user's own name for it"),
    ("model_alias", TEXT, "the model"),
    ("model_step", TEXT, "its checkpoint"),
    ("model_family", TEXT, "Qwen or LLaMA"),
    ("weights", TEXT, "SHA-256 of the weights, where they ship"),
    ("tokenizer", TEXT, "qwen3, llama3, or a folder's name"),
    ("vocab_size", WHOLE, "tokens of the tokenizer"),
    ("lp", TEXT, "the logits processor, none without one; +cleanup where texts were cleaned after"),
    ("placeholder", TEXT, "what a position LP counts with"),
    ("backend", TEXT, "fast (ours) or hf (plain generate)"),
    ("sampling", TEXT, "the preset's name, or the parameters in words"),
    ("temperature", REAL, "0 is greedy"),
    ("top_k", WHOLE, "null: all"),
    ("top_p", REAL, "1: all"),
    ("min_p", REAL, "0: all"),
    ("seed", WHOLE, "keys every draw, with the sample and the position"),
    ("generations", WHOLE, "answers for each molecule"),
    ("most_tokens", WHOLE, "the limit of an answer; null: by the molecule's size"),
    ("equal_work", FLAG, "each answer as long as the exact LP's"),
    ("device", TEXT, "cpu, cuda:0 and its name; all of them where several wrote it"),
    ("dtype", TEXT, "computed in"),
    ("attention", TEXT, "sdpa, eager, ..."),
    ("kv_cache", TEXT, "what kind of cache"),
    ("batch_size", WHOLE, "rows at once, as asked for"),
    ("molecules", WHOLE, "different molecules"),
    ("samples", WHOLE, "answers"),
    ("passes", WHOLE, "samples without an issue, by the reports' rule: junk may pass"),
    ("decodes", WHOLE, "samples that the group's reader takes whole, junk or not: the rule of its runner since v3.9"),
    ("clean", WHOLE, "samples that passed, with every block exact or unverified"),
    ("reported_passes", WHOLE, "items that an imported file lists as passes, by the rule of the program that wrote it"),
    ("reported_failures", WHOLE, "items that it lists as failures"),
    ("blocks", WHOLE, "coordinate blocks"),
    ("junk_letters", WHOLE, "blocks with a letter: the reports' first count"),
    ("junk_nonnumeric", WHOLE, "blocks with anything but digits . , -: the reports' second count"),
    ("bad_blocks", WHOLE, "blocks that are neither exact nor unverified"),
    ("cut_blocks", WHOLE, "blocks closed by force in the middle of their numbers"),
    ("unverified_blocks", WHOLE, "blocks closed by force, of which nobody knows what the model wanted"),
    (
        "misread_blocks",
        WHOLE,
        "blocks that the group's reader takes and puts over 0.01 angstrom off the numbers that they state, or whose "
        "numbers it takes from parts that are none",
    ),
    ("misread_most_ang", REAL, "the farthest of those that state three numbers; infinities do not count"),
    ("judged", WHOLE, "samples with a verdict on their molecule; null where none was asked for"),
    ("judged_with", TEXT, "what judged their geometry, its version and settings"),
    ("stereo_judged", WHOLE, "judged samples whose SMILES specifies a centre or double bond"),
    ("stereo_right", WHOLE, "those with all of them as the SMILES says"),
    ("stereo_sites", WHOLE, "centres and double bonds that were judged"),
    ("stereo_sites_right", WHOLE, "those as the SMILES says"),
    ("geometry_judged", WHOLE, "judged samples whose geometry could be judged"),
    ("geometry_right", WHOLE, "those without a failed check"),
    ("usable", WHOLE, "judged samples that are clean, with stereo and geometry right"),
    ("strain_kcal", REAL, "mean of its samples' strain_kcal, of those with right geometry; null where not asked for"),
    ("strain_samples", WHOLE, "samples that it is the mean of"),
    ("rmsd_ang", REAL, "mean of its samples' rmsd_ang; null where not asked for"),
    ("rmsd_samples", WHOLE, "samples that it is the mean of"),
    ("wall_s", REAL, "from templates to the last answer read and checked; parts of all writers added up"),
    (
        "judging_s",
        REAL,
        "after it and no part of it: RMSD, kept steps, what the model wanted at forced closes, verdicts not done yet",
    ),
    ("template_s", REAL, "compiling constraints and prompts"),
    ("prefill_s", REAL, "reading prompts"),
    ("forward_s", REAL, "passes through the model, the output head among them"),
    ("constraint_s", REAL, "masks and states"),
    ("sampling_s", REAL, "drawing tokens"),
    ("decode_s", REAL, "all of decoding, from prompt to last token"),
    ("tokens", WHOLE, "tokens of all answers, end tokens too"),
    ("forced_tokens", WHOLE, "those that the LP left no choice for"),
    ("forward_passes", WHOLE, "through the model, prefills among them"),
    ("chars_raw", WHOLE, "characters of all answers as written"),
    ("chars_clean", WHOLE, "without anything that is not conformer: tags, padding, what cleanup strips"),
    ("peak_memory_mb", REAL, "of the process, or of the device"),
    ("versions", TEXT, "JSON: of python, torch, transformers, ..."),
    ("git_commit", TEXT, "of this program; + where files had changed"),
    ("resumed", WHOLE, "how often it was taken up again"),
    ("checked_samples", WHOLE, "samples written anew when it was taken up again, to see whether they come out alike"),
    ("diverged_samples", WHOLE, "those of them that came out otherwise"),
    ("notes", TEXT, "what a user should know, and a user's own notes"),
    ("extra", TEXT, "JSON: what a report file said beyond these columns"),
    since_2=(
        "decodes reported_passes reported_failures misread_blocks misread_most_ang judged judged_with stereo_judged "
        "stereo_right stereo_sites stereo_sites_right geometry_judged geometry_right usable strain_kcal strain_samples"
    ).split(),
)

SAMPLES = _table(
    "samples",
    ("run_id", TEXT, "the run", True),
    ("sample_id", SMALL, "counts the run's answers from 0", True),
    ("generation", SMALL, "counts a molecule's answers from 0"),
    ("smiles", TEXT, "canonical SMILES that was asked for", True),
    ("text", TEXT, "the answer, from [CONFORMER] on, without the end token"),
    ("token_ids", IDS, "as written; null where only text is known"),
    ("forced", FLAGS, "for each token, whether the LP left no choice"),
    ("stop_reason", TEXT, "end, length, time, cancelled, empty_mask, desync"),
    ("passed", FLAG, "by the reports' rule: no issue; junk may pass", True),
    ("decodes", FLAG, "by the rule of the group's runner since v3.9: its reader takes every block, junk or not"),
    ("clean", FLAG, "passed, and every block exact or unverified", True),
    ("issues", TEXTS, "the reports' issues, in their words"),
    ("parsed", FLAG, "the text without its blocks is a SMILES"),
    ("parse_error", TEXT, "why not"),
    ("same_graph", FLAG, "and it is the molecule that was asked for"),
    ("exact_match", FLAG, "and even the SMILES as written"),
    ("generated_smiles", TEXT, "it, canonical"),
    ("extracted_smiles", TEXT, "the text without its blocks"),
    ("has_real_coordinates", FLAG, "not all zeros"),
    ("atoms", SMALL, "of the molecule's text, so blocks that an answer should have"),
    ("heavy_atoms", SMALL, "of the molecule"),
    ("tokens", SMALL, "of the answer, the end token too"),
    ("forced_tokens", SMALL, "those that the LP left no choice for"),
    ("blocks", SMALL, "blocks that were found"),
    ("bad_blocks", SMALL, "those neither exact nor unverified"),
    ("cut_blocks", SMALL, "those closed by force in the middle"),
    ("drift", SMALL, "sum of the blocks' drifts where known"),
    ("decode_s", REAL, "from its first token to its last, beside the others of its batch"),
    ("stereo_sites", SMALL, "centres and double bonds that the SMILES specifies; null where not judged"),
    ("stereo_sites_right", SMALL, "those that are in space as it says"),
    ("stereo_right", FLAG, "all of them; null where there is none, or it was not judged"),
    ("geometry_right", FLAG, "no check of geometry failed; null where not all could be made"),
    ("usable", FLAG, "clean, stereo right or none specified, geometry right; null where not judged"),
    ("failed", FAILURES, "checks of the molecule that failed, at which atoms of its text"),
    ("strain_kcal", REAL, "kcal/mol above the relaxed conformer; null where not asked for"),
    ("strain_moved_ang", REAL, "how far heavy atoms move when it relaxes, RMSD"),
    ("strain_field", TEXT, "MMFF94, UFF where that has no parameters, or GFN2-xTB"),
    ("rmsd_ang", REAL, "heavy atoms, against the nearest of some reference conformers; null where not asked for"),
    ("extra", TEXT, "JSON: what a report file said beyond these columns"),
    order=("sample_id",),
    since_2=(
        "decodes stereo_sites stereo_sites_right stereo_right geometry_right usable failed strain_kcal "
        "strain_moved_ang strain_field"
    ).split(),
)

BLOCKS = _table(
    "blocks",
    ("run_id", TEXT, "the run", True),
    ("sample_id", SMALL, "the sample", True),
    ("block", SMALL, "counts a sample's blocks from 0", True),
    ("atom", SMALL, "of the molecule's text, from 0"),
    ("element", TEXT, "its element"),
    ("text", TEXT, "between < and >, as written"),
    ("x", REAL, "in angstrom, where it can be read"),
    ("y", REAL, "in angstrom"),
    ("z", REAL, "in angstrom"),
    ("template_free", SMALL, "FREE positions that the template has for it"),
    ("needed", SMALL, "tokens that the coordinates need, where known"),
    ("drift", SMALL, "template_free - needed: positive is junk-prone, negative is cut"),
    ("kinds", TEXTS, "what is right or wrong with it; exact where nothing is wrong"),
    ("junk_text", TEXT, "what does not belong there"),
    ("junk_tokens", SMALL, "tokens of it"),
    ("continued_text", TEXT, "how the model would have gone on: an estimate; null where not asked for"),
    order=("sample_id", "block"),
)

STEPS = _table(
    "steps",
    ("run_id", TEXT, "the run", True),
    ("sample_id", SMALL, "the sample", True),
    ("pos", SMALL, "in the answer, from 0", True),
    ("token_id", SMALL, "as written", True),
    ("piece", TEXT, "the token, printable"),
    ("role", TEXT, "COPY, FREE or BOUNDARY, by the template where there is one"),
    ("forced", FLAG, "the LP left no choice"),
    ("template_id", SMALL, "the token that the template has here; null behind its end, or without one"),
    ("block", SMALL, "of the constraint, -1 outside"),
    ("rule", TEXT, "which rule allowed or forced it"),
    ("p_raw", REAL, "its probability before the LP"),
    ("p_lp", REAL, "and among the tokens that the LP allows"),
    ("allowed_mass", REAL, "of all tokens that the LP allows, before it"),
    ("rank_raw", SMALL, "before the LP; 1 is the likeliest"),
    ("entropy_nat", REAL, "of the model before the LP"),
    (
        "top_k",
        pa.list_(pa.struct([("token_id", SMALL), ("p_raw", REAL), ("allowed", FLAG)])),
        "the likeliest tokens before the LP, likeliest first",
    ),
    order=("sample_id", "pos"),
)

LOGIT_LOGS = _table(
    "logit_logs",
    ("log_id", TEXT, "names the log; its folder is log_id=<log_id>", True),
    ("created_at", MOMENT, "when it was read in"),
    ("origin", TEXT, "measured (each line says that a program of ours wrote it here) or imported", True),
    ("file", TEXT, "the file's name"),
    ("source", TEXT, "what its entries name as their source; the first few where they differ"),
    ("label", TEXT, "a user's own name for it"),
    ("engine", TEXT, "what computed the values", True),
    ("model", TEXT, "whose values they are"),
    ("precision", TEXT, "of the weights, such as Q4_K_M"),
    ("dtype", TEXT, "of the values as logged, such as f32"),
    ("length", WHOLE, "values of a whole row, by the entries' shape: the vocabulary's rows, for logits"),
    ("checkpoints", TEXT, "where in the model values were logged, in the order of their coming"),
    ("entries", WHOLE, "lines with values", True),
    ("values_logged", WHOLE, "values of all entries", True),
    ("first_token", WHOLE, "the least token_idx"),
    ("last_token", WHOLE, "the largest"),
    ("flagged_entries", WHOLE, "entries with a flagged value"),
    ("flagged_values", WHOLE, "values with a flag"),
    ("garbage_entries", WHOLE, "entries that the reports' own rule calls garbage"),
    ("least", REAL, "of the finite values"),
    ("largest", REAL, "of the finite values"),
    ("cause", TEXT, "the likeliest cause of what is flagged; null where nothing is"),
    ("certainty", TEXT, "of the cause: sure, likely or possible"),
    ("findings", TEXT, "JSON: every cause with its values, positions and evidence"),
    ("left_out", WHOLE, "lines that could not be read"),
    ("is_cut", FLAG, "the file ends in the middle of a line, or of its compressed form"),
    ("rules", TEXT, "SHA-256 of the rules that flagged it"),
    ("notes", TEXT, "what a user should know, and a user's own notes"),
)

LOGIT_ENTRIES = _table(
    "logit_entries",
    ("log_id", TEXT, "the log", True),
    ("entry", WHOLE, "counts the log's entries from 0", True),
    ("line", WHOLE, "of the file, from 1", True),
    ("checkpoint", TEXT, "where in the model", True),
    ("token_idx", SMALL, "as logged; counted where the entry has none", True),
    ("sequence", SMALL, "counts a checkpoint's texts from 0: another begins where token_idx does not rise", True),
    ("source", TEXT, "as logged"),
    ("ts", TEXT, "as logged"),
    ("values_logged", SMALL, "values of the entry", True),
    ("middle", REAL, "median of the values that can be one; null where there is none"),
    ("spread", REAL, "median distance from it, times 1.4826"),
    ("least", REAL, "of the finite values"),
    ("largest", REAL, "of the finite values"),
    ("top", SMALL, "position of the largest value that has no flag"),
    ("flagged", SMALL, "values with a flag", True),
    ("flags", TEXTS, "all kinds of flags of its values", True),
    ("is_garbage", FLAG, "by the reports' own rule", True),
    order=("entry",),
)

LOGIT_VALUES = _table(
    "logit_values",
    ("log_id", TEXT, "the log", True),
    ("entry", WHOLE, "the entry", True),
    ("checkpoint", TEXT, "its checkpoint", True),
    ("token_idx", SMALL, "its token", True),
    ("position", SMALL, "in the row; for logits the token's id", True),
    ("value", REAL, "as logged; NaN and infinities too", True),
    ("flags", TEXTS, "what is wrong with it; none where nothing is", True),
)

RUN = Kind("runs", "run_id", "run.json", RUNS, (SAMPLES, BLOCKS, STEPS))
LOGIT_LOG = Kind("logit_logs", "log_id", "log.json", LOGIT_LOGS, (LOGIT_ENTRIES, LOGIT_VALUES))
KINDS: tuple[Kind, ...] = (RUN, LOGIT_LOG, TRACE)
