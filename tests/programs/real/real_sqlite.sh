#!/bin/bash
# sqlite3: tables, indexes, joins, a large transaction, its own check.
set -u
# shellcheck source=/dev/null
. "$TOP/tests/programs/real/real.inc"
need sqlite3
cat >script.sql <<'END'
create table a(id integer primary key, name text, n int);
with recursive c(x) as (select 1 union all select x + 1 from c where x < 30000)
insert into a select x, printf('%08x', x * 2654435761 % 4294967296), x % 97 from c;
create index a_name on a(name);
create index a_n on a(n);
select count(*), sum(n), min(name), max(name) from a;
select n, count(*), group_concat(substr(name, 1, 2), '') from a where id < 2000 group by n;
select count(*) from a x join a y on x.name = y.name where x.n > 50;
begin;
update a set name = name || 'y' where n % 3 = 0;
delete from a where n % 5 = 0;
commit;
select n, max(name) from a group by n order by 2;
create virtual table f using fts5(name);
insert into f select name from a limit 3000;
select count(*) from f where f match '0*';
vacuum;
pragma integrity_check;
END
run() { with "$1" sqlite3 data.db <../script.sql; }
in_each run
