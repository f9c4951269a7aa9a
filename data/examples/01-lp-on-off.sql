-- title: What does each LP cost and bring, model by model?
-- description: One row a run that was measured here. Pass rate is by the reports' rule, under which junk may pass;
--   decodes is by the rule of the group's runner; clean asks for every block to be exact or unverified.
SELECT coalesce(model_alias || coalesce(':' || model_step, ''), label) AS model, lp, samples,
       wall_s / samples AS s_a_sample, tokens / samples AS tokens_a_sample, 1000 * wall_s / tokens AS ms_a_token,
       100.0 * forced_tokens / tokens AS forced_percent, 100.0 * passes / samples AS pass_percent,
       100.0 * decodes / samples AS decodes_percent, 100.0 * clean / samples AS clean_percent, run_id
FROM runs WHERE origin <> 'reported' AND samples > 0 AND tokens > 0
ORDER BY model, lp = 'none' DESC, lp, run_id
