-- title: Where does each LP's time go, model by model?
-- description: Profiler traces of stored runs, by family of operations: operators on the host, and work of a device where
--   there is one. Times of operators do not count those inside them. Small families are one row.
WITH of_family AS (
    SELECT model_alias || coalesce(':' || model_step, '') AS model, lp, side, family,
           sum(self_us) / 1000 AS ms, sum(calls) AS calls, count(DISTINCT trace_id) AS traces
    FROM trace_ops JOIN traces USING (trace_id) JOIN runs USING (run_id)
    WHERE side IN ('host', 'device')
    GROUP BY ALL
)
SELECT model, lp, side, if(share < 2, 'the rest', family) AS family, sum(ms) AS ms, sum(share) AS percent,
       sum(calls)::BIGINT AS calls, max(traces) AS traces
FROM (SELECT *, 100 * ms / sum(ms) OVER (PARTITION BY model, lp, side) AS share FROM of_family)
GROUP BY ALL ORDER BY model, min(lp <> 'none'), lp, side, min(share < 2), ms DESC
