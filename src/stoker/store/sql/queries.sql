-- Each query has a name, a sentence that says what it is for, and named parameters, in the manner of
-- `:job_id`.
--
-- The exceptions are those that a turn may run for thousands of rows: add_jobs, place_job, move_job,
-- end_job, succeed_job, place_attempt, put_attempt, start_attempt, end_attempt and succeed_attempt are
-- given their values by position (`?`). With names, `executemany` took 22 to 48 % longer for 10,000 rows
-- (start_attempt 2.3 instead of 1.7 microseconds a row, new jobs 3.8 instead of 2.6).

-- name: settings
-- What the user has set, and the daemon's own notes.
SELECT name, value FROM settings;

-- name: set_setting
-- Keeps one setting, new or changed.
INSERT INTO settings (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: unset_setting
-- Forgets one setting, so that its default counts again.
DELETE FROM settings WHERE name = :name;

-- name: searches
-- All searches, or the one of that name.
SELECT name, spec, state, progress FROM searches WHERE :name IS NULL OR name = :name;

-- name: searches_again
-- Searches that are over, and of which a point is to run again, or does.
SELECT name FROM searches
WHERE state != 'running'
  AND EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_grouped
              WHERE "group" = searches.name AND ended_at_ms IS NULL);

-- name: keep_search
-- Keeps a search, new or changed.
INSERT INTO searches (name, spec, state, progress) VALUES (:name, :spec, :state, :progress)
ON CONFLICT (name) DO UPDATE
SET spec = excluded.spec, state = excluded.state, progress = excluded.progress;

-- name: needs
-- All distinct needs of jobs, by number.
SELECT id, body FROM needs;

-- name: add_need
-- Keeps a need that no job had before; the row id is its number.
INSERT INTO needs (body) VALUES (:body);

-- name: terms
-- All distinct terms of jobs, by number.
SELECT id, body FROM terms;

-- name: add_terms
-- Keeps terms that no job had before; the row id is their number.
INSERT INTO terms (body) VALUES (:body);

-- name: environment_by_digest
-- The number of an environment that is kept already.
SELECT id FROM environments WHERE digest = :digest;

-- name: add_environment
-- Keeps an environment, once for all jobs that have it; the row id is its number.
INSERT INTO environments (digest, body, umask) VALUES (:digest, :body, :umask);

-- name: drop_unused_environments
-- Removes environments, which may hold secrets, that only removed jobs have used.
DELETE FROM environments WHERE id NOT IN (SELECT environment FROM jobs);

-- name: add_code
-- Keeps which commit jobs were queued at, once for all jobs of a submission.
INSERT OR IGNORE INTO code (id, root, commit_id) VALUES (:number, :root, :commit);

-- name: set_dirty
-- Whether tracked files of a repository were changed when jobs were queued.
UPDATE code SET dirty = :dirty WHERE id = :number;

-- name: last_code
-- The highest number of a commit that is kept.
SELECT coalesce(max(id), 0) FROM code;

-- name: drop_unused_code
-- Removes commits that only removed jobs have named.
DELETE FROM code WHERE id NOT IN (SELECT code FROM jobs WHERE code IS NOT NULL);

-- name: first_unfinished_id
-- The lowest id of a job that is not final.
SELECT min(id) FROM jobs INDEXED BY jobs_unfinished WHERE ended_at_ms IS NULL;

-- name: unfinished_jobs
-- What planning has to know of every job that is not final, from one id to another in their order, and
-- how many they are. A column is one JSON list, which is read in a small part of the time that a row for
-- each job takes. A usual job waits, and nothing has ever happened to it; the others have no need and
-- terms here, and more in unusual_jobs.
SELECT count(*),
       json_group_array(CASE WHEN state = 'waiting' AND attempt = 0 AND unmet IS NULL
                                  AND not_before_ms IS NULL AND backoff_until_ms IS NULL
                                  AND failures = 0 AND ooms = 0 AND floor_mib IS NULL
                                  AND mps_faults = 0 AND kept IS NULL
                             THEN need << :bits | terms END),
       json_group_array(priority),
       json_group_array("group")
FROM jobs {index}
WHERE ended_at_ms IS NULL AND id BETWEEN :first AND :last;

-- name: unfinished_ids
-- The ids that belong to a part of unfinished_jobs, where some ids in between are missing.
SELECT json_group_array(id) FROM jobs INDEXED BY jobs_unfinished
WHERE ended_at_ms IS NULL AND id BETWEEN :first AND :last;

-- name: unusual_jobs
-- All that planning has to know of these jobs, whose ids are a JSON list.
SELECT j.id, j.need, j.terms, j.priority, j."group", j.state, j.not_before_ms, j.backoff_until_ms,
       j.attempt, j.failures, j.unmet, j.ooms, j.floor_mib, j.mps_faults, j.place, j.resumes, j.stuck,
       j.gave_way, j.kept
