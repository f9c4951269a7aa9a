-- title: Blocks with junk, by both counts, and blocks that were cut
-- reproduces: report 002, section 3.2
-- description: Report 002 counts blocks with a letter, report 000 those with any character but digits . , - on the same
--   texts: that is why one has 3.8 % and the other 11.1 %. Runs measured here have both, and beside them the blocks
--   that the LP closed in the middle of their numbers, which no report counts. A share that report 003 gives without
--   its counts is in its own table.
SELECT origin, CASE WHEN origin = 'reported' THEN source[8:10] END AS report,
       coalesce(model_alias || coalesce(':' || model_step, ''), model_family, label) AS model, model_family, lp, blocks,
       junk_letters, 100.0 * junk_letters / blocks AS junk_letters_percent,
       junk_nonnumeric, 100.0 * junk_nonnumeric / blocks AS junk_nonnumeric_percent,
       cut_blocks, 100.0 * cut_blocks / blocks AS cut_percent, unverified_blocks, run_id
FROM runs WHERE blocks > 0
ORDER BY report = '002' DESC NULLS LAST, report, model_family DESC, lp = 'none', lp, run_id
