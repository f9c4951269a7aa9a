-- title: Qwen beside LLaMA: time, throughput, characters
-- reproduces: report 002, section 1.2
-- description: One row a metric: a run of a Qwen model beside a LLaMA model's under the same LP (in a report under its
--   own), of the same origin and report, with as many samples, the same sampling, backend, batch size and device. Of
--   several such runs the one counts whose id comes last. Ratios are Qwen over LLaMA; those of throughput are LLaMA
--   over Qwen, as in the report.
WITH latest AS (
    SELECT * REPLACE (CASE WHEN origin = 'reported' AND lp <> 'none' THEN 'its own LP' ELSE lp END AS lp),
           CASE WHEN origin = 'reported' THEN source[8:10] END AS report
    FROM runs WHERE model_family IN ('Qwen', 'LLaMA') AND wall_s > 0 AND samples > 0
    QUALIFY row_number() OVER (
        PARTITION BY origin, report, lp, samples, sampling, backend, batch_size, device, model_family
        ORDER BY run_id DESC
    ) = 1
),
figures AS (
    SELECT latest.*, place, metric, is_rate,
           CASE place WHEN 1 THEN wall_s WHEN 2 THEN chars_raw / wall_s WHEN 3 THEN chars_raw WHEN 4 THEN chars_clean
                WHEN 5 THEN 100.0 * passes / samples WHEN 6 THEN wall_s / samples END AS figure
    FROM latest CROSS JOIN (VALUES
        (1, 'total time (s)', false), (2, 'throughput (characters/s)', true), (3, 'characters, raw', false),
        (4, 'characters, clean', false), (5, 'pass rate (%)', false), (6, 'time a sample (s)', false)
    ) AS metrics (place, metric, is_rate)
)
SELECT origin, report, lp, samples, metric,
       any_value(figure) FILTER (model_family = 'Qwen') AS qwen,
       any_value(figure) FILTER (model_family = 'LLaMA') AS llama,
       CASE WHEN is_rate THEN llama / nullif(qwen, 0) ELSE qwen / nullif(llama, 0) END AS ratio,
       CASE WHEN is_rate THEN 'LLaMA / Qwen' ELSE 'Qwen / LLaMA' END AS ratio_of,
       any_value(run_id) FILTER (model_family = 'Qwen') AS qwen_run,
       any_value(run_id) FILTER (model_family = 'LLaMA') AS llama_run
FROM figures WHERE figure IS NOT NULL
GROUP BY origin, report, lp, samples, sampling, backend, batch_size, device, place, metric, is_rate
ORDER BY report = '002' DESC NULLS LAST, report, samples DESC, lp = 'none', lp, sampling, backend, batch_size, device,
         place
