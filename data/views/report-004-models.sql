-- title: Models whose logit logs were read, and how much of them is garbage
-- reproduces: report 004, section Models Tested
-- description: The report's six models, run by another engine, with the share of tokens whose logged logits are
--   garbage, as the report counts them. Runs measured here are missing: a run stores no logits, and what such a log
--   holds can be counted only in the log itself. Size and precision are the report's words.
SELECT origin, source[8:10] AS report, (extra->>'number')::INT AS number, model_alias AS model,
       extra->>'architecture' AS architecture, extra->>'size' AS size, extra->>'precision' AS precision, vocab_size,
       (extra->>'garbage_percent')::DOUBLE AS garbage_percent, run_id
FROM runs WHERE extra->>'garbage_percent' IS NOT NULL
ORDER BY report, number
