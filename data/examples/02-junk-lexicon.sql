-- title: Which junk is written most often?
-- description: What is in blocks where it does not belong, as texts, of all runs. Of how many runs and samples it is
--   keeps one strange answer from looking like a habit.
SELECT junk_text, count(*) AS blocks, count(DISTINCT (run_id, sample_id)) AS samples, count(DISTINCT run_id) AS runs
FROM blocks WHERE junk_text <> ''
GROUP BY junk_text ORDER BY blocks DESC, junk_text LIMIT 50
