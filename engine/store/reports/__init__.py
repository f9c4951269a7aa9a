"""Report files: the JSON that the reports' runner writes for a run, into the store and out of it. Here are its keys."""

from __future__ import annotations

METADATA, PASSES, FAILURES, GENERATIONS, TEXT = "metadata", "passes", "failures", "all_generations", "decoded_text"
ASKED = "prompt_smiles"
SAME = ("model_alias", "model_step", "placeholder", "descriptors", "sampling", "batch_size", "kv_cache", "attention")
METADATA_COLUMNS = {
    **{name: name for name in SAME},
    "timestamp": "created_at",
    "tokenizer_name": "tokenizer",
    "num_generations": "generations",
    "total_generations": "samples",
}
TOTALS = {"time_taken": "wall_s", "total_chars_raw": "chars_raw", "total_chars_clean": "chars_clean"}
OF_PASS = {
    ASKED: "smiles", "generated_smiles": "generated_smiles", "smiles_exact_match": "exact_match",
    "has_real_coordinates": "has_real_coordinates", "parse_success": "parsed", TEXT: TEXT,
}  # fmt: skip
OF_FAILURE = {
    ASKED: "smiles", "issues": "issues", TEXT: TEXT, "parse_error": "parse_error",
    "generation_has_same_molecular_graph": "same_graph", "extracted_smiles": "extracted_smiles",
}  # fmt: skip
"""The keys of a file, and our columns that say the same."""
KNOWN = {*OF_PASS, *OF_FAILURE, "generated_smiles_from_conformer", GENERATIONS}
BEFORE, REPORTED_PASSED = "text_before", "reported_passed"
"""Keys of a sample's ``extra`` that are not the file's: what precedes its answer, where that is not the usual prompt,
and the file's own verdict, where our check says otherwise. ``ASKED`` stands there as the file has it, where that is not
the canonical SMILES."""
