-- name: report-001-attention
-- title: How many attention calls are there, and how long does one take?
-- beside: report 001, section Queries to run on both traces, 2
-- description: The report calls the mean of an attention kernel the mean of a forward pass; it is that of one layer's
--   attention alone. Calls over layers are forward passes of a whole batch, and not tokens.
SELECT trace_id, label, sum(calls) AS calls, round(sum(total_us) / sum(calls), 3) AS mean_us,
       round(sum(total_us) / 1000, 3) AS total_ms, any_value(forward_passes) AS forward_passes
FROM trace_ops JOIN traces USING (trace_id)
WHERE family = 'attention'
GROUP BY trace_id, label ORDER BY trace_id
