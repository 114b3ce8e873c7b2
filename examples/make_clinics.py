"""Generate examples/data/clinics.csv: 2,000 visits to eight fictional clinics, with deliberate errors.

    python examples/make_clinics.py

The result is always the same file. The errors are typical ones: a typo, a row entered twice, a number with swapped
digits, two visits in one room at the same time.
"""

from __future__ import annotations

import csv
import datetime
import random
from pathlib import Path

TARGET = Path(__file__).parent / "data" / "clinics.csv"
N_VISITS = 2_000
COLUMNS = (
    *("visit", "clinic", "zip", "city", "state", "phone", "physician", "specialty", "room", "begins", "ends"),
    *("code", "procedure", "plan", "charge", "copay"),
)
CLINICS = (
    ("Alder Street Clinic", "02139", "Cambridge", "MA", "617-555-0101"),
    ("Birch Hill Clinic", "04101", "Portland", "ME", "207-555-0102"),
    ("Cedar Point Clinic", "05401", "Burlington", "VT", "802-555-0103"),
    ("Dogwood Clinic", "03301", "Concord", "NH", "603-555-0104"),
    ("Elm Square Clinic", "02903", "Providence", "RI", "401-555-0105"),
    ("Fir Lane Clinic", "06103", "Hartford", "CT", "860-555-0106"),
    ("Ginkgo Clinic", "12207", "Albany", "NY", "518-555-0107"),
    ("Hazel Court Clinic", "01608", "Worcester", "MA", "508-555-0108"),
)
PHYSICIANS = (
    *(("Dr. Okafor", "cardiology"), ("Dr. Lindqvist", "dermatology"), ("Dr. Haddad", "general practice")),
    *(("Dr. Moreau", "general practice"), ("Dr. Tanaka", "orthopaedics"), ("Dr. Silva", "paediatrics")),
)
PROCEDURES = (
    ("C100", "consultation", 90.0),
    ("C110", "follow-up consultation", 60.0),
    ("E210", "electrocardiogram", 140.0),
    ("L310", "blood panel", 75.0),
    ("M410", "vaccination", 45.0),
    ("R510", "radiograph", 180.0),
    ("S610", "minor surgery", 420.0),
)
PLANS = {"basic": 0.30, "plus": 0.20, "full": 0.10}
Visit = dict[str, str]


def visits(chance: random.Random) -> list[Visit]:
    """Visits without errors: no room or physician is booked twice, and the copay follows the charge."""
    made: list[Visit] = []
    day = datetime.datetime(2024, 3, 4, 9)
    while len(made) < N_VISITS:
        for place, (clinic, zip_code, city, state, phone) in enumerate(CLINICS):
            for room in ("1", "2"):
                begins = day + datetime.timedelta(minutes=15 * chance.randrange(2))
                while begins.hour < 12 and len(made) < N_VISITS:
                    ends = begins + datetime.timedelta(minutes=chance.choice((15, 30, 45)))
                    name, specialty = PHYSICIANS[(place * 2 + int(room) + day.toordinal()) % len(PHYSICIANS)]
                    code, procedure, price = chance.choice(PROCEDURES)
                    charge = price + 5 * chance.randrange(5)
                    plan = chance.choice(sorted(PLANS))
                    values = (
                        *(f"V{10000 + len(made)}", clinic, zip_code, city, state, phone),
                        *(f"{name} ({clinic.split()[0]})", specialty, room, str(begins), str(ends)),
                        *(code, procedure, plan, f"{charge:.2f}", f"{charge * PLANS[plan]:.2f}"),
                    )
                    made.append(dict(zip(COLUMNS, values, strict=True)))
                    begins = ends + datetime.timedelta(minutes=15 * chance.randrange(3))
        day += datetime.timedelta(days=1)
    return made


def mistyped(text: str, chance: random.Random) -> str:
    place = chance.randrange(1, len(text))
    return text[:place] + chance.choice("aeinorst") + text[place + 1 :]


def spoil(made: list[Visit], chance: random.Random) -> None:
    """Add the errors, each to different rows."""
    free = chance.sample(range(N_VISITS), 80)
    for visit in (made[free.pop()] for _ in range(9)):
        visit["city"] = mistyped(visit["city"], chance)
    for visit in (made[free.pop()] for _ in range(5)):
        visit["phone"] = visit["phone"][:-2] + visit["phone"][-2:][::-1]
    for visit in (made[free.pop()] for _ in range(4)):
        visit["procedure"] = mistyped(visit["procedure"], chance)
    for visit in (made[free.pop()] for _ in range(3)):
        visit["state"] = "MA" if visit["state"] != "MA" else "ME"
    for visit in (made[free.pop()] for _ in range(6)):
        visit["copay"] = f"{float(visit['copay']) * 3:.2f}"
    for visit in (made[free.pop()] for _ in range(2)):
        visit["copay"] = f"{float(visit['charge']) + 10:.2f}"
    for visit in (made[free.pop()] for _ in range(7)):
        earlier = datetime.datetime.fromisoformat(visit["begins"]) - datetime.timedelta(minutes=20)
        visit["begins"] = str(earlier)
    for visit in (made[free.pop()] for _ in range(1)):
        visit["begins"], visit["ends"] = visit["ends"], visit["begins"]
    for _ in range(2):
        made[free.pop()]["visit"] = made[free.pop()]["visit"]
    for visit in (made[free.pop()] for _ in range(12)):
        visit["phone"] = ""


def main() -> None:
    chance = random.Random(20240304)
    made = visits(chance)
    spoil(made, chance)
    with TARGET.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(made)


if __name__ == "__main__":
    main()