FROM json_each(:job_ids) AS asked
CROSS JOIN jobs AS j ON j.id = asked.value;

-- name: active_attempt
-- The attempt of a job that is running, stopping or submitted.
SELECT job_id, number, gpus, placed_at_ms, started_at_ms, pid, place, stop_cause, stop_at_ms,
       stop_detail, warning, mem_mib, margin_mib, growth_mib, peak_mib, suspension, suspended_at_ms,
       suspended_ms, suspensions
FROM attempts
WHERE job_id = :job_id AND number = :number;

-- name: gpus
-- All GPUs, as they were when the last turn ended.
SELECT id, memory_mib, declared, drained, removing, label, vendor FROM gpus;

-- name: clear_gpus
-- Forgets all GPUs, since add_gpu then writes all of them anew.
DELETE FROM gpus;

-- name: add_gpu
-- Keeps one GPU.
INSERT INTO gpus (id, memory_mib, declared, drained, removing, label, vendor)
VALUES (:id, :memory_mib, :declared, :drained, :removing, :label, :vendor);

-- name: profiles
-- What was learned of each kind of jobs.
SELECT kind, count, max_mib, mean_mib, spread, settle_ms, use_percent, ooms, updated_at_ms,
       longest_ms
FROM profiles;

-- name: put_profile
-- Keeps what was learned of one kind, in place of what was known before.
INSERT OR REPLACE INTO profiles
    (kind, count, max_mib, mean_mib, spread, settle_ms, use_percent, ooms, updated_at_ms,
     longest_ms)
VALUES (:kind, :count, :max_mib, :mean_mib, :spread, :settle_ms, :use_percent, :ooms,
        :updated_at_ms, :longest_ms);

-- name: drop_profile
-- Forgets what was learned of one kind.
DELETE FROM profiles WHERE kind = :kind;

-- name: gpu_histories
-- The course of use of each GPU.
SELECT gpu, body FROM gpu_histories;

-- name: put_gpu_history
-- Keeps the course of one GPU, in place of the one before.
INSERT OR REPLACE INTO gpu_histories (gpu, body) VALUES (:gpu, :body);

-- name: attempt_history
-- The course of GPU use of one attempt.
SELECT body FROM attempt_histories WHERE job_id = :job_id AND number = :number;

-- name: put_attempt_history
-- Keeps the course of one attempt, unless its job has been removed by now.
INSERT OR REPLACE INTO attempt_histories (job_id, number, body)
SELECT id, :number, :body FROM jobs WHERE id = :job_id;

-- name: groups
-- All groups that were ever paused or limited.
SELECT name, paused, max_running FROM groups;

-- name: set_group
-- Keeps whether a group is paused, and how many of its jobs may run.
INSERT INTO groups (name, paused, max_running) VALUES (:name, :paused, :max_running)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused, max_running = excluded.max_running;

-- name: all_run_times
-- How long the latest jobs of each kind took, by the number of their GPUs.
SELECT kind, gpus, runs FROM run_times;

-- name: put_run_times
-- Keeps how long the latest jobs of a kind took, in place of what was known before.
INSERT OR REPLACE INTO run_times (kind, gpus, runs) VALUES (:kind, :gpus, :runs);

-- name: all_usage
-- The GPU time that each group has used, as of a moment.
SELECT name, gpu_ms, at_ms FROM group_usage;

-- name: put_usage
-- Keeps what a group has used, in place of what was known before.
INSERT OR REPLACE INTO group_usage (name, gpu_ms, at_ms) VALUES (:name, :gpu_ms, :at_ms);

-- name: all_arrivals
-- The first job of each minute in which some came, from the one in which the oldest unfinished job did.
SELECT first_id, minute FROM arrivals
WHERE first_id >= coalesce((SELECT max(first_id) FROM arrivals WHERE first_id <= :oldest), 0)
ORDER BY first_id;

-- name: add_arrival
-- Notes the first job of a minute.
INSERT OR REPLACE INTO arrivals (first_id, minute) VALUES (:first_id, :minute);

-- name: add_jobs
-- Writes new jobs: {columns} are those in which there is something, and {rows} one or more of
-- "(?1, ?2, ...)". A row that can't be written undoes the whole commit: SQLite need not put aside what a statement of
-- many rows changes, to undo that alone.
INSERT OR ROLLBACK INTO jobs ({columns}) VALUES {rows};

-- name: move_job
-- Where a job stands that is not final. Only what changes by itself: no index hangs on it.
UPDATE jobs
SET state = ?, backoff_until_ms = ?, attempt = ?, failures = ?, unmet = ?, ooms = ?,
    floor_mib = ?, mps_faults = ?, place = ?, resumes = ?, stuck = ?, gave_way = ?, kept = ?
WHERE id = ?;

