from services.waitingroom.settings import WaitingRoomSettings


def test_settings_that_are_shown_show_no_secret() -> None:
    settings = WaitingRoomSettings(redis_url="redis://:s3cret@h", signing_keys=f"k1:{'s3cret' * 8}")
    assert "s3cret" not in repr(settings)
