-- name: 07-why-samples-fail
-- title: Why do samples fail, run by run?
-- description: A sample may have several issues and counts once for each. Runs in which all passed have no row.
SELECT run_id, issue, count(*) AS samples
FROM (SELECT run_id, unnest(issues) AS issue FROM samples WHERE NOT passed)
GROUP BY run_id, issue ORDER BY run_id, samples DESC, issue