-- name: place_job
-- Where a job stands that was given its GPUs, and to which nothing out of the usual has happened.
UPDATE jobs
SET state = 'running', backoff_until_ms = NULL, attempt = ?, failures = 0, unmet = NULL, ooms = 0,
    floor_mib = NULL, mps_faults = 0
WHERE id = ?;

-- name: say_job_anew
-- What its user says of a job, by an edit or a retry; a retried one loses its former ending.
UPDATE jobs
SET state = :state, priority = :priority, need = :need, terms = :terms, "group" = :group,
    not_before_ms = :not_before_ms,
    ended_at_ms = NULL, cause = NULL, exit_code = NULL, signal = NULL, detail = NULL
WHERE id = :job_id;

-- name: queue_again
-- When its user queued a final job again: since then it waits.
UPDATE jobs SET queued_again_at_ms = :at_ms WHERE id = :job_id;

-- name: edit_job
-- Replaces the name, command and kind of a job, after an edit, and which commit it was queued at.
UPDATE jobs SET name = :name, launch = :launch, kind = :kind, code = :code WHERE id = :job_id;

-- name: end_job
-- How and when a job ended, for good.
UPDATE jobs
SET state = ?, attempt = ?, failures = ?, ended_at_ms = ?, cause = ?, exit_code = ?,
    signal = ?, detail = ?
WHERE id = ?;

-- name: succeed_job
-- The same for a job that ended with exit code 0 and nothing else to tell.
UPDATE jobs
SET state = 'succeeded', attempt = ?, failures = ?, ended_at_ms = ?, cause = 'exit', exit_code = 0,
    signal = NULL, detail = NULL
WHERE id = ?;

-- name: place_attempt
-- A new attempt that was given its GPUs, and of which nothing else is known yet.
INSERT INTO attempts (job_id, number, gpus, placed_at_ms) VALUES (?, ?, ?, ?)
ON CONFLICT (job_id, number) DO UPDATE SET placed_at_ms = excluded.placed_at_ms;

-- name: put_back_attempt
-- Forgets an attempt for which the machine had not enough of something: its number is given again.
DELETE FROM attempts WHERE job_id = :job_id AND number = :number;

-- name: put_attempt
-- All that is known of an active attempt, whether its row is there or not.
INSERT INTO attempts (job_id, number, gpus, placed_at_ms, started_at_ms, pid, place,
                      stop_cause, stop_at_ms, stop_detail, warning, mem_mib, margin_mib, growth_mib,
                      peak_mib, suspension, suspended_at_ms, suspended_ms, suspensions)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (job_id, number) DO UPDATE
SET placed_at_ms = excluded.placed_at_ms, started_at_ms = excluded.started_at_ms,
    pid = excluded.pid, place = excluded.place, stop_cause = excluded.stop_cause,
    stop_at_ms = excluded.stop_at_ms, stop_detail = excluded.stop_detail, warning = excluded.warning,
    mem_mib = excluded.mem_mib, margin_mib = excluded.margin_mib, growth_mib = excluded.growth_mib,
    peak_mib = excluded.peak_mib, suspension = excluded.suspension,
    suspended_at_ms = excluded.suspended_at_ms, suspended_ms = excluded.suspended_ms,
    suspensions = excluded.suspensions;

-- name: start_attempt
-- Since when an attempt runs, and as which process, if that is all that is new.
UPDATE attempts SET started_at_ms = ?, pid = ? WHERE job_id = ? AND number = ?;

-- name: end_attempt
-- How and when an attempt ended; its row is not there yet if it was placed in the same turn.
INSERT INTO attempts (job_id, number, gpus, placed_at_ms, started_at_ms, pid, place,
                      stop_cause, stop_at_ms, stop_detail, warning, mem_mib, margin_mib, growth_mib,
                      peak_mib, suspension, suspended_at_ms, suspended_ms, suspensions,
                      ended_at_ms, state, cause, exit_code, signal, detail)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (job_id, number) DO UPDATE
SET placed_at_ms = excluded.placed_at_ms, started_at_ms = excluded.started_at_ms,
    pid = excluded.pid, place = excluded.place, stop_cause = excluded.stop_cause,
    stop_at_ms = excluded.stop_at_ms, stop_detail = excluded.stop_detail, warning = excluded.warning,
    mem_mib = excluded.mem_mib, margin_mib = excluded.margin_mib, growth_mib = excluded.growth_mib,
    peak_mib = excluded.peak_mib, suspension = excluded.suspension,
    suspended_at_ms = excluded.suspended_at_ms, suspended_ms = excluded.suspended_ms,
    suspensions = excluded.suspensions,
    ended_at_ms = excluded.ended_at_ms, state = excluded.state,
    cause = excluded.cause, exit_code = excluded.exit_code, signal = excluded.signal,
    detail = excluded.detail;

