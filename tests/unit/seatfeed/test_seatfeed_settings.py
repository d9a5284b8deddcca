from services.seatfeed.settings import Settings


def test_settings_that_are_shown_show_no_secret() -> None:
    settings = Settings(redis_url="redis://:s3cret@h", shards="s1=postgresql://seatfeed:s3cret@h/b")
    assert "s3cret" not in repr(settings)
