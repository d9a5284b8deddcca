-- Events whose line's policy is put again and again until their sale is over: found without reading those of the past.
CREATE INDEX event_sale_ends_soonest_first ON event (sale_end_time, event_id) WHERE published_time IS NOT NULL;