-- name: succeed_attempt
-- The same for a success whose row is there, and to which nothing out of the usual has happened.
UPDATE attempts
SET placed_at_ms = ?, started_at_ms = ?, pid = ?, ended_at_ms = ?, state = 'succeeded',
    cause = 'exit', exit_code = 0
WHERE job_id = ? AND number = ?;

-- name: remove_job
-- Removes a final job; its attempts and histories go with it.
DELETE FROM jobs WHERE id = :job_id AND ended_at_ms IS NOT NULL;

-- name: launches
-- What is needed to start each job of a range of ids.
SELECT j.id, j.launch, j.name, j.user, j.kind, j.requires, j.environment, c.id, c.root, c.commit_id,
       j.params, j.point
FROM jobs AS j LEFT JOIN code AS c ON c.id = j.code WHERE j.id BETWEEN :first AND :last;

-- name: environment
-- An environment by its number, with the umask that belongs to it.
SELECT body, umask FROM environments WHERE id = :number;

-- name: count_ended
-- How many final jobs are in each state. Most jobs succeed: to count all and to sort the others by state
-- takes a third of the time that it takes to sort all of them.
WITH others (state, jobs) AS (
    SELECT state, count(*) FROM jobs INDEXED BY jobs_ended
    WHERE ended_at_ms IS NOT NULL AND state <> 'succeeded'
    GROUP BY state
), succeeded (jobs) AS (
    SELECT (SELECT count(*) FROM jobs INDEXED BY jobs_ended WHERE ended_at_ms IS NOT NULL)
           - (SELECT coalesce(sum(jobs), 0) FROM others)
)
SELECT state, jobs FROM others
UNION ALL
SELECT 'succeeded', jobs FROM succeeded WHERE jobs > 0;

-- name: run_times
-- How long the latest jobs of a kind ran that ended well, and in one go but for suspensions; on how many GPUs,
-- and with which parameters.
SELECT a.ended_at_ms - coalesce(a.started_at_ms, a.placed_at_ms) - a.suspended_ms,
       json_extract(n.body, '$.gpus'), j.params
FROM (SELECT id, attempt, need, params FROM jobs INDEXED BY jobs_kind_succeeded
      WHERE kind = :kind AND state = 'succeeded' AND resumes = 0 ORDER BY id DESC LIMIT :most) AS j
JOIN needs AS n ON n.id = j.need
JOIN attempts AS a ON a.job_id = j.id AND a.number = j.attempt;

-- name: attempts_of
-- All attempts of a job, for `stoker show`.
SELECT * FROM attempts WHERE job_id = :job_id ORDER BY number;

-- name: add_submission
-- Notes the jobs of a submission, so that a client that repeats it gets the same answer.
INSERT INTO submissions (token, at_ms, job_ids) VALUES (:token, :at_ms, :job_ids);

-- name: add_notice
-- Something that a user is to be told, or a hook that is to be run.
INSERT INTO notices (what, subject, at_ms, body) VALUES (:what, :subject, :at_ms, :body);

-- name: due_notices
-- The oldest notices that may be sent now; in quiet hours, only hooks.
SELECT id, what, subject, at_ms, body, tries FROM notices
WHERE again_at_ms <= :now_ms AND (what = 'hook' OR NOT :quiet)
ORDER BY id LIMIT :most;

-- name: next_notice_ms
-- When the next notice may be sent, and the oldest that there is.
SELECT min(again_at_ms), min(id) FROM notices WHERE what = 'hook' OR NOT :quiet;

-- name: notice_done
-- It was sent, or run, or is given up.
DELETE FROM notices WHERE id = :id;

-- name: notice_failed
-- It could not be sent, and is tried again then.
UPDATE notices SET tries = tries + 1, again_at_ms = :again_at_ms WHERE id = :id;

-- name: drop_messages
-- Forgets all messages, since there is no address for them any more; hooks stay.
DELETE FROM notices WHERE what <> 'hook';

-- name: open_group
-- A job of a group has ended, and its user wants to know when all of them have.
INSERT OR IGNORE INTO open_groups (name) VALUES (:name);

-- name: first_failure
-- The first job of a group that fails; no row is changed by the others.
UPDATE open_groups SET first_failed = :job_id WHERE name = :name AND first_failed IS NULL;

-- name: open_groups
-- The groups whose end is waited for.
SELECT name, first_failed FROM open_groups ORDER BY name;

-- name: close_group
-- Its end is told, or no message was asked for.
DELETE FROM open_groups WHERE name = :name;

-- name: group_is_unfinished
-- Whether a group has a job that is not final, or is a search that will have more of them.
SELECT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_unfinished
               WHERE ended_at_ms IS NULL AND "group" = :name)
    OR EXISTS (SELECT 1 FROM searches WHERE name = :name AND state = 'running');

