-- title: Which answers have most damaged blocks?
-- description: A hundred of them, each with a link to the Drift inspector, which orders them by harm.
SELECT run_id, sample_id, smiles, tokens, blocks, bad_blocks, cut_blocks, drift, passed, rmsd_ang
FROM samples ORDER BY bad_blocks DESC NULLS LAST, drift DESC NULLS LAST, run_id, sample_id LIMIT 100
