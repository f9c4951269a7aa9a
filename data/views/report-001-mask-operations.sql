-- title: How many elementwise operations are shorter than 50 µs?
-- reproduces: report 001, section Queries to run on both traces, 1
-- description: The report takes their number for the masks of FREE positions. It counts all short elementwise work, of
--   which masks are a part that no name tells; marks of the constraint, where a trace has them, say what masking took.
--   Kernels only: a trace without a device has no row.
SELECT coalesce(label, trace_id) AS trace, sum(short_calls)::BIGINT AS short_calls, sum(calls)::BIGINT AS calls,
       round(sum(total_us) / 1000, 3) AS total_ms, origin, trace_id
FROM trace_ops JOIN traces USING (trace_id)
WHERE side = 'device' AND name ILIKE '%elementwise%'
GROUP BY trace_id, origin, label ORDER BY trace_id