-- name: ended_group
-- How many jobs of a group are in each state, and how many of these are points of a sweep.
SELECT state, count(*), count(point) FROM jobs WHERE "group" = :name GROUP BY state;

-- name: submission
-- The jobs of a submission that was taken before.
SELECT job_ids FROM submissions WHERE token = :token;

-- name: drop_old_submissions
-- Forgets submissions that no client will repeat any more.
DELETE FROM submissions WHERE at_ms < :before_ms;

-- name: job_rows
-- What front ends show of jobs.
SELECT j.id, j.state, j.priority, n.body AS need, t.body AS terms, j."group", j.name, j.user,
       j.submitted_at_ms, j.not_before_ms, j.backoff_until_ms, j.attempt, j.failures, j.requires,
       j.launch, j.ended_at_ms, j.cause, j.exit_code, j.signal, j.detail, j.kind, j.resumes, j.place,
       j.params, j.point, j.queued_again_at_ms, a.ended_at_ms AS attempt_ended_at_ms,
       a.gpus, a.placed_at_ms, a.started_at_ms, a.pid, a.place, a.mem_mib, a.peak_mib,
       a.suspended_at_ms, a.suspended_ms,
       c.root, c.commit_id, c.dirty
FROM jobs AS j
JOIN needs AS n ON n.id = j.need
JOIN terms AS t ON t.id = j.terms
LEFT JOIN attempts AS a ON a.job_id = j.id AND a.number = j.attempt
LEFT JOIN code AS c ON c.id = j.code
WHERE j.id IN (SELECT value FROM json_each(:job_ids))
ORDER BY j.id;

-- name: ending_rows
-- How jobs have ended, for `stoker wait`.
SELECT j.id, j.name, j.state, j.ended_at_ms, j.cause, j.exit_code, j.signal, j.detail
FROM jobs AS j
WHERE j.id IN (SELECT value FROM json_each(:job_ids))
ORDER BY j.id;

-- name: ids_of_last_ended
-- The jobs that ended last, in the order of the index: of a hundred thousand that were cancelled at once,
-- none is sorted.
SELECT id FROM jobs INDEXED BY jobs_ended WHERE ended_at_ms IS NOT NULL
ORDER BY ended_at_ms DESC LIMIT :most;

-- name: ids_ended_before
-- The jobs that ended before a moment, the first to end first.
SELECT id FROM jobs INDEXED BY jobs_ended WHERE ended_at_ms < :before_ms
ORDER BY ended_at_ms LIMIT :most;

-- name: ended_between
-- The next jobs that have ended after another (by time and id) and before a moment, with the number of
-- their attempts.
SELECT ended_at_ms, id, attempt FROM jobs INDEXED BY jobs_ended
WHERE ended_at_ms >= :after_ms AND ended_at_ms < :before_ms
      AND (ended_at_ms, id) > (:after_ms, :after_id)
ORDER BY ended_at_ms, id LIMIT :most;

-- name: standings
-- Where every job stands, and its group: whose the logs are that take room.
SELECT id, state, "group" FROM jobs;

-- name: ids_of_first_unfinished
-- The oldest jobs that are not final.
SELECT id FROM jobs INDEXED BY jobs_unfinished WHERE ended_at_ms IS NULL ORDER BY id LIMIT :most;

-- name: unfinished_writers
-- Those of the newest jobs that are not final whose output goes to a file, the latest first. To
-- look for the quoted path in the text is quick; only what has it is read as JSON.
SELECT id FROM (
    SELECT id, launch FROM jobs INDEXED BY jobs_unfinished WHERE ended_at_ms IS NULL
    ORDER BY id DESC LIMIT :most
)
WHERE instr(launch, json_quote(:path)) AND :path IN (launch ->> '$.out', launch ->> '$.err')
ORDER BY id DESC;

-- name: output_files
-- The files that the newest jobs that are not final write to, the latest first.
SELECT id, name, launch ->> '$.out', launch ->> '$.err' FROM (
    SELECT id, name, launch FROM jobs INDEXED BY jobs_unfinished WHERE ended_at_ms IS NULL
    ORDER BY id DESC LIMIT :most
)
WHERE instr(launch, '"out":"') OR instr(launch, '"err":"')
ORDER BY id DESC;

-- name: matching_ids
-- The ids that a filter lets through; {where} is put together from fixed words only.
SELECT j.id FROM jobs AS j WHERE {where} ORDER BY j.id;

-- name: last_id
-- The id of the job that was submitted last.
SELECT max(id) FROM jobs;

-- name: ids_between
-- The ids of a range that exist.
SELECT id FROM jobs WHERE id BETWEEN :first AND :last ORDER BY id;

-- name: states_between
-- The states of the jobs of a range.
SELECT id, state FROM jobs WHERE id BETWEEN :first AND :last;

