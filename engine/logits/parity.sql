, filters AS (  -- the mildest first
    FROM (VALUES (0, 'all', []), (1, 'skip 0', [0]), (2, 'skip 0 and 2', [0, 2]), (3, 'from 3 on', [0, 1, 2]))
    AS of(filter, name, left_out)
),
ways AS (SELECT true AS is_whole UNION ALL SELECT false WHERE EXISTS (FROM paired WHERE is_flagged)),
kept AS (  -- a pair that does not count has no values
    SELECT filter, is_whole, entry, entry * 8 + filter * 2 + is_whole::INTEGER AS row, position, is_flagged,
           is_whole OR NOT is_flagged AS is_of, is_of AND NOT is_finite AS is_wrong,
           if(is_of AND is_finite, control, NULL) AS c, if(is_of AND is_finite, test, NULL) AS t
    FROM paired, filters, ways WHERE NOT list_contains(left_out, position)
),
ranked AS (  -- twice the ranks, counted from their middle; equal values have equal ones
    SELECT *, rank() OVER (its ORDER BY c DESC) AS c_down, rank() OVER (its ORDER BY c) - c_down AS c_rank,
           rank() OVER (its ORDER BY t DESC) AS t_down, rank() OVER (its ORDER BY t) - t_down AS t_rank
    FROM kept WINDOW its AS (PARTITION BY row)  -- one number: partitions by three columns take twice as long
),
places AS MATERIALIZED (
    SELECT filter, is_whole, entry, count(c) AS values,
           count(*) FILTER (is_flagged) AS flagged, count(*) FILTER (is_wrong) AS not_finite,
           sum(t - c) AS shift, sum(abs(t - c)) AS distance, sum((t - c) ** 2) AS square, sum(c ** 2) AS size,
           max(abs(t - c)) AS max_difference, max(abs(t - c) / nullif(greatest(abs(c), abs(t)), 0)) AS max_relative,
           sqrt(square / nullif(size, 0)) AS relative,
           sum(c * t) / nullif(sqrt(size) * sqrt(sum(t ** 2)), 0) AS cosine,
           sum(c_rank * t_rank) / nullif(sqrt(sum(c_rank ** 2)) * sqrt(sum(t_rank ** 2)), 0) AS rank,
           if(count(c) > 1, min(position) FILTER (c_down = 1) = min(position) FILTER (t_down = 1), NULL) AS has_same_top
    FROM ranked GROUP BY filter, is_whole, entry
),
figures AS (
    SELECT filter, name, is_whole, coalesce(sum(flagged), 0)::BIGINT AS flagged,
           count(*) FILTER (values > 0) AS entries, coalesce(sum(values), 0)::BIGINT AS values,
           coalesce(sum(not_finite), 0)::BIGINT AS not_finite, max(max_difference) AS max_difference,
           sum(distance) / sum(values) AS mean_difference, sum(shift) / sum(values) AS shift,
           sqrt(sum(square) / nullif(sum(size), 0)) AS relative,
           coalesce(max(max_relative), max(max_difference)) AS max_relative,
           avg(cosine) AS cosine, avg(rank) AS rank, avg(has_same_top::INTEGER) AS top_1
    FROM filters JOIN ways ON true LEFT JOIN places USING (filter, is_whole) GROUP BY filter, name, is_whole
),
of_all AS MATERIALIZED (  -- each entry, without its flagged values
    SELECT p.entry, checkpoint, token_idx, sequence, values, max_difference, relative, cosine,
           round(abs(1 - cosine), 15) AS apart, has_same_top, p.flagged
    FROM places AS p JOIN logit_entries AS e ON e.entry = p.entry AND log_id = $control
    WHERE filter = 0 AND is_whole = (SELECT bool_and(is_whole) FROM ways)
),
checkpoints AS (
    SELECT checkpoint, count(*) AS both, min_by(token_idx, entry) FILTER (relative > $tolerance) AS diverges_at,
           median(relative) AS median, max(relative) AS largest, min(entry) AS entry
    FROM of_all GROUP BY checkpoint
)
SELECT (SELECT list(one ORDER BY filter, is_whole DESC) FROM figures AS one) AS figures,
       (SELECT list(one ORDER BY entry) FROM of_all AS one) AS places,
       (SELECT list(one ORDER BY entry) FROM checkpoints AS one) AS checkpoints,
       (SELECT list(DISTINCT position ORDER BY position) FROM paired WHERE is_flagged) AS flagged_positions,
       (SELECT count(*) FROM named) = 0 AND (SELECT max(sequence) FROM logit_entries) > 0 AS by_number
