-- title: Molecule by molecule: how much longer or shorter than the control's are the tests' answers?
-- description: Answers of the same molecule and generation, the control's next to each test's. Needs a control and a test,
--   chosen above: `$control` and `$tests` mean them.
SELECT test.run_id, test.sample_id, smiles, control.tokens AS control_tokens, test.tokens AS test_tokens,
       test.tokens / control.tokens AS ratio, control.passed AS control_passed, test.passed AS test_passed
FROM samples AS control JOIN samples AS test USING (smiles, generation)
WHERE control.run_id = $control AND test.run_id IN $tests
ORDER BY test.run_id, ratio DESC, test.sample_id