-- name: kinds_of_unfinished
-- The kind and parameters of each job that is not final, for estimates of run times.
SELECT id, kind, params FROM jobs INDEXED BY jobs_unfinished WHERE ended_at_ms IS NULL;

-- name: note_removal
-- Notes that the files of a removed job are still to be deleted.
INSERT OR REPLACE INTO removals (job_id, attempts, point, call)
SELECT id, attempt, point,
       iif(json_extract(launch, '$.argv[2]') = '-' || '-call', json_extract(launch, '$.argv[3]'), NULL)
FROM jobs WHERE id = :job_id AND ended_at_ms IS NOT NULL;

-- name: removals
-- Removed jobs whose files are still to be deleted, with the number of their attempts, their points, and
-- the files of their calls.
SELECT job_id, attempts, point, call FROM removals LIMIT :most;

-- name: removal_done
-- The files of a removed job are deleted.
DELETE FROM removals WHERE job_id = :job_id;

-- name: jobs_at_points
-- The latest job of each point that has one of these hashes, which are a JSON list. In the order in
-- which the index has them, it is read once from its beginning to its end.
SELECT j.point, max(j.id), j.state
FROM json_each(:hashes) AS asked
CROSS JOIN jobs AS j INDEXED BY jobs_point ON j.point_hash = asked.value
GROUP BY j.point;

-- name: groups_of
-- How many of some jobs are in each group.
SELECT "group", count(*) FROM jobs
WHERE id IN (SELECT value FROM json_each(:job_ids)) AND "group" IS NOT NULL
GROUP BY "group";

-- name: calls_of
-- The files of the calls that some jobs make.
SELECT id, json_extract(launch, '$.argv[3]') FROM jobs
WHERE id IN (SELECT value FROM json_each(:job_ids)) AND json_extract(launch, '$.argv[2]') = '-' || '-call';

-- name: names_call
-- Whether a job has a word in its command; all jobs are looked through.
SELECT max(id) FROM jobs WHERE json_extract(launch, '$.argv[3]') = :path;

-- name: points_of
-- The point that each of some jobs is, if it is one.
SELECT id, point FROM jobs WHERE id IN (SELECT value FROM json_each(:job_ids));

-- name: browse_ids
-- The ids of one window of a list; what is put in is fixed words.
SELECT j.id
FROM jobs AS j {index}
LEFT JOIN attempts AS a ON a.job_id = j.id AND a.number = j.attempt
WHERE {where}
ORDER BY {order}
LIMIT :limit OFFSET :offset;

-- name: browse_count
-- How many jobs a list has in all; what is put in is fixed words.
SELECT count(*) FROM jobs AS j {index} WHERE {where};

-- name: browse_rows
-- What a list shows of each of its jobs.
SELECT j.id, j.name, j.state, j."group", j.priority, j.user, j.launch, n.body AS need,
       j.attempt, j.point, j.submitted_at_ms, j.ended_at_ms, j.cause, j.exit_code, j.signal,
       j.detail, j.queued_again_at_ms, a.ended_at_ms AS attempt_ended_at_ms,
       a.gpus, a.placed_at_ms, a.started_at_ms, a.suspended_at_ms, a.suspended_ms, j.params
FROM jobs AS j
JOIN needs AS n ON n.id = j.need
LEFT JOIN attempts AS a ON a.job_id = j.id AND a.number = j.attempt
WHERE j.id IN (SELECT value FROM json_each(:job_ids));

-- name: required_by
-- What some jobs require: the one required, the one that requires it, and whether it must succeed.
SELECT o.id, j.id, r.value ->> '$[1]'
FROM jobs AS j, json_each(j.requires) AS r
JOIN jobs AS o ON o.id BETWEEN r.value ->> '$[0]' AND coalesce(r.value ->> '$[2]', r.value ->> '$[0]')
WHERE j.id IN (SELECT value FROM json_each(:job_ids)) AND r.value ->> '$[3]' IS NULL
ORDER BY o.id LIMIT :most;

-- name: requiring
-- What requires some jobs: as above. A job only ever requires earlier ones.
SELECT o.value, j.id, r.value ->> '$[1]'
FROM jobs AS j, json_each(j.requires) AS r, json_each(:job_ids) AS o
WHERE j.requires IS NOT NULL AND j.id > (SELECT min(value) FROM json_each(:job_ids))
      AND o.value BETWEEN r.value ->> '$[0]' AND coalesce(r.value ->> '$[2]', r.value ->> '$[0]')
      AND r.value ->> '$[3]' IS NULL
ORDER BY j.id LIMIT :most;

-- name: outlines
-- What one calls some jobs, and where they stand.
SELECT id, name, state FROM jobs WHERE id IN (SELECT value FROM json_each(:job_ids));

-- name: states_of
-- The states of some jobs.
SELECT id, state FROM jobs WHERE id IN (SELECT value FROM json_each(:job_ids));

