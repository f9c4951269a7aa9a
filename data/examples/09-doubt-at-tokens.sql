-- title: Where does the LP force what the model did not want?
-- description: Runs that kept their steps: how often the token that was written was not the model's first choice, forced
--   and free, by the part of the text that the position is in.
SELECT run_id, role, forced, count(*) AS tokens, 100.0 * count(*) FILTER (rank_raw > 1) / count(*) AS not_first_percent,
       median(p_raw) AS median_p_raw, avg(allowed_mass) AS mean_allowed_mass
FROM steps GROUP BY run_id, role, forced ORDER BY run_id, role, forced
