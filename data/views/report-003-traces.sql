-- title: Launches, attention, copies and concatenations of every trace
-- reproduces: report 003, section Summary table
-- description: One row a trace: the counts and seconds that the report sets side by side, those that it states beside
--   those of traces read or captured here. Reported traces hold nothing else; a stored one covers what was recorded.
--   Without a device these are operators: one inside another counts too, and times are without those inside.
SELECT coalesce(label, trace_id) AS trace, round(span_us / 1e6, 3) AS span_s,
       (sum(calls) FILTER (family = 'launch'))::BIGINT AS launches,
       round(sum(coalesce(self_us, total_us)) FILTER (family = 'launch') / 1e6, 3) AS launch_s,
       (sum(calls) FILTER (family = 'attention'))::BIGINT AS attention_calls,
       round(sum(coalesce(self_us, total_us)) FILTER (family = 'attention') / 1e6, 3) AS attention_s,
       (sum(calls) FILTER (family = 'copy'))::BIGINT AS copies,
       round(sum(coalesce(self_us, total_us)) FILTER (family = 'copy') / 1e6, 3) AS copy_s,
       (sum(calls) FILTER (family = 'concat'))::BIGINT AS concatenations,
       round(sum(coalesce(self_us, total_us)) FILTER (family = 'concat') / 1e6, 3) AS concatenation_s,
       any_value(tokens) AS tokens, any_value(samples) AS samples, origin, trace_id
FROM trace_ops JOIN traces USING (trace_id)
GROUP BY trace_id, origin, label, span_us ORDER BY origin DESC, trace_id
