-- title: Qwen beside LLaMA: a slowdown as tokens x time a token
-- reproduces: report 002, section 1.3
-- description: The ratio of total times is the product of the ratios of tokens and of time a token: the report's
--   1.34 x 2.62 = 3.51. Runs are put side by side as for section 1.2. Time a token is wall time over tokens, as there.
--   Ratios are Qwen over LLaMA; that of tokens a second is LLaMA over Qwen, as in the report.
WITH latest AS (
    SELECT * REPLACE (CASE WHEN origin = 'reported' AND lp <> 'none' THEN 'its own LP' ELSE lp END AS lp),
           CASE WHEN origin = 'reported' THEN source[8:10] END AS report
    FROM runs WHERE model_family IN ('Qwen', 'LLaMA') AND wall_s > 0 AND samples > 0 AND tokens > 0
    QUALIFY row_number() OVER (
        PARTITION BY origin, report, lp, samples, sampling, backend, batch_size, device, model_family
        ORDER BY run_id DESC
    ) = 1
),
figures AS (
    SELECT latest.*, place, metric, is_rate,
           CASE place WHEN 1 THEN tokens WHEN 2 THEN 1000 * wall_s / tokens WHEN 3 THEN tokens / wall_s
                WHEN 4 THEN wall_s END AS figure
    FROM latest CROSS JOIN (VALUES
        (1, 'tokens', false), (2, 'time a token (ms)', false), (3, 'tokens a second', true),
        (4, 'total time (s)', false)
    ) AS metrics (place, metric, is_rate)
)
SELECT origin, report, lp, samples, metric,
       any_value(figure) FILTER (model_family = 'Qwen') AS qwen,
       any_value(figure) FILTER (model_family = 'LLaMA') AS llama,
       CASE WHEN is_rate THEN llama / nullif(qwen, 0) ELSE qwen / nullif(llama, 0) END AS ratio,
       CASE WHEN is_rate THEN 'LLaMA / Qwen' ELSE 'Qwen / LLaMA' END AS ratio_of,
       any_value(run_id) FILTER (model_family = 'Qwen') AS qwen_run,
       any_value(run_id) FILTER (model_family = 'LLaMA') AS llama_run
FROM figures
GROUP BY origin, report, lp, samples, sampling, backend, batch_size, device, place, metric, is_rate
ORDER BY report = '002' DESC NULLS LAST, report, samples DESC, lp = 'none', lp, sampling, backend, batch_size, device,
         place
