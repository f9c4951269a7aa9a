-- title: Time with and without an LP
-- reproduces: report 002, section 1.1
-- description: One row a run: wall time, pass rate (by the reports' rule: junk may pass), and how many times as fast a
--   sample is as in the same report's, or the same machine's, run without an LP of the same model, sampling, backend,
--   batch size and number of samples. Of several such runs the one counts whose id comes last. The report's table are
--   its four runs of 1,000 samples; the others, report 001's and those measured here, stand below it. Whether two runs
--   had the same molecules, their sheets do not say. Each is one run: measured times within 5 % are called alike.
WITH known AS (
    SELECT *, CASE WHEN origin = 'reported' THEN source[8:10] END AS report, wall_s / samples AS s_a_sample
    FROM runs WHERE wall_s IS NOT NULL AND samples > 0
),
with_baseline AS (
    SELECT *, max_by(s_a_sample, run_id) FILTER (lp = 'none') OVER (
        PARTITION BY origin, report, model_family, model_alias, model_step, samples, sampling, backend, batch_size,
                     device
    ) AS baseline_s
    FROM known
)
SELECT origin, report, coalesce(model_alias || coalesce(':' || model_step, ''), model_family) AS model, model_family,
       lp, samples, wall_s, 100.0 * passes / samples AS pass_percent, baseline_s / s_a_sample AS speedup,
       CASE WHEN lp = 'none' THEN 'baseline' WHEN origin <> 'reported' AND speedup BETWEEN 0.95 AND 1.05 THEN 'alike'
            WHEN speedup > 1 THEN 'faster' WHEN speedup < 1 THEN 'slower' END AS effect,
       run_id
FROM with_baseline
ORDER BY report = '002' DESC NULLS LAST, report, samples DESC, model_family DESC, lp = 'none', run_id
