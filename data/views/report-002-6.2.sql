-- title: Where the time of a LLaMA model with an LP goes
-- reproduces: report 002, section 6.2
-- description: One row a part of a run's wall time. What a report gives are estimates (`kind` says so). Runs measured
--   here have counters, and a rest that is computed: `not counted elsewhere`. They have no time of junk tokens, which
--   are written in passes like all others, and reports have none for prefill and sampling.
WITH of_family AS (
    SELECT *, CASE WHEN origin = 'reported' THEN source[8:10] END AS report
    FROM runs WHERE model_family = 'LLaMA' AND lp NOT IN ('none', 'none+cleanup') AND wall_s > 0
),
parts AS (
    SELECT of_family.*, place, component,
           CASE WHEN origin = 'reported' THEN
               CASE place WHEN 1 THEN (extra->>'forward_s')::DOUBLE WHEN 2 THEN (extra->>'masking_s')::DOUBLE
                    WHEN 3 THEN (extra->>'junk_s')::DOUBLE WHEN 4 THEN (extra->>'template_s')::DOUBLE
                    WHEN 7 THEN (extra->>'other_s')::DOUBLE END
           ELSE
               CASE place WHEN 1 THEN forward_s WHEN 2 THEN constraint_s WHEN 4 THEN template_s WHEN 5 THEN prefill_s
                    WHEN 6 THEN sampling_s
                    WHEN 7 THEN wall_s - forward_s - constraint_s - template_s - prefill_s - sampling_s END
           END AS seconds
    FROM of_family CROSS JOIN (VALUES
        (1, 'forward passes'), (2, 'masks and states of the LP'), (3, 'junk tokens'), (4, 'templates'), (5, 'prefill'),
        (6, 'sampling'), (7, 'not counted elsewhere')
    ) AS components (place, component)
)
SELECT origin, report, coalesce(model_alias || coalesce(':' || model_step, ''), label, model_family) AS model, lp,
       samples, component, seconds, 100 * seconds / wall_s AS percent, wall_s,
       CASE WHEN origin = 'reported' THEN 'estimate' ELSE 'counted' END AS kind, run_id
FROM parts WHERE seconds IS NOT NULL
ORDER BY report = '002' DESC NULLS LAST, report, lp, run_id, place
