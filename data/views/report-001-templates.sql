-- title: What were the longest spans of building and of templates?
-- reproduces: report 001, section Queries to run on both traces, 3
-- description: Marked spans whose name has one or the other word in it, the longest of each trace. A trace that was
--   captured here marks driftscope::template; others have what their makers marked, which may be nothing.
SELECT coalesce(label, trace_id) AS trace, name, round(start_us / 1000, 3) AS start_ms, round(dur_us / 1000, 3) AS ms,
       origin, trace_id
FROM trace_marks JOIN traces USING (trace_id)
WHERE name ILIKE '%build%' OR name ILIKE '%template%'
QUALIFY row_number() OVER (PARTITION BY trace_id ORDER BY dur_us DESC, start_us) <= 5
ORDER BY trace_id, ms DESC
