-- title: How many tokens do passed and failed samples take?
-- description: One row a sample of the compared runs, so that the chart can be a histogram. `$runs` means the
--   control and its tests, chosen above.
SELECT tokens, CASE WHEN passed THEN 'passed' ELSE 'failed' END AS outcome, stop_reason, run_id, sample_id
FROM samples WHERE run_id IN $runs ORDER BY run_id, sample_id