-- name: latest_attempts
-- The number of the latest attempt of some jobs, of those that have one.
SELECT id, attempt FROM jobs
WHERE attempt > 0 AND id IN (SELECT value FROM json_each(:job_ids));

-- name: put_back
-- The attempts of some jobs after which these went on later.
SELECT job_id, number FROM attempts
WHERE state = 'waiting' AND job_id IN (SELECT value FROM json_each(:job_ids));

-- name: outputs
-- What tells where some jobs put their output; `in_sweep`: it is a point of a sweep.
SELECT j.id, j.name, j.launch, j.params, t.body ->> '$.executor' AS executor,
       coalesce(j.point GLOB 'sweep:*', 0) AS in_sweep
FROM jobs AS j
JOIN terms AS t ON t.id = j.terms
WHERE j.id IN (SELECT value FROM json_each(:job_ids));

-- name: positions
-- Where some jobs stand among those that wait, from 1.
SELECT id, place
FROM (SELECT id, row_number() OVER (
          ORDER BY terms NOT IN (SELECT id FROM terms WHERE json_extract(body, '$.urgent')),
                   priority, coalesce(place, id << 24), id) AS place
      FROM jobs INDEXED BY jobs_unfinished
      WHERE ended_at_ms IS NULL AND state = 'waiting')
WHERE id IN (SELECT value FROM json_each(:job_ids));

-- name: attempts_since
-- Attempts that ended after a moment, or have not ended, the latest first.
SELECT a.job_id AS id, a.number AS attempt, j.name, a.gpus,
       coalesce(replace(a.state, 'waiting', 'requeued'), j.state) AS state, a.cause, a.detail,
       coalesce(a.started_at_ms, a.placed_at_ms) AS started_at_ms, a.ended_at_ms
FROM jobs AS j INDEXED BY jobs_ended
JOIN attempts AS a ON a.job_id = j.id
WHERE j.ended_at_ms >= :since_ms AND a.ended_at_ms >= :since_ms
UNION ALL
SELECT a.job_id AS id, a.number AS attempt, j.name, a.gpus,
       coalesce(replace(a.state, 'waiting', 'requeued'), j.state) AS state, a.cause, a.detail,
       coalesce(a.started_at_ms, a.placed_at_ms) AS started_at_ms, a.ended_at_ms
FROM jobs AS j INDEXED BY jobs_unfinished
JOIN attempts AS a ON a.job_id = j.id
WHERE j.ended_at_ms IS NULL AND j.attempt > 0 AND (a.ended_at_ms IS NULL OR a.ended_at_ms >= :since_ms)
ORDER BY started_at_ms DESC
LIMIT :limit;

-- name: used_since
-- Attempts that ended after a moment, or have not ended, with what tells whose they were and how long they waited.
SELECT a.number, a.gpus, coalesce(a.started_at_ms, a.placed_at_ms) AS started_at_ms, a.ended_at_ms,
       coalesce(replace(a.state, 'waiting', 'requeued'), j.state) AS state, j.submitted_at_ms, j."group", j.user
FROM jobs AS j INDEXED BY jobs_ended
JOIN attempts AS a ON a.job_id = j.id
WHERE j.ended_at_ms >= :since_ms AND a.ended_at_ms >= :since_ms
UNION ALL
SELECT a.number, a.gpus, coalesce(a.started_at_ms, a.placed_at_ms) AS started_at_ms, a.ended_at_ms,
       coalesce(replace(a.state, 'waiting', 'requeued'), j.state) AS state, j.submitted_at_ms, j."group", j.user
FROM jobs AS j INDEXED BY jobs_unfinished
JOIN attempts AS a ON a.job_id = j.id
WHERE j.ended_at_ms IS NULL AND j.attempt > 0 AND (a.ended_at_ms IS NULL OR a.ended_at_ms >= :since_ms);

-- name: sweep_names
-- Groups that have points, by the latest job that is a point of each.
SELECT "group", max(id) AS latest
FROM jobs
WHERE "group" IS NOT NULL AND point GLOB 'sweep:*'
GROUP BY "group"
ORDER BY latest DESC
LIMIT :limit;

-- name: sweep_counts
-- How many of a sweep's points are in each state, by the latest job of each.
SELECT state, count(*)
FROM (SELECT state, max(id) FROM jobs INDEXED BY jobs_grouped
      WHERE "group" = :sweep AND point GLOB 'sweep:*' GROUP BY point)
GROUP BY state;

-- name: sweep_rows
-- The latest job of each point, in the order in which the points were first queued.
SELECT j.id, j.state, j.params, a.gpus, j.attempt, j.exit_code, j.signal, j.submitted_at_ms,
       coalesce(a.started_at_ms, a.placed_at_ms) AS started_at_ms, j.ended_at_ms
