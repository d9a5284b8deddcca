"""What the sample catalog consists of: only data. All names are invented."""

from dataclasses import dataclass, field

ARENA = ("Floor", "Lower bowl", "Upper bowl", "Upper bowl rear", "Wheelchair places")
THEATRE = ("Front stalls", "Stalls", "Balcony", "Wheelchair places", "Companion places")
HALL = ("Front", "Middle", "Rear")
CATEGORIES = {"arena": ARENA, "theatre": THEATRE, "hall": HALL}


@dataclass(frozen=True)
class SampleVenue:
    """A generated hall and where it stands."""

    name: str
    kind: str
    seats: int
    city: str
    country_code: str
    time_zone: str


@dataclass(frozen=True)
class SampleEvent:
    """`days` from today, `at` the venue's clock. Amounts are in the order of the hall's categories.

    `sale_minutes` from now: negative is on sale already. A line only with a capacity. Buyers may cancel until
    `cancel_hours` before the start; 0: never. Areas are written as for `rowlock event create`.
    """

    request_id: str
    name: str
    performer: str
    venue: str
    days: int
    at: tuple[int, int]
    currency: str
    amounts: tuple[str, ...]
    fee: str
    description: str
    sale_minutes: int = -24 * 60
    line_capacity: int = 0
    hold_seconds: int = 600
    onsale_window_seconds: int = 0
    best_available_only: bool = False
    cancel_hours: int = 48
    areas: tuple[str, ...] = ()
    prices: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        kind = next(venue.kind for venue in SAMPLE_VENUES if venue.name == self.venue)
        object.__setattr__(self, "prices", dict(zip(CATEGORIES[kind], self.amounts, strict=True)))


SAMPLE_VENUES = (
    SampleVenue("Harbour Arena", "arena", 18_000, "London", "GB", "Europe/London"),
    SampleVenue("Teatro da Ribeira", "theatre", 200, "Lisbon", "PT", "Europe/Lisbon"),
    SampleVenue("Kammerspiele am Kanal", "theatre", 420, "Berlin", "DE", "Europe/Berlin"),
    SampleVenue("Salle Belleville", "hall", 900, "Paris", "FR", "Europe/Paris"),
    SampleVenue("Foundry Hall", "hall", 1_400, "Chicago", "US", "America/Chicago"),
    SampleVenue("Sakura Hall", "hall", 600, "Tokyo", "JP", "Asia/Tokyo"),
    SampleVenue("Södra Teatern", "theatre", 350, "Stockholm", "SE", "Europe/Stockholm"),
    SampleVenue("Dhow House", "theatre", 280, "Kuwait City", "KW", "Asia/Kuwait"),
)

NOW, TOMORROW, NEXT_WEEK = -24 * 60, 24 * 60, 7 * 24 * 60

