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
select t."id" as "left_id",
       s."id" as "right_id"
from "people" as t
join "people" as s
  on t."id" = s."id"
 and not (t."id" is not distinct from s."id");

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
