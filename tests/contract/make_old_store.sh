#!/bin/bash
# How tests/contract/old_store.tar.gz was made: bash make_old_store.sh CHECKOUT, a checkout of babcdbe with its .venv.
# That commit is the last one before the group's LPs were written by their rules ("before 17"). Never make it anew with
# later code: that it is old is what it is for. recorded/resumed_before.json has the texts that the old code wrote when it
# resumed the stopped runs, and recorded/old_store.json how it showed each entry (`python -m tests.contract.record --old
# CHECKOUT`): what later code writes and shows must be the same.
set -eum
old=$(realpath "$1") out=$(realpath "$(dirname "$0")") folder=$(mktemp -d)
test "$(git -C "$old" rev-parse --short=7 HEAD)" = babcdbe
cd "$folder"
export DRIFTSCOPE_STORE=$folder/store PYTHONPATH=$old PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
python=$old/.venv/bin/python
engine() { "$python" -m engine "$@" --json; }
field() { "$python" -c "import json, sys; print(json.load(sys.stdin)$1)"; }

# Whole runs.
small=(CCO "CC(=O)O" "C[C@H](N)C(=O)O" c1ccoc1)
engine run "${small[@]}" --model demo-qwen --lp position-blocklist --lp position-blocklist-short \
  --lp position-allowlist --lp exact --keep-steps 1 --candidates 3 --judge --batch-size 2 --label "old runs" >runs.json
exact=$(field "[3]['run_id']" <runs.json)
allowlist=$(field "[2]['run_id']" <runs.json)
engine cost-of-lp "$allowlist" >/dev/null
engine evaluate "$exact" --per-molecule 3 --no-baseline >/dev/null

# Report files and a pickle of generations; references of each form that can be written here.
"$python" - <<'PYTHON'
import json, pickle
from rdkit import Chem
from rdkit.Chem import AllChem

CLEAN = "[CONFORMER][C]<0.1,0.2,0.3>[C]<1.2345,-0.5,1.0>=[O]<2.0,0.1,-0.4>[/CONFORMER]"
JUNK = "[CONFORMER][C]<6.9467,-1.369,0.8415amen>[C]<3.175,-0.187,0.4142}2>=[O]<1.2,3.4,>[/CONFORMER]"
OTHER = {"issues": ["generated conformer <> prompt SMILES mismatch"], "extracted_smiles": "CC=O"}
for kind, version in [("generic", "v2.1"), ("qwen", "v3.8"), ("qwen", "v3.9"), ("qwen", "v4.3")]:
    metadata = {
        "version": version, "processor_type": kind, "timestamp": "2025-12-13T10:20:30", "model_alias": "m600",
        "model_step": "1e", "tokenizer_name": "qwen3_0.6b_custom", "logit_processor_enabled": True,
        "sampling": "top_p1.0", "batch_size": 32, "sample_size": 3, "num_generations": 1, "total_generations": 3,
    }
    texts = [f"[SMILES]CC=O[/SMILES]{CLEAN}<|endoftext|>", f"[SMILES]CC=O[/SMILES]{JUNK}"]
    passes = [
        {"prompt_smiles": "CC=O", "generated_smiles": "CC=O", "smiles_exact_match": True,
         "has_real_coordinates": True, "parse_success": True, "decoded_text": text} for text in texts
    ]
    failures = [{"prompt_smiles": "CCO", "decoded_text": f"[SMILES]CCO[/SMILES]{CLEAN}", **OTHER}]
    report = {"metadata": metadata, "time_taken": 115.46, "total_chars_raw": 400, "total_chars_clean": 390,
              "passes": passes, "failures": failures}
    with open(f"{kind}_{version}.json", "w") as file:
        json.dump(report, file)

def conformers(smiles, count):
    mol = Chem.AddHs(Chem.MolFromSmiles(smiles))
    AllChem.EmbedMultipleConfs(mol, count, randomSeed=7)
    return [Chem.Mol(mol, False, number) for number in range(count)]

molecules = {"CCO": 3, "C[C@H](N)C(=O)O": 2, "c1ccoc1": 2}
with open("generation_results.pickle", "wb") as file:
    pickle.dump({smiles: [Chem.RemoveHs(mol) for mol in conformers(smiles, n)] for smiles, n in molecules.items()}, file, 4)
with open("references.pickle", "wb") as file:
    pickle.dump({smiles: {"confs": conformers(smiles, n)} for smiles, n in molecules.items()}, file, 4)
PYTHON
engine import ./*_v*.json --label "old reports" >/dev/null
engine import generation_results.pickle --label "old pickle" >imported.json
engine references add references.pickle --label old-added >/dev/null
engine references make CCO c1ccoc1 --per-molecule 2 --label old-made >/dev/null
engine evaluate "$(field "[0]['run_id']" <imported.json)" --references old-added --no-baseline >/dev/null

# A trace with its events, one of sums, and a logit log.
engine generate CCO --model demo-qwen --lp exact --profile --profile-sums --profile-steps 2 --profile-run "$exact" \
  --profile-output trace.json.gz --log-logits 4 --logit-log old.jsonl.gz >/dev/null
engine trace add trace.json.gz --events --run "$exact" --label "old trace" >/dev/null
engine logits add old.jsonl.gz --label "old log" >/dev/null

# What a user says of runs, and a query of the console.
engine annotate "$exact" --tag old --tag kept --notes "a note" >/dev/null
engine annotate "$allowlist" --tag old --label "old allow-list" >/dev/null
"$python" -c "
from engine.comparing.own_queries import OwnQueries
from engine.store.files import Files
from pathlib import Path
OwnQueries(Files(Path('store'))).save('by LP', 'SELECT lp, count(*) AS runs FROM runs GROUP BY lp ORDER BY lp')"

# Runs that were stopped halfway, each by Ctrl-C after some molecules. Those that need all logits are slow to
# resume, so that they have little left.
stopped() { # COUNT LP SMILES ...
  count=$1 lp=$2; shift 2
  "$python" -m engine run "$@" --model demo-qwen --lp "$lp" --batch-size 1 --group 1 --sampling greedy --threads 1 \
    --label "old, stopped" --progress "$lp.progress" >/dev/null 2>&1 &
  until grep -qs "\"written\": [$count-9]" "$lp.progress"; do sleep 0.02; done
  kill -INT $!
  wait $! || true
}
shorts=(C CO CC=O CCO CCC "CC(C)O")
for lp in position-blocklist position-blocklist-short adaptive-placeholder truncating; do
  stopped 4 "$lp" "${shorts[@]}"
done
mapfile -t many < <(head -n 12 "$old/data/heldout.smi")
stopped 2 position-allowlist "${many[@]}"
stopped 2 exact "${many[@]}"
test "$(engine runs --unfinished | field ".__len__()")" = 6
tar -czf "$out/old_store.tar.gz" store

# What the old code writes when it resumes them, as the test compares.
for id in $(engine runs --unfinished | grep -o '"run_id": "[^"]*"' | cut -d '"' -f 4); do
  engine run --resume "$id" >/dev/null
done
engine sql "SELECT run_id, lp, sample_id, text FROM samples JOIN runs USING (run_id)
  WHERE label = 'old, stopped' ORDER BY run_id, sample_id" >"$out/recorded/resumed_before.json"
rm -rf "$folder"
