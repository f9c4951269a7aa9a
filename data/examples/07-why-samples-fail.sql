-- title: Why do samples fail, run by run?
-- description: Issues of the text by the reports' rule, and checks that the molecule failed where it was judged.
--   A sample may have several reasons and counts once for each.
SELECT run_id, reason, count(DISTINCT sample_id) AS samples
FROM (
    SELECT run_id, sample_id, unnest(issues) AS reason FROM samples WHERE NOT passed
    UNION ALL
    SELECT run_id, sample_id, 'molecule: ' || check_failed.check
    FROM (SELECT run_id, sample_id, unnest(failed) AS check_failed FROM samples)
)
GROUP BY run_id, reason ORDER BY run_id, samples DESC, reason
