-- title: Coverage with and without the LP that was tabled
-- reproduces: report 005, section Result
-- description: One row a run: COV at 0.75 angstrom and MAT as the report gives them, and samples of another SMILES,
--   samples that do not parse, samples without an end. For runs measured here these three are counted from their
--   samples (one parses whose text without its blocks is a SMILES); COV and MAT are missing, as a store keeps no
--   reference conformers: the Compare page computes them. The report's runs have two samples per reference conformer.
WITH counted AS (
    SELECT run_id, count(*) FILTER (parsed AND NOT same_graph) AS mismatches, count(*) FILTER (NOT parsed) AS failures,
           count(*) FILTER (stop_reason <> 'end') AS no_end
    FROM samples GROUP BY run_id
)
SELECT origin, CASE WHEN origin = 'reported' THEN source[8:10] END AS report,
       coalesce(model_alias || coalesce(':' || model_step, ''), model_family) AS model,
       (extra->>'epochs')::INT AS epochs, lp, placeholder, samples, (extra->>'cov_r_percent')::DOUBLE AS cov_r_percent,
       (extra->>'cov_p_percent')::DOUBLE AS cov_p_percent, (extra->>'mat_r_ang')::DOUBLE AS mat_r_ang,
       (extra->>'mat_p_ang')::DOUBLE AS mat_p_ang,
       coalesce((extra->>'mismatches')::INT, counted.mismatches) AS mismatches,
       coalesce((extra->>'parse_failures')::INT, failures) AS parse_failures,
       coalesce((extra->>'no_end')::INT, counted.no_end) AS no_end, run_id
FROM runs LEFT JOIN counted USING (run_id)
WHERE counted.run_id IS NOT NULL OR extra->>'cov_r_percent' IS NOT NULL
ORDER BY report NULLS LAST, lp = 'none' DESC, epochs, model, run_id
