-- zip
-- not(t.zip == s.zip and t.city != s.city)
select t."id" as "left_id",
       t."zip" as "left_zip",
       t."city" as "left_city",
       s."id" as "right_id",
       s."zip" as "right_zip",
       s."city" as "right_city"
from "people" as t
join "people" as s
  on t."zip" = s."zip"
 and t."city" <> s."city";

-- id
-- not(t.id == s.id)
with naysay_rows as materialized (select row_number() over () - 1 as naysay_row, * from "people")
select t."id" as "left_id",
       s."id" as "right_id"
from naysay_rows as t
join naysay_rows as s
  on t."id" = s."id"
 and t.naysay_row <> s.naysay_row;

-- pay
-- not(t.salary > s.salary and t.rate < s.rate)
select t."id" as "left_id",
       t."salary" as "left_salary",
       t."rate" as "left_rate",
       s."id" as "right_id",
       s."salary" as "right_salary",
       s."rate" as "right_rate"
from "people" as t
join "people" as s
  on t."salary" > s."salary"
 and t."rate" < s."rate";

-- whole
-- not(t.id == s.id and t.name == s.name and t.zip != s.zip)
select t."id" as "left_id",
       t."name" as "left_name",
       t."zip" as "left_zip",
       s."id" as "right_id",
       s."name" as "right_name",
       s."zip" as "right_zip"
from "people" as t
join "people" as s
  on t."id" = s."id"
 and t."name" = s."name"
 and t."zip" <> s."zip";
