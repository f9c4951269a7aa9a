-- title: How many attention calls are there, and how long does one take?
-- reproduces: report 001, section Queries to run on both traces, 2
-- description: The report calls the mean of an attention kernel the mean of a forward pass; it is that of one layer's
--   attention alone. Calls over layers are forward passes of a whole batch, and not tokens. Without a device these are
--   operators: one inside another counts too, and times are without those inside.
SELECT coalesce(label, trace_id) AS trace, sum(calls)::BIGINT AS calls,
       round(sum(coalesce(self_us, total_us)) / sum(calls), 3) AS mean_us,
       round(sum(coalesce(self_us, total_us)) / 1000, 3) AS total_ms, any_value(forward_passes) AS forward_passes,
       origin, trace_id
FROM trace_ops JOIN traces USING (trace_id)
WHERE family = 'attention'
GROUP BY trace_id, origin, label ORDER BY trace_id
