-- min_reader: 2

-- A session that had ended before it was archived has still ended: its header says `was_ended`. A header is JSON here, so
-- no table changes; but a Holdfast that does not know the field would drop it with the next append, so it is kept out.
SELECT 1;
