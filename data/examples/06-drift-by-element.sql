-- title: At which elements do blocks drift?
-- description: Blocks whose drift is known, by element: positive is prone to junk, negative is cut. Blocks that were cut
--   lack a number that nobody knows, so they are counted apart.
SELECT element, tokenizer || ' · ' || lp AS tokenizer_and_lp, count(*) AS blocks, avg(drift) AS mean_drift,
       100.0 * count(*) FILTER (drift > 0) / count(drift) AS junk_prone_percent,
       100.0 * count(*) FILTER (list_contains(kinds, 'cut')) / count(*) AS cut_percent
FROM blocks JOIN runs USING (run_id)
GROUP BY ALL HAVING count(*) >= 20 ORDER BY element, tokenizer_and_lp