FROM (SELECT max(id) AS id, min(id) AS first FROM jobs INDEXED BY jobs_grouped
      WHERE "group" = :sweep AND point GLOB 'sweep:*' GROUP BY point) AS latest
JOIN jobs AS j ON j.id = latest.id
LEFT JOIN attempts AS a ON a.job_id = j.id AND a.number = j.attempt
ORDER BY latest.first
LIMIT :limit OFFSET :offset;

-- name: sweep_ids
-- The latest job of each point of a sweep.
SELECT max(id) FROM jobs INDEXED BY jobs_grouped
WHERE "group" = :sweep AND point GLOB 'sweep:*' GROUP BY point;

-- name: sweep_varied
-- Each parameter of a sweep's points, in how many points it is, and whether it differs.
SELECT p.key, count(*), count(DISTINCT p.type || ':' || coalesce(p.value, ''))
FROM (SELECT max(id) AS id FROM jobs INDEXED BY jobs_grouped
      WHERE "group" = :sweep AND point GLOB 'sweep:*' GROUP BY point) AS latest
JOIN jobs AS j ON j.id = latest.id, json_each(j.params) AS p
GROUP BY p.key
ORDER BY min(p.id);

-- name: sweep_jobs
-- Every job of a sweep that is one of its points, in the order in which they were queued.
SELECT j.point, j.params, j.id, j.state, j.exit_code, j.signal, j.ended_at_ms, a.gpus,
       coalesce(a.started_at_ms, a.placed_at_ms){more}
FROM jobs AS j INDEXED BY jobs_grouped
LEFT JOIN attempts AS a ON a.job_id = j.id AND a.number = j.attempt
WHERE j."group" = :sweep AND j.point GLOB 'sweep:*'
ORDER BY j.id;

-- name: search_jobs
-- The jobs of a sweep that are points of it, as a searcher has to know them: the new ones, and
-- those that it was not sure of, which the plus has SQLite find by id.
SELECT point, id, state, cause, params, attempt
FROM jobs INDEXED BY jobs_grouped
WHERE "group" = :sweep AND id > :newest AND point GLOB 'sweep:*'
UNION ALL
SELECT point, id, state, cause, params, attempt
FROM jobs
WHERE id IN (SELECT value FROM json_each(:unsure)) AND id <= :newest
  AND +"group" = :sweep AND point GLOB 'sweep:*'
ORDER BY id;

-- name: sweep_repeat
-- The parameter that only repeats the points of a sweep, as its latest job has it.
SELECT json_extract(launch, '$.options.repeat')
FROM jobs INDEXED BY jobs_grouped
WHERE "group" = :sweep AND point GLOB 'sweep:*'
ORDER BY id DESC
LIMIT 1;

-- name: sweep_states
-- Every job of a sweep that is one of its points, with what an overview needs.
SELECT j.point, j.params, j.state
FROM jobs AS j INDEXED BY jobs_grouped
WHERE j."group" = :sweep AND j.point GLOB 'sweep:*'
ORDER BY j.id;

-- name: group_counts
-- How many jobs of each group are in each state, and the latest id of each.
SELECT "group", state, count(*), max(id)
FROM jobs INDEXED BY jobs_grouped
WHERE "group" IS NOT NULL
GROUP BY "group", state;

-- name: snapshots
-- The frozen trees that jobs run in: the 32 letters behind /frozen/trees/ in their directories.
SELECT DISTINCT substr(launch, instr(launch, '/frozen/trees/') + 14, 32) FROM jobs
WHERE instr(launch, '/frozen/trees/') > 0;

-- name: past_jobs
-- The jobs queued since a moment that are over, with how long they ran (all attempts that were put
-- back and the last) and what is known of the GPU memory and use of their kinds, for `simulate`.
SELECT j.id, j.submitted_at_ms, j.priority, j."group", j.name, j.kind,
       n.body AS need, t.body AS terms,
       (SELECT sum(a.ended_at_ms - a.started_at_ms) FROM attempts AS a
        WHERE a.job_id = j.id AND a.started_at_ms IS NOT NULL AND a.ended_at_ms IS NOT NULL
          AND (a.number = j.attempt OR a.state = 'waiting')) AS ran_ms,
       (SELECT max(a.peak_mib) FROM attempts AS a WHERE a.job_id = j.id) AS peak_mib,
       p.use_percent
FROM jobs AS j
JOIN needs AS n ON n.id = j.need
JOIN terms AS t ON t.id = j.terms
LEFT JOIN profiles AS p ON p.kind = json_extract(n.body, '$.kind')
WHERE j.submitted_at_ms >= :since_ms AND j.ended_at_ms IS NOT NULL
ORDER BY j.submitted_at_ms, j.id;

-- name: usable_gpus
-- The memory of each GPU that jobs may be placed on.
SELECT memory_mib FROM gpus WHERE NOT removing ORDER BY length(label), label, id;
