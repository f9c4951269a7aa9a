-- title: Qwen beside LLaMA: the profile
-- reproduces: report 003, section Summary Table
-- description: One row a metric of the report's closing table, and below it what runs count without a profiler: tokens
--   of the answers, forward passes and wall time. What a profiler counts (its length, kernel launches, attention calls,
--   copies, concatenations) is missing for runs measured here: it is in no run, but in a trace. The report's generated
--   tokens are attention calls by layers, and no tokens of texts. Junk is by each report's own rule, and for runs
--   measured here any character but digits . , - in a block. Runs are put side by side as for report 002, section 1.2.
WITH latest AS (
    SELECT * REPLACE (CASE WHEN origin = 'reported' AND lp <> 'none' THEN 'its own LP' ELSE lp END AS lp),
           CASE WHEN origin = 'reported' THEN source[8:10] END AS report
    FROM runs WHERE model_family IN ('Qwen', 'LLaMA') AND samples > 0
    QUALIFY row_number() OVER (
        PARTITION BY origin, report, lp, samples, sampling, backend, batch_size, device, model_family
        ORDER BY run_id DESC
    ) = 1
),
figures AS (
    SELECT latest.*, place, metric,
           CASE place WHEN 1 THEN (extra->>'profile_s')::DOUBLE WHEN 2 THEN (extra->>'launches')::DOUBLE
                WHEN 3 THEN (extra->>'fmha_calls')::DOUBLE WHEN 4 THEN (extra->>'generated_tokens')::DOUBLE
                WHEN 5 THEN (extra->>'copies')::DOUBLE WHEN 6 THEN (extra->>'concatenations')::DOUBLE
                WHEN 7 THEN coalesce((extra->>'junk_percent')::DOUBLE, 100.0 * junk_nonnumeric / nullif(blocks, 0))
                WHEN 8 THEN tokens WHEN 9 THEN forward_passes WHEN 10 THEN wall_s END AS figure
    FROM latest CROSS JOIN (VALUES
        (1, 'profile duration (s)'), (2, 'kernel launches'), (3, 'attention calls'), (4, 'generated tokens, by layers'),
        (5, 'memory copies'), (6, 'concatenations'), (7, 'blocks with junk (%)'), (8, 'tokens of the answers'),
        (9, 'forward passes'), (10, 'wall time (s)')
    ) AS metrics (place, metric)
)
SELECT origin, report, lp, samples, metric,
       any_value(figure) FILTER (model_family = 'Qwen') AS qwen,
       any_value(figure) FILTER (model_family = 'LLaMA') AS llama,
       qwen / nullif(llama, 0) AS ratio,
       any_value(run_id) FILTER (model_family = 'Qwen') AS qwen_run,
       any_value(run_id) FILTER (model_family = 'LLaMA') AS llama_run
FROM figures WHERE figure IS NOT NULL
GROUP BY origin, report, lp, samples, sampling, backend, batch_size, device, place, metric
ORDER BY report = '003' DESC NULLS LAST, report, samples DESC, lp = 'none', lp, sampling, backend, batch_size, device,
         place
