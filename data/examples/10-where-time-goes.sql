-- title: Where does the time of a sample go?
-- description: Counted parts of the runs measured here, a row a part, in milliseconds a sample. The rest is what no
--   counter counted.
UNPIVOT (
    SELECT coalesce(model_alias || coalesce(':' || model_step, ''), label) || ' · ' || lp AS run, run_id,
           1000 * template_s / samples AS template, 1000 * prefill_s / samples AS prefill,
           1000 * forward_s / samples AS forward, 1000 * constraint_s / samples AS "constraint",
           1000 * sampling_s / samples AS sampling,
           1000 * (wall_s - template_s - prefill_s - forward_s - constraint_s - sampling_s) / samples AS rest
    FROM runs WHERE origin = 'measured' AND samples > 0
) ON template, prefill, forward, "constraint", sampling, rest INTO NAME part VALUE ms_a_sample
