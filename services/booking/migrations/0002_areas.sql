-- General admission: units of an area without seats. How many are left stands in counters, several for each area, so
-- that buyers do not queue for one row; the sum is what is left.

CREATE TABLE area (
  event_id bigint NOT NULL REFERENCES event,
  area_id  int    NOT NULL,
  name     text   NOT NULL,
  capacity int    NOT NULL,
  tier     int    NOT NULL,
  CONSTRAINT area_pk PRIMARY KEY (event_id, area_id),
  CONSTRAINT an_area_has_units CHECK (capacity > 0)
);

-- Room on the page and no index on what changes: every change is a HOT update.
CREATE TABLE area_counter (
  event_id  bigint NOT NULL,
  area_id   int    NOT NULL,
  counter   int    NOT NULL,
  available int    NOT NULL,
  CONSTRAINT area_counter_pk PRIMARY KEY (event_id, area_id, counter),
  CONSTRAINT a_counter_is_of_an_area FOREIGN KEY (event_id, area_id) REFERENCES area,
  CONSTRAINT an_area_is_never_oversold CHECK (available >= 0)
) WITH (fillfactor = 30);

-- Whose units can be had again, and whether anybody has any.
CREATE INDEX hold_of_an_area_unswept ON hold (event_id, area_id, expires_at) WHERE NOT swept AND area_id IS NOT NULL;
CREATE INDEX order_of_an_area_pending ON orders (event_id, area_id) WHERE state = 'PENDING_PAYMENT' AND area_id IS NOT NULL;
