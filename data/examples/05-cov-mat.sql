-- title: How near do conformers come to the reference ones (COV and MAT, precision)?
-- description: Over answers whose RMSD is known: the share within 0.5 and within 1.25 angstrom (COV-P, in per cent) and
--   the mean (MAT-P, in angstrom). Answers that the strict reader refuses have no RMSD and are left out, so look at both
--   counts.
SELECT coalesce(model_alias || coalesce(':' || model_step, ''), label) || ' · ' || lp AS model_and_lp, run_id,
       count(*) AS answers, count(samples.rmsd_ang) AS with_rmsd,
       100.0 * count(*) FILTER (samples.rmsd_ang < 0.5) / count(samples.rmsd_ang) AS cov_p_050_percent,
       100.0 * count(*) FILTER (samples.rmsd_ang < 1.25) / count(samples.rmsd_ang) AS cov_p_125_percent,
       avg(samples.rmsd_ang) AS mat_p_ang, median(samples.rmsd_ang) AS median_ang
FROM samples JOIN runs USING (run_id)
GROUP BY ALL HAVING count(samples.rmsd_ang) > 0 ORDER BY run_id
