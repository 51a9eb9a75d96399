-- The quick start's join by sqlite3, which is not ours, and the comparison with what Millrace wrote. Run in the folder
-- that holds packages.csv, depends.csv and result.csv (all part files in one, without their header lines).
--
-- The last line printed: rows expected, rows found, rows that one side has more often than the other. All columns are
-- text here, so values are compared as they are written; an empty field, which is NULL to Millrace, is an empty text on
-- both sides.
.bail on
PRAGMA journal_mode = OFF;
PRAGMA temp_store = MEMORY;
CREATE TABLE packages(package, version, section, priority, installed_size, maintainer, homepage);
CREATE TABLE depends(package, dependency, kind);
CREATE TABLE found(package, dependency, kind,
                   name, version, section, priority, installed_size, maintainer, homepage);
.import --csv --skip 1 packages.csv packages
.import --csv --skip 1 depends.csv depends
.import --csv result.csv found
CREATE INDEX packages_package ON packages(package);
CREATE TABLE expected AS
    SELECT d.*, p.package AS name, version, section, priority, installed_size, maintainer, homepage
    FROM depends d JOIN packages p ON d.dependency = p.package;
.mode list
SELECT (SELECT count(*) FROM expected), (SELECT count(*) FROM found), (
    SELECT coalesce(sum(abs(surplus)), 0) FROM (
        SELECT sum(side) AS surplus
        FROM (SELECT package, dependency, kind, name, version, section, priority, installed_size, maintainer, homepage,
                     1 AS side FROM expected
              UNION ALL SELECT *, -1 FROM found)
        GROUP BY package, dependency, kind, name, version, section, priority, installed_size, maintainer, homepage));
