-- Small blobs of new trials that have no file yet. A row is stored together with the trial, which
-- is faster than a file for each. The server writes the files later and then deletes the rows.
CREATE TABLE unwritten_blobs (
    digest TEXT NOT NULL PRIMARY KEY,
    data BLOB NOT NULL
);
