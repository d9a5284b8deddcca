-- Where each seat stands: what best available chooses by. Apart from the seat's own row, which every hold rewrites: a
-- wider row would make each of those writes longer, and this one never changes with a sale.
--
-- The plan's order is that of section_index, row_index and place. Neighbours are positions in a row: what is printed on
-- a seat decides nothing, and rows of a section may share a name.
CREATE TABLE seat_place (
  event_id      bigint  NOT NULL,
  seat_id       int     NOT NULL,
  section_index int     NOT NULL,  -- of the seat's section among the plan's, from 0
  row_index     int     NOT NULL,  -- of its row in the section, from 0
  place         int     NOT NULL,  -- in its row, from 0
  x             int     NOT NULL,  -- of its centre, in plan units; to the right
  y             int     NOT NULL,  -- downwards
  accessible    boolean NOT NULL,  -- given out when asked for, never otherwise
  companion     boolean NOT NULL,  -- given out beside an accessible seat, never otherwise
  CONSTRAINT seat_place_pk PRIMARY KEY (event_id, seat_id),
  CONSTRAINT a_place_counts_from_0 CHECK (section_index >= 0 AND row_index >= 0 AND place >= 0)
);