SAMPLE_EVENTS = (
    SampleEvent(
        *("tide-tables", "Tide Tables", "Marisa Vale", "Teatro da Ribeira", 9, (21, 0)),
        *("EUR", ("38.00", "28.00", "18.00", "18.00", "18.00"), "2.00"),
        "Songs for one voice and a very small piano. On sale now, no line.",
    ),
    SampleEvent(
        *("night-trains", "Night Trains: The Homecoming", "The Sleepers", "Harbour Arena", 60, (19, 30)),
        *("GBP", ("145.00", "95.00", "65.00", "45.00", "65.00"), "6.50"),
        "The last night of the tour, and the first at home in eight years.",
        line_capacity=500,
        onsale_window_seconds=7_200,
        cancel_hours=0,
    ),
    SampleEvent(
        *("night-trains-2", "Night Trains: Second Night", "The Sleepers", "Harbour Arena", 61, (19, 30)),
        *("GBP", ("145.00", "95.00", "65.00", "45.00", "65.00"), "6.50"),
        "Added because the first night will not be enough.",
        sale_minutes=TOMORROW,
        line_capacity=500,
        onsale_window_seconds=7_200,
        cancel_hours=0,
    ),
    SampleEvent(
        *("small-hours", "Small Hours", "Ada Okonjo Quartet", "Salle Belleville", 20, (20, 30)),
        *("EUR", ("55.00", "42.00", "29.00"), "3.00"),
        "The quartet that sold out three winters, back for one evening. The house gives out the best seats left.",
        line_capacity=60,
        hold_seconds=120,
        best_available_only=True,
        cancel_hours=0,
    ),
    SampleEvent(
        *("glass-weather", "Glass Weather", "Compagnie Lumière", "Salle Belleville", 27, (20, 0)),
        *("EUR", ("48.00", "36.00", "24.00"), "2.50"),
        "Seven dancers, four hundred panes, one storm.",
    ),
    SampleEvent(
        *("le-chœur", "Le Chœur des Rues", "Chœur de Belleville", "Salle Belleville", 34, (17, 0)),
        *("EUR", ("24.00", "18.00", "12.00"), "1.50"),
        "Two hundred neighbours sing what they sing at home.",
    ),
    SampleEvent(
        *("der-kanal", "Der Kanal", "Ensemble Kammerspiele", "Kammerspiele am Kanal", 5, (19, 30)),
        *("EUR", ("44.00", "34.00", "22.00", "22.00", "22.00"), "2.00"),
        "A lock keeper, two letters and a very long night. In German with English surtitles.",
    ),
    SampleEvent(
        *("der-kanal-matinee", "Der Kanal (Matinee)", "Ensemble Kammerspiele", "Kammerspiele am Kanal", 8, (15, 0)),
        *("EUR", ("36.00", "28.00", "18.00", "18.00", "18.00"), "2.00"),
        "The same night, by daylight.",
    ),
    SampleEvent(
        *("quiet-machines", "Quiet Machines", "Jonas Brandt", "Kammerspiele am Kanal", 41, (20, 0)),
        *("EUR", ("39.00", "31.00", "21.00", "21.00", "21.00"), "2.00"),
        "Music for looms, typewriters and one patient cellist.",
        sale_minutes=NEXT_WEEK,
    ),
    SampleEvent(
        *("cast-iron", "Cast Iron Comedy", "Dee Alvarez and guests", "Foundry Hall", 12, (20, 0)),
        *("USD", ("59.00", "45.00", "32.00"), "4.50"),
        "Five comics, one anvil.",
    ),
    SampleEvent(
        *("prairie-electric", "Prairie Electric", "Wheatfield", "Foundry Hall", 25, (19, 0)),
        *("USD", ("89.00", "69.00", "49.00"), "5.50"),
        "Everything they own that has a plug. Seats in rows, and a floor to stand on.",
        line_capacity=120,
        hold_seconds=120,
        areas=("Standing:600:USD 55.00",),
    ),
    SampleEvent(
        *("blue-line", "Blue Line Stories", "Radio Foundry", "Foundry Hall", 46, (18, 30)),
        *("USD", ("35.00", "28.00", "20.00"), "3.00"),
        "The radio show, with the lights on and the audience in.",
    ),
    SampleEvent(
        *("paper-moons", "Paper Moons", "Hana Ito", "Sakura Hall", 16, (18, 30)),
        *("JPY", ("8800", "6600", "4400"), "330"),
        "Shadow theatre with forty lanterns.",
    ),
    SampleEvent(
        *("nine-drums", "Nine Drums", "Kaminari", "Sakura Hall", 30, (18, 0)),
        *("JPY", ("9900", "7700", "5500"), "330"),
        "Not for the back row to be spared.",
    ),
    SampleEvent(
        *("winter-piano", "Winter Piano", "Ren Sato", "Sakura Hall", 72, (19, 0)),
        *("JPY", ("7700", "5500", "3300"), "330"),
        "Schubert, snow, silence.",
        sale_minutes=NEXT_WEEK,
    ),
    SampleEvent(
        *("björnen", "Björnen och Räven", "Lilla Ensemblen", "Södra Teatern", 6, (13, 0)),
        *("SEK", ("320.00", "260.00", "180.00", "180.00", "180.00"), "15.00"),
        "The bear and the fox, for everybody above four.",
    ),
    SampleEvent(
        *("midnattssol", "Midnattssol", "Åsa Lindqvist", "Södra Teatern", 50, (19, 30)),
        *("SEK", ("495.00", "395.00", "295.00", "295.00", "295.00"), "20.00"),
        "Songs from north of the trees.",
    ),
    SampleEvent(
        *("pearl-divers", "The Pearl Divers", "Gulf Story Circle", "Dhow House", 18, (20, 0)),
        *("KWD", ("12.500", "9.750", "6.250", "6.250", "6.250"), "0.500"),
        "Told by four voices and an oud.",
    ),
    SampleEvent(
        *("dhow-jazz", "Dhow Jazz", "Noura Al-Salem Trio", "Dhow House", 37, (21, 0)),
        *("KWD", ("14.000", "11.000", "8.000", "8.000", "8.000"), "0.500"),
        "A trio, a courtyard, the sea behind it.",
    ),
    SampleEvent(
        *("fado-menor", "Fado Menor", "Inês Duarte", "Teatro da Ribeira", 15, (21, 30)),
        *("EUR", ("34.00", "26.00", "16.00", "16.00", "16.00"), "2.00"),
        "A guitar on either side, and no microphone.",
    ),
    SampleEvent(
        *("ribeira-impro", "Improviso!", "Os Sem Papel", "Teatro da Ribeira", 22, (19, 0)),
        *("EUR", ("22.00", "18.00", "12.00", "12.00", "12.00"), "1.50"),
        "They do not know either.",
    ),
)
